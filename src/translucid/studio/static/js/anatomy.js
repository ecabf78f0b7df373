// From the points of a run to the parts of a model: bands (encoder, decoder), layers, and panes in the order of the
// data, derived from the names and axes of the points.
import { capital } from './dom.js';

const ROWS = new Set(['length', 'queries', 'keys']);
const CELLS = new Set(['lstm', 'gru', 'rnn']);
/** @type {Record<string, string>} */
const NAMES = {
  embedding: 'embedding',
  characters: 'characters',
  positions: 'positions',
  self_attention: 'self-attention',
  cross_attention: 'cross-attention',
  alignment: 'attention',
  feedforward: 'feed-forward',
  final_norm: 'final norm',
  norm: 'norm',
  recurrent: 'states',
  bridge: 'start',
  standardise: 'standardised',
  head: 'head',
  ngrams: 'n-gram features',
  linear: 'features of words',
  dense: 'dense layer',
  lstm: 'LSTM cell',
  gru: 'GRU cell',
  rnn: 'RNN cell',
};
/** @type {Record<string, string>} */
const SHORT = {
  embedding: 'emb.',
  positions: 'pos.',
  'final norm': 'norm',
  'feed-forward': 'f.-f.',
  states: 'st.',
  characters: 'char.',
};
/** @type {Record<string, string>} */
const LETTERS = {
  forget: 'f',
  input: 'i',
  candidate: 'g',
  output: 'o',
  cell: 'c',
  hidden: 'h',
  reset: 'r',
  update: 'z',
};
// The points that can represent a part, best first.
/** @type {Record<string, string[]>} */
const SPEAKS = {
  embedding: ['scaled', 'lookup'],
  characters: ['sum', 'output'],
  positions: ['output', 'encoding', 'angles'],
  attention: ['pattern'],
  alignment: ['pattern'],
  feedforward: ['activated', 'hidden'],
  norm: ['output'],
  residual: ['sum'],
  recurrent: ['output'],
  dense: ['sum', 'activation'],
  standardise: ['output'],
  bridge: ['hidden'],
};
const STREAM = new Set(['embedding', 'characters', 'residual', 'recurrent', 'norm']);
const ENDS = [
  'ensemble.logits',
  'ensemble.class_logits',
  'ngrams.sum',
  'head.logits',
  'head.class_logits',
  'linear.logits',
  'linear.class_logits',
  'output.dense.activation',
];

/** @type {Record<string, string>} */
const ANSWERS = {
  target_tokens: 'next token',
  next_tokens: 'next token',
  masked_tokens: 'token',
  tags: 'tag',
  label: 'class',
};

// A point that the run has.
/** @type {(points: Points, at: string) => Point} */
export function pointAt(points, at) {
  const found = points.get(at);
  if (!found) throw new Error(`this run has no point ${at}`);
  return found;
}
/** @type {(family: string) => boolean} */
export const isRecurrent = family => ['rnn', 'rnn_relu', 'lstm', 'gru'].includes(family);
/** @type {(at: string) => string} */
export const scopeOf = at => at.slice(0, at.lastIndexOf('.'));
/** @type {(at: string) => string} */
export const pointOf = at => lastOf(at, '.');
/** @type {(text: string, sign: string) => string} */
const lastOf = (text, sign) => text.slice(text.lastIndexOf(sign) + 1);
/** @type {(scope: string) => string} */
export const partOf = scope => lastOf(lastOf(scope, '.'), '_');
/** @type {(at: string) => string} */
export const entryOf = at => `${partOf(scopeOf(at))}.${pointOf(at)}`;
// The catalogue's entry for a point, with this model's formula.
/** @type {(catalogue: Catalogue, points: Map<string, Point>, at: string) => Entry} */
export const entryAt = (catalogue, points, at) => {
  const entry = catalogue[entryOf(at)];
  const formula = points.get(at)?.formula;
  return formula ? { ...entry, formula } : entry;
};
/** @type {(scope: string) => number | null} */
export const layerOf = scope => {
  const found = scope.match(/layers\.(\d+)/);
  return found ? Number(found[1]) : null;
};
/** @type {(point: Point) => boolean} */
export const byRows = point => ROWS.has(point.axes[0]) && point.shape.length <= 2;
/** @type {(pane: { at: string }) => boolean} */
export const ofHead = pane => /(^|\.)(head|ngrams|linear)\.\w+$/.test(pane.at);
/** @type {(scope: string) => boolean} */
const crosses = scope => /(^|\.)(cross_attention|alignment)$/.test(scope);
// The kind of an attention pattern: cross, encoder or decoder.
/** @type {(at: string) => 'cross' | 'encoder' | 'decoder'} */
export const attentionKind = at =>
  crosses(scopeOf(at)) ? 'cross' : at.split('.').includes('encoder') ? 'encoder' : 'decoder';

