// Lesson: the tours, what each teaches, and which of its stops do not apply to this model.
import { h, m, s, onHoverOrFocus, unit, widest } from '../dom.js';
import * as api from '../api.js';
import { sentenceContent, stopAt, stationAt, doneIn, isFinished } from '../lesson_strip.js';
import { readout, readoutDefault } from '../readout.js';
import { counted, num } from '../ink.js';
import { link as to } from '../route.js';
import { term } from '../glossary.js';
import { answer } from '../answer.js';
import { withTable, grid } from '../parts/table.js';
import { meanOfHeads } from '../frames.js';
import { applies, bestFirst, countApplying } from '../lesson_stops.js';

/** @type {View} */
export const lesson = {
  name: 'Lesson',
  about: {
    shows:
      'Where to begin: one number of a translation, seven stations from one neuron to a Transformer, and tours ' +
      'of this model.',
    read:
      'Every lesson is a list of stops. A stop opens a view and explains it below the picture; underlined words ' +
      'and numbers show what they mean.',
    terms: ['token', 'layer', 'head', 'query', 'key', '</s>', '<unk>'],
  },
  draw: drawView,
  linkTo: { lesson: null }, // the list of tours is not one of their stops
  keysTitle: 'In a lesson',
  keys: [
    ['Space', 'next stop; from elsewhere, back to the stop'],
    ['Shift Space', 'previous stop'],
  ],
};

/** @type {(stage: HTMLElement, shown: Shown) => Promise<void>} */
async function drawView(stage, context) {
  const { model, run } = context;
  const listed = await api.lessons();
  const [first, ...found] = await Promise.all([
    start(context, listed),
    ...listed.filter(each => !each.start).map(each => api.lesson(run.run, each.id)),
  ]);
  stage.append(
    first,
    h(
      'div.tours',
      bestFirst(found).map(each => tour(each, model)),
    ),
  );
  readoutDefault({ at: ['Choose a station or a lesson'], path: 'lesson' });
}
/** @type {(each: Lesson, model: Model) => HTMLElement} */
function tour(each, model) {
  const count = countApplying(each.steps);
  const first = each.steps.findIndex(applies);
  const all = each.steps.length;
  const others = each.steps.filter(step => !applies(step));
  const who = others.every(step => step.in_sentence) ? 'this sentence' : model.name;
  const told =
    count === all
      ? `${all} stops`
      : count
        ? `${count} of ${all} stops; ${who} lacks the others`
        : `${all} stops, none for ${who}: ${each.steps[0].lacks}`;
  return h(
    'article.panel.tour',
    { 'aria-label': each.name },
    h(
      'header.row',
      h('div', h('h2', each.name), h('p.quiet', told)),
      first < 0 ? null : h('a.begin', { href: stopAt(each.id, first + 1, each.steps[first]) }, 'Begin'),
    ),
    h('p', each.teaches),
    h(
      'ol.stops',
      each.steps.map((step, k) =>
        h(
          'li',
          { class: applies(step) ? null : 'lacking' },
          applies(step)
            ? h('a', { href: stopAt(each.id, k + 1, step) }, step.title)
            : [h('span', step.title), count ? h('span.why', step.lacks) : ''],
        ),
      ),
    ),
  );
}

// ---- start here: one number of a translator, then the stations in order
const calm = () => matchMedia('(prefers-reduced-motion: reduce)').matches;
const NARROW = 860; // px, as in css/views/lesson.css
const ROWS = 30; // of the picture; for a longer text, the page shows an overview
let seen = false; // what was drawn in once need not be again

