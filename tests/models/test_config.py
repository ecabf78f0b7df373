"""Impossible configurations are refused, with a way out and with all mistakes at once."""

import pytest

from translucid.core.errors import ConfigError
from translucid.models import MLPConfig, RecurrentConfig, TransformerConfig

LANGUAGE = {"shape": "decoder", "head": "language", "vocab": 10}
LABELS = {"shape": "encoder", "head": "classify", "vocab": 10, "outputs": 3}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"d_model": 64, "heads": 5}, r"^d_model 64 is not a multiple of heads 5; try 4 or 8$"),
        ({"d_model": 64, "heads": 65}, r"^d_model 64 is not a multiple of heads 65; try 64$"),
        ({"heads": 4, "kv_heads": 3}, r"^heads 4 is not a multiple of kv_heads 3; try 2 or 4$"),
        ({"d_model": 12, "heads": 4, "positions": "rotary"}, r"rotary positions turn pairs; make"),
        ({"d_model": 5, "heads": 1}, r"d_model 5 is odd, .* come in pairs; try 6"),
        ({"hedas": 4}, r"^hedas: no such key; did you mean heads\?$"),
        ({"zzz": 4}, r"^zzz: no such key; the keys are shape, head, vocab"),
        ({"vocab": 0}, r"^vocab = 0: input should be greater than 0$"),
        ({"vocab": "10"}, r"^vocab = '10': input should be a valid integer$"),
        ({"norm": "layr"}, r"^norm = 'layr': input should be 'layer', 'rms', 'batch' or 'none'$"),
        ({"activation": "rellu"}, r"^activation = 'rellu': input should be 'identity', "),
        ({"dropout": 1.0}, r"^dropout = 1.0: input should be less than 1$"),
        ({"dropout": float("nan")}, r"^dropout = nan: "),
        ({"outputs": 3}, r"^outputs must not be given for head language$"),
        ({"target_vocab": 5}, r"^target_vocab is for shape encoder-decoder, not decoder;"),
        ({"shape": "encoder"}, r"^shape encoder cannot have head language \(it sees the"),
    ],
)  # fmt: skip
def test_a_transformer_that_cannot_be_is_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        TransformerConfig(**LANGUAGE | options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bidirectional": True}, r"a decoder may not read the tokens to come; use shape encoder"),
        (
            {"hidden": 32},
            r"tied = true needs hidden 32 and d_model 256 to be equal; set hidden = 256",
        ),
        ({"cell": "lstn"}, r"cell = 'lstn': input should be 'rnn', 'rnn_relu', 'lstm' or 'gru'"),
    ],
)
def test_a_recurrent_model_that_cannot_be_is_refused(
    options: dict[str, object], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        RecurrentConfig(**LANGUAGE | options)


def test_all_mistakes_come_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        TransformerConfig(shape="decoder", head="language", vocab=-1, laers=2, norm="l2")
    message = str(caught.value)
    assert message.startswith("3 mistakes:")
    assert "vocab = -1: input should be greater than 0" in message
    assert "laers: no such key; did you mean layers?" in message
    assert "norm = 'l2'" in message


def test_what_is_missing_is_named() -> None:
    with pytest.raises(ConfigError, match=r"^inputs: must be given$"):
        MLPConfig()
    with pytest.raises(ConfigError, match=r"^outputs must be given for head classify$"):
        TransformerConfig(shape="encoder", head="classify", vocab=10)


def test_a_config_does_not_change_after_it_was_checked() -> None:
    config = TransformerConfig(**LABELS)
    with pytest.raises(ValueError, match="frozen"):
        config.heads = 5
