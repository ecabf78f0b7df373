// A part of a network in a run: its numbers by the names of its points, and the point that it reads, as the methods
// `feeds` of translucid/models.
import { concatenated } from './computation.js';

// A part of the network: its numbers by the names of its points.
export class Part {
  /** @param {LocalComputation} all @param {string} scope */
  constructor(all, scope) {
    this.all = all;
    this.scope = scope;
    this.config = all.run.opened.model.config;
    this.side = scope.split('.')[0]; // encoder, decoder, head
    this.ids = all.inputs.source ? (this.side === 'encoder' ? 'source' : 'target') : 'ids';
  }
  /** @type {(point: string, ...index: number[]) => LocalNumber} */
  number(point, ...index) {
    return this.all.number(point, `${this.scope}.${point}`, ...index);
  }
  /** @type {(point: string, ...index: (number | null)[]) => Terms} */
  vector(point, ...index) {
    return this.all.vector(point, `${this.scope}.${point}`, ...index);
  }
  /** @type {(label: string, name: string, ...index: number[]) => LocalNumber} */
  weight(label, name, ...index) {
    return this.all.number(label, `${this.scope}.${name}`, ...index);
  }
  /** @type {(layer: string, row: number, x: Terms, weight?: string, bias?: string) => Term} */
  linear(layer, row, x, weight, bias) {
    return this.all.linear(`${this.scope}.${layer}`, row, x, weight, bias);
  }
  // The point that the part reads.
  get reads() {
    const { scope, side, config } = this;
    if (config.kind === 'mlp') {
      const number = side === 'output' ? config.hidden.length : Number(/^layers\.(\d+)/.exec(scope)?.[1] ?? 0);
      if (number) return `layers.${number - 1}.dense.activation`;
      return side === 'standardise' || !config.standardise ? 'x' : 'standardise.output';
    }
    if (side === 'head') return this.outputOf(config.shape === 'encoder' ? 'encoder' : 'decoder');
    const [, layer, name, frame, isNorm] = /^(\w+\.layers\.\d+)\.(\w+?)(_residual)?(\.norm)?$/.exec(scope) ?? [];
    if (isNorm) return `${layer}.${name}${frame}.skip`;
    if (frame) return this.beforeSublayer(layer, name);
    if (layer && config.kind === 'transformer') return `${layer}.${name}_residual.norm.output`;
    if (scope.endsWith('final_norm')) return this.beforeLayer(this.layers);
    return scope.endsWith('alignment') ? `${side}.recurrent.output` : this.embedded;
  }
  get layers() {
    return (this.side === 'decoder' && this.config.decoder_layers) || this.config.layers;
  }
  get embedded() {
    const scaled = `${this.side}.embedding.scaled`;
    return this.all.has(scaled) ? scaled : `${this.side}.embedding.lookup`;
  }
  /** @type {(number: number) => string} */
  beforeLayer(number) {
    return number ? `${this.side}.layers.${number - 1}.feedforward_residual.sum` : this.embedded;
  }
  /** @type {(layer: string, name: string) => string} */
  beforeSublayer(layer, name) {
    const names = ['self_attention', 'cross_attention', 'feedforward'].filter(each =>
      this.all.has(`${layer}.${each}_residual.sum`),
    );
    const before = names[names.indexOf(name) - 1];
    return before ? `${layer}.${before}_residual.sum` : this.beforeLayer(Number(layer.split('.')[2]));
  }
  // The point with the output of the encoder or the decoder.
  /** @type {(side: string) => string} */
  outputOf(side) {
    if (this.config.kind === 'transformer') return `${side}.final_norm.output`;
    const aligned = `${side}.alignment.output`;
    return this.all.has(aligned) ? aligned : `${side}.recurrent.output`;
  }
  /** @type {(...index: number[]) => LocalNumber} */
  input(...index) {
    return this.all.number('x', this.reads, ...index);
  }
  /** @type {(...index: (number | null)[]) => Terms} */
  inputs(...index) {
    return this.all.vector('x', this.reads, ...index);
  }
  // ---- recurrent layers: the cells of a layer, one for each direction
  /** @type {(side: string, layer: number) => string[]} */
  cells(side, layer) {
    const { bidirectional } = this.config;
    const ways = bidirectional && side === 'encoder' ? ['forward.', 'backward.'] : [''];
    return ways.map(way => `${side}.recurrent.layers.${layer}.${way}${this.config.cell}`);
  }
  // The states of a layer at one position, both directions side by side.
  /** @type {(layer: number, place: number, label: string) => Terms} */
  statesAt(layer, place, label) {
    const all = this.cells(this.side, layer).map(at => this.all.vector(label, `${at}.hidden`, 0, place, null));
    return concatenated(...all);
  }
  // The states of the encoder's top layer after the last token.
  /** @type {(point: string, label: string) => Terms} */
  lastStates(point, label) {
    const all = this.cells('encoder', this.config.layers - 1).map(at => {
      const length = this.all.run.get(`${at}.${point}`).shape[1];
      return this.all.vector(label, `${at}.${point}`, 0, at.includes('.backward.') ? 0 : length - 1, null);
    });
    return concatenated(...all);
  }
}
