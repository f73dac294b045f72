/** What calls of a runner's library throw, for `instanceof`; each has a `code` too. */
export {
  AbortedError,
  AudioError,
  BusyError,
  CheckpointError,
  DisposedError,
  DtypeError,
  FileError,
  HubError,
  MemoryError,
  MlxRunnersError,
  NativeError,
  ProgramError,
  ShapeError,
  UsageError,
  type ErrorCode,
} from '@mlx-runners/mlx-core/errors';
