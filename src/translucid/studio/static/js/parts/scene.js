// The picture of Flow: strands through panes. Panes are at the back, numbers on canvas, words and frames in front.
import { h, s, unit, widest, lastOf, range, svgWord, LEFT_OF, RIGHT_OF, ABOVE } from '../dom.js';
import { canvas, cssColour, paintNumber, fixed, planeMap, rgb, textOn, cssVariable, paintRows } from '../ink.js';
import * as highlight from '../highlight.js';
import { across, linePaths, paintFaint, fromAbove, strongest, topOfEach } from './attention_lines.js';
import {
  placePanes,
  labels,
  yRow,
  yWord,
  wordAt,
  markRow,
  PAD,
  paintCompressed,
  compressedArea,
  floatingLabels,
} from './layout.js';
import { outputRoom, outputs } from './outputs.js';
import { ofHead } from '../anatomy.js';
import { edges } from './edges.js';
import { withTable } from './table.js';

const CURVES = 390; // lines of attention on screen, all panes together
// For a long text:
const FEW = 4; // lines of each word of the window
const BEHIND = 120; // of all words, on canvas
const GATHERED = 16; // strands of its memory

// data: { bands (with their heights), end, tiles, weights (see slices.js), selected, width, height, said }
/** @type {(data: SceneData) => { root: HTMLElement; hits: Hit[]; columns: LabelColumn[] }} */
export function scene(data) {
  const u = unit();
  const W = data.width;
  const H = data.height;
  const back = s('svg', { width: W, height: H, 'aria-hidden': 'true' });
  const front = s('svg', {
    width: W,
    height: H,
    role: 'group',
    'aria-label': 'The model, part by part, in the order of the data',
  });
  const { el, ctx } = canvas(W, H);
  const root = h('div.scene-in', { style: `height:${H}px` }, back, el, front);
  back.append(
    s(
      'defs',
      s(
        'linearGradient',
        { id: 'plate', x1: 0, y1: 0, x2: 0, y2: 1 },
        s('stop', { offset: 0, 'stop-color': 'var(--plate)' }),
        s('stop', { offset: 1, 'stop-color': 'var(--plate2)' }),
      ),
    ),
  );
  const wide = Math.max(...data.bands.map(band => widest(band.words, 1.125, { most: 16 })), 30 * u);
  const many = Math.max(...data.bands.flatMap(band => band.ids.map(id => String(id).length)), 0);
  const xWord = Math.max(70 * u, wide);
  const xId = xWord + (many ? 10 * u + many * 8.6 * u : 0);
  const patterns = data.bands.flatMap(band => band.panes).filter(pane => data.weights.has(pane.at)).length;
  /** @type {ScenePen} */
  const pen = {
    u,
    W,
    H,
    back,
    front,
    ctx,
    data,
    notes: new Set(),
    hits: [],
    columns: [],
    pooled: 1,
    xWord,
    xId,
    x0: xId + 12 * u,
    most: Math.floor(CURVES / Math.max(1, patterns)),
  };
  for (const band of data.bands) {
    const last = band === data.bands.at(-1);
    const room = last ? outputRoom(pen) : 44 * u;
    placePanes(band.panes, pen.x0 + (band.columns ? (W / u < 480 ? 36 : 64) : 6) * u, W - room - (last ? 10 * u : 0), {
      u,
      roomy: W / u > 1000,
    });
    const end = lastOf(band.panes);
    band.right = band.columns ? Math.min(W - room, end.x + end.w + 40 * u) : W - room;
    (band.columns ? numbers : strands)(pen, band);
  }
  if (data.bands.length === 2) memory(pen, data.bands[0], data.bands[1]);
  outputs(pen, lastOf(data.bands));
  const told = notesOf(pen);
  if (told) front.append(s('text.note', { x: 0, y: H - 6 * u }, told));
  withTable(root, 'The parts, in the order of the data', () => ({
    corner: 'part',
    columns: ['name in the trace', 'size'],
    rows: pen.hits.map(({ pane }) => [
      pane.say ?? '',
      pane.at,
      (pane.points.find(point => point.at === pane.at)?.shape ?? []).join(' × '),
    ]),
    note: 'Each part has its own table: choose the part, then its picture in the panel.',
  }));
  return { root, hits: pen.hits, columns: pen.columns };
}
// A highlighted word without a label hides its neighbours' labels.
/** @type {(columns: LabelColumn[]) => void} */
export function hideOverlappedLabels(columns) {
  for (const { every, texts } of columns) {
    const shown = texts.flatMap((text, i) => (text.matches('.lit.between') ? [i] : []));
    texts.forEach((text, i) =>
      text.classList.toggle('away', !text.classList.contains('lit') && shown.some(row => Math.abs(row - i) < every)),
    );
  }
}

