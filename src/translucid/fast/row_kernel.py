"""Store the most probable token of each row, by one GPU kernel that runs one program per row.

The plain counterpart is the greedy part of `generate.row_draw`. This module needs Triton.
"""

import triton
import triton.language as tl
from torch import Tensor

from translucid.fast.kernels import top_and_normaliser


@triton.jit
def _store_best(
    values, places, parts, scores, newest, taken, written, stride, rows_kept, eos,
    CANDIDATES: tl.constexpr, PARTS: tl.constexpr, MOST: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, MOST)
    value = tl.load(values + row * CANDIDATES + c, c < CANDIDATES, -float("inf"))
    token = tl.load(places + row * CANDIDATES + tl.argmax(value, axis=0))
    token = tl.where(tl.max(value, axis=0) == -float("inf"), eos, token)
    logs = tl.load(parts + row * PARTS + c, c < PARTS, -float("inf"))
    high = tl.max(logs, axis=0)
    normaliser = high + tl.log(tl.sum(tl.exp(logs - high), axis=0))
    score = tl.load(scores + row * stride + token).to(tl.float32)
    tl.store(newest + row, token)
    tl.store(written + row, token.to(tl.float64))
    tl.store(written + rows_kept + row, (score - normaliser).to(tl.float64))
    tl.store(taken + row, tl.load(taken + row) + 1)


def store_best(
    logits: Tensor,
    scores: Tensor,
    allowed: Tensor,
    early: Tensor,
    newest: Tensor,
    taken: Tensor,
    written: Tensor,
    *,
    eos: int,
) -> None:
    """Choose the token of each row with the largest `allowed` value, or `eos` if all are -inf.

    logits, scores and allowed: (rows, vocab); those of the model, with one end token, and without
    tokens that are never drawn; equal tensors if nothing changes. early: where `eos` is not chosen.
    newest and taken, (kept rows, 1), receive the token and are incremented; written, (2, kept
    rows), receives the token and its log-probability."""
    values, places, parts = top_and_normaliser(allowed, 1, eos, early)
    if allowed is not logits:  # excluded tokens count in the sum
        parts = logits.float().logsumexp(dim=-1, keepdim=True)
    width = max(values.shape[1], parts.shape[1])
    _store_best[(len(logits),)](
        values, places, parts, scores, newest, taken, written, scores.stride(0), written.shape[1],
        eos, CANDIDATES=values.shape[1], PARTS=parts.shape[1],
        MOST=triton.next_power_of_2(width), num_warps=1,
    )  # fmt: skip
