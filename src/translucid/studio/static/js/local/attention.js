// Attention, as parts/attention.py: each query gets a mean of the values, weighted by how well its key matches the
// query. With rotary positions, as Rotary in parts/positions.py.
import { linear, softmax } from './layers.js';
import { Tensor, columns, joined, map, record, sideBySide, split, times, timesTransposed, zip } from './tensor.js';

// The angle by which each pair of dimensions is rotated: p / base^(2i/d).
/** @type {(positions: number[], d: number, base: number) => Tensor} */
export function rotaryAngles(positions, d, base) {
  const angles = new Float64Array((positions.length * d) / 2);
  for (let i = 0; i < angles.length; i++) {
    const pair = i % (d / 2);
    angles[i] = positions[Math.floor(i / (d / 2))] * base ** -((2 * pair) / d);
  }
  return new Tensor([1, positions.length, d / 2], angles);
}
// Rotate each pair (2i, 2i+1) of x (1, heads, positions, d) by its angle.
/** @type {(x: Tensor, angles: Tensor) => Tensor} */
function turn(x, angles) {
  const y = new Tensor(x.shape);
  const pairs = angles.values.length;
  for (let pair = 0; 2 * pair < y.values.length; pair++) {
    const angle = angles.values[pair % pairs];
    const [cos, sin] = [Math.cos(angle), Math.sin(angle)];
    const [even, odd] = [x.values[2 * pair], x.values[2 * pair + 1]];
    y.values[2 * pair] = even * cos - odd * sin;
    y.values[2 * pair + 1] = even * sin + odd * cos;
  }
  return record(y, (dy, gradientOf) => {
    const dx = gradientOf(x);
    const back = new Tensor(
      angles.shape,
      angles.values.map(angle => -angle),
    );
    turn(new Tensor(x.shape, dy), back).values.forEach((value, i) => {
      dx[i] += value;
    });
  });
}

// Which keys each query sees: 1 or 0 (1, 1, queries, keys). The last query is at the last key.
/** @type {(queries: number, keys: number) => Tensor} */
export function causalMask(queries, keys) {
  const mask = new Tensor([1, 1, queries, keys]);
  for (let q = 0; q < queries; q++) mask.values.fill(1, q * keys, q * keys + keys - queries + q + 1);
  return mask;
}

// softmax(q kᵀ / sqrt(d)) v. mask: null if every query sees every key.
/** @type {(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | null, trace: Scope) => Tensor} */
function attend(q, k, v, mask, trace) {
  const scores = trace('scores', timesTransposed(q, k)); // (1, heads, queries, keys)
  const scale = trace('scale', new Tensor([], new Float32Array([1 / Math.sqrt(q.width)]))).values[0];
  const scaled = trace(
    'scaled',
    map(scores, value => value * scale),
  );
  const seen = new Tensor(
    scores.shape,
    scores.values.map((_, i) => (mask ? mask.values[i % mask.values.length] : 1)),
  );
  const masked = trace(
    'masked',
    zip(scaled, trace('mask', seen), (value, sees) => (sees ? value : -Infinity)),
  );
  return times(trace('pattern', softmax(masked, trace)), v);
}

// Queries, keys and values from the same positions, added to the keys and values of earlier positions.
/** @type {(weights: ModelWeights, d: number, heads: number) => SelfAttention} */
export function selfAttention(weights, d, heads) {
  const qkv = linear(weights.at('qkv'), d, 3 * d);
  const output = linear(weights.at('output'), d, d);
  return (x, { mask, angles }, past, trace) => {
    const all = qkv(x);
    const [query, key, value] = ['query', 'key', 'value'].map((name, i) =>
      trace(name, split(columns(all, i * d, (i + 1) * d), heads)),
    );
    const q = trace('rotated_query', turn(query, angles));
    const k = trace('rotated_key', turn(key, angles));
    const keys = past ? joined([past.keys, k], 2) : k;
    const values = past ? joined([past.values, value], 2) : value;
    const mixed = trace('mixed', attend(q, keys, values, mask, trace));
    return { y: trace('output', output(sideBySide(mixed))), past: { keys, values } };
  };
}

// Queries from the decoder; keys and values from the encoder's output, which `project` computes once for all steps.
/** @type {(weights: ModelWeights, d: number, heads: number) => CrossAttention} */
export function crossAttention(weights, d, heads) {
  const query = linear(weights.at('query'), d, d);
  const kv = linear(weights.at('kv'), d, 2 * d);
  const output = linear(weights.at('output'), d, d);
  return {
    project(encoded) {
      const both = kv(encoded);
      return { keys: split(columns(both, 0, d), heads), values: split(columns(both, d, 2 * d), heads) };
    },
    forward(x, { keys, values }, trace) {
      const q = trace('query', split(query(x), heads));
      const mixed = attend(q, trace('key', keys), trace('value', values), null, trace);
      return trace('output', output(sideBySide(trace('mixed', mixed))));
    },
  };
}
