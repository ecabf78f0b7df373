"""A tiny model in every format of other tools, as users have them: the starting point of hostile
files.

The tests' own code writes them, so that Translucid's readers are not tested on what Translucid
wrote.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from translucid.tasks.model_folder import Bundle

ROOT = Path(__file__).parent.parent
TEXT = "the cat sleeps in a b c"


@dataclass(frozen=True)
class Good:
    """A good model: how to write it into a folder, and which file of the folder to open."""

    write: Callable[[Path], Any]
    path: str = ""  # in the folder; empty: open the folder itself


def _family(name: str) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        from tests.interop.tiny_foreign import written

        written(name, folder)

    return write


def _whole_tokenizer(folder: Path) -> None:
    """Write a Llama model with a tokenizer.json instead of a sentencepiece model."""
    from translucid.interop.tokenizers import read_tokenizers

    _family("llama")(folder)
    (made,) = read_tokenizers(folder).tokenizers.values()
    (folder / "tokenizer.model").unlink()
    text = {"Sequence": {"id": "A", "type_id": 0}}
    start = {"SpecialToken": {"id": "<s>", "type_id": 0}}
    template = {
        "type": "TemplateProcessing", "single": [start, text], "pair": [start, text, text],
        "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}},
    }  # fmt: skip
    spec = json.loads(made.spec) | {"post_processor": template}
    (folder / "tokenizer.json").write_text(json.dumps(spec, ensure_ascii=False), "utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps({"add_bos_token": True}))


def _unigram(folder: Path) -> None:
    from translucid.interop.tokenizers import read_tokenizers

    _family("t5")(folder)
    (made,) = read_tokenizers(folder).tokenizers.values()
    (folder / "spiece.model").unlink()
    (folder / "tokenizer.json").write_text(made.spec, "utf-8")


def _torch_weights(folder: Path) -> None:
    from safetensors.torch import load_file

    _family("gpt2")(folder)
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


def _sharded(folder: Path) -> None:
    from safetensors.torch import load_file, save_file

    _family("gpt2")(folder)
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = [f"model-0000{i}-of-00002.safetensors" for i in (1, 2)]
    half = len(tensors) // 2
    parts = dict(zip(names, (list(tensors)[:half], list(tensors)[half:]), strict=True))
    for name, keys in parts.items():
        save_file({key: tensors[key] for key in keys}, folder / name)
    placed = {key: name for name, keys in parts.items() for key in keys}
    index = {"metadata": {"total_size": 1}, "weight_map": placed}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def _exported(task: str, to: str) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        from tests.interop.own_models import own

        from translucid.interop.export.exporting import export

        kind: Any = "bpe" if task == "language" else "word"
        held: Bundle = own(task, kind, positions="rotary" if task == "language" else "sinusoidal",
                           norm="rms" if task == "language" else "layer",
                           **({"activation": "swiglu"} if task == "language" else {}))  # fmt: skip
        export(held, to, folder, overwrite=True)

    return write


def _llama2c(folder: Path) -> None:
    import struct

    from tests.interop.tokenizer_files import BYTES, CONTROLS, LETTERS, WORDS
    from tests.interop.writers import llama2c_weights, write_llama2c

    pieces = [*CONTROLS, *BYTES, *WORDS, *LETTERS]
    sizes = {"dim": 8, "hidden_dim": 16, "n_layers": 2, "n_heads": 2, "n_kv_heads": 1,
             "vocab_size": len(pieces), "max_seq_len": 16}  # fmt: skip
    write_llama2c(folder / "model-l.bin", sizes, llama2c_weights(sizes, True), 1)
    named = ((text.replace("▁", " ").encode(), score) for text, score, _ in pieces)
    (folder / "tokenizer.bin").write_bytes(
        struct.pack("<i", 16) + b"".join(struct.pack("<fi", s, len(t)) + t for t, s in named)
    )


def _fairseq(folder: Path) -> None:
    from tests.interop import test_fairseq as made
    from tests.interop.reference import randomised
    from tests.interop.toolkit_reference import Transformer, in_halves

    names = [made.names_of(side, pre=False, learned=False) for side in ("encoder", "decoder")]
    theirs = randomised(Transformer(names[0], names[1], 13, 11, pre=False, eps=1e-5, scaled=True,
                                    tied=True, rows=in_halves(20, 16)))  # fmt: skip
    made.write(theirs, folder, share_decoder_input_output_embed=True, **made.ARGS)


def _joeynmt(folder: Path) -> None:
    from tests.interop import test_joeynmt as made

    made.write(made.made(pre=True), folder)


def _opennmt(folder: Path) -> None:
    from tests.interop import test_opennmt as made
    from tests.interop.opennmt_models import Transformer
    from tests.interop.reference import randomised

    made.write(randomised(Transformer()), folder / "model.pt", **made.OF_TRANSFORMER)


def _mapping(folder: Path) -> None:
    from tests.interop.reference import randomised
    from tests.interop.test_mapping import GRUs, place

    torch.save(randomised(GRUs()).state_dict(), folder / "translator.pt")
    place(folder, "gru.toml")


def _sentence(folder: Path) -> None:
    from tests.interop.encoders import sentence_bert

    sentence_bert(folder)


GOOD: dict[str, Good] = {
    "safetensors": Good(_family("gpt2")),
    "sharded safetensors": Good(_sharded),
    "torch weights": Good(_torch_weights),
    "tokenizer.json, BPE": Good(_whole_tokenizer),
    "tokenizer.json, Unigram": Good(_unigram),
    "sentencepiece, BPE": Good(_family("llama")),
    "sentencepiece, Unigram": Good(_family("t5")),
    "Marian": Good(_family("marian")),
    "WordPiece, classifier": Good(_family("classifier")),
    "sentence-transformers": Good(_sentence),
    "GGUF": Good(_exported("language", "gguf"), "model.gguf"),
    "llama2.c": Good(_llama2c, "model-l.bin"),
    "CTranslate2": Good(_exported("translate", "ctranslate2")),
    "fairseq": Good(_fairseq, "checkpoint_best.pt"),
    "JoeyNMT": Good(_joeynmt),
    "OpenNMT-py": Good(_opennmt, "model.pt"),
    "mapping file": Good(_mapping, "gru.toml"),
}


def write_models(place: Path) -> None:
    """Write all good models, each into a folder named by its format."""
    for name, good in GOOD.items():
        (place / name).mkdir(parents=True)
        good.write(place / name)


def ask(path: Path) -> None:
    """Open a model and run it on a text; raise an error if the outputs are not finite."""
    from translucid.interop.importing import load
    from translucid.models.transformer_config import TransformerConfig
    from translucid.tasks.options import Resources
    from translucid.tasks.registry import TASKS

    held = load(path, verify=False)  # transformers itself may use any time and memory
    for tokenizer in held.tokenizers.values():
        tokenizer.decode(tokenizer.encode(TEXT))
    resources = Resources(held.tokenizers, held.labels, statistics=held.statistics)
    config: Any = held.network.config
    pair = getattr(config, "shape", "") == "encoder-decoder"
    example = TASKS[held.task].make(resources).example(TEXT, TEXT if pair else None)
    longest = config.context_length if isinstance(config, TransformerConfig) else None
    inputs = {name: ids[:, :longest] for name, ids in example.batch.inputs.items()}
    with torch.inference_mode():
        output = held.network(**inputs)
    if not torch.as_tensor(output).isfinite().all():
        raise ArithmeticError("the model was opened, but its outputs are not finite")
