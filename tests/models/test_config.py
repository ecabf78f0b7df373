"""Impossible configurations are refused, with a way out and with all mistakes at once."""

from typing import Any

import pytest

from translucid.core.errors import ConfigError
from translucid.models import MLPConfig, RecurrentConfig, TransformerConfig

LANGUAGE = {"shape": "decoder", "head": "language", "vocab": 10}
LABELS = {"shape": "encoder", "head": "classify", "vocab": 10, "outputs": 3}
TAGS = LABELS | {"head": "tag"}
STATES = {"shape": "encoder", "head": "none", "vocab": 10}
TRANSLATE = LANGUAGE | {"shape": "encoder-decoder"}
ROTARY = LANGUAGE | {"positions": "rotary", "d_model": 8, "heads": 2}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (LANGUAGE | {"d_model": 64, "heads": 5}, "d_model 64 .* heads 5; try 4 or 8$"),
        (LANGUAGE | {"d_model": 64, "heads": 65}, "d_model 64 .* heads 65; try 64$"),
        (LANGUAGE | {"heads": 4, "kv_heads": 3}, "heads 4 .* kv_heads 3; try 2 or 4$"),
        (LANGUAGE | {"d_model": 5, "heads": 1}, "d_model 5 is odd.*try 6"),
        (LANGUAGE | {"hedas": 4}, r"^hedas: .*did you mean heads\?$"),
        (LANGUAGE | {"zzz": 4}, "^zzz: .*the keys are shape, head, vocab"),
        (LANGUAGE | {"vocab": 0}, "^vocab = 0: .*greater than 0$"),
        (LANGUAGE | {"vocab": "10"}, "^vocab = '10': .*valid integer$"),
        (LANGUAGE | {"norm": "layr"}, "^norm = 'layr': .*'layer', 'rms', 'batch' or 'none'$"),
        (LANGUAGE | {"activation": "rellu"}, "^activation = 'rellu': .*'identity', "),
        (LANGUAGE | {"dropout": 1.0}, "^dropout = 1.0: .*less than 1$"),
        (LANGUAGE | {"dropout": float("nan")}, "^dropout = nan: "),
        (LANGUAGE | {"shape": "encoder"}, "^shape encoder cannot have head language .*classify"),
        (TAGS | {"parallel_residual": True, "placement": "post"}, "not post and encoder"),
        (TRANSLATE | {"parallel_residual": True}, "not pre and encoder-decoder"),
        (TAGS | {"positions": "relative", "relative_distance": 16}, "make the distance larger"),
        (TAGS | {"norm": "batch", "norm_bias": False}, "norm_bias = false.*norm layer"),
        (TRANSLATE | {"segments": 2}, "segments = 2 works only with shape encoder, not .*omit it"),
        (LANGUAGE | {"d_model": 12, "positions": "rotary"}, "d_model / heads = 3.*make it even"),
        (ROTARY | {"rotary_method": "yarn"}, "yarn needs rotary_length"),
        (
            ROTARY | {"rotary_method": "llama3", "rotary_length": 8, "rotary_low": 5.0},
            "rotary_low 5.0 .* less than rotary_high 4.0",
        ),
        (ROTARY | {"rotary_fraction": 0.25}, "rotary_fraction 0.25 is 1"),
        (ROTARY | {"d_head": 3}, "d_head 3 is odd"),
        (
            ROTARY | {"rotary_method": "dynamic", "rotary_length": 8, "d_head": 2},
            "dynamic needs at least 4 .*not 2",
        ),
        (ROTARY | {"rotary_attention_factor": 1.5, "scaled": False}, "needs scaled = true"),
    ],
)
def test_an_impossible_transformer_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        TransformerConfig(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (LANGUAGE | {"bidirectional": True}, "bidirectional = true: .* use shape encoder"),
        (LANGUAGE | {"hidden": 32}, "hidden 32 and d_model 256 .* set hidden = 256"),
        (LANGUAGE | {"cell": "lstn"}, "cell = 'lstn': .*'rnn', 'rnn_relu', 'lstm' or 'gru'"),
        (LABELS | {"weight_dropout": 1.0}, "weight_dropout = 1.0: .*less than 1"),
        (STATES | {"head": "fill"}, "works only with kind = transformer"),
        (STATES | {"bridge": "copy"}, "bridge = 'copy' works only with shape encoder-decoder"),
        (STATES | {"encoder_hidden": 4}, "use hidden"),
        (STATES | {"input_feeding": True}, "not encoder with additive"),
        (
            TRANSLATE | {"d_model": 8, "hidden": 8, "bridge": "copy", "bidirectional": True},
            "not 16; set encoder_hidden = 4",
        ),
    ],
)
def test_an_impossible_recurrent_model_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        RecurrentConfig(**options)


@pytest.mark.parametrize("config", [RecurrentConfig, TransformerConfig])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (LANGUAGE | {"outputs": 3}, "^outputs must not be given for head language$"),
        (STATES | {"head": "embed", "head_dense": "tanh"}, "needs outputs"),
        (
            LANGUAGE | {"target_vocab": 5},
            "target_vocab = 5 works only with shape encoder-decoder, not",
        ),
        (
            TAGS | {"head_bias": True},
            "head_bias = true works only with head language, not with head tag",
        ),
        (TAGS | {"logit_scale": 0.5}, "logit_scale = 0.5 works only with head language"),
        (
            TAGS | {"head_dense": "tanh"},
            "head_dense = 'tanh' works only with head classify or fill or emb",
        ),
        (STATES | {"normalise": True}, "normalise = true works only with head embed.*omit it"),
        (
            LANGUAGE | {"characters": 4},
            "characters = 4 .*encoder and head tag, not with shape decoder",
        ),
        (LABELS | {"characters": 4}, "not with shape encoder and head classify.* omit"),
        (LABELS | {"characters": -1}, "characters = -1: .*greater than or equal to 0"),
        (TAGS | {"ngram_features": 5}, "ngram_features = 5 .*head classify, not .*head tag"),
        (LABELS | {"ngram_features": -1}, "ngram_features = -1: .*greater than or"),
        (TAGS | {"word_dropout": 1.0}, "word_dropout = 1.0: .*less than 1"),
        (
            LANGUAGE | {"word_dropout": 0.1},
            "word_dropout = 0.1 works only with shape encoder, not .*decode",
        ),
        (LABELS | {"ensemble_size": 0}, "ensemble_size = 0: .*greater than 0"),
        (STATES | {"ensemble_size": 2}, "ensemble_size = 2 .*head none"),
        (TRANSLATE | {"ensemble_size": 2}, "--ensemble"),
    ],
)
def test_a_key_of_another_shape_or_head_is_refused(
    config: type, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        config(**options)


def test_all_mistakes_come_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        TransformerConfig(shape="decoder", head="language", vocab=-1, laers=2, norm="l2")
    message = str(caught.value)
    assert message.startswith("3 mistakes:")
    assert "vocab = -1: input should be greater than 0" in message
    assert "laers: no such key; did you mean layers?" in message
    assert "norm = 'l2'" in message


def test_missing_keys_are_named() -> None:
    with pytest.raises(ConfigError, match=r"^inputs is required$"):
        MLPConfig()
    with pytest.raises(ConfigError, match=r"^outputs must be given for head classify$"):
        TransformerConfig(shape="encoder", head="classify", vocab=10)


def test_a_config_does_not_change_after_it_was_checked() -> None:
    config = TransformerConfig(**LABELS)
    with pytest.raises(ValueError, match="frozen"):
        config.heads = 5
