"""Configuration keys of all sequence models, and the heads of each shape."""

from typing import ClassVar, Literal

from pydantic import model_validator

from translucid.core.config import Config, key
from translucid.models.heads import HeadName, Pooling
from translucid.parts.activations import ActivationName

Shape = Literal["encoder", "decoder", "encoder-decoder"]
HEADS: dict[Shape, tuple[HeadName, ...]] = {
    "encoder": ("classify", "tag", "none", "fill", "embed"),
    "decoder": ("language", "classify", "tag"),
    "encoder-decoder": ("language",),
}
Owners = dict[str, tuple[tuple[Shape, ...], tuple[HeadName, ...]]]


class TextConfig(Config):
    """Configuration keys of all models that read tokens."""

    shape: Shape = key(..., "encoder, decoder or both")
    head: HeadName = key(..., "output head")
    vocab: int = key(..., "vocabulary size (of the source)", gt=0)
    target_vocab: int | None = key(
        None, "vocabulary size of the target; default: one table for both", gt=0
    )
    outputs: int | None = key(None, "number of classes or tags", gt=0)

    @property
    def context_length(self) -> int | None:
        """The maximum number of tokens the model can read or generate; None: no limit."""
        return None


class SequenceConfig(TextConfig):
    """Configuration keys of all neural sequence models."""

    # For keys that only some models have: the shapes and heads they apply to; empty: all.
    only_for: ClassVar[Owners] = {
        "target_vocab": (("encoder-decoder",), ()),
        "head_bias": ((), ("language",)),
        "logit_scale": ((), ("language",)),
        "head_dense": ((), ("classify", "fill", "embed")),
        "normalise": ((), ("embed",)),
        "characters": (("encoder",), ("tag",)),
        "ngram_features": (("encoder",), ("classify",)),
        "word_dropout": (("encoder",), ()),
    }
    d_model: int = key(256, "model dimension: size of a token's vector", gt=0)
    dropout: float = key(0.1, "dropout probability", ge=0, lt=1)
    tied: bool = key(True, "tied embeddings: the output head uses the embedding table")
    head_bias: bool = key(False, "bias of the language head")
    logit_scale: float = key(
        1.0, "logit scale: the language head's input is multiplied by it", gt=0
    )
    pooling: Pooling = key("mean", "pooling of token vectors, for classifiers")
    head_dense: ActivationName | None = key(
        None, "activation of a dense layer between pooling and output; default: no such layer"
    )
    normalise: bool = key(False, "normalise text embeddings to length 1")
    characters: int = key(0, "tag: number of character convolution filters; 0: none", ge=0)
    word_dropout: float = key(
        0.0, "word dropout: fraction of tokens replaced by <unk> in training", ge=0, lt=1
    )
    ngram_features: int = key(0, "classify: rows of the bigram table; 0: none", ge=0)

    ensemble_size: int = key(
        1, "ensemble size: number of networks whose probabilities are averaged", gt=0
    )

    @model_validator(mode="after")
    def _head_fits_shape(self) -> "SequenceConfig":
        if self.head not in HEADS[self.shape]:
            allowed = " or ".join(HEADS[self.shape])
            why = "it sees later tokens" if self.shape == "encoder" else "it generates tokens"
            raise ValueError(
                f"shape {self.shape} cannot have head {self.head} ({why}); its heads are {allowed}"
            )
        for name in self.only_for:
            self._check_owner(name)
        bare = self.head in ("language", "none", "fill")
        if self.head != "embed" and bare != (self.outputs is None):
            needed = "must not be given" if bare else "must be given"
            raise ValueError(f"outputs {needed} for head {self.head}")
        if self.head_dense is not None and self.head == "embed" and self.outputs is None:
            raise ValueError(
                "head_dense with head embed needs outputs, the size of the dense layer; set outputs"
            )
        if self.ensemble_size > 1 and self.head in ("none", "fill", "embed"):
            raise ValueError(
                f"ensemble_size = {self.ensemble_size} averages probabilities, which head "
                f"{self.head} does not have; omit it"
            )
        if self.ensemble_size > 1 and self.shape == "encoder-decoder":
            raise ValueError(
                f"ensemble_size = {self.ensemble_size} is not for translation: combine models "
                "after training, with `translate --ensemble`; omit it"
            )
        return self

    def _check_owner(self, name: str) -> None:
        """Raise an error if a key is set that applies only to other shapes or heads."""
        (shapes, heads), value = self.only_for[name], getattr(self, name)
        fits = self.shape in (shapes or HEADS) and (not heads or self.head in heads)
        if fits or value == type(self).model_fields[name].default:
            return
        allowed = [f"shape {' or '.join(shapes)}"] * bool(shapes)
        allowed += [f"head {' or '.join(heads)}"] * bool(heads)
        own = [f"shape {self.shape}"] * bool(shapes) + [f"head {self.head}"] * bool(heads)
        shown = str(value).lower() if isinstance(value, bool) else repr(value)
        raise ValueError(
            f"{name} = {shown} works only with {' and '.join(allowed)}, not with "
            f"{' and '.join(own)}; omit it"
        )
