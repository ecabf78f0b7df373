"""Who keeps graphs: they are of one model as it is, of one thread, and go with their owner. Without
a GPU a graph is what it would replay; `tests/cuda` has them captured."""

import copy
import gc
import pickle
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from tests.invariants.cases import randomised, transformer
from torch import nn

from translucid.fast.decode_graphs import LOOK, DecodeGraphs
from translucid.generate.beam_search import GenerationConfig
from translucid.generate.decode import captured, limits
from translucid.models import GenerationInputs

INPUTS = GenerationInputs.of(torch.tensor([[3, 4, 5, 6], [7, 8, 9, 3]]))
PREFIXES, HOW = [[2], [2]], GenerationConfig(beam_size=2, max_length=4)
MODEL = randomised(transformer("encoder-decoder"))


def search(graphs: DecodeGraphs, model: Any) -> list[list[int]]:
    graphs.look_at(model)
    bounds = limits(model, PREFIXES, INPUTS, HOW)
    found = captured(graphs, model, PREFIXES, INPUTS, bounds, HOW, eos=1, pad=0)
    return [texts[0].tokens for texts in found]


def held(graphs: DecodeGraphs) -> list[int]:
    return [id(each) for each in graphs.graphs.values()]


def test_the_same_model_finds_its_graphs_again() -> None:
    graphs, model = DecodeGraphs(), copy.deepcopy(MODEL)
    first = search(graphs, model)
    before = held(graphs)
    assert search(graphs, model) == first
    with torch.no_grad():  # written into the weights: a graph reads them where they lie
        model.head.linear.weight.mul_(1.5)
    search(graphs, model)
    assert held(graphs) == before


def test_a_search_stops_soon_after_its_texts_have_ended() -> None:
    graphs, how = DecodeGraphs(), GenerationConfig(beam_size=2, max_length=40)
    graphs.look_at(MODEL)
    bounds = limits(MODEL, PREFIXES, INPUTS, how)
    all_words = tuple(token for token in range(MODEL.config.vocab) if token != 1)
    captured(graphs, MODEL, PREFIXES, INPUTS, bounds, how, eos=1, pad=0, ends=all_words)
    (only,) = graphs.graphs.values()
    assert int(only.rounds.number.max()) == LOOK


def new_weight(model: Any) -> None:
    part = model.encoder.layers[0].feedforward.output
    part.weight = nn.Parameter(part.weight.detach().clone())


def moved_weight(model: Any) -> None:
    model.head.linear.weight.data = model.head.linear.weight.data.clone()


CHANGES: dict[str, Callable[[Any], object]] = {
    "a weight is another": new_weight,
    "a weight lies elsewhere": moved_weight,
    "a setting": lambda model: setattr(model.decoder.final_norm, "eps", 0.1),
    "an activation": lambda model: setattr(
        model.decoder.layers[0].feedforward, "activation", torch.tanh
    ),
    "a part is another": lambda model: setattr(
        model.decoder, "dropout", nn.Dropout(0.1).eval()
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_model_has_new_graphs(name: str) -> None:
    graphs, model = DecodeGraphs(), copy.deepcopy(MODEL)
    search(graphs, model)
    before = list(graphs.graphs.values())  # kept, so that no new one has an old address
    CHANGES[name](model)
    search(graphs, model)
    assert held(graphs) != [id(each) for each in before]


def test_another_model_has_new_graphs() -> None:
    graphs, other = DecodeGraphs(), randomised(transformer("encoder-decoder"), 1)
    search(graphs, MODEL)
    assert search(graphs, other) == search(DecodeGraphs(), other)


def test_graphs_go_with_their_owner() -> None:
    graphs, model = DecodeGraphs(), copy.deepcopy(MODEL)
    search(graphs, model)
    gone = weakref.ref(model)
    del graphs, model
    gc.collect()
    assert gone() is None


def test_threads_and_copies_have_graphs_of_their_own() -> None:
    graphs = DecodeGraphs()
    search(graphs, MODEL)
    assert graphs.graphs
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(lambda: len(graphs.graphs)).result() == 0
    for twin in (copy.copy(graphs), copy.deepcopy(graphs), pickle.loads(pickle.dumps(graphs))):
        assert not twin.graphs
