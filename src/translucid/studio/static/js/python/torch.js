// @ts-nocheck: values have Python's dynamic types.
// The part of torch that lessons and worked solutions use, in plain JavaScript: tensors with reverse-mode
// differentiation.
//
// A tensor is always contiguous. Views (view, reshape, flatten, detach, x[i]) share its values; transposes are copies.
import { Ellipsis, call, isSlice, iter, method, named, parsed, raise, slice, tuple } from './python.js';

const STORES = { float64: Float64Array, float32: Float32Array, int64: Float64Array, bool: Uint8Array };
const NEXT = { bool: 0, int64: 1, float32: 2, float64: 3 };
const product = sizes => sizes.reduce((a, b) => a * b, 1);
export const isFloat = type => type.startsWith('float');
let recording = true;

const stridesOf = shape => {
  const strides = Array(shape.length);
  let size = 1;
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    strides[axis] = size;
    size *= shape[axis];
  }
  return strides;
};
const pair = (values, indices) => Object.assign(tuple([values, indices]), { values, indices });
const axisOf = (axis, rank) => (axis < 0 ? axis + rank : axis);
const flatSizes = sizes => (sizes.length === 1 && Array.isArray(sizes[0]) ? [...sizes[0]] : sizes);

/** The shape of two tensors side by side, as numpy broadcasts them. */
function joinedShape(a, b) {
  const rank = Math.max(a.length, b.length);
  return Array.from({ length: rank }, (_, i) => {
    const [m, n] = [a[a.length - rank + i] ?? 1, b[b.length - rank + i] ?? 1];
    if (m !== n && m !== 1 && n !== 1) raise('RuntimeError', `shapes ${a} and ${b} do not fit`);
    return m === 1 ? n : m;
  });
}
/** For each entry of `shape`, the place of its value in a tensor that is broadcast to it. */
function places(from, shape) {
  const strides = stridesOf(from);
  const out = new Int32Array(product(shape));
  const steps = shape.map((_, i) =>
    (from[from.length - shape.length + i] ?? 1) === 1 ? 0 : strides[from.length - shape.length + i],
  );
  const index = Array(shape.length).fill(0);
  let at = 0;
  for (let n = 0; n < out.length; n++) {
    out[n] = at;
    for (let axis = shape.length - 1; axis >= 0; axis--) {
      at += steps[axis];
      if (++index[axis] < shape[axis]) break;
      at -= steps[axis] * shape[axis];
      index[axis] = 0;
    }
  }
  return out;
}
const same = (a, b) => a.length === b.length && a.every((size, i) => size === b[i]);

export class Tensor {
  constructor(data, shape, dtype = 'float64') {
    this.store = data;
    this.sizes = shape;
    this.dtype = dtype;
    this.requires_grad = false;
    this.grad = null;
    this.source = null; // how it was computed: { parents, back }
  }
  get shape() {
    return tuple(this.sizes);
  }
  get data() {
    return this.detach();
  }

  // ---- making tensors from this one

  /** A tensor with these values; `back` turns its gradient into those of its parents. */
  static made(data, shape, dtype, parents = [], back = null) {
    const out = new Tensor(data, shape, dtype);
    if (recording && back && parents.some(parent => parent.requires_grad)) {
      out.requires_grad = true;
      out.source = { parents, back };
    }
    return out;
  }
  empty(shape = this.sizes, dtype = this.dtype) {
    return new Tensor(new STORES[dtype](product(shape)), [...shape], dtype);
  }
  map(f, slope = null, dtype = this.dtype) {
    const out = this.empty(this.sizes, dtype);
    for (let i = 0; i < out.store.length; i++) out.store[i] = f(this.store[i]);
    return slope ? Tensor.made(out.store, out.sizes, dtype, [this], g => [slope(g, out)]) : out;
  }
  get floating() {
    return isFloat(this.dtype) ? this : this.to('float32');
  }

  // ---- operators

