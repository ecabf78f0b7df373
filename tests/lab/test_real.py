"""Claims on real data: rules, measuring on tiny untrained models, and verdicts beside the first."""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from tests.lab.families import around, check, verdict
from torch import Tensor

from translucid.core.trace import NoTrace, Trace
from translucid.models import TransformerConfig, build
from translucid.models.base import DecoderModel, EncoderModel
from translucid.parts.embedding import Tokens
from translucid.see.part_switches import choose, switches, together
from translucid_lab.claims import (
    block_contributions,
    experiments,
    real_experiments,
    real_heads,
    real_lengths,
    real_order,
    real_parts,
    real_reviews,
    real_trained_heads,
    real_writing,
    sequential_time,
)
from translucid_lab.claims.small_nets import smooth_target
from translucid_lab.claims.task_shapes import READERS
from translucid_lab.engine import evidence, results
from translucid_lab.engine.experiment import claims, for_claim, of_file
from translucid_lab.engine.report import page
from translucid_lab.engine.runner import ExperimentResult, run
from translucid_lab.engine.verdict import Finding

SHARED = os.environ.get("TRANSLUCID_SHARED")
needs_files = pytest.mark.skipif(
    SHARED is None, reason="TRANSLUCID_SHARED does not name a folder with real text and weights"
)
HEADS = {"variance": 11.0, "apart": 0.5, "largest": 16.0, "same": 0.4, "sum": 1e-7, "above": 0.9,
         "below": 0.0}  # fmt: skip


def test_each_asks_claims_that_toys_answer() -> None:
    toys = {key for made in experiments().values() for key in made.claims}
    real = [key for made in real_experiments().values() for key in made.claims]
    assert len(real) == len(set(real)) >= 20
    assert set(real) <= toys & set(claims())
    assert all(made.real for made in real_experiments().values())
    assert not any(made.real for made in experiments().values())


@pytest.mark.parametrize(
    ("key", "name", "values"),  # what supports, refutes and leaves a claim open
    [
        ("C50", "apart", (0.5, 0.01, 0.1)),
        ("C73", "largest", (2.0, 16.0, 4.0)),
        ("C85", "above", (0.9, 0.001, 0.05)),
    ],
)
def test_rules_of_trained_weights(key: str, name: str, values: tuple[float, ...]) -> None:
    for value, expected in zip(values, ("supported", "refuted", "undecided"), strict=True):
        spread = 0.001 if expected != "undecided" else 0.1 * value
        data = [{**HEADS, name: row} for row in around(value, spread * (value > 0.001))]
        assert verdict(real_heads.heads, key, data) == expected, value


@pytest.mark.parametrize(
    ("variance", "spread", "expected"),
    [(1.0, 0.001, "supported"), (11.0, 0.001, "not applicable"), (1.1, 0.11, "undecided")],
)
def test_a_claim_whose_premise_is_not_met_does_not_apply(
    variance: float, spread: float, expected: str
) -> None:
    data = [{**HEADS, "variance": row} for row in around(variance, spread)]
    assert verdict(real_heads.heads, "C47", data) == expected


@pytest.mark.parametrize(
    ("whole", "first", "second", "expected"),
    [
        (0.8, 0.7, 0.7, "supported"),
        (0.8, 0.7, 0.8, "refuted"),  # the second half is enough
        (0.8, 0.7, 0.78, "undecided"),
        (0.6, 0.5, 0.5, "not tested"),
    ],
)
def test_the_rule_of_reviews(whole: float, first: float, second: float, expected: str) -> None:
    bag = around(0.8)  # decides nothing
    columns = zip(around(whole, 0.005), around(first), around(second), bag, strict=True)
    data = [dict(zip(READERS, row, strict=True)) for row in columns]
    assert verdict(real_reviews.reviews, "C15", data) == expected


