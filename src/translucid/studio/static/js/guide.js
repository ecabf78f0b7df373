// The lesson's strip above the status bar, in any view. Its numbers come from the current run, its nouns highlight what
// they name, and each stop is an address. Space returns to the stop, then continues.
import { isPlainKey } from './keyboard.js';
import { applies, bestFirst, countApplying, nearestStop, reasons, skippedBefore, stopNamed } from './lesson_stops.js';
import { h, icon, special, onLook } from './dom.js';
import { address, go, link as to, written } from './route.js';
import * as api from './api.js';
import * as link from './link.js';
import { num } from './ink.js';
import { term } from './glossary.js';
import { readout } from './readout.js';
import { storage } from './theme.js';

const KEPT = ['m', 'text', 'target', 'theme', 'with', 'embed', 'hide']; // for every stop
const box = () => document.getElementById('lesson');
let now = null; // { id, place, lesson, view }

export function stopAt(id, place, step) {
  // the address of a stop, counted from 1
  const [view, query] = (step.address ?? address().view).split('?');
  const own = new URLSearchParams(query ?? '');
  const { params } = address();
  for (const key of KEPT) if (params.has(key)) own.set(key, params.get(key));
  own.set('lesson', `${id}.${place}`);
  return written(view, own);
}
function move(place) {
  location.hash = stopAt(now.id, place, now.lesson.steps[place - 1]);
}
const away = () => {
  const step = now.lesson.steps[now.place - 1];
  return applies(step) && step.address.split('?')[0] !== now.view;
};
function on() {
  if (away()) return move(now.place);
  const next = nearestStop(now.lesson.steps, now.place, 1);
  if (next !== null) return move(next);
  remember(now.id);
  if (now.after) location.hash = stationAt(now.after);
  else leave();
}
function back() {
  const before = nearestStop(now.lesson.steps, now.place, -1);
  if (before !== null) move(before);
}
function leave() {
  go('lesson', { lesson: null, pin: null });
}

const told = () => stopNamed(address().params.get('lesson'));
// A lesson on this run, or the reason why it does not exist.
const lessonOf = async (run, id) =>
  id && run
    ? api.lesson(run.run, id).catch(error => /** @type {any} */ ({ steps: [], why: api.refusal(error) }))
    : null;
