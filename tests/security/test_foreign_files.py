"""Files of other tools that are damaged or made to hurt: each is opened or refused by name, within
seconds and a multiple of its size in memory, and no signal ends the process."""

import json
import re
import shutil
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
import torch
from bench import foreign_models, victims
from bench.attack import attack_file
from bench.hostile_bytes import PICKLES, SAFETENSORS, torch_files
from bench.hostile_foreign import hand_made, mutants
from safetensors import SafetensorError, safe_open
from tests.in_process import run
from tests.interop.tokenizer_files import (
    CONTROLS,
    LETTERS,
    WORDS,
    sentencepiece_alone,
    sentencepiece_model,
)
from tests.tiny.once import once

from translucid.core.errors import InputError
from translucid.core.untrusted_files import naming, parsed_json
from translucid.data.tokenizers import imported, trial
from translucid.interop.formats.safetensors_file import read_safetensors
from translucid.interop.formats.torch_file import read_torch
from translucid.interop.importing import import_model
from translucid.interop.tokenizers import read_tokenizers

pytest.importorskip("transformers", reason="the good models are written by transformers")


def good(format: str) -> Path:
    """A good model of this format, which is written once for all tests."""
    return once(f"to attack: {format}", foreign_models.GOOD[format].write)


def _must_not_run(*arguments: object, **options: object) -> None:
    raise AssertionError("this must be refused before")


def copied(format: str, place: Path) -> Path:
    """To change it."""
    shutil.copytree(good(format), place / "a model")
    return place / "a model"


@pytest.mark.slow
def test_damaged_files_are_opened_or_refused_by_name(tmp_path: Path) -> None:
    tables = {name: victims.Table(name) for name in foreign_models.GOOD}
    place = tmp_path / "good"
    for name, model in foreign_models.GOOD.items():
        shutil.copytree(good(name), place / name)
        foreign_models.ask(place / name / model.path)
    by_hand = list(hand_made(place))
    for case in [*by_hand[:: len(by_hand) // 24], *mutants(place, 36, seed=3)]:
        tables[case.format].add(case.name, attack_file(place, tmp_path / "attack", case))
    assert [line for table in tables.values() for line in table.bad] == []
    assert sum(table.counts["refused"] for table in tables.values()) > 30


@pytest.mark.parametrize("name", [name for name in PICKLES if "contain" in name or "such" in name])
def test_shared_objects_in_a_pickle_end_at_once(tmp_path: Path, name: str) -> None:
    """45 tuples, each of which holds the one before twice: 2 ** 45 visits, if they are counted."""
    path = tmp_path / "a.pt"
    path.write_bytes(torch_files()[name]())
    end = victims.opened(_read_facts, path, folder=tmp_path)
    assert end.outcome in ("refused", "opened"), end


def _read_facts(path: Path) -> None:
    assert len(str(read_torch(path).metadata)) < 1 << 20


def test_objects_that_are_shared_within_reason_are_read(tmp_path: Path) -> None:
    words = ["a", "b"]
    torch.save({"source": words, "target": words, "counts": {(1, 2): words}}, tmp_path / "a.pt")
    assert read_torch(tmp_path / "a.pt").metadata == {
        "source": words, "target": words, "counts": {"(1, 2)": words},
    }  # fmt: skip


@pytest.mark.parametrize("name", [name for name in PICKLES if "again and again" in name])
def test_a_pickle_that_copies_its_values_again_and_again_is_refused(
    tmp_path: Path, name: str
) -> None:
    path = tmp_path / "a.pt"
    path.write_bytes(torch_files()[name]())
    end = victims.opened(_read_facts, path, folder=tmp_path)
    assert end.outcome == "refused", end
    assert "the pickle copies more than" in end.note


def test_a_compressed_byteorder_is_not_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.pt").write_bytes(torch_files()["zeros as byteorder"]())
    monkeypatch.setattr(ZipFile, "read", _must_not_run)
    with pytest.raises(InputError, match="is compressed"):
        read_torch(tmp_path / "a.pt")


@pytest.mark.parametrize("name", ["a part of the values by text", "a part of the values by None",
                                  "a key of 5,000 digits", "a number of 5,000 digits"])  # fmt: skip
def test_odd_values_in_a_pickle_are_refused_by_name(tmp_path: Path, name: str) -> None:
    (tmp_path / "a.pt").write_bytes(torch_files()[name]())
    with pytest.raises(InputError, match=r"a\.pt"):
        read_torch(tmp_path / "a.pt")


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.slow] * ("empty tensors" in n)) for n in SAFETENSORS],
)
def test_safetensors_refuses_what_its_library_does(tmp_path: Path, name: str) -> None:
    """And reads the same names, types and shapes of what it does not."""
    raw = (good("safetensors") / "model.safetensors").read_bytes()
    path = tmp_path / "a.safetensors"
    path.write_bytes(SAFETENSORS[name](raw))
    try:
        with safe_open(str(path), "pt") as file:
            theirs = {key: file.get_tensor(key) for key in file.keys()[:20]}
    except SafetensorError:
        with pytest.raises(InputError, match=r"a\.safetensors"):
            read_safetensors(path)
        return
    if name == "500,000 empty tensors":
        with pytest.raises(InputError, match="the limit is"):
            read_safetensors(path)
        return
    ours = read_safetensors(path).tensors
    for key, tensor in theirs.items():
        assert torch.equal(ours[key].read().nan_to_num(), tensor.nan_to_num()), key


