"""A walk says what the trace says and what the model answers, and leaves no part out."""

import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

import translucid as tl
from translucid.core.catalogue import describe
from translucid.core.errors import InputError
from translucid.data.features import Columns
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.models import LinearConfig, MLPConfig, RecurrentConfig, TransformerConfig
from translucid.see.pictures import Grid, Heat
from translucid.see.reading import Reading, read
from translucid.see.render.frame import escape
from translucid.see.walk.make_walk import walk
from translucid.see.walk.page import as_page, figures
from translucid.see.walk.walk import Stage, Walk, quoted
from translucid.tasks.choices import nth
from translucid.tasks.classify import Classify
from translucid.tasks.language import Language
from translucid.tasks.outputs import Cell
from translucid.tasks.regress import Regress
from translucid.tasks.row_task import RowItem
from translucid.tasks.tag import Tag
from translucid.tasks.translate import Translate

TEXTS = ["the dog sees a cat", "a cat sleeps", "der Hund sieht eine Katze", "eine Katze schläft"]
WORDS = Tokenizer.train("word", TEXTS)
SPACED = Tokenizer.train("space", TEXTS)
LABELS, TAGS = ["bad", "fair", "good"], ["O", "B-A", "I-A", "B-B"]
SMALL: dict[str, Any] = {"vocab": len(WORDS), "d_model": 8}
TEXT = {"heads": 2, "layers": 2, **SMALL}
CELL = {"hidden": 8, **SMALL}
PAIR: dict[str, Any] = {"shape": "encoder-decoder", "head": "language"}
READER: dict[str, Any] = {"shape": "encoder", "outputs": 3}

Made = tuple[Any, Any, str, str | None]  # network, task, text, target


def _made(name: str) -> Made:
    pair, label = Translate(WORDS, WORDS, smoothing=0.0), Classify(WORDS, LABELS)
    english, german = "the dog sees a zebra", "der Hund sieht eine Katze"
    match name:
        case "transformer":
            return TransformerConfig(**PAIR, **TEXT, decoder_layers=1), pair, english, german
        case "rotary":
            return TransformerConfig(**PAIR, **TEXT, positions="rotary"), pair, english, german
        case "post-norm":
            config = TransformerConfig(**PAIR, **TEXT, placement="post", positions="alibi")
            return config, pair, english, german
        case "seq2seq":
            return RecurrentConfig(**PAIR, **CELL, bidirectional=True), pair, english, german
        case "rnn seq2seq":
            config = RecurrentConfig(**PAIR, **CELL, cell="rnn", attention="none")
            return config, pair, english, german
        case "ngrams":
            config = TransformerConfig(
                **READER, head="classify", **TEXT, ngram_features=16, pooling="attention"
            )
            return config, label, english, "fair"
        case "gru":
            config = RecurrentConfig(
                **READER, head="classify", **CELL, cell="gru", layers=2, pooling="last"
            )
            return config, label, english, None
        case "ensemble":
            config = RecurrentConfig(**READER, head="classify", **CELL, ensemble_size=2)
            return config, label, english, None
        case "linear":
            sizes = {"shape": "encoder", "vocab": len(WORDS), "features": 50}
            config = LinearConfig(head="classify", outputs=3, **sizes)
            return config, Classify(WORDS, LABELS, characters=True), english, "fair"
        case "linear tagger":
            sizes = {"shape": "encoder", "vocab": len(SPACED), "features": 50}
            config = LinearConfig(head="tag", outputs=4, **sizes)
            return config, Tag(SPACED, TAGS, characters=True), english, "O B-A I-A O O"
        case "tagger":
            config = RecurrentConfig(
                shape="encoder", head="tag", outputs=4, vocab=len(SPACED), d_model=8, hidden=8,
                bidirectional=True, characters=4,
            )  # fmt: skip
            return config, Tag(SPACED, TAGS, characters=True), english, "O B-A I-A O O"
        case "free tagger":
            config = TransformerConfig(**READER, head="tag", **(TEXT | {"vocab": len(SPACED)}))
            return config, Tag(SPACED, ["N", "V", "D"]), english, None
        case "language":
            config = TransformerConfig(shape="decoder", head="language", **TEXT)
            return config, Language(WORDS), "the dog sees", None
    assert name == "numbers"
    config = MLPConfig(inputs=2, hidden=(5, 5), outputs=2, residual=True, standardise=True)
    return config, Regress(Columns.numbers(["x1", "x2"])), "0.5, -1", "1 2"


