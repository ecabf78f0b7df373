// Flow: every word is a strand; every part of the model is a pane of glass set across the strands.
import { choice } from '../parts/controls.js';
import { append, byId, h, lastOf, setAttributes, unit, range } from '../dom.js';
import { UNIT_SCALE, scaleOf, cellRange, cellsIn, firstWeight, largestIn, numberAt } from '../ink.js';
import * as api from '../api.js';
import * as highlight from '../highlight.js';
import { readoutDefault, readout, wordElement } from '../readout.js';
import { replaceAddress, link as hrefTo, anyValue } from '../route.js';
import { anatomy, byRows, entryAt, scopeOf, partOf, layerOf, pointAt, title } from '../anatomy.js';
import { scene, hideOverlappedLabels } from '../parts/scene.js';
import { placeBands, isNear, windowStart, wordAt, yRow } from '../parts/layout.js';
import { crossFade, runLight } from '../motion.js';
import { tilesOf, weightsOf } from '../slices.js';
import { inspector } from '../parts/inspector.js';
import { attribution } from '../parts/attribution.js';
import { addressOf, termsPanel } from '../parts/terms.js';
import { grid } from '../parts/table.js';
import { numbersOf, sharesOf, wordsOf } from '../answer.js';
import { openWhatIfWithout } from '../parts/switch.js';
import { scrollIntoBox, withScrollButtons } from '../parts/scrolling.js';
import { keepFocus, onKeys } from '../keyboard.js';
import { rowName } from '../parts/token.js';
import { saliency } from '../parts/saliency.js';

const ROWS = 128; // rows and columns of the inspector's map
const FEWER = 64; // the same for a long text
const LONG = 96; // from this many words, a text is long
const EXACT = 4096; // maximum numbers sent in full precision
const LEAST = 640; // minimum width of the panes; a narrower window scrolls
const GROUPS = 160; // more for a deep model
const COLUMN = 96; // a column of a network of numbers, with the lines to it
const LIKELY = 8; // likeliest tokens to show per position

/** @type {View} */
export const flow = {
  name: 'Flow',
  about: {
    shows:
      'The whole model, from left to right: every row is a token, every box a part of the model, and colours are ' +
      'the numbers in it.',
    read:
      'Choose a box to see its numbers and its formula on the right. The sum there is worked out with the ' +
      'numbers of this text; choose an underlined number to see where it comes from.',
    terms: ['token', '<s>', '</s>', '<unk>', 'encoder', 'decoder', 'layer', 'head', 'query', 'key', 'value', 'logit'],
  },
  draw: drawView,
  walksTokens: true,
  keys: [
    ['↑ ↓', 'open the previous or next layer'],
    ['[ ]', 'previous or next head'],
    ['Enter', 'open the part in Attention or Recurrent'],
    ['o', 'switch the part off in What-if'],
  ],
  linkParts: { member: anyValue, saliency: anyValue },
};

/** @type {(stage: HTMLElement, shown: Shown) => Promise<void>} */
async function drawView(stage, { model, run, catalogue, params, signal }) {
  const points = new Map(run.points.map(point => [point.at, point]));
  const given = run.points.map(point => point.at).find(at => at === params.get('at')) ?? null;
  const member = given ? memberOf(given) : Math.max(0, Number(params.get('member')) || 0);
  /** @type {FlowState} */
  const state = {
    at: given ?? first(run, member),
    head: Math.max(0, Number(params.get('head')) || 0),
    i: params.get('i')?.split(',').map(Number) ?? null,
    opened: readLayers(params.get('layer')),
    member,
  };
  const inside = layerOf(scopeOf(state.at));
  const side = state.at.match(/encoder|decoder/)?.[0];
  if (inside !== null && side && state.opened[side] === undefined) state.opened[side] = inside;
  const box = h('div.scene', { 'aria-label': 'Flow' });
  const panel = h('aside.panel', { tabindex: 0, 'aria-label': 'Selected part' });
  stage.append(h('div.split', withScrollButtons(box, 'the picture', { falls: true }), panel));
  /** @type {FlowView} */
  const view = {
    model,
    run,
    catalogue,
    points,
    state,
    box,
    panel,
    focus: null,
    turn: 0,
    panelTurn: 0,
    columns: [],
    hits: [],
    bands: [],
  };
  const off = highlight.onChange(what => {
    box.classList.toggle('focused', highlight.activeKeys().length > 0);
    hideOverlappedLabels(view.columns);
    if (what === 'pin' && box.isConnected) {
      state.i = null;
      replaceAddress({ i: null });
      drawPanel(view);
      follow(view);
    }
  });
  onKeys(signal, event => {
    if (!box.isConnected) return;
    const way = { '[': -1, ']': 1 }[event.key];
    const { axes, shape } = pointAt(points, state.at);
    const heads = axes[0]?.endsWith('heads') ? shape[0] : 0;
    const aside = event.target?.closest?.('.part,.heat,a,button,dialog');
    if (event.key === 'o') openWhatIfWithout(model, state.at, heads ? state.head : null);
    else if (event.key === 'Enter' && !aside) goIn(state);
    else if (/^Arrow(Up|Down)$/.test(event.key) && !aside && !event.defaultPrevented)
      nextLayer(view, event.key === 'ArrowUp' ? -1 : 1);
    else if (way && heads) {
      state.head = (Math.min(state.head, heads - 1) + way + heads) % heads;
      replaceAddress({ head: state.head || null });
      drawPanel(view);
    }
  });
  box.addEventListener('dblclick', event => {
    if (event.target?.closest?.('.part')) goIn(state);
  });
  signal.addEventListener('abort', () => {
    off();
    clearTimeout(view.soon);
  });
  await Promise.all([drawScene(view), drawPanel(view)]);
  if (given) scrollIntoBox(box, box.querySelector('.part.selected'));
  signal.addEventListener('abort', saliency(run, model));
}
// Move the window to the pin and restore the focus.
/** @type {(view: FlowView) => void} */
function follow(view) {
  if (!view.bands.some(band => band.long && windowStart(band) !== band.first)) return;
  view.focus ??= view.hits.find(({ part }) => part === document.activeElement)?.pane.at ?? null;
  drawScene(view);
}
/** @type {(text: string | null) => Opened} */
const readLayers = text =>
  Object.fromEntries(
    (text ?? '')
      .split(',')
      .filter(Boolean)
      .map(each => {
        const [side, layer] = each.split('.');
        return [side, Number(layer)];
      }),
  );
