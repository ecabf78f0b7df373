"""Sequence models you can see through.

The names below are the public API. They are imported on first use, so that `import translucid` and
the help of the command line do not wait for torch.
"""

from typing import TYPE_CHECKING

from translucid.core.lazy import lazy_exports

if TYPE_CHECKING:  # for type checkers and editors; must agree with the table below
    from translucid import models as models
    from translucid import worked as worked
    from translucid._version import __version__ as __version__
    from translucid.core import catalogue as catalogue
    from translucid.core.errors import InputError as InputError
    from translucid.core.errors import StopTraining as StopTraining
    from translucid.core.errors import TranslucidError as TranslucidError
    from translucid.core.trace import NO_TRACE as NO_TRACE
    from translucid.core.trace import Trace as Trace
    from translucid.data.batching import pad as pad
    from translucid.data.readers.lines import read_lines as read_lines
    from translucid.data.records import Record as Record
    from translucid.model import Model as Model
    from translucid.model import compare as compare
    from translucid.model import load as load
    from translucid.model import resume as resume
    from translucid.model import train as train
    from translucid.models import build as build
    from translucid.parts.positions import position as position
    from translucid.see.edits import from_trace as from_trace
    from translucid.tasks.base import Score as Score
    from translucid.tasks.base import Task as Task
    from translucid.tasks.batch import Batch as Batch
    from translucid.tasks.choices import OneLabel as OneLabel
    from translucid.tasks.choices import Tags as Tags
    from translucid.tasks.example import Example as Example
    from translucid.tasks.in_batches import in_batches as in_batches
    from translucid.tasks.outputs import Values as Values
    from translucid.tasks.registry import task as task
    from translucid.tasks.score import Baseline as Baseline
else:  # hidden from type checkers, which then report unknown names
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "_version": ["__version__"],
            "core.errors": ["InputError", "StopTraining", "TranslucidError"],
            "core.trace": ["NO_TRACE", "Trace"],
            "data.batching": ["pad"],
            "data.readers.lines": ["read_lines"],
            "data.records": ["Record"],
            "model": ["Model", "compare", "load", "resume", "train"],
            "models": ["build"],
            "parts.positions": ["position"],
            "see.edits": ["from_trace"],
            "tasks.base": ["Score", "Task"],
            "tasks.batch": ["Batch"],
            "tasks.choices": ["OneLabel", "Tags"],
            "tasks.example": ["Example"],
            "tasks.in_batches": ["in_batches"],
            "tasks.outputs": ["Values"],
            "tasks.registry": ["task"],
            "tasks.score": ["Baseline"],
        },
        modules=["core.catalogue", "models", "worked"],
    )
