"""Attention of a long text in parts: what is computed of some heads and queries, cut and pooled, is
what the whole tables of a run by hand give."""

from typing import Any

import numpy as np
import pytest
import torch
from tests.studio.serving import model
from tests.studio.test_layer_inputs import KINDS, LONG, ROOM, both, plain  # noqa: F401  (fixture)

from translucid.core.catalogue import describe
from translucid.core.errors import InputError
from translucid.parts.attention import INSIDE
from translucid.studio import answers, attention_tables, layer_inputs, terms, text_runs
from translucid.studio.library import Library
from translucid.studio.tensors import TensorSlice, frame, unpacked
from translucid.studio.text_runs import Run

Both = tuple[Library, Run, Run]
CUTS: list[TensorSlice] = [
    TensorSlice((), "f32"),
    TensorSlice((1,), "f32", 4),
    TensorSlice((), "f32", (3, 7)),
    TensorSlice((None, range(3, 9)), "f32", 5),
    TensorSlice((None, 5), "f32", (1, 4)),
    TensorSlice((1, 5, 3), "f32"),
    TensorSlice((range(1, 2), None, 2), "f32", 3),
    TensorSlice((0, 7, range(2, 6)), "f32"),
    TensorSlice((1, range(2, 6), range(1, 4)), "u8", 2),
]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few queries at a time, so that there are many blocks, the last one smaller."""
    monkeypatch.setattr(layer_inputs, "BLOCK", 400)


def inside(run: Run) -> list[str]:
    """Points of attention that a long text is shown parts of, tables first."""
    return [
        name
        for name in run.shapes
        if name.rpartition(".")[2] in INSIDE
        and len(run.shapes[name]) == 4
        and ".masks." not in name
    ]


def test_a_part_is_cut_and_pooled_as_the_whole(both: Both) -> None:  # noqa: F811
    _, whole, cramped = both
    if not cramped.by_kernel:
        return
    names = [name for name in inside(whole) if whole.shapes[name][-1] > 6]
    first = next(name for name in names if name.endswith(".masked"))
    asked = [*((first, cut) for cut in CUTS), *zip(names, CUTS * len(names), strict=False)]
    for name, cut in asked:
        (got,) = attention_tables.frames(cramped, [name], cut)
        expected = frame(name, whole[name], describe(name).axes, cut)
        ((header, values),), ((true_header, true),) = unpacked(got), unpacked(expected)
        ends = [(each.pop("lo"), each.pop("hi")) for each in (header, true_header)]
        assert header == true_header, name
        assert ends[0] == pytest.approx(ends[1], rel=1e-4, abs=1e-5)
        step = (ends[1][1] - ends[1][0]) / 254 if cut.form == "u8" else 0.0
        np.testing.assert_allclose(values, true, rtol=1e-4, atol=1e-5 + step)
    assert not cramped.lately  # no table was computed whole


@pytest.mark.parametrize("pool", [4, 48])
def test_all_heads_at_a_glance_are_those_of_whole_patterns(both: Both, pool: int) -> None:  # noqa: F811
    _, whole, cramped = both
    for kind, names in attention_tables.kinds_of_attention(whole).items():
        for layers in (None, range(len(names) - 1, len(names))):
            ((header, got),) = unpacked(attention_tables.heads(cramped, kind, pool, layers))
            some = names if layers is None else names[-1:]
            assert header["at"] == some
            for layer, name in enumerate(some):
                true = whole[name][0]
                true = true if true.dim() == 3 else true[None]
                queries, keys = (-(-size // pool) for size in true.shape[1:])
                blocks = [
                    [part.amax((1, 2)) for part in row.split(keys, 2)]
                    for row in true.split(queries, 1)
                ]
                pooled = torch.stack([torch.stack(row, -1) for row in blocks], 1)
                np.testing.assert_allclose(got[layer], pooled, atol=0.5 / 254 + 1e-5)
                bits = torch.special.entr(true.double()).sum(-1).mean(-1) / np.log(2)
                assert header["entropy"][layer] == pytest.approx(bits.tolist(), abs=1e-4)
                most = true.amax((1, 2)).tolist()
                assert header["most"][layer] == pytest.approx(most, rel=1e-4)
    assert not (cramped.by_kernel and cramped.lately)


def test_layers_that_are_not_there_are_refused(both: Both) -> None:  # noqa: F811
    _, _, cramped = both
    kind, names = next(iter(attention_tables.kinds_of_attention(cramped).items()))
    with pytest.raises(InputError, match=f"layers: .*0 to {len(names) - 1}, not"):
        attention_tables.heads(cramped, kind, 48, range(len(names), len(names) + 1))


def test_a_number_inside_is_opened_from_its_own_row(both: Both) -> None:  # noqa: F811
    _, whole, cramped = both
    if not cramped.by_kernel:
        return
    random = torch.Generator().manual_seed(7)
    mixed = [name for name in whole.shapes if name.endswith("attention.mixed")]
    for name in [*inside(whole), *mixed][:: 3 if len(mixed) > 3 else 1]:
        index = [int(torch.randint(size, (), generator=random)) for size in whole.shapes[name]]
        address = f"{name}[{', '.join(map(str, index))}]"
        assert plain(terms.terms(cramped, address)) == plain(terms.terms(whole, address)), address
    assert not any(name.endswith("pattern") for reading in cramped.lately for name in reading)


OFF = {
    "as trained": [],
    "a head": ["decoder.layers.1.self_attention.head.1"],
    "a layer": ["decoder.layers.0.feedforward"],
    "the mask": ["decoder.masks.causal"],
    "the scale": ["decoder.scale"],
    "a pattern": ["decoder.layers.1.self_attention.pattern"],
}


@pytest.mark.parametrize("off", OFF)
@pytest.mark.parametrize("kind", ["rotary", "alibi", "window"])
def test_continuing_a_long_text_does_not_process_it_again(
    kind: str, off: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    family, keys = KINDS[kind]
    library = Library({"one": model(family, **keys)}, start="by hand")
    switches = OFF[off]
    tokens = [7, 5, 6, 8]
    expected = answers.steps_along(library.run("a", LONG, off=switches), tokens, None, 4)
    monkeypatch.setattr(text_runs, "BUDGET", ROOM)
    opened = library.opened["a"]
    run = Library({"one": opened.model}, start="by kernel").run("a", LONG, off=switches)
    assert run.by_kernel
    rows: list[int] = []
    for name, part in opened.model.network.named_modules():
        if name.endswith(".feedforward"):
            part.register_forward_pre_hook(lambda _, given: rows.append(given[0].shape[1]))
    assert plain(answers.steps_along(run, tokens, None, 4)) == plain(expected)
    if off == "as trained":
        assert set(rows) == {len(tokens) + 1}


def test_edited_attention_is_computed_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    family, keys = KINDS["rotary"]
    library = Library({"one": model(family, **keys)}, start="by hand")
    name, off = "decoder.layers.1.self_attention.pattern", OFF["a pattern"]
    whole = library.run("a", LONG, off=off)
    monkeypatch.setattr(text_runs, "BUDGET", ROOM)
    run = Library({"one": library.opened["a"].model}, start="by kernel").run("a", LONG, off=off)
    assert run.by_kernel
    assert run.attended(name) is None
    (got,) = attention_tables.frames(run, [name], TensorSlice((), "f32"))
    torch.testing.assert_close(
        torch.from_numpy(unpacked(got)[0][1].copy()), whole[name][0], rtol=1e-4, atol=1e-5
    )


def test_the_first_tokens_of_a_search_are_nodes_of_the_whole_tree() -> None:
    """The page of a large model draws the first one while it waits for the other."""
    run = Library({"one": model("language-transformer")}, start="x").run("a", "the dog")

    def nodes(max_length: int | None) -> list[dict[str, Any]]:
        return answers.decode(run, 4, 4, {}, max_length)["tree"]["nodes"]

    first, all_ = nodes(8), nodes(None)
    assert max(node["length"] for node in first) == 8
    assert max(node["length"] for node in all_) > 8
    same = ("number", "parent", "token", "length", "score")
    assert [[node[key] for key in same] for node in first] == [
        [node[key] for key in same] for node in all_[: len(first)]
    ]