/** @type {(scope: string) => { place: string; name: string }} */
export function title(scope) {
  // "Decoder layer 2", "Cross-attention"
  const words = scope.split('.').filter(word => !/^(members|layers|\d+|recurrent|forward|backward)$/.test(word));
  const side = words.find(word => word === 'encoder' || word === 'decoder');
  const layer = layerOf(scope);
  const way = scope.match(/\.(forward|backward)\./)?.[1];
  const member = scope.match(/^members\.(\d+)/);
  const last = lastOf(scope, '.');
  const before = scope.split('.').at(-2) ?? '';
  const residual = last.endsWith('_residual')
    ? last.slice(0, -9)
    : before.endsWith('_residual')
      ? before.slice(0, -9)
      : null;
  const name = residual
    ? `${last === 'norm' ? 'norm at' : 'sum after'} ${NAMES[residual] ?? residual}`
    : (NAMES[last] ?? last.replaceAll('_', ' '));
  const place =
    [member && `member ${member[1]}`, side, layer !== null && `layer ${layer}`, way].filter(Boolean).join(' ') ||
    (last === 'dense' ? before : 'the whole model');
  return { place: capital(place), name: capital(name) };
}

/** @type {(run: Run, model: Model, also?: { opened?: Opened; member?: number }) => Anatomy} */
export function anatomy(run, model, { opened = {}, member = 0 } = {}) {
  const prefix = run.points.some(point => point.at.startsWith('members.')) ? `members.${member}.` : '';
  const members = new Set(run.points.map(point => point.at.match(/^members\.(\d+)\./)?.[1]).filter(Boolean)).size;
  /** @type {LocalPoint[]} */
  const own = run.points
    .filter(point => !point.at.startsWith('members.') || point.at.startsWith(prefix))
    .map(point => ({ ...point, local: point.at.startsWith(prefix) ? point.at.slice(prefix.length) : point.at }));
  const { source, target, follows, features } = run.tokens;
  const ids = run.ids;
  const sides = ['encoder', 'decoder'].filter(side => own.some(point => point.local.startsWith(`${side}.`)));
  if (own.some(point => point.local.startsWith('linear.'))) sides.push('encoder'); // reads the text, without layers
  const endPoint = ENDS.map(
    name => run.points.find(point => point.at === name) ?? own.find(point => point.local === name),
  ).find(Boolean);
  const end = endPoint && {
    at: endPoint.at,
    point: endPoint,
    kind: ANSWERS[model.outputs ?? ''] ?? 'number',
  };
  if (!sides.length) return { bands: [columns(own, features, run, model.standardised)], end, members };
  /** @type {Band[]} */
  const bands = sides.map(side => {
    const last = side === sides.at(-1);
    const mine = own.filter(
      point =>
        point.local.startsWith(`${side}.`) ||
        (last && /^(head|ngrams|linear)\./.test(point.local) && point.at !== end?.at),
    );
    const decodes = side === 'decoder';
    const words = decodes ? target : source;
    const made = panes(mine, side, opened[side]);
    return {
      side,
      key: decodes ? 'tgt' : 'src',
      words,
      follows: decodes ? follows : [],
      ids: (decodes ? ids.target : ids.source) ?? ids.ids ?? [],
      unknown: new Set(decodes ? run.unknown.target : run.unknown.source),
      ...BAND_PLACE,
      ...made,
    };
  });
  if (bands.length === 2) {
    // what cross-attention reads
    const memory = bands[0].panes.findLast(pane => pane.kind === 'tile');
    if (memory) {
      memory.label = 'encoder output';
      memory.short = '';
    }
  }
  return { bands, end, members };
}

