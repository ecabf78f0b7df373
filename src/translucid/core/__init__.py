"""Code that all other packages use: errors, configuration, registries, tracing, files, progress."""

from typing import TYPE_CHECKING

from translucid.core.lazy import lazy_exports as lazy_exports

if TYPE_CHECKING:  # for type checkers and editors; must agree with the table below
    from translucid.core.atomic_files import saving as saving
    from translucid.core.atomic_files import write_text as write_text
    from translucid.core.errors import ConfigError as ConfigError
    from translucid.core.errors import InputError as InputError
    from translucid.core.errors import TrainingError as TrainingError
    from translucid.core.errors import nearest as nearest
    from translucid.core.progress import Progress as Progress
    from translucid.core.progress import duration as duration
    from translucid.core.trace import Edit as Edit
    from translucid.core.trace import NoTrace as NoTrace

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "atomic_files": ["saving", "write_text"],
        "errors": ["ConfigError", "InputError", "TrainingError", "nearest"],
        "progress": ["Progress", "duration"],
        "trace": ["Edit", "NoTrace"],
    },
)
