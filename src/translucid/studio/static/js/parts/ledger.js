// The ledger: a sum as a teacher writes it, one line for each step, numbers in one column.
import { h } from '../dom.js';

export const ledger = rows =>
  h(
    'table',
    { class: 'ledger' },
    h(
      'tbody',
      null,
      rows.map(([name, value, how, strong]) =>
        h(
          'tr',
          { class: strong ? 'strong' : null },
          h('th', { scope: 'row' }, name),
          h('td', { class: 'extra' }, how ?? ''),
          h('td', { class: 'n' }, value),
        ),
      ),
    ),
  );
