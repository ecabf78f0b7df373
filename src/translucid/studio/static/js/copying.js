// Copying a value in full precision, or Python code for it.
import * as api from './api.js';
import { addressOf } from './parts/terms.js';

// The status bar names a number like Python: name[index], optionally with .mean(), or softmax
// name[index].
const PLACE = /^(softmax )?([\w.]+)(?:\[([^\]]*)\])?((?:\.\w+\(\))*)$/;
/** @type {(told: Reading | null, run: Run) => TracedNumber | null} */
function parsed(told, run) {
  const found = PLACE.exec(told?.python === undefined ? (told?.path ?? '') : (told.python ?? ''));
  const point = found && run.points.find(each => each.at === found[2]);
  return point ? { soft: Boolean(found[1]), name: found[2], index: found[3] ?? '', behind: found[4], point } : null;
}
/** @type {(text: string) => string} */
const quoted = text => JSON.stringify(text); // what JSON calls a string, Python does, too
/** @type {(told: Reading | null, run: Run, target: string | null) => string | null} */
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
/** @type {(told: Reading, run: Run) => Promise<string>} */
export async function exactValue(told, run) {
  // full precision if it is a single number
  const found = parsed(told, run);
  if (!found || found.soft || found.behind || !/^[\d, ]*$/.test(found.index)) return String(told.value);
  const opened = await api.terms(run.run, addressOf(found.name, found.index ? [found.index] : [], found.point.shape));
  return opened.value === null ? opened.text : String(opened.value);
}
