"""Reading lines: their ends, limits, compression, encodings, and files that change."""

import gzip
import io
import lzma
import os
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from translucid.core.errors import InputError
from translucid.data.readers.lines import LineRule, read_lines, split_lines
from translucid.data.readers.loading import Loading

# Where str.splitlines cuts, next to \n and \r\n.
CUTTERS = "\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"


def texts(path: Path, rule: LineRule = LineRule()) -> list[str | None]:  # noqa: B008
    lines = list(read_lines(path, rule))
    assert [number for number, _ in lines] == list(range(1, len(lines) + 1))
    return [text for _, text in lines]


def split(data: bytes, rule: LineRule) -> tuple[list[str | None], Loading]:
    loading = Loading("file")
    return [text for _, text in split_lines(io.BytesIO(data), "file", rule, loading)], loading


line_text = st.text(
    st.one_of(st.sampled_from(CUTTERS + "\ufeffé😀 "), st.characters(codec="utf-8")), max_size=12
).map(lambda text: text.replace("\n", "").replace("\0", ""))


@given(st.lists(line_text, min_size=1), st.booleans(), st.sampled_from(["\n", "\r\n"]))
def test_lines_end_at_newlines_only(lines: list[str], mark: bool, end: str) -> None:
    if not mark:
        lines[0] = lines[0].removeprefix("\ufeff")
    if end == "\n":  # a \r before the \n would belong to the line end
        lines = [line.rstrip("\r") for line in lines]
    data = ("\ufeff" if mark else "") + "".join(line + end for line in lines)
    found, _ = split(data.encode(), LineRule())
    assert found == lines


@given(line_text.filter(bool))
def test_a_last_line_needs_no_newline(line: str) -> None:
    assert split(b"a\n" + line.encode(), LineRule())[0] == ["a", line]
    # A return alone ends no line, not even the last one.
    assert split(b"a\n" + line.encode() + b"\r", LineRule())[0] == ["a", line + "\r"]


@pytest.mark.parametrize("cutter", CUTTERS)
def test_other_line_separators_stay_text(tmp_path: Path, cutter: str) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(f"a{cutter}b\nc\n".encode())
    assert len(f"a{cutter}b\nc\n".splitlines()) == 3  # which read_lines must not do
    assert texts(path) == [f"a{cutter}b", "c"]


@given(
    st.lists(st.binary(max_size=12).map(lambda b: bytes(97 + x % 26 for x in b)), min_size=1),
    st.integers(1, 8),
    st.sampled_from([b"\n", b"\r\n"]),
)
def test_long_lines_are_skipped_and_counted(lines: list[bytes], limit: int, end: bytes) -> None:
    found, loading = split(b"".join(line + end for line in lines), LineRule(limit, "skip"))
    assert found == [line.decode() if len(line) <= limit else None for line in lines]
    assert loading.left_out.get("too long", 0) == sum(len(line) > limit for line in lines)


def test_a_long_line_is_an_error_unless_skipped(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"short\n" + b"x" * 11 + b"\nend\n")
    with pytest.raises(InputError, match=r"a\.txt:2: .*10 bytes"):
        texts(path, LineRule(10))
    assert texts(path, LineRule(11)) == ["short", "x" * 11, "end"]
    assert texts(path, LineRule(10, "skip")) == ["short", None, "end"]


def test_memory_stays_bounded_by_the_limit() -> None:
    class Watched(io.BytesIO):
        def readline(self, size: int | None = -1, /) -> bytes:
            assert size is not None
            assert 0 < size <= 1 << 16
            return super().readline(size)

    loading = Loading("file")
    stream = Watched(b"x" * (1 << 20) + b"\nend\n")
    found = [text for _, text in split_lines(stream, "file", LineRule(100, "skip"), loading)]
    assert found == [None, "end"]


