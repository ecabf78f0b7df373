import { choice, panelHead } from '../parts/controls.js';
import { onKeys } from '../keyboard.js';
import { attentionKind, isRecurrent, pointAt } from '../anatomy.js';
import { h, m, unit, widest, range, shortened } from '../dom.js';
import { UNIT_SCALE, twoDigits, firstWeight, fixed, num } from '../ink.js';
import * as api from '../api.js';
import * as highlight from '../highlight.js';
import { go, replaceAddress, oneOf } from '../route.js';
import { openWhatIfWithout } from '../parts/switch.js';
import { readoutDefault, readout, wordElement } from '../readout.js';
import { headPictures, MANY, headGrid } from '../parts/headgrid.js';
import { heatmap, headRoom } from '../parts/heatmap.js';
import { sumTable, grid } from '../parts/table.js';
import { addressOf, termsPanel } from '../parts/terms.js';
import { ribbons } from '../parts/ribbons.js';
import { meanOfHeads } from '../frames.js';
import { crossFade } from '../motion.js';
import { scrollIntoBox } from '../parts/scrolling.js';
import { attendsTo, rowName } from '../parts/token.js';

/** @type {Record<string, AttentionKind>} */
const KINDS = {
  encoder: {
    name: 'Encoder self',
    tells: 'Each word of the input attends to all of them.',
    rows: 'source',
    cols: 'source',
    rowSide: 'src',
    colSide: 'src',
  },
  decoder: {
    name: 'Decoder self',
    note: 'causal',
    tells: 'Each word of the output attends to itself and the words before it.',
    rows: 'target',
    cols: 'target',
    rowSide: 'tgt',
    colSide: 'tgt',
  },
  cross: {
    name: 'Cross',
    tells: 'Each word of the output attends to the input.',
    rows: 'target',
    cols: 'source',
    rowSide: 'tgt',
    colSide: 'src',
  },
};
const MOMENTS = [
  ['scores', 'scores'],
  ['scaled', 'scaled'],
  ['biased', 'biased'],
  ['masked', 'masked'],
  ['weights', 'pattern'],
];
const EXACT = 4096; // maximum numbers sent in full precision
const WHOLE = 512; // longest side sent without pooling
const NUMBERS = 24; // up to this many words, cells show their numbers
const LENS_LETTERS = 5; // of a word beside the lens
/** @type {(text: string, attrs?: Attributes) => MathMLElement} */
const mi = (text, attrs) => m('mi', attrs, text);
/** @type {(text: string) => MathMLElement} */
const mo = text => m('mo', text);
/** @type {Record<string, (recurrent: boolean, turned: boolean) => MathMLElement>} */
const PIECES = {
  scores: (recurrent, turned) =>
    recurrent
      ? m('mrow', mi('a'), mo('('), mi('q'), mo(','), mi('k'), mo(')'))
      : m('mrow', mi(turned ? 'Q′' : 'Q'), m('msup', mi(turned ? 'K′' : 'K'), mo('⊤'))),
  scaled: () => m('mrow', mo('÷'), m('msqrt', m('msub', mi('d'), mi('k')))),
  biased: () => m('mrow', mo('+'), mi('B')),
  masked: () => m('mrow', mo('+'), mi('M')),
  weights: () => mi('softmax', { class: 'fn' }),
};

/** @type {View} */
export const attention = {
  name: 'Attention',
  about: {
    shows: 'How much each token attends to each other token, head by head.',
    read:
      'Every row is a token, and its weights sum to 1: a dark cell means that the row takes much from that ' +
      'column. In the decoder, “Hund → schläft” is the row that reads Hund and writes schläft. The line above ' +
      'the picture leads from the scores to the weights.',
    terms: ['attention', 'layer', 'head', 'query', 'key', '<s>', '</s>'],
  },
  draw: drawView,
  lacks: ({ family, config, shape }) =>
    (family !== 'transformer' && config.attention === 'none') ||
    ['mlp', 'linear', 'ngram'].includes(family) ||
    (isRecurrent(family) && shape !== 'encoder-decoder')
      ? 'This model has no attention'
      : '',
  walksTokens: true,
  keys: [
    ['↑ ↓', 'previous or next layer'],
    ['[ ]', 'previous or next head'],
    ['m', 'next moment: scores, scaled, masked, weights'],
    ['n', 'show or hide numbers in the cells'],
    ['o', 'switch the head off in What-if'],
    ['Backspace', 'back to Flow'],
  ],
  linkParts: {
    kind: oneOf('encoder', 'decoder', 'cross'),
    moment: oneOf(...MOMENTS.map(([id]) => id)),
    numbers: oneOf('off'),
  },
};

