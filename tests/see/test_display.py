"""What notebooks show of a reading and a model: complete, escaped, scoped, and small."""

import re
from typing import Any
from xml.etree.ElementTree import Element, fromstring

import pytest
import torch

from translucid.data.features import Columns
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.models import MLPConfig, RecurrentConfig, TransformerConfig, build
from translucid.models.summary import rows
from translucid.see.display import model_html, reading_html
from translucid.see.reading import Reading, read
from translucid.tasks.classify import Classify
from translucid.tasks.language import Language
from translucid.tasks.regress import Regress
from translucid.tasks.translate import Translate

WORDS = Tokenizer.train("space", ["the dog sees a cat .", "a bird sings ."])
TRANSLATE: dict[str, Any] = {
    "shape": "encoder-decoder", "head": "language", "vocab": len(WORDS),
    "target_vocab": len(WORDS), "d_model": 8,
}  # fmt: skip
TRANSFORMER = TransformerConfig(**TRANSLATE, heads=2, layers=4)
LSTM = RecurrentConfig(**TRANSLATE, hidden=8, layers=2)


def reading(config: Any, text: str = "the <b> & cat", keep: str = "*") -> Reading:
    torch.manual_seed(0)
    task = Translate(WORDS, WORDS)
    return read(build(config).eval(), task, text, "a $bird$ sings", keep=keep)


def points(html: str) -> dict[str, list[str]]:
    """Every row of the tables of points, by the pattern that it says."""
    found = {}
    for line in fromstring(html).iter("tr"):
        code = line.find("td/code")
        if code is not None:
            cells = ["".join(cell.itertext()) for cell in line.iter("td")]
            found[code.get("title") or ""] = cells
    return found


def size(text: str) -> float:
    number, unit = text.split()
    return float(number) * {"B": 1, "kB": 1e3, "MB": 1e6}[unit]


@pytest.mark.parametrize("config", [TRANSFORMER, LSTM], ids=["transformer", "lstm"])
def test_each_point_is_in_one_row_with_its_shape_and_its_bytes(config: Any) -> None:
    trace = reading(config)
    found = points(reading_html(trace))
    covered = [name for pattern in found for name in trace.names(pattern)]
    assert sorted(covered) == sorted(trace)
    for pattern, cells in found.items():
        values = [trace[name] for name in trace.names(pattern)]
        shapes = dict.fromkeys(" × ".join(map(str, v.shape)) or "one number" for v in values)
        assert cells[4] == " or ".join(shapes)
        held = sum(value.numel() * value.element_size() for value in values)
        assert size(cells[5]) == pytest.approx(held, rel=0.06)


def test_equal_layers_share_a_row_with_their_numbers() -> None:
    html = reading_html(reading(TRANSFORMER))
    titles = ["".join(s.itertext()) for s in fromstring(html).iter("summary")]
    assert any(title.startswith("layers 0 to 3 ") for title in titles)
    few = reading_html(reading(TRANSFORMER, keep="*.layers.[023].feedforward.*"))
    titles = ["".join(s.itertext()) for s in fromstring(few).iter("summary")]
    assert any(title.startswith("layers 0, 2, 3 ") for title in titles)


def test_the_tokens_are_at_the_top_and_escaped() -> None:
    html = reading_html(reading(TRANSFORMER))
    chips = [s.text for s in fromstring(html).iter("span") if s.get("class") == "word"]
    assert chips == ["the", "<b>", "&", "cat", "</s>", "<s>", "a", "$bird$", "sings"]
    assert "<b> " not in html
    assert "&lt;b&gt;" in html


def test_a_row_of_numbers_has_no_words_and_no_picture() -> None:
    network = build(MLPConfig(inputs=2, hidden=(3, 5), outputs=1)).eval()
    trace = read(network, Regress(Columns.numbers(["x1", "x2"])), "1 2", "3")
    html = reading_html(trace)
    assert "<svg" not in html
    assert set(points(html)) == {re.sub(r"\.\d+\.", ".*.", name) for name in trace}
    assert points(html)["layers.*.dense.activation"][4] == "1 × 3 or 1 × 5"


