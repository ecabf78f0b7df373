// Colours and fonts that any program supports, and clips.
import { penOf, s } from '../dom.js';

const pen = penOf(document.createElement('canvas'), { willReadFrequently: true });
/** @type {(value: number) => string} */
const round = value => String(Math.round(value * 100) / 100);
/** @type {(value: string | null | undefined) => number} */
export const px = value => parseFloat(value ?? '') || 0;
/** @type {(...values: number[]) => string} */
export const at = (...values) => values.map(round).join(' ');

// ---- colours: computed colours may be in oklab, which only browsers support
/** @type {Map<string, { hex: string; alpha: number }>} */
const colours = new Map();
/** @type {(value: string) => { hex: string; alpha: number }} */
export function colour(value) {
  let found = colours.get(value);
  if (!found) {
    pen.canvas.width = pen.canvas.height = 1;
    pen.clearRect(0, 0, 1, 1);
    pen.fillStyle = '#000';
    pen.fillStyle = value;
    pen.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = pen.getImageData(0, 0, 1, 1).data;
    const given = /^rgba?\((\d+), (\d+), (\d+)(?:, ([\d.]+))?\)$/.exec(value);
    const exact = given
      ? [...given.slice(1, 4).map(Number), given[4] === undefined ? 1 : Number(given[4])]
      : [r, g, b, Math.round(a / 2.55) / 100];
    found = {
      hex: `#${exact
        .slice(0, 3)
        .map(part => part.toString(16).padStart(2, '0'))
        .join('')}`,
      alpha: exact[3],
    };
    colours.set(value, found);
  }
  return found;
}
/** @type {(value: string) => boolean} */
export const clear = value => colour(value).alpha === 0;
/** @type {(name: 'fill' | 'stroke' | 'stop', value: string) => Attributes} */
export function ink(name, value) {
  // name: fill, stroke or stop
  const { hex, alpha } = colour(value);
  const key = name === 'stop' ? 'stop-color' : name;
  return { [key]: hex, [`${name}-opacity`]: alpha < 1 ? alpha : null };
}

// ---- fonts: the font that the browser uses, then similar ones that are common. Programs differ in their "serif", so
// the actual font is named, with others of the same widths.
const GENERIC = /^(serif|sans-serif|monospace|system-ui)$/;
/** @type {Map<string, string>} */
const faces = new Map();
const KNOWN = [
  ['Liberation Serif', 'Times New Roman', 'Tinos'],
  ['DejaVu Serif'],
  ['Noto Serif'],
  ['Times'],
  ['Georgia', 'Gelasio'],
  ['Cambria', 'Caladea'],
  ['Liberation Sans', 'Arial', 'Arimo', 'Helvetica'],
  ['DejaVu Sans', 'Verdana'],
  ['Noto Sans'],
  ['Segoe UI', 'Selawik'],
  ['Cantarell'],
  ['Ubuntu'],
  ['Roboto'],
  ['Helvetica Neue'],
  ['SF Pro Text'],
  ['Lucida Grande'],
  ['Liberation Mono', 'Courier New', 'Cousine'],
  ['DejaVu Sans Mono', 'Menlo'],
  ['Noto Sans Mono'],
  ['Consolas'],
  ['Cascadia Mono'],
  ['SF Mono'],
  ['Ubuntu Mono'],
  ['Roboto Mono'],
];
const BOOK = '"STIX Two Text", "Latin Modern Roman", "Cambria", "Times New Roman", serif';
const MATHS = '"STIX Two Math", "Latin Modern Math", "Cambria Math", "DejaVu Math TeX Gyre", serif';
/** @type {(family: string) => number} */
const wide = family => {
  pen.font = `40px ${family}`;
  return pen.measureText('mwWil0QΣ∑').width;
};
/** @type {(name: string) => boolean} */
const here = name => ['serif', 'monospace'].some(other => wide(`${name}, ${other}`) !== wide(other));
/** @type {(generic: string) => string[]} */
const taken = generic => {
  const found = KNOWN.map(names => names.filter(name => here(`"${name}"`))).findIndex(names =>
    names.some(name => wide(`"${name}"`) === wide(generic)),
  );
  return found < 0 ? [] : KNOWN[found];
};
/** @type {(families: string) => string} */
export function face(families) {
  let found = faces.get(families);
  if (!found) {
    const names = families.split(/,\s*/);
    if (names.includes('math')) return mathFace();
    const last = names[names.length - 1];
    const kind = GENERIC.test(last) ? last : 'serif';
    const first = names.find(name => GENERIC.test(name) || here(name)) ?? kind;
    const chosen = GENERIC.test(first) ? taken(first) : [first.replaceAll('"', '')];
    found = [...chosen.map(name => (/\s/.test(name) ? `'${name}'` : name)), kind].join(', ');
    faces.set(families, found);
  }
  return found;
}
export const serifFace = () => face(BOOK);
export const mathFace = () => face(MATHS);
/** @type {(style: CSSStyleDeclaration, family?: string) => Record<string, string | null>} */
export function font(style, family = face(style.fontFamily)) {
  return {
    'font-family': family,
    'font-size': round(px(style.fontSize)),
    'font-weight': style.fontWeight === '400' ? null : style.fontWeight,
    'font-style': style.fontStyle === 'normal' ? null : style.fontStyle,
    'letter-spacing': px(style.letterSpacing) ? round(px(style.letterSpacing)) : null,
  };
}
/** @type {Map<string, { up: number; down: number }>} */
const sizes = new Map();
/** @type {(style: CSSStyleDeclaration) => { up: number; down: number }} */
export function measure(style) {
  // the ascent and descent of the font
  const said = `${style.fontStyle} ${style.fontWeight} ${style.fontSize} ${style.fontFamily}`;
  let found = sizes.get(said);
  if (!found) {
    pen.font = said;
    const { fontBoundingBoxAscent: up, fontBoundingBoxDescent: down } = pen.measureText('x');
    found = { up, down };
    sizes.set(said, found);
  }
  return found;
}
/** @type {(text: string, style: CSSStyleDeclaration) => number} */
export function width(text, style) {
  pen.font = `${style.fontStyle} ${style.fontWeight} ${style.fontSize} ${style.fontFamily}`;
  return pen.measureText(text).width + px(style.letterSpacing) * text.length;
}

/** @type {(x1: number, y1: number, x2: number, y2: number, attributes: Attributes) => SVGElement} */
export const segment = (x1, y1, x2, y2, attributes) =>
  s('line', { x1: at(x1), y1: at(y1), x2: at(x2), y2: at(y2), ...attributes });

// ---- clips and gradients, each with its own id
/** @type {() => Kept} */
export function store() {
  const defs = s('defs');
  let count = 0;
  return {
    defs,
    named: el => {
      el.setAttribute('id', `d${++count}`);
      defs.append(el);
      return `url(#d${count})`;
    },
  };
}
// The computed "linear-gradient(90deg, rgb(1, 2, 3), …)"; stops are equally spaced.
/** @type {(list: string) => string[]} */
export function splitAtCommas(list) {
  // at commas, but not at those inside brackets
  const found = [''];
  let depth = 0;
  for (const letter of list) {
    if (letter === '(') depth++;
    if (letter === ')') depth--;
    if (letter === ',' && !depth) found.push('');
    else found[found.length - 1] += letter;
  }
  return found.map(each => each.trim());
}
