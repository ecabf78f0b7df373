"""Text tasks that each test one difficulty: memory, position, word order, length, mixing words.

Each label is a function of the text, and no word reveals it without its position. The same seed
gives the same texts on every machine, and text n of a split does not depend on the size of the
split.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count as numbers
from itertools import islice
from typing import Literal, get_args

from translucid.core.errors import ConfigError
from translucid.data.toyland.generate import SPLITS, split_of
from translucid.data.toyland.lexicon import SeededRandom

TextTask = Literal["recall", "position", "order", "longer", "mixing"]
TEXT_TASKS: tuple[TextTask, ...] = get_args(TextTask)
ANIMALS = ("ant", "bear", "cat", "dog", "elk", "fox", "goat", "horse")
FILLERS = ("one", "two", "three", "four", "five", "six", "seven", "eight")
DENSITIES = (0.5, 0.25, 0.1, 0.05)  # fraction of animals in a text of `longer`
MOST_WORDS = 10_000  # of a text
_ATTEMPTS = 5000  # draws without a new text after which none is expected


@dataclass(frozen=True)
class TaskText:
    """A text with its label: one word for the whole text, or one word for each of its words."""

    words: tuple[str, ...]
    labels: tuple[str, ...]

    @property
    def text(self) -> str:
        return " ".join(self.words)


Draw = Callable[[SeededRandom, int], Sequence[TaskText]]  # texts of at most this many words


@dataclass(frozen=True)
class _Rule:
    draw: Draw
    trains: Literal["classify", "tag"]
    length: int  # default of --length
    least: int  # smallest --length
    summary: str


def _some(rng: SeededRandom, words: Sequence[str], count: int) -> tuple[str, ...]:
    return tuple(rng.pick(words) for _ in range(count))


def _recall(rng: SeededRandom, length: int) -> list[TaskText]:
    words = _some(rng, ANIMALS, length)
    return [TaskText(words, words[:1])]


def _position(rng: SeededRandom, length: int) -> list[TaskText]:
    words = _some(rng, ANIMALS, rng.pick(range(2, length + 1)))
    return [TaskText(words, ("first", *["inside"] * (len(words) - 2), "last"))]


def _order(rng: SeededRandom, length: int) -> list[TaskText]:
    """A text with one cat and one dog, and the same text with these two swapped."""
    words = list(_some(rng, FILLERS, length))
    cat = rng.pick(range(length))
    dog = (cat + rng.pick(range(1, length))) % length
    texts = []
    for first, second in ((cat, dog), (dog, cat)):
        words[first], words[second] = "cat", "dog"
        texts.append(TaskText(tuple(words), ("cat" if first < second else "dog",)))
    return texts


def _mixing(rng: SeededRandom, length: int) -> list[TaskText]:
    words = _some(rng, ANIMALS, rng.pick(range(2, length + 1)))
    return [TaskText(words, ("none", *words[:-1]))]


def _latest(rng: SeededRandom, length: int, least: int = 2) -> list[TaskText]:
    """Animals among fillers; a word's tag is the last animal up to this word."""
    density = rng.pick(DENSITIES)
    words, tags = [rng.pick(ANIMALS)], list[str]()
    for place in range(rng.pick(range(least, length + 1))):
        if place:
            words.append(rng.pick(ANIMALS if rng.flip(density) else FILLERS))
        tags.append(words[-1] if words[-1] in ANIMALS else tags[-1])
    return [TaskText(tuple(words), tuple(tags))]


_RULES: dict[TextTask, _Rule] = {
    "recall": _Rule(_recall, "classify", 20, 2, "the label is the first word"),
    "position": _Rule(_position, "tag", 10, 2, "the tag is the position: first, inside or last"),
    "order": _Rule(_order, "classify", 10, 2, "the label is the animal that comes first"),
    "longer": _Rule(_latest, "tag", 16, 2, "the tag is the last animal up to the word"),
    "mixing": _Rule(_mixing, "tag", 8, 2, "the tag is the previous word, or none"),
}


@dataclass(frozen=True)
class TextTasks:
    """The texts of one task and seed. `length`: the maximum number of words in a training text.

    The texts of `recall` and `order` all have this length. `longer` has two more splits, `test-2x`
    and `test-4x`, with texts of up to two and four times the length.
    """

    task: TextTask
    length: int = 0  # 0: the task's default
    seed: int = 0

    def __post_init__(self) -> None:
        if self.task not in TEXT_TASKS:
            raise ConfigError(f"task = {self.task!r}: choose one of {', '.join(TEXT_TASKS)}")
        rule = _RULES[self.task]
        if not self.length:
            object.__setattr__(self, "length", rule.length)
        if not rule.least <= self.length <= MOST_WORDS:
            raise ConfigError(
                f"length = {self.length}: task {self.task} needs texts of {rule.least} to "
                f"{MOST_WORDS:,} words"
            )

    @property
    def trains(self) -> Literal["classify", "tag"]:
        """The task of `translucid train` that reads the files."""
        return _RULES[self.task].trains

    @property
    def summary(self) -> str:
        """The rule of the labels, in one line."""
        return _RULES[self.task].summary

    @property
    def splits(self) -> tuple[str, ...]:
        """The names of the splits."""
        return (*SPLITS, "test-2x", "test-4x") if self.task == "longer" else SPLITS

    def texts(self, split: str, count: int) -> list[TaskText]:
        """The first `count` different texts of a split; no text is in two splits."""
        if split not in self.splits:
            raise ConfigError(f"split = {split!r}: choose one of {', '.join(self.splits)}")
        texts = list(islice(self._stream(split), count))
        if len(texts) < count:
            raise ConfigError(
                f"task {self.task} has too few different texts of {self.length} words: {split} has "
                f"{len(texts):,}, not {count:,}; choose a larger length or fewer texts"
            )
        return texts

    def _stream(self, split: str) -> Iterator[TaskText]:
        """Yield the different texts of a split, until many draws in a row give no new one."""
        seen: set[tuple[str, ...]] = set()
        newest = 0
        for index in numbers():
            rng = SeededRandom(f"{self.task} {self.length} {split} {self.seed} {index}")
            for text in self._drawn(rng, split):
                if text.words not in seen:
                    seen.add(text.words)
                    newest = index
                    yield text
            if index - newest > _ATTEMPTS:
                return

    def _drawn(self, rng: SeededRandom, split: str) -> Sequence[TaskText]:
        if split not in SPLITS:  # longer than any text of the other splits
            times = 2 if split == "test-2x" else 4
            return _latest(rng, times * self.length, times // 2 * self.length + 1)
        texts = _RULES[self.task].draw(rng, self.length)
        # Texts with the same words in another order are in the same split.
        return texts if split_of(" ".join(sorted(texts[0].words))) == split else ()
