"""A network prepared for decoding: the same in float32, near it in int8, and it says how near."""

from functools import cache
from typing import Any, cast

import pytest
import torch
from tests.parts.test_packed import has_int8, needs_int8

from translucid.core.errors import InputError
from translucid.core.trace import Trace
from translucid.fast import cpu_kernels, precision
from translucid.fast.packed_linear import Int8Linear, PackedLinear
from translucid.fast.precision import difference, prepare
from translucid.generate.beam_search import GenerationConfig
from translucid.generate.decode import find
from translucid.models import GenerationInputs, RecurrentConfig, TransformerConfig, build
from translucid.models.mlp import MLPConfig

EOS, PAD, VOCAB = 1, 0, 23
SOURCE = torch.randint(2, VOCAB, (3, 6), generator=torch.Generator().manual_seed(0))
MASK = torch.ones_like(SOURCE, dtype=torch.bool)
MASK[1, 4:] = False
SOURCES = GenerationInputs.of(SOURCE, MASK)
OPTIONS: dict[str, dict[str, Any]] = {
    "sinusoidal": {},
    "rotary, gated, grouped heads": {
        "positions": "rotary", "activation": "swiglu", "kv_heads": 2, "norm": "rms"
    },
    "post, untied, no biases": {"placement": "post", "tied": False, "bias": False},
    "alibi, which has no lean step": {"positions": "alibi"},
}  # fmt: skip
options = pytest.mark.parametrize("name", OPTIONS)


@cache
def network_of(name: str) -> Any:
    torch.manual_seed(0)
    config = TransformerConfig(
        shape="encoder-decoder", head="language", vocab=VOCAB, d_model=32, heads=4, layers=2,
        **OPTIONS[name],
    )  # fmt: skip
    return sharper(build(config).eval())


def sharper(network: Any) -> Any:
    """Larger weights than at the start of training: a network that prefers something."""
    with torch.no_grad():
        network.decoder.embedding.table.weight *= 3
    return network


def written(network: Any, beams: int) -> list[list[Any]]:
    how = GenerationConfig(beam_size=beams, n_best=beams, max_length=8)
    return find(network, [[EOS]] * 3, SOURCES, how, eos=EOS, pad=PAD)


@options
@pytest.mark.parametrize("beams", [1, 4])
def test_float32_writes_the_same(name: str, beams: int) -> None:
    network = network_of(name)
    prepared = prepare(network, "float32")
    assert any(isinstance(part, PackedLinear) for part in prepared.modules())
    for mine, its in zip(written(prepared, beams), written(network, beams), strict=True):
        assert [text.tokens for text in mine] == [text.tokens for text in its]
        scores = [[text.log_probability for text in texts] for texts in (mine, its)]
        torch.testing.assert_close(*map(torch.tensor, scores), rtol=1e-5, atol=1e-5)


@needs_int8
@options
def test_int8_differs_as_much_as_reported(name: str) -> None:
    """The texts are those that the network in int8 has written, in one batch and by the lean step;
    the report is made by whole texts, one by one."""
    network = network_of(name)
    prepared = prepare(network, "int8")
    assert not any(isinstance(part, torch.nn.Linear) for part in prepared.modules())
    found = [texts[0] for texts in written(prepared, 4)]
    texts = [[EOS, *text.tokens] for text in found]
    told = difference(network, prepared, texts, SOURCES)
    assert 0 < told.mean < told.most < 0.5
    assert told.places == sum(map(len, texts))
    for row, text in enumerate(found):
        said = [*text.tokens, EOS][: len(text.token_log_probs)]
        source = SOURCE[row : row + 1, MASK[row]]
        with torch.no_grad():
            logits = network(source, torch.tensor([[EOS, *said[:-1]]]))
        own = logits[0].log_softmax(-1)[range(len(said)), said]
        assert (own - torch.tensor(text.token_log_probs)).abs().max() <= 1.5 * told.most


def test_difference_of_two_networks_by_hand() -> None:
    one = network_of("sinusoidal")
    other = network_of("post, untied, no biases")
    texts = [[EOS, 4, 5], [EOS, 6]]
    sources = GenerationInputs.of(SOURCE[:2], MASK[:2])
    told = difference(one, other, texts, sources)
    apart, changed = [], 0
    with torch.no_grad():
        for row, text in enumerate(texts):
            source = SOURCE[row : row + 1, MASK[row]]
            both = [each(source, torch.tensor([text]))[0].log_softmax(-1) for each in (one, other)]
            apart.append((both[0] - both[1]).abs())
            changed += int((both[0].argmax(-1) != both[1].argmax(-1)).sum())
    numbers = torch.cat(apart)
    assert told.mean == pytest.approx(float(numbers.mean()), rel=1e-5)
    assert told.most == pytest.approx(float(numbers.max()), rel=1e-5)
    assert (told.changed, told.places) == (changed / 5, 5)
    assert f"{changed / 5:.1%} of 5 " in str(told)


@cache
def language_model() -> Any:
    torch.manual_seed(1)
    config = TransformerConfig(
        shape="decoder", head="language", vocab=VOCAB, d_model=32, heads=4, layers=2
    )
    return build(config).eval()


def test_a_language_model_has_a_difference_too() -> None:
    network = language_model()
    told = difference(network, prepare(network, "float32"), [[EOS, 3, 4], [EOS]])
    assert told.most < 1e-5
    assert (told.changed, told.places) == (0.0, 4)


