"""Generate sentences by number. The same seed and index give the same sentence on every machine.

Each seed has an endless stream of candidates. The German text of a candidate determines whether it
is for training, validation or test. So no sentence in either language is ever in two splits,
whatever the seed and count.
"""

from collections.abc import Callable, Iterator
from functools import partial
from hashlib import blake2b
from itertools import count as numbers
from itertools import islice

from translucid.core.errors import ConfigError
from translucid.data.toyland import nested, opinions, sentences
from translucid.data.toyland.cast import Cast
from translucid.data.toyland.lexicon import SeededRandom
from translucid.data.toyland.words import PhrasePair, Sentence, finish

SPLITS = ("train", "valid", "test")
LABELS = ("negative", "neutral", "positive")
MIN_WORDS, MAX_WORDS = 4, 20  # English words, punctuation not counted
_SLOTS = {"train": range(14), "valid": range(14, 17), "test": range(17, 20)}  # of 20 hash values

# Weight, name and builder of every family of sentences.
TELLING: tuple[tuple[float, tuple[str, Callable[[Cast], PhrasePair | None]]], ...] = (
    (7, ("simple", sentences.simple)),
    (7, ("fronted", sentences.fronted)),
    (5, ("perfect", partial(sentences.simple, tense="perfect"))),
    (5, ("modal", partial(sentences.simple, tense="modal"))),
    (6, ("separable", sentences.separable)),
    (4, ("giving", sentences.giving)),
    (3, ("things", sentences.things)),
    (4, ("geography", sentences.geography)),
    (4, ("business", sentences.business)),
    (9, ("reported", sentences.reported)),
    (7, ("coordination", sentences.coordination)),
    (5, ("chain", sentences.chain)),
    (5, ("contrast", sentences.contrast)),
    (12, ("subordinate-last", partial(nested.with_side, side_first=False))),
    (10, ("subordinate-first", partial(nested.with_side, side_first=True))),
    (11, ("relative-subject", nested.relative_subject)),
    (9, ("relative-object", nested.relative_object)),
)
JUDGING: tuple[tuple[float, tuple[str, Callable[[Cast, int], PhrasePair | None]]], ...] = (
    (12, ("evaluation", opinions.evaluation)),
    (11, ("taste", opinions.taste)),
    (7, ("naming", opinions.naming)),
    (18, ("two-sides", opinions.two_sides)),
    (15, ("concession", opinions.concession)),
    (10, ("disagreement", opinions.disagreement)),
    (14, ("grounds", opinions.grounds)),
    (12, ("hearsay", opinions.hearsay)),
    (10, ("reputation", opinions.reputation)),
)
STRUCTURES = tuple(name for _, (name, _) in (*TELLING, *JUDGING))
_NEUTRAL_FRACTION = 0.57


def candidate(seed: int, index: int) -> Sentence | None:
    """The sentence with this index, which may belong to any split; None if its words do not fit
    together."""
    rng = SeededRandom(f"toyland {seed} {index}")
    cast = Cast(rng)
    if rng.flip(_NEUTRAL_FRACTION):
        name, build = rng.weighted(TELLING)
        parts, label = build(cast), "neutral"
    else:
        polarity = rng.pick((1, -1))
        name, judge = rng.weighted(JUDGING)
        parts, label = judge(cast, polarity), "positive" if polarity > 0 else "negative"
    return finish(parts, label, name) if parts else None


def split_of(german: str) -> str:
    digest = blake2b(german.lower().encode(), digest_size=8).digest()
    slot = int.from_bytes(digest, "big") % 20
    return next(split for split, slots in _SLOTS.items() if slot in slots)


class Toyland:
    """All sentences of one seed. They are generated when you iterate over them."""

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    def sentences(self, split: str = "train", count: int | None = None) -> Iterator[Sentence]:
        """The first `count` different sentences of a split; without a count, an endless
        iterator."""
        if split not in SPLITS:
            raise ConfigError(f"split = {split!r}: choose one of {', '.join(SPLITS)}")
        if count is not None and count < 0:
            raise ConfigError(f"count = {count}: must be zero or more")
        return islice(self._stream(split), count)

    def _stream(self, split: str) -> Iterator[Sentence]:
        seen: set[str] = set()
        for index in numbers():
            sentence = candidate(self.seed, index)
            if sentence is None or not MIN_WORDS <= sentence.length <= MAX_WORDS:
                continue
            text = sentence.target.lower()
            if split_of(text) == split and text not in seen:
                seen.add(text)
                yield sentence


def generate(count: int, seed: int = 0, split: str = "train") -> Iterator[Sentence]:
    """The first `count` sentences of a split of `Toyland(seed)`."""
    return Toyland(seed).sentences(split, count)