def test_a_verdict_on_real_data_is_shown_beside_the_first(tmp_path: Path) -> None:
    (result,) = run(of_file(Path(__file__).with_name("planted.py"))[:1], tmp_path, quick=True)
    assert isinstance(result, ExperimentResult)
    kept = results.Kept.of(result)
    first = replace(kept, experiment="own-token", file=None,
                    findings={"C48": Finding("supported", "in the toy")})  # fmt: skip
    real = replace(kept, experiment="real-heads", file=None, title="A real model",
                   rules={"C48": "Refuted if not."}, labels={"C48": "real data"},
                   hashes={"C48": "abc"}, frozen={"C48": "2026-11-17"},
                   findings={"C48": Finding("refuted", "in truth")})  # fmt: skip
    every = evidence.rows(experiments(), {"own-token": first}, {}, {"real-heads": real})
    (row,) = [row for row in every if row.claim.key == "C48"]
    assert row.state == "supported"
    assert row.beyond_toys.startswith("refuted: in truth (A real model; quick, 10 seeds")
    assert all(not other.beyond_toys for other in every if other is not row)
    told = page([replace(row, experiment=None)])
    assert "holds beyond the toy?" in told
    assert "refuted: in truth" in told
    assert row.rule_beyond.startswith("Refuted if not. The rule abc was frozen on 2026-11-17. ")
    assert row.rule_beyond in told


def test_full_results_of_real_files_have_a_file_of_their_own(tmp_path: Path) -> None:
    data = tuple({**HEADS, "apart": value} for value in around(0.2, 0.01))
    results.keep(tmp_path, ExperimentResult(real_heads.heads, data, quick=False, seconds=1.0))
    assert results.read(tmp_path) == {}
    assert set(results.read(tmp_path, results.REAL)["real-heads"].findings) == set(
        real_heads.heads.claims
    )


# ---- rules and measuring ----

TRAINED = {name: {"own": 0.3, "d_k": 8.0, "scaled": 0.6, "raw": 0.2}
           for name in real_trained_heads.MODELS}  # fmt: skip
PARTS = {"whole": 3.0, "frequency": 5.0, "layers": [3.1] * 5, "removed": [3.0] * 20 + [4.0] * 21,
         "norms": 11, "features": 64, "learned": 704, "shifts": 0, "spread": 0.4}  # fmt: skip
WRITING = {name: {"ends": 1.0, "greedy": 20.0, "by probability": 15.0, "divided by length": 30.0}
           for name in real_writing.MODELS}  # fmt: skip
LENGTHS = {
    "frequency": dict.fromkeys(real_lengths.RANGES, 5.0),
    "sinusoidal": dict.fromkeys(real_lengths.RANGES, 4.0),
    "learned": {**dict.fromkeys(real_lengths.RANGES, 4.9), "inside": 4.0},
}
ORDER = {"shuffled": {"encoder": 1e-14, "decoder": 0.3}, "company": {"encoder": 1e-14,
         "decoder": 1e-14}, "far": {"from the left": 0.2, "from the right": 0.2}, "along": 0.9,
         "same": 0.1}  # fmt: skip
TIMES = {"device": "some GPU", "lengths": list(sequential_time.TOKENS), "rnn": [1.0] * 4,
         "lstm": [1.0] * 4, "attention": [0.1] * 4}  # fmt: skip
BLOCKS = {"12": {name: {"loss": 0.1, "cost": [cost] * 12}
                 for name, cost in (("residual", 1.0), ("residual, small branches", 0.1),
                                    ("plain", 1.5))}}  # fmt: skip
AMOUNTS = {"sizes": [250, 1000, 4000], "LSTM": [4.0, 4.0, 4.0], "n-grams": [3.5, 4.2, 4.5],
           "Transformer": [4.2, 4.2, 3.5]}  # fmt: skip


BOTH: tuple[Literal["encoder", "decoder"], ...] = ("encoder", "decoder")


def changed(data: Mapping[str, Any], path: str, value: float) -> dict[str, Any]:
    """The same numbers but for one, whose place is written with slashes."""
    *before, last = path.split("/")
    copy = {**data}
    inner = copy
    for key in before:
        inner[key] = {**inner[key]}
        inner = inner[key]
    inner[last] = value
    return copy


