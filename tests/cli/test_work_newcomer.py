"""What someone meets who tries `translucid work` for the first time."""

import inspect
import json
import shlex
import typing
from pathlib import Path

import pytest
from tests.cli.test_work_command import COMMANDS, process, work
from tests.in_process import run

from translucid import worked
from translucid.cli.work import build_command, exercise_files, find_exercise, read_arguments
from translucid.core.errors import TranslucidError
from translucid.core.registry import choices
from translucid.core.spelling import bare, quoted, spelt
from translucid.worked.cells import weight_names

RNN = ["rnn", "--x", "1 -0.5 2", "--W", "0.5", "--U", "0.8"]
TYPED = [
    *([name] for name in COMMANDS),
    ["perceptron", "--data", "xor"],
    ["perceptron", "--x", "1 0", "--w", "1 1", "--b", "-0.5"],
    ["perceptron", "--x", "1; 2", "--w", "1", "--format", "text"],
    ["perceptron", "--x", "1; 2", "--target", "0 1", "--epochs=1"],
    RNN,
    [*RNN, "--target", "1"],
    ["softmax", "-2 1 0"],
    ["softmax", "--", "-2 1 0"],
    ["attention", "--q", "1 0", "--k", "1 0; 0 1", "--v", "1; 2"],
    ["attention", "--x", "1 0; 0 1", "--identity", "--format", "text"],
    ["mlp", "--x", "1 2", "--w", "1 1", "--v", "2; 3", "--RATE=0.5", "--y", "1 1"],
    ["mlp", "--x", "1 2", "--w", "1 1", "--v", "2; 3"],
    ["beam", "--beam-size", "2", "--alpha", "1"],
    ["positions", "--rotary"],
    ["params", "--shape", "encoder", "--no-bias"],
]


@pytest.mark.parametrize("typed", TYPED, ids=" ".join)
def test_what_comes_next_runs_and_is_new(typed: list[str]) -> None:
    for _ in range(2):  # and what comes after that
        following = shlex.split(work(*typed).splitlines()[-1])
        assert following[:3] == ["next:", "translucid", "work"]
        assert following[3:] != typed
        typed = following[3:]


TWO = "1 0; 0 1"
EYES = [word for name in ("--wq", "--wk", "--wv", "--wo") for word in (name, TWO)]
GATES = [word for gate in "figo" for letter in "WU" for word in (f"--{letter}_{gate}", "0.5")]
LONG = "; ".join(" ".join(str(i * j) for i in range(12)) for j in range(12))
OWN = [
    ["perceptron", "--x", "1 0", "--w", "1 1"],
    ["perceptron", "--x", "0 0; 0 1; 1 1", "--target", "0 0 1", "--epochs", "1"],
    ["perceptron", "--data", "or", "--rate", "0.5", "--w", "1 2"],
    ["softmax", "1 2 3"],
    ["embedding", "a dog", "--table", "0 1; 1 0; 1 1; 2 0; 0 2; 2 2"],
    ["attention", "--q", "1 0", "--k", TWO, "--v", "1; 2"],
    ["attention", "--q", TWO, "--k", TWO, "--v", "1; 2"],
    ["attention", "--x", LONG, "--identity"],
    ["multihead", "--x", TWO, "--heads", "2", *EYES],
    ["positions", "--d", "6", "--count", "2"],
    ["positions", "--positions", "0 9", "--base", "100"],
    ["positions", "--rotary", "--q", "1 2", "--k", "3 4"],
    ["positions", "--rotary", "--q", "1 2", "--k", "3 4", "--pairs", "5 2"],
    ["feedforward", "--x", "1 -2", "--w1", "1; 2", "--w2", "3 1"],
    ["encoder-layer", "--d-model", "8", "--heads", "2"],
    ["encoder-layer", "--x", TWO, *EYES, "--w1", "1; 2", "--w2", "3 1"],
    ["decoder-layer", "--d-model", "4", "--length", "2"],
    ["mlp", "--x", "1 2", "--w", "1 1", "--v", "2"],
    ["gradcheck", "--x", "1 2", "--w", "1 1", "--v", "2", "--y", "1"],
    ["activations", "--z", "1 2"],
    ["steps", "--jumps", "0.5", "--heights", "1"],
    ["clip", "3 -4"],
    ["norm", "--x", "1 2 4 9"],
    ["variance", "--d-k", "2", "--sizes", "4", "--draws", "10"],
    ["rnn", "--x", "1 2", "--W", "1", "--U", "0.5"],
    ["lstm", "--x", "1 2", *GATES],
    ["gru", "--x", "1", *(w for g in "rzn" for m in "WU" for w in (f"--{m}_{g}", "0.5"))],
    ["beam", "--prefix", "I am finally"],
    ["beam", "--prefix", "I am finally", "--beam-size", "1", "--alpha", "0.5"],
    ["params", "--d-model", "64", "--heads", "4", "--layers", "2", "--vocab", "100"],
    ["params", "--d-model", "12", "--heads", "3", "--layers", "1", "--vocab", "9", "--no-bias"],
]


