// Lesson: the tours, what each teaches, and which of its stops do not apply to this model.
import { h, m, s, unit, widest } from '../dom.js';
import * as api from '../api.js';
import { pieces, stopAt, doneIn } from '../guide.js';
import { rest } from '../readout.js';
import { num } from '../ink.js';
import { go, link as to } from '../route.js';
import { withTable, grid } from '../parts/table.js';

export const lesson = {
  name: 'Lesson',
  draw: drawView,
  linkTo: { lesson: null }, // the list of tours is not one of their stops
  keysTitle: 'In a lesson',
  keys: [
    ['Space', 'next stop; from elsewhere, back to the stop'],
    ['Shift Space', 'previous stop'],
  ],
};

async function drawView(stage, context) {
  const { model, run } = context;
  const listed = await api.lessons();
  const [first, ...found] = await Promise.all([
    listed.some(each => each.start) ? start(context, listed) : '',
    ...listed.filter(each => !each.start).map(each => api.lesson(run.run, each.id)),
  ]);
  const able = each => each.steps.filter(step => step.lacks === undefined).length;
  found.sort((a, b) => able(b) / b.steps.length - able(a) / a.steps.length); // what suits this model comes first
  stage.append(
    first,
    h(
      'div.tours',
      found.map(each => tour(each, able(each), model)),
    ),
  );
  rest({ at: ['Choose a station or a lesson; press Space for the next stop'], path: 'lesson' });
}
function tour(each, count, model) {
  const first = each.steps.findIndex(step => step.lacks === undefined);
  const all = each.steps.length;
  const others = each.steps.filter(step => step.lacks !== undefined);
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
          { class: step.lacks === undefined ? null : 'lacking' },
          step.lacks === undefined
            ? h('a', { href: stopAt(each.id, k + 1, step) }, step.title)
            : [h('span', step.title), count ? h('span.why', step.lacks) : ''],
        ),
      ),
    ),
  );
}

// ---- start here: one number of a translator, then the stations in order
const calm = () => matchMedia('(prefers-reduced-motion: reduce)').matches;
let seen = false; // what was drawn in once need not be again

async function start({ all, model, run }, listed) {
  const first = listed.find(each => each.id === 'opening');
  const stations = listed.filter(each => each.start && each !== first);
  const box = h('div.start');
  const texts = all.find(each => each.m === first?.m)?.examples ?? [];
  const asked = model.m === first?.m ? run.text : first?.text;
  // a saved session may lack this number
  if (first) box.append(await opening(first, asked, texts).catch(error => api.refusal(error) && ''));
  box.append(
    h('h2', stations.length > 6 ? 'Seven stations, from one neuron to a Transformer' : 'Stations for these models'),
    h(
      'p.quiet',
      'A station is a lesson with its own model. A lesson is a sequence of stops: each stop shows one thing, ' +
        'and some have a task, which the page checks.',
    ),
    h(
      'ol.stations',
      stations.map((each, k) => station(each, k + 1)),
    ),
  );
  return box;
}
function station(each, number) {
  const done = doneIn(each.id);
  const tasks = `${each.tasks} task${each.tasks > 1 ? 's' : ''}${done ? `, ${done} done` : ''}`;
  const href = to('lesson', { lesson: `${each.id}.1`, m: each.m, text: each.text, target: null, pin: null });
  const named = h('span.name', each.model);
  return h(
    'li',
    h(
      'a.station',
      { href, 'aria-label': `Station ${number}: ${each.name}` },
      h('span.n.number', { 'aria-hidden': 'true' }, String(number)),
      h('b', each.name),
      h('span.quiet', each.teaches),
      h('span.quiet.count', `${each.steps} stops, ${tasks} · `, named),
    ),
  );
}

