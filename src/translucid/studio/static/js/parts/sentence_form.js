// The form for a sentence: while you type, it marks words that the model does not know, offers words that it knows
// instead, and completes the word at the caret.
import { h, icon } from '../dom.js';
import * as api from '../api.js';

// act(text) reads the sentence, leave() is Escape.
/** @type {(run: Run, model: Model, act: (text: string) => void, leave: () => void) => HTMLElement} */
export function sentenceForm(run, model, act, leave) {
  const numbers = run.tokens.features.length > 0;
  const field = h('input', {
    type: 'text',
    value: run.text,
    'aria-label': 'Sentence',
    maxlength: 20000,
    autocomplete: 'off',
    autocapitalize: 'off',
    spellcheck: 'false',
  });
  const marks = h('div.marks', { 'aria-hidden': 'true' });
  const hints = h('div.hints', { role: 'status' });
  const aligned = () => (marks.scrollLeft = field.scrollLeft);
  /** @type {(from: number, to: number, text: string) => void} */
  const put = (from, to, text) => {
    field.setRangeText(text, from, to, 'end');
    field.focus();
    help();
  };
  /** @type {(label: string, from: number, to: number, text: string, then?: () => void) => HTMLElement} */
  const offer = (label, from, to, text, then = () => {}) =>
    h(
      'button.chip',
      {
        type: 'button',
        onclick: () => {
          put(from, to, text);
          then();
        },
      },
      label,
    );
  const help = api.latest(async () => {
    const text = field.value;
    const caret = field.selectionStart ?? text.length;
    const found = await api.inputHelp(model.m, text, caret).catch(error => {
      const why = api.refusal(error); // a saved file has no model
      hints.replaceChildren(document.activeElement === field ? h('span.quiet', why) : '');
    });
    if (found && text === field.value) show(found, text, caret);
  });
  /** @type {(found: InputHelp, text: string, caret: number) => void} */
  function show({ unknown, completions, begun }, text, caret) {
    const typing = completions.length > 0 && document.activeElement === field;
    const odd = unknown.filter(each => !(typing && each.to === caret)); // the word is not complete yet
    marks.replaceChildren(
      ...markedPieces(text, odd).map(({ piece, isUnknown }) => (isUnknown ? h('u', piece) : piece)),
    );
    aligned();
    hints.replaceChildren(
      ...odd.map(each => h('span.unknowns', `“${each.text}” is unknown, read as <unk>. Instead: `, instead(each))),
      ...(typing && !odd.length ? completions.map(word => offer(word, caret - begun.length, caret, word)) : []),
    );
    if (!hints.hasChildNodes()) hints.append(idle());
  }
  /** @type {(unknown: InputHelp['unknown'][number]) => HTMLElement[]} */
  const instead = ({ from, to, text, replacements }) =>
    replacements.map(word => offer(named(word, text), from, to, word, () => act(field.value)));
  const idle = () =>
    h(
      'span.quiet',
      numbers
        ? 'Type other numbers, or roll the dice for an example from the model’s data.'
        : 'Type your own sentence, or roll the dice for one from the model’s data.',
    );
  const roll = async () => act(await api.randomText(model.m, Math.floor(Math.random() * 1e9)));
  field.addEventListener('input', help);
  field.addEventListener('focus', help);
  field.addEventListener('scroll', aligned);
  field.addEventListener('keydown', event => event.key === 'Escape' && leave());
  hints.append(idle());
  help();
  return h(
    'form.asking',
    {
      onsubmit: event => {
        event.preventDefault();
        act(field.value);
      },
    },
    h('div.typing', marks, field),
    h(
      'button.edit.dice',
      { type: 'button', title: 'Another example', 'aria-label': 'Another example', onclick: roll },
      icon('dice'),
    ),
    h('button.edit.read', { type: 'submit' }, 'Read it'),
    hints,
  );
}
// The pieces of a text; unknown ones begin after the space before them.
/** @type {(text: string, unknown: { from: number; to: number }[]) => { piece: string; isUnknown: boolean }[]} */
export function markedPieces(text, unknown) {
  let end = 0;
  const pieces = unknown.flatMap(({ from, to }) => {
    const start = from + text.slice(from, to).search(/\S|$/);
    const known = { piece: text.slice(end, start), isUnknown: false };
    end = to;
    return [known, { piece: text.slice(start, to), isUnknown: true }];
  });
  return [...pieces, { piece: text.slice(end), isUnknown: false }];
}
// What a replacement of an unknown text does, for its button.
/** @type {(word: string, text: string) => string} */
export const named = (word, text) =>
  word === ''
    ? 'Remove'
    : word.trim() !== text
      ? word.trim()
      : word.startsWith(' ')
        ? 'Add a space'
        : 'Remove the space';
