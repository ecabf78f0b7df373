// Help with typing a text: words that the model does not know, similar ones, and completions; as studio/input_words.py.
import { strip, wordPlaces } from './tokenizer.js';

const COMPLETIONS = 6;
const REPLACEMENTS = 4; // per unknown word
const ALIKE = 0.65; // minimum similarity of the spelling
const LETTERS = '[\\p{L}\\p{Nl}\\p{No}]+';
const WORD = new RegExp(`${LETTERS}(?:['’-]${LETTERS})*`, 'gu');
const BEGUN = new RegExp(`${LETTERS}$`, 'u');

/** @type {(text: string) => string[]} */
const wordsIn = text => text.match(WORD) ?? [];

// The words of the model's texts, or of its vocabulary if there are no texts, and the pairs of adjacent words, both by
// descending frequency. The last word of a text forms a pair with an empty string.
/** @type {(model: LocalModel, texts: string[]) => KnownWords} */
export function knownWords(model, texts) {
  const lines = texts.map(text => [...wordsIn(text), '']);
  const pairs = lines.flatMap(line => line.slice(1).map((word, i) => JSON.stringify([line[i], word])));
  const words = lines.flatMap(line => line.slice(0, -1));
  return {
    words: byFrequency(words.length ? words : vocabulary(model)),
    pairs: byFrequency(pairs).map(pair => JSON.parse(pair)),
  };
}
/** @type {(all: string[]) => string[]} */
function byFrequency(all) {
  /** @type {Map<string, number>} */
  const counts = new Map();
  for (const each of all) counts.set(each, (counts.get(each) ?? 0) + 1);
  return [...counts].sort(([, a], [, b]) => b - a).map(([each]) => each);
}
/** @type {(model: LocalModel) => LocalTokenizer | undefined} */
const tokenizerOf = ({ tokenizers }) => tokenizers.source ?? tokenizers.tokenizer;
/** @type {(model: LocalModel) => string[]} */
function vocabulary(model) {
  const tokenizer = tokenizerOf(model);
  if (!tokenizer) return [];
  const ids = Array.from({ length: tokenizer.size }, (_, id) => id);
  const pieces = tokenizer.pieces(ids.filter(id => !Object.values(tokenizer.special).includes(id)));
  return pieces.map(strip).filter(piece => wordsIn(piece)[0] === piece);
}

// The places of a text that the model reads as <unk>, with the space before them.
/** @type {(model: LocalModel, text: string) => { from: number; to: number }[]} */
function unknownPlaces(model, text) {
  const tokenizer = tokenizerOf(model);
  if (!tokenizer) return [];
  const { unk } = tokenizer.special;
  if (model.about.task !== 'tag') return tokenizer.tokens(text).filter(({ id }) => id === unk);
  const places = wordPlaces(text);
  const { ids, words } = tokenizer.encodeWords(places.map(({ word }) => word));
  const unknown = words.filter((_, i) => ids[i] === unk);
  return [...new Set(unknown)].map(i => places[i]);
}
// The number of characters in the longest common parts of two texts: the longest one, the longest before it in both,
// the longest after it, and so on; as difflib counts them.
/** @type {(a: string[], b: string[]) => number} */
function matching(a, b) {
  let [most, atA, atB] = [0, 0, 0];
  for (let i = 0; i < a.length; i++)
    for (let j = 0; j < b.length; j++) {
      let size = 0;
      while (i + size < a.length && j + size < b.length && a[i + size] === b[j + size]) size++;
      if (size > most) [most, atA, atB] = [size, i, j];
    }
  if (!most) return 0;
  return most + matching(a.slice(0, atA), b.slice(0, atB)) + matching(a.slice(atA + most), b.slice(atB + most));
}
/** @type {(piece: string, words: string[]) => string[]} */
function alike(piece, words) {
  const wanted = [...piece];
  /** @type {[number, string][]} */
  const found = words.flatMap(word => {
    const letters = [...word];
    const all = letters.length + wanted.length;
    if ((2 * Math.min(letters.length, wanted.length)) / all < ALIKE) return [];
    const share = (2 * matching(letters, wanted)) / all;
    return share >= ALIKE ? [[share, word]] : [];
  });
  found.sort(([a, one], [b, two]) => b - a || (one < two ? 1 : -1));
  return found.slice(0, REPLACEMENTS).map(([, word]) => word);
}
// Words that fit between two words: first those that both follow the one and precede the other in the model's texts.
/** @type {(known: KnownWords, before: string, after: string) => string[]} */
function between({ pairs }, before, after) {
  const following = pairs.filter(([first, second]) => second && first === before).map(([, second]) => second);
  const preceding = pairs.filter(([, second]) => second === after).map(([first]) => first);
  return [...following.filter(word => preceding.includes(word)), ...following, ...preceding];
}
// Replacements for a part of a text that the model reads as <unk>; an empty text if none fits.
/** @type {(model: LocalModel, known: KnownWords, text: string, from: number, to: number) => string[]} */
function replacements(model, known, text, from, to) {
  const piece = strip(text.slice(from, to));
  const gap = piece ? text.slice(from, to - piece.length) : '';
  const words = [...alike(piece, known.words), ...alike(piece.toLowerCase(), known.words)];
  if (wordsIn(piece)[0] === piece)
    words.push(...between(known, wordsIn(text.slice(0, from)).at(-1) ?? '', wordsIn(text.slice(to))[0] ?? ''));
  if ([':', ';', '!', '?'].includes(piece)) words.push('.');
  const most = unknownPlaces(model, text).length;
  /** @type {(word: string) => boolean} */
  const reads = word => {
    const unknown = unknownPlaces(model, text.slice(0, from) + word + text.slice(to));
    return unknown.length < most && !unknown.some(each => each.from < from + word.length && each.to > from);
  };
  const tried = new Set([gap ? piece : ` ${piece}`, ...words.map(word => gap + word)]);
  /** @type {string[]} */
  const found = [];
  for (const word of tried) if (found.length < REPLACEMENTS && reads(word)) found.push(word);
  return found.length ? found : [''];
}
/** @type {(model: LocalModel, known: KnownWords, text: string, caret: number) => InputHelp} */
export function inputHelp(model, known, text, caret) {
  const begun = BEGUN.exec(text.slice(0, caret))?.[0] ?? '';
  const fits = known.words.filter(word => begun && word.toLowerCase().startsWith(begun.toLowerCase()));
  return {
    begun,
    completions: fits.filter(word => word !== begun).slice(0, COMPLETIONS),
    unknown: unknownPlaces(model, text).map(({ from, to }) => ({
      from,
      to,
      text: strip(text.slice(from, to)),
      replacements: replacements(model, known, text, from, to),
    })),
  };
}
// The text that the page opens with; for a language model, without its last third.
/** @type {(model: LocalModel, text: string) => string} */
export function asOpened(model, text) {
  if (model.about.task !== 'language') return text;
  const letters = [...text];
  const cut = letters.slice(0, Math.max(1, Math.floor((2 * letters.length) / 3))).join('');
  return cut.slice(0, Math.max(0, cut.lastIndexOf(' '))) || cut;
}
