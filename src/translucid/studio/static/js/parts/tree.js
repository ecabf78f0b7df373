// The tree of a beam search. Thick branches are likely, the best path is green, pruned ones are dotted.
import { h, s, lastOf, isSpecialToken, unit, widest, svgWord, LEFT_OF, RIGHT_OF, ABOVE } from '../dom.js';
import { UNIT_SCALE, num } from '../ink.js';
import * as highlight from '../highlight.js';
import { readout, wordElement as said } from '../readout.js';
import { probabilityText } from './bars.js';
import { arrowNavigation } from '../keyboard.js';
import { withTable } from './table.js';

// Branches below the limit are not drawn; the first limit that leaves enough room is used.
const LIMITS = [0.03, 0.05, 0.1, 0.2, 0.4, 2];
/** @type {Record<string, string>} */
const FATES = {
  followed: 'kept for some steps, then pruned',
  ended: 'ended',
  pruned: 'pruned',
  forbidden: 'not allowed',
  cut: 'cut off',
  stopped: 'stopped',
};

/** @type {(nodes: TreeNode[]) => Branch[]} */
function grown(nodes) {
  // nodes with their parents, and whether they lead to a text that was found
  /** @type {Branch[]} */
  const all = nodes.map(node => ({
    ...node,
    p: Math.exp(node.token_log_prob),
    step: node.length,
    kids: [],
    kept: false,
    up: null,
  }));
  for (const node of all) {
    node.up = node.parent === null ? null : all[node.parent];
    node.up?.kids.push(node);
  }
  for (const leaf of all) if (leaf.place) for (const node of lineage(leaf)) node.kept = true;
  all[0].kept = true;
  return all;
}
/** @type {(all: Branch[], limit: number, extra: number | null) => { shown: Branch[]; hidden: number }} */
function drawn(all, limit, extra) {
  const shown = new Set();
  for (const node of all)
    if (!node.up || (shown.has(node.up) && (node.kept || node.p >= limit || node.number === extra))) shown.add(node);
  return { shown: [...shown], hidden: all.length - shown.size };
}
// A node and those that lead to it, the last first.
/** @type {(node: Branch) => Branch[]} */
const lineage = node => (node.up ? [node, ...lineage(node.up)] : [node]);
// The best child continues in its parent's lane.
/** @type {(shown: Branch[]) => Map<Branch, Branch[]>} */
function sorted(shown) {
  const there = new Set(shown);
  /** @type {(node: Branch) => number} */
  const order = node => (node.chosen ? 4 : 0) + (node.kept ? 2 : 0) + (node.fate === 'followed' ? 1 : 0);
  return new Map(
    shown.map(node => [
      node,
      node.kids.filter(kid => there.has(kid)).sort((a, b) => order(b) - order(a) || b.score - a.score),
    ]),
  );
}
// A branch uses the free lane nearest to its parent's, late branches first.
/** @type {(tree: { shown: Branch[]; kids: Map<Branch, Branch[]> }) => LanesOfTree} */
function lanes({ shown, kids }) {
  /** @type {Map<number, [from: number, to: number][]>} */
  const used = new Map();
  /** @type {Map<Branch, number>} */
  const lane = new Map();
  /** @type {(node: Branch) => Branch[]} */
  const kidsOf = node => kids.get(node) ?? [];
  /** @type {(k: number, a: number, b: number) => boolean} */
  const free = (k, a, b) => !(used.get(k) ?? []).some(([x, y]) => a < y && b > x);
  /** @type {(node: Branch) => Branch[]} */
  const chain = node => {
    const out = [node];
    for (let kid = kidsOf(node).at(0); kid; kid = kidsOf(kid).at(0)) out.push(kid);
    return out;
  };
  /** @type {(first: Branch, k: number) => void} */
  const place = (first, k) => {
    const line = chain(first);
    const from = first.up?.step ?? 0;
    used.set(k, [...(used.get(k) ?? []), [from + 0.05, lastOf(line).step + 0.35]]);
    for (const node of line) lane.set(node, k);
    for (const node of [...line].reverse())
      for (const kid of kidsOf(node).slice(1)) {
        const end = lastOf(chain(kid)).step;
        let d = 1;
        while (!free(k + d, node.step + 0.05, end + 0.35)) d = d > 0 ? -d : 1 - d;
        place(kid, k + d);
      }
  };
  place(shown[0], 0);
  const all = [...lane.values()];
  return { lane, low: Math.min(...all), high: Math.max(...all) };
}

