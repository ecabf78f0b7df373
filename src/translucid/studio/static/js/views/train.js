// Train: curves, gradient norms by layer, and the model's answer to one text at each saved step.
import { slider } from '../parts/controls.js';
import { plane } from './plane.js';
import { h, icon, lastOf, isSpecialToken, unit, widest, range } from '../dom.js';
import { packedPalette, pixelCanvas, shade } from '../ink.js';
import * as api from '../api.js';
import { replaceAddress, anyValue } from '../route.js';
import { readoutDefault } from '../readout.js';
import { follow, lastStep, statusText } from '../training.js';
import { curve, significant } from '../parts/curve.js';
import { norms } from '../parts/norms.js';
import { probabilityBars } from '../parts/bars.js';
import { headRoom, heatmap } from '../parts/heatmap.js';

const CALM = 5000; // ms between two words of the resting read-out
/** @type {Record<string, string>} */
const NAMES = { bleu: 'BLEU', span_f1: 'span F1', r_squared: 'R²' };

/** @type {View} */
export const train = {
  name: 'Train',
  about: {
    shows: 'How the model learnt: its error step by step.',
    read: 'The curves show loss and quality. Move along the steps to see what the model answered at that time.',
    terms: ['gradient'],
  },
  draw: (stage, found) => (found.model.plane ? plane : drawView)(stage, found),
  lacks: model => (model.trains || model.plane ? '' : 'Open the run folder written by training, not only a model'),
  withoutModel: true,
  busy: ({ model, params }) =>
    model.plane
      ? `Training on ${params.get('problem')?.toUpperCase() ?? 'the points'}, step by step …`
      : 'Train: computing …',
  keys: [['Space', 'pause the page (training continues)']],
  linkParts: { problem: anyValue },
};

