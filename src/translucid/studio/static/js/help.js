// Help: what the view shows, how to read it, the terms in it, and the keys.
import { h, dialog } from './dom.js';
import { TERMS } from './glossary.js';

const EVERYWHERE = [
  ['/', 'change the sentence'],
  ['← →', 'previous or next token'],
  ['t', 'show the numbers of a picture as a table'],
  ['c', 'copy the value in the status bar'],
  ['Shift c', 'copy Python code for the value'],
  ['l', 'copy a link to this view'],
  ['s', 'save the view as SVG'],
  ['Shift s', 'save it as PNG'],
  ['x', 'save the session as one file'],
  ['i', 'show or hide the inspector'],
  ['d', 'light or dark'],
  ['p', 'larger text, for a projector'],
  ['Esc', 'unpin'],
  ['?', 'this help'],
];
const WITHIN = [
  ['Tab', 'go to the next picture'],
  ['← → ↑ ↓', 'move within a picture'],
  ['Enter', 'pin or open'],
  ['Backspace', 'in the terms of a number: go back'],
];

/** @type {(keys: string) => Content} */
const written = keys => keys.split(' ').map((key, i) => [i ? ' ' : '', key === '…' ? key : h('kbd', key)]);
/** @type {(name: string, keys: string[][]) => HTMLElement} */
const section = (name, keys) =>
  h(
    'section',
    h('h3', name),
    h(
      'dl',
      keys.map(([key, does]) => [h('dt', written(key)), h('dd', does)]),
    ),
  );
// view: the one on the page.
/** @type {(view: View, views: Record<string, View>) => void} */
export function help(view, views) {
  const all = Object.values(views);
  const { name, about } = view;
  const digits = all.length < 10 ? `1 … ${all.length}` : '1 … 9 0';
  const box = dialog(
    `Help: ${name}`,
    h(
      'div.helptext',
      { tabindex: 0, role: 'region', 'aria-label': `Help: ${name}` },
      about && [
        h('p', about.shows),
        h('p', about.read),
        h(
          'dl.terms',
          about.terms.map(each => [h('dt', each), h('dd', TERMS[each])]),
        ),
      ],
      h('h3', 'Keys'),
      h(
        'div.keylist',
        view.keys && section(view.keysTitle ?? `In ${name}`, view.keys),
        section('Everywhere', [[digits, 'switch to a view'], ...EVERYWHERE]),
        section('Keyboard navigation', WITHIN),
        all
          .filter(other => other !== view)
          .map(({ name: title, keys, keysTitle: own = `In ${title}` }) => keys && section(own, keys)),
      ),
    ),
  );
  box.addEventListener('keydown', event => {
    if (event.key === '?') box.close();
  });
}