// A link to a stop without a view opens the stop's view with its selection and pins; for a station, also its model and
// sentence.
export async function whole({ run, params }) {
  if (!/^#?\/?(lesson)?\?/.test(location.hash)) return null;
  const { id, place } = told();
  const own = id && !params.has('m') ? (await api.lessons()).find(each => each.id === id && each.m) : null;
  if (own) return to('lesson', { m: own.m, text: params.get('text') ?? own.text });
  const step = (await lessonOf(run, id))?.steps[place - 1];
  return step && applies(step) ? stopAt(id, place, step) : null;
}
export async function guide(view, { run }) {
  const { id, place } = told();
  const el = box();
  const held = el.contains(document.activeElement) ? document.activeElement.className : null;
  const lesson = await lessonOf(run, id);
  link.forget(el);
  now = lesson?.steps[place - 1] ? { id, place, lesson, view, run } : null;
  el.hidden = lesson === null;
  if (now === null) {
    link.state.meant = [];
    el.replaceChildren(...(lesson ? nowhere(lesson, place) : []));
    return;
  }
  const step = lesson.steps[now.place - 1];
  now.instead = applies(step) ? null : step.in_sentence ? another(lesson) : await instead(lesson, run);
  now.after = nearestStop(now.lesson.steps, now.place, 1) === null ? await stationAfter(lesson) : null;
  link.state.meant = applies(step) && !away() ? step.light : [];
  el.replaceChildren(...drawn(step));
  if (held) (el.querySelector(`.${held.split(' ')[0]}`) ?? el.querySelector('.onward'))?.focus();
}
// The first stop of a station, with the station's model and sentence.
/** @type {(lesson: Pick<ListedLesson, 'id' | 'm' | 'text'>) => string} */
export const stationAt = ({ id, m, text }) => to('lesson', { lesson: `${id}.1`, m, text, target: null, pin: null });
async function stationAfter({ id }) {
  const stations = (await api.lessons()).filter(each => each.start && each.id !== 'opening');
  const here = stations.findIndex(each => each.id === id);
  return here < 0 ? null : stations[here + 1];
}
function drawn(step) {
  const { id, place, lesson } = now;
  const last = nearestStop(lesson.steps, place, 1) === null;
  const off = away();
  const answer = applies(step) && step.task ? task(now.run, id, place) : null;
  const skipped = skippedBefore(lesson.steps, place);
  return [
    h(
      'button.back',
      {
        'aria-label': 'Back to the previous stop',
        title: 'Back (Shift and Space)',
        disabled: nearestStop(lesson.steps, place, -1) === null,
        onclick: back,
      },
      icon('prev'),
    ),
    h(
      'div.stop',
      h('a', { href: stopAt(id, place, step), title: 'Show this stop again' }, step.title),
      h('span.quiet', `${place} of ${lesson.steps.length}`),
    ),
    h(
      'div.text',
      { 'aria-live': 'polite' },
      applies(step)
        ? [
            h('p.says', pieces(step.say)),
            h(
              'p.task',
              h('b', 'Do: '),
              pieces(step.do),
              skipped.length ? h('span.quiet', ` Skipped: ${reasons(skipped)}.`) : '',
            ),
            answer?.line,
          ]
        : [
            h('p.says', `${step.in_sentence ? 'Not here' : 'This model has no such stop'}: ${step.lacks}.`),
            now.instead,
          ],
    ),
    h(
      'div.acts',
      h(
        'button.onward',
        {
          title: `${off ? 'Back to the stop' : now.after ? `Next station: ${now.after.name}` : 'Next stop'} (Space)`,
          onclick: on,
        },
        off ? 'Come back' : !last ? 'Next' : now.after ? 'Next station' : 'Finish',
        icon('next'),
      ),
      answer?.button,
    ),
    shut(),
  ];
}
const shut = () =>
  h(
    'button.shut',
    {
      'aria-label': 'Leave the lesson',
      title: 'Leave the lesson',
      onclick: () => go(address().view, { lesson: null }),
    },
    '×',
  );
// A link to a lesson, or a stop, that does not exist.
function nowhere({ name, steps, why }, place) {
  const says = why ?? `${name} has ${steps.length} stops; it has no stop ${place}`;
  return [
    h(
      'div.text',
      { 'aria-live': 'polite' },
      h('p.says', `${says}.`),
      h('p.task', h('a', { href: to('lesson', { lesson: null, pin: null }) }, 'All lessons')),
    ),
    shut(),
  ];
}
// The sentence lacks the subject of the stop; offer the lesson's own.
const another = ({ text }) =>
  h(
    'p.task',
    text
      ? [h('a', { href: to(address().view, { text, target: null }) }, 'Back to the lesson’s sentence'), `: ${text}`]
      : 'Press Edit and write a different sentence.',
  );
// For a stop that this model lacks: the lesson's own model, and the tour that fits best.
async function instead(lesson, run) {
  const listed = await api.lessons();
  const own = listed.find(each => each.id === lesson.id && each.m);
  const tours = await Promise.all(
    listed.filter(each => !each.start && each.id !== lesson.id).map(each => api.lesson(run.run, each.id)),
  );
  const [best] = bestFirst(tours);
  const first = best?.steps.findIndex(applies) ?? -1;
  return h(
    'p.task',
    own
      ? [`${lesson.name} is a lesson on `, h('a', { href: stationAt(own) }, own.model), '. ']
      : lesson.model
        ? [`${lesson.name} is a lesson on ${lesson.model}: `, h('code', `translucid explore ${lesson.model}`), '. ']
        : '',
    first < 0
      ? ''
      : [
          'For this model: ',
          h('a', { href: stopAt(best.id, first + 1, best.steps[first]) }, best.name),
          ` (${countApplying(best.steps)} of ${best.steps.length} stops).`,
        ],
  );
}

// ---- a task: a button that checks what the page shows, and the result
// Tasks that are done (lesson.stop) and lessons that are finished (lesson), which the browser remembers.
const KEPT_AT = 'translucid-done';
const done = new Set(JSON.parse(storage(store => store.getItem(KEPT_AT)) ?? '[]'));
export const doneIn = id => [...done].filter(key => key.startsWith(`${id}.`)).length;
export const isFinished = id => done.has(id);
function remember(key) {
  done.add(key);
  storage(store => store.setItem(KEPT_AT, JSON.stringify([...done])));
}

function task(run, id, place) {
  const key = `${id}.${place}`;
  const line = h(
    'p',
    { class: `check${done.has(key) ? ' right' : ''}`, role: 'status' },
    done.has(key) ? '✓ done' : '',
  );
  const button = h('button.try', { onclick: check }, 'Check');
  async function check() {
    const found = await api.check(run.run, id, place, location.hash);
    if (found.done) remember(key);
    line.className = `check ${found.done ? 'right' : 'wrong'}`;
    line.replaceChildren(found.done ? '✓ ' : '✗ ', ...pieces(found.say));
    line.scrollIntoView({ block: 'nearest' });
  }
  return { line, button };
}

// ---- sentences: text, words, numbers, nouns
export function pieces(list) {
  const all = list.map((piece, k) => {
    if (piece.value !== undefined) return number(piece, /[×+−÷(]\s*$/.test(list[k - 1]?.text ?? ''));
    if (piece.word !== undefined)
      return noun(piece.word, piece.means, special(piece.word) ? 'noun special' : 'noun word');
    return piece.means ? noun(piece.text, piece.means, 'noun') : piece.text;
  });
  all.forEach((each, k) => {
    // punctuation stays with the button before it
    const sign = typeof each === 'string' || typeof all[k + 1] !== 'string' ? '' : /^[.,:;?!)]*/.exec(all[k + 1])[0];
    if (!sign) return;
    all[k] = h('span.unbroken', each, sign);
    all[k + 1] = all[k + 1].slice(sign.length);
  });
  return all;
}
function noun(text, means, kind) {
  if (!means) return h('span', { class: kind }, text);
  if (means.startsWith('term:')) return term(means.slice(5), text);
  const act = means.startsWith('part:')
    ? () => go('flow', { at: means.slice(5), i: null })
    : /^(src|tgt):/.test(means)
      ? () => link.pin([means])
      : null;
  const el = h('button', { class: kind, onclick: () => act?.() });
  el.append(text);
  return link.lights(el, [means]);
}
// A number of the run: the status bar shows its origin, a click goes there.
function number({ value, at, index, digits, meaning }, inSum) {
  const shown = value === null ? '−∞' : num(value, digits);
  const path = index.length ? `${at}[${index.join(', ')}]` : at;
  const tell = () => readout({ at: [meaning ?? 'in the lesson'], path, value: value ?? -Infinity, digits });
  const open = at.includes(' ') // no point of the trace: a probability, a weight, a gradient
    ? null
    : () => go('flow', { at, i: index.join(',') || null, head: index.length > 2 ? index[0] || null : null });
  const el = h(
    'button.n.told-number',
    { title: meaning, 'data-at': path, onclick: () => open?.() },
    inSum && value < 0 ? `(${shown})` : shown,
  );
  return onLook(el, tell, () => readout());
}

// Space continues the lesson, before any view handles it.
export function guided(event) {
  if (now === null || event.key !== ' ' || !isPlainKey(event)) return;
  if (document.querySelector('dialog[open]') || event.target.closest?.('button,a,summary')) return;
  event.preventDefault();
  event.stopImmediatePropagation();
  event.shiftKey ? back() : on();
}
