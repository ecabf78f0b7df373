"""The exercises on the website, in JavaScript, print what `translucid work` prints: for their
examples, for random numbers of many shapes, and for mistakes."""

import json
import random
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tests.in_process import run
from tests.studio.test_units import node

from translucid import worked
from translucid.cli.work import _again, exercise_files
from translucid.core.errors import TranslucidError
from translucid.core.spelling import Missing

SITE = str(Path(__file__).parents[2] / "docs/site")
MANY = 30  # random inputs of each exercise
# Numbers below 10⁻¹² may be rounding errors, which depend on the order of operations.
NOISE = re.compile("·10⁻(¹[²³⁴⁵⁶⁷⁸⁹]|[²³⁴⁵⁶⁷⁸⁹][⁰¹²³⁴⁵⁶⁷⁸⁹])")
Values = dict[str, Any]
PROGRAM = """
const cases = JSON.parse(require('fs').readFileSync(0, 'utf8'));
const { solve } = work;
console.log(JSON.stringify(cases.map(([name, values]) => {
  const { text, error } = solve(name, values);
  return text ?? `error: ${error}`;
})));
"""


@cache
def site() -> Any:
    """The module that translates the exercises for the website."""
    sys.path.insert(0, SITE)
    try:
        import worked_script
    finally:
        sys.path.remove(SITE)
    return worked_script


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("script") / "work.cjs"
    path.write_text(site().script("solve.js") + PROGRAM, "utf-8")
    return path


