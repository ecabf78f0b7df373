"""One text as a network reads it: tensors, and the words that stand for them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from translucid.data.batching import pad
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.tasks.batch import IGNORE, Batch
from translucid.tasks.words import Words, readable

# The mask of each input; all True where there is one text.
MASKS = {"ids": "mask", "source": "source_mask", "target": "target_mask"}


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
        masks = MASKS.values()
        inputs = {name: value for name, value in self.batch.inputs.items() if name not in masks}
        object.__setattr__(self, "batch", replace(self.batch, inputs=inputs))

    @classmethod
    def of_tokens(cls, text: str, batch: Batch, tokenizer: Tokenizer) -> "Example":
        """One text that the network reads as `ids`, labelled with its tokens."""
        tokens = readable(tokenizer, batch.inputs["ids"][0].tolist())
        return cls(text, batch, Words(tokens), TokenInput("ids", tokenizer))

    def inputs_for(self, network: nn.Module) -> dict[str, Tensor]:
        """On the network's device, and numbers in its precision."""
        return inputs_for(network, self.batch)

    @property
    def tokens(self) -> int:
        """Of the longest input; 0 where none holds tokens."""
        inputs = [ids for ids in self.batch.inputs.values() if not ids.is_floating_point()]
        return max((value.shape[1] for value in inputs if value.dim() > 1), default=0)

    @property
    def can_be_padded(self) -> bool:
        """Whether all that the network reads are tokens, whose padding it can be told."""
        sides = {side.name for side in (self.source, self.target) if side is not None}
        return sides == self.batch.inputs.keys() and sides <= MASKS.keys()

    @property
    def target_ids(self) -> list[int]:
        """What a decoder has read, one token before each that it should write."""
        if self.target is None:
            return []
        ids: list[int] = self.batch.inputs[self.target.name][0].tolist()
        return ids


def inputs_for(network: nn.Module, batch: Batch) -> dict[str, Tensor]:
    """On the network's device, and numbers in its precision."""
    like = next(network.parameters())
    return {
        name: value.to(like) if value.is_floating_point() else value.to(like.device)
        for name, value in batch.inputs.items()
    }


def padded(examples: Sequence[Example]) -> Batch:
    """Texts that can be padded as the rows of one batch."""
    inputs: dict[str, Tensor] = {}
    for side in (examples[0].source, examples[0].target):
        if side is not None:
            rows = [one.batch.inputs[side.name][0].tolist() for one in examples]
            inputs[side.name], inputs[MASKS[side.name]] = pad(rows, side.tokenizer.pad_id)
    targets = [one.batch.targets for one in examples]  # (1,) or (1, length) of each
    if targets[0].dim() > 1:
        targets = [pad([one[0].tolist() for one in targets], IGNORE)[0]]
    return Batch(inputs, torch.cat(targets), sum(one.batch.count for one in examples))
