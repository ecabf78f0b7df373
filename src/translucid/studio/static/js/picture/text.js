// Text as the page has broken it into lines, each at its position, in its font.
import { s } from '../dom.js';
import { at, clear, colour, font, ink, measure, px, width, segment } from './paint.js';

/** @type {Record<string, string>} */
const ANCHOR = { right: 'end', end: 'end', center: 'middle' };
/** @type {(box: DOMRect, wide: number) => DOMRect} */
const asWide = ({ x, y, height }, wide) => DOMRect.fromRect({ x, y, width: wide, height });
/** @type {(node: Text, from: number, to: number) => Range} */
const span = (node, from, to) => {
  const range = new Range();
  range.setStart(node, from);
  range.setEnd(node, to);
  return range;
};

// The lines of a text node: [{ text, box }].
/** @type {(node: Text, style: CSSStyleDeclaration) => TextLine[]} */
function linesOf(node, style) {
  const given = node.data;
  const kept = style.whiteSpace.startsWith('pre');
  const from = kept ? 0 : given.search(/\S/);
  const to = kept ? given.length : given.trimEnd().length;
  if (from < 0 || to <= from) return [];
  /** @type {(text: string) => string} */
  const tidy = text => (kept ? text : text.replace(/\s+/g, ' '));
  const boxes = span(node, from, to).getClientRects();
  if (boxes.length === 1) return [{ text: tidy(given.slice(from, to)), box: boxes[0] }];
  /** @type {TextLine[]} */
  const lines = [];
  for (let i = from; i < to; ) {
    // by character, which may be two code units long
    const [letter] = given.slice(i, i + 2);
    const box = span(node, i, i + letter.length).getClientRects()[0];
    i += letter.length;
    if (!box || (!box.width && /\s/.test(letter))) continue;
    const line = lines.at(-1);
    if (line && Math.abs(box.top - line.box.top) < box.height / 2) {
      line.text += letter;
      line.box = asWide(line.box, box.right - line.box.x);
    } else lines.push({ text: letter, box });
  }
  return lines.map(line => trimmed(line, tidy, style)).filter(line => line.text);
}
/** @type {(line: TextLine, tidy: (text: string) => string, style: CSSStyleDeclaration) => TextLine} */
function trimmed({ text, box }, tidy, style) {
  const short = tidy(text).trimEnd();
  const lost = text.length - text.trimEnd().length;
  return {
    text: short,
    box: lost ? asWide(box, box.width - lost * width(' ', style)) : box,
  };
}
// Text that does not fit ends in an ellipsis, as on the page.
/** @type {(node: Text, line: TextLine, style: CSSStyleDeclaration) => TextLine} */
function dotted(node, line, style) {
  let box = node.parentElement;
  while (box && getComputedStyle(box).display.startsWith('inline')) box = box.parentElement;
  const own = box && getComputedStyle(box);
  if (!box || own?.textOverflow !== 'ellipsis' || own.overflowX === 'visible') return line;
  const edge = box.getBoundingClientRect().right - px(own.paddingRight) - px(own.borderRightWidth) - line.box.x;
  if (line.box.width <= edge + 1) return line;
  let text = line.text;
  while (text && width(`${text}…`, style) > edge) text = [...text].slice(0, -1).join('');
  return {
    text: `${text.trimEnd()}…`,
    box: asWide(line.box, edge),
  };
}
/** @type {(text: string, x: number, y: number, style: CSSStyleDeclaration, attrs?: Attributes) => SVGElement} */
export function textAt(text, x, y, style, attrs = {}) {
  return s('text', { x: at(x), y: at(y), ...ink('fill', style.color), ...font(style), ...attrs }, text);
}
/** @type {(box: Box, style: CSSStyleDeclaration) => number} */
export const lineOf = (box, style) => {
  const { up, down } = measure(style);
  return box.y + (box.height * up) / (up + down);
};

