"""Language models of ours as llama.cpp runs them: the log-probability of every token of the
vocabulary, step by step, and the tokens of a text.

llama.cpp itself comes with the package xllamacpp, whose wheels hold it compiled:
    pip install xllamacpp
"""

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.interop.own_models import ENGLISH, own
from tests.interop.test_export_gguf import MODELS, TEXTS

from translucid.interop.export.exporting import export

STEPS = 12
FLOAT32 = 2e-5  # of log-probabilities; measured: docs/explanation/interop.md


def served(file: Path) -> Any:
    """llama.cpp with one thread, and keys and values in float32 as here."""
    library = pytest.importorskip("xllamacpp", reason="the package xllamacpp is not installed")
    options = library.CommonParams()
    options.model.path = str(file)
    options.n_ctx, options.n_parallel, options.warmup = 128, 1, False
    options.cpuparams.n_threads = options.cpuparams_batch.n_threads = 1
    options.flash_attn_type = library.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    options.cache_type_k = options.cache_type_v = library.ggml_type.GGML_TYPE_F32
    return library.Server(options)


def asked(server: Any, prompt: Any, steps: int, **options: Any) -> dict[str, Any]:
    """Greedy."""
    question = {"prompt": prompt, "max_tokens": steps, "temperature": 0, "ignore_eos": False}
    answer: dict[str, Any] = server.handle_completions(question | options)
    return answer


@pytest.mark.parametrize("name", MODELS)
def test_every_log_probability(tmp_path: Path, name: str) -> None:
    held = own("language", "bpe", **MODELS[name])
    export(held, "gguf", tmp_path / "out")
    server = served(tmp_path / "out" / "model.gguf")
    tokenizer, vocab = held.tokenizers["tokenizer"], held.network.config.vocab  # type: ignore[attr-defined]
    # The server keeps back what is part of a character, so that only whole ones are generated; its
    # log-probabilities are those before that.
    broken = [i for i, name in enumerate(tokenizer.vocab)
              if not name.isascii() or i in tokenizer.special_ids]  # fmt: skip
    banned = [[i, False] for i in broken]
    apart = 0.0
    for text in ENGLISH[:3]:
        ids = tokenizer.encode(text)
        answer = asked(server, ids, STEPS, logprobs=vocab, logit_bias=banned)["choices"][0]
        for step in answer["logprobs"]["content"]:
            with torch.no_grad():
                log_probs = held.network(torch.tensor([ids]))[0, -1].log_softmax(dim=-1)
            theirs = torch.full_like(log_probs, torch.nan)
            for choice in step["top_logprobs"]:
                theirs[choice["id"]] = choice["logprob"]
            apart = max(apart, float((theirs - log_probs).abs().max()))
            log_probs[broken] = -torch.inf
            ids = [*ids, int(log_probs.argmax())]
            assert step["id"] == ids[-1]
        assert len(ids) == len(tokenizer.encode(text)) + STEPS
    print(f"{name}: log-probabilities differ by at most {apart:.1e}")
    assert apart < FLOAT32
    for text in (*ENGLISH, *TEXTS[:2]):
        read = asked(server, text, 1)["usage"]["prompt_tokens"]
        assert read == len(tokenizer.frame("bos", None)(tokenizer.encode(text))), text
