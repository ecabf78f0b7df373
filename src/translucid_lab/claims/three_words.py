"""C59: attention in a sentence of three words, "I am Tom"."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from translucid.models import Network, TransformerConfig, build
from translucid.see import Axis, Grid, Heat
from translucid.tasks import IGNORE
from translucid_lab import Data, Experiment, Finding
from translucid_lab.claims.attention_tasks import Batch, patterns, right, train
from translucid_lab.engine.intervals import clearly, fraction_of, median_of
from translucid_lab.engine.verdict import all_hold, average, by_case, column, has_learned

Sentence = tuple[str, str, str]
MEN, WOMEN = ("Tom", "Max"), ("Anna", "Julia")
# The claim does not say what the words depend on. In each language, the verb narrows down the
# subject, and the names that may follow depend on something else.
LANGUAGES: dict[str, tuple[Sentence, ...]] = {
    "names depend on the subject": tuple(
        (subject, verb, name)
        for subject, verb, names in (("I", "am", MEN), ("me", "am", WOMEN), ("he", "is", MEN),
                                     ("she", "is", WOMEN))
        for name in names
    ),
    "names depend on the verb": tuple(
        (subject, verb, name)
        for subject, verb, names in (("I", "am", MEN), ("I", "was", WOMEN), ("he", "is", MEN),
                                     ("he", "was", WOMEN))
        for name in names
    ),
    "names are free": tuple(
        (subject, verb, name) for subject, verb in (("I", "am"), ("he", "is"))
        for name in (*MEN, *WOMEN)
    ),
}  # fmt: skip
WORDS = {word for sentences in LANGUAGES.values() for sentence in sentences for word in sentence}
VOCABULARY = ("?", *sorted(WORDS))
FILLED = 0.9  # of what the language allows
LINKS = {"I → am": (0, 1), "name → I": (2, 0)}


def numbers(sentences: Sequence[Sequence[str]]) -> Tensor:
    return torch.tensor([[VOCABULARY.index(word) for word in sentence] for sentence in sentences])


def possible(sentences: Sequence[Sentence]) -> float:
    """The largest fraction of hidden words that can be filled in: one word for each context."""
    contexts = {(place, sentence[:place] + sentence[place + 1 :])
                for sentence in sentences for place in range(3)}  # fmt: skip
    counts = [Counter(sentence[place] for sentence in sentences
                      if sentence[:place] + sentence[place + 1 :] == rest)
              for place, rest in contexts]  # fmt: skip
    return sum(max(count.values()) for count in counts) / (3 * len(sentences))


def _hidden(sentences: Sequence[Sentence], rows: int, generator: torch.Generator) -> Batch:
    """Sentences with one hidden word, which is the target."""
    whole = numbers(sentences)[torch.randint(len(sentences), (rows,), generator=generator)]
    hide = torch.randint(3, (rows, 1), generator=generator) == torch.arange(3)
    return whole.masked_fill(hide, 0), whole.masked_fill(~hide, IGNORE)


def _three_net(seed: int) -> Network:
    torch.manual_seed(seed)
    return build(TransformerConfig(
        shape="encoder", head="tag", outputs=len(VOCABULARY), vocab=len(VOCABULARY), d_model=16,
        heads=1, layers=1, d_ff=32, dropout=0.0,
    ))  # fmt: skip


def _three_words(seed: int, quick: bool) -> Data:
    """In each language, train several small networks to fill in a hidden word, and find the
    strongest attention links in "I am Tom"."""
    nets, steps = (3, 50) if quick else (10, 300)
    return {language: _links(sentences, seed, nets, steps)
            for language, sentences in LANGUAGES.items()}  # fmt: skip


def _links(sentences: Sequence[Sentence], seed: int, nets: int, steps: int) -> dict[str, Any]:
    maps, accuracy = [], []
    fresh = _hidden(sentences, 200, torch.Generator().manual_seed(seed + 1_000_000))
    for number in range(1000 * seed, 1000 * seed + nets):
        net = train(_three_net(number), lambda generator: _hidden(sentences, 32, generator),
                    number, steps=steps, rate=1e-2)  # fmt: skip
        accuracy.append(right(net, fresh))
        maps.append(torch.stack([_looks(net, sentences, place) for place in range(3)]))
    return {
        "accuracy": float(np.mean(accuracy)),
        "nets": nets,
        "links": {name: float(np.mean([strongest(map_, *link) for map_ in maps]))
                  for name, link in LINKS.items()},
        "map": torch.stack(maps).mean(dim=0).tolist(),
    }  # fmt: skip


def _looks(net: Network, sentences: Sequence[Sentence], place: int) -> Tensor:
    """Attention weights of the word at this position of "I am Tom" when it is hidden."""
    hidden = numbers([sentence for sentence in sentences if sentence[:2] == ("I", "am")])
    hidden[:, place] = 0
    return patterns(net, hidden)[0][:, 0, place].mean(dim=0)


def strongest(pattern: Tensor, word: int, other: int) -> bool:
    """Whether a word attends to `other` more than to any other word except itself."""
    row = pattern[word].clone()
    row[word] = -1.0
    return int(row.argmax()) == other


def _judge_three_words(data: Sequence[Data]) -> Finding:
    cases: dict[str, bool | None] = {}
    learned: dict[str, bool] = {}
    parts = []
    for language, sentences in LANGUAGES.items():
        runs = [run[language] for run in data]
        nets = sum(run["nets"] for run in runs)
        found = {
            name: fraction_of(round(sum(run["links"][name] * run["nets"] for run in runs)), nets)
            for name in LINKS
        }
        cases[language] = all_hold(clearly(each.against(0.5), "above") for each in found.values())
        filled = column(runs, "accuracy")
        learned[language] = has_learned(filled, FILLED * possible(sentences))
        links = ", ".join(f"{name} in {value}" for name, value in found.items())
        parts.append(f"where {language}, {links} (hidden words filled in: {median_of(filled)} of "
                     f"{possible(sentences):.2f} possible)")  # fmt: skip
    return by_case(
        cases, f"strongest link to another word, as a fraction of the nets: {'; '.join(parts)}",
        "what the words of the language depend on", learned=learned,
    )  # fmt: skip


def _draw_three_words(data: Sequence[Data]) -> Grid:
    axes = Axis("looks from", ("I", "am", "name")), Axis("to", ("I", "am", "name"))
    heats = []
    for language in LANGUAGES:
        values = average(data, language, "map").numpy()
        texts = tuple(tuple(f"{value:.2f}" for value in row) for row in values)
        heats.append(Heat(language.capitalize(), values, *axes, "unit", texts=texts,
                          frames=tuple(LINKS.values())))  # fmt: skip
    return Grid("Who looks at whom in “I am Tom”", tuple(heats), len(heats),
                note="mean of all nets, the word that looks hidden; frames: the links of the claim"
               )  # fmt: skip


three_words = Experiment.described(
    "three-words", _three_words, _draw_three_words, {"C59": _judge_three_words}
)
