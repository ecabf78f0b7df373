"""Writing text with a model: translations by beam search, continuations by sampling."""

import torch
from torch import Tensor

from translucid.decoding.beam import beam_search
from translucid.models.base import DecoderModel, EncoderDecoderModel


@torch.no_grad()
def translate_batch(
    model: EncoderDecoderModel,
    source: Tensor,
    source_real: Tensor | None,
    *,
    beams: int,
    bos: int,
    eos: int,
    pad: int,
    alpha: float = 1.0,
    longest: int | None = None,
) -> list[list[int]]:
    """The best translation of each source (sources, length), as ids without start and end.

    Scores are divided by length ** alpha. A translation has at most `longest` tokens; by default
    twice the source and 10 more, or what the model's learned positions hold.
    """
    steps = longest or 2 * source.shape[1] + 10
    if model.config.longest is not None:
        steps = min(steps, max(1, model.config.longest - 1))  # the start token has a position too
    state = model.start(source, source_real, capacity=steps + 1)
    state.expand(beams)
    prefix = source.new_full((source.shape[0], 1), bos)
    found = beam_search(
        model, state, prefix, beams=beams, steps=steps, eos=eos, pad=pad, alpha=alpha
    )
    best = found.ranking(alpha).argmax(dim=1)
    tokens = found.tokens[torch.arange(len(best), device=best.device), best, 1:]
    return [_until(row, eos) for row in tokens.tolist()]


@torch.no_grad()
def sample(
    model: DecoderModel,
    prompt: Tensor,
    *,
    tokens: int,
    eos: int | None = None,
    temperature: float = 1.0,
    top_k: int | None = None,
    seed: int = 0,
) -> list[int]:
    """Continue one prompt (1, length); temperature 0 takes the likeliest word each time.

    The text ends after `tokens`, or where the model's learned positions do.
    """
    if model.config.longest is not None:
        tokens = min(tokens, max(1, model.config.longest - prompt.shape[1]))
    generator = torch.Generator(device=prompt.device).manual_seed(seed)
    state = model.start(1, capacity=prompt.shape[1] + tokens)
    newest, written = prompt, []
    for _ in range(tokens):
        logits = model.step(newest, state)[0, -1].float()  # (vocab,)
        if top_k is not None:
            kth = logits.topk(min(top_k, logits.shape[0])).values[-1]
            logits = logits.masked_fill(logits < kth, -torch.inf)
        if temperature == 0:
            choice = logits.argmax()
        else:
            p = (logits / temperature).softmax(dim=-1)
            choice = torch.multinomial(p, 1, generator=generator)[0]
        if eos is not None and int(choice) == eos:
            break
        written.append(int(choice))
        newest = choice.view(1, 1)
    return written


def _until(ids: list[int], eos: int) -> list[int]:
    return ids[: ids.index(eos)] if eos in ids else ids