/** @type {(opened: Opened) => string | null} */
const writeLayers = opened =>
  Object.entries(opened)
    .map(([side, layer]) => `${side}.${layer}`)
    .join(',') || null;
// The default selection: the last attention, or the last state.
/** @type {(at: string) => number} */
const memberOf = at => Number(at.match(/^members\.(\d+)\./)?.[1] ?? 0);
/** @type {(run: Run, member: number) => string} */
function first(run, member) {
  const names = run.points.map(point => point.at).filter(at => memberOf(at) === member);
  return (
    names.findLast(at => /(cross_attention|alignment)\.pattern$/.test(at)) ??
    names.findLast(at => at.endsWith('.pattern')) ??
    names.findLast(at => /(lstm|gru|rnn)\.hidden$/.test(at)) ??
    names.findLast(at => at.endsWith('.activation')) ??
    lastOf(names)
  );
}

// ---------------------------------------------------------------- the scene
/** @type {(view: FlowView) => Promise<void>} */
async function drawScene(view) {
  const { run, model, state, box } = view;
  const body = anatomy(run, model, state);
  const turn = ++view.turn;
  const { bands } = body;
  const height = placeBands(bands, box.clientHeight, unit());
  const all = bands.flatMap(band => band.panes);
  view.bands = bands;
  for (const pane of all) pane.say = said(pane);
  const [tiles, weights, predicted] = await Promise.all([
    tilesOf(run, view.points, bands),
    weightsOf(run, bands),
    answers(view, body),
  ]);
  if (!box.isConnected || turn !== view.turn) return;
  const selected =
    (
      all.find(pane => pane.at === state.at) ??
      all.find(pane => pane.kind !== 'plate' && pane.points.some(point => point.at === state.at))
    )?.at ?? state.at;
  const data = {
    ...body,
    standardised: view.model.standardised,
    edges: view.model.edges,
    maps: view.model.maps,
    tiles,
    weights,
    said: predicted,
    selected,
    width: Math.max(box.clientWidth, least(bands, body.end) * unit()),
    height,
  };
  const { root, hits, columns } = scene(data);
  view.columns = columns;
  view.hits = hits;
  const turned = crossFade(box);
  append(box, root, body.members > 1 && members(view, body.members));
  enliven(view, hits, data);
  box.classList.toggle('focused', highlight.state.pins.length > 0);
  highlight.paint();
  hideOverlappedLabels(columns);
  turned();
  runLight(
    `flow ${run.run}`,
    bands.map(band => ({ svg: /** @type {SVGElement} */ (root.lastChild), ...strandsOf(band) })),
  );
}
/** @type {(bands: Band[], end: Anatomy['end']) => number} */
const least = (bands, end) =>
  bands[0].columns
    ? 136 + bands[0].panes.length * COLUMN + (end ? 88 : 0)
    : LEAST + (bands.some(band => band.panes.some(pane => pane.among === 'group')) ? GROUPS : 0);
