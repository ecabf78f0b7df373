"""Station 6 of *Start here*: attention in an LSTM translation model."""

from translucid.studio.lesson import (
    Lesson,
    SentenceLacks,
    Stop,
    number_stop,
    right,
    wrong,
)

ALIGNMENT = "decoder.alignment"
lesson = Lesson(
    name="Attention",
    teaches="Why one state is too narrow for a sentence, how a decoder attends to all words of "
    "the source, how scores become weights that sum to 1, and what the translation loses without "
    "them.",
    model="demo:translate-lstm",
    text="The dog does not sleep.",
    needs={f"{ALIGNMENT}.pattern": "its attention is of another kind"},
)


class NotToNicht:
    """The attention weights, the row that writes nicht, and the column of not."""

    def __init__(self, run):
        self.weights = run.point(f"{ALIGNMENT}.pattern")
        self.writing = self.weights.row_writing("nicht")
        self.source = self.weights.column_of("not")
        self.weight = self.weights[self.writing, self.source]


@lesson.stop(
    "A bottleneck",
    view="flow",
    do="Follow the strands: where do source and target meet?",
)
def a_bottleneck(run):
    cell = run.point("decoder.bridge.cell", lacks="its decoder has no cell")
    state = run.point("decoder.bridge.hidden")
    return Stop(
        "An LSTM has read the English sentence. To write German from its last state alone, all "
        f"words would have to fit into what the decoder starts with: a state of {state.shape[0]:,} "
        f"numbers and a cell of {cell.shape[0]:,}, however long the sentence is.",
        at=state,
        light=[f"part:{state}"],
    )


@lesson.stop(
    "Keep every state",
    view="flow",
    do="Click a word at the left: its state knows its neighbours on both sides.",
)
def keep_every_state(run):
    states = run.point("encoder.recurrent.output")
    return Stop(
        f"So the encoder keeps every state: {states.shape[0]:,} of them, one for each token, with "
        f"{states.shape[1]:,} numbers (it reads forwards and backwards).",
        at=states,
        light=[f"part:{states}"],
    )


@lesson.stop("Query and key", view="flow", do="Both are learnt. Click the query of another word.")
def query_and_key(run):
    at = NotToNicht(run)
    query, key = run.point(f"{ALIGNMENT}.query"), run.point(f"{ALIGNMENT}.key")
    return number_stop(
        "Before each word the decoder computes a query from its own state. It begins "
        f"{query[at.writing, 0]}, {query[at.writing, 1]} where {at.writing.next} is to be written. "
        f"Each word of the source has a key; that of {at.source} begins {key[at.source, 0]}, "
        f"{key[at.source, 1]}.",
        query[at.writing, 0],
        at.writing,
    )


@lesson.stop(
    "Scores",
    view="attention",
    moment="scores",
    do="Move along the row: the larger a score, the better the word matches.",
)
def scores(run):
    at = NotToNicht(run)
    score = run.point(f"{ALIGNMENT}.scores")
    return Stop(
        f"A small network compares query and key (additive attention). {at.source} gets "
        f"{score[at.writing, at.source]}, the first word gets {score[at.writing, 0]}.",
        pin=[at.writing, at.source],
    )


@lesson.stop(
    "Weights",
    view="attention",
    do="Add up a row with your eyes: where is nearly all of it?",
)
def weights(run):
    at = NotToNicht(run)
    score = run.point(f"{ALIGNMENT}.scores")[at.writing, at.source]
    largest = run.point(f"{ALIGNMENT}.shift")[at.writing, 0]
    exponential = run.point(f"{ALIGNMENT}.exponentials")[at.writing, at.source]
    total = run.point(f"{ALIGNMENT}.normaliser")[at.writing, 0]
    return Stop(
        f"The softmax turns them into weights: exp({score} − {largest}) = {exponential}, divided "
        f"by the sum of the row, {total}, is {at.weight}. All weights of a row sum to 1.",
        pin=[at.writing, at.source],
    )


@lesson.stop(
    "not → nicht",
    view="attention",
    do="Look at the other rows: does each German word attend to its English one?",
)
def not_to_nicht(run):
    at = NotToNicht(run)
    return Stop(
        f"While it writes {at.writing.next}, it gives {at.weight} of its attention to {at.source}. "
        "The training data does not say which words belong together.",
        pin=[at.writing, at.source],
    )


@lesson.stop(
    "Words change places",
    view="attention",
    do="Look at the ribbons: do any of them cross?",
)
def words_change_places(run):
    weights = run.point(f"{ALIGNMENT}.pattern")
    writing = weights.row_writing("schläft")
    verb = weights.largest(writing)
    say = (
        f"German puts the verb before its negation. For {writing.next} the decoder gives "
        f"{weights[writing, verb]} of its attention to {verb}. "
    )
    try:
        negation = NotToNicht(run)
    except SentenceLacks:
        return Stop(say, pin=[writing, verb])
    if verb.place > negation.source.place and negation.writing.place > writing.place:
        say += (
            f"That is beyond {negation.source}, which it translates later: attention need not move "
            "from left to right."
        )
    return Stop(say, pin=[writing, verb])


@lesson.stop("The context", view="flow", do="Click the context of another word.")
def the_context(run):
    at = NotToNicht(run)
    context = run.point(f"{ALIGNMENT}.context")
    if at.weight >= 0.9:
        mostly = f"With a weight of {at.weight} it is nearly the state of {at.source}."
    else:
        mostly = f"The state of {at.source} has a weight of {at.weight} in it."
    return number_stop(
        "The states of the source, each times its weight, add up to the context: "
        f"{context.shape[1]:,} numbers, which begin {context[at.writing, 0]}, "
        f"{context[at.writing, 1]}. {mostly}",
        context[at.writing, 0],
        at.writing,
    )


@lesson.stop(
    "Your turn",
    view="attention",
    do="Press Edit and write a sentence in which the dog does not see someone. What does “nicht” "
    "attend to now? Then press Check.",
)
def your_turn(run):
    return Stop(
        "Attention is computed anew for every sentence. If there is an object, German moves the "
        "negation to the end."
    )


@your_turn.check
def looks_at_not(run, page):
    if run.reads("see") and run.reads("not"):
        weight = NotToNicht(run).weight
        if weight >= 0.5:
            return right(
                f"It writes: {run.answer} And “nicht”, at its new position, gives {weight} of its "
                "attention to “not”."
            )
    return wrong("Write something like: The dog does not see the cat.")


@lesson.stop(
    "Without attention",
    view="whatif",
    do="Switch off the attention (decoder.alignment). Does it still write the same text? Then "
    "press Check.",
)
def without_attention(run):
    return Stop(
        "Switched off, the context is 0: all that the decoder has of the source is the state it "
        "started with."
    )


@without_attention.check
def attention_is_off(run, page):
    if page.is_off(ALIGNMENT) and page.answer_changed:
        return right(f"Without attention it writes: {run.answer}")
    return wrong("It is still on: look for the attention in the list of parts.")


@lesson.stop(
    "One head, many heads",
    view="attention",
    do="Press Finish to go back to the stations.",
)
def one_head_many_heads(run):
    return Stop(
        "This decoder has one query at a time. A Transformer has several side by side, reads "
        "without recurrence, and lets the words of a sentence attend to one another. That is the "
        "last station."
    )
