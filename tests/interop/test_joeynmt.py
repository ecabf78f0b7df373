"""Checkpoints of JoeyNMT: tiny random Transformers."""

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.interop.reference import randomised
from tests.interop.toolkit_reference import Names, Transformer, check, sinusoids

from translucid.core.errors import InputError
from translucid.interop.importing import import_model, open_network

pytest.importorskip("yaml", reason="PyYAML is not installed")
SPECIAL = ["<unk>", "<pad>", "<s>", "</s>"]
SOURCE = [*SPECIAL, *(f"w{i}" for i in range(9))]
TARGET = [*SPECIAL, "▁", *"abcdef"]


def names_of(side: str, *, pre: bool) -> Names:
    decodes = side == "decoder"
    layer, short = f"{side}.layers.{{}}.", "trg" if decodes else "src"
    names = {"table": f"{short}_embed.lut", "up": f"{layer}feed_forward.pwff_layer.0",
             "down": f"{layer}feed_forward.pwff_layer.3",
             "feedforward_norm": f"{layer}feed_forward.layer_norm",
             "attention_norm": f"{layer}{'x_layer_norm' if decodes else 'layer_norm'}"}  # fmt: skip
    kinds = {"": f"{short}_{short}_att"} | ({"cross_": "src_trg_att"} if decodes else {})
    for prefix, attention in kinds.items():
        for role, letter in {"query": "q", "key": "k", "value": "v"}.items():
            names[prefix + role] = f"{layer}{attention}.{letter}_layer"
        names[f"{prefix}output"] = f"{layer}{attention}.output_layer"
    if decodes:
        names |= {"cross_norm": f"{layer}dec_layer_norm", "head": "decoder.output_layer"}
    if pre:
        names["final_norm"] = f"{side}.layer_norm"
    return names


CONFIG = """
name: tiny
data:
    src: {{lang: en, level: bpe}}
    trg: {{lang: de, level: char}}
model:
    tied_embeddings: false
    tied_softmax: {tied}
    encoder:
        type: transformer
        num_heads: 4{norm}
        embeddings: {{embedding_dim: 16, scale: {scaled}}}
    decoder:
        type: transformer
        num_heads: 4{norm}
        embeddings: {{embedding_dim: 16, scale: {scaled}}}
"""


def write(
    theirs: Any, folder: Path, *, tied: bool = False, scaled: bool = True, norm: str = ""
) -> None:
    state = {name: tensor.detach() for name, tensor in theirs.state_dict().items()}
    state["encoder.pe.pe"] = sinusoids(40, 16)[None].float()
    torch.save({"model_state": state, "steps": 7, "optimizer_state": {"m": torch.zeros(3)}},
               folder / "100.ckpt")  # fmt: skip
    flags = {"tied": str(tied).lower(), "scaled": str(scaled).lower()}
    norm = norm and f"\n        layer_norm: {norm}"
    (folder / "config.yaml").write_text(CONFIG.format(**flags, norm=norm), "utf-8")
    for name, tokens in (("src", SOURCE), ("trg", TARGET)):
        (folder / f"{name}_vocab.txt").write_text(
            "".join(f"{token}\n" for token in tokens), "utf-8"
        )


def made(*, pre: bool, tied: bool = False, scaled: bool = True) -> Any:
    names = [names_of(side, pre=pre) for side in ("encoder", "decoder")]
    return randomised(Transformer(
        names[0], names[1], len(SOURCE), len(TARGET), pre=pre, eps=1e-6, scaled=scaled, tied=tied,
        rows=sinusoids(20, 16),
    ))  # fmt: skip


@pytest.mark.parametrize(("pre", "tied", "scaled"), [(True, True, True), (False, False, False)])
def test_transformers(tmp_path: Path, pre: bool, tied: bool, scaled: bool) -> None:
    theirs = made(pre=pre, tied=tied, scaled=scaled)
    write(theirs, tmp_path, tied=tied, scaled=scaled, norm="" if pre else "post")  # 1.x has no key
    if tied:  # by the folder, or by the file; the best is a link
        (tmp_path / "7.ckpt").write_bytes(b"")
        (tmp_path / "best.ckpt").symlink_to("100.ckpt")
    check(theirs, tmp_path if tied else tmp_path / "100.ckpt", start=2, eos=3)


def test_a_missing_layer_norm_key_is_refused(tmp_path: Path) -> None:
    write(made(pre=False), tmp_path)
    with pytest.raises(InputError, match="layer_norm: post"):
        open_network(tmp_path)


def test_vocabularies(tmp_path: Path) -> None:
    """Sources end with </s>; characters of a target have ▁ for a space."""
    write(made(pre=True), tmp_path)
    model = import_model(tmp_path)
    source, target = model.tokenizers["source"], model.tokenizers["target"]
    assert source.frame()(source.encode("w0 w8 else")) == [4, 12, 0, 3]
    assert target.encode("ab c") == [5, 6, 4, 7]
    assert target.decode([5, 6, 4, 7]) == "ab c"
    assert target.start_ids == [2]
    (tmp_path / "trg_vocab.txt").unlink()
    with pytest.raises(InputError, match=r"trg_vocab\.txt is missing"):
        import_model(tmp_path)


def test_unsupported_configurations_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(made(pre=True), tmp_path)
    path, text = tmp_path / "config.yaml", (tmp_path / "config.yaml").read_text("utf-8")
    for old, new, message in (
        ("type: transformer", "type: recurrent", "encoder.type = 'recurrent'"),
        ("num_heads: 4", "num_heads: 4\n        alpha: 0.8", "alpha = 0.8 .a weight of the resid"),
        ("name: tiny", "name: &a [x, *a]", "aliases"),
        ("name: tiny", "name: [", "YAML"),
        ("name: tiny", "name: !!python/object/apply:os.getcwd []", "YAML"),
        (text, "- 3", "no mapping of keys"),
        (text, "[" * 20000, "more than 1000 brackets"),
        (text, "[" * 900, "YAML"),
    ):
        path.write_text(text.replace(old, new), "utf-8")
        with pytest.raises(InputError, match=message):
            open_network(tmp_path)
    path.write_text(text, "utf-8")
    (tmp_path / "200.ckpt").write_bytes(b"")
    with pytest.raises(InputError, match=r"2 checkpoints and no best\.ckpt"):
        open_network(tmp_path)
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(InputError, match="pip install pyyaml"):
        open_network(tmp_path / "100.ckpt")
