// Recurrent: the gates at each word, the units that change most, and one step worked out.
import { choice, panelHead } from '../parts/controls.js';
import { arrowsMoveFocus, onKeys } from '../keyboard.js';
import { entryAt, isRecurrent, pointAt } from '../anatomy.js';
import { fill, h, unit, range } from '../dom.js';
import { UNIT_SCALE, canvas, cssColour, num } from '../ink.js';
import * as api from '../api.js';
import * as highlight from '../highlight.js';
import { go, replaceAddress } from '../route.js';
import { openWhatIfWithout } from '../parts/switch.js';
import { readoutDefault, wordElement } from '../readout.js';
import { definition, addressOf, termsPanel } from '../parts/terms.js';
import { headRoom } from '../parts/heatmap.js';
import { crossFade } from '../motion.js';
import { sumTable } from '../parts/table.js';
import { gateRows, unitLines, TITLE } from '../parts/gate_rows.js';

const ROWS = {
  // in the order of the sum
  lstm: [
    ['forget_gate', 'forget', 'f'],
    ['input_gate', 'input', 'i'],
    ['candidate', 'candidate', 'g'],
    ['cell', 'cell', 'c'],
    ['output_gate', 'output', 'o'],
    ['hidden', 'hidden', 'h'],
  ],
  gru: [
    ['reset_gate', 'reset', 'r'],
    ['update_gate', 'update', 'z'],
    ['candidate', 'candidate', 'n'],
    ['hidden', 'hidden', 'h'],
  ],
  rnn: [
    ['preactivation', 'sum', 'a'],
    ['hidden', 'hidden', 'h'],
  ],
};
const CELLS = /** @type {const} */ (['lstm', 'gru', 'rnn']);
const EXACT = 4096;
const LISTED = 24;

/** @type {View} */
export const recurrent = {
  name: 'Recurrent',
  about: {
    shows: 'How a recurrent network reads the text token by token, and what its state keeps.',
    read:
      'Every column is a token, every row a gate or a state of the chosen unit. The panel works out one step ' +
      'with its numbers.',
    terms: ['state', 'unit', 'gate', 'layer'],
  },
  draw: drawView,
  lacks: ({ family }) => (isRecurrent(family) ? '' : 'This model has no recurrent part'),
  keys: [
    ['↑ ↓', 'previous or next layer'],
    ['[ ]', 'previous or next unit'],
    ['o', 'switch the layer off in What-if'],
    ['Backspace', 'back to Flow'],
  ],
};

