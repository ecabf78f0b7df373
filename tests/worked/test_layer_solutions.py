"""Encoder and decoder layers, embeddings and positions in solutions, against torch's own layers and
formulas in plain Python.
"""

import math
from typing import Any

import pytest
import torch
from tests.worked.helpers import numbers, same
from tests.worked.test_backward_solutions import values
from torch import Tensor, nn

from translucid import worked

NAMES = ("wq", "wk", "wv", "wo")


def drawn(*sizes: int, seed: int) -> Tensor:
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(seed)).double()


def layer_numbers(start: str = "", seed: int = 0) -> dict[str, Tensor]:
    return {start + name: drawn(4, 4, seed=seed + i) for i, name in enumerate(NAMES)}


FEEDFORWARD = {
    "w1": drawn(4, 6, seed=20), "b1": drawn(6, seed=21), "w2": drawn(6, 4, seed=22),
    "b2": drawn(4, seed=23),
}  # fmt: skip


@torch.no_grad()
def set_attention(part: nn.MultiheadAttention, given: dict[str, Tensor], start: str = "") -> None:
    q, k, v, o = (given[start + name].T for name in NAMES)
    part.in_proj_weight.copy_(torch.cat([q, k, v]))
    part.in_proj_bias.zero_()
    part.out_proj.weight.copy_(o)
    part.out_proj.bias.zero_()


@torch.no_grad()
def set_feedforward(layer: Any) -> None:
    layer.linear1.weight.copy_(FEEDFORWARD["w1"].T)
    layer.linear1.bias.copy_(FEEDFORWARD["b1"])
    layer.linear2.weight.copy_(FEEDFORWARD["w2"].T)
    layer.linear2.bias.copy_(FEEDFORWARD["b2"])


