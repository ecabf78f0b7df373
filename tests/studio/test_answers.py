"""What the studio sends is what the model computes, to the last step of the scale."""

import math
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
import torch
from tests.studio.serving import FAMILIES, TEXT, Served, model, serving, text_for

from translucid.core.catalogue import describe, entry
from translucid.core.errors import TraceBudgetError
from translucid.parts.computation import formulas
from translucid.see.part_switches import switches, together
from translucid.see.render.mathml import mathml
from translucid.see.trace_pictures import pooled, scale_of
from translucid.studio import handlers, text_runs
from translucid.studio.server import questions
from translucid.studio.tensors import NOTHING, TensorSlice, cut_shape, frame, unpacked
from translucid.tasks.words import readable

GERMAN = "der hund sieht eine katze ."
SMALL = 1_000  # bytes: less than any trace of these takes


@pytest.fixture(scope="module")
def studio() -> Iterator[Served]:
    with serving({family: model(family) for family in FAMILIES}) as served:
        yield served


def key(studio: Served, family: str) -> str:
    (found,) = (m for m, each in studio.library.opened.items() if each.name == family)
    return found


def both(studio: Served, family: str, **more: Any) -> tuple[dict[str, Any], Any]:
    """A run of the studio, and what the model itself says."""
    text = text_for(family)
    run = studio.run(key(studio, family), text, **more)
    opened = studio.library.opened[run["m"]]
    return run, opened.model.trace(text, run["target"])


def alone(value: torch.Tensor) -> np.ndarray:
    return (value[0] if value.dim() else value).detach().float().numpy()


# ---- models and runs ----


def test_models_by_their_names(studio: Served) -> None:
    assert [each["name"] for each in studio.get("/api/models").json] == list(FAMILIES)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_model_is_described(studio: Served, family: str) -> None:
    m = key(studio, family)
    said, opened = studio.get(f"/api/model/{m}").json, studio.library.opened[m]
    network = opened.model.network
    assert said["task"] == FAMILIES[family][0]
    assert said["family"] == FAMILIES[family][1]
    assert said["parameters"] == sum(p.numel() for p in network.parameters())
    assert [each["key"] for each in said["switches"]] == [each.key for each in switches(network)]
    assert said["examples"]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_run_has_every_point_in_its_shape(studio: Served, family: str) -> None:
    run, trace = both(studio, family)
    assert [point["at"] for point in run["points"]] == list(trace)
    for point in run["points"]:
        assert point["shape"] == list(trace[point["at"]].shape[1:])
        assert point["axes"] == list(describe(point["at"]).axes[1:])
        assert point["scale"] == scale_of(point["at"])
    words = trace.words
    assert run["tokens"]["source"] == list(words.source)
    assert run["tokens"]["target"] == list(words.target)
    assert run["tokens"]["follows"] == list(words.follows)


def test_the_same_question_gets_the_same_run(studio: Served) -> None:
    one, two = (studio.run("a", TEXT) for _ in range(2))
    assert one == two
    assert studio.get(f"/api/runs/{one['run']}").json == one
    assert studio.run("a", TEXT, target=GERMAN)["run"] != one["run"]


def test_two_models_with_the_same_weights_stay_two() -> None:
    with serving({"one": model("tag-lstm"), "two": model("tag-lstm")}) as served:
        assert [served.run(m, TEXT)["m"] for m in ("a", "b")] == ["a", "b"]


@pytest.mark.parametrize("family", FAMILIES)
def test_the_answer_is_the_models_own(studio: Served, family: str) -> None:
    run, _ = both(studio, family)
    held = studio.library.opened[run["m"]].model
    text = text_for(family)
    match FAMILIES[family][0]:
        case "classify":
            best = max(run["answer"], key=run["answer"].get)
            (said,) = held.classify([text])
            assert (best, run["answer"][best]) == (said.label, pytest.approx(said.probability))
        case "regress":
            row = held.predict([text])[0]
            assert run["answer"] == pytest.approx(row, rel=1e-5)
        case "translate":
            assert run["target"] == held.translate([text])[0]
            scored = held.score(text, run["target"])
            assert run["loss"] == pytest.approx(-np.mean(scored.token_log_probs), rel=1e-4)
        case "language":
            said = held.trace(text)["head.logits"][0].argmax(-1).tolist()
            assert run["answer"] == held.task.tokenizer.pieces(said)
        case "tag":
            said = held.trace(text)["head.logits"][0].argmax(-1).tolist()
            assert run["answer"] == [held.task.tags[number] for number in said]