/** @type {(nodes: TreeNode[], number: number | null) => TreeNode[]} */
export const pathTo = (nodes, number) => {
  const out = [];
  for (let at = number; at !== null && nodes[at].parent !== null; at = nodes[at].parent) out.unshift(nodes[at]);
  return out;
};

/** @type {(data: Decoded['tree'], o: TreeOptions) => TreePicture} */
export function tree(data, o) {
  const u = unit();
  const all = grown(data.nodes);
  const head = 26 * u;
  const extra = 20 * u;
  const least = 27 * u;
  const first = o.start ?? '<s>';
  const left = Math.max(40 * u, widest([first], 1) + 10 * u);
  const right = 34 * u;
  /** @param {number} limit */
  const laidOut = limit => {
    const found = drawn(all, limit, o.chosen);
    const steps = Math.max(...found.shown.map(node => node.step));
    const labels = found.shown.slice(1).map(node => node.label);
    const wide = Math.max(56 * u, Math.min(120 * u, widest(labels, 0.875) + 14 * u));
    const cut = stepsShown(steps, (o.width - left - right) / wide - 0.3, o.step, o.from);
    const xw = Math.min(140 * u, (o.width - left - right) / (cut.to - cut.from + 0.3));
    const shown = within(found.shown, cut);
    const placed = lanes({ shown, kids: sorted(shown) });
    const fits = (o.height - head - extra - 4 * u) / (placed.high - placed.low + 1) >= least;
    return { limit, found, steps, cut, xw, shown, placed, fits };
  };
  let laid = laidOut(LIMITS[0]);
  for (const limit of LIMITS.slice(1)) if (!laid.fits) laid = laidOut(limit);
  const { found, steps, cut, xw, shown } = laid;
  const { hidden } = found;
  const kids = sorted(found.shown);
  const { lane, low, high } = laid.placed;
  const count = high - low + 1;
  const laneH = Math.max(least, Math.min(54 * u, (o.height - head - extra - 4 * u) / count));
  const H = Math.max(o.height, head + extra + count * laneH + 4 * u);
  const W = o.width;
  /** @type {(t: number) => number} */
  const X = t => left + (t - cut.from) * xw;
  /** @type {(k: number) => number} */
  const Y = k => head + (k - low + 0.68) * laneH + (k > 0 ? extra : 0); // the winner has room for its numbers
  const svg = s('svg', { width: W, height: H });
  const marks = new Map();
  svg.append(s('rect.stepband', { x: X(o.step - 1) + 2 * u, y: 0, width: xw - 2 * u, height: H, rx: 6 * u }));
  for (let t = cut.from + 1; t <= cut.to; t++)
    svg.append(
      s('rect.stepcol', {
        x: X(t - 1),
        y: 0,
        width: xw,
        height: H,
        fill: 'transparent',
        onclick: () => o.onstep(t),
      }),
      s(
        'text.num',
        {
          x: X(t - 0.5),
          y: 16 * u,
          ...ABOVE,
          style: `pointer-events:none;${t === o.step ? 'fill:var(--accent);font-weight:600' : ''}`,
        },
        String(t),
      ),
    );
  svg.append(
    svgWord(
      cut.from ? '…' : first,
      { x: X(0) - 6 * u, y: Y(0), ...LEFT_OF, style: isSpecialToken(first) ? null : 'font-size:1rem' },
      Infinity,
    ),
  );
  /** @type {(node: Branch) => number} */
  const rank = node => (node.chosen ? 2 : node.kept ? 1 : 0);
  for (const node of shown.slice(1).sort((a, b) => rank(a) - rank(b)))
    if (node.step > cut.from && (!o.upto || node.step <= o.upto)) {
      const mark = branch(node, { ...o, u, X, Y, xw, lane, end: !kids.get(node)?.length });
      marks.set(node, mark);
      svg.append(mark);
    }
  walked(svg, `Search tree: ${steps} steps, ${shown.length - 1} branches shown, ${hidden} hidden`, marks, {
    ...o,
    kids,
    lane,
  });
  const rows = found.shown
    .slice(1)
    .sort((a, b) => a.step - b.step || b.score - a.score)
    .map(node => [
      node.label,
      String(node.step),
      node.up?.up ? node.up.label : first,
      node.p,
      node.token_log_prob,
      node.score,
      node.place ? `text ${node.place}` : (FATES[node.fate] ?? node.fate),
    ]);
  /** @type {() => Table} */
  const told = () => ({
    corner: 'token',
    columns: ['step', 'after', 'probability', 'log p', 'log p so far', 'outcome'],
    rows,
    note: hidden ? `${hidden} more branches are not shown.` : '',
  });
  return {
    el: withTable(h('div.treebox', { style: `width:${W}px;height:${H}px` }, svg), 'The search tree', told),
    limit: laid.limit,
    hidden,
    cut,
    steps,
  };
}

