"""Residual connections, where the norm stands, and what the feed-forward block is for."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from translucid.lab.deep import Deep, average, by_case, mean_square, smooth_target
from translucid.lab.engine.experiment import Experiment
from translucid.lab.engine.fit import Step, fit
from translucid.lab.engine.verdict import (
    Data,
    Finding,
    Rule,
    Verdict,
    clearly,
    column,
    difference_of,
    mean_of,
)
from translucid.lab.toytext import next_words
from translucid.models import TransformerConfig, build
from translucid.models.transformer import Layer
from translucid.parts.feedforward import FeedForward
from translucid.parts.norms import NormName
from translucid.parts.residual import Placement
from translucid.see.pictures import Axis, Bars, Lines

# ---- C61: how deep a net can be trained ----

DEPTHS = (4, 40, 120)  # a net of 40 blocks still learns without residuals
KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "residual": {"residual": True},
    "residual, small branches": {"residual": True},  # times 1 / sqrt(depth)
    "norm": {"norm": "layer"},
    "norm and residual": {"norm": "layer", "residual": True},
}
PAIRS = {  # a net without residual connections, and the same with them
    "nothing else": ("plain", "residual"),
    "branches scaled by 1 / √depth": ("plain", "residual, small branches"),
    "a norm in every block": ("norm", "norm and residual"),
}
STALLS, LEARNS = 0.5, 0.1  # of the target's variance


def _depth(seed: int, quick: bool) -> Data:
    """The training loss at the end, at the better of two rates, and the gradient that the first
    block's weights get at the start: [depth] for every kind."""
    steps, depths = (40, DEPTHS[:2]) if quick else (250, DEPTHS)
    rates = (3e-3,) if quick else (1e-3, 3e-3)
    found: dict[str, Any] = {"depths": list(depths)}
    for kind in KINDS:
        runs = [[_trained(seed, kind, depth, each, steps) for each in rates]
                for depth in depths]  # fmt: skip
        found[kind] = {
            "loss": [min(loss for loss, _ in both) for both in runs],
            "gradient": [both[0][1] for both in runs],
        }
    return found


def _deep(seed: int, kind: str, depth: int) -> Deep:
    torch.manual_seed(seed)
    branch = depth**-0.5 if "small" in kind else 1.0
    return Deep(inputs=8, outputs=1, width=32, depth=depth, branch=branch, **KINDS[kind])


def _trained(seed: int, kind: str, depth: int, rate: float, steps: int) -> tuple[float, float]:
    net = _deep(seed, kind, depth)
    x, y = smooth_target(128, 8, torch.Generator().manual_seed(seed))
    first = net.each()[0].dense.linear.weight
    slopes = []

    def look(step: Step) -> bool:
        if step.done == 1:
            slopes.append(float(first.grad.norm()) if first.grad is not None else 0.0)
        return False

    history = fit(net, lambda: mean_square(net(x), y), steps=steps, learning_rate=rate, until=look)
    end = float(np.mean([step.loss for step in history[-10:]]))
    return (end if end < 1e3 else 1e3), slopes[0]  # no number at all counts as 1000


def _judge_depth(data: Sequence[Data]) -> Finding:
    cases: dict[str, bool | None] = {}
    said = []
    for case, (without, having) in PAIRS.items():
        ends = [mean_of(column(data, kind, "loss", -1)) for kind in (without, having)]
        stalls = clearly(ends[0].against(STALLS), "above")
        learns = clearly(ends[1].against(LEARNS), "below")
        both = (stalls, learns)
        cases[case] = False if False in both else True if all(both) else None
        said.append(f"with {case}, {ends[0]} without residuals and {ends[1]} with them")
    return by_case(
        cases, f"training loss at depth {data[0]['depths'][-1]} as a share of the target's "
        f"variance: {'; '.join(said)}", "what keeps the sum of many branches in scale",
    )  # fmt: skip


def _draw_depth(data: Sequence[Data]) -> Lines:
    return Lines(
        "Training loss by depth", Axis("blocks", tuple(map(str, data[0]["depths"]))),
        "share of the target's variance",
        {kind: average(data, kind, "loss").numpy() for kind in KINDS}, logarithmic=True,
        note="after equal steps, each at the better of two rates",
    )  # fmt: skip


