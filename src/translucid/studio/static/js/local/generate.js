// What a local model writes, token by token: beam search with its tree, and what search and sampling share. Each step
// reads only the newest token, as in generate/decode.py.
import { search } from './beam.js';
import { Trace } from './trace.js';
import { SearchTree } from './tree.js';

const CONTINUED = 40; // tokens after a prompt, unless a maximum is given
const MOST_BEAMS = 32;

// What generation begins with: the tokens read so far, and a function that reads the next one.
/** @type {(model: LocalModel, text: string, options: GenerateOptions) => Writing} */
export function writing(model, text, { max_length: given, edit = {} }) {
  const { network, tokenizers } = model;
  const { start, step } = network;
  if (!start || !step) throw new Error(`a model for task ${model.about.task} does not generate text`);
  for (const glob of Object.keys(edit))
    if (glob.includes('@'))
      throw new Error(
        `'${glob}' edits one position of a whole text, but decoding reads one token at a time; omit @ and the position`,
      );
  const { inputs } = model.example(text);
  const { source } = inputs;
  const prefix = inputs.target ?? inputs.ids;
  const trace = new Trace({ keep: [], edit });
  let state = start(source ?? [], trace.scope());
  if (prefix.length > 1) state = step(prefix.slice(0, -1), state, trace.scope()).state;
  return {
    trace,
    tokenizer: tokenizers.target ?? tokenizers.tokenizer,
    inputs,
    prefix,
    most: given ?? (source ? 2 * source.length + 10 : CONTINUED),
    state,
    next(token, before) {
      const { logits, state: after } = step([token], before, trace.scope());
      return { logits: logits.values, state: after };
    },
  };
}
/** @type {(writing: Writing, tokens: number[]) => string} */
export const written = ({ tokenizer, prefix }, tokens) => tokenizer.decode([...prefix, ...tokens]);

/** @type {(writing: Writing, found: BeamText) => string} */
const textOf = (started, { tokens, finished }) => written(started, tokens.slice(0, tokens.length - Number(finished)));
/** @type {(model: LocalModel, writing: Writing, given: { beam_size: number; n_best: number; begin?: number[] }) =>
 *  SearchSettings} */
const settingsOf = ({ about }, { inputs, most }, given) => ({
  ...{ begin: [], ...given, most },
  alpha: inputs.source ? (about.decoding.alpha ?? 1) : 1,
});

// A beam search and its tree, as answers.decode in the studio's server. begin: the tokens at the beginning.
/** @type {(model: LocalModel, text: string, options?: SearchOptions) => Decoded} */
export function decode(model, text, { beam_size = 4, n_best = Math.min(beam_size, 4), begin = [], ...more } = {}) {
  if (!(beam_size >= 1 && beam_size <= MOST_BEAMS && n_best >= 1 && n_best <= beam_size))
    throw new Error(
      `beam_size must be between 1 and ${MOST_BEAMS} and n_best at most beam_size, not ${beam_size} and ${n_best}`,
    );
  const started = writing(model, text, more);
  const { tokenizer, inputs, trace } = started;
  tokenizer.check(begin);
  if (inputs.source?.length === 1) throw new Error('the text is empty, so there is nothing to search for');
  const settings = settingsOf(model, started, { beam_size, n_best, begin });
  const tree = new SearchTree(settings, tokenizer);
  const texts = search(started, settings, round => tree.watch(round));
  trace.check();
  return {
    source: text,
    texts: texts.map(found => ({
      text: textOf(started, found),
      pieces: tokenizer.pieces(found.tokens),
      score: found.ranking,
      log_probability: found.logProbs.reduce((sum, each) => sum + each, 0),
      token_log_probs: found.logProbs,
      finished: found.finished,
    })),
    tree: {
      search: { beam_size, n_best, alpha: settings.alpha },
      ...{ least: 0, most: settings.most, rounds: tree.rounds, nodes: tree.nodes },
    },
  };
}
// A model's own translation of a text, which a run of a translation model reads as its target; null for other tasks.
/** @type {(model: LocalModel, text: string) => string | null} */
export function ownTarget(model, text) {
  if (model.about.task !== 'translate') return null;
  if (model.example(text).inputs.source.length === 1) return '';
  const { beam_size = 4 } = model.about.decoding;
  const started = writing(model, text, {});
  const [best] = search(started, settingsOf(model, started, { beam_size, n_best: 1 }), () => {});
  return textOf(started, best);
}