/** @type {(context: Shown, listed: ListedLesson[]) => Promise<HTMLElement>} */
async function start(context, listed) {
  const stations = listed.filter(each => each.start && each.id !== 'opening');
  // a saved session may lack this number
  const card = await opening(context).catch(error => api.refusal(error) && null);
  return h(
    'div.start',
    card ?? overview(context),
    stations.length > 0 && [
      h(
        'header.row',
        h('h2', stations.length > 6 ? 'Seven stations, from one neuron to a Transformer' : 'Stations for these models'),
        h('p.quiet', 'Each station is a lesson with its own model, and has tasks that the page checks.'),
      ),
      h(
        'ol.stations',
        stations.map((each, k) => station(each, k + 1)),
      ),
    ],
  );
}
/** @type {(each: ListedLesson, number: number) => HTMLElement} */
function station(each, number) {
  const done = doneIn(each.id);
  const over = isFinished(each.id);
  const tasks = `${counted(each.tasks ?? 0, 'task')}${done ? `, ${done} done` : ''}`;
  const href = stationAt(each);
  const card = h(
    'a',
    {
      class: `station${over ? ' finished' : ''}`,
      href,
      'aria-label': `Station ${number}: ${each.name}${over ? ', finished' : ''}`,
    },
    h('span.n.number', { 'aria-hidden': 'true' }, over ? '✓' : String(number)),
    h('b', each.name),
    h('span.quiet.count', over ? 'Finished' : `${each.steps} stops`, `, ${tasks}`),
  );
  return h(
    'li',
    onHoverOrFocus(
      card,
      () => readout({ at: [each.teaches], path: each.model }),
      () => readout(),
    ),
  );
}

// The formula of the number, softmax over the scaled scores of its row, and its symbols.
/** @type {(text: string) => MathMLElement} */
const mi = text => m('mi', text);
/** @type {(text: string) => MathMLElement} */
const mo = text => m('mo', text);
function softmax() {
  const exp = () => m('mrow', mi('exp'), mo('('), mi('s'), mo(')'));
  return m('math.softmax', mi('a'), mo('='), m('mfrac', { displaystyle: true }, exp(), m('mrow', mo('∑'), exp())));
}
/** @type {(run: Run, at: string, score: number) => HTMLElement} */
function signs(run, at, score) {
  const width = run.points.find(each => each.at === at.replace('pattern', 'query'))?.shape.at(-1) ?? 1;
  const dot = m('mfrac', m('mrow', mi('q'), mo('·'), mi('k')), m('msqrt', m('mn', String(width))));
  const means = [
    [
      mi('s'),
      [
        'the score: how well the ',
        term('query'),
        ' q of this row matches the ',
        term('key'),
        ' k of a word, ',
        m('math', dot),
        ` = ${num(score, 3)} here`,
      ],
    ],
    [mo('∑'), `over the ${run.tokens.source.length} tokens of the source, so that the row sums to 1`],
  ];
  return h(
    'dl.signs',
    means.map(([sign, meaning]) => [h('dt', m('math', sign)), h('dd', meaning)]),
  );
}
/** @type {(shown: Shown) => Promise<HTMLElement | null>} */
async function opening({ model, run }) {
  const [step] = (await api.lesson(run.run, 'opening')).steps;
  if (!applies(step) || Math.max(run.tokens.source.length, run.tokens.target.length) > ROWS) return null;
  const chosen = Object.fromEntries(new URLSearchParams(step.address.split('?')[1]));
  const weights =
    chosen.head === 'mean'
      ? meanOfHeads(await api.tensor(run.run, chosen.at, { as: 'f16' }))
      : (await api.tensor(run.run, chosen.at, { index: chosen.head, as: 'f16' })).table();
  const [q, k] = step.pin.map(key => Number(key.split(':')[1]));
  const score = step.do.find(piece => piece.value !== undefined)?.value ?? undefined;
  const read = run.unknown.source.includes(k) ? [run.tokens.source[k], '<unk>'] : [run.tokens.source[k]];
  const moves = !seen && !calm();
  seen = true;
  const picture = drawn(weights, run.tokens, q, k);
  const skip = h('button.edit.skip-drawing', { onclick: still }, 'Skip');
  const closer = to('attention', { ...chosen, m: model.m, text: run.text, lesson: null });
  const box = h(
    'section',
    { class: `opening-cell panel${moves ? ' moves' : ''}`, 'aria-label': 'One number' },
    picture,
    h(
      'div.tells',
      h('h2', [...read, run.tokens.follows[q]].join(' → ')),
      h('p.says', sentenceContent(step.say)),
      score === undefined
        ? h('p', sentenceContent(step.do))
        : [softmax(), h('p.sum', sentenceContent(step.do)), signs(run, chosen.at, score)],
      h('p', h('a.begin', { href: closer }, 'Look closer'), moves ? skip : ''),
    ),
  );
  function still() {
    box.classList.remove('moves');
    skip.remove();
  }
  if (moves) {
    box.addEventListener('animationend', event => event.target?.matches?.('.tells :is(.signs, .says)') && still());
    box.addEventListener('pointerdown', still, { once: true });
  }
  return box;
}
// For a model without such a number: the text, the answer, and what can be seen.
/** @type {(shown: Shown) => HTMLElement} */
const overview = ({ model, run, ways }) =>
  h(
    'section.panel.overview',
    { 'aria-label': 'This model' },
    h('h2', run.text),
    h('p.says', model.name, ' answers: ', h('b', answer(run, model))),
    h(
      'ul.ways',
      ways.map(({ name, shows, href }) => h('li', h('a', { href }, name), h('span', shows))),
    ),
  );
