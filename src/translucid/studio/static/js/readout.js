// The status bar: the value under the pointer, its name, and the only colour scale of the page.
import { h, special } from './dom.js';
import { gradient, num } from './ink.js';

let resting = null;
let shown = null;
export function rest(told) {
  resting = told;
  readout(told);
}
export function readout(told = resting) {
  // { at: [words...], path, value, scale, digits }
  const foot = document.getElementById('readout');
  shown = told;
  if (!told) {
    foot.replaceChildren();
    return;
  }
  const { scale, value } = told;
  const parts = [h('div.where', h('div.at', told.at), h('div.path', told.path ?? ''))];
  if (scale) {
    const digits = scale.max < 10 ? 1 : 0;
    const ends =
      told.ends ??
      (scale.kind === 'seq' ? ['0', num(scale.max, digits)] : [num(-scale.max, digits), '0', num(scale.max, digits)]);
    const place = told.place ?? (scale.kind === 'seq' ? value / scale.max : 0.5 + value / (2 * scale.max));
    parts.push(
      h(
        'div.legend',
        h(
          'div.ramp',
          { style: `background:${gradient(scale)}` },
          Number.isFinite(place) ? h('i', { style: `left:${Math.min(1, Math.max(0, place)) * 100}%` }) : null,
        ),
        h(
          'div.ends',
          ends.map(end => h('span', end)),
        ),
      ),
    );
  } else parts.push(h('div'));
  parts.push(h('div.value', value === undefined ? '' : Number.isNaN(value) ? 'masked' : num(value, told.digits ?? 3)));
  foot.replaceChildren(...parts);
}
export const current = () => shown;
// A short notice in place of the name, for a moment.
let quiet = 0;
export function notice(text) {
  const path =
    document.getElementById('readout').querySelector('.path') ??
    document.getElementById('readout').appendChild(h('div.path'));
  const before = path.textContent;
  path.textContent = text;
  path.classList.add('notice');
  clearTimeout(quiet);
  quiet = setTimeout(() => {
    if (path.isConnected && path.textContent === text) {
      path.textContent = before;
      path.classList.remove('notice');
    }
  }, 2500);
}
export const word = text => h('span', { class: special(text) ? 'special' : 'word' }, text);

// Copy a text and say so in the status bar, or say that the browser does not allow it.
export async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
    notice(`copied ${what ?? text}`);
  } catch {
    notice(`the browser does not allow copying; the text is: ${text}`);
  }
}
