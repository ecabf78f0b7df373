"""Encoder-decoders of toolkits that are not installed: plain torch modules with the toolkits'
names, which are compared with what Translucid opens from their files.
"""

import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

import torch
from tests.interop.reference import FLOAT32, far, prompts
from torch import Tensor, nn

from translucid.core.trace import Trace
from translucid.generate.beam_search import GenerationConfig
from translucid.generate.decode import find
from translucid.interop.importing import OpenedNetwork, open_network
from translucid.models.autoregressive import GenerationInputs
from translucid.parts.embedding import Tokens

FLOAT64 = 1e-10
MAX_TOKENS = 8


def is_close_enough(ours: Tensor, own: Tensor, exact: Tensor) -> bool:
    """Whether Translucid in float32 is at most three times as far from the float64 reference as the
    reference in float32 (`own`) is."""
    apart = [float((way - exact).abs().max()) for way in (ours, own)]
    print(f"of {float(exact.abs().max()):.3g}: ours {apart[0]:.1e}, its float32 {apart[1]:.1e}")
    return apart[0] <= 3 * apart[1]


class Reference(Protocol):
    """What a test implements by hand. mask: True at tokens."""

    def encode(self, source: Tensor, mask: Tensor) -> Tensor: ...
    def logits(self, source: Tensor, mask: Tensor, target: Tensor) -> Tensor: ...


def check(theirs: Any, path: Path, *, start: int, eos: int) -> OpenedNetwork:
    """Check the encoder output, the logits (at once, traced and in steps) and greedy texts, in
    float32 and float64."""
    opened = open_network(path)
    ours: Any = opened.network
    for dtype, bound in ((torch.float32, FLOAT32), (torch.float64, FLOAT64)):
        theirs.to(dtype)
        ours.to(dtype)
        _check(theirs, ours, bound, start, eos)
    return opened


def _check(theirs: Any, ours: Any, bound: float, start: int, eos: int) -> None:
    source, mask = prompts(ours.config.vocab, left=False)
    target, _ = prompts(ours.vocab, length=7)
    target[target == 0] = 5  # no padding in the targets
    trace = Trace("*")
    with torch.inference_mode():
        hidden, logits = theirs.encode(source, mask), theirs.logits(source, mask, target)
        encoded = ours.encoder(Tokens(source, mask, {})).outputs
        ways = [
            ours(source, target, mask),
            ours(source, target, mask, trace=trace),
            _in_steps(ours, source, mask, target),
        ]
    assert far(encoded[mask], hidden[mask], float(hidden[mask].abs().max())) < bound
    largest = float(logits.abs().max())
    assert largest > 0.5  # otherwise a small difference would prove nothing
    for way in ways:
        assert far(way, logits, largest) < bound
    for row in range(len(source)) if bound == FLOAT64 else ():
        one = source[row : row + 1, : int(mask[row].sum())]
        text = greedy(theirs, one, start, eos)
        inputs = GenerationInputs.of(one)
        config = GenerationConfig(beam_size=1, max_length=MAX_TOKENS)
        (results,) = find(ours, [[start]], inputs, config, eos=eos, pad=0)
        assert results[0].tokens == text


def _in_steps(ours: Any, source: Tensor, mask: Tensor, target: Tensor) -> Tensor:
    state = ours.start(GenerationInputs.of(source, mask), target.shape[1])
    parts = [ours.step(target[:, :3], state)]
    parts += [ours.step(target[:, t : t + 1], state) for t in range(3, target.shape[1])]
    return torch.cat(parts, dim=1)


def greedy(
    theirs: Reference, source: Tensor, start: int, eos: int, most: int = MAX_TOKENS
) -> list[int]:
    """The likeliest text, for which the whole prefix is processed again at each token."""
    text = [start]
    mask = torch.ones_like(source, dtype=torch.bool)
    with torch.inference_mode():
        while len(text) <= most:
            logits = theirs.logits(source, mask, torch.tensor([text]))
            text.append(int(logits[0, -1].argmax()))
            if text[-1] == eos:
                return text[1:-1]
    return text[1:]


def attend(q: Tensor, k: Tensor, v: Tensor, heads: int, seen: Tensor) -> Tensor:
    """Multi-head attention. seen: the mask, (batch, queries or 1, keys)."""
    q, k, v = (x.unflatten(-1, (heads, -1)).transpose(1, 2) for x in (q, k, v))
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    pattern = scores.masked_fill(~seen[:, None], -torch.inf).softmax(dim=-1)
    return (pattern @ v).transpose(1, 2).flatten(2)


def causal(length: int) -> Tensor:
    return torch.ones(1, length, length, dtype=torch.bool).tril()


def sinusoids(length: int, d: int, first: int = 0) -> Tensor:
    """Sinusoidal encodings in float64, with sines and cosines in alternate dimensions."""
    angles = [[(p + first) / 10000 ** (i / d) for i in range(0, d, 2)] for p in range(length)]
    pairs = [[f(a) for a in row for f in (math.sin, math.cos)] for row in angles]
    return torch.tensor(pairs, dtype=torch.float64)


def in_halves(length: int, d: int, first: int = 2) -> Tensor:
    """Sinusoidal encodings with all sines first, then all cosines; the slowest wave has exactly
    10,000 times the wavelength of the fastest."""
    half = d // 2
    rates = [math.exp(-math.log(10000) * i / (half - 1)) for i in range(half)]
    rows = [[f((p + first) * r) for f in (math.sin, math.cos) for r in rates]
            for p in range(length)]  # fmt: skip
    return torch.tensor(rows, dtype=torch.float64)


