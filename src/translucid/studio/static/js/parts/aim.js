// Where two keys meet: which row and which column of a table the hovered or pinned keys mean.
// In self-attention rows and columns are the same words, so the first key is the row and the second the column.
export function aim(keys, rows, cols) {
  // rows, cols: arrays of keys (or empty)
  const same = rows.length > 0 && rows[0] === cols[0];
  const places = wanted => keys.map(key => placeIn(wanted, key)).filter(place => place >= 0);
  const inRows = places(rows);
  const inCols = places(cols);
  const row = inRows[0] ?? null;
  const col = (same ? (inCols[1] ?? inCols[0]) : inCols[0]) ?? null;
  return { row, col, exact: row !== null && col !== null && (!same || inRows.length > 1) };
}

// A row of a pooled table stands for its word and for those that follow, up to the next row.
function placeIn(wanted, key) {
  const found = wanted.indexOf(key);
  if (found >= 0 || wanted.length < 2) return found;
  const [side, place] = key.split(':');
  const [first, step] = [wanted[0], wanted[1]].map(each =>
    each.startsWith(`${side}:`) ? Number(each.slice(side.length + 1)) : NaN,
  );
  const row = Math.floor((place - first) / (step - first));
  return step - first > 1 && row >= 0 && row < wanted.length ? row : -1;
}
// Which word is meant within a row of a pooled table: the one that a key names, else the first.
export function wordIn(keys, rows, row) {
  const number = each => Number(each.split(':')[1]);
  const [side] = rows[0].split(':');
  const step = rows.length > 1 ? number(rows[1]) - number(rows[0]) : 1;
  const key = keys.find(each => each.startsWith(`${side}:`) && Math.floor(number(each) / step) === row);
  return key === undefined ? row * step : number(key);
}
// Calls f now and at every change, as long as the element is on the page.
export function follow(el, link, f) {
  let been = false;
  const stop = link.onChange(() => {
    if (el.isConnected) {
      been = true;
      f();
    } else if (been) stop();
  });
  f();
}
export const range = n => Array.from({ length: n }, (_, i) => i);
// What a panel is about: what is pinned, else what the pointer is over, else what it was over last. So a panel stands
// still while the pointer is on its way to it.
export function steady(link) {
  let last = [];
  return () => {
    last = [link.state.pins, link.state.hover].find(keys => keys.length) ?? last;
    return last;
  };
}
export const looked = link => (link.state.hover.length ? link.state.hover : link.state.pins);

// Which of many labels are shown: every n-th, the looked-at one always, and none that would touch it.
export const shown = (i, every, lit) =>
  i === lit || (i % every === 0 && (lit === null || lit === undefined || Math.abs(i - lit) >= every));
export function spaced(places, gap, lit) {
  // the same for labels that do not stand at equal distances
  const seen = new Set(lit === null || lit === undefined ? [] : [lit]);
  let last = -Infinity;
  places.forEach((y, i) => {
    if (i === lit || (y - last >= gap && (!(lit >= 0) || lit === null || Math.abs(y - places[lit]) >= gap))) {
      seen.add(i);
      last = y;
    }
  });
  return seen;
}
export const short = (word, most = 14) => (word.length > most ? `${word.slice(0, most - 1)}…` : word);
