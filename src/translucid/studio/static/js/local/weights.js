// The weights of a model in the safetensors format: a header in JSON, then raw numbers.
import { half } from '../frames.js';
import { Tensor, sizeOf } from './tensor.js';

/** @type {Record<string, [number, (view: DataView, at: number) => number]>} bytes of a number, and how to read it */
const READ = {
  F64: [8, (view, at) => view.getFloat64(at, true)],
  F32: [4, (view, at) => view.getFloat32(at, true)],
  F16: [2, (view, at) => half(view.getUint16(at, true))],
  BF16: [2, (view, at) => bfloat16(view.getUint16(at, true))],
};
const float = new DataView(new ArrayBuffer(4));
/** @type {(bits: number) => number} */
function bfloat16(bits) {
  float.setUint16(0, bits);
  return float.getFloat32(0);
}

/** @type {(file: ArrayBuffer) => Weights} */
export function readWeights(file) {
  const view = new DataView(file);
  const length = Number(view.getBigUint64(0, true));
  if (8 + length > file.byteLength) throw new Error('the file is not in the safetensors format, or incomplete');
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(file, 8, length)));
  delete header.__metadata__;
  /** @type {Map<string, Tensor>} */
  const tensors = new Map();
  for (const [name, { dtype, shape, data_offsets: offsets }] of Object.entries(header)) {
    const [bytes, read] = READ[dtype] ?? [];
    if (!bytes || !read) throw new Error(`${name} has dtype ${dtype}; supported are ${Object.keys(READ).join(', ')}`);
    const [from, to] = offsets.map((/** @type {number} */ offset) => 8 + length + offset);
    const values = new Float32Array(sizeOf(shape));
    if (to > file.byteLength || to - from !== values.length * bytes) throw new Error(`${name}: the file is incomplete`);
    for (let i = 0; i < values.length; i++) values[i] = read(view, from + i * bytes);
    tensors.set(name, new Tensor(shape, values));
  }
  return new Weights(tensors);
}

// The tensors of one part of a model, by their names in this part.
export class Weights {
  // used: the full names of the tensors read so far
  /** @param {Map<string, Tensor>} tensors @param {string} prefix @param {Set<string>} used */
  constructor(tensors, prefix = '', used = new Set()) {
    this.tensors = tensors;
    this.prefix = prefix;
    this.used = used;
  }
  /** @type {(part: string) => Weights} */
  at(part) {
    return new Weights(this.tensors, `${this.prefix}${part}.`, this.used);
  }
  /** @type {(name: string, shape: number[]) => Tensor} */
  get(name, shape) {
    const full = this.prefix + name;
    const found = this.tensors.get(full);
    if (!found) throw new Error(`the weights contain no ${full}`);
    if (found.shape.join() !== shape.join())
      throw new Error(`${full} has shape ${found.shape.join(', ')}, but config.json says ${shape.join(', ')}`);
    this.used.add(full);
    return found;
  }
  // Throw an error if a tensor was not read, since the model would compute something else without it.
  check() {
    const left = [...this.tensors.keys()].filter(name => !this.used.has(name));
    if (left.length) throw new Error(`the page's model does not use these weights: ${left.join(', ')}`);
  }
}
