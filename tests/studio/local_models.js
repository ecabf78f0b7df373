// What the tests of the page's own models call, in the browser.
import { decode, ownTarget } from '/studio/static/js/local/generate.js';
import { unknownIn } from '/studio/static/js/local/example.js';
import { openModel } from '/studio/static/js/local/model.js';
import { draws, uniforms } from '/studio/static/js/local/sample.js';
import { Tensor } from '/studio/static/js/local/tensor.js';
import { Trace, atIndex } from '/studio/static/js/local/trace.js';
import { site } from '/studio/static/js/site.js';

const models = new Map();
function model(folder) {
  if (!models.has(folder)) models.set(folder, openModel(folder));
  return models.get(folder);
}
// Why the page cannot run a model; empty if it can.
export async function refusal(folder) {
  try {
    await openModel(folder);
    return '';
  } catch (error) {
    return error.message;
  }
}
// An edit as JSON: a number, { index, value }, or { shape, values }.
const edit = given =>
  typeof given === 'number'
    ? given
    : given.index
      ? atIndex(given.index, () => given.value)
      : new Tensor(given.shape, Float32Array.from(given.values));
const edits = given => Object.fromEntries(Object.entries(given).map(([glob, change]) => [glob, edit(change)]));

function base64(values) {
  const bytes = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
  let text = '';
  for (let at = 0; at < bytes.length; at += 4096) text += String.fromCharCode(...bytes.subarray(at, at + 4096));
  return btoa(text);
}
// Every trace point, as names, shapes and bytes.
export async function run(folder, inputs, changed) {
  const trace = (await model(folder)).run(inputs, { edit: edits(changed) });
  return trace.names().map(name => {
    const { shape, values } = trace.get(name);
    return [name, shape, base64(Float32Array.from(values))];
  });
}

const tokenizer = async folder => (await model(folder)).tokenizers.tokenizer;
const told = act => {
  try {
    return act();
  } catch (error) {
    return error.message;
  }
};
export const tokens = async (folder, given) => {
  const t = await tokenizer(folder);
  return given.map(text => [t.tokens(text).map(({ id, from, to }) => [id, from, to]), t.labels(text)]);
};
export const words = async (folder, given) => {
  const t = await tokenizer(folder);
  return given.map(each => told(() => Object.values(t.encodeWords(each))));
};
export const texts = async (folder, given) => {
  const t = await tokenizer(folder);
  return given.map(ids => [t.decode(ids), t.pieces(ids)]);
};
export const example = async (folder, text, target) => {
  const opened = await model(folder);
  return told(() => {
    const made = opened.example(text, target);
    return { ...made, unknown: unknownIn(made) };
  });
};
export const own = async (folder, text) => ownTarget(await model(folder), text);
const edited = ({ edit: changes = {}, ...options }) => ({ ...options, edit: edits(changes) });
export const search = async (folder, text, options) => {
  const opened = await model(folder);
  return told(() => decode(opened, text, edited(options)));
};
export const sample = async (folder, text, options) => draws(await model(folder), text, edited(options));
export const numbers = (_, given) => given.map(each => uniforms(...each, 5));
// How far the logits of tokens that are read in parts are from those of the same tokens read at once.
export async function apart(folder, inputs, sizes) {
  const opened = await model(folder);
  const ids = inputs.target ?? inputs.ids;
  const whole = opened.run(inputs, { keep: ['head.logits'] }).get('head.logits').values;
  const { start, step } = opened.network;
  const scope = new Trace().scope();
  let state = start(inputs.source ?? [], scope);
  let most = 0;
  for (let at = 0, n = 0; at < ids.length; n++) {
    const size = sizes[n % sizes.length];
    const read = step(ids.slice(at, at + size), state, scope);
    const { values, width } = read.logits;
    for (let i = 0; i < values.length; i++) most = Math.max(most, Math.abs(values[i] - whole[at * width + i]));
    state = read.state;
    at += size;
  }
  return most;
}

// The answers of the site's provider, the bytes as base64.
const provider = site(() => import('/lessons.js'));
export const answered = (_, questions) =>
  Promise.all(
    questions.map(async ([method, path, body]) => {
      const { status, kind, bytes } = await provider(method, path, body);
      if (typeof bytes === 'string') return [status, kind, bytes];
      return [status, kind, base64(new Uint8Array(await new Response(bytes).arrayBuffer()))];
    }),
  );
