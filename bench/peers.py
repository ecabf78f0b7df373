"""The tools that decode.py compares: Translucid, transformers, ctranslate2, onnxruntime, torch.nn.

Each is set up for a workload and returns a function without arguments that runs it once: every row
gets exactly the requested number of tokens, because the end token is forbidden. All have random
weights of the same sizes, which do not affect the speed.
"""

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from translucid.fast.decode_graphs import DecodeGraphs
from translucid.fast.precision import prepare
from translucid.generate.beam_search import GenerationConfig
from translucid.generate.decode import find
from translucid.interop.export.onnx.networks import ENCODER, MODEL, STEP, graphs_of
from translucid.models import GenerationInputs, RecurrentConfig, TransformerConfig, build

Precision = Literal["float32", "int8", "bf16"]
Task = Literal["translate", "write", "tag"]
Cell = Literal["", "rnn", "lstm", "gru"]
Run = Callable[[], list[list[int]]]  # the tokens of the best hypothesis of each row, or its tags

PAD, EOS, TAGS = 0, 1, 16
WORDS = 2  # ids from here on are words
# The number of processors that this process may use.
THREADS = len(os.sched_getaffinity(0))


@dataclass(frozen=True, kw_only=True)
class Workload:
    """A batch of texts to translate, to continue, or to tag, and the sizes of the model."""

    task: Task
    precision: Precision
    device: Literal["cpu", "cuda"]
    batch: int
    beams: int
    given: int  # tokens of each source, or of each prompt
    tokens: int  # of each generated text
    vocab: int
    d_model: int
    layers: int  # of the encoder, and of the decoder
    heads: int
    d_ff: int
    cell: Cell = ""  # of a recurrent model; none: a Transformer

    @property
    def name(self) -> str:
        search = "greedy" if self.beams == 1 else f"beam {self.beams}"
        parts = [self.task, self.cell, self.precision, f"batch {self.batch}"]
        parts += [] if self.task == "tag" else [search]
        return " ".join(part for part in [*parts, f"{self.tokens} tokens"] if part)

    @property
    def dtype(self) -> torch.dtype:
        return torch.bfloat16 if self.precision == "bf16" else torch.float32

    def texts(self) -> Tensor:
        """The input of all tools: (batch, given)."""
        chance = torch.Generator().manual_seed(0)
        return torch.randint(WORDS, self.vocab - 1, (self.batch, self.given), generator=chance)

    def cache_bytes(self) -> int:
        """Bytes of the keys and values: of all beams, and of the sources, which all beams of a
        source share."""
        positions = self.batch * self.beams * (self.tokens + 1)
        if self.task == "translate":
            positions += self.batch * self.given
        return 2 * self.layers * self.d_model * positions * self.dtype.itemsize


class CannotYet(Exception):
    """The tool cannot run this workload; the message states the reason."""


# Ours


@cache
def ours_model(work: Workload) -> Any:
    torch.manual_seed(0)
    shapes = {"translate": "encoder-decoder", "write": "decoder", "tag": "encoder"}
    sizes: dict[str, Any] = {
        "shape": shapes[work.task], "head": "tag" if work.task == "tag" else "language",
        "vocab": work.vocab, "d_model": work.d_model, "layers": work.layers,
        "outputs": TAGS if work.task == "tag" else None,
    }  # fmt: skip
    if work.cell:
        config: Any = RecurrentConfig(cell=work.cell, hidden=work.d_model, **sizes)
    else:
        config = TransformerConfig(
            heads=work.heads,
            d_ff=work.d_ff,
            activation="gelu" if work.task == "write" else "relu",
            placement="pre" if work.task == "write" else "post",
            positions="sinusoidal" if work.task == "translate" else "learned",
            max_length=1024,
            **sizes,
        )
    return build(config).to(work.device).eval()


def model_of(work: Workload) -> Any:
    """Workloads that differ only in texts and precision share a model."""
    return ours_model(replace(work, precision="float32", batch=1, beams=1, given=1, tokens=1))


def ours(work: Workload) -> Run:
    """Translucid's public function, which counts the end token as a token."""
    precision = "bfloat16" if work.precision == "bf16" else work.precision
    model = prepare(model_of(work), precision)
    texts = work.texts().to(work.device)
    if work.task == "tag":
        return lambda: tags(model(texts))
    how = GenerationConfig(beam_size=work.beams, min_length=work.tokens - 1, max_length=work.tokens)
    sources, prefixes = None, texts.tolist()
    if work.task == "translate":
        sources, prefixes = GenerationInputs.of(texts), [[EOS]] * work.batch
    graphs = DecodeGraphs()

    def run() -> list[list[int]]:
        found = find(model, prefixes, sources, how, eos=EOS, pad=PAD, graphs=graphs)
        return [[*texts[0].tokens, *[EOS] * texts[0].finished] for texts in found]

    return run


def tags(logits: Tensor) -> list[list[int]]:
    return logits.argmax(dim=-1).tolist()


