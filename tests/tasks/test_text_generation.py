"""Text in, text out: every way to write agrees with another way to compute it."""

import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
import torch
from tests.invariants.cases import randomised, recurrent, transformer

from translucid.core.errors import ConfigError, InputError
from translucid.core.trace import Trace
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.generate import constraints
from translucid.generate.beam_search import GenerationConfig, Round
from translucid.generate.decode import find
from translucid.generate.sampler import TextStream
from translucid.generate.sampling import SamplingConfig
from translucid.generate.word_constraints import WordConstraints, spellings
from translucid.models import GenerationInputs
from translucid.tasks.generator import Generator, settings
from translucid.tasks.language import Language
from translucid.tasks.translate import Translate

LETTERS = Tokenizer.train("char", ["abcdefg "])
SIZE = {"vocab": len(LETTERS)}
FAMILIES: dict[str, Any] = {
    "transformer translator": transformer("encoder-decoder", positions="rotary", **SIZE),
    "lstm translator": recurrent("encoder-decoder", attention="additive", **SIZE),
    "transformer": transformer("decoder", positions="alibi", **SIZE),
    "learned": transformer("decoder", positions="learned", **SIZE),
    "gru": recurrent("decoder", cell="gru", **SIZE),
}
TRANSLATORS = [name for name in FAMILIES if "translator" in name]
LANGUAGE = [name for name in FAMILIES if name not in TRANSLATORS]
TEXTS = ["abc", "g", "fedcba", "a b", "c"]
every = pytest.mark.parametrize("name", FAMILIES)
translators = pytest.mark.parametrize("name", TRANSLATORS)
language = pytest.mark.parametrize("name", LANGUAGE)
HOW = GenerationConfig(beam_size=3, n_best=3, max_length=12)


@cache
def text_generator(name: str) -> Generator:
    network = randomised(FAMILIES[name])
    task = Translate(LETTERS, LETTERS) if name in TRANSLATORS else Language(LETTERS)
    return Generator(task, network)


# --- search


@every
def test_a_batch_equals_one_by_one(name: str) -> None:
    together = text_generator(name).search(TEXTS, HOW)
    for text, found in zip(TEXTS, together, strict=True):
        (alone,) = text_generator(name).search([text], HOW)
        assert found.source == text
        assert [t.text for t in found.texts] == [t.text for t in alone.texts]
        assert found.texts[0].token_log_probs == pytest.approx(alone.texts[0].token_log_probs)


@every
def test_candidates_are_consistent(name: str) -> None:
    for found in text_generator(name).search(
        TEXTS, GenerationConfig(beam_size=4, n_best=4, alpha=0.5, max_length=9)
    ):
        assert [t.score for t in found.texts] == sorted(
            (t.score for t in found.texts), reverse=True
        )
        for text in found.texts:
            assert len(text.pieces) == len(text.token_log_probs)
            assert (text.pieces[-1] == "</s>") == text.finished
            assert text.log_probability == pytest.approx(sum(text.token_log_probs))
            assert text.score == pytest.approx(
                text.log_probability / len(text.token_log_probs) ** 0.5
            )
            start = "" if name in TRANSLATORS else found.source
            written = text.pieces[:-1] if text.finished else text.pieces
            assert text.text == start + "".join(p for p in written if p not in ("<pad>", "<s>"))


@every
def test_scores_equal_those_of_the_search(name: str) -> None:
    met = 0
    for text in TEXTS:
        (found,) = text_generator(name).search(
            [text], GenerationConfig(beam_size=20, n_best=20, max_length=6)
        )
        for each in found.texts:
            if not each.finished or any(token <= LETTERS.unk_id for token in each.tokens):
                continue  # a text of such tokens is read as other tokens
            met += 1
            if name in TRANSLATORS:
                (scored,) = text_generator(name).scores([text], [each.text])
                assert scored.pieces == each.pieces
                assert scored.token_log_probs == pytest.approx(each.token_log_probs)
                assert scored.log_probability == pytest.approx(each.log_probability)
            else:
                (scored,) = text_generator(name).scores([each.text], None)
                assert scored.token_log_probs[len(text) :] == pytest.approx(each.token_log_probs)
    assert met > 3


