// Tensors of a local model, stored as PyTorch stores them: the last axis is contiguous. The first axis is the batch,
// which always has one row.
export class Tensor {
  /** @param {number[]} shape @param {Values} [values] default: zeros */
  constructor(shape, values) {
    this.shape = shape;
    this.values = values ?? new Float32Array(sizeOf(shape));
  }
  // The length of the last axis, and the number of rows of this length.
  get width() {
    return this.shape.at(-1) ?? 1;
  }
  get rows() {
    return this.values.length / this.width;
  }
}
/** @type {(shape: number[]) => number} */
export const sizeOf = shape => shape.reduce((a, b) => a * b, 1);

// ---- gradients: while `recorded` runs, each operation is kept with its gradient; saliency.js follows them back
/** @type {RecordedOperation[] | null} */
let tape = null;
// What `act` returns, and its operations in order.
/** @type {<T>(act: () => T) => { result: T; operations: RecordedOperation[] }} */
export function recorded(act) {
  /** @type {RecordedOperation[]} */
  const operations = [];
  tape = operations;
  try {
    return { result: act(), operations };
  } finally {
    tape = null;
  }
}
// back: adds the gradient to those of the operation's inputs, given the gradient of its result.
/** @type {(y: Tensor, back: RecordedOperation['back']) => Tensor} */
export function record(y, back) {
  tape?.push({ y: y.values, back });
  return y;
}
const STEP = 1e-6;
// The derivative of a function of one number; 0 where it is constant, also at infinity.
/** @type {(f: (value: number) => number, at: number) => number} */
function slope(f, at) {
  const found = (f(at + STEP) - f(at - STEP)) / (2 * STEP);
  return Number.isFinite(found) ? found : 0;
}
// An operation that only moves values: applied to their indices, it gives the place that each value came from.
/** @type {(x: Tensor, act: (x: Tensor) => Tensor) => Tensor} */
function moved(x, act) {
  const y = act(x);
  if (!tape) return y;
  const from = act(
    new Tensor(
      x.shape,
      Float64Array.from(x.values, (_, i) => i),
    ),
  ).values;
  return record(y, (dy, gradientOf) => {
    const dx = gradientOf(x);
    for (let i = 0; i < dy.length; i++) dx[from[i]] += dy[i];
  });
}

// A function of each value.
/** @type {(x: Tensor, f: (value: number) => number) => Tensor} */
export function map(x, f) {
  const y = new Float32Array(x.values.length);
  for (let i = 0; i < y.length; i++) y[i] = f(x.values[i]);
  return record(new Tensor(x.shape, y), (dy, gradientOf) => {
    const dx = gradientOf(x);
    for (let i = 0; i < dy.length; i++) dx[i] += dy[i] * slope(f, x.values[i]);
  });
}
// A function of the values of two tensors at the same place. A last axis of y of length 1 is repeated.
/** @type {(x: Tensor, y: Tensor, f: (a: number, b: number) => number) => Tensor} */
export function zip(x, y, f) {
  const each = x.values.length / y.values.length; // 1, or the width
  const z = new Float32Array(x.values.length);
  for (let i = 0; i < z.length; i++) z[i] = f(x.values[i], y.values[each === 1 ? i : Math.floor(i / each)]);
  return record(new Tensor(x.shape, z), (dz, gradientOf) => {
    const [dx, dy] = [gradientOf(x), gradientOf(y)];
    for (let i = 0; i < dz.length; i++) {
      const j = Math.floor(i / each);
      const [a, b] = [x.values[i], y.values[j]];
      dx[i] += dz[i] * slope(value => f(value, b), a);
      dy[j] += dz[i] * slope(value => f(a, value), b);
    }
  });
}
/** @type {(x: Tensor, y: Tensor) => Tensor} */
export const add = (x, y) => zip(x, y, (a, b) => a + b);
/** @type {(x: Tensor, y: Tensor) => Tensor} */
export const multiply = (x, y) => zip(x, y, (a, b) => a * b);

