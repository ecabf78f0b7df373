// Start here: one telling number of a translator, then the stations, in order.
import { h, m, s, unit, widest } from '../dom.js';
import { num } from '../ink.js';
import * as api from '../api.js';
import { go, link as to } from '../route.js';
import { twin } from '../twin.js';
import { grid } from '../parts/table.js';
import { doneIn } from '../tasks.js';

const calm = () => matchMedia('(prefers-reduced-motion: reduce)').matches;
let seen = false; // what was drawn in once need not be again

// say(pieces) -> what to show of a text of a lesson
export async function start({ all, model, run }, listed, say) {
  const first = listed.find(each => each.id === 'opening');
  const stations = listed.filter(each => each.start && each !== first);
  const box = h('div', { class: 'start' });
  const texts = all.find(each => each.m === first?.m)?.examples ?? [];
  const asked = model.m === first?.m ? run.text : first?.text;
  if (first) box.append(await opening(first, asked, texts, say).catch(unrecorded));
  box.append(
    h(
      'h2',
      null,
      stations.length > 6 ? 'Seven stations, from one neuron to a Transformer' : 'Stations for these models',
    ),
    h(
      'p',
      { class: 'quiet' },
      'A station is a lesson with a model of its own. A lesson goes from stop to stop: each stop shows one thing, ' +
        'and some have a task, which the page checks.',
    ),
    h(
      'ol',
      { class: 'stations' },
      stations.map((each, k) => station(each, k + 1)),
    ),
  );
  return box;
}
// A saved session may lack this number; the stations are there all the same.
function unrecorded(error) {
  if (error instanceof api.Refused) return '';
  throw error;
}
function station(each, number) {
  const done = doneIn(each.id);
  const tasks = `${each.tasks} task${each.tasks > 1 ? 's' : ''}${done ? `, ${done} done` : ''}`;
  const href = to('lesson', { lesson: `${each.id}.1`, m: each.m, text: each.text, target: null, pin: null });
  const named = h('span', { class: 'name' }, each.model);
  return h(
    'li',
    null,
    h(
      'a',
      { class: 'station', href, 'aria-label': `Station ${number}: ${each.name}` },
      h('span', { class: 'n number', 'aria-hidden': 'true' }, String(number)),
      h('b', null, each.name),
      h('span', { class: 'quiet' }, each.teaches),
      h('span', { class: 'quiet count' }, `${each.steps} stops, ${tasks} · `, named),
    ),
  );
}

// How the number came about: softmax over the scaled scores of its row; and what its signs are.
const mi = text => m('mi', null, text);
const mo = text => m('mo', null, text);
const size = () => m('msub', null, mi('d'), mi('k'));
function softmax() {
  const score = () => m('mfrac', null, m('mrow', null, mi('q'), mo('·'), mi('k')), m('msqrt', null, size()));
  const top = m('mrow', null, mi('exp'), mo('('), score(), mo('−'), mi('max'), mo(')'));
  const below = m('mrow', null, mo('∑'), mi('exp'), mo('('), score(), mo('−'), mi('max'), mo(')'));
  return m('math', { class: 'softmax' }, mi('a'), mo('='), m('mfrac', { displaystyle: true }, top, below));
}
function signs(run, at, score) {
  const width = run.points.find(each => each.at === at.replace('pattern', 'query')).shape.at(-1);
  const words = run.tokens.source.length;
  const means = [
    [m('mrow', null, mi('q'), mo('·'), mi('k')), 'the score: how well the query of this row fits the key of a word'],
    [size(), `${width}, the size of q and k: divided by its root, the score is ${num(score, 3)} here`],
    [mi('max'), 'the largest score of the row: without it exp could overflow, the result is the same'],
    [mo('∑'), `over the ${words} tokens of the source, so that the row sums to 1`],
  ];
  return h(
    'dl',
    { class: 'signs' },
    means.map(([sign, meaning]) => [h('dt', null, m('math', null, sign)), h('dd', null, meaning)]),
  );
}
async function opening(first, text, texts, say) {
  const run = await api.run({ m: first.m, text });
  const { steps } = await api.lesson(run.run, 'opening');
  const step = steps[0];
  const at = new URLSearchParams(step.address?.split('?')[1] ?? '').get('at');
  if (!at) return h('p', { class: 'quiet' }, step.lacks);
  const head = Number(new URLSearchParams(step.address.split('?')[1]).get('head'));
  const weights = (await api.tensor(run.run, at, { index: `${head}`, as: 'f32' })).table();
  const [q, k] = step.pin.map(key => Number(key.split(':')[1]));
  const moves = !seen && !calm();
  seen = true;
  const picture = drawn(weights, run.tokens, q, k);
  const skip = h('button', { class: 'edit skip-drawing', onclick: still }, 'Skip');
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
      'div',
      { class: 'tells' },
      h('h2', null, `${run.tokens.source[k]} → ${run.tokens.follows[q]}`),
      h('p', { class: 'says' }, say(step.say)),
      softmax(),
      h('p', { class: 'sum' }, say(step.do)),
      signs(run, at, step.do.find(piece => piece.value !== undefined).value),
      h(
        'div',
        { class: 'chips', role: 'group', 'aria-label': 'Sentences' },
        texts.map(each =>
          h(
            'button',
            {
              class: 'chip',
              'aria-pressed': String(each === text),
              onclick: () => go('lesson', { text: each, m: first.m }),
            },
            each,
          ),
        ),
      ),
      h('p', null, h('a', { class: 'begin', href: closer }, 'Look closer'), moves ? skip : ''),
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
// Source at the left, target at the right, a ribbon for every weight that can be seen.
function drawn(weights, tokens, q, k) {
  const u = unit();
  const source = tokens.source;
  const target = tokens.follows;
  const pitch = 34 * u;
  const left = widest(source, 1.125, 'serif', 600) + 10 * u;
  const right = widest(target, 1.125, 'serif', 600) + 10 * u;
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
      'aria-label': `Where one head looks while it writes; the row that writes ${target[q]} looks at ${source[k]}`,
    },
    paths,
    source.map((text, j) => word(text, left - 8 * u, j, 'end', j === k)),
    target.map((text, i) => word(text, left + wide + 8 * u, i, 'start', i === q)),
  );
  return twin(h('div', { class: 'looks' }, svg), 'Where one head looks while it writes', () =>
    grid(target, source, weights, 'writes'),
  );
}
