"""Select the next beams after a model's step, by one GPU kernel that runs one program per source.

The plain counterpart consists of `choose` and `settled` of `generate.beam` and `follow` of the
state: about fifty small kernels, which take longer to launch than to run. This module needs Triton.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from translucid.fast.fixed_state import FixedTimeline
from translucid.fast.overlap import overlapped

PARTS = 64  # of a row, at most
TOP_PROGRAMS = 2048  # of `_top`, if the rows have enough parts
MOST_CANDIDATES = 1024  # of a source, from all parts of all beams
TOP_BLOCK, TOP_WARPS = 1024, 1  # one warp, so that no threads wait for each other


@triton.jit
def _top(
    logits, never, values, places, normaliser, stride, vocab, readable, end, extent,
    K: tl.constexpr, KEPT: tl.constexpr, BLOCK: tl.constexpr, OVERLAPS: tl.constexpr,
):  # fmt: skip
    """The best of one part of the vocabulary. Each lane of a block keeps the best value that it has
    seen, so that one pass finds the best of all, unless two of these were in the same lane. Then a
    second pass inserts one value after another."""
    if OVERLAPS:
        gdc_launch_dependents()
        gdc_wait()
    nothing = -float("inf")
    row = tl.program_id(0).to(tl.int64)
    part = tl.program_id(1)
    at = row * tl.num_programs(1) + part
    without_end = tl.load(never + row) != 0
    lane = tl.arange(0, BLOCK)
    first, last = part * extent, tl.minimum((part + 1) * extent, vocab)
    source = logits + row * stride + lane
    following = tl.load(source + first, first + lane < readable, nothing)
    high = nothing
    total = tl.zeros([BLOCK], tl.float32)
    top = tl.full([BLOCK], nothing, tl.float32)
    second = top
    top_at = tl.zeros([BLOCK], tl.int32)
    for start in range(first, last, BLOCK):
        n = start + lane
        x = tl.where(n < vocab, following.to(tl.float32), nothing)
        following = tl.load(source + start + BLOCK, n < readable - BLOCK, nothing)
        higher = tl.maximum(high, tl.max(x, axis=0))
        total = total * tl.exp(high - higher) + tl.exp(x - higher)
        high = higher
        x = tl.where((n == end) & without_end, nothing, x)
        second = tl.maximum(second, tl.minimum(top, x))
        top_at = tl.where(x > top, n, top_at)
        top = tl.maximum(top, x)
    kept_at = tl.arange(0, KEPT)
    best = tl.where(kept_at < K, nothing, -nothing)
    where = tl.zeros([KEPT], tl.int32)
    value = nothing
    for rank in tl.static_range(K):
        value, place = tl.max(top, axis=0), tl.argmax(top, axis=0)
        best = tl.where(kept_at == rank, value, best)
        where = tl.where(kept_at == rank, tl.sum(tl.where(lane == place, top_at, 0)), where)
        top = tl.where(lane == place, nothing, top)
    if tl.max(second, axis=0) > value:
        best = tl.where(kept_at < K, nothing, -nothing)
        for start in range(first, last, BLOCK):
            n = start + lane
            x = tl.load(source + start, n < vocab, nothing).to(tl.float32)
            x = tl.where((n == end) & without_end, nothing, x)
            value = tl.max(x, axis=0)
            while value > tl.min(best, axis=0):
                place = tl.argmax(x, axis=0)
                taken = kept_at == tl.argmin(best, axis=0)
                best = tl.where(taken, value, best)
                where = tl.where(taken, start + place, where)
                x = tl.where(lane == place, nothing, x)
                value = tl.max(x, axis=0)
    tl.store(values + at * K + kept_at, best, kept_at < K)
    tl.store(places + at * K + kept_at, where.to(tl.int64), kept_at < K)
    tl.store(normaliser + at, high + tl.log(tl.sum(total, axis=0)))


def top_and_normaliser(
    logits: Tensor, width: int, end: int, never: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """For each row, candidates in any order, among them the largest `width` logits (rows,
    candidates), their indices (rows, candidates), and parts of log Σ exp of all logits (rows,
    parts), whose log Σ exp it is. Where `never` (rows,) is True, the token `end` is not chosen, but
    is included in the sum.

    The plain counterpart returns `width` candidates and one part. Here, several programs may share
    a row, each with its own candidates and its own part."""
    rows, vocab = logits.shape
    parts = max(1, min(PARTS, TOP_PROGRAMS // rows, MOST_CANDIDATES // width**2))
    extent = triton.cdiv(triton.cdiv(vocab, parts), TOP_BLOCK) * TOP_BLOCK
    parts = triton.cdiv(vocab, extent)
    values = torch.empty(rows, parts * width, device=logits.device)
    places = torch.empty(rows, parts * width, dtype=torch.long, device=logits.device)
    normaliser = torch.empty(rows, parts, device=logits.device)
    # With a multiple of 16, each load reads several logits; the rows may have unused columns.
    readable = min(logits.stride(0), triton.cdiv(vocab, 16) * 16)
    _top[(rows, parts)](
        logits, never.view(torch.uint8), values, places, normaliser, logits.stride(0), vocab,
        readable, end, extent, K=width, KEPT=triton.next_power_of_2(width), BLOCK=TOP_BLOCK,
        num_warps=TOP_WARPS, **overlapped(logits.device),
    )  # fmt: skip
    return values, places, normaliser


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
        **overlapped(newest.device),
    )  # fmt: skip