def in_javascript(program: Path, cases: list[tuple[str, Values]]) -> list[str]:
    ran = subprocess.run(
        [node(), program], input=json.dumps(cases), capture_output=True, text=True, encoding="utf-8"
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    texts: list[str] = json.loads(ran.stdout)
    return texts


def in_python(name: str, values: Values) -> str:
    """What the command prints: the solution, or its error."""
    arguments = site().details(name)["arguments"]
    weights = {a["name"] for a in arguments if a["weight"]}
    given = {key: value for key, value in values.items() if key not in weights}
    if weights & {*values}:
        given["weights"] = {key: values[key] for key in values if key in weights}
    try:
        solution = getattr(worked, name)(**given)
    except Missing as error:
        return f"error: {error.as_options()}"
    except TranslucidError as error:
        return f"error: {error}"
    if solution.more:
        typed = ["translucid", *command(name, values)]
        solution = replace(solution, next=_again(typed, solution.more))
    text: str = solution.text(80)
    return text


def command(name: str, values: Values) -> list[str]:
    words = ["work", name.replace("_", "-")]
    for argument in site().details(name)["arguments"]:
        value = values.get(argument["name"])
        if value is not None:
            words += [argument["option"]] if value is True else [argument["option"], value]
    return words


# ---- random numbers


class Draw(random.Random):
    def number(self) -> str:
        """Eighths are exact, so some results lie exactly between two printed numbers."""
        whole, eighths = f"{self.randint(-3, 3)}", f"{self.randint(-15, 15) / 8}"
        return self.choice([whole, whole, eighths, f"{self.uniform(-5, 5):.7f}", "1/3", "0"])

    def matrix(self, rows: int, columns: int) -> str:
        return "; ".join(" ".join(self.number() for _ in range(columns)) for _ in range(rows))

    def row(self, size: int) -> str:
        return self.matrix(1, size)

    def bits(self, size: int) -> str:
        return " ".join(str(self.randint(0, 1)) for _ in range(size))

    def wholes(self, size: int, most: int) -> str:
        return " ".join(str(self.randint(1, most)) for _ in range(size))

    def some(self, **options: Any) -> Values:
        """Each option with a probability of 0.4."""
        return {name: value for name, value in options.items() if self.random() < 0.4}


def perceptron(draw: Draw) -> Values:
    points, inputs = draw.randint(1, 5), draw.randint(1, 3)
    values = {"x": draw.matrix(points, inputs), "target": draw.bits(points)}
    if draw.random() < 0.3:
        values = {"x": values["x"], "w": draw.row(inputs)}
    return values | draw.some(w=draw.row(inputs), b=draw.number(), epochs=str(draw.randint(1, 9)))


def softmax(draw: Draw) -> Values:
    size = draw.randint(2, 6)
    return {"x": draw.row(size)} | draw.some(target=str(draw.randint(1, size)))


def embedding(draw: Draw) -> Values:
    words = ["The", "the", "cat", "cat's", "sat,", "on", "mat.", "Über", "don't", "x", "(", "y"]
    text, other = (" ".join(draw.choices(words, k=draw.randint(1, 9))) for _ in range(2))
    first, d = str(draw.randint(0, 4)), str(2 * draw.randint(1, 3))
    return {"text": text} | draw.some(vocabulary=other, first=first, d=d, scale=True)


def attention(draw: Draw) -> Values:
    queries, keys, d, width = (draw.randint(1, 4) for _ in range(4))
    values: Values
    if draw.random() < 0.5:
        values = {"q": draw.matrix(queries, d), "k": draw.matrix(keys, d)}
        values |= {"v": draw.matrix(keys, width)}
    else:
        keys, values = queries, {"x": draw.matrix(queries, d)}
        if draw.random() < 0.4:
            values["identity"], width = True, d
        else:
            values |= {name: draw.matrix(d, width) for name in ("wq", "wk", "wv")}
    mask, target = draw.bits(keys), draw.matrix(queries, width)
    return values | draw.some(causal=True, unscaled=True, mask=mask, target=target)


def multihead(draw: Draw) -> Values:
    heads, rows = draw.randint(1, 3), draw.randint(1, 4)
    d = heads * draw.randint(1, 2)
    values: Values = {"x": draw.matrix(rows, d), "heads": str(heads)}
    if draw.random() < 0.5:
        values["identity"] = True
    else:
        values |= {name: draw.matrix(d, d) for name in ("wq", "wk", "wv", "wo")}
    return values | draw.some(causal=True, unscaled=True, target=draw.matrix(rows, d))


def positions(draw: Draw) -> Values:
    d, count = 2 * draw.randint(1, 3), draw.randint(2, 5)
    base = draw.some(base=draw.choice(["10", "100", "500"]))
    if draw.random() < 0.3:
        pairs = "; ".join(draw.wholes(2, 9) for _ in range(draw.randint(1, 3)))
        return {"rotary": True, "q": draw.row(d), "k": draw.row(d), "pairs": pairs} | base
    values = {"d": str(d), "positions": draw.wholes(count, 30)}
    if draw.random() < 0.5:
        values = {"d": str(d), "count": str(count)}
    return values | base | draw.some(shift=draw.wholes(1, 5), embeddings=draw.matrix(count, d))


def feedforward(draw: Draw) -> Values:
    rows, d, hidden = (draw.randint(1, 4) for _ in range(3))
    values = {"x": draw.matrix(rows, d), "w1": draw.matrix(d, hidden), "w2": draw.matrix(hidden, d)}
    activation = draw.choice(["relu", "tanh", "sigmoid", "identity", "gelu", "silu"])
    return values | draw.some(b1=draw.row(hidden), b2=draw.row(d), activation=activation)


def layer(draw: Draw, prefixes: tuple[str, ...] = ("",)) -> Values:
    rows, keys, hidden, d = *(draw.randint(1, 3) for _ in range(3)), 2 * draw.randint(1, 2)
    if draw.random() < 0.1:
        return {"d_model": str(d)} | draw.some(length=draw.wholes(1, 9), d_ff=draw.wholes(1, 50))
    values = {"x": draw.matrix(rows, d), "w1": draw.matrix(d, hidden), "w2": draw.matrix(hidden, d)}
    weights = [prefix + name for prefix in prefixes for name in ("wq", "wk", "wv", "wo")]
    values |= {name: draw.matrix(d, d) for name in weights}
    if len(prefixes) > 1:
        values["h"], rows = draw.matrix(keys, d), keys
    return values | draw.some(
        b1=draw.row(hidden), b2=draw.row(d), heads="2", mask=draw.bits(rows), eps="0.001",
        placement=draw.choice(["post", "pre"]), activation=draw.choice(["relu", "gelu", "silu"]),
    )  # fmt: skip


def decoder_layer(draw: Draw) -> Values:
    return layer(draw, ("", "cross_"))


def activations(draw: Draw) -> Values:
    return {"z": draw.row(draw.randint(1, 6))} | draw.some(depths=draw.wholes(3, 30))


def gradcheck(draw: Draw) -> Values:
    inputs, hidden, rows, outputs = *(draw.randint(1, 3) for _ in range(3)), draw.randint(1, 2)
    values = {"x": draw.matrix(rows, inputs), "w": draw.matrix(hidden, inputs)}
    values |= {"v": draw.matrix(outputs, hidden), "y": draw.matrix(rows, outputs)}
    activation = draw.choice(["relu", "tanh", "sigmoid", "gelu", "silu", "identity"])
    return values | draw.some(b=draw.row(hidden), c=draw.row(outputs), activation=activation)


def mlp(draw: Draw) -> Values:
    values = gradcheck(draw) | draw.some(rate="0.05")
    if draw.random() < 0.2:
        values = {key: value for key, value in values.items() if key not in ("y", "rate")}
    return values


def steps(draw: Draw) -> Values:
    count = draw.randint(1, 4)
    jumps = " ".join(str(n / 4) for n in sorted(draw.sample(range(-20, 20), count)))
    values = {"jumps": jumps, "heights": draw.wholes(count, 5)}
    return values | draw.some(m="5 50", c=draw.number(), delta="0.05")


def clip(draw: Draw) -> Values:
    values = {"g": draw.matrix(draw.randint(1, 3), draw.randint(1, 4))}
    return values | draw.some(norm=draw.choice(["1", "0.5", "5"]), value=draw.choice(["1", "0.5"]))


def norm(draw: Draw) -> Values:
    return {"x": draw.matrix(draw.randint(1, 4), draw.randint(1, 4))} | draw.some(eps="0.01")


def recurrent(draw: Draw, gates: tuple[str, ...] = ("",)) -> Values:
    length, inputs, hidden = draw.randint(1, 3), draw.randint(1, 2), draw.randint(1, 2)
    values = {"x": draw.matrix(length, inputs)}
    for gate in gates:
        values |= {f"W{gate}": draw.matrix(hidden, inputs), f"U{gate}": draw.matrix(hidden, hidden)}
        values |= draw.some(**{f"b{gate}": draw.row(hidden)})
    if draw.random() < 0.5:
        values |= {"target": draw.row(hidden)} | draw.some(rate="0.1")
    return values | draw.some(h0=draw.row(hidden))


def beam(draw: Draw) -> Values:
    changed = f"I am {draw.choice(['fine', 'finally'])} 0.{draw.randint(11, 99)}"
    sizes = draw.some(beam_size=draw.wholes(1, 4), steps=draw.wholes(1, 6))
    return {"p": changed} | sizes | draw.some(alpha="0.6")


DRAWN: dict[str, Callable[[Draw], Values]] = {
    "perceptron": perceptron, "softmax": softmax, "embedding": embedding, "attention": attention,
    "multihead": multihead, "positions": positions, "feedforward": feedforward,
    "encoder_layer": layer, "decoder_layer": decoder_layer, "activations": activations,
    "mlp": mlp, "gradcheck": gradcheck, "steps": steps, "clip": clip, "norm": norm,
    "rnn": recurrent, "lstm": lambda draw: recurrent(draw, ("_f", "_i", "_g", "_o")),
    "gru": lambda draw: recurrent(draw, ("_r", "_z", "_n")), "beam": beam,
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", DRAWN)
def test_the_page_prints_what_the_command_prints(name: str, program: Path) -> None:
    draw = Draw(name)
    example = site().details(name)["example"]
    cases = [(name, values) for values in ({}, example, *(DRAWN[name](draw) for _ in range(MANY)))]
    texts = in_javascript(program, cases)
    compared = errors = 0
    for (_, values), text in zip(cases, texts, strict=True):
        wanted = in_python(name, values)
        if text != wanted and (NOISE.search(wanted) or NOISE.search(text)):
            continue
        assert text == wanted, values
        compared += 1
        errors += wanted.startswith("error: ")
    assert compared > 0.8 * len(cases)
    assert errors < 0.3 * len(cases)


MISTAKES: list[tuple[str, Values]] = [
    ("softmax", {"x": "1 two"}),
    ("softmax", {"x": "1,5 2,5"}),
    ("softmax", {"x": "1 2", "target": "3"}),
    ("softmax", {"x": ";"}),
    ("softmax", {"x": "1 2", "digits": "13"}),
    ("attention", {"q": "1 0; 0 1", "x": "1"}),
    ("attention", {"q": "1 0", "k": "1 0 0", "v": "1"}),
    ("attention", {"x": "1 0; 0"}),
    ("attention", {"x": "1 0", "wq": "1"}),
    ("multihead", {"x": "1 2 3", "identity": True, "heads": "2"}),
    ("encoder_layer", {"x": "1 2 3", "heads": "2"}),
    ("mlp", {"activation": "rellu"}),
    ("mlp", {"x": "1 2"}),
    ("perceptron", {"x": "0 0; 1 1"}),
    ("perceptron", {"data": "nand"}),
    ("rnn", {"x": "1", "rate": "0.1"}),
    ("positions", {"d": "3"}),
    ("beam", {"beam_size": "0"}),
    ("beam", {"p": "I am late 0.5"}),
]


def test_mistakes_give_the_sentences_of_the_command_line(program: Path) -> None:
    texts = in_javascript(program, MISTAKES)
    for (name, values), text in zip(MISTAKES, texts, strict=True):
        assert text == in_python(name, values)
        assert text.startswith("error: "), (name, values)
        printed = run(*command(name, values))
        assert " ".join(text.split()) in " ".join(printed.stderr.split())


def test_the_text_is_that_of_the_real_command(program: Path) -> None:
    names = ("softmax", "attention", "rnn")
    cases: list[tuple[str, Values]] = [(name, site().details(name)["example"]) for name in names]
    for (name, values), text in zip(cases, in_javascript(program, cases), strict=True):
        printed = run(*command(name, values))
        assert (printed.returncode, printed.stdout) == (0, text)


def test_every_exercise_is_on_the_page_or_named_as_missing() -> None:
    known = {name.replace("-", "_") for name in exercise_files()}
    assert {*site().exercises()} == {*DRAWN} == known - site().LEFT_OUT
