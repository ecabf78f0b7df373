"""The worked examples about feed-forward networks and training, on the command line.

`feed_forward.json` contains numbers that were computed with other code. Each case types a command
and compares the full-precision results in its JSON output with them.
"""

import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import torch
import torch.nn.functional as F
from tests.cli.test_work_command import work

from translucid import worked
from translucid.core.errors import InputError
from translucid.parts.activations import ACTIVATIONS, softmax
from translucid.worked.activations import SLOPES
from translucid.worked.gradcheck import central_differences
from translucid.worked.net import Net, loss_of, read_net, read_target, with_example
from translucid.worked.solution.solution import Solution
from translucid.worked.steps import Staircase, area_between, largest_errors
from translucid.worked.variance import jacobian_size

EXAMPLES = json.loads((Path(__file__).parent / "feed_forward.json").read_text("utf-8"))
Example: TypeAlias = dict[str, Any]
Pairs: TypeAlias = Iterator[tuple[Any, Any]]


def text(numbers: Any) -> str:
    """Numbers as a user types them."""
    rows = numbers if isinstance(numbers, list) else [numbers]
    if rows and isinstance(rows[0], list):
        return "; ".join(text(row) for row in rows)
    return " ".join(repr(float(n)) for n in rows)


def solve(name: str, *options: str, **numbers: Any) -> dict[str, Any]:
    """The values of a solution by step, from the command line. A name that occurs twice refers to
    the first; `name 2` is the second."""
    typed = [*options]
    for option, value in numbers.items():
        typed += [f"--{option}", value if isinstance(value, str) else text(value)]
    found: dict[str, Any] = {}
    for step in json.loads(work(name, *typed, "--format", "json"))["steps"]:
        found[step["name"] if step["name"] not in found else f"{step['name']} 2"] = step["value"]
    return found


def net_of(i: Example, *names: str) -> dict[str, Any]:
    """The inputs of the network of the sources, by option."""
    return {name: i["W" if name == "w" else name] for name in ("w", "b", "v", "c", *names)}


def _softmax(i: Example, e: Example) -> Pairs:
    found = solve("softmax", text(i["logits"]))
    yield found["softmax.exponentials"][0], e["exp"]
    yield found["softmax.normaliser"], [[e["sum"]]]
    yield found["softmax.probabilities"][0], e["softmax"]


def _counts(i: Example, e: Example) -> Pairs:
    found = solve("params", "--d-model", str(i["d_model"]), "--heads", "12")
    if "d_head" in e:
        yield found["d_k"], e["d_head"]
        return
    yield found["P_Q"], e["per_matrix"]
    yield found["P_{QKV}"], e["total_no_bias"]
    yield found[r"P_{\mathrm{att}}"], e["with_output_projection_and_bias"]
    bare = solve("params", "--d-model", str(i["d_model"]), "--heads", "12", "--no-bias")
    yield bare[r"P_{\mathrm{att}}"], e["with_output_projection_no_bias"]


def _forward(i: Example, e: Example) -> Pairs:
    found = solve("mlp", **net_of(i, "x", "y"))
    yield found["layers.0.dense.preactivation"], e["z"]
    yield found["layers.0.dense.activation"], e["h"]
    yield found["output.dense.preactivation"], [e["y_hat"]]
    yield found["loss"], e["loss"]
    if "delta" in e:
        yield found["delta"], [e["delta"]]


def _gradients(i: Example, e: Example) -> Pairs:
    found = solve("mlp", **net_of(i, "x", "y"))
    for name in "Wbv":
        yield found[f"dL/d{name}"], e[f"dL_d{name}"]
    yield found["dL/dc"], [e["dL_dc"]]
    wrong = solve("gradcheck", "--wrong", "v", **net_of(i, "x", "y"))
    yield wrong["wrong dL/dv"], e["dL_dv_if_printed_formula_delta_times_v"]
    yield wrong["check"]["v"]["differ"], 2
    yield wrong["check"]["W"]["differ"], 0


def _sgd_step(i: Example, e: Example) -> Pairs:
    found = solve("mlp", rate=i["eta"], **net_of(i, "x", "y"))
    for name in "Wbv":
        yield found[f"new {name}"], e[f"{name}1"]
    yield found["new c"], [e["c1"]]


