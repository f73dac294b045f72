import { once } from 'node:events';
import { closeSync, mkdirSync, openSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { bundleFakeRunner, outcome, type BundledProgram } from './bundled-program.js';

let fake: BundledProgram;
beforeAll(async () => {
  fake = await bundleFakeRunner();
});
afterAll(() => fake.remove());

describe('exit codes', () => {
  test('0, with results on stdout alone', async () => {
    const { code, stdout, stderr } = await fake.run(['a.wav', '--seed', '7', '--json']);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(JSON.parse(stdout)).toEqual({
      files: [join(fake.folder, 'a.wav')],
      options: { model: 'fake/model', seed: 7, json: true },
    });
  });

  test('0 for the version, which is that of the package.json above the program', async () => {
    expect(await fake.run(['--version'])).toEqual({ code: 0, stdout: '9.8.7\n', stderr: '' });
  });

  test('0 for help, which describes the program and lists what options take', async () => {
    const { code, stdout } = await fake.run(['--help']);
    expect(code).toBe(0);
    expect(stdout).toContain('A runner for tests of the command line');
    expect(stdout).toMatch(/--device <device> .*"cpu", "gpu"/);
  });

  test.each([
    [['a', '--nothing'], "error: unknown option '--nothing'\n"],
    [['a', '--jso'], "error: unknown option '--jso' (Did you mean --json?)\n"],
    [[], "error: missing required argument 'files'\n"],
    [['golden'], "error: missing required argument 'files'\n"],
    [['a', '--seed'], "error: option '--seed <n>' argument missing\n"],
    [
      ['a', '--seed', '-1'],
      "error: --seed must be a whole number from 0 to 4294967295; got '-1'.\n",
    ],
    [
      ['a', '--threads', '1.5'],
      "error: --threads must be a whole number from 1 to 1024; got '1.5'.\n",
    ],
    [['a', '--device', 'tpu'], "error: --device must be one of cpu, gpu; got 'tpu'.\n"],
    [['a', '--output-format', 'x'], "error: --output-format must be one of text, srt; got 'x'.\n"],
    [['a', '--model', ''], "error: --model must be a text that is not empty; got ''.\n"],
    [['a', '--model', 'x\u001b[31m', '--\u001b'], "error: unknown option '--\\u001b'\n"],
    [['fail', 'usage'], 'error: --x and --y exclude each other.\n'],
  ])('2 for misuse: %j', async (args, stderr) => {
    expect(await fake.run(args)).toEqual({ code: 2, stdout: '', stderr });
  });

  test('2 for a file that looks like an option, which is told how to name it', async () => {
    writeFileSync(join(fake.folder, '-dash.wav'), '');
    const { code, stderr } = await fake.run(['-dash.wav']);
    expect({ code, stderr }).toEqual({
      code: 2,
      stderr: "error: unknown option '-dash.wav' (the file is ./-dash.wav)\n",
    });
  });

  test('0 for help as a command', async () => {
    expect(await fake.run(['help'])).toEqual(await fake.run(['--help']));
    expect((await fake.run(['help', 'golden'])).stdout).toMatch(/^Usage: fake golden/);
  });

  test.each([
    ['checkpoint', 'error: No tensor a.b.\n'],
    [
      'type',
      "error: Cannot read properties of undefined (reading 'x') (--verbose shows where it comes from)\n",
    ],
    ['native', 'error: No library:\n  tried here,\n  and \\u001bthere\n'],
    ['text', 'error: just text (--verbose shows where it comes from)\n'],
    ['late', 'error: nobody waited (--verbose shows where it comes from)\n'],
    ['code', ''],
  ])('1 for failures: %s', async (how, stderr) => {
    expect(await fake.run(['fail', how])).toEqual({ code: 1, stdout: '', stderr });
  });
});

test("an option after a command is the command's, though the program has one of that name", async () => {
  const { code, stdout } = await fake.run(['golden', '--json', 'none.json']);
  expect(code).toBe(1);
  expect(JSON.parse(stdout)).toMatchObject({ ok: false, files: [{ file: 'none.json' }] });
});

describe('stacks', () => {
  test.each([
    ['--verbose', ['fail', 'checkpoint', '--verbose'], {}],
    ['DEBUG', ['fail', 'checkpoint'], { DEBUG: '1' }],
  ])('%s shows the stack and the causes', async (_, args, env) => {
    const { code, stderr } = await fake.run(args, { env });
    expect(code).toBe(1);
    expect(stderr).toMatch(/^error: No tensor a\.b\.\nCheckpointError: .*\n +at /);
    expect(stderr).toMatch(/caused by Error: the cause\n +at /);
  });

  test('of what is told and gone on after are shown too', async () => {
    const { stderr } = await fake.run(['golden', '--verbose', 'none.json']);
    expect(stderr).toMatch(/^error: .*none\.json.*\nCheckpointError: .*\n +at /);
  });
});

describe('paths', () => {
  const files = async (env: Record<string, string>) =>
    (JSON.parse((await fake.run(['a.wav', '/b.wav'], { env })).stdout) as { files: string[] })
      .files;

  test('resolve against the folder in which the user called Nx', async () => {
    const env = { INIT_CWD: '/somewhere/else', NX_TASK_TARGET_PROJECT: 'fake' };
    expect(await files(env)).toEqual(['/somewhere/else/a.wav', '/b.wav']);
  });

  test('resolve against the current folder without Nx, though npm sets INIT_CWD', async () => {
    const here = join(fake.folder, 'a.wav');
    expect(await files({ INIT_CWD: '/somewhere/else' })).toEqual([here, '/b.wav']);
    expect(await files({ NX_TASK_TARGET_PROJECT: 'fake' })).toEqual([here, '/b.wav']);
  });

  test('a model that is a path becomes absolute, an id stays', async () => {
    mkdirSync(join(fake.folder, 'local'), { recursive: true });
    const model = async (value: string) => {
      const { stdout } = await fake.run(['a', '--model', value]);
      return (JSON.parse(stdout) as { options: { model: string } }).options.model;
    };
    expect(await model('openai/whisper-base')).toBe('openai/whisper-base');
    expect(await model('local')).toBe(join(fake.folder, 'local'));
    expect(await model('./absent')).toBe(join(fake.folder, 'absent'));
  });
});

test('a reader that stops reading ends the program without a word', async () => {
  const child = fake.start(['flood']);
  child.stdout!.once('data', () => child.stdout!.destroy());
  const { code, stderr } = await outcome(child);
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
});

test('output that can not be written is one line and a failure', async () => {
  const full = openSync('/dev/full', 'w');
  try {
    const child = fake.start(['flood'], { stdio: ['ignore', full, 'pipe'] });
    const { code, stderr } = await outcome(child);
    const line = "error: standard output can't be written: the disk is full.\n";
    expect({ code, stderr }).toEqual({ code: 1, stderr: line });
  } finally {
    closeSync(full);
  }
});

describe('an interrupt', () => {
  async function interrupted(args: string[], signals: NodeJS.Signals[]) {
    const folder = join(fake.folder, `out-${signals.join('-')}-${args.length}`);
    const child = fake.start(['work', join(folder, 'result.txt'), ...args]);
    const ended = outcome(child);
    await Promise.race([once(child.stdout!, 'data'), ended]);
    const during = readdirSync(folder);
    for (const signal of signals) {
      child.kill(signal);
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    return { ...(await ended), during, after: readdirSync(folder) };
  }

  const halfWritten = [expect.stringMatching(/^\.\w+\.partial$/)];

  test.each([
    ['SIGINT', 130],
    ['SIGTERM', 143],
  ] as const)('%s lets the work unwind and removes what was half-written', async (signal, code) => {
    const { during, ...ended } = await interrupted([], [signal]);
    expect(during).toEqual(halfWritten);
    expect(ended).toEqual({ code, stdout: 'working\nunwound\n', stderr: '', after: [] });
  });

  test('work that does not listen is ended after a moment', async () => {
    const { during, ...ended } = await interrupted(['--stubborn'], ['SIGINT']);
    expect(during).toEqual(halfWritten);
    expect(ended).toEqual({ code: 130, stdout: 'working\nstill working\n', stderr: '', after: [] });
  });

  test('a second signal ends it at once', async () => {
    const ended = await interrupted(['--stubborn'], ['SIGINT', 'SIGINT']);
    expect(ended).toMatchObject({ code: 130, stdout: 'working\n', stderr: '', after: [] });
  });
});
