"""The tree agrees with the search it has watched, whatever the settings."""

import math
from typing import Any

import pytest
import torch
from tests.invariants.cases import begin, random_text, randomised, recurrent, transformer

from translucid.generate import constraints
from translucid.generate.beam_search import GenerationConfig, Hypothesis, Round, search
from translucid.generate.table_model import END, PAD, TableModel
from translucid.generate.tree import Node, Tree
from translucid.models import GenerationInputs

pytestmark = pytest.mark.usefixtures("no_grad")
EOS, MOST = 1, 7
KEPT = ("followed", "ended", "cut", "stopped")
MODELS = {
    "transformer": transformer("encoder-decoder", positions="rotary"),
    "lstm": recurrent("decoder"),
}
HOWS = {
    "greedy": GenerationConfig(beam_size=1),
    "beams": GenerationConfig(beam_size=4),
    "several": GenerationConfig(beam_size=4, n_best=3, alpha=0.6),
    "no alpha": GenerationConfig(beam_size=3, n_best=3, alpha=0.0),
    "wide": GenerationConfig(beam_size=15, n_best=2),  # more than there are words
    "groups": GenerationConfig(beam_size=6, n_best=4, beam_groups=3, diversity_penalty=0.7),
    "shortest": GenerationConfig(beam_size=3, min_length=4),
    "rules": GenerationConfig(beam_size=4, no_repeat_ngram=2, repetition_penalty=1.3),
}


@pytest.fixture
def no_grad() -> Any:
    with torch.no_grad():
        yield


def grown(
    name: str, how: GenerationConfig, least: int, source: int
) -> tuple[Tree, list[Hypothesis], list[Round], int]:
    """The tree of one source of three, what the search found for it, and all its rounds."""
    model = randomised(MODELS[name])
    text = random_text(model, rows=3, length=2)
    state = begin(model, text, capacity=20)
    model.step(text.ids[:, :-1], state)
    state.expand(how.beam_size)
    named = [("7 is forbidden", constraints.forbid([7]))]
    tree = Tree(how, EOS, least, MOST, named, source)
    rounds: list[Round] = []

    def watch(each: Round) -> None:
        tree.watch(each)
        if source in each.sources:
            rounds.append(each)

    found = search(
        model.step, state, text.ids, torch.tensor([least] * 3), torch.tensor([MOST] * 3), how,
        eos=EOS, pad=0, extra=[rule for _, rule in named], watch=watch,
    )  # fmt: skip
    return tree, found[source], rounds, text.ids.shape[1]


def words(each: Hypothesis) -> list[int]:
    return each.tokens + [EOS] * each.finished


@pytest.mark.parametrize("source", [0, 2])
@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("name", MODELS)
def test_the_tree_agrees_with_the_search(name: str, how: str, source: int) -> None:
    setting = HOWS[how]
    tree, found, rounds, start = grown(name, setting, setting.min_length, source)
    assert tree.rounds == len(rounds)
    by_place = sorted((n for n in tree.nodes if n.place), key=lambda n: n.place or 0)
    assert [tree.tokens(n.number) for n in by_place] == [words(each) for each in found]
    for node, each in zip(by_place, found, strict=True):
        assert node.ranked == pytest.approx(each.score)
        assert node.fate == "ended" if each.finished else node.fate in ("cut", "stopped")
        token_log_probs = [
            n.token_log_prob for n in tree.path(node.number) if n.parent is not None
        ][::-1]
        assert token_log_probs == pytest.approx(each.token_log_probs)
    best = [n for n in tree.nodes if n.chosen]
    assert [n.token for n in best[1:]] == words(found[0]), "the way is marked from the root on"
    # Every prefix that stood in a place of the beam is a node, and no other was kept.
    standing = set()
    for each in rounds:
        here = int((each.sources == source).nonzero()[0, 0])
        for place in range(setting.beam_size):
            if each.after.scores[here, place] > -math.inf:
                length = int(each.after.lengths[here, place])
                tokens = each.after.tokens[here, place, start : start + length].tolist()
                group = place * setting.beam_groups // setting.beam_size
                standing.add((group, *tokens))
    kept = [n for n in tree.nodes[1:] if n.fate in KEPT]
    assert {(n.group, *tree.tokens(n.number)) for n in kept} == standing
    assert len(kept) == len(standing)


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("name", MODELS)
def test_pruned_prefixes_score_below_all_kept_ones(name: str, how: str) -> None:
    setting = HOWS[how]
    tree, *_ = grown(name, setting, setting.min_length, 0)
    pruned = [n for n in tree.nodes if n.fate == "pruned"]
    if how != "wide":
        assert pruned
    for node in pruned:
        rivals = [
            n for n in tree.nodes[1:]
            if n.length == node.length and n.group == node.group and n.fate in KEPT
        ]  # fmt: skip
        bar = min(n.score for n in rivals)
        assert node.score <= bar
        assert node.why.startswith(f"{node.score:.2f}"[:4])
        assert f"{bar:.2f}"[:4] in node.why
    for node in tree.nodes[1:]:
        parent = tree.nodes[node.parent or 0]
        if how not in ("groups", "rules"):
            assert node.score == pytest.approx(parent.score + node.token_log_prob)
        assert parent.fate == "followed"


