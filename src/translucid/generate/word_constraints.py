"""Constraints on words: which words a text must contain, and which it must not."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from translucid.core.errors import InputError
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.generate import constraints
from translucid.generate.beam_search import GenerationConfig
from translucid.generate.constraints import Constraint, behind_start

NamedConstraint = tuple[str, Constraint]  # (reason for forbidding a token, constraint)


@dataclass(frozen=True)
class WordConstraints:
    """Words that a text must not contain, and words that it must contain at given positions.

    A position is the index of a generated token, counted from 0. A forced word may also be a token
    id.
    """

    forbid: Sequence[str] = ()
    force: Mapping[int, str | int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if isinstance(self.forbid, str):
            raise InputError(
                f"forbid = {self.forbid!r}: must be a list of words; write [{self.forbid!r}]"
            )

    def token_constraints(
        self, tokenizer: Tokenizer, config: GenerationConfig, start: int, *, special: int = 1
    ) -> list[NamedConstraint]:
        """These constraints and those of `config` on repetition, each with a description. Texts
        begin after a prefix of `start` tokens, the first `special` of which are special tokens."""
        special = 0 if config.count_start else special
        constraints_: list[NamedConstraint] = []
        for word in self.forbid:
            words = f"{word!r} is forbidden"
            constraints_ += [
                (words, constraints.forbid_run(ids)) for ids in spellings(tokenizer, word)
            ]
        places = self._places(tokenizer)
        for place, token in places.items():
            words = f"position {place} is for {tokenizer.pieces([token])[0].strip()!r}"
            constraints_.append((words, constraints.force({place: token}, start)))
        if config.no_repeat_ngram:
            run = "it was generated before" if config.no_repeat_ngram == 1 else (
                f"this sequence of {config.no_repeat_ngram} tokens was generated before"
            )  # fmt: skip
            constraints_.append(
                (run, behind_start(constraints.no_repeat(config.no_repeat_ngram), special))
            )
        if config.repetition_penalty != 1:
            constraints_.append(
                ("", behind_start(constraints.repetition(config.repetition_penalty), special))
            )
        return constraints_

    def _places(self, tokenizer: Tokenizer) -> dict[int, int]:
        """The token that is forced at each position. A word of several tokens occupies several
        positions."""
        occupied: dict[int, tuple[int, str | int]] = {}
        for place, word in sorted(self.force.items()):
            if place < 0:
                raise InputError(
                    f"force: {word!r} has the negative position {place}; positions start at 0"
                )
            ids = _spelt(tokenizer, word, place)
            for at, token in enumerate(ids, start=place):
                if at in occupied:
                    raise InputError(
                        f"force: {occupied[at][1]!r} and {word!r} both need position {at}: "
                        f"{word!r} is {len(ids)} token{'s' * (len(ids) > 1)}, "
                        f"{' + '.join(tokenizer.pieces(ids))}; positions count tokens, so choose "
                        "others"
                    )
                occupied[at] = token, word
        return {place: token for place, (token, _) in occupied.items()}


def _spelt(tokenizer: Tokenizer, word: str | int, place: int) -> list[int]:
    """The tokens of a forced word or token id."""
    if isinstance(word, int):
        tokenizer.pieces([word])  # raises if there is no such token
        return [word]
    ids = tokenizer.encode(word if place == 0 else f" {word.lstrip()}")
    _check_known(tokenizer, word, ids, "force")
    return ids


def spellings(tokenizer: Tokenizer, word: str) -> list[list[int]]:
    """The token sequences that spell a word at the beginning of a text, after a space and, if it is
    punctuation, directly after another word."""
    bare = word.strip()
    if not bare:
        raise InputError("forbid: the list contains an empty word; remove it")
    runs = [tokenizer.encode(bare), tokenizer.encode(f" {bare}")]
    if not bare[0].isalnum():
        character, glued = tokenizer.encode("a"), tokenizer.encode(f"a{bare}")
        if glued[: len(character)] == character:
            runs.append(glued[len(character) :])
    known = [tuple(ids) for ids in runs if ids and tokenizer.unk_id not in ids]
    _check_known(tokenizer, word, [i for ids in known for i in ids], "forbid")
    return [list(run) for run in dict.fromkeys(known)]


def _check_known(tokenizer: Tokenizer, word: str, ids: Sequence[int], what: str) -> None:
    if not ids or tokenizer.unk_id in ids:
        parts = word.split()
        unknown = [part for part in parts if tokenizer.unk_id in tokenizer.encode(f" {part}")]
        among = f" ({', '.join(map(repr, unknown))})" if unknown and len(parts) > 1 else ""
        raise InputError(
            f"{what}: {word!r} is not in the vocabulary{among}, so it can be neither forced nor "
            "forbidden; check its spelling and capitals"
        )
