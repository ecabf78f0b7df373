"""Masked language models and embedding models of other tools, as people ask them."""

import json
import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.in_process import run
from tests.interop.encoders import bert, roberta, sentence_bert
from tests.interop.reference import transformers
from torch import Tensor

import translucid as tl
from translucid.core.errors import ConfigError, CutText, InputError

TEXTS = ["the dog sleeps.", "a", "", "cat runs the dog bcb .", "dog", "the cat sleeps."]


@pytest.fixture(scope="module")
def filler(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    folder = tmp_path_factory.mktemp("fill") / "bert"
    return folder, bert(folder)


@pytest.fixture(scope="module")
def embedder(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    folder = tmp_path_factory.mktemp("embed") / "minilm"
    return folder, sentence_bert(folder, longest=10)


def reference_ids(folder: Path, text: str) -> list[int]:
    ids: list[int] = transformers().AutoTokenizer.from_pretrained(folder)(text)["input_ids"]
    return ids


# ---- fill ----


@pytest.mark.parametrize("made", [bert, roberta])
@pytest.mark.parametrize("text", ["a {} b.", "{}", "ab {}, a{} b {} ab"])
def test_masks_are_filled_as_by_the_reference(tmp_path: Path, made: Any, text: str) -> None:
    theirs = made(tmp_path)
    model = tl.load(tmp_path)
    text = text.replace("{}", model.task.mask)  # type: ignore[attr-defined]
    ids = reference_ids(tmp_path, text)
    assert model.task.example(text).batch.inputs["ids"][0].tolist() == ids
    with torch.inference_mode():
        probabilities = theirs(input_ids=torch.tensor([ids])).logits[0].softmax(-1)
    places = [place for place, i in enumerate(ids) if i == model.task.tokenizer.mask_id]  # type: ignore[attr-defined]
    masks = model.fill(text, k=4)
    assert len(masks) == len(places) == text.count(model.task.mask)  # type: ignore[attr-defined]
    for place, mask in zip(places, masks, strict=True):
        best = probabilities[place, : len(model.task.tokenizer)].topk(4)  # type: ignore[attr-defined]
        assert [filling.id for filling in mask] == best.indices.tolist()
        assert [filling.probability for filling in mask] == pytest.approx(best.values.tolist())


def test_texts_are_filled_together_as_one_by_one(filler: tuple[Path, Any]) -> None:
    model = tl.load(filler[0])
    texts = ["the [MASK] sleeps.", "[MASK]", "a b c d e f [MASK] g [MASK].", "the [MASK]"]
    together = model.predict(texts)
    for text, masks in zip(texts, together, strict=True):
        alone = model.fill(text)
        assert [[f.id for f in mask] for mask in masks] == [[f.id for f in m] for m in alone]
        for mask, other in zip(masks, alone, strict=True):
            assert [f.probability for f in mask] == pytest.approx([f.probability for f in other])


def test_the_score_masks_each_token_in_turn(filler: tuple[Path, Any], tmp_path: Path) -> None:
    folder, theirs = filler
    model = tl.load(folder)
    lines = ["the dog sleeps.", "cat", "a b c d e f g h a b c d e f g h a b c d"]  # over 20 tokens
    (tmp_path / "texts.txt").write_text("\n".join(lines), "utf-8")
    score = model.evaluate(str(tmp_path / "texts.txt"))
    losses, right = [], []
    for line in lines:
        inside = reference_ids(folder, line)[1:-1]
        for part in (inside[:18], inside[18:]):  # with [CLS] and [SEP], 20 positions
            ids = torch.tensor([2, *part, 3])
            for place in range(1, len(part) + 1):
                masked = ids.clone()
                masked[place] = 4
                with torch.inference_mode():
                    log_probs = theirs(input_ids=masked[None]).logits[0, place].log_softmax(-1)
                losses.append(-float(log_probs[ids[place]]))
                right.append(int(log_probs.argmax()) == int(ids[place]))
    assert score.numbers["loss"] == pytest.approx(np.mean(losses), rel=1e-5)
    assert score.numbers["pseudo_perplexity"] == pytest.approx(math.exp(np.mean(losses)), rel=1e-4)
    sums = {name: one.value for name, one in score.sums().items()}
    assert sums == pytest.approx(score.numbers, rel=1e-6)
    assert score.numbers["accuracy"] == pytest.approx(np.mean(right))
    study = model.ablate(str(tmp_path / "texts.txt"), of=["heads"])
    assert study.whole.loss == pytest.approx(score.numbers["loss"], rel=1e-6)
    assert len({round(measured.loss, 6) for _, measured in study.rows}) == 8  # 2 layers, 4 heads


def test_a_masked_model_can_be_traced_and_saved(filler: tuple[Path, Any], tmp_path: Path) -> None:
    model = tl.load(filler[0])
    text = "the [MASK] sleeps."
    reading = model.trace(text, "dog")
    assert reading.words.source == ("[CLS]", "the", "[MASK]", "sleeps", ".", "[SEP]")
    assert reading.wanted[2] == model.task.tokenizer.encode("dog")[0]  # type: ignore[attr-defined]
    probability = float(reading["head.logits"][0, 2].softmax(-1)[reading.wanted[2]])
    loss = model.gradients(text, "dog").loss
    assert loss == pytest.approx(-math.log(probability), rel=1e-5)
    edited = model.trace(text, edit={"encoder.layers.0.self_attention.output": lambda x: 0 * x})
    assert not torch.allclose(edited["head.logits"], reading["head.logits"])
    likeliest = model.fill(text, 1)[0][0].token
    assert f"→ {likeliest}" in str(reading.walk())
    assert model.saliency(text).values.shape[-1] == 6
    reading.top(), reading.lens()
    model.save(tmp_path / "ours")
    assert tl.load(tmp_path / "ours").fill(text) == model.fill(text)


def test_invalid_requests_to_a_masked_model_are_refused(filler: tuple[Path, Any]) -> None:
    model = tl.load(filler[0])
    with pytest.raises(InputError, match=r"has no mask; write \[MASK\] where"):
        model.fill("the dog")
    with pytest.raises(InputError, match="has 2 words, but the text has 1 masks"):
        model.trace("a [MASK]", "dog cat")
    with pytest.raises(InputError, match=r"target 'ab' is 2 tokens .*one"):
        model.trace("a [MASK]", "ab")
    with pytest.warns(CutText, match="1 text has more than the 20 tokens"):
        model.fill("[MASK] " + "a " * 30)
    with pytest.warns(CutText), pytest.raises(InputError, match="the 20 tokens"):
        model.fill("a " * 30 + "[MASK]")
    with pytest.raises(InputError, match=r"this model is for task fill; use model\.fill"):
        model.classify(["a"])
    with pytest.raises(ConfigError, match="models for task fill come from other tools"):
        tl.train("fill", out="x")


# ---- embed ----


def mean_of(theirs: Any, ids: list[int]) -> Tensor:
    with torch.inference_mode():
        states = theirs(input_ids=torch.tensor([ids])).last_hidden_state[0]
    vector: Tensor = states.mean(0)
    return vector


def test_embeddings_are_those_of_the_reference(embedder: tuple[Path, Any]) -> None:
    folder, theirs = embedder
    model = tl.load(folder)
    vectors = model.embed(TEXTS)  # in one batch, padded
    assert vectors.shape == (len(TEXTS), 16)
    for text, vector in zip(TEXTS, vectors, strict=True):
        wanted = mean_of(theirs, reference_ids(folder, text))
        torch.testing.assert_close(vector, wanted / wanted.norm(), rtol=0, atol=2e-6)
        torch.testing.assert_close(vector, model.embed([text])[0], rtol=0, atol=1e-6)
    cosines = model.similarity(TEXTS[:2], TEXTS)
    torch.testing.assert_close(cosines, vectors[:2] @ vectors.T, rtol=0, atol=1e-6)
    first, *_ = model.nearest_texts("the dog sleeps.", TEXTS[1:])
    assert first.place == int(cosines[0, 1:].argmax())
    assert first.text == TEXTS[1 + first.place]


def test_long_texts_are_truncated_to_the_folders_limit(embedder: tuple[Path, Any]) -> None:
    folder, theirs = embedder
    model = tl.load(folder)
    with pytest.warns(CutText, match="1 text has more than the 10 tokens"):
        cut, _ = model.embed(["a b c d e f g h a b c d", "a"])
    ids = [*reference_ids(folder, "a b c d e f g h a b c d")[:9], 3]
    wanted = mean_of(theirs, ids)
    torch.testing.assert_close(cut, wanted / wanted.norm(), rtol=0, atol=2e-6)


def test_hidden_states_without_pooling_are_averaged(tmp_path: Path) -> None:
    theirs = bert(tmp_path, "Model")
    notes: list[str] = []
    model = tl.load(tmp_path, say=notes.append)
    assert any("names no pooling" in note and "the mean of its tokens'" in note for note in notes)
    wanted = mean_of(theirs, reference_ids(tmp_path, "the dog"))
    torch.testing.assert_close(model.embed(["the dog"])[0], wanted, rtol=1e-5, atol=1e-5)


def test_an_embedding_model_can_be_traced_and_saved(
    embedder: tuple[Path, Any], tmp_path: Path
) -> None:
    model = tl.load(embedder[0])
    reading = model.trace("the dog sleeps.")
    torch.testing.assert_close(reading["head.embedding"][0], model.embed(["the dog sleeps."])[0])
    assert "a vector of 16 dimensions, length 1" in str(reading.walk())
    largest = int(reading["head.embedding"][0].abs().argmax())
    assert model.saliency("the dog").values.shape[-1] == 4
    by_default, asked = (model.saliency("the dog sleeps.", of=of) for of in (None, largest))
    assert np.array_equal(by_default.values, asked.values)
    model.saliency_map("the dog")
    model.save(tmp_path / "ours")
    again = tl.load(tmp_path / "ours")
    assert torch.equal(again.embed(TEXTS), model.embed(TEXTS))
    with pytest.warns(CutText, match="10 tokens"):  # the limit goes with the folder
        again.embed(["a " * 30])


def test_invalid_requests_to_an_embedding_model_are_refused(
    embedder: tuple[Path, Any], tmp_path: Path
) -> None:
    model = tl.load(embedder[0])
    (tmp_path / "texts.txt").write_text("the dog\n")
    for measure in (model.evaluate, model.ablate):
        with pytest.raises(ConfigError, match="one text per line"):
            measure(str(tmp_path / "texts.txt"))
    with pytest.raises(InputError, match="an embedding has no target value"):
        model.trace("the dog", "cat")
    with pytest.raises(InputError, match=r"of = 16 is not a dimension .* between 0 and 15"):
        model.saliency("the dog", of=16)
    with pytest.raises(InputError, match="expected a list of texts"):
        model.embed("the dog")
    with pytest.raises(InputError, match=r"this model is for task embed; use model\.embed"):
        model.fill("a [MASK]")


def test_a_sentence_encoder_is_tuned(tmp_path: Path) -> None:
    sentence_bert(tmp_path / "source", longest=10)
    data = tmp_path / "pairs.tsv"
    data.write_text("the dog sleeps\ta dog\nthe cat runs\ta cat\ncat sleeps\tdog runs\n")
    before = tl.load(tmp_path / "source")
    tuned = tl.train(
        "embed", tmp_path / "run", train=str(data), valid=str(data),
        start_from=str(tmp_path / "source"), learning_rate=1e-2, warmup=0, schedule="constant",
        steps=6, evaluate_every=6, batch_tokens=300, data={"max_length": 20},
        model={"dropout": 0.0}, device="cpu", quiet=True,
    )  # fmt: skip
    assert tuned.network.config.normalise  # type: ignore[attr-defined]  # the head is the source's
    losses = [model.evaluate(str(data)).numbers["loss"] for model in (before, tuned)]
    assert losses[1] < 0.5 * losses[0]
    start = json.loads((tmp_path / "run" / "start.json").read_text("utf-8"))
    assert start["fresh"] == []


# ---- on the command line ----


@pytest.mark.slow
def test_embed_command(embedder: tuple[Path, Any], tmp_path: Path) -> None:
    folder, model = str(embedder[0]), tl.load(embedder[0])
    file = tmp_path / "texts.txt"
    file.write_text("".join(f"{text}\n" for text in TEXTS), "utf-8")
    vectors = model.embed(TEXTS)
    for name in ("v.npy", "v.tsv", "v.jsonl"):
        done = run("embed", folder, str(file), "--out", str(tmp_path / name))
        assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in (tmp_path / "v.jsonl").read_text("utf-8").splitlines()]
    assert [line["text"] for line in lines] == TEXTS
    table = np.loadtxt(tmp_path / "v.tsv", delimiter="\t", dtype=np.float32)
    for written in (
        np.load(tmp_path / "v.npy"), table, np.float32([line["embedding"] for line in lines])
    ):  # fmt: skip
        # A command reads the texts in batches of its own: sums are rounded in another order.
        np.testing.assert_allclose(written, vectors.numpy(), rtol=0, atol=1e-5)
    done = run("embed", folder, str(file), "--nearest", "the dog", "--top", "2", "--json")
    found = [json.loads(line) for line in done.stdout.splitlines()]
    wanted = model.nearest_texts("the dog", TEXTS, 2)
    assert [(f["line"], f["text"]) for f in found] == [(n.place + 1, n.text) for n in wanted]
    typed = run("embed", folder, "--text", TEXTS[0], "--text", "a")
    rows = np.loadtxt(typed.stdout.splitlines(), delimiter="\t", dtype=np.float32)
    np.testing.assert_allclose(rows, table[:2], rtol=0, atol=1e-5)
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        long = run("embed", folder, "--text", "a " * 30)
    assert "warning: 1 text has more than the 10 tokens that this model reads" in long.stderr
    both = run("embed", folder, str(file), "--text", "a")
    assert both.returncode == 2
    assert "both given; repeat --text for each text" in both.stderr
    out = tmp_path / "again.tsv"
    refused = run("embed", folder, str(file), "--nearest", "a", "--out", str(out))
    assert refused.returncode == 2
    assert "--nearest and --out were both given; omit one" in refused.stderr
    assert not out.exists()
    spaced = [number for number, text in enumerate(TEXTS) if " " in text]
    quoted = run("embed", folder, *[TEXTS[number] for number in spaced], "--out", str(out))
    assert quoted.returncode == 0, quoted.stderr
    np.testing.assert_allclose(np.loadtxt(out, delimiter="\t"), table[spaced], rtol=0, atol=1e-5)


def test_fill_command(filler: tuple[Path, Any], tmp_path: Path) -> None:
    folder, model = str(filler[0]), tl.load(filler[0])
    text = "the [MASK] sleeps [MASK]"
    lines = run("fill", folder, text, "--top", "2").stdout.splitlines()
    masks = model.fill(text, 2)
    assert lines[:3] == [text, "mask 1", f"  {masks[0][0].probability:6.4f}  {masks[0][0].token}"]
    assert len(lines) == 1 + 2 * 3
    file = tmp_path / "texts.txt"
    file.write_text(f"{text}\na [MASK]\n", "utf-8")
    done = run("fill", folder, str(file), "--json", "--top", "2")
    first, second = map(json.loads, done.stdout.splitlines())
    assert [f["id"] for f in first["masks"][1]] == [f.id for f in masks[1]]
    assert second["text"] == "a [MASK]"
    file.write_text("a [MASK]\nnothing\n")
    done = run("fill", folder, str(file))
    assert done.returncode == 2
    assert f"{file}:2: 'nothing' has no mask; write [MASK]" in done.stderr
    assert not done.stdout
    done = run("fill", folder, text, "a [MASK]", "--json", "--top", "2")
    assert [json.loads(line) for line in done.stdout.splitlines()] == [first, second]
    piped = run("fill", folder, "--json", "--top", "2", stdin=f"{text}\na [MASK]\n")
    assert piped == done
