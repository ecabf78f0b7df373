"""Select the next beams after a model's step, by one GPU kernel that runs one program per source.

The plain counterpart consists of `choose` and `settled` of `generate.beam` and `follow` of the
state: about fifty small kernels, which take longer to launch than to run. This module needs Triton.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language.extra.cuda import gdc_wait

from translucid.fast.fixed_state import FixedTimeline
from translucid.fast.kernels import overlapped_if_few


@triton.jit
def _round(
    best, places, normaliser, scores, lengths, finished, done, least, most, number, early, newest,
    tokens, parents, token_log_probs, seen, counts, cursor,
    sources, steps, slots, eos, pad, alpha,
    BEAMS: tl.constexpr, WIDTH: tl.constexpr, PARTS: tl.constexpr, PLACES: tl.constexpr,
    CANDIDATES: tl.constexpr, BEST: tl.constexpr, BLOCK: tl.constexpr, OVERLAPS: tl.constexpr,
):  # fmt: skip
    if OVERLAPS:
        gdc_wait()
    source = tl.program_id(0)
    nothing = -float("inf")
    # All continuations of all beams.
    c = tl.arange(0, CANDIDATES)
    inside = c < BEAMS * WIDTH
    row = source * BEAMS + c // WIDTH
    stopped = tl.load(done + source) != 0
    frozen = (tl.load(finished + row, inside, 1) != 0) | stopped
    if PARTS == 1:
        whole = tl.load(normaliser + row, inside, 0.0)
    else:
        whole = tl.zeros([CANDIDATES], tl.float32)
        part = tl.arange(0, 64)  # as many parts as `top_and_normaliser` makes
        for beam in range(BEAMS):
            at = (source * BEAMS + beam) * PARTS + part
            logs = tl.load(normaliser + at, part < PARTS, nothing)
            high = tl.max(logs, axis=0)
            log_sum = high + tl.log(tl.sum(tl.exp(logs - high), axis=0))
            whole = tl.where(c // WIDTH == beam, log_sum, whole)
    log_prob = tl.load(best + row * WIDTH + c % WIDTH, inside, nothing) - whole
    token = tl.load(places + row * WIDTH + c % WIDTH, inside, 0)
    total = tl.where(
        inside & (frozen == 0), tl.load(scores + row, inside, nothing) + log_prob, nothing
    )

    # Finished beams keep their places; the best candidates get the other places.
    j = tl.arange(0, PLACES)
    here = j < BEAMS
    own = source * BEAMS + j
    ended = tl.load(finished + own, here, 1) != 0
    live = here & (ended == 0) & (stopped == 0)
    turn = tl.cumsum(live.to(tl.int32), axis=0) - 1
    score = tl.load(scores + own, here, nothing)
    parent, chosen, chosen_log_prob = (
        j,
        tl.zeros([PLACES], tl.int64) + pad,
        tl.zeros([PLACES], tl.float32),
    )
    for rank in tl.static_range(BEAMS):
        value, at = tl.max(total, axis=0), tl.argmax(total, axis=0)
        mine = live & (turn == rank)
        score = tl.where(mine, value, score)
        parent = tl.where(mine, at // WIDTH, parent)
        chosen = tl.where(mine, tl.sum(tl.where(c == at, token, 0), axis=0), chosen)
        chosen_log_prob = tl.where(
            mine, tl.sum(tl.where(c == at, log_prob, 0.0), axis=0), chosen_log_prob
        )
        total = tl.where(c == at, nothing, total)

    length = tl.load(lengths + source * BEAMS + parent, here, 1) + live
    count = tl.load(counts + source * BEAMS + parent, here, 0)
    ended = ended | (live & (chosen == eos) & (score > nothing))
    now = tl.load(number + source)
    at = (tl.minimum(now, steps - 1) * sources + source) * BEAMS + j
    tl.debug_barrier()
    tl.store(tokens + at, chosen, here)
    tl.store(parents + at, parent.to(tl.int64), here)
    tl.store(token_log_probs + at, chosen_log_prob, here)
    tl.store(scores + own, score, here)
    tl.store(lengths + own, length, here)
    tl.store(counts + own, count, here)
    tl.store(finished + own, ended.to(tl.uint8), here)
    tl.store(newest + own, chosen, here)

    # Whether an unfinished beam can still become one of the best: see `settled`.
    limit = tl.load(most + source)
    rank_by = score / tl.exp(alpha * tl.log(tl.maximum(length, 1).to(tl.float32)))
    rank_by = tl.where(here & ended, rank_by, nothing)
    bar = nothing
    for _ in tl.static_range(BEST):
        bar = tl.max(rank_by, axis=0)
        rank_by = tl.where(j == tl.argmax(rank_by, axis=0), nothing, rank_by)
    hope = tl.max(tl.where(here & (ended == 0), score, nothing), axis=0)
    hope = hope / tl.exp(alpha * tl.log(tl.maximum(limit, 1).to(tl.float32)))
    stopped = stopped | (bar >= hope) | (now + 1 >= limit)
    tl.store(done + source, stopped.to(tl.uint8))
    tl.store(number + source, now + 1)
    tl.store(early + own, (j >= 0) & (now + 1 < tl.load(least + source)), here)

    # Each beam now sees the slots of its parent.
    if BEAMS > 1:
        for start in range(0, tl.load(cursor), BLOCK):
            n = start + tl.arange(0, BLOCK)
            both = here[:, None] & (n < slots)[None, :]
            base = seen + (source * BEAMS).to(tl.int64) * slots
            tile = tl.load(base + parent[:, None] * slots + n[None, :], both, 0)
            tl.debug_barrier()
            tl.store(base + j[:, None] * slots + n[None, :], tile, both)


def select_and_follow(
    best: tuple[Tensor, Tensor, Tensor],
    running: tuple[Tensor, ...],
    written: tuple[Tensor, Tensor, Tensor],
    newest: Tensor,
    timeline: FixedTimeline,
    *,
    eos: int,
    pad: int,
    wanted: int,
    alpha: float,
) -> None:
    """Select the best candidates, store them, update `done`, and reorder the visible slots.

    best: for each beam, the candidates' logits and tokens, both (rows, width), and the parts of the
    normaliser (rows, parts).
    running: scores, lengths and finished, each (sources, beams); done, least and most, each
    (sources,); the number of the round, for each source, which is incremented; early, (rows,),
    which is updated for the next round.
    written: tokens, parents and log-probabilities, each (steps, sources, beams).
    """
    scores, lengths, finished, done, least, most, number, early = running
    steps, sources, beams = written[0].shape
    width = best[0].shape[1]
    _round[(sources,)](
        *best, scores, lengths, finished.view(torch.uint8), done.view(torch.uint8), least, most,
        number, early.view(torch.uint8), newest, *written, timeline.seen.view(torch.uint8),
        timeline.counts, timeline.cursor,
        sources, steps, timeline.slots, eos, pad, alpha,
        BEAMS=beams, WIDTH=width, PARTS=best[2].shape[1], PLACES=triton.next_power_of_2(beams),
        CANDIDATES=triton.next_power_of_2(beams * width), BEST=wanted, BLOCK=128, num_warps=1,
        **overlapped_if_few(newest),
    )  # fmt: skip
