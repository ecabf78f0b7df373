"""C47, C49, C50, C73, C80, C85 on a pretrained model: a small LLaMA trained on stories.

Each seed is a sample of sentences for the same weights.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from translucid import Trace
from translucid.generate import GenerationConfig, find
from translucid.models import DecoderModel
from translucid.see import Bars
from translucid_lab import Data, Experiment, Finding, Verdict
from translucid_lab.claims.attention_tasks import apart
from translucid_lab.claims.real_weights import LEAST, stories, story_sentences
from translucid_lab.engine.intervals import clearly, median_of
from translucid_lab.engine.verdict import average, by_case, column, decide

SENTENCES, WRITTEN = 40, 20  # per seed: sentences; texts continued by search, and their words
FAIR = 4  # times the mean squared feature


def _heads(seed: int, quick: bool) -> Data:
    net, _ = stories()
    rows = [_of_sentence(net, ids) for ids in story_sentences(seed, 8 if quick else SENTENCES)]
    means = {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}
    return {**means, **_written(net, story_sentences(seed, 4 if quick else WRITTEN), quick)}


@torch.no_grad()
def _of_sentence(net: DecoderModel, ids: Tensor) -> dict[str, float]:
    trace = Trace("*")
    logits = net(ids, trace=trace)
    shown = [trace[name] for name in trace.names("*.self_attention.pattern")]
    scores, distance = [], []
    for layer, pattern in enumerate(shown):
        where = f"decoder.layers.{layer}.self_attention"
        wide = trace[f"{where}.query"].shape[-1]
        scores.append(float(trace[f"{where}.scores"].var() / wide))  # with rotary positions
        distance.append(apart(pattern))
    hidden = trace[trace.names("decoder.final_norm.*output")[-1]][0]  # (words, features)
    squares = hidden.square()
    following = logits[0, :-1].argmax(-1)
    sums = logits.softmax(-1).sum(-1)
    return {
        "variance": float(np.mean(scores)),
        "apart": float(np.mean(distance)),
        "largest": float((squares.amax(-1) / squares.mean(-1)).mean()),
        "same": float((following == ids[0, 1:]).float().mean()),
        "sum": float((sums - 1).abs().max()),
    }


def _written(net: DecoderModel, prompts: Sequence[Tensor], quick: bool) -> dict[str, float]:
    """How often a beam of 4 finds a likelier, or a less likely, text than greedy search."""
    tokenizer = stories()[1]
    starts = [ids[0, :LEAST].tolist() for ids in prompts]
    scores = {}
    for beams in (1, 4):
        config = GenerationConfig(beam_size=beams, alpha=0.0, max_length=8 if quick else WRITTEN)
        texts = find(net, starts, None, config, eos=tokenizer.eos_id, pad=tokenizer.pad_id)
        scores[beams] = np.array([several[0].log_probability for several in texts])
    return {"above": float(np.mean(scores[4] > scores[1] + 1e-4)),
            "below": float(np.mean(scores[4] < scores[1] - 1e-4))}  # fmt: skip


def _judge_variance(data: Sequence[Data]) -> Finding:
    ratio = median_of(column(data, "variance"))
    inside = ratio.against(0.9) == "above" and ratio.against(1.1) == "below"
    outside = ratio.against(0.9) == "below" or ratio.against(1.1) == "above"
    verdict: Verdict = "supported" if inside else "not applicable" if outside else "undecided"
    return Finding(verdict, f"variance of q·k over d_k in trained heads: {ratio}",
                   {"variance": ratio.mean},
                   {"variance / d_k lies within a tenth of 1": True if inside else
                    False if outside else None})  # fmt: skip


def _judge_apart(data: Sequence[Data]) -> Finding:
    distance = median_of(column(data, "apart"))
    return decide({"trained heads differ": clearly(distance.against(0.1), "above")},
                  f"mean Jensen-Shannon distance of two heads of a layer: {distance}",
                  {"apart": distance.mean})  # fmt: skip


def _judge_sum(data: Sequence[Data]) -> Finding:
    worst = max(column(data, "sum"))
    return decide({"sums to 1 within 1e-5": worst < 1e-5},
                  f"the probabilities of the next token sum to 1 within {worst:.1e}")  # fmt: skip


def _judge_largest(data: Sequence[Data]) -> Finding:
    largest = median_of(column(data, "largest"))
    return decide({"no feature dominates": clearly(largest.against(FAIR), "below")},
                  f"after the last norm, the largest feature of a token has {largest} times an "
                  "even part of its squared length", {"largest": largest.mean})  # fmt: skip


def _judge_read(data: Sequence[Data]) -> Finding:
    same = median_of(column(data, "same"))
    return by_case(
        {"from the words before": True,  # by the mask: C77 and C78 ask that
         "from words that it generated": clearly(same.against(0.95), "above")},
        f"of a text's tokens, the model itself would have said {same}",
        "the word `generated`", {"same": same.mean},
    )  # fmt: skip


def _judge_beam(data: Sequence[Data]) -> Finding:
    above, below = (median_of(column(data, name)) for name in ("above", "below"))
    return decide({"a beam of 4 beats greedy in over 5 % of texts":
                   clearly(above.against(0.05), "above")},
                  f"a beam of 4 finds a likelier text than greedy in {above} of the texts, a less "
                  f"likely one in {below}", {"above": above.mean})  # fmt: skip


def _draw_heads(data: Sequence[Data]) -> Bars:
    shown = {"apart": "distance of two heads",
             "same": "a text's token is the likeliest", "above": "a beam beats greedy"}  # fmt: skip
    values = np.array([float(average(data, name)) for name in shown])
    return Bars("What trained weights do", "fraction", tuple(shown.values()), values,
                note="a LLaMA of 260,000 weights, on everyday sentences")  # fmt: skip


heads = Experiment.described(
    "real-heads",
    _heads,
    _draw_heads,
    {
        "C47": _judge_variance,
        "C49": _judge_sum,
        "C50": _judge_apart,
        "C73": _judge_largest,
        "C80": _judge_read,
        "C85": _judge_beam,
    },
)
