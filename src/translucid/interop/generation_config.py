"""Read generation_config.json: every field is applied, ignored because it has no effect, or
rejected with an error that names it.

FIELDS lists all of them; a test compares it with transformers' GenerationConfig. In older folders,
the same keys are in config.json.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from translucid.core.errors import InputError
from translucid.core.untrusted_files import read_object
from translucid.interop.families.plan import CONFIG, ForeignModel, Options
from translucid.models.sequence_config import SequenceConfig
from translucid.tasks.model_folder import Bundle
from translucid.tasks.options import DataConfig, DecodingConfig
from translucid.tasks.translate import Translate

FILE = "generation_config.json"
MAX_BEAMS = 1024
TOP_K = 50  # transformers' default for sampling
# Keys in a model's statistics: decoding options from the file, sampling options, the file itself.
SETTINGS, SAMPLING, ORIGINAL = "generation", "sampling", "generation_config"

# Fields that are applied, and how.
HONOURED: Mapping[str, str] = {
    "num_beams": "beam_size; 1 if not set",
    "length_penalty": "alpha, not negative",
    "early_stopping": "early_stopping",
    "max_length": "max_total_length, including start tokens or the prompt",
    "max_new_tokens": "max_length; overrides max_length",
    "min_length": "min_total_length",
    "min_new_tokens": "min_length; overrides min_length",
    "no_repeat_ngram_size": "no_repeat_ngram",
    "repetition_penalty": "repetition_penalty",
    "bad_words_ids": "forbid_ids",
    "suppress_tokens": "forbid_ids",
    "begin_suppress_tokens": "forbid_first_ids",
    "forced_eos_token_id": "forced_end_ids",
    "renormalize_logits": "renormalise",
    "do_sample": "sampling instead of search",
    "temperature": "with do_sample", "top_k": "with do_sample; 50 if not set",
    "top_p": "with do_sample", "min_p": "with do_sample",
    **dict.fromkeys(
        ("decoder_start_token_id", "forced_bos_token_id", "bos_token_id", "eos_token_id",
         "pad_token_id"), "by the tokenizer's special tokens",
    ),
}  # fmt: skip
SPEED = "changes the speed, not the text"
DRAFT = "draft tokens are only accepted if the model would generate them too"
REPORT = "changes what is returned in addition to the text"
# Fields without effect in Translucid, and why.
IRRELEVANT: Mapping[str, str] = {
    **dict.fromkeys(
        ("use_cache", "max_cache_len", "cache_config", "low_memory", "compile_config",
         "disable_compile", "prefill_chunk_size", "continuous_batching_config"), SPEED,
    ),
    **dict.fromkeys(
        ("output_attentions", "output_hidden_states", "output_scores", "output_logits",
         "return_dict_in_generate", "transformers_version"), REPORT,
    ),
    **dict.fromkeys(
        ("is_assistant", "num_assistant_tokens", "num_assistant_tokens_schedule",
         "assistant_confidence_threshold", "assistant_lookbehind", "target_lookbehind",
         "assistant_early_exit", "assistant_ensemble_weight", "prompt_lookup_num_tokens",
         "max_matching_ngram_size", "use_mtp", "speculation_type"), DRAFT,
    ),
    "num_return_sequences": "the number of texts to return; use n_best",
    "remove_invalid_values": "replaces values that are not finite, which do not occur",
    "diversity_penalty": "no effect without num_beam_groups",
    "_from_model_config": REPORT,
}  # fmt: skip
# Fields that are rejected unless the value is null or one of these, and what the field does.
REFUSED: Mapping[str, tuple[tuple[Any, ...], str]] = {
    "num_beam_groups": ((1,), "groups of beams; translate has --beam-groups"),
    "penalty_alpha": ((0, 0.0), "contrastive search"),
    "dola_layers": ((), "decoding by contrasting layers"),
    "guidance_scale": ((1, 1.0), "classifier-free guidance"),
    "sequence_bias": (({}, []), "a bias for token sequences"),
    "encoder_repetition_penalty": ((1, 1.0), "a penalty for tokens of the source"),
    "encoder_no_repeat_ngram_size": ((0,), "n-grams of the source are never generated"),
    "exponential_decay_length_penalty": ((), "an end token that gets more likely with length"),
    "force_words_ids": (([],), "words that must be generated"),
    "constraints": (([],), "constraints on beams"),
    "watermarking_config": ((), "a watermark"),
    "token_healing": ((False,), "replacing the last token of the prompt"),
    "max_time": ((), "a time limit"),
    "stop_strings": (([],), "strings at which to stop; generate has --stop"),
    "cache_implementation": (
        ("dynamic", "static", "offloaded", "offloaded_static", "hybrid", "sliding_window"),
        "a quantized cache",
    ),
}
# Fields that are rejected when sampling, and have no effect otherwise.
REFUSED_SAMPLING: Mapping[str, tuple[tuple[Any, ...], str]] = {
    "typical_p": ((1, 1.0), "typical sampling"),
    "epsilon_cutoff": ((0, 0.0), "epsilon sampling"),
    "eta_cutoff": ((0, 0.0), "eta sampling"),
    "top_h": ((), "sampling by entropy"),
}
OF_SAMPLING = ("temperature", "top_k", "top_p", "min_p")
TOKENS = tuple(name for name in HONOURED if name.endswith("_token_id"))
FIELDS = (*HONOURED, *IRRELEVANT, *REFUSED, *REFUSED_SAMPLING)
# Keys of config.json that do not concern generation.
NOT_LEGACY = ("use_cache", "output_attentions", "output_hidden_states", "transformers_version",
              *TOKENS)  # fmt: skip
LEGACY = tuple(name for name in FIELDS if name not in NOT_LEGACY or name == "forced_eos_token_id")


@dataclass(frozen=True)
class Generation:
    """The generation options of a folder, translated into Translucid's options."""

    decoding: dict[str, Any]  # keys of DecodingConfig
    statistics: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def read_generation(model: ForeignModel, start: Sequence[int] | None, vocab: int) -> Generation:
    """Read the generation options of a model's folder. start: the first tokens of an
    encoder-decoder's texts; None: a language model, which continues a prompt. vocab: the number of
    tokens that the model can generate."""
    config, own = model.config, model.find(FILE)
    where = CONFIG if own is None else FILE
    if own is None:
        raw = {name: config.get(name) for name in LEGACY if config.get(name) is not None}
    else:
        raw = {k: v for k, v in read_object(own).items() if v is not None}
    read = _GenerationFields(raw, str(model.folder / where), vocab)
    read.refuse_unsupported()
    settings = read.lengths(start) | read.search() | read.tokens()
    sampling = read.sampling()
    decoding = {"beam_size": read.beams, "alpha": read.alpha}
    settings["length_offset"] = 0 if start is None else len(start) - 1
    ids = {name: config.get(name) for name in TOKENS if config.get(name) is not None}
    statistics: dict[str, Any] = {
        SETTINGS: settings,
        ORIGINAL: {"file": where, "fields": raw if own else ids | raw},
    }
    if sampling is not None:
        statistics[SAMPLING] = sampling
    return Generation(decoding, statistics, tuple(_notes(read, where, sampling, config)))


