// A switch: a knob, a name, a place, and the measured difference.
import { h } from '../dom.js';
import { UNIT_SCALE, cssColour, num, textOn } from '../ink.js';
import * as highlight from '../highlight.js';
import { address, go } from '../route.js';
import { notice } from '../readout.js';

/** @type {Record<string, string>} */
export const KINDS = {
  heads: 'Heads',
  layers: 'Layers',
  attention: 'Attention',
  feedforward: 'Feed-forward',
  patterns: 'Uniform attention',
  positions: 'Positions',
  masks: 'Masks',
  scale: 'Scale of the scores',
  norms: 'Norms',
  gates: 'Gates',
  alignment: 'Alignment',
  bridge: 'Bridge',
  characters: 'Characters',
  ngrams: 'N-gram features',
};
// "encoder layer 0, forget gate = 0 (keeps nothing)" -> name and place
/** @type {(name: string) => { what: string; where: string }} */
export function nameAndPlace(name) {
  const [, plain, note] = name.match(/^(.*?)(?: \(([^)]*)\))?$/) ?? [name, name];
  const cut = plain.lastIndexOf(', ');
  const what = cut < 0 ? plain : plain.slice(cut + 2);
  const where = [cut < 0 ? '' : plain.slice(0, cut), note ?? ''].filter(Boolean).join(': ');
  return { what: what[0].toUpperCase() + what.slice(1), where };
}
// Some switches name a part and are on by default; others name a change, "forget gate = 0", and are off by default.
/** @type {(name: string) => boolean} */
export const isChange = name => /=| is silent\b| looks | starts /.test(name);
/** @type {(delta: number) => string} */
export const deltaText = delta => (delta < 1e-6 ? 'same' : delta < 0.005 ? '<0.01' : num(delta));

/** @type {(delta: number | null | undefined, most?: number) => HTMLElement} */
export function badge(delta, most = 1) {
  // undefined: not measured yet, null: being measured
  if (delta === undefined) return h('span.badge.none', { 'aria-hidden': 'true' });
  if (delta === null) return h('span.badge.none', '…');
  const same = delta < 1e-6;
  return h(
    'span',
    { class: `badge${same ? ' none' : ''}` },
    same ? 'same' : `Δ ${deltaText(delta)}`,
    h('span.track', h('i', { style: `width:${Math.min(1, delta / most) * 100}%` })),
  );
}
/** @type {(each: Switch, o: SwitchLook & { onclick: () => unknown }) => HTMLElement} */
export function switchButton(each, { off, delta, most, onclick }) {
  const { what, where } = nameAndPlace(each.name);
  return highlight.mark(
    h(
      'button',
      {
        class: `switch${off ? ' thrown' : ''}`,
        role: 'switch',
        'aria-checked': String(isChange(each.name) === off),
        title: each.key,
        onclick,
      },
      h('span.knob'),
      h('span', h('b', what), where && h('small', where)),
      badge(delta, most),
    ),
    `switch:${each.key}`,
  );
}
// The heads of one part: a row per layer, a toggle per head, filled by its effect.
/** @type {(part: string, heads: Switch[], o: HeadLook) => HTMLElement} */
export function headToggles(part, heads, { off, delta, most, onclick }) {
  const layers = [...new Set(heads.map(each => each.layer))];
  const count = Math.max(...heads.map(each => each.head ?? 0)) + 1;
  const columns = Math.ceil(count / Math.ceil(count / 9)); // lines of equal length
  /** @type {(each: Switch) => HTMLElement} */
  const cell = each => {
    const d = delta(each);
    const known = typeof d === 'number';
    const tone = known ? `background:${cssColour(d / most, UNIT_SCALE)};color:${textOn(d / most, UNIT_SCALE)}` : null;
    return highlight.mark(
      h(
        'button.headswitch',
        {
          role: 'switch',
          'aria-checked': String(!off(each)),
          'aria-label': each.name,
          title: known ? `${each.name}: Δ ${deltaText(d)}` : each.name,
          style: off(each) ? null : tone,
          onclick: () => onclick(each),
        },
        String(each.head),
      ),
      `switch:${each.key}`,
    );
  };
  return h(
    'div.headpart',
    h('small', part),
    layers.map(layer =>
      h(
        'div.headrow',
        h('span.ax', `layer ${layer}`),
        h(
          'div',
          { style: `grid-template-columns:repeat(${columns},minmax(0,1fr))` },
          heads.filter(each => each.layer === layer).map(cell),
        ),
      ),
    ),
  );
}

// ---- open What-if with the selected part switched off
/** @type {(model: Model, at: string, head: number | null) => string | null} */
function switchFor(model, at, head) {
  const keys = model.switches.map(each => each.key);
  const scope = at.slice(0, at.lastIndexOf('.'));
  const wanted = [
    ...(head === null ? [] : [`${scope}.head.${head}`]),
    scope,
    scope.replace(/_residual(\.norm)?$/, ''),
    at,
  ];
  return (
    wanted.find(key => keys.includes(key)) ??
    keys.filter(key => at.startsWith(`${key}.`)).sort((a, b) => b.length - a.length)[0] ??
    null
  );
}
/** @type {(model: Model, at: string, head?: number | null) => void} */
export function openWhatIfWithout(model, at, head = null) {
  const key = switchFor(model, at, head);
  if (key === null) {
    notice('this part has no switch');
    return;
  }
  const off = new Set((address().params.get('off') ?? '').split(',').filter(Boolean));
  const there = [...off].find(each => each.split('@')[0] === key);
  there ? off.delete(there) : off.add(key);
  go('whatif', { off: [...off].join(',') || null });
}
