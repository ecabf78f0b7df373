"""The word alignment model: equal to expectation maximisation in plain Python, step by step and
through the command line."""

from collections import defaultdict
from itertools import product
from math import log
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.in_process import run

import translucid as tl
from translucid.core.errors import InputError
from translucid.core.trace import Trace
from translucid.data.records import Pair
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.models import (
    GenerationInputs,
    LexiconConfig,
    LexiconModel,
    build,
    lexicon,
    word_alignment,
)
from translucid.models.lexicon import WEIGHTS
from translucid.models.word_alignment import WordAlignment, align, collect, markov, model_1
from translucid.parts.lexicon import REACH
from translucid.studio.page_model import PageModel, describe_model
from translucid.tasks.model_folder import Bundle, load, save
from translucid.tasks.translate import Translate

GERMAN = ("das", "Haus", "Buch", "ein")
ENGLISH = ("the", "house", "book", "a")
CORPUS = [("das Haus", "the house"), ("das Buch", "the book"), ("ein Buch", "a book")]
UNEVEN = [*CORPUS, ("das", "the a house"), ("ein Haus Buch", "a"), ("das Haus", "a book the the")]


def ids(text: str, words: tuple[str, ...]) -> np.ndarray:
    return np.array([words.index(word) for word in text.split()])


def numbered(corpus: list[tuple[str, str]]) -> list[tuple[np.ndarray, np.ndarray]]:
    return [(ids(german, GERMAN), ids(english, ENGLISH)) for german, english in corpus]


def table(model: WordAlignment) -> dict[tuple[str, str], float]:
    """t(english | german), by words."""
    keys = [divmod(number, len(ENGLISH)) for number in model.keys.tolist()]
    values = model.translation[:-1].tolist()
    return {(GERMAN[x], ENGLISH[y]): v for (x, y), v in zip(keys, values, strict=True)}


def plain_model_1(corpus: list[tuple[str, str]], rounds: int) -> dict[tuple[str, str], float]:
    """IBM Model 1 as in the textbook (Koehn 2010, figure 4.3), with dictionaries."""
    pairs = [(german.split(), english.split()) for german, english in corpus]
    t = {(f, e): 1.0 for fs, es in pairs for f in fs for e in es}
    sizes = {f: sum(pair[0] == f for pair in t) for f, _ in t}
    t = {pair: 1 / sizes[pair[0]] for pair in t}
    for _ in range(rounds):
        counts, total = defaultdict(float), defaultdict(float)
        for fs, es in pairs:
            for e in es:
                norm = sum(t[f, e] for f in fs)
                for f in fs:
                    counts[f, e] += t[f, e] / norm
                    total[f] += t[f, e] / norm
        t = {(f, e): counts[f, e] / total[f] for f, e in t}
    return t


@pytest.mark.parametrize("corpus", [CORPUS, UNEVEN])
def test_model_1_equals_plain_expectation_maximisation(corpus: list[tuple[str, str]]) -> None:
    batches, model = collect(numbered(corpus), len(ENGLISH))
    model.alignment.unaligned.data.fill_(0.0)
    for rounds in range(4):
        assert table(model) == pytest.approx(plain_model_1(corpus, rounds), abs=1e-12)
        model_1(batches, model)
    assert plain_model_1(CORPUS, 30)["das", "the"] > 0.99  # it finds the translations


def every_alignment(
    corpus: list[tuple[str, str]], model: WordAlignment
) -> tuple[float, dict[tuple[str, str], float], np.ndarray]:
    """The log-likelihood, the next lexicon and the expected jumps, from all alignments one by
    one."""
    t, unigram = table(model), dict(zip(ENGLISH, model.unigram.tolist(), strict=True))
    epsilon = float(model.alignment.unaligned)
    distances = model.alignment.distances.tolist()
    counts, jumps, likelihood = defaultdict(float), np.ones(2 * REACH + 1), 0.0
    for german, english in corpus:
        fs, es = german.split(), english.split()

        def jump(before: int, after: int, size: int = len(fs)) -> float:
            weights = [distances[k - before + REACH] for k in range(size)]
            return weights[after] / sum(weights)

        weighted = []
        for path in product(range(len(fs)), repeat=len(es)):
            p, before = 1.0, -1
            for j, e in zip(path, es, strict=True):
                p *= jump(before, j) * ((1 - epsilon) * t[fs[j], e] + epsilon * unigram[e])
                before = j
            weighted.append((path, p))
        whole = sum(p for _, p in weighted)
        likelihood += log(whole)
        for path, p in weighted:
            for before, j, e in zip((-1, *path), path, es, strict=False):
                aligned = (1 - epsilon) * t[fs[j], e]
                counts[fs[j], e] += p / whole * aligned / (aligned + epsilon * unigram[e])
                jumps[j - before + REACH] += p / whole
    total = defaultdict(float)
    for (f, _), count in counts.items():
        total[f] += count
    new = {pair: counts[pair] / total[pair[0]] for pair in t}
    return likelihood, new, jumps / jumps.sum()