class _GenerationFields(Options):
    def __init__(self, raw: Mapping[str, Any], where: str, vocab: int) -> None:
        super().__init__(raw, where)
        self.raw, self.vocab = raw, vocab
        self.samples = self.flag("do_sample", False)
        self.beams = self.within("num_beams", 1, 1, MAX_BEAMS, whole=True)
        self.alpha = self.within("length_penalty", 1.0, 0, 100)

    def refuse_unsupported(self) -> None:
        """Raise an error that lists all unsupported fields that would change the texts."""
        table = {**REFUSED, **(REFUSED_SAMPLING if self.samples else {})}
        wrong = [
            f"{name} = {str(self.raw[name])[:60]} ({what})"
            for name, (neutral, what) in table.items()
            if name in self.raw and self.raw[name] not in neutral
        ]
        if self.samples and self.beams > 1:
            wrong.append("do_sample = True with num_beams > 1 (beam sampling)")
        if wrong:
            raise InputError(
                f"{self.where}: {'; '.join(wrong)}: not supported; copy the folder and remove "
                f"{'these keys' if len(wrong) > 1 else 'this key'} from the copy"
            )

    def lengths(self, start: Sequence[int] | None) -> dict[str, Any]:
        """The length limits. In transformers, max_length and min_length include all start tokens of
        an encoder-decoder; max_new_tokens and min_new_tokens include all but the first."""
        forced = 0 if start is None else len(start) - 1
        made: dict[str, Any] = {}
        if "max_new_tokens" in self.raw:
            new = self.within("max_new_tokens", 0, 1, 1 << 40, whole=True)
            made["max_length"] = max(new - forced, 1)
        elif "max_length" in self.raw:
            total = self.within("max_length", 0, 1, 1 << 40, whole=True)
            made["max_total_length"] = total if start is None else max(total, len(start) + 1)
        if "min_new_tokens" in self.raw:
            new = self.within("min_new_tokens", 0, 0, 1 << 40, whole=True)
            made["min_length"] = max(new - forced, 0)
        if self.raw.get("min_length") and "min_new_tokens" not in self.raw:
            made["min_total_length"] = int(self.within("min_length", 0, 0, 1 << 40, whole=True))
        if "min_length" in made and made.get("max_length", 1 << 40) < made["min_length"]:
            made["min_length"] = made["max_length"]  # no text ends before the maximum length
        return made

    def search(self) -> dict[str, Any]:
        early = self.raw.get("early_stopping", False)
        if early not in (True, False, "never") or isinstance(early, int) != (early in (0, 1)):
            self.refuse("early_stopping", self.raw.get("early_stopping"), "true, false or never")
        made: dict[str, Any] = {"early_stopping": early, "count_start": True}
        made["renormalise"] = self.flag("renormalize_logits", False)
        made["no_repeat_ngram"] = self.within("no_repeat_ngram_size", 0, 0, 1 << 20, whole=True)
        made["repetition_penalty"] = float(self.within("repetition_penalty", 1.0, 1e-6, 1e6))
        return made

    def tokens(self) -> dict[str, Any]:
        """Decoding constraints given as token ids."""
        runs = self.raw.get("bad_words_ids", [])
        if not isinstance(runs, list) or not all(self._are_ids(run) and run for run in runs):
            self.refuse("bad_words_ids", self.raw.get("bad_words_ids"), "a list of lists of ids")
        never = [[i] for i in self._ids("suppress_tokens")]
        made: dict[str, Any] = {"forbid_ids": [*runs, *never]}
        made["forbid_first_ids"] = self._ids("begin_suppress_tokens")
        made["forced_end_ids"] = self._ids("forced_eos_token_id")
        return made

    def sampling(self) -> dict[str, Any] | None:
        """The sampling options; None if texts are not sampled."""
        if not self.samples:
            return None
        made: dict[str, Any] = {"temperature": self.within("temperature", 1.0, 1e-6, 1e6)}
        top_k = self.within("top_k", TOP_K, 0, 1 << 40, whole=True)
        if top_k:
            made["top_k"] = top_k
        for name in ("top_p", "min_p"):
            value = self.within(name, 0.0, 0, 1)
            if value and (name, value) != ("top_p", 1.0):
                made[name] = value
        return made

    def _ids(self, name: str) -> list[int]:
        value = self.raw.get(name, [])
        ids = [value] if isinstance(value, int) else value
        if not self._are_ids(ids):
            self.refuse(name, value, f"token ids from 0 to {self.vocab - 1:,}")
        return list(ids)

    def _are_ids(self, value: Any) -> bool:
        return isinstance(value, list) and all(
            isinstance(i, int) and not isinstance(i, bool) and 0 <= i < self.vocab for i in value
        )


