// What the server sends (studio/*.py) and what modules pass to one another. Every module sees these names without an
// import; `make page` checks the modules against them.

// ---- models and runs: page_model.py, text_runs.py
interface Model {
  m: string; // its key in addresses
  name: string;
  task: string;
  family: string; // transformer, lstm, gru, rnn, mlp, linear, ...
  parameters: number;
  config: Config;
  outputs?: string; // next_tokens, target_tokens, masked_tokens, tags, label, values
  generates?: boolean;
  tuned?: boolean; // fine-tuned from another model
  examples: string[];
  standardised?: boolean;
  switches: Switch[];
  shape?: 'encoder-decoder' | 'encoder-only' | 'decoder-only';
  plane?: { kind: 'perceptron' | 'mlp'; problem: string };
  edges?: Record<string, { name: string; rows: number[][] }>;
  mask?: string;
  labels?: string[];
  trains?: boolean; // it has a training run to show
  unopened?: boolean; // a run that has not saved a model yet
}
interface Config {
  shape?: string;
  kind?: string;
  layers?: number | null;
  decoder_layers?: number | null;
  heads?: number | null;
  d_model?: number | null;
  hidden?: number | null;
  inputs?: number | null;
  [key: string]: any; // as the model's own configuration has it
}
interface Switch {
  key: string;
  name: string;
  kind: string;
  part: string;
  layer: number | null;
  head: number | null;
  points: string[];
  sets: (number | null)[];
}
interface Run {
  run: string; // its key
  m: string;
  text: string;
  target: string | null;
  off: string[];
  ms: number;
  by_layer: boolean;
  answer: any; // a text, tokens, numbers, or probabilities of labels
  loss: number | null;
  output: string;
  tokens: Tokens;
  unknown: { source: number[]; target: number[] };
  ids: Record<string, number[]>;
  points: Point[];
  adapters: Adapter[];
}
interface Tokens {
  source: string[];
  target: string[];
  follows: string[];
  features: string[];
}
interface Point {
  at: string; // its name in the trace
  shape: number[];
  axes: string[];
  scale: 'signed' | 'positive' | 'unit';
  formula?: string; // MathML, if it differs from the catalogue's
}
interface Adapter {
  layer: string;
  added: number;
  frozen: number;
  ratio: number;
}
interface Entry {
  symbol: string;
  meaning: string;
  axes: string[];
  formula: string;
}
type Catalogue = Record<string, Entry>;
type Frame = import('./frames.js').Frame & Header;

