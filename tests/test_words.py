"""The field's own words: what people read holds none of the words that were ours alone, and neither
do the names in the code. Every key, option and trace point that the glossary names exists.
"""

import re
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
import typer.main
from tests.parsed import Facts, facts

from translucid.cli import app
from translucid.core import catalogue
from translucid.generate.beam_search import GenerationConfig
from translucid.generate.sampling import SamplingConfig
from translucid.models import PerceptronConfig
from translucid.runs.recipe.recipe import MODELS, SECTIONS

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src/translucid"
LAB = ROOT / "src/translucid_lab"
CONFIGS = [*SECTIONS.values(), *MODELS.values(), PerceptronConfig, GenerationConfig, SamplingConfig]

# Phrases that stand nowhere, each with the field's word for it.
PHRASES = {
    r"numbers that stand for": "model dimension",
    r"numbers that come (in|out)\b": "input dimensions, output dimensions",
    r"numbers of a vector": "dimensions of a vector",
    r"what keeps the numbers": "normalisation layer",
    r"the products; weights stay": "autocast dtype; master weights stay float32",
    r"with this memory": "decay of the exponential moving average",
    r"slowest turn": "RoPE base (theta)",
    r"length of the longest steps": "peak learning rate",
    r"drafts kept": "beam size",
    r"gone on with": "resumed",
    r"by chance": "at random",
    r"decide together": "ensemble",
    r"stands? where it was started": "see the terminal that runs it",
    r"cannot be computed here": "is not supported",
}
# Signs of a sentence to rewrite, in pages, help and the studio.
PROSE = {
    r"\bso many\b": "this many, N",
    r"\bwhoever\b": "anyone who",
    r"\bnobody\b": "no one; better: say what happens instead",
    r"\bhears?\b": "attends to, reads",
    r"\b(is|are) told\b": "is printed, is shown",
    r"\brefused by name\b": "rejected with an error that names it",
    r"costs nothing when": "has no overhead when",
    r"After this page you can": "This page shows how to",
    r"\bis no (model|number|word|text|file)\b": "is not a model, number, ...",
    r"\b(texts|numbers) in a list\b": "list of texts",
    r"\bWhat the [a-z ]{1,30} should be\b": "target for ...",
    r"\bweights of the (input\b(?! gate)|previous state)": "input weights, recurrent weights",
    r"\bin the run before the last\b": "in an earlier run",
}
# In messages: what "it" is cannot be seen where the message is printed alone.
MESSAGES = {
    r"(?-i:^it) (adds|calls|changes|contains|copies|ends|refers|uses)\b": "the model, the file",
}
# In docstrings of benchmarks and of the tests' helper modules.
HELPERS = {
    r"\b(of|by|than|as|beside) (ours|theirs)\b": "of Translucid, of transformers, ...",
    r"\bare wanted\b|\bat hand\b": "target, requested",
    r"\b(stands|stand) (in|there|beside|between)\b": "is in, is stored in",
    r"\bmeets all alike\b": "affects all alike",
    r"\bthat somebody made\b": "hostile",
    r"\bwithout end\b|\bmeanwhile\b": "that never end, in the meantime",
}
# Words that stand in no key, no meaning of a key, no option and no help of one.
WORDS = {
    r"\bshares?\b": "fraction, probability, rate",
    r"\bchance\b": "random generator, seed",
    r"\bletters\b(?!, digits)": "characters",
    r"\bcommittee\b|\bmembers\b": "ensemble",
    r"\bbeside\b": "ensemble",
    r"\bvotes?\b": "n-gram features",
    r"\bgains?\b": "token log-probabilities",
    r"\bproducts?\b": "matrix multiplication",
    r"\bwishes\b": "constraints",
    r"\bmemory\b": "encoder output; decay; RAM",
    r"\bshortest\b|\bmax_tokens\b|\bsave_aside\b": "min_length, max_length, save_in_background",
    r'[a-z)]: "[^"]*"\.?$': 'such as "..."; "[default: ...]" if it is the default',
}
# As nouns, where the verb is everyday English: in no page, no message, no text of the studio.
NOUNS = {
    r"\b(the|a|an|its|their|this|fair) shares?\b|\bshares? of\b": "fraction, probability",
    r"\bcommittee\b": "ensemble",
    r"\bvotes?\b": "n-gram features",
    r"\bwishes\b": "constraints",
    r"\bletters\b(?!, digits| and digits)": "characters",
    r"(?<!dot )\bproducts\b": "matrix multiplication",
    r"\b(as|than) in the source\b|\b(vocabulary|labels|sizes) of the source\b": "start model",
    r"\bthe source('s vocabulary| has (a head|other|another)| is a multi-label)": "start model",
}
# Names that say that something is there, not what it is: of no argument, variable, attribute,
# function or class. They are refused as a part of a longer name too.
NAMES = {
    "found": "what it is: hypotheses, findings, records, ...",
    "told": "record, message, fingerprint, ...",
    "said": "message, answer, label, summary, ...",
    "given": "options, inputs, the thing itself",
    "each": "the noun of the loop",
    "how": "config, sampling, operation",
    "share": "fraction, probability, rate",
    "shares": "fractions, probabilities",
    "letters": "characters",
    "dice": "generator",
    "chance": "seed, random",
    "wishes": "constraints",
    "votes": "ngrams",
    "committee": "ensemble",
    "beside": "ensemble, compare_with",
    "writer": "decoder, generator, model",
    "scribe": "generator",
    "teller": "text_stream",
    "desk": "handlers",
    "shelf": "recipes",
    "keeper": "best_models",
    "sitting": "session",
    "ahead": "prefetch",
}
WHOLE = {  # only by themselves: `peak_memory` and `longest_item` say what they are
    "memory": "encoder_output, decay, RAM",
    "longest": "max_length, context_length",
    "shortest": "min_length",
    "gains": "token_log_probs",
    "products": "matmuls",
}
# Where a refused name is the field's own after all, or is not renamed yet.
ALLOWED = {
    "cli/doctor.py": ({"found", "memory"}, "a key of `doctor --json`; RAM"),
    "worked/": ({"given", "writer"}, "what an exercise gives; what writes its numbers"),
    "runs/checkpoints.py": ({"writer"}, "torch's own HuggingFaceStorageWriter"),
    "training/loop.py": ({"memory"}, "RAM of a process or a GPU, in timing.jsonl"),
    "translucid_lab/claims/vanishing_gradients.py": ({"gains"}, "of initialisation"),
    "translucid_lab/claims/training_with_norms.py": ({"gains"}, "of initialisation"),
    "translucid_lab/claims/exploding_gradients.py": ({"gains"}, "of initialisation"),
    "translucid_lab/claims/task_shapes.py": ({"each"}, "the experiment tag-each-word"),
    "translucid_lab/claims/multi_head.py": ({"found", "share"}, "in the frozen rule of C50"),
    "translucid_lab/claims/three_words.py": ({"found", "each"}, "in the frozen rule of C59"),
}
KNOWN = {f"{name}.{key}" for name, config in SECTIONS.items() for key in config.model_fields}
KNOWN |= {f"model.{key}" for config in MODELS.values() for key in config.model_fields}


