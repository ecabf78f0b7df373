// A model that runs in the page: a forward pass of the shipped kinds of models in plain JavaScript, with the same trace
// points and edits as in Python. tests/studio/test_local_model.py compares every point with PyTorch.
import { exampleOf } from './example.js';
import { dense, linear } from './layers.js';
import { lastState, recurrentDecoder, recurrentEncoder } from './recurrent_model.js';
import { Tensor, map, timesTransposed } from './tensor.js';
import { Tokenizer } from './tokenizer.js';
import { Trace } from './trace.js';
import { transformerDecoder, transformerEncoder } from './transformer.js';
import { readWeights } from './weights.js';

// The values that each key of the configuration may have; ANY: all values, or the key has no effect here. A key that is
// missing is an error, since it may change what the model computes.
const ANY = null;
const NONE = [null];
/** @type {Record<string, unknown[] | null>} */
const SEQUENCE = {
  kind: ANY,
  shape: ANY,
  head: ['language', 'classify', 'tag'],
  vocab: ANY,
  target_vocab: ANY,
  outputs: ANY,
  d_model: ANY,
  dropout: ANY,
  tied: ANY,
  head_bias: ANY,
  logit_scale: [1],
  pooling: ANY,
  head_dense: NONE,
  normalise: [false],
  characters: [0],
  word_dropout: ANY,
  ngram_features: [0],
  ensemble_size: [1],
  layers: ANY,
};
/** @type {Record<string, Record<string, unknown[] | null>>} */
const SUPPORTED = {
  perceptron: { kind: ANY, inputs: ANY },
  mlp: {
    kind: ANY,
    inputs: ANY,
    head: NONE,
    hidden: ANY,
    outputs: ANY,
    activation: ['identity', 'relu', 'sigmoid', 'tanh'],
    residual: [false],
    dropout: ANY,
    standardise: ANY,
  },
  recurrent: {
    ...SEQUENCE,
    cell: ['rnn', 'lstm'],
    hidden: ANY,
    encoder_hidden: ANY,
    bidirectional: ANY,
    attention: ['additive'],
    bridge: ['project'],
    input_feeding: [false],
    forget_bias: ANY,
    locked_dropout: ANY,
    embedding_dropout: ANY,
    weight_dropout: ANY,
  },
  transformer: {
    ...SEQUENCE,
    embedding_scale: ANY,
    embedding_norm: [false],
    segments: [0],
    heads: ANY,
    kv_heads: NONE,
    d_head: NONE,
    qk_norm: [false],
    decoder_layers: ANY,
    d_ff: ANY,
    activation: ['identity', 'relu', 'sigmoid', 'tanh'],
    norm: ['layer'],
    norm_eps: NONE,
    norm_bias: [true],
    placement: ['pre'],
    parallel_residual: [false],
    final_norm: [null, true],
    positions: ['rotary'],
    sinusoid_layout: ANY,
    first_position: [0],
    relative_buckets: ANY,
    relative_distance: ANY,
    max_length: ANY,
    rotary_base: ANY,
    rotary_scaling: [1],
    rotary_method: ['linear'],
    rotary_length: ANY,
    rotary_low: ANY,
    rotary_high: ANY,
    rotary_attention_factor: NONE,
    rotary_fraction: [1],
    window: NONE,
    scaled: [true],
    bias: [true],
    qkv_bias: NONE,
    attention_output_bias: NONE,
    feedforward_bias: NONE,
    count_padding: ANY,
    lora_rank: [0],
    lora_alpha: ANY,
    lora_dropout: ANY,
    lora_where: ANY,
  },
};
/** @type {(config: ModelConfig) => void} */
function check(config) {
  const known = SUPPORTED[config.kind ?? ''];
  if (!known)
    throw new Error(`a model of kind '${config.kind}' does not run in the page; open it with translucid explore`);
  for (const [key, value] of Object.entries(config)) {
    const allowed = key in known ? known[key] : [];
    if (allowed && !allowed.includes(value))
      throw new Error(
        `a model with ${key} = ${JSON.stringify(value)} does not run in the page; open it with translucid explore`,
      );
  }
}

