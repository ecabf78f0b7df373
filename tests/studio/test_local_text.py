"""The models that run in the page read and write text as Python does: tokens, words, beam search
with its tree, and sampling."""

import re
from typing import Any
from unicodedata import ucd_3_2_0 as unicode

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.studio.browser import Page
from tests.studio.local_page import as_edit, ask, demo, some

from translucid.core.errors import InputError, TraceError
from translucid.core.trace import Trace
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.generate.sampling import SamplingConfig, uniforms
from translucid.studio import answers
from translucid.studio.page_model import PageModel
from translucid.studio.text_runs import Run
from translucid.tasks.words import of_text

CLOSE = 1e-4
GENERATORS = ("translate", "translate-lstm", "generate", "generate-rnn")
MANY = settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def assigned(character: str) -> bool:
    """Whether every Unicode table knows the character; libraries and browsers have different
    versions."""
    return unicode.category(character) not in ("Cn", "Cs")


KNOWN = ("The", "dog", "not", "sleeps", "Jordan", "nicht", "das", "der", "asleep")
ODD = (
    "zorp",
    "'s",
    "  ",
    "▁",
    "²",
    "\x1c",
    "\x85",
    "\u200b",
    "\ufeff",
    "ﬁ",
    "e\u0301",
    "👩‍🔬",
    "<s>",
)
pieces = (
    st.sampled_from(KNOWN).map(" {}".format)
    | st.sampled_from((*KNOWN, *" .,!?'-_(\n", " .", "(The")) | st.sampled_from(ODD)
    | st.characters().filter(assigned)
)  # fmt: skip
texts: Any = st.lists(pieces, max_size=20).map("".join)


def many(strategy: Any) -> Any:
    """Several at once, for one call of the page."""
    return st.lists(strategy, min_size=1, max_size=40)


def tokenizer(name: str) -> Tokenizer:
    (only,) = demo(name).tokenizers.values()
    return only


def units(text: str, place: int) -> int:
    """A place in UTF-16 units, as in JavaScript."""
    return len(text[:place].encode("utf-16-le")) // 2


def read_by_python(t: Tokenizer, text: str) -> list[Any]:
    spans = zip(t.encode(text), t.offsets(text), strict=True)
    places = [[i, units(text, first), units(text, last)] for i, (first, last) in spans]
    return [places, list(of_text(t, text))]


@given(given=many(texts))
@MANY
def test_tokens_and_labels_equal_pythons(leaf: Page, local: str, given: list[str]) -> None:
    for name in ("translate", "tag"):
        t = tokenizer(name)
        here = ask(leaf, local, "tokens", name, given)
        assert here == [read_by_python(t, text) for text in given]


def test_every_character_is_split_as_in_python(leaf: Page, local: str) -> None:
    """Alone, inside a word, after an apostrophe and after a space. Of the many ideographs and
    private characters, one in 64."""
    every = [
        c for c in map(chr, range(0x110000))
        if assigned(c) and (unicode.category(c) not in ("Lo", "Co") or not ord(c) % 64)
    ]  # fmt: skip
    forms = [f"{c} a{c}a'{c} {c}" for c in every]
    rows = ["".join(forms[i : i + 500]) for i in range(0, len(forms), 500)]
    here = ask(leaf, local, "tokens", "translate", rows)
    t = tokenizer("translate")
    for row, (places, _) in zip(rows, here, strict=True):
        ends = {at: unit for unit, at in enumerate_units(row)}
        expected = zip(t.encode(row), t.offsets(row), strict=True)
        assert places == [[i, ends[first], ends[last]] for i, (first, last) in expected], row


def enumerate_units(text: str) -> list[tuple[int, int]]:
    """The UTF-16 unit at which each character begins, and its index; then the end."""
    places, unit = [], 0
    for at, character in enumerate(text):
        places.append((unit, at))
        unit += 1 + (character > "\uffff")
    return [*places, (unit, len(text))]


@given(given=many(st.lists(st.integers(0, 5) | st.integers(0, 564), max_size=20)))
@MANY
def test_texts_of_tokens_equal_pythons(leaf: Page, local: str, given: list[list[int]]) -> None:
    for name in ("generate", "tag"):
        t = tokenizer(name)
        assert ask(leaf, local, "texts", name, given) == [
            [t.decode(ids), t.pieces(ids)] for ids in given
        ]


def words_in_python(words: list[str]) -> Any:
    try:
        return list(tokenizer("tag").encode_words(words))
    except InputError as error:
        return str(error)


@given(given=many(st.lists(texts.filter(bool), min_size=1, max_size=5)))
@MANY
def test_tokens_of_words_equal_pythons(leaf: Page, local: str, given: list[list[str]]) -> None:
    for words, here in zip(given, ask(leaf, local, "words", "tag", given), strict=True):
        expected = words_in_python(words)
        if isinstance(expected, str):  # words are quoted differently
            here, expected = here.partition(" is ")[0], expected.partition(" is ")[0]
        assert here == expected


