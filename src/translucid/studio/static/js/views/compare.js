// Compare: two models on one sentence. A is solid, B dashed; what cannot be compared is stated.
import { attentionKind } from '../anatomy.js';
import { cellRange, largestIn, UNIT_SCALE, num, scaleOf, MANY } from '../ink.js';
import { choice, modelSelect } from '../parts/controls.js';
import { append, h, unit, widest, mean, range } from '../dom.js';
import * as api from '../api.js';
import * as highlight from '../highlight.js';
import { readoutDefault, wordElement } from '../readout.js';
import { isOpened, numbersOf, otherModel, sharesOf, toModel, wordsOf } from '../answer.js';
import { go, replaceAddress, anyValue } from '../route.js';
import { heatmap, headRoom } from '../parts/heatmap.js';
import { pairs } from '../parts/pairs.js';
import { planePicture } from '../parts/planes.js';
import { changeBars } from '../parts/bars.js';
import { grid, tableWithHead } from '../parts/table.js';
import { keepFocus } from '../keyboard.js';

/** @type {Record<string, string>} */
const KINDS = {
  cross: 'cross-attention',
  encoder: 'encoder attention',
  decoder: 'decoder attention',
  gates: 'gates',
  vectors: 'last vectors',
};
/** @type {Record<string, string>} */
const HEADINGS = {
  target_tokens: 'What each generates',
  tags: 'The tag of each word',
  next_tokens: 'The next token each predicts',
  masked_tokens: 'The likeliest token at each position',
  values: 'The values',
};
const LONG = 96; // words; beyond, neighbours share a cell
const LOW = 320; // units of height of a picture in a narrow window
const MOST = 40; // words along an axis of a picture

/** @type {View} */
export const compare = {
  name: 'Compare',
  about: {
    shows: 'Two models on the same text, side by side.',
    read: 'Choose the second model and what to compare; amber and violet show differences.',
    terms: ['layer', 'head', 'token'],
  },
  draw: drawView,
  lacks: (_, all) => (all.length > 1 ? '' : 'Open two models: translucid explore A B'),
  busy: () => 'Both models are reading …',
  walksTokens: true,
  linkParts: { with: anyValue, pic: anyValue },
};

/** @type {(stage: HTMLElement, shown: Shown) => Promise<void>} */
async function drawView(stage, { all, model, run, params }) {
  const opened = all.filter(isOpened);
  const others = opened.filter(each => each.m !== model.m);
  const other = otherModel(model, others, params.get('with'));
  if (!other) return;
  const box = h('div.cmp');
  const pair = h('div.cmptop');
  stage.append(box);
  const headA = pick('A', 'solid', model, opened, to =>
    toModel('compare', model, to, { m: to.m, with: to.m === other.m ? model.m : other.m }),
  );
  const headB = pick('B', 'dashed', other, others, to => go('compare', { with: to.m }));
  box.append(h('div.cmphead', headA, headB), pair);
  let second;
  try {
    second = await api.run({ m: other.m, text: run.text });
  } catch (error) {
    pair.append(told(`${other.name} cannot read this: ${api.refusal(error)}`));
    return;
  }
  if (model.task !== other.task)
    pair.append(
      told(
        `${model.name} is for ${model.task}, ${other.name} for ${other.task}: ` +
          'their outputs are of different kinds, so they are shown separately and losses are not compared.',
      ),
    );
  // what A generates
  const first = params.get('target') === null ? run : await api.run({ m: model.m, text: run.text });
  append(
    pair,
    h('div', { class: `answers${model.task === other.task ? '' : ' alone'}` }, answers(model, first, other, second)),
    await losses(model, first, other, second),
    adapters(model, run),
    adapters(other, second),
    await depths(model, first, other, second),
  );
  await pictures(box, { model, run, other, second, params });
}
/** @type {(letter: string, line: string, model: Model, all: Model[], onpick: (to: Model) => unknown) => HTMLElement} */
function pick(letter, line, model, all, onpick) {
  return h(
    'label',
    { class: `which ${line}` },
    h('b', letter),
    modelSelect(`Model ${letter}`, all, model, onpick),
    h('span.quiet', `${model.family}, ${model.parameters.toLocaleString('en')} weights`),
  );
}
/** @type {(text: string) => HTMLElement} */
const told = text => h('p.cannot', { role: 'note' }, text);

