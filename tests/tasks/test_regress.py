"""Regression in the units of the data: what is learnt is standardised, what is answered is not."""

import json
import random
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.in_process import run

from translucid.core.errors import InputError
from translucid.data.features import Columns
from translucid.data.readers.loading import Loading
from translucid.data.records import TableRow
from translucid.model import Model, load
from translucid.models import build
from translucid.models.mlp import MLPConfig
from translucid.runs.recipe import recipe
from translucid.runs.run import train_recipe
from translucid.tasks.options import DataConfig, Resources
from translucid.tasks.outputs import Scale
from translucid.tasks.regress import Regress
from translucid.tasks.table import Table

Row = tuple[float, ...]
SMALL = {"steps": 30, "batch_tokens": 64, "warmup": 2, "learning_rate": 0.01, "device": "cpu"}


def houses(count: int, seed: str) -> list[Row]:
    """area, rooms, age, price: what a house costs is nearly a plane over the rest."""
    draw = random.Random(seed)
    rows = []
    for _ in range(count):
        area, age = draw.uniform(40, 250), draw.uniform(0, 80)
        rooms = max(1, round(area / 30 + draw.gauss(0, 1)))
        price = 2100 * area + 9000 * rooms - 1100 * age + 60000 + draw.gauss(0, 12000)
        rows.append((area, float(rooms), age, price))
    return rows


def write(path: Path, rows: Sequence[Row]) -> str:
    lines = ["area,rooms,age,price", *(",".join(map(str, row)) for row in rows)]
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return str(path)


def least_squares(train: Sequence[Row], test: Sequence[Row]) -> float:
    """R² on the test rows."""
    (x, y), (tx, ty) = (
        (np.c_[np.ones(len(rows)), np.array(rows)[:, :-1]], np.array(rows)[:, -1])
        for rows in (train, test)
    )
    error = ty - tx @ np.linalg.lstsq(x, y, rcond=None)[0]
    return float(1 - (error**2).sum() / ((ty - ty.mean()) ** 2).sum())


