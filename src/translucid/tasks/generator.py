"""Texts from a trained network: translations, and how prompts go on."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from translucid.core.errors import InputError
from translucid.core.trace import NO_TRACE, Trace
from translucid.data.batching import pad
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.fast.precision import PrecisionDifference, difference
from translucid.generate.beam_search import GenerationConfig
from translucid.generate.decoded import Decoded, Scored
from translucid.generate.sampling import SamplingConfig
from translucid.generate.word_constraints import WordConstraints
from translucid.models.autoregressive import GenerationInputs
from translucid.models.base import AutoregressiveNetwork, Network
from translucid.tasks.base import Task
from translucid.tasks.language import Language
from translucid.tasks.model_folder import expect, several
from translucid.tasks.text_generation import TextGenerator, settings
from translucid.tasks.translate import Translate

MAX_LENGTH = 100  # tokens that a language model writes unless told otherwise


class Generates(Protocol):
    """A model that may take part in an ensemble."""

    @property
    def task(self) -> Task[Any, Any]: ...
    @property
    def text_generator(self) -> "Generator": ...


class Generator:
    """A translator or a language model at work."""

    def __init__(self, task: Task[Any, Any], network: Network) -> None:
        self.task: Translate | Language = expect(task, "translate", "language")
        assert isinstance(network, AutoregressiveNetwork)
        self.network = network
        self._alone = TextGenerator(self.task, network)  # it keeps what a GPU has captured

    @property
    def tokenizer(self) -> Tokenizer:
        """Of what is written."""
        return self._alone.tokenizer

    @property
    def tokenizers(self) -> dict[str, Tokenizer]:
        """By their names in a model folder."""
        if isinstance(self.task, Translate) and self.task.source is not self.task.target:
            return {"source": self.task.source, "target": self.task.target}
        return {"tokenizer": self.tokenizer}

    def translate(
        self, /, texts: Sequence[str], *, beam_size: int | None = None, **options: Any
    ) -> list[str]:
        """One translation per text, in order; an empty text stays empty. The options are those of
        `decode`; what is not given is as in validation."""
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
        """Translations, or how prompts go on, with all that the model thought of them.

        search: keys of `GenerationConfig`, such as beam_size, alpha and n_best. With `sampling`,
        `n_best` texts are drawn instead of searched for. prefix: how every translation begins.
        forbid: words that are not written. force: words that are, or ids of tokens, at their
        places. ensemble: models whose probabilities are averaged with this one's. tree: keep every
        prefix that the search has looked at. trace: of one text, the best result is read again with
        it. What it edits is edited in every step of the search too, where an edit is given the
        newest tokens alone.
        """
        several(texts)
        text_generator, word_constraints = (
            self._together(ensemble),
            WordConstraints(forbid, force or {}),
        )
        config = self.generation_config(**search)
        if sampling is None and not tree and "beam_size" not in search:
            sampling = self.task.sampling  # of an opened model whose folder says do_sample
        if trace is not None and len(texts) != 1:
            raise InputError(f"a trace holds one text, but {len(texts)} were given; call for each")
        edited = NO_TRACE if trace is None else trace.edits()
        if ensemble and edited is not NO_TRACE:
            raise InputError("the edits of a trace are those of one model; leave ensemble out")
        if sampling is None:
            decoded = text_generator.search(
                texts, config, word_constraints, prefix=prefix, tree=tree, trace=edited
            )
        else:
            if tree:
                raise InputError("sampling has no tree; leave tree or sampling out")
            decoded = text_generator.sample(
                texts, sampling, config, word_constraints,
                seed=seed, samples=config.n_best, prefix=prefix, trace=edited,
            )  # fmt: skip
        if trace is not None:
            _best(1, decoded[0])
            text_generator.read(decoded[0], prefix, trace)
            trace.check()
        return decoded

    def generation_config(self, /, **options: Any) -> GenerationConfig:
        """How texts are generated: as in validation, changed by the options."""
        task = self.task
        if isinstance(task, Translate):
            return settings(task.search, options)
        base = task.search or GenerationConfig(max_length=MAX_LENGTH)
        if base.max_length is None and base.max_total_length is None:
            base = base.with_options(max_length=MAX_LENGTH)
        return settings(base, options)

    def score(self, source: str, target: str | None = None) -> Scored:
        """The log-probability of a translation, or for a language model of a text, token by token,
        the end included."""
        return self.scores([source], None if target is None else [target])[0]

    def scores(
        self,
        sources: Sequence[str],
        targets: Sequence[str] | None = None,
        *,
        ensemble: Sequence[Generates] = (),
    ) -> list[Scored]:
        """The same for many, in few batches."""
        several(sources)
        if targets is not None and len(sources) != len(targets):
            raise InputError(
                f"{len(sources):,} sources and {len(targets):,} targets; give one for each"
            )
        return self._together(ensemble).score(sources, targets)

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
        """The prompt and how it goes on, sampled; temperature 0 always takes the likeliest
        token. Of several prompts or samples a list, the samples of the first prompt first.

        What is not given is as an opened model's generation_config.json says (without do_sample,
        its likeliest text); for other models temperature 1 and at most 100 tokens. The same seed
        gives the same text for a prompt, alone or among others. The text ends before the first of
        the `stop` texts. `SamplingConfig` and `GenerationConfig` explain the rest.
        """
        expect(self.task, "language")
        config = self._config(max_length, no_repeat_ngram, repetition_penalty)
        by = self._sampling(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p)
        prompts = [prompt] if isinstance(prompt, str) else prompt
        words = WordConstraints(forbid)
        if by is None and (stop or samples > 1):
            raise InputError(
                "stop and samples: for texts that are drawn, but this model's folder asks for a "
                f"beam search (num_beams = {config.beam_size}); give a temperature"
            )
        if by is None:
            decoded = self._alone.search(prompts, config, words)
            texts = [_best(number, result) for number, result in enumerate(decoded, start=1)]
        else:
            decoded = self._alone.sample(
                prompts, by, config, words, seed=seed, samples=samples, stop=stop
            )
            texts = [text.text for result in decoded for text in result.texts]
        return texts[0] if isinstance(prompt, str) and samples == 1 else texts

    def stream(
        self,
        prompt: str = "",
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
        """The text of `generate`, piece by piece as it is written, the prompt first; of a beam
        search, all at once. `sample` is the text's number among the samples of the prompt."""
        expect(self.task, "language")
        config = self._config(max_length, no_repeat_ngram, repetition_penalty)
        by = self._sampling(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p)
        words = WordConstraints(forbid)
        if by is None:
            (decoded,) = self._alone.search([prompt], config, words)
            return iter([_best(1, decoded)])
        return self._alone.stream(prompt, by, config, words, seed=seed, sample=sample, stop=stop)

    def _config(
        self, max_length: int | None, no_repeat_ngram: int | None, repetition_penalty: float | None
    ) -> GenerationConfig:
        options = {
            "max_length": max_length,
            "no_repeat_ngram": no_repeat_ngram,
            "repetition_penalty": repetition_penalty,
        }
        chosen = {name: value for name, value in options.items() if value is not None}
        return self.generation_config(**chosen)

    def _sampling(self, **options: float | None) -> SamplingConfig | None:
        """How a language model draws; None: its folder asks for a beam search."""
        chosen = {name: value for name, value in options.items() if value is not None}
        task: Language = expect(self.task, "language")
        own = task.sampling
        if chosen or own is not None:
            return SamplingConfig(**((own.model_dump() if own else {}) | chosen))
        if task.search is None:
            return SamplingConfig()
        return SamplingConfig(temperature=0.0) if task.search.beam_size == 1 else None

    def logprob_difference(
        self, other: Generates, texts: Sequence[str], sources: Sequence[str] | None = None
    ) -> PrecisionDifference:
        """Compare the log-probabilities that two models for the same task give to texts.

        sources: for translation models, the sources that `texts` translate.
        """
        task, theirs = self.task, other.text_generator.network
        if isinstance(task, Language):
            ids = [[*start, *rest] for start, rest in map(task.prompt, several(texts))]
            return difference(self.network, theirs, ids)
        ids = [[*task.target.start_ids, *task.target.encode(text)] for text in several(texts)]
        read = [task.frame(task.source.encode(text)) for text in sources or ()]
        inputs = GenerationInputs.of(*pad(read, task.source.pad_id))
        return difference(self.network, theirs, ids, inputs)

    def _together(self, ensemble: Sequence[Generates]) -> TextGenerator:
        """This one and others that decide with it: for the same task, with the same tokens."""
        if not ensemble:
            return self._alone
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
                        "the models have different vocabularies; only models that were trained "
                        "with one tokenizer can form an ensemble: train the second with "
                        f"tokenizer.folder = the folder {name} of the first"
                    )
        return TextGenerator(
            self.task, self.network, [other.text_generator.network for other in ensemble]
        )


def _best(number: int, decoded: Decoded) -> str:
    if not decoded.texts:
        raise InputError(
            f"text {number}, {decoded.source[:40]!r}: the constraints leave nothing to write; "
            "loosen forbid, force, no_repeat_ngram or min_length"
        )
    return decoded.texts[0].text
