import { AbortedError } from '@mlx-runners/mlx-core/errors';
import { resolveModel, type FindModelOptions } from '@mlx-runners/hub';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { describe, expect, it, vi } from 'vitest';
import { FakeHub, gitBlobId, refuse, sha256 } from './fake-hub.js';
import {
  failure,
  fetchWeights as fetchFile,
  HubSetting,
  SOON,
  tinyRepo,
  weights,
  weightsBlob,
} from './hub-setting.js';

const setting = new HubSetting(tinyRepo);

type Handler = (request: IncomingMessage, response: ServerResponse) => void;

/** Answers to the first requests whose path contains `part`; later ones are answered well. */
function fault(part: string, ...handlers: Handler[]): void {
  setting.hub.faults.set(part, (request, response) => {
    (handlers.shift() ?? setting.hub.answerWell.bind(setting.hub))(request, response);
  });
}

const status =
  (code: number, headers: Record<string, string> = {}): Handler =>
  (_, response) =>
    void response.writeHead(code, headers).end();

/** What to do once so many bytes have come. */
const onceHere = new Map<number, () => void>();

function fetchWeights(options: FindModelOptions = {}): Promise<string> {
  return fetchFile({ onProgress: ({ bytes }) => onceHere.get(bytes)?.(), ...options });
}

/** Sends so many bytes and breaks off when they have come: what is still under way would be lost. */
const cutAfter =
  (bytes: number, { sized = true } = {}): Handler =>
  (request, response) => {
    const from = Number(/\d+/.exec(request.headers.range ?? '0')![0]);
    response.writeHead(from > 0 ? 206 : 200, {
      ...(sized && { 'content-length': weights.length - from }),
      ...(from > 0 && { 'content-range': `bytes ${from}-199999/200000` }),
    });
    response.write(weights.subarray(from, from + bytes));
    onceHere.set(from + bytes, () => response.destroy());
  };

const cutAtOnce: Handler = (request) => request.socket.destroy();

const page: Handler = (_, response) => {
  response.writeHead(200, { 'content-type': 'text/html; charset=utf-8' });
  response.end('<html>Please log in</html>');
};

