// The numbers of a run as frames: tensors, and thumbnails of all heads; as studio/attention_tables.py.
import { pooled, scaledFrame, tensors as cutTensors } from '../recorded_tensors.js';

const MOST_POINTS = 64;

// The attention patterns by kind of attention, in the order of the layers.
/** @type {(run: LocalRun) => Map<string, string[]>} */
export function kindsOfAttention(run) {
  /** @type {Map<string, string[]>} */
  const kinds = new Map();
  for (const name of run.trace.names()) {
    if (!name.endsWith('.pattern')) continue;
    const scopes = name.split('.');
    const across = ['cross_attention', 'alignment'].includes(scopes[scopes.length - 2]);
    const kind = across ? 'cross' : scopes.includes('encoder') ? 'encoder' : 'decoder';
    kinds.set(kind, [...(kinds.get(kind) ?? []), name]);
  }
  return kinds;
}
/** @type {(run: LocalRun, names: string[]) => Map<string, WholeTensor>} */
const wholeTensors = (run, names) =>
  new Map(
    names.map(at => {
      const { axes, scale } = run.point(at);
      const { shape, values } = run.get(at);
      return [at, { at, axes, scale, shape: shape.slice(1), raw: Float32Array.from(values) }];
    }),
  );
/** @type {(run: LocalRun, given: URLSearchParams) => Promise<ArrayBuffer>} */
export function tensors(run, given) {
  const names = given.getAll('at');
  if (names.length < 1 || names.length > MOST_POINTS)
    throw new Error(`at: expected 1 to ${MOST_POINTS} points, got ${names.length}`);
  return cutTensors(wholeTensors(run, names), given);
}
// Thumbnails of the patterns of all heads of one kind of attention, with each head's entropy in bits and its largest
// weight; layers: null for all.
/** @type {(run: LocalRun, kind: string, pool: number, layers: number[] | null) => Bytes} */
export function heads(run, kind, pool, layers) {
  const kinds = kindsOfAttention(run);
  const all = kinds.get(kind);
  if (!all) throw new Error(`kind: this run has ${[...kinds.keys()].join(', ') || 'no'} attention, not '${kind}'`);
  const [from, to] = layers ?? [0, all.length];
  if (to > all.length) throw new Error(`layers: must be 0 to ${all.length - 1}, not ${from}:${to}`);
  const at = all.slice(from, to);
  const glances = at.map(name => glance(run.get(name), pool));
  const [{ small, whole }] = glances;
  const shape = [at.length, ...small.shape];
  const values = new Float32Array(glances.flatMap(each => [...each.small.values]));
  return scaledFrame(
    {
      at,
      axes: ['layers', 'heads', 'queries', 'keys'],
      whole,
      scale: 'unit',
      entropy: glances.map(each => each.entropy),
      most: glances.map(each => each.most),
    },
    { shape, values },
    'u8',
  );
}
/** @type {(pattern: Tensor, pool: number) => { small: Cut; whole: number[]; entropy: number[]; most: number[] }} */
function glance({ shape, values, width }, pool) {
  const queries = shape[shape.length - 2];
  const size = queries * width;
  const count = values.length / size; // a recurrent decoder has one head
  const whole = [count, queries, width];
  const each = Array.from({ length: count }, (_, head) => Array.from(values.subarray(head * size, (head + 1) * size)));
  return {
    small: pooled({ shape: whole, axes: [], values: Float32Array.from(values) }, [pool, pool]),
    whole,
    entropy: each.map(head => -head.reduce((sum, p) => sum + p * Math.log2(Math.max(p, 1e-12)), 0) / queries),
    most: each.map(head => head.reduce((most, p) => Math.max(most, p), 0)),
  };
}
