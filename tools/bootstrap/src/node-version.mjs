/** The oldest Node that the workspace runs on: `engines` in package.json. */
const REQUIRED = [20, 19];

/**
 * Stops with one message on a Node that is too old. The entry scripts call this before they import anything else:
 * the other modules use what older versions do not have.
 */
export function requireNode(version = process.versions.node) {
  const [major, minor] = version.split('.').map(Number);
  const isNew = major > REQUIRED[0] || (major === REQUIRED[0] && minor >= REQUIRED[1]);
  if (isNew) return;
  console.error(
    `This is Node ${version}; mlx-runners needs ${REQUIRED.join('.')} or newer.\n` +
      'Install a newer one (for example `nvm install 22`) and run the command again.',
  );
  process.exit(1);
}
