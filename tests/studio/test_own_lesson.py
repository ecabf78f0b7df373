"""A lesson that the user names: what is refused when its file is read, what when the models are
opened, and what is told at its stops."""

import re
import sys
from pathlib import Path

import pytest
from tests.in_process import run as command
from tests.own_code import forget_own_code  # noqa: F401  (fixture)
from tests.studio.test_stations import plain

import translucid as tl
from translucid.cli import explore
from translucid.core.errors import InputError
from translucid.data import shipped_models
from translucid.studio.handlers import Handlers
from translucid.studio.lesson import Lesson, read
from translucid.studio.lesson_answers import OWN, check, on_run, refuse
from translucid.studio.library import Library

TEXT = "The dog does not sleep."
GOOD = """
from translucid.studio.lesson import Lesson, Stop, right, wrong

lesson = Lesson(name="Mine")


@lesson.stop("A row", view="flow", at="encoder.embedding.lookup")
def a_row(run):
    embedding = run.point("encoder.embedding.lookup")
    word = embedding.row_up_to(1)
    return Stop(f"{word} begins {embedding[word, 0]}.")


@a_row.check
def reads_cat(run, page):
    if run.reads("cat"):
        return right("Yes.")
    return wrong("No.")
"""


@pytest.fixture(scope="module")
def library() -> Library:
    names = ("demo:classify", "demo:translate")
    return Library({name: tl.load(name) for name in names})


@pytest.fixture(scope="module")
def translator(library: Library) -> Library:
    return Library({"demo:translate": library.opened["b"].model})


def written(tmp_path: Path, text: str, name: str = "mine.py") -> Path:
    (tmp_path / name).write_text(text, "utf-8")
    return tmp_path / name


# ---- when the file is read ----


def test_an_own_lesson_is_listed_first(library: Library, tmp_path: Path) -> None:
    handlers = Handlers(library, lesson=read(written(tmp_path, GOOD)))
    assert b'[{"id":"own","name":"Mine"' in handlers.ask("GET", "/api/lessons").body
    run = library.run("b", TEXT).key
    reply = handlers.ask("GET", f"/api/runs/{run}/lesson/own")
    assert b'"word":"dog"' in reply.body
    reply = handlers.ask("GET", f"/api/runs/{run}/check/own/1?address=flow")
    assert b'"done":false,"say":[{"text":"No."}]' in reply.body
    data = written(tmp_path, GOOD.replace('"flow"', '"data"'), "data.py")
    handlers = Handlers(library, lesson=read(data))
    assert b'"address":"data?at=' in handlers.ask("GET", f"/api/runs/{run}/lesson/own").body


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"flow"', '"flaw"', r"bad.py:7: .*view 'flaw'.* flow, attention"),
        (", at=", ", ad=", r"bad.py:7: .*key 'ad'; .*at, i"),
        ('view="flow"', 'veiw="flow"', r"bad.py:7: .*missing .*view"),
        ('at="encoder', 'kind="selfish", at="encoder', r"bad.py:7: .*kind must be one of encoder"),
        ('at="encoder', 'layer="x", at="encoder', r"bad.py:7: .*layer must be a number, not 'x'"),
        ('at="encoder', 'moment="late", at="e', r"bad.py:7: .*moment must be one of scores"),
        ('name="Mine"', 'nmae="Mine"', r"bad.py:4: TypeError: .*nmae"),
        ('name="Mine"', "name=3", r"bad.py:4: .*name must be a string, not 3"),
        ('"A row"', "['A row']", r"bad.py:7: .*title .*string"),
        ("lesson = Lesson", "Lesson", r"bad.py:7: NameError: name 'lesson'"),
        ("import Lesson,", "import Leson,", r"bad.py:2: ImportError: .*Leson"),
        ("def a_row(run):", "def a_row(run)", r"bad.py:8: expected ':'"),
        ("\n@a_row", "\nother = Lesson(name='Other')\n\n\n@a_row", "defines 2 lessons; write"),
    ],
)
def test_mistakes_are_reported_with_file_and_line(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    assert old in GOOD
    with pytest.raises(InputError, match=message):
        read(written(tmp_path, GOOD.replace(old, new, 1), "bad.py"))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("empty.py", "", "defines no lesson; write lesson = Lesson"),
        ("bare.py", GOOD.partition("@lesson")[0], "the lesson has no stops"),
        ("mine.toml", "name = 'Mine'", "no such Python file"),
    ],
)
def test_a_file_without_a_lesson_is_refused(
    tmp_path: Path, name: str, text: str, message: str
) -> None:
    with pytest.raises(InputError, match=rf"{name}.*{message}"):
        read(written(tmp_path, text, name))


