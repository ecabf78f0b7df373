// Tensors from the server: a header in JSON, then raw numbers. See studio/tensors.py.
const NOTHING = 255;
export class Frame {
  /** @param {Header} header @param {Raw} raw */
  constructor(header, raw) {
    Object.assign(this, header);
    this.shape = header.shape;
    this.dtype = header.dtype;
    this.lo = header.lo;
    this.hi = header.hi;
    this.raw = raw;
  }
  get size() {
    return this.shape.reduce((a, b) => a * b, 1);
  }
  /** @type {(at: number) => number} */
  number(at) {
    // flat index -> number; NaN: no value
    if (this.dtype !== 'u8') return this.dtype === 'f16' ? half(this.raw[at]) : this.raw[at];
    return this.raw[at] === NOTHING ? NaN : this.lo + (this.raw[at] / 254) * (this.hi - this.lo);
  }
  /** @type {(...index: number[]) => number[]} */
  row(...index) {
    // all numbers below a leading index
    const [first, below] = this.place(index);
    return Array.from({ length: below }, (_, i) => this.number(first + i));
  }
  /** @type {(index: number[]) => [number, number]} */
  place(index) {
    // the first flat index below a leading index, and the count
    const below = this.shape.slice(index.length).reduce((a, b) => a * b, 1);
    const first = index.reduce((sum, i, axis) => sum * this.shape[axis] + i, 0);
    return [first * below, below];
  }
  /** @type {(...index: number[]) => number[][]} */
  table(...index) {
    // rows and columns below a leading index
    const rows = [];
    const columns = this.shape.at(-1) ?? 1;
    const [first, below] = this.place(index);
    for (let at = first; at < first + below; ) {
      const row = new Array(columns);
      for (let j = 0; j < columns; j++, at++) row[j] = this.number(at);
      rows.push(row);
    }
    return rows;
  }
}
const halves = new Float32Array(1 << 16);
for (let bits = 0; bits < 1 << 16; bits++) {
  const sign = bits >> 15 ? -1 : 1;
  const power = (bits >> 10) & 31;
  const rest = bits & 1023;
  halves[bits] =
    power === 31
      ? rest
        ? NaN
        : sign * Infinity
      : power
        ? sign * 2 ** (power - 15) * (1 + rest / 1024)
        : sign * 2 ** -14 * (rest / 1024);
}
/** @type {(bits: number) => number} */
export const half = bits => halves[bits];
const KINDS = { u8: Uint8Array, f16: Uint16Array, f32: Float32Array };
/** @type {(buffer: ArrayBuffer) => (Frame & Header)[]} */
export function frames(buffer) {
  /** @type {(Frame & Header)[]} */
  const found = [];
  const view = new DataView(buffer);
  const decoder = new TextDecoder();
  for (let at = 0; at < buffer.byteLength; ) {
    const length = view.getUint32(at, true);
    /** @type {Header} */
    const header = JSON.parse(decoder.decode(new Uint8Array(buffer, at + 4, length)));
    const Kind = KINDS[header.dtype];
    const count = header.shape.reduce((a, b) => a * b, 1);
    const start = at + 4 + length;
    const end = start + 8 * Math.ceil((count * Kind.BYTES_PER_ELEMENT) / 8);
    const frame = new Frame({ ...header, from: at, end }, new Kind(buffer, start, count)); // from, end: its bytes
    found.push(/** @type {Frame & Header} */ (frame));
    at = end;
  }
  return found;
}
// [heads, rows, columns], averaged over the heads.
/** @type {(frame: Frame & Header) => number[][]} */
export function meanOfHeads(frame) {
  const [heads, rows, cols] = frame.shape;
  const sums = Array.from({ length: rows }, () => new Array(cols).fill(0));
  for (let n = 0, at = 0; n < heads; n++)
    for (const sum of sums) for (let j = 0; j < cols; j++, at++) sum[j] += frame.number(at) / heads;
  return sums;
}