  static wrap(value, other) {
    if (value instanceof Tensor) return value;
    const number = Number(value);
    const kind =
      typeof value === 'boolean'
        ? 'bool'
        : isFloat(other.dtype)
          ? other.dtype
          : Number.isInteger(number)
            ? 'int64'
            : 'float32';
    return new Tensor(STORES[kind].of(number), [], kind);
  }
  with(other, f, dtype = null, back = null) {
    const b = Tensor.wrap(other, this);
    return combine(this, b, f, dtype, back);
  }
  __add__(other) {
    return this.with(
      other,
      (a, b) => a + b,
      null,
      g => [g, g],
    );
  }
  __sub__(other) {
    return this.with(
      other,
      (a, b) => a - b,
      null,
      g => [g, g.__neg__()],
    );
  }
  __mul__(other) {
    const b = Tensor.wrap(other, this);
    return combine(
      this,
      b,
      (x, y) => x * y,
      null,
      g => [g.__mul__(b.detach()), g.__mul__(this.detach())],
    );
  }
  __truediv__(other) {
    const a = this.floating;
    const b = Tensor.wrap(other, a).floating;
    const back = g => [
      g.__truediv__(b.detach()),
      g.__neg__().__mul__(a.detach().__truediv__(b.detach()).__truediv__(b.detach())),
    ];
    return combine(a, b, (x, y) => x / y, null, back);
  }
  __floordiv__(other) {
    return this.with(other, (a, b) => Math.floor(a / b));
  }
  __pow__(other) {
    const p = Tensor.wrap(other, this);
    const back = g => [g.__mul__(p).__mul__(this.detach().__pow__(p.__sub__(1))), null];
    return combine(this, p, (a, b) => a ** b, null, back);
  }
  __radd__(other) {
    return this.__add__(other);
  }
  __rmul__(other) {
    return this.__mul__(other);
  }
  __rsub__(other) {
    return Tensor.wrap(other, this).__sub__(this);
  }
  __rtruediv__(other) {
    return Tensor.wrap(other, this.floating).__truediv__(this);
  }
  __rpow__(other) {
    return Tensor.wrap(other, this.floating).__pow__(this);
  }
  __neg__() {
    return this.map(
      a => -a,
      g => g.__neg__(),
    );
  }
  __abs__() {
    return this.map(Math.abs, g => g.__mul__(this.detach().map(Math.sign)));
  }
  __invert__() {
    return this.map(a => (a ? 0 : 1));
  }
  __and__(other) {
    return this.with(other, (a, b) => (a && b ? 1 : 0), 'bool');
  }
  __or__(other) {
    return this.with(other, (a, b) => (a || b ? 1 : 0), 'bool');
  }
  __eq__(other) {
    return other !== null && typeof other !== 'string' && this.with(other, (a, b) => (a === b ? 1 : 0), 'bool');
  }
  __ne__(other) {
    return this.with(other, (a, b) => (a === b ? 0 : 1), 'bool');
  }
  __lt__(other) {
    return this.with(other, (a, b) => (a < b ? 1 : 0), 'bool');
  }
  __le__(other) {
    return this.with(other, (a, b) => (a <= b ? 1 : 0), 'bool');
  }
  __gt__(other) {
    return this.with(other, (a, b) => (a > b ? 1 : 0), 'bool');
  }
  __ge__(other) {
    return this.with(other, (a, b) => (a >= b ? 1 : 0), 'bool');
  }
  __bool__() {
    return this.store.length === 1
      ? this.store[0] !== 0
      : raise('RuntimeError', 'the truth of several values is ambiguous');
  }
  __len__() {
    return this.sizes[0];
  }
  __float__() {
    return this.item();
  }
  *[Symbol.iterator]() {
    for (let i = 0; i < this.sizes[0]; i++) yield this.__getitem__(i);
  }

  __matmul__(other) {
    if (this.sizes.length === 1 && other.sizes.length === 1) return this.__mul__(other).sum();
    if (this.sizes.length === 1) return this.unsqueeze(0).__matmul__(other).squeeze(-2);
    if (other.sizes.length === 1) return this.__matmul__(other.unsqueeze(1)).squeeze(-1);
    const [rows, inner] = this.sizes.slice(-2);
    const columns = other.sizes.at(-1);
    if (other.sizes.at(-2) !== inner) raise('RuntimeError', `${this.sizes} @ ${other.sizes}: the inner sizes differ`);
    const batch = joinedShape(this.sizes.slice(0, -2), other.sizes.slice(0, -2));
    const [left, right] = [places(this.sizes.slice(0, -2), batch), places(other.sizes.slice(0, -2), batch)];
    const out = this.empty([...batch, rows, columns]);
    for (let n = 0; n < product(batch); n++) {
      for (let i = 0; i < rows; i++) {
        for (let j = 0; j < columns; j++) {
          let total = 0;
          for (let k = 0; k < inner; k++) {
            total += this.store[(left[n] * rows + i) * inner + k] * other.store[(right[n] * inner + k) * columns + j];
          }
          out.store[(n * rows + i) * columns + j] = total;
        }
      }
    }
    const back = g =>
      [g.__matmul__(other.detach().mT), this.detach().mT.__matmul__(g)].map((grad, i) =>
        shrunk(grad, [this, other][i].sizes),
      );
    return Tensor.made(out.store, out.sizes, this.dtype, [this, other], back);
  }

  // ---- elementwise

  exp() {
    return this.floating.map(Math.exp, (g, y) => g.__mul__(y));
  }
  log() {
    return this.floating.map(Math.log, g => g.__truediv__(this.detach()));
  }
  sqrt() {
    return this.floating.map(Math.sqrt, (g, y) => g.__truediv__(y.__mul__(2)));
  }
  sin() {
    return this.floating.map(Math.sin, g => g.__mul__(this.detach().cos()));
  }
  cos() {
    return this.floating.map(Math.cos, g => g.__mul__(this.detach().sin().__neg__()));
  }
  tanh() {
    return this.floating.map(Math.tanh, (g, y) => g.__mul__(y.map(v => 1 - v * v)));
  }
  sigmoid() {
    return this.floating.map(
      v => 1 / (1 + Math.exp(-v)),
      (g, y) => g.__mul__(y.map(v => (1 - v) * v)),
    );
  }
  relu() {
    return this.map(
      v => Math.max(v, 0),
      g => g.__mul__(this.detach().map(v => (v > 0 ? 1 : 0))),
    );
  }
  erf() {
    return this.map(erf, g => g.__mul__(this.detach().map(v => (2 / Math.sqrt(Math.PI)) * Math.exp(-v * v))));
  }
  square() {
    return this.map(
      v => v * v,
      g => g.__mul__(this.detach().__mul__(2)),
    );
  }
  abs() {
    return this.__abs__();
  }
  sign() {
    return this.map(Math.sign);
  }
  isfinite() {
    return this.map(v => (Number.isFinite(v) ? 1 : 0), null, 'bool');
  }
  clamp(...args) {
    const [[a, b], { min = a ?? null, max = b ?? null }] = parsed(args);
    const inside = v => (min === null || v >= min) && (max === null || v <= max);
    const clip = v => Math.min(Math.max(v, min ?? v), max ?? v);
    return this.map(clip, g => g.__mul__(this.detach().map(v => (inside(v) ? 1 : 0))));
  }
  masked_fill(mask, value) {
    const hidden = places(mask.sizes, joinedShape(this.sizes, mask.sizes));
    const out = this.clone().detach();
    for (let i = 0; i < out.store.length; i++)
      if (mask.store[hidden[i]]) out.store[i] = Number(value instanceof Tensor ? value.item() : value);
    return Tensor.made(out.store, out.sizes, this.dtype, [this], g => [g.masked_fill(mask, 0)]);
  }

