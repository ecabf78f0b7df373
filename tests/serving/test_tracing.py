"""Traces and edits of single requests equal those of the library, and reach no other request."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from threading import Event as Flag
from typing import Any

import pytest
import torch
from tests.interop.own_models import own
from tests.serving.running import Running, running, served, shipped, usual
from tests.serving.test_engine import PROMPTS, SMALL, SOURCES, Client, model, same, serving
from torch import Tensor

from translucid.core.trace import Edit, Trace
from translucid.generate import SamplingConfig
from translucid.generate.decoded import Decoded
from translucid.model import Model
from translucid.serving import Answered, Event, Finished, Job, Limits

GREEDY = SamplingConfig(temperature=0)
TEXT = "The old dog does not like the cat."
PROMPT = "The old dog"
MIXED = "decoder.layers.0.self_attention.mixed"
CROSS = "decoder.layers.1.cross_attention.pattern"


def half_of_head_1(value: Tensor) -> Tensor:
    value = value.clone()
    value[:, 1] *= 0.5
    return value


@pytest.fixture(scope="module")
def tracing() -> Iterator[Running]:
    masked = own("fill")
    tokenizer = masked.tokenizers["tokenizer"]
    tokenizer.special = replace(tokenizer.special, mask=tokenizer.encode("dog")[0])
    models = [*usual(), served("embed", Model(own("embed"))), served("fill", Model(masked))]
    with running(models, allow_trace=True) as one:
        yield one


def values(answer: Any, name: str) -> Tensor:
    """The values of a point in an answer, with the type of JSON."""
    point = answer["trace"]["points"][name]
    made = torch.tensor(point["values"])
    assert list(made.shape) == point["shape"]
    assert len(point["axes"]) == made.dim()
    return made


# ---- the engine ----

# A job of each kind for each model: what to trace and what to change.
CASES: dict[str, tuple[tuple[str, ...], dict[str, Edit]]] = {
    "translate": ((CROSS, "encoder.final_norm.output"), {MIXED: half_of_head_1}),
    "translate-lstm": (("*.alignment.pattern", "*.lstm.cell"), {"decoder.alignment.context": 0.0}),
    "generate": (("*.pattern", "head.logits"), {"*.0.feedforward.output": lambda v: v * 4}),
    "generate-rnn": (("*",), {"*.rnn.hidden": lambda v: v * 0.9}),
}


@pytest.mark.parametrize("name", CASES)
def test_a_traced_and_edited_job_equals_the_library_among_others(name: str) -> None:
    of, (keep, edit) = model(name), CASES[name]
    prompts = [text for text in (SOURCES if "translate" in name else PROMPTS) if text]
    jobs: list[Job] = []
    for number, prompt in enumerate(prompts * 2):
        shared: dict[str, Any] = {"generation": {"max_length": 4 + number}, "seed": number}
        shared["sampling"] = [None, GREEDY, SamplingConfig()][number % 3]
        if shared["sampling"] is None:
            shared["generation"]["beam_size"] = 2
        jobs += [
            Job(prompt, **shared),
            Job(prompt, **shared, trace=keep),
            Job(prompt, **shared, edit=edit),
            Job(prompt, **shared, trace=keep, edit=edit),
        ]
    with serving(name) as engine:
        finished = Client(engine, jobs).wait()
    changed = 0
    for job, one in zip(jobs, finished, strict=True):
        trace = Trace(job.trace, edit=job.edit)
        (own,) = of.decode(
            [str(job.prompt)], sampling=job.sampling, seed=job.seed, trace=trace, **job.generation
        )
        same(one.decoded, own)
        if not job.trace:
            assert one.trace is None
            continue
        assert one.trace is not None
        assert [*one.trace] == [*trace]
        for point in trace:
            torch.testing.assert_close(one.trace[point], trace[point], atol=1e-4, rtol=1e-4)
        assert len(one.trace.labels["target"]) == tokens_read(of, job, own)
        changed += own.texts[0].text != of.decode(
            [str(job.prompt)], sampling=job.sampling, seed=job.seed, **job.generation
        )[0].texts[0].text  # fmt: skip
    assert changed  # the edits have an effect


def test_the_trace_of_a_finished_translation_is_model_trace_of_text_and_target() -> None:
    of = model("translate")
    with serving("translate") as engine:
        finished = engine.answer(Job(TEXT, trace=["*"]))
    (text,) = finished.decoded.texts
    assert text.finished
    trace = of.trace(TEXT, text.text)
    assert finished.trace is not None
    assert {*finished.trace} == {*trace}
    for point in trace:
        torch.testing.assert_close(finished.trace[point], trace[point], atol=1e-5, rtol=1e-5)
    assert finished.trace.labels == {"source": trace.words.source, "target": trace.words.target}


@pytest.mark.parametrize(
    ("more", "last"),
    [
        ({"trace": ("*",)}, []),
        ({}, [Job(PROMPTS[1], sampling=GREEDY, edit={"*.mixed": 3.0})]),
        ({}, [Job(PROMPTS[1], generation={"beam_size": 2}, edit={"head.logits": 3.0})]),
    ],
)
def test_the_answers_of_the_others_are_bit_for_bit_the_same(more: Any, last: list[Job]) -> None:
    """The others are submitted at once, in the engine's thread, so that both batches are alike."""

    def log_probs(jobs: list[Job]) -> list[Any]:
        finished: dict[int, Finished] = {}
        done = Flag()

        def receive(number: int, event: Event) -> None:
            if isinstance(event, Finished):
                finished[number] = event
                if len(finished) == len(jobs):
                    done.set()

        with serving("generate") as engine:

            def begin(event: Event) -> None:
                if isinstance(event, Finished):
                    for number, job in enumerate(jobs):
                        engine.submit(job, partial(receive, number))

            engine.submit(Job("The", sampling=GREEDY, generation={"max_length": 2}), begin)
            assert done.wait(300)
        return [finished[number].decoded.texts[0].token_log_probs for number in range(5)]

    options: Any = {"sampling": SamplingConfig(), "generation": {"max_length": 9}}
    others = [Job(prompt, seed=n, **options) for n, prompt in enumerate(PROMPTS)]
    alone = log_probs([Job(PROMPT, **options), *others])
    assert alone == log_probs([Job(PROMPT, **options, **more), *others, *last])


