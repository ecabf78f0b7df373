// Tables: the numbers of a picture, a sum line by line, a few rows under headings.
import { h, isSpecialToken, dialog } from '../dom.js';
import { num } from '../ink.js';
import { copy } from '../readout.js';
import { isPlainKey } from '../keyboard.js';

const ROWS = 100; // more is cut, and told
const COLUMNS = 64;
/** @type {(cell: TableCell) => Content} */
const written = cell => (typeof cell !== 'number' ? (cell ?? '') : Number.isNaN(cell) ? 'masked' : num(cell, 3));
/** @type {(word: string | string[]) => HTMLElement} */
const name = word =>
  h('span', { class: isSpecialToken(String(word)) ? 'special' : null }, Array.isArray(word) ? word.join('') : word);

// told: { corner, columns: [names], rows: [[name, cells...]], note }
/** @type {(told: Table) => HTMLElement[]} */
function table({ corner = '', columns, rows, note }) {
  const wide = columns.slice(0, COLUMNS);
  const long = rows.slice(0, ROWS);
  return [
    h(
      'table.datatable',
      h(
        'thead',
        h(
          'tr',
          corner ? h('th', { scope: 'col' }, corner) : h('td'),
          wide.map(each => h('th', { scope: 'col' }, name(each))),
        ),
      ),
      h(
        'tbody',
        long.map(([first, ...cells]) =>
          h(
            'tr',
            h('th', { scope: 'row' }, name(/** @type {Name} */ (first))),
            cells
              .slice(0, COLUMNS)
              .map(cell => h('td', { class: typeof cell === 'number' ? 'n' : null }, written(cell))),
          ),
        ),
      ),
    ),
    h('p.quiet', left(rows.length, ROWS, 'rows'), left(columns.length, COLUMNS, 'columns'), note ?? ''),
  ];
}
// A small table; heads: [text, attributes] for each column, with an empty text for an unnamed column.
/** @type {(kind: string, heads: [text: string, more?: Attributes][], rows: Content) => HTMLElement} */
export const tableWithHead = (kind, heads, rows) =>
  h(
    'table',
    { class: kind },
    h(
      'thead',
      h(
        'tr',
        heads.map(([text, more]) => (text ? h('th', { scope: 'col', ...more }, text) : h('td', more))),
      ),
    ),
    h('tbody', rows),
  );
/** @type {(count: number, most: number, what: string) => string} */
const left = (count, most, what) => (count > most ? `The first ${most} of ${count} ${what} are shown. ` : '');

// The same as tab-separated text, for a spreadsheet.
/** @type {(told: Table) => string} */
const lines = ({ corner = '', columns, rows }) =>
  [[corner, ...columns], ...rows]
    .map(row =>
      row
        .map(cell => (Array.isArray(cell) ? cell.join('') : typeof cell === 'number' ? String(cell) : (cell ?? '')))
        .join('\t'),
    )
    .join('\n');
// Rows of numbers with names at both sides.
/** @type {(rows: Names, columns: Names, values: number[][], corner?: string) => Table} */
export const grid = (rows, columns, values, corner) => ({
  corner,
  columns: columns ?? values[0].map((_, j) => String(j)),
  rows: values.map((row, i) => [rows?.[i] ?? String(i), ...row]),
});

/**
 * The head of a row; a plain cell for a formula, which is no text for screen readers.
 * @type {(content: Content) => HTMLElement}
 */
export const rowHead = content => {
  const head = h('th', { scope: 'row' }, content);
  return head.querySelector('math') || !head.textContent ? h('td', content) : head;
};

// A sum, one line per step, numbers in one column. kind: an additional class.
/** @type {(rows: Content[][], kind?: string) => HTMLElement} */
export const sumTable = (rows, kind) =>
  h(
    'table.sumtable',
    { class: kind },
    h(
      'tbody',
      rows.map(([what, value, how, strong]) =>
        h('tr', { class: strong ? 'strong' : null }, rowHead(what), h('td.extra', how ?? ''), h('td.n', value)),
      ),
    ),
  );

// ---- every picture has a table with the same numbers
/** @type {WeakMap<Element, () => Table | Promise<Table>>} */
const made = new WeakMap(); // element -> what makes its table, perhaps later

/** @type {<E extends HTMLElement | SVGElement>(el: E, title: string, make: () => Table | Promise<Table>) => E} */
export function withTable(el, title, make) {
  // make() -> { corner, columns, rows, note } or a promise of it
  el.dataset.table = title;
  made.set(el, make);
  return el;
}
/** @type {() => HTMLElement[]} */
const pictures = () =>
  [...document.querySelectorAll('[data-table]')].filter(el => made.has(el) && el.getClientRects().length);

// Show the table of the picture with the focus or the pointer, otherwise of the largest.
export async function showTables() {
  const all = pictures();
  if (!all.length) {
    dialog('Tables', h('p', 'This view has no picture and therefore no table.'));
    return;
  }
  /** @type {(el: Element) => number} */
  const area = el => el.clientWidth * el.clientHeight;
  let chosen =
    all.findLast(el => el.contains(document.activeElement)) ??
    all.findLast(el => el.matches(':hover')) ??
    all.reduce((a, b) => (area(b) > area(a) ? b : a));
  const here = h('div.tablebox', { tabindex: 0, role: 'region', 'aria-label': 'Table' });
  const pick = h(
    'select',
    {
      'aria-label': 'Picture',
      onchange: event => {
        chosen = all[Number(event.target.value)];
        show();
      },
    },
    all.map((el, i) => h('option', { value: i, selected: el === chosen }, el.dataset.table)),
  );
  /** @type {Table | null} */
  let now = null;
  async function show() {
    const mine = chosen;
    now = null;
    let found;
    try {
      found = await /** @type {() => Table} */ (made.get(mine))();
    } catch (error) {
      found = {
        columns: [],
        rows: [],
        note: `This table cannot be shown: ${error instanceof Error ? error.message : error}`,
      };
    }
    if (mine !== chosen) return;
    now = found;
    here.setAttribute('aria-label', mine.dataset.table ?? '');
    here.replaceChildren(...table(found));
  }
  const box = dialog(
    'The same numbers as a table',
    h(
      'div.tablehead',
      all.length > 1 ? pick : h('p', chosen.dataset.table),
      h('button.edit', { onclick: () => now && copy(lines(now), 'the table') }, 'Copy'),
    ),
    here,
  );
  box.addEventListener('keydown', event => {
    if (event.key === 't' && isPlainKey(event)) box.close();
  });
  await show();
  here.focus();
}
