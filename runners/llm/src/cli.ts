#!/usr/bin/env node
/** The command line: only parsing and printing. */
import {
  addExportCommands,
  addGoldenCommand,
  addModelsCommand,
  createProgram,
  precisionOption,
  runProgram,
} from '@mlx-runners/runner';
import {
  languageModelGolden,
  sessionOptions,
  withDecoderExportOptions,
  type DecoderSubjectOptions,
} from '@mlx-runners/lm/command-line';
import { addBatchCommand } from './batch-command.js';
import { addBenchCommand } from './bench.js';
import { addBenchContestantCommand } from './bench-contestant-command.js';
import { addChatCommand } from './chat-command.js';
import { addConvertCommand } from './convert-command.js';
import { loadForExport, tinyForExport } from './export.js';
import { addGenerateCommand } from './generate-command.js';
import { greedyGolden, perplexityGolden } from './golden-texts.js';
import { manifest } from './manifest.js';
import { addPerplexityCommand } from './perplexity-command.js';
import { checkFamily } from './pipeline.js';

const program = createProgram('llm', import.meta.url);
addGenerateCommand(program);
addChatCommand(program);
addBatchCommand(program);
addPerplexityCommand(program);
addConvertCommand(program);
addGoldenCommand(program, [languageModelGolden, greedyGolden, perplexityGolden]).addOption(
  precisionOption(),
);
addExportCommands<DecoderSubjectOptions>(program, manifest, {
  withOptions: (command) => withDecoderExportOptions(command).addOption(precisionOption()),
  load: loadForExport,
  example: (folder) => `llm generate -m ${folder} "Why is the sky blue?"`,
  tiny: tinyForExport,
  sessionOptions,
});
addModelsCommand(program, manifest, { checkConfig: checkFamily });
addBenchCommand(program);
addBenchContestantCommand(program);

await runProgram(program);
