// The keys in one list, and what they copy: a value with all its digits, or the line of Python that gives it.
import { h } from './dom.js';
import * as api from './api.js';
import { dialog } from './parts/dialog.js';
import { addressOf } from './parts/terms.js';

const EVERYWHERE = [
  ['1 … 8', 'the views, in the order of the bar'],
  ['/', 'change the sentence'],
  ['← →', 'the token before, the token after'],
  ['t', 'the numbers of a picture as a table'],
  ['c', 'copy the value at the foot of the page'],
  ['Shift c', 'copy the line of Python that gives it'],
  ['l', 'copy a link to exactly this'],
  ['s', 'save the view as SVG'],
  ['Shift s', 'save it as PNG'],
  ['x', 'save the session as one file'],
  ['i', 'the inspector: away or back'],
  ['d', 'light or dark'],
  ['p', 'larger, for a projector'],
  ['Esc', 'let go of what is pinned'],
  ['?', 'this list'],
];
const WITHIN = [
  ['Tab', 'from picture to picture'],
  ['← → ↑ ↓', 'inside a picture: from mark to mark'],
  ['Enter', 'pin, open, or go in'],
  ['Backspace', 'in the terms of a number: back'],
];
const OWN = {
  flow: [
    ['↑ ↓', 'open the layer before, the layer after'],
    ['[ ]', 'the head before, the head after'],
    ['Enter', 'go into the part: Attention, Recurrent'],
    ['o', 'switch the part off, in What-if'],
  ],
  attention: [
    ['↑ ↓', 'the layer before, the layer after'],
    ['[ ]', 'the head before, the head after'],
    ['m', 'the next moment: scores, scaled, masked, weights'],
    ['n', 'numbers in the cells'],
    ['o', 'switch the head off, in What-if'],
    ['Backspace', 'go out, to Flow'],
  ],
  recurrent: [
    ['↑ ↓', 'the layer before, the layer after'],
    ['[ ]', 'the unit before, the unit after'],
    ['o', 'switch the layer off, in What-if'],
    ['Backspace', 'go out, to Flow'],
  ],
  decode: [
    ['← →', 'the step before, the step after'],
    ['↑ ↓', 'the token above, the token below'],
    ['f', 'force the token'],
    ['Space', 'play, pause'],
    ['Backspace', 'let the model choose again'],
  ],
  whatif: [
    ['o', 'turn the switch that has the focus'],
    ['Backspace', 'as trained again'],
  ],
  train: [['Space', 'pause the page, never the training']],
  lesson: [
    ['Space', 'the next stop; from elsewhere, back to the stop'],
    ['Shift Space', 'the stop before'],
  ],
};
const NAMES = {
  flow: 'In Flow',
  attention: 'In Attention',
  recurrent: 'In Recurrent',
  decode: 'In Decode',
  whatif: 'In What-if',
  train: 'In Train',
  lesson: 'In a lesson',
};

const written = keys => keys.split(' ').map((key, i) => [i ? ' ' : '', key === '…' ? key : h('kbd', null, key)]);
const section = (name, keys) =>
  h(
    'section',
    null,
    h('h3', null, name),
    h(
      'dl',
      null,
      keys.map(([key, does]) => [h('dt', null, written(key)), h('dd', null, does)]),
    ),
  );
export function keysTable() {
  const box = dialog(
    'Keys',
    h(
      'div',
      { class: 'keylist', tabindex: 0, role: 'region', 'aria-label': 'All keys' },
      section('Everywhere', EVERYWHERE),
      section('With the keyboard only', WITHIN),
      Object.entries(OWN).map(([view, keys]) => section(NAMES[view], keys)),
    ),
  );
  box.addEventListener('keydown', event => {
    if (event.key === '?') box.close();
  });
}

// ---- copying. A read-out names its number as Python would: name[places], perhaps with .mean() behind, or softmax
// name[places].
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
  // all digits, where the number stands in one place
  const found = parsed(told, run);
  if (!found || found.soft || found.behind || !/^[\d, ]*$/.test(found.index)) return String(told.value);
  const opened = await api.terms(run.run, addressOf(found.name, found.index ? [found.index] : [], found.point.shape));
  return opened.value === null ? opened.text : String(opened.value);
}
