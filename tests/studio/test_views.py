"""Every view of every family: the numbers on the page are those of `model.trace`, `model.score` and
`model.decode` on the same model, to the printed digits."""

import math
import re
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from tests.studio.browser import Page
from tests.studio.serving import Served, serving
from tests.studio.shown import (
    behind,
    check_foot,
    foot,
    loss_of,
    rows_of,
    same,
    sums,
    variation,
)
from tests.studio.trained import TEXTS, VIEWS, address_of, trained
from tests.tiny.dealt import chosen

from translucid.model import Model
from translucid.see.part_switches import switches, together
from translucid.see.reading import Reading

pytestmark = pytest.mark.slow

ENDS = ("head.logits", "head.class_logits", "output.dense.activation")
WITH = {view: [family for family in VIEWS if view in VIEWS[family]] for view in
        ("attention", "recurrent", "decode")}  # fmt: skip
MOMENTS = {"scores": "scores", "scaled": "scaled", "masked": "masked", "weights": "pattern"}


@pytest.fixture(scope="module")
def studio() -> Iterator[Served]:
    with serving(trained()) as served:
        yield served


@pytest.fixture(scope="module")
def traces() -> dict[str, Reading]:
    return {family: each.trace(TEXTS[family]) for family, each in trained().items()}


def end_of(trace: Reading) -> str:
    return next(name for name in ENDS if name in trace)


# ---- Flow ----


