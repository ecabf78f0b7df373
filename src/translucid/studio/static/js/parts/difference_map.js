// How far each word's vector moved at each depth.
import { h, s, isSpecialToken, unit, widest, nearestIndex, svgWord, setAttributes, LEFT_OF, ABOVE } from '../dom.js';
import { canvas, cssColour, num, cssVariable } from '../ink.js';
import * as highlight from '../highlight.js';
import { readout, wordElement } from '../readout.js';
import { withTable } from './table.js';
import { arrowNavigation } from '../keyboard.js';

/** @type {Record<string, string>} */
const SHORT = {
  'after self-attention': 'self',
  'after cross-attention': 'cross',
  'after feed-forward': 'ff',
  embedding: 'tokens',
  'with positions': 'place',
  'with characters': 'characters',
  'last norm': 'norm',
  'after alignment': 'align',
};
/** @type {(depths: string[]) => { names: string[]; groups: { layer: string; from: number; to: number }[] }} */
function columns(depths) {
  // short names, and the layers they belong to
  const found = depths.map(depth => {
    const at = /^layer (\d+), (.*)$/.exec(depth);
    return {
      layer: at ? at[1] : null,
      name:
        SHORT[at ? at[2] : depth] ??
        (at ? at[2] : depth).replace(/^(forward|backward) \w+ hidden$/, '$1').replace(/^\w+ hidden$/, 'state'),
    };
  });
  /** @type {{ layer: string; from: number; to: number }[]} */
  const groups = [];
  found.forEach(({ layer }, i) => {
    if (layer === null) return;
    const group = groups.at(-1);
    if (group?.layer === layer) group.to = i + 1;
    else groups.push({ layer, from: i, to: i + 1 });
  });
  return { names: found.map(each => each.name), groups };
}
/** @type {(table: RippleTable) => number} */
export const firstDifference = table =>
  table.depths.findIndex((_, d) => table.values[d].some(v => v === null || (v ?? 0) > 1e-6));

