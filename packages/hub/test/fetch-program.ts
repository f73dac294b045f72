/** A process of its own that fetches a model: `node fetch.js ID`; it tells each step on stdout. */
import { resolveModel } from '@mlx-runners/hub';

const path = await resolveModel(process.argv[2], {
  onProgress: (event) => process.stdout.write(`${JSON.stringify(event)}\n`),
});
process.stdout.write(`${JSON.stringify({ path })}\n`);
