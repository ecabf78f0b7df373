"""What words counted, against torch by hand, small changes of the embedding, and sums."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from tests.see.explained import (
    ALL,
    Explained,
    classifier,
    regressor,
    tagger,
    translator,
    writer,
)
from tests.tiny.dealt import dealt
from torch import Tensor

import translucid as tl
from translucid.core.errors import InputError
from translucid.core.trace import Trace
from translucid.models.base import evaluating
from translucid.see.saliency import Saliency, saliency, saliency_map

EVERY = pytest.mark.parametrize("explained", ALL.values(), ids=ALL.keys())

# Where the words enter each of them, and where the first of those words stands among the tokens.
ENTRANCES = {
    "translator": {"encoder.embedding.scaled": 0, "decoder.embedding.scaled": 4},
    "translator, lstm": {"encoder.embedding.lookup": 0, "decoder.embedding.lookup": 4},
    "writer": {"decoder.embedding.scaled": 0},
    "writer, gru": {"decoder.embedding.lookup": 0},
    "classifier": {"encoder.embedding.scaled": 0},
    "classifier, lstm": {"encoder.embedding.lookup": 0},
    "classifier with n-gram features": {
        "encoder.embedding.scaled": 0,
        "ngrams.words": 0,
        "ngrams.pairs": 0,
    },
    "ensemble": {f"members.{n}.encoder.embedding.scaled": 0 for n in range(2)},
    "tagger": {"encoder.embedding.scaled": 0},
    "tagger with characters": {"encoder.characters.sum": 0},
    "causal tagger, rnn": {"decoder.embedding.lookup": 0},
    "linear classifier": {f"linear.{name}": 0 for name in ("words", "pairs", "characters")},
    "linear tagger": {f"linear.{name}": 0 for name in ("words", "characters", "next", "previous")},
}


def answered(explained: Explained, found: Saliency, edit: dict[str, Tensor]) -> Tensor:
    """The logit that is explained, of the network with other embeddings."""
    network, _, example = explained
    outputs = network(**example.inputs_for(network), trace=Trace([], edit=edit))
    place = () if found.answer.place is None else (found.answer.place,)
    return outputs[(0, *place, found.answer.choice)]


def embedded(explained: Explained, names: list[str]) -> dict[str, Tensor]:
    network, _, example = explained
    trace = Trace(names)
    with evaluating(network), torch.no_grad():
        network(**example.inputs_for(network), trace=trace)
    return {name: trace[name] for name in names}


@pytest.mark.parametrize("kind", ENTRANCES)
def test_gradient_times_input_is_torch_by_hand(kind: str) -> None:
    explained, entrances = ALL[kind], ENTRANCES[kind]
    found = saliency(*explained)
    given = embedded(explained, list(entrances))
    with evaluating(explained[0]):
        given = {name: value.requires_grad_() for name, value in given.items()}
        value = answered(explained, found, given)
        slopes = torch.autograd.grad(value, list(given.values()))
    assert found.value == pytest.approx(value.item(), rel=1e-12)
    wanted = np.zeros(32)
    for (name, x), slope in zip(given.items(), slopes, strict=True):
        for place, part in enumerate((x * slope)[0].detach().sum(dim=-1).tolist()):
            wanted[entrances[name] + place] += part
    np.testing.assert_allclose(found.values, wanted[: len(found.tokens)], rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("kind", ENTRANCES)
def test_gradient_times_input_is_the_slope_of_stretching_a_word(kind: str) -> None:
    """d/ds of the answer with one word's embedding times s, at s = 1."""
    explained, entrances, step = ALL[kind], ENTRANCES[kind], 1e-5
    found, given = saliency(*explained), embedded(ALL[kind], list(entrances))

    def stretched(token: int, by: float) -> float:
        edit = {name: value.clone() for name, value in given.items()}
        for name, first in entrances.items():
            if 0 <= token - first < edit[name].shape[1]:
                edit[name][:, token - first] *= by
        with evaluating(explained[0]), torch.no_grad():
            return answered(explained, found, edit).item()

    for token, value in enumerate(found.values):
        slope = (stretched(token, 1 + step) - stretched(token, 1 - step)) / (2 * step)
        assert value == pytest.approx(slope, rel=1e-5, abs=1e-9)


@EVERY
@pytest.mark.parametrize("unit", ["logit", "log_probability"])
def test_integrated_gradients_add_up(explained: Explained, unit: str) -> None:
    if explained[1].name == "regress" and unit != "logit":
        pytest.skip("numbers have no probability")
    network, _, _ = explained
    found = saliency(*explained, method="integrated", steps=96, unit=unit)
    assert found.nothing is not None
    assert found.values.sum() == pytest.approx(found.value - found.nothing, rel=1e-4)
    assert abs(found.value - found.nothing) > 1e-3  # else it would say nothing
    if unit == "logit" and "regress" not in explained[1].name:
        kind = next(kind for kind, each in ALL.items() if each is explained)
        zeros = {name: torch.zeros_like(value)
                 for name, value in embedded(explained, list(ENTRANCES[kind])).items()}  # fmt: skip
        with evaluating(network), torch.no_grad():
            assert found.nothing == pytest.approx(answered(explained, found, zeros).item())


