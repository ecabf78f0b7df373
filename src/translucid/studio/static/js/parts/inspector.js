// The inspector: what the selected part is, its numbers, its formula, and the numbers put in. Draws what it is given.
import { h, unit } from '../dom.js';
import { heatmap, headRoom } from './heatmap.js';
import { map } from './map.js';
import { bars } from './bars.js';
import { pointOf } from '../anatomy.js';
import { link } from '../route.js';

const SMALL = 26; // so many words on a side get a cell each
// told: { at, place, name, points, entry, shape, axes, lead, leads, values, scale, rows, cols, rowKey, colKey, picked,
// opened, likely, credit, go }
export function inspector(told, { width, onpoint, onlead, onpick }) {
  const u = unit();
  const inner = width - 2 * 18 * u - 2;
  return [
    h(
      'header',
      { class: told.lead && told.leads <= 4 ? 'row' : null },
      h(
        'div',
        null,
        h(
          'div',
          { class: 'kicker' },
          told.lead && told.leadAxis.endsWith('heads') ? `${told.place}, head ${told.lead.index}` : told.place,
        ),
        h('h2', null, told.name),
      ),
      told.lead ? leads(told, onlead) : null,
    ),
    h(
      'div',
      { class: 'chooser' },
      h(
        'select',
        { 'aria-label': 'Tensor', onchange: event => onpoint(event.target.value) },
        told.points.map(point =>
          h('option', { value: point.at, selected: point.at === told.at }, point.far ? point.far : pointOf(point.at)),
        ),
      ),
      h(
        'span',
        { class: 'small quiet' },
        told.shape.length
          ? told.shape.map((size, i) => [
              i ? ' × ' : '',
              `${told.axes[i].replace('_', ' ')} `,
              h('b', { class: 'n' }, String(size)),
            ])
          : 'one number',
      ),
    ),
    told.entry?.meaning && h('p', { class: 'quiet optional' }, capital(told.entry.meaning), '.'),
    told.likely && bars(told.likely.rows, told.likely),
    told.credit,
    told.values && !told.likely ? picture(told, inner, onpick) : null,
    told.opened && h('hr', { class: 'rule' }),
    told.opened,
    told.inUnits !== undefined &&
      h(
        'p',
        { class: 'inunits' },
        'standardised; in the data’s units ',
        h('b', { class: 'n' }, Number(told.inUnits.toPrecision(7)).toLocaleString('en', { maximumFractionDigits: 6 })),
      ),
    told.values && told.likely ? picture(told, inner, onpick) : null,
    told.go && h('p', { class: 'onward' }, h('a', { href: told.go.href }, told.go.text)),
    isOfUnits(told) &&
      h(
        'p',
        { class: 'onward' },
        h(
          'a',
          { href: link('data', { at: told.at, unit: told.picked?.[1] ?? 0, i: null, walk: null }) },
          `Texts that move unit ${told.picked?.[1] ?? 0}`,
        ),
      ),
  ].filter(Boolean);
}
// A row of units for each token; what stands for a choice or a token is no unit.
const isOfUnits = ({ axes, likely, picked }) =>
  axes.length === 2 && axes[0] === 'length' && !likely && Array.isArray(picked);
function leads({ lead, leads: count, leadNames, leadAxis }, onlead) {
  const name = { heads: 'head', kv_heads: 'head' }[leadAxis] ?? leadAxis;
  if (leadNames || count > 8)
    return h(
      'label',
      { class: 'pick' },
      h('span', { class: 'label' }, name),
      h(
        'select',
        { 'aria-label': name, onchange: event => onlead(Number(event.target.value)) },
        Array.from({ length: count }, (_, i) =>
          h('option', { value: i, selected: i === lead.index }, leadNames?.[i] ?? String(i)),
        ),
      ),
    );
  return h(
    'div',
    { class: 'pick', role: 'group', 'aria-label': name },
    Array.from({ length: count }, (_, i) =>
      h(
        'button',
        { 'aria-pressed': String(i === lead.index), 'aria-label': `${name} ${i}`, onclick: () => onlead(i) },
        String(i),
      ),
    ),
  );
}
function picture(told, inner, onpick) {
  const u = unit();
  const n = told.values.length;
  const columns = told.values[0].length;
  if (told.cols && n <= SMALL && columns <= SMALL) {
    const lw = 72;
    const cw = (inner - lw * u) / columns;
    const short = word => (word.length > 9 ? `${word.slice(0, 8)}…` : word);
    return heatmap({
      title: `${told.at}: rows are queries, columns are keys`,
      values: told.values,
      rows: told.rows.map(short),
      cols: told.cols.map(short),
      rowKey: told.rowKey,
      colKey: told.colKey,
      labelWidth: lw,
      table: told.table,
      ...headRoom(told.cols.map(short), cw, 0.9375),
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
    values: told.values,
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
const capital = text => text.charAt(0).toUpperCase() + text.slice(1);