// ---- answers about a run: answers.py, credit.py, terms.py
interface Step {
  n: number;
  words: string[];
  ids: number[];
  probabilities: number[];
  logits: number[];
  log_sum: number;
  rest: number;
  others: number;
  weights?: number[];
}
interface Steps {
  at: string;
  steps: Step[];
  looks?: Looks;
}
// What the mean head attends to; weights: of one step.
interface Looks {
  at: string[];
  side: 'src' | 'tgt';
  words: string[];
  weights?: number[];
}
type OneStep = Step & Pick<Steps, 'at' | 'looks'>;
interface StepOptions {
  k?: number;
  positions?: string; // 3:5
  tokens?: number[]; // along this text instead of the run's own
}
interface Question {
  m: string;
  text: string;
  target?: string | null;
  off?: string[];
}
type Reads<T> = (answer: Response) => Promise<T>;
interface Effect {
  off: string[];
  loss: [number | null, number | null];
  changed: number;
  variation?: number[];
  gap?: number;
}
interface Ripple {
  side: string;
  depths: string[];
  words: string[];
  points: string[];
  values: (number | null)[][];
}
interface Said {
  word: string;
  probability: number | null;
}
interface Difference {
  a: string;
  b: string;
  answers: any[];
  loss: (number | null)[];
  says: [Said[], Said[]];
  variation?: number[];
  gap?: number;
  first?: string | null;
  ripple?: Ripple[];
  depths?: { at: string; depth: string; relative: number | null; cosine: number | null }[];
}
interface Contributions {
  position: number;
  output: number;
  logit: number;
  word: string;
  parts: { part: string; head: number | null; value: number }[];
  by_token: { source?: number[]; target?: number[] };
  remainder: number;
  rounding: number;
}
interface Lens {
  position: number;
  after: string[];
  words: string[];
  probabilities: number[];
  right: number[];
}
interface Saliency {
  position: number;
  word: string;
  value: number;
  unit: string;
  source: number[];
  target: number[];
  largest: number;
}
interface OpenedNumber {
  address: string;
  kind: string;
  value: number | null; // null: not finite
  text: string;
  symbol: string;
  meaning: string;
  formula: string;
  symbols: Record<string, string>;
  remainder: number | null;
  python: string;
  expression: Expression | null;
  token?: string;
  missing?: string; // why a saved file does not have its terms
  top: number;
}
interface Expression {
  value: number | null;
  text: string;
  name?: string;
  kind?: string;
  address?: string;
  token?: string;
  rest?: number;
  operation?: string;
  arguments?: Expression[];
}
interface Draw {
  taken: number;
  word: string;
  ids: number[];
  words: string[];
  before: number[];
  now: number[];
  left: number;
  vocab: number;
}
interface Draws {
  texts: { text: string; log_probability: number; finished: boolean }[];
  steps: Draw[];
}
interface TreeNode {
  number: number;
  parent: number | null;
  token: number;
  piece: string;
  label: string;
  token_log_prob: number; // the model's own
  score: number; // of the whole prefix
  fate: string;
  why: string;
  length: number;
  ranked: number | null;
  place: number | null; // rank of a returned text, from 1
  chosen: boolean; // a prefix of the best text
  group: number;
  pruned: { bar: number; places: number; ended: number; cost: number } | null;
}
interface Decoded {
  source: string;
  texts: { text: string; log_probability: number; score: number; finished: boolean; [key: string]: any }[];
  note?: string;
  tree: { search: Record<string, any>; least: number; most: number; rounds: number; nodes: TreeNode[] };
}

// ---- activation patching: patching.py
interface Measured {
  position: number;
  output: number;
  against: number | null;
  words: string[];
  clean: number;
  corrupted: number;
}
interface PatchTable {
  part: string;
  side: string;
  words: string[];
  points: string[];
  depths: string[];
}
interface Patching extends Measured {
  positions: { n: number; clean: string; corrupted: string; variation: number }[];
  choices: { id: number; word: string; clean: number; corrupted: number }[];
  tables: PatchTable[];
}
interface PatchRow extends Measured {
  at: string;
  recovered: number[];
}
interface PatchCell extends Measured {
  at: string;
  token: number;
  value: number;
  recovered: number;
  says: Said[];
  text: string | null;
  python: string;
}

// ---- lessons: lesson_answers.py
interface Piece {
  text: string;
  means?: string;
  word?: string;
  value?: number | null;
  at: string;
  index: (number | string)[];
  digits: number;
  meaning?: string;
}
interface LessonStep {
  title: string;
  say: Piece[];
  do: Piece[];
  address: string;
  pin: string[];
  light: string[];
  task?: boolean;
  lacks?: string;
  in_sentence?: boolean;
}
interface Lesson {
  id: string;
  name: string;
  teaches: string;
  model: string | null;
  text: string | null;
  steps: LessonStep[];
  why?: string;
}
interface ListedLesson {
  id: string;
  name: string;
  teaches: string;
  steps: number;
  start?: boolean;
  m?: string;
  model?: string;
  text?: string;
  tasks?: number;
}
interface Verdict {
  done: boolean;
  say: Piece[];
}

// ---- typing, surveys, the plane: input_words.py, surveys.py, plane.py
interface InputHelp {
  begun: string;
  completions: string[];
  unknown: { from: number; to: number; text: string; replacements: string[] }[];
}
interface Survey {
  done: number;
  of: number;
}
interface Hardest extends Survey {
  from?: string;
  texts?: { text: string; target: string | null; loss: number; answer: string | null }[];
}
interface Extreme {
  value: number;
  text: string;
  tokens: string[];
  place: number;
}
interface UnitSurvey extends Survey {
  at: string;
  unit: number;
  units: number;
  from: string;
  largest: Extreme[];
  smallest: Extreme[];
}
interface LabelSurvey extends Survey {
  at?: string;
  control?: number;
  tokens?: number;
  labels?: any[];
  of_unit?: { feature: string; auc: number }[][];
}
interface Plane {
  kind: 'perceptron' | 'mlp';
  problem: string;
  step: number;
  last: number;
  seed: number;
  weights: Record<string, any>;
  loss: number;
  mistakes: number;
  points: [number, number, number, number][]; // x1, x2, target, output
  sample: number | null;
  wrong: boolean | null;
  ticks: number[];
  grid: number[][];
  hidden: number[][][];
}

