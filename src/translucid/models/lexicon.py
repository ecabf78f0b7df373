"""Translation by word alignment: a lexicon, a hidden Markov alignment and target n-grams.

    logits = a log p(y | target tokens before) + b log mixture(y | source)

The model learns from counts, by expectation maximisation instead of gradient steps, so training
takes seconds. The weights a and b maximise the probability of up to 64 training pairs, which are
held out for this purpose. Everything else is learned from the other pairs, and if there are fewer
than 6,400 pairs, it is learned again from all of them.

Shapes: source (batch, keys); target (batch, length); logits (batch, length, vocab).
"""

from collections.abc import Mapping, Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from translucid.core.catalogue import Variant
from translucid.core.config import key
from translucid.core.trace import NO_TRACE, NoTrace, Trace
from translucid.models import inputs, word_alignment
from translucid.models.autoregressive import GenerationInputs
from translucid.models.base import AutoregressiveNetwork
from translucid.models.ngram import RowState, TableSize, texts_of
from translucid.models.sequence_config import TextConfig
from translucid.models.word_alignment import Pair
from translucid.parts.computation import Index, Scope
from translucid.parts.expression import Expression, add, apply
from translucid.parts.kneser_ney import NGrams, estimated
from translucid.parts.lexicon import JumpAlignment, Lexicon
from translucid.parts.sparse_table import Integers

HELD_OUT, MOST_HELD_OUT = 10, 64  # of every tenth pair, up to 64 are held out for the weights
FEW = 6400  # with fewer pairs, the model is learned again from all
MOST_CELLS = 100_000_000  # limit of the pairs of tokens; above it, every n-th sentence pair is used
NEWTON, WEIGHTS = 16, (0.01, 5.0)  # iterations, and the range of the weights a and b


class LexiconConfig(TextConfig):
    """Configuration of a word-alignment translation model."""

    kind: Literal["lexicon"] = "lexicon"
    order: int = key(4, "longest target n-gram", ge=1, le=9)
    ngrams: tuple[TableSize, ...] = key(
        (), "number of n-grams of each order from 2 on, set in training", strict=False
    )
    entries: TableSize = key(0, "number of pairs of tokens in the lexicon, set in training")


class LexiconEncoder(nn.Module):
    """Looks up the translations of each source token."""

    output_point = "lexicon.translation"

    def __init__(self, vocab: int, target_vocab: int, entries: int) -> None:
        super().__init__()
        self.lexicon = Lexicon(vocab, target_vocab, entries)

    def forward(self, source: Tensor, trace: NoTrace = NO_TRACE) -> Tensor:
        return self.lexicon(source, trace.at("lexicon"))


class LexiconDecoder(nn.Module):
    """Computes the probability of the next token in two ways: by the n-grams of the target, and by
    the alignment to the source."""

    def __init__(self, vocab: int, ngrams: Sequence[int]) -> None:
        super().__init__()
        self.alignment = JumpAlignment(vocab)
        self.language = NGrams(vocab, ngrams)


class ProductHead(nn.Module):
    """logits = a log p + b log mixture: a log-linear interpolation, normalised by the softmax."""

    variant = Variant(["product"])
    output_point = "logits"

    def __init__(self) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.ones(2), requires_grad=False)  # a, b

    def forward(self, language: Tensor, mixture: Tensor, trace: NoTrace = NO_TRACE) -> Tensor:
        a, b = self.weights
        return trace("logits", a * language.log() + b * mixture.log())

    @staticmethod
    def reads(decoder: nn.Module) -> tuple[str, str]:
        """The full names of the two trace points whose probabilities the head combines."""
        assert isinstance(decoder, LexiconDecoder)
        language = decoder.language.output_point
        return f"decoder.language.{language}", "decoder.alignment.mixture"

    def terms(self, at: Scope, point: str, index: Index) -> Expression:
        names = self.reads(at.run.module("decoder"))
        return add(
            *(
                at.weight(label, "weights", n) * apply("log", at.run.number("p", name, *index))
                for n, (label, name) in enumerate(zip("ab", names, strict=True))
            )
        )


