"""The API of LibreTranslate, through its Python client and as a translation platform calls it."""

import asyncio
import urllib.error
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.serving.running import Running, shipped

from translucid.serving import Finished, Job
from translucid.serving.libretranslate import MOST_LINES

SENTENCES = ["The dog does not sleep.", "The old dog sees the cat."]


def translated(texts: list[str]) -> list[str]:
    return shipped("translate").translate(texts)


def test_the_python_client_translates_and_lists_languages(server: Running) -> None:
    client = pytest.importorskip("libretranslatepy").LibreTranslateAPI(server.address)
    assert client.translate(SENTENCES[0], "en", "de") == translated(SENTENCES[:1])[0]
    codes = {one["code"]: one["targets"] for one in client.languages()}
    assert codes == {"en": ["de"], "de": []}
    with pytest.raises(urllib.error.HTTPError) as caught:
        client.detect("The dog sleeps.")
    assert caught.value.code == 501
    caught.value.close()


def test_a_platform_sends_a_list_as_json(server: Running) -> None:
    """As the backend of a translation platform does: it lists languages, then sends lists."""
    assert {"code": "en", "name": "English", "targets": ["de"]} in server.get("/languages")
    asked = {"api_key": "", "q": SENTENCES, "source": "en", "target": "de"}
    assert server.get("/translate", asked) == {"translatedText": translated(SENTENCES)}


def test_lines_are_translated_one_by_one(server: Running) -> None:
    text = f"{SENTENCES[0]}\n\n{SENTENCES[1]}\n"
    first, second = translated(SENTENCES)
    asked = {"q": text, "source": "en", "target": "de"}
    assert server.get("/translate", asked)["translatedText"] == f"{first}\n\n{second}\n"


def test_alternatives_are_the_next_best_translations(server: Running) -> None:
    asked = {"q": SENTENCES[0], "source": "en", "target": "de", "alternatives": 2}
    answer = server.get("/translate", asked)
    (decoded,) = shipped("translate").decode([SENTENCES[0]], n_best=3)
    expected = [one.text for one in decoded.texts]
    assert [answer["translatedText"], *answer["alternatives"]] == expected


def test_markup_stays_around_the_right_words(server: Running) -> None:
    html = '<p>The <b class="x">old</b> dog does <i>not</i> sleep.</p><br/><pre>The cat</pre>'
    asked = {"q": html, "source": "en", "target": "de", "format": "html"}
    got = server.get("/translate", asked)["translatedText"]
    assert got == (
        '<p>Der <b class="x">alte</b> Hund schläft <i>nicht.</i></p><br/><pre>The cat</pre>'
    )


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"source": "fr"}, "translates en to de"),
        ({"target": "fr"}, "translates en to de"),
        ({"q": 3}, "q"),
        ({"format": "pdf"}, "format"),
        ({"alternatives": 99}, "alternatives"),
    ],
)
def test_errors_have_the_shape_of_this_api(
    server: Running, fields: dict[str, Any], words: str
) -> None:
    asked = {"q": "The dog", "source": "en", "target": "de"} | fields
    status, content, _ = server.send("/translate", asked)
    assert status == 400
    assert isinstance(content["error"], str)
    assert words in content["error"]


def test_requests_with_very_many_lines_are_refused(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    def send(q: Any, **more: str) -> tuple[int, Any, Any]:
        return server.send("/translate", {"q": q, "source": "en", "target": "de"} | more)

    monkeypatch.setattr("translucid.serving.libretranslate.MOST_LINES", 3)
    line, before = SENTENCES[0], server.models["translate"].engine.stats()["accepted"]
    allowed = [f"{line}\n{line}\n\n", line]  # empty lines are not translated
    too_many = [*allowed, line]
    page = "".join(f"<p>{line}</p>" for _ in range(3))
    for q, more in ((too_many, {}), (page + f"<p>{line}</p>", {"format": "html"})):
        status, content, _ = send(q, **more)
        assert status == 400
        assert "q: 4 lines" in content["error"]
        assert "at most 3" in content["error"]
    assert server.models["translate"].engine.stats()["accepted"] == before
    (german,) = translated([line])
    assert send(allowed)[1]["translatedText"] == [f"{german}\n{german}\n\n", german]
    assert send(page, format="html")[1]["translatedText"].count(german) == 3
    monkeypatch.undo()
    status, content, _ = send("a\n" * (MOST_LINES + 1))
    assert status == 400
    assert "10,001 lines" in content["error"]


def test_a_request_has_no_more_texts_in_the_engine_than_its_window(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next text is submitted when one has ended, so that other requests find room."""
    monkeypatch.setattr("translucid.serving.served.AT_ONCE", 4)
    model = server.models["translate"]
    real, inside, ended = model.engine.submit, [0], 0

    def submit(*given: Any) -> Any:
        inside.append(len(inside) - ended)
        return real(*given)

    async def ask() -> None:
        nonlocal ended
        async for _, event in model.events([Job(SENTENCES[0])] * 10):
            ended += isinstance(event, Finished)

    monkeypatch.setattr(model.engine, "submit", submit)
    with ThreadPoolExecutor(1) as pool:  # a browser of other tests may run an event loop here
        pool.submit(asyncio.run, ask()).result()
    assert inside == [0, 1, 2, 3, 4, 4, 4, 4, 4, 4, 4]
    assert ended == 10
