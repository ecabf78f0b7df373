// A text as the input of a local model, with a label for each token, as the method `example` of the tasks in Python.
import { SPECIAL, splitWords } from './tokenizer.js';

const { bos, eos, unk } = SPECIAL;
const [START, END] = ['<s>', '</s>'];
const IGNORED = -100; // the target of a token that counts in no loss
const NOTHING = { source: [], target: [], follows: [], features: [] };

/** @type {(text: string, words: string[]) => string} */
const known = (text, words) => `${text}: the model knows ${words.join(', ')}`;
/** @type {(label: string, labels: string[], what: string) => number} */
function placeOf(label, labels, what) {
  if (!labels.includes(label)) throw new Error(known(`${what} '${label}'`, labels));
  return labels.indexOf(label);
}
/** @type {ExampleOf} */
function translate({ tokenizers }, text, target) {
  const [from, to] = ['source', 'target'].map(side => tokenizers[side] ?? tokenizers.tokenizer);
  const ids = to.encode(target ?? '');
  const read = [START, ...to.labels(target ?? '')];
  return {
    inputs: { source: [...from.encode(text), eos], target: [bos, ...ids] },
    targets: [...ids, eos],
    words: { ...NOTHING, source: [...from.labels(text), END], target: read, follows: [...read.slice(1), END] },
  };
}
/** @type {ExampleOf} */
function language({ tokenizers: { tokenizer } }, text, target) {
  if (target !== null) throw new Error(`target = '${target}': a model for task language takes no target; omit target`);
  const ids = tokenizer.encode(text);
  const read = [END, ...tokenizer.labels(text)]; // a text begins with the end of another
  return {
    inputs: { ids: [eos, ...ids] },
    targets: [...ids, IGNORED],
    words: { ...NOTHING, target: read, follows: [...read.slice(1), '?'] },
  };
}
/** @type {ExampleOf} */
function classify({ about, tokenizers: { tokenizer } }, text, target) {
  return {
    inputs: { ids: [bos, ...tokenizer.encode(text), eos] },
    targets: [target === null ? IGNORED : placeOf(target, about.labels, 'label')],
    words: { ...NOTHING, source: [START, ...tokenizer.labels(text), END] },
  };
}
/** @type {ExampleOf} */
function tag({ about, tokenizers: { tokenizer } }, text, target) {
  const given = splitWords(text);
  if (!given.length) throw new Error(`'${text}' contains no word to tag`);
  const { ids, words } = tokenizer.encodeWords(given);
  const tags = target === null ? null : target.split(/\s+/).filter(each => each);
  const numbers = tags?.map(each => placeOf(each, about.labels, 'tag'));
  if (tags && tags.length !== given.length)
    throw new Error(`${tags.length} tags for ${given.length} words (${given.join(', ')}); pass one tag per word`);
  /** @type {(i: number) => boolean} */
  const first = i => words[i] !== words[i - 1];
  const pieces = tokenizer.pieces(ids);
  return {
    inputs: { ids },
    targets: ids.map((_, i) => (numbers && first(i) ? numbers[words[i]] : IGNORED)),
    words: { ...NOTHING, source: ids.map((id, i) => (id === unk && first(i) ? given[words[i]] : pieces[i])) },
  };
}
// A number as Python reads it; NaN for other texts.
/** @type {(cell: string) => number} */
const number = cell => (/^\s*[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?\s*$/i.test(cell) ? Number(cell) : NaN);
/** @type {ExampleOf} */
function regress({ about, config }, text, target) {
  const names = about.columns.input ?? Array.from({ length: config.inputs }, (_, i) => `x${i + 1}`);
  /** @type {(mark: string | RegExp) => number[]} */
  const split = mark => text.trim().split(mark).map(number);
  const x = [',', '\t', ';', / +/].map(split).find(row => row.length === names.length && row.every(Number.isFinite));
  if (!x) throw new Error(`'${text}' is not a row of ${names.length} numbers: ${names.join(', ')}`);
  const targets = (target ?? '').split(/[\s,]+/).filter(cell => cell);
  if (!targets.every(cell => Number.isFinite(number(cell))))
    throw new Error(`'${target}' is not a list of numbers; separate numbers by commas or spaces`);
  return { inputs: { x }, targets: targets.map(number), words: { ...NOTHING, features: names } };
}
/** @type {Record<string, ExampleOf>} */
const TASKS = { translate, language, classify, tag, regress };

// target: of a translation model the translation, of others a label, the tags or numbers; null: none.
/** @type {ExampleOf} */
export function exampleOf(model, text, target) {
  const make = TASKS[model.about.task];
  if (!make)
    throw new Error(`a model for task ${model.about.task} does not run in the page; open it with translucid explore`);
  return make(model, text, target);
}
// The places of unknown tokens on each side.
/** @type {(example: LocalExample) => Run['unknown']} */
export function unknownIn({ inputs, words }) {
  /** @type {(ids?: number[]) => number[]} */
  const places = ids => (ids ?? []).flatMap((id, i) => (id === unk ? [i] : []));
  return words.source.length
    ? { source: places(inputs.source ?? inputs.ids), target: places(inputs.target) }
    : { source: [], target: places(inputs.ids) };
}
// The text that the page opens with; for a language model, without its last third.
/** @type {(model: LocalModel, text: string) => string} */
export function asOpened(model, text) {
  if (model.about.task !== 'language') return text;
  const letters = [...text];
  const cut = letters.slice(0, Math.max(1, Math.floor((2 * letters.length) / 3))).join('');
  return cut.slice(0, Math.max(0, cut.lastIndexOf(' '))) || cut;
}
