// Attention as lines from keys to queries; thickness and opacity show the weight.
import { s } from '../dom.js';
import * as highlight from '../highlight.js';

export const FAINT = 0.004;
const SLIGHT = 5e-4;
// The strongest lines, at most `most`, and the number of the others.
/** @type {(weights: Numbers[], most: number) => Lines} */
export function strongest(weights, most) {
  /** @type {Line[]} */
  const all = [];
  weights.forEach((row, i) =>
    row.forEach((w, j) => {
      if (w >= FAINT) all.push([w, i, j]);
    }),
  );
  const drawn = all.length > most ? all.sort((a, b) => b[0] - a[0]).slice(0, most) : all;
  return { lines: drawn.sort((a, b) => a[0] - b[0]), left: all.length - drawn.length };
}
// The strongest few of each row.
/** @type {(weights: Numbers[], few: number) => Lines} */
export function topOfEach(weights, few) {
  const lines = weights.flatMap((row, i) =>
    [...row]
      .map((w, j) => /** @type {Line} */ ([w, i, j]))
      .sort((a, b) => b[0] - a[0])
      .slice(0, few)
      .filter(([w]) => w >= SLIGHT),
  );
  return { lines: lines.sort((a, b) => a[0] - b[0]), left: 0 };
}
// Many lines on canvas, behind those of the window.
/** @type {(ctx: CanvasRenderingContext2D, lines: Lines, curve: Curve, ink: string) => void} */
export function paintFaint(ctx, { lines }, curve, ink) {
  ctx.save();
  ctx.strokeStyle = ink;
  for (const [w, i, j] of lines) {
    ctx.globalAlpha = Math.max(0.03, w ** 0.85 * 0.5);
    ctx.lineWidth = 0.5 + 2 * w;
    ctx.stroke(new Path2D(curve(i, j)));
  }
  ctx.restore();
}
/** @type {(d: string, weight: number, keys: string[], size: { u: number; pitch: number }) => SVGPathElement} */
function line(d, weight, keys, { u, pitch }) {
  return highlight.mark(
    s('path.attention-line', {
      d,
      'stroke-width': (0.6 + weight * Math.min(9, (pitch / u) * 0.32)) * u,
      'stroke-opacity': Math.max(0.05, weight ** 0.85 * 0.92).toFixed(3),
      style: `--dim:${(weight * 0.3 + 0.02).toFixed(3)}`,
    }),
    ...keys,
  );
}
/** @type {(lines: Lines, curve: Curve, look: LineLook) => SVGPathElement[]} */
export const linePaths = ({ lines }, curve, { u, pitch, query, key }) =>
  lines.map(([w, i, j]) => line(curve(i, j), w, query(i) === key(j) ? [query(i)] : [query(i), key(j)], { u, pitch }));
// Within one band: keys on the left, queries on the right.
/** @type {(ends: { xa: number; xb: number; yQuery: Along; yKey: Along }) => Curve} */
export function across({ xa, xb, yQuery, yKey }) {
  const mid = (xb - xa) / 2;
  return (i, j) => `M${xa} ${yKey(j)}C${xa + mid} ${yKey(j)} ${xb - mid} ${yQuery(i)} ${xb} ${yQuery(i)}`;
}
// From the encoder's strands at the top of the pane to the rows of the decoder.
/** @type {(ends: { tick: Along; top: number; right: number; yQuery: Along }) => Curve} */
export function fromAbove({ tick, top, right, yQuery }) {
  return (i, j) => {
    const x = tick(j);
    const to = yQuery(i);
    return `M${x} ${top}C${x} ${top + (to - top) * 0.72} ${x + (right - x) * 0.25} ${to} ${right} ${to}`;
  };
}
