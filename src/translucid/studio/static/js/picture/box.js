// An HTML box as plain shapes: background, border, rings, and native controls.
import { s } from '../dom.js';
import { at, clear, colour, ink, splitAtCommas, px, segment } from './paint.js';

const SIDES = ['top', 'right', 'bottom', 'left'];
const CORNERS = ['top-left', 'top-right', 'bottom-right', 'bottom-left'];
/** @type {(style: string, wide: number) => string | null} */
const dashes = (style, wide) => ({ dashed: at(3 * wide, 2 * wide), dotted: at(0.01, 2 * wide) })[style] ?? null;
/** @type {(style: string) => string | null} */
const round = style => (style === 'dotted' ? 'round' : null);

/** @type {(style: CSSStyleDeclaration, box: Box) => number[]} */
function radii(style, { width, height }) {
  const most = Math.min(width, height) / 2;
  return CORNERS.map(corner => {
    const given = style.getPropertyValue(`border-${corner}-radius`).split(' ')[0];
    return Math.max(0, Math.min(most, given.endsWith('%') ? (px(given) * Math.min(width, height)) / 100 : px(given)));
  });
}
// A rounded rectangle, grown by `by` (or shrunk).
/** @type {(box: Box, corners: number[], by: number, attrs: Attributes) => SVGElement | null} */
function shape({ x, y, width, height }, corners, by, attrs) {
  const [w, t] = [width + 2 * by, height + 2 * by];
  const [l, o] = [x - by, y - by];
  if (w <= 0 || t <= 0) return null;
  const r = corners.map(each => (each > 0 ? Math.max(0, each + by) : 0));
  if (r.every(each => each === r[0]))
    return s('rect', { x: at(l), y: at(o), width: at(w), height: at(t), rx: r[0] ? at(r[0]) : null, ...attrs });
  const [a, b, c, d] = r;
  /** @type {(size: number, to: string) => string} */
  const arc = (size, to) => `A${at(size, size)} 0 0 1 ${to}`;
  return s('path', {
    d: [
      `M${at(l + a, o)}H${at(l + w - b)}${arc(b, at(l + w, o + b))}`,
      `V${at(o + t - c)}${arc(c, at(l + w - c, o + t))}`,
      `H${at(l + d)}${arc(d, at(l, o + t - d))}`,
      `V${at(o + a)}${arc(a, at(l + a, o))}Z`,
    ].join(''),
    ...attrs,
  });
}

