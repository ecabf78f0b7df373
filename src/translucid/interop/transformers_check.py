"""Compare the outputs of a model in Hugging Face's layout with those of transformers: token ids,
then labels with scores, the token at a mask, generated text, or an embedding. The first difference
raises an error that shows both outputs.

transformers receives a folder with links to only those files that Translucid reads: no code, no
pickles, no adapters, and no network access.

The comparison runs when a folder is first opened and transformers is installed. The result is
stored in the user's cache folder (XDG_CACHE_HOME, or ~/.cache) under the fingerprint of the
folder's files, so it is not repeated. TRANSLUCID_VERIFY=off turns it off.
"""

import hashlib
import json
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fnmatch import fnmatch
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from translucid._version import __version__
from translucid.core.atomic_files import write_text
from translucid.core.errors import InputError, TranslucidError
from translucid.core.untrusted_files import entries, present, read_object
from translucid.interop.export.tokenizer_files import reading, writing
from translucid.interop.hub import DESCRIPTIONS, SAFE
from translucid.interop.verify import BOUND, CLASSES, pooled
from translucid.models.sequence_config import SequenceConfig
from translucid.models.transformer_config import TransformerConfig
from translucid.tasks.batch import IGNORE
from translucid.tasks.classify import ClassifyItem
from translucid.tasks.generator import Generator
from translucid.tasks.label_scores import FUNCTION, PROBLEM, function_of
from translucid.tasks.model_folder import Bundle
from translucid.tasks.options import DecodingConfig, Resources
from translucid.tasks.registry import TASKS

TEXTS = (
    "The dog sleeps.",
    "A man met Ms. O'Neill in Paris, didn't he?",
    "  Größe: 12,5 %\tnaïve ﬁne café",
    "日本語 and 😀 in one text",
)
TOKENS = 12  # generated tokens
MORE = {"language": TOKENS, "fill": 4}  # tokens in addition to those of a text
CLOSE = 1e-3  # largest difference allowed between scores or probabilities
LARGEST = 1 << 20  # largest number allowed in a configuration
UNBOUNDED = ("vocab_size", "token_id", "model_max_length")
READ = (*DESCRIPTIONS, *SAFE, "added_tokens.json")
# Classes that tokenizer_config.json may name: those of the supported families.
TOKENIZERS = ("Bart*", "Bert*", "CodeLlama*", "DistilBert*", "GPT2*", "GPTNeoX*", "Llama*",
              "M2M100*", "MBart*", "MPNet*", "Marian*", "MT5*", "Nllb*", "Pegasus*", "PreTrained*",
              "Qwen2*", "Roberta*", "T5*", "TokenizersBackend", "XLMRoberta*")  # fmt: skip
GENERIC = ("PreTrainedTokenizerFast", "TokenizersBackend")  # without a family's options

# The comparison when a folder is first opened
VARIABLE = "TRANSLUCID_VERIFY"
OFF = ("off", "0", "no", "false")
MOST_BYTES = 300 << 20  # bytes of weights; more would take too long
WHOLE = 4 << 20  # bytes; the fingerprint includes the contents of smaller files
FIRST_TEXTS = 2


class NotCompared(Exception):
    """Raised if a model could not be compared with transformers; the model may still be correct."""


def compare_answers(folder: Path, held: Bundle, texts: Sequence[str] = TEXTS) -> list[str]:
    """Compare a model with transformers, and return lines that state what is equal. Raises
    InputError at the first difference, and NotCompared if transformers is not installed or cannot
    open the folder."""
    with _as_transformers_sees_it(folder) as clean, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        resources = Resources(
            held.tokenizers, held.labels, decoding=DecodingConfig(**held.decoding),
            statistics=held.statistics,
        )  # fmt: skip
        answers = _Answers(
            *_opened(clean, held.task), held, TASKS[held.task].make(resources), folder
        )
        max_length = answers.context_length() - MORE.get(held.task, 2)
        ids = {text: answers.ids(text) for text in texts}
        read = [text for text in texts if len(ids[text]) < max_length][:2]
        lines = [f"the same ids as transformers for {_counted(texts)}"]
        compare, what = _COMPARE[held.task]
        with torch.inference_mode():
            for text in read:
                compare(answers, text, ids[text])
        if read:
            lines.append(f"the same {what} for {_counted(read)}")
        return lines if read else [*lines, "outputs were not compared: the texts are too long"]


