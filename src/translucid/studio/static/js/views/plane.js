// Training on the page, step by step: with two inputs and one output, the whole function and its decision boundary can
// be drawn. The server trains; the page draws one step.
import { choice, slider } from '../parts/controls.js';
import { h, icon, onHoverOrFocus, range, s, unit } from '../dom.js';
import * as api from '../api.js';
import { canvas, num, planeMap, rgb } from '../ink.js';
import { readoutDefault, readout } from '../readout.js';
import { keepFocus } from '../keyboard.js';
import { edges } from '../parts/edges.js';
import { contour, planeFrame } from '../parts/planes.js';
import { isCalm } from '../motion.js';
import { replaceAddress } from '../route.js';
import { withTable } from '../parts/table.js';

const PROBLEMS = { and: 'AND', or: 'OR', xor: 'XOR' };
const SEEDS = 10;
const BETWEEN = 90; // ms
const LOW = -0.5;
const HIGH = 1.5;

/** @type {(stage: HTMLElement, shown: Shown) => Promise<void>} */
export async function plane(stage, { model, params, signal }) {
  if (!model.plane) return;
  const { kind, problem: first } = model.plane;
  /** @type {(name: string) => number | null} */
  const given = name => (/^\d{1,3}$/.test(params.get(name) ?? '') ? Number(params.get(name)) : null);
  const state = {
    problem: Object.keys(PROBLEMS).find(key => key === params.get('problem')) ?? first,
    step: given('step') ?? 0,
    seed: given('seed'),
  };
  /** @type {Plane} */
  let now;
  /** @type {ReturnType<typeof setTimeout> | 0} */
  let timer = 0;
  let turn = 0;
  const picture = h('div.planebox');
  const panel = h('aside.panel.planepanel', { 'aria-label': 'Training', tabindex: 0 });
  stage.append(h('div.plane', picture, panel));

  /** @type {(step: number) => Promise<Plane>} */
  const ask = step =>
    api.plane(kind, { problem: state.problem, step, ...(state.seed === null ? {} : { seed: state.seed }) });
  /** @type {(step: number) => Promise<void>} */
  async function show(step) {
    const mine = ++turn;
    const found = await ask(Math.min(step, now?.last ?? step));
    if (mine !== turn) return;
    now = found;
    state.step = found.step;
    replaceAddress({ step: found.step, problem: state.problem, seed: state.seed });
    draw();
  }
  function stop() {
    clearTimeout(timer);
    timer = 0;
  }
  async function run() {
    if (!now || now.step >= now.last) return halt();
    await show(now.step + (isCalm() ? 10 : 1));
    if (timer) timer = setTimeout(run, BETWEEN);
  }
  function halt() {
    stop();
    draw();
  }
  /** @type {(changes: { step?: number; seed?: number; problem?: string }) => Promise<void>} */
  const go = changes => {
    stop();
    Object.assign(state, changes);
    return show(changes.step ?? 0);
  };

  function draw() {
    const held = panel.querySelector(':focus')?.dataset.act;
    const narrow = isNarrow();
    const beside = narrow ? 0 : NETWORK * unit();
    const size = Math.min(picture.clientWidth - beside, room());
    const kept = keepFocus(picture);
    picture.replaceChildren(
      network(now, narrow ? picture.clientWidth : beside, narrow ? 200 * unit() : size),
      drawn(now, size),
    );
    kept();
    panel.replaceChildren(...controls());
    if (held) panel.querySelector(`[data-act="${held}"]`)?.focus();
    readoutDefault({
      at: [`step ${now.step} of ${now.last}: ${now.mistakes} of ${now.points.length} points wrong`],
      path: kind === 'mlp' ? 'loss' : 'mistakes',
      value: kind === 'mlp' ? now.loss : now.mistakes,
      digits: kind === 'mlp' ? 4 : 0,
    });
  }
  const isNarrow = () => document.documentElement.clientWidth < 860 * unit();
  const room = () => (isNarrow() ? 440 * unit() : stage.clientHeight - 8 * unit());
  /** @type {(act: string, name: Content, onclick: () => unknown, more?: Attributes) => HTMLElement} */
  const button = (act, name, onclick, more = {}) => h('button.edit', { 'data-act': act, onclick, ...more }, name);
  function controls() {
    const running = timer !== 0;
    return [
      h('h2', kind === 'mlp' ? 'An MLP learns by gradient descent' : 'A perceptron learns by its rule'),
      choice(
        'Problem',
        Object.entries(PROBLEMS).map(([key, text]) => ({ key, text, more: { 'data-act': key } })),
        state.problem,
        problem => go({ problem, step: 0 }),
      ),
      h(
        'div.planerow',
        button('step', 'Step', () => go({ step: now.step + 1 }), { disabled: now.step >= now.last }),
        button(
          'run',
          [icon(running ? 'pause' : 'play'), running ? 'Pause' : 'Run'],
          () => {
            if (running) return halt();
            timer = setTimeout(run, 0);
            draw();
          },
          { disabled: now.step >= now.last },
        ),
        button('again', 'Start again', () => go({ step: 0 })),
        kind === 'mlp' &&
          button('seed', 'New start', () => go({ seed: (now.seed + 1) % SEEDS, step: 0 }), {
            title: 'Different initial weights',
          }),
      ),
      slider('Training step', [0, now.last], now.step, {
        'data-act': 'slide',
        onchange: event => go({ step: Number(event.target.value) }),
      }),
      h(
        'dl.planefacts',
        fact('step', `${now.step} of ${now.last}`),
        fact('wrong points', `${now.mistakes} of ${now.points.length}`),
        kind === 'mlp' ? fact('loss', num(now.loss, 4)) : null,
        kind === 'mlp' ? fact('start', String(now.seed)) : null,
      ),
      h('p.quiet', kind === 'mlp' ? descent() : rule()),
      weights(),
    ].filter(Boolean);
  }
  /** @type {(name: string, value: string) => Content[]} */
  const fact = (name, value) => [h('dt', name), h('dd.n', value)];
  const descent = () =>
    'Each step moves all weights against the gradient of the loss, half the mean squared error. ' +
    'The line is where the output is one half.';
  function rule() {
    if (now.sample === null) return 'All weights are 0. The next step looks at the first point.';
    const [x1, x2, y] = now.points[now.sample];
    return now.wrong
      ? `The ringed point (${x1}, ${x2}) should get ${y}, got ${1 - y}: it was ${y ? 'added to' : 'subtracted from'} ` +
          'the weights.'
      : `The ringed point (${x1}, ${x2}) was right: nothing changes.`;
  }
  function weights() {
    const rows = Object.entries(now.weights).map(([name, value]) => [
      name,
      [value]
        .flat(3)
        .map(each => num(each, 2))
        .join('  '),
    ]);
    return h(
      'dl.planefacts.weights',
      rows.map(([name, value]) => [h('dt.mono', name), h('dd.n', value)]),
    );
  }
  signal.addEventListener('abort', stop);
  await show(state.step);
}

