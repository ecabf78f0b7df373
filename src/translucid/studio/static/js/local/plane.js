// Step-by-step training of a perceptron or an MLP on points in two dimensions; as studio/plane.py, which draws the
// points and the initial weights.
import { Tensor, timesTransposed } from './tensor.js';

const RATE = 0.1;
const MOMENTUM = 0.9;
const TICKS = 33; // grid points along each axis
const [LOW, HIGH] = [-0.5, 1.5];

/** @type {(weights: PlaneWeights) => PlaneWeights} */
const copied = weights => Object.fromEntries(Object.entries(weights).map(([name, values]) => [name, values.slice()]));
/** @type {(x: number[][], weights: PlaneWeights, name: string) => Float32Array[]} */
function dense(x, weights, name) {
  const [w, b] = ['weight', 'bias'].map(end => weights[`${name}.linear.${end}`]);
  const rows = new Tensor([x.length, x[0].length], Float32Array.from(x.flat()));
  const y = timesTransposed(rows, new Tensor([b.length, x[0].length], w), new Tensor([b.length], b));
  return x.map((_, i) => Float32Array.from(y.values.subarray(i * b.length, (i + 1) * b.length)));
}
/** @type {(x: number[][], weights: PlaneWeights) => number[][]} */
const hiddenOf = (x, weights) => dense(x, weights, 'layers.0').map(row => Array.from(row.map(Math.tanh)));
/** @type {(kind: string, x: number[][], weights: PlaneWeights) => number[]} */
function outputsOf(kind, x, weights) {
  if (kind === 'mlp') return dense(hiddenOf(x, weights), weights, 'output').map(([value]) => value);
  const { weight, bias } = weights;
  return x.map(([a, b]) =>
    Math.fround(Math.fround(a * weight[0]) + Math.fround(b * weight[1])) + bias[0] > 0 ? 1 : 0,
  );
}