/** @type {(pen: ScenePen, band: Band) => void} */
function strands(pen, band) {
  const { u, front, back, ctx, data } = pen;
  const through = band.panes.findLast(pane => pane.kind !== 'vector') ?? lastOf(band.panes);
  const stop = band === data.bands.at(-1) && data.end?.kind !== 'class' ? band.right - 4 * u : through.x + through.w;
  band.stop = stop;
  front.append(s('text.title', { x: 0, y: band.y - (PAD + 9) * u }, band.side === 'encoder' ? 'Encoder' : 'Decoder'));
  const every = Math.max(1, Math.ceil((16 * u) / band.pitch));
  const small = band.pitch < 20 * u;
  const texts = [];
  const ids = [];
  if (band.long)
    front.append(
      compressedArea(band, s('rect.rowhit', { x: 0, y: band.y, width: stop, height: band.tall }), event =>
        wordAt(band, event.clientY - front.getBoundingClientRect().top),
      ),
    );
  for (let i = 0; i < band.rows; i++) {
    const y = yRow(band, i);
    const at = band.first + i;
    const word = band.words[at];
    const keys = [`${band.key}:${at}`];
    back.append(markRow(s('path.strand.thread', { d: `M${pen.x0 - 4 * u} ${y}H${stop}` }), band, i));
    const kind = `${band.unknown.has(at) ? 'unknown ' : ''}${i % every ? 'between ' : ''}row`;
    const style = small ? 'font-size:.9375rem;text-decoration-style:dotted;text-underline-offset:1px' : null;
    const text = svgWord(word, { class: kind, x: pen.xWord, y, ...LEFT_OF, style }, 16);
    markRow(text, band, i);
    front.append(text);
    texts.push(text);
    if (band.ids.length) {
      ids[i] = s(
        'text',
        {
          class: `id${i % every ? ' between' : ''}`,
          x: pen.xId,
          y,
          ...LEFT_OF,
        },
        String(band.ids[at]),
      );
      front.append(ids[i]);
      if (every > 1) markRow(ids[i], band, i);
    }
    if (band.long) continue;
    const hit = s('rect.rowhit', { x: 0, y: y - band.pitch / 2, width: pen.xId, height: band.pitch });
    hit.addEventListener('click', () => highlight.pin(keys));
    front.append(highlight.hoverable(hit, keys));
  }
  if (every > 1) pen.columns.push({ every, texts }, { every, texts: ids });
  if (every > 1) pen.notes.add(`every ${nth(every)} token is labelled`);
  if (band.long) bounds(pen, band);
  threads(pen, band);
  for (const pane of band.panes) glass(pen, band, pane);
  const frames = Array.from({ length: band.rows }, () => '');
  for (const pane of band.panes) fill(pen, band, pane, frames);
  frames.forEach((d, i) => d && front.append(markRow(s('path.frame', { d }), band, i)));
  if (band.long) {
    const tiles = band.panes.flatMap(pane => pane.inner ?? pane.out ?? []);
    floatingLabels(
      pen,
      band,
      tiles.filter(inner => inner.y === undefined),
    );
  }
  brackets(pen, band);
  labels(
    front,
    band.panes,
    band.y - (PAD + 9) * u,
    u,
    data.selected,
    widest(['Decoder'], 1, { family: 'names', weight: 600 }) + 8 * u,
    band === data.bands.at(-1) && data.end?.kind !== 'class' ? band.right : Infinity,
  );
  ctx.globalAlpha = 1;
}
// The number of words outside the window.
/** @type {(pen: ScenePen, band: Band) => void} */
function bounds({ front, notes, u, xId }, band) {
  const n = band.words.length;
  const last = band.first + band.rows;
  /** @type {(y: number) => SVGElement} */
  const line = y => s('path.bracket.windowedge', { d: `M0 ${y}H${band.stop}` });
  /** @type {(from: number, to: number, y: number, room: number) => SVGElement | string} */
  const told = (from, to, y, room) =>
    room >= 18 * u
      ? s('text.id.quietly', { x: xId, y, ...LEFT_OF }, from === to ? String(from) : `${from} … ${to}`)
      : '';
  const high = (n - last) * band.per;
  const foot = band.y0 + band.rows * band.pitch;
  if (band.first)
    front.append(
      line(band.y0 - 1.5 * u),
      told(0, band.first - 1, band.y + (band.first * band.per) / 2, band.first * band.per),
    );
  if (last < n) front.append(line(foot + 1.5 * u), told(last, n - 1, foot + band.gap + high / 2, high));
  notes.add(
    `tokens ${band.first} to ${last - 1} of ${n}, the others compressed${band.each > 1 ? ` by ${band.each}` : ''}`,
  );
}
/** @type {Record<number, string>} */
const ENDINGS = { 1: 'st', 2: 'nd', 3: 'rd' };
/** @type {(n: number) => string} */
const nth = n => `${n}${Math.floor((n % 100) / 10) === 1 ? 'th' : (ENDINGS[n % 10] ?? 'th')}`;

