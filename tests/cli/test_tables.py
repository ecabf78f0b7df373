"""A model scores and labels the kind of file it was trained on: what comes out of a table is the
table with the answers that the same texts get one by one."""

import csv
import io
import json
import os
import select
import subprocess
import sys
from pathlib import Path

import pytest
from tests.in_process import Answer, run

import translucid as tl

TINY = ["model.d_model=16", "model.heads=2", "model.layers=1", "tokenizer.kind=word"]
QUICK = ["training.steps=3", "training.batch_tokens=500", "training.log_every=1"]

REVIEWS = [
    ("so good a film", "5"),
    ('a "bad", long one', "1"),
    ("what a good one", "5"),
    ("not so good; bad", "1"),
]
CONLLU = """\
# sent_id = 1
1\tThe\tthe\tDET\tDT\t_\t2\tdet\t_\t_
2\tdog\tdog\tNOUN\tNN\t_\t3\tnsubj\t_\t_
3\tsleeps\tsleep\tVERB\tVBZ\t_\t0\troot\t_\t_

# sent_id = 2
1-2\tIt's\t_\t_\t_\t_\t_\t_\t_\t_
1\tIt\tit\tPRON\tPRP\t_\t2\tnsubj\t_\t_
2\t's\tbe\tAUX\tVBZ\t_\t0\troot\t_\t_
2.1\tso\tso\tADV\tRB\t_\t_\t_\t_\t_
"""


def table(names: list[str], rows: list[list[str]], delimiter: str = ",") -> str:
    made = io.StringIO()
    writer = csv.writer(made, delimiter=delimiter, lineterminator="\n")
    writer.writerows([names, *rows] if names else rows)
    return made.getvalue()


def train(folder: Path, task: str, name: str, text: str, *more: str) -> Path:
    file = folder / name
    file.write_text(text, "utf-8")
    sizes = ["model.hidden=[4]"] if task == "regress" else TINY
    done = run(
        "train", task, "--train", str(file), "--out", str(folder / task), *sizes, *QUICK, *more
    )
    assert done.returncode == 0, done.stderr
    return folder / task


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = [[str(n), *REVIEWS[n % 4]] for n in range(40)]
    text = table(["id", "review", "stars"], rows)
    columns = ["data.text_column=review", "data.label_column=stars"]
    return train(tmp_path_factory.mktemp("reviews"), "classify", "train.csv", text, *columns)


@pytest.fixture(scope="module")
def tagger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    text = "\n".join([CONLLU] * 10)
    column = "data.tags_column=xpos"
    return train(tmp_path_factory.mktemp("ud"), "tag", "train.conllu", text, column)


