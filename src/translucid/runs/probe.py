"""One text, asked again and again while a model learns: its answer, and one table of its trace."""

import base64
from typing import Any

import numpy as np

from translucid.core.errors import InputError
from translucid.see.pictures import Bars, Heat, Lines
from translucid.see.reading import Reading, read
from translucid.tasks.base import Task
from translucid.tasks.model_folder import Bundle, task_of


def probe(held: Bundle, text: str) -> dict[str, Any]:
    """What the model says to a text now, and a table, as a line of a file can hold it."""
    task, network = check(held, text), held.network
    target = task.own_target(network, text)
    reading = read(network, task, text, target, keep=[f"*{_ending(held)}"])
    at = chosen(reading)
    answer = task.followed(network, text, target)
    return {"text": text, "answer": answer, **_table(reading, at)}


def check(held: Bundle, text: str) -> Task[Any, Any]:
    """The model's task, if it can be asked this; otherwise it is refused."""
    task = task_of(held)
    if not text.strip():
        raise InputError("--probe: there is no text to follow; give one that is not empty")
    task.check_line(text, "--probe", held.network)
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