// Left and right along a strand, up and down to the branches of the same step.
/** @type {(svg: SVGSVGElement, name: string, marks: Map<Branch, SVGElement>, o: TreeOptions & Lanes) => void} */
function walked(svg, name, marks, { kids, lane, chosen, step, keyOf, onnode }) {
  const all = [...marks.keys()];
  /** @type {(node: Branch) => Branch[]} */
  const beside = node =>
    all.filter(each => each.step === node.step).sort((a, b) => (lane.get(a) ?? 0) - (lane.get(b) ?? 0));
  /** @type {(node: Branch, down: number, across: number) => Branch | null | undefined} */
  const next = (node, down, across) =>
    across > 0 ? kids.get(node)?.[0] : across < 0 ? node.up : beside(node)[beside(node).indexOf(node) + down];
  /** @type {SVGElement | undefined} */
  let last;
  const leave = () => {
    last?.classList.remove('looked');
    last = undefined;
    highlight.hover([]);
    readout();
  };
  /** @type {Walk<Branch>} */
  const way = {
    name,
    leave,
    take: onnode,
    start: () =>
      all.find(node => node.number === chosen) ?? all.find(node => node.chosen && node.step === step) ?? all[0],
    step: (node, down, across) => {
      const to = next(node, down, across);
      return to && marks.has(to) ? to : node;
    },
    look: node => {
      last?.classList.remove('looked');
      last = marks.get(node);
      last?.classList.add('looked');
      last?.scrollIntoView({ block: 'nearest', inline: 'nearest' });
      highlight.hover(keyOf(node));
      readout(told(node));
    },
  };
  arrowNavigation(svg, way);
}
/** @type {(node: Branch) => Reading} */
const told = node => ({
  at: [
    `step ${node.step}: `,
    said(node.label),
    `, ${node.place ? `text ${node.place}` : (FATES[node.fate] ?? node.fate)}${node.why ? `: ${node.why}` : ''}`,
  ],
  path: `log p ${num(node.token_log_prob, 3)}, so far ${num(node.score, 3)}`,
  value: node.p,
  scale: UNIT_SCALE,
  digits: 4,
});

