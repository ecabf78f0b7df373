// Decode: the tree of the search, the likeliest words of a step, and what follows when another word is forced.
import { choice, panelHead } from '../parts/controls.js';
import { h, icon, nearestIndex } from '../dom.js';
import { UNIT_SCALE, counted, cssColour, num } from '../ink.js';
import * as api from '../api.js';
import * as highlight from '../highlight.js';
import { readout, readoutDefault, wordElement } from '../readout.js';
import { address, go, replaceAddress, oneOf, anyValue, indexBelow } from '../route.js';
import { modes, sample, samplingLinkParts } from './sample.js';
import { tree, pathTo, foldedSteps } from '../parts/tree.js';
import { tokenBars, attentionBars, probabilityText } from '../parts/bars.js';
import { changedWords, joinWords } from '../parts/pairs.js';
import { sumTable, tableWithHead } from '../parts/table.js';
import { withScrollButtons } from '../parts/scrolling.js';
import { keepFocus, arrowNavigation, onKeys } from '../keyboard.js';

const SIZES = [1, 2, 3, 4, 6, 8].map(n => ({
  key: n,
  text: String(n),
  more: { title: n === 1 ? 'greedy' : `beam size ${n}` },
}));
/** @type {(n: number) => void} */
const searchWith = n => go('decode', { beam_size: n === 4 ? null : n, node: null, step: null });
const PACE = 650;
const MANY = 12; // steps that fit beside one another
const LIKELY = 6; // tokens of a step
const FIRST = 8; // tokens that a large model shows first
const LARGE = 2e7; // parameters
const LONG = 256; // tokens of a text

/** @type {View} */
export const decode = {
  name: 'Decode',
  about: {
    shows: 'How the model chooses its text, token by token.',
    read:
      'Every step shows the likeliest tokens and their probabilities. Force another token to see how the text ' +
      'would continue.',
    terms: ['token', 'logit', 'beam', '<s>', '</s>'],
  },
  draw: drawView,
  lacks: model => (model.generates ? '' : 'This model does not generate text'),
  busy: () => 'Searching for the best text …',
  keys: [
    ['← →', 'previous or next step'],
    ['↑ ↓', 'move up or down in the list of tokens'],
    ['f', 'force the token'],
    ['Space', 'play, pause'],
    ['Backspace', 'let the model choose again'],
  ],
  linkParts: {
    beam_size: value => (/^[1-8]$/.test(value) ? '' : '1 to 8'),
    node: indexBelow('nodes'),
    force: anyValue,
    mode: oneOf('sample'),
    ...samplingLinkParts,
  },
};

/** @type {(stage: HTMLElement, shown: Shown) => Promise<void>} */
async function drawView(stage, shown) {
  const { model, run, params, signal } = shown;
  if (params.get('mode') === 'sample') return sample(stage, { run, params, signal });
  const beams = Math.min(8, Math.max(1, Number(params.get('beam_size')) || 4));
  const begin = params.get('force') ?? '';
  /** @type {(size: number, more?: { max_length?: number }) => Promise<Decoded>} */
  const ask = (size, more) => api.decode(run.run, { beam_size: size, ...(begin ? { begin } : {}), ...more });
  const besides = () => Promise.all([ask(1), begin ? api.decode(run.run, { beam_size: beams }) : null]);
  /** @type {(found: Decoded, more: Partial<SearchShown>) => Promise<AbortController>} */
  const show = (found, more) => {
    const until = new AbortController(); // the view is left, or another search takes its place
    signal.addEventListener('abort', () => until.abort());
    return searched(stage, { ...shown, beams, begin, found, until, ...more });
  };
  const forced = begin ? begin.split('.').length : 0;
  if (model.outputs === 'target_tokens' || model.parameters <= LARGE) {
    const [found, [greedy, free]] = await Promise.all([ask(beams), besides()]);
    await show(found, { greedy, free });
    return;
  }
  // A large model takes seconds, so its first tokens are shown while the search continues; they are nodes of the same
  // tree. Not for a long text, which would be processed twice, nor in a saved session, which contains complete searches
  // only.
  const few = run.tokens.target.length < LONG && forced < FIRST;
  const first = few ? await ask(beams, { max_length: FIRST }).catch(() => null) : null;
  if (!first) {
    await show(await ask(beams), { late: besides });
    return;
  }
  const begun = await show(first, { soFar: FIRST });
  const later = async () => {
    const found = await ask(beams);
    begun.abort();
    highlight.clear(stage);
    await show(found, { params: address().params, late: besides });
  };
  later().catch(error => stage.querySelector('.searching')?.replaceChildren(api.refusal(error)));
}

