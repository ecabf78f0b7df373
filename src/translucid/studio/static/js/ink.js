// The only place where numbers become colours. Zero is transparent.
const RAMPS = {
  light: {
    zero: '#F0F4F2',
    neg: ['#CAC0FE', '#A390ED', '#7F61D5', '#5E2CBA'],
    pos: ['#F2C0A3', '#DC9366', '#C26726', '#964702'],
    seq: ['#B0D8CE', '#7DB6A8', '#4B9485', '#097363', '#004E42'],
  },
  dark: {
    zero: '#182320',
    neg: ['#453E64', '#6C5F9E', '#9583D9', '#BFB1FF'],
    pos: ['#5E3F1D', '#966125', '#CF8835', '#FEB66A'],
    seq: ['#1B4C42', '#237566', '#33A08C', '#4ACDB4', '#64FBDE'],
  },
};
/** @type {(hex: string) => number[]} */
const parse = h => [1, 3, 5].map(i => parseInt(h.slice(i, i + 2), 16));
/** @type {Map<string, number[][]>} */
const tables = new Map();

/** @type {(name: 'light' | 'dark', kind: string) => number[][]} */
function table(name, kind) {
  // 256 steps, built once per theme and kind
  const key = name + kind;
  let found = tables.get(key);
  if (!found) {
    const r = RAMPS[name];
    const stops = (kind === 'seq' ? [r.zero, ...r.seq] : [...[...r.neg].reverse(), r.zero, ...r.pos]).map(parse);
    const out = [];
    for (let i = 0; i < 256; i++) {
      const x = (i / 255) * (stops.length - 1);
      const k = Math.min(stops.length - 2, Math.floor(x));
      const f = x - k;
      out.push(stops[k].map((v, c) => Math.round(v + (stops[k + 1][c] - v) * f)));
    }
    found = out;
    tables.set(key, found);
  }
  return found;
}
/** @type {() => 'light' | 'dark'} */
export const theme = () => (document.documentElement.dataset.theme === 'dark' ? 'dark' : 'light');
/** @type {(v: number, a: number, b: number) => number} */
const clamp = (v, a, b) => Math.min(b, Math.max(a, v));

/** @type {(kind: string) => number[][]} */
export const palette = kind => table(theme(), kind); // for drawing many cells
// The same as 32-bit numbers, the pixel format of ImageData.
/** @type {(rgb: number[]) => number} */
export const packedColour = ([r, g, b]) => ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
/** @type {(kind: string) => number[]} */
export const packedPalette = kind => palette(kind).map(packedColour);
/** @type {(value: number, scale: Scale) => number} */
export function shade(value, scale) {
  // scale: { kind: 'seq' | 'div', max } -> one of 256
  const t = scale.kind === 'seq' ? clamp(value / scale.max, 0, 1) : clamp(0.5 + value / (2 * scale.max), 0, 1);
  return Math.round((Number.isNaN(t) ? (scale.kind === 'seq' ? 0 : 0.5) : t) * 255); // NaN is transparent
}
/** @type {(value: number, scale: Scale) => number[]} */
export const rgb = (value, scale) => palette(scale.kind)[shade(value, scale)];
/** @type {(value: number, scale: Scale) => string} */
export const cssColour = (value, scale) => `rgb(${rgb(value, scale).join(' ')})`;

/** @type {(byte: number) => number} */
const lin = byte => {
  const c = byte / 255;
  return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
};
/** @type {(value: number, scale: Scale) => string} */
export function textOn(value, scale) {
  // the readable one of two text colours
  const [r, g, b] = rgb(value, scale);
  const y = 0.2126 * lin(r) + 0.7152 * lin(g) + 0.0722 * lin(b);
  return 1.05 / (y + 0.05) > (y + 0.05) / 0.0548 ? '#FFFFFF' : '#06110F';
}
/** @type {(scale: Scale) => string} */
export function gradient(scale) {
  const t = table(theme(), scale.kind);
  return (
    'linear-gradient(90deg,' +
    [0, 32, 64, 96, 128, 160, 192, 224, 255].map(i => `rgb(${t[i].join(' ')})`).join(',') +
    ')'
  );
}

