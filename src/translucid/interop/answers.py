"""The whole answer of a model in Hugging Face's layout, by the package transformers and here: the
tokenizer's ids, then what a user sees: a label with its score, the token at a mask, a generated
text, an embedding. The first difference is an error that shows both.

transformers gets a folder with links to those files alone that Translucid itself reads: no code, no
pickle, no adapter, and nothing from the network.
"""

import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from translucid.core.errors import InputError
from translucid.core.untrusted_files import entries, present, read_object
from translucid.interop.export.tokenizer_files import reading, writing
from translucid.interop.hub import DESCRIPTIONS, SAFE
from translucid.interop.verify import BOUND, CLASSES, pooled
from translucid.models.sequence_config import SequenceConfig
from translucid.models.transformer_config import TransformerConfig
from translucid.tasks.base import Task
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
TOKENS = 12  # that are generated
MORE = {"language": TOKENS, "fill": 4}  # tokens beyond those of a text
CLOSE = 1e-3  # scores and probabilities
LARGEST = 1 << 20  # that a number in a configuration may be
UNBOUNDED = ("vocab_size", "token_id", "model_max_length")
READ = (*DESCRIPTIONS, *SAFE, "added_tokens.json")
# What tokenizer_config.json may name: classes of the families that are opened here.
TOKENIZERS = ("Bart*", "Bert*", "CodeLlama*", "DistilBert*", "GPT2*", "GPTNeoX*", "Llama*",
              "M2M100*", "MBart*", "MPNet*", "Marian*", "MT5*", "Nllb*", "Pegasus*", "PreTrained*",
              "Qwen2*", "Roberta*", "T5*", "TokenizersBackend", "XLMRoberta*")  # fmt: skip
GENERIC = ("PreTrainedTokenizerFast", "TokenizersBackend")  # which know no family's options


class NotCompared(Exception):
    """Why a model could not be compared; no fault of the model."""


def compare_answers(folder: Path, held: Bundle, texts: Sequence[str] = TEXTS) -> list[str]:
    """What is the same, a line each; a difference is an InputError. NotCompared: transformers is
    not installed, or does not open the folder."""
    with _as_transformers_sees_it(folder) as clean, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tokenizer, model = _opened(clean, held.task)
        task = _task(held)
        ids = [_ids(tokenizer, held, text, folder) for text in texts]
        context_length = _context_length(held, model)
        read = [(text, one) for text, one in zip(texts, ids, strict=True)
                if len(one) + MORE.get(held.task, 2) < context_length]  # fmt: skip
        lines = [f"the same ids as transformers for {_counted(texts)}"]
        with torch.inference_mode():
            for text, one in read[:2]:
                _COMPARE[held.task](tokenizer, model, held, task, text, one, folder)
        if read:
            lines.append(f"the same {_ANSWER[held.task]} for {_counted(read[:2])}")
        return lines if read else [*lines, "answers were not compared: the texts are too long"]


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
            raise NotCompared("its weights are no safetensors")
        for name in ("config.json", "tokenizer_config.json", "generation_config.json"):
            if (clean / name).exists():
                _check_sizes(read_object(folder / name), name)
        yield clean


