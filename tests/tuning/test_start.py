"""Training starts from what a trained model has: bit for bit where it fits, as the seed gives it
elsewhere, and never again from the source once the run has begun."""

import json
import shutil
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.interop import encoders
from tests.tiny.once import once
from tests.tuning.small import (
    LINES,
    NET,
    REVIEWS,
    TAGGED,
    TINY,
    classifier,
    language_model,
    recurrent_language_model,
    started,
    write_reviews,
)

import translucid as tl
from translucid.core.errors import ConfigError, InputError
from translucid.core.weights import own_tensors
from translucid.interop.importing import load
from translucid.models import Network, build
from translucid.runs.fine_tuning.take_over import open_source
from translucid.runs.recipe import recipe, toml
from translucid.runs.setup import Setup
from translucid.tasks import model_folder
from translucid.training.state import random_state_kept, seed_generators


def fresh(setup: Setup) -> Network:
    """The same network without a source."""
    with random_state_kept():
        seed_generators(setup.recipe.training.seed, torch.device("cpu"))
        return build(setup.network.config)  # type: ignore[arg-type]


def check_equal(setup: Setup, source: Network, **expected: str) -> None:
    """Each part has the weights of the source, or those of the seed."""
    ours, theirs, drawn = (own_tensors(n) for n in (setup.network, source, fresh(setup)))
    parts = {name.partition(".")[0] for name in ours}
    assert parts == set(expected)
    for name, tensor in ours.items():
        wanted = theirs if expected[name.partition(".")[0]] == "source" else drawn
        assert torch.equal(tensor, wanted[name]), name


def test_same_task_copies_all_weights(tmp_path: Path) -> None:
    source = model_folder.load(classifier())
    setup = started(classifier(), write_reviews(tmp_path))
    check_equal(setup, source.network, encoder="source", head="source")
    assert setup.tokenizers["tokenizer"].fingerprint == source.tokenizers["tokenizer"].fingerprint
    assert setup.recipe.model["d_model"] == 16
    assert setup.recipe.model["dropout"] == 0.1


def test_other_labels_get_a_new_head(tmp_path: Path) -> None:
    setup = started(classifier(), write_reviews(tmp_path, ("good", "bad")))
    check_equal(setup, model_folder.load(classifier()).network, encoder="source", head="seed")
    assert setup.start is not None
    assert any("other labels: down, up" in note for note in setup.start["notes"])


def test_rows_of_the_head_follow_the_labels(tmp_path: Path) -> None:
    held = model_folder.load(classifier())
    turned = model_folder.Bundle(held.network, held.task, held.tokenizers, held.labels[::-1])
    model_folder.save(turned, tmp_path / "turned")
    setup = started(tmp_path / "turned", write_reviews(tmp_path))
    assert setup.labels == held.labels
    ours, theirs = setup.network.get_parameter("head.linear.weight"), own_tensors(held.network)
    assert torch.equal(ours, theirs["head.linear.weight"].flip(0))


@pytest.mark.slow
def test_language_model_becomes_classifier_and_tagger(tmp_path: Path) -> None:
    source = load(language_model())
    setup = started(language_model(), write_reviews(tmp_path))
    check_equal(setup, source.network, decoder="source", head="seed")
    assert setup.recipe.model["pooling"] == "last"
    ids = torch.tensor([setup.tokenizers["tokenizer"].encode("a fine film")])
    points = [tl.Trace(["*final_norm.output"]) for _ in range(2)]
    setup.network.eval()(ids, trace=points[0])
    source.network(ids, trace=points[1])
    name = "decoder.final_norm.output"
    assert torch.equal(points[0][name], points[1][name])
    tagger = tl.train("tag", tmp_path / "tagger", train=TAGGED, start_from=language_model(), **TINY)
    assert len(tl.load(tmp_path / "tagger").predict(["a fine film"])) == 1
    assert tagger.network.config.model_dump()["shape"] == "decoder"
    assert np.isfinite(tagger.saliency("Anna").values).all()


@pytest.mark.slow
def test_an_encoder_of_transformers_becomes_a_classifier(tmp_path: Path) -> None:
    rows = len(encoders.PIECES) + 3
    folder = once("tuning: RoBERTa", lambda folder: encoders.roberta(folder, vocab_size=rows))
    setup = started(folder, write_reviews(tmp_path), limits={"max_length": 18})
    source = load(folder)
    check_equal(setup, source.network, encoder="source", head="seed")
    assert setup.network.config.model_dump()["vocab"] == rows  # rows without a token too
    assert setup.recipe.model.get("dropout") is None  # the recipe's default, not the 0 of a reader


