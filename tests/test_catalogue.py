"""The catalogue against the models: every point a model writes is described, and rightly."""

import re
from collections.abc import Iterator
from itertools import product

import pytest
import torch

from translucid.core.catalogue import CATALOGUE, SYMBOLS, describe, entry, formula
from translucid.core.errors import UnknownPointError
from translucid.core.trace import Trace
from translucid.models import (
    LexiconConfig,
    LinearConfig,
    MLPConfig,
    ModelConfig,
    NGramConfig,
    PerceptronConfig,
    RecurrentConfig,
    TransformerConfig,
    build,
)
from translucid.parts.activations import softmax

IDS = torch.tensor([[3, 1, 4, 1, 5], [2, 6, 5, 3, 5]])
MASK = torch.tensor([[False, True, True, True, True], [True, True, True, False, False]])


def configs() -> Iterator[ModelConfig]:
    yield PerceptronConfig(inputs=3)
    yield MLPConfig(inputs=3, hidden=(4, 4), residual=True, standardise=True)
    small = {"vocab": 8, "d_model": 8, "dropout": 0.0}
    schemes = ("sinusoidal", "learned", "rotary", "alibi", "relative", "none")
    for positions, norm in product(schemes, ("layer", "rms", "batch", "none")):
        options = small | {"heads": 2, "layers": 1, "positions": positions, "norm": norm}
        yield TransformerConfig(shape="encoder-decoder", head="language", **options)
    yield TransformerConfig(
        shape="decoder", head="language", activation="geglu", window=2, heads=2, **small
    )
    yield TransformerConfig(shape="decoder", head="language", qk_norm=True, heads=2, **small)
    yield TransformerConfig(shape="decoder", head="language", lora_rank=2, heads=2, **small)
    for pooling in ("mean", "last", "first", "attention"):
        labels = {"shape": "encoder", "head": "classify", "outputs": 3, "pooling": pooling}
        yield TransformerConfig(heads=2, layers=1, **labels, **small)
        yield RecurrentConfig(hidden=8, bidirectional=True, **labels, **small)
    yield RecurrentConfig(hidden=8, ngram_features=5, **labels, **small)
    for head in ("classify", "tag"):
        yield LinearConfig(shape="encoder", head=head, vocab=8, outputs=3, features=16)
    yield RecurrentConfig(hidden=8, ensemble_size=2, **labels, **small)
    yield RecurrentConfig(shape="decoder", head="language", hidden=8, ensemble_size=2, **small)
    yield TransformerConfig(heads=2, layers=1, head_dense="tanh", **labels, **small)
    for head in ("none", "fill", "embed"):
        yield TransformerConfig(shape="encoder", head=head, heads=2, layers=1, **small)
    copied = {"shape": "encoder-decoder", "head": "language", "bridge": "copy"}
    yield RecurrentConfig(hidden=8, input_feeding=True, **copied, **small)
    tags = {"shape": "encoder", "head": "tag", "outputs": 3}
    yield RecurrentConfig(hidden=8, characters=3, **tags, **small)
    yield TransformerConfig(heads=2, layers=1, characters=3, **tags, **small)
    yield TransformerConfig(heads=2, layers=1, segments=3, **tags, **small)
    for cell, attention in product(("rnn", "rnn_relu", "lstm", "gru"), ("none", "additive", "dot")):
        shape = {"shape": "encoder-decoder", "head": "language", "cell": cell}
        yield RecurrentConfig(hidden=8, attention=attention, **shape, **small)
    yield NGramConfig(shape="decoder", head="language", vocab=8)
    yield LexiconConfig(shape="encoder-decoder", head="language", vocab=8)


def run(config: ModelConfig) -> Trace:
    model, trace = build(config).eval(), Trace()
    if isinstance(config, PerceptronConfig | MLPConfig):
        model(torch.randn(2, 3), trace=trace)
    elif config.shape == "encoder-decoder":
        model(IDS, IDS, MASK, MASK, trace=trace)
    elif getattr(config, "characters", 0):
        model(IDS, MASK, trace, characters=IDS[..., None].repeat(1, 1, 4))
    else:
        model(IDS, MASK, trace=trace)
    return trace


@pytest.fixture(scope="module")
def traces() -> list[Trace]:
    torch.manual_seed(0)
    by_itself = Trace()
    softmax(torch.randn(2, 3), by_itself.at("softmax"))
    return [by_itself, *(run(config) for config in configs())]


