// Weights as lines between the parts of a small network: colour shows the sign, width the size. One tab stop: arrow
// keys move between the lines, and the status bar shows the weight.
import { s, nearestIndex, unit } from '../dom.js';
import { cssColour } from '../ink.js';
import { arrowNavigation } from '../keyboard.js';
import { readout } from '../readout.js';

const WIDEST = 5; // units
const HIT = 9; // units, for the pointer
// lines: [{ d, value, from, to, path }]
/** @type {(lines: { d: string; value: number; from: string; to: string; path: string }[]) => SVGGElement} */
export function edges(lines) {
  const u = unit();
  const max = lines.reduce((most, { value }) => Math.max(most, Math.abs(value)), 0) || 1;
  const scale = { kind: 'div', max };
  const drawn = lines.map(({ d, value }) => {
    const size = Math.abs(value) / max;
    return s('path.edge', { d, stroke: cssColour(value, scale), 'stroke-width': (0.75 + (WIDEST - 0.75) * size) * u });
  });
  /** @type {SVGPathElement | null} */
  let lit = null;
  const leave = () => {
    lit?.classList.remove('lit');
    readout();
  };
  /** @type {(k: number) => void} */
  const look = k => {
    lit?.classList.remove('lit');
    lit = drawn[k];
    lit.classList.add('lit');
    const { from, to, path, value } = lines[k];
    readout({ at: [`Weight from ${from} to ${to}`], path, value, scale });
  };
  const hits = lines.map(({ d }, k) =>
    s('path.edgehit', { d, 'stroke-width': HIT * u, onmouseenter: () => look(k), onmouseleave: leave }),
  );
  const group = s('g.edges', drawn, hits);
  arrowNavigation(group, {
    name: `${lines.length} weights`,
    hint: 'arrow keys move between the lines',
    start: () => 0,
    step: (k, down, across) => nearestIndex(k + down + across, lines.length),
    look,
    leave,
  });
  return group;
}
