// Word under word: what was said, and what is said now.
import { h, special } from '../dom.js';
import { num } from '../ink.js';
import * as link from '../link.js';
import { align } from './align.js';
import { twin } from '../twin.js';

const cell = (each, kind) =>
  h(
    'div',
    { class: `w ${kind}` },
    h('span', { class: `word${each && special(each.word) ? ' special' : ''}` }, each?.word ?? '\u00a0'),
    h('span', { class: 'n' }, each && each.probability !== null ? num(each.probability) : ''),
  );

// one, two: [{ word, probability }]; two may be null. reads: the words above, keyOf: what a place is linked with.
export function twins(one, two, { reads, keyOf, labels, dashed }) {
  const words = list => list.map(each => each.word);
  const pairs = !two
    ? one.map((_, i) => [i, null])
    : one.length === two.length
      ? one.map((_, i) => [i, i])
      : align(words(one), words(two));
  const el = h(
    'div',
    { class: `pairs${dashed ? ' dashed' : ''}`, tabindex: 0 },
    h(
      'div',
      { class: 'pairlabels' },
      reads && h('span', { class: 'reads' }, labels[2] ?? ''),
      h('span', null, labels[0]),
      two && h('span', null, labels[1]),
    ),
    pairs.map(([i, j]) => {
      const a = i === null ? null : one[i];
      const b = j === null || !two ? null : two[j];
      const differ = two && a?.word !== b?.word;
      const pair = h(
        'div',
        { class: 'pair' },
        reads && h('span', { class: 'reads word' }, reads[i] ?? ''),
        cell(a, differ && a ? 'gone' : ''),
        two && cell(b, !b ? 'void' : differ ? 'new' : ''),
      );
      return i !== null && keyOf ? link.alive(pair, [keyOf(i)]) : pair;
    }),
  );
  const cells = each => [each?.word ?? '', each && each.probability !== null ? each.probability : ''];
  return twin(el, 'What is said, token under token', () => ({
    corner: reads ? (labels[2] ?? '') : 'place',
    columns: [labels[0], 'probability', ...(two ? [labels[1], 'probability'] : [])],
    rows: pairs.map(([i, j], k) => [
      (reads && i !== null ? reads[i] : null) ?? String(k),
      ...cells(i === null ? null : one[i]),
      ...(two ? cells(j === null ? null : two[j]) : []),
    ]),
  }));
}