NAMES = ["transformer", "rotary", "post-norm", "seq2seq", "rnn seq2seq", "ngrams", "gru",
         "ensemble", "tagger", "free tagger", "language", "numbers", "linear",
         "linear tagger"]  # fmt: skip


@cache
def made(name: str) -> tuple[Reading, str]:
    config, task, text, target = _made(name)
    torch.manual_seed(3)
    network = tl.build(config).eval()
    with torch.no_grad():  # far from the start, where all is alike
        for weight in network.parameters():
            weight.add_(0.5 * torch.randn_like(weight))
    return read(network, task, text, target), text


@cache
def walked(name: str) -> Walk:
    return walk(made(name)[0])


def stages(name: str, kind: str) -> Iterator[tuple[Reading, Stage]]:
    reading, _ = made(name)
    for stage in walked(name).stages:
        if stage.kind == kind:
            yield reading, stage


every_model = pytest.mark.parametrize("name", NAMES)


# --- the stages and the trace


@every_model
def test_a_stage_says_what_the_trace_and_the_catalogue_say(name: str) -> None:
    reading, _ = made(name)
    order = reading.names()
    places = []
    for stage in walked(name).stages:
        if not stage.address:
            continue
        assert stage.shape == tuple(reading[stage.address].shape)
        assert len(stage.axes) == len(stage.shape)
        assert describe(stage.address).meaning in stage.meaning
        places.append(order.index(stage.address))
    assert places
    assert places[-1] == len(order) - 1  # what comes out
    inner = [place for place, stage in zip(places, _addressed(name), strict=True) if stage.layer]
    assert inner == sorted(inner)


def _addressed(name: str) -> list[Stage]:
    return [stage for stage in walked(name).stages if stage.address]


@every_model
def test_no_part_is_left_out(name: str) -> None:
    """Norms, masks and residual frames belong to the parts that they stand around."""
    reading, _ = made(name)
    within = r"\.(norm|masks)\.|_residual\.|recurrent\.output"
    names = [one for one in reading.names() if not one.startswith("members.1.")]
    parts = {one.rpartition(".")[0] for one in names if not re.search(within, one)}
    seen = {s.address.rpartition(".")[0].removesuffix("_residual") for s in _addressed(name)}
    assert parts - seen == IDLE.get(name, set())


IDLE = {"post-norm": {"encoder.final_norm", "decoder.final_norm"}}  # these pass on what they get


@pytest.mark.parametrize("name", ["transformer", "post-norm", "seq2seq", "ngrams", "language"])
def test_links_are_the_largest_of_the_pattern(name: str) -> None:
    found = 0
    for reading, stage in stages(name, "links"):
        pattern = reading[stage.address][0].double().numpy()
        mean = pattern if pattern.ndim == 2 else pattern.mean(axis=0)
        keys = reading.words.along(stage.address, "keys")
        for row, weights in zip(stage.rows, mean, strict=True):
            best = [place for place in np.argsort(-weights) if weights[place] > 0][:2]
            assert [cell.label for cell in row.cells] == [keys[place] for place in best]
            assert [c.value for c in row.cells] == pytest.approx(weights[best], abs=1e-6)
        found += 1
    assert found


def test_links_of_a_decoder_belong_to_the_word_it_writes() -> None:
    *_, (_, crossed) = stages("transformer", "links")
    assert crossed.address.endswith("cross_attention.pattern")
    assert [row.label for row in crossed.rows] == ["der", "Hund", "sieht", "eine", "Katze", "</s>"]
    assert [cell.label for cell in crossed.added] == [row.label for row in crossed.rows]