def _check_sizes(options: Mapping[str, Any], where: str) -> None:
    """transformers makes tables and lists of numbers that Translucid does not use."""
    for key, value in options.items():
        if isinstance(value, Mapping):
            _check_sizes(value, where)
        elif isinstance(value, int) and value > LARGEST and not key.endswith(UNBOUNDED):
            raise NotCompared(f"{where} has {key[:60]} = {value:,}")
    rows, width = (options.get(key) for key in ("max_position_embeddings", "d_model"))
    if isinstance(rows, int) and isinstance(width, int) and rows * width > LARGEST << 6:
        raise NotCompared(f"{where} has max_position_embeddings = {rows:,}")


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
            raise NotCompared(f"its tokenizer_class is {str(named)[:60]}")
        tokenizer: Any = transformers.AutoTokenizer.from_pretrained(str(folder), **options)
        model: Any = getattr(transformers, CLASSES[task]).from_pretrained(
            str(folder), **options, dtype=torch.float32, use_safetensors=True
        )
        names = getattr(tokenizer, "vocab_files_names", {}).values()
        if names and not any((folder / name).exists() for name in names):
            raise NotCompared("transformers knows its tokenizer by other files: "
                              f"{', '.join(names)[:100]}")  # fmt: skip
        if type(tokenizer).__name__ in GENERIC and not (folder / "tokenizer.json").exists():
            raise NotCompared("transformers guesses its tokenizer: tokenizer_config.json names no "
                              "tokenizer_class")  # fmt: skip
        return tokenizer, model.eval()
    except NotCompared:
        raise
    except Exception as error:  # of any kind: it is a library that reads files of anyone
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise NotCompared(f"transformers does not open it ({reason[0][:200]})") from None
    finally:
        transformers.utils.logging.set_verbosity(silenced)
        if bars:
            transformers.utils.logging.enable_progress_bar()


def _task(held: Bundle) -> Task[Any, Any]:
    decoding = DecodingConfig(**held.decoding)
    resources = Resources(
        held.tokenizers, held.labels, decoding=decoding, statistics=held.statistics
    )
    return TASKS[held.task].make(resources)


def _ids(tokenizer: Any, held: Bundle, text: str, folder: Path) -> list[int]:
    """The ids of a text, which both tokenizers give."""
    own = reading(held)
    ours = own.frame(*TASKS[held.task].around)(own.encode(text))
    theirs = [int(i) for i in tokenizer(text)["input_ids"]]
    if ours != theirs:
        raise _differs(folder, f"the ids of {text!r} are {theirs} in transformers, but {ours} here")
    return ours


def _context_length(held: Bundle, model: Any) -> int:
    """Tokens that both can read, without the two rows before RoBERTa's first position."""
    config = held.network.config
    assert isinstance(config, SequenceConfig)
    theirs = getattr(model.config, "max_position_embeddings", None)
    known = [size for size in (config.context_length, theirs) if isinstance(size, int)]
    return min(known, default=1 << 30)


def _differs(folder: Path, what: str) -> InputError:
    return InputError(
        f"{folder}: {what}; to open it all the same, pass verify=False, or set "
        "TRANSLUCID_VERIFY=off on the command line, and please report it with the model's config"
    )


def _classify(tokenizer: Any, model: Any, held: Bundle, task: Any, text: str, ids: list[int],
              folder: Path) -> None:  # fmt: skip
    """The probability or score of every label, by what the pipeline applies to the logits."""
    function = held.statistics.get(FUNCTION, "softmax")
    usual = function_of(held.statistics.get(PROBLEM), len(held.labels))
    # A CrossEncoder's activation is not in the files that the pipeline reads.
    options = {} if function == usual else {"function_to_apply": function}
    answers = _pipeline("text-classification", model, tokenizer, top_k=None, **options)([text])
    theirs = {answer["label"]: float(answer["score"]) for answer in answers[0]}
    (row,) = task.probabilities(held.network, [ids])
    ours = dict(zip(held.labels, row, strict=True))
    for label, score in theirs.items():
        if label not in ours or not _close(ours[label], score):
            here = f"{ours[label]:.4f}" if label in ours else f"one of {', '.join(ours)}"
            raise _differs(
                folder,
                f"{text!r} is {label} with score {score:.4f} in transformers, but {here} here",
            )


def _tag(tokenizer: Any, model: Any, held: Bundle, task: Any, text: str, ids: list[int],
         folder: Path) -> None:  # fmt: skip
    """Token by token: which spans they make is decided by the folder's scheme."""
    tagged = _pipeline("token-classification", model, tokenizer, ignore_labels=[])(text)
    likely = held.network(torch.tensor([ids])).float().softmax(-1)[0]
    for one in tagged:
        probability, place = likely[one["index"]].max(-1)
        label = held.labels[int(place)]
        if label != one["entity"] or not _close(float(probability), float(one["score"])):
            raise _differs(
                folder, f"token {one['word']!r} of {text!r} is {one['entity']} with score "
                f"{one['score']:.4f} in transformers, but {label} with {float(probability):.4f} "
                "here",
            )  # fmt: skip


