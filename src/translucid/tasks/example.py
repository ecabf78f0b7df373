"""One text as a network reads it: tensors, and the words that stand for them."""

from dataclasses import dataclass, replace

from torch import Tensor, nn

from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.tasks.batch import Batch
from translucid.tasks.words import Words

MASKS = ("mask", "source_mask", "target_mask")  # all True where there is one text


@dataclass(frozen=True)
class TokenInput:
    """An input of the network that holds token ids."""

    name: str  # of the argument
    tokenizer: Tokenizer  # whose ids they are


@dataclass(frozen=True)
class Example:
    """What a network is called with, and what people call it."""

    text: str
    batch: Batch  # a target that was not given is IGNORE; of values, there is none: (1, 0)
    words: Words
    source: TokenInput | None = None  # what words.source stands for
    target: TokenInput | None = None  # what words.target stands for
    note: str = ""  # how what was given became what is read, where that is not plain
    starts: tuple[tuple[int, str], ...] = ()  # of a tag for each word: where it begins, the word

    def __post_init__(self) -> None:
        inputs = {name: value for name, value in self.batch.inputs.items() if name not in MASKS}
        object.__setattr__(self, "batch", replace(self.batch, inputs=inputs))

    def inputs_for(self, network: nn.Module) -> dict[str, Tensor]:
        """On the network's device, and numbers in its precision."""
        like = next(network.parameters())
        return {
            name: value.to(like) if value.is_floating_point() else value.to(like.device)
            for name, value in self.batch.inputs.items()
        }

    @property
    def tokens(self) -> int:
        """Of the longest input; 0 where none holds tokens."""
        inputs = [ids for ids in self.batch.inputs.values() if not ids.is_floating_point()]
        return max((value.shape[1] for value in inputs if value.dim() > 1), default=0)

    @property
    def target_ids(self) -> list[int]:
        """What a decoder has read, one token before each that it should write."""
        if self.target is None:
            return []
        ids: list[int] = self.batch.inputs[self.target.name][0].tolist()
        return ids
