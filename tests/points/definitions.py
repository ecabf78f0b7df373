"""Every formula of the catalogue as an expression that can be computed: plain torch, float64.

The key of an expression is the entry for its own formula, or `entry | words` for the form of a
variant. Its names are the formula's placeholders (points of the same part, inputs, weights) and
those of `CONTEXT`. The formulas do not define rows that contain only -inf: here, their largest
entry counts as 0, and 0 / 0 is 0.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from translucid.parts.activations import ACTIVATIONS, SYMBOLS

# Other names in expressions: for what a formula expresses in words or by an index.
CONTEXT = {
    "table", "slots", "key_slots", "p_q", "p_k", "m_h", "w_reach", "is_real", "epsilon", "d",
    "wide", "groups", "softmaxes", "mask_of", "hash_table", "running_mean", "running_variance",
    "f", "is_inside", "n_real", "d_head", "bucket", "spelling_of", "word_table", "before", "after",
    "counted", "left", "read", "read_by", "away", "observed",
}  # fmt: skip

DEFINITIONS: dict[str, str] = {
    "embedding.lookup": "rows(table, ids)",
    "embedding.scaled": "sqrt(d_model) * lookup",
    "characters.lookup": "(characters > 0)[..., None] * rows(table, characters)",
    "characters.convolved": "slide(W, lookup, wide) + b",
    "characters.activated": "is_inside * largest_with_0(convolved)",
    "characters.loudest": "over_windows(activated)",
    "characters.output": "times(V, loudest) + c",
    "characters.sum": "x + output",
    "segments.lookup": "rows(table, segments)",
    "segments.sum": "x + lookup",
    "positions.encoding | sinusoidal": "in_turn(sin(each(p) / base ** exponents(d)), "
    "cos(each(p) / base ** exponents(d)))",
    "positions.encoding | halves": "side_by_side(sin(each(p) / base ** exponents(d)), "
    "cos(each(p) / base ** exponents(d)))",
    "positions.encoding | fairseq": "side_by_side(sin(each(p) / base ** wide_exponents(d)), "
    "cos(each(p) / base ** wide_exponents(d)))",
    "positions.encoding | learned": "rows(table, p)",
    "positions.output": "x + encoding",
    "positions.angles": "each(p) / base ** exponents(d)",
    "positions.angles | interpolated": "each(p) / (scaling * base ** exponents(d))",
    "positions.angles | by_parts": "each(p) * (kept + (1 - kept) / scaling) / base ** exponents(d)",
    "positions.angles | dynamic": "each(p) / (base * (scaling * at_least_1((each(p) + 1) "
    "/ original_length) - scaling + 1) ** stretch(d)) ** exponents(d)",
    "positions.bias": "-m_h * abs(p_q - p_k)",
    "positions.bias | relative": "by_head(rows(table, bucket(p_k - p_q)))",
    "masks.causal": "key_slots <= slots",
    "masks.window": "abs(p_q - p_k) < w_reach",
    "masks.padding": "is_real",
    "lora.down": "times(A, x)",
    "lora.up": "scale * times(B, down)",
    "attention.query": "heads(x @ W_Q + b_Q, d_head)",
    "attention.key": "heads(x @ W_K + b_K, d_head)",
    "attention.key | cross": "heads(encoder_output @ W_K + b_K, d_head)",
    "attention.value": "heads(x @ W_V + b_V, d_head)",
    "attention.value | cross": "heads(encoder_output @ W_V + b_V, d_head)",
    "attention.normed_query": "gain_Q * query / sqrt(mean_of(query ** 2) + epsilon)",
    "attention.normed_key": "gain_K * key / sqrt(mean_of(key ** 2) + epsilon)",
    "attention.rotated_query": "turned(query, angles)",
    "attention.rotated_query | normed_query": "turned(normed_query, angles)",
    "attention.rotated_key": "turned(key, angles)",
    "attention.rotated_key | normed_key": "turned(normed_key, angles)",
    "attention.scale": "1 / sqrt(d_head)",
    "attention.scale | unscaled": "torch.tensor(1.0)",
    "attention.scale | factored": "factor / sqrt(d_head)",
    "attention.scores": "query @ key.mT",
    "attention.scores | grouped": "query @ serving(key, groups).mT",
    "attention.scores | rotated_query": "rotated_query @ rotated_key.mT",
    "attention.scores | rotated_query grouped": "rotated_query @ serving(rotated_key, groups).mT",
    "attention.scores | normed_query": "normed_query @ normed_key.mT",
    "attention.scores | normed_query grouped": "normed_query @ serving(normed_key, groups).mT",
    "attention.scaled": "scale * scores",
    "attention.biased": "scaled + bias",
    "attention.mask": "mask_of",
    "attention.masked": "torch.where(mask, scaled, -inf)",
    "attention.masked | biased": "torch.where(mask, biased, -inf)",
    "attention.shift": "largest(masked)",
    "attention.exponentials": "exp(masked - shift)",
    "attention.normaliser": "sum_of(exponentials)",
    "attention.pattern": "divided(exponentials, normaliser)",
    "attention.mixed": "pattern @ value",
    "attention.mixed | grouped": "pattern @ serving(value, groups)",
    "attention.output": "joined(mixed) @ W_O + b_O",
    "alignment.query": "times(W_q, hidden) + b_q",
    "alignment.query | dot": "hidden",
    "alignment.key": "times(W_k, encoder_output)",
    "alignment.scores | additive": "times(v, torch.tanh(query[:, :, None] + key[:, None]))[..., 0]",
    "alignment.scores | dot": "query @ key.mT",
    "alignment.shift": "largest(torch.where(is_real, scores, minus_infinity))",
    "alignment.exponentials": "is_real * exp(scores - shift)",
    "alignment.normaliser": "sum_of(exponentials)",
    "alignment.pattern": "divided(exponentials, normaliser)",
    "alignment.context": "pattern @ encoder_output",
    "alignment.output": "torch.tanh(times(W, side_by_side(context, hidden)) + b)",
    "ngram.discounted": "counted(ids)",
    "ngram.backoff": "left(ids)",
    "ngram.probability": "discounted + backoff * lower",
    "ngram.probability | lowest": "discounted + backoff / vocab",
    "lexicon.translation": "rows(table, source)",
    "alignment.jumps": "divided(is_real * distances[away], sum_of(is_real * distances[away]))",
    "alignment.emission": "(1 - unaligned) * read_by(translation) "
    "+ unaligned * each(unigram[read])",
    "alignment.posterior": "observed(pattern, emission)",
    "alignment.pattern | jumping": "posterior @ jumps",
    "alignment.mixture": "(1 - unaligned) * pattern @ translation + unaligned * unigram",
    "head.logits | counted": "torch.log(p)",
    "head.logits | product": "a * torch.log(p) + b * torch.log(mixture)",
    "norm.mean": "mean_of(x)",
    "norm.mean | running": "running_mean",
    "norm.variance": "mean_of((x - mean) ** 2)",
    "norm.variance | running": "running_variance",
    "norm.rms": "sqrt(mean_of(x ** 2) + epsilon)",
    "norm.normalised": "(x - mean) / sqrt(variance + epsilon)",
    "norm.normalised | rms": "x / rms",
    "norm.output": "gain * normalised + beta",
    "norm.output | none": "x",
    "residual.skip": "x",
    "residual.branch": "f(x)",
    "residual.sum": "skip + branch",
    "feedforward.hidden": "times(W_1, x) + b_1",
    "feedforward.gate": "act(times(W_g, x) + b_g)",
    "feedforward.activated": "act(hidden)",
    "feedforward.activated | gate": "gate * hidden",
    "feedforward.activated | identity": "hidden",
    "feedforward.output": "times(W_2, activated) + b_2",
    "dense.preactivation": "times(W, x) + b",
    "dense.activation": "act(preactivation)",
    "dense.activation | identity": "preactivation",
    "dense.skip": "x",
    "dense.sum": "skip + activation",
    "standardise.output": "(x - mean) / deviation",
    "perceptron.sum": "x @ w + b",
    "perceptron.output": "(sum > 0).double()",
    "recurrent.output": "h",
    "recurrent.output | bidirectional": "side_by_side(h_forward, h_backward)",
    "rnn.preactivation": "times(W, x) + times(U, h_before) + b",
    "rnn.hidden": "act(preactivation)",
    "lstm.forget_sum": "times(W_f, x) + times(U_f, h_before) + b_f",
    "lstm.input_sum": "times(W_i, x) + times(U_i, h_before) + b_i",
    "lstm.candidate_sum": "times(W_g, x) + times(U_g, h_before) + b_g",
    "lstm.output_sum": "times(W_o, x) + times(U_o, h_before) + b_o",
    "lstm.forget_gate": "sigmoid(forget_sum)",
    "lstm.input_gate": "sigmoid(input_sum)",
    "lstm.candidate": "torch.tanh(candidate_sum)",
    "lstm.output_gate": "sigmoid(output_sum)",
    "lstm.cell": "forget_gate * c_before + input_gate * candidate",
    "lstm.hidden": "output_gate * torch.tanh(cell)",
    "gru.reset_sum": "times(W_r, x) + times(U_r, h_before) + b_r",
    "gru.update_sum": "times(W_z, x) + times(U_z, h_before) + b_z",
    "gru.reset_gate": "sigmoid(reset_sum)",
    "gru.update_gate": "sigmoid(update_sum)",
    "gru.candidate_sum": "times(W_n, x) + b_n + reset_gate * (times(U_n, h_before) + b_hn)",
    "gru.candidate": "torch.tanh(candidate_sum)",
    "gru.hidden": "(1 - update_gate) * candidate + update_gate * h_before",
    "bridge.hidden": "torch.tanh(times(W_h, h) + b_h)",
    "bridge.cell": "times(W_c, c) + b_c",
    "bridge.copied_hidden": "h",
    "bridge.copied_hidden | top": "top_of(h)",
    "bridge.copied_hidden | bidirectional": "side_by_side(h_forward, h_backward)",
    "bridge.copied_hidden | top bidirectional": "top_of(side_by_side(h_forward, h_backward))",
    "bridge.copied_cell": "c",
    "bridge.copied_cell | top": "top_of(c)",
    "bridge.copied_cell | bidirectional": "side_by_side(c_forward, c_backward)",
    "bridge.copied_cell | top bidirectional": "top_of(side_by_side(c_forward, c_backward))",
    "feeding.input": "side_by_side(x, output_before)",
    "head.pool_scores": "x @ w",
    "head.pool_pattern | mean": "divided(is_real.double(), n_real)",
    "head.pool_pattern | first": "first_of(is_real)",
    "head.pool_pattern | last": "last_of(is_real)",
    "head.pool_pattern | attention": "softmax_of(pool_scores, is_real)",
    "head.pooled": "over_time(pool_pattern[..., None] * x)",
    "head.pooled | pool_pattern": "over_time(pool_pattern[..., None] * x)",
    "head.pooled | last": "h",
    "head.logits": "times(W, x) + b",
    "head.dense": "act(times(W_d, pooled) + b_d)",
    "head.dense | identity": "times(W_d, pooled) + b_d",
    "head.embedding": "pooled",
    "head.embedding | dense": "dense",
    "head.embedding | normalised": "pooled / length_of(pooled)",
    "head.embedding | dense normalised": "dense / length_of(dense)",
    "head.hidden": "x",
    "head.transformed": "act(times(W_d, x) + b_d)",
    "head.logits | fill": "times(W, normed) + b",
    "head.class_logits | dense": "times(W, dense) + b",
    "head.logits | scaled": "times(W, logit_scale * x) + b",
    "head.class_logits": "times(W, pooled) + b",
    "ngrams.words": "rows(table, ids)",
    "ngrams.pairs": "hash_table(ids)",
    "ngrams.sum": "class_logits + over_time(is_real[..., None] * (words + pairs))",
    "linear.words": "word_table(0)",
    "linear.pairs": "word_table(1)",
    "linear.characters": "spelling_of(0)",
    "linear.next": "spelling_of(1)",
    "linear.previous": "spelling_of(2)",
    "linear.class_logits": "b + over_time(is_real[..., None] * (words + pairs + characters)) "
    "/ sqrt(n_real)",
    "linear.logits": "words + characters + before(next) + after(previous) + b",
    "ensemble.logits": "torch.log(mean_over(softmaxes))",
    "ensemble.class_logits": "torch.log(mean_over(softmaxes))",
    "softmax.shift": "largest(x)",
    "softmax.exponentials": "exp(x - shift)",
    "softmax.normaliser": "sum_of(exponentials)",
    "softmax.probabilities": "divided(exponentials, normaliser)",
}  # fmt: skip

# Placeholder formulas of the catalogue: each of Translucid's own parts has a form instead.
GENERAL = {"positions.encoding", "alignment.scores", "head.pool_pattern"}


def rows(table: Tensor, ids: Tensor) -> Tensor:
    return table[ids]


def times(weight: Tensor, x: Tensor) -> Tensor:
    """W x, at every position."""
    return torch.einsum("oi,...i->...o", weight, x)


def heads(x: Tensor, d_head: int) -> Tensor:
    """Columns 0 to d_head - 1 are head 0, and so on."""
    return torch.stack(x.split(int(d_head), dim=2), dim=1)


def joined(x: Tensor) -> Tensor:
    return torch.cat(list(x.unbind(1)), dim=2)


def serving(key: Tensor, groups: int) -> Tensor:
    """Head g(h) for each query head h: the first `groups` heads share head 0, and so on."""
    return torch.stack([key[:, h // groups] for h in range(groups * key.shape[1])], dim=1)


def turned(x: Tensor, angles: Tensor) -> Tensor:
    """Multiply each pair that has an angle by the matrix [[cos, -sin], [sin, cos]]."""
    out = x.clone()
    for i in range(angles.shape[2]):
        cos, sin = angles[:, None, :, i].cos(), angles[:, None, :, i].sin()
        out[..., 2 * i] = cos * x[..., 2 * i] - sin * x[..., 2 * i + 1]
        out[..., 2 * i + 1] = sin * x[..., 2 * i] + cos * x[..., 2 * i + 1]
    return out


def exponents(d: int) -> Tensor:
    return torch.tensor([2 * i / d for i in range(d // 2)], dtype=torch.float64)


def in_turn(even: Tensor, odd: Tensor) -> Tensor:
    out = even.new_empty(*even.shape[:2], 2 * even.shape[2])
    out[..., 0::2], out[..., 1::2] = even, odd
    return out


def largest(x: Tensor) -> Tensor:
    found = x.max(dim=-1, keepdim=True).values
    return torch.where(found == -torch.inf, 0.0, found)


def divided(x: Tensor, by: Tensor) -> Tensor:
    return torch.where(by == 0, 0.0, x / by)


def softmax_of(scores: Tensor, mask: Tensor) -> Tensor:
    parts = torch.exp(scores) * mask
    return divided(parts, parts.sum(dim=-1, keepdim=True))


def slide(weight: Tensor, x: Tensor, wide: int) -> Tensor:
    """The output of each filter for each window of `wide` characters, with zeros around the
    word."""
    batch, length, characters, size = x.shape
    around = F.pad(x.reshape(batch * length, characters, size), (0, 0, wide - 1, wide - 1))
    windows = [around[:, t : t + wide] for t in range(characters + wide - 1)]
    # torch's unfold puts a window's characters last: column d * wide + t is character t, value d.
    flat = [window.transpose(1, 2).reshape(batch * length, -1) for window in windows]
    answers = torch.stack([times(weight, window) for window in flat], dim=1)
    return answers.reshape(batch, length, characters + wide - 1, -1)


def first_of(mask: Tensor) -> Tensor:
    out = torch.zeros(mask.shape, dtype=torch.float64)
    for row, there in enumerate(mask.tolist()):
        if any(there):
            out[row, there.index(True)] = 1
    return out


HELPERS = {
    "torch": torch, "inf": torch.inf, "minus_infinity": -torch.inf,
    "exp": torch.exp, "sin": torch.sin, "cos": torch.cos, "abs": abs, "sigmoid": torch.sigmoid,
    "sqrt": lambda x: torch.as_tensor(x, dtype=torch.float64).sqrt(),
    "sum_of": lambda x: x.sum(dim=-1, keepdim=True),
    "mean_of": lambda x: x.sum(dim=-1, keepdim=True) / x.shape[-1],
    "mean_over": lambda tensors: sum(tensors) / len(tensors),
    "each": lambda x: x[..., None],
    "at_least_1": lambda x: torch.where(x > 1, x, 1.0),
    "top_of": lambda x: x[:, -1:],
    "length_of": lambda x: (x**2).sum(dim=-1, keepdim=True) ** 0.5,
    "by_head": lambda x: x[:, 0].permute(0, 3, 1, 2),
    "wide_exponents": lambda d: torch.arange(d // 2, dtype=torch.float64) / (d / 2 - 1),
    "stretch": lambda d: d / (d - 2),
    "over_time": lambda x: x.sum(dim=1), "over_windows": lambda x: x.max(dim=2).values,
    "largest_with_0": lambda x: torch.where(x > 0, x, 0.0),
    "side_by_side": lambda *tensors: torch.cat(tensors, dim=-1),
    "last_of": lambda mask: first_of(mask.flip(1)).flip(1),
    **{f.__name__: f for f in (rows, times, heads, joined, serving, turned, exponents, in_turn,
                               largest, divided, softmax_of, slide, first_of)},
}  # fmt: skip

ACTS = {written: ACTIVATIONS[name] for name, written in SYMBOLS.items()}
