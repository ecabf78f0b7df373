"""Compare a tiny random model of transformers, saved to a folder, with what Translucid opens from
it.
"""

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from translucid.core.trace import Trace
from translucid.interop.importing import OpenedNetwork, open_network
from translucid.models.autoregressive import GenerationInputs

FLOAT32 = 1e-5  # of the largest logit


def transformers() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip(
            "transformers", reason="the reference library transformers is not installed"
        )


def save(model: Any, folder: Path, **options: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.save_pretrained(folder, **options)


def randomised(model: Any, seed: int = 0) -> Any:
    """Give all weights different values, so that biases and norms are not zeros and ones."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.copy_(noise * (0.3 if parameter.dim() > 1 else 0.5))
            if parameter.dim() == 1:
                parameter.add_(0.8)
    return model.eval()


def prompts(
    vocab: int, rows: int = 3, length: int = 11, *, left: bool = True
) -> tuple[Tensor, Tensor]:
    """Ids and mask of rows with different lengths, padded on one side."""
    ids = torch.randint(3, vocab, (rows, length), generator=torch.Generator().manual_seed(1))
    mask = torch.ones_like(ids, dtype=torch.bool)
    for row in range(1, rows):
        cut = slice(None, 2 * row) if left else slice(length - 2 * row, None)
        mask[row, cut] = False
    return ids.masked_fill(~mask, 0), mask


def far(ours: Tensor, theirs: Tensor, largest: float) -> float:
    return float((ours - theirs).abs().max()) / largest


def check_decoder(
    theirs: Any, folder: Path, bound: float = FLOAT32, length: int = 11
) -> OpenedNetwork:
    """Check that the logits, hidden states and cached steps of a language model equal the
    reference."""
    opened = open_network(folder)
    ours: Any = opened.network
    dtype = next(theirs.parameters()).dtype
    ours.to(dtype)
    ids, mask = prompts(opened.plan.config.vocab, length=length)  # type: ignore[union-attr]
    trace = Trace("*")
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    with torch.inference_mode():
        reference = theirs(
            input_ids=ids, attention_mask=mask.long(), position_ids=positions,
            output_hidden_states=True, use_cache=False,
        )  # fmt: skip
        logits = ours(ids, mask, trace=trace)
        plain = ours(ids, mask)
    largest = float(reference.logits[mask].abs().max())
    assert largest > 0.5  # otherwise a small difference would prove nothing
    assert far(plain[mask], reference.logits[mask], largest) < bound
    assert far(logits[mask], reference.logits[mask], largest) < bound
    hidden = reference.hidden_states
    for layer in range(len(hidden) - 2):  # the last one is after the final norm
        state = trace[f"decoder.layers.{layer}.feedforward_residual.sum"]
        scale = float(hidden[layer + 1][mask].abs().max())
        assert far(state[mask], hidden[layer + 1][mask], scale) < bound, f"layer {layer}"
    assert far(_in_steps(ours, ids, mask)[mask], reference.logits[mask], largest) < bound
    return opened


def _in_steps(ours: Any, ids: Tensor, mask: Tensor, first: int = 6) -> Tensor:
    """The logits of a text: of its first tokens in one pass, of the others token by token."""
    with torch.inference_mode():
        state = ours.start(GenerationInputs(rows=len(ids)), ids.shape[1])
        parts = [ours.step(ids[:, :first], state, mask[:, :first])]
        for place in range(first, ids.shape[1]):
            column = slice(place, place + 1)
            parts.append(ours.step(ids[:, column], state, mask[:, column]))
    return torch.cat(parts, dim=1)


def greedy(model: nn.Module, ids: list[int], count: int) -> list[int]:
    """The likeliest continuation, for which the whole text is processed again at each token."""
    with torch.inference_mode():
        for _ in range(count):
            output = model(torch.tensor([ids]))
            logits = output if isinstance(output, Tensor) else output.logits
            ids = [*ids, int(logits[0, -1].argmax())]
    return ids
