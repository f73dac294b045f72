/**
 * Byte-pair encoding as SentencePiece has it: the file gives each token a score, and no list of merges.
 *
 * Equal to what Hugging Face's Rust library makes of such a vocabulary once `transformers` has turned it
 * into merges (`generate_merges`): of all neighbours that together make a token, those with the highest
 * score are joined first; at equal scores those with the longer left part, then the leftmost.
 */

/**
 * @param idOf ids by token
 * @param scores by id
 * @returns what splits a text, taken as one word, into tokens; characters without a token stay alone
 */
export function scoredBpe(
  idOf: ReadonlyMap<string, number>,
  scores: ArrayLike<number>,
): (word: string) => string[] {
  return (word) => new Merging(word, idOf, scores).tokens();
}

/** One text's symbols: a chain of slices, first its characters, in the end tokens. */
class Merging {
  private readonly word: string;
  private readonly idOf: ReadonlyMap<string, number>;
  private readonly scores: ArrayLike<number>;
  /** Where each character begins in UTF-16 units; one more for the end. */
  private readonly starts: number[] = [];
  /** By the first character of a symbol: that of the symbol after it, and of the one before it. */
  private readonly next: Int32Array;
  private readonly previous: Int32Array;
  private readonly queue = new CandidateQueue();

  constructor(word: string, idOf: ReadonlyMap<string, number>, scores: ArrayLike<number>) {
    this.word = word;
    this.idOf = idOf;
    this.scores = scores;
    let unit = 0;
    for (const character of word) {
      this.starts.push(unit);
      unit += character.length;
    }
    this.starts.push(unit);
    const count = this.starts.length - 1;
    this.next = Int32Array.from({ length: count }, (_, i) => i + 1);
    this.previous = Int32Array.from({ length: count }, (_, i) => i - 1);
    for (let i = 0; i + 1 < count; i++) this.propose(i);
  }

  tokens(): string[] {
    for (let best = this.queue.pop(); best; best = this.queue.pop()) {
      if (this.next[best.left] === best.right && this.next[best.right] === best.end) {
        this.join(best);
      }
    }
    const tokens: string[] = [];
    for (let i = 0; i < this.next.length; i = this.next[i])
      tokens.push(this.slice(i, this.next[i]));
    return tokens;
  }

  private join({ left, right, end }: Candidate): void {
    this.next[left] = end;
    // No candidate that begins with the right part is up to date any more.
    this.next[right] = -1;
    if (end < this.next.length) {
      this.previous[end] = left;
      this.propose(left);
    }
    if (this.previous[left] >= 0) this.propose(this.previous[left]);
  }

  /** Puts the symbol and its right neighbour into the queue, if together they make a token. */
  private propose(left: number): void {
    const right = this.next[left];
    const end = this.next[right];
    const id = this.idOf.get(this.slice(left, end));
    if (id === undefined || !this.idOf.has(this.slice(left, right))) return;
    if (!this.idOf.has(this.slice(right, end))) return;
    this.queue.push({ left, right, end, score: this.scores[id] });
  }

  private slice(from: number, to: number): string {
    return this.word.slice(this.starts[from], this.starts[to]);
  }
}

/** Two neighbours that may be joined, by the characters at which they begin and end. */
interface Candidate {
  left: number;
  right: number;
  end: number;
  score: number;
}

function isBetter(a: Candidate, b: Candidate): boolean {
  if (a.score !== b.score) return a.score > b.score;
  const longer = a.right - a.left - (b.right - b.left);
  return longer === 0 ? a.left < b.left : longer > 0;
}

/** A binary heap with the best candidate on top. */
class CandidateQueue {
  private readonly heap: Candidate[] = [];

  push(candidate: Candidate): void {
    const { heap } = this;
    let i = heap.length;
    heap.push(candidate);
    while (i > 0) {
      const parent = (i - 1) >> 1;
      if (!isBetter(candidate, heap[parent])) break;
      heap[i] = heap[parent];
      i = parent;
    }
    heap[i] = candidate;
  }

  pop(): Candidate | undefined {
    const { heap } = this;
    const best = heap[0] as Candidate | undefined;
    const last = heap.pop();
    if (last === undefined || heap.length === 0) return best;
    let i = 0;
    for (let child = 1; child < heap.length; child = 2 * i + 1) {
      if (child + 1 < heap.length && isBetter(heap[child + 1], heap[child])) child++;
      if (!isBetter(heap[child], last)) break;
      heap[i] = heap[child];
      i = child;
    }
    heap[i] = last;
    return best;
  }
}
