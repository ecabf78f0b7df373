"""The models that run in the page compute what PyTorch computes, at every trace point, in Chromium
and in Firefox."""

import base64
from typing import Any

import pytest
import torch
from tests.studio.browser import Page
from tests.studio.local_page import Files, as_edit, ask, demo, some
from tests.studio.serving import TEXT, model

from translucid.see.reading import Reading

CLOSE = 1e-4
# By model, a short text and one with unknown words.
TEXTS = {
    "perceptron": ("1 1", "0.25 -3"),
    "regress": ("0 1", "0.9 -2.5"),
    "classify": ("The food was not bad.", "Although the zorp is ugly, we never criticize Quux!"),
    "tag": ("Jordan lies in Asia.", "Zorp hires Anna Keller in New York, because Quux is tired."),
    "generate": ("The dog sleeps.", "The dogs that the zorp sees are tired quux."),
    "generate-rnn": ("The dog sleeps.", "The dogs that the zorp sees are tired quux."),
    "translate": ("The dog sleeps.", "The zorp that the children read is not boring quux."),
    "translate-lstm": ("The dog sleeps.", "The zorp that the children read is not boring quux."),
}


LSTM = "encoder.recurrent.layers.0.lstm"
# A number fills a point, `some` fills some of its values, and random numbers replace it.
EDITS: dict[str, list[dict[str, Any]]] = {
    "perceptron": [{"perceptron.sum": -1.0}],
    "regress": [
        {"layers.0.dense.activation": some(None, 2, value=0.5)},
        {"layers.0.*": 0.0, "standardise.output": "random"},
    ],
    "classify": [
        {f"{LSTM}.forget_gate": 1.0, f"{LSTM}.cell@2": "random"},
        {f"{LSTM}.hidden": some(None, 5, value=-0.7), "head.pooled": some(0, 3, value=2.0)},
    ],
    "tag": [
        {"encoder.recurrent.layers.0.backward.lstm.hidden@1": 0.0, "*.input_gate": 0.25},
        {"encoder.recurrent.output": "random"},
    ],
    "generate": [
        {"decoder.masks.causal": 1.0},
        {
            "decoder.layers.*_attention.scale": 1.0,
            "decoder.layers.0.self_attention.mixed": some(None, 1, value=0.0),
        },
        {
            "decoder.positions.angles": 0.0,
            "decoder.layers.1.self_attention_residual.norm.[mv]*": 1.0,
        },
    ],
    "generate-rnn": [{"*.preactivation@3": 0.5, "decoder.embedding.lookup": "random"}],
    "translate": [
        {"encoder.layers.0.self_attention.pattern": some(0, 2, 1, value=0.1)},
        {
            "decoder.layers.1.cross_attention.scaled": 0.0,
            "encoder.layers.?.feedforward_residual.branch": 0.0,
        },
        {"encoder.final_norm.output": "random", "*.cross_attention.shift": 0.0},
    ],
    "translate-lstm": [
        {"decoder.alignment.scores": 0.0, "decoder.bridge.*": 0.0},
        {
            "decoder.alignment.pattern": some(0, 1, value=0.2),
            "decoder.recurrent.layers.0.lstm.output_gate@0": "random",
        },
    ],
}


ROTARY = {"positions": "rotary"}
# Configurations that no shipped model has.
TINY: list[tuple[str, dict[str, Any]]] = [
    ("translate-lstm", {"layers": 2, "hidden": 10, "tied": False, "head_bias": True}),
    ("translate-lstm", {"bidirectional": True, "encoder_hidden": 7, "layers": 2}),
    ("tag-lstm", {"cell": "rnn", "layers": 2, "hidden": 9, "bidirectional": True}),
    ("translate-transformer", ROTARY | {"decoder_layers": 1, "embedding_scale": False}),
    (
        "language-transformer",
        ROTARY
        | {"rotary_base": 500.0, "tied": False, "d_ff": None, "heads": 4, "activation": "tanh"},
    ),
]


def run_in_page(
    page: Page, local: str, name: str, reading: Reading, edit: dict[str, Any]
) -> dict[str, Any]:
    """Every trace point of the same run in the page, in order."""
    inputs = {key: value[0].tolist() for key, value in reading.example.batch.inputs.items()}
    points = ask(page, local, "run", name, inputs, edit)
    return {
        at: torch.frombuffer(bytearray(base64.b64decode(values)), dtype=torch.float32).reshape(
            shape
        )
        for at, shape, values in points
    }


def compare(here: dict[str, Any], reading: Reading, *, relative: bool = False) -> None:
    """The same points in the same order, with the same shapes and numbers. relative: to a point's
    largest number, if that is more than 1; an edit may make numbers very large."""
    assert list(here) == reading.names()
    for at, value in here.items():
        expected = reading[at].float()
        assert value.shape == expected.shape, at
        most = float(expected.abs().nan_to_num(posinf=0).max()) if relative else 1
        apart = f"{at}: {{}}".format
        torch.testing.assert_close(value, expected, rtol=0, atol=CLOSE * max(1, most), msg=apart)


@pytest.mark.parametrize("name", TEXTS)
def test_every_point_equals_pytorch(leaf: Page, local: str, name: str) -> None:
    for text in TEXTS[name]:
        reading = demo(name).trace(text)
        compare(run_in_page(leaf, local, name, reading, {}), reading)


@pytest.mark.slow
@pytest.mark.parametrize("name", TEXTS)
def test_every_point_equals_pytorch_in_firefox(firefox: Page, local: str, name: str) -> None:
    reading = demo(name).trace(TEXTS[name][1])
    compare(run_in_page(firefox, local, name, reading, {}), reading)


@pytest.mark.parametrize(("family", "keys"), TINY)
def test_other_sizes_equal_pytorch(
    leaf: Page, local: str, family: str, keys: dict[str, Any]
) -> None:
    name = "-".join((family, *keys))
    tiny = model(family, **keys)
    torch.manual_seed(5)
    for weight in tiny.network.parameters():  # some are initialised with 0
        torch.nn.init.normal_(weight, std=0.3)
    tiny.save(Files.own / name)
    reading = tiny.trace(TEXT)
    compare(run_in_page(leaf, local, f"/own/{name}", reading, {}), reading)


@pytest.mark.parametrize(("name", "edit"), [(name, edit) for name in EDITS for edit in EDITS[name]])
def test_an_edit_equals_pytorchs(leaf: Page, local: str, name: str, edit: dict[str, Any]) -> None:
    shipped, text = demo(name), TEXTS[name][1]
    plain, generator = shipped.trace(text), torch.Generator().manual_seed(3)
    described = {}
    for glob, change in edit.items():
        if change == "random":
            values = torch.randn(plain[glob].shape, generator=generator)
            change = {"shape": list(values.shape), "values": values.flatten().tolist()}
        described[glob] = change
    reading = shipped.trace(
        text, edit={glob: as_edit(change) for glob, change in described.items()}
    )
    for glob in described:
        names = reading.names(glob.partition("@")[0])
        assert any(not torch.equal(reading[at], plain[at]) for at in names), glob
    compare(run_in_page(leaf, local, name, reading, described), reading, relative=True)