  // ---- reductions

  reduce(args, f, back, dtype = this.dtype) {
    const [[first, second], { dim = first ?? null, keepdim = second ?? false }] = parsed(args);
    const rank = this.sizes.length;
    const axes =
      dim === null ? [...Array(rank).keys()] : (Array.isArray(dim) ? dim : [dim]).map(axis => axisOf(axis, rank));
    const kept = this.sizes.map((size, axis) => (axes.includes(axis) ? 1 : size));
    const at = places(kept, this.sizes);
    const groups = Array.from({ length: product(kept) }, () => []);
    for (let i = 0; i < this.store.length; i++) groups[at[i]].push(this.store[i]);
    const shape = keepdim ? kept : kept.filter((_, axis) => !axes.includes(axis));
    const out = new Tensor(STORES[dtype].from(groups.map(f)), shape, dtype);
    if (!back) return out;
    const full = tensor => new Tensor(tensor.store, kept, tensor.dtype).expand(this.sizes);
    return Tensor.made(out.store, shape, dtype, [this], g => [back(full(g), full(out), groups[0].length)]);
  }
  sum(...args) {
    return this.reduce(
      args,
      values => values.reduce((a, b) => a + b, 0),
      g => g,
      isFloat(this.dtype) ? this.dtype : 'int64',
    );
  }
  mean(...args) {
    return this.reduce(
      args,
      values => values.reduce((a, b) => a + b, 0) / values.length,
      (g, _, n) => g.__truediv__(n),
    );
  }
  prod(...args) {
    return this.reduce(args, product, null, isFloat(this.dtype) ? this.dtype : 'int64');
  }
  var(...args) {
    const [[dim = null], { correction = 1, unbiased = null, keepdim = false, dim: byName = dim }] = parsed(args);
    const lost = unbiased === null ? correction : Number(unbiased);
    const centred = this.__sub__(this.mean(named({ dim: byName, keepdim: true })));
    const sums = centred.square().sum(named({ dim: byName, keepdim }));
    return sums.__truediv__(this.store.length / Math.max(1, product(sums.sizes)) - lost);
  }
  std(...args) {
    return this.var(...args).sqrt();
  }
  norm(...args) {
    const [[, second], { dim = second ?? null, keepdim = false }] = parsed(args);
    return this.square().sum(named({ dim, keepdim })).sqrt();
  }
  all(...args) {
    return this.reduce(args, values => (values.every(Boolean) ? 1 : 0), null, 'bool');
  }
  any(...args) {
    return this.reduce(args, values => (values.some(Boolean) ? 1 : 0), null, 'bool');
  }
  peak(args, pick) {
    return this.reduce(
      args,
      values => values.reduce(pick),
      (g, y) => {
        const ties = this.detach().__eq__(y).to(this.dtype);
        const [, { dim = args[0] ?? null }] = parsed(args);
        return g.__mul__(ties).__truediv__(ties.sum(named({ dim, keepdim: true })));
      },
    );
  }
  amax(...args) {
    return this.peak(args, (a, b) => Math.max(a, b));
  }
  max(...args) {
    if (args[0] instanceof Tensor) return this.with(args[0], Math.max);
    if (!args.length) return this.peak(args, (a, b) => Math.max(a, b));
    return pair(this.amax(...args), this.argmax(...args));
  }
  min(...args) {
    return this.peak(args, (a, b) => Math.min(a, b));
  }
  argmax(...args) {
    return this.reduce(args, values => values.indexOf(Math.max(...values)), null, 'int64');
  }
  argmin(...args) {
    return this.reduce(args, values => values.indexOf(Math.min(...values)), null, 'int64');
  }
  cumsum(...args) {
    const [[dim], { dim: byName = dim }] = parsed(args);
    const axis = axisOf(byName, this.sizes.length);
    const out = this.clone().detach();
    const step = stridesOf(this.sizes)[axis];
    for (let i = 0; i < out.store.length; i++)
      if (Math.floor(i / step) % this.sizes[axis]) out.store[i] += out.store[i - step];
    return out;
  }

  // ---- shapes

