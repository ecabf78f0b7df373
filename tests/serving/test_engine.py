"""A served answer = the library's answer, whatever else is in the batch."""

import math
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from threading import Event as Flag
from typing import Any

import pytest
import torch
from tests.studio.serving import model as untrained

from translucid.core.errors import InputError, TranslucidError
from translucid.fast import cpu_kernels
from translucid.fast.decode_graphs import DecodeGraphs
from translucid.fast.decode_step import DecodeStep
from translucid.fast.fixed_rows import FixedRows
from translucid.generate import GenerationConfig, SamplingConfig
from translucid.generate.decode import CapturedSearch
from translucid.generate.decoded import Decoded
from translucid.generate.word_constraints import WordConstraints
from translucid.model import Model, load
from translucid.serving import (
    Answered,
    Engine,
    EngineClosed,
    Event,
    Failed,
    Finished,
    Job,
    Limits,
    Piece,
    PromptRead,
    QueueFull,
    Ticket,
    TooLate,
    fixed_batch,
)  # fmt: skip
from translucid.serving.admission import Admission
from translucid.serving.request import Request
from translucid.serving.search_batch import SearchBatch

SMALL = Limits(rows=12, prompt_chunk=6)
SOURCES = (
    "The dog sleeps.", "The old dog does not like the cat.", "She has not seen the small bird.",
    "This curious man reads.", "",
)  # fmt: skip
PROMPTS = ("The ", "She has not", "The old dog does not like the small cat because", "This man")
WAIT = 300.0  # seconds


@cache
def model(name: str) -> Model:
    return load(f"demo:{name}")


@contextmanager
def serving(name: str, limits: Limits = SMALL) -> Iterator[Engine]:
    engine = Engine(model(name), limits)
    try:
        yield engine
    finally:
        assert engine.close(drain=False, timeout=WAIT)
        stats = engine.stats()
        assert (stats["rows"], stats["waiting"], stats["running"]) == (0, 0, 0)
        assert not engine._scheduler.busy
        assert not engine._scheduler._batches


class Client:
    """Submits jobs one after another, more at every few events, and keeps what comes back. All but
    the first jobs are submitted in the engine's thread, so the schedule does not depend on time."""

    def __init__(
        self, engine: Engine, jobs: Sequence[Job], seed: int = 0, cancels: Sequence[int] = ()
    ) -> None:
        self.engine, self.jobs, self.dice = engine, jobs, random.Random(seed)
        self.events: list[list[Event]] = [[] for _ in jobs]
        self.tickets: list[Any] = []
        self.cancels, self.cancelled_at = set(cancels), dict[int, float]()
        self.steps_at_end: dict[int, float] = {}
        self.all_done = Flag()
        for _ in range(3):
            self.submit()

    def submit(self) -> None:
        number = len(self.tickets)
        if number == len(self.jobs):
            return
        self.tickets.append(None)
        self.tickets[number] = self.engine.submit(self.jobs[number], lambda e: self.hear(number, e))

    def hear(self, number: int, event: Event) -> None:
        self.events[number].append(event)
        if isinstance(event, Finished | Failed):
            self.steps_at_end[number] = self.engine.stats()["steps"]
            if len(self.steps_at_end) == len(self.jobs):
                self.all_done.set()
            self.submit()
        elif self.dice.random() < 0.2:
            self.submit()
        if number in self.cancels and number not in self.cancelled_at and self.tickets[number]:
            self.cancelled_at[number] = self.engine.stats()["steps"]
            self.tickets[number].cancel()

    def wait(self) -> list[Finished]:
        assert self.all_done.wait(WAIT)
        last = [events[-1] for events in self.events]
        failed = [event.error for event in last if isinstance(event, Failed)]
        assert not failed, failed
        return [event for event in last if isinstance(event, Finished)]


def from_the_library(of: Model, job: Job) -> Decoded:
    options = dict(job.generation)
    assert isinstance(job.prompt, str)
    if job.sampling is None:
        if job.n > 1:
            options["n_best"] = job.n
        words = {"forbid": job.forbid, "force": job.force}
        return of.decode([job.prompt], prefix=job.prefix, tree=job.tree, **words, **options)[0]
    generator = of.text_generator
    return generator.sample(
        [job.prompt], job.sampling, generator.generation_config(**options),
        WordConstraints(job.forbid, job.force),
        seed=job.seed, samples=job.n, prefix=job.prefix, stop=job.stop,
    )[0]  # fmt: skip


