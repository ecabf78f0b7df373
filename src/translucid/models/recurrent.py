"""Recurrent models: RNN, LSTM and GRU as encoder, decoder, or both with an alignment between them.

Shapes: x (batch, length, d_model) before the recurrence, (batch, length, directions * hidden)
after it.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Literal

import torch
from pydantic import model_validator
from torch import Tensor, nn

from translucid.core.catalogue import Variant, variant
from translucid.core.config import key
from translucid.core.trace import NO_TRACE, Edit, NoTrace
from translucid.models import initialise
from translucid.models.base import Decoder, Encoded, Encoder
from translucid.models.sequence_config import Owners, SequenceConfig
from translucid.parts.alignment import Alignment, AlignmentName, make_alignment
from translucid.parts.cache import DecoderState, EncoderOutput, RecurrentState
from translucid.parts.computation import Index, Scope
from translucid.parts.dropout import EmbeddingDropout, make_dropout
from translucid.parts.embedding import Embedding, InputPart, Tokens
from translucid.parts.expression import Expression, Terms, apply, constant
from translucid.parts.recurrent import Recurrent
from translucid.parts.recurrent_cells import CellName
from translucid.parts.switch import Switch

BridgeName = Literal["project", "copy", "last", "zero"]


class Bridge(nn.Module):
    """The decoder's initial state: tanh(W s + b), where s is the final state of the encoder's top
    layer, both directions concatenated. All decoder layers start from it, so encoder and decoder
    may differ in depth."""

    def __init__(self, d_encoder: int, hidden: int, *, with_cell: bool) -> None:
        super().__init__()
        self.hidden = nn.Linear(d_encoder, hidden)
        self.cell = nn.Linear(d_encoder, hidden) if with_cell else None

    def forward(
        self, state: RecurrentState, layers: int, trace: NoTrace = NO_TRACE
    ) -> RecurrentState:
        directions = self.hidden.in_features // state.hidden.shape[-1]
        hidden = self.hidden(_top(state.hidden, directions))
        hidden = trace("hidden", torch.tanh(hidden))  # (sources, hidden)
        cell = None
        if self.cell is not None and state.cell is not None:
            cell = trace("cell", self.cell(_top(state.cell, directions))).repeat(layers, 1, 1)
        return RecurrentState(hidden.repeat(layers, 1, 1), cell)  # cuDNN needs contiguous tensors

    def state_terms(self, at: Scope, layer: int, row: int, point: str, label: str) -> Terms:
        """The initial state of a decoder layer, as terms."""
        return at.run.vector(label, at.name(point), row, None)

    def terms(self, at: Scope, point: str, index: Index) -> Expression:
        row, d = index
        letter = point[0]
        last = _last_states(at, -1, row, point)
        total = at.linear(point, d, last, f"W_{letter}", f"b_{letter}")
        return total if point == "cell" else apply("tanh", total)

    def switches(self, path: str) -> Iterator[Switch]:
        yield _off(path, ["hidden"] + (["cell"] if self.cell is not None else []))


class CopyBridge(nn.Module):
    """The decoder's initial state is a copy of the encoder's final state, both directions
    concatenated. Each layer starts from the encoder layer with the same index or, with `top`, from
    the top layer."""

    def __init__(self, *, top: bool, directions: int, with_cell: bool) -> None:
        super().__init__()
        self.top, self.directions, self.with_cell = top, directions, with_cell

    @property
    def variant(self) -> Variant:
        return variant(top=self.top, bidirectional=self.directions == 2)

    def forward(
        self, state: RecurrentState, layers: int, trace: NoTrace = NO_TRACE
    ) -> RecurrentState:
        hidden = trace("copied_hidden", self._copy(state.hidden, layers))
        if state.cell is None:
            return RecurrentState(_layers_first(hidden))
        cell = trace("copied_cell", self._copy(state.cell, layers))
        return RecurrentState(_layers_first(hidden), _layers_first(cell))

    def _copy(self, states: Tensor, layers: int) -> Tensor:
        """Reshape the encoder's states (layers * directions, rows, hidden) to those of the decoder:
        (rows, layers, directions * hidden)."""
        joined = states.unflatten(0, (-1, self.directions)).permute(2, 0, 1, 3).flatten(2)
        if self.top:
            joined = joined[:, -1:].expand(-1, layers, -1)
        return joined

    def state_terms(self, at: Scope, layer: int, row: int, point: str, label: str) -> Terms:
        """The initial state of a decoder layer, as terms."""
        return at.run.vector(label, at.name(f"copied_{point}"), row, layer, None)

    def terms(self, at: Scope, point: str, index: Index) -> Expression:
        row, layer, d = index
        return _last_states(at, -1 if self.top else layer, row, point.removeprefix("copied_")).at(d)

    def switches(self, path: str) -> Iterator[Switch]:
        yield _off(path, ["copied_hidden"] + (["copied_cell"] if self.with_cell else []))


def _last_states(at: Scope, layer: int, row: int, point: str) -> Terms:
    """The states of an encoder layer after the last token, as terms. layer: -1 for the top
    layer."""
    source = at.encoder.part("recurrent")
    part = source.module
    assert isinstance(part, Recurrent)
    return part.last_states(source, layer % part.layers, row, point, point[0])


def _off(path: str, points: Sequence[str]) -> Switch:
    edit: dict[str, Edit] = {f"{path}.{point}": 0.0 for point in points}
    return Switch(path, "decoder starts from a zero state", "bridge", edit)


def _layers_first(states: Tensor) -> Tensor:
    """Transpose states from (rows, layers, hidden) to (layers, rows, hidden)."""
    return states.transpose(0, 1).contiguous()


def _top(layers: Tensor, directions: int) -> Tensor:
    """The states of the top layer, directions concatenated. layers: (layers * directions, rows,
    hidden)."""
    return torch.cat(list(layers[-directions:]), dim=-1)


class OneStep(NoTrace):
    """A trace for one position of a loop (input feeding). Values (rows, 1, features) are stored at
    this position. The points in `known` are not stored, because they are the same at all positions
    and were stored before the loop."""

    def __init__(self, trace: NoTrace, position: int, known: Collection[str] = ()) -> None:
        self._trace, self._position, self._known = trace, position, known

    def __call__(self, name: str, value: Tensor) -> Tensor:
        if name in self._known:
            return value
        step = self._trace.step(self._position)
        if value.shape[1] != 1:  # several beams of a source
            return step(name, value)
        return step(name, value.squeeze(1)).unsqueeze(1)

    def at(self, scope: str) -> NoTrace:
        return OneStep(self._trace.at(scope), self._position, self._known)

    def step(self, position: int) -> NoTrace:
        """The trace for a cell that reads one token, the one at this position."""
        return self._trace.step(self._position + position)

    def wants(self, *names: str) -> bool:
        return self._trace.wants(*names)


class RecurrentConfig(SequenceConfig):
    """Configuration of a recurrent model."""

    only_for: ClassVar[Owners] = SequenceConfig.only_for | {"bridge": (("encoder-decoder",), ())}
    kind: Literal["recurrent"] = "recurrent"
    cell: CellName = key("lstm", "recurrent cell")
    hidden: int = key(256, "hidden dimension: size of the state", gt=0)
    layers: int = key(1, "layers", gt=0)
    encoder_hidden: int | None = key(
        None, "hidden dimension of the encoder (encoder-decoder); default: hidden", gt=0
    )
    bidirectional: bool = key(False, "bidirectional encoder")
    attention: Literal["none", AlignmentName] = key("additive", "attention (encoder-decoder)")
    bridge: BridgeName = key(
        "project", "bridge from the encoder's last states to the decoder's first"
    )
    input_feeding: bool = key(
        False, "input feeding: the decoder also reads the previous attention output"
    )
    forget_bias: float = key(1.0, "initial forget gate bias of an LSTM")
    locked_dropout: bool = key(False, "variational dropout: one mask for all tokens of a text")
    embedding_dropout: float = key(
        0.0, "embedding dropout: fraction of word vectors set to 0 in training",
        ge=0, lt=1,
    )  # fmt: skip
    weight_dropout: float = key(
        0.0, "DropConnect: fraction of recurrent weights set to 0 in training", ge=0, lt=1
    )

    @model_validator(mode="after")
    def _parts_fit(self) -> "RecurrentConfig":
        if self.bidirectional and self.shape == "decoder":
            raise ValueError(
                "bidirectional = true: a decoder may not read later tokens; use shape encoder"
            )
        if self.tied and self.head == "language" and self.hidden != self.d_model:
            raise ValueError(
                f"tied = true needs hidden {self.hidden} and d_model {self.d_model} to be equal; "
                f"set hidden = {self.d_model} or tied = false"
            )
        if self.encoder_hidden is not None and self.shape != "encoder-decoder":
            raise ValueError(
                f"encoder_hidden needs shape encoder-decoder, not {self.shape}; use hidden"
            )
        if self.bridge in ("copy", "last") and self.d_encoder != self.hidden:
            per_direction = self.hidden // (2 if self.bidirectional else 1)
            raise ValueError(
                f"bridge {self.bridge} needs an encoder state of {self.hidden} values, not "
                f"{self.d_encoder}; set encoder_hidden = {per_direction}"
            )
        aligned = self.shape == "encoder-decoder" and self.attention != "none"
        if self.input_feeding and not aligned:
            raise ValueError(
                "input_feeding = true needs shape encoder-decoder with attention additive or dot, "
                f"not {self.shape} with {self.attention}"
            )
        if self.head == "fill":
            raise ValueError("head = fill works only with kind = transformer; use tag or none")
        return self

    @property
    def d_encoder(self) -> int:
        """The size of the encoder's state, its directions concatenated."""
        return (self.encoder_hidden or self.hidden) * (2 if self.bidirectional else 1)


