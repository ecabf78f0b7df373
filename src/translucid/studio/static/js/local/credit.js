// What the parts of a Transformer add to a logit, and what it would predict after each layer; as studio/credit.py.
import { top } from './beam.js';
import { EPSILON, layerNorm } from './layers.js';
import { softmaxOf } from './run.js';
import { position as rowOf, timesTransposed } from './tensor.js';
import { SILENT } from './trace.js';

/** @type {(a: Values, b: Values) => number} */
export function dot(a, b) {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i] * b[i];
  return sum;
}

// The stack that the output head reads, and the head. what: for the error.
/** @type {(run: LocalRun, what: string) => Readout} */
function readoutOf(run, what) {
  const { readout } = run.opened.model.network;
  if (!readout)
    throw new Error(`${what} only for Transformers with an output at each position (translate, language, tag)`);
  return readout;
}
/** @type {(run: LocalRun, n: number) => void} */
function checkPosition(run, n) {
  const count = run.rows(run.logits).length;
  if (n >= count) throw new Error(`position: must be between 0 and ${count - 1}, not ${n}`);
}

// ---- contributions

// The logit at a position as a sum over the embedding, heads and feed-forward layers. The direction in the residual
// stream that determines the logit is followed back from the final norm.
/** @type {(run: LocalRun, n: number, output: number) => Contributions} */
export function contributions(run, n, output) {
  const { side, table, bias, weights } = readoutOf(run, 'contributions are defined');
  const { d_model: d, heads, layers, decoder_layers: own } = run.opened.model.config;
  checkPosition(run, n);
  const [rows] = table.shape;
  if (output >= rows) throw new Error(`output: must be between 0 and ${rows - 1}, not ${output}`);
  /** @type {(point: string) => Values} */
  const at = point => rowOf(run.get(`${side}.${point}`), n).values;
  const head = Float64Array.from(table.values.subarray(output * d, (output + 1) * d));
  const norm = weights.at(`${side}.final_norm`);
  const [gain, shift] = ['gain', 'shift'].map(name => norm.get(name, [d]).values);
  const scale = Math.sqrt(at('final_norm.variance')[0] + EPSILON);
  const scaled = head.map((value, i) => (gain[i] * value) / scale);
  const mean = scaled.reduce((a, b) => a + b, 0) / d;
  const direction = scaled.map(value => value - mean); // centring is symmetric
  let remainder = dot(head, shift) + (bias ? bias.values[output] : 0);
  /** @type {Contributions['parts']} */
  const parts = [];
  /** @type {Contributions['by_token']} */
  const byToken = {};
  /** @type {(part: string, values: Values) => void} */
  const addVector = (part, values) =>
    void parts.push({ part: `${side}.${part}`, head: null, value: dot(direction, values) });
  /** @type {(part: string) => void} */
  function addHeads(part) {
    const project = weights.at(`${side}.${part}.output`);
    const w = project.get('weight', [d, d]).values;
    const wanted = Float64Array.from({ length: d }, (_, j) =>
      direction.reduce((sum, value, i) => sum + value * w[i * d + j], 0),
    );
    remainder += dot(direction, project.get('bias', [d]).values);
    const [pattern, values] = ['pattern', 'value'].map(name => run.get(`${side}.${part}.${name}`));
    const [, , queries, keys] = pattern.shape;
    const size = d / heads;
    const looked = part.endsWith('cross_attention') || side === 'encoder' ? 'source' : 'target';
    const sums = byToken[looked] ?? new Array(keys).fill(0);
    byToken[looked] = sums;
    for (let h = 0; h < heads; h++) {
      let value = 0;
      for (let k = 0; k < keys; k++) {
        const from = (h * keys + k) * size;
        const served = dot(wanted.subarray(h * size, (h + 1) * size), values.values.subarray(from, from + size));
        const added = pattern.values[(h * queries + n) * keys + k] * served;
        sums[k] += added;
        value += added;
      }
      parts.push({ part: `${side}.${part}`, head: h, value });
    }
  }
  addVector('embedding', at('layers.0.self_attention_residual.skip'));
  const count = side === 'decoder' ? (own ?? layers) : layers;
  for (let layer = 0; layer < count; layer++) {
    addHeads(`layers.${layer}.self_attention`);
    if (run.trace.met.has(`${side}.layers.${layer}.cross_attention.pattern`))
      addHeads(`layers.${layer}.cross_attention`);
    addVector(`layers.${layer}.feedforward`, at(`layers.${layer}.feedforward.output`));
  }
  const logit = run.rows(run.logits)[n][output];
  const total = parts.reduce((sum, { value }) => sum + value, remainder);
  return {
    position: n,
    output,
    logit,
    word: run.name(output),
    parts,
    by_token: byToken,
    remainder,
    rounding: logit - total,
  };
}

// ---- the logit lens

// The prediction at a position if the model stopped after each layer.
/** @type {(run: LocalRun, n: number) => Lens} */
export function lens(run, n) {
  const { side, table, bias, weights } = readoutOf(run, 'the logit lens is defined');
  checkPosition(run, n);
  const norm = layerNorm(weights.at(`${side}.final_norm`), table.width, EPSILON);
  const streams = run.trace
    .names()
    .filter(name => new RegExp(`^${side}\\.layers\\.\\d+\\.feedforward_residual\\.sum$`).test(name));
  const best = [`${side}.layers.0.self_attention_residual.skip`, ...streams].map(name => {
    const { values } = timesTransposed(norm(rowOf(run.get(name), n), SILENT), table, bias);
    const [id] = top(values, 1);
    return { id, probability: softmaxOf(values)[id] };
  });
  return {
    position: n,
    after: best.map((_, i) => (i ? `layer ${i - 1}` : 'embedding')),
    words: best.map(({ id }) => run.name(id)),
    probabilities: best.map(({ probability }) => probability),
    right: best.flatMap(({ id }, i) => (id === run.example.targets[n] ? [i] : [])),
  };
}
