"""Checkpoints of OpenNMT-py: tiny random models, and the one that natas publishes."""

import argparse
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from tests.in_process import run
from tests.interop.opennmt_models import HEADS, SHARED, SOURCE, TARGET, Recurrent, Transformer
from tests.interop.reference import randomised
from tests.interop.toolkit_reference import (
    check,
    foreign_classes,
    greedy,
    is_close_enough,
    with_attributes,
)
from torch import Tensor, nn

import translucid as tl
from translucid.core.errors import InputError
from translucid.core.weights import own_tensors
from translucid.interop.formats.torch_file import read_torch
from translucid.interop.importing import import_model, open_network
from translucid.interop.kinds import identify
from translucid.model import Model


def state(module: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.detach() for name, tensor in module.state_dict().items()}


def write(
    theirs: Any,
    path: Path,
    *,
    vocab: Any = None,
    source: list[str] = SOURCE,
    newer: bool = False,
    **opt: Any,
) -> None:
    """vocab: not given, objects of torchtext, as versions 1 and 2 keep them."""
    fields = ("onmt.inputters.text_dataset.TextMultiField", "torchtext.data.field.Field",
              "torchtext.vocab.Vocab")  # fmt: skip
    generator = state(theirs.generator)
    if not newer:
        generator = {f"0.{name}": tensor for name, tensor in generator.items()}
    with foreign_classes(*fields) as classes:

        def field(name: str, tokens: list[str]) -> Any:
            held = with_attributes(classes[fields[2]], itos=tokens, vectors=None,
                                   stoi={token: i for i, token in enumerate(tokens)})  # fmt: skip
            inner = with_attributes(classes[fields[1]], unk_token="<unk>", vocab=held)
            return with_attributes(classes[fields[0]], fields=[(name, inner)])

        held = {"src": field("src", source), "tgt": field("tgt", TARGET)}
        torch.save(
            {"model": state(theirs.model), "generator": generator,
             "vocab": held if vocab is None else vocab, "opt": argparse.Namespace(**opt),
             "optim": {"state": {0: {"exp_avg": torch.zeros(3)}}}},
            path,
        )  # fmt: skip


OF_TRANSFORMER = {"encoder_type": "transformer", "decoder_type": "transformer", "heads": HEADS,
                  "position_encoding": True, "model_type": "text", "copy_attn": False,
                  "max_relative_positions": 0}  # fmt: skip


@pytest.mark.parametrize(
    ("made", "opt", "newer"),
    [
        ({}, {}, False),
        ({"old": True}, {}, False),
        ({"newest": True},
         {"pos_ffn_activation_fn": "silu", "self_attn_type": "scaled-dot-flash", "num_kv": 2,
          "position_encoding_type": "SinusoidalConcat", "layer_norm": "rms", "norm_eps": 1e-3},
         True),
        ({"shared": True, "tied": True},
         {"share_embeddings": True, "share_decoder_embeddings": True}, False),
        ({"tied": True}, {"share_decoder_embeddings": True}, True),
    ],
)  # fmt: skip
def test_transformers(
    tmp_path: Path, made: dict[str, Any], opt: dict[str, Any], newer: bool
) -> None:
    theirs = randomised(Transformer(**made))
    source = SHARED if made.get("shared") else SOURCE
    write(theirs, tmp_path / "m.pt", source=source, newer=newer, **OF_TRANSFORMER | opt)
    opened = check(theirs, tmp_path / "m.pt", start=2, eos=3)
    config: Any = opened.plan.config
    assert (config.tied, config.target_vocab is None) == (
        made.get("tied", False), made.get("shared", False),
    )  # fmt: skip
    if made.get("shared"):  # a source has no end, though the vocabulary has a token for it
        tokenizer = import_model(tmp_path / "m.pt").tokenizers["tokenizer"]
        assert tokenizer.frame()(tokenizer.encode("w0 w1")) == [4, 5]


def split_off(path: Path, shards: int = 1) -> list[Path]:
    """The weights of a checkpoint as `save_format: safetensors` puts them beside it, with names
    that begin without model."""
    content = torch.load(path, weights_only=False)
    weights = content.pop("model")
    weights |= {f"generator.{name}": tensor for name, tensor in content.pop("generator").items()}
    torch.save(content, path)
    names = list(weights)
    files = [path.with_suffix(".safetensors" if shards == 1 else f".{i:02}.safetensors")
             for i in range(shards)]  # fmt: skip
    for i, file in enumerate(files):
        save_file({name: weights[name].contiguous() for name in names[i::shards]}, file)
    return files


