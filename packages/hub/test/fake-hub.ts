import { createHash } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface FakeRepo {
  id: string;
  commit: string;
  /** Branches and tags that stand for the commit. */
  refs?: string[];
  files: Record<string, string | Buffer>;
  /** Files that are listed as LFS files, by sha256. */
  lfs?: string[];
}

export interface FakeRequest {
  method: string;
  path: string;
  headers: IncomingMessage['headers'];
}

type Handler = (request: IncomingMessage, response: ServerResponse) => void;

/** A server on the loopback interface that speaks the part of the hub's API that is used. */
export class FakeHub implements AsyncDisposable {
  readonly requests: FakeRequest[] = [];
  /** Answers instead of the usual ones, for requests whose path contains the key. */
  readonly faults = new Map<string, Handler>();
  /** Entries of a listing that come in one answer. */
  pageSize = Infinity;
  /** Without lengths and etags, and with redirects, as servers that stand in for the hub may do it. */
  isBare = false;
  readonly #repos: FakeRepo[];
  readonly #server = createServer((request, response) => this.#answer(request, response));

  private constructor(repos: FakeRepo[]) {
    this.#repos = repos;
  }

  static async start(...repos: FakeRepo[]): Promise<FakeHub> {
    const hub = new FakeHub(repos);
    await new Promise<void>((resolve) => hub.#server.listen(0, '127.0.0.1', resolve));
    return hub;
  }

  get endpoint(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  paths(part = ''): string[] {
    return this.requests.map(({ path }) => path).filter((path) => path.includes(part));
  }

  /** The Range headers of the requests for a file; undefined where it was asked for as a whole. */
  ranges(file: string): (string | undefined)[] {
    const requests = this.requests.filter(({ path }) => path.endsWith(`/${file}`));
    return requests.map(({ headers }) => headers.range);
  }

  /** Answers as it would without faults. */
  answerWell(request: IncomingMessage, response: ServerResponse): void {
    const url = new URL(request.url!, this.endpoint);
    const path = decodeURIComponent(url.pathname);
    const repo = this.#repos.find(
      ({ id }) => path.startsWith(`/api/models/${id}/`) || path.startsWith(`/${id}/resolve/`),
    );
    if (!repo) refuse(response, 404, 'RepoNotFound', 'Repository not found');
    else if (path.startsWith('/api/')) this.#answerApi(repo, path, url, response);
    else this.#answerFile(repo, path, url, request, response);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    const path = decodeURIComponent(new URL(request.url!, this.endpoint).pathname);
    this.requests.push({ method: request.method!, path, headers: request.headers });
    const fault = [...this.faults].find(([part]) => path.includes(part))?.[1];
    if (fault) fault(request, response);
    else this.answerWell(request, response);
  }

  #answerApi(repo: FakeRepo, path: string, url: URL, response: ServerResponse): void {
    const [, kind, revision] = /^\/api\/models\/[^/]+\/[^/]+\/(\w+)\/(.+)$/.exec(path)!;
    if (!isRevision(repo, revision)) {
      refuse(response, 404, 'RevisionNotFound', `Invalid rev id: ${revision}`);
    } else if (kind === 'revision') {
      sendJson(response, { _id: '1', id: repo.id, sha: repo.commit, siblings: [] });
    } else {
      const entries = listing(repo);
      const from = Number(url.searchParams.get('cursor') ?? 0);
      const to = from + this.pageSize;
      if (to < entries.length) {
        response.setHeader('link', `<${url.pathname}?recursive=true&cursor=${to}>; rel="next"`);
      }
      sendJson(response, entries.slice(from, to));
    }
  }

  #answerFile(
    repo: FakeRepo,
    path: string,
    url: URL,
    request: IncomingMessage,
    response: ServerResponse,
  ): void {
    const [, revision, file] = /^\/[^/]+\/[^/]+\/resolve\/([^/]+)\/(.+)$/.exec(path)!;
    const content = repo.files[file];
    response.setHeader('x-repo-commit', repo.commit);
    if (!isRevision(repo, revision)) refuse(response, 404, 'RevisionNotFound', 'Invalid rev id');
    else if (content === undefined) refuse(response, 404, 'EntryNotFound', 'Entry not found');
    else if (this.isBare && !url.searchParams.has('redirected')) {
      response.writeHead(307, { location: `${url.pathname}?redirected` }).end();
    } else {
      if (!this.isBare) {
        const entry = listing(repo).find((each) => each.path === file)!;
        response.setHeader('etag', `"${entry.lfs?.oid ?? entry.oid}"`);
      }
      sendFile(Buffer.from(content), this.isBare, request, response);
    }
  }
}

function isRevision({ commit, refs = ['main'] }: FakeRepo, revision: string): boolean {
  return revision === commit || refs.includes(revision);
}

export function refuse(
  response: ServerResponse,
  status: number,
  code: string,
  message: string,
): void {
  response.setHeader('x-error-code', code).setHeader('x-error-message', message);
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(JSON.stringify({ error: message }));
}

function sendJson(response: ServerResponse, body: unknown): void {
  response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}

function sendFile(
  content: Buffer,
  isBare: boolean,
  { headers, method }: IncomingMessage,
  response: ServerResponse,
): void {
  const from = Number(/^bytes=(\d+)-$/.exec(headers.range ?? '')?.[1] ?? 0);
  if (from >= content.length && headers.range) {
    response.writeHead(416, { 'content-range': `bytes */${content.length}` }).end();
    return;
  }
  const range = `bytes ${from}-${content.length - 1}/${content.length}`;
  if (headers.range) response.setHeader('content-range', range);
  if (!isBare) response.setHeader('content-length', content.length - from);
  response.writeHead(headers.range ? 206 : 200);
  response.end(method === 'HEAD' ? undefined : content.subarray(from));
}

interface TreeEntry {
  type: 'file' | 'directory';
  path: string;
  size: number;
  oid: string;
  lfs?: { oid: string; size: number; pointerSize: number };
}

function listing({ files, lfs = [] }: FakeRepo): TreeEntry[] {
  const folders = new Set(Object.keys(files).flatMap((path) => path.split('/').slice(0, -1)));
  return [
    ...[...folders].map(
      (path) => ({ type: 'directory', path, size: 0, oid: '0'.repeat(40) }) as const,
    ),
    ...Object.entries(files).map(([path, content]) => {
      const size = Buffer.byteLength(content);
      const entry = { type: 'file', path, size, oid: gitBlobId(content) } as const;
      const oid = sha256(content);
      return lfs.includes(path) ? { ...entry, lfs: { oid, size, pointerSize: 130 } } : entry;
    }),
  ];
}

export function sha256(content: string | Uint8Array): string {
  return createHash('sha256').update(content).digest('hex');
}

export function gitBlobId(content: string | Buffer): string {
  const header = `blob ${Buffer.byteLength(content)}\0`;
  return createHash('sha1').update(header).update(content).digest('hex');
}
