"""The weights and inputs of a part in a run, by the names of the catalogue.

They are read from the modules and their calls, or computed from the other points, but never by the
part's own code.
"""

import math
from collections.abc import Sequence
from functools import cached_property, partial
from itertools import product
from typing import Any

import torch
from tests.points.definitions import ACTS, DEFINITIONS, HELPERS
from torch import Tensor, nn

from translucid.core.catalogue import CATALOGUE, entry
from translucid.core.trace import Trace
from translucid.models import LinearConfig, MLPConfig, Network, PerceptronConfig
from translucid.parts.computation import variant_of

IDS = torch.tensor([[3, 1, 4, 1, 5, 2], [2, 6, 5, 3, 5, 1], [7, 8, 1, 1, 2, 4]])
MASK = torch.tensor(
    [
        [False, False, True, True, True, True],  # padding at the beginning
        [True, True, True, False, False, False],  # padding at the end
        [True, False, True, True, False, True],  # padding between tokens
    ]
)
SOURCE = torch.tensor([[1, 4, 2, 6], [5, 3, 7, 2], [9, 1, 3, 3]])
SOURCE_MASK = torch.tensor([[True, True, True, False], [False] + 3 * [True], 4 * [True]])
CHARACTERS = torch.tensor([5, 7, 250, 9, 0, 0]).roll(2).repeat(3, 6, 1)
CHARACTERS[0, 2], CHARACTERS[1, 1, 3:], CHARACTERS[2, 5] = 3, 0, 0


# The same words without padding before their first character, as linear models require.
SPELLED = CHARACTERS.gather(2, (CHARACTERS == 0).int().argsort(dim=2, stable=True))
SEGMENTS = torch.tensor([[0, 0, 0, 1, 1, 2], [0, 1, 1, 1, 1, 1], [2, 0, 1, 2, 0, 1]])


class Ran:
    """A network after a traced forward pass, with the arguments with which each of its modules was
    called."""

    def __init__(self, network: Network, padded: bool) -> None:
        self.network, self.trace, self.padded = network, Trace(), padded
        self.calls: dict[str, tuple[Any, ...]] = {}
        for path, module in network.named_modules():
            module.register_forward_pre_hook(partial(self._note, path))
        config = network.config
        self.token_mask = MASK if padded else torch.ones_like(MASK)
        self.source_mask = SOURCE_MASK if padded else torch.ones_like(SOURCE_MASK)
        masks = (self.token_mask if padded else None, self.source_mask if padded else None)
        with torch.no_grad():
            if isinstance(config, PerceptronConfig | MLPConfig):
                network(torch.randn(5, 3, dtype=torch.float64), trace=self.trace)
            elif config.shape == "encoder-decoder":
                network(SOURCE, IDS, masks[1], masks[0], trace=self.trace)
            elif getattr(config, "segments", 0):
                network(IDS, masks[0], trace=self.trace, segments=SEGMENTS)
            elif isinstance(config, LinearConfig):
                network(IDS, masks[0], trace=self.trace, characters=SPELLED)
            elif getattr(config, "characters", 0):
                network(IDS, masks[0], trace=self.trace, characters=CHARACTERS)
            else:
                network(IDS, masks[0], trace=self.trace)

    def _note(self, path: str, module: nn.Module, given: tuple[Any, ...]) -> None:
        self.calls.setdefault(path, given)

    def places(self, scope: str) -> Tensor:
        """The number of tokens before each position, without padding; one row for all texts if none
        is padded."""
        mask = self.mask(scope)
        found = torch.zeros(mask.shape, dtype=torch.float64)
        for row, there in enumerate(mask.tolist()):
            for t in range(len(there)):
                found[row, t] = max(sum(there[: t + 1]) - 1, 0)
        return found if self.padded else found[:1]

    @cached_property
    def points(self) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for name in self.trace:
            scope, _, point = name.rpartition(".")
            found.setdefault(scope, set()).add(point)
        return found

    def mask(self, scope: str) -> Tensor:
        """The mask of the tokens that this part reads."""
        two = hasattr(self.network, "encoder") and hasattr(self.network, "decoder")
        return self.source_mask if two and scope.startswith("encoder") else self.token_mask

    def ids(self, scope: str) -> Tensor:
        two = hasattr(self.network, "encoder") and hasattr(self.network, "decoder")
        return SOURCE if two and scope.startswith("encoder") else IDS

    def __getitem__(self, name: str) -> Tensor:
        return self.trace[name]

    def first(self, stem: str, *names: str) -> Tensor:
        """The first of these points that exists in the run."""
        return next(self[f"{stem}.{name}"] for name in names if f"{stem}.{name}" in self.trace)

    def module(self, path: str) -> Any:
        return self.network.get_submodule(path)

    def form(self, name: str) -> tuple[str, str]:
        """The formula of a point in this network: its key in the definitions, and its template."""
        scope, _, _ = name.rpartition(".")
        words = self.points[scope] | set(variant_of(self.network, scope).words)
        key = entry(name)
        point = CATALOGUE[key]
        for needed, template in point.forms.items():
            if set(needed.split()) <= words:
                assert point.template(words) == template
                return f"{key} | {needed}", template
        assert point.template(words) == point.formula
        return key, point.formula

    def compute(self, name: str) -> Tensor:
        scope = name.rpartition(".")[0]
        key, _ = self.form(name)
        own = variant_of(self.network, scope)
        values = {point: self[f"{scope}.{point}"] for point in self.points[scope]}
        values.pop(name.rpartition(".")[2])  # a point is not computed from itself
        given = GIVEN[entry(name).partition(".")[0]](self, scope)
        given |= dict.fromkeys(own.absent, 0.0)
        if "act" in own.symbols:
            given["act"] = ACTS[own.symbols["act"]]
        return eval(DEFINITIONS[key], HELPERS, given | values)


