"""Sequence models you can see through.

The names below are the public surface. They are loaded when first used, so that
`import translucid` (and with it the command line's help) does not wait for torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from translucid._version import __version__

if TYPE_CHECKING:  # what editors and type checkers see; must agree with _HOMES
    from translucid import models, worked
    from translucid.core import catalogue
    from translucid.core.errors import InputError, StopTraining, TranslucidError
    from translucid.core.trace import NO_TRACE, Trace
    from translucid.data.batching import pad
    from translucid.data.readers.lines import read_lines
    from translucid.data.records import Record
    from translucid.model import Model, compare, load, resume, train
    from translucid.models import build
    from translucid.parts.positions import position
    from translucid.see.edits import from_trace
    from translucid.tasks.base import Score, Task
    from translucid.tasks.batch import Batch
    from translucid.tasks.choices import OneLabel, Tags
    from translucid.tasks.example import Example
    from translucid.tasks.in_batches import in_batches
    from translucid.tasks.outputs import Values
    from translucid.tasks.registry import task
    from translucid.tasks.score import Baseline

__all__ = [
    "Baseline",
    "Batch",
    "Example",
    "InputError",
    "Model",
    "NO_TRACE",
    "OneLabel",
    "Record",
    "Score",
    "StopTraining",
    "Tags",
    "Task",
    "Trace",
    "TranslucidError",
    "Values",
    "__version__",
    "build",
    "catalogue",
    "compare",
    "from_trace",
    "in_batches",
    "load",
    "models",
    "pad",
    "position",
    "read_lines",
    "resume",
    "task",
    "train",
    "worked",
]

# Where each name lives: in a module, or it is the module.
_HOMES = {
    "Baseline": ("translucid.tasks.score", "Baseline"),
    "Batch": ("translucid.tasks.base", "Batch"),
    "Example": ("translucid.tasks.example", "Example"),
    "InputError": ("translucid.core.errors", "InputError"),
    "Model": ("translucid.model", "Model"),
    "NO_TRACE": ("translucid.core.trace", "NO_TRACE"),
    "OneLabel": ("translucid.tasks.choices", "OneLabel"),
    "Record": ("translucid.data.records", "Record"),
    "Score": ("translucid.tasks.base", "Score"),
    "StopTraining": ("translucid.core.errors", "StopTraining"),
    "Tags": ("translucid.tasks.choices", "Tags"),
    "Task": ("translucid.tasks.base", "Task"),
    "Trace": ("translucid.core.trace", "Trace"),
    "TranslucidError": ("translucid.core.errors", "TranslucidError"),
    "Values": ("translucid.tasks.outputs", "Values"),
    "build": ("translucid.models", "build"),
    "catalogue": ("translucid.core.catalogue", None),
    "compare": ("translucid.model", "compare"),
    "from_trace": ("translucid.see.edits", "from_trace"),
    "in_batches": ("translucid.tasks.in_batches", "in_batches"),
    "load": ("translucid.model", "load"),
    "models": ("translucid.models", None),
    "pad": ("translucid.data.batching", "pad"),
    "position": ("translucid.parts.positions", "position"),
    "read_lines": ("translucid.data.readers.lines", "read_lines"),
    "resume": ("translucid.model", "resume"),
    "task": ("translucid.tasks.registry", "task"),
    "train": ("translucid.model", "train"),
    "worked": ("translucid.worked", None),
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
    module_name, attribute = _HOMES[name]
    module = import_module(module_name)
    value = module if attribute is None else getattr(module, attribute)
    globals()[name] = value  # found directly the next time
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
