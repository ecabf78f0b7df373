"""The meaning of every trace point: axes, symbol and formula.

A full name such as `decoder.layers.2.cross_attention.pattern` ends in a part and a point. The
part is the last word of the scope (`cross_attention` is an `attention`, `final_norm` a `norm`),
so the entry is `attention.pattern`.

In a formula, `<name>` stands for another point of the same part, an input or a weight. It is
printed as a symbol in captions, and as numbers in worked solutions.

A part may have several variants (rotary positions, a gate, no bias). Its entries then have one
formula per variant in `forms`. The keys of `forms` consist of keywords of the part, such as
"grouped", and of names of its other points in the run, such as "rotated_query".
For a query without visible keys, the shift is 0 and the attention weights are zeros.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from translucid.core.errors import UnknownPointError, nearest


@dataclass(frozen=True)
class Point:
    """One trace point: symbol, axes, meaning and formula."""

    symbol: str  # LaTeX, as textbooks write it
    axes: tuple[str, ...]
    meaning: str  # one line
    formula: str  # LaTeX, the right-hand side; empty where the point is an input
    forms: Mapping[str, str] = field(default_factory=dict)  # formulas for variants of the part

    def template(self, words: Collection[str] = ()) -> str:
        """The formula for a variant: the first form whose keywords are all in `words`, or the
        default."""
        for needed, form in self.forms.items():
            if all(word in words for word in needed.split()):
                return form
        return self.formula


@dataclass(frozen=True)
class Variant:
    """The variant of a part, which determines the formulas of its points and the symbols in
    them."""

    words: Collection[str] = ()  # keywords of forms, such as "grouped"
    absent: Collection[str] = ()  # missing terms, such as a bias
    symbols: Mapping[str, str] = field(default_factory=dict)  # by name, such as "act"


def variant(
    absent: Collection[str] = (), symbols: Mapping[str, str] | None = None, **words: bool
) -> Variant:
    """Make a variant from flags: `variant(grouped=True, unscaled=False)`."""
    return Variant({word for word, holds in words.items() if holds}, absent, symbols or {})


def _axes(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_TOKENS = _axes("batch length d_model")
_HIDDEN = _axes("batch length hidden")
_PAIRS = _axes("batch heads queries keys")  # size 1 if all entries along an axis are equal
_ONE_PER_QUERY = _axes("batch heads queries one")

CATALOGUE: dict[str, Point] = {
    # Embeddings and positions
    "embedding.lookup": Point("E", _TOKENS, "the row of the embedding table for each token id", r"\mathrm{table}[<ids>]"),
    "embedding.scaled": Point("X", _TOKENS, "the embedding, scaled to the magnitude of the positional encoding", r"\sqrt{<d_model>}\,<lookup>"),
    "characters.lookup": Point("E", _axes("batch length characters d_character"), "the embedding of each character of each word", r"[\,<characters> > 0\,] \cdot \mathrm{table}[<characters>]"),
    "characters.convolved": Point("a", _axes("batch length windows filters"), "the response of each filter to each window of characters", r"<W> * <lookup> + <b>"),
    "characters.activated": Point("r", _axes("batch length windows filters"), "the filter responses after ReLU; 0 beyond the end of the word", r"[\,w \text{ holds a character}\,] \cdot \max(0, <convolved>)"),
    "characters.loudest": Point("m", _axes("batch length filters"), "the maximum response of each filter over the word", r"\max_w <activated>"),
    "characters.output": Point("y", _TOKENS, "the word vector computed from its characters", r"<V> <loudest> + <c>"),
    "characters.sum": Point("x + y", _TOKENS, "the word embedding plus the vector of its characters", r"<x> + <output>"),
    "segments.lookup": Point("s", _TOKENS, "the segment embedding of each token", r"\mathrm{table}[<segments>]"),
    "segments.sum": Point("x + s", _TOKENS, "the token embedding plus the segment embedding", r"<x> + <lookup>"),
    "positions.encoding": Point(r"\mathrm{PE}", _TOKENS, "the positional encoding, one vector per position", r"\mathrm{PE}(<p>)", {"sinusoidal": r"[\sin(<p> / <base>^{2i/d}), \cos(<p> / <base>^{2i/d})]", "halves": r"[\sin(<p> / <base>^{2i/d}); \cos(<p> / <base>^{2i/d})]", "fairseq": r"[\sin(<p> / <base>^{i/(d/2-1)}); \cos(<p> / <base>^{i/(d/2-1)})]", "learned": r"\mathrm{table}[<p>]"}),
    "positions.output": Point(r"\tilde{X}", _TOKENS, "the embedding plus the positional encoding", r"<x> + <encoding>"),
    "positions.angles": Point(r"\theta", _axes("batch length pairs"), "the rotation angle of each pair of dimensions", r"<p> / <base>^{2i/d}", {"interpolated": r"<p> / (<scaling> \cdot <base>^{2i/d})", "by_parts": r"<p> \cdot (<kept> + (1 - <kept>) / <scaling>) / <base>^{2i/d}", "dynamic": r"<p> / (<base> \cdot (<scaling> \cdot \max(1, (<p> + 1) / <original_length>) - <scaling> + 1)^{d/(d-2)})^{2i/d}"}),
    "positions.bias": Point("B", _PAIRS, "the bias added to each score for the distance between query and key", r"-m_h\,|p_q - p_k|", {"relative": r"\mathrm{table}[\mathrm{bucket}(p_k - p_q)]_h"}),
    # Masks
    "masks.causal": Point(r"M_{\mathrm{causal}}", _PAIRS, "the causal mask, which hides later positions", r"[\,k \le q\,]"),
    "masks.window": Point(r"M_{\mathrm{window}}", _PAIRS, "the window mask, which hides distant positions", r"[\,|p_q - p_k| < w\,]"),
    "masks.padding": Point(r"M_{\mathrm{pad}}", _PAIRS, "the padding mask, which hides padding tokens", r"[\,k \text{ is real}\,]"),
    # Attention
    "attention.query": Point("Q", _axes("batch heads queries d_head"), "the query vectors: what each position looks for", r"<x> <W_Q> + <b_Q>"),
    "attention.key": Point("K", _axes("batch kv_heads keys d_head"), "the key vectors, which queries are matched against", r"<x> <W_K> + <b_K>", {"cross": r"<encoder_output> <W_K> + <b_K>"}),
    "attention.value": Point("V", _axes("batch kv_heads keys d_head"), "the value vectors: the content that each position provides", r"<x> <W_V> + <b_V>", {"cross": r"<encoder_output> <W_V> + <b_V>"}),
    "attention.normed_query": Point(r"\hat{Q}", _axes("batch heads queries d_head"), "the query of each head, RMS-normalized, times a learned gain", r"<gain_Q> \odot <query> / \sqrt{\frac{1}{n} \sum <query>^2 + \epsilon}"),
    "attention.normed_key": Point(r"\hat{K}", _axes("batch kv_heads keys d_head"), "the key of each head, RMS-normalized, times a learned gain", r"<gain_K> \odot <key> / \sqrt{\frac{1}{n} \sum <key>^2 + \epsilon}"),
    "attention.rotated_query": Point("Q'", _axes("batch heads queries d_head"), "the query, rotated according to its position", r"R(<angles>)\,<query>", {"normed_query": r"R(<angles>)\,<normed_query>"}),
    "attention.rotated_key": Point("K'", _axes("batch kv_heads keys d_head"), "the key, rotated according to its position", r"R(<angles>)\,<key>", {"normed_key": r"R(<angles>)\,<normed_key>"}),
    "attention.scale": Point("s", (), "the factor that keeps the scores from growing with d_k", r"1 / \sqrt{<d_head>}", {"unscaled": r"1", "factored": r"<factor> / \sqrt{<d_head>}"}),
    "attention.scores": Point("S", _PAIRS, "how well each query matches each key", r"<query> <key>^{\top}", {"rotated_query grouped": r"<rotated_query>_h {<rotated_key>}_{g(h)}^{\top}", "rotated_query": r"<rotated_query> <rotated_key>^{\top}", "normed_query grouped": r"<normed_query>_h {<normed_key>}_{g(h)}^{\top}", "normed_query": r"<normed_query> <normed_key>^{\top}", "grouped": r"<query>_h <key>_{g(h)}^{\top}"}),
    "attention.scaled": Point("S'", _PAIRS, "the scaled scores", r"<scale> \cdot <scores>"),
    "attention.biased": Point(r"\tilde{S}", _PAIRS, "the scores plus the distance bias", r"<scaled> + <bias>"),
    "attention.mask": Point("M", _PAIRS, "the keys that each query may attend to", ""),
    "attention.masked": Point("S''", _PAIRS, "the scores, with minus infinity at masked keys", r"\mathrm{where}(<mask>, <scaled>, -\infty)", {"biased": r"\mathrm{where}(<mask>, <biased>, -\infty)"}),
    "attention.shift": Point("m", _ONE_PER_QUERY, "the largest score of each row, subtracted to avoid overflow", r"\max_k <masked>"),
    "attention.exponentials": Point(r"\mathcal{E}", _PAIRS, "e to the power of each score", r"\exp(<masked> - <shift>)"),
    "attention.normaliser": Point("Z", _ONE_PER_QUERY, "the sum of each row", r"\textstyle\sum_k <exponentials>"),
    "attention.pattern": Point("A", _PAIRS, "the attention weights of each query; each row sums to 1", r"<exponentials> / <normaliser>"),
    "attention.mixed": Point("Y", _axes("batch heads queries d_head"), "the average of the values, weighted by the attention weights", r"<pattern> <value>", {"grouped": r"<pattern>_h <value>_{g(h)}"}),
    "attention.output": Point("O", _axes("batch queries d_model"), "the heads, concatenated and projected", r"\mathrm{concat}(<mixed>)\,<W_O> + <b_O>"),
    # Attention of a recurrent decoder
    "alignment.query": Point("q", _axes("batch queries d_query"), "the decoder's state as a query", r"<W_q> <hidden> + <b_q>", {"dot": r"<hidden>"}),
    "alignment.key": Point("k", _axes("batch keys d_query"), "the source positions as keys", r"<W_k> <encoder_output>"),
    "alignment.scores": Point("e", _axes("batch queries keys"), "how well each target state matches each source position", r"a(<query>, <key>)", {"additive": r"<v>^{\top} \tanh(<query> + <key>)", "dot": r"<query> <key>^{\top}"}),
    "alignment.shift": Point("m", _axes("batch queries one"), "the largest score of each row", r"\max_{k \text{ real}} <scores>"),
    "alignment.exponentials": Point(r"\mathcal{E}", _axes("batch queries keys"), "e to the power of each score; 0 at padding", r"[\,k \text{ is real}\,] \cdot \exp(<scores> - <shift>)"),
    "alignment.normaliser": Point("Z", _axes("batch queries one"), "the sum of each row", r"\textstyle\sum_k <exponentials>"),
    "alignment.pattern": Point(r"\alpha", _axes("batch queries keys"), "the attention weights of each target position over the source", r"<exponentials> / <normaliser>", {"jumping": r"<posterior> <jumps>"}),
    "alignment.context": Point("c", _axes("batch queries d_encoder"), "the context vector: the weighted average of the encoder outputs", r"<pattern> <encoder_output>"),
    "alignment.output": Point(r"\tilde{h}", _axes("batch queries hidden"), "the decoder state combined with its context", r"\tanh(<W> [<context>; <hidden>] + <b>)"),
    # Counted probabilities: n-grams, and the alignment of a lexicon
    "ngram.discounted": Point("d", _axes("batch length vocab"), "the count of each n-gram minus its discount, divided by the count of its context", r"\mathrm{table}[<ids>]"),
    "ngram.backoff": Point(r"\gamma", _axes("batch length one"), "the probability left for the order below; 1 after an unknown context", r"\mathrm{table}[<ids>]"),
    "ngram.probability": Point("p_n", _axes("batch length vocab"), "the probability of each next token by n-grams up to this order", r"<discounted> + <backoff> \cdot <lower>", {"lowest": r"<discounted> + <backoff> / <vocab>"}),
    "lexicon.translation": Point("t", _axes("batch keys vocab"), "the probability of each target token as the translation of a source token", r"\mathrm{table}[<source>]"),
    "alignment.jumps": Point("J", _axes("batch states keys"), "the probability of each jump from one source position to another; state 0 is the start", r"[\,k \text{ is real}\,] \cdot <distances>_{k-s} / \textstyle\sum_{k \text{ real}} <distances>_{k-s}"),
    "alignment.emission": Point("e", _axes("batch queries keys"), "the probability of the token just read as the translation of each source token", r"(1 - <unaligned>) \cdot <translation> + <unaligned> \cdot <unigram>"),
    "alignment.posterior": Point(r"\beta", _axes("batch queries states"), "for each source position, the probability that the token just read translates it; state 0 is the start", r"\mathrm{normalize}(<pattern>_{t-1} \odot <emission>)"),
    "alignment.mixture": Point("m", _axes("batch queries vocab"), "the probability of each target token as a translation, averaged over the source", r"(1 - <unaligned>) \cdot <pattern> <translation> + <unaligned> \cdot <unigram>"),
    # Low-rank adaptation
    "lora.down": Point("d", _axes("batch length rank"), "the input projected to the adapter's rank", r"<A> <x>"),
    "lora.up": Point("u", _axes("batch length features"), "the adapter's output, added to that of its layer", r"<scale> \cdot <B> <down>"),
    # Normalisation and the residual stream
    "norm.mean": Point(r"\mu", _axes("batch length features"), "the mean that is subtracted", r"\frac{1}{n} \sum <x>", {"running": r"\text{running mean}"}),
    "norm.variance": Point(r"\sigma^2", _axes("batch length features"), "the variance, by whose square root the input is divided", r"\frac{1}{n} \sum (<x> - <mean>)^2", {"running": r"\text{running variance}"}),
    "norm.rms": Point(r"\mathrm{rms}", _axes("batch length features"), "the root mean square by which the input is divided", r"\sqrt{\frac{1}{n} \sum <x>^2 + \epsilon}"),
    "norm.normalised": Point(r"\hat{x}", _TOKENS, "the input scaled to mean 0 and variance 1 (RMS norm: to root mean square 1)", r"(<x> - <mean>) / \sqrt{<variance> + \epsilon}", {"rms": r"<x> / <rms>"}),
    "norm.output": Point("y", _TOKENS, "the normalized input with learned gain and shift", r"<gain> \odot <normalised> + <beta>", {"none": r"<x>"}),
    "residual.skip": Point("x", _TOKENS, "the sub-layer's input, which bypasses it", r"<x>"),
    "residual.branch": Point("f(x)", _TOKENS, "the output of the sub-layer", r"f(<x>)"),
    "residual.sum": Point("x + f(x)", _TOKENS, "the residual stream after the sub-layer", r"<skip> + <branch>"),
    # Layers on one position
    "feedforward.hidden": Point("u", _axes("batch length d_ff"), "the hidden layer before its activation", r"<W_1> <x> + <b_1>"),
    "feedforward.gate": Point("g", _axes("batch length d_ff"), "the gate: the fraction of each hidden unit that passes", r"<act>(<W_g> <x> + <b_g>)"),
    "feedforward.activated": Point("a", _axes("batch length d_ff"), "the hidden layer after its activation or gate", r"<act>(<hidden>)", {"gate": r"<gate> \odot <hidden>", "identity": r"<hidden>"}),
    "feedforward.output": Point("y", _TOKENS, "the output, projected back to d_model", r"<W_2> <activated> + <b_2>"),
    "dense.preactivation": Point("z", _axes("batch features"), "the weighted sum of the inputs", r"<W> <x> + <b>"),
    "dense.activation": Point("h", _axes("batch features"), "the output of the layer", r"<act>(<preactivation>)", {"identity": r"<preactivation>"}),
    "dense.skip": Point("x", _axes("batch features"), "the layer's input, which bypasses it", r"<x>"),
    "dense.sum": Point("x + h", _axes("batch features"), "the layer's output plus its input", r"<skip> + <activation>"),
    "standardise.output": Point(r"\hat{x}", _axes("batch features"), "each feature, standardized to mean 0 and standard deviation 1", r"(<x> - <mean>) / <deviation>"),
    "perceptron.sum": Point("z", _axes("batch"), "the weighted sum; 0 on the decision boundary", r"<w> \cdot <x> + <b>"),
    "perceptron.output": Point("y", _axes("batch"), "1 if the sum is positive, else 0", r"[\,<sum> > 0\,]"),
    # Recurrent cells
    "recurrent.output": Point("h", _HIDDEN, "the hidden states of the top layer; 0 at padding", r"<h>", {"bidirectional": r"[<h_forward>; <h_backward>]"}),
    "rnn.preactivation": Point("a", _HIDDEN, "the weighted sum of the input and the previous state", r"<W> <x> + <U> <h_before> + <b>"),
    "rnn.hidden": Point("h", _HIDDEN, "the new hidden state", r"<act>(<preactivation>)"),
    "lstm.forget_sum": Point("a_f", _HIDDEN, "the forget gate before its sigmoid", r"<W_f> <x> + <U_f> <h_before> + <b_f>"),
    "lstm.input_sum": Point("a_i", _HIDDEN, "the input gate before its sigmoid", r"<W_i> <x> + <U_i> <h_before> + <b_i>"),
    "lstm.candidate_sum": Point("a_g", _HIDDEN, "the candidate before its tanh", r"<W_g> <x> + <U_g> <h_before> + <b_g>"),
    "lstm.output_sum": Point("a_o", _HIDDEN, "the output gate before its sigmoid", r"<W_o> <x> + <U_o> <h_before> + <b_o>"),
    "lstm.forget_gate": Point("f", _HIDDEN, "the fraction of the old cell state that is kept", r"\sigma(<forget_sum>)"),
    "lstm.input_gate": Point("i", _HIDDEN, "the fraction of the candidate that is added", r"\sigma(<input_sum>)"),
    "lstm.candidate": Point("g", _HIDDEN, "the candidate for the new cell content", r"\tanh(<candidate_sum>)"),
    "lstm.output_gate": Point("o", _HIDDEN, "the fraction of the cell state that is output", r"\sigma(<output_sum>)"),
    "lstm.cell": Point("c", _HIDDEN, "the new cell state: the kept part of the old state plus the added part of the candidate", r"<forget_gate> \odot <c_before> + <input_gate> \odot <candidate>"),
    "lstm.hidden": Point("h", _HIDDEN, "the new hidden state: the output part of the cell state", r"<output_gate> \odot \tanh(<cell>)"),
    "gru.reset_sum": Point("a_r", _HIDDEN, "the reset gate before its sigmoid", r"<W_r> <x> + <U_r> <h_before> + <b_r>"),
    "gru.update_sum": Point("a_z", _HIDDEN, "the update gate before its sigmoid", r"<W_z> <x> + <U_z> <h_before> + <b_z>"),
    "gru.reset_gate": Point("r", _HIDDEN, "the fraction of the old state that the candidate uses", r"\sigma(<reset_sum>)"),
    "gru.update_gate": Point("z", _HIDDEN, "the fraction of the old state that is kept", r"\sigma(<update_sum>)"),
    "gru.candidate_sum": Point("a_n", _HIDDEN, "the candidate before its tanh", r"<W_n> <x> + <b_n> + <reset_gate> \odot (<U_n> <h_before> + <b_hn>)"),
    "gru.candidate": Point("n", _HIDDEN, "the candidate for the new state", r"\tanh(<candidate_sum>)"),
    "gru.hidden": Point("h", _HIDDEN, "the new state: a mix of candidate and old state", r"(1 - <update_gate>) \odot <candidate> + <update_gate> \odot <h_before>"),
    "bridge.hidden": Point("h_0", _axes("batch hidden"), "the initial state of the decoder", r"\tanh(<W_h> <h> + <b_h>)"),
    "bridge.cell": Point("c_0", _axes("batch hidden"), "the initial cell state of the decoder", r"<W_c> <c> + <b_c>"),
    "bridge.copied_hidden": Point("h_0", _axes("batch layers hidden"), "the initial state of each decoder layer: the last state of its encoder layer", r"<h>", {"top bidirectional": r"[<h_forward>; <h_backward>]_{\mathrm{top}}", "bidirectional": r"[<h_forward>; <h_backward>]", "top": r"<h>_{\mathrm{top}}"}),
    "bridge.copied_cell": Point("c_0", _axes("batch layers hidden"), "the initial cell state of each decoder layer", r"<c>", {"top bidirectional": r"[<c_forward>; <c_backward>]_{\mathrm{top}}", "bidirectional": r"[<c_forward>; <c_backward>]", "top": r"<c>_{\mathrm{top}}"}),
    "feeding.input": Point("x'", _axes("batch length d_fed"), "the embedding and the attention output of the previous token", r"[<x>; <output_before>]"),
    # Heads
    "head.pool_scores": Point("e", _axes("batch length"), "the importance of each token for pooling", r"<w> \cdot <x>"),
    "head.pool_pattern": Point(r"\alpha", _axes("batch length"), "the weight of each token in the pooled vector; sums to 1", r"\mathrm{pool}(<x>)", {"mean": r"[\,t \text{ is real}\,] / n", "first": r"[\,t \text{ is the first}\,]", "last": r"[\,t \text{ is the last}\,]", "attention": r"\mathrm{softmax}(<pool_scores>)"}),
    "head.pooled": Point("p", _axes("batch d_model"), "one vector for the whole text", r"\textstyle\sum_t <pool_pattern>_t\,<x>_t", {"pool_pattern": r"\textstyle\sum_t <pool_pattern>_t\,<x>_t", "last": r"<h>"}),
    "head.dense": Point("u", _axes("batch d_dense"), "the pooled vector after a dense layer", r"<act>(<W_d> <pooled> + <b_d>)", {"identity": r"<W_d> <pooled> + <b_d>"}),
    "head.embedding": Point("v", _axes("batch d_embedding"), "the embedding of the text", r"<pooled>", {"dense normalised": r"<dense> / \sqrt{\sum_i <dense>_i^2}", "dense": r"<dense>", "normalised": r"<pooled> / \sqrt{\sum_i <pooled>_i^2}"}),
    "head.hidden": Point("H", _TOKENS, "the encoder's output for each token", r"<x>"),
    "head.transformed": Point("u", _TOKENS, "the vector of each token after the dense layer of the head, before its norm", r"<act>(<W_d> <x> + <b_d>)"),
    "head.logits": Point(r"\ell", _axes("batch length vocab"), "a score for every token or tag at every position", r"<W> <x> + <b>", {"scaled": r"<W> (<logit_scale> <x>) + <b>", "fill": r"<W> <normed> + <b>", "counted": r"\log <p>", "product": r"<a> \log <p> + <b> \log <mixture>"}),
    "head.class_logits": Point(r"\ell", _axes("batch outputs"), "a score for every class", r"<W> <pooled> + <b>", {"dense": r"<W> <dense> + <b>"}),
    "ngrams.words": Point("u", _axes("batch length outputs"), "the score of each word for each class", r"\mathrm{table}[<ids>]"),
    "ngrams.pairs": Point("v", _axes("batch length outputs"), "the score of each pair of adjacent words for each class", r"\mathrm{table}[\mathrm{hash}(<ids>_{t-1}, <ids>_t)]"),
    "ngrams.sum": Point(r"\ell'", _axes("batch outputs"), "a score for every class, with the n-gram features added", r"<class_logits> + \textstyle\sum_t (<words>_t + <pairs>_t)"),
    "linear.words": Point("u", _axes("batch length outputs"), "the score of each word for each output", r"\mathrm{table}[\mathrm{hash}(w_t)]"),
    "linear.pairs": Point("v", _axes("batch length outputs"), "the score of each pair of adjacent words for each output", r"\mathrm{table}[\mathrm{hash}(w_{t-1}, w_t)]"),
    "linear.characters": Point("w", _axes("batch length outputs"), "the score of each word's spelling for each output", r"\textstyle\sum_g \mathrm{table}[\mathrm{hash}(g)] / \sqrt{n_t}"),
    "linear.next": Point("a", _axes("batch length outputs"), "what each word's spelling adds to the scores of the next word", r"\textstyle\sum_g \mathrm{table}[\mathrm{hash}(g)] / \sqrt{n_t}"),
    "linear.previous": Point("e", _axes("batch length outputs"), "what each word's spelling adds to the scores of the previous word", r"\textstyle\sum_g \mathrm{table}[\mathrm{hash}(g)] / \sqrt{n_t}"),
    "linear.class_logits": Point(r"\ell", _axes("batch outputs"), "a score for every class", r"<b> + \textstyle\sum_t (<words>_t + <pairs>_t + <characters>_t) / \sqrt{n}"),
    "linear.logits": Point(r"\ell", _axes("batch length outputs"), "a score for every tag of every word", r"<words>_t + <characters>_t + <next>_{t-1} + <previous>_{t+1} + <b>"),
    "ensemble.logits": Point(r"\bar\ell", _axes("batch length vocab"), "the logarithm of the members' mean probability, at every position", r"\log \frac{1}{n} \textstyle\sum_i \mathrm{softmax}(\ell_i)"),
    "ensemble.class_logits": Point(r"\bar\ell", _axes("batch outputs"), "the logarithm of the members' mean probability", r"\log \frac{1}{n} \textstyle\sum_i \mathrm{softmax}(\ell_i)"),
    # Softmax by itself
    "softmax.shift": Point("m", _axes("batch one"), "the largest entry, subtracted to avoid overflow", r"\max <x>"),
    "softmax.exponentials": Point("e", _axes("batch features"), "e to the power of each entry", r"\exp(<x> - <shift>)"),
    "softmax.normaliser": Point("Z", _axes("batch one"), "the sum of the exponentials", r"\textstyle\sum <exponentials>"),
    "softmax.probabilities": Point("p", _axes("batch features"), "the exponentials, normalized to sum to 1", r"<exponentials> / <normaliser>"),
}  # fmt: skip

# Symbols of inputs and weights that differ from their names.
SYMBOLS = {
    "act": r"\mathrm{act}",
    "angles": r"\theta",
    "base": "b",
    "bias": "B",
    "class_logits": r"\ell",
    "d_head": "d_k",
    "distances": "D",
    "d_model": r"d_{\mathrm{model}}",
    "ids": r"\mathrm{ids}",
    "characters": r"\mathrm{characters}",
    "h_before": "h_{t-1}",
    "output_before": r"\tilde{h}_{t-1}",
    "c_before": "c_{t-1}",
    "h_forward": r"h^{\to}",
    "h_backward": r"h^{\leftarrow}",
    "c_forward": r"c^{\to}",
    "c_backward": r"c^{\leftarrow}",
    "hidden": "h",
    "encoder_output": "H",
    "scale": "s",
    "scaling": "c",
    "kept": "k_i",
    "original_length": r"n_0",
    "logit_scale": "s",
    "lower": "p_{n-1}",
    "mixture": "m",
    "normed": "y",
    "segments": r"\mathrm{segments}",
    "source": r"\mathrm{source}",
    "translation": "t",
    "unaligned": r"\epsilon",
    "unigram": "u",
    "vocab": "V",
    "factor": "f",
    "gain": r"\gamma",
    "gain_Q": r"\gamma_Q",
    "gain_K": r"\gamma_K",
    "beta": r"\beta",
    "mean": r"\mu",
    "deviation": "s",
    "b_hn": "b_{hn}",
}
# For a cell that reads backwards: its previous step is at the next position.
BACKWARD_SYMBOLS = {"h_before": "h_{t+1}", "c_before": "c_{t+1}"}

_PLACEHOLDER = re.compile(r"<(\w+)>")


def entry(name: str) -> str:
    """The catalogue key of a full trace name: `encoder.final_norm.mean` -> `norm.mean`."""
    scope, _, point = name.rpartition(".")
    part = scope.rpartition(".")[2].rpartition("_")[2]
    key = f"{part}.{point}"
    if key not in CATALOGUE:
        close = nearest(key, CATALOGUE)
        hint = f"; did you mean {' or '.join(close)}?" if close else ""
        raise UnknownPointError(f"no catalogue entry for {name!r} (looked for {key!r}){hint}")
    return key


def describe(name: str) -> Point:
    """The catalogue entry of a full trace name."""
    return CATALOGUE[entry(name)]


def formula(
    key: str,
    values: Mapping[str, str] | None = None,
    absent: Collection[str] = (),
    words: Collection[str] = (),
) -> str:
    """The right-hand side of a formula as LaTeX. words: keywords that choose the variant. values:
    texts that replace symbols. absent: terms to omit, such as a bias."""
    return fill(CATALOGUE[key].template(words), key.partition(".")[0], values, absent)


def fill(
    template: str,
    part: str,
    values: Mapping[str, str] | None = None,
    absent: Collection[str] = (),
) -> str:
    """Insert symbols or values into a formula template, as `formula` does."""
    for name in absent:
        template = re.sub(rf"\s*[+-]\s*<{name}>", "", template)

    def write(match: re.Match[str]) -> str:
        name = match[1]
        if values is not None and name in values:
            return values[name]
        point = CATALOGUE.get(f"{part}.{name}")
        return point.symbol if point is not None else SYMBOLS.get(name, name)

    return _PLACEHOLDER.sub(write, template)
