"""C20: rules that depend on the absolute position."""

from collections.abc import Sequence

import numpy as np
import torch

from translucid.see.pictures import Axis, Lines
from translucid.tasks.batch import Batch
from translucid_lab.claims.shared.sequence_tasks import batch_of, recurrent_net, train
from translucid_lab.engine.experiment import Experiment
from translucid_lab.engine.verdict import Data, Finding, Rule, Verdict, average, column, median_of

SHIFTS = 4


def _positions(seed: int, quick: bool) -> Data:
    """y[t] = x[t] + s[t] mod 4, with a table s of random shifts: the accuracy of an RNN at each
    place, and of the best rule that does not know the place."""
    places, steps = (10, 250) if quick else (20, 2500)
    table = torch.randint(SHIFTS, (places,), generator=torch.Generator().manual_seed(seed))

    def draw(generator: torch.Generator, rows: int) -> Batch:
        ids = torch.randint(SHIFTS, (rows, places), generator=generator)
        return batch_of(ids, (ids + table) % SHIFTS)

    net = recurrent_net(seed, "rnn", vocab=SHIFTS, outputs=SHIFTS, tags=True)
    train(net, draw, seed=seed, steps=steps, rate=1e-2, enough=0.02)
    new = draw(torch.Generator().manual_seed(seed + 10**6), 500)
    with torch.no_grad():
        hits = (net(**new.inputs).argmax(-1) == new.targets).double()
    return {
        "accuracy": float(hits.mean()),
        "places": hits.mean(dim=0).tolist(),
        "blind": float(table.bincount().max()) / places,
    }


def _judge_positions(data: Sequence[Data]) -> Finding:
    net, blind = column(data, "accuracy"), column(data, "blind")
    gained = median_of([(a - b) / (1 - b) for a, b in zip(net, blind, strict=True)])
    verdict: Verdict = "undecided"
    if gained.against(0.1) == "below":
        verdict = "supported"
    elif gained.against(0.9) == "above":
        verdict = "refuted"
    return Finding(
        verdict,
        f"an RNN is right at {median_of(net)} of the places, the best rule that does not know the "
        f"place at {median_of(blind)}: {gained} of the way from there to all",
        {"accuracy": median_of(net).mean, "blind": median_of(blind).mean, "gained": gained.mean},
    )


def _draw_positions(data: Sequence[Data]) -> Lines:
    places = average(data, "places").numpy()
    blind = np.full(len(places), float(average(data, "blind")))
    return Lines(
        "A rule that is another one at every place",
        Axis("place", tuple(str(t + 1) for t in range(len(places)))), "accuracy",
        {"RNN": places, "best rule that does not know the place": blind},
    )  # fmt: skip


positions = Experiment(
    name="counting-places",
    title="Can an RNN learn a rule that depends on the absolute position?",
    varies="the place in a text; each has a random rule of its own",
    measures="accuracy of an RNN, against the best rule that does not know the place",
    claims={
        "C20": Rule(
            "Measured is how much of the way from the best position-blind rule to no mistake an "
            "RNN gets. Supported if clearly less than a tenth, refuted if clearly more than nine "
            "tenths; undecided between.",
            _judge_positions,
        )
    },
    run=_positions,
    draw=_draw_positions,
    seconds=5.0,
    references=("https://arxiv.org/abs/1805.04908",),
)
