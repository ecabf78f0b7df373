"""Names of before: what a file says is translated and told, what is typed is refused."""

import warnings
from pathlib import Path

import pytest
from tests.in_process import run
from tests.tiny.dealt import dealt

import translucid as tl
from translucid.core.errors import ConfigError
from translucid.core.renamed import GENERATION, KEYS, OPTIONS, Renamed
from translucid.generate.beam_search import GenerationConfig
from translucid.runs.recipe import recipe

OLD_RUNS = Path(__file__).parent / "fixtures/before-the-house"
TASK = '[task]\nkind = "translate"\n'
VALUES = {"tokenizer.vocab": 123, "training.capture": False, "training.save_aside": True,
          "decoding.beams": 7}  # fmt: skip


def written(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "old.toml"
    path.write_text(TASK + "\n".join(lines), "utf-8")
    return path


@pytest.mark.parametrize("key", VALUES)
def test_a_file_is_translated_and_that_is_said(key: str, tmp_path: Path) -> None:
    section, _, name = key.partition(".")
    path = written(tmp_path, f"[{section}]", f"{name} = {str(VALUES[key]).lower()}")
    with pytest.warns(Renamed) as said:
        found = recipe.read(path)
    assert [str(each.message) for each in said] == [f"{path}: {key}: now {KEYS[key]}"]
    today = getattr(getattr(found, section), KEYS[key].partition(".")[2])
    assert today == VALUES[key]


@pytest.mark.filterwarnings("always::translucid.core.renamed.Renamed")
def test_the_command_line_says_it_in_one_line_for_each_key(tmp_path: Path) -> None:
    path = written(
        tmp_path, "[decoding]", "beams = 2", "[tokenizer]", "vocab = 50", "[data]", "toyland = 10"
    )
    answer = run("recipe", "check", str(path))
    assert answer.returncode == 0
    assert [line for line in answer.stderr.splitlines() if "now" in line] == [
        f"warning: {path}: decoding.beams: now decoding.beam_size",
        f"warning: {path}: tokenizer.vocab: now tokenizer.vocab_size",
    ]


def test_what_a_file_of_before_says_may_be_overridden_by_todays_name(tmp_path: Path) -> None:
    path = written(tmp_path, "[decoding]", "beams = 2")
    with pytest.warns(Renamed):
        assert recipe.read(path, ["decoding.beam_size=3"]).decoding.beam_size == 3


def test_a_file_of_two_times_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, "[decoding]", "beams = 2", "[tokenizer]", "vocab_size = 50")
    with pytest.raises(ConfigError, match=r"old.toml: decoding.beams: now decoding.beam_size$"):
        recipe.read(path)


@pytest.mark.parametrize("key", VALUES)
def test_an_old_key_that_is_typed_is_refused(key: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"^{key}: now {KEYS[key]}$"):
        recipe.read(written(tmp_path), [f"{key}=1"])
    answer = run("train", "translate", "--toyland", "10", f"{key}=1", cwd=tmp_path)
    assert (answer.returncode, answer.stderr) == (2, f"error: {key}: now {KEYS[key]}\n")


@pytest.mark.parametrize(
    ("command", "name"),
    dealt(["translate", "generate", "score"], GENERATION | OPTIONS, share=3),
)
def test_an_old_option_is_refused(command: str, name: str) -> None:
    """With the new one, where the command has it; else as any that does not exist."""
    old, new = (f"--{n.replace('_', '-')}" for n in (name, (GENERATION | OPTIONS)[name]))
    known = new in run(command, "--help").stdout.split()
    for words in ([old, "3"], [f"{old}=3"]):
        answer = run(command, "nowhere", *words)
        assert answer.returncode == 2
        if known and name in ("beam", "beams"):  # another name of the same, and no model there
            assert answer.stderr.startswith(f"{old}: taken as {new}\nerror: nowhere")
        elif known:
            assert answer.stderr == f"error: {old}: now {new}\n"
        else:
            assert "No such option" in answer.stderr


def test_a_prompt_behind_two_dashes_is_no_option() -> None:
    assert "--beam: " not in run("generate", "nowhere", "--", "--beam").stderr


@pytest.mark.parametrize("name", GENERATION)
def test_an_old_argument_is_refused(name: str) -> None:
    said = f"^{name}: now {GENERATION[name]}$"
    with pytest.raises(ConfigError, match=said):
        GenerationConfig(**{name: 3})
    translator, language = (tl.load(OLD_RUNS / task) for task in ("translate", "language"))
    asked = {
        "translate": lambda: translator.translate(["a"], **{name: 3}),
        "decode": lambda: translator.decode(["a"], **{name: 3}),
        "scores": lambda: translator.scores(["a"], ["b"], **{name: 3}),
        "generate": lambda: language.generate("a", **{name: 3}),
        "stream": lambda: language.stream("a", **{name: 3}),
    }
    for method, ask in asked.items():
        with pytest.raises(ConfigError, match=said):
            print(method, ask())


def test_nothing_is_said_of_what_is_written_today(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        recipe.read(written(tmp_path, "[decoding]", "beam_size = 2"))
