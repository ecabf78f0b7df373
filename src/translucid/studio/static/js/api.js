// All requests to the server. Runs never change, so their answers are cached.
import { frames } from './frames.js';
import { inputHelp as helpWith, knownWords } from './words.js';

/** @type {Map<string, Promise<any>>} */
const kept = new Map(); // address -> promise, the oldest first
export const traffic = { bytes: 0, asked: 0 }; // for the curious, and for the tests
const KEPT = 200;

export class Refused extends Error {}
// The message of a refusal; other errors are rethrown.
/** @type {(error: unknown) => string} */
export function refusal(error) {
  if (!(error instanceof Refused)) throw error;
  return error.message;
}
// The current view. Answers and refusals are not delivered to a view that was left, so it never draws over the next
// one.
/** @type {AbortSignal | null} */
let asking = null;
/** @type {(signal: AbortSignal) => void} */
export function answersFor(signal) {
  asking = signal;
}
/** @type {<T>(answer: Promise<T>) => Promise<T>} */
function delivered(answer) {
  const view = asking;
  /** @type {(act: (given: any) => void) => (given: any) => void} */
  const here = act => given => view?.aborted || act(given);
  return new Promise((told, refused) => answer.then(here(told), here(refused)));
}
/** @type {Map<string, [method: string, address: string, body: BodyInit]>} */
const asked = new Map(); // every request of this session, to save it
/** @type {(address: string, options?: RequestInit) => Promise<Response>} */
function ask(address, options) {
  asked.set(`${address} ${options?.body ?? ''}`, [options?.method ?? 'GET', address, options?.body ?? '']);
  return fetched(address, options);
}
/** @type {(address: string, options?: RequestInit) => Promise<Response>} */
async function fetched(address, options) {
  let answer;
  try {
    answer = await fetch(address, options);
  } catch (error) {
    if (error instanceof Error && error.name === 'AbortError') throw new Refused('The computation was cancelled.');
    throw new Refused('the studio’s server has stopped; start it again with: translucid explore');
  }
  if (!answer.ok) {
    const told = await answer.json().catch(() => ({}));
    throw new Refused(told.error ?? `${answer.status} ${answer.statusText}`);
  }
  return answer;
}
// A request that the user can cancel, unless its view shows its progress and stops it.
let cancelled = new AbortController();
export function cancelAll() {
  cancelled.abort();
  cancelled = new AbortController();
}
/** @type {() => () => void} */
let begins = () => () => {};
/** @type {(listener: () => () => void) => void} */
export function onRequest(listener) {
  // called at the start; returns what to call at the end
  begins = listener;
}
/** @type {(address: string, options?: RequestInit) => Promise<Response>} */
function cancellable(address, options) {
  return ask(address, { ...options, signal: cancelled.signal }).finally(begins());
}
// key: the key in the cache.
/** @type {<T>(address: string, read: Reads<T>, options?: Asked, key?: string) => Promise<T>} */
function once(address, read, options, key = address) {
  if (!kept.has(key)) {
    const found = (options?.ownProgress ? ask : cancellable)(address, options).then(read);
    found.catch(() => kept.delete(key));
    kept.set(key, found);
    for (const oldest of kept.keys()) if (kept.size > KEPT) kept.delete(oldest);
  }
  return delivered(/** @type {Promise<any>} */ (kept.get(key)));
}
/** @type {(answer: Response) => Promise<any>} */
const json = async answer => {
  const text = await answer.text();
  count(text.length);
  return JSON.parse(text);
};
// Not cached: the answer may change.
/** @type {(address: string, read?: Reads<any>) => Promise<any>} */
const anew = (address, read = json) => delivered(ask(address).then(read));
/** @type {(answer: Response) => Promise<Frame[]>} */
const binary = async answer => {
  const buffer = await answer.arrayBuffer();
  count(buffer.byteLength);
  return frames(buffer);
};
/** @type {(bytes: number) => void} */
function count(bytes) {
  traffic.bytes += bytes;
  traffic.asked += 1;
}
/** @type {(body: unknown) => RequestInit} */
const posted = body => ({
  method: 'POST',
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify(body),
});
/** @type {(given: Query) => URLSearchParams} */
const query = given =>
  new URLSearchParams(
    Object.entries(given).flatMap(([key, value]) =>
      Array.isArray(value)
        ? value.map(each => [key, String(each)])
        : value === undefined || value === null
          ? []
          : [[key, String(value)]],
    ),
  );

