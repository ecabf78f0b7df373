// What-if: switch parts off or swap a word; see the new output, the difference, and where it starts.
import { choice, panelHead } from '../parts/controls.js';
import { entryAt, entryOf } from '../anatomy.js';
import { fill, formula, h, lastOf, mean, released } from '../dom.js';
import { counted, num } from '../ink.js';
import * as api from '../api.js';
import * as highlight from '../highlight.js';
import { readoutDefault } from '../readout.js';
import { replaceAddress, oneOf, anyValue, splitList } from '../route.js';
import { KINDS, headToggles, isChange, switchButton, deltaText, nameAndPlace } from '../parts/switch.js';
import { patchmap, patchOf, patchInLink } from '../parts/patchmap.js';
import { changeBars } from '../parts/bars.js';
import { pairs } from '../parts/pairs.js';
import { sumTable } from '../parts/table.js';
import { latest } from '../api.js';
import { numbersOf } from '../answer.js';
import { changes, changesOf } from '../parts/changes.js';
import { keepFocus, onKeys } from '../keyboard.js';
import { crossFade } from '../motion.js';

const ORDERS = [
  { key: false, text: 'by part' },
  { key: true, text: 'by effect' },
];
/** @type {Record<string, string>} */
const DISTRIBUTIONS = { label: 'labels', tags: 'tags', masked_tokens: 'tokens' };
const SHOWN = 8; // parts with the largest effects
const QUICK = 5e6; // parameters of a model whose switches are measured at once
const FEW = 300; // and their number
const SHORT = 64; // tokens of a text for which they are
const FULL = 0.2; // minimum full scale, so that small effects are not drawn as large ones
const measured = new Map(); // run and switch -> Δ; a run never changes
// Words and punctuation; a mask such as [MASK] is one word.
/** @type {(text: string, mask?: string) => RegExpExecArray[]} */
const pieces = (text, mask) => {
  const whole = mask ? `${mask.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&')}|` : '';
  return [...text.matchAll(new RegExp(`${whole}[\\p{L}\\p{N}_'’-]+|[^\\s\\p{L}\\p{N}]`, 'gu'))];
};
/** @type {(text: string) => RegExpExecArray[]} */
const numbers = text => [...text.matchAll(/[^\s,]+/g)];

/** @type {View} */
export const whatif = {
  name: 'What-if',
  about: {
    shows: 'How the answer changes if you switch a part of the model off.',
    read:
      'Δ beside a part is how much the outputs change without it, from 0 to 1. The map shows where the change ' +
      'begins: by token from left to right, by layer from top to bottom.',
    terms: ['layer', 'head', 'attention', 'token'],
  },
  draw: drawView,
  walksTokens: true,
  keys: [
    ['o', 'toggle the focused switch'],
    ['Backspace', 'undo all changes'],
  ],
  linkParts: {
    off: (value, { model }) => {
      const unknown = splitList(value).filter(
        key => !model.switches.some(each => each.key === key.replace(/@(1?\d?\d|200)$/, '')),
      );
      return unknown.length ? `this model has no switch ${unknown.join(', ')}` : '';
    },
    sort: oneOf('effect'),
    swap: anyValue,
    instead: anyValue,
    named: anyValue,
    side: anyValue,
    ...patchInLink,
  },
};

