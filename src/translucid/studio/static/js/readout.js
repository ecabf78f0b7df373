// The status bar: the value under the pointer, its name, and the only colour scale of the page.
import { h, isSpecialToken } from './dom.js';
import { gradient, num } from './ink.js';
import { term } from './glossary.js';

const box = () => /** @type {HTMLElement} */ (document.getElementById('readout'));
/** @type {Reading | null} */
let resting = null;
/** @type {Reading | null} */
let shown = null;
/** @type {(told: Reading | null) => void} */
export function readoutDefault(told) {
  resting = told;
  readout(told);
}
/** @type {(told?: Reading | null) => void} */
export function readout(told = resting) {
  // { at: [words...], path, value, scale, digits }
  const foot = box();
  shown = told;
  if (!told) {
    foot.replaceChildren();
    return;
  }
  const { scale, value = NaN } = told;
  const parts = [h('div.where', h('div.at', told.at), h('div.path', told.path ?? ''))];
  for (const el of parts[0].querySelectorAll('.at .special')) el.replaceWith(term(el.textContent));
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
  parts.push(
    h('div.value', told.value === undefined ? '' : Number.isNaN(value) ? 'masked' : num(value, told.digits ?? 3)),
  );
  foot.replaceChildren(...parts);
}
export const shownReading = () => shown;
// A short notice in place of the name, for a moment.
/** @type {ReturnType<typeof setTimeout> | undefined} */
let quiet;
/** @type {(text: string) => void} */
export function notice(text) {
  const path = box().querySelector('.path') ?? box().appendChild(h('div.path'));
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
/** @type {(text: string) => HTMLElement} */
export const wordElement = text => h('span', { class: isSpecialToken(text) ? 'special' : 'word' }, text);

// Copy a text and say so in the status bar, or say that the browser does not allow it.
/** @type {(text: string, what?: string) => Promise<void>} */
export async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
    notice(`copied ${what ?? text}`);
  } catch {
    notice(`the browser does not allow copying; the text is: ${text}`);
  }
}