def split(typed: list[str]) -> dict[str, str]:
    """Each option, with its value if it takes one; what stands alone is under no name."""
    options, name = {}, ""
    for word in typed:
        name = word if word.startswith("--") else name
        options[name] = "" if word.startswith("--") else word
    return options


@pytest.mark.parametrize("typed", OWN, ids=lambda typed: " ".join(typed)[:60])
def test_the_same_exercise_comes_next_with_all_that_was_typed(typed: list[str]) -> None:
    assert {command[0] for command in OWN} == set(exercise_files())
    examples = "built-in" in work(*typed)  # such as the pairs of positions
    for _ in range(4):
        text = work(*typed)
        assert ("built-in" in text) == examples
        following = shlex.split(text.splitlines()[-1])[3:]
        if following[0] != typed[0]:
            return
        before, after = split(typed[1:]), split(following[1:])
        assert before.keys() <= after.keys()
        changed = {name for name, value in before.items() if after[name] != value}
        assert changed <= {"--epochs", "--data", "--rate", "--base", "--beam-size", "--alpha"}
        typed = following


def test_a_table_of_ones_own_stays(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text('[table]\n"a b" = { c = 0.5, d = 0.5 }', "utf-8")
    for size in ("1", "2", "3"):
        last = work("beam", "--file", str(path), "--beam-size", size).splitlines()[-1]
        assert str(path) in shlex.split(last)
        assert "built-in" not in work(*shlex.split(last)[3:])


def test_what_comes_next_has_the_readers_numbers() -> None:
    last = work(*RNN).splitlines()[-1]
    assert last == (
        'next: translucid work rnn --x "1 -0.5 2" --W 0.5 --U 0.8 --target 1 --rate 0.1'
    )
    twice = work("mlp", "--x", "1", "--w", "2", "--v", "3", "--y", "1", "--rate", "0.5")
    assert twice.endswith("next: translucid work mlp --x 1 --w 2 --v 3 --y 1 --rate 0.1\n")


@pytest.mark.parametrize(
    ("typed", "fixed"),
    [
        (["softmax", "1", "2", "3"], 'or use --x: translucid work softmax "1 2 3"'),
        (["softmax", "-1.5", "0.25", "3"], 'translucid work softmax "-1.5 0.25 3"'),
        (["softmax", "--target", "1", "5", "2"], 'work softmax "5 2" --target 1'),
        (["attention", "--x", "1", "0", "--identity"], 'attention --x "1 0" --identity'),
        (["attention", "--x", "-1", "-2", "--identity"], 'attention --x "-1 -2" --identity'),
        (["attention", "1 0; 0 1"], 'work attention --x "1 0; 0 1" --identity'),
        (["positions", "0", "1"], 'work positions --positions "0 1"'),
    ],
)
def test_numbers_without_quotes(typed: list[str], fixed: str) -> None:
    with pytest.raises(TranslucidError) as error:
        work(*typed)
    assert str(error.value).endswith(fixed)
    assert "quotes" in str(error.value)


def test_numbers_without_quotes_end_with_code_2() -> None:
    answer = process("softmax", "1", "2", "3")
    assert (answer.returncode, answer.stdout) == (2, "")
    assert 'translucid work softmax "1 2 3"' in answer.stderr


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        (["positions", "--length", "3"], "Options: --d, --positions, --count, --base, --shift"),
        (["positions", "--length=3"], "No such option: --length. Options: --d,"),
        (["positions", "--rotry", "--q", "1 2"], "Did you mean --rotary?"),
        (["softmax", "1 2", "--targt", "0"], "No such option: --targt. Did you mean --target?"),
        (["softmax", "-x", "1"], "No such option: -x. Did you mean --x?"),
        (["mlp", "--act", "tanh", "1"], "No such option: --act. Did you mean --activation?"),
        (["rnn", "--hidden", "3", "4"], "No such option: --hidden. Options: --x, --W, --U, --b"),
        (["perceptron", "--bias", "1"], "No such option: --bias. Options: --x, --w, --b, "),
    ],
)
def test_an_unknown_option_is_what_is_wrong(typed: list[str], message: str) -> None:
    """Its value stands alone then, but quotes are not what is missing."""
    answer = run("work", *typed)
    assert (answer.returncode, answer.stdout) == (2, "")
    assert message in " ".join(answer.stderr.split())
    assert "quotes" not in answer.stderr


