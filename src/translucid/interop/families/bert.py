"""BERT, RoBERTa and DistilBERT: encoders with learned positions and post-norm layers.

They differ in names, in the index of the first position, and in the classification head.
"""

import re
from dataclasses import dataclass
from typing import Any

from translucid.core.errors import InputError
from translucid.interop.families import encoder_heads
from translucid.interop.families.plan import (
    ACTIVATIONS,
    Description,
    ForeignModel,
    ImportPlan,
    Options,
    described,
    name_of,
)
from translucid.interop.families.stack import Names, stack_rules
from translucid.interop.rules import WeightRule, rule
from translucid.models.transformer_config import TransformerConfig

OF_BERT = {
    "embedding": "embeddings.word_embeddings",
    "positions": "embeddings.position_embeddings",
    "segments": "embeddings.token_type_embeddings",
    "embedding_norm": "embeddings.LayerNorm",
    "query": "encoder.layer.{}.attention.self.query",
    "key": "encoder.layer.{}.attention.self.key",
    "value": "encoder.layer.{}.attention.self.value",
    "output": "encoder.layer.{}.attention.output.dense",
    "attention_norm": "encoder.layer.{}.attention.output.LayerNorm",
    "up": "encoder.layer.{}.intermediate.dense",
    "down": "encoder.layer.{}.output.dense",
    "feedforward_norm": "encoder.layer.{}.output.LayerNorm",
}
OF_DISTILBERT = {
    "embedding": "embeddings.word_embeddings",
    "positions": "embeddings.position_embeddings",
    "embedding_norm": "embeddings.LayerNorm",
    "query": "transformer.layer.{}.attention.q_lin",
    "key": "transformer.layer.{}.attention.k_lin",
    "value": "transformer.layer.{}.attention.v_lin",
    "output": "transformer.layer.{}.attention.out_lin",
    "attention_norm": "transformer.layer.{}.sa_layer_norm",
    "up": "transformer.layer.{}.ffn.lin1",
    "down": "transformer.layer.{}.ffn.lin2",
    "feedforward_norm": "transformer.layer.{}.output_layer_norm",
}
KEYS = {
    "d_model": "hidden_size",
    "layers": "num_hidden_layers",
    "heads": "num_attention_heads",
    "d_ff": "intermediate_size",
    "norm_eps": "layer_norm_eps",
    "segments": "type_vocab_size",
}
DISTILBERT_KEYS = {"d_model": "dim", "layers": "n_layers", "heads": "n_heads", "d_ff": "hidden_dim"}
USUAL = {"d_model": 768, "layers": 12, "heads": 12, "d_ff": 3072, "norm_eps": 1e-12, "segments": 2}


@dataclass(frozen=True)
class Heads:
    """A family's names for the modules of its heads."""

    dense: str  # masked language modelling: dense layer, norm, and output bias
    norm: str
    bias: str
    pooled: str  # classification: dense layer, and output
    classes: str
    activation: str  # between these two layers
    output: str  # masked language modelling: the output, a copy of the table if tied
    ignored: tuple[str, ...]  # patterns of tensors used only in pre-training


HEADS = {
    "bert": Heads(
        "cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm",
        "cls.predictions.bias", "bert.pooler.dense", "classifier", "tanh",
        "cls.predictions.decoder", (r"(bert\.)?pooler\..*", r"cls\.seq_relationship\..*"),
    ),
    "roberta": Heads(
        "lm_head.dense", "lm_head.layer_norm", "lm_head.bias", "classifier.dense",
        "classifier.out_proj", "tanh", "lm_head.decoder", (r"(roberta\.)?pooler\..*",),
    ),
    "distilbert": Heads(
        "vocab_transform", "vocab_layer_norm", "vocab_projector.bias", "pre_classifier",
        "classifier", "relu", "vocab_projector", (),
    ),
}  # fmt: skip
OF_TRAINING = (
    r"cls\..*",
    r"lm_head\..*",
    r"vocab_.*",
)  # ignored if the model has no head
IGNORED = (r".*embeddings\.position_ids",)


