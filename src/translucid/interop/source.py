"""What somebody has pointed at: which kind of model it is, its description and its tensors."""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from translucid.errors import InputError
from translucid.interop.families.options import Options
from translucid.interop.formats.ctranslate2_file import read_ctranslate2
from translucid.interop.formats.folder import SHARDED, SINGLE, read_weights
from translucid.interop.formats.gguf import MAGIC, read_gguf
from translucid.interop.formats.llama2c import read_llama2c
from translucid.interop.formats.stored import ModelFile
from translucid.untrusted_files import inside, open_regular, read_object

Kind = Literal["huggingface", "gguf", "llama2c", "ctranslate2"]
CONFIG = "config.json"
OURS = "format"  # a key that our config.json has and no other tool's


@dataclass(frozen=True)
class Source:
    """A foreign model, not yet read."""

    kind: Kind
    path: Path  # the file, or the folder
    config: Options
    file: ModelFile

    @property
    def folder(self) -> Path:
        return self.path if self.path.is_dir() else self.path.parent


def kind_of(path: Path) -> Kind | None:
    """Which kind of foreign model this is; None: none that is known, or one of our own."""
    if path.is_file():
        return _kind_of_file(path)
    if not path.is_dir():
        return None
    if (path / "model.bin").is_file():
        return "ctranslate2"
    if (path / CONFIG).is_file():
        with suppress(InputError):  # whoever opens it as one of ours says what is wrong with it
            config = read_object(inside(path, CONFIG, "a model"))
            foreign = OURS not in config and ("model_type" in config or "architectures" in config)
            return "huggingface" if foreign else None
        return None
    return "gguf" if len(list(path.glob("*.gguf"))) == 1 else None


def _kind_of_file(path: Path) -> Kind | None:
    with open_regular(path.resolve(), 1 << 62) as file:
        begin = file.read(4)
    if begin == MAGIC:
        return "gguf"
    if path.name == "model.bin" and (path.parent / CONFIG).is_file():
        return "ctranslate2"
    if path.name in SINGLE or path.name in SHARDED:
        return kind_of(path.parent)
    return "llama2c" if path.suffix == ".bin" else None


def read_source(path: Path) -> Source:
    """What is known of a foreign model from its headers alone."""
    kind = kind_of(path)
    path = path.resolve() if path.is_file() else path  # the user named it: it may be a link
    match kind:
        case "huggingface":
            folder = path if path.is_dir() else path.parent
            file = inside(folder, CONFIG, "a model")
            return Source(kind, folder, Options(read_object(file), str(file)), read_weights(folder))
        case "gguf":
            if path.is_dir():
                path = inside(path, next(path.glob("*.gguf")).name, "a model")
            gguf = read_gguf(path)
            return Source(kind, path, Options(gguf.metadata, str(path)), gguf)
        case "llama2c":
            weights = read_llama2c(path)
            return Source(kind, path, Options(weights.metadata, str(path)), weights)
        case "ctranslate2":
            folder = path if path.is_dir() else path.parent
            converted = read_ctranslate2(inside(folder, "model.bin", "a model"))
            options = dict(converted.metadata)
            if (folder / CONFIG).is_file():  # newer ones have some of them there
                options |= read_object(inside(folder, CONFIG, "a model"))
            return Source(kind, folder, Options(options, str(folder)), converted)
        case None:
            raise InputError(
                f"{path} is no model that can be opened: give a folder that training wrote, a "
                "folder in Hugging Face's layout (config.json with model.safetensors), a .gguf "
                "file, a .bin file of llama2.c, or a folder of CTranslate2 (model.bin)"
            )