@pytest.mark.parametrize("name", ["transformer", "post-norm", "language"])
def test_what_is_added_is_what_the_stream_gains(name: str) -> None:
    reading, _ = made(name)
    found = [stage for stage in walked(name).stages if stage.added]
    frames = {one.rpartition(".")[0] for one in reading.names("*_residual.sum")}
    assert len(found) == len(frames) > 0
    for stage in found:
        frame = stage.address.rpartition(".")[0].removesuffix("_residual") + "_residual"
        before, after = (reading[f"{frame}.{end}"][0].double().numpy() for end in ("skip", "sum"))
        wanted = np.linalg.norm(after - before, axis=1) / np.linalg.norm(before, axis=1)
        assert [cell.value for cell in stage.added] == pytest.approx(wanted, rel=1e-4)


def test_vectors_are_rows_of_the_embedding_table() -> None:
    for reading, stage in stages("transformer", "vectors"):
        stack, side = stage.address.split(".")[0], "source"
        if stack == "decoder":
            side = "target"
        table = getattr(reading.network, stack).embedding.table.weight.detach()
        rows = table[reading.example.batch.inputs[side][0]].double().numpy()
        for row, vector in zip(stage.rows, rows, strict=True):
            *first, length = [cell.value for cell in row.cells]
            assert first == pytest.approx(vector[:4])
            assert length == pytest.approx(np.linalg.norm(vector))


GATES = {"lstm": ["forget_gate", "input_gate", "output_gate"], "gru": ["update_gate", "reset_gate"]}


@pytest.mark.parametrize("name", ["seq2seq", "gru", "tagger"])
def test_gates_are_means_at_each_position(name: str) -> None:
    found = 0
    for reading, stage in stages(name, "gates"):
        scope = stage.address.rpartition(".")[0]
        for place, row in enumerate(stage.rows):
            names = [f"{scope}.{gate}@{place}" for gate in GATES[scope.rpartition(".")[2]]]
            means = [float(reading[one].double().mean()) for one in names]
            assert [cell.value for cell in row.cells] == pytest.approx(means, rel=1e-5)
        found += 1
    assert found == {"seq2seq": 3, "gru": 2, "tagger": 2}[name]


def test_the_empty_memory_before_the_first_token_is_not_forgetting() -> None:
    """Before the first word the memory is empty, from whichever side it is read."""
    for _, stage in stages("tagger", "gates"):
        backward = "right to left" in stage.title
        rows = stage.rows[:-1] if backward else stage.rows[1:]
        least = min(rows, key=lambda row: row.cells[0].value)
        assert f"{least.label!r} (keeps {least.cells[0].value:.2f}" in stage.happened
        first = stage.rows[-1 if backward else 0]
        mentioned = f"{first.label!r} comes first" in stage.happened
        assert mentioned == (first.cells[0].value < least.cells[0].value)


@pytest.mark.parametrize("shape", ["decoder", "encoder-decoder"])
def test_a_language_model_has_nothing_to_forget_at_first_and_a_translator_has(shape: str) -> None:
    """Gates all but shut at the first two tokens, and most at the first."""
    torch.manual_seed(3)
    cell: dict[str, Any] = {"shape": shape, "head": "language", "attention": "none"}
    network = tl.build(RecurrentConfig(**CELL, **cell)).eval()
    task = Language(WORDS) if shape == "decoder" else Translate(WORDS, WORDS, smoothing=0.0)
    name = "decoder.recurrent.layers.0.lstm.forget_gate"
    edit = {f"{name}@0": torch.full((1, 8), 0.1), f"{name}@1": torch.full((1, 8), 0.2)}
    target = None if shape == "decoder" else "der Hund"
    reading = read(network, task, "the dog sees", target, edit=edit)
    (stage,) = (s for s in walk(reading).stages if s.kind == "gates" and "decoder" in s.address)
    first, second, *_ = stage.rows
    kept = f"{second.label!r} (keeps 0.20; {first.label!r} comes first"
    assert (kept if shape == "decoder" else f"{first.label!r} (keeps 0.10)") in stage.happened


