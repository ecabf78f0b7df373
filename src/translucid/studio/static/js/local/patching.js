// Activation patching: values from a clean run replace those in a corrupted run; as studio/patching.py and
// see/patching.py.
import { says, variationAt } from './answers.js';
import { top } from './beam.js';
import { ROUNDING, STREAM, along, depth, sides, tokensAlong } from './difference.js';
import { decode } from './generate.js';
import { Tensor, sizeOf } from './tensor.js';
import { quoted } from './tree.js';

/** @type {Record<string, RegExp>} the points that can be patched, by their labels on the page */
const PARTS = {
  stream: STREAM,
  attention: /(_attention|alignment)\.output$/,
  'feed-forward': /feedforward\.output$/,
  cell: /\.lstm\.cell$/,
};
const CELLS = 128; // tokens of a row
const POSITIONS = 64; // positions to offer
const CHOICES = 5; // likely outputs of each run

/** @type {(ids: number[]) => number[]} */
const unique = ids => [...new Set(ids)];

class PatchedPair {
  /** @param {LocalRun} clean @param {LocalRun} corrupted @param {Measure} measure */
  constructor(clean, corrupted, { position, output, against }) {
    this.clean = clean;
    this.corrupted = corrupted;
    checkComparable(clean, corrupted);
    const [ours, theirs] = [clean, corrupted].map(run => run.rows(run.logits));
    this.variation = ours.map((row, n) => variationAt(row, theirs[n]));
    this.position = position ?? top(Float64Array.from(this.variation), 1)[0];
    if (this.position >= ours.length)
      throw new Error(`position = ${position}: must be between 0 and ${ours.length - 1}`);
    this.logits = [ours[this.position], theirs[this.position]];
    const [[best], [rival]] = this.logits.map(row => top(row, 1));
    this.output = output ?? best;
    this.against = against ?? (output === undefined && rival !== best ? rival : null);
    for (const [name, id] of Object.entries({ output: this.output, against: this.against }))
      if (id !== null && id >= ours[0].length)
        throw new Error(`${name} = ${id}: must be between 0 and ${ours[0].length - 1}`);
    this.cleanValue = this.measured(this.logits[0]);
    this.corruptedValue = this.measured(this.logits[1]);
  }
  /** @type {(row: Values) => number} */
  measured(row) {
    return row[this.output] - (this.against === null ? 0 : row[this.against]);
  }
  /** @type {(at: string, token: number) => Record<string, Edit>} */
  edit(at, token) {
    const { clean, corrupted } = this;
    const axis = axisOf(clean, at);
    const size = clean.get(at).shape[axis + 1];
    if (token >= size) throw new Error(`token ${token}: positions at ${at} must be between 0 and ${size - 1}`);
    const steps = clean.trace.values.get(at);
    if (steps instanceof Map) return { ...corrupted.edit, [`${at}@${token}`]: () => clean.step(at, token) };
    const before = corrupted.edit[at];
    return { ...corrupted.edit, [at]: x => patched(before ? before(x) : x, clean.get(at), axis, token) };
  }
  // The outputs of the corrupted run with the vector of one token from the clean run.
  /** @type {(at: string, token: number) => Tensor} */
  outputs(at, token) {
    const { model, output } = this.corrupted.opened;
    const edit = this.edit(at, token);
    return model.run(this.corrupted.example.inputs, { keep: [output], edit }).get(output);
  }
  /** @type {(outputs: Tensor) => number} */
  value(outputs) {
    return this.measured(this.corrupted.rows(outputs)[this.position]);
  }
  /** @type {(value: number) => number} */
  fraction(value) {
    const whole = this.cleanValue - this.corruptedValue;
    if (Math.abs(whole) <= ROUNDING * Math.max(Math.abs(this.cleanValue), Math.abs(this.corruptedValue), 1))
      throw new Error(
        'both runs give the same value for this measure, so nothing can be recovered; choose another position or ' +
          'output, or texts that the model answers differently',
      );
    return (value - this.corruptedValue) / whole;
  }
  get described() {
    const ids = [this.output, ...(this.against === null ? [] : [this.against])];
    return {
      position: this.position,
      output: this.output,
      against: this.against,
      words: ids.map(id => this.clean.name(id)),
      clean: this.cleanValue,
      corrupted: this.corruptedValue,
    };
  }
}
/** @type {(a: LocalRun, b: LocalRun) => void} */
function checkComparable(a, b) {
  if (a.opened !== b.opened) throw new Error('patching: clean and corrupted must be runs of the same model');
  if (a.example.inputs.x)
    throw new Error('patching replaces the vectors of tokens, but this network reads numbers and has none');
  for (const [name, ids] of Object.entries(a.example.inputs)) {
    const others = b.example.inputs[name];
    if (others.length !== ids.length)
      throw new Error(
        `${name}: the clean run has ${ids.length} tokens, the corrupted one ${others.length}, but patching needs the ` +
          'same number in both; choose texts of equal length (for translation, with the same target)',
      );
  }
}
// The axis of a point along the tokens, without the axis of the batch.
/** @type {(run: LocalRun, at: string) => number} */
function axisOf(run, at) {
  const point = run.point(at);
  const axis = along(point);
  if (axis < 0)
    throw new Error(
      `${at} has no vector for each token (its axes are ${point.axes.join(', ') || 'none'}); choose a point along ` +
        'the text, such as *_residual.sum',
    );
  return axis;
}
// x with the values of one token from y.
/** @type {(x: Tensor, y: Tensor, axis: number, token: number) => Tensor} */
function patched(x, y, axis, token) {
  const [, ...shape] = x.shape;
  const inner = sizeOf(shape.slice(axis + 1));
  const values = x.values.slice();
  for (let i = 0; i < values.length; i++) if (Math.floor(i / inner) % shape[axis] === token) values[i] = y.values[i];
  return new Tensor(x.shape, values);
}