def test_markov_equals_a_sum_over_every_alignment() -> None:
    batches, model = collect(numbered(UNEVEN), len(ENGLISH))
    model_1(batches, model)
    for _ in range(2):
        likelihood, lexicon, jumps = every_alignment(UNEVEN, model)
        assert markov(batches, model) == pytest.approx(likelihood, abs=1e-9)
        assert table(model) == pytest.approx(lexicon, abs=1e-9)
        np.testing.assert_allclose(model.alignment.distances.numpy(), jumps, atol=1e-9)


def random_texts() -> tuple[torch.Tensor, torch.Tensor]:
    """Sources and targets; the target is longer, and reversed."""
    source = torch.randint(11, (40, 6), generator=torch.Generator().manual_seed(3))
    target = torch.cat([torch.full((40, 1), 8), source.flip(1) % 8, source[:, :1] % 8], dim=1)
    return source, target


def network() -> LexiconModel:
    """Fitted to random pairs."""
    source, target = random_texts()
    sizes = {"vocab": 11, "target_vocab": 9, "order": 3}
    made = build(LexiconConfig(shape="encoder-decoder", head="language", **sizes)).double()
    assert isinstance(made, LexiconModel)
    given = {"source": source, "target": target[:, :-1]}
    given |= {
        f"{side}_mask": torch.ones_like(given[side], dtype=torch.bool) for side in list(given)
    }
    made.fit([(given, target[:, 1:])])
    return made


SOURCE = torch.tensor([[1, 4, 2, 6], [5, 3, 7, 2], [9, 1, 3, 3]])
SOURCE_MASK = torch.tensor([[True, True, True, False], [False, True, True, True], [True] * 4])
TARGET = torch.tensor([[8, 1, 4, 1, 5, 2], [8, 6, 5, 3, 5, 1], [7, 8, 1, 1, 2, 4]])
MASK = torch.tensor([[False, True, True], [True, True, False], [True, False, True]])


def test_steps_with_padding_and_beams_equal_reading_at_once() -> None:
    model = network()
    whole = torch.cat([MASK, torch.ones(3, 3, dtype=torch.bool)], dim=1)
    logits = model(SOURCE, TARGET, SOURCE_MASK, whole)
    state = model.start(GenerationInputs.of(SOURCE, SOURCE_MASK), 9)
    torch.testing.assert_close(model.step(TARGET[:, :3], state, MASK), logits[:, :3])
    for row in range(3):  # padding is as if it were not there
        alone = model(SOURCE[row][SOURCE_MASK[row]][None], TARGET[row][whole[row]][None])[0]
        torch.testing.assert_close(logits[row][whole[row]], alone)
    state.expand(2)
    rows = torch.tensor([0, 0, 1, 1, 2, 2])  # the source of each row
    text, read = TARGET[rows, :3], MASK[rows]
    for t in range(3, 7):
        newest = (torch.arange(6)[: len(text), None] + t) % 9  # beams differ
        text = torch.cat([text, newest], dim=1)
        read = torch.cat([read, torch.ones_like(newest, dtype=torch.bool)], dim=1)
        stepped = model.step(newest, state)[:, 0]
        torch.testing.assert_close(
            stepped, model(SOURCE[rows], text, SOURCE_MASK[rows], read)[:, -1]
        )
        if t == 4:
            state.follow(torch.tensor([[1, 0], [0, 0], [1, 1]]))
            text, read = (x[[1, 0, 2, 2, 5, 5]] for x in (text, read))
        if t == 5:
            state.select(torch.tensor([2, 0]))
            rows, text, read = (x[[4, 5, 0, 1]] for x in (rows, text, read))


def test_the_alignment_is_a_distribution_over_real_source_tokens() -> None:
    model, trace = network(), Trace()
    model(SOURCE, TARGET, SOURCE_MASK, trace=trace)
    pattern = trace["decoder.alignment.pattern"]  # (batch, target, source)
    assert pattern.shape == (3, 6, 4)
    torch.testing.assert_close(pattern.sum(-1), torch.ones(3, 6).double())
    assert not pattern.masked_select(~SOURCE_MASK[:, None].expand_as(pattern)).any()
    for point in ("decoder.language.order3_ngram.probability", "decoder.alignment.mixture"):
        torch.testing.assert_close(
            trace[point].sum(-1), torch.ones(3, 6).double(), rtol=1e-6, atol=0
        )


