// Gates and states: one row for each, one cell per word; and lines of units over the words.
import { arrowNavigation } from '../keyboard.js';
import { h, s, setAttributes, unit, isLabelled, nearestIndex, svgWord, LEFT_OF } from '../dom.js';
import { canvas, cssColour, paintNumber, fixed, textOn, num, cssVariable } from '../ink.js';
import * as highlight from '../highlight.js';
import { readout } from '../readout.js';
import { withTable } from './table.js';

const SHUT = 0.1;
const OPEN = 0.9;
export const TITLE = 30; // a group's heading, in units

// groups: [{ title, note, chosen, rows: [{ name, letter, values, scale, gate }] }]
// o: words, keys, labelWidth, labelHeight, slant, pitchX, pitchY, read(group, row, i), onpick(group)
/** @type {(groups: StripGroup[], o: StripOptions) => HTMLElement} */
export function gateRows(groups, o) {
  const u = unit();
  const lw = o.labelWidth * u;
  const lh = o.labelHeight * u;
  const n = o.words.length;
  const W = lw + n * o.pitchX;
  /** @type {StripLine[]} */
  const lines = []; // every row of every group, with its height on the page
  let y = lh;
  const placed = groups.map((each, g) => {
    const group = { ...each, top: y };
    y += TITLE * u;
    group.rows.forEach(row => {
      lines.push({ g, group, row, y: y + o.pitchY / 2 });
      y += o.pitchY;
    });
    return group;
  });
  const H = y + 4 * u;
  const size = { u, lw, lh, n, H };
  const { el, ctx } = canvas(W, H);
  const svg = s('svg', { width: W, height: H });
  for (const line of lines) beads(ctx, line, o, size);
  const words = labels(svg, o, size);
  placed.forEach((group, g) => svg.append(heading(group, g, o, u)));
  for (const { row, y: at } of lines)
    svg.append(
      highlight.mark(
        s('text.gatename', { x: lw - 14 * u, y: at, ...LEFT_OF }, `${row.name} `, s('tspan.letter', row.letter)),
        `gate:${row.point}`,
      ),
    );
  const box = h('div.heat.strips', { style: `width:${W}px;height:${H}px` }, el, svg);
  pointed(svg, words, lines, o, size);
  return withTable(box, o.title, () => ({
    corner: 'gate or state',
    columns: o.words,
    rows: lines.map(({ group, row }) => [groups.length > 1 ? `${group.title} ${row.name}` : row.name, ...row.values]),
  }));
}
/** @type {(group: StripGroup & { top: number }, g: number, o: StripOptions, u: number) => SVGElement} */
const heading = (group, g, o, u) =>
  s(
    'g.groupname',
    s(
      'text',
      { class: group.chosen ? 'title' : 'name', x: 0, y: group.top + 19 * u, onclick: () => o.onpick?.(g) },
      group.title,
      s('tspan.aside', `  ${group.note ?? ''}`),
    ),
  );

