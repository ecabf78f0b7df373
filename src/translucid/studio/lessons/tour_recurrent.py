"""A tour: one step of a recurrent network, computed gate by gate."""

from translucid.studio.lesson import (
    Answer,
    Lesson,
    ModelLacks,
    SentenceLacks,
    Stop,
    number_stop,
)

lesson = Lesson(
    name="A cell state with gates",
    teaches="How a recurrent network reads one word after the other, what its gates let through, "
    "and how one step of one unit is worked out with this model's own numbers.",
    needs={"*coder.recurrent.layers.0.*.hidden": "it has no recurrent part"},
)

GATE = 0.5  # for the question


def find_hidden(run):
    return run.point(
        "*encoder.recurrent.layers.0.forward.*.hidden",
        "*encoder.recurrent.layers.0.*.hidden",
        "*decoder.recurrent.layers.0.*.hidden",
    )


class OneUnit:
    """The unit with the largest state after the third word. The tour computes the values of this
    unit."""

    def __init__(self, run):
        self.hidden = find_hidden(run)
        if self.hidden.row_up_to(2).place < 2:
            raise SentenceLacks("the sentence is too short; type at least three words")
        self.before, self.word = self.hidden.row(1), self.hidden.row(2)
        self.unit = self.hidden.largest(self.word)
        self.view = {"at": self.hidden, "unit": self.unit, "pin": [self.word]}
        self.run = run

    def point(self, name):
        """A point of the same layer, or None if this kind of layer does not have it."""
        return self.run.find(f"{self.hidden.part}.{name}")

    def now(self, name):
        """The value of one of the layer's gates or states, for this unit at the third word."""
        return self.point(name)[self.word, self.unit]

    def earlier(self, name):
        """The value of one of the layer's gates or states, for this unit at the second word."""
        return self.point(name)[self.before, self.unit]


@lesson.stop(
    "Words, one by one",
    view="flow",
    do="Select a word on the left and follow its strand to the right.",
)
def words_one_by_one(run):
    embedding = run.point("*encoder.embedding.lookup", "*decoder.embedding.lookup")
    word = OneUnit(run).word
    return number_stop(
        f"Each word is a [row of a table](part:{embedding}): {embedding.shape[1]:,} numbers, for "
        f"{word} {embedding[word, 0]}, {embedding[word, 1]}, … A recurrent layer reads these rows "
        "one at a time.",
        embedding[word, 0],
        word,
        light=[f"part:{embedding}"],
    )


@lesson.stop(
    "A state",
    view="recurrent",
    do="Press Left and Right: the column of each word is the state after it.",
)
def a_state(run):
    at = OneUnit(run)
    return Stop(
        f"What was read is kept in a state of {at.hidden.shape[1]:,} numbers, one for each unit. "
        f"After {at.before}, unit {at.unit} has the value {at.earlier('hidden')}; after {at.word} "
        f"it has {at.now('hidden')}.",
        **at.view,
        light=["gate:hidden"],
    )


@lesson.stop("What stays", view="recurrent")
def what_stays(run):
    at = OneUnit(run)
    if at.point("forget_gate"):
        return Stop(
            "A unit carries its cell state from token to token. The [forget "
            f"gate](gate:forget_gate) controls how much of it stays: at {at.word}, unit {at.unit} "
            f"keeps {at.now('forget_gate')} of the {at.earlier('cell')} that it held.",
            do="Look along the row of the forget gate: a tick at the bottom means closed, one at "
            "the top open.",
            **at.view,
            light=["gate:forget_gate", "gate:cell"],
        )
    if at.point("update_gate"):
        return Stop(
            "The [update gate](gate:update_gate) controls how much of the state stays: at "
            f"{at.word}, unit {at.unit} keeps {at.now('update_gate')} of the "
            f"{at.earlier('hidden')} that it held.",
            do="Look along the row of the update gate: a tick at the bottom means closed, one at "
            "the top open.",
            **at.view,
            light=["gate:update_gate", "gate:hidden"],
        )
    raise ModelLacks(
        "there is no gate for what stays: the whole state is computed anew at each word"
    )


@lesson.stop("What is written", view="recurrent")
def what_is_written(run):
    at = OneUnit(run)
    if at.point("input_gate"):
        return Stop(
            f"The [candidate](gate:candidate) is what could be written, {at.now('candidate')}; the "
            f"[input gate](gate:input_gate) controls how much of it is, {at.now('input_gate')}.",
            do="Find a word where the gate is open and the candidate is not 0: there something is "
            "stored.",
            **at.view,
            light=["gate:candidate", "gate:input_gate"],
        )
    if at.point("update_gate"):
        return Stop(
            "The [candidate](gate:candidate) is what the state could become, "
            f"{at.now('candidate')}. It replaces what does not stay: 1 − {at.now('update_gate')} "
            "of it is taken.",
            do="Find a word where the update gate is low: there the state becomes the candidate.",
            **at.view,
            light=["gate:candidate"],
        )
    raise ModelLacks("there is no candidate: each step directly adds input and hidden state")


