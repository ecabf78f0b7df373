// A map of a tensor with words at its rows: for tables that are too wide for a cell per number in the page.
import { h, s, special, unit, widest } from '../dom.js';
import { canvas } from '../ink.js';
import * as link from '../link.js';
import { readout } from '../readout.js';
import { tile, under, cellsIn, block, loudest } from './tile.js';
import { walks } from './walk.js';
import { aim, follow, looked, range } from './aim.js';
import { grid } from './table.js';
import { twin } from '../twin.js';

const FULL = 40; // rows with marks of their own
// o: { values, rows: [words or names], rowKey(i), scale, width, height, title, picked: [i, j], read(i, j, of),
// onpick(i, j) }
export function map(o) {
  const u = unit();
  const n = o.values.length;
  const lw = o.rows ? Math.min(92 * u, Math.max(24 * u, widest(o.rows.map(clip), 0.9375) + 10 * u)) : 0;
  const pitch = Math.max(1.5, Math.min(n === 1 ? 32 * u : 24 * u, o.height / n));
  const W = o.width;
  const H = n * pitch;
  const height = pitch > 8 ? pitch - 2 : pitch > 4 ? pitch - 1 : pitch;
  const { el, ctx } = canvas(W, H);
  const place = { x: lw, y: 0, width: W - lw, pitch };
  tile(ctx, o.values, { ...place, height, scale: o.scale });
  const svg = s('svg', { width: W, height: H });
  const every = Math.max(1, Math.ceil((16 * u) / pitch));
  const texts = [];
  const many = n > FULL && o.rowKey;
  const floating = s('g'); // of many rows every n-th word is written, and the one that is looked at
  const written = (word, i) =>
    s(
      'text',
      {
        class: `${special(word) ? 'special' : o.names ? 'id' : 'word'}${i % every && !many ? ' between' : ''} row`,
        x: lw - 8 * u,
        y: (i + 0.5) * pitch,
        'text-anchor': 'end',
        'dominant-baseline': 'central',
        style: 'font-size:.9375rem',
      },
      clip(word),
    );
  const band = i => s('rect', { class: 'band', x: lw, y: i * pitch, width: W - lw, height: pitch, rx: 2 });
  o.rows?.forEach((word, i) => {
    if (many && (i % every || (i && (i + 0.5) * pitch > H - 7 * u))) return;
    const key = o.rowKey?.(i);
    const text = written(word, i);
    texts[i] = text;
    svg.append(key && !many ? link.mark(text, key) : text);
    if (key && !many) svg.append(link.mark(band(i), key));
  });
  const cells = cellsIn(o.values[0].length, W - lw);
  const w = (W - lw) / cells;
  const columns = o.values[0].length;
  const box = (i, j) => ({
    x: lw + Math.min(cells - 1, cellOf(j, columns, cells)) * w,
    y: i * pitch,
    width: w,
    height: pitch,
  });
  const pointer = s('rect', { class: 'pointer', visibility: 'hidden', rx: 2 });
  if (o.picked && o.picked[0] < n) svg.append(s('rect', { class: 'pickedcell', rx: 2, ...box(...o.picked) }));
  svg.append(pointer);
  const at = event => {
    const r = svg.getBoundingClientRect();
    return under(o.values, place, event.clientX - r.left, event.clientY - r.top);
  };
  const look = found => {
    const key = o.rowKey?.(found.row);
    for (const [name, value] of Object.entries(box(found.row, found.column))) pointer.setAttribute(name, value);
    pointer.setAttribute('visibility', 'visible');
    if (key && link.state.hover[0] !== key) link.hover([key]);
    readout(o.read(found.row, found.column, found.of));
  };
  const leave = () => {
    pointer.setAttribute('visibility', 'hidden');
    link.hover([]);
    readout();
  };
  svg.addEventListener('mousemove', event => look(at(event)));
  svg.addEventListener('mouseleave', leave);
  const fit = (v, count) => Math.min(count - 1, Math.max(0, v));
  const stand = (row, k) => {
    const [from, to] = block(columns, cells, k);
    return { row, column: loudest(o.values[row], from, to), of: to - from, k };
  };
  walks(svg, {
    name: o.title,
    look,
    leave,
    start: () => stand(fit(o.picked?.[0] ?? 0, n), fit(cellOf(o.picked?.[1] ?? 0, columns, cells), cells)),
    step: ({ row, k }, down, across) => stand(fit(row + down, n), fit(k + across, cells)),
    take: o.onpick && (({ row, column }) => o.onpick(row, column)),
  });
  svg.addEventListener('click', event => {
    const found = at(event);
    o.onpick?.(found.row, found.column);
  });
  if (every > 1 && o.rowKey) {
    // a lit word takes the room of its neighbours
    const keys = range(n).map(o.rowKey);
    if (many) svg.append(floating);
    follow(svg, link, () => {
      const { row } = aim(looked(link), keys, []);
      texts.forEach((text, i) =>
        text.classList.toggle('away', row !== null && (many || i !== row) && Math.abs(i - row) < every),
      );
      if (many) {
        floating.replaceChildren(
          ...(row === null || !o.rows ? [] : [written(o.wordOf?.(looked(link)) ?? o.rows[row], row), band(row)]),
        );
        for (const each of floating.children) each.classList.add('lit');
      }
    });
  }
  const most = Math.ceil(columns / cells) * (o.each ?? 1);
  return h(
    'div',
    null,
    twin(
      h('div', { class: 'heat', style: `width:${W}px;height:${H}px` }, el, svg),
      o.title,
      o.table ?? (() => grid(o.rows, null, o.values)),
    ),
    most > 1 ? h('p', { class: 'small quiet' }, `A cell shows the largest of up to ${most}.`) : null,
  );
}
const clip = word => (word.length > 11 ? `${word.slice(0, 10)}…` : word);
function cellOf(j, columns, cells) {
  // which cell a number is part of; blocks are not all of one size
  let k = Math.floor((j * cells) / columns);
  while (k + 1 < cells && Math.floor(((k + 1) * columns) / cells) <= j) k++;
  return k;
}
