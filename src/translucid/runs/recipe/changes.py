"""Changes to a recipe as a program gives them: keys by name, or whole sections."""

from collections.abc import Mapping
from typing import Any

from translucid.core.config import unknown_key
from translucid.core.errors import ConfigError
from translucid.runs.recipe.recipe import keys_by_section


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
