"""The worked examples on sequences (W05 to W37), produced by the exercises.

The numbers in `sequence_examples.json` were computed with numpy, not with Translucid.
"""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.worked.helpers import numbers

from translucid import worked
from translucid.worked.solution.solution import Solution

EXAMPLES = json.loads(Path(__file__).with_name("sequence_examples.json").read_text("utf-8"))


def all_values(solution: Solution, name: str) -> list[Any]:
    """The values of all steps of this name, in order."""
    return [step.value for step in solution.steps if step.name == name]


def value(solution: Solution, name: str) -> Any:
    return all_values(solution, name)[0]


def heads(inputs: dict[str, Any]) -> Solution:
    matrices = [inputs["W_head1"], inputs["W_head2"]]
    return worked.multihead(inputs["X"], wq=matrices, wk=matrices, wv=matrices, wo=inputs["W_O"])


def w05(x: dict[str, Any]) -> dict[str, Any]:
    solution = worked.attention(x["Q"], x["K"], x["V"])
    overflow = worked.attention(x["Q_overflow"], x["Q_overflow"], "1 0; 0 1")
    return {
        "weights": value(solution, "attention.pattern"),
        "output": value(solution, "attention.mixed"),
        "overflow_scores": value(overflow, "attention.scaled"),
        "overflow_weights_stable": value(overflow, "attention.pattern"),
    }


def w06(x: dict[str, Any]) -> dict[str, Any]:
    solution = worked.attention(x["Q"], x["K"], x["V"], causal=True)
    hidden = 1 - numbers(value(solution, "attention.mask"))  # 1 at hidden keys
    return {
        "mask": hidden.tolist(),
        "weights": value(solution, "attention.pattern"),
        "output": value(solution, "attention.mixed"),
    }


def w17(x: dict[str, Any]) -> dict[str, Any]:
    solution = worked.attention(x=x["X"], identity=True)
    names = {"S": "scores", "S_scaled": "scaled", "exp_rows": "exponentials", "A": "pattern"}
    names |= {"Y": "mixed", "row_sums": "normaliser"}
    found = {key: value(solution, f"attention.{name}") for key, name in names.items()}
    return found | {"row_sums": [row for (row,) in found["row_sums"]]}


def w20(x: dict[str, Any]) -> dict[str, Any]:
    weights = {"w1": x["W1_reconstructed"], "b1": x["b1"], "w2": x["W2_reconstructed"]}
    solution = worked.feedforward(x["X"], **weights, b2=x["b2"])
    negative = worked.feedforward(x["X_negative"], **weights)
    through = value(solution, "feedforward.output")
    attended = value(worked.attention(x=x["X"]), "attention.mixed")
    return {
        "H": value(solution, "feedforward.activated"),
        "Y_mlp": through,
        "Y_att": attended,
        "max_abs_difference": (numbers(through) - numbers(attended)).abs().max().item(),
        "Y_mlp_on_negative_input": value(negative, "feedforward.output"),
    }


def w21(x: dict[str, Any]) -> dict[str, Any]:
    query = numbers(value(heads(x), "attention.query"))
    return {"Q1": query[:, :2].tolist(), "Q2": query[:, 2:].tolist()}


def w22(x: dict[str, Any]) -> dict[str, Any]:
    solution = heads(x)
    names = {"S": "attention.scores", "A": "attention.pattern"}
    found = {f"{k}{i + 1}": all_values(solution, n)[i] for k, n in names.items() for i in (0, 1)}
    return found | {"S1_scaled": value(solution, "attention.scaled")}


def w23(x: dict[str, Any]) -> dict[str, Any]:
    solution = heads(x)
    first, second = all_values(solution, "attention.mixed")
    return {"Y1": first, "Y2": second, "Y": value(solution, "attention.output")}


def w24(_: dict[str, Any]) -> dict[str, Any]:
    single = value(worked.attention(x=EXAMPLES["W17"]["inputs"]["X"]), "attention.pattern")
    both = all_values(heads(EXAMPLES["W22"]["inputs"]), "attention.pattern")
    among, alone = {}, {}
    for name, rows in zip(("A_single", "A_head1", "A_head2"), (single, *both), strict=True):
        others = [max(w for j, w in enumerate(row) if j != i) for i, row in enumerate(rows)]
        diagonal = [row[i] for i, row in enumerate(rows)]
        among[name] = [d >= o - 1e-12 for d, o in zip(diagonal, others, strict=True)]
        alone[name] = [d > o + 1e-12 for d, o in zip(diagonal, others, strict=True)]
    return {"diag_is_a_row_max": among, "diag_is_the_unique_row_max": alone}


def w25(x: dict[str, Any]) -> dict[str, Any]:
    shapes = value(worked.encoder_layer(d_model=x["d_k"], length=x["seq"]), "shapes")
    rows = [[float((i + j) % 3) for j in range(x["d_k"])] for i in range(x["seq"])]
    scale = value(worked.attention(rows, rows, rows), "attention.scale")
    return {
        "Q": shapes["self_attention.query"],
        "weights": shapes["self_attention.pattern"],
        "output": shapes["self_attention.output"],
        "sqrt_d_k": 1 / scale,
    }


def w26(x: dict[str, Any]) -> dict[str, Any]:
    parameters = value(worked.encoder_layer(**x), "parameters")
    return {
        "params_no_bias": parameters["feed-forward"]["weights"],
        "params_with_bias": parameters["feed-forward"]["total"],
        "attention_4_matrices_no_bias": parameters["self-attention"]["weights"],
    }


