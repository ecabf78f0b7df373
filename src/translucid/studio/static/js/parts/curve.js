// A curve over steps: a line on canvas, a band where points were thinned, gaps where nothing was recorded, flags at
// numbers that are not finite.
import { arrowNavigation } from '../keyboard.js';
import { h, s, unit, widest, lastOf, nearestIndex, LEFT_OF, setAttributes } from '../dom.js';
import { canvas, num, exponential, cssVariable } from '../ink.js';
import { readout } from '../readout.js';
import { withTable } from './table.js';

const ROOM = { left: 54, right: 10, top: 30, bottom: 24 }; // margins around the plot, in units

/** @type {(value: number) => string} */
export const significant = value => {
  // a few significant digits
  if (!Number.isFinite(value)) return 'not a number';
  const size = Math.abs(value);
  if (size === 0) return '0';
  if (size < 0.001 || size >= 1e6) return exponential(value);
  return size >= 100
    ? Math.round(value).toLocaleString('en').replace('-', '−')
    : num(value, size >= 10 ? 1 : size >= 1 ? 2 : size >= 0.01 ? 3 : 4);
};

// The gaps of a line: before points that are far away compared with their neighbours.
/** @type {(points: CurvePoint[]) => Set<number>} */
export function gapsIn(points) {
  const found = new Set();
  for (let i = 2; i < points.length - 1; i++) {
    const gap = points[i][0] - points[i - 1][0];
    if (gap > 3 * (points[i - 1][0] - points[i - 2][0]) && gap > 3 * (points[i + 1][0] - points[i][0])) found.add(i);
  }
  return found;
}

// o: title, short (a short title), name (of the value), path, width, height, low (the axis starts at 0),
// oncursor(step), onpick(step)
// The steps of a run along a chart: where each is, the line at the pointer, and the chosen step.
/** @type {(box: ChartBox, height: number) => StepAxis} */
export function stepAxis(box, height) {
  const [line, chosen, ends] = [s('path.cursor'), s('path.chosen'), s('g')];
  let [from, to] = [0, 1];
  /** @type {(step: number) => number} */
  const x = step => box.x + (to > from ? (step - from) / (to - from) : 0) * box.w;
  /** @type {(el: SVGElement, step: number | null) => void} */
  const put = (el, step) => {
    el.style.display = step === null || step < from || step > to ? 'none' : '';
    if (step !== null) el.setAttribute('d', `M${x(step)} ${box.y}V${box.y + box.h}`);
  };
  return {
    shapes: [ends, chosen, line],
    x,
    stepAt: px => from + ((px - box.x) / box.w) * (to - from),
    cursor: step => put(line, step),
    pick: step => put(chosen, step),
    show(first, last) {
      [from, to] = [first, last];
      const y = height - 6 * unit();
      ends.replaceChildren(
        s('text.num', { x: box.x, y }, from.toLocaleString('en')),
        s('text.num', { x: box.x + box.w, y, 'text-anchor': 'end' }, to.toLocaleString('en')),
      );
    },
  };
}

