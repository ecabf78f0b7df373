// The answers of the studio's server, computed in the page by models that run in it. `ask` has the same paths, keys and
// numbers as studio/handlers.py; tests/studio/test_site.py compares them.
import { compare, effect, steps, stepsAlong } from './answers.js';
import { contributions, lens } from './credit.js';
import { ripple } from './difference.js';
import { asOpened } from './example.js';
import { decode } from './generate.js';
import { lessonHelp } from './lesson_help.js';
import { patchCell, patchOutline, patchRow } from './patching.js';
import { planeStep } from './plane.js';
import { LocalRun, MOST_CHARACTERS, keyOf } from './run.js';
import { saliency } from './saliency.js';
import { draws } from './sample.js';
import { heads, tensors } from './tables.js';
import { MOST, TOP, terms } from './terms.js';
import { unknownPlaces, vocabulary } from './vocabulary.js';

const KEPT = 12; // runs in memory
const OWN = 'own'; // the id of a user's own lesson
const INSTALLED = 'this needs the installed program: translucid explore';

/** @type {(value: unknown, status?: number) => RecordedAnswer} */
export const json = (value, status = 200) => ({ status, kind: 'application/json', bytes: JSON.stringify(value) });
/** @type {(bytes: Bytes | ArrayBuffer) => RecordedAnswer} */
const binary = bytes => ({ status: 200, kind: 'application/octet-stream', bytes });

// ---- values of a query
/** @type {(given: URLSearchParams, name: string, least: number, most: number, otherwise?: number) => number} */
function whole(given, name, least, most, otherwise) {
  const text = given.get(name) ?? String(otherwise ?? '');
  const value = Number(text);
  if (!/^\d{1,9}$/.test(text) || value < least || value > most)
    throw new Error(`${name}: must be a whole number from ${least} to ${most}, not '${text}'`);
  return value;
}
/** @type {(given: URLSearchParams, name: string, least: number, most: number) => number | undefined} */
const wholeIfGiven = (given, name, least, most) => (given.has(name) ? whole(given, name, least, most) : undefined);
/** @type {(given: URLSearchParams, name: string) => number} */
const placeOf = (given, name) => whole(given, name, 0, 10 ** 7);
/** @type {(given: URLSearchParams, name: string, least: number, most: number) => number | undefined} */
function fraction(given, name, least, most) {
  const text = given.get(name);
  if (text === null) return undefined;
  if (!/^\d{1,7}(\.\d{0,9})?$/.test(text) || Number(text) < least || Number(text) > most)
    throw new Error(`${name}: must be a number from ${least} to ${most}, not '${text}'`);
  return Number(text);
}
// 3:5 as [3, 5].
/** @type {(given: URLSearchParams, name: string) => number[] | null} */
function span(given, name) {
  const text = given.get(name);
  if (text === null) return null;
  if (!/^\d+:\d+$/.test(text)) throw new Error(`${name}: must be a range such as 10:30, not '${text}'`);
  return text.split(':').map(Number);
}
/** @type {(given: URLSearchParams, name: string) => number[]} */
function tokenIds(given, name) {
  const text = given.get(name) ?? '';
  if (!/^(\d+(\.\d+)*)?$/.test(text)) throw new Error(`${name}: must be token ids such as 7.43, not '${text}'`);
  return text ? text.split('.').map(Number) : [];
}

