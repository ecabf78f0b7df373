"""Checkpoints of fairseq: tiny random Transformers, and the RoBERTa that sapiens publishes."""

import argparse
import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tests.interop.reference import randomised
from tests.interop.tokenizer_files import shared
from tests.interop.toolkit_reference import (
    Names,
    Transformer,
    attend,
    check,
    in_halves,
    is_close_enough,
)
from torch import Tensor, nn

from translucid.core.errors import InputError
from translucid.interop.families import fairseq
from translucid.interop.importing import import_model, open_network

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


def older(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """As versions of 2018 and 2019 named them: queries, keys and values in one piece, norms by
    their number."""
    joined: dict[str, Tensor] = {}
    for name, tensor in weights.items():
        if ".q_proj." in name:
            parts = [weights[name.replace("q_proj", f"{one}_proj")] for one in "qkv"]
            joined[name.replace("q_proj.", "in_proj_")] = torch.cat(parts)
        elif ".k_proj." not in name and ".v_proj." not in name:
            last = 2 if name.startswith("decoder.layers") else 1
            for norm, i in (("self_attn", 0), ("encoder_attn", 1), ("final", last)):
                name = name.replace(f".{norm}_layer_norm.", f".layer_norms.{i}.")
            joined[name] = tensor
    return joined


def write(
    theirs: Any, folder: Path, *, config: str = "args", old: bool = False, **args: Any
) -> Path:
    languages = {"source_lang": "en", "target_lang": "de"}
    weights = {n: t.detach() for n, t in theirs.state_dict().items()}
    held: dict[str, Any] = {
        "model": {**(older(weights) if old else weights), "encoder.version": torch.tensor([3.0])},
        "last_optimizer_state": {"state": {0: {"exp_avg": torch.zeros(2)}}}, "args": None,
    }  # fmt: skip
    if config == "args":
        held["args"] = argparse.Namespace(arch="transformer", **languages, **args)
    elif config == "cfg":
        held["cfg"] = {"model": argparse.Namespace(arch="transformer", **args), "task": languages}
    else:
        sides = {side: {key.removeprefix(f"{side}_"): value for key, value in args.items()
                        if key.startswith(side)} for side in ("encoder", "decoder", "quant_noise")
                }  # fmt: skip
        rest = {key: value for key, value in args.items() if not key.startswith(tuple(sides))}
        held["cfg"] = {"model": {"_name": "transformer", **rest, **sides}, "task": languages}
    torch.save(held, folder / "checkpoint_best.pt")
    for language, words in WORDS.items():
        lines = "".join(f"{word} {90 - i}\n" for i, word in enumerate(words))
        (folder / f"dict.{language}.txt").write_text(lines, "utf-8")
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
        rows=None if learned else in_halves(20, 16),
    ))  # fmt: skip
    args = ARGS | (PRE if pre else {}) | (LEARNED if learned else {})
    path = write(theirs, tmp_path, config=config, old=tied, **args, no_scale_embedding=learned,
                 share_decoder_input_output_embed=tied)  # fmt: skip
    opened = check(theirs, path, start=2, eos=2)
    assert opened.plan.config.tied == tied  # type: ignore[union-attr]
    model = import_model(path)
    source, target = model.tokenizers["source"], model.tokenizers["target"]
    assert source.frame()(source.encode("w0 w8 nothing")) == [4, 12, 3, 2]
    assert (target.encode("v6"), target.start_ids, target.eos_id) == ([10], [2], 2)


def test_unsupported_arguments_and_missing_files_are_refused(tmp_path: Path) -> None:
    names = [names_of(side, pre=False, learned=False) for side in ("encoder", "decoder")]
    theirs = Transformer(names[0], names[1], 13, 11, pre=False, eps=1e-5, scaled=True)
    path = write(theirs, tmp_path, **ARGS, adaptive_softmax_cutoff=[2, 5])
    with pytest.raises(InputError, match="adaptive_softmax_cutoff"):
        open_network(path)
    for name, value in {"quant_noise_scalar": 0.5, "encoder_layers_to_keep": "0,2",
                        "decoder_layers_to_keep": [1], "activation_fn": "linear",
                        "encoder_xformers_att_config": "{}"}.items():  # fmt: skip
        path = write(theirs, tmp_path, config="groups", **ARGS | {name: value})
        with pytest.raises(InputError, match=f"{name} = '{re.escape(str(value))}'"):
            open_network(path)
    path = write(theirs, tmp_path, **ARGS | {"decoder_attention_heads": 2})
    with pytest.raises(InputError, match="encoder_attention_heads = 4, decoder_attention_heads"):
        open_network(path)
    path = write(theirs, tmp_path, **ARGS)
    (tmp_path / "dict.de.txt").unlink()
    with pytest.raises(InputError, match=r"dict\.de\.txt is missing"):
        import_model(path)
    torch.save({"model": {"decoder.layers.0.fc1.weight": torch.zeros(2)}, "cfg": None,
                "args": argparse.Namespace(arch="transformer_lm")}, path)  # fmt: skip
    with pytest.raises(InputError, match="arch = 'transformer_lm'"):
        open_network(path)


