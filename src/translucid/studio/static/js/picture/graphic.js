// SVG with its styles inlined, and canvas as an image with its numbers as text.
import { penOf, s } from '../dom.js';
import { numbersOn } from '../ink.js';
import { at, clear, colour, face, font, ink, measure, px } from './paint.js';
import { ruled } from './text.js';

const SHAPES = new Set(['path', 'rect', 'circle', 'line', 'ellipse', 'polygon', 'polyline']);
const OWN = 'd x y width height cx cy r rx ry x1 y1 x2 y2 points transform dx'.split(' ');
/** @type {(text: string) => string} */
const single = text => text.replace(/\s+/g, ' ');
/** @type {(value: string | null) => string} */
const short = value =>
  (value ?? '').replace(/-?\d+\.\d{3,}/g, number => String(Math.round(Number(number) * 100) / 100));

/** @type {(el: Element) => Attributes} */
function own(el) {
  return Object.fromEntries(
    OWN.filter(name => el.hasAttribute(name)).map(name => [name, short(el.getAttribute(name))]),
  );
}
/** @type {(name: 'fill' | 'stroke', value: string, opacity: string, gradients?: Gradients) => Attributes} */
function paint(name, value, opacity, gradients) {
  const url = /url\("?#([^")]+)"?\)/.exec(value)?.[1];
  if (url && gradients) return { [name]: gradients(url) };
  if (value === 'none' || clear(value)) return { [name]: 'none' };
  const { hex, alpha } = colour(value);
  const seen = alpha * px(opacity);
  return { [name]: hex, [`${name}-opacity`]: seen < 1 ? at(seen) : null };
}
/** @type {(attrs: Attributes) => boolean} */
const hollow = attrs => attrs.fill === 'none' && (attrs.stroke ?? 'none') === 'none';
/** @type {(style: CSSStyleDeclaration, gradients?: Gradients) => Attributes} */
function lines(style, gradients) {
  if (style.stroke === 'none' || !px(style.strokeWidth)) return {};
  const dash = style.strokeDasharray;
  return {
    ...paint('stroke', style.stroke, style.strokeOpacity, gradients),
    'stroke-width': at(px(style.strokeWidth)),
    'stroke-dasharray': dash === 'none' ? null : dash.replaceAll('px', ''),
    'stroke-linecap': style.strokeLinecap === 'butt' ? null : style.strokeLinecap,
    'stroke-linejoin': style.strokeLinejoin === 'miter' ? null : style.strokeLinejoin,
  };
}

// ---- nested SVG
/** @type {(svg: SVGSVGElement, given: { see: See; named: Kept['named'] }) => SVGElement[]} */
export function drawSvg(svg, { see, named }) {
  const known = new Map();
  /** @type {(id: string) => string} */
  const gradients = id => {
    if (!known.has(id)) {
      const from = svg.querySelector(`#${CSS.escape(id)}`);
      known.set(
        id,
        from
          ? named(
              s(
                'linearGradient',
                own(from),
                [...from.children].map(stop =>
                  s('stop', { offset: stop.getAttribute('offset'), ...ink('stop', getComputedStyle(stop).stopColor) }),
                ),
              ),
            )
          : 'none',
      );
    }
    return known.get(id);
  };
  const { a, b, c, d, e, f } = svg.getScreenCTM() ?? new DOMMatrix();
  const made = s('g', {
    transform:
      a === 1 && d === 1 && !b && !c
        ? `translate(${at(Math.round(e), Math.round(f))})`
        : `matrix(${[a, b, c, d].map(each => Math.round(each * 1e4) / 1e4).join(' ')} ${at(e, f)})`,
  });
  made.append(...[...svg.children].flatMap(each => element(each, { see, gradients })));
  return made.childNodes.length ? [made] : [];
}
/** @type {(el: Element, given: { see: See; gradients: Gradients }) => SVGElement[]} */
function element(el, given) {
  const style = getComputedStyle(el);
  if (
    style.display === 'none' ||
    px(style.opacity) === 0 ||
    !(el instanceof SVGGraphicsElement) ||
    el.localName === 'defs'
  )
    return [];
  const faint = px(style.opacity) < 1 ? at(px(style.opacity)) : null;
  if (el.localName === 'g') {
    const kids = [...el.children].flatMap(each => element(each, given));
    return kids.length
      ? [faint || el.hasAttribute('transform') ? s('g', { ...own(el), opacity: faint }, kids) : kids].flat()
      : [];
  }
  if (style.visibility === 'hidden' || !given.see(el.getBoundingClientRect(), px(style.strokeWidth))) return [];
  if (el.localName === 'text') return lettered(el, style, faint);
  if (!SHAPES.has(el.localName)) return [];
  const attrs = {
    ...own(el),
    ...paint('fill', style.fill, style.fillOpacity, given.gradients),
    ...lines(style, given.gradients),
    opacity: faint,
    'fill-rule': style.fillRule === 'evenodd' ? 'evenodd' : null,
  };
  return hollow(attrs) ? [] : [s(/** @type {any} */ (el.localName), attrs)];
}
// Text on the alphabetic baseline: few programs support others, or paint-order.
/** @type {(el: SVGElement, style: CSSStyleDeclaration, faint: string | null) => SVGElement[]} */
function lettered(el, style, faint) {
  if (!(el instanceof SVGTextElement) || !el.textContent.trim()) return [];
  const { up, down } = measure(style);
  const central = style.dominantBaseline === 'central' ? (up - down) / 2 : 0;
  const dy = el.getAttribute('dy') ?? '';
  const lower = central + px(dy) * (dy.endsWith('em') ? px(style.fontSize) : 1);
  const attrs = {
    ...own(el),
    dy: lower ? at(lower) : null,
    'text-anchor': style.textAnchor === 'start' ? null : style.textAnchor,
    opacity: faint,
    ...font(style),
    'xml:space': el.children.length ? 'preserve' : null, // older readers drop spaces where a piece begins or ends
  };
  /** @type {(plain: boolean) => Content[]} */
  const pieces = plain =>
    inRow(el).map(([each, text]) => (each instanceof Element && !plain ? piece(each, text, style) : text));
  const made = s('text', { ...attrs, ...paint('fill', style.fill, style.fillOpacity) }, pieces(false));
  /** @type {SVGElement[]} */
  const found = [made];
  if (style.stroke !== 'none' && !clear(style.stroke) && px(style.strokeWidth))
    found.unshift(s('text', { ...attrs, fill: 'none', ...lines(style), 'aria-hidden': 'true' }, pieces(true)));
  if (style.textDecorationLine !== 'none') found.push(...under(el, style, lower));
  return found;
}
// Its pieces with collapsed spaces, as on the page.
/** @type {(el: Element) => [Node, string][]} */
function inRow(el) {
  let ended = true;
  return [...el.childNodes].map(each => {
    const text = single(each.textContent ?? '');
    const shown = ended ? text.trimStart() : text;
    if (shown) ended = shown.endsWith(' ');
    return [each, shown];
  });
}
/** @type {(el: Element, text: string, above: CSSStyleDeclaration) => SVGElement} */
function piece(el, text, above) {
  const style = getComputedStyle(el);
  const own_ = font(style);
  const outer = font(above);
  const attrs = Object.fromEntries(
    Object.entries(own_)
      .filter(([name, value]) => value !== outer[name])
      .map(([name, value]) => [name, value ?? 'normal']),
  );
  const fill = style.fill === above.fill ? {} : paint('fill', style.fill, style.fillOpacity);
  const moved = Object.fromEntries(
    ['x', 'y', 'dx', 'dy'].filter(name => el.hasAttribute(name)).map(name => [name, short(el.getAttribute(name))]),
  );
  return s('tspan', { ...moved, ...attrs, ...fill }, text);
}
/** @type {(el: SVGTextElement, style: CSSStyleDeclaration, lower: number) => SVGElement[]} */
function under(el, style, lower) {
  const { x, width } = el.getBBox();
  const line = px(el.getAttribute('y')) + lower;
  const turned = el.getAttribute('transform');
  const made = ruled(style, x, x + width, line, px(style.fontSize));
  return turned ? [s('g', { transform: turned }, made)] : made;
}

