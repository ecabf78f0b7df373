// Light or dark, chosen once for the documentation, the landing page and the studio. Furo stores "theme", which may be
// "auto"; the others store "translucid-theme", which is removed to follow the system.
function shareTheme() {
  const chosen = new MutationObserver(() => {
    const { theme } = document.body.dataset;
    if (theme === 'light' || theme === 'dark') localStorage.setItem('translucid-theme', theme);
    else localStorage.removeItem('translucid-theme');
  });
  chosen.observe(document.body, { attributeFilter: ['data-theme'] });
}
// What scrolls sideways can be scrolled with the keyboard.
function reachScrolling() {
  for (const el of document.querySelectorAll('pre, div.math, .table-wrapper, .highlight'))
    if (el.scrollWidth > el.clientWidth) el.setAttribute('tabindex', '0');
    else el.removeAttribute('tabindex');
}
try {
  localStorage.setItem('theme', localStorage.getItem('translucid-theme') ?? 'auto');
  addEventListener('DOMContentLoaded', shareTheme);
} catch {
  // the browser blocks storage
}
addEventListener('load', reachScrolling);
addEventListener('resize', reachScrolling);