// The strands of a band as one path, and the length of each.
/** @type {(band: Band) => { d: string; length: number }} */
function strandsOf(band) {
  const { x } = band.panes[0];
  const rows = band.columns ? [band.y + band.tall / 2] : range(band.rows).map(i => yRow(band, i));
  return { d: rows.map(y => `M${x} ${y}H${band.stop}`).join(''), length: band.stop - x };
}
/** @type {(view: FlowView, count: number) => HTMLElement} */
function members(view, count) {
  // an ensemble shows one of its networks at a time
  /** @type {(i: number) => void} */
  const choose = i => {
    const at = view.state.at.replace(/^members\.\d+/, `members.${i}`);
    view.state.member = i;
    replaceAddress({ member: i || null });
    pick(view, at);
    view.focus = null;
  };
  const all = range(count).map(i => ({ key: i, text: String(i) }));
  return choice('Member', all, view.state.member, choose, { kind: 'pick.members', label: 'member' });
}
/** @type {(pane: Pane) => string} */
const said = pane => {
  const { place, name } = title(pane.scope);
  return pane.kind === 'plate'
    ? `${place.replace(/ layer.*/, '')} ${pane.label}`
    : pane.cell
      ? `${place}, ${pane.label}`
      : `${place}, ${name.toLowerCase()}`;
};
/** @type {(view: FlowView, body: Anatomy) => Promise<Outcome>} */
async function answers({ run, model }, { end, bands }) {
  const band = lastOf(bands);
  const n = band.words.length;
  if (!end || end.kind === 'number') return { numbers: numbersOf(run) };
  if (end.kind === 'class') return { classes: sharesOf(run), pooled: await shares(run, model, n) };
  /** @type {Required<Pick<Outcome, 'words' | 'shares' | 'ids'>>} */
  const found = { words: wordsOf(run), shares: [], ids: [] };
  // For a long text, those of the window; a saved session does not contain every word.
  const { steps } = await (band.long
    ? api.steps(run.run, { k: 1, positions: `${band.first}:${band.first + band.rows}` }).catch(() => ({ steps: [] }))
    : api.steps(run.run, { k: LIKELY }));
  for (const { n: at, words, probabilities, ids } of steps) {
    found.words[at] = words[0];
    found.shares[at] = probabilities[0];
    found.ids[at] = ids[0];
  }
  return found;
}
/** @type {(run: Run, model: Model, n: number) => Promise<number[]>} */
async function shares(run, model, n) {
  // the share of each word in the pooled vector
  const at = run.points.find(point => point.at.endsWith('head.pool_pattern'));
  if (at) return (await api.tensor(run.run, at.at, {})).row();
  const how = model.config.pooling;
  return range(n).map(i => (how === 'last' ? Number(i === n - 1) : how === 'first' ? Number(i === 0) : 1 / n));
}

