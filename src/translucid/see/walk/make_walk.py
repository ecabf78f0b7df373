"""Build a walk: a step-by-step explanation of a run, from the text to the answer.

All numbers come from the trace; the model does not run again.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch

from translucid.core.errors import InputError
from translucid.models.adapters import is_adapted
from translucid.models.lexicon import LexiconConfig
from translucid.models.linear import LinearConfig
from translucid.models.mlp import MLPConfig
from translucid.models.ngram import NGramConfig
from translucid.models.recurrent import RecurrentConfig
from translucid.models.sequence_config import SequenceConfig
from translucid.models.transformer import TransformerConfig
from translucid.parts.word_scores import TextScores, WordScores
from translucid.see.contributions import adapter_norms
from translucid.see.terms import computation, sums
from translucid.see.text_trace import TextTrace
from translucid.see.walk.stages import Focus, at, layer_of, size_rows, stages_of, vector_rows
from translucid.see.walk.walk import Kind, Stage, Walk
from translucid.tasks.example import TokenInput
from translucid.tasks.outputs import Cell, OutputRow

UNKNOWN = "unknown"
STARTS = "start: the end token of the previous text"
GOES_IN, COMES_OUT = "What goes in", "What comes out"
LISTED = 6  # maximum number of unknown tokens to list
ADAPTERS = (
    "LoRA adapters were trained alongside frozen layers. Values: the length of each adapter's "
    "output relative to that of its frozen layer, averaged over the tokens."
)
SO_FAR = (
    "The decoder reads the target so far, beginning with the start token, and predicts the next "
    "token at each position."
)


def walk(
    reading: TextTrace, *, layer: int | None = None, head: int | None = None, top: int = 5
) -> Walk:
    """Explain a run step by step, from the text to the model's answer.

    layer: show only this layer, in detail. head: show one attention head; by default the mean over
    all heads or, if `layer` is given, each separately. top: how many likely answers to show.
    """
    text = reading.example.text
    names, notes = _of_one_member(reading)
    _check(reading, names, layer, head, top)
    stages = list(stages_of(reading, names, Focus(layer, head, top)))
    if layer is not None:
        stages = [stage for stage in stages if stage.layer == layer]
        notes.append(f"only layer {layer} is shown, in detail")
    last, answer, note = _answers(reading, names, top)
    notes += [note] if note else []
    return Walk(
        reading.task.name, text, answer, _introduction(reading),
        (*_with_inputs(reading, stages), *_adapters(reading, layer), *last), tuple(notes),
        _unknown(reading),
    )  # fmt: skip


def _of_one_member(reading: TextTrace) -> tuple[list[str], list[str]]:
    """The names of all points (for an ensemble, those of its first member), and notes."""
    names = reading.names()
    members = {name.split(".")[1] for name in names if name.startswith("members.")}
    if not members:
        return names, []
    note = f"an ensemble of {len(members)} networks; up to the answer, only network 0 is shown"
    return [name for name in names if name.startswith("members.0.")], [note]


def _check(
    reading: TextTrace, names: Sequence[str], layer: int | None, head: int | None, top: int
) -> None:
    if top < 1:
        raise InputError(f"top = {top}: must be at least 1")
    layers = {layer_of(name) for name in names} - {None}
    if layer is not None and layer not in layers:
        allowed = _counted("layer", len(layers))
        raise InputError(f"layer = {layer}: the model has {allowed}")
    patterns = [name for name in names if name.endswith("_attention.pattern")]
    heads = reading[patterns[0]].shape[1] if patterns else 0
    if head is not None and not 0 <= head < heads:
        allowed = _counted("attention head", heads)
        raise InputError(f"head = {head}: the model has {allowed}")


def _counted(what: str, count: int) -> str:
    if count < 2:
        return f"one {what}, number 0" if count else f"no {what}s; omit this option"
    return f"{what}s 0 to {count - 1}"


def _with_inputs(reading: TextTrace, stages: Sequence[Stage]) -> Iterator[Stage]:
    """Add a stage for the inputs at the start, and one for the target before the decoder."""
    example, words = reading.example, reading.words
    if example.source is not None and example.target is not None:
        yield _tokens(reading, GOES_IN, words.source, example.source)
        writing = [stage for stage in stages if "decoder" in stage.address.split(".")]
        yield from stages[: len(stages) - len(writing)]
        yield replace(
            _tokens(reading, writing[0].chapter, words.target, example.target),
            title="decoder: the target so far", sentence=SO_FAR,
        )  # fmt: skip
        yield from writing
    elif example.source is not None:
        yield _tokens(reading, GOES_IN, words.source, example.source)
        yield from stages
    elif example.target is not None:
        tokens = _tokens(reading, GOES_IN, words.target, example.target)
        first, *others = tokens.rows
        starts = STARTS if example.target_ids[0] == example.target.tokenizer.eos_id else ""
        yield replace(tokens, rows=(replace(first, remark=starts), *others))
        yield from stages
    else:
        numbers = example.batch.inputs["x"][0].tolist()
        yield Stage(
            "values", GOES_IN, "the numbers",
            " ".join(filter(None, ("The network reads numbers, not words.", example.note))),
            rows=tuple(
                OutputRow(label, (Cell("", value),))
                for label, value in zip(words.features, numbers, strict=True)
            ),
        )  # fmt: skip
        yield from stages


def _adapters(reading: TextTrace, layer: int | None) -> Iterator[Stage]:
    """The stage for LoRA adapters, if the network has any."""
    norms = adapter_norms(computation(reading)) if is_adapted(reading.network) else ()
    shown = [norm for norm in norms if layer is None or layer_of(norm.layer) == layer]
    if shown:
        most = max(shown, key=lambda norm: norm.ratio)
        rows = (
            OutputRow(norm.layer, (Cell("", norm.ratio), Cell("of", norm.frozen))) for norm in shown
        )
        yield Stage(
            "values", "Adapters", "what fine-tuning added", ADAPTERS, rows=tuple(rows),
            happened=f"largest at {most.layer}: {most.ratio:.3g} of the frozen layer", layer=layer,
        )  # fmt: skip


def _tokens(reading: TextTrace, chapter: str, words: Sequence[str], tokens: TokenInput) -> Stage:
    tokenizer, ids = tokens.tokenizer, reading.example.batch.inputs[tokens.name]
    rows = tuple(
        OutputRow(word, (Cell("id", number),), remark=UNKNOWN if number == tokenizer.unk_id else "")
        for word, number in zip(words, ids[0].tolist(), strict=True)
    )
    lacking = sum(bool(row.remark) for row in rows)
    sentence = (
        "The text is split into tokens: words, or pieces of words. Each has a number in the "
        f"model's vocabulary of {len(tokenizer):,} tokens."
    )
    happened = f"{lacking} of {len(rows)} tokens not in the vocabulary" if lacking else ""
    return Stage("tokens", chapter, "the text as tokens", sentence, rows=rows, happened=happened)


def _unknown(reading: TextTrace) -> str:
    """A warning about tokens of the input that are not in the vocabulary."""
    example, words = reading.example, reading.words
    sides = ((words.source, example.source), (words.target, example.target))
    typed = next(((words, side) for words, side in sides if side is not None), None)
    if typed is None:
        return ""
    rows = _tokens(reading, GOES_IN, *typed).rows
    lacking = [row.label for row in rows if row.remark == UNKNOWN]
    if not lacking:
        return ""
    listed = ", ".join([*lacking[:LISTED], *["…"][: len(lacking) - LISTED]])
    are = "is" if len(lacking) == 1 else "are"
    return f"{len(lacking)} of {len(rows)} tokens {are} not in the model's vocabulary: {listed}"


def _introduction(reading: TextTrace) -> str:
    """A sentence that states the kind and size of the model."""
    weights = f"with {reading.network.parameters_count:,} weights"
    match reading.network.config:
        case TransformerConfig() as config:
            writing = config.decoder_layers or config.layers
            stacks = _stacks(config, config.layers, writing)
            return f"A Transformer {weights}: {stacks}, {config.heads} attention heads in each."
        case RecurrentConfig() as config:
            stacks = _stacks(config, config.layers, config.layers)
            return f"A recurrent network ({config.cell.upper()}) {weights}: {stacks}."
        case MLPConfig() as config:
            layers = len(config.hidden)
            return f"A network of {layers} hidden layer{'s'[: layers - 1]} {weights}."
        case LinearConfig():
            return f"A linear model {weights}: each feature of the input adds to the outputs."
        case NGramConfig() as config:
            return f"An n-gram model of up to {config.order} tokens {weights}."
        case LexiconConfig() as config:
            return (
                f"A word alignment model {weights}: a lexicon of {config.entries:,} translations, "
                f"and target n-grams of up to {config.order} tokens."
            )
        case config:
            return f"A {type(config).__name__.removesuffix('Config').lower()} {weights}."


def _stacks(config: SequenceConfig, reading: int, writing: int) -> str:
    read = f"{reading} layer{'s'[: reading - 1]}"
    if config.shape == "encoder-decoder":
        return f"{read} to read the source (encoder), {writing} to write (decoder)"
    return read


# ---- what comes out ----


def _answers(reading: TextTrace, names: Sequence[str], top: int) -> tuple[list[Stage], str, str]:
    """The final stages, the answer as text, and a closing note."""
    output = reading.network.output_point
    endings, answer = reading.outputs.endings(reading.example, reading.output_values, top)
    if output == "perceptron.output":
        sentence = (
            "The answer is 1 if the sum is above 0, otherwise 0: the sign shows on which side of a "
            "line the input lies."
        )
        last = _output(reading, output, "values", "the answer", sentence, endings[-1].rows)
        return [_weighted_sum(reading), last], answer, ""
    stages = [_pooled(reading, name) for name in names if _pools(reading, name)]
    stages += [_ngrams(reading, name) for name in names if name.endswith("ngrams.words")]
    stages += [_linear(reading, name) for name in names if name.endswith("linear.words")]
    stages += [
        replace(_output(reading, output, end.kind, end.title, end.sentence, end.rows),
                came=end.came, happened=end.happened)
        for end in endings
    ]  # fmt: skip
    if isinstance(reading.network.config, MLPConfig):
        stages[-1] = replace(stages[-1], worked=sums(reading, output))
    return stages, answer, endings[-1].note


def _output(
    reading: TextTrace,
    name: str,
    kind: Kind,
    title: str,
    sentence: str,
    rows: tuple[OutputRow, ...],
) -> Stage:
    return Stage(kind, COMES_OUT, title, sentence, **at(reading, name), rows=rows)


def _weighted_sum(reading: TextTrace) -> Stage:
    name = "perceptron.sum"
    sentence = (
        "A perceptron multiplies each input by its weight and adds up the results and the bias."
    )
    rows = size_rows(reading[name].reshape(-1), ("z",))
    stage = _output(reading, name, "values", "the weighted sum", sentence, rows)
    return replace(stage, worked=sums(reading, name))


def _pools(reading: TextTrace, name: str) -> bool:
    """Whether a point shows how the token vectors are pooled into one vector. That is the point
    with the weights of the tokens or, if there are no weights, the pooled vector."""
    scope, _, point = name.rpartition(".")
    return point == "pool_pattern" or (point == "pooled" and f"{scope}.pool_pattern" not in reading)


def _pooled(reading: TextTrace, name: str) -> Stage:
    value, title = reading[name], "one vector for the text"
    if name.endswith(".pooled"):  # (batch, d_model)
        sentence = "The last state has read the whole text, so it represents all of it."
        rows = vector_rows(value, ("text",))
        return _output(reading, name, "vectors", title, sentence, rows)
    sentence = "One vector represents the text: the mean of the tokens' vectors with these weights."
    if int((value > 0).sum()) == 1:
        sentence = "One vector represents the text: that of the token with weight 1."
    rows = size_rows(value[0], reading.words.along(name, "length"))
    return _output(reading, name, "sizes", title, sentence, rows)


def _ngrams(reading: TextTrace, name: str) -> Stage:
    scope = name.rpartition(".")[0]
    answer = reading.outputs.answer(reading.example, reading.output_values, None)
    scores = reading[name][0] + reading[f"{scope}.pairs"][0]  # (length, outputs)
    sentence = (
        "In addition to the network, each token and each pair of neighbours adds directly to the "
        f"scores of the labels (n-gram features). Values: what it adds to {answer.name!r}."
    )
    rows = size_rows(scores[:, answer.choice], reading.words.along(name, "length"))
    return _output(reading, name, "sizes", "n-gram features", sentence, rows)


def _linear(reading: TextTrace, name: str) -> Stage:
    """What each word adds to the answer of a linear model: its features' weights."""
    scope, tokens = name.rpartition(".")[0], reading.words.along(name, "length")
    part = reading.network.get_submodule(scope)
    assert isinstance(part, WordScores)
    scores = {point: reading[f"{scope}.{point}"][0] for point in part.names}
    if isinstance(part, TextScores):
        answer = reading.outputs.answer(reading.example, reading.output_values, None)
        total = torch.stack([*scores.values()]).sum(dim=0)[:, answer.choice] / len(tokens) ** 0.5
        sentence = (
            "Each word adds to the scores of the labels: by itself, by the pair it forms with the "
            f"word before it, and by its characters. Values: what it adds to "
            f"{answer.name!r}."
        )
        return _output(
            reading, name, "sizes", "what each word adds", sentence, size_rows(total, tokens)
        )
    best = reading[reading.network.output_point][0].argmax(dim=-1).tolist()
    rows = []
    for place, (token, tag) in enumerate(zip(tokens, best, strict=True)):
        own = scores["words"][place, tag] + scores["characters"][place, tag]
        rows.append(OutputRow(f"{token} as {reading.words.outputs[tag]}", (Cell("", float(own)),)))
        for point, other in (("next", place - 1), ("previous", place + 1)):
            if 0 <= other < len(tokens):
                value = float(scores[point][other, tag])
                rows.append(OutputRow(f"{tokens[other]} → {token}", (Cell("", value),)))
    sentence = (
        "Each word and its two neighbours (neighbour → word) add to the scores of its tags. "
        "Values: what they add to the tag with the highest score."
    )
    return _output(reading, name, "sizes", "what each word adds", sentence, tuple(rows))
