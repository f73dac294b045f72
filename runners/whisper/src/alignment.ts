/**
 * Aligning tokens with audio by cross-attention: median filter and dynamic time warping.
 * Follows openai/whisper `whisper/timing.py` (`median_filter`, `dtw_cpu`, `backtrace`).
 */

/** A row-major matrix of numbers. */
export interface Matrix {
  rows: number;
  columns: number;
  values: Float32Array | Float64Array;
}

function reflected(index: number, length: number): number {
  const period = 2 * (length - 1);
  const within = ((index % period) + period) % period;
  return within < length ? within : period - within;
}

/** Each row's running median, of odd width, its ends mirrored. Rows not longer than half the width stay as they are. */
export function medianFilter({ rows, columns, values }: Matrix, width: number): Matrix {
  const half = (width - 1) / 2;
  if (columns <= half) return { rows, columns, values: values.slice() };
  const filtered = new Float32Array(rows * columns);
  const window = new Float32Array(width);
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      for (let k = 0; k < width; k++) {
        window[k] = values[row * columns + reflected(column + k - half, columns)];
      }
      filtered[row * columns + column] = window.sort()[half];
    }
  }
  return { rows, columns, values: filtered };
}

const Step = { diagonal: 0, up: 1, left: 2 };

/** The cheapest monotonic path through a cost matrix, as index pairs from its first to its last cell. */
export function dynamicTimeWarping({ rows, columns, values }: Matrix): {
  rows: Int32Array;
  columns: Int32Array;
} {
  const width = columns + 1;
  const cost = new Float64Array((rows + 1) * width).fill(Infinity);
  const steps = new Uint8Array((rows + 1) * width);
  cost[0] = 0;
  for (let row = 1; row <= rows; row++) {
    for (let column = 1; column <= columns; column++) {
      const at = row * width + column;
      const diagonal = cost[at - width - 1];
      const up = cost[at - width];
      const left = cost[at - 1];
      let [least, step] = [left, Step.left];
      if (diagonal < up && diagonal < left) [least, step] = [diagonal, Step.diagonal];
      else if (up < diagonal && up < left) [least, step] = [up, Step.up];
      cost[at] = values[(row - 1) * columns + column - 1] + least;
      steps[at] = step;
    }
  }
  return backtrace(steps, rows, columns);
}

function backtrace(
  steps: Uint8Array,
  rows: number,
  columns: number,
): { rows: Int32Array; columns: Int32Array } {
  const width = columns + 1;
  const path: [number, number][] = [];
  let [row, column] = [rows, columns];
  while (row > 0 || column > 0) {
    path.push([row - 1, column - 1]);
    // The border leads straight to the first cell.
    const step = row === 0 ? Step.left : column === 0 ? Step.up : steps[row * width + column];
    if (step !== Step.left) row -= 1;
    if (step !== Step.up) column -= 1;
  }
  path.reverse();
  return {
    rows: Int32Array.from(path, ([r]) => r),
    columns: Int32Array.from(path, ([, c]) => c),
  };
}
