"""Texts in place of files, encodings, JSON arrays and long cells, through the command line."""

import csv
import json
import os
import pty
import shlex
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.in_process import run
from tests.test_trainer import Frame

import translucid as tl
from translucid.data.readers.read import read_labelled

TEXTS = ["The food was not bad.", "The hotel is ugly."]


@pytest.mark.parametrize(
    ("command", "model", "texts"),
    [
        ("translate", "demo:translate", ["The dog does not sleep.", "The dog sleeps."]),
        ("classify", "demo:classify", TEXTS),
        ("tag", "demo:tag", ["Anna Keller sleeps.", "Jordan lies in Asia."]),
        ("predict", "demo:regress", ["0 1", "1 1"]),
    ],
)
def test_texts_in_quotes_equal_the_lines_of_a_file_and_of_standard_input(
    command: str, model: str, texts: list[str], tmp_path: Path
) -> None:
    lines = "".join(text + "\n" for text in texts)
    (tmp_path / "in.txt").write_text(lines, "utf-8")
    for name in ("with space", "plain"):  # an existing file is read as a file
        (tmp_path / name).write_text(lines, "utf-8")
    for form in ([], ["--json"]):
        quoted = run(command, model, *texts, *form)
        assert (quoted.returncode, len(quoted.stdout.splitlines())) == (0, 2), quoted.stderr
        for name in ("in.txt", "with space", "plain"):
            assert run(command, model, name, *form, cwd=tmp_path) == quoted
        assert run(command, model, *form, stdin=lines) == quoted


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["The", "dog"], 'put it in quotes: translucid classify demo:classify "The dog"'),
        (["dog"], "use standard input: echo dog | translucid classify demo:classify"),
        (["a dog", "cat"], "'a dog cat': no such file"),
        (["my file.txt"], "'my file.txt': no such file"),
        (["none.txt"], "none.txt: no such file"),
        (["a.txt", "a dog"], "a.txt, a dog: give one file"),
    ],
)
def test_words_that_are_neither_a_file_nor_a_text(
    words: list[str], message: str, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("a dog\n", "utf-8")
    refused = run("classify", "demo:classify", *words, cwd=tmp_path)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert message in refused.stderr


@pytest.mark.parametrize("model", ["smollm2.gguf", "bert-base-uncased"])
def test_a_missing_model_is_a_missing_file(model: str, tmp_path: Path) -> None:
    for command in ("generate", "fill"):
        refused = run(command, model, "a [MASK]", cwd=tmp_path)
        assert refused.returncode == 2
        assert f"{model}: no such file" in refused.stderr


def test_a_terminal_shows_what_to_type() -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "translucid", "predict", "demo:regress"]
    with subprocess.Popen(command, stdin=theirs, stderr=subprocess.PIPE, stdout=-1) as process:
        os.write(ours, b"0 1\n\x04")
        out, err = process.communicate(timeout=300)
    assert float(out) == pytest.approx(tl.load("demo:regress").predict([[0, 1]])[0][0], rel=1e-4)
    assert b"type one row per line, with the cells x1, x2, such as" in err


ROWS = [{"text": "Das Café war schön.", "label": "a"}, {"text": "ü\nx", "label": "b"}]


def table(path: Path, encoding: str) -> Path:
    with path.open("w", newline="", encoding=encoding) as file:
        writer = csv.DictWriter(file, ["text", "label"])
        writer.writeheader()
        writer.writerows(ROWS)
    return path


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16", "utf-16-le", "utf-8-sig"])
def test_an_encoding_reads_as_utf8_does(encoding: str, tmp_path: Path) -> None:
    words = ["--json", "data.header=true"]
    expected = run("classify", "demo:classify", str(table(tmp_path / "u.csv", "utf-8")), *words)
    other, key = table(tmp_path / "o.csv", encoding), f"data.encoding={encoding}"
    read = run("classify", "demo:classify", str(other), *words, key)
    assert (read.returncode, read.stdout) == (0, expected.stdout), read.stderr
    assert json.loads(read.stdout.splitlines()[0])["text"] == ROWS[0]["text"]
    for command in ("translate", "classify"):
        lines = tmp_path / "lines.txt"
        lines.write_text("Ein schönes Café\n", encoding=encoding)
        model = f"demo:{command}"
        assert (
            run(command, model, str(lines), key).stdout
            == run(command, model, "Ein schönes Café").stdout
        )