# ---- tensors ----


@pytest.mark.parametrize("form", ["u8", "f16", "f32"])
@pytest.mark.parametrize("family", FAMILIES)
def test_every_point_is_what_the_model_computed(studio: Served, family: str, form: str) -> None:
    run, trace = both(studio, family)
    names = [point["at"] for point in run["points"]]
    for first in range(0, len(names), 64):
        some = names[first : first + 64]
        path = f"/api/runs/{run['run']}/tensors?as={form}&" + "&".join(f"at={n}" for n in some)
        found = studio.get(path).frames
        assert [header["at"] for header, _ in found] == some
        for header, got in found:
            true = alone(trace[header["at"]])
            assert header["shape"] == header["whole"] == list(true.shape)
            assert_close(header, got, true)


def assert_close(header: dict[str, Any], got: np.ndarray, true: np.ndarray) -> None:
    finite = np.isfinite(true)
    assert np.array_equal(np.isfinite(got), finite), header["at"]
    apart = np.abs(got[finite].astype(float) - true[finite])
    size = np.abs(true[finite])
    match header["dtype"]:
        case "u8":  # half a step
            assert np.all(true[finite] <= header["hi"])
            assert np.all(true[finite] >= header["lo"] - 1e-6), header["at"]
            bound: Any = (header["hi"] - header["lo"]) / 254 / 2 * (1 + 1e-4)
        case "f16":
            bound = np.maximum(size * 2.0**-11, 2.0**-25)
        case _:
            bound = 0.0
    assert np.all(apart <= bound), header["at"]


@pytest.mark.parametrize("form", ["u8", "f16", "f32"])
def test_an_index_cuts_along_leading_axes(studio: Served, form: str) -> None:
    run, trace = both(studio, "translate-transformer")
    at = "encoder.layers.1.self_attention.pattern"
    true = alone(trace[at])
    for index, wanted, axes in (
        ("1", true[1], ["queries", "keys"]),
        ("1,2", true[1, 2], ["keys"]),
        ("*,2", true[:, 2], ["heads", "keys"]),
        ("*,*,3", true[:, :, 3], ["heads", "queries"]),
        ("1,2,3", true[1, 2, 3], []),
        ("1,2:5", true[1, 2:5], ["queries", "keys"]),
        ("*,1:2,0:3", true[:, 1:2, :3], ["heads", "queries", "keys"]),
        ("0:1,3", true[:1, 3], ["heads", "keys"]),
    ):
        path = f"/api/runs/{run['run']}/tensors?at={at}&index={index}&as={form}"
        ((header, got),) = studio.get(path).frames
        assert header["axes"] == axes
        assert_close(header, got, wanted)


@pytest.mark.parametrize("pool", ["1", "2", "3", "4", "5", "7", "64", "2,4", "64,1", "3,2"])
def test_pooling_keeps_the_largest_of_neighbours(studio: Served, pool: str) -> None:
    run, trace = both(studio, "translate-transformer")
    at = "decoder.layers.0.cross_attention.scores"
    true = trace[at][0]
    ((header, got),) = studio.get(
        f"/api/runs/{run['run']}/tensors?at={at}&pool={pool}&as=f32"
    ).frames
    sizes = [int(pool.split(",")[0]), int(pool.split(",")[-1])]
    for place, most in zip((1, 2), sizes, strict=True):
        each = math.ceil(true.shape[place] / most)
        parts = [
            part.gather(place, part.abs().argmax(place, keepdim=True))
            for part in true.split(each, place)
        ]
        true = torch.cat(parts, place)
    assert all(got <= most for got, most in zip(got.shape[1:], sizes, strict=True))
    assert header["shape"] == list(got.shape)
    assert header["whole"] == list(trace[at].shape[1:])
    assert np.array_equal(got, true.numpy())


