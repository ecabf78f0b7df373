"""Folders in Hugging Face's layout: config.json, weights in one file or several, a tokenizer.

`model_type` in config.json names the family. Every key is either read by the family, known to be
irrelevant (listed here), or rejected with an error that names it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from translucid.core.errors import InputError, nearest
from translucid.core.untrusted_files import inside, present, read_object
from translucid.interop.families import encoder_heads
from translucid.interop.families.plan import (
    CONFIG,
    MIXTURE,
    WEIGHT_FILES,
    ForeignModel,
    ImportPlan,
    Options,
    Origin,
    check_family,
)
from translucid.interop.formats.safetensors_file import read_safetensors
from translucid.interop.formats.stored import ModelFile, StoredTensor
from translucid.interop.formats.torch_file import read_torch
from translucid.interop.generation_config import FIELDS
from translucid.interop.tokenizers.specs import ReadTokenizers
from translucid.interop.tokenizers.tokenizer_folder import read_tokenizers

LAYOUT = "Hugging Face's layout"
# The module with from_huggingface() of each family.
FAMILIES: Mapping[str, str] = {
    **dict.fromkeys(("llama", "mistral", "qwen2", "qwen3"), "llama"),
    "gpt2": "gpt2", "gpt_neox": "neox",
    **dict.fromkeys(("bert", "roberta", "distilbert"), "bert"),
    **dict.fromkeys(("bart", "mbart", "marian", "pegasus", "m2m_100"), "bart"),
    **dict.fromkeys(("t5", "mt5"), "t5"),
}  # fmt: skip
# Keys that do not change the output: training, precision, speed, bookkeeping.
IRRELEVANT = frozenset({
    "_attn_implementation", "_attn_implementation_autoset", "_attn_implementation_internal",
    "_commit_hash", "_flash_attn_2_enabled", "_name_or_path", "_num_labels", "adapters",
    "attn_implementation", "chunk_size_feed_forward", "dtype", "finetuning_task",
    "gradient_checkpointing", "id2label", "is_llama_config", "label2id", "language",
    "name_or_path", "num_labels", "output_attentions", "output_hidden_states", "output_past",
    "prefix", "return_dict", "task_specific_params", "tf_legacy_loss", "tokenizer_class",
    "torch_dtype", "torchscript", "transformers.js_config", "transformers_version",
    "unsloth_fixed", "unsloth_version", "use_bfloat16", "use_cache", "use_return_dict",
    "architectures", "model_type", "model_max_length", "experts_implementation",
    # dropout, and initialisation
    "activation_dropout", "attention_dropout", "attention_probs_dropout_prob", "attn_pdrop",
    "classif_dropout", "classifier_dropout", "decoder_layerdrop", "dropout", "dropout_rate",
    "embd_pdrop", "encoder_layerdrop", "hidden_dropout", "hidden_dropout_prob", "init_std",
    "initializer_factor", "initializer_range", "layerdrop", "qa_dropout", "resid_pdrop",
    "seq_classif_dropout", "summary_first_dropout",
})  # fmt: skip
# Special tokens, which the tokenizer reads.
TOKENS = frozenset({
    "bos_token_id", "cls_token_id", "decoder_start_token_id", "eos_token_id", "mask_token_id",
    "pad_token_id", "sep_token_id", "unk_token_id",
})  # fmt: skip
# Generation options, which older folders store in config.json.
GENERATION = (*FIELDS, "forced_decoder_ids", "return_legacy_cache", "trace_request")
# Keys that may change the output, with the values that leave it unchanged.
NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    "add_cross_attention": (False,), "cross_attention_hidden_size": (), "is_decoder": (False,),
    "pruned_heads": ({},), "tie_encoder_decoder": (False,), "use_mrope": (False,),
    "rope_interleaved": (False,), "attention_multiplier": (1, 1.0), "logits_scaling": (1, 1.0),
    "embedding_multiplier": (1, 1.0), "residual_multiplier": (1, 1.0),
    "force_bos_token_to_be_generated": (False,), "do_blenderbot_90_layernorm": (False,),
    "problem_type": ("single_label_classification",),
}  # fmt: skip
Read = Callable[[Path], ModelFile]
SINGLE = dict(zip(WEIGHT_FILES, (read_safetensors, read_torch), strict=True))


def read(origin: Origin) -> ForeignModel:
    folder, file = origin.path, origin.path / CONFIG
    classes = origin.config.get("architectures")
    if classes is not None and not (
        isinstance(classes, list) and all(isinstance(name, str) for name in classes)
    ):
        raise InputError(
            f"{file}: architectures = {str(classes)[:100]}; expected a list of names; copy the "
            "file again"
        )
    options = Options(origin.config, str(file))
    return ForeignModel("huggingface", folder, options, read_weights(folder))


def plan(model: ForeignModel) -> ImportPlan:
    config = model.config
    experts = config.get("num_local_experts", config.get("num_experts", 0))
    if isinstance(experts, int) and experts > 1:
        config.unsupported(MIXTURE)
    if config.get("quantization_config"):
        config.unsupported("quantization_config (quantized weights)", "the original model, GGUF")
    made = plan_of_family(model)
    made = replace(made, notes=(*made.notes, *check_keys(config, made, model.ignored_keys)))
    pooled = made.task == "none" and model.find(encoder_heads.MODULES)
    return encoder_heads.with_pooling(made, model) if pooled else made


def tokenizers(model: ForeignModel, plan: ImportPlan) -> ReadTokenizers:
    # config.json may omit is_encoder_decoder if all models of the family are encoder-decoders.
    config = {**model.config.values, "is_encoder_decoder": plan.translates}
    return read_tokenizers(model.folder, config, max(plan.rows("source"), plan.rows("target")))


def plan_of_family(model: ForeignModel) -> ImportPlan:
    """The import plan of the family that config.json names; only this family's module is loaded."""
    name = FAMILIES[check_family(model.config, "model_type", FAMILIES)]
    family = import_module(f"translucid.interop.families.{name}")
    made: ImportPlan = family.from_huggingface(model)
    return made


