"""Copy the weights of a trained model into a new network, with its vocabulary kept, extended or
replaced."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from translucid.core.errors import ConfigError, InputError
from translucid.core.weights import own_tensors
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.interop.hub import fetched
from translucid.interop.importing import load
from translucid.models import Network
from translucid.models.adapters import merge
from translucid.models.mlp import MLPConfig
from translucid.models.recurrent import RecurrentConfig
from translucid.models.sequence_config import SequenceConfig
from translucid.models.transformer import TransformerConfig
from translucid.tasks import model_folder
from translucid.tasks.label_scores import FUNCTION
from translucid.tasks.model_folder import Bundle
from translucid.tasks.registry import TASKS


@dataclass(frozen=True)
class StartModel:
    """A trained model, on the CPU. `config` is that of a sequence model."""

    path: str
    bundle: Bundle
    weights: str  # SHA-256 of all its tensors

    @property
    def config(self) -> TransformerConfig | RecurrentConfig:
        config = self.bundle.network.config
        assert isinstance(config, TransformerConfig | RecurrentConfig)
        return config

    @property
    def imported(self) -> bool:
        """Whether the model came from another tool."""
        return "imported" in self.bundle.facts

    def shape_for(self, task: str) -> str:
        """The shape of a network for this task that starts from this model."""
        wanted = TASKS[task].shape
        shape = SHAPES.get((wanted, self.config.shape))
        if shape is None:
            fitting = " or ".join(theirs for ours, theirs in SHAPES if ours == wanted)
            raise ConfigError(
                f"training.start_from = {self.path!r}: task {task} needs a model of shape "
                f"{fitting}, but this is a model of shape {self.config.shape} (task "
                f"{self.bundle.task}); start from another model, or train for another task"
            )
        return shape

    def line(self) -> str:
        """Describe the start model in one line."""
        network = self.bundle.network
        return (
            f"starting from {self.path}: {self.config.kind} for task {self.bundle.task}, "
            f"{network.parameters_count:,} parameters, weights {self.weights[:12]}"
        )


def open_source(path: str, task: str) -> StartModel:
    """Open a model to start from; raise an error if training for this task cannot start from it."""
    place = fetched(path)
    if not place.exists():
        raise InputError(
            f"training.start_from = {path!r}: no such run, folder or file; name a model that "
            "`translucid info` can open"
        )
    held = load(place)
    kinds = (SequenceConfig,) if TASKS[task].shape else (MLPConfig,)
    if not isinstance(held.network.config, kinds):
        network, advice = model_folder.place(place).parent / model_folder.NETWORK, ""
        if network.is_dir() and isinstance(load(network).network.config, kinds):
            advice = f"; the network of this run is in {network}"  # best/ is its baseline
        raise ConfigError(
            f"training.start_from = {path!r}: a {held.network.config.model_dump()['kind']} model "
            f"for task {held.task}; task {task} starts from "
            f"{'a recurrent network or a Transformer' if TASKS[task].shape else 'an mlp'}{advice}"
        )
    source = StartModel(path, held, digest_of(held.network))
    if TASKS[task].shape:
        merge(held.network)  # its adapters are part of it
        source.shape_for(task)
    return source


def digest_of(network: nn.Module) -> str:
    """SHA-256 over names, shapes and values of all tensors."""
    digest = hashlib.sha256()
    for name, tensor in sorted(own_tensors(network).items()):
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}\n".encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


LANGUAGE = ("language", "fill")  # heads with a row for each token
BROKEN = "\ufffd"  # the text of a token that is part of a character


@dataclass(frozen=True)
class Rows:
    """For each row of a new table, the rows of the start model's table that initialize it. The new
    row begins as the mean of these rows or, if there are none, with random values."""

    begin: Sequence[Sequence[int]]
    equal: int  # tokens with the same text in both
    split: int  # initialized as the mean of their old tokens

    @property
    def same(self) -> bool:
        """Whether every row of the start model's table keeps its index."""
        return all(list(places) == [place] for place, places in enumerate(self.begin))

    def of(self, table: Tensor, fresh: Tensor) -> Tensor:
        """The new table (rows, ...). table: that of the start model; fresh: random values, used for
        rows that nothing initializes."""
        rows = fresh.clone()
        alone = {place: places[0] for place, places in enumerate(self.begin) if len(places) == 1}
        rows[list(alone)] = table[list(alone.values())]
        for place, places in enumerate(self.begin):
            if len(places) > 1:
                rows[place] = table[torch.tensor(places)].mean(dim=0)
        return rows