/** @type {(stage: HTMLElement, shown: Shown) => Promise<void>} */
async function drawView(stage, { model, params, signal }) {
  const said = h('p.say');
  const aside = h('p.kicker', { role: 'status' });
  const hold = h('button.edit', { 'aria-pressed': 'false', onclick: pause });
  const charts = h('div.charts');
  const film = h('div.film', { role: 'group', 'aria-label': 'Probes; arrow keys move between them' });
  const side = h('aside.panel.probe', { tabindex: 0, 'aria-label': 'One text during training' });
  const root = h('div.split.training', h('div.left', h('div.status', h('div', said, aside), hold), charts, film), side);
  stage.append(root);
  hold.hidden = true;
  /** @type {ReturnType<typeof layout> | null} */
  let parts = null;
  /** @type {{ at: number } | null} */
  let paused = null;
  let chosen = params.get('step') === null ? null : Number(params.get('step'));
  let asked = 0;
  let drawn = '';
  const big = h('div.bigtile');
  let looking = false;
  let rested = -Infinity;
  /** @type {Map<number, Frame>} */
  const tables = new Map();
  /** @type {Map<number, Frame>} */
  const exact = new Map(); // step -> a small frame, for the film; and with all its digits
  /** @type {Map<Frame, number>} */
  const tops = new Map(); // the largest magnitude of each
  const trail = follow(model.m, changed);
  const { data } = trail;
  /** @type {(event: KeyboardEvent) => void} */
  const press = event => {
    if (event.key === ' ' && event.target instanceof Node && event.target.contains(stage)) {
      event.preventDefault();
      pause();
    }
  };
  document.addEventListener('keydown', press, { signal });
  signal.addEventListener('abort', trail.close);
  await new Promise(ready => {
    trail.first = () => ready(undefined);
    signal.addEventListener('abort', ready);
  });

  /** @type {(what: string) => void} */
  function changed(what) {
    if (!data.about) {
      if (what === 'lost') trail.first?.();
      said.textContent = what === 'lost' ? 'The server does not respond' : '';
      return;
    }
    if (what === 'about') {
      parts = null;
      drawn = '';
      tables.clear();
      exact.clear();
      return;
    }
    if (what === 'lost' || !paused) state();
    if (!paused && (what !== 'lost' || !parts)) show();
    if (paused) {
      const more = lastStep(data) - paused.at;
      hold.replaceChildren(icon('play'), more > 0 ? `Continue (${more.toLocaleString('en')} new steps)` : 'Continue');
    }
    trail.first?.();
  }
  function pause() {
    paused = paused ? null : { at: lastStep(data) };
    hold.setAttribute('aria-pressed', String(Boolean(paused)));
    state();
    show();
  }
  function state() {
    const [now, more] = statusText(data);
    said.textContent = now;
    if (aside.textContent !== more) aside.textContent = more;
    hold.replaceChildren(icon(paused ? 'play' : 'pause'), paused ? 'Continue' : 'Pause the page');
    hold.hidden = data.state !== 'training' && !paused;
  }

  // ---- the charts
  /** @param {About} about */
  function layout(about) {
    film.hidden = !about.recorded;
    const u = unit();
    const W = charts.clientWidth;
    const H = charts.clientHeight;
    const gap = 20 * u;
    const top = Math.max(120 * u, H * (about.layers.length > 1 ? 0.5 : 0.72));
    const small = W < 520 * u; // the loss has a row of its own
    const wide = small ? W : (W - 2 * gap) * 0.5;
    const narrow = small ? (W - gap) / 2 : (W - 2 * gap) * 0.25;
    const metric = NAMES[about.metric] ?? (about.metric || 'score').replaceAll('_', ' ');
    const at = { oncursor: cursor, onpick: near };
    const made = {
      loss: curve({
        ...at,
        title: 'Loss',
        name: 'loss',
        path: about.recorded ? 'studio/steps.jsonl  loss, nats per target' : 'metrics.jsonl  loss',
        width: wide,
        height: top,
      }),
      score: curve({
        ...at,
        title: `Validation: ${metric}`,
        short: metric[0].toUpperCase() + metric.slice(1),
        name: `${metric} on the validation data`,
        path: `metrics.jsonl  valid.${about.metric}, ${about.higher ? 'higher' : 'lower'} is better`,
        width: narrow,
        height: top,
        low: about.higher,
      }),
      rate: curve({
        ...at,
        title: 'Learning rate',
        short: 'Rate',
        name: 'learning rate',
        path: about.recorded ? 'studio/steps.jsonl  learning_rate' : 'metrics.jsonl  learning_rate',
        width: narrow,
        height: top,
        low: true,
      }),
      norms: norms({
        ...at,
        title: about.layers.length > 1 ? 'Gradient norm by layer' : 'Gradient norm',
        layers: about.layers,
        note: about.tied,
        width: W,
        height: Math.max((about.layers.length > 1 ? 180 : 110) * u, H - top - 8 * u),
      }),
    };
    charts.replaceChildren(h('div.row', made.loss.el, made.score.el, made.rate.el), made.norms.el);
    return made;
  }
  function show() {
    const { about } = data;
    if (!about) return;
    parts ??= layout(about);
    const from = 0;
    const to = Math.max(1, lastStep(data));
    const each = { from, to };
    parts.loss.draw({ ...each, points: data.points, bad: data.bad });
    parts.score.draw({ ...each, points: data.valid.map(([step, value]) => [step, value]) });
    parts.rate.draw({ ...each, points: data.points.map(p => [p[0], p[4]]) });
    parts.norms.draw({ ...each, columns: data.norms });
    probes(about);
    const final = data.points.at(-1);
    // do not hurry a screen reader that reads the status bar
    if (looking || performance.now() - rested < CALM) return;
    rested = performance.now();
    readoutDefault(
      final
        ? {
            at: `loss at step ${final[0].toLocaleString('en')}`,
            path: about.recorded ? 'studio/steps.jsonl' : 'metrics.jsonl',
            value: final[1],
          }
        : null,
    );
  }
  /** @type {(step: number | null) => void} */
  function cursor(step) {
    looking = step !== null;
    for (const part of Object.values(parts ?? {})) part.cursor(step);
  }

  // ---- the probes
  function current() {
    return data.probes.reduce((found, each, i) => (chosen === null || each[0] <= chosen ? i : found), 0);
  }
  /** @type {(step: number) => void} */
  function near(step) {
    if (data.probes.length)
      choose(
        data.probes.reduce((best, each) => (Math.abs(each[0] - step) < Math.abs(best[0] - step) ? each : best))[0],
      );
  }
  /** @type {(step: number | null) => void} */
  function choose(step) {
    chosen = step === data.probes.at(-1)?.[0] ? null : step; // the newest stays the newest
    replaceAddress({ step: chosen });
    if (data.about) probes(data.about);
  }
  /** @type {(about: About) => void} */
  function probes(about) {
    if (!data.probes.length) {
      if (drawn !== 'none')
        side.replaceChildren(
          h('h3', 'One text during training'),
          h(
            'p.quiet',
            about.recorded
              ? 'Waiting for the first answer.'
              : 'This run did not record a text. Train with --studio --probe "a text of your choice".',
          ),
        );
      drawn = 'none';
      film.replaceChildren();
      for (const part of Object.values(parts ?? {})) part.pick(null);
      return;
    }
    const i = current();
    const [step] = data.probes[i];
    const now = `${step} ${data.probes.length}`;
    for (const part of Object.values(parts ?? {})) part.pick(step);
    if (now === drawn) return;
    drawn = now;
    strip(i, one(about, i));
  }
  /** @type {(about: About, i: number) => () => void} */
  function one(about, i) {
    const [step, answer] = data.probes[i];
    const before = data.probes[i - 1]?.[1];
    const turn = ++asked;
    const slide = slider('Which probe', [0, data.probes.length - 1], i, {
      text: `step ${step}`,
      oninput: event => choose(data.probes[Number(event.target.value)][0]),
    });
    const focused = side.querySelector('input[type="range"]:focus') !== null;
    side.replaceChildren(
      h('header', h('h3', 'One text during training'), h('p.asked.word', about.probe)),
      h('div.scrub', slide, h('span.n', `step ${step.toLocaleString('en')}`)),
      h('div.said', { tabindex: 0 }, spoken(answer, before)),
      big,
    );
    if (focused) slide.focus();
    const found = exact.get(step) ?? (data.lost ? tables.get(step) : null);
    if (found) picture(found);
    else if (data.lost) big.replaceChildren(h('p.quiet', 'This table was not loaded before the server stopped.'));
    else
      api
        .probes(model.m, [step], 'f32')
        .then(([frame]) => {
          exact.set(step, frame);
          if (turn === asked) picture(frame);
        })
        .catch(error => {
          if (turn === asked) big.replaceChildren(h('p.quiet', error.message));
        });
    return () => {
      const now = exact.get(step);
      if (turn === asked && now) picture(now);
    }; // the scale may have changed
  }
  /** @type {(frame: Frame) => void} */
  function picture(frame) {
    const u = unit();
    const W = side.clientWidth - 58 * u;
    const [rows, cols] = frame.shape;
    const labels = frame.rows.map(name => lastOf(name.split(' → ')));
    const lw = Math.min(
      W * 0.4,
      Math.max(widest(labels, 0.875, { most: 16 }), widest(labels.filter(isSpecialToken), 0.875, { family: 'mono' })) /
        u +
        14,
    );
    const room = headRoom(frame.columns, (W - lw * u) / cols, 0.875);
    const H = Math.max(60 * u, side.clientHeight - big.offsetTop + side.offsetTop - (room.labelHeight + 78) * u);
    const scale = common(frame);
    const cw = Math.min((W - lw * u) / cols, 34 * u);
    const ch = Math.max(2, Math.min(H / rows, 34 * u));
    big.replaceChildren(
      heatmap({
        title: `${frame.at} at step ${frame.step}`,
        values: frame.table(),
        rows: labels,
        cols: frame.columns,
        labelWidth: lw,
        ...room,
        cellWidth: cw,
        cellHeight: ch,
        scale,
        wordSize: '.875rem',
        onlook: () => {
          looking = true;
        },
        onleave: () => {
          looking = false;
        },
        read: (r, c) => ({
          at: `${frame.rows[r] || 'value'}, ${frame.columns[c]}: step ${frame.step.toLocaleString('en')}`,
          path: `${frame.at}${frame.at.endsWith('.pattern') ? '  mean of all heads' : ''}`,
          value: frame.number(r * cols + c),
          scale,
        }),
      }),
      h(
        'p.kicker',
        frame.at.split('.').flatMap((part, i) => (i ? [h('wbr'), `.${part}`] : [part])),
      ),
      frame.note ? h('p.kicker', frame.note) : '',
    );
  }
  // One colour scale for all probes, up to the largest value so far, rounded to tenths for attention.
  /** @type {(frame: Frame) => Scale} */
  function common(frame) {
    const most = Math.max(
      ...[...tables.values(), frame].map(each => {
        const top = tops.get(each) ?? each.row().reduce((a, b) => Math.max(a, Math.abs(b) || 0), 0);
        tops.set(each, top);
        return top;
      }),
    );
    return {
      kind: frame.scale === 'signed' ? 'div' : 'seq',
      max: frame.scale === 'unit' ? Math.min(1, Math.max(0.2, Math.ceil(10 * most) / 10)) : most || 1,
    };
  }
  // ---- the film strip: thumbnails of the probes, as many as fit
  /** @type {(i: number, redraw?: () => void) => Promise<void>} */
  async function strip(i, redraw) {
    const u = unit();
    const size = 60 * u;
    const room = Math.max(2, Math.floor(film.clientWidth / (size + 10 * u)));
    const n = data.probes.length;
    const wanted = new Set(
      n <= room ? data.probes.keys() : range(room).map(k => Math.round((k * (n - 1)) / (room - 1))),
    );
    if (n > room && !wanted.has(i)) {
      wanted.delete([...wanted].reduce((a, b) => (Math.abs(b - i) < Math.abs(a - i) ? b : a)));
      wanted.add(i);
    }
    const places = [...wanted].sort((a, b) => a - b);
    const turn = asked;
    const missing = data.lost ? [] : places.map(k => data.probes[k][0]).filter(step => !tables.has(step));
    for (let k = 0; k < missing.length; k += 64)
      for (const frame of await api.probes(model.m, missing.slice(k, k + 64), 'u8').catch(() => []))
        tables.set(frame.step, frame);
    if (turn !== asked || !film.isConnected) return;
    const focused = film.contains(document.activeElement);
    film.replaceChildren(
      ...places.map(k => {
        const step = data.probes[k][0];
        return h(
          'button',
          {
            'aria-pressed': String(k === i),
            tabindex: k === i ? 0 : -1,
            'aria-label': `probe at step ${step}`,
            onclick: () => choose(step),
            onkeydown: event => {
              const to = { ArrowLeft: k - 1, ArrowRight: k + 1 }[event.key];
              if (to !== undefined && data.probes[to]) {
                event.preventDefault();
                choose(data.probes[to][0]);
              }
            },
          },
          thumb(tables.get(step), common),
          h('span.n', step.toLocaleString('en')),
        );
      }),
    );
    redraw?.();
    film.title = n > places.length ? `${places.length} of ${n} probes; use the slider for the others` : '';
    if (focused) film.querySelector('[aria-pressed="true"]')?.focus();
  }
}

