// All numbers of one run, each with an address, and the expressions that compute them from other numbers; as
// parts/computation.py and parts/expression.py.
import { ACTIVATIONS } from './layers.js';

// ---- expressions

/** @type {(values: number[]) => number} */
const largestOf = values => {
  const most = Math.max(...values);
  return most === -Infinity ? 0 : most; // the shift of a row without visible keys
};
/** @type {Record<string, (values: number[]) => number>} */
const FUNCTIONS = {
  '+': values => values.reduce((sum, value) => sum + value, 0),
  '·': values => values.reduce((product, value) => product * value, 1),
  '-': ([a, b]) => a - b,
  '/': ([a, b]) => (b === 0 ? 0 : a / b),
  '^': ([a, b]) => a ** b,
  sqrt: ([a]) => Math.sqrt(a),
  exp: ([a]) => Math.exp(a),
  sin: ([a]) => Math.sin(a),
  cos: ([a]) => Math.cos(a),
  max: largestOf,
  where: ([sees, value]) => (sees ? value : -Infinity),
  table: ([value]) => value, // the row that the other arguments select
  '<=': ([a, b]) => Number(a <= b),
  '>': ([a, b]) => Number(a > b),
};
/** @type {(name: string, value: number) => Term} */
export const constant = (name, value) => ({ name, value, kind: 'constant', address: '' });
/** @type {(operation: string, ...inside: Term[]) => Term} */
export const apply = (operation, ...inside) =>
  operation === 'identity' ? inside[0] : { operation, arguments: inside };
/** @type {(term: Term) => number} */
export function evaluate(term) {
  if (!('operation' in term)) return term.value;
  const values = term.arguments.map(evaluate);
  const { operation } = term;
  return operation in FUNCTIONS ? FUNCTIONS[operation](values) : ACTIVATIONS[operation](values[0]);
}
/** @type {(term: Term) => LocalNumber[]} */
export function leaves(term) {
  if ('operation' in term) return term.arguments.flatMap(leaves);
  return 'rest' in term ? [] : [term];
}

// ---- vectors of terms

/** @type {(one: Terms, two: Terms) => Terms} */
export const dot = (one, two) => ({
  values: one.values.map((value, i) => value * two.values[i]),
  at: i => apply('·', one.at(i), two.at(i)),
});
/** @type {(...vectors: Terms[]) => Terms} */
export function concatenated(...vectors) {
  const places = vectors.flatMap(vector => vector.values.map((_, i) => ({ vector, i })));
  return {
    values: vectors.flatMap(({ values }) => values),
    at: i => places[i].vector.at(places[i].i),
  };
}

// ---- the numbers of a run

/** @type {(name: string, index: number[]) => string} */
export const written = (name, index) => (index.length ? `${name}[${index.join(', ')}]` : name);
/** @type {(address: string) => { name: string; index: number[] }} */
export function readAddress(address) {
  const [found, name, places = ''] = /^\s*([\w.]+)\s*(?:\[([\d,\s]*)\])?\s*$/.exec(address) ?? [];
  if (!found) throw new Error(`'${address}' is not an address; use a name and an index: head.logits[0, 3, 5]`);
  return { name, index: places.trim() ? places.split(',').map(Number) : [] };
}
// The names of a weight that several parts share, the one that is stored last.
const SHARED = ['head.linear.weight', 'decoder.embedding.table.weight', 'encoder.embedding.table.weight'];