describe('connections', () => {
  it('that break off are gone on with', async () => {
    fault('model.safetensors', cutAfter(50_000), cutAfter(50_000));
    await setting.expectWhole(await fetchWeights());
    const ranges = setting.hub.ranges('model.safetensors');
    expect(ranges).toEqual([undefined, 'bytes=50000-', 'bytes=100000-']);
  });

  it('that break off again and again are given up, and what came is kept', async () => {
    fault('model.safetensors', cutAfter(10), ...Array.from({ length: 9 }, () => cutAtOnce));
    const error = await failure(fetchWeights());
    expect(error.message).toMatch(/10 of 200000 bytes of model\.safetensors/);
    await setting.expectNoModel();
    setting.hub.faults.clear();
    await setting.expectWhole(await fetchWeights());
    expect(setting.hub.ranges('model.safetensors').at(-1)).toBe('bytes=10-');
  });

  it('that break off between files are made again', async () => {
    fault('onnx/model.onnx', cutAtOnce);
    await setting.expectWhole(await resolveModel('org/model', SOON));
  });

  it('on which nothing comes any more are made again', async () => {
    vi.stubEnv('HF_HUB_DOWNLOAD_TIMEOUT', '1');
    fault(
      'model.safetensors',
      () => undefined,
      (_, response) => {
        response.writeHead(200, { 'content-length': weights.length });
        response.write(weights.subarray(0, 60_000));
      },
    );
    await setting.expectWhole(await fetchWeights());
    expect(setting.hub.ranges('model.safetensors')).toEqual([undefined, undefined, 'bytes=60000-']);
  });

  it('on which no answer comes mean that the hub is out of reach', async () => {
    vi.stubEnv('HF_HUB_ETAG_TIMEOUT', '0.1');
    fault('/revision/', () => undefined);
    expect((await failure(fetchWeights())).message).toMatch(
      /Can't reach .*nothing came for 0\.1 s/,
    );
    fault('/tree/', (_, response) => response.writeHead(200).write('['));
    expect((await failure(fetchWeights())).message).toMatch(
      /Can't reach .*nothing came for 0\.1 s/,
    );
  });

  it('say how to go on when there are none', async () => {
    await setting.hub[Symbol.asyncDispose]();
    const error = await failure(fetchWeights());
    expect(error.message).toMatch(/Can't reach http:.*ECONNREFUSED.*not in the cache.*HF_ENDPOINT/);
  });

  it('end when the download is aborted, and what came is kept', async () => {
    const abort = new AbortController();
    fault('model.safetensors', (_, response) => {
      response.writeHead(200, { 'content-length': weights.length });
      response.write(weights.subarray(0, 100_000));
    });
    const download = fetchWeights({
      signal: abort.signal,
      onProgress: ({ bytes }) => bytes === 100_000 && abort.abort(),
    });
    await failure(download, AbortedError);
    await setting.expectNoModel();
    await setting.expectWhole(await fetchWeights());
    expect(setting.hub.ranges('model.safetensors')).toEqual([undefined, 'bytes=100000-']);
  });
});

describe('ranges', () => {
  it('that the server does not know start the file again', async () => {
    fault('model.safetensors', cutAfter(50_000), (_, response) => response.end(weights));
    await setting.expectWhole(await fetchWeights());
  });

  it.each([
    ['another one', { 'content-range': 'bytes 10-199999/200000' }],
    ['an unknown one', {}],
  ])('of which %s comes start the file again', async (_, headers) => {
    fault('model.safetensors', cutAfter(50_000), (_, response) => {
      response.writeHead(206, headers).end(weights.subarray(10));
    });
    await setting.expectWhole(await fetchWeights());
    expect(setting.hub.ranges('model.safetensors')).toEqual([undefined, 'bytes=50000-', undefined]);
  });

  it('that nobody asked for are refused', async () => {
    fault('model.safetensors', status(206, { 'content-range': 'bytes 0-9/200000' }));
    expect((await failure(fetchWeights())).message).toMatch(/answered 206 for model\.safetensors/);
  });

  it('beyond the end of a file that has become shorter end in an error', async () => {
    setting.hub.faults.set('model.safetensors', (request, response) => {
      if (request.headers.range) response.writeHead(416).end();
      else response.end(weights.subarray(0, 100));
    });
    const error = await failure(fetchWeights());
    expect(error.message).toMatch(/ends too early, again and again: 100 of 200000 bytes/);
    await setting.expectNoModel();
  });
});

describe('content', () => {
  it('of another checksum is refused, and not kept', async () => {
    setting.hub.faults.set('model.safetensors', (_, response) =>
      response.end(Buffer.alloc(200_000)),
    );
    const error = await failure(fetchWeights());
    expect(error.message).toContain(weightsBlob);
    expect(error.message).toContain(sha256(Buffer.alloc(200_000)));
    expect(await setting.blobs()).toEqual([]);
  });

  it('of small files is checked too', async () => {
    fault('config.json', (_, response) => response.end('{"model_type":"evil"}'));
    expect((await failure(resolveModel('org/model'))).message).toMatch(/config\.json .*git blob/);
  });

  it('of more bytes than were listed is refused', async () => {
    fault('config.json', (_, response) => response.end('x'.repeat(1000)));
    expect((await failure(resolveModel('org/model'))).message).toContain('more than 21 bytes');
    await setting.expectNoModel();
  });

  it('that is a web page is called one', async () => {
    fault('model.safetensors', page);
    expect((await failure(fetchWeights())).message).toMatch(/model\.safetensors .*web page/);
    fault('/revision/', page);
    expect((await failure(fetchWeights())).message).toMatch(/Unusable answer .*web page/);
  });

  it.each([
    ['/revision/', 'not json', /Unusable answer .* it is not JSON/],
    ['/revision/', '{"sha":"../../x"}', /Unusable answer .*sha: /],
    ['/tree/', '{}', /Unusable answer .*expected array/],
    ['/tree/', '[{"type":"file","path":"a"}]', /Unusable answer .*0\.size: /],
  ])('of %s that is %s is refused', async (part, body, message) => {
    fault(part, (_, response) => response.end(body));
    expect((await failure(fetchWeights())).message).toMatch(message);
  });

  it('without end are read no further than 64 MB', async () => {
    fault('/tree/', (_, response) => {
      const more = (): void => {
        while (response.write(Buffer.alloc(2 ** 20, ' ')));
      };
      response.on('drain', more);
      more();
    });
    expect((await failure(fetchWeights())).message).toMatch(/larger than 64 MB/);
  });

  it.each([
    ['the same page again', () => ''],
    ['ever new pages', (count: number) => `?cursor=${count}`],
  ])('that lead to %s are refused', async (_, query) => {
    let count = 0;
    setting.hub.faults.set('/tree/', ({ url }, response) => {
      const next = new URL(url!, setting.hub.endpoint).pathname + query(++count);
      response.setHeader('link', `<${next}>; rel="next"`).end('[]');
    });
    expect((await failure(fetchWeights())).message).toMatch(/without end: refused/);
    expect(count).toBeLessThanOrEqual(1000);
  });

  it.each(['../../evil', '/etc/evil', 'a\\..\\evil', 'C:evil', 'a//b', '\u001b[2Jevil'])(
    'with a file named %j is refused',
    async (path) => {
      const entry = { type: 'file', path, size: 1, oid: 'a'.repeat(40) };
      fault('/tree/', (_, response) => response.end(JSON.stringify([entry])));
      expect((await failure(resolveModel('org/model'))).message).toContain('refused');
    },
  );

  it('with a file where another has its folder ends in an error', async () => {
    const oid = gitBlobId('1');
    const entries = ['a', 'a/b'].map((path) => ({ type: 'file', path, size: 1, oid }));
    fault('/tree/', (_, response) => response.end(JSON.stringify(entries)));
    setting.hub.faults.set('/resolve/', (_, response) => response.end('1'));
    expect((await failure(resolveModel('org/model'))).message).toMatch(/can't be written/);
    await setting.expectNoModel();
  });

  it('with a file whose id could be a path is refused', async () => {
    const entry = { type: 'file', path: 'a', size: 1, oid: '../../../evil' };
    fault('/tree/', (_, response) => response.end(JSON.stringify([entry])));
    expect((await failure(resolveModel('org/model'))).message).toContain('refused');
  });
});

describe('a server in trouble', () => {
  it.each([408, 429, 500, 502, 503, 504])('is asked again after %i', async (code) => {
    fault('/tree/', status(code));
    fault('model.safetensors', status(code), status(code));
    await setting.expectWhole(await fetchWeights());
  });

  it('is given up in the end (HUB-07)', async () => {
    setting.hub.faults.set('model.safetensors', status(503));
    expect((await failure(resolveModel('org/model', SOON))).message).toMatch(
      /503.*try again later/,
    );
    expect(setting.hub.paths('model.safetensors').length).toBe(4);
    await setting.expectNoModel();
  });

  it('is given up in the midst of a file as well (HUB-07)', async () => {
    fault('model.safetensors', cutAfter(50_000), ...Array.from({ length: 4 }, () => status(503)));
    expect((await failure(fetchWeights())).message).toMatch(/503.*try again later/);
    await setting.expectNoModel();
  });

  it.each<Record<string, string>>([
    { 'retry-after': '0' },
    { 'retry-after': 'Wed, 21 Oct 2015 07:28:00 GMT' },
    { ratelimit: '"api";r=0;t=0' },
  ])('is obeyed when it says how long to wait: %j', async (headers) => {
    fault('/revision/', status(429, headers));
    const ours = { ...SOON, retryWaits: [60_000] };
    await setting.expectWhole(await fetchWeights(ours));
  });

  it.each<[Record<string, string>, RegExp]>([
    [{ 'retry-after': '4000' }, /429.*try again in 4000 s, or set HF_TOKEN/],
    [{ ratelimit: '"resolvers";r=0;t=900' }, /429.*try again in 900 s/],
  ])('is not waited for as long as %j', async (headers, message) => {
    fault('/revision/', status(429, headers));
    expect((await failure(fetchWeights())).message).toMatch(message);
    expect(setting.hub.requests.length).toBe(1);
  });
});

describe('a refusal', () => {
  it('of a model that does not exist', async () => {
    const error = await failure(resolveModel('org/typo'));
    expect(error.message).toMatch(
      /404 for org\/typo at "main" \(Repository not found\)\. Check the name/,
    );
  });

  it('of a revision', async () => {
    const error = await failure(resolveModel('org/model', { revision: 'v9' }));
    expect(error.message).toMatch(/Invalid rev id: v9.*no revision "v9": see .*org\/model/);
  });

  it('of a file, which the list tells before', async () => {
    const error = await failure(resolveModel('org/model', { files: ['model.bin'] }));
    expect(error.message).toMatch(/no file "model\.bin"; it has config\.json, model\.safetensors/);
    expect(setting.hub.paths('resolve/')).toEqual([]);
  });

  it.each<[number, string, string, RegExp]>([
    [
      403,
      'GatedRepo',
      'Access is restricted',
      /gated: accept its terms on .*org\/model, and set HF_TOKEN/,
    ],
    [401, 'GatedRepo', '', /gated/],
    [401, '', '', /no such model, or it is private; then set HF_TOKEN/],
    [403, '', 'no permission', /\(no permission\).*doesn't give access/],
    [404, '', '', /Check the name of the model, the revision and the file/],
    [418, '', 'tea\u0085pot', /418.*\(tea\\u0085pot\).*Check HF_ENDPOINT/],
  ])('by %i %s %s', async (code, kind, message, expected) => {
    fault('/revision/', (_, response) => refuse(response, code, kind, message));
    expect((await failure(resolveModel('org/model'))).message).toMatch(expected);
    expect(setting.hub.requests.length).toBe(1);
  });

  it('of a token that has expired', async () => {
    vi.stubEnv('HF_TOKEN', 'hf_old');
    fault('/revision/', (_, response) => refuse(response, 401, '', 'Invalid credentials'));
    const error = await failure(resolveModel('org/model'));
    expect(error.message).toMatch(/token may have expired/);
    expect(error.message).not.toContain('hf_old');
  });
});

describe('a server that stands in for the hub (HUB-15)', () => {
  it('may send no lengths and etags, and redirect to relative addresses', async () => {
    setting.hub.isBare = true;
    setting.hub.pageSize = 1;
    await setting.expectWhole(await resolveModel('org/model'));
  });

  it('may be gone on with', async () => {
    setting.hub.isBare = true;
    let isFirst = true;
    setting.hub.faults.set('model.safetensors', (request, response) => {
      if (!isFirst || !request.url!.endsWith('redirected')) {
        setting.hub.answerWell(request, response);
        return;
      }
      isFirst = false;
      cutAfter(70_000, { sized: false })(request, response);
    });
    await setting.expectWhole(await fetchWeights());
    expect(setting.hub.ranges('model.safetensors').at(-1)).toBe('bytes=70000-');
  });
});

it('the token does not follow a redirect to another server', async () => {
  vi.stubEnv('HF_TOKEN', 'hf_secret');
  await using store = await FakeHub.start();
  store.faults.set('/signed', (_, response) => response.end(weights));
  fault('model.safetensors', status(302, { location: `${store.endpoint}/signed` }));
  await setting.expectWhole(await fetchWeights());
  expect(store.requests.length).toBe(1);
  expect(store.requests[0].headers.authorization).toBeUndefined();
  expect(
    setting.hub.requests.every(({ headers }) => headers.authorization === 'Bearer hf_secret'),
  ).toBe(true);
});

it('the token does not follow the list to another server', async () => {
  vi.stubEnv('HF_TOKEN', 'hf_secret');
  await using other = await FakeHub.start();
  other.faults.set('/more', (_, response) => response.end('[]'));
  fault('/tree/', (request, response) => {
    response.setHeader('link', `<${other.endpoint}/more>; rel="next"`);
    setting.hub.answerWell(request, response);
  });
  await fetchWeights();
  expect(other.requests.length).toBe(1);
  expect(other.requests[0].headers.authorization).toBeUndefined();
});
