// A row of a decoder has read one token and writes the next. By the first alone it would be a riddle: the row that has
// read 'schläft' looks at 'not', since it writes 'nicht'.
import { word } from '../readout.js';

const written = ({ tokens }, side, i) => (side === 'target' ? tokens.follows[i] : undefined);

// side: 'source' or 'target'. As the rows of a matrix are labelled, short: schläft → nicht.
export function rowName(run, side, i) {
  const writes = written(run, side, i);
  return [word(run.tokens[side][i] ?? '·'), ...(writes === undefined ? [] : [' → ', word(writes)])];
}
// The same in words, for a panel that has room.
export function rowInWords(run, side, i) {
  const writes = written(run, side, i);
  const read = word(run.tokens[side][i] ?? '·');
  return writes === undefined ? [read] : ['the row that has read ', read, ' and writes ', word(writes)];
}
export const looksAt = (run, side, i, key) => [...rowInWords(run, side, i), ' looks at ', word(key)];
