"""C81, C83: cross-attention compared with a single context vector, in a toy translation task."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from translucid import Trace
from translucid.generate import GenerationConfig, Hypothesis, find
from translucid.models import (
    EncoderDecoderModel,
    GenerationInputs,
    RecurrentConfig,
    TransformerConfig,
    build,
)
from translucid.see import Axis, Lines
from translucid.tasks import cross_entropy
from translucid_lab import Data, Experiment, Finding, fit
from translucid_lab.claims.attention_tasks import swap_first_two
from translucid_lab.engine.intervals import clearly, difference_of, median_of
from translucid_lab.engine.verdict import average, column, decide, has_learned

PAD, START, END, FIRST, WORDS = 0, 1, 2, 3, 8  # id of the first word, number of words
LENGTHS = (2, 3, 5, 7)  # tested; trained on all from 2 to the last
LONGER = 16
PICKED = 5  # words of a sentence for the one-layer Transformer
CROSS = "decoder.layers.0.cross_attention"
ARMS = ("attention", "one vector")
BATCH, TESTS = 64, 50


def pairs(count: int, length: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Sentences and translations: each word is mapped, and the order reversed."""
    source = torch.randint(WORDS, (count, length), generator=generator)
    return source + FIRST, (source.flip(1) + 3) % WORDS + FIRST


def _translate(seed: int, quick: bool) -> Data:
    """Train recurrent encoder-decoders, with attention and with only the encoder's last state.
    Measure the sentence accuracy by length; with attention, also the alignment and the fraction of
    texts that end."""
    steps = 140 if quick else 500
    measured: dict[str, Any] = {}
    for arm in ARMS:
        generator = torch.Generator().manual_seed(seed)
        net = _translator(arm, seed)
        if arm == "attention":
            measured["untrained ends"] = _ends(net, LENGTHS[-1], generator)[0]
        _teach(net, steps, generator)
        measured[arm] = [_right(net, length, generator) for length in LENGTHS]
        if arm == "attention":
            measured["aligned"] = [_aligned(net, length, generator) for length in LENGTHS]
            ends = [_ends(net, length, generator) for length in (*LENGTHS, LONGER)]
            measured["ends"], measured["length right"] = map(list, zip(*ends, strict=True))
    return measured | {"picked": _picked(seed, steps)}


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


