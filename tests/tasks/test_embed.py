"""Sentence encoders learn from pairs: the loss, the scores and a run, each against another way of
computing it."""

import math
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.in_process import run
from tests.tiny.once import once
from torch import Tensor

import translucid as tl
from translucid.core.errors import ConfigError, InputError
from translucid.core.weights import own_tensors
from translucid.data.readers.read import read_similar
from translucid.data.records import SimilarPair
from translucid.runs.recipe.split import stratified
from translucid.tasks.batch import IGNORE
from translucid.tasks.contrastive import TEMPERATURE, contrastive_loss, retrieval, score_loss
from translucid.tasks.embed import Embed, EmbedItem
from translucid.tasks.metrics import spearman

NET = {"d_model": 16, "heads": 2, "layers": 1, "d_ff": 16}
TINY: dict[str, Any] = {
    "batch_tokens": 300, "log_every": 1, "evaluate_every": 2, "device": "cpu", "quiet": True,
    "tokenizer": {"kind": "word"},
}  # fmt: skip
NOUNS, VERBS = ("dog", "cat", "bird", "cow"), ("sleeps", "runs", "sings", "eats", "waits")
PAIRS = [(f"the {n} {v}", f"{v} a {n} now") for n in NOUNS for v in VERBS]


def cosine(a: Tensor, b: Tensor) -> float:
    return float(a @ b) / (math.sqrt(float(a @ a)) * math.sqrt(float(b @ b)))


def slow_loss(pairs: list[tuple[int, int]], vectors: list[Tensor], at: float) -> list[float]:
    """-log p(partner) of each text, one by one; pairs: names of texts, vectors: two of each."""
    losses = []
    for row in range(2 * len(pairs)):
        own, side = row // 2, row % 2
        wrong = [
            other
            for other, pair in enumerate(pairs)
            if other != own and pair[0] != pairs[own][0] and pair[1] != pairs[own][1]
        ]
        scores = [cosine(vectors[row], vectors[2 * o + 1 - side]) / at for o in [own, *wrong]]
        losses.append(math.log(sum(math.exp(s) for s in scores)) - scores[0])
    return losses


TEXTS = [(1, 11), (2, 12), (3, 12), (1, 14), (5, 15), (6, 6)]  # some texts are equal


@pytest.fixture(scope="module")
def vectors() -> Tensor:
    return torch.randn(2 * len(TEXTS), 4, generator=torch.Generator().manual_seed(0))


def test_each_text_looks_for_its_partner_in_the_batch(vectors: Tensor) -> None:
    ids = torch.tensor([[name, 0] for pair in TEXTS for name in pair])
    targets = torch.ones(len(ids))
    wanted = slow_loss(TEXTS, list(vectors), 0.2)
    loss = contrastive_loss(vectors, ids, targets, 0.2)
    assert float(loss) == pytest.approx(sum(wanted), rel=1e-5)
    for rows in (1, 2, 3):  # that fill up a batch
        filled, more = torch.cat([vectors, vectors[:rows]]), torch.cat([ids, ids[:rows]])
        silent = torch.cat([targets, torch.full((rows,), float(IGNORE))])
        assert float(contrastive_loss(filled, more, silent, 0.2)) == pytest.approx(float(loss))
        wide = 0.5 * torch.ones(len(ids))
        scores = [2 * (cosine(vectors[i], vectors[i + 1]) - 0.5) ** 2 for i in range(0, 12, 2)]
        assert float(score_loss(vectors, wide)) == pytest.approx(sum(scores), rel=1e-5)
        wide = torch.cat([wide, silent[len(ids) :]])
        assert float(score_loss(filled, wide)) == pytest.approx(sum(scores), rel=1e-5)


def test_scores_are_those_of_one_text_at_a_time(vectors: Tensor) -> None:
    ids = [([one], [other]) for one, other in TEXTS]
    vectors = torch.cat([vectors[:8], vectors[:2], vectors[10:]])  # two pairs with equal vectors
    sides = [vectors[0::2], vectors[1::2]]

    def compare(side: int, places: Tensor) -> Tensor:
        return torch.tensor([[cosine(sides[side][i], v) for v in sides[1 - side]] for i in places])

    ranks = []
    for row in range(len(vectors)):
        own, side = row // 2, row % 2
        alike = compare(side, torch.tensor([own]))[0].tolist()
        nearer = [
            place for place, pair in enumerate(TEXTS)
            if pair[0] != TEXTS[own][0] and pair[1] != TEXTS[own][1] and alike[place] >= alike[own]
        ]  # fmt: skip
        ranks.append(1 + len(nearer))
    made = retrieval(ids, compare)
    assert 1 in ranks
    assert max(ranks) > 2
    assert made["accuracy"] == ranks.count(1) / len(ranks)
    assert made["mrr"] == pytest.approx(sum(1 / rank for rank in ranks) / len(ranks))
    wanted = slow_loss(TEXTS, list(vectors), TEMPERATURE)
    assert made["loss"] == pytest.approx(sum(wanted) / len(wanted), rel=1e-5)


