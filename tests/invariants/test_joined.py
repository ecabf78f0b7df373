"""A joined state = separate states; a compacted state = one that keeps all its slots."""

from dataclasses import replace

import pytest
import torch
from tests.invariants.cases import (
    CONFIGS,
    Text,
    begin,
    close,
    every,
    model_of,
    random_ids,
    random_text,
    transformer,
)  # fmt: skip
from torch import Tensor

from translucid.core.errors import InputError
from translucid.fast.decode_step import DecodeStep
from translucid.models import Network, build
from translucid.models.ensemble import GeneratingEnsemble
from translucid.parts.cache import DecoderState

pytestmark = pytest.mark.usefixtures("no_grad")
PADDED = torch.tensor([[True] * 5, [False, False, True, True, True]])


def read(
    model: Network, text: Text, mask: Tensor | None, beams: int, capacity: int
) -> DecoderState:
    """A state that has read these prompts."""
    state = begin(model, text, capacity)
    model.step(text.ids, state, mask)
    state.expand(beams)
    return state


def texts(model: Network) -> tuple[Text, Text]:
    """Two and three texts; the sources of the first two are longer than those of the others."""
    first, second = random_text(model, 2, length=5), random_text(model, 3, length=2, seed=5)
    if second.source is not None:
        second = replace(second, source=second.source[:, :4], source_mask=None)
    return first, second


@pytest.mark.invariant("joined = separate")
@every("decoder", "encoder-decoder", beams=(1, 3), fast=(True, False))
def test_joined(name: str, beams: int, fast: bool) -> None:
    """Sources join after some steps of the others, in either order; then both go on, change beams,
    and leave."""
    model, dice = model_of(name), torch.Generator().manual_seed(4)
    step = DecodeStep(model).step if fast and DecodeStep.fits(model) else model.step
    first, second = texts(model)
    for swapped in (False, True):
        one = read(model, first, PADDED, beams, capacity=12)
        two = read(model, second, None, beams, capacity=9)
        for _ in range(2):
            model.step(random_ids(model, 2 * beams, 1, dice), one)
        sizes = [2, 3]
        if swapped:
            one, two, sizes = two, one, [3, 2]
        joined = one.copy()
        joined.join(two.copy())
        for _ in range(4):
            newest = [random_ids(model, size * beams, 1, dice) for size in sizes]
            parents = [torch.randint(beams, (size, beams), generator=dice) for size in sizes]
            together = step(torch.cat(newest), joined)
            apart = [model.step(*both) for both in zip(newest, (one, two), strict=True)]
            close(together, torch.cat(apart))
            joined.follow(torch.cat(parents))
            for state, own in zip((one, two), parents, strict=True):
                state.follow(own)
        joined.select(torch.tensor([4, 0]))
        last = random_ids(model, 5 * beams, 1, dice).view(5, beams)
        separate = [
            model.step(rows.reshape(-1, 1), state).view(-1, beams, model.vocab)
            for rows, state in zip(last.split(sizes), (one, two), strict=True)
        ]
        close(
            step(last[[4, 0]].view(-1, 1), joined).view(2, beams, -1), torch.cat(separate)[[4, 0]]
        )


@pytest.mark.invariant("compacted = not compacted")
@every("decoder", "encoder-decoder", beams=(1, 3), fast=(True, False))
def test_compacted(name: str, beams: int, fast: bool) -> None:
    """Padding before a prompt, the slots of texts that left, and those of dead beams are
    dropped."""
    model, dice = model_of(name), torch.Generator().manual_seed(4)
    step = DecodeStep(model).step if fast and DecodeStep.fits(model) else model.step
    first, second = texts(model)
    plain = read(model, first, PADDED, beams, capacity=14)
    for _ in range(6):
        model.step(random_ids(model, 2 * beams, 1, dice), plain)
        plain.follow(torch.zeros(2, beams, dtype=torch.long))  # only one prefix survives
    plain.join(read(model, second, None, beams, capacity=7))
    plain.select(torch.tensor([2, 4] if beams == 1 else [2, 1, 4]))
    compact = plain.copy()
    compact.compact()
    if compact.timeline is not None:
        assert compact.timeline.taken == (2 if beams == 1 else 9)  # the tokens, and no more
        assert plain.timeline.taken == 5 + 6 * beams
    rows = 2 if beams == 1 else 9
    for _ in range(4):
        newest = random_ids(model, rows, 1, dice)
        close(step(newest, compact), model.step(newest, plain))
        parents = torch.randint(beams, (rows // beams, beams), generator=dice)
        plain.follow(parents)
        compact.follow(parents)


@pytest.mark.invariant("compacted = not compacted")
def test_a_batch_that_never_empties_does_not_grow() -> None:
    """Texts of six tokens come and go for 200 steps, two at a time."""
    model = build(transformer("decoder")).double().eval()
    state, dice, most = begin(model, Text(torch.zeros(2, 1)), 6), torch.Generator(), 0
    for turn in range(200):
        model.step(random_ids(model, 2, 1, dice), state)
        if turn % 3 == 2:
            state.select(torch.tensor([1]))
            more = begin(model, Text(torch.zeros(1, 1)), 6)
            model.step(random_ids(model, 1, 3, dice), more)
            state.join(more)
            state.compact()
        most = max(most, state.timeline.seen.shape[2])
    assert most <= 2 * 6 + 6


@pytest.mark.invariant("joined = separate")
def test_members_of_an_ensemble_join() -> None:
    names = [name for name, config in CONFIGS.items() if config.shape == "decoder"]
    model = GeneratingEnsemble([model_of(names[0]), model_of(names[-1])])
    first, second = texts(model)
    one, two, joined = (begin(model, text) for text in (first, second, first))
    rest = begin(model, second)
    for text, states in ((first, (one, joined)), (second, (two, rest))):
        for state in states:
            model.step(text.ids, state)
    joined.join(rest)
    joined.compact()
    newest = random_ids(model, 5, 1, torch.Generator())
    apart = [model.step(newest[:2], one), model.step(newest[2:], two)]
    close(model.step(newest, joined), torch.cat(apart))


def test_only_equal_numbers_of_beams_join() -> None:
    model = model_of(next(iter(CONFIGS)))
    one, two = (begin(model, random_text(model, 1, 1)) for _ in range(2))
    two.expand(2)
    with pytest.raises(InputError, match=r"1 beams.*2"):
        one.join(two)
