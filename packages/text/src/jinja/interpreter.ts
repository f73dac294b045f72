/** Evaluates templates as Python's Jinja does: scopes, loops, macros and what is put out. */

import { filter } from './filters.js';
import { Arguments, attribute, dictKey, subscript } from './methods.js';
import type {
  Argument,
  Call,
  CallBlock,
  Expression,
  For,
  Node,
  Parameter,
  SetNode,
} from './nodes.js';
import { binary, slice, unary } from './operators.js';
import {
  equals,
  Float,
  isTrue,
  iterate,
  Namespace,
  TemplateError,
  text,
  tuple,
  typeName,
  Undefined,
  type Callable,
  type Value,
} from './values.js';

class Break extends Error {}
class Continue extends Error {}

/** Variables; those of the scopes around it can be read. */
class Scope {
  private readonly variables = new Map<string, Value>();
  private readonly parent: Scope | undefined;

  constructor(parent?: Scope) {
    this.parent = parent;
  }

  get(name: string): Value {
    const value = this.variables.get(name);
    if (value !== undefined) return value;
    return this.parent ? this.parent.get(name) : new Undefined(`'${name}' is undefined`);
  }

  set(name: string, value: Value): void {
    this.variables.set(name, value);
  }
}

type Output = string[];

/** @throws TemplateError where Python would raise an error */
export function render(nodes: readonly Node[], variables: ReadonlyMap<string, Value>): string {
  const globals = new Scope();
  for (const [name, value] of variables) globals.set(name, value);
  return rendered(nodes, new Scope(globals));
}

function rendered(nodes: readonly Node[], scope: Scope): string {
  const output: Output = [];
  run(nodes, scope, output);
  return output.join('');
}

function run(nodes: readonly Node[], scope: Scope, output: Output): void {
  for (const node of nodes) {
    switch (node.type) {
      case 'If':
        run(isTrue(evaluate(node.test, scope)) ? node.body : node.alternate, scope, output);
        break;
      case 'For':
        loop(node, scope, output);
        break;
      case 'Set':
        set(node, scope);
        break;
      case 'Macro':
        scope.set(node.name.value, macro(node.name.value, node, scope));
        break;
      case 'CallStatement':
        output.push(text(callBlock(node, scope)));
        break;
      case 'FilterStatement': {
        const body = rendered(node.body, new Scope(scope));
        output.push(text(applyFilter(body, node.filter, scope)));
        break;
      }
      case 'Break':
        throw new Break();
      case 'Continue':
        throw new Continue();
      default:
        output.push(text(evaluate(node, scope)));
    }
  }
}

function loop(node: For, scope: Scope, output: Output): void {
  const items = loopItems(node, scope);
  if (items.length === 0) run(node.defaultBlock, new Scope(scope), output);
  let last: readonly Value[] | undefined;
  const changed: Callable = (args) => {
    const isSame = last !== undefined && equals(tuple(last), tuple(args));
    last = args;
    return !isSame;
  };
  for (let i = 0; i < items.length; i++) {
    // Each round has variables of its own: what is set in one is not there in the next.
    const inner = new Scope(scope);
    inner.set('loop', loopState(items, i, changed));
    assign(node.loopvar, items[i], inner);
    try {
      run(node.body, inner, output);
    } catch (error) {
      if (error instanceof Break) return;
      if (!(error instanceof Continue)) throw error;
    }
  }
}

function loopItems({ iterable, loopvar }: For, scope: Scope): readonly Value[] {
  if (iterable.type !== 'SelectExpression') return iterate(evaluate(iterable, scope));
  return iterate(evaluate(iterable.lhs, scope)).filter((item) => {
    const inner = new Scope(scope);
    assign(loopvar, item, inner);
    return isTrue(evaluate(iterable.test, inner));
  });
}

function loopState(items: readonly Value[], i: number, changed: Callable): Namespace {
  const outside = (which: string) => new Undefined(`there is no ${which} item`);
  return new Namespace(
    new Map<string, Value>([
      ['index', i + 1],
      ['index0', i],
      ['revindex', items.length - i],
      ['revindex0', items.length - i - 1],
      ['first', i === 0],
      ['last', i === items.length - 1],
      ['length', items.length],
      ['depth', 1],
      ['depth0', 0],
      ['previtem', i > 0 ? items[i - 1] : outside('previous')],
      ['nextitem', i + 1 < items.length ? items[i + 1] : outside('next')],
      ['changed', changed],
      ['cycle', (args) => args[i % args.length]],
    ]),
  );
}