/** @type {(stage: HTMLElement, shown: Shown) => Promise<void>} */
async function drawView(stage, { model, run, params, signal }) {
  const points = new Map(run.points.map(point => [point.at, point]));
  const kinds = kindsOf(points);
  const at = startAt(params, kinds);
  const left = h('div');
  const mid = h('div');
  const right = h('aside.panel', { tabindex: 0, 'aria-label': 'One head as ribbons, one cell as a sum' });
  const flows = h('div.flows');
  stage.append(h('div.columns.attn', left, mid, right));
  let turn = 0;
  /** @type {DrawnHead} */
  let now;
  const about = highlight.stickyKeys();
  const pictures = Object.fromEntries(
    Object.entries(kinds).map(([kind, names]) => {
      const { shape } = pointAt(points, names[0]);
      return [kind, headPictures(run, kind, names, shape.length === 3 ? shape[0] : 1)];
    }),
  );

  /** @type {(changes: Partial<HeadChoice>, focus?: string) => Promise<void>} */
  const change = (changes, focus) => {
    Object.assign(at, changes);
    replaceAddress({
      kind: at.kind,
      layer: at.layer,
      head: at.head === null ? 'mean' : at.head,
      moment: at.moment === 'weights' ? null : at.moment,
      numbers: at.numbers ? null : 'off',
    });
    return draw(focus);
  };

  /** @type {Promise<void>} */
  let drawing; // the current request, which has priority over layers that are not visible
  /** @type {(focus?: string) => Promise<void>} */
  function draw(focus) {
    drawing = redraw(focus);
    return drawing;
  }
  /** @type {(focus?: string) => Promise<void>} */
  async function redraw(focus) {
    const mine = ++turn;
    const found = await fetchHead(run, points, at, pictures[at.kind]);
    if (mine !== turn) return;
    now = { ...found, lens: h('div.lens'), sum: h('div.sum'), needsLens: false };
    at.layer = now.layer;
    at.head = now.head;
    at.moment = now.moment;
    const [matrixTurned, ribbonsTurned] = [mid, flows].map(crossFade);
    highlight.clear(left, right);
    drawLeft();
    drawMatrix();
    matrixTurned();
    const isStale = () => mine !== turn;
    await drawRight(isStale);
    if (isStale()) return;
    ribbonsTurned();
    highlight.paint();
    // one of many layers
    scrollIntoBox(left.querySelector('.headgrids'), left.querySelector('.headgrid [aria-pressed="true"]'));
    fill();
    if (focus === 'head') left.querySelector('.headgrid [aria-pressed="true"]')?.focus();
    if (focus === 'kind') left.querySelector('.kinds [aria-pressed="true"]')?.focus();
    if (focus === 'moment') mid.querySelector('.steps [aria-pressed="true"]')?.focus();
  }

  // ---- left: which attention, which head
  function drawLeft() {
    const { small, layer, head } = now;
    const one = small.names.length * small.heads === 1;
    left.parentElement?.classList.toggle('many', small.heads > MANY);
    left.append(
      choice(
        'Which attention',
        Object.keys(kinds).map(kind => ({ key: kind, text: [KINDS[kind].name, h('span', KINDS[kind].note ?? '')] })),
        at.kind,
        kind => change({ kind, moment: 'weights' }, 'kind'),
        { kind: 'kinds' },
      ),
      h('p.quiet', KINDS[at.kind].tells),
    );
    if (!one)
      left.append(
        h('h3.gridname', 'Layers by heads, from 0', h('span.of')),
        h(
          'div.headgrids',
          headGrid(small, {
            chosen: { layer, head },
            means: small.heads > 1,
            onpick: (l, n) => change({ layer: l, head: n }, 'head'),
            onlook: (l, n) =>
              readout({
                at:
                  n === null
                    ? `Layer ${l}, mean of all heads`
                    : small.has(l)
                      ? `Layer ${l}, head ${n}: entropy ${num(small.entropy(l, n))} bits, largest weight`
                      : `Layer ${l}, head ${n}`,
                path: `${small.names[l]}${n === null ? '' : `[${n}]`}`,
                value: n === null || !small.has(l) ? undefined : small.most(l, n),
                scale: UNIT_SCALE,
              }),
            onleave: () => readout(),
          }),
        ),
      );
    left.append(
      h(
        'div.facts',
        sumTable([
          // not known for the mean of pooled pictures
          ...(head === null && now.pooled
            ? []
            : [
                ['largest weight', num(head === null ? largest(now.weights) : small.most(layer, head))],
                ['mean entropy, bits', num(head === null ? entropy(now.weights) : small.entropy(layer, head))],
              ]),
        ]),
      ),
      now.lens,
    );
    paintHeads();
  }
  function paintHeads() {
    left.querySelector('.headgrid')?.paint?.();
    const { names, missing } = now.small;
    left
      .querySelector('.gridname .of')
      ?.replaceChildren(missing ? `: ${names.length - missing} of ${names.length} layers so far` : '');
  }
  // For a long text, load the other layers one by one while the view and the kind stay the same.
  /** @type {HeadPictures | null} */
  let filling = null;
  async function fill() {
    const { small } = now;
    if (filling === small || !small.missing) return;
    filling = small;
    const stopped = () => signal.aborted || filling !== small;
    try {
      await small.rest(now.layer, paintHeads, stopped, () => drawing.catch(() => {}));
    } catch (error) {
      const why = api.refusal(error);
      if (!stopped()) left.querySelector('.gridname .of')?.replaceChildren(`: ${why}`);
    } finally {
      if (filling === small) filling = null;
    }
  }

  // ---- middle: one head as a matrix, at one of four moments
  function drawMatrix() {
    const { values, scale, rows, cols, rowKeys, colKeys, moment } = now;
    const u = unit();
    const kind = KINDS[at.kind];
    mid.append(steps());
    const told = at.kind === 'encoder' ? rows : rows.map((each, i) => [each, ' → ', now.follows[i] ?? '']);
    const lw = Math.min(190, Math.ceil(widest(told, 1.125, { weight: 600, most: 16 }) / u) + 16);
    const W = mid.clientWidth;
    const H =
      mid.clientHeight - /** @type {HTMLElement} */ (mid.firstChild).offsetHeight - 8 * u - (now.pooled ? 24 * u : 0);
    const flat = (W - lw * u) / cols.length;
    const lean = headRoom(cols, flat, 1.125);
    const over = lean.slant ? Math.max(0, widest(cols.slice(-2), 1.125, { most: 14 }) * 0.74 - flat / 2) + 4 * u : 0;
    /** @type {(v: number) => number} */
    const step = v => (v >= 8 * u ? Math.floor(v) : Math.floor(v * 16) / 16);
    const cw = step(Math.min((W - lw * u - over) / cols.length, 120 * u));
    const ch = step(Math.min((H - lean.labelHeight * u) / rows.length, 62 * u));
    const numbers =
      at.numbers && Math.max(rows.length, cols.length) <= NUMBERS && ch >= 17 * u
        ? fitting(values, cw, u, W > 800 ? 16 : 15)
        : {};
    const map = heatmap({
      title: `${kind.name} attention, ${now.name}, ${moment}`,
      values,
      rows: told,
      cols,
      rowKey: i => rowKeys[i],
      colKey: j => colKeys[j],
      labelWidth: lw,
      ...lean,
      cellWidth: cw,
      cellHeight: ch,
      gap: cw < 14 * u ? 0.5 : 2,
      scale,
      ...numbers,
      fade: moment === 'weights' ? 0.1 : undefined,
      read: reads,
      hatched: now.unseen ?? undefined,
      ring: explained,
      table: now.coarse && now.head !== null ? exactTable : undefined,
    });
    now.needsLens = numbers.digits === undefined;
    mid.append(h('div.matrix', map));
    if (now.pooled) mid.append(h('p.kicker', now.pooled));
  }
  async function exactTable() {
    // a large picture has rounded numbers; the table requests them in full precision
    const state = now;
    const shown = Math.min(40, pointAt(points, `${state.scope}.${state.point}`).shape.at(-2) ?? 1);
    const lead = state.indexed ? [state.head] : [];
    const kind = KINDS[at.kind];
    const rows = await Promise.all(
      range(shown).map(i =>
        api.tensor(run.run, `${state.scope}.${state.point}`, { index: [...lead, i].join(','), as: 'f32' }),
      ),
    );
    return {
      ...grid(
        run.tokens[kind.rows],
        run.tokens[kind.cols],
        rows.map((frame, i) => frame.row().map((v, j) => (Number.isFinite(v) && !state.unseen?.(i, j) ? v : NaN))),
      ),
      note: `The first ${shown} rows.`,
    };
  }
  // The moments of this attention, and what is missing in it: [name, reason].
  const momentsHere = () => MOMENTS.filter(([, point]) => points.has(`${now.scope}.${point}`)).map(([id]) => id);
  /** @type {(id: string) => [string, string] | null} */
  const missing = id =>
    id === 'masked' && !now.hasMask
      ? ['no mask', 'No mask here: every token can be attended to']
      : id === 'scaled' && model.config.scaled === false
        ? ['not scaled', 'This model does not scale its scores']
        : null;
  function steps() {
    return h(
      'div.steps',
      { role: 'group', 'aria-label': 'Moment' },
      momentsHere().map(id => {
        const none = missing(id) !== null || (id !== 'weights' && now.head === null);
        const why = now.head === null ? 'Only weights can be averaged over heads' : missing(id)?.[1];
        return highlight.mark(
          h(
            'button',
            {
              'aria-pressed': String(id === now.moment),
              disabled: none,
              title: none ? why : null,
              onclick: () => change({ moment: id }, 'moment'),
            },
            m('math', PIECES[id](now.scope.endsWith('alignment'), points.has(`${now.scope}.rotated_query`))),
            missing(id)?.[0] ?? id,
          ),
          `moment:${id}`,
        );
      }),
    );
  }
  /** @type {(i: number | string, j: number | string) => string} */
  const path = (i, j) =>
    now.head === null
      ? `${now.scope}.pattern[:, ${i}, ${j}].mean()`
      : `${now.scope}.${now.point}[${now.indexed ? `${now.head}, ` : ''}${i}, ${j}]`;
  const tokens = () => [run.tokens[KINDS[at.kind].rows], run.tokens[KINDS[at.kind].cols]];
  // One number of the trace; a cell of the picture may represent several in a very long text.
  /** @type {(q: number, k: number) => Content[]} */
  const looks = (q, k) => attendsTo(run, KINDS[at.kind].rows, q, tokens()[1][k] ?? '·');
  /** @type {(q: number, k: number, value: number | undefined) => Reading} */
  const exactly = (q, k, value) => ({
    at: [...rowName(run, KINDS[at.kind].rows, q), ' attends to ', wordElement(tokens()[1][k] ?? '·')],
    path: path(q, k),
    value,
    scale: now.scale,
  });
  /** @type {(i: number, j: number) => Reading} */
  const reads = (i, j) => {
    const { step, values } = now;
    /** @type {(n: number, each: number, most: number) => string | number} */
    const span = (n, each, most) => (each > 1 ? `${n * each}:${Math.min(most, (n + 1) * each)}` : n);
    const [Q, K] = tokens().map(list => list.length);
    return {
      at: [
        ...rowName(run, KINDS[at.kind].rows, i * step[0]),
        ' attends to ',
        wordElement(now.cols[j]),
        step[0] * step[1] > 1 ? `, largest of ${step[0] * step[1]}` : '',
      ],
      path: path(span(i, step[0], Q), span(j, step[1], K)),
      value: values[i][j],
      scale: now.scale,
    };
  };

  // ---- right: the same head as ribbons, and the sum behind the pinned or hovered cell
  /** @type {(isStale: () => boolean) => Promise<void>} */
  async function drawRight(isStale) {
    const kind = KINDS[at.kind];
    right.append(
      panelHead(
        [kind.name, kind.note, now.head === null || now.indexed ? `layer ${now.layer}` : null]
          .filter(Boolean)
          .join(', '),
        now.head === null ? 'Mean of all heads' : now.indexed ? `Head ${now.head}` : 'Alignment',
      ),
      flows,
      h('hr.rule'),
      now.head === null ? h('div.equations', meanOf()) : '',
      now.sum,
    );
    await Promise.all([
      work(about()),
      now.coarse
        ? row(
            highlight.wordInRow(
              highlight.activeKeys(),
              now.rowKeys,
              highlight.cellOfKeys(highlight.activeKeys(), now.rowKeys, now.colKeys).row ?? 0,
            ),
          )
        : null,
    ]);
    if (isStale()) return;
    const u = unit();
    const used = /** @type {HTMLElement[]} */ ([...right.children]).reduce(
      (sum, el) => sum + (el === flows ? 0 : el.offsetHeight),
      0,
    );
    const high = right.clientHeight - used - 4 * 12 * u - 34 * u;
    const long = Math.max(now.rows.length, now.cols.length) > 20 ? 26 * u : 0;
    flows.append(
      ribbons(now.weights, {
        // labelled by what the row writes in cross-attention
        rows:
          at.kind === 'cross' ? now.rows.map((each, i) => (now.follows[i] ? `→ ${now.follows[i]}` : each)) : now.rows,
        cols: now.cols,
        rowKeys: now.rowKeys,
        colKeys: now.colKeys,
        width: right.clientWidth - 36 * u,
        height: Math.max(150 * u, high - long),
        exactly: now.coarse ? row : undefined,
      }),
    );
  }
  // The cell that the keys select: they determine the row, the column or both; the rest is where the weight
  // is largest.
  /** @type {(wanted: string[]) => Step2D} */
  function meant(wanted) {
    const { row: i, col: j, exact } = highlight.cellOfKeys(wanted, now.rowKeys, now.colKeys);
    const w = now.weights;
    if (exact && i !== null && j !== null) return [i, j];
    if (i !== null) return [i, best(w[i])];
    if (j !== null) return [best(w.map(each => each[j])), j];
    return firstWeight(w) ?? [0, best(w[0])];
  }
  // The cell that the panel and the status bar are about: the matrix frames it.
  function explained() {
    const { hover } = highlight.state;
    const { row: i, col: j } = highlight.cellOfKeys(hover, now.rowKeys, now.colKeys);
    return meant(i === null && j === null ? about() : hover);
  }
  // Some numbers of the head, or of the mean of all heads, in full precision.
  /** @type {(state: ShownHead, point: string, ...places: (number | string)[]) => Promise<number[]>} */
  async function part(state, point, ...places) {
    /** @type {(...index: (number | string)[]) => Promise<Frame>} */
    const ask = (...index) => api.tensor(run.run, `${state.scope}.${point}`, { index: index.join(','), as: 'f32' });
    const { heads } = state.small;
    if (!state.indexed) return (await ask(...places)).row();
    if (state.head !== null) return (await ask(state.head, ...places)).row();
    const many = places.length < 2 && heads * tokens()[1].length > EXACT; // too many to be sent at once
    const all = many
      ? (await Promise.all(range(heads).map(n => ask(n, ...places)))).flatMap(frame => frame.row())
      : (await ask('*', ...places)).row();
    const size = all.length / heads;
    return range(size).map(k => range(heads).reduce((sum, n) => sum + all[n * size + k], 0) / heads);
  }
  /** @type {(q: number) => Promise<ExactRow>} */
  async function row(q) {
    // one word with all its weights
    const state = now;
    const [rows, cols] = tokens();
    const kind = KINDS[at.kind];
    return {
      word: rows[q] ?? '·',
      key: `${kind.rowSide}:${q}`,
      weights: await part(state, 'pattern', q),
      cols,
      colKeys: cols.map((_, k) => `${kind.colSide}:${k}`),
    };
  }
  // The number that the keys select, in the picture (i, j) and in the trace (q, k).
  /** @type {(wanted: string[]) => Promise<Record<'i' | 'j' | 'q' | 'k', number>>} */
  async function cellOf(wanted) {
    const [i, j] = meant(wanted);
    const both = highlight.cellOfKeys(wanted, now.rowKeys, now.colKeys);
    const q = highlight.wordInRow(wanted, now.rowKeys, i);
    const named = both.col !== null && (both.exact || both.row === null);
    const k =
      now.step[0] * now.step[1] > 1 && !named
        ? best((await row(q)).weights)
        : highlight.wordInRow(
            both.exact && now.rowKeys[0] === now.colKeys[0] ? wanted.slice(1) : wanted,
            now.colKeys,
            j,
          );
    return { i, j, q, k };
  }
  /** @type {(wanted: string[]) => Promise<void>} */
  async function work(wanted) {
    if (wanted !== about()) return; // the selection has changed in the meantime
    const state = now;
    const { hover } = highlight.state;
    const pooled = state.step[0] * state.step[1] > 1;
    if (hover.length && hover !== wanted) {
      // the panel shows the pinned cell; the status bar and the lens follow the pointer
      const cell = await cellOf(hover);
      if (state !== now) return;
      await lens(cell.q, cell.k, true);
      const rounded = state.head === null ? pooled : state.coarse && hover.length > 1;
      const [value] = rounded ? await part(state, state.point, cell.q, cell.k) : [];
      if (rounded && state === now && hover === highlight.state.hover) readout(exactly(cell.q, cell.k, value));
      return;
    }
    const { i, j, q, k } = await cellOf(wanted);
    if (state !== now) return;
    const lensed = lens(q, k, hover.length > 0);
    if (!hover.length) readoutDefault(pooled ? exactly(q, k, undefined) : reads(i, j));
    const index = [...(state.indexed && state.head !== null ? [state.head] : []), q, k];
    const where = addressOf(`${state.scope}.${state.point}`, index, index);
    /** @type {(...made: (() => HTMLElement)[]) => void} */
    const show = (...made) => {
      // Unchanged nodes stay: one that is replaced under the pointer loses the click.
      if (state.sum.dataset.of === where) return;
      state.sum.dataset.of = where;
      state.sum.replaceChildren(...made.map(make => make()));
    };
    if (state.head === null) {
      const each = (await api.tensor(run.run, `${state.scope}.pattern`, { index: `*,${q},${k}`, as: 'f32' })).row();
      if (state !== now || wanted !== about()) return;
      show(() => meanSum(each, looks(q, k)));
      if (pooled)
        (hover.length ? readout : readoutDefault)(exactly(q, k, each.reduce((a, b) => a + b, 0) / each.length));
      return;
    }
    const [opened] = await Promise.all([api.terms(run.run, where), lensed]);
    if (state !== now || wanted !== about()) return;
    show(
      () => h('p.whose', looks(q, k)),
      () => termsPanel(run, opened),
    );
    const exact = exactly(q, k, opened.value ?? -Infinity);
    if (!hover.length && state.coarse) readoutDefault(exact);
    if (hover.length && state.coarse && wanted.length > 1) readout(exact);
  }
  // The lens shows the numbers around the selected cell if the cells are too small for them: nine by nine if they fit
  // into the left column, otherwise seven, five or three.
  function lensSize() {
    const u = unit();
    const largest = now.values
      .flat()
      .filter(Number.isFinite)
      .reduce((most, v) => Math.max(most, Math.abs(v)), 0);
    // Any score may be negative, such as −.31, although a cell that represents several shows a positive one.
    const long = now.point === 'pattern' ? 3 : Math.max(4, twoDigits(-largest).length);
    const labels = widest(tokens()[0], 0.9375, { most: LENS_LETTERS }) + 12 * u;
    const room = left.clientWidth - labels - 12 * u;
    const n = [9, 7, 5].find(each => long * 14 * 0.605 * u + 3 * u <= room / each) ?? 3;
    return { n, labels, size: Math.min(Math.floor(room / n), 48 * u) };
  }
  /** @type {(q: number, k: number, hovering: boolean) => Promise<void>} */
  async function lens(q, k, hovering) {
    if (!now.needsLens || !at.numbers) {
      now.lens.replaceChildren();
      return;
    }
    // do not move while the pointer or the focus is in it
    if (hovering && (now.lens.matches(':hover') || now.lens.contains(document.activeElement))) return;
    const state = now;
    const u = unit();
    state.around ??= lensSize();
    const { n, labels, size } = state.around;
    const [rows, cols] = tokens();
    const kind = KINDS[at.kind];
    /** @type {(place: number, most: number) => number} */
    const from = (place, most) => Math.max(0, Math.min(most - n, place - (n - 1) / 2));
    const q0 = from(q, rows.length);
    const k0 = from(k, cols.length);
    const high = Math.min(n, rows.length);
    const wide = Math.min(n, cols.length);
    const cut = [`${q0}:${q0 + high}`, `${k0}:${k0 + wide}`];
    /** @type {(flat: number[]) => number[][]} */
    const table = flat => range(high).map(r => flat.slice(r * wide, (r + 1) * wide));
    const values = state.coarse
      ? table(await part(state, state.point, ...cut))
      : state.values.slice(q0, q0 + high).map(each => each.slice(k0, k0 + wide));
    const hidden =
      state.coarse && state.hasMask && state.point === 'pattern' ? table(await part(state, 'masked', ...cut)) : null;
    if (state !== now || (hovering && !highlight.state.hover.length)) return;
    /** @type {(list: string[], first: number, count: number) => string[]} */
    const words = (list, first, count) => list.slice(first, first + count).map(each => shortened(each, LENS_LETTERS));
    const over = words(cols, k0, wide);
    highlight.forget(state.lens);
    state.lens.replaceChildren(
      h('h3', exactly(q, k, 0).at),
      heatmap({
        title: 'Numbers around the selected cell',
        values,
        table: null,
        rows: words(rows, q0, high),
        cols: over,
        wordSize: '.9375rem',
        labelWidth: labels / u,
        ...headRoom(over, size, 0.9375),
        cellWidth: size,
        cellHeight: Math.min(size, (n > 5 ? 25 : 32) * u),
        gap: 2,
        scale: state.scale,
        digits: 2,
        fontSize: n > 3 ? 14 : 15,
        write: twoDigits,
        ring: () => [q - q0, k - k0],
        hatched: (r, c) => (hidden ? !Number.isFinite(hidden[r][c]) : !state.coarse && state.unseen?.(q0 + r, k0 + c)),
        rowKey: r => `${kind.rowSide}:${q0 + r}`,
        colKey: c => `${kind.colSide}:${k0 + c}`,
        read: (r, c) => exactly(q0 + r, k0 + c, values[r][c]),
      }),
    );
    highlight.paint();
  }

  await draw();
  highlight.onActiveKeys(signal, about, keys => now?.sum && work(keys).catch(() => {}));
  onKeys(signal, event => {
    if (event.defaultPrevented) return;
    const { heads } = now.small;
    const layers = now.small.names.length;
    const moments = momentsHere().filter(id => !missing(id));
    /** @type {(v: number, n: number) => number} */
    const round = (v, n) => (v + n) % n;
    /** @type {(by: number) => Promise<void>} */
    const turnHead = by => change({ head: round((at.head ?? (by > 0 ? -1 : 0)) + by, heads) });
    if (event.key === '[' || event.key === ']') turnHead(event.key === ']' ? 1 : -1);
    else if (event.key === 'ArrowUp' || event.key === 'ArrowDown') {
      event.preventDefault();
      change({ layer: round(at.layer + (event.key === 'ArrowUp' ? -1 : 1), layers) });
    } else if (event.key === 'm' && at.head !== null)
      change({ moment: moments[round(moments.indexOf(at.moment) + 1, moments.length)] });
    else if (event.key === 'n') change({ numbers: !at.numbers });
    else if (event.key === 'o') openWhatIfWithout(model, `${now.scope}.pattern`, now.indexed ? now.head : null);
    else if (event.key === 'Backspace') {
      event.preventDefault();
      go('flow', { at: `${now.scope}.pattern`, head: now.head || null, i: null, layer: null, kind: null });
    }
  });
}

