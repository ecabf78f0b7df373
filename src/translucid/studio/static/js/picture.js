// Save a view as a standalone SVG of plain shapes, text and images that any program can read. The page is converted as
// it is drawn, without its styles or scripts.
import { penOf, s, unit } from './dom.js';
import { drawBox, control } from './picture/box.js';
import { drawCanvas, drawSvg } from './picture/graphic.js';
import { drawMath } from './picture/math.js';
import { at, face, px, store } from './picture/paint.js';
import { drawText, fieldText, lineOf, marker, textAt } from './picture/text.js';

// Sizes of the caption, in px at normal text size.
const MARGIN = 24;
const LINE = 20;
const LETTERS = 14;
const PER_LETTER = 8.5;
const PARTS = ['stage', 'lesson', 'readout'];

// ---- painting order: positioned elements come after the normal flow
/** @type {(el: Node) => number} */
function layer(el) {
  if (!(el instanceof Element)) return 0;
  const style = getComputedStyle(el);
  const z = Number(style.zIndex) || 0;
  return z || (style.position === 'static' ? 0 : 0.5);
}
/** @type {(el: Element) => Node[]} */
const inOrder = el =>
  [...el.childNodes]
    .map(kid => ({ kid, at: layer(kid) }))
    .sort((a, b) => a.at - b.at)
    .map(({ kid }) => kid);
/** @type {(style: CSSStyleDeclaration) => boolean} */
const gone = style => style.display === 'none' || px(style.opacity) === 0 || style.clipPath.startsWith('inset(50%');

/** @type {(node: Node, given: Copying) => SVGElement[]} */
function walk(node, given) {
  if (node instanceof Text && node.parentElement) {
    const around = getComputedStyle(node.parentElement);
    return around.visibility === 'hidden' ? [] : drawText(node, around, given);
  }
  if (!(node instanceof Element)) return [];
  const style = getComputedStyle(node);
  if (gone(style)) return [];
  const box = node.getBoundingClientRect();
  const seen = style.visibility !== 'hidden' && style.display !== 'contents' && given.see(box, 4);
  const made = [...(seen ? drawBox(node, style, box, given.kept) : []), ...inside(node, style, box, seen, given)];
  return px(style.opacity) < 1 && made.length ? [s('g', { opacity: style.opacity }, made)] : made;
}
/** @type {(node: Element, style: CSSStyleDeclaration, box: DOMRect, seen: boolean, given: Copying) => SVGElement[]} */
function inside(node, style, box, seen, given) {
  if (node instanceof SVGSVGElement)
    return seen || style.overflow === 'visible'
      ? clipped(node, style, box, drawSvg(node, { ...within(style, box, given), named: given.kept.named }), given)
      : [];
  if (node.localName === 'math') return seen ? drawMath(node, given) : [];
  if (node instanceof HTMLCanvasElement) return seen ? drawCanvas(node, style, box) : [];
  if (node instanceof HTMLInputElement || node instanceof HTMLSelectElement || node instanceof HTMLTextAreaElement)
    return seen ? [...control(node, style, box), ...fieldText(node, style, box)] : [];
  const inner = within(style, box, given);
  const kids = inOrder(node).flatMap(kid => walk(kid, inner));
  if (seen) kids.unshift(...beside(node, '::before', box, given), ...marker(node, style, firstLine(node)));
  if (seen) kids.push(...beside(node, '::after', box, given));
  return clipped(node, style, box, kids, given);
}

// ---- clipping of scrolled content
/** @type {(style: CSSStyleDeclaration) => boolean} */
const cuts = style => style.overflowX !== 'visible' || style.overflowY !== 'visible';
/** @type {(style: CSSStyleDeclaration, box: Box) => Record<'left' | 'top' | 'right' | 'bottom', number>} */
function pane(style, { x, y, width, height }) {
  const [t, r, b, l] = ['top', 'right', 'bottom', 'left'].map(side =>
    px(style.getPropertyValue(`border-${side}-width`)),
  );
  return { left: x + l, top: y + t, right: x + width - r, bottom: y + height - b };
}
/** @type {(style: CSSStyleDeclaration, box: Box, given: Copying) => Copying} */
function within(style, box, given) {
  if (!cuts(style)) return given;
  const own = pane(style, box);
  return {
    ...given,
    see: (each, edge = 0) =>
      given.see(each, edge) &&
      each.right + edge > own.left &&
      each.left - edge < own.right &&
      each.bottom + edge > own.top &&
      each.top - edge < own.bottom,
  };
}
/** @type {(node: Element, style: CSSStyleDeclaration, box: Box, kids: SVGElement[], given: Copying) => SVGElement[]} */
function clipped(node, style, box, kids, { kept }) {
  const over =
    node instanceof SVGElement
      ? reaches(node, box)
      : node.scrollWidth > node.clientWidth + 1 || node.scrollHeight > node.clientHeight + 1;
  const rounded = node.children.length && px(style.borderTopLeftRadius) > 0;
  if (!kids.length || !cuts(style) || !(over || rounded)) return kids;
  const { left, top, right, bottom } = pane(style, box);
  const clip = kept.named(
    s(
      'clipPath',
      s('rect', {
        x: at(left),
        y: at(top),
        width: at(Math.max(0, right - left)),
        height: at(Math.max(0, bottom - top)),
        rx: rounded ? at(px(style.borderTopLeftRadius)) : null,
      }),
    ),
  );
  return [s('g', { 'clip-path': clip }, kids)];
}
/** @type {(svg: SVGElement, box: Box) => boolean} */
function reaches(svg, box) {
  // beyond its own edge
  if (!(svg instanceof SVGGraphicsElement)) return false;
  const { x, y, width, height } = svg.getBBox();
  const { width: w, height: t } = box;
  return x < -1 || y < -1 || x + width > w + 1 || y + height > t + 1;
}

