"""Configuration of the training loop and the optimizer."""

import os
from typing import Annotated, Literal

from pydantic import Field, field_validator

from translucid.core.config import Config, key
from translucid.core.spelling import our_value
from translucid.training.distributed import Parallel
from translucid.training.optimizers import OptimizerName, ScheduleName

TrackerName = Literal["tensorboard", "wandb", "mlflow"]


class TrainingConfig(Config):
    """Configuration of the training loop and the optimizer."""

    start_from: str | None = key(None, "fine-tuning: model to start from; default: random weights")

    @field_validator("start_from", mode="before")
    @classmethod
    def _path_as_text(cls, value: object) -> object:
        return os.fspath(value) if isinstance(value, os.PathLike) else value

    freeze: tuple[str, ...] = key(
        (), "weights to freeze, by name or pattern: encoder.*, *.layers.0", strict=False
    )
    learning_rates: dict[str, Annotated[float, Field(ge=0)]] = key(
        {}, 'learning-rate multipliers by weight name or pattern: {"head.*" = 10.0}'
    )
    layer_decay: float | None = key(
        None, "layer-wise decay: learning-rate multiplier per layer below the head", gt=0, le=1
    )
    steps: int = key(2000, "number of weight updates", gt=0)
    minutes: float | None = key(None, "time limit of the whole command, in minutes", gt=0)
    most_steps: int | None = key(
        None, "with minutes: change steps during training to use the time, up to this many", gt=0
    )
    batch_tokens: int = key(4096, "batch size in tokens, including padding", gt=0)
    accumulate: int = key(1, "gradient accumulation: batches per step", gt=0)
    carry_state: bool = key(
        False, "stateful batches: start from the last state of the previous batch (recurrent)"
    )
    optimizer: OptimizerName = key("adamw", "optimizer")
    learning_rate: float = key(1e-3, "peak learning rate", gt=0)
    schedule: ScheduleName = key("cosine", "learning rate schedule after warmup")
    warmup: int = key(100, "warmup steps: the learning rate rises to its peak", ge=0)
    weight_decay: float = key(0.01, "weight decay, multiplied by learning_rate", ge=0)
    decay_embeddings: bool = key(False, "apply weight decay to embedding tables too")
    momentum: float = key(0.9, "momentum (sgd)", ge=0, lt=1)
    betas: tuple[Annotated[float, Field(ge=0, lt=1)], Annotated[float, Field(ge=0, lt=1)]] = key(
        (0.9, 0.98), "Adam betas: decay rates of the first and second moment",
        strict=False,
    )  # fmt: skip
    clip_norm: float = key(1.0, "gradient clipping: maximum norm", gt=0)
    clip_value: float | None = key(
        None, "gradient clipping: maximum absolute value of each entry, after clip_norm", gt=0
    )
    activation_regularization: float = key(
        0.0, "recurrent: weight of activation regularization (AR) in the loss", ge=0
    )
    temporal_regularization: float = key(
        0.0, "recurrent: weight of temporal activation regularization (TAR) in the loss", ge=0
    )
    precision: Literal["float32", "bfloat16"] = key(
        "float32", "autocast dtype; master weights stay float32"
    )

    @field_validator("precision", mode="before")
    @classmethod
    def _by_any_name(cls, value: object) -> object:
        return our_value("training.precision", value)

    compile: Literal["auto", True, False] = key(
        "auto", "torch.compile for Transformer layers; auto: on one GPU, in long runs"
    )
    cuda_graphs: Literal["auto", True, False] = key(
        "auto", "CUDA graphs on one GPU, one per batch shape"
    )
    packing: Literal["auto", True, False] = key(
        "auto",
        "sequence packing: several short examples per row; auto: with CUDA graphs, if faster",
    )
    ema: float | None = key(
        None, "decay of the exponential moving average of the weights, such as 0.999", gt=0, lt=1
    )
    evaluate_every: int = key(500, "evaluation interval in steps", gt=0)
    save_every: int | None = key(
        None, "checkpoint interval in steps; default: at every evaluation", gt=0
    )
    save_in_background: bool = key(
        False, "write checkpoints in the background; needs RAM for a copy"
    )
    patience: int | None = key(
        None, "early stopping after this many evaluations without improvement", gt=0
    )
    best_metric: str | None = key(
        None, "metric to choose the best model, such as loss; default: the task's"
    )
    keep_best: int = key(
        1, "number of best models to keep; if more than 1, in checkpoints/step-N", gt=0
    )
    average_best: bool = key(
        False, "average the best models' weights, and keep the average if better"
    )
    baseline: Literal["choose", True, False] = key(
        True,
        "fit the task's baseline model and report its scores; choose: save it as best/ if it is "
        "better on the validation data",
    )
    keep_baseline: bool = key(False, "keep the baseline model in baseline/ even if it is worse")
    skip_bad_batches: int = key(
        0, "maximum number of steps to skip because the gradient is not finite", ge=0
    )
    log_every: int = key(
        20,
        "logging interval in steps; by default, at most one line per second is printed",
        gt=0,
    )
    tensorboard: bool = key(False, "write TensorBoard logs")
    trackers: tuple[TrackerName, ...] = key(
        (), "experiment trackers: tensorboard, wandb, mlflow", strict=False
    )

    @property
    def log_pause(self) -> float:
        """The minimum seconds between two printed lines of progress; 0 if log_every was changed."""
        return 1.0 if self.log_every == type(self).model_fields["log_every"].default else 0.0

    @field_validator("trackers", "freeze", mode="before")
    @classmethod
    def _one_alone(cls, value: object) -> object:
        return (value,) if isinstance(value, str) else value

    parallel: Parallel = key("ddp", "data parallelism with torchrun")
    deterministic: bool = key(False, "deterministic GPU kernels: bit-for-bit reproducible, slower")
    seed: int = key(0, "random seed for weights, data order and dropout", ge=0, lt=2**63)
    device: str = key("auto", "device: auto, cpu, cuda, cuda:1")