// ---- the kinds of attention, and the initial selection
/** @type {(points: Points) => Record<string, string[]>} */
function kindsOf(points) {
  const patterns = [...points.keys()].filter(name => name.endsWith('.pattern'));
  const named = Object.keys(KINDS).map(kind => [kind, patterns.filter(name => attentionKind(name) === kind)]);
  return Object.fromEntries(named.filter(([, names]) => names.length));
}
/** @type {(params: URLSearchParams, kinds: Record<string, string[]>) => HeadChoice} */
function startAt(params, kinds) {
  const named = Object.entries(kinds)
    .flatMap(([each, names]) => names.map((name, layer) => ({ kind: each, layer, name })))
    .find(({ name }) => params.get('at')?.startsWith(name.slice(0, -'pattern'.length)));
  const asked = params.get('kind');
  const kind =
    asked !== null && Object.hasOwn(kinds, asked)
      ? asked
      : (named?.kind ?? (kinds.cross ? 'cross' : Object.keys(kinds)[0]));
  /** @type {(key: string, or: number) => number} */
  const whole = (key, or) => (/^\d+$/.test(params.get(key) ?? '') ? Number(params.get(key)) : or);
  return {
    kind,
    layer: whole('layer', asked ? kinds[kind].length - 1 : (named?.layer ?? kinds[kind].length - 1)),
    head: params.get('head') === 'mean' ? null : whole('head', 0),
    moment: MOMENTS.map(([id]) => id).find(id => id === params.get('moment')) ?? 'weights',
    numbers: params.get('numbers') !== 'off',
  };
}

