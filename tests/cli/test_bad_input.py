"""Every bad input and its answer, through the real command line.

Either an error with file, line and remedy (exit code 2, nothing left behind), or counted and
reported while the run goes on. Never a traceback, never a silent drop.
"""

import gzip
import io
import json
import lzma
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.forked import TRANSLUCID
from tests.tiny.dealt import dealt
from tests.tiny.once import once

from translucid.cli import main

Files = Mapping[str, str | bytes]

EN, DE = "the dog sleeps\na cat eats\n" * 6, "der Hund schläft\neine Katze frisst\n" * 6
LABELLED = "good\ta fine day\nbad\ta poor day\n" * 6
TAGGED = "Peter B-PER\nsleeps O\n\nAnna B-PER\n\n" * 6
NUMBERS = "x,y\n" + "".join(f"{i / 10},{i * i / 100}\n" for i in range(12))
GOOD: dict[str, dict[str, str]] = {
    "translate": {"a.en": EN, "a.de": DE},
    "language": {"a.txt": EN},
    "classify": {"a.tsv": LABELLED},
    "tag": {"a.conll": TAGGED},
    "regress": {"a.csv": NUMBERS},
}
TEXT = [
    "model.d_model=8", "model.heads=2", "model.layers=1", "tokenizer.kind=word",
    "training.steps=1", "training.batch_tokens=500", "training.device=cpu",
]  # fmt: skip
NUMERIC = ["model.hidden=[4]", "training.steps=1", "training.device=cpu"]
LEARNED = ["model.positions=learned", "model.max_length=16", "data.max_length=16"]


class Answer(NamedTuple):
    code: int
    out: str
    err: str


Command = Callable[..., Answer]


@pytest.fixture
def command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Command]:
    """Runs a command in a folder of its own; `files` are written there first."""
    monkeypatch.chdir(tmp_path)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def run(words: Sequence[str], files: Files | None = None, stdin: bytes = b"") -> Answer:
        write(files or {})
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        with pytest.raises(SystemExit) as ended:
            main(list(words))
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        assert "error: unexpected" not in err, err
        return Answer(int(str(ended.value.code)), out, err)

    yield run
    for number, handler in handlers.items():  # training put its own there
        signal.signal(number, handler)


def write(files: Files) -> None:
    for name, content in files.items():
        if name.endswith("/"):
            Path(name).mkdir()
        else:
            Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())


def train_words(task: str, *files: str) -> list[str]:
    named = [word for file in files for word in ("--train", file)]
    sizes = NUMERIC if task == "regress" else TEXT
    return ["train", task, *named, "--out", "run", *sizes]


def assert_refused(answer: Answer, *parts: str) -> None:
    assert answer.code == 2, answer.err
    error = answer.err[answer.err.index("error: ") :]
    for part in parts:
        assert part in error, error
    assert answer.out == ""
    assert not Path("run").exists(), "a run that was refused left a folder"


@pytest.fixture(scope="module")
def models() -> dict[str, str]:
    return trained_models()


def trained_models() -> dict[str, str]:
    """A trained model of every task, and three with learned positions."""
    folder = once("models of the command line", train_all)
    return {path.name: str(path) for path in folder.iterdir() if path.is_dir()}


def train_all(out: Path) -> None:
    home = Path.cwd()
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    os.chdir(out)
    try:
        for task, files in GOOD.items():
            write(files)
            for name, more in ((task, []), (f"learned-{task}", LEARNED)):
                if more and task not in ("translate", "classify", "tag"):
                    continue
                with pytest.raises(SystemExit, match="0"):
                    main([*train_words(task, *files), "--quiet", *more])
                Path("run").rename(name)
    finally:
        os.chdir(home)
        for number, handler in handlers.items():
            signal.signal(number, handler)


# Bytes that are no text, and files that are none: the same answer for every task and verb


class Spoilt(NamedTuple):
    """What is done to a good file, and what the message must say after the file's name."""

    change: Callable[[bytes], bytes | None]  # None: do not write it
    says: tuple[str, ...]
    suffix: str = ""