@pytest.mark.parametrize("shards", [1, 2])
def test_weights_beside_the_checkpoint(tmp_path: Path, shards: int) -> None:
    theirs = randomised(Transformer(newest=True))
    opt = OF_TRANSFORMER | {
        "pos_ffn_activation_fn": "silu", "self_attn_type": "scaled-dot-flash", "num_kv": 2,
        "position_encoding_type": "SinusoidalConcat", "layer_norm": "rms", "norm_eps": 1e-3,
    }  # fmt: skip
    plain = {"src": SOURCE, "tgt": TARGET, "data_task": "seq2seq"}
    path = tmp_path / "m_step_20.pt"
    write(theirs, path, vocab=plain, newer=True, **opt)
    whole = import_model(path)
    files = split_off(path, shards)
    assert identify(path).kind == "opennmt"
    check(theirs, path, start=2, eos=3)
    again = import_model(path)
    for (name, one), other in zip(
        own_tensors(whole.network).items(), own_tensors(again.network).values(), strict=True
    ):
        assert torch.equal(one, other), name
    assert Model(again).translate(["abz"]) == Model(whole).translate(["abz"])
    (tmp_path / "m_step_40.safetensors").write_bytes(files[0].read_bytes())  # of another step
    import_model(path)
    (tmp_path / "m_step_20.best.safetensors").write_bytes(files[0].read_bytes())
    with pytest.raises(InputError, match=r"is in .* and again in one of "):
        import_model(path)
    for file in (*files, tmp_path / "m_step_20.best.safetensors"):
        file.unlink()
    with pytest.raises(InputError, match=r"put m_step_20\.safetensors"):
        import_model(path)


@pytest.mark.parametrize(
    ("cell", "both", "feeding", "attention"),
    [
        ("LSTM", True, True, "general"),
        ("GRU", False, True, "dot"),
        ("LSTM", False, False, "general"),
        ("GRU", True, False, "none"),
    ],
)
def test_recurrent_networks(
    tmp_path: Path, cell: str, both: bool, feeding: bool, attention: str
) -> None:
    theirs = randomised(Recurrent(cell, both=both, feeding=feeding, attention=attention))
    write(theirs, tmp_path / "m.pt", encoder_type="brnn" if both else "rnn", decoder_type="rnn",
          rnn_type=cell, input_feed=int(feeding), global_attention=attention)  # fmt: skip
    check(theirs, tmp_path / "m.pt", start=2, eos=3)


def test_vocabularies_of_all_versions(tmp_path: Path) -> None:
    """Characters and words; a source has no mark at its end, and a decoder starts with <s>."""
    theirs = randomised(Recurrent("LSTM", both=False, feeding=True))
    options = {"encoder_type": "rnn", "decoder_type": "rnn", "rnn_type": "LSTM"}
    plain = {"src": SOURCE, "tgt": TARGET, "data_task": "seq2seq"}
    with foreign_classes("torchtext.vocab.Vocab") as classes:
        oldest = [(side, with_attributes(classes["torchtext.vocab.Vocab"], itos=tokens))
                  for side, tokens in (("src", SOURCE), ("tgt", TARGET))]  # fmt: skip
        write(theirs, tmp_path / "oldest.pt", vocab=oldest, **options)
    write(theirs, tmp_path / "middle.pt", **options)
    write(theirs, tmp_path / "newest.pt", vocab=plain, newer=True, **options)
    for name in ("oldest", "middle", "newest"):
        model = import_model(tmp_path / f"{name}.pt")
        source, target = model.tokenizers["source"], model.tokenizers["target"]
        for text in ("abz", "a b z"):
            assert source.frame()(source.encode(text)) == [2, 3, 0]
        assert target.encode("w2 w9 a") == [6, 13, 0]
        assert target.decode([6, 13]) == "w2 w9"
        assert (target.start_ids, target.eos_id) == ([2], 3)
    write(theirs, tmp_path / "none.pt", vocab={"src": 3}, **options)
    with pytest.raises(InputError, match=r"its vocabularies \(src and tgt\) are missing"):
        import_model(tmp_path / "none.pt")


@pytest.mark.parametrize(
    ("opt", "message"),
    [
        ({"global_attention": "mlp"}, "global_attention = 'mlp'"),
        ({"copy_attn": True}, "copy_attn = 'True' .tokens copied from the source"),
        ({"encoder_type": "cnn"}, "encoder_type = 'cnn' with decoder_type = 'rnn'"),
        ({"rnn_type": "SRU"}, "rnn_type = 'SRU'.* LSTM, GRU"),
        ({"bridge": True}, "bridge = 'True'"),
        ({"global_attention": "none"}, "input_feed = 1 with global_attention = 'none'"),
        ({"rnn_type": "GRU"}, "its tensors do not fit its configuration"),
    ],
)
def test_unsupported_options_are_refused(tmp_path: Path, opt: dict[str, Any], message: str) -> None:
    options = {"encoder_type": "rnn", "decoder_type": "rnn", "rnn_type": "LSTM"} | opt
    write(randomised(Recurrent("LSTM", both=False, feeding=True)), tmp_path / "m.pt", **options)
    with pytest.raises(InputError, match=message):
        open_network(tmp_path / "m.pt")