/** @type {(stage: HTMLElement, shown: SearchShown) => Promise<AbortController>} */
async function searched(stage, shown) {
  const { model, run, params, beams, begin, found, soFar, late, until } = shown;
  const nodes = found.tree.nodes;
  const forced = begin ? begin.split('.').map(Number) : [];
  const winner = nodes.filter(node => node.chosen && node.parent !== null);
  const last = winner.length;
  /** @type {SearchState} */
  const state = {
    step: Math.min(last, Math.max(1, Number(params.get('step')) || forced.length || unsure(winner))),
    node: nodes[Number(params.get('node'))]?.parent != null ? Number(params.get('node')) : null,
    row: null,
    playing: 0,
    choices: null,
    from: null, // steps that are folded away at the beginning
  };
  if (state.node !== null) state.step = nodes[state.node].length;

  const listed = texts(shown);
  const box = h('div.tree.scene');
  const panel = h('aside.panel', { tabindex: 0, 'aria-label': 'The selected step' });
  const hidden = h('span.setting.hiding');
  const folds = h('div.folds', { hidden: true });
  const play = h(
    'button.go',
    { 'aria-label': 'Play, step by step', title: 'Play (Space)', onclick: () => toggle() },
    icon('play'),
  );
  // An overview of many steps, darker for higher probability, with a frame around the window.
  const frame = h('b');
  const mini = h(
    'div.steps-map',
    {
      hidden: last <= MANY,
      'aria-hidden': 'true',
      onclick: event => {
        const r = mini.getBoundingClientRect();
        stop();
        choose(Math.min(last, 1 + Math.floor(((event.clientX - r.left) / r.width) * last)));
      },
    },
    winner.map(node => h('i', { style: `background:${cssColour(Math.exp(node.token_log_prob), UNIT_SCALE)}` })),
    frame,
  );
  stage.append(
    h(
      'div.split',
      h(
        'div.dec',
        h(
          'div.controls',
          modes('search'),
          h(
            'div.play',
            h(
              'button',
              { 'aria-label': 'Step back', title: 'Step back (Left)', onclick: () => move(-1) },
              icon('prev'),
            ),
            play,
            h('button', { 'aria-label': 'Step forward', title: 'Next (Right)', onclick: () => move(1) }, icon('next')),
          ),
          choice('Beams', SIZES, beams, searchWith, { kind: 'pick', label: 'beam size' }),
          forced.length
            ? h('button.edit.undo', { title: 'Let the model choose again (Backspace)', onclick: undo }, 'undo force')
            : null,
          hidden,
        ),
        folds,
        withScrollButtons(box, 'the tree', { falls: true }),
        mini,
        soFar
          ? h(
              'p.tail.searching',
              { role: 'status' },
              h('progress', { 'aria-label': 'searching' }),
              ` The first ${soFar} tokens; the search continues.`,
            )
          : null,
        listed,
      ),
      panel,
    ),
  );

  const firstToken = run.tokens.target.at(model.outputs === 'target_tokens' ? 0 : -1);
  const prefix = () =>
    state.node === null ? winner.slice(0, state.step - 1) : pathTo(nodes, nodes[state.node].parent);
  // A word of the best path is also a row of the decoder as long as the run has read the same words.
  const reads = model.outputs === 'target_tokens' ? run.ids.target : [];
  const same = winner.findIndex((node, i) => i + 1 < reads.length && reads[i + 1] !== node.token);
  const rows = same < 0 ? winner.length : same + 1;
  /** @type {(node: TreeNode) => string[]} */
  const keyOf = node =>
    model.outputs === 'target_tokens' && node.chosen && node.length <= rows ? [`tgt:${node.length - 1}`] : [];

  function drawTree() {
    highlight.forget(box);
    const drawn = tree(found.tree, {
      width: box.clientWidth,
      height: box.clientHeight,
      step: state.step,
      chosen: state.node,
      from: state.from,
      upto: state.playing ? state.step : null,
      keyOf,
      forced: node =>
        node.chosen &&
        node.length <= forced.length &&
        nodes.some(
          each => each.parent === node.parent && each.fate === 'forbidden' && each.token_log_prob > node.token_log_prob,
        ),
      start: firstToken,
      onstep: step => choose(step),
      onnode: node => choose(node.length, node.chosen ? null : node.number),
    });
    const down = box.scrollTop;
    const back = keepFocus(box);
    box.replaceChildren(drawn.el);
    back();
    box.scrollTop = down;
    const { cut, steps } = drawn;
    state.from = cut.from;
    folds.replaceChildren(...foldedSteps(cut, steps, step => choose(Math.min(last, step))));
    if (folds.hidden !== !folds.firstChild) {
      folds.hidden = !folds.firstChild;
      return drawTree(); // the tree has other room now
    }
    frame.style.left = `${(100 * cut.from) / steps}%`;
    frame.style.width = `${(100 * (cut.to - cut.from)) / steps}%`;
    hidden.replaceChildren(
      drawn.hidden
        ? `+${drawn.hidden} ${drawn.limit > 1 ? 'that were not finished' : `pruned below ${drawn.limit}`}`
        : '',
    );
    highlight.paint();
  }
  // All steps of the best path in one request; other steps one by one.
  const told = winner.slice(0, -1).map(node => node.token);
  /** @type {(tokens: number[]) => Promise<OneStep>} */
  const after = tokens =>
    tokens.every((token, i) => token === told[i])
      ? api.step(run.run, tokens.length, { k: LIKELY, tokens: told })
      : api.step(run.run, tokens.length, { k: LIKELY, tokens, positions: api.onlyPosition(tokens.length) });
  async function drawStep() {
    const step = state.step;
    const so = prefix();
    const node = state.node === null ? winner[step - 1] : nodes[state.node];
    const branch = state.node;
    const list = await after(so.map(each => each.token));
    if (step !== state.step || branch !== state.node) return;
    state.choices = list;
    state.row ??= list.ids.findIndex(id => id !== node.token);
    const { looks: attended } = list;
    const seen = attended ? attentionBars(attended) : null;
    const k = list.ids.indexOf(node.token);
    const off = state.node !== null;
    // the row of the run that reads this prefix, if there is one
    const row = model.outputs === 'target_tokens' ? so.length : run.tokens.target.length - 1 + so.length;
    const inRun = model.outputs === 'target_tokens' ? so.every((each, i) => reads[i + 1] === each.token) : !so.length;
    readoutDefault({
      at: [`step ${step}: `, wordElement(node.label)],
      path: `softmax ${list.at}[${row}, ${node.token}]`,
      python: inRun ? undefined : null,
      value: Math.exp(node.token_log_prob),
      scale: UNIT_SCALE,
      digits: 4,
    });
    highlight.forget(panel);
    panel.replaceChildren(
      panelHead(
        `Step ${step}${off ? ', not on the best path' : ''}, after`,
        h(
          'h2.word.after',
          so.length
            ? joinWords(
                so.slice(-7).map(each => each.label),
                so.length > 7,
              )
            : h('span.special', firstToken),
        ),
      ),
      tokenBars(list, {
        on: state.row,
        taken: node.token,
        onforce: force,
        onpick: picked => {
          state.row = picked;
          drawStep();
        },
        told: { at: [` at step ${step}`], row, inRun },
      }),
      ...(seen && attended
        ? [
            h('hr.rule'),
            h('h3', 'Attends to', h('span.of', ` mean of ${counted(attended.at.length, 'layer')}, all heads`)),
            seen.el,
            seen.note ? h('p.tail', seen.note) : '',
          ]
        : []),
      h('hr.rule'),
      sumTable([
        [['logit of ', wordElement(node.label)], k < 0 ? '' : num(list.logits[k]), 'z'],
        ['all logits', num(list.log_sum), 'log Σ exp z'],
        ['probability', probabilityText(Math.exp(node.token_log_prob)), 'exp(z − log Σ)', true],
      ]),
    );
    if (seen && attended) lookable(seen, attended);
    highlight.paint();
  }
  // The attention weights of a step: the status bar shows the one that is pointed at.
  /** @type {(seen: ReturnType<typeof attentionBars>, attended: Looks) => void} */
  function lookable({ el, keys }, { at, words, weights = [] }) {
    const bars = [...el.querySelectorAll('div')].map(bar => ({ bar, i: Number(bar.dataset.i) }));
    /** @type {(i: number) => void} */
    const tell = i =>
      readout({
        at: ['attends to ', wordElement(words[i])],
        path: `mean of ${at.join(', ')}`,
        value: weights[i],
        scale: UNIT_SCALE,
      });
    for (const { bar, i } of bars) highlight.clickable(bar, [keys[i]], { over: () => tell(i), out: () => readout() });
    /** @type {Walk<number>} */
    const way = {
      name: 'What this step attends to',
      start: () => 0,
      step: (k, _, across) => nearestIndex(k + across, bars.length),
      look: k => {
        highlight.hover([keys[bars[k].i]]);
        tell(bars[k].i);
      },
      leave: () => {
        highlight.hover([]);
        readout();
      },
      take: k => highlight.pin([keys[bars[k].i]]),
    };
    arrowNavigation(el, way);
  }
  /** @type {(step: number, node?: number | null) => Promise<void>} */
  function choose(step, node = null) {
    Object.assign(state, { step, node, row: null });
    if (node === null) state.step = Math.min(last, step);
    replaceAddress({ step: state.step, node });
    drawTree();
    return drawStep();
  }
  /** @type {(by: number) => void} */
  const move = by => {
    stop();
    choose(Math.min(last, Math.max(1, state.step + by)));
  };
  /** @type {(id: number) => void} */
  function force(id) {
    stop();
    go('decode', { force: [...prefix().map(each => each.token), id].join('.'), step: state.step, node: null });
  }
  function undo() {
    if (forced.length) go('decode', { force: null, node: null, step: Math.min(state.step, forced.length) });
  }
  /** @type {(playing: boolean) => void} */
  function shownAs(playing) {
    play.classList.toggle('on', playing);
    play.title = playing ? 'Pause (Space)' : 'Play (Space)';
    play.setAttribute('aria-label', playing ? 'Pause' : 'Play, step by step');
    play.replaceChildren(icon(playing ? 'pause' : 'play'));
  }
  function stop() {
    if (state.playing) {
      clearInterval(state.playing);
      state.playing = 0;
      shownAs(false);
      drawTree();
    }
  }
  function toggle() {
    if (state.playing) {
      stop();
      return;
    }
    state.playing = setInterval(() => (state.step < last ? choose(state.step + 1) : stop()), PACE);
    shownAs(true);
    choose(state.step < last ? state.step : 1);
  }
  onKeys(until.signal, event => {
    const act = {
      ArrowLeft: () => move(-1),
      ArrowRight: () => move(1),
      ArrowUp: () => point(-1),
      ArrowDown: () => point(1),
      f: () => state.choices && force(state.choices.ids[state.row ?? 0]),
      Backspace: undo,
      ' ': event.target?.closest?.('button') ? null : toggle,
    }[event.key];
    if (act) {
      event.preventDefault();
      act();
    }
  });
  /** @type {(by: number) => void} */
  function point(by) {
    if (!state.choices) return;
    state.row = nearestIndex((state.row ?? 0) + by, state.choices.ids.length);
    drawStep();
  }
  until.signal.addEventListener('abort', () => clearInterval(state.playing));
  drawTree();
  await drawStep();
  late?.().then(
    ([one, two]) => listed.replaceWith(texts({ ...shown, greedy: one, free: two })),
    () => {}, // what was found stands there without them
  );
  return until;
}

