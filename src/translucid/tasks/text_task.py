"""Base class for tasks that read one text as token ids between special tokens."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from torch import Tensor, nn

from translucid.data.batching import pad
from translucid.data.readers.loading import Loading
from translucid.data.records import Text
from translucid.data.tokenizers.pipelines import Kind
from translucid.data.tokenizers.special_tokens import Role
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.tasks.base import Item, Record, Task
from translucid.tasks.example import Example, TokenInput
from translucid.tasks.options import DataConfig
from translucid.tasks.words import Words, readable


def linear_baseline(tokenizer: Kind) -> dict[str, dict[str, Any]]:
    """The recipe keys of a linear model whose vocabulary contains (nearly) all words."""
    words = {"kind": tokenizer, "vocab_size": 1 << 18}
    return {"model": {"kind": "linear"}, "tokenizer": words}


class TextTask(Task[Record, Item]):
    """A task whose items have the `ids` of one text. Long input texts are not rejected, but
    truncated or read in windows."""

    around: ClassVar[tuple[Role | None, Role | None]] = ("bos", "eos")

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.frame = tokenizer.frame(*self.around)

    def encode_text(self, text: str) -> list[int]:
        """The ids of a text with its special tokens, so that an empty text has ids too."""
        return self.frame(self.tokenizer.encode(text))

    def sizes(self, item: Any) -> tuple[int, ...]:
        return (len(item.ids),)

    def shorten(self, item: Any, max_length: int) -> Any:
        return replace(item, ids=self.frame.shorten(item.ids, max_length))

    def check_question(self, question: Any, where: str, network: nn.Module) -> None:
        pass

    def padded(self, texts: Sequence[Sequence[int]]) -> dict[str, Tensor]:
        """The inputs of an encoder: ids and mask, (texts, length)."""
        ids, mask = pad(texts, self.tokenizer.pad_id)
        return {"ids": ids, "mask": mask}

    def labelled_example(
        self, text: str, item: Item, tokens: Sequence[str], outputs: Sequence[str] = ()
    ) -> Example:
        """Make an example from an item. tokens: labels of the text's tokens, without special
        tokens."""
        start, end = (
            readable(self.tokenizer, ids) for ids in (self.frame.prefix, self.frame.suffix)
        )
        words = Words((*start, *tokens, *end), outputs=tuple(outputs))
        return Example(text, self.collate([item]), words, source=TokenInput("ids", self.tokenizer))


def read_texts(files: Sequence[str], data: DataConfig, loading: Loading) -> Iterable[Text]:
    """Read the documents of a file."""
    from translucid.data.readers import read  # most uses of a model read no files

    return read.read_text(
        files[0], column=data.text_column, unit=data.unit, keep_empty=data.keep_empty,
        rule=data.rule, loading=loading,
    )  # fmt: skip