  reshape(...sizes) {
    const shape = flatSizes(sizes);
    const open = shape.indexOf(-1);
    if (open >= 0) shape[open] = this.store.length / -product(shape);
    if (product(shape) !== this.store.length)
      raise('RuntimeError', `shape ${shape} is invalid for ${this.store.length} values`);
    return Tensor.made(this.store, shape, this.dtype, [this], g => [g.reshape(...this.sizes)]);
  }
  view(...sizes) {
    return this.reshape(...sizes);
  }
  flatten(...args) {
    const [[start = 0, end = -1], byName] = parsed(args);
    const [first, last] = [byName.start_dim ?? start, byName.end_dim ?? end].map(axis =>
      axisOf(axis, this.sizes.length),
    );
    return this.reshape(
      ...this.sizes.slice(0, first),
      product(this.sizes.slice(first, last + 1)),
      ...this.sizes.slice(last + 1),
    );
  }
  unflatten(dim, sizes) {
    const axis = axisOf(dim, this.sizes.length);
    const known = -product(sizes);
    const filled = [...sizes].map(size => (size === -1 ? this.sizes[axis] / known : size));
    return this.reshape(...this.sizes.slice(0, axis), ...filled, ...this.sizes.slice(axis + 1));
  }
  unsqueeze(dim) {
    const axis = axisOf(dim, this.sizes.length + 1);
    return this.reshape(...this.sizes.slice(0, axis), 1, ...this.sizes.slice(axis));
  }
  squeeze(dim = null) {
    const axis = dim === null ? null : axisOf(dim, this.sizes.length);
    return this.reshape(...this.sizes.filter((size, i) => size !== 1 || (axis !== null && i !== axis)));
  }
  permute(...dims) {
    const axes = flatSizes(dims).map(axis => axisOf(axis, this.sizes.length));
    const shape = axes.map(axis => this.sizes[axis]);
    const strides = axes.map(axis => stridesOf(this.sizes)[axis]);
    const out = this.empty(shape);
    const index = Array(shape.length).fill(0);
    for (let n = 0; n < out.store.length; n++) {
      out.store[n] = this.store[index.reduce((at, i, axis) => at + i * strides[axis], 0)];
      for (let axis = shape.length - 1; axis >= 0 && ++index[axis] === shape[axis]; axis--) index[axis] = 0;
    }
    const inverse = axes.map((_, i) => axes.indexOf(i));
    return Tensor.made(out.store, shape, this.dtype, [this], g => [g.permute(...inverse)]);
  }
  transpose(a, b) {
    const axes = [...this.sizes.keys()];
    const [first, second] = [axisOf(a, axes.length), axisOf(b, axes.length)];
    [axes[first], axes[second]] = [second, first];
    return this.permute(...axes);
  }
  get T() {
    return this.sizes.length < 2 ? this : this.transpose(0, 1);
  }
  get mT() {
    return this.transpose(-2, -1);
  }
  expand(...sizes) {
    const wanted = flatSizes(sizes);
    const shape = wanted.map((size, i) => (size === -1 ? this.sizes[this.sizes.length - wanted.length + i] : size));
    const at = places(this.sizes, shape);
    const out = this.empty(shape);
    for (let i = 0; i < at.length; i++) out.store[i] = this.store[at[i]];
    return Tensor.made(out.store, shape, this.dtype, [this], g => [shrunk(g, this.sizes)]);
  }
  expand_as(other) {
    return this.expand(other.sizes);
  }
  repeat_interleave(...args) {
    const [[count, second], { dim = second ?? 0 }] = parsed(args);
    return this.index_select(
      dim,
      [...Array(this.sizes[axisOf(dim, this.sizes.length)]).keys()].flatMap(i => Array(count).fill(i)),
    );
  }
  /** The entries at these indices along one axis. */
  index_select(dim, indices) {
    const axis = axisOf(dim, this.sizes.length);
    const list = indices instanceof Tensor ? [...indices.store] : indices;
    const [outer, inner] = [product(this.sizes.slice(0, axis)), product(this.sizes.slice(axis + 1))];
    const size = this.sizes[axis];
    const shape = this.sizes.with(axis, list.length);
    const isView = outer === 1 && list.every((index, i) => index === list[0] + i);
    const from = [];
    for (let o = 0; o < outer; o++)
      for (const i of list) for (let k = 0; k < inner; k++) from.push((o * size + (i < 0 ? i + size : i)) * inner + k);
    const data =
      isView && from.length
        ? this.store.subarray(from[0], from[0] + from.length)
        : STORES[this.dtype].from(from, at => this.store[at]);
    const back = g => {
      const grad = this.empty();
      for (let n = 0; n < from.length; n++) grad.store[from[n]] += g.store[n];
      return [grad];
    };
    return Tensor.made(data, shape, this.dtype, [this], back);
  }
  split(...args) {
    const [[sizes, second], { dim = second ?? 0 }] = parsed(args);
    const total = this.sizes[axisOf(dim, this.sizes.length)];
    const parts = Array.isArray(sizes)
      ? sizes
      : Array.from({ length: Math.ceil(total / sizes) }, (_, i) => Math.min(sizes, total - i * sizes));
    let start = 0;
    return tuple(
      parts.map(size => {
        start += size;
        return this.index_select(
          dim,
          Array.from({ length: size }, (_, i) => start - size + i),
        );
      }),
    );
  }
  chunk(...args) {
    const [[count, second], { dim = second ?? 0 }] = parsed(args);
    return this.split(Math.ceil(this.sizes[axisOf(dim, this.sizes.length)] / count), named({ dim }));
  }
  __getitem__(index) {
    const parts = Array.isArray(index) && index.constructor.name === 'Tuple' ? [...index] : [index];
    const used = parts.filter(part => part !== null && part !== Ellipsis).length;
    const at = parts.indexOf(Ellipsis);
    if (at >= 0) parts.splice(at, 1, ...Array(this.sizes.length - used).fill(ALL));
    let [out, axis] = [this, 0];
    for (const part of parts) {
      if (part === null) out = out.unsqueeze(axis++);
      else if (isSlice(part)) {
        if (part !== ALL) out = out.index_select(axis, part.indices(out.sizes[axis]));
        axis++;
      } else if (part instanceof Tensor && part.dtype === 'bool')
        out = out.index_select(
          axis,
          [...part.store.keys()].filter(i => part.store[i]),
        );
      else if (part instanceof Tensor && part.sizes.length)
        out = out.index_select(axis, part).unflatten(axis, part.sizes);
      else if (Array.isArray(part)) out = out.index_select(axis++, part);
      else out = out.select(axis, part);
    }
    return out;
  }
  select(axis, index) {
    const size = this.sizes[axis];
    const at = Number(index instanceof Tensor ? index.item() : index?.__index__ ? method(index, '__index__') : index);
    const own = at < 0 ? at + size : at;
    if (own < 0 || own >= size)
      raise('IndexError', `index ${at} is out of bounds for dimension ${axis} with size ${size}`);
    if (axis > 0) return this.index_select(axis, [own]).squeeze(axis);
    const inner = product(this.sizes.slice(1));
    const back = g => {
      const grad = this.empty();
      grad.store.set(g.store, own * inner);
      return [grad];
    };
    return Tensor.made(
      this.store.subarray(own * inner, (own + 1) * inner),
      this.sizes.slice(1),
      this.dtype,
      [this],
      back,
    );
  }
  __setitem__(index, value) {
    const places_ = new Tensor(Float64Array.from(this.store.keys()), this.sizes, 'int64').__getitem__(index);
    const from = value instanceof Tensor ? value.expand(places_.sizes).store : null;
    places_.store.forEach((at, i) => {
      this.store[at] = from ? from[i] : Number(value);
    });
  }
  gather(dim, index) {
    const axis = axisOf(dim, this.sizes.length);
    const [size, step] = [this.sizes[axis], stridesOf(this.sizes)[axis]];
    const inner = step;
    const from = [...index.store].map((i, n) => {
      const outer = Math.floor(n / (inner * index.sizes[axis]));
      return (outer * size + i) * inner + (n % inner);
    });
    const back = g => {
      const grad = this.empty();
      for (let n = 0; n < from.length; n++) grad.store[from[n]] += g.store[n];
      return [grad];
    };
    return Tensor.made(
      STORES[this.dtype].from(from, at => this.store[at]),
      [...index.sizes],
      this.dtype,
      [this],
      back,
    );
  }

