"""Check the regular expressions of untrusted tokenizer files.

The library matches patterns by backtracking, without a time limit: `(a+)+b` on forty characters
takes practically forever. The patterns of well-known tokenizers are known to be fast. Any other
pattern is rejected if it may take exponential time; otherwise, it is tried on hard texts before use
(`trial`) and limited to shorter texts.
"""

import re
from collections.abc import Sequence

from translucid.core.errors import InputError
from translucid.data.tokenizers.pipelines import SPACE_PATTERN, WORD_PATTERN

GPT2 = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
CL100K = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2 = CL100K.replace(r"\p{N}{1,3}", r"\p{N}")
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_ENDINGS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
O200K = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+{_ENDINGS}"
    rf"|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*{_ENDINGS}"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_AROUND = r"\A +|(?<![ ▁])[ ▁]+\z"  # spaces around a text
_PLAIN = (" ", " {2,}", r"\s+", r"\d", r"\p{N}", r"[\s\S]", "<(?=0x[0-9A-F]{2}>)")
_OURS = (WORD_PATTERN, SPACE_PATTERN)  # patterns of models that Translucid exports
KNOWN = frozenset({GPT2, CL100K, QWEN2, O200K, _AROUND, *_PLAIN, *_OURS})
MAX_PATTERN = 2048  # limit of the characters of an unknown pattern; known ones have up to 400
MAX_WORDS = 1 << 16  # limit of the characters of a pattern that lists words
MAX_BYTES = 1 << 13  # limit of the bytes of a text, with an unknown pattern
MOST_LITERALS = 6  # number of a pattern's characters that occur in the texts to try it on
_SIGNS = str.maketrans("", "", r"\\()[]{}|?*+^$.:<>=!,-")
_QUANTIFIER = re.compile(r"[*+?]|\{(\d*)(,?)(\d*)\}")
_GROUP = re.compile(r"\((?:\?(?:[:=!>]|<[=!]|[imsx-]+:))?")


def check_pattern(pattern: object, where: str) -> bool:
    """Whether a pattern is known to be fast. Raises an error if it may take forever."""
    if not isinstance(pattern, str) or len(pattern) > MAX_WORDS:
        raise InputError(
            f"{where}: a pattern must be a text of at most {MAX_WORDS:,} characters; use a "
            "different tokenizer file"
        )
    if pattern in KNOWN or re.fullmatch(r"[\w\s▁|\\<>/=-]*", pattern):
        return True
    if len(pattern) > MAX_PATTERN:
        raise InputError(
            f"{where}: a pattern has {len(pattern):,} characters, above the limit of "
            f"{MAX_PATTERN:,}; use a tokenizer file without it"
        )
    if fault := _fault(pattern):
        raise InputError(
            f"{where}: the pattern {pattern[:120]!r} {fault}, so it could take forever "
            "on some texts; use a tokenizer file without it"
        )
    return False


def hard_texts(unknown: Sequence[str]) -> list[str]:
    """Texts on which backtracking patterns are slow. They repeat characters of the patterns, alone
    and in pairs, and end with different characters, so that the match fails at the end."""
    literals = dict.fromkeys("".join(unknown).translate(_SIGNS))
    units = [*" a1.\nA'é", *literals][: 8 + MOST_LITERALS]
    pairs = [a + b for a in units[8:] for b in units[8:] if a != b]
    # The end contains the pattern's characters, because the engine first checks that they occur.
    end = "\0" + "".join(units[8:])
    length = MAX_BYTES // 2  # number of characters, some of which have two bytes
    return [(unit * length)[:length] + end for unit in (*dict.fromkeys(units), *pairs)]


def _fault(pattern: str) -> str:
    """The reason why a pattern may take exponential time, as the end of a sentence; empty if there
    is none."""
    # For each open group, whether it contains a repetition, and whether it contains alternatives.
    groups: list[list[bool]] = [[False, False]]
    place, last = 0, [False, False]
    while place < len(pattern):
        character = pattern[place]
        if character == "\\":
            if pattern[place + 1 : place + 2] in "123456789kg" and place + 1 < len(pattern):
                return "contains a back-reference"
            place += 2
            if pattern[place - 1 : place] in "pP" and pattern[place : place + 1] == "{":
                place = pattern.find("}", place) + 1 or len(pattern)
            last = [False, False]
        elif character == "[":
            place, last = _class_end(pattern, place), [False, False]
        elif character == "(":
            opening = _GROUP.match(pattern, place)
            assert opening is not None
            place = opening.end()
            if pattern[place : place + 1] == "?":
                return "contains an unknown kind of group"
            groups.append([False, False])
        elif character == ")":
            place += 1
            if len(groups) == 1:
                return "closes a group that it did not open"
            last = groups.pop()
            groups[-1][0] |= last[0]
        elif quantifier := _QUANTIFIER.match(pattern, place):
            low, comma, high = quantifier.groups()
            most = {"*": 1 << 30, "+": 1 << 30, "?": 1}.get(quantifier[0])
            if most is None:
                most = int(high or (1 << 30 if comma else low or 0))
            if most > 1 and any(last):
                return "repeats a group that contains a repetition or an alternative"
            groups[-1][0] |= most > 1 and not (low and not comma)
            place = quantifier.end()
            if pattern[place : place + 1] in ("+", "?"):
                place += 1  # possessive or lazy
        else:
            groups[-1][1] |= character == "|"
            place, last = place + 1, [False, False]
    return ""


def _class_end(pattern: str, place: int) -> int:
    """The index after a character class [...] that begins at `place`. Classes may be nested."""
    depth = 0
    while place < len(pattern):
        if pattern[place] == "\\":
            place += 1
        elif pattern[place] == "[":
            depth += 1
        elif pattern[place] == "]":
            depth -= 1
            if depth == 0:
                return place + 1
        place += 1
    return len(pattern)