# ---- what the parts are given: weights and inputs, by the names of the catalogue ----


def linear(layer: nn.Linear, weight: str, bias: str, **more: Any) -> dict[str, Any]:
    found = {weight: layer.weight.detach()} | more
    return found if layer.bias is None else found | {bias: layer.bias.detach()}


def _embedding(ran: Ran, scope: str) -> dict[str, Any]:
    table = ran.module(scope).table.weight.detach()
    return {"table": table, "ids": ran.ids(scope), "d_model": table.shape[1]}


def _characters(ran: Ran, scope: str) -> dict[str, Any]:
    part = ran.module(scope)
    wide = part.width
    inside = torch.zeros(*CHARACTERS.shape[:2], CHARACTERS.shape[2] + wide - 1, 1, dtype=torch.bool)
    for t in range(CHARACTERS.shape[2]):
        inside[:, :, t : t + wide] |= (CHARACTERS[:, :, t] > 0)[..., None, None]
    stem = scope.rpartition(".")[0]
    return (
        {"characters": CHARACTERS, "table": part.table.weight.detach(), "wide": wide}
        | {"is_inside": inside, "x": ran.first(stem, "embedding.scaled", "embedding.lookup")}
        | linear(part.filters, "W", "b")
        | linear(part.linear, "V", "c")
    )


