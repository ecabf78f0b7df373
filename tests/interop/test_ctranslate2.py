"""Translation models of CTranslate2: one that its makers publish, and tiny random models of
transformers, written in its format by hand."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.interop.seq2seq_reference import check_encoder_decoder
from tests.interop.test_bart import made
from tests.interop.tokenizer_files import shared
from tests.interop.writers import write_ctranslate2

from translucid.core.errors import InputError
from translucid.generate.beam_search import GenerationConfig
from translucid.generate.decode import find
from translucid.interop.importing import import_model, open_network
from translucid.models.autoregressive import GenerationInputs

PUBLISHED = "ct2-aren-transliteration"


def test_the_published_model_gives_the_published_answers() -> None:
    """Reference: its own engine, which forbids an end at first before it makes probabilities."""
    reference = json.loads(shared(PUBLISHED, "reference.json").read_text("utf-8"))
    model = import_model(shared(PUBLISHED, "model.bin").parent)
    network: Any = model.network
    source, target = model.tokenizers["source"], model.tokenizers["target"]
    answers = reference["v2/aren-transliteration"]
    config = GenerationConfig(beam_size=4, n_best=2, max_length=40)
    for text, expected in zip(reference["source"], answers["beam4"], strict=True):
        inputs = GenerationInputs.of(torch.tensor([source.frame()(source.encode(text))]))
        first = network.step(torch.tensor([target.start_ids]), network.start(inputs, 1))[0, -1]
        ended = math.log1p(-float(first.detach().softmax(dim=-1)[target.eos_id]))
        roles = {"eos": target.eos_id, "pad": target.pad_id,
                 "never": target.never_generated(network.vocab)}  # fmt: skip
        (results,) = find(network, [target.start_ids], inputs, config, **roles)
        written = [target.decode(one.tokens) for one in results]
        assert written == [answer for answer, _ in expected]
        for one, (_, score) in zip(results, expected, strict=True):
            per_token = (one.log_probability - ended) / (len(one.tokens) + 1)
            assert per_token == pytest.approx(score, abs=2e-6)
        (best,) = find(network, [target.start_ids], inputs, GenerationConfig(beam_size=1), **roles)
        assert target.decode(best[0].tokens) == written[0]


def as_variables(theirs: Any, options: dict[str, int]) -> tuple[dict[str, Any], dict[str, str]]:
    """The variables and aliases of a model of BART's kind, as CTranslate2's converter has them."""
    state = {name: t.detach().numpy() for name, t in theirs.state_dict().items()}
    made: dict[str, Any] = {}

    def linear(name: str, *modules: str) -> None:
        for kind in ("weight", "bias"):
            parts = [state[f"model.{module}.{kind}"] for module in modules]
            made[f"{name}/{kind}"] = np.concatenate(parts)

    def norm(name: str, module: str) -> None:
        made[f"{name}/gamma"] = state[f"model.{module}.weight"]
        made[f"{name}/beta"] = state[f"model.{module}.bias"]

    for side in ("encoder", "decoder"):
        stack = getattr(theirs.model, side)
        table = stack.embed_positions.weight.detach().numpy()
        first = getattr(stack.embed_positions, "offset", 0)
        made[f"{side}/position_encodings/encodings"] = np.ascontiguousarray(table[first:])
        for name, value in options.items():
            made[f"{side}/{name}"] = np.array(value, dtype=np.int8)
        if f"model.{side}.layernorm_embedding.weight" in state:
            norm(f"{side}/layernorm_embedding", f"{side}.layernorm_embedding")
        if f"model.{side}.layer_norm.weight" in state:
            norm(f"{side}/layer_norm", f"{side}.layer_norm")
        for i in range(len(stack.layers)):
            ours, own = f"{side}/layer_{i}", f"{side}.layers.{i}"
            linear(f"{ours}/self_attention/linear_0",
                   *(f"{own}.self_attn.{letter}_proj" for letter in "qkv"))  # fmt: skip
            linear(f"{ours}/self_attention/linear_1", f"{own}.self_attn.out_proj")
            norm(f"{ours}/self_attention/layer_norm", f"{own}.self_attn_layer_norm")
            linear(f"{ours}/ffn/linear_0", f"{own}.fc1")
            linear(f"{ours}/ffn/linear_1", f"{own}.fc2")
            norm(f"{ours}/ffn/layer_norm", f"{own}.final_layer_norm")
            if side == "decoder":
                linear(f"{ours}/attention/linear_0", f"{own}.encoder_attn.q_proj")
                linear(f"{ours}/attention/linear_1",
                       *(f"{own}.encoder_attn.{letter}_proj" for letter in "kv"))  # fmt: skip
                linear(f"{ours}/attention/linear_2", f"{own}.encoder_attn.out_proj")
                norm(f"{ours}/attention/layer_norm", f"{own}.encoder_attn_layer_norm")
    made["encoder/embeddings_0/weight"] = state["model.encoder.embed_tokens.weight"]
    made["decoder/projection/bias"] = state["final_logits_bias"][0]
    aliases = {"decoder/projection/weight": "decoder/embeddings/weight"}
    if theirs.config.to_dict().get("share_encoder_decoder_embeddings", True):
        aliases = dict.fromkeys(
            ("decoder/embeddings/weight", "decoder/projection/weight"),
            "encoder/embeddings_0/weight",
        )
    else:
        made["decoder/embeddings/weight"] = state["model.decoder.embed_tokens.weight"]
    return made, aliases


OPTIONS = {"num_heads": 4, "pre_norm": 0, "activation": 2, "scale_embeddings": 1}


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("marian", OPTIONS),
        ("marian with two vocabularies", OPTIONS),
        ("marian without a scale", OPTIONS | {"activation": 0, "scale_embeddings": 0}),
        ("bart", OPTIONS | {"activation": 3, "scale_embeddings": 0}),
        ("mbart", OPTIONS | {"activation": 3, "pre_norm": 1}),
    ],
)
def test_equals_the_original_model(tmp_path: Path, name: str, options: dict[str, int]) -> None:
    theirs = made(name)
    write_ctranslate2(tmp_path / "model.bin", *as_variables(theirs, options))
    opened = check_encoder_decoder(theirs, tmp_path)
    config: Any = opened.plan.config
    assert config.tied
    assert (config.target_vocab is None) == ("two" not in name)


def test_config_and_vocabularies(tmp_path: Path) -> None:
    """In config.json: the epsilon of the norms, what sources end with, what a decoder starts with.
    The row of what is unknown stands last, without a name."""
    write_ctranslate2(tmp_path / "model.bin", *as_variables(made("marian"), OPTIONS))
    config = {"layer_norm_epsilon": 0.25, "add_source_eos": True, "add_source_bos": True,
              "decoder_start_token": "</s>"}  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config))
    tokens = ["<s>", "</s>", "<blank>", *(f"word{i}" for i in range(49))]
    (tmp_path / "shared_vocabulary.json").write_text(json.dumps(tokens))
    model = import_model(tmp_path)
    assert model.network.config.norm_eps == 0.25  # type: ignore[attr-defined]
    tokenizer = model.tokenizers["tokenizer"]
    assert tokenizer.frame()(tokenizer.encode("word3 word9 else")) == [0, 6, 12, 52, 1]
    assert tokenizer.start_ids == [1]
    (tmp_path / "config.json").write_text(json.dumps(config | {"decoder_start_token": "<go>"}))
    with pytest.raises(InputError, match="decoder_start_token = '<go>'"):
        import_model(tmp_path)
    (tmp_path / "shared_vocabulary.json").unlink()
    with pytest.raises(InputError, match="copy shared_vocabulary"):
        import_model(tmp_path)


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("decoder/start_from_zero_embedding", 1, "start_from_zero_embedding = 1"),
        ("decoder/layer_0/self_attention/rotary_dim", 4, "rotary_dim that differs"),
        ("decoder/num_heads", 2, "encoder/num_heads = 4, decoder/num_heads = 2"),
        ("encoder/scale_embeddings", 0, "scale_embeddings = .0, 1."),
    ],
)
def test_unsupported_options_are_refused(
    tmp_path: Path, variable: str, value: int, message: str
) -> None:
    variables, aliases = as_variables(made("marian"), OPTIONS)
    variables[variable] = np.array(value, dtype=np.int8)
    write_ctranslate2(tmp_path / "model.bin", variables, aliases)
    with pytest.raises(InputError, match=message):
        open_network(tmp_path)
