// A labelled heat map: cells on canvas, labels and the pointer's frame in SVG.
// One tab stop: arrow keys move between cells, Enter pins. The number of elements does not depend on the number of
// cells.
import { arrowNavigation } from '../keyboard.js';
import {
  fill,
  h,
  s,
  setAttributes,
  isSpecialToken,
  unit,
  widest,
  range,
  shortened,
  isLabelled,
  lastOf,
  nearestIndex,
} from '../dom.js';
import { canvas, cssColour, paintNumber, packedPalette, shade, fixed, textOn, hatch, pixelCanvas } from '../ink.js';
import * as highlight from '../highlight.js';
import { readout } from '../readout.js';
import { grid, withTable } from './table.js';

const LEAN = 42; // degrees
const TIGHT = 7; // below this size in px, a cell has no gap and no number

// Labels lie flat when the widest one fits its column, and lean when it does not.
/** @type {(cols: Name[], cellWidth: number, rem: number) => { slant: boolean; labelHeight: number }} */
export function headRoom(cols, cellWidth, rem) {
  const u = unit();
  const w = widest(cols, rem, { most: 14 });
  return w <= cellWidth - 5 * u
    ? { slant: false, labelHeight: 34 }
    : { slant: true, labelHeight: Math.ceil((w * 0.67) / u) + 16 };
}

/** @type {(o: HeatmapOptions) => HTMLElement} */
export function heatmap(o) {
  const u = unit();
  const nR = o.values.length;
  const nC = o.values[0].length;
  const lw = (o.labelWidth ?? 0) * u;
  const lh = (o.labelHeight ?? 0) * u;
  const cw = Math.max(o.cellWidth, Math.min(2, (160 * u) / nC)); // long words must leave room for the picture
  const ch = Math.max(o.cellHeight, Math.min(2, (120 * u) / nR));
  const g = { u, nR, nC, lw, lh, cw, ch, W: lw + nC * cw, H: lh + nR * ch };
  const { el, ctx } = canvas(g.W, g.H);
  Math.min(g.cw, g.ch) < TIGHT * u ? paintTight(ctx, o, g) : paintCells(ctx, o, g);
  const svg = s('svg', { width: g.W, height: g.H });
  const light = written(svg, o, g);
  const box = h('div.heat', { style: `width:${g.W}px;height:${g.H}px` }, el, svg);
  pointed(box, svg, light, o, g);
  return o.table === null
    ? box
    : withTable(
        box,
        o.title,
        o.table ??
          (() =>
            grid(
              o.rows,
              o.cols,
              o.values.map((row, i) => row.map((v, j) => (o.hatched?.(i, j) ? NaN : v))),
            )),
      );
}

// ---- cells
/** @type {(ctx: CanvasRenderingContext2D, o: HeatmapOptions, g: CellGrid) => void} */
function paintCells(ctx, o, { u, lw, lh, cw, ch }) {
  const gap = o.gap ?? 1;
  o.values.forEach((row, i) =>
    row.forEach((v, j) => {
      const x = lw + j * cw;
      const y = lh + i * ch;
      const out = !Number.isFinite(v) || o.hatched?.(i, j);
      ctx.fillStyle = cssColour(out ? 0 : v, o.scale);
      ctx.fillRect(x + gap / 2, y + gap / 2, cw - gap, ch - gap);
      if (out) hatch(ctx, { x, y, width: cw, height: ch }, u, gap / 2);
      else if (o.digits !== undefined) {
        const text = o.write
          ? o.write(v)
          : cw < 48 * u && Math.abs(v) < 1
            ? fixed(v, o.digits).replace('0.', '.')
            : fixed(v, o.digits);
        paintNumber(ctx, text, x + cw / 2, y + ch / 2 + u, {
          size: (o.fontSize ?? 15) * u,
          ground: cssColour(v, o.scale),
          fill: textOn(v, o.scale),
          alpha: o.fade && v < o.fade ? 0.62 : 1,
        });
      }
    }),
  );
}
/** @type {(ctx: CanvasRenderingContext2D, o: HeatmapOptions, g: CellGrid) => void} */
function paintTight(ctx, o, { u, nR, nC, lw, lh, cw, ch }) {
  // one pixel for each number, then stretched
  const inks = packedPalette(o.scale.kind);
  const small = pixelCanvas(nR, nC, pixels =>
    o.values.forEach((row, i) =>
      row.forEach((v, j) => {
        if (Number.isFinite(v) && !o.hatched?.(i, j)) pixels[i * nC + j] = inks[shade(v, o.scale)];
      }),
    ),
  );
  hatch(ctx, { x: lw, y: lh, width: nC * cw, height: nR * ch }, u);
  ctx.imageSmoothingEnabled = false;
  ctx.drawImage(small, lw, lh, nC * cw, nR * ch);
}