@pytest.mark.parametrize("family", chosen(VIEWS, "lstm"))
def test_flow_shows_the_trace(studio: Served, leaf: Page, traces: Any, family: str) -> None:
    """Panes of all kinds are clicked; the inspector and the read-out show one of their numbers."""
    trace = traces[family]
    leaf.turn(address_of(studio, family, "flow"))
    names = leaf.inner.eval_on_selector_all(
        "#stage .part:not(.end)", "all => all.map(el => el.getAttribute('aria-label'))"
    )
    names = [name for name in names if "opens the layer" not in name]
    assert names
    for name in names[:: max(1, len(names) // 5)]:
        at = name.rpartition(": ")[2]
        leaf.inner.focus(f'#stage .part[aria-label="{name}"]')
        leaf.inner.keyboard.press("Enter")
        leaf.wait("at => document.querySelector('#stage .panel select').value === at", at)
        leaf.wait("at => document.querySelector('#readout .path')?.textContent.includes(at)", at)
        leaf.inner.mouse.move(1, 1)
        leaf.inner.evaluate("document.activeElement.blur()")
        path = check_foot(leaf, trace) if "[" in foot(leaf)[0] else foot(leaf)[0]
        strong = leaf.words("#stage .panel .sumtable tr.strong td.n")
        assert same(strong[0], behind(path, trace) if "[" in path else float(trace[path])), path


def test_flow_opens_a_causal_pattern_where_there_is_a_choice(
    studio: Served, leaf: Page, traces: Any
) -> None:
    """At the largest weight that is not the maximum of its row; the first row has no other."""
    at = "decoder.layers.1.self_attention.pattern"
    leaf.turn(address_of(studio, "language", "flow", at=at))
    leaf.wait("at => document.querySelector('#readout .path')?.textContent.includes(at)", at)
    rows = traces["language"][at][0, 0].tolist()
    weights = {(i, j): weight for i, row in enumerate(rows) for j, weight in enumerate(row)
               if weight < max(row)}  # fmt: skip
    i, j = max(weights, key=lambda place: weights[place])
    path = foot(leaf)[0]
    assert i > 0
    assert path.endswith(f"[0, {i}, {j}]"), path


@pytest.mark.parametrize(
    "family", chosen([family for family in VIEWS if family != "regress"], "tag", "classify")
)
def test_flow_shows_the_likeliest_outputs(
    studio: Served, leaf: Page, traces: Any, family: str
) -> None:
    """The likeliest answers at the right end, and as bars beside the logits."""
    trace = traces[family]
    end = end_of(trace)
    leaf.turn(address_of(studio, family, "flow", at=end))
    shares = rows_of(trace[end]).softmax(-1)
    bars = leaf.words("#stage .panel .probrow .n")
    assert len(bars) == min(8, shares.shape[1])
    best = shares[0].topk(len(bars)).values.tolist()
    assert all(same(shown, value) for shown, value in zip(bars, best, strict=True)), bars
    if family == "classify":
        shown = leaf.words("#stage .part.end .num")
        assert all(same(a, b) for a, b in zip(shown, shares[0].tolist(), strict=True)), shown
    else:
        said = leaf.words("#stage .part.end text.row")
        assert len(said) == len(shares)
        tags = trained()[family].task.tags if family == "tag" else None
        if tags:
            assert said == [tags[i] for i in shares.argmax(-1).tolist()]


# ---- Attention ----


def kinds_in(trace: Reading) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name in trace:
        scope = name.removesuffix(".pattern")
        if (scope != name and scope.endswith("attention")) or name.endswith("alignment.pattern"):
            across = scope.endswith(("cross_attention", "alignment"))
            side = "encoder" if scope.startswith("encoder") else "decoder"
            found.setdefault("cross" if across else side, []).append(scope)
    return found


@pytest.mark.parametrize("family", chosen(WITH["attention"], "language"))
def test_attention_shows_the_trace(studio: Served, leaf: Page, traces: Any, family: str) -> None:
    """All kinds, at each moment; a row of weights sums to 1; the sum behind a cell ends in it."""
    trace = traces[family]
    for kind, scopes in kinds_in(trace).items():
        layer, head = len(scopes) - 1, 0 if family == "lstm" else 2
        scope = scopes[layer]
        for moment, point in MOMENTS.items():
            if f"{scope}.{point}" not in trace:
                continue
            asked = {"kind": kind, "layer": str(layer), "head": str(head), "moment": moment}
            leaf.turn(address_of(studio, family, "attention", **asked))
            drawn = leaf.text('#stage .steps [aria-pressed="true"]')
            if not drawn.endswith(moment):
                assert moment == "masked"  # nothing is masked here, and the button says so
                assert bool(torch.isfinite(trace[f"{scope}.masked"]).all())
                continue
            leaf.inner.focus("#stage .matrix svg")
            leaf.inner.keyboard.press("ArrowDown")
            leaf.inner.keyboard.press("Home")
            count, row = trace[f"{scope}.pattern"].shape[-1], []
            for _ in range(count if moment == "weights" else 2):
                path = check_foot(leaf, trace)
                assert path.startswith(f"{scope}.{point}[")
                row.append(foot(leaf)[1].replace("−", "-"))
                leaf.inner.keyboard.press("ArrowRight")
            if moment == "weights":
                assert abs(sum(map(float, row)) - 1) <= 0.0005 * count
                leaf.inner.keyboard.press("Home")
                leaf.inner.keyboard.press("Enter")
                leaf.inner.evaluate("document.activeElement.blur()")
                leaf.wait("document.querySelector('.sum .strong td.n')")
                value = check_foot(leaf, trace)
                strong = leaf.text("#stage .sum .strong td.n").replace("−", "-")
                assert float(strong) == pytest.approx(behind(value, trace), rel=1e-6)
                facts = sums(leaf, "#stage .facts")
                pattern = trace[f"{scope}.pattern"][0]
                pattern = pattern[head] if pattern.dim() == 3 else pattern
                bits = -(pattern * pattern.clamp_min(1e-12).log2()).sum(-1).mean()
                assert same(facts["largest weight"], float(pattern.max()))
                assert same(facts["mean entropy, bits"], float(bits))
                leaf.inner.keyboard.press("Escape")


def test_the_mean_of_all_heads_is_theirs(studio: Served, leaf: Page, traces: Any) -> None:
    leaf.turn(address_of(studio, "translate", "attention", kind="cross", layer="1", head="mean"))
    leaf.inner.focus("#stage .matrix svg")
    leaf.inner.keyboard.press("ArrowDown")
    assert "mean()" in check_foot(leaf, traces["translate"])
    leaf.inner.evaluate("document.activeElement.blur()")


# ---- Recurrent ----


@pytest.mark.parametrize("family", chosen(WITH["recurrent"], "tag"))
def test_recurrent_shows_the_trace(studio: Served, leaf: Page, traces: Any, family: str) -> None:
    """Gates and states of all units and of one, and one step as a sum, in every layer."""
    trace = traces[family]
    scopes = [name.removesuffix(".hidden") for name in trace if name.endswith(".lstm.hidden")]
    assert len(scopes) >= 2
    for number, scope in enumerate(scopes):
        unit = {} if number == 0 else {"unit": "5"}
        leaf.turn(address_of(studio, family, "recurrent", at=scope, pin="", **unit))
        leaf.inner.focus("#stage .strips svg")
        for key in ("ArrowRight", "ArrowRight", "ArrowDown", "ArrowDown", "ArrowDown", "ArrowLeft"):
            leaf.inner.keyboard.press(key)
            check_foot(leaf, trace)
        leaf.inner.evaluate("document.activeElement.blur()")
        if unit:
            at = check_foot(leaf, trace)  # what is at rest is the cell of the step on the right
            place = int(re.findall(r"\[(\d+), 5\]", at)[0])
            told = sums(leaf, "#stage .panel")
            for name, point in (("forget gate", "forget_gate"), ("input gate", "input_gate"),
                                ("candidate", "candidate"), ("cell", "cell"),
                                ("hidden", "hidden")):  # fmt: skip
                assert same(told[name], float(trace[f"{scope}.{point}"][0, place, 5])), name


# ---- Decode ----


def options(family: str) -> dict[str, Any]:
    return {"max_length": 40} if family == "language" else {}


@pytest.mark.parametrize("family", chosen(WITH["decode"], "translate", "language"))
def test_decode_shows_the_search(studio: Served, leaf: Page, family: str) -> None:
    """Texts and scores are those of `decode`; what the tree tells of a node is in its tree."""
    model = trained()[family]
    leaf.turn(address_of(studio, family, "decode", beam_size="3"))
    (found,) = model.decode([TEXTS[family]], beam_size=3, n_best=3, tree=True, **options(family))
    check_texts(leaf, found.texts)
    if family != "language":
        (shown,) = leaf.inner.eval_on_selector_all(
            ".hyps tr.first", "all => all.map(row => row.cells[2].textContent)"
        )
        scored = model.score(TEXTS[family], found.texts[0].text)
        if scored.pieces == found.texts[0].pieces:  # the text is cut as it was written
            assert same(shown, scored.log_probability)
    nodes = [(node.length, node.token_log_prob, node.score) for node in found.tree.nodes]
    leaf.inner.focus("#stage .tree svg")
    for key in ("ArrowLeft", "ArrowLeft", "ArrowDown", "ArrowUp", "ArrowUp", "ArrowRight"):
        leaf.inner.keyboard.press(key)
        path, value = foot(leaf)
        gain, score = (each.replace("−", "-") for each in re.findall(r"[−\d.]+(?=,|$)", path))
        step = int(re.findall(r"step (\d+)", leaf.text("#readout .at"))[0])
        told = (step, float(gain), float(score))
        assert any(told == pytest.approx(node, abs=0.0011) for node in nodes), path
        assert abs(float(value) - math.exp(float(gain))) < 0.0006
    leaf.inner.evaluate("document.activeElement.blur()")


def check_texts(page: Page, texts: Any) -> None:
    rows = page.inner.eval_on_selector_all(
        ".hyps tbody tr:not(.beside)",
        "all => all.map(row => [1, 2, 3].map(i => row.cells[i].textContent))",
    )
    assert len(rows) == len(texts)
    for (said, log_p, score), text in zip(rows, texts, strict=True):
        assert said.replace(" ", "") == "".join(text.pieces).replace("</s>", "").replace(" ", "")
        assert same(log_p, text.log_probability)
        assert same(score, text.score)


@pytest.mark.parametrize("family", chosen(WITH["decode"], "lstm"))
def test_a_forced_word_is_followed(studio: Served, leaf: Page, family: str) -> None:
    """The likeliest words of a step are the trace's; what follows a forced one is `decode`'s."""
    model = trained()[family]
    leaf.turn(address_of(studio, family, "decode", beam_size="2", step="2"))
    (found,) = model.decode([TEXTS[family]], beam_size=2, n_best=2, tree=True, **options(family))
    chosen = [node for node in found.tree.nodes if node.chosen and node.parent is not None]
    first = chosen[0].token
    shown = leaf.words("#stage .choice .n")
    shares = after(model, family, [first])
    best = shares.topk(len(shown))
    assert all(same(a, b) for a, b in zip(shown, best.values.tolist(), strict=True)), shown
    row = next(i for i, token in enumerate(best.indices.tolist()) if token != chosen[1].token)
    token = int(best.indices[row])
    leaf.inner.locator("#stage .choice").nth(row).hover()
    leaf.changed(lambda: leaf.inner.locator("#stage .choice").nth(row).locator(".force").click())
    assert f"force={first}.{token}" in leaf.inner.url
    (forced,) = model.decode(
        [TEXTS[family]], beam_size=2, n_best=2, force={0: first, 1: token}, **options(family)
    )
    check_texts(leaf, forced.texts)
    leaf.changed(lambda: leaf.inner.keyboard.press("Backspace"))
    assert "force=" not in leaf.inner.url
    check_texts(leaf, found.texts)


def after(model: Model, family: str, begun: list[int]) -> Any:
    """The distribution behind a beginning: the network itself is asked."""
    example = model.trace(TEXTS[family], keep=["head.logits"]).example
    inputs = dict(example.batch.inputs)
    side = "ids" if family == "language" else "target"
    start = inputs[side] if family == "language" else inputs[side][:, :1]
    inputs[side] = torch.cat([start, torch.tensor([begun])], 1)
    with torch.no_grad():
        return model.network(**inputs)[0, -1].softmax(-1)


# ---- What-if ----


@pytest.mark.parametrize("family", chosen(VIEWS, "lstm", "classify"))
def test_every_switch_does_what_its_edit_does(
    studio: Served, leaf: Page, traces: Any, family: str
) -> None:
    """The page measures every switch by itself; each badge is the trace with that edit."""
    model, trace = trained()[family], traces[family]
    end, found = end_of(trace), switches(model.network)
    leaf.turn(address_of(studio, family, "whatif", sort="effect"))
    if not found:
        assert family == "regress"
        return
    leaf.wait("() => document.querySelector('.measure .edit').textContent === 'All measured'")
    badges = dict(leaf.inner.eval_on_selector_all(
        "#stage .switch",
        "all => all.map(el => [el.title, el.querySelector('.badge').firstChild.textContent])",
    ))  # fmt: skip
    assert set(badges) == {switch.key for switch in found}
    for switch in found:
        other = model.trace(TEXTS[family], trace_target(trace, family), keep=[end],
                            edit=switch.edit)[end]  # fmt: skip
        delta = float(variation(trace[end], other).mean()) if family != "regress" else float(
            (trace[end] - other).abs().mean())  # fmt: skip
        said = badges[switch.key].removeprefix("Δ ")
        if said == "same":
            assert delta < 1.1e-6, switch.key
        elif said == "<0.01":
            assert delta < 0.0051, switch.key
        else:
            assert same(said, delta), switch.key


def trace_target(trace: Reading, family: str) -> str | None:
    """What the run has read: a translation of the model's own."""
    return trained()[family].default_target(TEXTS[family])


@pytest.mark.parametrize("family", chosen(VIEWS, "translate", "tag"))
def test_switched_off_is_the_trace_with_the_edit(
    studio: Served, leaf: Page, traces: Any, family: str
) -> None:
    """One switch is thrown, then a second: what is said, how far it lies apart, and the loss."""
    model, trace = trained()[family], traces[family]
    end, found = end_of(trace), switches(model.network)
    leaf.turn(address_of(studio, family, "whatif", sort="effect"))
    if not found:
        assert "can be switched off" in leaf.text("#stage .panel")
        return
    thrown = [found[0], *found[1:][len(found) // 2 :][:1]]
    for count in range(1, len(thrown) + 1):
        off = thrown[:count]
        leaf.inner.click(f'#stage .switch[title="{off[-1].key}"]')
        leaf.wait(
            "count => { const told = document.querySelector('#stage .panel').textContent;"
            " return count === 1 ? /Restore/.test(told) : told.includes(count + ' parts are off');"
            " }", count,
        )  # fmt: skip
        other = model.trace(TEXTS[family], trace_target(trace, family), edit=together(off))
        told, targets = sums(leaf, "#stage .panel"), trace.example.batch.targets
        if family == "regress":
            gap = float((trace[end] - other[end]).abs().mean())
            assert same(told["mean difference Δ"], gap)
            continue
        apart = variation(trace[end], other[end])
        name = "mean Δ" if len(apart) > 1 else "difference Δ"
        assert same(told[name], float(apart.mean()))
        one, two = (rows_of(each[end]).argmax(-1) for each in (trace, other))
        if len(apart) > 1:
            worst = int(apart.argmax())
            assert same(told[f"largest, at {worst + 1}"], float(apart.max()))
            changed = told["tags changed" if family == "tag" else "tokens changed"]
            assert changed == f"{int((one != two).sum())} of {len(one)}"
        if bool((targets >= 0).any()):
            before, now = told["loss"].split(" → ")
            assert same(before, loss_of(trace[end], targets))
            assert same(now, loss_of(other[end], targets))
        shares = rows_of(other[end]).softmax(-1).max(-1).values.tolist()
        shown = leaf.words("#stage .pair .w:last-child .n")
        assert len(shown) == len(shares)
        assert all(same(a, b) for a, b in zip(shown, shares, strict=True)), shown
    leaf.inner.keyboard.press("Backspace")
    leaf.wait("document.querySelector('#stage .panel h2').textContent === 'As trained'")


@pytest.mark.parametrize("family", chosen(["translate", "tag", "classify"], "translate"))
def test_a_swapped_word_is_another_text(
    studio: Served, leaf: Page, traces: Any, family: str
) -> None:
    model, trace = trained()[family], traces[family]
    words = TEXTS[family].removesuffix(".").split()
    leaf.turn(address_of(studio, family, "whatif"))
    leaf.inner.click(f'#stage .swaps button[aria-label="swap {words[1]}"]')
    leaf.inner.keyboard.type("child")
    leaf.inner.keyboard.press("Enter")
    leaf.wait("document.querySelector('#stage .panel').textContent.includes('Swapped')")
    text = TEXTS[family].replace(words[1], "child", 1)
    other = model.trace(text, trace_target(trace, family))
    apart = variation(trace[end_of(trace)], other[end_of(trace)])
    told = sums(leaf, "#stage .panel")
    assert same(told["mean Δ" if len(apart) > 1 else "difference Δ"], float(apart.mean()))


# ---- Compare ----


def test_two_translators_side_by_side(studio: Served, leaf: Page, traces: Any) -> None:
    """What each writes, how each reads the other's text, and one picture of both."""
    one, two = trained()["translate"], trained()["lstm"]
    text = TEXTS["translate"]
    leaf.turn(address_of(studio, "translate", "compare", **{"with": "b"}))
    told = [one.default_target(text), two.default_target(text)]
    for row, model in ((0, one), (1, two)):
        shown = leaf.inner.eval_on_selector_all(
            ".answers .pair",
            "(all, row) => all.map(el => el.querySelectorAll('.w')[row].textContent.trim())", row,
        )  # fmt: skip
        words = model.trace(text).example.words.follows[:-1]
        assert [word for word in shown if word] == list(words)
    table = leaf.inner.eval_on_selector_all(
        ".losses tbody tr", "all => all.map(row => [1, 2].map(i => row.cells[i].textContent))"
    )
    assert len(table) == 2
    for written, row in zip(told, table, strict=True):
        for model, shown in zip((one, two), row, strict=True):
            trace = model.trace(text, written)
            assert same(shown, loss_of(trace["head.logits"], trace.example.batch.targets))
    pictures = leaf.inner.query_selector_all(".cmppic svg")
    assert len(pictures) == 3  # A, B - A, B
    means = []
    for model in (one, two):
        trace = model.trace(text, told[0])
        scopes = kinds_in(trace)["cross"]
        heads = [trace[f"{scope}.pattern"][0] for scope in scopes]
        means.append(torch.stack([h if h.dim() == 2 else h.mean(0) for h in heads]).mean(0))
    wanted = [means[0], means[1] - means[0], means[1]]
    for picture, values in zip(pictures, wanted, strict=True):
        picture.focus()
        leaf.inner.keyboard.press("ArrowDown")
        leaf.inner.keyboard.press("ArrowRight")
        assert same(foot(leaf)[1], float(values[1, 1]))
    leaf.inner.evaluate("document.activeElement.blur()")


@pytest.mark.parametrize(("family", "other"), [("tag", "classify"), ("classify", "regress"),
                                               ("language", "translate")])  # fmt: skip
def test_models_of_different_kinds_are_shown_separately(
    studio: Served, leaf: Page, traces: Any, family: str, other: str
) -> None:
    m = next(m for m, each in studio.library.opened.items() if each.name == other)
    if other == "regress":
        leaf.expected.append("422")  # it cannot read a sentence, and the page says so
    leaf.turn(address_of(studio, family, "compare", **{"with": m}))
    if other == "regress":
        assert "regress cannot read this" in leaf.text("#stage .cmp")
        return
    assert "different kinds" in leaf.text("#stage .cmp")
    said = leaf.text(".answers")
    if family == "tag":
        tags = trained()["tag"].task.tags
        rows = rows_of(traces["tag"]["head.logits"]).argmax(-1).tolist()
        assert all(tags[i] in said for i in rows)
        answer = trained()["classify"].trace(TEXTS["tag"])["head.class_logits"][0].softmax(-1)
        shown = leaf.words(".answers p .n")
        assert all(same(a, b) for a, b in zip(shown, answer.tolist(), strict=True)), shown