def test_json_is_counted_before_it_is_read() -> None:
    with pytest.raises(InputError, match=r"400,00\d lists and objects"):
        parsed_json(b"[" + b"[[]]," * 200_000 + b"[]]", "a file")
    assert parsed_json(b"[[], {}]", "a file") == [[], {}]


@pytest.mark.parametrize("length", [1025, 200_000])
def test_a_piece_that_is_too_long_is_refused(tmp_path: Path, length: int) -> None:
    path = tmp_path / "a.model"
    pieces = [*CONTROLS, *WORDS, *LETTERS, ("b" * length, -1.0, 1)]
    path.write_bytes(sentencepiece_model(pieces))
    with pytest.raises(InputError, match=f"a token has {length:,} characters"):
        sentencepiece_alone(path)
    folder = copied("tokenizer.json, Unigram", tmp_path)
    spec = json.loads((folder / "tokenizer.json").read_text("utf-8"))
    spec["model"]["vocab"][-1][0] = "b" * length
    (folder / "tokenizer.json").write_text(json.dumps(spec))
    with pytest.raises(InputError, match=f"a token has {length:,} characters"):
        read_tokenizers(folder)


@pytest.mark.slow
def test_a_tokenizer_that_ends_a_process_ends_another_one() -> None:
    """The library overflows its stack; this process goes on, and so does the next trial."""
    vocab = [["<unk>", 0.0], ["a" * 2_000_000, -1.0]]
    spec = json.dumps({"version": "1.0", "added_tokens": [], "model":
                       {"type": "Unigram", "unk_id": 0, "vocab": vocab}})  # fmt: skip
    with pytest.raises(InputError, match=r"ends the process that builds it \(SIG"):
        trial.try_out(spec, spec)
    fine = spec.replace("a" * 2_000_000, "a")
    trial.try_out(fine, fine)


@pytest.mark.slow
def test_a_slow_pattern_is_found_by_trying(tmp_path: Path) -> None:
    folder = copied("tokenizer.json, BPE", tmp_path)
    spec = json.loads((folder / "tokenizer.json").read_text("utf-8"))
    spec["pre_tokenizer"] = {"type": "Split", "pattern": {"Regex": r"\s*\s*\s*x"},
                             "behavior": "Isolated", "invert": False}  # fmt: skip
    (folder / "tokenizer.json").write_text(json.dumps(spec))
    with pytest.raises(InputError, match="takes more than"):
        read_tokenizers(folder)


def test_a_warning_if_no_process_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "_started", lambda: None)
    with pytest.warns(UserWarning, match="not tried"):
        trial.try_out("{}", "a file that no other test has")


@pytest.mark.parametrize("value", [{"a": [1]}, {"a": {"b": 1}}, {"a": "\ud800"}, {"a": None}, [1]])
def test_odd_shards_are_refused_by_name(tmp_path: Path, value: Any) -> None:
    folder = copied("sharded safetensors", tmp_path)
    path = folder / "model.safetensors.index.json"
    path.write_text(json.dumps({"weight_map": value}))
    with pytest.raises(InputError, match=r"index\.json"):
        import_model(folder)


def test_odd_architectures_are_refused_by_name(tmp_path: Path) -> None:
    folder = copied("WordPiece, classifier", tmp_path)
    config = json.loads((folder / "config.json").read_text("utf-8"))
    (folder / "config.json").write_text(json.dumps(config | {"architectures": 2}))
    answer = run("info", str(folder), cwd=tmp_path)
    assert answer.returncode == 2
    assert "architectures = 2" in answer.stderr
    assert "Traceback" not in answer.stderr


