// Checks every package, as it is published, with publint.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { publint } from 'publint';
import { formatMessage } from 'publint/utils';
import { publishedPackages } from './src/published-packages.mjs';
import { stagePackage } from './src/stage.mjs';

const folder = mkdtempSync(join(tmpdir(), 'mlx-runners-publint-'));
try {
  for (const published of publishedPackages()) {
    const pkgDir = join(folder, published.name);
    stagePackage(published, pkgDir);
    const { messages, pkg } = await publint({ pkgDir, strict: true });
    for (const message of messages)
      console.error(`${published.name}: ${formatMessage(message, pkg)}`);
    if (messages.length > 0) process.exitCode = 1;
  }
} finally {
  rmSync(folder, { recursive: true });
}
