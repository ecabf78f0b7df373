// Linked highlighting: a hovered key highlights every mark with this key, in any view.
// Keys: src:2 (a word of the source), tgt:5 (a row of the decoder), unit:37, head:1.2.
// Marks are found through a map from key to elements; the page is never searched.
import { latest } from './api.js';
import { onHoverOrFocus } from './dom.js';

/** @type {Map<string, Set<Mark>>} */
const marks = new Map(); // key -> Set of { el, keys }
/** @type {Set<(what: 'hover' | 'pin') => void>} */
const listeners = new Set();
/** @type {Map<() => void, { el: Element; been: boolean }>} */
const followers = new Map(); // what follow() was given
/** @type {{ hover: string[]; pins: string[]; meant: string[] }} */
export const state = { hover: [], pins: [], meant: [] }; // meant: what a lesson refers to
/** @type {Set<Mark>} */
let lit = new Set();
/** @type {Set<Mark>} */
let meant = new Set();

/** @type {<E extends Element>(el: E, ...keys: string[]) => E} */
export function mark(el, ...keys) {
  // el has these keys from now on
  const entry = { el, keys };
  for (const key of keys) {
    const entries = marks.get(key) ?? new Set();
    marks.set(key, entries.add(entry));
  }
  return el;
}
/** @type {(root: Node | null) => void} */
export function forget(root) {
  // remove the marks within root, and end what follows there
  for (const [key, entries] of marks) {
    for (const entry of entries) if (root === null || root.contains(entry.el)) entries.delete(entry);
    if (!entries.size) marks.delete(key);
  }
  for (const [act, { el, been }] of followers)
    if (root === null || root.contains(el) || (been && !el.isConnected)) unfollow(act);
}
/** @type {(...boxes: Element[]) => void} */
export function clear(...boxes) {
  for (const box of boxes) {
    forget(box);
    box.replaceChildren();
  }
}
export function paint() {
  const keys = activeKeys();
  /** @type {Set<Mark>} */
  const now = new Set();
  for (const key of keys) for (const entry of marks.get(key) ?? []) now.add(entry);
  for (const entry of lit) if (!now.has(entry)) entry.el.classList.remove('lit', 'crossed', 'pinned');
  for (const entry of now) {
    entry.el.classList.add('lit');
    entry.el.classList.toggle('crossed', entry.keys.length > 1 && entry.keys.every(key => keys.includes(key)));
    entry.el.classList.toggle('pinned', entry.keys.length === 1 && state.pins.includes(entry.keys[0]));
  }
  lit = now;
  const sought = new Set(state.meant.flatMap(key => [...(marks.get(key) ?? [])]));
  for (const entry of meant) if (!sought.has(entry)) entry.el.classList.remove('meant');
  for (const entry of sought) entry.el.classList.add('meant');
  meant = sought;
}
// Scroll to what a lesson highlights.
export function scrollToMeant() {
  for (const { el } of meant) if (el instanceof HTMLElement) el.scrollIntoView({ block: 'nearest' });
}
/** @type {(keys?: string[]) => void} */
export function hover(keys = []) {
  state.hover = keys;
  paint();
  for (const f of listeners) f('hover');
}
// A second click on the same keys does not unpin them, so that a panel does not jump.
/** @type {(keys: string[]) => void} */
export function pin(keys) {
  if (keys.length === state.pins.length && keys.every(key => state.pins.includes(key))) return;
  repin(keys);
}
export const unpin = () => repin([]);
/** @type {(keys: string[]) => void} */
function repin(keys) {
  state.pins = keys;
  state.hover = [];
  paint();
  for (const f of listeners) f('pin');
}
/** @type {(f: (what: 'hover' | 'pin') => void) => () => void} */
export function onChange(f) {
  listeners.add(f);
  return () => listeners.delete(f);
}
// Call act(keysOf()) shortly after the hovered or pinned keys change, until the signal is aborted.
/** @type {<K>(signal: AbortSignal, keysOf: () => K, act: (keys: K) => unknown) => void} */
export function onActiveKeys(signal, keysOf, act) {
  const soon = latest(act);
  let waiting = 0;
  const stop = onChange(() => {
    clearTimeout(waiting);
    waiting = setTimeout(soon, state.hover.length ? 40 : 0, keysOf());
  });
  signal.addEventListener('abort', () => {
    stop();
    clearTimeout(waiting);
  });
}
/** @type {(side: string, nth?: number) => number | null} */
export function pinned(side, nth = 0) {
  const key = state.pins.filter(each => each.startsWith(`${side}:`))[nth];
  return key === undefined ? null : Number(key.split(':')[1]);
}
// Hover or focus on an element highlights its keys.
/** @type {<E extends Element>(el: E, keys: string[]) => E} */
export const hoverable = (el, keys) =>
  onHoverOrFocus(
    el,
    () => hover(keys),
    () => hover([]),
  );
