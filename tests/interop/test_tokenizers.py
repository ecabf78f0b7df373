"""Tokenizers that came with a model: the files' own ids, roles and templates, and no forging."""

import json
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.interop.tokenizer_files import (
    BYTES,
    CONTROLS,
    HARD,
    LETTERS,
    WORDS,
    gguf_llama,
    random_texts,
    sentencepiece_alone,
    sentencepiece_model,
)

from translucid.core.errors import InputError, TokenizerMismatchError
from translucid.data.corpus.encode import WordCache
from translucid.data.tokenizers.imported import Imported
from translucid.data.tokenizers.pipelines import BYTE_CHARACTERS
from translucid.data.tokenizers.special_tokens import Frame, SpecialTokens
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.interop.families import llama2c, llama_cpp
from translucid.interop.tokenizers import plain_vocabulary, read_tokenizers
from translucid.tasks.words import of_text, readable

TEXTS = [*HARD, *random_texts(60)]


def only(read: Any) -> Tokenizer:
    (tokenizer,) = read.tokenizers.values()
    assert isinstance(tokenizer, Tokenizer)
    return tokenizer


def bert(folder: Path) -> Tokenizer:
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "##s", "s", "##at", ".",
              "[", "]", "cls", "c"]  # fmt: skip
    (folder / "vocab.txt").write_text("\n".join(tokens) + "\n", "utf-8")
    (folder / "config.json").write_text(json.dumps({"model_type": "bert", "pad_token_id": 0}))
    return only(read_tokenizers(folder))


def gpt2(folder: Path) -> Tokenizer:
    pieces = [*BYTE_CHARACTERS, "th", "Ġth", "Ġthe", "in", "<|endoftext|>"]
    merges = ["t h", "Ġ th", "Ġth e", "i n"]
    (folder / "vocab.json").write_text(json.dumps({p: i for i, p in enumerate(pieces)}))
    (folder / "merges.txt").write_text("#version: 0.2\n" + "\n".join(merges) + "\n", "utf-8")
    config = {"model_type": "gpt2", "bos_token_id": 260, "eos_token_id": 260}
    (folder / "config.json").write_text(json.dumps(config))
    return only(read_tokenizers(folder))


def llama(folder: Path) -> Tokenizer:
    raw = sentencepiece_model(
        [*CONTROLS, *BYTES, *WORDS, *LETTERS], kind=2, byte_fallback=1, remove_extra_whitespaces=0
    )
    (folder / "tokenizer.model").write_bytes(raw)
    (folder / "config.json").write_text(json.dumps({"model_type": "llama"}))
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [2, 260]}))
    return only(read_tokenizers(folder))


def t5(folder: Path) -> Tokenizer:
    pieces = [("<pad>", 0.0, 3), ("</s>", 0.0, 3), ("<unk>", 0.0, 2), *WORDS, *LETTERS]
    raw = sentencepiece_model(pieces, bos_id=-1, eos_id=1, unk_id=2, pad_id=0)
    (folder / "spiece.model").write_bytes(raw)
    config = {"is_encoder_decoder": True, "decoder_start_token_id": 0, "pad_token_id": 0,
              "eos_token_id": 1}  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer_config.json").write_text(json.dumps({"extra_ids": 5}))
    return only(read_tokenizers(folder))


def marian(folder: Path) -> dict[str, Tokenizer]:
    for side, extra in (("source", ("in", -7.0, 1)), ("target", ("is", -7.0, 1))):
        raw = sentencepiece_model([*CONTROLS, *LETTERS, *WORDS[:4], extra])
        (folder / f"{side}.spm").write_bytes(raw)
    tokens = ["</s>", "<unk>", *(t for t, _, _ in (*WORDS[:3], *LETTERS)), "in", "is", ">>deu<<",
              "<pad>"]  # fmt: skip
    (folder / "vocab.json").write_text(json.dumps({t: i for i, t in enumerate(tokens)}))
    last = len(tokens) - 1
    config = {"is_encoder_decoder": True, "decoder_start_token_id": last, "pad_token_id": last}
    (folder / "config.json").write_text(json.dumps(config))
    return read_tokenizers(folder).tokenizers


