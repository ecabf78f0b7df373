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
  // of each neuron over two inputs
  maps?: null | { low: number[]; high: number[]; grids: Record<string, number[][][]> };
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
  // by kind: answer.js; a number that is null is not finite
  answer: string | string[] | (number | null)[] | Record<string, number> | null;
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
// The thumbnails of all heads: by layer and head, the largest weight, and the mean entropy in bits.
type HeadsFrame = Frame & Record<'most' | 'entropy', number[][]>;

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
  answers: Run['answer'][];
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
// How a number is computed: a number with its address ('' for a constant), an operation, or the rest of a long sum.
type Expression = NumberTerm | Operation | RestOfSum;
interface NumberTerm {
  name: string;
  kind: string;
  address: string;
  value: number | null; // null: not finite
  text: string;
  token?: string;
}
interface Operation {
  operation: string;
  arguments: Expression[];
  value: number | null;
  text: string;
}
interface RestOfSum {
  rest: number; // how many
  value: number | null;
  text: string;
}
// A step of the walk from a number to its terms; left: the address that was opened from it.
type WalkStep = (OpenedNumber | { address: string; refused: string }) & { left?: string };
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
  texts: { text: string; pieces: string[]; log_probability: number; score: number; finished: boolean }[];
  note?: string;
  tree: { search: Record<string, number | null>; least: number; most: number; rounds: number; nodes: TreeNode[] };
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
  typed?: boolean;
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
// A stop of a lesson on the page.
interface OpenStop {
  id: string;
  place: number; // counted from 1
  lesson: Lesson;
  step: LessonStep;
  view: string;
  run: Run;
  instead: Content; // for a stop that does not apply
  after: ListedLesson | null; // the next station
}
interface Verdict {
  done: boolean;
  say: Piece[];
}

