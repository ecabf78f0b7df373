"""translate, generate and score as people meet them: long files, interruptions, every option."""
# ruff: noqa: F811 (a fixture of another file looks like a name that is overwritten)

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests import in_process
from tests.cli.test_bad_input import (
    GOOD,
    LEARNED,
    TEXT,
    Command,
    assert_refused,
    command,  # noqa: F401 (a fixture)
    start,
    write,
)
from tests.forked import TRANSLUCID
from tests.tiny.once import once

from translucid.cli import main
from translucid.cli.shared import answering
from translucid.core.atomic_files import write_manifest
from translucid.core.errors import InputError, TraceError
from translucid.core.spelling import quoted
from translucid.core.trace import Trace
from translucid.generate.beam_search import GenerationConfig
from translucid.generate.sampling import SamplingConfig
from translucid.model import Model, load

WORDS = ["the", "dog", "sleeps", "a", "cat", "eats"]


@pytest.fixture(scope="module")
def folders() -> dict[str, str]:
    """Two translators of one vocabulary, one of another, one with few positions; two language
    models."""
    out = once("models of the command line that write", train_those_that_write)
    return {path.name: str(path) for path in out.iterdir() if path.is_dir()}


def train_those_that_write(out: Path) -> None:
    home = Path.cwd()
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    os.chdir(out)
    try:
        write(GOOD["translate"] | GOOD["language"])
        pair = ["--train", "a.en", "--train", "a.de"]
        taught = [
            "model.dropout=0.3", "training.steps=60", "training.warmup=5",
            "training.learning_rate=0.01",
        ]  # fmt: skip
        for name, words in {
            "one": ["translate", *pair, "decoding.beam_size=3", "decoding.alpha=0.5", *taught],
            "two": ["translate", *pair, "tokenizer.folder=one/best/tokenizer", "training.seed=1"],
            "other": ["translate", *pair, "tokenizer.kind=char"],
            "short": ["translate", *pair, *LEARNED, *taught],
            "language": ["language", "--train", "a.txt"],
            "lstm": ["language", "--train", "a.txt", "model.kind=recurrent", "model.hidden=8"],
        }.items():
            sizes = [w for w in TEXT if name != "lstm" or not w.startswith("model.heads")]
            own = {word.partition("=")[0] for word in words}
            sizes = [w for w in sizes if "decoding" not in w and w.partition("=")[0] not in own]
            with pytest.raises(SystemExit, match="0"):
                main(["train", words[0], *words[1:3], *sizes, "--out", name, "--quiet", *words[3:]])
    finally:
        os.chdir(home)
        for number, handler in handlers.items():
            signal.signal(number, handler)


@pytest.fixture(scope="module")
def one(folders: dict[str, str]) -> Model:
    return load(folders["one"])


def lines(count: int, seed: int = 0) -> list[str]:
    """Of all lengths, in no order; some are empty."""
    dice = random.Random(seed)
    return [" ".join(dice.choices(WORDS, k=dice.randrange(12))) for _ in range(count)]


# --- many lines


@pytest.mark.slow
def test_order_is_kept_over_lines_of_all_lengths(
    command: Command, folders: dict[str, str], one: Model
) -> None:
    given = lines(200)
    words = ["translate", folders["one"], "lines.txt", "--beam-size", "2"]
    answer = command(words, {"lines.txt": "\n".join(given) + "\n"})
    assert (answer.code, answer.err) == (0, "")
    by_text = {text: one.translate([text], beam_size=2)[0] for text in sorted(set(given))[:40]}
    found = answer.out.split("\n")[:-1]
    assert len(found) == 200
    assert sum(text in by_text for text in given) > 40
    for text, translation in zip(given, found, strict=True):
        assert by_text.get(text, translation) == translation
    written = command([*words, "--out", "out.txt"])
    assert (written.code, written.out) == (0, "")
    assert written.err.startswith("out.txt: 200 lines translated in ")
    assert Path("out.txt").read_text("utf-8") == answer.out
    assert sorted(p.name for p in Path().iterdir()) == ["lines.txt", "out.txt"]