// ---- one run: GET /api/runs/RUN/...
/** @type {(run: LocalRun, given: URLSearchParams) => unknown} */
function stepsOf(run, given) {
  const k = whole(given, 'k', 1, 200, 10);
  const positions = span(given, 'positions');
  if (!given.has('tokens')) return steps(run, positions, k);
  return stepsAlong(run, tokenIds(given, 'tokens'), positions, k);
}
/** @type {(run: LocalRun, given: URLSearchParams) => unknown} */
function decodeOf(run, given) {
  if (given.has('force')) throw new Error(`force: ${INSTALLED}`);
  const beam_size = whole(given, 'beam_size', 1, 32, 4);
  return decode(run.opened.model, run.question.text, {
    beam_size,
    n_best: whole(given, 'n_best', 1, 32, Math.min(beam_size, 4)),
    begin: tokenIds(given, 'begin'),
    max_length: wholeIfGiven(given, 'max_length', 1, 40),
    edit: run.edit,
  });
}
/** @type {(run: LocalRun, given: URLSearchParams) => unknown} */
const drawsOf = (run, given) =>
  draws(run.opened.model, run.question.text, {
    temperature: fraction(given, 'temperature', 0, 10),
    top_k: wholeIfGiven(given, 'top_k', 1, 10 ** 6),
    top_p: fraction(given, 'top_p', 0.001, 1),
    repetition_penalty: fraction(given, 'repetition_penalty', 1, 10),
    seed: whole(given, 'seed', 0, 10 ** 6, 0),
    samples: whole(given, 'samples', 1, 8, 3),
    edit: run.edit,
  });
/** @type {Record<string, (run: LocalRun, given: URLSearchParams) => unknown>} */
const OF_RUN = {
  steps: stepsOf,
  decode: decodeOf,
  draws: drawsOf,
  terms: (run, given) => terms(run, given.get('address') ?? '', whole(given, 'top', 1, MOST, TOP)),
  contributions: (run, given) => contributions(run, placeOf(given, 'position'), placeOf(given, 'output')),
  lens: (run, given) => lens(run, placeOf(given, 'position')),
  saliency: (run, given) => saliency(run, placeOf(given, 'position')),
  effect: (run, given) => effect(run, given.getAll('off')),
};
/** @type {Record<string, (run: LocalRun, given: URLSearchParams) => Bytes | Promise<ArrayBuffer>>} */
const FRAMES_OF_RUN = {
  tensors,
  heads: (run, given) =>
    heads(run, given.get('kind') ?? 'encoder', whole(given, 'pool', 4, 512, 48), span(given, 'layers')),
};
// Activation patching: GET /api/patching...
/** @type {(given: URLSearchParams) => Measure} */
const measureIn = given =>
  Object.fromEntries(
    ['position', 'output', 'against'].flatMap(name =>
      given.has(name) ? [[name, whole(given, name, 0, 10 ** 7)]] : [],
    ),
  );
/** @type {Record<string, (clean: LocalRun, corrupted: LocalRun, given: URLSearchParams) => object>} */
const PATCHING = {
  '': (clean, corrupted, given) => patchOutline(clean, corrupted, measureIn(given)),
  '/row': (clean, corrupted, given) =>
    patchRow(clean, corrupted, measureIn(given), given.get('at') ?? '', span(given, 'tokens')),
  '/cell': (clean, corrupted, given) =>
    patchCell(clean, corrupted, measureIn(given), given.get('at') ?? '', whole(given, 'token', 0, 10 ** 7)),
};
// What the installed program has and a page without it lacks, by the last part of the path.
/** @type {Record<string, string>} */
const LACKS = {
  unit: 'A survey of a unit',
  labels: 'Labels of units',
  hardest: 'A survey of texts',
  session: 'Saving the session',
  practice: 'This exercise',
  text: 'Another example',
  planes: 'This comparison',
};
/** @type {(path: string) => string} */
export function lacking(path) {
  const found = path
    .split('?')[0]
    .split('/')
    .findLast(part => Object.hasOwn(LACKS, part));
  return found ? `${LACKS[found]}: ${INSTALLED}` : `This needs the installed program: translucid explore`;
}

// A user's own lesson about a text that was not recorded: its stops by title, each with the reason why it is empty.
/** @type {(outline: Lesson) => Lesson} */
const withoutText = lesson => ({
  ...lesson,
  steps: lesson.steps.map(({ title }) => ({
    ...{ title, say: [], do: [], address: '', pin: [], light: [] },
    lacks: `your own lesson about another sentence: ${INSTALLED}`,
    in_sentence: true,
  })),
});

