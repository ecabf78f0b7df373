"""generation_config.json of an opened model: every field is honoured, has no effect here, or is
refused by name.

FIELDS is the whole list; a test compares it with transformers' own class. Where there is no such
file, the same keys may be in config.json, as older folders have them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from translucid.core.errors import InputError
from translucid.core.untrusted_files import present, read_object
from translucid.interop.families.plan import Options
from translucid.models.sequence_config import SequenceConfig
from translucid.tasks.model_folder import Bundle
from translucid.tasks.options import DataConfig, DecodingConfig
from translucid.tasks.translate import Translate

FILE = "generation_config.json"
MAX_BEAMS = 1024  # of a file that somebody else has made
TOP_K = 50  # what transformers samples among if the folder says nothing
# In the statistics of a model: our settings from the file, how it samples, and the file itself.
SETTINGS, SAMPLING, ORIGINAL = "generation", "sampling", "generation_config"

# Honoured, and how.
HONOURED: Mapping[str, str] = {
    "num_beams": "beam_size; 1 if not set",
    "length_penalty": "alpha, from 0 on",
    "early_stopping": "early_stopping",
    "max_length": "max_total_length, the start or the prompt counted",
    "max_new_tokens": "max_length; goes before max_length",
    "min_length": "min_total_length",
    "min_new_tokens": "min_length; goes before min_length",
    "no_repeat_ngram_size": "no_repeat_ngram",
    "repetition_penalty": "repetition_penalty",
    "bad_words_ids": "forbid_ids",
    "suppress_tokens": "forbid_ids",
    "begin_suppress_tokens": "forbid_first_ids",
    "forced_eos_token_id": "forced_end_ids",
    "renormalize_logits": "renormalise",
    "do_sample": "drawn at random instead of searched for",
    "temperature": "with do_sample", "top_k": "with do_sample; 50 if not set",
    "top_p": "with do_sample", "min_p": "with do_sample",
    **dict.fromkeys(
        ("decoder_start_token_id", "forced_bos_token_id", "bos_token_id", "eos_token_id",
         "pad_token_id"), "by the tokenizer's special tokens",
    ),
}  # fmt: skip
SPEED = "changes how fast texts are written, not which"
DRAFT = "a draft is only accepted where the model itself would write it"
REPORT = "changes what is reported beside a text"
# Of no effect here, and why.
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
    "num_return_sequences": "how many texts are returned, not which is the best: use n_best",
    "remove_invalid_values": "replaces values that are not finite; these are finite",
    "diversity_penalty": "of no effect without num_beam_groups",
    "_from_model_config": REPORT,
}  # fmt: skip
# Refused unless the value is one of these (null always is): what it would do.
REFUSED: Mapping[str, tuple[tuple[Any, ...], str]] = {
    "num_beam_groups": ((1,), "groups of beams; translate has --beam-groups"),
    "penalty_alpha": ((0, 0.0), "contrastive search"),
    "dola_layers": ((), "decoding by contrasting layers"),
    "guidance_scale": ((1, 1.0), "classifier-free guidance"),
    "sequence_bias": (({}, []), "a bias for runs of tokens"),
    "encoder_repetition_penalty": ((1, 1.0), "a penalty by the tokens of the source"),
    "encoder_no_repeat_ngram_size": ((0,), "no n-gram of the source is written"),
    "exponential_decay_length_penalty": ((), "ends that become likelier with length"),
    "force_words_ids": (([],), "words that must be written"),
    "constraints": (([],), "constraints on beams"),
    "watermarking_config": ((), "a watermark"),
    "token_healing": ((False,), "a prompt whose last token is replaced"),
    "max_time": ((), "a limit in seconds"),
    "stop_strings": (([],), "texts at which to stop; generate has --stop"),
    "cache_implementation": (
        ("dynamic", "static", "offloaded", "offloaded_static", "hybrid", "sliding_window"),
        "a cache that rounds",
    ),
}
# The same where texts are drawn; of no effect where they are not.
REFUSED_SAMPLING: Mapping[str, tuple[tuple[Any, ...], str]] = {
    "typical_p": ((1, 1.0), "typical sampling"),
    "epsilon_cutoff": ((0, 0.0), "epsilon sampling"),
    "eta_cutoff": ((0, 0.0), "eta sampling"),
    "top_h": ((), "sampling by entropy"),
}
OF_SAMPLING = ("temperature", "top_k", "top_p", "min_p")
TOKENS = tuple(name for name in HONOURED if name.endswith("_token_id"))
FIELDS = (*HONOURED, *IRRELEVANT, *REFUSED, *REFUSED_SAMPLING)
# In config.json these keys are the network's business, not that of writing.
NOT_LEGACY = ("use_cache", "output_attentions", "output_hidden_states", "transformers_version",
              *TOKENS)  # fmt: skip
LEGACY = tuple(name for name in FIELDS if name not in NOT_LEGACY or name == "forced_eos_token_id")


@dataclass(frozen=True)
class Generation:
    """How a folder says that texts are generated, in our terms."""

    decoding: dict[str, Any]  # keys of DecodingConfig
    statistics: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def read_generation(
    folder: Path, config: Options, start: Sequence[int] | None, vocab: int
) -> Generation:
    """config: what config.json holds. start: what an encoder-decoder starts its texts with; None:
    of a language model, which continues a prompt. vocab: how many tokens it can write."""
    own = present(folder / FILE)
    where = FILE if own else "config.json"
    if own:
        raw = {k: v for k, v in read_object(folder / FILE).items() if v is not None}
    else:
        raw = {name: config.get(name) for name in LEGACY if config.get(name) is not None}
    read = _GenerationFields(raw, str(folder / where), vocab)
    read.refuse_unsupported()
    settings = read.lengths(start) | read.search() | read.tokens()
    sampling = read.sampling()
    decoding = {"beam_size": read.beams, "alpha": read.alpha}
    settings["length_offset"] = 0 if start is None else len(start) - 1
    ids = {} if own else {name: config.get(name) for name in TOKENS if config.get(name) is not None}
    statistics: dict[str, Any] = {
        SETTINGS: settings,
        ORIGINAL: {"file": where, "fields": ids | raw},
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
        """Refuse all fields that would change the texts and are not supported here."""
        table = {**REFUSED, **(REFUSED_SAMPLING if self.samples else {})}
        wrong = [
            f"{name} = {str(self.raw[name])[:60]} ({what})"
            for name, (neutral, what) in table.items()
            if name in self.raw and self.raw[name] not in neutral
        ]
        if self.samples and self.beams > 1:
            wrong.append("do_sample = True beside num_beams > 1 (beams that are drawn)")
        if wrong:
            raise InputError(
                f"{self.where}: {'; '.join(wrong)}: cannot be computed here; remove "
                f"{'these keys' if len(wrong) > 1 else 'this key'} from a copy of the folder"
            )

    def lengths(self, start: Sequence[int] | None) -> dict[str, Any]:
        """Length limits. Theirs count the start tokens of an encoder-decoder, all but one of which
        are generated."""
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
            made["min_length"] = made["max_length"]  # then no text ends
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
        """Constraints given as token ids."""
        runs = self.raw.get("bad_words_ids", [])
        if not isinstance(runs, list) or not all(self._are_ids(run) and run for run in runs):
            self.refuse("bad_words_ids", self.raw.get("bad_words_ids"), "a list of lists of ids")
        never = [[i] for i in self._ids("suppress_tokens")]
        made: dict[str, Any] = {"forbid_ids": [*runs, *never]}
        made["forbid_first_ids"] = self._ids("begin_suppress_tokens")
        made["forced_end_ids"] = self._ids("forced_eos_token_id")
        return made

    def sampling(self) -> dict[str, Any] | None:
        """Sampling options; None: texts are not sampled."""
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
            self.refuse(name, value, f"ids of tokens, 0 to {self.vocab - 1:,},")
        return list(ids)

    def _are_ids(self, value: Any) -> bool:
        return isinstance(value, list) and all(
            isinstance(i, int) and not isinstance(i, bool) and 0 <= i < self.vocab for i in value
        )


def _notes(
    read: _GenerationFields, where: str, sampling: Mapping[str, Any] | None, config: Options
) -> list[str]:
    """Which fields were applied, which have no effect, and which are unknown."""
    raw = read.raw
    of_sampling = (*OF_SAMPLING, *REFUSED_SAMPLING)
    taken = [name for name in HONOURED if name in raw and not name.endswith("_token_id")]
    taken += ["forced_eos_token_id"] * ("forced_eos_token_id" in raw)
    unused = [name for name in of_sampling if name in raw and sampling is None]
    taken = [name for name in taken if name not in unused]
    shown = ", ".join(f"{name} = {_short(raw[name])}" for name in taken)
    mode = "drawn at random" if sampling is not None else "greedy"
    if read.beams > 1:
        mode = f"beam search, {read.beams} beams"
    if sampling is not None and "top_k" not in raw:
        mode += f", top_k = {TOP_K} as transformers has it"
    notes = [f"decoding as transformers' generate(): {mode}; taken from {where}: {shown or 'none'}"]
    if unused:
        notes.append(f"{where}: {', '.join(unused)}: of no effect without do_sample")
    unknown = [name for name in raw if name not in FIELDS]
    if unknown:
        notes.append(f"{where}: not known here, and not applied: {', '.join(unknown)[:300]}")
    if not {"max_length", "max_new_tokens"} & raw.keys():
        notes.append(
            f"{where} sets no maximum length: Translucid's own holds (generate() would stop after "
            "20 tokens)"
        )
    tasks = config.get("task_specific_params")
    if isinstance(tasks, dict) and tasks:
        notes.append(
            f"config.json: task_specific_params ({', '.join(map(str, tasks))[:200]}) are not "
            "applied; give what your task needs as options"
        )
    return notes


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def search_of(held: Bundle) -> DecodingConfig | None:
    """The search options of a model; None: its task does not search."""
    return DecodingConfig(**held.decoding) if held.task == Translate.name else None


def searched(held: Bundle, where: str) -> list[str]:
    """A note with the search options of a model. where: how another tool receives them."""
    search = search_of(held)
    if search is None:
        return []
    return [
        f"decoding as in the run: beam_size = {search.beam_size}, alpha = {search.alpha}; {where}"
    ]


def as_call(held: Bundle) -> str:
    """As arguments of CTranslate2's translate_batch."""
    search = search_of(held)
    return "" if search is None else f"beam_size={search.beam_size}, length_penalty={search.alpha}"


