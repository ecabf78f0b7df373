// A long text in Flow: what lies above and below the window, pressed together on canvas, and the one of it that is
// looked at.
import { s, special } from '../dom.js';
import * as link from '../link.js';
import { clip, isNear, pieces, yWord } from './layout.js';
import { paintRow } from './tile.js';
import { follow, looked } from './aim.js';

// Rows that stand for band.each words; they touch, and lie on whole pixels.
export function press(ctx, rows, band, { x, width, scale, alpha = 1 }) {
  ctx.globalAlpha = alpha;
  rows.forEach((row, b) => {
    for (const [top, foot] of pieces(band, b * band.each, Math.min(band.words.length, (b + 1) * band.each))) {
      const y = Math.round(top);
      paintRow(ctx, row, { x, y, width, height: Math.max(1, Math.round(foot) - y), scale });
    }
  });
  ctx.globalAlpha = 1;
}
// One area instead of hundreds: a strand that is pressed is found by where the pointer is.
export function pressable(band, area, wordAt) {
  const key = event => `${band.key}:${wordAt(event)}`;
  area.addEventListener('mousemove', event => {
    const now = key(event);
    if (link.state.hover[0] !== now) link.hover([now]);
  });
  area.addEventListener('mouseleave', () => link.hover([]));
  area.addEventListener('click', event => link.pin([key(event)]));
  return area;
}
// The word that is looked at and lies outside the window: written for the moment, with its strand and its places.
export function floats({ back, front, u, x0, xWord }, band, tiles) {
  const under = s('g');
  const over = s('g', { class: 'floats' });
  back.append(under);
  front.append(over);
  let shown = '';
  follow(over, link, () => {
    const keys = looked(link).filter(key => key.startsWith(`${band.key}:`) && !isNear(band, Number(key.split(':')[1])));
    if (String(keys) === shown) return;
    shown = String(keys);
    const places = keys.map(key => Number(key.split(':')[1])).filter(word => word < band.words.length);
    under.replaceChildren(
      ...places.map(word => s('path', { class: 'strand lit', d: `M${x0 - 4 * u} ${yWord(band, word)}H${band.stop}` })),
    );
    over.replaceChildren(
      ...places.flatMap(word => {
        const y = yWord(band, word);
        const high = Math.max(3, band.per * band.each);
        return [
          s('path', {
            class: 'frame lit',
            d: tiles
              .map(({ x, width }) => `M${x - 0.75} ${y - high / 2}h${width + 1.5}v${high}h${-width - 1.5}z`)
              .join(''),
          }),
          s(
            'text',
            {
              class: `${special(band.words[word]) ? 'special' : 'word'} halo lit row`,
              x: xWord,
              y,
              'text-anchor': 'end',
              'dominant-baseline': 'central',
              style: 'font-size:.9375rem',
            },
            clip(band.words[word], 16),
          ),
        ];
      }),
    );
  });
}
