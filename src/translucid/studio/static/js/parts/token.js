// Tokens with a stripe that shows their vector, and the names of rows.
import { paintRow, canvas } from '../ink.js';
import { h, isSpecialToken } from '../dom.js';
import { term } from '../glossary.js';
import * as highlight from '../highlight.js';
import { wordElement } from '../readout.js';

export const UNKNOWN = 'not in the vocabulary: the model reads <unk>';

/** @type {(text: string, row: number[] | null, scale: Scale | null, key: string, unknown?: boolean) => HTMLElement} */
export function token(text, vector, scale, key, unknown = false) {
  const { el, ctx } = canvas(60, 4);
  if (vector && scale) paintRow(ctx, vector, { x: 0, y: 0, width: 60, height: 4, scale });
  const chip = h(
    'button',
    {
      class: `token${unknown ? ' unknown' : ''}`,
      'data-key': key,
      'aria-label': `token ${text}${unknown ? `, ${UNKNOWN}` : ''}`,
      title: unknown ? UNKNOWN : null,
    },
    h('span', { class: isSpecialToken(text) ? 'word special' : 'word' }, text),
    h('span.code', el),
  );
  return highlight.clickable(chip, [key]);
}

// ---- a row of a decoder reads one token and writes the next, so its name has both: the row that reads 'schläft'
// attends to 'not' because it writes 'nicht'
/** @type {(run: Run, side: Side, i: number) => string | undefined} */
const written = ({ tokens }, side, i) => (side === 'target' ? tokens.follows[i] : undefined);

// side: 'source' or 'target'. The short name, as in the labels of a matrix: schläft → nicht.
/** @type {(run: Run, side: Side, i: number) => Content[]} */
export function rowName(run, side, i) {
  const writes = written(run, side, i);
  return [wordElement(run.tokens[side][i] ?? '·'), ...(writes === undefined ? [] : [' → ', wordElement(writes)])];
}
/** @type {(text: string) => HTMLElement | string} */
const named = text => (isSpecialToken(text) ? term(text) : wordElement(text));
// The same in words, for a panel.
/** @type {(run: Run, side: Side, i: number) => Content[]} */
function rowInWords(run, side, i) {
  const writes = written(run, side, i);
  const read = named(run.tokens[side][i] ?? '·');
  return writes === undefined ? [read] : ['the row that reads ', read, ' and writes ', named(writes)];
}
/** @type {(run: Run, side: Side, i: number, key: string) => Content[]} */
export const attendsTo = (run, side, i, key) => [...rowInWords(run, side, i), ' attends to ', named(key)];