@pytest.mark.parametrize("positions", ["rotary", "alibi", "none"])
@pytest.mark.parametrize("norm", ["layer", "rms"])
def test_they_add_up_where_a_norm_makes_small_embeddings_large(positions: str, norm: str) -> None:
    found = saliency(*writer(positions=positions, norm=norm), method="integrated", steps=192)
    assert found.nothing is not None
    assert found.values.sum() == pytest.approx(found.value - found.nothing, rel=1e-4)


def test_too_few_steps_are_noted_with_the_missing_part() -> None:
    explained = classifier(activation="relu")
    few, many = (saliency(*explained, method="integrated", steps=n) for n in (8, 512))
    assert many.nothing is not None
    assert abs(many.missing) < 5e-3 * abs(many.value - many.nothing) < abs(few.missing)
    assert f"for {few.missing:.1g}; more steps" in few.picture().note
    assert "more steps" not in many.picture().note
    assert "more steps" in saliency_map(*explained, method="integrated", steps=8).note


@pytest.mark.parametrize("standardise", [False, True])
def test_both_methods_agree_where_the_model_is_a_line(standardise: bool) -> None:
    explained = regressor(hidden=(), standardise=standardise)
    network, _, example = explained
    x, weight = example.inputs_for(network)["x"], network.get_parameter("output.linear.weight")
    start = torch.zeros_like(x)
    if standardise:
        layer = network.get_submodule("standardise")
        layer.mean.copy_(torch.tensor([1.0, -1.0, 0.5]))
        layer.deviation.copy_(torch.tensor([2.0, 0.5, 1.0]))
        start, weight = layer.mean, weight / layer.deviation
    for output in range(2):
        wanted = (weight[output] * (x - start)[0]).detach().numpy()
        for steps in (2, 64):
            found = saliency(*explained, of=output, method="integrated", steps=steps)
            np.testing.assert_allclose(found.values, wanted, rtol=1e-12)
        np.testing.assert_allclose(saliency(*explained, of=output).values, wanted, rtol=1e-12)


def test_ngram_features_are_what_they_say() -> None:
    """A feature goes straight into the answer: all of it counts."""
    explained = classifier(ngram_features=7)
    with torch.no_grad():
        explained[0].get_parameter("head.linear.weight").zero_()  # nothing else does
    given = embedded(explained, ["ngrams.words", "ngrams.pairs"])
    found = saliency(*explained, of="bad")
    wanted = sum(value[0, :, 0] for value in given.values())
    np.testing.assert_allclose(found.values, wanted, rtol=1e-12)


# ---- what is explained ----


def test_what_is_explained_by_default_and_by_choice() -> None:
    network, _, example = explained = ALL["classifier"]
    with evaluating(network), torch.no_grad():
        logits = network(**example.inputs_for(network))[0]
    likeliest = ("bad", "good", "so so")[int(logits.argmax())]
    assert saliency(*explained).answer.name == likeliest
    assert saliency(*explained, of="so so").value == pytest.approx(logits[2].item())
    assert saliency(*explained, of=0).answer.name == "bad"
    assert saliency(*explained, of=0, unit="log_probability").value == pytest.approx(
        logits.log_softmax(-1)[0].item()
    )
    answer = saliency(*ALL["translator"]).answer  # the last word before the end
    assert (answer.place, answer.name) == (2, "sieht")
    assert answer.choice == ALL["translator"][2].batch.targets[0, 2]
    assert saliency(*ALL["translator"], of=-1).answer.name == "</s>"
    assert saliency(*ALL["translator"], of="Hund").answer.place == 1
    assert saliency(*ALL["writer"]).answer.place == 5  # what it would write next
    assert saliency(*ALL["writer"], of=2).answer.name == "sees"
    assert saliency(*ALL["tagger"], of="cat").answer.place == 1
    assert saliency(*ALL["tagger"]).answer.name.endswith(" at sleeps")
    assert saliency(*ALL["regressor"], of=1).answer.name == "output 2"


def test_only_what_was_read_before_is_shown() -> None:
    found = saliency(*ALL["translator"], of="Hund")
    assert found.tokens == ("the", "cat", "sleeps", "</s>", "<s> (written)", "ein (written)")
    assert saliency(*ALL["writer"], of=1).tokens == ("</s>", "the")
    assert saliency(*ALL["causal tagger, rnn"], of=1).tokens == ("the", "cat")
    assert saliency(*ALL["tagger"], of=1).tokens == ("the", "cat", "sleeps")
    assert saliency(*ALL["regressor"]).tokens == ("x1", "x2", "x3")