// ---------------------------------------------------------------- interaction with the panes
/** @type {(view: FlowView, hits: Hit[], data: SceneData) => void} */
function enliven(view, hits, data) {
  const { state } = view;
  hits.forEach((hit, k) => {
    const { part, pane, band } = hit;
    const choose = () => (pane.kind === 'plate' ? openLayer(view, pane) : pick(view, pane.at));
    part.addEventListener('click', event =>
      pane.kind === 'plate' ? openLayer(view, pane) : pickRow(view, data, pane, band, event),
    );
    part.addEventListener('keydown', event => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (event.key === 'Enter' || event.key === ' ') {
        event.preventDefault();
        pane.at === state.at && event.key === 'Enter' ? goIn(state) : choose();
      } else if (step) {
        event.preventDefault();
        hits[(k + step + hits.length) % hits.length].part.focus();
      } else if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
        event.preventDefault();
        across(hits, hit)?.part.focus();
      }
    });
    part.addEventListener('focus', () => {
      for (const each of hits) setAttributes(each.part, { tabindex: each === hit ? 0 : -1 });
      readout(resting(pane));
    });
    part.addEventListener('blur', () => readout());
    part.addEventListener('mousemove', event => pointed(view, data, pane, band, event));
    part.addEventListener('mouseleave', () => {
      highlight.hover([]);
      readout();
    });
  });
  const held = hits.find(hit => hit.pane.at === (view.focus ?? state.at)) ?? hits[0];
  held?.part.setAttribute('tabindex', '0');
  if (view.focus !== null) held?.part.focus({ preventScroll: true });
  view.focus = null;
}
// Where the numbers of a pane are: in the rows of its band, if it has none of its own.
/** @type {(room: TileRoom, band: Band) => Place} */
const placeOf = ({ x, width, y, pitch }, band) => ({ x, width, y: y ?? band.y0, pitch: pitch ?? band.pitch });
// A click selects the row under the pointer.
/** @type {(view: FlowView, data: SceneData, pane: Pane, band: Band, event: MouseEvent) => void} */
function pickRow(view, data, pane, band, event) {
  const r = view.box.children[0].getBoundingClientRect();
  const y = event.clientY - r.top;
  const inRows = event.detail && y >= band.y && (band.long || y <= band.y0 + band.rows * band.pitch);
  if (band.columns) {
    const held = inRows && data.tiles.get(pane.at);
    const rows = held ? held.rows[0].map(value => [value]) : null;
    const found = rows && pane.inner && numberAt(rows, placeOf(pane.inner, band), event.clientX - r.left, y);
    return pick(view, pane.at, found && pointAt(view.points, pane.at).shape.length ? [found.row] : null);
  }
  const key = `${band.key}:${wordAt(band, y)}`;
  view.state.at = pane.at;
  if (inRows && pane.kind !== 'vector' && String(highlight.state.pins) !== key) highlight.pin([key]);
  return pick(view, pane.at);
}
/** @type {(hits: Hit[], hit: Hit) => Hit | undefined} */
function across(hits, { pane, band }) {
  // the nearest pane of the other band
  const others = hits.filter(hit => hit.band !== band);
  /** @type {(hit: Hit) => number} */
  const distance = hit => Math.abs(hit.pane.x + hit.pane.w / 2 - pane.x - pane.w / 2);
  return others.sort((a, b) => distance(a) - distance(b))[0];
}
/** @type {(pane: Pane) => Reading} */
const resting = pane => ({ at: [pane.say], path: pane.at, value: undefined });
/** @type {(view: FlowView, data: SceneData, pane: Pane, band: Band, event: MouseEvent) => void} */
function pointed(view, data, pane, band, event) {
  const r = view.box.children[0].getBoundingClientRect();
  const x = event.clientX - r.left;
  const y = event.clientY - r.top;
  const out = pane.out && x >= pane.out.x ? pane.out : null;
  const at = out?.at ?? pane.at;
  const held = data.tiles.get(at);
  const place_ = out ?? pane.inner;
  const row = band.columns ? 0 : wordAt(band, y);
  const key = `${band.key}:${row}`;
  const alone = band.columns || pane.kind === 'vector';
  if (!alone && highlight.state.hover[0] !== key) highlight.hover([key]);
  const pattern = out ? null : data.weights.get(pane.at);
  clearTimeout(view.soon);
  if (pattern) return looksMost(view, data, pane, band, pattern, row);
  if (!held || !place_) {
    const { words = [], shares: probabilities = [], ids = [] } = data.said;
    return readout(
      pane.kind === 'end' && Number.isFinite(probabilities[row])
        ? {
            at: [wordElement(band.words[row]), ` → `, wordElement(words[row])],
            path: `softmax ${pane.at}[${row}, ${ids[row]}]`,
            value: probabilities[row],
            scale: UNIT_SCALE,
          }
        : resting(pane),
    );
  }
  const point = pointAt(view.points, at);
  const { shape } = point;
  const b = Math.floor(row / band.each);
  if (!alone && held.far && !isNear(band, row))
    return readout(ofMany(pane, band, point, held.far[b], { b, place: place_, x, scale: held.scale }));
  const rows = band.columns ? held.rows[0].map(value => [value]) : held.rows;
  const found = numberAt(rows, placeOf(place_, band), x, y);
  const [from, to] = columnsOf(found, held, shape);
  const lead = band.columns ? [found.row] : alone ? [] : [band.first + found.row];
  const few = band.columns || (shape.length === 1 && !alone) ? [] : [held.step > 1 ? `${from}:${to}` : found.column];
  const told = {
    at: [
      pane.say,
      ...(alone ? [] : [': ', wordElement(band.words[lead[0]])]),
      to - from > 1 ? `, largest of ${to - from}` : '',
    ],
    path: `${at}[${[...lead, ...few].join(', ')}]`,
    value: found.value,
    scale: held.scale,
    digits: 2,
  };
  readout(told);
  if (shape.length)
    soon(view, told, async () => {
      // the full precision arrives a moment later
      if (held.step === 1) {
        const index = [...lead, ...few].join(',') || undefined;
        return { value: (await api.tensor(view.run.run, at, { index, as: 'f32' })).raw[0] };
      }
      const exact = (
        await api.tensor(view.run.run, at, {
          index: lead.join(',') || undefined,
          as: lastOf(shape) <= EXACT ? 'f32' : 'f16',
        })
      ).row();
      const column = loud(exact, from, to);
      return { path: `${at}[${[...lead, column].join(', ')}]`, value: exact[column] };
    });
}
/** @type {(found: Under, held: Tile, shape: number[]) => [number, number]} */
const columnsOf = ({ from, to }, held, shape) => [from * held.step, Math.min(shape.at(-1) ?? 1, to * held.step)];
/** @type {(view: FlowView, told: Reading, ask: () => Promise<Partial<Reading>>) => void} */
function soon(view, told, ask) {
  // shown unless the pointer has moved on
  view.soon = setTimeout(async () => {
    const exact = await ask().catch(() => null);
    if (exact && view.box.isConnected && byId('readout').querySelector('.path')?.textContent === told.path)
      readout({ ...told, digits: 3, ...exact });
  }, 90);
}
/** @type {(from: number, to: number) => string} */
const wordsBetween = (from, to) => (to - from > 1 ? `words ${from} to ${to - 1}` : `word ${from}`);
// A number in a compressed row, which represents many.
/** @type {(pane: Pane, band: Band, point: Point, values: number[], cell: PressedCell) => Reading} */
function ofMany(pane, band, { at, shape }, values, { b, place, x, scale }) {
  const cells = cellsIn(values.length, place.width);
  const [a, z] = cellRange(
    values.length,
    cells,
    Math.min(cells - 1, Math.max(0, Math.floor(((x - place.x) / place.width) * cells))),
  );
  const column = largestIn(values, a, z);
  const each = shape.length > 1 ? Math.ceil(shape[1] / values.length) : 1;
  const from = a * each;
  const to = Math.min(shape[1] ?? 1, z * each);
  const last = Math.min(band.words.length, (b + 1) * band.each);
  return {
    at: [pane.say, `: ${wordsBetween(b * band.each, last)}, largest of ${(last - b * band.each) * (to - from)}`],
    path: `${at}[${b * band.each}:${last}${shape.length > 1 ? `, ${from}:${to}` : ''}]`,
    value: values[column],
    scale,
    digits: 2,
  };
}
/** @type {(run: Run, band: Band, i: number) => Content} */
const asking = (run, band, i) => (band.key === 'tgt' ? rowName(run, 'target', i) : wordElement(band.words[i]));
// Over attention: what the word under the pointer attends to most, averaged over heads.
/** @type {(view: FlowView, data: SceneData, pane: Pane, band: Band, held: Weights, row: number) => void} */
function looksMost(view, data, pane, band, held, row) {
  const to = pane.kind === 'cross' ? data.bands[0] : band;
  const many = pointAt(view.points, pane.at).axes.length === 3;
  const far = isNear(band, row) ? null : held.far;
  const { rows, stepRows, keys } = far ?? held;
  const start = far ? 0 : held.first;
  const i = Math.min(rows.length - 1, Math.floor((row - start) / stepRows));
  const j = loud(rows[i]);
  const from = start + i * stepRows;
  const last = Math.min(band.words.length, from + stepRows);
  /** @type {(a: number, b: number) => string | number} */
  const span = (a, b) => (b - a > 1 ? `${a}:${b}` : a);
  /** @type {(query: number | string, key: number | string) => string} */
  const name = (query, key) => (many ? `${pane.at}[:, ${query}, ${key}].mean()` : `${pane.at}[${query}, ${key}]`);
  const end = many ? ', mean of the heads' : '';
  const told = {
    at: [
      stepRows > 1 ? wordsBetween(from, last) : asking(view.run, band, from),
      ' attends most to ',
      keys[j][1] - keys[j][0] > 1 ? wordsBetween(...keys[j]) : wordElement(to.words[keys[j][0]]),
      end,
    ],
    path: name(span(from, last), span(...keys[j])),
    value: rows[i][j],
    scale: UNIT_SCALE,
    digits: 2,
  };
  if (keys.length === to.words.length && stepRows === 1) return readout(told);
  readout({ ...told, at: [...told.at, ', the largest of each block'], python: null });
  if (stepRows === 1)
    soon(view, told, async () => {
      // which word of the block it is, and its number
      const table = await api.tensor(view.run.run, pane.at, { index: many ? `*,${from}` : from, as: 'f16' });
      const n = to.words.length;
      const sums = new Float32Array(n);
      for (let k = 0; k < table.size; k++) sums[k % n] += table.number(k) || 0;
      const key = loud(sums);
      const exact = (
        await api.tensor(view.run.run, pane.at, { index: many ? `*,${from},${key}` : `${from},${key}`, as: 'f32' })
      ).row();
      return {
        at: [asking(view.run, band, from), ' attends most to ', wordElement(to.words[key]), end],
        path: name(from, key),
        value: exact.reduce((a, b) => a + b, 0) / exact.length,
      };
    });
}
/** @type {(view: FlowView, at: string, i?: number[] | null) => void} */
function pick(view, at, i = null) {
  view.state.at = at;
  view.state.i = i;
  view.focus = at;
  replaceAddress({ at, i: i?.join(',') ?? null, head: view.state.head || null });
  drawScene(view);
  drawPanel(view);
}
/** @type {(view: FlowView, plate: Pane) => void} */
function openLayer(view, plate) {
  const { state } = view;
  const same = state.at.replace(/layers\.\d+/, `layers.${plate.layer}`);
  const inside = plate.points.filter(point => layerOf(point.at) === plate.layer);
  state.opened = { ...state.opened, [plate.side]: plate.layer ?? undefined };
  state.at =
    state.at.includes(`${plate.side}.`) && view.points.has(same)
      ? same
      : (inside.find(point => point.at.endsWith('.pattern')) ?? inside.findLast(byRows) ?? inside[0]).at;
  state.i = null;
  view.focus = state.at;
  replaceAddress({ layer: writeLayers(state.opened), at: state.at, i: null });
  drawScene(view);
  drawPanel(view);
}

