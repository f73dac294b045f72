import js from '@eslint/js';
import nx from '@nx/eslint-plugin';
import { defineConfig, globalIgnores } from 'eslint/config';
import tseslint from 'typescript-eslint';

/** Which layers a layer may import: dependencies point one way, and no runner imports another. */
const LAYERS = {
  'layer:core': [],
  'layer:nn': ['layer:core'],
  'layer:library': ['layer:core', 'layer:nn', 'layer:library'],
  'layer:runner': ['layer:core', 'layer:nn', 'layer:library'],
  'layer:fixtures': [],
  'layer:tool': ['layer:tool'],
};

const nodeGlobals = Object.fromEntries(
  [
    'AbortController',
    'AbortSignal',
    'Buffer',
    'URL',
    'clearTimeout',
    'console',
    'performance',
    'process',
    'setTimeout',
  ].map((name) => [name, 'readonly']),
);

export default defineConfig(
  globalIgnores([
    '**/dist/',
    '**/.tsc-test/',
    '**/build/',
    'runners/*/bundle/',
    '**/reports/',
    '**/coverage/',
    '.cache/',
    '.nx/',
  ]),
  js.configs.recommended,
  {
    linterOptions: { reportUnusedDisableDirectives: 'error' },
    rules: {
      eqeqeq: ['error', 'always', { null: 'ignore' }],
      'no-var': 'error',
      'object-shorthand': 'error',
      'prefer-const': 'error',
    },
  },
  {
    files: ['**/*.mjs'],
    languageOptions: { globals: nodeGlobals },
  },
  {
    files: ['**/*.ts'],
    extends: [tseslint.configs.strictTypeChecked, tseslint.configs.stylisticTypeChecked],
    languageOptions: {
      parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname },
    },
    rules: {
      '@typescript-eslint/consistent-type-imports': ['error', { fixStyle: 'inline-type-imports' }],
      // Shapes stand in most messages: numbers and arrays of them are welcome in template strings.
      '@typescript-eslint/restrict-template-expressions': [
        'error',
        { allowNumber: true, allowBoolean: true, allowArray: true },
      ],
      '@typescript-eslint/switch-exhaustiveness-check': [
        'error',
        { considerDefaultExhaustiveForUnions: true },
      ],
      '@typescript-eslint/no-confusing-void-expression': ['error', { ignoreArrowShorthand: true }],
      '@typescript-eslint/prefer-nullish-coalescing': [
        'error',
        { ignorePrimitives: { string: true } },
      ],
      '@typescript-eslint/no-non-null-assertion': 'off',
      // Indexing is typed as if it never missed, so that the check of a miss would count as unnecessary.
      '@typescript-eslint/no-unnecessary-condition': 'off',
    },
  },
  {
    files: ['packages/**/*.ts', 'runners/**/*.ts'],
    plugins: { '@nx': nx },
    rules: {
      '@nx/enforce-module-boundaries': [
        'error',
        {
          // Tests go through the public API, by the package's own name.
          allowCircularSelfDependency: true,
          depConstraints: Object.entries(LAYERS).map(([sourceTag, layers]) => ({
            sourceTag,
            onlyDependOnLibsWithTags: [...layers, 'layer:fixtures'],
          })),
        },
      ],
    },
  },
  {
    files: ['packages/*/src/**/*.ts', 'runners/*/src/**/*.ts'],
    rules: {
      'no-restricted-imports': [
        'error',
        {
          paths: [
            { name: '@mlx-runners/test-fixtures', message: 'Test fixtures are for tests only.' },
          ],
        },
      ],
    },
  },
);