def test_the_weights_maximise_the_probability_of_held_out_pairs() -> None:
    """Nothing near the weights that were found makes the pairs more probable."""
    model = network()
    dice = torch.Generator().manual_seed(4)
    source = torch.randint(11, (12, 6), generator=dice)
    texts = [np.append([8], row) for row in (source.flip(1) % 8).numpy()]
    for n, text in enumerate(texts):  # no weights make all of them certain
        text[2:5] = (text[2:5] + n) % 8
    pairs = [(row, text[1:]) for row, text in zip(source.numpy(), texts, strict=True)]
    model._weigh(pairs, texts)
    found = model.head.weights.clone()

    def likelihood(weights: torch.Tensor) -> float:
        model.head.weights.data.copy_(weights)
        target = torch.from_numpy(np.stack(texts))
        log_probs = model(source, target[:, :-1]).log_softmax(-1)
        return float(log_probs.gather(2, target[:, 1:, None]).sum())

    best = likelihood(found)
    for change in ((0.05, 0.0), (-0.05, 0.0), (0.0, 0.05), (0.0, -0.05)):
        assert likelihood((found + torch.tensor(change)).clamp(*WEIGHTS)) <= best
    assert WEIGHTS[0] < found[1] < WEIGHTS[1]


@pytest.mark.parametrize(("few", "held_out"), [(40, [9, 19, 29, 39]), (41, [])])
def test_held_out_pairs_are_learned_too_if_there_are_few(
    few: int, held_out: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lexicon, "FEW", few)
    pairs = [(s.numpy(), t[1:].numpy()) for s, t in zip(*random_texts(), strict=True)]
    model = network()
    expected = align([pair for n, pair in enumerate(pairs) if n not in held_out], 9)
    np.testing.assert_array_equal(model.encoder.lexicon.keys.numpy(), expected.keys)
    torch.testing.assert_close(model.decoder.alignment.unigram, expected.unigram)


EN = ["the house", "the book", "a book", "a house is small", "the book is small", "the dog sleeps",
      "a dog sees the house", "the house is red", "a red book", "a small dog"] * 2  # fmt: skip
DE = ["das Haus", "das Buch", "ein Buch", "ein Haus ist klein", "das Buch ist klein",
      "der Hund schläft", "ein Hund sieht das Haus", "das Haus ist rot", "ein rotes Buch",
      "ein kleiner Hund"] * 2  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source, target = Tokenizer.train("space", EN), Tokenizer.train("space", DE)
    task = Translate(source, target)
    pairs = [Pair(en, de, n) for n, (en, de) in enumerate(zip(EN, DE, strict=True), start=1)]
    batch = task.collate(task.encode_all(pairs))
    sizes = {"vocab": len(source), "target_vocab": len(target)}
    made = build(LexiconConfig(shape="encoder-decoder", head="language", **sizes))
    made.fit([(batch.inputs, batch.targets)])
    place = tmp_path_factory.mktemp("lexicon") / "model"
    save(Bundle(made, "translate", {"source": source, "target": target}), place)
    return place


def test_every_command_works_with_a_lexicon(folder: Path) -> None:
    model = str(folder)
    for options in ([], ["--beam-size", "1"], ["--sample", "--seed", "2"], ["--n-best", "2"]):
        answer = run("translate", model, *options, stdin="the book is small\na house\n")
        assert answer.returncode == 0, answer.stderr
    greedy = run("translate", model, "--beam-size", "1", stdin="the book is small\na house\n")
    assert greedy.stdout.splitlines() == ["das Buch ist klein", "ein Haus"]
    explained = run("explain", model, "the book is small")
    assert explained.returncode == 0, explained.stderr
    assert "word alignment" in explained.stdout


def test_the_alignment_of_a_translation_follows_the_words(folder: Path) -> None:
    model = tl.load(folder)
    trace = model.trace("the book is small", "das Buch ist klein")
    pattern = trace["decoder.alignment.pattern"][0]
    assert pattern.argmax(dim=-1).tolist() == [0, 1, 2, 3, 4]  # and the end with the end
    described = describe_model(PageModel("a", "model", model))
    assert (described["family"], described["shape"]) == ("lexicon", "encoder-decoder")


def test_invalid_tables_are_refused(folder: Path, tmp_path: Path) -> None:
    bundle = load(folder)
    bundle.network.encoder.lexicon.keys[0] = -7
    save(bundle, tmp_path / "wrong")
    with pytest.raises(InputError, match="lexicon"):
        load(tmp_path / "wrong")


def test_of_a_large_corpus_some_pairs_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    align = word_alignment.align
    monkeypatch.setattr("translucid.models.lexicon.MOST_CELLS", 720)
    monkeypatch.setattr(
        word_alignment, "align", lambda pairs, vocab: seen.append(len(pairs)) or align(pairs, vocab)
    )
    network()  # 40 pairs of 6 by 7 tokens: 1,680
    assert seen == [12, 14]
