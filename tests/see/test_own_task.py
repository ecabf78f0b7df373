"""A task that was written outside the package can be seen into, and shown by the studio."""

import json
from typing import Any

import pytest
import torch
from tests.see.own_tasks import PAIR, made
from tests.studio.serving import model
from torch import Tensor

from translucid.core.errors import InputError
from translucid.core.trace import Trace
from translucid.model import Model
from translucid.models.base import Network
from translucid.see.ablation import ablate
from translucid.see.gradients import gradients
from translucid.see.part_switches import switches
from translucid.see.reading import read
from translucid.see.saliency import saliency, saliency_map
from translucid.studio import answers, terms
from translucid.studio.handlers import Handlers
from translucid.studio.library import Library
from translucid.studio.text_runs import Run
from translucid.tasks.base import Task

TEXT = "the dog sees a cat ."


def score(network: Network, task: Any, text: str = PAIR, **options: Any) -> Tensor:
    """What the network says to a pair by itself, from its ids."""
    one, _, two = text.partition("|")
    ids = torch.tensor([task._ids(one, two)])
    return network(ids, **options)[0]


def held(kind: str) -> Model:
    """A model on which people look, for this task."""
    task, network = made(kind)
    found = model("classify-transformer")
    found.task, found.network = task, network.float()
    return found


# ---- a number for a pair of sentences ----


def test_the_trace_of_a_pair_is_the_networks_own() -> None:
    task, network = made("pair")
    reading = read(network, task, PAIR, "0.5")
    torch.testing.assert_close(reading.output_values, score(network, task).detach())
    assert reading.words.source.count("</s>") == 2
    heat = reading.figure("*.layers.0.self_attention.pattern", head="mean")
    assert heat.rows.labels == reading.words.source  # type: ignore[attr-defined]
    assert "Reading" in reading._repr_html_()


def test_the_walk_of_a_pair_ends_with_its_number() -> None:
    task, network = made("pair")
    walk = read(network, task, PAIR, "0.5").walk()
    value = score(network, task).item()
    assert [cell.value for cell in walk.stages[-1].rows[0].cells] == pytest.approx([value, 0.5])
    assert walk.answer == f"{value:.6g}"
    first = walk.stages[0].rows
    assert [row.cells[0].value for row in first] == task._ids(*PAIR.split("|"))
    assert f"{value:.6g}" in str(walk)
    assert any(stage.title == "one vector for the text" for stage in walk.stages)
    json.dumps(walk.as_dict(), allow_nan=False)


def test_saliency_of_a_pair_adds_up_to_its_number() -> None:
    task, network = made("pair")
    found = saliency(network, task, task.example(PAIR), method="integrated")
    assert found.value == pytest.approx(score(network, task).item())
    silent = score(network, task, trace=Trace([], edit={"*embedding.scaled": 0.0})).item()
    assert found.nothing == pytest.approx(silent)
    assert float(found.values.sum()) == pytest.approx(found.value - silent, rel=1e-3)
    assert (found.answer.name, found.unit) == ("output 1", "output")
    table = saliency_map(network, task, task.example(PAIR))
    plain = saliency(network, task, task.example(PAIR), of="output 1")
    assert table.values[0] == pytest.approx(plain.values)
    with pytest.raises(InputError, match="no probability"):
        saliency(network, task, task.example(PAIR), unit="log_probability")


def test_gradients_of_a_pair_are_those_of_its_loss() -> None:
    task, network = made("pair")
    found = gradients(network, task, task.example(PAIR, "0.5"))
    loss = 0.5 * (score(network, task)[0] - 0.5) ** 2
    names = [name for name, _ in network.named_parameters()]
    true = torch.autograd.grad(loss, list(network.parameters()))
    assert found.loss == pytest.approx(loss.item())
    for name, gradient in zip(names, true, strict=True):
        torch.testing.assert_close(found.parameters[name], gradient)
    with pytest.raises(InputError, match="target"):
        gradients(network, task, task.example(PAIR))


@pytest.mark.parametrize("metric", [True, False])
def test_ablation_of_pairs_measures_their_own_loss(metric: bool) -> None:
    task, network = made("pair")
    records = [("a cat", "the dog", 0.25), ("the old bird", "a bird sings", 0.75)]
    items = [task.encode(record) for record in records]
    chosen = [switch for switch in switches(network) if switch.kind in ("heads", "layers")]
    found = ablate(network, task, items, chosen, metric=metric)

    def mean(edit: Any) -> float:
        gaps = [
            score(network, task, f"{one}|{two}", trace=Trace([], edit=edit)) - wanted
            for one, two, wanted in records
        ]
        return (0.5 * torch.stack(gaps).square().mean()).item()

    assert found.whole.loss == pytest.approx(mean({}), rel=1e-6)
    for switch, measured in found.rows:
        assert measured.loss == pytest.approx(mean(switch.edit), rel=1e-6)
        assert (measured.metric is not None) == metric


def test_numbers_have_no_likeliest_words() -> None:
    task, network = made("pair")
    reading = read(network, task, PAIR)
    for ask in (reading.top, reading.lens):
        with pytest.raises(InputError, match=r"task pair-score.*numbers"):
            ask()


