// Bars: the likeliest words with their probabilities; probabilities before and now; attention weights. The number of
// omitted items is given.
import { h, isSpecialToken } from '../dom.js';
import { UNIT_SCALE, cssColour, num, signed } from '../ink.js';
import { withTable } from './table.js';
import { readout, wordElement as said } from '../readout.js';

// rows: [{ word, p, on }]
/** @type {(rows: Bar[], also?: BarOptions) => HTMLElement} */
export function probabilityBars(rows, { rest = 0, others, onpick } = {}) {
  const el = h(
    'div.bars',
    { role: 'list', 'aria-label': 'Probabilities' },
    rows.map((row, i) =>
      h(
        'div',
        { class: row.on ? 'probrow on' : 'probrow', role: 'listitem' },
        h(
          onpick ? 'button' : 'span',
          {
            class: isSpecialToken(row.word) ? 'word special' : 'word',
            'aria-pressed': onpick ? String(Boolean(row.on)) : null,
            title: onpick ? `Contributions to ${row.word}` : null,
            onclick: onpick && (() => onpick(i)),
          },
          row.word,
        ),
        h(
          'span.track',
          h('i', { style: `width:${(100 * row.p).toFixed(2)}%;background:${cssColour(0.78, UNIT_SCALE)}` }),
        ),
        h('span.n', num(row.p, 3)),
      ),
    ),
    others
      ? h('div.quiet.tail', `${others.toLocaleString('en')} more: ${num(100 * rest, rest < 0.01 ? 2 : 1)} %`)
      : null,
  );
  return withTable(el, 'The likeliest', () => ({
    corner: 'token',
    columns: ['probability'],
    rows: rows.map(row => [row.word, row.p]),
    note: others ? `${others.toLocaleString('en')} more have ${num(rest, 3)}.` : '',
  }));
}

// ---- each with a button that forces it
/** @type {(p: number) => string} */
export const probabilityText = p => num(p, 3);
/** @type {(word: string, chosen?: boolean) => HTMLElement} */
const name = (word, chosen) =>
  h(
    'span',
    {
      class: isSpecialToken(word) ? 'word special' : 'word',
      title: word,
      style: chosen ? 'color:var(--accent);font-weight:600' : null,
    },
    word,
  );
/** @type {(p: number) => HTMLElement} */
const filled = p => h('i', { style: `width:${Math.min(1, p) * 100}%;--bar:${cssColour(0.35 + 0.5 * p, UNIT_SCALE)}` });

// found: { words, ids, probabilities, rest, others }; on: the selected row; taken: the id the search chose.
/** @type {(found: OneStep, o: ChoicesOptions) => HTMLElement} */
export function tokenBars(found, { on, taken, onforce, onpick, told }) {
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
            scale: UNIT_SCALE,
            digits: 4,
          }),
        onmouseleave: () => readout(),
        onclick: () => onpick?.(k),
      },
      name(word, found.ids[k] === taken),
      h('span.track', filled(found.probabilities[k])),
      h('span.n', probabilityText(found.probabilities[k])),
      found.ids[k] !== taken &&
        h(
          'button.force',
          {
            title: `Continue with ${word} instead (f)`,
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
    'p.tail',
    `${found.others.toLocaleString('en')} more tokens have ${probabilityText(Math.max(0, found.rest))}`,
  );
  return withTable(h('div.bars', rows, found.others > 0 && tail), 'The likeliest tokens at this step', () => ({
    corner: 'token',
    columns: ['id', 'logit', 'probability'],
    rows: found.words.map((word, k) => [word, String(found.ids[k]), found.logits[k], found.probabilities[k]]),
    note: tail.textContent,
  }));
}

// Probabilities before (outline) and now (fill), with their difference or the probability now.
/** @type {(rows: Shift[], also?: { difference?: boolean }) => HTMLElement} */
export function changeBars(rows, { difference = true } = {}) {
  // [{ word, before, now }]
  const el = h(
    'div.bars',
    rows.map(({ word, before, now }) => {
      const gap = now - before;
      const tone = !difference || Math.abs(gap) < 0.005 ? 'var(--ink2)' : gap > 0 ? 'var(--pos)' : 'var(--neg)';
      return h(
        'div.probrow',
        {
          onmouseenter: () =>
            readout({
              at: [said(word), `: ${probabilityText(before)} before, ${probabilityText(now)} now`],
              path: 'probability of the answer',
              value: now,
              scale: UNIT_SCALE,
            }),
          onmouseleave: () => readout(),
        },
        name(word),
        h('span.track', filled(now), h('u', { style: `width:${before * 100}%` })),
        h('span.n', { style: `color:${tone}` }, difference ? signed(gap) : probabilityText(now)),
      );
    }),
  );
  return withTable(el, 'Probabilities before and after the change', () => ({
    corner: 'token',
    columns: ['before', 'now', 'difference'],
    rows: rows.map(({ word, before, now }) => [word, before, now, now - before]),
  }));
}
// Attention weights by word; the largest of many.
/** @type {(looks: Looks, most?: number) => { el: HTMLElement; note: string; keys: string[] }} */
export function attentionBars({ words, weights = [], side }, most = 10) {
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
    el: withTable(
      h(
        'div.looks',
        words.map(
          (word, i) =>
            chosen.has(i) &&
            h(
              'div',
              { 'data-i': i },
              h(
                'span.col',
                h('i', {
                  style: `height:${weights[i] * 100}%;background:${cssColour(Math.max(0.25, weights[i]), UNIT_SCALE)}`,
                }),
              ),
              h('span', { class: isSpecialToken(word) ? 'special' : 'word' }, word),
            ),
        ),
      ),
      'What this step attends to',
      () => ({ corner: 'token', columns: ['weight'], rows: words.map((word, i) => [word, weights[i]]) }),
    ),
    note: left ? `${left} other tokens: ${probabilityText(rest)}` : '',
    keys: words.map((_, i) => `${side}:${i}`),
  };
}