// ---- their outputs
/** @type {(model: OpenedModel, run: Run, other: OpenedModel, second: Run) => Content[]} */
function answers(model, run, other, second) {
  /** @type {(which: OpenedModel, each: Run) => Said[]} */
  const says = (which, each) =>
    which.outputs === 'label'
      ? []
      : which.outputs === 'values'
        ? numbersOf(each).map(v => ({ word: num(v, 4), probability: null }))
        : which.outputs === 'target_tokens'
          ? each.tokens.follows.slice(0, -1).map(w => ({ word: w, probability: null }))
          : wordsOf(each).map(w => ({ word: w.trim() || w, probability: null }));
  const a = says(model, run);
  const b = says(other, second);
  /** @type {(which: OpenedModel, each: Run, letter: string) => HTMLElement} */
  const alone = (which, each, letter) =>
    h(
      'div',
      h('h3', `${letter}: ${which.name}`),
      which.outputs === 'label' ? labels(sharesOf(each)) : paired(which, says(which, each), null, { labels: [letter] }),
    );
  if (model.task !== other.task) return [alone(model, run, 'A'), alone(other, second, 'B')];
  if (model.outputs !== 'label') {
    const tagged = ['tags', 'masked_tokens'].includes(model.outputs);
    const { source, target } = run.tokens;
    const reads = tagged ? source : model.outputs === 'next_tokens' ? target : null;
    const fits = !reads || a.length === b.length;
    return [
      h(
        'h3',
        HEADINGS[model.outputs],
        h('span.of', a.length === b.length && a.every((w, i) => w.word === b[i].word) ? ': the same' : ''),
      ),
      paired(model, a, b, {
        reads: fits ? reads : null,
        labels: ['A', 'B', model.outputs === 'tags' ? 'word' : tagged ? 'token' : 'after'],
        dashed: true,
        // a value of an embedding has no token
        keyOf: model.outputs === 'values' ? null : i => `${run.tokens.target.length ? 'tgt' : 'src'}:${i}`,
      }),
    ];
  }
  const [before, now] = [sharesOf(run), sharesOf(second)];
  const shared = Object.keys(before).filter(label => label in now);
  if (!shared.length)
    return [told('The two models have different labels.'), alone(model, run, 'A'), alone(other, second, 'B')];
  return [
    h('h3', 'The answer', h('span.of', ': A is the outline, B the fill; the number is B − A')),
    changeBars(shared.map(label => ({ word: label, before: before[label], now: now[label] }))),
  ];
}
// The first values of an embedding, which has hundreds, and a button for the others.
/** @type {(model: Model, one: Said[], two: Said[] | null, options: PairOptions) => HTMLElement} */
function paired(model, one, two, options) {
  const length = Math.max(one.length, two?.length ?? 0);
  if (model.outputs !== 'values' || length <= MANY) return pairs(one, two, options);
  const box = h('div');
  /** @type {(count: number) => void} */
  const draw = count => {
    highlight.forget(box);
    box.replaceChildren(
      h(
        'p.tail',
        count < length ? `The first ${count} of ${length} values. ` : `All ${length} values. `,
        h(
          'button.more',
          {
            onclick: () => {
              draw(count < length ? length : MANY);
              box.querySelector('button')?.focus({ preventScroll: true });
            },
          },
          count < length ? `Show all ${length}` : `Show the first ${MANY}`,
        ),
      ),
      pairs(one.slice(0, count), two?.slice(0, count) ?? null, options),
    );
    highlight.paint();
  };
  draw(MANY);
  return box;
}
/** @type {(answer: Record<string, number>) => HTMLElement} */
const labels = answer =>
  h(
    'div',
    Object.entries(answer).map(([label, share]) => h('p', label, ' ', h('span.n', num(share, 3)))),
  );

