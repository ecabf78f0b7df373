// Saliency: gradient × input of each token for the output at one position; as see/saliency.py.
import { top } from './beam.js';
import { Tensor, recorded } from './tensor.js';

const IGNORED = -100;

// The gradient at each tensor before an operation's result, given the gradient of that result.
/** @type {(operations: RecordedOperation[], y: Values, dy: Float64Array) => (x: Tensor) => Float64Array} */
export function gradients(operations, y, given) {
  /** @type {Map<Values, Float64Array>} */
  const known = new Map();
  /** @type {(values: Values) => Float64Array} */
  const of = values => {
    const found = known.get(values) ?? new Float64Array(values.length);
    known.set(values, found);
    return found;
  };
  of(y).set(given);
  for (const each of operations.reverse()) {
    const dy = known.get(each.y);
    if (dy) each.back(dy, ({ values }) => of(values));
  }
  return ({ values }) => of(values);
}
// The points at which the tokens enter the model, or the name of its numeric input.
/** @type {(run: LocalRun) => string[]} */
function entrances({ trace }) {
  const names = trace.names();
  const found = names.filter(name => /(^|\.)(embedding\.lookup|standardise\.output)$/.test(name));
  return found.length ? found.map(name => scaled(names, name)) : ['x'];
}
/** @type {(names: string[], name: string) => string} */
const scaled = (names, name) => names.find(each => each === name.replace(/lookup$/, 'scaled')) ?? name;

// The output that is explained: its place in the text, or null; its number; its name.
/** @type {(run: LocalRun, position: number) => { place: number | null; choice: number; word: string }} */
function answerAt(run, position) {
  const { about } = run.opened;
  const { source, follows } = run.example.words;
  if (about.outputs === 'values')
    return { place: null, choice: 0, word: `output 1${about.standardised ? ' (standardised)' : ''}` };
  const rows = run.rows(run.logits);
  const place = about.outputs === 'label' ? null : position;
  if (place !== null && place >= rows.length) throw new Error(`position: must be from 0 to ${rows.length - 1}`);
  const [likeliest] = top(rows[place ?? 0], 1);
  const word = run.name(likeliest);
  if (place === null) return { place, choice: likeliest, word };
  if (about.outputs === 'tags') return { place, choice: likeliest, word: `${word} at ${source[place]}` };
  const target = run.example.targets[place];
  return target === IGNORED ? { place, choice: likeliest, word } : { place, choice: target, word: follows[place] };
}
/** @type {(run: LocalRun, position: number) => Saliency} */
export function saliency(run, position) {
  const { model, about, output } = run.opened;
  if (run.question.off?.length) throw new Error('saliency needs the model as trained; switch all parts on again');
  if (model.config.kind === 'perceptron')
    throw new Error('saliency needs an output with a gradient, but a perceptron outputs 0 or 1; look at its weights');
  const { place, choice, word } = answerAt(run, position);
  const { source, target, features } = run.example.words;
  const x = Float32Array.from(run.example.inputs.x ?? []);
  const entered = entrances(run).map(name => ({
    name,
    value: name === 'x' ? new Tensor([1, x.length], x) : new Tensor(run.get(name).shape, run.get(name).values.slice()),
  }));
  const edit = Object.fromEntries(entered.filter(({ name }) => name !== 'x').map(({ name, value }) => [name, value]));
  const inputs = /** @type {ModelInputs} */ ({ ...run.example.inputs, ...(x.length ? { x } : {}) });
  const { result, operations } = recorded(() => model.run(inputs, { keep: [output], edit }).get(output));
  const index = (place ?? 0) * result.width + choice;
  const one = new Float64Array(result.values.length);
  one[index] = 1;
  const gradientOf = gradients(operations, result.values, one);
  const count = features.length || source.length;
  /** @type {number[]} */
  const values = new Array(count + target.length).fill(0);
  for (const { name, value } of entered) {
    const gradient = gradientOf(value);
    const width = features.length ? 1 : value.width;
    const first = name.startsWith('decoder') ? count : 0;
    value.values.forEach((each, i) => {
      values[first + Math.floor(i / width)] += each * gradient[i];
    });
  }
  // A decoder has not read the tokens after the answer.
  if (place !== null && model.config.shape !== 'encoder') values.length = count + place + 1;
  return {
    position,
    word,
    value: result.values[index],
    unit: about.outputs === 'values' ? 'output' : 'logit',
    source: values.slice(0, count),
    target: values.slice(count),
    largest: Math.max(...values.map(Math.abs)),
  };
}
