"""Gradients against torch on the plain network, and against the loss of edited traces."""

import warnings
from dataclasses import replace
from typing import Any

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
from torch import Tensor

from translucid.core.errors import InputError, UnknownPointError
from translucid.core.trace import NO_TRACE, NoTrace, Trace
from translucid.models.base import evaluating
from translucid.see.gradients import gradients
from translucid.tasks.batch import IGNORE

EVERY = pytest.mark.parametrize("explained", ALL.values(), ids=ALL.keys())


def plain_loss(explained: Explained, trace: NoTrace = NO_TRACE, of: int | None = None) -> Tensor:
    """As torch's own functions have it."""
    network, task, example = explained
    outputs, targets = network(**example.inputs_for(network), trace=trace), example.batch.targets
    if task.name == "regress":
        losses = 0.5 * (outputs - targets) ** 2
        return losses.mean() if of is None else losses[0, of]
    if of is not None:
        targets = torch.where(torch.arange(targets.shape[1]) == of, targets, IGNORE)
    return torch.nn.functional.cross_entropy(
        outputs.reshape(-1, outputs.shape[-1]), targets.flatten(), ignore_index=IGNORE
    )


def norm(value: Any) -> float:
    return float(np.sqrt(np.nansum(np.square(np.asarray(value)))))


@EVERY
def test_weights_have_the_gradients_of_the_plain_network(explained: Explained) -> None:
    network = explained[0]
    found = gradients(*explained)
    with evaluating(network):
        loss = plain_loss(explained)
        names, weights = zip(*network.named_parameters(), strict=True)
        wanted = torch.autograd.grad(loss, weights, allow_unused=True)
    assert found.loss == pytest.approx(loss.item(), rel=1e-12)
    assert tuple(found.parameters) == names
    for gradient, other in zip(found.parameters.values(), wanted, strict=True):
        other = torch.zeros_like(gradient) if other is None else other
        torch.testing.assert_close(gradient, other, rtol=1e-9, atol=1e-12)


@EVERY
def test_the_loss_is_that_of_training_for_each_target(explained: Explained) -> None:
    network, task, example = explained
    batch = example.batch
    batch.inputs.update(example.inputs_for(network))  # the numbers of a regressor, in its precision
    with evaluating(network), torch.no_grad():
        summed = float(task.loss(network, batch))
    assert gradients(*explained).loss == pytest.approx(summed / batch.count, rel=1e-6)


# One entry of one point, for each kind of thing that a point can be.
POINTS = [
    ("writer", "decoder.layers.0.self_attention.pattern", (0, 1, 3, 2)),
    ("writer", "decoder.layers.1.self_attention.shift", (0, 1, 3, 0)),
    ("writer", "decoder.layers.0.self_attention.scale", ()),
    ("writer", "decoder.layers.0.feedforward_residual.sum", (0, 2, 5)),
    ("writer", "decoder.layers.1.self_attention_residual.skip", (0, 2, 5)),
    ("writer", "decoder.layers.1.self_attention_residual.branch", (0, 2, 5)),
    ("writer", "decoder.embedding.lookup", (0, 2, 5)),
    ("writer", "decoder.embedding.scaled", (0, 4, 1)),
    ("writer", "decoder.positions.encoding", (0, 1, 3)),
    ("writer", "head.logits", (0, 3, 4)),
    ("writer, gru", "decoder.recurrent.layers.0.gru.hidden@2", (0, 3)),
    ("writer, gru", "decoder.recurrent.layers.1.gru.update_sum@1", (0, 3)),
    ("classifier, lstm", "encoder.recurrent.layers.0.lstm.cell@1", (0, 2)),
    ("classifier, lstm", "encoder.recurrent.layers.1.lstm.cell@6", (0, 2)),
    ("classifier, lstm", "encoder.recurrent.layers.0.lstm.forget_gate@3", (0, 2)),
    ("classifier, lstm", "encoder.embedding.lookup", (0, 2, 5)),
    ("translator", "encoder.layers.1.feedforward_residual.sum", (0, 1, 6)),
    ("translator", "decoder.layers.1.cross_attention.key", (0, 1, 2, 0)),
    ("translator, lstm", "decoder.bridge.cell", (0, 4)),
    ("translator, lstm", "encoder.recurrent.layers.0.backward.lstm.hidden@3", (0, 4)),
    ("translator, lstm", "decoder.alignment.pattern", (0, 2, 1)),
    ("ensemble", "members.1.encoder.layers.0.self_attention.pattern", (0, 0, 1, 2)),
    ("classifier with n-gram features", "ngrams.words", (0, 2, 1)),
    ("tagger with characters", "encoder.characters.output", (0, 1, 2)),
    ("regressor", "layers.0.dense.preactivation", (0, 3)),
]


