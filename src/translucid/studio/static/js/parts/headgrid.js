// Thumbnails of all heads of one kind of attention, one row per layer; one tab stop, arrow keys inside.
import { h, penOf, range, onHoverOrFocus } from '../dom.js';
import { packedPalette, num, pixelCanvas } from '../ink.js';
import * as highlight from '../highlight.js';
import { withTable } from './table.js';
import * as api from '../api.js';
import { arrowsMoveFocus } from '../keyboard.js';

export const MANY = 6; // with more heads than this, pictures are smaller
const EACH = 64; // up to this many heads have their own canvas; more share one

// small: the pictures of all heads; chosen: { layer, head }, head null: the mean of a layer's heads.
// grid.paint(): call once it is placed, and whenever layers are loaded.
/** @type {(small: HeadPictures, o: HeadGridOptions) => HTMLElement} */
export function headGrid(small, { chosen, onpick, onlook, onleave, means = false }) {
  const { heads } = small;
  const layers = small.names.length;
  /** @type {(number | null)[]} */
  const columns = [...range(heads), ...(means ? [null] : [])];
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
    columns.map(n => h('span.ax', n === null ? 'mean' : String(n))),
  );
  const tiles = range(layers).map(l => columns.map(n => tile(l, n, { chosen, onpick, onlook, onleave })));
  tiles.forEach((row, l) => grid.append(h('span.ax', String(l)), ...row));
  arrowsMoveFocus(grid, columns.length);
  const drawn = new Set();
  /** @type {CanvasRenderingContext2D | null} */
  let sheet = null;
  grid.paint = () => {
    if (layers * heads > EACH) sheet ??= sheetOf(grid);
    for (const l of range(layers).filter(each => small.has(each) && !drawn.has(each))) {
      drawn.add(l);
      columns.forEach((n, k) => {
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
/** @type {(layer: number, head: number | null) => string} */
const called = (l, n) => `layer ${l}, ${n === null ? 'mean of all heads' : `head ${n}`}`;
/** @type {(small: HeadPictures, layer: number, head: number | null) => string} */
const told = (small, l, n) =>
  called(l, n) +
  (n === null ? '' : `, largest weight ${num(small.most(l, n))}, entropy ${num(small.entropy(l, n))} bits`);
/** @type {(layer: number, head: number | null, o: HeadGridOptions) => HTMLButtonElement} */
function tile(l, n, { chosen, onpick, onlook, onleave }) {
  const on = l === chosen.layer && n === chosen.head;
  const button = h('button', {
    'aria-pressed': String(on),
    'aria-label': called(l, n),
    tabindex: on ? 0 : -1,
    class: n === null ? 'mean' : null,
    onclick: () => onpick(l, n),
  });
  onHoverOrFocus(button, () => onlook(l, n), onleave);
  return n === null ? button : highlight.mark(button, `head:${l}.${n}`);
}
/** @type {(small: HeadPictures, layer: number, head: number | null) => HTMLCanvasElement} */
function picture(small, l, n) {
  const { rows, cols, bytes } = small.cells(l, n);
  const size = rows * cols;
  const inks = packedPalette('seq');
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
/** @type {(grid: HTMLElement) => CanvasRenderingContext2D} */
function sheetOf(grid) {
  grid.classList.add('shared'); // positions below are relative to it
  const sharp = window.devicePixelRatio || 1;
  const sheet = h('canvas.sheet', {
    width: grid.scrollWidth * sharp,
    height: grid.scrollHeight * sharp,
    style: `width:${grid.scrollWidth}px;height:${grid.scrollHeight}px`,
  });
  const pen = penOf(sheet);
  pen.scale(sharp, sharp);
  pen.imageSmoothingEnabled = false;
  grid.prepend(sheet);
  return pen;
}
/** @type {(pen: CanvasRenderingContext2D, button: HTMLElement, drawing: HTMLCanvasElement) => void} */
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
/** @type {(run: Run, kind: string, names: string[], heads: number) => HeadPictures} */
export function headPictures(run, kind, names, heads) {
  /** @type {({ frame: HeadsFrame; at: number } | null)[]} */
  const layers = names.map(() => null); // each: its frame, and its place in it
  /** @type {(layer: number) => Promise<void>} */
  const ask = async layer => {
    if (layers[layer]) return;
    if (run.by_layer) layers[layer] = { frame: await api.heads(run.run, kind, `${layer}:${layer + 1}`), at: 0 };
    else {
      const frame = await api.heads(run.run, kind);
      names.forEach((_, l) => {
        layers[l] = { frame, at: l };
      });
    }
  };
  /** @type {(layer: number) => { frame: HeadsFrame; at: number }} */
  const layerAt = layer => {
    const found = layers[layer];
    if (!found) throw new Error(`layer ${layer} has not been loaded`);
    return found;
  };
  /** @type {(name: 'most' | 'entropy', layer: number, head: number) => number} */
  const of = (name, l, n) => layerAt(l).frame[name][layerAt(l).at][n];
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
      const { frame, at } = layerAt(l);
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
