"""Exercise: greedy and beam search over a table of next-word probabilities."""

import math
from collections.abc import Mapping

import torch

from translucid.core.errors import InputError
from translucid.generate.beam_search import GenerationConfig, Hypothesis, Round, search
from translucid.generate.table_model import END, PAD, TableModel
from translucid.models.autoregressive import GenerationInputs
from translucid.worked import plain as in_numpy
from translucid.worked.board import Board
from translucid.worked.plain import Program
from translucid.worked.solution.content import Given, SolutionTable, Step, Value, literal
from translucid.worked.solution.numbers import Number, scalar, whole
from translucid.worked.solution.solution import Solution

EXAMPLE: dict[str, dict[str, float]] = {
    "I am": {"fine": 0.5, "finally": 0.4, "here": 0.1},
    "I am fine": {END: 0.5, "thanks": 0.3, "today": 0.2},
    "I am finally": {"feeling": 0.95, END: 0.05},
    "I am finally feeling": {"much": 0.95, END: 0.05},
    "I am finally feeling much": {"better": 0.95, END: 0.05},
    "I am finally feeling much better": {END: 0.95, "now": 0.05},
}
_SHOWN = 12  # maximum candidates shown per round
_ROWS = 40  # maximum lines of the table


def beam(
    table: Mapping[str, Mapping[str, float]] | None = None,
    prefix: str | None = None,
    *,
    beam_size: int | str | None = None,
    steps: int | str | None = None,
    alpha: Number | None = None,
    p: str | None = None,
    digits: int = 4,
) -> Solution:
    """Greedy and beam search, round by round.

    To use your own probabilities, write a [table] in a file (--file), with one row for each prefix:
    "I am" = { fine = 0.5, here = 0.5 }. After a prefix that is not in the table, the sentence ends.

    table: The table in Python, such as {"I am": {"fine": 0.5, "here": 0.5}}.
    prefix: The beginning of the sentence [default: the first prefix in the table].
    beam_size: Number of prefixes to keep in each round [default: 2].
    steps: Maximum number of steps [default: 20].
    alpha: Rank finished sentences by log-probability / length^alpha [default: 0].
    p: Probabilities to change in the table, such as "I am fine 0.5; I am finally 0.3".

    Example: translucid work beam --beam-size 2
    """
    example = table is None
    model = _model(EXAMPLE if table is None else table, p)
    start = next(iter(model.table)) if prefix is None else prefix
    if not start.split():
        raise InputError("prefix is empty; pass the first words of the sentence")
    width = 2 if beam_size is None else whole(beam_size, "beam_size")
    rounds = 20 if steps is None else whole(steps, "steps")
    power = 0.0 if alpha is None else scalar(alpha, "alpha").item()
    board = Board(digits)
    board.state("B", str(width), name="beam size")
    if power:
        board.state(r"\alpha", board.writer.number(power), name="alpha")
    model.encode(start)  # raises an error for unknown words before anything is written
    board.given.append(_given(board, model, example))
    greedy = _search(board, model, start, 1, rounds, 0.0, "Greedy search: a beam of 1")
    title = f"Beam search: keep the best {width}"
    best = _search(board, model, start, width, rounds, power, title)
    board.section = "Side by side"
    rows = [
        _answer(board, "greedy", model, start, greedy),
        _answer(board, "beam", model, start, best),
    ]
    board.table(
        "Results: the same table, two searches",
        SolutionTable(("search", "sentence", "log-probability", "probability"), tuple(rows)),
        name="results",
        value={
            "greedy": _value(model, start, greedy),
            "beam": _value(model, start, best),
        },
    )
    more = "--beam-size 3 --alpha 0.6" if width == 2 else f"--beam-size {width + 1}"
    return board.solution(
        title=literal(f"Greedy search and beam search after “{start}”"),
        notes=_missing(model, board.steps),
        closing=_compare(board, model, start, greedy, best),
        next=f"translucid work beam {more}",
        more=more,
        program=Program(
            in_numpy.beam, {"table": model.table, "prefix": start, "size": width, "rounds": rounds}
        )
        if not power
        else None,
        example=example,
        asked=any(option is not None for option in (prefix, beam_size, steps, alpha, p)),
    )