def words(folder: Path) -> Tokenizer:
    return only(
        plain_vocabulary.tokenizers(["<blank>", "<s>", "</s>", "<unk>", "the", "cat", "▁x"])
    )


MAKERS: dict[str, Any] = {
    "bert": bert, "gpt2": gpt2, "llama": llama, "t5": t5, "words": words,
    "source": lambda folder: marian(folder)["source"],
    "target": lambda folder: marian(folder)["target"],
    "gguf": lambda folder: only(llama_cpp.tokenizer(gguf_llama())),
}  # fmt: skip
every = pytest.mark.parametrize("name", MAKERS)


@pytest.fixture
def tokenizer(name: str, tmp_path: Path) -> Tokenizer:
    made = MAKERS[name](tmp_path)
    assert isinstance(made, Tokenizer)
    return made


@every
def test_saving_and_loading_keeps_a_tokenizer(
    tokenizer: Tokenizer, tmp_path: Path, name: str
) -> None:
    tokenizer.save(tmp_path / "saved")
    loaded = Tokenizer.load(tmp_path / "saved", expect=tokenizer.fingerprint)
    assert loaded.kind == "imported"
    assert loaded.special == tokenizer.special
    assert loaded.vocab == tokenizer.vocab
    assert loaded.encode_batch(TEXTS) == tokenizer.encode_batch(TEXTS)
    assert [loaded.offsets(text) for text in TEXTS] == [tokenizer.offsets(t) for t in TEXTS]
    ids = list(range(len(tokenizer)))
    assert loaded.pieces(ids) == tokenizer.pieces(ids)
    other = tokenizer.with_special(replace(tokenizer.special, ends=(4,)))
    assert other.fingerprint != tokenizer.fingerprint
    with pytest.raises(TokenizerMismatchError, match="is not the one the model was trained with"):
        Tokenizer.load(tmp_path / "saved", expect=other.fingerprint)


@every
def test_special_tokens_cannot_be_written_in_a_text(tokenizer: Tokenizer, name: str) -> None:
    special = {i for i in tokenizer.special_ids if i != tokenizer.unk_id}
    assert special
    names = [piece for piece, i in tokenizer.vocab.items() if i in special]
    for text in [*names, " ".join(names), "".join(names), *(f"a{n}b" for n in names), *TEXTS]:
        assert not special.intersection(tokenizer.encode(text))
    assert tokenizer.decode(sorted(special)) == ""


@every
def test_batches_encode_as_single_texts(tokenizer: Tokenizer, name: str) -> None:
    together = tokenizer.encode_batch(TEXTS)
    assert together == [tokenizer.encode(text) for text in TEXTS]
    assert together == WordCache(tokenizer).encode_batch(TEXTS)
    for text, ids in zip(TEXTS, together, strict=True):
        assert len(tokenizer.offsets(text)) == len(ids) == len(of_text(tokenizer, text))
        assert all(0 <= a <= b <= len(text) for a, b in tokenizer.offsets(text))


@pytest.mark.parametrize("name", ["gpt2", "llama", "gguf"])
def test_bytes_give_every_text_back(tokenizer: Tokenizer, name: str) -> None:
    for text in TEXTS:
        assert tokenizer.decode(tokenizer.encode(text)) == text.replace("▁", " ") or (
            tokenizer.decode(tokenizer.encode(text)) == text
        )
    assert tokenizer.unknown_rate(TEXTS) == 0.0
    assert tokenizer.unk_id == -1


@every
def test_half_a_surrogate_pair_is_named(tokenizer: Tokenizer, name: str) -> None:
    with pytest.raises(InputError, match="half of a surrogate pair at character 2"):
        tokenizer.encode("a\ud800")


