"""`translucid data toyland --task`: labels that follow one rule, in files that `train` reads."""

import re
from collections import Counter
from pathlib import Path

import pytest
from tests.in_process import run

import translucid as tl
from translucid.core.errors import ConfigError, InputError
from translucid.data.toyland import TEXT_TASKS, TaskText, TextTask, TextTasks, write_text_task
from translucid.data.toyland.text_tasks import ANIMALS
from translucid.data.toyland.toyland_files import task_file_names

QUICK = [
    "model.d_model=16", "model.heads=2", "model.layers=1", "training.steps=3",
    "training.batch_tokens=500", "tokenizer.kind=word",
]  # fmt: skip


def every(task: TextTask, count: int = 300) -> dict[str, list[TaskText]]:
    world = TextTasks(task, seed=3)
    return {split: world.texts(split, count) for split in world.splits}


def read(path: Path) -> list[tuple[str, str]]:
    """Text and labels of a file, read without the code that writes it."""
    content = path.read_text("utf-8")
    if path.suffix == ".tsv":
        return [(line.split("\t")[1], line.split("\t")[0]) for line in content.splitlines()]
    blocks = [block.splitlines() for block in content.strip().split("\n\n")]
    return [
        (" ".join(line.split("\t")[0] for line in block),
         " ".join(line.split("\t")[1] for line in block))
        for block in blocks
    ]  # fmt: skip


def by_definition(task: TextTask, text: str) -> str:
    """The labels of a text, from a second definition: regular expressions on the whole text."""
    animal = "|".join(ANIMALS)
    if task == "recall":
        return re.sub(r" .*", "", text)
    if task == "order":
        return "cat" if re.search(r"\bcat\b.*\bdog\b", text) else "dog"
    if task == "position":
        inside = re.sub(r"(?<= )\w+(?= )", "inside", text)
        return re.sub(r"\w+$", "last", re.sub(r"^\w+", "first", inside))
    if task == "mixing":
        return "none " + re.sub(r" \w+$", "", text)
    ends = [match.end() for match in re.finditer(r"\w+", text)]
    return " ".join(re.findall(rf"\b(?:{animal})\b", text[:end])[-1] for end in ends)


@pytest.mark.parametrize("task", TEXT_TASKS)
def test_labels_in_the_files_follow_the_rule(task: TextTask, tmp_path: Path) -> None:
    folder = write_text_task(tmp_path / "data", task, 200, held_out=50)
    written = {path.name for path in folder.iterdir()}
    assert written == {*task_file_names(TextTasks(task))}
    for name in written - {"README.txt"}:
        rows = read(folder / name)
        assert len(rows) == (200 if name.startswith("train") else 50)
        assert [label for _, label in rows] == [by_definition(task, text) for text, _ in rows]


@pytest.mark.parametrize("task", TEXT_TASKS)
def test_no_text_occurs_twice(task: TextTask) -> None:
    texts = [one.text for split in every(task).values() for one in split]
    assert len({*texts}) == len(texts)


@pytest.mark.parametrize("task", TEXT_TASKS)
def test_a_text_does_not_depend_on_the_number_of_texts(task: TextTask) -> None:
    world = TextTasks(task)
    assert world.texts("valid", 5) == world.texts("valid", 20)[:5]
    assert world.texts("train", 20) != TextTasks(task, seed=1).texts("train", 20)


def test_the_words_of_an_order_text_do_not_reveal_its_label() -> None:
    """Each bag of words occurs once with each label, in the same split."""
    for split in every("order").values():
        bags = [Counter((tuple(sorted(one.words)), one.labels[0]) for one in split
                        if one.labels[0] == label) for label in ("cat", "dog")]  # fmt: skip
        cats, dogs = (Counter(bag for bag, _ in side.elements()) for side in bags)
        assert cats == dogs


def test_the_words_after_the_first_do_not_reveal_what_to_recall() -> None:
    """For each position, the label of a text equals its word there as often as by chance."""
    texts = TextTasks("recall", 6).texts("train", 4000)
    for place in range(1, 6):
        same = sum(one.words[place] == one.labels[0] for one in texts) / len(texts)
        assert abs(same - 1 / len(ANIMALS)) < 0.03


def test_longer_texts_are_longer_than_all_training_texts() -> None:
    lengths = {split: {len(one.words) for one in texts} for split, texts in every("longer").items()}
    assert max(lengths["train"] | lengths["valid"] | lengths["test"]) == 16
    assert (min(lengths["test-2x"]), max(lengths["test-2x"])) == (17, 32)
    assert (min(lengths["test-4x"]), max(lengths["test-4x"])) == (33, 64)


def test_too_few_different_texts_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="too few different texts of 2 words"):
        write_text_task(tmp_path / "data", "recall", 200, 2)
    assert not (tmp_path / "data").exists()


def test_a_length_of_one_word_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"length = 1.*2 to"):
        TextTasks("mixing", 1)


def test_files_of_a_task_are_not_overwritten_by_accident(tmp_path: Path) -> None:
    folder = write_text_task(tmp_path, "mixing", 20, held_out=5)
    with pytest.raises(InputError, match=r"README\.txt and 3 more"):
        write_text_task(folder, "mixing", 10, held_out=5)
    write_text_task(folder, "mixing", 10, held_out=5, overwrite=True)
    assert len(read(folder / "train.conll")) == 10


def test_length_without_a_task_is_an_error(tmp_path: Path) -> None:
    done = run("data", "toyland", "--length", "9", "--out", "data", cwd=tmp_path)
    assert done.returncode != 0
    assert "add --task" in done.stderr


@pytest.mark.parametrize("task", TEXT_TASKS)
def test_a_model_of_a_text_task_is_trained_evaluated_and_traced(
    task: TextTask, tmp_path: Path
) -> None:
    made = run(
        "data", "toyland", "--task", task, "--pairs", "60", "--out", "data", cwd=tmp_path
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    following = made.stdout.splitlines()[-1].removeprefix("next: translucid ").split()
    first, last = following.index("--train"), following.index("--test")
    words = [*following[: first + 2], "--out", "run", *QUICK]  # without the test data, for speed
    done = run(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    test = tmp_path / following[last + 1]
    text = read(test)[0][0]
    test.write_text("".join(test.read_text("utf-8").splitlines(keepends=True)[:200]))
    scored = run("evaluate", "run", str(test), cwd=tmp_path)
    assert scored.returncode == 0, scored.stderr
    assert "accuracy" in scored.stdout
    explained = run("explain", "run", text, cwd=tmp_path)
    assert explained.returncode == 0, explained.stderr
    trace = tl.load(tmp_path / "run").trace(text)
    (pattern,) = trace.names("*.pattern")
    assert trace[pattern].shape[-1] >= len(text.split())
