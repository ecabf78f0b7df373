// Where a number comes from: its formula and its terms. Each term can be opened, down to weights, tokens and constants;
// a breadcrumb leads back.
import { fill, h, formula, capital, lastOf, onHoverOrFocus } from '../dom.js';
import * as api from '../api.js';
import { address as here, replaceAddress } from '../route.js';
import { copy, notice, readout } from '../readout.js';
import { pointOf } from '../anatomy.js';
import { rowHead } from './table.js';
import { rowName } from './token.js';

const INFIX = ['+', '-', '·', '/', '^', '<=', '<', '>'];
/** @type {Record<string, number>} */
const TIGHT = { '<=': 0, '<': 0, '>': 0, '+': 1, '-': 1, '·': 2, '/': 2, '^': 3 };
/** @type {Record<string, string>} */
const COMPARED = { '>': 'above', '<': 'below', '<=': 'at most' };
/** @type {Record<string, string>} */
const SIGNS = { '-': '−', '<=': '≤', '/': '÷' };
const LONG = 3; // terms of a sum that stand in a line; more have a line each
const MOST = 64; // terms of a sum that are shown when asked for
const NEGLIGIBLE = 1e-5; // of the value: the rounding of the model's own precision
const FOLDED = 5; // crumbs; of more the middle is folded away

/** @type {(text: string) => string} */
const shown = text => text.replace('-inf', '−∞').replace('inf', '∞').replace(/-/g, '−');
/** @type {(at: string) => { name: string; index: number[] }} */
const parsed = at => {
  const [, name, index] = at.match(/^([\w.]+)(?:\[(.*)\])?$/) ?? [at, at];
  return { name, index: index ? index.split(', ').map(Number) : [] };
};
/** @type {(at: string) => string} */
const brief = at => {
  const { name, index } = parsed(at);
  const last = pointOf(name);
  const own = /^(weight|bias)$/.test(last) ? name.split('.').slice(-2).join('.') : last;
  return `${own}${index.length ? `[${index.join(', ')}]` : ''}`;
};
// Whether a term leads on towards the text; masks, scales and weights do not.
/** @type {(one: NumberTerm) => boolean} */
const computed = one => one.kind === 'point' && one.address.includes('[') && !one.address.includes('mask[');
/** @type {(at: string, index: (number | string)[], shape: number[]) => string} */
export const addressOf = (at, index, shape) => `${at}${shape.length ? `[${[0, ...index].join(', ')}]` : ''}`;

// The link contains the last opened path: root;number;number.
/** @type {(root: string) => string[]} */
const linked = root => {
  const [first, ...below] = here().params.get('walk')?.split(';') ?? [];
  return first === root ? below : [];
};

