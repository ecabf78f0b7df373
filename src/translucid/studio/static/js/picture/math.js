// A formula as text at the browser's positions; fraction bars and roots as lines.
import { s } from '../dom.js';
import { drawBox } from './box.js';
import { at, serifFace, clear, ink, mathFace, px, segment } from './paint.js';
import { lineOf, textAt } from './text.js';

const INVISIBLE = /^[\s\u2061-\u2064\u200b]*$/;
const PLAIN = /^[\p{L}\p{N}.,]+$/u;
const LETTER = /^\p{L}$/u;

/** @type {(math: Element, copying: Copying) => SVGElement[]} */
export function drawMath(math, { see, kept }) {
  return [...math.querySelectorAll('*')].flatMap(el => {
    const style = getComputedStyle(el);
    const box = el.getBoundingClientRect();
    if (style.display === 'none' || style.visibility === 'hidden' || !see(box)) return [];
    return [...drawBox(el, style, box, kept), ...mark(el, style, box)];
  });
}
/** @type {(el: Element, style: CSSStyleDeclaration, box: DOMRect) => SVGElement[]} */
function mark(el, style, box) {
  if (el.localName === 'mfrac') return bar(el, style, box);
  if (el.localName === 'msqrt' || el.localName === 'mroot') return root(el, style, box);
  return el.children.length || INVISIBLE.test(el.textContent) ? [] : leaf(el, style, box);
}
/** @type {(el: Element, style: CSSStyleDeclaration, box: DOMRect) => SVGElement[]} */
function leaf(el, style, ink_) {
  const range = new Range();
  range.selectNodeContents(el);
  const box = range.getBoundingClientRect();
  const text = el.textContent.trim();
  const size = px(style.fontSize);
  if (clear(style.color)) return [];
  const named = /(^| )(word|fn)( |$)/.test(el.getAttribute('class') ?? '');
  const slanted = el.localName === 'mi' && LETTER.test(text) && style.textTransform === 'math-auto';
  const attrs = {
    'text-anchor': 'middle',
    ...(named
      ? {}
      : { 'font-family': PLAIN.test(text) ? serifFace() : mathFace(), 'font-style': slanted ? 'italic' : null }),
  };
  const middle = ink_.x + ink_.width / 2;
  // A bracket as high as its content: the same character, stretched.
  if (el.localName === 'mo' && ink_.height > 1.45 * size) {
    const tall = ink_.height / (1.0 * size);
    const foot = ink_.bottom - 0.25 * size * tall;
    const made = textAt(text, 0, 0, style, attrs);
    made.removeAttribute('x');
    made.removeAttribute('y');
    made.setAttribute('transform', `translate(${at(middle, foot)}) scale(1 ${at(tall)})`);
    return [made];
  }
  return [textAt(text, middle, lineOf(box, style), style, attrs)];
}
/** @type {(el: Element, style: CSSStyleDeclaration, box: Box) => SVGElement[]} */
function bar(el, style, { x, width }) {
  const [over, under] = [...el.children].map(each => each.getBoundingClientRect());
  const y = (over.bottom + under.top) / 2;
  return [
    segment(x, y, x + width, y, {
      ...ink('stroke', style.color),
      'stroke-width': at(Math.max(1, px(style.fontSize) / 18)),
    }),
  ];
}
/** @type {(el: Element, style: CSSStyleDeclaration, box: DOMRect) => SVGElement[]} */
function root(el, style, { x, y, width, bottom }) {
  const inner = el.children[0].getBoundingClientRect();
  const wide = Math.max(1, px(style.fontSize) / 18);
  const foot = inner.x - x;
  const top = y + wide / 2;
  const high = bottom - y;
  const corners = [
    [x + foot * 0.08, y + high * 0.62],
    [x + foot * 0.3, y + high * 0.52],
    [x + foot * 0.56, bottom - wide],
    [x + foot * 0.97, top],
  ];
  const d = `M${corners.map(each => at(...each)).join('L')}H${at(x + width)}`;
  return [
    s('path', { d, fill: 'none', ...ink('stroke', style.color), 'stroke-width': at(wide), 'stroke-linejoin': 'round' }),
  ];
}
