"""Models of ours in Hugging Face's layout, against what transformers makes of the folder."""

import json
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.interop.own_models import ENGLISH, own
from tests.interop.reference import FLOAT32, far, prompts, transformers
from tests.tiny.dealt import dealt

from translucid.core.errors import InputError
from translucid.core.weights import own_tensors
from translucid.interop.export.exporting import export
from translucid.interop.importing import import_model
from translucid.model import Model
from translucid.tasks.model_folder import Bundle

ROTARY = {"positions": "rotary"}
LLAMA = ROTARY | {"norm": "rms", "activation": "swiglu"}
DECODERS: dict[str, tuple[dict[str, Any], str]] = {
    "as in the recipes": (LLAMA, "llama"),
    "grouped heads, no biases": (LLAMA | {"kv_heads": 2, "bias": False, "tied": False}, "llama"),
    "a window": (LLAMA | {"window": 4, "bias": False}, "mistral"),
    "biases of queries alone": (
        LLAMA | {"attention_output_bias": False, "feedforward_bias": False}, "llama",
    ),
    "query norm": (
        LLAMA | {"qk_norm": True, "bias": False, "embedding_scale": False, "d_head": 6}, "qwen3",
    ),
    "llama3 scaling": (
        LLAMA | {"rotary_method": "llama3", "rotary_scaling": 4.0, "rotary_length": 8}, "llama",
    ),
    "layer norm and relu": (ROTARY | {"activation": "relu"}, "gpt_neox"),
    "parallel, part of a head": (
        ROTARY | {"parallel_residual": True, "rotary_fraction": 0.5, "kv_heads": 2}, "gpt_neox",
    ),
    "learned positions": (
        {"positions": "learned", "activation": "gelu", "max_length": 40, "bias": False}, "gpt2",
    ),
    "sinusoids": ({"positions": "sinusoidal", "activation": "gelu_tanh"}, "gpt2"),
}  # fmt: skip


