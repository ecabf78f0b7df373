// Every picture has a table with the same numbers. The parts say what theirs are; the page is never read back.
import { h } from './dom.js';
import { copy } from './clipboard.js';
import { dialog } from './parts/dialog.js';
import { lines, table } from './parts/table.js';

const made = new WeakMap(); // element -> what makes its table, perhaps later

export function twin(el, title, make) {
  // make() -> { corner, columns, rows, note } or a promise of it
  el.dataset.twin = title;
  made.set(el, make);
  return el;
}
const pictures = () =>
  [...document.querySelectorAll('[data-twin]')].filter(el => made.has(el) && el.getClientRects().length);

// The table of the picture that has the focus or the pointer, else of the largest; the others can be chosen.
export async function tables() {
  const all = pictures();
  if (!all.length) {
    dialog('Tables', h('p', null, 'Nothing here has a table: this view has no picture.'));
    return;
  }
  const area = el => el.clientWidth * el.clientHeight;
  let chosen =
    all.findLast(el => el.contains(document.activeElement)) ??
    all.findLast(el => el.matches(':hover')) ??
    all.reduce((a, b) => (area(b) > area(a) ? b : a));
  const here = h('div', { class: 'tablebox', tabindex: 0, role: 'region', 'aria-label': 'Table' });
  const pick = h(
    'select',
    {
      'aria-label': 'Picture',
      onchange: event => {
        chosen = all[event.target.value];
        show();
      },
    },
    all.map((el, i) => h('option', { value: i, selected: el === chosen }, el.dataset.twin)),
  );
  let now = null;
  async function show() {
    const mine = chosen;
    now = null;
    let found;
    try {
      found = await made.get(mine)();
    } catch (error) {
      found = { columns: [], rows: [], note: `This table cannot be shown: ${error.message}` };
    }
    if (mine !== chosen) return;
    now = found;
    here.setAttribute('aria-label', mine.dataset.twin);
    here.replaceChildren(...table(found));
  }
  const box = dialog(
    'The same numbers as a table',
    h(
      'div',
      { class: 'tablehead' },
      all.length > 1 ? pick : h('p', null, chosen.dataset.twin),
      h('button', { class: 'edit', onclick: () => now && copy(lines(now), 'the table') }, 'Copy'),
    ),
    here,
  );
  box.addEventListener('keydown', event => {
    if (event.key === 't' && !event.ctrlKey && !event.metaKey && !event.target.closest('select')) box.close();
  });
  await show();
  here.focus();
}
