// Models that run in the page: the weights' format, matrix products, and errors. test_local_model.py compares whole models.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LocalModel } from '../../../src/translucid/studio/static/js/local/model.js';
import { top } from '../../../src/translucid/studio/static/js/local/beam.js';
import { Tokenizer } from '../../../src/translucid/studio/static/js/local/tokenizer.js';
import { Tensor, joined, timesTransposed, transposed } from '../../../src/translucid/studio/static/js/local/tensor.js';
import { Trace, atIndex } from '../../../src/translucid/studio/static/js/local/trace.js';
import { readWeights } from '../../../src/translucid/studio/static/js/local/weights.js';
import { randomFrom } from './random.js';

const random = randomFrom(11);
const tensor = shape =>
  new Tensor(
    shape,
    Float32Array.from({ length: shape.reduce((a, b) => a * b, 1) }, () => random() * 2 - 1),
  );
// A file in the safetensors format: name -> [dtype, shape, numbers that DataView writes with `set`, bytes of each].
function safetensors(tensors) {
  let end = 0;
  const header = {};
  for (const [name, [dtype, shape, numbers, , bytes]] of Object.entries(tensors)) {
    header[name] = { dtype, shape, data_offsets: [end, end + numbers.length * bytes] };
    end += numbers.length * bytes;
  }
  const head = new TextEncoder().encode(JSON.stringify({ ...header, __metadata__: { format: 'pt' } }));
  const view = new DataView(new ArrayBuffer(8 + head.length + end));
  view.setBigUint64(0, BigInt(head.length), true);
  new Uint8Array(view.buffer).set(head, 8);
  for (const [name, [, , numbers, set, bytes]] of Object.entries(tensors))
    numbers.forEach((number, i) => view[set](8 + head.length + header[name].data_offsets[0] + i * bytes, number, true));
  return view.buffer;
}
const PERCEPTRON = { model: { kind: 'perceptron', inputs: 2 } };
const weights = {
  weight: ['F32', [2], [1, -2], 'setFloat32', 4],
  bias: ['F32', [], [0.5], 'setFloat32', 4],
};

