"""The six kinds of tokenizer, built with the `tokenizers` library, and checks of texts before the
library encodes them.

Ordinary text never produces a special token. The library does not search texts for special tokens,
and no kind of tokenizer can produce one:

- `bpe`, `unigram` and `word` split words from punctuation, and each special token contains both.
- Tokens of `char` and `bytes` are single characters, and special tokens are longer.
- Tokens of `space` begin with a space, and special tokens do not.
"""

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, get_args

from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, trainers
from tokenizers import Tokenizer as Backend

from translucid.core.errors import ConfigError, InputError, TranslucidError

Kind = Literal["bpe", "unigram", "word", "space", "char", "bytes"]
KINDS: tuple[Kind, ...] = get_args(Kind)
BYTE_LEVEL: frozenset[Kind] = frozenset({"bpe", "unigram", "bytes"})  # decoding restores any text
SIZED: frozenset[Kind] = frozenset({"bpe", "unigram", "word", "space"})  # have a `vocab_size`
WORDS: frozenset[Kind] = frozenset({"word", "space"})  # have no token for a space between words
SPECIAL = ("<pad>", "<s>", "</s>", "<unk>")
PAD, BOS, EOS, UNK = range(4)

WORD_START = "▁"  # marks a word with a space before it, so that words can be joined again
WORD_PATTERN = rf"{WORD_START}?\w+(?:'\w+)*|{WORD_START}?[^\w\s{WORD_START}]"
SPACE_PATTERN = r" \S+"
_MIN_BYTES = len(SPECIAL) + 256


def _byte_characters() -> list[str]:
    """The printable character for each byte in byte-level pieces, as in GPT-2."""
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    characters = {byte: chr(byte) for byte in shown}
    for byte in range(256):
        if byte not in characters:
            characters[byte] = chr(256 + len(characters) - len(shown))
    return [characters[byte] for byte in range(256)]


BYTE_CHARACTERS = _byte_characters()
BYTE_OF = {character: byte for byte, character in enumerate(BYTE_CHARACTERS)}


def blank(kind: Kind) -> Backend:
    """A tokenizer of this kind with an empty vocabulary."""
    ids = {token: i for i, token in enumerate(SPECIAL)}
    model: Any
    if kind == "bpe":
        model = models.BPE(vocab=ids, merges=[])
    elif kind == "bytes":
        characters = {character: len(SPECIAL) + i for i, character in enumerate(BYTE_CHARACTERS)}
        model = models.BPE(vocab=ids | characters, merges=[])
    elif kind == "unigram":
        model = models.Unigram(vocab=[(token, 0.0) for token in SPECIAL], unk_id=UNK)
    else:
        model = models.WordLevel(vocab=ids, unk_token=SPECIAL[UNK])
    backend = Backend(model)
    if kind in BYTE_LEVEL:
        # No space before the first word: it would look like one in the text.
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(
            add_prefix_space=False, use_regex=kind != "bytes"
        )
        backend.decoder = decoders.ByteLevel()
    elif kind == "word":
        backend.normalizer = normalizers.Replace(Regex(r"\s+"), " ")
        backend.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Metaspace(replacement=WORD_START, prepend_scheme="always"),
                pre_tokenizers.Split(Regex(WORD_PATTERN), "removed", invert=True),
            ]
        )
        backend.decoder = decoders.Metaspace(replacement=WORD_START, prepend_scheme="always")
    elif kind == "space":
        # One space before every word, including the first.
        backend.normalizer = normalizers.Sequence(
            [normalizers.Prepend(" "), normalizers.Replace(Regex(r"\s+"), " ")]
        )
        backend.pre_tokenizer = pre_tokenizers.Split(Regex(SPACE_PATTERN), "removed", invert=True)
        backend.decoder = decoders.Sequence([decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    else:
        backend.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
        backend.decoder = decoders.Fuse()
    return finish(backend)


def finish(backend: Backend) -> Backend:
    """Register the four special tokens in such a way that text never matches them."""
    backend.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL])
    backend.encode_special_tokens = True
    return backend