def _sizes(work: Workload) -> tuple[str, int, int, int, int, int]:
    return work.task, work.vocab, work.d_model, work.layers, work.heads, work.d_ff


# transformers


@cache
def marian(
    vocab: int, d_model: int, layers: int, heads: int, d_ff: int, dtype: torch.dtype, device: str
) -> Any:
    from transformers import MarianConfig, MarianMTModel

    torch.manual_seed(0)
    config = MarianConfig(
        vocab_size=vocab, d_model=d_model, max_position_embeddings=1024, init_std=d_model**-0.5,
        encoder_layers=layers, encoder_attention_heads=heads, encoder_ffn_dim=d_ff,
        decoder_layers=layers, decoder_attention_heads=heads, decoder_ffn_dim=d_ff,
        activation_function="relu", scale_embedding=True, share_encoder_decoder_embeddings=True,
        pad_token_id=vocab - 1, decoder_start_token_id=vocab - 1, eos_token_id=EOS,
        bos_token_id=None, forced_eos_token_id=None,
    )  # fmt: skip
    return MarianMTModel(config).to(device, dtype).eval()


@cache
def gpt2(
    vocab: int, d_model: int, layers: int, heads: int, d_ff: int, dtype: torch.dtype, device: str
) -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=vocab, n_embd=d_model, n_layer=layers, n_head=heads, n_inner=d_ff,
        n_positions=1024, bos_token_id=EOS, eos_token_id=EOS, pad_token_id=PAD,
    )  # fmt: skip
    return GPT2LMHeadModel(config).to(device, dtype).eval()


@cache
def bert(vocab: int, d_model: int, layers: int, heads: int, d_ff: int) -> Any:
    from transformers import BertConfig, BertForTokenClassification

    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=vocab, hidden_size=d_model, num_hidden_layers=layers, intermediate_size=d_ff,
        num_attention_heads=heads, max_position_embeddings=1024, hidden_act="relu",
        num_labels=TAGS,
    )  # fmt: skip
    return BertForTokenClassification(config).eval()


def transformers(work: Workload) -> Run:
    if work.cell:
        raise CannotYet("transformers has no recurrent models")
    if work.precision == "int8":
        raise CannotYet("transformers has no int8 of its own for a CPU")
    task, *sizes = _sizes(work)
    if task == "tag":
        tagger, given = bert(*sizes), work.texts()
        return lambda: tags(tagger(given).logits)
    model = (marian if task == "translate" else gpt2)(*sizes, work.dtype, work.device)
    texts = work.texts().to(work.device)

    def run() -> list[list[int]]:
        found = model.generate(
            texts,
            attention_mask=torch.ones_like(texts),
            num_beams=work.beams,
            do_sample=False,
            min_new_tokens=work.tokens,
            max_new_tokens=work.tokens,
        )
        return found[:, -work.tokens :].tolist()

    return run


# ctranslate2


class Words:
    """The part of a tokenizer's interface that the conversion uses."""

    eos_token, unk_token = "1", "2"

    def __init__(self, vocab: int) -> None:
        self._vocab = vocab

    def get_vocab(self) -> dict[str, int]:
        """The vocabulary, with the padding token last, as in Marian."""
        return {str(i): i for i in range(self._vocab - 1)} | {"<pad>": self._vocab - 1}


@cache
def converted(
    vocab: int, d_model: int, layers: int, heads: int, d_ff: int, precision: Precision
) -> Any:
    """The Marian model of the comparison, as ctranslate2 stores and loads it."""
    from ctranslate2 import Translator
    from ctranslate2.converters.transformers import MarianMTLoader

    model = marian(vocab, d_model, layers, heads, d_ff, torch.float32, "cpu")
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        spec = MarianMTLoader()(model, Words(vocab))
        spec.validate()
        spec.optimize(quantization=precision)
        spec.save(folder)
        return Translator(
            folder, device="cpu", compute_type=precision, inter_threads=1, intra_threads=THREADS
        )


def ctranslate2(work: Workload) -> Run:
    if work.task != "translate" or work.device != "cpu" or work.cell:
        raise CannotYet("raced on the CPU, where its float32 and int8 are the measure")
    translator = converted(*_sizes(work)[1:], work.precision)
    texts = [[str(i) for i in row] for row in work.texts().tolist()]

    def run() -> list[list[int]]:
        found = translator.translate_batch(
            texts,
            beam_size=work.beams,
            max_batch_size=0,
            min_decoding_length=work.tokens,
            max_decoding_length=work.tokens,
        )
        return [[int(token) for token in one.hypotheses[0]] for one in found]

    return run


# onnxruntime, which runs the graphs that Translucid exports. A loop in Python feeds them.


