// The shell: address -> model, run, view; the sentence above every view; the keys.
import { modelSelect } from './parts/controls.js';
import { byId, h, icon, unit } from './dom.js';
import { address, go, isOwn, link as to, replaceAddress, invalidKeys } from './route.js';
import { fitScale } from './scale.js';
import * as theme from './theme.js';
import * as api from './api.js';
import * as highlight from './highlight.js';
import { readoutDefault, shownReading, notice, copy } from './readout.js';
import { counted, scaleOf } from './ink.js';
import { token } from './parts/token.js';
import { withScrollButtons, scrollIntoBox } from './parts/scrolling.js';
import { sentenceForm } from './parts/sentence_form.js';
import { minimap } from './parts/minimap.js';
import { waiting } from './parts/waiting.js';
import { folderOf, onTraining, stateOf } from './training.js';
import { answer, noteOnText, toModel } from './answer.js';
import { drawStop, onSpace, completeAddress } from './lesson_strip.js';
import { showTables } from './parts/table.js';
import { pythonLine, exactValue } from './copying.js';
import { help } from './help.js';
import { keepFocus, isPlainKey } from './keyboard.js';
import { KEYS, save, saveMenu } from './save.js';
import { mount } from './mount.js';
import { VIEWS } from './views/index.js';

const root = document.documentElement;
let shows = new AbortController(); // aborted when its view is left
/** @type {Found | null} */
let now = null; // what is being drawn
/** @type {Found | null} */
let shown = null; // what the view was drawn from
/** @type {Mounted | null} */
let mounted = null; // the view on the page
/** @type {string | null} */
let stood = null; // the address that was drawn last
/** @type {{ message: string; wanted: string } | null} */
let trouble = null; // the error on the way to a different address

// A button, since a link would change the address.
const skip = /** @type {HTMLElement} */ (byId('bar').querySelector('.skip'));
skip.onclick = () => byId('stage').focus();
const mark = byId('bar').querySelector('svg'); // shown while the server is still opening its models
/** @type {(model: Model) => string[]} */
const sizes = ({ config, parameters }) =>
  [
    config.layers &&
      (config.shape === 'encoder-decoder'
        ? `${config.layers}+${config.decoder_layers ?? config.layers} layers`
        : counted(config.layers, 'layer')),
    config.heads && counted(config.heads, 'head'),
    `${config.d_model ?? config.inputs} wide`,
    `${parameters.toLocaleString('en')} weights`,
  ].filter(each => typeof each === 'string');
/** @type {(model: Model) => string} */
const inFull = model => (model.unopened ? stateOf(model.m) : sizes(model).join(' · '));
// As many sizes as fit into the bar.
/** @type {(model: Model) => string} */
const inShort = model => {
  const room = root.clientWidth / unit();
  return model.unopened
    ? stateOf(model.m)
    : sizes(model)
        .slice(0, room < 1500 ? 1 : room < 1900 ? 2 : 4)
        .join(' · ');
};

// A run without a saved model has only its training to show.
/** @type {(id: string, model: Model, all: Model[]) => string} */
function absent(id, model, all) {
  const opened = all.filter(each => !each.unopened);
  return !Object.hasOwn(VIEWS, id)
    ? `unknown view; the views are ${Object.keys(VIEWS).join(', ')}`
    : model.unopened && !VIEWS[id].withoutModel
      ? 'This run had not saved a model when the page was opened; open the run again'
      : VIEWS[id].lacks?.(model, opened) || '';
}
// The other views that this model has, for the first page.
/** @type {(view: string, found: Pick<Found, 'model' | 'all'>) => Way[]} */
const ways = (view, { model, all }) =>
  Object.entries(VIEWS)
    .filter(([id]) => id !== view && !absent(id, model, all))
    .flatMap(([id, { name, about, linkTo }]) => (about ? [{ name, shows: about.shows, href: to(id, linkTo) }] : []));
/** @type {(name: string, key: string, onclick: () => unknown, face: Content, kind?: string) => HTMLElement} */
const tool = (name, key, onclick, face, kind) =>
  h('button', { title: `${name} (${key})`, 'aria-label': name, onclick, class: kind }, face);
