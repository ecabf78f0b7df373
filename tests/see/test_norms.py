"""What a norm was given and gave, against hooks on the norms themselves."""

from typing import Any

import numpy as np
import pytest
from tests.see import small_readings as small
from torch import Tensor, nn

from translucid.core.errors import InputError
from translucid.models import Network
from translucid.parts.norms import BatchNorm, LayerNorm, RMSNorm
from translucid.see.norms import before_and_after
from translucid.see.pictures import Grid, Lines
from translucid.see.reading import Reading, read

WHATS = ("mean before", "mean after", "spread before", "spread after")


def norms_of(network: Network) -> dict[str, nn.Module]:
    found = network.named_modules()
    return {name: part for name, part in found if isinstance(part, LayerNorm | RMSNorm | BatchNorm)}


def hooked(reading: Reading) -> dict[str, tuple[np.ndarray, ...]]:
    """Mean and spread before and after each norm, in the order of WHATS, from a call of its own."""
    passed: dict[str, tuple[Tensor, Tensor]] = {}
    handles = [
        part.register_forward_hook(
            lambda _, given, gave, name=name: passed.__setitem__(name, (given[0][0], gave[0]))
        )
        for name, part in norms_of(reading.network).items()
    ]
    small.say(reading)
    for handle in handles:
        handle.remove()
    return {name: statistics(*both) for name, both in passed.items()}


def statistics(before: Tensor, after: Tensor) -> tuple[np.ndarray, ...]:
    x, y = before.numpy(), after.numpy()
    return x.mean(-1), y.mean(-1), x.std(-1), y.std(-1)


@pytest.mark.parametrize("placement", ["pre", "post"])
@pytest.mark.parametrize("norm", ["layer", "rms", "batch"])
@pytest.mark.parametrize("task", ["translate", "language", "tag", "classify"])
def test_statistics_of_one_norm_equal_those_of_hooks(task: str, norm: str, placement: str) -> None:
    network = small.transformer(task, norm=norm, placement=placement)
    reading = small.reading_of(task, network)
    wanted = hooked(reading)
    assert set(wanted) == set(norms_of(network))
    for name, numbers in wanted.items():
        lines = before_and_after(reading, f"{name}.*")
        assert isinstance(lines, Lines)
        assert tuple(lines.series) == WHATS
        for what, values in zip(WHATS, numbers, strict=True):
            np.testing.assert_allclose(lines.series[what], values, rtol=1e-10, atol=1e-12)
        side = reading.words.source if "encoder" in name else reading.words.last
        assert lines.x.labels == side
        assert name in lines.title


@pytest.mark.parametrize(
    ("task", "options", "side"),
    [
        ("translate", {}, "decoder"),
        ("translate", {"placement": "post", "positions": "rotary"}, "decoder"),
        ("tag", {"norm": "rms"}, "encoder"),
        ("language", {"ensemble_size": 2}, "decoder"),
        ("classify", {"ensemble_size": 2, "norm": "batch"}, "encoder"),
    ],
)
def test_statistics_of_all_norms_equal_those_of_hooks(
    task: str, options: dict[str, Any], side: str
) -> None:
    reading = small.reading_of(task, small.transformer(task, **options))
    wanted = [numbers for name, numbers in hooked(reading).items() if side in name]
    grid = before_and_after(reading)
    assert isinstance(grid, Grid)
    assert [heat.title for heat in grid.heats] == list(WHATS)
    for place, heat in enumerate(grid.heats):
        together = np.stack([numbers[place] for numbers in wanted])
        np.testing.assert_allclose(heat.values, together, rtol=1e-10, atol=1e-12)
        assert len(set(heat.rows.labels)) == len(wanted) == len(heat.rows.labels)
    assert grid.heats[0].most == grid.heats[1].most
    assert grid.heats[2].most == max(heat.values.max() for heat in grid.heats[2:])


def test_norms_have_short_names() -> None:
    grid = before_and_after(small.reading_of("translate"))
    assert grid.heats[0].rows.labels == (
        "layer 0 self attention", "layer 0 cross attention", "layer 0 feedforward",
        "layer 1 self attention", "layer 1 cross attention", "layer 1 feedforward", "final",
    )  # fmt: skip
    members = before_and_after(
        small.reading_of("language", small.transformer("language", ensemble_size=2)), "members.1.*"
    )
    assert members.heats[0].rows.labels[0] == "member 1 layer 0 self attention"


def test_a_layer_can_be_chosen() -> None:
    reading = small.reading_of("translate")
    every, one = before_and_after(reading), before_and_after(reading, "decoder.layers.1.*")
    for whole, part in zip(every.heats, one.heats, strict=True):
        np.testing.assert_array_equal(whole.values[3:6], part.values)
    encoder = before_and_after(reading, "encoder.*")
    assert encoder.heats[0].columns.labels == reading.words.source


@pytest.mark.parametrize("placement", ["pre", "post"])
def test_an_edited_stream_is_shown_as_the_norms_read_it(placement: str) -> None:
    edit = {"*.layers.0.feedforward_residual.branch": 0.5, "*.layers.1.*.skip": 0.25}
    network = small.transformer("language", placement=placement)
    reading = small.reading_of("language", network, edit=edit)
    passed: list[tuple[np.ndarray, ...]] = []
    handles = [
        part.register_forward_hook(lambda _, x, y: passed.append(statistics(x[0][0], y[0])))
        for part in norms_of(network).values()
    ]
    small.reading_of("language", network, edit=edit)
    for handle in handles:
        handle.remove()
    for place, heat in enumerate(before_and_after(reading).heats):
        together = np.stack([numbers[place] for numbers in passed])
        np.testing.assert_allclose(heat.values, together, rtol=1e-10, atol=1e-12)


def test_layer_norm_shows_the_numbers_of_the_trace() -> None:
    reading = small.reading_of("language")
    lines = before_and_after(reading, "decoder.final_norm.*")
    mean, variance = (reading[f"decoder.final_norm.{point}"] for point in ("mean", "variance"))
    np.testing.assert_allclose(lines.series["mean before"], mean[0, :, 0], rtol=1e-12)
    np.testing.assert_allclose(lines.series["spread before"], variance[0, :, 0].sqrt(), rtol=1e-12)


def test_tokens_selects_a_window_of_a_long_text() -> None:
    reading = read(small.transformer("language"), small.TASKS["language"], "the dog runs " * 30)
    wanted = hooked(reading)["decoder.final_norm"]
    lines = before_and_after(reading, "*.final_norm.*", tokens=(60, 70))
    for what, values in zip(WHATS, wanted, strict=True):
        np.testing.assert_allclose(lines.series[what], values[60:70], rtol=1e-10, atol=1e-12)
    assert lines.x.labels == reading.words.last[60:70]
    assert lines.note == "tokens 60 to 69 of 91; tokens=(a, b) shows others"


def test_impossible_requests_are_refused() -> None:
    translate = small.reading_of("translate")
    with pytest.raises(InputError, match="pattern='encoder"):
        before_and_after(translate, "*")
    with pytest.raises(
        InputError, match=r"no norm that matches '\*\.head\.\*'; .* encoder\.layers\.0"
    ):
        before_and_after(translate, "*.head.*")
    for network in (small.transformer("language", norm="none"), small.recurrent("language")):
        with pytest.raises(InputError, match="norms"):
            before_and_after(small.reading_of("language", network))