def _picked(seed: int, steps: int) -> dict[str, float]:
    """Train a one-layer Transformer. Measure the word accuracy with teacher forcing and the
    alignment of the cross-attention. Then exchange two queries, or the values of two source words,
    and measure the fraction of texts whose first word changes accordingly."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    net = build(
        TransformerConfig(shape="encoder-decoder", head="language", vocab=FIRST + WORDS,
                          target_vocab=FIRST + WORDS, d_model=32, heads=1, layers=1, d_ff=64,
                          dropout=0.0)
    )  # fmt: skip
    assert isinstance(net, EncoderDecoderModel)
    _teach(net, steps, generator, rate=5e-3)
    source, target = pairs(4 * TESTS, PICKED, generator)
    read = torch.cat([torch.full((len(target), 1), START), target[:, :-1]], dim=1)
    first, second = target[:, 0], target[:, 1]  # translations of the last two source words
    differ = first != second
    trace = Trace(f"{CROSS}.pattern")
    with torch.no_grad():
        right = net(source, read, trace=trace).argmax(dim=-1) == target
        looks = trace[f"{CROSS}.pattern"][:, 0].argmax(dim=-1)
        query = net(source, read, trace=Trace([], edit={f"{CROSS}.query": swap_first_two}))
        value = net(source, read, trace=Trace([], edit={f"{CROSS}.value": _last_two}))
    return {
        "right": float(right.float().mean()),
        "aligned": float((looks == torch.arange(PICKED).flip(0)).float().mean()),
        "query": float((query[:, 0].argmax(dim=-1) == second)[differ].float().mean()),
        "value": float((value[:, 0].argmax(dim=-1) == second)[differ].float().mean()),
    }


def _last_two(values: Tensor) -> Tensor:
    last = values.shape[2] - 1
    return values[:, :, [*range(last - 1), last, last - 1]]


def _teach(
    net: EncoderDecoderModel, steps: int, generator: torch.Generator, rate: float = 1e-2
) -> None:
    def loss() -> Tensor:
        length = int(torch.randint(LENGTHS[0], LENGTHS[-1] + 1, (1,), generator=generator))
        source, target = pairs(BATCH, length, generator)
        read = torch.cat([torch.full((BATCH, 1), START), target], dim=1)
        wanted = torch.cat([target, torch.full((BATCH, 1), END)], dim=1)
        return cross_entropy(net(source, read), wanted) / wanted.numel()

    fit(net, loss, steps=steps, learning_rate=rate, schedule="wsd", cooldown=0.5)


def _written(net: EncoderDecoderModel, source: Tensor) -> list[Hypothesis]:
    """Greedy translations, at most twice as long as the source plus 10."""
    net.eval()
    inputs = GenerationInputs.of(source)
    hypotheses = find(
        net, [[START]] * len(source), inputs, GenerationConfig(beam_size=1), eos=END, pad=PAD
    )
    net.train()
    return [texts[0] for texts in hypotheses]


def _right(net: EncoderDecoderModel, length: int, generator: torch.Generator) -> float:
    source, target = pairs(TESTS, length, generator)
    return float(np.mean([text.tokens == wanted for text, wanted in
                          zip(_written(net, source), target.tolist(), strict=True)]))  # fmt: skip


def _ends(net: EncoderDecoderModel, length: int, generator: torch.Generator) -> tuple[float, float]:
    """The fractions of texts that end by themselves, and that have the right length."""
    texts = _written(net, pairs(TESTS, length, generator)[0])
    fractions = ([text.finished for text in texts], [len(text.tokens) == length for text in texts])
    return float(np.mean(fractions[0])), float(np.mean(fractions[1]))


@torch.no_grad()
def _aligned(net: EncoderDecoderModel, length: int, generator: torch.Generator) -> float:
    """The fraction of words whose largest attention weight is on the word they translate."""
    source, target = pairs(TESTS, length, generator)
    read = torch.cat([torch.full((TESTS, 1), START), target[:, :-1]], dim=1)
    trace = Trace("*.alignment.pattern")
    net(source, read, trace=trace)
    looks = trace["decoder.alignment.pattern"].argmax(dim=-1)  # (sentences, target words)
    return float((looks == torch.arange(length).flip(0)).float().mean())


def _judge_attention(data: Sequence[Data]) -> Finding:
    first, last = ([a - b for a, b in zip(column(data, "attention", at),
                                          column(data, "one vector", at), strict=True)]
                   for at in (0, -1))  # fmt: skip
    grows = difference_of(last, first, "rank")
    right = column(data, "picked", "right")
    aligned, query, value = (
        median_of(column(data, "picked", name)) for name in ("aligned", "query", "value")
    )
    return decide(
        {
            "the largest weights lie on the word that is translated": clearly(
                aligned.against(0.5), "above"),
            "another query picks another word": clearly(query.against(0.5), "above"),
            "what is handed over is the value": clearly(value.against(0.5), "above"),
        },
        f"a Transformer of one layer says {median_of(right)} of the words right; {aligned} of its "
        f"largest weights lie on the word that is translated (chance {1 / PICKED:.2g}); with "
        f"another position's query {query} of the answers are that position's, with two source "
        f"words' values exchanged {value} are the other's. In a recurrent net, the gap between "
        f"additive attention and one vector grows by {grows} from length {LENGTHS[0]} to "
        f"{LENGTHS[-1]}",
        {"aligned": aligned.mean, "query": query.mean, "value": value.mean, "grows": grows.mean},
        learned={"words by a Transformer": has_learned(right, 0.9)},
    )  # fmt: skip


def _judge_ends(data: Sequence[Data]) -> Finding:
    trained = range(len(LENGTHS))
    ends, right = (
        median_of([float(np.mean([run[name][at] for at in trained])) for run in data])
        for name in ("ends", "length right")
    )
    longer, untrained = (median_of(column(data, *path)) for path in
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
        Axis("words in the sentence", tuple(map(str, LENGTHS))), "accuracy", series,
        note="a toy translation that turns every sentence round; exact matches",
    )  # fmt: skip


context_vector = Experiment.described(
    "context-vector", _translate, _draw_attention, {"C81": _judge_attention, "C83": _judge_ends}
)
