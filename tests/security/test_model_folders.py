"""Model folders that are broken or made to hurt: each is refused by a named error, soon, without
memory being taken for what it claims, and nothing outside it is touched."""

import os
import shutil
import stat
import time
from pathlib import Path

import pytest
import torch
from bench.attempts import BAD, Tally, attempt, harm, snapshot
from bench.hostile_models import (
    MODELS,
    ask,
    header_change,
    hostile_models,
    json_change,
    seal,
    train_models,
    weights_change,
)
from tests.in_process import run
from tests.tiny.once import once

import translucid as tl
from translucid.core.errors import InputError
from translucid.core.weights import declared_sizes


def train(folder: Path) -> None:
    def command(*words: str) -> None:
        answer = run(*words, cwd=folder)
        assert answer.returncode == 0, answer.stderr

    train_models(folder, command)


@pytest.fixture
def good() -> Path:
    return once("models to attack", train)


def attack(good: Path, place: Path, count: int | None, seed: int = 0) -> Tally:
    """So many hostile folders, one after the other."""
    tally = Tally("model folders")
    for case in hostile_models(good, count, seed):
        shutil.copytree(good / case.task / "best", place / "precious")
        before = snapshot(place / "precious")
        case.make(good, place / "model")
        outcome, note, seconds = attempt(lambda: ask(place / "model", case.task))  # noqa: B023
        if outcome == "harmless" and case.escapes:
            outcome = "escaped"
        tally.add(case.name, harm(before, snapshot(place / "precious")) or outcome, note, seconds)
        for name in ("precious", "model"):
            shutil.rmtree(place / name)
    return tally


@pytest.mark.slow
def test_hostile_models_are_refused(good: Path, tmp_path: Path) -> None:
    tally = attack(good, tmp_path, 60)
    assert tally.bad == []
    assert tally.counts["refused"] > 40
    assert not any(tally.counts[outcome] for outcome in BAD)


@pytest.mark.thorough
def test_every_hostile_model_is_refused(good: Path, tmp_path: Path) -> None:
    assert attack(good, tmp_path, None).bad == []


def changed(good: Path, place: Path, task: str, *changes: object) -> Path:
    shutil.copytree(good / task / "best", place / "model")
    for change in changes:
        change(place / "model")  # type: ignore[operator]
    seal(place / "model")
    return place / "model"


@pytest.mark.parametrize(
    "key", ["layers", "d_model", "d_ff", "vocab", "max_length", "ensemble_size"]
)
@pytest.mark.parametrize("size", [3000, 10**9, 10**18])
def test_sizes_are_not_believed(good: Path, tmp_path: Path, key: str, size: int) -> None:
    folder = changed(good, tmp_path, "language", json_change("config.json", ("model", key), size))
    outcome, note, seconds = attempt(lambda: tl.load(folder), seconds=5, bytes_more=600 << 20)
    assert (outcome, seconds < 2) == ("refused", True), note
    if size == 10**9 and key not in ("layers", "ensemble_size"):  # and before memory is taken
        assert "a larger model than" in note
    if key in ("layers", "ensemble_size"):
        tensors = len(declared_sizes(good / "language" / "best" / "model.safetensors"))
        words = f"model.{key} = {size}, but the folder contains only {tensors} tensors; do not use "
        assert f"config.json: {words}" in note


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("task", MODELS)
def test_weights_that_are_no_numbers_are_refused(
    good: Path, tmp_path: Path, task: str, value: float
) -> None:
    def spoil(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        list(tensors.values())[-1].view(-1)[-1] = value
        return tensors

    folder = changed(good, tmp_path, task, weights_change(spoil))
    with pytest.raises(InputError, match="not finite"):
        tl.load(folder)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int8, torch.bool, torch.complex64])
def test_weights_of_another_kind_are_not_cast(
    good: Path, tmp_path: Path, dtype: torch.dtype
) -> None:
    folder = changed(
        good, tmp_path, "regress",
        weights_change(lambda tensors: {name: t.to(dtype) for name, t in tensors.items()}),
    )  # fmt: skip
    with pytest.raises(InputError, match=str(dtype)):
        tl.load(folder)


def test_a_header_that_lies_about_the_file_is_refused_before_it_is_read(
    good: Path, tmp_path: Path
) -> None:
    def enlarge(header: dict[str, dict[str, object]]) -> dict[str, dict[str, object]]:
        name = next(name for name in header if name != "__metadata__")
        return header | {name: header[name] | {"shape": [1 << 38], "data_offsets": [0, 1 << 40]}}

    folder = changed(
        good, tmp_path, "regress", header_change(enlarge),
        lambda folder: os.truncate(folder / "model.safetensors", 1 << 40),
    )  # fmt: skip
    began = time.process_time()
    with pytest.raises(InputError):
        tl.load(folder)
    assert time.process_time() - began < 2


def test_a_folder_may_be_named_as_here(good: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for place in (good / "regress", good / "regress" / "best"):
        answer = run("info", ".", cwd=place)
        assert answer.returncode == 0, answer.stderr
        monkeypatch.chdir(place)
        assert len(tl.load(".").predict(["0.5"])) == 1
    answer = run("info", "..", cwd=good / "regress" / "best")
    assert answer.returncode == 0, answer.stderr
    assert run("info", "/", cwd=good).returncode == 2


def test_a_models_files_have_the_users_usual_mode(good: Path, tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        tl.load(good / "translate").save(tmp_path / "model")
    finally:
        os.umask(before)
    files = [path for path in (tmp_path / "model").rglob("*") if path.is_file()]
    assert len(files) > 5
    assert {oct(stat.S_IMODE(path.stat().st_mode)) for path in files} == {"0o640"}


def test_saving_a_model_replaces_a_model_only(good: Path, tmp_path: Path) -> None:
    model = tl.load(good / "regress")
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(InputError, match="not empty and is not a model"):
        model.save(tmp_path)
    assert (tmp_path / "thesis.txt").read_text("utf-8") == "years of work"
    for _ in range(2):
        model.save(tmp_path / "model")