def test_a_bad_lesson_ends_the_command_before_anything_opens(tmp_path: Path) -> None:
    bad = written(tmp_path, GOOD.replace('view="flow"', 'view="flaw"'), "bad.py")
    ran = command("explore", "--lesson", str(bad))
    assert ran.returncode != 0
    assert "bad.py:7" in ran.stderr
    assert "view 'flaw'" in ran.stderr
    assert ran.stdout == ""


# ---- when the models are opened ----

POINT = "decoder.layers.1.cross_attention.pattern"
ASKING = f"""
from translucid.studio.lesson import Lesson, ModelLacks, SentenceLacks, Stop, right, wrong

lesson = Lesson(name="Mine", text="{TEXT}")
POINT = "{POINT}"


@lesson.stop("A weight", view="attention", kind="cross", layer=1, head=0)
def a_weight(run):
    attention = run.point(POINT)
    row, column = attention.row_writing("nicht"), attention.column_of("not")
    return Stop(f"It is {{attention[0, row, column]}}.")


@a_weight.check
def is_large(run, page):
    attention = run.point(POINT)
    row, column = attention.row_writing("nicht"), attention.column_of("not")
    weight = attention[0, row, column]
    return right("Yes.") if weight > 0.5 else wrong("No.")
"""
SHOWN = "{attention[0, row, column]}"
# What a lesson may ask for, and why the translator cannot show it.
NOT_THERE = [
    (SHOWN, "{attention[9, row, column]}", f"mine.py:12: there is no head 9; {POINT} has heads 0"),
    (SHOWN, "{attention[row, column]}", f"{POINT} has 3 indices (heads, queries, keys), not 2"),
    (SHOWN, "{attention[0, row, column, 0]}", f"{POINT} has 3 indices"),
    (SHOWN, "{attention.mean_over_heads(row)}", f"{POINT} has 3 indices"),
    (SHOWN, "{attention.largest(row)}", f"{POINT} needs an index for each axis"),
    (SHOWN, "{attention.shape[3]}", "mine.py:12: IndexError"),
    (SHOWN, "{attention['a']}", "mine.py:12: TypeError"),
    (SHOWN, "{run.weight('none', 0)}", "this model has no weight none"),
    (SHOWN, "{run.wieght('none', 0)}", "mine.py:12: AttributeError"),
    (SHOWN, "{colunm}", "mine.py:12: NameError: name 'colunm' is not defined"),
    ("layers.1", "layers.9", "mine.py:10: this model has no decoder.layers.9.cross_attention"),
    ("layer=1", "layer=9", "no cross attention in layer 9"),
    ("head=0", "head=4", "there is no head 4"),
    ('kind="cross"', 'at="decoder.layers.7"', "this model has no decoder.layers.7"),
    (f'{SHOWN}."', f'{SHOWN}.", off="none"', "this model has no switch none"),
    (f'{SHOWN}."', f'{SHOWN}.", haed=1', "mine.py:12: TypeError: unknown key 'haed'"),
    ("return Stop", "Stop", "mine.py: TypeError: a_weight (line 8) must return Stop(...)"),
    ("weight = attention[0,", "weight = attention[7,", "mine.py:19: there is no head 7"),
    ('return right("Yes.") if', "return 1 if", "is_large (line 15) must return right(...)"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "reason"), NOT_THERE, ids=[new for _, new, _ in NOT_THERE])
