// Thumbnails of all heads of one kind of attention, one row per layer; one tab stop, arrow keys inside.
import { h, range, onLook } from '../dom.js';
import { packed, num, pixelCanvas } from '../ink.js';
import * as link from '../link.js';
import { withTable } from './table.js';
import * as api from '../api.js';
import { arrowsMove } from '../keyboard.js';

export const MANY = 6; // with more heads than this, pictures are smaller
const EACH = 64; // up to this many heads have their own canvas; more share one

// small: the pictures of all heads; chosen: { layer, head }, head null: the mean of a layer's heads.
// grid.paint(): call once it is placed, and whenever layers are loaded.
export function headgrid(small, { chosen, onpick, onlook, onleave, means = false }) {
  const { heads } = small;
  const layers = small.names.length;
  const names = range(heads).map(n => [n, String(n)]);
  if (means) names.push([null, 'mean']);
  const grid = h(
    'div',
    {
      class: `headgrid${heads > MANY ? ' many' : ''}`,
      role: 'group',
      'aria-label': 'Heads; arrow keys move between them',
      style:
        `grid-template-columns:1.125rem repeat(${heads}, minmax(${heads > MANY ? 1.125 : 1.5}rem, 2.75rem))` +
        (means ? ' minmax(2.25rem, 2.75rem)' : ''),
    },
    h('span'),
    names.map(([, name]) => h('span.ax', name)),
  );
  const tiles = range(layers).map(l => names.map(([n]) => tile(l, n, { chosen, onpick, onlook, onleave })));
  tiles.forEach((row, l) => grid.append(h('span.ax', String(l)), ...row));
  arrowsMove(grid, names.length);
  const drawn = new Set();
  let sheet = null;
  grid.paint = () => {
    if (layers * heads > EACH) sheet ??= sheetOf(grid);
    for (const l of range(layers).filter(each => small.has(each) && !drawn.has(each))) {
      drawn.add(l);
      names.forEach(([n], k) => {
        tiles[l][k].setAttribute('aria-label', told(small, l, n));
        sheet ? stamp(sheet, tiles[l][k], picture(small, l, n)) : tiles[l][k].replaceChildren(picture(small, l, n));
      });
    }
  };
  return withTable(grid, 'All heads', () => ({
    corner: 'head',
    columns: ['largest weight', 'mean entropy, bits'],
    rows: range(layers)
      .filter(small.has)
      .flatMap(l => range(heads).map(n => [`layer ${l}, head ${n}`, small.most(l, n), small.entropy(l, n)])),
    note: small.missing ? `${small.missing} of ${layers} layers have not been loaded yet.` : undefined,
  }));
}
const called = (l, n) => `layer ${l}, ${n === null ? 'mean of all heads' : `head ${n}`}`;
const told = (small, l, n) =>
  called(l, n) +
  (n === null ? '' : `, largest weight ${num(small.most(l, n))}, entropy ${num(small.entropy(l, n))} bits`);
function tile(l, n, { chosen, onpick, onlook, onleave }) {
  const on = l === chosen.layer && n === chosen.head;
  const button = h('button', {
    'aria-pressed': String(on),
    'aria-label': called(l, n),
    tabindex: on ? 0 : -1,
    class: n === null ? 'mean' : null,
    onclick: () => onpick(l, n),
  });
  onLook(button, () => onlook(l, n), onleave);
  return n === null ? button : link.mark(button, `head:${l}.${n}`);
}
function picture(small, l, n) {
  const { rows, cols, bytes } = small.cells(l, n);
  const size = rows * cols;
  const inks = packed('seq');
  const count = bytes.length / size; // heads
  return pixelCanvas(rows, cols, pixels => {
    for (let k = 0; k < size; k++) {
      let sum = 0;
      for (let each = k; each < bytes.length; each += size) sum += bytes[each];
      pixels[k] = inks[Math.round((sum / count / 254) * 255)];
    }
  });
}
// One canvas below the buttons, once they are placed.
function sheetOf(grid) {
  grid.classList.add('shared'); // positions below are relative to it
  const sharp = window.devicePixelRatio || 1;
  const sheet = h('canvas.sheet', {
    width: grid.scrollWidth * sharp,
    height: grid.scrollHeight * sharp,
    style: `width:${grid.scrollWidth}px;height:${grid.scrollHeight}px`,
  });
  const pen = sheet.getContext('2d');
  pen.scale(sharp, sharp);
  pen.imageSmoothingEnabled = false;
  grid.prepend(sheet);
  return pen;
}
function stamp(pen, button, drawing) {
  const { offsetLeft: x, offsetTop: y, offsetWidth: w, offsetHeight: high } = button;
  pen.save();
  pen.beginPath();
  pen.roundRect(x + 1, y + 1, w - 2, high - 2, 4);
  pen.clip();
  pen.drawImage(drawing, x + 1, y + 1, w - 2, high - 2);
  pen.restore();
}

// The thumbnails; for a long text, layer by layer, the selected one first. names: the patterns by layer; heads: per
// layer.
export function headPictures(run, kind, names, heads) {
  const layers = names.map(() => null); // each: its frame, and its place in it
  const ask = async layer => {
    if (layers[layer]) return;
    if (run.by_layer) layers[layer] = [await api.heads(run.run, kind, `${layer}:${layer + 1}`), 0];
    else {
      const frame = await api.heads(run.run, kind);
      names.forEach((_, l) => {
        layers[l] = [frame, l];
      });
    }
  };
  const of = (name, l, n) => layers[l]?.[0][name][layers[l][1]][n];
  return {
    names,
    heads,
    ask,
    has: l => layers[l] !== null,
    most: (l, n) => of('most', l, n), // the largest weight
    entropy: (l, n) => of('entropy', l, n), // bits, the mean of all rows
    get missing() {
      return layers.filter(each => !each).length;
    },
    // The bytes (0 to 254) of a head's thumbnail, or of all heads for null, with its rows and columns.
    cells(l, n) {
      const [frame, at] = layers[l];
      const [, , rows, cols] = frame.shape;
      const first = (at * heads + (n ?? 0)) * rows * cols;
      return { rows, cols, bytes: frame.raw.subarray(first, first + (n === null ? heads : 1) * rows * cols) };
    },
    // Load missing layers, the nearest first. onlayer: called after each; before: awaited before each.
    async rest(near, onlayer, stopped, before) {
      const order = names.map((_, l) => l).sort((a, b) => Math.abs(a - near) - Math.abs(b - near));
      for (const layer of order) {
        if (layers[layer]) continue;
        await before();
        if (stopped()) return;
        await ask(layer);
        if (!stopped()) onlayer(layer);
      }
    },
  };
}
