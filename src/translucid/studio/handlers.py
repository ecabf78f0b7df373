"""Answers to the page's requests, whether they arrive over HTTP or through a notebook widget.

A question is a method, a path with its query, and a body.
"""

import json
import math
import re
from collections.abc import Mapping
from functools import cache
from itertools import chain
from typing import Any
from urllib.parse import unquote

import torch

from translucid.core.errors import InputError, TranslucidError
from translucid.generate.sampling import SamplingConfig
from translucid.studio import (
    answers,
    attention_tables,
    credit,
    input_words,
    lesson_answers,
    patching,
    plane,
    practice_answers,
    saved_session,
    terms,
)
from translucid.studio.lesson import Lesson
from translucid.studio.library import MAX_CHARACTERS, Library
from translucid.studio.page_model import catalogue, describe_model, describe_run
from translucid.studio.patching import Measure
from translucid.studio.query_values import (
    clipped,
    fraction,
    index_of,
    named,
    place_of,
    pool_sizes,
    span,
    token_ids,
    whole,
)
from translucid.studio.run_follower import RunFollower, RunReading, history
from translucid.studio.server.questions import (
    BINARY,
    HTML,
    QUESTIONS,
    Question,
    Reply,
    json_reply,
    read_query,
)
from translucid.studio.surveys import SAVED, Surveys
from translucid.studio.tensors import TensorSlice, cut_shape
from translucid.studio.text_runs import Run

# The path of each request as a regular expression with named groups.
PATHS = {
    name: re.compile(re.sub(r"{(\w+)}", r"(?P<\1>[^/]+)", path))
    for (_, path), name in QUESTIONS.items()
}
EXACT = 64 * 64  # maximum values of a point that are sent in full precision
MOST = 2**25  # maximum values in one answer


