// Functions that create HTML, SVG and MathML, and the unit that scales with the root font size. Text is inserted as
// text nodes only, and styles through the object model, as the content security policy requires.
const SVG = 'http://www.w3.org/2000/svg';
const MML = 'http://www.w3.org/1998/Math/MathML';

// h('p.quiet.small', { title }, 'text', other): a tag with classes, optional attributes, and content. Attributes and
// content that are null, undefined or false are omitted.
/** @type {(given: unknown) => boolean} */
const isAttributes = given => typeof given === 'object' && given?.constructor === Object;
/** @type {(value: unknown) => boolean} */
const isLeftOut = value => value === undefined || value === null || value === false;

/** @type {(content: Content) => (string | Node)[]} */
const flat = content =>
  Array.isArray(content)
    ? content.flatMap(flat)
    : isLeftOut(content)
      ? []
      : [content instanceof Node ? content : String(content)];

/** @type {<E extends Element>(el: E, classes: string[], given: Given) => E} */
function made(el, classes, given) {
  const { class: more, ...attributes } = /** @type {Attributes} */ (isAttributes(given[0]) ? given[0] : {});
  const all = [...classes, more].filter(Boolean).join(' ');
  if (all) el.setAttribute('class', all);
  for (const [key, value] of Object.entries(attributes)) {
    if (isLeftOut(value)) continue;
    if (typeof value === 'function') el.addEventListener(key.slice(2), /** @type {EventListener} */ (value));
    else if (key === 'style' && typeof value === 'string')
      // in a notebook, sizes are relative to the box
      /** @type {HTMLElement | SVGElement | MathMLElement} */ (/** @type {Element} */ (el)).style.cssText =
        value.replace(/(-?[\d.]+)rem\b/g, 'calc($1 * var(--rem, 1rem))');
    else if (key === 'width' || key === 'height')
      el.setAttribute(key, String(Number(value) < 0 ? 0 : value)); // it may be a text, as 100%; and no room is no error
    else el.setAttribute(key, value === true ? '' : String(value));
  }
  const content = /** @type {Content[]} */ (isAttributes(given[0]) ? given.slice(1) : given);
  el.append(...flat(content));
  return el;
}
/** @type {(create: (tag: string) => Element) => (named: string, ...given: Given) => any} */
const maker =
  create =>
  (named, ...given) => {
    const [tag, ...classes] = named.split('.');
    return made(create(tag), classes, given);
  };
/** @type {MakeHtml} */
export const h = maker(tag => document.createElement(tag));
/** @type {MakeSvg} */
export const s = maker(tag => document.createElementNS(SVG, tag));
/** @type {(named: string, ...given: Given) => MathMLElement} */
export const m = maker(tag => document.createElementNS(MML, tag));

/** @type {(el: Element, attributes: Record<string, string | number>) => void} */
export function setAttributes(el, attributes) {
  for (const [name, value] of Object.entries(attributes)) el.setAttribute(name, String(value));
}
// Append to an element, or replace what is in it. As in h, what is null, undefined or false is omitted.
/** @type {(el: Element, ...content: Content[]) => void} */
export const append = (el, ...content) => el.append(...flat(content));
/** @type {(el: Element, ...content: Content[]) => void} */
export const fill = (el, ...content) => el.replaceChildren(...flat(content));

// Call look on hover or focus, and away when it ends.
/** @type {<E extends Element>(el: E, look: () => void, away: () => void) => E} */
export function onHoverOrFocus(el, look, away) {
  for (const kind of ['mouseenter', 'focus']) el.addEventListener(kind, look);
  for (const kind of ['mouseleave', 'blur']) el.addEventListener(kind, away);
  return el;
}

// Alignment of a label relative to its x and y.
export const LEFT_OF = { 'text-anchor': 'end', 'dominant-baseline': 'central' };
export const RIGHT_OF = { 'dominant-baseline': 'central' };
export const ABOVE = { 'text-anchor': 'middle' };

export const unit = () => parseFloat(getComputedStyle(document.documentElement).fontSize) / 16;

// What draws on a canvas.
/** @type {(el: HTMLCanvasElement, settings?: CanvasRenderingContext2DSettings) => CanvasRenderingContext2D} */
export const penOf = (el, settings) => /** @type {CanvasRenderingContext2D} */ (el.getContext('2d', settings));
/** @type {CanvasRenderingContext2D | null} */
let pen = null;
// The width of the widest word, in px. A word may be a list of pieces; most: the longest piece in characters.
/** @type {(words: (string | string[])[], rem: number, font?: Font) => number} */
export function widest(words, rem, { family = 'serif', weight = 400, most = Infinity } = {}) {
  const face = getComputedStyle(document.documentElement).getPropertyValue(
    { mono: '--numbers', names: '--names', serif: '--words' }[family],
  );
  pen ??= penOf(document.createElement('canvas'));
  const measure = pen;
  measure.font = `${weight} ${rem * 16 * unit()}px ${face}`;
  /** @type {(word: string | string[]) => string} */
  const written = word =>
    [word]
      .flat()
      .map(piece => shortened(String(piece), most))
      .join('');
  return words.reduce((wide, word) => Math.max(wide, measure.measureText(written(word)).width), 0);
}

