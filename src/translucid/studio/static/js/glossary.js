// The terms of the page, each with its only definition, and the button that shows it: by click, touch or Enter.
import { h, isSpecialToken } from './dom.js';

/** @type {Record<string, string>} */
export const TERMS = {
  token: 'a word, a part of a word or a punctuation mark; the model reads and writes tokens',
  vocabulary: 'the list of all tokens that the model can read',
  '<s>': 'the token for the start of the text: the decoder reads it before it has written anything',
  '</s>': 'the token for the end of the text: read after the last word, and written when the text is complete',
  '<unk>': 'the token that replaces every word that is not in the vocabulary',
  encoder: 'the half of the model that reads the source text',
  decoder: 'the half of the model that writes: it reads what it has written so far and predicts the next token',
  layer: 'one of several equal steps, applied in sequence; layer 0 is the first',
  attention: 'how much a token takes from each other token: weights from 0 to 1, which sum to 1 in every row',
  head: 'one of several attentions computed side by side in a layer, each with weights of its own; head 0 is the first',
  query: 'the vector with which a token searches: it is compared with the key of every token',
  key: 'the vector with which a token is found: the better it matches a query, the larger the weight',
  value: 'the vector that a token passes on, multiplied by its attention weight',
  unit: 'one number of a vector, followed from token to token',
  gate: 'a number from 0 to 1 that multiplies another: 0 stops it, 1 lets it pass',
  state: 'the vector in which a recurrent network keeps what it has read',
  logit: 'the score of one token of the vocabulary; the softmax turns all logits into probabilities',
  beam: 'a search that keeps the best few beginnings of the text after every token',
  gradient: 'how much the error changes if one number changes a little',
};

// The term as a button, or the plain text if the glossary does not have it. shown: its form in the sentence.
/** @type {(name: string, shown?: string) => HTMLElement | string} */
export function term(name, shown = name) {
  const meaning = Object.hasOwn(TERMS, name) ? TERMS[name] : null;
  if (meaning === null) return shown;
  /** @type {HTMLElement} */
  const button = h(
    'button.term',
    {
      type: 'button',
      class: isSpecialToken(name) ? 'special' : null,
      title: meaning,
      onclick: () => define(button, name),
    },
    shown,
  );
  return button;
}
// Below the button, or above it where there is no room; Escape, a click elsewhere or scrolling closes it.
/** @type {(button: HTMLElement, name: string) => void} */
function define(button, name) {
  const box = h(
    'div.definition',
    { popover: 'auto', role: 'status' },
    h('b', { class: isSpecialToken(name) ? 'special' : null }, name),
    `: ${TERMS[name]}.`,
  );
  document.body.append(box);
  const close = () => box.hidePopover();
  box.addEventListener('toggle', event => {
    if (/** @type {ToggleEvent} */ (event).newState === 'open') return;
    removeEventListener('wheel', close);
    box.remove();
  });
  addEventListener('wheel', close);
  box.showPopover();
  const at = button.getBoundingClientRect();
  const room = document.documentElement.getBoundingClientRect();
  const { width, height } = box.getBoundingClientRect();
  const left = Math.max(8, Math.min(at.left, room.right - width - 8));
  const low = Math.min(room.bottom, window.innerHeight);
  const top = at.bottom + height + 12 < low ? at.bottom + 6 : at.top - height - 6;
  box.style.left = `${left}px`;
  box.style.top = `${top}px`;
}
