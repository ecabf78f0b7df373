// The entry of a site without a server: plain files answer what does not depend on typed text, and local models compute
// the rest. studio/site.py writes the files.
import { fill } from './embedded.js';
import { openModel } from './local/model.js';
import { json, local, once, opened } from './local/routes.js';
import { recorded } from './recorded.js';

/** @type {(file: string) => Promise<any>} */
async function read(file) {
  const answer = await fetch(file).catch(() => null);
  if (!answer?.ok) throw new Error(`${file} could not be loaded; check the connection and try again`);
  return answer.json();
}

/** @type {() => AskServer} */
export function site() {
  /** @type {(name: string) => Promise<any>} */
  const file = once(name => read(`answers/${name}.json`));
  /** @type {() => Promise<SiteStart>} */
  const start = () => file('start');
  const open = once(async m => {
    return opened(await start(), m, () => openModel(`models/${m}`));
  });
  // Files by model; a model may have none.
  /** @type {(kind: string, otherwise: any) => (m: string) => Promise<any>} */
  const ofModel = (kind, otherwise) => async m =>
    (await start()).files.includes(`${kind}-${m}`) ? file(`${kind}-${m}`) : otherwise;
  const computed = local({ open, lessonsOf: ofModel('lessons', {}), textsOf: ofModel('texts', []), outline });
  // The recorded answers in a file, which is loaded when one of them is requested.
  const answersOf = once(async name => recorded({ points: {}, ...(await file(name)) }, computed));
  /** @type {(id: string) => Promise<Lesson>} */
  async function outline(id) {
    const { status, bytes } = await (await answersOf('start'))('GET', `/api/lessons/${id}`, '');
    const found = JSON.parse(String(bytes));
    if (status !== 200) throw new Error(found.error);
    return found;
  }
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
/** @type {(el: HTMLElement) => PlaceMade} */
export const open = el => fill(el, site(), '');
