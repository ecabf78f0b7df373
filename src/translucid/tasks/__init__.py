"""Tasks such as translation or tagging: how data is read, models are scored, and outputs
interpreted."""

from typing import TYPE_CHECKING

from translucid.core.lazy import lazy_exports

if TYPE_CHECKING:  # for type checkers and editors; must agree with the table below
    from translucid.tasks.batch import IGNORE as IGNORE
    from translucid.tasks.loss import cross_entropy as cross_entropy
    from translucid.tasks.metrics import span_f1 as span_f1
    from translucid.tasks.significance import incomplete_beta as incomplete_beta
    from translucid.tasks.significance import t_probability as t_probability
    from translucid.tasks.significance import t_quantile as t_quantile

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "batch": ["IGNORE"],
        "loss": ["cross_entropy"],
        "metrics": ["span_f1"],
        "significance": ["incomplete_beta", "t_probability", "t_quantile"],
    },
)
