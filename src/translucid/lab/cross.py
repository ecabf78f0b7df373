"""Reading with both eyes: attention from a decoder to its source against one context vector, texts
that end by themselves, and an encoder that sees both sides of a gap."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from translucid.decoding.generate import find
from translucid.decoding.search import Hypothesis, Search
from translucid.lab.chains import learn
from translucid.lab.deep import average
from translucid.lab.experiment import Experiment
from translucid.lab.verdict import (
    Data,
    Finding,
    Rule,
    clearly,
    column,
    decide,
    difference_of,
    mean_of,
)
from translucid.models import RecurrentConfig, TransformerConfig, build
from translucid.models.autoregressive import GenerationInputs
from translucid.models.base import EncoderDecoderModel, Network
from translucid.see.pictures import Axis, Bars, Lines
from translucid.tasks.base import cross_entropy
from translucid.trace import Trace

# ---- C81, C83: a toy translation that turns the sentence round ----

PAD, START, END, FIRST, WORDS = 0, 1, 2, 3, 8  # the first word's number, and how many there are
LENGTHS = (2, 3, 5, 7)  # tried; trained on all from 2 to the last
LONGER = 16
ARMS = ("attention", "one vector")
BATCH, TESTS = 64, 50


def pairs(count: int, length: int, chance: torch.Generator) -> tuple[Tensor, Tensor]:
    """Sentences and their translations: another word for each, in the opposite order."""
    source = torch.randint(WORDS, (count, length), generator=chance)
    return source + FIRST, (source.flip(1) + 3) % WORDS + FIRST


def _translate(seed: int, quick: bool) -> Data:
    """Two recurrent encoder-decoders, one with attention, one that gets the encoder's last state
    alone: how many sentences are right, by length; where the attention looks; what ends."""
    steps = 140 if quick else 500
    found: dict[str, Any] = {}
    for arm in ARMS:
        chance = torch.Generator().manual_seed(seed)
        net = _translator(arm, seed)
        if arm == "attention":
            found["untrained ends"] = _ends(net, LENGTHS[-1], chance)[0]
        _teach(net, steps, chance)
        found[arm] = [_right(net, length, chance) for length in LENGTHS]
        if arm == "attention":
            found["aligned"] = [_aligned(net, length, chance) for length in LENGTHS]
            ends = [_ends(net, length, chance) for length in (*LENGTHS, LONGER)]
            found["ends"], found["length right"] = map(list, zip(*ends, strict=True))
    return found


def _translator(arm: str, seed: int) -> EncoderDecoderModel:
    torch.manual_seed(seed)
    net = build(
        RecurrentConfig(shape="encoder-decoder", head="language", vocab=FIRST + WORDS,
                        target_vocab=FIRST + WORDS, cell="gru", d_model=32, hidden=32,
                        bidirectional=True, attention="additive" if arm == "attention" else "none",
                        dropout=0.0)
    )  # fmt: skip
    assert isinstance(net, EncoderDecoderModel)
    return net


def _teach(net: EncoderDecoderModel, steps: int, chance: torch.Generator) -> None:
    rate = 1e-2
    optimizer = torch.optim.Adam(net.parameters(), lr=rate, fused=True)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = rate * min(1.0, 2 * (1 - step / steps))
        length = int(torch.randint(LENGTHS[0], LENGTHS[-1] + 1, (1,), generator=chance))
        source, target = pairs(BATCH, length, chance)
        read = torch.cat([torch.full((BATCH, 1), START), target], dim=1)
        wanted = torch.cat([target, torch.full((BATCH, 1), END)], dim=1)
        loss = cross_entropy(net(source, read), wanted) / wanted.numel()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def _written(net: EncoderDecoderModel, source: Tensor) -> list[Hypothesis]:
    """What greedy search writes, from <start> on; at most twice the source and 10 more."""
    net.eval()
    inputs = GenerationInputs.of(source)
    found = find(net, [[START]] * len(source), inputs, Search(beams=1), eos=END, pad=PAD)
    net.train()
    return [texts[0] for texts in found]


def _right(net: EncoderDecoderModel, length: int, chance: torch.Generator) -> float:
    source, target = pairs(TESTS, length, chance)
    return float(np.mean([text.tokens == wanted for text, wanted in
                          zip(_written(net, source), target.tolist(), strict=True)]))  # fmt: skip


def _ends(net: EncoderDecoderModel, length: int, chance: torch.Generator) -> tuple[float, float]:
    """The shares of texts that end by themselves, and that have the right number of words."""
    texts = _written(net, pairs(TESTS, length, chance)[0])
    shares = ([text.finished for text in texts], [len(text.tokens) == length for text in texts])
    return float(np.mean(shares[0])), float(np.mean(shares[1]))


@torch.no_grad()
def _aligned(net: EncoderDecoderModel, length: int, chance: torch.Generator) -> float:
    """The share of words whose largest weight lies on the source word that they translate."""
    source, target = pairs(TESTS, length, chance)
    read = torch.cat([torch.full((TESTS, 1), START), target[:, :-1]], dim=1)
    trace = Trace("*.alignment.pattern")
    net(source, read, trace=trace)
    looks = trace["decoder.alignment.pattern"].argmax(dim=-1)  # (sentences, target words)
    return float((looks == torch.arange(length).flip(0)).float().mean())


def _judge_attention(data: Sequence[Data]) -> Finding:
    first, last = ([a - b for a, b in zip(column(data, "attention", at),
                                          column(data, "one vector", at), strict=True)]
                   for at in (0, -1))  # fmt: skip
    grows = difference_of(last, first)
    aligned = mean_of(column(data, "aligned", -1))
    shown = {arm: mean_of(column(data, arm, -1)) for arm in ARMS}
    return decide(
        {
            "the gap grows by over a fifth": clearly(grows.against(0.2), "above"),
            "more than four fifths of the largest weights lie right": clearly(
                aligned.against(0.8), "above"),
        },
        f"at length {LENGTHS[-1]}, {shown['attention']} of the sentences are right with attention "
        f"and {shown['one vector']} with one vector; from length {LENGTHS[0]} on the gap grows by "
        f"{grows}; {aligned} of the largest weights lie on the word that is translated (chance "
        f"{1 / LENGTHS[-1]:.2g})",
        {"grows": grows.mean, "aligned": aligned.mean},
    )  # fmt: skip


def _judge_ends(data: Sequence[Data]) -> Finding:
    trained = range(len(LENGTHS))
    ends, right = (
        mean_of([float(np.mean([each[name][at] for at in trained])) for each in data])
        for name in ("ends", "length right")
    )
    longer, untrained = (mean_of(column(data, *path)) for path in
                         (("ends", -1), ("untrained ends",)))  # fmt: skip
    return decide(
        {
            "over 0.95 end by themselves": clearly(ends.against(0.95), "above"),
            "over 0.9 have the right length": clearly(right.against(0.9), "above"),
        },
        f"of greedy's texts {ends} end by themselves, and {right} have the right number of words; "
        f"at length {LONGER}, beyond those trained, {longer} end; of an untrained net {untrained}: "
        "a limit is needed too",
        {"ends": ends.mean, "right": right.mean},
    )


def _draw_attention(data: Sequence[Data]) -> Lines:
    series = {arm: average(data, arm).numpy() for arm in ARMS}
    series["weights on the right word"] = average(data, "aligned").numpy()
    return Lines(
        "Attention against one vector for the whole sentence",
        Axis("words in the sentence", tuple(map(str, LENGTHS))), "share that is right", series,
        note="a toy translation that turns every sentence round; exact matches",
    )  # fmt: skip


context_vector = Experiment(
    name="context-vector",
    title="Attention against one context vector, by sentence length",
    varies="attention over all encoder outputs, or the encoder's last state alone; the length",
    measures="sentences translated exactly, where the attention looks, texts that end by "
    "themselves",
    claims={
        "C81": Rule(
            "In a recurrent encoder-decoder whose translation reverses the words: supported if, "
            "from the shortest to the longest sentences, the gap in exact matches between "
            "attention and one vector clearly grows by over 0.2, and clearly over 0.8 of the "
            "target words have their largest weight on the word they translate; refuted if one "
            "clearly fails.",
            _judge_attention,
        ),
        "C83": Rule(
            "Supported if, at the lengths trained, clearly over 0.95 of greedy's texts end by "
            "themselves before the limit and clearly over 0.9 have the right number of words; "
            "refuted if one clearly fails.",
            _judge_ends,
        ),
    },
    run=_translate,
    draw=_draw_attention,
    seconds=20.0,
    references=("https://arxiv.org/abs/1409.0473", "https://arxiv.org/abs/1409.3215",
                "https://arxiv.org/abs/2002.02492"),
)  # fmt: skip

# ---- C82: both sides of a gap ----

FILLERS, CLUES, PLACES = 4, 8, 9
GAP = FILLERS + CLUES  # its number
READERS = ("both sides", "left side only")
SIDES = ("clue on the left", "clue on the right")


def clozes(count: int, side: str, chance: torch.Generator) -> tuple[Tensor, Tensor]:
    """Texts of fillers with a gap and a clue, and what belongs into the gap: the clue's number,
    and IGNORE elsewhere."""
    ids = torch.randint(FILLERS, (count, PLACES), generator=chance)
    clue = torch.randint(CLUES, (count,), generator=chance)
    near, far = (torch.randint(1, 4, (count,), generator=chance) for _ in range(2))
    gap, place = near + 2, near + 2 + far
    if side == SIDES[0]:
        gap, place = PLACES - 1 - gap, PLACES - 1 - place
    rows = torch.arange(count)
    ids[rows, gap], ids[rows, place] = GAP, clue + FILLERS
    targets = torch.full_like(ids, -100)
    targets[rows, gap] = clue
    return ids, targets


def _cloze(seed: int, quick: bool) -> Data:
    """A Transformer that sees everything, and one that sees what stands before, fill gaps whose
    clue stands on either side: the share that is right."""
    found = {}
    for reader in READERS:
        chance = torch.Generator().manual_seed(seed)
        net = _reader(reader, seed)

        def batch() -> tuple[Tensor, Tensor]:
            both = [clozes(32, side, chance) for side in SIDES]  # noqa: B023 (used in this round)
            return torch.cat([ids for ids, _ in both]), torch.cat([to for _, to in both])

        learn(net, batch, 50 if quick else 200, rate=1e-2)
        found[reader] = [_filled(net, side, chance) for side in SIDES]
    return found


def _reader(reader: str, seed: int) -> Network:
    torch.manual_seed(seed)
    return build(
        TransformerConfig(shape="encoder" if reader == "both sides" else "decoder", head="tag",
                          outputs=CLUES, vocab=GAP + 1, d_model=32, heads=2, layers=1, dropout=0.0)
    )  # fmt: skip


@torch.no_grad()
def _filled(net: Network, side: str, chance: torch.Generator) -> float:
    ids, targets = clozes(400, side, chance)
    gaps = targets >= 0
    return float((net(ids).argmax(dim=-1)[gaps] == targets[gaps]).float().mean())


def _judge_cloze(data: Sequence[Data]) -> Finding:
    both, left = ([mean_of(column(data, reader, at)) for at in (0, 1)] for reader in READERS)
    why = (
        f"gaps filled right with the clue on the left and on the right: {both[0]} and {both[1]} "
        f"by one who sees both sides, {left[0]} and {left[1]} by one who sees the left (chance "
        f"{1 / CLUES:.3g})"
    )
    if left[0].against(0.9) != "above":
        return Finding("undecided", f"{why} (the masked one has not learned the task)")
    return decide(
        {
            "who sees both sides fills gaps from both": _both(
                clearly(each.against(0.9), "above") for each in both),
            "who sees the left does not from the right": clearly(left[1].against(0.5), "below"),
        },
        why,
        {"both": [each.mean for each in both], "left": [each.mean for each in left]},
    )  # fmt: skip


def _both(sides: Any) -> bool | None:
    known = list(sides)
    return False if False in known else None if None in known else True


def _draw_cloze(data: Sequence[Data]) -> Bars:
    labels = [f"sees {reader}: {side}" for reader in READERS for side in SIDES]
    values = [value for reader in READERS for value in average(data, reader).tolist()]
    return Bars("Filling a gap whose clue stands left or right", "gaps filled right",
                (*labels, "chance"), np.array([*values, 1 / CLUES]))  # fmt: skip


cloze = Experiment(
    name="cloze",
    title="Filling a gap with a clue on the left or on the right",
    varies="an encoder that sees both sides, or a masked one; the side of the clue",
    measures="gaps filled right",
    claims={
        "C82": Rule(
            "Supported if the encoder that sees both sides fills clearly over 0.9 of the gaps with "
            "the clue on either side, and the masked one clearly less than 0.5 of those with the "
            "clue on the right; refuted if one clearly fails. Undecided if the masked one does not "
            "clearly fill 0.9 of those with the clue on the left: then it has learned nothing.",
            _judge_cloze,
        )
    },
    run=_cloze,
    draw=_draw_cloze,
    seconds=4.0,
    references=("https://arxiv.org/abs/1810.04805",),
)
