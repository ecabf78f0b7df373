"""Imported tokenizers, which came with a model: the text of a tokenizer.json, and the roles of its
tokens.

The file's own normalizer, pre-tokenizer and model split the text. Its truncation, padding, random
merges and template (replaced by a `Frame`) are ignored. Text never produces special tokens: a
literal `</s>` stays text in every model.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

from tokenizers import AddedToken
from tokenizers import Tokenizer as Backend
from tokenizers.models import BPE

from translucid.core.errors import InputError
from translucid.core.untrusted_files import parsed_json
from translucid.data.tokenizers import patterns, pipelines
from translucid.data.tokenizers.special_tokens import SpecialTokens
from translucid.data.tokenizers.surface import Spelling, spelt, steps
from translucid.data.tokenizers.trial import try_out

IMPORTED: Literal["imported"] = "imported"
MODELS = ("BPE", "Unigram", "WordPiece", "WordLevel")
MOST_TOKENS = 1 << 20
MOST_GAPS = 10_000  # limit of the number of ids without a token, in addition to one per token
MOST_PARTS = 2 << 20  # limit of the lists and objects in a tokenizer.json, with one per merge
LONGEST_PIECE = 1024  # limit of the characters of a piece, the depth of the library's tables
LONGEST_USUAL = 256  # if pieces are longer, encoding may be slow, so texts must be shorter
LONGEST_WORD = 1000  # limit of WordPiece's `max_input_chars_per_word`
FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")  # flags of an added token
BPE_OPTIONS = {
    "unk_token": str, "continuing_subword_prefix": str, "end_of_word_suffix": str,
    "fuse_unk": bool, "byte_fallback": bool, "ignore_merges": bool,
}  # fmt: skip
MOST_GROWTH = 256  # how many times longer a text may become before it is split


@dataclass(frozen=True)
class Imported:
    """Everything in an imported tokenizer that determines the token ids."""

    spec: str  # the text of tokenizer.json
    special: SpecialTokens
    hidden: tuple[int, ...] = ()  # tokens that are not special, but that text never produces
    tokens: int | None = None  # size of the vocabulary; ids of `spec` from here on become unknown

    @classmethod
    def read(cls, text: str, where: str) -> "Imported":
        """Parse the text of a tokenizer.json. Its tokens have no roles yet."""
        made = cls(text, SpecialTokens())
        vars(made)["data"] = parsed(text, where)
        return made

    def with_roles(self, special: SpecialTokens, hidden: tuple[int, ...] = ()) -> "Imported":
        """A copy in which tokens have different roles. The file is not parsed again."""
        made = replace(self, special=special, hidden=hidden)
        vars(made).update(data=self.data, names=self.names)
        return made

    def first(self, size: int) -> "Imported | None":
        """A copy with only the first `size` tokens. None if text may produce one of the removed
        tokens, or if one of them has a role other than mask."""
        mask, added = self.special.mask, self.data.get("added_tokens") or []
        special = replace(
            self.special, mask=mask if mask is not None and mask < size else None,
            never=tuple(i for i in self.special.never if i < size),
        )  # fmt: skip
        control = {token["id"] for token in added if token.get("special")}
        needed = {*replace(self, special=special).roles, *special.ends, special.unk or 0}
        model = dict(self.data["model"])
        gone = {piece for i, piece in vocabulary(model) if i >= size}
        if (
            self.tokens is not None
            or not control.issuperset(range(size, len(self.names)))
            or max(needed) >= size
            or model.get("unk_token") in gone
        ):
            return None
        vocab = model["vocab"]
        model["vocab"] = vocab[:size] if isinstance(vocab, list) else {
            piece: i for piece, i in vocab.items() if i < size}  # fmt: skip
        if model["type"] == "BPE":
            model["merges"] = _without(merges_of(model), gone)
        kept = [token for token in added if token["id"] < size]
        text = json.dumps(self.data | {"model": model, "added_tokens": kept}, ensure_ascii=False)
        hidden = tuple(i for i in self.hidden if i < size)
        return Imported.read(text, "the tokenizer").with_roles(special, hidden)

    @cached_property
    def data(self) -> dict[str, Any]:
        return parsed(self.spec, "the tokenizer")

    @cached_property
    def names(self) -> list[str]:
        """The name of each token, as in the file."""
        names = dict(vocabulary(self.data["model"]))
        names |= {token["id"]: token["content"] for token in self.data.get("added_tokens") or []}
        size = max(names, default=-1) + 1
        if size > MOST_TOKENS or size < 1:
            raise InputError(
                f"the tokenizer has {size:,} tokens, but must have 1 to {MOST_TOKENS:,}; use a "
                "different tokenizer file"
            )
        if size > 2 * len(names) + MOST_GAPS:
            raise InputError(
                f"the tokenizer has {len(names):,} tokens, but ids up to {size - 1:,}; it is "
                "damaged: copy it again"
            )
        size = size if self.tokens is None else self.tokens
        names |= {i: f"<unused{i}>" for i in range(size) if i not in names}
        return [names[i] for i in range(size)]

    @cached_property
    def special_ids(self) -> frozenset[int]:
        """The ids of special tokens: those that are marked as special in the file or have a
        role."""
        added = self.data.get("added_tokens") or []
        control = {token["id"] for token in added if token.get("special")}
        return frozenset(self.roles | control) - {self.special.unk}

    @property
    def roles(self) -> set[int]:
        """The ids of tokens with a role, except the unknown token."""
        special = self.special
        roles = {special.pad, special.bos, special.eos, special.mask, *special.start}
        if special.frame is not None:
            roles |= {*special.frame.prefix, *special.frame.suffix, *special.frame.between}
        return {i for i in roles if i is not None}

    @property
    def mask_strips(self) -> tuple[bool, bool]:
        """Whether the mask token removes the spaces to its left, and whether it removes those to
        its right."""
        added = self.data.get("added_tokens") or []
        (token,) = [t for t in added if t["id"] == self.special.mask][-1:] or [{}]
        return bool(token.get("lstrip")), bool(token.get("rstrip"))

    @cached_property
    def max_bytes(self) -> int:
        """The maximum length of a text in bytes. It is smaller if a regular expression or the
        vocabulary may make encoding slow."""
        usual = self.data["model"].get("max_input_chars_per_word", 0) in range(LONGEST_USUAL)
        usual = usual and max(map(len, self.names)) <= LONGEST_USUAL
        return pipelines.MAX_BYTES if usual and self._known_patterns else patterns.MAX_BYTES

    @cached_property
    def _known_patterns(self) -> bool:
        known = [check_part(self.data.get(key), key) for key in ("normalizer", "pre_tokenizer")]
        return all(known)

    @cached_property
    def spelling(self) -> Spelling:
        added = {token["id"] for token in self.data.get("added_tokens") or []}
        return spelt(self.data, self.names, self.special_ids | added)

    def backend(self) -> Backend:
        """The tokenizer as an object of the library. In this object, each token that text must
        never produce has a name that no text contains."""
        assert self.names  # checks the ids
        model = dict(self.data["model"])
        out_of_reach = {*self.hidden, *self.special_ids, self.special.unk}
        names = dict(vocabulary(model))
        known = names | {i: _unreachable(i) for i in names.keys() & out_of_reach}
        known |= {i: _unreachable(i) for i in range(max(known, default=-1) + 1) if i not in known}
        gone = {names[i] for i in out_of_reach if i in names}
        if model["type"] == "Unigram":
            scores = [score for _, score in model["vocab"]]
            model["vocab"] = [[known[i], score] for i, score in enumerate(scores)]
        else:
            model["vocab"] = dict(zip(known.values(), known, strict=True))
        if model["type"] == "BPE":
            model["dropout"] = None
            model["merges"] = _without(merges_of(model), gone)
        ids = dict(zip(names.values(), names, strict=True))
        unknown = ids.get(model.get("unk_token") or "")
        if unknown is not None:
            model["unk_token"] = known[unknown]
        added = list(self._added(set(names), len(known)))
        texts = () if self._known_patterns else patterns.hard_texts(self._patterns)
        try_out(self._text(model, added), self.spec, texts)
        backend = self._handed_over(model, added) or self._read_in(model, added)
        backend.encode_special_tokens = True
        return backend

    @property
    def _patterns(self) -> list[str]:
        wanted = [step.get("pattern") for key in ("normalizer", "pre_tokenizer")
                 for step in steps(self.data.get(key))]  # fmt: skip
        return [str(pattern["Regex"]) for pattern in wanted
                if isinstance(pattern, dict) and "Regex" in pattern]  # fmt: skip

    def _read_in(self, model: dict[str, Any], added: list[dict[str, Any]]) -> Backend:
        return Backend.from_str(self._text(model, added))

    def _text(self, model: dict[str, Any], added: list[dict[str, Any]]) -> str:
        """The tokenizer.json text that is passed to the library."""
        spec = {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": added,
            "normalizer": self.data.get("normalizer"),
            "pre_tokenizer": self.data.get("pre_tokenizer"),
            "post_processor": None,
            "decoder": None,
            "model": model,
        }
        return json.dumps(spec)

    def _handed_over(self, model: dict[str, Any], added: list[dict[str, Any]]) -> Backend | None:
        """Build a BPE tokenizer from Python objects, which takes half the time of parsing its text.
        Returns None if the tokenizer is not BPE or has an unusual form."""
        options = {name: model[name] for name in BPE_OPTIONS if model.get(name) is not None}
        usual = model["type"] == "BPE" and all(
            type(value) is BPE_OPTIONS[name] for name, value in options.items()
        )
        usual = usual and all(
            token.keys() == {"id", "content", *FLAGS}
            and all(type(token[name]) is bool for name in FLAGS)
            for token in added
        )
        if not usual or any(type(pair) is not list or len(pair) != 2 for pair in model["merges"]):
            return None
        backend = self._read_in({"type": "BPE", "vocab": {}, "merges": []}, [])
        merges = list(map(tuple, model["merges"]))
        backend.model = BPE(vocab=model["vocab"], merges=merges, **options)
        backend.add_tokens(
            [AddedToken(token["content"], **{key: token[key] for key in FLAGS}) for token in added]
        )
        return backend

    def _added(self, inside: set[int], size: int) -> Iterator[dict[str, Any]]:
        """Yield the added tokens. The library numbers them from `size` on, without gaps. inside:
        the ids in the model's vocabulary."""
        flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
        added = {token["id"]: token for token in self.data.get("added_tokens") or []}
        for i, token in added.items():
            if i in inside and not token.get("special") and i not in self.special_ids:
                yield flags | token
        for i in range(size, max(added, default=-1) + 1):
            control = i in self.special_ids or i not in added
            token = {"id": i, "content": _unreachable(i)} if control else added[i]
            yield flags | token | {"special": control}