// ---- underline and strike-through, of the element and of its ancestors
/** @type {(el: Element | null, top: Element | null) => CSSStyleDeclaration[]} */
function decorations(el, top) {
  const found = [];
  for (let each = el; each && each !== top; each = each.parentElement) {
    const style = getComputedStyle(each);
    if (style.textDecorationLine !== 'none') found.push(style);
    if (/inline-|flex|grid|table/.test(style.display) || style.position === 'absolute') break;
  }
  return found;
}
/** @type {(decoration: CSSStyleDeclaration, x0: number, x1: number, line: number, size: number) => SVGElement[]} */
export function ruled(decoration, x0, x1, line, size) {
  const given = decoration.textDecorationThickness;
  const wide = given.endsWith('px') ? px(given) : Math.max(1, size / 14);
  const away = px(decoration.textUnderlineOffset) || size * 0.1;
  const kind = decoration.textDecorationStyle;
  return decoration.textDecorationLine.split(' ').map(which => {
    const y =
      which === 'line-through' ? line - size * 0.3 : which === 'underline' ? line + away + wide / 2 : line - size * 0.8;
    return segment(x0, y, x1, y, {
      ...ink('stroke', decoration.textDecorationColor),
      'stroke-width': at(wide),
      'stroke-dasharray': { dashed: at(3 * wide, 2 * wide), dotted: at(wide, wide) }[kind] ?? null,
    });
  });
}
/** @type {(node: Text, style: CSSStyleDeclaration, copying: Copying) => SVGElement[]} */
export function drawText(node, style, { see, top }) {
  if (clear(style.color)) return [];
  const decorated = decorations(node.parentElement, top);
  return linesOf(node, style)
    .map(line => dotted(node, line, style))
    .filter(({ box }) => see(box))
    .flatMap(({ text, box }) => {
      const anchor = ANCHOR[style.textAlign];
      const x = anchor === 'end' ? box.right : anchor === 'middle' ? box.x + box.width / 2 : box.x;
      const y = lineOf(box, style);
      return [
        textAt(text, x, y, style, { 'text-anchor': anchor }),
        ...decorated.flatMap(each => ruled(each, box.x, box.right, y, px(style.fontSize))),
      ];
    });
}

// ---- text without a text node: controls, ::before and ::after, list markers
/** @type {(el: FormField, style: CSSStyleDeclaration, box: Box) => SVGElement[]} */
export function fieldText(el, style, box) {
  const text = el instanceof HTMLSelectElement ? (el.selectedOptions[0]?.label ?? '') : el.value;
  if (!text || /^(range|checkbox|radio)$/.test(el.type)) return [];
  const { up, down } = measure(style);
  const extra = el.tagName === 'SELECT' ? 4 : 0; // its own, inside the padding
  return [
    textAt(
      text,
      box.x + px(style.borderLeftWidth) + px(style.paddingLeft) + extra,
      box.y + box.height / 2 + (up - down) / 2,
      style,
    ),
  ];
}
/** @type {(el: Element, style: CSSStyleDeclaration, firstLine: number | null) => SVGElement[]} */
export function marker(el, style, firstLine) {
  if (style.display !== 'list-item' || style.listStyleType === 'none' || !firstLine) return [];
  const { left } = el.getBoundingClientRect();
  const own = getComputedStyle(el, '::marker');
  const size = px(style.fontSize);
  if (style.listStyleType !== 'decimal')
    return [
      s('circle', {
        cx: at(left - size * 0.6),
        cy: at(firstLine - size * 0.32),
        r: at(size * 0.17),
        ...ink('fill', own.color),
      }),
    ];
  const place = [...(el.parentElement?.children ?? [])].filter(each => each.tagName === 'LI').indexOf(el) + 1;
  return [
    textAt(`${place}.`, left - width(' ', own), firstLine, own, { 'text-anchor': 'end', fill: colour(own.color).hex }),
  ];
}
