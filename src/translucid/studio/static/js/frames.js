// Tensors from the server: a header in JSON, then raw numbers. See studio/tensors.py.
const NOTHING = 255;
export class Frame {
  constructor(header, raw) {
    Object.assign(this, header);
    this.raw = raw;
  }
  get size() {
    return this.shape.reduce((a, b) => a * b, 1);
  }
  number(at) {
    // flat index -> number; NaN: no value
    if (this.dtype !== 'u8') return this.dtype === 'f16' ? half(this.raw[at]) : this.raw[at];
    return this.raw[at] === NOTHING ? NaN : this.lo + (this.raw[at] / 254) * (this.hi - this.lo);
  }
  row(...index) {
    // all numbers below a leading index
    const [first, below] = this.place(index);
    return Array.from({ length: below }, (_, i) => this.number(first + i));
  }
  place(index) {
    // the first flat index below a leading index, and the count
    const below = this.shape.slice(index.length).reduce((a, b) => a * b, 1);
    const first = index.reduce((sum, i, axis) => sum * this.shape[axis] + i, 0);
    return [first * below, below];
  }
  table(...index) {
    // rows and columns below a leading index
    const rows = [];
    const columns = this.shape.at(-1);
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
const half = bits => halves[bits];
const KINDS = { u8: Uint8Array, f16: Uint16Array, f32: Float32Array };
export function frames(buffer) {
  const found = [];
  const view = new DataView(buffer);
  const decoder = new TextDecoder();
  for (let at = 0; at < buffer.byteLength; ) {
    const length = view.getUint32(at, true);
    const header = JSON.parse(decoder.decode(new Uint8Array(buffer, at + 4, length)));
    const Kind = KINDS[header.dtype];
    const count = header.shape.reduce((a, b) => a * b, 1);
    const start = at + 4 + length;
    const end = start + 8 * Math.ceil((count * Kind.BYTES_PER_ELEMENT) / 8);
    found.push(new Frame({ ...header, from: at, end }, new Kind(buffer, start, count))); // from, end: its bytes
    at = end;
  }
  return found;
}
