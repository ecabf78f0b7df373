// Attribution of a logit: contributions by part or by token, the prediction after each layer, and the saliency of the
// input.
import { keepFocus } from '../keyboard.js';
import { choice } from './controls.js';
import { fill, h } from '../dom.js';
import * as api from '../api.js';
import { cssColour, num, signed } from '../ink.js';
import { withTable } from './table.js';
import { title } from '../anatomy.js';
import { readout, wordElement } from '../readout.js';

const SHOWN = 8; // parts that are listed separately
const NEGLIGIBLE = 1e-4; // rounding error of a logit in the model's precision
const WAYS = ['part', 'token'].map(key => ({ key, text: `by ${key}` }));
let way = 'part'; // how it was last shown

// asked: { position, output, transformer, word }; onpart(part, head) goes to a part.
/** @type {(run: Run, asked: CreditQuestion, onpart: OnPart) => { el: HTMLElement; drawn: Promise<unknown> }} */
export function attribution(run, asked, onpart) {
  const box = h('section.credit', { 'aria-label': 'Lens and contributions' });
  /** @type {<T>(answer: Promise<T>, draw: (found: T) => HTMLElement[]) => Promise<void>} */
  const show = (answer, draw) => {
    const place = h('div');
    box.append(place);
    return answer.then(
      found => place.replaceWith(...draw(found)),
      error => place.replaceWith(h('p.quiet.small', error.message)),
    );
  };
  const { position, output, transformer } = asked;
  const all = transformer
    ? [
        show(api.contributions(run.run, position, output), found => parts(run, found, onpart)),
        show(api.lens(run.run, position), found => layers(found, asked)),
      ]
    : [];
  all.push(show(api.saliency(run.run, position), found => inputs(run, found)));
  return { el: box, drawn: Promise.all(all) };
}
/** @type {(one: { part: string; head: number | null }) => string} */
function nameOf({ part, head }) {
  const layer = part.match(/layers\.(\d+)/);
  const { name } = title(part);
  return `${name}${layer ? ` ${layer[1]}` : ''}${head === null ? '' : `, head ${head}`}`;
}
// The largest of many lines, and the sum of the others.
/** @type {(lines: CreditLine[]) => CreditLine[]} */
function fewer(lines) {
  const order = [...lines].sort((a, b) => Math.abs(b.value) - Math.abs(a.value));
  const rest = order.slice(SHOWN);
  if (rest.length < 2) return order;
  const value = rest.reduce((sum, line) => sum + line.value, 0);
  return [...order.slice(0, SHOWN), { name: `the other ${rest.length} together`, value, quiet: true }];
}
/** @type {(run: Run, found: Contributions) => CreditLine[]} */
function byToken(run, found) {
  const { source = [], target = [] } = found.by_token;
  /** @type {(side: string, i: number) => string} */
  const wordOf = (side, i) => run.tokens[side === 'source' ? side : 'target'][i] ?? String(i);
  /** @type {CreditLine[]} */
  const lines = Object.entries({ source, target }).flatMap(([side, values]) =>
    values.map((value, i) => ({
      name: [wordElement(wordOf(side, i)), h('span.quiet', side === 'source' ? ' read' : ' before')],
      text: `${wordOf(side, i)} (${side})`,
      value,
    })),
  );
  for (const one of found.parts) if (one.head === null) lines.push({ name: nameOf(one), value: one.value });
  return lines.filter(line => line.value !== 0);
}
/** @type {(run: Run, found: Contributions, onpart: OnPart) => HTMLElement[]} */
function parts(run, found, onpart) {
  const box = h('div.shares');
  const draw = () => {
    /** @type {CreditLine[]} */
    const lines =
      way === 'part'
        ? found.parts.map(one => ({ name: nameOf(one), value: one.value, go: () => onpart(one.part, one.head) }))
        : byToken(run, found);
    const largest = Math.max(...lines.map(line => Math.abs(line.value)), 1e-9);
    const isRounded = Math.abs(found.rounding) > NEGLIGIBLE * Math.max(1, Math.abs(found.logit));
    fill(
      box,
      fewer(lines).map(line => share(line, largest)),
      share({ name: 'norms and biases', value: found.remainder, quiet: true }, largest),
      isRounded && share({ name: 'not explained by these', value: found.rounding, quiet: true }, largest),
      h(
        'div.share.total',
        h('span.who', 'logit of ', wordElement(found.word)),
        h('span'),
        h('span.n', num(found.logit, 3)),
      ),
    );
    withTable(box, 'Contributions', () => ({
      corner: way,
      columns: ['contribution'],
      rows: [
        ...lines.map(line => [line.text ?? String(line.name), line.value]),
        ['norms and biases', found.remainder],
        ['rounding', found.rounding],
      ],
      note: `Together they sum to the logit, ${found.logit}.`,
    }));
  };
  const chooser = h('div');
  /** @type {(each: string) => void} */
  const choose = each => {
    way = each;
    const back = keepFocus(chooser);
    chooser.replaceChildren(choice('Contributions', WAYS, way, choose));
    back();
    draw();
  };
  choose(way);
  return [h('header.row', h('h3', 'Contributions to ', wordElement(found.word)), chooser), box];
}
/** @type {(line: CreditLine, largest: number) => HTMLElement} */
function share({ name, value, quiet, go }, largest) {
  const width = (50 * Math.min(1, Math.abs(value) / largest)).toFixed(2);
  const from = value < 0 ? (50 - Number(width)).toFixed(2) : '50';
  const colour = cssColour(value < 0 ? -0.78 : 0.78, { kind: 'div', max: 1 });
  return h(
    'div.share',
    h('span', { class: quiet ? 'who quiet' : 'who' }, go ? h('button', { onclick: go }, name) : name),
    h('span.track', h('i', { style: `left:${from}%;width:${width}%;background:${colour}` })),
    h('span.n', signed(value, 3)),
  );
}
/** @type {(found: Lens, asked: CreditQuestion) => HTMLElement[]} */
function layers(found, { word: wanted }) {
  const box = h(
    'div.lenses',
    found.after.map((after, i) =>
      h(
        'div.share',
        h('span.who', h('span.quiet', after === 'embedding' ? after : `after ${after}`)),
        h('span', { class: found.words[i] === wanted ? 'says same' : 'says' }, wordElement(found.words[i])),
        h('span.n', num(found.probabilities[i], 3)),
      ),
    ),
  );
  withTable(box, 'Logit lens', () => ({
    corner: 'after',
    columns: ['likeliest', 'probability'],
    rows: found.after.map((after, i) => [after, found.words[i], found.probabilities[i]]),
    note: '',
  }));
  return [h('h3', 'Prediction after each layer'), box];
}
/** @type {(run: Run, found: Saliency) => HTMLElement[]} */
function inputs(run, found) {
  const { tokens } = run;
  const scale = { kind: 'div', max: found.largest || 1 };
  const source = tokens.source.length ? tokens.source : tokens.features;
  const read = [
    ...source.map((text, i) => ({ text, value: found.source[i] })),
    ...tokens.target.map((text, i) => ({ text, value: found.target[i] })),
  ].filter(({ value }) => value !== undefined);
  const box = h(
    'p.salient',
    { role: 'list', 'aria-label': 'Saliency' },
    read.map(({ text, value }) =>
      h(
        'span.word',
        {
          role: 'listitem',
          title: signed(value, 4),
          style: `border-color:${cssColour(value, scale)}`,
          onmouseenter: () => readout({ at: [wordElement(text), ': gradient × input'], value, scale, digits: 4 }),
          onmouseleave: () => readout(),
        },
        text,
      ),
    ),
  );
  withTable(box, 'Saliency', () => ({
    corner: 'token',
    columns: ['gradient × input'],
    rows: read.map(({ text, value }) => [text, value]),
    note: `Of the ${found.unit} ${found.value}.`,
  }));
  return [
    h('h3', 'Saliency of the input for ', wordElement(found.word)),
    box,
    h('p.small.quiet', `Gradient × input with respect to the ${found.unit} ${num(found.value, 3)}.`),
  ];
}