def tokenizers_for(source: StartModel, shape: str) -> dict[str, Tokenizer]:
    """The start model's tokenizers, with the names that the task uses."""
    held = source.bundle.tokenizers
    if shape == "encoder-decoder" or "tokenizer" in held:
        return dict(held)
    return {"tokenizer": held["source"]}  # the encoder's side of a translator


def kept_rows(rows: int, new: Sequence[Sequence[int]] = (), tokens: int = 0) -> Rows:
    """The initial rows for a kept or extended vocabulary. Each row begins as the row with the same
    index in the start model's table. New tokens have the indices from `tokens` on; `new` lists the
    rows that they begin with."""
    begin: list[Sequence[int]] = [[row] for row in range(max(rows, tokens + len(new)))]
    begin[tokens : tokens + len(new)] = new
    return Rows(begin, rows, len(new))


def replaced_rows(new: Tokenizer, old: Tokenizer) -> Rows:
    """For each new token, the rows of the old table that it begins with. That is the row of the
    token with the same text. If there is none, these are the rows of the tokens into which the old
    tokenizer splits the text. Special tokens are matched by role."""
    known = {text: i for i, text in reversed(list(enumerate(texts_of(old))))}
    roles = _roles(new, old)
    begin: list[list[int]] = []
    equal = split = 0
    for i, text in enumerate(texts_of(new)):
        if i in new.special_ids or i == new.unk_id:
            begin.append([roles[i]] if i in roles else [])
            equal += i in roles
        elif text in known:
            begin.append([known[text]])
            equal += 1
        else:
            begin.append([] if BROKEN in text else _pieces(old, text))
            split += bool(begin[-1])
    return Rows(begin, equal, split)


def texts_of(tokenizer: Tokenizer) -> list[str]:
    """The text of each token, with the space before it."""
    space = " " if tokenizer.unit == "word" else ""
    texts = []
    for i, piece in enumerate(tokenizer.pieces(range(len(tokenizer)))):
        special = i in tokenizer.special_ids or i == tokenizer.unk_id
        texts.append(piece if special else space + piece)
    return texts


def _pieces(old: Tokenizer, text: str) -> list[int]:
    try:
        return [i for i in old.encode(text) if i != old.unk_id]
    except InputError:  # longer than the old tokenizer reads at once
        return []


def _roles(new: Tokenizer, old: Tokenizer) -> dict[int, int]:
    """The id of each special token of the new vocabulary, with the id of the old token that has the
    same role."""
    pairs: dict[int, int] = {}
    for role in ("pad", "bos", "eos", "unk", "mask"):
        ours, theirs = getattr(new.special, role), getattr(old.special, role)
        if ours is not None and theirs is not None:
            pairs.setdefault(ours, theirs)
    return pairs


# The shape of a network by the shapes of the task and of the source.
SHAPES = {
    ("encoder", "encoder"): "encoder",
    ("encoder", "decoder"): "decoder",
    ("encoder", "encoder-decoder"): "encoder",
    ("decoder", "decoder"): "decoder",
    ("encoder-decoder", "encoder-decoder"): "encoder-decoder",
}


@dataclass(frozen=True)
class TakenOver:
    """The names of the tensors that were copied, of those that are new, and of those that only the
    start model has."""

    taken: tuple[str, ...]
    fresh: tuple[str, ...]
    left: tuple[str, ...]
    why_fresh: str  # the reason for a new head

    def lines(self, network: Network, source: StartModel) -> list[str]:
        """Describe what was copied, what is new and what was not used."""
        ours, theirs = own_tensors(network), own_tensors(source.bundle.network)
        lines = [f"  copied: {_amount(self.taken, ours)}"]
        if self.fresh:
            why = f" ({self.why_fresh})" if self.why_fresh else ""
            lines.append(f"  new: {_amount(self.fresh, ours)}{why}")
        if self.left:
            lines.append(f"  not used: {_amount(self.left, theirs)}")
        return lines


