"""Whole runs, small: every family for every task it fits, from the recipe to a folder and back."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from translucid.core.errors import ConfigError, InputError
from translucid.model import Model, load
from translucid.runs.recipe import recipe
from translucid.runs.recipe.recipe import baseline_kind
from translucid.runs.run import train_recipe
from translucid.tasks import model_folder
from translucid.tasks.label_scores import Label

SMALL: dict[str, dict[str, Any]] = {
    "transformer": {"kind": "transformer", "d_model": 16, "heads": 2, "layers": 1},
    "still": {"kind": "transformer", "d_model": 16, "heads": 2, "layers": 1, "dropout": 0.0},
    "wide": {"kind": "transformer", "d_model": 64, "heads": 4, "layers": 1, "dropout": 0.0},
    "lstm": {"kind": "recurrent", "cell": "lstm", "d_model": 16, "hidden": 16},
    "gru": {"kind": "recurrent", "cell": "gru", "d_model": 16, "hidden": 16},
    "rnn": {"kind": "recurrent", "cell": "rnn", "d_model": 16, "hidden": 16},
    "spelling": {
        "kind": "recurrent", "cell": "gru", "d_model": 16, "hidden": 16, "bidirectional": True,
        "characters": 6, "word_dropout": 0.3,
    },
    "ensemble": {
        "kind": "recurrent", "cell": "gru", "d_model": 16, "hidden": 16, "ensemble_size": 3,
    },
    "mlp": {"kind": "mlp", "hidden": [8]},
}  # fmt: skip
PAIRS = [
    *((task, family) for task in ("translate", "language", "classify", "tag")
      for family in ("transformer", "lstm", "gru", "rnn")),
    ("tag", "spelling"),
    ("classify", "ensemble"),
    ("language", "ensemble"),
    ("regress", "mlp"),
]  # fmt: skip
# Every family for two tasks and every task of two families is enough for CI.
MORE = [pair for place, pair in enumerate(PAIRS[:16]) if (place + place // 4) % 2]


def small(task: str, family: str, **training: Any) -> recipe.Recipe:
    """A recipe of a tiny model. It fits no baseline, which would take half of the run's time."""
    settings = {"steps": 3, "batch_tokens": 400, "warmup": 1, "log_every": 1, "device": "cpu"}
    settings["baseline"] = False
    return recipe.parse(
        {
            "task": {"kind": task},
            "data": {"toyland": 200},
            "tokenizer": {"kind": "word"},
            "model": SMALL[family],
            "training": settings | training,
            "decoding": {"beam_size": 2},
        }
    )


def use(model: Model) -> Any:
    match model.task.name:
        case "translate":
            return model.translate(["The dog sleeps.", ""], beam_size=2)
        case "language":
            return model.generate("The dog", max_length=5, seed=1)
        case "classify":
            return model.classify(["The food was good."])
        case "tag":
            return model.tag(["Peter lives in Berlin."])
        case "regress":
            return model.predict([[0.5], [0.1]])


@pytest.mark.parametrize(
    ("task", "family"),
    [
        pytest.param(
            *pair,
            marks=pytest.mark.thorough if pair in MORE else pytest.mark.slow if place % 3 else (),
        )
        for place, pair in enumerate(PAIRS)
    ],
)
def test_every_family_trains_for_every_task_it_fits(task: str, family: str, tmp_path: Path) -> None:
    chosen = small(task, family, baseline=True)
    trained = Model(train_recipe(chosen, tmp_path / "run", quiet=True))
    again = load(tmp_path / "run")
    assert use(again) == use(trained)
    for name, weight in trained.network.state_dict().items():
        assert torch.equal(weight, again.network.state_dict()[name]), name
    predictions = {"valid.predictions.txt", "test.predictions.txt"}
    assert {p.name for p in (tmp_path / "run").iterdir()} == {
        *(predictions if task != "language" else ()),
        "recipe.toml", "metrics.jsonl", "timing.jsonl", "log.txt", "best", "last", "state",
        "test.json",
        *(["baseline"] if baseline_kind(task) else ()),  # which three steps do not beat
    }  # fmt: skip
    lines = [
        json.loads(line)
        for line in (tmp_path / "run/metrics.jsonl").read_text("utf-8").splitlines()
    ]
    assert [line["step"] for line in lines if "loss" in line] == [1, 2, 3]
    text = "0.5" if task == "regress" else "The dog sleeps."
    assert len(again.trace(text)) > 3


@pytest.mark.slow
def test_the_answers_have_their_shapes(tmp_path: Path) -> None:
    classifier = Model(train_recipe(small("classify", "gru"), tmp_path / "c", quiet=True))
    (label,) = classifier.classify(["The food was good."])
    assert isinstance(label, Label)
    assert label.label in ("negative", "neutral", "positive")
    assert 0 < label.probability <= 1
    translator = Model(train_recipe(small("translate", "gru"), tmp_path / "t", quiet=True))
    assert translator.translate(["", "The dog sleeps."])[0] == ""
    with pytest.raises(InputError, match=r"this model is for task translate; use model.translate"):
        translator.classify(["x"])
    with pytest.raises(InputError, match=r"expected a list of texts, got one text"):
        translator.translate("The dog sleeps.")


