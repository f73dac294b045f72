// Finds out which BLAS and LAPACK a built libmlx asks for, and writes the entries that stand in for
// them.
//
//   node needed.mjs <libmlx.so> <scipy_openblas32 folder> <entries.inc to write>
//
// Prints the library names (SONAMEs) to provide, the BLAS first, separated by semicolons, as a CMake
// list; prints nothing when libmlx needs none. Exits 1 when OpenBLAS lacks something.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { readElf } from './elf.mjs';

/** An entry that stands in shim.cpp. */
const WRITTEN_BY_HAND = 'cblas_sgemm';
const BLAS_LIBRARY = /^lib(c?blas|lapack)[-.]/;
// `cblas_sgemm`, and Fortran's `sgetrf_`.
const BLAS_SYMBOL = /^(cblas_[a-z0-9_]+|[a-z][a-z0-9]*_)$/;

/** The SONAMEs to replace. The BLAS stands first: its replacement carries the code. */
function replacedLibraries(mlx) {
  return mlx.needed.filter((name) => BLAS_LIBRARY.test(name)).sort();
}

/** Every symbol that libmlx takes from the libraries to be replaced. */
function importedSymbols(mlx, libmlxPath, libraries) {
  const folders = mlx.searchPath.map((folder) => folder.replace('$ORIGIN', dirname(libmlxPath)));
  const companions = libraries
    .flatMap((library) => folders.map((folder) => join(folder, library)))
    .filter((path) => existsSync(path))
    .map((path) => readElf(path).defined);
  // The name alone decides when an MLX build of one's own uses the system's BLAS.
  return mlx.undefined
    .filter((name) => BLAS_SYMBOL.test(name) || companions.some((defined) => defined.has(name)))
    .sort();
}

/** A function that looks up the C prototype of `cblas_sgemm` or `sgetrf_` in OpenBLAS's headers. */
function prototypeReader(includeFolder) {
  const read = (name) =>
    readFileSync(join(includeFolder, name), 'utf8')
      .replace(/\/\*[\s\S]*?\*\//g, '')
      // Also drops the #ifdef around the hidden string lengths, which gfortran's ABI passes.
      .replace(/^\s*#.*$/gm, '');
  const cblas = read('cblas.h');
  const lapack = read('lapack.h');
  return (symbol) => {
    const isCblas = symbol.startsWith('cblas_');
    const declared = isCblas
      ? `scipy_${symbol}`
      : `(?:scipy_)?LAPACK_${symbol.slice(0, -1)}(?:_base)?`;
    const match = new RegExp(`^(\\w+)\\s+${declared}\\s*\\(([^()]*)\\)\\s*;`, 'm').exec(
      isCblas ? cblas : lapack,
    );
    if (match === null) return undefined;
    return { result: match[1], parameterTypes: match[2].split(',').map(parameterType) };
  };
}

/** `float const* A` → `float const*`; a parameter without a name (`size_t`) stays as it is. */
function parameterType(parameter) {
  const text = parameter.trim().replace(/\s+/g, ' ');
  return /^\w+$/.test(text) ? text : text.replace(/\w+$/, '').trim();
}

function entrySource(symbol, { result, parameterTypes }) {
  const parameters = parameterTypes.map((type, index) => `${type} a${index}`).join(', ');
  const names = parameterTypes.map((_, index) => `a${index}`).join(', ');
  return `MLX_RUNNERS_ENTRY ${result} ${symbol}(${parameters}) {
  const Permit permit;
  return scipy_${symbol}(${names});
}
`;
}

function main(libmlxPath, openblasRoot, entriesPath) {
  const mlx = readElf(libmlxPath);
  const libraries = replacedLibraries(mlx);
  if (libraries.length === 0) return;

  const openblas = readElf(join(openblasRoot, 'lib', 'libscipy_openblas.so')).defined;
  const prototypeOf = prototypeReader(join(openblasRoot, 'include'));
  const entries = importedSymbols(mlx, libmlxPath, libraries).map((symbol) => ({
    symbol,
    prototype: openblas.has(`scipy_${symbol}`) ? prototypeOf(symbol) : undefined,
  }));
  const missing = entries.filter((entry) => entry.prototype === undefined);
  if (missing.length > 0) {
    throw new Error(
      `OpenBLAS in ${openblasRoot} does not export or declare what ${libmlxPath} takes from ` +
        `${libraries.join(' and ')}: ${missing.map((entry) => entry.symbol).join(', ')}`,
    );
  }
  const generated = entries.filter(({ symbol }) => symbol !== WRITTEN_BY_HAND);
  writeFileSync(entriesPath, generated.map((e) => entrySource(e.symbol, e.prototype)).join('\n'));
  process.stdout.write(libraries.join(';'));
}

if (process.argv.length !== 5) {
  process.stderr.write('usage: node needed.mjs <libmlx.so> <scipy_openblas32> <entries.inc>\n');
  process.exitCode = 2;
} else {
  try {
    main(...process.argv.slice(2));
  } catch (error) {
    process.stderr.write(`${error.message}\n`);
    process.exitCode = 1;
  }
}