def parsed(text: str | bytes, where: str) -> dict[str, Any]:
    """Parse a tokenizer.json and check the form of its parts."""
    data = parsed_json(text, where, MOST_PARTS)
    model = data.get("model") if isinstance(data, dict) else None
    kind = model.get("type") if isinstance(model, dict) else None
    if not isinstance(model, dict) or not isinstance(data, dict):
        raise InputError(f"{where} contains no tokenizer model; expected a tokenizer.json")
    if kind is None:  # missing in old files
        kind = model["type"] = _kind(model)
    if kind not in MODELS:
        raise InputError(f"{where}: unknown model type {kind!r}; supported: {', '.join(MODELS)}")
    form: type = list if kind == "Unigram" else dict
    if not isinstance(model.get("vocab"), form):
        raise InputError(f"{where}: the vocabulary of a {kind} model must be a {form.__name__}")
    for i, piece in vocabulary(model) if not _sound(model["vocab"]) else ():
        if not isinstance(piece, str) or not isinstance(i, int) or not 0 <= i < MOST_TOKENS:
            raise InputError(f"{where}: the vocabulary contains {piece!r} with id {i!r}; expected "
                             f"a text and a number below {MOST_TOKENS:,}")  # fmt: skip
    check_pieces((piece for _, piece in vocabulary(model)), where)
    word = model.get("max_input_chars_per_word", 0)
    if kind == "WordPiece" and (type(word) is not int or not 0 <= word <= LONGEST_WORD):
        raise InputError(f"{where}: max_input_chars_per_word = {str(word)[:40]}: must be 0 to "
                         f"{LONGEST_WORD:,}; use a different tokenizer file")  # fmt: skip
    for token in _list(data, "added_tokens", where):
        right = isinstance(token, dict) and isinstance(token.get("content"), str)
        if not right or not isinstance(token.get("id"), int) or not 0 <= token["id"] < MOST_TOKENS:
            raise InputError(f"{where}: added_tokens contains {str(token)[:80]}; expected an "
                             f"object with a content and an id below {MOST_TOKENS:,}")  # fmt: skip
        check_pieces([token["content"]], where)
    return data


