"""Models of ours as ONNX graphs: every output and every point of the trace, as onnxruntime computes
them, against the network itself."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.interop.own_models import own
from torch import Tensor
from typer.testing import CliRunner

from translucid.cli import app
from translucid.core.errors import ConfigError, InputError
from translucid.core.trace import Trace
from translucid.data.features import Columns
from translucid.interop.export.exporting import export
from translucid.interop.export.onnx import folder
from translucid.interop.export.onnx.folder import OnnxOptions
from translucid.interop.export.onnx.recurrent import BLOCKS
from translucid.interop.verify import BOUND
from translucid.model import Model
from translucid.models.build import build
from translucid.models.mlp import MLPConfig
from translucid.parts.positions import POSITIONS, NoPositions, position
from translucid.tasks import model_folder
from translucid.tasks.model_folder import Bundle

REASON = "the package onnx or onnxruntime is not installed"
onnx = pytest.importorskip("onnx", reason=REASON)
onnxruntime = pytest.importorskip("onnxruntime", reason=REASON)

TRANSLATOR = {"recurrent": True, "hidden": 16, "bidirectional": True, "encoder_hidden": 8}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "sinusoidal, post": ("classify", {"placement": "post", "embedding_norm": True}),
    "rotary, window": (
        "classify", {"positions": "rotary", "window": 3, "kv_heads": 2, "pooling": "attention",
                     "rotary_fraction": 0.5, "head_dense": "tanh", "norm": "batch"},
    ),
    "alibi, characters": (
        "tag", {"positions": "alibi", "norm": "rms", "characters": 8, "activation": "gelu_tanh"},
    ),
    "fill": ("fill", {"positions": "learned", "segments": 2, "activation": "gelu", "norm": "none",
                      "first_position": 2, "layers": 1}),
    "embed": ("embed", {"positions": "none", "normalise": True, "pooling": "last",
                        "activation": "quick_gelu", "parallel_residual": True}),
    "translator": ("translate", {"positions": "rotary", "decoder_layers": 1}),
    "relative": ("translate", {"positions": "relative", "two": True, "scaled": False, "layers": 1,
                               "activation": "relu_squared", "placement": "post"}),
    "decoder": ("language", {"positions": "rotary", "activation": "swiglu", "qk_norm": True,
                             "rotary_method": "yarn", "rotary_length": 8, "rotary_scaling": 4.0,
                             "norm": "rms", "logit_scale": 0.5, "head_bias": True}),
    "lstm, both ways": ("classify", {"recurrent": True, "hidden": 12, "bidirectional": True,
                                     "layers": 2, "pooling": "last", "ngram_features": 50}),
    "gru": ("language", {"recurrent": True, "hidden": 16, "cell": "gru", "layers": 2}),
    "rnn": ("tag", {"recurrent": True, "hidden": 12, "cell": "rnn_relu", "characters": 4}),
    "lstm translator": ("translate", {**TRANSLATOR, "layers": 2, "bridge": "copy"}),
    "gru translator": ("translate", {**TRANSLATOR, "cell": "gru", "attention": "none"}),
    "input feeding": (
        "translate", {**TRANSLATOR, "attention": "dot", "input_feeding": True, "layers": 2},
    ),
}  # fmt: skip
LOOPED = ("translator", "relative", "input feeding")


def made(name: str) -> Bundle:
    task, options = MODELS[name]
    return own(task, **options)


def session(folder: Path, name: str) -> Any:
    return onnxruntime.InferenceSession(folder / f"{name}.onnx")


def outputs(folder: Path, name: str, **inputs: Any) -> dict[str, np.ndarray]:
    opened = session(folder, name)
    wanted = {value.name for value in opened.get_inputs()}
    arrays = {key: np.asarray(value) for key, value in inputs.items() if key in wanted}
    names = [value.name for value in opened.get_outputs()]
    return dict(zip(names, opened.run(names, arrays), strict=True))


def a_batch(vocab: int, length: int = 7, seed: int = 1) -> tuple[Tensor, Tensor]:
    """Padding on the right, on the left and in between."""
    ids = torch.randint(3, vocab, (3, length), generator=torch.Generator().manual_seed(seed))
    mask = torch.ones_like(ids, dtype=torch.bool)
    mask[1, length - 2 :] = False
    mask[2, [0, 3]] = False
    return ids, mask


def start_of(folder: Path, rows: int) -> dict[str, np.ndarray]:
    free = {"batch": rows, "past": 0}
    return {
        value.name: np.zeros([free.get(size, size) for size in value.shape], dtype=np.float32)
        for value in session(folder, "decoder_step").get_inputs()
        if value.name.startswith("past_")
    }


def part_of(point: str) -> str:
    return point.rpartition(".")[0]


@pytest.mark.parametrize("name", MODELS)
def test_every_point_of_the_trace(tmp_path: Path, name: str) -> None:
    """The traced graphs give the points of the network's own trace, all of them, and no others."""
    held = made(name)
    network: Any = held.network
    export(held, "onnx", tmp_path / "out", options=OnnxOptions(traced=True))
    ids, mask = a_batch(network.config.vocab)
    trace = Trace()
    if held.task == "translate":
        target, target_mask = a_batch(network.vocab, 5, seed=2)
        network(ids, target, mask, target_mask, trace=trace)
        read = outputs(tmp_path / "out", "encoder", ids=ids, mask=mask)
        written = outputs(tmp_path / "out", "decoder_step", ids=target, mask=target_mask, **read)
        theirs = read | written
    elif held.task == "language":
        network(ids, mask, trace=trace)
        state = start_of(tmp_path / "out", len(ids))
        theirs = outputs(tmp_path / "out", "decoder_step", ids=ids, mask=mask, **state)
    else:
        more = {}
        if network.config.characters:
            more["characters"] = torch.randint(257, (*ids.shape, 4), generator=torch.Generator())
            more["characters"][:, ::2, 1:] = 0  # words that end
        network(ids, mask, trace=trace, **more)
        theirs = outputs(tmp_path / "out", "model", ids=ids, mask=mask, **more)
    points = {point: value for point, value in theirs.items() if "." in point}
    assert points.keys() == set(trace)
    scale: dict[str, float] = {}
    for point in points:  # an error in a large score is one in its small exponential too
        values = trace[point].detach().double()
        largest = float(values[values.isfinite()].abs().max())
        scale[part_of(point)] = max(scale.get(part_of(point), 1.0), largest)
    for point, value in points.items():
        ours = trace[point].detach().double()
        assert value.shape == tuple(ours.shape), point
        bound = 1e-5 * scale[part_of(point)]
        assert np.allclose(value.astype(float), ours.numpy(), rtol=0, atol=bound), point


