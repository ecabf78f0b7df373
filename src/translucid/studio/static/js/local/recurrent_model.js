// Recurrent models: encoder, decoder, and the bridge between them, as models/recurrent.py.
import { embedding, linear } from './layers.js';
import { additiveAlignment, recurrent } from './recurrent.js';
import { joined, map } from './tensor.js';

// The final state of the top layer, its directions side by side.
/** @type {(state: RecurrentState, part: 'hidden' | 'cell') => Tensor} */
export const lastState = (state, part) =>
  joined(
    (state.at(-1) ?? []).map(way => /** @type {Tensor} */ (way[part])),
    -1,
  );

// The decoder's initial state, computed from the encoder's final state: tanh(W s + b); of the cell, without tanh.
/** @type {(weights: ModelWeights, config: ModelConfig, dEncoder: number) => Bridge} */
function bridge(weights, config, dEncoder) {
  const toHidden = linear(weights.at('hidden'), dEncoder, config.hidden);
  const toCell = config.cell === 'lstm' ? linear(weights.at('cell'), dEncoder, config.hidden) : null;
  return (state, trace) => {
    const hidden = trace('hidden', map(toHidden(lastState(state, 'hidden')), Math.tanh));
    const cell = toCell ? trace('cell', toCell(lastState(state, 'cell'))) : undefined;
    return Array.from({ length: config.layers }, () => [{ hidden, cell }]);
  };
}
/** @type {(config: ModelConfig, hidden: number, bidirectional: boolean) => Parameters<typeof recurrent>[1]} */
const sizes = (config, hidden, bidirectional) => ({
  cell: config.cell,
  inputs: config.d_model,
  hidden,
  layers: config.layers,
  bidirectional,
});
/** @type {(config: ModelConfig) => number} */
const encoderHidden = config => config.encoder_hidden ?? config.hidden;
/** @type {(config: ModelConfig) => number} */
const encoderWidth = config => encoderHidden(config) * (config.bidirectional ? 2 : 1);

/** @type {EncoderOf} */
export function recurrentEncoder(weights, config) {
  const embed = embedding(weights.at('embedding'), config.vocab, config.d_model, 1);
  const layers = recurrent(weights.at('recurrent'), sizes(config, encoderHidden(config), config.bidirectional));
  return {
    embed,
    width: encoderWidth(config),
    read: (ids, trace) => layers(embed.forward(ids, trace.at('embedding')), null, trace.at('recurrent')),
  };
}
/** @type {DecoderOf} */
export function recurrentDecoder(weights, config, { vocab, shared }) {
  const d = config.hidden;
  const embed = shared ?? embedding(weights.at('embedding'), vocab, config.d_model, 1);
  const layers = recurrent(weights.at('recurrent'), sizes(config, d, false));
  const cross = config.shape === 'encoder-decoder';
  const dEncoder = encoderWidth(config);
  const first = cross ? bridge(weights.at('bridge'), config, dEncoder) : null;
  const align = cross ? additiveAlignment(weights.at('alignment'), d, dEncoder) : null;
  return {
    embed,
    width: d,
    start: (encoded, trace) => ({
      length: 0,
      layers: encoded && first ? first(encoded.state ?? [], trace.at('bridge')) : null,
      projected: encoded && align?.project(encoded.outputs),
    }),
    read(ids, { length, layers: before, projected }, trace) {
      const x = embed.forward(ids, trace.at('embedding'));
      const { outputs, state } = layers(x, before, trace.at('recurrent'));
      return {
        outputs: align ? align.forward(outputs, projected, trace.at('alignment')) : outputs,
        state: { length: length + ids.length, layers: state, projected },
      };
    },
  };
}