EXAMPLES = [
    ("translate", "The zorp (dogs) sleep!", None),
    ("translate", "", "Der zorp ."),
    ("translate-lstm", "Dogs, he said.", "Hunde , sagte er ."),
    ("generate", "The dogs that zorp", None),
    ("generate-rnn", "", None),
    ("classify", "The zorp is not bad.", "negative"),
    ("classify", "", None),
    ("tag", "Anna's cousin, Dr. Müller-Zorp, lives in New York.", None),
    ("tag", "Jordan lies in Asia", "B-LOC O O B-LOC"),
    ("tag", "Jordan x⁴ lies", "B-LOC O O"),  # the second word has two tokens
    ("perceptron", "1 -.5", None),
    ("regress", " 0.25,-1e-2", "0.5"),
    ("regress", "0\t1", None),
]


@pytest.mark.parametrize(("name", "text", "target"), EXAMPLES)
def test_an_example_equals_pythons(
    leaf: Page, local: str, name: str, text: str, target: str | None
) -> None:
    expected = demo(name).task.example(text, target)
    here = ask(leaf, local, "example", name, text, target)
    inputs = {key: value[0].tolist() for key, value in expected.batch.inputs.items()}
    assert here["inputs"].keys() == inputs.keys()
    for key, values in inputs.items():
        assert here["inputs"][key] == pytest.approx(values, rel=1e-6), key
    targets = expected.batch.targets
    assert here["targets"] == pytest.approx(targets.flatten().tolist())
    words = expected.words
    assert here["words"] == {
        key: list(getattr(words, key)) for key in ("source", "target", "follows", "features")
    }
    run = Run(PageModel("a", name, demo(name)), "a", text, target, ())
    if target is not None or name not in ("translate", "translate-lstm"):
        assert here["unknown"] == {
            side: run.unknown_in(getattr(run.example, side)) for side in ("source", "target")
        }


@pytest.mark.parametrize(
    ("name", "text", "target"),
    [
        ("generate", "The", "dog"),
        ("classify", "The", "sad"),
        ("tag", "", None),
        ("tag", "Jordan sleeps", "O"),
        ("tag", "Jordan", "LOC"),
        ("regress", "1", None),
        ("regress", "1 a", None),
        ("regress", "1 2", "x"),
    ],
)
def test_what_python_refuses_is_refused(
    leaf: Page, local: str, name: str, text: str, target: str | None
) -> None:
    with pytest.raises(InputError):
        demo(name).task.example(text, target)
    assert isinstance(ask(leaf, local, "example", name, text, target), str)


# ---- generation

PROMPTS = {
    "translate": ("The zorp that the children read is not boring quux.", "We"),
    "translate-lstm": ("My mother sleeps because she is tired.", "zorp quux"),
    "generate": ("The dogs that the old man sees", ""),
    "generate-rnn": ("The children who", "zorp"),
}
NUMBER = re.compile(r"-?\d+\.\d+")


def compare(here: Any, expected: Any, at: str = "") -> None:
    """The same keys, texts and numbers. Numbers within a text may be rounded differently."""
    if isinstance(expected, dict):
        assert here.keys() == expected.keys(), at
        for key, value in expected.items():
            compare(here[key], value, f"{at}.{key}")
    elif isinstance(expected, list):
        assert len(here) == len(expected), at
        for i, pair in enumerate(zip(here, expected, strict=True)):
            compare(*pair, f"{at}[{i}]")
    elif isinstance(expected, float):
        assert here == pytest.approx(expected, abs=CLOSE), at
    elif isinstance(expected, str) and at.endswith(".why"):
        assert NUMBER.sub("", here) == NUMBER.sub("", expected), at
        shown = ([float(n) for n in NUMBER.findall(text)] for text in (here, expected))
        assert next(shown) == pytest.approx(next(shown), abs=0.0101), at
    else:
        assert here == expected, at


SEARCHES: list[dict[str, Any]] = [
    {"beam_size": 1, "n_best": 1},
    {"beam_size": 2, "n_best": 1, "max_length": 3},
    {"beam_size": 4, "n_best": 4},
    {"beam_size": 9, "n_best": 2},
    {"beam_size": 3, "n_best": 3, "begin": [40, 4]},
    {"beam_size": 4, "n_best": 4, "max_length": 1, "begin": [7]},
]


def opened(name: str, text: str) -> Run:
    return Run(PageModel("a", name, demo(name)), "a", text, None, ())


def searched(name: str, text: str, options: dict[str, Any]) -> dict[str, Any]:
    """The search of the studio's server, with what the page does not read left out."""
    options = {"max_length": None, "begin": [], **options}
    begin = options.pop("begin")
    expected = answers.decode(opened(name, text), force=dict(enumerate(begin)), **options)
    search = expected["tree"]["search"]
    kept = ("beam_size", "n_best", "alpha")
    expected["tree"]["search"] = {key: search[key] for key in kept}
    expected["tree"]["nodes"][0]["label"] = ""
    return expected


