// Help with typing a text: words that the model does not know, similar ones that it knows, and completions.
const COMPLETIONS = 6;
const REPLACEMENTS = 4; // per unknown word
const TRIED = 20; // replacements to try, per unknown word
const ALIKE = 0.65; // minimum similarity of the spelling
const LETTERS = '[\\p{L}\\p{Nl}\\p{No}]+';
const WORD = new RegExp(`${LETTERS}(?:['’-]${LETTERS})*`, 'gu');
const BEGUN = new RegExp(`${LETTERS}$`, 'u');

/** @type {(text: string) => string[]} */
export const wordsIn = text => text.match(WORD) ?? [];

// The words of a model's texts, or of its vocabulary if there are no texts, and the pairs of adjacent words, both by
// descending frequency. The last word of a text forms a pair with an empty string.
/** @type {(data: ModelWords) => KnownWords} */
export function knownWords({ texts, vocabulary }) {
  const lines = texts.map(text => [...wordsIn(text), '']);
  const pairs = lines.flatMap(line => line.slice(1).map((word, i) => JSON.stringify([line[i], word])));
  const words = lines.flatMap(line => line.slice(0, -1));
  return {
    words: byFrequency(words.length ? words : vocabulary),
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
export function alike(piece, words) {
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
export function between({ pairs }, before, after) {
  const following = pairs.filter(([first, second]) => second && first === before).map(([, second]) => second);
  const preceding = pairs.filter(([, second]) => second === after).map(([first]) => first);
  return [...following.filter(word => preceding.includes(word)), ...following, ...preceding];
}
// Replacements for a part of a text that the model reads as <unk>; an empty text if none fits.
/** @type {(known: KnownWords, unknown: UnknownPlaces, text: string, place: number[], most: number) =>
 *  Promise<string[]>} */
async function replacements(known, unknown, text, [from, to], most) {
  const piece = text.slice(from, to).trim();
  const gap = piece ? text.slice(from, to - piece.length) : '';
  const words = [...alike(piece, known.words), ...alike(piece.toLowerCase(), known.words)];
  if (wordsIn(piece)[0] === piece)
    words.push(...between(known, wordsIn(text.slice(0, from)).at(-1) ?? '', wordsIn(text.slice(to))[0] ?? ''));
  if ([':', ';', '!', '?'].includes(piece)) words.push('.');
  const tried = [...new Set([gap ? piece : ` ${piece}`, ...words.map(word => gap + word)])].slice(0, TRIED);
  const places = await unknown(tried.map(word => text.slice(0, from) + word + text.slice(to)));
  const found = tried.filter(
    (word, i) =>
      places[i].length < most && !places[i].some(([first, last]) => first < from + word.length && last > from),
  );
  return found.length ? found.slice(0, REPLACEMENTS) : [''];
}
// The unknown parts of a text with replacements, and completions of the word at the caret. Places are in UTF-16 units.
/** @type {(known: KnownWords, unknown: UnknownPlaces, text: string, caret: number) => Promise<InputHelp>} */
export async function inputHelp(known, unknown, text, caret) {
  const begun = BEGUN.exec(text.slice(0, caret))?.[0] ?? '';
  const fits = known.words.filter(word => begun && word.toLowerCase().startsWith(begun.toLowerCase()));
  const [places] = await unknown([text]);
  return {
    begun,
    completions: fits.filter(word => word !== begun).slice(0, COMPLETIONS),
    unknown: await Promise.all(
      places.map(async ([from, to]) => ({
        from,
        to,
        text: text.slice(from, to).trim(),
        replacements: await replacements(known, unknown, text, [from, to], places.length),
      })),
    ),
  };
}
