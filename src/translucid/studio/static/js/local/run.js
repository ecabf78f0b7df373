// One text, processed by one model, perhaps with parts switched off; as studio/text_runs.py.
import { logSoftmax, top } from './beam.js';
import { unknownIn } from './example.js';
import { ownTarget } from './generate.js';
import { Tensor, map, sizeOf } from './tensor.js';
import { atIndex } from './trace.js';

const MOST_CHARACTERS = 20_000;
const MOST_TOKENS = 512; // a page has less memory than the server
const IGNORED = -100;

// ---- parts that are switched off

/** @type {(value: number) => (x: Tensor) => Tensor} */
const filled = value => x => map(x, () => value);
/** @type {(given: Switch, strength: number) => (x: Tensor) => Tensor} */
function headAt({ head }, strength) {
  return /** @type {(x: Tensor) => Tensor} */ (atIndex([null, head], value => value * strength));
}
// The edit of a switch, such as KEY, or KEY@50 for a head at 50 % of its strength: point -> function.
/** @type {(switches: Switch[], text: string) => [string, (x: Tensor) => Tensor][]} */
function editOf(switches, text) {
  const [key, percent] = text.split('@');
  const found = switches.find(each => each.key === key);
  if (!found) throw new Error(`off: this model has no switch '${key}'`);
  const isHead = found.kind === 'heads';
  if (percent !== undefined && !(isHead && /^[0-9]{1,3}$/.test(percent) && Number(percent) <= 200))
    throw new Error(`off: @ must follow a head and be 0 to 200 percent, not '${text}'`);
  if (isHead) return found.points.map(point => [point, headAt(found, Number(percent ?? 0) / 100)]);
  return found.points.map((point, i) => {
    const value = found.sets[i] ?? (found.kind === 'masks' ? 1 : null); // without a mask, every key is seen
    if (value === null) throw new Error(`off: '${key}' needs the installed program: translucid explore`);
    return [point, filled(value)];
  });
}
// The combined edit of these switches. Several of them may change the same point.
/** @type {(switches: Switch[], off: string[]) => Record<string, (x: Tensor) => Tensor>} */
export function editsOf(switches, off) {
  /** @type {Record<string, (x: Tensor) => Tensor>} */
  const edits = {};
  for (const [point, change] of off.flatMap(text => editOf(switches, text))) {
    const before = edits[point];
    edits[point] = before ? x => change(before(x)) : change;
  }
  return edits;
}

// ---- a run

// A key that depends on the question only, so that the same question has the same run: FNV-1a, twice.
/** @type {(question: Question) => string} */
export function keyOf(question) {
  const text = JSON.stringify([question.m, question.text, question.target ?? null, question.off ?? []]);
  return [0x811c9dc5, 0x01000193]
    .map(seed => [...text].reduce((sum, c) => Math.imul(sum ^ (c.codePointAt(0) ?? 0), 0x01000193), seed) >>> 0)
    .map(half => half.toString(16).padStart(8, '0'))
    .join('');
}
/** @type {(name: string, example: LocalExample) => void} */
function shortEnough(name, { inputs }) {
  for (const ids of [inputs.ids, inputs.source, inputs.target])
    if (ids && ids.length > MOST_TOKENS)
      throw new Error(
        `${name}: ${ids.length} tokens; the limit in this page is ${MOST_TOKENS}, the installed program reads more: ` +
          'translucid explore',
      );
}
/** @type {(question: Question) => void} */
function check({ text, target }) {
  for (const [name, value] of Object.entries({ text, target: target ?? '' })) {
    if (typeof value !== 'string') throw new Error(`${name} must be a string`);
    if (value.length > MOST_CHARACTERS)
      throw new Error(`${name}: ${value.length} characters; the studio's limit is ${MOST_CHARACTERS}`);
    if (/\p{Surrogate}/u.test(value)) throw new Error(`${name} contains an invalid character (a lone surrogate)`);
  }
  if (!text.trim()) throw new Error('text is empty; type a sentence');
}

