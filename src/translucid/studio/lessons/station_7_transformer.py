"""Station 7 of *Start here*: a Transformer."""

import math

from translucid.studio.lesson import Answer, Lesson, Stop, number_stop, right, wrong

lesson = Lesson(
    name="A Transformer",
    teaches="Self-attention with queries, keys and values in several heads, positions, residual "
    "stream, feed-forward layers, the causal mask, and which head links not to nicht.",
    model="demo:translate",
    text="The dog does not sleep.",
    needs={
        "encoder.layers.0.self_attention.pattern": "it is not a Transformer with an encoder",
        "decoder.layers.1.cross_attention.pattern": "it has no cross-attention",
    },
)
EMBEDDING = "encoder.embedding.scaled"
LAYER = "encoder.layers.0"
CROSS_ATTENTION = "decoder.layers.1.cross_attention.pattern"
SCORE = 12


class OneHead:
    """One head of the first layer, the second word, and the word it attends to most."""

    def __init__(self, run):
        self.attention = run.point(f"{LAYER}.self_attention.pattern")
        self.word = self.attention.row_up_to(1)
        self.head = self.attention.evenest_head(self.word)
        self.other = self.attention.largest(self.head, self.word)


@lesson.stop("The whole way", view="flow", do="Follow one word from left to right.")
def the_whole_way(run):
    embedding = run.point(EMBEDDING)
    return Stop(
        f"A sentence enters on the left, a translation leaves on the right: {run.answer} In "
        f"between, every word is a strand of {embedding.shape[1]:,} numbers, and every part adds "
        "something to it.",
        at=embedding,
    )


@lesson.stop("Positions", view="flow")
def positions(run):
    angles = run.point("encoder.positions.angles", lacks="it has no rotary positions")
    word = run.point(EMBEDDING).row_up_to(1)
    do = "Look down the first column. "
    if word.place > 0 and angles[1, 0] - angles[0, 0] == 1:
        do += "One word further, the angle is one radian more."
    return Stop(
        "All words are read at once, so the model needs their order as well. Here queries and "
        f"keys are rotated by an angle that grows from word to word: the first pair of {word} by "
        f"{angles[word, 0]} rad, the second by {angles[word, 1]}.",
        do=do,
        at=angles,
        i=(word, 0),
    )


@lesson.stop(
    "Words attend to words",
    view="flow",
    do="Every word has a query, a key and a value: three weighted sums of its vector.",
)
def words_attend_to_words(run):
    at = OneHead(run)
    query = run.point(f"{LAYER}.self_attention.rotated_query")
    key = run.point(f"{LAYER}.self_attention.rotated_key")
    return number_stop(
        f"In self-attention each word attends to all words of its own sentence. In head {at.head}, "
        f"the query of {at.word} is {query[at.head, at.word, 0]}, {query[at.head, at.word, 1]}, …; "
        f"the key of {at.other} is {key[at.head, at.other, 0]}, {key[at.head, at.other, 1]}, …",
        query[at.head, at.word, 0],
        at.word,
        head=at.head,
    )


@lesson.stop(
    "Score and scale",
    view="attention",
    moment="scaled",
    do=f"What would a score of {SCORE} become? Type it with 2 decimals.",
)
def score_and_scale(run):
    at = OneHead(run)
    size = run.point(f"{LAYER}.self_attention.rotated_query").shape[2]
    score = run.point(f"{LAYER}.self_attention.scores")[at.head, at.word, at.other]
    scale = run.point(f"{LAYER}.self_attention.scale").value
    scaled = run.point(f"{LAYER}.self_attention.scaled")[at.head, at.word, at.other]
    return Stop(
        f"The score is their dot product over {size:,} numbers: {score}. Times {scale}, one over "
        f"the root of {size:,}, it is {scaled}: in a range that the softmax can work with.",
        at=at.attention,
        head=at.head,
        pin=[at.word, at.other],
    )


@score_and_scale.answer
def another_score(run, page):
    size = run.point(f"{LAYER}.self_attention.rotated_query").shape[2]
    return Answer(
        SCORE / math.sqrt(size),
        slips={
            "divide by the root of the size, not by the size.": SCORE / size,
            "divide; do not multiply.": SCORE * math.sqrt(size),
            "the size is that of one head, not that of the whole vector.": SCORE
            / math.sqrt(run.point(EMBEDDING).shape[1]),
        },
    )


@lesson.stop(
    "Weights and values",
    view="attention",
    do="Choose another head in the small pictures: it attends to other words.",
)
def weights_and_values(run):
    at = OneHead(run)
    mixed = run.point(f"{LAYER}.self_attention.mixed")
    return Stop(
        f"The softmax gives {at.other} a weight of {at.attention[at.head, at.word, at.other]}. The "
        f"values of all words, each times its weight, add up: in head {at.head}, {at.word} "
        f"receives {mixed[at.head, at.word, 0]}, {mixed[at.head, at.word, 1]}, …",
        at=at.attention,
        head=at.head,
        pin=[at.word, at.other],
    )