// A CSS variable in the current theme.
/** @type {(name: string) => string} */
export const cssVariable = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** @type {(width: number, height: number) => { el: HTMLCanvasElement; ctx: CanvasRenderingContext2D }} */
export function canvas(width, height) {
  const el = document.createElement('canvas');
  const k = window.devicePixelRatio || 1;
  el.width = Math.round(width * k);
  el.height = Math.round(height * k);
  el.style.width = `${width}px`;
  el.style.height = `${height}px`;
  const ctx = /** @type {CanvasRenderingContext2D} */ (el.getContext('2d'));
  ctx.scale(k, k);
  return { el, ctx };
}

// A canvas with one pixel per number; paint(pixels) fills it row by row with colours of `packed`.
/** @type {(rows: number, cols: number, paint: (pixels: Uint32Array) => void) => HTMLCanvasElement} */
export function pixelCanvas(rows, cols, paint) {
  const el = document.createElement('canvas');
  el.width = cols;
  el.height = rows;
  const pen = /** @type {CanvasRenderingContext2D} */ (el.getContext('2d'));
  const image = pen.createImageData(cols, rows);
  paint(new Uint32Array(image.data.buffer));
  pen.putImageData(image, 0, 0);
  return el;
}
// A grid of values over a plane, with a row for each value of the second input, which grows upwards.
// ink(value) -> [r, g, b]
/** @type {(grid: number[][], ink: (value: number) => number[]) => HTMLCanvasElement} */
export const planeMap = (grid, ink) =>
  pixelCanvas(grid.length, grid.length, pixels =>
    grid.forEach((row, j) =>
      row.forEach((value, i) => {
        pixels[(grid.length - 1 - j) * grid.length + i] = packedColour(ink(value));
      }),
    ),
  );
// Hatching for missing values (masked, not recorded, not finite). u: the page's unit; inset: margin.
/** @type {(ctx: CanvasRenderingContext2D, box: Box, u: number, inset?: number) => void} */
export function hatch(ctx, { x, y, width, height }, u, inset = 0) {
  ctx.save();
  ctx.beginPath();
  ctx.rect(x + inset, y + inset, width - 2 * inset, height - 2 * inset);
  ctx.clip();
  ctx.strokeStyle = cssVariable('--line');
  ctx.lineWidth = 1.25 * u;
  ctx.beginPath();
  for (let t = -height; t < width; t += 8 * u) {
    ctx.moveTo(x + t, y + height);
    ctx.lineTo(x + t + height, y);
  }
  ctx.stroke();
  ctx.restore();
}

// A number in a cell, on a background of one colour. It is remembered so that a saved picture can contain it as text;
// there, the background is painted over it, at most `room` high.
/** @type {WeakMap<HTMLCanvasElement, Figure[]>} */
const figures = new WeakMap();
/** @type {(ctx: CanvasRenderingContext2D, text: string, x: number, y: number, look: FigureLook) => void} */
export function paintNumber(ctx, text, x, y, { size, ground, fill, weight = 500, alpha = 1, room = Infinity }) {
  const family = cssVariable('--numbers');
  ctx.font = `${weight} ${size}px ${family}`;
  ctx.textAlign = 'center';
  ctx.textBaseline = 'middle';
  ctx.fillStyle = fill;
  ctx.globalAlpha = alpha;
  ctx.fillText(text, x, y);
  ctx.globalAlpha = 1;
  const known = figures.get(ctx.canvas) ?? [];
  figures.set(ctx.canvas, known);
  known.push({ text, x, y, ground, fill, size, weight, alpha, family, room });
}
/** @type {(el: HTMLCanvasElement) => Figure[]} */
export const numbersOn = el => figures.get(el) ?? [];

export const MANY = 32; // values that are written exactly
// Format a number with a fixed number of digits; numbers that would round to 0 are written as 1.2e−4.
/** @type {(v: number, digits?: number) => string} */
export const num = (v, digits = 2) =>
  v !== 0 && Number(Math.abs(v).toFixed(digits)) === 0 ? exponential(v, clamp(digits - 2, 0, 2)) : fixed(v, digits);