/** @type {(stage: HTMLElement, shown: Shown) => Promise<void>} */
async function drawView(stage, { model, run, catalogue, params, signal }) {
  const points = new Map(run.points.map(point => [point.at, point]));
  const scopes = scopesOf(points);
  const at = startAt(params, scopes);
  const left = h('div');
  const mid = h('div');
  const right = h('aside.panel', { tabindex: 0, 'aria-label': 'One step as a sum' });
  stage.append(h('div.columns.rec', left, mid, right));
  let turn = 0;
  /** @type {DrawnLayer} */
  let now;
  const about = highlight.stickyKeys();
  /** @type {(changes: Partial<UnitChoice>, focus?: string) => Promise<void>} */
  const change = (changes, focus) => {
    Object.assign(at, changes);
    replaceAddress({ at: scopes[at.scope].scope, unit: at.unit });
    return draw(focus);
  };

  /** @type {(focus?: string) => Promise<void>} */
  async function draw(focus) {
    const mine = ++turn;
    const here = scopes[at.scope];
    const group = scopes.filter(each => each.layer === here.layer);
    const loaded = await Promise.all(group.map(each => load(run, points, each)));
    const chosen = group.indexOf(here);
    const data = loaded[chosen];
    if (at.unit !== null && at.unit >= data.units) at.unit = null;
    const own = at.unit === null ? null : await ownValues(run, here, data, at.unit);
    if (mine !== turn) return;
    const side = here.side === 'encoder' ? 'src' : 'tgt';
    const words = range(data.words).map(i => run.tokens[here.side === 'encoder' ? 'source' : 'target'][i] ?? '·');
    const keys = words.map((_, i) => `${side}:${i}`);
    const memory = data.byPoint.cell ?? data.byPoint.hidden;
    now = { here, group, loaded, data, chosen, own, side, words, keys, memory, order: byChange(memory) };
    highlight.clear(left, right);
    const turned = crossFade(mid);
    drawLeft();
    drawStrips();
    turned();
    await work();
    highlight.paint();
    if (focus) left.querySelector(`.${focus} [aria-pressed="true"]`)?.focus();
  }

  // ---- left: which layer, which unit
  function drawLeft() {
    left.append(
      choice(
        'Which layer',
        scopes.map((each, k) => ({ key: k, text: [each.name, h('span', each.note)] })),
        at.scope,
        scope => change({ scope, unit: null }, 'kinds'),
        { kind: 'kinds' },
      ),
    );
    const told = now.order.slice(0, LISTED);
    const own = now.order.find(each => each.unit === at.unit);
    if (own && !told.includes(own)) told.push(own);
    const list = h(
      'div.units',
      { role: 'group', 'aria-label': 'Units, sorted by total change' },
      h(
        'button',
        {
          'aria-pressed': String(at.unit === null),
          tabindex: at.unit === null ? 0 : -1,
          onclick: () => change({ unit: null }, 'units'),
        },
        'all units',
      ),
      told.map(({ unit: k, change: much }) =>
        h(
          'button',
          {
            'aria-pressed': String(at.unit === k),
            tabindex: at.unit === k ? 0 : -1,
            'aria-label': `unit ${k}, changes by ${num(much)} in all`,
            onclick: () => change({ unit: k }, 'units'),
          },
          h('span', String(k)),
          mini(now.memory, k),
          h('span.n', num(much)),
        ),
      ),
      now.order.length > told.length ? h('p.kicker', `${now.order.length - told.length} more change less`) : null,
    );
    arrowsMoveFocus(list);
    const name = now.data.byPoint.cell ? 'cell' : 'state';
    left.append(
      h('h3.gridname', { title: `Total change of a unit’s ${name} from token to token` }, `Units by change of ${name}`),
      list,
    );
    list.querySelector('[aria-pressed="true"]')?.scrollIntoView({ block: 'nearest' });
  }

  // ---- middle: a summary, the strips, the lines
  function drawStrips() {
    const u = unit();
    const lw = 112;
    const W = mid.clientWidth;
    const H = mid.clientHeight;
    const rows = now.loaded.reduce((sum, each) => sum + each.rows.length, 0);
    const say = h(
      'div',
      h('p.say', saying()),
      h(
        'p.kicker',
        how(),
        (W - (lw + 16) * u) / now.words.length < 3 ? ` ${now.words.length} tokens: scroll the strips sideways.` : '',
      ),
    );
    mid.append(say);
    const pitchX = Math.max(3, Math.min((W - lw * u - 16 * u) / now.words.length, 90 * u));
    const lean = headRoom(now.words, pitchX, 1.125);
    const heads = now.group.length * TITLE * u;
    const free = H - say.offsetHeight - lean.labelHeight * u - heads - 46 * u;
    const pitchY = Math.max(24 * u, Math.min(44 * u, (free - 96 * u) / rows));
    const groups = now.group.map((each, g) => ({
      title: each.full,
      note: g === now.chosen && at.unit !== null ? `unit ${at.unit}` : '',
      chosen: g === now.chosen,
      rows: rowsOf(now.loaded[g], g === now.chosen ? at.unit : null, g === now.chosen ? now.own : null),
    }));
    const roll = h('div.roll'); // very many words: beads stay 3 px wide, and the strips roll
    mid.append(roll);
    roll.append(
      gateRows(groups, {
        title: `${now.here.full}: gates and states`,
        words: now.words,
        keys: now.keys,
        labelWidth: lw,
        ...lean,
        pitchX,
        pitchY,
        onpick: g => change({ scope: scopes.indexOf(now.group[g]), unit: null }),
        read: (g, row, i) => reads(g, row, i),
      }),
    );
    const high = H - say.offsetHeight - /** @type {HTMLElement} */ (roll.lastChild).offsetHeight - 34 * u;
    const whose =
      at.unit === null
        ? `all ${now.data.units} units, a line for each`
        : `unit ${at.unit}, over those of all ${now.data.units}`;
    if (high > 60 * u)
      roll.append(
        h('p.kicker.lines', `${now.data.byPoint.cell ? 'Cell' : 'State'} of ${whose}`),
        unitLines(now.memory, {
          title: 'Units over the tokens',
          words: now.words,
          rounded: now.data.coarse
            ? 'Numbers of all units are rounded to three digits; choose one unit for full precision.'
            : '',
          labelWidth: lw,
          pitchX,
          height: Math.min(high, 250 * u),
          chosen: at.unit,
          values: now.own?.[now.data.byPoint.cell ? 'cell' : 'hidden'],
          keys: now.keys,
        }),
      );
  }
  function how() {
    const gates = now.here.cell !== 'rnn';
    const every = gates
      ? `Gates: mean of ${now.data.units} units; states: root mean square`
      : `Root mean square of ${now.data.units} units`;
    const one = `Unit ${at.unit}${now.group.length > 1 ? '; the other direction: all units' : ''}`;
    return `${at.unit === null ? every : one}.${gates ? ' Tick: below .1 or above .9.' : ''}`;
  }
  /** @type {(g: number, row: StripRow, i: number) => Reading} */
  function reads(g, row, i) {
    const each = now.group[g];
    const one = g === now.chosen && at.unit !== null;
    const [mean, python] = row.gate ? ['mean', '.mean()'] : ['root mean square', '.square().mean().sqrt()'];
    const of = one ? `unit ${at.unit}` : `${mean} over ${now.loaded[g].units} units`;
    return {
      at: [wordElement(now.words[i]), `: ${row.name}${row.gate ? ' gate' : ''}, ${of}`],
      path: `${each.scope}.${row.point}[${i}, ${one ? `${at.unit}]` : `:]${python}`}`,
      value: row.values[i],
      scale: row.scale,
    };
  }
  // The steps with a previous state: all but the first of a layer that starts from zero. A backward layer starts at the
  // last token.
  function remembering() {
    const n = now.words.length;
    const first = now.here.backward ? n - 1 : 0;
    const begun = now.here.side === 'decoder' && run.points.some(point => point.at.includes('decoder.bridge.'));
    return range(n).filter(i => begun || n === 1 || i !== first);
  }
  /** @type {(values: number[]) => number} */
  const leastAt = values => remembering().reduce((a, b) => (values[b] < values[a] ? b : a));
  // A summary: which gate opened at which word.
  function saying() {
    const rows = Object.fromEntries(rowsOf(now.data, at.unit, now.own).map(row => [row.point, row.values]));
    const places = remembering();
    /** @type {(values: number[], among?: number[]) => number} */
    const largest = (values, among = range(now.words.length)) =>
      among.reduce((a, b) => (values[b] > values[a] ? b : a));
    /** @type {(text: string, point: string, letter: string, i: number) => Content[]} */
    const told = (text, point, letter, i) => [
      text,
      ' at ‘',
      wordElement(now.words[i]),
      '’: ',
      h('span.n', `${letter} ${num(rows[point][i])}`),
    ];
    const written = now.here.cell;
    const parts =
      written === 'lstm'
        ? [
            told('Most is forgotten', 'forget_gate', 'f', leastAt(rows.forget_gate)),
            told('; written', 'input_gate', 'i', largest(rows.input_gate)),
            told('; shown', 'output_gate', 'o', largest(rows.output_gate)),
          ]
        : written === 'gru'
          ? [
              told('Most is replaced', 'update_gate', 'z', leastAt(rows.update_gate)),
              told('; most stays', 'update_gate', 'z', largest(rows.update_gate, places)),
            ]
          : [told('The state is largest', 'hidden', 'h', largest(rows.hidden.map(Math.abs)))];
    return parts;
  }

  // ---- right: one step
  function placeOf() {
    const { row } = highlight.cellOfKeys(about(), now.keys, []);
    if (row !== null) return row;
    const gate = rowsOf(now.data, at.unit, now.own).find(
      each => each.point === (now.here.cell === 'gru' ? 'update_gate' : 'forget_gate'),
    );
    return gate ? leastAt(gate.values) : 0;
  }
  async function work() {
    const state = now;
    const i = placeOf();
    const rows = rowsOf(now.data, at.unit, now.own);
    const memory = rows.find(row => row.point === (now.data.byPoint.cell ? 'cell' : 'hidden'));
    if (memory && !highlight.state.hover.length) readoutDefault(reads(now.chosen, memory, i));
    const head = panelHead(now.here.full, [
      at.unit === null ? 'All units' : `Unit ${at.unit}`,
      ' at ',
      wordElement(now.words[i]),
      now.side === 'tgt' ? [' → ', wordElement(run.tokens.follows[i] ?? '')] : '',
    ]);
    const sums = at.unit === null ? means(rows, i) : await steps(i, at.unit);
    if (state !== now || i !== placeOf() || state.shown === i) return;
    state.shown = i; // what stands there already stays: a node that is replaced under the pointer loses the click
    fill(right, head, sums);
  }
  /** @type {(point: string) => HTMLElement | null} */
  const formulaOf = point => definition(entryAt(catalogue, points, `${now.here.scope}.${point}`));
  /** @type {(rows: StripRow[], i: number) => Content[]} */
  function means(rows, i) {
    const states = now.here.cell === 'lstm' ? ['cell', 'hidden'] : ['hidden'];
    return [
      h('div.equations', (now.here.cell === 'rnn' ? ['preactivation', 'hidden'] : states).map(formulaOf)),
      sumTable(
        rows.map(row => [
          `${row.name}${row.gate ? ' gate' : ''}`,
          num(row.values[i], 4),
          row.gate ? `mean ${row.letter}` : `√ mean ${row.letter}²`,
        ]),
      ),
      ...(now.here.cell === 'lstm' ? [share(rows, i)] : []),
      h('p.quiet', 'Choose a unit in the list to see its computation.'),
    ];
  }
  // How many units have a gate that is nearly open or closed at this word.
  /** @type {(rows: StripRow[], i: number) => HTMLElement} */
  function share(rows, i) {
    const gates = rows.filter(row => row.gate);
    return h(
      'div',
      h('h3', 'Units below .1 and above .9'),
      sumTable(
        gates.map(row => {
          const all = now.data.byPoint[row.point][i];
          return [
            `${row.name} gate`,
            `${all.filter(v => v > 0.9).length} open`,
            `${all.filter(v => v < 0.1).length} shut`,
          ];
        }),
      ),
    );
  }
  /** @type {(i: number, k: number) => Promise<Content[]>} */
  async function steps(i, k) {
    const states = now.here.cell === 'lstm' ? ['cell', 'hidden'] : ['hidden'];
    const opened = await Promise.all(
      states.map(point => api.terms(run.run, addressOf(`${now.here.scope}.${point}`, [i, k], [i, k]))),
    );
    return opened.map((one, p) => [p ? h('hr.rule') : null, termsPanel(run, one)]);
  }

  await draw();
  highlight.onActiveKeys(signal, about, () => work().catch(() => {}));
  onKeys(signal, event => {
    if (event.defaultPrevented) return;
    /** @type {(v: number, n: number) => number} */
    const round = (v, n) => (v + n) % n;
    const units = now.order.map(each => each.unit);
    /** @type {(by: number) => Promise<void>} */
    const unitBy = by =>
      change({
        unit: units[
          at.unit === null ? (by > 0 ? 0 : units.length - 1) : round(units.indexOf(at.unit) + by, units.length)
        ],
      });
    if (event.key === ']') unitBy(1);
    else if (event.key === '[') unitBy(-1);
    else if (event.key === 'o') openWhatIfWithout(model, `${now.here.scope}.hidden`);
    else if (event.key === 'Backspace') {
      event.preventDefault();
      go('flow', { at: `${now.here.scope}.hidden`, i: null });
    } else if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
      event.preventDefault();
      change({ scope: round(at.scope + (event.key === 'ArrowDown' ? 1 : -1), scopes.length), unit: null });
    } else if (event.key === 'ArrowLeft' || event.key === 'ArrowRight') {
      const { row } = highlight.cellOfKeys(highlight.state.pins, now.keys, []);
      const to = row === null ? 0 : row + (event.key === 'ArrowRight' ? 1 : -1);
      if (to >= 0 && to < now.words.length && to !== row) highlight.pin([now.keys[to]]);
    }
  });
}

