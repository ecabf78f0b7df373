"""YAML, by the package PyYAML where it is installed: values alone, nothing that is built."""

from pathlib import Path
from typing import Any

from translucid.core.errors import InputError
from translucid.core.untrusted_files import read_text

LARGEST = 64 << 10  # bytes: the reader takes a second for so many
MOST_BRACKETS = 1000  # the reader's time grows with the square of their depth


def read_yaml(path: Path) -> dict[str, Any]:
    """The object that a file holds."""
    try:
        import yaml  # type: ignore[import-untyped]
    except ImportError:
        raise InputError(
            f"{path} is YAML, which needs the package PyYAML: pip install pyyaml"
        ) from None
    text = read_text(path, LARGEST, "it should hold a configuration")
    if text.count("[") + text.count("{") > MOST_BRACKETS:
        raise InputError(f"{path} has more than {MOST_BRACKETS} brackets; it is no configuration")
    try:
        # References could make a short text a huge value.
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, yaml.SafeLoader)):
            raise InputError(f"{path} refers to parts of itself (*name); write them out")
        value = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path} is not YAML ({str(error)[:200]}); mend it there") from None
    if not isinstance(value, dict):
        raise InputError(f"{path} holds no keys and values; copy it again")
    return value