/** @type {(stage: HTMLElement, shown: Shown) => Promise<void>} */
async function drawView(stage, { model, run, catalogue, params, signal }) {
  const known = new Map(model.switches.map(each => [each.key, each]));
  const points = new Map(run.points.map(point => [point.at, point]));
  const state = {
    ...changesOf(params.get('off') ?? '', known),
    swap: swapOf(params.get('swap')),
    name: params.get('named') ?? '',
    instead: params.get('instead'), // a different text, replacing the whole sentence
    patch: { ...patchOf(params), side: params.get('side') },
    sorted: params.get('sort') === 'effect',
    measuring: false,
    turn: 0,
  };
  const list = h('div.switches');
  const bar = h('div.measure');
  const mid = h('div');
  const changeList = h('div.changes', { hidden: true });
  const panel = h('aside.panel', { tabindex: 0, 'aria-label': 'What has changed' });
  stage.append(
    h(
      'div.columns.wi',
      h(
        'div',
        model.switches.length ? bar : null,
        list,
        changeList, // below the switches, which stay where they are
        h(
          'p.quiet.why',
          model.outputs === 'values'
            ? 'Δ is the mean absolute difference of the outputs.'
            : `Δ is the mean total variation between the two distributions of ${
                DISTRIBUTIONS[model.outputs] ?? 'next tokens'
              }: 0 is identical, 1 is disjoint.`,
        ),
      ),
      mid,
      panel,
    ),
  );
  /** @type {PatchMap | null} */
  let patches = null; // the map below the answers, and its card
  const numeric = run.tokens.features.length > 0;
  const words = numeric ? numbers(run.text) : pieces(run.text, model.mask);
  /** @type {(each: Switch) => number | undefined} */
  const delta = each => measured.get(`${run.run}|${each.key}`);
  const most = () => (model.outputs === 'values' ? Math.max(1e-9, ...model.switches.map(each => delta(each) ?? 0)) : 1);
  /** @type {(each: Switch) => SwitchLook & { onclick: () => unknown }} */
  const options = each => ({
    off: state.off.has(each.key),
    delta: delta(each),
    most: most(),
    onclick: () => toggle(each),
  });

  // ---- the switches
  function drawList() {
    drawChanges();
    highlight.forget(list);
    const at = list.scrollTop;
    const back = keepFocus(/** @type {Element} */ (list.parentNode));
    const groups = Object.keys(KINDS).filter(kind => model.switches.some(each => each.kind === kind));
    if (state.sorted)
      list.replaceChildren(
        ...[...model.switches]
          .sort((a, b) => (delta(b) ?? -1) - (delta(a) ?? -1))
          .map(each => switchButton(each, options(each))),
      );
    else
      list.replaceChildren(
        ...groups.flatMap(kind => [
          h('h3', KINDS[kind]),
          ...(kind === 'heads'
            ? headParts()
            : model.switches.filter(each => each.kind === kind).map(each => switchButton(each, options(each)))),
        ]),
      );
    list.scrollTop = at;
    highlight.paint();
    const done = model.switches.filter(each => typeof delta(each) === 'number').length;
    bar.replaceChildren(
      h(
        'button.edit',
        { onclick: measureAll, disabled: !state.measuring && done === model.switches.length },
        state.measuring
          ? `Stop ${done}/${model.switches.length}`
          : done === model.switches.length
            ? 'All measured'
            : 'Measure all',
      ),
      choice('Order', ORDERS, state.sorted, sorted => {
        state.sorted = sorted;
        replaceAddress({ sort: sorted ? 'effect' : null });
        drawList();
        list.scrollTop = 0;
      }),
    );
    back();
  }
  function headParts() {
    const heads = model.switches.filter(each => each.kind === 'heads');
    const largest = Math.max(FULL, ...heads.map(each => delta(each) ?? 0));
    return [...new Set(heads.map(each => each.part))]
      .map(part =>
        headToggles(
          part,
          heads.filter(each => each.part === part),
          { off: each => state.off.has(each.key), delta, most: largest, onclick: toggle },
        ),
      )
      .concat(
        heads.some(each => typeof delta(each) === 'number' && !state.off.has(each.key))
          ? h('p.tail', `Colour shows Δ; full colour is ${deltaText(largest)}.`)
          : [],
      );
  }
  async function measureAll() {
    state.measuring = !state.measuring;
    drawList();
    for (const each of model.switches) {
      if (!state.measuring) break;
      if (typeof delta(each) === 'number') continue;
      try {
        keep(each.key, await api.effect(run.run, [each.key]));
      } catch (error) {
        api.refusal(error);
        state.measuring = false;
      }
      await released(list);
      drawList();
      if (!isChanged()) drawTrained();
    }
    state.measuring = false;
    drawList();
  }
  const isChanged = () => state.off.size > 0 || state.swap !== null || state.instead !== null;
  /** @type {(key: string, found: Effect | Difference) => void} */
  function keep(key, found) {
    measured.set(
      `${run.run}|${key}`,
      found.gap ?? (found.variation ? mean(found.variation.map(each => each ?? 1)) : undefined),
    );
  } // no number: the two runs have no positions in common
  /** @type {(each: Switch) => void} */
  function toggle(each) {
    state.off.has(each.key) ? state.off.delete(each.key) : state.off.add(each.key);
    state.strength.delete(each.key);
    replaceAddress({ off: offKeys().join(',') || null });
    drawList();
    refresh();
  }
  const switchedOff = () => [...state.off].flatMap(key => known.get(key) ?? []);
  // The changes as the server and links write them: KEY@50 is a head at half its strength.
  const offKeys = () =>
    [...state.off].map(key => (state.strength.get(key) ? `${key}@${state.strength.get(key)}` : key));
  /** @type {(each: Switch) => string} */
  const reduced = each => (state.strength.get(each.key) ? `at ${state.strength.get(each.key)} %` : 'off');
  /** @type {(key: string, percent: number) => void} */
  function weaken(key, percent) {
    state.strength.set(key, percent);
    replaceAddress({ off: offKeys().join(',') });
    refreshSoon();
  }
  const refreshSoon = latest(() => refresh());
  function drawChanges() {
    const back = keepFocus(changeList);
    changeList.hidden = state.off.size === 0;
    changeList.replaceChildren(
      changes(switchedOff(), state.strength, { toggle, weaken, run, name: state.name, rename }),
    );
    back();
  }
  /** @type {(name: string) => void} */
  function rename(name) {
    state.name = name;
    replaceAddress({ named: name.trim() || null });
  }
  function restore() {
    state.name = '';
    state.off.clear();
    state.strength.clear();
    state.swap = null;
    state.instead = null;
    replaceAddress({ off: null, swap: null, instead: null, named: null });
    drawList();
    refresh();
  }
  /** @type {(at: number, word: string) => void} */
  function swap(at, word) {
    state.swap = word.trim() && word.trim() !== words[at][0] ? [at, word.trim()] : null;
    state.instead = null;
    replaceAddress({ swap: state.swap ? state.swap.join(':') : null, instead: null });
    refresh();
  }
  /** @type {(text: string) => void} */
  function replaceText(text) {
    state.swap = null;
    state.instead = text.trim() && text.trim() !== run.text ? text.trim() : null;
    replaceAddress({ swap: null, instead: state.instead });
    refresh();
  }

  // ---- the two runs
  function changedText() {
    if (state.instead) return state.instead;
    if (!state.swap || !words[state.swap[0]]) return run.text;
    const [at, word] = state.swap;
    const old = words[at];
    return run.text.slice(0, old.index) + word + run.text.slice(old.index + old[0].length);
  }
  async function refresh() {
    const turn = ++state.turn;
    /** @type {Question} */
    const asked = { m: model.m, text: changedText() };
    if (run.target !== null) asked.target = run.target;
    if (state.off.size) asked.off = offKeys();
    const changed = isChanged();
    let other = run;
    let found;
    try {
      other = changed ? await api.run(asked) : run;
      found = await api.diff(run.run, other.run);
    } catch (error) {
      const why = api.refusal(error);
      if (turn === state.turn)
        mid.replaceChildren(
          ...sentenceLine(),
          h('div.told', { role: 'alert' }, h('h2', 'This cannot be shown'), h('p', why)),
        );
      return;
    }
    if (turn !== state.turn) return;
    if (state.off.size === 1 && !state.swap && !state.instead && !state.strength.get([...state.off][0])) {
      keep([...state.off][0], found);
      drawList();
    }
    drawMid(found, changed, other);
    await drawPanel(found, changed, other, turn);
    highlight.paint();
  }
  function sentenceLine() {
    const line = h(
      'div.swaps',
      words.map((each, i) => {
        const now = state.swap?.[0] === i ? state.swap[1] : null;
        return h(
          'button',
          {
            class: now ? 'swapped' : null,
            title: numeric ? 'Change this number' : 'Swap this word',
            'aria-label': `swap ${each[0]}`,
            onclick: event => type(event.target.closest('button'), i, now ?? each[0]),
          },
          now ? [h('s', each[0]), ' ', now] : each[0],
        );
      }),
      run.tokens.features.length ? '' : whole(),
    );
    return [
      h(
        'h3',
        numeric ? 'Click a number to change it' : 'Click a word to swap it',
        model.outputs === 'target_tokens' ? h('span.of', '; both runs read the same translation') : '',
      ),
      line,
    ];
  }
  const whole = () =>
    h(
      'button',
      {
        class: `instead${state.instead ? ' swapped' : ''}`,
        title: 'Compare with a different sentence with the same number of tokens',
        onclick: event =>
          typed(event.target.closest('button'), 'another sentence', state.instead ?? run.text, replaceText),
      },
      state.instead ? ['→ ', state.instead] : '… or use a different sentence',
    );
  /** @type {(button: HTMLElement | null, at: number, word: string) => void} */
  const type = (button, at, word) => typed(button, `instead of ${words[at][0]}`, word, text => swap(at, text));
  /** @type {(button: HTMLElement | null, name: string, value: string, use: (text: string) => void) => void} */
  function typed(button, name, value, use) {
    const field = h('input', {
      type: 'text',
      value,
      'aria-label': name,
      maxlength: Math.max(60, 4 * value.length),
      size: Math.min(60, Math.max(4, value.length)),
    });
    let done = false;
    /** @type {(take: boolean, back?: boolean) => void} */
    const end = (take, back = true) => {
      if (done) return;
      done = true;
      field.replaceWith(button ?? '');
      if (back) button?.focus();
      if (take) use(field.value);
    };
    field.addEventListener('keydown', event => {
      if (event.key !== 'Enter' && event.key !== 'Escape') return;
      event.preventDefault();
      end(event.key === 'Enter');
    });
    field.addEventListener('blur', () => end(false, false));
    button?.replaceWith(field);
    field.focus();
    field.select();
  }
  /** @type {(found: Difference, changed: boolean, other: Run) => void} */
  function drawMid(found, changed, other) {
    const back = keepFocus(mid);
    const turned = crossFade(mid);
    fillMid(found, changed, other);
    back();
    turned();
  }
  // What the changed model generates; the rows above read the old translation.
  /** @type {(...runs: Run[]) => HTMLElement} */
  function freely(...runs) {
    const written = ['as trained', 'changed'].map(name => [h('dt', name), h('dd.word', '…')]);
    // with its final height, since the map below is drawn in what is left
    const line = h(
      'div.freely',
      h(
        'p.tail',
        'Above, both rows read the same translation (teacher forcing). With greedy search, the model writes:',
      ),
      h('dl', written),
    );
    Promise.all(runs.map(each => api.decode(each.run, { beam_size: 1 }))).then(
      found => {
        const texts = found.map(each => each.texts[0].text);
        written.forEach(([, text], i) => text.replaceChildren(texts[i] || '(nothing)'));
        written[1][1].classList.toggle('new', texts[1] !== texts[0]);
      },
      error => line.replaceChildren(h('p.tail', `Greedy search: ${error.message}`)),
    );
    return line;
  }
  /** @type {(found: Difference, changed: boolean, other: Run) => void} */
  function fillMid(found, changed, other) {
    const tagged = ['tags', 'masked_tokens'].includes(model.outputs); // an answer to each token that is read
    const reads = tagged ? run.tokens.source : model.outputs === 'next_tokens' ? run.tokens.target : null;
    const side = run.tokens.target.length ? 'tgt' : 'src';
    const forced = model.outputs === 'target_tokens'; // every word comes after the same translation
    mid.replaceChildren(
      ...sentenceLine(),
      pairs(found.says[0], changed ? found.says[1] : null, {
        reads,
        labels: ['as trained', 'changed', tagged ? 'word' : 'after'],
        keyOf: i => (found.says[0].length > 1 ? `${side}:${i}` : 'src:0'),
      }),
    );
    const more = model.outputs === 'values' ? numbersOf({ answer: found.answers[0] }).length - found.says[0].length : 0;
    if (more) mid.append(h('p.tail', `${more.toLocaleString('en')} more values are not shown.`));
    if (forced && changed) mid.append(freely(run, other));
    if (!changed) {
      mid.append(
        h(
          'p.quiet.hint',
          `Nothing is changed yet. ${model.switches.length ? 'Flip a switch, or ' : 'You can '}` +
            `${numeric ? 'change a number' : 'swap a word'}: differences between the two runs appear here.`,
        ),
      );
      readoutDefault({
        at: ['as trained'],
        path: `loss ${found.loss[0] === null ? 'unknown' : num(found.loss[0], 4)}`,
      });
      return;
    }
    if (model.outputs === 'values') {
      mid.append(h('p.quiet.hint', 'A row of numbers has no tokens to compare.'));
      readoutDefault({ at: ['changed'], path: found.first ? `first differs at ${found.first}` : 'no table of tokens' });
      return;
    }
    patches = patchmap({ run, other, found, state: state.patch });
    mid.append(patches.el);
    patches.draw();
    patches.load();
  }

  // ---- without changes: the parts with the largest effects
  function drawTrained() {
    const largest = model.switches
      .map(each => ({ each, effect: delta(each) ?? 0 }))
      .filter(({ effect }) => effect > 0)
      .sort((a, b) => b.effect - a.effect);
    panel.replaceChildren(
      h('header', h('h2', 'As trained')),
      h(
        'p.quiet',
        model.switches.length
          ? `${counted(model.switches.length, 'part')} can be switched off. ` +
              'Δ beside a part is how much the outputs change without it.'
          : 'This model has no parts that can be switched off.',
      ),
      ...(largest.length ? [h('h3', 'Largest effects')] : []),
      h(
        'ul.labels',
        largest
          .slice(0, SHOWN)
          .map(({ each, effect }) =>
            h('li', h('button', { onclick: () => toggle(each) }, each.name, h('span.n', ` Δ ${deltaText(effect)}`))),
          ),
      ),
    );
  }

  // ---- the formula with the part struck, and the answer that changed most
  /** @type {(found: Difference, changed: boolean, other: Run, turn: number) => Promise<void>} */
  async function drawPanel(found, changed, other, turn) {
    const chosen = switchedOff();
    /** @type {Content[]} */
    const head = [];
    const back = () => h('button.edit.restore', { title: 'Undo all changes (Backspace)', onclick: restore }, 'Restore');
    if (chosen.length === 1) {
      const { what, where } = nameAndPlace(chosen[0].name);
      head.push(
        panelHead(
          where || KINDS[chosen[0].kind],
          h('h2.wraps', isChange(chosen[0].name) ? what : `${what}: ${reduced(chosen[0])}`),
          back(),
        ),
        ...struck(chosen[0]),
      );
    } else if (chosen.length)
      head.push(
        h(
          'header.row',
          h(
            'h2',
            `${chosen.length} parts are ${chosen.some(each => state.strength.get(each.key)) ? 'changed' : 'off'}`,
          ),
          back(),
        ),
        h(
          'ul.offlist',
          chosen.map(each => h('li', state.strength.get(each.key) ? `${each.name}: ${reduced(each)}` : each.name)),
        ),
      );
    /** @type {(...text: Content[]) => void} */
    const line = (...text) => head.push(h('header.row', h('p', text), chosen.length ? '' : back()));
    if (state.swap) line('Swapped: ', h('s.word', words[state.swap[0]]?.[0] ?? ''), ' → ', h('b.word', state.swap[1]));
    if (state.instead) line('Different sentence: ', h('b.word', state.instead));
    if (!changed) return drawTrained();
    /** @type {Content[][]} */
    const rows = [];
    const v = found.variation?.map(each => each ?? 1);
    const differ = found.says[0].filter((each, i) => each.word !== found.says[1][i]?.word).length;
    if (v) {
      const worst = v.indexOf(Math.max(...v));
      const [a, b] = await Promise.all(
        [run, other].map(each => api.step(each.run, worst, { k: 60, positions: api.onlyPosition(worst) })),
      );
      if (turn !== state.turn) return;
      /** @type {(likely: OneStep, id: number) => number} */
      const shareOf = (likely, id) => likely.probabilities[likely.ids.indexOf(id)] ?? 0;
      const ids = [...new Set([...a.ids.slice(0, 6), ...b.ids.slice(0, 6)])]
        .map(id => ({
          word: a.words[a.ids.indexOf(id)] ?? b.words[b.ids.indexOf(id)],
          before: shareOf(a, id),
          now: shareOf(b, id),
        }))
        .sort((x, y) => Math.max(y.before, y.now) - Math.max(x.before, x.now))
        .slice(0, 5);
      const after = run.tokens.target.length
        ? run.tokens.target.slice(Math.max(0, worst - 5), worst + 1)
        : v.length > 1
          ? [run.tokens.source[worst]]
          : [];
      head.push(
        h('hr.rule'),
        h(
          'header',
          h(
            'div.kicker',
            v.length < 2
              ? 'The answer'
              : `Changed most: ${run.tokens.target.length ? `step ${worst + 1}, after` : `word ${worst + 1}`}`,
          ),
          after.length ? h('div.word', { style: 'font-size:var(--t3)' }, after.join(' ')) : '',
        ),
        changeBars(ids),
        h('p.tail', 'Outline: as trained. Filled: now.'),
      );
      if (v.length > 1)
        rows.push([model.outputs === 'tags' ? 'tags changed' : 'tokens changed', `${differ} of ${v.length}`]);
      rows.push([v.length > 1 ? 'mean Δ' : 'difference Δ', num(mean(v), 3), '', true]);
      if (v.length > 1) rows.push([`largest, at ${worst + 1}`, num(v[worst], 3)]);
    } else if (found.gap !== undefined) rows.push(['mean difference Δ', num(found.gap, 4), '', true]);
    if (found.loss[0] !== null)
      rows.push(['loss', `${num(found.loss[0], 3)} → ${found.loss[1] === null ? 'NaN' : num(found.loss[1], 3)}`]);
    fill(
      panel,
      patches?.card,
      head,
      h('hr.rule'),
      sumTable(rows),
      v ? h('p.tail', inWords(mean(v))) : '',
      found.first
        ? h(
            'p.tail',
            'first differs at ',
            h(
              'span.mono',
              found.first.split(/(?<=\.)/).map(part => [part, h('wbr')]),
            ),
          )
        : '',
    );
  }
  /** @type {(each: Switch) => HTMLElement[]} */
  function struck(each) {
    /** @type {(at: string, i: number) => boolean} */
    const alike = (at, i) =>
      each.points.findIndex((other, j) => entryOf(other) === entryOf(at) && each.sets[j] === each.sets[i]) === i;
    return each.points
      .map((at, i) => ({ at, i }))
      .filter(({ at, i }) => alike(at, i))
      .slice(0, 2)
      .map(({ at, i }) => {
        const told = entryAt(catalogue, points, at);
        const math = told?.formula ? formula(told.formula) : null;
        const symbol = told?.symbol ? formula(told.symbol, false) : entryOf(at);
        math?.classList.add('struck');
        math?.removeAttribute('display');
        const value = each.sets?.[i];
        const becomes =
          value === null || value === undefined
            ? each.kind === 'heads'
              ? [' of head ', String(each.head), ' = 0']
              : ' everywhere open'
            : ` = ${value}`;
        return h(
          'div.formula.small.strike',
          { title: told?.meaning },
          told?.formula !== told?.symbol && math ? [math, h('span.to', '→')] : '',
          h('div.becomes', symbol, becomes),
        );
      });
  }
  onKeys(signal, event => {
    if (event.key === 'o')
      /** @type {HTMLElement | null} */ (document.activeElement?.closest('[role="switch"]'))?.click();
    if (event.key !== 'Backspace') return;
    event.preventDefault();
    restore();
  });
  drawList();
  await refresh();
  const { source, target } = run.tokens;
  const isQuick = model.parameters < QUICK && model.switches.length <= FEW && source.length + target.length < SHORT;
  if (isQuick) measureAll();
}
// Δ in plain words.
/** @type {[below: number, words: string][]} */
const WORDS = [
  [1e-6, 'nothing changed'],
  [0.005, 'practically nothing changed'],
  [0.05, 'the probabilities changed slightly'],
  [0.3, 'the probabilities changed clearly'],
  [Infinity, 'the probabilities changed strongly'],
];
/** @type {(delta: number) => string} */
const inWords = delta => `Δ ${num(delta, 3)}: ${(WORDS.find(([below]) => delta < below) ?? lastOf(WORDS))[1]}.`;
/** @type {(text: string | null) => [number, string] | null} */
function swapOf(text) {
  // 2:cat
  const found = /^(\d+):(.+)$/.exec(text ?? '');
  return found ? [Number(found[1]), found[2]] : null;
}
