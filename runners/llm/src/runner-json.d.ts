/** Checked when it is loaded, so its own type says nothing. */
declare module '*/runner.json' {
  const content: unknown;
  export default content;
}
