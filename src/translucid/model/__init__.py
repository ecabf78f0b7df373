"""The trained model in Python: load it, train it, compare it with others."""

from typing import TYPE_CHECKING

from translucid.core.lazy import lazy_exports

if TYPE_CHECKING:  # for type checkers and editors; must agree with the table below
    from translucid.model.comparison import compare as compare
    from translucid.model.model import Model as Model
    from translucid.model.model import load as load
    from translucid.model.trainer import resume as resume
    from translucid.model.trainer import train as train

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {"comparison": ["compare"], "model": ["Model", "load"], "trainer": ["resume", "train"]},
)
