// Answers about a run other than its tensors: the likeliest tokens at a step, and how much two outputs differ; as
// studio/answers.py.
import { logSoftmax, top } from './beam.js';
import { softmaxOf } from './run.js';
import { kindsOfAttention } from './tables.js';

const MOST_LIKELY = 2 ** 14; // tokens in one answer, over all positions
const MANY = 32; // numeric outputs to list

/** @type {(positions: number[] | null, count: number, k: number) => number[]} */
function chosen(positions, count, k) {
  const [from, to] = positions ?? [0, count];
  if (!(from >= 0 && from < to && to <= count))
    throw new Error(`positions: must be from 0 to ${count - 1}, not ${from}:${to}`);
  if ((to - from) * k > MOST_LIKELY)
    throw new Error(`k: ${k} tokens at ${to - from} positions; the limit is ${MOST_LIKELY} in all`);
  return Array.from({ length: to - from }, (_, i) => from + i);
}
/** @type {(run: LocalRun, logits: Values, k: number) => Omit<Step, 'n'>} */
function likeliest(run, logits, k) {
  const shares = softmaxOf(logits);
  const ids = top(logits, Math.min(k, logits.length));
  const probabilities = ids.map(id => shares[id]);
  return {
    words: ids.map(id => run.name(id)),
    ids,
    probabilities,
    logits: ids.map(id => logits[id]),
    log_sum: logits[ids[0]] - logSoftmax(logits)[ids[0]],
    rest: 1 - probabilities.reduce((a, b) => a + b, 0),
    others: shares.length - ids.length,
  };
}
// The likeliest tokens, tags or labels at each position; positions: null for all.
/** @type {(run: LocalRun, positions: number[] | null, k: number) => Steps} */
export function steps(run, positions, k) {
  const rows = run.rows(run.logits);
  const some = chosen(positions, rows.length, k);
  return { at: run.opened.output, steps: some.map(n => ({ n, ...likeliest(run, rows[n], k) })) };
}
// The likeliest tokens along any token sequence, with attention weights. Step n follows the first n tokens.
/** @type {(run: LocalRun, tokens: number[], positions: number[] | null, k: number) => Steps} */
export function stepsAlong(run, tokens, positions, k) {
  const { tokenizer, example, opened } = run;
  if (!tokenizer) throw new Error(`a model for task ${opened.about.task} does not generate text`);
  tokenizer.check(tokens);
  const some = chosen(positions, tokens.length + 1, k);
  const kinds = kindsOfAttention(run);
  const across = kinds.has('cross');
  const patterns = kinds.get('cross') ?? kinds.get('decoder') ?? [];
  const { source, target, ids } = example.inputs;
  const begun = source ? target.slice(0, 1) : ids;
  const first = begun.length - 1; // the last token that step 0 has read
  const read = [...begun, ...tokens];
  const trace = opened.model.run(source ? { source, target: read } : { ids: read }, {
    keep: [opened.output, ...patterns],
    edit: run.edit,
  });
  const rows = run.rows(trace.get(opened.output)).slice(first);
  /** @type {Steps} */
  const answer = { at: opened.output, steps: some.map(n => ({ n, ...likeliest(run, rows[n], k) })) };
  if (!patterns.length) return answer;
  const layers = patterns.map(name => trace.get(name));
  answer.looks = {
    at: patterns,
    side: across ? 'src' : 'tgt',
    words: across ? example.words.source : tokenizer.pieces(read),
  };
  for (const step of answer.steps)
    step.weights = meanRow(layers, first + step.n).slice(0, across ? undefined : first + step.n + 1);
  return answer;
}
// The row of one query, averaged over the heads of each layer and then over the layers.
/** @type {(layers: Tensor[], query: number) => number[]} */
function meanRow(layers, query) {
  const mean = new Array(layers[0].width).fill(0);
  for (const { shape, values, width } of layers) {
    const queries = shape[shape.length - 2];
    const heads = values.length / (queries * width);
    for (let head = 0; head < heads; head++)
      for (let key = 0; key < width; key++)
        mean[key] += values[(head * queries + query) * width + key] / heads / layers.length;
  }
  return mean;
}

// ---- two outputs

// How much two outputs differ at each position: the total variation distance; of numbers, the mean absolute difference.
/** @type {(run: LocalRun, one: Tensor, two: Tensor) => { variation?: number[]; gap?: number }} */
function apart(run, one, two) {
  const [a, b] = [run.rows(one), run.rows(two)];
  if (a.length !== b.length || a[0].length !== b[0].length) return {};
  if (run.opened.about.outputs === 'values')
    return { gap: Array.from(a[0]).reduce((sum, value, i) => sum + Math.abs(value - b[0][i]), 0) / a[0].length };
  return {
    variation: a.map((row, n) => {
      const [p, q] = [softmaxOf(row), softmaxOf(b[n])];
      return p.reduce((sum, share, i) => sum + Math.abs(share - q[i]), 0) / 2;
    }),
  };
}
// How switching parts off changes the outputs.
/** @type {(run: LocalRun, off: string[]) => Effect} */
export function effect(run, off) {
  const logits = run.logitsWithout(off);
  const [before, after] = [run.logits, logits].map(each => run.rows(each).map(row => top(row, 1)[0]));
  return {
    off,
    loss: [run.loss(), run.loss(logits)],
    changed: before.filter((best, i) => best !== after[i]).length,
    ...apart(run, run.logits, logits),
  };
}
// The likeliest answer at each position, and its probability.
/** @type {(run: LocalRun) => Said[]} */
function says(run) {
  if (run.opened.about.outputs === 'values')
    return /** @type {number[]} */ (run.answer())
      .slice(0, MANY)
      .map(value => ({ word: String(Number(value.toPrecision(4))), probability: null }));
  return run.rows(run.logits).map(row => {
    const [best] = top(row, 1);
    return { word: run.name(best), probability: softmaxOf(row)[best] };
  });
}
// Whether each output means the same in both runs.
/** @type {(a: LocalRun, b: LocalRun) => boolean} */
function sameOutputs(a, b) {
  const [one, two] = [a.opened, b.opened];
  if (one === two) return true;
  const labels = one.about.labels?.join() ?? a.tokenizer?.fingerprint;
  const others = two.about.labels?.join() ?? b.tokenizer?.fingerprint;
  return one.about.task === two.about.task && labels !== undefined && labels === others;
}
// Two runs: their answers and losses, the answer at each step, and where runs of the same model begin to differ.
/** @type {(a: LocalRun, b: LocalRun, ripple: (a: LocalRun, b: LocalRun) => Pick<Difference, 'first' | 'ripple'>) =>
 *  Difference} */
export function compare(a, b, ripple) {
  return {
    a: a.key,
    b: b.key,
    answers: [a.answer(), b.answer()],
    loss: [a.loss(), b.loss()],
    says: [says(a), says(b)],
    ...(sameOutputs(a, b) ? apart(a, a.logits, b.logits) : {}),
    ...(a.opened === b.opened ? ripple(a, b) : {}),
  };
}