// The thickness is the norm of the vector at the last point where it is known.
/** @type {(pen: ScenePen, band: Band) => void} */
function threads(pen, band) {
  const { ctx, u, data } = pen;
  /** @type {(number[] | null)[]} */
  const norms = [];
  let most = 0;
  for (const pane of band.panes) {
    const held = pane.stream && !band.long ? data.tiles.get(pane.at) : null;
    const found =
      held && held.step === 1 && held.rows.length === band.rows ? held.rows.map(row => Math.hypot(...row)) : null;
    norms.push(found);
    if (found) most = Math.max(most, ...found);
  }
  ctx.strokeStyle = cssVariable('--strand');
  for (let i = 0; i < band.rows; i++) {
    const y = yRow(band, i);
    let x = pen.x0 - 4 * u;
    let thick = Math.min(1.2 * u, band.pitch * 0.3);
    /** @type {(to: number) => void} */
    const draw = to => {
      ctx.lineWidth = thick;
      ctx.beginPath();
      ctx.moveTo(x, y);
      ctx.lineTo(to, y);
      ctx.stroke();
    };
    band.panes.forEach((pane, k) => {
      if (pane.x > x) draw(Math.min(pane.x, band.stop));
      if (pane.kind !== 'vector') {
        if (pane.kind === 'self' || pane.kind === 'cross') ctx.globalAlpha = 0.3;
        x = Math.min(pane.x, band.stop);
        draw(Math.min(pane.x + pane.w, band.stop));
        ctx.globalAlpha = 1;
      }
      x = Math.min(pane.kind === 'vector' ? pane.x : pane.x + pane.w, band.stop);
      const norm = norms[k]?.[i];
      if (norm !== undefined) thick = Math.min(band.pitch * 0.34, (0.7 + (3 * norm) / most) * u);
    });
    if (x < band.stop) draw(band.stop);
  }
}