def test_several_samples_have_the_same_edit() -> None:
    job = Job(PROMPT, sampling=SamplingConfig(), n=3, edit={MIXED: half_of_head_1}, seed=5,
              generation={"max_length": 8})  # fmt: skip
    with serving("generate") as engine:
        finished = engine.answer(job)
    (own,) = model("generate").decode(
        [PROMPT], sampling=SamplingConfig(), n_best=3, seed=5, max_length=8,
        trace=Trace([], edit=dict(job.edit)),
    )  # fmt: skip
    same(finished.decoded, own)


def test_a_trace_that_is_too_large_or_fails_ends_no_other_request() -> None:
    def bad(value: Tensor) -> Tensor:
        raise ZeroDivisionError

    options: Any = {"sampling": GREEDY, "generation": {"max_length": 5}, "ignore_eos": True}
    jobs = [
        Job(PROMPT, **options | {"generation": {"max_length": 60}}),
        Job(PROMPT, **options, trace=["head.logits"]),
        Job(PROMPT, **options, edit={"head.logits": bad}),
        Job(PROMPT, **options, edit={"no.such": 1.0}, trace=["head.logits@3"]),
    ]
    with serving("generate", Limits(rows=8, trace_values=1000)) as engine:
        client = Client(engine, jobs)
        assert client.all_done.wait(300)
        (_, *failed) = [events[-1] for events in client.events]
        assert isinstance(client.events[0][-1], Finished)
    words = [str(getattr(event, "error", "")) for event in failed]
    of = shipped("generate")
    tokens = len(of.output_tokenizer.encode(PROMPT)) + 5  # with the start, without the last
    logits = tokens * of.text_generator.network.vocab
    assert f"{logits:,} values" in words[0]
    assert "1,000" in words[0]
    assert "ZeroDivisionError" in words[1]
    assert "no.such" in words[2]


def test_an_edited_prompt_is_read_at_once_and_not_reused() -> None:
    """Filled attention weights reach later keys too, so reading in parts would differ."""
    long = " ".join(PROMPTS[2:3] * 3)
    plain = Job(long, sampling=GREEDY, generation={"max_length": 6})
    edit: dict[str, Edit] = {"*.pattern": 0.02}
    job = Job(long, sampling=GREEDY, generation={"max_length": 6}, edit=edit)
    with serving("generate", SMALL) as engine:
        for one in (plain, job, plain, job, job, plain):
            trace = Trace([], edit=one.edit)
            (own,) = model("generate").decode([long], sampling=GREEDY, max_length=6, trace=trace)
            same(engine.answer(one).decoded, own)
        assert engine.stats()["reused_prompts"] == 1


