// Python's values in JavaScript, which translated lessons use: classes derived from float and str, and JSON.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as p from '../../../src/translucid/studio/static/js/python/python.js';

const derived = (base, methods = []) => p.makeClass('Derived', [base], false, [], [], methods);

test('a class derived from float computes with its number', () => {
  const three = p.call(derived(p.B.float), 3);
  assert.equal(p.sub(1, three), -2);
  assert.equal(p.sub(three, 1), 2);
  assert.equal(p.div(12, three), 4);
  assert.equal(p.pow(2, three), 8);
  assert.equal(p.mul(three, three), 9);
  assert.equal(p.neg(three), -3);
  assert.equal(p.B.abs(three), 3);
  assert.equal(p.B.float(three), 3);
  assert.ok(p.lt(three, 4) && p.gt(4, three) && !p.lt(4, three) && p.le(three, three));
  assert.ok(p.eq(three, 3) && p.eq(3, three) && p.ne(three, 4));
  assert.ok(p.isinstance(three, p.B.float) && !p.isinstance(three, p.B.str));
  assert.equal(p.format(three, '.2f'), '3.00');
});

test('a class derived from str has the methods of its text', () => {
  const word = p.call(derived(p.B.str), 'Nicht');
  assert.equal(p.method(word, 'lower'), 'nicht');
  assert.ok(p.isIn('ich', word) && p.notIn('x', word));
  assert.ok(p.eq(word, 'Nicht') && p.isIn(word, ['Nicht']));
  assert.equal(p.len(word), 5);
  assert.equal(p.add(word, '!'), 'Nicht!');
  assert.equal(p.add('!', word), '!Nicht');
  assert.equal(p.str(word), 'Nicht');
  assert.ok(p.isinstance(word, p.B.str));
});

test('a derived class can change how its values are formatted', () => {
  const shown = p.def('__format__', 'self spec', (self, spec) => `<${p.format(self.value, spec)}>`);
  const one = p.call(derived(p.B.float, [['__format__', 'method', shown]]), 1);
  assert.equal(p.format(one), '<1>');
  assert.equal(p.format(one, '.1f'), '<1.0>');
});

test('errors of some kinds are suppressed, others are not', () => {
  const { suppress } = p.contextlib;
  const [kept, other] = [p.call(p.B.ValueError, 'a'), p.call(p.B.TypeError, 'b')];
  p.leave(suppress(p.B.ValueError), kept);
  p.leave(suppress(p.B.ValueError), null);
  assert.throws(() => p.leave(suppress(p.B.ValueError), other));
});

test('JSON becomes dicts and lists, and back', () => {
  const json = { a: [1, { b: null }], c: 'd' };
  const made = p.fromJson(json);
  assert.equal(p.get(p.get(p.get(made, 'a'), 1), 'b'), null);
  assert.deepEqual(p.toJson(made), json);
  const query = p.parse.parse_qs('a=1&b=&a=2%20x');
  assert.deepEqual(p.toJson(query), { a: ['1', '2 x'] });
});
