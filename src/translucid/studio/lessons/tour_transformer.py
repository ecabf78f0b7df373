"""A tour: one attention head computed step by step, for any Transformer."""

from translucid.studio.lesson import Answer, Lesson, ModelLacks, Stop, number_stop

lesson = Lesson(
    name="A Transformer by hand",
    teaches="How words become vectors, how one head of attention is worked out with this model's "
    "own numbers, what several heads, masks and layers are for, and how a text is written word by "
    "word.",
    needs={"*coder.embedding.lookup": "it reads numbers, not words"},
)


def find_embedding(run):
    return run.point("*encoder.embedding.lookup", "*decoder.embedding.lookup")


def find_attention(run):
    return run.point(
        "*encoder.layers.0.self_attention.pattern",
        "*decoder.layers.0.self_attention.pattern",
        lacks="it has no self-attention",
    )


class OneHead:
    """The head that the tour computes, a word, and the two words it attends to most."""

    def __init__(self, run):
        self.attention = find_attention(run)
        self.word = self.attention.row_up_to(2)
        self.head = self.attention.evenest_head(self.word)
        self.first = self.attention.largest(self.head, self.word)
        self.second = self.attention.second_largest(self.head, self.word)
        part = self.attention.part
        self.query = run.point(f"{part}.rotated_query", f"{part}.query")
        self.key = run.point(f"{part}.rotated_key", f"{part}.key")
        # In grouped-query attention, several query heads share one key head.
        self.key_head = self.head // (self.query.shape[0] // self.key.shape[0])
        self.scores = run.point(f"{part}.scores")
        self.scaled = run.point(f"{part}.scaled")


@lesson.stop(
    "A word is a number",
    view="flow",
    do="Select a word on the left: its strand is highlighted.",
)
def a_word_is_a_number(run):
    embedding = find_embedding(run)
    word = embedding.row_up_to(2)
    return Stop(
        f"To the model, {word} is entry {word.id} of its vocabulary. The "
        f"[strand](part:{embedding}) that starts there shows what the model computes from it, from "
        "left to right.",
        at=embedding,
        pin=[word],
        light=[f"part:{embedding}"],
    )


@lesson.stop(
    "Embedding",
    view="flow",
    do="Click another word: it has another row. The same word has the same row at every position.",
)
def embedding_row(run):
    embedding = find_embedding(run)
    word = embedding.row_up_to(2)
    return number_stop(
        f"This number selects a row of a table: {embedding.shape[1]:,} numbers, learned in "
        f"training, for {word}. They begin {embedding[word, 0]}, {embedding[word, 1]}, "
        f"{embedding[word, 2]}.",
        embedding[word, 0],
        word,
        light=[f"part:{embedding}"],
    )


@lesson.stop("Position", view="flow")
def position(run):
    """Explain the model's position scheme."""
    word = find_embedding(run).row_up_to(2)
    angles, encoding = run.find("*positions.angles"), run.find("*positions.encoding")
    bias, scheme = run.find("*positions.bias"), run.config("positions")
    if angles:
        number, lit = angles[word, 0], angles
        say = (
            f"This model has rotary positions: [queries and keys](part:{find_attention(run)}) are "
            f"rotated by an angle that grows from word to word. At {word} the first pair rotates "
            f"by {angles[word, 0]} rad, the second by {angles[word, 1]}."
        )
        do = "Look down the first column in the panel. "
        if word.place > 0 and angles[1, 0] - angles[0, 0] == 1:
            do += "One word further, the angle is one radian more."
    elif encoding and scheme == "sinusoidal":
        number, lit = encoding[word, 0], f"{encoding.part}.output"
        say = (
            f"This model adds [sines and cosines](part:{lit}) of the position: {word} at position "
            f"{word.place} gets {encoding[word, 0]}, the sine of {word.place}, then "
            f"{encoding[word, 1]}, its cosine, and so on."
        )
        do = (
            "Look at the rows in the panel: the first columns change fast from word to word, the "
            "last ones slowly."
        )
    elif encoding and scheme == "learned":
        number, lit = encoding[word, 0], f"{encoding.part}.output"
        say = (
            f"This model has [learned positions](part:{lit}): a vector for each position. That of "
            f"position {word.place}, which {word} gets, begins {encoding[word, 0]}, "
            f"{encoding[word, 1]}."
        )
        do = "Click other words: a position has the same row in every sentence."
    elif bias:
        number, lit = bias[0, word, 0], find_attention(run)
        say = (
            f"This model lowers each [score](part:{lit}) for every word in between (ALiBi): in "
            f"head 0, {word} gets {bias[0, word, 0]} added when it attends to the first word."
        )
        do = "Look along a row in the panel: the further away a word is, the more is subtracted."
    elif scheme == "none":
        return no_positions(run)
    else:
        raise ModelLacks("the model reads one word after the other, so it needs no positions")
    say = f"Embeddings do not contain the order of the words. {say}"
    return number_stop(say, number, word, do=do, light=[f"part:{lit}"])