def test_each_beam_lists_its_best_and_its_forbidden_tokens() -> None:
    how = GenerationConfig(beam_size=9, no_repeat_ngram=1)
    tree, _, rounds, _ = grown("lstm", how, 3, 0)
    forbidden = [n for n in tree.nodes if n.fate == "forbidden"]
    assert {n.why for n in forbidden} >= {
        "7 is forbidden", "the end is not allowed before 3 tokens", "a constraint forbids it"
    }  # fmt: skip
    assert all(n.why == "7 is forbidden" for n in forbidden if n.token == 7)
    assert all(n.length <= 3 for n in forbidden if "an end" in n.why)
    first = rounds[0]
    liked = first.log_probs[0, 0].topk(how.beam_size).indices.tolist()
    best = first.adjusted[0, 0].topk(how.beam_size)
    allowed = best.indices[best.values > -math.inf].tolist()
    assert {n.token for n in tree.nodes if n.parent == 0} == {*liked, *allowed}


def language() -> TableModel:
    return TableModel(
        {
            "I am": {"fine": 0.5, "finally": 0.3, "here": 0.15, "home": 0.05},
            "I am fine": {END: 0.6, "thanks": 0.4},
            "I am finally": {"better": 0.9, END: 0.1},
            "I am finally better": {END: 0.7, "now": 0.3},
        }
    )


def table_tree(**options: Any) -> tuple[TableModel, Tree]:
    model = language()
    how = GenerationConfig(**options)
    state, prefix = model.start(GenerationInputs(1), capacity=9), model.encode("I am")
    model.step(prefix[:, :-1], state)
    state.expand(how.beam_size)
    tree = Tree(how, model.ids[END], 0, 8)
    search(
        model.step, state, prefix, torch.tensor([0]), torch.tensor([8]), how,
        eos=model.ids[END], pad=model.ids[PAD], watch=tree.watch,
    )  # fmt: skip
    return model, tree


def test_the_reasons_by_hand() -> None:
    model, tree = table_tree(beam_size=2, alpha=1.0)

    def node(*path: str) -> Node:
        ids = [model.ids[word] for word in path]
        (found,) = [n for n in tree.nodes[1:] if tree.tokens(n.number) == ids]
        return found

    # log .3 = -1.20, log .5 + log .6 = -1.20, log .3 + log .9 = -1.31, log .5 + log .4 = -1.61
    assert node("fine", END).why == "ends: -1.20 / 2^1 = -0.60"
    assert node("fine", "thanks").why == "-1.61 is below -1.31, the last of 2 places"
    end = node("finally", "better", END)
    assert (end.place, end.chosen, end.why) == (1, True, "ends: -1.67 / 3^1 = -0.56")
    assert node("fine").fate == "followed"
    assert not node("fine").chosen
    assert {n.fate for n in tree.nodes} == {"followed", "ended", "pruned"}


def test_pruned_prefixes_count_the_places_of_finished_texts() -> None:
    _, tree = table_tree(beam_size=3, n_best=3, alpha=0.0)
    told = {n.why for n in tree.nodes if n.fate == "pruned" and n.length == 3}
    assert told == {"-2.51 is below -1.67, the last of 2 places (1 text has ended)"}


def test_stopped_prefixes_could_not_win() -> None:
    _, tree = table_tree(beam_size=2, alpha=0.0)
    (stopped,) = [n for n in tree.nodes if n.fate == "stopped"]
    assert stopped.why == "could reach at most -1.31, but a finished text already has -1.20"


def test_as_data() -> None:
    model, tree = table_tree(beam_size=2)
    data = tree.as_dict(lambda token: model.words[token])
    assert data["search"]["beam_size"] == 2
    assert data["rounds"] == tree.rounds
    assert [n["number"] for n in data["nodes"]] == list(range(len(tree.nodes)))
    assert [n["piece"] for n in data["nodes"] if n["chosen"]] == ["", "finally", "better", END]
