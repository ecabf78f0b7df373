// What the lessons need of the page's models besides a run; as see/embeddings.py and see/gradients.py.
import { steps } from './answers.js';
import { dot } from './credit.js';
import { planeStep } from './plane.js';
import { softmaxOf } from './run.js';
import { gradients } from './saliency.js';
import { Tensor, recorded, stacked } from './tensor.js';

const IGNORED = -100;

// The gradient of the loss of one target at a point, with all parts on; null if there is no target.
/** @type {(run: LocalRun, name: string, of: number) => Tensor | null} */
function lossGradient(run, name, of) {
  const { model, output } = run.opened;
  const target = run.example.targets[of] ?? IGNORED;
  if (target === IGNORED) return null;
  const { result, operations } = recorded(() => model.run(run.example.inputs, { keep: [output, name] }));
  const logits = result.get(output);
  const seed = new Float64Array(logits.values.length);
  softmaxOf(logits.values.subarray(of * logits.width, (of + 1) * logits.width)).forEach((share, i) => {
    seed[of * logits.width + i] = share - (i === target ? 1 : 0);
  });
  const gradientOf = gradients(operations, logits.values, seed);
  const value = result.values.get(name);
  /** @type {(x: Tensor) => Tensor} */
  const at = x => new Tensor(x.shape, gradientOf(x));
  if (value instanceof Tensor) return at(value);
  return stacked([...(value ?? [])].sort(([a], [b]) => a - b).map(([, step]) => at(step)));
}
// The words with the most similar embeddings, nearest first; null if the word is not a single known token.
/** @type {(run: LocalRun, word: string, count: number) => { labels: string[]; values: number[] } | null} */
function neighbours(run, word, count) {
  const { tokenizers, weights } = run.opened.model;
  const tokenizer = tokenizers.source ?? tokenizers.tokenizer;
  const [side] = ['encoder', 'decoder'].filter(each => weights.tensors.has(`${each}.embedding.table.weight`));
  const table = weights.tensors.get(`${side}.embedding.table.weight`);
  const found = [` ${word}`, word].map(text => tokenizer.encode(text));
  const [own] = found.find(([id, ...more]) => id !== undefined && id !== tokenizer.special.unk && !more.length) ?? [];
  if (own === undefined || !table) return null;
  const rows = Array.from({ length: tokenizer.size }, (_, i) =>
    table.values.subarray(i * table.width, (i + 1) * table.width),
  );
  const norms = rows.map(row => Math.sqrt(dot(row, row)));
  const cosines = rows.map((row, i) => dot(row, rows[own]) / Math.max(norms[i] * norms[own], 1e-12));
  const best = [...cosines.keys()].filter(i => i !== own).sort((a, b) => cosines[b] - cosines[a]);
  const ids = best.slice(0, count);
  return { labels: tokenizer.pieces(ids), values: ids.map(i => cosines[i]) };
}
/** @type {(run: LocalRun, kind: string, problem: string, step: number, seed: number) => PlaneStep} */
function plane(run, kind, problem, step, seed) {
  const { plane: start } = run.opened;
  if (!start) throw new Error('this model has no training on 2-D points to show');
  return planeStep(start, kind, problem, step, seed);
}
export const lessonHelp = { steps, lossGradient, neighbours, plane };
