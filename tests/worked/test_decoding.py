"""Greedy search, beam search and length, on a language model whose truth is a table."""

import math

import pytest
import torch
from tests.worked.helpers import numbers, same

from translucid.generate.beam_search import GenerationConfig, search
from translucid.generate.table_model import END, PAD, TableModel
from translucid.models import GenerationInputs

GREEDY = "I am fine <eos>"
LONG = "I am finally feeling much better <eos>"


def language(p_finally):
    return TableModel(
        {
            "I am": {"fine": 0.5, "finally": p_finally, "here": 0.5 - p_finally},
            "I am fine": {END: 0.5, "thanks": 0.3, "today": 0.2},
            "I am finally": {"feeling": 0.95, END: 0.05},
            "I am finally feeling": {"much": 0.95, END: 0.05},
            "I am finally feeling much": {"better": 0.95, END: 0.05},
            "I am finally feeling much better": {END: 0.95, "now": 0.05},
        }
    )


def found_by(model, beams, alpha=0.0):
    """The finished sentences, best first, as {sentence: (log-probability, ranking)}."""
    state, prefix = model.start(GenerationInputs(1), capacity=9), model.encode("I am")
    model.step(prefix[:, :-1], state)
    state.expand(beams)
    (texts,) = search(
        model.step, state, prefix, torch.tensor([0]), torch.tensor([8]),
        GenerationConfig(beam_size=beams, n_best=beams, alpha=alpha),
        eos=model.ids[END], pad=model.ids[PAD],
    )  # fmt: skip
    assert all(each.finished for each in texts)
    return {
        f"I am {model.decode(torch.tensor(each.tokens))} {END}": numbers(
            [each.log_probability, each.score]
        )
        for each in texts
    }


def test_w40_beam_search_finds_what_greedy_search_misses():
    greedy = found_by(language(0.4), beams=1)
    assert list(greedy) == [GREEDY]
    same(greedy[GREEDY][0].exp(), 0.25)
    beam = found_by(language(0.4), beams=2)
    assert list(beam) == [LONG, GREEDY]
    same(beam[LONG][0].exp(), 0.3258025)


def test_w40_a_sum_of_log_probabilities_favours_short_outputs():
    # What the sources leave out: with P(finally) = 0.3 the long sentence loses by plain sums ...
    plain = found_by(language(0.3), beams=2)
    assert list(plain) == [GREEDY, LONG]
    same(plain[LONG][0].exp(), 0.24435187499999994)
    # ... and wins when the sums are divided by the length.
    normalised = found_by(language(0.3), beams=2, alpha=1.0)
    assert list(normalised) == [LONG, GREEDY]
    same(normalised[GREEDY][1], -0.6931471805599453)
    same(normalised[LONG][1], -0.28182919637522763)
    assert normalised[GREEDY][1] == pytest.approx(math.log(0.25) / 2)
