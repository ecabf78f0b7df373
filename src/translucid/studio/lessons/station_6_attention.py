"""Station 6 of *Start here*: attention from a decoder to the words of the source."""

import math

from translucid.studio.lesson import (
    Answer,
    Lesson,
    SentenceLacks,
    Stop,
    number_stop,
    right,
    wrong,
)

PART = "decoder.layers.1.cross_attention"
HEAD = 2  # as on the first page
lesson = Lesson(
    name="Attention",
    teaches="Why one state is too narrow for a sentence, how a decoder attends to all words of "
    "the source, how scores become weights that sum to 1, and what the translation loses without "
    "them.",
    model="demo:translate",
    text="The dog does not sleep.",
    needs={f"{PART}.pattern": "it has no cross-attention"},
)


class NotToNicht:
    """The attention weights of one head, the row that writes nicht, and the column of not."""

    def __init__(self, run):
        self.weights = run.point(f"{PART}.pattern")
        self.writing = self.weights.row_writing("nicht")
        self.source = self.weights.column_of("not")
        self.weight = self.weights[HEAD, self.writing, self.source]
        self.mean = self.weights.mean_over_heads(self.writing, self.source)
        self.view = {"at": self.weights, "head": HEAD, "pin": [self.writing, self.source]}


@lesson.stop(
    "One vector per word",
    view="flow",
    do="Follow the strands: where does the source reach the decoder?",
)
def one_vector_per_word(run):
    states = run.point("encoder.final_norm.output")
    return Stop(
        "A recurrent network carries a sentence in one state of fixed size, however long the "
        "sentence is. This translator, a Transformer, keeps a vector for every token of the "
        f"source instead: {states.shape[0]:,} vectors of {states.shape[1]:,} numbers.",
        at=states,
        light=[f"part:{states}"],
    )


@lesson.stop(
    "not → nicht",
    view="attention",
    do="To which English word does the row that writes schläft attend most in this head? Type it.",
)
def not_to_nicht(run):
    at = NotToNicht(run)
    return Stop(
        "Before each word, the decoder looks back at all of them. To write "
        f"{at.writing.next}, [head](term:head) {HEAD} gives {at.weight} of its "
        f"[attention](term:attention) to {at.source}. The training data does not say which words "
        "belong together.",
        **at.view,
    )


@not_to_nicht.answer
def what_schläft_attends_to(run, page):
    weights = run.point(f"{PART}.pattern")
    writing = weights.row_writing("schläft")
    others = weights.values(HEAD, writing)
    return Answer(
        weights.largest(HEAD, writing),
        slips={
            "that is the word at the same position; look at the weights.": weights.column(
                min(writing.place, len(others) - 1)
            )
        },
    )


@lesson.stop("Query and key", view="flow", do="Both are learnt. Click the query of another word.")
def query_and_key(run):
    at = NotToNicht(run)
    query, key = run.point(f"{PART}.query"), run.point(f"{PART}.key")
    return number_stop(
        f"How does it find {at.source}? The row that writes {at.writing.next} has a "
        f"[query](term:query), which begins {query[HEAD, at.writing, 0]}, "
        f"{query[HEAD, at.writing, 1]}. Each word of the source has a [key](term:key); that of "
        f"{at.source} begins {key[HEAD, at.source, 0]}, {key[HEAD, at.source, 1]}.",
        query[HEAD, at.writing, 0],
        at.writing,
        head=HEAD,
    )


@lesson.stop(
    "Scores",
    view="attention",
    moment="scaled",
    do="Move along the row: the larger a score, the better the word matches.",
)
def scores(run):
    at = NotToNicht(run)
    score, scaled = run.point(f"{PART}.scores"), run.point(f"{PART}.scaled")
    size = run.point(f"{PART}.query").shape[2]
    return Stop(
        f"The score is the dot product of query and key, {score[HEAD, at.writing, at.source]}, "
        f"divided by √{size}: {scaled[HEAD, at.writing, at.source]}. The first word gets "
        f"{scaled[HEAD, at.writing, 0]}.",
        **at.view,
    )


@lesson.stop(
    "Weights",
    view="attention",
    do="What weight would a word with the score 5 get, if the sum stayed the same? Type it with 3 "
    "decimals.",
)
def weights(run):
    at = NotToNicht(run)
    score = run.point(f"{PART}.scaled")[HEAD, at.writing, at.source]
    shift = run.point(f"{PART}.shift")[HEAD, at.writing, 0]
    exponential = run.point(f"{PART}.exponentials")[HEAD, at.writing, at.source]
    total = run.point(f"{PART}.normaliser")[HEAD, at.writing, 0]
    return Stop(
        "The softmax takes exp of each score and divides by the sum of the row. As exp of a large "
        f"number overflows, it subtracts the maximum of the row, {shift}, first; that leaves the "
        f"ratios as they are. exp({score} − {shift}) = {exponential}, divided by {total}, is "
        f"{at.weight}.",
        **at.view,
    )


