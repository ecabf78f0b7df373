// The positions of panes in a band, and which labels fit.
import { s, widest, svgWord, sum, LEFT_OF, ABOVE } from '../dom.js';
import * as highlight from '../highlight.js';
import { paintRow } from '../ink.js';

export const PAD = 7; // padding of a pane, above and below its rows
// A band has a row per word (band.rows of them, from word band.first). In a long text they are a window, and the other
// words are compressed above and below it, band.per px each.
/** @type {(band: Band, i: number) => number} */
export const yRow = (band, i) => band.y0 + (i + 0.5) * band.pitch;
/** @type {(band: Band, word: number) => boolean} */
export const isNear = (band, word) => word >= band.first && word < band.first + band.rows;
/** @type {(band: Band, word: number) => number} */
const above = (band, word) => band.y + word * band.per;
/** @type {(band: Band, word: number) => number} */
const below = (band, word) => band.y0 + band.rows * band.pitch + band.gap + (word - band.first - band.rows) * band.per;
/** @type {(band: Band, word: number) => number} */
export function yWord(band, word) {
  // its middle; fractions are positions between two words
  return isNear(band, Math.floor(word))
    ? yRow(band, word - band.first)
    : (word < band.first ? above : below)(band, word + 0.5);
}
/** @type {(band: Band, from: number, to: number) => [number, number][]} */
export function compressedAreas(band, from, to) {
  // the compressed areas of these words: [[top, bottom], ...]
  const last = band.first + band.rows;
  /** @type {[number, number][]} */
  const found = [];
  if (from < band.first) found.push([above(band, from), above(band, Math.min(to, band.first))]);
  if (to > last) found.push([below(band, Math.max(from, last)), below(band, to)]);
  return found;
}
/** @type {(band: Band, py: number) => number} */
export function wordAt(band, py) {
  const { first, rows, y, y0, pitch, per, gap } = band;
  const foot = y0 + rows * pitch;
  const word =
    py < y0 && first
      ? Math.min(first - 1, (py - y) / per)
      : py < foot + gap || !per
        ? first + Math.min(rows - 1, (py - y0) / pitch)
        : first + rows + (py - foot - gap) / per;
  return Math.min(band.words.length - 1, Math.max(0, Math.floor(word)));
}
/** @type {<E extends Element>(el: E, band: Band, i: number) => E} */
export const markRow = (el, band, i) => highlight.mark(el, `${band.key}:${band.first + i}`);

// ---- heights: rows of short texts use the available room; in long texts, the window comes first
const LONG = 96; // maximum words; a longer text is compressed
const WINDOW = 20; // maximum rows of a window
const LEAST = 5; // minimum rows of a window
const ROW = 16; // height of a row, in units
const PRESSED = 1.75; // height of a compressed row, in px
/** @type {(bands: Band[], height: number, u: number) => number} */
export function placeBands(bands, height, u) {
  const top = 52 * u;
  const between = 84 * u;
  const foot = 62 * u;
  const free = height - top - foot - between * (bands.length - 1);
  const long = bands.map(band => !band.columns && band.words.length > LONG);
  const count = bands.map(band => (band.columns ? 1 : Math.max(1, band.words.length)));
  const shortRows = count.reduce((rows, n, k) => rows + (long[k] ? 0 : n), 0);
  const longs = long.filter(Boolean).length;
  // A short text beside a long one stays readable if possible.
  const pitch = longs
    ? Math.min(16 * u, (free * 0.45) / Math.max(1, shortRows))
    : Math.max(3 * u, Math.min((bands.length > 1 ? 56 : 84) * u, free / shortRows));
  let y = top;
  bands.forEach((band, k) => {
    Object.assign(
      band,
      { y, long: long[k] },
      long[k]
        ? pressed(band, (free - shortRows * pitch) / longs, u)
        : {
            y0: y,
            first: 0,
            rows: count[k],
            per: 0,
            gap: 0,
            pitch: band.columns ? free : pitch >= 8 * u ? Math.floor(pitch) : pitch,
          },
    );
    band.tall = long[k] ? (free - shortRows * pitch) / longs : band.rows * band.pitch;
    band.rowH =
      band.pitch > 12 * u
        ? Math.min(36 * u, Math.round(band.pitch * (long[k] ? 0.6 : 0.46)))
        : Math.max(1.5, band.pitch * 0.72);
    if (long[k]) open(band);
    y += band.tall + between;
  });
  return Math.max(height, y - between + foot);
}
/** @type {(band: Band, tall: number, u: number) => Partial<Band>} */
function pressed(band, tall, u) {
  const n = band.words.length;
  const rows = Math.max(LEAST, Math.min(WINDOW, Math.floor((tall - 60 * u) / (ROW * u))));
  const gap = 3 * u;
  const per = Math.max(0.05, (tall - rows * ROW * u - 2 * gap) / (n - rows));
  const most = Math.max(8, Math.min(n, Math.ceil((n * per) / PRESSED)));
  return { rows, gap, per, pitch: ROW * u, blocks: Math.min(most, 1024), each: Math.ceil(n / Math.min(most, 1024)) };
}
// The first word of the window: around the pinned word, in steps of half a window.
/** @type {(band: Band) => number} */
export function windowStart(band) {
  const half = Math.floor(band.rows / 2);
  const pin = highlight.pinned(band.key) ?? 0;
  return Math.min(band.words.length - band.rows, Math.max(0, Math.floor(pin / half) * half - Math.floor(half / 2)));
}
/** @type {(band: Band) => void} */
function open(band) {
  band.first = windowStart(band);
  const edges = Number(band.first > 0) + Number(band.first + band.rows < band.words.length);
  band.per = (band.tall - band.rows * band.pitch - edges * band.gap) / (band.words.length - band.rows);
  band.y0 = band.y + band.first * band.per + (band.first ? band.gap : 0);
  if (band.first + band.rows === band.words.length) band.gap = 0;
}