def same(served: Decoded, own: Decoded, tolerance: float = 1e-5) -> None:
    """Assert that two results are equal: texts and log-probabilities."""
    assert [text.text for text in served.texts] == [text.text for text in own.texts]
    for one, two in zip(served.texts, own.texts, strict=True):
        assert (one.pieces, one.finished) == (two.pieces, two.finished)
        assert one.token_log_probs == pytest.approx(
            two.token_log_probs, abs=tolerance, rel=tolerance
        )
        assert one.score == pytest.approx(two.score, abs=tolerance * 10, rel=tolerance)


def random_settings(dice: random.Random) -> dict[str, Any]:
    """Settings of a search that requests can share, as arguments of Job."""
    generation: dict[str, Any] = {}
    if dice.random() < 0.3:
        generation |= dice.choice(({"no_repeat_ngram": 1}, {"repetition_penalty": 1.5}))
    options: dict[str, Any] = {"generation": generation}
    if dice.random() < 0.2:
        options["forbid"] = ["."]
    if dice.random() < 0.1:
        options["force"] = {1: 7}
    if dice.random() < 0.5:
        options["sampling"] = dice.choice(
            (SamplingConfig(temperature=0), SamplingConfig(), SamplingConfig(top_k=5, top_p=0.9))
        )
    else:
        generation["beam_size"] = 3
        options["n"] = dice.choice((1, 2))
        if dice.random() < 0.4:
            generation |= {"early_stopping": dice.choice((True, False)), "alpha": 0.7}
        elif dice.random() < 0.2:
            generation |= {"beam_size": 4, "beam_groups": 2}
    return options


def random_job(dice: random.Random, settings: dict[str, Any], prompts: Sequence[str]) -> Job:
    """A job with these settings, and with its own prompt, lengths and seed."""
    most = dice.choice((1, 5, 9, 14))
    generation = {**settings["generation"], "max_length": most}
    if dice.random() < 0.3:
        generation["min_length"] = dice.choice((0, most - 1))
    options = {**settings, "generation": generation}
    if "sampling" in settings:
        options |= {"seed": dice.randrange(3), "top_logprobs": dice.choice((0, 2))}
        options |= {"n": dice.choice((1, 1, 3)), "stop": dice.choice(((), (), ("a",)))}
    return Job(dice.choice(prompts), **options)


@pytest.mark.parametrize("name", ["translate", "translate-lstm", "generate", "generate-rnn"])
def test_served_equals_library(name: str) -> None:
    """Jobs of all kinds join and leave at random; some are cancelled."""
    dice = random.Random(name)
    prompts = SOURCES if "translate" in name else PROMPTS
    settings: list[dict[str, Any]] = [
        {"generation": {"beam_size": 3}, "n": 2},
        {"generation": {"beam_size": 3, "early_stopping": True}},
        {"generation": {}, "sampling": SamplingConfig()},
    ]
    settings += [random_settings(dice) for _ in range(3)]
    jobs = [random_job(dice, dice.choice(settings), prompts) for _ in range(40)]
    with serving(name) as engine:
        client = Client(engine, jobs, cancels=range(3, 40, 5))
        finished = client.wait()
    kept = [n for n in range(len(jobs)) if "cancelled" not in finished[n].reasons]
    assert len(kept) > 30
    for number in kept:
        own = from_the_library(model(name), jobs[number])
        same(finished[number].decoded, own)
        reasons = ["stop" if text.finished else "length" for text in own.texts]
        assert list(finished[number].reasons) == reasons
        if jobs[number].sampling is not None and jobs[number].prompt:
            check_pieces(jobs[number], client.events[number], own)