// A part of index.html, which is always there.
/** @type {(id: string) => HTMLElement} */
export const byId = id => /** @type {HTMLElement} */ (document.getElementById(id));

// MathML from the server, parsed as XML.
/** @type {(markup: string | null | undefined, display?: boolean) => Element | null} */
export function formula(markup, display = true) {
  if (!markup) return null;
  const allowed = markup.replace(/(<[^<>]*) style="/g, '$1 data-style="'); // the policy forbids style attributes
  const parsed = new DOMParser().parseFromString(allowed, 'application/xml');
  if (parsed.querySelector('parsererror')) return null;
  const math = document.importNode(parsed.documentElement, true);
  for (const el of /** @type {NodeListOf<MathMLElement>} */ (math.querySelectorAll('[data-style]')))
    el.style.cssText = el.dataset.style ?? '';
  if (display) math.setAttribute('display', 'block');
  return math;
}

const ICONS = {
  theme: 'M8 2.2a5.8 5.8 0 1 0 0 11.6A5.8 5.8 0 0 0 8 2.2Zm0 1.4v8.8a4.4 4.4 0 0 1 0-8.8Z',
  link:
    'M6.7 9.3a.7.7 0 0 1 0-1l2-2a.7.7 0 1 1 1 1l-2 2a.7.7 0 0 1-1 0ZM5.2 6.7a.7.7 0 0 1 0 1L4 8.9' +
    'a2.1 2.1 0 1 0 3 3l1.2-1.2a.7.7 0 0 1 1 1L8 12.9a3.5 3.5 0 0 1-5-5l1.2-1.2a.7.7 0 0 1 1 0Zm5.6 2.6' +
    'a.7.7 0 0 1 0-1L12 7.1a2.1 2.1 0 1 0-3-3L7.8 5.3a.7.7 0 0 1-1-1L8 3.1a3.5 3.5 0 0 1 5 5l-1.2 1.2' +
    'a.7.7 0 0 1-1 0Z',
  next:
    'M5.2 3.1a.8.8 0 0 1 1.1 0l4.3 4.3a.8.8 0 0 1 0 1.2l-4.3 4.3a.8.8 0 1 1-1.1-1.2L8.8 8 5.2 4.3' +
    'a.8.8 0 0 1 0-1.2Z',
  prev:
    'M10.8 3.1a.8.8 0 0 0-1.1 0L5.4 7.4a.8.8 0 0 0 0 1.2l4.3 4.3a.8.8 0 1 0 1.1-1.2L7.2 8l3.6-3.7' +
    'a.8.8 0 0 0 0-1.2Z',
  play: 'M4.8 3.2c0-.6.7-1 1.2-.7l7 4.7c.5.4.5 1.2 0 1.5l-7 4.8c-.5.3-1.2 0-1.2-.7V3.2Z',
  table:
    'M2.5 3h11v10h-11zM3.8 4.3v1.9h2.6V4.3zm3.9 0v1.9h4.5V4.3zM3.8 7.4v1.7h2.6V7.4zm3.9 0v1.7h4.5V7.4z' +
    'M3.8 10.3v1.4h2.6v-1.4zm3.9 0v1.4h4.5v-1.4z',
  panel: 'M2.5 3h11v10h-11zM3.8 4.3v7.4h4.4V4.3zm5.7 0v7.4h2.7V4.3z',
  save:
    'M8 2a.7.7 0 0 1 .7.7v5.1l1.6-1.6a.7.7 0 0 1 1 1L8.5 10a.7.7 0 0 1-1 0L4.700 7.200a.7.7 0 0 1 1-1' +
    'l1.6 1.600V2.700A.7.7 0 0 1 8 2ZM2.700 9.500a.7.7 0 0 1 .7.7v1.900h9.200v-1.900a.7.7 0 0 1 1.400 0' +
    'v2.200c0 .6-.5 1.100-1.100 1.100H3.100c-.6 0-1.100-.5-1.100-1.100v-2.200a.7.7 0 0 1 .7-.7Z',
  bars: 'M2.5 10.5h2.6v2.700H2.500zM6.700 7.500h2.600v5.700H6.700zM10.900 3.500h2.600v9.700h-2.600z',
  pin: 'M8 1.8a3.4 3.4 0 0 1 .7 6.7v5.2a.7.7 0 0 1-1.4 0V8.5A3.4 3.4 0 0 1 8 1.8Z',
  dice:
    'M3.5 2h9A1.5 1.5 0 0 1 14 3.5v9a1.5 1.5 0 0 1-1.5 1.5h-9A1.5 1.5 0 0 1 2 12.5v-9A1.5 1.5 0 0 1 3.5 2Z' +
    'M4.2 5.3a1.1 1.1 0 1 0 2.2 0 1.1 1.1 0 1 0-2.2 0ZM6.9 8a1.1 1.1 0 1 0 2.2 0 1.1 1.1 0 1 0-2.2 0Z' +
    'M9.6 10.7a1.1 1.1 0 1 0 2.2 0 1.1 1.1 0 1 0-2.2 0Z',
  pause: 'M4.4 3h2.4v10H4.4zM9.2 3h2.4v10H9.2z',
  edit: 'M10.9 2.7a1.3 1.3 0 0 1 1.8 0l.6.6c.5.5.5 1.3 0 1.8L6 12.4l-3 .9a.3.3 0 0 1-.4-.4l.9-3 7.4-7.2Z',
};
/** @type {(name: keyof typeof ICONS) => SVGSVGElement} */
export const icon = name =>
  s(
    'svg.icon',
    { viewBox: '0 0 16 16', 'aria-hidden': 'true' },
    s('path', { d: ICONS[name], fill: 'currentColor', 'fill-rule': 'evenodd' }),
  );
/** @type {(word: string) => boolean} */
export const isSpecialToken = word => /^<\/?\w+>$/.test(word);

// A modal dialog; Escape and a click outside close it.
/** @type {(title: string, ...body: Content[]) => HTMLDialogElement} */
export function dialog(title, ...body) {
  const shut = h('button.edit', 'Close');
  /** @type {HTMLDialogElement} */
  const box = h('dialog.over', { 'aria-label': title }, h('header', h('h2', title), shut), body);
  const before = /** @type {HTMLElement | null} */ (document.activeElement);
  shut.addEventListener('click', () => box.close());
  box.addEventListener('click', event => {
    if (event.target === box) box.close();
  });
  box.addEventListener('close', () => {
    box.remove();
    before?.focus?.({ preventScroll: true });
  });
  box.addEventListener('keydown', event => event.stopPropagation()); // Escape closes it and keeps the pins
  document.body.append(box);
  box.showModal();
  return box;
}

// Wait until nothing in the element is being pressed: a button that is drawn again meanwhile would lose the click.
/** @type {(el: Element) => Promise<void>} */
export async function released(el) {
  while (el.matches(':active')) await new Promise(go => setTimeout(go, 30));
}
/** @type {(text: string) => string} */
export const capital = text => text.charAt(0).toUpperCase() + text.slice(1);
/** @type {(list: number[]) => number} */
export const mean = list => sum(list) / list.length;
// The last of a list that is not empty.
/** @type {<T>(list: T[]) => T} */
export const lastOf = list => list[list.length - 1];
/** @type {(i: number, count: number) => number} */
export const nearestIndex = (i, count) => Math.min(count - 1, Math.max(0, i));
/** @type {(n: number) => number[]} */
export const range = n => Array.from({ length: n }, (_, i) => i);
// Which labels are shown: every n-th, always the highlighted one, and none that would overlap it.
/** @type {(i: number, every: number, lit?: number | null) => boolean} */
export const isLabelled = (i, every, lit) =>
  i === lit || (i % every === 0 && (lit === null || lit === undefined || Math.abs(i - lit) >= every));
/** @type {(places: number[], gap: number, lit?: number | null) => Set<number>} */
export function spacedLabels(places, gap, lit) {
  // the same for labels at unequal distances
  const known = typeof lit === 'number' ? [lit] : null;
  const seen = new Set(known ?? []);
  let last = -Infinity;
  places.forEach((y, i) => {
    if (i === lit || (y - last >= gap && (!known || Math.abs(y - places[known[0]]) >= gap))) {
      seen.add(i);
      last = y;
    }
  });
  return seen;
}
/** @type {(word: string, most?: number) => string} */
export const shortened = (word, most = 14) => (word.length > most ? `${word.slice(0, most - 1)}…` : word);
// A word in SVG, a special token in its own font; other: a class instead of `word`.
/** @type {(text: string, attributes: Attributes & { other?: string }, most?: number) => SVGTextElement} */
export const svgWord = (text, { class: kind, other = 'word', ...attributes }, most) =>
  s(
    'text',
    { class: `${isSpecialToken(text) ? 'special' : other}${kind ? ` ${kind}` : ''}`, ...attributes },
    shortened(text, most),
  );
/** @type {(list: number[]) => number} */
export const sum = list => list.reduce((a, b) => a + b, 0);
