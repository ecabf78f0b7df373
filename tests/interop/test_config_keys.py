"""Every key of config.json is honoured, known to be irrelevant, or named in a refusal."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.interop import tokenizer_keys
from tests.interop.config_keys import (
    FAMILIES,
    MISSING,
    changes,
    distance,
    edit,
    make,
    plan,
    reopened,
    verdict,
)

from translucid.core.errors import InputError
from translucid.interop.importing import open_network


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_every_key_is_honoured_or_refused(tmp_path: Path, family: str) -> None:
    """Keys that change nothing here are all changed at once, and each alone if that is wrong."""
    base, folder = tmp_path / "base", tmp_path / "changed"
    cases = list(changes(make(family, base).config))
    plain = plan(base)

    def said(changed: Mapping[str, Any]) -> str:
        shutil.copytree(base, folder)
        try:
            return verdict(family, folder, changed)
        finally:
            shutil.rmtree(folder)

    def irrelevant(key: str, value: Any) -> bool:
        shutil.copytree(base, folder)
        edit(folder, {key: value})
        try:
            return value is not MISSING and plan(folder) == plain
        finally:
            shutil.rmtree(folder)

    together = {key: value for key, value in cases if irrelevant(key, value)}
    if said(together) == "equal":
        cases = [(key, value) for key, value in cases if together.get(key, MISSING) != value]
    found = {f"{key} = {value!r}": said({key: value}) for key, value in cases}
    assert not {change: result for change, result in found.items() if result.startswith("wrong")}
    results = list(found.values())
    assert results.count("equal") > 5
    assert results.count("refused") > 3


@pytest.mark.parametrize(
    ("family", "change"),
    [
        ("llama", {"a_key_of_a_later_version": 0.5}),
        ("llama", {"rope_scaling": {"type": "mrope", "mrope_section": [1, 1, 1]}}),
        ("qwen2", {"rope_scaling": {"type": "longrope", "long_factor": [2.0] * 3}}),
        ("llama", {"rope_parameters": {"rope_type": "default", "mrope_section": [1, 1, 1]}}),
        ("mistral", {"partial_rotary_factor": 0.5}),
        ("bart", {"normalize_before": True}),
        ("t5", {"dense_act_fn": "silu"}),
    ],
)
def test_a_key_of_unknown_meaning_is_named(
    tmp_path: Path, family: str, change: dict[str, Any]
) -> None:
    make(family, tmp_path)
    edit(tmp_path, change)
    with pytest.raises(InputError, match=f"(?s)config.json.*({'|'.join(change)}).*"):
        open_network(tmp_path)


@pytest.mark.parametrize(
    ("family", "change"),
    [
        ("gpt_neox", {"rope_parameters": MISSING}),  # a quarter of each head turns
        ("gpt_neox", {"rope_parameters": MISSING, "rotary_pct": 0.5, "rotary_emb_base": 100.0}),
        ("qwen2", {"rope_scaling": {"type": "linear", "factor": 2.0}}),  # beside rope_parameters
        ("roberta", {"hidden_act": "relu"}),  # its head has GELU all the same
    ],
)
def test_a_key_is_read_as_the_reference_reads_it(
    tmp_path: Path, family: str, change: dict[str, Any]
) -> None:
    make(family, tmp_path)
    assert verdict(family, tmp_path, change) == "equal"


@pytest.mark.parametrize("family", ["llama", "mistral", "qwen2", "qwen3"])
def test_null_key_value_heads_are_as_many_as_heads(tmp_path: Path, family: str) -> None:
    """As transformers 4 reads it; transformers 5 refuses null for some families."""
    theirs = make(family, tmp_path, num_key_value_heads=4)
    edit(tmp_path, {"num_key_value_heads": None})
    assert distance(theirs, open_network(tmp_path).network) < 1e-4  # type: ignore[operator]


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize(
    ("family", "head"),
    [
        ("bert", "cls.predictions.decoder.weight"),
        ("roberta", "lm_head.decoder.weight"),
        ("distilbert", "vocab_projector.weight"),
        ("llama", "lm_head.weight"),
        ("gpt2", "lm_head.weight"),
        ("t5", "lm_head.weight"),
        ("bart", "lm_head.weight"),
    ],
)
def test_a_separate_output_head_is_used(tmp_path: Path, family: str, head: str, tied: bool) -> None:
    """Whatever tie_word_embeddings says: a stored head that differs from the table is no copy."""
    make(family, tmp_path, **({} if family == "t5" else {"tie_word_embeddings": False}))
    tensors = load_file(tmp_path / "model.safetensors")
    shape = next(t.shape for name, t in tensors.items() if t.shape[0] == 53 and t.dim() == 2)
    tensors[head] = torch.randn(shape, generator=torch.Generator().manual_seed(3))
    for side in ("encoder", "decoder") if tied else ():  # BART's copies of the shared table
        tensors.pop(f"model.{side}.embed_tokens.weight", None)
    save_file(tensors, tmp_path / "model.safetensors", {"format": "pt"})
    edit(tmp_path, {"tie_word_embeddings": tied})
    theirs, opened = reopened(family, tmp_path), open_network(tmp_path)
    assert distance(theirs, opened.network) < 1e-4  # type: ignore[operator]
    note = any("are not tied" in line for line in opened.notes)
    assert note == (tied and family != "t5")


@pytest.mark.parametrize(
    ("family", "copy"),
    [("bart", "model.encoder.embed_tokens.weight"), ("t5", "decoder.embed_tokens.weight")],
)
def test_copies_of_a_shared_table_that_differ_are_refused(
    tmp_path: Path, family: str, copy: str
) -> None:
    """transformers 4 uses the shared table, transformers 5 the copy."""
    make(family, tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    (table,) = (tensor for name, tensor in tensors.items() if name.endswith("shared.weight"))
    for other in (table.clone(), table + 1):
        save_file(tensors | {copy: other}, tmp_path / "model.safetensors", {"format": "pt"})
        if torch.equal(other, table):
            assert open_network(tmp_path)
            continue
        with pytest.raises(InputError, match=rf"{copy} and .*shared\.weight should be one table"):
            open_network(tmp_path)


def test_a_copy_of_the_table_is_not_a_separate_head(tmp_path: Path) -> None:
    make("bert", tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    table = tensors["bert.embeddings.word_embeddings.weight"]
    save_file(
        tensors | {"cls.predictions.decoder.weight": table.clone()},
        tmp_path / "model.safetensors", {"format": "pt"},
    )  # fmt: skip
    network = open_network(tmp_path).network
    assert network.head.linear.weight is network.encoder.embedding.table.weight


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("name", tokenizer_keys.MAKERS)
@pytest.mark.slow
def test_every_key_of_a_tokenizer_is_honoured_or_refused(
    tmp_path: Path, name: str, whole: bool
) -> None:
    base, folder = tmp_path / "base", tmp_path / "changed"
    tokenizer_keys.make(name, base, whole=whole)
    assert tokenizer_keys.verdict(name, base, "") == "equal"
    found = {}
    for key, values in tokenizer_keys.KEYS.items():
        for value in values:
            shutil.copytree(base, folder)
            tokenizer_keys.edit(folder, key, value)
            found[f"{key} = {value!r}"] = tokenizer_keys.verdict(name, folder, key)
            shutil.rmtree(folder)
    assert not {change: said for change, said in found.items() if said.startswith("wrong")}
    assert found["a_key_of_a_later_version = 3"] == "refused"


@pytest.mark.parametrize(
    ("name", "whole", "key", "value", "said"),
    [
        ("pegasus", False, "name_or_path", "x", "equal"),  # ids begin at 103
        ("pegasus", False, "offset", 7, "equal"),
        ("bert", True, "do_lower_case", False, "equal"),
        ("bert", True, "tokenize_chinese_chars", False, "equal"),
        ("gpt2", True, "add_prefix_space", True, "equal"),
        ("llama", True, "add_prefix_space", False, "refused"),
        ("roberta", False, "add_eos_token", False, "refused"),
        ("bert", False, "a_key_of_a_later_version", 3, "refused"),
        ("bert", False, "tokenizer_class", "BertJapaneseTokenizer", "refused"),
        ("t5", False, "clean_up_tokenization_spaces", True, "noted"),
    ],
)
def test_a_key_of_a_tokenizer(
    tmp_path: Path, name: str, whole: bool, key: str, value: Any, said: str
) -> None:
    tokenizer_keys.make(name, tmp_path / "x", whole=whole)
    tokenizer_keys.edit(tmp_path / "x", key, value)
    found = tokenizer_keys.verdict(name, tmp_path / "x", key)
    assert found in (said, "no reference" if said == "refused" else said)


def test_qwen_is_not_split_as_gpt2_is(tmp_path: Path) -> None:
    tokenizer_keys.make("gpt2", tmp_path / "x", whole=False)
    edit(tmp_path / "x", {"model_type": "qwen2"})
    with pytest.raises(InputError, match=r"model_type = 'qwen2'.*tokenizer\.json"):
        tokenizer_keys.read_tokenizers(tmp_path / "x")


def test_ignored_keys_are_accepted_with_a_note(tmp_path: Path) -> None:
    folder = tmp_path / "a model"
    make("llama", folder)
    tokenizer_keys.MAKERS["llama"](tmp_path)
    shutil.copy(tmp_path / "tokenizer.model", folder)
    edit(folder, {"vendor": "x", "vocab_size": 53})
    with pytest.raises(InputError, match="--ignore-key vendor"):
        open_network(folder)
    opened = open_network(folder, ignored_keys=["vendor"])
    assert any("vendor = 'x'" in line for line in opened.notes)
    with pytest.raises(InputError, match=r"--ignore-key vendr.*did you mean vendor"):
        open_network(folder, ignored_keys=["vendr"])
