"""Export a model to a folder of ONNX graphs with its tokenizer and config.json. Then run the graphs
with onnxruntime and compare them with the network: a whole batch, a prompt, and single steps."""

import json
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from translucid.core.errors import ConfigError, InputError
from translucid.data.features import number_scale
from translucid.data.tokenizers.files import TOKENIZER
from translucid.interop.export.huggingface import labels_of, special_ids
from translucid.interop.export.onnx.graph import INSTALL, OPSET, onnx_package
from translucid.interop.export.onnx.networks import (
    AS_THEY_ARE,
    ENCODER,
    MODEL,
    STEP,
    graphs_of,
)
from translucid.interop.export.reopening import check_files
from translucid.interop.export.rewrites import LENGTH
from translucid.interop.export.tokenizer_files import write_json, write_tokenizers, writing
from translucid.interop.generation_config import searched
from translucid.interop.verify import BOUND, LayerDifference
from translucid.models.autoregressive import GenerationInputs
from translucid.models.base import AutoregressiveNetwork
from translucid.models.mlp import MLP
from translucid.models.sequence_config import SequenceConfig
from translucid.models.transformer_config import TransformerConfig
from translucid.tasks.model_folder import Bundle

LARGEST = 1 << 30  # bytes in one file; larger models store their weights separately
ROWS, COMPARED = 3, 9  # number of texts that are compared, and tokens in each
FOR_DECODER = ("past_", "source_")  # prefixes of the encoder's outputs for the decoder
Values = dict[str, Any]


@dataclass(frozen=True)
class OnnxOptions:
    """Options of the ONNX export. traced: make every trace point an output of the graph. verify:
    raise an error if onnxruntime, which compares the graphs with the network, is not installed."""

    int8: bool = False
    traced: bool = False
    verify: bool = False

    @property
    def named(self) -> list[str]:
        names = {"int8": self.int8, "trace": self.traced, "verify": self.verify}
        return [name for name, on in names.items() if on]


def write_onnx(held: Bundle, folder: Path, options: OnnxOptions) -> list[str]:
    """Write all files into the folder, and return notes for the user."""
    models = graphs_of(held, traced=options.traced, length=LENGTH)
    for name, model in models.items():
        _write(model, folder / f"{name}.onnx", int8=options.int8)
    write_json(folder / "config.json", _config(held))
    files = " and ".join(f"{name}.onnx" for name in models)
    notes = [f"written as {files}, opset {OPSET}; batch size and length are dynamic"]
    own = held.network.config
    if isinstance(own, TransformerConfig) and own.positions not in AS_THEY_ARE:
        notes.append(f"{own.positions} positions are stored as a table of {LENGTH:,} positions")
    if isinstance(own, TransformerConfig) and own.segments:
        notes.append("all tokens are in segment 0")
    if options.traced:
        count = sum(len(model.graph.output) for model in models.values())
        notes.append(f"trace points are outputs: {count} outputs in total")
    if options.int8:
        notes.append("weights of matrix multiplications are int8 (dynamic quantization)")
    if held.tokenizers:
        notes += write_tokenizers(held, folder)
        _read_whole_texts(folder)
        check_files(held, folder)
    if STEP in models:
        notes += searched(held, "your own decoding loop must apply them")
    if options.verify or find_spec("onnxruntime") is not None:
        notes.append(compared(held, folder, exact=not options.int8))
    else:
        notes.append("not compared with the model: onnxruntime is not installed")
    return notes


def _read_whole_texts(folder: Path) -> None:
    """Turn off truncation and padding that an imported tokenizer.json may set."""
    for path in folder.rglob(TOKENIZER):
        spec = json.loads(path.read_text("utf-8"))
        if spec.get("padding") or spec.get("truncation"):
            write_json(path, spec | {"padding": None, "truncation": None}, indent=1)


def _config(held: Bundle) -> dict[str, Any]:
    """The contents of config.json: task, labels, special tokens."""
    config: dict[str, Any] = {"task": held.task} | labels_of(held)
    if held.tokenizers:
        config |= special_ids(held)
    if isinstance(held.network, AutoregressiveNetwork) and held.network.config.head == "language":
        config["never_generated"] = list(writing(held).never_generated(held.network.vocab))
    return config


def _write(model: Any, path: Path, *, int8: bool) -> None:
    onnx = onnx_package()
    options: Mapping[str, Any] = {}
    apart = path.with_name(f"{path.name}.data")
    if model.ByteSize() > LARGEST:
        options = {"save_as_external_data": True, "location": apart.name}
    onnx.save_model(model, str(path), **options)
    onnx.checker.check_model(str(path))
    if not int8:
        return
    try:
        from onnxruntime.quantization import QuantType, quantize_dynamic
    except ImportError as error:
        raise ConfigError(f"int8 needs the package onnxruntime; {INSTALL}") from error
    whole = path.with_suffix(".whole")
    path.rename(whole)
    quantize_dynamic(str(whole), str(path), weight_type=QuantType.QInt8)
    whole.unlink()
    apart.unlink(missing_ok=True)


# ---- comparison ----


