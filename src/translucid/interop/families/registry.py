"""Which family reads which description. `model_type` names the layout of a config.json; all else is
decided by its options."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from translucid.core.errors import InputError, nearest
from translucid.core.untrusted_files import present
from translucid.interop.families import (
    bart,
    bert,
    ctranslate2,
    fairseq,
    gpt2,
    joeynmt,
    llama,
    mapped,
    neox,
    opennmt,
    sentence,
    t5,
)
from translucid.interop.families.keys import check_keys
from translucid.interop.families.options import Options
from translucid.interop.families.plan import Plan
from translucid.interop.formats.stored import ModelFile
from translucid.interop.mapping_file import read_mapping
from translucid.interop.source import Source

Read = Callable[[Options, ModelFile], Plan]
HUGGING_FACE: Mapping[str, Read] = {
    **dict.fromkeys(("llama", "mistral", "qwen2", "qwen3"), llama.from_huggingface),
    "gpt2": gpt2.from_huggingface,
    "gpt_neox": neox.from_huggingface,
    **dict.fromkeys(("bert", "roberta", "distilbert"), bert.from_huggingface),
    **dict.fromkeys(bart.FAMILIES, bart.from_huggingface),
    **dict.fromkeys(t5.KINDS, t5.from_huggingface),
}
GGUF: Mapping[str, Read] = dict.fromkeys(("llama", "qwen2", "qwen3"), llama.from_gguf)
# Why a family is not among them, where more than work is missing.
MIXTURE, STATE_SPACE = "a mixture of experts", "a state space model"
REFUSED: Mapping[str, str] = {
    **dict.fromkeys(
        ("mixtral", "qwen2_moe", "qwen3_moe", "deepseek_v2", "deepseek_v3", "dbrx", "olmoe",
         "phimoe", "granitemoe", "switch_transformers", "nllb-moe", "gpt_oss", "llama4"), MIXTURE,
    ),
    **dict.fromkeys(("mamba", "mamba2", "falcon_mamba", "jamba", "zamba", "bamba"), STATE_SPACE),
    **dict.fromkeys(("rwkv", "rwkv5", "rwkv6", "rwkv7"), "a linear recurrent network (RWKV)"),
}  # fmt: skip


def plan_of(source: Source, ignored_keys: Sequence[str] = ()) -> Plan:
    """What the family makes of a model. ignored_keys: keys of config.json that the user knows to be
    irrelevant."""
    config = source.config
    match source.kind:
        case "huggingface":
            experts = config.get("num_local_experts", config.get("num_experts", 0))
            if isinstance(experts, int) and experts > 1:
                raise InputError(f"{config.where} is {MIXTURE}, which cannot be computed here")
            if config.get("quantization_config"):
                raise InputError(
                    f"{config.where}: the weights are quantised (quantization_config); use the "
                    "model as it was before, or as GGUF"
                )
            plan = _read(HUGGING_FACE, config.text("model_type"), "model_type", source)
            plan = replace(plan, notes=(*plan.notes, *check_keys(config, plan, ignored_keys)))
            pooled = plan.task == "none" and present(source.folder / sentence.MODULES)
            return sentence.with_pooling(plan, source.folder) if pooled else plan
        case "gguf":
            name = config.text("general.architecture")
            return _read(GGUF, name, "general.architecture", source)
        case "llama2c":
            return llama.from_llama2c(config, source.file)
        case "ctranslate2":
            return ctranslate2.from_ctranslate2(config, source.file)
        case "opennmt":
            return opennmt.from_opennmt(config, source.file)
        case "fairseq":
            return fairseq.from_fairseq(config, source.file)
        case "joeynmt":
            return joeynmt.from_joeynmt(config, source.file)
        case "mapping":
            held, tables = read_mapping(source.path)
            return mapped.from_mapping(held, tables, source.file, config.where)


def _read(families: Mapping[str, Read], name: str, key: str, source: Source) -> Plan:
    where = source.config.where
    if name in REFUSED:
        raise InputError(f"{where}: {key} = {name!r} is {REFUSED[name]}, which cannot be computed "
                         "here")  # fmt: skip
    if name not in families:
        close = nearest(name, families, 1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise InputError(
            f"{where}: {key} = {name[:60]!r} is a family that is not known here; "
            f"{', '.join(families)} are{hint}"
        )
    return families[name](source.config, source.file)