// ---- the numbers of one head
/** @type {(run: Run, points: Points, at: HeadChoice, small: HeadPictures) => Promise<ShownHead>} */
async function fetchHead(run, points, at, small) {
  const kind = KINDS[at.kind];
  const { heads } = small;
  const layer = Math.min(at.layer, small.names.length - 1);
  await small.ask(layer);
  const scope = small.names[layer].slice(0, -'.pattern'.length);
  const { shape } = pointAt(points, `${scope}.pattern`);
  const indexed = shape.length === 3;
  const head = at.head === null && heads > 1 ? null : Math.min(at.head ?? 0, heads - 1);
  const has = MOMENTS.filter(([, name]) => points.has(`${scope}.${name}`));
  const hasMask = await masks(run, points, scope, head ?? 0);
  const moment =
    head === null || !has.some(([id]) => id === at.moment) || (at.moment === 'masked' && !hasMask)
      ? 'weights'
      : at.moment;
  const point = has.find(([id]) => id === moment)?.[1] ?? 'pattern';
  const [Q, K] = shape.slice(-2);
  const hidden =
    hasMask && point === 'pattern' && Math.max(Q, K) <= WHOLE
      ? await api.tensor(run.run, `${scope}.masked`, { index: head ?? 0 })
      : null;
  const large = Math.max(Q, K) > WHOLE;
  const coarse = Q * K > EXACT;
  const options = {
    index: indexed && head !== null ? head : undefined,
    as: large ? 'u8' : (head === null ? heads : 1) * Q * K > EXACT ? 'f16' : 'f32',
    pool: large ? (head === null ? WHOLE / 2 : WHOLE) : undefined, // for a mean, all heads are sent
  };
  const frames = await api.tensors(
    run.run,
    point === 'pattern' ? [`${scope}.pattern`] : [`${scope}.pattern`, `${scope}.${point}`],
    options,
  );
  const weights = head === null ? meanOfHeads(frames[0]) : frames[0].table();
  const values = point === 'pattern' ? weights : frames[1].table();
  /** @type {[number, number]} */
  const step = [Math.ceil(Q / weights.length), Math.ceil(K / weights[0].length)];
  /** @type {(list: keyof Tokens, n: number, by: number) => string[]} */
  const words = (list, n, by) => range(n).map(i => run.tokens[list][i * by] ?? '·');
  const most = Math.max(
    1e-6,
    ...values.map(row => row.reduce((top, v) => (Number.isFinite(v) ? Math.max(top, Math.abs(v)) : top), 0)),
  );
  return {
    small,
    layer,
    head,
    scope,
    indexed,
    moment,
    point,
    hasMask,
    weights,
    values,
    step,
    coarse,
    name: indexed ? `layer ${layer}, ${head === null ? 'mean of all heads' : `head ${head}`}` : 'alignment',
    unseen: hidden && ((i, j) => hidden.raw[i * K + j] === 255), // weights that are 0 because of a mask
    pooled: large
      ? `${Q} × ${K} tokens: each cell is ${head === null ? 'the mean of the heads’ largest' : 'the largest'} ` +
        `of ${step[0]} × ${step[1]}`
      : '',
    scale: point === 'pattern' ? UNIT_SCALE : { kind: 'div', max: most > 1 ? Math.ceil(most) : most },
    rows: words(kind.rows, weights.length, step[0]),
    cols: words(kind.cols, weights[0].length, step[1]),
    follows: words('follows', weights.length, step[0]),
    rowKeys: range(weights.length).map(i => `${kind.rowSide}:${i * step[0]}`),
    colKeys: range(weights[0].length).map(j => `${kind.colSide}:${j * step[1]}`),
  };
}
/** @type {(run: Run, points: Points, scope: string, head: number) => Promise<boolean>} */
async function masks(run, points, scope, head) {
  // a pooled picture shows whether anything is masked
  if (!points.has(`${scope}.masked`)) return false;
  const frame = await api.tensor(run.run, `${scope}.masked`, { index: head, pool: 64 });
  return frame.raw.includes(255);
}
const meanOf = () =>
  h(
    'div.equation',
    m(
      'math',
      m('mover', mi('A'), mo('¯')),
      mo('='),
      m('mfrac', m('mn', '1'), mi('H')),
      m('munder', mo('∑'), mi('h')),
      m('msub', mi('A'), mi('h')),
    ),
  );