@pytest.mark.parametrize("options", SEARCHES, ids=str)
@pytest.mark.parametrize("name", GENERATORS)
def test_the_tree_of_a_search_equals_pythons(
    leaf: Page, local: str, name: str, options: dict[str, Any]
) -> None:
    for text in PROMPTS[name]:
        expected = searched(name, text, options)
        compare(ask(leaf, local, "search", name, text, options), expected)


def test_an_empty_text_has_no_search(leaf: Page, local: str) -> None:
    with pytest.raises(InputError, match="text is empty"):
        searched("translate", "", SEARCHES[0])
    assert "text is empty" in ask(leaf, local, "search", "translate", "", {})


def test_own_translations_equal_pythons(leaf: Page, local: str) -> None:
    for name in ("translate", "translate-lstm"):
        for text in (*PROMPTS[name], "", *demo(name).facts["examples"]):
            assert ask(leaf, local, "own", name, text) == demo(name).default_target(text)
    assert ask(leaf, local, "own", "generate", "The dog") is None


SWITCHED: dict[str, dict[str, Any]] = {
    "translate": {
        "decoder.layers.1.cross_attention.output": 0.0,
        "*.feedforward.hidden": some(None, None, 7, value=2.0),
    },
    "translate-lstm": {"decoder.alignment.context": 0.0},
    "generate": {"decoder.layers.0.self_attention.mixed": some(None, 1, value=0.0)},
    "generate-rnn": {"*.hidden": some(None, 3, value=-1.0)},
}


@pytest.mark.parametrize("name", GENERATORS)
def test_edits_are_made_in_every_step(leaf: Page, local: str, name: str) -> None:
    edit, text = SWITCHED[name], PROMPTS[name][0]
    trace = Trace([], edit={glob: as_edit(change) for glob, change in edit.items()})
    (expected,) = demo(name).decode(
        [text], beam_size=3, n_best=3, tree=True, max_length=12, trace=trace
    )
    options = {"beam_size": 3, "n_best": 3, "max_length": 12}
    here = ask(leaf, local, "search", name, text, options | {"edit": edit})
    whole = expected.as_dict(tokenizer(name))
    compare(here["texts"], whole["texts"])
    assert len(here["tree"]["nodes"]) == len(whole["tree"]["nodes"])
    plain = ask(leaf, local, "search", name, text, options)
    assert plain["texts"] != here["texts"]


def test_an_edit_of_one_position_is_refused_while_decoding(leaf: Page, local: str) -> None:
    edit = {"*.hidden@2": 0.0}
    with pytest.raises(TraceError, match="one token at a time"):
        demo("generate-rnn").decode(["The"], trace=Trace([], edit=edit))
    assert "one token at a time" in ask(
        leaf, local, "search", "generate-rnn", "The", {"edit": edit}
    )
    misspelt = ask(leaf, local, "search", "generate-rnn", "The", {"edit": {"*.hiden": 0.0}})
    assert "matches no point" in misspelt


@pytest.mark.parametrize("name", GENERATORS)
def test_tokens_read_in_parts_have_the_logits_of_the_whole_text(
    leaf: Page, local: str, name: str
) -> None:
    target = "Das Buch, das die Kinder lesen, ist nicht langweilig." if "tr" in name else None
    text = "The dogs that the old man sees are tired." if target is None else PROMPTS[name][0]
    inputs = demo(name).task.example(text, target).batch.inputs
    given = {key: value[0].tolist() for key, value in inputs.items()}
    for sizes in ([1], [3, 1, 2], [len(text)]):
        assert ask(leaf, local, "apart", name, given, sizes) < 1e-5, sizes


# ---- sampling


entropy = st.tuples(
    st.integers(0, 10**6), st.lists(st.integers(0, 10**5), max_size=9), st.integers(0, 7)
)


@given(given=many(entropy))
@MANY
def test_random_numbers_equal_numpys(leaf: Page, local: str, given: list[Any]) -> None:
    here = ask(leaf, local, "numbers", "", given)
    assert here == [uniforms(*each, 5).tolist() for each in given]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"temperature": 0.0},
        {"temperature": 0.7, "top_k": 5, "seed": 3},
        {"top_p": 0.8, "samples": 4},
        {"temperature": 2.5, "top_p": 0.3, "top_k": 40},
        {"repetition_penalty": 1.7, "seed": 11},
    ],
    ids=str,
)
@pytest.mark.parametrize("name", GENERATORS)
def test_sampled_texts_equal_pythons(
    leaf: Page, local: str, name: str, options: dict[str, Any]
) -> None:
    given = {"temperature": 1.0, "seed": 0, "samples": 3, "repetition_penalty": 1.0, **options}
    here = ask(leaf, local, "sample", name, PROMPTS[name][0], given)
    shape = {key: given.pop(key) for key in ("temperature", "top_k", "top_p") if key in given}
    expected = answers.draws(opened(name, PROMPTS[name][0]), SamplingConfig(**shape), **given)
    compare(here, expected)
