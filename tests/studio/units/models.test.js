// The answer of a run by its kind, and the model to compare with.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isOpened, numbersOf, otherModel, sharesOf, wordsOf } from '../../../src/translucid/studio/static/js/answer.js';

const run = answer => ({ answer });

test('an answer is read as numbers, words or probabilities, and only as its own kind', () => {
  assert.deepEqual(numbersOf(run([1.5, -2])), [1.5, -2]);
  assert.deepEqual(numbersOf(run(['Hund', '2'])), []);
  assert.deepEqual(wordsOf(run(['Der', 'Hund'])), ['Der', 'Hund']);
  assert.deepEqual(sharesOf(run({ good: 0.75, bad: 0.25 })), { good: 0.75, bad: 0.25 });
  for (const answer of ['Der Hund', null]) {
    assert.deepEqual(numbersOf(run(answer)), []);
    assert.deepEqual(wordsOf(run(answer)), []);
    assert.deepEqual(sharesOf(run(answer)), {});
  }
});
test('a number that is not finite stays in its place and is not shown as 0', () => {
  assert.deepEqual(numbersOf(run([1, null, 3])), [1, NaN, 3]);
});
test('a model is compared with one that can be run, for the same task if possible', () => {
  const [one, training, tagger, two] = [
    { m: 'one', task: 'translate' },
    { m: 'training', task: 'translate', unopened: true },
    { m: 'tagger', task: 'tag' },
    { m: 'two', task: 'translate' },
  ];
  const others = [training, tagger, two].filter(isOpened);
  assert.equal(otherModel(one, others, null), two);
  assert.equal(otherModel(one, others, 'tagger'), tagger);
  assert.equal(otherModel(one, others, 'training'), two);
  assert.equal(otherModel(one, [tagger], null), tagger);
  assert.equal(otherModel(one, [], null), undefined);
});
