"""Translation: read one sentence, write another."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from torch import Tensor, nn

from translucid.data.batching import pad
from translucid.data.records import Pair
from translucid.data.tokenizers import Tokenizer
from translucid.decoding.generate import find
from translucid.decoding.rules import Rule
from translucid.decoding.search import Hypothesis, Round, Search
from translucid.fast.decode_graphs import DecodeGraphs
from translucid.models.base import AutoregressiveNetwork
from translucid.models.ensemble import GeneratingEnsemble
from translucid.tasks import metrics
from translucid.tasks.base import (
    IGNORE,
    Batch,
    Score,
    Task,
    TaskName,
    cross_entropy,
    given,
    in_batches,
    summed_loss,
)
from translucid.trace import NO_TRACE, NoTrace


@dataclass(frozen=True, slots=True)
class TranslateItem:
    source: list[int]  # with the end token
    target: list[int]  # without start and end
    line: int


class Translate(Task[Pair, TranslateItem]):
    """The decoder reads start + target and says target + end, one word ahead of what it reads."""

    name: ClassVar[TaskName] = "translate"
    metric = "bleu"
    higher_is_better = True

    def __init__(
        self,
        source: Tokenizer,
        target: Tokenizer,
        *,
        smoothing: float = 0.1,
        search: Search = Search(),  # noqa: B008 (frozen)
    ) -> None:
        self.source, self.target = source, target
        self.smoothing, self.search = smoothing, search
        self.graphs = DecodeGraphs()  # of the network that is evaluated

    def encode(self, record: Pair) -> TranslateItem:
        return TranslateItem(
            [*self.source.encode(record.source), self.source.eos_id],
            self.target.encode(record.target),
            record.line,
        )

    def sizes(self, item: TranslateItem) -> tuple[int, ...]:
        return len(item.source), len(item.target) + 1

    def targets(self, item: TranslateItem) -> int:
        return len(item.target) + 1  # and the end

    def shorten(self, item: TranslateItem, longest: int) -> TranslateItem:
        source = item.source[:-1][: longest - 1]
        return replace(
            item, source=[*source, self.source.eos_id], target=item.target[: longest - 1]
        )

    def collate(self, items: Sequence[TranslateItem]) -> Batch:
        source, source_real = pad([item.source for item in items], self.source.pad_id)
        read, target_real = pad(
            [[self.target.bos_id, *item.target] for item in items], self.target.pad_id
        )
        said, _ = pad([[*item.target, self.target.eos_id] for item in items], IGNORE)
        inputs = {
            "source": source, "target": read, "source_real": source_real, "target_real": target_real
        }  # fmt: skip
        count = sum(self.targets(item) for item in items)
        return Batch(inputs, said, count, tuple(item.line for item in items))

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        never = (self.target.pad_id, self.target.bos_id)
        return cross_entropy(
            model(**batch.inputs), batch.targets, smoothing=self.smoothing, never=never
        )

    def evaluate(self, model: nn.Module, items: Sequence[TranslateItem]) -> Score:
        nats = summed_loss(model, items, self)
        tokens = sum(self.targets(item) for item in items)
        written = self.predict(model, [item.source for item in items])
        gold = [self.target.decode(item.target) for item in items]
        score = metrics.translation(written, gold)
        numbers = {
            "bleu": score.bleu,
            "chrf": score.chrf,
            "exact_match": score.exact,
            "loss": nats / max(tokens, 1),
        }
        return Score(numbers, (score.bleu_signature, score.chrf_signature))

    def predict(self, model: nn.Module, sources: Sequence[list[int]]) -> list[str]:
        """The best translations of encoded sources, in their order."""
        return [self.target.decode(found[0].tokens) for found in self.find(model, sources)]

    def find(
        self,
        model: nn.Module,
        sources: Sequence[list[int]],
        how: Search | None = None,
        *,
        beside: Sequence[AutoregressiveNetwork[Any]] = (),
        prefixes: Sequence[list[int]] | None = None,
        extra: Sequence[Rule] = (),
        watch: Callable[[Round], None] | None = None,
        trace: NoTrace = NO_TRACE,
        graphs: DecodeGraphs | None = None,
    ) -> list[list[Hypothesis]]:
        """The best translations of encoded sources, best first; an empty source has an empty one.

        beside: models that decide together with `model`. prefixes: how each translation begins.
        trace: every step is taken with it. graphs: of the GPU; not given: the task's own.
        """
        assert isinstance(model, AutoregressiveNetwork)
        chosen = how or self.search
        writer = GeneratingEnsemble([model, *beside]) if beside else model
        begun = prefixes or [[] for _ in sources]
        items = [TranslateItem(ids, start, 0) for ids, start in zip(sources, begun, strict=True)]

        def act(batch: Batch) -> list[list[Hypothesis]]:
            return find(
                writer,
                *given(batch),
                chosen,
                eos=self.target.eos_id,
                pad=self.target.pad_id,
                extra=extra,
                watch=watch,
                trace=trace,
                graphs=self.graphs if graphs is None else graphs,
            )

        # A GPU takes as long for a few rows as for many; a CPU's caches like few. Measured there,
        # 1 or 4 beams, float32 or int8: from 2,048 to 8,192 within 8 % of the best, but for 8,192
        # with one beam (18 %); 1,024 and 16,384 are slower.
        budget = 32768 if next(model.parameters()).is_cuda else 4096
        results = in_batches(model, items, self, act, batch_tokens=budget // chosen.beams)
        return [
            [_NOTHING] if len(item.source) <= 1 else found
            for item, found in zip(items, results, strict=True)
        ]


_NOTHING = Hypothesis([], 0.0, 0.0, [], True)
