"""Export a model to the format of another tool. The output folder is created only after the export
has been reopened and its outputs compared with those of the model."""

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, get_args

from translucid.core.atomic_files import CARD, write_whole
from translucid.core.errors import ConfigError, InputError, nearest
from translucid.core.weights import own_tensors
from translucid.interop.export import ctranslate2, gguf
from translucid.interop.export.card import About, card
from translucid.interop.export.huggingface import write_huggingface
from translucid.interop.export.onnx.folder import OnnxOptions, write_onnx
from translucid.interop.export.reopening import check_export
from translucid.interop.export.rewrites import Weights
from translucid.models.adapters import is_adapted, merge
from translucid.models.transformer_config import TransformerConfig
from translucid.tasks.model_folder import Bundle

Format = Literal["huggingface", "ctranslate2", "gguf", "onnx"]
FORMATS: tuple[Format, ...] = get_args(Format)
Write = Callable[[Bundle, Weights, Path], list[str]]
WRITERS: Mapping[str, Write] = {
    "huggingface": write_huggingface,
    "ctranslate2": ctranslate2.write_folder,
    "gguf": gguf.write_file,
}

ONNX = "onnx"  # the only format for networks other than Transformers
UNKNOWN = About()
PLAIN = OnnxOptions()


@dataclass(frozen=True)
class Exported:
    """Result of an export: the files written, and notes on changes to the weights."""

    format: str
    folder: Path
    files: tuple[str, ...]
    notes: tuple[str, ...]


def export(
    held: Bundle, format: str, folder: Path, about: About = UNKNOWN, *, overwrite: bool = False,
    options: OnnxOptions = PLAIN,
) -> Exported:  # fmt: skip
    """Export a model to a folder. about: additional facts for the model card. options: for the
    format onnx only."""
    if format not in FORMATS:
        close = nearest(format, FORMATS, 1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise ConfigError(f"format {format!r} is unknown; choose one of {', '.join(FORMATS)}{hint}")
    if options.named and format != ONNX:
        raise ConfigError(
            f"{' and '.join(options.named)} can be used only with the format onnx, not {format}; "
            "omit it"
        )
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())) and not overwrite:
        raise InputError(
            f"{folder} is not an empty folder; choose a different one, or replace it with "
            "--overwrite (overwrite=True)"
        )
    notes: list[str] = []
    if is_adapted(held.network):
        held = replace(held, network=deepcopy(held.network))
        merge(held.network)
        notes.append("LoRA adapters were merged into their layers")
    weights = None if format == ONNX else weights_of(held)

    def fill(aside: Path) -> None:
        if weights is None:
            notes.extend(write_onnx(held, aside, options))
        else:
            notes.extend(WRITERS[format](held, weights, aside))
            notes.append(check_export(held, format, aside, folder))
        (aside / CARD).write_text(card(held, format, about, notes), "utf-8")

    write_whole(folder, fill)
    files = sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())
    return Exported(format, folder, tuple(files), tuple(notes))


def weights_of(held: Bundle) -> Weights:
    """Configuration and weights of the Transformer in a bundle; other networks raise an error."""
    config = held.network.config
    if not isinstance(config, TransformerConfig):
        raise InputError(
            f"this format supports only Transformers, not {type(config).__name__}; export a model "
            "trained with model.kind = transformer (recurrent networks and MLPs: export to onnx)"
        )
    if config.ensemble_size > 1:
        raise InputError(
            f"an ensemble of {config.ensemble_size} networks cannot be exported as one model; "
            "train with model.ensemble_size = 1"
        )
    tensors = {
        name: tensor.detach().float().cpu() for name, tensor in own_tensors(held.network).items()
    }
    return Weights(config, tensors)
