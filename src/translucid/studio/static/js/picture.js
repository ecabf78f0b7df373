// A view as a picture that stands alone: an SVG with the page's own styles in it, or a PNG of it.
// HTML and formulas stay what they are (foreignObject); what is painted on canvas becomes an image.
import { s, h, unit } from './dom.js';

const MARGIN = 24, LINE = 20, PER_LETTER = 8.5;    // px, of the caption
const AWAY = /:(hover|focus|focus-visible|focus-within|active)\b/;
const PSEUDO = /::?(before|after|placeholder|marker|selection|-webkit-[-\w]+)/g;

// ---- styles: those that count here and now, as if there were no window
function parted(selectors) {                       // at commas, but not at those inside brackets
  const found = [''];
  let depth = 0;
  for (const letter of selectors) {
    if (letter === '(' || letter === '[') depth++;
    if (letter === ')' || letter === ']') depth--;
    if (letter === ',' && !depth) found.push(''); else found[found.length - 1] += letter;
  }
  return found.map(each => each.trim());
}
const boxed = text => text.replace(/(^|[\s,>+~(])canvas(?=$|[\s,>+~:.)])/g, '$1.canvas').replace(/(^|[\s,}>])(?::root|html)(?=$|[\s,{.:>[])/g, '$1.studio').replace(/(^|[\s,}>])body(?=$|[\s,{.:>])/g, '$1.studio-body');
function fits(condition, { width, height, letter }) {      // of a container: (min-width: 1600px), (max-width: 70em)
  return [...condition.matchAll(/(min|max)-(width|height):\s*([\d.]+)(px|em)/g)].every(([, end, side, size, by]) => {
    const now = (side === 'width' ? width : height) / (by === 'em' ? letter : 1);
    return end === 'min' ? now >= Number(size) : now <= Number(size);
  });
}
function sized(text, { width, height }) {
  return text.replace(/(-?[\d.]+)(?:vh|cqh)\b/g, (all, n) => `${(n * height) / 100}px`).replace(/(-?[\d.]+)(?:vw|cqw)\b/g, (all, n) => `${(n * width) / 100}px`)
    .replace(/(?<![\w.])(-?[\d.]+)rem\b/g, 'calc($1 * var(--rem, 1rem))');
}
function rulesOf(list, drawn, size) {
  return [...list].flatMap(rule => {
    const kind = rule.constructor.name;
    if (kind === 'CSSMediaRule') return matchMedia(rule.conditionText).matches ? rulesOf(rule.cssRules, drawn, size) : [];
    if (kind === 'CSSContainerRule') return fits(rule.conditionText, size) ? rulesOf(rule.cssRules, drawn, size) : [];
    if (kind !== 'CSSStyleRule') return [];
    const selectors = parted(boxed(rule.selectorText)).filter(each => !AWAY.test(each) && used(each, drawn));
    return selectors.length ? [sized(`${selectors.join(', ')} { ${rule.style.cssText} }`, size)] : [];
  });
}
function used(selector, drawn) {
  try { return drawn.querySelector(selector.replace(PSEUDO, '') || '*') !== null; } catch { return false; }   // of another browser
}

// ---- the copy
// An <img>, which is waited for where a background would not be; styles for canvas find it by its class.
function painted(canvas, copy) {
  const image = h('img', { src: canvas.width && canvas.height ? canvas.toDataURL() : null, width: canvas.width, height: canvas.height, class: `canvas ${copy.className}`, decoding: 'sync', alt: '' });
  image.style.cssText = copy.style.cssText;
  return image;
}
function copied(live) {
  const copy = live.cloneNode(true), from = [live, ...live.querySelectorAll('*')], to = [copy, ...copy.querySelectorAll('*')];
  from.forEach((one, i) => {
    const other = to[i];
    if (one.tagName === 'INPUT') other.setAttribute(one.type === 'checkbox' ? (one.checked ? 'checked' : 'data-off') : 'value', one.value);
    if (one.tagName === 'OPTION') one.selected ? other.setAttribute('selected', '') : other.removeAttribute('selected');
    if (/auto|scroll/.test(getComputedStyle(one).overflow)) other.style.overflow = 'hidden';      // paper does not scroll
    if (one.scrollTop || one.scrollLeft) {
      for (const kid of other.children) if (kid.style) { kid.style.position ||= 'relative'; kid.style.top = `${-one.scrollTop}px`; kid.style.left = `${-one.scrollLeft}px`; }
    }
    for (const name of ['href', 'tabindex', 'autofocus']) other.removeAttribute(name);
    if (one.tagName === 'CANVAS') other.replaceWith(painted(one, other));
  });
  const { width, height } = live.getBoundingClientRect();
  copy.style.width = `${width}px`;
  copy.style.height = `${height}px`;
  return { copy, width, height };
}
function lines(text, letters) {
  return text.match(new RegExp(`[^]{1,${Math.max(20, letters)}}`, 'gu')) ?? [];
}
const legal = text => (text.toWellFormed?.() ?? text).replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, '\ufffd');   // in XML

export function asSvg(caption) {
  const root = document.documentElement, size = { width: root.clientWidth, height: root.clientHeight, letter: parseFloat(getComputedStyle(root.parentElement ?? root).fontSize) };
  const parts = ['stage', 'readout'].map(id => copied(document.getElementById(id))).filter(part => part.height);
  const width = Math.ceil(Math.max(...parts.map(part => part.width))), high = Math.ceil(parts.reduce((sum, part) => sum + part.height, 0));
  const told = lines(caption, Math.floor((width - 2 * MARGIN) / PER_LETTER)), height = high + MARGIN + told.length * LINE;
  const body = h('div', { class: 'studio-body' }, parts.map(part => part.copy));
  const studio = h('div', { class: 'studio', 'data-theme': root.dataset.theme, 'data-hide': 'bar sentence' }, body);
  if (root.classList.contains('projector')) studio.classList.add('projector');
  studio.style.cssText = `--rem:${16 * unit()}px;font-size:${16 * unit()}px`;
  body.style.cssText = `display:block;width:${width}px;height:${high}px;overflow:hidden`;
  const drawn = document.createDocumentFragment();
  drawn.append(studio);
  const styles = [...document.styleSheets].flatMap(sheet => rulesOf(sheet.cssRules, drawn, size)).join('\n');
  const ink = getComputedStyle(root), paint = name => ink.getPropertyValue(name).trim();
  const svg = s('svg', { xmlns: 'http://www.w3.org/2000/svg', width, height, viewBox: `0 0 ${width} ${height}` },
    s('title', null, caption), s('style', null, styles),
    s('rect', { width, height, fill: paint('--bg') }),
    s('foreignObject', { width, height: high }, studio),
    told.map((line, i) => s('text', { x: MARGIN, y: high + MARGIN / 2 + (i + .7) * LINE, style: `font:14px ui-monospace, Menlo, "DejaVu Sans Mono", monospace;fill:${paint('--ink2')};white-space:pre` }, line)));
  return legal(new XMLSerializer().serializeToString(svg));
}

export async function asPng(caption, sharp = 2) {
  const text = asSvg(caption), image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  await image.decode();
  const made = document.createElement('canvas');
  made.width = image.naturalWidth * sharp;
  made.height = image.naturalHeight * sharp;
  made.getContext('2d').drawImage(image, 0, 0, made.width, made.height);
  return new Promise((resolve, reject) => made.toBlob(blob => (blob ? resolve(blob) : reject(new Error('the browser made no picture'))), 'image/png'));
}