def check_keys(config: Options, plan: ImportPlan, allowed: Sequence[str] = ()) -> list[str]:
    """Raise an error for unknown keys, and return notes. allowed: keys that the user asked to
    ignore."""
    config.ignore(*IRRELEVANT, *TOKENS, *GENERATION)
    config.must_be("is_encoder_decoder", plan.translates, f"impossible for {plan.family} models")
    if plan.task != "classify":
        config.ignore("problem_type")
    notes = []
    if config.get("auto_map") is not None:
        notes.append(
            "auto_map in config.json refers to code in the folder, which is never executed"
        )
    unread = config.unread()
    for name in allowed:
        if name not in unread:
            known = nearest(name, unread, 1)
            hint = f"; did you mean {known[0]}?" if known else ""
            raise InputError(
                f"--ignore-key {name}: {config.where} has no unknown key of this name{hint}"
            )
        notes.append(f"ignored as you asked: {name} = {_shown(unread.pop(name))} in config.json")
    unknown = {k: value for k, value in unread.items() if value not in NEUTRAL.get(k, ())}
    if unknown:
        shown = ", ".join(f"{key} = {_shown(value)}" for key, value in list(unknown.items())[:8])
        more = f" and {len(unknown) - 8} more" if len(unknown) > 8 else ""
        options = " ".join(f"--ignore-key {key}" for key in list(unknown)[:8])
        raise InputError(
            f"{config.where}: {shown}{more} is unknown for a {plan.family} model and might change "
            "its output; if you know that it does not, import the model with: translucid import "
            f"FOLDER OUT {options}"
        )
    return notes


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def read_weights(folder: Path) -> ModelFile:
    """All tensors of the folder, memory-mapped, so only those that are used are read."""
    for name, read in SINGLE.items():
        if present(folder / name):
            return read(inside(folder, name, "a model"))
        index = f"{name}.index.json"
        if present(folder / index):
            return _read_shards(folder, index, read)
    others = sorted(path.name for path in folder.iterdir() if path.suffix in (".h5", ".msgpack"))
    remedy = f"it has {others[0]}: save the model as safetensors" if others else "copy it again"
    raise InputError(
        f"{folder} contains no weights ({', '.join(SINGLE)}, or either with .index.json); {remedy}"
    )


def _read_shards(folder: Path, index: str, read: Read) -> ModelFile:
    content = read_object(inside(folder, index, "a model"))
    shards = content.get("weight_map")
    if not isinstance(shards, dict) or not all(isinstance(n, str) for n in shards.values()):
        raise InputError(f"{folder / index} has no weight_map that assigns tensors to files")
    files = {
        name: read(inside(folder, name, str(folder / index)))
        for name in dict.fromkeys(shards.values())
    }
    tensors: dict[str, StoredTensor] = {}
    missing = []
    for name, file in shards.items():
        if name in files[file].tensors:
            tensors[name] = files[file].tensors[name]
        else:
            missing.append(name)
    if missing:
        raise InputError(
            f"{folder / index}: {len(missing):,} tensors are missing from the files in which this "
            f"index places them; for example, {shards[missing[0]]} does not contain "
            f"{str(missing[0])[:100]}; download the model again"
        )
    facts = content.get("metadata")
    return ModelFile(facts if isinstance(facts, dict) else {}, tensors)