  // ---- order

  sort(...args) {
    const [, { descending = false }] = parsed(args); // along the last axis
    const size = this.sizes.at(-1);
    const indices = this.empty(this.sizes, 'int64');
    const values = this.empty();
    for (let start = 0; start < this.store.length; start += size) {
      const row = this.store.subarray(start, start + size);
      const order = [...row.keys()].sort((i, j) => (descending ? row[j] - row[i] : row[i] - row[j]) || i - j);
      indices.store.set(order, start);
      values.store.set(
        order.map(i => row[i]),
        start,
      );
    }
    return pair(values, indices);
  }
  argsort(...args) {
    return this.sort(...args).indices;
  }
  topk(...args) {
    const [[k]] = parsed(args);
    const rows = this.reshape(-1, this.sizes.at(-1));
    const picked = [...rows].map(row => row.sort(named({ descending: true })));
    const shape = this.sizes.with(-1, k);
    const first = name => stack(picked.map(row => row[name].index_select(0, [...Array(k).keys()]))).reshape(...shape);
    return pair(first('values'), first('indices'));
  }
  view_as(other) {
    return this.reshape(...other.sizes);
  }
  diff() {
    return this.__getitem__(slice(1, null, null)).__sub__(this.__getitem__(slice(null, -1, null)));
  }
  /** The smallest value so far, along the first axis. */
  cummin() {
    const values = this.clone().detach();
    for (let i = 1; i < values.store.length; i++) values.store[i] = Math.min(values.store[i], values.store[i - 1]);
    return pair(values, null);
  }
  nonzero() {
    return new Tensor(
      Float64Array.from([...this.store.keys()].filter(i => this.store[i])),
      [this.store.reduce((n, v) => n + (v !== 0), 0), 1],
      'int64',
    );
  }

  // ---- types and values