@pytest.mark.slow
def test_an_ordinary_table_is_learnt_as_well_as_least_squares_does(tmp_path: Path) -> None:
    train, test = houses(400, "train"), houses(200, "test")
    files = [write(tmp_path / name, rows) for name, rows in (("a.csv", train), ("b.csv", test))]
    done = run(
        "train", "regress", "--train", files[0], "--test", files[1], "--out", "r",
        "training.steps=600", cwd=tmp_path,  # of 3,000, which learn no more
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    numbers = json.loads((tmp_path / "r/test.json").read_text("utf-8"))["test"]
    expected = least_squares(train, test)
    assert expected > 0.95
    assert numbers["r_squared"] > expected - 0.02
    assert numbers["rmse"] < 20000  # in the unit of the prices
    model = load(tmp_path / "r")
    rows = [row[:-1] for row in test]
    answers = [answer for (answer,) in model.predict(rows)]
    error = np.array(answers) - np.array([row[-1] for row in test])
    assert numbers["rmse"] == pytest.approx(float(np.sqrt((error**2).mean())), rel=1e-9)


def points(count: int = 40) -> list[TableRow]:
    """Two inputs far from 0, and two outputs of unlike size."""
    draw = random.Random("points")
    return [
        TableRow((a := draw.gauss(5e6, 3e4), b := draw.gauss(-2, 1e-3)),
                (a / 1e3 + b, 7 * b), line)
        for line in range(1, count + 1)
    ]  # fmt: skip


def task(records: Sequence[TableRow], standardise: bool = True) -> Regress:
    measured = Regress.measure(records, DataConfig(standardise=standardise))
    return Regress.make(Resources(statistics=json.loads(json.dumps(measured))))


def test_what_the_network_reads_has_mean_0_and_deviation_1() -> None:
    records = points()
    made = task(records)
    batch = made.collate([made.encode(record) for record in records])
    for values in (batch.inputs["x"].double(), batch.targets.double()):
        assert values.mean(dim=0).abs().max() < 1e-6
    x, y = batch.inputs["x"], batch.targets
    for column in (x[:, 0], x[:, 1], y[:, 0], y[:, 1]):
        assert float(column.std(correction=0)) == pytest.approx(1, rel=1e-5)
    plain = task(records, standardise=False)
    raw = plain.collate([plain.encode(record) for record in records])
    assert raw.inputs["x"].tolist() == torch.tensor([r.inputs for r in records]).tolist()


def test_scores_and_answers_are_those_of_a_network_with_the_scale_built_in() -> None:
    """The same weights, once behind the task's scale and once with it folded into the layers."""
    records = points()
    made, plain = task(records), Regress(Columns.numbers(["a", "b"]))
    assert made.columns.scale is not None
    assert made.target_scale is not None
    torch.manual_seed(0)
    inner = build(MLPConfig(inputs=2, hidden=(), outputs=2)).double()
    outer = build(MLPConfig(inputs=2, hidden=(), outputs=2)).double()
    weights = {name: value.detach() for name, value in inner.named_parameters()}
    mean, deviation = torch.tensor(made.columns.scale).double().T
    shift, size = (torch.tensor(part).double() for part in vars(made.target_scale).values())
    w, b = (weights[name] for name in sorted(weights, key=lambda name: -weights[name].dim()))
    folded = {2: size[:, None] * w / deviation, 1: size * (b - w @ (mean / deviation)) + shift}
    with torch.no_grad():
        for parameter in outer.parameters():
            parameter.copy_(folded[parameter.dim()])
    items = [made.encode(record) for record in records]
    x = torch.tensor([record.inputs for record in records], dtype=torch.float64)
    expected = outer(x).detach()
    # The task hands on float32, so weights of float32 read it.
    answers = torch.tensor(made.predict(inner.float(), items), dtype=torch.float64)
    torch.testing.assert_close(answers, expected, rtol=1e-5, atol=1e-3)
    score = made.evaluate(inner, items).numbers
    error = answers - torch.tensor([record.outputs for record in records]).double()
    assert score["rmse"] == pytest.approx(float(error.square().mean().sqrt()), rel=1e-6)
    loss = float(made.loss(inner, made.collate(items)).detach()) / error.numel()
    assert score["loss"] == pytest.approx(loss, rel=1e-4)
    assert plain.predict(inner, items) != answers.tolist()


def small_model(folder: Path, **data: object) -> Model:
    file = write(folder / "a.csv", houses(60, "small"))
    values = {
        "task": {"kind": "regress"}, "data": {"train": [file], "test": [file], **data},
        "model": {"hidden": [8]}, "training": SMALL,
    }  # fmt: skip
    return Model(train_recipe(recipe.parse(values), folder / "run", quiet=True))


def test_answers_of_a_saved_model_are_in_the_units_of_the_data(tmp_path: Path) -> None:
    model = small_model(tmp_path)
    again = load(tmp_path / "run")
    text = "120 4 10"
    ((answer,),) = model.predict([text])
    assert again.predict([text]) == model.predict([(120, 4, 10)]) == [[answer]]
    assert answer > 50000
    reading = again.trace(text, "300000")
    assert reading.words.features == ("area = 120", "rooms = 4", "age = 10")
    walk = str(reading.walk())
    assert "Numbers are standardised" in walk.replace("\n", " ")
    assert f"{answer:.6g}" in walk.replace(",", "")
    assert again.task.outputs.plain(reading.output_values) == [pytest.approx(answer, rel=1e-9)]
    ending = again.task.outputs.endings(reading.example, reading.output_values, 3)[0][0]
    made, wanted = ending.rows[0].cells
    assert (made.value, wanted.value) == pytest.approx((answer, 300000), rel=1e-6)
    assert again.saliency(text).answer.name == "output 1 (standardised)"
    config = json.loads((tmp_path / "run/best/config.json").read_text("utf-8"))
    assert config["statistics"]["targets"]["deviation"][0] > 10000


def test_regress_and_table_read_the_same_columns(tmp_path: Path) -> None:
    """One mechanism: from the same cells, both tasks learn the same columns and features, and
    report the same mistakes."""
    rows = [f'{n % 9},{5 + n}.5,"{n},5",{n % 3}' for n in range(30)]
    rows[4] = '4,,"4,5",1'
    file = tmp_path / "a.csv"
    file.write_text("\n".join(["a,b,c,y", *rows]), "utf-8")
    known: list[Any] = []
    for task in (Regress, Table):
        data = DataConfig()
        records = list(task.read([str(file)], data, Loading()))
        measured = task.measure(records, data)
        made = task.make(Resources(statistics=measured, labels=("0", "1", "2")))
        known.append((measured["columns"], [made.encode(one).features for one in records],
                      made.remarks(["900", "7", "1,5"])))  # fmt: skip
        with pytest.raises(InputError, match=r"row 1: c is '1\.5', but a number is needed"):
            made.row_item(["1", "2", "1.5"], "row 1")
    assert known[0] == known[1]
    assert [one["kind"] for one in known[0][0]] == ["number"] * 3


def test_statistics_of_an_earlier_version_give_the_same_features() -> None:
    records = points()
    made = task(records)
    values = [tuple(map(float, record.inputs)) for record in records]
    stored = {"inputs": asdict(Scale.of(values, "input")), "targets": asdict(made.target_scale)}  # type: ignore[arg-type]
    restored = Regress.restore_statistics(stored, 2, {"input": ("a", "b")})
    again = Regress.make(Resources(statistics=json.loads(json.dumps(restored))))
    for record in records:
        features = again.row_item(record.inputs, "row").features
        assert features == pytest.approx(made.encode(record).features, rel=1e-12)
    assert again.columns.ids == ("a", "b")
    assert Regress.restore_statistics({}, 2, {})["columns"][1]["column"] == "x2"
    assert Regress.restore_statistics(restored, 2, {}) is restored


def test_without_standardising_the_network_reads_raw_numbers(tmp_path: Path) -> None:
    model = small_model(tmp_path, standardise=False)
    config = json.loads((tmp_path / "run/best/config.json").read_text("utf-8"))
    assert [one["standardised"] for one in config["statistics"]["columns"]] == [False] * 3
    assert "targets" not in config["statistics"]
    ((answer,),) = model.predict(["1 2 3"])
    assert answer == float(model.network(torch.tensor([[1.0, 2.0, 3.0]]))[0, 0].detach())
    assert model.trace("1 2 3").words.features == ("area", "rooms", "age")


def test_columns_too_large_to_standardise_are_refused() -> None:
    with pytest.raises(InputError, match=r"input 2 is too large"):
        Scale.of([(1.0, 1e200), (2.0, -1e308), (3.0, 1e308)], "input")


def test_overflow_within_the_model_is_refused_by_row(tmp_path: Path) -> None:
    """In Python by its row, on the command line by file and line, in a score as a warning."""
    model = small_model(tmp_path)
    for weight in model.network.parameters():
        weight.data *= 1e18
    model.save(tmp_path / "large")
    rows = [[1.0, 2.0, 3.0], [3e12, 3e12, 3e12]]
    with pytest.raises(InputError, match=r"row 2: .* overflow"):
        model.predict(rows)
    with pytest.raises(InputError, match="overflow"):
        model.predict(["3e12 3e12 3e12"])
    file = tmp_path / "new.csv"
    file.write_text("area,rooms,age\n1,2,3\n1,2,4\n3e12,3e12,3e12\n", "utf-8")
    for words in ([str(file)], [str(file), "--json"]):
        done = run("predict", str(tmp_path / "large"), *words)
        assert done.returncode == 2
        assert f"{file}:4: " in done.stderr
        assert "overflow" in done.stderr
        assert "nan" not in done.stdout.lower()
    items = [
        replace(model.task.row_item(row, "row"), targets=(1.0 + n,)) for n, row in enumerate(rows)
    ]
    (warned,) = model.task.evaluate(model.network, items).warnings
    assert "1 of 2 rows" in warned
    assert "not finite" in warned


@pytest.mark.parametrize(
    "statistics",
    [
        {"inputs": {"mean": [0.0], "deviation": [0.0]}, "targets": {"mean": [0], "deviation": [1]}},
        {"inputs": {"mean": [0.0], "deviation": ["1"]}, "targets": {"mean": [0], "deviation": [1]}},
        {"inputs": {"mean": [0.0], "deviation": []}, "targets": {"mean": [0], "deviation": [1]}},
        {"inputs": {"mean": [0.0, 1.0], "deviation": [1.0, 1.0]}},
    ],
)
def test_invalid_statistics_are_refused(statistics: dict[str, Any]) -> None:
    """Statistics as an earlier version stored them."""
    with pytest.raises(TypeError):
        Regress.restore_statistics(statistics, 1, {})


def test_statistics_of_other_columns_are_refused() -> None:
    scale = Scale([0.0, 1.0], [1.0, 2.0])
    with pytest.raises(InputError, match="3 numbers, but the model was trained on"):
        scale.apply((1.0, 2.0, 3.0))
    with pytest.raises(InputError, match="1 numbers, but the model"):
        scale.undo(torch.zeros(4, 1))
    assert scale.apply(()) == []
