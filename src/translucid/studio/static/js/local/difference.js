// Where two runs of one model begin to differ, and how far each token's vector moves at each depth; as
// see/difference.py.
import { sizeOf } from './tensor.js';

const ROUNDING = 1e-6; // relative difference that can be due to the order of additions
const SHOWN = 64; // tokens
// The values passed between layers: embeddings, then the residual stream or recurrent states.
const STREAM = /(embedding\.lookup|_residual\.sum|final_norm\.output|\.rnn\.hidden|\.lstm\.hidden|alignment\.output)$/;
/** @type {Record<string, string>} */
const OUTSIDE_LAYERS = {
  'embedding.lookup': 'embedding',
  'final_norm.output': 'last norm',
  'alignment.output': 'after alignment',
};

// encoder.layers.0.self_attention_residual.sum -> layer 0, after self-attention
/** @type {(name: string) => string} */
export function depth(name) {
  const rest = name.replace(/^(encoder|decoder)\.(recurrent\.)?/, '');
  const [, layer, what] = /^layers\.(\d+)\.(.*)/.exec(rest) ?? [];
  if (layer === undefined) return OUTSIDE_LAYERS[rest] ?? rest;
  const [, block] = /^(.*)_residual\.sum$/.exec(what) ?? [];
  if (!block) return `layer ${layer}, ${what.replaceAll('.', ' ')}`;
  return `layer ${layer}, after ${block.replaceAll('_', '-').replace('feedforward', 'feed-forward')}`;
}
// The axis of a point along the tokens, without the axis of the batch.
/** @type {(point: Point) => number} */
const along = ({ axes }) => axes.findIndex(axis => axis === 'length' || axis === 'queries');

// ‖a - b‖ / ‖a‖ of each token's vector; 0 where both are equal.
/** @type {(a: Tensor, b: Tensor, axis: number) => number[]} */
function moved(a, b, axis) {
  const [, ...shape] = a.shape;
  const count = axis < 0 ? 1 : shape[axis];
  const inner = axis < 0 ? sizeOf(shape) : sizeOf(shape.slice(axis + 1));
  const gaps = new Float64Array(count);
  const sizes = new Float64Array(count);
  for (let i = 0; i < a.values.length; i++) {
    const [one, two] = [a.values[i], b.values[i]];
    if (one === two && !Number.isFinite(one)) continue;
    const token = Math.floor(i / inner) % count;
    gaps[token] += (one - two) ** 2;
    sizes[token] += one ** 2;
  }
  return Array.from(gaps, (gap, token) => (gap === 0 ? 0 : Math.sqrt(gap / sizes[token])));
}
/** @type {(run: LocalRun, name: string, axis: string) => string[]} */
function labels(run, name, axis) {
  const { source, target, follows } = run.example.words;
  const scopes = name.split('.').slice(0, -1);
  if (scopes.includes('encoder')) return source;
  const across = ['cross_attention', 'alignment'].includes(scopes[scopes.length - 1]);
  if (across) return axis === 'keys' ? source : target.map((word, i) => `${word} → ${follows[i]}`);
  return target.length ? target : source;
}
// The token at each position of a point; where the texts differ, both tokens.
/** @type {(a: LocalRun, b: LocalRun, name: string) => string[]} */
function tokensAlong(a, b, name) {
  const point = a.point(name);
  const axis = along(point);
  const [one, two] = [a, b].map(run => labels(run, name, point.axes[axis]));
  return one.map((word, i) => (word === two[i] ? word : `${word} | ${two[i]}`));
}

/** @type {(a: LocalRun, b: LocalRun) => Pick<Difference, 'first' | 'ripple'>} */
export function ripple(a, b) {
  const names = a.trace
    .names()
    .filter(name => b.trace.met.has(name) && a.get(name).shape.join() === b.get(name).shape.join());
  const first = names.find(name => !(moved(a.get(name), b.get(name), -1)[0] <= ROUNDING));
  const shown = names.filter(name => STREAM.test(name) && along(a.point(name)) >= 0);
  /** @type {Map<string, string[]>} the points by the text that they belong to */
  const sides = new Map();
  for (const encoder of [true, false])
    for (const name of shown.filter(each => each.split('.').includes('encoder') === encoder)) {
      const key = `${encoder} ${a.get(name).shape[1 + along(a.point(name))]}`;
      sides.set(key, [...(sides.get(key) ?? []), name]);
    }
  return {
    first: first ?? null,
    ripple: [...sides.values()].map(points => ({
      side: points[0].split('.')[0],
      depths: points.map(depth),
      words: tokensAlong(a, b, points[0]).slice(0, SHOWN),
      points,
      values: points.map(name =>
        moved(a.get(name), b.get(name), along(a.point(name)))
          .slice(0, SHOWN)
          .map(value => (Number.isFinite(value) ? value : null)),
      ),
    })),
  };
}
