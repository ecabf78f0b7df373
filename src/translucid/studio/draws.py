"""Texts that are sampled, and at each step the distribution that the token was drawn from, beside
the model's own."""

from typing import Any

import torch
from torch import Tensor

from translucid.core.errors import InputError
from translucid.core.trace import Trace
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.generate import constraints
from translucid.generate.results import Candidate
from translucid.generate.sampling import SamplingConfig, shape
from translucid.generate.word_constraints import WordConstraints
from translucid.parts.activations import as_log_probs
from translucid.studio.answers import MAX_LENGTH
from translucid.studio.read_along import read_along
from translucid.studio.text_runs import Run
from translucid.tasks.prefixes import never_generated

SHOWN = 10  # tokens of a step


def draws(
    run: Run, by: SamplingConfig, repetition_penalty: float, seed: int, samples: int
) -> dict[str, Any]:
    """So many texts, and every step of the first."""
    model, tokenizer = run.opened.model, run.outputs.tokenizer
    if tokenizer is None:
        raise InputError(f"a model for task {model.task.name} writes nothing: nothing is sampled")
    options: dict[str, Any] = {"beam_size": samples, "n_best": samples}
    options |= {"repetition_penalty": repetition_penalty}
    options |= {} if run.example.source else {"max_length": MAX_LENGTH}
    if run.edit:  # what is switched off is off in every step
        options["trace"] = Trace([], edit=run.edit)
    (decoded,) = model.decode([run.text], sampling=by, seed=seed, **options)
    first = decoded.texts[0]
    allowed, own = allowed_at(run, tokenizer, first, repetition_penalty)
    return {
        "texts": [_plain(text) for text in decoded.texts],
        "steps": [
            _step(run, tokenizer, first, n, own[n], distribution(allowed[n], by))
            for n in range(len(own))
        ],
    }


def distribution(allowed: Tensor, by: SamplingConfig) -> Tensor:
    """The probabilities that a token is drawn from. (vocab,)"""
    if by.temperature == 0:
        return torch.nn.functional.one_hot(allowed.argmax(), len(allowed)).to(allowed)
    return shape(allowed[None], by)[0].softmax(-1)  # as `pick` does, which scales by the sum


def allowed_at(
    run: Run, tokenizer: Tokenizer, text: Candidate, repetition_penalty: float
) -> tuple[list[Tensor], list[Tensor]]:
    """At each step of a text: log-probabilities after constraints, and the model's own."""
    network = run.opened.model.network
    along = read_along(run, text.tokens, [run.output_point])
    first = along.first
    config = run.opened.model.search(repetition_penalty=repetition_penalty)
    named = WordConstraints().token_constraints(
        tokenizer, config, first + 1, special=len(tokenizer.start_ids)
    )
    never = never_generated(tokenizer, network)
    extra = [*([constraints.forbid(never)] if never else []), *(one for _, one in named)]
    extra += config.constraints(first + 1)
    ends = tokenizer.special.ends
    allowed, own = [], []
    for n in range(len(text.token_log_probs)):
        logits = along.points[run.output_point][0, n].float()[None]
        row = as_log_probs(logits)
        own.append(row[0])
        if ends:
            row, logits = (constraints.one_end(t, tokenizer.eos_id, ends) for t in (row, logits))
        before = torch.tensor([along.read[: first + n + 1]], device=row.device)
        allowed.append(constraints.apply(extra, row, before, logits)[0])
    return allowed, own


def _step(
    run: Run, tokenizer: Tokenizer, text: Candidate, n: int, own: Tensor, drawn_from: Tensor
) -> dict[str, Any]:
    taken = text.tokens[n] if n < len(text.tokens) else tokenizer.eos_id
    last = text.tokens[n - 1] if n else run.example.target_ids[0 if run.example.source else -1]
    ids = own.topk(min(SHOWN, len(own))).indices.tolist()
    ids = ids if taken in ids else [*ids[:-1], taken]
    return {
        "taken": taken, "word": run.outputs.name(taken, last), "ids": ids,
        "words": [run.outputs.name(one, last) for one in ids],
        "before": own.exp()[ids].tolist(), "now": drawn_from[ids].tolist(),
        "left": int((drawn_from > 0).sum()), "vocab": len(own),
    }  # fmt: skip


def _plain(text: Candidate) -> dict[str, Any]:
    return {"text": text.text, "log_probability": text.log_probability, "finished": text.finished}