/** @type {(pen: ScenePen, band: Band, pane: Pane) => void} */
function glass(pen, band, pane) {
  const { back, front, u, data } = pen;
  const plate = pane.kind === 'plate';
  const one = pane.kind === 'vector';
  const mid = ofHead(pane) ? band.y + band.tall / 2 : band.y + band.pitch / 2;
  pane.top = one ? mid - Math.max(band.pitch, 20 * u) / 2 : band.y - PAD * u;
  pane.tall = one ? Math.max(band.pitch, 20 * u) : band.tall + 2 * PAD * u;
  const { x, w, top, tall } = pane;
  back.append(
    s('rect', {
      class: plate ? null : 'glass',
      fill: plate ? 'url(#plate)' : null,
      x,
      y: top,
      width: w,
      height: tall,
      rx: 5 * u,
    }),
  );
  // several layers
  const inner = pane.among === 'group' ? [3, 6].flatMap(each => [x + each * u, x + w - each * u]) : [];
  for (const edge of [x + 0.75, x + w - 0.75, ...inner])
    back.append(
      s('line', {
        class: plate ? 'plate-edge' : 'edgeline',
        x1: edge,
        x2: edge,
        y1: top + 5 * u,
        y2: top + tall - 5 * u,
      }),
    );
  const part = s(
    'g',
    {
      class: `part${pane.at === data.selected ? ' selected' : ''}`,
      tabindex: -1,
      role: 'button',
      'aria-label': `${pane.say}: ${pane.at}${plate ? `, closed; opens layer ${pane.layer}` : ''}`,
    },
    s('rect.hit', { x, y: top, width: w, height: tall, rx: 5 * u }),
  );
  front.append(highlight.mark(part, `part:${pane.at}`));
  for (const point of pane.points) if (point.at !== pane.at) highlight.mark(part, `part:${point.at}`);
  pen.hits.push({ part, pane, band });
}
/** @type {(pen: ScenePen, band: Band, pane: Pane, frames: string[]) => void} */
function fill(pen, band, pane, frames) {
  const { ctx, data, u } = pen;
  const held = data.tiles.get(pane.at);
  const { pitch, rowH } = band;
  if (pane.kind === 'self' || pane.kind === 'cross') {
    let right = pane.x + pane.w - 5 * u;
    const out = pane.result && data.tiles.get(pane.result.at);
    if (pane.result && out && pane.w > 92 * u) {
      const width = Math.min(34 * u, pane.w * 0.2);
      pane.out = { at: pane.result.at, x: right - width, width };
      paint(pen, band, out, { x: right - width, width }, frames);
      right -= width + 3 * u;
    }
    pane.wires = right;
    const weights = data.weights.get(pane.at);
    if (pane.kind === 'self' && weights) selfAttention(pen, band, pane, weights);
    return;
  }
  if (!held) return;
  const inset = pane.among === 'group' ? 8 * u : pane.kind === 'plate' ? 2.5 * u : pane.kind === 'thin' ? 2 * u : 3 * u;
  const room = { x: pane.x + inset, width: pane.w - 2 * inset };
  pane.inner = room;
  const { scale } = held;
  if (pane.kind === 'vector') {
    const y = pane.top + pane.tall / 2 - pitch / 2;
    pane.inner = { ...room, y };
    paintRows(ctx, held.rows, { ...room, y, pitch, height: Math.min(rowH, pane.tall), scale });
  } else if (pane.kind === 'plate') {
    paintRows(ctx, held.rows, { ...room, y: band.y0, pitch, height: rowH, scale, alpha: 0.34 });
    if (held.far) paintCompressed(ctx, held.far, band, { ...room, scale, alpha: 0.34 });
  } else paint(pen, band, held, room, frames);
  const cells = Math.max(1, Math.floor(room.width / 3));
  pen.pooled = Math.max(pen.pooled, held.step * Math.ceil(held.rows[0].length / cells));
  if (pane.wire) wires(pen, band, pane, pane.wire);
}
/** @type {(pen: ScenePen, band: Band, held: Tile, room: TileRoom, frames: string[]) => void} */
function paint({ ctx }, band, held, { x, width }, frames) {
  paintRows(ctx, held.rows, { x, y: band.y0, width, pitch: band.pitch, height: band.rowH, scale: held.scale });
  if (held.far) paintCompressed(ctx, held.far, band, { x, width, scale: held.scale });
  for (let i = 0; i < band.rows; i++) {
    const y = yRow(band, i) - band.rowH / 2;
    frames[i] += `M${x - 0.75} ${y - 0.75}h${width + 1.5}v${band.rowH + 1.5}h${-width - 1.5}z`;
  }
}
// The wire between the strands of a recurrent layer: the state passes from word to word.
/** @type {(pen: ScenePen, band: Band, pane: Pane, way: number) => void} */
function wires({ ctx, u }, band, pane, way) {
  const x = pane.x + pane.w / 2;
  const free = band.pitch - band.rowH;
  const head = Math.min(3.5 * u, free * 0.3);
  ctx.strokeStyle = ctx.fillStyle = cssVariable('--ink3');
  ctx.lineWidth = Math.min(1.5 * u, free * 0.2);
  for (let i = 0; i < band.rows - 1; i++) {
    const a = yRow(band, i) + band.rowH / 2;
    const b = yRow(band, i + 1) - band.rowH / 2;
    const [from, to] = way > 0 ? [a, b] : [b, a];
    ctx.beginPath();
    ctx.moveTo(x, from);
    ctx.lineTo(x, to);
    ctx.stroke();
    if (free > 6 * u) {
      ctx.beginPath();
      ctx.moveTo(x, to);
      ctx.lineTo(x - head, to - way * head * 1.3);
      ctx.lineTo(x + head, to - way * head * 1.3);
      ctx.fill();
    }
  }
}
/** @type {(pen: ScenePen, weights: Numbers[], shown: number) => Lines} */
function chosen(pen, weights, shown) {
  const found = strongest(weights, pen.most);
  if (found.left) pen.notes.add(`the strongest ${shown.toLocaleString('en')} lines`);
  return found;
}
/** @type {(band: Band, from: number, to: number) => number} */
const among = (band, from, to) => Math.min(band.words.length - 1, (from + to - 1) / 2);
/** @type {(band: Band, held: { first?: number; stepRows: number }) => Along} */
const yQueries =
  (band, { first = 0, stepRows }) =>
  i =>
    yWord(band, among(band, first + i * stepRows, first + (i + 1) * stepRows));