@pytest.fixture
def fixed_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Engines have the batch of a GPU, here without graphs."""
    monkeypatch.setattr(cpu_kernels, "available", lambda: False)
    monkeypatch.setattr(FixedRows, "fits", staticmethod(DecodeStep.fits))
    monkeypatch.setattr(fixed_batch, "LEAST_SLOTS", 16)


@pytest.mark.usefixtures("fixed_rows")
def test_rows_grow_while_texts_are_in_them() -> None:
    of, greedy = model("generate"), SamplingConfig(temperature=0)
    first = Job("The ", sampling=greedy, generation={"max_length": 14})
    second = Job("This man", sampling=greedy, generation={"max_length": 50})
    results: list[Finished] = []
    with serving("generate") as engine:
        done = Flag()

        def hear(event: Event) -> None:
            if isinstance(event, Piece) and len(begun) == 1:
                begun.append(engine.submit(second, hear))
            if isinstance(event, Finished):
                results.append(event)
            if len(results) == 2:
                done.set()

        begun: list[Ticket] = []
        begun.append(engine.submit(first, hear))
        assert done.wait(WAIT)
        assert engine._scheduler._fixed is not None
        assert engine._scheduler._fixed.fixed.slots == 64
    for job, one in zip((first, second), results, strict=True):
        same(one.decoded, from_the_library(of, job))


@pytest.mark.usefixtures("fixed_rows")
@pytest.mark.parametrize("room", [None, 14])
def test_rows_at_fixed_addresses_give_the_same_answers(room: int | None) -> None:
    """Rows are taken over by other texts, grow, and have settings of their own. Some jobs need the
    ordinary batch beside it. room: the positions of a model that cannot read more."""
    of = model("generate")
    if room is not None:
        of = untrained("language-transformer", positions="learned", max_length=room)
    dice = random.Random(3)
    all_settings = [
        SamplingConfig(temperature=0), SamplingConfig(), SamplingConfig(min_p=0.1),
        SamplingConfig(temperature=0.7, top_k=5), SamplingConfig(top_p=0.8),
    ]  # fmt: skip
    jobs = []
    for number in range(60):
        job = random_job(dice, {"generation": {}, "sampling": dice.choice(all_settings)}, PROMPTS)
        more: dict[str, Any] = {"pieces": dice.choice(("token", "tokens", "text"))}
        more |= {"generation": {"max_length": 40}} if dice.random() < 0.2 else {}
        more |= {"forbid": ["."]} if number % 11 == 0 else {}
        more |= {"echo": number % 4 == 0}
        jobs.append(replace(job, ignore_eos=number % 7 == 0, **more))
    engine = Engine(of, SMALL)
    client = Client(engine, jobs, cancels=range(3, 60, 9))
    finished = client.wait()
    fixed = engine._scheduler._fixed
    assert engine.close(timeout=WAIT)
    assert fixed is not None
    assert fixed.fixed.slots == (room or 64)
    assert not fixed.sources
    for number, job in enumerate(jobs):
        assert [isinstance(one, Finished) for one in client.events[number]].count(True) == 1
        if "cancelled" in finished[number].reasons:
            continue
        if job.ignore_eos:
            assert set(finished[number].reasons) == {"length"} or job.stop
            continue
        own = from_the_library(of, job)
        same(finished[number].decoded, own)
        if job.pieces != "text":
            check_pieces(job, client.events[number], own)
        else:
            pieces = [one for one in client.events[number] if isinstance(one, Piece)]
            assert not any(one.tokens for one in pieces)
            assert len(pieces) <= job.n
            for one in pieces:
                assert own.texts[one.sample].text.endswith(one.text)


@pytest.mark.usefixtures("fixed_rows")
@pytest.mark.parametrize(("pause", "sizes"), [(0.0, [4, 4, 4, 2]), (math.inf, [4, 10])])
def test_tokens_are_sent_together_until_the_next_piece_is_due(
    pause: float, sizes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fixed_batch, "PAUSE", pause)
    job = Job(
        "She has not", sampling=SamplingConfig(), generation={"max_length": 14, "min_length": 13},
        pieces="tokens",
    )  # fmt: skip
    with serving("generate") as engine:
        client = Client(engine, [job])
        client.wait()
    pieces = [one for one in client.events[0] if isinstance(one, Piece) and one.tokens]
    assert [len(one.tokens) for one in pieces] == sizes
    check_pieces(job, client.events[0], from_the_library(model("generate"), job))


@pytest.mark.usefixtures("fixed_rows")
def test_the_row_of_a_text_that_ended_is_free() -> None:
    """Although its tokens are only collected."""
    job = Job("The old dog", sampling=SamplingConfig(temperature=0), pieces="text",
              generation={"max_length": 400})  # fmt: skip
    with serving("generate") as engine:
        finished = engine.answer(job)
        assert finished.generated_tokens < 40
        assert engine.stats()["steps"] <= finished.generated_tokens / fixed_batch.STEPS + 3


@pytest.mark.usefixtures("fixed_rows")
def test_a_cancelled_text_contains_what_was_generated(monkeypatch: pytest.MonkeyPatch) -> None:
    """A text whose tokens are only collected is cancelled when another one has three pieces."""
    monkeypatch.setattr(fixed_batch, "PAUSE", 0.0)
    long = {"max_length": 50, "min_length": 49}
    silent = Job("The ", sampling=SamplingConfig(), generation=long, pieces="text")
    events: list[Event] = []
    done = Flag()

    def hear(event: Event) -> None:
        events.append(event)
        if isinstance(event, Finished):
            done.set()

    def count(event: Event) -> None:
        heard.append(event)
        if len(heard) == 3:
            ticket.cancel()

    heard: list[Event] = []
    with serving("generate") as engine:
        ticket = engine.submit(silent, hear)
        engine.submit(replace(silent, pieces="tokens"), count)
        assert done.wait(WAIT)
    assert isinstance(events[-1], Finished)
    assert list(events[-1].reasons) == ["cancelled"]
    (text,) = events[-1].decoded.texts
    (whole,) = from_the_library(model("generate"), silent).texts
    assert 8 <= len(text.tokens) < 50
    assert text.tokens == whole.tokens[: len(text.tokens)]
    assert events[-1].generated_tokens == len(text.token_log_probs) == len(text.tokens)


def test_searches_of_many_sizes_share_graphs() -> None:
    generator = model("generate").text_generator
    graphs, config = DecodeGraphs(), GenerationConfig(beam_size=2)
    graphs.look_at(generator.network)
    dice = random.Random(1)
    for _ in range(30):
        prefixes = [[2, *dice.choices(range(5, 50), k=dice.randrange(3, 8))]
                    for _ in range(dice.randrange(5, 17))]  # fmt: skip
        limits = (
            torch.full((len(prefixes),), 0),
            torch.full((len(prefixes),), dice.randrange(1, 17)),
        )
        ids = {"eos": generator.tokenizer.eos_id, "pad": generator.tokenizer.pad_id}
        with torch.inference_mode():
            CapturedSearch(
                graphs, generator.network, prefixes, None, limits, config, few_shapes=True, **ids
            )
    assert len(graphs.graphs) <= 2


@pytest.mark.parametrize("name", ["translate", "generate"])
def test_searches_by_graphs_give_the_same_answers(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Engines search as on a GPU, here without graphs. Some jobs need the ordinary batch beside
    it."""
    own = model(name)
    dice = random.Random(name)
    settings: list[dict[str, Any]] = [
        {"generation": {"beam_size": 1}}, {"generation": {"beam_size": 3}, "n": 2},
        {"generation": {"beam_size": 4, "alpha": 0.0}}, {"generation": {"no_repeat_ngram": 1}},
        {"generation": {}, "sampling": SamplingConfig()},
        {"generation": {"beam_size": 2}, "forbid": ["."]},
    ]  # fmt: skip
    prompts = SOURCES if name == "translate" else PROMPTS
    jobs = [random_job(dice, dice.choice(settings), prompts) for _ in range(50)]
    expected = [from_the_library(own, job) for job in jobs]
    monkeypatch.setattr(SearchBatch, "fits", staticmethod(lambda generator: True))
    with serving(name) as engine:
        client = Client(engine, jobs, cancels=range(3, 50, 9))
        finished = client.wait()
        assert engine._scheduler._search is not None
        assert not engine._scheduler._search.sources
    for number, one in enumerate(expected):
        assert [isinstance(event, Finished) for event in client.events[number]].count(True) == 1
        if "cancelled" not in finished[number].reasons:
            same(finished[number].decoded, one)
            reasons = ["stop" if text.finished else "length" for text in one.texts]
            assert list(finished[number].reasons) == reasons