  to(...args) {
    const [values, { dtype = values.map(value => value?.dtype ?? value).find(value => value in STORES) }] =
      parsed(args);
    if (dtype === undefined || dtype === this.dtype) return this;
    const from = dtype === 'bool' ? value => (value ? 1 : 0) : dtype === 'int64' ? Math.trunc : value => value;
    return Tensor.made(
      STORES[dtype].from(this.store, from),
      [...this.sizes],
      dtype,
      [this],
      isFloat(dtype) && isFloat(this.dtype) ? g => [g.to(this.dtype)] : null,
    );
  }
  double() {
    return this.to('float64');
  }
  float() {
    return this.to('float32');
  }
  long() {
    return this.to('int64');
  }
  bool() {
    return this.to('bool');
  }
  contiguous() {
    return this;
  }
  is_floating_point() {
    return isFloat(this.dtype);
  }
  clone() {
    return Tensor.made(this.store.slice(), [...this.sizes], this.dtype, [this], g => [g]);
  }
  detach() {
    return new Tensor(this.store, this.sizes, this.dtype);
  }
  item() {
    return this.dtype === 'bool' ? Boolean(this.store[0]) : this.store[0];
  }
  tolist() {
    const nested = (axis, start) => {
      if (axis === this.sizes.length) return this.dtype === 'bool' ? Boolean(this.store[start]) : this.store[start];
      const step = product(this.sizes.slice(axis + 1));
      return Array.from({ length: this.sizes[axis] }, (_, i) => nested(axis + 1, start + i * step));
    };
    return nested(0, 0);
  }
  numel() {
    return this.store.length;
  }
  dim() {
    return this.sizes.length;
  }
  element_size() {
    return 8;
  }
  __repr__() {
    return `tensor(${JSON.stringify(this.tolist())})`;
  }

  new_tensor(...args) {
    return torch.tensor(...args.slice(0, 1), named({ dtype: this.dtype, ...parsed(args)[1] }));
  }
  new_zeros(...sizes) {
    return this.empty(flatSizes(parsed(sizes)[0]));
  }

  // ---- changes in place

  $inPlace(name, other) {
    const out = this[`__${name === 'div' ? 'truediv' : name}__`](other);
    if (out.source) return out;
    this.store.set(out.store);
    return this;
  }
  fill_(value) {
    this.store.fill(Number(value instanceof Tensor ? value.item() : value));
    return this;
  }
  zero_() {
    return this.fill_(0);
  }
  copy_(other) {
    this.store.set(other.expand(this.sizes).store);
    return this;
  }
  add_(other, ...args) {
    const { alpha = 1 } = parsed(args)[1];
    return this.copy_(this.detach().__add__(alpha === 1 ? other : other.__mul__(alpha)));
  }
  lerp_(other, weight) {
    return this.copy_(this.detach().__add__(other.detach().__sub__(this.detach()).__mul__(weight)));
  }
  mul_(other) {
    return this.copy_(this.detach().__mul__(other));
  }
  masked_fill_(mask, value) {
    return this.copy_(this.detach().masked_fill(mask, value));
  }
  clamp_(...args) {
    return this.copy_(this.detach().clamp(...args));
  }
  requires_grad_(on = true) {
    this.requires_grad = on;
    return this;
  }

  // ---- gradients

  backward() {
    const grads = backward(this);
    for (const [tensor, grad] of grads) {
      if (tensor.source === null && tensor.requires_grad) tensor.grad = tensor.grad ? tensor.grad.__add__(grad) : grad;
    }
  }
  log_softmax(...args) {
    const [[first = -1], { dim = first }] = parsed(args);
    const shifted = this.__sub__(this.detach().amax(named({ dim, keepdim: true })));
    return shifted.__sub__(
      shifted
        .exp()
        .sum(named({ dim, keepdim: true }))
        .log(),
    );
  }
  softmax(...args) {
    const [[first = -1], { dim = first }] = parsed(args);
    const powers = this.__sub__(this.detach().amax(named({ dim, keepdim: true }))).exp();
    return powers.__truediv__(powers.sum(named({ dim, keepdim: true })));
  }
}
const ALL = slice(null, null, null);
const CPU = { type: 'cpu' };
Object.assign(Tensor.prototype, { device: CPU, is_cuda: false });

/** Combine two tensors entry by entry; `back` turns the gradient into those of both, which are then summed to size. */
function combine(a, b, f, dtype, back) {
  const wide =
    (NEXT[a.dtype] >= NEXT[b.dtype] && !(a.sizes.length === 0 && b.sizes.length && isFloat(b.dtype))) ||
    (b.sizes.length === 0 && isFloat(a.dtype))
      ? a.dtype
      : b.dtype;
  const kind = dtype ?? wide;
  const shape = joinedShape(a.sizes, b.sizes);
  const out = new Tensor(new STORES[kind](product(shape)), shape, kind);
  if (same(a.sizes, shape) && same(b.sizes, shape))
    for (let i = 0; i < out.store.length; i++) out.store[i] = f(a.store[i], b.store[i]);
  else {
    const [left, right] = [places(a.sizes, shape), places(b.sizes, shape)];
    for (let i = 0; i < out.store.length; i++) out.store[i] = f(a.store[left[i]], b.store[right[i]]);
  }
  if (!back) return out;
  return Tensor.made(out.store, shape, kind, [a, b], g =>
    back(g).map((grad, i) => grad && shrunk(grad, [a, b][i].sizes)),
  );
}
/** The sum over the axes along which a tensor of this shape was broadcast. */
function shrunk(grad, shape) {
  if (same(grad.sizes, shape)) return grad;
  const out = new Tensor(new STORES[grad.dtype](product(shape)), [...shape], grad.dtype);
  const at = places(shape, grad.sizes);
  for (let i = 0; i < at.length; i++) out.store[at[i]] += grad.store[i];
  return out;
}
function backward(start, given = null) {
  const order = [];
  const seen = new Set();
  const visit = tensor => {
    if (seen.has(tensor)) return;
    seen.add(tensor);
    for (const parent of tensor.source?.parents ?? []) visit(parent);
    order.push(tensor);
  };
  visit(start);
  const before = recording;
  recording = false;
  const grads = new Map([[start, given ?? start.empty().fill_(1)]]);
  for (const tensor of order.reverse()) {
    const grad = grads.get(tensor);
    if (!grad || !tensor.source) continue;
    tensor.source.back(grad).forEach((part, i) => {
      const parent = tensor.source.parents[i];
      if (part && parent.requires_grad) grads.set(parent, grads.has(parent) ? grads.get(parent).__add__(part) : part);
    });
  }
  recording = before;
  return grads;
}

