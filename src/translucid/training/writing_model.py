"""What a model that writes can be asked for: the part of `Model` that is about text."""

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from typing import Any, Self

from translucid.data.batching import pad
from translucid.data.tokenizers import Tokenizer
from translucid.decoding.sampling import Sampling
from translucid.decoding.search import Search
from translucid.errors import InputError
from translucid.fast.precision import Difference, Precision, difference, prepare
from translucid.models.autoregressive import GenerationInputs
from translucid.models.base import AutoregressiveNetwork, Network
from translucid.tasks.base import Task, TaskName
from translucid.tasks.language import Language
from translucid.tasks.translate import Translate
from translucid.tasks.wishes import Wishes
from translucid.tasks.writing import Scribe, settings
from translucid.tasks.written import Decoded, Scored
from translucid.trace import NO_TRACE, Trace
from translucid.training.bundle import Bundle

LONGEST = 100  # tokens that a language model writes unless told otherwise


class WritingModel:
    """Translators and language models, side by side."""

    network: Network
    task: Task[Any, Any]
    _bundle: Bundle
    _alone: Scribe | None = None

    def translate(
        self, texts: Sequence[str], *, beam: int | None = None, **options: Any
    ) -> list[str]:
        """One translation per text, in order; an empty text stays empty. The options are those of
        `decode`; what is not given is as in validation."""
        self._as(Translate)
        more: dict[str, Any] = {} if beam is None else {"beams": beam}
        return [
            _best(number, found)
            for number, found in enumerate(self.decode(texts, **more, **options), start=1)
        ]

    def decode(
        self,
        texts: Sequence[str],
        *,
        prefix: str = "",
        forbid: Sequence[str] = (),
        force: Mapping[int, str | int] | None = None,
        beside: Sequence["WritingModel"] = (),
        sampling: Sampling | None = None,
        seed: int = 0,
        tree: bool = False,
        trace: Trace | None = None,
        **search: Any,
    ) -> list[Decoded]:
        """Translations, or how prompts go on, with all that the model thought of them.

        search: keys of `Search`, such as beams, alpha and best. With `sampling`, `best` texts are
        drawn instead of searched for. prefix: how every translation begins. forbid: words that are
        not written. force: words that are, or ids of tokens, at their places. beside: models that
        decide together with this one. tree: keep every prefix that the search has looked at.
        trace: of one text, the best result is read again with it. What it edits is edited in every
        step of the search too, where an edit is given the newest tokens alone.
        """
        several(texts)
        scribe, wishes = self._scribe(beside), Wishes(forbid, force or {})
        how = self.search(**search)
        if trace is not None and len(texts) != 1:
            raise InputError(f"a trace holds one text, but {len(texts)} were given; call for each")
        edited = NO_TRACE if trace is None else trace.edits()
        if beside and edited is not NO_TRACE:
            raise InputError("the edits of a trace are those of one model; leave beside out")
        if sampling is None:
            found = scribe.search(texts, how, wishes, prefix=prefix, tree=tree, trace=edited)
        else:
            if tree:
                raise InputError("drawing by chance has no tree; leave tree or sampling out")
            found = scribe.sample(
                texts, sampling, how, wishes,
                seed=seed, samples=how.best, prefix=prefix, trace=edited,
            )  # fmt: skip
        if trace is not None:
            _best(1, found[0])
            scribe.read(found[0], prefix, trace)
            trace.check()
        return found

    def search(self, **options: Any) -> Search:
        """The settings of a search: those of validation, with some of them changed."""
        task = self._as(Translate, Language)
        base = task.search if isinstance(task, Translate) else Search(longest=LONGEST)
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
        beside: Sequence["WritingModel"] = (),
    ) -> list[Scored]:
        """The same for many, in few batches."""
        several(sources)
        if targets is not None and len(sources) != len(targets):
            raise InputError(
                f"{len(sources):,} sources and {len(targets):,} targets; give one for each"
            )
        return self._scribe(beside).score(sources, targets)

    def generate(
        self,
        prompt: str | Sequence[str] = "",
        *,
        tokens: int = LONGEST,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        min_p: float | None = None,
        seed: int = 0,
        samples: int = 1,
        stop: Sequence[str] = (),
        no_repeat: int = 0,
        repetition: float = 1.0,
        forbid: Sequence[str] = (),
    ) -> str | list[str]:
        """The prompt and how it goes on, drawn by chance; temperature 0 always takes the likeliest
        token. Of several prompts or samples a list, the samples of the first prompt first.

        The same seed gives the same text for a prompt, alone or among others. The text ends before
        the first of the `stop` texts. `Sampling` and `Search` explain the rest.
        """
        self._as(Language)
        by = Sampling(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p)
        how = Search(longest=tokens, no_repeat=no_repeat, repetition=repetition)
        prompts = [prompt] if isinstance(prompt, str) else prompt
        found = self._scribe().sample(
            prompts, by, how, Wishes(forbid), seed=seed, samples=samples, stop=stop
        )
        texts = [text.text for each in found for text in each.texts]
        return texts[0] if isinstance(prompt, str) and samples == 1 else texts

    def stream(
        self,
        prompt: str = "",
        *,
        tokens: int = LONGEST,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        min_p: float | None = None,
        seed: int = 0,
        sample: int = 0,
        stop: Sequence[str] = (),
        no_repeat: int = 0,
        repetition: float = 1.0,
        forbid: Sequence[str] = (),
    ) -> Iterator[str]:
        """The text of `generate`, piece by piece as it is written, the prompt first. `sample` is
        the text's number among the samples of the prompt."""
        self._as(Language)
        by = Sampling(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p)
        how = Search(longest=tokens, no_repeat=no_repeat, repetition=repetition)
        return self._scribe().stream(
            prompt, by, how, Wishes(forbid), seed=seed, sample=sample, stop=stop
        )

    def prepared(self, precision: Precision = "auto") -> Self:
        """The same model, packed for its processor or in other numbers: see `precision.prepare`. It
        writes; it cannot be saved."""
        twin = copy(self)
        twin.network = prepare(self.network, precision)
        return twin

    def apart(
        self, other: "WritingModel", texts: Sequence[str], sources: Sequence[str] | None = None
    ) -> Difference:
        """How far the log-probabilities of another network for the same task lie from this one's,
        on texts, for a translator translations of `sources`."""
        task = self._as(Translate, Language)
        if isinstance(task, Language):
            ids = [[task.start_id, *task.tokenizer.encode(text)] for text in several(texts)]
            return difference(self.network, other.network, ids)
        ids = [[task.target.bos_id, *task.target.encode(text)] for text in several(texts)]
        read = [[*task.source.encode(text), task.source.eos_id] for text in sources or ()]
        inputs = GenerationInputs.of(*pad(read, task.source.pad_id))
        return difference(self.network, other.network, ids, inputs)

    def _scribe(self, beside: Sequence["WritingModel"] = ()) -> Scribe:
        task = self._as(Translate, Language)
        for other in beside:
            if other.task.name != self.task.name:
                raise InputError(
                    f"a model for task {other.task.name} cannot decide together with one for "
                    f"{self.task.name}"
                )
            for name, tokenizer in self._bundle.tokenizers.items():
                theirs = other._bundle.tokenizers.get(name)
                if theirs is None or theirs.fingerprint != tokenizer.fingerprint:
                    raise InputError(
                        "the models have different vocabularies; only models that were trained "
                        "with one tokenizer can decide together: train the second with "
                        f"tokenizer.folder = the folder {name} of the first"
                    )
        networks = [model.network for model in (self, *beside)]
        writers = [network for network in networks if isinstance(network, AutoregressiveNetwork)]
        if beside:
            return Scribe(task, writers[0], writers[1:])
        if self._alone is None or self._alone.network is not self.network:
            self._alone = Scribe(task, writers[0])  # it keeps what a GPU has captured
        return self._alone

    @property
    def writes_with(self) -> Tokenizer:
        """The tokenizer of what the model writes."""
        return self._scribe().tokenizer

    def check_task(self, name: TaskName) -> None:
        """Refuse what this model was not trained for, before anything is read."""
        if self.task.name != name:
            self._as()

    def _as(self, *kinds: type[Any]) -> Any:
        """The task, if it is of this kind."""
        if not isinstance(self.task, kinds):
            verbs = {"translate": "translate", "classify": "classify", "tag": "tag",
                     "language": "generate", "regress": "predict"}  # fmt: skip
            raise InputError(
                f"this model is for task {self.task.name}; use model.{verbs[self.task.name]}"
            )
        return self.task


def several(texts: Sequence[str]) -> Sequence[str]:
    if isinstance(texts, str):
        raise InputError(f"a list of texts is needed, not one text; write [{texts[:20]!r}]")
    return texts


def _best(number: int, found: Decoded) -> str:
    if not found.texts:
        raise InputError(
            f"text {number}, {found.source[:40]!r}: the rules leave nothing to write; loosen "
            "forbid, force, no_repeat or shortest"
        )
    return found.texts[0].text