// Hover highlights the element's keys, a click pins them.
/** @type {<E extends Element>(el: E, keys: string[], also?: { over?: () => void; out?: () => void }) => E} */
export function clickable(el, keys, { over, out } = {}) {
  hoverable(el, keys);
  if (over && out) onHoverOrFocus(el, over, out);
  el.addEventListener('click', () => pin(keys));
  return mark(el, ...keys);
}

// The subject of a panel: pinned keys, else hovered ones, else the last hovered ones, so that it stays while the
// pointer moves to it.
/** @type {() => () => string[]} */
export function stickyKeys() {
  /** @type {string[]} */
  let last = [];
  return () => {
    last = [state.pins, state.hover].find(keys => keys.length) ?? last;
    return last;
  };
}
/** @type {() => string[]} */
export const activeKeys = () => (state.hover.length ? state.hover : state.pins);

// ---- the row and column of a table that keys select. In self-attention, rows and columns are the same words, so the
// first key is the row and the second the column.
/** @type {(keys: string[], rows: string[], cols: string[]) => Cell} */
export function cellOfKeys(keys, rows, cols) {
  // rows, cols: arrays of keys (or empty)
  const same = rows.length > 0 && rows[0] === cols[0];
  /** @type {(wanted: string[]) => number[]} */
  const places = wanted => keys.map(key => placeIn(wanted, key)).filter(place => place >= 0);
  const inRows = places(rows);
  const inCols = places(cols);
  const row = inRows[0] ?? null;
  const col = (same ? (inCols[1] ?? inCols[0]) : inCols[0]) ?? null;
  return { row, col, exact: row !== null && col !== null && (!same || inRows.length > 1) };
}

// A row of a pooled table represents its word and those up to the next row.
/** @type {(wanted: string[], key: string) => number} */
function placeIn(wanted, key) {
  const found = wanted.indexOf(key);
  if (found >= 0 || wanted.length < 2) return found;
  const [side, place] = key.split(':');
  const [first, step] = [wanted[0], wanted[1]].map(each =>
    each.startsWith(`${side}:`) ? Number(each.slice(side.length + 1)) : NaN,
  );
  const row = Math.floor((Number(place) - first) / (step - first));
  return step - first > 1 && row >= 0 && row < wanted.length ? row : -1;
}
// The word within a row of a pooled table: the one of a key, else the first.
/** @type {(keys: string[], rows: string[], row: number) => number} */
export function wordInRow(keys, rows, row) {
  /** @type {(key: string) => number} */
  const number = each => Number(each.split(':')[1]);
  const [side] = rows[0].split(':');
  const step = rows.length > 1 ? number(rows[1]) - number(rows[0]) : 1;
  const key = keys.find(each => each.startsWith(`${side}:`) && Math.floor(number(each) / step) === row);
  return key === undefined ? row * step : number(key);
}
// Call f now and at every change while the element is on the page.
/** @type {(el: Element, f: () => void) => void} */
export function follow(el, f) {
  const act = () => {
    if (el.isConnected) {
      followers.set(act, { el, been: true });
      f();
    } else if (followers.get(act)?.been) unfollow(act);
  };
  followers.set(act, { el, been: false });
  listeners.add(act);
  f();
}
/** @type {(act: () => void) => void} */
function unfollow(act) {
  followers.delete(act);
  listeners.delete(act);
}
// How many marks and listeners there are: for the tests.
export const counts = () => ({ marks: marks.size, listeners: listeners.size });