// The error function to double precision: its series near 0, otherwise the continued fraction of its complement.
function erf(x) {
  const size = Math.abs(x);
  if (size > 6) return Math.sign(x);
  if (size < 3) {
    let [term, total] = [x, x];
    for (let n = 1; Math.abs(term) > 1e-18 * Math.abs(total) && n < 200; n++) {
      term *= (-x * x) / n;
      total += term / (2 * n + 1);
    }
    return (2 / Math.sqrt(Math.PI)) * total;
  }
  let fraction = 0;
  for (let n = 60; n > 0; n--) fraction = n / 2 / (size + fraction);
  return Math.sign(x) * (1 - Math.exp(-x * x) / (size + fraction) / Math.sqrt(Math.PI));
}

const deepest = value =>
  Array.isArray(value)
    ? [value.length, ...(value.length ? deepest(value[0]) : [])]
    : value instanceof Tensor
      ? value.sizes
      : [];
const leaves = value =>
  Array.isArray(value) ? value.flatMap(leaves) : value instanceof Tensor ? [...value.store] : [value];
function make(values, byName) {
  const flat = leaves(values);
  const kind =
    byName.dtype ??
    (flat.every(v => typeof v === 'boolean') && flat.length
      ? 'bool'
      : byName.whole && flat.every(Number.isInteger)
        ? 'int64'
        : 'float64');
  return new Tensor(STORES[kind].from(flat, Number), deepest(values), kind).requires_grad_(
    byName.requires_grad ?? false,
  );
}
const sized =
  fill =>
  (...args) => {
    const [sizes, { dtype = 'float32' }] = parsed(args);
    const shape = flatSizes(sizes);
    return new Tensor(new STORES[dtype](product(shape)).fill(fill), [...shape], dtype);
  };
const like =
  fill =>
  (tensor, ...args) =>
    tensor.empty(tensor.sizes, parsed(args)[1].dtype ?? tensor.dtype).fill_(fill ?? args[0]);
function cat(...args) {
  const [[list, second], { dim = second ?? 0 }] = parsed(args);
  const tensors = [...iter(list)];
  const axis = axisOf(dim, tensors[0].sizes.length);
  const shape = tensors[0].sizes.with(
    axis,
    tensors.reduce((n, tensor) => n + tensor.sizes[axis], 0),
  );
  const outer = product(shape.slice(0, axis));
  const dtype = tensors.map(tensor => tensor.dtype).reduce((a, b) => (NEXT[a] >= NEXT[b] ? a : b));
  const data = new STORES[dtype](product(shape));
  let at = 0;
  for (let o = 0; o < outer; o++) {
    for (const tensor of tensors) {
      const size = tensor.store.length / outer;
      data.set(tensor.store.subarray(o * size, (o + 1) * size), at);
      at += size;
    }
  }
  return Tensor.made(data, shape, dtype, tensors, g => [
    ...g.split(
      tensors.map(tensor => tensor.sizes[axis]),
      named({ dim: axis }),
    ),
  ]);
}
function stack(...args) {
  const [[list, second], { dim = second ?? 0 }] = parsed(args);
  const tensors = [...iter(list)];
  const axis = axisOf(dim, tensors[0].sizes.length + 1);
  return cat(
    tensors.map(tensor => tensor.unsqueeze(axis)),
    named({ dim: axis }),
  );
}
const unary =
  name =>
  (tensor, ...args) =>
    tensor[name](...args);
const quiet = {
  __enter__: () => (recording = false),
  __exit__: () => {
    recording = true;
    return false;
  },
};
const noGrad = () => {
  const before = recording;
  return {
    ...quiet,
    __exit__: () => {
      recording = before;
      return false;
    },
  };
};
const arange = (...args) => {
  const [bounds, { dtype = 'int64' }] = parsed(args);
  const [start, stop, step = 1] = bounds.length === 1 ? [0, bounds[0]] : bounds;
  const kind = bounds.every(Number.isInteger) ? dtype : dtype === 'int64' ? 'float32' : dtype;
  return new Tensor(
    STORES[kind].from({ length: Math.max(0, Math.ceil((stop - start) / step)) }, (_, i) => start + i * step),
    [Math.max(0, Math.ceil((stop - start) / step))],
    kind,
  );
};