/** @type {() => Promise<Model[]>} */
export const models = () => once('/api/models', json);
/** @type {(m: string) => Promise<Model>} */
export const model = m => once(`/api/model/${encodeURIComponent(m)}`, json);
// Help with the text that is being typed, and another text of the model's data. Neither is saved with the session.
/** @type {Map<string, Promise<KnownWords>>} by model */
const known = new Map();
/** @type {(m: string, text: string, caret: number) => Promise<InputHelp>} */
export async function inputHelp(m, text, caret) {
  const at = `/api/model/${encodeURIComponent(m)}`;
  const words = known.get(m) ?? fetched(`${at}/words`).then(json).then(knownWords);
  words.catch(() => known.delete(m));
  known.set(m, words);
  const unknown = async (/** @type {string[]} */ texts) => json(await fetched(`${at}/unknown`, posted({ texts })));
  return helpWith(await words, unknown, text, caret);
}
/** @type {(m: string, number: number) => Promise<string>} */
export const randomText = async (m, number) =>
  (await json(await fetched(`/api/model/${encodeURIComponent(m)}/text?${query({ number })}`))).text;
/** @type {() => Promise<Catalogue>} */
export const catalogue = () => once('/api/catalogue', json);
// question: { m, text, target?, off? }
/** @type {(question: Question) => Promise<Run>} */
export const run = question => once('/api/runs', json, posted(question), JSON.stringify(question));
/** @type {(id: string, names: string[], options?: TensorOptions) => Promise<Frame[]>} */
export const tensors = (id, names, options = {}) =>
  once(`/api/runs/${id}/tensors?${query({ at: names, ...options })}`, binary);
/** @type {(id: string, name: string, options?: TensorOptions) => Promise<Frame>} */
export const tensor = async (id, name, options) => (await tensors(id, [name], options))[0];
// layers: '3:5' for some of them.
/** @type {(id: string, kind: string, layers?: string, pool?: number) => Promise<HeadsFrame>} */
export const heads = async (id, kind, layers, pool = 48) =>
  /** @type {HeadsFrame} */ ((await once(`/api/runs/${id}/heads?${query({ kind, pool, layers })}`, binary))[0]);
// One number and its terms; top: how many terms of a long sum [default: 8].
/** @type {(id: string, address: string, top?: number) => Promise<OpenedNumber>} */
export const terms = async (id, address, top) => ({
  ...(await once(`/api/runs/${id}/terms?${query({ address, top })}`, json)),
  top: top ?? 0,
});
// Contributions of parts to a logit; the logit lens; the saliency of the input.
/** @type {(id: string, position: number, output: number) => Promise<Contributions>} */
export const contributions = (id, position, output) =>
  once(`/api/runs/${id}/contributions?${query({ position, output })}`, json);
/** @type {(id: string, position: number) => Promise<Lens>} */
export const lens = (id, position) => once(`/api/runs/${id}/lens?${query({ position })}`, json);
/** @type {(id: string, position: number) => Promise<Saliency>} */
export const saliency = (id, position) => once(`/api/runs/${id}/saliency?${query({ position })}`, json);
/** @type {(id: string, off: string[]) => Promise<Effect>} */
export const effect = (id, off) => once(`/api/runs/${id}/effect?${query({ off })}`, json, { ownProgress: true });
// The k likeliest tokens at each position: { at, steps: [{ n, words, ids, probabilities, ... }] }. positions: '3:5' for
// some of them; tokens: along this text instead of the run's own, with attention weights.
/** @type {(id: string, options?: StepOptions) => Promise<Steps>} */
export const steps = (id, { k, positions, tokens } = {}) =>
  once(`/api/runs/${id}/steps?${query({ k, positions, tokens: tokens?.join('.') })}`, json);
/** @type {(id: string, n: number, options?: StepOptions) => Promise<OneStep>} */
export const step = async (id, n, options) => {
  const { at, steps: all, looks } = await steps(id, options);
  const found = /** @type {Step} */ (all.find(each => each.n === n));
  const { weights = [] } = found; // for a decoder-only model, as many as there are words so far
  return { at, ...found, looks: looks && { ...looks, words: looks.words.slice(0, weights.length), weights } };
};
/** @type {(n: number) => string} */
export const onlyPosition = n => `${n}:${n + 1}`; // one position
/** @type {(id: string, options: Query) => Promise<Decoded>} */
export const decode = (id, options) => once(`/api/runs/${id}/decode?${query(options)}`, json);
// Sampled texts, and the sampling distribution at each step of the first.
/** @type {(id: string, options: Query) => Promise<Draws>} */
export const draws = (id, options) => once(`/api/runs/${id}/draws?${query(options)}`, json);
/** @type {() => Promise<ListedLesson[]>} */
export const lessons = () => once('/api/lessons', json);
/** @type {(id: string, name: string) => Promise<Lesson>} */
export const lesson = (id, name) => once(`/api/runs/${id}/lesson/${encodeURIComponent(name)}`, json);
// Whether the task of a stop is done at this address of the page, with this answer if one is typed.
/** @type {(id: string, name: string, stop: number, given: { address: string; answer?: string }) => Promise<Verdict>} */
export const check = (id, name, stop, given) =>
  anew(`/api/runs/${id}/check/${encodeURIComponent(name)}/${stop}?${query(given)}`);