@pytest.fixture(scope="module")
def regressor(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = [[str(n % 7), str(n % 3), str(n % 7 - n % 3)] for n in range(40)]
    return train(
        tmp_path_factory.mktemp("numbers"), "regress", "train.csv", table(["a", "b", "y"], rows)
    )


def ask(command: str, model: Path, *words: str, stdin: str = "", cwd: Path | None = None) -> Answer:
    done = run(command, str(model), *words, stdin=stdin, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done


def check_labels(model: Path, texts: list[str], rows: list[list[str]], digits: int = 5) -> None:
    """Label and probability are those that each text gets alone."""
    held = tl.load(model)
    answers = [held.classify([text])[0] for text in texts]
    assert [row[0] for row in rows] == [answer.label for answer in answers]
    sure = [answer.probability for answer in answers]
    assert [float(row[1]) for row in rows] == pytest.approx(sure, abs=0.51 * 10**-digits)


# ---- tables ----


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("labelled", [True, False])
def test_table_output_has_new_columns(
    classifier: Path, tmp_path: Path, delimiter: str, labelled: bool
) -> None:
    names = ["review", "stars", "id"] if labelled else ["id", "review"]
    rows = [
        [text, stars, str(n)] if labelled else [str(n), text]
        for n, (text, stars) in enumerate(REVIEWS)
    ]
    name = "a.tsv" if delimiter == "\t" else "a.csv"
    content = table(names, rows, delimiter)
    if delimiter == "\t":
        rows = [[cell.replace('"', "") for cell in row] for row in rows]
        content = "\n".join("\t".join(row) for row in [names, *rows]) + "\n"
    (tmp_path / name).write_text(content, "utf-8")
    done = ask("classify", classifier, str(tmp_path / name))
    lines = io.StringIO(done.stdout)
    out = list(csv.reader(lines, delimiter=delimiter))
    assert out[0] == [*names, "predicted_label", "probability", "note"]
    assert [row[: len(names)] for row in out[1:]] == rows
    texts = [row[names.index("review")] for row in rows]
    check_labels(classifier, texts, [row[-3:-1] for row in out[1:]])
    assert "text = column" in done.stderr


def test_json_lines_output(classifier: Path, tmp_path: Path) -> None:
    rows = [{"review": text, "tags": ["x"], "n": n} for n, (text, _) in enumerate(REVIEWS)]
    file = tmp_path / "a.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = ask("classify", classifier, str(file), "--probabilities")
    out = [json.loads(line) for line in done.stdout.splitlines()]
    assert [{name: row[name] for name in rows[0]} for row in out] == rows
    held = tl.load(classifier)
    for row in out:
        assert row["probability_1"] + row["probability_5"] == pytest.approx(1)
        best = held.classify([row["review"]])[0]
        assert row["predicted_label"] == best.label
        assert row[f"probability_{best.label}"] == pytest.approx(best.probability, abs=1e-5)
    piped = ask("classify", classifier, "--probabilities", stdin=file.read_text("utf-8"))
    again = [json.loads(line) for line in piped.stdout.splitlines()]
    assert [row["predicted_label"] for row in again] == [row["predicted_label"] for row in out]


def test_table_without_header_stays_without_header(classifier: Path, tmp_path: Path) -> None:
    file = tmp_path / "a.tsv"
    file.write_text("".join(f"{text}\t{n}\n\n" for n, (text, _) in enumerate(REVIEWS)), "utf-8")
    column = "data.text_column=1"
    out = ask("classify", classifier, str(file), column).stdout.split("\n")[:-1]
    assert [line.count("\t") for line in out] == [4, 0] * 4
    texts = [text for text, _ in REVIEWS]
    check_labels(classifier, texts, [line.split("\t")[2:4] for line in out[::2]])


def test_a_new_name_never_hides_an_old_column(classifier: Path, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("review,predicted_label\nfine,9\n")
    out = ask("classify", classifier, str(tmp_path / "a.csv")).stdout
    assert out.startswith("review,predicted_label,predicted_label_2,probability,note\nfine,9,")


def test_plain_lines_stay_plain(classifier: Path) -> None:
    done = ask("classify", classifier, stdin="so good\n\na, b\n")
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    check_labels(classifier, ["so good", "", "a, b"], rows, digits=3)


def test_numbers_by_the_names_of_the_training_data(regressor: Path, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("b,name,a\n1,x,2\n0,y,6\n")
    done = ask("predict", regressor, str(tmp_path / "a.csv"))
    out = list(csv.reader(io.StringIO(done.stdout)))
    assert out[0] == ["b", "name", "a", "predicted", "note"]
    held = tl.load(regressor)
    wanted = [held.predict([[2.0, 1.0]])[0][0], held.predict([[6.0, 0.0]])[0][0]]
    assert [float(row[3]) for row in out[1:]] == pytest.approx(wanted, rel=1e-5)
    lacking = tmp_path / "b.csv"
    lacking.write_text("b,c\n1,2\n")
    refused = run("predict", str(regressor), str(lacking))
    assert refused.returncode == 2
    assert "the model was trained on the columns 'a', 'b'" in refused.stderr


# ---- CoNLL ----


def test_conll_output(tagger: Path, tmp_path: Path) -> None:
    file, out = tmp_path / "a.conllu", tmp_path / "b.conllu"
    file.write_text(CONLLU, "utf-8")
    done = ask("tag", tagger, str(file), "--out", str(out))
    held = tl.load(tagger)
    lines = out.read_text("utf-8").split("\n")
    assert lines[0].startswith("# global.columns = ID FORM")
    assert [line for line in lines[1:] if line.startswith("#")] == [
        "# sent_id = 1",
        "# sent_id = 2",
    ]
    words = [line.split("\t") for line in lines[1:] if "\t" in line]
    assert ["\t".join(row[:10]) for row in words] == [
        line for line in CONLLU.split("\n") if "\t" in line
    ]
    for sentence in (["The", "dog", "sleeps"], ["It", "'s"]):
        item = held.task.encode_words(sentence)
        (tags,) = held.task.predict(held.network, [item])
        assert [row[10] for row in words if row[1] in sentence] == tags
    assert {row[10] for row in words if not row[0].isdigit()} == {"_"}
    assert "words = column 2 ('form')" in done.stderr
    # What came out is read again, by name.
    scored = run("evaluate", str(tagger), str(out), "data.tags_column=translucid:predicted_tags")
    assert scored.returncode == 0, scored.stderr
    assert "accuracy             1.0000" in scored.stdout


def test_conll_without_tags_and_on_standard_input(tagger: Path, tmp_path: Path) -> None:
    (tmp_path / "a.conll").write_text("The\ndog\n\nIt\n")
    out = ask("tag", tagger, str(tmp_path / "a.conll"), "--probabilities").stdout.split("\n")
    assert [line.split("\t")[0] for line in out] == ["The", "dog", "", "It", "", ""]
    assert all(0 < float(line.split("\t")[2]) <= 1 for line in out if line)
    piped = ask("tag", tagger, "data.format=conll", stdin="The\ndog\n\nIt\n").stdout.split("\n")
    assert piped == ["\t".join(line.split("\t")[:2]) for line in out]
    spaced = ask("tag", tagger, stdin="The DT\ndog NN\n\n").stdout  # known tags: these are columns
    assert [line.split(" ")[:2] for line in spaced.split("\n")[:2]] == [
        ["The", "DT"],
        ["dog", "NN"],
    ]


def test_lists_of_words_and_texts_in_json(tagger: Path, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"words": ["The", "dog"], "n": 1}\n{"words": [], "n": 2}\n')
    rows = [
        json.loads(x) for x in ask("tag", tagger, str(tmp_path / "a.jsonl")).stdout.splitlines()
    ]
    assert [len(row["predicted_tags"]) for row in rows] == [2, 0]
    (tmp_path / "a.jsonl").write_text('{"text": "x", "form": ["The", "dog"]}\n')  # as in training
    named = ask("tag", tagger, str(tmp_path / "a.jsonl")).stdout
    assert json.loads(named)["predicted_tags"] == rows[0]["predicted_tags"]
    (tmp_path / "b.csv").write_text("n,text\n1,The dog\n")
    assert ask("tag", tagger, str(tmp_path / "b.csv")).stdout.startswith(
        "n,text,predicted_spans,note\n"
    )


# ---- evaluate ----


def test_evaluate_takes_the_columns_of_the_run(
    classifier: Path, tagger: Path, regressor: Path, tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text(
        table(["stars", "x", "review"], [[s, "", t] for t, s in REVIEWS]), "utf-8"
    )
    (tmp_path / "b.tsv").write_text("".join(f"{s}\t{t}\n" for t, s in REVIEWS))
    (tmp_path / "c.jsonl").write_text(
        "".join(json.dumps({"stars": s, "review": t}) + "\n" for t, s in REVIEWS)
    )
    files = {"a.csv": [], "c.jsonl": [], "b.tsv": ["data.label_column=1", "data.text_column=2"]}
    scores = [
        json.loads(ask("evaluate", classifier, str(tmp_path / name), *keys, "--json").stdout)
        for name, keys in files.items()
    ]
    assert scores[0]["scores"] == scores[1]["scores"] == scores[2]["scores"]
    held = tl.load(classifier)
    right = [held.classify([text])[0].label == stars for text, stars in REVIEWS]
    assert scores[0]["scores"]["accuracy"] == sum(right) / len(right)
    option = ask("evaluate", classifier, "--data", str(tmp_path / "a.csv"), "--json")
    assert json.loads(option.stdout) == scores[0]
    (tmp_path / "d.conllu").write_text(CONLLU, "utf-8")
    said = ask("evaluate", tagger, str(tmp_path / "d.conllu")).stderr
    assert "tags = column 5 ('xpos')" in said
    (tmp_path / "e.csv").write_text("y,b,a\n1,1,2\n6,0,6\n")
    assert "outputs = column 1 ('y')" in ask("evaluate", regressor, str(tmp_path / "e.csv")).stderr


# ---- files, pipes ----


def test_output_file_is_complete_or_absent(classifier: Path, tmp_path: Path) -> None:
    file, out = tmp_path / "a.csv", tmp_path / "out.csv"
    file.write_text("id,review\n1,fine\n2,bad\n")
    ask("classify", classifier, str(file), "--out", str(out))
    assert out.read_text("utf-8") == ask("classify", classifier, str(file)).stdout
    file.write_text("id,review\n1,fine\n2\n")
    broken = tmp_path / "broken.csv"
    done = run("classify", str(classifier), str(file), "--out", str(broken))
    assert done.returncode == 2
    assert "a.csv:3: this row has 1 cell" in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.csv", "out.csv"]


@pytest.mark.skipif(os.name == "nt", reason="waits for a pipe")
@pytest.mark.parametrize(
    "kind",
    [
        pytest.param("csv", marks=pytest.mark.slow),
        pytest.param("text", marks=pytest.mark.thorough),
        pytest.param("jsonl", marks=pytest.mark.thorough),
    ],
)
def test_a_pipe_is_answered_before_the_next_line(classifier: Path, kind: str) -> None:
    lines = {
        "text": ["so good\n", "so bad\n"],
        "csv": ["id,review\n1,so good\n", "2,so bad\n"],
        "jsonl": ['{"review": "so good"}\n', '{"review": "so bad"}\n'],
    }[kind]
    words = ["classify", str(classifier), f"data.format={kind}"]
    with subprocess.Popen(
        [sys.executable, "-m", "translucid", *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as asked:  # fmt: skip
        assert asked.stdin is not None
        assert asked.stdout is not None
        for line in lines:
            asked.stdin.write(line.encode())
            asked.stdin.flush()
            assert select.select([asked.stdout], [], [], 100)[0], "no answer while the pipe is open"
            assert os.read(asked.stdout.fileno(), 1 << 16)
        asked.stdin.close()
    assert asked.returncode == 0


def test_invalid_inputs_are_reported(classifier: Path, regressor: Path, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,y\nfine,1\nbad,2\n")
    for words, message in [
        (["classify", str(classifier), str(tmp_path / "a.csv")], "which column holds the text?"),
        (["classify", str(classifier), str(tmp_path / "a.csv"), "b"], ", b: give one file"),
        (["predict", str(regressor), "--probabilities"], "a regression model predicts numbers"),
        (["evaluate", str(classifier)], "names no test data; pass a file"),
        (["classify", str(classifier), "data.colour=1"], "colour: no such key"),
    ]:
        done = run(*words, stdin="1 2\n")
        assert done.returncode == 2, words
        assert message in done.stderr
