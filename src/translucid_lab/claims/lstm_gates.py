"""What the gates of an LSTM do: forget (C28), write (C29), show (C30). Gates are read and replaced
in the trace.

Shapes: ids (rows, length); gates and states (rows, length, hidden), at one place (rows, hidden).
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from translucid import Batch, Trace
from translucid.core import Edit
from translucid.models import Network
from translucid.parts import Recurrent
from translucid.see import Axis, Bars, Lines
from translucid.tasks import IGNORE
from translucid_lab import Data, Experiment, Finding
from translucid_lab.claims.sequence_tasks import batch_of, recurrent_net, right, train
from translucid_lab.engine.intervals import clearly, difference_of, median_of
from translucid_lab.engine.verdict import average, column, decide, has_learned

LSTM = "encoder.recurrent.layers.0.lstm"
HIDDEN = 24
LEARNED = 0.9  # accuracy required for the test


@torch.no_grad()
def gate_values(
    net: Network, ids: Tensor, edits: Mapping[str, Edit] | None = None
) -> dict[str, Tensor]:
    """Forget gate, cell and hidden state at every position."""
    points = ("forget_gate", "cell", "hidden")
    trace = Trace([f"{LSTM}.{point}" for point in points], edit=_at_lstm(edits or {}))
    net(ids, trace=trace)
    return {point: trace[f"{LSTM}.{point}"] for point in points}


def _at_lstm(edits: Mapping[str, Edit]) -> dict[str, Edit]:
    return {f"{LSTM}.{name}": edit for name, edit in edits.items()}


@torch.no_grad()
def edited_logits(net: Network, ids: Tensor, edits: Mapping[str, Edit]) -> Tensor:
    """The logits with edited gates: name@position -> new value."""
    trace = Trace([], edit=_at_lstm(edits))
    logits: Tensor = net(ids, trace=trace)
    trace.check()
    return logits


TICK, RESET, COUNTED, ROW = 1, 2, 4, 12


def counting(generator: torch.Generator, rows: int) -> Batch:
    """Count the ticks since the last reset, at each position; COUNTED or more are one class."""
    drawn = torch.rand(rows, ROW, generator=generator)
    ids = (drawn < 0.5).long() + (drawn < 0.15).long()  # 0 nothing, 1 tick, 2 reset
    counts = torch.zeros(rows, dtype=torch.long)
    targets = []
    for t in range(ROW):
        counts = torch.where(ids[:, t] == RESET, 0, counts + (ids[:, t] == TICK))
        targets.append(counts.clamp(max=COUNTED))
    return batch_of(ids, torch.stack(targets, dim=1))


def _forgetting(seed: int, quick: bool) -> Data:
    """Set the forget gate of an untrained cell by hand (`_by_hand`), and train a network to count
    with resets. Measure the network's accuracy, unchanged and with the forget gate held at 1 at
    resets. Also measure the fraction of the cell that is kept, and the mean forget gate of each
    unit, both at resets and elsewhere. The unit whose gate drops most at resets comes first."""
    net = recurrent_net(seed, "lstm", vocab=3, outputs=COUNTED + 1, hidden=HIDDEN, tags=True)
    train(net, counting, seed=seed, steps=100 if quick else 600, rate=1e-2, enough=0.02)
    batch = counting(torch.Generator().manual_seed(seed + 10**6), 300)
    ids = batch.inputs["ids"]
    wanted = batch.targets.where((ids == RESET).cumsum(dim=1) > 0, IGNORE)  # after a reset
    held = {f"forget_gate@{t}": _held_open(ids[:, t] == RESET) for t in range(ROW)}
    seen = gate_values(net, ids)
    before, gate = seen["cell"][:, :-1].abs(), seen["forget_gate"][:, 1:]
    reset = ids[:, 1:] == RESET
    order = (gate[~reset].mean(dim=0) - gate[reset].mean(dim=0)).argsort(descending=True)
    return {
        **_by_hand(seed),
        "accuracy": right(edited_logits(net, ids, {}), wanted),
        "held open": right(edited_logits(net, ids, held), wanted),
        "kept": [float((gate * before)[at].sum() / before[at].sum()) for at in (reset, ~reset)],
        "gates": {name: gate[at].mean(dim=0)[order].tolist()
                  for name, at in (("at resets", reset), ("elsewhere", ~reset))},
    }  # fmt: skip


def _held_open(rows: Tensor) -> Callable[[Tensor], Tensor]:
    return lambda gate: torch.where(rows[:, None], 1.0, gate)


@torch.no_grad()
def _by_hand(seed: int) -> dict[str, float]:
    """Set the gates of an untrained cell, with the input gate at 0. Return the largest value that
    is left in the cell if the forget gate is 0, and the largest change of the cell if the forget
    gate is 1."""
    torch.manual_seed(seed)
    layer, x = Recurrent("lstm", 4, 4), torch.randn(3, 10, 4)
    shut: dict[str, Edit] = {f"layers.0.lstm.input_gate@{t}": 0.0 for t in range(5, 10)}
    states = []
    for value in (0.0, 1.0):
        gates: dict[str, Edit] = {f"layers.0.lstm.forget_gate@{t}": value for t in range(5, 10)}
        trace = Trace("layers.0.lstm.cell", edit={**shut, **gates})
        layer(x, trace=trace)
        states.append(trace["layers.0.lstm.cell"])
    wiped, kept = states
    return {"left": float(wiped[:, 5:].abs().max()),
            "moved": float((kept[:, 5:] - kept[:, 4:5]).abs().max())}  # fmt: skip


def _judge_forgetting(data: Sequence[Data]) -> Finding:
    learned, reset, rest = (
        median_of(column(data, *path)) for path in (("accuracy",), ("kept", 0), ("kept", 1))
    )
    cost = difference_of(column(data, "accuracy"), column(data, "held open"), "rank")
    left, moved = max(column(data, "left")), max(column(data, "moved"))
    return decide(
        {
            "at 0 nothing is left of the cell": left < 1e-6,
            "at 1 it does not move": moved < 1e-6,
            "a net that counts needs it to reset": clearly(cost.against(0.1), "above"),
        },
        f"set by hand to 0 it leaves {left:.1e} of the cell, to 1 it moves it by {moved:.1e}; a "
        f"net that counts ({learned} right after a reset) loses {cost} with the gate held open at "
        f"resets; by itself it keeps {reset} of its cell there and {rest} elsewhere",
        {"cost": cost.mean, "at resets": reset.mean, "elsewhere": rest.mean},
        learned={"nets that count": has_learned(column(data, "accuracy"), LEARNED)},
    )


def _draw_forgetting(data: Sequence[Data]) -> Lines:
    return Lines(
        "Forget gates of a net that counts ticks since the last reset",
        Axis("unit, the one that drops most first", tuple(str(i + 1) for i in range(HIDDEN))),
        "mean of the gate",
        {f"{name}": average(data, "gates", name).numpy() for name in ("at resets", "elsewhere")},
    )  # fmt: skip


forget_gate = Experiment.described(
    "forget-gate", _forgetting, _draw_forgetting, {"C28": _judge_forgetting}
)


KINDS = 4  # of symbols
STORE, ASK = KINDS, KINDS + 1  # ids: store the next symbol; recall it
BLANK = KINDS  # the target elsewhere
PLACES = 10
ITEM, MIDDLE, END = 1, 5, PLACES - 1  # places in the texts of the test
WAITING = range(ITEM + 1, END)


def storing(generator: torch.Generator, rows: int) -> Batch:
    """Store an early symbol, recall it late. Elsewhere the target is blank; only one such position
    per text counts, or the network would only learn to answer blank."""
    item = torch.randint(1, 4, (rows, 1), generator=generator)
    asked = torch.randint(PLACES - 3, PLACES, (rows, 1), generator=generator)
    counts = torch.randint(PLACES, (rows, 1), generator=generator) == torch.arange(PLACES)
    ids, targets = _stored(generator, item, asked)
    return batch_of(ids, targets.where(counts | (targets != BLANK), IGNORE))


def _stored(generator: torch.Generator, item: Tensor, asked: Tensor) -> tuple[Tensor, Tensor]:
    ids = torch.randint(KINDS, (len(item), PLACES), generator=generator)
    symbols = ids.gather(1, item)
    ids = ids.scatter(1, item - 1, STORE).scatter(1, asked, ASK)
    return ids, torch.full_like(ids, BLANK).scatter(1, asked, symbols)


def _store_and_show(seed: int, quick: bool) -> Data:
    """Train a network to store and recall; measure its answers with changed gates."""
    net = recurrent_net(seed, "lstm", vocab=KINDS + 2, outputs=KINDS + 1, hidden=HIDDEN, tags=True)
    train(net, storing, seed=seed, steps=200 if quick else 1000, rate=1e-2,
          enough=0.02 if quick else 0.001)  # fmt: skip
    places = (torch.full((400, 1), place) for place in (ITEM, END))
    ids, targets = _stored(torch.Generator().manual_seed(seed + 10**6), *places)
    own, other = targets[:, END], targets[:, END].roll(1)
    differs = own != other

    def answers(edits: Mapping[str, Edit]) -> Tensor:
        return edited_logits(net, ids, edits)[:, END]

    def swapped(name: str) -> Tensor:
        """Answers when the values of `name` at the position where the symbol is stored come from a
        different text."""
        return answers({f"{name}@{ITEM}": lambda value: value.roll(1, 0)})[differs]

    unseen: dict[str, Edit] = {f"output_gate@{t}": 0.0 for t in WAITING}
    seen, alone = gate_values(net, ids), gate_values(net, ids, unseen)
    return {
        "accuracy": right(answers({}), own),
        "silent": right(edited_logits(net, ids, {})[:, :END], targets[:, :END]),
        "input gate open": right(answers({f"input_gate@{t}": 1.0 for t in WAITING}), own),
        "other candidate": right(swapped("candidate"), other[differs]),
        "other input gate": right(swapped("input_gate"), own[differs]),
        "erased": right(
            answers({f"forget_gate@{MIDDLE}": 0.0, f"input_gate@{MIDDLE}": 0.0}), own
        ),
        "not shown": right(answers({f"output_gate@{END}": 0.0}), own),
        "alone": probe(alone["cell"][:, END], own),
        "answer alone": right(answers(unseen), own),
        "probe": {name: [probe(seen[name][:, t], own) for t in range(PLACES)]
                  for name in ("cell", "hidden")},
    }  # fmt: skip


def probe(x: Tensor, labels: Tensor, ridge: float = 1e-3) -> float:
    """Accuracy of a linear probe, fitted to one half of the rows, on the other half."""
    x = x.double()
    x = (x - x.mean(dim=0)) / (x.std(dim=0) + 1e-9)
    x = torch.cat([x, torch.ones(len(x), 1, dtype=x.dtype)], dim=1)
    half = len(x) // 2
    wanted = torch.nn.functional.one_hot(labels[:half], KINDS).to(x.dtype)
    gram = x[:half].T @ x[:half] + ridge * half * torch.eye(x.shape[1], dtype=x.dtype)
    weights = torch.linalg.solve(gram, x[:half].T @ wanted)
    return right(x[half:] @ weights, labels[half:])


def _learned(data: Sequence[Data]) -> dict[str, bool]:
    return {"nets that store and show": has_learned(column(data, "accuracy"), LEARNED)}


def _judge_writing(data: Sequence[Data]) -> Finding:
    learned = median_of(column(data, "accuracy"))
    loss = difference_of(column(data, "accuracy"), column(data, "input gate open"), "rank")
    candidate, gate = (median_of(column(data, f"other {name}")) for name in
                       ("candidate", "input gate"))  # fmt: skip
    why = (
        f"right {learned}; with the input gate open at all other symbols it loses {loss}; given "
        f"another text's candidate it answers with that text's symbol in {candidate}, given its "
        f"input gate it keeps to its own in {gate}"
    )
    return decide(
        {
            "an open gate lets other symbols in": clearly(loss.against(0.0), "above"),
            "the answer follows the candidate": clearly(candidate.against(0.5), "above"),
            "and not the gate": clearly(gate.against(0.5), "above"),
        },
        why, {"loss": loss.mean, "candidate": candidate.mean, "gate": gate.mean},
        learned=_learned(data),
    )  # fmt: skip


def _judge_separate(data: Sequence[Data]) -> Finding:
    learned, silent, erased, not_shown, alone, answer = (
        median_of(column(data, name))
        for name in ("accuracy", "silent", "erased", "not shown", "alone", "answer alone")
    )
    cell, hidden = (median_of(column(data, "probe", name, MIDDLE)) for name in ("cell", "hidden"))
    why = (
        f"right {learned} when asked, blank {silent} before; while it waits, a linear probe reads "
        f"the symbol from the cell in {cell} and from h in {hidden}. With forget and input gate at "
        f"0 once, {erased} of the answers are right; with the output gate at 0 when asked, "
        f"{not_shown}; with it at 0 all the time before, a probe reads the symbol from the cell in "
        f"{alone}, and {answer} of the answers are right"
    )
    finding = decide(
        {
            "the cell holds the symbol": clearly(cell.against(0.9), "above"),
            "forget and input gate decide on it": clearly(erased.against(0.5), "below"),
            "the output gate shows it": clearly(not_shown.against(0.5), "below"),
            "the cell holds it without its being shown": clearly(alone.against(0.9), "above"),
        },
        why, {"cell": cell.mean, "hidden": hidden.mean, "alone": alone.mean},
        learned=_learned(data),
    )  # fmt: skip
    if finding.verdict != "supported" or hidden.against(0.5) == "below":
        return finding
    if hidden.against(0.5) == "across":
        return Finding("undecided", f"{why} (not clear: h does not reveal it)", finding.numbers)
    return Finding("depends", f"{why}. It depends on who looks: the gates can keep the two apart "
                   "and the net's own answers do, but the symbol can be read from h all the time",
                   finding.numbers)  # fmt: skip


DRAWN: dict[str, tuple[str | int, ...]] = {
    "as it is": ("accuracy",),
    "input gate at 1 while waiting": ("input gate open",),
    "another text's input gate: its own symbol": ("other input gate",),
    "another text's candidate: that text's symbol": ("other candidate",),
    "forget and input gate at 0 once": ("erased",),
    "output gate at 0 when asked": ("not shown",),
    "output gate at 0 while waiting": ("answer alone",),
    "output gate at 0 while waiting: a probe of the cell": ("alone",),
    "as it is, while waiting: a probe of the cell": ("probe", "cell", MIDDLE),
    "as it is, while waiting: a probe of h": ("probe", "hidden", MIDDLE),
}


def _draw_store(data: Sequence[Data]) -> Bars:
    return Bars(
        "An LSTM that stores a symbol, with other gates", "accuracy", tuple(DRAWN),
        np.array([float(average(data, *path)) for path in DRAWN.values()]),
        note=f"guessing gives {1 / KINDS}",
    )  # fmt: skip


store_and_show = Experiment.described(
    "store-and-show", _store_and_show, _draw_store, {"C30": _judge_separate}
)
input_gate = Experiment.described(
    "input-gate", _store_and_show, _draw_store, {"C29": _judge_writing}
)
