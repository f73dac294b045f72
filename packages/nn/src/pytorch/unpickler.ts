/**
 * Python's pickles as far as data needs them: a machine with a stack that builds dicts, lists and the like.
 * Nothing is ever imported or called: which globals there are, and what they make of their arguments, is up
 * to the table that it is given.
 * Source: Lib/pickletools.py of CPython, protocols 2 to 5.
 */
import { quoted } from '@mlx-runners/mlx-core';

/** A global of Python, by `module.name`, as what it makes of its arguments. */
export type Globals = ReadonlyMap<string, (args: readonly unknown[]) => unknown>;

export interface UnpickleOptions {
  globals: Globals;
  /** What stands for a persistent id. */
  persistent: (id: unknown) => unknown;
}

/** What is wrong with a pickle, in words to follow `it is damaged: `. */
export class PickleError extends Error {}

/** A global that is known, which may be called or be data itself. */
export class Global {
  readonly name: string;
  readonly call: (args: readonly unknown[]) => unknown;

  constructor(name: string, call: (args: readonly unknown[]) => unknown) {
    this.name = name;
    this.call = call;
  }
}

const MARK = Symbol('mark');

const Op = {
  Proto: 0x80,
  Frame: 0x95,
  Stop: 0x2e,
  Mark: 0x28,
  Pop: 0x30,
  PopMark: 0x31,
  None: 0x4e,
  True: 0x88,
  False: 0x89,
  Int4: 0x4a,
  Int1: 0x4b,
  Int2: 0x4d,
  Long1: 0x8a,
  Float: 0x47,
  Text4: 0x58,
  Text1: 0x8c,
  Text8: 0x8d,
  Bytes4: 0x42,
  Bytes1: 0x43,
  EmptyDict: 0x7d,
  EmptyList: 0x5d,
  EmptyTuple: 0x29,
  Tuple: 0x74,
  Tuple1: 0x85,
  Tuple2: 0x86,
  Tuple3: 0x87,
  Append: 0x61,
  Appends: 0x65,
  SetItem: 0x73,
  SetItems: 0x75,
  Put1: 0x71,
  Put4: 0x72,
  Get1: 0x68,
  Get4: 0x6a,
  Memoize: 0x94,
  Global: 0x63,
  StackGlobal: 0x93,
  PersistentId: 0x51,
  Reduce: 0x52,
  Build: 0x62,
} as const;

/**
 * What a pickle says: null, booleans, numbers (bigint where a number can't hold an integer), texts, bytes,
 * lists and tuples as arrays, dicts as maps, and what the globals make.
 *
 * @throws PickleError for globals and operations that are not known, and damage; what the table throws
 */
export function unpickle(bytes: Buffer, options: UnpickleOptions): unknown {
  return new Machine(bytes, options).run();
}

class Machine {
  readonly #bytes: Buffer;
  readonly #options: UnpickleOptions;
  readonly #memo = new Map<number, unknown>();
  readonly #stack: unknown[] = [];
  #at = 0;

  constructor(bytes: Buffer, options: UnpickleOptions) {
    this.#bytes = bytes;
    this.#options = options;
  }

  run(): unknown {
    while (this.#bytes[this.#at] !== Op.Stop) this.#step(this.#take(1)[0]);
    return this.#pop();
  }

  #step(op: number): void {
    switch (op) {
      case Op.Proto:
        this.#take(1);
        return;
      case Op.Frame:
        this.#take(8);
        return;
      case Op.Mark:
        this.#stack.push(MARK);
        return;
      case Op.Pop:
        this.#stack.pop();
        return;
      case Op.PopMark:
        this.#marked();
        return;
      case Op.Put1:
        this.#memo.set(this.#take(1)[0], this.#top());
        return;
      case Op.Put4:
        this.#memo.set(this.#take(4).readUInt32LE(), this.#top());
        return;
      case Op.Memoize:
        this.#memo.set(this.#memo.size, this.#top());
        return;
      case Op.Append:
        this.#append([this.#pop()]);
        return;
      case Op.Appends:
        this.#append(this.#marked());
        return;
      case Op.SetItem:
        this.#setItems([this.#pop(), this.#pop()].reverse());
        return;
      case Op.SetItems:
        this.#setItems(this.#marked());
        return;
      case Op.Build:
        this.#build();
        return;
      default:
        this.#stack.push(this.#value(op));
    }
  }