def _positions(ran: Ran, scope: str) -> dict[str, Any]:
    part, stem = ran.module(scope), scope.rpartition(".")[0]
    p = ran.places(scope)
    found = {"p": p, "p_q": p[:, None, :, None], "p_k": p[:, None, None, :]}
    if hasattr(part, "slopes"):
        heads = len(part.slopes)
        found["m_h"] = torch.tensor([2 ** (-8 * (h + 1) / heads) for h in range(heads)])[
            :, None, None
        ].double()
    config = ran.network.config
    if config.positions == "relative":
        found |= {"table": part.table.weight.detach(), "bucket": partial(_bucket, config, scope)}
    elif hasattr(part, "table"):
        found |= {"table": part.table.detach(), "p": p.long() + config.first_position}
    made = ("segments.sum", "characters.sum", "embedding.scaled", "embedding.lookup")
    found["x"] = ran.first(stem, *made)
    if config.positions == "sinusoidal":
        found["p"] = p + config.first_position
    if config.positions == "rotary":  # sinusoids have a fixed base
        d = int((config.d_head or config.d_model // config.heads) * config.rotary_fraction)
        found |= {"base": config.rotary_base, "scaling": config.rotary_scaling, "d": d}
        return found | {"original_length": config.rotary_length, "kept": _kept(config, d)}
    return found | {"base": 10000.0, "d": config.d_model}


def _bucket(config: Any, scope: str, offsets: Tensor) -> Tensor:
    """The buckets of relative positions, one by one: one each for near distances, by the logarithm
    for far ones."""
    both = scope.startswith("encoder")
    half = config.relative_buckets // 2 if both else config.relative_buckets
    exact = half // 2
    found = torch.zeros(offsets.shape, dtype=torch.long)
    for place in torch.cartesian_prod(*map(torch.arange, offsets.shape)).tolist():
        offset = int(offsets[tuple(place)])
        away = abs(offset) if both else max(-offset, 0)
        wide = math.log(config.relative_distance / exact)
        far = exact + int(math.log(max(away, 1) / exact) / wide * (half - exact) + 1e-6)
        bucket = away if away < exact else min(far, half - 1)
        found[tuple(place)] = bucket + (half if both and offset > 0 else 0)
    return found


def _segments(ran: Ran, scope: str) -> dict[str, Any]:
    stem = scope.rpartition(".")[0]
    x = ran.first(stem, "characters.sum", "embedding.scaled", "embedding.lookup")
    table = ran.module(scope).table.weight.detach()
    return {"table": table, "segments": SEGMENTS, "x": x}


def _lora(ran: Ran, scope: str) -> dict[str, Any]:
    part = ran.module(scope)
    weights = {"A": part.down.weight.detach(), "B": part.up.weight.detach()}
    return weights | {"scale": part.scale, "x": ran.calls[scope][0]}


def _kept(config: Any, d: int) -> Tensor | None:
    """The fraction of each frequency that is not scaled, as in the papers: by wavelength (llama3),
    or by the number of the pair (yarn)."""
    low, high, length = config.rotary_low, config.rotary_high, config.rotary_length
    waves = [2 * math.pi * config.rotary_base ** (2 * i / d) for i in range(d // 2)]
    if config.rotary_method == "llama3":
        high = high or 4
        kept = [
            0.0 if wave > length / low
            else 1.0 if wave < length / high
            else (length / wave - low) / (high - low)
            for wave in waves
        ]  # fmt: skip
        return torch.tensor(kept, dtype=torch.float64)
    if config.rotary_method == "yarn":
        base = math.log(config.rotary_base)
        ends = [d * math.log(length / (n * 2 * math.pi)) / (2 * base) for n in (high or 32, low)]
        first, last = max(math.floor(ends[0]), 0), min(math.ceil(ends[1]), d - 1)
        kept = [1 - min(max((i - first) / (last - first), 0), 1) for i in range(d // 2)]
        return torch.tensor(kept, dtype=torch.float64)
    return None


def _masks(ran: Ran, scope: str) -> dict[str, Any]:
    mask = ran.mask(scope)
    p, slots = ran.places(scope), torch.arange(mask.shape[1])
    return {
        "slots": slots[None, None, :, None], "key_slots": slots[None, None, None, :],
        "p_q": p[:, None, :, None], "p_k": p[:, None, None, :],
        "w_reach": ran.network.config.window, "is_real": mask[:, None, None, :],
    }  # fmt: skip


def _attention(ran: Ran, scope: str) -> dict[str, Any]:
    part, call = ran.module(scope), ran.calls[scope]
    stack = scope.partition(".layers.")[0]
    size, kv = part.heads * part.d_head, part.kv_heads * part.d_head
    if scope.endswith("self_attention"):
        sizes, layers = (size, kv, kv), [part.qkv]
    else:
        sizes, layers = (size, kv, kv), [part.query, part.kv]
    weight = torch.cat([layer.weight.detach() for layer in layers]).split(sizes)
    found = dict(zip(("W_Q", "W_K", "W_V"), (w.T for w in weight), strict=True))
    norms = (getattr(part, "query_norm", None), getattr(part, "key_norm", None))
    for letter, norm in zip("QK", norms, strict=True):
        if norm is not None:
            found |= {f"gain_{letter}": norm.gain.detach(), "epsilon": norm.eps}
    config = ran.network.config
    yarn = 0.1 * math.log(config.rotary_scaling) + 1
    found["factor"] = (config.rotary_attention_factor or yarn) ** 2
    if layers[0].bias is not None:
        bias = torch.cat([layer.bias.detach() for layer in layers]).split(sizes)
        found |= dict(zip(("b_Q", "b_K", "b_V"), bias, strict=True))
    output = linear(part.output, "W_O", "b_O")
    found |= output | {"W_O": output["W_O"].T, "x": call[0]}
    found |= {"d_head": torch.tensor(part.d_head), "groups": part.heads // part.kv_heads}
    if scope.endswith("self_attention"):
        made = [f"{stack}.masks.{n}" for n in ("causal", "window", "padding")]
        for name in ("angles", "bias"):
            if f"{stack}.positions.{name}" in ran.trace:
                found[name] = ran[f"{stack}.positions.{name}"]
        masks = [ran[name] for name in made if name in ran.trace]
        allowed = torch.tensor(True)
        for mask in masks:
            allowed = allowed & mask
    else:
        found["encoder_output"] = ran["encoder.final_norm.output"]
        allowed = ran.source_mask[:, None, None, :]
    return found | {"mask_of": allowed}


def _alignment(ran: Ran, scope: str) -> dict[str, Any]:
    part = ran.module(scope)
    if hasattr(part, "distances"):
        return _jumping(ran, scope)
    found = {
        "hidden": ran["decoder.recurrent.output"],
        "encoder_output": ran["encoder.recurrent.output"],
    }
    found |= linear(part.key, "W_k", "") | linear(part.output, "W", "b")
    if hasattr(part, "energy"):
        found |= linear(part.query, "W_q", "b_q") | linear(part.energy, "v", "")
    return found | {"is_real": ran.source_mask[:, None]}


def _ngram(ran: Ran, scope: str) -> dict[str, Any]:
    """The tables of an n-gram model by n-gram, which is a tuple of tokens."""
    part, order = ran.module(scope), ran.module(scope).order
    stem = scope.rpartition(".")[0]
    known: dict[tuple[int, ...], float] = {}
    contexts: dict[tuple[int, ...], float] = {}
    before = [()]
    for n in range(1, order + 1):
        own = ran.module(f"{stem}.order{n}_ngram")
        contexts = dict(zip(before, own.backoffs.tolist(), strict=True))
        keys = [divmod(number, own.columns) for number in own.keys.tolist()]
        before = [(*before[context], token) for context, token in keys]
        known = dict(zip(before, own.values.tolist(), strict=True))

    def each_context(look: Any, width: int) -> Tensor:
        found = torch.zeros(*IDS.shape, width, dtype=torch.float64)
        for row, there in enumerate(ran.token_mask.tolist()):
            for t in range(IDS.shape[1]):
                read = [
                    w
                    for w, real in zip(IDS[row, : t + 1].tolist(), there[: t + 1], strict=True)
                    if real
                ]
                short = len(read) < order - 1
                found[row, t] = look(None if short else tuple(read[len(read) - order + 1 :]))
        return found

    def counted(_: Tensor) -> Tensor:
        return each_context(
            lambda c: torch.tensor(
                [0.0 if c is None else known.get((*c, w), 0.0) for w in range(part.columns)],
                dtype=torch.float64,
            ),
            part.columns,
        )

    below = f"{stem}.order{order - 1}_ngram.probability"
    return {
        "ids": IDS, "counted": counted, "vocab": part.columns,
        "left": lambda _: each_context(lambda c: 1.0 if c is None else contexts.get(c, 1.0), 1),
        "lower": ran[below] if order > 1 else None,
    }  # fmt: skip


def _lexicon(ran: Ran, scope: str) -> dict[str, Any]:
    part = ran.module(scope)
    table = torch.zeros(part.rows, part.columns, dtype=torch.float64)
    for number, value in zip(part.keys.tolist(), part.values.tolist(), strict=True):
        table[divmod(number, part.columns)] = value
    return {"table": table, "source": SOURCE}


def _jumping(ran: Ran, scope: str) -> dict[str, Any]:
    part = ran.module(scope)
    mask = ran.source_mask
    places = mask.cumsum(dim=1)  # real tokens are 1, 2, ...; 0 is the start
    states = torch.cat([torch.zeros_like(places[:, :1]), places], dim=1)
    reach = (len(part.distances) - 1) // 2
    away = (places[:, None] - states[..., None]).clamp(-reach, reach) + reach

    def observed(pattern: Tensor, emission: Tensor) -> Tensor:
        found = torch.zeros(*IDS.shape, SOURCE.shape[1] + 1, dtype=torch.float64)
        for row, there in enumerate(ran.token_mask.tolist()):
            state = torch.eye(SOURCE.shape[1] + 1, dtype=torch.float64)[0]
            last = None
            for t, real in enumerate(there):
                if real and last is not None:
                    joint = pattern[row, last] * emission[row, t]
                    state = torch.cat([torch.zeros(1, dtype=torch.float64), joint / joint.sum()])
                last = t if real else last
                found[row, t] = state
        return found

    def read_by(translation: Tensor) -> Tensor:
        return torch.stack([translation[b][:, IDS[b]].T for b in range(len(IDS))])

    return {
        "distances": part.distances.detach(), "away": away, "is_real": mask[:, None],
        "unaligned": part.unaligned.detach(), "unigram": part.unigram.detach(), "read": IDS,
        "translation": ran["encoder.lexicon.translation"], "read_by": read_by, "observed": observed,
    }  # fmt: skip


def _counted_head(ran: Ran) -> dict[str, Any]:
    last = max(name for name in ran.trace if name.endswith("_ngram.probability"))
    found = {"p": ran[last]}
    if hasattr(ran.network, "encoder"):
        a, b = ran.network.head.weights
        found |= {"a": a, "b": b, "mixture": ran["decoder.alignment.mixture"]}
    return found


def _norm(ran: Ran, scope: str) -> dict[str, Any]:
    part = ran.module(scope)
    found = {"x": ran.calls[scope][0]}
    names = {"gain": "gain", "beta": "shift", "epsilon": "eps"}
    names |= {"running_mean": "running_mean", "running_variance": "running_variance"}
    for name, attribute in names.items():
        if hasattr(part, attribute):
            value = getattr(part, attribute)
            found[name] = value.detach() if isinstance(value, Tensor) else value
    return found


def _residual(ran: Ran, scope: str) -> dict[str, Any]:
    """x is the input of the layer, or the output of the previous residual connection; f is the
    sub-layer."""
    layer, _, own = scope.rpartition(".")
    order = ["self_attention", "cross_attention", "feedforward"]
    order = [name for name in order if f"{layer}.{name}_residual.sum" in ran.trace]
    place = order.index(own.removesuffix("_residual"))
    x = ran.calls[layer][0]
    if place:
        before = f"{layer}.{order[place - 1]}_residual"
        post = ran.module(before).placement == "post"
        x = ran[f"{before}.norm.output" if post else f"{before}.sum"]
    inner = ran[f"{layer}.{order[place]}.output"]
    return {"x": x, "f": lambda _: inner}


def _feedforward(ran: Ran, scope: str) -> dict[str, Any]:
    part, (x, *_) = ran.module(scope), ran.calls[scope]
    found = linear(part.output, "W_2", "b_2", x=x)
    if "gate" not in ran.points[scope]:
        return found | linear(part.expand, "W_1", "b_1")
    for side, name in enumerate(("g", "1")):
        found[f"W_{name}"] = part.expand.weight.detach().chunk(2)[side]
        if part.expand.bias is not None:
            found[f"b_{name}"] = part.expand.bias.detach().chunk(2)[side]
    return found


def _dense(ran: Ran, scope: str) -> dict[str, Any]:
    path = scope.removesuffix(".dense")
    return linear(ran.module(path).linear, "W", "b", x=ran.calls[path][0])


def _standardise(ran: Ran, scope: str) -> dict[str, Any]:
    part = ran.module(scope)
    return {"x": ran.calls[scope][0], "mean": part.mean, "deviation": part.deviation}


def _perceptron(ran: Ran, scope: str) -> dict[str, Any]:
    net = ran.network
    return {"x": ran.calls[""][0], "w": net.weight.detach(), "b": net.bias.detach()}


BLOCKS = {"rnn": ("",), "lstm": ("_i", "_f", "_g", "_o"), "gru": ("_r", "_z", "_n")}


def _cell(ran: Ran, scope: str) -> dict[str, Any]:
    """The weights by their letters, the input x, and the states before each step."""
    path, _, rest = scope.partition(".layers.")
    part, kind = ran.module(path), scope.rpartition(".")[2]
    layer, backward = int(rest.partition(".")[0]), ".backward." in scope
    suffix = f"l{layer}" + ("_reverse" if backward else "")
    w, u, b, b_hidden = (
        getattr(part.fused, f"{name}_{suffix}").detach()
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    )
    found: dict[str, Any] = {}
    blocks = zip(
        BLOCKS[kind], *(t.chunk(len(BLOCKS[kind])) for t in (w, u, b, b_hidden)), strict=True
    )
    for letter, weight, state, first, second in blocks:
        both = (first, second) if letter == "_n" else (first + second, None)
        found |= {f"W{letter}": weight, f"U{letter}": state, f"b{letter}": both[0]}
        if both[1] is not None:
            found["b_hn"] = both[1]
    found["x"] = _below(ran, path, layer)
    bridge = f"{path.rpartition('.')[0]}.bridge"
    for letter, point in (("h", "hidden"), ("c", "cell")):
        if point not in ran.points[scope]:
            continue
        states = ran[f"{scope}.{point}"]
        start = torch.zeros_like(states[:, 0])
        if f"{bridge}.{point}" in ran.trace:
            start = ran[f"{bridge}.{point}"]
        elif f"{bridge}.copied_{point}" in ran.trace:
            start = ran[f"{bridge}.copied_{point}"][:, layer]
        found[f"{letter}_before"] = _before(states, start, ran.mask(path), backward)
    return found


def _before(states: Tensor, start: Tensor, mask: Tensor, backward: bool) -> Tensor:
    out, now = torch.empty_like(states), start
    order = range(states.shape[1])
    for t in reversed(order) if backward else order:
        out[:, t] = now
        now = torch.where(mask[:, t, None], states[:, t], now)
    return out


def _after(states: Tensor, mask: Tensor, backward: bool, start: Tensor) -> Tensor:
    """The state after the last token."""
    order = range(states.shape[1])
    now = start
    for t in reversed(order) if backward else order:
        now = torch.where(mask[:, t, None], states[:, t], now)
    return now


def _ways(ran: Ran, path: str, layer: int) -> list[tuple[str, bool]]:
    part = ran.module(path)
    kind = "rnn" if part.cell == "rnn_relu" else part.cell
    if len(part.directions) == 1:
        return [(f"{path}.layers.{layer}.{kind}", False)]
    return [(f"{path}.layers.{layer}.{way}.{kind}", way == "backward") for way in part.directions]


def _below(ran: Ran, path: str, layer: int) -> Tensor:
    """The input of a recurrent layer: the embedding, or the states of the layer below, 0 at
    padding."""
    if layer == 0 and f"{path.rpartition('.')[0]}.input_feeding.input" in ran.trace:
        return ran[f"{path.rpartition('.')[0]}.input_feeding.input"]
    if layer == 0:
        return ran.first(path.rpartition(".")[0], "characters.sum", "embedding.lookup")
    mask = ran.mask(path)[..., None]
    return torch.cat([ran[f"{s}.hidden"] * mask for s, _ in _ways(ran, path, layer - 1)], dim=-1)


def _recurrent(ran: Ran, scope: str) -> dict[str, Any]:
    part, mask = ran.module(scope), ran.mask(scope)[..., None]
    top = [ran[f"{s}.hidden"] * mask for s, _ in _ways(ran, scope, part.layers - 1)]
    if len(top) == 1:
        return {"h": top[0]}
    return {"h_forward": top[0], "h_backward": top[1]}


def _last_state(ran: Ran, path: str, point: str) -> Tensor:
    part = ran.module(path)
    found = []
    for scope, backward in _ways(ran, path, part.layers - 1):
        states = ran[f"{scope}.{point}"]
        found.append(_after(states, ran.mask(path), backward, torch.zeros_like(states[:, 0])))
    return torch.cat(found, dim=-1)


def _copied(ran: Ran) -> dict[str, Any]:
    """The encoder's last states by layer: (batch, layers, hidden)."""
    path, found = "encoder.recurrent", {}
    part = ran.module(path)
    for letter, point in (("h", "hidden"), ("c", "cell")):
        by_way: dict[bool, list[Tensor]] = {}
        for layer in range(part.layers):
            for scope, backward in _ways(ran, path, layer):
                if f"{scope}.{point}" in ran.trace:
                    states = ran[f"{scope}.{point}"]
                    start = torch.zeros_like(states[:, 0])
                    last = _after(states, ran.mask(path), backward, start)
                    by_way.setdefault(backward, []).append(last)
        for backward, layers in by_way.items():
            name = letter if len(by_way) == 1 else f"{letter}_{WAYS[backward]}"
            found[name] = torch.stack(layers, dim=1)
    return found


WAYS = ("forward", "backward")


def _feeding(ran: Ran, scope: str) -> dict[str, Any]:
    stem = scope.rpartition(".")[0]
    outputs = ran[f"{stem}.alignment.output"]
    start = torch.zeros_like(outputs[:, 0])
    before = _before(outputs, start, ran.mask(scope), backward=False)
    return {"x": ran[f"{stem}.embedding.lookup"], "output_before": before}


def _bridge(ran: Ran, scope: str) -> dict[str, Any]:
    part = ran.module(scope)
    if not hasattr(part, "hidden"):
        return _copied(ran)
    found = linear(part.hidden, "W_h", "b_h", h=_last_state(ran, "encoder.recurrent", "hidden"))
    if part.cell is not None:
        last = _last_state(ran, "encoder.recurrent", "cell")
        found |= linear(part.cell, "W_c", "b_c", c=last)
    return found


def _head(ran: Ran, scope: str) -> dict[str, Any]:
    if ran.network.fits:
        return _counted_head(ran)
    part, (x, *_) = ran.module(scope), ran.calls[scope]
    found = {"x": getattr(x, "outputs", x), "logit_scale": ran.network.config.logit_scale}
    if hasattr(part, "linear"):
        found |= linear(part.linear, "W", "b")
    if getattr(part, "dense", None) is not None:
        found |= linear(part.dense.linear, "W_d", "b_d")
    if f"{scope}.norm.output" in ran.trace:
        found["normed"] = ran[f"{scope}.norm.output"]
    if getattr(part, "query", None) is not None:
        found["w"] = part.query.weight.detach()[0]
    stem = "encoder" if hasattr(ran.network, "encoder") else "decoder"
    stem = scope.removesuffix("head") + stem
    if f"{stem}.recurrent.output" in ran.trace:
        found["h"] = _last_state(ran, f"{stem}.recurrent", "hidden")
    return found | {
        "is_real": ran.token_mask,
        "n_real": ran.token_mask.sum(dim=1, keepdim=True).double(),
    }


def _ngrams(ran: Ran, scope: str) -> dict[str, Any]:
    part = ran.module(scope)
    pairs = part.pairs.weight.detach()

    def hash_table(ids: Tensor) -> Tensor:
        found = torch.empty(*ids.shape, pairs.shape[1], dtype=torch.float64)
        for row, (words, there) in enumerate(
            zip(ids.tolist(), ran.token_mask.tolist(), strict=True)
        ):
            for t, word in enumerate(words):
                before = next((words[s] for s in range(t - 1, -1, -1) if there[s]), 0)
                found[row, t] = pairs[(before * 1000003 + word * 7919) % len(pairs)]
        return found

    return {
        "table": part.words.weight.detach(), "ids": IDS, "hash_table": hash_table,
        "class_logits": ran["head.class_logits"], "is_real": ran.token_mask,
    }  # fmt: skip


def _code(symbols: Sequence[int]) -> int:
    """The hash of a sequence."""
    code = 0
    for symbol in symbols:
        code = (code * 1000003 + symbol) % 2147483647
    return code


def _small(word: Sequence[int]) -> list[int]:
    """The bytes + 1 of a word in lower case."""
    return [byte + 1 for byte in bytes(symbol - 1 for symbol in word).lower()]


def _spelling(word: list[int], rows: int, *, tags: bool) -> list[int]:
    """The rows of the spelling features of a word. word: its bytes + 1."""
    if not word:
        return []
    small = [257, *_small(word), 258]
    if not tags:
        grams = [small[i : i + n] for n in range(2, 6) for i in range(len(small) - n + 1)]
        return [_code(gram) % rows for gram in grams]
    marked, kinds, codes = [257, *word, 258], list[int](), list[tuple[list[int], int]]()
    for n in range(2, 6):
        if len(word) + 2 > n:
            codes += [(marked[:n], 2 * n - 3), (marked[-n:], 2 * n - 2)]
    for symbol in word:
        letter = chr(symbol - 1)
        kind = 1 if "A" <= letter <= "Z" else 2 if "a" <= letter <= "z" else 4
        kind = 3 if "0" <= letter <= "9" else kind
        kinds += [kind] if kinds[-1:] != [kind] else []
    codes += [(small, 9), (kinds, 10)]
    return [_code([_code(symbols), place]) % rows for symbols, place in codes]


def _linear(ran: Ran, scope: str) -> dict[str, Any]:
    part = ran.module(scope)
    tags = hasattr(part, "next")

    def word(row: int, place: int) -> list[int]:
        return [symbol for symbol in SPELLED[row, place].tolist() if symbol]

    def spelling_of(number: int) -> Tensor:
        table = getattr(part, ("characters", "next", "previous")[number]).weight.detach()
        found = torch.zeros(*IDS.shape, table.shape[1], dtype=torch.float64)
        for row, place in product(range(IDS.shape[0]), range(IDS.shape[1])):
            features = _spelling(word(row, place), len(table), tags=tags)
            for feature in features:
                found[row, place] += table[feature] / math.sqrt(len(features))
        return found

    def code(row: int, place: int) -> int:
        spelled = word(row, place) if tags else _small(word(row, place))
        return _code(spelled) if spelled else int(IDS[row, place]) + 1

    def word_table(pairs: int) -> Tensor:
        table = getattr(part, ("words", "pairs")[pairs]).weight.detach()
        found = torch.zeros(*IDS.shape, table.shape[1], dtype=torch.float64)
        for row, place in product(range(IDS.shape[0]), range(IDS.shape[1])):
            there = [s for s in range(place) if ran.token_mask[row, s]]
            before = code(row, there[-1]) if there else 0
            own = code(row, place)
            found[row, place] = table[(_code([before, own]) if pairs else own) % len(table)]
        return found

    def beside(step: int, values: Tensor) -> Tensor:
        found = torch.zeros_like(values)
        for row, there in enumerate(ran.token_mask.tolist()):
            for t in range(len(there)):
                ahead = range(t - 1, -1, -1) if step < 0 else range(t + 1, len(there))
                near = next((s for s in ahead if there[s]), None)
                if near is not None:
                    found[row, t] = values[row, near]
        return found

    return {
        "spelling_of": spelling_of, "word_table": word_table, "b": part.bias.detach(),
        "before": partial(beside, -1), "after": partial(beside, 1), "is_real": ran.token_mask,
        "n_real": ran.token_mask.sum(dim=1, keepdim=True).double(),
    }  # fmt: skip


def _ensemble(ran: Ran, scope: str) -> dict[str, Any]:
    names = [n for n in ran.trace if n.endswith(("head.logits", "head.class_logits"))]
    return {"softmaxes": [torch.softmax(ran[name], dim=-1) for name in names]}


GIVEN = {
    "embedding": _embedding, "characters": _characters, "segments": _segments, "lora": _lora,
    "positions": _positions, "masks": _masks,
    "attention": _attention, "alignment": _alignment, "norm": _norm, "residual": _residual,
    "feedforward": _feedforward, "dense": _dense, "standardise": _standardise,
    "perceptron": _perceptron, "recurrent": _recurrent, "rnn": _cell, "lstm": _cell, "gru": _cell,
    "ngram": _ngram, "lexicon": _lexicon,
    "bridge": _bridge, "feeding": _feeding, "head": _head, "ngrams": _ngrams, "ensemble": _ensemble,
    "linear": _linear,
}  # fmt: skip
