// The inspector: the selected part, its numbers, and its formula with numbers.
import { choice, select } from './controls.js';
import { h, unit, capital, shortened, range, widest } from '../dom.js';
import { heatmap, headRoom } from './heatmap.js';
import { map } from './map.js';
import { probabilityBars } from './bars.js';
import { pointOf } from '../anatomy.js';
import { link } from '../route.js';
import { term } from '../glossary.js';

const SMALL = 26; // up to this many words per side get a cell each
// told: { at, place, name, points, entry, shape, axes, lead, leads, values, scale, rows, cols, rowKey, colKey, picked,
// opened, likely, credit, go }
/** @type {(told: Inspected, actions: InspectorActions) => HTMLElement[]} */
export function inspector(told, { width, onpoint, onlead, onpick }) {
  const u = unit();
  const inner = width - 2 * 18 * u - 2;
  const points = told.points.map(({ at, far }) => ({ key: at, text: far ?? pointOf(at) }));
  const parts = [
    h(
      'header',
      { class: told.lead && told.leads <= 4 ? 'row' : null },
      h(
        'div',
        h(
          'div.kicker',
          inTerms(
            told.leadAxis?.endsWith('heads') && told.lead ? `${told.place}, head ${told.lead.index}` : told.place,
          ),
        ),
        h('h2', told.name),
      ),
      told.lead ? leads(told, told.lead, onlead) : null,
    ),
    h(
      'div.chooser',
      select('Tensor', points, told.at, onpoint),
      h(
        'span.small.quiet',
        told.shape.length
          ? told.shape.map((size, i) => [
              i ? ' × ' : '',
              axis(told.axes[i].replace('_', ' ')),
              ' ',
              h('b.n', String(size)),
            ])
          : 'one number',
      ),
    ),
    told.entry?.meaning && h('p.quiet', capital(told.entry.meaning), '.'),
    told.likely && probabilityBars(told.likely.rows, told.likely),
    told.credit,
    told.values && !told.likely ? picture(told, told.values, inner, onpick) : null,
    told.opened && h('hr.rule'),
    told.opened,
    told.inUnits !== undefined &&
      h(
        'p.inunits',
        'standardised; in the data’s units ',
        h('b.n', Number(told.inUnits.toPrecision(7)).toLocaleString('en', { maximumFractionDigits: 6 })),
      ),
    told.values && told.likely ? picture(told, told.values, inner, onpick) : null,
  ];
  return [h('div.scrolls', parts), ways(told)].filter(each => each !== null);
}
// A name with its terms as buttons: decoder, layer 1, head 0.
/** @type {(text: string) => Content[]} */
const inTerms = text => text.split(/\b(encoder|decoder|layer|head)\b/i).map(piece => term(piece.toLowerCase(), piece));
// The axis of a shape: its name is the plural of what it counts.
/** @type {(name: string) => Content} */
const axis = name => term({ queries: 'query' }[name] ?? name.replace(/s$/, ''), name);
// Links to other views of the part; they stay in view below what scrolls.
/** @type {(told: Inspected) => HTMLElement | null} */
function ways(told) {
  const number = told.picked?.[1] ?? 0;
  const all = [
    told.go && h('a', { href: told.go.href }, told.go.text),
    isOfUnits(told) &&
      h(
        'a',
        { href: link('data', { at: told.at, unit: number, i: null, walk: null }) },
        `Texts sorted by unit ${number}`,
      ),
  ].filter(Boolean);
  return all.length ? h('p.onward', all) : null;
}
// Whether the point has units per token, not outputs or tokens.
/** @type {(told: Inspected) => boolean} */
const isOfUnits = ({ axes, likely, picked }) =>
  axes.length === 2 && axes[0] === 'length' && !likely && Array.isArray(picked);
/** @type {(told: Inspected, lead: { index: number }, onlead: (i: number) => unknown) => HTMLElement} */
function leads({ leads: count, leadNames, leadAxis = '' }, lead, onlead) {
  const name = leadAxis.endsWith('heads') ? 'head' : leadAxis;
  const all = range(count).map(i => ({
    key: i,
    text: leadNames?.[i] ?? String(i),
    more: { 'aria-label': `${name} ${i}` },
  }));
  return leadNames || count > 8
    ? h(
        'label.pick',
        h('span.label', name),
        select(name, all, lead.index, i => onlead(Number(i))),
      )
    : choice(name, all, lead.index, onlead, { kind: 'pick' });
}
/** @type {(told: Inspected, values: number[][], inner: number, onpick: InspectorActions['onpick']) => HTMLElement} */
function picture(told, values, inner, onpick) {
  const u = unit();
  const n = values.length;
  const columns = values[0].length;
  if (told.cols && n <= SMALL && columns <= SMALL) {
    const lw = told.rowNames ? Math.min(132, widest(told.rowNames, 0.9375, { most: 9 }) / u + 14) : 72;
    const cw = (inner - lw * u) / columns;
    /** @type {(word: string) => string} */
    const brief = word => shortened(word, 9);
    return heatmap({
      title: `${told.at}: rows are queries, columns are keys`,
      values,
      rows: (told.rowNames ?? told.rows ?? []).map(name => [name].flat().map(brief)),
      cols: told.cols.map(brief),
      rowKey: told.rowKey,
      colKey: told.colKey,
      labelWidth: lw,
      table: told.table,
      ...headRoom(told.cols.map(brief), cw, 0.9375),
      cellWidth: cw,
      cellHeight: Math.min(22 * u, Math.max(9 * u, (158 * u) / n)),
      scale: told.scale,
      wordSize: '.9375rem',
      read: told.read,
      onpick,
    });
  }
  return map({
    title: `${told.at}, row by row`,
    values,
    rows: told.rows,
    names: told.names,
    rowKey: told.rowKey,
    wordOf: told.wordOf,
    scale: told.scale,
    width: inner,
    height: (told.likely ? 150 : 200) * u,
    picked: told.picked,
    each: told.each,
    read: told.read,
    onpick,
    table: told.table,
  });
}