def from_huggingface(model: ForeignModel) -> ImportPlan:
    """Make an import plan from a config.json. `architectures` names the head; without a head, the
    model returns hidden states."""
    config, kind = model.config, model.config.text("model_type")
    if kind == "distilbert":
        config.ignore("sinusoidal_pos_embds", "tie_weights_")  # the position table is stored
        config.same_as({"hidden_size": "dim", "num_attention_heads": "n_heads",
                        "num_hidden_layers": "n_layers"})  # fmt: skip
    else:
        config.ignore("directionality", "pooler_fc_size", "pooler_num_attention_heads",
                      "pooler_num_fc_layers", "pooler_size_per_head", "pooler_type")  # fmt: skip
    config.must_be("is_decoder", False, "an encoder used as a decoder")
    config.must_be("position_embedding_type", "absolute", "relative positions")
    names, heads = (OF_DISTILBERT if kind == "distilbert" else OF_BERT), HEADS[kind]
    architecture = str(next(iter(config.get("architectures", [])), ""))
    task, head, labels = _head(architecture, config, heads)
    _check_outputs(labels, heads, config, model)
    if kind == "distilbert":
        sizes = config.keys(DISTILBERT_KEYS, USUAL | {"layers": 6}) | {"norm_eps": 1e-12}
    else:
        sizes = config.keys(KEYS, USUAL)
    first = config.id("pad_token_id", 1) + 1 if kind == "roberta" else 0
    positions = config.whole("max_position_embeddings", 512) - first
    prefix = f"{kind}." if any(name.startswith(f"{kind}.") for name in model.tensors) else ""
    table = f"{prefix}{names['embedding']}.weight"
    output = model.output_head(f"{heads.output}.weight", table, default=True)
    if head["head"] == "fill":
        head["tied"] = output.tied
    made = model.transformer(
        shape="encoder",
        vocab=config.whole("vocab_size"),
        placement="post",
        positions="learned",
        max_length=positions,
        first_position=first,
        embedding_norm=True,
        embedding_scale=False,
        dropout=0.0,
        activation=_activation(config),
        **sizes,
        **head,
    )
    modules = {role: prefix + name for role, name in names.items()}
    old = any(name.endswith("LayerNorm.gamma") for name in model.tensors)
    named = Names(modules, gain=".gamma", shift=".beta") if old else Names(modules)
    rules = stack_rules(made, "encoder", made.layers, named)
    if made.head == "fill":
        rules += output.rules
    rules += _head_rules(made, heads, model)
    copies = rf"{re.escape(heads.output)}\..*|{re.escape(heads.bias)}"
    ignored = (*IGNORED, *heads.ignored, copies, *(OF_TRAINING if made.head == "none" else ()))
    notes = output.notes if made.head == "fill" else ()
    plan = ImportPlan(kind, task, made, rules, ignored, labels, notes)
    return encoder_heads.with_function(plan, config) if task == "classify" else plan


def _head(
    architecture: str, config: Options, heads: Heads
) -> tuple[str, dict[str, Any], tuple[str, ...]]:
    """The task, the configuration keys and the labels of a model's head."""
    if architecture.endswith(("ForMaskedLM", "ForPreTraining")):
        # RoBERTa's head always uses GELU.
        dense = "gelu" if config.text("model_type") == "roberta" else _activation(config)
        return "fill", {"head": "fill", "head_dense": dense}, ()
    if architecture.endswith("ForSequenceClassification"):
        labels = _labels(config)
        made = {"head": "classify", "pooling": "first", "head_dense": heads.activation}
        return "classify", made | {"outputs": len(labels)}, labels
    if architecture.endswith("ForTokenClassification"):
        labels = _labels(config)
        return "tag", {"head": "tag", "outputs": len(labels)}, labels
    if architecture.endswith("Model") or not architecture:
        return "none", {"head": "none"}, ()
    config.unsupported(
        f"the head of {architecture[:60]}",
        "masked tokens, text classification, token classification, hidden states",
    )