// ---- labels: if there are too many rows or columns, every n-th
/** @type {(svg: SVGSVGElement, o: HeatmapOptions, g: CellGrid) => LightLabels} */
function written(svg, o, { u, lw, lh, cw, ch }) {
  const every = { rows: Math.ceil(((o.wordSize ? 17 : 20) * u) / ch), cols: o.slant ? Math.ceil((26 * u) / cw) : 1 };
  /** @type {(i: number) => SVGElement} */
  const row = i => label(o.rows?.[i] ?? '', lw - 10 * u, lh + (i + 0.5) * ch, 'end', o.rowKey?.(i), o.wordSize);
  /** @type {(j: number) => SVGElement} */
  const col = j => {
    const x = lw + (j + 0.5) * cw;
    const y = lh - 8 * u;
    const text = label(o.cols?.[j] ?? '', x, y, o.slant ? 'start' : 'middle', o.colKey?.(j), o.wordSize);
    if (o.slant) text.setAttribute('transform', `rotate(-${LEAN} ${x} ${y})`);
    return text;
  };
  /** @type {(words: HeatmapOptions['rows'], make: (i: number) => SVGElement, step: number) => (SVGElement | null)[]} */
  const some = (words, make, step) => (words ?? []).map((_, i) => (i % step ? null : make(i)));
  const rows = some(o.rows, row, every.rows);
  const cols = some(o.cols, col, every.cols);
  const floating = s('g');
  svg.append(...[...rows, ...cols].filter(each => each !== null), floating);
  // A highlighted word without a label gets a temporary one, and its neighbours' labels are hidden.
  /** @type {LightLabels} */
  const light = (i, j) => {
    if (every.rows < 2 && every.cols < 2) return;
    highlight.forget(floating);
    fill(floating, i !== null && o.rows && !rows[i] && row(i), j !== null && o.cols && !cols[j] && col(j));
    for (const text of floating.children) text.classList.add('lit');
    rows.forEach((text, k) => text?.classList.toggle('away', !isLabelled(k, every.rows, i)));
    cols.forEach((text, k) => text?.classList.toggle('away', !isLabelled(k, every.cols, j)));
  };
  return light;
}
/** @type {(word: Name, x: number, y: number, anchor: string, key?: string, size?: string) => SVGElement} */
function label(word, x, y, anchor, key, size) {
  const parts = joined(Array.isArray(word) ? word : [word]);
  const last = parts.length - 1;
  const drawn = s(
    'text.word',
    {
      x,
      y,
      'text-anchor': anchor,
      'dominant-baseline': anchor === 'end' ? 'central' : 'auto',
      style: size ? `font-size:${size}` : null,
    },
    parts.map((part, k) =>
      isSpecialToken(part) || k < last
        ? s('tspan', { class: isSpecialToken(part) ? 'aside special' : 'aside' }, part)
        : part,
    ),
  );
  if (key) highlight.clickable(drawn, [key]);
  return drawn;
}
// Merge pieces of the same style: 'dog', ' → ', 'sleeps' becomes 'dog → ' and 'sleeps'.
/** @type {(parts: string[]) => string[]} */
function joined(parts) {
  return parts
    .map(part => shortened(part, 16))
    .reduce(
      (found, part, k) => {
        if (k && k < parts.length - 1 && !isSpecialToken(part) && !isSpecialToken(lastOf(found)))
          found[found.length - 1] += part;
        else found.push(part);
        return found;
      },
      /** @type {string[]} */ ([]),
    );
}

