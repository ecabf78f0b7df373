"""`translucid work` as a person meets it."""

import io
import json
import os
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from tests.forked import TRANSLUCID
from tests.in_process import run
from tests.tiny.dealt import dealt

from translucid import worked
from translucid.cli import app, parser
from translucid.core.errors import TranslucidError

COMMANDS = [exercise.__name__.replace("_", "-") for exercise in worked.EXERCISES]
X = "1 0; 0 1; 1 1"


class Text(str):
    """A solution; two of them are equal whatever they suggest to try next."""

    def __eq__(self, other: object) -> bool:
        return solved(self) == solved(str(other))

    __hash__ = str.__hash__


def work(*arguments: str) -> Text:
    """What the command prints; within this process, which is quick."""
    out = io.StringIO()
    with redirect_stdout(out):
        assert not parser(app)(["work", *arguments], "translucid", standalone_mode=False)
    return Text(out.getvalue())


def solved(text: str) -> str:
    """Without the command to try next, which repeats what was typed."""
    return text.rpartition("next: ")[0]


def process(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "translucid", "work", *arguments],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env=os.environ | environment,
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_shows_an_example_when_it_gets_no_numbers(name: str) -> None:
    text = work(name)
    assert "No numbers were given, so here is a built-in example." in text
    assert text.splitlines()[-1].startswith("next: translucid work ")
    assert "\033" not in text


@pytest.mark.parametrize(
    ("name", "format"),
    dealt(COMMANDS, ["text", "markdown", "latex", "json"], share=2, rest=pytest.mark.slow),
)
def test_every_format(name: str, format: str) -> None:
    solution = getattr(worked, name.replace("-", "_"))()
    wanted = {
        "text": solution.text(80),
        "markdown": solution.markdown(),
        "latex": solution.latex(),
        "json": solution.json() + "\n",
    }
    shown = work(name, "--format", format)
    assert str.__eq__(shown.replace(f" --format {format}", ""), wanted[format])


@pytest.mark.parametrize("name", COMMANDS)
def test_the_next_command_runs(name: str) -> None:
    import shlex

    words = shlex.split(getattr(worked, name.replace("-", "_"))().next)
    assert words[:2] == ["translucid", "work"]
    assert work(*words[2:])


def test_the_example_of_the_sources() -> None:
    text = work("attention", "--x", X, "--identity")
    assert "⎢0.198 0.401 0.401⎥" in text
    assert "built-in" not in text


def test_options_reach_the_solution() -> None:
    assert work("softmax", "2 1 0", "--target", "1") == worked.softmax("2 1 0", 1).text()
    assert work("softmax", "-2 1 0") == worked.softmax("-2 1 0").text()
    assert work("softmax", "--target", "1", "-2 1", "--digits", "2") == (
        worked.softmax("-2 1", 1, digits=2).text()
    )
    both = work("attention", "--q", X, "--k", X, "--v", "-1;2;3", "--causal", "--unscaled")
    assert both == worked.attention(X, X, "-1;2;3", causal=True, unscaled=True).text()
    assert work("attention", "--causal") == worked.attention(causal=True).text()
    heads = work("attention", "--x", X, "--heads", "2", "--identity")
    assert heads == worked.multihead(X, 2, identity=True).text()
    assert heads == work("multihead", "--x", X, "--heads", "2", "--identity")
    assert work("positions", "--d", "4", "--positions", "0 9", "--base", "100") == (
        worked.positions(4, "0 9", base=100).text()
    )
    rotary = work("positions", "--rotary", "--q", "1 2", "--k", "3 4", "--pairs", "5 2")
    assert rotary == worked.positions(rotary=True, q="1 2", k="3 4", pairs="5 2").text()
    network = ["--x", "1 2", "--w", "1 -1", "--b", "1", "--v", "3", "--c", "-1", "--y", "2"]
    assert work("mlp", *network, "--rate", "0.1", "--activation", "tanh") == (
        worked.mlp("1 2", "1 -1", "1", "3", "-1", "2", 0.1, activation="tanh").text()
    )
    assert work("rnn", "--x", "1 -1", "--W", "0.5", "--u", "1", "--h0", "2", "--target", "1") == (
        worked.rnn("1 -1", {"W": 0.5, "U": 1}, h0=2, target=1).text()
    )
    gates = [f"--{letter}{gate}" for gate in "figo" for letter in ("W_", "U_")]
    lstm = [word for i, gate in enumerate(gates) for word in (gate, str(i - 2))]
    weights = {gate[2:]: i - 2 for i, gate in enumerate(gates)}
    assert work("lstm", "--x", "1 2", *lstm, "--c0", "1") == (
        worked.lstm("1 2", weights, c0=1).text()
    )
    assert work("gru", "--target", "1", "--rate", "1") == worked.gru(target=1, rate=1).text()
    assert work(
        "beam", "--beam-size", "3", "--alpha", "0.5", "--steps", "2", "--prefix", "I am"
    ) == (worked.beam(prefix="I am", beam_size=3, alpha=0.5, steps=2).text())
    sizes = ["--d-model", "64", "--heads", "4", "--layers", "2", "--vocab", "100"]
    assert work("params", *sizes, "--norm", "rms", "--no-bias", "--untied") == (
        worked.params(64, 4, 2, vocab=100, norm="rms", no_bias=True, untied=True).text()
    )


