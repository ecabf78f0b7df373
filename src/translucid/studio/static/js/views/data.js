// Data: the model's own texts by loss, and for a unit or a head the texts with its extreme values and the features it
// responds to.
import { panelHead, field } from '../parts/controls.js';
import { fill, h, nearestIndex, released } from '../dom.js';
import { num, signed } from '../ink.js';
import * as api from '../api.js';
import { readoutDefault } from '../readout.js';
import { go, replaceAddress } from '../route.js';
import { withTable } from '../parts/table.js';

const ALONG = ['length', 'queries', 'keys'];
const HEADS = ['heads', 'kv_heads'];
const begun = new Set(); // what was asked for is shown again, for the next unit too
const stopped = new Set(); // does not begin again by itself
const QUICK = 5e6; // parameters of a model that reads its texts without being asked
const FIRST = ['feedforward.activated', '.hidden', '.mixed', '.output'];

// Points with a value per unit and token; for heads, the norms of their vectors.
/** @type {(point: Point) => boolean} */
const hasUnits = ({ axes }) =>
  axes.filter(axis => ALONG.includes(axis)).length === 1 &&
  axes.length === 2 + axes.filter(axis => HEADS.includes(axis)).length;

/** @type {View} */
export const data = {
  name: 'Data',
  draw: drawView,
  about: {
    shows: 'The texts that the model was trained on: the hardest ones, and those to which one unit responds most.',
    read: 'Choose a text to open it in Flow. The panel sorts the texts by the value of the chosen unit.',
    terms: ['unit', 'layer', 'token'],
  },
};

