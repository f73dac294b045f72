/** Time in the steps of a batch, so that what happens in between happens alike in every run. */
import type { BatchEngine } from '@mlx-runners/lm';

export class StepClock {
  #time = 0;
  readonly #waiting = new Map<number, (() => void)[]>();

  /** Waits until so many steps have begun. */
  at(time: number): Promise<void> {
    if (time < this.#time) return Promise.resolve();
    return new Promise((resolve) => {
      this.#waiting.set(time, [...(this.#waiting.get(time) ?? []), resolve]);
    });
  }

  /** A step begins. */
  readonly tick = (): void => {
    for (const resolve of this.#waiting.get(this.#time) ?? []) resolve();
    this.#time++;
  };

  /** Lets time go on where no step does, since the batch is idle. */
  async runUntil(time: number, engine: BatchEngine): Promise<void> {
    while (this.#time <= time) {
      await new Promise((resolve) => setImmediate(resolve));
      const { running, waiting } = engine.status;
      if (running + waiting === 0) this.tick();
    }
  }
}
