export {
  checkExport,
  type CheckOptions,
  type ExportBudget,
  type Finding,
  type RunExport,
} from './check-export.js';
export {
  isExport,
  loadExport,
  readExport,
  verifyFiles,
  type CallOptions,
  type CallResult,
  type ExportedModel,
  type Session,
} from './exported-model.js';
export { exportModel, type ExportDescription, type ExportOptions } from './export-model.js';
export { formatVersion, jsonSchemas, type Manifest, type ProgramFile } from './format.js';
export type {
  Argument,
  ArrayType,
  Dimension,
  Graph,
  Instruction,
  Limit,
  NamedValue,
  StateValue,
} from './graph.js';
export { formatReport, inspectExport, type ExportReport, type TraceReport } from './inspect.js';
export type { Arrays, Method } from './method.js';
export { formatSize, type Size, type SizeOperator, type Sizes } from './sizes.js';
export { traceMethod, type TracedMethod, type TraceOptions } from './trace-method.js';
export { foldCasts } from './passes/casts.js';
export { shareCommonSubexpressions } from './passes/common-subexpressions.js';
export { foldConstants } from './passes/constant-folding.js';
export { removeDeadCode } from './passes/dead-code.js';
export { mergeConstants } from './passes/merge-constants.js';
export { allPasses } from './passes/optimise.js';
export type { Constants, Pass } from './passes/pass.js';
export { quantiseLinears, type LinearQuantisation } from './passes/quantise-linears.js';
export { foldViews } from './passes/views.js';
export { assignSlots, type SlotAssignment } from './slots.js';
