"""How a translator searches, written for other tools: generation_config.json and arguments."""

from pathlib import Path
from typing import Any

from translucid.core.errors import InputError
from translucid.core.untrusted_files import present, read_object
from translucid.interop.families.options import Options
from translucid.interop.generation_config import FILE, MAX_BEAMS, ORIGINAL
from translucid.models.sequence_config import SequenceConfig
from translucid.tasks.model_folder import Bundle
from translucid.tasks.options import DataConfig, DecodingConfig
from translucid.tasks.translate import Translate


def search_of(held: Bundle) -> DecodingConfig | None:
    """What the run searched with; None: its task searches for nothing."""
    return DecodingConfig(**held.decoding) if held.task == Translate.name else None


def searched(held: Bundle, where: str) -> list[str]:
    """A line for people: what the run searched with, and where another tool has it from."""
    search = search_of(held)
    if search is None:
        return []
    return [
        f"decoding as in the run: beam_size = {search.beam_size}, alpha = {search.alpha}; {where}"
    ]


def as_call(held: Bundle) -> str:
    """As arguments of CTranslate2's translate_batch."""
    search = search_of(held)
    return "" if search is None else f"beam_size={search.beam_size}, length_penalty={search.alpha}"


def as_theirs(held: Bundle) -> dict[str, Any]:
    """Keys of Hugging Face's generation_config.json. A translation ends at the latest where the
    longest source of the run's data has it end: there a length is one number for all sources."""
    search = search_of(held)
    if search is None:
        return {}
    config = held.network.config
    table = config.context_length if isinstance(config, SequenceConfig) else None
    max_length = 2 * DataConfig(**held.data).max_length + 10
    max_length = max_length if table is None else min(max_length, table)
    theirs: dict[str, Any] = {"num_beams": search.beam_size, "max_length": max_length}
    if search.beam_size > 1:
        theirs["early_stopping"] = "never"  # as here: until nothing better can come
    if search.beam_size > 1 or search.alpha != 1.0:  # of no effect without beams, and warned of
        theirs["length_penalty"] = search.alpha
    return theirs


def original_of(held: Bundle) -> dict[str, Any] | None:
    """What an opened model's generation_config.json held, unchanged; if the folder had none, what
    its config.json said about generating. None: the model was not opened in that layout."""
    original = held.statistics.get(ORIGINAL)
    if not isinstance(original, dict):
        return None
    return dict(original["fields"])


def read_decoding(folder: Path) -> tuple[dict[str, Any], list[str]]:
    """What our own export wrote beside a CTranslate2 model: keys of DecodingConfig, and a note."""
    if not present(folder / FILE):
        return {}, []
    theirs = Options(read_object(folder / FILE), str(folder / FILE))
    ours: dict[str, Any] = {}
    for key, name, kinds, least, most in (
        ("num_beams", "beam_size", int, 1, MAX_BEAMS),
        ("length_penalty", "alpha", int | float, 0, 100),
    ):
        value = theirs.get(key)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, kinds) or not least <= value <= most:
            raise InputError(
                f"{theirs.where}: {key} = {str(value)[:100]!r}, but {least} to {most} is wanted"
            )
        ours[name] = value
    shown = ", ".join(f"{name} = {value}" for name, value in ours.items())
    return ours, [f"decoding as {FILE} says: {shown}"] if ours else []