class Roberta:
    """From its tensors alone, by fairseq's names."""

    def __init__(self, weights: dict[str, Tensor], heads: int, *, pre: bool = False,
                 stack: str = "decoder.sentence_encoder", tanh: bool = False, factor: float = 1.0
                 ) -> None:  # fmt: skip
        self.weights, self.heads, self.pre, self.stack = weights, heads, pre, stack
        self.approximate, self.factor = "tanh" if tanh else "none", factor

    def linear(self, name: str, x: Tensor) -> Tensor:
        return nn.functional.linear(x, self.weights[f"{name}.weight"], self.weights[f"{name}.bias"])

    def norm(self, name: str, x: Tensor) -> Tensor:
        w = self.weights
        return nn.functional.layer_norm(x, x.shape[-1:], w[f"{name}.weight"], w[f"{name}.bias"])

    def activation(self, x: Tensor) -> Tensor:
        return nn.functional.gelu(x, approximate=self.approximate)

    def embed(self, ids: Tensor) -> Tensor:
        stack, w = self.stack, self.weights
        x = w[f"{stack}.embed_tokens.weight"][ids] * self.factor
        learned = w.get(f"{stack}.embed_positions.weight")
        rows = in_halves(ids.shape[1], x.shape[-1]) if learned is None else learned[2:]
        x = x + rows[: ids.shape[1]].to(x)
        for name in ("emb_layer_norm", "layernorm_embedding"):
            if f"{stack}.{name}.weight" in w:
                x = self.norm(f"{stack}.{name}", x)
        return x

    def residual(self, norm: str, x: Tensor, part: Any) -> Tensor:
        return x + part(self.norm(norm, x)) if self.pre else self.norm(norm, x + part(x))

    def logits(self, ids: Tensor) -> Tensor:
        stack, w, seen = self.stack, self.weights, torch.ones(1, 1, ids.shape[1], dtype=torch.bool)
        x = self.embed(ids)
        for i in range(sum(name.endswith("fc1.weight") for name in w)):
            here = f"{stack}.layers.{i}"

            def attention(y: Tensor, name: str = f"{here}.self_attn") -> Tensor:
                q, k, v = (self.linear(f"{name}.{n}_proj", y) for n in "qkv")
                return self.linear(f"{name}.out_proj", attend(q, k, v, self.heads, seen))

            def forward(y: Tensor, here: str = here) -> Tensor:
                return self.linear(f"{here}.fc2", self.activation(self.linear(f"{here}.fc1", y)))

            x = self.residual(f"{here}.self_attn_layer_norm", x, attention)
            x = self.residual(f"{here}.final_layer_norm", x, forward)
        x = self.norm(f"{stack}.layer_norm", x) if self.pre else x
        head = stack.replace("sentence_encoder", "lm_head")
        x = self.norm(f"{head}.layer_norm", self.activation(self.linear(f"{head}.dense", x)))
        return nn.functional.linear(x, w[f"{head}.weight"], w[f"{head}.bias"])


def roberta_weights(stack: str, *, norm: str, last: bool, tied: bool) -> dict[str, Tensor]:
    """Random ones, in float64. norm: behind the embedding; last: one more behind the layers."""
    d, d_ff, vocab = 16, 24, 13
    draws = torch.Generator().manual_seed(3)
    head = stack.replace("sentence_encoder", "lm_head")
    linear = {f"{head}.dense": (d, d)}
    norms = [f"{head}.layer_norm", *[f"{stack}.{norm}"] * bool(norm)]
    norms += [f"{stack}.layer_norm"] * last
    for i in range(2):
        here = f"{stack}.layers.{i}"
        linear |= {f"{here}.self_attn.{n}_proj": (d, d) for n in ("q", "k", "v", "out")}
        linear |= {f"{here}.fc1": (d_ff, d), f"{here}.fc2": (d, d_ff)}
        norms += [f"{here}.self_attn_layer_norm", f"{here}.final_layer_norm"]
    shapes = {f"{stack}.embed_tokens.weight": (vocab, d), f"{head}.bias": (vocab,)}
    shapes |= {f"{name}.{kind}": (d,) for name in norms for kind in ("weight", "bias")}
    for name, shape in linear.items():
        shapes |= {f"{name}.weight": shape, f"{name}.bias": shape[:1]}
    made = {name: torch.randn(shape, generator=draws, dtype=torch.float64) * 0.4
            for name, shape in shapes.items()}  # fmt: skip
    own = torch.randn(vocab, d, generator=draws, dtype=torch.float64)
    return made | {f"{head}.weight": made[f"{stack}.embed_tokens.weight"] if tied else own}


