import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';

/**
 * A registry on this machine with packed packages of ours and nothing else: npm and pnpm are told to ask it about the
 * scope `@mlx-runners` only.
 *
 * @param {string} folder with the tarballs
 * @param {import('../src/pack.mjs').Packed[]} packages
 * @param {(name: string) => Record<string, any>} manifestOf
 * @returns {Promise<{ url: string, close: () => void }>}
 */
export async function scopeRegistry(folder, packages, manifestOf) {
  const server = createServer((request, response) => {
    const path = decodeURIComponent(String(request.url)).slice(1);
    const tarball = packages.find(({ filename }) => filename === path);
    const asked = packages.find(({ name }) => name === path);
    if (tarball) response.end(readFileSync(join(folder, tarball.filename)));
    else if (asked) response.setHeader('content-type', 'application/json').end(document(asked));
    else response.writeHead(404, { 'content-type': 'application/json' }).end('{}');
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(undefined)));
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
  const url = `http://127.0.0.1:${port}/`;
  return { url, close: () => server.close() };

  /** What npm's registry says about a package. */
  function document(/** @type {import('../src/pack.mjs').Packed} */ { name, version, filename }) {
    const bytes = readFileSync(join(folder, filename));
    const integrity = `sha512-${createHash('sha512').update(bytes).digest('base64')}`;
    const dist = { tarball: `${url}${filename}`, integrity };
    return JSON.stringify({
      name,
      'dist-tags': { latest: version },
      versions: { [version]: { ...manifestOf(name), dist } },
    });
  }
}
