"""The API of LibreTranslate, through its Python client and as a translation platform calls it."""

import urllib.error
from typing import Any

import pytest
from tests.serving.running import Running, shipped

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