def test_pooling_ignores_masked_values() -> None:
    value = torch.tensor([[[1.0, -3.0, -math.inf, -math.inf], [0.5, -math.inf, math.nan, 2.0]]])
    ((_, got),) = unpacked(frame("a.attention.masked", value, ("batch", "queries", "keys"),
                                 TensorSlice((), "u8", 2)))  # fmt: skip
    assert got[0, 0] == pytest.approx(-3.0)
    assert np.isnan(got[0, 1])
    assert got[1, 0] == pytest.approx(0.5, abs=6 / 254)
    assert got[1, 1] == pytest.approx(2.0, abs=6 / 254)


@pytest.mark.parametrize("value", [[0.0, 0.0], [math.nan, math.inf], [1e-30, -1e-30]])
def test_numbers_that_have_no_scale(value: list[float]) -> None:
    given = torch.tensor([value])
    ((header, got),) = unpacked(frame("a.residual.sum", given, ("batch", "units"), TensorSlice()))
    assert header["lo"] < header["hi"]
    assert_close(header, got, given[0].numpy())


@pytest.mark.parametrize("pool", [None, 1, 2, 3, 5, 100, (2, 4), (100, 1)])
@pytest.mark.parametrize(
    "index",
    [(), (1,), (None, 4), (0, None, 2), (1, 4, 8), (1, range(2, 5)), (range(1), range(5), 8)],
)
def test_how_much_is_sent_is_known_before(index: Any, pool: Any) -> None:
    given = torch.randn(1, 2, 5, 9)
    cut = TensorSlice(index, "u8", pool)
    ((header, _),) = unpacked(frame("a.b", given, ("batch", "x", "y", "z"), cut))
    assert cut_shape("a.b", tuple(given.shape), cut) == header["shape"]


def test_full_precision_is_for_small_parts(studio: Served, monkeypatch: Any) -> None:
    run, _ = both(studio, "translate-transformer")
    monkeypatch.setattr(handlers, "EXACT", 16)
    path = f"/api/runs/{run['run']}/tensors?at=head.logits"
    answer = studio.get(f"{path}&as=f32")
    assert answer.status == 422
    assert "at most 16 numbers" in answer.json["error"]
    assert studio.get(f"{path}&as=f32&pool=4").status == 200
    monkeypatch.setattr(handlers, "MOST", 16)
    assert "the limit is 16" in studio.get(path).json["error"]


def test_missing_values_have_their_own_byte() -> None:
    value = torch.tensor([[math.inf, 1.0, -1.0]])
    body = frame("a.residual.sum", value, ("batch", "units"), TensorSlice())
    assert list(body[-8:][:3]) == [NOTHING, 254, 0]


# ---- heads, one number, one step ----


@pytest.mark.parametrize(
    ("family", "kind"),
    [("translate-transformer", "encoder"), ("translate-transformer", "decoder"),
     ("translate-transformer", "cross"), ("translate-lstm", "cross"),
     ("language-transformer", "decoder"), ("classify-transformer", "encoder")],
)  # fmt: skip
@pytest.mark.parametrize("pool", [4, 48])
def test_heads(studio: Served, family: str, kind: str, pool: int) -> None:
    run, trace = both(studio, family)
    ((header, got),) = studio.get(f"/api/runs/{run['run']}/heads?kind={kind}&pool={pool}").frames
    for layer, at in enumerate(header["at"]):
        true = trace[at][0].double()
        true = true if true.dim() == 3 else true[None]
        small = true.float()
        for place in (1, 2):
            if small.shape[place] > pool:
                small = pooled(small, place, math.ceil(small.shape[place] / pool))
        assert np.abs(got[layer] - small.numpy()).max() <= 0.5 / 254 + 1e-6
        bits = -(true * true.clamp_min(1e-12).log2()).sum(-1).mean(-1)
        assert header["entropy"][layer] == pytest.approx(bits.tolist(), abs=1e-5)
        assert header["most"][layer] == pytest.approx(true.amax((1, 2)).tolist(), rel=1e-6)
    assert len(header["at"]) == len(got)


