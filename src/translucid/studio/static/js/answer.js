// The model's answer as text; and switching to another model on the same text. If it cannot read the text, it reads its
// own example, and the page says so.
import * as api from './api.js';
import { isSpecialToken } from './dom.js';
import { num, MANY } from './ink.js';
import { address, go } from './route.js';

const SHOWN = 60; // characters of the text in a message
let note = '';
// The note about the text of the current view; returned once.
export function noteOnText() {
  const said = note;
  note = '';
  return said;
}
// from, to: models. changes: of the address.
/** @type {(view: string, from: Model, to: Model, changes?: Changes) => Promise<void>} */
export async function toModel(view, from, to, changes = {}) {
  const { params } = address();
  const text = params.get('text');
  /** @type {Changes} */
  const own = { at: null, off: null, i: null, head: null, unit: null, walk: null, ...changes };
  if (from.task !== to.task) own.target = null;
  const why = text === null || to.unopened ? '' : await unreadable(to, text);
  if (why && text) {
    const shown = text.length > SHOWN ? `${text.slice(0, SHOWN)}…` : text;
    note = `${to.name} cannot read “${shown}” (${why}), so it reads its own example instead.`;
    Object.assign(own, { text: null, target: null, pin: null });
  }
  go(view, own);
}
/** @type {(model: Model, text: string) => Promise<string>} */
async function unreadable({ m }, text) {
  try {
    const { tokens, unknown } = await api.run({ m, text });
    const side = tokens.source.length ? 'source' : 'target';
    const missing = new Set(unknown[side]);
    const words = tokens[side].map((word, i) => ({ word, i })).filter(({ word }) => !isSpecialToken(word));
    return words.length && words.every(({ i }) => missing.has(i)) ? 'none of its tokens are in the vocabulary' : '';
  } catch (error) {
    return api.refusal(error).replace(/^text: /, '');
  }
}

// A model that can be run: a run without a saved model has only its training to show.
/** @param {Model} model @returns {model is OpenedModel} */
export function isOpened(model) {
  return !model.unopened;
}
// The model to compare with: the wanted one, else one for the same task.
/** @type {(model: Model, others: OpenedModel[], wanted: string | null) => OpenedModel | undefined} */
export const otherModel = (model, others, wanted) =>
  others.find(each => each.m === wanted) ?? others.find(each => each.task === model.task) ?? others[0];

// The answer of a run by kind: numbers, words, or the probabilities of labels.
/** @type {(run: Pick<Run, 'answer'>) => number[]} */
export const numbersOf = ({ answer: given }) =>
  Array.isArray(given) ? given.flatMap(each => (typeof each === 'string' ? [] : [each ?? NaN])) : [];
/** @type {(run: Run) => string[]} */
export const wordsOf = ({ answer: given }) => (Array.isArray(given) ? given.map(String) : []);
/** @type {(run: Run) => Record<string, number>} */
export const sharesOf = ({ answer: given }) =>
  given === null || typeof given !== 'object' || Array.isArray(given) ? {} : given;

/** @type {(run: Run, model: Model) => string} */
export function answer(run, model) {
  if (run.target) return run.target;
  if (model.outputs === 'next_tokens') return `${run.text} ${wordsOf(run).at(-1)} …`;
  if (model.outputs === 'masked_tokens') {
    // the masked tokens; without a mask, all
    const words = wordsOf(run);
    const masks = words.filter((_, i) => /^[[<]mask[\]>]$/i.test(run.tokens.source[i]));
    return (masks.length ? masks : words).join(' ');
  }
  if (Array.isArray(run.answer)) {
    const { length } = run.answer;
    if (typeof run.answer[0] !== 'number') return run.answer.join(' ');
    if (length <= MANY)
      return numbersOf(run)
        .map(value => Number(value.toPrecision(5)))
        .join(' ');
    const first = numbersOf(run)
      .slice(0, 4)
      .map(value => num(value, 4)); // of an embedding
    return `${first.join(' ')} … (${length} values)`;
  }
  const best = Object.entries(sharesOf(run)).sort((a, b) => b[1] - a[1])[0];
  return best ? `${best[0]} ${(100 * best[1]).toFixed(1)} %` : '';
}