@lesson.stop(
    "The residual stream",
    view="flow",
    do="Find the sum in the picture: where does the strand pass it?",
)
def the_residual_stream(run):
    embedding = run.point(EMBEDDING)
    word = embedding.row_up_to(1)
    heads = run.point(f"{LAYER}.self_attention.pattern").shape[0]
    branch = run.point(f"{LAYER}.self_attention_residual.branch")
    total = run.point(f"{LAYER}.self_attention_residual.sum")
    return number_stop(
        f"The output of the {heads:,} heads is added to the word's vector: {embedding[word, 0]} "
        f"plus {branch[word, 0]} gives {total[word, 0]}. Nothing is replaced: each part adds. So a "
        "gradient can pass straight back through the sum.",
        total[word, 0],
        word,
    )


@lesson.stop(
    "Norm",
    view="flow",
    do="Switch a norm off in What-if later, and see how the answer changes.",
)
def norm(run):
    normalised = run.point(f"{LAYER}.feedforward_residual.norm.normalised")
    word = normalised.row_up_to(1)
    return number_stop(
        "Before each part, the vector is normalised to mean 0 and standard deviation 1: its first "
        f"number is {normalised[word, 0]} here. Whatever has been added, the part reads numbers of "
        "the same scale.",
        normalised[word, 0],
        word,
    )


@lesson.stop(
    "Each word by itself",
    view="flow",
    do="Click a cell with a large value: this neuron has detected something.",
)
def feed_forward(run):
    activated = run.point(f"{LAYER}.feedforward.activated")
    word = activated.row_up_to(1)
    zeros = int((activated.values(word) == 0).sum())
    return number_stop(
        f"The feed-forward layer processes one word at a time: {activated.shape[1]:,} hidden "
        f"neurons, of which {zeros:,} are 0 for {word}. The first is {activated[word, 0]}. This is "
        "the MLP of the second station.",
        activated[word, 0],
        word,
    )


@lesson.stop(
    "No looking ahead",
    view="attention",
    head=0,
    do="The upper triangle is empty: select one of its cells.",
)
def causal_mask(run):
    attention = run.point("decoder.layers.0.self_attention.pattern")
    return Stop(
        "The decoder writes word by word, so no word may attend to later ones: the causal mask "
        "sets their scores to −∞, and the softmax gives them the weight 0. In row 1 of head 0 the "
        f"weights are {attention[0, 1, 0]}, {attention[0, 1, 1]}, then {attention[0, 1, 2]}.",
        at=attention,
        pin=[attention.row(1)],
    )


@lesson.stop(
    "Find the head",
    view="attention",
    at=f"{LAYER}.self_attention.pattern",
    head=0,
    do="Choose Cross in the Attention view, then a layer and a head that puts nearly all its "
    "weight on the word “not” while “nicht” is written. Then press Check.",
)
def find_the_head(run):
    attention = run.point(CROSS_ATTENTION)
    attention.row_writing("nicht")
    attention.column_of("not")
    return Stop(
        f"In cross-attention the decoder attends to the source, with {attention.shape[0]:,} heads "
        "in each layer."
    )


@find_the_head.check
def is_the_right_head(run, page):
    attention = run.point(CROSS_ATTENTION)
    writing, source = attention.row_writing("nicht"), attention.column_of("not")
    if page.view == "attention" and page.kind == "cross":
        weight = page.point[page.head, writing, source]
        if weight >= 0.9:
            return right(
                f"Layer {page.layer}, head {page.head}: {weight} of its weight is on {source} "
                f"while {writing.next} is written."
            )
    return wrong(f"Not this one. Look at the row that writes {writing.next}, in cross-attention.")


@lesson.stop(
    "The next word",
    view="flow",
    do="Press 4 for Decode: it shows a search through the likeliest tokens.",
)
def the_next_word(run):
    row = run.point(CROSS_ATTENTION).row_writing("nicht")
    logits, likeliest = run.point("head.logits"), run.prediction(row)
    return number_stop(
        f"At the end the vector is compared with the row of every word: {logits.shape[1]:,} "
        f"logits. The softmax turns them into probabilities: {likeliest.word}, with the logit "
        f"{logits[row, likeliest.id]}, gets {likeliest.probability}.",
        logits[row, likeliest.id],
        row,
    )


@lesson.stop(
    "Take something away",
    view="whatif",
    do="Find a part without which the answer changes. Then press Check.",
)
def take_something_away(run):
    return Stop(
        "Which part matters? Switch one off, and the model computes its answer without it: the "
        "answer may change or stay the same."
    )


@take_something_away.check
def the_answer_changes(run, page):
    if page.view == "whatif" and page.answer_changed:
        return right(f"Without it the model answers: {run.answer}")
    return wrong("The same answer as before. Sort the parts by effect, and try the first.")
