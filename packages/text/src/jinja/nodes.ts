/** What @huggingface/jinja's parser makes of a template: its `ast.ts`, as far as it is evaluated here. */

interface Operator {
  value: string;
}

export interface Identifier {
  type: 'Identifier';
  value: string;
}

interface Keyword {
  type: 'KeywordArgumentExpression';
  key: Identifier;
  value: Expression;
}

export type Argument =
  | Expression
  | Keyword
  | { type: 'SpreadExpression'; argument: Expression }
  | { type: 'KeywordSpreadExpression'; argument: Expression };

export type Parameter = Identifier | Keyword;

export interface Call {
  type: 'CallExpression';
  callee: Expression;
  args: Argument[];
}

export interface Slice {
  type: 'SliceExpression';
  start?: Expression;
  stop?: Expression;
  step?: Expression;
}

interface Member {
  type: 'MemberExpression';
  object: Expression;
  property: Expression | Slice;
  computed: boolean;
}

export interface TupleNode {
  type: 'TupleLiteral';
  value: Expression[];
}

export interface Select {
  type: 'SelectExpression';
  lhs: Expression;
  test: Expression;
}

export type Expression =
  | Identifier
  | Call
  | Member
  | TupleNode
  | Select
  | { type: 'StringLiteral'; value: string }
  | { type: 'IntegerLiteral' | 'FloatLiteral'; value: number }
  | { type: 'ArrayLiteral'; value: Expression[] }
  | { type: 'ObjectLiteral'; value: Map<Expression, Expression> }
  | { type: 'BinaryExpression'; operator: Operator; left: Expression; right: Expression }
  | { type: 'UnaryExpression'; operator: Operator; argument: Expression }
  | { type: 'FilterExpression'; operand: Expression; filter: Identifier | Call }
  | { type: 'Ternary'; condition: Expression; trueExpr: Expression; falseExpr: Expression };

export interface For {
  type: 'For';
  loopvar: Identifier | TupleNode;
  iterable: Expression;
  body: Node[];
  defaultBlock: Node[];
}

export interface Macro {
  type: 'Macro';
  name: Identifier;
  args: Parameter[];
  body: Node[];
}

export interface SetNode {
  type: 'Set';
  assignee: Expression;
  value: Expression | null;
  body: Node[];
}

export interface CallBlock {
  type: 'CallStatement';
  call: Call;
  callerArgs: Parameter[] | null;
  body: Node[];
}

/** A statement, or an expression whose text is put out. */
export type Node =
  | Expression
  | For
  | Macro
  | SetNode
  | CallBlock
  | { type: 'If'; test: Expression; body: Node[]; alternate: Node[] }
  | { type: 'FilterStatement'; filter: Identifier | Call; body: Node[] }
  | { type: 'Break' | 'Continue' };
