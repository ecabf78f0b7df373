// The requests of Flow. For a long text: the rows of the window, and all others pooled to the number that is drawn,
// with no more columns than a pane can show.
import { range } from './dom.js';
import * as api from './api.js';
import { byRows, pointAt } from './anatomy.js';
import { scaleOf } from './ink.js';

const POOL = 128; // maximum columns for a short text
const WHOLE = 1 << 15; // maximum numbers sent without pooling
const MANY = 96; // words
const NEAR = 32; // blocks of keys that the window attends to
const FAR = 32; // of all words among each other
const PLATES = 7; // more of them are placed as close together as possible

/** @type {(run: Run, names: string[], options: TensorOptions) => Promise<Frame[]>} */
async function batches(run, names, options) {
  // at most 64 points per request
  const parts = [];
  for (let k = 0; k < names.length; k += 64) parts.push(api.tensors(run.run, names.slice(k, k + 64), options));
  return (await Promise.all(parts)).flat();
}
/** @type {(pane: Pane) => boolean} */
const isAttention = pane => pane.kind === 'self' || pane.kind === 'cross';
/** @type {(point: Point) => number} */
const size = point => point.shape.reduce((a, b) => a * b, 1);
/** @type {(frame: Frame, point: Point) => number[][]} */
const flat = (frame, point) =>
  frame.shape.length === 2 ? frame.table() : byRows(point) ? frame.row().map(value => [value]) : [frame.row()];
/** @type {(frame: Frame) => number} */
const stepOf = frame =>
  frame.shape.length > 1 ? Math.ceil(frame.whole[frame.whole.length - 1] / frame.shape[frame.shape.length - 1]) : 1;

// The tiles of all bands: at -> { rows, scale, step: numbers per column, far: pooled rows }.
/** @type {(run: Run, points: Points, bands: Band[]) => Promise<Tiles>} */
export async function tilesOf(run, points, bands) {
  /** @type {Tiles} */
  const found = new Map();
  await Promise.all(bands.map(band => (band.long ? cut : whole)(run, points, band, found)));
  return found;
}
/** @type {(band: Band) => Map<string, number>} */
function namesOf(band) {
  // at -> number of visible columns
  const plates = band.panes.filter(pane => pane.kind === 'plate').length;
  const found = new Map();
  for (const pane of band.panes) {
    if (!isAttention(pane))
      found.set(pane.at, pane.kind === 'plate' ? (plates > PLATES ? 4 : 12) : pane.kind === 'thin' ? 12 : 48);
    else if (pane.result) found.set(pane.result.at, 12);
  }
  return found;
}
/** @type {(run: Run, points: Points, band: Band, found: Tiles) => Promise<void>} */
function whole(run, points, band, found) {
  const names = [...namesOf(band).keys()];
  const large = names.some(at => size(pointAt(points, at)) > WHOLE);
  return keep(run, points, names, large ? { pool: POOL } : {}, found);
}
/** @type {(run: Run, points: Points, names: string[], options: TensorOptions, found: Tiles) => Promise<void>} */
async function keep(run, points, names, options, found) {
  for (const frame of await batches(run, names, options))
    found.set(frame.at, { rows: flat(frame, pointAt(points, frame.at)), scale: scaleOf(frame), step: stepOf(frame) });
}
/** @type {(run: Run, points: Points, band: Band, found: Tiles) => Promise<void>} */
async function cut(run, points, band, found) {
  /** @type {Map<number | '' | null, string[]>} */
  const groups = new Map(); // columns -> names; '': no columns; null: no rows
  for (const [at, columns] of namesOf(band)) {
    const point = pointAt(points, at);
    const key = !byRows(point)
      ? null
      : point.shape[0] !== band.words.length
        ? undefined
        : point.shape.length === 1
          ? ''
          : columns;
    if (key !== undefined) groups.set(key, [...(groups.get(key) ?? []), at]);
  }
  await Promise.all(
    [...groups].map(async ([columns, names]) => {
      if (columns === null) return keep(run, points, names, { pool: POOL }, found);
      const [near, far] = await Promise.all([
        batches(run, names, {
          index: `${band.first}:${band.first + band.rows}`,
          pool: columns ? `${band.rows},${columns}` : undefined,
        }),
        batches(run, names, { pool: columns ? `${band.blocks},${columns}` : band.blocks }),
      ]);
      near.forEach((frame, k) => {
        const point = pointAt(points, frame.at);
        found.set(frame.at, {
          rows: flat(frame, point),
          scale: scaleOf(far[k]),
          step: stepOf(frame),
          far: flat(far[k], point),
        });
      });
    }),
  );
}