def begun(folder: str, path: Path, *more: str) -> "subprocess.Popen[str]":
    """A run that has some lines on disk, and more to do."""
    running = start("translate", folder, str(path / "in.txt"), "--out", str(path / "out"), *more)
    note = path / "out.part.json"
    for _ in range(6000):
        if note.exists() and json.loads(note.read_text("utf-8"))["lines"]:
            return running
        assert running.poll() is None, running.communicate()
        time.sleep(0.05)
    raise AssertionError("nothing was written")


def test_ctrl_c_between_a_chunk_and_its_note_counts_what_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    note, notes = answering._PartFile._write_note, iter(range(100))

    def interrupted(sink: answering._PartFile, size: int) -> None:
        if next(notes) == 2:  # of the second chunk; the first note is written before all chunks
            raise KeyboardInterrupt
        note(sink, size)

    monkeypatch.setattr(answering._PartFile, "_write_note", interrupted)
    (tmp_path / "in.txt").write_text("The food was good.\n" * 1000, "utf-8")
    command = ["classify", "demo:classify", "in.txt", "--out", "out"]
    done = in_process.run(*command, cwd=tmp_path)
    kept = json.loads((tmp_path / "out.part.json").read_text("utf-8"))["lines"]
    assert 0 < kept < 1000
    assert (done.returncode, f"stopped after {kept:,} lines" in done.stderr) == (130, True)
    monkeypatch.undo()
    assert in_process.run(*command, cwd=tmp_path).returncode == 0
    assert (tmp_path / "out").read_text("utf-8").count("positive") == 1000


@pytest.mark.slow
@pytest.mark.parametrize(
    "way", [signal.SIGINT, pytest.param(signal.SIGKILL, marks=pytest.mark.thorough)]
)
def test_resumed_translation_writes_the_same_bytes(
    way: signal.Signals, tmp_path: Path, folders: dict[str, str], command: Command
) -> None:
    (tmp_path / "in.txt").write_text("\n".join(lines(1000)), "utf-8")
    words = ["translate", folders["one"], str(tmp_path / "in.txt"), "--beam-size", "2", "--out"]
    assert command([*words, "whole"]).code == 0
    with begun(folders["one"], tmp_path, "--beam-size", "2") as running:
        running.send_signal(way)
        out, err = running.communicate(timeout=300)
    done = json.loads((tmp_path / "out.part.json").read_text("utf-8"))["lines"]
    assert 0 < done < 1000
    assert not (tmp_path / "out").exists()
    if way is signal.SIGINT:
        said = f"stopped after {done:,} lines, which are in {tmp_path / 'out.part'}; run the same"
        assert (running.returncode, out) == (130, "")
        assert said in err
    else:  # in the middle of a write
        with (tmp_path / "out.part").open("a", encoding="utf-8") as part:
            part.write("half a li")
    answer = command([*words, str(tmp_path / "out")])
    assert answer.code == 0, answer.err
    assert f"resuming after the {done:,} lines in" in answer.err
    assert (tmp_path / "out").read_bytes() == Path("whole").read_bytes()
    assert not list(tmp_path.glob("out.part*"))


@pytest.mark.slow  # several processes
def test_changed_settings_are_refused_on_resume(
    tmp_path: Path, folders: dict[str, str], command: Command
) -> None:
    given = lines(1000)
    (tmp_path / "in.txt").write_text("\n".join(given), "utf-8")
    with begun(folders["one"], tmp_path, "--beam-size", "2") as running:
        running.kill()
        running.communicate(timeout=300)
    words = ["translate", folders["one"], str(tmp_path / "in.txt"), "--out", str(tmp_path / "out")]
    said = "beam_size = 2, now it is 3; "
    assert_refused(command([*words, "--beam-size", "3"]), said)
    two = ["translate", folders["two"], *words[2:], "--beam-size", "2"]
    assert_refused(command(two), "was started with models = ")
    (tmp_path / "in.txt").write_text("\n".join(["a cat", *given[1:]]), "utf-8")
    said = "lines are not those that"
    assert_refused(command([*words, "--beam-size", "2"]), "in.txt: the first ", said, "start over")
    (tmp_path / "out.part.json").write_text("{")
    assert_refused(command([*words, "--beam-size", "2"]), "does not match it; remove both")
    (tmp_path / "out").write_text("")
    assert_refused(command([*words, "--beam-size", "2"]), "out already exists; ")


