// The tokenizer of the shipped models, as kind "word" in data/tokenizers: a token is a word or a punctuation mark,
// with or without a space before it. tests/studio/test_local_text.py compares it with Python's.

// What each library counts as a space and as a letter of a word: Oniguruma, which splits texts into tokens, and
// Python's re, which splits them into words. A character may be split differently if it is newer than one of their
// Unicode tables.
const SPACE = '\\t-\\r \\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000';
const LETTER = '\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}²³¹¼½¾';
const PYTHON_SPACE = `${SPACE}\\x1c-\\x1f`;
const PYTHON_LETTER = '\\p{L}\\p{N}_';
const START = '▁'; // begins a token that follows a space
/** @type {(letter: string, others: string, before: string) => RegExp} */
const words = (letter, others, before) =>
  new RegExp(`${before}[${letter}]+(?:'[${letter}]+)*|${before}[^${letter}${others}]`, 'gu');
const TOKEN = words(LETTER, SPACE + START, `[${SPACE}${START}]?`);
const WORD = words(PYTHON_LETTER, PYTHON_SPACE, '');
const BEGINS = new RegExp(`^[${SPACE}${START}]`, 'u');
const AROUND = new RegExp(`^[${PYTHON_SPACE}]+|[${PYTHON_SPACE}]+$`, 'gu');

// As str.strip of Python.
/** @type {(text: string) => string} */
export const strip = text => text.replace(AROUND, '');
// The words of a text for a tagger, and their places; punctuation marks are words.
/** @type {(text: string) => WordPlace[]} */
export const wordPlaces = text =>
  [...text.matchAll(WORD)].map(({ 0: word, index }) => ({ word, from: index, to: index + word.length }));
/** @type {(text: string) => string[]} */
export const splitWords = text => wordPlaces(text).map(({ word }) => word);

// The special tokens of a tokenizer that Translucid trained have these ids.
export const SPECIAL = { pad: 0, bos: 1, eos: 2, unk: 3 };
const UNK = SPECIAL.unk;
const NAMES = ['<pad>', '<s>', '</s>', '<unk>'];

export class Tokenizer {
  // file, meta: tokenizer.json and tokenizer_meta.json of the model's folder
  /** @param {{ model: { vocab: Record<string, number> } }} file @param {{ kind: string; fingerprint: string }} meta */
  constructor(file, meta) {
    if (meta.kind !== 'word')
      throw new Error(`a tokenizer of kind '${meta.kind}' does not run in the page; open it with translucid explore`);
    this.fingerprint = meta.fingerprint;
    this.special = SPECIAL;
    /** @type {Map<string, number>} */
    this.vocab = new Map(Object.entries(file.model.vocab));
    /** @type {string[]} the text of each token, with the space before it */
    this.texts = [];
    for (const [name, id] of this.vocab) this.texts[id] = name.replaceAll(START, ' ');
    if (this.texts.length !== this.vocab.size || NAMES.some((name, id) => this.texts[id] !== name))
      throw new Error('the vocabulary must number its tokens from 0 on, beginning with <pad>, <s>, </s> and <unk>');
    this.texts[UNK] = ` ${NAMES[UNK]}`;
  }
  get size() {
    return this.texts.length;
  }
  // The tokens of a text, with their places in it: from `from` up to, not including, `to`.
  /** @type {(text: string) => TokenPlace[]} */
  tokens(text) {
    if (/\p{Surrogate}/u.test(text)) throw new Error('the text contains half of a surrogate pair');
    return [...text.matchAll(TOKEN)].map(({ 0: found, index }) => {
      const bare = found.replace(BEGINS, '');
      const name = bare === found && index ? found : START + bare;
      return { id: this.idOf(name, found), from: index, to: index + found.length };
    });
  }
  // An unknown token may be in the vocabulary with a space before it or without one, as " ." or the "The" of "(The".
  /** @type {(name: string, found: string) => number} */
  idOf(name, found) {
    const bare = strip(found);
    return this.vocab.get(name) ?? this.vocab.get(START + bare) ?? this.vocab.get(bare) ?? UNK;
  }
  /** @type {(text: string) => number[]} */
  encode(text) {
    return this.tokens(text).map(({ id }) => id);
  }
  // The tokens of words joined by spaces, and the index of each token's word.
  /** @type {(given: string[]) => { ids: number[]; words: number[] }} */
  encodeWords(given) {
    const all = given.map(word => this.encode(word)); // as if with a space before it
    const empty = all.findIndex(ids => !ids.length);
    if (empty >= 0)
      throw new Error(
        `word ${empty + 1} of ${given.length} is '${given[empty]}', for which the tokenizer has no token; remove it`,
      );
    return { ids: all.flat(), words: all.flatMap((ids, i) => ids.map(() => i)) };
  }
  // The text of tokens, without special tokens except for unknown ones.
  /** @type {(ids: number[]) => string} */
  decode(ids) {
    this.check(ids);
    const text = ids.map(id => (id < UNK ? '' : this.texts[id])).join('');
    return text.replace(/^ /, '');
  }
  // The text of each token alone.
  /** @type {(ids: number[]) => string[]} */
  pieces(ids) {
    this.check(ids);
    return ids.map(id => this.texts[id].replace(/^ /, ''));
  }
  // The tokens of a text as labels: unknown words keep their spelling.
  /** @type {(text: string) => string[]} */
  labels(text) {
    return this.tokens(text).map(({ id, from, to }) => {
      const label = this.pieces([id])[0];
      return id === UNK ? strip(text.slice(from, to)) || label : label;
    });
  }
  /** @type {(ids: number[]) => void} */
  check(ids) {
    for (const id of ids)
      if (!(id in this.texts)) throw new Error(`there is no token ${id}; ids must be 0 to ${this.size - 1}`);
  }
}