def test_a_state_moves_from_where_the_bridge_put_it() -> None:
    cells = [
        (reading, stage)
        for reading, stage in stages("rnn seq2seq", "sizes")
        if stage.address.endswith("rnn.hidden")
    ]
    assert len(cells) == 2
    for reading, stage in cells:
        states = reading[stage.address][0].double().numpy()
        start = np.zeros(8)
        if stage.address.startswith("decoder"):
            start = reading["decoder.bridge.hidden"][0].double().numpy()
        for row, before, after in zip(stage.rows, [start, *states[:-1]], states, strict=True):
            wanted = np.linalg.norm(after - before) / np.linalg.norm(after)
            assert row.cells[0].value == pytest.approx(wanted, rel=1e-4)


# --- the answers


def chosen(stage: Stage) -> list[Cell]:
    return [cell for row in stage.rows for cell in row.cells if cell.chosen]


@pytest.mark.parametrize("name", ["transformer", "rotary", "seq2seq", "language"])
def test_probabilities_of_what_was_written_make_the_loss(name: str) -> None:
    reading, _ = made(name)
    found = [cell for _, stage in stages(name, "choices") for cell in chosen(stage)]
    with torch.no_grad():
        loss = float(reading.task.loss(reading.network, reading.example.batch))
    assert -sum(np.log(cell.value) for cell in found) == pytest.approx(loss, rel=1e-4)
    assert [cell.label for cell in found] == [w for w in reading.words.follows if w != "?"]


@pytest.mark.parametrize("name", ["ngrams", "gru", "ensemble", "linear"])
def test_labels_are_those_of_the_task(name: str) -> None:
    reading, text = made(name)
    task = reading.task
    assert isinstance(task, Classify)
    (probabilities,) = task.probabilities(reading.network, [task.item(text)])
    ((_, stage),) = stages(name, "choices")
    found = {cell.label: cell.value for cell in stage.rows[0].cells}
    assert found == pytest.approx(dict(zip(LABELS, probabilities, strict=True)), rel=1e-5)
    best = max(found, key=found.__getitem__)
    assert ([cell.label for cell in chosen(stage)], walked(name).answer) == ([best], best)
    wanted = [cell.label for cell in stage.rows[0].cells if cell.wanted]
    assert wanted == (["fair"] if name in ("ngrams", "linear") else [])


def test_what_the_words_add_and_the_bias_make_the_score_of_a_linear_model() -> None:
    reading, _ = made("linear")
    sizes = {stage.title: stage for _, stage in stages("linear", "sizes")}
    added = sum(row.cells[0].value for row in sizes["what each word adds"].rows)
    label = LABELS.index(walked("linear").answer)
    bias = float(reading.network.linear.bias[label].detach())
    score = float(reading["linear.class_logits"][0, label])
    assert added + bias == pytest.approx(score, rel=1e-4)


def test_a_word_and_its_neighbours_and_the_bias_make_the_score_of_a_linear_tagger() -> None:
    reading, _ = made("linear tagger")
    ((_, stage),) = stages("linear tagger", "sizes")
    logits, bias = reading["linear.logits"][0], reading.network.linear.bias.detach()
    starts = [n for n, row in enumerate(stage.rows) if " as " in row.label]
    assert starts == [0, 2, 5, 8, 11]  # the first and the last word have one neighbour
    assert [row.label for row in stage.rows[3:5]] == ["the → dog", "sees → dog"]
    for scores, first, last in zip(logits, starts, [*starts[1:], None], strict=True):
        added = sum(row.cells[0].value for row in stage.rows[first:last])
        assert added + float(bias[scores.argmax()]) == pytest.approx(float(scores.max()), rel=1e-4)


def test_ngram_features_and_the_network_make_the_score() -> None:
    reading, _ = made("ngrams")
    sizes = {stage.title: stage for _, stage in stages("ngrams", "sizes")}
    added = sum(row.cells[0].value for row in sizes["n-gram features"].rows)
    label = LABELS.index(walked("ngrams").answer)
    network = float(reading["head.class_logits"][0, label])
    assert added + network == pytest.approx(float(reading["ngrams.sum"][0, label]), rel=1e-4)
    shares = [row.cells[0].value for row in sizes["one vector for the text"].rows]
    assert sum(shares) == pytest.approx(1)


