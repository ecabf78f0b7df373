"""Reopen an export and compare it with the model: for several texts, the token ids and the outputs
must be equal.

Translucid's own readers open Hugging Face's layout, CTranslate2 and GGUF; onnxruntime, if
installed, opens ONNX graphs (onnx/folder.py).
"""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path

import torch

from translucid.core.errors import InputError, TranslucidError
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.interop.export import gguf
from translucid.interop.export.tokenizer_files import reading, writing
from translucid.interop.importing import import_model
from translucid.interop.tokenizers import read_tokenizers
from translucid.interop.verify import BOUND, LayerDifference, inputs_of
from translucid.tasks.model_folder import Bundle
from translucid.tasks.registry import TASKS

TEXTS = (
    "The quick brown fox jumps over the lazy dog, and nobody knows why.",
    "  Größe: 12,5 %\tnaïve ﬁne",
    "don't </s> <pad> [MASK] 😀",
)
PIECES, PER_TEXT = 400, 20  # pieces of the vocabulary that are tested, and pieces in one text
FILES = {"gguf": gguf.FILE}  # formats that are one file rather than a folder


def check_export(held: Bundle, format: str, folder: Path, named: Path) -> str:
    """Raise an error if the export differs from the model; otherwise return a note. folder: where
    the export is now; named: its final path, for messages."""
    try:
        again = import_model(folder / FILES.get(format, ""))
    except TranslucidError as error:
        reason = str(error).replace(str(folder), str(named))
        raise InputError(
            f"the export to {format} cannot be reopened: {reason}; nothing was written. "
            "Please report this with the model's config.json"
        ) from error
    texts = _check_tokenizers(held, again.tokenizers, format)
    _check_outputs(held, again, format)
    return f"reopened and compared: the same token ids for {texts} texts, and the same outputs"


def check_files(held: Bundle, folder: Path) -> None:
    """Compare only the tokenizers of a folder whose weights Translucid cannot open."""
    read = read_tokenizers(folder, {"is_encoder_decoder": held.task == "translate"})
    _check_tokenizers(held, read.tokenizers, "onnx", framed=False)


def _check_tokenizers(
    held: Bundle, again: Mapping[str, Tokenizer], format: str, *, framed: bool = True
) -> int:
    """Raise an error if the exported tokenizer converts a text to different token ids. Otherwise
    return the number of texts that were compared. framed: include the special tokens around a
    text."""
    sides = {"source": reading, "target": writing} if len(held.tokenizers) > 1 else {"": reading}
    count = 0
    for side, chosen in sides.items():
        ours, theirs = chosen(held), again.get(side) or next(iter(again.values()))
        texts = sample(ours)
        count += len(texts)
        for text in texts:
            ids = [ours.encode(text), theirs.encode(text)]
            if framed and chosen is reading:
                ids = [ours.frame(*TASKS[held.task].around)(ids[0]), theirs.frame()(ids[1])]
            if ids[0] != ids[1]:
                raise InputError(
                    f"the export to {format} encodes the text {text[:60]!r} as {_shown(ids[1])}, "
                    f"but the model encodes it as {_shown(ids[0])}; nothing was written. Please "
                    "report this with the model's config.json"
                )
    return count


def sample(tokenizer: Tokenizer) -> list[str]:
    """Texts for the comparison: fixed ones, and ones made of pieces from the whole vocabulary."""
    source = tokenizer.source
    names = [name.replace("▁", " ").replace("Ġ", " ") for name in tokenizer.vocab]
    if source is not None and source.data["model"]["type"] == "Unigram":
        names += [piece.replace("▁", " ") for piece, _ in source.data["model"]["vocab"]
                  if piece not in tokenizer.vocab]  # fmt: skip
    ids = range(0, len(tokenizer), max(1, len(tokenizer) // PIECES))
    places = range(0, len(names), max(1, len(names) // PIECES))
    texts = [tokenizer.decode(ids[i : i + PER_TEXT]) for i in range(0, len(ids), PER_TEXT)]
    texts += ["".join(names[k] for k in places[i : i + PER_TEXT])
              for i in range(0, len(places), PER_TEXT)]  # fmt: skip
    return [*TEXTS, *(text for text in texts if text.strip())]


@torch.inference_mode()
def _check_outputs(held: Bundle, again: Bundle, format: str) -> None:
    network = deepcopy(held.network).cpu().float().eval()
    for text in TEXTS[:2]:
        inputs = inputs_of(held, text)
        ours, theirs = network(**inputs), again.network(**inputs)
        if ours.shape != theirs.shape:
            raise InputError(
                f"the export to {format} gives outputs of shape {list(theirs.shape)}, but the "
                f"model's have shape {list(ours.shape)}; nothing was written. Please report this"
            )
        far = LayerDifference(
            "outputs", float((ours - theirs).abs().max()), float(ours.abs().max())
        )
        if not far.relative < BOUND:
            raise InputError(
                f"the export to {format} gives different results: its outputs for {text[:40]!r} "
                f"(up to {far.scale:.3g}) differ by {far.largest:.1e}; nothing was written. Please "
                "report this with the model's config.json"
            )


def _shown(ids: Sequence[int]) -> str:
    return f"ids {' '.join(map(str, ids[:12]))}{' ...' if len(ids) > 12 else ''}"
