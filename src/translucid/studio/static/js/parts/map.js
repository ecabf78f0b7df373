// A map of a tensor with words at its rows, for tables too wide for one cell per number.
import { h, s, unit, widest, range, nearestIndex, svgWord, setAttributes, LEFT_OF } from '../dom.js';
import { canvas, paintRows, numberAt, cellsIn, cellRange, largestIn } from '../ink.js';
import * as highlight from '../highlight.js';
import { readout } from '../readout.js';
import { arrowNavigation } from '../keyboard.js';
import { grid, withTable } from './table.js';

const FULL = 40; // up to this many rows have their own marks
// o: { values, rows: [words or names], rowKey(i), scale, width, height, title, picked: [i, j], read(i, j, of),
// onpick(i, j) }
/** @type {(o: MapOptions) => HTMLElement} */
export function map(o) {
  const u = unit();
  const n = o.values.length;
  const lw = o.rows ? Math.min(92 * u, Math.max(24 * u, widest(o.rows, 0.9375, { most: 11 }) + 10 * u)) : 0;
  const pitch = Math.max(1.5, Math.min(n === 1 ? 32 * u : 24 * u, o.height / n));
  const W = o.width;
  const H = n * pitch;
  const height = pitch > 8 ? pitch - 2 : pitch > 4 ? pitch - 1 : pitch;
  const { el, ctx } = canvas(W, H);
  const place = { x: lw, y: 0, width: W - lw, pitch };
  paintRows(ctx, o.values, { ...place, height, scale: o.scale });
  const svg = s('svg', { width: W, height: H });
  const every = Math.max(1, Math.ceil((16 * u) / pitch));
  /** @type {SVGElement[]} */
  const texts = [];
  const many = n > FULL && o.rowKey;
  const floating = s('g'); // with many rows, every n-th word is labelled, and the selected one
  /** @type {(word: string, i: number) => SVGElement} */
  const written = (word, i) =>
    svgWord(
      word,
      {
        other: o.names ? 'id' : 'word',
        class: i % every && !many ? 'between row' : 'row',
        x: lw - 8 * u,
        y: (i + 0.5) * pitch,
        ...LEFT_OF,
        style: 'font-size:.9375rem',
      },
      11,
    );
  /** @type {(i: number) => SVGElement} */
  const band = i => s('rect.band', { x: lw, y: i * pitch, width: W - lw, height: pitch, rx: 2 });
  o.rows?.forEach((word, i) => {
    if (many && (i % every || (i && (i + 0.5) * pitch > H - 7 * u))) return;
    const key = o.rowKey?.(i);
    const text = written(word, i);
    texts[i] = text;
    svg.append(key && !many ? highlight.mark(text, key) : text);
    if (key && !many) svg.append(highlight.mark(band(i), key));
  });
  const cells = cellsIn(o.values[0].length, W - lw);
  const w = (W - lw) / cells;
  const columns = o.values[0].length;
  /** @type {(i: number, j: number) => Box} */
  const box = (i, j) => ({
    x: lw + Math.min(cells - 1, cellOf(j, columns, cells)) * w,
    y: i * pitch,
    width: w,
    height: pitch,
  });
  const pointer = s('rect.pointer', { visibility: 'hidden', rx: 2 });
  if (o.picked && o.picked[0] < n) svg.append(s('rect.pickedcell', { rx: 2, ...box(...o.picked) }));
  svg.append(pointer);
  /** @type {(event: MouseEvent) => Under} */
  const at = event => {
    const r = svg.getBoundingClientRect();
    return numberAt(o.values, place, event.clientX - r.left, event.clientY - r.top);
  };
  /** @type {(found: { row: number; column: number; of: number }) => void} */
  const look = found => {
    const key = o.rowKey?.(found.row);
    setAttributes(pointer, { ...box(found.row, found.column), visibility: 'visible' });
    if (key && highlight.state.hover[0] !== key) highlight.hover([key]);
    readout(o.read(found.row, found.column, found.of));
  };
  const leave = () => {
    pointer.setAttribute('visibility', 'hidden');
    highlight.hover([]);
    readout();
  };
  svg.addEventListener('mousemove', event => look(at(event)));
  svg.addEventListener('mouseleave', leave);
  /** @type {(row: number, k: number) => { row: number; column: number; of: number; k: number }} */
  const stand = (row, k) => {
    const [from, to] = cellRange(columns, cells, k);
    return { row, column: largestIn(o.values[row], from, to), of: to - from, k };
  };
  const { onpick } = o;
  /** @type {Walk<ReturnType<typeof stand>>} */
  const way = {
    name: o.title,
    look,
    leave,
    start: () =>
      stand(nearestIndex(o.picked?.[0] ?? 0, n), nearestIndex(cellOf(o.picked?.[1] ?? 0, columns, cells), cells)),
    step: ({ row, k }, down, across) => stand(nearestIndex(row + down, n), nearestIndex(k + across, cells)),
    take: onpick && (({ row, column }) => onpick(row, column)),
  };
  arrowNavigation(svg, way);
  svg.addEventListener('click', event => {
    const found = at(event);
    onpick?.(found.row, found.column);
  });
  if (every > 1 && o.rowKey) {
    // a highlighted word hides its neighbours' labels
    const keys = range(n).map(o.rowKey);
    if (many) svg.append(floating);
    highlight.follow(svg, () => {
      const { row } = highlight.cellOfKeys(highlight.activeKeys(), keys, []);
      texts.forEach((text, i) =>
        text.classList.toggle('away', row !== null && (many || i !== row) && Math.abs(i - row) < every),
      );
      if (many) {
        floating.replaceChildren(
          ...(row === null || !o.rows
            ? []
            : [written(o.wordOf?.(highlight.activeKeys()) ?? o.rows[row], row), band(row)]),
        );
        for (const each of floating.children) each.classList.add('lit');
      }
    });
  }
  const most = Math.ceil(columns / cells) * (o.each ?? 1);
  return h(
    'div',
    withTable(
      h('div.heat', { style: `width:${W}px;height:${H}px` }, el, svg),
      o.title,
      o.table ?? (() => grid(o.rows, null, o.values)),
    ),
    most > 1 ? h('p.small.quiet', `Each cell shows the largest of up to ${most} values.`) : null,
  );
}
/** @type {(j: number, columns: number, cells: number) => number} */
function cellOf(j, columns, cells) {
  // the cell of a number; blocks differ in size
  let k = Math.floor((j * cells) / columns);
  while (k + 1 < cells && Math.floor(((k + 1) * columns) / cells) <= j) k++;
  return k;
}