def test_a_pair_that_is_too_long_is_refused() -> None:
    task, network = made("pair")
    task.check_line(PAIR, "pairs.tsv:1", network)
    with pytest.raises(InputError, match=r"pairs.tsv:1: 17 tokens.*16 positions"):
        task.check_line("a cat " * 7 + "| ", "pairs.tsv:1", network)


# ---- a tag for each token ----


def test_an_own_tagger_is_seen_like_any_other() -> None:
    task, network = made("case")
    reading = read(network, task, TEXT, "known")
    inputs = reading.example.batch.inputs
    shares = network(inputs["ids"])[0].softmax(dim=-1)
    top = reading.top(2)
    best = shares.topk(2)
    assert top.values == pytest.approx(best.values.detach().numpy())  # type: ignore[attr-defined]
    assert top.texts[0][0].split()[0] == task.kinds[int(best.indices[0, 0])]  # type: ignore[attr-defined]
    assert reading.lens().values[-1] == pytest.approx(best.values[:, 0].detach().numpy())
    tags = [task.kinds[place] for place in shares.argmax(-1).tolist()]
    said = " ".join(f"{word}/{tag}" for word, tag in zip(TEXT.split(), tags, strict=True))
    assert reading.walk().answer == said
    found = gradients(network, task, task.example(TEXT, "known"))
    right = torch.tensor([word.isalpha() for word in TEXT.split()], dtype=torch.long)
    nats = -shares.log()[torch.arange(len(right)), right].mean()
    assert found.loss == pytest.approx(nats.item())
    assert saliency(network, task, task.example(TEXT)).answer.name == f"{tags[-1]} at ."


# ---- the studio ----


def run_of(kind: str, text: str, target: str | None = None) -> tuple[Handlers, Run, Model]:
    found = held(kind)
    library = Library({kind: found})
    return Handlers(library), library.run("a", text, target), found


def test_the_studio_answers_about_a_pair() -> None:
    handlers, run, found = run_of("pair", PAIR, "0.5")
    value = score(found.network, found.task).item()
    assert run.as_dict()["answer"] == pytest.approx([value], rel=1e-5)
    assert run.loss() is None  # numbers have no nats
    at = found.network.output_point
    assert float(terms.terms(run, f"{at}[0, 0]")["value"]) == pytest.approx(value, rel=1e-5)
    key = next(key for key, switch in run.opened.switches.items() if switch.kind == "layers")
    edit = run.opened.edit([key])
    changed = score(found.network, found.task, trace=Trace([], edit=edit)).item()
    assert answers.effect(run, [key])["gap"] == pytest.approx(abs(value - changed), rel=1e-4)
    assert answers.compare(run, run)["says"][0] == [{"word": f"{value:.4g}", "probability": None}]
    with pytest.raises(InputError, match="task pair-score"):
        answers.decode(run, 4, 4, {})
    with pytest.raises(InputError, match="task pair-score"):
        answers.steps_along(run, [], None, 4)
    told = json.loads(handlers.ask("GET", "/api/model/a", b"").body)
    assert (told["task"], told["outputs"], told["generates"]) == ("pair-score", "values", False)
    assert handlers.saved(PAIR, "#/flow").startswith(b"<!doctype html>")
    with pytest.raises(InputError, match="no example sentence"):
        handlers.saved(None, "#/flow")


def test_the_studio_answers_about_an_own_tagger() -> None:
    _, run, found = run_of("case", TEXT, "known")
    logits = found.network(run.example.batch.inputs["ids"])
    shares = logits[0].softmax(dim=-1)
    kinds = found.task.kinds  # type: ignore[attr-defined]
    assert run.answer() == [kinds[place] for place in shares.argmax(-1).tolist()]
    nats = torch.nn.functional.cross_entropy(logits[0], run.example.batch.targets[0])
    assert run.loss() == pytest.approx(nats.item())
    steps = answers.steps(run, None, 2)["steps"]
    ranked = shares.sort(descending=True)
    assert [step["probabilities"] for step in steps] == pytest.approx(
        ranked.values.detach().numpy()
    )
    assert [step["words"] for step in steps] == [
        [kinds[place] for place in row] for row in ranked.indices.tolist()
    ]
    assert answers.compare(run, run)["variation"] == [0.0] * len(shares)


def test_two_own_taggers_with_other_tags_are_not_compared() -> None:
    one, two = held("case"), held("case")
    library = Library({"one": one, "two": two})
    assert "variation" in answers.compare(library.run("a", TEXT), library.run("b", TEXT))
    two.task.kinds = ("punctuation", "word")  # type: ignore[attr-defined]
    assert "variation" not in answers.compare(library.run("a", TEXT), library.run("b", TEXT))


def test_a_task_that_says_nothing_of_itself_says_what_it_lacks() -> None:
    task, _ = made("pair")
    with pytest.raises(InputError, match=r"PairScore.*example"):
        Task.example(task, PAIR)
    with pytest.raises(InputError, match=r"does not define `outputs`.*PairScore"):
        Task.outputs.fget(task)  # type: ignore[attr-defined]