@contextmanager
def _as_transformers_sees_it(folder: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="translucid-") as made:
        clean = Path(made) / "model"
        for entry in entries(folder):
            path = Path(entry.path)
            name = path.relative_to(folder).as_posix()
            if any(fnmatch(name, pattern) for pattern in READ) and present(path):
                place = clean / name
                place.parent.mkdir(parents=True, exist_ok=True)
                place.symlink_to(path.resolve())
        if not any(clean.glob("*.safetensors")):
            raise NotCompared("the model's weights are not in safetensors files")
        for name in ("config.json", "tokenizer_config.json", "generation_config.json"):
            if (clean / name).exists():
                _check_sizes(read_object(folder / name), name)
        yield clean


def _check_sizes(options: Mapping[str, Any], where: str) -> None:
    """Raise NotCompared for large numbers, for which transformers would allocate much memory."""
    for key, value in options.items():
        if isinstance(value, Mapping):
            _check_sizes(value, where)
        elif isinstance(value, int) and value > LARGEST and not key.endswith(UNBOUNDED):
            raise NotCompared(f"{where}: {key[:60]} = {value:,} would take too much memory")
    rows, width = (options.get(key) for key in ("max_position_embeddings", "d_model"))
    if isinstance(rows, int) and isinstance(width, int) and rows * width > LARGEST << 6:
        raise NotCompared(f"{where}: max_position_embeddings = {rows:,} would take too much memory")


def _opened(folder: Path, task: str) -> tuple[Any, Any]:
    try:
        import transformers
    except ImportError as error:
        raise NotCompared(f"the package {error.name} is not installed") from None
    silenced = transformers.utils.logging.get_verbosity()
    transformers.utils.logging.set_verbosity_error()
    bars = transformers.utils.logging.is_progress_bar_enabled()
    transformers.utils.logging.disable_progress_bar()
    options = {"local_files_only": True, "trust_remote_code": False}
    try:
        named = transformers.models.auto.tokenization_auto.get_tokenizer_config(
            str(folder), local_files_only=True
        ).get("tokenizer_class")
        if named and not any(fnmatch(str(named), pattern) for pattern in TOKENIZERS):
            raise NotCompared(
                f"tokenizer_class = {str(named)[:60]} is not a class of a supported family"
            )
        tokenizer: Any = transformers.AutoTokenizer.from_pretrained(str(folder), **options)
        model: Any = getattr(transformers, CLASSES[task]).from_pretrained(
            str(folder), **options, dtype=torch.float32, use_safetensors=True
        )
        names = getattr(tokenizer, "vocab_files_names", {}).values()
        if names and not any((folder / name).exists() for name in names):
            raise NotCompared("transformers needs tokenizer files that are not in the folder: "
                              f"{', '.join(names)[:100]}")  # fmt: skip
        if type(tokenizer).__name__ in GENERIC and not (folder / "tokenizer.json").exists():
            raise NotCompared("transformers would have to guess the tokenizer's class, since "
                              "tokenizer_config.json sets no tokenizer_class")  # fmt: skip
        return tokenizer, model.eval()
    except NotCompared:
        raise
    except Exception as error:  # any error of the other library
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise NotCompared(f"transformers cannot open it ({reason[0][:200]})") from None
    finally:
        transformers.utils.logging.set_verbosity(silenced)
        if bars:
            transformers.utils.logging.enable_progress_bar()


