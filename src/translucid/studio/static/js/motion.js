// Motion: the old picture turns into the new one, and data runs along the strands once. Any input ends it, and there is
// none if the system asks for less. It changes no number: the new picture is complete from the start.
import { h, s } from './dom.js';
import * as highlight from './highlight.js';

const TURN = 280; // ms
const RUN = 400; // ms, all bands together
/** @type {Set<() => void>} */
const moving = new Set();
export const isCalm = () => matchMedia('(prefers-reduced-motion: reduce)').matches;

/** @typedef {Keyframe[] | PropertyIndexedKeyframes} Frames */
/** @type {(el: Element, frames: Frames, timing?: KeyframeAnimationOptions, after?: () => void) => void} */
function play(el, frames, timing, after = () => {}) {
  const motion = el.animate(frames, { duration: TURN, easing: 'ease-in-out', fill: 'backwards', ...timing });
  const end = () => {
    if (moving.delete(stop)) after();
  };
  const stop = () => {
    motion.cancel();
    end();
  };
  moving.add(stop);
  motion.onfinish = end;
}
const stopAll = () => {
  for (const stop of [...moving]) stop();
};
for (const kind of ['pointerdown', 'keydown']) addEventListener(kind, stopAll, true);

// Empty a box for a new picture; call the result once that is drawn. Marks of the same name (data-same) move, all else
// cross-fades.
/** @type {(box: Element) => () => void} */
export function crossFade(box) {
  highlight.forget(box);
  box.querySelector(':scope > .old')?.remove();
  const old = h('div.old', { 'aria-hidden': 'true', inert: true }, [...box.childNodes]);
  /** @type {(el: Element) => Keyframe} */
  const shape = el => ({ d: `path("${el.getAttribute('d')}")` });
  /** @type {(within: Element) => [string | undefined, Element][]} */
  const named = within => Array.from(within.querySelectorAll('path[data-same]'), el => [el.dataset.same, el]);
  return () => {
    if (isCalm() || !old.firstChild || !box.isConnected) return;
    const before = new Map(named(old));
    for (const [name, el] of named(box)) {
      const from = before.get(name);
      if (from) {
        play(el, [shape(from), shape(el)]);
        from.remove();
      }
    }
    for (const el of box.children) play(el, { opacity: [0, 1] });
    box.toggleAttribute('data-turning', true);
    box.append(old);
    play(old, { opacity: [1, 0] }, {}, () => {
      old.remove();
      box.toggleAttribute('data-turning', false);
    });
  };
}

// Once when a view is opened or its text changes: a light runs along these strands, [{ svg, d, length }], one after the
// other.
let opened = '';
/** @type {(key: string, strands: { svg: SVGElement; d: string; length: number }[]) => void} */
export function runLight(key, strands) {
  if (key === opened) return;
  opened = key;
  if (isCalm()) return;
  const duration = RUN / strands.length;
  strands.forEach(({ svg, d, length }, k) => {
    const light = svg.appendChild(s('path.running', { d, 'stroke-dasharray': `${length / 5} ${2 * length}` }));
    const timing = { duration, delay: k * duration, easing: 'linear' };
    play(light, { strokeDashoffset: [length / 5, -length] }, timing, () => light.remove());
  });
}
