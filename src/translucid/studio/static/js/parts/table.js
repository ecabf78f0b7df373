// A table of numbers, with headers for rows and columns; what is left out is said.
import { h, special } from '../dom.js';
import { num } from '../ink.js';

export const ROWS = 100,
  COLUMNS = 64; // more is cut, and told
const written = cell => (typeof cell !== 'number' ? (cell ?? '') : Number.isNaN(cell) ? 'masked' : num(cell, 3));
const name = word =>
  h('span', { class: special(String(word)) ? 'special' : null }, Array.isArray(word) ? word.join('') : word);

// told: { corner, columns: [names], rows: [[name, cells...]], note }
export function table({ corner = '', columns, rows, note }) {
  const wide = columns.slice(0, COLUMNS);
  const long = rows.slice(0, ROWS);
  return [
    h(
      'table',
      { class: 'twin' },
      h(
        'thead',
        null,
        h(
          'tr',
          null,
          corner ? h('th', { scope: 'col' }, corner) : h('td'),
          wide.map(each => h('th', { scope: 'col' }, name(each))),
        ),
      ),
      h(
        'tbody',
        null,
        long.map(([first, ...cells]) =>
          h(
            'tr',
            null,
            h('th', { scope: 'row' }, name(first)),
            cells
              .slice(0, COLUMNS)
              .map(cell => h('td', { class: typeof cell === 'number' ? 'n' : null }, written(cell))),
          ),
        ),
      ),
    ),
    h('p', { class: 'quiet' }, left(rows.length, ROWS, 'rows'), left(columns.length, COLUMNS, 'columns'), note ?? ''),
  ];
}
// A few rows under the names of their columns: [text, properties], without a text where a column has no name.
export const headed = (kind, heads, rows) =>
  h(
    'table',
    { class: kind },
    h(
      'thead',
      null,
      h(
        'tr',
        null,
        heads.map(([text, more]) => (text ? h('th', { scope: 'col', ...more }, text) : h('td', more))),
      ),
    ),
    h('tbody', null, rows),
  );
const left = (count, most, what) => (count > most ? `The first ${most} of ${count} ${what} are shown. ` : '');

// The same with tabs between the cells, for a spreadsheet.
export const lines = ({ corner = '', columns, rows }) =>
  [[corner, ...columns], ...rows]
    .map(row =>
      row
        .map(cell => (Array.isArray(cell) ? cell.join('') : typeof cell === 'number' ? String(cell) : (cell ?? '')))
        .join('\t'),
    )
    .join('\n');
// Rows of numbers with names at both sides.
export const grid = (rows, columns, values, corner) => ({
  corner,
  columns: columns ?? values[0].map((_, j) => String(j)),
  rows: values.map((row, i) => [rows?.[i] ?? String(i), ...row]),
});