@pytest.mark.slow
def test_the_resolved_recipe_gives_the_same_run(tmp_path: Path) -> None:
    first = train_recipe(small("tag", "transformer"), tmp_path / "a", quiet=True)
    again = recipe.read(tmp_path / "a" / "recipe.toml")
    second = train_recipe(again, tmp_path / "b", quiet=True)
    for name, weight in first.network.state_dict().items():
        assert torch.equal(weight, second.network.state_dict()[name]), name


@pytest.mark.thorough
def test_a_model_learns_what_it_is_shown(tmp_path: Path) -> None:
    """Two hundred sentences, read fifty times: the loss on them falls far."""
    settings = {"steps": 150, "learning_rate": 5e-3, "evaluate_every": 150, "log_every": 30}
    chosen = small("translate", "wide", batch_tokens=2000, **settings)
    model = Model(train_recipe(chosen, tmp_path / "run", quiet=True))
    lines = [
        json.loads(line)
        for line in (tmp_path / "run/metrics.jsonl").read_text("utf-8").splitlines()
    ]
    losses = [line["loss"] for line in lines if "loss" in line]
    assert losses[-1] < 0.2 * losses[0]
    assert model.translate(["The dog sleeps."])[0].endswith(".")


def test_a_run_folder_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run/notes.txt").write_text("mine")
    with pytest.raises(InputError, match=r"run is not empty; choose another folder with --out"):
        train_recipe(small("regress", "mlp"), tmp_path / "run", quiet=True)
    assert (tmp_path / "run/notes.txt").read_text("utf-8") == "mine"


def test_a_label_that_training_never_saw_is_named_with_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "train.tsv").write_text("good\ta fine day\nbad\ta poor day\n" * 5)
    (tmp_path / "valid.tsv").write_text("good\ta fine day\ngoood\tfine\n")
    values = {
        "task": {"kind": "classify"},
        "data": {name: [str(tmp_path / f"{name}.tsv")] for name in ("train", "valid")},
        "tokenizer": {"kind": "word"},
        "model": SMALL["gru"],
    }
    with pytest.raises(InputError, match=r"valid.tsv:2: .*'goood'; did you"):
        train_recipe(recipe.parse(values), tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()


def test_muon_trains_on_a_cpu(tmp_path: Path) -> None:
    chosen = small("tag", "transformer", optimizer="muon")
    train_recipe(chosen, tmp_path / "run", quiet=True)
    assert model_folder.load(tmp_path / "run").task == "tag"


def test_a_damaged_folder_is_refused(tmp_path: Path) -> None:
    train_recipe(small("regress", "mlp"), tmp_path / "run", quiet=True)
    weights = tmp_path / "run/best/model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(InputError, match=r"model.safetensors is damaged or was changed"):
        model_folder.load(tmp_path / "run")
    weights.unlink()
    with pytest.raises(
        InputError, match=r"model.safetensors is missing; copy the whole folder again"
    ):
        model_folder.load(tmp_path / "run")
    with pytest.raises(InputError, match=r"not a model folder: .*config.json"):
        model_folder.load(tmp_path)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, r"task.kind is required"),
        (
            {"task": {"kind": "translat"}},
            r"task.kind = 'translat': no such task; did you mean translate\?",
        ),
        ({"task": {"kind": "tag"}, "modle": {}}, r"modle: no such key; did you mean model\?"),
        ({"task": {"kind": "tag"}, "model": {"hedas": 2}}, r"model.hedas: no such key; .* heads\?"),
        (
            {"task": {"kind": "tag"}, "model": {"kind": "mlp"}},
            r"task tag takes transformer or recur",
        ),
        (
            {"task": {"kind": "tag"}, "model": {"vocab": 9}},
            r"model.vocab is determined by the task and",
        ),
        (
            {"task": {"kind": "tag"}, "training": {"steps": 0}},
            r"training.steps = 0: input should be",
        ),
    ],
)
def test_a_recipe_that_cannot_be_is_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        recipe.parse(values)


def test_overrides_are_read_as_toml_or_text() -> None:
    chosen = recipe.parse(
        {"task": {"kind": "tag"}},
        [
            "model.kind=recurrent",
            "model.cell=gru",
            "training.steps=7",
            "training.learning_rate=1e-2",
        ],
    )
    assert chosen.model == {"kind": "recurrent", "cell": "gru"}
    assert chosen.training.steps == 7
    assert chosen.training.learning_rate == 0.01
    with pytest.raises(ConfigError, match=r"'steps=3': write overrides as section.key=value"):
        recipe.parse({"task": {"kind": "tag"}}, ["steps=3"])