// ---------------------------------------------------------------- the inspector
/** @type {(view: FlowView) => Promise<void>} */
async function drawPanel(view) {
  const { run, state, panel, points, catalogue } = view;
  const at = state.at;
  const point = pointAt(points, at);
  const scope = scopeOf(at);
  view.panelTurn += 1;
  const turn = view.panelTurn;
  const { place, name } = title(scope);
  const side = at.match(/(?:^|\.)(encoder|decoder)\./)?.[1] ?? (run.tokens.target.length ? 'decoder' : 'encoder');
  const own = side === 'decoder' ? 'tgt' : 'src';
  const words = { src: run.tokens.source, tgt: run.tokens.target };
  const back = /(cross_attention|alignment)\./.test(at) ? 'src' : own;
  /** @type {(axis: string) => 'src' | 'tgt' | null} */
  const sideOf = axis => (axis === 'keys' ? back : axis === 'length' || axis === 'queries' ? own : null);
  const axes = [...point.axes];
  const shape = [...point.shape];
  /** @type {{ index: number } | null} */
  let lead = null;
  const leadSide = shape.length > 2 ? sideOf(axes[0]) : null;
  if (shape.length > 2) {
    const pinned = leadSide && highlight.pinned(leadSide);
    lead = { index: Math.min(shape[0] - 1, axes[0].endsWith('heads') ? state.head : (state.i?.[0] ?? pinned ?? 0)) };
  }
  const inner = shape.slice(lead ? 1 : 0);
  const innerAxes = axes.slice(lead ? 1 : 0);
  const size = inner.slice(-2).reduce((a, b) => a * b, 1);
  const before = [...(lead ? [lead.index] : []), ...(inner.length > 2 ? [0] : [])];
  const cut = { index: before.length ? before.join(',') : undefined };
  const exact = size <= EXACT;
  const long = Math.max(run.tokens.source.length, run.tokens.target.length) > LONG;
  const frame = await api.tensor(run.run, at, exact ? { ...cut, as: 'f32' } : { ...cut, pool: long ? FEWER : ROWS });
  const onRows = sideOf(innerAxes[0]) !== null;
  const values = !frame.shape.length
    ? null
    : frame.shape.length >= 2
      ? frame.table()
      : onRows
        ? frame.row().map(value => [value])
        : [frame.row()];
  const rowSide = sideOf(innerAxes[0]);
  const colSide = inner.length === 2 ? sideOf(innerAxes[1]) : null;
  const count = inner.at(-2) ?? 1; // of rows
  const wide = inner.at(-1) ?? 1; // numbers in a row
  const step = values && inner.length > 1 ? Math.ceil(count / values.length) : 1;
  const colStep = values ? Math.ceil(wide / (onRows && inner.length === 1 ? inner[0] : values[0].length)) : 1;
  const scale = frame.scale === 'unit' ? UNIT_SCALE : scaleOf({ scale: frame.scale, hi: peak(values) });
  // A row of the map may represent several words: the pinned one if it is among them, otherwise the first.
  const held_ = rowSide ? highlight.pinned(rowSide) : null;
  /** @type {(i: number) => number} */
  const rowOf = i =>
    state.i && state.i.length === shape.length && inner.length > 1 && Math.floor(state.i[shape.length - 2] / step) === i
      ? state.i[shape.length - 2]
      : held_ !== null && Math.floor(held_ / step) === i
        ? held_
        : i * step;
  /** @type {(i: number, column: number) => number[]} */
  const address = (i, column) => [
    ...before,
    ...(inner.length === 0 ? [] : inner.length === 1 ? [onRows ? i : column] : [rowOf(i), column]),
  ];
  // A cell that represents several numbers shows the largest; its row is requested in full precision.
  /** @type {(i: number, j: number, largest?: boolean) => Promise<number>} */
  const exactly = async (i, j, largest = false) => {
    if (!values || colStep === 1) return values && largest ? loud(values[i]) : j;
    const row = (
      await api.tensor(run.run, at, {
        index: inner.length > 1 ? [...before, rowOf(i)].join(',') : undefined,
        as: wide <= EXACT ? 'f32' : 'f16',
      })
    ).row();
    return largest ? loud(row) : loud(row, j * colStep, Math.min(row.length, (j + 1) * colStep));
  };
  /** @type {number[]} */
  let index = [];
  let pi = 0;
  let pj = 0;
  if (values) {
    const kept =
      state.i?.length === shape.length &&
      state.i.every((i, axis) => i >= 0 && i < shape[axis]) &&
      (!lead || state.i[0] === lead.index)
        ? state.i
        : null;
    // Pins may determine the row, the column or both; the rest is where the value is largest.
    const pinned = rowSide ? highlight.pinned(rowSide) : null;
    const among =
      colSide && colSide === rowSide ? highlight.pinned(colSide, 1) : colSide ? highlight.pinned(colSide) : null;
    // The first token of a causal model attends only to itself, so start with the last.
    const itself = innerAxes[1] === 'keys' && values.length > 1 && values[0].slice(1).every(value => value === 0);
    const unpinned = itself ? step * (values.length - 1) : 0;
    const strongest = () =>
      among === null
        ? unpinned
        : step * loud(values.map(row => row[Math.min(row.length - 1, Math.floor(among / colStep))]));
    pi =
      inner.length === 1 && !onRows
        ? 0
        : Math.min(
            values.length - 1,
            Math.floor((kept ? kept[kept.length - Math.min(2, inner.length)] : (pinned ?? strongest())) / step),
          );
    const open =
      colSide && frame.scale === 'unit' && step * colStep === 1 && !kept && pinned === null && among === null;
    const start = open ? firstWeight(values) : null;
    if (start) [pi] = start;
    const column =
      inner.length === 1 && onRows ? 0 : kept ? lastOf(kept) : (among ?? start?.[1] ?? (await exactly(pi, 0, true)));
    index = kept ?? address(pi, column);
    pj = Math.floor(column / colStep);
  }
  const likely =
    at === 'head.logits' || /(^|\.)(class_logits|(ensemble|linear)\.logits)$/.test(at) || at === 'ngrams.sum'
      ? await likeliest(run, shape.length > 1 ? rowOf(pi) : 0, long).catch(() => null)
      : null;
  const opened = await api.terms(run.run, addressOf(at, index, shape)).catch(() => null);
  const inUnits = view.model.standardised && at === run.output ? numbersOf(run)[lastOf(index)] : undefined;
  if (!panel.isConnected || turn !== view.panelTurn) return;
  const attends = innerAxes[1] === 'keys' && frame.scale === 'unit' ? ' attends to ' : ' · ';
  /** @type {(which: 'src' | 'tgt' | null, i: number) => Content} */
  const who = (which, i) => (which ? wordElement(words[which][i] ?? String(i)) : null);
  /** @type {(i: number) => Content} */
  const asker = i => (rowSide === 'tgt' ? rowName(run, 'target', i) : who(rowSide, i));
  /** @type {(i: number, each: number, n: number) => string | number} */
  const some = (i, each, n) => (each > 1 ? `${i * each}:${Math.min(n, (i + 1) * each)}` : i * each);
  /** @type {(which: 'src' | 'tgt', i: number, each: number) => Content} */
  const whose = (which, i, each) =>
    each > 1 ? wordsBetween(i * each, Math.min(words[which].length, (i + 1) * each)) : who(which, i);
  /** @type {(i: number, j: number, of?: number) => Reading} */
  const read = (i, j, of = 1) => {
    // a cell may represent several numbers
    const numbers = of * colStep * step;
    const last = some(j, colStep, wide);
    const places = inner.length > 1 ? [some(i, step, count), last] : [onRows ? i : last];
    return {
      at: [
        ...(colSide
          ? [rowSide && step > 1 ? whose(rowSide, i, step) : asker(i), attends, whose(colSide, j, colStep)]
          : [name, ...(rowSide ? [': ', whose(rowSide, i, step)] : [])]),
        numbers > 1 ? `, largest of ${numbers}` : '',
      ],
      path: `${at}[${[...before, ...places].join(', ')}]`,
      value: values?.[i][j],
      scale,
      digits: exact ? 3 : 2,
    };
  };
  /** @type {() => Reading} */
  const here = () => ({
    at: colSide
      ? [asker(index[index.length - 2]), attends, who(colSide, lastOf(index))]
      : [name, ...(rowSide ? [': ', who(rowSide, index[index.length - Math.min(2, inner.length)])] : [])],
    scale,
  });
  const stem = at.slice(0, at.indexOf(side) + side.length);
  const scoped = run.points.filter(each => scopeOf(each.at) === scope);
  const mate =
    partOf(scope) === 'attention'
      ? run.points
          .filter(
            each =>
              each.at.startsWith(`${stem}.masks.`) ||
              [`${stem}.positions.bias`, `${stem}.positions.angles`].includes(each.at),
          )
          .map(each => ({ ...each, far: each.at.slice(stem.length + 1) }))
      : [];
  /** @type {(places: number[]) => void} */
  const choose = places => {
    state.i = places;
    replaceAddress({ i: places.join(',') });
    drawPanel(view);
  };
  const owed =
    likely &&
    attribution(
      run,
      {
        position: shape.length > 1 ? index[0] : 0,
        output: lastOf(index),
        transformer: view.model.family === 'transformer' && at === 'head.logits',
        word: likely.words[likely.ids.indexOf(lastOf(index))],
      },
      (part, head) => {
        const to = points.has(`${part}.pattern`) ? `${part}.pattern` : `${part}.output`;
        state.head = head ?? 0;
        pick(view, points.has(to) ? to : (run.points.find(each => each.at.startsWith(`${part}.`))?.at ?? at));
      },
    );
  await owed?.drawn;
  if (!panel.isConnected || turn !== view.panelTurn) return;
  const made = inspector(
    {
      at,
      place,
      name,
      points: [...scoped, ...mate],
      entry: entryAt(catalogue, points, at),
      shape,
      axes,
      lead,
      leads: shape[0],
      leadAxis: axes[0],
      leadNames: leadSide && words[leadSide],
      values,
      scale,
      rows:
        values && (rowSide || values.length > 1)
          ? values.map((_, i) => (rowSide && words[rowSide][i * step]) ?? String(i))
          : null,
      rowNames:
        values && colSide && rowSide === 'tgt'
          ? values.map((_, i) => [words.tgt[i * step], ' → ', run.tokens.follows[i * step] ?? ''])
          : null,
      names: !rowSide,
      cols: values && colSide ? values[0].map((_, j) => words[colSide][j * colStep] ?? String(j)) : null,
      wordOf: keys => {
        const key = keys.find(each => each.startsWith(`${rowSide}:`));
        return key && rowSide ? words[rowSide][Number(key.split(':')[1])] : undefined;
      },
      rowKey: rowSide ? i => `${rowSide}:${i * step}` : null,
      colKey: colSide ? j => `${colSide}:${j * colStep}` : null,
      picked: values ? [pi, pj] : null,
      opened: opened && termsPanel(run, opened),
      inUnits,
      read,
      each: step * colStep,
      table: exact ? undefined : () => exactTable(run, at, before, inner, rowSide ? words[rowSide] : null),
      likely: likely && {
        rows: likely.words.map((text, i) => ({
          word: text,
          p: likely.probabilities[i],
          on: likely.ids[i] === lastOf(index),
        })),
        rest: likely.rest,
        others: likely.others,
        onpick: i => choose([...index.slice(0, -1), likely.ids[i]]),
      },
      credit: owed?.el,
      go: onward(at, state),
    },
    {
      width: panel.clientWidth,
      onpoint: name_ => {
        pick(view, name_);
        view.focus = null;
      }, // the focus stays with the list
      onlead: i => {
        if (axes[0].endsWith('heads')) {
          state.head = i;
          replaceAddress({ head: i || null });
        } else state.i = [i, ...index.slice(1)];
        drawPanel(view);
      },
      onpick: async (i, j) => {
        if (!colSide && rowSide) highlight.state.pins = [`${rowSide}:${i * step}`];
        state.i = null;
        state.i = address(i, await exactly(i, j));
        replaceAddress({ i: state.i.join(','), pin: highlight.state.pins.join(',') || null });
        highlight.paint();
        drawPanel(view);
      },
    },
  );
  const drawn = JSON.stringify([at, index, lead, highlight.state.pins]);
  if (view.drawn !== drawn) {
    // unchanged nodes stay: one that is replaced under the pointer loses the click
    view.drawn = drawn;
    highlight.forget(panel);
    const refocus = keepFocus(panel);
    const down = panel.querySelector('.scrolls')?.scrollTop ?? 0;
    panel.replaceChildren(...made);
    made[0].scrollTop = down;
    refocus();
    highlight.paint();
  }
  readoutDefault({
    ...(values ? here() : { at: [name] }),
    value: opened ? (opened.value ?? -Infinity) : values?.[pi][pj],
    path: index.length ? `${at}[${index.join(', ')}]` : at,
    digits: 3,
  });
}
// Requested together with what the output panes show.
/** @type {(run: Run, n: number, long: boolean) => Promise<OneStep>} */
const likeliest = (run, n, long) =>
  api.step(run.run, n, long ? { k: LIKELY, positions: api.onlyPosition(n) } : { k: LIKELY });
