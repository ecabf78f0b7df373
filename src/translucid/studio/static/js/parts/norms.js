// Gradient norms by layer (rows) and step (columns), on a logarithmic colour scale of DECADES powers of ten.
import { arrowNavigation } from '../keyboard.js';
import { h, s, unit, widest, shortened, nearestIndex, LEFT_OF, setAttributes } from '../dom.js';
import { UNIT_SCALE, canvas, hatch, packedPalette, pixelCanvas, shade } from '../ink.js';
import { readout } from '../readout.js';
import { withTable } from './table.js';
import { significant, digitsOf, stepAxis } from './curve.js';

const DECADES = 3;
const TOP = 30;
const FOOT = 24;
const RIGHT = 10;
/** @type {(names: string[], most?: number) => number} */
const named = (names, most) => widest(names, 0.875, { family: 'names', most });
/** @type {(value: number, most: number) => number} */
const share = (value, most) => (value > 0 && most > 0 ? Math.max(0, 1 + Math.log10(value / most) / DECADES) : 0);

// o: layers, width, height, oncursor(step), onpick(step)
/** @type {(o: NormsOptions) => Chart<NormsData>} */
export function norms(o) {
  const u = unit();
  const W = o.width;
  const H = o.height;
  const layers = o.layers;
  const letters = [24, 18].find(n => named(layers, n) + 14 * u <= W * 0.4) ?? 16; // of a name
  const lw = named(layers, letters) + 14 * u;
  const box = { x: lw, y: TOP * u, w: W - lw - RIGHT * u, h: H - (TOP + FOOT) * u };
  const ch = box.h / layers.length;
  const every = Math.ceil((17 * u) / ch);
  const note =
    o.note &&
    widest([o.title], 1, { family: 'names', weight: 600 }) + widest([o.note], 0.875, { family: 'names' }) + 24 * u < W
      ? o.note
      : '';
  const { el: ground, ctx } = canvas(W, H);
  const cell = s('rect.cell.crossed', { height: ch, rx: 2 });
  const steps = stepAxis(box, H);
  const { x } = steps;
  const svg = s(
    'svg',
    { width: W, height: H },
    s('text.title', { x: 0, y: 16 * u }, o.title),
    s('text.name', { x: W - RIGHT * u, y: 16 * u, 'text-anchor': 'end' }, note),
    layers.map((name, i) =>
      i % every
        ? null
        : s('text.name', { x: lw - 8 * u, y: box.y + (i + 0.5) * ch, ...LEFT_OF }, shortened(name, letters)),
    ),
    steps.shapes,
    cell,
  );
  const el = h('div.heat.norms', { style: `width:${W}px;height:${H}px` }, ground, svg);
  /** @type {NormsData & { most: number }} */
  let shown = { columns: [], from: 0, to: 1, most: 1 };
  withTable(el, o.title, () => ({
    corner: 'step',
    columns: layers,
    rows: shown.columns.map(([step, ...row]) => [step.toLocaleString('en'), ...row.map(significant)]),
    note: 'The norm of each layer’s gradient before clipping.',
  }));

  /** @type {(data: NormsData) => void} */
  function draw({ columns, from, to }) {
    // columns: [step, norm of each layer...]
    let most = 0;
    for (const column of columns)
      for (let i = 1; i < column.length; i++) if (column[i] > most && column[i] < Infinity) most = column[i];
    shown = { columns, from, to, most };
    ctx.clearRect(0, 0, W, H);
    hatch(ctx, { x: box.x, y: box.y, width: box.w, height: box.h }, u); // missing values
    steps.show(from, to);
    if (columns.length) strip(columns, most);
  }
  /** @type {(columns: number[][], most: number) => void} */
  function strip(columns, most) {
    // a column reaches back to the previous one unless there is a gap
    const inks = packedPalette('seq');
    const small = pixelCanvas(layers.length, columns.length, pixels =>
      columns.forEach((column, j) =>
        layers.forEach((_, i) => {
          if (Number.isFinite(column[i + 1]))
            pixels[i * columns.length + j] = inks[shade(share(column[i + 1], most), UNIT_SCALE)];
        }),
      ),
    );
    ctx.imageSmoothingEnabled = false;
    columns.forEach((_, j) => {
      const [a, b] = span(j);
      ctx.drawImage(small, j, 0, 1, layers.length, a, box.y, b - a, box.h);
    });
  }
  /** @type {(j: number) => [number, number]} */
  function span(j) {
    const { columns, from } = shown;
    const before = j ? columns[j - 1][0] : from;
    const usual = j > 1 ? before - columns[j - 2][0] : Infinity;
    const start =
      columns[j][0] - before > 3 * usual &&
      j + 1 < columns.length &&
      columns[j][0] - before > 3 * (columns[j + 1][0] - columns[j][0])
        ? columns[j][0] - usual
        : before;
    const a = Math.round(x(start) * 2) / 2;
    return [a, Math.max(a + 1, Math.round(x(columns[j][0]) * 2) / 2)];
  }
  /** @type {(step: number) => number} */
  const nearest = step => {
    const found = shown.columns.findIndex(column => column[0] >= step);
    return found < 0 ? shown.columns.length - 1 : found;
  };
  /** @type {(step: number | null) => void} */
  const cursor = step => steps.cursor(shown.columns.length ? step : null);
  /** @type {(place: Step2D) => void} */
  function look([i, j]) {
    const { columns, most } = shown;
    const column = columns[j];
    const value = column[i + 1];
    const [a, b] = span(j);
    cell.style.display = '';
    setAttributes(cell, { x: a, width: b - a, y: box.y + i * ch });
    o.oncursor(column[0]);
    readout({
      at: `${layers[i]}: norm of its gradient at step ${column[0].toLocaleString('en')}`,
      path: `studio/steps.jsonl  grad[${i}]  each colour step is a power of ten`,
      value,
      digits: digitsOf(value),
      scale: UNIT_SCALE,
      place: share(value, most),
      ends: [significant(most / 10 ** DECADES), significant(most)],
    });
  }
  cell.style.display = 'none';
  arrowNavigation(svg, {
    name: o.title,
    kind: 'matrix',
    hint: 'arrow keys move between cells',
    area: { x: box.x, y: box.y, width: box.w, height: box.h },
    placeAt: (px, py) => {
      const row = nearestIndex(Math.floor((py - box.y) / ch), layers.length);
      return shown.columns.length ? [row, nearest(steps.stepAt(px))] : null;
    },
    start: () => (shown.columns.length ? [0, shown.columns.length - 1] : null),
    step: ([i, j], down, across) => [
      nearestIndex(i + down, layers.length),
      nearestIndex(j + across, shown.columns.length),
    ],
    look,
    leave: () => {
      cell.style.display = 'none';
      o.oncursor(null);
      readout();
    },
    take: ([, j]) => o.onpick?.(shown.columns[j][0]),
  });
  return { el, draw, cursor, pick: steps.pick };
}
