"""A text whose weights of attention have no room: attention goes by the fused kernel, and a layer
that is looked at is run again on what it was given. Its points, their order and their numbers are
those of a run by hand."""

import json
import struct
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.studio.serving import TEXT, model

from translucid.models import TransformerConfig
from translucid.studio import answers, attention_tables, credit, terms, text_runs
from translucid.studio.library import Library
from translucid.studio.text_runs import Run

LONG = " ".join([TEXT] * 5)
ROOM = 12_000  # bytes
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "rotary": (
        "language-transformer",
        {"positions": "rotary", "layers": 3, "kv_heads": 1, "placement": "pre"},
    ),
    "alibi": ("language-transformer", {"positions": "alibi", "layers": 3, "placement": "pre"}),
    "post": ("classify-transformer", {"placement": "post", "layers": 2}),
    "pair": ("translate-transformer", {"layers": 2}),
    "window": ("language-transformer", {"window": 4, "layers": 2}),
    "recurrent": ("translate-lstm", {}),
}


@pytest.fixture(params=KINDS)
def both(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> tuple[Library, Run, Run]:
    """One text read by hand with room for all of it, and with room for little."""
    family, keys = KINDS[request.param]
    library = Library({"one": model(family, **keys)}, start="by hand")
    whole = library.run("a", LONG)
    assert whole.whole
    monkeypatch.setattr(text_runs, "BUDGET", ROOM)
    cramped = Library({"one": library.opened["a"].model}, start="by kernel")
    return cramped, whole, cramped.run("a", LONG)


def close(one: Any, two: Any) -> None:
    torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-5)


def test_all_points_are_there_in_their_order(both: tuple[Library, Run, Run]) -> None:
    _, whole, cramped = both
    assert cramped.by_kernel == isinstance(whole.opened.model.network.config, TransformerConfig)
    assert not cramped.whole
    assert list(cramped.shapes.items()) == list(whole.shapes.items())
    assert cramped.kept.bytes <= text_runs.BUDGET


def test_every_point_has_the_numbers_of_a_run_by_hand(both: tuple[Library, Run, Run]) -> None:
    _, whole, cramped = both
    for name in whole.shapes:
        close(cramped[name].float(), whole[name].float())
        assert torch.equal(cramped[name], cramped[name]), name


def test_a_point_is_the_same_whatever_is_read_with_it(both: tuple[Library, Run, Run]) -> None:
    _, whole, cramped = both
    several = [name for name in whole.shapes if name not in cramped.kept][:40]
    together = {name: cramped.reading(several)[name] for name in several}
    for name in several:
        cramped.forget()
        assert torch.equal(cramped[name], together[name]), name


def test_recomputed_points_equal_kept_points(both: tuple[Library, Run, Run]) -> None:
    """Bit for bit: by the same kernel."""
    _, _, cramped = both
    kept = {name: cramped.kept[name] for name in cramped.kept}
    for name, value in kept.items():
        cramped.kept.drop(name)
        cramped.forget()
        assert torch.equal(cramped[name], value), name


@pytest.mark.parametrize("kind", ["rotary", "alibi"])
def test_a_layer_is_run_without_the_others(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    family, keys = KINDS[kind]
    monkeypatch.setattr(text_runs, "BUDGET", ROOM)
    run = Library({"one": model(family, **keys)}, start="x").run("a", LONG)
    sums = [f"decoder.layers.{layer}.feedforward_residual.sum" for layer in range(2)]
    assert all(name in run.kept for name in sums)  # given to the next layer
    calls: list[str] = []
    network = run.opened.model.network
    for name, part in network.named_modules():
        if name.count(".") == 2 and ".layers." in name:
            part.register_forward_pre_hook(lambda *_, name=name: calls.append(name))
    for name in ("self_attention.pattern", "feedforward.output", "self_attention.scores"):
        run.forget()
        assert run[f"decoder.layers.1.{name}"].isfinite().all()
    assert calls == ["decoder.layers.1"] * 3
    calls.clear()
    run.forget()
    run.kept.drop(run.output_point)
    assert run.logits.isfinite().all()
    assert calls == []  # the head alone


ASKED: dict[str, Callable[[Run], Any]] = {
    "heads": lambda run: attention_tables.heads(run, "decoder", 48),
    "parts": lambda run: credit.parts(run, 7, 3),
    "lens": lambda run: credit.layers(run, 7),
    "terms": lambda run: terms.terms(run, "decoder.layers.1.self_attention.pattern[0, 1, 9, 4]"),
    "steps": lambda run: answers.steps(run, range(3, 6), 4),
    "steps along": lambda run: answers.steps_along(run, [7, 5, 6], range(1, 4), 4),
}


def plain(value: Any) -> Any:
    """Numbers to four digits, for a comparison of all that is said."""
    match value:
        case float():
            return f"{value + 0.0:.3g}" if abs(value) > 1e-5 else "0"
        case dict():
            return {
                key: plain(one) for key, one in value.items() if key not in ("rounding", "text")
            }
        case list() | tuple():
            return [plain(one) for one in value]
        case bytes():
            (size,) = struct.unpack("<I", value[:4])
            header, values = value[4 : 4 + size], value[4 + size :]
            return plain(json.loads(header)), len(values), list(values[-400:])
        case _:
            return value


@pytest.mark.parametrize("asked", ASKED)
def test_answers_do_not_depend_on_the_kernel(asked: str, monkeypatch: pytest.MonkeyPatch) -> None:
    family, keys = KINDS["rotary"]
    library = Library({"one": model(family, **keys)}, start="by hand")
    expected = ASKED[asked](library.run("a", LONG))
    monkeypatch.setattr(text_runs, "BUDGET", ROOM)
    run = Library({"one": library.opened["a"].model}, start="by kernel").run("a", LONG)
    assert run.by_kernel
    assert plain(ASKED[asked](run)) == plain(expected)


def test_a_change_starts_where_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Layers before a switch are the same bit for bit, as those of texts by hand are."""
    monkeypatch.setattr(text_runs, "BUDGET", ROOM)
    family, keys = KINDS["rotary"]
    library = Library({"one": model(family, **keys)}, start="x")
    off = "decoder.layers.1.self_attention.head.1"
    one, two = library.run("a", LONG), library.run("a", LONG, off=[off])
    assert one.by_kernel
    assert two.by_kernel
    at = "decoder.layers.{}.feedforward_residual.sum"
    assert torch.equal(one[at.format(0)], two[at.format(0)])
    assert not torch.equal(one[at.format(1)], two[at.format(1)])
    by_hand = Library({"one": library.opened["a"].model}, start="by hand")
    monkeypatch.setattr(text_runs, "BUDGET", 2**28)
    for name in ("self_attention.pattern", "self_attention.mixed", "feedforward_residual.sum"):
        name = f"decoder.layers.1.{name}"
        close(two[name], by_hand.run("a", LONG, off=[off])[name])