// ---- practice: practice_answers.py
type Written = (string | { math: string })[]; // text with formulas as MathML
interface Exercise {
  topic: string;
  seed: number;
  title: Written;
  task: Written;
  given: { formula?: string; title?: Written; table?: Written[][] }[];
  steps: { name: string; ask: Written; entry: string; formula: string }[];
}
interface AnswerVerdict {
  right: boolean;
  message: Written;
  step: number | null; // from 1
}
interface WorkedSolution {
  steps: {
    heading: Written;
    title: Written;
    formula: string;
    table: [Written[], ...Written[][]] | null;
    note: Written;
  }[];
  answers: Record<string, string>; // by step
}

// ---- training: run_follower.py
type CurvePoint = number[]; // step, loss, least, most, learning rate
type Evaluation = any[]; // step, score, best so far?
interface About {
  name: string;
  task: string;
  steps: number;
  folder: string;
  metric: string;
  recorded: boolean;
  higher: boolean;
  layers: string[];
  tied: string;
  probe: string;
  every: number;
}
interface News {
  about?: About;
  points: (number | null)[][];
  norms: (number | null)[][];
  valid: (number | null)[][];
  probes: [number, string | null][];
  bad: number[];
  state: string;
  why?: string;
}
interface Socket extends EventTarget {
  binaryType?: string;
  close(): void;
}
interface TrainingData {
  about: About | null;
  points: CurvePoint[];
  norms: number[][]; // step, then a norm for each layer
  valid: number[][];
  probes: [number, string | null][];
  bad: number[];
  state: string;
  why: string;
  lost?: boolean; // the server does not respond
}

// ---- within the page
interface Box {
  x: number;
  y: number;
  width: number;
  height: number;
}
interface Scale {
  kind: string; // seq: from 0, div: around 0
  max: number;
}
// What the status bar shows.
interface Reading {
  at: Content;
  path?: string;
  python?: string | null; // null: no Python code for it
  value?: number;
  scale?: Scale | null;
  ends?: string[];
  place?: number;
  digits?: number;
}
type Content = Node | string | number | boolean | null | undefined | Content[];
interface Attributes {
  [name: string]: unknown;
  class?: string | null | false;
  style?: string | null | false;
  width?: number | string;
  height?: number | string;
  onclick?: (event: MouseEvent & { target: HTMLElement }) => unknown;
  onchange?: (event: Event & { target: HTMLInputElement }) => unknown;
  oninput?: (event: Event & { target: HTMLInputElement }) => unknown;
  onsubmit?: (event: SubmitEvent) => unknown;
  onkeydown?: (event: KeyboardEvent) => unknown;
  onpointermove?: (event: PointerEvent) => unknown;
  onpointerleave?: (event: PointerEvent) => unknown;
  onpointerdown?: (event: PointerEvent) => unknown;
  onmouseenter?: (event: MouseEvent) => unknown;
  onmouseleave?: (event: MouseEvent) => unknown;
}
type Given = (Attributes | Content)[]; // attributes come first
// What a view draws: its model, and the run of its text (null: a run without a saved model).
interface Found {
  all: Model[];
  model: Model;
  run: Run | null;
  catalogue: Catalogue;
  params: URLSearchParams;
}
interface Shown extends Found {
  run: Run;
  signal: AbortSignal; // aborted when the view is left
}
type Checked = Found & { lessons: ListedLesson[] };
type Check = (value: string, found: Checked & { view: string }) => string;
interface View {
  name: string;
  draw(el: HTMLElement, shown: Shown): Promise<void>;
  lacks?(model: Model, all: Model[]): string | false | null | undefined;
  busy?(found: Found): string | undefined;
  about?: { shows: string; read: string; terms: string[] }; // for Help and the first page
  keys?: string[][]; // [key, what it does]
  keysTitle?: string;
  walksTokens?: boolean;
  linkParts?: Record<string, Check>;
  linkTo?: Changes;
  withoutModel?: boolean;
}
// A view on the page: mount.js
interface Mounted {
  drawn: Promise<void>;
  stop(): void;
  remove(): void;
}
type Changes = Record<string, string | number | boolean | null | undefined>;

