// A function of two inputs as colours over the plane, with a contour.
import { h, s, unit, ABOVE } from '../dom.js';
import { canvas, num, planeMap, rgb } from '../ink.js';
import { readout } from '../readout.js';
import { withTable } from './table.js';

// The contour at one half: a line segment for each square that it crosses.
/** @type {(grid: number[][], ticks: number[], level?: number) => number[][][]} */
export function contour(grid, ticks, level = 0.5) {
  const found = [];
  for (let j = 0; j + 1 < ticks.length; j++)
    for (let i = 0; i + 1 < ticks.length; i++) {
      const corners = [
        [i, j],
        [i + 1, j],
        [i + 1, j + 1],
        [i, j + 1],
      ];
      /** @type {number[][]} */
      const cuts = [];
      corners.forEach(([a, b], k) => {
        const [c, d] = corners[(k + 1) % 4];
        const [v, w] = [grid[b][a] - level, grid[d][c] - level];
        if (v > 0 === w > 0) return;
        const f = v / (v - w);
        cuts.push([ticks[a] + f * (ticks[c] - ticks[a]), ticks[b] + f * (ticks[d] - ticks[b])]);
      });
      for (let k = 0; k + 1 < cuts.length; k += 2) found.push([cuts[k], cuts[k + 1]]);
    }
  return found;
}

// A plane in its frame: the canvas with its colours, ticks at both axes, and shapes over it.
/** @type {(o: PlaneFrame, ...shapes: Content[]) => HTMLElement} */
export function planeFrame({ el, side, edge, label, ticks }, ...shapes) {
  const u = unit();
  const size = side + 2 * edge;
  const written = ticks.map(({ axis, at, text }) =>
    axis === 'x'
      ? s('text.tick', { x: at, y: side + 18 * u, ...ABOVE }, text)
      : s('text.tick', { x: -8 * u, y: side - at + 5 * u, 'text-anchor': 'end' }, text),
  );
  const viewBox = `${-edge} ${-edge} ${size} ${size}`;
  const svg = s('svg', { width: size, height: size, viewBox, role: 'img', 'aria-label': label }, written, shapes);
  el.style.left = el.style.top = `${edge}px`;
  return h('div.heat.planeheat', { style: `width:${size}px;height:${size}px` }, el, svg);
}
// One function with labelled axes. data: { name, grid, ticks: of both axes, point, scale, centre, level };
// centre: the value without colour; level: of the contour, if any; point: the current input.
const EDGE = 44; // units, for the labels
const EVERY = 16; // grid points between two rows of the table
/** @type {(data: PlaneFunction, size: number) => HTMLElement} */
export function planePicture({ name, grid, ticks, point, scale, centre, level }, size) {
  const u = unit();
  const side = Math.max(120 * u, size - 2 * EDGE * u);
  const last = grid.length - 1;
  /** @type {(value: number, axis: number) => number} */
  const place = (value, axis) => ((value - ticks[axis][0]) / (ticks[axis][last] - ticks[axis][0])) * side;
  const { el, ctx } = canvas(side, side);
  ctx.drawImage(
    planeMap(grid, value => rgb(value - centre, scale)),
    0,
    0,
    side,
    side,
  );
  const indices = ticks[0].map((_, i) => i);
  const line =
    level === null
      ? ''
      : contour(grid, indices, level)
          .map(([[a, b], [c, d]]) => [a, b, c, d].map(i => (i / last) * side))
          .map(([a, b, c, d]) => `M${a} ${side - b}L${c} ${side - d}`)
          .join('');
  const ticksShown = [0, last].flatMap(i => [
    { axis: 'x', at: (i / last) * side, text: num(ticks[0][i], 2) },
    { axis: 'y', at: (i / last) * side, text: num(ticks[1][i], 2) },
  ]);
  const label = `${name} over the plane of the two inputs`;
  const hit = s('rect.hit', {
    width: side,
    height: side,
    onpointermove: event => {
      const { left, top } = el.getBoundingClientRect();
      /** @type {(share: number) => number} */
      const at = share => Math.round(Math.min(1, Math.max(0, share)) * last);
      const i = at((event.clientX - left) / side);
      const j = at(1 - (event.clientY - top) / side);
      readout({
        at: [`${name} at (${num(ticks[0][i], 2)}, ${num(ticks[1][j], 2)})`],
        path: 'output',
        value: grid[j][i],
      });
    },
    onpointerleave: () => readout(),
  });
  const box = planeFrame(
    { el, side, edge: EDGE * u, label, ticks: ticksShown },
    s('path.boundary', { d: line }),
    s('circle.looked', { cx: place(point[0], 0), cy: side - place(point[1], 1), r: 6 * u }),
    s('text.tick', { x: side / 2, y: side + 18 * u, ...ABOVE }, 'x1'),
    s('text.tick', { x: -8 * u, y: side / 2, 'text-anchor': 'end' }, 'x2'),
    hit,
  );
  const shown = indices.filter(i => i % EVERY === 0);
  return withTable(box, name, () => ({
    corner: 'x2 \\ x1',
    columns: shown.map(i => num(ticks[0][i], 2)),
    rows: shown.toReversed().map(j => [num(ticks[1][j], 2), ...shown.map(i => num(grid[j][i], 3))]),
    note: `Every ${EVERY}th of ${grid.length} rows and columns.`,
  }));
}
