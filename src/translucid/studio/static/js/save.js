// Saving: this view as a picture, or the whole session as one file that needs no server.
import { h, icon } from './dom.js';
import { address, replaceAddress } from './route.js';
import * as api from './api.js';
import { asPng, asSvg } from './picture.js';

const root = document.documentElement;
/** @type {(name: string, content: Blob | string, type?: string) => void} */
function download(name, content, type) {
  // download as a file
  const blob = content instanceof Blob ? content : new Blob([content], { type });
  const to = URL.createObjectURL(blob);
  h('a', { href: to, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(to), 60_000);
}
/** @type {(found: Found) => string} */
export function caption({ model, run }) {
  return `${[model.name, run?.text].filter(Boolean).join(' · ')} · ${location.hash || `#/${address().view}`}`;
}

// Pictures are for paper: a dark page is drawn in the light theme.
/** @type {<T>(draw: () => Promise<void>, act: () => T) => Promise<T>} */
async function inLight(draw, act) {
  const dark = root.dataset.theme === 'dark';
  const said = address().params.get('theme');
  if (dark) {
    replaceAddress({ theme: 'light' });
    await draw();
    await new Promise(later => setTimeout(later, 300));
  }
  try {
    return await act();
  } finally {
    if (dark) {
      replaceAddress({ theme: said });
      await draw();
    }
  }
}
/** @type {(what: string, found: Found, draw: () => Promise<void>) => Promise<void>} */
export async function save(what, found, draw) {
  const { view } = address();
  const name = `translucid-${view}`;
  if (what === 'svg') download(`${name}.svg`, await inLight(draw, () => asSvg(caption(found))), 'image/svg+xml');
  if (what === 'png') download(`${name}.png`, await inLight(draw, () => asPng(caption(found))));
  if (what === 'session') download('translucid-session.html', await api.session(location.hash));
}
/** @type {Record<string, string>} */
export const KEYS = { s: 'svg', S: 'png', x: 'session' };
const WHAT = [
  ['svg', 'This view as SVG', 's'],
  ['png', 'This view as PNG', 'Shift s'],
  ['session', 'This session as one HTML file', 'x'],
];
// A menu in the top layer, since a notebook's box or a scrolling sentence would clip it.
/** @type {(act: (what: string) => void) => HTMLElement} */
export function saveMenu(act) {
  const menu = h(
    'div.menu',
    { popover: 'auto' },
    WHAT.map(([what, name, key]) =>
      h(
        'button',
        {
          onclick: () => {
            menu.hidePopover();
            act(what);
          },
        },
        name,
        h('kbd', key),
      ),
    ),
  );
  const button = h('button', { title: 'Save', 'aria-label': 'Save', 'aria-haspopup': 'true' }, icon('save'));
  button.popoverTargetElement = menu;
  menu.addEventListener('toggle', event => {
    if (event.newState !== 'open') return;
    const { right, bottom } = button.getBoundingClientRect();
    menu.style.left = `${Math.max(0, right - menu.offsetWidth)}px`;
    menu.style.top = `${bottom + 4}px`;
    menu.querySelector('button')?.focus();
  });
  return h('div.saver', button, menu);
}