// One number for each row, on a last axis of length 1: `f` joins the values one by one, beginning with `first`.
/** @type {(x: Tensor, f: (sum: number, value: number) => number, first: number) => Tensor} */
export function reduce(x, f, first) {
  const y = new Tensor([...x.shape.slice(0, -1), 1]);
  for (let row = 0, at = 0; row < x.rows; row++) {
    let sum = first;
    for (let i = 0; i < x.width; i++) sum = f(sum, x.values[at++]);
    y.values[row] = sum;
  }
  if (f === Math.max) return y; // the shift of a softmax, which does not change its result
  return record(y, (dy, gradientOf) => {
    const dx = gradientOf(x);
    for (let i = 0; i < dx.length; i++) dx[i] += dy[Math.floor(i / x.width)];
  });
}
// x Wᵀ for each pair of matrices on the leading axes: (..., n, inner) and (..., m, inner) to (..., n, m). The leading
// axes of W may be missing, then all matrices of x use the same W.
/** @type {(x: Tensor, w: Tensor, bias?: Tensor | null) => Tensor} */
export function timesTransposed(x, w, bias) {
  const inner = x.width;
  const m = w.shape.at(-2) ?? 1;
  const n = w.shape.length === 2 ? x.rows : (x.shape.at(-2) ?? 1); // rows of x for each matrix of w
  const y = new Tensor([...x.shape.slice(0, -1), m]);
  for (let row = 0; row < x.rows; ) {
    const weights = w.values.subarray(Math.floor(row / n) * m * inner);
    const second = (row % n) + 1 < n ? row + 1 : row;
    multiplyRows(x.values, [row * inner, second * inner], weights, inner, y.values, [row * m, second * m], m);
    row = second + 1;
  }
  if (bias) for (let i = 0; i < y.values.length; i++) y.values[i] += bias.values[i % m];
  return record(y, (dy, gradientOf) => {
    const dx = gradientOf(x);
    const dw = w.shape.length === 2 ? null : gradientOf(w); // other matrices are weights
    for (let i = 0; i < dy.length; i++) {
      const row = Math.floor(i / m);
      const from = row * inner;
      const to = (Math.floor(row / n) * m + (i % m)) * inner;
      for (let k = 0; k < inner && dy[i]; k++) {
        dx[from + k] += dy[i] * w.values[to + k];
        if (dw) dw[to + k] += dy[i] * x.values[from + k];
      }
    }
  });
}
// y[j] = x · row j of w, for two rows of x, which read w once: four rows of w at a time, because an addition waits for
// the one before it. Rows of w beyond the last repeat it; a single row of x is both rows. `| 0` saves the browser an
// overflow check of each index.
/** @type {(x: Values, from: number[], w: Values, inner: number, y: Values, to: number[], m: number) => void} */
function multiplyRows(x, [first, second], w, inner, y, [to, next], m) {
  for (let j = 0; j < m; j += 4) {
    const [ja, jb, jc, jd] = [j, Math.min(j + 1, m - 1), Math.min(j + 2, m - 1), Math.min(j + 3, m - 1)];
    const a = (ja * inner) | 0;
    const b = (jb * inner) | 0;
    const c = (jc * inner) | 0;
    const d = (jd * inner) | 0;
    let sa = 0;
    let sb = 0;
    let sc = 0;
    let sd = 0;
    let ta = 0;
    let tb = 0;
    let tc = 0;
    let td = 0;
    for (let k = 0; k < inner; k = (k + 1) | 0) {
      const one = x[(first + k) | 0];
      const two = x[(second + k) | 0];
      const wa = w[(a + k) | 0];
      const wb = w[(b + k) | 0];
      const wc = w[(c + k) | 0];
      const wd = w[(d + k) | 0];
      sa += one * wa;
      sb += one * wb;
      sc += one * wc;
      sd += one * wd;
      ta += two * wa;
      tb += two * wb;
      tc += two * wc;
      td += two * wd;
    }
    y[to + ja] = sa;
    y[to + jb] = sb;
    y[to + jc] = sc;
    y[to + jd] = sd;
    y[next + ja] = ta;
    y[next + jb] = tb;
    y[next + jc] = tc;
    y[next + jd] = td;
  }
}
// x Y for each pair of matrices: (..., n, m) and (..., m, inner) to (..., n, inner).
/** @type {(x: Tensor, y: Tensor) => Tensor} */
export const times = (x, y) => timesTransposed(x, transposed(y, -1, -2));

