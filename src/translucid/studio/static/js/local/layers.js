// The layers that act on each position separately: linear, embedding, norm, residual connection, feed-forward. Each
// function reads a layer's weights and returns its forward pass. Names and formulas as in translucid/parts/*.py.
import { Tensor, add, map, record, reduce, timesTransposed, zip } from './tensor.js';

/** @type {Record<string, (x: number) => number>} */
export const ACTIVATIONS = {
  identity: x => x,
  relu: x => Math.max(0, x),
  sigmoid: x => 1 / (1 + Math.exp(-x)),
  tanh: Math.tanh,
};

// W x + b.
/** @type {(weights: ModelWeights, inputs: number, outputs: number, bias?: boolean) => (x: Tensor) => Tensor} */
export function linear(weights, inputs, outputs, bias = true) {
  const w = weights.get('weight', [outputs, inputs]);
  const b = bias ? weights.get('bias', [outputs]) : null;
  return x => timesTransposed(x, w, b);
}

// One trained row per id, times a factor. The table is also that of a tied head.
/** @type {(weights: ModelWeights, vocab: number, d: number, factor: number) => Embedding} */
export function embedding(weights, vocab, d, factor) {
  const table = weights.get('table.weight', [vocab, d]);
  /** @type {(ids: number[], trace: Scope) => Tensor} */
  function forward(ids, trace) {
    const x = new Tensor([1, ids.length, d]);
    ids.forEach((id, place) => {
      if (!Number.isInteger(id) || id < 0 || id >= vocab)
        throw new Error(`the id ${id} is out of range: ids are 0 to ${vocab - 1}`);
      x.values.set(table.values.subarray(id * d, (id + 1) * d), place * d);
    });
    const found = trace('lookup', x);
    return factor === 1
      ? found
      : trace(
          'scaled',
          map(found, value => value * factor),
        );
  }
  return { table, forward };
}

/** @type {(sum: number, value: number) => number} */
const plus = (sum, value) => sum + value;
/** @type {(x: Tensor) => Tensor} */
const meanOf = x => map(reduce(x, plus, 0), sum => sum / x.width);

export const EPSILON = 1e-5; // of norms
// (x - mean) / sqrt(variance + eps) * gain + shift, over the features of each token.
/** @type {(weights: ModelWeights, d: number, eps: number) => Layer} */
export function layerNorm(weights, d, eps) {
  const gain = weights.get('gain', [d]);
  const shift = weights.get('shift', [d]);
  return (x, trace) => {
    const mean = trace('mean', meanOf(x)); // (1, positions, 1)
    const centred = zip(x, mean, (value, m) => value - m);
    const variance = trace('variance', meanOf(map(centred, value => value * value)));
    const scaled = zip(centred, variance, (value, v) => value / Math.sqrt(v + eps));
    const normalised = trace('normalised', scaled);
    const y = normalised.values.map((value, i) => value * gain.values[i % d] + shift.values[i % d]);
    const output = record(new Tensor(normalised.shape, y), (dy, gradientOf) => {
      const dx = gradientOf(normalised);
      for (let i = 0; i < dy.length; i++) dx[i] += dy[i] * gain.values[i % d];
    });
    return trace('output', output);
  };
}

// The residual connection of a sub-layer f: x + f(norm(x)).
/** @type {(norm: Layer) => Residual} */
export const residual = norm => ({
  enter: (x, trace) => norm(x, trace.at('norm')),
  leave: (x, branch, trace) => trace('sum', add(trace('skip', x), trace('branch', branch))),
});

// W₂ act(W₁ x + b₁) + b₂ at every position.
/** @type {(weights: ModelWeights, d: number, dFf: number, activation: string) => Layer} */
export function feedForward(weights, d, dFf, activation) {
  const expand = linear(weights.at('expand'), d, dFf);
  const output = linear(weights.at('output'), dFf, d);
  return (x, trace) => {
    const hidden = trace('hidden', expand(x));
    return trace('output', output(trace('activated', map(hidden, ACTIVATIONS[activation]))));
  };
}

// act(W x + b).
/** @type {(weights: ModelWeights, inputs: number, outputs: number, activation?: string) => Layer} */
export function dense(weights, inputs, outputs, activation = 'identity') {
  const whole = linear(weights.at('linear'), inputs, outputs);
  return (x, trace) => trace('activation', map(trace('preactivation', whole(x)), ACTIVATIONS[activation]));
}

// e^x / Σ e^x along the last axis; a row in which every entry is -Infinity gives zeros.
/** @type {(x: Tensor, trace: Scope) => Tensor} */
export function softmax(x, trace) {
  const largest = reduce(x, Math.max, -Infinity);
  const shift = trace(
    'shift',
    map(largest, value => (value === -Infinity ? 0 : value)),
  );
  const exponentials = trace(
    'exponentials',
    zip(x, shift, (value, most) => Math.exp(value - most)),
  );
  const normaliser = trace('normaliser', reduce(exponentials, plus, 0));
  return zip(exponentials, normaliser, (value, sum) => value / (sum || 1));
}
