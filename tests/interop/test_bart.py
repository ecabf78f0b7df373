"""BART, mBART, Marian, Pegasus and M2M100 against transformers: tiny random models."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.interop.reference import randomised, save, transformers
from tests.interop.seq2seq_reference import check_encoder_decoder, check_generation
from tests.tiny.dealt import chosen, dealt

from translucid.core.errors import InputError
from translucid.interop.importing import open_network

SIZES = {"vocab_size": 53, "d_model": 24, "encoder_layers": 3, "decoder_layers": 2,
         "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 40,
         "decoder_ffn_dim": 40, "max_position_embeddings": 32}  # fmt: skip
MARIAN = {"pad_token_id": 52, "eos_token_id": 0, "decoder_start_token_id": 52,
          "activation_function": "swish", "scale_embedding": True}  # fmt: skip
APART = {"share_encoder_decoder_embeddings": False, "decoder_vocab_size": 47}
BART = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 2}
PEGASUS = {"pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0,
           "activation_function": "relu", "scale_embedding": True}  # fmt: skip
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "marian": ("Marian", MARIAN),
    "marian with two vocabularies": ("Marian", MARIAN | APART | {
        "pad_token_id": 46, "decoder_start_token_id": 46}),
    "marian with two vocabularies, untied": ("Marian", MARIAN | APART | {
        "pad_token_id": 46, "decoder_start_token_id": 46, "tie_word_embeddings": False}),
    "marian without a scale": ("Marian", MARIAN | {"scale_embedding": False,
        "activation_function": "relu"}),
    "bart": ("Bart", BART),
    "bart untied": ("Bart", BART | {"tie_word_embeddings": False}),
    "bart with forced bos": ("Bart", BART | {"forced_bos_token_id": 0, "scale_embedding": True,
        "activation_function": "gelu_new"}),
    "mbart": ("MBart", BART | {"scale_embedding": True}),
    "pegasus": ("Pegasus", PEGASUS),
    "m2m100": ("M2M100", BART | {"scale_embedding": True, "activation_function": "relu"}),
}  # fmt: skip


def made(name: str, **more: Any) -> Any:
    family, options = MODELS[name]
    library = transformers()
    config = getattr(library, f"{family}Config")(**(SIZES | options | more))
    head = "MTModel" if family == "Marian" else "ForConditionalGeneration"
    model = randomised(getattr(library, f"{family}{head}")(config))
    if family in ("Marian", "Pegasus"):  # computed, but among the weights
        for stack in (model.model.encoder, model.model.decoder):
            positions = stack.embed_positions
            positions.weight.data.copy_(positions.create_weight())
    if hasattr(model, "final_logits_bias"):
        bias = torch.randn(
            model.final_logits_bias.shape, generator=torch.Generator().manual_seed(2)
        )
        model.final_logits_bias.copy_(bias)
    return model


@pytest.mark.parametrize("name", dealt(MODELS, share=3, rest=pytest.mark.slow))
def test_equals_the_reference(tmp_path: Path, name: str) -> None:
    theirs = made(name)
    save(theirs, tmp_path)
    opened = check_encoder_decoder(theirs, tmp_path)
    check_generation(theirs, opened.network, **roles(theirs.config))


def roles(config: Any) -> dict[str, Any]:
    forced = getattr(config, "forced_bos_token_id", None)
    return {
        "start": [config.decoder_start_token_id, *[forced] * (forced is not None)],
        "eos": config.eos_token_id, "pad": config.pad_token_id,
    }  # fmt: skip


@pytest.mark.slow
def test_beams_that_hold_every_prefix_equal_those_of_the_reference(tmp_path: Path) -> None:
    """With texts that end early: the length penalty decides between them."""
    theirs = made("marian", vocab_size=7, pad_token_id=6, decoder_start_token_id=6)
    with torch.no_grad():
        theirs.model.shared.weight.mul_(0.2)  # no token is much likelier than the others
        theirs.final_logits_bias.mul_(0.3)
    save(theirs, tmp_path)
    ours = open_network(tmp_path).network
    searches = [(160, 6, 0, 3, alpha) for alpha in (0.0, 0.4, 0.5, 0.6, 1.0)]
    texts = check_generation(theirs, ours, **roles(theirs.config), searches=searches)
    assert len({str(of_search) for of_search in texts}) == len(searches)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", chosen(["bart", "bart untied", "bart with forced bos", "mbart"], "mbart")
)
def test_equals_the_reference_in_float64(tmp_path: Path, name: str) -> None:
    theirs = made(name)
    save(theirs, tmp_path)
    check_encoder_decoder(theirs.double(), tmp_path, bound=1e-10)


def rewrite(folder: Path, change: Any) -> None:
    """The weights of a folder, changed."""
    path = folder / "model.safetensors"
    save_file(change(load_file(path)), path, metadata={"format": "pt"})


def test_without_its_head(tmp_path: Path) -> None:
    """As BART was first published: no prefix, and no bias of the head."""
    theirs = made("bart")
    theirs.final_logits_bias.zero_()
    save(theirs, tmp_path)
    rewrite(
        tmp_path,
        lambda tensors: {
            name.removeprefix("model."): tensor
            for name, tensor in tensors.items()
            if name != "final_logits_bias"
        },
    )
    assert not check_encoder_decoder(theirs, tmp_path).plan.config.head_bias  # type: ignore[union-attr]


def test_copies_of_the_table_and_computed_positions(tmp_path: Path) -> None:
    """As older files have them."""
    theirs = made("marian")
    save(theirs, tmp_path)

    def change(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        table = tensors.pop("model.shared.weight")
        positions = theirs.model.encoder.embed_positions.weight
        return tensors | {
            "model.encoder.embed_tokens.weight": table, "lm_head.weight": table.clone(),
            "model.encoder.embed_positions.weight": positions.detach().clone(),
        }  # fmt: skip

    rewrite(tmp_path, change)
    notes = check_encoder_decoder(theirs, tmp_path).notes
    assert any("embed_positions" in note for note in notes)


def test_stacks_of_different_sizes_are_refused(tmp_path: Path) -> None:
    save(made("bart", decoder_ffn_dim=48), tmp_path)
    with pytest.raises(InputError, match="encoder_ffn_dim = 40, decoder_ffn_dim = 48"):
        open_network(tmp_path)