def check_pieces(job: Job, events: Sequence[Event], own: Decoded) -> None:
    """The pieces, joined, are the texts; their tokens are those of the result."""
    assert isinstance(job.prompt, str)
    for sample, text in enumerate(own.texts):
        pieces = [e for e in events if isinstance(e, Piece) and e.sample == sample]
        assert text.text.endswith("".join(piece.text for piece in pieces))
        choices = [choice for piece in pieces for choice in piece.tokens]
        assert [choice.piece for choice in choices] == text.pieces
        for choice in choices:
            assert len(choice.top) == job.top_logprobs
            if choice.top and job.sampling == SamplingConfig(temperature=0) and not (
                job.forbid or job.force or len(job.generation) > 1
            ):  # fmt: skip
                assert choice.top[0][0] == choice.token


# torch rounds the inputs of all rows with one scale, and to 7 bits on some processors; the kernels
# round every row with its own.
INT8 = 0.005 if cpu_kernels.available() else 0.2


@pytest.mark.parametrize(("precision", "tolerance"), [("int8", INT8), ("bfloat16", 0.1)])
def test_log_probabilities_in_other_precisions(precision: Any, tolerance: float) -> None:
    """Other rows in the batch change the order of sums, and so the rounding to bfloat16 or 8 bits.
    The texts are only equal unless two tokens are almost as probable."""
    of = model("translate").optimized(precision)
    texts = [source for source in SOURCES if source]
    jobs = [Job(text, generation={"beam_size": 1}) for text in texts for _ in range(4)]
    engine = Engine(of, SMALL)
    finished = Client(engine, jobs).wait()
    assert engine.close(timeout=WAIT)
    for job, one in zip(jobs, finished, strict=True):
        same(one.decoded, from_the_library(of, job), tolerance)


