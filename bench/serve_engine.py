"""Measure the serving engine, and look for swapped answers and lost rows.

    python bench/serve_engine.py speed --requests 512        # 64 clients against one at a time
    python bench/serve_engine.py tagged --requests 100000    # every request has its own answer
    python bench/serve_engine.py cancel --requests 4000      # every request is cancelled

Time is processor time, so other processes on the machine matter less.
"""

import argparse
import random
import time
from collections.abc import Callable, Sequence
from threading import Event as Flag

import torch

import translucid as tl
from translucid.generate import SamplingConfig
from translucid.serving import Engine, Event, Failed, Finished, Job, Limits

TEXTS = (
    "The dog sleeps.", "The old dog does not like the cat.", "She has not seen the small bird.",
    "The teacher has opened the long letter because the nurse is tired.", "This curious man reads.",
)  # fmt: skip
GREEDY = SamplingConfig(temperature=0)


def closed_loop(
    engine: Engine, jobs: Sequence[Job], clients: int, hear: Callable[[int, Event], None]
) -> None:
    """Answer all jobs; each client submits its next one when the last is answered."""
    following = iter(range(len(jobs)))
    left, done = [len(jobs)], Flag()

    def submit() -> None:
        number = next(following, None)
        if number is None:
            return

        def receive(event: Event) -> None:
            hear(number, event)
            if isinstance(event, Finished | Failed):
                left[0] -= 1
                submit()
                if not left[0]:
                    done.set()

        engine.submit(jobs[number], receive)

    for _ in range(clients):
        submit()
    done.wait()


def speed(requests: int, clients: int) -> None:
    model = tl.load("demo:translate")
    texts = [TEXTS[number % len(TEXTS)] for number in range(requests)]
    for beams in (1, 4):
        model.decode(texts[:5], beam_size=beams)
        alone = texts[: max(requests // 8, 5)]
        started = time.process_time()
        own = [model.decode([text], beam_size=beams)[0].texts[0].text for text in alone]
        one = len(alone) / (time.process_time() - started)
        found: list[str] = [""] * requests

        def hear(number: int, event: Event, found: list[str] = found) -> None:
            if isinstance(event, Finished):
                found[number] = event.decoded.texts[0].text

        jobs = [Job(text, generation={"beam_size": beams}) for text in texts]
        engine = Engine(model, Limits(rows=clients * beams))
        started = time.process_time()
        closed_loop(engine, jobs, clients, hear)
        served = requests / (time.process_time() - started)
        engine.close()
        different = sum(one != two for one, two in zip(found, own, strict=False))
        print(
            f"beam {beams}: one at a time {one:.0f} requests/s, {clients} clients {served:.0f} "
            f"requests/s, ratio {served / one:.2f}; {different} texts differ"
        )


def tagged(requests: int, clients: int) -> None:
    """Prompts of four random tokens; the answers of the library in a batch are the tags."""
    model = tl.load("demo:generate")
    dice, generator = random.Random(0), model.text_generator
    words = [w for w in model.output_tokenizer.pieces(range(5, 205)) if w.isalpha()]
    prompts = [" ".join(dice.choices(words, k=4)) for _ in range(requests)]
    own = generator.generate(prompts, temperature=0, max_length=3)
    wrong = [0]

    def hear(number: int, event: Event) -> None:
        if isinstance(event, Failed) or (
            isinstance(event, Finished) and event.decoded.texts[0].text != own[number]
        ):
            wrong[0] += 1

    jobs = [Job(text, sampling=GREEDY, generation={"max_length": 3}) for text in prompts]
    engine = Engine(model)
    closed_loop(engine, jobs, clients, hear)
    engine.close()
    print(f"{requests:,} tagged requests: {wrong[0]} answers differ from the library's")


def cancel(requests: int, clients: int) -> None:
    """Every request is cancelled after its first, second or third token."""
    job = Job("The ", sampling=SamplingConfig(), ignore_eos=True, generation={"max_length": 200})
    engine = Engine(tl.load("demo:generate"))
    dice, late = random.Random(0), [0]
    tickets = {}
    cancelled: dict[int, float] = {}
    ended, all_ended = [0], Flag()

    def hear(number: int, event: Event) -> None:
        steps = engine.stats()["steps"]
        if isinstance(event, Finished | Failed):
            late[0] += steps - cancelled.get(number, 0) > 2
            ended[0] += 1
            submit()
            if ended[0] == requests:
                all_ended.set()
        elif number not in cancelled and number in tickets and dice.random() < 0.4:
            cancelled[number] = steps
            tickets[number].cancel()

    following = iter(range(requests))

    def submit() -> None:
        if (number := next(following, None)) is not None:
            tickets[number] = engine.submit(job, lambda event: hear(number, event))

    for _ in range(clients):
        submit()
    all_ended.wait()
    stats = engine.stats()
    engine.close()
    print(
        f"{requests:,} requests cancelled: {late[0]} took more than 2 steps; rows in use at the "
        f"end: {stats['rows']:.0f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=("speed", "tagged", "cancel"))
    parser.add_argument("--requests", type=int, default=512)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    {"speed": speed, "tagged": tagged, "cancel": cancel}[given.what](given.requests, given.clients)


if __name__ == "__main__":
    main()