export const torch = {
  cat,
  stack,
  arange,
  tensor: (...args) =>
    make(args[0], { whole: args[0] instanceof Tensor ? args[0].dtype === 'int64' : true, ...parsed(args)[1] }),
  as_tensor: value => (value instanceof Tensor ? value : make(value, { whole: true })),
  from_numpy: value => value,
  zeros: sized(0),
  ones: sized(1),
  full: (sizes, value, ...args) => sized(value)(sizes, ...args),
  zeros_like: like(0),
  ones_like: like(1),
  full_like: like(null),
  eye: (n, ...args) => torch.zeros(n, n, ...args).$fillDiagonal(),
  linspace: (start, end, steps, ...args) =>
    new Tensor(
      Float64Array.from({ length: steps }, (_, i) =>
        i < steps / 2
          ? start + (i * (end - start)) / (steps - 1)
          : end - ((steps - 1 - i) * (end - start)) / (steps - 1),
      ),
      [steps],
      parsed(args)[1].dtype ?? 'float32',
    ),
  where: (test, a, b) => {
    const like_ = a instanceof Tensor ? a : b instanceof Tensor ? b : new Tensor(Float64Array.of(0), []);
    const [yes, no] = [Tensor.wrap(a, like_), Tensor.wrap(b, like_)];
    const shape = joinedShape(joinedShape(yes.sizes, no.sizes), test.sizes);
    const [all, first, second] = [test, yes, no].map(tensor => tensor.expand(shape));
    const out = first.clone().detach();
    for (let i = 0; i < out.store.length; i++) if (!all.store[i]) out.store[i] = second.store[i];
    const mask = all.to(out.dtype);
    return Tensor.made(out.store, shape, out.dtype, [first, second], g => [
      g.__mul__(mask),
      g.__mul__(mask.map(v => 1 - v)),
    ]);
  },
  maximum: (a, b) => a.with(b, Math.max),
  equal: (a, b) => same(a.sizes, b.sizes) && a.store.every((value, i) => value === b.store[i]),
  isclose: (a, b, ...args) => {
    const { rtol = 1e-5, atol = 1e-8 } = parsed(args)[1];
    return a.with(b, (x, y) => (x === y || Math.abs(x - y) <= atol + rtol * Math.abs(y) ? 1 : 0), 'bool');
  },
  searchsorted: (...args) => {
    const [[sorted, values], { right = false }] = parsed(args);
    const rank = value => sorted.store.reduce((n, other) => n + (right ? other <= value : other < value), 0);
    return values instanceof Tensor
      ? values.map(rank, null, 'int64')
      : new Tensor(Float64Array.of(rank(values)), [], 'int64');
  },
  finfo: kind =>
    kind === 'float64'
      ? { eps: 2 ** -52, tiny: 2 ** -1022, max: Number.MAX_VALUE }
      : { eps: 2 ** -23, tiny: 2 ** -126, max: 3.4028234663852886e38 },
  float64: 'float64',
  float32: 'float32',
  float: 'float32',
  double: 'float64',
  int64: 'int64',
  long: 'int64',
  int: 'int64',
  bool: 'bool',
  inf: Number.POSITIVE_INFINITY,
  device: () => CPU,
  no_grad: noGrad,
  enable_grad: () => ({ __enter__: () => (recording = true), __exit__: () => false }),
  is_autocast_enabled: () => false,
  rnn_tanh: null,
  rnn_relu: null,
  lstm: null,
  gru: null,
  ...Object.fromEntries(
    ['argmax', 'argmin', 'exp', 'isfinite', 'relu', 'sigmoid', 'sin', 'softmax', 'tanh'].map(name => [
      name,
      unary(name),
    ]),
  ),
  autograd: {
    grad(...args) {
      const [[output, inputs]] = parsed(args);
      const wanted = inputs instanceof Tensor ? [inputs] : [...iter(inputs)];
      const grads = backward(output);
      return tuple(
        wanted.map(
          input =>
            grads.get(input) ??
            raise('RuntimeError', 'One of the differentiated Tensors appears to not have been used in the graph'),
        ),
      );
    },
    functional: {
      jacobian(f, x) {
        const input = x.detach().clone().requires_grad_();
        const output = call(f, input);
        const rows = [...output.store.keys()].map(i => {
          const one = output.empty();
          one.store[i] = 1;
          return backward(output, one).get(input) ?? input.empty();
        });
        return stack(rows).reshape(...output.sizes, ...input.sizes);
      },
    },
  },
  optim: {
    SGD: class {
      static $class = true;
      __init__(parameters, ...args) {
        this.parameters = [...iter(parameters)];
        this.rate = parsed(args)[1].lr;
      }
      zero_grad() {
        for (const parameter of this.parameters) parameter.grad = null;
      }
      step() {
        for (const parameter of this.parameters)
          if (parameter.grad) parameter.copy_(parameter.detach().__add__(parameter.grad.__mul__(-this.rate)));
      }
    },
  },
};
Tensor.prototype.$fillDiagonal = function () {
  for (let i = 0; i < this.sizes[0]; i++) this.store[i * (this.sizes[1] + 1)] = 1;
  return this;
};
