"""C54: do heads find the links of verb and subject, of pronoun and noun?

A network reads an English sentence and predicts, at each word, the aligned German word. "it"
becomes er, sie or es by the gender of its antecedent; and English verbs are read without number
("the dogs be old"), so that the German form depends on the subject. So links between words help.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from translucid import NO_TRACE, Trace
from translucid.core import NoTrace
from translucid.data import Sentence, Toyland
from translucid.models import Network, TransformerConfig, build
from translucid.see import Axis, Grid, Heat, choose, switches
from translucid.tasks import IGNORE
from translucid_lab import Data, Experiment, Finding, fit
from translucid_lab.claims.attention_tasks import patterns
from translucid_lab.engine.intervals import clearly, difference_of, median_of
from translucid_lab.engine.verdict import all_hold, column, decide, has_learned

WITHOUT_NUMBER = {"am": "be", "is": "be", "are": "be", "was": "were", "has": "have", "does": "do",
                  "goes": "go"}  # fmt: skip


@dataclass(frozen=True)
class Texts:
    """Sentences as ids: (sentences, longest); 0 is padding, 1 an unknown word."""

    sentences: Sequence[Sentence]
    english: Tensor
    german: Tensor  # IGNORE without an aligned word

    @property
    def mask(self) -> Tensor:
        return self.english != 0

    def links(self, relation: str) -> Tensor:
        """The links of a relation as (links, 3): the sentence, the word, and the word that it
        belongs to. Subjects right before their verb are left out."""
        pairs_ = []
        for row, value in enumerate(self.sentences):
            pairs = value.subjects if relation == "subject" else value.antecedents
            least = 2 if relation == "subject" else 1
            pairs_ += [(row, word, head) for word, head in pairs if abs(word - head) >= least]
        return torch.tensor(pairs_)


class Lexicon:
    """Word ids of both languages, from the training sentences."""

    def __init__(self, sentences: Sequence[Sentence]) -> None:
        self.english = _numbered(word for sentence in sentences for word in as_read(sentence))
        self.german = _numbered(word for sentence in sentences for word in sentence.german)

    def texts(self, sentences: Sequence[Sentence]) -> Texts:
        shape = len(sentences), max(len(sentence.english) for sentence in sentences)
        english = torch.zeros(shape, dtype=torch.long)
        german = torch.full(shape, IGNORE)
        for row, value in enumerate(sentences):
            for place, word in enumerate(as_read(value)):
                english[row, place] = self.english.get(word, 1)
            for place, at in reversed(value.alignment):  # the first German word of several counts
                german[row, place] = self.german.get(value.german[at].lower(), 1)
        return Texts(sentences, english, german)


def as_read(sentence: Sentence) -> list[str]:
    """The words in lower case, with verbs without number."""
    words = [word.lower() for word in sentence.english]
    for verb, _ in sentence.subjects:
        words[verb] = WITHOUT_NUMBER.get(words[verb], words[verb].removesuffix("s"))
    return words


def _numbered(words: Any) -> dict[str, int]:
    return {word: number + 2 for number, word in enumerate(sorted({w.lower() for w in words}))}


LAYERS, HEADS = 2, 4
LEARNED = 0.5  # nats a word, required for the test
RELATIONS = ("subject", "antecedent")
BEATS = 0.05  # by how much a head with a role beats a fixed offset
SHOWN = range(8, 13)  # words of a sentence for a picture


def _links(seed: int, quick: bool) -> Data:
    """Train a network. For each relation, choose the best head and the best fixed offset on some
    sentences. Measure both on other sentences, and also the loss without that head."""
    sizes, steps = ((300, 100, 100), 30) if quick else ((3000, 400, 400), 1500)
    return _measured(seed, sizes, steps)


def _measured(seed: int, sizes: Sequence[int], steps: int) -> Data:
    world = Toyland(seed=seed)
    splits = zip(("train", "valid", "test"), sizes, strict=True)
    train, valid, test = (list(world.sentences(split, size)) for split, size in splits)
    words = Lexicon(train)
    net = _trained(words, words.texts(train), seed, steps)
    chosen_on, measured_on = words.texts(valid), words.texts(test)
    before, after = (_maps(net, texts_) for texts_ in (chosen_on, measured_on))
    whole = _losses(net, measured_on)
    measured: dict[str, Any] = {"loss": _mean(whole, measured_on.german != IGNORE)}
    for relation in RELATIONS:
        measured[relation] = _relation(relation, chosen_on, before, measured_on, after)
        best = measured[relation]["best"]
        without = _losses(net, measured_on, Trace([], edit=_heads(net)[best].edit))
        measured[relation] |= _lost(relation, measured_on, without - whole)
    measured["fixed"] = [fixed_offset(texts_, measured_on.mask) for texts_ in after]
    measured["example"] = _example(measured, measured_on, after)
    return measured


def _trained(words: Lexicon, texts: Texts, seed: int, steps: int) -> Network:
    torch.manual_seed(seed)
    net = build(TransformerConfig(
        shape="encoder", head="tag", vocab=len(words.english) + 2, outputs=len(words.german) + 2,
        d_model=48, heads=HEADS, layers=LAYERS, d_ff=96, dropout=0.0, positions="rotary",
    ))  # fmt: skip
    generator = torch.Generator().manual_seed(seed)

    def loss() -> Tensor:
        rows = torch.randint(len(texts.english), (32,), generator=generator)
        ids = texts.english[rows]
        logits = net(ids, ids != 0)
        return F.cross_entropy(logits.flatten(0, 1), texts.german[rows].flatten())

    fit(net, loss, steps=steps, learning_rate=5e-3)
    return net.eval()


def _heads(net: Network) -> list[Any]:
    return choose(switches(net), ["heads"])


def _maps(net: Network, texts: Texts) -> list[Tensor]:
    """The attention patterns of all heads, layer by layer, each (sentences, words, words)."""
    return [head for layer in patterns(net, texts.english, texts.mask) for head in layer.unbind(1)]


@torch.no_grad()
def _losses(net: Network, texts: Texts, trace: NoTrace = NO_TRACE) -> Tensor:
    """The loss of each word; 0 where there is no target."""
    logits = net(texts.english, texts.mask, trace=trace)
    return F.cross_entropy(logits.transpose(1, 2), texts.german, reduction="none")


def _mean(losses: Tensor, where: Tensor) -> float:
    return float(losses[where].mean())


def meets(pattern: Tensor, links: Tensor) -> float:
    """The fraction of links whose word attends most to the word it belongs to."""
    row, word, head = links.unbind(1)
    return float((pattern[row, word].argmax(dim=-1) == head).float().mean())


def best_offset(links: Tensor) -> int:
    """The most frequent distance from a word to the word that it belongs to."""
    return int((links[:, 2] - links[:, 1]).mode().values)


def _relation(
    relation: str, texts: Texts, maps: list[Tensor], fresh: Texts, fresh_maps: list[Tensor]
) -> dict[str, Any]:
    known, new = texts.links(relation), fresh.links(relation)
    best = int(np.argmax([meets(value, known) for value in maps]))
    offset = best_offset(known)
    return {
        "links": len(new),
        "best": best,
        "share": [meets(fresh_map, new) for fresh_map in fresh_maps],  # of every head
        "offset": offset,
        "baseline": float((new[:, 2] - new[:, 1] == offset).float().mean()),
    }


def _lost(relation: str, texts: Texts, more: Tensor) -> dict[str, float]:
    """Increase of the loss at the words of the relation, and at all others."""
    own = torch.zeros_like(texts.mask)
    row, word, _ = texts.links(relation).unbind(1)
    own[row, word] = True
    asked = texts.german != IGNORE
    return {"lost": _mean(more, own & asked), "lost elsewhere": _mean(more, ~own & asked)}


def fixed_offset(pattern: Tensor, mask: Tensor) -> float:
    """The fraction of words at which a head attends most to the word at one fixed offset. This is
    the head's most frequent offset other than 0."""
    away = pattern.argmax(dim=-1) - torch.arange(pattern.shape[-1])
    away = away[mask]
    counts = torch.bincount(away + pattern.shape[-1])
    counts[pattern.shape[-1]] = 0
    return float(counts.max() / len(away))


