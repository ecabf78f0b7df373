// Controls that several views share, and the header of a panel.
import { h } from '../dom.js';

// A choice as buttons, the chosen one pressed. more: attributes of its button; kind: its class; label: text before the
// buttons.
/** @type {MakeChoice} */
export const choice = (name, options, chosen, choose, { kind = 'seg', label } = {}) =>
  h(
    `div.${kind}`,
    { role: 'group', 'aria-label': name },
    label && h('span.label', label),
    options.map(({ key, text, more }) =>
      h('button', { 'aria-pressed': String(key === chosen), onclick: () => choose(key), ...more }, text),
    ),
  );
// A drop-down list.
/** @type {MakeSelect} */
export const select = (name, options, chosen, choose) =>
  h(
    'select',
    { 'aria-label': name, onchange: event => choose(event.target.value) },
    options.map(({ key, text }) => h('option', { value: key, selected: String(key) === String(chosen ?? '') }, text)),
  );
/** @type {<M extends Model>(name: string, models: M[], chosen: Model, choose: (model: M) => unknown) => HTMLElement} */
export const modelSelect = (name, models, chosen, choose) =>
  select(
    name,
    models.map(each => ({ key: each.m, text: each.name })),
    chosen.m,
    m => models.filter(each => each.m === m).forEach(choose),
  );
// range: [least, most, step]; text: the value for screen readers.
/** @type {MakeSlider} */
export const slider = (name, [min, max, step], value, { text, ...more }) =>
  h('input', { type: 'range', min, max, step, value, 'aria-label': name, 'aria-valuetext': text, ...more });
/** @type {(label: Content, input: Content) => HTMLElement} */
export const field = (label, input) => h('label.field', h('span.quiet', label), input);
// kicker: small text above the title; title: text or a heading; beside: content on the right.
/** @type {(kicker: Content, title: Content, beside?: Content) => HTMLElement} */
export function panelHead(kicker, title, beside) {
  const lines = [h('div.kicker', kicker), title instanceof Element ? title : h('h2', title)];
  return beside ? h('header.row', h('div', lines), beside) : h('header', lines);
}