/** @type {(stage: HTMLElement, shown: Shown) => Promise<void>} */
async function drawView(stage, { model, run, params }) {
  const points = run.points.filter(hasUnits);
  const chosen = points.find(point => point.at === params.get('at')) ?? first(points);
  const state = { at: chosen?.at ?? '', unit: Number(params.get('unit') ?? 0) || 0 };
  const list = h('div.texts');
  const card = h('div.unit');
  stage.append(
    h(
      'div.split.data',
      h('section', { 'aria-label': 'Texts by loss' }, h('h3', 'Hardest texts'), list),
      h('aside.panel', { tabindex: 0, 'aria-label': 'One unit' }, card),
    ),
  );
  /** @type {(text: string) => void} */
  const open = text => go('flow', { text, target: null, at: null, unit: null, pin: null });
  // Repeat the request until all texts are read or the user stops; each answer has the progress.
  /** @type {<F extends Survey>(box: HTMLElement, o: SurveyOptions<F>) => Promise<void>} */
  async function survey(box, { key, ask, draw, noun }) {
    const bar = h('progress', { max: 1, value: 0, 'aria-label': 'read' });
    const line = h('span.quiet');
    const stop = h('button.edit', { onclick: () => stopped.add(key) }, 'Stop');
    const surveying = h('div.surveying', bar, line, stop);
    const results = h('div');
    box.replaceChildren(surveying, results);
    try {
      for (;;) {
        const found = await ask();
        bar.max = found.of;
        bar.value = found.done;
        line.textContent = `${found.done} of ${found.of} ${noun}`;
        await released(results);
        if (!results.isConnected) return;
        const halted = stopped.has(key);
        results.replaceChildren(...draw(found, halted));
        if (found.done === found.of || halted) {
          if (halted) begun.delete(key);
          surveying.remove();
          return;
        }
      }
    } catch (error) {
      box.replaceChildren(h('p.quiet', { role: 'status' }, api.refusal(error)));
    }
  }
  /** @type {(label: string, onclick: () => unknown) => HTMLElement} */
  const button = (label, onclick) => h('button.edit', { onclick }, label);
  // unasked: begin without a click.
  /** @type {<F extends Survey>(unasked: boolean, box: HTMLElement, o: SurveyOptions<F>) => void} */
  const offer = (unasked, box, o) => {
    const start = () => {
      begun.add(o.key);
      stopped.delete(o.key);
      survey(box, o);
    };
    if (begun.has(o.key) || (unasked && !stopped.has(o.key))) start();
    else fill(box, o.before, button(o.label, start));
  };

  const quick = model.parameters < QUICK;
  // ---- texts by loss
  const losses = `${model.m} losses`;
  function begin() {
    const unasked = quick && model.task !== 'regress'; // whose answers are numbers without a probability
    offer(unasked, list, {
      label: 'Measure losses',
      key: losses,
      ask: () => api.hardest(model.m),
      draw: drawTexts,
      noun: 'texts',
      before: h('p.quiet', 'Reads up to 200 texts of its test data (or validation data) with their reference answers.'),
    });
  }
  /** @type {(found: Hardest, halted: boolean) => HTMLElement[]} */
  function drawTexts(found, halted) {
    const { texts } = found;
    const more = button('Continue', () => {
      begun.add(losses);
      begin();
    });
    const onward =
      halted && found.done < found.of ? [h('p.quiet', `${found.done} of ${found.of} texts were read.`), more] : [];
    if (!texts.length)
      return found.done < found.of ? onward : [h('p.quiet', `There are no reference answers in ${found.from}.`)];
    const table = h(
      'ol.hardest',
      texts.map(({ text, target, loss, answer }) =>
        h(
          'li',
          h('span.n', { title: 'nats per target' }, num(loss, 3)),
          h('button.word', { title: 'Open this text', onclick: () => open(text) }, text),
          target === null ? '' : h('span.gold', h('span.quiet', 'right '), target),
          answer === null
            ? ''
            : h(
                'span',
                { class: target !== null && answer.startsWith(target) ? 'gold' : 'said' },
                h('span.quiet', 'said '),
                answer,
              ),
        ),
      ),
    );
    const path = `${model.name}: loss in nats per target, ${found.from}`;
    readoutDefault({ at: ['the text with the highest loss'], path, value: texts[0].loss });
    return [
      h('p.quiet', `${texts.length} of ${found.done} texts of ${found.from}, highest loss first.`),
      ...onward,
      withTable(table, 'The texts with the highest loss', () => ({
        corner: 'text',
        columns: ['loss', 'right', 'said'],
        rows: texts.map(each => [each.text, each.loss, each.target ?? '', each.answer ?? '']),
      })),
    ];
  }

  // ---- one unit
  const moved = h('div.moved');
  const follows = h('div.follows');
  function drawCard() {
    const point = points.find(each => each.at === state.at);
    if (!point) {
      card.replaceChildren(h('p.quiet', 'This model reads numbers, so there are no texts to rank by unit.'));
      return;
    }
    const { axes, shape } = point;
    const byHead = axes.some(axis => HEADS.includes(axis));
    const units = shape[byHead ? axes.findIndex(axis => HEADS.includes(axis)) : shape.length - 1];
    state.unit = Math.min(state.unit, units - 1);
    /** @type {(changes: { at?: string; unit?: number }) => void} */
    const take = changes => {
      Object.assign(state, changes);
      replaceAddress({ at: state.at, unit: state.unit });
      drawCard();
    };
    const names = h(
      'datalist',
      { id: 'pointnames' },
      points.map(each => h('option', { value: each.at })),
    );
    card.replaceChildren(
      panelHead(byHead ? 'A head' : 'A unit', `${byHead ? 'Head' : 'Unit'} ${state.unit}`),
      field(
        'point (type to search)',
        h('input', {
          type: 'text',
          list: 'pointnames',
          value: state.at,
          onchange: event => {
            const at = event.target.value.trim();
            const near = points.find(each => each.at === at) ?? points.find(each => each.at.includes(at));
            take({ at: near?.at ?? state.at });
          },
        }),
      ),
      names,
      field(
        `${byHead ? 'head' : 'unit'}, 0 to ${units - 1}`,
        h('input', {
          type: 'number',
          min: 0,
          max: units - 1,
          value: state.unit,
          onchange: event => take({ unit: nearestIndex(Math.floor(Number(event.target.value)) || 0, units) }),
        }),
      ),
      moved,
      follows,
    );
    const { at, unit } = state;
    offer(quick, moved, {
      label: 'Texts with its largest and smallest values',
      key: `${model.m} units`,
      ask: () => api.unit(model.m, at, unit),
      draw: drawMoved,
      noun: 'texts',
    });
    offer(false, follows, {
      label: 'What it responds to',
      key: `${model.m} labels`,
      ask: () => api.labels(model.m, at),
      draw: drawLabels,
      noun: 'sentences',
    });
  }
  /** @type {(extreme: Extreme) => HTMLElement} */
  const marked = ({ value, text, tokens, place }) =>
    h(
      'li',
      h('span.n', signed(value)),
      h(
        'button.word',
        { title: 'Open this text', onclick: () => open(text) },
        tokens.map((token, i) => [i === place ? h('mark', token) : token, ' ']),
      ),
    );
  /** @type {(found: UnitSurvey) => HTMLElement[]} */
  function drawMoved(found) {
    /** @type {(title: string, rows: Extreme[]) => HTMLElement[]} */
    const part = (title, rows) => [h('h3', title), h('ol.extremes', rows.map(marked))];
    return [
      ...part('Largest', found.largest),
      ...part('Smallest', found.smallest),
      h('p.tail', `Of ${found.done} texts of ${found.from}; one token per text.`),
    ];
  }
  /** @type {(found: LabelSurvey, halted?: boolean) => HTMLElement[]} */
  function drawLabels(found, halted = false) {
    const { of_unit: ofUnit, labels = [], control = NaN } = found;
    if (!ofUnit) return halted ? [h('p.quiet', `${found.done} of ${found.of} sentences were read.`)] : [];
    const own = labels.find(label => label.unit === state.unit);
    /** @type {(label: { feature: string; auc: number }) => string} */
    const told = ({ feature, auc }) => `${feature}: AUC ${num(auc, 2)}${auc < 0.5 ? ' (low there)' : ''}`;
    /** @type {(unit: number) => void} */
    const take = unit => {
      Object.assign(state, { unit });
      replaceAddress({ at: state.at, unit });
      drawCard();
      follows.replaceChildren(...drawLabels(found));
    };
    return [
      h(
        'p',
        { class: own ? 'label' : 'quiet' },
        own
          ? `It responds to ${told(own)}, measured on ${found.of} sentences.`
          : `It responds to none of the measured features; the best is ${told(ofUnit[state.unit][0])}.`,
      ),
      h(
        'p.tail',
        `A label needs an AUC of 0.9 (or 0.1) and more than ${num(control, 2)}, the best of all ` +
          `${ofUnit.length} units with shifted labels. ` +
          (labels.length ? `${labels.length} of the units have one:` : 'No unit has one.'),
      ),
      h(
        'ul.labels',
        labels
          .slice(0, 24)
          .map(label => h('li', h('button', { onclick: () => take(label.unit) }, `${label.unit}: ${told(label)}`))),
      ),
    ];
  }
  begin();
  drawCard();
  readoutDefault({ at: ['many texts'], path: `${model.name}: no texts read yet` });
}
/** @type {(points: Point[]) => Point | undefined} */
const first = points => {
  for (const end of FIRST) {
    const found = points.find(point => point.at.endsWith(end));
    if (found) return found;
  }
  return points[0];
};