@pytest.mark.parametrize("name", ["tagger", "free tagger"])
def test_tags_are_those_of_the_task(name: str) -> None:
    reading, text = made(name)
    task = reading.task
    assert isinstance(task, Tag)
    words = text.split()
    (tags,) = task.predict(reading.network, [task.encode_words(words)])
    ((_, stage),) = stages(name, "choices")
    assert [row.label for row in stage.rows] == words
    assert [cell.label for cell in chosen(stage)] == tags
    assert walked(name).answer.split() == [f"{w}/{t}" for w, t in zip(words, tags, strict=True)]
    if name == "tagger":
        wanted = [cell.label for row in stage.rows for cell in row.cells if cell.wanted]
        assert wanted == ["O", "B-A", "I-A", "O", "O"]


def test_numbers_come_out_as_predicted() -> None:
    reading, _ = made("numbers")
    task = reading.task
    assert isinstance(task, Regress)
    (outputs,) = task.predict(reading.network, [RowItem((0.5, -1.0))])
    first, last = (stage for _, stage in stages("numbers", "values"))
    assert [row.cells[0].value for row in first.rows] == [0.5, -1.0]
    assert [row.cells[0].value for row in last.rows] == pytest.approx(outputs, rel=1e-6)
    assert [row.cells[1].value for row in last.rows] == [1, 2]


def _values(lines: Sequence[str]) -> list[float]:
    """What the right-hand sides give to whoever works them out."""
    known = {"tanh": math.tanh, "max": max, "__builtins__": {}}
    sides = [line.rpartition("; ")[2].split(" = ") for line in lines]
    values = [eval(worked_out.replace("·", "*"), known) for *_, worked_out, _ in sides]
    assert values == pytest.approx([float(last) for *_, last in sides], rel=1e-4, abs=1e-5)
    return values


@pytest.mark.parametrize(("model", "inputs"), [("demo:perceptron", 2), ("demo:regress", 2)])
def test_the_sums_of_a_small_network_can_be_worked_out(model: str, inputs: int) -> None:
    reading = tl.load(model).trace("1 0.5")
    seen = walk(reading)
    stages = [stage for stage in seen.stages if stage.address and stage.title != "the answer"]
    assert all(stage.worked for stage in stages)
    for stage in stages:
        given = [row.cells[0].value for row in stage.rows]
        assert _values(stage.worked) == pytest.approx(given, rel=1e-4, abs=1e-5)
    weights = next(w for name, w in reading.network.named_parameters() if name.endswith("weight"))
    sums = next(stage for stage in stages if stage.address != "standardise.output").worked
    for row, line in zip(weights.reshape(-1, inputs).tolist(), sums, strict=True):
        factors = re.findall(r"\(?(-?[\d.e-]+)\)? ·", line)
        assert list(map(float, factors)) == pytest.approx(row, rel=1e-5)  # as the inputs stand
    for line in (line for stage in stages for line in stage.worked):
        assert line in " ".join(seen.as_text().split())
        assert escape(line) in as_page(seen, {})


def test_the_sums_of_a_larger_network_are_left_to_its_terms() -> None:
    assert not any(stage.worked for stage in walked("numbers").stages)


def test_the_top_is_as_wide_as_asked_and_holds_what_was_chosen() -> None:
    reading, _ = made("transformer")
    for top in (1, 3, 1000):
        *_, stage = walk(reading, top=top).stages
        probabilities = reading["head.logits"][0].double().softmax(-1).numpy()
        for row, every in zip(stage.rows, probabilities, strict=True):
            values = [cell.value for cell in row.cells]
            most = min(top, every.size)
            assert values[:most] == pytest.approx(np.sort(every)[::-1][:most], rel=1e-4)
            assert len(values) in (most, most + 1)
            assert sum(cell.chosen for cell in row.cells) == 1