def check_pieces(pieces: Iterable[str], where: str) -> None:
    """Raise an error if a piece is so long that the library would crash."""
    piece = max(pieces, key=len, default="")
    if len(piece) > LONGEST_PIECE:
        raise InputError(
            f"{where}: a token has {len(piece):,} characters ({piece[:40]!r}...), above the limit "
            f"of {LONGEST_PIECE:,}; use a different tokenizer file"
        )


def _sound(vocab: Any) -> bool:
    """Whether `vocab` is a dict whose values are all valid token ids."""
    ids = vocab.values() if isinstance(vocab, dict) else ()
    return set(map(type, ids)) == {int} and min(ids) >= 0 and max(ids) < MOST_TOKENS


def vocabulary(model: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
    """The pairs of id and piece in the vocabulary of a tokenizer's model."""
    vocab = model["vocab"]
    if isinstance(vocab, list):
        return ((i, _first(entry)) for i, entry in enumerate(vocab))
    return zip(vocab.values(), vocab, strict=True)


def check_part(part: Any, where: str) -> bool:
    """Whether all regular expressions in a normalizer or pre-tokenizer are well-known ones. Raises
    an error for a pattern that may take forever, and for replacements that make a text too long."""
    known, growth = True, 1
    for step in steps(part):
        pattern = step.get("pattern")
        if isinstance(pattern, dict) and "Regex" in pattern:
            known &= patterns.check_pattern(pattern["Regex"], where)
        text = step.get("content") if step.get("type") == "Replace" else None
        growth *= 1 + len(text.encode(errors="replace")) if isinstance(text, str) else 1
        if growth > MOST_GROWTH or len(str(step.get("prepend", ""))) > MOST_GROWTH:
            raise InputError(
                f"{where}: the replacements can make a text more than {MOST_GROWTH} times as long; "
                "use a tokenizer file without them"
            )
    return known


def _unreachable(i: int) -> str:
    """A name for a token that no text produces: it contains spaces, at which every pre-tokenizer
    splits a text, and Unicode non-characters."""
    return f"\uffff {i} \uffff"


def merges_of(model: dict[str, Any]) -> list[list[str]]:
    """The merges as pairs of pieces. Old files contain each pair as one text."""
    merges = model.get("merges") or []
    return [pair.split(" ", 1) if isinstance(pair, str) else pair for pair in merges]


def _without(merges: list[list[str]], gone: set[str]) -> list[list[str]]:
    """The merges that neither use nor produce one of the removed pieces."""
    return [pair for pair in merges if "".join(pair) not in gone and gone.isdisjoint(pair)]


def _first(entry: Any) -> Any:
    return entry[0] if isinstance(entry, list) and len(entry) == 2 else None


def _kind(model: dict[str, Any]) -> str:
    if isinstance(model.get("vocab"), list):
        return "Unigram"
    if "merges" in model:
        return "BPE"
    return "WordPiece" if "max_input_chars_per_word" in model else "WordLevel"


def _list(data: dict[str, Any], key: str, where: str) -> list[Any]:
    value = data.get(key) or []
    if not isinstance(value, list):
        raise InputError(
            f"{where}: {key} must be a list, not {type(value).__name__}; use a different tokenizer "
            "file"
        )
    return value