def test_refused_translation_leaves_no_files(command: Command, folders: dict[str, str]) -> None:
    files = {"in.txt": b"the dog\n\xff\n"}
    answer = command(["translate", folders["one"], "in.txt", "--out", "out"], files)
    assert_refused(answer, "in.txt:2: byte 1 of the line (0xff) is not UTF-8")
    assert [path.name for path in Path().iterdir()] == ["in.txt"]
    answer = command(["translate", folders["one"], "--out", "out"], stdin=files["in.txt"])
    assert_refused(answer, "standard input:2: byte 1 of the line (0xff) is not UTF-8")
    assert [path.name for path in Path().iterdir()] == ["in.txt"]
    answer = command(["translate", folders["one"], "in.txt", "--out", "no/out"], {"in.txt": "a\n"})
    assert_refused(answer, "no/out.part.json could not be written")


@pytest.mark.slow
def test_too_long_lines_are_reported_and_left_empty(
    command: Command, folders: dict[str, str]
) -> None:
    files = {"in.txt": f"the dog\n{'dog ' * 30}\n\na cat\n"}
    words = ["translate", folders["short"], "in.txt"]
    answer = command([*words, "--out", "out"], files)
    assert (answer.code, answer.out) == (1, "")
    assert "in.txt:2: 31 tokens, but this model has learned 16 positions" in answer.err
    found = Path("out").read_text("utf-8").split("\n")
    assert [bool(line) for line in found] == [True, False, False, True, False]
    answer = command([*words, "--json"])
    values = [json.loads(line) for line in answer.out.splitlines()]
    assert ["error" in each for each in values] == [False, True, False, False]
    assert answer.code == 1
    answer = command([*words, "--n-best", "2"])
    assert [line.split(" ||| ")[0] for line in answer.out.splitlines()] == ["0", "0", "2", "3", "3"]
    answer = command(["translate", folders["one"], "in.txt", "--max-input-length", "4"])
    assert answer.code == 1
    assert (
        "in.txt:2: 31 tokens, above --max-input-length 4; split the line, or raise the limit"
        in answer.err
    )
    assert len(answer.out.splitlines()) == 4


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_a_terminal_shows_the_rate_and_the_time_left(
    tmp_path: Path, folders: dict[str, str]
) -> None:
    (tmp_path / "in.txt").write_text("\n".join(lines(600)), "utf-8")
    words = ["translate", folders["one"], str(tmp_path / "in.txt"), "--out", str(tmp_path / "out")]
    shown = on_terminal(words, "stderr")
    assert "lines/s" in shown
    assert " left" in shown
    assert "600/600" in shown


def on_terminal(words: list[str], stream: str, **environment: str) -> str:
    """What a command shows there, read while it runs."""
    import pty

    ours, theirs = pty.openpty()
    options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, stream: theirs}
    shown = b""
    env = os.environ | {"TERM": "xterm", "COLUMNS": "120"} | environment
    with subprocess.Popen([*TRANSLUCID, *words], env=env, **options) as process:
        os.close(theirs)
        while True:
            try:
                got = os.read(ours, 4096)
            except OSError:  # Linux's way to say that nobody writes any more
                break
            if not got:
                break
            shown += got
    os.close(ours)
    assert process.returncode == 0, shown.decode()
    return shown.decode()


# --- what is written


def test_json_contains_all_hypotheses(
    command: Command, folders: dict[str, str], one: Model
) -> None:
    words = ["translate", folders["one"], "--json", "--n-best", "3", "--alpha", "0.7"]
    answer = command(words, stdin=b"the dog\na cat\n")
    assert answer.code == 0, answer.err
    for line, text in zip(answer.out.splitlines(), ["the dog", "a cat"], strict=True):
        values = json.loads(line)
        (found,) = one.decode([text], n_best=3, alpha=0.7)
        assert values["source"] == text
        assert values["translation"] == found.texts[0].text
        assert len(values["texts"]) == 3
        for given, expected in zip(values["texts"], found.texts, strict=True):
            assert given["text"] == expected.text
            assert given["pieces"] == expected.pieces
            assert given["token_log_probs"] == pytest.approx(expected.token_log_probs, abs=1e-5)
            assert given["score"] == pytest.approx(expected.score, abs=1e-5)
            assert given["finished"] == expected.finished


