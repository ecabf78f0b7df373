// Activation patching as a map of tokens and depths. A click puts one value of the original run into the changed one;
// "Trace all" tries every cell and shows how much of the answer each recovers.
import { choice, panelHead, select } from './controls.js';
import { fill, h, unit } from '../dom.js';
import { fixed, signed } from '../ink.js';
import * as api from '../api.js';
import { copy, readoutDefault, wordElement } from '../readout.js';
import * as highlight from '../highlight.js';
import { replaceAddress, oneOf, anyValue } from '../route.js';
import { sumTable } from './table.js';
import { differenceReading, differenceMap, firstDifference } from './difference_map.js';
import { keepFocus } from '../keyboard.js';

const WINDOW = 64; // how many tokens of a long text are traced, around the first that differs
const BEFORE = 8;
const MAPS = [
  { key: false, text: 'moved' },
  { key: true, text: 'recovered' },
];
/** @type {Map<string, Map<string, number[]>>} */
const recoveries = new Map(); // runs and answer -> point -> how much each token recovers; runs never change
/** @type {(values: number[]) => number} */
const firstLargest = values => values.indexOf(Math.max(...values));
/** @type {(value: number) => string} */
const percent = value => `${fixed(100 * value, 0)} %`;
/** @type {(text: string) => string} */
const shown = text => (text.length > 24 ? `${text.slice(0, 23)}…` : text);