// ---- typing, surveys, the plane: input_words.py, surveys.py, plane.py
// The places of each text that a model reads as <unk>: from, to in UTF-16 units.
type UnknownPlaces = (texts: string[]) => Promise<number[][][]>;
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
  from: string;
  texts: { text: string; target: string | null; loss: number; answer: string | null }[];
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
  labels?: { unit: number; feature: string; auc: number }[];
  of_unit?: { feature: string; auc: number }[][];
}
interface PerceptronWeights {
  weight: number[];
  bias: number;
}
interface MlpWeights {
  'layers.0.linear.weight': number[][];
  'layers.0.linear.bias': number[];
  'output.linear.weight': number[][];
  'output.linear.bias': number[];
}
type PerceptronStep = PlaneStep & { kind: 'perceptron'; weights: PerceptronWeights };
type MlpStep = PlaneStep & { kind: 'mlp'; weights: MlpWeights };
type Plane = PerceptronStep | MlpStep;
type Query = Record<string, string | number | boolean | null | undefined | (string | number)[]>;
interface PlaneStep {
  kind: string;
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
type CurvePoint = number[]; // step, value, least, most, learning rate
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
  probes: [number, ProbeAnswer][];
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
  probes: [number, ProbeAnswer][];
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
  ways: Way[]; // the other views of this model
}
// A model that can be run.
type OpenedModel = Model & { outputs: string };
interface Shown extends Found {
  model: OpenedModel;
  run: Run;
  signal: AbortSignal; // aborted when the view is left
}
interface Way {
  name: string;
  shows: string;
  href: string;
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
type Names = Name[] | null | undefined;
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
type Figure = Required<FigureLook> & { text: string; x: number; y: number; family: string };
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
type Key = string | number | boolean | null;
type Choice<K> = { key: K; text: Content; more?: Attributes };
type MakeChoice = <K extends Key>(
  name: string,
  options: Choice<K>[],
  chosen: K,
  choose: (key: K) => unknown,
  also?: { kind?: string; label?: Content },
) => HTMLElement;
type MakeSelect = (
  name: string,
  options: Choice<Key>[],
  chosen: Key,
  choose: (key: string) => unknown,
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
  probes: [number, ProbeAnswer][];
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
// A tensor before it is cut.
type WholeTensor = Pick<Frame, 'at' | 'shape' | 'axes' | 'raw' | 'scale'>;
// header: what a frame says besides its shape, form and scale.
type Encode = (
  header: Record<string, unknown> & { scale: Header['scale'] },
  cut: Pick<Cut, 'shape' | 'values'>,
  form: string,
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
  // its place: parts/layout.js, parts/scene.js
  x: number;
  w: number;
  top: number;
  tall: number;
  inner?: TileRoom; // of its numbers
  out?: TileRoom & { at: string }; // of the result of an attention
  wires?: number; // where the lines of an attention end
}
// Where the numbers of a pane are; y, pitch: if they have no row per word.
interface TileRoom {
  x: number;
  width: number;
  y?: number;
  pitch?: number;
}
type Points = Map<string, Point>;
type LocalPoint = Point & { local: string }; // its name within its member of an ensemble
type Opened = Record<string, number | undefined>; // the open layer of each side
interface Anatomy {
  bands: Band[];
  end?: { at: string; point: Point; kind: string };
  members: number;
}
// What a pane draws: rows of numbers; step: numbers per column; far: rows of a long text, pooled.
type Tile = { rows: number[][]; scale: Scale; step: number; far?: number[][] };
type Tiles = Map<string, Tile>;
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
  // its place: parts/layout.js, parts/scene.js
  y: number;
  y0: number; // of its first row
  first: number; // its first word
  rows: number;
  pitch: number; // height of a row
  rowH: number; // height of the marks in a row
  long: boolean;
  per: number; // height of a word outside the window
  gap: number;
  tall: number;
  blocks: number;
  each: number; // words per block
  stop: number; // where its strands end
  right: number;
}

// ---- what pictures are given: parts/*.js
interface Bar {
  word: string;
  p: number;
  on?: boolean;
}
interface Shift {
  word: string;
  before: number;
  now: number;
}
type Size = { width: number; height: number };
type Step2D = [row: number, column: number];
type MakeTable = () => Table | Promise<Table>;
interface HeatmapOptions {
  title: string;
  values: number[][];
  rows?: Name[] | null;
  cols?: Name[] | null;
  rowKey?: ((i: number) => string) | null;
  colKey?: ((j: number) => string) | null;
  labelWidth?: number; // in units
  labelHeight?: number;
  slant?: boolean;
  cellWidth: number;
  cellHeight: number;
  gap?: number;
  scale: Scale;
  digits?: number; // of the numbers in the cells; without it, they have none
  fontSize?: number;
  wordSize?: string;
  fade?: number; // numbers below it are paler
  write?: (value: number) => string;
  ring?: () => Step2D; // the framed cell while nothing is pointed at
  hatched?: (i: number, j: number) => boolean | null | undefined; // whether the cell has no value
  table?: MakeTable | null; // null: no table
  read?: (i: number, j: number) => Reading;
  onlook?: (i: number, j: number) => void;
  onleave?: () => void;
  onpick?: (i: number, j: number) => unknown;
}
interface MapOptions extends Size {
  title: string;
  values: number[][];
  rows?: string[] | null;
  names?: boolean; // rows are names, not words
  rowKey?: ((i: number) => string) | null;
  wordOf?: (keys: string[]) => string | undefined; // the word in a row that keys select
  scale: Scale;
  picked?: Step2D | null;
  each?: number; // the numbers in each value
  read: (i: number, j: number, of?: number) => Reading;
  onpick?: (i: number, j: number) => unknown;
  table?: MakeTable;
}
// A curve, or norms by layer, over the steps of a training run.
interface ChartOptions extends Size {
  title: string;
  oncursor: (step: number | null) => void;
  onpick?: (step: number) => void;
}
interface CurveOptions extends ChartOptions {
  short?: string; // a short title
  name: string; // of the value
  path: string;
  low?: boolean; // the axis starts at 0
}
type NormsOptions = ChartOptions & { layers: string[]; note?: string };
interface Chart<Data> {
  el: HTMLElement;
  draw(data: Data): void;
  cursor(step: number | null): void;
  pick(step: number | null): void;
}
type ChartBox = { x: number; y: number; w: number; h: number };
interface StepAxis {
  shapes: SVGElement[];
  x(step: number): number;
  stepAt(x: number): number;
  cursor(step: number | null): void;
  pick(step: number | null): void;
  show(first: number, last: number): void;
}
interface CurveData {
  points: CurvePoint[];
  from: number;
  to: number;
  bad?: number[]; // steps with a number that is not finite
}
type NormsData = { columns: number[][]; from: number; to: number };
type OnHead = (layer: number, head: number | null) => unknown; // null: the mean of all
interface HeadGridOptions {
  chosen: { layer: number; head: number | null };
  means?: boolean; // a picture of the mean of each layer as well
  onpick: OnHead;
  onlook: OnHead;
  onleave: () => void;
}
interface StripRow {
  point: string;
  name: string;
  letter: string;
  gate: boolean;
  values: number[];
  scale: Scale;
}
interface StripGroup {
  title: string;
  note?: string;
  chosen: boolean;
  rows: StripRow[];
}
type StripSize = Record<'u' | 'lw' | 'lh' | 'n' | 'H', number>;
interface StripOptions {
  title: string;
  words: string[];
  keys: string[];
  labelWidth: number;
  labelHeight: number;
  slant: boolean;
  pitchX: number;
  pitchY: number;
  read: (group: number, row: StripRow, i: number) => Reading;
  onpick?: (group: number) => unknown;
}
interface UnitLinesOptions {
  title: string;
  words: string[];
  keys: string[];
  labelWidth: number;
  pitchX: number;
  height: number;
  chosen: number | null; // unit
  values?: number[]; // of the chosen one
  rounded?: string; // a note
}
interface RippleOptions extends Size {
  scale: Scale;
  keyOf: (row: number) => string;
  take?: (row: number, column: number) => void;
  chosen?: Step2D | null;
  told?: (row: number, column: number) => Reading;
  title?: string;
  note?: string;
}
// Ripple, or what each token recovers; undefined: not measured yet, null: not a number.
interface RippleTable extends Omit<Ripple, 'values'> {
  values: (number | null | undefined)[][];
  from?: number; // the first word of a long text
}
interface TreeOptions extends Size {
  step: number;
  chosen: number | null; // the number of a node
  upto: number | null; // the last step while it plays
  from: number | null; // the first step in the window
  start?: string; // the first token
  keyOf: (node: TreeNode) => string[];
  forced?: (node: TreeNode) => boolean;
  onstep: (step: number) => unknown;
  onnode: (node: TreeNode) => unknown;
}
interface PairOptions {
  reads?: string[] | null; // the words above
  keyOf?: ((i: number) => string) | null;
  labels: string[];
  dashed?: boolean;
}
interface PlaneFrame {
  el: HTMLCanvasElement;
  side: number;
  edge: number; // around the plane, for the labels
  label: string;
  ticks: { axis: string; at: number; text: string }[]; // at: px from the origin
}
interface PlaneFunction {
  name: string;
  grid: number[][];
  ticks: number[][]; // of both axes
  point: number[]; // the current input
  scale: Scale;
  centre: number; // the value without colour
  level: number | null; // of the contour
}
// What the output panes of Flow show, by kind.
interface Outcome {
  words?: string[];
  shares?: number[]; // probabilities
  ids?: number[];
  numbers?: number[];
  classes?: Record<string, number>;
  pooled?: number[]; // the share of each word in the pooled vector
}
type Hit = { part: SVGGElement; pane: Pane; band: Band };
interface SceneData extends Anatomy, Size {
  standardised?: boolean;
  edges?: Model['edges'];
  maps?: Model['maps'];
  tiles: Tiles;
  weights: Map<string, Weights>;
  said: Outcome;
  selected: string;
}
interface LabelColumn {
  every: number;
  texts: SVGElement[];
}
// The picture of Flow while it is drawn.
interface ScenePen extends Drawing {
  W: number;
  H: number;
  ctx: CanvasRenderingContext2D;
  data: SceneData;
  notes: Set<string>;
  hits: Hit[];
  columns: LabelColumn[];
  pooled: number; // the most numbers in a cell
  xId: number;
  most: number; // lines of each attention
}

// A view as plain shapes: picture.js, picture/*.js
type See = (box: DOMRect, edge?: number) => boolean; // whether it is in view
interface Copying {
  see: See;
  kept: Kept;
  top: Element | null; // around the part that is copied
}
interface Kept {
  defs: SVGDefsElement;
  named(el: SVGElement): string; // the reference to a new definition
}
type Gradients = (id: string) => string; // the reference to a copied gradient
type MaybeShape = SVGElement | null;
type TextLine = { text: string; box: DOMRect };
type FormField = HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement;

// ---- a studio in an element: embedded.js, recorded.js, widget.js
interface RecordedAnswer {
  status: number;
  kind: string; // the content type
  bytes: BodyInit;
}
type AskServer = (method: string, path: string, body: string) => Promise<RecordedAnswer>;
interface PlaceOptions {
  ask: AskServer;
  address: string;
  onaddress?: (address: string) => void;
  height: string;
  around?: string; // light or dark
  whole?: boolean; // it fills the window
}
interface PlaceMade {
  // of the page within: what its modules use as their globals
  document: object;
  window: object;
  history: object;
  addEventListener: unknown;
  removeEventListener: unknown;
  fetch: unknown;
  location: { hash: string };
  root: HTMLElement & { moved?: { bytes: number; asked: number } };
  leave(): void;
}
// What a copied number of the trace is: softmax name[index].mean().
interface TracedNumber {
  soft: boolean;
  name: string;
  index: string;
  behind: string;
  point: Point;
}
// A session in a file: its answers, and whole tensors by run in base 64.
type SavedAnswer = [method: string, path: string, body: string, status: number, kind: string, text: string];
interface SavedSession {
  answers: SavedAnswer[];
  points: Record<string, string>;
  address: string;
}
// A session with its models: their files by name, the weights in base 64, and example texts.
interface SavedWithModels extends SavedSession {
  models: Record<string, LocalFacts & { files: Record<string, string>; texts: string[] }>;
}
// A message of Python to a widget: the answer to a request, whose bytes are in a buffer.
interface WidgetReply {
  of: string; // the widget
  id: number;
  status: number;
  kind: string;
}
// The model of a notebook's widget, as anywidget passes it.
interface WidgetModel {
  get(name: string): string;
  set(name: string, value: string): void;
  save_changes(): void;
  send(message: object): void;
  on(name: string, act: (...given: any[]) => void): void;
  off(name: string, act: (...given: any[]) => void): void;
}

// ---- what views draw
interface Inspected {
  at: string;
  place: string;
  name: string;
  points: (Point & { far?: string })[];
  entry?: Entry;
  shape: number[];
  axes: string[];
  lead: { index: number } | null; // the chosen part of the first axis
  leads: number;
  leadAxis?: string;
  leadNames: string[] | null;
  values: number[][] | null;
  scale: Scale;
  rows: string[] | null;
  rowNames: string[][] | null;
  names: boolean;
  cols: string[] | null;
  wordOf: (keys: string[]) => string | undefined;
  rowKey: ((i: number) => string) | null;
  colKey: ((j: number) => string) | null;
  picked: Step2D | null;
  opened: HTMLElement | null;
  inUnits?: number;
  read: (i: number, j: number, of?: number) => Reading;
  each: number;
  table?: MakeTable;
  likely: ({ rows: Bar[] } & BarOptions) | null;
  credit?: HTMLElement;
  go: { href: string; text: string } | null;
}
interface BarOptions {
  rest?: number;
  others?: number;
  onpick?: (i: number) => unknown;
}
interface InspectorActions {
  width: number;
  onpoint: (at: string) => unknown;
  onlead: (i: number) => unknown;
  onpick: (i: number, j: number) => unknown;
}
interface FlowState {
  at: string;
  head: number;
  i: number[] | null;
  opened: Opened;
  member: number;
}
interface FlowView {
  model: Model;
  run: Run;
  catalogue: Catalogue;
  points: Points;
  state: FlowState;
  box: HTMLElement;
  panel: HTMLElement;
  focus: string | null; // the part that gets the focus
  turn: number;
  panelTurn: number;
  columns: LabelColumn[];
  hits: Hit[];
  bands: Band[];
  soon?: ReturnType<typeof setTimeout>;
  drawn?: string; // what the panel shows
}
// A cell of the compressed rows in Flow; b: the block.
type PressedCell = { b: number; place: TileRoom; x: number; scale: Scale };
interface PatchState {
  cell: { at: string; token: number } | null;
  recovered: boolean;
  part: string;
  answer: string[];
  side?: string | null;
}
type OnSwitch = (each: Switch) => unknown;

// Highlight the labels of a row and a column.
type LightLabels = (row: number | null, column: number | null) => void;
// The sizes of a heat map, in px: labels, cells, the whole.
interface CellGrid {
  u: number;
  nR: number;
  nC: number;
  lw: number;
  lh: number;
  cw: number;
  ch: number;
  W: number;
  H: number;
}
// A line of an attribution.
interface CreditLine {
  name: Content;
  text?: string; // the name as text
  value: number;
  quiet?: boolean;
  go?: () => void;
}
// A branch of the search tree while it is drawn.
interface Branch extends TreeNode {
  p: number;
  step: number;
  kids: Branch[];
  kept: boolean; // it leads to a returned text
  up: Branch | null;
}
// The lines between the columns of a network of numbers: with their weights, where they are known.
type Connections = { plain: SVGElement[]; weights: DrawnWeight[] };
type Inputs = { names: string[]; x: number; ys: number[] };
// A neuron, an input or the output in the picture of a small network.
interface Neuron {
  name: string;
  x: number;
  y: number;
  map?: number[][];
  told?: string;
}
interface DrawnWeight {
  d: string;
  ends: [number, number, number, number];
  value: number;
  from: string;
  to: string;
  path: string;
}
// Two runs in What-if.
interface PatchOptions {
  run: Run;
  other: Run;
  found: Difference;
  state: PatchState;
}
interface RecurrentScope {
  scope: string;
  cell: 'lstm' | 'gru' | 'rnn';
  side: 'encoder' | 'decoder';
  backward: boolean;
  layer: string;
  name: string;
  note: string;
  full: string;
}
interface RecurrentValues {
  words: number;
  units: number;
  coarse: boolean;
  rows: string[][]; // point, name, letter
  byPoint: Record<string, number[][]>;
}
type ComparedRow = [name: string, values: string[], last: number];
// A picture of one model in Compare.
interface ComparedTable {
  name?: string;
  values: number[][];
  rows: Name[];
  cols: string[] | null;
  scale: Scale;
  exact: boolean;
  rowKey?: (i: number) => string;
  colKey?: (j: number) => string;
  path: string;
  told?: (i: number, j: number) => Content[];
  note: string;
}

type MinimapPlace = Record<'per' | 'top' | 'high', number> & { scale: Scale };
interface MinimapOptions {
  side: string; // of the keys: src or tgt
  scale: Scale | null;
  width: number;
  name: string;
}
interface ChoicesOptions {
  on: number | null; // the selected row
  taken: number; // the id that the search chose
  onforce: (id: number) => unknown;
  onpick?: (row: number) => unknown;
  told?: { at: Content; row: number; inRun: boolean };
}
interface CreditQuestion {
  position: number;
  output: number;
  transformer: boolean;
  word?: string;
}
type OnPart = (part: string, head: number | null) => void;
interface SwitchLook {
  off: boolean;
  delta: number | null | undefined;
  most: number;
}
interface HeadLook {
  off: (each: Switch) => boolean;
  delta: (each: Switch) => number | null | undefined;
  most: number;
  onclick: OnSwitch;
}
interface ChangeActions {
  toggle: OnSwitch;
  weaken: (key: string, percent: number) => unknown;
  run: Run;
  name?: string;
  rename: (name: string) => unknown;
}
// The pictures of all heads of one kind of attention, which may be loaded layer by layer.
interface HeadPictures {
  names: string[]; // the patterns by layer
  heads: number; // per layer
  ask(layer: number): Promise<void>;
  has(layer: number): boolean;
  most(layer: number, head: number): number; // the largest weight
  entropy(layer: number, head: number): number; // bits, the mean of all rows
  readonly missing: number; // layers
  cells(layer: number, head: number | null): { rows: number; cols: number; bytes: Raw };
  rest(
    near: number,
    onlayer: (layer: number) => void,
    stopped: () => boolean,
    before: () => Promise<unknown>,
  ): Promise<void>;
}
interface StripLine {
  g: number;
  group: StripGroup & { top: number };
  row: StripRow;
  y: number; // its middle
}
interface LanesOfTree {
  lane: Map<Branch, number>;
  low: number;
  high: number;
}
interface Lanes {
  kids: Map<Branch, Branch[]>;
  lane: Map<Branch, number>;
}
interface BranchLook extends TreeOptions {
  u: number;
  X: (step: number) => number;
  Y: (lane: number) => number;
  xw: number;
  lane: Map<Branch, number>;
  end: boolean; // it has no kids
}
interface TreePicture {
  el: HTMLElement;
  limit: number; // of probability, for a branch that is drawn
  hidden: number;
  cut: { from: number; to: number };
  steps: number;
}
interface PatchMap {
  el: HTMLElement;
  card: HTMLElement;
  draw(): void;
  load(): Promise<void>;
}

// Which head Attention shows, and its numbers.
interface HeadChoice {
  kind: string; // encoder, decoder or cross
  layer: number;
  head: number | null; // null: the mean of all
  moment: string;
  numbers: boolean; // whether the cells show them
}
interface ShownHead {
  small: HeadPictures;
  layer: number;
  head: number | null;
  scope: string;
  indexed: boolean; // the point has an axis of heads
  moment: string;
  point: string;
  hasMask: boolean;
  weights: number[][];
  values: number[][];
  step: [number, number]; // the words of a cell
  coarse: boolean; // the numbers are rounded or pooled
  name: string;
  unseen: ((i: number, j: number) => boolean) | null; // weights that are 0 because of a mask
  pooled: string; // a note
  scale: Scale;
  rows: string[];
  cols: string[];
  follows: string[];
  rowKeys: string[];
  colKeys: string[];
}
// The head on the page: what is drawn of it.
interface DrawnHead extends ShownHead {
  lens: HTMLElement;
  sum: HTMLElement;
  needsLens: boolean; // its cells are too small for numbers
  around?: { n: number; labels: number; size: number }; // of the lens
}
interface AttentionKind {
  tells: string; // one sentence
  name: string;
  note?: string;
  rows: Side;
  cols: Side;
  rowSide: 'src' | 'tgt';
  colSide: 'src' | 'tgt';
}
// A recurrent layer on the page, with both directions.
interface DrawnLayer {
  here: RecurrentScope;
  group: RecurrentScope[];
  loaded: RecurrentValues[];
  data: RecurrentValues;
  chosen: number; // in the group
  own: Record<string, number[]> | null; // of the chosen unit, by point
  side: 'src' | 'tgt';
  words: string[];
  keys: string[];
  memory: number[][];
  order: { unit: number; change: number }[];
  shown?: number; // the word in the panel
}
interface UnitChoice {
  scope: number;
  unit: number | null; // null: all
}
interface Compared {
  model: OpenedModel;
  run: Run;
  other: OpenedModel;
}
type WeightLine = Omit<DrawnWeight, 'ends'>;
type Corner = [x: number, y: number, cut?: 'cut'];
type FoundText = Decoded['texts'][number];
interface SearchShown extends Shown {
  beams: number;
  begin: string; // the ids of forced tokens, as in 5.8
  found: Decoded;
  greedy?: Decoded | null;
  free?: Decoded | null; // before a token was forced
  soFar?: number; // the first tokens, while the search continues
  late?: () => Promise<[Decoded, Decoded | null]>;
  until: AbortController;
}
interface SearchState {
  step: number;
  node: number | null; // a node beside the best path
  row: number | null; // in the list of tokens
  playing: ReturnType<typeof setInterval> | 0;
  choices: OneStep | null;
  from: number | null; // steps that are folded away at the beginning
}
interface Dial {
  key: string;
  name: string;
  min: number;
  max: number;
  step: number;
  idle: number; // the value that changes nothing
}
// A text, tags of words, numbers, or probabilities of labels.
type ProbeAnswer = string | [string, string][] | number[] | Record<string, number> | null;
interface SurveyOptions<F> {
  label: string; // of the button that starts it
  key: string;
  ask: () => Promise<F>;
  draw: (found: F, halted: boolean) => HTMLElement[];
  noun: string;
  before?: HTMLElement;
}
type PracticeVerdict = 'right' | 'wrong' | 'unread' | 'told';
interface PracticeState {
  exercise: Exercise;
  at: number | null; // the step that is asked, or null for the last one only
  typed: string;
  verdict: { right: PracticeVerdict; content: Content[] } | null;
  results: string[];
  hints: number[];
  mistakes: number;
  counted: boolean;
  over: boolean;
  solution: WorkedSolution | null;
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
declare function graph(place: PlaceMade): (name: string) => unknown;

// ---- models that run in the page: local/*.js
type Tensor = import('./local/tensor.js').Tensor;
type ModelWeights = import('./local/weights.js').Weights;
type LocalModel = import('./local/model.js').LocalModel;
type LocalTokenizer = import('./local/tokenizer.js').Tokenizer;
type ModelConfig = Record<string, any>; // the section model of config.json
// config.json of a model folder
interface AboutModel {
  task: string;
  model: ModelConfig;
  labels: string[];
  columns: { input?: string[] };
  decoding: { beam_size?: number; alpha?: number };
  tokenizers: Record<string, string>; // fingerprints
  [key: string]: unknown;
}
interface WordPlace {
  word: string;
  from: number; // in UTF-16 units
  to: number;
}
// The texts of a model's data without unknown words, or its vocabulary if there are none.
interface ModelWords {
  texts: string[];
  vocabulary: string[];
}
// The words of a model's texts, the most frequent first, and the pairs of words that follow each other.
interface KnownWords {
  words: string[];
  pairs: string[][];
}
interface TokenPlace {
  id: number;
  from: number; // in UTF-16 units
  to: number;
}
interface LocalExample {
  inputs: ModelInputs;
  targets: number[];
  words: Tokens;
}
type ExampleOf = (model: LocalModel, text: string, target: string | null) => LocalExample;
type Values = Float32Array | Float64Array;
// A model of a page without a server: run.js, routes.js, site.js.
type LocalRun = import('./local/run.js').LocalRun;
interface OpenedLocally {
  model: LocalModel;
  about: Model;
  output: string; // the point with the outputs
  points: Map<string, Point>; // the facts of each point; their shapes are those of another run
  catalogue: Catalogue;
  symbols: SymbolsOfParts;
  plane?: PlaneStart;
}
// The symbols of the names in the terms of each part, as MathML.
type SymbolsOfParts = Record<string, Record<string, string>>;
// An expression whose numbers are computed: terms.js.
interface LocalNumber {
  name: string;
  value: number;
  kind: string;
  address: string;
}
type Term = LocalNumber | { rest: number; value: number } | { operation: string; arguments: Term[] };
// An operation of a forward pass, with its gradient: saliency.js.
interface RecordedOperation {
  y: Values;
  back(dy: Float64Array, gradientOf: (x: Tensor) => Float64Array): void;
}
type LocalComputation = import('./local/computation.js').Computation;
type LocalPart = import('./local/part.js').Part;
// Many terms of one kind: their values, and the expression of each.
interface Terms {
  values: number[];
  at(i: number): Term;
}
// The output that patching measures; missing keys are chosen automatically.
interface Measure {
  position?: number;
  output?: number;
  against?: number;
}
interface LocalSite {
  open(m: string): Promise<OpenedLocally>;
  lessons(of: string): Promise<LessonScript>;
  textsOf(m: string): Promise<string[]>;
  outline?(lesson: string): Promise<Lesson>; // of the user's own
  planeOf(kind: string): Promise<string | undefined>;
  asked?: Map<string, Question>;
}
// What the page knows about a local model beside its description.
interface LocalFacts {
  output: string;
  points: Point[];
  symbols: SymbolsOfParts;
  plane?: PlaneStart;
}
// Where training in the plane starts: the points (x1, x2, target) by problem, and the weights by seed.
interface PlaneStart {
  kind: string;
  steps: number; // the last step
  seed: number; // the default
  points: Record<string, number[][]>;
  weights: Record<string, number | number[] | number[][]>[];
}
type PlaneWeights = Record<string, Float32Array>;
// The exports of python/lessons.js. help: what local/lesson_help.js exports.
interface LessonScript {
  onRun(run: LocalRun, help: object, id: string): Lesson;
  check(
    run: LocalRun,
    unchanged: LocalRun,
    help: object,
    asked: { id: string; stop: number; address: string; typed: string },
  ): Verdict;
}
// answers/start.json, by studio/site.py
interface SiteStart {
  answers: SavedAnswer[];
  files: string[]; // the names of the other files
  models: string[]; // their keys
}
// A trace as a part sees it: x = trace('pattern', x); names within the part, or at one position of a loop.
interface Scope {
  (name: string, value: Tensor): Tensor;
  at(part: string): Scope;
  step(position: number): Scope;
  replay(other: import('./local/trace.js').Trace): boolean;
}
interface TracePattern {
  glob: string;
  covers(name: string): boolean;
  matches(name: string, position: number | null): boolean;
}
type Edit = number | Tensor | ((value: Tensor) => Tensor);
type Layer = (x: Tensor, trace: Scope) => Tensor;
interface Embedding {
  table: Tensor;
  forward(ids: number[], trace: Scope): Tensor;
}
interface Residual {
  enter(x: Tensor, trace: Scope): Tensor;
  leave(x: Tensor, branch: Tensor, trace: Scope): Tensor;
}
// Keys and values of attention (1, heads, positions, size), so far or of a source.
interface KeysValues {
  keys: Tensor;
  values: Tensor;
}
type SelfAttention = (
  x: Tensor,
  layout: { mask: Tensor | null; angles: Tensor },
  past: KeysValues | undefined,
  trace: Scope,
) => { y: Tensor; past: KeysValues };
interface CrossAttention {
  project(encoded: Tensor): KeysValues;
  forward(x: Tensor, source: KeysValues, trace: Scope): Tensor;
}
interface Alignment {
  project(encoded: Tensor): KeysValues;
  forward(hidden: Tensor, source: KeysValues, trace: Scope): Tensor;
}
interface TransformerLayer {
  project?(encoded: Tensor): KeysValues;
  forward(
    start: Tensor,
    layout: { mask: Tensor | null; angles: Tensor },
    past: KeysValues | undefined,
    source: KeysValues,
    trace: Scope,
  ): { y: Tensor; past: KeysValues };
}
interface StackSizes {
  vocab: number;
  layers: number;
  cross: boolean;
  causal: boolean;
  shared?: Embedding;
}
interface TransformerStack {
  embed: Embedding;
  project(encoded: Encoded): (KeysValues | undefined)[];
  read: Decoder['read'];
}
interface CellState {
  hidden: Tensor;
  cell?: Tensor;
}
type RecurrentState = CellState[][]; // by layer and direction
type Bridge = (state: RecurrentState, trace: Scope) => RecurrentState;
interface RecurrentSizes {
  cell: string;
  inputs: number;
  hidden: number;
  layers: number;
  bidirectional: boolean;
}
type RecurrentLayer = (x: Tensor, first: CellState | undefined, trace: Scope) => { outputs: Tensor; state: CellState };
type RecurrentStack = (x: Tensor, first: RecurrentState | null | undefined, trace: Scope) => Encoded;
interface Encoded {
  outputs: Tensor; // (1, positions, features)
  state?: RecurrentState; // after the last token
}
interface Encoder {
  embed: Embedding;
  width: number;
  read(ids: number[], trace: Scope): Encoded;
}
type EncoderOf = (weights: ModelWeights, config: ModelConfig) => Encoder;
// A decoder's state: never changed, so that the beams of a search can share it.
interface DecoderState {
  length: number; // tokens read so far
  layers: any; // of each layer: keys and values, or a recurrent state
  projected?: any; // keys and values of the source
}
interface Decoder {
  embed: Embedding;
  width: number;
  start(encoded: Encoded | null, trace: Scope): DecoderState;
  read(ids: number[], state: DecoderState, trace: Scope): { outputs: Tensor; state: DecoderState };
}
type DecoderOf = (
  weights: ModelWeights,
  config: ModelConfig,
  options: { vocab: number; shared?: Embedding },
) => Decoder;
type ModelInputs = Record<string, number[]>; // ids; source and target; x
// What reads the logits from the residual stream of a Transformer.
interface Readout {
  side: string; // the stack: encoder or decoder
  table: Tensor; // a row for each output
  bias: Tensor | null;
  weights: ModelWeights; // of the whole model
}
interface Network {
  readout?: Readout;
  run(inputs: ModelInputs, trace: Scope): void;
  start?(source: number[], trace: Scope): DecoderState;
  step?(ids: number[], state: DecoderState, trace: Scope): { logits: Tensor; state: DecoderState };
}
// Generation: beam.js, tree.js, generate.js, sample.js.
interface Writing {
  trace: import('./local/trace.js').Trace;
  tokenizer: LocalTokenizer;
  inputs: ModelInputs;
  prefix: number[];
  most: number; // tokens after the prefix
  state: DecoderState; // after all tokens of the prefix but the last
  next(token: number, state: DecoderState): { logits: Values; state: DecoderState };
}
interface GenerateOptions {
  max_length?: number | null;
  edit?: Record<string, Edit>; // made in every step
}
interface SearchOptions extends GenerateOptions {
  beam_size?: number;
  n_best?: number;
  begin?: number[]; // the first tokens of every text
}
interface SearchSettings {
  beam_size: number;
  n_best: number;
  alpha: number;
  most: number;
  begin: number[];
}
interface Beam {
  tokens: number[]; // after the prefix, including the end
  logProbs: number[]; // the model's own, of each token
  score: number; // -Infinity: an empty place
  finished: boolean;
  parent: number; // its place in the last round
  state: DecoderState; // before its last token
}
type BeamText = Beam & { ranking: number };
interface BeamRow {
  own: Float32Array; // log-probabilities of all tokens
  adjusted: Float32Array; // the same after constraints
  state: DecoderState;
}
interface BeamRound {
  before: Beam[];
  rows: (BeamRow | null)[]; // of each beam; null: finished or empty
  after: Beam[];
  done: boolean;
}
interface Sampling {
  temperature: number;
  top_k?: number | null;
  top_p?: number | null;
}
interface DrawOptions extends Partial<Sampling>, GenerateOptions {
  repetition_penalty?: number;
  seed?: number;
  samples?: number;
}
interface SampledToken {
  token: number;
  own: Float32Array;
  allowed: Float32Array;
}
