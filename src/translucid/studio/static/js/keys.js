// The list of keys, and copying: a value in full precision, or Python code for it.
import { h, dialog } from './dom.js';
import * as api from './api.js';
import { addressOf } from './parts/terms.js';

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
  ['?', 'this list'],
];
const WITHIN = [
  ['Tab', 'go to the next picture'],
  ['← → ↑ ↓', 'move within a picture'],
  ['Enter', 'pin or open'],
  ['Backspace', 'in the terms of a number: go back'],
];

const written = keys => keys.split(' ').map((key, i) => [i ? ' ' : '', key === '…' ? key : h('kbd', key)]);
const section = (name, keys) =>
  h(
    'section',
    h('h3', name),
    h(
      'dl',
      keys.map(([key, does]) => [h('dt', written(key)), h('dd', does)]),
    ),
  );
export function keysTable(views) {
  const all = Object.values(views);
  const box = dialog(
    'Keys',
    h(
      'div.keylist',
      { tabindex: 0, role: 'region', 'aria-label': 'All keys' },
      section('Everywhere', [[`1 … ${all.length}`, 'switch to a view'], ...EVERYWHERE]),
      section('Keyboard navigation', WITHIN),
      all.filter(view => view.keys).map(view => section(view.keysTitle ?? `In ${view.name}`, view.keys)),
    ),
  );
  box.addEventListener('keydown', event => {
    if (event.key === '?') box.close();
  });
}

// ---- copying. The status bar names a number like Python: name[index], optionally with .mean(), or softmax
// name[index].
const PLACE = /^(softmax )?([\w.]+)(?:\[([^\]]*)\])?((?:\.\w+\(\))*)$/;
function parsed(told, run) {
  const found = PLACE.exec(told?.python === undefined ? (told?.path ?? '') : (told.python ?? ''));
  const point = found && run.points.find(each => each.at === found[2]);
  return point ? { soft: Boolean(found[1]), name: found[2], index: found[3] ?? '', behind: found[4], point } : null;
}
const quoted = text => JSON.stringify(text); // what JSON calls a string, Python does, too
export function pythonLine(told, run, target) {
  const found = parsed(told, run);
  if (!found) return null;
  const given = [run.text, ...(target === null ? [] : [target])].map(quoted).join(', ');
  const trace = `model.trace(${given})[${quoted(found.name)}]`;
  if (!found.point.shape.length) return trace;
  const places = found.index ? found.index.split(', ') : [];
  if (found.soft) return `${trace}[${['0', ...places.slice(0, -1)].join(', ')}].softmax(-1)[${places.at(-1)}]`;
  return `${trace}[${['0', ...places].join(', ')}]${found.behind}`;
}
export async function exactValue(told, run) {
  // full precision if it is a single number
  const found = parsed(told, run);
  if (!found || found.soft || found.behind || !/^[\d, ]*$/.test(found.index)) return String(told.value);
  const opened = await api.terms(run.run, addressOf(found.name, found.index ? [found.index] : [], found.point.shape));
  return opened.value === null ? opened.text : String(opened.value);
}