def _sweep(i: Example, e: Example) -> Pairs:
    found = solve("mlp", rates=i["etas"], steps=str(i["steps"]), **net_of(i, "x", "y"))["sweep"]
    assert [run["rate"] for run in found] == i["etas"]
    for run, rate in zip(found, e["losses"], strict=True):
        yield run["loss"], e["losses"][rate]
        yield run["output"], e["y_hat"][rate]
        yield run["active"], e["active_relu_units"][rate]


def _second_differences(i: Example, e: Example) -> Pairs:
    found = solve("gradcheck", "--along", "b_1", **net_of(i, "x", "y"))
    yield found["along"]["at"], i["b1_values"]
    yield found["along"]["output"], e["y_hat"]
    yield found["along"]["loss"], e["loss"]
    yield found["second difference of the output"], e["second_difference_y_hat"]
    yield found["second difference of the loss"], e["second_difference_loss"]


def _rows(i: Example, e: Example) -> Pairs:
    found = solve("mlp", x=i["X"], **net_of(i, "y"))
    yield found["output.dense.preactivation"], e["y_hat"]
    yield found["loss"], e["loss"]


def _one_step(i: Example, e: Example) -> Pairs:
    found = solve("steps", jumps=0.5, heights=1, m=i["M"], x=i["x"])
    yield from zip(found["values"]["networks"], e["f_hat"], strict=True)
    yield found["errors"]["L1"], e["L1_error_on_0_1"]
    yield found["errors"]["sup"], [e["sup_error_on_0_1"]] * 3
    yield found["errors"]["sup outside delta"], e["sup_error_outside_delta_0.01"]


def _two_steps(i: Example, e: Example) -> Pairs:
    found = solve("steps", m=i["M"])
    yield found["values"]["x"], i["x"]
    yield from zip(found["values"]["networks"], e["f_hat"], strict=True)
    yield found["limits"]["limits"], [e["limit_at_x1"], e["limit_at_x2"]]


def _sine(i: Example, e: Example) -> Pairs:
    yield solve("steps", sine=text(i["N"]).replace(".0", ""))["sine"]["sup"], e["sup_error"]


def _variance(i: Example, e: Example) -> Pairs:
    for d, wanted in e["rademacher_exact"].items():
        found = solve("variance", "--d-k", d, "--sizes", "1", "--draws", "1")
        yield found["mean"], wanted["mean"]
        yield found["variance"], wanted["var"]
        yield found["scaled variance"], e["variance_after_scaling"]


def _saturation(i: Example, e: Example) -> Pairs:
    found = solve("variance", "--sizes", text(i["d_k"]).replace(".0", ""), "--draws", "4000")
    for row in found["saturation"]:
        for kind, wanted in e["stats"][str(row["d_k"])].items():
            yield row[f"{kind} largest weight"], wanted["mean_max_weight"]
            yield row[f"{kind} jacobian"], wanted["mean_jacobian_frobenius"]


def _on_rows(i: Example, e: Example) -> Pairs:
    w, v = (torch.tensor(i[f"W{n}_reconstructed"]).T.tolist() for n in (1, 2))
    for x, wanted in (("X", "Y_mlp"), ("X_negative", "Y_mlp_on_negative_input")):
        found = solve("mlp", x=i[x], w=w, v=v, b=i["b1"], c=i["b2"])
        yield found["output.dense.preactivation"], e[wanted]
        if x == "X":
            yield found["layers.0.dense.activation"], e["H"]


def _slopes(i: Example, e: Example) -> Pairs:
    found = solve("activations", z=[5, 0], depths=text(i["depths"]).replace(".0", ""))
    largest = found["largest slopes"]
    for name in ("sigmoid", "tanh", "relu"):
        yield largest[name]["slope"], e[f"max_{name}_derivative"]
    yield largest["sigmoid"]["powers"], e["sigmoid_power"]
    yield found["slope of sigmoid"][0], e["sigmoid_derivative_at_5"]
    yield found["slope of tanh"][1], e["tanh_derivative_at_0"]


def _clipped(i: Example, e: Example) -> Pairs:
    found = solve("clip", g=[i["small"], i["large"]], norm=i["max_norm"])
    yield found["clipped by norm"][0], e["small_clipped"]
    # torch divides by the norm + 1e-6; without it, these are the numbers on paper.
    exact = [value * (50 + 1e-6) / 50 for value in found["clipped by norm 2"][0]]
    yield exact, e["large_clipped"]