def drawings(html: str) -> list[Element]:
    return list(fromstring(html).iter("svg"))


@pytest.mark.parametrize(
    ("keep", "drawn"),
    [
        ("*", "decoder.layers.0.cross_attention.pattern"),
        ("*self_attention.*", "encoder.layers.0.self_attention.pattern"),
        ("*.feedforward.*", ""),
    ],
)
def test_the_picture_shows_attention(keep: str, drawn: str) -> None:
    html = reading_html(reading(TRANSFORMER, keep=keep))
    found = [d.findtext("summary/code") for d in fromstring(html).iter("details") if d.get("open")]
    assert found == ([drawn] if drawn else [])
    assert len(drawings(html)) == len(found)
    for drawing in drawings(html):
        assert "head 1" in "".join(drawing.itertext())  # each by itself, where they are few


def test_gates_are_drawn_without_attention() -> None:
    torch.manual_seed(0)
    config = RecurrentConfig(shape="encoder", head="classify", vocab=len(WORDS), outputs=2,
                             d_model=8, hidden=8, cell="gru")  # fmt: skip
    trace = read(build(config).eval(), Classify(WORDS, ["bad", "good"]), "the dog", "good")
    html = reading_html(trace)
    [gate] = [d.findtext("summary/code") for d in fromstring(html).iter("details") if d.get("open")]
    assert gate == trace.names("*_gate")[0]
    assert len(drawings(html)) == 1


def test_styles_stay_inside_those_of_the_drawing_too() -> None:
    for html in (reading_html(reading(TRANSFORMER)), model_html("m", build(TRANSFORMER))):
        styles = re.findall(r"<style[^>]*>(.*?)</style>", html, flags=re.S)
        assert styles
        chosen = [rule for style in styles for rule in re.findall(r"([^{}]+)\{[^{}]*\}", style)]
        for rule in ",".join(chosen).split(","):
            assert rule.strip().startswith(".translucid"), rule
        assert "<script" not in html


def test_a_long_reading_of_a_deep_model_is_small() -> None:
    config = TransformerConfig(shape="decoder", head="language", vocab=len(WORDS), d_model=24,
                               heads=12, layers=12)  # fmt: skip
    network = build(config).eval()
    half, whole = (
        read(network, Language(WORDS), " ".join(["the dog sees a cat ."] * times))
        for times in (12, 24)
    )
    html = reading_html(whole)
    assert len(html.encode()) < 100_000
    assert len(html) - len(reading_html(half)) < 2_000  # twice the text, hardly more to show
    count = len(whole.words.target)
    chips = [span.text for span in fromstring(html).iter("span") if span.get("class") == "word"]
    assert tuple(chips) == whole.words.target[:48]
    assert f"and {count - 48:,} more" in html
    [drawn] = drawings(html)
    text = "".join(drawn.itertext())
    assert "head mean" in text
    assert f"tokens 0 to 23 of {count}" in text


@pytest.mark.parametrize("config", [TRANSFORMER, LSTM], ids=["transformer", "lstm"])
def test_a_model_shows_its_parameter_counts(config: Any) -> None:
    network = build(config)
    html = model_html("a <b> model", network, [("task", "translate & more")])
    root = fromstring(html)
    text = "".join(root.itertext())
    assert "a <b> model" in text
    assert "translate & more" in text
    lines = [["".join(c.itertext()) for c in line.iter("td")] for line in root.iter("tr")]
    wide = [line for line in lines if len(line) == 6]
    counts = [int(line[3].replace(",", "")) for line in wide]
    assert sum(counts) == sum(p.numel() for p in network.parameters())
    assert [line[0] for line in wide] == [row.part for row in rows(network, 128) if row.parameters]
    assert ["parameters", f"{sum(counts):,}"] in lines
    bars = [float((b.get("style") or "")[7:-2]) for b in root.iter("span") if b.get("style")]
    assert bars == pytest.approx([6 * count / max(counts) for count in counts], abs=0.01)
    flops = sum(row.copies * row.flops for row in rows(network, 128))
    assert ["FLOPs per token of 128", f"{flops:,}"] in lines
