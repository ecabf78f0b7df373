// What we look at: a hovered key lights every mark that carries it, on any view.
// Keys: src:2 (a word of the source), tgt:5 (a row of the decoder), unit:37, head:1.2.
// Marks are found through a map from key to elements; the page is never searched.
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
  const keys = state.hover.length ? state.hover : state.pins;
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
export function pinned(side, nth = 0) {
  const key = state.pins.filter(each => each.startsWith(`${side}:`))[nth];
  return key === undefined ? null : Number(key.split(':')[1]);
}
// Hovering and clicking an element means its keys.
export function alive(el, keys, { over, out, click } = {}) {
  el.addEventListener('mouseenter', () => {
    hover(keys);
    over?.();
  });
  el.addEventListener('mouseleave', () => {
    hover([]);
    out?.();
  });
  el.addEventListener('focus', () => {
    hover(keys);
    over?.();
  });
  el.addEventListener('blur', () => {
    hover([]);
    out?.();
  });
  el.addEventListener('click', () => {
    pin(keys);
    click?.();
  });
  return mark(el, ...keys);
}