def no_positions(run):
    embedding = find_embedding(run)
    return Stop(
        "Embeddings do not contain the order of the words, and this model does not add it: there "
        f"are no positions. [Attention](part:{find_attention(run)}) sees which words there are, "
        "and a mask can show which came first.",
        do="Press / and change the order of two words: the rows of the embedding change places "
        "and nothing else.",
        at=embedding,
        pin=[embedding.row_up_to(2)],
        light=[f"part:{embedding}"],
    )


@lesson.stop(
    "Query and key",
    view="flow",
    do="Choose a key instead of a query in the panel's list: every word has both.",
)
def query_and_key(run):
    at = OneHead(run)
    query, key = at.query, at.key
    return number_stop(
        f"Now words attend to one another. In layer {at.attention.layer}, head {at.head}, "
        f"{at.word} has a [query](part:{at.attention}) of {query.shape[2]:,} numbers, "
        f"{query[at.head, at.word, 0]}, {query[at.head, at.word, 1]}, …; {at.first} has a key, "
        f"{key[at.key_head, at.first, 0]}, {key[at.key_head, at.first, 1]}, …",
        query[at.head, at.word, 0],
        at.word,
        head=at.head,
        light=[f"part:{at.attention}"],
    )


@lesson.stop("Score", view="attention", moment="scores")
def score(run):
    at = OneHead(run)
    query, key = at.query, at.key
    return Stop(
        "How well do the two match? Multiply them number by number and add up. "
        f"{query[at.head, at.word, 0]} × {key[at.key_head, at.first, 0]} + "
        f"{query[at.head, at.word, 1]} × {key[at.key_head, at.first, 1]} + … over all "
        f"{query.shape[2]:,} gives {at.scores[at.head, at.word, at.first]}, the "
        "[score](moment:scores).",
        do=f"Move along the row of {at.word}: amber matches, violet does not.",
        at=at.attention,
        head=at.head,
        pin=[at.word, at.first],
        light=["moment:scores"],
    )


@lesson.stop(
    "Scale",
    view="attention",
    moment="scaled",
    do="Press m to go from moment to moment, and watch the same cell.",
)
def scale(run):
    attention = find_attention(run)
    factor = run.point(f"{attention.part}.scale", lacks="it has no scale")
    if not run.config("scaled"):
        raise ModelLacks("the model does not scale its scores")
    at = OneHead(run)
    return Stop(
        f"A dot product of many terms can get large. Times {factor.value}, which is 1 ÷ "
        f"√{at.query.shape[2]:,}, {at.scores[at.head, at.word, at.first]} becomes "
        f"{at.scaled[at.head, at.word, at.first]}: [scaled](moment:scaled) to a range that the "
        "softmax can work with.",
        at=attention,
        head=at.head,
        pin=[at.word, at.first],
        light=["moment:scaled"],
    )


