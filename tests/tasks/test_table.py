"""Classification of table rows, from the command line to the studio's example."""

import json
import math
import random
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from tests.in_process import run
from tests.runs.test_resume import after, same_runs

import translucid as tl
from translucid.core.errors import ConfigError, InputError, Interrupted
from translucid.data.records import Header, TableRow
from translucid.models import LinearConfig, LinearScores, MLPConfig, build
from translucid.models.linear import CLASS_PENALTIES
from translucid.runs.recipe import recipe
from translucid.runs.run import resume_run, train_recipe
from translucid.see.class_pictures import pictures
from translucid.tasks import model_folder
from translucid.tasks.class_report import ClassReport
from translucid.tasks.options import DataConfig, DecodingConfig, Resources
from translucid.tasks.table import Table
from translucid.tasks.vocabulary import weights_of

COLUMNS = ("id", "age", "city", "since", "rate", "member", "churned")
SMALL = {"steps": 12, "evaluate_every": 4, "batch_tokens": 32, "device": "cpu"}


def customers(count: int, seed: str) -> list[list[str]]:
    """Rows of mixed columns with missing values; the label depends on age, city and rate."""
    draw, rows = random.Random(seed), []
    for number in range(1, count + 1):
        age, city = draw.randint(18, 90), draw.choice(["Bonn", "Ulm", "Kiel"])
        rate, member = draw.uniform(0, 30), draw.choice(["yes", "no"])
        since = f"{draw.randint(1, 28):02}.{draw.randint(1, 12):02}.20{draw.randint(15, 23)}"
        score = (age - 50) / 15 + 1.5 * (city == "Bonn") - (rate - 15) / 10 + draw.gauss(-0.5, 0.5)
        shown = f"{rate:.1f} %".replace(".", ",")
        rows.append(
            [str(number), str(age) if draw.random() > 0.1 else "", city, since, shown, member,
             "stays" if score < 0 else "leaves"]
        )  # fmt: skip
    return rows


