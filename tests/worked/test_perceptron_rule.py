"""The perceptron rule as `work perceptron` writes it, against a plain loop over fractions."""

import itertools
import json
from fractions import Fraction
from typing import Any

import pytest
import torch

from translucid import worked
from translucid.models.mlp import Perceptron, PerceptronConfig

CORNERS = "0 0; 0 1; 1 0; 1 1"
TARGETS = {"and": "0 0 0 1", "or": "0 1 1 1", "xor": "0 1 1 0"}


def exact(text: str) -> list[Fraction]:
    return [Fraction(word) for word in text.split()]


def by_hand(x: str, target: str, w: str, b: str, rate: str, epochs: int) -> list[dict[str, Any]]:
    """Every epoch, in fractions: on paper nothing is rounded."""
    points, wanted = [exact(row) for row in x.split(";")], exact(target)
    weights, bias, step = exact(w), Fraction(b), Fraction(rate)

    def total(point: list[Fraction]) -> Fraction:
        return sum((a * v for a, v in zip(weights, point, strict=True)), bias)

    lesson = []
    for _ in range(epochs):
        sums, outputs = [], []
        for point, t in zip(points, wanted, strict=True):
            sums.append(total(point))
            outputs.append(int(sums[-1] > 0))
            error = t - outputs[-1]
            weights = [a + step * error * v for a, v in zip(weights, point, strict=True)]
            bias += step * error
        mistakes = sum(y != t for y, t in zip(outputs, wanted, strict=True))
        right = sum(int(total(p) > 0) == t for p, t in zip(points, wanted, strict=True))
        lesson.append(
            {"sums": sums, "outputs": outputs, "w": weights, "b": bias, "right": right}
            | {"mistakes": mistakes}
        )
        if not mistakes:
            break
    return lesson


def steps(solution: worked.Solution) -> dict[str, Any]:
    return {step["name"]: step["value"] for step in json.loads(solution.json())["steps"]}


LESSONS = [
    *((CORNERS, target, "0 0", "0", rate) for target in TARGETS.values() for rate in ("1", "0.1")),
    (CORNERS, "0 0 0 1", "0.1 0.2", "-0.3", "0.1"),  # 0.1 + 0.2 - 0.3 is 0, and 0 is no 1
    (CORNERS, "0 1 1 1", "-2 3", "0.7", "1/3"),
    ("1 2 -1; 0.5 0 3; -1 -1 0.25", "1 0 1", "0 0.3 -0.6", "0.9", "0.3"),
    ("1; 2; 3", "1 0 0", "0", "0", "0.7"),
]


@pytest.mark.parametrize(("x", "target", "w", "b", "rate"), LESSONS)
def test_every_point_and_epoch_is_that_of_a_plain_loop(
    x: str, target: str, w: str, b: str, rate: str
) -> None:
    solution = worked.perceptron(x, w, b, target, rate=rate, epochs=12)
    written = steps(solution)
    summary = written["weights"]
    lesson = by_hand(x, target, w, b, rate, 12)
    stopped = len(summary) < len(lesson)
    assert len(summary) == len(lesson) or "the rule cycles" in solution.closing
    for number, (row, wanted) in enumerate(zip(summary, lesson, strict=False), 1):
        turns = written[f"epoch {number}"]
        assert [turn["y"] for turn in turns] == wanted["outputs"]
        assert [turn["sum"] for turn in turns] == pytest.approx(
            [float(z) for z in wanted["sums"]], abs=1e-12
        )
        assert (row["mistakes"], row["right"]) == (wanted["mistakes"], wanted["right"])
        assert row["w"] == pytest.approx([float(v) for v in wanted["w"]], abs=1e-12)
        assert row["b"] == turns[-1]["b"] == pytest.approx(float(wanted["b"]), abs=1e-12)
        assert turns[-1]["w"] == row["w"]
        for turn in turns:
            moved = Fraction(rate) * (turn["target"] - turn["y"])
            assert turn["change_b"] == pytest.approx(float(moved), abs=1e-12)
            assert turn["change_w"] == pytest.approx([float(moved) * v for v in turn["x"]])
    if stopped:  # what comes after has been before
        state = [(epoch["w"], epoch["b"]) for epoch in lesson]
        assert state[len(summary) - 1] in [*state[: len(summary) - 1], (exact(w), Fraction(b))]