// ---- the layers
/** @type {(points: Points) => RecurrentScope[]} */
function scopesOf(points) {
  return [...points.keys()]
    .filter(name => /\.(lstm|gru|rnn)\.hidden$/.test(name))
    .map(name => {
      const scope = name.slice(0, -'.hidden'.length);
      const parts = scope.split('.');
      const cell = CELLS.find(each => each === parts.at(-1)) ?? 'rnn';
      const side = parts.includes('decoder') ? 'decoder' : 'encoder';
      const number = Number(parts[parts.lastIndexOf('layers') + 1]);
      const backward = parts.includes('backward');
      const both = backward || parts.includes('forward');
      const coder = side === 'decoder' ? 'Decoder' : 'Encoder';
      return {
        scope,
        cell,
        side,
        backward,
        layer: scope.replace(/\.(forward|backward)\./, '.'),
        name: `${coder} ${number}`,
        note: both ? (backward ? '← backward' : 'forward →') : '',
        full: `${coder} layer ${number}${both ? (backward ? ', backward ←' : ', forward →') : ''}`,
      };
    });
}
/** @type {(params: URLSearchParams, scopes: RecurrentScope[]) => UnitChoice} */
function startAt(params, scopes) {
  const named = scopes.findIndex(
    ({ scope }) => params.get('at')?.startsWith(`${scope}.`) || params.get('at') === scope,
  );
  return {
    scope: Math.max(0, named),
    unit: /^\d+$/.test(params.get('unit') ?? '') ? Number(params.get('unit')) : null,
  };
}
/** @type {(run: Run, points: Points, where: RecurrentScope) => Promise<RecurrentValues>} */
async function load(run, points, { scope, cell }) {
  const wanted = ROWS[cell].filter(([point]) => points.has(`${scope}.${point}`));
  const [words, units] = pointAt(points, `${scope}.hidden`).shape;
  const coarse = words * units > EXACT;
  const frames = await api.tensors(
    run.run,
    wanted.map(([point]) => `${scope}.${point}`),
    { as: coarse ? (words * units > 2 ** 18 ? 'u8' : 'f16') : 'f32' },
  );
  return {
    words,
    units,
    coarse,
    rows: wanted,
    byPoint: Object.fromEntries(wanted.map(([point], k) => [point, frames[k].table()])),
  };
}
/** @type {(run: Run, where: RecurrentScope, data: RecurrentValues, k: number) => Promise<Record<string, number[]>>} */
async function ownValues(run, { scope }, data, k) {
  // one unit, in full precision
  if (!data.coarse)
    return Object.fromEntries(data.rows.map(([point]) => [point, data.byPoint[point].map(row => row[k])]));
  const frames = await api.tensors(
    run.run,
    data.rows.map(([point]) => `${scope}.${point}`),
    { as: 'f32', index: `*,${k}` },
  );
  return Object.fromEntries(data.rows.map(([point], p) => [point, frames[p].row()]));
}
/** @type {(data: RecurrentValues, k: number | null, own: Record<string, number[]> | null) => StripRow[]} */
function rowsOf(data, k, own) {
  return data.rows.map(([point, name, letter]) => {
    const gate = point.endsWith('_gate');
    const values =
      k !== null && own
        ? own[point]
        : data.byPoint[point].map(row =>
            gate
              ? row.reduce((a, b) => a + b, 0) / row.length
              : Math.sqrt(row.reduce((a, b) => a + b * b, 0) / row.length),
          );
    const most = Math.max(1e-6, ...values.map(Math.abs));
    return {
      point,
      name,
      letter,
      gate,
      values,
      scale: gate ? UNIT_SCALE : { kind: k === null ? 'seq' : 'div', max: most },
    };
  });
}
/** @type {(table: number[][]) => { unit: number; change: number }[]} */
const byChange = table =>
  range(table[0].length)
    .map(k => ({
      unit: k,
      change: table.reduce((sum, row, i) => (i ? sum + Math.abs(row[k] - table[i - 1][k]) : sum), 0),
    }))
    .sort((a, b) => b.change - a.change);
/** @type {(table: number[][], k: number) => HTMLCanvasElement} */
function mini(table, k) {
  const { el, ctx } = canvas(64, 8);
  const values = table.map(row => row[k]);
  const most = Math.max(1e-6, ...values.map(Math.abs));
  values.forEach((v, i) => {
    ctx.fillStyle = cssColour(v, { kind: 'div', max: most });
    ctx.fillRect((64 * i) / values.length, 0, 64 / values.length, 8);
  });
  return el;
}
