// Beam search for one text, as generate/beam.py. A finished text keeps its place in the beam, and prefixes compete for
// the other places by log-probability. Finished texts are compared by log-probability / length^alpha. Scores are
// float32 numbers, as in Python.
import { SPECIAL } from './tokenizer.js';

// log(softmax(x)).
/** @type {(x: Values) => Float32Array} */
export function logSoftmax(x) {
  let most = -Infinity;
  for (const value of x) most = Math.max(most, value);
  let sum = 0;
  for (const value of x) sum += Math.exp(value - most);
  const log = most + Math.log(sum);
  return Float32Array.from(x).map(value => value - log);
}
// The indices of the k largest values, largest first.
/** @type {(x: Values, k: number) => number[]} */
export function top(x, k) {
  /** @type {number[]} */
  const best = [];
  for (let i = 0; i < x.length; i++) {
    if (best.length === k && !(x[i] > x[best[k - 1]])) continue;
    let at = best.length;
    while (at > 0 && x[i] > x[best[at - 1]]) at--;
    best.splice(at, 0, i);
    if (best.length > k) best.pop();
  }
  return best;
}

/** @type {(beam: Beam, alpha: number) => number} */
const ranking = ({ score, tokens }, alpha) => Math.fround(score / Math.max(tokens.length, 1) ** alpha);
/** @type {(beam: Beam) => boolean} */
const isLive = ({ finished, score }) => !finished && score > -Infinity; // a place without a beam has score -Infinity
const EMPTY = { tokens: [], logProbs: [], score: -Infinity, finished: false, parent: -1 };

// The log-probabilities after constraints: only this token, if it is given.
/** @type {(own: Float32Array, forced: number | undefined) => Float32Array} */
const constrained = (own, forced) =>
  forced === undefined ? own : own.map((value, token) => (token === forced ? value : -Infinity));

// The best continuations of the live beams, in the places that finished texts leave, best first.
/** @type {(beams: Beam[], rows: (BeamRow | null)[]) => Beam[]} */
function chosen(beams, rows) {
  const width = beams.length;
  const candidates = rows.flatMap((row, parent) =>
    row === null
      ? []
      : top(row.adjusted, width).map(token => {
          const score = Math.fround(beams[parent].score + row.adjusted[token]);
          return { parent, token, score };
        }),
  );
  const best = candidates.filter(({ score }) => score > -Infinity).sort((a, b) => b.score - a.score);
  let taken = 0;
  return beams.map((beam, place) => {
    if (beam.finished) return { ...beam, parent: place };
    const one = best[taken++];
    if (!one) return { ...beam, ...EMPTY };
    const { own, state } = /** @type {BeamRow} */ (rows[one.parent]);
    const { tokens, logProbs } = beams[one.parent];
    return {
      tokens: [...tokens, one.token],
      logProbs: [...logProbs, own[one.token]],
      score: one.score,
      finished: one.token === SPECIAL.eos,
      parent: one.parent,
      state,
    };
  });
}
// Whether no live beam can still become one of the best texts. A score can only fall.
/** @type {(beams: Beam[], settings: SearchSettings) => boolean} */
function settled(beams, { n_best, alpha, most }) {
  const ended = beams.filter(beam => beam.finished).map(beam => ranking(beam, alpha));
  const bar = ended.sort((a, b) => b - a)[n_best - 1] ?? -Infinity;
  const live = Math.max(...beams.map(beam => (beam.finished ? -Infinity : beam.score)));
  return bar >= Math.fround(live / most ** alpha);
}
// The best texts, best first. watch: called with each round.
/** @type {(writing: Writing, settings: SearchSettings, watch: (round: BeamRound) => void) => BeamText[]} */
export function search({ prefix, state, next }, settings, watch) {
  const { beam_size, n_best, alpha, most, begin } = settings;
  /** @type {Beam[]} */
  let beams = Array.from({ length: beam_size }, (_, i) => ({ ...EMPTY, score: i ? -Infinity : 0, state }));
  for (let round = 1, done = false; !done; round++) {
    const rows = beams.map(beam => {
      if (!isLive(beam)) return null;
      const { logits, state: after } = next(beam.tokens.at(-1) ?? prefix[prefix.length - 1], beam.state);
      const own = logSoftmax(logits);
      return { own, adjusted: constrained(own, begin[round - 1]), state: after };
    });
    const before = beams;
    beams = chosen(before, rows);
    done = round >= most || settled(beams, settings);
    watch({ before, rows, after: beams, done });
  }
  return beams
    .map(beam => ({ ...beam, ranking: ranking(beam, alpha) }))
    .filter(beam => beam.ranking > -Infinity)
    .sort((a, b) => b.ranking - a.ranking)
    .slice(0, n_best);
}
