"""Checkpoints of fairseq: tiny random Transformers, and the RoBERTa that sapiens publishes."""

import argparse
import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tests.interop.reference import randomised
from tests.interop.test_mapping import is_close_enough
from tests.interop.tokenizer_files import shared
from tests.interop.toolkit_reference import Names, Transformer, attend, check
from torch import Tensor, nn

from translucid.errors import InputError
from translucid.interop.importing import import_model
from translucid.interop.opening import open_network
from translucid.interop.source import read_source
from translucid.interop.tokenizers import fairseq as dictionaries

WORDS = {"en": [f"w{i}" for i in range(9)], "de": [f"v{i}" for i in range(7)]}


def names_of(side: str, *, pre: bool, learned: bool) -> Names:
    layer = f"{side}.layers.{{}}."
    names = {"table": f"{side}.embed_tokens", "attention_norm": f"{layer}self_attn_layer_norm",
             "feedforward_norm": f"{layer}final_layer_norm", "up": f"{layer}fc1",
             "down": f"{layer}fc2"}  # fmt: skip
    kinds = {"": "self_attn"}
    if side == "decoder":
        kinds["cross_"] = "encoder_attn"
        names |= {"cross_norm": f"{layer}encoder_attn_layer_norm",
                  "head": "decoder.output_projection"}  # fmt: skip
    for prefix, attention in kinds.items():
        for role, short in {"query": "q", "key": "k", "value": "v", "output": "out"}.items():
            names[prefix + role] = f"{layer}{attention}.{short}_proj"
    if pre:
        names["final_norm"] = f"{side}.layer_norm"
    if learned:
        names |= {"positions": f"{side}.embed_positions",
                  "embedding_norm": f"{side}.layernorm_embedding"}  # fmt: skip
    return names


def sinusoids(length: int, d: int, first: int = 2) -> Tensor:
    """All sines, then all cosines; the slowest wave is exactly 10,000 times the fastest."""
    half = d // 2
    rates = [math.exp(-math.log(10000) * i / (half - 1)) for i in range(half)]
    rows = [[f((p + first) * r) for f in (math.sin, math.cos) for r in rates]
            for p in range(length)]  # fmt: skip
    return torch.tensor(rows, dtype=torch.float64)


def write(theirs: Any, folder: Path, *, config: str = "args", **args: Any) -> Path:
    languages = {"source_lang": "en", "target_lang": "de"}
    held: dict[str, Any] = {
        "model": {**{n: t.detach() for n, t in theirs.state_dict().items()},
                  "encoder.version": torch.tensor([3.0])},
        "last_optimizer_state": {"state": {0: {"exp_avg": torch.zeros(2)}}}, "args": None,
    }  # fmt: skip
    if config == "args":
        held["args"] = argparse.Namespace(arch="transformer", **languages, **args)
    elif config == "cfg":
        held["cfg"] = {"model": argparse.Namespace(arch="transformer", **args), "task": languages}
    else:
        sides = {side: {key.removeprefix(f"{side}_"): value for key, value in args.items()
                        if key.startswith(side)} for side in ("encoder", "decoder")}  # fmt: skip
        rest = {key: value for key, value in args.items() if not key.startswith(tuple(sides))}
        held["cfg"] = {"model": {"_name": "transformer", **rest, **sides}, "task": languages}
    torch.save(held, folder / "checkpoint_best.pt")
    for language, words in WORDS.items():
        lines = "".join(f"{word} {90 - i}\n" for i, word in enumerate(words))
        (folder / f"dict.{language}.txt").write_text(lines)
    return folder / "checkpoint_best.pt"


ARGS = {f"{side}_attention_heads": 4 for side in ("encoder", "decoder")}
PRE = {f"{side}_normalize_before": True for side in ("encoder", "decoder")}
LEARNED = {f"{side}_learned_pos": True for side in ("encoder", "decoder")}


@pytest.mark.parametrize(
    ("pre", "learned", "tied", "config"),
    [(False, False, True, "args"), (True, False, False, "cfg"), (False, True, False, "groups")],
)
def test_transformers(tmp_path: Path, pre: bool, learned: bool, tied: bool, config: str) -> None:
    names = [names_of(side, pre=pre, learned=learned) for side in ("encoder", "decoder")]
    theirs = randomised(Transformer(
        names[0], names[1], 13, 11, pre=pre, eps=1e-5, scaled=not learned, tied=tied,
        rows=None if learned else sinusoids(20, 16),
    ))  # fmt: skip
    args = ARGS | (PRE if pre else {}) | (LEARNED if learned else {})
    path = write(theirs, tmp_path, config=config, **args, no_scale_embedding=learned,
                 share_decoder_input_output_embed=tied)  # fmt: skip
    opened = check(theirs, path, start=2, eos=2)
    assert opened.plan.config.tied == tied  # type: ignore[union-attr]
    model = import_model(path)
    source, target = model.tokenizers["source"], model.tokenizers["target"]
    assert source.frame()(source.encode("w0 w8 nothing")) == [4, 12, 3, 2]
    assert (target.encode("v6"), target.start_ids, target.eos_id) == ([10], [2], 2)


