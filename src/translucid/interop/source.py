"""What somebody has pointed at: which kind of model it is, its description and its tensors."""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from translucid.core.errors import InputError
from translucid.core.untrusted_files import inside, open_regular, present, read_object
from translucid.interop.families.options import Options
from translucid.interop.formats.ctranslate2_file import read_ctranslate2
from translucid.interop.formats.folder import SHARDED, SINGLE, read_weights
from translucid.interop.formats.gguf import MAGIC, read_gguf
from translucid.interop.formats.llama2c import read_llama2c
from translucid.interop.formats.opennmt_file import is_opennmt, with_weights
from translucid.interop.formats.safetensors_file import read_safetensors
from translucid.interop.formats.stored import ModelFile
from translucid.interop.formats.torch_file import read_torch
from translucid.interop.formats.yaml_file import read_yaml
from translucid.interop.mapping_file import read_mapping

Kind = Literal[
    "huggingface", "gguf", "llama2c", "ctranslate2", "opennmt", "fairseq", "joeynmt", "mapping"
]  # fmt: skip
YAML = "config.yaml"  # JoeyNMT's options
CONFIG = "config.json"
OURS = "format"  # a key that our config.json has and no other tool's
KNOWN = (
    "a folder that training wrote; one in Hugging Face's layout (config.json and "
    "model.safetensors), of CTranslate2 (model.bin) or of JoeyNMT (config.yaml and a .ckpt file); "
    "a .gguf file; a .bin file of llama2.c; a .pt file of OpenNMT-py or fairseq; or a mapping file "
    "(.toml) that says what the tensors of a file are"
)
# Files of Keras, TensorFlow and Flax, by their endings.
NOT_READ = (".h5", ".hdf5", ".keras", ".index", ".pb", ".msgpack")
# What torch.save writes begins like this: a zip, or before torch 1.6 a pickle.
TORCH = (b"PK\x03\x04", b"\x80\x02\x8a\x0a")


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
    return _kind_of_folder(path) if path.is_dir() else _kind_of_file(path)[0]


def _kind_of_folder(path: Path) -> Kind | None:
    if present(path / "model.bin"):
        return "ctranslate2"
    if (path / CONFIG).is_file():
        with suppress(InputError):  # whoever opens it as one of ours says what is wrong with it
            config = read_object(inside(path, CONFIG, "a model"))
            foreign = OURS not in config and ("model_type" in config or "architectures" in config)
            return "huggingface" if foreign else None
        return None
    if present(path / YAML) and any(path.glob("*.ckpt")):
        return "joeynmt"
    return "gguf" if len(list(path.glob("*.gguf"))) == 1 else None


def _kind_of_file(path: Path) -> tuple[Kind | None, ModelFile | None]:
    """With what torch.save wrote, where it had to be read to know."""
    if path.suffix == ".toml" or not path.is_file():
        return ("mapping" if path.is_file() else None), None
    with open_regular(path.resolve(), 1 << 62) as file:
        begin = file.read(4)
    if begin == MAGIC:
        return "gguf", None
    if path.name == "model.bin" and present(path.parent / CONFIG):
        return "ctranslate2", None
    if path.name in SINGLE or path.name in SHARDED:
        return _kind_of_folder(path.parent), None
    if begin in TORCH:
        checkpoint = read_torch(path.resolve())
        return _tool(checkpoint), checkpoint
    return ("llama2c" if path.suffix == ".bin" else None), None


def _tool(checkpoint: ModelFile) -> Kind | None:
    """Which tool has saved it, by the keys that it has; None: weights alone, or another's."""
    keys = checkpoint.metadata.keys()
    if is_opennmt(checkpoint):
        return "opennmt"
    if "model_state" in keys:
        return "joeynmt"
    if "model" in keys and {"args", "cfg"} & keys:
        return "fairseq"
    return None


def read_source(path: Path, mapping: Path | None = None) -> Source:
    """What is known of a foreign model from its headers alone. mapping: a mapping file that says
    what these weights are."""
    if mapping is not None:
        return Source("mapping", mapping, Options({}, str(mapping)), _weights(path))
    kind, checkpoint = (_kind_of_folder(path), None) if path.is_dir() else _kind_of_file(path)
    path = path.resolve() if path.is_file() else path  # the user named it: it may be a link
    match kind:
        case "huggingface":
            folder = path if path.is_dir() else path.parent
            file = inside(folder, CONFIG, "a model")
            return Source(kind, folder, Options(_config(file), str(file)), read_weights(folder))
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
            facts = dict(converted.metadata)
            if present(folder / CONFIG):  # newer ones have some of them there
                facts |= read_object(inside(folder, CONFIG, "a model"))
            return Source(kind, folder, Options(facts, str(folder)), converted)
        case "joeynmt":
            path = _joeynmt_checkpoint(path) if path.is_dir() else path
            file = inside(path.parent, YAML, "a model")
            options = read_yaml(file)
            return Source(kind, path, Options(options, str(file)), checkpoint or read_torch(path))
        case "opennmt" | "fairseq":
            assert checkpoint is not None
            whole = with_weights(path, checkpoint) if kind == "opennmt" else checkpoint
            return Source(kind, path, Options(checkpoint.metadata, str(path)), whole)
        case "mapping":
            held, _ = read_mapping(path)
            if held.weights is None:
                raise InputError(
                    f'{path} names no weights; add weights = "FILE", a file in the same folder, '
                    "or use translucid import WEIGHTS OUT --mapping MAPPING"
                )
            weights = _weights(inside(path.parent, held.weights, str(path)))
            return Source(kind, path, Options({}, str(path)), weights)
        case None if path.suffix in NOT_READ:
            raise InputError(
                f"{path}: {path.suffix} files are not read; save the variables as safetensors "
                "(safetensors.numpy.save_file) and write a mapping file"
            )
        case None:
            raise InputError(f"{path} is no model that can be opened; give {KNOWN}")


def _config(path: Path) -> dict[str, Any]:
    config = read_object(path)
    classes = config.get("architectures")
    if classes is not None and not (
        isinstance(classes, list) and all(isinstance(name, str) for name in classes)
    ):
        raise InputError(
            f"{path}: architectures = {str(classes)[:100]}, but a list of names is wanted; copy "
            "the file again"
        )
    return config


def _joeynmt_checkpoint(folder: Path) -> Path:
    """The best of a folder, which is a link to one that has its step for a name; or the only."""
    best = folder / "best.ckpt"
    files = [path for path in folder.glob("*.ckpt") if not path.is_symlink()]
    if best.exists() and best.resolve().parent == folder.resolve():
        return best.resolve()
    if len(files) == 1:
        return inside(folder, files[0].name, "a model")
    raise InputError(
        f"{folder} has {len(files)} checkpoints and no best.ckpt; name one of "
        f"{', '.join(sorted(path.name for path in files))[:200]}"
    )


def _weights(path: Path) -> ModelFile:
    """A file with tensors: of torch, or safetensors."""
    path = path.resolve()
    try:
        with open_regular(path, 1 << 62) as file:
            begin = file.read(4)
    except FileNotFoundError:
        raise InputError(f"{path} is missing") from None
    return read_torch(path) if begin in TORCH else read_safetensors(path)