@lesson.stop("Softmax", view="attention")
def softmax(run):
    at = OneHead(run)
    part = at.attention.part
    masked = run.point(f"{part}.masked")
    exponentials = run.point(f"{part}.exponentials")
    total = run.point(f"{part}.normaliser")[at.head, at.word, 0]
    largest = exponentials[at.head, at.word, at.first]
    smaller = exponentials[at.head, at.word, at.second]
    return Stop(
        f"The softmax turns the scores into weights that add up to 1. The exponential is {largest} "
        f"for {at.first}; for {at.second} it is exp({masked[at.head, at.word, at.second]} − "
        f"{masked[at.head, at.word, at.first]}) = {smaller}. The row adds up to {total}, and "
        f"{smaller} ÷ {total} = {at.attention[at.head, at.word, at.second]}, its "
        "[weight](moment:weights).",
        do=f"What would the weight of {at.second} be if the row consisted of {at.first} and "
        f"{at.second} only? Type it with 2 decimals.",
        at=at.attention,
        head=at.head,
        pin=[at.word, at.second],
        light=["moment:weights"],
    )


@softmax.answer
def weight_among_two(run, page):
    at = OneHead(run)
    exponentials = run.point(f"{at.attention.part}.exponentials")
    total = float(run.point(f"{at.attention.part}.normaliser")[at.head, at.word, 0])
    largest = float(exponentials[at.head, at.word, at.first])
    smaller = float(exponentials[at.head, at.word, at.second])
    return Answer(
        smaller / (largest + smaller),
        slips={
            "the sum has two exponentials now.": smaller / total,
            "the sum includes the word itself.": smaller / largest,
            "that is the weight of the other word.": largest / (largest + smaller),
            "divide by the sum, not by the number of words.": smaller / 2,
        },
    )


@lesson.stop("Value", view="flow")
def value(run):
    at = OneHead(run)
    mixed = run.point(f"{at.attention.part}.mixed")
    return number_stop(
        "The weights mix the third vector of each word, its value: "
        f"{at.attention[at.head, at.word, at.first]} of that of {at.first}, "
        f"{at.attention[at.head, at.word, at.second]} of that of {at.second}, and so on. The "
        f"[mixture](part:{at.attention}) is what head {at.head} passes on to {at.word}; it begins "
        f"{mixed[at.head, at.word, 0]}.",
        mixed[at.head, at.word, 0],
        at.word,
        do=f"Choose value in the panel's list and find the row of {at.first}: the largest part "
        "comes from there.",
        head=at.head,
        light=[f"part:{at.attention}"],
    )


@lesson.stop(
    "Several heads",
    view="attention",
    head=0,
    do="Press ] for the next head. Which of them attends to the word before, which to the word "
    "itself?",
)
def several_heads(run):
    attention = find_attention(run)
    if attention.shape[0] < 2:
        raise ModelLacks("there is only one head")
    word = attention.row_up_to(2)
    first, second = attention.largest(0, word), attention.largest(1, word)
    return Stop(
        f"A layer has {attention.shape[0]:,} heads, each with queries and keys of its own. {word} "
        f"attends most to {first} in [head 0](head:{attention.layer}.0), "
        f"{attention[0, word, first]}, and to {second} in [head 1](head:{attention.layer}.1), "
        f"{attention[1, word, second]}.",
        at=attention,
        pin=[word],
        light=[f"head:{attention.layer}.0", f"head:{attention.layer}.1"],
    )


@lesson.stop(
    "Added, not replaced",
    view="flow",
    do="Choose branch, then skip in the panel's list: which of the two is larger?",
)
def added_not_replaced(run):
    attention = find_attention(run)
    total = run.point(f"{attention.part}_residual.sum", lacks="it has no self-attention")
    branch = run.point(f"{attention.part}_residual.branch", lacks="it has no residuals")
    skip = run.point(f"{attention.part}_residual.skip", lacks="it has no residuals")
    word = attention.row_up_to(2)
    return number_stop(
        f"The output of attention is [added](part:{total}) to the word's own vector, which "
        f"continues on its strand: {skip[word, 0]} + {branch[word, 0]} = {total[word, 0]}.",
        total[word, 0],
        word,
        light=[f"part:{total}"],
    )