// ---- canvas
/** @type {(canvas: HTMLCanvasElement, style: CSSStyleDeclaration, box: Box) => SVGElement[]} */
export function drawCanvas(canvas, style, box) {
  if (!canvas.width || !canvas.height) return [];
  const inner = {
    x: Math.round(box.x + px(style.borderLeftWidth)),
    y: Math.round(box.y + px(style.borderTopWidth)),
    width: box.width - px(style.borderLeftWidth) - px(style.borderRightWidth),
    height: box.height - px(style.borderTopWidth) - px(style.borderBottomWidth),
  };
  const figures = numbersOn(canvas);
  const k = canvas.width / inner.width; // k: of the screen
  const image = s('image', {
    x: at(inner.x),
    y: at(inner.y),
    width: at(inner.width),
    height: at(inner.height),
    preserveAspectRatio: 'none',
    'xlink:href': pixels(canvas, style, inner, figures, k),
  });
  return [image, ...figures.map(each => figure(each, inner))];
}
// Single-pixel cells are enlarged so that no program blurs them; numbers are removed, since they follow as text.
/** @type {(canvas: HTMLCanvasElement, style: CSSStyleDeclaration, box: Box, figures: Figure[], k: number) => string} */
function pixels(canvas, style, { width, height }, figures, k) {
  const times =
    style.imageRendering === 'pixelated'
      ? Math.max(1, Math.ceil(2 * Math.max(width / canvas.width, height / canvas.height)))
      : 1;
  if (times === 1 && !figures.length) return canvas.toDataURL();
  const copy = document.createElement('canvas');
  const ctx = penOf(copy);
  copy.width = canvas.width * times;
  copy.height = canvas.height * times;
  ctx.imageSmoothingEnabled = false;
  ctx.drawImage(canvas, 0, 0, copy.width, copy.height);
  for (const each of figures) {
    const { up, down, wide } = extent(each);
    const [over, below] = [up, down].map(reach => Math.min(reach + 1, each.room / 2));
    ctx.fillStyle = each.ground;
    ctx.fillRect((each.x - wide / 2 - 1) * k, (each.y - over) * k, (wide + 2) * k, (over + below) * k);
  }
  return copy.toDataURL();
}
const pen = penOf(document.createElement('canvas'));
/** @type {(figure: Figure) => { up: number; down: number; wide: number; line: number }} */
function extent({ text, size, weight, family }) {
  // from the middle of the line; `line` is the baseline
  pen.font = `${weight} ${size}px ${family}`;
  pen.textBaseline = 'middle';
  const { actualBoundingBoxAscent: up, actualBoundingBoxDescent: down, width: wide } = pen.measureText(text);
  pen.textBaseline = 'alphabetic';
  return { up, down, wide, line: pen.measureText(text).actualBoundingBoxAscent - up };
}
/** @type {(each: Figure, box: Box) => SVGElement} */
function figure(each, box) {
  const { text, x, y, fill, alpha, size, weight, family } = each;
  return s(
    'text',
    {
      x: at(box.x + x),
      y: at(box.y + y + extent(each).line),
      'text-anchor': 'middle',
      'font-family': face(family),
      'font-size': at(size),
      'font-weight': weight,
      fill: colour(fill).hex,
      'fill-opacity': alpha < 1 ? alpha : null,
    },
    text,
  );
}