def test_what_is_missing_or_another(tmp_path: Path) -> None:
    names = [names_of(side, pre=False, learned=False) for side in ("encoder", "decoder")]
    theirs = Transformer(names[0], names[1], 13, 11, pre=False, eps=1e-5, scaled=True)
    path = write(theirs, tmp_path, **ARGS, adaptive_softmax_cutoff=[2, 5])
    with pytest.raises(InputError, match="adaptive_softmax_cutoff"):
        open_network(path)
    path = write(theirs, tmp_path, **ARGS | {"decoder_attention_heads": 2})
    with pytest.raises(InputError, match="encoder_attention_heads = 4, decoder_attention_heads"):
        open_network(path)
    path = write(theirs, tmp_path, **ARGS)
    (tmp_path / "dict.de.txt").unlink()
    with pytest.raises(InputError, match=r"dict\.de\.txt is missing; copy the dictionaries"):
        import_model(path)
    torch.save({"model": {"decoder.layers.0.fc1.weight": torch.zeros(2)}, "cfg": None,
                "args": argparse.Namespace(arch="transformer_lm")}, path)  # fmt: skip
    with pytest.raises(InputError, match="arch = 'transformer_lm' cannot be computed here"):
        open_network(path)


class Roberta:
    """From its tensors alone, by fairseq's names."""

    def __init__(self, weights: dict[str, Tensor], heads: int) -> None:
        self.weights, self.heads = weights, heads

    def linear(self, name: str, x: Tensor) -> Tensor:
        return nn.functional.linear(x, self.weights[f"{name}.weight"], self.weights[f"{name}.bias"])

    def norm(self, name: str, x: Tensor) -> Tensor:
        w = self.weights
        return nn.functional.layer_norm(x, x.shape[-1:], w[f"{name}.weight"], w[f"{name}.bias"])

    def logits(self, ids: Tensor) -> Tensor:
        stack, w = "decoder.sentence_encoder", self.weights
        x = w[f"{stack}.embed_tokens.weight"][ids]
        x = x + w[f"{stack}.embed_positions.weight"][2 : 2 + ids.shape[1]]
        x = self.norm(f"{stack}.emb_layer_norm", x)
        for i in range(sum(name.endswith("fc1.weight") for name in w)):
            here = f"{stack}.layers.{i}"
            q, k, v = (self.linear(f"{here}.self_attn.{n}_proj", x) for n in "qkv")
            y = attend(q, k, v, self.heads, torch.ones(1, 1, ids.shape[1], dtype=torch.bool))
            y = self.linear(f"{here}.self_attn.out_proj", y)
            x = self.norm(f"{here}.self_attn_layer_norm", x + y)
            y = self.linear(f"{here}.fc2", nn.functional.gelu(self.linear(f"{here}.fc1", x)))
            x = self.norm(f"{here}.final_layer_norm", x + y)
        head = "decoder.lm_head"
        x = self.norm(f"{head}.layer_norm", nn.functional.gelu(self.linear(f"{head}.dense", x)))
        return nn.functional.linear(x, w[f"{head}.weight"], w[f"{head}.bias"])


def test_sapiens_humanises_an_antibody(tmp_path: Path) -> None:
    """The checkpoint put together again from its tensors and options."""
    path = shared("sapiens-vh-fairseq-roberta", "model.safetensors")
    about, reference = (json.loads(path.with_name(name).read_text())
                        for name in ("about.json", "reference.json"))  # fmt: skip
    held = load_file(path)
    torch.save({"model": held, "args": argparse.Namespace(**about["args"])}, tmp_path / "m.pt")
    tokens = reference["vocab"]
    assert tokens[-1] == "<mask>"
    (tmp_path / "dict.txt").write_text("".join(f"{token} 1\n" for token in tokens[4:-1]))
    network: Any = open_network(tmp_path / "m.pt").network
    assert network.parameters_count == reference["params"] - 128  # there with a row of segments
    source = read_source(tmp_path / "m.pt")
    read = dictionaries.tokenizers(tmp_path, source.config, rows=25, shared=True)
    tokenizer = read.tokenizers["tokenizer"]
    ids = torch.tensor([tokenizer.frame()(tokenizer.encode(reference["mouse"]))])
    assert (ids[0, 0], ids[0, -1], tokenizer.mask_id) == (0, 2, 24)
    with torch.inference_mode():
        ours, own = network(ids), Roberta(held, 8).logits(ids)
        exact = Roberta({name: t.double() for name, t in held.items()}, 8).logits(ids)
    assert is_close_enough(ours, own, exact)
    amino_acids = ours[0, 1:-1, 4:24].argmax(-1) + 4
    assert tokenizer.decode(amino_acids.tolist()) == reference["humanised"]
