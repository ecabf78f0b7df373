"""One text, asked again and again while a model learns: its answer, and one table of its trace."""

import base64
from typing import Any

import numpy as np

from translucid.bundle import Bundle
from translucid.errors import InputError
from translucid.models.base import Network
from translucid.see.pictures import Bars, Heat, Lines
from translucid.see.reading import Reading, read
from translucid.tasks.base import Task
from translucid.tasks.generator import Generator
from translucid.tasks.question import check_text, own_target, read_row
from translucid.tasks.regress import RegressItem
from translucid.training.examples import task_of

WRITTEN = 12  # tokens by which a language model goes on


def probe(held: Bundle, text: str) -> dict[str, Any]:
    """What the model says to a text now, and a table, as a line of a file can hold it."""
    task, network = check(held, text), held.network
    target = own_target(network, task, text)
    reading = read(network, task, text, target, keep=[f"*{_ending(held)}"])
    at = chosen(reading)
    return {"text": text, "answer": _answer(network, task, text, target), **_table(reading, at)}


def check(held: Bundle, text: str) -> Task[Any, Any]:
    """The model's task, if it can be asked this; otherwise it is refused."""
    task = task_of(held)
    if not text.strip():
        raise InputError("--probe: there is no text to follow; give one that is not empty")
    check_text(held.network, task, text, "--probe")
    if held.task == "regress":
        read_row(held.network, task, text, "--probe")
    return task


def _ending(held: Bundle) -> str:
    config = held.network.config
    cell = getattr(config, "cell", None)
    if cell is None:
        return ".pattern" if hasattr(config, "heads") else ".activation"
    across = getattr(config, "shape", "") == "encoder-decoder"
    if across and getattr(config, "attention", "none") != "none":
        return ".pattern"
    return {"lstm": ".forget_gate", "gru": ".update_gate"}.get(cell, ".hidden")


def chosen(reading: Reading) -> str:
    """Of several layers the last; attention across two texts rather than within one."""
    aside = ("backward", "output")  # the second reading of a text; the answer itself
    names = [name for name in reading if not {*name.split(".")} & {*aside}] or list(reading)
    across = [n for n in names if n.split(".")[-2] in ("cross_attention", "alignment")]
    return (across or names)[-1]


def _answer(network: Network, task: Any, text: str, target: str | None) -> Any:
    """A translation; a label with its share, for each; a tag for each word; numbers; how a text
    goes on."""
    match task.name:
        case "translate":
            return target
        case "language":
            whole = Generator(task, network).generate(text, tokens=WRITTEN, temperature=0.0)
            assert isinstance(whole, str)
            return whole[len(text) :] if whole.startswith(text) else whole
        case "classify":
            (shares,) = task.probabilities(network, [task.encode_text(text)])
            return dict(zip(task.labels, shares, strict=True))
        case "tag":
            words = text.split()
            (tags,) = task.predict(network, [task.encode_words(words)])
            return [[word, tag] for word, tag in zip(words, tags, strict=True)]
        case _:
            row = tuple(read_row(network, task, text, "--probe"))
            return task.predict(network, [RegressItem(row, (), 0)])[0]


def _table(reading: Reading, at: str) -> dict[str, Any]:
    """At most 64 by 64 numbers, as the see module cuts them for a picture."""
    match reading.figure(at, head="mean"):
        case Heat() as heat:
            values, rows, columns = heat.values, heat.rows.labels, heat.columns.labels
            scale, note = heat.scale, heat.note
        case Lines() as line:
            (series,) = line.series.values()
            values, rows, columns = series[None], ("",), line.x.labels
            scale, note = "signed", line.note
        case Bars() as bars:
            values, rows, columns, scale, note = (
                bars.values[None], ("",), bars.labels, "signed", bars.note
            )  # fmt: skip
        case _:
            raise AssertionError(at)
    return {
        "at": at, "rows": list(rows), "columns": list(columns), "scale": scale, "note": note,
        "values": base64.b64encode(values.astype("<f4").tobytes()).decode("ascii"),
    }  # fmt: skip


def table_of(line: dict[str, Any]) -> np.ndarray[Any, np.dtype[np.float32]]:
    """The numbers of a line again. (rows, columns)"""
    shape = len(line["rows"]), len(line["columns"])
    raw = base64.b64decode(line["values"], validate=True)
    return np.frombuffer(raw, "<f4").reshape(shape)