@every
def test_scores_of_a_batch_equal_one_by_one(name: str) -> None:
    targets = ["b", "gfa", "", "aaaaaaa", "d"] if name in TRANSLATORS else None
    together = text_generator(name).scores(TEXTS, targets)
    for i, scored in enumerate(together):
        (alone,) = text_generator(name).scores([TEXTS[i]], targets and [targets[i]])
        assert scored.pieces == alone.pieces
        assert scored.token_log_probs == pytest.approx(alone.token_log_probs)
        read = (targets or TEXTS)[i]
        assert scored.pieces == [*read, "</s>"]


@translators
def test_a_prefix_equals_forced_tokens(name: str) -> None:
    plain = GenerationConfig(beam_size=3, n_best=3, alpha=0.0, max_length=8)
    longer = GenerationConfig(beam_size=3, n_best=3, alpha=0.0, max_length=10)
    for text in TEXTS:
        (begun,) = text_generator(name).search([text], plain, prefix="ga")
        (forced,) = text_generator(name).search([text], longer, WordConstraints(force={0: "ga"}))
        assert all(t.text.startswith("ga") for t in begun.texts)
        assert [t.text for t in begun.texts] == [t.text for t in forced.texts]
        for one, other in zip(begun.texts, forced.texts, strict=True):
            assert one.token_log_probs == pytest.approx(other.token_log_probs[2:])


@every
def test_forced_words_stand_at_their_places(name: str) -> None:
    word_constraints = WordConstraints(
        force={0: "f", 2: "d"}
    )  # after the first place, a space comes first
    for found in text_generator(name).search(TEXTS, HOW, word_constraints):
        for each in found.texts:
            assert each.pieces[0] == "f"
            assert each.pieces[2:4] == [" ", "d"]


@every
def test_forbidden_words_are_not_written(name: str) -> None:
    free = text_generator(name).search(TEXTS, HOW)
    seen = {piece for found in free for t in found.texts for piece in t.pieces} - {"</s>"}
    seen = {piece for piece in seen if len(piece) == 1 and piece != " "}
    assert seen
    for found in text_generator(name).search(TEXTS, HOW, WordConstraints(forbid=sorted(seen))):
        assert not {piece for t in found.texts for piece in t.pieces} & seen


@every
def test_a_forbidden_word_of_several_tokens(name: str) -> None:
    pairs = {
        t.pieces[i] + t.pieces[i + 1]
        for found in text_generator(name).search(
            TEXTS, GenerationConfig(beam_size=20, n_best=20, max_length=12)
        )
        for t in found.texts
        for i in range(len(t.pieces) - 1)
    }
    pairs = {pair for pair in pairs if re.fullmatch("[a-g]{2}", pair)}
    assert pairs
    for found in text_generator(name).search(TEXTS, HOW, WordConstraints(forbid=sorted(pairs))):
        for t in found.texts:
            written = "|".join(t.pieces)
            assert not any(f"{pair[0]}|{pair[1]}" in written for pair in pairs)


@every
def test_no_repeat_and_repetition_do_not_count_the_start(name: str) -> None:
    """A language model starts with the end of the text before; a text may still end."""
    how = GenerationConfig(beam_size=8, n_best=8, no_repeat_ngram=1, max_length=12)
    found = text_generator(name).search(TEXTS, how)
    assert any(t.finished for each in found for t in each.texts)
    for each in found:
        given = [] if name in TRANSLATORS else list(each.source)
        for t in each.texts:
            tokens = [*given, *t.pieces]
            assert len(set(tokens)) == len(tokens) or len(set(given)) < len(given)


@every
@pytest.mark.parametrize("shortest", [0, 5])
def test_shortest_and_longest(name: str, shortest: int) -> None:
    how = GenerationConfig(beam_size=3, n_best=3, min_length=shortest, max_length=7)
    for found in text_generator(name).search(TEXTS, how):
        for text in found.texts:
            assert shortest <= len(text.tokens)
            assert len(text.token_log_probs) <= 7