def test_unknown_words_are_marked() -> None:
    first = walked("transformer").stages[0]
    assert [row.label for row in first.rows if row.remark] == ["zebra"]
    assert [row.cells[0].value for row in first.rows][-2:] == [WORDS.unk_id, WORDS.eos_id]
    assert "zebra 3 (unknown)" in walked("transformer").as_text()


@every_model
def test_the_headline_says_what_the_model_cannot_know(name: str) -> None:
    """Of what was typed; a translator writes no word that it does not know."""
    first, seen = walked(name).stages[0], walked(name)
    lacking = [row.label for row in first.rows if row.remark == "unknown"]
    assert bool(lacking) == ("zebra" in seen.text)
    warning = f"1 of {len(first.rows)} tokens is not in the model's vocabulary: zebra"
    assert seen.warning == (warning if lacking else "")
    assert (f"\n! {warning}\n" in seen.as_text()) == bool(lacking)
    assert (escape(warning) in as_page(seen, {})) == bool(lacking)


@pytest.mark.parametrize("name", ["transformer", "language", "tagger"])
def test_ranks_count_the_likelier_ones(name: str) -> None:
    reading, _ = made(name)
    *_, stage = (stage for stage in walk(reading, top=1).stages if len(stage.rows) > 1)
    probabilities = reading[stage.address][0].double().softmax(-1).numpy()
    for row, every in zip(stage.rows, probabilities, strict=False):  # a text's last has no next
        for cell in row.cells:
            assert cell.rank == 1 + sum(every > cell.value * (1 + 1e-5))
    assert max(cell.rank for row in stage.rows for cell in row.cells) > 2  # beyond the top
    heat = figures(reading, walk(reading, top=1))[walk(reading, top=1).stages.index(stage)][0]
    assert isinstance(heat, Heat)
    for (line, column), cell in zip(heat.frames, chosen(stage), strict=True):
        assert heat.values[line, column] == cell.value
        if cell.rank > 1:
            assert heat.columns.labels[column] == ("further down", "in the text")[stage.came]
            assert heat.texts[line][column].startswith(f"{nth(cell.rank)}: {cell.label} ")
        else:
            assert heat.columns.labels[column] == "1."


def test_ordinals() -> None:
    assert [nth(n) for n in (1, 2, 3, 4, 11, 12, 13, 21, 64, 102, 111)] == [
        "1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "64th", "102nd", "111th",
    ]  # fmt: skip


def _ending_in(token: str) -> Walk:
    """A translator that wants to write this token above all, wherever it stands."""
    reading, text = made("transformer")
    network = deepcopy(reading.network)
    with torch.no_grad():
        for module in network.modules():
            if isinstance(module, torch.nn.Linear) and module.out_features == len(WORDS):
                module.bias = torch.nn.Parameter(torch.zeros(len(WORDS)))
                module.bias[WORDS.encode(token)[0] if token != "</s>" else WORDS.eos_id] = 50.0
    return walk(read(network, reading.task, text, "Katze Katze"))


def test_a_cut_off_end_is_not_attributed_to_the_model() -> None:
    cut, ended = _ending_in("Katze"), _ending_in("</s>")
    assert "the translation ends here" in cut.stages[-1].happened
    assert "would have continued with 'Katze' (100.0%)" in cut.stages[-1].happened
    assert "least sure of '</s>'" not in cut.stages[-1].happened
    assert any("have continued" in note for note in cut.notes)
    assert "have continued" not in ended.as_text()


# --- closer