def onnxruntime_package() -> Any:
    try:
        import onnxruntime
    except ImportError as error:
        raise ConfigError(
            f"export to onnx with verify needs the package onnxruntime; {INSTALL}, or omit verify"
        ) from error
    return onnxruntime


class Session:
    """Runs one graph with onnxruntime."""

    def __init__(self, file: Path) -> None:
        runtime = onnxruntime_package()
        self._session = runtime.InferenceSession(str(file), providers=["CPUExecutionProvider"])

    def __call__(
        self, tensors: Mapping[str, Tensor], state: Mapping[str, Any] | None = None
    ) -> Values:
        """Run the graph and return all outputs by name."""
        names = [output.name for output in self._session.get_outputs()]
        arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
        return dict(zip(names, self._session.run(names, arrays | dict(state or {})), strict=True))

    def first_state(self, rows: int) -> Values:
        """The initial state of a decoder without a source. A recurrent state consists of zeros; the
        keys and values of a Transformer have length 0."""
        free = {"batch": rows, "past": 0}
        return {
            value.name: np.zeros([free.get(size, size) for size in value.shape], dtype=np.float32)
            for value in self._session.get_inputs()
            if value.name.startswith("past_")
        }


def compared(held: Bundle, folder: Path, *, exact: bool) -> str:
    """Compare the graphs with the network, and return a note on the largest difference. exact:
    raise an error if the difference is larger than rounding explains."""
    ours, theirs = _both(held, folder)
    scale = float(ours.abs().max())
    largest = float((ours - theirs).abs().max())
    difference = LayerDifference("onnxruntime", largest, scale)
    if exact and not difference.relative <= BOUND:
        raise InputError(
            f"onnxruntime's outputs (up to {scale:.3g}) differ from the model's by {largest:.1e}, "
            f"more than rounding ({BOUND:.0e}); please report this with the model's config.json"
        )
    version = onnxruntime_package().__version__
    return (
        f"compared with the network in onnxruntime {version}: largest difference {largest:.1e}, "
        f"with outputs up to {scale:.3g}"
    )


@torch.inference_mode()
def _both(held: Bundle, folder: Path) -> tuple[Tensor, Tensor]:
    """Outputs of the network and of the graphs for the same random tokens."""
    network = deepcopy(held.network).cpu().eval()
    random = torch.Generator().manual_seed(0)
    if isinstance(network, MLP):
        return _numbers(held, network, folder, torch.randn(ROWS, network.config.inputs))
    c: Any = network.config
    assert isinstance(c, SequenceConfig)
    length = min(COMPARED, c.context_length or COMPARED)
    ids = torch.randint(c.vocab, (ROWS, length), generator=random)
    mask = torch.ones_like(ids, dtype=torch.bool)
    mask[1, length - 2 :] = False
    mask[2, : length // 2] = False  # one text is padded on the right, one on the left
    if not isinstance(network, AutoregressiveNetwork) or c.head != "language":
        inputs = {"ids": ids, "mask": mask}
        if c.characters:
            shape = (ROWS, length, 5)
            inputs["characters"] = torch.randint(257, shape, generator=random)
        made = Session(folder / f"{MODEL}.onnx")(inputs)
        (name,) = (name for name in ("logits", "hidden", "embedding") if name in made)
        return network(**inputs), torch.from_numpy(made[name])
    step = Session(folder / f"{STEP}.onnx")
    if c.shape == "encoder-decoder":
        state = network.start(GenerationInputs.of(ids, mask), length)
        read = Session(folder / f"{ENCODER}.onnx")({"ids": ids, "mask": mask})
        theirs = {name: value for name, value in read.items() if name.startswith(FOR_DECODER)}
        tokens = torch.randint(network.vocab, (ROWS, length), generator=random)
    else:
        state = network.start(GenerationInputs(ROWS), length)
        theirs, tokens = step.first_state(ROWS), ids
    prompt = max(length - 3, 1)
    places = [slice(0, prompt), *(slice(i, i + 1) for i in range(prompt, length))]
    first, second = [], []
    seen = torch.ones_like(tokens, dtype=torch.bool)
    seen[2, : prompt // 2] = False  # prompts are padded on the left
    for place in places:
        newest, real = tokens[:, place], seen[:, place]
        first.append(network.step(newest, state, real))
        made = step({"ids": newest, "mask": seen[:, : place.stop]}, theirs)
        second.append(torch.from_numpy(made["logits"]))
        theirs |= {
            f"past_{name[4:]}": value for name, value in made.items() if name.startswith("new_")
        }
    # Outputs at padding are not defined.
    real = seen[..., None]
    return torch.cat(first, 1) * real, torch.cat(second, 1) * real


def _numbers(held: Bundle, network: MLP, folder: Path, x: Tensor) -> tuple[Tensor, Tensor]:
    """Outputs of an MLP and of its graph for the same inputs, in the units of the data."""
    read, written = x, held.statistics
    if pairs := number_scale(written):
        mean, deviation = torch.tensor(pairs).T
        read = (x - mean) / deviation
    ours = network(read)
    if scale := written.get("targets"):
        ours = ours * torch.tensor(scale["deviation"]) + torch.tensor(scale["mean"])
    made = Session(folder / f"{MODEL}.onnx")({"x": x})
    return ours, torch.from_numpy(made["prediction"])