const lightOrDark = () => theme.otherTheme(chosen => go(address().view, { theme: chosen }));
const copyLink = () => copy(location.href, 'the link');
/** @type {(view: string, model: Model, all: Model[]) => void} */
function bar(view, model, all) {
  byId('bar').replaceChildren(
    skip,
    h('a.mark', { href: '#/lesson', title: 'To the first page' }, mark, 'translucid'),
    h('h1.unseen', `Translucid studio: ${model.name}`),
    h(
      'nav.views',
      { 'aria-label': 'Views' },
      Object.entries(VIEWS).map(([id, { name, linkTo }]) => {
        const why = absent(id, model, all);
        return h(
          'a',
          {
            href: why ? null : to(id, linkTo),
            'aria-current': id === view ? 'page' : null,
            'aria-disabled': why ? 'true' : null,
            title: why || null,
          },
          name,
        );
      }),
    ),
    h(
      'div.model',
      all.length > 1
        ? modelSelect('Model', all, model, next => toModel(view, model, next, { m: next.m }))
        : h('b', model.name),
      h('span.sizes', { title: inFull(model) }, inShort(model)),
    ),
    h(
      'div.tools',
      saveMenu(keep),
      tool('Larger text, for a projector', 'p', projector, 'Aa', 'projector'),
      tool('Light or dark', 'd', lightOrDark, icon('theme')),
      tool('Copy a link to this view', 'l', copyLink, icon('link')),
      tool('Show the numbers of a picture as a table', 't', showTables, icon('table')),
      tool('Show or hide the inspector', 'i', inspector, icon('panel'), 'inspect'),
      tool('Help', '?', () => help(VIEWS[view], VIEWS), '?', 'keys'),
    ),
  );
  scrollIntoBox(byId('bar').querySelector('.views'), byId('bar').querySelector('[aria-current]'));
}
// The inspector is beside the view, or a drawer over it in a small window. The two states have separate classes, so
// that a drawer opened in a small window does not hide the inspector in a large one.
const isSmall = () => root.clientWidth <= 1180 * unit(); // as in lesson.css
function inspector() {
  const small = isSmall();
  root.classList.toggle(small ? 'drawer' : 'folded');
  if (!small) draw(); // the view's size has changed
}
/** @type {(by: number) => void} */
function walkTokens(by) {
  if (!now?.run) return;
  const { source, target, features } = now.run.tokens;
  /** @type {(side: string) => number} */
  const of = which => (which === 'tgt' ? target : source.length ? source : features).length;
  const last = highlight.state.pins.at(-1);
  const [side, place] = last ? last.split(':') : [source.length || features.length ? 'src' : 'tgt', by > 0 ? -1 : 1];
  const next = Math.min(of(side) - 1, Math.max(0, Number(place) + by));
  const key = `${side}:${next}`;
  if (key !== last) highlight.pin([...highlight.state.pins.slice(0, -1), key]);
}
async function copyValue() {
  const reading = shownReading();
  if (reading?.value === undefined || !now?.run) return;
  copy(await exactValue(reading, now.run));
}
function copyPython() {
  const line = now?.run && pythonLine(shownReading(), now.run, now.params.get('target'));
  line ? copy(line) : notice('this value is not a single number in the trace');
}
/** @type {(what: string) => void} */
const keep = what => {
  if (shown) save(what, shown, draw).catch(told);
};
function projector() {
  root.classList.toggle('projector');
  fitScale();
  draw();
}

