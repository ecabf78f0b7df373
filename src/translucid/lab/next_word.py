"""Next-word prediction: one target or many, wide words or narrow, much text or little, all words
at once or one by one."""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from translucid.lab.experiment import Experiment
from translucid.lab.toytext import Sentences, sentences
from translucid.lab.verdict import (
    Data,
    Finding,
    Interval,
    Rule,
    Verdict,
    clearly,
    column,
    decide,
    difference_of,
    mean_of,
    ratio_of,
)
from translucid.models import ModelConfig, RecurrentConfig, TransformerConfig, build
from translucid.models.autoregressive import GenerationInputs
from translucid.models.base import DecoderModel
from translucid.parts.recurrent import CellName
from translucid.see.pictures import Axis, Bars, Lines

BATCH, RATE = 32, 3e-3


def recurrent(vocab: int, *, wide: int = 32, cell: CellName = "gru") -> ModelConfig:
    return RecurrentConfig(
        shape="decoder", head="language", vocab=vocab, d_model=wide, hidden=32, cell=cell,
        dropout=0.0, tied=False,
    )  # fmt: skip


def transformer(vocab: int, *, wide: int = 32) -> ModelConfig:
    return TransformerConfig(
        shape="decoder", head="language", vocab=vocab, d_model=wide, heads=2, layers=1,
        dropout=0.0, tied=False,
    )  # fmt: skip


def made(config: ModelConfig, seed: int) -> DecoderModel:
    torch.manual_seed(seed)
    net = build(config)
    assert isinstance(net, DecoderModel)
    return net


def train(net: DecoderModel, texts: Sentences, steps: int, seed: int, *, one: bool = False) -> None:
    """With `one`, each text of a batch is cut at a random place and only the word there counts."""
    chance = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(net.parameters(), lr=RATE, fused=True)
    net.train()
    for _ in range(steps):
        ids = texts.train[torch.randint(len(texts.train), (BATCH,), generator=chance)]
        wanted = ids[:, 1:]
        if one:
            wanted = _only_one(wanted, chance)
        optimizer.zero_grad()
        _loss(net, ids, wanted).backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
    net.eval()


def _only_one(wanted: Tensor, chance: torch.Generator) -> Tensor:
    lengths = (wanted != 0).sum(1)
    places = (torch.rand(len(wanted), generator=chance) * lengths).long()
    return torch.zeros_like(wanted).scatter(1, places[:, None], wanted.gather(1, places[:, None]))


def _loss(net: DecoderModel, ids: Tensor, wanted: Tensor) -> Tensor:
    logits = net(ids[:, :-1], ids[:, :-1] != 0)
    return F.cross_entropy(logits.flatten(0, 1), wanted.flatten(), ignore_index=0)


@torch.no_grad()
def new_loss(net: DecoderModel, texts: Sentences) -> float:
    """Nats for each word of sentences that were not trained on."""
    return float(_loss(net, texts.new, texts.new[:, 1:]))


# ---- C14: one target for a text, or one at every word ----


def _targets(seed: int, quick: bool) -> Data:
    """The loss on new text after equal steps over equal batches, so at equal cost; and how far the
    answer at a word changes if the text goes on."""
    texts = sentences(seed, 300 if quick else 2000)
    found: dict[str, float] = {}
    for name, one in (("every word", False), ("one word", True)):
        net = made(recurrent(texts.vocab), seed)
        train(net, texts, 60 if quick else 500, seed, one=one)
        found[name] = new_loss(net, texts)
    cut = texts.new[:, :3]
    with torch.no_grad():
        alone, among = net(cut), net(texts.new[:, :6])[:, :3]
    return found | {"prefix": float((alone - among).abs().max())}


def _judge_targets(data: Sequence[Data]) -> Finding:
    loss = difference_of(column(data, "one word"), column(data, "every word"))
    worst = max(column(data, "prefix"))
    said = (
        f"after equal steps, texts with one target leave {loss} nats more for each new word than "
        f"texts with a target at every word; an answer changes by at most {worst:.0e} if the text "
        "goes on"
    )
    predicts = worst < 1e-4
    trains = clearly(loss.against(0.1), "below")
    verdict: Verdict = "undecided"
    if not predicts:
        verdict = "refuted"
    elif trains is not None:
        verdict = "supported" if trains else "depends"
    if verdict == "depends":
        said += "; it depends on whether one predicts (many words, one answer) or trains (an "
        said += "answer at every word)"
    return Finding(verdict, said)


def _draw_targets(data: Sequence[Data]) -> Bars:
    labels = ("every word", "one word")
    values = np.array([np.mean(column(data, name)) for name in labels])
    return Bars("The same batches, with one target or many", "nats for each new word", labels,
                values, note="after equal steps: smaller is better")  # fmt: skip


