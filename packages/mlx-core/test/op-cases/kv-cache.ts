import { array, type OpCase } from './case.js';

// One head of four slots with one number each.
const column = (numbers: number[]) => array([[numbers.map((number) => [number])]]);

export const kvCache: Record<string, OpCase[]> = {
  kvCacheUpdate: [
    {
      args: () => [column([1, 2, 3, 4]), column([8, 9]), 1],
      gives: [[[[1], [8], [9], [4]]]],
    },
    {
      args: () => [column([1, 2, 3, 4]), column([7, 8, 9]), 6],
      gives: [[[[9], [2], [7], [8]]]],
    },
  ],
  kvCacheAttention: [
    // Scores of 0, so that a query gives the mean of what it sees.
    {
      args: () => [column([1, 1]), column([0, 0, 0, 0]), column([2, 4, 6, 99]), 1, 1],
      gives: [[[[3], [4]]]],
    },
    // Positions 3 to 6 lie in slots 3, 0, 1 and 2.
    {
      args: () => [column([1, 1]), column([0, 0, 0, 0]), column([4, 5, 6, 3]), 5, 1, 3],
      gives: [[[[4], [5]]]],
    },
  ],
};