def test_what_the_model_lacks_is_refused_when_it_is_opened(
    library: Library, translator: Library, tmp_path: Path, old: str, new: str, reason: str
) -> None:
    assert old in ASKING
    path = written(tmp_path, ASKING.replace(old, new, 1))
    own = read(path)
    for opened in (translator, library):  # and the same among others
        with pytest.raises(InputError) as refused:
            refuse(opened, own, str(path))
        assert str(refused.value).startswith(f"{path}, stop 1 'A weight': on demo:")
        assert reason in str(refused.value)
    run = translator.run("a", TEXT)
    (stop,) = on_run(run, OWN, own)["steps"]  # nobody gets an error of the server
    if "lacks" not in stop:
        assert not check(run, run, OWN, 1, stop["address"], own)["done"]


def test_a_good_lesson_is_not_refused(library: Library, tmp_path: Path) -> None:
    refuse(library, read(written(tmp_path, ASKING)), "mine.py")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("run.point(POINT)", "run.point('none', lacks='it has two layers only')"),
        ("attention = run", "raise ModelLacks('it has two layers only')\n    attention = run"),
        ('name="Mine"', 'name="Mine", needs={"none": "it is something else"}'),
        ('name="Mine"', 'name="Mine", model="demo:tag"'),
        ('column_of("not")', 'column_of("horrible")'),
    ],
)
def test_a_lesson_can_declare_what_it_is_not_for(
    library: Library, tmp_path: Path, old: str, new: str
) -> None:
    refuse(library, read(written(tmp_path, ASKING.replace(old, new))), "mine.py")


def test_the_command_looks_at_the_lesson_before_it_serves(tmp_path: Path) -> None:
    path = written(tmp_path, ASKING.replace("layer=1", "layer=9"))
    folder = shipped_models.find("demo:translate")
    with pytest.raises(InputError, match=r"mine.py, stop 1 'A weight': .*in layer 9"):
        explore._handlers([folder], "cpu", read(path), path)


# ---- at a stop ----


@pytest.mark.parametrize(
    ("old", "new", "text", "reason"),
    [
        ('column_of("not")', 'column_of("awful", "horrible")', TEXT,
         "this sentence does not contain “awful” or “horrible”"),
        ("", "", "The dog sleeps.", "it does not write “nicht”"),
        ("attention = run", "raise SentenceLacks('no cat')\n    attention = run", TEXT, "no cat"),
        ("{attention[0, row", "{attention[0, 40", TEXT, "the sentence is too short"),
    ],
)  # fmt: skip
def test_a_word_that_is_not_there_is_named(
    translator: Library, tmp_path: Path, old: str, new: str, text: str, reason: str
) -> None:
    asking = ASKING.partition("@a_weight.check")[0].replace(old, new)
    own = read(written(tmp_path, asking))
    (stop,) = on_run(translator.run("a", text), OWN, own)["steps"]
    assert stop == {"title": "A weight", "lacks": reason, "in_sentence": True}


def test_a_task_stays_whatever_the_sentence_lacks(translator: Library, tmp_path: Path) -> None:
    own = read(written(tmp_path, ASKING.replace("head=0", 'head=0, do="Write not."')))
    run = translator.run("a", "The dog sleeps.")
    (stop,) = on_run(run, OWN, own)["steps"]
    assert plain(stop["say"]) == "Not here: it does not write “nicht”."
    assert plain(stop["do"]) == "Write not."
    assert stop["address"] == "attention?kind=cross&layer=1&head=0"
    assert stop["task"]
    verdict = check(run, run, OWN, 1, stop["address"], own)
    assert verdict == {"done": False, "say": [{"text": "Not here: it does not write “nicht”."}]}


