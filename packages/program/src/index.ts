export { exportBudgetsSchema, type ExportBudgets, type TraceBudget } from './check-budgets.js';
export {
  checkExport,
  type CheckOptions,
  type ExportCall,
  type Finding,
  type ReloadableModel,
  type RunExport,
  type SessionOptions,
} from './check-export.js';
export { runExportHere } from './check-results.js';
export type { ExportDescription } from './description.js';
export { compileModel, type CompileOptions } from './compile-model.js';
export { exportMlxfn, type MlxfnOptions } from './export-mlxfn.js';
export { exportModel, type ExportOptions } from './export-model.js';
export { formatVersion, jsonSchemas, type Manifest, type ProgramFile } from './format.js';
export type { GenerateOptions } from './generate.js';
export type { GeneratedTokens } from '@mlx-runners/mlx-core/program';
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
  inUnits,
  type ExportReport,
  type TraceReport,
} from './inspect.js';
export { loadExport, type ExportedModel } from './load-export.js';
export type { Arrays, Method, MethodInput } from './method.js';
export type { MlxfnManifest, MlxfnMethod } from './mlxfn-format.js';
export {
  packingOf,
  quantisationTypes,
  type Packing,
  type QuantisationType,
  type WeightQuantisation,
} from './quantisation.js';
export { isExport, readExport, verifyFiles } from './read-export.js';
export { formatSize, type Size, type SizeOperator, type Sizes } from './sizes.js';
export { traceMethod, type TracedMethod, type TraceOptions } from './trace-method.js';
export { fuseAddRmsNorm } from './passes/add-rms-norm.js';
export { foldCasts } from './passes/casts.js';
export { shareCommonSubexpressions } from './passes/common-subexpressions.js';
export { foldConstants } from './passes/constant-folding.js';
export { removeDeadCode } from './passes/dead-code.js';
export { hoistViews } from './passes/hoist-views.js';
export { mergeConstants } from './passes/merge-constants.js';
export { mergeLinears } from './passes/merge-linears.js';
export { mergePackedLinears } from './passes/merge-packed-linears.js';
export { allPasses } from './passes/optimise.js';
export type { Constants, Pass } from './passes/pass.js';
export { quantiseWeights, type WeightPackings } from './passes/quantise-weights.js';
export { foldViews } from './passes/views.js';
export {
  ProgramModel,
  type CallOptions,
  type CallResult,
  type ProgramManifest,
  type Session,
} from './program-model.js';
export { ProfileSummary, type SessionProfile } from './profile.js';
export { assignSlots, type SlotAssignment } from './slots.js';