class LexiconModel(AutoregressiveNetwork[RowState]):
    """Translates with a lexicon: p(y) ∝ p(y | target so far)^a · mixture(y | source)^b."""

    fits = True
    config: LexiconConfig

    def __init__(self, config: LexiconConfig) -> None:
        super().__init__()
        self.config, self.vocab = config, config.target_vocab or config.vocab
        self.encoder = LexiconEncoder(config.vocab, self.vocab, config.entries)
        self.decoder = LexiconDecoder(self.vocab, config.ngrams)
        self.head = ProductHead()

    def forward(
        self,
        source: Tensor,
        target: Tensor,
        source_mask: Tensor | None = None,
        target_mask: Tensor | None = None,
        trace: NoTrace = NO_TRACE,
    ) -> Tensor:
        """Logits (batch, target length, vocab). Each position sees the target up to and including
        its own token."""
        state = self.start(GenerationInputs.of(source, source_mask), 0, trace)
        return self.step(target, state, target_mask, trace)

    def start(
        self, sources: GenerationInputs, capacity: int, trace: NoTrace = NO_TRACE
    ) -> RowState:
        """Look up the translations of the sources, and create a state. Its size does not depend on
        `capacity`."""
        inputs.check_trace(trace)
        inputs.check_generation(sources, with_source=True)
        assert sources.source is not None
        source, mask = sources.source, sources.mask
        inputs.check_ids(source, mask, self.config.vocab, "source")
        mask = torch.ones_like(source, dtype=torch.bool) if mask is None else mask
        translation = self.encoder(source, trace.at("encoder"))
        jumps = self.decoder.alignment.jumps(mask)
        contexts = self.decoder.language.start(sources.rows)
        return RowState((contexts, *self.decoder.alignment.start(jumps)), (translation, jumps))

    def step(
        self,
        tokens: Tensor,
        state: RowState,
        mask: Tensor | None = None,
        trace: NoTrace = NO_TRACE,
    ) -> Tensor:
        """Logits (rows, queries, vocab) after new tokens, which are one token per row or a whole
        prefix."""
        inputs.check_trace(trace)
        inputs.check_ids(tokens, mask, self.vocab, "target")
        before, *position = state.rows
        decoder, inside = self.decoder, trace.at("decoder")
        mixture, aligned = decoder.alignment(
            tokens, mask, *state.sources, position, inside.at("alignment")
        )
        contexts, after = decoder.language.read(tokens, mask, before)
        state.rows, state.length = (after, *aligned), state.length + tokens.shape[1]
        language = decoder.language(contexts, inside.at("language"))
        return self.head(language, mixture, trace.at("head"))

    @property
    def output_point(self) -> str:
        return "head.logits"

    def check(self) -> None:
        self.encoder.lexicon.check("the lexicon")
        self.decoder.alignment.check()
        self.decoder.language.check()

    @torch.no_grad()
    def fit(self, batches: Sequence[tuple[Mapping[str, Tensor], Tensor]]) -> None:
        texts = list(texts_of(batches, "target", "target_mask"))
        sources = [
            row[mask]
            for named, _ in batches
            for row, mask in zip(named["source"].numpy(), named["source_mask"].numpy(), strict=True)
        ]
        pairs = [(source, text[1:]) for source, text in zip(sources, texts, strict=True)]
        cells = sum(len(source) * len(target) for source, target in pairs)
        step = -(-cells // MOST_CELLS) or 1
        tenth = range(HELD_OUT - 1, len(pairs), HELD_OUT)
        held_out = tenth[:: -(-len(tenth) // MOST_HELD_OUT) or 1]
        if held_out:
            kept = [i for i in range(len(pairs)) if i not in held_out]
            self._learn([texts[i] for i in kept], [pairs[i] for i in kept[::step]])
            self._weigh([pairs[i] for i in held_out], [texts[i] for i in held_out])
        if len(pairs) < FEW:
            self._learn(texts, pairs[::step])

    def _learn(self, texts: Sequence[Integers], pairs: Sequence[Pair]) -> None:
        """Estimate the lexicon, the alignment and the n-grams."""
        model = word_alignment.align(pairs, self.vocab)
        like = self.head.weights
        self.config = self.config.model_copy(update={"entries": len(model.keys)})
        self.encoder = LexiconEncoder(self.config.vocab, self.vocab, len(model.keys))
        self.encoder.lexicon.filled(model.keys, model.translation[:-1].numpy())
        self.decoder.alignment = model.alignment
        self.decoder.alignment.unigram.copy_(model.unigram)
        self.decoder.language = estimated(texts, self.vocab, self.config.order)
        self.config = self.config.model_copy(update={"ngrams": self.decoder.language.sizes})
        self.to(like)

    def _weigh(self, pairs: Sequence[Pair], texts: Sequence[Integers]) -> None:
        """Set the weights a and b so that these pairs have the largest probability. Newton's method
        finds them, since the log-likelihood is concave."""
        features, right = [], []  # logarithms of both probabilities (2, targets, vocab)
        for (source, _), text in zip(pairs, texts, strict=True):
            trace = Trace(self.head.reads(self.decoder))
            ids = torch.from_numpy(text)[None].to(self.device)
            self(torch.from_numpy(source)[None].to(self.device), ids[:, :-1], trace=trace)
            both = torch.cat([trace[name] for name in self.head.reads(self.decoder)])
            features.append(both.log())
            right.append(ids[0, 1:])
        f, tokens = torch.cat(features, dim=1), torch.cat(right)
        chosen = f.gather(2, tokens[None, :, None].expand(2, -1, 1))[..., 0].double()
        weights = before = torch.ones(2, dtype=torch.float64)
        best, step = -torch.inf, torch.zeros(2)
        for _ in range(NEWTON):
            scores = weights[0].float() * f[0] + weights[1].float() * f[1]
            normaliser = scores.logsumexp(dim=-1, keepdim=True)
            reached = float((weights @ chosen).sum() - normaliser.double().sum())
            if reached < best:  # the step was too long
                step = step / 2
                weights = (before + step).clamp(*WEIGHTS)
                continue
            weighted = (scores - normaliser).exp() * f  # (2, targets, vocab)
            mean = weighted.sum(dim=2).double()
            squares = [[float((weighted[i] * f[j]).sum()) for j in (0, 1)] for i in (0, 1)]
            curvature = torch.tensor(squares).double() - mean @ mean.T + torch.eye(2)
            step = torch.linalg.solve(curvature, (chosen - mean).sum(dim=1))
            before, best = weights, reached
            weights = (weights + step).clamp(*WEIGHTS)
        self.head.weights.copy_(before)