@torch.no_grad()
def take_over(
    network: Network, source: StartModel, rows: Mapping[str, Rows], labels: Sequence[str]
) -> TakenOver:
    """Copy all weights that fit into the network. rows: the initial rows of the embedding tables of
    `encoder` and `decoder`; the head uses those of the decoder, or of the encoder if there is none.
    """
    theirs = source.bundle.network.state_dict()
    head, order = _head(network, source, labels)
    of_head = rows[_stack(network)]
    taken, fresh = [], []
    for name, tensor in own_tensors(network).items():
        value, part = theirs.get(name.replace(".base.", ".")), _part(name)
        output = part == "head" and name.endswith(("head.linear.weight", "head.linear.bias"))
        if value is None or (part in ("head", "ngrams") and head == "kind"):
            value = None
        elif part == "ngrams":  # depends on token ids and labels
            value = value if of_head.same and order == sorted(order) and not head else None
        elif name.endswith("embedding.table.weight"):
            value = rows[part].of(value, tensor)
        elif output and source.config.head in LANGUAGE:
            value = of_head.of(value, tensor)
        elif output:
            value = value[order] if not head else None
        if value is None:
            fresh.append(name)
            if ".characters.linear." in name:  # added to trained vectors
                tensor.zero_()
            continue
        if value.shape != tensor.shape:
            raise ConfigError(
                f"training.start_from = {source.path!r}: {name} has shape {[*value.shape]}, but "
                f"shape {[*tensor.shape]} in the recipe's model; omit the sizes in section model"
            )
        tensor.copy_(value)
        taken.append(name)
    written = {name.replace(".base.", ".") for name in taken}
    left = [name for name in own_tensors(source.bundle.network) if name not in written]
    return TakenOver(tuple(taken), tuple(fresh), tuple(left), _why(head, source, labels))


def _head(network: Network, source: StartModel, labels: Sequence[str]) -> tuple[str, list[int]]:
    """How the start model's head differs: "kind", "labels", "meaning" or "" (not at all); and the
    indices of its output rows in the order of `labels`."""
    if network.config.model_dump()["head"] != source.config.head:
        return "kind", []
    theirs = list(source.bundle.labels)
    if {*labels} != {*theirs} or len(labels) != len(theirs):
        return "labels", []
    if source.bundle.statistics.get(FUNCTION, "softmax") != "softmax":
        return "meaning", []
    return "", [theirs.index(label) for label in labels]


def _why(head: str, source: StartModel, labels: Sequence[str]) -> str:
    if head == "kind":
        return f"the start model has a head for task {source.bundle.task}"
    if head == "labels":
        return f"the start model has other labels: {some(source.bundle.labels)}"
    if head == "meaning":
        return "the start model is a multi-label model"
    return ""


def reordered(source: StartModel, labels: Sequence[str]) -> bool:
    """Whether the start model has the same labels in another order."""
    theirs = source.bundle.labels
    return {*labels} == {*theirs} and tuple(labels) != tuple(theirs)


def _part(name: str) -> str:
    """The part of the network that a tensor belongs to, such as encoder or head."""
    if ".lora." in name:
        return "LoRA adapters"
    words = name.split(".")
    return words[2] if words[0] == "members" else words[0]


def _stack(network: Network) -> str:
    """The name of the stack whose output the head reads: encoder or decoder."""
    return "encoder" if network.config.model_dump()["shape"] == "encoder" else "decoder"


def _amount(names: Iterable[str], tensors: Mapping[str, Tensor]) -> str:
    """The number of values in each part, as `encoder (22,565,376 values)`."""
    parts: dict[str, int] = {}
    for name in names:
        parts[_part(name)] = parts.get(_part(name), 0) + tensors[name].numel()
    return ", ".join(f"{part} ({count:,} values)" for part, count in parts.items())


def some(names: Sequence[str], most: int = 6) -> str:
    """List the first few of these names."""
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "") or "none"
