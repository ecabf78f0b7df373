"""Write recipes as TOML with the meaning of every key, and as a JSON schema."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

import tomlkit
from pydantic.fields import FieldInfo

from translucid.core.registry import choices as names_of
from translucid.runs.recipe.recipe import DECIDED, FITTING, MODELS, SECTIONS, Recipe, read
from translucid.tasks.registry import TASKS

ORDER = tuple(Recipe.model_fields)
# The keys that are changed most often; the others may be omitted from a file.
FIRST = (
    "task.kind", "data.train", "data.valid", "data.test", "model.kind", "model.d_model",
    "model.hidden", "model.layers", "training.steps",
)  # fmt: skip
COMMENT_AT = 36  # the column of comments, unless a value is longer


def dump(recipe: Recipe, *, only: Collection[str] | None = None) -> str:
    """The recipe as TOML, with the value and the meaning of every key. Unset keys are comments,
    since TOML has no null. only: leave out all other keys."""
    sections = [list(_section(recipe, name, only)) for name in ORDER]
    return "\n".join("\n".join(lines) + "\n" for lines in sections if lines[1:])


def rewrite(path: Path, overrides: Iterable[str] = ()) -> str:
    """The text of a recipe file with all keys added; the comment at its top is kept."""
    keys = dump(read(path, overrides))
    top = []
    for line in path.read_text("utf-8").splitlines():
        if not line.startswith("#"):
            break
        top.append(line)
    return "\n".join([*top, "", keys] if top else [keys])


def _section(recipe: Recipe, name: str, only: Collection[str] | None) -> Iterator[str]:
    yield f"[{name}]"
    values: Mapping[str, Any]
    if name == "model":
        values = full_model(recipe)
        kinds = (values["kind"],) if values["kind"] else TASKS[recipe.task.kind].models
        fields: Mapping[str, FieldInfo] = {
            key: field for kind in kinds for key, field in MODELS[kind].model_fields.items()
        }
    else:
        values, fields = getattr(recipe, name).model_dump(), SECTIONS[name].model_fields
    family = f"kind of model ({' | '.join(TASKS[recipe.task.kind].models)})"
    for key, value in values.items():
        if only is not None and f"{name}.{key}" not in only:
            continue
        if recipe.fitted and name == "training" and key not in FITTING:
            continue
        meaning = family if (name, key) == ("model", "kind") else explain(fields[key])
        shown = f"# {key} =" if value is None else f"{key} = {_toml(value)}"
        yield f"{shown:<{COMMENT_AT}}  # {meaning}"


def full_model(recipe: Recipe) -> dict[str, Any]:
    """All keys of the model with their values; for fine-tuning without a kind, only those that are
    set."""
    kind = recipe.model.get("kind")
    if kind is None:
        return {"kind": None} | recipe.model
    sizes = TASKS[recipe.task.kind].smallest_sizes()
    values = recipe.model_config_for(sizes=sizes).model_dump()
    return {"kind": kind} | {key: value for key, value in values.items() if key not in DECIDED}


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        inline = tomlkit.inline_table()
        inline.update(value)
        return str(inline.as_string())
    return str(tomlkit.item(list(value) if isinstance(value, tuple) else value).as_string())


def explain(field: FieldInfo) -> str:
    """The meaning of a key, with its choices if there are any."""
    words = [*names_of(field.metadata)] or choices(field.annotation)
    return f"{field.description} ({' | '.join(words)})" if words else str(field.description)


def choices(annotation: object) -> list[str]:
    """The words of a Literal, or of a union of them."""
    if get_origin(annotation) is Literal:
        return [_word(choice) for choice in get_args(annotation)]
    if get_origin(annotation) in (Union, UnionType):
        return [word for part in get_args(annotation) for word in choices(part)]
    return []


def _word(choice: object) -> str:
    return str(choice).lower() if isinstance(choice, bool) else str(choice)  # as TOML writes it


def schema() -> dict[str, Any]:
    """The JSON schema of recipes, with which editors complete and check TOML."""
    sections = {n: _config_schema(c.model_json_schema()) for n, c in SECTIONS.items()}
    sections["model"] = _model_schema()
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Translucid recipe",
        "type": "object",
        "properties": {name: sections[name] for name in ORDER},
        "required": ["task"],
        "additionalProperties": False,
    }


def _model_schema() -> dict[str, Any]:
    """The keys of each kind of model."""
    families = []
    for kind, config in MODELS.items():
        family = _config_schema(config.model_json_schema(), leave_out=DECIDED)
        family["properties"]["kind"] = {"const": kind, "description": "kind of model"}
        families.append(family)
    return {"anyOf": families}


def _config_schema(full: dict[str, Any], leave_out: tuple[str, ...] = ()) -> dict[str, Any]:
    properties = {k: v for k, v in full["properties"].items() if k not in leave_out}
    required = [k for k in full.get("required", ()) if k not in leave_out]
    kept = {"type": "object", "description": full["description"], "properties": properties}
    return kept | {"required": required, "additionalProperties": False}