def test_a_number_below_0_is_no_option() -> None:
    with pytest.raises(TranslucidError, match="x: 'a' is not a number"):
        work("softmax", "-1 a")


def test_softmax_takes_x_as_an_option() -> None:
    assert work("softmax", "--x", "-1 2") == work("softmax", "-1 2")


@pytest.mark.slow
def test_every_spelling_of_a_name(tmp_path: Path) -> None:
    assert (bare("W_Q"), spelt("w_q", ["wq", "x"]), spelt("y", ["x"])) == ("wq", "wq", "y")
    eye = "1 0; 0 1"
    wanted = work("attention", "--x", eye, "--wq", eye, "--wk", eye, "--wv", eye)
    assert work("attention", "--X", eye, "--W_q", eye, "--WK", eye, "--w_v", eye) == wanted
    path = tmp_path / "a.toml"
    path.write_text("".join(f'{name} = "{eye}"\n' for name in ("X", "W_Q", "w_k", "WV")), "utf-8")
    assert work("attention", "--file", str(path)) == wanted
    path.write_text("X = 1\nw = 2\nu = 3", "utf-8")
    assert work("rnn", "--file", str(path)) == work("rnn", "--x", "1", "--W", "2", "--U", "3")
    path.write_text("x = 1\nW = 2\nV = 3", "utf-8")
    assert work("mlp", "--file", str(path)) == work("mlp", "--x", "1", "--w", "2", "--v", "3")
    path.write_text("x = 1\nX = 2", "utf-8")
    with pytest.raises(TranslucidError, match="x is given twice, once as X"):
        work("softmax", "--file", str(path))


