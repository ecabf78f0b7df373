"""Data for models: file readers, tokenizers, batching, and Toyland, a built-in synthetic corpus."""

from typing import TYPE_CHECKING

from translucid.core.lazy import lazy_exports

if TYPE_CHECKING:  # for type checkers and editors; must agree with the table below
    from translucid.data.tokenizers.tokenizer import Tokenizer as Tokenizer
    from translucid.data.toyland import Sentence as Sentence
    from translucid.data.toyland import Toyland as Toyland

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "tokenizers.tokenizer": ["Tokenizer"],
        "toyland": ["Sentence", "Toyland"],
    },
)