// take(row, column): on click, besides pinning; chosen: the framed cell; told: the status bar's content.
/** @type {(table: RippleTable, o: RippleOptions) => HTMLElement} */
export function differenceMap(table, { width, height, scale, keyOf, take, chosen, told, title: named, note }) {
  const u = unit();
  const { names, groups } = columns(table.depths);
  const nC = names.length;
  const nR = table.words.length;
  const start = named ? -1 : firstDifference(table);
  const lw = Math.min(130 * u, widest(table.words, 1) + 14 * u);
  const grouped = groups.some(each => each.to - each.from > 1);
  const lh = (grouped ? 50 : 28) * u;
  const cw = Math.min(96 * u, Math.max(6 * u, (width - lw) / nC));
  const ch = Math.max(20 * u, Math.min(34 * u, (height - lh - 4 * u) / nR));
  const W = lw + nC * cw;
  const H = lh + nR * ch + 2 * u;
  const { el, ctx } = canvas(W, H);
  const line = cssVariable('--line');
  for (let r = 0; r < nR; r++)
    for (let c = 0; c < nC; c++) {
      const v = table.values[c][r];
      if (v === undefined) {
        // not measured yet
        ctx.strokeStyle = line;
        ctx.strokeRect(lw + c * cw + 1.5, lh + r * ch + 1.5, cw - 3, ch - 3);
        continue;
      }
      ctx.fillStyle = cssColour(v ?? 0, scale);
      ctx.fillRect(lw + c * cw + 1, lh + r * ch + 1, cw - 2, ch - 2);
      if (v === null) {
        ctx.strokeStyle = line;
        ctx.beginPath();
        ctx.moveTo(lw + c * cw, lh + (r + 1) * ch);
        ctx.lineTo(lw + (c + 1) * cw, lh + r * ch);
        ctx.stroke();
      } // not a number: crossed
    }
  const svg = s('svg', { width: W, height: H });
  const where = start < 0 ? 'no difference' : `it begins at ${table.depths[start]}`;
  const title = named ?? `How far each token moved, ${table.side}: ${where}`;
  const flat = widest(names, 0.875) <= cw - 3 * u;
  names.forEach(
    (name, c) =>
      flat &&
      svg.append(
        s(
          'text',
          {
            class: `name${c === start ? ' cutmark' : ''}`,
            x: lw + (c + 0.5) * cw,
            y: lh - 8 * u,
            ...ABOVE,
          },
          name,
        ),
      ),
  );
  const room = groups.length ? (groups[0].to - groups[0].from) * cw : 1;
  const apart = Math.ceil((widest([groups.at(-1)?.layer ?? ''], 0.875) + 4 * u) / room); // of many layers, some
  for (const { layer, from, to } of groups)
    if ((grouped || !flat) && Number(layer) % apart === 0)
      svg.append(
        s('path.bracket', { d: `M${lw + from * cw + 4 * u} ${lh - 26 * u}H${lw + to * cw - 4 * u}` }),
        s(
          'text.name',
          { x: lw + ((from + to) / 2) * cw, y: lh - 33 * u, ...ABOVE },
          (to - from) * cw > 56 * u ? `layer ${layer}` : layer,
        ),
      );
  table.words.forEach((w, r) =>
    svg.append(
      highlight.mark(
        svgWord(
          w,
          {
            x: lw - 10 * u,
            y: lh + (r + 0.5) * ch,
            ...LEFT_OF,
            style: isSpecialToken(w) ? null : 'font-size:1rem',
          },
          16,
        ),
        keyOf(r),
      ),
      highlight.mark(s('rect.band', { x: lw, y: lh + r * ch, width: nC * cw, height: ch, rx: 2 }), keyOf(r)),
    ),
  );
  if (start >= 0)
    svg.append(
      s('path', {
        d: `M${lw + start * cw} ${lh - 2 * u}V${H}`,
        stroke: 'var(--pos)',
        'stroke-width': 2.5 * u,
        'stroke-linecap': 'round',
      }),
    );
  const frame = s('rect.under', { width: cw, height: ch, rx: 2, visibility: 'hidden' });
  svg.append(frame);
  if (chosen && chosen[0] >= 0 && chosen[0] < nR)
    svg.append(s('rect.taken', { x: lw + chosen[1] * cw, y: lh + chosen[0] * ch, width: cw, height: ch, rx: 2 }));
  arrowNavigation(svg, {
    name: title,
    area: { x: lw, y: lh, width: nC * cw, height: nR * ch },
    placeAt: (x, y) => [nearestIndex(Math.floor((y - lh) / ch), nR), nearestIndex(Math.floor((x - lw) / cw), nC)],
    start: () => [0, Math.max(0, start)],
    step: ([r, c], down, across) => [nearestIndex(r + down, nR), nearestIndex(c + across, nC)],
    look: ([r, c]) => {
      setAttributes(frame, { x: lw + c * cw, y: lh + r * ch, visibility: 'visible' });
      highlight.hover([keyOf(r)]);
      readout(told ? told(r, c) : differenceReading(table, r, c, scale));
    },
    leave: () => {
      frame.setAttribute('visibility', 'hidden');
      highlight.hover([]);
      readout();
    },
    take: ([r, c]) => (take ? take(r, c) : highlight.pin([keyOf(r)])),
  });
  return withTable(h('div.heat', { style: `width:${W}px;height:${H}px` }, el, svg), title, () => ({
    corner: 'token',
    columns: table.depths,
    rows: table.words.map((w, r) => [w, ...table.values.map(column => column[r] ?? (named ? '' : 'not a number'))]),
    note: note ?? 'How far each vector moved, as a fraction of its length.',
  }));
}
/** @type {(table: RippleTable, row: number, column: number, scale: Scale) => Reading} */
export const differenceReading = (table, r, c, scale) => ({
  at: [wordElement(table.words[r]), `: moved by ${num(table.values[c][r] ?? NaN, 3)} of its length`],
  path: `${table.side}, ${table.depths[c]}  ‖new − old‖ ÷ ‖old‖`,
  value: table.values[c][r] ?? NaN,
  scale,
});