def test_unsupported_transformers_are_refused(tmp_path: Path) -> None:
    theirs = Transformer()
    for name, value in {
        "self_attn_type": "average", "max_relative_positions": -1, "num_experts": 2,
        "relative_positions_buckets": 32, "position_encoding_type": "Learned",
        "layer_norm": "gemma-rms", "parallel_residual": True, "sliding_window": 8,
    }.items():  # fmt: skip
        write(theirs, tmp_path / "m.pt", **OF_TRANSFORMER | {name: value})
        with pytest.raises(InputError, match=f"{name} = '{value}'"):
            open_network(tmp_path / "m.pt")


def test_a_source_without_a_token(tmp_path: Path) -> None:
    """Nothing stands around a source, so that an empty one has no key to attend to."""
    write(randomised(Recurrent("LSTM", both=True, feeding=True)), tmp_path / "m.pt",
          encoder_type="brnn", decoder_type="rnn", rnn_type="LSTM")  # fmt: skip
    model = tl.load(tmp_path / "m.pt")
    decoded = model.decode(["", "abc"], beam_size=2, max_length=4)
    assert decoded[0].texts[0].text == ""
    alone = model.decode(["abc"], beam_size=2, max_length=4)
    assert decoded[1].texts[0].text == alone[0].texts[0].text
    assert torch.isfinite(model.trace("")["head.logits"]).all()


def test_a_cut_file(tmp_path: Path) -> None:
    write(randomised(Recurrent("LSTM", both=True, feeding=True)), tmp_path / "m.pt",
          encoder_type="brnn", decoder_type="rnn", rnn_type="LSTM")  # fmt: skip
    whole = (tmp_path / "m.pt").read_bytes()
    for size in (10, len(whole) // 2, len(whole) - 30):
        (tmp_path / "cut.pt").write_bytes(whole[:size])
        with pytest.raises(InputError, match=r"cut\.pt"):
            tl.load(tmp_path / "cut.pt")
    torch.save({"weight": torch.zeros(3)}, tmp_path / "weights.pt")
    assert identify(tmp_path / "weights.pt").kind is None


def published() -> Path:
    """normalization.pt of the package natas 1.0.0."""
    name = os.environ.get("TRANSLUCID_NATAS")
    if name is None:
        pytest.skip("TRANSLUCID_NATAS does not name the file normalization.pt of natas 1.0.0")
    return Path(name)


def test_the_published_network_rewrites_old_spellings(tmp_path: Path) -> None:
    """Ours in float32 is no farther from the reference in float64 than three times the reference's
    own float32."""
    path = published()
    done = run("translate", str(path), "--beam-size", "1", stdin="vpon\neuery\n")
    assert done.stdout.splitlines() == ["upon", "every"]
    model = tl.load(path)
    theirs = Recurrent("LSTM", both=True, feeding=True, source=138, target=88, d=500).eval()
    tensors = {name: t.read().clone() for name, t in read_torch(path).tensors.items()}
    theirs.load_state_dict({name.replace("generator.0", "generator"): t
                            for name, t in tensors.items()})  # fmt: skip
    example = model.task.example("vpon", "upon").batch
    source, target = example.inputs["source"], example.inputs["target"]
    mask = torch.ones_like(source, dtype=torch.bool)
    with torch.inference_mode():
        own = theirs.logits(source, mask, target)
        exact = theirs.double().logits(source, mask, target)
    ours = model.trace("vpon", "upon")["head.logits"]
    assert is_close_enough(ours, own, exact)
    for word in ("vpon", "euery", "vniuersitie"):
        ids = model.task.example(word).batch.inputs["source"]
        text = model.output_tokenizer.decode(greedy(theirs, ids, 2, 3, most=20))
        assert model.decode([word], beam_size=1, max_length=20)[0].texts[0].text == text
    trace = model.trace("vpon", "upon")
    gates = trace["decoder.recurrent.layers.1.lstm.forget_gate"]
    assert gates.shape == (1, 5, 500)
    pattern = trace["decoder.alignment.pattern"]
    assert pattern[0].argmax(-1)[1:4].tolist() == [1, 2, 3]  # p, o, n; u was a v