// A picture's numbers as a table: the first cell of a row is its name.
type Name = string | string[];
type TableCell = Name | number | null | undefined;
interface Table {
  corner?: string;
  columns: Name[];
  rows: TableCell[][];
  note?: string;
}
// Makers of elements: h('p.quiet', { title }, 'text').
type MakeHtml = <K extends keyof HTMLElementTagNameMap>(
  named: K | `${K}.${string}`,
  ...given: Given
) => HTMLElementTagNameMap[K];
type MakeSvg = <K extends keyof SVGElementTagNameMap>(
  named: K | `${K}.${string}`,
  ...given: Given
) => SVGElementTagNameMap[K];
interface Font {
  family?: 'mono' | 'names' | 'serif';
  weight?: number;
  most?: number; // the longest piece in characters
}
type Numbers = number[] | Float32Array;
type Place = { x: number; y: number; width: number; pitch: number };
type TilePlace = Place & { height: number; scale: Scale; alpha?: number };
// The numbers in a cell of a tile; column and value: of the largest magnitude.
interface Under {
  row: number;
  column: number;
  value: number;
  of: number;
  from: number;
  to: number;
}
interface FigureLook {
  size: number;
  ground: string;
  fill: string;
  weight?: number;
  alpha?: number;
  room?: number;
}
type Figure = FigureLook & { text: string; x: number; y: number; family: string };
// An element that is highlighted while one of its keys is.
interface Mark {
  el: Element;
  keys: string[];
}
// The cell of a table that keys select; exact: by a row and a column.
interface Cell {
  row: number | null;
  col: number | null;
  exact: boolean;
}
// How arrow keys and the pointer move in a picture; P: a place in it.
interface Walk<P> {
  name: string;
  kind?: string;
  hint?: string;
  start(): P | null;
  step(place: P, down: number, across: number): P | null | undefined;
  look(place: P): void;
  leave(): void;
  take?(place: P): unknown;
  area?: Partial<Box>;
  placeAt?(x: number, y: number): P | null;
  toEnds?: boolean;
}
type Side = 'source' | 'target';
type Choice = any[] | string | number; // [key, text, attributes]
type MakeChoice = (
  name: string,
  options: Choice[],
  chosen: any,
  choose: (key: any) => unknown,
  also?: { kind?: string; label?: Content },
) => HTMLElement;
type MakeSelect = (
  name: string,
  options: any[][], // [value, text]
  chosen: any,
  choose: (value: string) => unknown,
) => HTMLSelectElement;
type MakeSlider = (
  name: string,
  range: number[], // least, most, step
  value: number,
  more: Attributes & { text?: string },
) => HTMLInputElement;
// A tensor as the server sends it: frames.js, tensors.py
interface Header {
  at: string;
  axes: string[];
  shape: number[];
  whole: number[]; // the shape before pooling
  index: (number | [number, number] | null)[];
  dtype: 'u8' | 'f16' | 'f32';
  scale: 'signed' | 'positive' | 'unit';
  lo: number;
  hi: number;
  from: number; // its bytes
  end: number;
  // of a training run's tables
  step: number;
  rows: string[];
  columns: string[];
  note: string;
  // of its history
  steps: number[];
  valid: (number | null)[][];
  probes: [number, string | null][];
  bad: number[];
  state: string;
  why?: string;
}
type Raw = Uint8Array | Uint16Array | Float32Array;
type Bytes = Uint8Array<ArrayBuffer>;
// A part of a tensor; -Infinity: no value.
interface Cut {
  shape: number[];
  axes: string[];
  values: Float32Array;
}
type Encode = (
  frame: Pick<Frame, 'at' | 'scale'>,
  cut: Cut,
  whole: number[],
  form: string,
  index: Header['index'],
) => Bytes;
type Asked = RequestInit & { ownProgress?: boolean }; // ownProgress: its view shows it and stops it
type TensorOptions = { index?: string | number; pool?: string | number; as?: string };