// ---- heads

/** @type {(weights: ModelWeights, config: ModelConfig, vocab: number, body: Decoder) =>
 *  { table: Tensor; bias: Tensor | null; forward: Layer }} */
function languageHead(weights, config, vocab, { embed, width }) {
  const bias = config.head_bias ? weights.get('linear.bias', [vocab]) : null;
  const table = config.tied ? embed.table : weights.get('linear.weight', [vocab, width]);
  return { table, bias, forward: (x, trace) => trace('logits', timesTransposed(x, table, bias)) };
}
/** @type {(weights: ModelWeights, config: ModelConfig, width: number) => (encoded: Encoded, trace: Scope) => Tensor} */
function labelHead(weights, config, width) {
  const whole = linear(weights.at('linear'), width, config.outputs);
  if (config.head === 'tag') return (encoded, trace) => trace('logits', whole(encoded.outputs));
  if (config.pooling !== 'last' || config.kind !== 'recurrent')
    throw new Error(`a classifier with pooling = '${config.pooling}' of kind ${config.kind} does not run in the page`);
  return (encoded, trace) => trace('class_logits', whole(trace('pooled', lastState(encoded.state ?? [], 'hidden'))));
}

// ---- models

/** @type {(x: number[] | Float32Array, inputs: number) => Tensor} */
function numbers(x, inputs) {
  if (x.length !== inputs) throw new Error(`got ${x.length} numbers, but this model takes ${inputs}`);
  return new Tensor([1, inputs], x instanceof Float32Array ? x : Float32Array.from(x));
}
/** @type {(weights: ModelWeights, config: ModelConfig) => Network} */
function perceptron(weights, { inputs }) {
  const w = new Tensor([1, inputs], weights.get('weight', [inputs]).values);
  const bias = weights.get('bias', []);
  return {
    run({ x }, trace) {
      const scope = trace.at('perceptron');
      const total = timesTransposed(numbers(x, inputs), w, bias);
      const sum = scope('sum', new Tensor([1], total.values));
      scope(
        'output',
        map(sum, value => (value > 0 ? 1 : 0)),
      );
    },
  };
}
/** @type {(weights: ModelWeights, config: ModelConfig) => Network} */
function mlp(weights, config) {
  const inputs = config.inputs;
  const { mean, deviation } = config.standardise
    ? { mean: weights.get('standardise.mean', [inputs]), deviation: weights.get('standardise.deviation', [inputs]) }
    : {};
  const widths = [inputs, ...config.hidden];
  const layers = widths
    .slice(1)
    .map((width, i) => dense(weights.at(`layers.${i}`), widths[i], width, config.activation));
  const output = dense(weights.at('output'), widths.at(-1), config.outputs);
  return {
    run({ x }, trace) {
      let h = numbers(x, inputs);
      if (mean && deviation) {
        const standardised = h.values.map((value, i) => (value - mean.values[i]) / deviation.values[i]);
        h = trace.at('standardise')('output', new Tensor(h.shape, standardised));
      }
      layers.forEach((layer, i) => {
        h = layer(h, trace.at(`layers.${i}.dense`));
      });
      output(h, trace.at('output.dense'));
    },
  };
}
/** @type {(weights: ModelWeights, config: ModelConfig) => Network} */
function sequence(weights, config) {
  const [encoderOf, decoderOf] =
    config.kind === 'transformer' ? [transformerEncoder, transformerDecoder] : [recurrentEncoder, recurrentDecoder];
  const encoder = config.shape === 'decoder' ? null : encoderOf(weights.at('encoder'), config);
  if (config.shape === 'encoder' && encoder) {
    const head = labelHead(weights.at('head'), config, encoder.width);
    const table = () => weights.at('head.linear').get('weight', [config.outputs, encoder.width]);
    const bias = () => weights.at('head.linear').get('bias', [config.outputs]);
    const reads = config.kind === 'transformer' && config.head === 'tag';
    return {
      readout: reads ? { side: 'encoder', table: table(), bias: bias(), weights } : undefined,
      run: ({ ids }, trace) => void head(encoder.read(ids, trace.at('encoder')), trace.at('head')),
    };
  }
  if (config.head !== 'language') throw new Error(`a decoder with head = '${config.head}' does not run in the page`);
  const vocab = config.target_vocab ?? config.vocab;
  const shared = config.target_vocab ? undefined : encoder?.embed;
  const decoder = decoderOf(weights.at('decoder'), config, { vocab, shared });
  const head = languageHead(weights.at('head'), config, vocab, decoder);
  // The encoder's newest output: a search and several runs read the same source.
  let newest = { source: '', values: new Trace(), encoded: /** @type {Encoded | null} */ (null) };
  /** @type {(source: number[], trace: Scope) => Encoded | null} */
  function encode(source, trace) {
    if (!encoder) return null;
    if (newest.source !== source.join()) {
      const values = new Trace();
      newest = { source: source.join(), values, encoded: encoder.read(source, values.scope('encoder.')) };
    }
    return trace.replay(newest.values) ? newest.encoded : encoder.read(source, trace.at('encoder'));
  }
  /** @type {Network['start']} */
  const start = (source, trace) => decoder.start(encode(source, trace), trace.at('decoder'));
  /** @type {Network['step']} */
  const step = (ids, state, trace) => {
    const read = decoder.read(ids, state, trace.at('decoder'));
    return { logits: head.forward(read.outputs, trace.at('head')), state: read.state };
  };
  const { table, bias } = head;
  return {
    readout: config.kind === 'transformer' ? { side: 'decoder', table, bias, weights } : undefined,
    start,
    step,
    run: ({ ids, source, target }, trace) => void step(target ?? ids, start(source, trace), trace),
  };
}

