// The geometry of ribbons, and which lines of attention are drawn.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FAINT, strongest, topOfEach } from '../../../src/translucid/studio/static/js/parts/attention_lines.js';
import { bandsOf } from '../../../src/translucid/studio/static/js/parts/ribbons.js';
import { randomFrom } from './random.js';

const random = randomFrom(3);
function attention(queries, keys) {
  return Array.from({ length: queries }, () => {
    const row = Array.from({ length: keys }, () => random() ** 3);
    const sum = row.reduce((a, b) => a + b, 0);
    return row.map(value => value / sum);
  });
}
const near = (a, b) => assert.ok(Math.abs(a - b) < 1e-6, `${a} is not ${b}`);

for (const [queries, keys, height] of [
  [6, 6, 400],
  [3, 9, 300],
  [12, 2, 500],
  [1, 1, 200],
])
  test(`${queries} queries and ${keys} keys in ${height} px`, () => {
    const weights = attention(queries, keys);
    const { pitch, one, got, tops, mids, bands, floor } = bandsOf(weights, height, 1);
    near(
      got.reduce((a, b) => a + b, 0),
      queries,
    );
    // All bands of a query together are its bar; those of a key follow one another within the key's bar.
    for (let i = 0; i < queries; i++) {
      const own = bands.filter(band => band.i === i);
      const drawn = weights[i].filter(weight => weight > floor);
      assert.equal(own.length, drawn.length);
      near(
        own.reduce((sum, band) => sum + band.thick, 0),
        one * drawn.reduce((a, b) => a + b, 0),
      );
      assert.ok(own[0].from >= (i + 0.5) * pitch - one / 2 - 1e-9);
      assert.ok(own.at(-1).from + own.at(-1).thick <= (i + 0.5) * pitch + one / 2 + 1e-9);
    }
    for (let j = 0; j < keys; j++) {
      const own = bands.filter(band => band.j === j);
      for (const [k, band] of own.entries()) {
        assert.ok(band.to >= (k ? own[k - 1].to + own[k - 1].thick : tops[j]) - 1e-9);
        assert.ok(band.to + band.thick <= tops[j] + got[j] * one + 1e-6);
      }
      near(mids[j], tops[j] + (got[j] * one) / 2);
      if (j) assert.ok(tops[j] >= tops[j - 1] + got[j - 1] * one, 'the bars of two keys overlap');
    }
    assert.ok(tops[0] >= -1e-9 && tops.at(-1) + got.at(-1) * one <= height + 1e-6, 'a bar leaves the picture');
  });
test('keys that get the same are spread evenly', () => {
  const { mids } = bandsOf(Array(5).fill(Array(4).fill(0.25)), 400, 1);
  mids.forEach((y, j) => near(y, (j + 0.5) * 100));
});
test('of many weights only the strongest 400 are bands', () => {
  const weights = attention(40, 40);
  const { bands, floor } = bandsOf(weights, 900, 1);
  const sorted = weights.flat().sort((a, b) => b - a);
  assert.equal(bands.length, 400);
  assert.equal(floor, sorted[400]);
});

test('the strongest lines are drawn last, faint ones not at all, and the others are counted', () => {
  const weights = [
    [0.7, 0.299, 0.001],
    [0.1, 0.4, 0.5],
  ];
  assert.deepEqual(strongest(weights, 10), {
    lines: [
      [0.1, 1, 0],
      [0.299, 0, 1],
      [0.4, 1, 1],
      [0.5, 1, 2],
      [0.7, 0, 0],
    ],
    left: 0,
  });
  assert.deepEqual(strongest(weights, 2), {
    lines: [
      [0.5, 1, 2],
      [0.7, 0, 0],
    ],
    left: 3,
  });
  assert.ok(strongest([[FAINT, FAINT / 2]], 9).lines.length === 1);
});
test('the strongest few of each row', () => {
  const { lines, left } = topOfEach(
    [
      [0.1, 0.6, 0.3],
      [0.0001, 0.9999, 0],
    ],
    2,
  );
  assert.deepEqual(lines, [
    [0.3, 0, 2],
    [0.6, 0, 1],
    [0.9999, 1, 1],
  ]);
  assert.equal(left, 0);
});
