// A long text as a strip: a column per word, coloured by its vector; every n-th word and the highlighted ones have
// labels. One tab stop: arrow keys move between words (up and down by ten), Enter pins.
import { h, s, unit, widest, shortened, nearestIndex, svgWord } from '../dom.js';
import { canvas, cssColour } from '../ink.js';
import * as highlight from '../highlight.js';
import { readout, wordElement } from '../readout.js';
import { withTable } from './table.js';
import { arrowNavigation } from '../keyboard.js';

const EVERY = [5, 10, 20, 25, 50, 100, 200, 250, 500, 1000];
const LINE = 25;
const STRIP = 17;
const JUMP = 10;

// rows: numbers for each word or block of words, or null; o: side, scale, width, name
/** @type {(words: string[], rows: number[][] | null, o: MinimapOptions) => HTMLElement} */
export function minimap(words, rows, { side, scale, width: W, name }) {
  const u = unit();
  const n = words.length;
  const per = W / n;
  const H = (LINE + STRIP + 3) * u;
  const top = LINE * u;
  const { el, ctx } = canvas(W, H);
  /** @type {(i: number) => number} */
  const x = i => i * per;
  if (rows && scale) strip(ctx, rows, { per: W / rows.length, top, high: STRIP * u, scale });
  const svg = s('svg', { width: W, height: H });
  const box = h('div.minimap', { style: `width:${W}px;height:${H}px` }, el, svg);
  const floating = s('g');
  /** @type {(i: number, lit?: string) => { at: number; wide: number; el: SVGElement }} */
  const text = (i, lit) => {
    const wide = widest([shortened(words[i])], 1.0625, { weight: 600 });
    const left = Math.min(W - wide - 2, Math.max(0, lit ? x(i + 0.5) - wide / 2 : x(i)));
    return { at: left, wide, el: svgWord(words[i], { class: lit, x: left, y: top - 8 * u }) };
  };
  const gap = widest(words, 1.0625, { most: 14 }) + 16 * u;
  const every = EVERY.find(count => count * per >= gap) ?? n;
  const ticks = [];
  /** @type {ReturnType<typeof text>[]} */
  const written = [];
  for (let i = 0; i < n; i += every) {
    const made = text(i);
    if (x(i) + made.wide <= W) {
      written.push(made);
      ticks.push(i);
    }
  }
  svg.append(
    s('path.bracket', { d: ticks.map(i => `M${x(i) + 0.5} ${top - 5 * u}V${top}`).join('') }),
    ...written.map(each => each.el),
    floating,
  );

  /** @type {(pin: string) => number | null} */
  const placed = pin =>
    pin?.startsWith(`${side}:`) && Number(pin.split(':')[1]) < n ? Number(pin.split(':')[1]) : null;
  const light = () => {
    /** @type {Map<number, string>} */
    const kinds = new Map();
    for (const [how, keys] of Object.entries({ pinned: highlight.state.pins, lit: highlight.state.hover }))
      for (const i of keys.map(placed)) if (i !== null) kinds.set(i, how);
    const shown = [...kinds].reverse().map(([i, how]) => ({ i, how, ...text(i, how) }));
    /** @type {(one: { at: number; wide: number }, two: { at: number; wide: number }) => boolean} */
    const free = (one, two) => one.at + one.wide + 6 * u < two.at || two.at + two.wide + 6 * u < one.at;
    floating.replaceChildren(
      ...shown.flatMap((one, k) => [
        s('rect', {
          class: `place ${one.how}`,
          x: x(one.i) - u,
          y: top - 2 * u,
          width: Math.max(3 * u, per) + 2 * u,
          height: (STRIP + 4) * u,
          rx: 2 * u,
        }),
        ...(shown.slice(0, k).every(other => free(one, other)) ? [one.el] : []),
      ]),
    );
    for (const one of written) one.el.classList.toggle('away', !shown.every(other => free(one, other)));
  };
  /** @type {(i: number) => string} */
  const key = i => `${side}:${i}`;
  /** @type {(event: MouseEvent) => number} */
  const at = event => nearestIndex(Math.floor((event.clientX - svg.getBoundingClientRect().left) / per), n);
  /** @type {(i: number) => void} */
  const look = i => {
    if (highlight.state.hover[0] !== key(i)) highlight.hover([key(i)]);
    readout({ at: [`token ${i} of ${n}: `, wordElement(words[i])], path: '' });
  };
  const leave = () => {
    highlight.hover([]);
    readout();
  };
  svg.addEventListener('pointermove', event => look(at(event)));
  svg.addEventListener('pointerleave', leave);
  svg.addEventListener('click', event => highlight.pin([key(at(event))]));
  arrowNavigation(svg, {
    name: `${name}, ${n} tokens, from ${words.slice(0, 4).join(' ')}`,
    start: () => highlight.state.pins.map(placed).find(i => i !== null) ?? 0,
    step: (i, down, across) => nearestIndex(i + across + JUMP * down, n),
    look,
    leave,
    take: i => highlight.pin([key(i)]),
  });
  highlight.follow(box, light);
  return withTable(box, name, () => ({
    corner: 'place',
    columns: ['token'],
    rows: words.map((each, i) => [String(i), each]),
  }));
}
/** @type {(ctx: CanvasRenderingContext2D, rows: number[][], place: MinimapPlace) => void} */
function strip(ctx, rows, { per, top, high, scale }) {
  rows.forEach((row, i) => {
    const x = Math.round(i * per * 2) / 2;
    const wide = Math.max(0.5, Math.round((i + 1) * per * 2) / 2 - x);
    const step = high / row.length;
    row.forEach((value, k) => {
      if (Number.isFinite(value)) {
        ctx.fillStyle = cssColour(value, scale);
        ctx.fillRect(x, top + k * step, wide, step);
      }
    });
  });
}