@pytest.mark.slow
def test_none_of_2000_tagged_requests_is_swapped() -> None:
    """Every request has its own prompt, and as many texts as not are equal only by chance."""
    of = model("generate")
    words = [piece for piece in of.output_tokenizer.pieces(range(5, 60)) if piece.isalpha()]
    prompts = [f"{one} {two} {three}" for one in words[:20] for two in words[:10]
               for three in words[:10]]  # fmt: skip
    own = of.generate(prompts, temperature=0, max_length=3)
    jobs = [
        Job(prompt, sampling=SamplingConfig(temperature=0), generation={"max_length": 3})
        for prompt in prompts
    ]
    with serving("generate", Limits(queue=4000)) as engine:
        finished = Client(engine, jobs).wait()
    assert len(jobs) == 2000
    assert [one.decoded.texts[0].text for one in finished] == own


@pytest.mark.parametrize("name", ["generate", "generate-rnn"])
def test_200_cancelled_requests_free_their_rows_within_two_steps(name: str) -> None:
    job = Job("The ", sampling=SamplingConfig(), ignore_eos=True, generation={"max_length": 60})
    with serving(name) as engine:
        client = Client(engine, [job] * 210, cancels=range(200))
        finished = client.wait()
        for number, step in client.cancelled_at.items():
            assert client.steps_at_end[number] - step <= 2
        assert len(client.cancelled_at) == engine.stats()["cancelled"] == 200
        assert [one.reasons for one in finished[200:]] == [["length"]] * 10
        assert engine.stats()["rows"] == 0


def test_a_search_that_is_cancelled_returns_its_best_prefix() -> None:
    with serving("translate") as engine:
        events: list[Event] = []
        done = Flag()

        def hear(event: Event) -> None:
            events.append(event)
            done.set()

        options = {"beam_size": 3, "min_length": 300, "max_length": 400}
        long = engine.submit(Job(SOURCES[1], generation=options), hear)
        engine.answer(Job(SOURCES[0], generation={"beam_size": 3}))
        long.cancel()
        assert done.wait(WAIT)
    (event,) = events
    assert isinstance(event, Finished)
    assert list(event.reasons) == ["cancelled"]
    assert event.decoded.texts[0].pieces


