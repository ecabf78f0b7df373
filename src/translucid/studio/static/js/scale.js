// The scale of the page: larger in a large window, and for a projector. All sizes are relative to the root's font size,
// and the limits in media queries grow with it: at 160 %, a window has the layout of one that is 1.6 times smaller.
const [WIDE, HIGH] = [1920, 1080]; // a larger window shows the same, enlarged
const PROJECTOR = 1.6;
const LARGE = 1600; // a wider window has larger text (css/tokens.css), also at a projector's scale
const LARGER = 1.25;

/** @type {(width: number, height: number, projector: boolean) => number} */
export const scaleFor = (width, height, projector) =>
  Math.max(1, Math.min(width / WIDE, height / HIGH)) * (projector ? PROJECTOR * (width < LARGE ? 1 : LARGER) : 1);
// A media query at a scale.
/** @type {(text: string, scale: number) => string} */
export const scaledQuery = (text, scale) => text.replace(/([\d.]+)px/g, (_, size) => `${Number(size) * scale}px`);

/** @type {[MediaList, string][] | null} */
let queries = null; // with the text at 100 %
/** @type {() => [MediaList, string][]} */
const allQueries = () =>
  [...document.styleSheets]
    .flatMap(sheet => [...sheet.cssRules])
    .filter(rule => rule instanceof CSSMediaRule)
    .map(({ media }) => [media, media.mediaText]);

export function fitScale() {
  const root = document.documentElement;
  const scale = scaleFor(window.innerWidth, window.innerHeight, root.classList.contains('projector'));
  root.style.setProperty('--scale', String(scale));
  queries ??= allQueries();
  for (const [media, text] of queries) media.mediaText = scaledQuery(text, scale);
}
