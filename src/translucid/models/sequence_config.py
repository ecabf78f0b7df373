"""What every sequence model is told, and which heads go with which shape."""

from typing import Literal

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


class SequenceConfig(Config):
    """What every sequence model is told."""

    shape: Shape = key(..., "encoder, decoder or both")
    head: HeadName = key(..., "output head")
    vocab: int = key(..., "vocabulary size (of the source)", gt=0)
    target_vocab: int | None = key(
        None, "vocabulary size of the target; default: one table for both", gt=0
    )
    outputs: int | None = key(None, "number of classes or tags", gt=0)
    d_model: int = key(256, "model dimension: size of a token's vector", gt=0)
    dropout: float = key(0.1, "dropout probability", ge=0, lt=1)
    tied: bool = key(True, "tied embeddings: the output head uses the embedding table")
    head_bias: bool = key(False, "bias of the language head")
    logit_scale: float = key(1.0, "logit scale: factor of the language head's input", gt=0)
    pooling: Pooling = key("mean", "pooling of token vectors, for classifiers")
    head_dense: ActivationName | None = key(
        None, "activation of a dense layer between pooling and output; default: no such layer"
    )
    normalise: bool = key(False, "normalise text embeddings to length 1")
    characters: int = key(0, "tag: number of character convolution filters; 0: none", ge=0)
    word_dropout: float = key(
        0.0,
        "word dropout: fraction of tokens replaced by unknown in training",
        ge=0,
        lt=1,
    )
    ngram_features: int = key(0, "classify: rows of the bigram table; 0: none", ge=0)

    ensemble_size: int = key(
        1, "ensemble size: number of networks whose probabilities are averaged", gt=0
    )

    @property
    def context_length(self) -> int | None:
        """How many tokens the model can read or write; None: as many as memory holds."""
        return None

    @model_validator(mode="after")
    def _head_fits_shape(self) -> "SequenceConfig":
        if self.head not in HEADS[self.shape]:
            allowed = " or ".join(HEADS[self.shape])
            why = "it sees the tokens to come" if self.shape == "encoder" else "it generates tokens"
            raise ValueError(
                f"shape {self.shape} cannot have head {self.head} ({why}); its heads are {allowed}"
            )
        if self.head_bias and self.head != "language":
            raise ValueError(
                f"head_bias = true is for head language; head {self.head} has a bias of its own; "
                "leave it out"
            )
        if self.logit_scale != 1 and self.head != "language":
            raise ValueError(f"logit_scale is for head language, not {self.head}; leave it out")
        bare = self.head in ("language", "none", "fill")
        if self.head != "embed" and bare != (self.outputs is None):
            needed = "must not be given" if bare else "must be given"
            raise ValueError(f"outputs {needed} for head {self.head}")
        if self.head_dense is not None and (self.head in ("language", "tag", "none")):
            raise ValueError(
                f"head_dense = {self.head_dense!r} is for head classify, fill or embed, not "
                f"{self.head}; leave it out"
            )
        if self.head_dense is not None and self.head == "embed" and self.outputs is None:
            raise ValueError("head_dense of head embed needs outputs, the size of the dense layer")
        if self.normalise and self.head != "embed":
            raise ValueError(f"normalise = true is for head embed, not {self.head}; leave it out")
        if self.ensemble_size > 1 and self.head in ("none", "fill", "embed"):
            raise ValueError(
                f"ensemble_size = {self.ensemble_size} averages probabilities, which head "
                f"{self.head} has not; leave it out"
            )
        if self.target_vocab is not None and self.shape != "encoder-decoder":
            raise ValueError(
                f"target_vocab is for shape encoder-decoder, not {self.shape}; leave it out"
            )
        if self.characters and (self.shape, self.head) != ("encoder", "tag"):
            raise ValueError(
                f"characters = {self.characters}: only an encoder with head tag reads characters, "
                f"not {self.shape} with head {self.head}; leave it out"
            )
        if self.ngram_features and (self.shape, self.head) != ("encoder", "classify"):
            raise ValueError(
                f"ngram_features = {self.ngram_features}: only an encoder with head classify has "
                f"them, not {self.shape} with head {self.head}; leave it out"
            )
        if self.ensemble_size > 1 and self.shape == "encoder-decoder":
            raise ValueError(
                f"ensemble_size = {self.ensemble_size}: translators form an ensemble after "
                "training, with `translate --ensemble`; leave it out"
            )
        if self.word_dropout and self.shape != "encoder":
            raise ValueError(
                f"word_dropout = {self.word_dropout} is for shape encoder, not {self.shape}; "
                "leave it out"
            )
        return self