// Source on the left, target on the right, a ribbon for every visible weight.
/** @type {(weights: number[][], tokens: Tokens, q: number, k: number) => HTMLElement} */
function drawn(weights, tokens, q, k) {
  const u = unit();
  const source = tokens.source;
  const target = tokens.follows;
  const rows = Math.max(source.length, target.length);
  const pitch = Math.min(48, Math.max(26, 310 / rows)) * u; // a short sentence fills the card
  const left = widest(source, 1.375, { weight: 600 }) + 10 * u;
  const right = widest(target, 1.375, { weight: 600 }) + 10 * u;
  const room = document.documentElement.clientWidth;
  const inner = room > NARROW * u ? room / 2 - 100 * u : room - 70 * u; // the card has two columns, or one
  const wide = Math.max(130 * u, inner - left - right);
  const W = left + wide + right;
  const H = pitch * rows;
  /** @type {(i: number) => number} */
  const y = i => (i + 0.5) * pitch;
  const paths = weights.flatMap((row, i) =>
    row.map((weight, j) => {
      if (weight < 0.05) return null;
      const told = i === q && j === k;
      const path = s('path', {
        class: `strand${told ? ' found' : ''}`,
        d: `M${left} ${y(j)}C${left + wide / 2} ${y(j)} ${left + wide / 2} ${y(i)} ${left + wide} ${y(i)}`,
        pathLength: 1,
        'stroke-width': Math.max(1, 0.4 * pitch * weight),
      });
      path.style.setProperty('--turn', String(told ? target.length + 1 : i));
      return path;
    }),
  );
  /** @type {(text: string, x: number, i: number, anchor: string, told: boolean) => SVGElement} */
  const word = (text, x, i, anchor, told) =>
    s('text', { class: told ? 'found' : null, x, y: y(i) + 6 * u, 'text-anchor': anchor }, text);
  const svg = s(
    'svg',
    {
      width: W,
      height: H,
      viewBox: `0 0 ${W} ${H}`,
      role: 'img',
      'aria-label': `What one head attends to while it writes; the row that writes ${target[q]} looks at ${source[k]}`,
    },
    paths,
    source.map((text, j) => word(text, left - 8 * u, j, 'end', j === k)),
    target.map((text, i) => word(text, left + wide + 8 * u, i, 'start', i === q)),
  );
  return withTable(
    h('div.looks', { tabindex: W > Math.ceil(inner) ? 0 : null }, svg),
    'What one head attends to while it writes',
    () => grid(target, source, weights, 'writes'),
  );
}