def _example(measured: Data, texts: Texts, maps: list[Tensor]) -> dict[str, Any]:
    """A short sentence with both kinds of links, and the patterns of the two best heads."""
    both = [set(texts.links(relation)[:, 0].tolist()) for relation in RELATIONS]
    fits = [row for row in sorted(both[0] & both[1])
            if len(texts.sentences[row].english) in SHOWN]  # fmt: skip
    row = (fits or sorted(both[0] & both[1]) or [0])[0]
    sentence = texts.sentences[row]
    length = len(sentence.english)
    return {
        "words": list(sentence.english),
        "subject": [list(link) for link in sentence.subjects],
        "antecedent": [list(link) for link in sentence.antecedents],
        "maps": [maps[measured[relation]["best"]][row, :length, :length].tolist()
                 for relation in RELATIONS],
    }  # fmt: skip


def roles(data: Data) -> list[bool]:
    """Does each head have one: a relation that it meets more often than a fixed offset does, or an
    offset at which it looks more often than not?"""
    has_role = []
    for head, fixed in enumerate(data["fixed"]):
        beats = [data[relation]["share"][head] > data[relation]["baseline"] + BEATS
                 for relation in RELATIONS]  # fmt: skip
        has_role.append(any(beats) or fixed > 0.5)
    return has_role


