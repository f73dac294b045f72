import { realpathSync } from 'node:fs';
import { pathToFileURL } from 'node:url';

/** A failure whose message is all that its reader needs: scripts print it without a stack and exit 1. */
export class ToolError extends Error {
  /** @override */
  name = 'ToolError';
}

/**
 * Runs a script's main function and turns what it throws into a message and an exit code.
 *
 * @param {() => void | Promise<void>} main
 */
export async function runScript(main) {
  try {
    await main();
  } catch (error) {
    console.error(error instanceof ToolError ? error.message : error);
    process.exitCode = 1;
  }
}

/** Whether the module with this `import.meta.url` was started as a script, not imported. */
export function isMainModule(/** @type {string} */ url) {
  return process.argv[1] !== undefined && url === pathToFileURL(realpathSync(process.argv[1])).href;
}