// ---- losses on each other's text: nats per token, or for the whole text if the tokens differ
/** @type {(model: OpenedModel, run: Run, other: OpenedModel, second: Run) => Promise<HTMLElement>} */
async function losses(model, run, other, second) {
  if (model.task !== other.task || run.loss === null)
    return h(
      'div.lossbox',
      h('h3', 'Loss'),
      h(
        'p.quiet',
        model.task !== other.task
          ? 'not comparable'
          : model.outputs === 'target_tokens'
            ? ''
            : 'There is no target to compute a loss from.',
      ),
    );

  if (model.outputs === 'target_tokens') {
    const [crossA, crossB] = await Promise.all([
      api.run({ m: other.m, text: run.text, target: run.target }),
      api.run({ m: model.m, text: run.text, target: second.target }),
    ]);
    /** @type {[string, Run, Run][]} */
    const rows = [
      ['A’s text', run, crossA],
      ['B’s text', crossB, second],
    ];
    return lossTable(rows, run.target === second.target);
  }
  return lossTable([['the text', run, second]], true);
}
/** @type {(rows: [string, Run, Run][], same: boolean) => HTMLElement} */
function lossTable(rows, same) {
  /** @type {(each: Run) => number} */
  const per = each => each.tokens.follows.filter(w => w !== '?').length;
  /** @type {(each: Run) => number} */
  const whole = each => (each.loss ?? NaN) * per(each);
  const differ = rows.some(([, a, b]) => per(a) !== per(b));
  return h(
    'div.lossbox',
    h('h3', differ ? 'Loss of the whole text, nats' : 'Loss, nats per token'),
    tableWithHead(
      'hyps losses',
      [[''], ['A reads it', { class: 'r' }], ['B reads it', { class: 'r' }]],
      (same ? rows.slice(0, 1) : rows).map(([name, a, b]) =>
        h(
          'tr',
          h('td', same && rows.length > 1 ? 'their text' : name),
          [a, b].map(each => h('td.r.n', num(differ ? whole(each) : (each.loss ?? NaN), 4))),
        ),
      ),
    ),
    differ ? h('p.tail', 'The models tokenize the text differently, so the totals are shown.') : '',
  );
}

// ---- what LoRA adapters add, compared with their frozen layers
/** @type {(model: Model, run: Run) => Content} */
function adapters(model, run) {
  if (!run.adapters?.length) return '';
  const most = Math.max(...run.adapters.map(each => each.ratio), 1e-9);
  return lengths(
    'adapters',
    `What fine-tuning added in ${model.name}: mean lengths of vectors`,
    ['layer', 'adapter adds', 'frozen layer’s output', 'ratio'],
    run.adapters.map(each => [each.layer, [num(each.added, 3), num(each.frozen, 3)], each.ratio]),
    most,
  );
}
// A table whose last column has a bar beside each number.
/** @type {(kind: string, title: string, head: string[], rows: ComparedRow[], most: number) => HTMLElement} */
function lengths(kind, title, head, rows, most) {
  return h(
    'div',
    { class: `lossbox ${kind}` },
    h('h3', title),
    tableWithHead(
      'hyps',
      head.map((each, i) => [each, { class: i ? 'r' : null }]),
      rows.map(([name, values, last]) =>
        h(
          'tr',
          h('th.n', { scope: 'row' }, name),
          values.map(value => h('td.r.n', value)),
          h(
            'td.r.n',
            h('meter', { min: 0, max: most, value: last, 'aria-label': `${head.at(-1)} at ${name}` }),
            ` ${num(last, 3)}`,
          ),
        ),
      ),
    ),
  );
}

// ---- the difference from the model it was tuned from, layer by layer
/** @type {(model: Model, run: Run, other: Model, second: Run) => Promise<Content>} */
async function depths(model, run, other, second) {
  if (!model.tuned && !other.tuned) return '';
  const rows = (await api.diff(run.run, second.run)).depths ?? [];
  if (!rows.length) return '';
  const most = Math.max(...rows.map(each => each.relative ?? 0), 1e-9);
  return lengths(
    'depths',
    'How far fine-tuning moved the vectors of this text, layer by layer',
    ['depth', 'cosine', '‖A − B‖ / ‖A‖'],
    rows.map(each => [each.depth, [num(each.cosine ?? NaN, 4)], each.relative ?? 0]),
    most,
  );
}

