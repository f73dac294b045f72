// Fails on hand-written source files that have grown too long to be read in one go.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { trackedFiles } from './tracked-files.mjs';

const WARN_ABOVE = 500;
const FAIL_ABOVE = 800;
const SOURCE = /\.(ts|mjs|js|cpp|h|mm|cu|metal|py|cmake)$|(^|\/)CMakeLists\.txt$/;
const GENERATED = /\.generated\./;

const root = process.cwd();
const sizes = trackedFiles(root)
  .filter((file) => SOURCE.test(file) && !GENERATED.test(file))
  .map((file) => ({ file, lines: readFileSync(join(root, file), 'utf8').split('\n').length - 1 }))
  .filter(({ lines }) => lines > WARN_ABOVE);

for (const { file, lines } of sizes) {
  const verdict =
    lines > FAIL_ABOVE
      ? `more than ${FAIL_ABOVE}: split it by part of the network or of the pipeline`
      : `more than ${WARN_ABOVE}, consider splitting it`;
  console.error(`${file}: ${lines} lines, ${verdict}`);
}
if (sizes.some(({ lines }) => lines > FAIL_ABOVE)) process.exitCode = 1;