FILES = {
    "attention": (
        'x = "1 0; 0 1; 1 1"\nidentity = true\ndigits = 2',
        {"x": X, "identity": True, "digits": 2},
    ),
    "mlp": ("x = [1, 2]\nw = [[1, -1]]\nv = 3\ny = 1", {"x": "1 2", "w": "1 -1", "v": 3, "y": 1}),
    "rnn": ("x = [[1], [2]]\nW = 0.5\nU = 1", {"x": "1;2", "weights": {"W": 0.5, "U": 1}}),
    "beam": (
        'beam_size = 1\n[table]\n"a b" = { c = 1.0 }',
        {"table": {"a b": {"c": 1.0}}, "beam_size": 1},
    ),
    "params": (
        'd_model = 64\nheads = 4\nshape = "encoder"',
        {"d_model": 64, "heads": 4, "shape": "encoder"},
    ),
}


def test_options_of_exercises_on_sequences() -> None:
    weights = {"b_f": 10}
    assert (
        work("lstm", "--b_f", "10", "--target", "1", "--truncate", "2")
        == worked.lstm(weights=weights, target=1, truncate=2).text()
    )
    assert work("rnn", "--target", "1", "--rate", ".1") == worked.rnn(target=1, rate=0.1).text()
    target = "1 0; 0 1; 0 0"
    assert (
        work("attention", "--target", target, "--mask", "1 1 0")
        == worked.attention(target=target, mask="1 1 0").text()
    )
    heads = "1 0; 0 1; 0 0; 0 0 | 0 0; 0 0; 1 0; 0 1"
    assert work("multihead", "--W_Q", heads) == worked.multihead(wq=heads).text()
    assert work("feedforward", "--x", "1 -1") == worked.feedforward("1 -1").text()
    assert (
        work("encoder-layer", "--d-model", "8", "--heads", "2")
        == worked.encoder_layer(d_model=8, heads=2).text()
    )
    assert (
        work("decoder-layer", "--mask", "1 0", "--placement", "pre", "--digits", "2")
        == worked.decoder_layer(mask="1 0", placement="pre", digits=2).text()
    )
    assert (
        work("embedding", "a dog", "--vocabulary", "a cat", "--scale")
        == worked.embedding("a dog", vocabulary="a cat", scale=True).text()
    )
    assert (
        work("positions", "--shift", "3", "--embeddings", "1 0; 0 1")
        == worked.positions(shift=3, embeddings="1 0; 0 1").text()
    )


def test_a_layer_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "layer.toml"
    path.write_text(
        'x = [[1, 0, 1, 0], [0, 1, 0, 1]]\ncross_wq = "1 0 0 0; 0 1 0 0; 0 0 1 0; 0 0 0 2"', "utf-8"
    )
    wanted = worked.decoder_layer("1 0 1 0; 0 1 0 1", cross_wq="1 0 0 0; 0 1 0 0; 0 0 1 0; 0 0 0 2")
    assert work("decoder-layer", "--file", str(path)) == wanted.text()


@pytest.mark.parametrize("name", FILES)
def test_numbers_from_a_file(name: str, tmp_path: Path) -> None:
    import tomllib

    toml, arguments = FILES[name]
    wanted = getattr(worked, name)(**arguments).text()
    path = tmp_path / "example.toml"
    path.write_text(toml, "utf-8")
    assert work(name, "--file", str(path)) == wanted
    as_json = tmp_path / "example.json"
    as_json.write_text(json.dumps(tomllib.loads(toml)), "utf-8")
    assert work(name, "--file", str(as_json)) == wanted