@pytest.mark.parametrize(
    ("kind", "method"), dealt(ALL, ["gradient", "integrated"], share=2, rest=pytest.mark.slow)
)
def test_the_map_has_the_answers_one_by_one(
    kind: str, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    explained = ALL[kind]
    heat = saliency_map(*explained, method=method, steps=3)
    # In small chunks, a row's way is cut into several.
    monkeypatch.setattr("translucid.see.saliency.AT_ONCE", 16)
    for row, name in enumerate(heat.rows.labels):
        found = saliency(*explained, of=row, method=method, steps=3)
        assert found.answer.name == name
        kept = np.isfinite(heat.values[row])
        assert found.tokens == tuple(np.array(heat.columns.labels)[kept])
        np.testing.assert_allclose(heat.values[row][kept], found.values, rtol=1e-9, atol=1e-12)
    assert heat.as_dict()["kind"] == "heat"
    assert found.picture().as_dict()["kind"] == "bars"


def test_bars_hold_the_numbers() -> None:
    found = saliency(*ALL["translator"], method="integrated")
    bars = found.picture()
    assert bars.labels == found.tokens
    assert bars.values is found.values
    assert bars.title == "What contributed to sieht"
    assert bars.marked == (int(np.abs(found.values).argmax()),)
    assert "for zero embeddings" in bars.note


# ---- what is left behind, and what is refused ----


def test_frozen_and_training_networks_are_left_as_they_were() -> None:
    network, task, example = translator("gru", target_vocab=None, vocab=20)
    wanted = saliency(network, task, example)
    network.train().requires_grad_(False)
    with torch.no_grad():
        again = saliency(network, task, example)
    np.testing.assert_array_equal(wanted.values, again.values)
    assert network.training
    assert not any(weight.requires_grad for weight in network.parameters())
    assert all(weight.grad is None for weight in network.parameters())


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (classifier, {"of": "great"}, r"of = 'great': .*bad, good, so so"),
        (classifier, {"of": 3}, r"of = 3: .*bad, good, so so.* 0 and 2"),
        (tagger, {"of": "dog"}, r"of = 'dog': there are the, cat, sleeps"),
        (translator, {"of": 4}, r"of = 4: .*ein, Hund, sieht, </s>.* 0 and 3"),
        (classifier, {"method": "magic"}, r"method = 'magic': expected gradient or integrated"),
        (classifier, {"steps": 1}, r"steps = 1: must be at least 2"),
        (classifier, {"unit": "odds"}, r"unit = 'odds': expected logit or log_probability"),
        (regressor, {"unit": "log_probability"}, r"a numeric output has no probability; omit unit"),
    ],
)
def test_wrong_options_are_refused(
    make: Callable[[], Explained], options: dict[str, object], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        saliency(*make(), **options)


def test_a_perceptron_has_no_saliency() -> None:
    with pytest.raises(InputError, match=r"perceptron.*perceptron\.sum\[0\]"):
        tl.load("demo:perceptron").saliency("1 1")


def test_a_repeated_word_needs_its_position() -> None:
    network, task, _ = ALL["writer"]
    example = task.example("a dog sees a cat")
    with pytest.raises(InputError, match=r"of = 'a'.*2 times.* 0, 3"):
        saliency(network, task, example, of="a")


# ---- against another implementation ----


@pytest.mark.parametrize(
    "kind", ["classifier", "classifier, lstm", "writer, gru", "translator", "translator, lstm"]
)
def test_captum_agrees(kind: str) -> None:
    attr = pytest.importorskip("captum.attr", reason="captum is not installed: nothing to compare")
    explained, entrances = ALL[kind], ENTRANCES[kind]
    network, _, example = explained
    given = embedded(explained, list(entrances))
    plain = saliency(*explained)
    integrated = saliency(*explained, method="integrated", steps=128)

    def forward(*entered: Tensor) -> Tensor:
        rows = entered[0].shape[0]
        inputs = {
            name: value.expand(rows, -1) for name, value in example.inputs_for(network).items()
        }
        edit = dict(zip(entrances, entered, strict=True))
        outputs = network(**inputs, trace=Trace([], edit=edit))
        return outputs if outputs.dim() == 2 else outputs[:, plain.answer.place]

    inputs = tuple(value.requires_grad_() for value in given.values())
    options = {"inputs": inputs, "target": plain.answer.choice}
    with evaluating(network):
        theirs = {
            "gradient": attr.InputXGradient(forward).attribute(**options),
            "integrated": attr.IntegratedGradients(forward).attribute(
                **options, n_steps=128, method="gausslegendre"
            ),
        }
    for found in (plain, integrated):
        parts = [part[0].detach().sum(dim=-1).numpy() for part in theirs[found.method]]
        wanted = np.concatenate(parts)[: len(found.tokens)]
        # Its steps are rounded to float32.
        np.testing.assert_allclose(found.values, wanted, rtol=1e-6, atol=1e-9)
