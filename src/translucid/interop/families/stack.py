"""Weight rules of a Transformer stack (encoder or decoder): a family supplies the names of its
modules, and the configuration determines which of them exist.

Roles that a family names, with {} for the layer number; | separates alternatives:
    embedding positions segments embedding_norm final_norm
    query key value | qkv, output, query_norm key_norm, attention_norm
    cross_query cross_key cross_value | cross_query cross_kv | cross_qkv, cross_output, cross_norm
    gate up | gate_up, down, feedforward_norm
"""

from collections.abc import Mapping
from dataclasses import dataclass

from translucid.interop.rules import (
    ByHead,
    LayoutChange,
    Pairs,
    Place,
    Transpose,
    WeightRule,
    joined,
    of_layers,
    rule,
)
from translucid.models.transformer_config import TransformerConfig


@dataclass(frozen=True)
class Names:
    """A family's names for the modules of a stack, and how it stores their weights."""

    modules: Mapping[str, str]
    weight: str = ".weight"  # suffix of a module's name
    bias: str = ".bias"
    gain: str = ".weight"
    shift: str = ".bias"
    transposed: bool = False  # linear layers are (inputs, outputs)
    halves: bool = False  # rotary positions pair dimensions i and i + d/2
    by_head: bool = False  # the rows of a fused qkv are ordered by head


def stack_rules(
    config: TransformerConfig, side: str, layers: int, names: Names, *, cross: bool = False
) -> list[WeightRule]:
    """Rules for all weights of a stack. side: encoder or decoder."""
    made = _Stack(config, side, names)
    return made.around() + of_layers(made.layer(cross), layers)