/** @type {(frame: Frame | undefined, scaled: (frame: Frame) => Scale) => HTMLCanvasElement} */
function thumb(frame, scaled) {
  if (!frame) return h('canvas');
  const [rows, cols] = frame.shape;
  const scale = scaled(frame);
  const inks = packedPalette(scale.kind);
  return pixelCanvas(rows, cols, pixels => {
    for (let k = 0; k < rows * cols; k++) {
      const value = frame.number(k);
      pixels[k] = inks[shade(Number.isFinite(value) ? value : 0, scale)];
    }
  });
}
// The answer; words that were not there before are marked.
/** @type {(answer: ProbeAnswer, before: ProbeAnswer | undefined) => HTMLElement} */
function spoken(answer, before) {
  if (typeof answer === 'string')
    return words(answer.split(/\s+/).filter(Boolean), typeof before === 'string' ? before.split(/\s+/) : null);
  if (Array.isArray(answer)) {
    const tagged = answer.filter(each => Array.isArray(each));
    const tags = Array.isArray(before) ? before.map(each => (Array.isArray(each) ? each[1] : '')) : null;
    return tagged.length
      ? h(
          'div.tagged',
          tagged.map(([word, tag], i) =>
            h('span', { class: tags && tags[i] !== tag ? 'new' : null }, h('span.word', word), h('span.n', tag)),
          ),
        )
      : h('p.n', answer.map(value => significant(Number(value))).join('  '));
  }
  if (answer && typeof answer === 'object') {
    const rows = Object.entries(answer).sort((a, b) => b[1] - a[1]);
    return probabilityBars(rows.slice(0, 6).map(([word, p], k) => ({ word, p, on: k === 0 })));
  }
  return h('p.quiet', 'nothing');
}
/** @type {(list: string[], before: string[] | null) => HTMLElement} */
const words = (list, before) =>
  h(
    'p.word',
    list.length
      ? list.flatMap((word, i) => [
          i ? ' ' : '',
          h(
            'span',
            { class: isSpecialToken(word) ? 'special' : before && !before.includes(word) ? 'new' : null },
            word,
          ),
        ])
      : h('span.quiet', 'nothing'),
  );
