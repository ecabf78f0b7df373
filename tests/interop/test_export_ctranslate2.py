"""Models of ours in CTranslate2's format, read again here, and computed by its engine."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.interop.own_models import own

from translucid.core.errors import InputError
from translucid.core.weights import own_tensors
from translucid.interop.export.exporting import export
from translucid.interop.importing import import_model
from translucid.model import Model
from translucid.models.autoregressive import GenerationInputs
from translucid.tasks.model_folder import Bundle

ROTARY: dict[str, Any] = {"positions": "rotary"}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "as in the recipes": ("translate", ROTARY),
    "endless": ("translate", ROTARY | {"head_bias": True}),
    "grouped heads": ("translate", ROTARY | {"kv_heads": 2, "two": True}),
    "swiglu and rms": ("translate", ROTARY | {"activation": "swiglu", "norm": "rms"}),
    "sinusoids": ("translate", {"positions": "sinusoidal", "decoder_layers": 1, "spare": 3}),
    "no positions": ("translate", {"positions": "none", "norm_bias": False}),
    "post-norm, learned, gelu": (
        "translate",
        {"positions": "learned", "placement": "post", "activation": "gelu", "tied": False,
         "embedding_norm": True, "head_bias": True},
    ),
    "language model": ("language", ROTARY | {"bias": False, "rotary_fraction": 0.5}),
    "language model with query norm": (
        "language", ROTARY | {"qk_norm": True, "d_head": 12, "rotary_base": 500.0, "norm": "rms"},
    ),
    "language model with ALiBi": ("language", {"positions": "alibi", "embedding_scale": False}),
}  # fmt: skip
SHORTER = ("the dog sees a bird", "a cat", "the bird sings and a small cat sleeps")


def made(name: str) -> Bundle:
    task, options = MODELS[name]
    held = own(task, **options)
    if options.get("head_bias"):  # its texts do not end
        held.network.head.linear.bias.data[2] -= 30.0  # type: ignore[union-attr, operator, index]
    return held


@pytest.mark.parametrize("name", MODELS)
def test_import_of_an_export_has_equal_tensors(tmp_path: Path, name: str) -> None:
    """Every tensor bit for bit, but a table of positions that here is computed."""
    held = made(name)
    export(held, "ctranslate2", tmp_path / "out")
    again = import_model(tmp_path / "out")
    first, second = own_tensors(held.network), own_tensors(again.network)
    computed = {key for key in second if key.endswith(("positions.table", ".shift"))}
    assert first.keys() - computed == second.keys() - computed
    assert all(torch.equal(first[key], second[key]) for key in first)
    for side, tokenizer in held.tokenizers.items():
        for text in (*SHORTER, "a </s> dog"):
            assert again.tokenizers[side].encode(text) == tokenizer.encode(text)
    if held.task == "translate":
        ours, theirs = (Model(m).translate(SHORTER, beam_size=2) for m in (held, again))
    else:
        ours, theirs = (
            Model(m).generate(SHORTER, temperature=0, max_length=9) for m in (held, again)
        )
    assert ours == theirs


def check_close(name: str, theirs: Sequence[float], ours: Sequence[float]) -> None:
    """Log-probabilities; `pytest -rP` shows how close."""
    apart = max(abs(one - other) for one, other in zip(theirs, ours, strict=True))
    print(f"{name}: log-probabilities within {apart:.1e}")
    assert apart < 1e-5


@pytest.mark.parametrize("name", MODELS)
def test_the_engine_computes_the_same(tmp_path: Path, name: str) -> None:
    engine = pytest.importorskip("ctranslate2", reason="CTranslate2 is not installed")
    held = made(name)
    export(held, "ctranslate2", tmp_path / "out")
    network: Any = held.network
    source = next(iter(held.tokenizers.values()))
    target = held.tokenizers.get("target", source)
    names = list(target.vocab)
    read, written = source.encode(SHORTER[2]), target.encode("der Hund singt a cat")
    if held.task == "language":
        generator = engine.Generator(str(tmp_path / "out"), compute_type="float32")
        ids = [2, *read]
        (scores,) = generator.score_batch([[names[i] for i in ids]])
        with torch.inference_mode():
            ours = network(torch.tensor([ids])).log_softmax(dim=-1)[0]
        expected = [float(ours[place, token]) for place, token in enumerate(ids[1:])]
        check_close(name, scores.log_probs, expected)
        (text,) = Model(held).generate([SHORTER[1]], temperature=0, max_length=10)
        start = [2, *source.encode(SHORTER[1])]
        (result,) = generator.generate_batch(
            [[names[i] for i in start]], max_length=10, include_prompt_in_result=False
        )
        assert target.decode([*start, *result.sequences_ids[0]]) == text
        return
    translator = engine.Translator(str(tmp_path / "out"), compute_type="float32")
    pieces = [list(source.vocab)[i] for i in read]
    (scores,) = translator.score_batch([pieces], [[names[i] for i in written]])
    steps = torch.tensor([[1, *written]])
    with torch.inference_mode():
        state = network.start(GenerationInputs.of(torch.tensor([[*read, 2]])), steps.shape[1])
        ours = network.step(steps, state).log_softmax(dim=-1)[0]
    expected = [float(ours[place, token]) for place, token in enumerate([*written, 2])]
    check_close(name, scores.log_probs, expected)
    # Where a text ends before the others the two are defined differently: there it leaves its place
    # to another prefix. Greedy, and beams of texts that do not end.
    endless = held.network.head.linear.bias is not None  # type: ignore[union-attr]
    for beams in (1, 3) if endless else (1,):
        (decoded,) = Model(held).decode(
            [SHORTER[2]], beam_size=beams, n_best=beams, alpha=0.0, max_length=12, min_length=1
        )
        (result,) = translator.translate_batch(
            [pieces], beam_size=beams, num_hypotheses=beams, length_penalty=0,
            max_decoding_length=12,
        )  # fmt: skip
        theirs = [target.decode([target.vocab[t] for t in text]) for text in result.hypotheses]
        assert theirs == [text.text for text in decoded.texts]


def test_models_that_the_format_cannot_express_are_refused(tmp_path: Path) -> None:
    for options, reason in (
        ({"positions": "alibi"}, "ALiBi"),
        ({"positions": "rotary", "window": 3}, r"window = 3 \(there: None\)"),
        ({"positions": "relative"}, r"positions = relative \(there: sinusoidal\)"),
        ({"activation": "relu_squared"}, r"activation = relu_squared \(there: relu\)"),
    ):
        with pytest.raises(InputError, match=reason):
            export(own("translate", **options), "ctranslate2", tmp_path / "out")
    with pytest.raises(InputError, match="an encoder with head tag"):
        export(own("tag"), "ctranslate2", tmp_path / "out")
    assert not any(tmp_path.iterdir())


def test_files_of_the_folder(tmp_path: Path) -> None:
    export(own("translate", two=True, spare=2), "ctranslate2", tmp_path / "out")
    config = json.loads((tmp_path / "out" / "config.json").read_text("utf-8"))
    assert config["decoder_start_token"] == "<s>"
    assert (config["add_source_eos"], config["add_source_bos"]) == (True, False)
    tokens = json.loads((tmp_path / "out" / "target_vocabulary.json").read_text("utf-8"))
    assert tokens[:4] == ["<pad>", "<s>", "</s>", "<unk>"]
    assert tokens[-1].startswith("<unused")
