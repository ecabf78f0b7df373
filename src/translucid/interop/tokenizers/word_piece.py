"""WordPiece vocabularies (Schuster and Nakajima 2012), as BERT has them: one token a line."""

from collections.abc import Iterable, Mapping, Sequence

from translucid.interop.tokenizers.specs import Part, spec_text


def word_piece_spec(
    tokens: Sequence[str], *, unk: str, control: Mapping[int, str], lowercase: bool,
    strip_accents: bool | None = None, chinese: bool = True, added: Iterable[Part] = (),
) -> str:  # fmt: skip
    """The tokenizer.json of a vocabulary; pieces inside a word begin with ##. added: tokens that
    are looked for in text before it is split."""
    model = {
        "type": "WordPiece", "unk_token": unk, "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 100,
        "vocab": {token: i for i, token in reversed(list(enumerate(tokens)))},
    }  # fmt: skip
    normalizer = {
        "type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": chinese,
        "strip_accents": strip_accents, "lowercase": lowercase,
    }  # fmt: skip
    return spec_text(
        model, normalizers=[normalizer], pre_tokenizers=[{"type": "BertPreTokenizer"}],
        decoders=[{"type": "WordPiece", "prefix": "##", "cleanup": True}], control=control,
        added=added,
    )  # fmt: skip
