"""Vocabularies that were cut, labels that are equal, and optional files that are no files are
refused by name; the spare rows that tools really write are accepted with a note."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.interop import test_fairseq as fairseq
from tests.interop import test_joeynmt as joeynmt
from tests.interop.encoders import PIECES, bert, sentence_bert, write_byte_pairs
from tests.interop.own_models import own
from tests.interop.reference import randomised, save, transformers
from tests.interop.test_export_gguf import LLAMA
from tests.interop.tiny_foreign import written
from tests.interop.toolkit_reference import Transformer, in_halves

import translucid as tl
from translucid.core.errors import InputError
from translucid.interop.export.exporting import export
from translucid.interop.formats.gguf_file import read_gguf, write_gguf
from translucid.interop.importing import import_model
from translucid.interop.tokenizers.agreement import _allowed
from translucid.model import Model


def cut(path: Path, lines: slice) -> None:
    """Remove lines of a file."""
    kept = path.read_text("utf-8").splitlines(keepends=True)
    del kept[lines]
    path.write_text("".join(kept), "utf-8")


def cut_list(path: Path) -> None:
    path.write_text(json.dumps(json.loads(path.read_text("utf-8"))[:-2]), "utf-8")


def cut_mapping(path: Path) -> None:
    """Two tokens before the last, which is Marian's padding; the rest is numbered again."""
    tokens = list(json.loads(path.read_text("utf-8")))
    del tokens[-4:-2]
    path.write_text(json.dumps({token: i for i, token in enumerate(tokens)}), "utf-8")


def write_fairseq(folder: Path) -> Path:
    names = [fairseq.names_of(side, pre=False, learned=False) for side in ("encoder", "decoder")]
    theirs = randomised(Transformer(names[0], names[1], 13, 11, pre=False, eps=1e-5, scaled=True,
                                    rows=in_halves(20, 16)))  # fmt: skip
    return fairseq.write(theirs, folder, **fairseq.ARGS)


def write_joeynmt(folder: Path) -> Path:
    pytest.importorskip("yaml", reason="PyYAML is not installed")
    joeynmt.write(joeynmt.made(pre=True), folder)
    return folder


def write_bert(folder: Path) -> Path:
    bert(folder)
    return folder


def write_marian(folder: Path) -> Path:
    written("marian", folder)
    config = json.loads((folder / "config.json").read_text("utf-8"))
    changed = {key: config[key] - 2 for key in ("pad_token_id", "decoder_start_token_id")}
    (folder / "other.json").write_text(json.dumps(config | changed))
    return folder


def write_ctranslate2(folder: Path) -> Path:
    export(own("translate", two=True, positions="sinusoidal"), "ctranslate2", folder)
    return folder


def without_splitter(folder: Path) -> Path:
    write_ctranslate2(folder)
    (folder / "tokenizer.json").unlink()
    return folder


CUTS: dict[str, tuple[Callable[[Path], Path], str, Callable[[Path], None]]] = {
    "fairseq, end": (write_fairseq, "dict.de.txt", lambda path: cut(path, slice(-2, None))),
    "fairseq, middle": (write_fairseq, "dict.en.txt", lambda path: cut(path, slice(3, 4))),
    "joeynmt, source": (write_joeynmt, "src_vocab.txt", lambda path: cut(path, slice(6, 7))),
    "joeynmt, target": (write_joeynmt, "trg_vocab.txt", lambda path: cut(path, slice(-3, None))),
    "bert, end": (write_bert, "vocab.txt", lambda path: cut(path, slice(-1, None))),
    "bert, middle": (write_bert, "vocab.txt", lambda path: cut(path, slice(9, 11))),
    "ctranslate2": (without_splitter, "target_vocabulary.json", cut_list),
    "ctranslate2, splitter": (write_ctranslate2, "target_vocabulary.json", cut_list),
}  # fmt: skip


@pytest.mark.parametrize("kind", CUTS)
def test_a_cut_vocabulary_is_refused_with_both_sizes(tmp_path: Path, kind: str) -> None:
    write, name, shorten = CUTS[kind]
    path = write(tmp_path)
    import_model(path)
    shorten(tmp_path / name)
    with pytest.raises(InputError, match=r"\d+ tokens, but the embedding table has \d+ rows") as e:
        import_model(path)
    assert name in str(e.value) or "(target)" in str(e.value)


def test_a_cut_vocabulary_of_marian_is_refused(tmp_path: Path) -> None:
    write_marian(tmp_path)
    import_model(tmp_path)
    cut_mapping(tmp_path / "vocab.json")
    (tmp_path / "other.json").replace(tmp_path / "config.json")
    (tmp_path / "generation_config.json").unlink()
    with pytest.raises(InputError, match=r"vocab\.json has .* rows, more than padding"):
        import_model(tmp_path)


def test_gguf_has_a_token_for_each_row(tmp_path: Path) -> None:
    export(own("language", "bytes", **LLAMA), "gguf", tmp_path / "out")
    path = tmp_path / "out" / "model.gguf"
    file = read_gguf(path)
    facts: dict[str, Any] = dict(file.metadata)
    for key in ("tokens", "token_type"):
        facts[f"tokenizer.ggml.{key}"] = facts[f"tokenizer.ggml.{key}"][:-3]
    tensors = {name: stored.read().clone() for name, stored in file.tensors.items()}
    write_gguf(tmp_path / "cut.gguf", facts, tensors)
    with pytest.raises(InputError, match=r"tokenizer\.ggml\.tokens has \d+ tokens, but .* rows"):
        import_model(tmp_path / "cut.gguf")