def test_the_command_line_wins_over_the_file(tmp_path: Path) -> None:
    path = tmp_path / "example.toml"
    path.write_text('x = "5 5"\ntarget = 1\ndigits = 5', "utf-8")
    both = work("softmax", "2 1", "--file", str(path), "--digits", "2")
    assert both == worked.softmax("2 1", 1, digits=2).text()


MISTAKES = [
    (["attention", "--x", "1 0; 0", "--identity"], "x: row 2 has 1 number, but row 1 has 2"),
    (["attention", "--q", X, "--k", "1 2 3", "--v", X], "q is 3 x 2 and k is 1 x 3"),
    (["attention", "--x", "1 nan", "--identity"], "x: nan is not a finite number"),
    (["attention", "--x", "", "--identity"], "x is empty"),
    (["softmax", "1 x 2"], "x: 'x' is not a number"),
    (["softmax", "1 2", "--target", "two"], "target = two: must be a whole number"),
    (["multihead", "--x", X, "--heads", "3", "--identity"], "try 2"),
    (["params", "--d-model", "64", "--heads", "5"], "try 4 or 8"),
    (["params", "--norm", "layr"], "norm = 'layr'"),
    (["mlp", "--file", "nowhere.toml"], "file nowhere.toml does not exist"),
    (["mlp", "--rate", "-1"], "rate = -1: must be greater than 0"),
    (["rnn", "--x", "1", "--W", "1 2"], "U is 2 x 2: U must be 1 x 1"),
]


@pytest.mark.parametrize(("arguments", "message"), MISTAKES)
def test_a_mistake_is_an_error_of_ours(arguments: list[str], message: str) -> None:
    with pytest.raises(TranslucidError) as error:
        work(*arguments)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        MISTAKES[0],
        (["attention", "--casual"], "--causal"),
        (["attention", "--q", X, "--heads", "2"], "heads needs --x"),
        (["softmax", "1 2", "--digits", "99"], "digits = 99: must be between 1 and 12"),
        (["softmax", "1 2", "--format", "word"], "--format"),
        (["atention"], "Did you mean 'attention'"),
    ],
)
def test_mistakes_end_with_code_2_and_without_a_traceback(
    arguments: list[str], message: str
) -> None:
    answer = run("work", *arguments)
    assert answer.returncode == 2
    assert message in answer.stderr
    assert answer.stdout == ""
    assert "Traceback" not in answer.stderr


def test_a_misspelt_key_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "example.toml"
    path.write_text('x = "1"\ntraget = 1', "utf-8")
    with pytest.raises(TranslucidError) as error:
        work("softmax", "--file", str(path))
    assert str(error.value) == f"file {path}: no such key 'traget'; did you mean target?"


@pytest.mark.slow
def test_a_pipe_gets_plain_utf8_whatever_the_locale() -> None:
    answer = process("attention", PYTHONIOENCODING="ascii")
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout == worked.attention().text(80)


def test_the_width_is_that_of_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for columns, width in (("50", 50), ("100", 100), ("300", 120)):
        monkeypatch.setenv("COLUMNS", columns)
        assert work("attention") == worked.attention().text(width)


@pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals are of Unix")
@pytest.mark.parametrize(("no_color", "colored"), [("", True), ("1", False)])
def test_color_on_a_terminal_only_and_not_against_the_readers_will(
    no_color: str, colored: bool
) -> None:
    import pty

    leader, follower = pty.openpty()
    environment = os.environ | {"NO_COLOR": no_color, "COLUMNS": "100", "TERM": "xterm"}
    child = subprocess.Popen([*TRANSLUCID, "work", "softmax"], stdout=follower, env=environment)
    os.close(follower)
    output = b""
    while True:
        try:
            block = os.read(leader, 65536)
        except OSError:  # the other side has gone
            break
        if not block:
            break
        output += block
    os.close(leader)
    assert child.wait() == 0
    text = output.decode("utf-8").replace("\r\n", "\n")
    assert text == worked.softmax().text(100, color=colored)
    assert ("\033[1m" in text) == colored


@pytest.mark.slow
def test_help_does_not_wait_for_torch() -> None:
    code = (
        "import sys\nfrom translucid.cli import main\n"
        f"for name in {['', *COMMANDS]}:\n"
        "    try: main(['work', *name.split(), '--help'])\n"
        "    except SystemExit: print(f'told {name}')\n"
        "print('torch' in sys.modules, 'numpy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8")
    assert done.stdout.count("\ntold ") == 1 + len(COMMANDS)
    assert done.stdout.endswith("False False\n")
