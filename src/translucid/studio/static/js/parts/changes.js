// The list of changes in What-if: heads have a strength, each change can be undone, and the list can be copied as
// Python.
import { slider } from './controls.js';
import { h } from '../dom.js';
import { copy } from '../readout.js';

// From a link: the changed parts, and the strength of heads in percent.
/** @type {(text: string, known: Map<string, Switch>) => { off: Set<string>; strength: Map<string, number> }} */
export function changesOf(text, known) {
  const given = text.split(',').map(each => each.split('@'));
  const there = given.filter(([key]) => known.has(key));
  const strong = there.filter(([, percent]) => /^\d+$/.test(percent ?? '') && Number(percent) <= 200);
  return {
    off: new Set(there.map(([key]) => key)),
    strength: new Map(strong.map(([key, percent]) => [key, Number(percent)])),
  };
}
// name: the user's name for the list, in the link and above the Python code.
/** @type {(switches: Switch[], strength: Map<string, number>, o: ChangeActions) => HTMLElement} */
export function changes(switches, strength, { toggle, weaken, run, name = '', rename }) {
  const script = () => python(switches, strength, run, field.value);
  const button = h('button.python', { onclick: () => copy(script()) }, 'Copy Python');
  /** @type {(key: string, percent: number) => void} */
  const moved = (key, percent) => {
    weaken(key, percent);
    button.title = script();
  };
  const field = h('input.named-changes', {
    type: 'text',
    value: name,
    maxlength: 80,
    placeholder: 'Name this list',
    'aria-label': 'Name of this list of changes',
    oninput: () => {
      rename(field.value);
      button.title = script();
    },
  });
  button.title = script();
  return h(
    'div',
    field,
    h('header', h('h3', switches.length > 1 ? `${switches.length} changes at once` : 'Changed'), button),
    h(
      'ul',
      switches.map(each =>
        h(
          'li',
          h('span', each.name),
          each.kind === 'heads' ? strengthOf(each, strength.get(each.key) ?? 0, moved) : null,
          h('button', { 'aria-label': `undo ${each.name}`, title: 'Undo', onclick: () => toggle(each) }, '×'),
        ),
      ),
    ),
  );
}
/** @type {(each: Switch, percent: number, weaken: (key: string, percent: number) => unknown) => HTMLElement[]} */
function strengthOf(each, percent, weaken) {
  const value = h('output.n', `${percent} %`);
  const field = slider(`strength of ${each.name}`, [0, 200, 10], percent, {
    text: `${percent} percent`,
    oninput: () => {
      value.textContent = `${field.value} %`;
      field.setAttribute('aria-valuetext', `${field.value} percent`);
      weaken(each.key, Number(field.value));
    },
  });
  return [field, value];
}
// The same change in Python.
/** @type {(switches: Switch[], strength: Map<string, number>, run: Run, name: string) => string} */
function python(switches, strength, run, name) {
  /** @type {(each: Switch) => string} */
  const part = each => {
    const percent = strength.get(each.key);
    const found = `parts[${JSON.stringify(each.key)}]`;
    return percent ? `at_strength(${found}, ${percent / 100})` : found;
  };
  const given = [run.text, ...(run.target === null ? [] : [run.target])].map(text => JSON.stringify(text));
  return [
    ...(name.trim() ? [`# ${name.trim().replace(/\s+/g, ' ')}`] : []),
    'from translucid.see.part_switches import at_strength, switches, together',
    'parts = {switch.key: switch for switch in switches(model.network)}',
    `edit = together([${switches.map(part).join(', ')}])`,
    `trace = model.trace(${given.join(', ')}, edit=edit)`,
  ].join('\n');
}
