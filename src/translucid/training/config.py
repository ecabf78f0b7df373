"""How to train: what the loop and the optimizer are told."""

from typing import Literal

from translucid.config import Config, key
from translucid.training.distributed import Parallel
from translucid.training.optimisers import OptimizerName, ScheduleName


class TrainingConfig(Config):
    """How to train: what the loop and the optimizer need to know."""

    steps: int = key(2000, "updates of the weights", gt=0)
    minutes: float | None = key(None, "stop after this time even if steps are left", gt=0)
    batch_tokens: int = key(4096, "tokens in a batch, padding counted", gt=0)
    accumulate: int = key(1, "batches per update", gt=0)
    optimizer: OptimizerName = key("adamw", "how a gradient becomes a step")
    learning_rate: float = key(1e-3, "length of the longest steps", gt=0)
    schedule: ScheduleName = key("cosine", "how the learning rate goes down")
    warmup: int = key(100, "steps in which the learning rate goes up", ge=0)
    weight_decay: float = key(0.01, "share of learning_rate by which weights shrink", ge=0)
    momentum: float = key(0.9, "of sgd", ge=0, lt=1)
    clip_norm: float = key(1.0, "longer gradients are cut to this length", gt=0)
    precision: Literal["float32", "bfloat16"] = key(
        "float32", "of the products; weights stay float32"
    )
    compile: bool = key(False, "fuse the model's kernels with torch.compile before training")
    capture: Literal["auto", True, False] = key(
        "auto", "on one GPU: a Transformer's step as one CUDA graph for each shape of a batch"
    )
    ema: float | None = key(None, "average the weights with this memory, such as 0.999", gt=0, lt=1)
    evaluate_every: int = key(500, "steps between two looks at the validation data", gt=0)
    save_every: int | None = key(
        None, "steps between two saves for a resume; not set: at every evaluation", gt=0
    )
    save_aside: bool = key(
        False, "write the state while training goes on; needs its size in memory"
    )
    patience: int | None = key(None, "stop after this many evaluations without a better one", gt=0)
    keep_best: int = key(1, "models to keep; above 1, as checkpoints/step-N", gt=0)
    average_best: bool = key(False, "try the mean of the kept models' weights as best model")
    skip_bad_batches: int = key(
        0, "steps that may be left out because their gradient is not finite", ge=0
    )
    log_every: int = key(20, "steps between two lines of progress", gt=0)
    tensorboard: bool = key(False, "also write the curves for TensorBoard")
    parallel: Parallel = key("ddp", "how several processes (torchrun) share the model")
    deterministic: bool = key(False, "on a GPU: only kernels that repeat to the bit; slower")
    seed: int = key(0, "of weights, order and dropout", ge=0)
    device: str = key("auto", "auto, cpu, cuda, cuda:1")