// The formula of the number, softmax over the scaled scores of its row, and its symbols.
const mi = text => m('mi', text);
const mo = text => m('mo', text);
const size = () => m('msub', mi('d'), mi('k'));
function softmax() {
  const score = () => m('mfrac', m('mrow', mi('q'), mo('·'), mi('k')), m('msqrt', size()));
  const top = m('mrow', mi('exp'), mo('('), score(), mo('−'), mi('max'), mo(')'));
  const below = m('mrow', mo('∑'), mi('exp'), mo('('), score(), mo('−'), mi('max'), mo(')'));
  return m('math.softmax', mi('a'), mo('='), m('mfrac', { displaystyle: true }, top, below));
}
function signs(run, at, score) {
  const width = run.points.find(each => each.at === at.replace('pattern', 'query')).shape.at(-1);
  const words = run.tokens.source.length;
  const means = [
    [m('mrow', mi('q'), mo('·'), mi('k')), 'the score: how well the query of this row matches the key of a word'],
    [size(), `${width}, the size of q and k: divided by its root, the score is ${num(score, 3)} here`],
    [mi('max'), 'the largest score of the row: without it exp could overflow, the result is the same'],
    [mo('∑'), `over the ${words} tokens of the source, so that the row sums to 1`],
  ];
  return h(
    'dl.signs',
    means.map(([sign, meaning]) => [h('dt', m('math', sign)), h('dd', meaning)]),
  );
}
async function opening(first, text, texts) {
  const run = await api.run({ m: first.m, text });
  const { steps } = await api.lesson(run.run, 'opening');
  const step = steps[0];
  const at = new URLSearchParams(step.address?.split('?')[1] ?? '').get('at');
  if (!at) return h('p.quiet', step.lacks);
  const head = Number(new URLSearchParams(step.address.split('?')[1]).get('head'));
  const weights = (await api.tensor(run.run, at, { index: `${head}`, as: 'f32' })).table();
  const [q, k] = step.pin.map(key => Number(key.split(':')[1]));
  const moves = !seen && !calm();
  seen = true;
  const picture = drawn(weights, run.tokens, q, k);
  const skip = h('button.edit.skip-drawing', { onclick: still }, 'Skip');
  const closer = to('attention', {
    ...Object.fromEntries(new URLSearchParams(step.address.split('?')[1])),
    m: first.m,
    text,
    lesson: null,
  });
  const box = h(
    'section',
    { class: `opening-cell panel${moves ? ' moves' : ''}`, 'aria-label': 'One number' },
    picture,
    h(
      'div.tells',
      h('h2', `${run.tokens.source[k]} → ${run.tokens.follows[q]}`),
      h('p.says', pieces(step.say)),
      softmax(),
      h('p.sum', pieces(step.do)),
      signs(run, at, step.do.find(piece => piece.value !== undefined).value),
      h(
        'div.chips',
        { role: 'group', 'aria-label': 'Sentences' },
        texts.map(each =>
          h(
            'button.chip',
            { 'aria-pressed': String(each === text), onclick: () => go('lesson', { text: each, m: first.m }) },
            each,
          ),
        ),
      ),
      h('p', h('a.begin', { href: closer }, 'Look closer'), moves ? skip : ''),
    ),
  );
  function still() {
    box.classList.remove('moves');
    skip.remove();
  }
  if (moves) {
    box.addEventListener('animationend', event => event.target.matches('.tells .chips') && still());
    box.addEventListener('pointerdown', still, { once: true });
  }
  return box;
}
// Source on the left, target on the right, a ribbon for every visible weight.
function drawn(weights, tokens, q, k) {
  const u = unit();
  const source = tokens.source;
  const target = tokens.follows;
  const pitch = 34 * u;
  const left = widest(source, 1.125, { weight: 600 }) + 10 * u;
  const right = widest(target, 1.125, { weight: 600 }) + 10 * u;
  const wide = 130 * u;
  const W = left + wide + right;
  const H = pitch * Math.max(source.length, target.length);
  const y = i => (i + 0.5) * pitch;
  const paths = weights.flatMap((row, i) =>
    row.map((weight, j) => {
      if (weight < 0.05) return null;
      const told = i === q && j === k;
      const path = s('path', {
        class: `strand${told ? ' told' : ''}`,
        d: `M${left} ${y(j)}C${left + wide / 2} ${y(j)} ${left + wide / 2} ${y(i)} ${left + wide} ${y(i)}`,
        pathLength: 1,
        'stroke-width': Math.max(1, 9 * u * weight),
      });
      path.style.setProperty('--turn', String(told ? target.length + 1 : i));
      return path;
    }),
  );
  const word = (text, x, i, anchor, told) =>
    s('text', { class: told ? 'told' : null, x, y: y(i) + 6 * u, 'text-anchor': anchor }, text);
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
  return withTable(h('div.looks', svg), 'What one head attends to while it writes', () =>
    grid(target, source, weights, 'writes'),
  );
}