// ---- background
/** @type {(style: CSSStyleDeclaration, box: Box, corners: number[], kept: Kept) => MaybeShape[]} */
function ground(style, box, corners, { named }) {
  const made = [];
  if (!clear(style.backgroundColor)) made.push(shape(box, corners, 0, ink('fill', style.backgroundColor)));
  for (const image of style.backgroundImage === 'none' ? [] : splitAtCommas(style.backgroundImage)) {
    const [, kind, inner] = /^(linear-gradient)\((.*)\)$/.exec(image) ?? [];
    if (!kind) continue;
    const [first, ...rest] = splitAtCommas(inner);
    const corner = /^to (?:(top|bottom) (left|right)|(left|right) (top|bottom))$/.exec(first);
    if (corner) made.push(struck(corner.slice(1), rest, box));
    else made.push(shape(box, corners, 0, { fill: named(ramp(first, rest)) }));
  }
  return made;
}
/** @type {(first: string, rest: string[]) => SVGElement} */
function ramp(first, rest) {
  const turned = /deg$/.test(first);
  const stops = (turned ? rest : [first, ...rest]).map(stop => stop.match(/^(.*?)(?: ([\d.]+)%)?$/) ?? [stop, stop]);
  const across = turned ? { x1: 0, y1: 0, x2: 1, y2: 0 } : { x1: 0, y1: 0, x2: 0, y2: 1 }; // 90deg, or down
  return s(
    'linearGradient',
    across,
    stops.map(([, paint, place], i) =>
      s('stop', {
        offset: at(place === undefined ? i / (stops.length - 1) : Number(place) / 100),
        ...ink('stop', paint),
      }),
    ),
  );
}
// A diagonal band of colour: a part of a formula that is struck out.
/** @type {(corner: string[], stops: string[], box: Box) => SVGElement | null} */
function struck(corner, stops, { x, y, width, height }) {
  const paint = stops.map(stop => /^(rgba?\([^)]*\)|#\w+|[\w-]+)/.exec(stop)?.[1]).find(each => each && !clear(each));
  const wide = Math.abs(px(/calc\(50% [-+] ([\d.]+)px\)/.exec(stops.join())?.[1])) * 2 || 2;
  const falls = corner.includes('top') === corner.includes('right');
  return paint
    ? segment(x, falls ? y : y + height, x + width, falls ? y + height : y, {
        ...ink('stroke', paint),
        'stroke-width': wide,
      })
    : null;
}

// ---- borders
/** @type {(style: CSSStyleDeclaration, box: Box, corners: number[]) => MaybeShape[]} */
function border(style, box, corners) {
  const sides = SIDES.map(side => {
    const [kind, wide, paint] = ['style', 'width', 'color'].map(name =>
      style.getPropertyValue(`border-${side}-${name}`),
    );
    return { wide: kind === 'none' ? 0 : px(wide), kind, paint };
  });
  const seen = sides.map(each => each.wide > 0 && each.kind !== 'hidden' && !clear(each.paint));
  if (!seen.some(Boolean)) return [];
  const [first] = sides;
  const same = sides.every(each => each.wide === first.wide && each.kind === first.kind && each.paint === first.paint);
  if (same)
    return [
      shape(box, corners, -first.wide / 2, {
        fill: 'none',
        ...ink('stroke', first.paint),
        'stroke-width': at(first.wide),
        'stroke-dasharray': dashes(first.kind, first.wide),
        'stroke-linecap': round(first.kind),
      }),
    ];
  const { x, y, width, height } = box;
  const [t, r, b, l] = sides.map(each => each.wide / 2);
  const ends = [
    [x, y + t, x + width, y + t],
    [x + width - r, y, x + width - r, y + height],
    [x, y + height - b, x + width, y + height - b],
    [x + l, y, x + l, y + height],
  ];
  return sides.map(({ wide, kind, paint }, i) =>
    seen[i]
      ? segment(ends[i][0], ends[i][1], ends[i][2], ends[i][3], {
          ...ink('stroke', paint),
          'stroke-width': at(wide),
          'stroke-dasharray': dashes(kind, wide),
          'stroke-linecap': round(kind),
        })
      : null,
  );
}
// Rings only: few programs draw soft shadows.
/** @type {(style: CSSStyleDeclaration, box: Box, corners: number[]) => { outer: MaybeShape[]; inner: MaybeShape[] }} */
function rings(style, box, corners) {
  /** @type {MaybeShape[]} */
  const outer = [];
  /** @type {MaybeShape[]} */
  const inner = [];
  for (const each of style.boxShadow === 'none' ? [] : splitAtCommas(style.boxShadow).reverse()) {
    const [, paint, x, y, blur, wide, inset] =
      /^(.+?) (-?[\d.]+)px (-?[\d.]+)px ([\d.]+)px (-?[\d.]+)px( inset)?$/.exec(each) ?? [];
    if (!paint || px(x) || px(y) || px(blur) || px(wide) <= 0 || clear(paint)) continue;
    (inset ? inner : outer).push(
      shape(box, corners, inset ? -px(style.borderTopWidth) - px(wide) / 2 : px(wide) / 2, {
        fill: 'none',
        ...ink('stroke', paint),
        'stroke-width': at(px(wide)),
      }),
    );
  }
  return { outer, inner };
}
/** @type {(el: Element | null, style: CSSStyleDeclaration, box: Box, corners: number[]) => MaybeShape[]} */
function outline(el, style, box, corners) {
  const wide = px(style.outlineWidth);
  // focus rings are not part of the picture
  if (style.outlineStyle === 'none' || !wide || el?.matches(':focus') || clear(style.outlineColor)) return [];
  return [
    shape(
      box,
      corners.map(each => each || 0.01),
      px(style.outlineOffset) + wide / 2,
      {
        fill: 'none',
        ...ink('stroke', style.outlineColor),
        'stroke-width': at(wide),
        'stroke-dasharray': dashes(style.outlineStyle, wide),
      },
    ),
  ];
}
// Edges are on whole pixels, as on the page.
/** @type {(box: Box) => Box} */
function snapped({ x, y, width, height }) {
  const [left, top] = [Math.round(x), Math.round(y)];
  return {
    x: left,
    y: top,
    width: Math.max(Math.round(x + width) - left, 1),
    height: Math.max(Math.round(y + height) - top, 1),
  };
}
/** @type {(el: Element | null, style: CSSStyleDeclaration, box: Box, kept: Kept) => SVGElement[]} */
export function drawBox(el, style, given, kept) {
  // el: null for ::before and ::after
  if (!given.width || !given.height) return [];
  const box = snapped(given);
  const corners = radii(style, box);
  const { outer, inner } = rings(style, box, corners);
  return [
    ...outer,
    ...ground(style, box, corners, kept),
    ...inner,
    ...border(style, box, corners),
    ...outline(el, style, box, corners),
  ].filter(each => each !== null);
}

// ---- native controls
/** @type {(el: FormField, style: CSSStyleDeclaration, box: Box) => SVGElement[]} */
export function control(el, style, box) {
  if (el.tagName === 'SELECT') {
    const x = box.x + box.width - 12;
    const y = box.y + box.height / 2;
    return [
      s('path', {
        d: `M${at(x - 4, y - 2)}l4 4l4 -4`,
        fill: 'none',
        ...ink('stroke', style.color),
        'stroke-width': 1.5,
      }),
    ];
  }
  if (el instanceof HTMLInputElement && el.type === 'range') return slider(el, style, box);
  return [];
}
/** @type {(el: HTMLInputElement, style: CSSStyleDeclaration, box: Box) => SVGElement[]} */
function slider(el, style, { x, y, width, height }) {
  const done = (Number(el.value) - Number(el.min)) / (Number(el.max) - Number(el.min) || 1);
  const r = 8;
  const mid = y + height / 2;
  const place = x + r + done * (width - 2 * r);
  const paint = style.accentColor === 'auto' ? style.color : style.accentColor;
  return [
    segment(x + 3, mid, x + width - 3, mid, {
      stroke: colour(style.color).hex,
      'stroke-opacity': 0.2,
      'stroke-width': 6,
      'stroke-linecap': 'round',
    }),
    segment(x + 3, mid, place, mid, {
      ...ink('stroke', paint),
      'stroke-width': 6,
      'stroke-linecap': 'round',
    }),
    s('circle', { cx: at(place), cy: at(mid), r, ...ink('fill', paint) }),
  ];
}
