// What we look at: a hovered key lights every mark that carries it, on any view.
// Keys: src:2 (a word of the source), tgt:5 (a row of the decoder), unit:37, head:1.2.
// Marks are found through a map from key to elements; the page is never searched.
import { latest } from './api.js';
import { onLook } from './dom.js';

const marks = new Map(); // key -> Set of { el, keys }
const listeners = new Set();
export const state = { hover: [], pins: [], meant: [] }; // meant: what a lesson speaks of
let lit = new Set();
let meant = new Set();

export function mark(el, ...keys) {
  // el carries these keys from now on
  const entry = { el, keys };
  for (const key of keys) {
    if (!marks.has(key)) marks.set(key, new Set());
    marks.get(key).add(entry);
  }
  return el;
}
export function forget(root) {
  // marks within root are gone
  for (const [key, entries] of marks) {
    for (const entry of entries) if (root === null || root.contains(entry.el)) entries.delete(entry);
    if (!entries.size) marks.delete(key);
  }
}
export function paint() {
  const keys = looked();
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
// What a lesson speaks of may lie further down a list.
export function reveal() {
  for (const { el } of meant) if (el instanceof HTMLElement) el.scrollIntoView({ block: 'nearest' });
}
export function hover(keys = []) {
  state.hover = keys;
  paint();
  for (const f of listeners) f('hover');
}
// What is pinned stays so: a second click changes nothing, or a panel would jump while somebody reads it.
export function pin(keys) {
  if (keys.length === state.pins.length && keys.every(key => state.pins.includes(key))) return;
  repin(keys);
}
export const unpin = () => repin([]);
function repin(keys) {
  state.pins = keys;
  state.hover = [];
  paint();
  for (const f of listeners) f('pin');
}
export function onChange(f) {
  listeners.add(f);
  return () => listeners.delete(f);
}
// Calls act(keysOf()) a moment after something else is looked at, until the signal is aborted.
export function onLooked(signal, keysOf, act) {
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
export function pinned(side, nth = 0) {
  const key = state.pins.filter(each => each.startsWith(`${side}:`))[nth];
  return key === undefined ? null : Number(key.split(':')[1]);
}
// While an element is looked at, its keys are.
export const lights = (el, keys) =>
  onLook(
    el,
    () => hover(keys),
    () => hover([]),
  );
// Hovering and clicking an element means its keys.
export function alive(el, keys, { over, out } = {}) {
  lights(el, keys);
  if (over) onLook(el, over, out);
  el.addEventListener('click', () => pin(keys));
  return mark(el, ...keys);
}

// What a panel is about: what is pinned, else what the pointer is over, else what it was over last. So a panel stands
// still while the pointer is on its way to it.
export function steady() {
  let last = [];
  return () => {
    last = [state.pins, state.hover].find(keys => keys.length) ?? last;
    return last;
  };
}
export const looked = () => (state.hover.length ? state.hover : state.pins);

// ---- where two keys meet: which row and which column of a table the hovered or pinned keys mean
// In self-attention rows and columns are the same words, so the first key is the row and the second the column.
export function cellOfKeys(keys, rows, cols) {
  // rows, cols: arrays of keys (or empty)
  const same = rows.length > 0 && rows[0] === cols[0];
  const places = wanted => keys.map(key => placeIn(wanted, key)).filter(place => place >= 0);
  const inRows = places(rows);
  const inCols = places(cols);
  const row = inRows[0] ?? null;
  const col = (same ? (inCols[1] ?? inCols[0]) : inCols[0]) ?? null;
  return { row, col, exact: row !== null && col !== null && (!same || inRows.length > 1) };
}

// A row of a pooled table stands for its word and for those that follow, up to the next row.
function placeIn(wanted, key) {
  const found = wanted.indexOf(key);
  if (found >= 0 || wanted.length < 2) return found;
  const [side, place] = key.split(':');
  const [first, step] = [wanted[0], wanted[1]].map(each =>
    each.startsWith(`${side}:`) ? Number(each.slice(side.length + 1)) : NaN,
  );
  const row = Math.floor((place - first) / (step - first));
  return step - first > 1 && row >= 0 && row < wanted.length ? row : -1;
}
// Which word is meant within a row of a pooled table: the one that a key names, else the first.
export function wordInRow(keys, rows, row) {
  const number = each => Number(each.split(':')[1]);
  const [side] = rows[0].split(':');
  const step = rows.length > 1 ? number(rows[1]) - number(rows[0]) : 1;
  const key = keys.find(each => each.startsWith(`${side}:`) && Math.floor(number(each) / step) === row);
  return key === undefined ? row * step : number(key);
}
// Calls f now and at every change, as long as the element is on the page.
export function follow(el, f) {
  let been = false;
  const stop = onChange(() => {
    if (el.isConnected) {
      been = true;
      f();
    } else if (been) stop();
  });
  f();
}