class RecurrentEncoder(Encoder):
    """A recurrent stack that reads a text in one or both directions."""

    output_point = "recurrent.output"

    def __init__(self, config: RecurrentConfig, parts: Mapping[str, InputPart]) -> None:
        super().__init__()
        self.embedding = Embedding(config.vocab, config.d_model)
        for name, part in parts.items():
            self.add_module(name, part)
        self.embedding_dropout = EmbeddingDropout(config.vocab, config.embedding_dropout)
        self.dropout = make_dropout(config.dropout, locked=config.locked_dropout)
        hidden = config.encoder_hidden or config.hidden
        self.recurrent = _stack(config, hidden, bidirectional=config.bidirectional)
        self.d_output = hidden * len(self.recurrent.directions)
        initialise.recurrent(self, config.forget_bias)

    def forward(self, tokens: Tokens, trace: NoTrace = NO_TRACE) -> Encoded:
        x = self.dropout(self.embedding_dropout(self.look_up(tokens, trace), tokens.ids))
        outputs, state = self.recurrent(x, tokens.mask, trace=trace.at("recurrent"))
        return Encoded(self.dropout(outputs), tokens.mask, state)

    def feeds(self, part: str, at: Scope) -> str | None:
        return self.embedded(at, before="" if part == "recurrent" else part)