def _notes(
    read: _GenerationFields, where: str, sampling: Mapping[str, Any] | None, config: Options
) -> list[str]:
    """Notes on fields that were applied, have no effect, or are unknown."""
    raw = read.raw
    of_sampling = (*OF_SAMPLING, *REFUSED_SAMPLING)
    taken = [name for name in HONOURED if name in raw and not name.endswith("_token_id")]
    taken += ["forced_eos_token_id"] * ("forced_eos_token_id" in raw)
    unused = [name for name in of_sampling if name in raw and sampling is None]
    taken = [name for name in taken if name not in unused]
    shown = ", ".join(f"{name} = {_short(raw[name])}" for name in taken)
    mode = "sampling" if sampling is not None else "greedy"
    if read.beams > 1:
        mode = f"beam search, {read.beams} beams"
    if sampling is not None and "top_k" not in raw:
        mode += f", top_k = {TOP_K} (transformers' default)"
    notes = [f"decoding as transformers' generate(): {mode}; from {where}: {shown or 'none'}"]
    if unused:
        notes.append(f"{where}: no effect without do_sample: {', '.join(unused)}")
    unknown = [name for name in raw if name not in FIELDS]
    if unknown:
        notes.append(f"{where}: unknown keys, not applied: {', '.join(unknown)[:300]}")
    if not {"max_length", "max_new_tokens"} & raw.keys():
        notes.append(
            f"{where} sets no maximum length, so Translucid's default applies (generate() would "
            "stop after 20 tokens)"
        )
    tasks = config.get("task_specific_params")
    if isinstance(tasks, dict) and tasks:
        notes.append(
            f"config.json: task_specific_params ({', '.join(map(str, tasks))[:200]}) are not "
            "applied; pass those that your task needs as options"
        )
    return notes


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def search_of(held: Bundle) -> DecodingConfig | None:
    """The search options of a model; None if its task does not generate text by search."""
    return DecodingConfig(**held.decoding) if held.task == Translate.name else None