// Per kind: width in units at 1280 px and in a wide stage, share of the remaining width, largest width.
/** @type {Record<string, [number, number, number, number]>} */
const SIZES = {
  tile: [50, 74, 0.14, 120],
  wide: [58, 90, 0.3, 170],
  cell: [22, 30, 0.5, 130],
  thin: [14, 20, 0, 20],
  plate: [26, 34, 0, 34],
  near: [18, 28, 0, 28], // a plate beside groups of plates
  group: [64, 76, 0.1, 90],
  self: [90, 120, 1, 460],
  cross: [100, 140, 1.2, 420],
  vector: [50, 74, 0.2, 140],
  column: [56, 84, 0.5, 158],
};
const TIGHTEST = 0.55; // panes beside plates shrink to this share of their width
/** @type {(pane: Pane) => [number, number, number, number]} */
const sizeOf = pane => SIZES[pane.wide ? 'wide' : pane.cell ? 'cell' : (pane.among ?? pane.kind)];

/** @type {(panes: Pane[], from: number, to: number, room: { u: number; roomy: boolean }) => void} */
export function placePanes(panes, from, to, { u, roomy }) {
  /** @type {(pane: Pane, next: Pane) => boolean} */
  const joined = (pane, next) => pane.group !== null && pane.group !== undefined && pane.group === next.group;
  let gaps = panes
    .slice(1)
    .map(
      (pane, i) =>
        (joined(panes[i], pane) || (pane.among === 'near' && panes[i].among)
          ? 6
          : pane.kind === 'vector' && i > 1
            ? 44
            : pane.kind === 'column'
              ? 40
              : roomy
                ? 18
                : 13) * u,
    );
  for (const pane of panes) pane.w = sizeOf(pane)[roomy ? 1 : 0] * u;
  for (const pane of panes.filter(isGroup)) pane.w = Math.max(pane.w, named(pane.label) - 2 * u);
  const left = () => to - from - sum(gaps) - sum(panes.map(pane => pane.w));
  // With little room, only the first group has its full name: layers 0–5, 6–11, 12–17.
  if (left() < 0)
    panes.filter(isGroup).forEach((pane, i) => {
      pane.w = named(i ? pane.short : pane.label) + 4 * u;
    });
  for (let turn = 0; turn < 6 && left() > 1; turn++) {
    // grow until none can
    const able = panes.filter(pane => pane.w < sizeOf(pane)[3] * u && sizeOf(pane)[2]);
    const free = left();
    const shares = sum(able.map(pane => sizeOf(pane)[2]));
    for (const pane of able) pane.w = Math.min(sizeOf(pane)[3] * u, pane.w + (free * sizeOf(pane)[2]) / shares);
  }
  if (left() > 1 && gaps.length) {
    const more = Math.min((panes[0].kind === 'column' ? 120 : 56) * u, left() / gaps.length);
    gaps = gaps.map((gap, i) => (joined(panes[i], panes[i + 1]) ? Math.min(gap + more, 14 * u) : gap + more));
  }
  if (left() < 0) {
    // too many: shrink all, or all but the plates, which keep the room for their labels
    const plates = panes.filter(pane => pane.among);
    const firm = sum(plates.map(pane => pane.w));
    const shared = (to - from - firm) / (to - from - left() - firm);
    const factor = shared > TIGHTEST ? shared : (to - from) / (to - from - left());
    gaps = gaps.map(gap => gap * factor);
    for (const pane of panes) if (!(pane.among && shared > TIGHTEST)) pane.w *= factor;
  }
  let x = from;
  panes.forEach((pane, i) => {
    pane.x = x;
    x += pane.w + (gaps[i] ?? 0);
  });
}

