"""`translucid translate`: translate a file or standard input line by line."""

import json
import os
import shlex
import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from translucid.cli.shared import options as o
from translucid.cli.shared.answering import (
    Answered,
    answer_lines,
    chunk_size,
    digest_of_model,
)
from translucid.cli.shared.inputs import Inputs, inputs_of, prompt
from translucid.cli.shared.messages import noting
from translucid.core.errors import ConfigError, InputError

if TYPE_CHECKING:
    from translucid.data.records import Text
    from translucid.data.tokenizers.tokenizer import Tokenizer
    from translucid.generate.decoded import Candidate, Decoded
    from translucid.generate.tree import Node, Tree
    from translucid.model import Model
    from translucid.tasks.input_notes import InputNote

BOLD, DIM, PLAIN = "\x1b[1;32m", "\x1b[2m", "\x1b[0m"
KEPT = ("followed", "ended", "cut", "stopped")
ENDS = {1: "1st", 2: "2nd", 3: "3rd"}


def translate(
    model: o.Folder,
    file: o.FileOrTexts = None,
    beam_size: o.BeamSize = None,
    alpha: o.Alpha = None,
    n_best: o.NBest = 1,
    beam_groups: o.BeamGroups = None,
    diversity_penalty: o.DiversityPenalty = None,
    prefix: o.Prefix = "",
    forbid: o.Forbid = None,
    force: o.Force = None,
    no_repeat_ngram: o.NoRepeatNgram = None,
    repetition_penalty: o.RepetitionPenalty = None,
    min_length: o.MinLength = None,
    max_length: o.MaxLength = None,
    sample: Annotated[
        bool, o.in_sampling("--sample", help="Use sampling instead of beam search.")
    ] = False,
    temperature: o.Temperature = None,
    top_k: o.TopK = None,
    top_p: o.TopP = None,
    min_p: o.MinP = None,
    seed: o.Seed = 0,
    explain: Annotated[
        bool, o.in_output("--explain", help="Show the tree of the beam search.")
    ] = False,
    as_json: o.JsonLines = False,
    out: o.Out = None,
    ray: o.Ray = False,
    max_input_length: Annotated[
        int,
        o.in_output(
            min=1,
            metavar="N",
            help="Report input lines longer than N tokens; their output is empty.",
        ),
    ] = 1024,
    ensemble: o.Ensemble = None,
    device: o.Device = "auto",
    precision: o.InPrecision = "auto",
) -> None:
    """Translate texts, or each line of a file or of standard input.

    By default, beam size and alpha are those used for validation. --n-best writes
    `number ||| text ||| score`, with line numbers from 0. Lines too long for the model are
    reported and left empty.

    Example: translucid translate demo:translate "The dog sleeps." --n-best 3
    """
    from translucid.tasks.model_folder import check_task

    search = o.typed(
        beam_size=beam_size, alpha=alpha, no_repeat_ngram=no_repeat_ngram,
        repetition_penalty=repetition_penalty, min_length=min_length, max_length=max_length,
        beam_groups=beam_groups, diversity_penalty=diversity_penalty,
    )  # fmt: skip
    drawing = o.typed(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p)
    _check(search, drawing, sample=sample, explain=explain)
    search |= {"prefix": prefix, "forbid": forbid or [], "force": o.forced_words(force)}
    plain = o.load_models(model, ensemble, device)
    check_task(plain[0].task, "translate")
    inputs = inputs_of(file, "translate", model)
    _check_lines(inputs, model)
    held, *others = o.in_precision(plain, precision)
    unmeasured = precision == "int8"
    options = search | {"n_best": n_best, "tree": explain, "ensemble": others}
    settings = search | {"n_best": n_best, "json": as_json, "explain": explain}
    settings |= {"line": max_input_length, "precision": precision}
    if sample:
        from translucid.generate.sampling import SamplingConfig

        options |= {"sampling": SamplingConfig(**drawing), "seed": seed}
        settings |= {"sampling": drawing, "seed": seed}
    held.decode([""], **options)  # reports mistakes in the options before reading
    if out is not None:
        settings["models"] = [digest_of_model(folder) for folder in (model, *(ensemble or ()))]

    def answer(records: "Sequence[Text]") -> list[Answered]:
        faults = {record.line: _too_long(held, record.text, max_input_length) for record in records}
        fine = [record for record in records if not faults[record.line]]
        decoded = held.decode([record.text for record in fine], **options)
        nonlocal unmeasured
        if unmeasured and any(sentence.texts for sentence in decoded):
            pairs = [
                (sentence.texts[0].text, sentence.source) for sentence in decoded if sentence.texts
            ]
            o.print_difference(plain[0], held, *map(list, zip(*pairs, strict=True)))
            unmeasured = False
        sentences = iter(decoded)
        noted = notes([record.text for record in records])
        return [
            _failed(record, faults[record.line], as_json, n_best)
            if faults[record.line]
            else _written(record, next(sentences), held, note, as_json, n_best, explain)
            for record, note in zip(records, noted, strict=True)
        ]

    on_gpu = next(held.network.parameters()).is_cuda
    chunk = chunk_size(inputs, large=1024 if on_gpu else 256)
    prompt(inputs, plain[0])
    with noting(held) as notes:
        answer_lines(
            inputs, answer, out=out, settings=settings, chunk=chunk, verb="translated", ray=ray
        )


