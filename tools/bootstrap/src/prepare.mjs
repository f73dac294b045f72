import { installPackages } from './install.mjs';
import { missingRequirements } from './requirements.mjs';

/** Brings a fresh clone to where Nx can run; ends the process with exit code 1 and a message where it can't. */
export function prepareWorkspace() {
  const missing = missingRequirements();
  if (missing !== undefined) console.error(missing);
  if (missing !== undefined || !installPackages()) process.exit(1);
}
