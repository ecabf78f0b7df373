"""The same ids as the tools that the files come from: where those, or their files, are at hand."""

import io
import json
import random
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from tests.interop.tokenizer_files import (
    HARD,
    field,
    random_texts,
    read_gguf,
    sentencepiece_alone,
    shared,
)

from translucid.data.tokenizers.pipelines import BYTE_CHARACTERS
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.interop.families import llama2c, llama_cpp
from translucid.interop.tokenizers import read_tokenizers

TEXTS = [*HARD, *random_texts()]
pytestmark = pytest.mark.filterwarnings("ignore")  # other people's libraries have many


def only(read: Any) -> Tokenizer:
    (tokenizer,) = read.tokenizers.values()
    assert isinstance(tokenizer, Tokenizer)
    return tokenizer


def differing(reference: Any, tokenizer: Tokenizer, texts: list[str] = TEXTS) -> list[str]:
    ids = tokenizer.encode_batch(texts)
    return [text for text, own in zip(texts, ids, strict=True) if list(reference(text)) != own]


@pytest.mark.parametrize("name", ["gpt-2", "bert-bge", "llama-spm", "phi-3"])
def test_the_ids_that_llama_cpp_expects(name: str) -> None:
    path = shared("tokenizers", f"ggml-vocab-{name}.gguf")
    made = only(llama_cpp.tokenizer(read_gguf(path)))
    texts = Path(f"{path}.inp").read_text("utf-8").split("\n__ggml_vocab_test__\n")
    lines = Path(f"{path}.out").read_text("utf-8").split("\n")
    expected = {
        text: [int(i) for i in line.split()] for text, line in zip(texts, lines, strict=True)
    }
    assert len(expected) > 40
    assert differing(expected.__getitem__, made, texts) == []
    if name != "bert-bge":  # which keeps neither capitals nor accents
        assert [made.decode(ids) for ids in made.encode_batch(texts)] == texts


@pytest.mark.parametrize("parts", [("tokenizers", "test_model.model"),
                                   ("stories260K", "tok512.model")])  # fmt: skip
def test_sentencepiece(parts: tuple[str, str]) -> None:
    library = pytest.importorskip("sentencepiece")
    path = shared(*parts)
    reference = library.SentencePieceProcessor(model_file=str(path))
    made = only(sentencepiece_alone(path))
    assert differing(reference.encode, made) == []
    known = [text for text in TEXTS if made.unk_id not in made.encode(text)]
    assert len(known) > 30
    for text in known:
        assert made.decode(made.encode(text)) == reference.decode(reference.encode(text))


def test_llama2c_beside_its_sentencepiece_model() -> None:
    made = only(llama2c.tokenizer(shared("stories260K", "tok512.bin"), 512))
    other = only(sentencepiece_alone(shared("stories260K", "tok512.model")))
    plain = [text for text in TEXTS if " ".join(text.split(" ")) == text.strip(" ▁")]
    plain = [text for text in plain if "  " not in text]  # which the second makes one
    assert len(plain) > 200
    assert made.encode_batch(plain) == other.encode_batch(plain)


@pytest.mark.parametrize(("pre", "encoding"), [("gpt-2", "gpt2"), ("llama3", "cl100k_base"),
                                               ("gpt-4o", "o200k_base")])  # fmt: skip