@every
def test_words_are_those_of_the_whole_text(tokenizer: Tokenizer, name: str) -> None:
    sentence = ["the", "cat", "sat", "in", "thethe"]
    ids, index = tokenizer.encode_words(sentence)
    assert ids == tokenizer.encode(" ".join(sentence))
    places = tokenizer.offsets(" ".join(sentence))
    starts = [0, 4, 8, 12, 15, 22]
    for (first, last), word in zip(places, index, strict=True):
        if word is not None:
            assert starts[word] - 1 <= first <= last <= starts[word + 1] - 1


def test_bert_adds_cls_and_sep(tmp_path: Path) -> None:
    made = bert(tmp_path)
    frame = made.frame()
    assert made.tokens("The cats. [CLS]") == [" the", " cat", "s", ".", " [", " cls", " ]"]
    assert readable(made, made.encode("cats")) == ("cat", "·s")
    assert frame(made.encode("the cat")) == [2, 5, 6, 3]
    assert frame(made.encode("the"), made.encode("cat")) == [2, 5, 3, 6, 3]
    assert frame.segments([5], [6]) == [0, 0, 0, 1, 1]
    assert frame.shorten(frame([5, 6, 7]), 4) == [2, 5, 6, 3]
    assert (made.pad_id, made.unk_id, made.mask_id) == (0, 1, 4)
    assert made.decode(frame(made.encode("the cats."))) == "the cats."
    with pytest.raises(InputError, match="no eos token"):
        _ = made.eos_id


def test_gpt2_adds_no_tokens_and_a_note(tmp_path: Path) -> None:
    made = gpt2(tmp_path)
    assert made.start_ids == []
    assert made.frame()(made.encode("the thin")) == made.encode("the thin")
    assert readable(made, made.encode("the thin")) == ("th", "·e", "th", "·in")
    assert readable(made, [260, *made.encode("he")]) == ("<|endoftext|>", "h", "·e")
    (note,) = read_tokenizers(tmp_path).notes
    assert "no token" in note
    (tmp_path / "tokenizer_config.json").write_text('{"add_bos_token": true}')
    read = read_tokenizers(tmp_path)
    assert only(read).frame()([1]) == [260, 1]
    assert read.notes[0].startswith("texts begin with <|endoftext|> (260)")


def test_llama_adds_one_bos(tmp_path: Path) -> None:
    made = llama(tmp_path)
    assert made.frame()(made.encode("<s> the")) == [1, *made.encode("<s> the")]
    assert (made.eos_id, made.special.ends, made.start_ids) == (2, (260,), [1])
    assert made.pieces(made.encode("the é")) == [" the", " ", "\\xc3", "\\xa9"]


def test_t5_ends_and_starts_with_padding(tmp_path: Path) -> None:
    made = t5(tmp_path)
    assert made.frame()(made.encode("the")) == [*made.encode("the"), 1]
    assert (made.start_ids, made.pad_id, made.special.never) == ([0], 0, (0,))
    assert len(made) == 3 + len(WORDS) + len(LETTERS) + 5
    assert list(made.vocab)[-1] == "<extra_id_0>"
    rows = len(made) + 3
    assert made.never_generated(rows) == (0, rows - 3, rows - 2, rows - 1)
    with pytest.raises(InputError, match=r"3 embedding rows.*36 tokens"):
        made.never_generated(3)


def test_marian_has_two_models_over_one_vocabulary(tmp_path: Path) -> None:
    sides = marian(tmp_path)
    source, target = sides["source"], sides["target"]
    assert source.vocab == target.vocab
    named = source.vocab
    assert source.encode("in") == [named["▁"], named["in"]]
    assert target.encode("in") == [
        named["▁"],
        named["i"],
        named["n"],
    ]  # its model has no such piece
    assert source.encode("cat") == [1]  # a piece of source.spm that the vocabulary lacks
    assert source.encode(">>deu<< the") == [named[">>deu<<"], *source.encode(" the")]
    assert target.decode([named["▁the"], named["is"]]) == "theis"
    assert source.frame()([5]) == [5, 0]
    assert target.start_ids == [len(named) - 1] == list(target.special.never)
    assert any("1 pieces of source.spm" in note for note in read_tokenizers(tmp_path).notes)


