import { LineProcess } from '@mlx-runners/runner';
import { expect, test } from 'vitest';

/** A program of Node, as text. */
function started(program: string, env: Record<string, string> = {}): LineProcess {
  return new LineProcess(process.execPath, ['-e', program], env);
}

const echo = `
  console.log(JSON.stringify({ env: process.env.FIGURE }));
  require('node:readline').createInterface({ input: process.stdin })
    .on('line', (line) => console.log(JSON.stringify([JSON.parse(line)])));`;

test('lines go in and answers come out, in order', async () => {
  await using program = started(echo, { FIGURE: '7' });
  expect(await program.read()).toEqual({ env: '7' });
  program.write('{"a":1}');
  program.write('2');
  expect([await program.read(), await program.read()]).toEqual([[{ a: 1 }], [2]]);
});

test('a program that ends says why', async () => {
  await using program = started('console.error("no model"); process.exit(3)');
  program.write('{}');
  await expect(program.read()).rejects.toThrow('ended without an answer: no model');
});

test('a program that there is not', async () => {
  await using program = new LineProcess('/no/such/program', [], {});
  await expect(program.read()).rejects.toThrow('ENOENT');
});

test('disposing ends the program', async () => {
  const program = started(`console.log(process.pid); setInterval(() => 0, 1000)`);
  const pid = (await program.read()) as number;
  await program[Symbol.asyncDispose]();
  expect(() => process.kill(pid, 0)).toThrow('ESRCH');
});