/** @type {(v: number, digits?: number) => string} */
export const exponential = (v, digits = 1) => v.toExponential(digits).replaceAll('-', '−').replace('e+', 'e');
// For a cell of a picture, which has room for the digits only; the status bar uses `num`.
/** @type {(v: number, digits?: number) => string} */
export const fixed = (v, digits = 2) => {
  if (Math.abs(v) === Infinity) return v < 0 ? '−∞' : '∞';
  const s = Math.abs(v).toFixed(digits);
  return (v < 0 && Number(s) !== 0 ? '−' : '') + s;
};
// Two digits, for cells of less than 48 px: .31, 1.0, 12.
/** @type {(v: number) => string} */
export const twoDigits = v => {
  const size = Math.abs(v);
  const text = Number(size.toFixed(2)) < 1 ? size.toFixed(2).slice(1) : size.toFixed(size < 9.95 ? 1 : 0);
  return (v < 0 && Number(text) !== 0 ? '−' : '') + text;
};
/** @type {(n: number, noun: string) => string} */
export const counted = (n, noun) => `${n} ${noun}${n === 1 ? '' : 's'}`;
/** @type {(v: number, digits?: number) => string} */
export const signed = (v, digits = 2) => (v > 0 ? '+' : '') + num(v, digits);

// Colour scales: for probabilities, and for a frame.
/** @type {Scale} */
export const UNIT_SCALE = { kind: 'seq', max: 1 };
/** @type {(frame: { scale: string; hi: number }) => Scale} */
export const scaleOf = frame =>
  frame.scale === 'signed' ? { kind: 'div', max: frame.hi } : { kind: 'seq', max: frame.hi };

// ---- a tensor tile: a row of numbers per strand. Cells are at least 3 px wide and show the largest of their numbers.
const LEAST = 3; // px of a cell
/** @type {(length: number, width: number) => number} */
export const cellsIn = (length, width) => Math.max(1, Math.min(length, Math.floor(width / LEAST)));
/** @type {(length: number, cells: number, k: number) => [number, number]} */
export function cellRange(length, cells, k) {
  // the numbers that cell k represents
  return [Math.floor((k * length) / cells), Math.floor(((k + 1) * length) / cells)];
}
// The attention weight to begin with: the largest that is not the maximum of its row, since exp of that score is 1 and
// so may be the sum; null if every token attends to one other.
/** @type {(weights: number[][]) => [number, number] | null} */
export function firstWeight(weights) {
  let [most, best] = [0.01, /** @type {[number, number] | null} */ (null)];
  weights.forEach((row, i) => {
    const top = row.indexOf(Math.max(...row));
    row.forEach((weight, j) => {
      if (j !== top && weight > most) [most, best] = [weight, [i, j]];
    });
  });
  return best;
}
/** @type {(row: Numbers, from: number, to: number) => number} */
export function largestIn(row, from, to) {
  // the index of the largest magnitude in a block
  let best = from;
  for (let j = from + 1; j < to; j++) if (Math.abs(row[j]) > Math.abs(row[best])) best = j;
  return best;
}
/** @type {(ctx: CanvasRenderingContext2D, rows: Numbers[], place: TilePlace) => void} */
export function paintRows(ctx, rows, { x, y, width, pitch, height, scale, alpha = 1 }) {
  ctx.globalAlpha = alpha;
  rows.forEach((row, i) => paintRow(ctx, row, { x, y: y + i * pitch + (pitch - height) / 2, width, height, scale }));
  ctx.globalAlpha = 1;
}
/** @type {(ctx: CanvasRenderingContext2D, row: Numbers, place: Box & { scale: Scale }) => void} */
export function paintRow(ctx, row, { x, y, width, height, scale }) {
  const cells = cellsIn(row.length, width);
  const w = width / cells;
  for (let k = 0; k < cells; k++) {
    const value = row[largestIn(row, ...cellRange(row.length, cells, k))];
    if (!Number.isFinite(value)) continue;
    ctx.fillStyle = cssColour(value, scale);
    const x0 = Math.round((x + k * w) * 2) / 2;
    const x1 = Math.round((x + (k + 1) * w) * 2) / 2;
    ctx.fillRect(x0, y, x1 - x0, height);
  }
}
// The number under the pointer: { row, column, value, of }, where `of` is the count of numbers in the cell.
/** @type {(rows: Numbers[], place: Place, px: number, py: number) => Under} */
export function numberAt(rows, { x, y, width, pitch }, px, py) {
  const i = Math.min(rows.length - 1, Math.max(0, Math.floor((py - y) / pitch)));
  const row = rows[i];
  const cells = cellsIn(row.length, width);
  const k = Math.min(cells - 1, Math.max(0, Math.floor(((px - x) / width) * cells)));
  const [from, to] = cellRange(row.length, cells, k);
  const column = largestIn(row, from, to);
  return { row: i, column, value: row[column], of: to - from, from, to };
}
