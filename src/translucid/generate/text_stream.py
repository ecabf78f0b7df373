"""Text from tokens while they come: what may still change is held back."""

from collections.abc import Sequence

from translucid.core.errors import InputError
from translucid.data.tokenizers.tokenizer import Tokenizer


class TextStream:
    """One text as it grows. What `add` and `end` give, one after the other, is the text.

    Held back is half a character, and what may be the beginning of a stop string. The text ends
    before the first stop string that is complete; one in what was given does not count.
    """

    def __init__(self, tokenizer: Tokenizer, prefix: Sequence[int], stop: Sequence[str]) -> None:
        self.tokenizer, self.stop = tokenizer, stop
        self.ids = list(prefix)
        self.text = tokenizer.decode(prefix)
        self.stopped = False
        self._prefix_length = len(self.text)
        self._sent = 0

    def begin(self) -> str:
        """What was given."""
        self._sent = self._prefix_length
        return self.text

    def add(self, token: int) -> str:
        """What is certain now."""
        self.ids.append(token)
        self.text = self.tokenizer.decode(self.ids)
        written = self.text[self._prefix_length :]
        places = [place for stop in self.stop if (place := written.find(stop)) >= 0]
        if places:
            self.stopped = True
            self.text = self.text[: self._prefix_length + min(places)]
            return self._send(len(self.text))
        sure = written.removesuffix("\ufffd")
        return self._send(self._prefix_length + len(sure) - self._held(sure))

    def end(self) -> str:
        """The rest, when no token follows."""
        return self._send(len(self.text))

    def _send(self, upto: int) -> str:
        new = self.text[self._sent : upto]
        self._sent = max(self._sent, upto)
        return new

    def _held(self, written: str) -> int:
        """Characters at the end that a stop string may begin with."""
        sizes = (
            size
            for stop in self.stop
            for size in range(min(len(stop) - 1, len(written)), 0, -1)
            if written.endswith(stop[:size])
        )
        return max(sizes, default=0)


def check_stop(stop: Sequence[str]) -> Sequence[str]:
    if isinstance(stop, str):
        raise InputError(f"stop = {stop!r}: a list of texts is needed; write [{stop!r}]")
    if "" in stop:
        raise InputError("stop: an empty text would stop everything at once; leave it out")
    return stop
