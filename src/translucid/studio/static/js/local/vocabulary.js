// The vocabulary of a local model, and the places of a text that it does not know; as studio/input_words.py.
import { wordsIn } from '../words.js';
import { strip, wordPlaces } from './tokenizer.js';

/** @type {(model: LocalModel) => LocalTokenizer | undefined} */
const tokenizerOf = ({ tokenizers }) => tokenizers.source ?? tokenizers.tokenizer;
// The tokens of the vocabulary that are whole words.
/** @type {(model: LocalModel) => string[]} */
export function vocabulary(model) {
  const tokenizer = tokenizerOf(model);
  if (!tokenizer) return [];
  const ids = Array.from({ length: tokenizer.size }, (_, id) => id);
  const pieces = tokenizer.pieces(ids.filter(id => !Object.values(tokenizer.special).includes(id)));
  return pieces.map(strip).filter(piece => wordsIn(piece)[0] === piece);
}

// The places of a text that the model reads as <unk>, with the space before them.
/** @type {(model: LocalModel, text: string) => { from: number; to: number }[]} */
function unknownIn(model, text) {
  const tokenizer = tokenizerOf(model);
  if (!tokenizer) return [];
  const { unk } = tokenizer.special;
  if (model.about.task !== 'tag') return tokenizer.tokens(text).filter(({ id }) => id === unk);
  const places = wordPlaces(text);
  const { ids, words } = tokenizer.encodeWords(places.map(({ word }) => word));
  const unknown = words.filter((_, i) => ids[i] === unk);
  return [...new Set(unknown)].map(i => places[i]);
}
/** @type {(model: LocalModel, text: string) => number[][]} */
export const unknownPlaces = (model, text) => unknownIn(model, text).map(({ from, to }) => [from, to]);