/** @type {(table: number[][]) => number} */
const largest = table => Math.max(0, ...table.map(row => Math.max(...row)));
/** @type {(row: Numbers) => number} */
const best = row => row.indexOf(Math.max(...row));
/** @type {(weights: number[][]) => number} */
const entropy = weights =>
  weights.reduce((sum, row) => sum - row.reduce((e, p) => e + (p > 0 ? p * Math.log2(p) : 0), 0), 0) / weights.length;
/** @type {(each: number[], looks: Content[]) => HTMLElement} */
function meanSum(each, looks) {
  const told = each.slice(0, 8).map((weight, n) => [`head ${n}`, num(weight, 4), '']);
  const heads = each.length;
  return h(
    'div',
    h('p.whose', looks),
    sumTable([
      ...told,
      ...(heads > 8 ? [[`${heads - 8} more heads`, '', '']] : []),
      ['mean', num(each.reduce((a, b) => a + b, 0) / heads, 5), `÷ ${heads}`, true],
    ]),
  );
}
// Digits and font size of numbers that fit into the cells, if any.
/** @type {(values: number[][], width: number, u: number, size: number) => { digits?: number; fontSize?: number }} */
function fitting(values, width, u, size) {
  for (const [digits, fontSize] of [
    [2, size],
    [2, 14],
    [1, size],
    [1, 14],
  ]) {
    const longest = values
      .flat()
      .reduce(
        (most, v) =>
          Number.isFinite(v)
            ? Math.max(
                most,
                (width < 48 * u && Math.abs(v) < 1 ? fixed(v, digits).replace('0.', '.') : fixed(v, digits)).length,
              )
            : most,
        0,
      );
    if (longest * fontSize * 0.605 * u + 4 * u <= width) return { digits, fontSize };
  }
  return {};
}