class Handlers:
    """Answer questions about the opened models."""

    def __init__(
        self,
        library: Library,
        followed: Mapping[str, RunFollower] | None = None,
        lesson: Lesson | None = None,
    ) -> None:
        """`lesson`: the user's own lesson."""
        self.library, self.followed, self.own_lesson = library, followed or {}, lesson
        self.surveys = Surveys()

    def answer(self, name: str, asked: Question) -> Reply:
        """Call the method `name`, as listed in QUESTIONS; errors are returned as JSON."""
        try:
            reply: Reply = getattr(self, name)(asked)
            return reply
        except (TranslucidError, ValueError) as error:
            return json_reply({"error": str(error)}, 422)
        except LookupError:
            return json_reply({"error": "index out of range"}, 422)
        except (MemoryError, torch.OutOfMemoryError):
            return json_reply({"error": "not enough memory on this machine for this request"}, 422)

    def ask(self, method: str, address: str, body: bytes = b"") -> Reply:
        """Answer a request; `address` is a path with its query."""
        path, _, query = address.partition("?")
        for (verb, _), name in QUESTIONS.items():
            if verb == method and (match := PATHS[name].fullmatch(path)):
                place = {part: unquote(value) for part, value in match.groupdict().items()}
                return self.answer(name, Question(place, read_query(query), body))
        return json_reply({"error": f"{method} {clipped(path)}: not found"}, 404)

    def models(self, asked: Question) -> Reply:
        names = {key: entry.name for key, entry in self.followed.items()}
        names |= {key: entry.name for key, entry in self.library.opened.items()}
        return json_reply([{"m": key, "name": names[key]} for key in sorted(names)])

    def model(self, asked: Question) -> Reply:
        m = asked.place["m"]
        if m in self.followed and m not in self.library.opened:  # no model has been saved yet
            return json_reply(describe_run(m, self.followed[m]))
        return json_reply(describe_model(self.library.model(m)) | {"trains": m in self.followed})

    def words(self, asked: Question) -> Reply:
        """The texts whose words the page offers while you type, or else the vocabulary."""
        opened = self.library.model(asked.place["m"])
        texts = input_words.known_texts(opened)
        known = [] if texts else input_words.vocabulary(opened.model.task)
        return json_reply({"texts": texts, "vocabulary": known})

    def unknown(self, asked: Question) -> Reply:
        """The places of each text that the model reads as <unk>."""
        task = self.library.model(asked.place["m"]).model.task
        return json_reply([
            [input_words.in_units(text, place) for place in input_words.unknown_places(task, text)]
            for text in _texts(_parsed(asked.body))
        ])  # fmt: skip

    def another_text(self, asked: Question) -> Reply:
        number = whole(asked.query.text("number", "0"), "number", 0, 10**9)
        opened = self.library.model(asked.place["m"])
        return json_reply({"text": input_words.another_text(opened, number)})

    def catalogue(self, asked: Question) -> Reply:
        return json_reply(catalogue())

    def new_run(self, asked: Question) -> Reply:
        m, text, target, off = _asked(_parsed(asked.body))
        return json_reply(terms.with_adapters(self.library.run(m, text, target, off)))

    def run(self, asked: Question) -> Reply:
        return json_reply(terms.with_adapters(self._run(asked)), forever=True)

    def tensors(self, asked: Question) -> Reply:
        query = asked.query
        names = query.all("at")
        if not 1 <= len(names) <= 64:
            raise InputError(f"at: expected 1 to 64 points, got {len(names)}")
        form = query.text("as", "u8")
        if form not in ("u8", "f16", "f32"):
            raise InputError(f"as: expected u8, f16 or f32, not {clipped(form)}")
        pool = pool_sizes(query.one("pool")) if "pool" in query else None
        cut = TensorSlice(index_of(query.text("index", "")), form, pool)  # type: ignore[arg-type]
        run = self._run(asked)
        run.check(names)
        count = sum(math.prod(cut_shape(name, run.shapes[name], cut)) for name in names)
        if form == "f32" and count > EXACT * len(names):
            raise InputError(
                f"as=f32 sends at most {EXACT:,} numbers per point; reduce them with index or pool"
            )
        if count > MOST:
            raise InputError(
                f"{count:,} numbers requested, but the limit is {MOST:,}; use index or pool"
            )
        return Reply(b"".join(attention_tables.frames(run, names, cut)), BINARY, forever=True)

    def heads(self, asked: Question) -> Reply:
        query = asked.query
        pool = whole(query.text("pool", "48"), "pool", 4, 512)
        layers = span(query.text("layers", ""), "layers") if "layers" in query else None
        body = attention_tables.heads(self._run(asked), query.text("kind", "encoder"), pool, layers)
        return Reply(body, BINARY, forever=True)

    def terms(self, asked: Question) -> Reply:
        query = asked.query
        top = whole(query.text("top", str(terms.TOP)), "top", 1, terms.MOST)
        opened = terms.terms(self._run(asked), named(query, "address"), top)
        return json_reply(opened, forever=True)

    def contributions(self, asked: Question) -> Reply:
        position, output = (place_of(asked.query, name) for name in ("position", "output"))
        return json_reply(credit.parts(self._run(asked), position, output), forever=True)

    def lens(self, asked: Question) -> Reply:
        position = place_of(asked.query, "position")
        return json_reply(credit.layers(self._run(asked), position), forever=True)

    def saliency(self, asked: Question) -> Reply:
        position = place_of(asked.query, "position")
        return json_reply(credit.inputs(self._run(asked), position), forever=True)

    def steps(self, asked: Question) -> Reply:
        query, run = asked.query, self._run(asked)
        k = whole(query.text("k", "10"), "k", 1, 200)
        positions = span(query.text("positions", ""), "positions") if "positions" in query else None
        if "tokens" not in query:
            return json_reply(answers.steps(run, positions, k), forever=True)
        tokens = token_ids(query.text("tokens", ""), "tokens")
        return json_reply(answers.steps_along(run, tokens, positions, k), forever=True)

    def decode(self, asked: Question) -> Reply:
        query = asked.query
        size = whole(query.text("beam_size", "4"), "beam_size", 1, 32)
        n_best = query.one("n_best")
        force: dict[int, str | int] = {
            whole(place, "force", 0, 10**6): word
            for place, _, word in (pair.partition(":") for pair in query.all("force"))
        }
        force |= dict(enumerate(token_ids(query.text("begin", ""), "begin")))
        wanted = whole(n_best, "n_best", 1, 32) if n_best else min(size, 4)
        most = query.one("max_length")
        max_length = None if most is None else whole(most, "max_length", 1, answers.MAX_LENGTH)
        decoded = answers.decode(self._run(asked), size, wanted, force, max_length)
        return json_reply(decoded, forever=True)

    def draws(self, asked: Question) -> Reply:
        query = asked.query
        top_k, top_p = query.one("top_k"), query.one("top_p")
        by = SamplingConfig(
            temperature=fraction(query.text("temperature", "1"), "temperature", 0, 10),
            top_k=None if top_k is None else whole(top_k, "top_k", 1, 10**6),
            top_p=None if top_p is None else fraction(top_p, "top_p", 0.001, 1),
        )
        penalty = fraction(query.text("repetition_penalty", "1"), "repetition_penalty", 1, 10)
        seed = whole(query.text("seed", "0"), "seed", 0, 10**6)
        samples = whole(query.text("samples", "3"), "samples", 1, 8)
        return json_reply(answers.draws(self._run(asked), by, penalty, seed, samples), forever=True)

    def effect(self, asked: Question) -> Reply:
        run, off = self._run(asked), asked.query.all("off")
        return json_reply(answers.effect(run, off, self.library.without(run, off)), forever=True)

    def diff(self, asked: Question) -> Reply:
        query = asked.query
        a, b = (self.library.kept_run(named(query, name)) for name in ("a", "b"))
        return json_reply(answers.compare(a, b), forever=True)

    # ---- many texts: the page repeats the request until all are read ----

    def hardest(self, asked: Question) -> Reply:
        return json_reply(self.surveys.hardest(self.library.model(asked.place["m"])))

    def unit(self, asked: Question) -> Reply:
        at, unit = named(asked.query, "at"), place_of(asked.query, "unit")
        return json_reply(self.surveys.unit(self.library.model(asked.place["m"]), at, unit))

    def labels(self, asked: Question) -> Reply:
        opened, at = self.library.model(asked.place["m"]), named(asked.query, "at")
        return json_reply(self.surveys.labels(opened, at))

    # ---- activation patching ----

    def patching(self, asked: Question) -> Reply:
        return json_reply(patching.outline(*self._patched(asked)), forever=True)

    def patch(self, asked: Question) -> Reply:
        at, token = named(asked.query, "at"), place_of(asked.query, "token")
        return json_reply(patching.cell(*self._patched(asked), at, token), forever=True)

    def causal(self, asked: Question) -> Reply:
        at, tokens = named(asked.query, "at"), asked.query.one("tokens")
        some = None if tokens is None else span(tokens, "tokens")
        return json_reply(patching.row(*self._patched(asked), at, some), forever=True)

    def _patched(self, asked: Question) -> tuple[Run, Run, Measure]:
        """The clean run, the corrupted run, and the output that is measured."""
        query = asked.query
        a, b = (self.library.kept_run(named(query, name)) for name in ("clean", "corrupted"))
        names = ("position", "output", "against")
        measure = {name: place_of(query, name) for name in names if name in query}
        return a, b, Measure(**measure)  # type: ignore[typeddict-item]

    # ---- training, for pages without a WebSocket ----

    def training(self, asked: Question) -> Reply:
        return json_reply({"about": self._followed(asked).about()})

    def history(self, asked: Question) -> Reply:
        """Everything recorded so far, as in the first message of the WebSocket."""
        reading = RunReading(self._followed(asked))
        return Reply(history(reading.more(), reading.state()), BINARY)

    def _followed(self, asked: Question) -> RunFollower:
        m = asked.place["m"]
        if m not in self.followed:
            raise InputError(f"m: {clipped(m)} is not a training run")
        return self.followed[m]

    def probes(self, asked: Question) -> Reply:
        run, query = self._followed(asked), asked.query
        steps = [whole(step, "step", 0, 10**9 - 1) for step in query.all("step")]
        if not 1 <= len(steps) <= 64:
            raise InputError(f"step: expected 1 to 64 steps, got {len(steps)}")
        form = query.text("as", "u8")
        if form not in ("u8", "f32"):
            raise InputError(f"as: expected u8 or f32, not {clipped(form)}")
        return Reply(run.tables(steps, form), BINARY)  # type: ignore[arg-type]

    # ---- lessons ----

    def lessons(self, asked: Question) -> Reply:
        opened = {key: entry.name for key, entry in self.library.opened.items()}
        return json_reply(lesson_answers.listed(opened, self.own_lesson))

    def lesson(self, asked: Question) -> Reply:
        return json_reply(lesson_answers.outline(asked.place["id"], self.own_lesson))

    def lesson_on(self, asked: Question) -> Reply:
        on_run = lesson_answers.on_run(self._run(asked), asked.place["id"], self.own_lesson)
        return json_reply(on_run, forever=True)

    def check(self, asked: Question) -> Reply:
        """Check whether the task of a lesson's stop is done on the page at an address."""
        unchanged, address = self._run(asked), asked.query.text("address", "")
        key, own = asked.place["id"], self.own_lesson
        count = len(lesson_answers.lesson(key, own).stops)
        stop = whole(asked.place["stop"], "stop", 1, count)
        switched = read_query(address.partition("?")[2]).text("off", "").split(",")
        off = [switch for switch in switched if switch]
        run = unchanged
        if off:
            run = self.library.run(unchanged.opened.key, unchanged.text, unchanged.target, off)
        typed = asked.query.text("answer", "")
        return json_reply(lesson_answers.check(run, unchanged, key, stop, address, own, typed))

    def plane(self, asked: Question) -> Reply:
        """One step of training on points in the plane."""
        query = asked.query
        step = whole(query.text("step", "0"), "step", 0, plane.STEPS)
        seed = whole(query.text("seed", str(plane.SEED)), "seed", 0, plane.SEEDS - 1)
        problem = query.text("problem", "and")
        return json_reply(plane.answer(asked.place["kind"], problem, step, seed), forever=True)

    def planes(self, asked: Question) -> Reply:
        """The outputs of two models with two inputs, over the same part of the plane."""
        pair = [self.library.model(named(asked.query, name)).model for name in ("a", "b")]
        return json_reply(plane.outputs([(model.task, model.network) for model in pair]))

    # ---- practice ----

    def practice_topics(self, asked: Question) -> Reply:
        return json_reply(practice_answers.topics())

    def exercise(self, asked: Question) -> Reply:
        return json_reply(practice_answers.exercise(asked.place["topic"], asked.query))

    def check_exercise(self, asked: Question) -> Reply:
        return json_reply(practice_answers.check(asked.place["topic"], asked.query))

    def solution(self, asked: Question) -> Reply:
        return json_reply(practice_answers.solution(asked.place["topic"], asked.query))

    # ---- saved sessions ----

    def save(self, asked: Question) -> Reply:
        """Save the session: everything the page has shown so far, in one file."""
        address, questions = saved_session.read_questions(_parsed(asked.body))
        ask = cache(saved_session.to_the_end(self.recorded))
        questions = [*questions, *saved_session.besides(ask, questions)]
        recorded = saved_session.recording(self.library, ask, questions)
        return Reply(saved_session.page(recorded, address), HTML)

    def saved(
        self,
        text: str | None,
        address: str,
        budget: int = saved_session.BUDGET,
        models: dict[str, Any] | None = None,
    ) -> bytes:
        """Save all views of one text in one file. models: the models to include, as
        `browser_models.embedded` returns them."""
        self.surveys = Surveys(SAVED)
        ask = cache(saved_session.to_the_end(self.recorded))
        computes = bool(models)
        questions = saved_session.everything(ask, text, self.library.prefetch, computes=computes)
        if models:
            questions = chain(saved_session.outlines(ask), questions)
        recorded = saved_session.recording(self.library, ask, questions, budget, computes=computes)
        return saved_session.page(recorded | ({"models": models} if models else {}), address)

    def recorded(self, question: saved_session.Question) -> tuple[int, str, bytes]:
        reply = self.ask(question.method, question.path, question.body.encode())
        return reply.status, reply.kind, reply.body

    def _run(self, asked: Question) -> Run:
        return self.library.kept_run(asked.place["run"])


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise InputError("the request is not valid JSON, or is nested too deeply") from error


