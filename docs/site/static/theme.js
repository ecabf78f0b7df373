// Light or dark, chosen once for the documentation, the landing page and the studio. Furo stores "theme", which may be
// "auto"; the others store "translucid-theme", which is removed to follow the system.
try {
  localStorage.setItem('theme', localStorage.getItem('translucid-theme') ?? 'auto');
  addEventListener('DOMContentLoaded', () => {
    const chosen = new MutationObserver(() => {
      const { theme } = document.body.dataset;
      if (theme === 'light' || theme === 'dark') localStorage.setItem('translucid-theme', theme);
      else localStorage.removeItem('translucid-theme');
    });
    chosen.observe(document.body, { attributeFilter: ['data-theme'] });
  });
} catch {
  // the browser blocks storage
}