@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("placement", ["post", "pre"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_an_encoder_layer_is_torchs(heads: int, placement: Any, activation: Any) -> None:
    x, given = drawn(3, 4, seed=9), layer_numbers()
    layer = nn.TransformerEncoderLayer(
        4, heads, 6, dropout=0.0, activation=activation, batch_first=True,
        norm_first=placement == "pre", layer_norm_eps=0.01, dtype=torch.float64,
    )  # fmt: skip
    set_attention(layer.self_attn, given)
    set_feedforward(layer)
    padding = torch.tensor([[False, False, True]])
    wanted = layer(x[None], src_key_padding_mask=padding)[0]
    solution = worked.encoder_layer(
        x, **given, **FEEDFORWARD, heads=heads, placement=placement, activation=activation,
        mask="1 1 0", eps=0.01,
    )  # fmt: skip
    same(numbers(solution.steps[-1].value), wanted)
    assert not solution.example


@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("placement", ["post", "pre"])
def test_a_decoder_layer_is_torchs(heads: int, placement: Any) -> None:
    x, h = drawn(3, 4, seed=9), drawn(2, 4, seed=10)
    given = layer_numbers() | layer_numbers("cross_", seed=10)
    layer = nn.TransformerDecoderLayer(
        4, heads, 6, dropout=0.0, batch_first=True, norm_first=placement == "pre",
        dtype=torch.float64,
    )  # fmt: skip
    set_attention(layer.self_attn, given)
    set_attention(layer.multihead_attn, given, "cross_")
    set_feedforward(layer)
    wanted = layer(
        x[None], h[None],
        tgt_mask=torch.ones(3, 3, dtype=torch.bool).triu(1),
        memory_key_padding_mask=torch.tensor([[True, False]]),
    )[0]  # fmt: skip
    solution = worked.decoder_layer(
        x, h=h, **given, **FEEDFORWARD, heads=heads, placement=placement, mask="0 1"
    )
    same(numbers(solution.steps[-1].value), wanted)


def test_a_layer_names_its_sections_in_order() -> None:
    def sections(solution: Any) -> list[str]:
        return [*dict.fromkeys(step.section for step in solution.steps)]

    assert sections(worked.encoder_layer()) == [
        "Self-attention", "Add & Norm after the self-attention", "Feed-forward",
        "Add & Norm after the feed-forward",
    ]  # fmt: skip
    assert sections(worked.decoder_layer(placement="pre")) == [
        "Norm before the self-attention", "Masked self-attention", "Add after the self-attention",
        "Norm before the cross-attention", "Cross-attention", "Add after the cross-attention",
        "Norm before the feed-forward", "Feed-forward", "Add after the feed-forward",
    ]  # fmt: skip


def test_rows_pass_the_feed_forward_network_alone() -> None:
    both = values(worked.feedforward("1 -1; -2 0.5"))["feedforward.output"]
    swapped = values(worked.feedforward("-2 0.5; 1 -1"))["feedforward.output"]
    assert both == swapped[::-1]


def test_shapes_and_parameters_of_a_layer() -> None:
    shown = values(worked.decoder_layer(d_model=8, heads=2, length=3, d_ff=5))
    shapes, parameters = shown["shapes"], shown["parameters"]
    assert shapes["cross_attention.pattern"] == [2, 3, 3]
    assert shapes["feedforward.hidden"] == [3, 5]
    theirs = nn.TransformerDecoderLayer(8, 2, 5)
    assert parameters["layer"]["total"] == sum(p.numel() for p in theirs.parameters())
    assert values(worked.encoder_layer(d_model=8, length=1))["shapes"]["self_attention.query"] == [
        1,
        8,
    ]


# ---- embedding ----


@pytest.mark.parametrize("scale", [False, True])
def test_an_embedding_is_a_row_of_the_table_plus_sines_and_cosines(scale: bool) -> None:
    table = drawn(7, 4, seed=1)
    shown = values(worked.embedding("a cat a dog", table=table, scale=scale, first=5))
    words = shown["vocabulary"]
    assert words[:4] == ["<pad>", "<s>", "</s>", "<unk>"]
    ids = [words.index(word) for word in ["a", "cat", "a", "dog"]]
    assert shown["ids"] == ids
    rows = [
        [
            table[i, j].item() * (2 if scale else 1)
            + (math.cos if j % 2 else math.sin)(p / 10000 ** (2 * (j // 2) / 4))
            for j in range(4)
        ]
        for p, i in enumerate(ids, 5)
    ]
    same(numbers(shown["positions.output"]), rows)


def test_words_outside_the_vocabulary_are_unknown() -> None:
    solution = worked.embedding("the cat barks", vocabulary="the cat sleeps")
    assert values(solution)["ids"][-1] == 3
    assert "1 word not in the vocabulary became <unk>" in solution.text(200)


# ---- positions ----


@pytest.mark.parametrize("d", [2, 4, 8])
@pytest.mark.parametrize("base", [10000, 100])
def test_one_shift_matrix_moves_every_position(d: int, base: float) -> None:
    matrices = []
    for p in (0, 3, 11):
        shown = values(worked.positions(d, [p], shift=5, base=base))
        matrices.append(shown["shift"])
        here, there = shown["positions.encoding"][0], shown["shifted"]
        wanted = [sum(r * x for r, x in zip(row, here, strict=True)) for row in shown["shift"]]
        assert there == pytest.approx(wanted, abs=1e-12)
        for i in range(d // 2):
            angle = (p + 5) / base ** (2 * i / d)
            assert there[2 * i : 2 * i + 2] == pytest.approx([math.sin(angle), math.cos(angle)])
    assert matrices[0] == matrices[1] == matrices[2]


def test_the_rotation_matrix_of_a_rotary_position() -> None:
    shown = values(worked.positions(rotary=True, q="1 2 3 4", k="1 0 0 1", pairs="7 2", base=100))
    for place, x in ((7, [1, 2, 3, 4]), (2, [1, 0, 0, 1])):
        angles = (place, place / 10)
        rows = [[0.0] * 4 for _ in range(4)]
        for i, angle in enumerate(angles):
            rows[2 * i][2 * i : 2 * i + 2] = [math.cos(angle), -math.sin(angle)]
            rows[2 * i + 1][2 * i : 2 * i + 2] = [math.sin(angle), math.cos(angle)]
        same(numbers(shown[f"rotation {place}"]), rows)
        point = "attention.rotated_query" if place == 7 else "attention.rotated_key"
        same(numbers(rows) @ numbers(x), shown[point])


def test_the_four_terms_sum_to_the_dot_product_of_the_encoded_rows() -> None:
    shown = values(worked.positions(positions="3 8", embeddings="1 2 -1 0.5; 0 1 1 3"))
    first, second = numbers(shown["positions.output"])
    terms = [shown[f"term t_{i}"] for i in (1, 2, 3, 4)]
    assert math.fsum(terms) == pytest.approx((first @ second).item(), abs=1e-12)
    assert shown["dot"] == pytest.approx(math.fsum(terms), abs=1e-12)
    assert terms[3] == pytest.approx(math.cos(5) + math.cos(0.05), abs=1e-12)