@pytest.mark.parametrize("name", MODELS)
def test_prompts_and_steps(tmp_path: Path, name: str) -> None:
    """The plain graphs, with fused nodes: a batch with padding, a prompt, steps after it."""
    held = made(name)
    exported = export(held, "onnx", tmp_path / "out", options=OnnxOptions(verify=True))
    match = re.search(r"difference ([\d.e+-]+), with outputs up to ([\d.e+-]+)", exported.notes[-1])
    assert match
    assert 0 <= float(match[1]) <= BOUND * float(match[2])


@pytest.mark.parametrize("name", LOOPED)
def test_the_loop_of_the_docs_writes_our_greedy_text(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    held = made(name)
    text = (Path(__file__).parents[2] / "docs/guides/interop.md").read_text("utf-8")
    (loop,) = re.findall(r"```python\n(import json\n.*?decoder_step.*?)```", text, re.DOTALL)
    export(held, "onnx", tmp_path / "out")
    loop = loop.replace("exported/toy", str(tmp_path / "out"))
    if "target" in held.tokenizers:
        last = 'Tokenizer.from_file(f"{folder}/target/tokenizer.json").decode(text)'
        loop = loop.replace("tokenizer.decode(text)", last)
    exec(loop, {})
    ours = Model(held).translate(["the dog sees a cat"], beam_size=1, max_length=49)
    assert capsys.readouterr().out.strip() == ours[0].strip()


def test_numbers_are_in_the_units_of_the_data(tmp_path: Path) -> None:
    torch.manual_seed(0)
    network = build(MLPConfig(inputs=2, hidden=(5, 5), outputs=1, residual=True, standardise=True))
    columns = Columns.numbers(("a", "b"), [3.0, -40.0], [2.0, 10.0])
    targets = {"mean": [500.0], "deviation": [25.0]}
    statistics = {"columns": columns.as_json(), "targets": targets}
    held = Bundle(network, "regress", statistics=statistics)
    export(held, "onnx", tmp_path / "out", options=OnnxOptions(traced=True, verify=True))
    x = [[1.0, -30.0], [4.0, -55.0]]
    made = outputs(tmp_path / "out", "model", x=np.array(x, dtype=np.float32))
    assert np.allclose(made["prediction"], Model(held).predict(x), atol=1e-3)
    assert made["layers.1.dense.sum"].shape == (2, 5)


def test_the_same_model_makes_the_same_files(tmp_path: Path) -> None:
    held = made("lstm translator")
    for name in ("first", "second"):
        export(held, "onnx", tmp_path / name, options=OnnxOptions(traced=True))
    for file in (tmp_path / "first").glob("*.onnx"):
        assert file.read_bytes() == (tmp_path / "second" / file.name).read_bytes()


def test_int8_is_smaller_and_near(tmp_path: Path) -> None:
    held = own("classify", d_model=64, d_ff=256)
    export(held, "onnx", tmp_path / "whole")
    notes = export(
        held, "onnx", tmp_path / "int8", options=OnnxOptions(int8=True, verify=True)
    ).notes
    assert "weights of matrix multiplications are int8 (dynamic quantization)" in notes
    sizes = [(tmp_path / name / "model.onnx").stat().st_size for name in ("whole", "int8")]
    weights = 4 * sum(
        p.numel() for layer in held.network.encoder.layers for p in layer.parameters()
    )  # type: ignore[union-attr, operator]
    assert sizes[0] - sizes[1] > 0.7 * weights
    ids, mask = a_batch(held.network.config.vocab)  # type: ignore[attr-defined]
    whole, small = (
        outputs(tmp_path / name, "model", ids=ids, mask=mask)["logits"]
        for name in ("whole", "int8")
    )
    assert 0 < np.abs(whole - small).max() < 0.1 * np.abs(whole).max()


def test_large_weights_are_in_a_file_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder, "LARGEST", 1000)
    held = made("gru")
    for int8, names in ((False, {"decoder_step.onnx", "decoder_step.onnx.data"}),
                        (True, {"decoder_step.onnx"})):  # fmt: skip
        options = OnnxOptions(int8=int8, verify=True)
        export(held, "onnx", tmp_path / "out", overwrite=True, options=options)
        assert {path.name for path in (tmp_path / "out").glob("*.onnx*")} == names


