// Switch to another model on the same text. If it cannot read the text, it reads its own example, and the page says so.
import * as api from './api.js';
import { special } from './dom.js';
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
    const words = tokens[side].map((word, i) => ({ word, i })).filter(({ word }) => !special(word));
    return words.length && words.every(({ i }) => missing.has(i)) ? 'none of its tokens are in the vocabulary' : '';
  } catch (error) {
    return api.refusal(error).replace(/^text: /, '');
  }
}