/** @type {(node: Branch, o: BranchLook) => SVGElement} */
function branch(node, { u, X, Y, xw, lane, end, step, chosen, upto, forced, keyOf, onnode }) {
  const b = lane.get(node) ?? 0;
  const a = (node.up && lane.get(node.up)) ?? b;
  const xa = X(node.up?.step ?? 0);
  const xb = X(node.step);
  const ya = Y(a);
  const yb = Y(b);
  const cut = end && !node.place && node.fate !== 'ended';
  const kind = node.chosen ? 'best' : cut ? 'cut' : '';
  const stop = xb - (end && !upto ? 12 * u : 0);
  const bend = xw * 0.34;
  const mid = a === b ? (xa + xb) / 2 : (xa + bend + xb) / 2;
  const d =
    a === b
      ? `M${xa} ${ya}H${stop}`
      : `M${xa} ${ya}C${xa + bend * 0.8} ${ya} ${xa + bend * 0.1} ${yb} ${xa + bend} ${yb}H${stop}`;
  const size = cut ? 1 : 1.125;
  const over = widest([node.label], size, { weight: node.chosen ? 600 : 400 }) / (xw - (a === b ? 6 * u : bend * 0.6));
  const band = node.step === step ? 'stroke:var(--band);' : '';
  const smaller = over > 1 ? `font-size:${Math.max(0.875, size / over)}rem;` : '';
  const g = s(
    'g',
    {
      class: `node${node.number === chosen ? ' picked' : ''}${forced?.(node) ? ' forced' : ''}`,
      onclick: () => onnode(node),
      onmouseenter: () => {
        highlight.hover(keyOf(node));
        readout(told(node));
      },
      onmouseleave: () => {
        highlight.hover([]);
        readout();
      },
    },
    s('rect', {
      x: Math.min(xa, xb) + (a === b ? 0 : bend),
      y: yb - 22 * u,
      width: xw - (a === b ? 0 : bend),
      height: 28 * u,
      fill: 'transparent',
    }),
    s('path', {
      class: `branch ${kind}`,
      d,
      'stroke-width': (node.chosen ? 4.5 : cut ? 1.75 : 1.25 + 2.4 * node.p) * u,
    }),
  );
  const label = s(
    'text',
    {
      class: `word halo ${isSpecialToken(node.label) ? 'special' : ''} ${kind}`,
      x: mid,
      y: yb - 7 * u,
      ...ABOVE,
      style: smaller + band,
    },
    node.label,
  );
  g.append(highlight.mark(label, ...keyOf(node)));
  if (node.chosen)
    g.append(
      s(
        'text.num.halo',
        { x: mid, y: yb + 18 * u, ...ABOVE, style: `fill:var(--accent);${band}` },
        node.p < 0.005 ? probabilityText(node.p) : num(node.p),
      ),
    );
  if (upto && node.step === upto) return g;
  if (cut)
    g.append(
      s('path', {
        d: `M${xb - 9 * u} ${yb - 4.5 * u}l${9 * u} ${9 * u}m0 ${-9 * u}l${-9 * u} ${9 * u}`,
        stroke: 'var(--ink3)',
        'stroke-width': 1.75 * u,
        'stroke-linecap': 'round',
      }),
    );
  if (end && node.place)
    g.append(
      s('circle', {
        cx: xb,
        cy: yb,
        r: 11.5 * u,
        fill: node.chosen ? 'var(--accent)' : 'var(--bg)',
        stroke: node.chosen ? 'var(--accent)' : 'var(--ink2)',
        'stroke-width': 1.5 * u,
      }),
      s(
        'text.num',
        {
          x: xb,
          y: yb + 0.5 * u,
          ...ABOVE,
          ...RIGHT_OF,
          style: `fill:${node.chosen ? 'var(--on-accent)' : 'var(--ink)'};font-weight:600`,
        },
        String(node.place),
      ),
    );
  return g;
}

// ---- a tree that is longer than the window shows the steps around the selected one (from + 1 to `to`); the window
// moves only if the step is outside.
/** @type {(all: number, most: number, step: number, before?: number | null) => { from: number; to: number }} */
function stepsShown(all, most, step, before = null) {
  const room = Math.max(1, Math.min(all, Math.floor(most)));
  const kept = before !== null && step > before && step <= before + room;
  const from = Math.max(0, Math.min(all - room, kept ? before : step - Math.ceil(room / 2)));
  return { from, to: from + room };
}
// The nodes within the window and the paths that lead to them, parents first.
/** @type {(nodes: Branch[], cut: { from: number; to: number }) => Branch[]} */
function within(nodes, { from, to }) {
  const leads = new Set();
  for (const node of nodes) if (node.step > from && node.step <= to) for (const up of lineage(node)) leads.add(up);
  return nodes.filter(node => leads.has(node) || !node.up);
}
// The hidden steps; a click shows the next of them.
/** @type {(cut: { from: number; to: number }, all: number, open: (step: number) => unknown) => HTMLElement[]} */
export function foldedSteps({ from, to }, all, open) {
  /** @type {(count: number, side: string, at: number) => HTMLElement | null} */
  const few = (count, side, at) =>
    count
      ? h(
          'button.fold',
          { onclick: () => open(at) },
          `${count} ${side} step${count > 1 ? 's' : ''} folded; click to open`,
        )
      : null;
  if (to - from >= all) return [];
  const shown = `${to - from} of ${all} steps shown`;
  return [h('span', shown), few(from, 'earlier', from), few(all - to, 'later', to + 1)].filter(each => each !== null);
}
