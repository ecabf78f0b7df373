// A number of a run with its formula and the numbers in it, as studio/terms.py.
import { Computation, evaluate, leaves, readAddress, written } from './computation.js';
import { Part } from './part.js';
import { PARTS } from './part_terms.js';

export const TOP = 8; // terms of a long sum
export const MOST = 64; // terms that can be requested

// A number with six significant digits, as Python's format g.
/** @type {(value: number) => string} */
export function shown(value) {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? 'nan' : value < 0 ? '-inf' : 'inf';
  const [digits, power] = value.toExponential(5).split('e');
  if (Number(power) >= -4 && Number(power) < 6) return String(Number(value.toPrecision(6)));
  const [, sign, size] = /** @type {RegExpExecArray} */ (/^([+-])(\d+)$/.exec(power));
  return `${Number(digits)}e${sign}${size.padStart(2, '0')}`;
}
// In JSON, a value that is not finite becomes null.
/** @type {(value: number) => { value: number; text: string }} */
const plain = value => ({ value, text: shown(value) });
/** @type {(run: LocalRun, term: Term) => Expression} */
function answered(run, term) {
  if ('operation' in term)
    return { ...term, ...plain(evaluate(term)), arguments: term.arguments.map(each => answered(run, each)) };
  if ('rest' in term) return { ...term, ...plain(term.value) };
  return { ...term, ...plain(term.value), ...tokenAt(run, term) };
}
// The token's text of a token id.
/** @type {(run: LocalRun, number: { kind: string; address: string; value: number }) => { token?: string }} */
function tokenAt({ opened: { model } }, { kind, address, value }) {
  const side = kind === 'input' ? readAddress(address).name : 'x';
  if (side === 'x') return {};
  return { token: (model.tokenizers[side] ?? model.tokenizers.tokenizer).pieces([value])[0] };
}
// The name of a weight or an input as MathML: upright.
/** @type {(name: string) => string} */
const upright = name =>
  `<math xmlns="http://www.w3.org/1998/Math/MathML"><mi${name.length > 1 ? '' : ' mathvariant="normal"'}>` +
  `${name.replaceAll('_', ' ')}</mi></math>`;
// The number at an address, with the terms it is computed from.
/** @type {(run: LocalRun, address: string, top?: number) => Omit<OpenedNumber, 'top'>} */
export function terms(run, address, top = TOP) {
  const all = new Computation(run, top);
  const { name, index: given } = readAddress(address);
  const { kind, shape } = all.tensor(name);
  const index = kind === 'point' && shape.join() === '1' && !given.length ? [0] : given; // a perceptron's output
  if (index.length !== shape.length || index.some((place, axis) => place >= shape[axis]))
    throw new Error(`${name} has shape (${shape.join(', ')}); [${index.join(', ')}] is not an index of one number`);
  const number = all.number('', name, ...index);
  const own = { address: written(name, index), kind, ...plain(number.value), ...tokenAt(run, number) };
  const places = written('', index);
  const last = name.split('.').at(-1) ?? '';
  if (kind !== 'point')
    return {
      ...own,
      symbol: upright(last),
      meaning: kind === 'input' ? 'an input of the network' : 'a weight, set in training',
      formula: '',
      symbols: {},
      remainder: 0,
      python:
        kind === 'input'
          ? `trace.example.batch.inputs["${name}"]${places}`
          : `trace.network.state_dict()["${name}"]${places}`,
      expression: null,
    };
  const scope = name.slice(0, -last.length - 1);
  const part = scope.replace(/.*[._]/, '');
  const term = PARTS[part](new Part(all, scope), last, index);
  const worked = evaluate(term);
  const { symbol, meaning, formula } = run.opened.catalogue[`${part}.${last}`];
  const symbols = run.opened.symbols[`${scope.includes('backward') ? 'backward.' : ''}${part}`];
  return {
    ...own,
    symbol,
    meaning,
    formula: run.point(name).formula ?? formula,
    symbols: Object.fromEntries(leaves(term).map(each => [each.name, symbols[each.name]])),
    remainder: worked === number.value ? 0 : number.value - worked,
    python: `trace["${name}"]${places}`,
    expression: answered(run, term),
  };
}