def test_n_best_output(command: Command, folders: dict[str, str], one: Model) -> None:
    answer = command(["translate", folders["one"], "--n-best", "2"], stdin=b"the dog\na cat\n")
    expected = [
        f"{number} ||| {text.text} ||| {text.score:.4f}"
        for number, found in enumerate(one.decode(["the dog", "a cat"], n_best=2))
        for text in found.texts
    ]
    assert answer.out.splitlines() == expected


@pytest.mark.parametrize(
    ("words", "options"),
    [
        (["--prefix", "der"], {"prefix": "der"}),
        (["--forbid", "Hund", "--forbid", "frisst"], {"forbid": ["Hund", "frisst"]}),
        (["--force", "1=Hund"], {"force": {1: "Hund"}}),
        (
            ["--no-repeat-ngram", "1", "--min-length", "5"],
            {"no_repeat_ngram": 1, "min_length": 5},
        ),
        (
            ["--repetition-penalty", "3", "--min-length", "5"],
            {"repetition_penalty": 3.0, "min_length": 5},
        ),
        (["--max-length", "3", "--beam-size", "5"], {"max_length": 3, "beam_size": 5}),
        (["--alpha", "3", "--beam-size", "8"], {"alpha": 3.0, "beam_size": 8}),
    ],
)
def test_every_option_reaches_the_search(
    words: list[str], options: dict[str, object], command: Command, folders: dict[str, str],
    one: Model,
) -> None:  # fmt: skip
    texts = ["the dog sleeps", "a cat", "cat cat dog a"]
    answer = command(["translate", folders["one"], *words], stdin="\n".join(texts).encode())
    assert answer.code == 0, answer.err
    found = answer.out.split("\n")[:-1]
    assert found == one.translate(texts, **options)
    assert found != one.translate(texts), "an option that changes nothing shows nothing"


def test_groups_reach_the_search(command: Command, folders: dict[str, str], one: Model) -> None:
    words = ["--beam-groups", "2", "--diversity-penalty", "5", "--n-best", "4"]
    answer = command(["translate", folders["one"], *words], stdin=b"the dog")
    texts = [line.split(" ||| ")[1] for line in answer.out.splitlines()]
    (found,) = one.decode(["the dog"], beam_groups=2, diversity_penalty=5.0, n_best=4)
    (plain,) = one.decode(["the dog"], n_best=4)
    assert texts == [each.text for each in found.texts] != [each.text for each in plain.texts]


@pytest.mark.slow
def test_ensemble_of_models(command: Command, folders: dict[str, str], one: Model) -> None:
    words = ["translate", folders["one"], "--ensemble", folders["two"], "--json"]
    (line,) = command(words, stdin=b"the dog").out.splitlines()
    (both,) = one.decode(["the dog"], ensemble=[load(folders["two"])])
    assert json.loads(line)["texts"][0]["token_log_probs"] == pytest.approx(
        both.texts[0].token_log_probs, abs=1e-5
    )
    (alone,) = one.decode(["the dog"])
    assert both.texts[0].token_log_probs != pytest.approx(alone.texts[0].token_log_probs, abs=1e-3)
    words = ["translate", folders["one"], "--ensemble", folders["other"]]
    assert_refused(command(words, stdin=b"a"), "the models have different vocabularies")
    words = ["translate", folders["one"], "--ensemble", folders["language"]]
    assert_refused(command(words, stdin=b"a"), "a model for task language cannot form an ensemble")


