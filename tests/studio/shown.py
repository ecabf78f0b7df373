"""Compare the texts on the page with what Python computes, to the digits that are shown."""

import re
from typing import Any

import torch
from tests.studio.browser import Page
from torch import Tensor

from translucid.see.reading import Reading
from translucid.tasks.batch import IGNORE

PATH = re.compile(r"(?P<at>[\w.]+)\[(?P<index>[\d, :]+)\](?P<then>(?:\.(?:mean|square|sqrt)\(\))*)")


def same(text: str, value: float) -> bool:
    """Whether a number on the page is this value, rounded to the digits that are shown."""
    text = text.strip().replace("−", "-").replace("+", "").removesuffix("%").strip()
    if text in ("masked", "-∞"):
        return not torch.isfinite(torch.tensor(value))
    number, _, power = text.partition("e")
    half = 0.5 * 10.0 ** (int(power or 0) - len(number.partition(".")[2]))
    return abs(float(text) - value) <= half * 1.0001 + 1e-6 * max(1.0, abs(value))


def behind(path: str, trace: Reading) -> float:
    """The number that an address on the page refers to; the address is a line of Python."""
    found = PATH.search(path)
    assert found, path
    value: Any = trace[found["at"]]
    value = value[0] if value.dim() else value
    index = tuple(slice(None) if part.strip() == ":" else int(part)
                  for part in found["index"].split(","))  # fmt: skip
    value = value[index]
    for act in re.findall(r"\w+", found["then"]):
        value = getattr(value, act)()
    return float(value)


def foot(page: Page) -> tuple[str, str]:
    """The address and the value that the status bar shows."""
    found = page.inner.evaluate(
        "['.path', '.value'].map(name => document.querySelector('#readout ' + name)?.textContent)"
    )
    return found[0] or "", found[1] or ""


def check_foot(page: Page, trace: Reading, value: float | None = None) -> str:
    path, shown = foot(page)
    wanted = behind(path, trace) if value is None else value
    assert same(shown, wanted), f"{path}: {shown} is shown, {wanted} is computed"
    return path


def sums(page: Page, within: str = "#stage") -> dict[str, str]:
    """The sums in the page's tables, by name."""
    rows = page.inner.eval_on_selector_all(
        f"{within} .sumtable tr:not(.below)",
        "all => all.map(row => [(row.querySelector('.called') ?? row.querySelector('th'))"
        ".textContent.trim(), row.querySelector('td.n').textContent])",
    )
    return {name.partition("[")[0]: number for name, number in rows}


def loss_of(logits: Tensor, targets: Tensor) -> float:
    classes = logits.float().flatten(0, -2)
    return float(torch.nn.functional.cross_entropy(classes, targets.flatten(), ignore_index=IGNORE))


def rows_of(logits: Tensor) -> Tensor:
    return logits[0] if logits.dim() > 2 else logits[:1]


def variation(one: Tensor, two: Tensor) -> Tensor:
    """Total variation between two outputs at each position: half the sum of absolute
    differences."""
    one, two = (rows_of(each).float().softmax(-1) for each in (one, two))
    return (one - two).abs().sum(-1) / 2
