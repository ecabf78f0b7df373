// Before the first paint: light or dark, as in theme.js, and an address without the token. A plain script, since a
// module waits for every style sheet.
if (location.pathname.startsWith('/open/')) history.replaceState(null, '', `/${location.hash}`);
const asked = new URLSearchParams(location.hash.split('?')[1]).get('theme');
let kept = null;
try {
  kept = localStorage.getItem('translucid-theme');
} catch {
  // the browser blocks storage
}
const system = matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light';
document.documentElement.dataset.theme = [asked, kept].find(theme => theme === 'light' || theme === 'dark') ?? system;
