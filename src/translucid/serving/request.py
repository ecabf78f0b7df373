"""A job, checked and turned into token ids, limits and constraints."""

from collections.abc import Callable, Hashable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from translucid.core.errors import InputError
from translucid.core.trace import Trace
from translucid.generate import constraints
from translucid.generate.beam_search import GenerationConfig, Round
from translucid.generate.constraints import Constraint
from translucid.generate.decode import has_captured_search, limits
from translucid.generate.sampling import uniforms
from translucid.generate.word_constraints import WordConstraints
from translucid.models.autoregressive import GenerationInputs
from translucid.serving.job import Job
from translucid.serving.tracing import with_edit
from translucid.tasks.generator import Generator, check_stop
from translucid.tasks.language import Language
from translucid.tasks.next_tokens import never_generated, prefixes_and_sources
from translucid.tasks.translate import Translate

if TYPE_CHECKING:
    from translucid.generate.tree import Tree

MOST_BIAS = 100  # as in the API that introduced logit_bias


class Request:
    """A job with everything that generation needs. The constructor raises InputError for a job that
    the model cannot do."""

    def __init__(self, job: Job, generator: Generator) -> None:
        self.job, self.generator, self.tokenizer = job, generator, generator.tokenizer
        self.watch: Callable[[Round], None] | None = None
        self._check()
        network = generator.network
        self.model = with_edit(network, job.edit) if job.edit else generator.model
        self.config = self._config()
        self.item = self._item()
        self.inputs: GenerationInputs | None = None
        if isinstance(generator.task, Language):
            self.prefix = list(self.item.ids)
        else:  # on the CPU: the values are needed here, and waiting for a GPU takes long
            batch = generator.task.collate([self.item])
            (self.prefix,), self.inputs = prefixes_and_sources(batch)
        self.empty = generator.is_empty(self.item)  # its translation is empty
        self._check_room()
        least, most = limits(
            generator.model, [self.prefix], self.inputs, self.config, torch.device("cpu")
        )
        self.least, self.most = int(least), int(most)
        words = WordConstraints(job.forbid, job.force)
        self.named_constraints = words.token_constraints(
            self.tokenizer, self.config, len(self.prefix), special=generator.start_size
        )

    def _check(self) -> None:
        job = self.job
        check_stop(job.stop)
        Trace(job.trace, edit=job.edit).edits()  # raises an error if decoding cannot do them
        if job.trace and job.n > 1:
            raise InputError(f"trace: covers one text, but n = {job.n}; omit n or trace")
        if job.n < 1:
            raise InputError(f"n = {job.n}: must be at least 1")
        if job.top_logprobs < 0:
            raise InputError(f"top_logprobs = {job.top_logprobs}: must be at least 0")
        if job.only_prompt and not job.echo:
            raise InputError("only_prompt needs echo, since nothing is generated; set echo")
        if job.echo and not isinstance(self.generator.task, Language):
            raise InputError("echo: only a language model predicts its prompt; omit echo")
        if job.sampling is None:
            for name in ("stop", "top_logprobs", "echo"):
                if getattr(job, name):
                    raise InputError(f"{name} is for sampling, not for beam search; set sampling")
        elif job.tree:
            raise InputError("sampling has no search tree; omit tree or sampling")
        vocab = self.generator.network.vocab
        for token, bias in job.logit_bias.items():
            if not 0 <= token < vocab:
                raise InputError(
                    f"logit_bias: token {token} is not in the vocabulary of {vocab} tokens"
                )
            if not abs(bias) <= MOST_BIAS:
                raise InputError(
                    f"logit_bias: {bias} for token {token} is not between -{MOST_BIAS} and "
                    f"{MOST_BIAS}"
                )

    def _config(self) -> GenerationConfig:
        job, options = self.job, dict(self.job.generation)
        if job.sampling is None and job.n > 1:
            options["n_best"] = job.n
        config = self.generator.generation_config(**options)
        self.tree_changes_search = (
            job.tree and config.early_stopping is not None and config.beam_size > 1
        )
        return config.with_options(early_stopping=None) if self.tree_changes_search else config

    def tree(self) -> "Tree | None":
        """A new search tree, if the job asks for one. The search calls `watch` after each round."""
        if not self.job.tree:
            return None
        from translucid.generate.tree import Tree  # seldom needed

        tree = Tree(self.config, self.tokenizer.eos_id, self.least, self.most)
        tree.constraints, self.watch = self.named_constraints, tree.watch
        return tree

    def _item(self) -> Any:
        return self.generator.items([self.job.prompt], self.job.prefix)[0]

    def _check_room(self) -> None:
        """Raise InputError if the source or prompt is longer than the model can read."""
        generator = self.generator
        generator.task.check_item(self.item, "the request", generator.network)
        room = generator.model.max_length
        if room is not None and len(self.prefix) >= room and not self.job.only_prompt:
            raise InputError(
                f"the prompt has {len(self.prefix):,} tokens, but the model reads at most "
                f"{room:,}, including one to generate; shorten the prompt"
            )

    @cached_property
    def beams(self) -> int:
        return 1 if self.job.sampling is not None else self.config.beam_size

    @cached_property
    def sources(self) -> int:
        """The rows of the state before it is split into beams: one for each sample."""
        return self.job.n if self.job.sampling is not None else 1

    @property
    def together(self) -> Hashable:
        """Equal for requests whose rows may take their steps together: an edit would also reach the
        other rows and their padding."""
        return self.beams, self if self.job.edit else None

    @property
    def simple(self) -> bool:
        """Whether it samples without constraints that look at earlier tokens or change single
        scores, and needs only the log-probabilities of its tokens."""
        job, config = self.job, self.config
        return job.sampling is not None and not (
            job.edit or job.top_logprobs or job.logit_bias or self.penalised
            or self.named_constraints or config.constraints(len(self.prefix))
            or config.forced_end_ids
        )  # fmt: skip

    @property
    def searchable(self) -> bool:
        """Whether it is a search without constraints that look at earlier tokens or change single
        scores, and whose rounds need not be seen."""
        job, config = self.job, self.config
        return job.sampling is None and has_captured_search(config) and not (
            job.edit or job.tree or job.logit_bias or self.penalised or job.ignore_eos
            or self.named_constraints
        )  # fmt: skip

    @cached_property
    def rows(self) -> int:
        """The rows that it occupies in a batch."""
        return self.beams * self.sources

    @cached_property
    def steps(self) -> int:
        """The steps that it probably takes at most. Translations are seldom more than twice as long
        as their sources, although many models allow them hundreds of tokens."""
        likely = max(self.least, 2 * len(self.source) + 10) if self.source else self.most
        return min(self.most, likely)

    @cached_property
    def length(self) -> int:
        """The tokens that the cache of a row may hold."""
        return len(self.prefix) + self.most

    @property
    def prompt_tokens(self) -> int:
        """The tokens of the prompt or source, with special tokens."""
        return len(self.prefix) + len(self.source)

    @property
    def read_tokens(self) -> int:
        """The tokens that are read before the first step."""
        return len(self.prefix) - 1 + len(self.source)

    @property
    def source_pad(self) -> int:
        """The token that pads sources."""
        task = self.generator.task
        return task.source.pad_id if isinstance(task, Translate) else 0

    @cached_property
    def source(self) -> list[int]:
        """The tokens of the source; empty for a language model."""
        if self.inputs is None or self.inputs.source is None:
            return []
        source: list[int] = self.inputs.source[0].tolist()
        return source

    def numbers(self) -> Tensor:
        """The random numbers of each sample: (samples, tokens)."""
        ids = [*self.source, *self.prefix]
        return torch.stack([uniforms(self.job.seed, ids, i, self.most) for i in range(self.job.n)])

    @property
    def special(self) -> int:
        """The number of special tokens that the model puts before the prompt. Those that begin a
        prompt of token ids belong to the prompt."""
        prompt = self.job.prompt
        if isinstance(prompt, str):
            return self.generator.start_size
        return len(self.prefix) - len(prompt)

    @property
    def penalised(self) -> bool:
        return bool(self.job.presence_penalty or self.job.frequency_penalty)

    @property
    def constraints(self) -> list[Constraint]:
        """All constraints, in the order in which they apply."""
        job = self.job
        own = []
        if never := never_generated(self.tokenizer, self.generator.network):
            own.append(constraints.forbid(never))
        if job.logit_bias:
            own.append(constraints.add_bias(job.logit_bias))
        if self.penalised:
            penalty = constraints.occurrence(job.presence_penalty, job.frequency_penalty)
            own.append(constraints.behind_start(penalty, len(self.prefix)))
        if job.ignore_eos:
            own.append(constraints.forbid([self.tokenizer.eos_id]))
        return [*own, *(constraint for _, constraint in self.named_constraints)]

    def settings(self) -> tuple[Hashable, ...] | None:
        """Equal for requests whose rows may share one search. None: this one needs its own, since
        a constraint depends on where its text starts, or a search tree is kept."""
        job, config = self.job, self.config
        if job.tree or job.force or config.forbid_first_ids:
            return None
        same = config.with_options(max_length=None, min_length=0)  # each row has its own limits
        return (
            same, job.sampling, tuple(job.forbid), tuple(sorted(job.logit_bias.items())),
            job.ignore_eos, job.presence_penalty, job.frequency_penalty,
            len(self.prefix) if self.penalised else 0,
        )  # fmt: skip
