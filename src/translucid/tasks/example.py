"""One text as network input: tensors, with a label for each position."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from translucid.data.batching import pad
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.tasks.batch import IGNORE, Batch
from translucid.tasks.words import Words, readable

# The mask of each input; it is omitted for single texts, where all entries would be True.
MASKS = {"ids": "mask", "source": "source_mask", "target": "target_mask"}


@dataclass(frozen=True)
class TokenInput:
    """The name of a network argument that contains token ids, and its values."""

    name: str
    tokenizer: Tokenizer


@dataclass(frozen=True)
class Example:
    """One text as the input of a network, with the words that label its positions."""

    text: str
    batch: Batch  # without a target, targets are IGNORE or empty, (1, 0)
    words: Words
    source: TokenInput | None = None  # the input that words.source labels
    target: TokenInput | None = None  # the input that words.target labels
    note: str = ""  # how the text was converted, if that is not obvious
    starts: tuple[tuple[int, str], ...] = ()  # for taggers: the first position of each word

    def __post_init__(self) -> None:
        masks = MASKS.values()
        inputs = {name: value for name, value in self.batch.inputs.items() if name not in masks}
        object.__setattr__(self, "batch", replace(self.batch, inputs=inputs))

    @classmethod
    def of_tokens(cls, text: str, batch: Batch, tokenizer: Tokenizer) -> "Example":
        """An example for a network whose input is `ids`; its axes are labelled with the tokens."""
        tokens = readable(tokenizer, batch.inputs["ids"][0].tolist())
        return cls(text, batch, Words(tokens), TokenInput("ids", tokenizer))

    def inputs_for(self, network: nn.Module) -> dict[str, Tensor]:
        """The inputs on the network's device, with floats in its precision."""
        return inputs_for(network, self.batch)

    @property
    def tokens(self) -> int:
        """The number of tokens of the longest input; 0 for numeric inputs."""
        inputs = [ids for ids in self.batch.inputs.values() if not ids.is_floating_point()]
        return max((value.shape[1] for value in inputs if value.dim() > 1), default=0)

    @property
    def can_be_padded(self) -> bool:
        """Whether all inputs are token ids that have a mask."""
        sides = {side.name for side in (self.source, self.target) if side is not None}
        return sides == self.batch.inputs.keys() and sides <= MASKS.keys()

    @property
    def target_ids(self) -> list[int]:
        """The decoder's input ids: the target, shifted right by one token."""
        if self.target is None:
            return []
        ids: list[int] = self.batch.inputs[self.target.name][0].tolist()
        return ids


def inputs_for(network: nn.Module, batch: Batch) -> dict[str, Tensor]:
    """The inputs of a batch on the network's device, with floats in its precision."""
    like = next(network.parameters())
    return {
        name: value.to(like) if value.is_floating_point() else value.to(like.device)
        for name, value in batch.inputs.items()
    }


def padded(examples: Sequence[Example]) -> Batch:
    """Combine examples into one padded batch."""
    inputs: dict[str, Tensor] = {}
    for side in (examples[0].source, examples[0].target):
        if side is not None:
            rows = [one.batch.inputs[side.name][0].tolist() for one in examples]
            inputs[side.name], inputs[MASKS[side.name]] = pad(rows, side.tokenizer.pad_id)
    targets = [one.batch.targets for one in examples]  # (1,) or (1, length) of each
    if targets[0].dim() > 1:
        targets = [pad([one[0].tolist() for one in targets], IGNORE)[0]]
    return Batch(inputs, torch.cat(targets), sum(one.batch.count for one in examples))
