// A scrolling box with a button at each side where content is cut off.
import { h, icon } from '../dom.js';

// Scroll a box until an element is visible.
/** @type {(box: Element | null, el: Element | null) => void} */
export function scrollIntoBox(box, el) {
  if (!box || !el) return;
  const [outer, inner] = [box.getBoundingClientRect(), el.getBoundingClientRect()];
  /** @type {(low: number, high: number, first: number, last: number) => number} */
  const past = (low, high, first, last) => (low < first || high > last ? (low + high - first - last) / 2 : 0);
  box.scrollLeft += past(inner.left, inner.right, outer.left, outer.right);
  box.scrollTop += past(inner.top, inner.bottom, outer.top, outer.bottom);
}
/** @type {(box: HTMLElement, name: string, also?: { falls?: boolean }) => HTMLElement} */
export function withScrollButtons(box, name, { falls = false } = {}) {
  // falls: it may also be higher than its box
  /** @type {(across: number, along: number, sign: 'prev' | 'next', side: string) => HTMLButtonElement} */
  const way = (across, along, sign, side) =>
    h(
      'button',
      {
        class: `rollon ${side}`,
        hidden: true,
        title: `scroll ${name}`,
        'aria-label': `Scroll ${name}: ${side}`,
        onclick: () => box.scrollBy({ left: across * 0.8 * box.clientWidth, top: along * 0.8 * box.clientHeight }),
      },
      icon(sign),
    );
  const left = way(-1, 0, 'prev', 'left');
  const right = way(1, 0, 'next', 'right');
  const down = way(0, 1, 'next', 'down');
  const look = () => {
    left.hidden = box.scrollLeft < 2;
    right.hidden = box.scrollLeft + box.clientWidth > box.scrollWidth - 2;
    down.hidden = !falls || box.scrollTop + box.clientHeight > box.scrollHeight - 2;
  };
  box.addEventListener('scroll', look);
  const anew = new MutationObserver(look);
  const watch = new ResizeObserver(() => {
    if (box.isConnected) return look();
    watch.disconnect();
    anew.disconnect();
  });
  watch.observe(box);
  anew.observe(box, { childList: true }); // what is in it is drawn anew
  return h('div.rolling', box, left, right, down);
}