def test_robertas_of_all_versions(tmp_path: Path) -> None:
    """The oldest: fused projections, an approximate GELU, a head of its own. The newest: norms
    before the layers and one behind them, none behind the embedding, which is scaled; sinusoids."""
    (tmp_path / "dict.txt").write_text("".join(f"w{i} 1\n" for i in range(8)))
    ids = torch.tensor([[0, 5, 6, 12, 7, 2]])

    def compare(theirs: Roberta, held: dict[str, Any]) -> None:
        torch.save(held, tmp_path / "m.pt")
        network: Any = open_network(tmp_path / "m.pt").network
        with torch.inference_mode():
            torch.testing.assert_close(network.double()(ids), theirs.logits(ids),
                                       rtol=0, atol=1e-10)  # fmt: skip

    old = "decoder.sentence_encoder"
    weights = roberta_weights(old, norm="emb_layer_norm", last=False, tied=False)
    rows = torch.linspace(-1, 1, 12 * 16, dtype=torch.float64).reshape(12, 16)
    weights[f"{old}.embed_positions.weight"] = rows
    weights = {name: t.float().double() for name, t in weights.items()}
    held = {name: t.float() for name, t in older(weights).items()}
    args = {"encoder_attention_heads": 4, "activation_fn": "gelu_accurate"}
    namespace = argparse.Namespace(arch="roberta", untie_weights_roberta=True, **args)
    compare(Roberta(weights, 4, tanh=True), {"model": held, "args": namespace})

    new = "encoder.sentence_encoder"
    weights = roberta_weights(new, norm="", last=True, tied=True)
    weights = {name: t.float().double() for name, t in weights.items()}
    held = {name: t.float() for name, t in weights.items()}
    args = {"encoder_attention_heads": 4, "encoder_normalize_before": True,
            "encoder_learned_pos": False, "no_scale_embedding": False}  # fmt: skip
    config = {"model": argparse.Namespace(arch="roberta_prenorm", **args)}
    compare(Roberta(weights, 4, pre=True, stack=new, factor=4.0), {"model": held, "cfg": config})


def test_sapiens_humanises_an_antibody(tmp_path: Path) -> None:
    """The checkpoint put together again from its tensors and options."""
    path = shared("sapiens-vh-fairseq-roberta", "model.safetensors")
    about, reference = (json.loads(path.with_name(name).read_text("utf-8"))
                        for name in ("about.json", "reference.json"))  # fmt: skip
    held = load_file(path)
    torch.save({"model": held, "args": argparse.Namespace(**about["args"])}, tmp_path / "m.pt")
    tokens = reference["vocab"]
    assert tokens[-1] == "<mask>"
    (tmp_path / "dict.txt").write_text("".join(f"{token} 1\n" for token in tokens[4:-1]), "utf-8")
    opened = open_network(tmp_path / "m.pt")
    network: Any = opened.network
    assert network.parameters_count == reference["params"] - 128  # there with a row of segments
    tokenizer = fairseq.tokenizers(opened.source, opened.plan).tokenizers["tokenizer"]
    ids = torch.tensor([tokenizer.frame()(tokenizer.encode(reference["mouse"]))])
    assert (ids[0, 0], ids[0, -1], tokenizer.mask_id) == (0, 2, 24)
    with torch.inference_mode():
        ours, own = network(ids), Roberta(held, 8).logits(ids)
        exact = Roberta({name: t.double() for name, t in held.items()}, 8).logits(ids)
    assert is_close_enough(ours, own, exact)
    amino_acids = ours[0, 1:-1, 4:24].argmax(-1) + 4
    assert tokenizer.decode(amino_acids.tolist()) == reference["humanised"]
