"""A sample is spread over all of the corpus, and is the same every time."""

import gzip
from pathlib import Path

import pytest

from translucid.core.errors import ConfigError, InputError
from translucid.data.corpus.sample import sample_texts
from translucid.data.readers.lines import LineRule


def numbered(path: Path, lines: int = 20_000) -> Path:
    path.write_text("".join(f"line {number:06d}\n" for number in range(lines)), "utf-8")
    return path


def test_a_small_corpus_is_taken_whole(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"\xef\xbb\xbfone\r\n\ntwo\nthree")
    said: list[str] = []
    assert list(sample_texts([path, path], 100, say=said.append)) == ["one", "two", "three"] * 2
    assert said == []


def test_a_sample_is_spread_evenly(tmp_path: Path) -> None:
    files = [numbered(tmp_path / "a"), numbered(tmp_path / "b", 10_000)]
    said: list[str] = []
    texts = list(sample_texts(files, 36_000, say=said.append))  # a tenth
    assert "0.0 MB of 0.4 MB" in said[0]
    assert 36_000 * 0.9 < sum(len(text) + 1 for text in texts) < 36_000 * 1.1
    numbers = [int(text.removeprefix("line ")) for text in texts]
    cut = numbers.index(0, 1)  # where the second file begins
    for part, lines in ((numbers[:cut], 20_000), (numbers[cut:], 10_000)):
        assert part == sorted(set(part))  # whole lines, each at most once
        gaps = [b - a for a, b in zip(part, [*part[1:], lines], strict=True)]
        assert part[0] == 0
        assert max(gaps) < 60
    assert texts == list(sample_texts(files, 36_000))


@pytest.mark.parametrize("most", [1, 7, 13, 1000, 259_999])
def test_samples_of_any_size_contain_whole_lines(tmp_path: Path, most: int) -> None:
    path = numbered(tmp_path / "a")
    texts = list(sample_texts([path], most))
    assert texts
    assert texts == sorted(set(texts))
    assert all(len(text) == 11 for text in texts)


def test_a_line_longer_than_the_blocks(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("x" * 300_000 + "\nshort\n" + "y" * 300_000)
    assert list(sample_texts([path], 1000)) == ["x" * 300_000]


def test_paragraphs_keep_their_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("one\ntwo\n\nthree\n" * 5000)
    texts = list(sample_texts([path], 8000, unit="paragraph"))
    assert any("\n" in text for text in texts)
    assert all(text.strip() for text in texts)


def test_compressed_files_give_their_beginning(tmp_path: Path) -> None:
    plain = numbered(tmp_path / "a")
    packed = tmp_path / "b.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    said: list[str] = []
    texts = list(sample_texts([packed], packed.stat().st_size // 2, say=said.append))
    assert said[0].endswith("1 compressed files")
    lines = plain.read_text("utf-8").splitlines()
    assert texts == lines[: len(texts)]
    assert 0 < len(texts) < len(lines)


def test_errors_name_the_line(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(numbered(tmp_path / "b").read_bytes() + b"caf\xe9 \n" * 2000)
    with pytest.raises(InputError, match=r"a:20\d\d\d: byte 4.*0xe9"):
        list(sample_texts([path], 20_000))
    with pytest.raises(ConfigError, match="most = 0"):
        list(sample_texts([path], 0))
    path.write_bytes(b"x" * 50 + b"\n" + b"ok\n" * 100)
    assert set(sample_texts([path], 100, rule=LineRule(20, "skip"))) == {"ok"}
