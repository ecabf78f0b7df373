// A box over the page: it holds the focus while it is open; Escape and a click beside it close it.
import { h } from '../dom.js';

export function dialog(title, ...body) {
  const shut = h('button', { class: 'edit', onclick: () => box.close() }, 'Close');
  const box = h('dialog', { class: 'over', 'aria-label': title }, h('header', null, h('h2', null, title), shut), body);
  const before = document.activeElement;
  box.addEventListener('click', event => {
    if (event.target === box) box.close();
  });
  box.addEventListener('close', () => {
    box.remove();
    before?.focus?.({ preventScroll: true });
  });
  box.addEventListener('keydown', event => event.stopPropagation()); // Escape closes it, and lets go of no pin
  document.body.append(box);
  box.showModal();
  return box;
}