def _norms(i: Example, e: Example) -> Pairs:
    of_one, of_four = solve("norm", x=i["vector"]), solve("norm", x=i["batch"])
    yield of_one["layer"]["output"][0], e["layernorm"]
    yield of_one["layer"]["mean"] + of_one["layer"]["variance"], [e["mean"], e["variance"]]
    yield of_one["rms"]["output"][0], e["rmsnorm"]
    yield of_one["rms"]["rms"], [e["rms"]]
    yield of_four["batch"]["output"], e["batchnorm"]
    yield of_four["standardise"]["output"], e["batchnorm"]
    yield of_four["layer"]["output"], e["layernorm_over_rows_of_batch"]


def _beam(i: Example, e: Example) -> Pairs:
    found = solve("beam")["results"]
    assert (found["greedy"]["sentence"], found["beam"]["sentence"]) == (e["greedy"], e["beam"])
    yield found["greedy"]["probability"], e["greedy_prob"]
    yield found["beam"]["probability"], e["beam_prob"]
    changed = f"I am finally {i['variant_p_finally']}; I am fine 0.5"
    plain = solve("beam", "--p", changed)
    long = [c for c in plain["round 5"] if c["prefix"].endswith("better")]
    yield math.exp(max(c["score"] for c in long)), e["variant_beam_candidate_prob"]
    assert plain["results"]["greedy"]["sentence"] == e["greedy"]


def _xor(i: Example, e: Example) -> Pairs:
    answer = work("perceptron", "--data", "xor")
    most, of = e["best_threshold_unit_correct"], e["of"]
    assert f"No unit can classify more than {most} of {of} points" in " ".join(answer.split())
    found = solve("mlp", x=i["X"], w=i["W1"], b=i["b1"], v=i["w2"], c=i["b2"], y=i["y"])
    yield found["layers.0.dense.activation"], e["relu_hidden"]
    yield found["output.dense.preactivation"], e["relu_output"]
    yield found["loss"], 0.0


def _collapse(i: Example, e: Example) -> Pairs:
    found = solve("mlp", "--activation", "identity",
                  x=i["X"], w=i["W1"], b=i["b1"], v=i["W2"], c=i["b2"])  # fmt: skip
    yield found["output.dense.preactivation"], e["stacked"]
    yield found["collapsed W"], e["W_collapsed"]
    yield found["collapsed b"], e["b_collapsed"]
    yield found["collapsed output"], e["collapsed"]


SOLVED: dict[str, Callable[[Example, Example], Pairs]] = {
    "W01": _softmax, "W03": _counts, "W04": _counts, "W07": _forward, "W08": _gradients,
    "W09": _sgd_step, "W10": _forward, "W11": _sweep, "W12": _second_differences, "W13": _rows,
    "W14": _one_step, "W15": _two_steps, "W16": _sine, "W18": _variance, "W19": _saturation,
    "W20": _on_rows, "W34": _slopes, "W38": _clipped, "W39": _norms, "W40": _beam, "W41": _xor,
    "W42": _collapse,
}  # fmt: skip


@pytest.mark.parametrize(
    "example",
    [pytest.param(name, marks=pytest.mark.slow if name == "W19" else ()) for name in EXAMPLES],
)
def test_a_worked_example_gives_the_expected_numbers(example: str) -> None:
    numbers = EXAMPLES[example]
    pairs = list(SOLVED[example](numbers["inputs"], numbers["expected"]))
    assert pairs
    for found, wanted in pairs:
        one, other = (torch.as_tensor(v, dtype=torch.float64) for v in (found, wanted))
        assert one.shape == other.shape
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)
        small = (other.abs() > 0) & (other.abs() < 1e-9)  # compare tiny numbers too
        torch.testing.assert_close(one[small], other[small], rtol=1e-4, atol=0.0)


def test_every_example_is_in_the_file() -> None:
    assert set(SOLVED) == set(EXAMPLES)


# --- each result against a second way to compute it


def values(solution: Solution) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for step in solution.steps:
        found.setdefault(step.name, step.value)
    return found


def close(found: Any, wanted: Any, tolerance: float = 1e-12) -> bool:
    one, other = (torch.as_tensor(v, dtype=torch.float64) for v in (found, wanted))
    return one.shape == other.shape and torch.allclose(one, other, rtol=tolerance, atol=tolerance)