def _judge_links(data: Sequence[Data]) -> Finding:
    sides: dict[str, bool | None] = {}
    parts = [f"loss {median_of(column(data, 'loss'))} nats a word"]
    for relation, name in zip(RELATIONS, ("verb and subject", "pronoun and noun"), strict=True):
        fraction = [run[relation]["share"][run[relation]["best"]] for run in data]
        baseline = column(data, relation, "baseline")
        lost, elsewhere = (column(data, relation, key) for key in ("lost", "lost elsewhere"))
        more = difference_of(lost, elsewhere, "rank")
        sides[name] = all_hold((
            clearly(difference_of(fraction, baseline, "rank").against(BEATS), "above"),
            clearly(more.against(0.0), "above"),
        ))  # fmt: skip
        parts.append(
            f"{name}: the best head meets {median_of(fraction)} of the links, a fixed offset "
            f"{median_of(baseline)}; without it these words lose {more} nats more than others"
        )
    order = median_of([max(run["fixed"]) for run in data])
    sides["word order"] = clearly(order.against(0.5), "above")
    heads_with_role = median_of([float(np.mean(roles(run))) for run in data])
    parts.append(f"the steadiest head looks at one distance at {order} of the words")
    parts.append(f"{heads_with_role} of all heads have one of these roles")
    return decide(
        sides, "; ".join(parts),
        learned={"German words": has_learned(column(data, "loss"), LEARNED, below=True)},
    )  # fmt: skip


def _draw_links(data: Sequence[Data]) -> Grid:
    """Patterns of the first seed: heads of different networks cannot be averaged."""
    (first,) = data[:1]
    seen = first["example"]
    words = tuple(seen["words"])
    titles = {"subject": "Head for verb → subject", "antecedent": "Head for pronoun → noun"}
    maps = tuple(
        Heat(
            f"{titles[relation]} ({_name(first[relation]['best'])})", np.array(values),
            Axis("looks from", words), Axis("to", words), "unit",
            frames=tuple((word, head) for word, head in seen[relation]),
        )
        for relation, values in zip(RELATIONS, seen["maps"], strict=True)
    )  # fmt: skip
    fractions = np.array([[*first[relation]["share"], first[relation]["baseline"]]
                       for relation in RELATIONS]).T  # fmt: skip
    heads = (*(_name(head) for head in range(LAYERS * HEADS)), "fixed offset")
    table = Heat(
        "Links that each head meets", fractions, Axis("", heads),
        Axis("", ("subject", "pronoun")), "unit",
        texts=tuple(tuple(f"{value:.2f}" for value in row) for row in fractions),
    )  # fmt: skip
    return Grid(
        "Heads and the links that toyland knows", (*maps, table), 3,
        note="frames: the true links; subjects right before their verb are not counted",
    )  # fmt: skip


def _name(head: int) -> str:
    return f"layer {head // HEADS + 1}, head {head % HEADS + 1}"


links = Experiment.described("head-links", _links, _draw_links, {"C54": _judge_links})