// One step of training on points in the plane.
/** @type {(kind: string, options: Query) => Promise<Plane>} */
export const plane = (kind, options) => once(`/api/plane/${kind}?${query(options)}`, json, { ownProgress: true });
// The outputs of two models over the same part of the plane.
/** @type {(a: string, b: string) => Promise<{ ticks: number[][]; grids: number[][][] }>} */
export const planes = (a, b) => once(`/api/planes?${query({ a, b })}`, json);
// A training run, which is never cached.
/** @type {(m: string) => Socket} */
export const training = m =>
  location.host ? new WebSocket(`ws://${location.host}/api/train/${encodeURIComponent(m)}`) : watched(m);
// A notebook has no WebSocket and polls while training continues.
const BETWEEN = 2000; // ms
/** @type {(m: string) => Socket} */
function watched(m) {
  const socket = /** @type {Socket} */ (new EventTarget());
  const at = `/api/train/${encodeURIComponent(m)}`;
  /** @type {(data: ArrayBuffer | string) => boolean} */
  const told = data => socket.dispatchEvent(new MessageEvent('message', { data }));
  let left = false;
  async function look() {
    const all = await (await fetched(`${at}/history`)).arrayBuffer();
    if (left) return;
    told(all);
    if (frames(all)[0].state === 'training') setTimeout(watch, BETWEEN, look);
  }
  /** @type {(next: () => Promise<void>) => void} */
  const watch = next => {
    if (!left) next().catch(() => socket.dispatchEvent(new Event('close')));
  };
  queueMicrotask(() =>
    watch(async () => {
      told(await (await fetched(`${at}/about`)).text());
      await look();
    }),
  );
  socket.close = () => {
    left = true;
  };
  return socket;
}
/** @type {(m: string, saved: number[] | number, form: string) => Promise<Frame[]>} */
export const probes = (m, saved, form) =>
  anew(`/api/train/${encodeURIComponent(m)}/probes?${query({ step: saved, as: form })}`, binary);
// Surveys of many texts: repeat the request until done equals of.
/** @type {(m: string) => Promise<Hardest>} */
export const hardest = m => anew(`/api/model/${encodeURIComponent(m)}/hardest`);
/** @type {(m: string, at: string, number: number) => Promise<UnitSurvey>} */
export const unit = (m, at, number) => anew(`/api/model/${encodeURIComponent(m)}/unit?${query({ at, unit: number })}`);
/** @type {(m: string, at: string) => Promise<LabelSurvey>} */
export const labels = (m, at) => anew(`/api/model/${encodeURIComponent(m)}/labels?${query({ at })}`);
// Activation patching: the outline; one cell; one point at every token.
/** @type {(options: Query) => Promise<Patching>} */
export const patching = options => once(`/api/patching?${query(options)}`, json);
/** @type {(options: Query) => Promise<PatchCell>} */
export const patchCell = options => once(`/api/patching/cell?${query(options)}`, json);
/** @type {(options: Query) => Promise<PatchRow>} */
export const patchRow = options => once(`/api/patching/row?${query(options)}`, json, { ownProgress: true });
/** @type {(a: string, b: string) => Promise<Difference>} */
export const diff = (a, b) => once(`/api/diff?${query({ a, b })}`, json);

// Exercises. They are not saved with the session, since a file cannot check answers.
/** @type {(path: string, given?: Query) => Promise<any>} */
const practice = (path, given = {}) => delivered(fetched(`/api/practice${path}?${query(given)}`).then(json));
/** @type {() => Promise<{ name: string; title: string }[]>} */
export const topics = () => practice('');
/** @type {(topic: string, seed: number) => Promise<Exercise>} */
export const exercise = (topic, seed) => practice(`/${encodeURIComponent(topic)}`, { seed });
// Whether the answer to a step is right, and otherwise which step went wrong.
/** @type {(exercise: Exercise, name: string, answer: string) => Promise<AnswerVerdict>} */
export const checkAnswer = ({ topic, seed }, name, answer) => practice(`/${topic}/check`, { seed, step: name, answer });
/** @type {(exercise: Exercise) => Promise<WorkedSolution>} */
export const solution = ({ topic, seed }) => practice(`/${topic}/solution`, { seed });

// Save the session in one file. Requests have a size limit, so the first of very many questions are dropped.
const MOST = 900_000; // bytes, of a million
/** @type {(address: string) => Promise<Blob>} */
export async function session(address) {
  const all = [...asked.values()];
  while (JSON.stringify(all).length > MOST) all.splice(0, 100);
  return (await fetched('/api/session', posted({ address, asked: all }))).blob();
}

// Run act one call at a time, then once more with the newest arguments given meanwhile.
/** @type {<G extends any[]>(act: (...given: G) => unknown) => (...given: G) => Promise<void>} */
export function latest(act) {
  let busy = false;
  /** @type {any} */
  let next = null;
  return async function soon(...given) {
    if (busy) {
      next = given;
      return;
    }
    busy = true;
    try {
      await act(...given);
    } finally {
      busy = false;
      if (next) {
        const wanted = next;
        next = null;
        soon(...wanted);
      }
    }
  };
}
