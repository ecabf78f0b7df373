// Practice: an exercise, a field for the answer, and a verdict that names the step that went wrong.
import { select, field } from '../parts/controls.js';
import { fill, h, formula } from '../dom.js';
import * as api from '../api.js';
import { readoutDefault } from '../readout.js';
import { replaceAddress } from '../route.js';
import { keepFocus } from '../keyboard.js';

/** @type {View} */
export const practice = {
  name: 'Practice',
  about: {
    shows: 'Exercises with small numbers, from the perceptron to beam search. Every answer is checked.',
    read:
      'Type your answer and press Enter. If it is wrong, the page names the step to look at. ' +
      'Separate numbers with spaces and the rows of a matrix with semicolons: 1 0; 0 1.',
    terms: ['gradient', 'attention', 'gate', 'beam'],
  },
  draw: drawView,
  keys: [['Enter', 'check the answer; after a right one, the next question']],
  linkParts: {
    exercise: value => (named(value) ? '' : 'a topic and a seed, such as softmax.3'),
  },
  withoutModel: true,
};

const SEEDS = 10_000; // drawn at random; a link may have a larger one
const score = { asked: 0, solved: 0, first: 0 };
/** @type {{ name: string; title: string }[]} */
let topics = [];
// The exercise on the page. It continues after a redraw, such as for a different window size.
// at: the step that is asked, or null for the last one only.
/** @type {PracticeState} */
let now;
let turn = 0; // counts the exercises that were requested
/** @type {(error: unknown) => void} */
let explain; // says in the exercise on the page why another one cannot be shown
/** @type {(exercise: Exercise) => PracticeState} */
const begin = exercise => ({
  exercise,
  at: null,
  typed: '',
  verdict: null,
  results: [],
  hints: [],
  mistakes: 0,
  counted: false,
  over: false,
  solution: null,
});

// softmax.3: topic and seed
/** @type {(value: string | null) => { topic: string; seed: number } | null} */
function named(value) {
  const [, topic, seed] = /^([\w-]+)\.(\d{1,9})$/.exec(value ?? '') ?? [];
  return topic && (!topics.length || topics.some(({ name }) => name === topic)) ? { topic, seed: Number(seed) } : null;
}
/** @type {(written: Written) => Content[]} */
const mixed = written => written.map(part => (typeof part === 'string' ? part : formula(part.math, false)));
/** @type {(markup: string | undefined) => Content} */
const displayed = markup => markup && h('div.formula', formula(markup, false));
/** @type {(rows: Written[][]) => HTMLElement} */
const table = ([head, ...rows]) =>
  h(
    'div.formula',
    h(
      'table',
      h(
        'thead',
        h(
          'tr',
          head.map(cell => h('th', { scope: 'col' }, mixed(cell))),
        ),
      ),
      h(
        'tbody',
        rows.map(row =>
          h(
            'tr',
            row.map(cell => h('td', mixed(cell))),
          ),
        ),
      ),
    ),
  );

/** @type {(stage: HTMLElement, shown: Shown) => Promise<void>} */
async function drawView(stage, { params }) {
  const box = h('div.practice');
  stage.append(box);
  readoutDefault({ at: ['Practice'], path: 'exercises with checked answers' });
  try {
    topics = await api.topics();
    box.append(topicList(box));
    const asked = named(params.get('exercise')) ?? now?.exercise;
    await showExercise(box, asked?.topic ?? topics[0].name, asked?.seed ?? Math.floor(SEEDS * Math.random()));
  } catch (error) {
    const why = api.refusal(error);
    box.replaceChildren(
      h(
        'section.panel',
        h('h2', 'Practice needs the studio’s server'),
        h('p', why),
        h('p', 'You can also practice in a terminal: ', h('code', 'translucid practice')),
      ),
    );
  }
}
// Show the exercise of a topic with this seed.
/** @type {(box: HTMLElement, topic: string, seed: number, focus?: boolean) => Promise<void>} */
async function showExercise(box, topic, seed, focus = false) {
  turn += 1;
  const mine = turn;
  const back = keepFocus(box);
  if (now?.exercise.topic !== topic || now.exercise.seed !== seed) {
    const found = await api.exercise(topic, seed);
    if (mine !== turn) return; // another topic was chosen meanwhile
    now = begin(found);
  }
  replaceAddress({ exercise: `${topic}.${seed}` });
  const input = drawExercise(box);
  focus ? input.focus() : back();
}