def at_line_2(change: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    def spoil(data: bytes) -> bytes:
        lines = data.split(b"\n")
        lines[1] = change(lines[1])
        return b"\n".join(lines)

    return spoil


SPOILT = {
    "invalid UTF-8": Spoilt(
        at_line_2(lambda line: line[:1] + b"\xff" + line[1:]),
        (":2: byte 2 of the line (0xff) is not UTF-8", "iconv -f LATIN1 -t UTF-8"),
    ),
    "NUL": Spoilt(
        at_line_2(lambda line: line[:1] + b"\0" + line[1:]),
        (":2: byte 2 of the line is NUL", "remove NUL with: tr -d '\\0'"),
    ),
    "a line of megabytes": Spoilt(
        at_line_2(lambda line: line + b"x" * 3_000_000),
        (":2: the line is longer than 1,048,576 bytes", "Split the line"),
    ),
    "empty": Spoilt(lambda data: b"", (": the file is empty; at least one line is needed",)),
    "UTF-16": Spoilt(
        lambda data: data.decode().encode("utf-16"), ("is UTF-16 text", "iconv -f UTF-16")
    ),
    "gzip cut short": Spoilt(
        lambda data: gzip.compress(data)[:-9],
        ("archive is damaged", "again"),
        ".gz",
    ),
    "xz cut short": Spoilt(
        lambda data: lzma.compress(data)[:-9],
        ("archive is damaged", "again"),
        ".xz",
    ),
    "not really gzip": Spoilt(
        lambda data: data, ("ends in .gz, but", "gzip archive", "rename it"), ".gz"
    ),
    "not really xz": Spoilt(
        lambda data: data, ("ends in .xz, but", "xz archive", "rename it"), ".xz"
    ),
    "missing": Spoilt(lambda data: None, (": no such file; ",)),
    "a folder": Spoilt(lambda data: None, ("is a folder",), "/"),
}


@pytest.mark.parametrize(
    ("fault", "task", "verb"), dealt(SPOILT, GOOD, ("train", "evaluate"), share=5)
)
def test_damaged_file_is_refused(
    fault: str, task: str, verb: str, command: Command, models: dict[str, str]
) -> None:
    spoilt, (first, *others) = SPOILT[fault], GOOD[task]
    name = first + spoilt.suffix
    content = spoilt.change(GOOD[task][first].encode())
    files: dict[str, str | bytes] = {other: GOOD[task][other] for other in others}
    if content is not None or spoilt.suffix == "/":
        files[name] = content or b""
    given = [name.removesuffix("/"), *others]
    words = train_words(task, *given)
    if verb == "evaluate":
        words = ["evaluate", models[task], *(f"--data={file}" for file in given)]
    assert_refused(command(words, files), given[0], *spoilt.says)


# Lines to be answered: translate, classify, tag and predict read them alike

VERBS = {"translate": "the dog", "classify": "a fine day", "tag": "Peter sleeps", "predict": "0.5"}
TASK_OF = {verb: "regress" if verb == "predict" else verb for verb in VERBS}
READS = [fault for fault in SPOILT if SPOILT[fault].suffix == "" and fault != "UTF-16"]


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("fault", [f for f in READS if f not in ("empty", "missing")])
def test_damaged_standard_input_is_refused(
    fault: str, verb: str, command: Command, models: dict[str, str]
) -> None:
    stdin = SPOILT[fault].change((VERBS[verb] + "\n").encode() * 3)
    answer = command([verb, models[TASK_OF[verb]]], stdin=stdin)
    assert_refused(answer, "standard input", *SPOILT[fault].says)


@pytest.mark.parametrize(
    ("verb", "fault"), dealt(VERBS, [f for f in SPOILT if f != "empty"], share=len(VERBS))
)
def test_damaged_text_file_is_refused(
    fault: str, verb: str, command: Command, models: dict[str, str]
) -> None:
    spoilt = SPOILT[fault]
    content = spoilt.change((VERBS[verb] + "\n").encode() * 3)
    name = "lines.txt" + spoilt.suffix
    files = {name: content or b""} if content is not None or spoilt.suffix == "/" else {}
    given = name.removesuffix("/")
    answer = command([verb, models[TASK_OF[verb]], given], files)
    assert_refused(answer, given, *spoilt.says)


@pytest.mark.parametrize("verb", VERBS)
def test_empty_input_gives_empty_output(
    verb: str, command: Command, models: dict[str, str]
) -> None:
    model = models[TASK_OF[verb]]
    assert command([verb, model]) == (0, "", "")
    assert command([verb, model, "empty.txt"], {"empty.txt": ""}) == (0, "", "")


@pytest.mark.parametrize("verb", ["translate", "classify", "tag"])
def test_output_has_one_line_per_input_line(
    verb: str, command: Command, models: dict[str, str]
) -> None:
    text = VERBS[verb]
    lines = [f"\ufeff{text}\r", "", text, f"{text}\u2028\x85\f{text}", "  ", text]
    answer = command([verb, models[verb], "--json"], stdin="\n".join(lines).encode())
    assert answer.code == 0, answer.err
    read = [json.loads(line) for line in answer.out.rstrip("\n").split("\n")]
    found = [entry["source" if verb == "translate" else "text"] for entry in read]
    assert found == [text, "", text, lines[3], "  ", text]


ROWS = {
    "too many": ("0.5\n1 2\n", ":2: "),
    "blank": ("0.5\n\n", ":2: 0 cells, but this model reads 1"),
    "a word": ("0.5\nabc\n", " is 'abc', but a number is needed"),
    "inf": ("0.5\ninf\n", " is 'inf', but a number is needed"),
}


@pytest.mark.parametrize("case", ROWS)
def test_rows_that_cannot_be_predicted(case: str, command: Command, models: dict[str, str]) -> None:
    stdin, says = ROWS[case]
    answer = command(["predict", models["regress"]], stdin=stdin.encode())
    assert_refused(answer, "standard input:2: ", says)
    answer = command(["predict", models["regress"], "x.csv"], {"x.csv": stdin})
    if case == "blank":  # of a table, it is no row
        assert (answer.code, answer.out.count("\n")) == (0, 2)
    else:
        assert_refused(answer, "x.csv:2: ", f"{stdin.split()[-1]}'")


def test_a_line_beyond_the_learned_positions_is_left_empty(
    command: Command, models: dict[str, str]
) -> None:
    lines = f"the dog\n{'the dog ' * 20}\nthe dog\n".encode()
    answer = command(["translate", models["learned-translate"]], stdin=lines)
    first, second, third = answer.out.split("\n")[:-1]
    assert (answer.code, second) == (1, "")
    assert first == third
    assert "standard input:2: 41 tokens, but this model has learned 16 positions" in answer.err
    assert answer.err.endswith("1 line was left empty; see the messages above\n")


@pytest.mark.parametrize("verb", ["classify", "tag"])
def test_a_line_beyond_the_learned_positions_is_answered(
    verb: str, command: Command, models: dict[str, str]
) -> None:
    text, model = VERBS[verb], models[f"learned-{verb}"]
    answer = command([verb, model], stdin=f"{text}\n{' '.join([text] * 20)}\n".encode())
    assert (answer.code, answer.out.count("\n")) == (0, 2), answer.err
    truncated = "warning: 1 text has more than the 16 tokens that this model reads"
    assert (truncated in answer.err) == (verb == "classify"), "a tagger reads windows"
    fitting = command([verb, model], stdin=f"{text}\n".encode())
    assert (fitting.code, fitting.out.count("\n")) == (0, 1)


@pytest.mark.parametrize("task", ["translate", "classify", "tag"])
def test_a_test_file_beyond_the_learned_positions(
    task: str, command: Command, models: dict[str, str]
) -> None:
    long = {
        "translate": {"t.en": f"the dog\n{'dog ' * 20}\n", "t.de": "der Hund\nHunde\n"},
        "classify": {"t.tsv": f"good\ta day\nbad\t{'day ' * 20}\n"},
        "tag": {"t.conll": "Anna B-PER\n" + "\n" + "dog O\n" * 20},
    }[task]
    words = ["evaluate", models[f"learned-{task}"], *(f"--data={file}" for file in long)]
    limited = command(words, long)
    assert limited.code == 0, limited.err
    action = {"translate": "left out", "classify": "truncated", "tag": "read in windows"}[task]
    assert f"1 of 2 test examples have over 16 tokens: {action}" in limited.err
    words.append("data.max_length=100")
    line = 3 if task == "tag" else 2
    parts = f"{next(iter(long))}:{line}: ", " tokens, but this model has learned 16 positions"
    assert_refused(command(words, long), *parts)


def test_a_prompt_beyond_the_learned_positions(command: Command) -> None:
    words = [*train_words("language", "a.txt"), *LEARNED, "--quiet"]
    assert command(words, GOOD["language"]).code == 0
    Path("run").rename("model")
    assert_refused(command(["generate", "model", "dog " * 20]), "learned positions end at 15")
    assert command(["generate", "model", "the dog", "--max-length", "100"]).code == 0
    assert_refused(command(["generate", "model", "a\udcff"]), "surrogate pair at character 2")


# Files that are text but not what the task needs


class Bad(NamedTuple):
    task: str
    files: Files  # written; those before "valid" or "test" in their names are for training
    says: tuple[str, ...]
    more: tuple[str, ...] = ()


REFUSED = {
    "unequal files": Bad(
        "translate",
        {"a.en": EN, "b.de": "eins\nzwei\n"},
        ("a.en has 12 lines, but b.de has 2: b.de ends after line 2", "a.en:3"),
    ),
    "one file twice": Bad("translate", {"a.en": EN}, ("a.en and a.en are the same file", "copy")),
    "only blank lines": Bad(
        "translate", {"a.en": "\n" * 12, "a.de": DE}, ("a.en + a.de: no usable record",)
    ),
    "only blank lines of text": Bad("language", {"a.txt": "\n\n"}, ("a.txt: no usable record",)),
    "only blank rows": Bad("classify", {"a.tsv": "\n\n"}, ("a.tsv", "2 blank lines")),
    "no sentence": Bad("tag", {"a.conll": "# x\n\n"}, ("a.conll", "no sentence")),
    "no format": Bad("classify", {"a.dat": LABELLED}, ("a.dat", ".tsv, .csv", "data.format")),
    "CSV with an open quote": Bad(
        "classify",
        {"a.csv": 'label,text\ngood,"a fine day\nbad,a poor day\n'},
        ("a.csv:2: this is not CSV", "write a quote inside them twice"),
    ),
    "CSV with a quote inside": Bad(
        "classify",
        {"a.csv": 'label,text\ngood,fine\nbad,"a" day\n'},
        ("a.csv:3: this is not CSV", "write a quote inside them twice"),
    ),
    "a row of another width": Bad(
        "classify",
        {"a.csv": "label,text\ngood,fine,day\n"},
        ("a.csv:2: ", "3 cells, but line 1 has 2", "quote separators"),
    ),
    "which column": Bad(
        "classify",
        {"a.csv": "id,stars,words\n7,1,good film\n"},
        (
            "a.csv: which column holds the label? there are 3 columns",
            "data.label_column=1 data.text_",
        ),
    ),
    "missing column": Bad(
        "classify",
        {"a.csv": "id,stars,words\n7,1,good film\n"},
        ("a.csv: text = 'word': there is no such column", "'id', 'stars', 'words'; did you mean"),
        ("data.text_column=word", "data.label_column=stars"),
    ),
    "missing column number": Bad(
        "classify",
        {"a.csv": "id,stars,words\n7,1,good film\n"},
        ("a.csv: text = 4: there is no such column; the columns are 'id', 'stars', 'words'",),
        ("data.text_column=4", "data.label_column=1"),
    ),
    "broken JSON": Bad(
        "classify",
        {"a.jsonl": '{"label": "a", "text": "x"}\n{"label": "b", "text"\n'},
        ("a.jsonl:2: this is not JSON", "one object per line is needed"),
    ),
    "JSON without a key": Bad(
        "classify",
        {"a.jsonl": '{"label": "a", "text": "x"}\n{"label": "b"}\n'},
        ("a.jsonl:2: ", "no column 'text'", "'label'"),
    ),
    "labels that may be missing": Bad(
        "classify",
        {"a.tsv": "label\ttext\n" + "good\tx\nnone\ty\n" * 6},
        (
            "a.tsv: 6 of 12 labels are 'none'",
            "a class, or a missing label",
            "data.missing_labels=[]",
        ),
    ),
    "a header or data": Bad(
        "classify",
        {"a.tsv": "name\tkind\nanna\tgood\nbert\tbad\ncarl\tgood\n"},
        (
            "a.tsv:1: the row 'name', 'kind' may be a header or data",
            "data.header=true",
            "data.header=false",
        ),
    ),
    "CoNLL with too few columns": Bad(
        "tag",
        {"a.conll": "Anna B-PER\nsleeps\n"},
        ("a.conll:2: the tags", "column 2", "1 column", "'sleeps'", "blank line"),
    ),
    "a sentence without tags": Bad(
        "tag",
        {"a.conll": "Anna B-PER\n\nAnna\nsleeps\n"},
        ("a.conll:3: the tags should be in column 2, but this line has 1 column: 'Anna'",),
    ),
    "tags for other words": Bad(
        "tag",
        {"a.jsonl": '{"words": ["a", "b"], "tags": ["O"]}\n'},
        ("a.jsonl:1: ", "2 words, but 1 tags", "each word one tag"),
    ),
    **{
        f"{value} among numbers": Bad(
            "regress",
            {"a.csv": "x,y\n" + "".join(f"{n % 7}.5,2\n" for n in range(30)) + f"{value},4\n"},
            (f"a.csv:32: x is '{value}', but the other cells of this column are numbers",),
        )
        for value in ("two", "-inf", "1e999")
    },
    "one column of numbers": Bad(
        "regress", {"a.csv": "1\n2\n"}, ("a.csv: all columns are targets",)
    ),
    **{
        f"unknown label in {part}": Bad(
            "classify",
            {"a.tsv": LABELLED, f"{part}.tsv": "good\tx\ngod\ty\n"},
            (f"{part}.tsv:2: ", "no label 'god'; did you mean 'good'?"),
        )
        for part in ("valid", "test")
    },
    **{
        f"unknown tag in {part}": Bad(
            "tag",
            {"a.conll": TAGGED, f"{part}.conll": "Anna B-PER\n\nBonn B-LOC\n"},
            (f"{part}.conll:3: ", "no tag 'B-LOC'", "'B-PER'"),
        )
        for part in ("valid", "test")
    },
    "an empty validation file": Bad(
        "classify", {"a.tsv": LABELLED, "valid.tsv": ""}, ("valid.tsv: the file is empty",)
    ),
    "no tokens allowed": Bad(
        "classify", {"a.tsv": LABELLED}, ("data.max_length = 2", "raise"), ("data.max_length=2",)
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str, command: Command) -> None:
    bad = REFUSED[case]
    assert_refused(command(words_of(bad), bad.files), *bad.says)


# What only shows once the examples are read: settings that do not fit them.
UNFIT = {
    **{
        f"one example to {task}": Bad(
            task, files, (f"{' + '.join(files)}: 1 record", "is too few", "--valid")
        )
        for task, files in {
            "translate": {"a.en": "dog\n", "a.de": "Hund\n"},
            "language": {"a.txt": "the dog\n"},
            "classify": {"a.tsv": "good\tday\n"},
            "tag": {"a.conll": "Anna B-PER\n"},
            "regress": {"a.csv": "1,2\n"},
        }.items()
    },
    "one class": Bad(
        "classify", {"a.tsv": "good\tx\ngood\ty\n" * 3}, ("every label is 'good'", "at least two")
    ),
    "one tag": Bad("tag", {"a.conll": "dog O\n\n" * 6}, ("every tag is 'O'", "at least two")),
    "batches smaller than an example": Bad(
        "classify",
        {"a.tsv": LABELLED},
        ("training.batch_tokens = 2", "5 tokens"),
        ("training.batch_tokens=2",),
    ),
    "a vocabulary without room": Bad(
        "classify",
        {"a.tsv": LABELLED},
        ("tokenizer.vocab_size = 4", "at least 5"),
        ("tokenizer.vocab_size=4",),
    ),
    **{
        f"other columns in {part}": Bad(
            "regress",
            {"a.csv": NUMBERS, f"{part}.csv": "1,2,3\n"},
            (f"{part}.csv:1: ", "2 inputs", "training data has 1"),
        )
        for part in ("valid", "test")
    },
    "examples longer than learned positions": Bad(
        "classify",
        {"a.tsv": LABELLED},
        ("data.max_length = 256", "model.max_length = 16"),
        ("model.positions=learned", "model.max_length=16"),
    ),
    "held-out examples that are all too long": Bad(
        "classify",
        {"a.tsv": LABELLED, "valid.tsv": f"good\t{'day ' * 20}\nbad\t{'day ' * 20}\n"},
        ("all 2 validation examples have over data.max_length = 16 tokens",),
        (*LEARNED, "data.long=skip"),
    ),
    "a run folder inside a file": Bad(
        "classify", {"a.tsv": LABELLED}, ("a.tsv/run could not be written",), ("--out", "a.tsv/run")
    ),
}


@pytest.mark.parametrize("case", UNFIT)
def test_settings_that_do_not_fit_the_examples(case: str, command: Command) -> None:
    bad = UNFIT[case]
    assert_refused(command(words_of(bad), bad.files), *bad.says)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "no such recipe: recipe.toml; give a TOML file, a task ("),
        (b"task.kind = 'tag'\n# \xff\n", "recipe.toml: not UTF-8: "),
        (b"[task\n", "recipe.toml: not valid TOML: "),
        (b"task = 3\n", "recipe.toml: task = 3: must be a section; write [task]"),
        (b"task.kind = 'tag'\ndata = 3\n", "recipe.toml: data = 3: must be a section"),
    ],
)
def test_recipes_that_cannot_be_read(content: bytes | None, says: str, command: Command) -> None:
    files: Files = {"recipe.toml/": b""} if content is None else {"recipe.toml": content}
    words = ["train", "recipe.toml", "--train", "a.conll", "--out", "run"]
    assert_refused(command(words, files), says)


