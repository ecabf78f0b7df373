// All heads at a glance: one small picture for each, layers below each other; one tab stop, arrows inside.
import { h } from '../dom.js';
import { rgb, num } from '../ink.js';
import * as link from '../link.js';
import { twin } from '../twin.js';

const ONE = { kind: 'seq', max: 1 };
export const MANY = 6; // heads; more of them have smaller pictures
const EACH = 64; // so many heads have a canvas each; more of them share one

// frame: (layers, heads, queries, keys) with entropy and most; chosen: { layer, head }, head null: the mean of a
// layer's heads.
export function headgrid(frame, { chosen, onpick, onlook, onleave, means = false }) {
  const [layers, heads] = frame.shape;
  const names = range(heads).map(n => [n, String(n)]);
  if (means) names.push([null, 'mean']);
  const grid = h(
    'div',
    {
      class: `headgrid${heads > MANY ? ' many' : ''}`,
      role: 'group',
      'aria-label': 'Heads; arrows move from head to head',
      style:
        `grid-template-columns:1.125rem repeat(${heads}, minmax(${heads > MANY ? 1.125 : 1.5}rem, 2.75rem))` +
        (means ? ' minmax(2.25rem, 2.75rem)' : ''),
    },
    h('span'),
    names.map(([, name]) => h('span', { class: 'ax' }, name)),
  );
  for (let l = 0; l < layers; l++)
    grid.append(
      h('span', { class: 'ax' }, String(l)),
      ...names.map(([n]) => tile(frame, l, n, { chosen, onpick, onlook, onleave })),
    );
  grid.addEventListener('keydown', event => walk(event, grid, names.length));
  if (layers * heads > EACH) grid.paint = () => painted(grid, frame, names);
  return twin(grid, 'All heads', () => ({
    corner: 'head',
    columns: ['largest weight', 'mean entropy, bits'],
    rows: range(layers).flatMap(l =>
      range(heads).map(n => [`layer ${l}, head ${n}`, frame.most[l][n], frame.entropy[l][n]]),
    ),
  }));
}
function tile(frame, l, n, { chosen, onpick, onlook, onleave }) {
  const on = l === chosen.layer && n === chosen.head;
  const name = n === null ? `layer ${l}, mean of all heads` : `layer ${l}, head ${n}`;
  const told = n === null ? '' : `, largest weight ${num(frame.most[l][n])}, entropy ${num(frame.entropy[l][n])} bits`;
  const button = h(
    'button',
    {
      'aria-pressed': String(on),
      'aria-label': name + told,
      tabindex: on ? 0 : -1,
      class: n === null ? 'mean' : null,
      onclick: () => onpick(l, n),
      onmouseenter: () => onlook?.(l, n),
      onmouseleave: () => onleave?.(),
      onfocus: () => onlook?.(l, n),
      onblur: () => onleave?.(),
    },
    frame.shape[0] * frame.shape[1] > EACH ? null : picture(frame, l, n),
  );
  return n === null ? button : link.mark(button, `head:${l}.${n}`);
}
function picture(frame, l, n) {
  const [, heads, rows, cols] = frame.shape;
  const size = rows * cols;
  const canvas = document.createElement('canvas');
  canvas.width = cols;
  canvas.height = rows;
  const pen = canvas.getContext('2d');
  const image = pen.createImageData(cols, rows);
  const first = head => (l * heads + head) * size;
  for (let k = 0; k < size; k++) {
    const value =
      n === null
        ? range(heads).reduce((sum, each) => sum + frame.number(first(each) + k), 0) / heads
        : frame.number(first(n) + k);
    image.data.set([...rgb(value, ONE), 255], 4 * k);
  }
  pen.putImageData(image, 0, 0);
  return canvas;
}
// All of them on one canvas below the buttons, once these have their places.
function painted(grid, frame, names) {
  grid.classList.add('shared'); // from here on places count from it
  const sharp = window.devicePixelRatio || 1;
  const sheet = h('canvas', {
    class: 'sheet',
    width: grid.scrollWidth * sharp,
    height: grid.scrollHeight * sharp,
    style: `width:${grid.scrollWidth}px;height:${grid.scrollHeight}px`,
  });
  const pen = sheet.getContext('2d');
  pen.scale(sharp, sharp);
  pen.imageSmoothingEnabled = false;
  [...grid.children]
    .filter(el => el.tagName === 'BUTTON')
    .forEach((button, k) => {
      const { offsetLeft: x, offsetTop: y, offsetWidth: w, offsetHeight: high } = button;
      pen.save();
      pen.beginPath();
      pen.roundRect(x + 1, y + 1, w - 2, high - 2, 4);
      pen.clip();
      pen.drawImage(
        picture(frame, Math.floor(k / names.length), names[k % names.length][0]),
        x + 1,
        y + 1,
        w - 2,
        high - 2,
      );
      pen.restore();
    });
  grid.prepend(sheet);
}
function walk(event, grid, columns) {
  const tiles = [...grid.children].filter(el => el.tagName === 'BUTTON');
  const here = tiles.indexOf(document.activeElement);
  const to = { ArrowLeft: here - 1, ArrowRight: here + 1, ArrowUp: here - columns, ArrowDown: here + columns }[
    event.key
  ];
  if (to === undefined || here < 0) return;
  event.preventDefault();
  tiles[to]?.focus();
}
const range = n => Array.from({ length: n }, (_, i) => i);