class RecurrentDecoder(Decoder):
    """A recurrent stack that reads a text from left to right and, with an encoder, aligns each
    position to the source.

    With input feeding, x_t = [embedding_t; output_{t-1}], so even a known target is read token by
    token. Luong, Pham & Manning 2015, https://arxiv.org/abs/1508.04025, section 3.3
    """

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__()
        vocab = config.target_vocab or config.vocab
        self.embedding = Embedding(vocab, config.d_model)
        self.embedding_dropout = EmbeddingDropout(vocab, config.embedding_dropout)
        self.dropout = make_dropout(config.dropout, locked=config.locked_dropout)
        self.feeding = config.input_feeding
        inputs = config.d_model + (config.hidden if self.feeding else 0)
        self.recurrent = _stack(config, config.hidden, inputs)
        self.d_output = config.hidden
        self.bridge: Bridge | CopyBridge | None = None
        self.alignment: Alignment | None = None
        if config.shape == "encoder-decoder":
            with_cell = config.cell == "lstm"
            if config.bridge == "project":
                self.bridge = Bridge(config.d_encoder, config.hidden, with_cell=with_cell)
            elif config.bridge != "zero":
                directions = 2 if config.bidirectional else 1
                top = config.bridge == "last"
                self.bridge = CopyBridge(top=top, directions=directions, with_cell=with_cell)
            if config.attention != "none":
                self.alignment = make_alignment(config.attention, config.hidden, config.d_encoder)
        initialise.recurrent(self, config.forget_bias)

    def project(self, encoded: Encoded, trace: NoTrace = NO_TRACE) -> EncoderOutput:
        assert encoded.state is not None, "the encoder is of a different kind"
        projected = [] if self.alignment is None else [self.alignment.project(encoded.outputs)]
        initial = None
        if self.bridge is not None:
            initial = self.bridge(encoded.state, self.recurrent.layers, trace.at("bridge"))
        return EncoderOutput(projected, encoded.mask, initial)

    def forward(
        self,
        ids: Tensor,
        mask: Tensor | None = None,
        encoder_output: EncoderOutput | None = None,
        trace: NoTrace = NO_TRACE,
    ) -> Encoded:
        state = None if encoder_output is None else encoder_output.initial
        outputs, state = self._read(ids, mask, state, encoder_output, trace)
        return Encoded(outputs, mask, state)

    def start(
        self, rows: int, capacity: int, encoder_output: EncoderOutput | None = None
    ) -> DecoderState:
        """Create a state. Its size does not depend on `capacity`."""
        initial = None if encoder_output is None else encoder_output.initial
        if initial is None:
            initial = self.recurrent.zero_state(rows, self.embedding.table.weight)
        return DecoderState([initial.copy()], encoder_output=encoder_output)

    def step(
        self,
        tokens: Tensor,
        state: DecoderState,
        mask: Tensor | None = None,
        trace: NoTrace = NO_TRACE,
    ) -> Tensor:
        before = state.layers[0]
        assert isinstance(before, RecurrentState), "the state is from a different kind of model"
        outputs, after = self._read(tokens, mask, before, state.encoder_output, trace)
        state.layers = [after]
        state.length += tokens.shape[1]
        return outputs

    def _read(
        self,
        ids: Tensor,
        mask: Tensor | None,
        state: RecurrentState | None,
        encoder_output: EncoderOutput | None,
        trace: NoTrace,
    ) -> tuple[Tensor, RecurrentState]:
        looked_up = self.embedding(ids, trace.at("embedding"))
        x = self.dropout(self.embedding_dropout(looked_up, ids))
        if self.feeding:
            return self._feed(x, mask, state, encoder_output, trace)
        outputs, after = self.recurrent(x, mask, state, trace.at("recurrent"))
        return self._align(outputs, encoder_output, trace), after

    def _align(
        self, outputs: Tensor, encoder_output: EncoderOutput | None, trace: NoTrace
    ) -> Tensor:
        """Combine the outputs of the recurrent layers with attention to the source."""
        if self.alignment is not None:
            assert encoder_output is not None, "an encoder-decoder needs an encoder's output"
            outputs = self.alignment(
                outputs, encoder_output.projected[0], encoder_output.mask, trace.at("alignment")
            )
        return self.dropout(outputs)

    def _feed(
        self,
        x: Tensor,
        mask: Tensor | None,
        state: RecurrentState | None,
        encoder_output: EncoderOutput | None,
        trace: NoTrace,
    ) -> tuple[Tensor, RecurrentState]:
        """Run the decoder position by position, where each position also reads the previous
        attention output (input feeding)."""
        state = state or self.recurrent.zero_state(x.shape[0], x)
        fed = x.new_zeros(x.shape[0], self.d_output) if state.fed is None else state.fed
        looped = x.shape[1] > 1 and trace is not NO_TRACE
        if looped:
            assert encoder_output is not None, "an encoder-decoder needs an encoder's output"
            keys, values = encoder_output.projected[0]
            keys = trace.at("alignment")("key", keys)
            encoder_output = replace(encoder_output, projected=[(keys, values)])
        outputs = []
        for t in range(x.shape[1]):
            scope = OneStep(trace, t, known=("key",)) if looped else trace
            here = None if mask is None else mask[:, t : t + 1]
            joined = torch.cat([x[:, t : t + 1], fed[:, None]], dim=-1)
            joined = scope.at("input_feeding")("input", joined)
            output, state = self.recurrent(joined, here, state, scope.at("recurrent"))
            output = self._align(output, encoder_output, scope)
            fed = output[:, 0] if here is None else torch.where(here, output[:, 0], fed)
            outputs.append(output)
        if not outputs:  # no token in any text
            outputs.append(x.new_zeros(x.shape[0], 0, self.d_output))
        return torch.cat(outputs, dim=1), replace(state, fed=fed)

    @property
    def output_point(self) -> str:
        return "recurrent.output" if self.alignment is None else "alignment.output"

    def feeds(self, part: str, at: Scope) -> str | None:
        if part == "alignment":
            return at.name("recurrent.output")
        fed = part == "recurrent" and self.feeding
        return at.name("input_feeding.input") if fed else self.embedded(at)

    def initial_terms(
        self, at: Scope, layer: int, row: int, point: str, label: str
    ) -> Terms | None:
        if self.bridge is None:
            return None
        return self.bridge.state_terms(at.part("bridge"), layer, row, point, label)

    def terms(self, at: Scope, point: str, index: Index) -> Expression:
        """One value of the decoder's input at a position, for a decoder with input feeding. It
        belongs to the embedding or to the previous attention output."""
        row, place, d = index
        size = self.embedding.table.embedding_dim
        if d < size:
            return at.run.number("x", self.embedded(at.run.at(at.path)), row, place, d)
        last = at.token_before(row, place)
        if last is None:
            return constant("output_before", 0)
        name = f"{at.path}.alignment.output"
        return at.run.number("output_before", name, row, last, d - size)


def _stack(
    config: RecurrentConfig, hidden: int, inputs: int | None = None, *, bidirectional: bool = False
) -> Recurrent:
    return Recurrent(
        config.cell,
        inputs or config.d_model,
        hidden,
        config.layers,
        bidirectional=bidirectional,
        dropout=config.dropout,
        locked=config.locked_dropout,
        weight_dropout=config.weight_dropout,
    )
