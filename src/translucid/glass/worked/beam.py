"""Greedy and beam search over a table of next-word probabilities."""

import math
from collections.abc import Mapping

from translucid.decoding.beam import Beams, Round, beam_rounds
from translucid.decoding.table import END, PAD, TableModel
from translucid.errors import InputError
from translucid.glass.notation import number
from translucid.glass.numbers import Numbers, scalar, whole
from translucid.glass.solution import Solution, Table, Value, literal
from translucid.glass.worked.board import Board

EXAMPLE: dict[str, dict[str, float]] = {
    "I am": {"fine": 0.5, "finally": 0.4, "here": 0.1},
    "I am fine": {END: 0.5, "thanks": 0.3, "today": 0.2},
    "I am finally": {"feeling": 0.95, END: 0.05},
    "I am finally feeling": {"much": 0.95, END: 0.05},
    "I am finally feeling much": {"better": 0.95, END: 0.05},
    "I am finally feeling much better": {END: 0.95, "now": 0.05},
}
_SHOWN = 12  # candidates of a round


def beam(
    table: Mapping[str, Mapping[str, float]] | None = None,
    prefix: str | None = None,
    *,
    beams: int | str = 2,
    steps: int | str = 20,
    alpha: Numbers = 0.0,
    digits: int = 4,
) -> Solution:
    """Every round of greedy search and of beam search, from the probabilities after each prefix.

    table: {"I am": {"fine": 0.5, "here": 0.5}}; after a prefix that it does not list, the sentence
    ends. Beams are compared by log-probability / length^alpha.
    """
    example = table is None
    model = _model(EXAMPLE if table is None else table)
    start = next(iter(model.table)) if prefix is None else prefix
    if not start.split():
        raise InputError("prefix is empty; give the words with which the sentence begins")
    width = whole(beams, "beams")
    rounds = whole(steps, "steps")
    power = scalar(alpha, "alpha").item()
    board = Board(digits)
    board.state("B", str(width), name="beams")
    if power:
        board.state(r"\alpha", number(power, digits), name="alpha")
    model.encode(start)  # unknown words are refused here, before anything is written
    greedy = _search(board, model, start, 1, rounds, 0.0, "Greedy search: a beam of 1")
    title = f"Beam search: the best {width} are kept"
    found = _search(board, model, start, width, rounds, power, title)
    board.section = "Side by side"
    rows = [_answer("greedy", model, greedy, digits), _answer("beam", model, found, digits)]
    board.table(
        "Results: the same table, two searches",
        Table(("search", "sentence", "log-probability", "probability"), tuple(rows)),
        name="results",
        value={
            "greedy": _value(model, greedy),
            "beam": _value(model, found),
        },
    )
    return Solution(
        title=literal(f"Greedy search and beam search after “{start}”"),
        given=tuple(board.given),
        steps=tuple(board.steps),
        closing=literal(_compare(model, greedy, found)),
        next="translucid work beam --beams 3 --alpha 0.6" if width == 2 else "translucid work beam",
        example=example,
    )


def _model(table: Mapping[str, Mapping[str, float]]) -> TableModel:
    if not isinstance(table, Mapping) or not table:
        raise InputError('table is empty; give probabilities such as "I am" = { fine = 1.0 }')
    for prefix, following in table.items():
        if not isinstance(following, Mapping) or not following:
            raise InputError(
                f"table, after {prefix!r}: give the next words and their probabilities, "
                f"such as {{ fine = 0.5, here = 0.5 }}"
            )
        for word, p in following.items():
            if isinstance(p, bool) or not isinstance(p, int | float):
                raise InputError(f"table, after {prefix!r}: P({word}) = {p!r} is not a number")
    return TableModel(table)


def _search(
    board: Board, model: TableModel, start: str, beams: int, steps: int, alpha: float, title: str
) -> Beams:
    board.section = title
    state = model.start()
    state.expand(beams)
    prefix = model.encode(start)
    found = Beams.start(prefix, beams)
    ids = {"eos": model.ids[END], "pad": model.ids[PAD]}
    for i, each in enumerate(
        beam_rounds(model, state, prefix, beams=beams, steps=steps, alpha=alpha, **ids), 1
    ):
        _round(board, model, each, i, alpha)
        found = each.after
    return found


def _round(board: Board, model: TableModel, each: Round, number_of: int, alpha: float) -> None:
    """All candidates of a round, best first, and which of them stay."""
    before, after = each.before, each.after
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
        for word, log_p in zip(model.words, each.log_probs[0, j].tolist(), strict=True):
            if log_p > -math.inf:
                rows.append(
                    _candidate(board, prefix, word, log_p, score + log_p, length, alpha, kept)
                )
    rows.sort(key=lambda row: -row[0])
    header = ["prefix", "next", "$P$", r"$\sum \ln P$", *(["rank by"] if alpha else []), ""]
    hidden = len(rows) - _SHOWN
    board.table(
        f"Round {number_of}: every beam, every next word",
        Table(tuple(header), tuple(cells for _, cells, _ in rows[:_SHOWN])),
        name=f"round {number_of}",
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
    """One row of the table: its rank, its cells, its full value."""
    whole_text = prefix if log_p is None else f"{prefix} {word}"
    stays = whole_text in kept
    rank = score / max(length, 1) ** alpha
    chance = "" if log_p is None else f"${number(math.exp(log_p), board.digits)}$"
    ranks = [f"${number(rank, board.digits)}$"] if alpha else []
    cells = (literal(prefix), literal(word), chance, f"${number(score, board.digits)}$", *ranks)
    value: dict[str, Value] = {
        "prefix": prefix, "word": word, "score": score, "rank": rank, "kept": stays,
    }  # fmt: skip
    return rank, (*cells, "kept" if stays else "pruned"), value


def _answer(name: str, model: TableModel, found: Beams, digits: int) -> tuple[str, ...]:
    score = found.scores[0, 0].item()
    sentence = model.decode(found.tokens[0, 0])
    chance = number(math.exp(score), max(digits, 4))
    return name, literal(sentence), f"${number(score, digits)}$", f"${chance}$"


def _value(model: TableModel, found: Beams) -> Value:
    score = found.scores[0, 0].item()
    return {
        "sentence": model.decode(found.tokens[0, 0]),
        "score": score,
        "probability": math.exp(score),
    }


def _compare(model: TableModel, greedy: Beams, found: Beams) -> str:
    one, other = (
        "“" + model.decode(beams.tokens[0, 0]).removesuffix(END).strip() + "”"
        for beams in (greedy, found)
    )
    if one == other:
        return f"Both searches find {one}."
    ratio = math.exp(found.scores[0, 0].item() - greedy.scores[0, 0].item())
    if ratio < 1:
        return f"Beam search prefers {other}, at {ratio:.3g} times the probability of {one}."
    return f"Beam search finds {other}, {ratio:.3g} times as likely as {one}, which is greedy's."