/** @type {(ctx: CanvasRenderingContext2D, line: StripLine, o: StripOptions, size: StripSize) => void} */
function beads(ctx, { row, y }, o, { u, lw }) {
  const wide = Math.min(o.pitchX - Math.min(6 * u, o.pitchX * 0.2), 54 * u);
  const high = Math.min(o.pitchY - 6 * u, 26 * u);
  ctx.fillStyle = cssVariable('--strand');
  ctx.fillRect(lw, y - 0.75 * u, o.words.length * o.pitchX, 1.5 * u);
  row.values.forEach((v, i) => {
    const x = lw + (i + 0.5) * o.pitchX;
    ctx.fillStyle = cssColour(v, row.scale);
    ctx.beginPath();
    ctx.roundRect(x - wide / 2, y - high / 2, wide, high, Math.min(wide, high) / 2);
    ctx.fill();
    ctx.strokeStyle = cssVariable('--line');
    ctx.lineWidth = 1;
    if (o.pitchX > 10 * u) ctx.stroke();
    if (o.pitchX >= 38 * u && high >= 17 * u) {
      paintNumber(ctx, o.pitchX < 60 * u ? narrow(v) : fixed(v), x, y + u, {
        size: 14 * u,
        ground: cssColour(v, row.scale),
        fill: textOn(v, row.scale),
        room: high - 6 * u,
      });
    }
    if (row.gate && (v < SHUT || v > OPEN)) {
      // nearly closed: a tick at the bottom; nearly open: at the top
      const tick = Math.min(12 * u, wide * 0.6);
      ctx.fillStyle = textOn(v, row.scale);
      ctx.fillRect(x - tick / 2, v > OPEN ? y - high / 2 : y + high / 2 - 2 * u, tick, 2 * u);
    }
  });
}
/** @type {(svg: SVGSVGElement, o: StripOptions, size: StripSize) => SVGElement[]} */
function labels(svg, o, { u, lw, lh }) {
  const found = o.words.map((word, i) => {
    const x = lw + (i + 0.5) * o.pitchX;
    const y = lh - 9 * u;
    const text = svgWord(word, {
      x,
      y,
      'text-anchor': o.slant ? 'start' : 'middle',
      transform: o.slant ? `rotate(-42 ${x} ${y})` : null,
    });
    return highlight.clickable(text, [o.keys[i]]);
  });
  svg.append(...found);
  return found;
}
/** @type {(svg: SVGSVGElement, words: SVGElement[], lines: StripLine[], o: StripOptions, size: StripSize) => void} */
function pointed(svg, words, lines, o, { u, lw, lh, n, H }) {
  const bands = [...new Set(lines.map(line => line.group))].map(group =>
    s('rect.band.lit', {
      y: group.top + TITLE * u - u,
      width: o.pitchX,
      height: group.rows.length * o.pitchY + 2 * u,
      rx: 6 * u,
    }),
  );
  const ring = s('rect.cell.crossed', { width: o.pitchX, height: o.pitchY - 2 * u, rx: 6 * u });
  const every = o.slant ? Math.ceil((26 * u) / o.pitchX) : 1;
  /** @type {Step2D | null} */
  let at = null;
  const frame = () => {
    const { row: i } = highlight.cellOfKeys(highlight.activeKeys(), o.keys, []);
    for (const band of bands) {
      band.style.display = i === null ? 'none' : '';
      if (i !== null) setAttributes(band, { x: lw + i * o.pitchX });
    }
    ring.style.display = at ? '' : 'none';
    if (at) setAttributes(ring, { x: lw + at[1] * o.pitchX, y: lines[at[0]].y - o.pitchY / 2 + u });
    if (every > 1) words.forEach((text, j) => text.classList.toggle('away', !isLabelled(j, every, i)));
  };
  svg.append(...bands, ring);
  /** @type {Walk<Step2D>} */
  const way = {
    name: o.title,
    kind: 'gates',
    hint: 'arrow keys move between cells, Enter pins the token',
    area: { x: lw, y: lh, width: n * o.pitchX, height: H - lh },
    placeAt: (x, y) => {
      const i = Math.floor((x - lw) / o.pitchX);
      const r = lines.findIndex(line => Math.abs(line.y - y) <= o.pitchY / 2);
      return i >= 0 && i < n && r >= 0 ? [r, i] : null;
    },
    start: () => [0, highlight.cellOfKeys(highlight.state.pins, o.keys, []).row ?? 0],
    step: ([r, i], down, across) => [nearestIndex(r + down, lines.length), nearestIndex(i + across, n)],
    look: place => {
      at = place;
      highlight.hover([o.keys[place[1]]]);
      readout(o.read(lines[place[0]].g, lines[place[0]].row, place[1]));
    },
    leave: () => {
      at = null;
      highlight.hover([]);
      frame();
      readout();
    },
    take: ([, i]) => highlight.pin([o.keys[i]]),
  };
  arrowNavigation(svg, way);
  highlight.follow(svg, frame);
}

// All units as thin lines over the words, the selected one on top.
/** @type {(all: number[][], o: UnitLinesOptions) => HTMLElement} */
export function unitLines(all, o) {
  // all: rows (words) of numbers (units)
  const u = unit();
  const lw = o.labelWidth * u;
  const n = all.length;
  const W = lw + n * o.pitchX;
  const H = o.height;
  const most = Math.max(1e-6, ...all.map(row => Math.max(...row.map(Math.abs))));
  const { el, ctx } = canvas(W, H);
  /** @type {(i: number) => number} */
  const x = i => lw + (i + 0.5) * o.pitchX;
  /** @type {(v: number) => number} */
  const y = v => H / 2 - (v / most) * (H / 2 - 8 * u);
  const step = Math.max(1, Math.ceil(all[0].length / 200));
  ctx.strokeStyle = cssVariable('--strand');
  ctx.lineWidth = 0.75 * u;
  ctx.lineJoin = 'round';
  for (let k = 0; k < all[0].length; k += step) {
    ctx.beginPath();
    all.forEach((row, i) => (i ? ctx.lineTo(x(i), y(row[k])) : ctx.moveTo(x(i), y(row[k]))));
    ctx.stroke();
  }
  const svg = s(
    'svg',
    { width: W, height: H, role: 'img', 'aria-label': o.title },
    s('path.bracket', { d: `M${lw} ${y(0)}H${W}` }),
    [most, 0, -most].map(v =>
      s(
        'text.num',
        { x: lw - 14 * u, y: y(v), ...LEFT_OF },
        v === 0 ? '0' : (v > 0 ? '+' : '') + num(v, most < 1 ? 2 : 1),
      ),
    ),
  );
  const { chosen } = o;
  const line = o.values ?? (chosen === null ? [] : all.map(row => row[chosen]));
  if (chosen !== null) {
    svg.append(
      s('path.unitline', { d: line.map((v, i) => `${i ? 'L' : 'M'}${x(i)} ${y(v)}`).join('') }),
      ...(n <= 60 ? line : []).map((v, i) =>
        highlight.mark(s('circle.unitdot', { cx: x(i), cy: y(v), r: Math.min(4.5 * u, o.pitchX / 3) }), o.keys[i]),
      ),
    );
  }
  return withTable(h('div.heat', { style: `width:${W}px;height:${H}px` }, el, svg), o.title, () => ({
    corner: 'unit',
    columns: o.words,
    rows: chosen === null ? all[0].map((_, k) => [String(k), ...all.map(row => row[k])]) : [[String(chosen), ...line]],
    note: o.rounded ?? '',
  }));
}
// In four characters, which fit into a cell.
/** @type {(v: number) => string} */
const narrow = v => (Math.abs(v) < 1 ? fixed(v).replace('0.', '.') : fixed(v, fixed(v).length > 4 ? 1 : 2));
