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

type Handler = (request: IncomingMessage, response: ServerResponse) => void;

/** A server on the loopback interface that speaks the part of the hub's API that is used. */
export class FakeHub implements AsyncDisposable {
  readonly requests: { path: string; headers: IncomingMessage['headers'] }[] = [];
  /** Answers instead of the usual ones, for requests whose path contains the key. */
  readonly faults = new Map<string, Handler>();
  private readonly repos: FakeRepo[];
  private readonly server = createServer((request, response) => this.answer(request, response));

  private constructor(repos: FakeRepo[]) {
    this.repos = repos;
  }

  static async start(...repos: FakeRepo[]): Promise<FakeHub> {
    const hub = new FakeHub(repos);
    await new Promise<void>((resolve) => hub.server.listen(0, '127.0.0.1', resolve));
    return hub;
  }

  get endpoint(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  paths(part = ''): string[] {
    return this.requests.map(({ path }) => path).filter((path) => path.includes(part));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }

  private answer(request: IncomingMessage, response: ServerResponse): void {
    const path = decodeURIComponent(new URL(request.url!, this.endpoint).pathname);
    this.requests.push({ path, headers: request.headers });
    for (const [part, fault] of this.faults) {
      if (path.includes(part)) {
        fault(request, response);
        return;
      }
    }
    const repo = this.repos.find(
      ({ id }) => path.startsWith(`/api/models/${id}/`) || path.startsWith(`/${id}/resolve/`),
    );
    if (!repo) {
      json(response, 404, { error: 'Repository not found' });
      return;
    }
    this.answerFor(repo, path, request, response);
  }

  private answerFor(
    repo: FakeRepo,
    path: string,
    request: IncomingMessage,
    response: ServerResponse,
  ): void {
    const api = `/api/models/${repo.id}`;
    if (path.startsWith(`${api}/revision/`)) {
      const revision = path.slice(`${api}/revision/`.length);
      if (revision !== repo.commit && !(repo.refs ?? ['main']).includes(revision)) {
        json(response, 404, { error: `Invalid rev id: ${revision}` });
        return;
      }
      json(response, 200, { _id: '1', id: repo.id, sha: repo.commit });
    } else if (path === `${api}/tree/${repo.commit}`) {
      json(response, 200, listing(repo));
    } else {
      const content = repo.files[path.slice(`/${repo.id}/resolve/${repo.commit}/`.length)];
      if (content === undefined) json(response, 404, { error: 'Entry not found' });
      else sendFile(Buffer.from(content), request, response);
    }
  }
}

function json(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}

function sendFile(content: Buffer, request: IncomingMessage, response: ServerResponse): void {
  const from = /^bytes=(\d+)-$/.exec(request.headers.range ?? '')?.[1];
  // No content-length: a mirror of the hub may send none.
  response.writeHead(from === undefined ? 200 : 206);
  response.end(content.subarray(Number(from ?? 0)));
}

function listing({ files, lfs = [] }: FakeRepo): object[] {
  const folders = new Set(Object.keys(files).flatMap((path) => path.split('/').slice(0, -1)));
  return [
    ...[...folders].map((path) => ({ type: 'directory', path, size: 0, oid: '0'.repeat(40) })),
    ...Object.entries(files).map(([path, content]) => {
      const size = Buffer.byteLength(content);
      const entry = { type: 'file', path, size, oid: gitBlobId(content) };
      const oid = createHash('sha256').update(content).digest('hex');
      return lfs.includes(path) ? { ...entry, lfs: { oid, size, pointerSize: 130 } } : entry;
    }),
  ];
}

function gitBlobId(content: string | Buffer): string {
  const header = `blob ${Buffer.byteLength(content)}\0`;
  return createHash('sha1').update(header).update(content).digest('hex');
}
