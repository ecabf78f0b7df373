// The lesson's strip above the status bar, in any view. Its numbers come from the current run, its nouns highlight what
// they name, and each stop is an address. Space returns to the stop, then continues.
import { isPlainKey } from './keyboard.js';
import { applies, bestFirst, countApplying, nearestStop, reasons, skippedBefore, stopNamed } from './lesson_stops.js';
import { byId, h, icon, isSpecialToken, onHoverOrFocus } from './dom.js';
import { address, go, link as to, hashFor } from './route.js';
import * as api from './api.js';
import * as highlight from './highlight.js';
import { num } from './ink.js';
import { term } from './glossary.js';
import { readout } from './readout.js';
import { storage } from './theme.js';

const KEPT = ['m', 'text', 'target', 'theme', 'with', 'embed', 'hide']; // for every stop
/** @type {OpenStop | null} */
let now = null;

/** @type {(id: string, place: number, step: Pick<LessonStep, 'address'>) => string} */
export function stopAt(id, place, step) {
  // the address of a stop, counted from 1
  const [view, query] = (step.address ?? address().view).split('?');
  const own = new URLSearchParams(query ?? '');
  const { params } = address();
  for (const [key, value] of params) if (KEPT.includes(key)) own.set(key, value);
  own.set('lesson', `${id}.${place}`);
  return hashFor(view, own);
}
/** @type {(stop: OpenStop, place: number) => void} */
function move({ id, lesson }, place) {
  location.hash = stopAt(id, place, lesson.steps[place - 1]);
}
/** @type {(stop: OpenStop) => boolean} */
const away = ({ step, view }) => applies(step) && step.address.split('?')[0] !== view;
/** @type {(stop: OpenStop, by: 1 | -1) => number | null} */
const neighbour = ({ lesson, place }, by) => nearestStop(lesson.steps, place, by);
/** @type {(stop: OpenStop) => void} */
function on(stop) {
  if (away(stop)) return move(stop, stop.place);
  const next = neighbour(stop, 1);
  if (next !== null) return move(stop, next);
  remember(stop.id);
  if (stop.after) location.hash = stationAt(stop.after);
  else leave();
}
/** @type {(stop: OpenStop) => void} */
function back(stop) {
  const before = neighbour(stop, -1);
  if (before !== null) move(stop, before);
}
function leave() {
  go('lesson', { lesson: null, pin: null });
}

const told = () => stopNamed(address().params.get('lesson'));
// A lesson on this run, or the reason why it does not exist.
/** @type {(run: Run | null, id: string | undefined) => Promise<Lesson | null>} */
const lessonOf = async (run, id) =>
  id && run
    ? api.lesson(run.run, id).catch(error => {
        const why = api.refusal(error);
        return { id, name: id, teaches: '', model: null, text: null, steps: [], why };
      })
    : null;
