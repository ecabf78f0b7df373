"""The texts of the claims: whole sentences, without remarks that only their writers understand."""

import re

import pytest

from translucid_lab.engine.experiment import claims

REMARKS = re.compile(r"\b00\d\b|\bthe (same )?(file|source)('s)?\b| [.,;:]|\(\)|  |TODO")


@pytest.mark.parametrize("claim", claims().values(), ids=lambda claim: claim.key)
def test_claims_and_notes_are_written_for_readers(claim) -> None:  # type: ignore[no-untyped-def]
    for text in (claim.says, claim.notes):
        assert not REMARKS.search(text), text
        assert text.endswith((".", ")"))
        assert text.strip() == text