@dataclass(frozen=True)
class _Answers:
    """Compares one model in transformers and in Translucid; one method for each kind of output."""

    tokenizer: Any
    model: Any
    held: Bundle
    task: Any
    folder: Path  # for messages

    def ids(self, text: str) -> list[int]:
        """The token ids of a text, which must be equal in both tokenizers."""
        own = reading(self.held)
        ours = own.frame(*TASKS[self.held.task].around)(own.encode(text))
        theirs = [int(i) for i in self.tokenizer(text)["input_ids"]]
        if ours != theirs:
            raise self._differs(
                f"the ids of {text!r} are {theirs} in transformers, but {ours} in Translucid"
            )
        return ours

    def context_length(self) -> int:
        """The context length in transformers or in Translucid, whichever is shorter. Translucid's
        excludes the two unused rows of RoBERTa's position table."""
        config = self.held.network.config
        assert isinstance(config, SequenceConfig)
        theirs = getattr(self.model.config, "max_position_embeddings", None)
        known = [size for size in (config.context_length, theirs) if isinstance(size, int)]
        return min(known, default=1 << 30)

    def _differs(self, what: str) -> InputError:
        return InputError(
            f"{self.folder}: {what}; to open it anyway, pass verify=False, or set "
            "TRANSLUCID_VERIFY=off on the command line; please report it with the model's config"
        )

    def _pipeline(self, kind: str, **options: Any) -> Any:
        import transformers

        return transformers.pipeline(
            kind, model=self.model, tokenizer=self.tokenizer, device="cpu", **options
        )

    def classify(self, text: str, ids: list[int]) -> None:
        """Compare the score of every label."""
        function = self.held.statistics.get(FUNCTION, "softmax")
        usual = function_of(self.held.statistics.get(PROBLEM), len(self.held.labels))
        # A CrossEncoder's activation is not in the files that the pipeline reads.
        options = {} if function == usual else {"function_to_apply": function}
        answers = self._pipeline("text-classification", top_k=None, **options)([text])
        theirs = {answer["label"]: float(answer["score"]) for answer in answers[0]}
        (row,) = self.task.probabilities(self.held.network, [ClassifyItem(ids, IGNORE, 0)])
        ours = dict(zip(self.held.labels, row, strict=True))
        for label, score in theirs.items():
            if label not in ours or not _close(ours[label], score):
                here = f"{ours[label]:.4f}" if label in ours else f"one of {', '.join(ours)}"
                raise self._differs(
                    f"{text!r} is {label} with score {score:.4f} in transformers, but {here} in "
                    "Translucid",
                )

    def tag(self, text: str, ids: list[int]) -> None:
        """Compare tags token by token, since spans also depend on the tagging scheme."""
        tagged = self._pipeline("token-classification", ignore_labels=[])(text)
        likely = self.held.network(torch.tensor([ids])).float().softmax(-1)[0]
        for one in tagged:
            probability, place = likely[one["index"]].max(-1)
            label = self.held.labels[int(place)]
            if label != one["entity"] or not _close(float(probability), float(one["score"])):
                raise self._differs(
                    f"token {one['word']!r} of {text!r} is {one['entity']} with score "
                    f"{one['score']:.4f} in transformers, but {label} with score "
                    f"{float(probability):.4f} in Translucid"
                )

    def fill(self, text: str, ids: list[int]) -> None:
        text = f"{text} {self.task.mask}"
        best = self._pipeline("fill-mask", top_k=1)(text)[0]
        ours = self.task.predict_lines(self.held.network, [text], 1)[0][0][0]
        if not _close(ours.probability, best["score"]):
            raise self._differs(
                f"at the mask in {text!r}, transformers predicts {best['token_str']!r} "
                f"({best['token']}) with {best['score']:.4f}, but Translucid {ours.token!r} "
                f"({ours.id}) with {ours.probability:.4f}"
            )

    def generate(self, text: str, ids: list[int]) -> None:
        """Compare greedy decoding, which does not depend on search options."""
        own = writing(self.held)
        # Translucid never generates padding or rows without a token.
        unwritten = [
            *own.special.never,
            *range(len(own), self.model.get_output_embeddings().out_features),
        ]
        both = self.model.generate(
            torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=torch.long),
            max_new_tokens=TOKENS, num_beams=1, do_sample=False, suppress_tokens=unwritten or None,
        )[0].tolist()  # fmt: skip
        before = ids if self.held.task == "language" else own.start_ids
        ends = {own.special.eos, *own.special.ends}
        theirs = [*both[len(before) :], own.special.eos]
        theirs = theirs[: next(i for i, token in enumerate(theirs) if token in ends)]
        generator = Generator(self.task, self.held.network)
        (decoded,) = generator.decode([text], beam_size=1, max_length=TOKENS + 1)
        ours = list(decoded.texts[0].tokens) if decoded.texts else []
        ours = ours[: next((i for i, token in enumerate(ours) if token in ends), len(ours))]
        if (
            ours[: TOKENS - 2] != theirs[: TOKENS - 2]
        ):  # transformers may force the last token to be the end
            shown = own.decode(i for i in theirs if i < len(own))
            raise self._differs(
                f"{text!r} continues with {shown!r} (ids {theirs}) in transformers, but with "
                f"{own.decode(ours)!r} (ids {ours}) in Translucid"
            )

    def embed(self, text: str, ids: list[int]) -> None:
        config = self.held.network.config
        assert isinstance(config, TransformerConfig)
        theirs = pooled(self.model(torch.tensor([ids])).last_hidden_state, config)[0]
        ours: Tensor = self.task.embed(self.held.network, [text])[0]
        far = float((ours - theirs).abs().max()) / max(float(theirs.abs().max()), 1e-30)
        if not far < BOUND:
            raise self._differs(f"the embedding of {text!r} differs from that of transformers by "
                           f"{far:.1e} of its largest value")  # fmt: skip


