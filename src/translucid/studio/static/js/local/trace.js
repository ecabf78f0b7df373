// Read and replace every intermediate value of a local model, with the names, patterns and edits of core/trace.py.
// A part calls x = trace('pattern', x).
import { Tensor, stacked } from './tensor.js';

export class Trace {
  /** @param {{ keep?: string[]; edit?: Record<string, Edit> }} options keep: patterns of the points to keep */
  constructor({ keep = ['*'], edit = {} } = {}) {
    this.keep = keep.map(pattern);
    this.edit = Object.entries(edit).map(([glob, change]) => ({ ...pattern(glob), change }));
    /** @type {Map<string, Tensor | Map<number, Tensor>>} the kept values; in a loop, by position */
    this.values = new Map();
    /** @type {Set<string>} the points computed so far, kept or not */
    this.met = new Set();
  }
  // What a part calls: adds the names of the parts that contain it.
  /** @type {(prefix?: string, position?: number | null) => Scope} */
  scope(prefix = '', position = null) {
    /** @type {(name: string, value: Tensor) => Tensor} */
    const meet = (name, value) => this.meet(prefix + name, position, value);
    return Object.assign(meet, {
      /** @type {(part: string) => Scope} */
      at: part => this.scope(`${prefix}${part}.`, position),
      /** @type {(place: number) => Scope} */
      step: place => this.scope(prefix, place),
      /** @type {(other: Trace) => boolean} */
      replay: other => this.replay(other),
    });
  }
  /** @type {(name: string, position: number | null, value: Tensor) => Tensor} */
  meet(name, position, value) {
    this.met.add(name);
    let now = value;
    for (const { matches, change } of this.edit) if (matches(name, position)) now = changed(name, now, change);
    if (this.keep.some(({ matches }) => matches(name, position))) {
      if (position === null) this.values.set(name, now);
      else {
        const steps = /** @type {Map<number, Tensor>} */ (this.values.get(name) ?? new Map());
        this.values.set(name, steps.set(position, now));
      }
    }
    return now;
  }
  // Take over all values of another trace, as if the model computed them now; false if this trace edits one of them.
  /** @type {(other: Trace) => boolean} */
  replay(other) {
    /** @type {{ name: string; at: number | null; value: Tensor }[]} */
    const all = [];
    for (const [name, value] of other.values)
      if (value instanceof Tensor) all.push({ name, at: null, value });
      else for (const [at, step] of value) all.push({ name, at, value: step });
    if (all.some(({ name, at }) => this.edit.some(({ matches }) => matches(name, at)))) return false;
    for (const { name, at, value } of all) this.meet(name, at, value);
    return true;
  }
  // The names of the kept points, in the order in which the model computed them.
  names() {
    return [...this.values.keys()];
  }
  // One kept point. The positions of a loop are joined along axis 1.
  /** @type {(name: string) => Tensor} */
  get(name) {
    const value = this.values.get(name);
    if (!value) throw new Error(`there is no point '${name}'; the points end in ${this.ends()}`);
    if (value instanceof Tensor) return value;
    return stacked([...value].sort(([a], [b]) => a - b).map(([, step]) => step));
  }
  // Throw an error if a pattern matches no point, for example because it is misspelt.
  check() {
    const met = [...this.met];
    for (const { glob, covers } of [...this.keep, ...this.edit])
      if (!met.some(covers))
        throw new Error(`the pattern '${glob}' matches no point of this model; the points end in ${this.ends()}`);
  }
  ends() {
    return [...new Set([...this.met].map(name => name.replace(/.*\./, '')))].sort().join(', ');
  }
}

// For values that belong to no trace.
export const SILENT = new Trace({ keep: [] }).scope();

// A shell glob over full names, in which * also matches dots, optionally with the position in a loop: name@3.
/** @type {(glob: string) => TracePattern} */
function pattern(glob) {
  const [, base, at] = /^([^@]*)(?:@(\d+))?$/.exec(glob) ?? [];
  if (base === undefined) throw new Error(`'${glob}': @ must be followed by one position, such as @3`);
  const text = base.replace(/[.+^${}()|\\]/g, '\\$&').replace(/\[!/g, '[^');
  const regex = new RegExp(`^${text.replaceAll('*', '[^]*').replaceAll('?', '[^]')}$`);
  /** @type {(name: string) => boolean} */
  const covers = name => regex.test(name);
  return {
    glob,
    covers,
    matches: (name, position) => (at === undefined || Number(at) === position) && covers(name),
  };
}
/** @type {(name: string, value: Tensor, change: Edit) => Tensor} */
function changed(name, value, change) {
  if (typeof change === 'number') return new Tensor(value.shape, value.values.slice().fill(change));
  const edited = change instanceof Tensor ? change : change(value);
  if (edited.shape.join() !== value.shape.join())
    throw new Error(`the edit of ${name} has shape ${edited.shape.join(', ')}, not ${value.shape.join(', ')}`);
  return edited;
}

// An edit of the values at an index of the leading axes, such as [null, 2] for the third head; null: all. `change` gets
// each value and its flat index.
/** @type {(index: (number | null)[], change: (value: number, place: number) => number) => Edit} */
export const atIndex = (index, change) => x => {
  const y = new Tensor(x.shape, x.values.slice());
  index.forEach((at, axis) => {
    if (at !== null && (at < 0 || at >= (x.shape[axis] ?? 0)))
      throw new Error(
        `index ${index.map(i => i ?? ':').join(', ')} is out of range: the shape is ${x.shape.join(', ')}`,
      );
  });
  for (let i = 0; i < y.values.length; i++) {
    let rest = i;
    let inside = true;
    for (let axis = x.shape.length - 1; axis >= 0; axis--) {
      inside &&= (index[axis] ?? null) === null || index[axis] === rest % x.shape[axis];
      rest = Math.floor(rest / x.shape[axis]);
    }
    if (inside) y.values[i] = change(y.values[i], i);
  }
  return y;
};