// root: the answer of api.terms for the selected number.
/** @type {(run: Run, root: OpenedNumber) => HTMLElement} */
export function termsPanel(run, root) {
  const box = h('section.terms', { 'aria-label': 'Where this number comes from' });
  const heard = h('p.unseen', { 'aria-live': 'polite' });
  const body = h('div.opened');
  box.append(body, heard);
  const points = new Map(run.points.map(point => [point.at, point]));
  /** @type {WalkStep[]} */
  let trail = [root];
  let turn = 0;

  /** @type {(to: string, from?: string | null, top?: number) => Promise<void>} */
  async function open(to, from = null, top = undefined) {
    const mine = ++turn;
    const opened = await api.terms(run.run, to, top).catch(error => ({ address: to, refused: String(error.message) }));
    if (mine !== turn) return;
    if (from !== null) trail[trail.length - 1].left = from;
    trail = top === undefined ? [...trail, opened] : [...trail.slice(0, -1), opened];
    moved();
  }
  /** @type {(to: number) => void} */
  function back(to) {
    turn += 1;
    trail = trail.slice(0, to + 1);
    moved();
  }
  function moved() {
    const below = trail.slice(1).map(each => each.address);
    replaceAddress({ walk: below.length ? [root.address, ...below].join(';') : null });
    draw();
    const opened = lastOf(trail);
    const told = 'refused' in opened ? opened.refused : `${opened.text}. ${opened.meaning}`;
    heard.textContent = `${opened.address} is ${told}`;
    const again = opened.left && box.querySelector(`[data-to="${CSS.escape(opened.left)}"]`);
    (
      again ||
      box.querySelector('button.deep') ||
      box.querySelector('button.number') ||
      box.querySelector('.crumbs button')
    )?.focus({
      preventScroll: true,
    });
    body.firstElementChild?.scrollIntoView({ block: 'nearest' });
  }
  /** @type {(name: string | null) => void} */
  const light = name => {
    for (const el of box.querySelectorAll('[data-name]'))
      el.classList.toggle('lit', name !== null && el.dataset.name === name);
  };
  /** @type {<E extends HTMLElement>(el: E, number: NumberTerm) => E} */
  function meet(el, number) {
    const look = () => {
      light(number.name);
      const { name, index } = parsed(number.address);
      readout({
        at: [number.name.replaceAll('_', ' ')],
        // a point as in the status bar, without the batch axis
        path: points.has(name) && index.length > 1 ? `${name}[${index.slice(1).join(', ')}]` : number.address,
        value: number.value ?? Number.NaN,
        digits: 4,
      });
    };
    const away = () => {
      light(null);
      readout();
    };
    return onHoverOrFocus(el, look, away);
  }
  /** @type {(one: NumberTerm) => HTMLElement} */
  function opener(one) {
    const text = [shown(one.text), one.token === undefined ? '' : [' ', h('span.word', one.token)]];
    if (!one.address) return h('span.constant', { 'data-name': one.name }, text);
    return meet(
      h(
        'button',
        {
          class: `number${computed(one) ? ' deep' : ''}`,
          'data-name': one.name,
          'data-to': one.address,
          title: one.address,
          'aria-label': `${one.name.replaceAll('_', ' ')} ${shown(one.text)}: ${one.address}, open`,
          onclick: () => open(one.address, one.address),
        },
        text,
      ),
      one,
    );
  }
  /** @type {(opened: OpenedNumber, one: NumberTerm) => Element | string} */
  const symbol = (opened, one) => formula(opened.symbols[one.name], false) ?? one.name;

  /** @type {(opened: OpenedNumber, one: NumberTerm) => HTMLElement} */
  const named = (opened, one) => h('span.named', symbol(opened, one), ' ', opener(one));

  // The words for an address: a head, the tokens along its axes.
  /** @type {(at: string) => HTMLElement | null} */
  function whose(at) {
    const { name, index } = parsed(at);
    const axes = points.get(name)?.axes ?? [];
    const own = /(^|\.)encoder\./.test(name) || !run.tokens.target.length ? 'source' : 'target';
    /** @type {Content[]} */
    const said = axes.map((axis, i) => {
      const place = index[i + 1];
      const side = axis === 'keys' && /(cross_attention|alignment)\./.test(name) ? 'source' : own;
      if (['length', 'queries', 'keys'].includes(axis) && run.tokens[side][place] !== undefined)
        return axis === 'keys' ? h('span.word', run.tokens[side][place]) : rowName(run, side, place);
      return axis.endsWith('heads') ? `head ${place}` : null;
    });
    const parts = said.filter(each => each !== null);
    return parts.length
      ? h(
          'p.whose',
          parts.flatMap((each, i) => (i ? [' · ', each] : [each])),
        )
      : null;
  }

  // ---- an expression in numbers; long sums have one line per term below
  /** @type {(expression: Expression, tight: number, sums: Operation[]) => Content[]} */
  function line(expression, tight, sums) {
    if ('rest' in expression) return [`[${expression.rest} more: ${shown(expression.text)}]`];
    if (!('operation' in expression)) {
      const text = h('span.factor', { 'data-name': expression.name }, shown(expression.text));
      return expression.text.startsWith('-') && tight ? ['(', text, ')'] : [text];
    }
    const { operation, arguments: inside } = expression;
    if (['+', 'max'].includes(operation) && inside.length > LONG) {
      sums.push(expression);
      return [h('span.factor', shown(expression.text))];
    }
    if (operation === 'table') return line(inside[0], tight, sums);
    if (!INFIX.includes(operation))
      return [
        `${operation}(`,
        ...inside.flatMap((one, i) => [i ? ', ' : '', ...line(one, 0, sums)]),
        operation === 'where' ? ', −∞)' : ')',
      ];
    const own = TIGHT[operation];
    const sign = operation === '^' ? '^' : ` ${SIGNS[operation] ?? operation} `;
    const parts = inside.flatMap((one, i) => [i ? sign : '', ...line(one, own + Number(i > 0), sums)]);
    return own < tight ? ['(', ...parts, ')'] : parts;
  }
  /** @type {(expression: Expression) => NumberTerm[]} */
  const leaves = expression =>
    'operation' in expression
      ? expression.arguments.flatMap(leaves)
      : 'rest' in expression || !expression.address
        ? []
        : [expression];

  // The addresses are below, over the whole width.
  /** @type {(name: Content, value: Content, addresses?: string) => Content[]} */
  const row = (name, value, addresses) => [
    h('tr', rowHead(name), h('td.n', value)),
    addresses ? h('tr.below', h('td.addresses', { colspan: 2 }, addresses)) : null,
  ];
  /** @type {(opened: OpenedNumber, one: Expression) => Content[]} */
  function term(opened, one) {
    if ('rest' in one) {
      const most = opened.top >= MOST;
      const text = `the other ${one.rest.toLocaleString('en')} together`;
      const more = () => open(opened.address, null, MOST).catch(() => {});
      const name = most ? text : h('button.rest', { title: `Show ${MOST} terms`, onclick: more }, text);
      return row(name, shown(one.text));
    }
    const factors = 'operation' in one && one.operation === '·' ? one.arguments : [one];
    const numbers = factors.flatMap(each => ('operation' in each || 'rest' in each ? [] : [each]));
    const isProduct = numbers.length === factors.length;
    const inside = isProduct
      ? numbers.flatMap((each, i) => [i ? ' · ' : '', named(opened, each)])
      : [...line(one, 0, []), ...leaves(one).flatMap(each => [' ', named(opened, each)])];
    return row(
      inside,
      shown(one.text),
      leaves(one)
        .map(each => brief(each.address))
        .join(' · '),
    );
  }
  /** @type {(opened: OpenedNumber, numbers: NumberTerm[]) => Content[]} */
  function where(opened, numbers) {
    /** @type {(one: NumberTerm) => Content} */
    const name = one => {
      const sign = h('span', symbol(opened, one));
      const called = one.name.replaceAll('_', ' ');
      return sign.textContent === called ? sign : [sign, h('span.called', ` ${called}`)];
    };
    return numbers.map(one => row(name(one), opener(one), brief(one.address)));
  }
  // A comparison that does not hold must not be shown as if it did.
  /** @type {(opened: { value: number | null; text: string }, expression: Expression, sums: Operation[]) => Content} */
  function compared({ value, text }, expression, sums) {
    if (!('operation' in expression) || !Object.hasOwn(COMPARED, expression.operation)) return null;
    const than = COMPARED[expression.operation];
    const [left, right] = expression.arguments.map(one => line(one, 0, sums));
    return [left, ` is ${value ? '' : 'not '}${than} `, right, `, so ${shown(text)}`];
  }
  /** @type {(opened: OpenedNumber, expression: Expression) => Content[]} */
  function sum(opened, expression) {
    /** @type {Operation[]} */
    const sums = [];
    const many = 'operation' in expression && expression.operation === '+' && expression.arguments.length > LONG;
    if (many) sums.push(expression);
    const written = many
      ? null
      : h('p.numbersin.n', compared(opened, expression, sums) ?? ['= ', line(expression, 0, sums)]);
    const within = new Set(sums.flatMap(leaves));
    const alone = leaves(expression).filter(one => !within.has(one));
    const known = [...new Map(alone.map(one => [one.address, one])).values()].sort(
      (a, b) => Number(computed(b)) - Number(computed(a)), // what leads on comes first
    );
    return [
      written,
      ...sums.map(one => [
        many
          ? null
          : h('p.small.quiet', `${shown(one.text)} ${one.operation === 'max' ? 'is the largest of' : 'is the sum of'}`),
        h(
          'table.sumtable.sums',
          h(
            'tbody',
            one.arguments.map(each => term(opened, each)),
          ),
        ),
      ]),
      known.length ? h('table.sumtable', h('tbody', where(opened, known))) : null,
    ];
  }
  /** @type {(opened: OpenedNumber) => HTMLElement | null} */
  function clickable(opened) {
    const right = formula(opened.formula, false);
    if (!right) return null;
    const numbers = opened.expression ? leaves(opened.expression) : [];
    for (const [name, markup] of Object.entries(opened.symbols)) {
      const first = numbers.find(one => one.name === name);
      const wanted = formula(markup, false);
      if (!first || wanted?.children.length !== 1) continue;
      for (const el of right.querySelectorAll('*'))
        if (el.isEqualNode(wanted.firstElementChild) && !el.closest('.symbol')) {
          el.classList.add('symbol');
          el.dataset.name = name;
          meet(el, first);
          el.addEventListener('click', () => open(first.address, first.address));
        }
    }
    // If it is too long for the panel, it scrolls, also by keyboard.
    return h(
      'div.formula',
      { tabindex: 0, role: 'group', 'aria-label': 'Formula' },
      equation(formula(opened.symbol, false), right),
    );
  }
  function crumbs() {
    if (trail.length < 2) return null;
    /** @type {(opened: Pick<OpenedNumber, 'address'>, i: number) => HTMLElement} */
    const crumb = (opened, i) =>
      h(
        'li',
        i === trail.length - 1
          ? h('span', { 'aria-current': 'step' }, brief(opened.address))
          : h('button', { title: opened.address, onclick: () => back(i) }, brief(opened.address)),
      );
    const all = trail.map(crumb);
    if (all.length > FOLDED) {
      const folded = all.splice(1, all.length - FOLDED + 1);
      const label = `${folded.length} more steps`;
      const more = h('li');
      const unfold = () => more.replaceWith(...folded);
      more.append(h('button', { 'aria-label': label, title: label, onclick: unfold }, '…'));
      all.splice(1, 0, more);
    }
    return h('nav', { 'aria-label': 'Path to this number' }, h('ol.crumbs', all));
  }
  function draw() {
    const opened = lastOf(trail);
    if ('refused' in opened) return fill(body, crumbs(), h('p.quiet', opened.refused));
    const value = opened.value === null ? shown(opened.text) : exact(opened.value);
    const remainder = opened.remainder ?? 0;
    const rest = opened.expression && Math.abs(remainder) > NEGLIGIBLE * Math.max(1, Math.abs(opened.value ?? 0));
    fill(
      body,
      crumbs(),
      trail.length > 1 ? whose(opened.address) : null,
      trail.length > 1 || opened.kind !== 'point' ? h('p.quiet.meaning', capital(opened.meaning), '.') : null,
      opened.token === undefined ? null : h('p', 'The token ', h('span.word', opened.token)),
      clickable(opened),
      opened.expression && sum(opened, opened.expression),
      opened.missing ? h('p.quiet.missing', opened.missing) : null,
      h(
        'table.sumtable.total',
        h(
          'tbody',
          rest
            ? h(
                'tr',
                h('th', { scope: 'row' }, 'not explained by the terms'),
                h('td.n', shown(String(Number(remainder.toPrecision(6))))),
              )
            : null,
          h('tr.strong', h('th', { scope: 'row' }, h('span.mono', brief(opened.address))), h('td.n', value)),
        ),
      ),
      h(
        'p.copies',
        h('button', { title: opened.address, onclick: () => copy(opened.address) }, 'Copy address'),
        h('button', { title: opened.python, onclick: () => copy(script(opened)) }, 'Copy Python'),
      ),
    );
  }
  /** @type {(opened: OpenedNumber) => string} */
  const script = opened => {
    const given = [run.text, ...(run.target === null ? [] : [run.target])].map(text => JSON.stringify(text));
    return `trace = model.trace(${given.join(', ')})\n${opened.python}`;
  };
  box.addEventListener('keydown', event => {
    if (event.key !== 'Backspace' || trail.length < 2) return;
    event.preventDefault();
    event.stopPropagation(); // the view would go out
    back(trail.length - 2);
  });
  draw();
  const before = linked(root.address);
  if (before.length)
    Promise.all(before.map(at => api.terms(run.run, at)))
      .then(all => {
        if (turn) return; // somebody was faster
        trail = [root, ...all].map((opened, i) => ({ ...opened, left: all[i]?.address }));
        draw();
      })
      .catch(error => {
        replaceAddress({ walk: null });
        notice(`the link's walk is ignored: ${error.message}`);
      });
  return box;
}

/** @type {(left: Content, right: Content) => HTMLElement} */
const equation = (left, right) => h('div.equation', left, h('span.is', '='), right);
// A formula of the catalogue: symbol = formula.
/** @type {(entry: Entry | undefined) => HTMLElement | null} */
export const definition = entry =>
  entry?.formula ? equation(formula(entry.symbol, false), formula(entry.formula, false)) : null;
// The fewest digits that identify the 32-bit number.
/** @type {(given: number) => string} */
function exact(given) {
  if (!Number.isFinite(given)) return Number.isNaN(given) ? 'not a number' : given < 0 ? '−∞' : '∞';
  for (let digits = 1; digits <= 9; digits++) {
    const told = given.toPrecision(digits);
    if (Math.fround(Number(told)) === Math.fround(given)) return plain(told);
  }
  return plain(String(given));
}
/** @type {(told: string) => string} */
const plain = told => {
  const [digits, power] = told.split('e');
  if (power === undefined) return digits.replace('-', '−');
  const value = Number(told);
  return Math.abs(value) >= 1e-4
    ? String(value).replace('-', '−')
    : `${digits.replace('-', '−')}e${power.replace('-', '−').replace('+', '')}`;
};