/** @type {(x: Tensor, a: number, b: number) => Tensor} */
export const transposed = (x, a, b) => moved(x, given => swapped(given, a, b));
/** @type {(x: Tensor, a: number, b: number) => Tensor} */
function swapped(x, a, b) {
  const [from, to] = [a, b].map(axis => (axis < 0 ? axis + x.shape.length : axis)).sort((i, j) => i - j);
  const [outer, first, middle, second, inner] = [
    x.shape.slice(0, from),
    x.shape.slice(from, from + 1),
    x.shape.slice(from + 1, to),
    x.shape.slice(to, to + 1),
    x.shape.slice(to + 1),
  ].map(sizeOf);
  const shape = x.shape.with(from, second).with(to, first);
  const y = new Tensor(shape);
  let at = 0;
  for (let o = 0; o < outer; o++)
    for (let j = 0; j < second; j++)
      for (let k = 0; k < middle; k++)
        for (let i = 0; i < first; i++) {
          const start = (((o * first + i) * middle + k) * second + j) * inner;
          for (let l = 0; l < inner; l++) y.values[at++] = x.values[start + l];
        }
  return new Tensor(shape, y.values);
}
// Features (1, positions, heads * size) as (1, heads, positions, size), and back.
/** @type {(x: Tensor, heads: number) => Tensor} */
export const split = (x, heads) =>
  transposed(new Tensor([...x.shape.slice(0, -1), heads, x.width / heads], x.values), 1, 2);
/** @type {(x: Tensor) => Tensor} */
export function sideBySide(x) {
  const y = transposed(x, 1, 2);
  return new Tensor([...y.shape.slice(0, 2), y.shape[2] * y.shape[3]], y.values);
}
// Columns from `from` up to, not including, `to`.
/** @type {(x: Tensor, from: number, to: number) => Tensor} */
export const columns = (x, from, to) =>
  moved(x, ({ shape, values, rows, width }) => {
    const y = new Tensor([...shape.slice(0, -1), to - from]);
    for (let row = 0; row < rows; row++)
      y.values.set(values.subarray(row * width + from, row * width + to), row * (to - from));
    return y;
  });
/** @type {(x: Tensor, count: number) => Tensor[]} */
export const chunks = (x, count) =>
  Array.from({ length: count }, (_, i) => columns(x, (i * x.width) / count, ((i + 1) * x.width) / count));
// Join along an axis; the other axes have the same lengths.
/** @type {(parts: Tensor[], axis: number) => Tensor} */
export function joined(parts, axis) {
  const { shape } = parts[0];
  const place = axis < 0 ? axis + shape.length : axis;
  const inner = parts.map(x => sizeOf(x.shape.slice(place)));
  const outer = sizeOf(shape.slice(0, place));
  const length = parts.reduce((sum, x) => sum + x.shape[place], 0);
  const y = new Tensor(shape.with(place, length));
  let at = 0;
  for (let o = 0; o < outer; o++)
    parts.forEach((x, i) => {
      y.values.set(x.values.subarray(o * inner[i], (o + 1) * inner[i]), at);
      at += inner[i];
    });
  return record(y, (dy, gradientOf) => {
    let from = 0;
    for (let o = 0; o < outer; o++)
      parts.forEach((x, i) => {
        const dx = gradientOf(x);
        for (let k = o * inner[i]; k < (o + 1) * inner[i]; k++) dx[k] += dy[from++];
      });
  });
}
// Position t of (1, positions, features), as (1, features).
/** @type {(x: Tensor, t: number) => Tensor} */
export const position = (x, t) =>
  moved(x, ({ values, width }) => new Tensor([1, width], values.subarray(t * width, (t + 1) * width)));
// Tensors (1, features), one for each position, as (1, positions, features).
/** @type {(parts: Tensor[]) => Tensor} */
export const stacked = parts =>
  joined(
    parts.map(x => new Tensor([x.shape[0], 1, ...x.shape.slice(1)], x.values)),
    1,
  );