def write(path: Path, rows: list[list[str]], columns: tuple[str, ...] = COLUMNS) -> str:
    text = "\n".join(";".join(row) for row in [list(columns), *rows]) + "\n"
    path.write_text(text, "utf-8")
    return str(path)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder of a run, and what its command printed."""
    folder = tmp_path_factory.mktemp("customers")
    for part, count in (("train", 300), ("test", 80)):
        write(folder / f"{part}.csv", customers(count, part))
    done = run(
        "train", "table", "--train", "train.csv", "--test", "test.csv", "--out", "run",
        "data.label_column=churned", "training.steps=12", "training.evaluate_every=6",
        "training.baseline=true", "training.keep_baseline=true", "training.device=cpu", cwd=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder, done.stdout + done.stderr


def test_training_prints_how_each_column_is_read(trained: tuple[Path, str]) -> None:
    _, printed = trained
    assert "id: ignored, an identifier: numbers the rows" in printed
    assert "age: number, 18 to 90;" in printed
    assert "city: category, 3: Bonn, Kiel, Ulm" in printed
    assert "since: date, 2015" in printed
    assert "% with decimal commas" in printed
    assert "member: yes/no, yes or no" in printed


def test_scores_are_those_of_the_predicted_probabilities(trained: tuple[Path, str]) -> None:
    """accuracy, F1, log-loss and calibration, computed a second time from `predict`."""
    folder, _ = trained
    done = run("predict", "run", "test.csv", "--probabilities", cwd=folder)
    assert done.returncode == 0, done.stderr
    head, *lines = [line.split(";") for line in done.stdout.splitlines()]
    rows = [dict(zip(head, line, strict=True)) for line in lines]
    gold = [row["churned"] for row in rows]
    labels = sorted(set(gold))
    chances = np.array([[float(row[f"probability_{name}"]) for name in labels] for row in rows])
    predicted = [labels[place] for place in chances.argmax(axis=1)]
    assert predicted == [row["predicted_label"] for row in rows]
    hits = np.array([p == g for p, g in zip(predicted, gold, strict=True)])
    loss = -np.mean([math.log(c[labels.index(g)]) for c, g in zip(chances, gold, strict=True)])
    score = tl.load(folder / "run").evaluate(str(folder / "test.csv"))
    assert score.numbers["accuracy"] == pytest.approx(hits.mean())
    assert score.numbers["loss"] == pytest.approx(loss, rel=1e-4)
    best = chances.max(axis=1)
    error = sum(
        abs(best[inside].sum() - hits[inside].sum())
        for n in range(10)
        for inside in [(best >= n / 10) & (best < (n + 1) / 10 + (n == 9))]
    )
    assert score.numbers["calibration_error"] == pytest.approx(error / len(rows), abs=1e-5)
    assert score.report is not None
    assert sum(map(sum, score.report.counts)) == len(rows)
    for place, name in enumerate(labels):
        both = sum(p == g == name for p, g in zip(predicted, gold, strict=True))
        own = score.report.of_label(place)
        assert own["precision"] == pytest.approx(both / max(predicted.count(name), 1))
        assert own["recall"] == pytest.approx(both / gold.count(name))


def test_evaluate_prints_and_draws_the_report(trained: tuple[Path, str], tmp_path: Path) -> None:
    folder, _ = trained
    figure = tmp_path / "r.svg"
    done = run("evaluate", "run", "test.csv", "--figure", str(figure), cwd=folder)
    assert done.returncode == 0, done.stderr
    for words in ("precision", "confusion matrix", "expected calibration error"):
        assert words in done.stdout
    assert "leaves" in figure.read_text("utf-8")
    assert "<svg" in (tmp_path / "r-calibration.svg").read_text("utf-8")
    as_json = json.loads(run("evaluate", "run", "test.csv", "--json", cwd=folder).stdout)
    counts = as_json["report"]["confusion"]["counts"]
    assert sum(map(sum, counts)) == 80
    wrong = run("evaluate", "run", "test.csv", "--figure", "r.gif", cwd=folder)
    assert wrong.returncode != 0
    assert "r.gif" in wrong.stderr


def test_rows_as_lines_dicts_lists_and_tables_get_the_same_answer(
    trained: tuple[Path, str],
) -> None:
    model = tl.load(trained[0] / "run")
    row: dict[str, Any] = {
        "age": 41, "city": "Bonn", "since": "03.05.2019", "rate": 12.5, "member": True,
    }  # fmt: skip
    line = '41,Bonn,03.05.2019,"12,5 %",yes'
    ways = [
        model.predict([row]),
        model.predict([row | {"member": "yes", "rate": "12,5 %", "id": 7}]),
        model.predict([[*row.values()]]),
        model.predict([["7", *row.values()]]),  # with the identifier, which is ignored
        model.predict([line]),
        model.predict([json.dumps(row)]),
        model.predict({name: [value] for name, value in row.items()}),
    ]
    for answers in ways:
        assert answers == ways[0]
    trace = model.trace(row)
    logits = trace["output.dense.activation"][0]
    assert float(logits.softmax(-1).max()) == pytest.approx(ways[0][0].probability, rel=1e-5)
    assert "age = 41" in trace.words.features
    assert "city=Bonn" in trace.words.features
    assert model.saliency(row).tokens == trace.words.features
    assert "age = 41 → " in str(model.explain(line))


def test_what_is_unlike_the_training_data_is_shown_beside_the_answer(
    trained: tuple[Path, str],
) -> None:
    folder, _ = trained
    rows = customers(3, "new")
    rows[1][1], rows[2][2] = "130", "Rom"
    write(folder / "new.csv", rows)
    done = run("predict", "run", "new.csv", cwd=folder)
    head, *lines = done.stdout.splitlines()
    assert head.endswith("note")
    assert lines[0].endswith(";")
    assert "age = 130 is above all training values" in lines[1]
    assert "'Rom'" in lines[2]
    assert "2 of 3 rows have values unlike those of the training data" in done.stderr
    scored = run("evaluate", "run", "new.csv", cwd=folder)
    assert "warning: 2 of 3 rows have values unlike" in scored.stdout


BAD = {
    "a word for a number": (1, "abc", r"bad\.csv:3: age is 'abc', but a number is needed"),
    "no number at all": (4, "viel", r"bad\.csv:3: rate is 'viel'"),
    "neither yes nor no": (5, "maybe", r"bad\.csv:3: member is 'maybe', but yes or no"),
    "no date": (3, "31.02.2020", r"bad\.csv:3: since is '31\.02\.2020', but a date is needed"),
    "an absurd number": (1, "1e200", r"bad\.csv:3: age is '1e200'.*too different"),
    "an unknown label": (6, "goes", r"bad\.csv:3: the model has no label 'goes'"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_cell_is_refused_with_file_line_column_and_value(
    case: str, trained: tuple[Path, str]
) -> None:
    place, cell, message = BAD[case]
    rows = customers(3, "bad")
    rows[1][place] = cell
    write(trained[0] / "bad.csv", rows)
    with pytest.raises(InputError, match=message):
        tl.load(trained[0] / "run").evaluate(str(trained[0] / "bad.csv"))
    if case != "an unknown label":
        done = run("predict", "run", "bad.csv", cwd=trained[0])
        assert done.returncode != 0
        assert f"{cell!r}" in done.stderr


def test_a_row_with_too_few_cells_is_refused(trained: tuple[Path, str]) -> None:
    folder, _ = trained
    (folder / "short.csv").write_text(",".join(COLUMNS) + "\n1,2\n", "utf-8")
    done = run("predict", "run", "short.csv", cwd=folder)
    assert "short.csv:2: " in done.stderr
    assert "2 cells" in done.stderr
    with pytest.raises(InputError, match="the column 'city' is missing"):
        tl.load(folder / "run").predict([{"age": 3}])


def test_a_saved_model_gives_equal_logits(trained: tuple[Path, str], tmp_path: Path) -> None:
    model = tl.load(trained[0] / "run")
    model.save(tmp_path / "copy")
    again = tl.load(tmp_path / "copy")
    line = '41,Bonn,03.05.2019,"12,5 %",yes'
    for point in ("output.dense.activation",):
        assert torch.equal(model.trace(line)[point], again.trace(line)[point])
    kinds = json.loads((tmp_path / "copy/config.json").read_text("utf-8"))["statistics"]["columns"]
    assert {column["column"]: column["kind"] for column in kinds} == {
        "id": "ignore", "age": "number", "city": "category", "since": "date", "rate": "number",
        "member": "yes/no",
    }  # fmt: skip


def test_thresholds_decide_which_label_is_predicted(trained: tuple[Path, str]) -> None:
    folder, _ = trained
    model = tl.load(folder / "run")
    file = str(folder / "test.csv")
    plain = model.evaluate(file)
    always = model.evaluate(file, thresholds={"leaves": 0.0})
    never = model.evaluate(file, thresholds={"leaves": 1.0})
    for score, column in ((always, 0), (never, 1)):
        assert score.report is not None
        assert sum(row[column] for row in score.report.counts) == 80
    assert plain.numbers["loss"] == always.numbers["loss"]
    done = run("predict", "run", "test.csv", "--threshold", "leaves=0", cwd=folder)
    assert "'leaves' is predicted from probability 0" in done.stderr
    assert Counter(line.split(";")[-3] for line in done.stdout.splitlines()[1:]) == {"leaves": 80}
    wrong = run("predict", "run", "test.csv", "--threshold", "goes=0.5", cwd=folder)
    assert "there is no label 'goes'" in wrong.stderr


@pytest.mark.parametrize("threshold", [0.2, 0.5, 0.8])
def test_a_threshold_is_applied_to_the_probability_of_its_label(
    threshold: float, trained: tuple[Path, str]
) -> None:
    """With two labels: compared row by row with the probabilities that `predict` prints."""
    folder, _ = trained
    words = ["predict", "run", "test.csv", "--probabilities", "--threshold", f"leaves={threshold}"]
    head, *lines = run(*words, cwd=folder).stdout.splitlines()
    rows = [dict(zip(head.split(";"), line.split(";"), strict=True)) for line in lines]
    predicted = [row["predicted_label"] == "leaves" for row in rows]
    assert predicted == [float(row["probability_leaves"]) >= threshold for row in rows]
    score = tl.load(folder / "run").evaluate(
        str(folder / "test.csv"), thresholds={"leaves": threshold}
    )
    right = [row["predicted_label"] == row["churned"] for row in rows]
    assert score.numbers["accuracy"] == pytest.approx(sum(right) / len(rows))


def test_below_its_threshold_a_label_leaves_the_choice_to_the_others() -> None:
    made = Table(task().columns, ("a", "b", "c"), thresholds={"b": 0.4})
    assert made.choose([0.5, 0.45, 0.05]) == 1
    assert made.choose([0.3, 0.39, 0.31]) == 2
    assert Table(made.columns, ("a", "b", "c")).choose([0.3, 0.39, 0.31]) == 1


def test_two_thresholds_are_refused(trained: tuple[Path, str]) -> None:
    two = ["--threshold", "leaves=0.2", "--threshold", "stays=0.7"]
    done = run("predict", "run", "test.csv", *two, cwd=trained[0])
    assert done.returncode == 2
    assert "--threshold is given 2 times" in done.stderr
    done = run(
        "train", "table", "--train", "train.csv", "--out", "two", "data.label_column=churned",
        "decoding.thresholds={leaves=0.2, stays=0.7}", cwd=trained[0],
    )  # fmt: skip
    assert done.returncode == 2
    assert "threshold of one label" in done.stderr


DAMAGED: dict[str, tuple[tuple[str, ...], Any, str]] = {
    "no list": ((), {"age": 3}, "should be a valid"),
    "an unknown kind": (("age", "kind"), "colour", "colour"),
    "a missing mean": (("age", "mean"), None, "age|mean"),
    "a deviation of 0": (("age", "deviation"), 0.0, "deviation"),
    "no categories": (("city", "categories"), [], "categories"),
    "an unknown order of dates": (("since", "order"), ["d", "d", "d"], "order"),
    "a column that is no name": (("age", "column"), [1], "column"),
    "fewer features": (("city", "categories"), ["Bonn"], "features, but the network reads"),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_damaged_columns_of_a_model_are_refused(case: str, trained: tuple[Path, str]) -> None:
    """Opened and used with statistics that the checksums of the folder would not allow."""
    place, value, message = DAMAGED[case]
    held = model_folder.load(trained[0] / "run/best")
    statistics = json.loads(json.dumps(held.statistics))
    if place:
        column = next(one for one in statistics["columns"] if one["column"] == place[0])
        column[place[1]] = value
    else:
        statistics["columns"] = value

    def ask() -> None:
        model = tl.Model(replace(held, statistics=statistics))
        model.task.check_question("41,Bonn,03.05.2019,3 %,yes", "row 1", model.network)

    with pytest.raises(InputError, match=message) as refused:
        ask()
    assert "copy the whole model again" in str(refused.value)


def test_a_changed_file_of_a_model_is_refused(trained: tuple[Path, str], tmp_path: Path) -> None:
    shutil.copytree(trained[0] / "run/best", tmp_path / "model")
    file = tmp_path / "model/config.json"
    file.write_text(file.read_text("utf-8").replace("Bonn", "Born"), "utf-8")
    done = run("predict", "model", str(trained[0] / "test.csv"), cwd=tmp_path)
    assert done.returncode == 2
    assert "config.json is damaged or was changed" in done.stderr


def records(count: int = 40) -> list[TableRow]:
    draw, header = random.Random("records"), Header("t.csv", ("a", "b"))
    rows = []
    for line in range(1, count + 1):
        a, b = draw.gauss(0, 1), draw.choice("xyz")
        label = "p" if a + (b == "x") + draw.gauss(0, 0.5) > 1 else "n"
        rows.append(TableRow((a, b), (label,), line, header))
    return rows


def task(weights: tuple[float, ...] = (), **options: Any) -> Table:
    measured = json.loads(json.dumps(Table.measure(records(), DataConfig())))
    decoding = DecodingConfig(**options)
    return Table.make(
        Resources(labels=("n", "p"), statistics=measured, class_weights=weights, decoding=decoding)
    )


def test_class_weights_count_a_row_several_times() -> None:
    """A label with weight 3 is a label whose rows occur three times: in the loss, and in the
    logistic regression."""
    rows = records()
    plain, weighted = task(), task((1.0, 3.0))
    items = [plain.encode(row) for row in rows]
    tripled = items + 2 * [item for item in items if item.targets == (1,)]
    torch.manual_seed(0)
    network = build(MLPConfig(inputs=len(plain.columns.names), outputs=2, head="classify"))
    one, other = (
        weighted.loss(network, weighted.collate(items)),
        plain.loss(network, plain.collate(tripled)),
    )
    assert one.item() == pytest.approx(other.item(), rel=1e-5)
    assert weighted.metric == "macro_f1"
    balanced = weights_of("balanced", ("n", "p"), [row.label for row in rows])
    counts = Counter(row.label for row in rows)
    assert balanced[0] * counts["n"] == pytest.approx(balanced[1] * counts["p"])
    assert balanced[0] * counts["n"] + balanced[1] * counts["p"] == pytest.approx(len(rows))
    with pytest.raises(ConfigError, match="no label 'q'"):
        weights_of({"q": 2.0}, ("n", "p"), [])


@pytest.mark.parametrize("weights", [(), (1.0, 4.0)])
def test_the_linear_model_is_the_minimum_of_logistic_regression(weights: tuple[float, ...]) -> None:
    """At the fitted weights, the gradient of the loss plus the penalty is 0 for one of the
    penalties."""
    made = task(weights)
    items = [made.encode(row) for row in records(120)]
    batch = made.collate(items)
    network = build(
        LinearConfig(inputs=len(made.columns.names), outputs=2, head="classify")
    ).double()
    assert isinstance(network, LinearScores)
    network.class_weights = weights
    network.fit([(batch.inputs, batch.targets)])
    deviation = batch.inputs["x"].double().std(dim=0, correction=0)
    weight = network.output.linear.weight.detach().requires_grad_()
    logits = batch.inputs["x"].double() @ weight.T + network.output.linear.bias.detach()
    importance = torch.tensor(weights).double() if weights else None
    F.cross_entropy(logits, batch.targets, weight=importance, reduction="sum").backward()
    assert weight.grad is not None
    errors = [
        (weight.grad / deviation + penalty * weight.detach() * deviation).abs().max().item()
        for penalty in CLASS_PENALTIES
    ]
    assert 20 * min(errors) < sorted(errors)[1]


def test_a_report_of_known_predictions() -> None:
    report = ClassReport.of(("a", "b"), [0, 0, 1, 1], [0, 1, 1, 1], [0.9, 0.6, 0.75, 1.0])
    assert report.counts == ((1, 1), (0, 2))
    assert report.of_label(1)["precision"] == pytest.approx(2 / 3)
    assert report.of_label(0)["recall"] == 0.5
    # 0.6 (wrong), 0.75 (right), and 0.9 with 1.0 (right): |0.6| + |0.25| + |0.1|, over 4
    assert report.calibration_error == pytest.approx((0.6 + 0.25 + 0.1) / 4)
    matrix, calibration = pictures(report)
    assert matrix.as_dict()["texts"] == [["1", "1"], ["0", "2"]]
    assert calibration.as_dict()["series"]["correct"][6:] == [0.0, 1.0, None, 1.0]


@pytest.mark.slow
def test_a_resumed_run_on_a_table_is_the_uninterrupted_run(tmp_path: Path) -> None:
    data = {"train": [write(tmp_path / "train.csv", customers(80, "t"))], "label_column": "churned"}
    values = {
        "task": {"kind": "table", "class_weights": "balanced"}, "data": data, "training": SMALL,
        "model": {"dropout": 0.2, "hidden": [8]},
    }  # fmt: skip
    test = {"test": [write(tmp_path / "test.csv", customers(40, "u"))]}
    chosen = recipe.parse(values | {"data": data | test})
    train_recipe(chosen, tmp_path / "whole", quiet=True)
    with pytest.raises(Interrupted):
        train_recipe(chosen, tmp_path / "parts", quiet=True, interrupted=after(7))
    resume_run(tmp_path / "parts", quiet=True)
    same_runs(tmp_path / "whole", tmp_path / "parts")


def tuned(folder: Path, *words: str) -> tuple[Path, str]:
    """Start from the trained model with other rows of a narrower range, at a rate that changes
    nothing."""
    out = folder / f"tuned-{len(list(folder.glob('tuned-*')))}"
    done = run(
        "train", "table", "--from", "run/best", "--out", out.name, "data.label_column=churned",
        "training.device=cpu", "training.steps=2", "training.learning_rate=1e-12", *words,
        cwd=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return out, done.stdout + done.stderr


def test_a_model_that_starts_from_another_reads_rows_in_the_same_way(
    trained: tuple[Path, str],
) -> None:
    """Also if the new rows have other means and categories; its test score is the one to beat."""
    folder, _ = trained
    young = [row for row in customers(200, "young") if row[1] and int(row[1]) < 50]
    write(folder / "young.csv", [row for row in young if row[2] != "Kiel"])
    out, printed = tuned(folder, "--train", "young.csv", "--test", "test.csv")
    assert "columns: as in the start model" in printed
    old, new = tl.load(folder / "run"), tl.load(out)
    file = str(folder / "test.csv")
    scores = old.evaluate(file).numbers
    assert new.evaluate(file).numbers == pytest.approx(scores, rel=1e-4)
    result = json.loads((out / "test.json").read_text("utf-8"))
    assert result["baseline"]["name"] == "start model run/best"
    assert result["baseline"]["test"] == scores
    assert "Use the start model: translucid predict run/best" in printed
    (out / "test.json").unlink()
    resume_run(out, quiet=True)
    assert json.loads((out / "test.json").read_text("utf-8")) == result


def test_other_labels_get_a_new_last_layer(trained: tuple[Path, str]) -> None:
    folder, _ = trained
    rows = customers(60, "labels")
    for number, row in enumerate(rows):
        row[6] = "abc"[number % 3]
    write(folder / "abc.csv", rows)
    out, printed = tuned(folder, "--train", "abc.csv")
    assert "the last layer, since the start model's labels are leaves, stays" in printed
    ours, theirs = (load_file(path / "best/model.safetensors") for path in (out, folder / "run"))
    assert len(ours["output.linear.weight"]) == 3
    for name in [name for name in theirs if not name.startswith("output.")]:
        assert torch.allclose(ours[name], theirs[name], atol=1e-6)


def test_a_baseline_or_other_sizes_are_no_start(trained: tuple[Path, str]) -> None:
    words = ["train", "table", "--train", "train.csv", "--out", "no", "data.label_column=churned"]
    done = run(*words, "--from", "run/baseline", cwd=trained[0])
    assert done.returncode == 2
    assert "a linear model for task table; task table starts from an mlp" in done.stderr
    done = run(*words, "--from", "run/best", "model.hidden=[3]", cwd=trained[0])
    assert done.returncode == 2
    assert "the model that training starts from has (128, 128)" in done.stderr


@pytest.mark.slow
def test_regress_reads_the_same_mixed_tables(tmp_path: Path) -> None:
    """The target is a function of a category and a number with missing values, which a linear
    model on their features computes exactly."""
    rows = customers(200, "prices")
    for row in rows:
        age = float(row[1]) if row[1] else 40.0
        row[6] = str(2 * age + 30 * (row[2] == "Bonn"))
    names = (*COLUMNS[:6], "price")
    write(tmp_path / "prices.csv", rows, names)
    done = run(
        "train", "regress", "--train", "prices.csv", "--out", "r", "model.kind=linear",
        "data.input_columns=age,city", "training.device=cpu", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "city: category" in done.stderr + done.stdout
    model = tl.load(tmp_path / "r")
    answers = model.predict([{"age": 50, "city": "Bonn"}, {"age": None, "city": "Ulm"}])
    assert answers[0][0] == pytest.approx(130, abs=0.1)
    assert answers[1][0] == pytest.approx(80, abs=0.1)
    assert "age = 50" in model.trace("50,Bonn").words.features
    assert float(model.predict(["50,Bonn"])[0][0]) == pytest.approx(answers[0][0])
