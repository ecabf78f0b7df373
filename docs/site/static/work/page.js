// The page of worked solutions: choose an exercise, type its numbers, and read the solution, which is recomputed at
// every keystroke. The address holds the numbers: #attention?x=1+0%3B+0+1&causal
import { h } from '../../../../src/translucid/studio/static/js/dom.js';
import { command, details, exampleOf, solve, written } from './solve.js';

/** @typedef {{ name: string; kind: string; choices: string[]; help: string; option: string }} Argument */
/** @typedef {HTMLInputElement | HTMLSelectElement} Field */

/** @type {(id: string) => HTMLElement} */
const get = id => /** @type {HTMLElement} */ (document.getElementById(id));
const root = get('work');
const names = Object.keys(details);
/** @type {string} */
let exercise = names[0];
/** @type {Map<string, Field>} */
const fields = new Map();

// ---- the address

/** @type {() => { name: string; values: Record<string, string | true> }} */
function fromAddress() {
  const [name, query = ''] = location.hash.slice(1).split(/\?(.*)/s);
  const known = name.replaceAll('-', '_');
  const values = [...new URLSearchParams(query)].map(([key, value]) => [key, value === '' ? true : value]);
  return { name: known in details ? known : '', values: Object.fromEntries(values) };
}
/** @type {(name: string, values: Record<string, string | true>) => string} */
function addressOf(name, values) {
  const query = new URLSearchParams(Object.entries(values).map(([key, value]) => [key, value === true ? '' : value]));
  const text = query.toString();
  return `#${name.replaceAll('_', '-')}${text && `?${text}`}`;
}

// ---- the fields

/** @type {(argument: Argument, value: string | true | undefined) => Field} */
function fieldOf({ name, kind, choices, help }, value) {
  const id = `work-${name}`;
  if (kind === 'flag') {
    const box = h('input', { type: 'checkbox', id });
    box.checked = value === true;
    return box;
  }
  if (choices.length) {
    const select = h(
      'select',
      { id },
      h('option', { value: '' }, ''),
      ...choices.map(one => h('option', { value: one }, one)),
    );
    select.value = typeof value === 'string' ? value : '';
    return select;
  }
  const input = h('input', { type: 'text', id, autocomplete: 'off', spellcheck: 'false', autocapitalize: 'off' });
  input.value = typeof value === 'string' ? value : '';
  input.placeholder = /\[default: ([^\]]*)\]/.exec(help)?.[1] ?? '';
  return input;
}
/** @type {(name: string, values: Record<string, string | true>) => void} */
function showFields(name, values) {
  exercise = name;
  fields.clear();
  const rows = details[name].arguments.map((/** @type {Argument} */ argument) => {
    const field = fieldOf(argument, values[argument.name]);
    fields.set(argument.name, field);
    field.addEventListener('input', update);
    const hint = h('span', { class: 'hint', id: `${field.id}-hint` }, argument.help);
    field.setAttribute('aria-describedby', hint.id);
    const row = h('div', { class: 'row' }, h('label', { for: field.id }, argument.option), field, hint);
    return { row, filled: argument.name in values };
  });
  const shown = rows.filter((/** @type {{ filled: boolean }} */ { filled }) => filled);
  const closed = rows.filter((/** @type {{ filled: boolean }} */ { filled }) => !filled);
  get('work-fields').replaceChildren(...shown.map((/** @type {{ row: Node }} */ { row }) => row));
  get('work-more').replaceChildren(...closed.map((/** @type {{ row: Node }} */ { row }) => row));
  /** @type {HTMLDetailsElement} */ (get('work-options')).open = !shown.length;
  get('work-title').textContent = details[name].title;
  get('work-about').textContent = details[name].about;
  const choice = /** @type {HTMLSelectElement} */ (get('work-exercise'));
  choice.value = name;
  update();
}
/** @type {() => Record<string, string | true>} */
function typed() {
  /** @type {Record<string, string | true>} */
  const values = {};
  for (const [name, field] of fields) {
    if (field instanceof HTMLInputElement && field.type === 'checkbox') {
      if (field.checked) values[name] = true;
    } else if (field.value.trim()) values[name] = field.value;
  }
  return values;
}

