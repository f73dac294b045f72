/** The part of cli-progress that progress.ts uses; the package has no types of its own. */
declare module 'cli-progress' {
  export interface BarOptions {
    stream: NodeJS.WritableStream;
    format: (options: object, params: { progress: number; value: number; total: number }) => string;
    hideCursor: boolean;
    clearOnComplete: boolean;
    barsize: number;
  }

  export class SingleBar {
    constructor(options: BarOptions, preset: object);
    start(total: number, value: number): void;
    setTotal(total: number): void;
    update(value: number): void;
    stop(): void;
  }

  const cliProgress: {
    SingleBar: typeof SingleBar;
    Presets: { shades_classic: object };
    Format: { BarFormat: (progress: number, options: object) => string };
  };
  export default cliProgress;
}
