import { zipSync, type Zippable } from 'fflate';
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdir, mkdtemp, readFile, symlink, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { sha256 } from './fake-hub.js';

const run = promisify(execFile);

/** Writes a wheel that pip takes for one and returns its sha256. */
export async function writeWheel(
  folder: string,
  name: string,
  files: Record<string, Uint8Array>,
): Promise<string> {
  const stem = `${name.replaceAll('-', '_')}-1.0.0`;
  const text = (content: string) => new TextEncoder().encode(content);
  const entries: Zippable = {
    ...files,
    [`${stem}.dist-info/METADATA`]: text(`Metadata-Version: 2.1\nName: ${name}\nVersion: 1.0.0\n`),
    [`${stem}.dist-info/WHEEL`]: text(
      'Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n',
    ),
    [`${stem}.dist-info/RECORD`]: text(''),
  };
  const wheel = zipSync(entries);
  await writeFile(join(folder, `${stem}-py3-none-any.whl`), wheel);
  return sha256(wheel);
}

/**
 * A `python3` that knows `-m pip download` only and takes wheels from $WHEELS; pip needs seconds.
 * It notes what it was asked for in $PIP_LOG.
 */
export async function writeFakePython(folder: string): Promise<void> {
  const script = `#!/bin/sh
while [ $# -gt 1 ]; do
  [ "$1" = --dest ] && dest=$2
  shift
done
echo "$1" >> "\${PIP_LOG:-/dev/null}"
cp "$WHEELS/$(echo "\${1%%==*}" | tr - _)-\${1##*==}-py3-none-any.whl" "$dest"
`;
  await writeFile(join(folder, 'python3'), script, { mode: 0o755 });
}

/** A registry on the loopback interface with one npm package of version 1.0.0. */
export async function startNpmRegistry(name: string, files: Record<string, Uint8Array>) {
  const folder = await mkdtemp(join(tmpdir(), 'npm-test-'));
  const contents = { 'package.json': JSON.stringify({ name, version: '1.0.0' }), ...files };
  for (const [path, content] of Object.entries(contents)) {
    await mkdir(dirname(join(folder, 'package', path)), { recursive: true });
    await writeFile(join(folder, 'package', path), content);
  }
  await symlink('/etc/passwd', join(folder, 'package/data/link.bin'));
  await run('tar', ['-czf', 'package.tgz', 'package'], { cwd: folder });
  const tarball = await readFile(join(folder, 'package.tgz'));
  const integrity = `sha512-${createHash('sha512').update(tarball).digest('base64')}`;
  const server = createServer((request, response) => {
    if (request.url!.endsWith('.tgz')) {
      response.end(tarball);
      return;
    }
    const dist = { tarball: `${registry()}/${name}.tgz`, integrity };
    response.setHeader('content-type', 'application/json');
    response.end(
      JSON.stringify({
        name,
        'dist-tags': { latest: '1.0.0' },
        versions: { '1.0.0': { name, version: '1.0.0', dist } },
      }),
    );
  });
  const registry = () => `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    registry: registry(),
    sha256: sha256(tarball),
    folder,
    close: () => new Promise((resolve) => server.close(resolve).closeAllConnections()),
  };
}