def test_prompt_log_probabilities_are_those_of_score() -> None:
    of = model("generate")
    sampling = SamplingConfig(temperature=0)
    for chunk in (3, 100):
        with serving("generate", Limits(prompt_chunk=chunk)) as engine:
            for only in (True, False):
                events: list[Event] = []
                text = PROMPTS[2]
                job = Job(text, sampling=sampling, echo=True, only_prompt=only, top_logprobs=3,
                          generation={"max_length": 2})  # fmt: skip
                ticket = engine.submit(job, events.append)
                engine.answer(Job("The ", sampling=sampling))
                assert ticket.done
                assert isinstance(events[0], PromptRead)
                scored = of.score(text)
                tokens = events[0].tokens
                assert [one.piece for one in tokens] == scored.pieces[:-1]
                log_probs = [one.log_prob for one in tokens]
                assert log_probs == pytest.approx(scored.token_log_probs[:-1], abs=1e-5)
                assert all(len(one.top) == 3 for one in tokens)
                assert isinstance(events[-1], Finished)
                assert len(events[-1].decoded.texts) == (0 if only else 1)


def test_a_long_prompt_is_read_while_other_texts_go_on() -> None:
    long = " ".join(["The dog does not like the cat."] * 12)
    order: list[str] = []
    sampling = SamplingConfig(temperature=0)
    done = Flag()
    with serving("generate", Limits(prompt_chunk=8)) as engine:

        def hear_long(event: Event) -> None:
            order.append("long")
            if isinstance(event, Finished):
                done.set()

        def hear_short(event: Event) -> None:
            if not order:
                options = {"max_length": 2}
                engine.submit(Job(long, sampling=sampling, generation=options), hear_long)
            order.append("short")

        options = {"max_length": 60}
        engine.submit(
            Job("The", sampling=sampling, ignore_eos=True, generation=options), hear_short
        )
        assert done.wait(WAIT)
    tokens = len(model("generate").output_tokenizer.encode(long))
    assert order.index("long") >= tokens // 8


def test_equal_prompts_are_read_once() -> None:
    prompts = [PROMPTS[2] * 3, PROMPTS[2].replace("dog", "cat") * 3]
    jobs = [Job(prompts[n % 2], sampling=SamplingConfig(), seed=n, n=2) for n in range(8)]
    with serving("generate", Limits(rows=2)) as engine:  # one after another
        finished = Client(engine, jobs).wait()
        assert engine.stats()["reused_prompts"] == 4
    for job, one in zip(jobs, finished, strict=True):
        same(one.decoded, from_the_library(model("generate"), job))


def test_token_ids_biases_and_ignored_ends() -> None:
    of, greedy = model("generate"), SamplingConfig(temperature=0)
    ids = of.output_tokenizer.encode(PROMPTS[1])
    with serving("generate") as engine:
        plain = engine.answer(Job(PROMPTS[1], sampling=greedy))
        same(engine.answer(Job(ids, sampling=greedy)).decoded, plain.decoded)
        first = plain.decoded.texts[0].tokens[0]
        biased = engine.answer(Job(PROMPTS[1], sampling=greedy, logit_bias={first: -100.0}))
        assert first not in biased.decoded.texts[0].tokens
        raised = engine.answer(
            Job(PROMPTS[1], sampling=greedy, logit_bias={11: 100}, generation={"max_length": 4})
        )
        assert raised.decoded.texts[0].tokens == [11] * 4
        longer = engine.answer(
            Job(PROMPTS[1], sampling=greedy, ignore_eos=True, generation={"max_length": 40})
        )
        assert longer.generated_tokens == 40
        assert longer.reasons == ["length"]


def test_search_tree() -> None:
    job = Job(SOURCES[0], generation={"beam_size": 2}, tree=True)
    with serving("translate") as engine:
        served = engine.answer(job).decoded
    own = from_the_library(model("translate"), job)
    same(served, own)
    assert served.tree is not None
    assert own.tree is not None
    names = model("translate").output_tokenizer
    assert served.as_dict(names)["tree"].keys() == own.as_dict(names)["tree"].keys()


