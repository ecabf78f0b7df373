"""The fields `trace` and `edit` of a request, and traces as JSON."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import isfinite
from typing import Any

import torch
from pydantic import Field
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response
from torch import Tensor

from translucid.core.config import Config
from translucid.core.errors import InputError, TraceError
from translucid.core.trace import Edit, Trace, check_patterns, matching
from translucid.serving.bodies import ApiError, Body, not_finite
from translucid.serving.job import Answered, Finished, Job
from translucid.serving.served import Served
from translucid.serving.tracing import RequestedTrace, axes_of
from translucid.tasks.words import ACROSS, ALONG_TEXT

MOST_PATTERNS = 100  # in one request
BLOCK = 4096  # values of a trace that are converted to JSON at once


class Change(Config):
    """How to change a trace point: exactly one of set, add and scale."""

    set: float | list[Any] | None = Field(None, description="The new value")
    add: float | list[Any] | None = Field(None, description="Is added to the value")
    scale: float | list[Any] | None = Field(None, description="Is multiplied by the value")
    at: dict[str, int | list[int]] = Field(
        {}, description='Change only these indices of an axis, such as {"heads": [0, 2]}'
    )

    def edit(self, name: str) -> Callable[[Tensor], Tensor]:
        """The edit of the point, or of all points that match a pattern."""
        operations = {
            operation: value
            for operation in ("set", "add", "scale")
            if (value := getattr(self, operation)) is not None
        }
        if len(operations) != 1:
            raise InputError(f"edit: {name}: give exactly one of set, add and scale")
        ((operation, value),) = operations.items()
        operand = _operand(name, value)

        def change(before: Tensor) -> Tensor:
            other = _fitting(name, operand, before)
            if operation != "set" and not before.is_floating_point():
                raise InputError(f"edit: {name} holds no real numbers, so it allows only set")
            match operation:
                case "add":
                    after = before + other
                case "scale":
                    after = before * other
                case _:
                    after = other.clone()
            if not self.at:
                return after
            return torch.where(_selected(name, self.at, before), after, before)

        return change


class Inspected(Body):
    """Fields of requests that can be traced and edited."""

    trace: list[str] = Field(
        [], max_length=MOST_PATTERNS,
        description="Trace points to return, as names or patterns such as *.pattern. For a "
        "generated text, the values are those of one forward pass over prompt and output. Needs "
        "--allow-trace",
    )  # fmt: skip
    edit: dict[str, float | list[Any] | Change] = Field(
        {}, max_length=MOST_PATTERNS,
        description="Values to change while the model runs, by name or pattern: a number or nested "
        "lists that replace the value, or an object with set, add or scale. Applied in every step "
        "of generation, and in the trace. Needs --allow-trace",
    )  # fmt: skip

    @property
    def inspects(self) -> str | None:
        """The first of these fields that is used."""
        return "trace" if self.trace else "edit" if self.edit else None

    def edits(self, points: Sequence[str], *, generates: bool) -> dict[str, Edit]:
        """The edits by name or pattern. points: the trace points of the model."""
        edits: dict[str, Edit] = {}
        for glob, change in self.edit.items():
            whole = change if isinstance(change, Change) else Change.model_validate({"set": change})
            if not whole.at:
                edits[glob] = whole.edit(glob)
                continue
            base, at, position = glob.partition("@")
            for name in matching(tuple(points), base):
                _check_axes(name, whole.at, generates=generates)
                place = name + at + position
                edits[place] = _after(edits.get(place), whole.edit(name))
        return edits


def _after(first: Any, second: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    return second if first is None else lambda value: second(first(value))


def _operand(name: str, value: float | list[Any]) -> Tensor:
    try:
        operand = torch.tensor(value, dtype=torch.float32)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise InputError(
            f"edit: {name}: must be a number or nested lists of numbers of equal length"
        ) from None
    if not bool(operand.isfinite().all()):
        raise InputError(f"edit: {name}: all numbers must be finite in float32")
    return operand


def _fitting(name: str, operand: Tensor, value: Tensor) -> Tensor:
    try:
        return operand.to(value).expand(value.shape)
    except RuntimeError:
        raise InputError(
            f"edit: {name}: lists of shape {tuple(operand.shape)} do not fit the value of shape "
            f"{tuple(value.shape)}; give a number, or a list for the last axis"
        ) from None


def _selected(name: str, at: Mapping[str, int | list[int]], value: Tensor) -> Tensor:
    """True where the indices of all given axes are selected."""
    axes = axes_of(name, value)
    chosen = torch.ones((), dtype=torch.bool, device=value.device)
    for axis, index in at.items():
        if axes is None or axis not in axes:
            raise InputError(
                f"edit: {name} has no axis {axis}; its axes are {', '.join(axes or ['unknown'])}"
            )
        place = axes.index(axis)
        size = value.shape[place]
        indices = [index] if isinstance(index, int) else index
        if wrong := [one for one in indices if not 0 <= one < size]:
            raise InputError(
                f"edit: {name}: {axis} = {wrong[0]} does not exist; the indices are 0 to {size - 1}"
            )
        line = torch.zeros(size, dtype=torch.bool, device=value.device)
        line[indices] = True
        chosen = chosen & line.view([size if n == place else 1 for n in range(value.dim())])
    return chosen


def _check_axes(name: str, at: Mapping[str, Any], *, generates: bool) -> None:
    """Refuse positions of a text that grows while it is edited."""
    scopes = name.split(".")[:-1]
    if not generates or "encoder" in scopes:
        return
    for axis in at:
        if axis in ALONG_TEXT and not (axis == "keys" and scopes[-1] in ACROSS):
            raise InputError(
                f"edit: {name}: {axis} selects positions of the generated text, which grows step "
                "by step; omit it, or send the whole text to /score"
            )


def checked(served: Served, body: Inspected, texts: Sequence[Any], *, answers: int,
            generates: bool = False) -> dict[str, Any]:  # fmt: skip
    """The arguments `trace` and `edit` for the engine; raises an ApiError if they are wrong.
    answers: the number of answers that the request asks for."""
    if body.inspects is None or not texts:
        return {}
    if body.trace and (len(texts), answers) != (1, 1):
        raise ApiError(
            f"trace: covers one text and one answer, but the request has {len(texts)} texts and "
            f"{answers} answers; send one request per text", param="trace",
        )  # fmt: skip
    points = served.points("a" if served.task in ("language", "translate") else texts[0])
    for name, globs in (("trace", body.trace), ("edit", list(body.edit))):
        try:
            check_patterns(globs, points)
        except TraceError as error:
            raise ApiError(f"{name}: {error}", 400, name, "unknown_point") from None
    edit = body.edits(points, generates=generates)
    if generates:
        Trace([], edit=edit).edits()  # raises an error for positions
    return {"trace": tuple(body.trace), "edit": edit}


async def inspected_jobs(served: Served, body: Inspected, jobs: Sequence[Job]) -> Sequence[Job]:
    """The jobs of a request, with its trace and edits."""
    if body.inspects is None:
        return jobs
    prompts, answers = [job.prompt for job in jobs], max(job.n for job in jobs)
    more = await served.in_thread(
        lambda: checked(served, body, prompts, answers=answers, generates=True)
    )
    return [replace(job, **more) for job in jobs]


def traced(*answers: Finished | Answered) -> dict[str, Any]:
    """The field of an answer that holds the trace, if there is one."""
    traces = [one.trace for one in answers if one.trace is not None]
    return {"trace": traces[0]} if traces else {}


async def as_response(answer: Any, body: Body | None) -> Response:
    """An answer as JSON. A trace is converted in another thread, since it may be large."""
    trace = answer.pop("trace", None) if isinstance(answer, dict) else None
    try:
        response = JSONResponse(answer)
    except ValueError:  # a number is not finite
        if isinstance(body, Inspected) and body.edit:
            raise ApiError(
                "edit: the answer is not finite; use smaller values", param="edit"
            ) from None
        raise not_finite(*next(_not_finite(answer))) from None
    if trace is None:
        return response
    text = await run_in_threadpool(as_json, trace)
    content = bytes(response.body)[:-1] + b',"trace":' + text.encode() + b"}"
    return Response(content, media_type="application/json")


def _not_finite(answer: Any, name: str = "the answer") -> Iterator[tuple[str, float]]:
    """The numbers in an answer that are not finite, with their names."""
    if isinstance(answer, float) and not isfinite(answer):
        yield name, answer
    parts = answer.items() if isinstance(answer, dict) else ()
    for key, part in enumerate(answer) if isinstance(answer, list | tuple) else parts:
        yield from _not_finite(part, f"{name}[{key!r}]")


def as_json(trace: RequestedTrace) -> str:
    """A trace as JSON. Infinite and undefined values are texts: "inf", "-inf" and "nan"."""
    points = []
    for name in trace:
        value = trace[name]
        about = {"shape": list(value.shape), "axes": axes_of(name, value)}
        start = f"{json.dumps(name)}: {json.dumps(about)[:-1]}"
        points.append(f'{start}, "values": {_numbers(value.detach())}}}')
    tokens = json.dumps(trace.labels, ensure_ascii=False)
    return f'{{"tokens": {tokens}, "points": {{{", ".join(points)}}}}}'


def _numbers(value: Tensor) -> str:
    """A tensor as nested lists. Converted in blocks, so that other threads can run meanwhile."""
    small = value.dim() < 2 or value.numel() <= BLOCK
    if small and (not value.is_floating_point() or bool(value.isfinite().all())):
        return json.dumps(value.tolist())
    if value.dim() > 1:
        return "[" + ", ".join(map(_numbers, value)) + "]"
    shown = [x if abs(x) < float("inf") else str(x) for x in value.view(-1).tolist()]
    return json.dumps(shown if value.dim() else shown[0])