one_target = Experiment(
    name="one-target",
    title="A target at every word of a text, or at one word",
    varies="whether the loss counts every next word of a text, or one",
    measures="the loss on new text after equal steps; whether later words change an answer",
    claims={
        "C14": Rule(
            "Predicting is many-to-one if no answer changes by more than 1e-4 when the text goes "
            "on; refuted if one does. If so: supported if training on one target for each text "
            "costs clearly less than 0.1 nats after equal steps, depends (on training or "
            "predicting) if it clearly costs more.",
            _judge_targets,
        )
    },
    run=_targets,
    draw=_draw_targets,
    seconds=10.0,
    references=("https://arxiv.org/abs/1308.0850",),
)

# ---- C25: little text, much text ----

SIZES = (60, 250, 1000, 4000)
FAMILIES = ("LSTM", "Transformer")


def _amounts(seed: int, quick: bool) -> Data:
    """The best loss on new text that each reaches, by how many sentences it trains on."""
    found: dict[str, Any] = {"sizes": list(SIZES[:2] if quick else SIZES)}
    for family in FAMILIES:
        losses = []
        for size in found["sizes"]:
            texts = sentences(seed, size)
            lstm = family == "LSTM"
            config = recurrent(texts.vocab, cell="lstm") if lstm else transformer(texts.vocab)
            net = made(config, seed)
            rounds = 2 if quick else 6
            best = []
            for part in range(rounds):  # looked at in between: little text is soon learnt by heart
                train(net, texts, 30 if quick else 120, seed * rounds + part)
                best.append(new_loss(net, texts))
            losses.append(min(best))
        found[family] = losses
    return found


def _judge_amounts(data: Sequence[Data]) -> Finding:
    places = range(len(data[0]["sizes"]))
    gaps = [difference_of(column(data, "LSTM", at), column(data, "Transformer", at))
            for at in places]  # fmt: skip
    sides = [gap.against(0.0) for gap in gaps]
    said = ", ".join(f"{size}: {gap}" for size, gap in zip(data[0]["sizes"], gaps, strict=True))
    why = f"loss of the LSTM less that of the Transformer, by sentences trained on: {said}"
    cross = "above" in sides and "below" in sides
    verdict: Verdict = (
        "supported" if cross else "refuted" if len(set(sides)) == 1 and "across" not in sides
        else "undecided"
    )  # fmt: skip
    return Finding(verdict, why)


def _draw_amounts(data: Sequence[Data]) -> Lines:
    sizes = tuple(map(str, data[0]["sizes"]))
    series = {name: np.mean([each[name] for each in data], axis=0) for name in FAMILIES}
    return Lines("Loss on new text, by how much text there is", Axis("sentences", sizes),
                 "nats for each word", series)  # fmt: skip


amount_of_text = Experiment(
    name="amount-of-text",
    title="LSTM and Transformer by the amount of text",
    varies="the number of training sentences; an LSTM and a Transformer of about one size",
    measures="the best loss on new text",
    claims={
        "C25": Rule(
            "'Medium-sized' is not said in numbers; the nearest question is whether it depends on "
            "the amount of text which family is better. Supported if the LSTM is clearly better "
            "at one amount and the Transformer at another; refuted if one of them is clearly "
            "better at every amount.",
            _judge_amounts,
        )
    },
    run=_amounts,
    draw=_draw_amounts,
    seconds=40.0,
    references=("https://arxiv.org/abs/1712.00409", "https://arxiv.org/abs/2001.08361"),
)

# ---- C89: the size of a word's vector ----

WIDTHS = (4, 16, 64, 256)


def _widths(seed: int, quick: bool) -> Data:
    """The loss on new text by the size of the vectors, beside that of word counts alone."""
    texts = sentences(seed, 300 if quick else 2000)
    losses = []
    for wide in WIDTHS:
        net = made(recurrent(texts.vocab, wide=wide), seed)
        train(net, texts, 60 if quick else 400, seed)
        losses.append(new_loss(net, texts))
    return {"loss": losses, "counts": texts.counted}


def _judge_widths(data: Sequence[Data]) -> Finding:
    learnt = [difference_of(column(data, "counts"), column(data, "loss", at))
              for at in range(len(WIDTHS))]  # fmt: skip
    worst = min(learnt, key=lambda each: each.mean)
    spread = mean_of([max(each["loss"]) - min(each["loss"]) for each in data])
    said = ", ".join(f"{wide}: {mean_of(column(data, 'loss', at))}"
                     for at, wide in enumerate(WIDTHS))  # fmt: skip
    return decide(
        {
            "every size learns more than word counts say": clearly(worst.against(0.0), "above"),
            "sizes differ by more than 0.1": clearly(spread.against(0.1), "above"),
        },
        f"nats for each new word, by the size of a vector: {said}",
    )