def test_replaced_vocabulary_copies_rows_of_equal_text(tmp_path: Path) -> None:
    source = load(language_model())
    path = write_reviews(tmp_path)
    path.write_text(path.read_text("utf-8").replace("great", "splendid"), "utf-8")
    setup = started(language_model(), path, tokenizer={"vocabulary": "replace", "kind": "word"})
    old, new = source.tokenizers["tokenizer"], setup.tokenizers["tokenizer"]
    table = own_tensors(source.network)["decoder.embedding.table.weight"]
    rows = own_tensors(setup.network)["decoder.embedding.table.weight"]
    assert torch.equal(rows[:4], table[:4])  # special tokens by their role
    for word in ("film", "fine", "splendid"):
        ids = old.encode(f" {word}")
        (row,) = new.encode(f"a {word}")[1:]
        torch.testing.assert_close(rows[row], table[ids].mean(0), rtol=0, atol=1e-7)
    assert setup.start is not None
    assert any("rows copied by equal text" in note for note in setup.start["notes"])


def evaluations(run: Path) -> dict[int, dict[str, float]]:
    """Scores on the validation data, by step."""
    lines = map(json.loads, (run / "metrics.jsonl").read_text("utf-8").splitlines())
    return {line["step"]: line["valid"] for line in lines if "valid" in line}


def test_source_is_scored_first_and_kept_if_tuning_is_worse(tmp_path: Path) -> None:
    data = str(write_reviews(tmp_path))
    options: dict[str, Any] = {**TINY, "start_from": classifier(), "train": data, "valid": data}
    spoilt = tl.train(
        "classify", tmp_path / "run", **options, learning_rate=50.0, warmup=0, best_metric="loss"
    )
    scores, source = evaluations(tmp_path / "run"), tl.load(classifier())
    assert scores[0] == pytest.approx(source.evaluate(data).numbers)
    assert list(scores) == [0, 1, 2]
    assert all(scores[0]["loss"] < scores[step]["loss"] for step in (1, 2))
    for name, tensor in own_tensors(source.network).items():
        assert torch.equal(tensor, own_tensors(spoilt.network)[name]), name
    assert "! no step improved the validation score" in (tmp_path / "run" / "log.txt").read_text(
        "utf-8"
    )


def test_new_head_is_not_scored_before_training(tmp_path: Path) -> None:
    data = write_reviews(tmp_path, ("yes", "no"))
    tl.train("classify", tmp_path / "run", train=str(data), start_from=classifier(), **TINY)
    assert list(evaluations(tmp_path / "run")) == [1, 2]


@pytest.mark.slow
def test_a_run_resumes_exactly_without_its_source(tmp_path: Path) -> None:
    source = tmp_path / "source"
    shutil.copytree(classifier(), source)
    data = write_reviews(tmp_path)
    options: dict[str, Any] = {**TINY, "train": str(data), "start_from": source, "steps": 4}
    whole = tl.train("classify", tmp_path / "whole", **options)

    tl.train("classify", tmp_path / "run", **options, callbacks=lambda line: False)
    shutil.rmtree(tmp_path / "run" / "state" / "step-00000001")  # killed before its first save
    shutil.rmtree(source)
    resumed = tl.resume(tmp_path / "run", quiet=True)
    assert evaluations(tmp_path / "run") == evaluations(tmp_path / "whole")
    for name, tensor in own_tensors(whole.network).items():
        assert torch.equal(tensor, own_tensors(resumed.network)[name]), name
    start = json.loads((tmp_path / "run" / "start.json").read_text("utf-8"))
    assert start["weights"] == resumed.facts["start"]["weights"]


