"""A small language model of Toyland's English, trained for a short time, that several experiments
ask to write.
"""

from dataclasses import dataclass
from functools import lru_cache

from torch import Tensor

from translucid.generate.beam_search import GenerationConfig, Hypothesis
from translucid.generate.decode import find
from translucid.models.base import DecoderModel
from translucid.tasks.batch import IGNORE
from translucid_lab.claims.shared.markov_chain import small_decoder, train
from translucid_lab.claims.shared.toyland_text import next_words
from translucid_lab.engine.fit import random_rows

MAX_LENGTH, PROMPT, TEXTS = 20, 2, 40  # words written at most, words given, texts
HELD_OUT = 100  # sentences that no author learns from


@dataclass(frozen=True)
class LanguageModel:
    """What has learned, and what it has not seen."""

    net: DecoderModel
    end: int  # what sentences end with: a full stop
    unseen: Tensor  # (sentences, longest), 0 behind the end

    @property
    def prompts(self) -> list[list[int]]:
        """The first words of sentences that it has not seen."""
        prompts_: list[list[int]] = self.unseen[:TEXTS, :PROMPT].tolist()
        return prompts_

    def generate(self, *, beams: int, alpha: float) -> list[Hypothesis]:
        """The best text after each prompt."""
        config = GenerationConfig(beam_size=beams, alpha=alpha, max_length=MAX_LENGTH)
        hypotheses = find(self.net, self.prompts, None, config, eos=self.end, pad=0)
        return [texts[0] for texts in hypotheses]


@lru_cache(maxsize=4)  # several experiments ask the same author
def language_model(
    seed: int, steps: int, *, smoothing: float = 0.0, sentences: int = 900
) -> LanguageModel:
    text = next_words(seed)
    last = text.ids.gather(1, (text.ids != 0).sum(dim=1, keepdim=True) - 1)
    known, unseen = text.ids[:sentences], text.ids[-HELD_OUT:]
    net = small_decoder(text.vocab, seed=seed, layers=1)

    def batch() -> tuple[Tensor, Tensor]:
        rows = random_rows(known, 32, text.generator)
        targets = rows[:, 1:]
        return rows[:, :-1], targets.masked_fill(targets == 0, IGNORE)

    train(net, batch, steps, rate=1e-2, smoothing=smoothing)
    return LanguageModel(net.eval(), int(last.mode(dim=0).values), unseen)


STEPS = {True: 60, False: 300}  # of the author's training, quick or not