// A function whose results are kept, unless they fail.
/** @type {<T>(act: (key: string) => Promise<T>) => (key: string) => Promise<T>} */
export function once(act) {
  /** @type {Map<string, Promise<any>>} */
  const kept = new Map();
  return key => {
    const found = kept.get(key) ?? act(key);
    found.catch(() => kept.delete(key));
    kept.set(key, found);
    return found;
  };
}
// A model with its description and the catalogue, which are among the recorded answers. facts: by model.
/** @type {(answers: SavedAnswer[], facts: Record<string, () => Promise<LocalFacts>>, m: string,
 *  load: () => Promise<LocalModel>) => Promise<OpenedLocally>} */
export async function opened(answers, facts, m, load) {
  if (!facts[m]) throw new Error(`m: unknown model '${m}'; expected ${Object.keys(facts).join(', ')}`);
  const found = await facts[m]();
  const [about, catalogue] = [`model/${m}`, 'catalogue'].map(what => {
    const [, , , , , text] = /** @type {SavedAnswer} */ (answers.find(([, path]) => path === `/api/${what}`));
    return JSON.parse(text);
  });
  const points = new Map(found.points.map(point => [point.at, point]));
  return { ...found, about, catalogue, points, model: await load() };
}
// The model that was trained on points in the plane with this kind of network.
/** @type {(answers: SavedAnswer[], kind: string) => string | undefined} */
export const trainedInPlane = (answers, kind) =>
  answers
    .filter(([, path]) => /^\/api\/model\/\w+$/.test(path))
    .map(([, , , , , text]) => JSON.parse(text))
    .find(({ plane }) => plane?.kind === kind)?.m;
/** @type {(body: string) => Question} */
function questionOf(body) {
  const { off, ...given } = JSON.parse(body);
  return off?.length ? { ...given, off: [...new Set(off)].sort() } : given;
}
/** @type {(body: string) => string[]} */
function textsIn(body) {
  const { texts } = JSON.parse(body);
  if (!texts?.length) throw new Error('texts: expected a list of texts');
  const longest = Math.max(...texts.map((/** @type {string} */ text) => text.length));
  if (longest > MOST_CHARACTERS) throw new Error(`texts: ${longest} characters; the limit is ${MOST_CHARACTERS}`);
  return texts;
}
// The runs among recorded answers, by their keys.
/** @type {(answers: SavedAnswer[]) => Map<string, Question>} */
export const runsIn = answers =>
  new Map(
    answers
      .filter(([method, path]) => method === 'POST' && path === '/api/runs')
      .map(([, , body, , , text]) => [JSON.parse(text).run, questionOf(body)]),
  );

