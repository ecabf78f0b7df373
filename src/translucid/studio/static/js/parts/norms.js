// The gradient's norm by layer (rows) and step (columns). Norms differ by powers of ten, so colours do too: what is
// DECADES powers of ten below the largest is clear, and a gradient that vanishes is seen as clearing.
import { h, s, unit, widest } from '../dom.js';
import { canvas, rgb } from '../ink.js';
import { readout } from '../readout.js';
import { twin } from '../twin.js';
import { amount, digitsOf } from './curve.js';
import { short } from './aim.js';

const DECADES = 3;
const ONE = { kind: 'seq', max: 1 };
const TOP = 30;
const FOOT = 24;
const RIGHT = 10;
export const share = (value, most) => (value > 0 && most > 0 ? Math.max(0, 1 + Math.log10(value / most) / DECADES) : 0);

// o: layers, width, height, oncursor(step), onpick(step)
export function norms(o) {
  const u = unit();
  const W = o.width;
  const H = o.height;
  const layers = o.layers;
  const lw = Math.min(
    W * 0.3,
    widest(
      layers.map(name => short(name, 24)),
      0.875,
      'names',
    ) +
      14 * u,
  );
  const box = { x: lw, y: TOP * u, w: W - lw - RIGHT * u, h: H - (TOP + FOOT) * u };
  const ch = box.h / layers.length;
  const every = Math.ceil((17 * u) / ch);
  const note =
    o.note && widest([o.title], 1, 'names', 600) + widest([o.note], 0.875, 'names') + 24 * u < W ? o.note : '';
  const { el: ground, ctx } = canvas(W, H);
  const small = document.createElement('canvas');
  const pen = small.getContext('2d');
  const cell = s('rect', { class: 'cell crossed', height: ch, rx: 2 });
  const line = s('path', { class: 'cursor' });
  const chosen = s('path', { class: 'chosen' });
  const ends = s('g');
  const svg = s(
    'svg',
    {
      width: W,
      height: H,
      tabindex: 0,
      role: 'application',
      'aria-roledescription': 'matrix',
      'aria-label': `${o.title}; arrows walk over the cells`,
    },
    s('text', { class: 'title', x: 0, y: 16 * u }, o.title),
    s('text', { class: 'name', x: W - RIGHT * u, y: 16 * u, 'text-anchor': 'end' }, note),
    layers.map((name, i) =>
      i % every
        ? null
        : s(
            'text',
            {
              class: 'name',
              x: lw - 8 * u,
              y: box.y + (i + 0.5) * ch,
              'text-anchor': 'end',
              'dominant-baseline': 'central',
            },
            short(name, 24),
          ),
    ),
    ends,
    chosen,
    line,
    cell,
  );
  const el = h('div', { class: 'heat norms', style: `width:${W}px;height:${H}px` }, ground, svg);
  let shown = { columns: [], from: 0, to: 1, most: 1 };
  let at = null;
  twin(el, o.title, () => ({
    corner: 'step',
    columns: layers,
    rows: shown.columns.map(([step, ...row]) => [step.toLocaleString('en'), ...row.map(amount)]),
    note: 'The norm of each layer’s gradient before clipping.',
  }));
  const x = step => box.x + (shown.to > shown.from ? (step - shown.from) / (shown.to - shown.from) : 0) * box.w;

  function draw({ columns, from, to }) {
    // columns: [step, norm of each layer...]
    let most = 0;
    for (const column of columns)
      for (let i = 1; i < column.length; i++) if (column[i] > most && column[i] < Infinity) most = column[i];
    shown = { columns, from, to, most };
    ctx.clearRect(0, 0, W, H);
    const style = getComputedStyle(document.documentElement);
    const colour = style.getPropertyValue('--line');
    ctx.strokeStyle = colour;
    ctx.lineWidth = 1.25 * u; // hatched where nothing is: before, in gaps, where it is no number
    ctx.save();
    ctx.beginPath();
    ctx.rect(box.x, box.y, box.w, box.h);
    ctx.clip();
    ctx.beginPath();
    for (let t = -box.h; t < box.w; t += 8 * u) {
      ctx.moveTo(box.x + t, box.y + box.h);
      ctx.lineTo(box.x + t + box.h, box.y);
    }
    ctx.stroke();
    ctx.restore();
    if (columns.length) strip(columns, most);
    ends.replaceChildren(
      s('text', { class: 'num', x: box.x, y: H - 6 * u }, from.toLocaleString('en')),
      s('text', { class: 'num', x: box.x + box.w, y: H - 6 * u, 'text-anchor': 'end' }, to.toLocaleString('en')),
    );
  }
  function strip(columns, most) {
    // a column reaches back to the one before it, over no gap
    small.width = columns.length;
    small.height = layers.length;
    const image = pen.createImageData(columns.length, layers.length);
    columns.forEach((column, j) =>
      layers.forEach((_, i) => {
        if (Number.isFinite(column[i + 1]))
          image.data.set([...rgb(share(column[i + 1], most), ONE), 255], 4 * (i * columns.length + j));
      }),
    );
    pen.putImageData(image, 0, 0);
    ctx.imageSmoothingEnabled = false;
    columns.forEach((_, j) => {
      const [a, b] = span(j);
      ctx.drawImage(small, j, 0, 1, layers.length, a, box.y, b - a, box.h);
    });
  }
  function span(j) {
    const { columns, from } = shown;
    const before = j ? columns[j - 1][0] : from;
    const usual = j > 1 ? before - columns[j - 2][0] : Infinity;
    const start =
      columns[j][0] - before > 3 * usual &&
      j + 1 < columns.length &&
      columns[j][0] - before > 3 * (columns[j + 1][0] - columns[j][0])
        ? columns[j][0] - usual
        : before;
    const a = Math.round(x(start) * 2) / 2;
    return [a, Math.max(a + 1, Math.round(x(columns[j][0]) * 2) / 2)];
  }
  const nearest = step => {
    const { columns } = shown;
    let lo = 0;
    let hi = columns.length - 1;
    while (lo < hi) {
      const mid = (lo + hi) >> 1;
      if (columns[mid][0] >= step) hi = mid;
      else lo = mid + 1;
    }
    return lo;
  };
  function cursor(step) {
    line.style.display = step === null || !shown.columns.length ? 'none' : '';
    if (step !== null) line.setAttribute('d', `M${x(step)} ${box.y}V${box.y + box.h}`);
  }
  function pick(step) {
    chosen.style.display = step === null || step < shown.from || step > shown.to ? 'none' : '';
    if (step !== null) chosen.setAttribute('d', `M${x(step)} ${box.y}V${box.y + box.h}`);
  }
  function look(i, j) {
    const { columns, most } = shown;
    const column = columns[j];
    const value = column[i + 1];
    const [a, b] = span(j);
    at = [i, j];
    cell.style.display = '';
    cell.setAttribute('x', a);
    cell.setAttribute('width', b - a);
    cell.setAttribute('y', box.y + i * ch);
    o.oncursor(column[0]);
    readout({
      at: `${layers[i]}: norm of its gradient at step ${column[0].toLocaleString('en')}`,
      path: `studio/steps.jsonl  grad[${i}]  each colour is a power of ten`,
      value,
      digits: digitsOf(value),
      scale: ONE,
      place: share(value, most),
      ends: [amount(most / 10 ** DECADES), amount(most)],
    });
  }
  const leave = () => {
    if (!at) return;
    at = null;
    cell.style.display = 'none';
    o.oncursor(null);
    readout();
  };
  const placeOf = event => {
    const from = svg.getBoundingClientRect();
    const i = Math.floor((event.clientY - from.top - box.y) / ch);
    const step = shown.from + ((event.clientX - from.left - box.x) / box.w) * (shown.to - shown.from);
    return shown.columns.length ? [Math.min(layers.length - 1, Math.max(0, i)), nearest(step)] : null;
  };
  cell.style.display = 'none';
  svg.append(
    s('rect', {
      class: 'hit',
      x: box.x,
      y: box.y,
      width: box.w,
      height: box.h,
      onpointermove: event => {
        const place = placeOf(event);
        if (place) look(...place);
      },
      onpointerleave: leave,
      onclick: event => {
        const place = placeOf(event);
        if (place) o.onpick?.(shown.columns[place[1]][0]);
      },
    }),
  );
  const MOVES = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  const fit = (v, n) => Math.min(n - 1, Math.max(0, v));
  svg.addEventListener('focus', () => {
    if (svg.matches(':focus-visible') && shown.columns.length) look(0, shown.columns.length - 1);
  });
  svg.addEventListener('blur', leave);
  svg.addEventListener('keydown', event => {
    const move = MOVES[event.key];
    const here = at ?? [0, shown.columns.length - 1];
    if (event.key === 'Enter' && at) o.onpick?.(shown.columns[at[1]][0]);
    if (!move || !shown.columns.length) return;
    event.preventDefault();
    look(fit(here[0] + move[0], layers.length), fit(here[1] + move[1], shown.columns.length));
  });
  return { el, draw, cursor, pick, svg };
}