@pytest.mark.parametrize(
    ("name", "kind", "texts"),
    [("classify", "classify", ["It was bad.", "The room was good and it was warm."]),
     ("tag", "tag", ["Anna Keller lives in Berlin.", "He left."])],
)  # fmt: skip
def test_questions_with_edits(name: str, kind: str, texts: list[str]) -> None:
    """Each text alone: a fill would reach padding. The answer follows from the edited outputs."""
    of = model(name)
    point = of.network.output_point
    edit: dict[str, Edit] = {
        point: lambda value: value.flip(-1),
        "encoder.embedding.lookup": lambda value: value - value.mean(dim=1, keepdim=True),
    }
    events: list[Event] = []
    with serving(name) as engine:
        engine.run(kind, texts, events.append, edit=edit)
        engine.run(kind, texts, events.append)
        engine.run(kind, texts[:1], events.append, edit=edit, trace=["*"])
        assert engine.close(timeout=300)
    edited, plain, traced = events
    assert isinstance(edited, Answered)
    assert isinstance(plain, Answered)
    assert isinstance(traced, Answered)
    assert edited.results != plain.results
    assert plain.results == getattr(of, kind)(texts)
    assert edited.results[:1] == traced.results
    assert traced.trace is not None
    own = of.trace(texts[0], edit=edit)
    assert {*own} == {*traced.trace}
    for place in own:
        assert torch.equal(traced.trace[place], own[place])


def tokens_read(of: Model, job: Job, own: Decoded) -> int:
    """The number of tokens that the decoder reads: all but the last."""
    text, prompt = own.texts[0], str(job.prompt)
    start = 0 if of.task.name == "translate" else len(of.output_tokenizer.encode(prompt))
    return of.text_generator.start_size + start + len(text.token_log_probs) - 1


# ---- over HTTP ----


def test_a_translation_with_its_attention(tracing: Running) -> None:
    got = tracing.get("/translate", {"text": TEXT, "trace": [CROSS]})
    text = got["results"][0]["texts"][0]["text"]
    trace = shipped("translate").trace(TEXT, text)
    assert got["trace"]["points"].keys() == {CROSS}
    torch.testing.assert_close(values(got, CROSS), trace[CROSS])
    assert got["trace"]["points"][CROSS]["axes"] == ["batch", "heads", "queries", "keys"]
    assert got["trace"]["tokens"]["source"] == [*trace.words.source]
    assert got["trace"]["tokens"]["target"] == [*trace.words.target]


def test_minus_infinity_and_masks_are_valid_json(tracing: Running) -> None:
    body = {"model": "generate", "prompt": PROMPT, "trace": ["*.masked", "*.mask"], "max_tokens": 3}
    points = tracing.get("/v1/completions", body)["trace"]["points"]
    name = "decoder.layers.0.self_attention.mask"
    masked = points[name + "ed"]["values"]
    mask = points[name]["values"]
    assert masked[0][0][0][1] == "-inf"
    assert mask[0][0][0][:2] == [True, False]


