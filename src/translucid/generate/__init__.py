"""Text generation: beam search, sampling and constraints."""

from typing import TYPE_CHECKING

from translucid.core.lazy import lazy_exports

if TYPE_CHECKING:  # for type checkers and editors; must agree with the table below
    from translucid.generate.beam_search import GenerationConfig as GenerationConfig
    from translucid.generate.beam_search import Hypothesis as Hypothesis
    from translucid.generate.beam_search import search as search
    from translucid.generate.constraints import forbid as forbid
    from translucid.generate.decode import draw as draw
    from translucid.generate.decode import find as find
    from translucid.generate.sampling import SamplingConfig as SamplingConfig
    from translucid.generate.table_model import END as END
    from translucid.generate.table_model import PAD as PAD
    from translucid.generate.table_model import TableModel as TableModel

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "beam_search": ["GenerationConfig", "Hypothesis", "search"],
        "constraints": ["forbid"],
        "decode": ["draw", "find"],
        "sampling": ["SamplingConfig"],
        "table_model": ["END", "PAD", "TableModel"],
    },
)
