"""A run folder from elsewhere cannot reach out of itself: whatever it names or links to, nothing
outside is read as its own, written or removed."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.in_process import Answer, run
from tests.security.small_runs import TABLE, change_json, newest_state, small_run, train_words

MORE = ("--allow-changes", "training.steps=12")


def canary(tmp_path: Path) -> Path:
    """A folder that is somebody's own."""
    place = tmp_path / "precious"
    (place / "step-000002").mkdir(parents=True)
    (place / "step-000002" / "thesis.txt").write_text("years of work\n")
    for name in ("notes.txt", "metrics.jsonl", ".x.writing"):
        (place / name).write_text("years of work\n")
    return place


def everything(place: Path) -> dict[str, bytes | str]:
    return {
        str(path.relative_to(place)): (
            os.readlink(path) if path.is_symlink()
            else path.read_bytes() if path.is_file() else "folder"
        )
        for path in sorted(place.rglob("*"))
    }  # fmt: skip


def assert_refused(answer: Answer) -> None:
    assert answer.returncode == 2, answer
    assert "unexpected" not in answer.stderr


@pytest.mark.parametrize(
    "name",
    [
        "../../precious",
        "{precious}",
        "..",
        ".",
        "",
        "a/../../../precious",
        "x\0y",
        "best/../../precious",
        "../../precious/step-000002",
        "thesis",
    ],
)
def test_names_of_kept_models_stay_inside(tmp_path: Path, name: str) -> None:
    folder, precious = small_run(tmp_path), canary(tmp_path)
    (folder / "checkpoints" / "thesis").mkdir(parents=True)
    before = everything(precious)
    name = name.format(precious=precious)
    change_json(
        newest_state(folder) / "state.json", lambda numbers: numbers | {"kept": {name: -1e9}}
    )
    answer = run("resume", "run", *MORE, cwd=tmp_path)
    assert everything(precious) == before
    assert (tmp_path / "table.csv").exists()
    assert (folder / "recipe.toml").exists()
    assert (folder / "checkpoints" / "thesis").exists()
    assert_refused(answer)
    assert "kept" in answer.stderr


LINKS = [
    "valid.predictions.txt", "test.predictions.txt",
    "metrics.jsonl", "timing.jsonl", "log.txt", "recipe.toml", "test.json", "code.json", "best",
    "last", "state", "checkpoints", "studio", "tensorboard", "run.lock", ".recipe.toml.writing",
    ".best.writing", ".best.old", "state/tokenizers", "state/step-00000002", "best/config.json",
    "state/.step-00000010.writing", "checkpoints/step-000010", "studio/steps.jsonl",
]  # fmt: skip


@pytest.mark.parametrize("name", LINKS)
def test_links_are_not_followed(tmp_path: Path, name: str) -> None:
    folder, precious = small_run(tmp_path), canary(tmp_path)
    before = everything(precious)
    place = folder / name
    place.parent.mkdir(exist_ok=True)
    if place.exists():
        place.rename(tmp_path / "moved")
        target = tmp_path / "moved"  # what the run itself wrote, so that nothing else is amiss
    else:
        target = precious / "notes.txt" if "." in name.lstrip(".") else precious
    place.symlink_to(target)
    moved = everything(tmp_path / "moved") if (tmp_path / "moved").is_dir() else None
    answer = run("resume", "run", *MORE, "--quiet", cwd=tmp_path)
    assert everything(precious) == before
    if moved is not None:
        assert everything(tmp_path / "moved") == moved
    assert_refused(answer)
    assert "link" in answer.stderr
    assert str(Path("run") / name) in answer.stderr


def test_a_new_run_writes_through_no_link(tmp_path: Path) -> None:
    """An empty journal is what a run leaves that was killed at once; this one is somebody's."""
    (tmp_path / "table.csv").write_text(TABLE, "utf-8")
    (tmp_path / "notes.txt").touch()
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "metrics.jsonl").symlink_to(tmp_path / "notes.txt")
    answer = run(*train_words("new"), cwd=tmp_path)
    assert_refused(answer)
    assert "link" in answer.stderr
    assert (tmp_path / "notes.txt").read_text("utf-8") == ""


