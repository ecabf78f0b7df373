"""Weights of torch modules, opened by mapping files that a user writes: those of examples/, and two
that people have published."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.in_process import run
from tests.interop.reference import FLOAT32, far, randomised
from tests.interop.tokenizer_files import shared
from tests.interop.toolkit_reference import attend, causal, check, greedy, is_close_enough
from torch import Tensor, nn

import translucid as tl
from translucid.core.errors import InputError
from translucid.interop.importing import import_model, open_network
from translucid.interop.rules import to_theirs

EXAMPLES = Path(__file__).parents[2] / "examples/mappings"


class Translator(nn.Module):
    """As the comment of transformer.toml has it."""

    def __init__(self) -> None:
        super().__init__()
        self.source, self.target = nn.Embedding(9, 16), nn.Embedding(8, 16)
        self.places = nn.Embedding(32, 16)
        self.transformer = nn.Transformer(16, 4, 2, 2, 24, batch_first=True)
        self.output = nn.Linear(16, 8)

    def embed(self, table: nn.Embedding, ids: Tensor) -> Tensor:
        return table(ids) + self.places.weight[: ids.shape[1]]  # type: ignore[no-any-return]

    def encode(self, source: Tensor, mask: Tensor) -> Tensor:
        x = self.embed(self.source, source)
        return self.transformer.encoder(x, src_key_padding_mask=~mask)  # type: ignore[no-any-return]

    def logits(self, source: Tensor, mask: Tensor, target: Tensor) -> Tensor:
        x = self.transformer.decoder(
            self.embed(self.target, target), self.encode(source, mask),
            tgt_mask=~causal(target.shape[1])[0], memory_key_padding_mask=~mask,
        )  # fmt: skip
        return self.output(x)  # type: ignore[no-any-return]


class GRUs(nn.Module):
    def __init__(self, source: int = 9, target: int = 8, d: int = 12, hidden: int = 10,
                 layers: int = 2) -> None:  # fmt: skip
        super().__init__()
        self.source, self.target = nn.Embedding(source, d), nn.Embedding(target, d)
        self.encoder = nn.GRU(d, hidden, layers, batch_first=True)
        self.decoder = nn.GRU(d, hidden, layers, batch_first=True)
        self.output = nn.Linear(hidden, target)
        self.register_buffer("steps_done", torch.tensor([3]))

    def read(self, source: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        packed = nn.utils.rnn.pack_padded_sequence(
            self.source(source), mask.sum(1), batch_first=True, enforce_sorted=False
        )
        outputs, last = self.encoder(packed)
        outputs, _ = nn.utils.rnn.pad_packed_sequence(
            outputs, batch_first=True, total_length=source.shape[1]
        )
        return outputs, last

    def encode(self, source: Tensor, mask: Tensor) -> Tensor:
        return self.read(source, mask)[0]

    def logits(self, source: Tensor, mask: Tensor, target: Tensor) -> Tensor:
        _, last = self.read(source, mask)
        return self.output(self.decoder(self.target(target), last)[0])  # type: ignore[no-any-return]


class Language(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(12, 8)
        self.lstm = nn.LSTM(8, 10, num_layers=2, batch_first=True)
        self.output = nn.Linear(10, 12)

    def forward(self, ids: Tensor) -> Tensor:
        return self.output(self.lstm(self.embedding(ids))[0])  # type: ignore[no-any-return]


def place(folder: Path, example: str) -> Path:
    """An example's mapping file, copied to where its weights are."""
    path = folder / example
    path.write_text((EXAMPLES / example).read_text("utf-8"), "utf-8")
    return path