// ---- the panes of Flow: anatomy.js, parts/layout.js
interface Pane {
  kind: string;
  side: string;
  layer: number | null;
  scope: string;
  at: string;
  points: (Point & { local?: string })[];
  label: string;
  short: string;
  say?: string; // for screen readers
  group?: string | null;
  stream?: boolean;
  among?: 'group' | 'near';
  cell?: boolean;
  wide?: boolean;
  wire?: number;
  size?: number;
  result?: Point;
  // its place
  x?: any;
  w?: any;
  top?: any;
  tall?: any;
}
type Points = Map<string, Point>;
type LocalPoint = Point & { local: string }; // its name within its member of an ensemble
type Opened = Record<string, number | undefined>; // the open layer of each side
interface Anatomy {
  bands: Band[];
  end?: { at: string; point: Point; kind: string };
  members?: number;
}
// What a pane draws: rows of numbers; step: numbers per column; far: rows of a long text, pooled.
type Tiles = Map<string, { rows: number[][]; scale: Scale; step: number; far?: number[][] }>;
interface Averaged {
  rows: Numbers[];
  stepRows: number;
  keys: [from: number, to: number][]; // the words of each column
}
type Weights = Averaged & { first: number; far: Averaged | null };
type PressPlace = { x: number; width: number; scale: Scale; alpha?: number };
interface Drawing {
  back: SVGElement;
  front: SVGElement;
  u: number;
  x0: number;
  xWord: number;
}
type Line = [weight: number, row: number, column: number];
type Lines = { lines: Line[]; left: number };
type Curve = (row: number, column: number) => string; // the path of a line
type Along = (i: number) => number;
type LineLook = { u: number; pitch: number; query: (i: number) => string; key: (j: number) => string };
interface ExactRow {
  word: string;
  key: string;
  weights: Numbers;
  cols: string[];
  colKeys: string[];
}
interface RibbonBands {
  pitch: number;
  one: number;
  got: number[];
  tops: number[];
  mids: number[];
  bands: { i: number; j: number; from: number; to: number; thick: number }[];
  floor: number;
}
interface RibbonOptions {
  rows: string[];
  cols: string[];
  rowKeys: string[];
  colKeys: string[];
  width: number;
  height: number;
  exactly?: (row: number) => Promise<ExactRow>;
}
interface Band {
  side: string;
  key: string; // src or tgt
  words: string[];
  follows: string[];
  ids: number[];
  unknown: Set<number>;
  panes: Pane[];
  layers: number[];
  open: number | null;
  columns?: boolean; // a model that reads numbers: a column for each layer
  given?: string[];
  // its place: parts/layout.js
  y?: any;
  y0?: any; // of its first row
  first?: any; // its first word
  rows?: any;
  pitch?: any; // height of a row
  rowH?: any; // height of the marks in a row
  long?: boolean;
  per?: any; // height of a word outside the window
  gap?: any;
  tall?: any;
  blocks?: any;
  each?: any; // words per block
  stop?: any;
}

// ---- what a selector of this page finds, and where an event happens, is an element of HTML unless said otherwise
interface ParentNode {
  querySelector<K extends keyof HTMLElementTagNameMap>(selectors: K): HTMLElementTagNameMap[K] | null;
  querySelector<E extends Element = HTMLElement>(selectors: string): E | null;
  querySelectorAll<K extends keyof HTMLElementTagNameMap>(selectors: K): NodeListOf<HTMLElementTagNameMap[K]>;
  querySelectorAll<E extends Element = HTMLElement>(selectors: string): NodeListOf<E>;
}
interface Element {
  paint?(): void; // of a grid of heads: parts/headgrid.js
}
interface EventTarget {
  closest?(selectors: string): HTMLElement | null;
  matches?(selectors: string): boolean;
}

// ---- defined around the modules of a bundle: page_bundle.py
declare const STYLE: string;
declare const MARKUP: string;
declare const FONT: string;
declare function graph(place: any): (name: string) => any;