def test_every_point_of_every_model_is_described_with_its_axes(traces: list[Trace]) -> None:
    for trace in traces:
        for name in trace:
            assert len(describe(name).axes) == trace[name].dim(), name


def test_the_same_axis_has_the_same_size_everywhere_in_a_part(traces: list[Trace]) -> None:
    for trace in traces:
        sizes: dict[tuple[str, str], int] = {}
        for name in trace:
            scope = name.rpartition(".")[0]
            for axis, size in zip(describe(name).axes, trace[name].shape, strict=True):
                if size != 1 and axis != "features":  # an axis of size 1 is the same for all
                    assert sizes.setdefault((scope, axis), size) == size, (name, axis)


def test_every_entry_is_a_point_of_some_model(traces: list[Trace]) -> None:
    written = {entry(name) for trace in traces for name in trace}
    assert set(CATALOGUE) - written == {"softmax.probabilities"}  # the caller of softmax has it


def test_names_of_trace_points_do_not_change() -> None:
    """Renaming or removing a point breaks people's code: note it in CHANGELOG.md, then here."""
    parts: dict[str, str] = {}
    for key in CATALOGUE:
        part, point = key.split(".")
        parts[part] = f"{parts[part]} {point}" if part in parts else point
    assert parts == {
        "embedding": "lookup scaled",
        "characters": "lookup convolved activated loudest output sum",
        "segments": "lookup sum",
        "positions": "encoding output angles bias",
        "masks": "causal window padding",
        "attention": "query key value normed_query normed_key rotated_query rotated_key scale "
        "scores scaled biased mask "
        "masked shift exponentials normaliser pattern mixed output",
        "alignment": "query key scores shift exponentials normaliser pattern context output jumps "
        "emission posterior mixture",
        "ngram": "discounted backoff probability",
        "lexicon": "translation",
        "lora": "down up",
        "norm": "mean variance rms normalised output",
        "residual": "skip branch sum",
        "feedforward": "hidden gate activated output",
        "dense": "preactivation activation skip sum",
        "standardise": "output",
        "perceptron": "sum output",
        "recurrent": "output",
        "rnn": "preactivation hidden",
        "lstm": "forget_sum input_sum candidate_sum output_sum forget_gate input_gate candidate "
        "output_gate cell hidden",
        "gru": "reset_sum update_sum reset_gate update_gate candidate_sum candidate hidden",
        "bridge": "hidden cell copied_hidden copied_cell",
        "feeding": "input",
        "head": "pool_scores pool_pattern pooled dense embedding hidden transformed logits "
        "class_logits",
        "ngrams": "words pairs sum",
        "linear": "words pairs characters next previous class_logits logits",
        "ensemble": "logits class_logits",
        "softmax": "shift exponentials normaliser probabilities",
    }


def test_the_last_word_of_a_scope_is_its_part() -> None:
    assert entry("decoder.layers.2.cross_attention.pattern") == "attention.pattern"
    assert entry("encoder.final_norm.mean") == "norm.mean"
    assert entry("encoder.recurrent.layers.0.backward.lstm.cell") == "lstm.cell"
    with pytest.raises(
        UnknownPointError, match=r"no catalogue entry for 'x.attention.patern'.*pattern"
    ):
        entry("x.attention.patern")


@pytest.mark.parametrize("key", CATALOGUE)
def test_formulas_have_no_open_placeholders(key: str) -> None:
    """All placeholders are replaced, and the braces of what remains are balanced."""
    for words in ("", *CATALOGUE[key].forms):
        written = formula(key, words=words.split())
        assert not re.search(r"<\w+>", written)
        assert written.count("{") == written.count("}")
        assert written.count("(") == written.count(")")
        names = re.findall(r"<(\w+)>", CATALOGUE[key].template(words.split()))
        numbers = formula(key, dict.fromkeys(names, "42"), words=words.split())
        for name in names:
            if name not in SYMBOLS and f"{key.split('.')[0]}.{name}" not in CATALOGUE:
                assert re.fullmatch(r"\w|\w_\w", name), f"{key}: {name} would be printed so"
        assert numbers.count("42") == len(names)


def test_the_first_form_with_all_words_is_used() -> None:
    assert formula("attention.scores") == r"Q K^{\top}"
    assert formula("attention.scores", words=["rotated_query", "cross"]) == r"Q' K'^{\top}"
    both = formula("attention.scores", words=["grouped", "rotated_query"])
    assert both == r"Q'_h {K'}_{g(h)}^{\top}"
    assert formula("attention.query", absent=["b_Q"]) == "x W_Q"