// ---- the same picture twice, with shared hover
/** @type {(box: HTMLElement, o: Compared & { second: Run; params: URLSearchParams }) => Promise<void>} */
async function pictures(box, { model, run, other, second, params }) {
  // both read A's translation, so the rows are the same
  const b =
    model.outputs === 'target_tokens' && other.outputs === 'target_tokens' && run.target !== null
      ? await api.run({ m: other.m, text: run.text, target: run.target })
      : second;
  const kinds = kindsOf(run).filter(each => kindsOf(b).includes(each));
  const holder = h('div.cmppics');
  if (inPlane(run) && inPlane(b)) {
    box.append(holder);
    return planes(holder, model, other, run);
  }
  if (!kinds.length) {
    box.append(told('These two models have no kind of picture in common.'));
    return;
  }
  let kind = kinds.find(each => each === params.get('pic')) ?? kinds[0];
  const chooser = h('div');
  const named = kinds.map(each => ({ key: each, text: KINDS[each] }));
  const note = h('span.quiet', { style: 'font-size:var(--t1)' });
  box.append(h('div.cmpkinds', chooser, note), holder);
  const draw = async () => {
    const back = keepFocus(chooser);
    /** @type {(each: string) => void} */
    const choose = each => {
      kind = each;
      replaceAddress({ pic: kind });
      draw();
    };
    chooser.replaceChildren(choice('Picture', named, kind, choose));
    back();
    const [one, two] = await Promise.all([table(run, kind), table(b, kind)]);
    const alike =
      one.values.length === two.values.length && one.values[0].length === two.values[0].length && kind !== 'vectors';
    note.replaceChildren(
      [
        one.note,
        model.outputs === 'target_tokens' &&
        other.outputs === 'target_tokens' &&
        run.target !== second.target &&
        kind !== 'encoder'
          ? 'both read A’s text'
          : '',
        alike
          ? ''
          : kind === 'vectors'
            ? 'units of two models do not correspond, so no difference is drawn'
            : 'different sizes: no difference is drawn',
      ]
        .filter(Boolean)
        .join('; '),
    );
    const gap = alike
      ? { ...one, name: 'B − A', values: one.values.map((row, r) => row.map((v, c) => two.values[r][c] - v)) }
      : null;
    if (gap)
      gap.scale = {
        kind: 'div',
        max: Math.max(
          0.05,
          ...gap.values
            .flat()
            .map(v => Math.abs(v))
            .filter(Number.isFinite),
        ),
      };
    const shown = [
      { name: 'A', line: 'solid', of: model.name, data: one },
      ...(gap ? [{ name: 'B − A', line: 'gap', of: '', data: gap }] : []),
      { name: 'B', line: 'dashed', of: other.name, data: two },
    ];
    holder.replaceChildren(...shown.map(({ name, line, of }) => figure(name, line, of)));
    shown.forEach(({ name, data }, i) => holder.children[i].append(drawn(data, holder, shown.length, name)));
    readoutDefault({ at: ['select a cell to highlight it in every picture'], path: one.path, scale: one.scale });
  };
  await draw();
}
// The functions of two inputs, their difference between them.
/** @type {(run: Run) => boolean} */
const inPlane = run => run.tokens.features.length === 2 && numbersOf(run).length === 1;
/** @type {(holder: HTMLElement, model: Model, other: Model, run: Run) => Promise<void>} */
async function planes(holder, model, other, run) {
  const { ticks, grids } = await api.planes(model.m, other.m);
  const point = run.text
    .trim()
    .split(/[\s,]+/)
    .map(Number);
  const gap = grids[0].map((row, j) => row.map((value, i) => grids[1][j][i] - value));
  const classes = model.plane && other.plane; // their outputs mean 0 or 1
  const all = grids.flat(2);
  const centre = classes ? 0.5 : (Math.min(...all) + Math.max(...all)) / 2;
  /** @type {(values: number[], from: number) => number} */
  const most = (values, from) => Math.max(1e-9, ...values.map(value => Math.abs(value - from)));
  const scale = { kind: 'div', max: classes ? 1.1 : most(all, centre) };
  const same = { ticks, point, scale, centre, level: classes ? 0.5 : null };
  const difference = { ...same, grid: gap, centre: 0, level: null, scale: { kind: 'div', max: most(gap.flat(), 0) } };
  const shown = [
    { name: 'A', line: 'solid', of: model.name, data: { ...same, grid: grids[0] } },
    { name: 'B − A', line: 'gap', of: '', data: difference },
    { name: 'B', line: 'dashed', of: other.name, data: { ...same, grid: grids[1] } },
  ];
  holder.replaceChildren(...shown.map(({ name, line, of }) => figure(name, line, of)));
  const { width, height } = roomOf(holder, shown.length);
  shown.forEach(({ name, of, data }, i) =>
    holder.children[i].append(planePicture({ name: of || name, ...data }, Math.min(width, height))),
  );
  readoutDefault({
    at: [
      classes
        ? 'the output at every input; the line is where it is one half, the ring is this input'
        : 'the output at every input; the ring is this input',
    ],
    path: 'output',
  });
}
/** @type {(name: string, line: string, of: string) => HTMLElement} */
const figure = (name, line, of) =>
  h('figure', { class: `cmppic ${line}` }, h('figcaption', h('b', name), of && ` ${of}`));