export class Computation {
  /** @param {LocalRun} run @param {number} shown terms of a long sum that are shown */
  constructor(run, shown) {
    this.run = run;
    this.shown = shown;
    this.inputs = /** @type {Record<string, number[] | undefined>} */ (run.example.inputs);
    this.weights = run.opened.model.weights.tensors;
  }
  /** @type {(name: string) => boolean} */
  has(name) {
    return this.run.trace.met.has(name);
  }
  // The tensor of a point, an input or a weight, and which of these it is.
  /** @type {(name: string) => { kind: string; shape: number[]; values: ArrayLike<number> }} */
  tensor(name) {
    if (this.has(name)) return { kind: 'point', ...this.run.get(name) };
    const input = this.inputs[name];
    if (input) return { kind: 'input', shape: [1, input.length], values: input };
    const names = SHARED.includes(name) ? SHARED.slice(SHARED.indexOf(name)) : [name];
    const weight = names.map(each => this.weights.get(each)).find(Boolean);
    if (!weight) throw new Error(`'${name}' is not a point, weight or input of this run`);
    return { kind: 'parameter', ...weight };
  }
  // The value at one index of a tensor. An axis of size 1 is broadcast.
  /** @type {(label: string, name: string, ...index: number[]) => LocalNumber} */
  number(label, name, ...index) {
    const { kind, shape, values } = this.tensor(name);
    const place = index.map((at, axis) => (shape[axis] === 1 ? 0 : at));
    return { name: label, value: values[offset(shape, place)], kind, address: written(name, place) };
  }
  // The values of a tensor along the axis where the index is null.
  /** @type {(label: string, name: string, ...index: (number | null)[]) => Terms} */
  vector(label, name, ...index) {
    const { kind, shape, values } = this.tensor(name);
    const axis = index.indexOf(null);
    /** @type {(i: number) => number[]} */
    const place = i => index.map((at, n) => (n === axis ? i : shape[n] === 1 ? 0 : /** @type {number} */ (at)));
    const all = Array.from({ length: shape[axis] }, (_, i) => values[offset(shape, place(i))]);
    return { values: all, at: i => ({ name: label, value: all[i], kind, address: written(name, place(i)) }) };
  }
  // A vector of zeros, such as the state before the first token.
  /** @type {(label: string, size: number) => Terms} */
  zeros(label, size) {
    return { values: new Array(size).fill(0), at: () => constant(label, 0) };
  }
  // A sum that shows its largest terms and combines the rest into one; single terms are always shown.
  /** @type {(sums: Terms[], ...alone: Term[]) => Term} */
  total(sums, ...alone) {
    const { chosen, rest } = this.largest(concatenated(...sums), Math.abs);
    if (rest.length) alone.push({ rest: rest.length, value: rest.reduce((sum, value) => sum + value, 0) });
    const terms = [...chosen, ...alone];
    return terms.length > 1 ? apply('+', ...terms) : terms[0];
  }
  // A maximum that shows the largest numbers and combines the rest into one.
  /** @type {(terms: Terms) => Term} */
  maximum(terms) {
    const { chosen, rest } = this.largest(terms, value => value);
    if (rest.length) chosen.push({ rest: rest.length, value: Math.max(...rest) });
    return apply('max', ...chosen);
  }
  /** @type {(terms: Terms, by: (value: number) => number) => { chosen: Term[]; rest: number[] }} */
  largest({ values, at }, by) {
    const sizes = values.map(by);
    const order = values.map((_, i) => i).sort((i, j) => (sizes[i] === sizes[j] ? i - j : sizes[j] - sizes[i]));
    // a single remaining term needs no more space than the line for the rest
    const shown = order.length <= this.shown + 1 ? order.length : this.shown;
    return { chosen: order.slice(0, shown).map(at), rest: order.slice(shown).map(i => values[i]) };
  }
  // One output of a linear layer: W x + b.
  /** @type {(layer: string, row: number, x: Terms, weight?: string, bias?: string) => Term} */
  linear(layer, row, x, weight = 'W', bias = 'b') {
    const product = dot(this.vector(weight, `${layer}.weight`, row, null), x);
    const hasBias = this.weights.has(`${layer}.bias`);
    return this.total([product], ...(hasBias ? [this.number(bias, `${layer}.bias`, row)] : []));
  }
}
/** @type {(shape: number[], index: number[]) => number} */
const offset = (shape, index) => index.reduce((sum, at, axis) => sum * shape[axis] + at, 0);