def test_one_layer_shows_each_head_and_every_point() -> None:
    reading, _ = made("rotary")
    found = walk(reading, layer=1)
    assert {stage.layer for stage in found.stages} == {None, 1}
    linked = [stage for stage in found.stages if stage.kind == "links"]
    assert len(linked) == 3
    for stage in linked:
        pattern = reading[stage.address][0]
        keys = reading.words.along(stage.address, "keys")
        heads = [row.head for row in stage.rows]
        assert heads == [head for head in (0, 1) for _ in range(pattern.shape[1])]
        for number, row in enumerate(stage.rows):
            weights = pattern[row.head, number % pattern.shape[1]]
            assert row.cells[0].value == pytest.approx(float(weights.max()))
            assert row.cells[0].label == keys[int(weights.argmax())]
    seen = {point.address: point.shape for stage in found.stages for point in stage.points}
    assert seen == {one: tuple(reading[one].shape) for one in reading.names("*.layers.1.*")}
    one = walk(reading, head=1)
    for stage in one.stages:
        assert "head 0" not in stage.happened
        assert "mean" not in stage.happened  # only where the rows are
    assert {row.head for stage in one.stages if stage.kind == "links" for row in stage.rows} == {1}


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("transformer", {"layer": 2}, "layer = 2: the model has layers 0 to 1"),
        ("transformer", {"layer": -1}, "layer = -1: the model has layers 0 to 1"),
        ("seq2seq", {"layer": 1}, "layer = 1: the model has one layer, number 0"),
        ("transformer", {"head": 2}, "head = 2: the model has attention heads 0 to 1"),
        ("gru", {"head": 0}, "head = 0: the model has no attention heads; omit this option"),
        ("gru", {"top": 0}, "top = 0: must be at least 1"),
    ],
)
def test_wrong_options_are_refused(name: str, options: dict[str, int], message: str) -> None:
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        walk(made(name)[0], **options)


# --- as text, page and JSON


@every_model
@pytest.mark.parametrize("width", [60, 96])
def test_the_text_keeps_to_its_width_and_tells_every_stage(name: str, width: int) -> None:
    text = walked(name).as_text(width)
    assert max(map(len, text.splitlines())) <= width
    assert "\x1b" not in text
    bare = re.sub(r"\x1b\[\d*m", "", walked(name).as_text(width, colour=True))
    assert [line.rstrip() for line in bare.splitlines()] == text.splitlines()
    for number, stage in enumerate(walked(name).stages, start=1):
        assert f"{number:>2} {stage.title}"[:width] in text
        assert stage.address[: width - 4] in text


def test_a_long_text_says_what_is_left_out() -> None:
    reading, _ = made("language")
    text = "the dog sees a cat " * 8
    found = walk(read(reading.network, reading.task, text))
    assert len(found.stages[0].rows) == 41
    assert "… and 17 more; --json has them all" in found.as_text()
    assert "… and 33 more" in found.as_text()  # vectors
    again = walk(read(reading.network, reading.task, text * 2))
    page = as_page(again, {})
    assert "The first 64 of 81 are shown." in page
    assert "57 more" in page  # tokens in a row, folded
    assert "--json" not in page
    heading = re.search(r"<h1>(.*?)</h1>", page)
    assert heading
    assert len(heading[1].split()) < 20


def test_signs_are_quoted_and_words_are_not() -> None:
    assert [quoted(one) for one in (",", "...", "+", "$", "dog", "</s>", "é", "🐶", "7")] == [
        "','", "'...'", "'+'", "'$'", "dog", "</s>", "é", "🐶", "7",
    ]  # fmt: skip


def test_attention_is_the_mean_with_its_words_then_each_head() -> None:
    reading, _ = made("language")
    other = read(reading.network, reading.task, "the dog sees a cat " * 8)
    found = walk(other)
    drawn = figures(other, found)
    for place, stage in enumerate(found.stages):
        if stage.kind == "links":
            mean, heads, *_ = drawn[place]
            assert isinstance(mean, Heat)
            assert isinstance(heads, Grid)
            pattern = other[stage.address][0].double().numpy()[:, :32, :32]
            assert mean.values == pytest.approx(pattern.mean(axis=0), abs=1e-6)
            assert mean.rows.labels == tuple(other.words.target[:32])
            assert [heat.values.tolist() for heat in heads.heats] == pattern.tolist()
            assert heads.columns == 1  # side by side they would have no words
            assert (
                mean.note
                == heads.note
                == "rows: the first 32 of 41 tokens; " + ("columns: the first 32 of 41 tokens")
            )


