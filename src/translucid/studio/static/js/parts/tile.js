// A tensor tile: one row of numbers on each strand. Cells are never thinner than 3 px; the largest of a few neighbours
// speaks for them.
import { css } from '../ink.js';

export const LEAST = 3; // px of a cell
export const cellsIn = (length, width) => Math.max(1, Math.min(length, Math.floor(width / LEAST)));
export function block(length, cells, k) {
  // the numbers that cell k stands for
  return [Math.floor((k * length) / cells), Math.floor(((k + 1) * length) / cells)];
}
export function loudest(row, from, to) {
  // where the largest magnitude of a block lies
  let best = from;
  for (let j = from + 1; j < to; j++) if (Math.abs(row[j]) > Math.abs(row[best])) best = j;
  return best;
}
export function tile(ctx, rows, { x, y, width, pitch, height, scale, alpha = 1 }) {
  ctx.globalAlpha = alpha;
  rows.forEach((row, i) => paintRow(ctx, row, { x, y: y + i * pitch + (pitch - height) / 2, width, height, scale }));
  ctx.globalAlpha = 1;
}
export function paintRow(ctx, row, { x, y, width, height, scale }) {
  const cells = cellsIn(row.length, width);
  const w = width / cells;
  for (let k = 0; k < cells; k++) {
    const value = row[loudest(row, ...block(row.length, cells, k))];
    if (!Number.isFinite(value)) continue;
    ctx.fillStyle = css(value, scale);
    const x0 = Math.round((x + k * w) * 2) / 2;
    const x1 = Math.round((x + (k + 1) * w) * 2) / 2;
    ctx.fillRect(x0, y, x1 - x0, height);
  }
}
// The number under the pointer: { row, column, value, of } where `of` tells how many the cell stands for.
export function under(rows, { x, y, width, pitch }, px, py) {
  const i = Math.min(rows.length - 1, Math.max(0, Math.floor((py - y) / pitch)));
  const row = rows[i];
  const cells = cellsIn(row.length, width);
  const k = Math.min(cells - 1, Math.max(0, Math.floor(((px - x) / width) * cells)));
  const [from, to] = block(row.length, cells, k);
  const column = loudest(row, from, to);
  return { row: i, column, value: row[column], of: to - from, from, to };
}