def _check_lines(inputs: Inputs, folder: Path) -> None:
    """Refuse tables, whose rows would be read as texts."""
    if inputs.texts or inputs.file == "-":
        return
    from translucid.data.predictions import format_for

    if (kind := format_for(inputs.file, (), rule=inputs.data.rule.lines)) != "text":
        again = shlex.join(["translucid", "predict", o.name_of_model(folder), inputs.file])
        raise InputError(
            f"{inputs.file} is {kind}, but translate reads one text per line; to add a column of "
            f"translations to the table: {again}"
        )


def _check(search: dict[str, Any], drawing: dict[str, Any], *, sample: bool, explain: bool) -> None:
    """Refuse options of beam search and of sampling together."""
    if drawing and not sample:
        raise ConfigError(f"{o.words(drawing)}: for sampling; add --sample")
    searching = [n for n in search if n in ("beam_size", "beam_groups", "diversity_penalty")]
    if sample and searching:
        raise ConfigError(
            f"{o.words(searching)}: for beam search, but --sample was given; omit one"
        )
    if sample and explain:
        raise ConfigError("--explain shows a beam search, but --sample was given; omit one")


def _too_long(held: "Model", text: str, most: int) -> str:
    from translucid.tasks.base import check_length

    tokens = max(held.task.sizes(held.task.read_line(text, "", held.network)))
    context_length = held.context_length
    try:
        check_length(tokens, context_length, "")
    except InputError as error:
        return str(error).removeprefix(": ")
    if tokens > most and (context_length is None or most < context_length):
        limit = f"--max-input-length {most:,}"
        return f"{tokens:,} tokens, above {limit}; split the line, or raise the limit"
    return ""


def _failed(record: "Text", fault: str, as_json: bool, n_best: int) -> Answered:
    values = {"source": record.text, "translation": "", "texts": [], "error": fault}
    plain = "\n" if n_best == 1 else ""
    text = json.dumps(values, ensure_ascii=False) + "\n" if as_json else plain
    return Answered(text, f"{record.line}: {fault}")


def _written(
    record: "Text", decoded: "Decoded", held: "Model", note: "InputNote", as_json: bool,
    n_best: int, explain: bool,
) -> Answered:  # fmt: skip
    if not decoded.texts:
        fault = (
            "the constraints allow no output; loosen --forbid, --force, --no-repeat-ngram "
            "or --min-length"
        )
        return _failed(record, fault, as_json, n_best)
    if as_json:
        values = decoded.as_dict(held.output_tokenizer if explain else None)
        values = {"source": decoded.source, "translation": decoded.texts[0].text} | values
        values |= note.as_json()
        return Answered(json.dumps(values, ensure_ascii=False) + "\n")
    if explain:
        return Answered(explained(decoded, held.output_tokenizer, colour=sys.stdout.isatty()))
    if n_best == 1:
        return Answered(_one_line(decoded.texts[0]) + "\n")
    lines = [f"{record.line - 1} ||| {_one_line(t)} ||| {t.score:.4f}\n" for t in decoded.texts]
    return Answered("".join(lines))


def _one_line(text: "Candidate") -> str:
    """Replace line ends that a model generates, so that every input line has one output line."""
    return " ".join(text.text.splitlines())


# ---- the search tree as text ----


def explained(decoded: "Decoded", tokenizer: "Tokenizer", *, colour: bool = False) -> str:
    """The translations of a text and the search tree that led to them."""
    if decoded.tree is None:
        return f"{decoded.source}\n  an empty line has an empty translation\n\n"
    drawing = _Drawing(decoded.tree, tokenizer, colour and "NO_COLOR" not in os.environ)
    lines = [decoded.source, *(f"  -> {text.text}" for text in decoded.texts), ""]
    lines += [f"  note: {decoded.note}", ""] if decoded.note else []
    lines += drawing.lines()
    return "\n".join(lines) + "\n\n"