@pytest.fixture(scope="module")
def told_apart() -> Iterator[Served]:
    """Models whose positions change what the scores are made of."""
    made = {name: model("language-transformer", positions=name) for name in ("alibi", "rotary")}
    with serving(made | {"gated": model("language-transformer", activation="swiglu")}) as served:
        yield served


def test_a_point_has_the_formula_by_which_its_model_computes_it(told_apart: Served) -> None:
    catalogue = told_apart.get("/api/catalogue").json
    own: dict[str, dict[str, str]] = {}
    for name in ("alibi", "rotary", "gated"):
        run = told_apart.run(key(told_apart, name), text_for("language-transformer"))
        network = told_apart.library.opened[run["m"]].model.network
        points = {point["at"]: point for point in run["points"]}
        for at, right in formulas(network, points).items():
            shown = points[at].get("formula", catalogue[entry(at)]["formula"])
            assert shown == (mathml(right) if right else ""), at
        own[name] = {at: point["formula"] for at, point in points.items() if "formula" in point}
    scope = "decoder.layers.0."
    assert own["alibi"][f"{scope}self_attention.masked"] == mathml(
        r"\mathrm{where}(M, \tilde{S}, -\infty)"
    )
    assert own["rotary"][f"{scope}self_attention.scores"] == mathml(r"Q' K'^{\top}")
    assert own["gated"][f"{scope}feedforward.activated"] == mathml(r"g \odot u")
    assert f"{scope}self_attention.scores" not in own["alibi"]


@pytest.mark.parametrize("family", [name for name in FAMILIES if name != "regress-mlp"])
def test_the_likeliest_of_a_step(studio: Served, family: str) -> None:
    run, _ = both(studio, family)
    held = studio.library.opened[run["m"]].model
    trace = held.trace(text_for(family), run["target"])
    at = next(n for n in ("head.logits", "head.class_logits") if n in trace)
    logits = trace[at][0].double()
    rows = logits if logits.dim() == 2 else logits[None]
    found = studio.get(f"/api/runs/{run['run']}/steps?k=3").json
    assert found["at"] == at
    assert [each["n"] for each in found["steps"]] == list(range(len(rows)))
    for row, said in zip(rows, found["steps"], strict=True):
        n = said["n"]
        path = f"/api/runs/{run['run']}/steps?k=3&positions={n}:{n + 1}"
        assert studio.get(path).json["steps"] == [said]
        true = row.softmax(-1).sort(descending=True)
        count = min(3, len(row))
        assert said["ids"] == true.indices[:count].tolist()
        assert said["probabilities"] == pytest.approx(true.values[:count].tolist(), rel=1e-5)
        assert said["logits"] == pytest.approx(row[said["ids"]].tolist())
        assert said["rest"] == pytest.approx(1 - sum(said["probabilities"]), abs=1e-6)
        assert said["others"] == len(row) - count
        task = held.task
        match FAMILIES[family][0]:
            case "classify":
                assert said["words"] == [task.labels[i] for i in said["ids"]]
            case "tag":
                assert said["words"] == [task.tags[i] for i in said["ids"]]
            case name:
                tokenizer = task.target if name == "translate" else task.tokenizer
                assert said["words"] == [readable(tokenizer, [i])[0] for i in said["ids"]]


# ---- search, switches, differences ----


@pytest.mark.parametrize("family", ["translate-transformer", "translate-lstm"])
@pytest.mark.parametrize(("beams", "best"), [(1, 1), (3, 2)])
def test_a_search_is_the_models_own(studio: Served, family: str, beams: int, best: int) -> None:
    run, _ = both(studio, family)
    held = studio.library.opened[run["m"]].model
    said = studio.get(f"/api/runs/{run['run']}/decode?beam_size={beams}&n_best={best}")
    assert said.status == 200, said.body
    (true,) = held.decode([TEXT], beam_size=beams, n_best=best, tree=True)
    assert without_labels(said.json) == as_json(true.as_dict(held.output_tokenizer))


