// How each part computes its numbers: the methods `terms` of the parts in translucid/parts and translucid/models that
// run in the page. tests/studio/test_local_terms.py compares every point with Python.
import { EPSILON } from './layers.js';
import { apply, concatenated, constant, dot } from './computation.js';

/** @type {Record<string, string>} */
const CELL = { preactivation: '', forget_sum: '_f', input_sum: '_i', candidate_sum: '_g', output_sum: '_o' };
const BLOCKS = ['_i', '_f', '_g', '_o']; // the order of an LSTM's weights

// The expression of one value of a softmax over a row of scores.
/** @type {(at: LocalPart, point: string, index: number[], scores: Terms) => Term} */
function softmax(at, point, index, scores) {
  if (point === 'shift') return at.all.maximum(scores);
  const row = index.slice(0, -1);
  if (point === 'exponentials')
    return apply('exp', apply('-', scores.at(index[row.length]), at.number('shift', ...index)));
  if (point === 'normaliser') return at.all.total([at.vector('exponentials', ...row, null)]);
  return apply('/', at.number('exponentials', ...index), at.number('normaliser', ...index));
}
/** @type {(x: Terms) => Term} */
const count = x => constant('n', x.values.length);

/** @type {(at: LocalPart, point: string, index: number[]) => Term} */
function attention(at, point, index) {
  const { all, scope, config } = at;
  const cross = scope.endsWith('cross_attention');
  const [, head, query, key] = index;
  const size = config.d_model / config.heads;
  const [, turned, projected] = /^(rotated_)?(query|key|value)$/.exec(point) ?? [];
  if (turned) {
    const [even, odd] = [0, 1].map(n => at.number(projected, 0, head, query, 2 * Math.floor(key / 2) + n));
    const angle = all.number('angles', `${at.side}.positions.angles`, 0, query, Math.floor(key / 2));
    const [cos, sin] = [apply('cos', angle), apply('sin', angle)];
    if (key % 2) return apply('+', apply('·', sin, even), apply('·', cos, odd));
    return apply('-', apply('·', cos, even), apply('·', sin, odd));
  }
  if (projected) {
    const letter = projected[0].toUpperCase();
    const outside = cross && projected !== 'query'; // keys and values of the encoder
    const [layer, block] = !cross
      ? ['qkv', ['query', 'key', 'value'].indexOf(projected)]
      : [outside ? 'kv' : 'query', projected === 'value' ? 1 : 0];
    const x = outside
      ? all.vector('encoder_output', at.outputOf('encoder'), 0, query, null)
      : at.inputs(0, query, null);
    return at.linear(layer, (block * config.heads + head) * size + key, x, `W_${letter}`, `b_${letter}`);
  }
  switch (point) {
    case 'scale':
      return apply('/', constant('1', 1), apply('sqrt', constant('d_head', size)));
    case 'scores': {
      const [q, k] = cross ? ['query', 'key'] : ['rotated_query', 'rotated_key'];
      return all.total([dot(at.vector(q, 0, head, query, null), at.vector(k, 0, head, key, null))]);
    }
    case 'scaled':
      return apply('·', at.number('scale'), at.number('scores', ...index));
    case 'mask': {
      const causal = `${at.side}.masks.causal`;
      return cross || !all.has(causal) ? constant('1', 1) : all.number('causal', causal, 0, 0, query, key);
    }
    case 'masked':
      return apply('where', at.number('mask', ...index), at.number('scaled', ...index));
    case 'mixed':
      return all.total([dot(at.vector('pattern', 0, head, query, null), at.vector('value', 0, head, null, key))]);
    case 'output': {
      const mixed = Array.from({ length: config.heads }, (_, n) => at.vector('mixed', 0, n, index[1], null));
      return at.linear('output', index[2], concatenated(...mixed), 'W_O', 'b_O');
    }
    default:
      return softmax(at, point, index, at.vector('masked', 0, head, query, null));
  }
}
/** @type {(at: LocalPart, point: string, index: number[]) => Term} */
function norm(at, point, index) {
  const [, place, d] = index;
  if (point === 'output')
    return apply(
      '+',
      apply('·', at.weight('gain', 'gain', d), at.number('normalised', ...index)),
      at.weight('beta', 'shift', d),
    );
  if (point === 'normalised') {
    const variance = apply('+', at.number('variance', ...index), constant('epsilon', EPSILON));
    return apply('/', apply('-', at.input(...index), at.number('mean', ...index)), apply('sqrt', variance));
  }
  const x = at.inputs(0, place, null);
  if (point === 'mean') return apply('/', at.all.total([x]), count(x));
  const average = x.values.reduce((sum, value) => sum + value, 0) / x.values.length;
  const mean = at.number('mean', ...index);
  /** @type {Terms} */
  const squares = {
    values: x.values.map(value => (value - average) ** 2),
    at: i => apply('^', apply('-', x.at(i), mean), constant('2', 2)),
  };
  return apply('/', at.all.total([squares]), count(x));
}
// A cell of a recurrent layer.
/** @type {(at: LocalPart, point: string, index: number[]) => Term} */
function recurrentCell(at, point, index) {
  const { all, scope, config } = at;
  const [, place, d] = index;
  const stack = `${at.side}.recurrent`;
  const layer = Number(scope.split('.layers.')[1].split('.')[0]);
  const backward = scope.includes('.backward.');
  const hidden = all.run.get(`${scope}.hidden`).width;
  /** @type {(state: string, label: string) => Terms} */
  const before = (state, label) => {
    const last = place + (backward ? 1 : -1);
    if (last >= 0 && last < all.run.get(`${scope}.${state}`).shape[1])
      return all.vector(label, `${scope}.${state}`, 0, last, null);
    const bridge = `${at.side}.bridge.${state}`;
    return all.has(bridge) ? all.vector(label, bridge, 0, null) : all.zeros(label, hidden);
  };
  if (point in CELL) {
    const letter = CELL[point];
    const row = Math.max(0, BLOCKS.indexOf(letter)) * hidden + d;
    const end = `l${layer}${backward ? '_reverse' : ''}`;
    /** @type {(name: string) => string} */
    const fused = name => `${stack}.fused.${name}_${end}`;
    const x = layer ? at.statesAt(layer - 1, place, 'x') : all.vector('x', at.embedded, 0, place, null);
    return all.total(
      [
        dot(all.vector(`W${letter}`, fused('weight_ih'), row, null), x),
        dot(all.vector(`U${letter}`, fused('weight_hh'), row, null), before('hidden', 'h_before')),
      ],
      all.number(`b${letter}`, fused('bias_ih'), row),
      all.number(`b${letter}`, fused('bias_hh'), row),
    );
  }
  /** @type {(name: string) => LocalNumber} */
  const own = name => at.number(name, ...index);
  if (point === 'hidden' && config.cell === 'rnn') return apply('tanh', own('preactivation'));
  if (point === 'hidden') return apply('·', own('output_gate'), apply('tanh', own('cell')));
  if (point === 'candidate') return apply('tanh', own('candidate_sum'));
  if (point === 'cell') {
    const old = apply('·', own('forget_gate'), before('cell', 'c_before').at(d));
    return apply('+', old, apply('·', own('input_gate'), own('candidate')));
  }
  return apply('sigmoid', own(point.replace('_gate', '_sum')));
}
/** @type {(at: LocalPart, point: string, index: number[]) => Term} */
function alignment(at, point, index) {
  const { all } = at;
  const [, query, key] = index;
  const source = at.outputOf('encoder');
  /** @type {() => Terms} */
  const hidden = () => all.vector('hidden', at.reads, 0, query, null);
  switch (point) {
    case 'key':
      return at.linear('key', key, all.vector('encoder_output', source, 0, query, null), 'W_k');
    case 'query':
      return at.linear('query', key, hidden(), 'W_q', 'b_q');
    case 'scores': {
      const [q, k] = [at.vector('query', 0, query, null), at.vector('key', 0, key, null)];
      const v = all.vector('v', `${at.scope}.energy.weight`, 0, null);
      /** @type {Terms} */
      const products = {
        values: v.values.map((value, d) => value * Math.tanh(q.values[d] + k.values[d])),
        at: d => apply('·', v.at(d), apply('tanh', apply('+', q.at(d), k.at(d)))),
      };
      return all.total([products]);
    }
    case 'context':
      return all.total([dot(at.vector('pattern', 0, query, null), all.vector('encoder_output', source, 0, null, key))]);
    case 'output':
      return apply('tanh', at.linear('output', key, concatenated(at.vector('context', 0, query, null), hidden())));
    default:
      return softmax(at, point, index, at.vector('scores', 0, query, null));
  }
}
// By part, the last word of a scope.
/** @type {Record<string, (at: LocalPart, point: string, index: number[]) => Term>} */
export const PARTS = {
  attention,
  norm,
  alignment,
  lstm: recurrentCell,
  rnn: recurrentCell,
  embedding(at, point, index) {
    if (point === 'scaled')
      return apply('·', apply('sqrt', constant('d_model', at.config.d_model)), at.number('lookup', ...index));
    const token = at.all.number('ids', at.ids, 0, index[1]);
    return apply('table', at.weight('table', 'table.weight', token.value, index[2]), token);
  },
  positions(at, _, [, place, pair]) {
    const power = constant('2i/d', (2 * pair) / (at.config.d_model / at.config.heads));
    return apply('/', constant('p', place), apply('^', constant('base', at.config.rotary_base), power));
  },
  masks: (_, __, [, , query, key]) => apply('<=', constant('k', key), constant('q', query)),
  residual(at, point, index) {
    if (point === 'skip') return at.input(...index);
    const sublayer = at.scope.replace(/_residual$/, '');
    if (point === 'branch') return at.all.number('f', `${sublayer}.output`, ...index);
    return apply('+', at.number('skip', ...index), at.number('branch', ...index));
  },
  feedforward(at, point, index) {
    const [, place, d] = index;
    if (point === 'hidden') return at.linear('expand', d, at.inputs(0, place, null), 'W_1', 'b_1');
    if (point === 'activated') return apply(at.config.activation, at.number('hidden', ...index));
    return at.linear('output', d, at.vector('activated', 0, place, null), 'W_2', 'b_2');
  },
  recurrent: (at, _, [, place, d]) => at.statesAt(at.config.layers - 1, place, 'h').at(d),
  bridge(at, point, [, d]) {
    const total = at.linear(point, d, at.lastStates(point, point[0]), `W_${point[0]}`, `b_${point[0]}`);
    return point === 'cell' ? total : apply('tanh', total);
  },
  head(at, point, index) {
    if (point === 'pooled') return at.lastStates('hidden', 'h').at(index[1]);
    if (point === 'class_logits') return at.linear('linear', index[1], at.vector('pooled', 0, null));
    return at.linear('linear', index[2], at.inputs(0, index[1], null));
  },
  standardise(at, _, index) {
    const [mean, deviation] = ['mean', 'deviation'].map(name => at.weight(name, name, index[1]));
    return apply('/', apply('-', at.input(...index), mean), deviation);
  },
  dense(at, point, index) {
    const layer = at.scope.replace(/\.dense$/, '');
    const activation = at.side === 'output' ? 'identity' : at.config.activation;
    if (point === 'activation') return apply(activation, at.number('preactivation', ...index));
    return at.all.linear(`${layer}.linear`, index[1], at.inputs(0, null));
  },
  perceptron(at, point, index) {
    if (point === 'output') return apply('>', at.number('sum', ...index), constant('0', 0));
    const product = dot(at.all.vector('w', 'weight', null), at.all.vector('x', 'x', 0, null));
    return at.all.total([product], at.all.number('b', 'bias'));
  },
};