def test_and_and_or_are_learned_and_xor_never_is() -> None:
    """C1, by the rule for 1000 epochs and on a grid of weights."""
    best = {}
    for name, target in TARGETS.items():
        rows = steps(worked.perceptron(data=name, epochs=1000))["weights"]  # type: ignore[arg-type]
        best[name] = max(row["right"] for row in rows)
        whole = by_hand(CORNERS, target, "0 0", "0", "1", 1000)
        assert best[name] == max(epoch["right"] for epoch in whole)
    assert best == {"and": 4, "or": 4, "xor": 2}
    grid = [-1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5]
    answers = set()
    for w1, w2, b in itertools.product(grid, grid, grid):
        rows = steps(worked.perceptron(CORNERS, [w1, w2], b))["answers"]
        answers.add(tuple(row["y"] for row in rows))
    reached = {
        name: max(sum(y == t for y, t in zip(row, exact(target), strict=True)) for row in answers)
        for name, target in TARGETS.items()
    }
    assert reached == {"and": 4, "or": 4, "xor": 3}


def test_closing_sentences_of_the_perceptron_rule() -> None:
    learned = worked.perceptron(data="and").closing.replace("$", "")
    assert learned == (
        "All 4 points are classified correctly after epoch 5, with w = (2, 1) and b = -2; epoch 6 "
        "changes nothing."
    )
    assert worked.perceptron(data="and", epochs=5).closing.endswith("= $-2$.")
    assert "5 epochs" not in worked.perceptron(data="and", epochs=5).closing
    xor = worked.perceptron(data="xor")
    assert "no line separates these points" in xor.closing
    assert "at most 2 of 4 points were right" in xor.closing
    assert xor.next == "translucid work mlp"
    short = worked.perceptron(data="and", epochs=2)
    assert short.closing.startswith("2 epochs were not enough. At the end of an epoch at most 2")
    assert short.more == "--epochs 4"
    assert worked.perceptron(epochs=1).closing.startswith("1 epoch was not enough.")
    one = worked.perceptron("1; 2", target="0 1").closing.replace("$", "")
    assert one.startswith(
        "All 2 points are classified correctly after epoch 4, with w = 1 and b = -1"
    )
    both = worked.perceptron("1 1 1 1; 1 1 1 1", target="0 1")
    assert "so no hyperplane separates" in both.closing


def test_weights_that_come_back_to_the_start_end_the_lesson() -> None:
    """One input, one value, both answers: up and down again."""
    solution = worked.perceptron("1; 1", target="1 0")
    assert "The weights after epoch 1 are those at the start" in solution.closing
    assert solution.more == ""


def test_a_sum_that_is_0_on_paper_is_answered_with_0() -> None:
    assert 0.1 + 0.2 - 0.3 > 0
    assert steps(worked.perceptron("1 1", "0.1 0.2", -0.3))["perceptron.output"] == 0
    assert steps(worked.perceptron("1 1", "0.1 0.2", "-0.2999999"))["perceptron.output"] == 1


def test_many_epochs_and_points_are_cut_in_the_text_alone() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(-9, 10, (50, 2), generator=generator).double()
    target = (x[:, 0] - 2 * x[:, 1] > 0.5).long()
    solution = worked.perceptron(x, target=target, epochs=200)
    unit = Perceptron(PerceptronConfig(inputs=2)).double()
    mistakes = [unit.learn(x, target)]
    while mistakes[-1]:
        mistakes.append(unit.learn(x, target))
    values = steps(solution)
    assert [row["mistakes"] for row in values["weights"]] == mistakes
    assert values["weights"][-1]["w"] == unit.weight.tolist()
    assert len(mistakes) > 1
    assert len(values["epoch 1"]) == 50
    shown = [name for name in values if name.startswith("epoch ")]
    assert shown == [f"epoch {i + 1}" for i in range(len(mistakes)) if i < 12] or len(shown) == 13
    assert ("only the last is written out" in solution.text()) == (len(mistakes) > 13)
    assert solution.text().count("\n") < 45 * (len(mistakes) + 2)


def test_a_trace_shows_the_answer_before_the_weights_move() -> None:
    from translucid.core.trace import Trace

    unit = Perceptron(PerceptronConfig(inputs=2))
    trace = Trace()
    assert unit.learn(torch.ones(1, 2), torch.ones(1), trace=trace) == 1
    assert (trace["perceptron.sum"].item(), trace["perceptron.output"].item()) == (0, 0)
    assert unit(torch.ones(1, 2)).item() == 1


def test_tiny_inputs_do_not_seem_to_go_round() -> None:
    """A threshold separates them, however little a point moves the weight."""
    assert (
        "All 2 points are classified correctly"
        in worked.perceptron("1e-7; 3e-7", target="0 1").closing
    )
