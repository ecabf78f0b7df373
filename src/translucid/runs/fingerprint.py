"""The fingerprint of a run: recipe, files and tokenizers. A run can only be resumed if it
matches."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from translucid._version import __version__
from translucid.core import extensions
from translucid.core.device import pick_device
from translucid.runs.recipe.own_files import fingerprint_of_file
from translucid.runs.recipe.recipe import ADDED, MODELS, Recipe
from translucid.runs.recipe.toml import full_model
from translucid.runs.setup import Setup
from translucid.tasks.model_folder import own_names
from translucid.training.distributed import Processes


def fingerprint_of(setup: Setup, processes: Processes, folder: str) -> dict[str, Any]:
    """Everything that determines the results of a run, as JSON values. folder: where the run was
    started."""
    device = pick_device(setup.recipe.training.device, "training.device")
    code = extensions.used(own_names(setup.task.name, setup.network.config))
    return {
        "recipe": _flat(setup.recipe)
        # For the model that training starts from, the weights matter, not the folder.
        | {"training.start_from": None if setup.start is None else setup.start["weights"]},
        "files": _files(setup.recipe),
        "tokenizers": {name: t.fingerprint for name, t in setup.tokenizers.items()},
        "circumstances": {
            "version of translucid": __version__,
            "version of torch": str(torch.__version__),
            "threads": torch.get_num_threads(),
            "device": device.type,
            "processes": processes.count,
            **{f"the code of {source.file}": source.sha256[:12] for source in code},
        },
        "folder": folder,
    }


def _flat(recipe: Recipe) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for section, keys in (recipe.model_dump() | {"model": full_model(recipe)}).items():
        values |= {f"{section}.{key}": value for key, value in keys.items()}
    values = json.loads(json.dumps(values))  # as read from a checkpoint
    del values["data.folder"]  # the content of files matters, not their folder
    return values


def _files(recipe: Recipe) -> dict[str, str]:
    data = recipe.data
    names = tuple(name for part in (data.train, data.valid, data.test) for name in part)
    paths = zip(names, data.paths(names), strict=True)
    return {name: fingerprint_of_file(Path(path)) for name, path in paths}


def changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Describe the changes that prevent a resume. If the run has no value for a model key, because
    the key was added later, the default is compared."""
    kind = now["recipe"].get("model.kind")
    defaults = {f"model.{key}": field.default for key, field in MODELS[kind].model_fields.items()}
    recipe = {key: value for key, value in defaults.items() if key in now["recipe"]}
    recipe = json.loads(json.dumps(recipe))  # JSON has no tuples
    recipe |= ADDED | before["recipe"]
    return [
        *_differences(recipe, now["recipe"], "{name} was {old!r}, is {new!r}"),
        *_differences(before["files"], now["files"], "the content of {name}"),
        *_differences(before["tokenizers"], now["tokenizers"], "the vocabulary of {name}"),
    ]


def circumstances(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Describe changes that may affect only rounding; the run can still be resumed."""
    key = "circumstances"
    return _differences(before[key], now[key], "{name} was {old}, is {new}")


def _differences(old: Mapping[str, Any], new: Mapping[str, Any], words: str) -> list[str]:
    return [
        words.format(name=name, old=old.get(name), new=new.get(name))
        for name in sorted(old.keys() | new.keys())
        if old.get(name) != new.get(name)
    ]