function set({ assignee, value, body }: SetNode, scope: Scope): void {
  const result = value === null ? rendered(body, new Scope(scope)) : evaluate(value, scope);
  assign(assignee, result, scope);
}

function assign(target: Expression, value: Value, scope: Scope): void {
  if (target.type === 'Identifier') {
    scope.set(target.value, value);
  } else if (target.type === 'TupleLiteral') {
    const items = iterate(value);
    if (items.length !== target.value.length) {
      throw new TemplateError(
        `${items.length} values can't be unpacked into ${target.value.length}`,
      );
    }
    target.value.forEach((part, i) => assign(part, items[i], scope));
  } else if (target.type === 'MemberExpression' && target.property.type === 'Identifier') {
    const object = evaluate(target.object, scope);
    if (!(object instanceof Namespace)) {
      throw new TemplateError('cannot assign attribute on non-namespace object');
    }
    setAttribute(object.attributes, target.property.value, value);
  } else {
    throw new TemplateError('cannot assign to this expression');
  }
}

function setAttribute(attributes: Map<string, Value>, name: string, value: Value): void {
  if (name.startsWith('_'))
    throw new TemplateError(`a namespace can't have the attribute '${name}'`);
  attributes.set(name, value);
}

/** What `namespace(...)` makes. */
export const namespace: Callable = (args, named) => {
  const attributes = new Map<string, Value>();
  for (const [name, value] of [...entriesOf(args), ...named]) {
    setAttribute(attributes, text(name), value);
  }
  return new Namespace(attributes);
};

/** What `dict(...)` makes. */
export const dict: Callable = (args, named) => new Map([...entriesOf(args), ...named]);

function entriesOf([source]: readonly Value[]): [Value, Value][] {
  if (source === undefined) return [];
  if (source instanceof Map) return [...source];
  return iterate(source).map((pair) => {
    const [key, value] = iterate(pair);
    return [key, value];
  });
}

interface MacroBody {
  args: readonly Parameter[];
  body: readonly Node[];
}

/** A macro sees the variables of where it is written, not those of where it is called. */
function macro(name: string, { args: parameters, body }: MacroBody, scope: Scope): Callable {
  return (args, named) => {
    const inner = new Scope(scope);
    const rest = new Map(named);
    const names = parameters.map(
      (parameter) => (parameter.type === 'Identifier' ? parameter : parameter.key).value,
    );
    const defaults: (() => void)[] = [];
    names.forEach((parameterName, i) => {
      const given = args[i] ?? rest.get(parameterName);
      const parameter = parameters[i];
      rest.delete(parameterName);
      inner.set(
        parameterName,
        given ?? new Undefined(`parameter '${parameterName}' was not provided`),
      );
      if (given === undefined && parameter.type === 'KeywordArgumentExpression') {
        defaults.push(() => inner.set(parameterName, evaluate(parameter.value, inner)));
      }
    });
    const caller = rest.get('caller');
    rest.delete('caller');
    if (caller !== undefined) inner.set('caller', caller);
    inner.set('varargs', tuple(args.slice(names.length)));
    inner.set('kwargs', new Map(rest));
    inner.set('name', name);
    for (const setDefault of defaults) setDefault();
    checkSurplus(name, { args: args.length - names.length, named: [...rest.keys()] }, body);
    return rendered(body, inner);
  };
}

/** More arguments than parameters are for macros that look at them. */
function checkSurplus(
  name: string,
  surplus: { args: number; named: readonly string[] },
  body: readonly Node[],
): void {
  if (surplus.args > 0 && !reads(body, 'varargs')) {
    throw new TemplateError(`macro '${name}' takes not more than its arguments`);
  }
  if (surplus.named.length > 0 && !reads(body, 'kwargs')) {
    throw new TemplateError(`macro '${name}' takes no keyword argument '${surplus.named[0]}'`);
  }
}

function reads(node: unknown, name: string): boolean {
  if (node instanceof Map) return [...node].some((entry) => reads(entry, name));
  if (Array.isArray(node)) return node.some((child) => reads(child, name));
  if (typeof node !== 'object' || node === null) return false;
  if ('type' in node && node.type === 'Identifier' && 'value' in node && node.value === name) {
    return true;
  }
  return Object.values(node).some((child) => reads(child, name));
}

