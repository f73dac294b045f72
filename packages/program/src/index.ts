export { exportBudgetsSchema, type ExportBudgets, type TraceBudget } from './check-budgets.js';
export {
  checkExport,
  type CheckOptions,
  type ExportCall,
  type Finding,
  type ReloadableModel,
  type RunExport,
} from './check-export.js';
export type { ExportDescription } from './description.js';
export {
  loadExport,
  type CallOptions,
  type CallResult,
  type ExportedModel,
  type Session,
} from './exported-model.js';
export { exportMlxfn, type MlxfnOptions } from './export-mlxfn.js';
export { exportModel, type ExportOptions } from './export-model.js';
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
export {
  formatMlxfn,
  formatReport,
  inspectExport,
  type ExportReport,
  type TraceReport,
} from './inspect.js';
export type { Arrays, Method, MethodInput } from './method.js';
export type { MlxfnManifest, MlxfnMethod } from './mlxfn-format.js';
export { isExport, readExport, verifyFiles } from './read-export.js';
export { formatSize, type Size, type SizeOperator, type Sizes } from './sizes.js';
export { traceMethod, type TracedMethod, type TraceOptions } from './trace-method.js';
export { foldCasts } from './passes/casts.js';
export { shareCommonSubexpressions } from './passes/common-subexpressions.js';
export { foldConstants } from './passes/constant-folding.js';
export { removeDeadCode } from './passes/dead-code.js';
export { hoistViews } from './passes/hoist-views.js';
export { mergeConstants } from './passes/merge-constants.js';
export { mergeLinears } from './passes/merge-linears.js';
export { allPasses } from './passes/optimise.js';
export type { Constants, Pass } from './passes/pass.js';
export { quantiseLinears, type LinearQuantisation } from './passes/quantise-linears.js';
export { foldViews } from './passes/views.js';
export { ProfileSummary, type SessionProfile } from './profile.js';
export { assignSlots, type SlotAssignment } from './slots.js';
