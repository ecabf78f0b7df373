"""An ensemble returns the mean of its members' probabilities; each member learns separately."""

from dataclasses import replace

import pytest
import torch
from tests.invariants.cases import (
    OUTPUTS,
    Text,
    close,
    random_text,
    randomised,
    recurrent,
    transformer,
    whole,
)

from translucid.core.trace import Trace
from translucid.models import GenerationInputs, ModelConfig, build
from translucid.models.ensemble import Ensemble, EnsembleState

ENSEMBLES: dict[str, ModelConfig] = {
    "tags": recurrent("encoder", ensemble_size=3, bidirectional=True),
    "characters": transformer("encoder", ensemble_size=2, characters=5),
    "classes": recurrent("encoder", ensemble_size=3, head="classify", outputs=OUTPUTS),
    "n-grams": recurrent(
        "encoder", ensemble_size=2, head="classify", outputs=OUTPUTS, ngram_features=7
    ),
    "words": transformer("decoder", ensemble_size=3, positions="rotary"),
    "gru": recurrent("decoder", ensemble_size=2, cell="gru"),
}


def with_ragged(text: Text) -> Text:
    mask = torch.ones_like(text.ids, dtype=torch.bool)
    mask[0, 4:] = False
    return replace(text, mask=mask)


@pytest.mark.parametrize("name", ENSEMBLES)
def test_the_mean_of_the_probabilities(name: str) -> None:
    ensemble = randomised(ENSEMBLES[name])
    assert isinstance(ensemble, Ensemble)
    text = with_ragged(random_text(ensemble))
    with torch.no_grad():
        each = [whole(member, text).softmax(dim=-1) for member in ensemble.members]
        assert not torch.allclose(each[0], each[1]), "all members are the same"
        close(whole(ensemble, text).exp(), sum(each) / len(each))


@pytest.mark.parametrize("name", ENSEMBLES)
def test_traces_have_the_members_by_number(name: str) -> None:
    ensemble = randomised(ENSEMBLES[name])
    text, seen = with_ragged(random_text(ensemble)), Trace()
    with torch.no_grad():
        close(whole(ensemble, text, seen), whole(ensemble, text))
        alone = Trace()
        whole(ensemble.members[1], text, alone)
    for point in alone:
        close(seen[f"members.1.{point}"], alone[point])


@pytest.mark.parametrize("name", ENSEMBLES)
def test_each_pass_trains_one_member(name: str) -> None:
    """Which one, torch's seed decides; over some passes all have their turn."""
    torch.manual_seed(0)
    ensemble = build(ENSEMBLES[name]).double().train()
    text, turns = with_ragged(random_text(ensemble)), []
    for seed in range(12):
        for again in range(2):
            ensemble.zero_grad(set_to_none=True)
            torch.manual_seed(seed)
            whole(ensemble, text).square().sum().backward()
            learnt = [
                any(p.grad is not None for p in member.parameters()) for member in ensemble.members
            ]
            assert sum(learnt) == 1
            assert not again or turns[-1] == learnt.index(True)
            turns += [] if again else [learnt.index(True)]
    assert set(turns) == set(range(len(ensemble.members)))


@pytest.mark.parametrize("name", ["words", "gru"])
def test_step_by_step_with_beams(name: str) -> None:
    ensemble = randomised(ENSEMBLES[name])
    text = random_text(ensemble, rows=2, length=3)
    with torch.no_grad():
        state = ensemble.start(GenerationInputs(2), capacity=12)
        assert isinstance(state, EnsembleState)
        close(ensemble.step(text.ids, state), whole(ensemble, text))
        state.expand(2)
        parents = torch.tensor([[1, 0], [0, 0]])
        newest = torch.tensor([[3], [4], [5], [6]])
        prefixes = torch.cat([text.ids.repeat_interleave(2, dim=0), newest], dim=1)
        close(ensemble.step(newest, state), whole(ensemble, Text(prefixes))[:, -1:])
        state.follow(parents)
        rows = (torch.tensor([[0], [2]]) + parents).flatten()
        prefixes = torch.cat([prefixes[rows], newest], dim=1)
        close(ensemble.step(newest, state), whole(ensemble, Text(prefixes))[:, -1:])
        state.select(torch.tensor([1]))
        prefixes = torch.cat([prefixes[2:], newest[:2]], dim=1)
        close(ensemble.step(newest[:2], state), whole(ensemble, Text(prefixes))[:, -1:])
    assert state.length == 6


def test_an_ensemble_of_one_is_a_plain_model() -> None:
    assert not isinstance(build(recurrent("encoder", ensemble_size=1)), Ensemble)
