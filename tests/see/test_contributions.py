"""Contributions of parts to a logit: with what belongs to no part they are the logit, and without a
part the stream lacks just that."""

import math

import pytest
import torch
from tests.invariants.cases import randomised
from tests.see.small import pair, reading

from translucid.core.errors import InputError
from translucid.see.reading import Reading, read

TEXTS = {
    "translate": ("the dog sees a cat .", "der hund sieht eine katze ."),
    "language": ("the dog sees a cat .", None),
    "tag": ("the dog sees", None),
}


def random_reading(task: str, **keys: object) -> Reading:
    """No gain at 1 and no bias at 0: what is left out must show."""
    kind, network = pair(task, **keys)
    return read(randomised(network.config), kind, *TEXTS[task])


@pytest.mark.parametrize("placement", ["pre", "post"])
@pytest.mark.parametrize(
    ("task", "norm", "more"),
    [
        ("language", "layer", {"kv_heads": 1, "logit_scale": 0.5, "head_bias": True}),
        ("translate", "rms", {"positions": "rotary"}),
        ("tag", "batch", {"embedding_norm": True}),
        ("translate", "none", {}),
    ],
)
def test_parts_and_remainder_are_the_logit(
    task: str, norm: str, more: dict[str, object], placement: str
) -> None:
    trace = random_reading(task, norm=norm, placement=placement, final_norm=True, **more)
    logits = trace["head.logits"][0]
    network = trace.network
    for position in (0, len(logits) - 1):
        made = trace.contributions(position, 2)
        total = math.fsum([*(one.value for one in made.parts), made.remainder])
        assert total == pytest.approx(float(logits[position, 2]), rel=1e-9)
        for one in made.parts:
            if one.head is not None:
                assert math.fsum(one.by_token) == pytest.approx(one.value, rel=1e-9, abs=1e-12)
        if norm == "none":  # by hand: the head on the sum of the biases
            biases = sum(
                part.output.bias.double()
                for layer in network.decoder.blocks()
                for part in (layer.self_attention, layer.cross_attention)
            )
            expected = float((network.head.linear.weight[2] @ biases).detach())
            assert made.remainder == pytest.approx(expected, rel=1e-9)


def test_without_a_head_the_stream_lacks_its_contribution() -> None:
    """Without norms, and in the last layer, a head acts on the logit alone by what it adds, but
    through the feed-forward layer; that is held."""
    kind, network = pair("language", norm="none", layers=1)
    network = randomised(network.config)
    trace = read(network, kind, *TEXTS["language"])
    held = {"*.feedforward_residual.branch": trace["decoder.layers.0.feedforward_residual.branch"]}

    def without(mixed: torch.Tensor) -> torch.Tensor:
        mixed = mixed.clone()
        mixed[:, 1] = 0
        return mixed

    edited = read(
        network, kind, *TEXTS["language"], edit={"*.self_attention.mixed": without, **held}
    )
    (head,) = [one for one in trace.contributions(3, 4).parts if one.head == 1]
    lost = trace["head.logits"][0, 3, 4] - edited["head.logits"][0, 3, 4]
    assert head.value == pytest.approx(float(lost), rel=1e-9)


def test_what_has_no_contributions_says_so() -> None:
    with pytest.raises(InputError, match=r"Transformers.*translate, language, tag"):
        reading("language", "the dog", family="lstm").contributions(0, 0)
    with pytest.raises(InputError, match="position must be between 0 and"):
        reading("language", "the dog").contributions(99, 0)
