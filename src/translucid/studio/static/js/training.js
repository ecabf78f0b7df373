// Training over the WebSocket: everything so far as two frames, then updates up to four times a second
// (studio/run_follower.py). Pausing the page does not affect training.
import * as api from './api.js';
import { frames } from './frames.js';

const MOST = { points: 4000, norms: 800 }; // maximum points kept; then neighbours are merged
const AGAIN = [1000, 2000, 4000, 8000]; // ms before the next try
const OVER = new Set(['finished', 'interrupted', 'failed']);
/** @type {(list: (number | null)[]) => number[]} */
export const withNaN = list => list.map(value => value ?? NaN);

/** @type {Map<string, TrainingData>} */
const trainings = new Map(); // model -> what was received of its training, kept if the server stops
/** @type {Set<(m: string) => void>} */
const listeners = new Set();
/** @type {() => TrainingData} */
const empty = () => ({ about: null, points: [], norms: [], valid: [], probes: [], bad: [], state: '', why: '' });

// Called whenever a training run changes.
/** @type {(act: (m: string) => void) => void} */
export const onTraining = act => listeners.add(act);
// The state shown beside the name of a run that has no model yet.
/** @type {(m: string) => string} */
export function stateOf(m) {
  const { state = '', lost = false } = trainings.get(m) ?? {};
  if (lost && !OVER.has(state)) return 'the server does not respond';
  /** @type {Record<string, string>} */
  const words = { training: 'in training', interrupted: 'stopped and saved', stopped: 'ended' };
  return words[state] ?? (state || 'no model yet');
}
// The folder of a run as a command takes it.
/** @type {(m: string) => string} */
export const folderOf = m => quoted(trainings.get(m)?.about?.folder ?? '');

/** @type {(m: string, changed: (what: string) => void) => { data: TrainingData; close(): void; first?: () => void }} */
export function follow(m, changed) {
  const data = trainings.get(m) ?? empty();
  trainings.set(m, data);
  /** @type {(what: string) => void} */
  const heard = what => {
    changed(what);
    for (const act of listeners) act(m);
  };
  /** @type {Socket | null} */
  let socket = null;
  let tries = 0;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  let left = false;
  function open() {
    socket = api.training(m);
    socket.binaryType = 'arraybuffer';
    socket.addEventListener('message', event => {
      tries = 0;
      data.lost = false;
      heard(take(/** @type {MessageEvent} */ (event).data));
    });
    socket.addEventListener('close', () => {
      if (left) return;
      data.lost = true;
      heard('lost');
      if (!OVER.has(data.state)) timer = setTimeout(open, AGAIN[Math.min(tries++, AGAIN.length - 1)]);
    });
  }
  /** @type {(told: ArrayBuffer | string) => string} */
  function take(told) {
    if (typeof told !== 'string') {
      whole(frames(told));
      return 'whole';
    }
    const message = JSON.parse(told);
    if (message.about) {
      data.about = message.about;
      return 'about';
    }
    more(message);
    return 'more';
  }
  /** @type {(history: Frame[]) => void} */
  function whole([points, norms]) {
    data.points = points.table();
    data.norms = norms.table().map((row, i) => [norms.steps[i], ...row]);
    Object.assign(data, {
      valid: points.valid.map(withNaN),
      probes: points.probes,
      bad: points.bad,
      state: points.state,
      why: points.why ?? '',
    });
  }
  /** @type {(news: News) => void} */
  function more({ points, norms, valid, probes, bad, state, why }) {
    data.points = thinned(data.points.concat(points.map(withNaN)), MOST.points);
    data.norms = data.norms.concat(norms.map(withNaN));
    if (data.norms.length > MOST.norms) data.norms = data.norms.filter((_, i, all) => (all.length - 1 - i) % 2 === 0);
    data.valid = data.valid.concat(valid.map(withNaN));
    const known = new Set(data.probes.map(each => each[0]));
    data.probes = data.probes.concat(probes.filter(each => !known.has(each[0])));
    data.bad = data.bad.concat(bad);
    Object.assign(data, { state, why: why ?? '' });
  }
  data.lost = false;
  open();
  return {
    data,
    close() {
      left = true;
      clearTimeout(timer);
      socket?.close();
    },
  };
}
// Merge two neighbours: their mean, with the minimum and maximum of both.
/** @type {(points: CurvePoint[], most: number) => CurvePoint[]} */
export function thinned(points, most) {
  if (points.length <= most) return points;
  const found = [];
  for (let i = 0; i < points.length; i += 2) {
    const a = points[i];
    const b = points[i + 1] ?? a;
    const real = [a, b].filter(p => Number.isFinite(p[1]));
    found.push([
      b[0],
      real.length ? real.reduce((sum, p) => sum + p[1], 0) / real.length : NaN,
      Math.min(...real.map(p => p[2])),
      Math.max(...real.map(p => p[3])),
      b[4],
    ]);
  }
  return found;
}
/** @type {(data: TrainingData) => number} */
export const lastStep = data => Math.max(data.points.at(-1)?.[0] ?? 0, data.valid.at(-1)?.[0] ?? 0);

// Quote a path for a shell, like Python's shlex.quote.
/** @type {(path: string) => string} */
const quoted = path => (/[^\w@%+=:,./-]/.test(path) ? `'${path.replaceAll("'", `'"'"'`)}'` : path);

// The state of the run in words.
/** @type {(data: TrainingData) => [string, string]} */
export function statusText(data) {
  const about = /** @type {About} */ (data.about);
  const step = lastStep(data).toLocaleString('en');
  const all = about.steps ? ` of ${about.steps.toLocaleString('en')}` : '';
  const again = `translucid explore ${quoted(about.folder)}`;
  const resume = `translucid resume ${quoted(about.folder)}`;
  /** @type {Record<string, [string, string]>} */
  const ends = {
    training: [`Training: step ${step}${all}`, ''],
    finished: [`Finished after step ${step}${all}`, ''],
    interrupted: [`Stopped and saved after step ${step}${all}`, `continue with: ${resume}`],
    failed: [`Failed at step ${step}`, data.why],
    stopped: [`Stopped unexpectedly after step ${step}${all}`, `continue with: ${resume}`],
  };
  const [said, more] = ends[data.state] ?? [`Step ${step}${all}`, ''];
  if (data.lost)
    return [
      said,
      OVER.has(data.state)
        ? `${more ? `${more} · ` : ''}reopen with: ${again}`
        : `the server does not respond; reopen later with: ${again}`,
    ];
  return [
    said,
    more ||
      (about.recorded
        ? ''
        : data.points.length
          ? 'trained without --studio: loss, score and learning rate from metrics.jsonl'
          : 'no steps recorded yet'),
  ];
}
