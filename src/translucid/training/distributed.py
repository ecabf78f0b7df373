"""Several processes that train one model: `torchrun --nproc-per-node 2 -m translucid train ...`.

Every batch is shared out by rows and every gradient is the sum over all rows, so the number of
processes decides how fast a run is, not what it computes.

    ddp    each process holds the whole model; gradients are summed
    fsdp   each process holds a shard of every tensor, and borrows the rest layer by layer
"""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, Literal

import torch
import torch.distributed as dist
from torch import Tensor, nn

from translucid.core.errors import ConfigError, TrainingError
from translucid.models.ensemble import Ensemble
from translucid.parts.attention import CrossAttention

Parallel = Literal["ddp", "fsdp"]


class Processes:
    """This process among those of a run. Alone, everything here is the identity."""

    def __init__(self, rank: int = 0, count: int = 1, parallel: Parallel | None = None) -> None:
        self.rank, self.count, self.parallel = rank, count, parallel

    @property
    def alone(self) -> bool:
        """In no group. A torchrun of one process has a group of one, and works as of many."""
        return self.parallel is None

    @property
    def main(self) -> bool:
        """The one that speaks and writes."""
        return self.rank == 0

    @property
    def sharded(self) -> bool:
        return self.parallel == "fsdp"

    @property
    def command(self) -> str:
        """What starts the command line in as many processes."""
        several = f"torchrun --nproc-per-node {self.count} -m translucid"
        return "translucid" if self.alone else several

    def wrap(self, network: nn.Module, *, find_unused: bool = False) -> nn.Module:
        """What to call for a loss whose gradients all processes share."""
        if self.alone:
            return network
        if isinstance(network, Ensemble):
            raise ConfigError(
                f"model.ensemble_size = {network.config.ensemble_size}: an ensemble is trained in "
                "one process; start it without torchrun"
            )
        if self.parallel == "fsdp":
            from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method

            # It warns of what nobody does here: changing keys and values in place.
            warnings.filterwarnings("ignore", message="FSDP2-wrapped module")
            for part in network.modules():
                if isinstance(part, CrossAttention):  # asked for keys and values before its layer
                    fully_shard(part)
                    register_fsdp_forward_method(part, "project")
            for part in network.modules():
                if isinstance(part, nn.ModuleList):
                    for layer in part:
                        fully_shard(layer)
            fully_shard(network)
            return network
        device = next(network.parameters()).device
        places = [device.index] if device.type == "cuda" else None
        return nn.parallel.DistributedDataParallel(
            network, device_ids=places, find_unused_parameters=find_unused
        )

    def syncing(self, called: nn.Module, wanted: bool) -> Any:
        """Gradients are exchanged only after the last batch of a step."""
        if isinstance(called, nn.parallel.DistributedDataParallel):
            return nullcontext() if wanted else called.no_sync()
        if self.sharded:
            called.set_requires_gradient_sync(wanted)  # type: ignore[operator]
        return nullcontext()

    def sum(self, value: Tensor) -> Tensor:
        """The sum over all processes, in float64: a new tensor."""
        total = value.detach().double().clone()
        if not self.alone:
            dist.all_reduce(total)
        return total

    def any(self, flag: bool) -> bool:
        """Whether it holds in any process; all of them get the same answer."""
        return self.any_of(flag)[0]

    def any_of(self, *flags: bool) -> list[bool]:
        """The same of several, in one exchange: what it costs is its way through all processes."""
        if self.alone:
            return list(flags)
        seen = torch.tensor(flags, dtype=torch.int32)
        dist.all_reduce(seen, dist.ReduceOp.MAX)
        return [bool(flag) for flag in seen]

    def wait(self) -> None:
        if not self.alone:
            self.any(False)  # on the CPU: a barrier of NCCL would need a device

    def agree(self, value: float) -> float:
        """The main process's value, in all of them."""
        if self.alone:
            return value
        main_value = torch.tensor([value], dtype=torch.float64)
        dist.broadcast(main_value, 0)
        return float(main_value)


ALONE = Processes()


def whole(tensor: Tensor) -> Tensor:
    """All of a tensor of which each process holds a shard."""
    if not dist.is_initialized():
        return tensor
    from torch.distributed.tensor import DTensor  # takes a second: only where there may be one

    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def shard(tensor: Tensor, like: Tensor) -> Tensor:
    """What this process holds of a whole tensor, shared out as another one is."""
    if not dist.is_initialized():
        return tensor
    from torch.distributed.tensor import DTensor, distribute_tensor

    if not isinstance(like, DTensor):
        return tensor
    return distribute_tensor(tensor, like.device_mesh, like.placements)


@contextmanager
def joined(parallel: Parallel, device: torch.device) -> Iterator[Processes]:
    """The processes that torchrun started, or this one alone."""
    count = int(os.environ.get("WORLD_SIZE", "1"))
    if count == 1 and not dist.is_torchelastic_launched():
        yield ALONE
        return
    if device.type not in ("cpu", "cuda"):
        raise ConfigError(f"training.device = {device}: several processes need cpu or cuda")
    backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
    dist.init_process_group(backend)
    try:
        yield Processes(dist.get_rank(), count, parallel)
    except RuntimeError as error:
        # A process that ended shows as a closed connection or a timeout in the others.
        raise TrainingError(
            f"process {os.environ['RANK']} of {count} lost the others: {str(error).strip()[:300]}"
        ) from error
    finally:
        dist.destroy_process_group()