def test_edits_of_a_trace_reach_the_search(folders: dict[str, str], one: Model) -> None:
    """A hook that does the same shows what should come out; so do several texts by chance."""
    point, texts = "decoder.layers.0.feedforward.output", ["the dog"]
    hooked = load(folders["one"])
    hooked.network.get_submodule("decoder.layers.0.feedforward").register_forward_hook(
        lambda part, given, output: -3 * output
    )
    for options in ({"n_best": 3}, {"n_best": 2, "sampling": SamplingConfig(), "seed": 5}):
        (plain,) = one.decode(texts, **options)
        (wanted,) = hooked.decode(texts, **options)
        trace = Trace([point], edit={point: lambda value: -3 * value})
        (found,) = one.decode(texts, trace=trace, **options)
        assert point in trace
        token_log_probs = [[gain for text in each.texts for gain in text.token_log_probs]
                 for each in (found, wanted, plain)]  # fmt: skip
        assert token_log_probs[0] == pytest.approx(token_log_probs[1], abs=1e-5)
        assert token_log_probs[0] != pytest.approx(token_log_probs[2], abs=1e-3)
    twin = load(folders["one"])
    assert twin.translate(texts) == one.translate(texts)
    twin.network = hooked.network
    assert (
        twin.decode(texts)[0].texts[0].token_log_probs
        == hooked.decode(texts)[0].texts[0].token_log_probs
    )
    with pytest.raises(InputError, match="one model; omit ensemble"):
        one.decode(texts, ensemble=[load(folders["two"])], trace=Trace([], edit={point: 0.0}))
    with pytest.raises(TraceError, match=r"one position of a whole text.*omit the position"):
        one.decode(texts, trace=Trace([], edit={f"{point}@2": 0.0}))


@pytest.mark.slow
def test_sampled_translations(command: Command, folders: dict[str, str]) -> None:
    words = ["translate", folders["one"], "--sample", "--top-k", "5", "--n-best", "3", "--seed"]
    first = command([*words, "1"], stdin=b"the dog\na cat\n")
    assert first.code == 0, first.err
    assert first.out.split("\n")[3:] == command([*words, "1"], stdin=b"\na cat\n").out.replace(
        "0 |||  ||| 0.0000\n", ""
    ).split("\n")
    assert first.out != command([*words, "2"], stdin=b"the dog\na cat\n").out


def test_explain(command: Command, folders: dict[str, str], one: Model) -> None:
    words = ["translate", folders["one"], "--explain", "--forbid", "Hund"]
    answer = command(words, stdin=b"the dog sleeps\n\n")
    assert answer.code == 0, answer.err
    (found,) = one.decode(["the dog sleeps"], forbid=["Hund"], tree=True)
    assert answer.out.startswith(
        f"the dog sleeps\n  -> {found.texts[0].text}\n\nbeam size 3, alpha 0.5"
    )
    assert found.tree is not None
    for sign in ("●", "○", "×", "⊘ ", "('Hund' is forbidden)", "[1st: "):
        assert sign in answer.out
    assert max(map(len, answer.out.splitlines())) <= 120
    assert "an empty line has an empty translation" in answer.out
    (line,) = command([*words, "--json"], stdin=b"the dog sleeps").out.splitlines()
    tree = json.loads(line)["tree"]
    assert len(tree["nodes"]) == len(found.tree.nodes)
    assert [n["piece"] for n in tree["nodes"] if n["chosen"]][1:] == found.texts[0].pieces
    assert [n["why"] for n in tree["nodes"]] == [n.why for n in found.tree.nodes]