// The network: a map of the plane at each neuron, and its weights as lines. The large plane is the map of the output.
const NETWORK = 270; // units
/** @type {(now: Plane, width: number, height: number) => HTMLElement} */
function network(now, width, height) {
  const u = unit();
  const side = Math.min(46 * u, height / Math.max(2, now.hidden.length) - 14 * u);
  const [x0, x1] = [28 * u, width * 0.58];
  /** @type {(n: number, k: number) => number} */
  const spread = (n, k) => (height / n) * (k + 0.5);
  /** @type {(Neuron & { map: number[][] })[]} */
  const inputs = [0, 1].map(k => ({ name: `x${k + 1}`, x: x0, y: spread(2, k), map: slope(k) }));
  const neurons = now.hidden.map((map, k) => ({
    name: `neuron ${k}`,
    x: x1,
    y: spread(now.hidden.length, k),
    map,
    told:
      now.kind === 'mlp' ? sumOf(now.weights['layers.0.linear.weight'][k], now.weights['layers.0.linear.bias'][k]) : '',
  }));
  /** @type {(from: Neuron, to: Neuron, value: number, path: string) => WeightLine} */
  const line = (from, to, value, path) => ({
    d: `M${from.x + side} ${from.y}L${to.x} ${to.y}`,
    value,
    from: from.name,
    to: to.name,
    path,
  });
  const output = { name: 'the output', x: width, y: height / 2 };
  const lines =
    now.kind === 'perceptron'
      ? inputs.map((from, i) => line(from, output, now.weights.weight[i], `weight[${i}]`))
      : [
          ...neurons.flatMap((to, j) =>
            inputs.map((from, i) =>
              line(from, to, now.weights['layers.0.linear.weight'][j][i], `layers.0.linear.weight[${j}, ${i}]`),
            ),
          ),
          ...neurons.map((from, i) =>
            line(from, output, now.weights['output.linear.weight'][0][i], `output.linear.weight[0, ${i}]`),
          ),
        ];
  const { el, ctx } = canvas(width, height);
  for (const { x, y, map } of [...inputs, ...neurons]) ctx.drawImage(planeMap(map, shade), x, y - side / 2, side, side);
  const frames = [...inputs, ...neurons].map(({ name, x, y, told }) => {
    const frame = s(
      'rect.neuron',
      { x, y: y - side / 2, width: side, height: side, rx: 3 * u, role: 'img', tabindex: told ? 0 : null },
      s('title', told ? `${name}: ${told}` : name),
    );
    const look = () => readout({ at: [name], path: told });
    return told ? onHoverOrFocus(frame, look, () => readout()) : frame;
  });
  const names = inputs.map(({ name, x, y }) =>
    s('text.tick', { x: x - 6 * u, y: y + 5 * u, 'text-anchor': 'end' }, name),
  );
  return h(
    'div.heat.planenet',
    { style: `width:${width}px;height:${height}px` },
    el,
    s('svg', { width, height, role: 'group', 'aria-label': 'The network' }, edges(lines), frames, names),
  );
}
/** @type {(value: number) => number[]} */
const shade = value => rgb(value, { kind: 'div', max: 1 });
/** @type {(weights: number[], bias: number) => string} */
const sumOf = ([a, b], c) => `tanh(${num(a)} x1 ${plus(b)} x2 ${plus(c)})`;
/** @type {(value: number) => string} */
const plus = value => `${value < 0 ? '−' : '+'} ${num(Math.abs(value))}`;
// An input as a map: its own value, from −1 to 1 over the plane.
/** @type {(k: number) => number[][]} */
const slope = k => range(9).map(j => range(9).map(i => ((k ? j : i) / 8) * 2 - 1));

