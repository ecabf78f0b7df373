// The Transformer: encoder and decoder, as models/transformer.py.
import { causalMask, crossAttention, rotaryAngles, selfAttention } from './attention.js';
import { EPSILON, embedding, feedForward, layerNorm, residual } from './layers.js';

// Self-attention, optional cross-attention and a feed-forward network, each with a residual connection.
/** @type {(weights: ModelWeights, config: ModelConfig, cross: boolean) => TransformerLayer} */
function layer(weights, config, cross) {
  const d = config.d_model;
  /** @type {(name: string) => Residual} */
  const frame = name => residual(layerNorm(weights.at(`${name}_residual.norm`), d, EPSILON));
  const attention = selfAttention(weights.at('self_attention'), d, config.heads);
  const attentionFrame = frame('self_attention');
  const source = cross ? crossAttention(weights.at('cross_attention'), d, config.heads) : null;
  const sourceFrame = cross ? frame('cross_attention') : null;
  const positionwise = feedForward(weights.at('feedforward'), d, config.d_ff ?? 4 * d, config.activation);
  const positionwiseFrame = frame('feedforward');
  return {
    project: source?.project,
    forward(start, layout, past, projected, trace) {
      let scope = trace.at('self_attention_residual');
      const entered = attentionFrame.enter(start, scope);
      const attended = attention(entered, layout, past, trace.at('self_attention'));
      let x = attentionFrame.leave(start, attended.y, scope);
      if (source && sourceFrame) {
        scope = trace.at('cross_attention_residual');
        const y = source.forward(sourceFrame.enter(x, scope), projected, trace.at('cross_attention'));
        x = sourceFrame.leave(x, y, scope);
      }
      scope = trace.at('feedforward_residual');
      const y = positionwise(positionwiseFrame.enter(x, scope), trace.at('feedforward'));
      return { y: positionwiseFrame.leave(x, y, scope), past: attended.past };
    },
  };
}

// Embedding, positions and layers. `read` reads ids after those of `state`, whose keys and values it extends.
/** @type {(weights: ModelWeights, config: ModelConfig, sizes: StackSizes) => TransformerStack} */
function stack(weights, config, { vocab, layers, cross, causal, shared }) {
  const d = config.d_model;
  const factor = config.embedding_scale ? Math.sqrt(d) : 1;
  const embed = shared ?? embedding(weights.at('embedding'), vocab, d, factor);
  const blocks = Array.from({ length: layers }, (_, i) => layer(weights.at(`layers.${i}`), config, cross));
  const finalNorm = layerNorm(weights.at('final_norm'), d, EPSILON);
  return {
    embed,
    project: encoded => blocks.map(block => block.project?.(encoded.outputs)),
    read(ids, { length, layers: past, projected }, trace) {
      let x = embed.forward(ids, trace.at('embedding'));
      const places = ids.map((_, i) => length + i);
      const angles = trace.at('positions')('angles', rotaryAngles(places, d / config.heads, config.rotary_base));
      const mask = causal ? trace.at('masks')('causal', causalMask(ids.length, length + ids.length)) : null;
      const after = blocks.map((block, i) => {
        const scope = trace.at(`layers.${i}`);
        const { y, past: kept } = block.forward(x, { mask, angles }, past[i], projected?.[i], scope);
        x = y;
        return kept;
      });
      const state = { length: length + ids.length, layers: after, projected };
      return { outputs: finalNorm(x, trace.at('final_norm')), state };
    },
  };
}
const EMPTY = { length: 0, layers: [] };

/** @type {EncoderOf} */
export function transformerEncoder(weights, config) {
  const shape = { vocab: config.vocab, layers: config.layers, cross: false, causal: false };
  const { embed, read } = stack(weights, config, shape);
  return { embed, width: config.d_model, read: (ids, trace) => ({ outputs: read(ids, EMPTY, trace).outputs }) };
}
/** @type {DecoderOf} */
export function transformerDecoder(weights, config, { vocab, shared }) {
  const layers = config.decoder_layers ?? config.layers;
  const cross = config.shape === 'encoder-decoder';
  const { embed, project, read } = stack(weights, config, { vocab, layers, cross, causal: true, shared });
  return {
    embed,
    width: config.d_model,
    start: encoded => ({ ...EMPTY, projected: encoded && project(encoded) }),
    read,
  };
}