// The first rows behind a pooled picture, in full precision.
/** @type {(run: Run, at: string, before: number[], inner: number[], words: string[] | null) => Promise<Table>} */
async function exactTable(run, at, before, inner, words) {
  const count = inner.at(-2) ?? 1;
  const shown = Math.min(count, 24);
  const as = lastOf(inner) <= EXACT ? 'f32' : 'f16';
  /** @type {(i: number) => Promise<number[]>} */
  const row = async i =>
    (
      await api.tensor(run.run, at, { index: (inner.length > 1 ? [...before, i] : before).join(',') || undefined, as })
    ).row();
  const rows = await Promise.all(range(shown).map(row));
  return {
    ...grid(words, null, rows),
    note: [
      count > shown ? `The first ${shown} of ${count} rows.` : '',
      as === 'f16' ? 'Rounded to about three digits.' : '',
    ]
      .filter(Boolean)
      .join(' '),
  };
}
/** @type {(row: Numbers, from?: number, to?: number) => number} */
const loud = (row, from = 0, to = row.length) => {
  let best = from;
  for (let j = from; j < to; j++)
    if (Number.isFinite(row[j]) && (!Number.isFinite(row[best]) || Math.abs(row[j]) > Math.abs(row[best]))) best = j;
  return best;
};
/** @type {(values: number[][] | null) => number} */
const peak = values =>
  (values ?? []).flat().reduce((most, value) => (Number.isFinite(value) ? Math.max(most, Math.abs(value)) : most), 0) ||
  1;
/** @type {(state: FlowState) => void} */
function goIn(state) {
  const next = onward(state.at, state);
  if (next) location.hash = next.href;
}
/** @type {(view: FlowView, by: number) => void} */
function nextLayer(view, by) {
  const { state, points } = view;
  const at = layerOf(scopeOf(state.at));
  const side = state.at.match(/encoder|decoder/)?.[0];
  if (at === null || !side) return;
  const to = at + by;
  const name = state.at.replace(/layers\.\d+/, `layers.${to}`);
  if (!points.has(name)) return;
  state.opened = { ...state.opened, [side]: to };
  replaceAddress({ layer: writeLayers(state.opened) });
  pick(view, name);
  view.focus = null;
}
/** @type {(at: string, state: FlowState) => { href: string; text: string } | null} */
function onward(at, state) {
  if (/(attention|alignment)\.pattern$/.test(at))
    return { href: hrefTo('attention', { at, head: state.head || null }), text: 'All heads, step by step: Attention' };
  if (/\.(lstm|gru|rnn)\./.test(at)) return { href: hrefTo('recurrent', { at }), text: 'Unit by unit: Recurrent' };
  return null;
}