@pytest.mark.filterwarnings("ignore:.*nested tensor.*")
def test_nn_transformer(tmp_path: Path) -> None:
    theirs = randomised(Translator())
    torch.save(theirs.state_dict(), tmp_path / "translator.pt")
    path = place(tmp_path, "transformer.toml")
    opened = check(theirs, path, start=2, eos=3)
    held = dict(theirs.state_dict())
    back = to_theirs(opened.plan.rules, dict(opened.network.state_dict()))
    assert back.keys() == held.keys()
    assert all(torch.equal(back[name].double(), held[name].double()) for name in held)
    model = import_model(path)
    source = model.tokenizers["source"]
    assert source.frame()(source.encode("the dog sees nobody")) == [3, 4, 6, 1, 2]
    assert model.tokenizers["target"].start_ids == [2]


def test_nn_gru(tmp_path: Path) -> None:
    theirs = randomised(GRUs())
    torch.save(theirs.state_dict(), tmp_path / "translator.pt")
    check(theirs, place(tmp_path, "gru.toml"), start=2, eos=3)


def test_nn_lstm(tmp_path: Path) -> None:
    theirs = randomised(Language())
    torch.save(theirs.state_dict(), tmp_path / "language.pt")
    model = tl.load(place(tmp_path, "lstm_language.toml"))
    trace = model.trace("abcd")
    ids = torch.tensor([[0, 4, 5, 6, 7]])
    with torch.inference_mode():
        reference = theirs(ids)
    assert far(trace["head.logits"], reference, float(reference.abs().max())) < FLOAT32
    assert trace["decoder.recurrent.layers.1.lstm.forget_gate"].shape == (1, 5, 10)
    text: list[int] = [0]
    with torch.inference_mode():
        while len(text) < 7 and text[-1] != 1:
            text.append(int(theirs(torch.tensor([text]))[0, -1].argmax()))
    (decoded,) = model.decode([""], beam_size=1, max_length=6)
    assert decoded.texts[0].text == model.output_tokenizer.decode(text[1:])