// The output as colours over the plane, the points, and the line where the output is one half.
/** @type {(now: Plane, size: number) => HTMLElement} */
function drawn(now, size) {
  const u = unit();
  const edge = 30 * u;
  const side = Math.max(120, size - 2 * edge);
  /** @type {(value: number) => number} */
  const place = value => ((value - LOW) / (HIGH - LOW)) * side;
  const { el, ctx } = canvas(side, side);
  ground(now, ctx, side, place);
  const marks = now.points.map(([x1, x2, y, out], k) => {
    const wrong = out > 0.5 !== y > 0.5;
    const at = { cx: place(x1), cy: side - place(x2) };
    return [
      k === now.sample ? s('circle.looked', { ...at, r: 11 * u }) : null,
      s('circle', { ...at, r: 5 * u, class: `point${y > 0.5 ? ' one' : ''}${wrong ? ' wrong' : ''}` }),
    ];
  });
  const pieces = now.kind === 'mlp' ? contour(now.grid, now.ticks) : straight(now.weights);
  const line = pieces
    .map(([[a, b], [c, d]]) => `M${place(a)} ${side - place(b)}L${place(c)} ${side - place(d)}`)
    .join('');
  const ticks = [0, 1].flatMap(value => ['x', 'y'].map(axis => ({ axis, at: place(value), text: String(value) })));
  const label =
    `The network’s output over the plane after ${now.step} steps; ` +
    `${now.mistakes} of ${now.points.length} points lie on the wrong side`;
  const box = planeFrame(
    { el, side, edge, label, ticks },
    s('path.boundary', { d: line }),
    arrow(now, place, side, u),
    marks,
    s('text.tick', { x: side, y: side + 18 * u, 'text-anchor': 'end' }, 'x1'),
    s('text.tick', { x: -8 * u, y: 10 * u, 'text-anchor': 'end' }, 'x2'),
  );
  return withTable(box, 'The points and the network’s outputs', () => ({
    corner: 'point',
    columns: ['x1', 'x2', 'wanted', 'output'],
    rows: now.points.map(([x1, x2, y, out], k) => [String(k), num(x1, 3), num(x2, 3), String(y), num(out, 3)]),
    note: `After ${now.step} steps of ${now.kind === 'mlp' ? 'gradient descent' : 'the perceptron’s rule'}.`,
  }));
}
// The output as colours: on a grid for an MLP, on both sides of the line for a perceptron.
/** @type {(value: number) => number[]} */
const colour = value => rgb(Math.max(-0.5, Math.min(0.5, value - 0.5)), { kind: 'div', max: 1.1 });
/** @type {(now: Plane, ctx: CanvasRenderingContext2D, side: number, place: (value: number) => number) => void} */
function ground(now, ctx, side, place) {
  if (now.kind === 'perceptron') {
    ctx.fillStyle = `rgb(${colour(0).join(' ')})`;
    ctx.fillRect(0, 0, side, side);
    ctx.fillStyle = `rgb(${colour(1).join(' ')})`;
    ctx.beginPath();
    for (const [a, b] of halfPlane(now.weights)) ctx.lineTo(place(a), side - place(b));
    ctx.fill();
    return;
  }
  ctx.drawImage(planeMap(now.grid, colour), 0, 0, side, side);
}
// The corners of the region where w · x + b > 0, in order; those on the line are marked.
/** @type {(weights: PerceptronWeights) => Corner[]} */
function halfPlane({ weight: [w1, w2], bias }) {
  /** @type {(corner: Corner) => number} */
  const sum = ([a, b]) => w1 * a + w2 * b + bias;
  /** @type {Corner[]} */
  const square = [
    [LOW, LOW],
    [HIGH, LOW],
    [HIGH, HIGH],
    [LOW, HIGH],
  ];
  return square.flatMap((from, k) => {
    const to = square[(k + 1) % 4];
    const [v, w] = [sum(from), sum(to)];
    const f = v / (v - w);
    /** @type {Corner[]} */
    const cut = v > 0 !== w > 0 ? [[from[0] + f * (to[0] - from[0]), from[1] + f * (to[1] - from[1]), 'cut']] : [];
    return v > 0 ? [from, ...cut] : cut;
  });
}
/** @type {(weights: PerceptronWeights) => number[][][]} */
function straight(weights) {
  const ends = halfPlane(weights).flatMap(([x, y, cut]) => (cut ? [[x, y]] : []));
  return ends.length === 2 ? [ends] : [];
}
// The weights of a perceptron are perpendicular to its line.
/** @type {(now: Plane, place: (value: number) => number, side: number, u: number) => SVGElement | null} */
function arrow(now, place, side, u) {
  if (now.kind !== 'perceptron' || Math.hypot(...now.weights.weight) === 0) return null;
  const w = now.weights.weight;
  const long = Math.hypot(...w);
  const off = (0.5 * (w[0] + w[1]) + now.weights.bias) / (long * long); // from the middle to the line
  const [a, b] = [0.5 - off * w[0], 0.5 - off * w[1]];
  const [c, d] = [a + (0.35 * w[0]) / long, b + (0.35 * w[1]) / long];
  const back = Math.atan2(-(d - b), c - a);
  const [x, y] = [place(c), side - place(d)];
  /** @type {(turn: number) => string} */
  const barb = turn => `M${x} ${y}L${x - 9 * u * Math.cos(back + turn)} ${y - 9 * u * Math.sin(back + turn)}`;
  return s('path.weightarrow', { d: `M${place(a)} ${side - place(b)}L${x} ${y}${barb(0.5)}${barb(-0.5)}` });
}