@pytest.mark.parametrize(
    ("change", "edit"),
    [
        (0, 0.0),
        ({"scale": 0.5, "at": {"heads": 1}}, half_of_head_1),
        (
            {"set": 0, "at": {"heads": [0, 2]}},
            lambda v: v * torch.tensor([0.0, 1, 0, 1]).view(4, 1, 1),
        ),
        ({"add": [0.25] * 32}, lambda v: v + 0.25),
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["translate", "generate", "chat"])
def test_edits_act_while_text_is_generated(
    tracing: Running, name: str, change: Any, edit: Any
) -> None:
    if name == "chat":
        point, edit = "*.rnn.hidden", lambda v: v * 0.5
        change = {"scale": 0.5}
    else:
        point = MIXED
    of = shipped("generate-rnn" if name == "chat" else name)
    asked: dict[str, Any] = {"model": name, "edit": {point: change}, "trace": ["head.logits"]}
    trace = Trace(["head.logits"], edit={point: edit})
    if name == "translate":
        got = tracing.get("/translate", {**asked, "text": TEXT, "beam_size": 3})
        (own,) = of.decode([TEXT], beam_size=3, trace=trace)
        assert got["results"][0]["texts"][0]["text"] == own.texts[0].text
    else:
        asked |= {"temperature": 0, "max_tokens": 12}
        prompt = PROMPT
        if name == "chat":
            prompt = f"Anna sees {PROMPT}. The"
            messages = [{"role": "user", "content": PROMPT}]
            (choice,) = tracing.get("/v1/chat/completions", {**asked, "messages": messages})[
                "choices"
            ]
            got = tracing.get("/v1/chat/completions", {**asked, "messages": messages})
            text = choice["message"]["content"]
        else:
            got = tracing.get("/v1/completions", {**asked, "prompt": prompt, "echo": True})
            text = got["choices"][0]["text"]
        (own,) = of.decode([prompt], sampling=GREEDY, max_length=12, trace=trace)
        assert own.texts[0].text.endswith(text)
    torch.testing.assert_close(values(got, "head.logits"), trace["head.logits"])


def test_a_value_of_one_request_can_be_sent_in_another(tracing: Running) -> None:
    """Activation patching: the encoder's output of one sentence in the translation of another."""
    name = "encoder.final_norm.output"
    one, other = "The dog sleeps.", "The cat sings."
    first = tracing.get("/translate", {"text": one, "trace": [name]})
    edit = {name: first["trace"]["points"][name]["values"]}
    patched = tracing.get("/translate", {"text": other, "edit": edit})
    assert patched["results"][0]["texts"][0]["text"] == first["results"][0]["texts"][0]["text"]


@pytest.mark.parametrize(
    ("path", "body", "point"),
    [
        ("/classify", {"text": "The food was bad."}, "head.class_logits"),
        ("/tag", {"text": "Anna lives in Berlin."}, "*.0.backward.lstm.hidden"),
        ("/predict", {"model": "regress", "inputs": [[0.5, 1.0, -2.0]]}, "*"),
        ("/predict", {"model": "classify", "inputs": ["The food was bad."]}, "head.pooled"),
        ("/embed", {"text": "The dog sleeps."}, "*"),
        ("/v1/embeddings", {"input": "The dog sleeps."}, "head.embedding"),
        ("/fill", {"text": "the ▁dog sees"}, "head.logits"),
        ("/score", {"model": "generate", "text": TEXT}, "*.pattern"),
        ("/score", {"model": "translate", "text": "Yes.", "target": "Ja."}, "head.logits"),
    ],
)  # fmt: skip
def test_every_other_route(tracing: Running, path: str, body: Any, point: str) -> None:
    plain = tracing.get(path, body)
    got = tracing.get(path, body | {"trace": [point]})
    trace = got.pop("trace")
    assert {k: v for k, v in got.items() if k != "id"} == plain
    text = body.get("text") or body.get("input") or body["inputs"][0]
    task = {"v1": "embed", "predict": body.get("model")}.get(path.split("/")[1]) or path[1:]
    of = tracing.models[body.get("model") or task].engine.model
    for edit in ({}, {of.network.output_point: {"scale": -0.5}}):
        got = tracing.get(path, body | {"trace": [point], "edit": edit})
        changes: dict[str, Edit] = {name: lambda value: value * -0.5 for name in edit}
        own = of.trace(text, body.get("target"), keep=point, edit=changes)
        assert got["trace"]["points"].keys() == {*own}
        for name in own:
            assert torch.equal(values(got, name).to(own[name].dtype), own[name])
        if edit:
            assert got.get("results", got.get("data")) != plain.get("results", plain.get("data"))
    assert trace["tokens"]


def test_scores_with_an_edit_are_those_of_the_edited_model(tracing: Running) -> None:
    asked = {"model": "translate", "text": "The dog sleeps.", "target": "Der Hund schläft.",
             "edit": {MIXED: {"set": 0, "at": {"heads": 1, "queries": [2, 3]}}}}  # fmt: skip

    def without(value: Tensor) -> Tensor:
        value = value.clone()
        value[:, 1, 2:4] = 0
        return value

    (got,) = tracing.get("/score", asked)["results"]
    trace = shipped("translate").trace(asked["text"], asked["target"], edit={MIXED: without})
    log_probs = trace["head.logits"][0].log_softmax(-1)
    wanted = [float(log_probs[place, token]) for place, token in enumerate(trace.wanted)]
    assert got["token_log_probs"] == pytest.approx(wanted, abs=1e-5)


def changes(name: str, change: Any) -> dict[str, Any]:
    return {"text": "Yes", "edit": {name: change}}


TRANSLATE: list[tuple[dict[str, Any], str]] = [
    ({"q": "Yes", "trace": ["*"]}, "trace: no such key"),
    ({"text": "Yes", "trace": ["*.patern"]}, r"trace.*\*\.pattern"),
    ({"text": "Yes", "trace": ["x@y"]}, "trace.*@3"),
    ({"text": ["Yes", "No"], "trace": ["*"]}, "trace.*2 texts"),
    ({"text": "Yes", "n_best": 2, "trace": ["*"]}, "trace.*2 answers"),
    ({"text": "Yes", "alignment": True, "edit": {"*": 0}}, "alignment.*edit"),
    (changes("head.logit", 0), "edit.*head.logits"),
    (changes(MIXED, {}), "edit.*exactly one"),
    (changes(MIXED, {"set": 0, "add": 1}), "edit.*exactly one"),
    (changes(MIXED, {"set": 0, "at": {"rows": 1}}), "edit.*rows.*heads"),
    (changes(MIXED, {"set": 0, "at": {"heads": 9}}), "edit.*9.*0 to 3"),
    (changes(MIXED, {"set": 0, "at": {"queries": 1}}), "edit.*queries.*/score"),
    (changes("*.pattern@3", 0), "one position.*omit the position"),
    (changes(MIXED, [[1], [2, 3]]), "edit.*lists"),
    (changes(MIXED, ["-inf"]), "edit.*numbers"),
    (changes(MIXED, [1.0, 2.0, 3.0]), "edit.*shape"),
    (changes(MIXED, 1e300), "edit.*finite"),
    (changes("head.logits", {"scale": 1e38}), "edit.*finite"),
    (changes("*.mask", {"add": 1}), "edit.*only set"),
    (changes(MIXED, "zero"), "edit.*zero"),
]
WRONG: list[tuple[str, dict[str, Any], int, str | None, str]] = [
    *(("/translate", body, 400, None, words) for body, words in TRANSLATE),
    ("/predict", {"model": "translate", "inputs": ["A"], "trace": ["*"]}, 400, "trace", "/trans"),
    ("/v1/completions", {"prompt": "A", "trace": ["*"], "stream": True}, 400, "trace", "stream"),
    ("/v1/completions", {"prompt": "A", "edit": {"*": 0}, "stream": True}, 400, "edit", "stream"),
    ("/v1/completions", {"prompt": ["A", "B"], "trace": ["*"]}, 400, "trace", "2 texts"),
    ("/v1/completions", {"prompt": "A", "trace": ["*"], "best_of": 2}, 400, "trace", "2 answers"),
    (
        "/v1/completions",
        {"prompt": "A", "edit": {"*.logits": {"scale": 1e38}}},
        400,
        "edit",
        "fini",
    ),
    ("/v1/completions", {"prompt": TEXT * 20, "trace": ["*"]}, 413, "trace", "1,000,000"),
    ("/classify", {"text": ["Good.", "Bad."], "trace": ["*"]}, 400, "trace", "2 texts"),
    ("/classify", {"text": "A", "edit": {"*_logits": {"scale": 3e38}}}, 400, "edit", "finite"),
    ("/classify", {"text": "Good.", "trace": 3}, 400, "trace", "list"),
    ("/tokenize", {"prompt": "A", "trace": ["*"]}, 400, "trace", "no such key"),
]


@pytest.mark.parametrize(("path", "body", "status", "param", "words"), WRONG)
def test_what_cannot_be_traced_is_refused_by_name(
    tracing: Running, path: str, body: dict[str, Any], status: int, param: str | None, words: str
) -> None:
    default = {"model": "generate"} if path == "/v1/completions" else {}
    got, content, _ = tracing.send(path, default | body)
    assert got == status, content
    error = content["error"]
    if path == "/translate":  # errors have the shape of LibreTranslate
        error = {"message": error, "param": param}
    assert re.search(words, error["message"]), error
    assert error["param"] == param


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/translate", {"text": "Yes"}), ("/classify", {"text": "Good."}),
        ("/v1/completions", {"model": "generate", "prompt": "A"}),
        ("/predict", {"model": "regress", "inputs": [[1.0, 1.0, 1.0]]}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("more", [{"trace": ["*"]}, {"edit": {"*": 0}}])
def test_without_the_option_no_request_is_traced(
    server: Running, path: str, body: Any, more: Any
) -> None:
    status, content, _ = server.send(path, body | more)
    assert status == 403
    assert re.search(f"{next(iter(more))}: .*--allow-trace", str(content["error"]))
    assert server.get(path, body)


def test_the_document_describes_the_fields(tracing: Running) -> None:
    schemas = tracing.get("/openapi.json")["components"]["schemas"]
    for name in ("DecodeBody", "CompletionBody", "ChatBody", "TagBody", "EmbeddingsBody"):
        assert {"trace", "edit"} <= schemas[name]["properties"].keys()
        assert "--allow-trace" in json.dumps(schemas[name]["properties"]["trace"])
