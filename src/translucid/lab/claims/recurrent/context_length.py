"""C24: does the next word depend on one far back?"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from translucid.lab.claims.shared.sequence_tasks import Draw, batch_of, train
from translucid.lab.claims.shared.toyland_text import next_words
from translucid.lab.engine.experiment import Experiment
from translucid.lab.engine.verdict import (
    Data,
    Finding,
    Rule,
    average,
    clearly,
    column,
    decide,
    ratio_of,
)
from translucid.models import Network, RecurrentConfig, build
from translucid.parts.recurrent_kernel import CellName
from translucid.see.picture_data import Axis
from translucid.see.pictures import Lines

WINDOW = 25  # words
BACK = (0, 1, 2, 4, 8, 16, 24)  # words between the one that is changed and the next one
READERS: dict[str, CellName] = {"RNN": "rnn", "LSTM": "lstm"}


def _far_words(seed: int, quick: bool) -> Data:
    """How far the distribution of the next word moves (KL, nats) if one word is exchanged."""
    text = next_words(seed)
    stream = text.ids[text.ids != 0]  # sentence after sentence
    measured: dict[str, Any] = {}
    for name, cell in READERS.items():
        net = _language_model(seed, cell, text.vocab)
        history = train(net, _windows(stream), seed=seed, steps=40 if quick else 500, rate=1e-2)
        measured[name] = {
            "kl": _moved(net, stream, text.vocab, seed, 64 if quick else 512),
            "losses": [history.losses[0], float(np.mean(history.losses[-20:]))],
        }
    return measured


def _language_model(seed: int, cell: CellName, vocab: int) -> Network:
    torch.manual_seed(seed)
    return build(RecurrentConfig(shape="decoder", head="language", cell=cell, vocab=vocab,
                                 d_model=32, hidden=32, dropout=0.0))  # fmt: skip


def _windows(stream: Tensor) -> Draw:
    def draw(generator: torch.Generator, rows: int) -> Any:
        starts = torch.randint(len(stream) - WINDOW, (rows, 1), generator=generator)
        words = stream[starts + torch.arange(WINDOW + 1)]  # (rows, window + 1)
        return batch_of(words[:, :-1], words[:, 1:])

    return draw


@torch.no_grad()
def _moved(net: Network, stream: Tensor, vocab: int, seed: int, rows: int) -> list[float]:
    generator = torch.Generator().manual_seed(seed)
    ids = _windows(stream)(generator, rows).inputs["ids"]
    net.double()  # float32 cannot tell 1e-8 from nothing
    before = net(ids)[:, -1].log_softmax(dim=-1)
    distances = []
    for back in BACK:
        changed = ids.clone()
        other = torch.randint(1, vocab - 2, (rows,), generator=generator)
        place = WINDOW - 1 - back
        changed[:, place] = 2 + (changed[:, place] - 2 + other) % (vocab - 2)  # never the same
        after = net(changed)[:, -1].log_softmax(dim=-1)
        distances.append(float((before.exp() * (before - after)).sum(dim=-1).mean()))
    return distances


def _judge_far_words(data: Sequence[Data]) -> Finding:
    near = BACK.index(1)
    left = ratio_of(column(data, "RNN", "kl", -1), column(data, "RNN", "kl", near))
    lstm = ratio_of(column(data, "LSTM", "kl", -1), column(data, "LSTM", "kl", near))
    return decide(
        {"a word far back counts for less than a twentieth": clearly(left.against(0.05), "below")},
        f"exchanging the word {BACK[-1]} back moves the next word's distribution by {left} of what "
        f"the word 1 back does, in an RNN; in an LSTM by {lstm}",
        {"rnn": left.mean, "lstm": lstm.mean},
    )  # fmt: skip


def _draw_far_words(data: Sequence[Data]) -> Lines:
    return Lines(
        "Exchange one word: how far does the next word's distribution move?",
        Axis("words back", tuple(map(str, BACK))), "KL divergence, nats",
        {name: average(data, name, "kl").numpy() for name in READERS}, logarithmic=True,
        note="language models trained on toyland's English",
    )  # fmt: skip


far_words = Experiment(
    name="far-words",
    title="How much the next word depends on a word far back",
    varies="how many words back one word is exchanged; the cell",
    measures="the KL divergence of the next word's distribution, after training",
    claims={
        "C24": Rule(
            f"In a trained RNN, exchanging the word {BACK[-1]} back moves the next word's "
            "distribution by a fraction of what the word 1 back does: supported if the fraction is "
            "clearly below a twentieth, refuted if clearly above. How much of it is the chain's "
            "doing and how much the text's is not told apart here; C21 has a task that needs the "
            "first word.",
            _judge_far_words,
        )
    },
    run=_far_words,
    draw=_draw_far_words,
    seconds=20.0,
    references=("https://arxiv.org/abs/1805.04623",),
)
