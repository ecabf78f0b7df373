"""What a run searches with goes along into another tool's folder, and comes back."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.interop.own_models import ENGLISH, own
from tests.interop.reference import transformers

from translucid.core.errors import InputError
from translucid.interop.export.exporting import export
from translucid.interop.importing import import_model
from translucid.model import Model
from translucid.tasks.model_folder import Bundle

FORMATS = ("ctranslate2", "huggingface")
SEARCHES: tuple[dict[str, Any], ...] = (
    {"beam_size": 1, "alpha": 0.25},
    {"beam_size": 3, "alpha": 0.0},
    {"beam_size": 6, "alpha": 0.0},
)


def translator(**decoding: Any) -> Bundle:
    made = own("translate", positions="sinusoidal", activation="relu")
    return replace(made, decoding=decoding, data={"max_length": 12})


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("decoding", SEARCHES)
def test_reimported_models_translate_the_same_without_options(
    tmp_path: Path, format: str, decoding: dict[str, Any]
) -> None:
    held = translator(**decoding)
    exported = export(held, format, tmp_path / "out")
    line = f"beam_size = {decoding['beam_size']}, alpha = {decoding['alpha']}"
    assert any(line in note for note in exported.notes)
    assert line in (tmp_path / "out" / "README.md").read_text("utf-8")
    opened = import_model(tmp_path / "out")
    assert opened.decoding == decoding
    theirs = f"num_beams = {decoding['beam_size']}, length_penalty = {decoding['alpha']}"
    notes = "\n".join(opened.facts["notes"])
    assert (line if format == "ctranslate2" else theirs) in notes
    # There one length holds for all sources, and the start counts.
    most = {} if format == "ctranslate2" else {"max_length": 2 * 12 + 10 - 1}
    texts = Model(held).translate(ENGLISH, **most)
    assert Model(opened).translate(ENGLISH) == texts
    assert Model(translator()).translate(ENGLISH, **most) != texts  # or nothing was shown


@pytest.mark.slow
def test_transformers_searches_with_them(tmp_path: Path) -> None:
    library = transformers()
    held = translator(**SEARCHES[1])
    export(held, "huggingface", tmp_path / "out")
    written = json.loads((tmp_path / "out" / "generation_config.json").read_text("utf-8"))
    assert written["early_stopping"] == "never"  # tests/interop/seq2seq_reference.py: as ours
    theirs = library.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "out").eval()
    tokenizer = library.AutoTokenizer.from_pretrained(tmp_path / "out")
    most = 2 * 12 + 10 - 1  # the start counts there
    for decoded in Model(held).decode(ENGLISH, max_length=most):
        ids = theirs.generate(**tokenizer(decoded.source, return_tensors="pt"))[0].tolist()
        assert tokenizer.decode(ids, skip_special_tokens=True) == decoded.texts[0].text
        assert len(ids) <= 1 + most


def test_impossible_search_options_are_refused(tmp_path: Path) -> None:
    export(translator(beam_size=3), "ctranslate2", tmp_path)
    file = tmp_path / "generation_config.json"
    wrong: tuple[Any, ...] = (10**9, 0, True, "4", 2.5)
    for value in wrong:
        file.write_text(json.dumps({"num_beams": value}))
        with pytest.raises(InputError, match="num_beams"):
            import_model(tmp_path)
