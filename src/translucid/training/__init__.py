"""The training loop, its state and optimizers."""

from typing import TYPE_CHECKING

from translucid.core.lazy import lazy_exports

if TYPE_CHECKING:  # for type checkers and editors; must agree with the table below
    from translucid.training.optimizers import OptimizerName as OptimizerName
    from translucid.training.optimizers import ScheduleName as ScheduleName
    from translucid.training.optimizers import make_optimizer as make_optimizer
    from translucid.training.optimizers import rate as rate

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "optimizers": ["OptimizerName", "ScheduleName", "make_optimizer", "rate"],
    },
)
