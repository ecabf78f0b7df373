// The landing page's live picture: a model translates a typed sentence in the page, and lines show the attention of
// each word. docs/site/landing.py bundles this module with those that it imports.
import { h, s, setAttributes } from '../../../src/translucid/studio/static/js/dom.js';
import { logSoftmax, top } from '../../../src/translucid/studio/static/js/local/beam.js';
import { unknownIn } from '../../../src/translucid/studio/static/js/local/example.js';
import { ownTarget } from '../../../src/translucid/studio/static/js/local/generate.js';
import { openModel } from '../../../src/translucid/studio/static/js/local/model.js';
import { onSystemTheme, otherTheme, setTheme } from '../../../src/translucid/studio/static/js/theme.js';

/** @typedef {{ layer: number; head: number; weights: number[][] }} Head */
/** @typedef {{ text: string; source: string[]; written: string[]; unknown: number[]; heads: Head[];
 *   likely: [string, number][][] }} Picture */

const PATTERN = 'decoder.layers.*.cross_attention.pattern';
const SHOWN = 3; // words, and attended words, of each position
const ROW = 32; // of the picture's own units
const FAINT = 0.02;

/** @type {(id: string) => HTMLElement} */
const get = id => /** @type {HTMLElement} */ (document.getElementById(id));
/** @type {(tensor: { values: Values; width: number }) => Values[]} */
const rowsOf = ({ values, width }) =>
  Array.from({ length: values.length / width }, (_, i) => values.subarray(i * width, (i + 1) * width));

// ---- numbers

/** @type {(model: LocalModel, text: string) => Picture} */
function computed(model, text) {
  const example = model.example(text, ownTarget(model, text));
  const trace = model.run(example.inputs, { keep: [PATTERN, 'head.logits'] });
  const { source, follows } = example.words;
  const { tokenizer } = model.tokenizers;
  const heads = trace
    .names()
    .filter(name => name !== 'head.logits')
    .flatMap((name, layer) => {
      const rows = rowsOf(trace.get(name)).map(row => [...row]);
      const count = rows.length / follows.length;
      return Array.from({ length: count }, (_, head) => ({
        ...{ layer, head },
        weights: rows.slice(head * follows.length, (head + 1) * follows.length),
      }));
    });
  const likely = rowsOf(trace.get('head.logits')).map(logits => {
    const logProbs = logSoftmax(logits);
    const ids = top(logProbs, SHOWN);
    return tokenizer.pieces(ids).map((word, i) => /** @type {[string, number]} */ ([word, Math.exp(logProbs[ids[i]])]));
  });
  return { text, source, written: follows, unknown: unknownIn(example).source, heads, likely };
}

// ---- the picture

const first = JSON.parse(get('first').textContent ?? '');
/** @type {Picture} */
let picture = first;
/** @type {number} the chosen German word */
let chosen = first.row;

const chosenHead = () => picture.heads[Number(/** @type {HTMLSelectElement} */ (get('head')).value)];
/** @type {(word: string) => string} */
const kind = word => (/^<.+>$/.test(word) ? 'special' : 'word');

function draw() {
  const { source, written, unknown } = picture;
  get('source').replaceChildren(
    ...source.map((word, i) => h('li', { class: `${kind(word)}${unknown.includes(i) ? ' unknown' : ''}` }, word)),
  );
  get('written').replaceChildren(
    ...written.map((word, i) => {
      const choose = () => choice(i);
      return h(
        'li',
        h(`button.${kind(word)}`, { type: 'button', onclick: choose, onmouseenter: choose, onfocus: choose }, word),
      );
    }),
  );
  const studio = get('studio');
  const [page, query] = /** @type {string} */ (studio.getAttribute('href')).split('?');
  const asked = new URLSearchParams(query);
  asked.set('text', picture.text);
  studio.setAttribute('href', `${page}?${asked}`);
  choice(Math.min(chosen, written.length - 1));
}
/** @type {(row: number) => void} */
function choice(row) {
  chosen = row;
  const { source, written, likely, text } = picture;
  const { layer, head, weights } = chosenHead();
  get('written')
    .querySelectorAll('button')
    .forEach((button, at) => button.setAttribute('aria-pressed', String(at === row)));
  const most = top(Float32Array.from(weights[row]), SHOWN);
  get('source')
    .querySelectorAll('li')
    .forEach((word, at) => word.classList.toggle('lit', weights[row][at] > 0.3));
  const rows = Math.max(source.length, written.length);
  const svg = get('attention');
  setAttributes(svg, { viewBox: `0 0 100 ${rows * ROW}` });
  svg.style.setProperty('--rows', String(rows));
  const lines = weights.flatMap((each, query) => each.map((weight, key) => ({ weight, query, key })));
  svg.replaceChildren(
    ...lines
      .filter(({ weight }) => weight >= FAINT)
      .sort((a, b) => Number(a.query === row) - Number(b.query === row))
      .map(({ weight, query, key }) => {
        const [from, to] = [key, query].map(at => (at + 0.5) * ROW);
        return s(query === row ? 'path.lit' : 'path', {
          d: `M0 ${from}C50 ${from} 50 ${to} 100 ${to}`,
          'stroke-width': 0.75 + 7 * weight,
          'stroke-opacity': Math.max(0.15, weight),
        });
      }),
  );
  get('attends').replaceChildren('“', h('em', written[row]), '” attends to');
  get('weights').replaceChildren(...most.map(key => bar(source[key], weights[row][key])));
  get('predicts').textContent = 'Likely next words';
  get('likely').replaceChildren(...likely[row].map(([word, share]) => bar(word, share)));
  get('python').textContent = [
    'import translucid as tl',
    `trace = tl.load("demo:translate").trace(${JSON.stringify(text)})`,
    `trace["${PATTERN.replace('*', String(layer))}"][0, ${head}, ${row}, ${most[0]}]  # ${weights[row][most[0]].toFixed(4)}`,
  ].join('\n');
}
/** @type {(word: string, share: number) => HTMLElement} */
const bar = (word, share) =>
  h(
    'li',
    h(`span.${kind(word)}`, word),
    s(
      'svg',
      { viewBox: '0 0 100 1', preserveAspectRatio: 'none', 'aria-hidden': 'true' },
      s('rect', { width: 100 * share, height: 1 }),
    ),
    h('data', { value: share }, `${(100 * share).toFixed(1)} %`),
  );