// curve(held): the shape of the lines. In a long text, each word of the window has its lines; the strongest of all
// others are behind them.
/** @type {(pen: ScenePen, band: Band, held: Weights, curve: (held: Averaged) => Curve, keys: Band) => void} */
function lines(pen, band, held, curve, keys) {
  const few = held.far || keys.long;
  if (few) pen.notes.add(`the ${FEW} strongest lines of each`);
  if (held.far) paintFaint(pen.ctx, strongest(held.far.rows, BEHIND), curve(held.far), cssVariable('--accent'));
  const found = few ? topOfEach(held.rows, FEW) : chosen(pen, held.rows, pen.most);
  pen.front.append(
    ...linePaths(found, curve(held), {
      u: pen.u,
      pitch: band.pitch * held.stepRows,
      query: k => `${band.key}:${held.first + k * held.stepRows}`,
      key: k => `${keys.key}:${held.keys[k][0]}`,
    }),
  );
}
/** @type {(pen: ScenePen, band: Band, pane: Pane, weights: Weights) => void} */
function selfAttention(pen, band, pane, weights) {
  lines(
    pen,
    band,
    weights,
    held =>
      across({
        xa: pane.x + 5 * pen.u,
        xb: pane.wires ?? pane.x + pane.w,
        yQuery: yQueries(band, held),
        yKey: k => yWord(band, among(band, ...held.keys[k])),
      }),
    band,
  );
}
// Strands from the encoder to each pane with cross-attention.
/** @type {(pen: ScenePen, source: Band, target: Band) => void} */
function memory(pen, source, target) {
  const { u, back, data } = pen;
  const from = lastOf(source.panes);
  const n = source.words.length;
  const lane = Math.min(3.25 * u, (36 * u) / n);
  const R = Math.min(5 * u, Math.max(2 * u, lane * 4));
  for (const pane of target.panes.filter(each => each.kind === 'cross')) {
    const top = target.y - PAD * u;
    const first = source.y + source.tall + 15 * u;
    const span = (pane.wires ?? pane.x + pane.w) - pane.x;
    /** @type {(word: number) => number} */
    const tick = word => pane.x + span * (0.06 + (0.6 * (word + 0.5)) / n);
    /** @type {(word: number) => string} */
    const way = word => {
      const y = yWord(source, word);
      const vx = from.x + from.w + 7 * u + word * lane;
      const hy = first + word * lane;
      const tx = tick(word);
      const down = `M${from.x + from.w} ${y}H${vx - R}q${R} 0 ${R} ${R}V${hy - R}`;
      return `${down}q0 ${R} ${-R} ${R}H${tx + R}q${-R} 0 ${-R} ${R}V${top}`;
    };
    const wide = Math.max(0.5, Math.min(1.1 * u, lane * 0.5));
    const some = Math.ceil(n / GATHERED);
    if (source.long)
      back.append(
        s('path.strand', {
          'stroke-width': wide,
          d: range(n)
            .map(i => (i % some ? '' : way(i)))
            .join(''),
        }),
      );
    for (let i = 0; i < source.rows; i++)
      back.append(
        markRow(
          s('path', {
            class: source.long ? 'strand thread' : 'strand',
            'stroke-width': wide,
            d: way(source.first + i),
          }),
          source,
          i,
        ),
      );
    const held = data.weights.get(pane.at);
    if (held)
      lines(
        pen,
        target,
        held,
        each =>
          fromAbove({
            tick: k => tick(among(source, ...each.keys[k])),
            top,
            right: pane.x + span,
            yQuery: yQueries(target, each),
          }),
        source,
      );
  }
}
/** @type {(pen: ScenePen, band: Band) => void} */
function brackets({ front, u }, band) {
  const above = band.side === 'encoder' || band.key === 'src';
  const y = above ? band.y - (PAD + 29) * u : band.y + band.tall + (PAD + 9) * u;
  const sign = above ? -1 : 1;
  for (const group of new Set(band.panes.map(pane => pane.group).filter(Boolean))) {
    const mine = band.panes.filter(pane => pane.group === group);
    const x = mine[0].x - 3 * u;
    const w = lastOf(mine).x + lastOf(mine).w + 3 * u - x;
    front.append(
      s('path.bracket', { d: `M${x} ${y} v${sign * 6 * u} h${w} v${-sign * 6 * u}` }),
      s('text.halo', { x: x + w / 2, y: y + sign * 6 * u, ...ABOVE, ...RIGHT_OF }, group),
    );
  }
}

