"""Models that write, at the level of text: search, draw, score and read again.

A translator and a language model are the same to this file. What one writes after a source and a
beginning, the other writes after a prompt.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from translucid.core.errors import InputError
from translucid.core.trace import NO_TRACE, NoTrace
from translucid.data.records import Text
from translucid.fast.attention_kernels import without_plans
from translucid.fast.decode_graphs import DecodeGraphs
from translucid.generate.beam_search import GenerationConfig, Hypothesis
from translucid.generate.decode import Model, find, limits
from translucid.generate.decoded import Candidate, Decoded, Scored, pieces_of
from translucid.generate.sampling import SamplingConfig
from translucid.generate.text_stream import check_stop
from translucid.generate.word_constraints import NamedConstraint, WordConstraints
from translucid.models.base import AutoregressiveNetwork
from translucid.models.ensemble import GeneratingEnsemble, mean_log_probs
from translucid.tasks.batch import IGNORE, Batch
from translucid.tasks.in_batches import in_batches
from translucid.tasks.language import Language, LanguageItem
from translucid.tasks.next_tokens import never_generated, prefixes_and_sources
from translucid.tasks.translate import Translate, TranslateItem

if TYPE_CHECKING:
    from translucid.generate.sampler import SampledTexts
    from translucid.generate.tree import Tree

Network = AutoregressiveNetwork[Any]
ROWS = 64  # texts of a language model that are written at once
NO_CONSTRAINTS = WordConstraints()
TREE_NOTE = (
    "the tree is of Translucid's own beam search, in which a text that has ended keeps its place; "
    "without a tree, the model is searched as its generation_config.json says, which may write "
    "another text"
)


def settings(base: GenerationConfig, options: Mapping[str, Any]) -> GenerationConfig:
    """The settings with some of them changed. Unless a beam size is given, it is as large as the
    texts that are asked for and the groups need."""
    values = base.model_dump() | dict(options)
    n_best, groups = values["n_best"], values["beam_groups"]
    whole = isinstance(n_best, int) and isinstance(groups, int) and groups > 0
    more: dict[str, Any] = {}
    if "beam_size" not in options and whole:
        more["beam_size"] = groups * -(-max(values["beam_size"], n_best) // groups)
    if whole and groups > 1:
        more["early_stopping"] = None  # groups are of Translucid's own search
    return base.with_options(**options, **more)


class TextGenerator:
    """A translator or a language model, alone or with others of its vocabulary."""

    def __init__(
        self, task: Translate | Language, network: Network, ensemble: Sequence[Network] = ()
    ) -> None:
        self.task, self.network, self.others = task, network, list(ensemble)
        self.model: Model = GeneratingEnsemble([network, *ensemble]) if ensemble else network
        self.graphs = DecodeGraphs()
        self.tokenizer = task.target if isinstance(task, Translate) else task.tokenizer

    def search(
        self,
        texts: Sequence[str],
        config: GenerationConfig,
        word_constraints: WordConstraints = NO_CONSTRAINTS,
        *,
        prefix: str = "",
        tree: bool = False,
        trace: NoTrace = NO_TRACE,
    ) -> list[Decoded]:
        """The best texts for each source or prompt; with the tree of the search, if asked. Every
        step is taken with the trace."""
        items = self._items(texts, prefix)
        note = ""
        if tree and config.early_stopping is not None and config.beam_size > 1:
            note, config = TREE_NOTE, config.with_options(early_stopping=None)
        # The constraints of `config` stand among ours, which know where a text starts.
        plain = GenerationConfig(
            **(config.model_dump() | {"no_repeat_ngram": 0, "repetition_penalty": 1.0})
        )
        if not tree:
            hypotheses = self._find(items, config, plain, word_constraints, trace=trace)
            return [self._decoded(*result) for result in zip(texts, items, hypotheses, strict=True)]
        results = []
        for text, item in zip(texts, items, strict=True):
            grown = self._tree(item, config, word_constraints)
            (own_hypotheses,) = self._find([item], config, plain, word_constraints, grown, trace)
            decoded = self._decoded(text, item, own_hypotheses, grown)
            results.append(replace(decoded, note=note))
        return results

    def _find(
        self,
        items: Sequence[Any],
        config: GenerationConfig,
        plain: GenerationConfig,
        word_constraints: WordConstraints,
        tree: "Tree | None" = None,
        trace: NoTrace = NO_TRACE,
    ) -> list[list[Hypothesis]]:
        watching: dict[str, Any] = {"trace": trace, "graphs": self.graphs}
        if tree is not None:
            watching["watch"] = tree.watch

        def constraints(start: int) -> list[NamedConstraint]:
            named = word_constraints.token_constraints(
                self.tokenizer, config, start, special=self.start_size
            )
            if tree is not None:
                tree.constraints = named
            return named

        if isinstance(self.task, Translate):
            before = len(self.tokenizer.start_ids)
            starts = [before + len(item.target) for item in items[:1]]  # one prefix for all
            extra = [constraint for start in starts for _, constraint in constraints(start)]
            return self.task.find(
                self.network, items, plain, ensemble=self.others, extra=extra, **watching
            )

        def act(batch: Batch) -> list[list[Hypothesis]]:
            prefixes, sources = prefixes_and_sources(batch)
            extra = [constraint for _, constraint in constraints(max(map(len, prefixes)))]
            return find(
                self.model, prefixes, sources, plain, eos=self.tokenizer.eos_id,
                pad=self.tokenizer.pad_id, never=never_generated(self.tokenizer, self.network),
                ends=self.tokenizer.special.ends, extra=extra, **watching,
            )  # fmt: skip

        return self._in_batches(items, act)

    def _tree(
        self, item: Any, config: GenerationConfig, word_constraints: WordConstraints
    ) -> "Tree":
        from translucid.generate.tree import Tree  # only where the tree is asked for

        prefixes, sources = prefixes_and_sources(self.task.collate([item]).to(self.network.device))
        least, most = limits(self.model, prefixes, sources, config)
        return Tree(config, self.tokenizer.eos_id, int(least[0]), int(most[0]))

    def sample(
        self,
        texts: Sequence[str],
        by: SamplingConfig,
        config: GenerationConfig,
        word_constraints: WordConstraints = NO_CONSTRAINTS,
        *,
        seed: int = 0,
        samples: int = 1,
        prefix: str = "",
        stop: Sequence[str] = (),
        trace: NoTrace = NO_TRACE,
    ) -> list[Decoded]:
        """Sampled texts, in the order in which they were drawn. Of `config`, only the lengths,
        the constraints and alpha count. Every step is taken with the trace."""
        check_stop(stop)
        if samples < 1:
            raise InputError(f"samples = {samples}: at least 1 must be asked for")
        items = self._items([text for text in texts for _ in range(samples)], prefix)

        def act(batch: Batch) -> list[Candidate]:
            prefixes, sources = prefixes_and_sources(batch)
            drawn = self._sampled(prefixes, stop, trace)
            numbers = [line % samples for line in batch.lines]  # a line is a place among the items
            for _ in drawn.steps(sources, by, config, word_constraints, seed, numbers):
                pass
            return [drawn.candidate(row, config.alpha) for row in range(len(prefixes))]

        candidates = [
            _NOTHING if self._is_empty(item) else candidate
            for item, candidate in zip(items, self._in_batches(items, act), strict=True)
        ]
        grouped = [candidates[i : i + samples] for i in range(0, len(candidates), samples)]
        return [Decoded(*result) for result in zip(texts, grouped, strict=True)]

    def stream(
        self, text: str, by: SamplingConfig, config: GenerationConfig,
        word_constraints: WordConstraints = NO_CONSTRAINTS, *,
        seed: int = 0, sample: int = 0, stop: Sequence[str] = (),
    ) -> Iterator[str]:  # fmt: skip
        """One text, piece by piece; joined, they are what `sample` gives."""
        check_stop(stop)
        batch = self.task.collate(self._items([text], "")).to(self.network.device)
        prefixes, sources = prefixes_and_sources(batch)
        drawn = self._sampled(prefixes, stop)
        yield drawn.streams[0].begin()
        steps = drawn.steps(sources, by, config, word_constraints, seed, [sample])
        while True:
            with without_plans(self.network.device):  # not while others go on with a piece
                pieces = next(steps, None)
            if pieces is None:
                break
            if pieces[0]:
                yield pieces[0]
        if rest := drawn.streams[0].end():
            yield rest

    def score(self, sources: Sequence[str], targets: Sequence[str] | None) -> list[Scored]:
        """The log-probability of given texts, token by token, by one reading of the whole."""
        items: list[Any] = []
        if isinstance(self.task, Translate):
            if targets is None:
                raise InputError("a translator scores a translation: give source and target")
            for line, (source, target) in enumerate(zip(sources, targets, strict=True)):
                items.append(
                    TranslateItem(self._source(source), self.tokenizer.encode(target), line)
                )
        else:
            if targets is not None:
                raise InputError("a language model scores one text; leave the target out")
            items = [self.task.encode(Text(text, line)) for line, text in enumerate(sources)]

        def act(batch: Batch) -> list[Scored]:
            log_probs = mean_log_probs([model(**batch.inputs) for model in self.networks])
            targets_read = batch.targets
            token_log_probs = log_probs.gather(2, targets_read.clamp(min=0)[..., None]).squeeze(-1)
            return [self._scored(*row) for row in zip(token_log_probs, targets_read, strict=True)]

        return in_batches(self.network, items, self.task, act)

    def read(self, decoded: Decoded, prefix: str = "", trace: NoTrace = NO_TRACE) -> None:
        """Read the best text again, whole: position i of the decoder is where token i was chosen,
        counted from the beginning of the prefix or prompt."""
        best = decoded.texts[0]
        (item,) = self._items([decoded.source], prefix)
        inputs = self.task.collate([item]).inputs
        key = "target" if isinstance(self.task, Translate) else "ids"
        begun = inputs[key][0].tolist()
        ids = [*begun, *best.tokens][: len(begun) + len(best.token_log_probs) - 1]
        inputs_read = {key: torch.tensor([ids])}
        if isinstance(self.task, Translate):
            inputs_read["source"] = inputs["source"]
        with torch.no_grad():
            self.network(
                **{k: v.to(self.network.device) for k, v in inputs_read.items()}, trace=trace
            )

    @property
    def networks(self) -> list[Network]:
        return [self.network, *self.others]

    @property
    def start_size(self) -> int:
        """Tokens before a text that are none of it."""
        if isinstance(self.task, Translate):
            return len(self.tokenizer.start_ids)
        return len(self.task.prompt(" ")[0])

    def _sampled(
        self, prefixes: list[list[int]], stop: Sequence[str], trace: NoTrace = NO_TRACE
    ) -> "SampledTexts":
        from translucid.generate.sampler import SampledTexts  # only where texts are sampled

        never = never_generated(self.tokenizer, self.network)
        return SampledTexts(
            self.model, self.tokenizer, prefixes, stop, trace,
            never=never, ends=self.tokenizer.special.ends, special=self.start_size,
        )  # fmt: skip

    def _is_empty(self, item: Any) -> bool:
        return isinstance(self.task, Translate) and self.task.is_empty(item)

    def _source(self, text: str) -> list[int]:
        assert isinstance(self.task, Translate)
        return self.task.frame(self.task.source.encode(text))

    def _items(self, texts: Sequence[str], prefix: str) -> list[Any]:
        if isinstance(self.task, Translate):
            begun = self.tokenizer.encode(prefix)
            sources = self.task.source.encode_batch(texts)
            frame = self.task.frame
            return [TranslateItem(frame(ids), begun, i) for i, ids in enumerate(sources)]
        if prefix:
            raise InputError("a language model goes on with its prompt; put the prefix there")
        prompts = [[*start, *ids] for start, ids in map(self.task.prompt, texts)]
        return [LanguageItem(ids, ids, 0.0, i) for i, ids in enumerate(prompts)]

    def _in_batches(self, items: Sequence[Any], act: Any) -> list[Any]:
        """However short prompts are, what follows them takes memory: so many rows at once.

        Padding takes room in a state, of which learned positions have no more than a text alone
        needs: then all prompts of a batch are of one length.
        """
        sizes = [self.task.sizes(item)[-1] for item in items]
        if self.model.max_length is None:
            groups = [list(range(len(items)))]
        else:
            groups = [[i for i, s in enumerate(sizes) if s == size] for size in sorted(set(sizes))]
        results_by_place: dict[int, Any] = {}
        for group in groups:
            for start in range(0, len(group), ROWS):
                places = group[start : start + ROWS]
                part = [items[place] for place in places]
                results = in_batches(self.network, part, self.task, act, 4096)
                results_by_place |= zip(places, results, strict=True)
        return [results_by_place[place] for place in range(len(items))]

    def _decoded(
        self, text: str, item: Any, hypotheses: Sequence[Hypothesis], tree: "Tree | None" = None
    ) -> Decoded:
        begun = item.target if isinstance(item, TranslateItem) else item.ids
        texts = [
            Candidate(
                text=self.tokenizer.decode(
                    [*begun, *hypothesis.tokens] if hypothesis.token_log_probs else []
                ),
                pieces=pieces_of(
                    self.tokenizer,
                    hypothesis.tokens,
                    ended=hypothesis.finished and bool(hypothesis.token_log_probs),
                ),
                score=hypothesis.score,
                log_probability=hypothesis.log_probability,
                token_log_probs=hypothesis.token_log_probs,
                finished=hypothesis.finished,
                tokens=hypothesis.tokens,
            )
            for hypothesis in hypotheses
        ]
        return Decoded(text, texts, None if self._is_empty(item) else tree)

    def _scored(self, token_log_probs: Tensor, targets: Tensor) -> Scored:
        mask = targets != IGNORE
        numbers = token_log_probs[mask].tolist()
        pieces = pieces_of(self.tokenizer, targets[mask].tolist()[:-1], ended=True)
        return Scored(pieces, numbers, sum(numbers))


_NOTHING = Candidate("", [], 0.0, 0.0, [], True, [])