def records(pairs: list[tuple[str, str]]) -> list[SimilarPair]:
    return [SimilarPair(one, other, None, line) for line, (one, other) in enumerate(pairs, start=1)]


def run_of(out: Path, **options: Any) -> tl.Model:
    return tl.train("embed", out, train=PAIRS, model=NET, **(TINY | {"steps": 4} | options))


def embedder() -> Path:
    return once("embed: a tiny run", lambda out: run_of(out / "run")) / "run"


def test_the_baseline_counts_tokens_that_both_have() -> None:
    task: Any = tl.load(embedder()).task
    items = [
        EmbedItem(task.encode_text(one), n, task.encode_text(other))
        for n, (one, other) in enumerate([*PAIRS, ("dog dog cat", "cat dog"), ("", "dog")])
    ]
    bags = [[Counter(text[1:-1]) for text in (item.ids, item.other)] for item in items]

    def compare(side: int, places: Tensor) -> Tensor:
        rows = []
        for place in places.tolist():
            one = bags[place][side]
            lengths = [math.hypot(*one.values()) * math.hypot(*pair[1 - side].values())
                       for pair in bags]  # fmt: skip
            shared = [sum(one[t] * pair[1 - side][t] for t in one) for pair in bags]
            rows.append([n / of if of else 0.0 for n, of in zip(shared, lengths, strict=True)])
        return torch.tensor(rows)

    wanted = retrieval([(item.ids, item.other or ()) for item in items], compare)
    made = task.baseline(items, items).score.numbers
    assert made["loss"] == pytest.approx(wanted["loss"], rel=1e-5)
    assert 0.3 < wanted["mrr"] < 1