@pytest.mark.slow  # several processes
@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_explain_uses_colour_only_on_terminals(tmp_path: Path, folders: dict[str, str]) -> None:
    (tmp_path / "in.txt").write_text("the dog\n")
    words = ["translate", folders["one"], str(tmp_path / "in.txt"), "--explain"]
    assert "\x1b[1;32m" in on_terminal(words, "stdout")
    assert "\x1b" not in on_terminal(words, "stdout", NO_COLOR="1")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--temperature", "0.5"], "--temperature: for sampling; add --sample"),
        (
            ["--sample", "--beam-size", "3"],
            "--beam-size: for beam search, but --sample",
        ),
        (["--sample", "--explain"], "--explain shows a beam search, but --sample"),
        (["--force", "Der"], "--force 'Der': write POSITION=WORD"),
        (["--force", "0=Die 1=Katze"], "repeat --force for each position"),
        (["--force", "0=Elefant"], "force: 'Elefant' is not in the vocabulary"),
        (["--forbid", "Elefant"], "forbid: 'Elefant' is not in the vocabulary"),
        (["--beam-size", "2", "--n-best", "3"], "n_best 3 is more than beam_size 2"),
        (
            ["--beam-size", "3", "--beam-groups", "2"],
            "beam_size 3 is not a multiple of beam_groups 2; try beam_size = 4",
        ),
        (["--min-length", "5", "--max-length", "5"], "too large for max_length 5"),
        (["--device", "gpu"], "--device gpu: no such device; choose auto, cpu"),
        (["--ensemble", "nowhere"], "nowhere: no such file or folder"),
    ],
)
def test_options_that_cannot_work(
    words: list[str], says: str, command: Command, folders: dict[str, str]
) -> None:
    assert_refused(command(["translate", folders["one"], *words], stdin=b"the dog"), says)


# --- what a bundle remembers


@pytest.mark.slow
def test_int8_difference_is_printed(command: Command, folders: dict[str, str], one: Model) -> None:
    """How far it is from float32 is said once, on what was written; without int8 nothing is."""
    given = {"in.txt": "\n".join(lines(300)) + "\n"}
    words = ["translate", folders["one"], "in.txt", "--precision"]
    plain = command([*words, "float32"], given)
    assert (plain.code, plain.err, len(plain.out.splitlines())) == (0, "", 300)
    try:
        packed = one.optimized("int8")
    except InputError as error:  # a machine without int8 products
        assert_refused(command([*words, "int8"]), str(error))
        return
    told = command([*words, "int8"])
    assert (told.code, len(told.out.splitlines())) == (0, 300)
    assert (
        told.err.count("int8 compared with float32 on 16 texts: log-probabilities differ by ") == 1
    )
    texts, sources = ["der hund"], ["the dog sleeps"]
    apart = one.logprob_difference(packed, texts, sources)
    assert 0 < apart.mean <= apart.most < 0.5
    assert one.logprob_difference(one.optimized("float32"), texts, sources).most < 1e-4
    gained, own = (m.score(sources[0], texts[0]).token_log_probs for m in (packed, one))
    assert max(abs(a - b) for a, b in zip(gained, own, strict=True)) <= apart.most + 1e-6
    heard = command(["generate", folders["language"], "the", "--precision", "int8"])
    assert "int8 compared with float32 on 1 text: " in heard.err


def test_unknown_precisions_are_refused(command: Command, folders: dict[str, str]) -> None:
    words = ["translate", folders["one"], "in.txt", "--precision", "int4"]
    message = "--precision int4: unknown; choose one of auto, float32, bfloat16, int8"
    assert_refused(command(words, {"in.txt": "the dog\n"}), message)


def test_model_decodes_as_validated(folders: dict[str, str], one: Model) -> None:
    config = Path(folders["one"], "best", "config.json")
    assert json.loads(config.read_text("utf-8"))["decoding"] == {
        "beam_size": 3, "alpha": 0.5, "context": 0, "carry_state": None, "spans": "legal",
        "thresholds": None,
    }  # fmt: skip
    assert one.generation_config() == GenerationConfig(beam_size=3, alpha=0.5)
    assert one.generation_config(alpha=1.0) == GenerationConfig(beam_size=3)
    assert load(folders["language"]).generation_config() == GenerationConfig(max_length=100)


def test_older_model_decodes_as_before(folders: dict[str, str], tmp_path: Path) -> None:
    old = tmp_path / "old"
    shutil.copytree(Path(folders["one"], "best"), old)
    values = json.loads((old / "config.json").read_text("utf-8"))
    del values["decoding"]
    (old / "config.json").write_text(json.dumps(values))
    write_manifest(old)
    assert load(old).generation_config() == GenerationConfig()


# --- in Python


