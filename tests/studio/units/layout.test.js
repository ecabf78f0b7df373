// Rows of words and panes: where they are, and which word is at a place.
import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { isLabelled, spacedLabels } from '../../../src/translucid/studio/static/js/dom.js';
import { state } from '../../../src/translucid/studio/static/js/highlight.js';
import {
  placeBands,
  compressedAreas,
  placePanes,
  windowStart,
  wordAt,
  yWord,
} from '../../../src/translucid/studio/static/js/parts/layout.js';
import { scaledQuery, scaleFor } from '../../../src/translucid/studio/static/js/scale.js';

const words = count => Array.from({ length: count }, (_, i) => `w${i}`);
const band = (key, count) => ({ key, words: words(count), panes: [] });
beforeEach(() => {
  state.pins = [];
});

for (const counts of [[5], [9, 7], [96], [400], [600, 12], [300, 300]])
  test(`bands of ${counts.join(' and ')} words`, () => {
    state.pins = [`src:${Math.floor(counts[0] / 2)}`]; // a long text has words above and below its window
    const bands = counts.map((count, k) => band(k ? 'tgt' : 'src', count));
    const height = placeBands(bands, 900, 1);
    assert.ok(height >= 900);
    let foot = 0;
    for (const each of bands) {
      assert.equal(each.long, each.words.length > 96);
      let last = -Infinity;
      for (let word = 0; word < each.words.length; word++) {
        const y = yWord(each, word);
        assert.ok(y > last, `word ${word} is above the one before it`);
        assert.equal(wordAt(each, y), word, 'the word at its own place');
        last = y;
      }
      assert.ok(yWord(each, 0) > foot, 'bands overlap');
      assert.ok(last < each.y + each.tall + 1);
      foot = last;
    }
    assert.ok(foot < height);
  });
test('a place above the first word or below the last is that word', () => {
  const one = band('src', 8);
  placeBands([one], 600, 1);
  assert.equal(wordAt(one, -100), 0);
  assert.equal(wordAt(one, 1e6), 7);
});
test('the window of a long text contains the pinned word', () => {
  for (const pin of [0, 1, 57, 200, 398, 399]) {
    state.pins = [`src:${pin}`];
    const one = band('src', 400);
    placeBands([one], 900, 1);
    assert.equal(one.first, windowStart(one));
    assert.ok(one.first <= pin && pin < one.first + one.rows, `${pin} is not in the window`);
    assert.ok(one.first >= 0 && one.first + one.rows <= 400);
  }
});
test('the window moves by half of itself, so that a neighbour of a pinned word does not shift it', () => {
  const firsts = Array.from({ length: 300 }, (_, pin) => {
    state.pins = [`src:${pin}`];
    return windowStart({ ...band('src', 400), rows: 20 });
  });
  const steps = new Set(firsts.slice(1).map((first, k) => first - firsts[k]));
  assert.deepEqual([...steps].sort(), [0, 10, 5].sort());
});
test('the compressed areas of a range are outside the window', () => {
  state.pins = ['src:200'];
  const one = band('src', 400);
  placeBands([one], 900, 1);
  const [above, below] = compressedAreas(one, 0, 400);
  assert.ok(one.y0 - above[1] > 2 && below[0] - one.y0 - one.rows * one.pitch > 2);
  assert.deepEqual(compressedAreas(one, one.first, one.first + one.rows), []);
  assert.equal(compressedAreas(one, 0, 10).length, 1);
});

const pane = (kind, more) => ({ kind, at: kind, group: null, label: kind, short: '', points: [], ...more });
for (const kinds of [
  ['tile', 'self', 'tile'],
  ['tile', 'thin', 'self', 'thin', 'tile', 'vector'],
  Array(14).fill('tile'),
])
  for (const roomy of [true, false])
    test(`${kinds.length} panes side by side, ${roomy ? 'roomy' : 'narrow'}`, () => {
      const panes = kinds.map(kind => pane(kind));
      placePanes(panes, 100, 1100, { u: 1, roomy });
      assert.equal(panes[0].x, 100);
      panes.slice(1).forEach((next, k) => assert.ok(next.x >= panes[k].x + panes[k].w - 1e-9, 'panes overlap'));
      assert.ok(panes.at(-1).x + panes.at(-1).w <= 1100 + 1e-6, 'the last pane leaves the row');
    });
test('panes of one group are close together', () => {
  const panes = [pane('tile', { group: 'layer 0' }), pane('tile', { group: 'layer 0' }), pane('tile')];
  placePanes(panes, 0, 900, { u: 1, roomy: true });
  const gap = k => panes[k + 1].x - panes[k].x - panes[k].w;
  assert.ok(gap(0) <= 14 && gap(0) < gap(1));
});

test('every n-th label is shown, and the highlighted one without its neighbours', () => {
  const shown = lit => Array.from({ length: 10 }, (_, i) => i).filter(i => isLabelled(i, 3, lit));
  assert.deepEqual(shown(null), [0, 3, 6, 9]);
  assert.deepEqual(shown(4), [0, 4, 9]);
  assert.deepEqual(shown(6), [0, 3, 6, 9]);
});
test('labels keep their distance, and the highlighted one is always shown', () => {
  const places = [0, 5, 12, 20, 21, 40];
  assert.deepEqual([...spacedLabels(places, 10)], [0, 2, 5]);
  for (const lit of [null, 1, 4]) {
    const shown = [...spacedLabels(places, 10, lit)].map(i => places[i]).sort((a, b) => a - b);
    if (lit !== null) assert.ok(shown.includes(places[lit]));
    shown.slice(1).forEach((y, k) => assert.ok(y - shown[k] >= 10, `${shown} for ${lit}`));
  }
});

test('the page is larger in a window above 1920 x 1080, and for a projector', () => {
  assert.equal(scaleFor(1280, 800, false), 1);
  assert.equal(scaleFor(3840, 2160, false), 2);
  assert.equal(scaleFor(3840, 1080, false), 1); // it would be too high
  assert.equal(scaleFor(1280, 800, true), 1.6);
  assert.equal(20 * 1.6, 16 * scaleFor(1920, 1080, true)); // the text of a large window, 60 % larger
  assert.equal(scaleFor(3840, 2160, true), 2 * scaleFor(1920, 1080, true));
});
test('the limits of media queries grow with the page', () => {
  assert.equal(
    scaledQuery('(max-width: 1180px) and (min-height: 500.5px)', 2),
    '(max-width: 2360px) and (min-height: 1001px)',
  );
  assert.equal(scaledQuery('(prefers-reduced-motion: reduce)', 2), '(prefers-reduced-motion: reduce)');
});
