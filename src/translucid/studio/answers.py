"""What the page asks of a run, beyond its tensors: heads at a glance, one number worked out, the
likeliest words of a step, the tree of a search, two runs compared."""

import math
from typing import Any

import torch
from torch import Tensor

from translucid.catalogue import describe
from translucid.errors import InputError
from translucid.see.difference import Difference, difference
from translucid.see.of_points import pooled
from translucid.see.pictures import Grid
from translucid.see.words import readable
from translucid.studio.frames import packed, raw_bytes
from translucid.studio.runs import Run
from translucid.tasks.classify import Classify
from translucid.tasks.language import Language
from translucid.tasks.regress import Regress
from translucid.tasks.tag import Tag
from translucid.tasks.translate import Translate
from translucid.trace import Trace

LONGEST = 2048  # tokens of a beginning
ATTENDED = ("scores", "scaled", "biased", "masked", "pattern")  # of each query and key, in order


def kinds_of_attention(run: Run) -> dict[str, list[str]]:
    """The patterns of each kind of attention, layer by layer."""
    found: dict[str, list[str]] = {}
    for name in run.shapes:
        if name.endswith(".pattern"):
            scopes = name.split(".")
            across = scopes[-2] in ("cross_attention", "alignment")
            kind = "cross" if across else "encoder" if "encoder" in scopes else "decoder"
            found.setdefault(kind, []).append(name)
    return found


def heads(run: Run, kind: str, pool: int) -> bytes:
    """Small pictures of all heads of one kind: (layers, heads, queries, keys), as bytes of 0..1;
    with the entropy (bits) and the largest weight of each head."""
    kinds = kinds_of_attention(run)
    if kind not in kinds:
        raise InputError(f"kind: this run has no {kind!r} attention; it has {', '.join(kinds)}")
    names = kinds[kind]
    reading = run.reading(names)
    patterns = [reading[name][0] for name in names]
    patterns = [p if p.dim() == 3 else p[None] for p in patterns]  # recurrent: one head
    stack = torch.stack([_small(p, pool) for p in patterns]).clamp(0, 1)
    entropy = torch.stack([-(p * p.clamp_min(1e-12).log2()).sum(-1).mean(-1) for p in patterns])
    most = torch.stack([p.amax((-1, -2)) for p in patterns])
    header = {
        "at": names, "axes": ["layers", "heads", "queries", "keys"], "shape": list(stack.shape),
        "whole": list(patterns[0].shape), "dtype": "u8", "scale": "unit", "lo": 0.0, "hi": 1.0,
        "entropy": entropy.tolist(), "most": most.tolist(),
    }  # fmt: skip
    return packed(header, raw_bytes(stack.float(), torch.ones_like(stack).bool(), 0.0, 1.0, "u8"))