def trained(
    kind: Kind, texts: Iterable[str], vocab_size: int | None, min_frequency: int | None
) -> Backend:
    """Train a tokenizer. The same texts give the same tokenizer on any machine."""
    if vocab_size is not None:
        least = _MIN_BYTES if kind in BYTE_LEVEL else len(SPECIAL) + 1
        if vocab_size < least or (kind == "bytes" and vocab_size != _MIN_BYTES):
            allowed = f"{least}" if kind == "bytes" else f"at least {least}"
            raise ConfigError(
                f"vocab_size = {vocab_size}: a {kind} tokenizer needs {allowed} "
                f"({len(SPECIAL)} special tokens"
                + (" and the 256 bytes)" if kind in BYTE_LEVEL else " and at least one other)")
            )
    backend = blank(kind)
    common: dict[str, Any] = {"special_tokens": list(SPECIAL), "show_progress": False}
    trainer: Any
    if kind == "bytes":
        for _ in texts:  # reads the texts, which are checked and counted
            pass
        return backend
    if kind == "unigram":
        trainer = trainers.UnigramTrainer(
            vocab_size=vocab_size or 8000,
            unk_token=SPECIAL[UNK],
            initial_alphabet=BYTE_CHARACTERS,
            **common,
        )
    elif kind == "bpe":
        trainer = trainers.BpeTrainer(
            vocab_size=vocab_size or 8000,
            min_frequency=2 if min_frequency is None else min_frequency,
            initial_alphabet=BYTE_CHARACTERS,
            **common,
        )
    else:
        trainer = trainers.WordLevelTrainer(
            vocab_size=vocab_size or 1_000_000,
            min_frequency=1 if min_frequency is None else min_frequency,
            **common,
        )
    backend.train_from_iterator(texts, trainer=trainer)
    if kind == "unigram":
        _settle(backend)
    return finish(backend)


def _settle(backend: Backend) -> None:
    """Make a trained unigram model independent of the order of a hash table, which differs between
    processes.

    The library follows the order of this table when it adds up scores, and when it assigns the
    lowest scores, in steps of 0.0001, to bytes that do not occur in the texts.
    """
    vocab = [
        (piece, 0.0 if score is None else score)  # null: there was no text
        for piece, score in json.loads(backend.to_str())["model"]["vocab"][len(SPECIAL) :]
    ]
    floor = min(score for _, score in vocab)
    scores = {
        piece: round(floor if len(piece) == 1 and score < floor + 0.03 else score, 4)
        for piece, score in vocab
    }
    ordered = sorted(scores.items(), key=lambda item: (-item[1], item[0]))
    backend.model = models.Unigram(vocab=[(token, 0.0) for token in SPECIAL] + ordered, unk_id=UNK)


MAX_BYTES = 1 << 20  # bytes of one text, which any kind encodes in a few seconds


def checked(text: object, max_bytes: int, what: str, by_line: bool = False) -> list[str]:
    """Check a text, and return it in a list. With `by_line`, a text that is too long is returned as
    a list of its lines. Raises an error if the library could not encode the text."""
    if not isinstance(text, str):
        raise InputError(f"{what} is {type(text).__name__}, not text")
    try:
        size = len(text) if text.isascii() else len(text.encode())
    except UnicodeEncodeError as error:
        raise InputError(
            f"{what} contains half of a surrogate pair at character {error.start + 1}, which is "
            "not a character; read the file as UTF-8"
        ) from None
    if size <= max_bytes:
        return [text]
    if by_line and "\n" in text:
        lines = text.split("\n")
        pieces = [line + "\n" for line in lines[:-1]] + [line for line in lines[-1:] if line]
        return [p for piece in pieces for p in checked(piece, max_bytes, what)]
    raise InputError(
        f"{what} has {size:,} bytes in one piece, above the limit of {max_bytes:,}; split it into "
        "lines, or raise max_bytes"
    )


@contextmanager
def guarded(doing: str) -> Iterator[None]:
    """Convert errors that the library raises in the block to InputErrors, including Rust panics,
    which are not subclasses of Exception."""
    try:
        yield
    except (TranslucidError, MemoryError):
        raise
    except BaseException as error:
        if isinstance(error, Exception) or type(error).__name__ == "PanicException":
            raise InputError(f"{doing} failed in the tokenizers library: {error}") from error
        raise
