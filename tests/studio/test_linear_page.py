"""Linear models of text in the studio, by the answers of its server."""

from collections.abc import Iterator

import pytest
from tests.studio.serving import LINEAR, TEXT, Served, model, serving

from translucid.see.part_switches import switches


@pytest.fixture(scope="module")
def studio() -> Iterator[Served]:
    with serving({family: model(family) for family in LINEAR}) as served:
        yield served


@pytest.mark.parametrize(("m", "family"), list(zip("ab", LINEAR, strict=True)))
def test_a_linear_model_is_described_and_answers(studio: Served, m: str, family: str) -> None:
    described, held = studio.get(f"/api/model/{m}").json, studio.library.opened[m].model
    assert (described["task"], described["family"]) == LINEAR[family]
    expected = [switch.key for switch in switches(held.network)]
    assert [switch["key"] for switch in described["switches"]] == expected
    assert described["examples"]
    run, trace = studio.run(m, TEXT), held.trace(TEXT)
    assert [point["at"] for point in run["points"]] == list(trace)
    if LINEAR[family][0] == "classify":
        (answer,) = held.classify([TEXT])
        assert run["answer"][answer.label] == pytest.approx(answer.probability, rel=1e-5)
    else:
        assert (
            run["answer"]
            == held.task.predict(held.network, [held.task.read_line(TEXT, "", held.network)])[0]
        )


@pytest.mark.parametrize("m", "ab")
def test_a_switched_off_feature_changes_the_run(studio: Served, m: str) -> None:
    off = studio.run(m, TEXT, off=["linear.characters"])
    assert off["run"] != studio.run(m, TEXT)["run"]