@pytest.mark.parametrize(
    ("task", "sections", "words"),
    [
        ("classify", {"model": {"d_model": 32}}, "model.d_model = 32: the model that training"),
        (
            "classify",
            {"tokenizer": {"folder": "x"}},
            "tokenizer.folder = 'x': .*keeps the vocabulary.*replace",
        ),
        ("language", {}, "task language needs a model of shape decoder"),
    ],
)
def test_keys_that_contradict_the_source_are_refused(
    tmp_path: Path, task: str, sections: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        started(classifier(), write_reviews(tmp_path), task, **sections)


def test_kind_is_that_of_the_source(tmp_path: Path) -> None:
    """Also of keys that only this family has."""
    run, data, lines = recurrent_language_model(), write_reviews(tmp_path), list[str]()
    setup = started(run, data, say=lines.append, model={"weight_dropout": 0.5})
    assert setup.recipe.model["kind"] == "recurrent"
    assert setup.recipe.model["weight_dropout"] == 0.5
    assert "  model: as in the start model, kind=recurrent d_model=16 hidden=16 layers=1" in lines
    check_equal(setup, model_folder.load(run).network, decoder="source", head="seed")
    said = started(run, data, model={"kind": "recurrent", "weight_dropout": 0.5})
    assert said.recipe == setup.recipe
    with pytest.raises(ConfigError, match=r"model.kind = 'transformer': the model .* 'recurrent'"):
        started(run, data, model={"kind": "transformer"})
    with pytest.raises(
        ConfigError, match=r"model.heads = 2: .* kind recurrent, which has no such key"
    ):
        started(run, data, model={"heads": 2})
    with pytest.raises(ConfigError, match=r"model.weight_drop: no such key"):
        started(run, data, model={"weight_drop": 0.5})


def test_a_recipe_that_leaves_the_family_open_is_written_and_read_again() -> None:
    values = {"task": {"kind": "classify"}, "data": {"train": ["a"]},
              "training": {"start_from": "runs/x"}, "model": {"weight_dropout": 0.5}}  # fmt: skip
    chosen = recipe.parse(values)
    again = recipe.parse(tomllib.loads(toml.dump(chosen)))
    assert again.model == chosen.model == values["model"]


def test_a_recurrent_source_carries_its_state_without_being_called_recurrent(
    tmp_path: Path,
) -> None:
    lines = tmp_path / "lines.txt"
    lines.write_text("\n".join(LINES), "utf-8")
    going_on = started(recurrent_language_model(), lines, "language",
                       training={"carry_state": True})  # fmt: skip
    assert going_on.recipe.training.carry_state
    with pytest.raises(ConfigError, match="a transformer has no state to carry"):
        started(language_model(), lines, "language", training={"carry_state": True})


def test_error_for_a_run_whose_best_model_is_its_baseline_names_the_network(tmp_path: Path) -> None:
    tl.train(
        "classify", tmp_path / "run", train=REVIEWS, model={"kind": "linear"}, device="cpu",
        quiet=True,
    )  # fmt: skip
    words = "task classify starts from a recurrent network or a Transformer"
    with pytest.raises(ConfigError, match=rf"a linear model for task classify; {words}$"):
        open_source(str(tmp_path / "run"), "classify")
    shutil.copytree(classifier() / "best", tmp_path / "run/network")
    with pytest.raises(ConfigError, match=rf"{words}; .* in .*network$"):
        open_source(str(tmp_path / "run"), "classify")
    open_source(str(tmp_path / "run/network"), "classify")


def test_missing_source_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such run, folder or file"):
        started(tmp_path / "nowhere", write_reviews(tmp_path))


def test_new_tokens_start_as_the_mean_of_their_old_tokens(tmp_path: Path) -> None:
    source = load(language_model())
    path = write_reviews(tmp_path)
    path.write_text(path.read_text("utf-8").replace("great", "splendid"), "utf-8")
    setup = started(language_model(), path, tokenizer={"vocabulary": "extend"})
    old, new = source.tokenizers["tokenizer"], setup.tokenizers["tokenizer"]
    table = own_tensors(source.network)["decoder.embedding.table.weight"]
    rows = own_tensors(setup.network)["decoder.embedding.table.weight"]
    assert len(rows) == len(new) > len(old)
    assert torch.equal(rows[: len(old)], table)
    (one,) = new.encode("a splendid")[1:]
    split = old.encode("a splendid")[1:]
    assert len(split) > 1
    assert torch.equal(rows[one], table[split].mean(0))


@pytest.mark.slow
def test_encoder_of_a_translator_becomes_a_classifier(tmp_path: Path) -> None:
    pairs = [(text, text.upper()) for text, _ in REVIEWS]
    tl.train("translate", tmp_path / "run", train=pairs, model=NET,
             tokenizer={"kind": "word", "joint": False}, **{**TINY, "steps": 1})  # fmt: skip
    source = load(tmp_path / "run")
    setup = started(tmp_path / "run", write_reviews(tmp_path))
    check_equal(setup, source.network, encoder="source", head="seed")
    ours, theirs = setup.tokenizers["tokenizer"], source.tokenizers["source"]
    assert ours.fingerprint == theirs.fingerprint
    tuned = tl.train(
        "translate", tmp_path / "tuned", train=pairs, start_from=tmp_path / "run",
        callbacks=lambda line: False, **{**TINY, "steps": 2},
    )  # fmt: skip
    resumed = tl.resume(tmp_path / "tuned", quiet=True)
    assert resumed.network.config == tuned.network.config == source.network.config
