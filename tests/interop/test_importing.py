"""A model of another tool is a model like any other: opened, asked, looked into, saved."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.in_process import run
from tests.interop.reference import randomised, save, transformers
from tests.interop.writers import LLAMA2C, llama2c_weights, write_llama2c
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, pre_tokenizers

import translucid as tl
from translucid.core.errors import InputError
from translucid.interop.importing import load
from translucid.interop.kinds import identify
from translucid.interop.tokenizers import read_tokenizers

WORDS = [
    "<s>",
    "</s>",
    "<unk>",
    *"abcdefghijklmnopqrstuvwxyz<>/",
    *["Ġ", "Ġt", "he", "Ġthe", "do", "dog"],
]
MERGES = [("Ġ", "t"), ("h", "e"), ("Ġt", "he"), ("d", "o"), ("do", "g")]


def write_tokenizer(folder: Path) -> None:
    backend = Backend(
        models.BPE(
            vocab={word: i for i, word in enumerate(WORDS)}, merges=MERGES, unk_token="<unk>"
        )
    )
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(["<s>", "</s>", "<unk>"])
    backend.save(str(folder / "tokenizer.json"))
    names = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(names))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    library = transformers()
    config = library.LlamaConfig(
        vocab_size=44, hidden_size=16, intermediate_size=24, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, bos_token_id=0, eos_token_id=1,
    )  # fmt: skip
    place = tmp_path_factory.mktemp("foreign") / "llama"
    save(randomised(library.LlamaForCausalLM(config)), place)
    write_tokenizer(place)
    return place


FAMILIES = """
import sys, translucid
translucid.load(sys.argv[1], verify=False)
begin = "translucid.interop.families."
print(*sorted(name.removeprefix(begin) for name in sys.modules if name.startswith(begin)))
"""


@pytest.mark.slow
def test_opening_a_model_imports_no_other_family(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FAMILIES, str(folder)], capture_output=True, encoding="utf-8",
        check=True,
    )  # fmt: skip
    shared = {"encoder_heads", "huggingface_layout", "plan", "rotary", "stack"}
    assert set(done.stdout.split()) == {"llama", *shared}


def test_an_opened_model_can_be_traced_edited_and_saved(folder: Path, tmp_path: Path) -> None:
    model = tl.load(folder)
    assert model.task.name == "language"
    assert model.facts["imported"] == "llama model in Hugging Face's layout: llama"
    reading = model.trace("the dog")
    pattern = reading["decoder.layers.1.self_attention.pattern"]
    assert pattern.shape[:2] == (1, 4)
    assert torch.allclose(pattern.sum(-1), torch.ones(()), atol=1e-5)
    edited = model.trace(
        "the dog", edit={"decoder.layers.0.self_attention.output": lambda x: 0 * x}
    )
    assert not torch.allclose(edited["head.logits"], reading["head.logits"])
    model.save(tmp_path / "ours")
    again = tl.load(tmp_path / "ours")
    assert torch.equal(again.trace("the dog")["head.logits"], reading["head.logits"])
    assert again.facts["notes"] == model.facts["notes"]
    assert again.generate(["the"], seed=3, max_length=9) == model.generate(
        ["the"], seed=3, max_length=9
    )


def test_import_writes_a_model_folder(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = run("import", str(folder), str(out), "--verify")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("llama model in Hugging Face's layout: llama, ")
    assert any("reordered" in line for line in lines)
    assert any(line.startswith("after layer 0 ") for line in lines)
    assert any(line.startswith("logits ") for line in lines)
    assert lines[-1] == f"next: translucid generate {shlex.quote(str(out))}"
    same = [run("generate", str(place), "the dog", "--beam-size", "1", "--max-length", "5").stdout
            for place in (folder, out)]  # fmt: skip
    assert same[0] == same[1]
    info = run("info", str(out)).stdout
    assert "imported    llama model in Hugging Face's layout: llama" in info


def test_import_refuses_a_folder_that_is_not_empty(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("precious")
    done = run("import", str(folder), str(tmp_path))
    assert done.returncode == 2
    assert "is not an empty folder" in done.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_verify_finds_the_first_layer_that_differs(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from translucid.interop import importing

    whole = importing.bundle_of

    def other(*arguments: Any) -> Any:
        opened = whole(*arguments)
        with torch.no_grad():
            opened.network.get_parameter("decoder.layers.1.feedforward.output.weight").add_(0.01)
        return opened

    monkeypatch.setattr(importing, "bundle_of", other)
    done = run("import", str(folder), str(tmp_path / "out"), "--verify")
    assert done.returncode == 2
    assert "first at after layer 1, the last" in done.stderr
    assert [line for line in done.stdout.splitlines() if line.endswith("<- the first that differs")]
    assert not (tmp_path / "out").exists()


def test_llama2c_finds_its_tokenizer_beside_it(tmp_path: Path) -> None:
    torch.manual_seed(0)
    write_llama2c(tmp_path / "m.bin", LLAMA2C, llama2c_weights(LLAMA2C, True), 0)
    with pytest.raises(InputError, match=r"put tokenizer\.bin or tok10\.bin into the same folder"):
        load(tmp_path / "m.bin")


def test_only_foreign_models_have_a_kind(tmp_path: Path) -> None:
    """Folders without a model, and things that are no model at all, are told apart."""
    assert identify(tmp_path).kind is None
    (tmp_path / "config.json").write_text('{"format": 2, "model_type": "llama"}')
    assert identify(tmp_path).kind is None
    with pytest.raises(InputError, match=str(tmp_path)):
        tl.load(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(InputError, match=str(tmp_path)):
        tl.load(tmp_path)
    (tmp_path / "x.txt").write_text("hello")
    with pytest.raises(InputError, match="a mapping file"):
        tl.load(tmp_path / "x.txt")
    with pytest.raises(InputError, match="or folder; pass the folder that training wrote"):
        tl.load(tmp_path / "nothing")
    os.mkfifo(tmp_path / "pipe.bin")
    with pytest.raises(InputError, match="pipe"):
        tl.load(tmp_path / "pipe.bin")


@pytest.mark.parametrize("named", [True, False])
def test_small_vocabularies_have_unknown_tokens(tmp_path: Path, named: bool) -> None:
    """Bytes that a vocabulary lacks are its unknown token, which then is no forged special one."""
    backend = Backend(
        models.BPE(vocab={"<unk>": 0, "</s>": 1, "a": 2, "b": 3}, merges=[], unk_token="<unk>")
    )
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.add_special_tokens(["<unk>", "</s>"])
    backend.save(str(tmp_path / "tokenizer.json"))
    names = {"eos_token": "</s>"} | ({"unk_token": "<unk>"} if named else {})
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(names))
    tokenizer = read_tokenizers(tmp_path, {}).tokenizers["tokenizer"]
    assert tokenizer.unk_id == 0
    assert tokenizer.encode("azb") == backend.encode("azb").ids == [2, 0, 3]
    assert 1 not in tokenizer.encode("a</s>b")