// A link to a stop without a view opens the stop's view with its selection and pins; for a station, also its model and
// sentence.
/** @type {(found: Found) => Promise<string | null>} */
export async function completeAddress({ run, params }) {
  if (!/^#?\/?(lesson)?\?/.test(location.hash)) return null;
  const { id, place } = told();
  const own = id && !params.has('m') ? (await api.lessons()).find(each => each.id === id && each.m) : null;
  if (own) return to('lesson', { m: own.m, text: params.get('text') ?? own.text });
  const step = (await lessonOf(run, id))?.steps[place - 1];
  return id && step && applies(step) ? stopAt(id, place, step) : null;
}
/** @type {(view: string, found: Found) => Promise<void>} */
export async function drawStop(view, { run }) {
  const { id, place } = told();
  const el = byId('lesson');
  const held = el.contains(document.activeElement) ? document.activeElement?.className : null;
  const lesson = await lessonOf(run, id);
  highlight.forget(el);
  el.hidden = lesson === null;
  const step = lesson?.steps[place - 1];
  now = null;
  if (!id || !run || !lesson || !step) {
    highlight.state.meant = [];
    el.replaceChildren(...(lesson ? nowhere(lesson, place) : []));
    return;
  }
  now = { id, place, lesson, step, view, run, instead: null, after: null };
  const stop = now;
  if (!applies(step)) stop.instead = step.in_sentence ? another(lesson) : await instead(lesson, run);
  if (neighbour(stop, 1) === null) stop.after = await stationAfter(lesson);
  highlight.state.meant = applies(step) && !away(stop) ? step.light : [];
  el.replaceChildren(...drawn(stop));
  if (held) (el.querySelector(`.${held.split(' ')[0]}`) ?? el.querySelector('.onward'))?.focus();
}
// The first stop of a station, with the station's model and sentence.
/** @type {(lesson: Pick<ListedLesson, 'id' | 'm' | 'text'>) => string} */
export const stationAt = ({ id, m, text }) => to('lesson', { lesson: `${id}.1`, m, text, target: null, pin: null });
/** @type {(lesson: Pick<Lesson, 'id'>) => Promise<ListedLesson | null>} */
async function stationAfter({ id }) {
  const stations = (await api.lessons()).filter(each => each.start && each.id !== 'opening');
  const here = stations.findIndex(each => each.id === id);
  return here < 0 ? null : stations[here + 1];
}
/** @type {(stop: OpenStop) => HTMLElement[]} */
function drawn(stop) {
  const { id, place, lesson, step, after } = stop;
  const last = neighbour(stop, 1) === null;
  const off = away(stop);
  const answer = applies(step) && step.task ? task(stop.run, id, place, step.typed) : null;
  const skipped = skippedBefore(lesson.steps, place);
  return [
    h(
      'button.back',
      {
        'aria-label': 'Back to the previous stop',
        title: 'Back (Shift and Space)',
        disabled: neighbour(stop, -1) === null,
        onclick: () => back(stop),
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
            h('p.says', sentenceContent(step.say)),
            h(
              'p.task',
              h('b', 'Do: '),
              sentenceContent(step.do),
              skipped.length ? h('span.quiet', ` Skipped: ${reasons(skipped)}.`) : '',
            ),
            answer?.line,
          ]
        : [
            h('p.says', `${step.in_sentence ? 'Not here' : 'This model has no such stop'}: ${step.lacks}.`),
            stop.instead,
          ],
    ),
    h(
      'div.acts',
      h(
        'button.onward',
        {
          title: `${off ? 'Back to the stop' : after ? `Next station: ${after.name}` : 'Next stop'} (Space)`,
          onclick: () => on(stop),
        },
        off ? 'Come back' : !last ? 'Next' : after ? 'Next station' : 'Finish',
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
/** @type {(lesson: Lesson, place: number) => HTMLElement[]} */
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
/** @type {(lesson: Lesson) => HTMLElement} */
const another = ({ text }) =>
  h(
    'p.task',
    text
      ? [h('a', { href: to(address().view, { text, target: null }) }, 'Back to the lesson’s sentence'), `: ${text}`]
      : 'Press Edit and write a different sentence.',
  );
// For a stop that this model lacks: the lesson's own model, and the tour that fits best.
/** @type {(lesson: Lesson, run: Run) => Promise<HTMLElement>} */
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
/** @type {(id: string) => number} */
export const doneIn = id => [...done].filter(key => key.startsWith(`${id}.`)).length;
/** @type {(id: string) => boolean} */
export const isFinished = id => done.has(id);
/** @type {(key: string) => void} */
function remember(key) {
  done.add(key);
  storage(store => store.setItem(KEPT_AT, JSON.stringify([...done])));
}

// What was typed at each stop; it stays when the strip is drawn again.
/** @type {Map<string, string>} */
const typed = new Map();
/** @type {(run: Run, id: string, place: number, asks?: boolean) => { line: HTMLElement; button: HTMLElement }} */
function task(run, id, place, asks) {
  const key = `${id}.${place}`;
  const verdict = h(
    'p',
    { class: `check${done.has(key) ? ' right' : ''}`, role: 'status' },
    done.has(key) ? '✓ done' : '',
  );
  /** @type {HTMLInputElement | null} */
  const input = asks
    ? h('input.answer', {
        type: 'text',
        'aria-label': 'Your answer',
        placeholder: 'your answer',
        value: typed.get(key) ?? '',
        maxlength: 1000,
        autocomplete: 'off',
        autocapitalize: 'off',
        spellcheck: 'false',
        oninput: event => typed.set(key, event.target.value),
      })
    : null;
  const line = input ? h('form.answers', { onsubmit: check }, input, verdict) : verdict;
  const button = h('button.try', { onclick: check }, 'Check');
  /** @type {(event: Event) => Promise<void>} */
  async function check(event) {
    event.preventDefault();
    const found = await api.check(run.run, id, place, { address: location.hash, answer: input?.value });
    if (found.done) remember(key);
    verdict.className = `check ${found.done ? 'right' : 'wrong'}`;
    verdict.replaceChildren(found.done ? '✓ ' : '✗ ', ...sentenceContent(found.say));
    verdict.scrollIntoView({ block: 'nearest' });
  }
  return { line, button };
}

// ---- sentences: text, words, numbers, nouns
/** @type {(list: Piece[]) => (string | HTMLElement)[]} */
export function sentenceContent(list) {
  const all = list.map((piece, k) => {
    if (piece.value !== undefined) return number(piece, piece.value, /[×+−÷(]\s*$/.test(list[k - 1]?.text ?? ''));
    if (piece.word !== undefined)
      return noun(piece.word, piece.means, isSpecialToken(piece.word) ? 'noun special' : 'noun word');
    return piece.means ? noun(piece.text, piece.means, 'noun') : piece.text;
  });
  all.forEach((each, k) => {
    // punctuation stays with the button before it
    const next = all[k + 1];
    const sign = typeof each === 'string' || typeof next !== 'string' ? '' : next.slice(0, next.search(/[^.,:;?!)]|$/));
    if (typeof next !== 'string' || !sign) return;
    all[k] = h('span.unbroken', each, sign);
    all[k + 1] = next.slice(sign.length);
  });
  return all;
}
/** @type {(text: string, means: string | undefined, kind: string) => HTMLElement | string} */
function noun(text, means, kind) {
  if (!means) return h('span', { class: kind }, text);
  if (means.startsWith('term:')) return term(means.slice(5), text);
  const act = means.startsWith('part:')
    ? () => go('flow', { at: means.slice(5), i: null })
    : /^(src|tgt):/.test(means)
      ? () => highlight.pin([means])
      : null;
  const el = h('button', { class: kind, onclick: () => act?.() });
  el.append(text);
  return highlight.hoverable(el, [means]);
}
// A number of the run: the status bar shows its origin, a click goes there.
/** @type {(piece: Piece, value: number | null, inSum: boolean) => HTMLElement} */
function number({ at, index, digits, meaning }, value, inSum) {
  const shown = value === null ? '−∞' : num(value, digits);
  const path = index.length ? `${at}[${index.join(', ')}]` : at;
  const tell = () => readout({ at: [meaning ?? 'in the lesson'], path, value: value ?? -Infinity, digits });
  const open = at.includes(' ') // no point of the trace: a probability, a weight, a gradient
    ? null
    : () => go('flow', { at, i: index.join(',') || null, head: index.length > 2 ? index[0] || null : null });
  const el = h(
    'button.n.told-number',
    { title: meaning, 'data-at': path, onclick: () => open?.() },
    inSum && value !== null && value < 0 ? `(${shown})` : shown,
  );
  return onHoverOrFocus(el, tell, () => readout());
}

// Space continues the lesson, before any view handles it.
/** @type {(event: KeyboardEvent) => void} */
export function onSpace(event) {
  if (now === null || event.key !== ' ' || !isPlainKey(event)) return;
  if (document.querySelector('dialog[open]') || event.target?.closest?.('button,a,summary')) return;
  event.preventDefault();
  event.stopImmediatePropagation();
  event.shiftKey ? back(now) : on(now);
}
