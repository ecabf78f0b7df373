// Recurrent layers, one step at a time, with every gate in the trace; attention of a recurrent decoder to its source.
// As parts/recurrent.py, recurrent_cells.py and alignment.py.
import { ACTIVATIONS, linear, softmax } from './layers.js';
import {
  Tensor,
  add,
  chunks,
  joined,
  map,
  multiply,
  position,
  record,
  stacked,
  times,
  timesTransposed,
} from './tensor.js';

const { sigmoid } = ACTIVATIONS;

// The sum W x + U h + b + b' of each step, and the new state that follows from it.
/** @type {Record<string, { blocks: number; step(total: Tensor, state: CellState, trace: Scope): CellState }>} */
const CELLS = {
  // h' = tanh(W x + U h + b)
  rnn: {
    blocks: 1,
    step: (total, _, trace) => ({ hidden: trace('hidden', map(trace('preactivation', total), Math.tanh)) }),
  },
  // f, i, o = σ(W x + U h + b); g = tanh(W x + U h + b); c' = f ⊙ c + i ⊙ g; h' = o ⊙ tanh(c')
  lstm: {
    blocks: 4,
    step(total, state, trace) {
      const [inputSum, forgetSum, candidateSum, outputSum] = chunks(total, 4);
      const forget = trace('forget_gate', map(trace('forget_sum', forgetSum), sigmoid));
      const write = trace('input_gate', map(trace('input_sum', inputSum), sigmoid));
      const candidate = trace('candidate', map(trace('candidate_sum', candidateSum), Math.tanh));
      const show = trace('output_gate', map(trace('output_sum', outputSum), sigmoid));
      const kept = multiply(forget, state.cell ?? new Tensor(forget.shape));
      const cell = trace('cell', add(kept, multiply(write, candidate)));
      return { hidden: trace('hidden', multiply(show, map(cell, Math.tanh))), cell };
    },
  },
};

// One layer in one direction: (1, positions, inputs) to (1, positions, hidden), and the state after the last step.
/** @type {(weights: ModelWeights, sizes: RecurrentSizes, n: number, backward: boolean) => RecurrentLayer} */
function layer(weights, { cell, inputs, hidden, bidirectional }, n, backward) {
  const { blocks, step } = CELLS[cell];
  const rows = blocks * hidden;
  const from = n ? hidden * (bidirectional ? 2 : 1) : inputs;
  const end = `l${n}${backward ? '_reverse' : ''}`;
  const [w, b] = [weights.get(`weight_ih_${end}`, [rows, from]), weights.get(`bias_ih_${end}`, [rows])];
  const [u, b2] = [weights.get(`weight_hh_${end}`, [rows, hidden]), weights.get(`bias_hh_${end}`, [rows])];
  return (x, first, trace) => {
    let state = first ?? { hidden: new Tensor([1, hidden]) };
    const outputs = Array.from({ length: x.rows }, () => state.hidden);
    const sums = timesTransposed(x, w, b);
    for (let i = 0; i < x.rows; i++) {
      const t = backward ? x.rows - 1 - i : i;
      const total = add(position(sums, t), timesTransposed(state.hidden, u, b2));
      state = step(total, state, trace.step(t));
      outputs[t] = state.hidden;
    }
    return { outputs: stacked(outputs), state };
  };
}

// A stack of layers, in one or both directions. A state is a list: of each layer, the states of its directions.
/** @type {(weights: ModelWeights, sizes: RecurrentSizes) => RecurrentStack} */
export function recurrent(weights, sizes) {
  const { cell, layers, bidirectional } = sizes;
  const directions = bidirectional ? ['forward', 'backward'] : ['forward'];
  const all = Array.from({ length: layers }, (_, n) =>
    directions.map(way => ({
      run: layer(weights.at('fused'), sizes, n, way === 'backward'),
      scope: `layers.${n}.${bidirectional ? `${way}.` : ''}${cell}`,
    })),
  );
  return (ids, first, trace) => {
    let x = ids;
    const state = all.map((ways, n) => {
      const ran = ways.map(({ run, scope }, way) => run(x, first?.[n][way], trace.at(scope)));
      x = joined(
        ran.map(({ outputs }) => outputs),
        -1,
      );
      return ran.map(({ state: last }) => last);
    });
    return { outputs: trace('output', x), state };
  };
}

// Attention to the source: score = vᵀ tanh(W h + U m); context = Σ pattern · m; output = tanh(W [context; hidden]).
/** @type {(weights: ModelWeights, d: number, dEncoder: number) => Alignment} */
export function additiveAlignment(weights, d, dEncoder) {
  const key = linear(weights.at('key'), dEncoder, d, false);
  const query = linear(weights.at('query'), d, d);
  const energy = linear(weights.at('energy'), d, 1, false);
  const output = linear(weights.at('output'), dEncoder + d, d);
  return {
    project: encoded => ({ keys: key(encoded), values: encoded }),
    forward(hidden, { keys, values }, trace) {
      const asked = trace('query', query(hidden));
      const matched = trace('key', keys);
      const sums = new Tensor([asked.rows, matched.rows, d]);
      for (let i = 0, at = 0; i < asked.rows; i++)
        for (let j = 0; j < matched.values.length; j++, at++)
          sums.values[at] = Math.tanh(asked.values[i * d + (j % d)] + matched.values[j]);
      record(sums, (dy, gradientOf) => {
        const [dAsked, dMatched] = [gradientOf(asked), gradientOf(matched)];
        for (let at = 0; at < dy.length; at++) {
          const inside = dy[at] * (1 - sums.values[at] ** 2);
          const j = at % matched.values.length;
          dAsked[Math.floor(at / matched.values.length) * d + (j % d)] += inside;
          dMatched[j] += inside;
        }
      });
      const scores = trace('scores', new Tensor([1, asked.rows, matched.rows], energy(sums).values));
      const context = trace('context', times(trace('pattern', softmax(scores, trace)), values));
      return trace('output', map(output(joined([context, hidden], -1)), Math.tanh));
    },
  };
}