def _fill(tokenizer: Any, model: Any, held: Bundle, task: Any, text: str, ids: list[int],
          folder: Path) -> None:  # fmt: skip
    text = f"{text} {task.mask}"
    best = _pipeline("fill-mask", model, tokenizer, top_k=1)(text)[0]
    ours = task.predict_lines(held.network, [text], 1)[0][0][0]
    if not _close(ours.probability, best["score"]):
        raise _differs(
            folder, f"at the mask of {text!r} transformers puts {best['token_str']!r} "
            f"({best['token']}) with {best['score']:.4f}, but here it is {ours.token!r} "
            f"({ours.id}) with {ours.probability:.4f}",
        )  # fmt: skip


def _generate(tokenizer: Any, model: Any, held: Bundle, task: Any, text: str, ids: list[int],
              folder: Path) -> None:  # fmt: skip
    """The likeliest token after each other: beams depend on options that are not the model's."""
    own = writing(held)
    # Padding and rows without a token are never written here, whatever their probability.
    unwritten = [*own.special.never, *range(len(own), model.get_output_embeddings().out_features)]
    both = model.generate(
        torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=torch.long),
        max_new_tokens=TOKENS, num_beams=1, do_sample=False, suppress_tokens=unwritten or None,
    )[0].tolist()  # fmt: skip
    before = ids if held.task == "language" else own.start_ids
    ends = {own.special.eos, *own.special.ends}
    theirs = [*both[len(before) :], own.special.eos]
    theirs = theirs[: next(i for i, token in enumerate(theirs) if token in ends)]
    generator = Generator(task, held.network)
    (decoded,) = generator.decode([text], beam_size=1, max_length=TOKENS + 1)
    ours = list(decoded.texts[0].tokens) if decoded.texts else []
    ours = ours[: next((i for i, token in enumerate(ours) if token in ends), len(ours))]
    if ours[: TOKENS - 2] != theirs[: TOKENS - 2]:  # there the last may be forced to be the end
        shown = own.decode(i for i in theirs if i < len(own))
        raise _differs(
            folder, f"{text!r} continues with {shown!r} (ids {theirs}) in transformers, but with "
            f"{own.decode(ours)!r} (ids {ours}) here",
        )  # fmt: skip


def _embed(tokenizer: Any, model: Any, held: Bundle, task: Any, text: str, ids: list[int],
           folder: Path) -> None:  # fmt: skip
    config = held.network.config
    assert isinstance(config, TransformerConfig)
    theirs = pooled(model(torch.tensor([ids])).last_hidden_state, config)[0]
    ours: Tensor = task.embed(held.network, [text])[0]
    far = float((ours - theirs).abs().max()) / max(float(theirs.abs().max()), 1e-30)
    if not far < BOUND:
        raise _differs(folder, f"the embedding of {text!r} differs by {far:.1e} of its largest "
                       "value from that of transformers")  # fmt: skip


def _counted(texts: Sequence[object]) -> str:
    return f"{len(texts)} text{'s' * (len(texts) != 1)}"


def _close(ours: float, theirs: float) -> bool:
    return abs(ours - theirs) <= CLOSE * max(1.0, abs(theirs))


def _pipeline(kind: str, model: Any, tokenizer: Any, **options: Any) -> Any:
    import transformers

    return transformers.pipeline(kind, model=model, tokenizer=tokenizer, device="cpu", **options)


_COMPARE: Mapping[str, Any] = {
    "classify": _classify, "tag": _tag, "fill": _fill, "language": _generate,
    "translate": _generate, "embed": _embed,
}  # fmt: skip
_ANSWER = {"classify": "label and score", "tag": "tags and scores", "fill": "token at a mask",
           "language": "text", "translate": "text", "embed": "embedding"}  # fmt: skip
