import { getRandomValues } from 'node:crypto';

/**
 * Random numbers of one request: xoshiro128** (Blackman and Vigna, "Scrambled linear pseudorandom number
 * generators", 2021), its state filled by splitmix64 from a seed of 64 bits.
 */
export class Random {
  private readonly state = new Uint32Array(4);

  /** @param seed 0 to 2⁶⁴ − 1; one from the system without */
  constructor(seed?: bigint) {
    let value = seed ?? getRandomValues(new BigUint64Array(1))[0];
    for (let i = 0; i < 4; i += 2) {
      value = BigInt.asUintN(64, value + 0x9e3779b97f4a7c15n);
      let z = value;
      z = BigInt.asUintN(64, (z ^ (z >> 30n)) * 0xbf58476d1ce4e5b9n);
      z = BigInt.asUintN(64, (z ^ (z >> 27n)) * 0x94d049bb133111ebn);
      z ^= z >> 31n;
      this.state[i] = Number(z & 0xffffffffn);
      this.state[i + 1] = Number(z >> 32n);
    }
  }

  /** The next number from 0 up to but not 1, of 53 bits. */
  next(): number {
    return ((this.bits() >>> 5) * 2 ** 26 + (this.bits() >>> 6)) / 2 ** 53;
  }

  private bits(): number {
    const { state } = this;
    const result = Math.imul(rotated(Math.imul(state[1], 5), 7), 9);
    const shifted = state[1] << 9;
    state[2] ^= state[0];
    state[3] ^= state[1];
    state[1] ^= state[2];
    state[0] ^= state[3];
    state[2] ^= shifted;
    state[3] = rotated(state[3], 11);
    return result >>> 0;
  }
}

function rotated(value: number, by: number): number {
  return (value << by) | (value >>> (32 - by));
}