@pytest.mark.parametrize(("kind", "name", "entry"), POINTS)
def test_points_have_the_slope_of_the_loss_of_edited_traces(
    kind: str, name: str, entry: tuple[int, ...]
) -> None:
    explained, step = ALL[kind], 1e-5
    point, _, position = name.partition("@")
    found = gradients(*explained)
    exact = found[name][entry].item()

    def moved(by: float) -> float:
        def edit(value: Tensor) -> Tensor:
            value = value.clone()
            value[entry] += by
            return value

        trace = Trace([], edit={name: edit})
        with evaluating(explained[0]), torch.no_grad():
            loss = plain_loss(explained, trace).item()
        trace.check()
        return loss

    assert exact == pytest.approx((moved(step) - moved(-step)) / (2 * step), rel=1e-6, abs=1e-10)
    if not name.endswith("shift"):
        assert abs(exact) > 1e-7  # else it would say nothing
    if position:
        torch.testing.assert_close(found[point][:, int(position)], found[name])


def test_every_point_has_a_finite_gradient_of_its_shape() -> None:
    for explained in ALL.values():
        network, _, example = explained
        values, found = Trace(), gradients(*explained)
        with evaluating(network), torch.no_grad():
            network(**example.inputs_for(network), trace=values)
        wanted = [name for name in values if values[name].is_floating_point()]
        assert found.names() == wanted
        for name in wanted:
            assert found[name].shape == values[name].shape
            assert found[name].isfinite().all(), name