/** @type {(pane: Pane) => boolean} */
const isGroup = pane => pane.among === 'group';
/** @type {(text: string, weight?: number) => number} */
const named = (text, weight = 400) => widest([text], 0.875, { family: 'names', weight });
// Full names if they fit, otherwise short ones, otherwise none; the selected one first.
/** @type {(svg: Element, panes: Pane[], y: number, u: number, selected: string, from: number, to: number) => void} */
export function labels(svg, panes, y, u, selected, from, to) {
  const taken = [
    [-Infinity, from],
    [to, Infinity],
  ];
  /** @type {(pane: Pane) => number} */
  const rank = pane =>
    pane.at === selected
      ? 0
      : ['self', 'cross'].includes(pane.kind) || isGroup(pane)
        ? 1
        : pane.kind === 'tile'
          ? 2
          : 3;
  const letters = panes.some(pane => pane.cell && named(pane.label) > pane.w + 4 * u);
  const groups = panes.filter(isGroup);
  const tight = groups.some(pane => named(pane.label) > pane.w + 3 * u); // layers 0–5, 6–11, 12–17
  let under = false; // of two vectors side by side, one is named above and one below
  for (const pane of [...panes].sort((a, b) => rank(a) - rank(b))) {
    if (pane.kind === 'vector' && pane.top > y + 20 * u) {
      write(svg, pane, pane.label, under ? pane.top + pane.tall + 19 * u : pane.top - 9 * u, selected);
      under = !under;
      continue;
    }
    const few =
      pane.at !== selected && ((pane.cell && letters) || pane.among === 'near' || (tight && groups.indexOf(pane) > 0));
    const tries = few ? [pane.short] : [pane.label, pane.short];
    for (const text of tries.filter(Boolean)) {
      const half = named(text, pane.at === selected ? 600 : 400) / 2 + (text === pane.short ? 2 : 5) * u;
      const middle = pane.x + pane.w / 2;
      if (taken.some(([a, b]) => middle + half > a && middle - half < b)) continue;
      taken.push([middle - half, middle + half]);
      write(svg, pane, text, y, selected);
      break;
    }
  }
}
/** @type {(svg: Element, pane: Pane, text: string, y: number, selected: string) => void} */
function write(svg, pane, text, y, selected) {
  svg.append(
    s(
      'text',
      {
        class: `halo panelabel${pane.at === selected ? ' chosen' : ''}`,
        x: pane.x + pane.w / 2,
        y,
        ...ABOVE,
      },
      text,
    ),
  );
}

// ---- a long text: the compressed words above and below the window, and the highlighted word
/** @type {(ctx: CanvasRenderingContext2D, rows: Numbers[], band: Band, place: PressPlace) => void} */
export function paintCompressed(ctx, rows, band, { x, width, scale, alpha = 1 }) {
  ctx.globalAlpha = alpha;
  rows.forEach((row, b) => {
    for (const [top, foot] of compressedAreas(band, b * band.each, Math.min(band.words.length, (b + 1) * band.each))) {
      const y = Math.round(top);
      paintRow(ctx, row, { x, y, width, height: Math.max(1, Math.round(foot) - y), scale });
    }
  });
  ctx.globalAlpha = 1;
}
// One area for all compressed strands; the pointer's position determines the word.
/** @type {<E extends SVGElement>(band: Band, area: E, wordUnder: (event: MouseEvent) => number) => E} */
export function compressedArea(band, area, wordUnder) {
  /** @type {(event: MouseEvent) => string} */
  const key = event => `${band.key}:${wordUnder(event)}`;
  area.addEventListener('mousemove', event => {
    const now = key(event);
    if (highlight.state.hover[0] !== now) highlight.hover([now]);
  });
  area.addEventListener('mouseleave', () => highlight.hover([]));
  area.addEventListener('click', event => highlight.pin([key(event)]));
  return area;
}
// The highlighted word outside the window gets a temporary label, with its strand and cells.
/** @type {(drawing: Drawing, band: Band, tiles: { x: number; width: number }[]) => void} */
export function floatingLabels({ back, front, u, x0, xWord }, band, tiles) {
  const under = s('g');
  const over = s('g.floats');
  back.append(under);
  front.append(over);
  let shown = '';
  highlight.follow(over, () => {
    const keys = highlight
      .activeKeys()
      .filter(key => key.startsWith(`${band.key}:`) && !isNear(band, Number(key.split(':')[1])));
    if (String(keys) === shown) return;
    shown = String(keys);
    const places = keys.map(key => Number(key.split(':')[1])).filter(word => word < band.words.length);
    under.replaceChildren(
      ...places.map(word => s('path.strand.lit', { d: `M${x0 - 4 * u} ${yWord(band, word)}H${band.stop}` })),
    );
    over.replaceChildren(
      ...places.flatMap(word => {
        const y = yWord(band, word);
        const high = Math.max(3, band.per * band.each);
        return [
          s('path.frame.lit', {
            d: tiles
              .map(({ x, width }) => `M${x - 0.75} ${y - high / 2}h${width + 1.5}v${high}h${-width - 1.5}z`)
              .join(''),
          }),
          svgWord(
            band.words[word],
            { class: 'halo lit row', x: xWord, y, ...LEFT_OF, style: 'font-size:.9375rem' },
            16,
          ),
        ];
      }),
    );
  });
}
