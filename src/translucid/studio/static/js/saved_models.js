// The entry of a saved session that contains its models: what is not recorded is computed, so other texts can be typed.
import { fill } from './embedded.js';
import { openModel } from './local/model.js';
import { local, once, opened, runsIn } from './local/routes.js';
import { bytesOf, recorded } from './recorded.js';

/** @type {(el: HTMLElement, data: SavedWithModels) => PlaceMade} */
export function open(el, data) {
  const { answers, models } = data;
  /** @type {(path: string) => Promise<Response>} */
  const load = async path => {
    const [m, ...rest] = path.split('/');
    const text = models[m].files[rest.join('/')];
    return new Response(path.endsWith('.json') ? text : bytesOf(text));
  };
  const answered = recorded(data);
  const computed = local({
    open: once(m => opened(data, m, () => openModel(m, load))),
    lessonsOf: async () => ({}),
    textsOf: async m => models[m]?.texts ?? [],
    outline: async id => JSON.parse(String((await answered('GET', `/api/lessons/${id}`, '')).bytes)),
    asked: runsIn(answers),
  });
  return fill(el, recorded(data, computed), data.address);
}