@EVERY
def test_looking_at_few_points_gives_the_same_weights(explained: Explained) -> None:
    """Then fused kernels run inside."""
    logits = next(name for name in reversed(gradients(*explained).names()))
    whole, part = gradients(*explained), gradients(*explained, keep=logits)
    assert part.names() == [logits]
    for name, gradient in whole.parameters.items():
        torch.testing.assert_close(gradient, part.parameters[name], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(("kind", "of"), [("writer", 2), ("translator, lstm", 0), ("regressor", 1)])
def test_of_is_the_loss_of_one_target(kind: str, of: int) -> None:
    network = ALL[kind][0]
    found = gradients(*ALL[kind], of=of)
    with evaluating(network):
        loss = plain_loss(ALL[kind], of=of)
        wanted = torch.autograd.grad(loss, list(network.parameters()), allow_unused=True)
    assert found.loss == pytest.approx(loss.item(), rel=1e-12)
    for gradient, other in zip(found.parameters.values(), wanted, strict=True):
        other = torch.zeros_like(gradient) if other is None else other
        torch.testing.assert_close(gradient, other, rtol=1e-9, atol=1e-12)


def test_a_target_may_be_counted_from_the_end() -> None:
    explained = writer()  # its last place has no target: the text may go on
    assert gradients(*explained, of=-1).loss == gradients(*explained, of=4).loss
    message = r"of = 5.* 0, 1, 2, 3, 4"
    with pytest.raises(InputError, match=message):
        gradients(*explained, of=5)
    with pytest.raises(InputError, match=r"of = -6.* 0"):
        gradients(*explained, of=-6)


# ---- pictures ----


@EVERY
def test_layers_and_parts_add_up_to_the_whole(explained: Explained) -> None:
    found = gradients(*explained)
    whole = torch.cat([gradient.flatten() for gradient in found.parameters.values()]).norm().item()
    layers, parts = found.by_layer(), found.by_part()
    assert norm(layers.values) == pytest.approx(whole, rel=1e-12)
    assert norm(parts.values) == pytest.approx(whole, rel=1e-12)
    assert parts.rows.labels == layers.labels
    for number, row in enumerate(parts.values):
        assert norm(row) == pytest.approx(layers.values[number], rel=1e-12)


def test_one_cell_is_the_norm_of_its_weights() -> None:
    found = gradients(*ALL["translator"])
    heat = found.by_part()
    cell = heat.values[
        heat.rows.labels.index("decoder layer 1"), heat.columns.labels.index("cross attention")
    ]
    own = [
        g.norm()
        for name, g in found.parameters.items()
        if "decoder.layers.1.cross_attention." in name
    ]
    assert len(own) == 6
    assert cell == pytest.approx(float(torch.stack(own).norm()), rel=1e-12)
    assert np.isnan(
        heat.values[
            heat.rows.labels.index("encoder layer 1"), heat.columns.labels.index("cross attention")
        ]
    )


def test_layers_stand_in_the_order_of_the_forward_pass() -> None:
    assert gradients(*ALL["translator"]).by_layer().labels == (
        "encoder embedding", "encoder layer 0", "encoder layer 1", "encoder final norm",
        "decoder embedding", "decoder layer 0", "decoder layer 1", "decoder final norm",
    )  # fmt: skip
    lstm = gradients(*ALL["translator, lstm"])
    assert lstm.by_layer().labels == (
        "encoder embedding", "encoder layer 0", "encoder layer 1",
        "decoder bridge", "decoder embedding", "decoder layer 0", "decoder layer 1",
        "decoder alignment",
    )  # fmt: skip
    assert lstm.names().index("decoder.bridge.hidden") < lstm.names().index(
        "decoder.embedding.lookup"
    )
    assert "lstm state weights, backward" in lstm.by_part().columns.labels
    assert gradients(*ALL["regressor"]).by_layer().labels == ("layer 0", "output")
    members = gradients(*ALL["ensemble"]).by_layer().labels
    assert members[0] == "member 0 encoder embedding"
    assert members[-1] == "member 1 head"
    assert gradients(*ALL["tagger with characters"]).by_layer().labels == (
        "encoder embedding", "encoder characters", "encoder layer 0", "encoder layer 1", "head",
    )  # fmt: skip


def test_shared_weights_are_told() -> None:
    assert gradients(*ALL["translator"]).by_layer().note == "decoder embedding is also head"
    shared = gradients(*translator(vocab=20, target_vocab=None)).by_layer()
    assert shared.note == "encoder embedding is also decoder embedding and head"
    assert gradients(*writer(tied=False)).by_layer().note == ""


@pytest.mark.parametrize(
    ("kind", "lines"),
    [
        ("classifier, lstm", {"encoder layer 0 cell": "encoder.recurrent.layers.0.lstm.cell",
                              "encoder layer 1 hidden": "encoder.recurrent.layers.1.lstm.hidden"}),
        ("writer, gru", {"decoder layer 1 hidden": "decoder.recurrent.layers.1.gru.hidden"}),
        ("writer", {"decoder embedding": "decoder.embedding.scaled",
                    "decoder layer 0": "decoder.layers.0.feedforward_residual.sum"}),
    ],
)  # fmt: skip
def test_over_words_stand_the_norms_of_states_and_stream(kind: str, lines: dict[str, str]) -> None:
    found = gradients(*ALL[kind])
    picture = found.by_time()
    assert picture.logarithmic
    assert picture.x.labels == ALL[kind][2].words.last
    for label, name in lines.items():
        sizes = [found[name][0, place].norm().item() for place in range(len(picture.x.labels))]
        np.testing.assert_allclose(picture.series[label], [size or np.nan for size in sizes])


def test_what_is_read_and_what_is_written_stand_behind_one_another() -> None:
    found, words = gradients(*ALL["translator, lstm"]), ALL["translator, lstm"][2].words
    picture = found.by_time("*.lstm.hidden")
    assert picture.x.labels == words.source + words.target
    read, written = (picture.series[f"{side} hidden"] for side in
                     ("encoder layer 0 backward", "decoder layer 0"))  # fmt: skip
    split = len(words.source)
    assert np.isnan(read[split:]).all()
    assert np.isnan(written[:split]).all()
    assert (read[:split] > 0).all()
    assert (written[split:] > 0).all()
    assert found.by_time("decoder.*.cell").x.labels == words.target


def test_the_gradient_of_an_early_word_does_not_reach_later_ones() -> None:
    picture = gradients(*ALL["writer, gru"], of=2).by_time()
    assert "from the loss at sees" in picture.title
    assert picture.note == "where a line has no dot, the gradient is 0"
    for sizes in picture.series.values():
        assert (sizes[:3] > 0).all()
        assert np.isnan(sizes[3:]).all()


def test_a_title_quotes_a_punctuation_mark() -> None:
    network, task, example = ALL["writer, gru"]
    words = replace(example.words, follows=(".", *example.words.follows[1:]))
    picture = gradients(network, task, replace(example, words=words), of=0).by_time()
    assert picture.title.endswith("from the loss at ‘.’")


def test_a_plain_rnn_forgets_where_its_memory_is_weak() -> None:
    """U is a tenth of the identity: at each step back a tenth is left, times a slope below 1."""
    explained = classifier("rnn", pooling="last", layers=1)
    stack = explained[0].get_submodule("encoder.recurrent.fused")
    with torch.no_grad():
        stack.weight_hh_l0.copy_(0.1 * torch.eye(8))
    sizes = gradients(*explained).by_time().series["encoder layer 0 hidden"]
    assert (sizes[:-1] < 0.1 * sizes[1:]).all()


# ---- what is left behind, and what is refused ----


def test_the_network_is_left_as_it_was_found() -> None:
    network, task, example = translator("lstm")
    network.train()
    network.get_submodule("encoder").eval()
    frozen = network.get_parameter("encoder.embedding.table.weight").requires_grad_(False)
    modes = [module.training for module in network.modules()]
    before = {name: value.clone() for name, value in network.state_dict().items()}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with torch.no_grad():
            found = gradients(network, task, example)
    assert [module.training for module in network.modules()] == modes
    assert all(weight.grad is None for weight in network.parameters())
    assert all(weight.requires_grad == (weight is not frozen) for weight in network.parameters())
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    assert found.parameters["encoder.embedding.table.weight"].abs().max() > 0
    again = gradients(network, task, example)  # dropout would make it another
    assert again.loss == found.loss
    with pytest.raises(UnknownPointError):
        gradients(network, task, example, keep="*.patern")
    assert [module.training for module in network.modules()] == modes


def test_without_a_target_it_says_how_to_give_one() -> None:
    with pytest.raises(InputError, match=r"target: bad, good, so so"):
        gradients(*classifier(target=None))
    with pytest.raises(InputError, match=r"tag of each word as target"):
        gradients(*tagger(target=None))
    with pytest.raises(InputError, match=r"as target"):
        gradients(*regressor(target=None))
    with pytest.raises(InputError, match=r"2 numbers.*target.* 1"):
        gradients(*regressor(target="1"))
    network, task, _ = writer()
    with pytest.raises(InputError, match=r"one word"):
        gradients(network, task, task.example(""))


def test_what_has_no_gradient_or_no_words_says_so() -> None:
    found = gradients(*ALL["writer"])
    with pytest.raises(UnknownPointError, match=r"causal.*no gradient"):
        found["decoder.masks.causal"]
    with pytest.raises(InputError, match=r"pattern has no vector for each token \(its axes are b"):
        found.by_time("*.pattern")
    with pytest.raises(UnknownPointError, match=r"there is no point '\*\.hiden'"):
        found.by_time("*.hiden")
    with pytest.raises(InputError, match=r"recurrent.*residual"):
        gradients(*ALL["regressor"]).by_time()


@EVERY
def test_pictures_can_be_written_as_json(explained: Explained) -> None:
    found = gradients(*explained)
    assert found.by_layer().as_dict()["kind"] == "bars"
    assert found.by_part().as_dict()["kind"] == "heat"


def test_each_loss_stands_at_its_target() -> None:
    network, task, example = ALL["tagger"]
    with evaluating(network), torch.no_grad():
        outputs = network(**example.inputs_for(network))
    losses = task.outputs.losses(outputs, example.batch.targets)
    for place, tag in enumerate(example.batch.targets[0]):
        assert losses[place] == pytest.approx(-outputs[0, place].log_softmax(-1)[tag].item())