// ---- the pointer, the arrow keys, and the frames around the selection
/** @type {(box: HTMLElement, svg: SVGSVGElement, light: LightLabels, o: HeatmapOptions, g: CellGrid) => void} */
function pointed(box, svg, light, o, g) {
  const { nR, nC, lw, lh, cw, ch } = g;
  /** @type {string[]} */
  const rowKeys = o.rowKey ? range(nR).map(o.rowKey) : [];
  /** @type {string[]} */
  const colKeys = o.colKey ? range(nC).map(o.colKey) : [];
  const rowBand = s('rect.band.lit', { x: lw, width: nC * cw, height: ch, rx: 2 });
  const colBand = s('rect.band.lit', { y: lh, width: cw, height: nR * ch, rx: 2 });
  const cross = s('rect.cell.crossed', { width: cw, height: ch, rx: 2 });
  /** @type {Step2D | null} */
  let at = null; // the cell under the pointer or the focus
  /** @type {(el: SVGElement, place: { x?: number; y?: number } | null) => void} */
  const put = (el, place) => {
    el.style.display = place ? '' : 'none';
    if (place) setAttributes(el, place);
  };
  const frame = () => {
    const { row, col, exact } = highlight.cellOfKeys(highlight.activeKeys(), rowKeys, colKeys);
    const met = at ?? o.ring?.() ?? (exact ? [row ?? 0, col ?? 0] : null);
    const [i, j] = [row === null ? null : (met?.[0] ?? row), col === null ? null : (met?.[1] ?? col)]; // cross at met
    put(rowBand, i === null ? null : { y: lh + i * ch });
    put(colBand, j === null ? null : { x: lw + j * cw });
    put(cross, met && { x: lw + met[1] * cw, y: lh + met[0] * ch });
    light(i, j);
  };
  /** @type {(place: Step2D) => string[]} */
  const keysOf = ([i, j]) => [rowKeys[i], colKeys[j]].filter(Boolean);
  svg.append(rowBand, colBand, cross);
  /** @type {Walk<Step2D>} */
  const way = {
    name: o.title,
    kind: 'matrix',
    hint: 'arrow keys move between cells, Enter pins',
    toEnds: true,
    area: { x: lw, y: lh, width: nC * cw, height: nR * ch },
    placeAt: (x, y) => {
      const [i, j] = [Math.floor((y - lh) / ch), Math.floor((x - lw) / cw)];
      return i >= 0 && j >= 0 && i < nR && j < nC ? [i, j] : null;
    },
    start: () => {
      const { row, col } = highlight.cellOfKeys(highlight.state.pins, rowKeys, colKeys);
      return [row ?? 0, col ?? 0];
    },
    step: ([i, j], down, across) => [nearestIndex(i + down, nR), nearestIndex(j + across, nC)],
    look: place => {
      at = place;
      highlight.hover(keysOf(place));
      if (!rowKeys.length && !colKeys.length) frame();
      if (o.read) readout(o.read(...place));
      o.onlook?.(...place);
    },
    leave: () => {
      at = null;
      highlight.hover([]);
      frame();
      readout();
      o.onleave?.();
    },
    take: place => {
      highlight.pin(keysOf(place));
      o.onpick?.(...place);
    },
  };
  arrowNavigation(svg, way);
  highlight.follow(box, frame);
}