def test_plain_vocabularies(tmp_path: Path) -> None:
    made = words(tmp_path)
    assert made.encode("the  dog cat </s>") == [4, 3, 5, 3]
    assert made.decode([4, 3, 5, 2]) == "the <unk> cat"
    (tmp_path / "dict.txt").write_text("the 12\ncat 3 #fairseq:overwrite\n")
    tokens = plain_vocabulary.read_fairseq(tmp_path / "dict.txt")
    assert tokens == ["<s>", "<pad>", "</s>", "<unk>", "the", "cat"]
    both = plain_vocabulary.tokenizers(tokens, ["<unk>", "</s>", "a", "b"], split="characters")
    assert both.tokenizers["target"].encode("ab c") == [2, 3, 0, 0]
    assert both.tokenizers["target"].start_ids == [1]
    assert both.tokenizers["source"].frame()([4]) == [4, 2]
    with pytest.raises(InputError, match="'a' twice"):
        plain_vocabulary.tokenizers(["<unk>", "a", "b", "a"])


def test_llama2c_is_the_same_as_its_sentencepiece_model(tmp_path: Path) -> None:
    pieces = [*CONTROLS, *BYTES, *WORDS, *LETTERS]
    raw = struct.pack("<i", 7)
    for text, score, kind in pieces:
        spelt = (f"\n{text}\n" if kind == 3 else text.replace("▁", " ")).encode()
        raw += struct.pack("<fi", score, len(spelt)) + spelt
    (tmp_path / "tokenizer.bin").write_bytes(raw)
    made = only(llama2c.tokenizer(tmp_path / "tokenizer.bin", len(pieces)))
    other = llama(tmp_path)
    assert made.vocab == other.vocab
    assert made.encode_batch(TEXTS) == other.encode_batch(TEXTS)
    assert (made.eos_id, made.special.ends) == (1, (2,))
    with pytest.raises(InputError, match=r"287 tokens, but the model has 512"):
        llama2c.tokenizer(tmp_path / "tokenizer.bin", 512)


def test_gguf_is_the_same_as_its_sentencepiece_model(tmp_path: Path) -> None:
    made, other = only(llama_cpp.tokenizer(gguf_llama())), llama(tmp_path)
    assert made.encode_batch(TEXTS) == other.encode_batch(TEXTS)
    assert made.frame() == Frame((1,))


def test_a_pre_tokenizer_that_is_not_known_is_named() -> None:
    metadata = {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.tokens": ["a"],
                "tokenizer.ggml.merges": [], "tokenizer.ggml.pre": "tekken"}  # fmt: skip
    with pytest.raises(InputError, match="pre = 'tekken'"):
        llama_cpp.tokenizer(metadata)


def test_texts_contain_user_defined_but_no_control_pieces(tmp_path: Path) -> None:
    for kind in (1, 2):
        pieces = [*CONTROLS, ("<user>", 0.0, 4), ("<off>", 0.0, 5), *WORDS, *LETTERS]
        path = tmp_path / "x.model"
        path.write_bytes(sentencepiece_model(pieces, kind=kind))
        made = only(sentencepiece_alone(path))
        named = made.vocab
        assert made.encode("a<user> the") == [named["▁"], named["a"], 3, named["▁the"]]
        assert not {1, 2, 4}.intersection(made.encode("<s> </s> <off>"))


