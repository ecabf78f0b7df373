"""The class `Tokenizer`: converts text to token ids and back.

A tokenizer trained with Translucid has four special tokens with fixed ids; an imported tokenizer
has its own. Text never produces special tokens: a literal `</s>` stays text.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, islice
from pathlib import Path
from typing import Literal

from tokenizers import Encoding
from tokenizers import Tokenizer as Backend

from translucid.core.errors import (
    ConfigError,
    InputError,
    TokenizerMismatchError,
    nearest,
)
from translucid.data.tokenizers import files
from translucid.data.tokenizers.imported import IMPORTED, Imported
from translucid.data.tokenizers.pipelines import (
    BYTE_LEVEL,
    BYTE_OF,
    KINDS,
    MAX_BYTES,
    SPECIAL,
    UNK,
    WORD_START,
    WORDS,
    Kind,
    checked,
    guarded,
    trained,
)
from translucid.data.tokenizers.special_tokens import Roles, SpecialTokens
from translucid.data.tokenizers.surface import Unit

MOST = 1 << 16  # number of cached words, about 30 MB


@dataclass(frozen=True)
class WordIds:
    ids: list[int]
    own: list[bool]  # whether each id covers more than the space before the word


class WordPieces:
    """A cache of the ids of words. A word is encoded with a space before it, unless it is the first
    word of a sentence."""

    def __init__(
        self, encode: Callable[[list[str]], Sequence[tuple[list[int], Encoding]]], most: int = MOST
    ) -> None:
        self._encode, self._most = encode, most
        self._known: dict[tuple[bool, str], WordIds] = {}

    def of(self, words: Sequence[str]) -> list[WordIds]:
        places = [(i == 0, word) for i, word in enumerate(words)]
        known = {place: self._known.get(place) for place in places}
        new = [place for place, pieces in known.items() if pieces is None]
        texts = [word if first else f" {word}" for first, word in new]
        made = {
            place: WordIds(ids, [place[0] or end > 1 for _, end in encoding.offsets])
            for place, (ids, encoding) in zip(
                new, self._encode(texts) if texts else (), strict=True
            )
        }
        if len(self._known) > self._most:
            self._known = {}  # common words are soon cached again
        self._known.update(made)
        return [known[place] or made[place] for place in places]


_CHUNK = 4096  # texts passed to the library at once


class Shown(dict[int, str]):
    """The text of each id, which is computed when it is first needed."""

    def __init__(self, pieces: list[bytes], *, word: bool) -> None:
        self.pieces, self.word = pieces, word

    def __missing__(self, token: int) -> str:
        text = self.pieces[token].decode("utf-8", errors="backslashreplace")
        self[token] = text = text.removeprefix(" ") if self.word else text
        return text


class Tokenizer(Roles):
    """Converts text to token ids and back. Created by `Tokenizer.train`, `Tokenizer.load` or
    `Tokenizer.imported`. If source and target have a joint vocabulary, both use the same object."""

    vocab: Mapping[str, int]

    def __init__(
        self, kind: Kind | Literal["imported"], backend: Backend, max_bytes: int = MAX_BYTES,
        imported: Imported | None = None,
    ) -> None:  # fmt: skip
        self.kind = kind
        self.max_bytes = max_bytes
        self._backend, self._imported = backend, imported
        if imported is not None:
            self.special, self._pieces = imported.special, imported.names
            self.vocab = dict(zip(self._pieces, range(len(self._pieces)), strict=True))
            self._check_roles(imported)
            return
        vocab = backend.get_vocab()
        self.vocab = dict(sorted(vocab.items(), key=lambda item: item[1]))
        self._pieces = list(self.vocab)
        if list(self.vocab.values()) != list(range(len(vocab))) or self._pieces[:4] != [*SPECIAL]:
            raise InputError(
                f"the vocabulary must number its tokens from 0 on without gaps, beginning with "
                f"{', '.join(SPECIAL)}"
            )
        if any(i < UNK for i in self.encode(" ".join(SPECIAL) + "".join(SPECIAL))):
            raise InputError(
                "text can produce a special token of this vocabulary; use another tokenizer"
            )

    @classmethod
    def imported(cls, imported: Imported, *, max_bytes: int | None = None) -> "Tokenizer":
        """Create a tokenizer from the tokenizer that came with a model."""
        with guarded("making the tokenizer"):
            limit = imported.max_bytes if max_bytes is None else min(max_bytes, imported.max_bytes)
            return cls(IMPORTED, imported.backend(), limit, imported)

    @property
    def source(self) -> Imported | None:
        """The file and roles of an imported tokenizer; None if it was trained with Translucid."""
        return self._imported

    @property
    def own_kind(self) -> Kind:
        """The kind of a tokenizer trained with Translucid."""
        assert self.kind != IMPORTED
        return self.kind

    def normalised(self, text: str) -> str:
        """The text as it is normalised before it is split, for example in lower case."""
        normalizer = self._backend.normalizer
        return text if normalizer is None else str(normalizer.normalize_str(text))

    def with_special(self, special: SpecialTokens) -> "Tokenizer":
        """A copy of an imported tokenizer in which tokens have different roles."""
        if self._imported is None:
            raise InputError(f"the special tokens of a {self.kind} tokenizer are fixed")
        return Tokenizer.imported(self._imported.with_roles(special, self._imported.hidden))

    def _check_roles(self, imported: Imported) -> None:
        wrong = [i for i in (*imported.special_ids, *imported.hidden) if not 0 <= i < len(self)]
        if wrong:
            raise InputError(
                f"token {wrong[0]} is set as a special token, but this tokenizer only has ids up "
                f"to {len(self) - 1:,}; its files do not belong together, so copy them again"
            )
        names = [self._pieces[i] for i in sorted(imported.special_ids)][:64]
        if imported.special_ids.intersection(self.encode(" ".join(names) + "".join(names))):
            raise InputError(
                "text can produce a special token of this vocabulary; use another tokenizer"
            )

    @classmethod
    def train(
        cls,
        kind: Kind,
        texts: Iterable[str],
        vocab_size: int | None = None,
        *,
        min_frequency: int | None = None,
        progress: Callable[[int], None] | None = None,
        max_bytes: int = MAX_BYTES,
    ) -> "Tokenizer":
        """Learn a vocabulary from texts. The same texts give the same vocabulary on any machine.

        vocab_size: default 8000 for bpe and unigram; for word, space and char, all pieces that
        occur. min_frequency: how often a piece must occur (default: 2 for bpe, 1 for the others).
        progress: called with the number of texts read so far.
        """
        if kind not in KINDS:
            close = nearest(kind, KINDS, 1)
            hint = f"did you mean {close[0]}?" if close else f"choose from {', '.join(KINDS)}"
            raise ConfigError(f"kind = {kind!r}: no such kind of tokenizer; {hint}")
        read = 0

        def feed() -> Iterator[str]:
            nonlocal read
            for read, text in enumerate(texts, start=1):
                yield from checked(text, max_bytes, f"text {read}", by_line=True)
                if progress is not None and read % 1000 == 0:
                    progress(read)

        with guarded("training the tokenizer"):
            backend = trained(kind, feed(), vocab_size, min_frequency)
        if progress is not None and read % 1000:
            progress(read)
        if not read or backend.get_vocab_size() == len(SPECIAL):
            raise InputError(
                f"the tokenizer cannot learn, because all texts are empty ({read} read); pass "
                "at least one that is not"
            )
        return cls(kind, backend, max_bytes)

    # Text to ids

    def encode(self, text: str) -> list[int]:
        """The ids of the text, without bos and eos, which the task adds."""
        return self._ids(text, self._encode(text))

    def encode_masked(self, text: str) -> list[int]:
        """Like `encode`, except that the name of the mask token in the text becomes the mask
        token."""
        first, *others = map(self.encode, self.around_masks(text))
        return [*first, *(i for ids in others for i in (self.mask_id, *ids))]

    def encode_special(self, text: str) -> list[int]:
        """Like `encode`, except that the names of special tokens in the text become these tokens.
        Never use it for text from users, who could write special tokens."""
        ids: list[int] = []
        for part in re.split(f"({'|'.join(map(re.escape, self.special_texts))})", text):
            if part in self.special_texts:
                ids.append(self.vocab[part])
            elif part:
                ids += self.encode(part)
        return ids

    @cached_property
    def special_texts(self) -> list[str]:
        """The names of all special tokens, longest first."""
        names = {self._pieces[i] for i in self.special_ids}
        return sorted(names, key=lambda name: (-len(name), name))

    def around_masks(self, text: str) -> list[str]:
        """Split a text at its mask tokens into the parts before, between and after them. The spaces
        that a mask token removes are removed."""
        parts = text.split(self.mask_token)
        left, right = (False, False) if self._imported is None else self._imported.mask_strips
        if left:
            parts = [*(part.rstrip() for part in parts[:-1]), parts[-1]]
        return [parts[0], *(part.lstrip() if right else part for part in parts[1:])]

    @property
    def mask_token(self) -> str:
        """The mask token as text."""
        return self._pieces[self.mask_id]

    def encode_batch(self, texts: Iterable[str]) -> list[list[int]]:
        """The ids of each of several texts. This is faster than encoding them one by one."""
        ids: list[list[int]] = []
        texts = iter(texts)
        while chunk := list(islice(texts, _CHUNK)):
            for i, text in enumerate(chunk):
                checked(text, self.max_bytes, f"text {len(ids) + i + 1}")
            with guarded("tokenizing"):
                encodings = self._backend.encode_batch_fast(chunk, add_special_tokens=False)
            ids += map(self._ids, chunk, encodings)
        return ids

    def encode_document(self, text: str) -> list[int]:
        """The ids of a text of any size. A text that is too long for `encode` is encoded line by
        line."""
        pieces = checked(text, self.max_bytes, "the document", by_line=True)
        return [i for ids in self.encode_batch(pieces) for i in ids]

    def encode_words(self, words: Sequence[str]) -> tuple[list[int], list[int | None]]:
        """The ids of words joined by spaces and, for each id, the index of its word; None for an id
        that is only a space."""
        if self.kind == IMPORTED:
            return self._encode_joined(words)
        ids: list[int] = []
        index: list[int | None] = []
        for i, word in enumerate(words, start=1):
            checked(word, self.max_bytes, f"word {i}")
        for i, pieces in enumerate(self._word_pieces.of(words)):
            if not any(pieces.own):
                raise _untaggable(words, i)
            ids += pieces.ids
            index += [i if own else None for own in pieces.own]
        return ids, index

    @cached_property
    def _word_pieces(self) -> WordPieces:
        def encode(texts: list[str]) -> Sequence[tuple[list[int], Encoding]]:
            with guarded("tokenizing"):
                encodings = self._backend.encode_batch(texts, add_special_tokens=False)
            return [*zip(map(self._ids, texts, encodings), encodings, strict=True)]

        return WordPieces(encode)

    def _encode_joined(self, words: Sequence[str]) -> tuple[list[int], list[int | None]]:
        """Do what `encode_words` does for an imported tokenizer. Tokens of such a tokenizer may
        cross spaces, so the word of each id is found by character offsets."""
        text = " ".join(words)
        ends = list(accumulate(len(word) + 1 for word in words))
        ids, index = self.encode(text), list[int | None]()
        for first, last in self.offsets(text):
            start = first + len(text[first:last]) - len(text[first:last].lstrip(" "))
            index.append(None if start >= last else bisect_right(ends, start))
        for i in range(len(words)):
            if i not in index:
                raise _untaggable(words, i)
        return ids, index

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """The positions in the text of the ids that `encode` returns: (start, end) in characters.

        If a character consists of several tokens, like an emoji in bytes, each of them has the
        position of the character.
        """
        return list(self._encode(text).offsets)

    def unknown_rate(self, texts: Iterable[str]) -> float:
        """The fraction of unknown tokens; 0 for byte-level kinds."""
        tokens = unknown = 0
        for ids in self.encode_batch(texts):
            tokens += len(ids)
            unknown += ids.count(self.unk_id)
        return unknown / tokens if tokens else 0.0

    def _encode(self, text: str) -> Encoding:
        checked(text, self.max_bytes, "the text")
        with guarded("tokenizing"):
            return self._backend.encode(text, add_special_tokens=False)

    def _ids(self, text: str, encoding: Encoding) -> list[int]:
        ids = list(encoding.ids)
        if self.kind == "word" and UNK in ids:
            return [
                self._spaced_differently(text[first:last].strip()) if i == UNK else i
                for i, (first, last) in zip(ids, self.offsets(text), strict=True)
            ]
        if self._imported is None or self._imported.tokens is None:
            return ids
        return [i if i < len(self._pieces) else self.unk_id for i in ids]

    def _spaced_differently(self, piece: str) -> int:
        """The id of a piece that is unknown as it is written, but is in the vocabulary with a space
        before it or without one. Examples are " ." and the second piece of "(The"."""
        return self.vocab.get(f"{WORD_START}{piece}", self.vocab.get(piece, UNK))

    @cached_property
    def special_ids(self) -> frozenset[int]:
        if self._imported is not None:
            return self._imported.special_ids
        return frozenset(range(len(SPECIAL)))

    @cached_property
    def _left_out(self) -> frozenset[int]:
        """The special tokens that are not part of a text."""
        return self.special_ids - {self.unk_id}

    # Ids to text

    def decode(self, ids: Iterable[int]) -> str:
        """The text of the ids. Special tokens are left out, except for unknown tokens.

        Byte-level kinds return exactly the encoded text, with � for bytes that are not UTF-8.
        """
        return self.text_of(self.spelling(ids))

    def spelling(self, ids: Iterable[int]) -> bytes:
        """The bytes of the ids, without special tokens. Those of a text are those of its parts,
        joined."""
        left_out, pieces = self._left_out, self._bytes
        return b"".join([pieces[i] for i in self._known(ids) if i not in left_out])

    def text_of(self, spelling: bytes) -> str:
        """The text of ids that have this spelling."""
        text = spelling.decode("utf-8", errors="replace")
        spaces = len(text) - len(text.lstrip(" "))
        return text[min(spaces, self._spaces_dropped) :]

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """The text of each id. Bytes that are only a part of a character are shown as escapes, such
        as \\xf0."""
        shown = self._shown
        return [shown[i] for i in self._known(ids)]

    def bytes_of(self, token: int) -> bytes | None:
        """The bytes that a token adds to a decoded text; None for a special token, which adds none.
        The first token may begin with a space that the text does not contain."""
        (token,) = self._known([token])
        return None if token in self.special_ids - {self.unk_id} else self._bytes[token]

    def tokens(self, text: str) -> list[str]:
        return self.pieces(self.encode(text))

    @cached_property
    def _shown(self) -> "Shown":
        """The text of each id."""
        return Shown(self._bytes, word=self.unit == "word")

    @cached_property
    def _bytes(self) -> list[bytes]:
        """The UTF-8 bytes of each id."""
        if self._imported is not None:
            return self._imported.spelling.pieces
        special = [token.encode() for token in SPECIAL]
        if self.kind in BYTE_LEVEL:
            return special + [bytes(BYTE_OF[c] for c in piece) for piece in self._pieces[4:]]
        if self.kind in WORDS:
            special[UNK] = b" " + special[UNK]
        if self.kind == "word":
            return special + [p.replace(WORD_START, " ").encode() for p in self._pieces[4:]]
        return special + [piece.encode() for piece in self._pieces[4:]]

    @cached_property
    def _spaces_dropped(self) -> int:
        """The largest number of spaces to remove from the beginning of a decoded text, because the
        original text did not contain them."""
        return int(self.kind in WORDS) if self._imported is None else self._imported.spelling.spaces

    @cached_property
    def unit(self) -> Unit:
        """The unit that a token represents: word, subword or character. It determines how tokens
        are displayed."""
        if self._imported is not None:
            return self._imported.spelling.unit
        if self.kind in WORDS:
            return "word"
        return "character" if self.kind in ("char", "bytes") else "subword"

    def _known(self, ids: Iterable[int]) -> list[int]:
        known = list(ids)
        if known and not (min(known) >= 0 and max(known) < len(self._pieces)):
            wrong = next(i for i in known if not 0 <= i < len(self._pieces))
            raise InputError(f"there is no token {wrong}; ids must be 0 to {len(self) - 1}")
        return known

    # On disk

    @cached_property
    def fingerprint(self) -> str:
        """A hash that is the same for tokenizers that encode every text in the same way."""
        if self._imported is not None:
            return files.imported_fingerprint(self._imported)
        assert self.kind != IMPORTED
        return files.fingerprint(self.kind, self._backend)

    @property
    def spec(self) -> str:
        """The text of the tokenizer's tokenizer.json."""
        return self._backend.to_str() if self._imported is None else self._imported.spec

    def save(self, folder: str | Path) -> None:
        """Write three files to a folder: tokenizer.json, in Hugging Face's format, and two small
        ones."""
        if self._imported is not None:
            files.write_imported(Path(folder), self._imported, self.fingerprint)
            return
        assert self.kind != IMPORTED
        files.write(Path(folder), self.kind, self._backend, self.fingerprint)

    @classmethod
    def load(
        cls, folder: str | Path, *, expect: str | None = None, max_bytes: int = MAX_BYTES
    ) -> "Tokenizer":
        """Load a tokenizer from a folder. expect: the fingerprint of the tokenizer that a model was
        trained with; a different tokenizer raises an error."""
        with guarded(f"loading {folder}"):
            content = files.read(Path(folder))
            if isinstance(content, Imported):
                tokenizer = cls.imported(content, max_bytes=max_bytes)
            else:
                tokenizer = cls(*content, max_bytes)
        if expect is not None:
            tokenizer.check(expect, str(folder))
        return tokenizer

    def check(self, expect: str, where: str) -> None:
        if self.fingerprint != expect:
            raise TokenizerMismatchError(
                f"{where}: this {self.kind} tokenizer (fingerprint {self.fingerprint[:12]}) is not "
                f"the one the model was trained with ({expect[:12]}), so its ids have different "
                "meanings; use the tokenizer from the model's folder"
            )

    def __len__(self) -> int:
        return len(self._pieces)

    def __repr__(self) -> str:
        return f"Tokenizer({self.kind}, {len(self):,} tokens, {self.fingerprint[:12]})"


def _untaggable(words: Sequence[str], i: int) -> InputError:
    return InputError(
        f"word {i + 1} of {len(words)} is {words[i]!r}, for which the tokenizer has no token, so "
        "it cannot be tagged; remove it and its tag"
    )
