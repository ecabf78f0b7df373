// All heads of one kind of attention, small. Of a long text one layer after the other, that which is looked at first:
// nobody waits for all of them.
import * as api from '../api.js';

// names: the patterns, layer by layer; heads: of each.
export function glance(run, kind, names, heads) {
  const layers = names.map(() => null); // each: its frame, and its place in it
  const ask = async layer => {
    if (layers[layer]) return;
    if (run.by_layer) layers[layer] = [await api.heads(run.run, kind, `${layer}:${layer + 1}`), 0];
    else {
      const frame = await api.heads(run.run, kind);
      names.forEach((_, l) => {
        layers[l] = [frame, l];
      });
    }
  };
  const of = (name, l, n) => layers[l]?.[0][name][layers[l][1]][n];
  return {
    names,
    heads,
    ask,
    has: l => layers[l] !== null,
    most: (l, n) => of('most', l, n), // the largest weight
    entropy: (l, n) => of('entropy', l, n), // bits, the mean of all rows
    get missing() {
      return layers.filter(each => !each).length;
    },
    // The bytes of a head's picture, of 0 to 254, of all heads where none is named; and its rows and columns.
    cells(l, n) {
      const [frame, at] = layers[l];
      const [, , rows, cols] = frame.shape;
      const first = (at * heads + (n ?? 0)) * rows * cols;
      return { rows, cols, bytes: frame.raw.subarray(first, first + (n === null ? heads : 1) * rows * cols) };
    },
    // Layers that are not there yet, the nearest first. onlayer: told of each; before: waited for before each.
    async rest(near, onlayer, stopped, before) {
      const order = names.map((_, l) => l).sort((a, b) => Math.abs(a - near) - Math.abs(b - near));
      for (const layer of order) {
        if (layers[layer]) continue;
        await before();
        if (stopped()) return;
        await ask(layer);
        if (!stopped()) onlayer(layer);
      }
    },
  };
}
