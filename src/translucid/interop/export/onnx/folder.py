"""A model as a folder of ONNX graphs, with its tokenizer and what its user must know."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from translucid.core.errors import ConfigError
from translucid.data.tokenizers.files import TOKENIZER
from translucid.interop.export.homes import LENGTH
from translucid.interop.export.huggingface import labels_of, special_ids
from translucid.interop.export.onnx.comparison import compared
from translucid.interop.export.onnx.graph import INSTALL, OPSET, onnx_package
from translucid.interop.export.onnx.networks import STEP, TABLES, graphs_of
from translucid.interop.export.reopening import check_files
from translucid.interop.export.tokenizer_files import write_tokenizers, writing
from translucid.interop.generation_config import searched
from translucid.models.base import AutoregressiveNetwork
from translucid.models.transformer_config import TransformerConfig
from translucid.tasks.model_folder import Bundle

LARGEST = 1 << 30  # bytes in one file; what is larger has its weights in another


@dataclass(frozen=True)
class OnnxOptions:
    """traced: every point of the trace is an output. verify: onnxruntime, with which the graphs
    are compared where it is installed, is required."""

    int8: bool = False
    traced: bool = False
    verify: bool = False

    @property
    def named(self) -> list[str]:
        names = {"int8": self.int8, "trace": self.traced, "verify": self.verify}
        return [name for name, on in names.items() if on]


def write_onnx(held: Bundle, folder: Path, options: OnnxOptions) -> list[str]:
    """Fills the folder; what was done, a line each."""
    models = graphs_of(held, traced=options.traced, length=LENGTH)
    for name, model in models.items():
        _write(model, folder / f"{name}.onnx", int8=options.int8)
    config = _config(held)
    text = json.dumps(config, indent=2, ensure_ascii=False)
    (folder / "config.json").write_text(text + "\n", "utf-8")
    files = " and ".join(f"{name}.onnx" for name in models)
    notes = [f"written as {files}, opset {OPSET}; batch and length are free"]
    own = held.network.config
    if isinstance(own, TransformerConfig) and own.positions in TABLES:
        notes.append(f"{own.positions} positions are a table of {LENGTH:,} positions")
    if isinstance(own, TransformerConfig) and own.segments:
        notes.append("all tokens are in segment 0")
    if options.traced:
        count = sum(len(model.graph.output) for model in models.values())
        notes.append(f"points of the trace are outputs: {count} outputs in all")
    if options.int8:
        notes.append("weights of matrix multiplications are int8 (dynamic quantisation)")
    if held.tokenizers:
        notes += write_tokenizers(held, folder)
        _read_whole_texts(folder)
        check_files(held, folder)
    if STEP in models:
        notes += searched(held, "a loop of your own decides")
    if options.verify or find_spec("onnxruntime") is not None:
        notes.append(compared(held, folder, exact=not options.int8))
    else:
        notes.append("the graphs were not compared with the model: onnxruntime is not installed")
    return notes


def _read_whole_texts(folder: Path) -> None:
    """Texts are read as here: not cut, and not filled up to a length, which the tokenizer.json of
    another tool may ask for and transformers passes over."""
    for path in folder.rglob(TOKENIZER):
        spec = json.loads(path.read_text("utf-8"))
        if spec.get("padding") or spec.get("truncation"):
            spec |= {"padding": None, "truncation": None}
            text = json.dumps(spec, ensure_ascii=False, indent=1)
            path.write_text(text + "\n", "utf-8")


def _config(held: Bundle) -> dict[str, Any]:
    """What the user of the graphs must know: task, labels, special tokens."""
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