def test_far_ids_are_refused(tmp_path: Path) -> None:
    folder = copied("tokenizer.json, BPE", tmp_path)
    spec = json.loads((folder / "tokenizer.json").read_text("utf-8"))
    spec["added_tokens"] += [{"id": 1_000_000, "content": "<far>", "special": False}]
    (folder / "tokenizer.json").write_text(json.dumps(spec))
    with pytest.raises(InputError, match="but ids up to 1,000,000"):
        read_tokenizers(folder)


@pytest.mark.parametrize(
    ("format", "file"),
    [("WordPiece, classifier", "vocab.txt"), ("JoeyNMT", "src_vocab.txt"),
     ("fairseq", "dict.en.txt"), ("safetensors", "vocab.json"),
     ("tokenizer.json, BPE", "tokenizer.json")],
)  # fmt: skip
def test_a_vocabulary_beyond_the_embedding_is_refused_before_it_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str, file: str
) -> None:
    folder = copied(format, tmp_path)
    path = folder / file
    if path.suffix == ".txt":
        path.write_text(
            path.read_text("utf-8") + "".join(f"x{i} 1\n" for i in range(2000)), "utf-8"
        )
    else:
        held = json.loads(path.read_text("utf-8"))
        vocab = held["model"]["vocab"] if "model" in held else held
        vocab.update({f"x{i}": 900 + i for i in range(2000)})
        path.write_text(json.dumps(held))
    monkeypatch.setattr(imported, "try_out", _must_not_run)
    if file != "tokenizer.json":
        monkeypatch.setattr(imported, "parsed", _must_not_run)
    with pytest.raises(InputError, match=rf"{file} has .* tokens, but the embedding table has"):
        import_model(folder / foreign_models.GOOD[format].path)


def test_a_mapping_with_many_unknown_keys_is_refused_at_once(tmp_path: Path) -> None:
    folder = copied("mapping file", tmp_path)
    text = (folder / "gru.toml").read_text("utf-8")
    (folder / "gru.toml").write_text("".join(f"k{i}=1\n" for i in range(30_000)) + text)
    with pytest.raises(InputError, match=r"gru\.toml has 30,0\d\d keys"):
        import_model(folder / "gru.toml")


@pytest.mark.parametrize("values", [(3e38,), (3e38, -3e38)], ids=["one", "two whose sum is 0"])
def test_weights_far_beyond_any_number_are_refused(
    tmp_path: Path, values: tuple[float, ...]
) -> None:
    folder = copied("safetensors", tmp_path)
    path = folder / "model.safetensors"
    last = struct.pack(f"<{len(values)}f", *values)
    path.write_bytes(path.read_bytes()[: -len(last)] + last)
    with pytest.raises(InputError, match=r"values beyond 1e\+12"):
        import_model(folder)


def test_a_language_model_without_an_end_token_is_refused_by_name(tmp_path: Path) -> None:
    folder = copied("tokenizer.json, BPE", tmp_path)
    for name in ("config.json", "generation_config.json"):
        held = json.loads((folder / name).read_text("utf-8"))
        (folder / name).write_text(json.dumps(held | {"eos_token_id": None}))
    with pytest.raises(InputError, match=f"{re.escape(str(folder))}.*no eos token"):
        import_model(folder)


def _fails(error: Exception) -> Callable[[], None]:
    def fail() -> None:
        raise error

    return fail


@pytest.mark.parametrize("error", [InputError("odd"), TypeError("odd"), RecursionError("odd")])
def test_every_refusal_names_the_model(tmp_path: Path, error: Exception) -> None:
    with pytest.raises(InputError, match=str(tmp_path)) as raised, naming(tmp_path):
        _fails(error)()
    assert "odd" in str(raised.value)
    assert str(raised.value).count(str(tmp_path)) == 1
    with pytest.raises(InputError) as again, naming(tmp_path), naming(tmp_path):
        _fails(InputError("odd"))()
    assert str(again.value) == f"{tmp_path}: odd"


def test_verifying_a_file_that_torch_refuses_is_an_error(tmp_path: Path) -> None:
    """The other library unpickles less than ours reads: an object that it does not know."""
    folder = copied("torch weights", tmp_path)
    path = folder / "pytorch_model.bin"
    tensors = torch.load(path)
    torch.save(tensors | {"_": time.struct_time(range(9))}, path)
    answer = run("import", str(folder), str(tmp_path / "out"), "--verify", cwd=tmp_path)
    assert answer.returncode == 2
    assert "Traceback" not in answer.stderr
    assert str(folder) in answer.stderr
    assert not (tmp_path / "out").exists()