def _draw_widths(data: Sequence[Data]) -> Lines:
    shown = {
        "GRU": np.mean([each["loss"] for each in data], axis=0),
        "word counts alone": np.full(len(WIDTHS), np.mean(column(data, "counts"))),
    }
    return Lines("Loss on new text, by the size of a word's vector",
                 Axis("numbers for each word", tuple(map(str, WIDTHS))), "nats for each word",
                 shown)  # fmt: skip


vector_sizes = Experiment(
    name="vector-sizes",
    title="The size of a word's vector",
    varies="how many numbers stand for a word",
    measures="the loss on new text, beside that of word counts alone",
    claims={
        "C89": Rule(
            "Supported if a model learns more than word counts at every size, and sizes differ "
            "by clearly more than 0.1 nats; refuted if either clearly fails.",
            _judge_widths,
        )
    },
    run=_widths,
    draw=_draw_widths,
    seconds=25.0,
    references=("https://www.jmlr.org/papers/v3/bengio03a.html",),
)

# ---- C88: all words at once ----

LENGTHS = (32, 128, 512)
SPEEDS = ("reads", "trains", "writes")


def _speeds(seed: int, quick: bool) -> Data:
    """Milliseconds, so not the same twice: reading, training on and writing one text, for a GRU
    and a Transformer layer of width 64, the best of several turns that they take alternately."""
    vocab, turns = 50, 2 if quick else 5
    nets = {"GRU": recurrent(vocab, wide=64), "Transformer": transformer(vocab, wide=64)}
    built = {name: made(config, seed) for name, config in nets.items()}
    chance = torch.Generator().manual_seed(seed)
    found: dict[str, Any] = {"lengths": list(LENGTHS[:2] if quick else LENGTHS)}
    found |= {name: {speed: [] for speed in SPEEDS} for name in nets}
    for length in found["lengths"]:
        ids = torch.randint(vocab, (1, length), generator=chance)
        times: dict[tuple[str, str], float] = {}
        for _ in range(turns):
            for name, net in built.items():
                for speed in SPEEDS:
                    began = time.perf_counter()
                    _pass(net, ids, speed)
                    passed = 1000 * (time.perf_counter() - began)
                    times[name, speed] = min(passed, times.get((name, speed), passed))
        for (name, speed), best in times.items():
            found[name][speed].append(best)
    return found


def _pass(net: DecoderModel, ids: Tensor, speed: str) -> None:
    if speed == "trains":
        net(ids).sum().backward()
        return
    with torch.no_grad():
        if speed == "reads":
            net(ids)
            return
        state = net.start(GenerationInputs(1), capacity=ids.shape[1])
        for at in range(ids.shape[1]):
            net.step(ids[:, at : at + 1], state)


def _judge_speeds(data: Sequence[Data]) -> Finding:
    def faster(speed: str) -> Interval:
        return ratio_of(column(data, "GRU", speed, 1), column(data, "Transformer", speed, 1))

    writing = ratio_of(
        column(data, "Transformer", "writes", 1), column(data, "Transformer", "reads", 1)
    )
    length = data[0]["lengths"][1]
    reads, trains = faster("reads"), faster("trains")
    return decide(
        {
            "reads faster than an RNN": clearly(reads.against(1.0), "above"),
            "trains faster than an RNN": clearly(trains.against(1.0), "above"),
            "reading all words at once is at least 5 times as fast as one by one":
                clearly(writing.against(5.0), "above"),
        },
        f"at {length} words the GRU takes {reads} times as long to read and {trains} times to "
        f"train on; when it writes, the Transformer too goes word by word, and takes {writing} "
        "times as long as for reading",
    )  # fmt: skip


def _draw_speeds(data: Sequence[Data]) -> Lines:
    series = {
        f"{name} {speed}": np.mean([each[name][speed] for each in data], axis=0)
        for name in ("GRU", "Transformer")
        for speed in SPEEDS
    }
    words = Axis("words", tuple(map(str, data[0]["lengths"])))
    return Lines(
        "Time for one text, by its length", words, "milliseconds", series, logarithmic=True
    )


all_at_once = Experiment(
    name="all-at-once",
    title="All words at once, or one by one",
    varies="the length of a text; reading, training, writing; a GRU and a Transformer layer",
    measures="the best time of several, on one core",
    claims={
        "C88": Rule(
            "Supported if at 128 words the Transformer layer clearly reads and trains faster than "
            "the GRU, and reads at least 5 times as fast as it goes word by word; refuted if one "
            "of these clearly fails.",
            _judge_speeds,
        )
    },
    run=_speeds,
    draw=_draw_speeds,
    seconds=10.0,
    references=("https://arxiv.org/abs/1706.03762",),
)
