// The address is the state: #/attention?at=decoder.layers.1.cross_attention&head=3&pin=src:2,tgt:5
export const START = 'lesson'; // the view of an address without one
export function address() {
  const [path, query = ''] = location.hash.replace(/^#\/?/, '').split('?');
  return { view: path || START, named: path !== '', params: new URLSearchParams(query) };
}
/** @type {(view: string, changes?: Changes) => string} */
export function link(view, changes = {}) {
  const { params } = address();
  for (const [key, value] of Object.entries(changes))
    value === null || value === undefined ? params.delete(key) : params.set(key, String(value));
  return hashFor(view, params);
}
/** @type {Set<string>} */
const made = new Set(); // addresses that the page itself has written
/** @type {(hash: string) => boolean} */
export const isOwn = hash => made.has(hash);
/** @type {(view: string, params: URLSearchParams) => string} */
export function hashFor(view, params) {
  const query = params.toString().replaceAll('%3A', ':').replaceAll('%2C', ',');
  const to = `#/${view}${query ? `?${query}` : ''}`;
  made.add(to);
  return to;
}
/** @type {(view: string, changes?: Changes) => void} */
export function go(view, changes = {}) {
  location.hash = link(view, changes);
}
/** @type {(changes: Changes) => void} */
export function replaceAddress(changes) {
  history.replaceState(null, '', link(address().view, changes));
} // no redraw

// ---- checks of the values in a link: each returns '' or what is allowed. Invalid keys are ignored, with a note.
export const anyValue = () => '';
/** @type {(...names: string[]) => (value: string) => string} */
export const oneOf =
  (...names) =>
  value =>
    names.includes(value) ? '' : `choose ${names.join(', ')}`;
/** @type {(least: number, most: number) => (value: string) => string} */
export const between = (least, most) => value =>
  /^\d+(\.\d+)?$/.test(value) && Number(value) >= least && Number(value) <= most ? '' : `${least} to ${most}`;
// most: the number of items, if known.
/** @type {(what: string, most?: number) => (value: string) => string} */
export const indexBelow = (what, most) => value =>
  /^\d+$/.test(value) && (most === undefined || Number(value) < most)
    ? ''
    : most === undefined
      ? `${what} are counted 0, 1, 2`
      : `${what} 0 to ${most - 1} are there`;
/** @type {(text: string) => string[]} */
export const splitList = text => text.split(',').filter(Boolean);
/** @type {(value: string, check: (value: string) => string) => string} */
const firstFault = (value, check) => splitList(value).map(check).find(Boolean) ?? '';

// Keys of a link in any view.
/** @type {Record<string, Check>} */
const SHARED = {
  text: anyValue,
  target: anyValue,
  embed: anyValue,
  i: anyValue,
  walk: anyValue,
  m: (value, { all }) => oneOf(...all.map(each => each.m))(value),
  theme: oneOf('light', 'dark'),
  hide: value => firstFault(value, oneOf('bar', 'sentence', 'views', 'tools', 'readout')),
  at: (value, { run }) =>
    !run || run.points.some(({ at }) => at === value || at.startsWith(`${value}.`)) ? '' : 'this run has no such point',
  pin: (value, { run }) => (run ? pinned(value, run.tokens) : ''),
  head: (value, { model }) => (value === 'mean' ? '' : indexBelow('heads', model.config.heads ?? undefined)(value)),
  layer: (value, { model: { config } }) =>
    firstFault(value, each =>
      indexBelow('layers', Math.max(config.layers ?? 1, config.decoder_layers ?? 0))(each.replace(/^\w+\./, '')),
    ),
  unit: (value, { view, model: { config } }) =>
    indexBelow('units', view === 'recurrent' ? (config.hidden ?? config.d_model ?? undefined) : undefined)(value),
  step: indexBelow('steps'),
  // The lesson's strip reports a stop that does not exist or does not apply.
  lesson: (value, { lessons }) =>
    /^[\w-]+\.\d+$/.test(value) || lessons.some(each => each.id === value)
      ? ''
      : `stops are ${lessons.map(each => `${each.id}.1 to ${each.id}.${each.steps}`).join(', ')}`,
};
/** @type {(value: string, tokens: Tokens) => string} */
function pinned(value, { source, target, features }) {
  /** @type {Record<string, number>} */
  const count = { src: (source.length ? source : features).length, tgt: target.length };
  return splitList(value).every(key => /^(src|tgt):\d+$/.test(key) && Number(key.slice(4)) < count[key.slice(0, 3)])
    ? ''
    : `tokens src:0 to src:${count.src - 1}${count.tgt ? ` and tgt:0 to tgt:${count.tgt - 1}` : ''} are there`;
}
// The invalid keys of a link with what is allowed. found: { all, model, run, params, lessons }; absent: why the view is
// not available.
/** @type {(view: string, found: Checked, absent: string | false, views: Record<string, View>) => string[]} */
export function invalidKeys(view, found, absent, views) {
  const checks = Object.assign({}, SHARED, ...Object.values(views).map(each => each.linkParts));
  const wrong = [...found.params]
    .filter(([, value]) => value !== '')
    .map(([key, value]) => {
      const why = Object.hasOwn(checks, key) ? checks[key](value, { ...found, view }) : 'unknown key';
      return why && `${key}=${value.length > 40 ? `${value.slice(0, 40)}…` : value} (${why})`;
    });
  return [absent && `view=${view} (${absent})`, ...wrong].filter(Boolean);
}