def commands() -> Iterator[tuple[str, Any]]:
    """Every command with its words, such as `recipe check`."""

    def below(name: str, command: Any) -> Iterator[tuple[str, Any]]:
        if not hasattr(command, "commands"):
            yield name.strip(), command
        for word in getattr(command, "commands", {}):  # some are made when they are asked for
            yield from below(f"{name} {word}", command.get_command(None, word))

    yield from below("", typer.main.get_command(app))


COMMANDS = dict(commands())


def read_texts() -> Iterator[tuple[str, str]]:
    """What people read about keys and options, each with its place."""
    for config in CONFIGS:
        for key, field in config.model_fields.items():
            yield f"{config.__name__}.{key}", f"{key}: {field.description}"
    for name, command in COMMANDS.items():
        for param in command.params:
            help_ = getattr(param, "help", None) or ""
            yield f"translucid {name} {param.opts[0]}", f"{' '.join(param.opts)} {help_}"


def pages() -> Iterator[tuple[str, str]]:
    """Pages, recipes and the help of commands."""
    for path in [ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("recipes/*.toml"),
                 *ROOT.glob("recipes/*.json"), *(ROOT / f"{name}.md" for name in
                 ("ARCHITECTURE", "CHANGELOG", "CONTRIBUTING"))]:  # fmt: skip
        yield str(path.relative_to(ROOT)), path.read_text("utf-8")
    for name, command in COMMANDS.items():
        yield f"translucid {name}", command.help or ""


def of_the_studio() -> Iterator[tuple[str, str]]:
    """What stands on the studio's page: texts in its scripts, its HTML, its lessons."""
    studio = SOURCE / "studio"
    for path in [*studio.glob("static/js/**/*.js"), *studio.glob("static/*.html")]:
        code = re.sub(r"^\s*//.*$", "", path.read_text("utf-8"), flags=re.MULTILINE)
        if path.suffix == ".html":
            yield path.name, re.sub(r"<[^>]*>", " ", code)
            continue
        for quoted in re.findall(
            r"'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\"|`(?:[^`\\]|\\.)*`", code
        ):
            yield path.name, re.sub(r"\$\{[^}]*\}", " ", quoted)
    for path in studio.glob("lessons/*.py"):
        yield path.name, " ".join(text for _, text in facts(path).texts)