class _Drawing:
    def __init__(self, tree: "Tree", tokenizer: "Tokenizer", colour: bool) -> None:
        self.tree, self.tokenizer, self.colour = tree, tokenizer, colour
        self.below = tree.children()
        self.width = max(60, min(shutil.get_terminal_size((100, 24)).columns, 120))

    def lines(self) -> Iterator[str]:
        config, fates = self.tree.config, Counter[str](node.fate for node in self.tree.nodes[1:])
        shape = f"beam size {config.beam_size}, alpha {config.alpha:g}"
        if config.beam_groups > 1:
            shape += (
                f", {config.beam_groups} groups, diversity penalty {config.diversity_penalty:g}"
            )
        counted = ", ".join(f"{fates[fate]} {fate}" for fate in (*KEPT, "pruned", "forbidden")
                            if fates[fate])  # fmt: skip
        yield f"{shape}; {self.tree.rounds} rounds; prefixes: {counted}"
        yield "● path to the best text   ○ other paths   × pruned: below the last place"
        yield ""
        yield from self._rejected(self.tree.nodes[0], "")
        kept = self._kept(self.tree.nodes[0])
        for place, node in enumerate(kept):
            yield from self._branch(node, "", last=place == len(kept) - 1)

    def _branch(self, node: "Node", guide: str, *, last: bool) -> Iterator[str]:
        """Yield the lines of a branch: its tokens up to a fork, the tokens rejected along the way,
        and the branches after the fork."""
        chain = [node]
        while len(kept := self._kept(chain[-1])) == 1:
            chain += kept
        end, mark = chain[-1], "●" if node.chosen else "○"
        head = f"{guide}{'└' if last else '├'}{mark} {self._words(chain)}  {self._fate(end, kept)}"
        yield self._styled(_cut(head, self.width), BOLD if node.chosen else "")
        inner = guide + ("  " if last else "│ ")
        for link in chain:
            yield from self._rejected(link, inner + ("│ " if kept else "  "))
        for place, child in enumerate(kept):
            yield from self._branch(child, inner, last=place == len(kept) - 1)

    def _fate(self, node: "Node", kept: Sequence["Node"]) -> str:
        rank = f"{ENDS.get(node.place, f'{node.place}th')}: " if node.place else ""
        if node.fate != "followed":
            return f"[{rank}{node.fate}] {node.why}"
        return f"{node.score:.2f}" if kept else f"{node.score:.2f} [all continuations pruned]"

    def _rejected(self, parent: "Node", guide: str) -> Iterator[str]:
        """Yield one line for all tokens pruned after a prefix, and one for each forbidden token."""
        after = f"after {self._words([parent])}" if parent.parent is not None else "at the start"
        pruned = [n for n in self.below[parent.number] if n.fate == "pruned"]
        if pruned:
            listed = ", ".join(f"{self._words([n])} {n.score:.2f}" for n in pruned)
            yield self._line(guide, f"× {after}: {listed}", f" {_bar(pruned[0])}")
        for node in self.below[parent.number]:
            if node.fate == "forbidden":
                text = f"⊘ {after}: {self._words([node])} {node.score:.2f}"
                yield self._line(guide, text, f" ({node.why})")

    def _line(self, guide: str, text: str, why: str) -> str:
        """Shorten a line to the terminal width, but keep the reason."""
        room = max(self.width - len(guide) - len(why), 20)
        return self._styled(_cut(guide + _cut(text, room) + why, self.width), DIM)

    def _kept(self, node: "Node") -> list["Node"]:
        return [n for n in self.below[node.number] if n.fate in KEPT]

    def _words(self, nodes: Sequence["Node"]) -> str:
        """Readable tokens; · joins the pieces of a word."""
        from translucid.generate.decoded import shown

        words = ""
        for node in nodes:
            piece = shown(self.tokenizer, node.token)
            glue = " " if piece.startswith(" ") or self._apart(piece) else "·"
            visible = piece.strip() or repr(piece)
            words += visible if not words else glue + visible
        return words

    def _apart(self, piece: str) -> bool:
        from translucid.generate.decoded import END

        return self.tokenizer.unit == "word" or piece == END

    def _styled(self, line: str, style: str) -> str:
        return f"{style}{line}{PLAIN}" if self.colour and style else line


def _bar(node: "Node") -> str:
    """The score that the prefix failed to reach, such as `< -2.90, last of 3`."""
    from translucid.generate.tree import digits_apart

    by = node.pruned
    if by is None or node.score >= by.bar:
        return f"({node.why})"
    last = f"last of {by.places}" if by.places > 1 else "only place"
    group = f"; penalty {by.cost:.2f}, because earlier groups chose this token" if by.cost else ""
    return f"< {by.bar:.{digits_apart(node.score, by.bar)}f}, {last}{group}"


def _cut(line: str, width: int) -> str:
    return line if len(line) <= width else line[: width - 1] + "…"
