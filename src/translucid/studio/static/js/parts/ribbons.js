// One head as a flow: the weights of each query sum to 1, so all bars on the left have the same height; a key's bar
// shows the sum it receives. For many words: one query and the keys it attends to most.
import { h, s, unit, widest, range, shortened, spacedLabels, svgWord, sum, LEFT_OF, RIGHT_OF } from '../dom.js';
import { num } from '../ink.js';
import * as highlight from '../highlight.js';
import { grid, withTable } from './table.js';
import { latest } from '../api.js';

const CURVES = 400;
const MANY = 40;
const TOP = 4;
const THIN = 0.003;

// weights: rows of numbers; rowKeys, colKeys: a key for each row and column
/** @type {(weights: number[][], o: RibbonOptions) => HTMLElement} */
export function ribbons(weights, o) {
  return withTable(
    Math.max(o.rows.length, o.cols.length) > MANY ? few(weights, o) : all(weights, o),
    'The same head as ribbons',
    () => grid(o.rows, o.cols, weights, 'query'),
  );
}
// A curved band of thickness t from a on the left to b on the right.
/** @type {(xl: number, xr: number, bar: number, a: number, b: number, t: number) => string} */
function bent(xl, xr, bar, a, b, t) {
  const c = (xr - xl) / 2;
  const there = `M${xl + bar} ${a}C${xl + c} ${a} ${xr - c} ${b} ${xr - bar} ${b}`;
  return `${there}V${b + t}C${xr - c} ${b + t} ${xl + c} ${a + t} ${xl + bar} ${a + t}Z`;
}
/** @type {(words: string[]) => number} */
const side = words => widest(words, 1.125, { weight: 600, most: 11 });

// Heights in px: of a query's bar (one), of what each key gets (got, in bars), the tops and middles of the keys' bars,
// and a band for every weight above the floor: from its top on the left to its top on the right.
/** @type {(weights: number[][], height: number, u: number) => RibbonBands} */
export function bandsOf(weights, height, u) {
  const nk = weights[0].length;
  const pitch = height / weights.length;
  const got = range(nk).map(j => sum(weights.map(row => row[j])));
  const least = Math.min(22 * u, (height / nk) * (height / nk > 20 * u ? 0.92 : 0.6));
  const air = Math.min(6 * u, (height / nk) * 0.25);
  let one = pitch * 0.66;
  /** @type {(size: number) => number[]} */
  const slots = size => got.map(v => Math.max(least, v * size + air));
  while (sum(slots(one)) > height && one > 1) one *= 0.97;
  const heights = slots(one);
  const free = Math.max(0, (height - sum(heights)) / nk);
  const starts = range(nk).map(j => sum(heights.slice(0, j)) + j * free);
  const mids = starts.map((y, j) => y + (heights[j] + free) / 2);
  const tops = mids.map((middle, j) => middle - (got[j] * one) / 2);
  const strongest = [...weights.flat()].sort((a, b) => b - a);
  const floor = Math.max(THIN, strongest[CURVES] ?? 0);
  const reached = [...tops];
  /** @type {RibbonBands['bands']} */
  const bands = [];
  weights.forEach((row, i) => {
    let from = (i + 0.5) * pitch - one / 2;
    row.forEach((weight, j) => {
      const thick = weight * one;
      if (weight > floor) bands.push({ i, j, from, to: reached[j], thick });
      from += thick;
      reached[j] += thick;
    });
  });
  return { pitch, one, got, tops, mids, bands, floor };
}
/** @type {(weights: number[][], o: RibbonOptions) => HTMLElement} */
function all(weights, { rows, cols, rowKeys, colKeys, width: W, height: H }) {
  const u = unit();
  const bar = 5 * u;
  const xl = side(rows) + 8 * u;
  const xr = W - side(cols) - 8 * u;
  const { pitch, one, got, tops, mids, bands, floor } = bandsOf(weights, H, u);
  const paths = bands.map(({ i, j, from, to, thick }) => ({
    i,
    j,
    el: s('path.ribbon', { d: bent(xl, xr, bar, from, to, thick), 'data-same': `${i}.${j}` }),
  }));
  const left = rows.map((_, i) =>
    s('rect.slot', { x: xl, y: (i + 0.5) * pitch - one / 2, width: bar, height: one, rx: 1.5 }),
  );
  const right = cols.map((_, j) =>
    s('rect.slot', { x: xr - bar, y: tops[j], width: bar, height: Math.max(2, got[j] * one), rx: 1.5 }),
  );
  const leftWords = rows.map((word, i) => text(word, xl - 8 * u, (i + 0.5) * pitch, 'end', rowKeys[i]));
  const rightWords = cols.map((word, j) => text(word, xr + 8 * u, mids[j], 'start', colKeys[j]));
  const svg = s(
    'svg.ribbons',
    {
      width: W,
      height: H,
      role: 'img',
      'aria-label': 'The same head as ribbons: queries on the left, keys on the right',
    },
    paths.map(path => path.el),
    left,
    right,
    leftWords,
    rightWords,
  );
  const places = { rows: rows.map((_, i) => (i + 0.5) * pitch), cols: mids };
  const light = () => {
    const { row, col, exact } = highlight.cellOfKeys(highlight.activeKeys(), rowKeys, colKeys);
    const gives = !exact && rowKeys[0] === colKeys[0]; // one word of self-attention: what it gives
    const seen = { rows: spacedLabels(places.rows, 18 * u, row), cols: spacedLabels(places.cols, 18 * u, col) };
    svg.classList.toggle('focused', row !== null || col !== null);
    for (const { i, j, el } of paths) {
      el.classList.toggle('lit', i === row || (j === col && !gives));
      el.classList.toggle('crossed', exact ? i === row && j === col : gives && i === row);
    }
    left.forEach((el, i) => el.classList.toggle('lit', i === row));
    right.forEach((el, j) => el.classList.toggle('lit', j === col && !gives));
    leftWords.forEach((el, i) => {
      el.classList.toggle('away', !seen.rows.has(i));
      el.classList.toggle('lit', i === row);
    });
    rightWords.forEach((el, j) => {
      el.classList.toggle('away', !seen.cols.has(j));
      el.classList.toggle('lit', j === col && !gives);
    });
  };
  highlight.follow(svg, light);
  const weaker = weights.flat().filter(w => w > THIN && w <= floor).length;
  return h(
    'div.ribbonbox',
    svg,
    weaker ? h('p.kicker', `The ${CURVES} strongest; ${weaker} more are not drawn.`) : null,
  );
}

