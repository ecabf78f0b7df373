"""Every point of every variant of every part, worked out again from the catalogue's formula.

A definition uses the names that the formula has, and is worked out with the weights, the inputs and
the other points of the part, in the form that the part's variant chooses. So a formula that leaves
out a bias, a point that holds something else, and a part that says the wrong thing of itself are
all found.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from itertools import cycle, product

import pytest
import torch
from tests.invariants.cases import randomised, recurrent, transformer
from tests.points.definitions import CONTEXT, DEFINITIONS, GENERAL, HELPERS
from tests.points.given import IDS, SOURCE, Ran

from translucid.core.catalogue import CATALOGUE
from translucid.core.trace import Trace
from translucid.models import (
    LexiconConfig,
    LinearConfig,
    MLPConfig,
    ModelConfig,
    Network,
    NGramConfig,
    PerceptronConfig,
    build,
)
from translucid.parts.activations import ACTIVATIONS, softmax
from translucid.parts.norms import BatchNorm


def forms() -> dict[str, str]:
    """Every form of every entry, `entry | words`, with its template."""
    own = {key: point.formula for key, point in CATALOGUE.items()}
    return own | {
        f"{key} | {words}": template
        for key, point in CATALOGUE.items()
        for words, template in point.forms.items()
    }


def configs() -> Iterator[tuple[str, ModelConfig]]:
    kv_heads = cycle((None, 2, 1))
    for shape, bias, positions in product(
        ("decoder", "encoder-decoder"),
        (True, False),
        ("sinusoidal", "learned", "rotary", "alibi", "none"),
    ):
        options = {"positions": positions, "kv_heads": next(kv_heads), "bias": bias, "layers": 1}
        name = f"{shape} {positions} {options['kv_heads']} {'bias' if bias else 'no bias'}"
        yield name, transformer(shape, **options)
    for norm, placement in product(("layer", "rms", "batch", "none"), ("pre", "post")):
        yield f"{norm} {placement}", transformer("encoder", norm=norm, placement=placement)
    for activation in (*ACTIVATIONS, "swiglu", "geglu", "geglu_tanh"):
        for bias in (True, False):
            one = {"activation": activation, "bias": bias, "layers": 1}
            yield f"{activation} {'bias' if bias else 'no bias'}", transformer("encoder", **one)
    for positions in ("sinusoidal", "rotary", "alibi"):
        bare = {"positions": positions, "scaled": False, "window": 2, "layers": 1}
        yield f"unscaled window {positions}", transformer("decoder", **bare)
    turned = {"positions": "rotary", "rotary_base": 50.0, "rotary_scaling": 2.0}
    yield "interpolated", transformer("decoder", **turned)
    long = {"rotary_scaling": 3.0, "rotary_base": 100.0, "d_head": 8, "positions": "rotary"}
    for method, length in (("llama3", 64), ("yarn", 500), ("dynamic", 3)):
        options = {"rotary_method": method, "rotary_length": length, **long}
        yield method, transformer("decoder", layers=1, **options)
    more = {"rotary_attention_factor": 1.5, "rotary_fraction": 1.0}
    yield "attention factor", transformer("decoder", layers=1, **long, **more)
    for kv_heads, positions in product((4, 2), ("rotary", "learned")):
        normed = {"qk_norm": True, "kv_heads": kv_heads, "positions": positions, "norm_eps": 0.01}
        normed |= {"embedding_scale": False, "layers": 1, "d_head": 4, "rotary_fraction": 0.5}
        yield f"normed {kv_heads} {positions}", transformer("decoder", **normed)
    for place in ("qkv", "attention_output", "feedforward"):
        apart = {"bias": False, f"{place}_bias": True, "norm_bias": False, "final_norm": False}
        yield f"{place} bias alone", transformer("encoder-decoder", head_bias=True, **apart)
    for shape in ("decoder", "encoder", "encoder-decoder"):
        relative = {"positions": "relative", "relative_buckets": 8, "relative_distance": 10}
        yield f"relative {shape}", transformer(shape, layers=1, scaled=False, **relative)
    for layout in ("halves", "fairseq"):
        options = {"sinusoid_layout": layout, "first_position": 2, "embedding_norm": True}
        yield layout, transformer("encoder-decoder", layers=1, logit_scale=0.3, **options)
    apart = {"segments": 3, "first_position": 2, "embedding_norm": True, "positions": "learned"}
    yield "segments", transformer("encoder", layers=1, **apart)
    for shape in ("decoder", "encoder"):
        yield f"parallel {shape}", transformer(shape, parallel_residual=True)
    for pooling, dense in (("first", "tanh"), ("mean", "relu"), ("last", "identity")):
        labels = {"head": "classify", "outputs": 3, "pooling": pooling, "head_dense": dense}
        yield f"dense {pooling}", transformer("encoder", layers=1, **labels)
    for outputs, normalise in product((None, 5), (False, True)):
        vector = {"head": "embed", "outputs": outputs, "normalise": normalise, "layers": 1}
        yield f"embed {outputs} {normalise}", transformer("encoder", **vector)
    yield "hidden states", transformer("encoder", head="none", outputs=None)
    yield "masked", transformer("encoder", head="fill", outputs=None)
    for activation in ("relu", "swiglu"):
        where = {"lora_rank": 2, "lora_alpha": 3.0, "lora_where": ("*",), "activation": activation}
        yield f"adapted {activation}", transformer("encoder-decoder", **where)
    yield "masked untied", transformer("encoder", head="fill", outputs=None, tied=False)
    for cell, bridge, both in product(("lstm", "gru"), ("copy", "last", "zero"), (False, True)):
        options = {"cell": cell, "bridge": bridge, "bidirectional": both}
        options["encoder_hidden"] = 4 if both else None
        yield f"{cell} {bridge} {both}", recurrent("encoder-decoder", **options)
    for cell, attention in (("lstm", "dot"), ("gru", "additive")):
        options = {"cell": cell, "attention": attention, "input_feeding": True}
        yield f"{cell} {attention} fed", recurrent("encoder-decoder", **options)
    yield "rotary base alone", transformer("decoder", rotary_base=50.0)
    for make, pooling in product((transformer, recurrent), ("mean", "first", "last", "attention")):
        labels = {"head": "classify", "outputs": 3, "pooling": pooling}
        yield f"{make.__name__} {pooling}", make("encoder", **labels)
        yield f"{make.__name__} {pooling} causal", make("decoder", **labels)
        if make is recurrent:
            yield f"both {pooling}", make("encoder", bidirectional=True, **labels)
    for make in (transformer, recurrent):
        labels = {"head": "classify", "outputs": 3}
        yield f"{make.__name__} characters", make("encoder", characters=5)
        yield f"{make.__name__} n-grams", make("encoder", ngram_features=5, **labels)
        yield f"{make.__name__} members", make("encoder", ensemble_size=2, **labels)
        yield f"{make.__name__} writing members", make("decoder", ensemble_size=2)
        yield f"{make.__name__} untied", make("decoder", tied=False)
    for cell, attention, both in product(
        ("rnn", "rnn_relu", "lstm", "gru"), ("none", "additive", "dot"), (False, True)
    ):
        options = {"cell": cell, "attention": attention, "bidirectional": both}
        yield f"{cell} {attention} {both}", recurrent("encoder-decoder", **options)
    for head in ("classify", "tag"):
        sizes = {"shape": "encoder", "vocab": 10, "outputs": 3, "features": 11}
        yield f"linear {head}", LinearConfig(head=head, **sizes)
    yield "perceptron", PerceptronConfig(inputs=3)
    for activation in ACTIVATIONS:
        residual = {"residual": True, "standardise": True, "activation": activation}
        yield f"mlp {activation}", MLPConfig(inputs=3, hidden=(4, 4), outputs=2, **residual)
    for order in (1, 3):
        yield (
            f"n-grams {order}",
            NGramConfig(shape="decoder", head="language", vocab=11, order=order),
        )
    both = {"shape": "encoder-decoder", "head": "language", "vocab": 11, "target_vocab": 9}
    yield "lexicon", LexiconConfig(order=2, **both)


CONFIGS = dict(configs())
# These have every form of the catalogue, as is tested below; the others are `thorough`.
SELDOM = {
    "transformer characters", "encoder-decoder rotary 1 no bias", "dense last", "lstm dot fed",
    "transformer n-grams", "rms pre", "yarn", "halves", "masked", "lstm copy False",
    "lstm copy True", "lstm last False", "identity bias", "interpolated", "dynamic",
    "normed 4 learned", "normed 2 learned", "relative decoder", "fairseq", "dense first",
    "embed None True", "embed 5 False", "embed 5 True", "hidden states", "recurrent last",
    "transformer members", "transformer writing members", "linear classify", "linear tag",
    "perceptron", "n-grams 3", "lexicon",
}  # fmt: skip
ENOUGH = {*SELDOM, *list(CONFIGS)[::6]}


@cache
def run(name: str, padded: bool) -> Ran:
    torch.manual_seed(0)
    counts = isinstance(CONFIGS[name], NGramConfig | LexiconConfig)
    network = counted(name) if counts else randomised(CONFIGS[name])
    if getattr(network, "standardise", None) is not None:
        network.standardise.fit(torch.randn(9, 3, dtype=torch.float64))
    return Ran(network, padded)


def counted(name: str) -> Network:
    """A model that learns by counting, from the very texts that it then reads, in disorder."""
    network = build(CONFIGS[name]).double()
    texts, real = IDS.flip(0).roll(1, 1), torch.ones_like(IDS, dtype=torch.bool)
    given = {"ids": texts, "target": texts, "source": SOURCE.roll(1, 0)}
    given |= {"target_mask": real, "source_mask": torch.ones_like(SOURCE, dtype=torch.bool)}
    network.fit([(given, texts.roll(-1, 1))])
    return network.eval()


def same(ran: Ran, name: str) -> None:
    found, expected = ran.compute(name), ran[name]
    found = torch.as_tensor(found).to(expected.dtype).expand_as(expected)
    torch.testing.assert_close(
        found, expected, atol=1e-10, rtol=1e-9, msg=lambda text: f"{name}: {text}"
    )


def cases() -> Iterator[object]:
    """With padding where there can be any; without it and of the other models `thorough`."""
    for name, config in CONFIGS.items():
        here = () if name in ENOUGH else pytest.mark.thorough
        padded = not isinstance(config, PerceptronConfig | MLPConfig)
        yield pytest.param(name, False, id=name, marks=pytest.mark.thorough if padded else here)
        if padded:
            yield pytest.param(name, True, id=f"{name} padded", marks=here)


@pytest.mark.parametrize(("name", "padded"), list(cases()))
def test_every_point_is_what_its_formula_says(name: str, padded: bool) -> None:
    ran = run(name, padded)
    for point in ran.trace:
        same(ran, point)


def test_batch_norm_while_it_learns_has_the_statistics_of_the_batch() -> None:
    torch.manual_seed(0)
    norm, trace = BatchNorm(4).double(), Trace()
    x = torch.randn(3, 5, 4, dtype=torch.float64)
    norm(x, None, trace.at("norm"))
    assert not norm.variant.words  # its own formulas, over all tokens
    flat = x.flatten(0, 1)
    torch.testing.assert_close(trace["norm.mean"][0, 0], flat.mean(0))
    torch.testing.assert_close(trace["norm.variance"][0, 0], ((flat - flat.mean(0)) ** 2).mean(0))


def test_a_softmax_by_itself() -> None:
    x, trace = torch.randn(2, 5, dtype=torch.float64), Trace()
    values = {"x": x, "probabilities": softmax(x, trace.at("softmax"))}
    values |= {name.partition(".")[2]: trace[name] for name in trace}
    for name in ("shift", "exponentials", "normaliser", "probabilities"):
        others = {key: value for key, value in values.items() if key != name}
        found = eval(DEFINITIONS[f"softmax.{name}"], HELPERS, others)
        torch.testing.assert_close(found, values[name])


def test_every_form_has_a_definition_and_is_met() -> None:
    """A point without a recomputation, and a form that no model has, are promises not kept."""
    assert set(DEFINITIONS) | GENERAL == set(forms())
    of_each = {}
    for name in CONFIGS:
        ran = run(name, not isinstance(CONFIGS[name], PerceptronConfig | MLPConfig))
        of_each[name] = {ran.form(point)[0] for point in ran.trace}
    met = set().union(*of_each.values())
    assert met == set().union(*(of_each[name] for name in ENOUGH)), "more models are to be tested"
    by_itself = {key for key in CATALOGUE if key.startswith("softmax.")}
    double = {"head.pooled"}  # the form with a pattern of its own says the same
    assert set(DEFINITIONS) - met == by_itself | double
    assert not met & GENERAL


@pytest.mark.parametrize("key", DEFINITIONS)
def test_a_definition_has_the_names_signs_and_factors_of_its_formula(key: str) -> None:
    template, expression = forms()[key], DEFINITIONS[key]
    used = {node.id for node in ast.walk(ast.parse(expression)) if isinstance(node, ast.Name)}
    named = set(re.findall(r"<(\w+)>", template))
    assert named <= used, f"{key}: the formula has what the definition has not"
    assert used - named <= CONTEXT | set(HELPERS), f"{key}: the formula leaves something out"
    scripts = re.sub(r"[_^]\{[^{}]*\}", "", template)
    assert re.findall(r"[+-]", scripts) == re.findall(r"[+-]", expression)
    # Factors, too; 0 and 1 may stand inside a helper, as in a maximum with 0 or 1/n of a sum.
    factors = set(re.findall(r"(?<![\w^_.])\d+\.?\d*", scripts)) - {"0", "1"}
    assert factors <= set(re.findall(r"\d+\.?\d*", expression)), f"{key}: another factor"
