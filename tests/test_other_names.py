"""Names that other tools use lead to ours, in Python and on the command line."""

from pathlib import Path

import pytest
from tests.in_process import run

from translucid.core.errors import ConfigError
from translucid.core.spelling import OTHER_TOOLS, OTHER_VALUES, OtherName
from translucid.fast.precision import prepare
from translucid.generate.beam_search import GenerationConfig
from translucid.models.build import build
from translucid.models.mlp import MLPConfig
from translucid.runs.recipe.recipe import MODELS, SECTIONS, keys_by_section, keys_used, parse
from translucid.tasks.base import Task
from translucid.tasks.registry import TASKS

TASK = {"task": {"kind": "translate"}}


def test_every_name_leads_to_one_that_is_here() -> None:
    recipe = {key for keys in keys_by_section().values() for key in keys}
    here = {*recipe, *GenerationConfig.model_fields}
    assert {*OTHER_TOOLS} <= here
    assert not {*" ".join(OTHER_TOOLS.values()).split()} & {*recipe}


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("training.lr=1", r"^training.lr: no such key; did you mean learning_rate\?$"),
        ("training.epochs=1", r"did you mean steps\? \(updates of the weights, not epochs\)$"),
        ("training.batch_size=1", r"did you mean batch_tokens\? \(tokens, not examples\)$"),
        ("model.hidden_size=1", r"^model.hidden_size: no such key; did you mean d_model\?$"),
        ("model.num_layers=1", r"did you mean layers\?$"),
        ("decoding.num_beams=1", r"did you mean beam_size\?$"),
        ("lr=1", r"'lr=1': write overrides as section.key=value; did you mean "
                 r"training.learning_rate=1\?$"),
        ("steps=300", r"did you mean training.steps=300\?$"),
        ("kind=gru", r"'kind=gru': write overrides as section.key=value$"),
    ],
)  # fmt: skip
def test_keys(override: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse(TASK, [override])


@pytest.mark.parametrize(
    ("task", "overrides", "message"),
    [
        ("translate", ["model.kind=recurrent", "model.heads=4"],
         r"^model.heads: a key of model.kind=transformer, not of recurrent; recurrent has cell"),
        ("tag", ["model.kind=recurrent", "model.num_heads=4"],
         r"kind=transformer \(here heads\), not"),
        ("tag", ["model.cell=gru"], "^model.cell: a key of model.kind=recurrent, not of trans"),
        ("regress", ["model.heads=4"], "not of mlp; task regress takes mlp or linear; mlp has hid"),
        ("translate", ["model.shpe=4"], "^model.shpe: no such key; the keys are d_model"),
        ("translate", ["task.temperature=1"],
         "^task.temperature: a key of task embed, not of translate, which has task.label_smooth"),
        ("translate", ["data.label_column=3"],
         "a key of task table or classify, not of translate, which has data.source_column"),
        ("classify", ["decoding.spans=free"], "task tag, not of classify, which has no key of"),
    ],
)  # fmt: skip
def test_keys_of_another_family_or_task(task: str, overrides: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse({"task": {"kind": task}}, overrides)


def test_every_key_is_of_some_task() -> None:
    for section, keys in keys_used(Task).items():
        assert {*keys} == {key for name in TASKS.names() for key in keys_used(TASKS[name])[section]}


@pytest.mark.parametrize("kind", MODELS)
def test_a_key_is_refused_with_its_family_where_this_one_has_it_not(kind: str) -> None:
    task = next(name for name in TASKS.names() if kind in TASKS[name].models)
    model = dict.fromkeys(keys_by_section()["model"], object()) | {"kind": kind}
    with pytest.raises(ConfigError) as refused:
        parse({"task": {"kind": task}, "model": model})
    others = {
        m[6:].partition(":")[0] for m in refused.value.mistakes if ": a key of model.kind=" in m
    }
    assert others == {key for key in model if key not in MODELS[kind].model_fields}


def test_options_of_generation() -> None:
    with pytest.raises(ConfigError, match=r"^nbest: no such key; did you mean n_best\?$"):
        GenerationConfig(nbest=2)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("train classify --lr 0.1", "--lr: no such option; write recipe keys at the end of the "
         "command: training.learning_rate=..."),
        ("train classify --epochs=3", "training.steps=3 (updates of the weights, not epochs)"),
        ("train classify --batch-size=3", "training.batch_tokens=3 (tokens, not examples)"),
        ("train classify --hidden-size=3", "model.hidden=3"),
        ("train classify --steps 3", "training.steps=..."),
        ("resume runs/x --steps=3", "training.steps=3"),
        ("translate runs/x --nbest 3", "--nbest: no such option; did you mean --n-best?"),
        ("translate runs/x --num-beams 3", "did you mean --beam-size?"),
        ("translate runs/x --beams 3", "did you mean --beam-size?"),
        ("train classify --wrong 3", "No such option: --wrong"),
    ],
)  # fmt: skip
def test_the_command_line(words: str, message: str, tmp_path: Path) -> None:
    answer = run(*words.split(), cwd=tmp_path)
    assert answer.returncode == 2
    assert message in answer.stderr


def test_another_spelling_of_an_option_is_understood(tmp_path: Path) -> None:
    answer = run("translate", "runs/x", "--beam_size=3", "--n_best", "2", cwd=tmp_path)
    assert "--beam_size: read as --beam-size" in answer.stderr
    assert "--n_best: read as --n-best" in answer.stderr
    assert "runs/x: no such file or folder" in answer.stderr


def test_options_that_are_there_are_left_alone() -> None:
    assert run("train", "--help").returncode == 0
    assert run("translate", "-h").returncode == 0


@pytest.mark.parametrize("value", OTHER_VALUES["precision"])
def test_a_precision_by_another_name_is_taken_and_said(value: str) -> None:
    today = OTHER_VALUES["precision"][value]
    with pytest.warns(
        OtherName, match=rf"^training.precision: using {today} for {value}; write {today}$"
    ):
        chosen = parse(TASK, [f"training.precision={value}"])
    assert chosen.training.precision == today


def test_the_same_of_a_model_that_decodes(tmp_path: Path) -> None:
    network = build(MLPConfig(inputs=2, outputs=1, hidden=[2]))
    with pytest.warns(OtherName, match="precision: using float32 for fp32; write float32"):
        prepare(network, "fp32")  # type: ignore[arg-type]


def test_every_section_is_looked_through() -> None:
    assert keys_by_section().keys() == {*SECTIONS, "model"}
    assert {"kind", "hidden", "layers"} <= {*keys_by_section()["model"]}
    assert {*MODELS} == {"transformer", "recurrent", "mlp", "linear", "ngram", "lexicon"}