// For many words: the selected row, its strongest keys, and the rest as one bar. o.exactly(row): a promise of the row
// in full precision, { word, key, weights, cols, colKeys }, if `weights` is pooled or rounded.
/** @type {(weights: number[][], o: RibbonOptions) => HTMLElement} */
function few(weights, { rows, cols, rowKeys, colKeys, width: W, height: H, exactly }) {
  const u = unit();
  const svg = s('svg.ribbons.focused', {
    width: W,
    height: H,
    role: 'img',
    'aria-label': `The selected token and the ${TOP} tokens it attends to most`,
  });
  /** @type {number | null} */
  let asked = null;
  /** @type {(row: ExactRow) => void} */
  const draw = ({ word: who, key: own, weights: given, cols: words, colKeys: keys }) => {
    const order = range(words.length)
      .sort((j, k) => given[k] - given[j])
      .slice(0, TOP)
      .filter((j, k) => k === 0 || given[j] > 5e-4);
    const rest = 1 - sum(order.map(j => given[j]));
    /** @type {[word: string, weight: number, key: string | null][]} */
    const ends = [...order.map(j => /** @type {[string, number, string]} */ ([words[j], given[j], keys[j]]))];
    if (rest > 0) ends.push([`${words.length - order.length} more`, rest, null]);
    const xl = widest([shortened(who, 11)], 1.125, { weight: 600 }) + 10 * u;
    const xr = W - 158 * u;
    const one = Math.max(20 * u, Math.min(H * 0.55, H - ends.length * 24 * u));
    const room = ends.map(([, w]) => Math.max(22 * u, w * one));
    const free = (H - sum(room)) / ends.length;
    let a = H / 2 - one / 2;
    let y = 0;
    svg.replaceChildren(
      s('rect.slot.lit', { x: xl, y: a, width: 5 * u, height: one, rx: 1.5 }),
      text(who, xl - 8 * u, H / 2, 'end', own),
    );
    ends.forEach(([word, w, key], k) => {
      const t = w * one;
      const at = y + (room[k] + free) / 2;
      const b = at - t / 2;
      svg.append(
        s('path', {
          class: key ? 'ribbon lit' : 'ribbon',
          d: bent(xl, xr, 5 * u, a, b, t),
        }),
        s('rect', {
          class: key ? 'slot lit' : 'slot',
          x: xr - 5 * u,
          y: b,
          width: 5 * u,
          height: Math.max(2, t),
          rx: 1.5,
        }),
        key
          ? text(word, xr + 8 * u, at, 'start', key, false)
          : s('text.name', { x: xr + 8 * u, y: at, ...RIGHT_OF }, word),
        s('text.num', { x: W, y: at, ...LEFT_OF }, num(w, 3)),
      );
      a += t;
      y += room[k] + free;
    });
  };
  /** @type {(place: number) => Promise<void>} */
  const ask = latest(async place => {
    const found = await exactly?.(place).catch(() => null);
    if (found && place === asked) draw(found);
  });
  highlight.follow(svg, () => {
    const lit =
      highlight.cellOfKeys(highlight.activeKeys(), rowKeys, colKeys).row !== null
        ? highlight.activeKeys()
        : highlight.state.pins;
    const row = highlight.cellOfKeys(lit, rowKeys, colKeys).row ?? 0;
    const place = exactly ? highlight.wordInRow(lit, rowKeys, row) : row;
    if (place === asked) return;
    asked = place;
    if (exactly) ask(place);
    else draw({ word: rows[row], key: rowKeys[row], weights: weights[row], cols, colKeys });
  });
  return h('div.ribbonbox', svg, h('p.kicker', `The ${TOP} strongest tokens; the others together.`));
}
/** @type {(word: string, x: number, y: number, anchor: string, key: string, looks?: boolean) => SVGTextElement} */
function text(word, x, y, anchor, key, looks = true) {
  const el = svgWord(word, { x, y, 'text-anchor': anchor, ...RIGHT_OF }, 11);
  el.addEventListener('click', () => highlight.pin([key]));
  return looks ? highlight.hoverable(el, [key]) : el;
}