// In a link: cell=POINT@3, map=recovered, part=attention, answer=6.17.5
/** @type {Record<string, Check>} */
export const patchInLink = {
  cell: (value, { run }) =>
    !run || run.points.some(point => point.at === value.split('@')[0]) ? '' : 'this run has no such point',
  map: oneOf('recovered'),
  part: oneOf('stream', 'attention', 'feed-forward', 'cell'),
  answer: anyValue,
};
/** @type {(params: URLSearchParams) => PatchState} */
export function patchOf(params) {
  const [at, token] = (params.get('cell') ?? '').split('@');
  const answer = (params.get('answer') ?? '').split('.');
  return {
    cell: at && /^\d+$/.test(token ?? '') ? { at, token: Number(token) } : null,
    recovered: params.get('map') === 'recovered',
    part: params.get('part') ?? 'stream',
    answer: answer.every(each => /^\d*$/.test(each)) ? answer : [],
  };
}
// found: the difference of the two runs. state: from patchOf, with the side; it is changed here.
/** @type {(o: PatchOptions) => PatchMap} */
export function patchmap({ run, other, found, state }) {
  let rows = rowsOf();
  /** @type {Patching | null} */
  let outline = null;
  let tracing = false;
  let refused = '';
  const head = h('div.ripplehead');
  const asks = h('div.measured');
  const box = h('div.ripplebox');
  const el = h('div.patchmap', head, asks, box);
  const card = h('div.patchcard', { hidden: true, 'aria-live': 'polite' });
  const left = () => !el.isConnected;
  const measure = () => {
    const [position, output, against] = state.answer;
    return { clean: run.run, corrupted: other.run, ...given({ position, output, against }) };
  };
  /** @returns {Map<string, number[]>} */
  function rowsOf() {
    const key = [run.run, other.run, ...state.answer].join();
    const known = recoveries.get(key) ?? new Map();
    recoveries.set(key, known);
    return known;
  }
  /** @type {(query: Record<string, unknown>) => Record<string, unknown>} */
  const given = query => Object.fromEntries(Object.entries(query).filter(([, value]) => value));

  // ---- what can be chosen
  /** @type {() => RippleTable[]} */
  const tables = () => (state.recovered ? traced() : (found.ripple ?? []));
  const traced = () => {
    const all = (outline?.tables ?? []).filter(each => each.part === state.part);
    return all.map(each => {
      const [from, to] = windowOf(each);
      const values = each.points.map(at => rows.get(at) ?? []);
      return { ...each, words: each.words.slice(from, to), from, values };
    });
  };
  const current = () => {
    const all = tables();
    return (
      all.find(each => each.side === state.side) ??
      (state.recovered ? all[0] : (all.find(each => firstDifference(each) >= 0) ?? all.at(-1)))
    );
  };
  /** @type {(changes: Partial<PatchState>, address: Changes) => void} */
  function change(changes, address) {
    Object.assign(state, changes);
    replaceAddress(address);
    draw();
  }
  /** @type {(table: RippleTable | undefined) => void} */
  function drawHead(table) {
    const parts = [...new Set((outline?.tables ?? []).map(each => each.part))].map(key => ({ key, text: key }));
    /** @type {(each: RippleTable) => string} */
    const label = each => `${each.side}${!state.recovered && firstDifference(each) < 0 ? ' (same)' : ''}`;
    const sides = tables().map(each => ({ key: each.side, text: label(each) }));
    const points = tables().flatMap(each => each.points);
    const done = points.filter(at => rows.has(at)).length;
    head.replaceChildren(
      h('h3', state.recovered ? 'What recovers the answer' : 'Where the difference starts'),
      h(
        'div.patchtools',
        choice('Map', MAPS, state.recovered, recovered =>
          change({ recovered }, { map: recovered ? 'recovered' : null }),
        ),
        state.recovered && parts.length > 1
          ? choice('Part', parts, state.part, part => change({ part }, { part: part === 'stream' ? null : part }))
          : '',
        sides.length > 1 ? choice('Side', sides, table?.side ?? '', side => change({ side }, { side })) : '',
        state.recovered && outline
          ? h(
              'button.edit',
              { onclick: traceAll, disabled: !tracing && done === points.length },
              tracing
                ? `Stop (${done} of ${points.length})`
                : done === points.length
                  ? 'All traced'
                  : done
                    ? 'Continue'
                    : 'Trace all',
            )
          : '',
      ),
      tracing ? h('progress', { max: points.length, value: done, 'aria-label': 'points traced' }) : '',
    );
  }
  // The measured output: its position, the output, and what it is compared with.
  function drawAsks() {
    asks.hidden = !(outline && (state.recovered || state.cell));
    if (asks.hidden || !outline) return;
    /** @type {(answer: unknown[]) => void} */
    const set = answer => {
      state.answer = answer.map(each => String(each ?? ''));
      rows = rowsOf();
      replaceAddress({ answer: state.answer.join('.') });
      load();
    };
    const { position, output, against } = outline;
    const choices = outline.choices.map(({ id, word: text }) => ({ key: id, text: shown(text) }));
    const nothing = { key: '', text: 'nothing' };
    const positions = outline.positions.map(({ n, clean, corrupted }) => ({
      key: n,
      text: shown(`${n + 1}: ${clean}${clean === corrupted ? '' : ` | ${corrupted}`}`),
    }));
    fill(
      asks,
      'logit of ',
      select('answer', choices, output, id => set([position, id, against])),
      ' over ',
      select('compared with', [nothing, ...choices], against, id => set([position, output, id])),
      positions.length > 1 &&
        h(
          'span',
          ' at ',
          select('position', positions, position, n => set([n])),
        ),
    );
  }

  // ---- the map
  /** @type {(table: PatchTable) => [number, number]} */
  function windowOf({ words }) {
    if (words.length <= WINDOW) return [0, words.length];
    const differs = words.findIndex(each => each.includes(' | '));
    const from = Math.max(0, Math.min(words.length - WINDOW, differs - BEFORE));
    return [from, from + WINDOW];
  }
  function draw() {
    const back = keepFocus(el);
    highlight.forget(el);
    const table = current();
    drawHead(table);
    drawAsks();
    if (!table) {
      box.replaceChildren(h('p.tail', { role: 'status' }, refused || 'comparing both runs …'));
      return;
    }
    const u = unit();
    const side = table.side === 'encoder' ? 'src' : 'tgt';
    const from = table.from ?? 0;
    const largest = Math.max(1e-6, ...tables().flatMap(each => each.values.flat().map(v => v ?? 0)));
    const scale = state.recovered ? { kind: 'div', max: 1 } : { kind: 'seq', max: largest };
    /** @type {Step2D | null} */
    const chosen =
      state.cell && table.points.includes(state.cell.at)
        ? [state.cell.token - from, table.points.indexOf(state.cell.at)]
        : null;
    /** @type {(r: number, c: number) => Reading} */
    const recovers = (r, c) => ({
      at: [
        wordElement(table.words[r]),
        rows.has(table.points[c]) ? `: recovers ${percent(table.values[c][r] ?? NaN)}` : ': not measured yet',
      ],
      path: `${table.points[c]}, token ${from + r}: (patched − corrupted) ÷ (clean − corrupted)`,
      value: rows.has(table.points[c]) ? (table.values[c][r] ?? 0) : undefined,
      scale,
    });
    box.replaceChildren(
      differenceMap(table, {
        width: box.clientWidth - 4 * u,
        height: box.clientHeight - (box.clientWidth < 420 * u ? 46 : 28) * u, // a note of two lines, or of one
        scale,
        keyOf: r => `${side}:${from + r}`,
        take: (r, c) => take(table.points[c], from + r),
        chosen,
        ...(state.recovered
          ? {
              told: recovers,
              title: `What each token recovers, ${table.side}`,
              note: 'The fraction of the difference recovered by the vector from the unchanged run.',
            }
          : {}),
      }),
      h(
        'p.tail',
        state.recovered &&
          table.words.length < (outline?.tables.find(each => each.side === table.side)?.words.length ?? 0)
          ? `Tokens ${from + 1} to ${from + table.words.length}. `
          : '',
        refused
          ? `Values cannot be patched. ${refused}`
          : 'Click a cell to put its original value into the changed run.',
      ),
    );
    const start = firstDifference(table);
    if (state.recovered) readoutDefault(recovers(...(chosen ?? [0, 0])));
    else
      readoutDefault(
        start < 0
          ? { at: [`${table.side}: no difference`], path: `first differs at ${found.first ?? 'nothing'}`, scale }
          : differenceReading(table, firstLargest(table.values[start].map(v => v ?? 0)), start, scale),
      );
    back();
    highlight.paint();
  }
  async function traceAll() {
    tracing = !tracing;
    draw();
    while (tracing && !left()) {
      const table = tables().find(each => each.points.some(point => !rows.has(point)));
      if (!table) break;
      const at = table.points.find(each => !rows.has(each)) ?? '';
      const from = table.from ?? 0;
      const tokens = `${from}:${from + table.words.length}`;
      const asked = rows;
      try {
        asked.set(at, (await api.patchRow({ ...measure(), at, tokens })).recovered);
      } catch (error) {
        refuse(api.refusal(error));
        break;
      }
      if (!left()) draw();
    }
    tracing = false;
    if (!left()) draw();
  }

  // ---- one cell
  /** @type {(at: string, token: number) => void} */
  function take(at, token) {
    const same = state.cell?.at === at && state.cell.token === token;
    state.cell = same ? null : { at, token };
    replaceAddress({ cell: same ? null : `${at}@${token}` });
    draw();
    patch();
  }
  async function patch() {
    const wanted = state.cell;
    card.hidden = !wanted;
    if (!wanted || refused) {
      if (refused) refuse(refused);
      return;
    }
    let cell;
    try {
      cell = await api.patchCell({ ...measure(), at: wanted.at, token: wanted.token });
    } catch (error) {
      refuse(api.refusal(error));
      return;
    }
    if (wanted === state.cell && !left()) drawCard(cell);
  }
  /** @type {(cell: PatchCell) => void} */
  function drawCard(cell) {
    /** @type {(PatchTable | Ripple)[]} */
    const known = outline?.tables ?? found.ripple ?? [];
    const table = known.find(each => each.points.includes(cell.at));
    const depth = table?.depths[table.points.indexOf(cell.at)] ?? cell.at;
    const answer = cell.words.join(' over ');
    const before = found.says[1];
    card.replaceChildren(
      panelHead(
        `Patched: ${table?.side ?? ''}, ${depth}`,
        h('h2.wraps.word', table?.words[cell.token] ?? `token ${cell.token}`),
        h('button.edit.restore', { onclick: () => take(cell.at, cell.token) }, 'Undo'),
      ),
      sumTable([
        [`logit of ${answer}`, ''],
        ['as trained (clean)', signed(cell.clean)],
        ['changed (corrupted)', signed(cell.corrupted)],
        ['patched', signed(cell.value)],
        ['recovered', percent(cell.recovered), '', true],
      ]),
      h('p.tail', 'With this value, the changed run outputs:'),
      h(
        'p.word.says',
        cell.says.map((each, i) => [
          h('span', { class: each.word === before[i]?.word ? null : 'new' }, each.word),
          ' ',
        ]),
      ),
      cell.text === null ? '' : h('p.tail', 'Greedy search: ', h('span.word.freetext', cell.text)),
      h('button.python', { title: cell.python, onclick: () => copy(cell.python) }, 'Copy Python'),
    );
  }
  /** @type {(message: string) => void} */
  function refuse(message) {
    refused = message;
    card.hidden = !state.cell;
    card.replaceChildren(h('p.quiet', { role: 'status' }, message));
  }
  async function load() {
    try {
      outline = await api.patching(measure());
      refused = '';
    } catch (error) {
      refuse(api.refusal(error));
    }
    if (left()) return;
    if (state.recovered || state.cell || refused) draw();
    patch();
  }
  return { el, card, draw, load };
}
