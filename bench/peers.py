"""The tools that decode.py compares: Translucid, transformers, ctranslate2.

Each is set up for a workload and returns a function without arguments that runs it once: every row
gets exactly the requested number of tokens, because the end token is forbidden. All have random
weights of the same sizes, which do not affect the speed.
"""

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import torch
from torch import Tensor

from translucid.fast.decode_graphs import DecodeGraphs
from translucid.fast.precision import prepare
from translucid.generate.beam_search import GenerationConfig
from translucid.generate.decode import find
from translucid.models import GenerationInputs, TransformerConfig, build

Precision = Literal["float32", "int8", "bf16"]
Run = Callable[[], list[list[int]]]  # the tokens of the best hypothesis of each row

PAD, EOS = 0, 1
WORDS = 2  # ids from here on are words
# The number of processors that this process may use.
THREADS = len(os.sched_getaffinity(0))


@dataclass(frozen=True, kw_only=True)
class Workload:
    """A batch of texts to translate or to continue, and the sizes of the model."""

    task: Literal["translate", "write"]
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

    @property
    def name(self) -> str:
        search = "greedy" if self.beams == 1 else f"beam {self.beams}"
        return f"{self.task} {self.precision} batch {self.batch} {search} {self.tokens} tokens"

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
def ours_model(
    task: str, vocab: int, d_model: int, layers: int, heads: int, d_ff: int, device: str
) -> Any:
    torch.manual_seed(0)
    config = TransformerConfig(
        shape="encoder-decoder" if task == "translate" else "decoder",
        head="language",
        vocab=vocab,
        d_model=d_model,
        layers=layers,
        heads=heads,
        d_ff=d_ff,
        activation="relu" if task == "translate" else "gelu",
        placement="post" if task == "translate" else "pre",
        positions="sinusoidal" if task == "translate" else "learned",
        max_length=1024,
    )
    return build(config).to(device).eval()


def ours(work: Workload) -> Run:
    """Translucid's public function, which counts the end token as a token."""
    precision = "bfloat16" if work.precision == "bf16" else work.precision
    model = prepare(ours_model(*_sizes(work), work.device), precision)
    texts = work.texts().to(work.device)
    how = GenerationConfig(beam_size=work.beams, min_length=work.tokens - 1, max_length=work.tokens)
    sources, prefixes = None, texts.tolist()
    if work.task == "translate":
        sources, prefixes = GenerationInputs.of(texts), [[EOS]] * work.batch
    graphs = DecodeGraphs()

    def run() -> list[list[int]]:
        found = find(model, prefixes, sources, how, eos=EOS, pad=PAD, graphs=graphs)
        return [[*texts[0].tokens, *[EOS] * texts[0].finished] for texts in found]

    return run


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


def transformers(work: Workload) -> Run:
    if work.precision == "int8":
        raise CannotYet("transformers has no int8 of its own for a CPU")
    task, *sizes = _sizes(work)
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
    if work.task != "translate" or work.device != "cpu":
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


CONTESTANTS: dict[str, Callable[[Workload], Run]] = {
    "ours": ours,
    "transformers": transformers,
    "ctranslate2": ctranslate2,
}
