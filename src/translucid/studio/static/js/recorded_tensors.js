// Tensors of a page that has them whole, in a saved session or from a local model: cut, pooled and encoded as
// studio/tensors.py does.
const NOTHING = 255;

// The part of a tensor that an index selects along the leading axes: * is all, 10:30 is 10 to 29.
/** @type {(frame: Omit<WholeTensor, 'scale'>, index: string[]) => Cut} */
export function cutOut(frame, index) {
  if (!index.length) return { shape: frame.shape, axes: frame.axes, values: Float32Array.from(frame.raw) };
  /** @type {number[]} */
  const left = [];
  /** @type {string[]} */
  const axes = [];
  let starts = [0];
  frame.shape.forEach((size, axis) => {
    const at = index[axis] ?? '*';
    const some = at === '*' || at.includes(':');
    const [from, to] = at === '*' ? [0, size] : some ? at.split(':').map(Number) : [Number(at), Number(at) + 1];
    if (to > size) throw new Error(`index: ${frame.at} has shape ${frame.shape.join(', ')}`);
    if (some) {
      left.push(to - from);
      axes.push(frame.axes[axis]);
    }
    const all = Array.from({ length: to - from }, (_, i) => from + i);
    starts = starts.flatMap(start => all.map(i => start * size + i));
  });
  return { shape: left, axes, values: Float32Array.from(starts, at => frame.raw[at]) };
}
// Pool the last two axes to at most these sizes: of neighbours, the number of largest magnitude; -Infinity only if none
// is finite.
/** @type {(cut: Cut, sizes: number[]) => Cut} */
export function pooled({ shape, axes, values }, sizes) {
  let small = { shape, values };
  for (let axis = Math.max(0, shape.length - 2); axis < shape.length; axis++) {
    const most = sizes.at(axis - shape.length) ?? sizes[0];
    if (shape[axis] > most) small = pooledAlong(small.shape, small.values, axis, Math.ceil(shape[axis] / most));
  }
  return { axes, ...small };
}
/** @type {(shape: number[], values: Float32Array, axis: number, each: number) => Pick<Cut, 'shape' | 'values'>} */
function pooledAlong(shape, values, axis, each) {
  const size = shape[axis];
  const inner = shape.slice(axis + 1).reduce((a, b) => a * b, 1);
  const outer = shape.slice(0, axis).reduce((a, b) => a * b, 1);
  const count = Math.ceil(size / each);
  const found = new Float32Array(outer * count * inner).fill(-Infinity);
  for (let o = 0; o < outer; o++)
    for (let i = 0; i < size; i++)
      for (let k = 0; k < inner; k++) {
        const value = values[(o * size + i) * inner + k];
        const to = (o * count + Math.floor(i / each)) * inner + k;
        if (Number.isFinite(value) && (!Number.isFinite(found[to]) || Math.abs(value) > Math.abs(found[to])))
          found[to] = value;
      }
  return { shape: shape.with(axis, count), values: found };
}
// The bytes of a frame: a header in JSON, then the values, as frames.js reads them.
/** @type {Encode} */
export function scaledFrame(given, cut, form) {
  const most = cut.values.reduce((top, v) => (Number.isFinite(v) ? Math.max(top, Math.abs(v)) : top), 0) || 1;
  const hi = given.scale === 'unit' ? 1 : most;
  const lo = given.scale === 'signed' ? -hi : 0;
  const small = form === 'u8';
  const numbers = small
    ? Uint8Array.from(cut.values, v =>
        Number.isFinite(v) ? Math.min(254, Math.max(0, Math.round(((v - lo) / (hi - lo)) * 254))) : NOTHING,
      )
    : cut.values;
  const header = { ...given, shape: cut.shape, dtype: small ? 'u8' : 'f32', lo, hi };
  let head = JSON.stringify(header);
  head += ' '.repeat((8 - ((head.length + 4) % 8)) % 8);
  const body = new Uint8Array(numbers.buffer, numbers.byteOffset, numbers.byteLength);
  const out = new Uint8Array(4 + head.length + body.length + ((8 - (body.length % 8)) % 8));
  new DataView(out.buffer).setUint32(0, head.length, true);
  out.set(new TextEncoder().encode(head), 4);
  out.set(body, 4 + head.length);
  return out;
}
// The answer to a request for these points, with the keys index, pool and as.
/** @type {(points: Map<string, WholeTensor>, given: URLSearchParams) => Promise<ArrayBuffer>} */
export function tensors(points, given) {
  const index = given.get('index')?.split(',').filter(Boolean) ?? [];
  const pool = given.get('pool')?.split(',').map(Number) ?? [Infinity];
  const places = index.map(at =>
    at === '*' ? null : at.includes(':') ? /** @type {[number, number]} */ (at.split(':').map(Number)) : Number(at),
  );
  const parts = given.getAll('at').map(name => {
    const frame = /** @type {WholeTensor} */ (points.get(name));
    const { at, scale } = frame;
    const cut = cutOut(frame, index);
    const header = { at, axes: cut.axes, whole: cut.shape, index: places, scale };
    return scaledFrame(header, pooled(cut, pool), given.get('as') ?? 'u8');
  });
  return new Blob(parts).arrayBuffer();
}
// A number without its terms: its value, and how to get them. why: the reason, after "The terms of this number".
/** @type {(points: Map<string, WholeTensor>, at: string, why: string) => object | null} */
export function bare(points, at, why) {
  const [, name, places] = /^([\w.]+)(?:\[([\d, ]*)\])?$/.exec(at) ?? [];
  const frame = points.get(name);
  if (!frame) return null;
  const index = places ? places.split(',').map(Number).slice(1) : [];
  const value = frame.raw[index.reduce((sum, i, axis) => sum * frame.shape[axis] + i, 0)];
  const finite = Number.isFinite(value);
  return {
    address: at,
    kind: 'point',
    value: finite ? value : null,
    text: finite ? String(Number(value.toPrecision(6))) : value < 0 ? '-inf' : 'inf',
    symbol: '',
    meaning: '',
    formula: '',
    symbols: {},
    remainder: 0,
    python: `trace["${name}"]${places ? `[${places}]` : ''}`,
    expression: null,
    missing:
      `The terms of this number ${why}: ` + `to see them, use translucid explore or, in Python, trace.terms("${at}").`,
  };
}
