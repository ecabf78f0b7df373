"""From what somebody has pointed at to a network with its weights."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from translucid.core.errors import InputError
from translucid.core.untrusted_files import ram_bytes
from translucid.interop.families.plan import Plan
from translucid.interop.families.registry import plan_of
from translucid.interop.families.sentence import with_mean
from translucid.interop.placing import grouped, place_weights
from translucid.interop.source import Source, read_source
from translucid.models import Network
from translucid.models.undrawn import build_undrawn


@dataclass(frozen=True)
class Opened:
    """A foreign model in our parts; notes: what was done to it, a line each."""

    source: Source
    plan: Plan
    network: Network
    notes: tuple[str, ...]


def open_network(
    path: Path,
    mapping: Path | None = None,
    *,
    pooled: bool = False,
    ignored_keys: Sequence[str] = (),
) -> Opened:
    """The network of a foreign model, in float32, in evaluation mode. mapping: a mapping file, for
    weights that no tool describes. pooled: of a model that gives hidden states, their mean.
    ignored_keys: keys of config.json of unknown meaning that are to be ignored."""
    source = read_source(path, mapping)
    plan = plan_of(source, ignored_keys)
    if pooled and plan.task == "none":
        plan = with_mean(plan, str(path))
    tensors = source.file.tensors
    sizes = [
        tensors[place.name].size
        for rule in plan.rules
        for place in rule.theirs
        if place.name in tensors
    ]
    available = ram_bytes()
    if available is not None and 4 * sum(sizes) > available:
        raise InputError(
            f"{path}: its {sum(sizes):,} weights take {4 * sum(sizes) / 1e9:.1f} GB in float32, "
            f"but this machine has {available / 1e9:.1f} GB of memory; use a smaller model"
        )
    try:
        network = build_undrawn(plan.config, sizes)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    unused = place_weights(network, plan.rules, tensors, plan.ignored, str(path))
    notes = [*plan.notes]
    types = {tensors[place.name].dtype for rule in plan.rules for place in rule.theirs}
    if types != {"float32"}:
        notes.append(f"weights in {', '.join(sorted(types))} became float32")
    if unused:
        notes.append(f"ignored: {grouped(unused)}")
    network.eval()
    return Opened(source, plan, network, tuple(notes))
