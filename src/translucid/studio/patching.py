"""Activation patching for the page: values from a clean run replace those in a corrupted run."""

from fnmatch import fnmatchcase
from typing import Any, TypedDict

import torch

from translucid.core.errors import InputError
from translucid.core.trace import Trace
from translucid.see.difference import STREAM, depth, difference
from translucid.see.edits import from_trace
from translucid.see.patching import Patching, patched, variation
from translucid.studio.answers import says
from translucid.studio.text_runs import Run

# The points that can be patched, by their labels on the page.
PARTS = {
    "stream": STREAM,
    "attention": ("*_attention.output", "*alignment.output"),
    "feed-forward": ("*feedforward.output",),
    "cell": ("*.lstm.cell",),
}
CELLS = 128  # maximum tokens of a row per request
POSITIONS = 64  # how many positions to offer: those where the runs differ most
MODEL = "model"  # name of the variable in the generated Python code
CHOICES = 5  # how many likely outputs of each run to offer


class Measure(TypedDict, total=False):
    """The output that is measured; missing keys are chosen automatically."""

    position: int
    output: int
    against: int


def outline(clean: Run, corrupted: Run, measure: Measure) -> dict[str, Any]:
    """The measured output, the alternatives, and the cells of the map."""
    names = [name for name in clean.shapes if any(_is(name, globs) for globs in PARTS.values())]
    traced = _patching(clean, corrupted, names, measure)
    both = difference(traced.clean, traced.corrupted)
    ours, theirs = (
        values if values.dim() > 1 else values[None]
        for values in (traced.clean.output_values, traced.corrupted.output_values)
    )
    rows = [logits[traced.position].float() for logits in (ours, theirs)]
    likely = [row.topk(min(CHOICES, len(row))).indices.tolist() for row in rows]
    ids = list(dict.fromkeys([*likely[0], *likely[1]]))
    apart = variation(ours, theirs, clean.outputs.probabilities)
    offered = sorted({*apart.topk(min(POSITIONS, len(apart))).indices.tolist(), traced.position})
    words = [says(run, run.logits) for run in (clean, corrupted)]
    return {
        **_measured(traced),
        "positions": [
            {"n": n, "clean": words[0][n]["word"], "corrupted": words[1][n]["word"],
             "variation": float(apart[n])}
            for n in offered
        ],
        "choices": [
            {"id": number, "word": word, "clean": float(rows[0][number]),
             "corrupted": float(rows[1][number])}
            for number, word in zip(ids, traced.clean.names_at(traced.position, ids), strict=True)
        ],
        "tables": [
            {"part": part, "side": points[0].partition(".")[0],
             "words": both.tokens_along(points[0]), "points": points,
             "depths": list(map(depth, points))}
            for part, globs in PARTS.items()
            if any(_is(name, globs) for name in both.names)
            for points in both.sides(globs)
        ],
    }  # fmt: skip


def row(
    clean: Run, corrupted: Run, measure: Measure, at: str, tokens: range | None
) -> dict[str, Any]:
    """For each token, how much of the clean output returns if the token's vector at one point is
    patched."""
    traced = _patching(clean, corrupted, [at], measure)
    size = clean.shapes[at][1] if tokens is None else len(tokens)
    if size > CELLS:
        raise InputError(
            f"tokens: {size:,} requested, but the limit is {CELLS} per request; pass a range such "
            f"as tokens=0:{CELLS}"
        )
    return {**_measured(traced), "at": at, "recovered": traced.recovered(at, tokens)}


def cell(clean: Run, corrupted: Run, measure: Measure, at: str, token: int) -> dict[str, Any]:
    """The model's outputs with one vector patched from the clean run."""
    traced = _patching(clean, corrupted, [at], measure)
    value = traced.value(at, [token])
    logits = patched(traced.clean, traced.corrupted, at, [(token,)])
    return {
        **_measured(traced), "at": at, "token": token, "value": value,
        "recovered": traced.fraction(value), "says": says(corrupted, logits),
        "text": _written(traced, corrupted, at, token),
        "python": _python(clean, corrupted, traced, at, token),
    }  # fmt: skip


def _measured(traced: Patching) -> dict[str, Any]:
    ids = [traced.output] if traced.against is None else [traced.output, traced.against]
    return {
        "position": traced.position, "output": traced.output, "against": traced.against,
        "words": traced.clean.names_at(traced.position, ids),
        "clean": traced.clean_value, "corrupted": traced.corrupted_value,
    }  # fmt: skip


def _patching(clean: Run, corrupted: Run, points: list[str], measure: Measure) -> Patching:
    if clean.opened.key != corrupted.opened.key:
        raise InputError("patching: clean and corrupted must be runs of the same model")
    readings = [run.reading([*points, run.output_point]) for run in (clean, corrupted)]
    return Patching(*readings, **measure)


def _is(name: str, globs: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, glob) for glob in globs)


def _written(traced: Patching, run: Run, at: str, token: int) -> str | None:
    """The text that a translation model generates with the patched vector. None if a search cannot
    apply the edit: a search reads the target token by token, and the edit of a recurrent layer
    cannot be limited to a single step."""
    if run.example.source is None or run.outputs.tokenizer is None:
        return None
    edit = from_trace(traced.clean, at, tokens={token: token})
    if not at.startswith("encoder.") or any("@" in name for name in edit) or at in run.edit:
        return None
    trace = Trace([], edit={**run.edit, **edit})
    with torch.no_grad():
        (decoded,) = run.opened.model.decode([run.text], beam_size=1, n_best=1, trace=trace)
    return decoded.texts[0].text


def _python(clean: Run, corrupted: Run, traced: Patching, at: str, token: int) -> str:
    """Python code with which the user can compute the same number."""
    target = [] if clean.target is None else [clean.target]
    ours, theirs = (", ".join(map(repr, [run.text, *target])) for run in (clean, corrupted))
    edit = f"from_trace(clean, {at!r}, tokens={{{token}: {token}}})"
    switched = []
    if corrupted.off:  # parts that are off in the corrupted run stay off
        switched = [
            "from translucid.see.part_switches import at_strength, switches, together",
            f"parts = {{switch.key: switch for switch in switches({MODEL}.network)}}",
        ]
        edit = f"{{**together([{', '.join(map(_switch, corrupted.off))}]), **{edit}}}"
    place = f"0, {traced.position}" if corrupted.outputs.at_positions else "0"
    return "\n".join([
        "from translucid.see.edits import from_trace", *switched,
        f"clean = {MODEL}.trace({ours})",
        f"patched = {MODEL}.trace({theirs}, edit={edit})",
        f"patched[{corrupted.output_point!r}][{place}, {traced.output}]",
    ])  # fmt: skip


def _switch(text: str) -> str:
    key, at, percent = text.partition("@")
    part = f"parts[{key!r}]"
    return f"at_strength({part}, {int(percent) / 100})" if at else part