def test_heads_in_a_file_for_attention(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text('x = "1 0; 0 1"\nheads = 2\nidentity = true', "utf-8")
    wanted = work("multihead", "--x", "1 0; 0 1", "--heads", "2", "--identity")
    assert work("attention", "--file", str(path)) == wanted


def test_rounded_numbers_are_mentioned() -> None:
    note = "Note: numbers are rounded"
    assert note in work("softmax", "2 1 0")
    assert note not in work("softmax", "0 0")
    assert note not in work("mlp", "--digits", "8")
    assert "The loss is 1.41." in work("softmax", "2 1 0", "--target", "2", "--digits", "2")


@pytest.mark.parametrize("digits", ["0", "13"])
def test_digits_out_of_range(digits: str) -> None:
    with pytest.raises(TranslucidError, match=f"digits = {digits}: must be between 1 and 12"):
        worked.softmax("1 2", digits=int(digits))
    assert run("work", "softmax", "1 2", "--digits", digits).returncode == 2


def test_a_table_with_gaps() -> None:
    text = worked.beam({"a": {"b": 0.6, "c": 0.4}}).text(200)
    assert "the table has no row after “a b”, “a c”, so the sentence ends there with P = 1" in text
    assert "The table of next words" in text
    assert "The built-in table of next words" in worked.beam().text()
    assert "no row" not in worked.beam().text()
    short = worked.beam(steps=2)
    assert "beam search stops unfinished at “I am finally feeling”" in short.closing
    assert "(unfinished)" in short.text(120)


SAID = [
    (["mlp", "--rate", "1"], "All other numbers are a built-in example."),
    (["softmax", "1 1 1"], "Entries 1, 2 and 3 are equally likely"),
    (["softmax", "2 1 0"], "Entry 1 is the most likely"),
    (["softmax", "2 1", "--target", "2"], "-ln 0.269"),
    (["mlp", "--x", "1", "--w", "2", "--v", "3"], "1 input, 1 hidden unit and 1 output\n"),
    (["mlp", "--b", "0 2"], "All other numbers are a built-in example."),
    (["perceptron", "--w", "1 2"], "All other numbers are a built-in example."),
    (["perceptron", "--target", "0 1 1 1"], "All 4 points are classified correctly"),
    (["params", "--vocab", "100"], "All other numbers are a built-in example."),
    (["beam", "--p", "I am finally 0.3; I am fine 0.5"], "Both searches find “I am fine”."),
    (["rnn", "--x", "1", "--w", "2", "--u", "3"], "RNN with one unit over 1 step\n"),
    (["params", "--shape", "encoder-decoder"], "Final norms: two, after the last layer"),
    (["params", "--no-bias"], "Self-attention: projections and output\n"),
]


@pytest.mark.parametrize(("typed", "said"), SAID)
def test_what_is_said(typed: list[str], said: str) -> None:
    text = work(*typed)
    assert said in text
    assert "No numbers were given" not in text


def test_wide_tables_keep_to_the_page() -> None:
    text = work("positions", "--d", "512", "--count", "2")
    assert max(len(line) for line in text.splitlines()) <= 80
    assert "… marks columns" in text
    assert len(worked.positions(512, count=2).steps[1].value[0]) == 512  # type: ignore[index, arg-type]


MISTAKES = [
    (["mlp", "--rate", "abc"], "rate = abc: must be one number, such as 0.5"),
    (["attention", "--wq", "1 0"], "built-in example: pass --x, --wk and --wv too"),
    (["rnn", "--x", "1", "--W", "1 2"], "the built-in example: pass --U too"),
    (["mlp", "--activation", "foo"], "identity, sigmoid, tanh, relu, gelu, silu"),
    (["mlp", "--x", "1 2"], "the built-in example: pass --w and --v too"),
    (["perceptron", "--target", "0 1"], "each row of x is one point"),
    (["softmax", "1 2", "--target", "0"], "target = 0: x has 2 numbers, counted from 1"),
    (["beam", "--p", "I am well 0.3"], "'I am well 0.3' is not a prefix of the table"),
    (["beam", "--p", "I am fine 1.3"], "cannot be completed to a sum of 1"),
    (["params", "--max-length", "9"], "only learned positions have a row for each"),
    (["softmax", "1", "--target", "3"], "x has 1 number, counted from 1, so the target must be 1"),
]


@pytest.mark.parametrize(("typed", "message"), MISTAKES)
def test_mistakes(typed: list[str], message: str) -> None:
    with pytest.raises(TranslucidError) as error:
        work(*typed)
    assert message in str(error.value)
    assert "value error" not in str(error.value).lower()


def test_a_file_of_another_kind(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("x: 1", "utf-8")
    with pytest.raises(TranslucidError, match=r"expected a \.toml or a \.json file, not \.yaml"):
        work("softmax", "--file", str(path))


@pytest.mark.parametrize("text", ['x = "2 1"', json.dumps({"x": "2 1"})])
def test_standard_input(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from typer.testing import CliRunner

    from translucid.cli import app

    result = CliRunner().invoke(app, ["work", "softmax", "--file", "-"], input=text)
    wanted = worked.softmax("2 1").text()
    assert result.stdout == wanted.replace("softmax --target", "softmax --file - --target")


def test_choices_are_those_of_the_parts() -> None:
    from translucid.models.transformer import TransformerConfig

    def names(field: str) -> set[str]:
        key = TransformerConfig.model_fields[field]
        return set(choices(key.metadata) or typing.get_args(key.annotation))

    chosen = {
        argument.name: argument.choices
        for argument in read_arguments(find_exercise("params").function)[1]
    }
    for field in ("activation", "norm", "positions", "shape"):
        assert set(chosen[field]) == names(field)


def test_every_option_has_help() -> None:
    assert set(exercise_files()) == set(COMMANDS)
    for name in exercise_files():
        for option in build_command(name).params:
            assert option.help, f"{name} {option.name}"


@pytest.mark.parametrize("name", exercise_files())
def test_the_arguments_are_those_of_the_function(name: str) -> None:
    """What is read from the source is what Python has when it runs."""
    text, arguments = read_arguments(find_exercise(name).function)
    exercise = getattr(worked, name.replace("-", "_"))
    parameters = inspect.signature(exercise).parameters
    plain = [argument.name for argument in arguments if not argument.weight]
    assert plain == [p for p in parameters if p != "weights"]
    weights = [argument.name for argument in arguments if argument.weight]
    assert weights == (weight_names(name) if "weights" in parameters else [])  # type: ignore[arg-type]
    for argument in arguments:
        if argument.choices:
            hint = typing.get_type_hints(exercise)[argument.name]
            assert argument.choices == typing.get_args(typing.get_args(hint)[0])
    assert (exercise.__doc__ or "").startswith(text.splitlines()[0])


def test_words_of_a_command_in_quotes() -> None:
    assert [quoted(w) for w in ("a.toml", "1 0; 0 1", "a$b")] == ["a.toml", '"1 0; 0 1"', "'a$b'"]
