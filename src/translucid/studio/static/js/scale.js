// The scale of the page: larger in a large window, and for a projector. All sizes are relative to the root's font size,
// and the limits in media queries grow with it: at 160 %, a window has the layout of one that is 1.6 times smaller.
const root = document.documentElement;
const [WIDE, HIGH] = [1920, 1080]; // a larger window shows the same, enlarged
const PROJECTOR = 1.6;
const queries = [...document.styleSheets]
  .flatMap(sheet => [...sheet.cssRules])
  .filter(rule => rule instanceof CSSMediaRule)
  .map(({ media }) => /** @type {const} */ ([media, media.mediaText]));

export function fitScale() {
  const large = Math.max(1, Math.min(window.innerWidth / WIDE, window.innerHeight / HIGH));
  const scale = large * (root.classList.contains('projector') ? PROJECTOR : 1);
  root.style.setProperty('--scale', String(scale));
  for (const [media, text] of queries)
    media.mediaText = text.replace(/([\d.]+)px/g, (_, size) => `${Number(size) * scale}px`);
}