function callBlock({ call: node, callerArgs, body }: CallBlock, scope: Scope): Value {
  const caller = macro('caller', { args: callerArgs ?? [], body }, scope);
  return call(node, scope, new Map([['caller', caller]]));
}

function call(node: Call, scope: Scope, extra: ReadonlyMap<string, Value> = new Map()): Value {
  const callee = evaluate(node.callee, scope);
  const { args, named } = evaluateArguments(node.args, scope);
  if (callee instanceof Undefined) callee.fail();
  if (typeof callee !== 'function') {
    throw new TemplateError(`'${typeName(callee)}' object is not callable`);
  }
  return callee(args, new Map([...named, ...extra]));
}

function evaluateArguments(nodes: readonly Argument[], scope: Scope) {
  const args: Value[] = [];
  const named = new Map<string, Value>();
  for (const node of nodes) {
    switch (node.type) {
      case 'KeywordArgumentExpression':
        named.set(node.key.value, evaluate(node.value, scope));
        break;
      case 'SpreadExpression':
        args.push(...iterate(evaluate(node.argument, scope)));
        break;
      case 'KeywordSpreadExpression': {
        const value = evaluate(node.argument, scope);
        if (!(value instanceof Map)) throw new TemplateError('argument after ** must be a mapping');
        for (const [key, item] of value) named.set(text(key), item);
        break;
      }
      default:
        args.push(evaluate(node, scope));
    }
  }
  return { args, named };
}

function applyFilter(value: Value, node: Expression, scope: Scope): Value {
  if (node.type === 'Identifier') return filter(node.value, value, new Arguments([], new Map()));
  if (node.type !== 'CallExpression' || node.callee.type !== 'Identifier') {
    throw new TemplateError('a filter is a name');
  }
  const { args, named } = evaluateArguments(node.args, scope);
  return filter(node.callee.value, value, new Arguments(args, named));
}

function evaluate(node: Expression, scope: Scope): Value {
  switch (node.type) {
    case 'StringLiteral':
    case 'IntegerLiteral':
      return node.value;
    case 'FloatLiteral':
      return new Float(node.value);
    case 'Identifier':
      return scope.get(node.value);
    case 'ArrayLiteral':
      return node.value.map((item) => evaluate(item, scope));
    case 'TupleLiteral':
      return tuple(node.value.map((item) => evaluate(item, scope)));
    case 'ObjectLiteral':
      return new Map(
        Array.from(node.value, ([key, item]) => [
          dictKey(evaluate(key, scope)),
          evaluate(item, scope),
        ]),
      );
    case 'CallExpression':
      return call(node, scope);
    case 'MemberExpression':
      return member(node, scope);
    case 'FilterExpression':
      return applyFilter(evaluate(node.operand, scope), node.filter, scope);
    case 'UnaryExpression': {
      const value = evaluate(node.argument, scope);
      return node.operator.value === 'not' ? !isTrue(value) : unary(node.operator.value, value);
    }
    case 'BinaryExpression': {
      const left = evaluate(node.left, scope);
      const operator = node.operator.value;
      if (operator === 'and') return isTrue(left) ? evaluate(node.right, scope) : left;
      if (operator === 'or') return isTrue(left) ? left : evaluate(node.right, scope);
      return binary(operator, left, evaluate(node.right, scope));
    }
    case 'Ternary':
      return evaluate(
        isTrue(evaluate(node.condition, scope)) ? node.trueExpr : node.falseExpr,
        scope,
      );
    case 'SelectExpression':
      return isTrue(evaluate(node.test, scope))
        ? evaluate(node.lhs, scope)
        : new Undefined(
            'the inline if-expression evaluated to false and no else section was defined',
          );
    default:
      throw new TemplateError(`there is no ${(node as { type: string }).type} here`);
  }
}

function member(
  { object, property, computed }: Extract<Expression, { type: 'MemberExpression' }>,
  scope: Scope,
): Value {
  const value = evaluate(object, scope);
  if (property.type === 'SliceExpression') {
    const part = (bound: Expression | undefined) => bound && evaluate(bound, scope);
    return slice(value, part(property.start), part(property.stop), part(property.step));
  }
  if (computed) return subscript(value, evaluate(property, scope));
  if (property.type === 'IntegerLiteral') return subscript(value, property.value);
  return attribute(value, (property as { value: string }).value);
}
