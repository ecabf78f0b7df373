"""The six kinds of tokenizer, built from the parts of the `tokenizers` library.

Special tokens cannot be forged. The library is told not to look for them in text, and no kind can
put one together by itself: each special token mixes a word with signs, which the splitting of
`bpe`, `unigram` and `word` keeps apart, and has several characters, where `char` and `bytes` know
single ones only; and every token of `space` begins with the space before it.
"""

import json
from collections.abc import Iterable
from typing import Any, Literal, get_args

from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, trainers
from tokenizers import Tokenizer as Backend

from translucid.core.errors import ConfigError

Kind = Literal["bpe", "unigram", "word", "space", "char", "bytes"]
KINDS: tuple[Kind, ...] = get_args(Kind)
BYTE_LEVEL: frozenset[Kind] = frozenset({"bpe", "unigram", "bytes"})  # any text comes back exactly
SIZED: frozenset[Kind] = frozenset({"bpe", "unigram", "word", "space"})  # take a vocab_size
WORDS: frozenset[Kind] = frozenset({"word", "space"})  # leave out the space between their tokens
SPECIAL = ("<pad>", "<s>", "</s>", "<unk>")
PAD, BOS, EOS, UNK = range(4)

WORD_START = "▁"  # marks a word with a space before it, so that words can be joined again
WORD_PATTERN = rf"{WORD_START}?\w+(?:'\w+)*|{WORD_START}?[^\w\s{WORD_START}]"
SPACE_PATTERN = r" \S+"
_MIN_BYTES = len(SPECIAL) + 256


def _byte_characters() -> list[str]:
    """The printable letter that stands for each byte in byte-level pieces (GPT-2's choice)."""
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    characters = {byte: chr(byte) for byte in shown}
    for byte in range(256):
        if byte not in characters:
            characters[byte] = chr(256 + len(characters) - len(shown))
    return [characters[byte] for byte in range(256)]


BYTE_CHARACTERS = _byte_characters()
BYTE_OF = {character: byte for byte, character in enumerate(BYTE_CHARACTERS)}


def blank(kind: Kind) -> Backend:
    """A tokenizer of this kind that has not learnt any vocabulary."""
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
        # No space is put before the first word: it could not be told from one in the text.
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
        # One space before every word, also before the first.
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
    """Make the four special tokens special, and never look for them in text."""
    backend.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL])
    backend.encode_special_tokens = True
    return backend


def trained(
    kind: Kind, texts: Iterable[str], vocab_size: int | None, min_frequency: int | None
) -> Backend:
    """The same texts give the same tokenizer, on any machine."""
    if vocab_size is not None:
        least = _MIN_BYTES if kind in BYTE_LEVEL else len(SPECIAL) + 1
        if vocab_size < least or (kind == "bytes" and vocab_size != _MIN_BYTES):
            allowed = f"{least}" if kind == "bytes" else f"at least {least}"
            raise ConfigError(
                f"vocab_size = {vocab_size}: a {kind} tokenizer needs {allowed} "
                f"({len(SPECIAL)} special tokens"
                + (" and the 256 bytes)" if kind in BYTE_LEVEL else " and something to read)")
            )
    backend = blank(kind)
    common: dict[str, Any] = {"special_tokens": list(SPECIAL), "show_progress": False}
    trainer: Any
    if kind == "bytes":
        for _ in texts:  # nothing to learn, but the texts are checked and counted
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
    """Undo what the order of a hash table did to a trained unigram model.

    The library sums in that order, and hands out the lowest scores to unseen bytes in steps of
    0.0001 in that order: both change from one process to the next.
    """
    vocab = [
        (piece, 0.0 if score is None else score)  # null: there was no text at all
        for piece, score in json.loads(backend.to_str())["model"]["vocab"][len(SPECIAL) :]
    ]
    floor = min(score for _, score in vocab)
    scores = {
        piece: round(floor if len(piece) == 1 and score < floor + 0.03 else score, 4)
        for piece, score in vocab
    }
    ordered = sorted(scores.items(), key=lambda item: (-item[1], item[0]))
    backend.model = models.Unigram(vocab=[(token, 0.0) for token in SPECIAL] + ordered, unk_id=UNK)