@pytest.mark.parametrize(
    ("key", "data", "changes", "expected"),
    [
        ("C46", TRAINED, {}, "supported"),
        ("C46", TRAINED, {"names, encoder/raw": 0.5}, "depends"),
        ("C48", TRAINED, {}, "refuted"),
        ("C48", TRAINED, {"names, decoder/own": 0.99}, "depends"),
        ("C52", PARTS, {}, "depends"),  # many can go, none does harm
        ("C52", PARTS, {"removed": [3.0, 2.9, *[3.0] * 39]}, "supported"),
        ("C52", PARTS, {"removed": [3.0, *[4.0] * 40]}, "refuted"),
        ("C52", PARTS, {"frequency": 3.2}, "not tested"),
        ("C62", BLOCKS, {}, "depends"),
        ("C62", BLOCKS, {"12/plain/cost": [0.1] * 12}, "refuted"),
        ("C62", BLOCKS, {"12/plain/loss": 0.9}, "not tested"),
        ("C25", AMOUNTS, {}, "supported"),
        ("C25", AMOUNTS, {"n-grams": [4.1, 4.2, 4.5]}, "refuted"),  # nor better with the least
        ("C25", AMOUNTS, {"n-grams": [3.5, 3.8, 4.5]}, "refuted"),  # the LSTM is never the best
        ("C75", PARTS, {}, "supported"),
        ("C75", PARTS, {"shifts": 11}, "refuted"),
        ("C75", PARTS, {"spread": 0.001}, "refuted"),
        ("C83", WRITING, {}, "supported"),
        ("C83", WRITING, {"stories/ends": 0.2}, "depends"),
        ("C87", WRITING, {}, "depends"),
        ("C34", LENGTHS, {}, "supported"),
        ("C34", LENGTHS, {"sinusoidal/to four times": 4.6}, "depends"),
        ("C34", LENGTHS, {"sinusoidal/inside": 4.95}, "not tested"),
        ("C35", LENGTHS, {}, "supported"),
        ("C35", LENGTHS, {"learned/to four times": 4.0}, "refuted"),
        ("C35", LENGTHS, {"learned/inside": 4.2}, "refuted"),
        ("C33", ORDER, {}, "depends"),
        ("C33", ORDER, {"shuffled/decoder": 1e-14}, "supported"),
        ("C72", ORDER, {}, "supported"),
        ("C72", ORDER, {"company/decoder": 0.1}, "refuted"),
        ("C81", ORDER, {}, "supported"),
        ("C81", ORDER, {"same": 0.9}, "refuted"),
        ("C81", ORDER, {"along": 0.1}, "refuted"),
        ("C82", ORDER, {}, "supported"),
        ("C82", ORDER, {"far/from the right": 0.001}, "refuted"),
        ("C23", TIMES, {}, "supported"),
        ("C23", TIMES, {"lstm": [0.05] * 4}, "depends"),
        ("C23", {"device": "", "lengths": [64]}, {}, "not tested"),
    ],
)
def test_rules(key: str, data: dict[str, Any], changes: dict[str, Any], expected: str) -> None:
    for path, value in changes.items():
        data = changed(data, path, value)
    rows = [_scaled(data, by) for by in around(1.0, 0.001)]
    assert verdict(for_claim(key, real_experiments()), key, rows) == expected


def _scaled(value: Any, by: float) -> Any:
    """Every fraction a little more or less, as seeds give them."""
    if isinstance(value, dict):
        return {key: _scaled(part, by) for key, part in value.items()}
    if isinstance(value, list):
        return [_scaled(part, by) for part in value]
    return value * by if isinstance(value, float) else value


def tiny(shape: Literal["encoder", "decoder"], **options: Any) -> Any:
    torch.manual_seed(0)
    head = {"head": "language"} if shape == "decoder" else {"head": "tag", "outputs": 4}
    return build(TransformerConfig(
        shape=shape, vocab=40, d_model=16, heads=2, layers=2, d_ff=16, dropout=0.0, **head,
        **options,
    )).double().eval()  # fmt: skip