// A model of numbers: one column per layer. A neuron is a cell with its number; if there are two inputs, it is a map of
// its values over the plane as well, with a dot at the inputs.
/** @type {(pen: ScenePen, band: Band) => void} */
function numbers(pen, band) {
  const { u, front, back, ctx, data } = pen;
  const tall = Math.min(band.tall, 600 * u);
  band.tall = tall;
  band.stop = band.right;
  const ys = band.words.map((_, i) => band.y + ((i + 0.5) * tall) / band.words.length);
  band.words.forEach((word, i) => {
    const y = ys[i];
    front.append(
      highlight.mark(s('text.word', { x: pen.xWord, y: y - 10 * u, ...LEFT_OF }, word), `src:${i}`),
      s('text.num', { x: pen.xWord, y: y + 10 * u, ...LEFT_OF }, band.given?.[i] ?? ''),
    );
  });
  for (const pane of band.panes) {
    glass(pen, { ...band, rows: 1, pitch: tall }, pane);
    const held = data.tiles.get(pane.at);
    if (!held) continue;
    const values = held.rows[0];
    const maps = data.maps?.grids[pane.at];
    const share = tall / values.length;
    const side = maps ? Math.min(pane.w - 8 * u, share - (BAR + 12) * u, MAP * u) : 0;
    const mapped = maps !== undefined && side >= LEAST_MAP * u;
    const step = mapped ? Math.min(share, side + (BAR + 22) * u) : Math.min(44 * u, share);
    const y0 = band.y + (tall - step * values.length) / 2;
    const width = mapped ? side : pane.w - 8 * u;
    const room = { x: pane.x + (pane.w - width) / 2, width, y: y0, pitch: step };
    pane.inner = room;
    const high = mapped ? BAR * u : Math.max(2, step - 2 * u);
    /** @type {(i: number) => number} */
    const middle = i => y0 + (i + 0.5) * step + (mapped ? side / 2 : 0); // of its number
    values.forEach((value, i) => {
      paintRows(ctx, [[value]], { ...room, y: middle(i) - high / 2, pitch: high, height: high, scale: held.scale });
      if (mapped) mapOf(pen, maps[i], { x: room.x, y: middle(i) - high / 2 - side, side }, band.given ?? []);
      if (high < 18 * u || width < 48 * u) return;
      paintNumber(ctx, fixed(value), pane.x + pane.w / 2, middle(i) + u, {
        size: 14 * u,
        ground: cssColour(value, held.scale),
        fill: textOn(value, held.scale),
      });
    });
  }
  const filled = band.panes.filter(pane => pane.inner);
  const found = connections({ x: pen.xWord + 6 * u, ys, names: band.words }, filled, data.edges);
  back.append(...found.plain);
  if (found.weights.length) front.prepend(edges(found.weights));
  front.append(...weightNumbers(found.weights, u));
  labels(front, band.panes, band.y - (PAD + 9) * u, u, data.selected, 0, band.right);
}
const MAP = 150; // units, the largest map of a neuron
const LEAST_MAP = 26;
const BAR = 20; // of the number below it
/** @type {(pen: ScenePen, grid: number[][], place: { x: number; y: number; side: number }, given: string[]) => void} */
function mapOf({ ctx, front, data, u }, grid, { x, y, side }, given) {
  const most = grid.flat().reduce((found, value) => Math.max(found, Math.abs(value)), 0) || 1;
  ctx.imageSmoothingEnabled = true;
  ctx.drawImage(
    planeMap(grid, value => rgb(value, { kind: 'div', max: most })),
    x,
    y,
    side,
    side,
  );
  const { low = [], high = [] } = data.maps ?? {};
  const [a, b] = given.map((value, k) => (Number(value) - low[k]) / (high[k] - low[k]));
  if (a >= 0 && a <= 1 && b >= 0 && b <= 1)
    front.append(s('circle.input', { cx: x + a * side, cy: y + (1 - b) * side, r: 3.5 * u }));
}
// Numbers on the lines if they are few: near the neuron that a line leads to, where they do not overlap.
const NUMBERED = 24;
/** @type {(weights: DrawnWeight[], u: number) => SVGElement[]} */
function weightNumbers(weights, u) {
  if (weights.length > NUMBERED) return [];
  /** @type {[x: number, y: number, half: number][]} */
  const taken = [];
  return weights.flatMap(({ ends: [x1, y1, x2, y2], value }) => {
    const text = fixed(value);
    const half = (text.length * 8.6 * u) / 2 + 2 * u;
    for (const share of [0.66, 0.5, 0.34, 0.8, 0.22]) {
      const [x, y] = [x1 + (x2 - x1) * share, y1 + (y2 - y1) * share];
      /** @type {(place: [x: number, y: number, half: number]) => boolean} */
      const meets = ([a, b, w]) => Math.abs(a - x) < w + half && Math.abs(b - y) < 17 * u;
      if (x - half < x1 || x + half > x2 || taken.some(meets)) continue;
      taken.push([x, y, half]);
      return [s('text.num.halo.weight', { x, y, 'dominant-baseline': 'central', ...ABOVE }, text)];
    }
    return [];
  });
}