def as_json(value: Any) -> Any:
    import json

    return json.loads(questions.as_json(value)) if value is not None else json.loads("null")


def test_a_search_with_words_that_must_be(studio: Served) -> None:
    run, _ = both(studio, "translate-transformer")
    held = studio.library.opened[run["m"]].model
    said = studio.get(f"/api/runs/{run['run']}/decode?beam_size=2&force=0:hund&force=1:katze").json
    (true,) = held.decode([TEXT], beam_size=2, n_best=2, tree=True, force={0: "hund", 1: "katze"})
    assert without_labels(said) == as_json(true.as_dict(held.output_tokenizer))


@pytest.mark.parametrize("family", ["tag-lstm", "classify-gru", "regress-mlp"])
def test_models_that_do_not_write_text_have_no_search(studio: Served, family: str) -> None:
    run, _ = both(studio, family)
    answer = studio.get(f"/api/runs/{run['run']}/decode")
    assert answer.status == 422
    assert "does not generate text" in answer.json["error"]


@pytest.mark.parametrize("family", FAMILIES)
def test_switches_do_what_edits_do(studio: Served, family: str) -> None:
    plain, _ = both(studio, family)
    held = studio.library.opened[plain["m"]].model
    every = {switch.key: switch for switch in switches(held.network)}
    for chosen in ([next(iter(every))], list(every)[-2:]) if every else ():
        run = studio.run(plain["m"], text_for(family), off=chosen)
        assert run["off"] == sorted(set(chosen))
        assert run["run"] != plain["run"]
        edit = together(every[each] for each in sorted(set(chosen)))
        trace = held.trace(text_for(family), run["target"], edit=edit)
        names = [point["at"] for point in run["points"]][-64:]
        path = f"/api/runs/{run['run']}/tensors?as=f32&" + "&".join(f"at={n}" for n in names)
        for header, got in studio.get(path).frames:
            assert np.array_equal(got, alone(trace[header["at"]]), equal_nan=True), header["at"]


def test_a_difference_is_that_of_the_readings(studio: Served) -> None:
    family = "translate-transformer"
    plain, trace = both(studio, family)
    held = studio.library.opened[plain["m"]].model
    chosen = next(each for each in switches(held.network) if each.kind == "heads")
    other = studio.run(plain["m"], TEXT, target=plain["target"], off=[chosen.key])
    said = studio.get(f"/api/diff?a={plain['run']}&b={other['run']}").json
    changed = held.trace(TEXT, plain["target"], edit=together([chosen]))
    apart = trace.diff(changed)
    assert apart.first is not None
    assert said["first"] == apart.first.name
    assert said["answers"] == [plain["answer"], other["answer"]]
    one, two = (each["head.logits"][0].softmax(-1) for each in (trace, changed))
    assert said["variation"] == pytest.approx(((one - two).abs().sum(-1) / 2).tolist(), abs=1e-6)
    heats = {heat.address: heat for heat in apart.picture().heats}
    assert {each["side"] for each in said["ripple"]} == set(heats)
    for each in said["ripple"]:
        true = heats[each["side"]].values
        got = np.array(each["values"], dtype=float)
        assert np.allclose(got, true, equal_nan=True)
    same = studio.get(f"/api/diff?a={plain['run']}&b={plain['run']}").json
    assert same["first"] is None


# ---- long texts ----