def _small(pattern: Tensor, pool: int) -> Tensor:
    for place in (1, 2):
        if pattern.shape[place] > pool:
            pattern = pooled(pattern, place, -(-pattern.shape[place] // pool))
    return pattern


def cell(run: Run, at: str, index: tuple[int, ...]) -> dict[str, Any]:
    """One number with all its digits, and how it came about."""
    value = run[at]
    value = value[0] if value.dim() else value  # a scale has no batch
    if len(index) != value.dim() or any(
        not 0 <= i < size for i, size in zip(index, value.shape, strict=False)
    ):
        raise InputError(f"index: {at} has the shape {tuple(value.shape)}; {index} is not in it")
    exact = float(value[index]) if index else float(value)
    return {
        "at": at, "index": index, "value": repr(exact), "meaning": describe(at).meaning,
        "worked": list(_worked(run, at, index)),
    }  # fmt: skip


def _worked(run: Run, at: str, index: tuple[int, ...]) -> Any:
    """The sum as a teacher writes it: name, what is done, the number."""
    scope, _, point = at.rpartition(".")
    part = scope.rpartition(".")[2]
    if part.endswith("attention") and point in ATTENDED:
        yield from _attention(run, scope, index, point)
    elif part == "alignment" and point in ("scores", "pattern"):
        yield from _softmax(run[f"{scope}.scores"][0, index[0]], index[1], point, "a(q, k)")
    elif part in ("lstm", "gru", "rnn") and len(index) == 2:
        yield from _recurrent(run, scope, point, index)


def _attention(run: Run, scope: str, index: tuple[int, ...], point: str) -> Any:
    head, query, key = index
    row = {
        name: run[f"{scope}.{name}"][0, head, query]
        for name in ATTENDED[:-1]
        if f"{scope}.{name}" in run.shapes
    }
    scale = float(run[f"{scope}.scale"]) if f"{scope}.scale" in run.shapes else 1.0
    yield _line("query · key", "q·k", float(row["scores"][key]))
    if point != "scores":
        yield _line("scaled", f"× {scale:.4g}", float(row["scaled"][key]))
    if point not in ("scores", "scaled") and "biased" in row:
        bias = float(row["biased"][key]) - float(row["scaled"][key])
        yield _line("biased", f"{'+' if bias > 0 else '−'} {abs(bias):.4g}",
                    float(row["biased"][key]))  # fmt: skip
    if point == "masked":
        seen = math.isfinite(float(row["masked"][key]))
        yield _line("masked", "may be seen" if seen else "not seen", float(row["masked"][key]))
    if point == "pattern":
        yield from _shares(row["masked"], key)


def _softmax(scores: Tensor, key: int, point: str, how: str) -> Any:
    yield _line("score", how, float(scores[key]))
    if point == "pattern":
        yield from _shares(scores, key)


def _shares(scores: Tensor, key: int) -> Any:
    scores = scores.double()
    grown = (scores - scores.max()).exp()
    yield _line("exponential", "exp(s − max)", float(grown[key]))
    yield _line("row sum", "Σ", float(grown.sum()))
    yield _line("weight", "÷", float(grown[key] / grown.sum()))


def _recurrent(run: Run, scope: str, point: str, index: tuple[int, ...]) -> Any:
    """One unit at one step, from the gates, the candidate and what stood there before."""
    place, unit = index

    def at(name: str) -> float:
        return float(run[f"{scope}.{name}"][0, place, unit])

    match scope.rpartition(".")[2], point:
        case "lstm", "cell":
            old, forget, write = (
                _before(run, scope, "cell", index),
                at("forget_gate"),
                at("input_gate"),
            )
            yield _line("old cell", "c before", old)
            yield _line("forget gate", "f", forget)
            yield _line("kept", "f · c before", forget * old)
            yield _line("input gate", "i", write)
            yield _line("candidate", "g", at("candidate"))
            yield _line("written", "i · g", write * at("candidate"))
            yield _line("cell", "+", at("cell"))
        case "lstm", "hidden":
            yield _line("cell", "c", at("cell"))
            yield _line("squashed", "tanh c", math.tanh(at("cell")))
            yield _line("output gate", "o", at("output_gate"))
            yield _line("hidden", "o · tanh c", at("hidden"))
        case "gru", "hidden":
            old, stay = _before(run, scope, "hidden", index), at("update_gate")
            yield _line("old state", "h before", old)
            yield _line("update gate", "z", stay)
            yield _line("stays", "z · h before", stay * old)
            yield _line("candidate", "n", at("candidate"))
            yield _line("new", "(1 − z) · n", (1 - stay) * at("candidate"))
            yield _line("hidden", "+", at("hidden"))
        case "rnn", "hidden":
            yield _line("old state", "h before", _before(run, scope, "hidden", index))
            yield _line("input and memory", "a", at("preactivation"))
            yield _line("hidden", "act(a)", at("hidden"))


def _before(run: Run, scope: str, point: str, index: tuple[int, ...]) -> float:
    """What a unit held one step earlier; at the first step what it began with."""
    place, unit = index
    values = run[f"{scope}.{point}"][0]
    place += 1 if "backward" in scope.split(".") else -1
    if 0 <= place < values.shape[0]:
        return float(values[place, unit])
    bridge = f"{scope.partition('decoder.')[0]}decoder.bridge.{point}"
    return float(run[bridge][0, unit]) if "decoder." in scope and bridge in run.shapes else 0.0


def _line(name: str, how: str, value: float) -> dict[str, Any]:
    return {"name": name, "how": how, "value": value if math.isfinite(value) else None}


def step(run: Run, n: int, k: int) -> dict[str, Any]:
    """The likeliest words, or tags, at a position."""
    at = run.logits_at()
    logits = _rows(run[at])
    if not 0 <= n < logits.shape[0]:
        raise InputError(f"n: there are positions 0 to {logits.shape[0] - 1}, not {n}")
    before = _read_by(run)
    return {"n": n, "at": at, **_likeliest(run, logits[n], before[n] if before else None, k)}


def step_after(run: Run, tokens: list[int], k: int) -> dict[str, Any]:
    """The likeliest words behind any beginning, given by its tokens, and what is looked at."""
    model = run.opened.model
    task, network = model.task, model.network
    if not isinstance(task, Translate | Language):
        raise InputError(f"a model for task {task.name} writes nothing: nothing can come after")
    tokenizer = model.writes_with
    if len(tokens) > LONGEST:
        raise InputError(f"after: {len(tokens):,} tokens; {LONGEST:,} can come before")
    tokenizer.pieces(tokens)  # says so where there is no such token
    inputs = run.example.inputs_for(network)
    side = "target" if isinstance(task, Translate) else "ids"
    begun = inputs[side][:, :1] if isinstance(task, Translate) else inputs[side]
    inputs[side] = torch.cat([begun, begun.new_tensor([tokens])], 1) if tokens else begun
    at, kinds = run.logits_at(), kinds_of_attention(run)
    patterns = kinds.get("cross") or kinds.get("decoder", [])
    trace = Trace([at, *patterns], edit=run.edit)
    with torch.no_grad():
        network(**inputs, trace=trace)
    found = {"n": len(tokens), "at": at}
    found |= _likeliest(run, trace[at][0, -1], int(inputs[side][0, -1]), k)
    if patterns:
        rows = [trace[name][0, ..., -1, :].float() for name in patterns]  # of the newest word
        weights = torch.stack([row.reshape(-1, row.shape[-1]).mean(0) for row in rows]).mean(0)
        words = readable(tokenizer, inputs[side][0].tolist())
        across = "cross" in kinds
        found["looks"] = {
            "at": patterns, "weights": weights.tolist(), "side": "src" if across else "tgt",
            "words": list(run.example.words.source if across else words),
        }  # fmt: skip
    return found


def _rows(logits: Tensor) -> Tensor:
    """(positions, classes) of the one text of a batch; one position where there is one answer."""
    return logits[0] if logits.dim() > 2 else logits[:1]


def _read_by(run: Run) -> list[int]:
    """The tokens that a decoder has read, one before each that it should write."""
    task = run.opened.model.task
    if not isinstance(task, Translate | Language):
        return []
    side = "target" if isinstance(task, Translate) else "ids"
    tokens: list[int] = run.example.batch.inputs[side][0].tolist()
    return tokens


def _likeliest(run: Run, logits: Tensor, before: int | None, k: int) -> dict[str, Any]:
    logits = logits.float()
    shares = logits.softmax(-1)
    best = shares.topk(min(max(k, 1), shares.shape[-1]))
    ids = best.indices.tolist()
    return {
        "words": [_said(run, i, before) for i in ids], "ids": ids,
        "probabilities": best.values.tolist(), "logits": [float(logits[i]) for i in ids],
        "log_sum": float(logits.logsumexp(-1)), "rest": float(1 - best.values.sum()),
        "others": shares.shape[-1] - len(ids),
    }  # fmt: skip


def _said(run: Run, number: int, before: int | None) -> str:
    """What one output stands for: a word behind the one before, a tag, a label."""
    match run.opened.model.task:
        case Tag() as task:
            return task.tags[number]
        case Classify() as task:
            return task.labels[number]
        case Translate() | Language():
            tokenizer = run.opened.model.writes_with
            return readable(tokenizer, [tokenizer.bos_id if before is None else before, number])[1]
        case _:
            return str(number)


def decode(run: Run, beams: int, best: int, force: dict[int, str | int]) -> dict[str, Any]:
    """The tree of a search, and what it found."""
    model = run.opened.model
    if not isinstance(model.task, Translate | Language):
        raise InputError(f"a model for task {model.task.name} writes nothing: there is no search")
    if not 1 <= beams <= 32 or not 1 <= best <= beams:
        raise InputError(f"beams: 1 to 32, and best at most as many; not {beams} and {best}")
    options: dict[str, Any] = {"longest": 40} if isinstance(model.task, Language) else {}
    (found,) = model.decode(
        [run.text], beams=beams, best=best, tree=True, force=force or None, **options
    )
    told = found.as_dict(model.writes_with)
    nodes = told["tree"]["nodes"]
    start = _read_by(run)[0 if isinstance(model.task, Translate) else -1]
    for node in nodes[1:]:
        before = nodes[node["parent"]]["token"] if node["parent"] else start
        node["label"] = _said(run, node["token"], before)
    return told


def compare(a: Run, b: Run) -> dict[str, Any]:
    """Where two runs part ways: their answers, each step, and the ripple through the depths."""
    found: dict[str, Any] = {
        "a": a.key, "b": b.key, "answers": [a.answer(), b.answer()], "loss": [a.loss(), b.loss()],
        "says": [_says(a), _says(b)],
    }  # fmt: skip
    if _same_outputs(a, b):
        found |= _apart(a, a[a.logits_at()], b[b.logits_at()])
    if a.opened.key == b.opened.key and len(a.kept) and len(b.kept):
        found |= _ripple(difference(a.kept, b.kept))
        if not (a.whole and b.whole):
            found["first"] = None  # the first of those that were kept is perhaps not the first
    return found


def effect(run: Run, off: list[str]) -> dict[str, Any]:
    """What switching parts off does to the answers; nothing else is kept."""
    said = run.logits_without(off)
    before, after = (_rows(each).argmax(-1) for each in (run[run.logits_at()], said))
    return {
        "off": off, "loss": [run.loss(), run.loss(said)], "changed": int((before != after).sum()),
        **_apart(run, run[run.logits_at()], said),
    }  # fmt: skip


def _apart(run: Run, one: Tensor, two: Tensor) -> dict[str, Any]:
    """The total variation of each answer's distribution; of numbers how far they lie apart."""
    one, two = _rows(one).float(), _rows(two).float()
    if one.shape != two.shape:
        return {}
    if isinstance(run.opened.model.task, Regress):
        return {"gap": float((one - two).abs().mean())}
    apart = (one.softmax(-1) - two.softmax(-1)).abs().sum(-1) / 2
    return {"variation": apart.tolist()}


def _says(run: Run) -> list[dict[str, Any]]:
    """The likeliest answer at each position, and its share."""
    if isinstance(run.opened.model.task, Regress):
        return [{"word": f"{value:.4g}", "share": None} for value in run.answer()]
    best = _rows(run[run.logits_at()]).float().softmax(-1).max(-1)
    before: list[int | None] = [*_read_by(run)] or [None] * len(best.values)
    return [
        {"word": _said(run, number, last), "share": share}
        for share, number, last in zip(
            best.values.tolist(), best.indices.tolist(), before, strict=True
        )
    ]


def _same_outputs(a: Run, b: Run) -> bool:
    """Whether output i stands for the same in both."""
    ours, theirs = a.opened.model.task, b.opened.model.task
    if a.opened.key == b.opened.key:
        return True
    match ours, theirs:
        case (Tag(), Tag()):
            return list(ours.tags) == list(theirs.tags)
        case (Classify(), Classify()):
            return list(ours.labels) == list(theirs.labels)
        case (Translate(), Translate()) | (Language(), Language()):
            mine, other = (run.opened.model.writes_with for run in (a, b))
            return mine.fingerprint == other.fingerprint
        case _:
            return False


def _ripple(apart: Difference) -> dict[str, Any]:
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
             "values": [[None if v != v else v for v in row] for row in heat.values.tolist()]}
            for heat in heats
        ],
    }  # fmt: skip