// ---- ::before and ::after
/** @type {(el: Element, which: string, box: Box, given: Copying) => SVGElement[]} */
function beside(el, which, box, given) {
  const style = getComputedStyle(el, which);
  if (style.content === 'none' || style.content === 'normal' || style.display === 'none') return [];
  const text = /^"(.*)"$/.exec(style.content)?.[1] ?? '';
  if (style.position !== 'absolute') return text ? flowing(el, text, style) : [];
  const own = getComputedStyle(el);
  const x = box.x + px(own.borderLeftWidth) + px(style.left);
  const y = box.y + px(own.borderTopWidth) + px(style.top);
  const placed = DOMRect.fromRect({ x, y, width: px(style.width), height: px(style.height) });
  return [
    ...drawBox(null, style, placed, given.kept),
    ...(text ? [textAt(text, x, lineOf(placed, style), style)] : []),
  ];
}
/** @type {(el: Element, text: string, style: CSSStyleDeclaration) => SVGElement[]} */
function flowing(el, text, style) {
  // as the first words of the element
  const range = new Range();
  range.selectNodeContents(el);
  const first = range.getClientRects()[0];
  return first
    ? [textAt(text.trimEnd(), first.left, lineOf(first, style), style, { 'text-anchor': 'end', dx: -4 })]
    : [];
}
/** @type {(el: Element) => number | null} */
function firstLine(el) {
  if (el.tagName !== 'LI') return null;
  const range = new Range();
  range.selectNodeContents(el);
  const box = range.getClientRects()[0];
  return box ? lineOf(box, getComputedStyle(el)) : null;
}

// ---- the whole
/** @type {(el: Element, kept: Kept) => { box: DOMRect; drawn: SVGElement[] }} */
function part(el, kept) {
  const box = el.getBoundingClientRect();
  /** @type {See} */
  const see = (each, edge = 0) =>
    each.right + edge > box.left &&
    each.left - edge < box.right &&
    each.bottom + edge > box.top &&
    each.top - edge < box.bottom;
  return { box, drawn: walk(el, { see, kept, top: el.parentElement }) };
}
/** @type {(text: string, letters: number) => string[]} */
function lines(text, letters) {
  return text.match(new RegExp(`[^]{1,${Math.max(20, letters)}}`, 'gu')) ?? [];
}
// biome-ignore lint/suspicious/noControlCharactersInRegex: XML may not hold them
const ILLEGAL = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g;
/** @type {(text: string) => string} */
const legal = text => (text.toWellFormed?.() ?? text).replace(ILLEGAL, '\ufffd');

/** @type {(caption: string) => string} */
export function asSvg(caption) {
  const kept = store();
  const parts = PARTS.map(id => document.getElementById(id))
    .filter(el => el !== null)
    .map(el => part(el, kept))
    .filter(({ box }) => box.height > 0);
  const width = Math.ceil(Math.max(...parts.map(({ box }) => box.width)));
  const high = Math.ceil(parts.reduce((sum, { box }) => sum + box.height, 0));
  const u = unit();
  const told = lines(caption, Math.floor((width / u - 2 * MARGIN) / PER_LETTER));
  const height = Math.ceil(high + (MARGIN + told.length * LINE) * u);
  const style = getComputedStyle(document.documentElement);
  /** @type {(name: string) => string} */
  const token = name => style.getPropertyValue(name).trim();
  let top = 0;
  const placed = parts.map(({ box, drawn }) => {
    const y = top - box.y;
    top += box.height;
    return s('g', { transform: `translate(${at(-box.x, y)})` }, drawn);
  });
  const svg = s(
    'svg',
    {
      xmlns: 'http://www.w3.org/2000/svg',
      'xmlns:xlink': 'http://www.w3.org/1999/xlink',
      width,
      height,
      viewBox: `0 0 ${width} ${height}`,
    },
    s('title', caption),
    kept.defs.childNodes.length ? kept.defs : null,
    s('rect', { width, height, fill: token('--bg') }),
    placed,
    told.map((line, i) =>
      s(
        'text',
        {
          x: at(MARGIN * u),
          y: at(high + (MARGIN / 2 + (i + 0.7) * LINE) * u),
          'font-family': face(token('--numbers')),
          'font-size': at(LETTERS * u),
          fill: token('--ink2'),
          'xml:space': 'preserve',
        },
        line,
      ),
    ),
  );
  return legal(new XMLSerializer().serializeToString(svg));
}

/** @type {(caption: string, sharp?: number) => Promise<Blob>} */
export async function asPng(caption, sharp = 2) {
  const text = asSvg(caption);
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  await image.decode();
  const made = document.createElement('canvas');
  made.width = image.naturalWidth * sharp;
  made.height = image.naturalHeight * sharp;
  penOf(made).drawImage(image, 0, 0, made.width, made.height);
  return new Promise((resolve, reject) =>
    made.toBlob(blob => (blob ? resolve(blob) : reject(new Error('the browser could not draw it'))), 'image/png'),
  );
}