def test_keras_lstm(tmp_path: Path) -> None:
    """By hand in numpy: gates i, f, c, o; kernels are (inputs, outputs)."""
    chance = np.random.default_rng(0)
    shapes = {"table": (12, 8), "kernel": (8, 40), "recurrent": (10, 40), "bias": (40,),
              "dense": (10, 12), "dense_bias": (12,)}  # fmt: skip
    w = {name: chance.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    save_file({n: torch.from_numpy(v) for n, v in w.items()}, tmp_path / "language.safetensors")
    network = open_network(place(tmp_path, "keras_lstm.toml")).network
    ids, h, c, logits = [0, 4, 5, 11, 7], np.zeros(10), np.zeros(10), []
    for x in w["table"][ids]:
        i, f, g, o = np.split(x @ w["kernel"] + h @ w["recurrent"] + w["bias"], 4)
        i, f, o = (1 / (1 + np.exp(-gate)) for gate in (i, f, o))
        c = f * c + i * np.tanh(g)
        h = o * np.tanh(c)
        logits.append(h @ w["dense"] + w["dense_bias"])
    with torch.inference_mode():
        ours = network(torch.tensor([ids]))[0].numpy()  # type: ignore[arg-type]
    assert np.allclose(ours, logits, atol=1e-5)


def test_layouts_other_than_torch(tmp_path: Path) -> None:
    """Kernels as (inputs, outputs), gates in another order, one bias, a table cut in two, a row
    that is a matrix: and back again."""
    theirs = randomised(Language())
    state = dict(theirs.state_dict())
    order = [0, 2, 1, 3]  # of the gates: input, candidate, forget, output
    layout: dict[str, Tensor] = {
        "first/table": state["embedding.weight"][:5].clone(),
        "second/table": state["embedding.weight"][5:].clone(),
        "softmax/w": state["output.weight"].t().contiguous(),
        "softmax/b": state["output.bias"][None].clone(),
    }
    names = ['"decoder.embedding.table.weight" = "first/table | second/table"',
             '"head.linear.weight" = { from = "softmax/w", steps = ["transpose"] }',
             '"head.linear.bias" = { from = "softmax/b", steps = ["one_row"] }']  # fmt: skip
    for layer in range(2):
        for kind in ("ih", "hh"):
            w = state[f"lstm.weight_{kind}_l{layer}"].unflatten(0, (4, -1))[order].flatten(0, 1)
            layout[f"cell_{layer}/{kind}"] = w.t().contiguous()
            b = state[f"lstm.bias_{kind}_l{layer}"]
            if kind == "hh":
                b.zero_()
            else:
                layout[f"cell_{layer}/bias"] = b.unflatten(0, (4, -1))[order].flatten(0, 1)
    steps = 'steps = ["transpose", "blocks 0 2 1 3"]'
    for kind in ("ih", "hh"):
        line = f'"decoder.recurrent.fused.weight_{kind}_l{{i}}"'
        names.append(f'{line} = {{ from = "cell_{{i}}/{kind}", {steps} }}')
    names.append('"decoder.recurrent.fused.bias_ih_l{i}" = '
                 '{ from = "cell_{i}/bias", steps = ["blocks 0 2 1 3"] }')  # fmt: skip
    names += [f'"decoder.recurrent.fused.bias_hh_l{i}" = {{ constant = "zeros" }}'
              for i in range(2)]  # fmt: skip
    save_file(layout, tmp_path / "w.safetensors")
    text = (EXAMPLES / "lstm_language.toml").read_text("utf-8")
    begin, end = text.index("[names]"), text.index("[tokenizer]")
    path = tmp_path / "m.toml"
    path.write_text("\n".join([text[:begin].replace("language.pt", "w.safetensors"), "[names]",
                               *names, text[end:]]), "utf-8")  # fmt: skip
    opened = open_network(path)
    ids = torch.tensor([[0, 4, 5, 11, 7]])
    with torch.inference_mode():
        assert torch.allclose(opened.network(ids), theirs(ids), atol=1e-5)  # type: ignore[arg-type]
    back = to_theirs(opened.plan.rules, dict(opened.network.state_dict()))
    assert back.keys() == layout.keys()
    assert all(torch.equal(back[name], layout[name]) for name in layout)
    with torch.no_grad():
        opened.network.get_parameter("decoder.recurrent.fused.bias_hh_l1").add_(1)
    with pytest.raises(InputError, match="bias_hh_l1 is not zeros"):
        to_theirs(opened.plan.rules, dict(opened.network.state_dict()))


def test_import_with_a_mapping(tmp_path: Path) -> None:
    theirs = randomised(Language())
    torch.save({"state_dict": theirs.state_dict(), "epoch": 3}, tmp_path / "w.pt")
    text = (EXAMPLES / "lstm_language.toml").read_text("utf-8")
    for name in ("embedding", "lstm", "output"):
        text = text.replace(f'= "{name}.', f'= "state_dict.{name}.')
    text = text.replace('weights = "language.pt"\n', "")
    (tmp_path / "m.toml").write_text(text, "utf-8")
    done = run("import", str(tmp_path / "w.pt"), str(tmp_path / "out"), "--mapping",
               str(tmp_path / "m.toml"))  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "recurrent model in the layout that a mapping file describes: w.pt" in done.stdout
    ids = torch.tensor([[0, 4, 5]])
    with torch.inference_mode():
        logits = tl.load(tmp_path / "out").trace("ab")["head.logits"]
        assert torch.allclose(logits, theirs(ids), atol=1e-5)
    with pytest.raises(InputError, match="add weights ="):
        tl.load(tmp_path / "m.toml")


WRONG = {
    "not TOML": ("task =", "task", "is not valid TOML"),
    "a key": ("ignored", "ignores", "ignores: no such key; did you mean ignored"),
    "a task": ('"translate"', '"translating"', "task = 'translating'"),
    "a model key": ("hidden = 10", "hiden = 10", "model: hiden: no such key; did you mean hidden"),
    "a kind": ('kind = "recurrent"', 'kind = "mlp"', "model:"),
    "a tensor": ('"encoder.*"', '"encodr.*"', "did you mean encoder"),
    "a name of ours": ('"head.linear.*"', '"head.lin.*"', r"head.lin.weight \(no such weight\)"),
    "nothing for a weight": ('"head.linear.*" = "output.*"', "", "without a rule: head"),
    "a step": ('= "output.*"', '= { from = "output.*", steps = ["flip"] }', "the step .flip."),
    "neither": ('= "output.*"', "= 3", "expected a name"),
    "a tensor too many": ('["steps_done"]', "[]", "1 unknown: steps_done"),
    "another size": ("hidden = 10", "hidden = 11", "with a wrong shape"),
    "a role": ('after = ["</s>"]', 'after = ["<end>"]', "'<end>' is set as a special token"),
    "no unknown token": ('"<unk>", "</s>", "a"', '"x", "</s>", "a"', "set one with unk = "),
    "no tokens": ("[target]", "[other]", "other: no such key"),
    "a file outside": ('"translator.pt"', '"../translator.pt"', "outside of"),
    "no file": ('"translator.pt"', '"nothing.pt"', "nothing.pt is missing"),
    "too few tokens": (', "D"]', ', "D", "E", "F"]', "10 tokens, but the embedding table has 8"),
}


@pytest.mark.parametrize("name", WRONG)
def test_errors_in_a_mapping_file_are_named(tmp_path: Path, name: str) -> None:
    torch.save(GRUs().state_dict(), tmp_path / "translator.pt")
    old, new, message = WRONG[name]
    text = (EXAMPLES / "gru.toml").read_text("utf-8")
    assert text.count(old) >= 1
    (tmp_path / "m.toml").write_text(text.replace(old, new), "utf-8")
    with pytest.raises(InputError, match=message) as caught:
        import_model(tmp_path / "m.toml")
    assert str(tmp_path) in str(caught.value)


def toml_list(tokens: list[Any]) -> str:
    return json.dumps([str(token) for token in tokens], ensure_ascii=False)


ANARCII = """
task = "translate"
weights = "model.safetensors"

[model]
kind = "transformer"
d_model = 128
heads = 4
layers = 2
d_ff = 512
placement = "post"
final_norm = false
positions = "learned"
max_length = 210
tied = false
head_bias = true

[names]
"decoder.layers.{i}.cross_attention.query.* | decoder.layers.{i}.cross_attention.kv.*" = \
"decoder.layers.{i}.encoder_attention.multihead_attn.in_proj_*"
"decoder.layers.{i}.cross_attention.output.*" = \
"decoder.layers.{i}.encoder_attention.multihead_attn.out_proj.*"
"decoder.layers.{i}.cross_attention_residual.norm.*" = "decoder.layers.{i}.enc_attn_layer_norm.*"
"head.linear.*" = "decoder.fc_out.*"
"""
SIDE = """
"SIDE.embedding.table.weight" = "SIDE.tok_embedding.weight"
"SIDE.positions.table" = "SIDE.pos_embedding.weight"
"SIDE.layers.{i}.self_attention.qkv.*" = "SIDE.layers.{i}.self_attention.multihead_attn.in_proj_*"
"SIDE.layers.{i}.self_attention.output.*" = \
"SIDE.layers.{i}.self_attention.multihead_attn.out_proj.*"
"SIDE.layers.{i}.self_attention_residual.norm.*" = "SIDE.layers.{i}.self_attn_layer_norm.*"
"SIDE.layers.{i}.feedforward.expand.*" = "SIDE.layers.{i}.positionwise_feedforward.fc_1.*"
"SIDE.layers.{i}.feedforward.output.*" = "SIDE.layers.{i}.positionwise_feedforward.fc_2.*"
"SIDE.layers.{i}.feedforward_residual.norm.*" = "SIDE.layers.{i}.ff_layer_norm.*"
"""


class Anarcii:
    """Post-norm, relu, learned positions, embedding times sqrt(d), from its tensors alone."""

    def __init__(self, weights: dict[str, Tensor]) -> None:
        self.weights = weights

    def linear(self, name: str, x: Tensor) -> Tensor:
        return nn.functional.linear(x, self.weights[f"{name}.weight"], self.weights[f"{name}.bias"])

    def norm(self, name: str, x: Tensor) -> Tensor:
        w = self.weights
        return nn.functional.layer_norm(x, (128,), w[f"{name}.weight"], w[f"{name}.bias"])

    def attention(self, name: str, x: Tensor, keys: Tensor, seen: Tensor) -> Tensor:
        name = f"{name}.multihead_attn"
        weight, bias = self.weights[f"{name}.in_proj_weight"], self.weights[f"{name}.in_proj_bias"]
        q, k, v = (nn.functional.linear(y, w, b) for y, w, b in
                   zip((x, keys, keys), weight.chunk(3), bias.chunk(3), strict=True))  # fmt: skip
        return self.linear(f"{name}.out_proj", attend(q, k, v, 4, seen))

    def forward(self, name: str, x: Tensor) -> Tensor:
        y = self.linear(f"{name}.positionwise_feedforward.fc_1", x).relu()
        y = self.linear(f"{name}.positionwise_feedforward.fc_2", y)
        return self.norm(f"{name}.ff_layer_norm", x + y)

    def embed(self, side: str, ids: Tensor) -> Tensor:
        x = self.weights[f"{side}.tok_embedding.weight"][ids] * math.sqrt(128)
        return x + self.weights[f"{side}.pos_embedding.weight"][: ids.shape[1]]

    def encode(self, source: Tensor, mask: Tensor) -> Tensor:
        x = self.embed("encoder", source)
        for name in ("encoder.layers.0", "encoder.layers.1"):
            y = self.attention(f"{name}.self_attention", x, x, mask[:, None])
            x = self.forward(name, self.norm(f"{name}.self_attn_layer_norm", x + y))
        return x

    def logits(self, source: Tensor, mask: Tensor, target: Tensor) -> Tensor:
        keys, x = self.encode(source, mask), self.embed("decoder", target)
        for name in ("decoder.layers.0", "decoder.layers.1"):
            y = self.attention(f"{name}.self_attention", x, x, causal(target.shape[1]))
            x = self.norm(f"{name}.self_attn_layer_norm", x + y)
            y = self.attention(f"{name}.encoder_attention", x, keys, mask[:, None])
            x = self.forward(name, self.norm(f"{name}.enc_attn_layer_norm", x + y))
        return self.linear("decoder.fc_out", x)


def test_anarcii_numbers_an_antibody(tmp_path: Path) -> None:
    weights = shared("anarcii-antibody", "model.safetensors")
    about = json.loads(weights.with_name("about.json").read_text("utf-8"))
    reference = json.loads(weights.with_name("reference.json").read_text("utf-8"))
    (tmp_path / "model.safetensors").write_bytes(weights.read_bytes())
    text = ANARCII + SIDE.replace("SIDE", "encoder") + SIDE.replace("SIDE", "decoder")
    roles = 'pad = "<PAD>"\nbos = "<SOS>"\neos = "<EOS>"\nunk = "X"\n'
    text += f"[source]\ntokens = {toml_list(about['source_tokens'])}\n{roles}"
    text += 'split = "characters"\nbefore = ["<SOS>"]\nafter = ["<EOS>"]\n'
    text += f"[target]\ntokens = {toml_list(about['target_tokens'])}\n{roles}"
    (tmp_path / "m.toml").write_text(text, "utf-8")
    model = tl.load(tmp_path / "m.toml")
    sequence = reference["sequence"]
    ids = model.task.example(sequence).batch.inputs["source"]
    assert ids[0].tolist() == reference["source_ids"]
    (decoded,) = model.decode([sequence], beam_size=1, max_length=200)
    written = reference["greedy_ids"]
    answer = model.output_tokenizer.decode(written[1:-1])
    assert decoded.texts[0].text == answer
    target = torch.tensor([written[:-1]])
    mask, held = torch.ones_like(ids, dtype=torch.bool), load_file(weights)
    with torch.inference_mode():
        own = Anarcii(held).logits(ids, mask, target)
        exact = Anarcii({n: t.double() for n, t in held.items()}).logits(ids, mask, target)
        ours = model.network(ids, target, mask)  # type: ignore[arg-type]
    assert is_close_enough(ours, own, exact)


G2P = ("AA0 AA1 AA2 AE0 AE1 AE2 AH0 AH1 AH2 AO0 AO1 AO2 AW0 AW1 AW2 AY0 AY1 AY2 B CH D DH EH0 EH1 "
       "EH2 ER0 ER1 ER2 EY0 EY1 EY2 F G HH IH0 IH1 IH2 IY0 IY1 IY2 JH K L M N NG OW0 OW1 OW2 OY0 "
       "OY1 OY2 P R S SH T TH UH0 UH1 UH2 UW UW0 UW1 UW2 V W Y Z ZH")  # fmt: skip


def test_g2p_says_how_words_are_pronounced(tmp_path: Path) -> None:
    weights = shared("g2p-en", "model.safetensors")
    reference = json.loads(weights.with_name("reference.json").read_text("utf-8"))["predict"]
    held = load_file(weights)
    (tmp_path / "model.safetensors").write_bytes(weights.read_bytes())
    own_names = {"source.weight": "enc_emb", "target.weight": "dec_emb", "output.weight": "fc_w",
                 "output.bias": "fc_b"}  # fmt: skip
    for side in ("encoder", "decoder"):
        for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
            own_names[f"{side}.{kind}_l0"] = f"{side[:3]}_{kind[0]}_{kind[-2:]}"
    ours_of = {"source": "encoder.embedding.table", "target": "decoder.embedding.table",
               "output": "head.linear", "encoder": "encoder.recurrent.fused",
               "decoder": "decoder.recurrent.fused"}  # fmt: skip
    names = {f"{ours_of[name.split('.')[0]]}.{name.split('.')[1]}": theirs
             for name, theirs in own_names.items()}  # fmt: skip
    text = (EXAMPLES / "gru.toml").read_text("utf-8")
    begin = text.index("[names]")
    head = text[:begin].replace("translator.pt", "model.safetensors").replace("layers = 2", "")
    head = head.replace("d_model = 12", "d_model = 256").replace("hidden = 10", "hidden = 256")
    characters = ["<pad>", "<unk>", "</s>", *map(chr, range(97, 123))]
    phonemes = ["<pad>", "<unk>", "<s>", "</s>", *G2P.split()]
    lines = [head, "[names]", *(f'"{ours}" = "{theirs}"' for ours, theirs in names.items()),
             "[source]", f"tokens = {toml_list(characters)}", 'split = "characters"',
             'after = ["</s>"]', "[target]", f"tokens = {toml_list(phonemes)}"]  # fmt: skip
    (tmp_path / "m.toml").write_text("\n".join(lines), "utf-8")
    model = tl.load(tmp_path / "m.toml")
    decoded = model.decode(list(reference), beam_size=1, max_length=20)
    assert [one.texts[0].text for one in decoded] == list(reference.values())
    theirs = GRUs(29, 74, 256, 256, 1).eval()
    theirs.load_state_dict({ours: held[name] for ours, name in own_names.items()}, strict=False)
    ids = model.task.example("activationist").batch.inputs["source"]
    mask, target = torch.ones_like(ids, dtype=torch.bool), torch.tensor([[2, 9, 45, 60, 38]])
    with torch.inference_mode():
        ours = model.network(ids, target, mask)  # type: ignore[arg-type]
        own = theirs.logits(ids, mask, target)
        exact = theirs.double().logits(ids, mask, target)
        text_of = model.output_tokenizer.decode(greedy(theirs, ids, 2, 3, most=20))
    assert is_close_enough(ours, own, exact)
    assert text_of == reference["activationist"]


SHAKESPEARE = """
task = "language"
weights = "model.safetensors"

[model]
kind = "recurrent"
cell = "lstm"
d_model = 65
hidden = 128
layers = 2
tied = false
head_bias = true

[names]
"decoder.embedding.table.weight" = { constant = "identity" }
"head.linear.weight" = { from = "softmax.softmax_w", steps = ["transpose"] }
"head.linear.bias" = "softmax.softmax_b"
"""
OF_CELL = """
"decoder.recurrent.fused.weight_ih_l{i} | decoder.recurrent.fused.weight_hh_l{i}" = \
{ from = "rnn.multi_rnn_cell.cell_{i}.basic_lstm_cell.kernel", \
steps = ["transpose", "blocks 0 2 1 3"], columns = true }
"decoder.recurrent.fused.bias_ih_l{i}" = \
{ from = "rnn.multi_rnn_cell.cell_{i}.basic_lstm_cell.bias", steps = ["blocks 0 2 1 3"] }
"decoder.recurrent.fused.bias_hh_l0" = { constant = "zeros" }
"decoder.recurrent.fused.bias_hh_l1" = { constant = "zeros" }
"""


def tensorflow_logits(weights: dict[str, Tensor], ids: list[int]) -> Tensor:
    """Two cells of TensorFlow over one-hot characters: gates i, j, f, o, and no forget bias."""
    kind = weights["softmax.softmax_b"]
    states = [(kind.new_zeros(128), kind.new_zeros(128)) for _ in range(2)]
    outputs = []
    for i in ids:
        x = torch.eye(65, dtype=kind.dtype)[i]
        for layer, (h, c) in enumerate(states):
            cell = f"rnn.multi_rnn_cell.cell_{layer}.basic_lstm_cell"
            total = torch.cat([x, h]) @ weights[f"{cell}.kernel"] + weights[f"{cell}.bias"]
            write, new, keep, show = total.chunk(4)
            c = c * keep.sigmoid() + write.sigmoid() * new.tanh()
            x = c.tanh() * show.sigmoid()
            states[layer] = (x, c)
        outputs.append(x @ weights["softmax.softmax_w"] + weights["softmax.softmax_b"])
    return torch.stack(outputs)


def test_cells_of_tensorflow_write_shakespeare(tmp_path: Path) -> None:
    weights = shared("tf-char-rnn-shakespeare", "model.safetensors")
    vocab = json.loads(weights.with_name("about.json").read_text("utf-8"))["vocab"]
    reference = json.loads(weights.with_name("reference.json").read_text("utf-8"))
    held = load_file(weights)
    (tmp_path / "model.safetensors").write_bytes(weights.read_bytes())
    tokens = sorted(vocab, key=vocab.__getitem__)
    text = SHAKESPEARE + OF_CELL + f"[tokenizer]\ntokens = {toml_list(tokens)}\n"
    (tmp_path / "m.toml").write_text(text + 'split = "characters"\nunk = " "\neos = "$"\n', "utf-8")
    opened = open_network(tmp_path / "m.toml")
    back = to_theirs(opened.plan.rules, dict(opened.network.state_dict()))
    assert all(torch.equal(back[name], held[name]) for name in back)
    model = tl.load(tmp_path / "m.toml")
    tokenizer = model.output_tokenizer
    sample = reference["sample_t05"]
    ids = tokenizer.encode(sample)
    assert tokenizer.decode(ids) == sample
    with torch.inference_mode():
        ours = opened.network(torch.tensor([ids]))[0]  # type: ignore[arg-type]
        own = tensorflow_logits(held, ids)
        exact = tensorflow_logits({n: t.double() for n, t in held.items()}, ids)
    assert is_close_enough(ours, own, exact)
    losses = -ours[:-1].log_softmax(-1)[range(len(ids) - 1), ids[1:]]
    assert float(losses.mean().exp()) < 4  # it was drawn from this network
    (decoded,) = model.decode(["ROMEO:\n"], beam_size=1, max_length=40)
    assert decoded.texts[0].text.isascii()