def test_a_wrong_encoding_names_file_and_line(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_bytes(b"fine\nsch\xf6n\n")
    for key, message in (
        ([], f"{file}:2: byte 4 of the line (0xf6) is not UTF-8; set data.encoding"),
        (["data.encoding=ascii"], f"{file}:2: byte 4 of the line (0xf6) is not ASCII"),
        (["data.encoding=latn"], "encoding = 'latn'"),
        (["data.encoding=rot13"], "encoding = 'rot13'"),
    ):
        refused = run("classify", "demo:classify", str(file), *key)
        assert refused.returncode == 2
        assert message in refused.stderr
    file.write_bytes("fine\nso\n".encode("utf-16") + b"\x00\xd8\x41\x00")
    refused = run("classify", "demo:classify", str(file))
    assert "set data.encoding=utf-16" in refused.stderr
    refused = run("classify", "demo:classify", str(file), "data.encoding=utf-16")
    assert f"{file}:2: this line or the next is not UTF-16" in refused.stderr


@pytest.mark.parametrize("indent", [None, 1])
def test_a_json_array_reads_as_json_lines(indent: int | None, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(ROWS * 9000, indent=indent), "utf-8")
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS * 9000))
    arrays, lines = (list(read_labelled(tmp_path / name)) for name in ("a.json", "a.jsonl"))
    strip = lambda records: [(record.text, record.label) for record in records]  # noqa: E731
    assert strip(arrays) == strip(lines)
    if indent:
        assert [record.line for record in arrays[:2]] == [2, 6]
    (tmp_path / "few.json").write_text(json.dumps(ROWS, indent=indent), "utf-8")
    answers = run("classify", "demo:classify", "few.json", cwd=tmp_path)
    assert [json.loads(line)["text"] for line in answers.stdout.splitlines()] == [
        row["text"] for row in ROWS
    ]
    piped = run("classify", "demo:classify", stdin=json.dumps(ROWS, indent=indent))
    assert piped.stdout == answers.stdout


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[{"text": "a"},\n{"text": "b"}\n{"text": "c"}]', "a.json:2: found"),
        ('[{"text": "a"},\n{"text": "b"},\n3]', "a.json:3: found 3, but a JSON object"),
        ('[{"text": "a"},\n{"te', "a.json:2: this is not JSON"),
        ("[]", "a.json contains no JSON objects"),
    ],
)
def test_a_bad_json_array_names_the_line(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(text, "utf-8")
    refused = run("classify", "demo:classify", "a.json", cwd=tmp_path)
    assert refused.returncode == 2
    assert message in refused.stderr


def test_a_table_without_a_free_column_is_told_what_it_lacks(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "a"}\n{"text": "b"}\n', "utf-8")
    refused = run("check", "classify", "--train", "a.jsonl", cwd=tmp_path)
    assert "a column for the label is needed" in refused.stderr
    assert "such as \n" not in refused.stderr


def test_a_cell_may_be_longer_than_the_limit_of_the_csv_module(tmp_path: Path) -> None:
    long = "x" * 140_000
    with (tmp_path / "a.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["text", "label"], [long, "a"], ["y", "b"]])
    assert [record.text for record in read_labelled(tmp_path / "a.csv")] == [long, "y"]


def test_a_key_typed_twice_is_refused(tmp_path: Path) -> None:
    for words in (
        ["train", "classify", "--toyland", "9", "model.layers=1", "model.layers=2"],
        ["train", "classify", "--toyland", "9", "--minutes", "1", "training.minutes=2"],
        ["classify", "demo:classify", "a b", "data.encoding=ascii", "data.encoding=utf-8"],
    ):
        refused = run(*words, cwd=tmp_path)
        assert refused.returncode == 2
        assert "is set twice; keep one" in refused.stderr


def test_explain_reads_standard_input() -> None:
    words = ["explain", "demo:classify"]
    assert run(*words, "-", stdin=f"{TEXTS[0]}\n") == run(*words, TEXTS[0])


def test_force_of_several_words_equals_a_prefix() -> None:
    words = ["translate", "demo:translate", "The dog sleeps."]
    assert run(*words, "--force", "0=Die Katze").stdout == "Die Katze schläft.\n"
    assert run(*words, "--prefix", "Die Katze").stdout == "Die Katze schläft.\n"
    refused = run(*words, "--force", "1=Hund sitzt")
    assert "'Hund sitzt' is not in the vocabulary ('sitzt')" in refused.stderr


def test_tables_in_predict_and_lists_in_score() -> None:
    classify, language = tl.load("demo:classify"), tl.load("demo:generate")
    answers = classify.predict(TEXTS)
    assert classify.predict({"id": [1, 2], "text": TEXTS}) == answers
    assert classify.predict(Frame({"id": [1, 2], "text": TEXTS})) == answers
    with pytest.raises(tl.InputError, match=r"which column holds the text.*'x'"):
        classify.predict(Frame({"x": TEXTS}))
    with pytest.raises(tl.InputError, match="row 2: text contains null"):
        classify.predict({"text": ["a b", None]})
    regress = tl.load("demo:regress")
    assert regress.predict(Frame({"x2": [1, 1], "x1": [0, 1]})) == regress.predict([[0, 1], [1, 1]])
    listed = [score.log_probability for score in language.score(["The dog", "A cat sleeps"])]
    alone = [language.score(text).log_probability for text in ("The dog", "A cat sleeps")]
    assert listed == pytest.approx(alone, rel=1e-4)
    with pytest.raises(tl.InputError, match="one text and a list"):
        tl.load("demo:translate").score("a", ["b"])


def test_doctor_names_parquet() -> None:
    (check,) = (
        check for check in json.loads(run("doctor", "--json").stdout)["checks"]
        if check["name"] == "parquet"
    )  # fmt: skip
    assert check["works"] == (find_spec("pyarrow") is not None)


REGRESS = ["--train", "a.csv", "model.hidden=[2]", "training.device=cpu", "training.steps=200"]


def test_quiet_training_prints_only_warnings_and_the_log_one_line_per_second(
    tmp_path: Path,
) -> None:
    rows = "".join(f"{n},{2 * n}\n" for n in range(2400))
    (tmp_path / "a.csv").write_text(f"a,y\n{rows}", "utf-8")
    began = time.monotonic()
    loud = run("train", "regress", *REGRESS, "--out", "loud", cwd=tmp_path)
    seconds = time.monotonic() - began
    printed = loud.stderr.count("targets/s")
    assert 2 <= printed <= seconds + 2  # the first, the last, and at most one per second
    assert (tmp_path / "loud/log.txt").read_text("utf-8").count("targets/s") == printed
    metrics = (tmp_path / "loud/metrics.jsonl").read_text("utf-8")
    assert metrics.count('"learning_rate"') == 10
    quiet = run("train", "regress", *REGRESS, "--out", "quiet", "--quiet", cwd=tmp_path)
    assert (quiet.returncode, quiet.stdout) == (0, "")
    assert all(line.startswith(("! ", "warning: ")) for line in quiet.stderr.splitlines())
    assert (tmp_path / "quiet/metrics.jsonl").read_text("utf-8") == metrics
    every = run("train", "regress", *REGRESS, "training.log_every=10", "--out", "e", cwd=tmp_path)
    assert every.stderr.count("targets/s") == 20


def test_negative_numbers_are_inputs_and_not_options(tmp_path: Path) -> None:
    model = tl.load("demo:regress")
    expected = [f"{y:.6g}" for (y,) in model.predict([[-1, 2], [-0.5, -1]])]
    done = run("predict", "demo:regress", "-1 2", "--device", "cpu", "-.5,-1")
    assert (done.returncode, done.stdout.split()) == (0, expected), done.stderr
    done = run("predict", "demo:regress", "--", "-1 2")
    assert done.stdout.split() == expected[:1]
    done = run("predict", "demo:regress", "-x")
    assert done.returncode == 2
    assert "No such option" in done.stderr


def test_a_number_is_an_input_and_an_empty_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,y\n" + "".join(f"{n},{2 * n}\n" for n in range(20)))
    made = run("train", "regress", "--train", "a.csv", "--out", "r", "model.kind=linear",
               cwd=tmp_path)  # fmt: skip
    assert made.returncode == 0, made.stderr
    for text in ("4.5", "-4.5"):
        done = run("predict", "r", text, cwd=tmp_path)
        assert float(done.stdout.split("\t")[0]) == pytest.approx(2 * float(text), abs=0.01)
    done = run("predict", "r", "", cwd=tmp_path)
    assert (done.returncode, "the text is empty" in done.stderr) == (2, True)


def test_next_command_of_ablate_and_explain_has_the_code(tmp_path: Path) -> None:
    code = str(Path(__file__).parents[2] / "examples/own_task.py")
    lines = "".join(f"a dog {n}\ta cat {n}\t{n / 40}\n" for n in range(40))
    (tmp_path / "p.tsv").write_text(lines, "utf-8")
    small = ["model.d_model=16", "model.heads=2", "model.layers=1", "training.steps=1"]
    done = run("train", code, "--train", "p.tsv", "--out", "r", *small, cwd=tmp_path)
    quoted = shlex.quote(code)
    assert f"next: translucid predict r --code {quoted}" in done.stdout, done.stderr
    done = run("ablate", "r", "--data", "p.tsv", "--limit", "4", "--code", code, cwd=tmp_path)
    assert f"next: translucid ablate r --code {quoted} --data p.tsv" in done.stdout, done.stderr
