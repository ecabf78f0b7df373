"""Changes to a recipe as a program gives them: keys by name, or whole sections."""

from collections.abc import Mapping
from typing import Any

from translucid.config import unknown_key
from translucid.errors import ConfigError
from translucid.recipe.recipe import DECIDED, MODELS, SECTIONS, Recipe


def keys_by_section() -> dict[str, list[str]]:
    """Every key that a recipe may set, of the model those of all families."""
    keys = {name: list(config.model_fields) for name, config in SECTIONS.items()}
    families = [key for config in MODELS.values() for key in config.model_fields]
    keys["model"] = [key for key in dict.fromkeys(families) if key not in DECIDED]
    return {name: keys[name] for name in Recipe.model_fields}


def in_sections(changes: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """steps=300 is {"training": {"steps": 300}}; all mistakes are reported at once."""
    known = keys_by_section()
    result: dict[str, dict[str, Any]] = {}
    mistakes = []
    for name, value in changes.items():
        section, dot, key = name.partition(".")
        having = [other for other, keys in known.items() if name in keys]
        if dot:
            result.setdefault(section, {})[key] = value
        elif name in known:
            if isinstance(value, Mapping):
                result.setdefault(name, {}).update(value)
            else:
                mistakes.append(
                    f"{name} = {value!r}: a section is a dict of its keys, such as "
                    f"{name}={{{known[name][0]!r}: ...}}"
                )
        elif len(having) == 1:
            result.setdefault(having[0], {})[name] = value
        elif having:
            *some, last = (f"{section}={{{name!r}: ...}}" for section in having)
            mistakes.append(
                f"{name}: a key of several sections; say which: {', '.join(some)} or {last}"
            )
        else:
            mistakes.append(unknown_key(name, [key for keys in known.values() for key in keys]))
    if mistakes:
        raise ConfigError(*mistakes)
    return result


def full_name(key: str) -> str | None:
    """`training.steps` of steps, if it stands in one section; None otherwise."""
    having = [section for section, keys in keys_by_section().items() if key in keys]
    return f"{having[0]}.{key}" if len(having) == 1 else None