def opened(folder: Path, kind: str = "AutoModelForCausalLM", **options: Any) -> tuple[Any, Any]:
    """Model and tokenizer, as transformers reads them; nothing is missing or left over."""
    library = transformers()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model, seen = getattr(library, kind).from_pretrained(
            folder, output_loading_info=True, **options
        )
        tokenizer = library.AutoTokenizer.from_pretrained(folder)
    assert not any(seen[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    return model.eval(), tokenizer


@pytest.mark.parametrize("name", dealt(DECODERS, share=3, rest=pytest.mark.slow))
def test_language_models(tmp_path: Path, name: str) -> None:
    options, kind = DECODERS[name]
    held = own("language", spare=3, **options)
    exported = export(held, "huggingface", tmp_path / "out")
    theirs, tokenizer = opened(tmp_path / "out")
    assert theirs.config.model_type == kind
    assert exported.notes[0].startswith(f"written as {kind}, ")
    ids, mask = prompts(held.network.config.vocab)  # type: ignore[attr-defined]
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    with torch.inference_mode():
        reference = theirs(input_ids=ids, attention_mask=mask.long(), position_ids=positions).logits
        logits = held.network(ids, mask)
    largest = float(logits[mask].abs().max())
    assert largest > 0.5
    assert far(logits[mask], reference[mask], largest) < FLOAT32

    own_tokenizer = held.tokenizers["tokenizer"]
    for text in ("a </s> dog", "the small dog"):
        read = tokenizer(text, return_tensors="pt")
        assert read["input_ids"][0].tolist() == [2, *own_tokenizer.encode(text)]
    (ours,) = Model(held).generate([text], temperature=0, max_length=12)
    with torch.inference_mode():
        written = theirs.generate(**read, max_new_tokens=12, do_sample=False)[0].tolist()
    new = written[read["input_ids"].shape[1] :]
    new = new[: new.index(2)] if 2 in new else new
    assert own_tokenizer.decode(own_tokenizer.encode(text) + new) == ours
    check_comes_back(held, tmp_path / "out")


def check_comes_back(held: Bundle, folder: Path) -> None:
    """What was exported is a model here, too: the same tensors when exported once more."""
    again = import_model(folder)
    export(again, "huggingface", folder.parent / "again")
    twice = import_model(folder.parent / "again")
    first, second = own_tensors(again.network), own_tensors(twice.network)
    assert first.keys() == second.keys()
    assert all(torch.equal(first[key], second[key]) for key in first)
    for name in again.tokenizers:
        assert again.tokenizers[name].encode(ENGLISH[0]) == held.tokenizers[name].encode(ENGLISH[0])
    files = [json.loads((place / "config.json").read_text("utf-8")) for place in
             (folder, folder.parent / "again")]  # fmt: skip
    assert files[0] == files[1]


SINUSOIDS = {"positions": "sinusoidal"}
TRANSLATORS: dict[str, tuple[dict[str, Any], str]] = {
    "pre-norm, sinusoids": (SINUSOIDS | {"decoder_layers": 1}, "pegasus"),
    "post-norm, two vocabularies": (SINUSOIDS | {"placement": "post", "two": True}, "marian"),
    "post-norm, grouped heads, untied": (
        SINUSOIDS | {"placement": "post", "kv_heads": 2, "tied": False, "bias": False,
                     "norm_bias": False}, "marian",
    ),
    "learned, embedding norm": (
        {"positions": "learned", "placement": "pre", "embedding_norm": True, "max_length": 30,
         "first_position": 2, "activation": "gelu", "head_bias": True}, "mbart",
    ),
    "relative": (
        {"positions": "relative", "norm": "rms", "bias": False, "scaled": False, "tied": False,
         "activation": "geglu_tanh", "relative_buckets": 8, "relative_distance": 16}, "t5",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", dealt(TRANSLATORS, share=3, rest=pytest.mark.slow))
def test_translators(tmp_path: Path, name: str) -> None:
    options, kind = TRANSLATORS[name]
    held = own("translate", **options)
    export(held, "huggingface", tmp_path / "out")
    theirs, tokenizer = opened(tmp_path / "out", "AutoModelForSeq2SeqLM")
    assert theirs.config.model_type == kind
    network: Any = held.network
    source, mask = prompts(network.config.vocab, left=False)
    target, _ = prompts(network.vocab, length=9)
    target[target == 0] = 5  # no padding there
    with torch.inference_mode():
        reference = theirs(
            input_ids=source, attention_mask=mask.long(), decoder_input_ids=target
        ).logits
        logits = network(source, target, mask)
    largest = float(logits.abs().max())
    assert largest > 0.5
    assert far(logits, reference, largest) < FLOAT32

    read = tokenizer(ENGLISH[0], return_tensors="pt")
    first, second = next(iter(held.tokenizers.values())), [*held.tokenizers.values()][-1]
    assert read["input_ids"][0].tolist() == [*first.encode(ENGLISH[0]), 2]
    with torch.inference_mode():
        written = theirs.generate(
            input_ids=read["input_ids"], attention_mask=read["attention_mask"],
            max_new_tokens=10, do_sample=False, num_beams=1,
        )[0].tolist()  # fmt: skip
    (ours,) = Model(held).translate([ENGLISH[0]], beam_size=1, max_length=10)
    assert second.decode(written[: written.index(2) if 2 in written else None]) == ours
    check_comes_back(held, tmp_path / "out")


BERT = {"placement": "post", "positions": "learned", "embedding_norm": True, "max_length": 20}
ENCODERS: dict[str, tuple[str, dict[str, Any], str, str]] = {
    "tagger": ("tag", BERT | {"activation": "gelu"}, "bert", "AutoModelForTokenClassification"),
    "classifier with segments": (
        "classify", BERT | {"pooling": "first", "head_dense": "tanh", "segments": 2}, "bert",
        "AutoModelForSequenceClassification",
    ),
    "classifier without": (
        "classify", BERT | {"pooling": "first", "head_dense": "relu", "norm_eps": 1e-12},
        "distilbert", "AutoModelForSequenceClassification",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ENCODERS)
def test_encoders(tmp_path: Path, name: str) -> None:
    task, options, kind, auto = ENCODERS[name]
    held = own(task, **options)
    export(held, "huggingface", tmp_path / "out")
    theirs, tokenizer = opened(tmp_path / "out", auto)
    assert theirs.config.model_type == kind
    assert [theirs.config.id2label[i] for i in range(len(held.labels))] == list(held.labels)
    ids, mask = prompts(held.network.config.vocab, left=False)  # type: ignore[attr-defined]
    with torch.inference_mode():
        reference = theirs(input_ids=ids, attention_mask=mask.long()).logits
        logits = held.network(ids, mask)
    seen = mask if task == "tag" else slice(None)
    assert far(logits[seen], reference[seen], float(logits.abs().max())) < FLOAT32
    text = ENGLISH[0]
    plain = held.tokenizers["tokenizer"].encode(text)
    assert tokenizer(text)["input_ids"] == ([1, *plain, 2] if task == "classify" else plain)
    check_comes_back(held, tmp_path / "out")


@pytest.mark.parametrize(("pooling", "normalise"), [("mean", True), ("first", False)])
def test_sentence_encoders(tmp_path: Path, pooling: str, normalise: bool) -> None:
    held = own("embed", **BERT, pooling=pooling, normalise=normalise)
    export(held, "huggingface", tmp_path / "out")
    # The layer behind [CLS] that BERT was pretrained with is not read, and not written.
    theirs, tokenizer = opened(tmp_path / "out", "AutoModel", add_pooling_layer=False)
    read = tokenizer(ENGLISH, padding=True, return_tensors="pt")
    with torch.inference_mode():
        states = theirs(**read).last_hidden_state
    kept = read["attention_mask"][..., None]
    vectors = (states * kept).sum(1) / kept.sum(1) if pooling == "mean" else states[:, 0]
    vectors = vectors / vectors.norm(dim=-1, keepdim=True) if normalise else vectors
    made = Model(held).embed(ENGLISH)
    assert far(made, vectors, float(vectors.abs().max())) < FLOAT32
    check_comes_back(held, tmp_path / "out")
    again = import_model(tmp_path / "out")
    assert torch.equal(Model(again).embed(ENGLISH), made)
    assert again.statistics == {"max_length": 20}


def test_models_that_no_family_can_express_are_refused(tmp_path: Path) -> None:
    for task, options, reason in (
        ("embed", BERT | {"pooling": "attention"}, r"pooling attention .*export to onnx"),
        ("translate", ROTARY, r"positions = rotary \(there: sinusoidal\); ctranslate2 may"),
        ("tag", ROTARY, r"placement = pre \(there: post\), .*positions = rotary"),
        ("classify", BERT, r"pooling = mean \(there: first\)"),
        ("language", ROTARY | {"ensemble_size": 2}, "an ensemble of 2 networks"),
    ):
        with pytest.raises(InputError, match=reason):
            export(own(task, **options), "huggingface", tmp_path / "out")
    assert not any(tmp_path.iterdir())


def test_every_kind_of_tokenizer(tmp_path: Path) -> None:
    """AutoTokenizer gives our ids, and what is opened here again does too."""
    library = transformers()
    texts = ["the dog's  cats", " a\tb\n", "</s> <pad>x", "größer 😀 12", ""]
    for kind in ("bpe", "unigram", "word", "space", "char", "bytes"):
        held = own("classify", kind, **BERT | {"pooling": "first", "head_dense": "tanh"})  # type: ignore[arg-type]
        export(held, "huggingface", tmp_path / kind)
        theirs = library.AutoTokenizer.from_pretrained(tmp_path / kind)
        again = import_model(tmp_path / kind).tokenizers["tokenizer"]
        ours = held.tokenizers["tokenizer"]
        for text in texts:
            ids = [1, *ours.encode(text), 2]
            assert theirs(text)["input_ids"] == ids
            assert again.frame()(again.encode(text)) == ids
            if ours.unk_id not in ids:  # which is left out there
                assert theirs.decode(ids, skip_special_tokens=True) == ours.decode(ids)