depth = Experiment(
    name="depth",
    title="Training loss by depth: plain, residual, norm, both",
    varies="the depth; residual connections; what keeps the scale: nothing, small branches, a norm",
    measures="the training loss after equal steps, and the first block's gradient at the start",
    claims={
        "C61": Rule(
            "Holds in a setting if at the largest depth the net without residuals ends clearly "
            "above half of the target's variance and the one with them clearly below a tenth; "
            "fails if either clearly does not. Supported if it holds with nothing else, with "
            "small branches and with norms; refuted if in none of them, depends if in some.",
            _judge_depth,
        )
    },
    run=_depth,
    draw=_draw_depth,
    seconds=90.0,
    seeds=15,
    references=("https://arxiv.org/abs/1512.03385", "https://arxiv.org/abs/1702.08591"),
)

# ---- C62: leaving out a block ----

BLOCKS = 12
# residual or not, and what its branches are multiplied by
NETS = {"residual": (True, 1.0), "residual, small branches": (True, BLOCKS**-0.5),
        "plain": (False, 1.0)}  # fmt: skip


def _deletion(seed: int, quick: bool) -> Data:
    """Train nets of 12 blocks with layer norm; then leave out one block at a time: by how much the
    loss grows, as a share of the target's variance (1: as bad as always saying the mean)."""
    steps = 80 if quick else 400
    found: dict[str, Any] = {}
    for name, (residual, branch) in NETS.items():
        torch.manual_seed(seed)
        x, y = smooth_target(128, 8, torch.Generator().manual_seed(seed))
        net = Deep(inputs=8, outputs=1, width=32, depth=BLOCKS, norm="layer", residual=residual,
                   branch=branch)  # fmt: skip
        fit(net, partial(_error, net, x, y), steps=steps, learning_rate=2e-3)
        with torch.no_grad():
            whole = float(mean_square(net(x), y))
            less = [float(mean_square(net(x, without=at), y)) for at in range(BLOCKS)]
        found[name] = {"loss": whole, "cost": [each - whole for each in less]}
    return found


def _error(net: Deep, x: Tensor, y: Tensor) -> Tensor:
    return mean_square(net(x), y)


def _judge_deletion(data: Sequence[Data]) -> Finding:
    cost = {name: mean_of([float(np.mean(each[name]["cost"])) for each in data]) for name in NETS}
    whole = {name: mean_of(column(data, name, "loss")) for name in NETS}
    ruined = clearly(cost["plain"].against(0.75), "above")
    cases: dict[str, bool | None] = {}
    for name in (each for each in NETS if each != "plain"):
        both = (ruined, clearly(cost[name].against(0.25), "below"))
        cases[name] = False if False in both else True if all(both) else None
        if any(whole[each].against(0.25) != "below" for each in (name, "plain")):
            cases[name] = None  # nothing was learned that could be lost
    said = "; ".join(f"{name} net {cost[name]}, whole {whole[name].mean:.2g}" for name in NETS)
    return by_case(
        cases, f"leaving out one of {BLOCKS} blocks adds to the loss, in the target's variance: "
        f"{said}", "how large the branches are beside what passes by them",
        {name: each.mean for name, each in cost.items()},
    )  # fmt: skip


def _draw_deletion(data: Sequence[Data]) -> Lines:
    return Lines(
        "What leaving out one block costs", Axis("block left out",
        tuple(str(at + 1) for at in range(BLOCKS))), "loss added, in the target's variance",
        {f"{name} net": average(data, name, "cost").numpy() for name in NETS},
        note="both with layer norm; 1: as bad as always saying the mean",
    )  # fmt: skip


deletion = Experiment(
    name="leaving-out-blocks",
    title="Leaving out one block of a trained net",
    varies="residual connections, the size of their branches; which of 12 blocks is left out",
    measures="by how much the training loss grows, as a share of the target's variance",
    claims={
        "C62": Rule(
            "Holds for branches of full size, and for branches scaled by 1 / √blocks, if leaving "
            "out a block costs, on average, clearly less than a quarter of the target's variance "
            "in the residual net and more than three quarters in the plain one; fails if either "
            "clearly does not; open if a net did not learn. Supported if it holds for both, "
            "refuted if for neither, depends if for one.",
            _judge_deletion,
        )
    },
    run=_deletion,
    draw=_draw_deletion,
    seconds=8.0,
    references=("https://arxiv.org/abs/1605.06431", "https://arxiv.org/abs/1909.11556"),
)

# ---- C63: the norm after the sum, before the block, or nowhere; with and without warm-up ----

ORDERS: dict[str, tuple[NormName, Placement]] = {
    "post": ("layer", "post"),
    "pre": ("layer", "pre"),
    "none": ("none", "pre"),
}
RATES = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2)
STARTS = (0.5, 3.0)  # times the usual first weights of the layers, at the middle rate
SETTINGS = ("no warm-up", "warm-up", "other starts")
NEED = 0.05  # nats


