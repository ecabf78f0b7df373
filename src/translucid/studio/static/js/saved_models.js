// The entry of a saved session that contains its models: what is not recorded is computed, so other texts can be typed.
import { fill } from './embedded.js';
import { openModel } from './local/model.js';
import { local, once, opened, runsIn, trainedInPlane } from './local/routes.js';
import { bytesOf, recorded } from './recorded.js';

/** @type {(el: HTMLElement, data: SavedWithModels, lessons: () => LessonScript) => PlaceMade} */
export function open(el, data, lessons) {
  const { answers, models } = data;
  /** @type {(path: string) => Promise<Response>} */
  const load = async path => {
    const [m, ...rest] = path.split('/');
    const text = models[m].files[rest.join('/')];
    return new Response(path.endsWith('.json') ? text : bytesOf(text));
  };
  const answered = recorded(data);
  const facts = Object.fromEntries(Object.entries(models).map(([m, found]) => [m, async () => found]));
  const computed = local({
    open: once(m => opened(answers, facts, m, () => openModel(m, load))),
    lessons: once(async () => lessons()),
    planeOf: async kind => trainedInPlane(answers, kind),
    textsOf: async m => models[m]?.texts ?? [],
    outline: async id => JSON.parse(String((await answered('GET', `/api/lessons/${id}`, '')).bytes)),
    asked: runsIn(answers),
  });
  return fill(el, recorded(data, computed), data.address);
}