// Attention weights averaged over heads: at -> { rows, first, stepRows, keys: the words of each column, far: the same
// for all words }. Keys of the window are separate, the others in blocks.
/** @type {(run: Run, bands: Band[]) => Promise<Map<string, Weights>>} */
export async function weightsOf(run, bands) {
  const found = new Map();
  const source = bands.find(band => band.key === 'src');
  await Promise.all(
    bands.flatMap(band =>
      band.panes.filter(isAttention).map(async pane => {
        const keys = pane.kind === 'cross' ? (source ?? band) : band;
        const lead = pane.points.find(point => point.at === pane.at)?.shape.length === 3 ? '*,' : '';
        const rows = band.long ? `${band.first}:${band.first + band.rows}` : '*';
        /** @type {(options: TensorOptions) => Promise<Frame>} */
        const ask = options => api.tensor(run.run, pane.at, options);
        const [all, near, far] = await Promise.all([
          ask(
            band.long || keys.long
              ? { index: lead + rows, pool: `${Math.max(1, band.rows)},${keys.long ? NEAR : MANY}`, as: 'f16' }
              : {},
          ),
          keys.long ? ask({ index: `${lead}${rows},${keys.first}:${keys.first + keys.rows}`, as: 'f16' }) : null,
          band.long ? ask({ pool: FAR }) : null,
        ]);
        found.set(pane.at, {
          ...(near ? merged(mean(all), mean(near), keys) : mean(all)),
          first: band.first,
          far: far && mean(far),
        });
      }),
    ),
  );
  return found;
}
/** @type {(frame: Frame) => Averaged} */
function mean(frame) {
  const heads = frame.shape.length === 3 ? frame.shape[0] : 1;
  const [n, m] = frame.shape.slice(-2);
  const rows = Array.from({ length: n }, () => new Float32Array(m));
  for (let head = 0, at = 0; head < heads; head++)
    for (let i = 0; i < n; i++)
      for (let j = 0; j < m; j++, at++) {
        const value = frame.number(at);
        rows[i][j] += (Number.isFinite(value) ? value : 0) / heads;
      }
  const [down, across] = frame.whole.slice(-2);
  const each = Math.ceil(across / m);
  return {
    rows,
    stepRows: Math.ceil(down / n),
    keys: range(m).map(j => /** @type {[number, number]} */ ([j * each, Math.min(across, (j + 1) * each)])),
  };
}
// A block that overlaps the window counts only if its words in the window do not explain its weight.
/** @type {(blocks: Averaged, exact: Averaged, band: Band) => Averaged} */
function merged(blocks, exact, { first, rows: count }) {
  const last = first + count;
  const kept = blocks.keys.map((_, j) => j).filter(j => blocks.keys[j][0] < first || blocks.keys[j][1] > last);
  /** @type {(key: number[], row: Numbers) => number} */
  const inside = ([from, to], row) => Math.max(0, ...row.slice(Math.max(0, from - first), Math.max(0, to - first)));
  return {
    ...blocks,
    keys: [
      ...kept.map(j => blocks.keys[j]),
      ...range(count).map(k => /** @type {[number, number]} */ ([first + k, first + k + 1])),
    ],
    rows: blocks.rows.map((row, i) => [
      ...kept.map(j => (inside(blocks.keys[j], exact.rows[i]) >= 0.9 * row[j] ? 0 : row[j])),
      ...exact.rows[i],
    ]),
  };
}
