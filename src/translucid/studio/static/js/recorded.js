// The entry of a saved session: requests are answered from the recorded answers, and from whole tensors, which
// recorded_tensors.js cuts.
import { frames } from './frames.js';
import { bare, tensors } from './recorded_tensors.js';
import { fill } from './embedded.js';

const GONE = 'This is not recorded in this file. To see it, open the model: translucid explore';
/** @type {(text: string) => Uint8Array<ArrayBuffer>} */
export const bytesOf = text => Uint8Array.from(atob(text), letter => letter.charCodeAt(0));
/** @type {(value: unknown) => unknown} */
const sorted = value =>
  value && typeof value === 'object' && !Array.isArray(value)
    ? Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)))
    : value;
/** @type {(method: string, path: string, body: string) => string} */
function keyOf(method, path, body) {
  // the order of names in a query does not matter
  const [at, query = ''] = path.split('?');
  const given = new URLSearchParams(query);
  given.sort();
  return `${method} ${at}?${given} ${body ? JSON.stringify(sorted(JSON.parse(body))) : ''}`;
}

// The tables of these training steps, selected from those that were recorded together.
/** @type {(all: Uint8Array<ArrayBuffer>) => Map<number, Uint8Array<ArrayBuffer>>} */
const tables = all => new Map(frames(all.buffer).map(({ step, from, end }) => [step, all.slice(from, end)]));

// The requested steps with fewer tokens each; nothing if some were not recorded.
/** @type {(all: Steps, wanted: URLSearchParams) => Steps | null} */
function steps(all, wanted) {
  const k = Number(wanted.get('k') ?? 10);
  const [from, to] = wanted.get('positions')?.split(':').map(Number) ?? [0, all.steps.length];
  const some = all.steps.filter(each => each.n >= from && each.n < to);
  if (some.length < to - from || some.some(each => each.ids.length < k && each.others)) return null;
  return { ...all, steps: some.map(each => fewer(each, k)) };
}
/** @type {(step: Step, k: number) => Step} */
function fewer(step, k) {
  const probabilities = step.probabilities.slice(0, k);
  const ids = step.ids.slice(0, k);
  return {
    ...step,
    words: step.words.slice(0, k),
    ids,
    probabilities,
    logits: step.logits.slice(0, k),
    rest: Math.max(0, 1 - probabilities.reduce((sum, p) => sum + p, 0)),
    others: step.others + step.ids.length - ids.length,
  };
}

// ---- answering
/** @type {AskServer} */
const gone = async () => ({ status: 404, kind: 'application/json', bytes: JSON.stringify({ error: GONE }) });
// otherwise: answers what was not recorded.
/** @type {(session: Pick<SavedSession, 'answers' | 'points'>, otherwise?: AskServer) => AskServer} */
export function recorded({ answers, points }, otherwise = gone) {
  const known = new Map(answers.map(([method, path, body, ...answer]) => [keyOf(method, path, body), answer]));
  const opened = new Map();
  /** @type {(run: string) => Map<string, Frame>} */
  function pointsOf(run) {
    if (!opened.has(run))
      opened.set(run, new Map(frames(bytesOf(points[run] ?? '').buffer).map(frame => [frame.at, frame])));
    return opened.get(run);
  }
  // The recorded steps of a run along the same tokens.
  /** @type {(run: string, tokens: string | null) => Steps[]} */
  const stepsOf = (run, tokens) =>
    answers.flatMap(([, path, , , , text]) => {
      const [at, query] = path.split('?');
      const all = at === `/api/runs/${run}/steps` ? new URLSearchParams(query) : null;
      return all && all.get('tokens') === tokens && !all.has('positions') ? [JSON.parse(text)] : [];
    });
  /** @type {(value: unknown) => RecordedAnswer} */
  const json = value => ({ status: 200, kind: 'application/json', bytes: JSON.stringify(value) });
  return async (method, path, body) => {
    const found = known.get(keyOf(method, path, body));
    if (found)
      return {
        status: found[0],
        kind: found[1],
        bytes: found[1] === 'application/json' ? found[2] : bytesOf(found[2]),
      };
    const training = path.match(/^(\/api\/train\/\w+\/probes)\?(.*)$/);
    if (training) {
      const there = answers.filter(([, at]) => at.startsWith(`${training[1]}?`));
      const tablesByStep = new Map(there.flatMap(([, , , , , text]) => [...tables(bytesOf(text))]));
      const wanted = new URLSearchParams(training[2]).getAll('step').map(step => tablesByStep.get(Number(step)));
      if (wanted.every(each => each !== undefined))
        return { status: 200, kind: 'application/octet-stream', bytes: await new Blob(wanted).arrayBuffer() };
    }
    const asked = path.match(/^\/api\/runs\/(\w+)\/(tensors|terms|steps)\?(.*)$/);
    const given = new URLSearchParams(asked?.[3]);
    if (asked?.[2] === 'steps') {
      const cut = stepsOf(asked[1], given.get('tokens')).map(all => steps(all, given));
      const some = cut.find(Boolean);
      if (some) return json(some);
    } else if (asked?.[2] === 'terms' && otherwise === gone) {
      const plain = bare(pointsOf(asked[1]), given.get('address') ?? '', 'are not recorded in this file');
      if (plain) return json(plain);
    } else if (asked?.[2] === 'tensors' && given.getAll('at').every(name => pointsOf(asked[1]).has(name))) {
      return { status: 200, kind: 'application/octet-stream', bytes: await tensors(pointsOf(asked[1]), given) };
    }
    return otherwise(method, path, body);
  };
}
/** @type {(el: HTMLElement, data: SavedSession) => PlaceMade} */
export const open = (el, data) => fill(el, recorded(data), data.address);