@lesson.stop("Feed-forward", view="flow")
def feed_forward(run):
    activated = run.point(
        "*encoder.layers.0.feedforward.activated",
        "*decoder.layers.0.feedforward.activated",
        lacks="it has no feed-forward part",
    )
    word = find_attention(run).row_up_to(2)
    unit = activated.largest(word)
    return number_stop(
        f"Then each word is processed on its own, by {activated.shape[1]:,} "
        f"[units](part:{activated}) that respond to different things. Unit {unit} responds to "
        f"{word} with {activated[word, unit]}.",
        activated[word, unit],
        word,
        do=f"Click other words: which of them activate unit {unit}, too?",
        light=[f"part:{activated}"],
    )


@lesson.stop(
    "Mask",
    view="attention",
    head=0,
    moment="masked",
    do="Press m: what was hatched at [masked](moment:masked) has no [weight](moment:weights).",
)
def mask(run):
    attention = run.point(
        "*decoder.layers.0.self_attention.pattern", lacks="it has no decoder with attention"
    )
    return Stop(
        "What is not written yet cannot be read. In the decoder, a word attends to itself and to "
        "the words before it; the other scores are set to −∞, and exp(−∞) is 0. The first row has "
        f"one cell left, so its weight is {attention[0, 0, 0]}.",
        at=attention,
        light=["moment:masked"],
    )


@lesson.stop(
    "Looking back",
    view="attention",
    do="Click the words of the translation in turn: which source word does each attend to?",
)
def looking_back(run):
    attention = run.point(
        "*decoder.layers.1.cross_attention.pattern",
        "*decoder.layers.0.cross_attention.pattern",
        lacks="it has no encoder to look back at",
    )
    word = attention.row_up_to(2)
    head = attention.evenest_head(word)
    source = attention.largest(head, word)
    return Stop(
        f"The decoder also attends to the source. After reading {word}, head {head} of layer "
        f"{attention.layer} gives {attention[head, word, source]} of its attention to {source}.",
        at=attention,
        head=head,
        pin=[word, source],
        light=[f"head:{attention.layer}.{head}"],
    )


@lesson.stop(
    "The next word",
    view="flow",
    do="Click a row at the right end and read the list: how certain is the model there?",
)
def the_next_word(run):
    logits = run.point(
        "ensemble.logits", "head.logits", "*.head.logits", lacks="it predicts no words"
    )
    if not run.writes_text:
        raise ModelLacks("the model generates no text")
    row = logits.row_up_to(2)
    likeliest = run.prediction(row)
    return number_stop(
        f"At the end each row has a [logit](part:{logits}) for every word of the vocabulary, "
        f"{logits.shape[1]:,} of them. At row {row.place}, the softmax turns the logit "
        f"{logits[row, likeliest.id]} of {likeliest.word} into a probability of "
        f"{likeliest.probability}.",
        logits[row, likeliest.id],
        row,
        light=[f"part:{logits}"],
    )


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
        "To write a text, the model repeats all this: take a word, read it with the rest, compute "
        "the next probabilities. Greedy search takes the likeliest token each time; beam search "
        "keeps several beginnings, since a good start may end badly."
    )


@lesson.stop("What is it for?", view="whatif")
def what_is_it_for(run):
    causal_mask = "decoder.masks.causal"
    if run.has_switch(causal_mask):
        return Stop(
            "To see what a part is for, remove it. Here the decoder's [causal "
            f"mask](switch:{causal_mask}) is off: words may attend to later words. Both runs read "
            "the same text; differences are amber.",
            do="Press Backspace to restore it, then switch off one head, and measure them all.",
            off=causal_mask,
            light=[f"switch:{causal_mask}"],
        )
    head = "encoder.layers.0.self_attention.head.0"
    if run.has_switch(head):
        return Stop(
            f"To see what a part is for, remove it. Here [head 0](switch:{head}) of layer 0 is "
            "off. Both runs read the same text; differences are amber.",
            do="Press Backspace to restore it, then measure all: which part has the largest "
            "effect?",
            off=head,
            light=[f"switch:{head}"],
        )
    raise ModelLacks("there is no attention to switch off")