@weights.answer
def weight_of_a_score_of_5(run, page):
    at = NotToNicht(run)
    shift = float(run.point(f"{PART}.shift")[HEAD, at.writing, 0])
    total = float(run.point(f"{PART}.normaliser")[HEAD, at.writing, 0])
    return Answer(
        math.exp(5 - shift) / total,
        decimals=3,
        slips={
            "subtract the maximum of the row first.": math.exp(5) / total,
            "divide by the sum of the row.": math.exp(5 - shift),
            "take the exponential of the difference.": (5 - shift) / total,
            "use powers of e, not of 2.": 2 ** (5 - shift) / total,
            "subtract the maximum from the score, not the score from the maximum.": math.exp(
                shift - 5
            )
            / total,
            "that is the ratio of the scores; take exponentials.": 5 / shift,
        },
    )


@lesson.stop(
    "Words change places",
    view="attention",
    do="Look at the ribbons: do any of them cross?",
)
def words_change_places(run):
    weights = run.point(f"{PART}.pattern")
    writing = weights.row_writing("schläft")
    verb = weights.largest(HEAD, writing)
    view = {"at": weights, "head": HEAD, "pin": [writing, verb]}
    say = (
        f"German puts the verb before its negation. For {writing.next} the head gives "
        f"{weights[HEAD, writing, verb]} of its attention to {verb}. "
    )
    try:
        negation = NotToNicht(run)
    except SentenceLacks:
        return Stop(say, **view)
    if verb.place > negation.source.place and negation.writing.place > writing.place:
        say += (
            f"That is beyond {negation.source}, which it translates later: attention need not move "
            "from left to right."
        )
    return Stop(say, **view)


@lesson.stop(
    "Several heads",
    view="attention",
    do="Choose other heads in the small pictures: which rows differ?",
)
def several_heads(run):
    at = NotToNicht(run)
    heads = at.weights.shape[0]
    row = at.weights.row_up_to(at.writing.place + 1)
    row_weights = ", ".join(f"{at.weights[head, row, at.source]}" for head in range(heads))
    return Stop(
        f"The layer has {heads} heads, each with queries and keys of its own. To write "
        f"{at.writing.next}, they give {at.source} {at.mean} on average. In the next row, which "
        f"writes {row.next}, they give it {row_weights}.",
        at=at.weights,
        head="mean",
        pin=[at.writing, at.source],
    )


@lesson.stop("The context", view="flow", do="Click another row: what does it take?")
def the_context(run):
    at = NotToNicht(run)
    mixed, value = run.point(f"{PART}.mixed"), run.point(f"{PART}.value")
    if at.weight >= 0.9:
        mostly = f"With a weight of {at.weight}, the value of {at.source} makes up nearly all of it"
    else:
        mostly = f"The value of {at.source} has a weight of {at.weight} in it"
    return number_stop(
        "What does the row take? Each word of the source has a [value](term:value). The values, "
        f"each times its weight, add up to {mixed.shape[2]:,} numbers, which begin "
        f"{mixed[HEAD, at.writing, 0]}. {mostly}: it begins {value[HEAD, at.source, 0]}.",
        mixed[HEAD, at.writing, 0],
        at.writing,
        head=HEAD,
    )


@lesson.stop(
    "Your turn",
    view="attention",
    kind="cross",
    layer=1,
    head=HEAD,
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
        mean = NotToNicht(run).mean
        if mean >= 0.5:
            return right(
                f"It writes: {run.answer} And “nicht”, at its new position, gives {mean} of its "
                "attention to “not”, averaged over the heads."
            )
    return wrong("Write something like: The dog does not see the cat.")


@lesson.stop(
    "Without attention",
    view="whatif",
    do="Switch off the cross-attention of decoder layer 1. Does it still write the same text? Then "
    "press Check.",
)
def without_attention(run):
    return Stop(
        "Cross-attention is how the source reaches the decoder. Switched off in a layer, that "
        "layer adds nothing of the source to the rows."
    )


@without_attention.check
def attention_is_off(run, page):
    if page.is_off(PART) and page.answer_changed:
        return right(f"Without it, it writes: {run.answer}")
    return wrong("It is still on: look for decoder layer 1, cross-attention in the list of parts.")


@lesson.stop(
    "What comes next",
    view="attention",
    kind="encoder",
    layer=0,
    do="Look at the rows: which words does dog attend to?",
)
def what_comes_next(run):
    return Stop(
        "Here the words of the source attend to one another: self-attention. With it, a "
        "Transformer needs no recurrence. The last station takes the whole model apart."
    )
