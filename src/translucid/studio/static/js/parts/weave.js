// Attention as weaving: a line from each key to each query that takes from it; thickness and opacity are the weight.
import { s } from '../dom.js';
import * as link from '../link.js';

export const FAINT = 0.004;
// The strongest lines, at most `most`; the rest is counted, not drawn.
export function strongest(weights, most) {
  const all = [];
  weights.forEach((row, i) => row.forEach((w, j) => { if (w >= FAINT) all.push([w, i, j]); }));
  const drawn = all.length > most ? all.sort((a, b) => b[0] - a[0]).slice(0, most) : all;
  return { lines: drawn.sort((a, b) => a[0] - b[0]), left: all.length - drawn.length };
}
function line(d, weight, keys, { u, pitch }) {
  return link.mark(s('path', {
    class: 'weave', d, 'stroke-width': (0.6 + weight * Math.min(9, pitch / u * 0.32)) * u, 'stroke-opacity': Math.max(0.05, weight ** 0.85 * 0.92).toFixed(3),
    style: `--dim:${(weight * 0.3 + 0.02).toFixed(3)}`,
  }), ...keys);
}
// Within one band: keys on the left, queries on the right.
export function weave({ lines }, { xa, xb, y, key, step, u, pitch }) {
  const mid = (xb - xa) / 2;
  return lines.map(([w, i, j]) => line(`M${xa} ${y(j)}C${xa + mid} ${y(j)} ${xb - mid} ${y(i)} ${xb} ${y(i)}`, w, i === j ? [`${key}:${i * step}`] : [`${key}:${i * step}`, `${key}:${j * step}`], { u, pitch }));
}
// From the memory that is let down at the top of the pane to the rows of the decoder.
export function let_down({ lines }, { tick, top, right, y, u, pitch, query, key }) {
  return lines.map(([w, i, j]) => {
    const x = tick(j), to = y(i);
    return line(`M${x} ${top}C${x} ${top + (to - top) * 0.72} ${x + (right - x) * 0.25} ${to} ${right} ${to}`, w, [query(i), key(j)], { u, pitch });
  });
}
