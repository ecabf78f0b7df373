"""An encoder-decoder of another tool is a model like any other: asked, looked into, saved."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.in_process import run
from tests.interop.reference import save
from tests.interop.seq2seq_reference import generated
from tests.interop.test_bart import made as made_bart
from tests.interop.test_t5 import made as made_t5
from tests.interop.test_tokenizers import marian, t5

import translucid as tl

TEXTS = ["the cat", "in the sun there is no rest", "no"]


def made(name: str, folder: Path) -> Any:
    """The reference, saved with its tokenizers."""
    if name == "t5":
        spare = len(t5(folder)) + 3  # rows that are no tokens
        theirs = made_t5("t5", vocab_size=spare)
    else:
        last = len(marian(folder)["source"]) - 1
        roles = {"pad_token_id": last, "decoder_start_token_id": last}
        theirs = made_bart("marian", vocab_size=last + 1, **roles)
    save(theirs, folder)
    return theirs


@pytest.mark.slow
@pytest.mark.parametrize("name", ["marian", "t5"])
def test_texts_are_those_of_the_reference(tmp_path: Path, name: str) -> None:
    theirs = made(name, tmp_path)
    model = tl.load(tmp_path)
    assert model.task.name == "translate"
    source, target = (model.task.vocabularies[side] for side in ("source", "target"))
    never = target.never_generated(theirs.config.vocab_size)
    assert theirs.config.pad_token_id in never
    expected = []
    for text in TEXTS:
        ids = torch.tensor([source.frame()(source.encode(text))])
        assert int(ids[0, -1]) == theirs.config.eos_token_id
        rows = generated(
            theirs, ids, torch.ones_like(ids), num_beams=1, max_new_tokens=9,
            suppress_tokens=list(never),
        )  # fmt: skip
        expected.append(target.decode(rows[0]))
    decoded = model.decode(TEXTS, beam_size=1, max_length=9, forced_end_ids=())
    assert [one.texts[0].text for one in decoded] == expected
    assert any(expected)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["marian", "t5"])
def test_it_is_a_model_like_any_other(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "theirs"
    folder.mkdir()
    made(name, folder)
    model = tl.load(folder)
    reading = model.trace("the cat", target="in")
    pattern = reading["decoder.layers.1.cross_attention.pattern"]
    assert torch.allclose(pattern.sum(-1), torch.ones(()), atol=1e-5)
    edited = model.trace(
        "the cat", target="in", edit={"encoder.layers.0.self_attention.output": lambda x: 0 * x}
    )
    assert not torch.allclose(edited["head.logits"], reading["head.logits"])
    model.save(tmp_path / "ours")
    again = tl.load(tmp_path / "ours")
    assert torch.equal(again.trace("the cat", target="in")["head.logits"], reading["head.logits"])
    (tmp_path / "texts").write_text("\n".join(TEXTS) + "\n", "utf-8")
    answers = [
        run("translate", str(tmp_path / place), str(tmp_path / "texts"), "--max-length", "7")
        for place in ("theirs", "ours")
    ]
    assert answers[0].returncode == 0, answers[0].stderr
    assert answers[0].stdout == answers[1].stdout
    assert len(answers[0].stdout.splitlines()) == len(TEXTS)
