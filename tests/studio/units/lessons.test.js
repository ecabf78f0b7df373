// Which stops of a lesson apply, and help with typing a sentence.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  bestFirst,
  countApplying,
  nearestStop,
  reasons,
  skippedBefore,
  stopNamed,
} from '../../../src/translucid/studio/static/js/lesson_stops.js';
import { markedPieces, named } from '../../../src/translucid/studio/static/js/parts/sentence_form.js';

// A stop for each letter: x applies, any other is the reason why not.
const stops = letters =>
  [...letters].map((letter, k) => ({ title: `Stop ${k + 1}`, lacks: letter === 'x' ? undefined : `reason ${letter}` }));

test('the next and the previous stop that apply', () => {
  const steps = stops('xaxbbx');
  assert.deepEqual(
    [1, 2, 3, 4, 5, 6].map(place => nearestStop(steps, place, 1)),
    [3, 3, 6, 6, 6, null],
  );
  assert.deepEqual(
    [1, 2, 3, 4, 5, 6].map(place => nearestStop(steps, place, -1)),
    [null, 1, 1, 3, 3, 3],
  );
  assert.equal(nearestStop(stops('aa'), 0, 1), null);
});
test('the stops just before one that do not apply', () => {
  const titles = (letters, place) => skippedBefore(stops(letters), place).map(step => step.title);
  assert.deepEqual(titles('xaxbbx', 6), ['Stop 4', 'Stop 5']);
  assert.deepEqual(titles('xaxbbx', 3), ['Stop 2']);
  assert.deepEqual(titles('aax', 3), ['Stop 1', 'Stop 2']);
  assert.deepEqual(titles('xx', 2), []);
});
test('stops are grouped by the reason why they do not apply', () => {
  assert.equal(reasons(stops('aba')), 'stop 1, stop 3: reason a; stop 2: reason b');
});
test('the lesson with the largest share of stops that apply comes first', () => {
  const lessons = ['xaaa', 'xx', 'xa'].map(letters => ({ name: letters, steps: stops(letters) }));
  assert.deepEqual(
    bestFirst(lessons).map(each => each.name),
    ['xx', 'xa', 'xaaa'],
  );
  assert.deepEqual(
    lessons.map(each => each.name),
    ['xaaa', 'xx', 'xa'],
  ); // unchanged
  assert.equal(countApplying(stops('xaxb')), 2);
});
test('an address names a lesson and a stop', () => {
  assert.deepEqual(stopNamed('first-look.12'), { id: 'first-look', place: 12 });
  for (const wrong of [null, '', 'clock', 'clock.', 'clock.x', 'a b.1'])
    assert.deepEqual(stopNamed(wrong), { id: undefined, place: NaN }, String(wrong));
});

test('unknown words are marked without the space before them, and nothing is lost', () => {
  const text = 'I am happy now.';
  const unknown = [
    { from: 4, to: 10 },
    { from: 14, to: 15 },
  ];
  const found = markedPieces(text, unknown);
  assert.equal(found.map(({ piece }) => piece).join(''), text);
  assert.deepEqual(
    found.filter(each => each.isUnknown).map(({ piece }) => piece),
    ['happy', '.'],
  );
  assert.deepEqual(markedPieces(text, []), [{ piece: text, isUnknown: false }]);
});
test('a replacement says what it does', () => {
  assert.deepEqual(
    [' glad', '', ' .', '.'].map(word => named(word, word.trim() === '.' ? '.' : 'happy')),
    ['glad', 'Remove', 'Add a space', 'Remove the space'],
  );
});