@pytest.mark.parametrize("kind", ["float32", pytest.param("int8", marks=needs_int8)])
def test_traces(kind: Any) -> None:
    """Looking inside changes nothing, and all points are there."""
    network = language_model()
    prepared, ids = prepare(network, kind), torch.tensor([[EOS, 3, 4]])
    plain, seen = Trace(), Trace()
    with torch.no_grad():
        network(ids, trace=plain)
        torch.testing.assert_close(prepared(ids, trace=seen), prepared(ids), rtol=1e-4, atol=1e-5)
    assert list(seen) == list(plain)


def test_the_network_stays_as_it_was() -> None:
    network = language_model()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    prepared = prepare(network, "float32")
    with torch.no_grad():
        for weight in prepared.parameters():
            weight.zero_()
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    assert all(parameter.requires_grad for parameter in network.parameters())
    assert not any(parameter.requires_grad for parameter in prepared.parameters())


def test_tied_weights_stay_tied() -> None:
    prepared = prepare(language_model(), "float32")
    assert prepared.head.linear.weight is prepared.decoder.embedding.table.weight


def test_auto_is_float32_on_a_cpu() -> None:
    assert isinstance(prepare(language_model()).head.linear, PackedLinear)


@needs_int8
def test_the_table_is_looked_up_in_float32() -> None:
    network = language_model()
    prepared = prepare(network, "int8")
    assert isinstance(prepared.head.linear, Int8Linear)
    assert torch.equal(
        prepared.decoder.embedding.table.weight, network.decoder.embedding.table.weight
    )


HEADS: dict[str, dict[str, Any]] = {
    "classify": {"outputs": 3}, "tag": {"outputs": 3}, "embed": {},
}  # fmt: skip


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("make", [TransformerConfig, RecurrentConfig])
def test_networks_that_only_read(head: Any, make: Any) -> None:
    """Every linear layer of an encoder is packed, in both precisions."""
    torch.manual_seed(3)
    network = build(make(shape="encoder", head=head, vocab=VOCAB, d_model=32, **HEADS[head])).eval()
    count = sum(isinstance(part, torch.nn.Linear) for part in network.modules())
    with torch.no_grad():
        exact = network(SOURCE, MASK)
        for kind, layer in (("float32", PackedLinear), ("int8", Int8Linear)):
            if kind == "int8" and not has_int8():
                continue
            prepared = prepare(network, cast("Any", kind))
            assert sum(isinstance(part, layer) for part in prepared.modules()) == count
            found, noise = prepared(SOURCE, MASK), 0.05 * float(exact.std())
            near = 1e-5 if kind == "float32" else noise
            torch.testing.assert_close(found, exact, rtol=0, atol=near)
            assert kind == "float32" or not torch.equal(found, exact)


CELLS = ("rnn", "rnn_relu", "lstm", "gru")
cells = pytest.mark.parametrize("cell", CELLS)


@cache
def recurrent(cell: Any) -> Any:
    """An encoder that reads in both directions, and a decoder with attention."""
    torch.manual_seed(2)
    config = RecurrentConfig(
        shape="encoder-decoder", head="language", vocab=VOCAB, d_model=12, hidden=16, layers=2,
        cell=cell, bidirectional=True, tied=False,
    )  # fmt: skip
    return sharper(build(config).eval())


def test_refusals(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="int8 works only with Transformers and recurrent"):
        prepare(build(MLPConfig(inputs=3, outputs=1)), "int8")
    with pytest.raises(InputError, match="pass the original"):
        prepare(prepare(language_model()))
    with pytest.raises(
        InputError, match="int8 works only on CPUs, but the network is on meta; use bfloat16"
    ):
        prepare(build(language_model().config).to("meta"), "int8")
    monkeypatch.setattr(precision, "has_bf16", lambda device: False)
    with pytest.raises(InputError, match=r"bfloat16: .*float32 or int8"):
        prepare(language_model(), "bfloat16")


def test_bf16_on_a_processor_that_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "has_bf16", lambda device: True)
    prepared = prepare(language_model(), "bfloat16")
    assert {parameter.dtype for parameter in prepared.parameters()} == {torch.bfloat16}


@cells
@pytest.mark.parametrize("beams", [1, 3])
def test_a_recurrent_network_in_float32_writes_the_same(cell: str, beams: int) -> None:
    network = recurrent(cell)
    prepared = prepare(network, "float32")
    assert prepared.decoder.recurrent.packed
    for mine, its in zip(written(prepared, beams), written(network, beams), strict=True):
        assert [text.tokens for text in mine] == [text.tokens for text in its]
        scores = [[text.log_probability for text in texts] for texts in (mine, its)]
        torch.testing.assert_close(*map(torch.tensor, scores), rtol=1e-5, atol=1e-5)


@needs_int8
@cells
def test_a_recurrent_network_in_int8(cell: str) -> None:
    """Near float32, but not float32; token by token and as whole texts, traced and untraced, with
    and without padding, it gives the same."""
    network, ids = recurrent(cell), torch.tensor([[EOS, 3, 4], [EOS, 5, 6]])
    prepared = prepare(network, "int8")
    source, mask = SOURCE[1:], MASK[1:]
    with torch.no_grad():
        exact, found = network(source, ids, mask), prepared(source, ids, mask)
        assert 0 < (found - exact).abs().mean() < 0.03 * exact.std()
        traced = prepared(source, ids, mask, trace=Trace())
        alone = prepared(source[:1, :4], ids[:1])
        state = prepared.start(GenerationInputs.of(source, mask), 3)
        steps = [prepared.step(ids[:, at : at + 1], state) for at in range(3)]
    near = {"rtol": 1e-4, "atol": 1e-4 if cpu_kernels.available() else 0.1}
    torch.testing.assert_close(traced, found, **near)
    torch.testing.assert_close(alone, found[:1], **near)
    torch.testing.assert_close(torch.cat(steps, dim=1), found, **near)
