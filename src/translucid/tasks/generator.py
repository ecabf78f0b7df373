"""Text generation with a translation or language model: search, sample, score and trace.

A translation model generates a target for a source, after an optional prefix; a language model
continues a prompt.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor

from translucid.core.errors import InputError
from translucid.core.trace import NO_TRACE, NoTrace, Trace
from translucid.data.batching import pad
from translucid.data.records import Pair, Text
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.fast.attention_kernels import without_plans
from translucid.fast.decode_graphs import DecodeGraphs
from translucid.fast.precision import PrecisionDifference, difference
from translucid.generate.beam_search import GenerationConfig, Hypothesis
from translucid.generate.decode import Model, find, limits
from translucid.generate.decoded import Candidate, Decoded, Scored, pieces_of
from translucid.generate.sampling import SamplingConfig
from translucid.generate.word_constraints import NamedConstraint, WordConstraints
from translucid.models.autoregressive import GenerationInputs
from translucid.models.base import AutoregressiveNetwork, Network
from translucid.models.ensemble import GeneratingEnsemble, mean_log_probs
from translucid.tasks.base import Task
from translucid.tasks.batch import IGNORE, Batch
from translucid.tasks.in_batches import in_batches
from translucid.tasks.language import Language, LanguageItem
from translucid.tasks.model_folder import expect, several
from translucid.tasks.next_tokens import never_generated, prefixes_and_sources, search_ids
from translucid.tasks.translate import Translate, TranslateItem

if TYPE_CHECKING:
    from translucid.generate.sampler import SampledTexts
    from translucid.generate.tree import Tree
    from translucid.tasks.own_prefixes import PrefixScored

MAX_LENGTH = 100  # default limit for language models, in tokens
ROWS = 64  # number of texts to generate at once
NO_CONSTRAINTS = WordConstraints()
NOTHING = Candidate("", [], 0.0, 0.0, [], True, [])  # the translation of an empty text
TREE_NOTE = (
    "the tree shows Translucid's own beam search, in which a finished text keeps its place in the "
    "beam; without a tree, the search follows the model's generation_config.json and may find a "
    "different text"
)


class Generates(Protocol):
    """A model that can be part of an ensemble."""

    @property
    def task(self) -> Task[Any, Any]: ...
    @property
    def text_generator(self) -> "Generator": ...


class Generator:
    """Generates text with a translation or language model, alone or in an ensemble."""

    def __init__(
        self,
        task: Task[Any, Any],
        network: Network,
        ensemble: Sequence[AutoregressiveNetwork[Any]] = (),
    ) -> None:
        self.task: Translate | Language = expect(task, "translate", "language")
        assert isinstance(network, AutoregressiveNetwork)
        self.network, self.others = network, list(ensemble)
        self.model: Model = GeneratingEnsemble([network, *ensemble]) if ensemble else network
        self.graphs = DecodeGraphs()
        written = self.task.target if isinstance(self.task, Translate) else self.task.tokenizer
        self.tokenizer: Tokenizer = written

    @property
    def tokenizers(self) -> dict[str, Tokenizer]:
        """The tokenizers by their names in a model folder."""
        if isinstance(self.task, Translate) and self.task.source is not self.task.target:
            return {"source": self.task.source, "target": self.task.target}
        return {"tokenizer": self.tokenizer}

    def translate(
        self, /, texts: Sequence[str], *, beam_size: int | None = None, **options: Any
    ) -> list[str]:
        """The translation of each text; an empty text stays empty.

        options: as for `decode`; the defaults are the settings used in validation."""
        expect(self.task, "translate")
        more: dict[str, Any] = {} if beam_size is None else {"beam_size": beam_size}
        return [
            _best(number, decoded)
            for number, decoded in enumerate(self.decode(texts, **more, **options), start=1)
        ]

    def decode(
        self,
        /,
        texts: Sequence[str],
        *,
        prefix: str = "",
        forbid: Sequence[str] = (),
        force: Mapping[int, str | int] | None = None,
        ensemble: Sequence[Generates] = (),
        sampling: SamplingConfig | None = None,
        seed: int = 0,
        tree: bool = False,
        trace: Trace | None = None,
        **search: Any,
    ) -> list[Decoded]:
        """Translations, or continuations of prompts, with scores and log-probabilities.

        search: keys of `GenerationConfig`, such as beam_size, alpha and n_best. sampling: sample
        `n_best` texts instead of searching. prefix: the beginning of every translation. forbid:
        words that must not be generated. force: words or token ids for given token positions.
        ensemble: models whose probabilities are averaged with this one's. tree: keep every prefix
        of the search. trace: records a forward pass over the best result of a single text; its
        edits also apply to every step of the search, to the newest tokens only.
        """
        several(texts)
        together = self._together(ensemble)
        word_constraints = WordConstraints(forbid, force or {})
        config = self.generation_config(**search)
        if sampling is None and not tree and "beam_size" not in search:
            sampling = self.task.sampling  # from the folder of an imported model
        if trace is not None and len(texts) != 1:
            raise InputError(
                f"a trace records one text, but got {len(texts)}; make a call for each text"
            )
        edited = NO_TRACE if trace is None else trace.edits()
        if ensemble and edited is not NO_TRACE:
            raise InputError("the edits of a trace apply to one model; omit ensemble")
        if sampling is None:
            decoded = together.search(
                texts, config, word_constraints, prefix=prefix, tree=tree, trace=edited
            )
        else:
            if tree:
                raise InputError("sampling has no search tree; omit tree or sampling")
            decoded = together.sample(
                texts, sampling, config, word_constraints,
                seed=seed, samples=config.n_best, prefix=prefix, trace=edited,
            )  # fmt: skip
        if trace is not None:
            _best(1, decoded[0])
            (item,) = together.items(texts, prefix)
            together.read(item, decoded[0].texts[0], trace)
            trace.check()
        return decoded

    def generation_config(self, /, **options: Any) -> GenerationConfig:
        """The generation settings: those used in validation, overridden by the options."""
        task = self.task
        if isinstance(task, Translate):
            return settings(task.search, options)
        base = task.search or GenerationConfig(max_length=MAX_LENGTH)
        if base.max_length is None and base.max_total_length is None:
            base = base.with_options(max_length=MAX_LENGTH)
        return settings(base, options)

    def score(self, source: str | Sequence[str], target: str | Sequence[str] | None = None) -> Any:
        """The log-probability of each token of a translation, or of a text for language models,
        including the end, as `Scored`. For lists of texts, a list of `Scored`."""
        if isinstance(source, str) and (target is None or isinstance(target, str)):
            return self.scores([source], None if target is None else [target])[0]
        if isinstance(source, str) or isinstance(target, str):
            raise InputError("got one text and a list; pass two texts or two lists of texts")
        return self.scores(source, target)

    def scores(
        self,
        sources: Sequence[str],
        targets: Sequence[str] | None = None,
        *,
        ensemble: Sequence[Generates] = (),
    ) -> list[Scored]:
        """`score` for many texts, computed in batches."""
        items = self._scored_items(sources, targets)
        networks = self._together(ensemble).networks

        def act(batch: Batch) -> list[Scored]:
            log_probs = mean_log_probs([network(**batch.inputs) for network in networks])
            of_targets = log_probs.gather(2, batch.targets.clamp(min=0)[..., None]).squeeze(-1)
            return [self._scored(*row) for row in zip(of_targets, batch.targets, strict=True)]

        return in_batches(self.network, items, self.task, act)

    def prefix_scores(
        self,
        sources: Sequence[str],
        targets: Sequence[str] | None = None,
        *,
        ensemble: Sequence[Generates] = (),
    ) -> "list[PrefixScored]":
        """`scores` after true prefixes, and after the prefixes that the model generates itself.

        Own prefixes are greedy: each token is the most probable one, without the end token. The
        difference is an upper estimate of exposure bias; `own_prefixes.by_position` averages it by
        position.
        """
        from translucid.tasks.own_prefixes import PrefixScored, on_own_prefixes

        scored = self.scores(sources, targets, ensemble=ensemble)
        together = self._together(ensemble)
        never = {*never_generated(self.tokenizer, self.network), self.tokenizer.eos_id}
        never |= {*self.tokenizer.special.ends}

        def act(batch: Batch) -> list[tuple[list[float], list[str]]]:
            _, inputs = prefixes_and_sources(batch)
            read = batch.inputs["ids" if inputs is None else "target"]
            logits, own = on_own_prefixes(
                together.model, inputs, read, batch.targets, sorted(never)
            )  # fmt: skip
            log_probs = mean_log_probs([logits])
            of_targets = log_probs.gather(2, batch.targets.clamp(min=0)[..., None]).squeeze(-1)
            return [
                (
                    row[kept].tolist(),
                    pieces_of(self.tokenizer, ids[kept].tolist()[:-1], ended=False),
                )
                for row, ids, kept in zip(of_targets, own, batch.targets != IGNORE, strict=True)
            ]

        generated = in_batches(self.network, self._scored_items(sources, targets), self.task, act)
        return [
            PrefixScored(one.pieces, one.token_log_probs, own, log_probs)
            for one, (log_probs, own) in zip(scored, generated, strict=True)
        ]

    def generate(
        self,
        prompt: str | Sequence[str] = "",
        *,
        max_length: int | None = None,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        min_p: float | None = None,
        seed: int = 0,
        samples: int = 1,
        stop: Sequence[str] = (),
        no_repeat_ngram: int | None = None,
        repetition_penalty: float | None = None,
        forbid: Sequence[str] = (),
    ) -> str | list[str]:
        """Sample a continuation and return it with the prompt. For several prompts or samples,
        return a list: all samples of the first prompt, then those of the second, and so on.

        The defaults come from an imported model's generation_config.json; otherwise they are
        temperature 1 and at most 100 tokens. Temperature 0 is greedy search. The same seed gives
        the same text for a prompt, alone or in a batch. The text ends before the first of the
        `stop` texts. `SamplingConfig` and `GenerationConfig` describe the other options.
        """
        config, by = self._language_settings(
            {"temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": min_p},
            max_length=max_length,
            no_repeat_ngram=no_repeat_ngram,
            repetition_penalty=repetition_penalty,
        )
        prompts = [prompt] if isinstance(prompt, str) else prompt
        words = WordConstraints(forbid)
        if by is None and (stop or samples > 1):
            raise InputError(
                "stop and samples are for sampling, but this model's folder asks for beam search "
                f"(num_beams = {config.beam_size}); set a temperature"
            )
        if by is None:
            decoded = self.search(prompts, config, words)
            texts = [_best(number, result) for number, result in enumerate(decoded, start=1)]
        else:
            decoded = self.sample(prompts, by, config, words, seed=seed, samples=samples, stop=stop)
            texts = [text.text for result in decoded for text in result.texts]
        return texts[0] if isinstance(prompt, str) and samples == 1 else texts

    def stream(
        self,
        prompt: str | Sequence[int] = "",
        *,
        max_length: int | None = None,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        min_p: float | None = None,
        seed: int = 0,
        sample: int = 0,
        stop: Sequence[str] = (),
        no_repeat_ngram: int | None = None,
        repetition_penalty: float | None = None,
        forbid: Sequence[str] = (),
    ) -> Iterator[str]:
        """Yield the text of `generate` in pieces: first the prompt, then each piece as soon as it
        exists. Beam search yields the whole text at the end. prompt: a text, or token ids. sample:
        the index among the samples of the prompt."""
        config, by = self._language_settings(
            {"temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": min_p},
            max_length=max_length,
            no_repeat_ngram=no_repeat_ngram,
            repetition_penalty=repetition_penalty,
        )
        words = WordConstraints(forbid)
        if by is None:
            (decoded,) = self.search([prompt], config, words)
            return iter([_best(1, decoded)])
        return self.sample_stream(prompt, by, config, words, seed=seed, sample=sample, stop=stop)

    def _language_settings(
        self, sampling: Mapping[str, float | None], **options: float | None
    ) -> tuple[GenerationConfig, SamplingConfig | None]:
        """The generation and sampling settings of a language model. The sampling settings are None
        for beam search, which is used if the model's folder asks for it and no sampling option is
        set. Options that are None keep their defaults."""
        task: Language = expect(self.task, "language")
        config = self.generation_config(**{k: v for k, v in options.items() if v is not None})
        chosen = {name: value for name, value in sampling.items() if value is not None}
        if chosen or task.sampling is not None:
            own = {} if task.sampling is None else task.sampling.model_dump()
            return config, SamplingConfig(**(own | chosen))
        if task.search is None:
            return config, SamplingConfig()
        return config, SamplingConfig(temperature=0.0) if task.search.beam_size == 1 else None

    def logprob_difference(
        self, other: Generates, texts: Sequence[str], sources: Sequence[str] | None = None
    ) -> PrecisionDifference:
        """Compare the log-probabilities that two models for the same task give to texts.

        sources: for translation models, the sources of `texts`.
        """
        task, theirs = self.task, other.text_generator.network
        if isinstance(task, Language):
            ids = [[*start, *rest] for start, rest in map(task.prompt, several(texts))]
            return difference(self.network, theirs, ids)
        ids = [[*task.target.start_ids, *task.target.encode(text)] for text in several(texts)]
        read = [task.frame(task.source.encode(text)) for text in sources or ()]
        inputs = GenerationInputs.of(*pad(read, task.source.pad_id))
        return difference(self.network, theirs, ids, inputs)

    # ---- texts and tokens ----

    def search(
        self,
        texts: Sequence[str | Sequence[int]],
        config: GenerationConfig,
        word_constraints: WordConstraints = NO_CONSTRAINTS,
        *,
        prefix: str = "",
        tree: bool = False,
        trace: NoTrace = NO_TRACE,
    ) -> list[Decoded]:
        """The best texts for each source or prompt. tree: keep the search tree. trace: edits to
        apply in every step."""
        items = self.items(texts, prefix)
        note = ""
        if tree and config.early_stopping is not None and config.beam_size > 1:
            note, config = TREE_NOTE, config.with_options(early_stopping=None)
        # These two become word constraints below, which take the start of the text into account.
        plain = config.with_options(no_repeat_ngram=0, repetition_penalty=1.0)
        if not tree:
            hypotheses = self._find(items, config, plain, word_constraints, trace=trace)
            return [self.decoded(*result) for result in zip(texts, items, hypotheses, strict=True)]
        results = []
        for text, item in zip(texts, items, strict=True):
            grown = self._tree(item, config, word_constraints)
            (own_hypotheses,) = self._find([item], config, plain, word_constraints, grown, trace)
            decoded = self.decoded(text, item, own_hypotheses, grown)
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
            ids = search_ids(self.tokenizer, self.network)
            return find(self.model, prefixes, sources, plain, **ids, extra=extra, **watching)

        return self._in_batches(items, act)

    def _tree(
        self, item: Any, config: GenerationConfig, word_constraints: WordConstraints
    ) -> "Tree":
        from translucid.generate.tree import Tree  # seldom needed

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
        """Sampled texts, in the order in which they were drawn. Only the lengths, constraints and
        alpha of `config` apply. trace: edits to apply in every step."""
        check_stop(stop)
        if samples < 1:
            raise InputError(f"samples = {samples}: must be at least 1")
        items = self.items([text for text in texts for _ in range(samples)], prefix)

        def act(batch: Batch) -> list[Candidate]:
            prefixes, sources = prefixes_and_sources(batch)
            drawn = self._sampled(prefixes, stop, trace)
            numbers = [line % samples for line in batch.lines]  # a line is the index of an item
            for _ in drawn.steps(sources, by, config, word_constraints, seed, numbers):
                pass
            return [text.candidate(config.alpha) for text in drawn.texts]

        candidates = [
            NOTHING if self.is_empty(item) else candidate
            for item, candidate in zip(items, self._in_batches(items, act), strict=True)
        ]
        grouped = [candidates[i : i + samples] for i in range(0, len(candidates), samples)]
        return [Decoded(*result) for result in zip(texts, grouped, strict=True)]

    def sample_stream(
        self, text: str | Sequence[int], by: SamplingConfig, config: GenerationConfig,
        word_constraints: WordConstraints = NO_CONSTRAINTS, *,
        seed: int = 0, sample: int = 0, stop: Sequence[str] = (),
    ) -> Iterator[str]:  # fmt: skip
        """Yield one sampled text in pieces. Joined, the pieces are the text that `sample`
        returns."""
        check_stop(stop)
        batch = self.task.collate(self.items([text], "")).to(self.network.device)
        prefixes, sources = prefixes_and_sources(batch)
        drawn = self._sampled(prefixes, stop)
        yield drawn.texts[0].stream.begin()
        steps = drawn.steps(sources, by, config, word_constraints, seed, [sample])
        while True:
            with without_plans(self.network.device):  # not active while the caller handles a piece
                pieces = next(steps, None)
            if pieces is None:
                break
            if pieces[0]:
                yield pieces[0]
        if rest := drawn.texts[0].stream.end():
            yield rest

    def read(self, item: Any, text: Candidate, trace: NoTrace = NO_TRACE) -> dict[str, Tensor]:
        """Run the network over a generated text, and return its inputs. item: what the text was
        generated from. Token i, counted from the beginning of the prefix or prompt, was chosen at
        position i."""
        inputs = self.task.collate([item]).inputs
        key = "target" if isinstance(self.task, Translate) else "ids"
        begun = inputs[key][0].tolist()
        # Nothing reads the last token, unless there is only a prompt.
        ids = [*begun, *text.tokens][: len(begun) + max(len(text.token_log_probs) - 1, 0)]
        inputs_read = {key: torch.tensor([ids])}
        if isinstance(self.task, Translate):
            inputs_read["source"] = inputs["source"]
        with torch.no_grad():
            self.network(
                **{k: v.to(self.network.device) for k, v in inputs_read.items()}, trace=trace
            )
        return inputs_read

    @property
    def networks(self) -> list[AutoregressiveNetwork[Any]]:
        return [self.network, *self.others]

    @cached_property
    def start_size(self) -> int:
        """The number of special tokens before a text."""
        if isinstance(self.task, Translate):
            return len(self.tokenizer.start_ids)
        return len(self.task.prompt(" ")[0])

    def _sampled(
        self, prefixes: list[list[int]], stop: Sequence[str], trace: NoTrace = NO_TRACE
    ) -> "SampledTexts":
        from translucid.generate.sampler import SampledTexts  # seldom needed

        never = never_generated(self.tokenizer, self.network)
        return SampledTexts(
            self.model, self.tokenizer, prefixes, stop, trace,
            never=never, ends=self.tokenizer.special.ends, special=self.start_size,
        )  # fmt: skip

    def is_empty(self, item: Any) -> bool:
        """Whether an item is an empty source, whose translation is empty."""
        return isinstance(self.task, Translate) and self.task.is_empty(item)

    def items(self, texts: Sequence[str | Sequence[int]], prefix: str) -> list[Any]:
        """Sources with the beginning of their translation, or prompts, as items of the task. A
        prompt may be given as token ids; the special tokens before a text are added if they are
        missing."""
        if isinstance(self.task, Translate):
            begun = self.tokenizer.encode(prefix)
            if not all(isinstance(text, str) for text in texts):
                raise InputError("a translation model translates text; pass the source as text")
            sources = self.task.source.encode_batch(map(str, texts))
            frame = self.task.frame
            return [TranslateItem(frame(ids), begun, i) for i, ids in enumerate(sources)]
        if prefix:
            raise InputError("a language model continues its prompt; write the prefix there")
        prompts = [self._prompt_ids(text) for text in texts]
        return [LanguageItem(ids, ids, 0.0, i) for i, ids in enumerate(prompts)]

    def _prompt_ids(self, prompt: str | Sequence[int]) -> list[int]:
        assert isinstance(self.task, Language)
        if isinstance(prompt, str):
            start, ids = self.task.prompt(prompt)
            return [*start, *ids]
        vocab = self.network.vocab
        if prompt and not (min(prompt) >= 0 and max(prompt) < vocab):
            token = next(one for one in prompt if not 0 <= one < vocab)
            raise InputError(f"prompt: token {token} is not in the vocabulary of {vocab:,}")
        start = self._alone
        return [*([] if list(prompt[: len(start)]) == start else start), *prompt]

    @cached_property
    def _alone(self) -> list[int]:
        """The special tokens before an empty text."""
        assert isinstance(self.task, Language)
        return self.task.prompt("")[0]

    def _in_batches(self, items: Sequence[Any], act: Callable[[Batch], Sequence[Any]]) -> list[Any]:
        """Run `act` on batches with a limited number of rows, since short prompts may have long
        continuations.

        Padding uses up positions. If the model has a limited number of them, all prompts of a batch
        have the same length.
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

    def decoded(
        self,
        text: str | Sequence[int],
        item: Any,
        hypotheses: Sequence[Hypothesis],
        tree: "Tree | None" = None,
    ) -> Decoded:
        """The result of a search for one item."""
        begun = item.target if isinstance(item, TranslateItem) else item.ids
        texts = []
        for one in hypotheses:
            written = [*begun, *one.tokens] if one.token_log_probs else []
            ended = one.finished and bool(one.token_log_probs)
            pieces = pieces_of(self.tokenizer, one.tokens, ended=ended)
            texts.append(Candidate(self.tokenizer.decode(written), pieces, **vars(one)))
        source = text if isinstance(text, str) else self.tokenizer.decode(text)
        return Decoded(source, texts, None if self.is_empty(item) else tree)

    def _scored_items(self, sources: Sequence[str], targets: Sequence[str] | None) -> list[Any]:
        """The texts, or the pairs of a translation model, as items of the task."""
        several(sources)
        if targets is not None and len(sources) != len(targets):
            raise InputError(
                f"got {len(sources):,} sources and {len(targets):,} targets; pass one target per "
                "source"
            )
        items: list[Any] = []
        if isinstance(self.task, Translate):
            if targets is None:
                raise InputError("a translation model scores a translation; pass source and target")
            pairs = enumerate(zip(sources, targets, strict=True))
            items = self.task.encode_all([Pair(*pair, line) for line, pair in pairs])
        else:
            if targets is not None:
                raise InputError("a language model scores a single text; omit the target")
            items = [self.task.encode(Text(text, line)) for line, text in enumerate(sources)]
        return items

    def _scored(self, token_log_probs: Tensor, targets: Tensor) -> Scored:
        mask = targets != IGNORE
        numbers = token_log_probs[mask].tolist()
        pieces = pieces_of(self.tokenizer, targets[mask].tolist()[:-1], ended=True)
        return Scored(pieces, numbers, sum(numbers))

    def _together(self, ensemble: Sequence[Generates]) -> "Generator":
        """This generator with an ensemble of models for the same task and vocabulary."""
        if not ensemble:
            return self
        for other in ensemble:
            if other.task.name != self.task.name:
                raise InputError(
                    f"a model for task {other.task.name} cannot form an ensemble with one for "
                    f"{self.task.name}"
                )
            for name, tokenizer in self.tokenizers.items():
                theirs = other.text_generator.tokenizers.get(name)
                if theirs is None or theirs.fingerprint != tokenizer.fingerprint:
                    raise InputError(
                        "the models have different vocabularies; only models trained with the "
                        "same tokenizer can form an ensemble; train the second with "
                        f"tokenizer.folder = the folder {name} of the first"
                    )
        return Generator(
            self.task, self.network, [other.text_generator.network for other in ensemble]
        )