@every
def test_groups_without_penalty_are_independent_searches(name: str) -> None:
    small = text_generator(name).search(
        TEXTS, GenerationConfig(beam_size=2, n_best=2, max_length=9)
    )
    groups = GenerationConfig(
        beam_size=6, n_best=6, beam_groups=3, diversity_penalty=0.0, max_length=9
    )
    for one, three in zip(small, text_generator(name).search(TEXTS, groups), strict=True):
        expected = sorted(t.text for t in one.texts for _ in range(3))
        assert sorted(t.text for t in three.texts) == expected


@every
def test_groups_with_diversity_begin_differently(name: str) -> None:
    how = GenerationConfig(
        beam_size=3, n_best=3, beam_groups=3, diversity_penalty=50.0, max_length=9
    )
    for found in text_generator(name).search(TEXTS, how):
        assert len({t.pieces[0] for t in found.texts}) == 3


@every
def test_the_tree_leads_to_the_text(name: str) -> None:
    for found in text_generator(name).search(TEXTS, HOW, WordConstraints(forbid=["g"]), tree=True):
        assert found.tree is not None
        chosen = [node.token for node in found.tree.nodes[1:] if node.chosen]
        best = found.texts[0]
        assert chosen == best.tokens + [LETTERS.eos_id] * best.finished
        reasons = {node.why for node in found.tree.nodes if node.fate == "forbidden"}
        assert reasons <= {"'g' is forbidden"}
        data = found.as_dict(LETTERS)
        assert [n["piece"] for n in data["tree"]["nodes"] if n["chosen"]][1:] == best.pieces


@translators
def test_an_empty_source_has_an_empty_text(name: str) -> None:
    for tree in (False, True):
        found = text_generator(name).search(["abc", "", "d"], HOW, prefix="a", tree=tree)[1]
        assert [t.text for t in found.texts] == [""]
        assert found.tree is None
    drawn = text_generator(name).sample(["", "a"], SamplingConfig(), HOW, samples=2)
    assert [t.text for t in drawn[0].texts] == ["", ""]


# --- attention and gates of the final hypothesis


class Stepwise:
    """A model that keeps a trace of every step."""

    def __init__(self, model: Any, keep: list[str]) -> None:
        self.model, self.keep = model, keep
        self.start, self.max_length, self.device = model.start, model.max_length, model.device
        self.traces: list[Trace] = []

    def step(self, tokens: Any, state: Any, mask: Any = None, trace: Any = None) -> Any:
        self.traces.append(Trace(self.keep))
        return self.model.step(tokens, state, mask, self.traces[-1])


POINTS = {
    "transformer translator": ["decoder.layers.*.cross_attention.pattern"],
    "lstm translator": [
        "decoder.alignment.pattern",
        "decoder.recurrent.*_gate",
        "decoder.recurrent.*.cell",
    ],
}


@translators
@pytest.mark.parametrize("prefix", ["", "ga"])
def test_the_trace_of_a_text_equals_those_of_the_search_steps(name: str, prefix: str) -> None:
    """Beam by beam back from the best text, each step traced when it was taken."""
    model, keep = text_generator(name).network, POINTS[name]
    how, moved = GenerationConfig(beam_size=5, max_length=9, min_length=5), False
    lively = constraints.behind_start(constraints.no_repeat(1))
    for text in TEXTS:
        stepwise, rounds = Stepwise(model, keep), list[Round]()
        source = torch.tensor([[*LETTERS.encode(text), LETTERS.eos_id]])
        start = [LETTERS.bos_id, *LETTERS.encode(prefix)]
        ((best,),) = find(
            stepwise, [start], GenerationInputs.of(source), how, eos=LETTERS.eos_id,
            pad=LETTERS.pad_id, watch=rounds.append, extra=[lively],
        )  # fmt: skip
        (found,) = text_generator(name).search(
            [text], settings(how, {"no_repeat_ngram": 1}), prefix=prefix
        )
        assert found.texts[0].tokens == best.tokens
        trace = Trace(keep)
        (item,) = text_generator(name).items([text], prefix)
        text_generator(name).read(item, found.texts[0], trace)
        trace.check()
        steps = stepwise.traces[len(stepwise.traces) - len(rounds) :]  # behind the prefix
        ranking = rounds[-1].after.ranking(how.alpha)[0]
        place = int(ranking.argmax())
        for number in range(len(rounds) - 1, -1, -1):
            moved |= int(rounds[number].parents[0, place]) != place
            was_live = not bool(rounds[number].before.finished[0, place])
            place = int(rounds[number].parents[0, place])
            if not was_live:
                continue  # it had ended, and others were still being written
            for point in trace:
                step, whole = steps[number][point], trace[point]
                mine = step[..., place, :] if "pattern" in point else step[place, 0]
                at = len(prefix) + number
                seen = whole[..., at, :] if "pattern" in point else whole[0, at]
                torch.testing.assert_close(mine.squeeze(0), seen.squeeze(0))
    assert moved, "a text that never changed its beam shows nothing"