def outputs(net: EncoderModel | DecoderModel) -> real_order.Outputs:
    def read(ids: Tensor, mask: Tensor | None, trace: NoTrace) -> Tensor:
        if isinstance(net, DecoderModel):
            return net(ids, mask, trace=trace)
        return net.encoder(Tokens(ids, mask), trace.at("encoder")).outputs

    return read


TEXTS = [torch.randint(3, 40, (1, length), generator=torch.Generator().manual_seed(length))
         for length in (5, 8, 9)]  # fmt: skip


def test_an_encoder_without_positions_ignores_order_and_a_masked_decoder_does_not() -> None:
    changes = {}
    for shape in BOTH:
        net = tiny(shape)
        off = together(choose(switches(net), ["positions"]))
        changes[shape] = real_order._shuffled(outputs(net), TEXTS, off, seed=0)
        assert real_order._shuffled(outputs(net), TEXTS, {}, seed=0) > real_order.OTHER
    assert changes["encoder"] < real_order.SAME
    assert changes["decoder"] > real_order.OTHER


def test_only_batch_norm_depends_on_the_batch() -> None:
    for norm in ("layer", "rms"):
        assert real_order._company(outputs(tiny("encoder", norm=norm)), TEXTS) < real_order.SAME
    assert real_order._company(outputs(tiny("decoder")), TEXTS) < real_order.SAME
    trained = tiny("encoder", norm="batch").train()  # in training it takes the batch's statistics
    assert real_order._company(outputs(trained), TEXTS) > real_order.OTHER


def test_what_reaches_what() -> None:
    decoder, encoder = (torch.tensor(real_order._changes(outputs(tiny(shape)), TEXTS, 40))
                        for shape in reversed(BOTH))  # fmt: skip
    assert not decoder.triu(1).any()
    assert (encoder > 0).all()
    far = real_order._far(outputs(tiny("encoder")), TEXTS)
    assert all(0 < value < 1 for value in far.values())


@pytest.mark.parametrize("shape", BOTH)
def test_scores_are_made_again_as_the_model_made_them(shape: Literal["encoder", "decoder"]) -> None:
    net = tiny(shape, positions="rotary")
    trace = Trace("*.self_attention.*")
    with torch.no_grad():
        net(TEXTS[1], trace=trace)
    name = trace.names("*.self_attention.pattern")[0]
    measured = real_trained_heads._of_layer(trace, name.removesuffix(".pattern"))
    pattern = trace[name]
    by_pattern = (pattern * (1 - pattern)).sum(-1)[..., 1:].mean()
    assert measured["scaled"] == pytest.approx(float(by_pattern), rel=1e-9)
    assert measured["raw"] != pytest.approx(measured["scaled"], rel=1e-6)


def test_heads_that_can_go_are_counted() -> None:
    assert real_parts.removable([3.0, 3.0, 3.04, 3.2, 3.0]) == 2
    assert real_parts.removable([3.0, 3.2]) == 0
    assert real_parts.removable([3.0, 2.9, 3.0]) == 2


def test_without_a_gpu_nothing_is_tested() -> None:
    made, data = sequential_time.gpu_times, [{"device": "", "lengths": [64, 256]}] * 10
    assert made.claims["C23"].finding(data).why.startswith("no GPU here")
    assert made.real
    check(made, data)


@pytest.mark.parametrize("name", block_contributions.NETS)
def test_blocks_are_left_out_as_in_the_toy(name: str) -> None:
    x, y = smooth_target(128, 8, torch.Generator().manual_seed(1))
    assert real_reviews._costs(1, name, 4, 3, x, y) == block_contributions._trained(1, name, 4, 3)


@needs_files
@pytest.mark.slow
@pytest.mark.parametrize("name", ["real-heads", "real-parts", "real-order", "real-writing",
                                  "real-blocks", "real-amounts"])  # fmt: skip
def test_trained_models_are_measured(name: str) -> None:
    made = real_experiments()[name]
    check(made, [made.run(0, True)] * 10)