def test_words_of_the_sentence_cannot_pass_for_numbers(translator: Library) -> None:
    """What an f-string shows is marked; a text that somebody types has no marks of its own."""
    lesson = Lesson(name="Mine")

    @lesson.stop("Echo", view="flow")
    def echo(run):  # type: ignore[no-untyped-def]
        from translucid.studio.lesson import Stop

        return Stop(f"{run.point('encoder.embedding.lookup').row(0)} and [noun](part:encoder)")

    run = translator.run("a", "[x](part:y) \x02{}\x03")
    (stop,) = on_run(run, OWN, lesson)["steps"]
    word, text, noun = stop["say"]
    assert word["means"] == "src:0"
    assert text == {"text": " and "}
    assert noun == {"text": "noun", "means": "part:encoder"}


def test_a_number_with_a_format_is_plain_text(translator: Library, tmp_path: Path) -> None:
    path = written(tmp_path, ASKING.replace(SHOWN, "{attention[0, row, column]:.2f}"))
    run = translator.run("a", TEXT)
    (stop,) = on_run(run, OWN, read(path))["steps"]
    (piece,) = stop["say"]
    weight = run[POINT][0, 0, 3, 3]
    assert re.fullmatch(rf"It is {float(weight):.2f}\.", piece["text"])


# ---- only because somebody named it ----


def test_no_lesson_is_loaded_from_a_model_folder_or_by_the_page(tmp_path: Path) -> None:
    """A lesson is code: a model folder may hold one, and a page may ask for one."""
    folder = tmp_path / "model"
    tl.load("demo:perceptron").save(folder)
    mark = tmp_path / "was-run"
    for place in ("lesson.py", "own.py", "lessons/lesson.py"):
        (folder / place).parent.mkdir(exist_ok=True)
        (folder / place).write_text(f"open({str(mark)!r}, 'w')", "utf-8")
    handlers = explore._handlers([folder], "cpu", None)
    run = handlers.library.run("a", "1 1").key
    assert b'"id":"own"' not in handlers.ask("GET", "/api/lessons").body
    for asked in ("own", "lesson.py", f"{folder}/lesson", "..%2Flesson", "%2e%2e"):
        for question in (f"/api/lessons/{asked}", f"/api/runs/{run}/lesson/{asked}",
                         f"/api/runs/{run}/check/{asked}/1?address=flow"):  # fmt: skip
            assert handlers.ask("GET", question).status in (404, 422)
    assert not mark.exists()
    assert not [name for name, module in sys.modules.items()
                if str(getattr(module, "__file__", "")).startswith(str(folder))]  # fmt: skip


# ---- the manual ----


def test_the_example_of_the_manual_can_be_followed(translator: Library, tmp_path: Path) -> None:
    manual = (Path(__file__).parents[2] / "docs/guides/lessons.md").read_text("utf-8")
    example = re.search(r"^```python\n(from translucid.*?)^```$", manual, re.DOTALL | re.MULTILINE)
    assert example is not None
    more = re.findall(r"^```python\n(@.*?)^```$", manual, re.DOTALL | re.MULTILINE)
    own = read(written(tmp_path, "\n\n".join([example[1], *more]), "lesson.py"))
    refuse(translator, own, "lesson.py")
    assert own.text is not None
    run = translator.run("a", own.text)
    first, second = on_run(run, OWN, own)["steps"]
    assert "nicht" in plain(first["say"])
    assert not check(run, run, OWN, 2, second["address"], own)["done"]
    assert check(run, run, OWN, 2, "attention?kind=cross&layer=0&head=3", own)["done"]
    weight = next(piece["value"] for piece in first["say"] if "value" in piece)
    assert check(run, run, OWN, 1, first["address"], own, f"{1 - weight:.2f}")["done"]
    mistaken = check(run, run, OWN, 1, first["address"], own, f"{weight:.2f}")
    assert plain(mistaken["say"]) == "Not right: that is the weight of not itself."
