// Lesson: which tours there are, what each teaches, and which of its stops this model lacks.
import { h } from '../dom.js';
import * as api from '../api.js';
import { pieces, stopAt } from '../guide.js';
import { rest } from '../readout.js';
import { start } from './start.js';

export async function lesson(stage, context) {
  const { model, run } = context;
  const listed = await api.lessons();
  const [first, ...found] = await Promise.all([
    listed.some(each => each.start) ? start(context, listed, pieces) : '',
    ...listed.filter(each => !each.start).map(each => api.lesson(run.run, each.id)),
  ]);
  const able = each => each.steps.filter(step => step.lacks === undefined).length;
  found.sort((a, b) => able(b) / b.steps.length - able(a) / a.steps.length); // what suits this model comes first
  stage.append(
    first,
    h(
      'div',
      { class: 'tours' },
      found.map(each => tour(each, able(each), model)),
    ),
  );
  rest({ at: ['Choose a station or a lesson; once it has begun, Space goes to its next stop'], path: 'lesson' });
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
    'article',
    { class: 'panel tour', 'aria-label': each.name },
    h(
      'header',
      { class: 'row' },
      h('div', null, h('h2', null, each.name), h('p', { class: 'quiet' }, told)),
      first < 0 ? null : h('a', { class: 'begin', href: stopAt(each.id, first + 1, each.steps[first]) }, 'Begin'),
    ),
    h('p', null, each.teaches),
    h(
      'ol',
      { class: 'stops' },
      each.steps.map((step, k) =>
        h(
          'li',
          { class: step.lacks === undefined ? null : 'lacking' },
          step.lacks === undefined
            ? h('a', { href: stopAt(each.id, k + 1, step) }, step.title)
            : [h('span', null, step.title), count ? h('span', { class: 'why' }, step.lacks) : ''],
        ),
      ),
    ),
  );
}
