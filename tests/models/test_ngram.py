"""The n-gram language model: equal to counting in plain Python, step by step and through the
command line."""

import json
from collections import Counter, defaultdict
from pathlib import Path

import pytest
import torch
from tests.in_process import run
from torch import Tensor

import translucid as tl
from translucid.core.errors import ConfigError, InputError
from translucid.core.trace import Trace
from translucid.data.records import Text
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.models import GenerationInputs, NGramConfig, NGramModel, build, config_from
from translucid.models.build import build_undrawn
from translucid.runs.recipe.recipe import parse
from translucid.studio.page_model import PageModel, describe_model
from translucid.tasks.batch import IGNORE
from translucid.tasks.language import Language
from translucid.tasks.model_folder import Bundle, load, save

TEXTS = [
    "the cat sees the dog", "the dog sees the cat", "the dog sleeps", "a cat sleeps here",
    "a dog sees a cat and the cat sees a dog", "the cat and the dog see a bird",
]  # fmt: skip
VOCAB = 7


def random_texts() -> Tensor:
    """Texts (rows, length) in which some n-grams are frequent."""
    dice = torch.Generator().manual_seed(5)
    return (torch.rand(30, 9, generator=dice) ** 2 * VOCAB).long()


def fitted(order: int, texts: Tensor) -> NGramModel:
    network = build(NGramConfig(shape="decoder", head="language", vocab=VOCAB, order=order))
    assert isinstance(network, NGramModel)
    network = network.double()
    network.fit(
        [({"ids": texts[:20, :-1]}, texts[:20, 1:]), ({"ids": texts[20:, :-1]}, texts[20:, 1:])]
    )
    return network


def plain_probability(rows: list[list[int]], order: int, history: list[int], word: int) -> float:
    """Modified Kneser-Ney with dictionaries of tuples, straight from its formula."""

    def counts(n: int) -> Counter[tuple[int, ...]]:
        found = [
            tuple(row[i : i + n])
            for row in rows
            for i in range(1 if n == 1 else 0, len(row) - n + 1)
        ]
        if n == order:
            return Counter(found)
        before = defaultdict(set)
        for row in rows:
            for i in range(1, len(row) - n + 1):
                before[tuple(row[i : i + n])].add(row[i - 1])
        different = Counter({ngram: len(tokens) for ngram, tokens in before.items()})
        return different + (Counter(tuple(row[:n]) for row in rows) if n > 1 else Counter())

    def discount(table: Counter[tuple[int, ...]], count: int) -> float:
        n1, n2, n3, n4 = (sum(c == k for c in table.values()) for k in (1, 2, 3, 4))
        y = n1 / (n1 + 2 * n2) if n1 else 0.0
        if n1 and n2 and n3 and n4:
            three = [1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3]
            if all(0 < d < k for k, d in zip((1, 2, 3), three, strict=True)):
                return three[min(count, 3) - 1]
        return y if 0 < y < 1 else 0.5

    def p(n: int) -> float:
        if n == 0:
            return 1 / VOCAB
        context = tuple(history[len(history) - n + 1 :])
        if len(context) < n - 1:
            return p(n - 1)
        table = counts(n)
        following = {ngram: c for ngram, c in table.items() if ngram[:-1] == context}
        total = sum(following.values())
        if not total:
            return p(n - 1)
        own = following.get((*context, word), 0)
        left = sum(discount(table, c) for c in following.values())
        return (own - discount(table, own) if own else 0.0) / total + left / total * p(n - 1)

    return p(order)


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_probabilities_equal_kneser_ney_with_dictionaries(order: int) -> None:
    texts = random_texts()
    network, rows = fitted(order, texts), texts.tolist()
    asked = torch.tensor([[0, 1, 0, 0, 2, 6, 5, 0], [6, 6, 6, 6, 0, 0, 0, 1]])  # new contexts, too
    probabilities = network(asked).exp()
    for row, place in ((0, 0), (0, 1), (0, 4), (0, 6), (1, 3), (1, 7)):
        read = asked[row, : place + 1].tolist()
        wanted = [plain_probability(rows, order, read, word) for word in range(VOCAB)]
        torch.testing.assert_close(
            probabilities[row, place], torch.tensor(wanted).double(), rtol=1e-5, atol=1e-7
        )