def test_invalid_arguments_in_python_are_refused(one: Model, folders: dict[str, str]) -> None:
    with pytest.raises(InputError, match=r"one text.*\b2\b"):
        one.decode(["a", "b"], trace=Trace())
    with pytest.raises(InputError, match="sampling has no search tree"):
        one.decode(["a"], tree=True, sampling=SamplingConfig())
    with pytest.raises(InputError, match="expected a list of texts, got one text"):
        one.decode("the dog")
    with pytest.raises(InputError, match="text 1, 'a cat': the constraints allow no output"):
        one.translate(["a cat"], force={0: "Hund"}, forbid=["Hund"])
    with pytest.raises(InputError, match="2 sources and 1 targets; pass one target per source"):
        one.scores(["a", "b"], ["c"])
    with pytest.raises(
        InputError, match="a translation model scores a translation; pass source and"
    ):
        one.score("a")

    language = load(folders["language"])
    with pytest.raises(InputError, match="samples = 0"):
        language.generate("a", samples=0)
    with pytest.raises(InputError, match="a language model scores a single text; omit the target"):
        language.score("a", "b")
    with pytest.raises(InputError, match="write the prefix there"):
        language.decode(["a"], prefix="b")


def test_trace_of_generated_text(one: Model) -> None:
    trace = Trace("*cross_attention.pattern")
    (found,) = one.decode(["the dog sleeps"], prefix="der", trace=trace)
    pattern = trace["decoder.layers.0.cross_attention.pattern"]
    assert pattern.shape[2:] == (
        1 + len(found.texts[0].token_log_probs),
        4,
    )  # the prefix, and the end


def test_unsatisfiable_constraints_are_reported_by_line(
    command: Command, folders: dict[str, str]
) -> None:
    words = ["translate", folders["one"], "--force", "0=Hund", "--forbid", "Hund"]
    answer = command(words, stdin=b"\nthe dog\n")
    assert (answer.code, answer.out) == (1, "\n\n")
    assert "standard input:2: the constraints allow no output" in answer.err


# --- score


def test_score(command: Command, folders: dict[str, str], one: Model) -> None:
    files = {"a.en": "the dog\na cat eats\n", "a.de": "der Hund\n\n"}
    answer = command(["score", folders["one"], "a.en", "a.de", "--json"], files)
    assert answer.code == 0, answer.err
    first, second = (json.loads(line) for line in answer.out.splitlines())
    expected = one.score("the dog", "der Hund")
    assert first["pieces"] == ["der", "Hund", "</s>"]
    assert first["token_log_probs"] == pytest.approx(expected.token_log_probs, abs=1e-5)
    assert first["log_probability"] == pytest.approx(sum(expected.token_log_probs), abs=1e-5)
    assert (second["line"], second["pieces"]) == (2, ["</s>"])
    plain = command(["score", folders["one"], "a.en", "a.de", "--per-token"]).out.splitlines()
    assert plain[0].split("\t")[0] == f"{expected.log_probability:.4f}"
    assert plain[0].split("\t")[1].startswith(f"der {expected.token_log_probs[0]:.3f}  Hund ")
    lm = command(["score", folders["language"], "a.en"]).out.splitlines()
    assert float(lm[0]) == pytest.approx(
        load(folders["language"]).score("the dog").log_probability, abs=1e-4
    )


TABLES = {
    "a.tsv": "the dog\tder Hund\na cat eats\t\n",
    "named.csv": "target,source\nder Hund,the dog\n,a cat eats\n",
    "a.jsonl": '{"source": "the dog", "target": "der Hund"}\n'
               '{"source": "a cat eats", "target": ""}\n',
    "chosen.tsv": "1\tder Hund\tthe dog\n2\t\ta cat eats\n",
}  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_scored_as_two_files_are(
    name: str, command: Command, folders: dict[str, str]
) -> None:
    files = {"a.en": "the dog\na cat eats\n", "a.de": "der Hund\n\n", name: TABLES[name]}
    keys = ["data.source_column=3", "data.target_column=2"] * (name == "chosen.tsv")
    answer = command(["score", folders["one"], name, *keys, "--json"], files)
    assert "columns: source = column " in answer.err
    rows, lines = ([json.loads(line) for line in text.splitlines()] for text in (
        answer.out, command(["score", folders["one"], "a.en", "a.de", "--json"]).out
    ))  # fmt: skip
    header = name == "named.csv"
    assert [row | {"line": row["line"] - header} for row in rows] == lines
    assert len(rows) == 2


