// Light or dark: from the address, else from the notebook, else the last choice, else the system setting. index.html
// loads this, and the scale of the page, before anything is painted.
import { address, go } from './route.js';
import { fitScale } from './scale.js';

const KEPT = 'translucid-theme';
const root = document.documentElement;
const dark = matchMedia('(prefers-color-scheme: dark)');
const system = () => (dark.matches ? 'dark' : 'light');
const known = theme => (theme === 'light' || theme === 'dark' ? theme : null);

// A browser that blocks storage throws on access.
function storage(act) {
  try {
    return act(localStorage);
  } catch (error) {
    if (error.name === 'SecurityError') return null;
    throw error;
  }
}
export function setTheme() {
  root.dataset.theme =
    known(address().params.get('theme')) ??
    root.dataset.around ??
    known(storage(store => store.getItem(KEPT))) ??
    system();
}
// Choosing the system's theme follows the system from then on.
export function otherTheme() {
  const theme = root.dataset.theme === 'dark' ? 'light' : 'dark';
  if (!root.dataset.around)
    storage(store => (theme === system() ? store.removeItem(KEPT) : store.setItem(KEPT, theme)));
  go(address().view, { theme });
}
export function onSystemTheme(act) {
  if (!root.dataset.around) dark.addEventListener('change', act);
}
setTheme();
fitScale();