const LONG = 96; // maximum words; a longer text is shown as a strip
// The vectors under the words: the outputs of the encoder and the decoder, or the last states.
const DEPTHS = [
  'final_norm.output',
  'recurrent.output',
  'feedforward_residual.sum',
  'feedforward_residual.norm.output',
  'embedding.scaled',
  'embedding.lookup',
];
/** @type {(run: Run, side: string) => string | undefined} */
function depth(run, side) {
  const names = run.points.map(point => point.at).filter(at => at.split('.').includes(side));
  return DEPTHS.map(end => names.filter(at => at.endsWith(end)).at(-1)).find(Boolean);
}
// Why there is no sentence: the run had no model when the page was opened.
/** @type {(model: Model) => string} */
const unread = ({ m }) => {
  const before =
    stateOf(m) === 'in training' ? 'This run is in training. Once it has saved a model,' : 'To process sentences,';
  return `${before} open it again: translucid explore ${folderOf(m)}`.trim();
};
/** @type {(run: Run | null, model: Model) => Promise<void>} */
async function sentence(run, model) {
  if (!run) return byId('sentence').replaceChildren(h('span.quiet', unread(model)));
  const { source, target, follows, features } = run.tokens;
  const box = byId('sentence');
  const first = address().view === 'lesson' && !address().params.has('lesson');
  box.classList.toggle('first', first);
  if (first) return edit(run, model, false);
  const lists = [source, target].filter(list => list.length);
  const long = lists.filter(list => list.length > LONG).length;
  // beside Edit, and perhaps an answer
  const room = box.clientWidth - 156 * unit() - (target.length ? 0 : 230 * unit());
  const unknown = { src: new Set(run.unknown.source), tgt: new Set(run.unknown.target) };
  // A decoder writes a token one row before it reads it.
  /** @type {(side: 'src' | 'tgt', i: number) => boolean} */
  const lacks = (keys, i) => unknown[keys].has(keys === 'tgt' && source.length ? i + 1 : i);
  /** @type {(list: string[], side: string, keys: 'src' | 'tgt') => Promise<HTMLElement>} */
  const words = async (list, side, keys) => {
    const at = depth(run, side);
    const many = list.length > LONG;
    const frame = at ? await api.tensor(run.run, at, { pool: many ? '1024,8' : '128,32' }) : null;
    const scale = frame && scaleOf(frame);
    if (many)
      return minimap(list, frame?.table() ?? null, {
        side: keys,
        scale,
        name: lists.length > 1 ? (keys === 'src' ? 'The text' : 'What is written') : 'The text',
        width: Math.floor(lists.length < 2 ? room : long > 1 ? room / 2 - 24 * unit() : room * 0.6),
      });
    return h(
      'div.tokens',
      list.map((word, i) =>
        token(word, frame && i < frame.shape[0] ? frame.row(i) : null, scale, `${keys}:${i}`, lacks(keys, i)),
      ),
    );
  };
  highlight.forget(box);
  const parts = [];
  const read = source.filter(word => word !== '</s>');
  if (source.length) parts.push(await words(read, 'encoder', 'src'));
  if (target.length && source.length)
    parts.push(h('span.to', { 'aria-hidden': 'true' }, '→'), await words(follows.slice(0, -1), 'decoder', 'tgt'));
  if (target.length && !source.length) parts.push(await words(target, 'decoder', 'tgt'));
  if (features.length)
    parts.push(
      h(
        'div.tokens',
        run.text.split(/[\s,]+/).map((text, i) => token(text, null, null, `src:${i}`)),
      ),
    );
  if (!target.length && !features.length)
    parts.push(
      h('span.to', { 'aria-hidden': 'true' }, '→'),
      h('span', { class: long ? 'answer cut' : 'answer' }, answer(run, model)),
    );
  const odd = unknown.src.size + unknown.tgt.size;
  if (odd) parts.push(h('span.unknowns', `${odd} ${odd > 1 ? 'tokens are' : 'token is'} unknown: read as <unk>`));
  const more = (root.dataset.hide ?? '').split(' ').includes('bar') ? saveMenu(keep) : '';
  box.replaceChildren(
    withScrollButtons(h('div.rolls', parts), 'the sentence'),
    h(
      'button.edit.rewrite',
      { title: 'Change the sentence (/)', onclick: () => edit(run, model) },
      icon('edit'),
      'Edit',
    ),
    letGo(),
    more,
  );
}
const letGo = () =>
  h(
    'button.edit.unpin',
    {
      title: 'Unpin (Esc)',
      'aria-label': 'Unpin',
      onclick: highlight.unpin,
      hidden: !highlight.state.pins[0],
    },
    icon('pin'),
    'Unpin',
  );
const INTRO = 'This page opens a neural network and shows every number inside it. Type';
// The form instead of the sentence: on the first page always, elsewhere after Edit.
/** @type {(run: Run, model: Model, focus?: boolean) => void} */
function edit(run, model, focus = true) {
  /** @type {(text: string) => void} */
  const read = text => {
    if (!text.trim()) return notice('the sentence is empty: type one, or press Escape');
    highlight.state.pins = [];
    go(address().view, { text, pin: null, m: model.m });
  };
  const numbers = run.tokens.features.length > 0;
  const form = sentenceForm(run, model, read, () => sentence(run, model));
  byId('sentence').replaceChildren(
    ...(focus
      ? []
      : [
          h(
            'p.intro',
            INTRO,
            numbers ? ' numbers and follow them to the answer.' : ' a sentence and follow it to the answer.',
          ),
        ]),
    form,
  );
  if (!focus) return;
  const field = byId('sentence').querySelector('input');
  field?.focus();
  field?.select();
}

