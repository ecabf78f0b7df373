// Keyboard: keys of the page, navigation within pictures (each is one tab stop), and the focus after a redraw.
import { s } from './dom.js';

/** @type {(event: Event) => boolean} */
const isTyping = event => event.target instanceof Element && event.target.closest('input,textarea,select') !== null;
// With Control, Command or Alt, keys and clicks belong to the browser.
/** @type {(event: KeyboardEvent | MouseEvent) => boolean} */
export const hasModifier = event => event.ctrlKey || event.metaKey || event.altKey;
// Not typed into a field, and not a browser shortcut.
/** @type {(event: KeyboardEvent) => boolean} */
export const isPlainKey = event => !(isTyping(event) || hasModifier(event));
// The keys of a view, until the signal is aborted.
/** @type {(signal: AbortSignal, act: (event: KeyboardEvent) => void) => void} */
export const onKeys = (signal, act) =>
  addEventListener('keydown', event => isPlainKey(event) && act(event), { signal });

/** @type {Record<string, [number, number]>} */
const MOVES = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
/** @type {Record<string, [number, number]>} */
const TO_ENDS = { Home: [0, -Infinity], End: [0, Infinity] };

// Make a picture one tab stop: start() and step(place, down, across) return a place; look(place) shows it like the
// pointer would, until leave(); take(place) is a click. kind, hint: for screen readers. area, placeAt(x, y): for the
// pointer.
/** @type {<P>(el: HTMLElement | SVGElement, way: Walk<P>) => void} */
export function arrowNavigation(
  el,
  { name, kind = 'picture', hint, start, step, look, leave, take, area, placeAt, toEnds },
) {
  /** @type {any} */
  let at = null;
  for (const [key, value] of Object.entries({
    tabindex: '0',
    role: 'application',
    'aria-roledescription': kind,
    'aria-label': `${name}; ${hint ?? `arrow keys move${take ? ', Enter selects' : ''}`}`,
  }))
    el.setAttribute(key, value);
  /** @type {(place: any) => void} */
  const stand = place => {
    if (place === null || place === undefined) return;
    at = place;
    look(at);
  };
  const go = () => {
    if (at === null) return;
    at = null;
    leave();
  };
  el.addEventListener('focus', () => {
    if (el.matches(':focus-visible')) stand(at ?? start());
  });
  el.addEventListener('blur', go);
  /** @type {(event: KeyboardEvent) => unknown} */
  const press = event => {
    const move = MOVES[event.key] ?? (toEnds ? TO_ENDS[event.key] : undefined);
    const taken = take && at !== null && (event.key === 'Enter' || event.key === ' ');
    if (!move && !taken) return;
    event.preventDefault();
    event.stopPropagation(); // the view uses these keys itself
    if (taken) return take(at);
    const from = at ?? start();
    if (from !== null) stand(at === null && !area ? from : step(from, ...move));
  };
  el.addEventListener('keydown', /** @type {EventListener} */ (press));
  if (!area || !placeAt) return;
  /** @type {(event: MouseEvent) => any} */
  const pointed = event => {
    const { left, top } = el.getBoundingClientRect();
    return placeAt(event.clientX - left, event.clientY - top);
  };
  el.append(
    s('rect.hit', {
      ...area,
      onpointermove: event => {
        const place = pointed(event);
        if (place === null) go();
        else if (String(place) !== String(at)) stand(place);
      },
      onpointerleave: go,
      onclick: event => {
        at = pointed(event);
        if (at !== null) take?.(at);
      },
    }),
  );
}

// Arrow keys move the focus between the buttons of a list (up and down) or of a grid with this many columns.
/** @type {(box: HTMLElement, columns?: number) => void} */
export function arrowsMoveFocus(box, columns = 0) {
  box.addEventListener('keydown', event => {
    const [down, across] = MOVES[event.key] ?? [0, 0];
    const all = [...box.querySelectorAll('button')];
    const here = all.indexOf(/** @type {HTMLButtonElement} */ (document.activeElement));
    const by = columns ? across + down * columns : down;
    if (!by || here < 0) return;
    event.preventDefault();
    all[here + by]?.focus();
  });
}

const FOCUSABLE = 'a[href],button,input,select,[tabindex]';
/** @type {(el: Element) => string | null} */
const known = el => el.getAttribute('aria-label') || el.getAttribute('title') || el.textContent;
// Call before a redraw; the result restores the focus to the element with the same name or the same position.
/** @type {(box: Element) => () => void} */
export function keepFocus(box) {
  const el = document.activeElement;
  if (!el || el === box || !box.contains(el)) return () => {};
  /** @type {() => HTMLElement[]} */
  const those = () => Array.from(box.querySelectorAll(FOCUSABLE));
  const all = those();
  const place = all.indexOf(/** @type {HTMLElement} */ (el));
  const name = known(el);
  const tag = el.tagName;
  return () => {
    if (document.activeElement !== document.body) return; // another element has the focus now
    const now = those().filter(each => each.tagName === tag || tag === 'INPUT');
    (now.find(each => known(each) === name) ?? (all.length === now.length ? now[place] : null))?.focus({
      preventScroll: true,
    });
  };
}
