#!/usr/bin/env node
/** The command line: only parsing and printing. */
import {
  languageModelGolden,
  sessionOptions,
  withDecoderExportOptions,
  type DecoderSubjectOptions,
} from '@mlx-runners/lm/command-line';
import {
  addExportCommands,
  addGoldenCommand,
  addModelsCommand,
  createProgram,
  precisionOption,
  runProgram,
} from '@mlx-runners/runner';
import { loadForExport, tinyForExport } from './export.js';
import { manifest } from './manifest.js';
import { withTokenizerOption, writesStories } from './write-command.js';

const program = createProgram('stories110m', import.meta.url);
writesStories(program);
addGoldenCommand(program, [languageModelGolden]);
addExportCommands<DecoderSubjectOptions>(program, manifest, {
  withOptions: (command) =>
    withTokenizerOption(withDecoderExportOptions(command).addOption(precisionOption())),
  load: loadForExport,
  example: (folder) => `stories110m -m ${folder}`,
  tiny: tinyForExport,
  sessionOptions,
});
addModelsCommand(program, manifest);

await runProgram(program);