// open: a model by its key; lessons: their script, loaded when it is needed; textsOf: a model's example texts;
// outline: of a user's own lesson; planeOf: the model that is trained in the plane; asked: runs that may be requested
// by their keys.
/** @type {(site: LocalSite) => AskServer} */
export function local({ open, lessons, textsOf, outline, planeOf, asked = new Map() }) {
  /** @type {Map<string, LocalRun>} the newest last */
  const runs = new Map();
  /** @type {(question: Question) => Promise<LocalRun>} */
  async function runOf(question) {
    const key = keyOf(question);
    asked.set(key, question);
    const run = runs.get(key) ?? new LocalRun(await open(question.m), question);
    runs.delete(key);
    runs.set(key, run);
    for (const oldest of runs.keys()) if (runs.size > KEPT) runs.delete(oldest);
    return run;
  }
  /** @type {(key: string | null) => Promise<LocalRun>} */
  function keptRun(key) {
    const question = asked.get(key ?? '');
    if (!question) throw new Error(`run '${key}' has expired; request it again`);
    return runOf(question);
  }
  /** @type {(m: string, number: number) => Promise<object>} */
  async function anotherText(m, number) {
    const texts = await textsOf(m);
    if (!texts.length) throw new Error('the model has no example texts');
    return { text: asOpened((await open(m)).model, texts[number % texts.length]) };
  }
  /** @type {(body: string) => Promise<unknown>} */
  async function newRun(body) {
    return (await runOf(questionOf(body))).described();
  }
  /** @type {(run: LocalRun, id: string) => Promise<unknown>} */
  async function lessonOf(run, id) {
    const own = id === OWN && outline ? await outline(id) : null;
    return own ? withoutText(own) : (await lessons('')).onRun(run, lessonHelp, id);
  }
  // Whether the task of a stop is done on the page at an address.
  /** @type {(run: LocalRun, id: string, stop: string, given: URLSearchParams) => Promise<unknown>} */
  async function check(run, id, stop, given) {
    if (id === OWN && outline) throw new Error(`A task of your own lesson: ${INSTALLED}`);
    const address = given.get('address') ?? '';
    const off = new URLSearchParams(address.split('?')[1]).get('off')?.split(',').filter(Boolean) ?? [];
    const changed = off.length ? await runOf({ ...run.question, off: [...new Set(off)].sort() }) : run;
    const typed = given.get('answer') ?? '';
    return (await lessons('')).check(changed, run, lessonHelp, { id, stop: Number(stop), address, typed });
  }
  /** @type {(kind: string, given: URLSearchParams) => Promise<PlaneStep>} */
  async function trained(kind, given) {
    const m = await planeOf(kind);
    const start = m && (await open(m)).plane;
    if (!start) throw new Error(`kind: this page has no training of kind '${kind}'`);
    const step = whole(given, 'step', 0, start.steps, 0);
    const seed = whole(given, 'seed', 0, start.weights.length - 1, start.seed);
    return planeStep(start, kind, given.get('problem') ?? 'and', step, seed);
  }
  /** @type {(method: string, path: string, body: string) => Promise<RecordedAnswer | null>} */
  async function answer(method, path, body) {
    const [at, query = ''] = path.split('?');
    const given = new URLSearchParams(query);
    if (method === 'POST' && at === '/api/runs') return json(await newRun(body));
    if (at === '/api/diff') {
      const [a, b] = await Promise.all(['a', 'b'].map(name => keptRun(given.get(name))));
      return json(compare(a, b, ripple));
    }
    const [, patching] = /^\/api\/patching(|\/\w+)$/.exec(at) ?? [];
    if (patching !== undefined) {
      const [clean, corrupted] = await Promise.all(['clean', 'corrupted'].map(name => keptRun(given.get(name))));
      return json(PATCHING[patching](clean, corrupted, given));
    }
    const [, m, ofModel] = /^\/api\/model\/(\w+)\/(text|words|unknown)$/.exec(at) ?? [];
    if (ofModel === 'text') return json(await anotherText(m, whole(given, 'number', 0, 10 ** 9, 0)));
    if (ofModel === 'words') {
      const texts = await textsOf(m);
      return json({ texts, vocabulary: texts.length ? [] : vocabulary((await open(m)).model) });
    }
    if (ofModel === 'unknown') {
      const { model } = await open(m);
      return json(textsIn(body).map(text => unknownPlaces(model, text)));
    }
    const [, kind] = /^\/api\/plane\/(\w+)$/.exec(at) ?? [];
    if (kind) return json(await trained(kind, given));
    const [, key, what = '', id, stop] = /^\/api\/runs\/(\w+)(?:\/(\w+)(?:\/([\w-]+)(?:\/(\d+))?)?)?$/.exec(at) ?? [];
    if (!key) return null;
    const run = await keptRun(key);
    if (!what) return json(run.described());
    if (what === 'lesson') return json(await lessonOf(run, id));
    if (what === 'check') return json(await check(run, id, stop, given));
    if (Object.hasOwn(OF_RUN, what)) return json(OF_RUN[what](run, given));
    if (Object.hasOwn(FRAMES_OF_RUN, what)) return binary(await FRAMES_OF_RUN[what](run, given));
    return null;
  }
  return async (method, path, body) => {
    try {
      return (await answer(method, path, body)) ?? json({ error: lacking(path) }, 422);
    } catch (error) {
      return json({ error: error instanceof Error ? error.message : String(error) }, 422);
    }
  };
}
