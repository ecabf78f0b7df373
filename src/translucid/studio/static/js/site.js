// The entry of a site without a server: plain files answer what does not depend on typed text, and local models compute
// the rest. studio/site.py writes the files.
import { fill } from './embedded.js';
import { openModel } from './local/model.js';
import { json, local, once, opened, trainedInPlane } from './local/routes.js';
import { recorded } from './recorded.js';

/** @type {(file: string) => Promise<any>} */
async function read(file) {
  const answer = await fetch(file).catch(() => null);
  if (!answer?.ok) throw new Error(`${file} could not be loaded; check the connection and try again`);
  return answer.json();
}

// load: the script of the lessons.
/** @type {(load: () => Promise<LessonScript>) => AskServer} */
export function site(load) {
  /** @type {(name: string) => Promise<any>} */
  const file = once(name => read(`answers/${name}.json`));
  /** @type {() => Promise<SiteStart>} */
  const start = () => file('start');
  const open = once(async m => {
    const { answers, models } = await start();
    const facts = Object.fromEntries(models.map(key => [key, () => file(`facts-${key}`)]));
    return opened(answers, facts, m, () => openModel(`models/${m}`));
  });
  // Files by model; a model may have none.
  /** @type {(kind: string, otherwise: any) => (m: string) => Promise<any>} */
  const ofModel = (kind, otherwise) => async m =>
    (await start()).files.includes(`${kind}-${m}`) ? file(`${kind}-${m}`) : otherwise;
  const computed = local({
    open,
    lessons: once(load),
    textsOf: ofModel('texts', []),
    planeOf: async kind => trainedInPlane((await start()).answers, kind),
  });
  // The recorded answers in a file, which is loaded when one of them is requested.
  const answersOf = once(async name => recorded({ points: {}, ...(await file(name)) }, computed));
  return async (method, path, body) => {
    try {
      const name = path.split('?')[0].split('/').slice(2).join('-'); // /api/train/a/history: train-a-history
      const { files } = await start();
      return await (await answersOf(files.includes(name) ? name : 'start'))(method, path, body);
    } catch (error) {
      return json({ error: error instanceof Error ? error.message : String(error) }, 503);
    }
  };
}
/** @type {(el: HTMLElement, load: () => Promise<LessonScript>) => PlaceMade} */
export const open = (el, load) => fill(el, site(load), '');
