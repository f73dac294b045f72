import { existsSync } from 'node:fs';
import { isAbsolute, resolve } from 'node:path';

/**
 * Absolute form of a path that the user typed. Nx starts tasks in the project's folder; the folder
 * in which the user typed the command is then in INIT_CWD. Outside Nx that variable is left alone:
 * npm sets it too, and it goes stale where a script starts the program from elsewhere.
 */
export function userPath(path: string): string {
  const startedByNx = process.env.NX_TASK_TARGET_PROJECT !== undefined;
  const folder = (startedByNx && process.env.INIT_CWD) || process.cwd();
  return resolve(folder, path);
}

/**
 * What `--model` names: a path (absolute, or starting with `.`, or existing in the user's folder)
 * becomes absolute; anything else is the id of a model and stays as it is.
 */
export function userModel(idOrPath: string): string {
  const path = userPath(idOrPath);
  const looksLikePath = isAbsolute(idOrPath) || /^\.\.?([\\/]|$)/.test(idOrPath);
  return looksLikePath || existsSync(path) ? path : idOrPath;
}