def test_probabilities_sum_to_1() -> None:
    network = fitted(4, random_texts())
    ids = torch.randint(VOCAB, (5, 12), generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(
        network(ids).exp().sum(-1), torch.ones(5, 12).double(), rtol=1e-6, atol=0
    )


def test_steps_with_padding_and_beams_equal_reading_at_once() -> None:
    network = fitted(4, random_texts())
    ids = torch.randint(VOCAB, (3, 8), generator=torch.Generator().manual_seed(2))
    mask = torch.tensor([[False, True, True], [True, True, False], [True, False, True]])
    state = network.start(GenerationInputs(3), 8)
    read = network.step(ids[:, :3], state, mask)
    whole = torch.cat([mask, torch.ones(3, 5, dtype=torch.bool)], dim=1)
    torch.testing.assert_close(read, network(ids, whole)[:, :3])
    for row in range(3):  # padding is as if it were not there
        alone = network(ids[row][whole[row]][None])[0]
        torch.testing.assert_close(network(ids, whole)[row][whole[row]], alone)
    state.expand(2)
    text, read_so_far = ids[:, :3].repeat_interleave(2, dim=0), mask.repeat_interleave(2, dim=0)
    for t in range(3, 8):
        newest = (ids[:, t].repeat_interleave(2) + torch.arange(6)) % VOCAB  # beams differ
        newest = newest[: len(text), None]
        text = torch.cat([text, newest], dim=1)
        read_so_far = torch.cat([read_so_far, torch.ones_like(newest, dtype=torch.bool)], dim=1)
        stepped = network.step(newest, state)
        torch.testing.assert_close(stepped[:, 0], network(text, read_so_far)[:, -1])
        if t == 4:
            state.follow(torch.tensor([[1, 0], [0, 0], [1, 1]]))
            text, read_so_far = (x[[1, 0, 2, 2, 5, 5]] for x in (text, read_so_far))
        if t == 5:
            state.select(torch.tensor([2, 0]))
            text, read_so_far = (x[[4, 5, 0, 1]] for x in (text, read_so_far))
    assert state.length == 8


def test_traced_equals_untraced() -> None:
    network, ids = fitted(3, random_texts()), random_texts()[:4]
    trace = Trace()
    torch.testing.assert_close(network(ids, trace=trace), network(ids))
    assert trace["decoder.order3_ngram.probability"].shape == (4, 9, VOCAB)
    without = network(ids, trace=Trace("", edit={"decoder.order3_ngram.discounted": 0.0}))
    assert not torch.allclose(without, network(ids))


def test_targets_that_are_ignored_and_padding_are_not_counted() -> None:
    """A text in a padded batch counts as it does alone."""
    alone, padded = (
        build(NGramConfig(shape="decoder", head="language", vocab=VOCAB)) for _ in "ab"
    )
    alone.fit([({"ids": torch.tensor([[1, 2, 3]])}, torch.tensor([[2, 3, 4]]))])
    given = {"ids": torch.tensor([[1, 2, 3, 0]]), "mask": torch.tensor([[True, True, True, False]])}
    padded.fit([(given, torch.tensor([[2, 3, 4, IGNORE]]))])
    ids = torch.tensor([[1, 2, 3, 4]])
    assert torch.equal(alone(ids), padded(ids))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder of an n-gram model of words."""
    tokenizer = Tokenizer.train("space", TEXTS)
    task = Language(tokenizer)
    items = task.rows([Text(text, n) for n, text in enumerate(TEXTS, start=1)], 16)
    network = build(NGramConfig(shape="decoder", head="language", vocab=len(tokenizer), order=3))
    batch = task.collate(items)
    network.fit([(batch.inputs, batch.targets)])
    place = tmp_path_factory.mktemp("ngram") / "model"
    save(Bundle(network, "language", {"tokenizer": tokenizer}), place)
    return place


def test_a_saved_model_is_loaded_with_its_tables(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text("utf-8"))["model"]
    opened = load(folder).network
    assert config["kind"] == "ngram"
    assert len(config["ngrams"]) == 2
    assert [len(order.keys) for order in opened.decoder.orders[1:]] == config["ngrams"]
    perplexity = Language(load(folder).tokenizers["tokenizer"])
    items = perplexity.rows([Text(text, 1) for text in TEXTS], 16)
    assert 1 < perplexity.evaluate(opened, items).numbers["perplexity"] < 6


@pytest.mark.parametrize(
    ("table", "values"), [("keys", [9, 8]), ("keys", [-1, 3]), ("values", [-0.5, 2.0])]
)
def test_invalid_tables_are_refused(
    folder: Path, tmp_path: Path, table: str, values: list[float]
) -> None:
    bundle = load(folder)
    tensor = getattr(bundle.network.decoder.order2_ngram, table)
    with torch.no_grad():
        tensor[:2] = torch.tensor(values).to(tensor)
    save(bundle, tmp_path / "wrong")
    with pytest.raises(InputError, match=r"order 2.*copy the whole folder"):
        load(tmp_path / "wrong")


def test_tables_larger_than_the_file_are_refused_before_memory_is_taken(tmp_path: Path) -> None:
    config = config_from(
        {"kind": "ngram", "shape": "decoder", "head": "language", "vocab": 9, "ngrams": [1 << 40]}
    )
    with pytest.raises(InputError, match="larger model"):
        build_undrawn(config, [9])


def test_table_sizes_are_no_keys_of_a_recipe() -> None:
    with pytest.raises(ConfigError, match="ngrams is determined"):
        parse({"task": {"kind": "language"}, "model": {"kind": "ngram", "ngrams": [3]}})
    with pytest.raises(ConfigError, match="dropout"):
        parse({"task": {"kind": "language"}, "model": {"kind": "ngram", "dropout": 0.5}})


def test_every_command_works_with_an_ngram_model(folder: Path) -> None:
    model = str(folder)
    for options in (
        ["--temperature", "0"],
        ["--beam-size", "3"],
        ["--seed", "3", "--samples", "2"],
    ):
        answer = run("generate", model, "the cat", "--max-length", "6", *options)
        assert answer.returncode == 0, answer.stderr
        assert answer.stdout.startswith("the cat")
    scored = run("score", model, "-", stdin="the cat sees the dog\n")
    assert scored.returncode == 0, scored.stderr
    explained = run("explain", model, "the cat sees")
    assert explained.returncode == 0, explained.stderr
    assert "n-gram" in explained.stdout


def test_the_studio_describes_an_ngram_model(folder: Path) -> None:
    described = describe_model(PageModel("a", "model", tl.load(folder)))
    assert (described["family"], described["shape"]) == ("ngram", "decoder")