def test_invalid_inputs_of_score_are_refused(command: Command, folders: dict[str, str]) -> None:
    files = {"a.en": "the dog\na cat\n", "a.de": "der Hund\n"}
    answer = command(["score", folders["one"], "a.en", "a.de"], files)
    assert_refused(answer, "a.en:2: a.de has no such line")
    answer = command(["score", folders["one"], "a.en"])
    assert_refused(answer, "task translate needs source and target: two files, or one table")
    answer = command(["score", folders["language"], "a.en", "a.de"])
    assert_refused(answer, "task language needs one file of texts")
    answer = command(["score", folders["short"], "long.en", "long.de"],
                     {"long.en": "dog " * 30, "long.de": "x"})  # fmt: skip
    assert_refused(answer, "long.en:1: 31 tokens, but this model has learned 16")
    answer = command(["score", folders["short"], "a.en", "long.de"],
                     {"a.en": "dog", "long.de": "Hund " * 30})  # fmt: skip
    assert_refused(answer, "long.de:1: 31 tokens, but this model has learned 16")


# --- generate


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
@pytest.mark.parametrize("name", ["language", pytest.param("lstm", marks=pytest.mark.slow)])
def test_on_a_terminal_the_same_text_is_streamed(
    name: str, command: Command, folders: dict[str, str]
) -> None:
    words = ["generate", folders[name], "the dog", "--max-length", "12", "--samples", "2"]
    words += ["--seed", "3", "--top-p", "0.9", "--stop", "cat eats"]
    answer = command(words)
    assert answer.code == 0, answer.err
    assert on_terminal(words, "stdout").replace("\r\n", "\n") == answer.out
    texts = load(folders[name]).generate(
        "the dog", max_length=12, samples=2, seed=3, top_p=0.9, stop=["cat eats"]
    )
    assert answer.out == "".join(text + "\n" for text in texts)


def test_prompts_from_a_file(command: Command, folders: dict[str, str]) -> None:
    words = ["generate", folders["language"], "--prompts", "p.txt", "--max-length", "8"]
    answer = command([*words, "--json"], {"p.txt": "the\n\na cat eats the dog\n"})
    values = [json.loads(line) for line in answer.out.splitlines()]
    assert [each["prompt"] for each in values] == ["the", "", "a cat eats the dog"]
    model = load(folders["language"])
    for each in values:
        assert each["text"] == model.generate(each["prompt"], max_length=8)
    answer = command([*words, "--beam-size", "3", "--json"])
    for line in answer.out.splitlines():
        each = json.loads(line)
        (found,) = model.decode([each["prompt"]], beam_size=3, max_length=8)
        assert each["text"] == found.texts[0].text


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            ["--beam-size", "2", "--temperature", "1"],
            "--temperature: for sampling, but --beam-size",
        ),
        (
            ["--beam-size", "2", "--samples", "2"],
            "--samples: for sampling, but --beam-size",
        ),
        (["the", "--prompts", "p.txt"], "--prompts p.txt and the prompt 'the'"),
        (["--stop", ""], "stop: an empty text would stop generation at once"),
        (["--forbid", "Elefant"], "forbid: 'Elefant' is not in the vocabulary"),
    ],
)
def test_options_of_generate_that_cannot_work(
    words: list[str], says: str, command: Command, folders: dict[str, str]
) -> None:
    assert_refused(command(["generate", folders["language"], *words]), says)


def test_model_of_another_task_is_refused(command: Command, folders: dict[str, str]) -> None:
    answer = command(["translate", folders["language"]], stdin=b"a")
    assert_refused(answer, "this model is for task language; use translucid generate")
    for more in ([], ["--beam-size", "2"]):
        answer = command(["generate", folders["one"], "a", *more])
        line = " ".join(["echo a | translucid translate", quoted(folders["one"]), *more])
        assert_refused(answer, f"this model is for task translate; use {line};")