def test_evaluate_reports_skipped_rows(command: Command, models: dict[str, str]) -> None:
    words = ["evaluate", models["classify"], "--data", "t.tsv"]
    answer = command(words, {"t.tsv": LABELLED + "\ngood\t\n"})
    assert answer.code == 0
    assert "t.tsv: 12 records" in answer.err
    assert "2 empty, left out (first: line 13)" in answer.err
    assert answer.out.startswith("accuracy")


def test_refused_run_leaves_no_files(command: Command) -> None:
    words = train_words("classify", "a.tsv")
    words[words.index("run")] = "mine"
    assert_refused(command(words, {"mine/": b""}), "a.tsv: no such file")
    assert Path("mine").is_dir(), "a folder that was there before is gone"
    words[words.index("mine")] = "deep/down"
    assert_refused(command(words), "a.tsv: no such file")
    assert not Path("deep").exists()


def words_of(bad: Bad) -> list[str]:
    held_out = {name: name.partition(".")[0] for name in bad.files if name[:4] in ("vali", "test")}
    train = [name for name in bad.files if name not in held_out]
    if bad.task == "translate" and len(train) == 1:
        train *= 2
    parts = [word for name, part in held_out.items() for word in (f"--{part}", name)]
    keys = {word.partition("=")[0] for word in bad.more}
    usual = [word for word in train_words(bad.task, *train) if word.partition("=")[0] not in keys]
    return [*usual, *parts, *bad.more]


