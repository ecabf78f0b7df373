// One view in an element of its own, and the way to remove it.
import { h } from './dom.js';
import * as highlight from './highlight.js';

// Returns drawn: a promise that the view is complete; stop(): end its listeners, timers and sockets, keep its picture;
// remove(): also remove the picture.
/** @type {(view: View, place: HTMLElement, found: Found) => Mounted} */
export function mount(view, place, found) {
  const leaving = new AbortController();
  const { signal } = leaving;
  const el = h('div.mounted');
  place.append(el);
  const stop = () => leaving.abort();
  return {
    drawn: view.draw(el, /** @type {Shown} */ ({ ...found, signal })),
    stop,
    remove() {
      stop();
      highlight.forget(el);
      el.remove();
    },
  };
}