def test_patterns_split_as_in_tiktoken(
    pre: str, encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the vocabulary of GPT-2 for all: only the patterns differ."""
    library = pytest.importorskip("tiktoken")
    public = pytest.importorskip("tiktoken_ext.openai_public")
    metadata = read_gguf(shared("tokenizers", "ggml-vocab-gpt-2.gguf"))
    made = only(llama_cpp.tokenizer(metadata | {"tokenizer.ggml.pre": pre}))
    values = {character: byte for byte, character in enumerate(BYTE_CHARACTERS)}
    ranks = {
        bytes(values[character] for character in token): i
        for token, i in made.vocab.items()
        if token != "<|endoftext|>"
    }
    for loader in ("load_tiktoken_bpe", "data_gym_to_mergeable_bpe_ranks"):
        monkeypatch.setattr(public, loader, lambda *_, **__: {})
    pattern = public.ENCODING_CONSTRUCTORS[encoding]()["pat_str"]
    reference = library.Encoding("x", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    assert differing(reference.encode_ordinary, made) == []
    assert [made.decode(ids) for ids in made.encode_batch(TEXTS)] == TEXTS


# --- transformers


def saved(folder: Path, reference: Any, config: dict[str, Any]) -> Path:
    """The same tokenizer as its tokenizer.json."""
    reference.save_pretrained(folder / "json")
    (folder / "json" / "config.json").write_text(json.dumps(config))
    return folder / "json"


def compare(reference: Any, folder: Path, forged: tuple[str, ...] = ()) -> None:
    """transformers finds special tokens in a text; ours does not, so such texts are left out."""
    made = only(read_tokenizers(folder))
    texts = [text for text in TEXTS if not any(name in text for name in forged)]
    assert len(texts) > 500
    assert len(made) == len(reference)
    assert differing(lambda t: reference(t, add_special_tokens=False).input_ids, made, texts) == []
    for text in texts[:50]:
        ids = made.encode(text)
        assert reference(text).input_ids == made.frame()(ids)
        assert reference(text, "a b").input_ids == made.frame()(ids, made.encode("a b"))


def test_gpt2_in_transformers(tmp_path: Path) -> None:
    library = pytest.importorskip("transformers")
    metadata = read_gguf(shared("tokenizers", "ggml-vocab-gpt-2.gguf"))
    vocab = {token: i for i, token in enumerate(metadata["tokenizer.ggml.tokens"])}
    lines = ["#version: 0.2", *metadata["tokenizer.ggml.merges"]]
    (tmp_path / "vocab.json").write_text(json.dumps(vocab))
    (tmp_path / "merges.txt").write_text("\n".join(lines) + "\n", "utf-8")
    end = vocab["<|endoftext|>"]
    config = {"model_type": "gpt2", "bos_token_id": end, "eos_token_id": end}
    (tmp_path / "config.json").write_text(json.dumps(config))
    reference = library.GPT2TokenizerFast.from_pretrained(tmp_path)
    compare(reference, tmp_path)
    compare(reference, saved(tmp_path, reference, config))


def test_bert_in_transformers(tmp_path: Path) -> None:
    library = pytest.importorskip("transformers")
    made = only(llama_cpp.tokenizer(read_gguf(shared("tokenizers", "ggml-vocab-bert-bge.gguf"))))
    (tmp_path / "vocab.txt").write_text("\n".join(made.vocab) + "\n", "utf-8")
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    reference = library.BertTokenizerFast.from_pretrained(tmp_path)
    compare(reference, tmp_path)
    folder = saved(tmp_path, reference, {"model_type": "bert"})
    compare(reference, folder)
    assert only(read_tokenizers(folder)).frame().segments([7], [8]) == (
        reference("the", "cat").token_type_ids
    )


def test_llama_in_transformers(tmp_path: Path) -> None:
    """Its tokenizer.json; from the .model alone it makes other texts of runs of spaces than
    sentencepiece itself."""
    library = pytest.importorskip("transformers")
    raw = shared("stories260K", "tok512.model").read_bytes()
    (tmp_path / "tokenizer.model").write_bytes(raw)
    names = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "add_bos_token": True}
    (tmp_path / "tokenizer_config.json").write_text(
        json.dumps(names | {"tokenizer_class": "LlamaTokenizer"})
    )
    config = {"model_type": "llama", "bos_token_id": 1, "eos_token_id": 2}
    (tmp_path / "config.json").write_text(json.dumps(config))
    reference = library.AutoTokenizer.from_pretrained(tmp_path)
    compare(reference, saved(tmp_path, reference, config), ("<s>", "</s>", "<unk>"))


def test_marian_in_transformers(tmp_path: Path) -> None:
    library = pytest.importorskip("transformers")
    path = shared("tokenizers", "test_model.model")
    for side in ("source", "target"):
        (tmp_path / f"{side}.spm").write_bytes(path.read_bytes())
    pieces = list(only(sentencepiece_alone(path)).vocab)[3:]
    random.Random(1).shuffle(pieces)
    tokens = ["</s>", "<unk>", *pieces[:-20], "<pad>"]  # 20 pieces are unknown to it
    (tmp_path / "vocab.json").write_text(json.dumps({t: i for i, t in enumerate(tokens)}))
    last = len(tokens) - 1
    config = {"model_type": "marian", "is_encoder_decoder": True, "pad_token_id": last,
              "decoder_start_token_id": last, "eos_token_id": 0}  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "tokenizer_config.json").write_text('{"source_lang": "a", "target_lang": "b"}')
    reference = library.MarianTokenizer.from_pretrained(tmp_path)
    made = read_tokenizers(tmp_path).tokenizers["source"]
    texts = [t for t in TEXTS if not any(n in t for n in ("</s>", "<unk>", "<pad>"))]
    assert differing(lambda t: reference(t).input_ids[:-1], made, texts) == []


def trained_unigram(rule: str) -> bytes:
    """A tiny model of sentencepiece with its own table of normalised characters."""
    library = pytest.importorskip("sentencepiece")
    words = [
        "the",
        "dog",
        "Cat",
        "Straße",
        "ﬁnal",
        "café",
        "東京",
        "タワー",
        "ｆｕｌｌ",
        "Ⅷ",
        "½",
        "мир",
    ]
    chosen = random.Random(0)
    raw = io.BytesIO()
    library.SentencePieceTrainer.train(
        sentence_iterator=iter([" ".join(chosen.choices(words, k=8)) for _ in range(300)]),
        model_writer=raw, vocab_size=90, model_type="unigram", normalization_rule_name=rule,
        minloglevel=2, num_threads=1, hard_vocab_limit=False,
    )  # fmt: skip
    return raw.getvalue()


@pytest.mark.parametrize("rule", ["nmt_nfkc", "nfkc_cf"])
def test_normalised_characters(tmp_path: Path, rule: str) -> None:
    """As sentencepiece has it, but for a mark behind a character: there the library that splits
    takes both for one, normalises the first, and loses the mark."""
    library = pytest.importorskip("sentencepiece")
    raw = trained_unigram(rule)
    (tmp_path / "spiece.model").write_bytes(raw)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "t5"}))
    reference = library.SentencePieceProcessor(model_proto=raw)
    made = only(read_tokenizers(tmp_path))
    texts = [
        *TEXTS,
        "ｆｕｌｌ Ⅷ ½ ﬁnal",
        "Ｔｈｅ\u00a0dog\u3000sees\u200ba\ufeff cat",
        "STRASSE ẞ ŉ",
    ]
    whole = [t for t in texts if not any(unicodedata.combining(c) for c in t)]
    assert len(whole) > len(texts) / 2
    assert differing(reference.encode, made, whole) == []
    plain = only(read_tokenizers(_without_table(tmp_path / "plain", raw)))
    assert len(differing(plain.encode, made, whole)) > 100  # the table is not idle


def _without_table(folder: Path, raw: bytes) -> Path:
    """An empty table behind the other replaces it: a later field overrides. Not by a class for the
    whole file: sentencepiece and transformers each have one, and a process can load only one."""
    folder.mkdir()
    (folder / "spiece.model").write_bytes(raw + field(3, field(2, b"")))
    (folder / "config.json").write_text(json.dumps({"model_type": "t5"}))
    return folder
