// Help with typing: known words, words that fit between two words, replacements and completions.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { between, inputHelp, knownWords } from '../../../src/translucid/studio/static/js/words.js';

const LINES = ['a very old man', 'a letter .', 'a very big egg', 'an egg', 'a letter', 'a very old egg'];

test('words that fit on both sides come first, then the more frequent ones', () => {
  const known = knownWords({ texts: LINES, vocabulary: ['unused'] });
  assert.deepEqual([...new Set(between(known, 'a', ''))], ['letter', 'very', 'egg', 'man']);
  assert.deepEqual(known.words.slice(0, 2), ['a', 'very']);
});
test('without texts, the words are those of the vocabulary', () => {
  assert.deepEqual(knownWords({ texts: [], vocabulary: ['b', 'a'] }), { words: ['b', 'a'], pairs: [] });
});
test('at most four replacements are offered, and none that is unknown itself; an empty one if none fits', async () => {
  const known = knownWords({ texts: LINES, vocabulary: [] });
  const words = new Set(known.words);
  // a word is unknown if no text contains it; its place includes the space before it
  const unknown = async texts =>
    texts.map(text =>
      [...text.matchAll(/ ?[a-z]+/g)]
        .filter(([word]) => !words.has(word.trim()))
        .map(({ 0: word, index }) => [index, index + word.length]),
    );
  const { unknown: found, completions } = await inputHelp(known, unknown, 'a lettr and xyzzy', 7);
  assert.deepEqual(
    found.map(({ text, from, to }) => [text, from, to]),
    [
      ['lettr', 1, 7],
      ['and', 7, 11],
      ['xyzzy', 11, 17],
    ],
  );
  assert.equal(found[0].replacements[0], ' letter');
  for (const { replacements } of found) assert.ok(replacements.length <= 4);
  assert.deepEqual(completions, []);
  const nothing = async texts => texts.map(text => [[0, text.length]]);
  assert.deepEqual((await inputHelp(known, nothing, 'q', 0)).unknown[0].replacements, ['']);
});
