// All requests to the server. Runs never change, so their answers are cached.
import { frames } from './frames.js';

const kept = new Map(); // address -> promise, the oldest first
export const moved = { bytes: 0, asked: 0 }; // for the curious, and for the tests
const KEPT = 200;

export class Refused extends Error {}
// The message of a refusal; other errors are rethrown.
export function refusal(error) {
  if (!(error instanceof Refused)) throw error;
  return error.message;
}
// The current view. Answers and refusals are not delivered to a view that was left, so it never draws over the next
// one.
let asking = null;
export function answersFor(signal) {
  asking = signal;
}
function delivered(answer) {
  const view = asking;
  const here = act => given => view?.aborted || act(given);
  return new Promise((told, refused) => answer.then(here(told), here(refused)));
}
const asked = new Map(); // every request of this session, to save it
function ask(address, options) {
  asked.set(`${address} ${options?.body ?? ''}`, [options?.method ?? 'GET', address, options?.body ?? '']);
  return fetched(address, options);
}
async function fetched(address, options) {
  let answer;
  try {
    answer = await fetch(address, options);
  } catch (error) {
    if (error.name === 'AbortError') throw new Refused('The computation was cancelled.');
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
let begins = () => () => {};
export function onRequest(listener) {
  // called at the start; returns what to call at the end
  begins = listener;
}
function cancellable(address, options) {
  return ask(address, { ...options, signal: cancelled.signal }).finally(begins());
}
// key: the key in the cache.
function once(address, read, options, key = address) {
  if (!kept.has(key)) {
    const found = (options?.ownProgress ? ask : cancellable)(address, options).then(read);
    found.catch(() => kept.delete(key));
    kept.set(key, found);
    while (kept.size > KEPT) kept.delete(kept.keys().next().value);
  }
  return delivered(kept.get(key));
}
const json = async answer => {
  const text = await answer.text();
  count(text.length);
  return JSON.parse(text);
};
// Not cached: the answer may change.
const anew = (address, read = json) => delivered(ask(address).then(read));
const binary = async answer => {
  const buffer = await answer.arrayBuffer();
  count(buffer.byteLength);
  return frames(buffer);
};
function count(bytes) {
  moved.bytes += bytes;
  moved.asked += 1;
}
const posted = body => ({
  method: 'POST',
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify(body),
});
const query = given =>
  new URLSearchParams(
    Object.entries(given).flatMap(([key, value]) =>
      Array.isArray(value)
        ? value.map(each => [key, each])
        : value === undefined || value === null
          ? []
          : [[key, value]],
    ),
  );

export const models = () => once('/api/models', json);
export const model = m => once(`/api/model/${encodeURIComponent(m)}`, json);
// Help with the text that is being typed, and another text of the model's data. Neither is saved with the session.
export const words = async (m, text, caret) =>
  json(await fetched(`/api/model/${encodeURIComponent(m)}/words?${query({ text, caret })}`));
export const anotherText = async (m, number) =>
  (await json(await fetched(`/api/model/${encodeURIComponent(m)}/text?${query({ number })}`))).text;
export const catalogue = () => once('/api/catalogue', json);
// question: { m, text, target?, off? }
export const run = question => once('/api/runs', json, posted(question), JSON.stringify(question));
export const tensors = (id, names, options = {}) =>
  once(`/api/runs/${id}/tensors?${query({ at: names, ...options })}`, binary);
export const tensor = async (id, name, options) => (await tensors(id, [name], options))[0];
// layers: '3:5' for some of them.
export const heads = async (id, kind, layers, pool = 48) =>
  (await once(`/api/runs/${id}/heads?${query({ kind, pool, layers })}`, binary))[0];
// One number and its terms; top: how many terms of a long sum [default: 8].
export const terms = async (id, address, top) => ({
  ...(await once(`/api/runs/${id}/terms?${query({ address, top })}`, json)),
  top: top ?? 0,
});
// Contributions of parts to a logit; the logit lens; the saliency of the input.
export const contributions = (id, position, output) =>
  once(`/api/runs/${id}/contributions?${query({ position, output })}`, json);
export const lens = (id, position) => once(`/api/runs/${id}/lens?${query({ position })}`, json);
export const saliency = (id, position) => once(`/api/runs/${id}/saliency?${query({ position })}`, json);
export const effect = (id, off) => once(`/api/runs/${id}/effect?${query({ off })}`, json, { ownProgress: true });
// The k likeliest tokens at each position: { at, steps: [{ n, words, ids, probabilities, ... }] }. positions: '3:5' for
// some of them; tokens: along this text instead of the run's own, with attention weights.
export const steps = (id, { k, positions, tokens }) =>
  once(`/api/runs/${id}/steps?${query({ k, positions, tokens: tokens?.join('.') })}`, json);
export const step = async (id, n, options) => {
  const { at, steps: all, looks } = await steps(id, options);
  const found = all.find(each => each.n === n);
  const { weights } = found; // for a decoder-only model, as many as there are words so far
  return { at, ...found, looks: looks && { ...looks, words: looks.words.slice(0, weights.length), weights } };
};
export const only = n => `${n}:${n + 1}`; // one position
export const decode = (id, options) => once(`/api/runs/${id}/decode?${query(options)}`, json);
// Sampled texts, and the sampling distribution at each step of the first.
export const draws = (id, options) => once(`/api/runs/${id}/draws?${query(options)}`, json);
export const lessons = () => once('/api/lessons', json);
export const lesson = (id, name) => once(`/api/runs/${id}/lesson/${encodeURIComponent(name)}`, json);
// Whether the task of a stop is done at this address of the page.
export const check = (id, name, stop, address) =>
  anew(`/api/runs/${id}/check/${encodeURIComponent(name)}/${stop}?${query({ address })}`);
// One step of training on points in the plane.
export const plane = (kind, options) => once(`/api/plane/${kind}?${query(options)}`, json, { ownProgress: true });
// The outputs of two models over the same part of the plane.
export const planes = (a, b) => once(`/api/planes?${query({ a, b })}`, json);
// A training run, which is never cached.
export const training = m =>
  location.host ? new WebSocket(`ws://${location.host}/api/train/${encodeURIComponent(m)}`) : watched(m);
// A notebook has no WebSocket and polls while training continues.
const BETWEEN = 2000; // ms
function watched(m) {
  const socket = new EventTarget();
  const at = `/api/train/${encodeURIComponent(m)}`;
  const told = data => socket.dispatchEvent(new MessageEvent('message', { data }));
  let left = false;
  async function look() {
    const all = await (await fetched(`${at}/history`)).arrayBuffer();
    if (left) return;
    told(all);
    if (frames(all)[0].state === 'training') setTimeout(watch, BETWEEN, look);
  }
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
export const probes = (m, saved, form) =>
  anew(`/api/train/${encodeURIComponent(m)}/probes?${query({ step: saved, as: form })}`, binary);
// Surveys of many texts: repeat the request until done equals of.
export const hardest = m => anew(`/api/model/${encodeURIComponent(m)}/hardest`);
export const unit = (m, at, number) => anew(`/api/model/${encodeURIComponent(m)}/unit?${query({ at, unit: number })}`);
export const labels = (m, at) => anew(`/api/model/${encodeURIComponent(m)}/labels?${query({ at })}`);
// Activation patching: the outline; one cell; one point at every token.
export const patching = options => once(`/api/patching?${query(options)}`, json);
export const patchCell = options => once(`/api/patching/cell?${query(options)}`, json);
export const patchRow = options => once(`/api/patching/row?${query(options)}`, json, { ownProgress: true });
export const diff = (a, b) => once(`/api/diff?${query({ a, b })}`, json);

// Save the session in one file. Requests have a size limit, so the first of very many questions are dropped.
const MOST = 900_000; // bytes, of a million
export async function session(address) {
  const all = [...asked.values()];
  while (JSON.stringify(all).length > MOST) all.splice(0, 100);
  return (await fetched('/api/session', posted({ address, asked: all }))).blob();
}

// Run act one call at a time, then once more with the newest arguments given meanwhile.
export function latest(act) {
  let busy = false;
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