def _model(table: Mapping[str, Mapping[str, float]], p: str | None) -> TableModel:
    if not isinstance(table, Mapping) or not table:
        raise InputError('table is empty; pass probabilities such as "I am" = { fine = 1.0 }')
    for prefix, following in table.items():
        if not isinstance(following, Mapping) or not following:
            raise InputError(
                f"table, after {prefix!r}: expected the next words and their probabilities, "
                f"such as {{ fine = 0.5, here = 0.5 }}"
            )
        for word, probability in following.items():
            if isinstance(probability, bool) or not isinstance(probability, int | float):
                raise InputError(
                    f"table, after {prefix!r}: P({word}) = {probability!r} is not a number"
                )
    return TableModel(table if p is None else _changed(table, p))


def _changed(table: Mapping[str, Mapping[str, float]], p: str) -> dict[str, dict[str, float]]:
    """The table with changed probabilities. The other words after the same prefix share the rest in
    the same proportions as before."""
    new: dict[str, dict[str, float]] = {}
    for entry in p.split(";"):
        words = entry.split() if len(entry.split()) > 2 else ["", "", ""]
        prefix, word, value = " ".join(words[:-2]), words[-2], words[-1]
        row = table.get(prefix, {})
        if word not in row:
            first = next(iter(table))
            raise InputError(
                f"p: {entry.strip()!r} is not a prefix of the table, one of its next words and a "
                f'probability, such as "{first} {next(iter(table[first]))} 0.3"'
            )
        probability = scalar(value, f"p of {prefix} {word}").item()
        new.setdefault(prefix, {})[word] = probability
    changed = {prefix: dict(row) for prefix, row in table.items()}
    for prefix, given in new.items():
        row = changed[prefix]
        rest, others = 1 - sum(given.values()), sum(row.values()) - sum(row[w] for w in given)
        if min(given.values()) < 0 or rest < -1e-9 or (rest > 1e-9 and not others > 0):
            written = ", ".join(f"P({w}) = {v:g}" for w, v in given.items())
            raise InputError(
                f"p: after {prefix!r}, {written} cannot be completed to a sum of 1; each "
                "probability must be between 0 and 1"
            )
        scale = max(rest, 0.0) / others if others > 0 else 0.0
        changed[prefix] = {w: given.get(w, v * scale) for w, v in row.items()}
    return changed


def _given(board: Board, model: TableModel, example: bool) -> Given:
    """The probability table as a given value, one line for each prefix and next word."""
    lines: list[tuple[str, ...]] = []
    for prefix, following in model.table.items():
        for i, (word, p) in enumerate(following.items()):
            lines.append(("" if i else literal(prefix), literal(word), board.number(p)))
    shown = tuple(lines[:_ROWS])
    heading = "The built-in table of next words" if example else "The table of next words"
    if len(lines) > len(shown):
        heading += f", its first {len(shown)} of {len(lines)} lines"
    return Given(
        name="table",
        symbol=heading,
        value={prefix: dict(following) for prefix, following in model.table.items()},
        table=SolutionTable(("after", "next", "$P$"), shown),
    )


def _missing(model: TableModel, steps: list[Step]) -> tuple[str, ...]:
    """A note on prefixes that the search reached but the table lacks."""
    met: dict[str, None] = {}
    for step in steps:
        for candidate in step.value if isinstance(step.value, list) else []:
            assert isinstance(candidate, dict)
            prefix = candidate["prefix"]
            if candidate["word"] == END and prefix not in model.table:
                met[f"“{prefix}”"] = None
    if not met:
        return ()
    several = f" and {len(met) - 3} more" if len(met) > 3 else ""
    listed = literal(", ".join([*met][:3]) + several)
    return (f"the table has no row after {listed}, so the sentence ends there with $P = 1$.",)


def _search(
    board: Board, model: TableModel, start: str, beams: int, steps: int, alpha: float, title: str
) -> Hypothesis:
    board.section = title
    state = model.start(GenerationInputs(1), capacity=steps)
    prefix = model.encode(start)
    if prefix.shape[1] > 1:
        model.step(prefix[:, :-1], state)
    state.expand(beams)
    rounds: list[Round] = []
    hypotheses = search(
        model.step,
        state,
        prefix,
        torch.zeros(1, dtype=torch.long),
        torch.tensor([steps]),
        GenerationConfig(beam_size=beams, n_best=beams, alpha=alpha),
        eos=model.ids[END],
        pad=model.ids[PAD],
        watch=rounds.append,
    )
    for number, beam_round in enumerate(rounds, start=1):
        _round(board, model, beam_round, number, alpha)
    return hypotheses[0][0]


