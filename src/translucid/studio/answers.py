"""Answers about a run other than its tensors: the likeliest tokens at a step, the tree of a search,
sampled texts with their distributions, and the comparison of two runs."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from translucid.core.errors import InputError
from translucid.core.trace import Trace
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.generate import constraints
from translucid.generate.decode import begin
from translucid.generate.decoded import Candidate
from translucid.generate.sampling import SamplingConfig, shape
from translucid.generate.word_constraints import WordConstraints
from translucid.models.autoregressive import GenerationInputs
from translucid.models.base import AutoregressiveNetwork, DecoderModel
from translucid.parts.activations import as_log_probs
from translucid.parts.cache import DecoderState, KVCache
from translucid.see.difference import STREAM, TraceDifference, depth, difference
from translucid.see.pictures import Grid
from translucid.studio.attention_tables import kinds_of_attention
from translucid.studio.text_runs import Run
from translucid.tasks.next_tokens import never_generated
from translucid.tasks.words import readable

MANY = 32  # maximum numeric outputs to list; an embedding has hundreds
MAX_TOKENS = 2048  # maximum length of a prefix
MAX_LENGTH = 40  # maximum tokens of a continuation
MOST_LIKELY = 2**14  # maximum tokens in one answer, over all positions


def steps(run: Run, positions: range | None, k: int) -> dict[str, Any]:
    """The likeliest tokens, tags or labels at each position. positions: None for all."""
    at = run.output_point
    if run[at].dim() < 2:
        raise InputError(f"{at} is one number, so there are no likeliest outputs to list")
    logits = _rows(run[at])
    before: list[int | None] = [*run.example.target_ids] or [None] * len(logits)
    some = _chosen(positions, len(logits), k)
    return {
        "at": at, "steps": [{"n": n, **_likeliest(run, logits[n], before[n], k)} for n in some],
    }  # fmt: skip


def steps_along(run: Run, tokens: list[int], positions: range | None, k: int) -> dict[str, Any]:
    """The likeliest tokens along any token sequence, with attention weights, in one pass.

    Step n is the prediction after the first n tokens.
    """
    example, tokenizer = run.example, run.outputs.tokenizer
    if tokenizer is None or example.target is None:
        name = run.opened.model.task.name
        raise InputError(
            f"a model for task {name} does not generate text, so it has no next tokens"
        )
    if len(tokens) > MAX_TOKENS:
        raise InputError(f"tokens: {len(tokens):,} tokens; the limit is {MAX_TOKENS:,}")
    some = _chosen(positions, len(tokens) + 1, k)
    tokenizer.pieces(tokens)  # raises if a token does not exist
    at, kinds = run.output_point, kinds_of_attention(run)
    patterns = kinds.get("cross") or kinds.get("decoder", [])
    along = read_along(run, tokens, [at, *patterns])
    read, first, rows = along.read, along.first, along.points
    answer: dict[str, Any] = {"at": at, "steps": []}
    for n in some:
        answer["steps"].append({"n": n, **_likeliest(run, rows[at][0, n], read[first + n], k)})
    if patterns:
        layers = [rows[name][0].float() for name in patterns]  # ([heads,] queries, keys)
        mean = torch.stack([p.mean(0) if p.dim() == 3 else p for p in layers]).mean(0)
        across = "cross" in kinds
        answer["looks"] = {
            "at": patterns, "side": "src" if across else "tgt",
            "words": list(example.words.source if across else readable(tokenizer, read)),
        }  # fmt: skip
        for step in answer["steps"]:
            seen = None if across else first + step["n"] + 1
            step["weights"] = mean[step["n"], :seen].tolist()
    return answer


def _chosen(positions: range | None, count: int, k: int) -> range:
    some = range(count) if positions is None else positions
    if not 0 <= some.start < some.stop <= count:
        raise InputError(f"positions: must be from 0 to {count - 1}, not {some.start}:{some.stop}")
    if len(some) * k > MOST_LIKELY:
        raise InputError(
            f"k: {k:,} tokens at {len(some):,} positions; the limit is {MOST_LIKELY:,} in all; "
            f"request fewer positions, such as positions={some.start}:{some.start + 1}"
        )
    return some


def _rows(logits: Tensor) -> Tensor:
    """Logits of the text as (positions, classes). If the text has only one answer, there is one
    position."""
    return logits[0] if logits.dim() > 2 else logits[:1]


def _likeliest(run: Run, logits: Tensor, before: int | None, k: int) -> dict[str, Any]:
    logits = logits.float()
    probabilities = logits.softmax(-1)
    best = probabilities.topk(min(max(k, 1), probabilities.shape[-1]))
    ids = best.indices.tolist()
    return {
        "words": [run.outputs.name(i, before) for i in ids], "ids": ids,
        "probabilities": best.values.tolist(), "logits": logits[best.indices].tolist(),
        "log_sum": float(logits.logsumexp(-1)), "rest": float(1 - best.values.sum()),
        "others": probabilities.shape[-1] - len(ids),
    }  # fmt: skip


def decode(
    run: Run,
    beam_size: int,
    n_best: int,
    force: dict[int, str | int],
    max_length: int | None = None,
) -> dict[str, Any]:
    """Run a beam search; returns its tree and the texts found. `max_length` defaults to that of the
    task, or to 40 tokens for a continuation."""
    model, outputs = run.opened.model, run.outputs
    if outputs.tokenizer is None:
        raise InputError(
            f"a model for task {model.task.name} does not generate text, so there is no search"
        )
    if not 1 <= beam_size <= 32 or not 1 <= n_best <= beam_size:
        raise InputError(
            f"beam_size must be between 1 and 32 and n_best at most beam_size, not {beam_size} and "
            f"{n_best}"
        )
    options = _search_options(run)
    if max_length is not None:
        options["max_length"] = max_length
    (decoded,) = model.decode(
        [run.text], beam_size=beam_size, n_best=n_best, tree=True, force=force or None, **options
    )
    if decoded.tree is None:
        raise InputError("the text is empty, so there is nothing to search for")
    tree = decoded.as_dict(outputs.tokenizer)
    nodes = tree["tree"]["nodes"]
    start = run.example.target_ids[0 if run.example.source else -1]
    for node in nodes[1:]:
        before = nodes[node["parent"]]["token"] if node["parent"] else start
        node["label"] = outputs.name(node["token"], before)
    return tree


def _search_options(run: Run) -> dict[str, Any]:
    options: dict[str, Any] = {} if run.example.source else {"max_length": MAX_LENGTH}
    if run.edit:  # parts that are switched off stay off in every step
        options["trace"] = Trace([], edit=run.edit)
    return options


def compare(a: Run, b: Run) -> dict[str, Any]:
    """Compare two runs: their answers and losses, the answer at each step, and for related models
    also the difference at each depth."""
    answer: dict[str, Any] = {
        "a": a.key, "b": b.key, "answers": [a.answer(), b.answer()], "loss": [a.loss(), b.loss()],
        "says": [says(a, a.logits), says(b, b.logits)],
    }  # fmt: skip
    if _same_outputs(a, b):
        answer |= _apart(a, a.logits, b.logits)
    if a.opened.key == b.opened.key and len(a.kept) and len(b.kept):
        answer |= _ripple(difference(a.kept, b.kept))
        if not (a.whole and b.whole):
            answer["first"] = None  # the runs may differ first at a point that was not stored
    elif a.opened.began_from(b.opened) or b.opened.began_from(a.opened):
        answer["depths"] = _depths(difference(a.kept, b.kept))
    return answer


def _depths(apart: TraceDifference) -> list[dict[str, Any]]:
    """The difference at each layer between a model and the one it was fine-tuned from."""
    shown = {name for glob in (*STREAM, "head.pooled", "head.embedding")
             for name in apart.a.names(glob)}  # fmt: skip
    points = (apart.at(name) for name in apart.names if name in shown)
    return [
        {"at": point.name, "depth": depth(point.name), "relative": _finite(point.relative),
         "cosine": _finite(point.cosine)}
        for point in points
    ]  # fmt: skip


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def effect(run: Run, off: list[str], other: Run | None = None) -> dict[str, Any]:
    """How switching parts off changes the outputs. other: the run without these parts, if known."""
    logits = run.logits_without(off) if other is None else other.logits
    loss = run.loss(logits) if other is None else other.loss()
    before, after = (_rows(values).argmax(-1) for values in (run.logits, logits))
    return {
        "off": off, "loss": [run.loss(), loss], "changed": int((before != after).sum()),
        **_apart(run, run.logits, logits),
    }  # fmt: skip


def _apart(run: Run, one: Tensor, two: Tensor) -> dict[str, Any]:
    """How much two outputs differ at each position: the total variation distance, or for numeric
    outputs the mean absolute difference."""
    one, two = _rows(one).float(), _rows(two).float()
    if one.shape != two.shape:
        return {}
    if not run.outputs.probabilities:
        plain = (torch.tensor(run.outputs.plain(values)) for values in (one, two))
        return {"gap": float(torch.sub(*plain).abs().mean())}
    apart = (one.softmax(-1) - two.softmax(-1)).abs().sum(-1) / 2
    return {"variation": apart.tolist()}


def says(run: Run, logits: Tensor) -> list[dict[str, Any]]:
    """The likeliest answer at each position, and its probability."""
    if not run.outputs.probabilities:
        values = run.answer(logits)
        return [{"word": f"{value:.4g}", "probability": None} for value in values[:MANY]]
    best = _rows(logits).float().softmax(-1).max(-1)
    before: list[int | None] = [*run.example.target_ids] or [None] * len(best.values)
    return [
        {"word": run.outputs.name(number, last), "probability": probability}
        for probability, number, last in zip(
            best.values.tolist(), best.indices.tolist(), before, strict=True
        )
    ]


def _same_outputs(a: Run, b: Run) -> bool:
    """Whether each output means the same in both runs."""
    if a.opened.key == b.opened.key:
        return True
    ours, theirs = a.opened.model.task, b.opened.model.task
    meaning = ours.outputs.meaning
    return ours.name == theirs.name and meaning is not None and meaning == theirs.outputs.meaning


def _ripple(apart: TraceDifference) -> dict[str, Any]:
    first = apart.first
    try:
        drawn = apart.picture()
    except InputError:
        return {"first": first.name if first else None, "ripple": []}
    heats = drawn.heats if isinstance(drawn, Grid) else (drawn,)
    return {
        "first": first.name if first else None,
        "ripple": [
            {"side": heat.address, "depths": heat.rows.labels, "words": heat.columns.labels,
             "points": points,
             "values": [[None if v != v else v for v in row] for row in heat.values.tolist()]}
            for heat, points in zip(heats, apart.sides(), strict=True)
        ],
    }  # fmt: skip


SHOWN = 10  # number of tokens to list for a step


def draws(
    run: Run, by: SamplingConfig, repetition_penalty: float, seed: int, samples: int
) -> dict[str, Any]:
    """Sample texts; returns them with every step of the first."""
    model, tokenizer = run.opened.model, run.outputs.tokenizer
    if tokenizer is None:
        raise InputError(
            f"a model for task {model.task.name} does not generate text, so it cannot be sampled"
        )
    options = {"beam_size": samples, "n_best": samples, "repetition_penalty": repetition_penalty}
    options |= _search_options(run)
    (decoded,) = model.decode([run.text], sampling=by, seed=seed, **options)
    first = decoded.texts[0]
    allowed, own = allowed_at(run, tokenizer, first, repetition_penalty)
    return {
        "texts": [_plain(text) for text in decoded.texts],
        "steps": [
            _step(run, tokenizer, first, n, own[n], distribution(allowed[n], by))
            for n in range(len(own))
        ],
    }


def distribution(allowed: Tensor, by: SamplingConfig) -> Tensor:
    """The distribution that a token is sampled from: (vocab,)."""
    if by.temperature == 0:
        return torch.nn.functional.one_hot(allowed.argmax(), len(allowed)).to(allowed)
    return shape(allowed[None], by)[0].softmax(-1)  # as `pick` does


def allowed_at(
    run: Run, tokenizer: Tokenizer, text: Candidate, repetition_penalty: float
) -> tuple[list[Tensor], list[Tensor]]:
    """Log-probabilities at each step of a text, with constraints and without."""
    network = run.opened.model.network
    if _masks_changed(run):
        along = _read_step_by_step(run, text.tokens)
    else:
        along = read_along(run, text.tokens, [run.output_point])
    first = along.first
    config = run.opened.model.generation_config(repetition_penalty=repetition_penalty)
    named = WordConstraints().token_constraints(
        tokenizer, config, first + 1, special=len(tokenizer.start_ids)
    )
    never = never_generated(tokenizer, network)
    extra = [*([constraints.forbid(never)] if never else []), *(one for _, one in named)]
    extra += config.constraints(first + 1)
    ends = tokenizer.special.ends
    allowed, own = [], []
    for n in range(len(text.token_log_probs)):
        logits = along.points[run.output_point][0, n].float()[None]
        row = as_log_probs(logits)
        own.append(row[0])
        if ends:
            row, logits = (constraints.one_end(t, tokenizer.eos_id, ends) for t in (row, logits))
        before = torch.tensor([along.read[: first + n + 1]], device=row.device)
        allowed.append(constraints.apply(extra, row, before, logits)[0])
    return allowed, own


def _step(
    run: Run, tokenizer: Tokenizer, text: Candidate, n: int, own: Tensor, drawn_from: Tensor
) -> dict[str, Any]:
    taken = text.tokens[n] if n < len(text.tokens) else tokenizer.eos_id
    last = text.tokens[n - 1] if n else run.example.target_ids[0 if run.example.source else -1]
    ids = own.topk(min(SHOWN, len(own))).indices.tolist()
    ids = ids if taken in ids else [*ids[:-1], taken]
    return {
        "taken": taken, "word": run.outputs.name(taken, last), "ids": ids,
        "words": [run.outputs.name(one, last) for one in ids],
        "before": own.exp()[ids].tolist(), "now": drawn_from[ids].tolist(),
        "left": int((drawn_from > 0).sum()), "vocab": len(own),
    }  # fmt: skip


def _plain(text: Candidate) -> dict[str, Any]:
    return {"text": text.text, "log_probability": text.log_probability, "finished": text.finished}


# ---- along any continuation of a text ----


@dataclass(frozen=True)
class Along:
    """Trace points along a continuation. Row n contains the values after the first n tokens of the
    continuation."""

    points: dict[str, Tensor]  # (1, [heads,] rows, ...)
    read: list[int]  # the prefix and the continuation
    first: int  # the position in `read` of the last token that row 0 has read


def read_along(run: Run, tokens: list[int], keep: list[str]) -> Along:
    """Trace some points along a continuation, in one pass. If there is a source, the tokens replace
    the target; otherwise they continue the text. A long text is not processed again: the layers'
    stored inputs yield its keys and values."""
    network, example = run.opened.model.network, run.example
    assert example.target is not None
    inputs, side = example.inputs_for(network), example.target.name
    begun = inputs[side][:, :1] if example.source else inputs[side]
    inputs[side] = torch.cat([begun, begun.new_tensor([tokens])], 1) if tokens else begun
    read, first = inputs[side][0].tolist(), begun.shape[1] - 1
    trace = Trace(keep, edit=run.edit)
    if run.by_kernel and isinstance(network, DecoderModel) and not _masks_changed(run):
        if network.max_length is not None and len(read) > network.max_length:
            raise InputError(
                f"the text and `tokens` have {len(read):,} tokens together; the model's limit is "
                f"{network.max_length:,}"
            )
        state = _state(run, network, read, first)
        with torch.no_grad():
            network.step(inputs[side][:, first:], state, trace=trace)
        return Along({name: trace[name] for name in keep}, read, first)
    with torch.no_grad():
        network(**inputs, trace=trace)
    # Queries are the second-to-last axis of every requested point.
    points = {name: trace[name][..., first:, :] for name in keep}
    return Along(points, read, first)


def _read_step_by_step(run: Run, tokens: list[int]) -> Along:
    """The outputs along a continuation, as generation computes them: when a token is read, later
    tokens do not exist, even if no mask hides them."""
    network, example = run.opened.model.network, run.example
    assert isinstance(network, AutoregressiveNetwork)
    assert example.target is not None
    inputs = example.inputs_for(network)
    prefix = inputs[example.target.name][0].tolist()
    source = None
    if example.source:
        prefix, source = prefix[:1], GenerationInputs.of(inputs["source"])
    read, first, trace = [*prefix, *tokens], len(prefix) - 1, Trace([], edit=run.edit)
    with torch.no_grad():
        state, _ = begin(network, [prefix], source, steps=len(tokens) + 1, trace=trace)
        rows = [
            network.step(torch.tensor([[token]], device=network.device), state, trace=trace)
            for token in read[first:]
        ]
    return Along({run.output_point: torch.cat(rows, 1)}, read, first)


def _masks_changed(run: Run) -> bool:
    """Whether a mask is edited, in which case tokens of the text can attend to the continuation."""
    masks = (name for name in run.shapes if ".masks." in name)
    return Trace([], edit=run.edit).wants(*masks)


def _state(run: Run, network: DecoderModel, read: list[int], count: int) -> DecoderState:
    """A decoder state that has read the first `count` tokens of the run's text."""
    patterns = kinds_of_attention(run).get("decoder", [])
    state = network.start(GenerationInputs(1), len(read))
    for cache, name in zip(state.layers, patterns, strict=True):
        attended = run.attended(name)
        if attended is None:  # attention is edited inside: process the text again
            edit = Trace([], edit=run.edit)
            again, _ = begin(network, [read[: count + 1]], None, steps=len(read), trace=edit)
            assert isinstance(again, DecoderState)
            return again
        assert isinstance(cache, KVCache)
        cache.keys[:, :, :count] = attended.k[:, :, :count]
        cache.values[:, :, :count] = attended.v[:, :, :count]
    assert state.timeline is not None
    state.timeline.advance(torch.tensor([read[:count]], device=network.device), None)
    state.length = count
    return state
