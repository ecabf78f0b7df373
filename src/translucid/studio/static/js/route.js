// The address is the state: #/attention?at=decoder.layers.1.cross_attention&head=3&pin=src:2,tgt:5
export function address() {
  const [path, query = ''] = location.hash.replace(/^#\/?/, '').split('?');
  return { view: path || 'flow', named: path !== '', params: new URLSearchParams(query) };
}
export function link(view, changes = {}) {
  const { params } = address();
  for (const [key, value] of Object.entries(changes))
    value === null || value === undefined ? params.delete(key) : params.set(key, value);
  return written(view, params);
}
const made = new Set(); // addresses that the page itself has written
export const isOwn = hash => made.has(hash);
export function written(view, params) {
  const query = params.toString().replaceAll('%3A', ':').replaceAll('%2C', ',');
  const to = `#/${view}${query ? `?${query}` : ''}`;
  made.add(to);
  return to;
}
export function go(view, changes = {}) {
  location.hash = link(view, changes);
}
export function settle(changes) {
  history.replaceState(null, '', link(address().view, changes));
} // no redraw