def _counted(texts: Sequence[object]) -> str:
    return f"{len(texts)} text{'s' * (len(texts) != 1)}"


def _close(ours: float, theirs: float) -> bool:
    return abs(ours - theirs) <= CLOSE * max(1.0, abs(theirs))


_COMPARE: Mapping[str, tuple[Callable[[_Answers, str, list[int]], None], str]] = {
    "classify": (_Answers.classify, "label and score"),
    "tag": (_Answers.tag, "tags and scores"),
    "fill": (_Answers.fill, "token at a mask"),
    "language": (_Answers.generate, "text"),
    "translate": (_Answers.generate, "text"),
    "embed": (_Answers.embed, "embedding"),
}


def compared(folder: Path, held: Bundle) -> str | None:
    """Compare a folder with transformers once, and return a note for the user; None if transformers
    is not installed or the comparison is off. Raises InputError at the first difference."""
    try:
        library = version("transformers")
    except PackageNotFoundError:
        return None
    if os.environ.get(VARIABLE, "").lower() in OFF:
        return None
    remedy = f"compare it with: translucid import {folder} OUT --verify"
    size = sum(parameter.nbytes for parameter in held.network.parameters())
    if size > MOST_BYTES:
        return f"not compared with transformers: weights take {size / 1e6:,.0f} MB; {remedy}"
    file = _cache() / f"{_fingerprint(folder, library)}.json"
    with suppress(TranslucidError):
        note = read_object(file).get("note")
        if isinstance(note, str):
            return note

    try:
        note = "; ".join(compare_answers(folder, held, TEXTS[:FIRST_TEXTS]))
    except NotCompared as reason:
        note = f"not compared with transformers: {reason}; {remedy}"
    except TranslucidError:
        raise
    except Exception as error:  # any error in transformers, which must not prevent opening
        note = f"not compared with transformers, which failed ({str(error)[:200]}); {remedy}"
    with suppress(TranslucidError, OSError):  # the cache is optional
        file.parent.mkdir(parents=True, exist_ok=True)
        write_text(file, json.dumps({"note": note, "folder": str(folder)}) + "\n")
    return note


def _cache() -> Path:
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "translucid" / "compared"


def _fingerprint(folder: Path, library: str) -> str:
    """A hash of a folder: contents of small files, size and modification time of the others."""
    made = hashlib.sha256(f"{__version__} {library}".encode())
    for entry in sorted(entries(folder), key=lambda entry: entry.path):
        status = entry.stat()
        made.update(f"\0{Path(entry.path).relative_to(folder)}\0{status.st_size}\0".encode())
        if not entry.is_file():
            continue
        if status.st_size > WHOLE:
            made.update(str(status.st_mtime_ns).encode())
        else:
            made.update(Path(entry.path).read_bytes())
    return made.hexdigest()[:32]