class _Stack:
    def __init__(self, config: TransformerConfig, side: str, names: Names) -> None:
        self.config, self.side, self.names = config, side, names
        c = config
        self.d_head = c.d_head or c.d_model // c.heads
        self.rows = {
            "query": c.heads * self.d_head,
            "key": (c.kv_heads or c.heads) * self.d_head,
            "value": (c.kv_heads or c.heads) * self.d_head,
        }

    def around(self) -> list[WeightRule]:
        """Rules for the weights outside the layers."""
        modules, c = self.names.modules, self.config
        rules = []
        tables = {"embedding": "embedding.table.weight", "segments": "segments.table.weight",
                  "positions": "positions.table"}  # fmt: skip
        for role, ours in tables.items():
            if role in modules:
                rules.append(rule(modules[role] + self.names.weight, f"{self.side}.{ours}"))
        if "embedding_norm" in modules:
            rules += self._norm("embedding_norm", "embedding_norm")
        if c.final_norm if c.final_norm is not None else c.placement == "pre":
            rules += self._norm("final_norm", "final_norm")
        return rules

    def layer(self, cross: bool) -> list[WeightRule]:
        rules = self._self_attention() + self._feedforward()
        rules += self._norm("attention_norm", "layers.{}.self_attention_residual.norm")
        rules += self._norm("feedforward_norm", "layers.{}.feedforward_residual.norm")
        if cross:
            rules += self._cross_attention()
            rules += self._norm("cross_norm", "layers.{}.cross_attention_residual.norm")
        return rules

    def _self_attention(self) -> list[WeightRule]:
        c, ours = self.config, "layers.{}.self_attention"
        if "qkv" in self.names.modules:
            parts = {"qkv": (sum(self.rows.values()), self._fused_steps())}
        else:
            parts = {role: (rows, self._steps(role)) for role, rows in self.rows.items()}
        rules = self._linear(parts, f"{ours}.qkv", self._has_bias(c.qkv_bias))
        rules += self._linear(
            {"output": (c.d_model, ())}, f"{ours}.output", self._has_bias(c.attention_output_bias)
        )
        if c.qk_norm:
            steps = self._steps("query", heads=1)
            for role in ("query_norm", "key_norm"):
                name = self.names.modules[role] + self.names.gain
                rules.append(rule(name, f"{self.side}.{ours}.{role}.gain", *steps))
        return rules

    def _cross_attention(self) -> list[WeightRule]:
        c, modules, ours = self.config, self.names.modules, "layers.{}.cross_attention"
        bias, key_value = self._has_bias(c.qkv_bias), self.rows["key"] + self.rows["value"]
        if "cross_qkv" in modules:  # one tensor in the file, two in Translucid
            rules = []
            for kind, suffix in (("weight", self.names.weight), ("bias", self.names.bias)):
                if kind == "weight" or bias:
                    places = (
                        Place(f"{self.side}.{ours}.query.{kind}", self.rows["query"]),
                        Place(f"{self.side}.{ours}.kv.{kind}", key_value),
                    )
                    rules.append(WeightRule((Place(modules["cross_qkv"] + suffix),), places))
        else:
            query = {"cross_query": (self.rows["query"], ())}
            rules = self._linear(query, f"{ours}.query", bias)
            parts: dict[str, tuple[int, tuple[LayoutChange, ...]]] = {"cross_kv": (key_value, ())}
            if "cross_kv" not in modules:
                parts = {f"cross_{role}": (self.rows[role], ()) for role in ("key", "value")}
            rules += self._linear(parts, f"{ours}.kv", bias)
        output = {"cross_output": (c.d_model, ())}
        return rules + self._linear(
            output, f"{ours}.output", self._has_bias(c.attention_output_bias)
        )

    def _feedforward(self) -> list[WeightRule]:
        c, ours, modules = self.config, "layers.{}.feedforward", self.names.modules
        bias, size = self._has_bias(c.feedforward_bias), c.d_ff or 4 * c.d_model
        if "gate_up" in modules:
            expand = {"gate_up": (2 * size, ())}
        elif "gate" in modules:
            expand = {"gate": (size, ()), "up": (size, ())}
        else:
            expand = {"up": (size, ())}
        rules = self._linear(expand, f"{ours}.expand", bias)
        return rules + self._linear({"down": (c.d_model, ())}, f"{ours}.output", bias)

    def _linear(
        self, parts: Mapping[str, tuple[int, tuple[LayoutChange, ...]]], ours: str, bias: bool
    ) -> list[WeightRule]:
        """Rules for weight and bias of a linear layer. parts: rows and layout changes of each
        module, by role."""
        names = self.names
        first = (Transpose(),) if names.transposed else ()
        weights = [
            Place(names.modules[role] + names.weight, rows, (*first, *steps))
            for role, (rows, steps) in parts.items()
        ]
        rules = [joined(weights, f"{self.side}.{ours}.weight")]
        if bias:
            biases = [
                Place(names.modules[role] + names.bias, rows, steps)
                for role, (rows, steps) in parts.items()
            ]
            rules.append(joined(biases, f"{self.side}.{ours}.bias"))
        return rules

    def _norm(self, role: str, ours: str) -> list[WeightRule]:
        name, c = self.names.modules[role], self.config
        rules = [rule(name + self.names.gain, f"{self.side}.{ours}.gain")]
        if c.norm == "layer" and c.norm_bias:
            rules.append(rule(name + self.names.shift, f"{self.side}.{ours}.shift"))
        return rules

    def _has_bias(self, place: bool | None) -> bool:
        return self.config.bias if place is None else place

    def _turning(self) -> int | None:
        """The number of rotary dimensions in a head; None: all."""
        fraction = self.config.rotary_fraction
        return None if fraction == 1 else int(self.d_head * fraction)

    def _steps(self, role: str, heads: int | None = None) -> tuple[LayoutChange, ...]:
        if not self.names.halves or role == "value":
            return ()
        return (Pairs(heads or self.rows[role] // self.d_head, self._turning()),)

    def _fused_steps(self) -> tuple[LayoutChange, ...]:
        """Layout changes for queries, keys and values in one tensor."""
        heads, others = self.config.heads, self.config.kv_heads or self.config.heads
        steps: tuple[LayoutChange, ...] = (ByHead(heads),) if self.names.by_head else ()
        if self.names.halves:
            steps += (Pairs(heads + others, self._turning(), still=others),)
        return steps