/** @type {(known: (model: Model, all: Model[]) => void) => Promise<Found>} */
async function context(known) {
  // known(model, all): called before the model runs
  const { params } = address();
  const all = await Promise.all((await api.models()).map(each => api.model(each.m)));
  const model = all.find(each => each.m === params.get('m')) ?? all[0];
  known?.(model, all);
  if (model.unopened) return { all, model, run: null, catalogue: await api.catalogue(), params, ways: [] };
  const asked = {
    m: model.m,
    text: params.get('text') ?? model.examples[0],
    target: params.get('target') ?? undefined,
  };
  const [run, catalogue] = await Promise.all([api.run(asked), api.catalogue()]);
  return { all, model, run, catalogue, params, ways: [] };
}
// A link may pin a token that this sentence does not have.
/** @type {(key: string, run: Run) => boolean} */
function isThere(key, { tokens }) {
  const [side, place] = key.split(':');
  const words = { src: tokens.source.length ? tokens.source : tokens.features, tgt: tokens.target }[side];
  return words !== undefined && Number(place) < words.length;
}
// Parts that an address hides: ?hide=bar,sentence,views,tools,readout for a class; ?embed=1 for slides.
/** @type {(params: URLSearchParams) => string[]} */
const hidden = params => [
  ...(params.get('embed') ? ['bar', 'sentence'] : []),
  ...(params.get('hide')?.split(',') ?? []),
];
// An error or a note above a picture that stays.
/** @type {(message: string, ...more: Content[]) => void} */
function warned(message, ...more) {
  byId('stage').querySelector('.told.above')?.remove();
  byId('stage').append(
    h(
      'div.told.above',
      { role: 'alert' },
      h('p', message),
      more,
      h('button.edit', { onclick: event => event.target.closest('.told')?.remove() }, 'Close'),
    ),
  );
}
/** @type {(error: unknown) => Promise<void> | void} */
function told(error) {
  if (error instanceof api.Refused && stood !== null && location.hash !== stood) {
    trouble = { message: error.message, wanted: location.hash };
    history.replaceState(null, '', stood || '#');
    return draw();
  }
  const { message, stack } = error instanceof Error ? error : new Error(String(error));
  byId('stage').inert = false;
  byId('stage').replaceChildren(
    h(
      'div.told',
      { role: 'alert' },
      h('h2', 'This cannot be shown'),
      h('p', message),
      h('button.edit', { onclick: draw }, 'Try again'),
      h('button.edit', { onclick: () => navigator.clipboard?.writeText(`${message}\n${stack}`) }, 'Copy details'),
    ),
  );
  root.dataset.ready = `error`;
  if (!(error instanceof api.Refused)) console.error(error);
}
// The message of a slow view.
/** @type {(view: string, found: Found) => string} */
const busy = (view, found) => VIEWS[view].busy?.(found) ?? `${VIEWS[view].name}: computing …`;
// One signal per drawing: when its view is left, its listeners end and pending answers are not delivered (api.js), so
// it draws nothing more.
function draw() {
  shows.abort();
  shows = new AbortController();
  const { signal } = shows;
  const left = new Promise(over => signal.addEventListener('abort', over));
  api.answersFor(signal);
  return Promise.race([drawOn(byId('stage'), signal), left]);
}
/** @type {(stage: HTMLElement, signal: AbortSignal) => Promise<void>} */
async function drawOn(stage, signal) {
  const { view: wanted, named, params } = address();
  const arrived = !isOwn(location.hash); // by a link or a bookmark, not by a click on the page
  const back = keepFocus(document.body);
  stage.inert = true; // until it shows this view
  theme.setTheme();
  root.dataset.hide = hidden(params).join(' ');
  highlight.state.pins = (params.get('pin') ?? '').split(',').filter(Boolean);
  let late = () => {};
  signal.addEventListener('abort', () => late());
  try {
    /** @type {(model: Model, all: Model[]) => string} */
    const shownBy = (model, all) => (!absent(wanted, model, all) ? wanted : model.unopened ? 'train' : 'flow');
    late = waiting('The model is reading the text …');
    const found = await context((model, all) => bar(shownBy(model, all), model, all));
    const stop = await completeAddress(found);
    if (stop) {
      history.replaceState(null, '', stop);
      return draw();
    }
    const view = shownBy(found.model, found.all);
    highlight.state.pins = highlight.state.pins.filter(key => found.run && isThere(key, found.run));
    now = found;
    bar(view, found.model, found.all);
    found.ways = ways(view, found);
    await drawStop(view, found);
    document.title = `${VIEWS[view].name}: ${found.model.name} - Translucid studio`;
    mounted?.remove();
    highlight.forget(stage);
    highlight.state.hover = []; // what was under the pointer is gone
    readoutDefault(null);
    const box = h('div');
    stage.className = `view-${view}`;
    stage.replaceChildren(h('h2.unseen', VIEWS[view].name), box);
    stage.inert = false;
    await sentence(found.run, found.model);
    const read = late;
    late = waiting(busy(view, found));
    read();
    const blank = setTimeout(() => box.append(h('p.quiet.computing', { role: 'status' }, busy(view, found))), 200);
    signal.addEventListener('abort', () => clearTimeout(blank));
    if (signal.aborted) return;
    mounted = mount(VIEWS[view], stage, found);
    signal.addEventListener('abort', mounted.stop);
    await mounted.drawn.finally(() => clearTimeout(blank));
    late();
    if (signal.aborted) return; // it waited for something other than an answer
    box.remove();
    highlight.paint();
    highlight.scrollToMeant();
    back();
    shown = found;
    const failed = trouble;
    trouble = null;
    if (failed)
      warned(failed.message, h('button.edit', { onclick: () => (location.hash = failed.wanted) }, 'Try again'));
    else {
      const lessons = arrived && params.get('lesson') ? await api.lessons() : [];
      const gone = named && absent(wanted, found.model, found.all);
      const odd = arrived ? invalidKeys(wanted, { ...found, lessons }, gone, VIEWS) : [];
      stood = location.hash;
      const note = noteOnText();
      if (note) warned(note);
      else if (odd.length) warned(`Ignored in this link: ${odd.join('; ')}.`);
    }
    root.dataset.ready = failed ? 'error' : `${view} ${found.run?.run ?? ''}`;
  } catch (error) {
    late();
    if (!signal.aborted) return told(error);
  }
}
// A click whose request failed: the page stays as it is.
addEventListener('unhandledrejection', event => {
  if (!(event.reason instanceof api.Refused)) return;
  event.preventDefault();
  warned(event.reason.message);
});
highlight.onChange(what => {
  if (what !== 'pin') return;
  replaceAddress({ pin: highlight.state.pins.join(',') || null });
  const button = document.querySelector('.unpin');
  if (button) button.hidden = !highlight.state.pins.length;
});
onTraining(m => {
  if (!now?.model.unopened || now.model.m !== m) return;
  const sizesShown = byId('bar').querySelector('.sizes');
  sizesShown?.replaceChildren(inShort(now.model));
  sizesShown?.setAttribute('title', inFull(now.model));
  sentence(null, now.model);
});
api.onRequest(() => waiting('Computing …'));
addEventListener('hashchange', draw);
fitScale();
theme.onSystemTheme(draw);
addEventListener('keydown', onSpace, true);
let size = '';
addEventListener('resize', () => {
  const measured = `${root.clientWidth}x${root.clientHeight}`;
  if (measured !== size) {
    size = measured;
    fitScale();
    draw();
  }
});
const DIGITS = [...'1234567890']; // the key of each view
addEventListener('keydown', event => {
  if (!isPlainKey(event)) return;
  /** @type {Record<string, () => unknown>} */
  const acts = {
    '/': () => {
      event.preventDefault();
      document.querySelector('.sentence .rewrite')?.click();
      /** @type {HTMLInputElement | null} */ (document.querySelector('.sentence input'))?.select();
    },
    d: lightOrDark,
    p: projector,
    l: copyLink,
    c: copyValue,
    C: copyPython,
    t: showTables,
    '?': () => document.querySelector('.tools .keys')?.click(),
    i: inspector,
    Escape: () => highlight.state.pins.length && highlight.unpin(),
  };
  const view = Object.keys(VIEWS)[DIGITS.indexOf(event.key)];
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  const why = view && now && absent(view, now.model, now.all);
  if (why) notice(`${VIEWS[view].name}: ${why}`);
  else if (view) go(view, VIEWS[view].linkTo);
  else if (step && !event.defaultPrevented && VIEWS[address().view]?.walksTokens) walkTokens(step);
  else if (Object.hasOwn(KEYS, event.key)) keep(KEYS[event.key]);
  else if (Object.hasOwn(acts, event.key)) acts[event.key]();
});
draw();