@pytest.mark.parametrize("family", ["translate-transformer", "translate-lstm", "tag-lstm"])
def test_a_text_over_the_budget_still_answers(family: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(text_runs, "BUDGET", SMALL)
    held = model(family)
    with pytest.raises(TraceBudgetError):
        held.trace(TEXT, budget_bytes=SMALL)
    with serving({family: held}) as served:
        run = served.run("a", TEXT)
        trace = held.trace(TEXT, run["target"])
        read = served.library.runs[run["run"]]
        assert not read.whole
        assert 0 < read.kept.bytes <= SMALL
        assert {p["at"]: p["shape"] for p in run["points"]} == {
            name: list(trace[name].shape[1:]) for name in trace
        }
        names = list(trace)[-40:]
        path = f"/api/runs/{run['run']}/tensors?as=f32&" + "&".join(f"at={n}" for n in names)
        for header, got in served.get(path).frames:
            # up to rounding: attention went by another kernel
            np.testing.assert_allclose(got, alone(trace[header["at"]]), rtol=1e-4, atol=1e-5)
        assert served.get(f"/api/runs/{run['run']}/steps").status == 200
        assert served.get(f"/api/diff?a={run['run']}&b={run['run']}").status == 200


def test_the_first_numbers_of_a_long_text_take_one_reading(monkeypatch: Any) -> None:
    held, times = model("language-transformer"), [0]
    trace = held.trace(TEXT)
    first = "decoder.final_norm.output"  # what stands under the words
    room = 64 * trace[first].numel()
    assert room < trace.bytes
    monkeypatch.setattr(text_runs, "BUDGET", room)
    counting = held.network.register_forward_hook(lambda *_: times.append(times[-1] + 1))
    with serving({"language": held}) as served:
        run = served.run("a", TEXT)["run"]
        assert not served.library.runs[run].whole
        assert served.get(f"/api/runs/{run}/steps?k=3").status == 200
        ((_, got),) = served.get(f"/api/runs/{run}/tensors?at={first}&as=f32").frames
    counting.remove()
    assert np.array_equal(got, alone(trace[first]))
    assert times[-1] == 1


def test_neighbours_of_a_point_are_read_together(monkeypatch: Any) -> None:
    """Of a long text: the weights of a head, its scores and their terms take one reading."""
    monkeypatch.setattr(text_runs, "BUDGET", SMALL)
    held, read = model("translate-transformer"), []
    again = text_runs.Run._again
    with serving({"long": held}) as served:
        run = served.run("a", TEXT)
        trace, kept = held.trace(TEXT, run["target"]), served.library.runs[run["run"]].kept
        scope = next(name.rpartition(".")[0] for name in trace
                     if name.endswith("attention.scores") and name not in kept)  # fmt: skip
        near = [name for name in trace if name.rpartition(".")[0] == scope]
        monkeypatch.setattr(text_runs, "BUDGET", 4 * sum(trace[name].numel() for name in near))
        monkeypatch.setattr(text_runs.Run, "_again", lambda *names: read.append(1) or again(*names))
        for name in near:
            ((_, got),) = served.get(f"/api/runs/{run['run']}/tensors?as=f32&at={name}").frames
            np.testing.assert_allclose(got, alone(trace[name]), rtol=1e-4, atol=1e-5)
        address = quote(f"{scope}.pattern[0, 0, 1, 0]")
        opened = served.get(f"/api/runs/{run['run']}/terms?address={address}").json
        found = served.library.runs[run["run"]]
        assert opened["value"] == float(found[f"{scope}.pattern"][0, 0, 1, 0])
        assert len(read) == 1
        (lately,) = found.lately
        assert sorted(lately) == sorted(near)
        assert found.bytes == kept.bytes + lately.bytes + found.ends.bytes
        monkeypatch.setattr(text_runs, "BUDGET", 4)  # no room for neighbours: what is asked, alone
        other = next(name for name in trace if name.endswith("cross_attention.query"))
        assert served.get(f"/api/runs/{run['run']}/tensors?at={other}").status == 200
        assert [list(reading) for reading in found.lately] == [[other]]


def test_weights_that_are_nan_are_shown_as_missing() -> None:
    held = model("classify-transformer")
    with torch.no_grad():
        next(held.network.parameters()).fill_(math.nan)
    with serving({"broken": held}) as served:
        run = served.run("a", TEXT)
        assert set(run["answer"].values()) == {None}
        ((header, got),) = served.get(f"/api/runs/{run['run']}/tensors?at=head.class_logits").frames
        assert np.isnan(got).all()
        assert (header["lo"], header["hi"]) == (-1.0, 1.0)


def without_labels(said: dict[str, Any]) -> dict[str, Any]:
    """What the page is told beyond the library: how a node's token is written beside others."""
    for node in said["tree"]["nodes"][1:]:
        assert isinstance(node.pop("label"), str)
    return said