def sources() -> Iterator[tuple[str, Facts]]:
    """The rooms whose names and messages are in the field's words."""
    files = [*SOURCE.rglob("*.py"), *LAB.rglob("*.py")]
    for path in sorted(files):
        place = path.relative_to(LAB.parent).as_posix().removeprefix("translucid/")
        yield place, facts(path)


def docstrings(made: Facts) -> list[str]:
    others = {text for _, text in made.texts}
    return [text for text in made.strings if text not in others]


def words_of(name: str) -> list[str]:
    return name.strip("_").lower().split("_")


def refused(name: str) -> str | None:
    """What a name should be instead, if it is refused."""
    words = words_of(name)
    whole = WHOLE.get(words[0]) if len(words) == 1 else None
    return whole or next((NAMES[word] for word in words if word in NAMES), None)


def allowed(place: str) -> set[str]:
    return {
        name for room, (names, _) in ALLOWED.items() if place.startswith(room) for name in names
    }


def faults(texts: Iterator[tuple[str, str]], words: dict[str, str]) -> list[str]:
    any_of_them = re.compile("|".join(words), re.IGNORECASE)
    return [
        f"{place}: {found[0]!r}; the field says: {better}"
        for place, text in texts
        if any_of_them.search(text)
        for word, better in words.items()
        if (found := re.search(word, text, re.IGNORECASE))
    ]


def test_keys_and_options_are_in_the_fields_words() -> None:
    assert not faults(read_texts(), PHRASES | WORDS | PROSE)


def test_pages_and_recipes_are_in_the_fields_words() -> None:
    assert not faults(pages(), PHRASES | NOUNS | PROSE)


def test_the_studio_is_in_the_fields_words() -> None:
    memory = {r"\bmemory\b": "encoder output, cell state, hidden state"}
    assert not faults(of_the_studio(), PHRASES | NOUNS | PROSE | memory)


def test_messages_are_in_the_fields_words() -> None:
    texts = ((place, text) for place, facts in sources() for text in facts.strings)
    docstring = {r"^Raise if\b": "Raise an error if"}
    assert not faults(texts, PHRASES | NOUNS | MESSAGES | docstring)


def test_docstrings_of_helpers_are_in_the_fields_words() -> None:
    files = [*ROOT.glob("bench/*.py"), *ROOT.glob("tests/**/*.py")]
    helpers = [path for path in files if not path.name.startswith("test_")]
    assert len(helpers) > 50
    texts = ((path.name, text) for path in helpers for text in docstrings(facts(path)))
    assert not faults(texts, PHRASES | PROSE | HELPERS)


def test_names_say_what_they_hold() -> None:
    wrong = [
        f"{place}:{line}: {name}; better: {better}"
        for place, facts in sources()
        for line, name in facts.names
        if (better := refused(name)) and not {*words_of(name)} & allowed(place)
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.thorough
def test_every_exception_is_needed() -> None:
    for room, (names, reason) in ALLOWED.items():
        bound = [facts.names for place, facts in sources() if place.startswith(room)]
        used = {word for file in bound for _, name in file for word in words_of(name)}
        assert names <= used, f"{room}: {names - used} is not there any more ({reason})"


def glossary() -> Iterator[tuple[str, str]]:
    """The term and each thing in code under `see it`."""
    text = (ROOT / "docs/reference/glossary.md").read_text("utf-8")
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("| ").split(" | ")]
        if line.startswith("| ") and len(cells) >= 3:
            for seen in re.findall(r"`([^`]+)`", cells[-1]):
                yield cells[0], seen


@pytest.mark.parametrize(("term", "seen"), [*glossary()])
def test_what_the_glossary_names_exists(term: str, seen: str) -> None:
    section, _, key = seen.partition(".")
    words = seen.removeprefix("translucid ").split()
    if section in ("task", "data", "tokenizer", "training", "decoding") or (
        section == "model" and key.isidentifier()
    ):
        assert seen in KNOWN, f"{term}: there is no key {seen}"
    elif words[0] in {name.split()[0] for name in COMMANDS}:
        option = words.pop() if words[-1].startswith("--") else None
        command = COMMANDS[" ".join(words)]
        known = {each for param in command.params for each in param.opts} | {"--help"}
        assert option is None or option in known, f"{term}: {seen}: no such option"
    elif "(" not in seen and not seen.endswith(".jsonl") and section != "tl":
        points = [name for name in catalogue.CATALOGUE if fnmatch(name, f"*{seen}") or name == seen]
        assert points, f"{term}: there is no point {seen}"
