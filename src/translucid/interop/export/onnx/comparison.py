"""The graphs of a folder, run by onnxruntime and compared with the network: a whole batch, a
prompt and steps after it."""

from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from translucid.core.errors import ConfigError, InputError
from translucid.interop.export.onnx.graph import INSTALL
from translucid.interop.export.onnx.networks import ENCODER, MODEL, STEP
from translucid.interop.verify import BOUND, LayerDifference
from translucid.models.autoregressive import GenerationInputs
from translucid.models.base import AutoregressiveNetwork
from translucid.models.mlp import MLP
from translucid.models.sequence_config import SequenceConfig
from translucid.tasks.model_folder import Bundle

ROWS, LENGTH = 3, 9
FOR_DECODER = ("past_", "source_")  # how names of what the encoder gives to it begin
Values = dict[str, Any]


def onnxruntime_package() -> Any:
    try:
        import onnxruntime
    except ImportError as error:
        raise ConfigError(
            f"export to onnx with verify needs the package onnxruntime; {INSTALL}, or leave it out"
        ) from error
    return onnxruntime


class Session:
    """A graph in a file, as onnxruntime runs it."""

    def __init__(self, file: Path) -> None:
        runtime = onnxruntime_package()
        self._session = runtime.InferenceSession(str(file), providers=["CPUExecutionProvider"])

    def __call__(
        self, tensors: Mapping[str, Tensor], state: Mapping[str, Any] | None = None
    ) -> Values:
        """All outputs by name."""
        names = [output.name for output in self._session.get_outputs()]
        arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
        return dict(zip(names, self._session.run(names, arrays | dict(state or {})), strict=True))

    def first_state(self, rows: int) -> Values:
        """What a decoder without a source begins with: zeros, and no past."""
        free = {"batch": rows, "past": 0}
        return {
            value.name: np.zeros([free.get(size, size) for size in value.shape], dtype=np.float32)
            for value in self._session.get_inputs()
            if value.name.startswith("past_")
        }


def compared(held: Bundle, folder: Path, *, exact: bool) -> str:
    """A line about the largest difference; exact: more than rounding is an error."""
    ours, theirs = _both(held, folder)
    scale = float(ours.abs().max())
    largest = float((ours - theirs).abs().max())
    difference = LayerDifference("onnxruntime", largest, scale)
    if exact and not difference.relative <= BOUND:
        raise InputError(
            f"onnxruntime computes something else: {largest:.1e} of {scale:.3g}, more than "
            f"rounding ({BOUND:.0e}); please report this with the model's config.json"
        )
    version = onnxruntime_package().__version__
    return (
        f"onnxruntime {version} against this network: largest difference {largest:.1e}, of "
        f"outputs up to {scale:.3g}"
    )


@torch.inference_mode()
def _both(held: Bundle, folder: Path) -> tuple[Tensor, Tensor]:
    """What the network gives, and what the graphs give, on the same made-up tokens."""
    network = deepcopy(held.network).cpu().eval()  # wherever it is, and whatever it does
    random = torch.Generator().manual_seed(0)
    if isinstance(network, MLP):
        return _numbers(held, network, folder, torch.randn(ROWS, network.config.inputs))
    c: Any = network.config
    assert isinstance(c, SequenceConfig)
    length = min(LENGTH, c.context_length or LENGTH)
    ids = torch.randint(c.vocab, (ROWS, length), generator=random)
    mask = torch.ones_like(ids, dtype=torch.bool)
    mask[1, length - 2 :] = False
    mask[2, : length // 2] = False  # padding on either side
    if not isinstance(network, AutoregressiveNetwork) or c.head != "language":
        inputs = {"ids": ids, "mask": mask}
        if c.characters:
            shape = (ROWS, length, 5)
            inputs["characters"] = torch.randint(257, shape, generator=random)
        made = Session(folder / f"{MODEL}.onnx")(inputs)
        (name,) = (name for name in ("logits", "hidden", "embedding") if name in made)
        return network(**inputs), torch.from_numpy(made[name])
    step = Session(folder / f"{STEP}.onnx")
    if c.shape == "encoder-decoder":
        state = network.start(GenerationInputs.of(ids, mask), length)
        read = Session(folder / f"{ENCODER}.onnx")({"ids": ids, "mask": mask})
        theirs = {name: value for name, value in read.items() if name.startswith(FOR_DECODER)}
        tokens = torch.randint(network.vocab, (ROWS, length), generator=random)
    else:
        state = network.start(GenerationInputs(ROWS), length)
        theirs, tokens = step.first_state(ROWS), ids
    prompt = max(length - 3, 1)
    places = [slice(0, prompt), *(slice(i, i + 1) for i in range(prompt, length))]
    first, second = [], []
    seen = torch.ones_like(tokens, dtype=torch.bool)
    seen[2, : prompt // 2] = False  # prompts are padded on the left
    for place in places:
        newest, real = tokens[:, place], seen[:, place]
        first.append(network.step(newest, state, real))
        made = step({"ids": newest, "mask": seen[:, : place.stop]}, theirs)
        second.append(torch.from_numpy(made["logits"]))
        theirs |= {
            f"past_{name[4:]}": value for name, value in made.items() if name.startswith("new_")
        }
    # What a network makes of padding is nobody's business.
    real = seen[..., None]
    return torch.cat(first, 1) * real, torch.cat(second, 1) * real


def _numbers(held: Bundle, network: MLP, folder: Path, x: Tensor) -> tuple[Tensor, Tensor]:
    """In the units of the data."""
    read, written = x, held.statistics
    if scale := written.get("inputs"):
        read = (x - torch.tensor(scale["mean"])) / torch.tensor(scale["deviation"])
    ours = network(read)
    if scale := written.get("targets"):
        ours = ours * torch.tensor(scale["deviation"]) + torch.tensor(scale["mean"])
    made = Session(folder / f"{MODEL}.onnx")({"x": x})
    return ours, torch.from_numpy(made["prediction"])