def w27(x: dict[str, Any]) -> dict[str, Any]:
    encoding = value(worked.positions(4, x["positions"]), "positions.encoding")
    return {"PE": encoding, "PE0": encoding[0]}


def w28(x: dict[str, Any]) -> dict[str, Any]:
    (angles,) = value(worked.positions(x["d_model"], "1"), "positions.angles")
    return {"right_denominator": [1 / angles[i] for i in x["i"]]}


def w29(_: dict[str, Any]) -> dict[str, Any]:
    solution = worked.positions(4, "0 6 7 44 710")
    encoding = numbers(value(solution, "positions.encoding"))
    nearest, distance = value(solution, "repeats")[-1]
    sines = dict(zip(("6", "7", "44", "710"), encoding[1:, 0].tolist(), strict=True))
    return {
        "T": value(solution, "periods"),
        **{f"sin_at_{p}": sine for p, sine in sines.items()},
        "PE6_minus_PE0": (encoding[1] - encoding[0]).tolist(),
        "smallest_distance_PE_p_to_PE_0_for_p_1_to_5000": distance,
        "argmin": nearest,
        "longest_wavelength_d512": value(worked.positions(512, "0"), "periods")[-1],
    }


def w30(x: dict[str, Any]) -> dict[str, Any]:
    return {
        "gram": value(worked.positions(4, x["positions"]), "gram"),
        "d512_dot_at_distance_0_to_5": value(worked.positions(512, count=6), "gram")[0],
    }


def w31(x: dict[str, Any]) -> dict[str, Any]:
    solution = worked.positions(positions=[x["p"], x["q"]], embeddings=[x["X_p"], x["X_q"]])
    names = {"XX": "term t_1", "XpPEq": "term t_2", "XqPEp": "term t_3", "PEPE": "term t_4"}
    return {key: value(solution, name) for key, name in (names | {"left": "dot"}).items()}


def w32(x: dict[str, Any]) -> dict[str, Any]:
    solution = worked.positions(4, [x["p"]], shift=x["k"])
    return {
        "R": value(solution, "shift"),
        "PE_p": value(solution, "positions.encoding")[0],
        "PE_p_plus_k": value(solution, "shifted"),
    }


def w33(x: dict[str, Any]) -> dict[str, Any]:
    return {"scores": value(worked.positions(rotary=True, **x), "scores")}


def w35(x: dict[str, Any]) -> dict[str, Any]:
    """A forget gate of f has the bias ln(f / (1 - f)); all other weights are 0."""
    paths = []
    for f in x["f"]:
        bias = math.log(f / (1 - f)) if f < 1 else 40.0
        zeros = {f"{letter}_{gate}": 0.0 for letter in "WU" for gate in "figo"}
        solution = worked.lstm([0.0] * x["T"], {**zeros, "b_f": bias}, target=1)
        paths.append(value(solution, "dc/dc0")[0])
    return {"path_gradient": paths}


def cell(solution: Solution, kind: str, names: dict[str, str]) -> list[dict[str, float]]:
    columns = {k: all_values(solution, f"layers.0.{kind}.{n}") for k, n in names.items()}
    length = len(next(iter(columns.values())))
    return [{k: column[t][0] for k, column in columns.items()} for t in range(length)]


def w36(x: dict[str, Any]) -> dict[str, Any]:
    weights = {}
    for i, gate in enumerate("fiog"):
        weights |= {f"W_{gate}": x["W"][i], f"U_{gate}": x["U"][i], f"b_{gate}": x["b"][i]}
    names = {"f": "forget_gate", "i": "input_gate", "o": "output_gate", "g": "candidate"}
    solution = worked.lstm(x["x"], weights)
    return {"steps": cell(solution, "lstm", names | {"c": "cell", "h": "hidden"})}


def w37(x: dict[str, Any]) -> dict[str, Any]:
    """The example's z is the fraction of the NEW state: negate the weights of z, and read 1 - z."""
    weights = {}
    for i, gate in enumerate("zrn"):
        sign = -1 if gate == "z" else 1
        weights |= {f"W_{gate}": sign * x["W"][i], f"U_{gate}": sign * x["U"][i]}
    names = {"z": "update_gate", "r": "reset_gate", "n": "candidate", "h": "hidden"}
    steps = cell(worked.gru(x["x"], weights), "gru", names)
    return {"steps": [step | {"z": 1 - step["z"]} for step in steps]}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] * (n == "W35")) for n in EXAMPLES]
)
def test_the_exercise_gives_the_numbers_of_the_example(name: str) -> None:
    example = EXAMPLES[name]
    make: Callable[[dict[str, Any]], dict[str, Any]] = globals()[name.lower()]
    computed = make(example["inputs"])
    assert set(computed) == set(example["expected"])
    for key, wanted in example["expected"].items():
        _compare(computed[key], wanted, f"{name} {key}", relative=name == "W35")


def _compare(computed: Any, wanted: Any, where: str, *, relative: bool) -> None:
    if isinstance(wanted, dict):
        assert set(computed) == set(wanted), where
        for key, part in wanted.items():
            _compare(computed[key], part, f"{where}.{key}", relative=relative)
    elif isinstance(wanted, list):
        assert len(computed) == len(wanted), where
        for i, part in enumerate(wanted):
            _compare(computed[i], part, f"{where}[{i}]", relative=relative)
    elif relative:
        assert computed == pytest.approx(wanted, rel=1e-9, abs=0.0), where
    else:
        assert computed == pytest.approx(wanted, rel=0.0, abs=1e-9), where