// The place of a pane, and of a band, until parts/layout.js has set it.
const PANE_PLACE = { x: 0, w: 0, top: 0, tall: 0 };
const BAND_PLACE = {
  y: 0,
  y0: 0,
  first: 0,
  rows: 0,
  pitch: 0,
  rowH: 0,
  long: false,
  per: 0,
  gap: 0,
  tall: 0,
  blocks: 0,
  each: 1,
  stop: 0,
  right: 0,
};

// One layer is open; the others are one plate each. In a deep model, only the layers near the open one have their own
// plate; the others share one per group.
const DEEP = 7; // maximum layers without groups
/** @type {(points: LocalPoint[], side: string, wanted?: number) => Pick<Band, 'panes' | 'layers' | 'open'>} */
function panes(points, side, wanted) {
  const layers = [...new Set(points.map(point => layerOf(point.local)).filter(layer => layer !== null))];
  const open = wanted !== undefined && layers.includes(wanted) ? wanted : (layers.at(-1) ?? null);
  const each = layers.length > 36 ? 12 : 6;
  /** @type {(layer: number) => number} */
  const groupOf = layer => Math.floor(layer / each);
  /** @type {(layer: number) => number[]} */
  const together = layer =>
    layers.length > DEEP && groupOf(layer) !== groupOf(open ?? 0)
      ? layers.filter(other => groupOf(other) === groupOf(layer))
      : [layer];
  /** @type {Map<string, LocalPoint[]>} */
  const scopes = new Map();
  for (const point of points) {
    const scope = scopeOf(point.at);
    scopes.set(scope, [...(scopes.get(scope) ?? []), point]);
  }
  /** @type {Pane[]} */
  const found = [];
  /** @type {Map<number, Pane>} */
  const plates = new Map();
  for (const [scope, all] of scopes) {
    const local = scopeOf(all[0].local);
    const layer = layerOf(local);
    if (layer !== null && layer !== open) {
      const inside = together(layer);
      const [first, last] = [inside[0], inside[inside.length - 1]];
      let plate = plates.get(first);
      if (!plate) {
        const short = first === last ? String(first) : `${first}–${last}`;
        plate = {
          kind: 'plate',
          among: layers.length <= DEEP ? undefined : inside.length > 1 ? 'group' : 'near',
          side,
          layer: open !== null && first > open ? first : last, // the one that it opens
          scope,
          at: '',
          points: [],
          label: `${first === last ? 'layer' : 'layers'} ${short}`,
          short,
          stream: true,
          ...PANE_PLACE,
        };
        plates.set(first, plate);
        found.push(plate);
      }
      plate.points.push(...all);
    } else found.push(...ofScope(scope, local, all, side, layer));
  }
  for (const plate of plates.values())
    plate.at = (plate.points.findLast(byRows) ?? plate.points[plate.points.length - 1]).at;
  /** @type {(pane: Pane) => number} */
  const last = pane => Number(pane.kind === 'vector' && ofHead(pane)); // a single vector comes behind
  return { panes: found.filter(pane => pane.at).sort((a, b) => last(a) - last(b)), layers, open };
}
/** @type {(scope: string, local: string, all: LocalPoint[], side: string, layer: number | null) => Pane[]} */
function ofScope(scope, local, all, side, layer) {
  const part = partOf(local);
  const last = lastOf(local, '.');
  const way = local.match(/\.(forward|backward)\./)?.[1];
  const group = layer === null ? null : `layer ${layer}${way ? `, ${way}` : ''}`;
  const stream = STREAM.has(part) && last !== 'norm';
  const base = { side, layer, scope, points: all, group, stream, ...PANE_PLACE };
  if (CELLS.has(part))
    return all
      .filter(point => !/_sum$|preactivation$/.test(point.at))
      .map(point => {
        const name = pointOf(point.at).replace(/_gate$/, '');
        return {
          ...base,
          kind: 'tile',
          cell: true,
          at: point.at,
          label: name,
          short: LETTERS[name] ?? name[0],
          wire: ['cell', 'hidden'].includes(name) ? (way === 'backward' ? -1 : 1) : 0,
          stream: name === 'hidden',
        };
      });
  if (last === 'masks') return []; // shown in the inspector of the attention that uses them
  if (['head', 'ngrams', 'linear'].includes(last))
    return all
      .filter(point => byRows(point) || point.shape.length === 1)
      .map(point => ({
        ...base,
        kind: byRows(point) ? (point.shape.length === 1 ? 'thin' : 'tile') : 'vector',
        at: point.at,
        label: pointOf(point.at).replaceAll('_', ' '),
        short: '',
      }));
  const at =
    (SPEAKS[part] ?? []).map(name => all.find(point => pointOf(point.at) === name)).find(Boolean) ??
    all.findLast(byRows) ??
    all[all.length - 1];
  const label = NAMES[last] ?? last.replaceAll('_', ' ');
  if (pointOf(at.at) === 'pattern')
    return [
      {
        ...base,
        kind: crosses(local) ? 'cross' : 'self',
        at: at.at,
        label,
        short: label.replace('-attention', ''),
        result: all.find(point => pointOf(point.at) === 'output'),
      },
    ];
  if (!byRows(at)) return at.shape.length === 1 ? [{ ...base, kind: 'vector', at: at.at, label, short: '' }] : [];
  if (last === 'positions' && pointOf(at.at) === 'angles') return []; // rotary: queries and keys are rotated
  const thin = part === 'residual' || (part === 'norm' && layer !== null);
  return [
    {
      ...base,
      kind: thin ? 'thin' : 'tile',
      at: at.at,
      label: part === 'residual' ? '+' : thin ? '' : label,
      short: thin ? '' : (SHORT[label] ?? ''),
      wide: part === 'feedforward',
    },
  ];
}
// A model that reads numbers: each layer is a column.
/** @type {(points: LocalPoint[], features: string[], run: Run, standardised?: boolean) => Band} */
function columns(points, features, run, standardised) {
  const shown = points.filter(
    point =>
      !/\.(preactivation|skip)$/.test(point.at) ||
      !points.some(other => other.at === `${scopeOf(point.at)}.activation`),
  );
  return {
    side: '',
    key: 'src',
    ...BAND_PLACE,
    words: features,
    ids: [],
    unknown: new Set(),
    follows: [],
    columns: true,
    given: run.text.split(/[\s,]+/),
    layers: [],
    open: null,
    panes: shown
      .filter(point => point.shape.length <= 1)
      .map(point => {
        const scope = scopeOf(point.at);
        const layer = layerOf(scope);
        return {
          kind: 'column',
          ...PANE_PLACE,
          side: '',
          layer,
          scope,
          at: point.at,
          points: points.filter(each => scopeOf(each.at) === scope),
          group: null,
          short: '',
          size: point.shape[0] ?? 1,
          label:
            layer !== null
              ? `layer ${layer}`
              : scope.startsWith('output')
                ? `output${standardised ? ', standardised' : ''}`
                : shown.some(other => other !== point && scopeOf(other.at) === scope)
                  ? pointOf(point.at)
                  : (NAMES[scope] ?? scope),
        };
      }),
  };
}
