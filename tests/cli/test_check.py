"""`translucid check` and `translucid train --self-test`, through the real command line."""

import json
from pathlib import Path

import pytest
from tests.in_process import Answer, run

REVIEWS = [("good", "fine"), ("bad", "poor"), ("so", "plain")]


def reviews(folder: Path, name: str, numbers: range) -> None:
    rows = [f"{REVIEWS[n % 3][0]},a {REVIEWS[n % 3][1]} film number {n}" for n in numbers]
    (folder / name).write_text("\n".join(["mark,review", *rows]) + "\n", "utf-8")


COLUMNS = ["data.text_column=review", "data.label_column=mark"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    reviews(tmp_path, "train.csv", range(90))
    reviews(tmp_path, "valid.csv", range(90, 120))
    return tmp_path


def lines_of(answer: Answer, name: str) -> str:
    """The line of a finding."""
    (found,) = (line for line in answer.stdout.splitlines() if line[2:].startswith(f"{name}  "))
    return found


def test_clean_data(folder: Path) -> None:
    words = ["classify", "--train", "train.csv", "--valid", "valid.csv", *COLUMNS]
    told = run("check", *words, cwd=folder)
    assert told.returncode == 0, told.stdout + told.stderr
    assert "train.csv: 90 records" in told.stdout
    assert "train: 90 examples\n  text: 5 to 5 words, half have at most 5" in told.stdout
    assert "labels: good 30, bad 30, so 30" in told.stdout
    assert lines_of(told, "valid apart from train").startswith("+ ")
    assert " checks: " in told.stdout
    assert f"next: translucid train {' '.join(words)} --self-test" in told.stdout


def test_explicit_header_is_enough(folder: Path) -> None:
    (folder / "p.tsv").write_text("mine\tyours\n" + "".join(f"a {n}\tb {n}\n" for n in range(40)))
    told = run("check", "translate", "--train", "p.tsv", "data.header=true", cwd=folder)
    first, why, columns = told.stdout.splitlines()[:3]
    assert first == "p.tsv: 40 records"
    assert "the first is the source, the second the target (set data.source_column" in why
    assert "source = column 1 ('mine'), target = column 2 ('yours')" in columns


def test_check_as_json(folder: Path) -> None:
    told = run("check", "classify", "--train", "train.csv", "--json", *COLUMNS, cwd=folder)
    report = json.loads(told.stdout)
    assert set(report) == {"read", "parts", "checks", "next"}
    assert report["parts"]["valid"]["examples"] == 18  # one in five of few
    assert {"name", "ok", "words", "serious", "mark"} == set(report["checks"][0])
    assert "train.csv: 90 records" in told.stderr


def test_examples_in_two_parts_are_found(folder: Path) -> None:
    reviews(folder, "valid.csv", range(80, 100))
    words = ["classify", "--train", "train.csv", "--valid", "valid.csv", *COLUMNS]
    told = run("check", *words, cwd=folder)
    assert told.returncode == 2  # half of them
    assert "(first: valid line 2 = train line 82)" in lines_of(told, "valid apart from train")
    assert "1 wrong (-)" in told.stdout
    tested = run("train", *words, "--self-test", cwd=folder)
    assert tested.returncode == 2
    assert lines_of(tested, "valid apart from train").startswith("- ")
    assert "next:" not in tested.stdout
    assert not (folder / "runs").exists()


def test_two_files_after_one_option(folder: Path) -> None:
    for name, numbers in (("a", range(50)), ("b", range(49, 90))):
        for language, word in (("en", "dog"), ("de", "Hund")):
            text = "\n".join(f"{word} number {n} or {n * n}" for n in numbers)
            (folder / f"{name}.{language}").write_text(text + "\n", "utf-8")
    words = ["translate", "--train", "a.en", "a.de", "--valid", "b.en", "b.de"]
    told = run("check", *words, cwd=folder)
    assert told.returncode == 0, told.stderr
    finding = lines_of(told, "valid apart from train")
    assert finding.startswith("! ")
    assert "1 of 41 validation examples" in finding
    assert "(first: valid line 1 = train line 50), 1 if only the sources are compared" in finding


def test_labels_missing_from_training_are_found(folder: Path) -> None:
    with (folder / "valid.csv").open("a", encoding="utf-8") as file:
        file.write("god,a fine film\n")
    words = ["classify", "--train", "train.csv", "--valid", "valid.csv", *COLUMNS]
    told = run("check", *words, cwd=folder)
    assert told.returncode == 2
    assert "valid.csv:32: the model has no label 'god'" in lines_of(told, "labels of valid")


def test_a_file_instead_of_a_task_is_explained(folder: Path) -> None:
    told = run("check", "train.csv", cwd=folder)
    assert told.returncode == 2
    assert "`translucid check classify --train train.csv`" in told.stderr
    assert "data.train is required" in run("check", "tag", cwd=folder).stderr


def test_check_reads_the_data_of_a_recipe() -> None:
    told = run("check", "toyland-tag-lstm", "--toyland", "100")
    assert told.returncode == 0, told.stderr
    assert "next: translucid train toyland-tag-lstm --toyland 100 --self-test" in told.stdout


RECIPES = ["toyland-translate-transformer", "toyland-translate-gru", "toyland-language-lstm",
           "toyland-classify-rnn", "toyland-tag-transformer", "toyland-regress-mlp"]  # fmt: skip


MORE_RECIPES = [
    *(pytest.param(name, marks=pytest.mark.slow) for name in RECIPES[1:3]),
    *(pytest.param(name, marks=pytest.mark.thorough) for name in RECIPES[3:]),
]


@pytest.mark.slow
@pytest.mark.parametrize("name", [RECIPES[0], *MORE_RECIPES])
def test_self_test_of_a_recipe(name: str, tmp_path: Path) -> None:
    told = run("train", name, "--toyland", "300", "--self-test", cwd=tmp_path)
    assert told.returncode == 0, told.stdout + told.stderr
    assert lines_of(told, "learns one batch").startswith("+ ")
    assert f"next: translucid train {name} --toyland 300" in told.stdout
    assert list(tmp_path.iterdir()) == []  # it leaves nothing


@pytest.mark.slow
def test_self_test_of_a_task_with_chosen_sizes(folder: Path) -> None:
    words = ["classify", "--train", "train.csv", *COLUMNS, "model.kind=recurrent"]
    told = run("train", *words, "--self-test", cwd=folder)
    assert told.returncode == 0, told.stdout + told.stderr
    assert lines_of(told, "learns one batch").startswith("+ ")


@pytest.mark.slow
def test_self_test_fails_on_data_that_cannot_be_learned(folder: Path) -> None:
    rows = [f"{n / 7},{1e9 * (n % 5)}" for n in range(60)]
    (folder / "points.csv").write_text("\n".join(["x,y", *rows]) + "\n", "utf-8")
    words = ["train", "regress", "--train", "points.csv", "--self-test"]
    assert run(*words, cwd=folder).returncode == 0, "at a scale of its own"
    told = run(*words, "data.standardise=false", cwd=folder)
    assert told.returncode == 2
    assert "values are far too large" in lines_of(told, "learns one batch")


PAIRS = "".join(f"a dog {n}\tein Hund {n}\n" for n in range(40))
BAD = {
    "a table by no name": ("p.txt", PAIRS, "data.format=tsv\n"),
    "JSON without targets": ("p.json", '[{"source": "a"}]\n', "a column for the target is needed"),
    "one column": ("p.tsv", "a dog\n", "there is 1 column, but each line needs source and target"),
    "a spreadsheet": ("p.xlsx", "PK\x03\x04...", "is a .xlsx document"),
    "nothing near": ("other.en", None, "other.en: no such file; . contains p.en"),
    "something near": ("pp.en", None, "pp.en: no such file; did you mean p.en?"),
}


@pytest.mark.parametrize("case", BAD)
def test_file_without_pairs_is_refused_with_a_remedy(case: str, tmp_path: Path) -> None:
    name, content, message = BAD[case]
    if content is None:
        (tmp_path / "p.en").write_text("a\n")
    else:
        (tmp_path / name).write_text(content, "utf-8")
    told = run("check", "translate", "--train", name, cwd=tmp_path)
    assert told.returncode == 2
    assert message in told.stderr


def test_remedies_of_messages_work(tmp_path: Path) -> None:
    (tmp_path / "p.txt").write_text(PAIRS, "utf-8")
    told = run("check", "translate", "--train", "p.txt", "data.format=tsv", cwd=tmp_path)
    assert "p.txt: 40 records" in told.stdout
    (tmp_path / "l.tsv").write_bytes("Hund\tschläft\n".encode("latin-1"))
    told = run("check", "translate", "--train", "l.tsv", cwd=tmp_path)
    key, _, line = told.stderr.strip().partition(", or convert the file: ")
    assert line == "iconv -f LATIN1 -t UTF-8 l.tsv > l.utf8.tsv"
    assert key.endswith("; set data.encoding, such as latin-1")
    (tmp_path / "l.tsv").write_bytes(PAIRS.replace("ein", "Bär").encode("latin-1"))
    told = run("check", "translate", "--train", "l.tsv", "data.encoding=latin-1", cwd=tmp_path)
    assert "Bär Hund" in told.stdout


def test_file_in_place_of_a_key_suggests_the_option(tmp_path: Path) -> None:
    for name in ("a.en", "a.de"):
        (tmp_path / name).write_text("a\n")
    told = run("check", "translate", "a.en", "a.de", cwd=tmp_path)
    assert told.stderr.endswith("--train a.en a.de\n")
    assert "--train FILE ..., or --toyland" in run("check", "translate", cwd=tmp_path).stderr


def test_plain_text_is_refused_for_tagging(tmp_path: Path) -> None:
    (tmp_path / "p.tsv").write_text(PAIRS, "utf-8")
    told = run("check", "tag", "--train", "p.tsv", cwd=tmp_path)
    assert "p.tsv:1: the column of words contains a text, 'a dog 0'" in told.stderr
    assert "expected a list of words" in told.stderr
    assert told.stderr.endswith("data.format=conll\n")