// The initial step: where the best path was least certain.
/** @type {(winner: TreeNode[]) => number} */
const unsure = winner =>
  1 + winner.reduce((least, node, i) => (node.token_log_prob < winner[least].token_log_prob ? i : least), 0);

// Which text is the translation.
/** @type {(same: boolean, greedy: boolean) => string} */
const whose = (same, greedy) =>
  (same
    ? '1 is the translation that the page shows above.'
    : '1 is the best text of this search; the page shows a different translation above.') +
  (greedy ? ' Greedy takes the likeliest token at each step, for comparison.' : '');
// The texts found, the greedy one, and the best one before a word was forced; differences are underlined.
/** @type {(shown: SearchShown) => HTMLElement} */
function texts({ model, run, found, greedy, free, beams }) {
  const best = found.texts[0];
  /** @type {(text: FoundText) => string[]} */
  const written = text =>
    text.pieces
      .filter(piece => piece !== '</s>')
      .map((piece, i) =>
        i && !piece.startsWith(' ') && found.texts.some(each => each.pieces.some(p => p.startsWith(' ')))
          ? piece.trim()
            ? `·${piece}`
            : piece.replaceAll('\n', '⏎').replaceAll('\t', '⇥')
          : piece.trim(),
      );
  /** @type {(rank: string, text: FoundText, kind: string | null) => HTMLElement} */
  const row = (rank, text, kind) =>
    h(
      'tr',
      { class: kind },
      h('td.rank.n', rank),
      h(
        'td.word',
        joinWords(written(text), false, text === best ? new Set() : changedWords(written(best), written(text))),
      ),
      h('td.r.n', num(text.log_probability)),
      h('td.r.n', num(text.score)),
      h(
        'td.r',
        h(
          'button.read',
          {
            title: 'Use this text in every view',
            onclick: () =>
              go(
                'decode',
                model.outputs === 'target_tokens'
                  ? { target: text.text, pin: null }
                  : { text: text.text, force: null, step: null, node: null, pin: null },
              ),
          },
          'read',
        ),
      ),
    );
  const others = [
    beams > 1 && greedy ? row('greedy', greedy.texts[0], 'beside') : null,
    free ? row('free', free.texts[0], 'beside') : null,
  ];
  const alpha = found.tree.search.alpha;
  return h(
    'div.hypsbox',
    tableWithHead(
      'hyps',
      [
        ['', { class: 'rank' }],
        [model.outputs === 'target_tokens' ? 'texts found' : 'continuations'],
        ['log p', { class: 'r' }],
        [alpha === 1 ? 'per length' : 'score', { class: 'r', title: `log p / length^${alpha}` }],
        [''],
      ],
      [found.texts.map((text, i) => row(String(i + 1), text, i ? null : 'first')), others],
    ),
    model.outputs === 'target_tokens' && h('p.tail', whose(best.text === run.target, others[0] !== null)),
  );
}