def test_limits() -> None:
    long = Job("The ", sampling=SamplingConfig(), ignore_eos=True, generation={"max_length": 400})
    with serving("generate", Limits(rows=4, queue=2, cache_tokens=5000)) as engine:
        for job, words in (
            (Job("The ", sampling=SamplingConfig(), n=5), "5 rows.*4"),
            (Job("The ", sampling=SamplingConfig(), generation={"max_length": 6000}), "cache"),
            (Job("The ", stop=["a"]), "stop"),
            (Job("The ", sampling=SamplingConfig(), n=0), "n = 0"),
            (Job("The ", sampling=SamplingConfig(), logit_bias={9999: 1.0}), "9999"),
            (Job([9999], sampling=SamplingConfig()), "9999"),
            (Job("The ", trace=["*"], sampling=SamplingConfig(), n=2), "trace.*n = 2"),
            (Job("The ", generation={"beam": 3}), "beam"),
        ):
            with pytest.raises((InputError, ValueError), match=words):
                engine.submit(job, print)
        tickets: list[Ticket] = []

        def fill() -> None:
            while len(tickets) < 40:
                tickets.append(engine.submit(long, lambda event: None))

        with pytest.raises(QueueFull) as full:
            fill()
        assert full.value.seconds >= 1
        assert full.value.waiting == 2
        assert engine.stats()["rows"] <= 4
        for ticket in tickets:
            ticket.cancel()


def test_a_deadline_ends_a_text() -> None:
    sampling = SamplingConfig()
    with serving("generate") as engine:
        assert engine.answer(Job("The ", sampling=sampling, deadline=0.0)).reasons == ["deadline"]
        options = {"max_length": 4000}
        job = Job("The ", sampling=sampling, ignore_eos=True, generation=options, deadline=0.3)
        finished = engine.answer(job)
    assert list(finished.reasons) == ["deadline"]
    assert finished.generated_tokens < 4000


# ---- which of the waiting requests come next ----


def sampled(length: int, n: int = 1) -> Job:
    return Job("The ", sampling=SamplingConfig(), ignore_eos=True, n=n,
               generation={"max_length": length})  # fmt: skip


def test_requests_pass_a_large_one_only_if_they_cannot_delay_it() -> None:
    order: list[str] = []
    done = Flag()

    def hear(name: str, event: Event) -> None:
        if name == "one" and isinstance(event, Piece) and not order:
            order.append("began")
            for other, n, length in (("all", 4, 9), ("long", 1, 40), ("small", 1, 2)):
                engine.submit(sampled(length, n), partial(hear, other))
        if isinstance(event, Finished):
            order.append(name)
            if len(order) == 5:
                done.set()

    with serving("generate", Limits(rows=4)) as engine:
        engine.submit(sampled(30), partial(hear, "one"))
        assert done.wait(WAIT)
    assert order == ["began", "small", "one", "all", "long"]


def test_a_large_request_is_answered_although_small_ones_never_end() -> None:
    small = [0]
    done = Flag()

    def hear(event: Event) -> None:
        if isinstance(event, Finished):
            if small[0] == 12:
                engine.submit(sampled(5, n=8), large)
            if small[0] < 200 and not done.is_set():
                ask()

    def ask() -> None:
        small[0] += 1
        engine.submit(sampled(5 + small[0] % 16), hear)

    def large(event: Event) -> None:
        if isinstance(event, Finished):
            done.set()

    with serving("generate", Limits(rows=8)) as engine:
        for _ in range(12):
            ask()
        assert done.wait(WAIT)
        assert small[0] < 60
        assert engine.close(timeout=WAIT)


def test_a_short_text_does_not_wait_until_long_ones_end() -> None:
    """Clients with several long texts each fill the batch and the queue."""
    steps: list[float] = []
    done = Flag()

    def hear_long(event: Event) -> None:
        if isinstance(event, Piece) and not steps:
            steps.append(engine.stats()["steps"])
            engine.submit(sampled(8), hear_short)

    def hear_short(event: Event) -> None:
        if isinstance(event, Finished):
            steps.append(engine.stats()["steps"])
            done.set()

    with serving("generate", Limits(rows=16, queue=100)) as engine:
        tickets = [engine.submit(sampled(600), hear_long, client % 6) for client in range(48)]
        assert done.wait(WAIT)
        assert engine.stats()["waiting"] == 48 - 14
        for ticket in tickets:
            ticket.cancel()
    assert steps[1] - steps[0] < 16


def test_a_client_with_many_texts_does_not_hold_up_another_one() -> None:
    waiting: list[float] = []
    done = Flag()

    def hear_many(event: Event) -> None:
        if isinstance(event, Piece) and not waiting:
            waiting.append(engine.stats()["waiting"])
            engine.submit(sampled(8), hear_one, "other")

    def hear_one(event: Event) -> None:
        if isinstance(event, Finished):
            waiting.append(engine.stats()["waiting"])
            done.set()

    with serving("generate", Limits(rows=4)) as engine:
        tickets = [engine.submit(sampled(9 + i % 4), hear_many, "many") for i in range(40)]
        assert done.wait(WAIT)
        for ticket in tickets:
            ticket.cancel()
    assert waiting[0] - waiting[1] <= 8