def searched(held: Bundle, where: str) -> list[str]:
    """A note on the search options of an exported model; empty if the model has none. where: text
    for the end of the note, on how to pass the options to the other tool."""
    search = search_of(held)
    if search is None:
        return []
    return [
        f"decoding as in the run: beam_size = {search.beam_size}, alpha = {search.alpha}; {where}"
    ]


def as_call(held: Bundle) -> str:
    """The search options as arguments of CTranslate2's translate_batch."""
    search = search_of(held)
    return "" if search is None else f"beam_size={search.beam_size}, length_penalty={search.alpha}"


def as_theirs(held: Bundle) -> dict[str, Any]:
    """The search options as keys of generation_config.json. The maximum length is computed for the
    longest source in the training data, since the key is one number for all sources."""
    search = search_of(held)
    if search is None:
        return {}
    config = held.network.config
    table = config.context_length if isinstance(config, SequenceConfig) else None
    max_length = 2 * DataConfig(**held.data).max_length + 10
    max_length = max_length if table is None else min(max_length, table)
    theirs: dict[str, Any] = {"num_beams": search.beam_size, "max_length": max_length}
    if search.beam_size > 1:
        theirs["early_stopping"] = (
            "never"  # as in Translucid: search until no better text is possible
        )
    if (
        search.beam_size > 1 or search.alpha != 1.0
    ):  # otherwise transformers warns that it has no effect
        theirs["length_penalty"] = search.alpha
    return theirs


def original_of(held: Bundle) -> dict[str, Any] | None:
    """The generation_config.json of an imported model, or the same keys of its config.json. None if
    the model was not in Hugging Face's layout."""
    original = held.statistics.get(ORIGINAL)
    if not isinstance(original, dict):
        return None
    return dict(original["fields"])


def read_decoding(model: ForeignModel) -> tuple[dict[str, Any], list[str]]:
    """The search options that Translucid's export wrote next to a CTranslate2 model, and notes."""
    path = model.find(FILE)
    if path is None:
        return {}, []
    theirs = Options(read_object(path), str(path))
    ours: dict[str, Any] = {}
    if theirs.get("num_beams") is not None:
        ours["beam_size"] = theirs.within("num_beams", 1, 1, MAX_BEAMS, whole=True)
    if theirs.get("length_penalty") is not None:
        ours["alpha"] = theirs.within("length_penalty", 1, 0, 100)
    shown = ", ".join(f"{name} = {value}" for name, value in ours.items())
    return ours, [f"decoding from {FILE}: {shown}"] if ours else []
