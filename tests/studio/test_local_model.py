"""The models that run in the page compute what PyTorch computes, at every trace point."""

import base64
import threading
from collections.abc import Iterator
from functools import cache
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.studio.browser import Page
from tests.studio.serving import TEXT, model

import translucid as tl
from translucid.core.trace import Edit
from translucid.data import shipped_models
from translucid.model import Model
from translucid.see.reading import Reading

HERE = Path(__file__).parent
PACKAGE = Path(tl.__file__).parent
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


def some(*index: int | None, value: float) -> dict[str, Any]:
    """An edit of the values at an index of the leading axes; None: all."""
    return {"index": list(index), "value": value}


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


class Files(SimpleHTTPRequestHandler):
    """The package's files, an empty page, and the module of this test."""

    own: Path  # the folder of the test's own models

    def translate_path(self, path: str) -> str:
        if path == "/local_models.js":
            return str(HERE / "local_models.js")
        if path.startswith("/own/"):
            return str(self.own / path.removeprefix("/own/"))
        return super().translate_path(path)

    def do_GET(self) -> None:
        if self.path != "/":
            return super().do_GET()
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(b'<!doctype html><link rel="icon" href="data:,">')
        return None

    def log_message(self, *words: Any) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    def files(*args: Any) -> Files:
        return Files(*args, directory=str(PACKAGE))

    Files.own = tmp_path_factory.mktemp("models")
    Files.extensions_map = {**Files.extensions_map, ".js": "text/javascript"}
    server = ThreadingHTTPServer(("127.0.0.1", 0), files)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join(300)
        server.server_close()


@cache
def demo(name: str) -> Model:
    return tl.load(shipped_models.BEGIN + name)


def ask(page: Page, address: str, function: str, name: str, *given: Any) -> Any:
    if page.inner.url != address:
        page.inner.goto(address)
    return page.inner.evaluate(
        "async ([name, given]) => (await import('/local_models.js'))[name](...given)",
        [function, [name if "/" in name else f"/data/shipped_models/{name}/best", *given]],
    )


def run_in_page(
    page: Page, address: str, name: str, reading: Reading, edit: dict[str, Any]
) -> dict[str, Any]:
    """Every trace point of the same run in the page, in order."""
    inputs = {key: value[0].tolist() for key, value in reading.example.batch.inputs.items()}
    points = ask(page, address, "run", name, inputs, edit)
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
def test_every_point_equals_pytorch(leaf: Page, address: str, name: str) -> None:
    for text in TEXTS[name]:
        reading = demo(name).trace(text)
        compare(run_in_page(leaf, address, name, reading, {}), reading)


@pytest.mark.parametrize(("family", "keys"), TINY)
def test_other_sizes_equal_pytorch(
    leaf: Page, address: str, family: str, keys: dict[str, Any]
) -> None:
    name = "-".join((family, *keys))
    tiny = model(family, **keys)
    torch.manual_seed(5)
    for weight in tiny.network.parameters():  # some are initialised with 0
        torch.nn.init.normal_(weight, std=0.3)
    tiny.save(Files.own / name)
    reading = tiny.trace(TEXT)
    compare(run_in_page(leaf, address, f"/own/{name}", reading, {}), reading)


def as_edit(change: Any) -> Edit:
    """The edit for Python that local_models.js has from the same description."""
    if isinstance(change, float):
        return change
    if "values" in change:
        return torch.tensor(change["values"]).reshape(change["shape"])
    index = tuple(slice(None) if at is None else at for at in change["index"])

    def edited(value: torch.Tensor) -> torch.Tensor:
        value = value.clone()
        value[index] = change["value"]
        return value

    return edited


@pytest.mark.parametrize(("name", "edit"), [(name, edit) for name in EDITS for edit in EDITS[name]])
def test_an_edit_equals_pytorchs(leaf: Page, address: str, name: str, edit: dict[str, Any]) -> None:
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
    compare(run_in_page(leaf, address, name, reading, described), reading, relative=True)
