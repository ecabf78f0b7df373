"""C19: a pattern at a place where it was never seen."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from translucid.models import MLPConfig, build
from translucid.see.pictures import Bars
from translucid.tasks.batch import IGNORE, Batch
from translucid.tasks.loss import cross_entropy
from translucid_lab.claims.shared.sequence_tasks import Draw, batch_of, recurrent_net, right, train
from translucid_lab.engine.experiment import Experiment
from translucid_lab.engine.verdict import (
    Data,
    Finding,
    Rule,
    all_hold,
    average,
    by_case,
    clearly,
    column,
    has_learned,
    median_of,
)

MOTIF, SYMBOLS, TEXT = (0, 1, 2), 4, 12
HALVES = {"trained": (0, TEXT // 2), "new": (TEXT // 2, TEXT)}  # the places that hold the motif
NETS = ("RNN", "MLP")
QUESTIONS = ("at each place", "at the end")


def answers(network: nn.Module, batch: Batch) -> Tensor:
    """Logits, with one more axis than the targets; a net that answers once has two for each
    place."""
    logits: Tensor = network(**batch.inputs)
    return logits if logits.dim() > batch.targets.dim() else logits.unflatten(-1, (TEXT, 2))


def _asked(question: str, half: str, *, apart: bool = False) -> Draw:
    """Texts half of which hold the motif once, in this half. At each place of the half: does the
    motif end here? At the end: was it there? apart: each letter at each place is a feature of its
    own, for a net without order."""
    first, beyond = HALVES[half]

    def draw(generator: torch.Generator, rows: int) -> Batch:
        ids = _without_motif(generator, rows)
        targets = torch.randint(2, (rows,), generator=generator)
        starts = torch.randint(first, beyond - len(MOTIF) + 1, (rows, 1), generator=generator)
        held = ids.scatter(1, starts + torch.arange(len(MOTIF)),
                           torch.tensor(MOTIF).expand(rows, -1))  # fmt: skip
        ids = torch.where(targets[:, None] == 1, held, ids)
        if question == "at each place":
            ends = starts + len(MOTIF) - 1 == torch.arange(TEXT)
            inside = (torch.arange(TEXT) >= first) & (torch.arange(TEXT) < beyond)
            targets = torch.where(inside, (ends & (targets[:, None] == 1)).long(), IGNORE)
        if not apart:
            return batch_of(ids, targets)
        return batch_of(nn.functional.one_hot(ids, SYMBOLS).flatten(1).float(), targets, "x")

    return draw


def _without_motif(generator: torch.Generator, rows: int) -> Tensor:
    texts = torch.randint(SYMBOLS, (4 * rows, TEXT), generator=generator)
    hits = (texts.unfold(1, len(MOTIF), 1) == torch.tensor(MOTIF)).all(dim=-1).any(dim=-1)
    return texts[~hits][:rows]


def _sharing(seed: int, quick: bool) -> Data:
    """Accuracy where the motif was seen in training, and where it never was."""
    steps = 150 if quick else 600
    return {question: {name: _detection(seed, question, name, steps) for name in NETS}
            for question in QUESTIONS}  # fmt: skip


def _detection(seed: int, question: str, name: str, steps: int) -> dict[str, float]:
    apart, tags = name == "MLP", question == "at each place"
    torch.manual_seed(seed)
    net: nn.Module = (
        build(MLPConfig(inputs=TEXT * SYMBOLS, hidden=(64,), outputs=2 * TEXT if tags else 2))
        if apart else recurrent_net(seed, "rnn", vocab=SYMBOLS, outputs=2, tags=tags)
    )  # fmt: skip
    train(
        net, _asked(question, "trained", apart=apart), seed=seed, steps=steps, rows=64, enough=0.02,
        loss=lambda network, batch: cross_entropy(answers(network, batch), batch.targets),
    )  # fmt: skip
    measured: dict[str, float] = {
        "parameters": sum(parameter.numel() for parameter in net.parameters())
    }
    for half in HALVES:
        batch = _asked(question, half, apart=apart)(torch.Generator().manual_seed(seed), 1000)
        with torch.no_grad():
            measured[half] = _balanced(answers(net, batch), batch.targets)
    return measured


def _balanced(logits: Tensor, targets: Tensor) -> float:
    """The accuracy, where yes and no count alike."""
    return (right(logits, targets.where(targets == 1, IGNORE))
            + right(logits, targets.where(targets == 0, IGNORE))) / 2  # fmt: skip


def _judge_sharing(data: Sequence[Data]) -> Finding:
    cases: dict[str, bool | None] = {}
    learned: dict[str, bool] = {}
    parts = []
    for question in QUESTIONS:
        near, far = (
            {name: median_of(column(data, question, name, half)) for name in NETS}
            for half in HALVES
        )
        sizes = {name: column(data, question, name, "parameters")[0] for name in NETS}
        parts.append(f"asked {question}: " + ", ".join(
            f"{name} ({sizes[name]:.0f} parameters) {near[name]} where the motif was trained and "
            f"{far[name]} where it never was" for name in NETS))  # fmt: skip
        sides = (
            clearly(far["RNN"].against(0.8), "above"),
            clearly(far["MLP"].against(0.8), "below"),
            sizes["RNN"] < sizes["MLP"],
        )
        cases[f"asked {question}"] = all_hold(sides)
        learned[f"asked {question}"] = all(
            has_learned(column(data, question, name, "trained"), 0.9) for name in NETS
        )
    return by_case(
        cases, "; ".join(parts),
        "when the net is asked: at each place, or once at the end", learned=learned,
    )  # fmt: skip


def _draw_sharing(data: Sequence[Data]) -> Bars:
    cases = [(question, name, half) for question in QUESTIONS for name in NETS for half in HALVES]
    return Bars(
        "A motif that was trained in the first half of texts", "accuracy",
        tuple(f"asked {question}: {name}, {'first' if half == 'trained' else 'second'} half"
              for question, name, half in cases),
        np.array([float(average(data, *case)) for case in cases]),
        note="yes and no count alike: guessing gives 0.5",
    )  # fmt: skip


sharing = Experiment(
    name="sharing-in-time",
    title="A pattern at places where it was never seen",
    varies="an RNN, which shares weights over time, or an MLP with weights for each place; whether "
    "they are asked at each place or at the end",
    measures="accuracy for a motif in the half of the text where it was trained, and in the other",
    claims={
        "C19": Rule(
            "Both nets must reach more than 0.9 where the motif was trained in eight of ten seeds, "
            "else not tested. Holds, asked "
            "at each place or at the end, if in the other half the RNN is then right clearly more "
            "often than 0.8 and the MLP less, and the RNN has fewer parameters; fails if one is "
            "clearly otherwise. Supported if it holds both ways, refuted if in neither, depends "
            "(on when the net is asked) if in one.",
            _judge_sharing,
        )
    },
    run=_sharing,
    draw=_draw_sharing,
    seconds=20.0,
    references=("https://www.deeplearningbook.org/contents/rnn.html",),
)