def fifo(path: Path) -> None:
    os.mkfifo(path)


def endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize("kind", [fifo, endless])
@pytest.mark.parametrize(
    "name", ["metrics.jsonl", "recipe.toml", "code.json", "state/step-00000008/state.json"]
)
def test_what_is_no_file_is_not_opened(
    tmp_path: Path, name: str, kind: Callable[[Path], None]
) -> None:
    folder = small_run(tmp_path)
    (folder / name).unlink(missing_ok=True)
    kind(folder / name)
    assert_refused(run("resume", "run", *MORE, cwd=tmp_path))


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{}",
        "null",
        "{",
        "\udcff",
        "[" * 100_000,
        '{"kept": 3}',
        '{"state": {}, "kept": {}}',
        "NaN",
    ],
)
def test_a_broken_state_is_a_named_error(tmp_path: Path, text: str) -> None:
    folder = small_run(tmp_path)
    file = newest_state(folder) / "state.json"
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    from translucid.core.atomic_files import write_manifest

    write_manifest(file.parent)
    answer = run("resume", "run", *MORE, cwd=tmp_path)
    assert_refused(answer)
    assert "state.json" in answer.stderr


@pytest.mark.parametrize("section", ["state", "place", "kept", "metrics", "fingerprint"])
@pytest.mark.parametrize("value", [None, [], "x", -1, 1e999, {"x": {}}])
def test_every_part_of_a_state_may_be_wrong(tmp_path: Path, section: str, value: object) -> None:
    folder = small_run(tmp_path)
    before = json.loads((newest_state(folder) / "state.json").read_text("utf-8"))
    if before[section] == value:
        pytest.skip("as it should be")
    change_json(newest_state(folder) / "state.json", lambda numbers: numbers | {section: value})
    assert_refused(run("resume", "run", *MORE, cwd=tmp_path))


def test_a_name_of_a_manifest_stays_inside(tmp_path: Path) -> None:
    folder = small_run(tmp_path)
    for name in (
        "../../table.csv",
        str(tmp_path / "table.csv"),
        "x/../../../table.csv",
        "/dev/zero",
    ):
        file = newest_state(folder) / "manifest.json"
        wanted = json.loads(file.read_text("utf-8")) | {name: "0" * 64}
        file.write_text(json.dumps(wanted, indent=2) + "\n")
        answer = run("resume", "run", *MORE, cwd=tmp_path)
        assert "stays inside" in answer.stderr or "outside" in answer.stderr, answer.stderr


def test_a_copy_by_hard_links_is_resumed_and_the_original_stays(tmp_path: Path) -> None:
    """As `cp -al` makes it: every file of the copy is the original's own."""
    folder, copy = small_run(tmp_path), tmp_path / "copy"
    for path in sorted(folder.rglob("*")):
        place = copy / path.relative_to(folder)
        place.parent.mkdir(parents=True, exist_ok=True)
        if path.is_file():
            os.link(path, place)
    before = everything(folder)
    answer = run("resume", "copy", *MORE, cwd=tmp_path)
    assert answer.returncode == 0, answer.stderr
    assert everything(folder) == before
    lines = [
        len((place / "metrics.jsonl").read_text("utf-8").splitlines()) for place in (folder, copy)
    ]
    assert lines[1] > lines[0]


@pytest.mark.parametrize("name", ["run.lock", "metrics.jsonl", "timing.jsonl", "log.txt"])
def test_hard_links_lead_nowhere(tmp_path: Path, name: str) -> None:
    folder, precious = small_run(tmp_path), canary(tmp_path)
    (folder / name).unlink(missing_ok=True)
    os.link(precious / "notes.txt", folder / name)
    before = everything(precious)
    run("resume", "run", *MORE, cwd=tmp_path)
    assert everything(precious) == before