def _check_outputs(
    labels: tuple[str, ...], heads: Heads, config: Options, model: ForeignModel
) -> None:
    """Raise an error if the number of labels differs from the rows of the classifier."""
    name = f"{heads.classes}.weight"
    stored = model.tensors.get(name, model.tensors.get("classifier.weight"))
    if labels and stored is not None and stored.shape and stored.shape[0] != len(labels):
        raise InputError(
            f"{config.where} has {len(labels):,} labels (id2label, or num_labels), but {name} has "
            f"{stored.shape[0]:,} rows; copy the config.json that belongs to these weights"
        )


def _labels(config: Options) -> tuple[str, ...]:
    names = config.get("id2label")
    if names is None:
        return tuple(f"LABEL_{i}" for i in range(config.whole("num_labels", 2)))
    if not isinstance(names, dict) or not all(str(i) in {str(k) for k in names}
                                              for i in range(len(names))):  # fmt: skip
        raise InputError(f"{config.where}: id2label does not number its labels from 0")
    by_number = {str(key): str(label) for key, label in names.items()}
    return tuple(by_number[str(i)] for i in range(len(names)))


def _activation(config: Options) -> str:
    name = "activation" if config.text("model_type") == "distilbert" else "hidden_act"
    return config.choice(name, ACTIVATIONS, "gelu")


def _head_rules(config: TransformerConfig, heads: Heads, model: ForeignModel) -> list[WeightRule]:
    match config.head:
        case "fill":
            # The output has its own bias, whose name in the file varies if the output is a copy.
            own = f"{heads.output}.bias"
            needed = not config.tied and heads.bias not in model.tensors
            bias = own if own in model.tensors or needed else heads.bias
            return [
                *_linear(heads.dense, "head.dense.linear"),
                rule(f"{heads.norm}.weight", "head.norm.gain"),
                rule(f"{heads.norm}.bias", "head.norm.shift"),
                rule(bias, "head.linear.bias"),
            ]
        case "classify":
            return [
                *_linear(heads.pooled, "head.dense.linear"),
                *_linear(heads.classes, "head.linear"),
            ]
        case "tag":
            return _linear("classifier", "head.linear")
        case _:
            return []


def _linear(theirs: str, ours: str) -> list[WeightRule]:
    return [rule(f"{theirs}.{kind}", f"{ours}.{kind}") for kind in ("weight", "bias")]


CLASSES = {"bert": "Bert", "roberta": "Roberta", "distilbert": "DistilBert"}
ARCHITECTURES = {"classify": "ForSequenceClassification", "tag": "ForTokenClassification",
                 "fill": "ForMaskedLM", "none": "Model"}  # fmt: skip


def to_huggingface(c: TransformerConfig, length: int, kind: str) -> Description:
    """Describe a model as one of these families, without its labels. length: the number of rows of
    the position table that a model without such a table gets."""
    rows = c.max_length if c.positions == "learned" else length
    activation = name_of(c.activation, ACTIVATIONS)
    if kind == "distilbert":
        sizes = described(c, DISTILBERT_KEYS) | {"activation": activation}
    else:
        sizes = described(c, KEYS) | {"hidden_act": activation}
        sizes["type_vocab_size"] = max(c.segments, 1)
    config = {
        "model_type": kind,
        "architectures": [CLASSES[kind] + ARCHITECTURES.get(c.head, "Model")],
        "vocab_size": c.vocab,
        "max_position_embeddings": rows + (c.first_position if kind == "roberta" else 0),
        **sizes,
    }
    if c.head == "fill" and not c.tied:
        config["tie_word_embeddings"] = False
    if kind == "roberta":
        config["pad_token_id"] = max(c.first_position - 1, 1)
    if c.outputs is not None:
        config["id2label"] = {str(i): f"LABEL_{i}" for i in range(c.outputs)}
    return Description(config, () if c.head == "none" else (f"{kind}.",))
