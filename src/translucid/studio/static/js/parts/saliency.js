// Saliency as bars under the sentence: gradient × input of each input token for the output at one position. On demand;
// it follows the pin.
import { byId, h, icon } from '../dom.js';
import { cssColour, num } from '../ink.js';
import * as api from '../api.js';
import * as highlight from '../highlight.js';
import { address, replaceAddress } from '../route.js';
import { notice, wordElement } from '../readout.js';

/** @type {Record<string, string>} */
const AT = { target_tokens: 'tgt', next_tokens: 'tgt', tags: 'src', masked_tokens: 'src' }; // where answers stand

// Add a button beside the sentence; the result removes everything again.
/** @type {(run: Run, model: Model) => () => void} */
export function saliency(run, model) {
  const sentence = byId('sentence');
  const chips = [...sentence.querySelectorAll('.token')];
  const edit = sentence.querySelector('.rewrite');
  if (!chips.length || !edit) return () => {};
  const side = AT[model.outputs ?? ''];
  let on = address().params.get('saliency') === 'on';
  let turn = 0;
  const what = h('span');
  const button = h(
    'button.edit.salience',
    {
      'aria-label': 'Saliency',
      title: 'Saliency: gradient × input, a bar under each word',
      onclick: toggle,
    },
    icon('bars'),
    'Saliency',
    what,
  );
  edit.before(button);
  // A word of a translation is shown at the row that writes it; it is read one row later.
  /** @type {(found: Saliency, key: string) => number | undefined} */
  const counted = (found, key) => {
    const [of, place] = key.split(':');
    const later = of === 'tgt' && run.tokens.source.length ? 1 : 0;
    return (of === 'src' ? found.source : found.target)[Number(place) + later];
  };
  function clear() {
    for (const bar of sentence.querySelectorAll('.counted')) bar.remove();
    what.replaceChildren();
  }
  async function draw() {
    const mine = ++turn;
    button.setAttribute('aria-pressed', String(on));
    if (!on) return clear();
    const found = await api
      .saliency(run.run, (side ? highlight.pinned(side) : null) ?? 0)
      .catch(error => notice(api.refusal(error)));
    if (mine !== turn) return;
    clear();
    if (!found) return;
    what.append(' for ', wordElement(found.word));
    for (const chip of chips) {
      const value = counted(found, chip.dataset.key ?? '');
      if (value === undefined) {
        chip.append(h('span.counted.unread')); // not read yet at this position; all stand in one line
        continue;
      }
      const wide = (100 * Math.abs(value)) / (found.largest || 1);
      const colour = cssColour(value < 0 ? -0.78 : 0.78, { kind: 'div', max: 1 });
      chip.append(
        h(
          'span.counted',
          { title: `gradient × input ${num(value, 4)}`, 'data-value': String(value) },
          h('i', { style: `width:${wide.toFixed(2)}%;background:${colour}` }),
        ),
      );
    }
  }
  function toggle() {
    on = !on;
    replaceAddress({ saliency: on ? 'on' : null });
    draw();
  }
  const stop = highlight.onChange(kind => {
    if (kind === 'pin' && on) draw();
  });
  draw();
  return () => {
    turn += 1;
    stop();
    clear();
    button.remove();
  };
}