  /** What an operation puts on the stack. */
  #value(op: number): unknown {
    switch (op) {
      case Op.None:
        return null;
      case Op.True:
        return true;
      case Op.False:
        return false;
      case Op.Int4:
        return this.#take(4).readInt32LE();
      case Op.Int1:
        return this.#take(1)[0];
      case Op.Int2:
        return this.#take(2).readUInt16LE();
      case Op.Long1:
        return this.#long(this.#take(1)[0]);
      case Op.Float:
        return this.#take(8).readDoubleBE();
      case Op.Text4:
        return this.#text(this.#take(4).readUInt32LE());
      case Op.Text1:
        return this.#text(this.#take(1)[0]);
      case Op.Text8:
        return this.#text(Number(this.#take(8).readBigUInt64LE()));
      case Op.Bytes4:
        return this.#take(this.#take(4).readUInt32LE());
      case Op.Bytes1:
        return this.#take(this.#take(1)[0]);
      case Op.EmptyDict:
        return new Map();
      case Op.EmptyList:
      case Op.EmptyTuple:
        return [];
      case Op.Tuple:
        return this.#marked();
      case Op.Tuple1:
      case Op.Tuple2:
      case Op.Tuple3:
        return Array.from({ length: op - Op.Tuple1 + 1 }, () => this.#pop()).reverse();
      case Op.Get1:
        return this.#recalled(this.#take(1)[0]);
      case Op.Get4:
        return this.#recalled(this.#take(4).readUInt32LE());
      case Op.Global:
        return this.#global(this.#line(), this.#line());
      case Op.StackGlobal: {
        const name = this.#pop();
        return this.#global(this.#pop(), name);
      }
      case Op.PersistentId:
        return this.#options.persistent(this.#pop());
      case Op.Reduce: {
        const args = this.#pop();
        const callable = this.#pop();
        if (!(callable instanceof Global && Array.isArray(args))) {
          throw new PickleError('something is called that is no function');
        }
        return callable.call(args);
      }
      default:
        throw new PickleError(`the operation 0x${op.toString(16)} is not known`);
    }
  }

  #take(count: number): Buffer {
    const end = this.#at + count;
    if (!(end <= this.#bytes.length)) throw new PickleError('it ends too early');
    const taken = this.#bytes.subarray(this.#at, end);
    this.#at = end;
    return taken;
  }

  #text(length: number): string {
    return this.#take(length).toString('utf8');
  }

  #line(): string {
    const end = this.#bytes.indexOf(0x0a, this.#at);
    if (end < 0) throw new PickleError('it ends too early');
    const line = this.#bytes.toString('utf8', this.#at, end);
    this.#at = end + 1;
    return line;
  }

  /** A little-endian integer in two's complement. */
  #long(length: number): number | bigint {
    let value = 0n;
    for (const byte of Buffer.from(this.#take(length)).reverse())
      value = value * 256n + BigInt(byte);
    value = BigInt.asIntN(8 * length, value);
    const number = Number(value);
    return Number.isSafeInteger(number) ? number : value;
  }

  #pop(): unknown {
    const value = this.#top();
    this.#stack.pop();
    return value;
  }

  #top(): unknown {
    const value = this.#stack.at(-1);
    if (this.#stack.length === 0 || value === MARK) {
      throw new PickleError('it takes more than was given');
    }
    return value;
  }

  #marked(): unknown[] {
    const mark = this.#stack.lastIndexOf(MARK);
    if (mark < 0) throw new PickleError('it takes more than was given');
    const [, ...values] = this.#stack.splice(mark);
    return values;
  }

  #recalled(index: number): unknown {
    if (!this.#memo.has(index)) throw new PickleError('it recalls what was never kept');
    return this.#memo.get(index);
  }

  #append(values: readonly unknown[]): void {
    const list = this.#top();
    if (!Array.isArray(list)) throw new PickleError('something is appended to what is no list');
    for (const value of values) list.push(value);
  }

  #setItems(items: readonly unknown[]): void {
    const dict = this.#top();
    if (!(dict instanceof Map) || items.length % 2 !== 0) {
      throw new PickleError('items are set in what is no dict');
    }
    for (let i = 0; i < items.length; i += 2) dict.set(items[i], items[i + 1]);
  }

  /** Attributes of an object: an OrderedDict may have some (`_metadata`), which are no data. */
  #build(): void {
    this.#pop();
    if (!(this.#top() instanceof Map)) {
      throw new PickleError('attributes are set of what can have none');
    }
  }

  #global(module: unknown, name: unknown): Global {
    const full = `${String(module)}.${String(name)}`;
    const call = this.#options.globals.get(full);
    if (!call)
      throw new PickleError(`it asks for ${quoted(full)}, which is no tensor or plain data`);
    return new Global(full, call);
  }
}
