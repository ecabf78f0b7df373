// Probability bars: word, bar, number; what is not shown is counted.
import { h, special } from '../dom.js';
import { css, num } from '../ink.js';
import { twin } from '../twin.js';

const ONE = { kind: 'seq', max: 1 };
export function bars(rows, { rest, others, onover, onout, onpick } = {}) {
  // rows: [{ word, p, on }]
  const el = h(
    'div',
    { class: 'bars', role: 'list', 'aria-label': 'Probabilities' },
    rows.map((row, i) =>
      h(
        'div',
        {
          class: row.on ? 'probrow on' : 'probrow',
          role: 'listitem',
          onmouseenter: () => onover?.(i),
          onmouseleave: () => onout?.(i),
        },
        h(
          onpick ? 'button' : 'span',
          {
            class: special(row.word) ? 'word special' : 'word',
            'aria-pressed': onpick ? String(Boolean(row.on)) : null,
            title: onpick ? `Who speaks for ${row.word}` : null,
            onclick: onpick && (() => onpick(i)),
          },
          row.word,
        ),
        h(
          'span',
          { class: 'track' },
          h('i', { style: `width:${(100 * row.p).toFixed(2)}%;background:${css(0.78, ONE)}` }),
        ),
        h('span', { class: 'n' }, num(row.p, 3)),
      ),
    ),
    others
      ? h(
          'div',
          { class: 'quiet tail' },
          `${others.toLocaleString('en')} more: ${num(100 * rest, rest < 0.01 ? 2 : 1)} %`,
        )
      : null,
  );
  return twin(el, 'The likeliest', () => ({
    corner: 'token',
    columns: ['probability'],
    rows: rows.map(row => [row.word, row.p]),
    note: others ? `${others.toLocaleString('en')} more have ${num(rest, 3)}.` : '',
  }));
}
