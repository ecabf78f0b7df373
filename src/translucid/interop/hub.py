"""Download models from the Hugging Face hub by name: `hf:org/name`, `hf:org/name@revision`,
`hf:org/name/file.gguf`.

The package huggingface_hub downloads files, shows progress and keeps a cache; its environment
variables apply (HF_HOME, HF_HUB_OFFLINE, HF_TOKEN, ...). Only files that Translucid reads are
downloaded.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from translucid.core.errors import ConfigError, InputError
from translucid.data import shipped_models

BEGIN = "hf:"
FORM = "hf:ORG/NAME, hf:ORG/NAME@REVISION or hf:ORG/NAME/FILE.gguf"
_WORD = re.compile(r"[A-Za-z0-9][\w.-]{0,95}")
DESCRIPTIONS = (
    "config.json", "generation_config.json", "*tokenizer.json", "*tokenizer_config.json",
    "special_tokens_map.json", "tokenizer.model", "spiece.model", "spm.model", "source.spm",
    "target.spm", "vocab.json", "merges.txt", "vocab.txt", "*vocabulary.json", "*vocabulary.txt",
    "modules.json", "sentence_bert_config.json", "*_Pooling/config.json",
    "manifest.json", "*tokenizer_meta.json",  # Translucid's own files
)  # fmt: skip
SAFE = ("model.safetensors", "model.safetensors.index.json", "model-*.safetensors")
# Only if there are no safetensors: many repositories contain both.
OTHERS = ("pytorch_model.bin", "pytorch_model.bin.index.json", "pytorch_model-*.bin", "model.bin")


@dataclass(frozen=True)
class HubName:
    """The parts of a hub name: repository, revision, file."""

    repository: str
    revision: str | None = None
    file: str | None = None

    def __str__(self) -> str:
        of_file = f"/{self.file}" if self.file else ""
        return f"{BEGIN}{self.repository}{of_file}" + (f"@{self.revision}" if self.revision else "")


def is_hub_name(path: str | Path) -> bool:
    return str(path).startswith(BEGIN)


def parse(path: str | Path) -> HubName:
    text = path.as_posix() if isinstance(path, Path) else path
    name, at, revision = text.removeprefix(BEGIN).partition("@")
    parts = name.split("/")
    repository, file = parts[:2], parts[2:]
    if not all(map(_WORD.fullmatch, parts)) or (at and not revision):
        raise InputError(f"{text[:200]!r} is not a hub name; expected {FORM}")
    return HubName("/".join(repository), revision or None, "/".join(file) or None)


def fetched(path: str | Path) -> Path:
    """The local path of a model: downloads hf: models into the cache, finds models that come with
    the package (demo:translate), and returns any other path unchanged."""
    if shipped_models.is_shipped_name(path):
        return shipped_models.find(path)
    if not is_hub_name(path):
        return Path(path)
    name = parse(path)
    if name.file is not None:
        file = _snapshot(name, (name.file,)) / name.file
        if not file.exists():
            raise InputError(
                f"{name}: {name.repository} has no file {name.file}; see its page on the hub"
            )
        return file
    folder = _snapshot(name, DESCRIPTIONS + SAFE)
    if not any((folder / file).exists() for file in SAFE[:2]):
        folder = _snapshot(name, OTHERS)
    return folder


def _snapshot(name: HubName, files: tuple[str, ...]) -> Path:
    """Download those of the files that the repository contains, and return the local folder of the
    revision."""
    try:
        from huggingface_hub import constants, snapshot_download
    except ImportError:
        raise ConfigError(
            f"{name}: downloading from the hub needs the package huggingface_hub; install it with "
            "pip install huggingface_hub, or use a local folder"
        ) from None
    try:
        folder = snapshot_download(
            name.repository, revision=name.revision, allow_patterns=list(files)
        )
    except Exception as error:  # from several packages, depending on the version
        message = " ".join(str(error).split())[:300]
        raise InputError(
            f"{name}: the cache {constants.HF_HUB_CACHE} lacks files of {name.repository}, "
            f"revision {name.revision or constants.DEFAULT_REVISION}, and {_cause(name, error)}. "
            "Otherwise, set HF_HUB_CACHE to a cache that contains them, or use a local folder with "
            f"the model ({type(error).__name__}: {message})"
        ) from error
    return Path(folder)


def _cause(name: HubName, error: BaseException) -> str:
    """The reason why the hub did not provide the files, and what to do about it."""
    from huggingface_hub import constants, errors

    hub, page = constants.ENDPOINT, f"{constants.ENDPOINT}/{name.repository}"
    if constants.HF_HUB_OFFLINE:
        return "HF_HUB_OFFLINE is set, so nothing is downloaded: unset it"
    match error:
        case errors.GatedRepoError():
            return (
                f"{hub} requires you to accept its terms: accept them on {page} and sign in with "
                "`hf auth login`"
            )
        case errors.RepositoryNotFoundError():
            return (
                f"{hub} has no public model of this name: check the name, or sign in with `hf auth "
                "login` for a private one"
            )
        case errors.RevisionNotFoundError():
            return f"{hub} has no such revision: see {page}/commits"
        case errors.HfHubHTTPError(response=answer) if answer is not None:
            refused = answer.status_code in (401, 403)
            remedy = (
                "check the name, or sign in with `hf auth login`" if refused else "try again later"
            )
            return f"{hub} answered with status {answer.status_code}: {remedy}"
        case _ if error.__cause__ is not None:  # huggingface_hub looked in the cache, too
            return _cause(name, error.__cause__)
        case _:
            return f"{hub} could not be reached: check the connection"


def repository_of(path: Path) -> str | None:
    """The name ORG/NAME of a snapshot folder in the hub's cache (which is named by a hash), or of
    a file in one."""
    path = path.absolute()
    for folder in path.parents:
        if folder.name == "snapshots" and folder.parent.name.startswith("models--"):
            repository = folder.parent.name.removeprefix("models--").replace("--", "/")
            return "/".join([repository, *path.relative_to(folder).parts[1:]])
    return None
