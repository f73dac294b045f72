#!/usr/bin/env node
/** The command line: only parsing and printing. */
import {
  languageModelGolden,
  sessionOptions,
  type DecoderSubjectOptions,
} from '@mlx-runners/lm/command-line';
import {
  addExportCommands,
  addGoldenCommand,
  addModelsCommand,
  createProgram,
  precisionOption,
  runProgram,
  withDecoderExportOptions,
} from '@mlx-runners/runner';
import { loadForExport, tinyForExport } from './export-subject.js';
import { manifest } from './manifest.js';
import { writesStories } from './write-command.js';

const program = createProgram('stories110m', import.meta.url);
writesStories(program);
addGoldenCommand(program, [languageModelGolden]);
addExportCommands<DecoderSubjectOptions>(program, manifest, {
  withOptions: (command) => withDecoderExportOptions(command).addOption(precisionOption()),
  load: loadForExport,
  example: (folder) => `stories110m -m ${folder}`,
  tiny: tinyForExport,
  sessionOptions,
});
addModelsCommand(program, manifest);

await runProgram(program);