export class LocalRun {
  /** @param {OpenedLocally} opened @param {Question} question */
  constructor(opened, question) {
    const began = performance.now();
    check(question);
    this.opened = opened;
    this.question = question;
    this.key = keyOf(question);
    const { model, about } = opened;
    shortEnough('text', model.example(question.text));
    this.edit = editsOf(about.switches, question.off ?? []);
    this.target = question.target ?? ownTarget(model, question.text);
    this.example = model.example(question.text, this.target);
    shortEnough('target', this.example);
    this.trace = model.run(this.example.inputs, { edit: this.edit });
    /** @type {Map<string, Tensor>} */
    this.values = new Map();
    if (about.outputs === 'values' && !this.rows(this.logits)[0].every(Number.isFinite))
      throw new Error(`text: the model's output for '${question.text}' is not finite; use smaller numbers`);
    this.ms = performance.now() - began;
  }
  /** @type {(name: string) => Tensor} */
  get(name) {
    const value = this.values.get(name) ?? this.trace.get(name);
    this.values.set(name, value);
    return value;
  }
  // Facts about a point, which are the same in every run.
  /** @type {(name: string) => Point} */
  point(name) {
    const found = this.opened.points.get(name);
    if (!found || !this.trace.met.has(name)) throw new Error(`at: unknown point '${name}'`);
    return found;
  }
  get logits() {
    return this.get(this.opened.output);
  }
  // The outputs for the same text with these parts switched off.
  /** @type {(off: string[]) => Tensor} */
  logitsWithout(off) {
    const { model, about, output } = this.opened;
    return model.run(this.example.inputs, { keep: [output], edit: editsOf(about.switches, off) }).get(output);
  }
  // Logits as rows of classes; one row, if the text has only one answer.
  /** @type {(logits: Tensor) => Values[]} */
  rows({ shape, values }) {
    const width = shape.length > 1 ? shape[shape.length - 1] : sizeOf(shape);
    const count = shape.length > 2 ? shape[1] : 1;
    return Array.from({ length: count }, (_, i) => values.subarray(i * width, (i + 1) * width));
  }
  // The name of an output: a token, a tag or a label.
  /** @type {(number: number) => string} */
  name(number) {
    const { about } = this.opened;
    if (about.labels) return about.labels[number];
    return this.tokenizer ? this.tokenizer.pieces([number])[0] : String(number);
  }
  get tokenizer() {
    const { tokenizers } = this.opened.model;
    return this.opened.about.generates ? (tokenizers.target ?? tokenizers.tokenizer) : null;
  }
  /** @type {(logits?: Tensor) => Run['answer']} */
  answer(logits = this.logits) {
    const rows = this.rows(logits);
    const { outputs, labels = [] } = this.opened.about;
    if (outputs === 'values') return Array.from(rows[0]);
    if (outputs === 'label') return Object.fromEntries(labels.map((label, i) => [label, softmaxOf(rows[0])[i]]));
    return rows.map(row => this.name(top(row, 1)[0]));
  }
  // The mean loss per target in nats, if there are targets.
  /** @type {(logits?: Tensor) => number | null} */
  loss(logits = this.logits) {
    if (this.opened.about.outputs === 'values') return null;
    const losses = this.rows(logits).flatMap((row, i) => {
      const target = this.example.targets[i];
      return target === IGNORED ? [] : [-logSoftmax(row)[target]];
    });
    return losses.length ? losses.reduce((a, b) => a + b, 0) / losses.length : null;
  }
  /** @type {() => Run} */
  described() {
    const { text, m, off = [] } = this.question;
    const { x: _, ...ids } = this.example.inputs;
    return {
      run: this.key,
      m,
      text,
      target: this.target,
      off,
      ms: Math.round(10 * this.ms) / 10,
      by_layer: false,
      answer: this.answer(),
      loss: this.loss(),
      output: this.opened.output,
      tokens: this.example.words,
      unknown: unknownIn(this.example),
      ids,
      points: this.trace.names().map(at => ({ ...this.point(at), shape: this.get(at).shape.slice(1) })),
      adapters: [],
    };
  }
}
/** @type {(x: Values) => Float32Array} */
export const softmaxOf = x => logSoftmax(x).map(Math.exp);
