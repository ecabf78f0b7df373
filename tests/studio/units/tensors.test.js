// Tensors of a saved session: cut, pooled, encoded, and decoded again.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { frames } from '../../../src/translucid/studio/static/js/frames.js';
import { cutOut, scaledFrame, pooled, tensors } from '../../../src/translucid/studio/static/js/recorded_tensors.js';
import { randomFrom } from './random.js';

const random = randomFrom(7);
const AXES = ['heads', 'queries', 'keys'];
function tensor(shape, scale = 'signed') {
  const raw = Float32Array.from({ length: shape.reduce((a, b) => a * b, 1) }, () => random() * 2 - 1);
  return { at: 'x', axes: AXES.slice(-shape.length), shape, scale, raw };
}
// A tensor as nested lists, to compare with.
const nested = (values, [size, ...rest]) =>
  size === undefined
    ? values[0]
    : Array.from({ length: size }, (_, i) => {
        const inner = values.length / size;
        return nested(values.slice(i * inner, (i + 1) * inner), rest);
      });

test('an index selects along the leading axes, as in nested lists', () => {
  const x = tensor([3, 4, 5]);
  const all = nested([...x.raw], x.shape);
  const cases = [
    [[], all, ['heads', 'queries', 'keys']],
    [['2'], all[2], ['queries', 'keys']],
    [['1', '3'], all[1][3], ['keys']],
    [['*', '2'], all.map(head => head[2]), ['heads', 'keys']],
    [['1:3', '*', '0:2'], all.slice(1, 3).map(head => head.map(row => row.slice(0, 2))), AXES],
    [['0', '1:2'], [all[0][1]], ['queries', 'keys']],
  ];
  for (const [index, wanted, axes] of cases) {
    const cut = cutOut(x, index);
    assert.deepEqual(nested([...cut.values], cut.shape), wanted, index.join());
    assert.deepEqual(cut.axes, axes);
  }
});
test('an index beyond the shape is an error that names the tensor', () => {
  assert.throws(() => cutOut(tensor([3, 4]), ['3']), /x has shape 3, 4/);
  assert.throws(() => cutOut(tensor([3, 4]), ['*', '2:5']), /x has shape 3, 4/);
});

// Pooling of a matrix, the slow way.
function pooledMatrix(rows, most) {
  const [down, across] = [rows.length, rows[0].length].map((size, k) => Math.ceil(size / Math.min(size, most[k])));
  const found = [];
  for (let i = 0; i < rows.length; i += down) {
    const line = [];
    for (let j = 0; j < rows[0].length; j += across) {
      const block = rows.slice(i, i + down).flatMap(row => row.slice(j, j + across));
      const finite = block.filter(Number.isFinite);
      line.push(finite.length ? finite.reduce((a, b) => (Math.abs(b) > Math.abs(a) ? b : a)) : -Infinity);
    }
    found.push(line);
  }
  return found;
}
test('pooling keeps the number of largest magnitude of each block', () => {
  for (const [shape, most] of [
    [
      [7, 9],
      [3, 4],
    ],
    [
      [8, 3],
      [8, 2],
    ],
    [
      [1, 5],
      [1, 1],
    ],
    [
      [4, 6],
      [9, 9],
    ],
  ]) {
    const x = tensor(shape);
    x.raw[0] = -Infinity;
    const { shape: left, values } = pooled({ ...x, values: x.raw }, most);
    assert.deepEqual(nested([...values], left), pooledMatrix(nested([...x.raw], shape), most), `${shape} to ${most}`);
  }
});
test('a block without finite numbers stays empty', () => {
  const values = Float32Array.from([-Infinity, NaN, 1, -2]);
  assert.deepEqual([...pooled({ shape: [1, 4], axes: AXES, values }, [1, 2]).values], [-Infinity, -2]);
});
test('the leading axes are not pooled, and one size counts for both others', () => {
  const x = tensor([5, 6, 6]);
  const { shape, values } = pooled({ ...x, values: x.raw }, [3]);
  assert.deepEqual(shape, [5, 3, 3]);
  const [first] = nested([...values], shape);
  assert.deepEqual(first, pooledMatrix(nested([...x.raw], x.shape)[0], [3, 3]));
});

test('encoded tensors are decoded to the same numbers', () => {
  for (const scale of ['signed', 'positive', 'unit'])
    for (const form of ['f32', 'u8']) {
      const x = tensor([3, 5], scale);
      if (scale !== 'signed') x.raw.forEach((value, k) => (x.raw[k] = Math.abs(value)));
      x.raw[4] = -Infinity;
      const bytes = scaledFrame(x, { ...x, values: x.raw }, form);
      const [frame] = frames(bytes.buffer);
      assert.equal(frame.at, 'x');
      const step = form === 'u8' ? (frame.hi - frame.lo) / 254 : 1e-7;
      x.raw.forEach((value, k) => {
        const found = frame.number(k);
        if (Number.isFinite(value)) assert.ok(Math.abs(found - value) <= step, `${scale} ${form} ${k}`);
        else assert.ok(!Number.isFinite(found));
      });
    }
});
test('the answer has a frame for each point, cut and pooled', async () => {
  const x = tensor([2, 4, 6]);
  const given = new URLSearchParams('at=x&at=y&index=1&pool=2,3&as=f32');
  const points = new Map([
    ['x', x],
    ['y', { ...tensor([2, 4, 6]), at: 'y' }],
  ]);
  const found = frames(await tensors(points, given));
  assert.deepEqual(
    found.map(frame => [frame.at, frame.shape, frame.whole, frame.index]),
    [
      ['x', [2, 3], [4, 6], [1]],
      ['y', [2, 3], [4, 6], [1]],
    ],
  );
  assert.deepEqual(found[0].table(), pooledMatrix(nested([...x.raw], x.shape)[1], [2, 3]));
});
test('rows and tables below an index', () => {
  const x = tensor([2, 3, 4]);
  const [frame] = frames(scaledFrame(x, { ...x, values: x.raw }, 'f32').buffer);
  const all = nested([...x.raw], x.shape);
  assert.deepEqual(frame.row(1, 2), all[1][2]);
  assert.deepEqual(frame.table(1), all[1]);
  assert.deepEqual(frame.table(), all.flat());
});
test('half precision is decoded as IEEE 754 defines it', () => {
  const known = [
    [0x3c00, 1],
    [0xc000, -2],
    [0x7bff, 65504],
    [0x0001, 2 ** -24],
    [0x0400, 2 ** -14],
    [0x3555, 0.333251953125],
    [0x7c00, Infinity],
    [0xfc00, -Infinity],
  ];
  const head = JSON.stringify({ dtype: 'f16', shape: [known.length], lo: 0, hi: 1 });
  const padded = head + ' '.repeat((8 - ((head.length + 4) % 8)) % 8);
  const out = new Uint8Array(4 + padded.length + 2 * known.length);
  new DataView(out.buffer).setUint32(0, padded.length, true);
  out.set(new TextEncoder().encode(padded), 4);
  known.forEach(([bits], k) => new DataView(out.buffer).setUint16(4 + padded.length + 2 * k, bits, true));
  const [frame] = frames(out.buffer);
  assert.deepEqual(
    frame.row(),
    known.map(([, value]) => value),
  );
});