/** @type {(holder: HTMLElement, count: number) => Size} */
function roomOf(holder, count) {
  const u = unit();
  const below = getComputedStyle(holder).flexDirection === 'column'; // in a narrow window one is below the other
  return {
    width: holder.clientWidth / (below ? 1 : count) - 14 * u,
    height: below ? LOW * u : holder.clientHeight - 30 * u,
  };
}
/** @type {(data: ComparedTable, holder: HTMLElement, count: number, name: string) => HTMLElement} */
function drawn(data, holder, count, name) {
  const u = unit();
  const { width, height } = roomOf(holder, count);
  const labelWidth = Math.max(36, 16 + Math.ceil(widest(data.rows, 1, { most: 16 }) / u));
  const nC = data.values[0].length;
  const nR = data.values.length;
  const cw = Math.max(5 * u, Math.min(56 * u, (width - labelWidth * u - 20 * u) / nC));
  const every = Math.max(1, Math.ceil((26 * u) / cw));
  const cols = data.cols?.map((w, c) => (c % every ? '' : w)); // labels that would lie on one another are left out
  const head = data.cols ? headRoom(data.cols, cw * (every > 1 ? 0 : 1), 1) : { slant: false, labelHeight: 8 };
  const ch = Math.max(20 * u, Math.min(44 * u, (height - head.labelHeight * u) / nR));
  return h(
    'div.cmpscroll',
    heatmap({
      ...data,
      cols,
      ...head,
      table: () => ({
        ...grid(data.rows, data.cols, data.values),
        note: data.exact ? data.note : `${data.note}. Numbers in this picture are rounded to 255 steps.`,
      }),
      title: `${name}: ${data.path}`,
      cellWidth: cw,
      cellHeight: ch,
      labelWidth,
      wordSize: '1rem',
      gap: 1,
      digits: cw > 44 * u && ch > 22 * u ? 2 : undefined,
      fontSize: 14,
      read: (r, c) => ({
        at: [`${name}: `, ...(data.told?.(r, c) ?? [])],
        path: data.path,
        value: data.values[r][c],
        scale: data.scale,
      }),
    }),
  );
}
/** @type {(run: Run) => string[]} */
function kindsOf(run) {
  const found = ['cross', 'encoder', 'decoder'].filter(kind => patternsOf(run, kind).length);
  if (gatesOf(run).length) found.push('gates');
  if (lastOf(run)) found.push('vectors');
  return found;
}
/** @type {(run: Run, kind: string) => Point[]} */
const patternsOf = (run, kind) =>
  run.points.filter(point => point.at.endsWith('.pattern') && attentionKind(point.at) === kind);
// Few numbers are sent in full precision, many are rounded.
const EXACT = 4096;
/** @type {(points: Point[]) => boolean} */
const few = points => points.length <= 64 && points.every(point => point.shape.reduce((a, b) => a * b, 1) <= EXACT);
/** @type {(run: Run, points: Point[]) => Promise<Frame[]>} */
function fetched(run, points) {
  const names = points.map(point => point.at);
  return api.tensors(run.run, names, few(points) ? { as: 'f32' } : { as: 'u8', pool: 512 });
}
/** @type {(run: Run) => Point[]} */
const gatesOf = run =>
  run.points.filter(
    point => /\.(\w+_gate)$/.test(point.at) && !point.at.includes('decoder') && point.shape.length === 2,
  );