test('each number format gives the same numbers', () => {
  const numbers = [1, -2.5, 0.15625, -0];
  const bits = { F16: [0x3c00, 0xc100, 0x3100, 0x8000], BF16: [0x3f80, 0xc020, 0x3e20, 0x8000] };
  const file = safetensors({
    a: ['F32', [2, 2], numbers, 'setFloat32', 4],
    b: ['F64', [2, 2], numbers, 'setFloat64', 8],
    c: ['F16', [2, 2], bits.F16, 'setUint16', 2],
    d: ['BF16', [2, 2], bits.BF16, 'setUint16', 2],
  });
  for (const name of ['a', 'b', 'c', 'd'])
    assert.deepEqual([...readWeights(file).get(name, [2, 2]).values], numbers, name);
});
test('a product of matrices equals the sums of its definition', () => {
  for (const m of [1, 2, 3, 4, 5, 9]) {
    const [x, w, bias] = [tensor([2, 3, 7]), tensor([2, m, 7]), tensor([m])];
    const y = timesTransposed(x, w, bias);
    assert.deepEqual(y.shape, [2, 3, m]);
    for (let batch = 0; batch < 2; batch++)
      for (let i = 0; i < 3; i++)
        for (let j = 0; j < m; j++) {
          let sum = bias.values[j];
          for (let k = 0; k < 7; k++) sum += x.values[(batch * 3 + i) * 7 + k] * w.values[(batch * m + j) * 7 + k];
          assert.ok(Math.abs(y.values[(batch * 3 + i) * m + j] - sum) < 1e-6);
        }
  }
});
test('transposing twice gives the tensor back, and joined parts are those that were joined', () => {
  const x = tensor([2, 3, 4, 5]);
  for (const [a, b] of [
    [1, 2],
    [-1, -2],
    [0, 3],
  ]) {
    assert.notDeepEqual(transposed(x, a, b).values, x.values);
    assert.deepEqual(transposed(transposed(x, a, b), a, b), x);
  }
  const [y, z] = [tensor([2, 1, 3]), tensor([2, 2, 3])];
  const both = joined([y, z], 1);
  assert.deepEqual(both.shape, [2, 3, 3]);
  assert.deepEqual([...both.values.subarray(9, 12)], [...y.values.subarray(3, 6)]);
  assert.deepEqual([...both.values.subarray(12)], [...z.values.subarray(6)]);
});
test('an unsupported model, and weights that do not fit it, are errors that name what is wrong', () => {
  const model = (about, tensors) => new LocalModel({ model: about }, safetensors(tensors));
  const { weight, bias } = weights;
  assert.throws(() => model({ kind: 'linear' }, weights), /kind 'linear' does not run in the page/);
  assert.throws(() => model({ kind: 'perceptron', inputs: 2, invented: 1 }, weights), /invented = 1/);
  assert.throws(() => model({ kind: 'recurrent', cell: 'gru' }, weights), /cell = "gru"/);
  assert.throws(() => model({ kind: 'transformer', positions: 'alibi' }, weights), /positions = "alibi"/);
  assert.throws(() => model({ kind: 'perceptron', inputs: 3 }, weights), /weight has shape 2, but config.json says 3/);
  assert.throws(() => model(PERCEPTRON.model, { weight }), /contain no bias/);
  assert.throws(() => model(PERCEPTRON.model, { weight, bias, more: bias }), /does not use these weights: more/);
  assert.throws(() => model(PERCEPTRON.model, { weight: ['I8', [2], [1, 2], 'setInt8', 1] }), /dtype I8/);
  const whole = safetensors(weights);
  assert.throws(() => new LocalModel(PERCEPTRON, whole.slice(0, -1)), /incomplete/);
  assert.throws(() => new LocalModel(PERCEPTRON, whole.slice(0, 20)), /incomplete/);
});
test('a wrong edit is an error that says what is wrong', () => {
  const model = new LocalModel(PERCEPTRON, safetensors(weights));
  const run = edit => () => model.run({ x: [1, 1] }, { edit });
  assert.equal(model.run({ x: [1, 1] }).get('perceptron.sum').values[0], -0.5);
  assert.equal(model.run({ x: [1, 1] }, { edit: { '*.sum': 2 } }).get('perceptron.output').values[0], 1);
  assert.throws(() => model.run({ x: [1] }), /got 1 numbers, but this model takes 2/);
  assert.throws(run({ '*.summ': 1 }), /'\*\.summ' matches no point.*output, sum/);
  assert.throws(run({ '*.sum@x': 1 }), /@ must be followed by one position/);
  assert.throws(run({ '*.sum': tensor([2]) }), /shape 2, not 1/);
  assert.throws(run({ '*.sum': atIndex([1], () => 0) }), /index 1 is out of range: the shape is 1/);
  assert.throws(() => model.run({ x: [1, 1] }).get('sum'), /no point 'sum'.*output, sum/);
});
test('a position of a pattern selects one step of a loop', () => {
  const trace = new Trace({ edit: { 'x@1': 5, '?@2': 7 } });
  const scope = trace.scope();
  for (const t of [2, 1, 0]) scope.step(t)('x', new Tensor([1, 2]));
  assert.deepEqual([...trace.get('x').values], [0, 0, 5, 5, 7, 7]);
  assert.deepEqual(trace.get('x').shape, [1, 3, 2]);
});
test('a token is looked up as it is spaced, and a tokenizer of another kind or model is an error', () => {
  const vocab = { '<pad>': 0, '<s>': 1, '</s>': 2, '<unk>': 3, '▁a': 4 };
  const make = (kind, more) => new Tokenizer({ model: { vocab: { ...vocab, ...more } } }, { kind, fingerprint: 'b' });
  assert.deepEqual(make('word').encode('a b'), [4, 3]);
  const both = make('word', { a: 5, '▁(': 6 }); // with a space before it, and without one
  assert.deepEqual(both.encode('a (a('), [4, 6, 5, 6]);
  assert.throws(() => make('word').encode('a \ud800'), /half of a surrogate pair/);
  assert.throws(() => make('word').decode([5]), /no token 5; ids must be 0 to 4/);
  assert.throws(() => make('bpe'), /kind 'bpe' does not run in the page/);
  assert.throws(() => make('word', { b: 6 }), /from 0 on/);
  const about = { ...PERCEPTRON, tokenizers: { tokenizer: 'a' } };
  assert.throws(
    () => new LocalModel(about, safetensors(weights), { tokenizer: make('word') }),
    /not trained with this/,
  );
});
test('the largest values are found in order, the first of equal ones first', () => {
  assert.deepEqual(top([1, 3, -Infinity, 3, 2], 3), [1, 3, 4]);
  assert.deepEqual(top([1, 3], 5), [1, 0]);
  const values = Array.from({ length: 200 }, random);
  const sorted = values.map((_, i) => i).sort((a, b) => values[b] - values[a]);
  assert.deepEqual(top(values, 20), sorted.slice(0, 20));
});