def test_a_template_is_read_from_a_tokenizer_json(tmp_path: Path) -> None:
    made = llama(tmp_path)
    made.save(tmp_path / "json")
    (tmp_path / "json" / "tokenizer_meta.json").unlink()
    path = tmp_path / "json" / "tokenizer.json"
    spec = json.loads(path.read_text("utf-8"))
    text = {"Sequence": {"id": "A", "type_id": 0}}
    bos, eos = ({"SpecialToken": {"id": name, "type_id": 0}} for name in ("<s>", "</s>"))
    spec["post_processor"] = {
        "type": "TemplateProcessing", "single": [bos, text, eos],
        "pair": [bos, text, eos, bos, {"Sequence": {"id": "B", "type_id": 1}}, eos],
        "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}},
    }  # fmt: skip
    spec |= {"truncation": {"max_length": 2, "strategy": "LongestFirst", "stride": 0,
                            "direction": "Right"},
             "padding": {"strategy": {"Fixed": 9}, "direction": "Right", "pad_to_multiple_of": None,
                         "pad_id": 0, "pad_type_id": 0, "pad_token": "<unk>"}}  # fmt: skip
    path.write_text(json.dumps(spec))
    again = only(read_tokenizers(tmp_path / "json"))
    assert again.frame() == Frame((1,), (2,), (2, 1))
    assert again.encode_batch(TEXTS) == made.encode_batch(TEXTS)  # neither cut nor filled up


def test_added_tokens_keep_their_ids(tmp_path: Path) -> None:
    made = gpt2(tmp_path)
    added = {"<|mark|>": 263, "<tool>": 261}  # 262 is missing
    listed = {str(i): {"content": text, "special": text == "<|mark|>"} for text, i in added.items()}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"added_tokens_decoder": listed}))
    more = only(read_tokenizers(tmp_path))
    assert len(more) == 264
    assert more.encode("in<tool>in<|mark|>") == [
        *made.encode("in"), 261, *made.encode("in"), *made.encode("<|mark|>")
    ]  # fmt: skip
    assert more.pieces([261, 262, 263]) == ["<tool>", "<unused262>", "<|mark|>"]


def _pipeline_alone(read_in: Any) -> Any:
    """As it is, but for a whole vocabulary."""

    def read(held: Imported, model: dict[str, Any], added: list[dict[str, Any]]) -> Any:
        assert not model["vocab"], "the vocabulary went through a text"
        return read_in(held, model, added)

    return read


@pytest.mark.parametrize("options", [
    {}, {"byte_fallback": True, "fuse_unk": True, "unk_token": "a"}, {"ignore_merges": True},
    {"continuing_subword_prefix": "", "end_of_word_suffix": "b"},
])  # fmt: skip
def test_tables_handed_to_the_library_are_those_that_it_reads_in(
    options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    data = json.loads(gpt2(tmp_path).spec)
    data["model"] |= options
    data["added_tokens"] += [
        {"id": 263, "content": "<|mark|>", "special": True}, {"id": 261, "content": "<tool>"},
        {"id": 264, "content": "In", "special": False, "lstrip": True, "normalized": True},
        flags | {"id": 259, "content": "in", "special": False, "single_word": True},
    ]  # fmt: skip
    held = Imported(json.dumps(data), SpecialTokens(eos=263))
    with monkeypatch.context() as only_by_hand:
        only_by_hand.setattr(Imported, "_read_in", _pipeline_alone(Imported._read_in))
        one = held.backend()
    monkeypatch.setattr(Imported, "_handed_over", lambda *given: None)
    other = held.backend()
    assert json.loads(one.to_str()) == json.loads(other.to_str())
    for text in [*TEXTS, "in<tool> In<|mark|>In"]:
        assert one.encode(text).ids == other.encode(text).ids


def test_roles_outside_the_vocabulary_are_refused(tmp_path: Path) -> None:
    spec = json.dumps({"model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}})
    with pytest.raises(InputError, match=r"token 7 is set as a special token, but .* ids up to 0"):
        Tokenizer.imported(Imported(spec, SpecialTokens(eos=7)))
    with pytest.raises(InputError, match=r"looked for tokenizer\.json"):
        read_tokenizers(tmp_path)


def test_a_missing_language_is_not_a_token_called_none(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    plain = bert(tmp_path / "plain")
    (tmp_path / "vocab.txt").write_text(
        (tmp_path / "plain" / "vocab.txt").read_text("utf-8") + "None\n", "utf-8"
    )
    (tmp_path / "config.json").write_text('{"model_type": "bert", "pad_token_id": 0}', "utf-8")
    assert only(read_tokenizers(tmp_path)).encode("the cat") == plain.encode("the cat")
