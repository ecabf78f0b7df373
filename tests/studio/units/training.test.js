// What the page keeps of a training run, numbers as texts, and checks of a link.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { twoDigits, fixed, num, signed } from '../../../src/translucid/studio/static/js/ink.js';
import { oneOf, between, indexBelow, invalidKeys } from '../../../src/translucid/studio/static/js/route.js';
import { thinned, statusText } from '../../../src/translucid/studio/static/js/training.js';

test('neighbours are merged to their mean with the minimum and maximum of both', () => {
  const points = [1, 2, 3, 4, 5].map(step => [step, step * 10, step * 10 - 1, step * 10 + 1, 0.1 * step]);
  assert.deepEqual(thinned(points, 5), points);
  const [first, second, third] = thinned(points, 4);
  assert.deepEqual(first, [2, 15, 9, 21, 0.2]);
  assert.deepEqual(second, [4, 35, 29, 41, 0.4]);
  assert.deepEqual(third, points[4]);
});
test('a loss that is not finite does not hide its neighbour', () => {
  const [point] = thinned(
    [
      [1, NaN, NaN, NaN, 0],
      [2, 3, 3, 3, 0],
    ],
    1,
  );
  assert.deepEqual(point, [2, 3, 3, 3, 0]);
});
test('the state of a run in words', () => {
  const data = {
    about: { steps: 100, folder: 'my runs/a', recorded: true },
    points: [[40]],
    valid: [],
    state: 'interrupted',
    why: '',
  };
  assert.deepEqual(statusText(data), [
    'Stopped and saved after step 40 of 100',
    "continue with: translucid resume 'my runs/a'",
  ]);
  assert.match(statusText({ ...data, state: 'training', lost: true })[1], /does not respond/);
});

test('a number that is not 0 is never written as 0', () => {
  for (const value of [0.0004, -3e-9, 1e-300, 0.0051]) assert.notEqual(Number(num(value, 2).replace('−', '-')), 0);
  assert.deepEqual(
    [num(0), fixed(-0.001), fixed(-Infinity), twoDigits(0.309), twoDigits(12.3), signed(1.5)],
    ['0.00', '0.00', '−∞', '.31', '12', '+1.50'],
  );
});

test('values of a link that are not allowed are named with what is allowed', () => {
  assert.equal(oneOf('a', 'b')('b'), '');
  assert.equal(oneOf('a', 'b')('c'), 'choose a, b');
  assert.deepEqual(
    ['1', '0.5', '2.1', '-1', 'x'].map(value => between(0.5, 2)(value) === ''),
    [true, true, false, false, false],
  );
  assert.equal(indexBelow('heads', 4)('4'), 'heads 0 to 3 are there');
  const tokens = { source: ['a', 'b'], target: [], features: [] };
  const found = {
    all: [{ m: 'a' }],
    model: { config: { heads: 2, layers: 3 } },
    run: { points: [{ at: 'encoder.embedding.lookup' }], tokens },
    lessons: [],
    params: new URLSearchParams('head=5&layer=1&pin=src:7&colour=red&at=encoder.embedding&text=x'),
  };
  assert.deepEqual(invalidKeys('flow', found, '', {}), [
    'head=5 (heads 0 to 1 are there)',
    'pin=src:7 (tokens src:0 to src:1 are there)',
    'colour=red (unknown key)',
  ]);
});
