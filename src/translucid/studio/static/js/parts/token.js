// A word wears its numbers: the stripe under it is its vector at the selected depth.
import { h, special } from '../dom.js';
import { canvas, paintRows } from '../ink.js';
import * as link from '../link.js';

export const UNKNOWN = 'not in the vocabulary: the model reads <unk>';

export function token(word, vector, scale, key, unknown = false) {
  const { el, ctx } = canvas(60, 4);
  if (vector) paintRows(ctx, [vector], { x: 0, y: 0, width: 60, pitch: 4, height: 4, scale });
  const chip = h(
    'button',
    {
      class: `token${unknown ? ' unknown' : ''}`,
      'data-key': key,
      'aria-label': `token ${word}${unknown ? `, ${UNKNOWN}` : ''}`,
      title: unknown ? UNKNOWN : null,
    },
    h('span', { class: special(word) ? 'word special' : 'word' }, word),
    h('span', { class: 'code' }, el),
  );
  return link.alive(chip, [key]);
}