@cache
def onnx_sessions(work: Workload) -> dict[str, Any]:
    """The sessions by name of the graph. int8: onnxruntime's dynamic quantization."""
    import onnx
    from onnxruntime import InferenceSession, SessionOptions
    from onnxruntime.quantization import QuantType, quantize_dynamic

    options, sessions = SessionOptions(), {}
    options.intra_op_num_threads, options.log_severity_level = THREADS, 3
    held: Any = SimpleNamespace(network=model_of(work))
    with tempfile.TemporaryDirectory() as folder:
        for name, graph in graphs_of(held, traced=False, length=1024).items():
            file, small = Path(folder, f"{name}.onnx"), Path(folder, f"{name}.int8.onnx")
            onnx.save_model(graph, str(file))
            if work.precision == "int8":
                quantize_dynamic(str(file), str(small), weight_type=QuantType.QInt8)
                file = small
            sessions[name] = InferenceSession(str(file), options)
    return sessions


def onnxruntime(work: Workload) -> Run:
    if work.device != "cpu" or work.beams > 1:
        raise CannotYet("its graphs are run on the CPU, by a greedy loop")
    sessions = onnx_sessions(replace(work, batch=1, given=1, tokens=1))
    texts = work.texts().numpy()
    seen = np.ones(texts.shape, dtype=bool)
    if work.task == "tag":
        given = {"ids": texts, "mask": seen}
        return lambda: sessions[MODEL].run(["logits"], given)[0].argmax(-1).tolist()
    step = sessions[STEP]
    names = [output.name for output in step.get_outputs()]

    def run() -> list[list[int]]:
        state, newest = _empty_state(step, work.batch), texts
        if work.task == "translate":
            outputs = [output.name for output in sessions[ENCODER].get_outputs()]
            values = sessions[ENCODER].run(outputs, {"ids": texts, "mask": seen})
            state = dict(zip(outputs, values, strict=True))
            newest = np.full((work.batch, 1), EOS)
        length, found = 0, []
        for _ in range(work.tokens):
            length += newest.shape[1]
            mask = np.ones((work.batch, length), dtype=bool)
            values = step.run(names, {"ids": newest, "mask": mask, **state})
            now = dict(zip(names, values, strict=True))
            state |= {name.replace("new", "past"): now[name] for name in names if "new_" in name}
            logits = now["logits"][:, -1]
            logits[:, EOS] = -np.inf
            newest = logits.argmax(-1)[:, None]
            found.append(newest)
        return np.concatenate(found, axis=1).tolist()

    return run


def _empty_state(step: Any, batch: int) -> dict[str, Any]:
    """The state of a decoder that has read nothing."""
    sizes = {"batch": batch, "past": 0}
    return {
        put.name: np.zeros([sizes.get(size, size) for size in put.shape], dtype=np.float32)
        for put in step.get_inputs()
        if put.name.startswith("past_")
    }


# torch.nn


class TorchTagger(nn.Module):
    def __init__(self, work: Workload) -> None:
        super().__init__()
        self.table = nn.Embedding(work.vocab, work.d_model)
        self.positions = nn.Embedding(1024, work.d_model)
        layer = nn.TransformerEncoderLayer(
            work.d_model, work.heads, work.d_ff, batch_first=True, activation="relu"
        )
        self.encoder = nn.TransformerEncoder(layer, work.layers)
        self.head = nn.Linear(work.d_model, TAGS)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.table(ids) + self.positions(torch.arange(ids.shape[1]))
        return self.head(self.encoder(x))


class TorchWriter(nn.Module):
    def __init__(self, work: Workload) -> None:
        super().__init__()
        kind = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}[work.cell]
        self.table = nn.Embedding(work.vocab, work.d_model)
        self.stack = kind(work.d_model, work.d_model, work.layers, batch_first=True)
        self.head = nn.Linear(work.d_model, work.vocab)

    def forward(self, ids: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        x, state = self.stack(self.table(ids), state)
        return self.head(x[:, -1]), state


def torch_nn(work: Workload) -> Run:
    if work.precision != "float32" or (work.task != "tag" and not (work.cell and work.beams == 1)):
        raise CannotYet("torch.nn has no search and no caches; it tags and writes by an RNN")
    texts = work.texts()
    if work.task == "tag":
        tagger = TorchTagger(work).eval()
        return lambda: tags(tagger(texts))
    if work.task != "write":
        raise CannotYet("torch.nn has no encoder-decoder with attention")
    writer = TorchWriter(work).eval()

    def run() -> list[list[int]]:
        newest, state, found = texts, None, []
        for _ in range(work.tokens):
            logits, state = writer(newest, state)
            logits[:, EOS] = -torch.inf
            newest = logits.argmax(dim=-1, keepdim=True)
            found.append(newest)
        return torch.cat(found, dim=1).tolist()

    return run


CONTESTANTS: dict[str, Callable[[Workload], Run]] = {
    "ours": ours,
    "transformers": transformers,
    "ctranslate2": ctranslate2,
    "onnxruntime": onnxruntime,
    "torch.nn": torch_nn,
}