@lesson.stop("One step by hand", view="recurrent")
def one_step_by_hand(run):
    at = OneUnit(run)
    if at.point("forget_gate"):
        return Stop(
            f"Kept and written are added: {at.now('forget_gate')} × {at.earlier('cell')} + "
            f"{at.now('input_gate')} × {at.now('candidate')} = {at.now('cell')}. That is the [new "
            f"cell](gate:cell) of unit {at.unit} after {at.word}.",
            do=f"What would it be if the forget gate were {GATE}? Type it with 2 decimals.",
            **at.view,
            light=["gate:cell"],
        )
    if at.point("update_gate"):
        stays = at.now("update_gate")
        return Stop(
            f"Kept and new are added: {stays} × {at.earlier('hidden')} + (1 − {stays}) × "
            f"{at.now('candidate')} = {at.now('hidden')}. That is the [new state](gate:hidden) of "
            f"unit {at.unit} after {at.word}.",
            do=f"What would it be if the update gate were {GATE}? Type it with 2 decimals.",
            **at.view,
            light=["gate:hidden"],
        )
    return Stop(
        f"Input and hidden state are weighted and added, {at.now('preactivation')}, and the "
        f"activation function turns that into the [new state](gate:hidden) of unit {at.unit}: "
        f"{at.now('hidden')}.",
        do="If the activation function is tanh, what is its slope 1 − h² there? Type it with 2 "
        "decimals.",
        **at.view,
        light=["gate:preactivation", "gate:hidden"],
    )


@one_step_by_hand.answer
def another_step(run, page):
    at = OneUnit(run)
    if at.point("forget_gate"):
        old, written = float(at.earlier("cell")), at.now("input_gate") * at.now("candidate")
        return Answer(
            GATE * old + written,
            slips={
                "multiply the old cell by the forget gate.": old + written,
                "add what is written.": GATE * old,
                "multiply the forget gate by the old cell.": GATE + written,
                "multiply the candidate by the input gate.": GATE * old + at.now("candidate"),
                f"the forget gate is {GATE} now.": at.now("forget_gate") * old + written,
            },
        )
    if at.point("update_gate"):
        old, new = float(at.earlier("hidden")), float(at.now("candidate"))
        return Answer(
            GATE * old + (1 - GATE) * new,
            slips={
                "multiply both by their factors.": old + new,
                "add the part of the candidate.": GATE * old,
                "add the part of the old state.": (1 - GATE) * new,
            },
        )
    state = float(at.now("hidden"))
    return Answer(
        1 - state**2,
        slips={
            "square the state.": 1 - state,
            "subtract the square from 1.": state**2,
            "subtract the square; do not add it.": 1 + state**2,
        },
    )


@lesson.stop(
    "What is shown",
    view="recurrent",
    do="Press ] for other units. Find one whose cell keeps its value while its hidden state stays "
    "near 0.",
)
def what_is_shown(run):
    at = OneUnit(run)
    if not at.point("output_gate"):
        raise ModelLacks("there is no output gate: the whole state is shown")
    return Stop(
        "The [output gate](gate:output_gate) controls how much of the cell state other parts see: "
        f"{at.now('output_gate')} × tanh({at.now('cell')}) = {at.now('hidden')}. A unit may store "
        "something for a long time and show it late.",
        **at.view,
        light=["gate:output_gate", "gate:hidden"],
    )


@lesson.stop(
    "Two directions",
    view="recurrent",
    do="Press Up and Down to go from one direction to the other.",
)
def two_directions(run):
    backward = run.point(
        "*encoder.recurrent.layers.0.backward.*.hidden", lacks="it reads in one direction only"
    )
    at = OneUnit(run)
    return Stop(
        f"A second network reads from the end to the beginning: at {at.word} it has read all that "
        f"follows, and its unit {at.unit} has the value {backward[at.word, at.unit]}. Together "
        "they know both sides of each word.",
        at=backward,
        unit=at.unit,
        pin=[at.word],
    )


@lesson.stop(
    "Looking back",
    view="attention",
    do="Click the words of the translation in turn: which source word does each attend to?",
)
def looking_back(run):
    alignment = run.point(
        "*decoder.alignment.pattern", lacks="it has no alignment to look back with"
    )
    word = alignment.row_up_to(2)
    source = alignment.largest(word)
    return Stop(
        "A state can hold a limited amount. So the decoder attends to every word of the source: "
        f"after reading {word}, it gives {alignment[word, source]} of its attention to {source}.",
        at=alignment,
        pin=[word, source],
    )


@lesson.stop(
    "What is a gate for?",
    view="whatif",
    do="Press Backspace, then hold it closed instead, so that it keeps nothing.",
)
def what_is_a_gate_for(run):
    for layer in ("encoder.recurrent.layers.0.forward", "encoder.recurrent.layers.0",
                  "decoder.recurrent.layers.0"):  # fmt: skip
        forget_gate = f"{layer}.lstm.forget_gate=1"
        if run.has_switch(forget_gate):
            return Stop(
                "To see what a gate is for, hold it open: here the forget gate of layer 0 is held "
                "at 1, and nothing is ever forgotten. Differences are amber.",
                off=forget_gate,
                light=[f"switch:{forget_gate}"],
            )
    raise ModelLacks("there are no gates to hold open")


@lesson.stop(
    "Writing",
    view="decode",
    step=1,
    do="Press Right for the next step. Press f to force the second best word, and Backspace to "
    "let the model choose again.",
)
def writing(run):
    if not run.writes_text:
        raise ModelLacks("the model generates no text")
    return Stop(
        "To write a text, the decoder reads a word, updates its state, and computes the next "
        "probabilities; then it reads the next word. Greedy search takes the likeliest token each "
        "time, beam search keeps several beginnings."
    )
