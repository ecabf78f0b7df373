// Where the panes of a band stand, and which of their labels have room.
import { s, widest } from '../dom.js';
import * as link from '../link.js';

export const PAD = 7;                            // of a pane, above and below its rows
export const clip = (word, most) => (word.length > most ? `${word.slice(0, most - 1)}…` : word);
export const yRow = (band, i) => band.y + (i + 0.5) * band.pitch;
export const yWord = (band, word) => band.y + (word + 0.5) * band.pitch / band.step;
// A row may stand for several words of a long text; each of them lights it.
export function markRow(el, band, i) {
  for (let word = i * band.step; word < Math.min(band.words.length, (i + 1) * band.step); word++) link.mark(el, `${band.key}:${word}`);
  return el;
}


// base: width in units at 1280 and in a roomy stage; grow: share of what is left; most: where growing ends.
const SIZES = {
  tile: [50, 74, 0.14, 120], wide: [58, 90, 0.3, 170], cell: [22, 30, 0.5, 130], thin: [14, 20, 0, 20], plate: [26, 34, 0, 34],
  weave: [90, 120, 1, 460], cross: [100, 140, 1.2, 420], vector: [50, 74, 0.2, 140], column: [56, 70, 0.3, 120],
};
const sizeOf = pane => SIZES[pane.wide ? 'wide' : pane.cell ? 'cell' : pane.kind];

export function place(panes, from, to, { u, roomy }) {
  const plates = panes.filter(pane => pane.kind === 'plate').length;
  const joined = (pane, next) => pane.group !== null && pane.group !== undefined && pane.group === next.group;
  const both = (pane, next) => pane.kind === 'plate' && next.kind === 'plate' && plates > 7;
  let gaps = panes.slice(1).map((pane, i) => (joined(panes[i], pane) ? 6 : pane.kind === 'vector' && i > 1 ? 44 : pane.kind === 'column' ? 40 : both(panes[i], pane) ? (pane.layer % 6 ? 3 : 10) : roomy ? 18 : 13) * u);
  for (const pane of panes) pane.w = (pane.kind === 'plate' && plates > 7 ? 10 : sizeOf(pane)[roomy ? 1 : 0]) * u;
  const sum = list => list.reduce((a, b) => a + b, 0);
  const left = () => to - from - sum(gaps) - sum(panes.map(pane => pane.w));
  for (let turn = 0; turn < 6 && left() > 1; turn++) {      // grow, until nobody can
    const able = panes.filter(pane => pane.w < sizeOf(pane)[3] * u && sizeOf(pane)[2]), free = left(), shares = sum(able.map(pane => sizeOf(pane)[2]));
    for (const pane of able) pane.w = Math.min(sizeOf(pane)[3] * u, pane.w + free * sizeOf(pane)[2] / shares);
  }
  if (left() > 1 && gaps.length) { const more = Math.min((panes[0].kind === 'column' ? 70 : 56) * u, left() / gaps.length); gaps = gaps.map((gap, i) => (joined(panes[i], panes[i + 1]) ? Math.min(gap + more, 14 * u) : gap + more)); }
  if (left() < 0) {                                          // too many: all give way alike
    const factor = (to - from) / (to - from - left());
    gaps = gaps.map(gap => gap * factor);
    for (const pane of panes) pane.w *= factor;
  }
  let x = from;
  panes.forEach((pane, i) => { pane.x = x; x += pane.w + (gaps[i] ?? 0); });
}

// Whole names where they fit, letters where they do not, nothing where even these would touch; the selected one first.
export function labels(svg, panes, y, u, selected, from, to) {
  const taken = [[-Infinity, from], [to, Infinity]], rank = pane => (pane.at === selected ? 0 : ['weave', 'cross'].includes(pane.kind) ? 1 : pane.kind === 'tile' ? 2 : 3);
  const letters = panes.some(pane => pane.cell && widest([pane.label], 0.875, 'names') > pane.w + 4 * u);
  let below = false;                             // of two vectors side by side, one is named above and one below
  for (const pane of [...panes].sort((a, b) => rank(a) - rank(b))) {
    if (pane.kind === 'vector' && pane.top > y + 20 * u) { write(svg, pane, pane.label, below ? pane.top + pane.tall + 19 * u : pane.top - 9 * u, selected); below = !below; continue; }
    const tries = pane.cell && letters && pane.at !== selected ? [pane.short] : [pane.label, pane.short];
    for (const text of tries.filter(Boolean)) {
      const half = widest([text], 0.875, 'names', pane.at === selected ? 600 : 400) / 2 + (text === pane.short ? 2 : 5) * u, middle = pane.x + pane.w / 2;
      if (taken.some(([a, b]) => middle + half > a && middle - half < b)) continue;
      taken.push([middle - half, middle + half]);
      write(svg, pane, text, y, selected);
      break;
    }
  }
}
function write(svg, pane, text, y, selected) {
  svg.append(s('text', { class: `halo panelabel${pane.at === selected ? ' chosen' : ''}`, x: pane.x + pane.w / 2, y, 'text-anchor': 'middle' }, text));
}
