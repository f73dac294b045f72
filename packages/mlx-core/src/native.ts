/** The addon: what it exports, where it is looked for, and the one error when it is nowhere. */
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { NativeError } from './errors.js';

export interface OpParam {
  name: string;
  /** Position in the enumeration `Kind` of native/ops/op.h. */
  kind: number;
  operand: boolean;
  optional: boolean;
  fallback: number | boolean | string | null;
}

export interface OpRow {
  name: string;
  doc: string;
  many: boolean;
  params: OpParam[];
}

export interface MemoryUsage {
  /** Bytes in live buffers of MLX's allocator. */
  active: number;
  /** The largest `active` since the start or `resetPeakMemory()`, in bytes. */
  peak: number;
  /** Bytes of freed buffers that the allocator keeps for reuse. */
  cache: number;
  /** Arrays of this thread that JavaScript still holds. */
  arrays: number;
}

export interface BuildInfo {
  /** Version of the loaded libmlx. */
  mlx: string;
  gpu: boolean;
  /** The BLAS library that CPU matrix products run on. */
  blas: string;
  /** Instruction set of the CPU kernels. */
  simd: string;
  /** Threads of the CPU kernels. */
  threads: number;
  lanes: number;
}

export interface MappedFileHandle {
  readonly mappedFile: unique symbol;
}

export interface Native {
  layout: { values: number; listsAt: number; lists: number; resultsAt: number; total: number };
  /** Returns the buffer to use: an earlier one, when another copy of this package gave it. */
  attach(exchange: ArrayBuffer): ArrayBuffer;
  ops(): OpRow[];
  intern(text: string): number;
  invoke(op: number, argumentCount: number, tracked: boolean): number;
  describe(id: number): number;
  drop(ids: Float64Array): void;
  track(id: number): void;
  fromBytes(bytes: Uint8Array, dtype: number, shape: readonly number[], tracked: boolean): number;
  evaluate(ids: Float64Array): Promise<void>;
  evaluateSync(ids: Float64Array): void;
  read(id: number): Promise<ArrayBuffer>;
  readSync(id: number): ArrayBuffer;
  bytes(id: number): ArrayBuffer;
  mapFile(path: string): MappedFileHandle;
  mappedArray(
    file: MappedFileHandle,
    byteOffset: number,
    dtype: number,
    shape: readonly number[],
    tracked: boolean,
  ): number;
  memory(): MemoryUsage;
  resetPeakMemory(): void;
  clearCache(): void;
  useGpu(gpu: boolean): void;
  onGpu(): boolean;
  useThreads(count: number): void;
  buildInfo(): BuildInfo;
  /** Waits for what is being evaluated; nothing can be evaluated afterwards. */
  finish(): void;
}

const file = 'mlx_core.node';
const platform = `${process.platform}-${process.arch}`;
const require = createRequire(import.meta.url);

interface Place {
  where: string;
  path: () => string;
}

/** The places where the addon may be, in the order in which they are tried. */
function places(): Place[] {
  // Whoever names a place means that one: another library in its stead would go unnoticed.
  const own = process.env.MLX_RUNNERS_NATIVE;
  if (own) {
    const path = resolve(own.endsWith('.node') ? own : join(own, file));
    return [{ where: 'MLX_RUNNERS_NATIVE', path: () => path }];
  }
  const here = dirname(fileURLToPath(import.meta.url));
  return [
    { where: 'beside the running file', path: () => join(here, file) },
    { where: 'beside the running file', path: () => join(here, 'native', file) },
    {
      where: `the package @mlx-runners/mlx-core-${platform}`,
      path: () => require.resolve(`@mlx-runners/mlx-core-${platform}/${file}`),
    },
    { where: "the workspace's build", path: () => join(here, '..', 'build', 'native', file) },
  ];
}

function remedies(): string {
  const lines = [
    `- in the workspace: npx nx run mlx-core:build-native`,
    `- elsewhere: npm install @mlx-runners/mlx-core-${platform} (needs optional dependencies: no --omit=optional)`,
    `- or point MLX_RUNNERS_NATIVE at a folder with ${file} and its libraries`,
  ];
  if (process.platform === 'linux') {
    lines.push('- the prebuilt libraries need glibc 2.35 or newer (not musl)');
  }
  return lines.join('\n');
}

function opened(addon: Native): Native {
  // process.exit() destroys what libmlx computes with, whether or not it is in use.
  process.once('exit', () => addon.finish());
  return addon;
}

function load(): Native {
  const failures: string[] = [];
  for (const { where, path } of places()) {
    try {
      const found = path();
      if (existsSync(found)) return opened(require(found) as Native);
      failures.push(`- ${where}: there is no ${found}`);
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      failures.push(`- ${where}: ${reason.split('\n')[0]}`);
    }
  }
  throw new NativeError(
    `The native library of mlx-core for ${platform} can't be loaded.\nTried:\n${failures.join('\n')}\nPossible solutions:\n${remedies()}`,
  );
}

let loaded: Native | undefined;

/**
 * The addon, loaded when it is first needed, so that `--help` works without it.
 *
 * @throws NativeError naming each place tried and the remedies for this platform
 */
export function native(): Native {
  return (loaded ??= load());
}