@pytest.mark.parametrize("name", ["a.txt.gz", "a.txt.xz", "gzip-without-suffix", "xz-without"])
def test_archives_are_read_by_content(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    pack = gzip.compress if "gz" in name else lzma.compress
    path.write_bytes(pack("\ufeffé\r\nb\u2028\n".encode()) + pack(b"c"))  # two members, as cat does
    assert texts(path) == ["é", "b\u2028", "c"]


@pytest.mark.parametrize(("pack", "suffix"), [(gzip.compress, ".gz"), (lzma.compress, ".xz")])
def test_damaged_archives_name_the_file(tmp_path: Path, pack, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    whole = pack(os.urandom(3000).hex().encode() * 3 + b"\n")
    for cut in (len(whole) // 2, len(whole) - 3):
        path.write_bytes(whole[:cut])
        with pytest.raises(InputError, match=rf"a\{suffix}: .*damaged"):
            texts(path)
    broken = bytearray(whole)
    broken[len(whole) // 2] ^= 0xFF
    path.write_bytes(broken)
    with pytest.raises(InputError, match=rf"a\{suffix}: .*damaged"):
        texts(path)


BAD = {
    "utf8": (b"fine\nab\xffc\n", r"f:2: byte 3 .*0xff.*iconv"),
    "utf8 after a mark": (b"\xef\xbb\xbfa\xc3\n", r"f:1: byte 5 .*0xc3"),
    "surrogate": (b"\xed\xa0\x80\n", r"f:1: byte 1 .*0xed"),
    "nul": (b"a\nbc\0d\n", r"f:2: byte 3 .*NUL"),
    "empty": (b"", "empty"),
    "only a mark": (b"\xef\xbb\xbf", "empty"),
    "utf16": ("hällo\n".encode("utf-16"), r"UTF-16 text.*iconv -f UTF-16"),
    "zip": (b"PK\x03\x04rest", "zip archive.*unpack it"),
    "bzip2": (b"BZh91AY&SYrest", "bzip2"),
    "zstd": (b"\x28\xb5\x2f\xfdrest", "Zstandard"),
    "parquet": (b"PAR1\x15rest", "parquet"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_content(tmp_path: Path, case: str) -> None:
    data, message = BAD[case]
    (tmp_path / "f").write_bytes(data)
    with pytest.raises(InputError, match=message):
        texts(tmp_path / "f")


def test_a_wrong_compression_suffix_is_refused(tmp_path: Path) -> None:
    for suffix, kind in ((".gz", "gzip"), (".xz", "xz")):
        path = tmp_path / f"a{suffix}"
        path.write_bytes(b"plain text\n")
        with pytest.raises(InputError, match=f"{suffix}, but .* {kind}"):
            texts(path)


def test_a_missing_file_gets_a_suggestion(tmp_path: Path) -> None:
    (tmp_path / "train.de").write_text("x\n")
    with pytest.raises(InputError, match=r"trian\.de: no such file.*train\.de\?"):
        texts(tmp_path / "trian.de")
    with pytest.raises(InputError, match=r"zzz: no such file.*train\.de"):
        texts(tmp_path / "zzz")
    with pytest.raises(InputError, match=r"no such file.*no does not exist"):
        texts(tmp_path / "no" / "a")
    (tmp_path / "bare").mkdir()
    with pytest.raises(InputError, match=r"no such file.*bare is empty"):
        texts(tmp_path / "bare" / "a")


def test_a_folder_is_not_a_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a folder"):
        texts(tmp_path)


def test_no_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a"
    path.write_text("x\n")
    path.chmod(0)
    if os.access(path, os.R_OK):  # root reads everything

        def refuse(*args: object) -> None:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(InputError, match=r"a: no permission.*chmod u\+r"):
        texts(path)


def test_impossible_file_names_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be opened"):
        texts(Path("a\0b"))
    with pytest.raises(InputError, match="cannot be opened"):
        texts(tmp_path / ("x" * 5000))


@pytest.mark.parametrize("change", ["shrink", "grow", "touch"])
def test_a_file_that_changes_while_it_is_read(tmp_path: Path, change: str) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"line of text\n" * 100_000)
    lines = read_lines(path)
    next(lines)
    if change == "shrink":
        os.truncate(path, 600_000)
    elif change == "grow":
        with path.open("ab") as file:
            file.write(b"more\n")
    else:
        os.utime(path, ns=(1, 1))
    with pytest.raises(InputError, match="changed while"):
        list(lines)


def test_an_archive_that_shrinks_while_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(os.urandom(400_000).hex().encode().replace(b"0", b"\n"), 1))
    lines = read_lines(path)
    next(lines)
    os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(InputError, match=r"a\.gz changed while"):
        list(lines)


def test_reading_may_stop_early(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("a\nb\n")
    lines = read_lines(path)
    assert next(lines) == (1, "a")
    lines.close()


def test_a_pipe_is_read(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(b"a\nb\n"))
    writer.start()
    assert texts(pipe) == ["a", "b"]
    writer.join()


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a\r\nb")))
    assert list(read_lines("-")) == [(1, "a"), (2, "b")]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"\xff")))
    with pytest.raises(InputError, match="standard input:1: byte 1"):
        list(read_lines("-"))