def _order(seed: int, quick: bool) -> Data:
    """The loss at the end of training a language model on toyland: [rate] with and without
    warm-up, and [start]."""
    steps, rates = (16, RATES[1::2]) if quick else (120, RATES)
    found: dict[str, Any] = {"rates": list(rates), "starts": list(STARTS)}
    for order in ORDERS:
        found[order] = {
            "no warm-up": [_language(seed, order, each, steps, 0) for each in rates],
            "warm-up": [_language(seed, order, each, steps, steps // 4) for each in rates],
            "other starts": [_language(seed, order, 1e-3, steps, 0, start) for start in STARTS],
        }
    return found


def _language(
    seed: int, order: str, most: float, steps: int, warmup: int, start: float = 1.0
) -> float:
    """The mean loss of the last tenth of training, at most that of guessing."""
    text = next_words(seed)
    torch.manual_seed(seed)
    norm, placement = ORDERS[order]
    net = build(TransformerConfig(
        shape="decoder", head="language", vocab=text.vocab, d_model=32, heads=4, layers=4,
        d_ff=64, dropout=0.0, norm=norm, placement=placement,
    ))  # fmt: skip
    _scale_layers(net, start)
    history = fit(net, lambda: text.loss(net), steps=steps, learning_rate=most, warmup=warmup)
    last = [step.loss for step in history[-max(steps // 10, 1) :]]
    end, guessing = float(np.mean(last)), float(np.log(text.vocab))
    return end if end < guessing else guessing  # what diverged has learned nothing


def _scale_layers(net: nn.Module, start: float) -> None:
    with torch.no_grad():
        for layer in (each for each in net.modules() if isinstance(each, Layer)):
            for linear in (each for each in layer.modules() if isinstance(each, nn.Linear)):
                linear.weight.mul_(start)


def _over(data: Sequence[Data], order: str, setting: str) -> list[float]:
    return [float(np.mean(each[order][setting])) for each in data]


def _judge_order(data: Sequence[Data]) -> Finding:
    better = {setting: difference_of(_over(data, "post", setting), _over(data, "none", setting))
              for setting in SETTINGS}  # fmt: skip
    wins = {setting: clearly(each.against(0.0), "below") for setting, each in better.items()}
    gain = {order: np.subtract(_over(data, order, "no warm-up"), _over(data, order, "warm-up"))
            for order in ORDERS}  # fmt: skip
    more = difference_of(gain["post"].tolist(), gain["pre"].tolist())
    needs = clearly(more.against(NEED), "above")
    verdict: Verdict = "undecided"
    if all(each is False for each in wins.values()):
        verdict = "refuted"
    elif all(wins.values()) and needs is False:
        verdict = "supported"
    elif True in wins.values() and (False in wins.values() or needs is True):
        verdict = "depends"
    why = (
        "loss of post-norm less that of no norm: "
        + ", ".join(f"{setting} {each}" for setting, each in better.items())
        + f"; warm-up gains post-norm {mean_of(gain['post'].tolist())} and pre-norm "
        f"{mean_of(gain['pre'].tolist())}, {more} more"
    )
    if verdict == "depends":
        lost = [setting for setting, won in wins.items() if won is False]
        on = ["on warm-up, which pre-norm needs less"] if needs else []
        on += [f"on the setting, for it loses with {' and '.join(lost)}"] if lost else []
        why += f"; it depends {' and '.join(on)}"
    return Finding(verdict, why, {"needs": more.mean})


def _draw_order(data: Sequence[Data]) -> Lines:
    names = {"post": "norm after the sum", "pre": "norm before the block", "none": "no norm"}
    return Lines(
        "Loss after training, by learning rate",
        Axis("learning rate", tuple(f"{each:g}" for each in data[0]["rates"])),
        "nats for each word",
        {f"{said}, {setting}": average(data, order, setting).numpy()
         for setting in SETTINGS[:2] for order, said in names.items()},
        note="4 layers, toyland; what diverged counts as guessing",
    )  # fmt: skip


norm_order = Experiment(
    name="norm-order",
    title="Norm after the sum, before the block, or none, over learning rates",
    varies="where layer norm stands; the learning rate; warm-up; the scale of the first weights",
    measures="the loss at the end of training a 4-layer language model on toyland",
    claims={
        "C63": Rule(
            "Post-norm wins in a setting (rates without warm-up, rates with it, other starts) if "
            "its mean loss is clearly below that without norms. Refuted if it clearly loses in all "
            "three. Supported if it wins in all, and warm-up does not gain it 0.05 nats more than "
            "pre-norm. Depends if it wins in some and loses in others, or wins but needs warm-up "
            "by 0.05 nats more than pre-norm does.",
            _judge_order,
        )
    },
    run=_order,
    draw=_draw_order,
    seconds=50.0,
    references=("https://arxiv.org/abs/2002.04745", "https://arxiv.org/abs/2004.08249"),
)

# ---- C76: the feed-forward block ----

MODULUS = 17
WIDENINGS = {1: 12, 2: 10, 8: 6}  # d_model that gives a layer about as many weights as 4 and 8 do
# name: d_model, widening, activation (None: no feed-forward block)
FEEDFORWARDS: dict[str, tuple[int, int, Any]] = {
    "none": (8, 1, None),
    "none, but wider": (14, 1, None),  # a layer of equal size
    "linear": (8, 4, "identity"),
    "ReLU": (8, 4, "relu"),
    "GELU": (8, 4, "gelu"),
    **{f"ReLU, {wide}×": (size, wide, "relu") for wide, size in WIDENINGS.items()},
}
LACKING, HAVING = tuple(FEEDFORWARDS)[:3], tuple(FEEDFORWARDS)[3:5]


def _expressive(seed: int, quick: bool) -> Data:
    """The share of all sums a + b mod 17 that one layer gets right after training on them."""
    names = list(FEEDFORWARDS)[:5] if quick else list(FEEDFORWARDS)
    return {"accuracy": {name: _sums(seed, name, 60 if quick else 300) for name in names}}


def _sums(seed: int, name: str, steps: int) -> float:
    torch.manual_seed(seed)
    d_model, wide, activation = FEEDFORWARDS[name]
    net = build(TransformerConfig(
        shape="encoder", head="classify", outputs=MODULUS, vocab=MODULUS, d_model=d_model, heads=2,
        layers=1, d_ff=wide * d_model, dropout=0.0, activation=activation or "relu",
    ))  # fmt: skip
    if activation is None:
        _silence(net)
    pairs = torch.cartesian_prod(torch.arange(MODULUS), torch.arange(MODULUS))
    sums = pairs.sum(dim=1) % MODULUS
    fit(net, lambda: F.cross_entropy(net(pairs), sums), steps=steps, learning_rate=3e-3)
    with torch.no_grad():
        return float((net.eval()(pairs).argmax(dim=-1) == sums).float().mean())


def _silence(net: nn.Module) -> None:
    """A feed-forward block that adds 0 for ever is none."""
    for block in (each for each in net.modules() if isinstance(each, FeedForward)):
        for weight in block.parameters():
            weight.requires_grad_(False)
            weight.zero_()


def _judge_expressive(data: Sequence[Data]) -> Finding:
    found = {name: column(data, "accuracy", name) for name in data[0]["accuracy"]}
    cases: dict[str, bool | None] = {}
    for lacking in LACKING:
        more = [
            clearly(difference_of(found[having], found[lacking]).against(0.1), "above")
            for having in HAVING
        ]
        cases[lacking] = False if False in more else True if all(more) else None
    said = ", ".join(f"{name} {mean_of(each)}" for name, each in found.items())
    return by_case(cases, f"share of sums right: {said}", "what stands in the block's place")


def _draw_expressive(data: Sequence[Data]) -> Bars:
    names = tuple(data[0]["accuracy"])
    return Bars(
        f"a + b mod {MODULUS} with one layer", "share of all sums right", names,
        np.array([float(average(data, "accuracy", name)) for name in names]),
        note="width 8, or as wide as makes layers of about equal size",
    )  # fmt: skip


feedforward = Experiment(
    name="feed-forward",
    title="What the feed-forward block adds",
    varies="no feed-forward block, none in a wider layer, a linear one, ReLU, GELU; widenings",
    measures="the share of all sums a + b mod 17 that one layer learns to get right",
    claims={
        "C76": Rule(
            "Holds against no block, against no block in a wider layer of equal size, and against "
            "a linear block if ReLU and GELU blocks, four times as wide, both get clearly more "
            "than 0.1 more of the sums right; fails if one clearly does not. Supported if it holds "
            "against all three, refuted if against none, depends if against some.",
            _judge_expressive,
        )
    },
    run=_expressive,
    draw=_draw_expressive,
    seconds=10.0,
    references=("https://arxiv.org/abs/2012.14913",),
)