def _texts(asked: Any) -> list[str]:
    """Check the body of POST /api/model/M/unknown."""
    match asked:
        case {"texts": [str(), *_] as texts} if all(isinstance(text, str) for text in texts):
            pass
        case _:
            raise InputError("the request must be an object with texts, a list of strings")
    if len(texts) > input_words.READ:
        raise InputError(f"texts: {len(texts):,} texts; the limit is {input_words.READ}")
    characters = max(map(len, texts))
    if characters > MAX_CHARACTERS:
        raise InputError(f"texts: {characters:,} characters; the limit is {MAX_CHARACTERS:,}")
    return texts


def _asked(asked: Any) -> tuple[str, str, str | None, list[str]]:
    """Check the body of POST /api/runs key by key."""
    if not isinstance(asked, dict):
        raise InputError("the request must be an object with m and text")
    for key in asked:
        if key not in ("m", "text", "target", "off"):
            raise InputError(f"unknown key {clipped(key)}; the keys are m, text, target and off")
    m, text, target, off = (asked.get(key) for key in ("m", "text", "target", "off"))
    if not isinstance(m, str) or not isinstance(text, str):
        raise InputError("m and text are required and must be strings")
    if target is not None and not isinstance(target, str):
        raise InputError("target must be a string or omitted")
    off = [] if off is None else off
    if not isinstance(off, list) or not all(isinstance(key, str) for key in off):
        raise InputError("off must be a list of switch keys")
    return m, text, target, off
