// Sampling: settings, sampled texts, and for each token its sampling distribution beside the model's own.
import { joinWords } from '../parts/pairs.js';
import { choice, panelHead, slider } from '../parts/controls.js';
import { onKeys } from '../keyboard.js';
import { h } from '../dom.js';
import { UNIT_SCALE, num } from '../ink.js';
import * as api from '../api.js';
import { readoutDefault, wordElement } from '../readout.js';
import { go, replaceAddress, anyValue, between } from '../route.js';
import { probabilityText, changeBars } from '../parts/bars.js';
import { latest } from '../api.js';

// Each setting: its key in the address, its label, its range and step, and its neutral value.
const DIALS = [
  { key: 'temperature', name: 'temperature', min: 0, max: 2, step: 0.1, idle: 1 },
  { key: 'top_k', name: 'top-k', min: 0, max: 50, step: 1, idle: 0 },
  { key: 'top_p', name: 'top-p', min: 0.05, max: 1, step: 0.05, idle: 1 },
  { key: 'repetition_penalty', name: 'repetition', min: 1, max: 3, step: 0.1, idle: 1 },
  { key: 'seed', name: 'seed', min: 0, max: 99, step: 1, idle: 0 },
];
export const samplingLinkParts = Object.fromEntries(
  DIALS.map(({ key, min, max }) => [key, key === 'seed' ? anyValue : between(min, max)]),
);
/** @type {(dial: Dial, text: string | null) => number} */
const inRange = (dial, text) => {
  const value = text === null || text === '' ? dial.idle : Number(text);
  return Number.isFinite(value) ? Math.min(dial.max, Math.max(dial.min, value)) : dial.idle;
};
/** @type {(dial: Dial, value: number) => string} */
const said = (dial, value) =>
  dial.key === 'top_k' && value === 0
    ? 'all'
    : dial.key === 'temperature' && value === 0
      ? 'greedy'
      : String(Number(value.toFixed(2)));

// The two ways to generate: search and sampling.
const MODES = ['search', 'sample'].map(key => ({ key, text: key }));
/** @type {(mode: string) => HTMLElement} */
export const modes = mode =>
  choice('Sampling settings', MODES, mode, each =>
    go('decode', { mode: each === 'search' ? null : each, step: null, node: null, force: null }),
  );

/** @type {(stage: HTMLElement, shown: Pick<Shown, 'run' | 'params' | 'signal'>) => Promise<void>} */
export async function sample(stage, { run, params, signal }) {
  /** @type {{ values: number[]; step: number; found: Draws | null }} */
  const state = {
    values: DIALS.map(dial => inRange(dial, params.get(dial.key))),
    step: Number(params.get('step')) || 1,
    found: null,
  };
  const texts = h('div.drawn', { 'aria-live': 'polite' });
  const panel = h('aside.panel', { tabindex: 0, 'aria-label': 'The selected step' });
  stage.append(h('div.split', h('div.dec', h('div.controls', modes('sample')), dials(), texts), panel));
  /** @type {(i: number) => string} */
  const plain = i => String(Number(state.values[i].toFixed(2)));
  const asked = () => {
    const given = DIALS.map((dial, i) => [dial.key, state.values[i] === dial.idle ? undefined : plain(i)]);
    return Object.fromEntries(given);
  };
  function dials() {
    return h(
      'div.dials',
      { role: 'group', 'aria-label': 'Sampling' },
      DIALS.map((dial, i) => {
        const value = h('output.n', said(dial, state.values[i]));
        return h(
          'label',
          h('span', dial.name),
          slider('', [dial.min, dial.max, dial.step], state.values[i], {
            text: said(dial, state.values[i]),
            oninput: event => {
              state.values[i] = Number(event.target.value);
              value.textContent = said(dial, state.values[i]);
              event.target.setAttribute('aria-valuetext', value.textContent);
              drawSoon();
            },
          }),
          value,
        );
      }),
    );
  }
  async function draw() {
    const given = asked();
    replaceAddress({ ...Object.fromEntries(DIALS.map(({ key }) => [key, given[key] ?? null])), step: state.step });
    let found;
    try {
      found = await api.draws(run.run, given);
    } catch (error) {
      const why = api.refusal(error);
      if (stage.isConnected) {
        texts.replaceChildren(h('p.quiet', why));
        panel.replaceChildren();
      }
      return;
    }
    if (!stage.isConnected) return;
    state.found = found;
    state.step = Math.min(found.steps.length, Math.max(1, state.step));
    show(found);
  }
  const drawSoon = latest(draw);
  /** @type {(found: Draws) => void} */
  function show(found) {
    const step = found.steps[state.step - 1];
    texts.replaceChildren(
      h('h3', 'The first text, token by token'),
      h(
        'div.beads',
        { role: 'group', 'aria-label': 'Steps' },
        found.steps.map((each, i) =>
          h(
            'button.word',
            {
              'aria-pressed': String(i + 1 === state.step),
              'aria-label': `step ${i + 1}: ${each.word}`,
              onclick: () => {
                state.step = i + 1;
                replaceAddress({ step: state.step });
                show(found);
                texts.querySelector('[aria-pressed="true"]')?.focus();
              },
            },
            each.word,
            h('small.n', probabilityText(each.now[each.ids.indexOf(each.taken)])),
          ),
        ),
      ),
      h('h3', `${found.texts.length} texts`),
      h(
        'ol.sampled',
        found.texts.map(text =>
          h(
            'li',
            h('span.word', text.text || '(nothing)'),
            h('span.n.quiet', ` log p ${num(text.log_probability, 2)}${text.finished ? '' : ', cut off'}`),
          ),
        ),
      ),
    );
    const before = found.steps.slice(0, state.step - 1).slice(-7);
    panel.replaceChildren(
      panelHead(
        `Step ${state.step}, after`,
        h(
          'h2.word.after',
          before.length
            ? joinWords(before.map(each => each.word))
            : h('span.special', run.tokens.target.at(run.tokens.source.length ? 0 : -1)),
        ),
      ),
      h('p', 'Sampled: ', wordElement(step.word)),
      changeBars(
        step.words.map((text, i) => ({ word: text, before: step.before[i], now: step.now[i] })),
        { difference: false },
      ),
      h(
        'p.tail',
        `${step.left.toLocaleString('en')} of ${step.vocab.toLocaleString('en')} tokens can be sampled. ` +
          'The outline is the model’s own probability, the fill the sampling distribution.',
      ),
    );
    readoutDefault({
      at: [`step ${state.step}: `, wordElement(step.word)],
      path: 'probability of being sampled',
      python: null,
      value: step.now[step.ids.indexOf(step.taken)],
      scale: UNIT_SCALE,
      digits: 4,
    });
  }
  onKeys(signal, event => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by || !state.found) return;
    event.preventDefault();
    state.step = Math.min(state.found.steps.length, Math.max(1, state.step + by));
    replaceAddress({ step: state.step });
    show(state.found);
  });
  await draw();
}
