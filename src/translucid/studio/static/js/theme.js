// Light or dark: from the address, else from the notebook, else the last choice, else the system setting. first.js
// does the same before the first paint.
const KEPT = 'translucid-theme';
const root = document.documentElement;
const dark = matchMedia('(prefers-color-scheme: dark)');
const system = () => (dark.matches ? 'dark' : 'light');
/** @type {(theme: string | null | undefined) => string | null} */
const known = theme => (theme === 'light' || theme === 'dark' ? theme : null);

// A browser that blocks storage throws on access.
/** @type {<T>(act: (store: Storage) => T) => T | null} */
export function storage(act) {
  try {
    return act(localStorage);
  } catch (error) {
    if (error instanceof DOMException && error.name === 'SecurityError') return null;
    throw error;
  }
}
export function setTheme() {
  root.dataset.theme =
    known(new URLSearchParams(location.hash.split('?')[1]).get('theme')) ??
    root.dataset.around ??
    known(storage(store => store.getItem(KEPT))) ??
    system();
}
// Choosing the system's theme follows the system from then on.
/** @type {(show: (theme: string) => void) => void} */
export function otherTheme(show) {
  const theme = root.dataset.theme === 'dark' ? 'light' : 'dark';
  if (!root.dataset.around)
    storage(store => (theme === system() ? store.removeItem(KEPT) : store.setItem(KEPT, theme)));
  show(theme);
}
/** @type {(act: () => void) => void} */
export function onSystemTheme(act) {
  if (!root.dataset.around) dark.addEventListener('change', act);
}
