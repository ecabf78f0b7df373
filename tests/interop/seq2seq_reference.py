"""Compare a tiny random encoder-decoder of transformers, saved to a folder, with what Translucid
opens from it.
"""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from tests.interop.reference import FLOAT32, far, prompts
from torch import Tensor

from translucid.core.trace import Trace
from translucid.generate.beam_search import GenerationConfig
from translucid.generate.decode import find
from translucid.interop.importing import OpenedNetwork, open_network
from translucid.models.autoregressive import GenerationInputs
from translucid.parts.embedding import Tokens


def check_encoder_decoder(theirs: Any, folder: Path, bound: float = FLOAT32) -> OpenedNetwork:
    """Check that logits, hidden states of both stacks and cached steps equal the reference, with
    padded sources."""
    opened = open_network(folder)
    ours: Any = opened.network
    ours.to(next(theirs.parameters()).dtype)
    source, mask = prompts(ours.config.vocab, left=False)
    target, _ = prompts(ours.vocab, length=9)
    target[target == 0] = 5  # no padding in the targets
    trace = Trace("*")
    with torch.inference_mode():
        reference = theirs(
            input_ids=source, attention_mask=mask.long(), decoder_input_ids=target,
            output_hidden_states=True, use_cache=False,
        )  # fmt: skip
        logits = ours(source, target, mask, trace=trace)
        plain = ours(source, target, mask)
        encoded = ours.encoder(Tokens(source, mask, {})).outputs
        in_steps = _in_steps(ours, source, mask, target)
    largest = float(reference.logits.abs().max())
    assert largest > 0.5  # otherwise a small difference would prove nothing
    states = {
        "encoder": (reference.encoder_hidden_states, mask),
        "decoder": (reference.decoder_hidden_states, torch.ones_like(target, dtype=torch.bool)),
    }
    for side, (hidden, seen) in states.items():
        for layer in range(len(hidden) - 1):
            state = trace[f"{side}.layers.{layer}.self_attention_residual.skip"]
            scale = float(hidden[layer][seen].abs().max())
            distance = far(state[seen], hidden[layer][seen], scale)
            assert distance < bound, f"{side}, what layer {layer} reads"
    last = reference.encoder_last_hidden_state[mask]
    assert far(encoded[mask], last, float(last.abs().max())) < bound
    for ways in (logits, plain, in_steps):
        assert far(ways, reference.logits, largest) < bound
    return opened


def _in_steps(ours: Any, source: Tensor, mask: Tensor, target: Tensor, first: int = 4) -> Tensor:
    state = ours.start(GenerationInputs.of(source, mask), target.shape[1])
    parts = [ours.step(target[:, :first], state)]
    for place in range(first, target.shape[1]):
        parts.append(ours.step(target[:, place : place + 1], state))
    return torch.cat(parts, dim=1)


def generated(theirs: Any, source: Tensor, mask: Tensor, **options: Any) -> list[list[int]]:
    """The texts that the reference generates: start tokens, tokens, and the end token if there is
    one."""
    with warnings.catch_warnings(), torch.inference_mode():
        warnings.simplefilter("ignore")
        rows = theirs.generate(
            input_ids=source, attention_mask=mask.long(), do_sample=False,
            forced_eos_token_id=None, **options,
        )  # fmt: skip
    return rows.tolist()


SEARCHES = ((1, 1, 0, 12, 1.0), (4, 4, 7, 8, 1.0))  # greedy; beams, all of one length


def check_generation(
    theirs: Any,
    ours: Any,
    *,
    start: Sequence[int],
    eos: int,
    pad: int,
    searches: Sequence[tuple[int, int, int, int, float]] = SEARCHES,
) -> list[list[list[int]]]:
    """Check that greedy and beam search generate the same texts as `generate`; return them for each
    search. searches: beams, number of best texts to compare, minimum and maximum length in tokens,
    length penalty.

    The two searches differ in one respect: a text that has ended keeps its place in Translucid's
    beam, but leaves it to another prefix in that of transformers. So they are equal if no text ends
    early, or if the beams hold every prefix.
    """
    source, mask = prompts(ours.config.vocab, left=False)
    source[~mask] = pad
    options: dict[str, Any] = {"suppress_tokens": [pad]}
    if len(start) > 1:
        options["forced_bos_token_id"] = start[1]
    texts = []
    forced = len(start) - 1  # transformers counts forced tokens as generated
    for beams, best, least, most, alpha in searches:
        config = GenerationConfig(
            beam_size=beams, n_best=best, alpha=alpha, max_length=most, min_length=least
        )
        results = find(
            ours, [list(start)] * len(source), GenerationInputs.of(source, mask), config,
            eos=eos, pad=pad, never=[pad],
        )  # fmt: skip
        written = [[*start, *one.tokens, *[eos] * one.finished] for all in results for one in all]
        if least:
            options["min_new_tokens"] = least + forced
        reference = generated(
            theirs, source, mask, num_beams=beams, num_return_sequences=best,
            length_penalty=alpha, early_stopping="never" if beams > 1 else False,
            max_new_tokens=most + forced, **options,
        )  # fmt: skip
        longest = max(map(len, [*written, *reference]))
        ours_padded, theirs_padded = (
            [row + [pad] * (longest - len(row)) for row in rows] for rows in (written, reference)
        )
        assert ours_padded == theirs_padded, f"{beams} beams, {least} to {most} tokens"
        texts.append(written)
    return texts