/** @type {Record<string, typeof sequence>} */
const KINDS = { perceptron, mlp };

// A model from its config.json, its weights and its tokenizers by name.
export class LocalModel {
  /** @param {AboutModel} about @param {ArrayBuffer} file @param {Record<string, Tokenizer>} tokenizers */
  constructor(about, file, tokenizers = {}) {
    check(about.model);
    this.about = about;
    this.config = about.model;
    this.tokenizers = tokenizers;
    for (const [name, fingerprint] of Object.entries(about.tokenizers ?? {}))
      if (tokenizers[name]?.fingerprint !== fingerprint)
        throw new Error(`the model was not trained with this ${name}; copy the whole model again`);
    this.weights = readWeights(file);
    const build = KINDS[this.config.kind] ?? sequence;
    /** @type {Network} */
    this.network = build(this.weights, this.config);
    this.weights.check();
  }
  // All values of one forward pass, by name.
  /** @type {(inputs: ModelInputs, options?: { keep?: string[]; edit?: Record<string, Edit> }) => Trace} */
  run(inputs, options) {
    const trace = new Trace(options);
    this.network.run(inputs, trace.scope());
    trace.check();
    return trace;
  }
  /** @type {(text: string, target?: string | null) => LocalExample} */
  example(text, target = null) {
    return exampleOf(this, text, target);
  }
}
/** @type {(address: string) => Promise<Response>} */
async function fetched(address) {
  const answer = await fetch(address);
  if (!answer.ok) throw new Error(`${address}: ${answer.status} ${answer.statusText}`);
  return answer;
}
// load: gets a file of the folder.
/** @type {(folder: string, load?: (path: string) => Promise<Response>) => Promise<LocalModel>} */
export async function openModel(folder, load = fetched) {
  /** @type {(path: string) => Promise<any>} */
  const json = async path => (await load(path)).json();
  const [about, weights] = await Promise.all([
    json(`${folder}/config.json`),
    load(`${folder}/model.safetensors`).then(answer => answer.arrayBuffer()),
  ]);
  const named = Object.keys(about.tokenizers).map(async name => {
    const [all, meta] = await Promise.all(['', '_meta'].map(end => json(`${folder}/${name}/tokenizer${end}.json`)));
    return [name, new Tokenizer(all, meta)];
  });
  return new LocalModel(about, weights, Object.fromEntries(await Promise.all(named)));
}