@pytest.mark.parametrize(
    ("task", "content", "says"),
    [
        ("classify", "good\tx\ngod\ty\n", "no label 'god'; did you mean"),
        ("tag", "Anna B-PER\n\nBonn B-LOC\n", "no tag 'B-LOC'; "),
    ],
)
def test_unknown_labels_when_evaluating(
    task: str, content: str, says: str, command: Command, models: dict[str, str]
) -> None:
    name = next(iter(GOOD[task]))
    answer = command(["evaluate", models[task], "--data", name], {name: content})
    assert_refused(answer, name, says, "it was trained with")


def test_no_permission(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    write(GOOD["classify"])
    Path("a.tsv").chmod(0)
    if os.access("a.tsv", os.R_OK):  # root reads everything
        real = open

        def refuse(file: object, *args: object, **options: object) -> object:
            if str(file) == "a.tsv":
                raise PermissionError(13, "Permission denied")
            return real(file, *args, **options)  # type: ignore[call-overload]

        monkeypatch.setattr("builtins.open", refuse)
    assert_refused(command(train_words("classify", "a.tsv")), "a.tsv: no permission", "chmod u+r")


def test_the_output_is_a_file_or_not_empty(command: Command) -> None:
    words = train_words("classify", "a.tsv")
    files = {**GOOD["classify"], "taken": "mine", "full/": "", "full/notes": "mine"}
    words[words.index("run")] = "taken"
    assert_refused(command(words, files), "taken is a file; choose a folder with --out")
    words[words.index("taken")] = "full"
    assert_refused(command(words), "full is not empty; choose another folder with --out")
    assert Path("taken").read_text("utf-8") == Path("full/notes").read_text("utf-8") == "mine"


# What is no error: counted, said, and the run goes on


class Counted(NamedTuple):
    task: str
    files: Files
    says: tuple[str, ...]
    labels: tuple[str, ...] | None = None
    more: tuple[str, ...] = ()


def changed(task: str, old: str, new: str, count: int = -1) -> dict[str, str]:
    """The good files of a task, the first one with something replaced."""
    first = next(iter(GOOD[task]))
    return {**GOOD[task], first: GOOD[task][first].replace(old, new, count)}


TAGS, CLASSES = ("O", "B-PER"), ("bad", "good")
GOES_ON = {
    "an empty line in one of two files": Counted(
        "translate",
        changed("translate", "a cat eats", "", 1),
        ("a.en + a.de: 11 records", "1 empty, left out (first: line 2)"),
    ),
    "empty lines of text": Counted(
        "language",
        changed("language", "a cat eats", " ", 2),
        ("a.txt: 10 records", "2 empty, left out (first: line 2)"),
    ),
    "an empty row, and one without text": Counted(
        "classify",
        {"a.tsv": LABELLED + "\ngood\t \n"},
        ("a.tsv: 12 records", "2 empty, left out (first: line 13)"),
        CLASSES,
    ),
    "an empty row of numbers": Counted(
        "regress", {"a.csv": NUMBERS + "\n"}, ("12 records", "1 empty, left out (first: line 14)")
    ),
    "comments among sentences": Counted(
        "tag",
        {"a.conll": "# one\n" + TAGGED},
        ("a.conll: 12 records", "1 comment lines, skipped (first: line 1)"),
        TAGS,
    ),
    "a byte-order mark": Counted(
        "classify", {"a.tsv": "\ufeff" + LABELLED}, ("a.tsv: 12 records",), CLASSES
    ),
    "other line ends inside lines": Counted(
        "translate",
        changed("translate", "dog", "dog\u2028\x85\f\v\x1c", 3),
        ("a.en + a.de: 12 records",),
    ),
    "other line ends inside cells": Counted(
        "classify", changed("classify", "fine", "fi\u2028\x85\fne"), ("12 records",), CLASSES
    ),
    "gzip and xz": Counted(
        "translate",
        {"a.en.gz": gzip.compress(EN.encode()), "a.de.xz": lzma.compress(DE.encode())},
        ("a.en.gz + a.de.xz: 12 records",),
    ),
    "a long example": Counted(
        "translate",
        {"a.en": EN + "dog " * 300 + "\n", "a.de": DE + "Hunde\n"},
        ("1 of 11 training examples have over 256 tokens: left out",),
    ),
    "short learned positions": Counted(
        "translate", GOOD["translate"], ("12 records",), None, tuple(LEARNED)
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", GOES_ON)
def test_skipped_rows_are_counted_and_reported(case: str, command: Command) -> None:
    counted = GOES_ON[case]
    words = [*train_words(counted.task, *counted.files), *counted.more]
    answer = command(words, counted.files)
    assert answer.code == 0, answer.err
    for part in counted.says:
        assert part in answer.err
    config = json.loads(Path("run/best/config.json").read_text("utf-8"))
    assert counted.labels is None or tuple(config["labels"]) == counted.labels


def test_byte_order_mark_and_windows_line_ends_change_nothing(command: Command) -> None:
    """A tokenizer of single characters would have learnt them."""
    learnt = []
    for text in (EN, "\ufeff" + EN.replace("\n", "\r\n")):
        words = [*train_words("language", "a.txt"), "--valid", "a.txt"]
        words[words.index("tokenizer.kind=word")] = "tokenizer.kind=char"
        answer = command(words, {"a.txt": text})
        assert answer.code == 0, answer.err
        learnt.append(json.loads(Path("run/best/config.json").read_text("utf-8"))["tokenizers"])
        shutil.rmtree("run")
    assert learnt[0] == learnt[1]


# Files that change while they are read, and a real shell around the command


@pytest.mark.slow
def test_a_file_that_shrinks_while_it_is_read(command: Command) -> None:
    """A pipe as second file makes the reader wait for us after its first line of the first."""
    write({"a.en": "the dog sleeps\n" * 100_000})
    os.mkfifo("a.de")

    def shrink() -> None:
        with suppress(BrokenPipeError), open("a.de", "w", encoding="utf-8") as pipe:
            os.truncate("a.en", 600_000)
            pipe.write("der Hund\n" * 100_000)

    writer = threading.Thread(target=shrink)
    writer.start()
    answer = command(train_words("translate", "a.en", "a.de"))
    writer.join()
    says = "a.en changed while it was read (from 1,500,000 to 600,000 bytes)"
    assert_refused(answer, says, "read it again while no other program")


PYTHON = [sys.executable, "-m", "translucid"]


def start(*words: str, **pipes: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*TRANSLUCID, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        **pipes,
    )


def test_lines_that_shrink_while_they_are_answered(tmp_path: Path, models: dict[str, str]) -> None:
    path = tmp_path / "lines.txt"
    path.write_text("a fine day\n" * 300_000)
    with start("classify", models["classify"], str(path)) as running:
        assert running.stdout is not None
        running.stdout.readline()
        os.truncate(path, 100_000)
        _, err = running.communicate(timeout=300)
    assert running.returncode == 2
    assert f"error: {path} changed while it was read" in err
    assert "Traceback" not in err


def test_closed_output_pipe(tmp_path: Path, models: dict[str, str]) -> None:
    (tmp_path / "lines.txt").write_text("the dog\n" * 5000)
    words = ["translate", models["translate"], str(tmp_path / "lines.txt"), "--beam-size", "1"]
    with start(*words) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.readline()  # head -1
        running.stdout.close()
        assert running.stderr.read() == ""
    assert running.returncode == 1


@pytest.mark.slow
def test_closed_standard_input(models: dict[str, str]) -> None:
    words = ["sh", "-c", 'exec "$@" <&-', "sh", *PYTHON, "classify", models["classify"]]
    done = subprocess.run(words, capture_output=True, encoding="utf-8", check=False, timeout=300)
    says = "error: standard input is closed; pass a file, or pipe text into the command\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", says)


def test_refused_by_the_real_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    bad = REFUSED["unequal files"]
    write(bad.files)
    with start(*words_of(bad)) as running:
        out, err = running.communicate(timeout=300)
    assert "Traceback" not in err
    assert_refused(Answer(running.returncode, out, err), *bad.says)