def test_a_run_resumes_exactly_and_is_scored_as_it_was(tmp_path: Path) -> None:
    whole = tl.load(embedder())
    run_of(tmp_path / "run", callbacks=lambda line: False)  # stops at once
    resumed = tl.resume(tmp_path / "run", quiet=True)
    for name, tensor in own_tensors(whole.network).items():
        assert torch.equal(tensor, own_tensors(resumed.network)[name]), name
    held_out = [(one.source, one.target) for one in stratified(records(PAIRS), 0)[1]]
    (tmp_path / "valid.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in held_out))
    again = whole.evaluate(str(tmp_path / "valid.tsv")).numbers
    assert again == pytest.approx(whole.facts["valid"])
    batch = whole.task.collate(items := [whole.task.encode(one) for one in records(PAIRS)])
    loss = whole.task.loss(whole.network, batch).item() / batch.count
    assert loss == pytest.approx(
        whole.task.evaluate(whole.network, items).numbers["loss"], rel=1e-4
    )
    probed = whole.task.followed(whole.network, PAIRS[0][0], None)
    assert probed == pytest.approx(whole.embed([PAIRS[0][0]])[0].tolist())
    assert f"a vector of {NET['d_model']} dimensions" in str(whole.explain(PAIRS[0][0]))


def test_compare_embeddings_lists_pairs_that_changed(tmp_path: Path) -> None:
    before, after = tl.load(embedder()), tl.load(embedder())
    draw = torch.Generator().manual_seed(0)
    for weight in after.network.parameters():
        weight.data += 0.3 * torch.randn(weight.shape, generator=draw)
    texts = [one for one, _ in PAIRS[:5]]
    moved = after.compare_embeddings(before, texts)
    wanted = {
        (texts[i], texts[j]): [float(m.similarity([texts[i]], [texts[j]])) for m in (before, after)]
        for i in range(5)
        for j in range(i + 1, 5)
    }
    assert {(pair.one, pair.other) for pair in moved.pairs} == {*wanted}
    for pair in moved.pairs:
        assert [pair.before, pair.after] == pytest.approx(wanted[pair.one, pair.other], abs=1e-5)
    changes = [pair.change for pair in moved.pairs]
    assert changes == sorted(changes, reverse=True)
    assert changes[0] > 0 > changes[-1]
    assert (moved.nearer(1)[0], moved.apart(1)[0]) == (moved.pairs[0], moved.pairs[-1])
    after.save(tmp_path / "after")
    (tmp_path / "texts.txt").write_text("\n".join(texts), "utf-8")
    arguments = [str(tmp_path / "after"), str(tmp_path / "texts.txt"), "--against", str(embedder())]
    shown = run("embed", *arguments, "--top", "2")
    assert shown.stdout.strip() == moved.text(2), shown.stderr
    assert shown.stdout.startswith("moved nearer\n")
    with pytest.raises(InputError, match="got 1 text; pass two or more"):
        after.compare_embeddings(before, texts[:1])


SCORED = [(*PAIRS[n], 1.0) for n in range(6)] + [
    (PAIRS[n][0], PAIRS[n + 7][1], 0.0) for n in range(6)
]


def write_scored(path: Path, names: str = "sentence1\tsentence2\tscore\n") -> Path:
    path.write_text(names + "".join(f"{a}\t{b}\t{score}\n" for a, b, score in SCORED), "utf-8")
    return path


def test_pairs_with_scores(tmp_path: Path) -> None:
    data = str(write_scored(tmp_path / "scored.tsv"))
    model = tl.train(
        "embed", tmp_path / "run", train=data, valid=data, model=NET, **TINY, steps=2
    )  # fmt: skip
    numbers = tl.load(tmp_path / "run").evaluate(data).numbers
    assert numbers == pytest.approx(model.facts["valid"])
    made = [float(model.similarity([a], [b])) for a, b, _ in SCORED]
    gold = [score for *_, score in SCORED]
    errors = [(cosine - score) ** 2 for cosine, score in zip(made, gold, strict=True)]
    assert numbers["loss"] == pytest.approx(sum(errors) / len(errors), rel=1e-4)
    assert numbers["spearman"] == pytest.approx(spearman(made, gold), abs=1e-6)
    batch = model.task.collate(model.encoded_examples(data))
    loss = model.task.loss(model.network, batch).item() / batch.count
    assert loss == pytest.approx(numbers["loss"], rel=1e-4)


def test_spearman_is_pearson_of_ranks() -> None:
    draw = random.Random(0)
    made, gold = ([draw.randrange(6) for _ in range(40)] for _ in range(2))

    def rank(values: list[int], value: int) -> float:
        return sum(v < value for v in values) + (values.count(value) + 1) / 2

    ranks = torch.tensor([[rank(side, v) for v in side] for side in (made, gold)])
    wanted = float(torch.corrcoef(ranks.double())[0, 1])
    assert spearman(made, gold) == pytest.approx(wanted)
    assert spearman([1, 1], [0, 2]) == 0


def test_data_without_pairs_is_refused(tmp_path: Path) -> None:
    scores = "sentence1,sentence2,score"
    for name, text, words in (
        ("a.txt", "a dog\n", "one text per line"),
        (
            "a.tsv",
            "a dog\n",
            "there is 1 column, but each line needs source and target, with a tab",
        ),
        ("a.tsv", "a\tb\tc\n", r"which column holds the source\? there are 3 columns"),
        ("a.csv", f"{scores}\na,b,4.5\n", r"a.csv:2: score .*4\.5.* -1 .* 1"),
        ("a.csv", f"{scores}\na,b,\n", r"a.csv:2: score .* number"),
    ):
        (tmp_path / name).write_text(text, "utf-8")
        with pytest.raises((ConfigError, InputError), match=words):
            tl.train("embed", tmp_path / "run", train=str(tmp_path / name), **TINY)


def test_held_out_pairs_must_have_scores_if_training_has(tmp_path: Path) -> None:
    scored = write_scored(tmp_path / "scored.tsv")
    records = list(read_similar(scored))
    assert [record.score for record in records] == [score for *_, score in SCORED]
    plain = list(read_similar(write_scored(tmp_path / "x.tsv", ""), source=1, target=2))
    assert {record.score for record in plain} == {None}
    words = r"in this file have scores, but .* have no scores; .*column"
    with pytest.raises(InputError, match=words):
        Embed.check_held_out(plain, records, "scored.tsv")