def settings(base: GenerationConfig, options: Mapping[str, Any]) -> GenerationConfig:
    """The settings of `base`, changed by the options. Without an option beam_size, the beam size is
    raised if `n_best` or `beam_groups` requires it."""
    values = base.model_dump() | dict(options)
    n_best, groups = values["n_best"], values["beam_groups"]
    whole = isinstance(n_best, int) and isinstance(groups, int) and groups > 0
    more: dict[str, Any] = {}
    if "beam_size" not in options and whole:
        more["beam_size"] = groups * -(-max(values["beam_size"], n_best) // groups)
    if whole and groups > 1:
        more["early_stopping"] = None  # only Translucid's own search has groups
    return base.with_options(**options, **more)


def _best(number: int, decoded: Decoded) -> str:
    if not decoded.texts:
        raise InputError(
            f"text {number}, {decoded.source[:40]!r}: the constraints allow no output; relax "
            "forbid, force, no_repeat_ngram or min_length"
        )
    return decoded.texts[0].text


def check_stop(stop: Sequence[str]) -> None:
    """Raise InputError unless `stop` is a list of texts that are not empty."""
    if isinstance(stop, str):
        raise InputError(f"stop = {stop!r}: must be a list of texts; write [{stop!r}]")
    if "" in stop:
        raise InputError("stop: an empty text would stop generation at once; omit it")
