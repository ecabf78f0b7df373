"""Tagging: how sure the model is of each tag of each word, and where it got that from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from translucid.data.spans import split_words
from translucid.demo.report import page, pictures
from translucid.model import Model
from translucid.models.base import EncoderModel
from translucid.tasks.tag import Tag
from translucid.toyland import Sentence


@dataclass(frozen=True)
class TagMap:
    """The probability of every tag at every word."""

    words: list[str]
    tags: list[str]  # O first, then B and I of each label
    probabilities: list[list[float]]  # (tags, words)
    gold: list[str]  # one tag per word; empty where nobody knows


def tag_map(model: Model, text: str, gold: Sequence[str] = ()) -> TagMap:
    """Softmax of the logits at each word's first token."""
    words, places = _words(model, text)
    logits = model.trace(text, keep="head.logits")["head.logits"][0, places]  # (words, tags)
    probabilities = logits.softmax(dim=-1).T.tolist()
    tags = _tags(model)
    order = sorted(range(len(tags)), key=lambda tag: tags[tag].partition("-")[::-1])
    return TagMap(words, [tags[i] for i in order], [probabilities[i] for i in order], list(gold))


def _tags(model: Model) -> list[str]:
    assert isinstance(model.task, Tag)
    return model.task.tags


def _words(model: Model, text: str) -> tuple[list[str], list[int]]:
    """The words, and where each one's first token is."""
    assert isinstance(model.task, Tag)
    words = [text[a:b] for a, b in split_words(text)]
    return words, model.task.encode_words(words).firsts


@dataclass(frozen=True)
class Evidence:
    """What each reading direction says for the chosen tag, and against the best other one.

    The head is linear, so its logits are exact sums: one share for each direction, and the bias.
    """

    words: list[str]
    chosen: list[str]
    rival: list[str]  # the likeliest other tag
    shares: dict[str, list[float]]  # direction -> per word, logit of chosen minus logit of rival
    bias: list[float]


def evidence(model: Model, text: str) -> Evidence | None:
    """For a recurrent tagger; None for a model that does not read in a direction."""
    network = model.network
    assert isinstance(network, EncoderModel)
    recurrent = getattr(network.encoder, "recurrent", None)
    if recurrent is None:
        return None
    words, places = _words(model, text)
    trace = model.trace(text, keep=["head.logits", "encoder.recurrent.output"])
    logits = trace["head.logits"][0, places]  # (words, tags)
    outputs = trace["encoder.recurrent.output"][0, places]  # (words, directions * hidden)
    linear = network.head.linear
    best = logits.topk(2, dim=-1).indices  # (words, 2)
    first, second = best.unbind(dim=-1)
    difference = linear.weight[first] - linear.weight[second]  # (words, directions * hidden)
    parts = (difference * outputs).unflatten(-1, (len(recurrent.directions), -1)).sum(dim=-1)
    tags = _tags(model)
    return Evidence(
        words,
        [tags[i] for i in first.tolist()],
        [tags[i] for i in second.tolist()],
        dict(zip(recurrent.directions, parts.detach().T.tolist(), strict=True)),
        (linear.bias[first] - linear.bias[second]).tolist(),
    )


@dataclass(frozen=True)
class Looking:
    """What each token of a Transformer looks at: the last layer, mean over its heads."""

    words: list[str]
    weights: list[list[float]]  # (queries, keys)


def looking(model: Model, text: str) -> Looking | None:
    """For a Transformer; None for a model without attention."""
    if hasattr(model.network.encoder, "recurrent"):
        return None
    pattern = "encoder.layers.*.self_attention.pattern"
    trace = model.trace(text, keep=pattern)
    words, places = _words(model, text)
    mean = trace[trace.names(pattern)[-1]][0].mean(dim=0)  # (queries, keys)
    return Looking(words, mean[torch.tensor(places)][:, places].tolist())


def write(
    folder: Path,
    model: Model,
    sentences: Sequence[Sentence],
    given: Sequence[str],
    score: Mapping[str, float],
) -> Path:
    """Write the report of a tagging run: gold-tagged sentences first, then those of the user."""
    maps = [tag_map(model, each.source, each.entities) for each in sentences]
    given = [text for text in given if text.strip()]
    parts = [
        page.score_table(score),
        page.section("How it learnt"),
        page.figure(
            pictures.draw_curves(
                pictures.read_curves(folder, "span_f1"),
                loss="training loss per word",
                metric="span F1, validation",
            )
        ),
        page.section(
            "How sure it is of each tag",
            "Columns: the words of unseen sentences. Rows: the tags; B begins a name, I goes on "
            "with it, O is no name. Dark: likely. Framed: right.",
        ),
        *(page.figure(draw_map(each)) for each in maps),
    ]
    if given:
        parts.append(page.section("What it was asked", "Nobody gave the right tags: no frames."))
        parts += [page.figure(draw_map(tag_map(model, text))) for text in given]
    parts += _inside(model, given or [sentences[0].source])
    return page.write_page(
        folder,
        "Names found, learnt on this machine",
        "A small network that marks people (PER), places (LOC) and companies (ORG), trained from "
        "scratch on made-up sentences of toyland.",
        parts,
    )


def _inside(model: Model, texts: Sequence[str]) -> list[str]:
    shares = [found for text in texts if (found := evidence(model, text)) is not None]
    if shares:
        words = (
            "The network reads the sentence from the left and from the right. Its logits are sums: "
            "a part from each reading, and the bias. Bars above 0 speak for the tag it chose, "
            "below 0 for the next likely one. Where a name could be several things (Jordan sleeps, "
            "Jordan lies in Asia), only the words after it can tell which: its bar from the right."
        )
        drawn = [page.figure(draw_evidence(each)) for each in shares]
        return [page.section("Where it got that from", words), *drawn]
    maps = [seen for text in texts if (seen := looking(model, text)) is not None]
    words = (
        "Rows: the words that are read. Columns: the words they look at. Last layer, mean of its "
        "heads."
    )
    drawn = [page.figure(pictures.heat_map(each.weights, each.words, each.words)) for each in maps]
    return [page.section("What it looks at", words), *drawn]


def draw_map(found: TagMap) -> Any:
    frames = [(found.tags.index(tag), word) for word, tag in enumerate(found.gold)]
    return pictures.heat_map(found.probabilities, found.tags, found.words, frames)


def draw_evidence(found: Evidence) -> Any:
    drawn, (axes,) = pictures.empty(3.2 + 0.75 * len(found.words), 2.8)
    colours = {"forward": pictures.BLUE, "backward": pictures.ORANGE}
    names = {"forward": "read from the left", "backward": "read from the right"}
    for number, (direction, shares) in enumerate(found.shares.items()):
        places = [
            word + 0.36 * number - 0.18 * (len(found.shares) - 1) for word in range(len(shares))
        ]
        axes.bar(places, shares, 0.34, color=colours[direction], label=names[direction])
    axes.plot(range(len(found.bias)), found.bias, "D", color=pictures.BLACK, ms=4, label="bias")
    axes.axhline(0, color=pictures.BLACK, linewidth=0.8)
    labels = [
        f"{word}\n{chosen}\nnot {rival}"
        for word, chosen, rival in zip(found.words, found.chosen, found.rival, strict=True)
    ]
    axes.set_xticks(range(len(labels)), pictures.plain(labels))
    axes.set_ylabel("part of the logit difference")
    axes.legend(frameon=False, fontsize=9, loc="center left", bbox_to_anchor=(1, 0.5))
    return drawn