// ---- the solution

function update() {
  const values = typed();
  const { text = '', html, error = '' } = solve(exercise, values);
  const message = get('work-message');
  message.textContent = error;
  message.hidden = !error;
  get('work-solution').hidden = Boolean(error);
  if (html) {
    get('work-text').textContent = text;
    const asText = /** @type {HTMLInputElement} */ (get('work-as-text')).checked;
    get('work-text').hidden = !asText;
    get('work-formulas').hidden = asText;
    if (!asText) get('work-formulas').innerHTML = html(); // made by the package, which escapes what the user typed
  }
  get('work-command').textContent = written(command(exercise, values));
  history.replaceState(null, '', addressOf(exercise, values));
  for (const el of root.querySelectorAll('pre, .wide'))
    if (el.scrollWidth > el.clientWidth) el.setAttribute('tabindex', '0');
    else el.removeAttribute('tabindex');
}
/** @type {(button: HTMLElement, text: () => string) => void} */
function copies(element, text) {
  const label = element.textContent;
  element.addEventListener('click', async () => {
    await navigator.clipboard.writeText(text());
    element.textContent = 'Copied';
    setTimeout(() => {
      element.textContent = label;
    }, 2000);
  });
}
function open() {
  const { name, values } = fromAddress();
  const chosen = name || names[0];
  showFields(chosen, Object.keys(values).length ? values : exampleOf(chosen));
}

const exercises = h(
  'select',
  { id: 'work-exercise' },
  ...names.map(name => h('option', { value: name }, `${name.replaceAll('_', '-')}: ${details[name].title}`)),
);
exercises.addEventListener('change', () => showFields(exercises.value, exampleOf(exercises.value)));
const button = (/** @type {string} */ id, /** @type {string} */ label) => h('button', { type: 'button', id }, label);
const choice = (/** @type {string} */ id, /** @type {string} */ label, checked = false) => {
  const input = h('input', { type: 'radio', name: 'work-form', id });
  input.checked = checked;
  input.addEventListener('change', update);
  return h('label', {}, input, label);
};
root.replaceChildren(
  h('div', { class: 'row' }, h('label', { for: 'work-exercise' }, 'Exercise'), exercises),
  h('h2', { id: 'work-title' }),
  h('p', { id: 'work-about' }),
  h(
    'form',
    { 'aria-label': 'Numbers' },
    h('div', { id: 'work-fields' }),
    h('details', { id: 'work-options' }, h('summary', {}, 'More options'), h('div', { id: 'work-more' })),
  ),
  h('p', { class: 'command' }, h('code', { id: 'work-command' }), button('work-copy-command', 'Copy command')),
  h('p', { id: 'work-message', role: 'status', hidden: '' }),
  h(
    'section',
    { id: 'work-solution', 'aria-label': 'Solution' },
    h(
      'div',
      { class: 'bar' },
      h(
        'fieldset',
        {},
        h('legend', {}, 'Show as'),
        choice('work-as-text', 'text', true),
        choice('work-as-formulas', 'formulas'),
      ),
      button('work-copy-text', 'Copy solution'),
      button('work-copy-address', 'Copy link'),
    ),
    h('pre', { id: 'work-text', 'aria-label': 'Solution as text', role: 'region' }),
    h('div', { id: 'work-formulas', class: 'translucid', hidden: '' }),
  ),
);
root.querySelector('form')?.addEventListener('submit', event => event.preventDefault());
copies(get('work-copy-command'), () => get('work-command').textContent ?? '');
copies(get('work-copy-text'), () => get('work-text').textContent ?? '');
copies(get('work-copy-address'), () => location.href);
addEventListener('hashchange', open);
open();
