// Run models of the page for test_local_model.py, in the browser: every trace point, as names, shapes and bytes.
import { openModel } from '/studio/static/js/local/model.js';
import { atIndex } from '/studio/static/js/local/trace.js';
import { Tensor } from '/studio/static/js/local/tensor.js';

const models = new Map();
function model(folder) {
  if (!models.has(folder)) models.set(folder, openModel(folder));
  return models.get(folder);
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
export async function run(folder, inputs, changed) {
  const trace = (await model(folder)).run(inputs, { edit: edits(changed) });
  return trace.names().map(name => {
    const { shape, values } = trace.get(name);
    return [name, shape, base64(Float32Array.from(values))];
  });
}