/** @type {(pen: ScenePen) => string} */
function notesOf(pen) {
  const said = [...pen.notes];
  if (pen.pooled > 1) said.unshift(`each cell is the largest of up to ${pen.pooled} values`);
  while (said.length > 1 && widest([said.join(' · ')], 0.875, { family: 'names' }) > pen.W - 8 * pen.u) said.pop();
  return said.length ? `${said[0].charAt(0).toUpperCase()}${said.join(' · ').slice(1)}.` : '';
}

const WEIGHTS = 300; // lines between two columns

// The connections of a network of numbers: a line per weight if they are few. inputs: their names and positions, {
// names, x, ys }; panes: columns that are drawn already; known: the weights of small layers by scope.
/** @type {(inputs: Inputs, panes: Pane[], known?: Model['edges']) => Connections} */
function connections(inputs, panes, known = {}) {
  /** @type {SVGElement[]} */
  const plain = [];
  /** @type {DrawnWeight[]} */
  const weights = [];
  let from = { ...inputs, scope: '' };
  for (const pane of panes) {
    const { x = 0, width = 0, y = 0, pitch = 0 } = pane.inner ?? {};
    const ys = range(pane.size ?? 0).map(i => y + (i + 0.5) * pitch);
    const each = pane.scope === 'standardise' || pane.scope === from.scope; // value by value, without weights
    const names = each ? from.names : ys.map((_, j) => `${pane.label}${ys.length > 1 ? `, neuron ${j}` : ''}`);
    const held = each ? null : known[pane.scope];
    if (from.ys.length * ys.length <= WEIGHTS)
      from.ys.forEach((a, i) =>
        ys.forEach((b, j) => {
          const d = `M${from.x} ${a}L${x} ${b}`;
          if (held)
            weights.push({
              d,
              ends: [from.x, a, x, b],
              value: held.rows[j][i],
              from: from.names[i],
              to: names[j],
              path: `${held.name}[${held.rows.length > 1 || held.name.includes('.') ? `${j}, ` : ''}${i}]`,
            });
          else if (!each || i === j) plain.push(s('path.wire', { d }));
        }),
      );
    from = { x: x + width, ys, names, scope: pane.scope };
  }
  return { plain, weights };
}