@pytest.mark.parametrize(
    ("spare", "tokens", "rows", "allowed"),
    [("padding", 30522, 30522, True), ("padding", 30522, 30528, True),  # BERT, NomicBERT
     ("padding", 30521, 30522, False), ("padding", 30000, 30528, False),
     ("padding", 20, 32, False), ("padding", 119540, 119547, False),
     ("some", 32100, 32128, True), ("some", 151646, 151936, True),  # T5, Qwen2
     ("some", 100015, 102400, True), ("some", 50277, 50688, True),  # DeepSeek, Pythia
     ("some", 16000, 32000, False), ("none", 31999, 32000, False), ("none", 8, 8, True)],
)  # fmt: skip
def test_spare_rows_of_real_models(spare: Any, tokens: int, rows: int, allowed: bool) -> None:
    assert _allowed(spare, rows - tokens, rows) == allowed


def test_spare_rows_are_counted_in_a_note(tmp_path: Path) -> None:
    held = own("language", "bpe", spare=3, norm="layer", positions="learned", max_length=16)
    export(held, "huggingface", tmp_path / "out")
    notes = import_model(tmp_path / "out").facts["notes"]
    assert any("3 of" in note and "no token in tokenizer.json" in note for note in notes)


def write_bart(folder: Path, rows: int, **roles: str) -> Path:
    """A BART model whose tokenizer has <mask> as its last token."""
    library = transformers()
    sizes = {f"{side}_{name}": 2 for side in ("encoder", "decoder")
             for name in ("layers", "attention_heads")}  # fmt: skip
    config = library.BartConfig(
        vocab_size=rows, d_model=8, encoder_ffn_dim=8, decoder_ffn_dim=8,
        max_position_embeddings=16, **sizes,
    )  # fmt: skip
    save(randomised(library.BartForConditionalGeneration(config)), folder)
    write_byte_pairs(folder)
    path = folder / "tokenizer_config.json"
    changed = {"tokenizer_class": "BartTokenizer"} | roles
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | changed))
    return folder


def test_a_special_token_that_no_text_produces_needs_no_row(tmp_path: Path) -> None:
    """facebook/bart-large-cnn: 50,264 rows, and <mask> is token 50,264."""
    rows = len(PIECES) - 1
    held = import_model(write_bart(tmp_path / "theirs", rows))
    assert any("<mask>" in note and "without a row" in note for note in held.facts["notes"])
    tokenizer = held.tokenizers["tokenizer"]
    assert len(tokenizer) == rows
    reference = transformers().AutoTokenizer.from_pretrained(tmp_path / "theirs")
    for text in ("ab a b.", " abc", "ba </s>"):
        ids = reference(text, add_special_tokens=False, split_special_tokens=True)["input_ids"]
        assert tokenizer.encode(text) == ids
    assert max(tokenizer.encode("a <mask> b<mask>")) < rows
    with pytest.raises(InputError, match="hides a token"):
        _ = tokenizer.mask_id
    Model(held).save(tmp_path / "ours")
    export(held, "huggingface", tmp_path / "out")
    answers = Model(held).translate(["ab a", "<mask>"], max_length=6)
    for name in ("ours", "out"):
        assert tl.load(tmp_path / name).translate(["ab a", "<mask>"], max_length=6) == answers


@pytest.mark.parametrize(("rows", "roles"), [(2, {}), (1, {"pad_token": "<mask>"})])
def test_a_token_with_a_role_or_of_text_needs_a_row(
    tmp_path: Path, rows: int, roles: dict[str, str]
) -> None:
    write_bart(tmp_path / "a", len(PIECES) - rows, **roles)
    sizes = f"{len(PIECES)} tokens, .* {len(PIECES) - rows} rows"
    with pytest.raises(InputError, match=sizes):
        import_model(tmp_path / "a")


def test_added_tokens_belong_to_a_word_piece_vocabulary(tmp_path: Path) -> None:
    """Their ids follow those of vocab.txt."""
    bert(tmp_path)
    cut(tmp_path / "vocab.txt", slice(-1, None))
    last = len((tmp_path / "vocab.txt").read_text("utf-8").splitlines())
    (tmp_path / "added_tokens.json").write_text(json.dumps({"dogcat": last}))
    tokenizer = import_model(tmp_path).tokenizers["tokenizer"]
    assert tokenizer.vocab["dogcat"] == last


@pytest.mark.parametrize("kind", ["pipe", "link", "folder"])
@pytest.mark.parametrize(
    "name", ["modules.json", "tokenizer_config.json", "sentence_bert_config.json"]
)
def test_an_optional_file_must_be_a_regular_file(tmp_path: Path, name: str, kind: str) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    sentence_bert(folder, longest=9)
    config = import_model(folder).network.config
    assert config.normalise  # type: ignore[union-attr]
    (folder / name).rename(tmp_path / "elsewhere")
    if kind == "pipe":
        os.mkfifo(folder / name)
    elif kind == "link":
        (folder / name).symlink_to(tmp_path / "elsewhere")
    else:
        (folder / name).mkdir()
    with pytest.raises(InputError, match=f"{name} is a .*{kind}"):
        import_model(folder)


def test_equal_or_missing_labels_are_refused(tmp_path: Path) -> None:
    bert(tmp_path, "ForSequenceClassification", num_labels=3)
    config = json.loads((tmp_path / "config.json").read_text("utf-8"))
    for labels, message in (
        (["good", "bad", "good"], r"2 outputs .*'good' \(0, 2\)"),
        (["good", "bad"], r"2 labels \(id2label.*, but classifier\.weight has 3 rows"),
    ):
        named = {str(i): label for i, label in enumerate(labels)}
        (tmp_path / "config.json").write_text(json.dumps(config | {"id2label": named}))
        with pytest.raises(InputError, match=message):
            import_model(tmp_path)