def as_theirs(held: Bundle) -> dict[str, Any]:
    """Keys of Hugging Face's generation_config.json. A translation ends at the latest where the
    longest source of the run's data has it end: there a length is one number for all sources."""
    search = search_of(held)
    if search is None:
        return {}
    config = held.network.config
    table = config.context_length if isinstance(config, SequenceConfig) else None
    max_length = 2 * DataConfig(**held.data).max_length + 10
    max_length = max_length if table is None else min(max_length, table)
    theirs: dict[str, Any] = {"num_beams": search.beam_size, "max_length": max_length}
    if search.beam_size > 1:
        theirs["early_stopping"] = "never"  # as here: until nothing better can come
    if search.beam_size > 1 or search.alpha != 1.0:  # of no effect without beams, and warned of
        theirs["length_penalty"] = search.alpha
    return theirs


def original_of(held: Bundle) -> dict[str, Any] | None:
    """What an opened model's generation_config.json held, unchanged; if the folder had none, what
    its config.json said about generating. None: the model was not opened in that layout."""
    original = held.statistics.get(ORIGINAL)
    if not isinstance(original, dict):
        return None
    return dict(original["fields"])


def read_decoding(folder: Path) -> tuple[dict[str, Any], list[str]]:
    """What our own export wrote beside a CTranslate2 model: keys of DecodingConfig, and a note."""
    if not present(folder / FILE):
        return {}, []
    theirs = Options(read_object(folder / FILE), str(folder / FILE))
    ours: dict[str, Any] = {}
    if theirs.get("num_beams") is not None:
        ours["beam_size"] = theirs.within("num_beams", 1, 1, MAX_BEAMS, whole=True)
    if theirs.get("length_penalty") is not None:
        ours["alpha"] = theirs.within("length_penalty", 1, 0, 100)
    shown = ", ".join(f"{name} = {value}" for name, value in ours.items())
    return ours, [f"decoding as {FILE} says: {shown}"] if ours else []