def random(*size: int) -> torch.Tensor:
    return torch.randn(*size, dtype=torch.float64, generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("activation", ["relu", "tanh", "sigmoid", "gelu", "silu", "identity"])
def test_gradients_of_several_rows_are_those_of_torch(activation: str, outputs: int) -> None:
    x, w, b, v = random(3, 4), random(2, 4), random(2) + 0.1, random(outputs, 2)
    c, y = random(outputs), random(3, outputs) + 1
    parameters = [t.clone().requires_grad_() for t in (w, b, v, c)]
    act: Any = {"identity": lambda z: z}.get(activation, getattr(F, activation, torch.tanh))
    hidden = act(x @ parameters[0].T + parameters[1])
    loss = ((hidden @ parameters[2].T + parameters[3] - y) ** 2).sum() / 6
    loss.backward()
    found = values(worked.mlp(x, w, b, v, c, y, activation=activation, check=True))  # type: ignore[arg-type]
    assert close(found["loss"], loss.item())
    names = ("W", "b", "v" if outputs == 1 else "V", "c")
    for name, parameter in zip(names, parameters, strict=True):
        assert parameter.grad is not None
        wanted = parameter.grad[0] if name == "v" else parameter.grad
        assert close(found[f"dL/d{name}"], wanted.tolist(), 1e-10), name
        assert found["check"][name]["differ"] == 0
        assert close(found["check"][name]["numeric"], wanted.tolist(), 1e-6)


def test_one_row_twice_has_the_loss_and_the_gradients_of_one_row() -> None:
    once = values(worked.mlp(y="3"))
    twice = values(
        worked.mlp("1 0 2; 1 0 2", "1 -1 0; 0 2 1", "0 1", "2 -1", 0, "3 3")
    )  # fmt: skip
    for name in ("loss", "dL/dW", "dL/db", "dL/dv", "dL/dc"):
        assert close(once[name], twice[name]), name


def test_a_sweep_of_one_step_is_the_step() -> None:
    found = values(worked.mlp(rate=0.05, rates="0.05", steps=1))
    again = [s.value for s in worked.mlp(rate=0.05).steps if s.name == "loss"]
    assert close(found["sweep"][0]["loss"], again)
    remarks = [run["behaviour"] for run in values(worked.mlp(rates="0.001 0.02 0.05 0.1"))["sweep"]]
    assert [remark.split(",")[0] for remark in remarks] == [
        "slow", "converges", "overshoots", "from step 2",
    ]  # fmt: skip
    large = values(worked.mlp(rates="1e300", activation="identity"))["sweep"][0]
    assert large["behaviour"] == "diverges"


def network(**numbers: Any) -> tuple[Net, torch.Tensor]:
    given = dict.fromkeys(("x", "w", "b", "v", "c", "y", "rate"))
    completed = with_example(given | numbers)
    net = read_net(completed, "tanh")
    target = read_target(completed, net)
    assert target is not None
    return net, target


def test_central_differences_leave_the_parameters_alone() -> None:
    net, target = network()
    before = net.weights()
    loss = loss_of(net.model(net.x), target)
    central_differences(net, target)
    for name, weight in net.weights().items():
        assert torch.equal(weight, before[name])
    assert loss_of(net.model(net.x), target) == loss


@pytest.mark.parametrize(
    ("wrong", "failing"),
    [("v", {"v"}), ("slope", {"W", "b"}), ("sign", {"W", "b", "v", "c"}),
     ("half", {"W", "b", "v", "c"}), (None, set())],
)  # fmt: skip
def test_the_check_finds_each_wrong_formula(wrong: Any, failing: set[str]) -> None:
    solution = worked.gradcheck(wrong=wrong, activation="sigmoid")
    found = values(solution)["check"]
    assert {name for name, result in found.items() if result["differ"]} == failing
    assert ("fails" in solution.closing) == bool(failing)


def test_a_wrong_formula_that_the_numbers_cannot_show_is_reported() -> None:
    """Both units of the example are active, so that the slope of the ReLU is 1."""
    assert "try other numbers" in worked.gradcheck(wrong="slope").closing


AT_KINK = {"x": "1 1; 2 -1; 0 1", "w": "1 1; 1 1", "b": "-3 -2", "v": "1 -1", "y": "2 1 0"}


def test_a_kink_of_relu_is_no_wrong_gradient() -> None:
    """The second unit has z = 0 in the first row; all other sums are negative."""
    solution = worked.gradcheck(**AT_KINK)
    results = {row[0]: row[3] for row in solution.steps[1].table.rows}
    kinks = [name for name, result in results.items() if result == "kink"]
    assert kinks == ["$W_{2,1}$", "$W_{2,2}$", "$b_{2}$"]
    assert "differs" not in results.values()
    assert "No gradient is wrong: 3 numbers" in solution.closing
    check = worked.mlp(**AT_KINK, check=True)
    assert check.closing == solution.closing
    assert "kink" not in str(worked.gradcheck())


@pytest.mark.parametrize("wrong", ["v", "slope", "sign", "half"])
def test_a_wrong_gradient_is_not_excused_by_a_kink(wrong: Any) -> None:
    solution = worked.gradcheck(**AT_KINK | {"b": "0 -2"}, wrong=wrong)
    assert "fails" in solution.closing


def test_second_differences_are_those_of_the_loss_along_any_parameter() -> None:
    net, target = network()
    found = values(worked.gradcheck(along="W_2,3", by=0.25, activation="tanh"))
    losses = []
    for k in range(3):
        net.hidden.weight.data[1, 2] = 1 + 0.25 * k
        losses.append(loss_of(net.model(net.x), target).item())
    assert close(found["along"]["loss"], losses)
    assert close(found["second difference of the loss"], losses[2] - 2 * losses[1] + losses[0])


def test_the_area_is_the_integral_in_closed_form() -> None:
    """The sigmoid's integral is the softplus; both jumps go up, so the error changes its sign once
    between them."""
    stairs = Staircase(torch.tensor([1.0, 2.0]).double(), torch.tensor([1.0, 2.0]).double(), 0.0)
    for steepness in (10.0, 300.0):
        model = stairs.network(steepness)

        def integral(x: float, m: float = steepness) -> float:
            soft = [math.log1p(math.exp(-abs(m * (x - j)))) / m + max(x - j, 0.0) for j in (1, 2)]
            return soft[0] + 2 * soft[1]

        low, high = 1.0, 2.0
        for _ in range(80):  # where the network is 1, between the jumps
            middle = (low + high) / 2
            below = model(torch.tensor([[middle]]).double()).item() < 1
            low, high = (middle, high) if below else (low, middle)
        signed = [integral(b) - integral(a) - (b - a) * level
                  for a, b, level in ((0, 1, 0), (1, low, 1), (low, 2, 1), (2, 3, 3))]  # fmt: skip
        area = area_between(model, stairs, (0.0, 3.0), steepness)
        assert area == pytest.approx(sum(map(abs, signed)), abs=1e-9)
        largest, outside = largest_errors(model, stairs, (0.0, 3.0), 0.1)
        assert largest >= 1.0 - 1e-9
        assert outside < largest


def test_the_largest_error_counts_both_sides_of_a_jump() -> None:
    found = values(worked.steps("1 2", "3 1", m=2))["errors"]
    before_the_first = 3 / 2 + 1 / (1 + math.exp(2))  # the network at 1, where the staircase is 0
    assert found["sup"][0] == pytest.approx(before_the_first, abs=1e-12)


@pytest.mark.parametrize("activation", ["relu", "tanh", "sigmoid", "gelu", "silu"])
def test_slopes_are_central_differences(activation: Any) -> None:
    act, z = ACTIVATIONS[activation], torch.tensor([-2.0, -0.3, 0.7, 5.0], dtype=torch.float64)
    found = values(worked.activations(z))
    numeric = (act(z + 1e-6) - act(z - 1e-6)) / 2e-6
    assert close(found[f"slope of {activation}"], numeric.tolist(), 1e-8)
    assert SLOPES[activation]
    grid = torch.linspace(-10, 10, 100_001, dtype=torch.float64)
    steepest = ((act(grid[1:]) - act(grid[:-1])) / grid.diff()).max().item()
    assert found["largest slopes"][activation]["slope"] == pytest.approx(steepest, abs=1e-6)


def test_clipping_is_that_of_torch() -> None:
    gradient = torch.tensor([3.0, -4.0, 0.1], dtype=torch.float64)
    found = values(worked.clip(gradient, norm=2.5, value=1))
    parameter = torch.nn.Parameter(torch.zeros(3, dtype=torch.float64))
    parameter.grad = gradient.clone()
    torch.nn.utils.clip_grad_norm_([parameter], 2.5)
    assert close(found["clipped by norm"][0], parameter.grad.tolist())
    assert close(found["clipped by value"][0], gradient.clamp(-1, 1).tolist())
    assert close(found["norms"][0][2], 1.0)


def test_norms_are_those_of_torch() -> None:
    x, gain, shift = random(5, 3), random(3), random(3)
    found = values(worked.norm(x, eps=0.1, gamma=gain, beta=shift))
    batch = torch.nn.BatchNorm1d(3, eps=0.1).double()
    with torch.no_grad():
        batch.weight.copy_(gain)
        batch.bias.copy_(shift)
    assert close(found["layer"]["output"], F.layer_norm(x, (3,), gain, shift, 0.1).tolist())
    assert close(found["rms"]["output"], F.rms_norm(x, (3,), gain, 0.1).tolist())
    assert close(found["batch"]["output"], batch(x).tolist(), 1e-9)
    standard = (x - x.mean(0)) / x.std(0, correction=0)
    assert close(found["standardise"]["output"], standard.tolist())


def test_the_size_of_the_jacobian_is_that_of_autograd() -> None:
    scores = random(4, 6)
    jacobians = torch.func.vmap(torch.func.jacrev(softmax))(scores)
    assert close(jacobian_size(scores.softmax(-1)), jacobians.flatten(1).norm(dim=1))
    many = values(worked.variance(1, sizes="16", keys=4, draws=20_000))["saturation"][0]
    assert many["scaled largest weight"] < many["raw largest weight"]
    assert many["raw jacobian"] < many["scaled jacobian"]


def test_the_measured_variance_is_close_to_that_of_independent_entries() -> None:
    measured = values(worked.variance(1, sizes="2 64", keys=2, draws=4000))["measured variance"]
    assert measured == pytest.approx([2, 64], rel=0.06)


# --- mistakes


@pytest.mark.parametrize(
    ("name", "typed", "message"),
    [
        ("mlp", "--x|1 0 2; 0 1 1|--w|1 1 1|--v|1|--y|1", "y has 1 number, .* for each of the 2"),
        ("mlp", "--x|1 0; 0 1", "x is 2 x 2 and w is 2 x 3.*pass --w and --v too"),
        ("mlp", "--steps|3", "--steps needs --rates"),
        ("mlp", "--rates|0.1 -1", "rates: -1 must be greater than 0"),
        ("mlp", "--x|1|--w|1|--v|1|--check", "--check needs --y"),
        ("mlp", "--x|1|--w|1|--v|1|--rates|1", "--rates needs --y"),
        ("gradcheck", "--x|1|--w|1|--v|1", "--y is missing"),
        ("gradcheck", "--wrong|w", "wrong = w: expected one of v, slope, sign, half"),
        ("gradcheck", "--along|b_3", "along = b_3: no such parameter.* W_1,1, b_1, v_1, c"),
        ("gradcheck", "--by|1", "--by needs --along"),
        ("gradcheck", "--along|c|--by|0", "by = 0: must not be 0"),
        ("gradcheck", "--x|1 2|--w|1 1|--v|1; 2|--y|1 1|--wrong|v", "works with one output"),
        ("activations", "--depths|0", "depths: 0 is not a whole number of at least 1"),
        ("steps", "--jumps|2 1|--heights|1 1", "jumps: must be in increasing order"),
        ("steps", "--jumps|1 2 3", "jumps has 3 numbers and heights has 2.*pass --heights too"),
        ("steps", "--m|0", "m: 0 must be greater than 0"),
        ("steps", "--delta|0", "delta = 0: must be greater than 0"),
        ("steps", "--sine|4|--m|10", "omit m"),
        ("clip", "--norm|0", "norm = 0: must be greater than 0"),
        ("clip", "--value|-1", "value = -1: must be greater than 0"),
        ("norm", "--x|1 2; 3 3", "row 2 is constant.*pass eps"),
        ("norm", "--x|1 2; 1 3", "column 1 is constant.*pass eps"),
        ("norm", "--x|0; 0", "row 1 contains only 0"),
        ("norm", "--gamma|1", "gamma has 1 number, but x has 2 columns"),
        ("norm", "--eps|-1", "eps = -1: must be at least 0"),
        ("variance", "--d-k|9", "d_k = 9: at most 8"),
        ("variance", "--sizes|100000|--draws|10000", "fewer draws"),
        ("variance", "--keys|1", "keys = 1: must be at least 2"),
    ],
)
def test_a_mistake_says_what_to_type(name: str, typed: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        work(name, *typed.split("|"))
