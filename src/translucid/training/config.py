"""Configuration of the training loop and the optimizer."""

import os
from typing import Annotated, Literal

from pydantic import Field, field_validator

from translucid.core.config import Config, key
from translucid.core.spelling import our_value
from translucid.training.distributed import Parallel
from translucid.training.optimisers import OptimizerName, ScheduleName

TrackerName = Literal["tensorboard", "wandb", "mlflow"]


class TrainingConfig(Config):
    """Configuration of the training loop and the optimizer."""

    start_from: str | None = key(
        None, "trained model to start from: a run, a folder or a file; not set: random weights"
    )

    @field_validator("start_from", mode="before")
    @classmethod
    def _path_as_text(cls, value: object) -> object:
        return os.fspath(value) if isinstance(value, os.PathLike) else value

    freeze: tuple[str, ...] = key(
        (), "frozen weights, by name or part: encoder.*, *.layers.0", strict=False
    )
    learning_rates: dict[str, Annotated[float, Field(ge=0)]] = key(
        {}, 'factors of learning_rate by name or part of weights: {"head.*" = 10.0}'
    )
    layer_decay: float | None = key(
        None, "layer-wise decay: factor of learning_rate for each layer below the head", gt=0, le=1
    )
    steps: int = key(2000, "training steps: updates of the weights", gt=0)
    minutes: float | None = key(None, "time limit: stop even if steps are left", gt=0)
    batch_tokens: int = key(4096, "batch size in tokens, padding counted", gt=0)
    accumulate: int = key(1, "gradient accumulation: batches per step", gt=0)
    carry_state: bool = key(
        False, "stateful batches: a recurrent language model continues from the previous batch"
    )
    optimizer: OptimizerName = key("adamw", "optimizer")
    learning_rate: float = key(1e-3, "peak learning rate", gt=0)
    schedule: ScheduleName = key("cosine", "learning rate schedule after warmup")
    warmup: int = key(100, "warmup steps, in which the learning rate rises to its peak", ge=0)
    weight_decay: float = key(
        0.01, "weight decay: fraction of learning_rate by which weights shrink", ge=0
    )
    decay_embeddings: bool = key(False, "weight decay of embedding tables too, not only matrices")
    momentum: float = key(0.9, "momentum of sgd", ge=0, lt=1)
    betas: tuple[Annotated[float, Field(ge=0, lt=1)], Annotated[float, Field(ge=0, lt=1)]] = key(
        (0.9, 0.98), "betas of adam: decay of the mean gradient and of its mean square",
        strict=False,
    )  # fmt: skip
    clip_norm: float = key(1.0, "gradient clipping: maximum norm of the gradient", gt=0)
    activation_regularization: float = key(
        0.0, "AR: weight of a recurrent network's mean squared output in the loss", ge=0
    )
    temporal_regularization: float = key(
        0.0, "temporal AR: weight of the mean squared change of that output in the loss", ge=0
    )
    precision: Literal["float32", "bfloat16"] = key(
        "float32", "autocast dtype; master weights stay float32"
    )

    @field_validator("precision", mode="before")
    @classmethod
    def _by_any_name(cls, value: object) -> object:
        return our_value("training.precision", value)

    compile: Literal["auto", True, False] = key(
        "auto", "torch.compile for a Transformer's layers; auto: on one GPU, if the run is long"
    )
    cuda_graphs: Literal["auto", True, False] = key(
        "auto", "on one GPU: a step as one CUDA graph for each shape of a batch"
    )
    packing: Literal["auto", True, False] = key(
        "auto", "sequence packing: several short pairs in a row; auto: in CUDA graphs, if it pays"
    )
    ema: float | None = key(
        None, "decay of the exponential moving average, such as 0.999", gt=0, lt=1
    )
    evaluate_every: int = key(500, "evaluation interval: steps between two validations", gt=0)
    save_every: int | None = key(
        None, "checkpoint interval in steps; not set: at every evaluation", gt=0
    )
    save_in_background: bool = key(
        False, "write checkpoints while training continues; needs their size in RAM"
    )
    patience: int | None = key(
        None, "early stopping: after this many evaluations without a better one", gt=0
    )
    best_metric: str | None = key(
        None, "metric that chooses the best model, such as loss; not set: the task's own"
    )
    keep_best: int = key(1, "best models to keep; above 1, as checkpoints/step-N", gt=0)
    average_best: bool = key(False, "try the mean of the best models' weights as best model")
    skip_bad_batches: int = key(
        0, "steps that may be skipped because their gradient is not finite", ge=0
    )
    log_every: int = key(20, "logging interval: steps between two lines of progress", gt=0)
    tensorboard: bool = key(False, "also write the curves for TensorBoard")
    trackers: tuple[TrackerName, ...] = key(
        (), "trackers to send the curves to: tensorboard, wandb, mlflow", strict=False
    )

    @field_validator("trackers", "freeze", mode="before")
    @classmethod
    def _one_alone(cls, value: object) -> object:
        return (value,) if isinstance(value, str) else value

    parallel: Parallel = key("ddp", "data parallelism of several processes (torchrun)")
    deterministic: bool = key(False, "deterministic GPU kernels: repeat to the bit; slower")
    seed: int = key(0, "random seed of weights, order and dropout", ge=0, lt=2**63)
    device: str = key("auto", "device: auto, cpu, cuda, cuda:1")
