"""Tiny random models of transformers, each with a tokenizer, in folders such as users have."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from tests.interop.reference import randomised, save, transformers
from tests.interop.test_bart import made as made_bart
from tests.interop.test_t5 import made as made_t5
from tests.interop.test_tokenizers import bert, gpt2, llama, marian, t5
from torch import Tensor, nn

import translucid as tl
from translucid.tasks.example import Example

SIZES = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2,
         "num_attention_heads": 2, "max_position_embeddings": 64}  # fmt: skip
GPT2 = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 64}
LLAMA = SIZES | {"num_key_value_heads": 1, "bos_token_id": 1, "eos_token_id": 2}
END = {"bos_token_id": 260, "eos_token_id": 260}
LABELS = {"classifier": ["good", "bad", "odd"], "tagger": ["O", "B-CAT", "I-CAT", "B-PLACE"]}
# The reference's name for the output projection of the first self-attention.
OUTPUT = {
    "llama": "model.layers.0.self_attn.o_proj",
    "qwen3": "model.layers.0.self_attn.o_proj",
    "gpt2": "transformer.h.0.attn.c_proj",
    "neox": "gpt_neox.layers.0.attention.dense",
    "classifier": "bert.encoder.layer.0.attention.output.dense",
    "tagger": "bert.encoder.layer.0.attention.output.dense",
    "marian": "model.encoder.layers.0.self_attn.out_proj",
    "t5": "encoder.block.0.layer.0.SelfAttention.o",
}


def _reference(family: str, folder: Path) -> Any:
    """A random model of the family. Also writes its tokenizer into the folder."""
    library = transformers()
    match family:
        case "llama":
            config = library.LlamaConfig(**LLAMA, vocab_size=len(llama(folder)))
            return randomised(library.LlamaForCausalLM(config))
        case "qwen3":
            config = library.Qwen3Config(**LLAMA, vocab_size=len(llama(folder)), head_dim=6)
            return randomised(library.Qwen3ForCausalLM(config))
        case "gpt2":
            config = library.GPT2Config(**GPT2, **END, vocab_size=len(gpt2(folder)))
            return randomised(library.GPT2LMHeadModel(config))
        case "neox":
            config = library.GPTNeoXConfig(**SIZES, **END, vocab_size=len(gpt2(folder)))
            return randomised(library.GPTNeoXForCausalLM(config))
        case "classifier" | "tagger":
            labels = dict(enumerate(LABELS[family]))
            config = library.BertConfig(**SIZES, vocab_size=len(bert(folder)), id2label=labels)
            head = "Sequence" if family == "classifier" else "Token"
            return randomised(getattr(library, f"BertFor{head}Classification")(config))
        case "marian":
            last = len(marian(folder)["source"]) - 1
            roles = {"pad_token_id": last, "decoder_start_token_id": last}
            return made_bart("marian", vocab_size=last + 1, **roles)
        case _:
            return made_t5("t5", vocab_size=len(t5(folder)))


@dataclass(frozen=True)
class Foreign:
    """A family's tiny model: the reference, and what Translucid opens from its folder."""

    family: str
    folder: Path
    theirs: Any

    @cached_property
    def model(self) -> Any:
        return tl.load(self.folder)

    @property
    def task(self) -> str:
        name: str = self.model.task.name
        return name

    @property
    def stack(self) -> str:
        return "decoder" if self.task == "language" else "encoder"

    @property
    def output(self) -> nn.Module:
        module: nn.Module = self.theirs.get_submodule(OUTPUT[self.family])
        return module

    def example(self, text: str, target: str | None = None) -> Example:
        example: Example = self.model.task.example(text, target)
        return example

    def reference(self, inputs: dict[str, Tensor], **options: Any) -> Any:
        """The reference's output for the ids that Translucid's network reads."""
        if "target" in inputs:
            ids = {"input_ids": inputs["source"], "decoder_input_ids": inputs["target"]}
        else:
            ids = {"input_ids": inputs["ids"]}
        return self.theirs(**ids, **options)

    def log_probs(self, inputs: dict[str, Tensor]) -> Tensor:
        """Log-probabilities of the reference: (length, vocab)."""
        with torch.inference_mode():
            log_probs: Tensor = self.reference(inputs).logits[0].log_softmax(-1)
        return log_probs


def written(family: str, folder: Path) -> Foreign:
    theirs = _reference(family, folder)
    save(theirs, folder)
    theirs.set_attn_implementation("eager")  # the only one that returns attention patterns
    return Foreign(family, folder, theirs)
