"""Claims beyond toys: a second answer beside the first; measured where the files are at hand."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
from tests.lab.families import around, check, verdict

from translucid_lab.claims import experiments, real_experiments, real_heads, real_reviews
from translucid_lab.claims.task_shapes import READERS
from translucid_lab.engine import evidence, results
from translucid_lab.engine.experiment import claims, of_file
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
        ("C47", "variance", (1.0, 11.0, 1.1)),
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
    ("whole", "half", "bag", "expected"),
    [
        (0.8, 0.7, 0.7, "supported"),
        (0.8, 0.7, 0.8, "refuted"),  # words are enough
        (0.8, 0.7, 0.78, "undecided"),
        (0.6, 0.5, 0.5, "not tested"),
    ],
)
def test_the_rule_of_reviews(whole: float, half: float, bag: float, expected: str) -> None:
    columns = zip(around(whole, 0.005), around(half), around(bag), strict=True)
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


@needs_files
@pytest.mark.slow
def test_real_weights_are_measured() -> None:
    data = real_heads.heads.run(0, True)
    check(real_heads.heads, [data] * 10)
    assert data["below"] == 0.0 or data["above"] > data["below"]
