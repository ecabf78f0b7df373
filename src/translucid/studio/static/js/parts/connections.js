// Which value of a network of numbers goes into which: a line for each weight, where they are few enough to be told
// apart.
import { s } from '../dom.js';

const MOST = 300; // lines between two columns

// inputs: where the first values stand, { x, ys }; panes: columns of values, each drawn already (inner).
export function connections(inputs, panes) {
  let before = { ...inputs, scope: null };
  return panes.flatMap(pane => {
    const { x, width, y, pitch } = pane.inner;
    const ys = Array.from({ length: pane.size }, (_, i) => y + (i + 0.5) * pitch);
    const each = pane.scope === 'standardise' || pane.scope === before.scope; // value by value, without weights
    const [from, to] = [before, { x: x + width, ys, scope: pane.scope }];
    before = to;
    if (from.ys.length * ys.length > MOST) return [];
    return from.ys.flatMap((a, i) =>
      ys.flatMap((b, j) => (each && i !== j ? [] : [s('path', { class: 'wire', d: `M${from.x} ${a}L${x} ${b}` })])),
    );
  });
}
