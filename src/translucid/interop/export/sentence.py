"""What makes one vector of a text, as sentence-transformers has it: modules beside an encoder."""

import json
from pathlib import Path

from translucid.core.errors import InputError
from translucid.interop.export.rewrites import Weights
from translucid.interop.families.encoder_heads import MODULES, OTHERS, POOLING, SIZES
from translucid.models.transformer_config import TransformerConfig
from translucid.tasks.embed import MAX_LENGTH
from translucid.tasks.long_texts import text_limit
from translucid.tasks.model_folder import Bundle

MODULE = "sentence_transformers.models."


def without_pooling(weights: Weights) -> Weights:
    """The encoder that gives the tokens' vectors."""
    config = weights.config
    if config.outputs is not None or config.pooling not in POOLING.values():
        raise InputError(
            f"pooling {config.pooling}{'' if config.outputs is None else ' and a dense layer'}: "
            f"written are {', '.join(POOLING.values())} without a dense layer; export to onnx"
        )
    return weights.changed({}, head="none", normalise=False, pooling="mean")


def write_modules(held: Bundle, folder: Path) -> list[str]:
    """The modules behind the encoder; what they do, a line."""
    config = held.network.config
    assert isinstance(config, TransformerConfig)
    kinds = {"": "Transformer", "1_Pooling": "Pooling"}
    if config.normalise:
        kinds["2_Normalize"] = "Normalize"
    modules = [
        {"idx": number, "name": str(number), "path": path, "type": MODULE + kind}
        for number, (path, kind) in enumerate(kinds.items())
    ]
    modes = {name: pooling == config.pooling for name, pooling in POOLING.items()}
    pooled = {"word_embedding_dimension": config.d_model} | modes | dict.fromkeys(OTHERS, False)
    limit = text_limit(held.network, held.statistics.get(MAX_LENGTH))
    files: dict[str, object] = {
        MODULES: modules,
        SIZES: {"max_seq_length": limit, "do_lower_case": False},
        "1_Pooling/config.json": pooled,
    }
    for path in kinds:
        (folder / path).mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content, indent=2) + "\n", "utf-8")
    return [f"sentence-transformers reads the folder: pooling {config.pooling}"
            + ", then length 1" * config.normalise]  # fmt: skip