class Training {
  /** @param {string} kind @param {number} last @param {number[][]} rows x1, x2, target @param {PlaneWeights} weights */
  constructor(kind, last, rows, weights) {
    this.kind = kind;
    this.last = last;
    this.x = rows.map(([a, b]) => [Math.fround(a), Math.fround(b)]);
    this.wanted = rows.map(row => row[2]);
    this.weights = [weights]; // by step
    /** @type {(boolean | null)[]} */
    this.wrong = [null]; // by step: whether the perceptron's point was wrong
    this.speed = Object.fromEntries(
      Object.entries(weights).map(([name, { length }]) => [name, new Float32Array(length)]),
    );
  }
  step() {
    const weights = copied(this.weights[this.weights.length - 1]);
    this.wrong.push(this.kind === 'mlp' ? null : this.learn(weights));
    if (this.kind === 'mlp') this.descend(weights);
    this.weights.push(weights);
  }
  // The perceptron's rule at one point; whether its output was wrong.
  /** @type {(weights: PlaneWeights) => boolean} */
  learn(weights) {
    const at = (this.weights.length - 1) % this.x.length;
    const error = this.wanted[at] - outputsOf(this.kind, [this.x[at]], weights)[0];
    this.x[at].forEach((value, i) => {
      weights.weight[i] += error * value;
    });
    weights.bias[0] += error;
    return error !== 0;
  }
  // One step of gradient descent on all points.
  /** @type {(weights: PlaneWeights) => void} */
  descend(weights) {
    const hidden = hiddenOf(this.x, weights);
    const out = weights['output.linear.weight'];
    const size = out.length;
    const [dw, db] = [new Float64Array(2 * size), new Float64Array(size)];
    const [dout, dbias] = [new Float64Array(size), new Float64Array(1)];
    outputsOf(this.kind, this.x, weights).forEach((y, n) => {
      const dy = (y - this.wanted[n]) / this.x.length;
      dbias[0] += dy;
      for (let k = 0; k < size; k++) {
        const h = hidden[n][k];
        const slope = dy * out[k] * (1 - h * h);
        dout[k] += dy * h;
        db[k] += slope;
        for (const i of [0, 1]) dw[2 * k + i] += slope * this.x[n][i];
      }
    });
    /** @type {Record<string, Float64Array>} */
    const gradients = {
      'layers.0.linear.weight': dw,
      'layers.0.linear.bias': db,
      'output.linear.weight': dout,
      'output.linear.bias': dbias,
    };
    for (const [name, gradient] of Object.entries(gradients))
      gradient.forEach((value, i) => {
        this.speed[name][i] = MOMENTUM * this.speed[name][i] + value;
        weights[name][i] -= RATE * this.speed[name][i];
      });
  }
  /** @type {(step: number) => Omit<PlaneStep, 'problem' | 'seed'>} */
  at(step) {
    while (this.weights.length <= step) this.step();
    const weights = this.weights[step];
    const ticks = Array.from({ length: TICKS }, (_, i) => LOW + ((HIGH - LOW) * i) / (TICKS - 1));
    const outputs = outputsOf(this.kind, this.x, weights);
    const coarse = ticks.filter((_, i) => i % 2 === 0);
    const neurons = coarse.map(b => hiddenAlong(this.kind, coarse, b, weights));
    return {
      kind: this.kind,
      step,
      last: this.last,
      weights: Object.fromEntries(Object.entries(weights).map(([name, values]) => [name, shaped(name, values)])),
      loss: outputs.reduce((sum, y, i) => sum + 0.5 * (y - this.wanted[i]) ** 2, 0) / outputs.length,
      mistakes: outputs.filter((y, i) => y > 0.5 !== this.wanted[i] > 0.5).length,
      points: this.x.map(([a, b], i) => [a, b, this.wanted[i], outputs[i]]),
      sample: this.kind === 'mlp' || step === 0 ? null : (step - 1) % this.x.length,
      wrong: this.wrong[step],
      ticks,
      grid: ticks.map(b =>
        outputsOf(
          this.kind,
          ticks.map(a => [a, b]),
          weights,
        ),
      ),
      hidden: (neurons[0][0] ?? []).map((_, k) => neurons.map(row => row.map(all => Number(all[k].toFixed(3))))),
    };
  }
}
/** @type {(kind: string, x1: number[], x2: number, weights: PlaneWeights) => number[][]} */
const hiddenAlong = (kind, x1, x2, weights) =>
  kind === 'mlp'
    ? hiddenOf(
        x1.map(a => [a, x2]),
        weights,
      )
    : [];
// As the network's tensors: a bias without axes is a number, and the first layer a matrix with two columns.
/** @type {(name: string, values: Float32Array) => unknown} */
function shaped(name, values) {
  const list = Array.from(values);
  if (name === 'bias') return list[0];
  if (name === 'output.linear.weight') return [list];
  return name === 'layers.0.linear.weight'
    ? list.filter((_, i) => i % 2 === 0).map((a, k) => [a, list[2 * k + 1]])
    : list;
}

/** @type {Map<string, Training>} */
const trainings = new Map();
// The state of training after `step` steps.
/** @type {(start: PlaneStart, kind: string, problem: string, step: number, seed: number) => PlaneStep} */
export function planeStep({ steps, points, weights }, kind, problem, step, seed) {
  if (!Object.hasOwn(points, problem))
    throw new Error(`problem: must be one of ${Object.keys(points).join(', ')}, not '${problem}'`);
  const key = `${kind} ${problem} ${seed}`;
  const begun = () =>
    Object.fromEntries(
      Object.entries(weights[seed]).map(([name, values]) => [name, Float32Array.from([values].flat(2))]),
    );
  const training = trainings.get(key) ?? new Training(kind, steps, points[problem], begun());
  trainings.set(key, training);
  return { ...training.at(step), problem, seed };
}