def test_nothing_in_a_text_steers_the_terminal() -> None:
    reading, _ = made("language")
    text = "the \x1b[31mdog\x07 見る 日本語"
    told = walk(read(reading.network, reading.task, text)).as_text()
    assert not re.search(r"[\x00-\x09\x0b-\x1f]", told)


@pytest.mark.parametrize("name", ["tagger", "numbers"])
def test_the_page_stands_alone(name: str) -> None:
    reading, _ = made(name)
    drawn = figures(reading, walked(name))
    page = as_page(walked(name), drawn)
    assert not re.search(r"https?:|@import|<link|<script|src=", page)
    ids = re.findall(r"\bid=[\"']([^\"']+)", page)
    assert len(ids) == len(set(ids))
    used = re.findall(r"href=[\"']#([^\"']+)|url\(#([^)]+)\)", page)
    assert {first or second for first, second in used} <= set(ids)
    assert (
        page.count("<figure>")
        == page.count('role="img" aria-label=')
        == sum(map(len, drawn.values()))
    )
    for stage in walked(name).stages:
        assert f". {stage.title}</h3>" in page


@pytest.mark.parametrize("name", ["transformer", "seq2seq"])
def test_a_known_alignment_is_framed_where_the_source_is_looked_at_and_nowhere_else(
    name: str,
) -> None:
    reading, _ = made(name)
    gold = [(0, 0), (3, 2), (1, 99)]  # (source, target); the last is beyond what is drawn
    drawn = figures(reading, walked(name), gold)
    seen = 0
    for place, stage in enumerate(walked(name).stages):
        for picture in drawn.get(place, ()):
            for heat in picture.heats if isinstance(picture, Grid) else [picture]:
                cross = stage.kind == "links" and "self_attention" not in stage.address
                if cross:
                    assert heat.frames == ((0, 0), (2, 3))
                    seen += 1
                elif stage.kind == "links":
                    assert heat.frames == ()
    assert seen


def test_the_page_escapes_every_word() -> None:
    reading, _ = made("language")
    text = "the <script>alert('&')</script> -->"
    other = read(reading.network, reading.task, text)
    found = walk(other, layer=0)
    page = as_page(found, figures(other, found))
    assert page.count("<figure>") == 5
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert "-->" not in page


def pictures(name: str) -> Callable[[str], list[Any]]:
    reading, _ = made(name)
    drawn = [figure for each in figures(reading, walked(name)).values() for figure in each]
    return lambda kind: [one for one in drawn if type(one).__name__ == kind]


def test_pictures_hold_the_numbers_of_the_walk() -> None:
    gates = [heat for heat in pictures("seq2seq")("Heat") if "gates" in heat.title]
    for heat, (_, stage) in zip(gates, stages("seq2seq", "gates"), strict=True):
        values = [[cell.value for cell in row.cells] for row in stage.rows]
        assert heat.values.T.tolist() == values
        assert heat.scale == "unit"
    *_, stream, choices = pictures("transformer")("Heat")
    added = [s.added for s in walked("transformer").stages if s.added and "decoder" in s.address]
    assert stream.values.T.tolist() == [[cell.value for cell in cells] for cells in added]
    rows = walked("transformer").stages[-1].rows
    assert [choices.texts[r][c] for r, c in choices.frames] == [
        f"{nth(cell.rank) + ': ' if cell.rank > 5 else ''}{cell.label} {cell.value:.1%}"
        for row in rows
        for cell in row.cells
        if cell.chosen
    ]
    (bars,) = pictures("gru")("Bars")
    *_, label = walked("gru").stages
    assert bars.values == pytest.approx([100 * c.value for c in label.rows[0].cells], abs=0.05)


@every_model
def test_the_json_is_the_walk(name: str) -> None:
    found = json.loads(json.dumps(walked(name).as_dict(), allow_nan=False))
    assert found["answer"] == walked(name).answer
    for told, stage in zip(found["stages"], walked(name).stages, strict=True):
        assert told["address"] == stage.address
        assert [[cell["value"] for cell in row["cells"]] for row in told["rows"]] == [
            [cell.value for cell in row.cells] for row in stage.rows
        ]