// The list of topics, which is kept while the exercises below it change.
/** @type {(box: HTMLElement) => HTMLElement} */
const topicList = box =>
  h(
    'header.row',
    field(
      'Topic',
      select(
        'Topic',
        topics.map(({ name, title }) => ({ key: name, text: title })),
        null,
        name => showExercise(box, name, now.exercise.seed).catch(error => explain(error)),
      ),
    ),
    h('p.quiet.score'),
  );
/** @type {(box: HTMLElement) => HTMLInputElement} */
function drawExercise(box) {
  const { exercise } = now;
  const { steps, topic, seed } = exercise;
  const asked = () => now.at ?? steps.length - 1;
  const next = () => showExercise(box, topic, seed + 1, true).catch(failed);
  /** @type {(error: unknown) => void} */
  const failed = error => say(api.refusal(error), 'unread');

  const question = h('label', { for: 'answer' });
  const entry = h('p.quiet', { id: 'entry' });
  const input = h('input', {
    id: 'answer',
    type: 'text',
    value: now.typed,
    maxlength: 1000,
    autocomplete: 'off',
    autocapitalize: 'off',
    spellcheck: 'false',
    'aria-describedby': 'entry verdict',
    oninput: () => {
      now.typed = input.value;
    },
  });
  const verdict = h('p.verdict', { id: 'verdict', role: 'status', 'aria-live': 'polite' });
  const check = h('button.begin', { type: 'submit' }, 'Check');
  /** @type {(name: string, onclick: () => unknown) => HTMLButtonElement} */
  const button = (name, onclick) => h('button.edit', { type: 'button', onclick }, name);
  const hint = button('Hint', giveHint);
  const byStep = button('Step by step', stepByStep);
  const solve = button('Solution', giveSolution);
  const onward = button('Next question', next);
  const way = h('ol.way', { 'aria-label': 'Steps' });
  const hints = h('ul.hints', { 'aria-label': 'Hints', 'aria-live': 'polite' });
  const worked = h('div.worked');
  const list = /** @type {HTMLSelectElement} */ (box.querySelector('select'));
  const points = /** @type {HTMLElement} */ (box.querySelector('.score'));
  list.value = topic;
  explain = failed;

  for (const old of [...box.children].slice(1)) old.remove(); // the list stays, for who types in it
  box.append(
    h(
      'section.panel',
      { 'aria-label': 'Exercise' },
      h('h2.wraps', mixed(exercise.title)),
      h('h3', 'Given'),
      h(
        'div.given',
        exercise.given.map(each =>
          each.table ? h('div', h('p', mixed(each.title ?? [])), table(each.table)) : displayed(each.formula),
        ),
      ),
      h('p', mixed(exercise.task)),
      way,
      h('form', { onsubmit: submit }, question, h('div.row', input, check), entry),
      verdict,
      h('div.actions', hint, byStep, solve, onward),
      hints,
    ),
    worked,
  );

  // ---- what changes
  function update() {
    const step = steps[asked()];
    const stepwise = now.at !== null;
    fill(question, now.at === null ? 'Find ' : `Step ${now.at + 1} of ${steps.length}: `, mixed(step.ask));
    entry.textContent = `Enter ${step.entry}.`;
    input.value = now.typed;
    input.readOnly = now.over;
    check.disabled = now.over;
    hint.disabled = now.over || nextHint() === null;
    byStep.hidden = stepwise || now.over || steps.length < 2;
    solve.textContent = stepwise && !now.over ? 'Show this result' : 'Solution';
    solve.disabled = now.solution !== null;
    const { right, content } = now.verdict ?? {};
    verdict.className = `verdict ${right ?? ''}`;
    fill(verdict, content ?? []);
    right === 'wrong' || right === 'unread'
      ? input.setAttribute('aria-invalid', 'true')
      : input.removeAttribute('aria-invalid');
    way.hidden = !stepwise;
    way.replaceChildren(...now.results.map((result, i) => h('li', mixed(steps[i].ask), ': ', h('span.n', result))));
    hints.hidden = !now.hints.length;
    const shown = hints.childElementCount;
    hints.append(...now.hints.slice(shown).map(drawHint));
    points.textContent = score.asked
      ? `Solved: ${score.solved} of ${score.asked}; at the first attempt: ${score.first}`
      : '';
    worked.replaceChildren(...(now.solution ? [drawSolution(now.solution)] : []));
  }
  /** @type {(content: Content, right: PracticeVerdict) => void} */
  function say(content, right) {
    now.verdict = { right, content: [content].flat() };
    update();
    verdict.scrollIntoView({ block: 'nearest' });
  }
  /** @type {(i: number) => HTMLElement} */
  function drawHint(i) {
    return h('li', `Step ${i + 1} of ${steps.length}: `, mixed(steps[i].ask), displayed(steps[i].formula));
  }
  // The step of the next hint: the first one without a hint or, step by step, this one.
  function nextHint() {
    if (now.at === null) return now.hints.length < steps.length ? now.hints.length : null;
    return steps[now.at].formula && !now.hints.includes(now.at) ? now.at : null;
  }

  // ---- what the user does
  /** @type {(mistake: number) => void} */
  function count(mistake) {
    if (!now.counted) score.asked += 1;
    now.counted = true;
    now.mistakes += mistake;
  }
  function giveHint() {
    count(1);
    const i = nextHint();
    if (i !== null) now.hints.push(i);
    update();
  }
  function stepByStep() {
    Object.assign(now, { at: 0, typed: '', verdict: null, hints: [] });
    hints.replaceChildren();
    update();
    input.focus();
  }
  // The result of the step is known: continue with the next one.
  /** @type {(result: string) => void} */
  function advance(result) {
    if (now.at === null || now.at === steps.length - 1) now.over = true;
    if (now.at === null) return;
    now.results.push(result);
    if (!now.over) Object.assign(now, { at: now.at + 1, typed: '' });
  }
  /** @type {(event: Event) => Promise<unknown>} */
  async function submit(event) {
    event.preventDefault();
    const mine = now;
    if (mine.over) return;
    const typed = input.value.trim();
    if (!typed) return say(`Type ${steps[asked()].entry}.`, 'unread');
    let found;
    try {
      found = await api.checkAnswer(exercise, steps[asked()].name, typed);
    } catch (error) {
      return now === mine && failed(error);
    }
    if (now !== mine || input.value.trim() !== typed || mine.over) return; // it was asked twice
    count(found.right ? 0 : 1);
    if (found.right) {
      advance(typed);
      if (now.over) {
        score.solved += 1;
        score.first += now.mistakes ? 0 : 1;
      }
    }
    say(mixed(found.message), found.right ? 'right' : 'wrong');
    now.over ? onward.focus() : input.select();
  }
  async function giveSolution() {
    const mine = now;
    let found;
    try {
      found = await api.solution(exercise);
    } catch (error) {
      return now === mine && failed(error);
    }
    if (now !== mine) return;
    if (!now.over) count(1);
    if (now.at !== null && !now.over) {
      const step = steps[now.at];
      const result = found.answers[step.name];
      advance(result);
      say([...mixed(step.ask), `: ${result}`], 'told');
      now.over ? onward.focus() : input.focus();
      return;
    }
    now.solution = found;
    now.over = true;
    update();
    worked.querySelector('h2')?.focus({ preventScroll: true });
    worked.scrollIntoView({ block: 'start' });
  }

  update();
  return input;
}
/** @type {(solution: WorkedSolution) => Node} */
const drawSolution = ({ steps, answers }) =>
  h(
    'section.panel',
    { 'aria-label': 'Solution' },
    h('h2', { tabindex: -1 }, 'Solution'),
    steps.map(({ heading, title, formula: markup, table: rows, note }) => [
      heading.length > 0 && h('h3', mixed(heading)),
      h('p', mixed(title)),
      displayed(markup),
      rows && table(rows),
      note.length > 0 && h('p.quiet', mixed(note)),
    ]),
    h('p', 'Answer: ', h('span.n', Object.values(answers).at(-1))),
  );
