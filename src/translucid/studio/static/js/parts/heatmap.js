// A labelled heat map: cells on canvas, labels and the pointer's frame in SVG.
import { h, s, special, unit, widest } from '../dom.js';
import { canvas, css, textOn, num } from '../ink.js';
import * as link from '../link.js';
import { readout } from '../readout.js';

// Labels lie flat when the widest one fits its column, and lean when it does not.
export function headRoom(cols, cellWidth, rem) {
  const u = unit(), w = widest(cols, rem);
  return w <= cellWidth - 5 * u ? { slant: false, labelHeight: 34 } : { slant: true, labelHeight: Math.ceil(w * 0.67 / u) + 16 };
}

export function heatmap(o) {
  const u = unit(), nR = o.values.length, nC = o.values[0].length;
  const lw = (o.labelWidth ?? 0) * u, lh = (o.labelHeight ?? 0) * u, cw = o.cellWidth, ch = o.cellHeight, gap = o.gap ?? 1;
  const W = lw + nC * cw, H = lh + nR * ch;
  const { el, ctx } = canvas(W, H);
  const svg = s('svg', { width: W, height: H, role: 'img', 'aria-label': o.title });
  o.values.forEach((row, i) => row.forEach((v, j) => {
    const x = lw + j * cw, y = lh + i * ch, out = !Number.isFinite(v);
    ctx.fillStyle = out ? css(0, o.scale) : css(v, o.scale);
    ctx.fillRect(x + gap / 2, y + gap / 2, cw - gap, ch - gap);
    if (out) {                                             // masked: hatched, never a colour
      ctx.save(); ctx.beginPath(); ctx.rect(x + gap / 2, y + gap / 2, cw - gap, ch - gap); ctx.clip();
      ctx.strokeStyle = getComputedStyle(document.documentElement).getPropertyValue('--line'); ctx.lineWidth = 1.25 * u;
      ctx.beginPath();
      for (let t = -ch; t < cw; t += 8 * u) { ctx.moveTo(x + t, y + ch); ctx.lineTo(x + t + ch, y); }
      ctx.stroke(); ctx.restore();
    } else if (o.digits !== undefined) {
      ctx.fillStyle = textOn(v, o.scale); ctx.textAlign = 'center'; ctx.textBaseline = 'middle';
      ctx.font = `500 ${(o.fontSize ?? 15) * u}px "Studio Mono", monospace`;
      ctx.globalAlpha = o.fade && v < o.fade ? 0.62 : 1;
      ctx.fillText(cw < 48 * u && Math.abs(v) < 1 ? num(v, o.digits).replace('0.', '.') : num(v, o.digits), x + cw / 2, y + ch / 2 + u);
      ctx.globalAlpha = 1;
    }
  }));
  o.rows?.forEach((w, i) => svg.append(label(w, lw - 10 * u, lh + (i + .5) * ch, 'end', o.rowKey?.(i), o.wordSize)));
  o.cols?.forEach((w, j) => {
    const x = lw + (j + .5) * cw, y = lh - 8 * u;
    const t = o.names ? s('text', { class: 'name' + (j === o.mark ? ' cutmark' : ''), x, y, 'text-anchor': 'middle' }, w) : label(w, x, y, o.slant ? 'start' : 'middle', o.colKey?.(j), o.wordSize);
    if (o.slant) t.setAttribute('transform', `rotate(-42 ${x} ${y})`);
    svg.append(t);
  });
  for (const [from, to, name] of o.groups ?? []) svg.append(
    s('path', { class: 'bracket', d: `M${lw + from * cw + 4 * u} ${lh - 26 * u}H${lw + to * cw - 4 * u}` }),
    s('text', { class: 'name', x: lw + (from + to) / 2 * cw, y: lh - 33 * u, 'text-anchor': 'middle' }, name));
  if (o.mark !== undefined) svg.append(s('path', { d: `M${lw + o.mark * cw} ${lh - 2 * u}V${H + 2 * u}`, stroke: 'var(--pos)', 'stroke-width': 2.5 * u, 'stroke-linecap': 'round' }));
  o.values.forEach((_, i) => o.rowKey && svg.append(link.mark(s('rect', { class: 'band', x: lw, y: lh + i * ch, width: nC * cw, height: ch, rx: 2 }), o.rowKey(i))));
  if (o.colKey) for (let j = 0; j < nC; j++) svg.append(link.mark(s('rect', { class: 'band', x: lw + j * cw, y: lh, width: cw, height: nR * ch, rx: 2 }), o.colKey(j)));
  o.values.forEach((row, i) => row.forEach((v, j) => {
    const keys = [o.rowKey?.(i), o.colKey?.(j)].filter(Boolean);
    const cell = s('rect', {
      class: 'cell', x: lw + j * cw, y: lh + i * ch, width: cw, height: ch, rx: 2,
      onmouseenter: () => { link.hover(keys); if (o.read) readout(o.read(i, j)); }, onmouseleave: () => { link.hover([]); readout(); },
      onclick: () => { link.pin(keys); o.onpick?.(i, j); },
    });
    svg.append(keys.length > 1 ? link.mark(cell, ...keys) : cell);
  }));
  return h('div', { class: 'heat', style: `width:${W}px;height:${H}px` }, el, svg);
}
function label(w, x, y, anchor, key, size) {
  const parts = Array.isArray(w) ? w : [w];
  const drawn = s('text', { class: 'word', x, y, 'text-anchor': anchor, 'dominant-baseline': anchor === 'end' ? 'central' : 'auto', style: size ? `font-size:${size}` : null },
    parts.map((p, k) => s('tspan', parts.length > 1 && k < parts.length - 1 ? { style: 'fill:var(--ink3);font-weight:400' } : special(p) ? { style: 'font-family:var(--numbers);font-size:.875rem;fill:var(--ink3)' } : null, p)));
  return key ? link.mark(drawn, key) : drawn;
}