def test_the_command_verifies_and_writes_the_folder(tmp_path: Path) -> None:
    held = own("classify", lora_rank=2)  # adapters are merged
    model_folder.save(held, tmp_path / "run")
    words = ["export", str(tmp_path / "run"), "--to", "onnx", "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(app, [*words, "--verify"])
    assert result.exit_code == 0, result.exception
    assert "LoRA adapters were merged" in result.output
    assert "largest difference" in result.output
    out = tmp_path / "out"
    assert {path.name for path in out.iterdir()} == {
        "model.onnx", "config.json", "README.md", "tokenizer.json", "tokenizer_config.json",
        "manifest.json",
    }  # fmt: skip
    config = json.loads((out / "config.json").read_text("utf-8"))
    assert config["id2label"] == {"0": "bad", "1": "fine", "2": "good"}
    card = (out / "README.md").read_text("utf-8")
    (use,) = re.findall(r"```python\n(.*?)```", card, re.DOTALL)
    printed: list[str] = []
    code = use.replace('"out', f'"{out}').replace("A text", "the dog sees a cat")
    exec(code, {"print": printed.append})
    assert printed == [answer.label for answer in Model(held).predict(["the dog sees a cat"])]


def test_models_without_a_graph_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match=r"for an ensemble, train with model\.ensemble_size = 1"):
        export(own("classify", ensemble_size=2), "onnx", tmp_path / "out")
    for known in ("_classes", "_sources"):  # forgotten afterwards
        monkeypatch.setattr(POSITIONS, known, dict(getattr(POSITIONS, known)))
    position("mine")(type("Mine", (NoPositions,), {}))
    with pytest.raises(InputError, match=r"'mine' .* relative or none"):
        export(own("classify", positions="mine"), "onnx", tmp_path / "out")
    with pytest.raises(ConfigError, match=r"int8 and trace .*onnx, not gguf"):
        Model(own("language")).export("gguf", tmp_path / "out", int8=True, trace=True)
    assert not any(tmp_path.iterdir())


def test_a_graph_that_differs_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Verification notices gates in another order."""
    monkeypatch.setitem(BLOCKS, "gru", (0, 1, 2))
    held = made("gru")
    with pytest.raises(InputError, match="more than rounding"):
        export(held, "onnx", tmp_path / "out", options=OnnxOptions(verify=True))
    assert not any(tmp_path.iterdir())
