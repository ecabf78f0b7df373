// Sampled texts, with the same random numbers as in Python: generate/sampling.py, and draws in studio/answers.py.
import { logSoftmax, top } from './beam.js';
import { writing, written } from './generate.js';
import { SPECIAL } from './tokenizer.js';

const LISTED = 10; // tokens of a step

// ---- random numbers, as numpy's SeedSequence and PCG64

/** @type {(value: number, by: number) => number} */
const mixed = (value, by) => {
  const product = Math.imul(value, by);
  return product ^ (product >>> 16);
};
// Four numbers of 64 bits from any number of 32 bits.
/** @type {(entropy: number[]) => bigint[]} */
function seeds(entropy) {
  let constant = 0x43b0d7e5;
  /** @type {(value: number) => number} */
  const hashed = value => {
    const last = constant;
    constant = Math.imul(constant, 0x931e8875);
    return mixed(value ^ last, constant);
  };
  /** @type {(x: number, y: number) => number} */
  const mix = (x, y) => {
    const value = Math.imul(0xca01f9dd, x) - Math.imul(0x4973f715, y);
    return value ^ (value >>> 16);
  };
  const pool = Array.from({ length: 4 }, (_, i) => hashed(entropy[i] ?? 0));
  for (let from = 0; from < 4; from++)
    for (let to = 0; to < 4; to++) if (from !== to) pool[to] = mix(pool[to], hashed(pool[from]));
  for (const value of entropy.slice(4)) for (let to = 0; to < 4; to++) pool[to] = mix(pool[to], hashed(value));
  constant = 0x8b51f9dd;
  const words = Array.from({ length: 8 }, (_, i) => {
    const value = pool[i % 4] ^ constant;
    constant = Math.imul(constant, 0x58f38ded);
    return BigInt(mixed(value, constant) >>> 0);
  });
  return [0, 2, 4, 6].map(i => words[i] | (words[i + 1] << 32n));
}
const MULTIPLIER = 0x2360ed051fc65da44385df649fccf645n;
/** @type {(value: bigint) => bigint} */
const whole = value => BigInt.asUintN(128, value);
// The random numbers of one text, between 0 and 1.
/** @type {(seed: number, prompt: number[], sample: number, count: number) => number[]} */
export function uniforms(seed, prompt, sample, count) {
  const [high, low, highStep, lowStep] = seeds([seed, sample, ...prompt]);
  const increment = whole((((highStep << 64n) | lowStep) << 1n) | 1n);
  /** @type {(value: bigint) => bigint} */
  const after = value => whole(value * MULTIPLIER + increment);
  let state = after(whole(increment + ((high << 64n) | low)));
  return Array.from({ length: count }, () => {
    state = after(state);
    const bits = BigInt.asUintN(64, (state >> 64n) ^ state);
    const turn = state >> 122n;
    const turned = BigInt.asUintN(64, (bits >> turn) | (bits << (64n - turn)));
    return Number(turned >> 11n) / 2 ** 53;
  });
}

// ---- the distribution that a token is drawn from

// Log-probabilities after the repetition penalty: a positive logit of an earlier token is divided by it, a negative one
// is multiplied by it.
/** @type {(own: Float32Array, logits: Values, earlier: Set<number>, penalty: number) => Float32Array} */
const penalised = (own, logits, earlier, penalty) =>
  own.map((value, token) => {
    if (!earlier.has(token) || penalty === 1) return value;
    const logit = logits[token];
    return value + ((logit > 0 ? logit / penalty : logit * penalty) - logit);
  });
// The log-probabilities from which to sample; those of excluded tokens are -Infinity.
/** @type {(logProbs: Float32Array, by: Sampling) => Float32Array} */
function shaped(logProbs, { temperature, top_k, top_p }) {
  let x = logProbs;
  if (temperature !== 0 && temperature !== 1) x = logSoftmax(x.map(value => value / temperature));
  if (top_k != null) {
    const least = x[/** @type {number} */ (top(x, Math.min(top_k, x.length)).at(-1))];
    x = logSoftmax(x.map(value => (value < least ? -Infinity : value)));
  }
  if (top_p != null && top_p < 1) {
    const kept = x.slice().fill(-Infinity);
    let before = 0;
    for (const token of top(x, x.length)) {
      if (before >= top_p) break;
      kept[token] = x[token];
      before += Math.exp(x[token]);
    }
    x = logSoftmax(kept);
  }
  return x;
}
// The first token, in the order of the vocabulary, at which the cumulative probability exceeds the uniform number.
/** @type {(logProbs: Float32Array, uniform: number, by: Sampling) => number} */
function pick(logProbs, uniform, by) {
  if (by.temperature === 0) return top(logProbs, 1)[0];
  const widths = Float64Array.from(shaped(logProbs, by), Math.exp);
  const target = uniform * widths.reduce((a, b) => a + b, 0);
  let sum = 0;
  let last = 0;
  for (let token = 0; token < widths.length; token++) {
    sum += widths[token];
    if (widths[token] > 0) last = token;
    if (sum > target) return token;
  }
  return last;
}
/** @type {(logProbs: Float32Array, by: Sampling) => Float64Array} */
function distribution(logProbs, by) {
  if (by.temperature === 0) {
    const alone = new Float64Array(logProbs.length);
    alone[top(logProbs, 1)[0]] = 1;
    return alone;
  }
  return Float64Array.from(logSoftmax(shaped(logProbs, by)), Math.exp);
}

// Sampled texts, with the distribution of each step of the first.
/** @type {(model: LocalModel, text: string, options?: DrawOptions) => Draws} */
export function draws(model, text, options = {}) {
  const { repetition_penalty: penalty = 1, seed = 0, samples = 3, temperature = 1, ...more } = options;
  const by = { ...more, temperature };
  const started = writing(model, text, options);
  const { tokenizer, inputs, prefix, most, trace } = started;
  const prompt = [...(inputs.source ?? []), ...prefix];
  const texts = Array.from({ length: samples }, (_, sample) => {
    const numbers = uniforms(seed, prompt, sample, most);
    /** @type {SampledToken[]} */
    const tokens = [];
    let { state } = started;
    for (let newest = prefix[prefix.length - 1]; tokens.length < most && tokens.at(-1)?.token !== SPECIAL.eos; ) {
      const { logits, state: after } = started.next(newest, state);
      const own = logSoftmax(logits);
      // The start of a text is not an earlier token.
      const earlier = new Set([...prefix.slice(1), ...tokens.map(({ token }) => token)]);
      const allowed = penalised(own, logits, earlier, penalty);
      newest = pick(allowed, numbers[tokens.length], by);
      state = after;
      tokens.push({ token: newest, own, allowed });
    }
    return tokens;
  });
  trace.check();
  return {
    texts: texts.map(tokens => {
      const finished = tokens.at(-1)?.token === SPECIAL.eos;
      return {
        text: written(started, tokens.map(({ token }) => token).slice(0, tokens.length - Number(finished))),
        log_probability: tokens.reduce((sum, { token, own }) => sum + own[token], 0),
        finished,
      };
    }),
    steps: texts[0].map(({ token, own, allowed }) => {
      const best = top(own, LISTED);
      const ids = best.includes(token) ? best : [...best.slice(0, -1), token];
      const from = distribution(allowed, by);
      return {
        taken: token,
        word: tokenizer.pieces([token])[0],
        ids,
        words: tokenizer.pieces(ids),
        before: ids.map(id => Math.exp(own[id])),
        now: ids.map(id => from[id]),
        left: from.filter(share => share > 0).length,
        vocab: own.length,
      };
    }),
  };
}
