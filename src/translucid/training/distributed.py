"""Training in several processes: `torchrun --nproc-per-node 2 -m translucid train ...`.

The rows of every batch are distributed and gradients are summed, so the number of processes does
not change the results, apart from rounding and dropout.

ddp    each process holds the whole model; gradients are summed
fsdp   each process holds a shard of every tensor and gathers the rest layer by layer
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
    """The processes of a run and the rank of this one. With one process, no method has an
    effect."""

    def __init__(self, rank: int = 0, count: int = 1, parallel: Parallel | None = None) -> None:
        self.rank, self.count, self.parallel = rank, count, parallel

    @property
    def alone(self) -> bool:
        """Whether there is no process group. torchrun with one process has a group of one."""
        return self.parallel is None

    @property
    def main(self) -> bool:
        """Whether this process writes logs and files."""
        return self.rank == 0

    @property
    def sharded(self) -> bool:
        return self.parallel == "fsdp"

    @property
    def command(self) -> str:
        """The command that starts Translucid with the same number of processes."""
        several = f"torchrun --nproc-per-node {self.count} -m translucid"
        return "translucid" if self.alone else several

    def wrap(self, network: nn.Module, *, find_unused: bool = False) -> nn.Module:
        """Wrap the network so that gradients of its outputs are summed over processes."""
        if self.alone:
            return network
        if isinstance(network, Ensemble):
            raise ConfigError(
                f"model.ensemble_size = {len(network.members)}: an ensemble is trained in "
                "one process; start it without torchrun"
            )
        if self.parallel == "fsdp":
            from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method

            # It warns about in-place changes of keys and values, which do not happen here.
            warnings.filterwarnings("ignore", message="FSDP2-wrapped module")
            for part in network.modules():
                if isinstance(part, CrossAttention):  # projects keys and values before its layer
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
        """A context in which the backward pass of `called` exchanges gradients only if `wanted`,
        which is true for the last batch of a step."""
        if isinstance(called, nn.parallel.DistributedDataParallel):
            return nullcontext() if wanted else called.no_sync()
        if self.sharded:
            called.set_requires_gradient_sync(wanted)  # type: ignore[operator]
        return nullcontext()

    def sum(self, value: Tensor) -> Tensor:
        """Return the sum over all processes as a new tensor, in float64."""
        total = value.detach().double().clone()
        if not self.alone:
            dist.all_reduce(total)
        return total

    def any(self, flag: bool) -> bool:
        """Whether the flag is set in any process; the same result in all of them."""
        return self.any_of(flag)[0]

    def any_of(self, *flags: bool) -> list[bool]:
        """For each flag, whether it is set in any process, with a single exchange."""
        if self.alone:
            return list(flags)
        seen = torch.tensor(flags, dtype=torch.int32)
        dist.all_reduce(seen, dist.ReduceOp.MAX)
        return [bool(flag) for flag in seen]

    def wait(self) -> None:
        if not self.alone:
            self.any(False)  # on the CPU: NCCL's barrier needs a device

    def agree(self, value: float) -> float:
        """Return the main process's value in all processes."""
        if self.alone:
            return value
        main_value = torch.tensor([value], dtype=torch.float64)
        dist.broadcast(main_value, 0)
        return float(main_value)


ALONE = Processes()


def whole(tensor: Tensor) -> Tensor:
    """Gather a sharded tensor into a whole one; other tensors are returned unchanged."""
    if not dist.is_initialized():
        return tensor
    from torch.distributed.tensor import DTensor  # on demand: takes a second

    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def shard(tensor: Tensor, like: Tensor) -> Tensor:
    """This process's shard of a whole tensor, sharded like another one."""
    if not dist.is_initialized():
        return tensor
    from torch.distributed.tensor import DTensor, distribute_tensor

    if not isinstance(like, DTensor):
        return tensor
    return distribute_tensor(tensor, like.device_mesh, like.placements)


@contextmanager
def joined(parallel: Parallel, device: torch.device) -> Iterator[Processes]:
    """Join the processes that torchrun started. Without torchrun, this process is the only one."""
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
        # When a process ends, the others see a closed connection or a timeout.
        raise TrainingError(
            f"process {os.environ['RANK']} of {count} lost its connection to the others: "
            f"{str(error).strip()[:300]}"
        ) from error
    finally:
        dist.destroy_process_group()
