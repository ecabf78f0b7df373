"""A model that was asked by another task's command: which command it answers to."""

from collections.abc import Sequence

from translucid import shipped_models
from translucid.errors import WrongTaskError


def other_command(error: WrongTaskError, arguments: Sequence[str]) -> str:
    """What to type instead. arguments: the command, and what stood behind it."""
    command, *rest = arguments
    model = next((word for word in rest[:1] if not word.startswith("-")), "MODEL")
    message = (
        f"{model}: this model is for task {error.task}; use translucid {error.command} {model}"
    )
    fitting = [
        name for name, about in zip(shipped_models.names(), shipped_models.manifest().values(),
                                    strict=True)
        if about["command"] == command
    ]  # fmt: skip
    return message + (f"; for {command} there are {', '.join(fitting)}" if fitting else "")