/** @type {(run: Run) => Point | undefined} */
function lastOf(run) {
  const side = run.tokens.target.length ? 'decoder' : 'encoder';
  return run.points
    .filter(
      point =>
        point.shape.length === 2 &&
        point.at.split('.').includes(side) &&
        /(final_norm\.output|\.hidden|_residual\.sum)$/.test(point.at),
    )
    .at(-1);
}
/** @type {<T>(list: T[]) => T[]} */
const cut = list => list.slice(0, MOST);
/** @type {(run: Run, kind: string) => Promise<ComparedTable>} */
async function table(run, kind) {
  const { source, target, follows } = run.tokens;
  const steps = target.map((w, i) => (follows[i] === undefined ? w : [`${w} → `, follows[i]]));
  /** @type {(w: Name) => string} */
  const flat = w => (Array.isArray(w) ? w.join('') : w);
  if (kind === 'gates') return gates(run);
  if (kind === 'vectors') return vectors(run);
  const longest = Math.max(source.length, target.length);
  const pooled = longest > LONG; // the server pools: no head travels whole
  const patterns = patternsOf(run, kind);
  const exact = few(patterns);
  const all = exact
    ? (await fetched(run, patterns)).flatMap(tablesOf)
    : tablesOf(await api.heads(run.run, kind, undefined, pooled ? 40 : LONG));
  const nQ = all[0].length;
  const nK = all[0][0].length;
  const rows = cut(range(nQ));
  const cols = cut(range(nK));
  const side = kind === 'encoder' ? 'src' : 'tgt';
  const across = kind === 'decoder' ? 'tgt' : 'src';
  const queries = kind === 'encoder' ? source : steps;
  const keys = kind === 'decoder' ? target : source;
  const each = pooled ? Math.ceil(longest / 40) : 1;
  /** @type {(r: number) => Name} */
  const query = r => queries[pooled ? Math.floor((r * queries.length) / nQ) : r] ?? String(r);
  /** @type {(c: number) => string} */
  const key = c => keys[pooled ? Math.floor((c * keys.length) / nK) : c] ?? String(c);
  return {
    values: rows.map(r => cols.map(c => mean(all.map(head => head[r][c])))),
    rows: rows.map(query),
    cols: cols.map(key),
    scale: UNIT_SCALE,
    exact,
    rowKey: r => (pooled ? `row:${r}` : `${side}:${r}`),
    colKey: c => (pooled ? `column:${c}` : `${across}:${c}`),
    path: `mean of ${patterns.map(point => point.at).join(', ')}`,
    told: (r, c) => [wordElement(flat(query(r))), ' attends to ', wordElement(key(c))],
    note: [
      'mean of all layers and heads',
      ...(pooled
        ? [`a cell is the largest of up to ${each} tokens each way`]
        : nQ > MOST || nK > MOST
          ? [`the first ${MOST} tokens are shown`]
          : []),
    ].join('; '),
  };
}
// Every head separately; the leading axes are layers, heads, or none.
/** @type {(frame: Frame) => number[][][]} */
function tablesOf(frame) {
  const lead = frame.shape.slice(0, -2);
  /** @type {(i: number) => number[]} */
  const index = i => lead.map((size, axis) => Math.floor(i / lead.slice(axis + 1).reduce((a, b) => a * b, 1)) % size);
  return range(lead.reduce((a, b) => a * b, 1)).map(i => frame.table(...index(i)));
}
/** @type {(run: Run) => Promise<ComparedTable>} */
async function gates(run) {
  const points = gatesOf(run);
  const found = await fetched(run, points);
  const words = cut(run.tokens.source.length ? run.tokens.source : run.tokens.target);
  /** @type {(at: string) => string} */
  const name = at =>
    at
      .replace(/^(encoder|decoder)\./, '')
      .replace(/recurrent\.|layers\.|(lstm|gru)\.|_gate/g, '')
      .replaceAll('.', ' ');
  return {
    values: found.map(frame => words.map((_, i) => mean(frame.row(i)))),
    rows: points.map(point => name(point.at)),
    cols: words,
    scale: UNIT_SCALE,
    exact: few(points),
    colKey: c => `${run.tokens.source.length ? 'src' : 'tgt'}:${c}`,
    path: 'mean over all units',
    told: (r, c) => [name(points[r].at), ' at ', wordElement(words[c])],
    note: 'each gate, mean over its units',
  };
}
/** @type {(run: Run) => Promise<ComparedTable>} */
async function vectors(run) {
  const point = lastOf(run);
  if (!point) throw new Error('a model without vectors was asked for them');
  const [frame] = await fetched(run, [point]);
  const words = cut(run.tokens.target.length ? run.tokens.target : run.tokens.source);
  const wide = Math.min(24, frame.shape[1]);
  /** @type {(row: number[]) => number[]} */
  const squeeze = row => range(wide).map(k => row[largestIn(row, ...cellRange(row.length, wide, k))]);
  return {
    values: words.map((_, i) => squeeze(frame.row(i))),
    rows: words,
    cols: null,
    scale: scaleOf(frame),
    exact: few([point]),
    rowKey: r => `${run.tokens.target.length ? 'tgt' : 'src'}:${r}`,
    path: point.at,
    told: r => [wordElement(words[r])],
    note: `${point.at}, largest of ${Math.ceil(frame.shape[1] / wide)} units in a cell`,
  };
}