# --- drawing


@language
@pytest.mark.parametrize("stop", [(), ("ab", "c"), (" ",)])
def test_a_stream_equals_the_sampled_text(name: str, stop: tuple[str, ...]) -> None:
    how = GenerationConfig(max_length=20)
    together = text_generator(name).sample(
        TEXTS, SamplingConfig(), how, seed=5, samples=2, stop=stop
    )
    for text, found in zip(TEXTS, together, strict=True):
        for number, drawn in enumerate(found.texts):
            pieces = list(
                text_generator(name).sample_stream(
                    text, SamplingConfig(), how, seed=5, sample=number, stop=stop
                )
            )
            assert "".join(pieces) == drawn.text
            assert pieces[0] == text
        assert found.texts[0].text != found.texts[1].text or stop


@language
def test_a_text_ends_before_the_first_stop(name: str) -> None:
    how = GenerationConfig(max_length=20)
    free = text_generator(name).sample(TEXTS, SamplingConfig(), how)
    pairs = re.findall("(?=([a-g]{2}))", " ".join(t.texts[0].text[len(t.source) :] for t in free))
    stop = [Counter(pairs).most_common(1)[0][0], "<s", "fa"]
    cut = text_generator(name).sample(TEXTS, SamplingConfig(), how, stop=stop)
    changed = 0
    for text, one, other in zip(TEXTS, free, cut, strict=True):
        written = one.texts[0].text[len(text) :]
        expected = re.split("|".join(stop), written)[0]
        assert other.texts[0].text == text + expected
        changed += expected != written
        assert other.texts[0].finished == (one.texts[0].finished or expected != written)
    assert changed


@every
def test_sampled_texts_obey_constraints(name: str) -> None:
    how = GenerationConfig(max_length=15, min_length=4, no_repeat_ngram=1)
    for found in text_generator(name).sample(
        TEXTS, SamplingConfig(), how, WordConstraints(forbid=["a"]), samples=3
    ):
        for t in found.texts:
            assert "a" not in t.pieces
            assert len(t.tokens) >= 4
            assert len(set(t.pieces)) == len(t.pieces)


@every
def test_log_probabilities_of_sampled_texts_are_the_models_own(name: str) -> None:
    for text in TEXTS:
        by = SamplingConfig(temperature=0.5, top_k=4)
        (found,) = text_generator(name).sample([text], by, GenerationConfig(max_length=9))
        t = found.texts[0]
        if t.finished and all(token > LETTERS.unk_id for token in t.tokens):
            args = ([text], [t.text]) if name in TRANSLATORS else ([t.text], None)
            (scored,) = text_generator(name).scores(*args)
            assert scored.token_log_probs[
                len(scored.token_log_probs) - len(t.token_log_probs) :
            ] == pytest.approx(t.token_log_probs)


@every
def test_temperature_0_is_a_beam_of_1(name: str) -> None:
    drawn = text_generator(name).sample(
        TEXTS, SamplingConfig(temperature=0), GenerationConfig(max_length=9)
    )
    for one, other in zip(
        drawn,
        text_generator(name).search(TEXTS, GenerationConfig(beam_size=1, max_length=9)),
        strict=True,
    ):
        assert one.texts[0].text == other.texts[0].text


# --- telling, in bytes


def told(stream: TextStream, tokens: list[int]) -> Iterator[str]:
    yield stream.begin()
    for token in tokens:
        yield stream.add(token)
    yield stream.end()