def test_free_rows_are_shared_among_clients() -> None:
    request = Request(sampled(9), model("generate").text_generator)
    waiting = [Ticket(request, print, None, client) for client in "aaaab"]
    chosen = Admission(Limits(rows=4)).choose(waiting, [], 1)
    assert [ticket.client for ticket in chosen] == ["a", "b", "a", "a"]
    first, *others = waiting
    assert Admission(Limits(rows=2)).choose(others, [first], 1) == [waiting[-1]]


def test_close_finishes_what_was_accepted() -> None:
    engine = Engine(model("generate"), Limits(rows=2))
    events: list[Event] = []
    for number in range(6):
        engine.submit(Job("The ", sampling=SamplingConfig(), seed=number), events.append)
    assert engine.close(timeout=WAIT)
    assert sum(isinstance(event, Finished) for event in events) == 6
    with pytest.raises(EngineClosed):
        engine.submit(Job("The ", sampling=SamplingConfig()), events.append)


@pytest.mark.filterwarnings("ignore")
def test_an_exception_of_one_client_does_not_stop_the_others() -> None:
    def bad(event: Event) -> None:
        raise RuntimeError("gone")

    with serving("generate") as engine:
        job = Job("The ", sampling=SamplingConfig(), ignore_eos=True)
        ticket = engine.submit(job, bad)
        other = Job("The ", sampling=SamplingConfig())
        same(engine.answer(other).decoded, from_the_library(model("generate"), other))
    assert ticket.cancelled
    assert ticket.done


@pytest.mark.parametrize(
    "where", ["batch.Batch.round", "scheduler.Reading", "scheduler.Running", "admission.Room"]
)
def test_a_fault_of_the_engine_fails_the_requests_and_no_others(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step, reading a prompt, an admission, or the choice of requests raises an exception."""
    job = Job("The ", sampling=SamplingConfig())
    with serving("generate") as engine:
        with monkeypatch.context() as patched:
            patched.setattr(f"translucid.serving.{where}", lambda *given: 1 / 0)
            with pytest.raises(TranslucidError, match="ZeroDivisionError"):
                engine.answer(job)
            assert not engine._waiting  # else it would be taken again
        same(engine.answer(job).decoded, from_the_library(model("generate"), job))
        assert engine.stats()["failed"] == 1


@pytest.mark.parametrize(
    ("name", "kind", "texts", "ask"),
    [
        ("classify", "classify", ["What is this?", "Who are you?", "Where?"], Model.classify),
        ("tag", "tag", ["Anna lives in Berlin.", "He left.", "Yes"], Model.tag),
        ("generate", "score", [*PROMPTS[:3]], Model.scores),
        ("translate", "predict", [*SOURCES[:3]], Model.predict),
    ],
)
def test_questions(name: str, kind: str, texts: list[str], ask: Callable[..., Any]) -> None:
    """Several requests that wait are answered together; an invalid one fails alone."""
    events: list[Event] = []
    with serving(name) as engine:
        for text in texts:
            engine.run(kind, [text, texts[0]], events.append)
        engine.run(kind, [texts[0]], events.append, deadline=-1.0)
        engine.run(kind, [3], events.append)
        assert engine.close(timeout=WAIT)
    answered = [event.results for event in events if isinstance(event, Answered)]
    own = [ask(model(name), [text, texts[0]]) for text in texts]
    failed = [event.error for event in events if isinstance(event, Failed)]
    assert len(failed) == 2
    assert sum(isinstance(error, TooLate) for error in failed) == 1
    assert len(answered) == len(texts)
    for results, expected in zip(answered, own, strict=True):
        if kind == "score":
            for one, two in zip(results, expected, strict=True):
                assert one.token_log_probs == pytest.approx(two.token_log_probs, abs=1e-5)
        elif kind == "classify":
            assert [one.label for one in results] == [two.label for two in expected]
        else:
            assert results == expected