// ---- the typed sentence

/** @type {Promise<LocalModel> | undefined} */
let opened;
const translator = () => {
  opened ??= openModel('_static/translate');
  opened.catch(() => {
    opened = undefined; // the next sentence tries again
  });
  return opened;
};
/** @type {(...content: Content[]) => void} */
const say = (...content) => {
  const filled = /** @type {(string | Node)[]} */ (content.flat());
  get('message').replaceChildren(...filled);
};
/** @type {() => string} */
const typed = () => /** @type {HTMLInputElement} */ (get('text')).value;

async function answer() {
  const text = typed();
  if (!text.trim()) return say('Type an English sentence.');
  try {
    const model = await translator();
    if (typed() !== text) return; // a newer sentence is being answered
    picture = computed(model, text);
    draw();
    document.documentElement.dataset.answered = text; // for tests
    const unknown = picture.unknown.map(i => `“${picture.source[i]}”`);
    if (!unknown.length) return say();
    say(
      `The model has never seen ${unknown.join(', ')}. It knows only the words of Toyland, such as dog, garden, old and reads.`,
    );
  } catch (error) {
    const local = location.protocol === 'file:';
    say(
      local
        ? 'Browsers run models only in pages from a web server: python -m http.server, in the folder of this file.'
        : `The sentence could not be translated: ${error instanceof Error ? error.message : error}`,
    );
  }
}
// Answer the newest text, after the browser has drawn the typed letter.
let waiting = false;
function answerSoon() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() =>
    setTimeout(() => {
      waiting = false;
      answer();
    }),
  );
}

// ---- the rest of the page

/** @type {(pre: Element) => void} */
function addCopyButton(pre) {
  const code = pre.querySelector('code');
  const button = h('button', { type: 'button', 'aria-label': `Copy ${code?.textContent}` }, 'Copy');
  button.addEventListener('click', async () => {
    const copied = await navigator.clipboard.writeText(code?.textContent ?? '').then(
      () => true,
      () => false, // in pages from disk, and where the browser forbids it
    );
    if (!copied && code) getSelection()?.selectAllChildren(code);
    button.textContent = copied ? 'Copied' : 'Selected';
    setTimeout(() => {
      button.textContent = 'Copy';
    }, 2000);
  });
  pre.append(button);
}
function nameTheme() {
  get('theme').textContent = document.documentElement.dataset.theme === 'dark' ? 'Light' : 'Dark';
}

get('head').append(
  ...picture.heads.map(({ layer, head }, i) =>
    h('option', { value: i, selected: layer === first.layer && head === first.head }, `layer ${layer}, head ${head}`),
  ),
);
const input = /** @type {HTMLInputElement} */ (get('text'));
input.value = picture.text;
draw();
get('live').hidden = false;
document.querySelectorAll('.commands pre').forEach(addCopyButton);

input.addEventListener('input', answerSoon);
input.form?.addEventListener('submit', event => {
  event.preventDefault();
  answer();
});
document.querySelector('.examples')?.addEventListener('click', ({ target }) => {
  if (!(target instanceof HTMLButtonElement)) return;
  input.value = target.textContent ?? '';
  answer();
});
get('head').addEventListener('change', () => choice(chosen));
get('theme').hidden = false;
nameTheme();
get('theme').addEventListener('click', () =>
  otherTheme(theme => {
    document.documentElement.dataset.theme = theme;
    nameTheme();
  }),
);
onSystemTheme(() => {
  setTheme();
  nameTheme();
});
if (location.protocol !== 'file:') answer();