def _round(board: Board, model: TableModel, beam_round: Round, number: int, alpha: float) -> None:
    """Write all candidates of a round, best first, and mark those that are kept."""
    before, after = beam_round.before, beam_round.after
    alive = after.tokens[0][after.scores[0] > -math.inf]
    kept = {model.decode(row) for row in alive}
    rows: list[tuple[float, tuple[str, ...], dict[str, Value]]] = []
    for j in range(before.tokens.shape[1]):
        if before.scores[0, j] == -math.inf:
            continue
        prefix, score = model.decode(before.tokens[0, j]), before.scores[0, j].item()
        if before.finished[0, j]:
            length = int(before.lengths[0, j])
            rows.append(_candidate(board, prefix, "(ended)", None, score, length, alpha, kept))
            continue
        length = int(before.lengths[0, j]) + 1
        for word, log_p in zip(model.words, beam_round.log_probs[0, j].tolist(), strict=True):
            if log_p > -math.inf:
                rows.append(
                    _candidate(board, prefix, word, log_p, score + log_p, length, alpha, kept)
                )
    rows.sort(key=lambda row: (row[2]["word"] != "(ended)", -row[0]))  # finished ones first
    header = ["prefix", "next", "$P$", r"$\sum \ln P$", *(["rank by"] if alpha else []), ""]
    hidden = len(rows) - _SHOWN
    board.table(
        f"Round {number}: every beam, every next word",
        SolutionTable(tuple(header), tuple(cells for _, cells, _ in rows[:_SHOWN])),
        name=f"round {number}",
        value=[value for _, _, value in rows],
        note=f"{hidden} more candidates are pruned." if hidden > 0 else "",
    )


def _candidate(
    board: Board,
    prefix: str,
    word: str,
    log_p: float | None,
    score: float,
    length: int,
    alpha: float,
    kept: set[str],
) -> tuple[float, tuple[str, ...], dict[str, Value]]:
    """One row of a round's table. Return the number by which rows are ranked, the cells, and the
    same values in full precision."""
    whole_text = prefix if log_p is None else f"{prefix} {word}"
    stays = whole_text in kept
    rank = score / max(length, 1) ** alpha
    probability = "" if log_p is None else board.number(math.exp(log_p))
    ranks = [board.number(rank)] if alpha else []
    cells = (literal(prefix), literal(word), probability, board.number(score), *ranks)
    value: dict[str, Value] = {
        "prefix": prefix, "word": word, "score": score, "rank": rank, "kept": stays,
    }  # fmt: skip
    return rank, (*cells, "kept" if stays else "pruned"), value


def _answer(
    board: Board, name: str, model: TableModel, start: str, hypothesis: Hypothesis
) -> tuple[str, ...]:
    sentence = _sentence(model, start, hypothesis) + (
        "" if hypothesis.finished else " (unfinished)"
    )
    score = hypothesis.log_probability
    return name, literal(sentence), board.number(score), board.number(math.exp(score))


def _sentence(model: TableModel, start: str, hypothesis: Hypothesis) -> str:
    """The whole sentence of a hypothesis, including the prefix."""
    words = [model.words[i] for i in hypothesis.tokens] + [END] * hypothesis.finished
    return " ".join([*start.split(), *words])


def _value(model: TableModel, start: str, hypothesis: Hypothesis) -> Value:
    return {
        "sentence": _sentence(model, start, hypothesis),
        "score": hypothesis.log_probability,
        "probability": math.exp(hypothesis.log_probability),
        "finished": hypothesis.finished,
    }


def _compare(
    board: Board, model: TableModel, start: str, greedy: Hypothesis, beam: Hypothesis
) -> str:
    one, other = (
        literal("“" + _sentence(model, start, hypothesis).removesuffix(END).strip() + "”")
        for hypothesis in (greedy, beam)
    )
    ended = [hypothesis.finished for hypothesis in (greedy, beam)]
    if not all(ended):  # unfinished sentences cannot be compared by probability
        first, second = ("ends with" if end else "stops unfinished at" for end in ended)
        return (
            f"Greedy search {first} {one} and beam search {second} {other}: comparing them would "
            "need more steps."
        )
    if one == other:
        return f"Both searches find {one}."
    ratio = math.exp(beam.log_probability - greedy.log_probability)
    times = board.number(ratio)
    if ratio < 1:
        return f"Beam search prefers {other}, at {times} times the probability of {one}."
    return f"Beam search finds {other}, {times} times as likely as {one} from greedy search."