class ByName(nn.Module):
    """A module whose submodules have names with dots; they are attributes, or returned by
    `self.at`."""

    def __init__(self, modules: dict[str, nn.Module]) -> None:
        super().__init__()
        for name, module in modules.items():
            place: nn.Module = self
            *path, last = name.split(".")
            for part in path:
                inner = place._modules.get(part)
                if inner is None:
                    inner = nn.Module()
                    place.add_module(part, inner)
                place = inner
            place.add_module(last, module)

    def at(self, name: str, x: Tensor) -> Tensor:
        return self.get_submodule(name)(x)  # type: ignore[no-any-return]


Names = dict[str, str]  # names of modules by role; {} is the number of a layer


class Transformer(ByName):
    """An encoder-decoder with modules of these names. Roles in each stack: table, query, key,
    value, output, up, down, attention_norm, feedforward_norm; optionally final_norm,
    embedding_norm, positions. In the decoder also cross_* and head."""

    d, heads, d_ff, layers = 16, 4, 24, 2

    def __init__(
        self, encoder: Names, decoder: Names, vocab: int, target_vocab: int, *, pre: bool,
        eps: float, scaled: bool, rows: Tensor | None = None, shared: bool = False,
        tied: bool = False,
    ) -> None:  # fmt: skip
        """rows: the vectors of positions that are not learned."""
        self.names, self.pre, self.rows = {"encoder": encoder, "decoder": decoder}, pre, rows
        self.factor = math.sqrt(self.d) if scaled else 1.0
        made: dict[str, nn.Module] = {}
        for side, names in self.names.items():
            for role, name in names.items():
                for i in range(self.layers):
                    made[name.replace("{}", str(i))] = self._module(
                        role, vocab if side == "encoder" else target_vocab, eps
                    )
        super().__init__(made)
        if shared:
            self._tie(decoder["table"], encoder["table"])
        if tied:
            self._tie(decoder["head"], decoder["table"])

    def _module(self, role: str, vocab: int, eps: float) -> nn.Module:
        if role.endswith("norm"):
            return nn.LayerNorm(self.d, eps=eps)
        if role in ("table", "positions"):
            return nn.Embedding(vocab if role == "table" else 30, self.d)
        sizes = {"up": (self.d, self.d_ff), "down": (self.d_ff, self.d), "head": (self.d, vocab)}
        return nn.Linear(*sizes.get(role, (self.d, self.d)), bias=role != "head")

    def _tie(self, name: str, to: str) -> None:
        self.get_submodule(name).weight = self.get_submodule(to).weight

    def embed(self, side: str, ids: Tensor, first: int = 2) -> Tensor:
        names = self.names[side]
        x = self.at(names["table"], ids) * self.factor
        if "positions" in names:  # the first rows of the table are for padding
            table = self.get_submodule(names["positions"]).weight
            x = x + table[first : first + ids.shape[1]]  # type: ignore[index]
        elif self.rows is not None:
            x = x + self.rows[: ids.shape[1]].to(x)
        return self.at(names["embedding_norm"], x) if "embedding_norm" in names else x

    def residual(self, norm: str, x: Tensor, part: Any) -> Tensor:
        return x + part(self.at(norm, x)) if self.pre else self.at(norm, x + part(x))

    def attention(
        self, names: Names, i: int, prefix: str, keys: Tensor | None, seen: Tensor
    ) -> Any:
        def apply(x: Tensor) -> Tensor:
            read = x if keys is None else keys
            q, k, v = (self.at(names[prefix + role].replace("{}", str(i)), y)
                       for role, y in (("query", x), ("key", read), ("value", read)))  # fmt: skip
            output = names[f"{prefix}output"].replace("{}", str(i))
            return self.at(output, attend(q, k, v, self.heads, seen))

        return apply

    def through(self, side: str, x: Tensor, seen: Tensor, keys: Any = None, mask: Any = None
                ) -> Tensor:  # fmt: skip
        names = self.names[side]
        for i in range(self.layers):
            here = {role: name.replace("{}", str(i)) for role, name in names.items()}
            x = self.residual(here["attention_norm"], x,
                              self.attention(names, i, "", None, seen))  # fmt: skip
            if keys is not None:
                attention = self.attention(names, i, "cross_", keys, mask[:, None])
                x = self.residual(here["cross_norm"], x, attention)

            def forward(y: Tensor, here: Names = here) -> Tensor:
                return self.at(here["down"], self.at(here["up"], y).relu())

            x = self.residual(here["feedforward_norm"], x, forward)
        return self.at(names["final_norm"], x) if "final_norm" in names else x

    def encode(self, source: Tensor, mask: Tensor) -> Tensor:
        return self.through("encoder", self.embed("encoder", source), mask[:, None])

    def logits(self, source: Tensor, mask: Tensor, target: Tensor) -> Tensor:
        keys = self.encode(source, mask)
        x = self.through("decoder", self.embed("decoder", target), causal(target.shape[1]), keys,
                         mask)  # fmt: skip
        return self.at(self.names["decoder"]["head"], x)


@contextmanager
def foreign_classes(*names: str) -> Iterator[dict[str, type]]:
    """Define classes of modules that are not installed, within the block."""
    made: dict[str, type] = {}
    modules: list[str] = []
    for name in names:
        module, _, last = name.rpartition(".")
        parts = module.split(".")
        for i in range(1, len(parts) + 1):
            whole = ".".join(parts[:i])
            if whole not in sys.modules:
                sys.modules[whole] = ModuleType(whole)
                modules.append(whole)
        if not hasattr(sys.modules[module], last):
            setattr(sys.modules[module], last, type(last, (), {"__module__": module}))
        made[name] = getattr(sys.modules[module], last)
    try:
        yield made
    finally:
        for name in modules:
            del sys.modules[name]


def with_attributes(kind: type, **attributes: Any) -> Any:
    value = kind()
    value.__dict__.update(attributes)
    return value
