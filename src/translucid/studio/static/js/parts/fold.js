// A tree that is longer than the window: the steps around the one that is looked at are drawn, the others are folded
// away, and it is said how many.
import { h } from '../dom.js';

// Steps from + 1 to `to`; where the step is still within the window of before, that stays.
export function steps(all, most, step, before = null) {
  const room = Math.max(1, Math.min(all, Math.floor(most)));
  const kept = before !== null && step > before && step <= before + room;
  const from = Math.max(0, Math.min(all - room, kept ? before : step - Math.ceil(room / 2)));
  return { from, to: from + room };
}
// Of a tree in order, parents first: what is within the window, and the beginnings that lead there.
export function within(nodes, { from, to }) {
  const leads = new Set();
  for (const node of nodes)
    if (node.step > from && node.step <= to) for (let up = node; up && !leads.has(up); up = up.up) leads.add(up);
  return nodes.filter(node => leads.has(node) || !node.up);
}
// What is folded; a click opens the steps next to those that are shown.
export function folded({ from, to }, all, open) {
  const few = (count, side, at) =>
    count
      ? h(
          'button',
          { class: 'fold', onclick: () => open(at) },
          `${count} ${side} step${count > 1 ? 's' : ''} folded; click to open`,
        )
      : null;
  if (to - from >= all) return [];
  const shown = `${to - from} of ${all} steps shown`;
  return [h('span', null, shown), few(from, 'earlier', from), few(all - to, 'later', to + 1)].filter(Boolean);
}