/** @type {(o: CurveOptions) => Chart<CurveData>} */
export function curve(o) {
  const u = unit();
  const W = o.width;
  const H = o.height;
  const box = {
    x: ROOM.left * u,
    y: ROOM.top * u,
    w: W - (ROOM.left + ROOM.right) * u,
    h: H - (ROOM.top + ROOM.bottom) * u,
  };
  /** @type {(name: string) => number} */
  const long = name => widest([name], 1, { family: 'names', weight: 600 });
  const title = long(o.title) < W ? o.title : (o.short ?? o.title);
  const { el: ground, ctx } = canvas(W, H);
  const axis = s('g');
  const flags = s('g');
  const steps = stepAxis(box, H);
  const { x } = steps;
  const newest = s('tspan.aside');
  const dot = s('circle.unitdot', { r: 4 * u });
  const svg = s(
    'svg',
    { width: W, height: H },
    s('text.title', { x: 0, y: 16 * u }, `${title} `, newest),
    axis,
    flags,
    steps.shapes,
    dot,
  );
  const el = h('div.heat.curve', { style: `width:${W}px;height:${H}px` }, ground, svg);
  /** @type {Required<CurveData> & { least: number; most: number }} */
  let shown = { points: [], from: 0, to: 1, bad: [], least: 0, most: 1 };
  /** @type {number | null} */
  let at = null;
  withTable(el, o.title, () => ({
    corner: 'step',
    columns: [o.name, 'least', 'most'],
    rows: shown.points.map(([step, value, least = value, most = value]) => [
      step.toLocaleString('en'),
      ...[value, least, most].map(significant),
    ]),
    note: 'Where points were thinned out, a row is the mean of neighbouring points, with their minimum and maximum.',
  }));
  /** @type {(value: number) => number} */
  const y = value => box.y + (1 - (value - shown.least) / (shown.most - shown.least || 1)) * box.h;

  /** @type {(data: CurveData) => void} */
  function draw({ points, from, to, bad = [] }) {
    const values = points.flatMap(p => (p.length > 2 ? [p[1], p[2], p[3]] : [p[1]])).filter(Number.isFinite);
    const most = values.length ? values.reduce((a, b) => Math.max(a, b)) : 1;
    const low = values.length ? values.reduce((a, b) => Math.min(a, b)) : 0;
    const below = low - 0.06 * (most - low || Math.abs(most) || 1);
    const least = o.low ? Math.min(0, low) : low >= 0 ? Math.max(0, below) : below;
    shown = { points, from, to, bad, least, most: most === least ? least + (Math.abs(least) || 1) : most };
    const value = points.length ? ` ${significant(lastOf(points)[1])}` : '';
    newest.textContent = long(`${title} `) + widest([value], 0.875, { family: 'mono' }) < W ? value : '';
    steps.show(from, to);
    paint();
    written();
    cursor(at);
  }
  function paint() {
    const cut = gapsIn(shown.points);
    const { points } = shown;
    ctx.clearRect(0, 0, W, H);
    ctx.fillStyle = cssVariable('--wash2');
    for (const [step, , lo, hi] of points) if (hi > lo) ctx.fillRect(x(step) - 1, y(hi), 2, Math.max(1, y(lo) - y(hi)));
    ctx.strokeStyle = cssVariable('--accent');
    ctx.lineWidth = 1.75 * u;
    ctx.lineJoin = 'round';
    ctx.beginPath();
    let pen = false;
    points.forEach(([step, value], i) => {
      if (!Number.isFinite(value)) {
        pen = false;
        return;
      }
      if (!pen || cut.has(i)) ctx.moveTo(x(step), y(value));
      else ctx.lineTo(x(step), y(value));
      pen = true;
    });
    ctx.stroke();
    ctx.fillStyle = cssVariable('--accent');
    if (points.length < 60)
      for (const [step, value] of points)
        if (Number.isFinite(value)) {
          ctx.beginPath();
          ctx.arc(x(step), y(value), 2 * u, 0, 7);
          ctx.fill();
        }
    ctx.fillStyle = cssVariable('--ink3'); // a gap: three dots where nothing was recorded
    for (const i of cut)
      for (const t of [0.3, 0.5, 0.7]) {
        ctx.beginPath();
        ctx.arc(x(points[i - 1][0] + t * (points[i][0] - points[i - 1][0])), box.y + box.h - 4 * u, 1.5 * u, 0, 7);
        ctx.fill();
      }
  }
  function written() {
    const { least, most, bad } = shown;
    const top = y(most);
    const low = y(o.low ? 0 : least);
    axis.replaceChildren(
      s('path.bracket', { d: `M${box.x} ${box.y}V${box.y + box.h}H${box.x + box.w}` }),
      s('text.num', { x: box.x - 6 * u, y: top, ...LEFT_OF }, significant(most)),
      s('text.num', { x: box.x - 6 * u, y: low, ...LEFT_OF }, o.low ? '0' : significant(least)),
    );
    flags.replaceChildren(
      ...bad
        .slice(0, 40)
        .map((step, k) =>
          s(
            'g.flag',
            s('path', { d: `M${x(step)} ${box.y + box.h}V${box.y - 2 * u}l${6 * u} ${4 * u}l${-6 * u} ${4 * u}` }),
            k ? null : s('text', { x: x(step) + 9 * u, y: box.y + 6 * u }, 'not a number'),
          ),
        ),
    );
  }
  /** @type {(step: number | null) => void} */
  function cursor(step) {
    // shared by all charts: the point at or before it
    const found = step === null ? null : near(step);
    dot.style.display = found === null ? 'none' : '';
    steps.cursor(found?.[0] ?? null);
    if (found === null) return;
    const cy = y(found[1]);
    setAttributes(dot, { cx: x(found[0]), cy: Number.isFinite(cy) ? cy : box.y });
  }
  /** @type {(step: number) => CurvePoint | null} */
  const near = step =>
    shown.points.reduce(
      (best, point) => (best && Math.abs(best[0] - step) <= Math.abs(point[0] - step) ? best : point),
      /** @type {CurvePoint | null} */ (null),
    );
  /** @type {(least: number, most: number) => string} */
  const span = (least, most) => (most > least ? `from ${significant(least)} to ${significant(most)}, mean` : '');
  /** @type {(point: CurvePoint) => void} */
  const read = ([step, value, least, most]) =>
    readout({
      at: `${o.name} ${span(least, most)} at step ${step.toLocaleString('en')}`,
      path: o.path,
      value,
      digits: digitsOf(value),
    });
  arrowNavigation(svg, {
    name: o.title,
    kind: 'curve',
    hint: 'left and right move along the points',
    toEnds: true,
    area: { x: box.x, y: box.y - 8 * u, width: box.w, height: box.h + 16 * u },
    placeAt: px => near(steps.stepAt(px))?.[0] ?? null,
    start: () => near(shown.to)?.[0] ?? null,
    step: (step, _, across) => {
      const here = near(step);
      const k = here ? shown.points.indexOf(here) : 0;
      return shown.points[nearestIndex(k + across, shown.points.length)][0];
    },
    look: step => {
      const point = near(step);
      at = step;
      o.oncursor(at);
      if (point) read(point);
    },
    leave: () => {
      at = null;
      o.oncursor(null);
      readout();
    },
    take: step => o.onpick?.(step),
  });
  return { el, draw, cursor, pick: steps.pick };
}
/** @type {(value: number) => number} */
export const digitsOf = value =>
  Math.abs(value) >= 100 ? 1 : Math.abs(value) >= 0.1 || value === 0 ? 3 : Math.abs(value) >= 0.001 ? 5 : 7;
