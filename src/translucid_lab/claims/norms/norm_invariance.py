"""C72, C75: what a norm's answer for one token hangs on."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from translucid.parts.norms import LayerNorm, RMSNorm, make_norm
from translucid.see.pictures import Axis, Heat
from translucid_lab.engine.experiment import Experiment
from translucid_lab.engine.verdict import Data, Finding, Rule, average, column, decide

NORMS = ("layer", "rms", "batch", "batch, in use")
CHANGES = ("other company", "longer padding", "times 1000", "plus 1")
WIDTH = 512


def _invariance(seed: int, quick: bool) -> Data:
    generator = torch.Generator().manual_seed(seed)
    token = torch.randn(1, 1, WIDTH, generator=generator)
    others = torch.randn(8 if quick else 64, 12, WIDTH, generator=generator)
    return {
        "change": [[_largest_change(name, change, token, others) for change in CHANGES]
                   for name in NORMS],
        "parameters": [sum(p.numel() for p in norm(WIDTH).parameters())
                       for norm in (LayerNorm, RMSNorm)],
        "width": WIDTH,
    }  # fmt: skip


def _largest_change(name: str, change: str, token: Tensor, others: Tensor) -> float:
    """By how much a token's normalised values change, at most, when this is done to it or to what
    stands beside it."""
    norm = _fresh(name)
    company = others.clone()
    company[:1, :1] = token
    mask = torch.ones(company.shape[:2], dtype=torch.bool)
    match change:
        case "other company":
            before, after = norm(company[:2], mask[:2]), norm(company, mask)
        case "longer padding":
            mask[:, 6:] = False
            before, after = norm(company[:, :6], mask[:, :6]), norm(company * mask[..., None], None)
        case "times 1000":
            before, after = norm(company, mask), norm(1000 * company, mask)
        case _:
            before, after = norm(company, mask), norm(company + 1, mask)
    return float((before[0, 0] - after[0, 0]).abs().max().detach())


def _fresh(name: str) -> nn.Module:
    match name:
        case "layer" | "rms" | "batch":
            return make_norm(name, WIDTH)
        case _:
            return make_norm("batch", WIDTH).eval()


def _change(data: Sequence[Data], norm: str, change: str) -> list[float]:
    return column(data, "change", NORMS.index(norm), CHANGES.index(change))


def _judge_alone(data: Sequence[Data]) -> Finding:
    layer = max(max(_change(data, "layer", change)) for change in CHANGES[:2])
    batch = min(min(_change(data, "batch", change)) for change in CHANGES[:2])
    used = max(_change(data, "batch, in use", "other company"))
    return decide(
        {
            "layer norm gives a token the same bits in any company": True if layer == 0 else
            False if layer > 1e-5 else None,
            "batch norm does not": True if batch > 1e-3 else False if batch == 0 else None,
        },
        f"in other company a token's values change by at most {layer:.1e} under layer norm and by "
        f"at least {batch:.2g} under batch norm while training (in use, with running statistics, "
        f"by {used:.1e})",
        {"layer": layer, "batch": batch},
    )  # fmt: skip


def _judge_rms(data: Sequence[Data]) -> Finding:
    scaled = max(_change(data, "rms", "times 1000"))
    shifted, layer_shifted = min(_change(data, "rms", "plus 1")), max(
        _change(data, "layer", "plus 1"))  # fmt: skip
    layer, rms = data[0]["parameters"]
    width = data[0]["width"]
    return decide(
        {
            "one learned number for each feature, where layer norm has two": (layer, rms)
            == (2 * width, width),
            "scaling changes nothing": True if scaled < 1e-4 else False if scaled > 1e-2 else None,
            "a shift changes the output": True if shifted > 1e-2 else
            False if shifted < 1e-4 else None,
        },
        f"at width {width} RMS norm learns {rms} numbers and layer norm {layer}; times 1000 "
        f"changes RMS norm's output by at most {scaled:.1e}, a shift by 1 by at least "
        f"{shifted:.2g} (layer norm's by at most {layer_shifted:.1e}). Which models use it is not "
        "measured here",
        {"scaled": scaled, "shifted": shifted},
    )  # fmt: skip


def _draw_invariance(data: Sequence[Data]) -> Heat:
    values = average(data, "change").numpy()
    return Heat(
        "By how much one token's normalised values change", values,
        Axis("norm", NORMS), Axis("what is changed", CHANGES), "positive", most=1.0,
        texts=tuple(tuple(f"{value:.2g}" for value in row) for row in values),
        note="the largest change; 0: not one bit",
    )  # fmt: skip


invariance = Experiment(
    name="norm-invariance",
    title="What a norm's answer for one token hangs on",
    varies="the norm; the batch around a token, its padding, the token's scale, its offset",
    measures="the largest change of that token's normalised values, and the learned parameters",
    claims={
        "C72": Rule(
            "Supported if layer norm gives a token bit-equal values in any batch and padding, and "
            "batch norm in training changes them by more than 0.001; refuted if layer norm changes "
            "them by more than rounding (1e-5), or batch norm not at all.",
            _judge_alone,
            label="identity",
        ),
        "C75": Rule(
            "Supported if RMS norm learns one number for each feature (layer norm two), scaling by "
            "1000 changes its output by less than 1e-4 and a shift by 1 by more than 0.01; refuted "
            "if one clearly fails. Which models use it cannot be measured here.",
            _judge_rms,
            label="identity",
        ),
    },
    run=_invariance,
    draw=_draw_invariance,
    seconds=0.2,
    references=("https://arxiv.org/abs/1607.06450", "https://arxiv.org/abs/1910.07467"),
)
