// The likeliest words: word, bar, number; beside each a button that forces it.
import { h, special } from '../dom.js';
import { css, num, signed } from '../ink.js';
import { readout, word as said } from '../readout.js';
import { twin } from '../twin.js';

export const ONE = { kind: 'seq', max: 1 };
export const share = p => num(p, 3);
const name = (word, chosen) =>
  h(
    'span',
    {
      class: special(word) ? 'word special' : 'word',
      title: word,
      style: chosen ? 'color:var(--accent);font-weight:600' : null,
    },
    word,
  );
const filled = p => h('i', { style: `width:${Math.min(1, p) * 100}%;--bar:${css(0.35 + 0.5 * p, ONE)}` });

// found: { words, ids, probabilities, rest, others }; on: the row the keys stand on; taken: the id that the search
// took.
export function choices(found, { on, taken, onforce, onpick, told }) {
  const rows = found.words.map((word, k) =>
    h(
      'div',
      {
        class: `probrow choice${k === on ? ' on' : ''}`,
        onmouseenter: () =>
          readout({
            at: [said(word), told?.at ?? ''],
            path: `softmax ${found.at}[${told?.row ?? found.n}, ${found.ids[k]}]`,
            python: told?.inRun === false ? null : undefined,
            value: found.probabilities[k],
            scale: ONE,
            digits: 4,
          }),
        onmouseleave: () => readout(),
        onclick: () => onpick?.(k),
      },
      name(word, found.ids[k] === taken),
      h('span', { class: 'track' }, filled(found.probabilities[k])),
      h('span', { class: 'n' }, share(found.probabilities[k])),
      found.ids[k] !== taken &&
        h(
          'button',
          {
            class: 'force',
            title: `Go on with ${word} instead (f)`,
            'aria-label': `force ${word}`,
            onclick: event => {
              event.stopPropagation();
              onforce(found.ids[k]);
            },
          },
          'force',
        ),
    ),
  );
  const tail = h(
    'p',
    { class: 'tail' },
    `${found.others.toLocaleString('en')} more tokens have ${share(Math.max(0, found.rest))}`,
  );
  return twin(h('div', { class: 'bars' }, rows, found.others > 0 && tail), 'The likeliest tokens of this step', () => ({
    corner: 'token',
    columns: ['id', 'logit', 'probability'],
    rows: found.words.map((word, k) => [word, String(found.ids[k]), found.logits[k], found.probabilities[k]]),
    note: tail.textContent,
  }));
}

// Before and after: the outline is the share before, the fill the share now. The number beside them is their
// difference, or the share now.
export function shifts(rows, { difference = true } = {}) {
  // [{ word, before, now }]
  const el = h(
    'div',
    { class: 'bars' },
    rows.map(({ word, before, now }) => {
      const gap = now - before;
      const tone = !difference || Math.abs(gap) < 0.005 ? 'var(--ink2)' : gap > 0 ? 'var(--pos)' : 'var(--neg)';
      return h(
        'div',
        {
          class: 'probrow',
          onmouseenter: () =>
            readout({
              at: [said(word), `: ${share(before)} before, ${share(now)} now`],
              path: 'probability of the answer',
              value: now,
              scale: ONE,
            }),
          onmouseleave: () => readout(),
        },
        name(word),
        h('span', { class: 'track' }, filled(now), h('u', { style: `width:${before * 100}%` })),
        h('span', { class: 'n', style: `color:${tone}` }, difference ? signed(gap) : share(now)),
      );
    }),
  );
  return twin(el, 'Shares before and now', () => ({
    corner: 'token',
    columns: ['before', 'now', 'difference'],
    rows: rows.map(({ word, before, now }) => [word, before, now, now - before]),
  }));
}
// How much each word is looked at; of many the largest.
export function looks({ words, weights, side }, most = 10) {
  const chosen = new Set(
    weights
      .map((w, i) => [w, i])
      .sort((a, b) => b[0] - a[0])
      .slice(0, most)
      .map(([, i]) => i),
  );
  const left = words.length - chosen.size;
  const rest = weights.reduce((sum, w, i) => sum + (chosen.has(i) ? 0 : w), 0);
  return {
    el: twin(
      h(
        'div',
        { class: 'looks' },
        words.map(
          (word, i) =>
            chosen.has(i) &&
            h(
              'div',
              { 'data-i': i },
              h(
                'span',
                { class: 'col' },
                h('i', { style: `height:${weights[i] * 100}%;background:${css(Math.max(0.25, weights[i]), ONE)}` }),
              ),
              h('span', { class: special(word) ? 'special' : 'word' }, word),
            ),
        ),
      ),
      'What this step looks at',
      () => ({ corner: 'token', columns: ['weight'], rows: words.map((word, i) => [word, weights[i]]) }),
    ),
    note: left ? `${left} other tokens: ${share(rest)}` : '',
    keys: words.map((_, i) => `${side}:${i}`),
  };
}