/** @type {(clean: LocalRun, corrupted: LocalRun, measure: Measure) => Patching} */
export function patchOutline(clean, corrupted, measure) {
  const traced = new PatchedPair(clean, corrupted, measure);
  const { position, variation, logits } = traced;
  const ids = unique(logits.flatMap(row => top(row, CHOICES)));
  const offered = unique([...top(Float64Array.from(variation), POSITIONS), position]).sort((a, b) => a - b);
  const words = [clean, corrupted].map(run => says(run).map(({ word }) => word));
  return {
    ...traced.described,
    positions: offered.map(n => ({ n, clean: words[0][n], corrupted: words[1][n], variation: variation[n] })),
    choices: ids.map(id => ({ id, word: clean.name(id), clean: logits[0][id], corrupted: logits[1][id] })),
    tables: Object.entries(PARTS).flatMap(([part, pattern]) =>
      sides(clean, corrupted, pattern).map(points => ({
        part,
        side: points[0].split('.')[0],
        words: tokensAlong(clean, corrupted, points[0]),
        points,
        depths: points.map(depth),
      })),
    ),
  };
}
// For each token, how much of the clean output returns if the token's vector at one point is patched; tokens: null for
// all.
/** @type {(clean: LocalRun, corrupted: LocalRun, measure: Measure, at: string, tokens: number[] | null) => PatchRow} */
export function patchRow(clean, corrupted, measure, at, tokens) {
  const traced = new PatchedPair(clean, corrupted, measure);
  const [from, to] = tokens ?? [0, clean.get(at).shape[axisOf(clean, at) + 1]];
  if (to - from > CELLS)
    throw new Error(`tokens: ${to - from} requested, but the limit is ${CELLS} per request; pass a range`);
  const some = Array.from({ length: to - from }, (_, i) => from + i);
  const recovered = some.map(token => traced.fraction(traced.value(traced.outputs(at, token))));
  return { ...traced.described, at, recovered };
}
// The outputs with one vector patched.
/** @type {(clean: LocalRun, corrupted: LocalRun, measure: Measure, at: string, token: number) => PatchCell} */
export function patchCell(clean, corrupted, measure, at, token) {
  const traced = new PatchedPair(clean, corrupted, measure);
  const outputs = traced.outputs(at, token);
  const value = traced.value(outputs);
  return {
    ...{ ...traced.described, at, token, value, recovered: traced.fraction(value) },
    says: says(corrupted, outputs),
    text: writtenText(traced, at, token),
    python: python(traced, at, token),
  };
}
// What a translation model writes with the patched vector; null if a search cannot apply the edit.
/** @type {(traced: PatchedPair, at: string, token: number) => string | null} */
function writtenText(traced, at, token) {
  const { corrupted } = traced;
  const edit = traced.edit(at, token);
  const inSteps = Object.keys(edit).some(name => name.includes('@'));
  if (!corrupted.example.inputs.source || !at.startsWith('encoder.') || inSteps || at in corrupted.edit) return null;
  return decode(corrupted.opened.model, corrupted.question.text, { beam_size: 1, n_best: 1, edit }).texts[0].text;
}
// Python code that computes the same number.
/** @type {(traced: PatchedPair, at: string, token: number) => string} */
function python({ clean, corrupted, position, output }, at, token) {
  const target = clean.target === null ? [] : [clean.target];
  const [ours, theirs] = [clean, corrupted].map(run => [run.question.text, ...target].map(quoted).join(', '));
  const off = corrupted.question.off ?? [];
  const edit = `from_trace(clean, ${quoted(at)}, tokens={${token}: ${token}})`;
  const parts = off.map(each => {
    const [key, percent] = each.split('@');
    const part = `parts[${quoted(key)}]`;
    return percent ? `at_strength(${part}, ${asPython(Number(percent) / 100)})` : part;
  });
  const place = corrupted.logits.shape.length > 2 ? `0, ${position}` : '0';
  return [
    'from translucid.see.edits import from_trace',
    ...(off.length
      ? [
          'from translucid.see.part_switches import at_strength, switches, together',
          'parts = {switch.key: switch for switch in switches(model.network)}',
        ]
      : []),
    `clean = model.trace(${ours})`,
    `patched = model.trace(${theirs}, edit=${off.length ? `{**together([${parts.join(', ')}]), **${edit}}` : edit})`,
    `patched[${quoted(corrupted.opened.output)}][${place}, ${output}]`,
  ].join('\n');
}
/** @type {(value: number) => string} */
const asPython = value => (Number.isInteger(value) ? `${value}.0` : String(value));
