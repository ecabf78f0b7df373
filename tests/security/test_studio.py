"""The studio lets go of those who never say what they want, and shows any record without harm."""

import random
from pathlib import Path

import pytest
from bench.attempts import BAD, Tally, attempt
from bench.hostile_requests import ask_all, closed_within, hostile_histories, slow_heads
from tests.studio.serving import serving

from translucid.studio.server import serve


def test_heads_of_requests_have_a_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "HEAD", 1.0)
    with serving({}) as studio:
        links = slow_heads(studio.port, 30)
        assert studio.get("/api/models").status == 200  # others are answered meanwhile
        assert closed_within(links, 180) == len(links)
        for link in links:
            link.close()
        assert studio.get("/api/models").status == 200


def test_connections_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "MOST", 5)
    monkeypatch.setattr(serve, "HEAD", 3600.0)  # nobody is sent away for being slow
    with serving({}) as studio:
        links = slow_heads(studio.port, 5)
        more = slow_heads(studio.port, 5)
        assert closed_within(more, 180) == len(more)
        for link in [*links, *more]:
            link.close()


def test_any_record_is_shown_or_refused(tmp_path: Path) -> None:
    tally = Tally("histories")
    cases = list(hostile_histories())
    chosen = random.Random(0).sample(cases, 100)
    chosen += [case for case in cases if case[0].endswith(("pipe", "digits", "rows zero"))]
    for number, (name, make) in enumerate(chosen):
        folder = tmp_path / str(number)
        make(folder)
        tally.add(name, *attempt(lambda: ask_all(folder)))  # noqa: B023
    assert tally.bad == []
    assert not any(tally.counts[outcome] for outcome in BAD)
