"""C59: attention in a sentence of three words, "I am Tom"."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from translucid.models import Network, TransformerConfig, build
from translucid.see import Axis, Heat
from translucid.tasks import IGNORE
from translucid_lab import Data, Experiment, Finding
from translucid_lab.claims.attention_tasks import Batch, patterns, right, train
from translucid_lab.engine.intervals import clearly, fraction_of, median_of
from translucid_lab.engine.verdict import average, column, decide, has_learned

# Each subject with its form of "to be" and its possible names. The form narrows down the subject,
# and the name depends on the subject alone, so that either link is useful.
MEN, WOMEN = ("Tom", "Max"), ("Anna", "Julia")
SUBJECTS = {"I": ("am", MEN), "me": ("am", WOMEN), "he": ("is", MEN), "she": ("is", WOMEN)}
SENTENCES = tuple((subject, verb, name) for subject, (verb, names) in SUBJECTS.items()
                  for name in names)  # fmt: skip
VOCABULARY = ("?", *sorted({word for sentence in SENTENCES for word in sentence}))
FILLED = 0.7
LINKS = {"I → am": (0, 1), "name → I": (2, 0)}
ASKED = tuple(sentence for sentence in SENTENCES if sentence[0] == "I")


def numbers(sentences: Sequence[Sequence[str]]) -> Tensor:
    return torch.tensor([[VOCABULARY.index(word) for word in sentence] for sentence in sentences])


def _hidden(rows: int, generator: torch.Generator) -> Batch:
    """Sentences with one hidden word, which is the target."""
    whole = numbers(SENTENCES)[torch.randint(len(SENTENCES), (rows,), generator=generator)]
    hide = torch.randint(3, (rows, 1), generator=generator) == torch.arange(3)
    return whole.masked_fill(hide, 0), whole.masked_fill(~hide, IGNORE)


def _three_net(seed: int) -> Network:
    torch.manual_seed(seed)
    return build(TransformerConfig(
        shape="encoder", head="tag", outputs=len(VOCABULARY), vocab=len(VOCABULARY), d_model=16,
        heads=1, layers=1, d_ff=32, dropout=0.0,
    ))  # fmt: skip


def _three_words(seed: int, quick: bool) -> Data:
    """Train several small networks to fill in a hidden word, and find the strongest attention links
    in "I am Tom"."""
    nets, steps = (3, 50) if quick else (10, 300)
    maps, accuracy = [], []
    fresh = _hidden(200, torch.Generator().manual_seed(seed + 1_000_000))
    for number in range(nets):
        net = train(_three_net(1000 * seed + number), lambda generator: _hidden(32, generator),
                  1000 * seed + number, steps=steps, rate=1e-2)  # fmt: skip
        accuracy.append(right(net, fresh))
        maps.append(torch.stack([_looks(net, place) for place in range(3)]))
    return {
        "accuracy": float(np.mean(accuracy)),
        "nets": nets,
        "links": {name: float(np.mean([strongest(map_, *link) for map_ in maps]))
                  for name, link in LINKS.items()},
        "map": torch.stack(maps).mean(dim=0).tolist(),
    }  # fmt: skip


def _looks(net: Network, place: int) -> Tensor:
    """Attention weights of the word at this position when it is hidden."""
    hidden = numbers(ASKED)
    hidden[:, place] = 0
    return patterns(net, hidden)[0][:, 0, place].mean(dim=0)


def strongest(pattern: Tensor, word: int, other: int) -> bool:
    """Whether a word attends to `other` more than to any other word except itself."""
    row = pattern[word].clone()
    row[word] = -1.0
    return int(row.argmax()) == other


def _judge_three_words(data: Sequence[Data]) -> Finding:
    nets = data[0]["nets"] * len(data)
    intervals = {
        name: fraction_of(round(sum(run["links"][name] * run["nets"] for run in data)), nets)
        for name in LINKS
    }
    summary = ", ".join(f"{name} in {value}" for name, value in intervals.items())
    return decide(
        {f"{name} in most nets": clearly(interval.against(0.5), "above")
         for name, interval in intervals.items()},
        f"strongest link to another word: {summary} of the nets (guessing: 0.5); hidden words "
        f"filled in: {median_of(column(data, 'accuracy'))}",
        learned={"hidden words": has_learned(column(data, "accuracy"), FILLED)},
    )  # fmt: skip


def _draw_three_words(data: Sequence[Data]) -> Heat:
    values = average(data, "map").numpy()
    return Heat(
        "Who looks at whom in “I am Tom”", values, Axis("looks from", ("I", "am", "name")),
        Axis("to", ("I", "am", "name")), "unit", frames=tuple(LINKS.values()),
        texts=tuple(tuple(f"{value:.2f}" for value in row) for row in values),
        note="mean of all nets, the word that looks hidden; frames: the links of the claim",
    )  # fmt: skip


three_words = Experiment.described(
    "three-words", _three_words, _draw_three_words, {"C59": _judge_three_words}
)
