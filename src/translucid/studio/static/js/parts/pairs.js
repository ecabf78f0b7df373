// Two outputs aligned word by word.
import { h, isSpecialToken } from '../dom.js';
import { num } from '../ink.js';
import * as highlight from '../highlight.js';
import { withTable } from './table.js';

/** @type {(each: Said | null, kind: string) => HTMLElement} */
const cell = (each, kind) =>
  h(
    'div',
    { class: `w ${kind}` },
    h('span', { class: `word${each && isSpecialToken(each.word) ? ' special' : ''}` }, each?.word ?? '\u00a0'),
    h('span.n', each && each.probability !== null ? num(each.probability) : ''),
  );

// one, two: [{ word, probability }]; two may be null. reads: the words above, keyOf: the key of a position.
/** @type {(one: Said[], two: Said[] | null, o: PairOptions) => HTMLElement} */
export function pairs(one, two, { reads, keyOf, labels, dashed = false }) {
  /** @type {(list: Said[]) => string[]} */
  const words = list => list.map(each => each.word);
  /** @type {[number | null, number | null][]} */
  const places = !two
    ? one.map((_, i) => [i, null])
    : one.length === two.length
      ? one.map((_, i) => [i, i])
      : align(words(one), words(two));
  const el = h(
    'div',
    { class: `pairs${dashed ? ' dashed' : ''}`, tabindex: 0 },
    h('div.pairlabels', reads && h('span.reads', labels[2] ?? ''), h('span', labels[0]), two && h('span', labels[1])),
    places.map(([i, j]) => {
      const a = i === null ? null : one[i];
      const b = j === null || !two ? null : two[j];
      const differ = two && a?.word !== b?.word;
      const pair = h(
        'div.pair',
        reads && h('span.reads.word', reads[i ?? -1] ?? ''),
        cell(a, differ && a ? 'gone' : ''),
        two && cell(b, !b ? 'void' : differ ? 'new' : ''),
      );
      return i !== null && keyOf ? highlight.clickable(pair, [keyOf(i)]) : pair;
    }),
  );
  /** @type {(each: Said | null) => TableCell[]} */
  const cells = each => [each?.word ?? '', each && each.probability !== null ? each.probability : ''];
  return withTable(el, 'Outputs, token by token', () => ({
    corner: reads ? (labels[2] ?? '') : 'place',
    columns: [labels[0], 'probability', ...(two ? [labels[1], 'probability'] : [])],
    rows: places.map(([i, j], k) => [
      (reads && i !== null ? reads[i] : null) ?? String(k),
      ...cells(i === null ? null : one[i]),
      ...(two ? cells(j === null ? null : two[j]) : []),
    ]),
  }));
}

// Align two lists of words by their longest common subsequence.
/** @type {(one: string[], two: string[]) => [number | null, number | null][]} */
function align(one, two) {
  // -> [[place in one or null, place in two or null], ...]
  const best = Array.from({ length: one.length + 1 }, () => new Uint32Array(two.length + 1));
  for (let i = one.length - 1; i >= 0; i--)
    for (let j = two.length - 1; j >= 0; j--) {
      best[i][j] = one[i] === two[j] ? best[i + 1][j + 1] + 1 : Math.max(best[i + 1][j], best[i][j + 1]);
    }
  /** @type {[number | null, number | null][]} */
  const found = [];
  let i = 0;
  let j = 0;
  /** @type {number[]} */
  let left = [];
  /** @type {number[]} */
  let right = [];
  const meet = () => {
    // words that differ are aligned in order
    for (let k = 0; k < Math.max(left.length, right.length); k++) found.push([left[k] ?? null, right[k] ?? null]);
    left = [];
    right = [];
  };
  while (i < one.length || j < two.length) {
    if (i < one.length && j < two.length && one[i] === two[j]) {
      meet();
      found.push([i++, j++]);
    } else if (j >= two.length || (i < one.length && best[i + 1][j] >= best[i][j + 1])) left.push(i++);
    else right.push(j++);
  }
  meet();
  return found;
}
// The indices of `two` without a match in `one`.
/** @type {(one: string[], two: string[]) => Set<number>} */
export function changedWords(one, two) {
  return new Set(align(one, two).flatMap(([i, j]) => (j === null || (i !== null && one[i] === two[j]) ? [] : [j])));
}
// Words as a sentence: no space before punctuation, none inside a word (a continuation starts with a dot).
/** @type {(word: string) => boolean} */
const glued = word => /^[.,!?;:)]/.test(word) || /^·./.test(word);
/** @type {(word: string) => string} */
const bare = word => word.replace(/^·(?=.)/, '');
// cut: whether words were omitted before; odd: the indices of marked words.
/** @type {(words: string[], cut?: boolean, odd?: Set<number>) => Content[]} */
export const joinWords = (words, cut = false, odd = new Set()) => [
  cut ? '… ' : '',
  words.length ? '' : h('span.special', '(nothing)'),
  words.flatMap((w, k) => [k && !glued(w) ? ' ' : '', odd.has(k) ? h('span.diff', bare(w)) : bare(w)]),
];
