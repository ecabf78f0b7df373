"""Small experiments for tests of the runner; also loaded as a user's file outside the package."""

import os
import random
from pathlib import Path

import numpy as np
import torch

from translucid.see.pictures import Axis, Lines
from translucid_lab import Experiment, Rule, clearly, column, decide, mean_of


def measure(seed, quick):
    """Sums over many numbers, whose rounding depends on the number of threads."""
    if trouble := os.environ.get("LAB_TROUBLE"):
        if trouble == f"seed {seed}":
            raise ZeroDivisionError("nothing to divide by")
        if trouble == f"stop at {seed}":
            raise KeyboardInterrupt
        if trouble == f"tensor at {seed}":
            return {"mean": torch.ones(2)}
    if log := os.environ.get("LAB_LOG"):
        with Path(log).open("a", encoding="utf-8") as file:
            file.write(f"{seed}\n")
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(300 if quick else 900, 300, generator=generator)
    return {"mean": 1 + float((x @ x.T).sum() / x.numel()), "odd": float("inf")}


def judge(data):
    if os.environ.get("LAB_TROUBLE") == "rule":
        raise IndexError("no such seed")
    found = mean_of(column(data, "mean"))
    return decide({"above 0": clearly(found.against(0.0), "above")}, f"a mean of {found}")


def draw(data):
    mean = np.mean([each["mean"] for each in data])
    return Lines("A mean", Axis("x", ("all",)), "mean", {"mean": np.array([mean])})


planted = Experiment(
    name="planted",
    title="Sums of products are positive.",
    varies="the seed",
    measures="a mean",
    claims={"planted": Rule("Supported if above 0; refuted if below.", judge)},
    run=measure,
    draw=draw,
    seconds=0.01,
)
second = Experiment(
    name="second",
    title="Another one.",
    varies="the seed",
    measures="a mean",
    claims={"second": Rule("Supported if above 0; refuted if below.", judge)},
    run=lambda seed, quick: {"mean": random.Random(seed).random()},
    draw=draw,
    seconds=0.01,
)
