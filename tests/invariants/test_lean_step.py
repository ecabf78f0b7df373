"""A lean step = a step, for every model it fits."""

from types import SimpleNamespace

import pytest
import torch
from tests.invariants.cases import CONFIGS, begin, close, every, model_of, random_ids, random_text

from translucid.fast import decode_step, plain_kernels
from translucid.fast.decode_step import DecodeStep
from translucid.models import ModelConfig
from translucid.models.transformer import TransformerConfig

BEAMS = 3
RAGGED = torch.tensor([[True] * 3, [False, True, True]])


def fits(config: ModelConfig) -> bool:
    return (
        isinstance(config, TransformerConfig)
        and config.shape != "encoder"
        and config.norm in ("layer", "rms")
        and config.window is None
        and (config.placement == "post" or config.has_final_norm)
    )


def test_what_fits() -> None:
    """So that what the next test shows is not shown of nothing."""
    writers = {name: config for name, config in CONFIGS.items() if config.shape != "encoder"}
    fitting = [name for name, config in writers.items() if fits(config)]
    assert [name for name in writers if DecodeStep.fits(model_of(name))] == fitting
    assert len(fitting) > 12


@pytest.mark.invariant("lean step = step")
@pytest.mark.usefixtures("no_grad")
@every(where=fits, beams=(1, BEAMS), ragged=(False, True), few=(False, True))
def test_lean_step(
    name: str, beams: int, ragged: bool, few: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """few: in the order of a GPU's step for few rows, whose kernels `plain_kernels` also has."""
    if few:
        kernels = SimpleNamespace(**vars(plain_kernels) | {"FEW": 2 * beams})
        monkeypatch.setattr(decode_step, "_kernels", lambda *_: kernels)
    model = model_of(name)
    lean, dice = DecodeStep(model), torch.Generator().manual_seed(4)
    text = random_text(model, rows=2, length=3)
    plain, quick = begin(model, text), begin(model, text)
    for state in (plain, quick):
        model.step(text.ids, state, RAGGED if ragged else None)
        state.expand(beams)
    for _ in range(4):
        newest = random_ids(model, 2 * beams, 1, dice)
        close(lean.step(newest, quick), model.step(newest, plain))
        parents = torch.randint(beams, (2, beams), generator=dice)
        for state in (plain, quick):
            state.follow(parents)
    assert quick.length == plain.length
    close(lean.step(newest, quick), model.step(newest, plain))


@pytest.mark.invariant("lean step = step")
@pytest.mark.usefixtures("no_grad")
@every("encoder-decoder", where=fits)
def test_sources_leave(name: str) -> None:
    """Sources are padded, each in its own way: who stays must keep its own mask."""
    model = model_of(name)
    lean, dice = DecodeStep(model), torch.Generator().manual_seed(4)
    text = random_text(model, rows=3, length=1)
    plain, quick = begin(model, text), begin(model, text)
    for stay in ([2, 1, 0], [2, 0], [1]):
        newest = random_ids(model, plain.timeline.seen.shape[0], 1, dice)
        close(lean.step(newest, quick), model.step(newest, plain))
        for state in (plain, quick):
            state.select(torch.tensor(stay))
    newest = random_ids(model, 1, 1, dice)
    close(lean.step(newest, quick), model.step(newest, plain))
