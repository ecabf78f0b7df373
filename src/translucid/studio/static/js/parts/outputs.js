// The right end of Flow: the next word of each row, a tag for each strand, the classes, or a number.
import { s, widest, lastOf, range, svgWord, RIGHT_OF } from '../dom.js';
import { UNIT_SCALE, cssColour, num, cssVariable } from '../ink.js';
import * as highlight from '../highlight.js';
import { withTable } from './table.js';
import { yRow, yWord, markRow, PAD } from './layout.js';
import { ofHead } from '../anatomy.js';

/** @type {(pen: ScenePen) => number} */
export function outputRoom({ u, W, data }) {
  const roomy = W / u > 1000;
  const bar = (roomy ? 50 : 38) * u;
  if (!data.end) return 8 * u;
  if (data.end.kind === 'class')
    return bar + 112 * u + widest(Object.keys(data.said.classes ?? {}), 1.125, { weight: 600 });
  if (data.end.kind === 'number') return 132 * u;
  return bar + 16 * u + Math.max(60 * u, widest(shownWords(data), 1.125, { weight: 600, most: 14 }));
}
// For a long text, only the outputs of the window are shown.
/** @type {(data: SceneData) => string[]} */
const shownWords = ({ said, bands }) => {
  const { first, rows } = lastOf(bands);
  return (said.words ?? []).slice(first, first + rows).filter(Boolean);
};
/** @type {(pen: ScenePen, band: Band) => void} */
export function outputs(pen, band) {
  const { u, front, W, data } = pen;
  const roomy = W / u > 1000;
  const bar = (roomy ? 50 : 38) * u;
  if (!data.end) return;
  const { at: endPoint, kind, point } = data.end;
  const { classes = {}, numbers = [], words = [], shares = [] } = data.said;
  const x = band.right + 2 * u;
  const g = s('g', {
    class: `part end${endPoint === data.selected ? ' selected' : ''}`,
    tabindex: -1,
    role: 'button',
    'aria-label': `Output, ${kind}: ${endPoint}`,
  });
  /** @type {Pane} */
  const pane = {
    kind: 'end',
    side: band.side,
    layer: null,
    at: endPoint,
    x,
    w: W - x,
    top: 0,
    tall: 0,
    label: kind,
    short: '',
    say: kind,
    points: [point],
    scope: '',
  };
  /** @type {(y: number) => SVGElement} */
  const head = y => s('text.halo', { x, y }, kind);
  if (kind === 'class') {
    const all = Object.entries(classes);
    const step = Math.min(40 * u, band.tall / all.length);
    const y0 = band.y + band.tall / 2 - (all.length * step) / 2;
    const from = band.panes.findLast(each => each.kind === 'vector');
    const left = x + 34 * u;
    const name = widest(Object.keys(classes), 1.125, { weight: 600 });
    g.append(
      s('rect.hit', {
        x: left - 8 * u,
        y: y0 - 4 * u,
        width: W - left + 8 * u,
        height: all.length * step + 8 * u,
        rx: 5 * u,
      }),
      s('text.halo', { x: left, y: y0 - 13 * u }, 'class'),
    );
    all.forEach(([label, p], i) => {
      const y = y0 + (i + 0.5) * step;
      g.append(
        s(
          'text.word',
          { x: left, y, ...RIGHT_OF, style: p === Math.max(...all.map(each => each[1])) ? 'font-weight:600' : null },
          label,
        ),
        ...barAt(left + name + 9 * u, y, bar, Math.min(16 * u, step * 0.5), p),
        s('text.num', { x: left + name + bar + 15 * u, y, ...RIGHT_OF }, num(p, 3)),
      );
      if (!from) return;
      const middle = from.top + from.tall / 2;
      const d = `M${from.x + from.w} ${middle}C${left - 24 * u} ${middle} ${left - 30 * u} ${y} ${left - 8 * u} ${y}`;
      pen.back.append(s('path.strand', { 'stroke-width': 1.2 * u, d }));
    });
    pane.top = y0;
    pane.tall = all.length * step;
    if (from) gather(pen, band, band.panes.find(each => each.kind === 'vector' && ofHead(each)) ?? from);
  } else if (kind === 'number') {
    const all = numbers;
    const y0 = band.y + band.tall / 2 - all.length * 16 * u;
    g.append(
      s('rect.hit', {
        x,
        y: y0 - 22 * u,
        width: Math.min(W - x - 2 * u, 130 * u),
        height: all.length * 32 * u + 36 * u,
        rx: 5 * u,
      }),
      ...all.map((value, i) =>
        s(
          'text.num.said',
          { x: x + 12 * u, y: y0 + i * 32 * u + 10 * u, ...RIGHT_OF },
          Math.abs(value) < 1000 ? num(value, 3) : Number(value.toPrecision(6)).toLocaleString('en'),
        ),
      ),
      data.standardised ? s('text.name', { x, y: y0 - 30 * u }, 'in the data’s units') : '',
    );
    pane.top = y0;
    pane.tall = all.length * 32 * u;
  } else {
    const every = Math.max(1, Math.ceil((16 * u) / band.pitch));
    pane.top = band.y - PAD * u;
    pane.tall = band.tall + 2 * PAD * u;
    g.append(
      s('rect.hit', { x: x - 4 * u, y: pane.top, width: W - x + 4 * u, height: pane.tall, rx: 5 * u }),
      head(band.y - (PAD + 9) * u),
    );
    const texts = [];
    for (let i = 0; i < band.rows; i++) {
      const y = yRow(band, i);
      const at = band.first + i;
      const word = words[at] ?? '';
      const p = shares[at];
      const frame = s('rect.frame', {
        x: x - 0.75,
        y: y - band.rowH / 2 - 0.75,
        width: bar + 1.5,
        height: band.rowH + 1.5,
        rx: 1.5,
      });
      g.append(...barAt(x, y, bar, band.rowH, p), frame);
      markRow(frame, band, i);
      const text = markRow(
        svgWord(word, {
          class: i % every ? 'between row' : 'row',
          x: x + bar + 9 * u,
          y,
          ...RIGHT_OF,
          style: band.pitch < 20 * u ? 'font-size:.9375rem' : null,
        }),
        band,
        i,
      );
      g.append(text);
      texts.push(text);
    }
    if (every > 1) pen.columns.push({ every, texts });
  }
  front.append(highlight.mark(g, `part:${endPoint}`));
  withTable(g, `Output: ${kind}`, () =>
    kind === 'class'
      ? { corner: 'class', columns: ['probability'], rows: Object.entries(classes) }
      : kind === 'number'
        ? {
            corner: 'output',
            columns: ['number'],
            rows: numbers.map((value, i) => [String(i), value]),
          }
        : {
            corner: 'after',
            columns: [kind, 'probability'],
            rows: range(band.rows)
              .map(i => band.first + i)
              .map(i => [band.words[i], words[i] ?? '', shares[i] ?? '']),
            note: band.long
              ? `Tokens ${band.first} to ${band.first + band.rows - 1} of ${band.words.length}, the ones in the window.`
              : '',
          },
  );
  pen.hits.push({ part: g, pane, band });
}
/** @type {(x: number, y: number, width: number, height: number, p: number) => SVGElement[]} */
function barAt(x, y, width, height, p) {
  const place = { x, y: y - height / 2, height, rx: 1.5 };
  return [
    s('rect', { ...place, width, fill: 'var(--cell0)' }),
    ...(Number.isFinite(p)
      ? [s('rect', { ...place, width: Math.max(1, width * p), fill: cssColour(0.78, UNIT_SCALE) })]
      : []),
  ];
}
// Pooling: the strands merge into one vector, each with its share.
/** @type {(pen: ScenePen, band: Band, to: Pane) => void} */
function gather({ u, back, ctx, data }, band, to) {
  const shares = data.said.pooled ?? [];
  const y = to.top + to.tall / 2;
  /** @type {(from: number) => string} */
  const way = from => `M${band.stop} ${from}C${band.stop + 26 * u} ${from} ${to.x - 26 * u} ${y} ${to.x} ${y}`;
  if (band.long)
    for (let i = 0; i < band.words.length; i += band.each) {
      // compressed words on canvas
      const share = shares.slice(i, i + band.each).reduce((a, b) => a + b, 0);
      ctx.strokeStyle = cssVariable('--strand');
      ctx.lineWidth = (0.4 + 3 * share) * u;
      if (share > 0) ctx.stroke(new Path2D(way(yWord(band, Math.min(band.words.length - 1, i + (band.each - 1) / 2)))));
    }
  for (let i = 0; i < band.rows; i++) {
    const share = shares[band.first + i] ?? 0;
    if (share > 0)
      back.append(
        markRow(
          s('path', {
            class: `strand${band.long ? ' thread' : ''}`,
            'stroke-width': (0.8 + 3 * share) * u,
            d: way(yRow(band, i)),
          }),
          band,
          i,
        ),
      );
  }
}
