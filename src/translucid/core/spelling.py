"""How things are called: one name for all its spellings, and words as a shell reads them."""

import re
import shlex
from collections.abc import Collection

from translucid.core.errors import InputError


class Missing(InputError):
    """Something that is needed was not given. `names` are the arguments that the message names."""

    def __init__(self, message: str, names: Collection[str]) -> None:
        self.message, self.names = message, tuple(names)
        super().__init__(message)

    def as_options(self) -> str:
        """The message for those who type options: x becomes --x."""
        names = "|".join(re.escape(name) for name in self.names)
        return re.sub(rf"(?<![\w-])({names})(?![\w-])", r"--\1", self.message)


def bare(name: str) -> str:
    """What all spellings of a name share: W_Q, w_q, wq and --wq are one."""
    return name.lower().replace("_", "").replace("-", "")


def spelt(name: str, known: Collection[str]) -> str:
    """The known name of which this is another spelling, if it is of exactly one."""
    if name in known:
        return name
    same = [other for other in known if bare(other) == bare(name)]
    return same[0] if len(same) == 1 else name


def quoted(word: str) -> str:
    """A word of a command; in double quotes where it needs any, which every shell reads."""
    if re.fullmatch(r"[\w.,:/=+-]+", word):
        return word
    return shlex.quote(word) if re.search(r'["$`!\\]', word) else f'"{word}"'