def test_half_a_character_is_held_back() -> None:
    tokenizer = Tokenizer.train("bytes", ["a"])
    pieces = list(
        told(TextStream(tokenizer, tokenizer.encode("ü"), []), tokenizer.encode("né€😀!"))
    )
    assert pieces == ["ü", "n", "", "é", "", "", "€", "", "", "", "😀", "!", ""]


def test_a_broken_character_is_sent_at_the_end() -> None:
    tokenizer = Tokenizer.train("bytes", ["a"])
    tokens = tokenizer.encode("a€")[:-1]
    assert list(told(TextStream(tokenizer, [], []), tokens)) == ["", "a", "", "", "\ufffd"]


def test_what_may_become_a_stop_is_held_back() -> None:
    stream = TextStream(LETTERS, LETTERS.encode("abc"), ["abd"])
    assert list(told(stream, LETTERS.encode("aabc"))) == ["abc", "", "a", "", "abc", ""]
    assert not stream.stopped
    stream = TextStream(LETTERS, [], ["abd"])
    assert list(told(stream, LETTERS.encode("cabd"))) == ["", "c", "", "", "", ""]
    assert (stream.stopped, stream.text) == (True, "c")
    stream = TextStream(LETTERS, [], ["b", "ab"])  # both are complete at once: the earlier counts
    assert list(told(stream, LETTERS.encode("cab"))) == ["", "c", "", "", ""]
    assert (stream.stopped, stream.text) == (True, "c")


# --- words and settings


def test_spellings_of_a_word() -> None:
    words = Tokenizer.train("word", ["Der Hund. Ein Hund schläft."])
    assert spellings(words, "Hund") == [[words.vocab["▁Hund"]]]
    assert [words.vocab["."]] in spellings(words, ".")
    bpe = Tokenizer.train("bpe", ["Hund Hund Hund a. a."] * 5, 300)
    for run in spellings(bpe, "Hund"):
        assert bpe.decode(run).strip() == "Hund"
    assert len(spellings(bpe, "Hund")) == 2  # with a space before it, and without


@pytest.mark.parametrize(
    ("word_constraints", "message"),
    [
        (WordConstraints(forbid=["xyz"]), "forbid: 'xyz' is not in the vocabulary"),
        (WordConstraints(forbid=[" "]), "forbid: .*an empty word"),
        (WordConstraints(force={0: "xyz"}), "force: 'xyz' is not in the vocabulary"),
        (WordConstraints(force={-1: "a"}), "'a' .*position -1; positions start at 0"),
        (
            WordConstraints(force={0: "abc", 1: "d"}),
            "'abc' and 'd' both need position 1: 'd' is 2 tokens,   \\+ d",
        ),
    ],
)
def test_constraints_that_cannot_be_met(word_constraints: WordConstraints, message: str) -> None:
    with pytest.raises(InputError, match=message):
        text_generator("gru").search(["a"], HOW, word_constraints)


def test_a_word_in_place_of_a_list_is_refused() -> None:
    with pytest.raises(InputError, match=r"forbid = 'Hund': .*list of words.* write \['Hund'\]"):
        WordConstraints(forbid="Hund")
    with pytest.raises(InputError, match=r"stop = 'x': .*list of texts"):
        text_generator("gru").sample(["a"], SamplingConfig(), HOW, stop="x")
    with pytest.raises(InputError, match="would stop generation at once"):
        list(text_generator("gru").sample_stream("a", SamplingConfig(), HOW, stop=[""]))


def test_the_beam_grows_with_n_best_and_groups_unless_given() -> None:
    assert settings(GenerationConfig(beam_size=4), {"n_best": 6}).beam_size == 6
    assert settings(GenerationConfig(beam_size=4), {"beam_groups": 3}).beam_size == 6
    assert settings(GenerationConfig(beam_size=4), {"n_best": 2}).beam_size == 4
    with pytest.raises(ConfigError, match="n_best 6 is more than beam_size 4"):
        settings(GenerationConfig(), {"n_best": 6, "beam_size": 4})
    with pytest.raises(ConfigError, match=r"^beam: no such key; did you mean beam_size\?$"):
        settings(GenerationConfig(), {"beam": 4})
