"""`translucid translate`: lines in, translations out, in order, however many there are."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from translucid.cli.shared import generation_options as o
from translucid.cli.shared.lines import Answered, answer_lines, chunk_size
from translucid.errors import ConfigError, InputError

if TYPE_CHECKING:
    from translucid.data.records import Text
    from translucid.generate.results import Candidate, Decoded
    from translucid.model import Model


def translate(
    model: o.Folder,
    file: o.File = "-",
    beam: o.Beam = None,
    alpha: o.Alpha = None,
    best: o.Best = 1,
    prefix: o.Prefix = "",
    forbid: o.Forbid = None,
    force: o.Force = None,
    no_repeat: o.NoRepeat = None,
    repetition: o.Repetition = None,
    shortest: o.Shortest = None,
    longest: o.Longest = None,
    groups: o.Groups = None,
    diversity: o.Diversity = None,
    beside: o.Beside = None,
    sample: Annotated[
        bool, typer.Option("--sample", help="Draw by chance instead of searching.")
    ] = False,
    temperature: o.Temperature = None,
    top_k: o.TopK = None,
    top_p: o.TopP = None,
    min_p: o.MinP = None,
    seed: o.Seed = 0,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show the tree of the search.")
    ] = False,
    as_json: o.Json = False,
    out: o.Out = None,
    max_tokens: Annotated[
        int, typer.Option(min=1, help="A longer line is reported and left empty.")
    ] = 1024,
    device: o.Device = "auto",
    precision: o.InPrecision = "auto",
) -> None:
    """Translate each line.

    Beams and alpha are those of validation unless given. --best N writes `number ||| text |||
    score`, numbered from 0. A line too long for the model is reported and left empty.

    Example: echo "The dog sleeps." | translucid translate runs/toy --best 3
    """
    search = o.given(
        beams=beam, alpha=alpha, no_repeat=no_repeat, repetition=repetition, shortest=shortest,
        longest=longest, groups=groups, diversity=diversity,
    )  # fmt: skip
    drawing = o.given(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p)
    _check(search, drawing, sample=sample, explain=explain)
    wishes: dict[str, Any] = {"prefix": prefix, "forbid": forbid or [], "force": o.places(force)}
    plain = o.load_models(model, beside, device)
    plain[0].check_task("translate")
    held, *others = o.in_precision(plain, precision)
    untold = precision == "int8"
    options = search | wishes | {"best": best, "tree": explain, "beside": others}
    told = search | wishes | {"best": best, "json": as_json, "explain": explain, "line": max_tokens}
    told |= {"precision": precision}
    if sample:
        from translucid.generate.sampling import Sampling

        options |= {"sampling": Sampling(**drawing), "seed": seed}
        told |= {"sampling": drawing, "seed": seed}
    held.decode([""], **options)  # a mistake in the options shows before anything is read
    told["models"] = [_digest(folder) for folder in (model, *(beside or ()))]

    def answer(records: "Sequence[Text]") -> list[Answered]:
        faults = {record.line: _too_long(held, record.text, max_tokens) for record in records}
        fine = [record for record in records if not faults[record.line]]
        decoded = held.decode([record.text for record in fine], **options)
        nonlocal untold
        if untold and any(each.texts for each in decoded):
            pairs = [(each.texts[0].text, each.source) for each in decoded if each.texts]
            o.tell_difference(plain[0], held, *map(list, zip(*pairs, strict=True)))
            untold = False
        found = iter(decoded)
        return [
            _failed(record, faults[record.line], as_json, best)
            if faults[record.line]
            else _written(record, next(found), held, as_json=as_json, best=best, explain=explain)
            for record in records
        ]

    on_gpu = next(held.network.parameters()).is_cuda
    chunk = chunk_size(file, large=1024 if on_gpu else 256)
    answer_lines(file, answer, out=out, told=told, chunk=chunk, verb="translated")


def _check(search: dict[str, Any], drawing: dict[str, Any], *, sample: bool, explain: bool) -> None:
    """Options that speak of different ways to write."""
    if drawing and not sample:
        raise ConfigError(f"{o.words(drawing)}: only with --sample, which draws by chance")
    searching = [name for name in search if name in ("beams", "groups", "diversity")]
    if sample and searching:
        named = o.words("beam" if name == "beams" else name for name in searching)
        raise ConfigError(f"{named}: of a search, but --sample draws by chance; leave one out")
    if sample and explain:
        raise ConfigError("--explain shows a search, but --sample draws by chance; leave one out")


def _digest(folder: Path) -> str:
    """Which model it is, wherever it lies."""
    from translucid.atomic_files import MANIFEST, digest_of
    from translucid.bundle import place

    return digest_of(place(folder) / MANIFEST)


def _too_long(held: "Model", text: str, most: int) -> str:
    from translucid.tasks.base import check_length

    tokens = max(held.task.sizes(held.task.read_line(text, "", held.network)))
    longest = held.longest
    try:
        check_length(tokens, longest, "")
    except InputError as error:
        return str(error).removeprefix(": ")
    if tokens > most and (longest is None or most < longest):
        return f"{tokens:,} tokens, above --max-tokens {most:,}; split the line, or raise it"
    return ""


def _failed(record: "Text", fault: str, as_json: bool, best: int) -> Answered:
    values = {"source": record.text, "translation": "", "texts": [], "error": fault}
    plain = "\n" if best == 1 else ""
    text = json.dumps(values, ensure_ascii=False) + "\n" if as_json else plain
    return Answered(text, f"{record.line}: {fault}")


def _written(
    record: "Text", found: "Decoded", held: "Model", *, as_json: bool, best: int, explain: bool
) -> Answered:
    if not found.texts:
        fault = "the rules leave nothing to write; loosen forbid, force, no_repeat or shortest"
        return _failed(record, fault, as_json, best)
    if as_json:
        values = found.as_dict(held.writes_with if explain else None)
        values = {"source": found.source, "translation": found.texts[0].text} | values
        return Answered(json.dumps(values, ensure_ascii=False) + "\n")
    if explain:
        from translucid.cli.shared.tree_text import explained

        return Answered(explained(found, held.writes_with, colour=sys.stdout.isatty()))
    if best == 1:
        return Answered(_one_line(found.texts[0]) + "\n")
    lines = [f"{record.line - 1} ||| {_one_line(t)} ||| {t.score:.4f}\n" for t in found.texts]
    return Answered("".join(lines))


def _one_line(text: "Candidate") -> str:
    """A model may write a line end; as many lines come out as go in."""
    return " ".join(text.text.splitlines())
