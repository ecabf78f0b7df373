"""The field's own words: what people read holds none of the words that were ours alone.

Every key, option and trace point that the glossary names exists.
"""

import re
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
import typer.main

from translucid import catalogue
from translucid.cli import app
from translucid.generate.beam_search import GenerationConfig
from translucid.generate.sampling import SamplingConfig
from translucid.models import PerceptronConfig
from translucid.recipe.recipe import MODELS, SECTIONS
from translucid.renamed import GENERATION, KEYS, OPTIONS

ROOT = Path(__file__).parent.parent
CONFIGS = [*SECTIONS.values(), *MODELS.values(), PerceptronConfig, GenerationConfig, SamplingConfig]

# Phrases that stand nowhere, each with the field's word for it.
PHRASES = {
    r"numbers that stand for": "model dimension: values that stand for",
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
}
KNOWN = {f"{name}.{key}" for name, config in SECTIONS.items() for key in config.model_fields}
KNOWN |= {f"model.{key}" for config in MODELS.values() for key in config.model_fields}


def commands() -> Iterator[tuple[str, Any]]:
    """Every command with its words, such as `recipe check`."""

    def below(name: str, command: Any) -> Iterator[tuple[str, Any]]:
        if not hasattr(command, "commands"):
            yield name.strip(), command
        for word, each in getattr(command, "commands", {}).items():
            yield from below(f"{name} {word}", each)

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
    for path in [ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("recipes/*.toml"),
                 *ROOT.glob("recipes/*.json")]:  # fmt: skip
        yield str(path.relative_to(ROOT)), path.read_text("utf-8")
    for name, command in COMMANDS.items():
        yield f"translucid {name}", command.help or ""


def faults(texts: Iterator[tuple[str, str]], words: dict[str, str]) -> list[str]:
    return [
        f"{place}: {found[0]!r}; the field says: {better}"
        for place, text in texts
        for word, better in words.items()
        if (found := re.search(word, text, re.IGNORECASE))
    ]


def test_keys_and_options_are_in_the_fields_words() -> None:
    assert not faults(read_texts(), PHRASES | WORDS)


def test_pages_and_recipes_are_in_the_fields_words() -> None:
    assert not faults(pages(), PHRASES)


def test_no_page_names_an_old_key_or_option() -> None:
    old = {re.escape(key) + r"\b(?!_)": new for key, new in KEYS.items()}
    options = {name.replace("_", "-"): new for name, new in (GENERATION | OPTIONS).items()}
    old |= {rf"(translate|generate|score) [^\n]*--{re.escape(name)}(?![\w-])":
            "--" + new.replace("_", "-") for name, new in options.items()}  # fmt: skip
    assert not faults(pages(), old)


def glossary() -> Iterator[tuple[str, str]]:
    """The term and each thing in code under `see it`."""
    text = (ROOT / "docs/glossary.md").read_text("utf-8")
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
