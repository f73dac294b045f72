/** Writes schemas/*.json, the published JSON Schemas of the format, from the built package. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { format } from 'prettier';
import { jsonSchemas } from '../dist/index.js';

for (const [name, schema] of Object.entries(jsonSchemas())) {
  const text = await format(JSON.stringify(schema), { parser: 'json' });
  writeFileSync(join(import.meta.dirname, '..', 'schemas', name), text);
}
