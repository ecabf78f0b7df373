"""A store is the documents in memory, bit for bit, however it was cut, and whatever was killed."""

import gzip
import hashlib
import json
import lzma
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from translucid.core.errors import ConfigError, InputError, TokenizerMismatchError, TranslucidError
from translucid.data.batching import plan_batches
from translucid.data.corpus import build_store as build
from translucid.data.corpus import encode, token_store, workers
from translucid.data.corpus.build_store import StorePlan
from translucid.data.corpus.token_store import Store, open_store, read_manifest
from translucid.data.packing import pack
from translucid.data.readers.lines import LineRule, LineSpan
from translucid.data.readers.loading import Loading
from translucid.data.readers.read import read_text
from translucid.data.readers.tables import TableRule
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.tasks.in_batches import sizes_of
from translucid.tasks.language import Language

ALL = 10**9
EOS = 2


def build_store(*arguments, **options) -> Store:
    plan = StorePlan(*arguments, **options)
    with build.locked(Path(plan.folder), print):
        return build.build_store(plan)


def ensure_store(*arguments, say=print, **options) -> Store:
    return build.ensure_store(StorePlan(*arguments, **options), say)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train("bpe", ["the cat sat on the mat", "a straße über\n\n\nall"] * 9, 300)


@pytest.fixture(scope="module")
def other_tokenizer() -> Tokenizer:
    return Tokenizer.train("char", ["the cat sat on the mat\n"])


def in_memory(
    path: Path, tokenizer: Tokenizer, unit: str = "line", rule: LineRule | None = None
) -> tuple[list[int], int, Loading]:
    """The stream, its characters and the report, by reading the whole file."""
    loading = Loading()
    options = TableRule(lines=rule) if rule else TableRule()
    texts = [r.text for r in read_text(path, unit=unit, rule=options, loading=loading)]
    stream = [i for text in texts for i in (*tokenizer.encode_document(text), EOS)]
    return stream, sum(len(text) + 1 for text in texts), loading


def content(folder: Path) -> tuple[dict, list[bytes]]:
    """Everything in a store's folder that is not a matter of chance."""
    manifest = json.loads((folder / "manifest.json").read_bytes())
    shards = [path.read_bytes() for path in sorted((folder / manifest["build"]).glob("*.tokens"))]
    return {k: v for k, v in manifest.items() if k not in ("build", "sha256")}, shards


def corpus(lines: int = 1500, seed: int = 0) -> bytes:
    dice = random.Random(seed)
    words = ["the", "cat", "sat", "on", "straße", "über", "mat", "\u2028", "x" * 30]
    made = (" ".join(dice.choices(words, k=dice.randint(0, 9))).encode() for _ in range(lines))
    return b"".join(line + dice.choice([b"\n", b"\n", b"\r\n"]) for line in made)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.txt"
    path.write_bytes(corpus())
    return path


# Equal to what memory holds

line = st.sampled_from(
    ["", "", " ", "\u3000", "the cat", "straße", "a\rb", "\x85\u2028", "\x0c", "\ufeffx", "é" * 9]
) | st.text(st.characters(exclude_characters="\n\0", exclude_categories=["Cs"]), max_size=12)
file_bytes = st.builds(
    lambda bom, lines, last: bom + b"".join(x.encode() + end for x, end in lines) + last,
    st.sampled_from([b"", b"\xef\xbb\xbf"]),
    st.lists(st.tuples(line, st.sampled_from([b"\n", b"\r\n"])), max_size=20),
    st.sampled_from([b"", b"no line end", b"\r"]),
)


@given(
    st.lists(file_bytes, min_size=1, max_size=3),
    st.sampled_from(["line", "paragraph", "file"]),
    st.integers(1, 120),
    st.sampled_from([LineRule(), LineRule(20, "skip"), LineRule(20)]),
    st.sampled_from([1 << 20, 40]),
    st.integers(1, 40),
)
def test_store_equals_the_documents_in_memory(
    tmp_path_factory, tokenizer, files, unit, shard_bytes, rule, max_bytes, batch
) -> None:
    folder = tmp_path_factory.mktemp("store")
    limited = Tokenizer(tokenizer.kind, tokenizer._backend, max_bytes)
    paths = [folder / f"{number}.txt" for number in range(len(files))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encode, "_BATCH", batch)
        patch.setattr(encode, "_BLOCK", batch)  # line ends across blocks, too
        patch.setattr(os, "fsync", lambda handle: None)
        for path, data in zip(paths, files, strict=True):
            path.write_bytes(data)
        mistake = ""
        try:
            found = [in_memory(path, limited, unit, rule) for path in paths]
            expected = [token for stream, _, _ in found for token in stream]
        except InputError as error:
            mistake = str(error)
        if mistake:
            with pytest.raises(InputError) as raised:
                build_store(paths, limited, folder / "s", unit=unit, rule=rule, processes=1,
                            shard_bytes=shard_bytes)  # fmt: skip
            if "in one piece" not in mistake:  # a text that the tokenizer refuses has no line
                assert str(raised.value) == mistake
            return
        if not expected:
            with pytest.raises(InputError, match="no usable record"):
                build_store(paths, limited, folder / "s", unit=unit, rule=rule, processes=1)
            return
        made = build_store(
            paths, limited, folder / "s", unit=unit, rule=rule, processes=1, shard_bytes=shard_bytes
        )
    assert made.window(0, ALL).tolist() == expected
    assert made.loadings(paths) == [loading for _, _, loading in found]
    assert [loading.lines() for loading in made.loadings(paths)] == [x.lines() for _, _, x in found]
    assert made.characters == sum(characters for _, characters, _ in found)
    assert made.documents == sum(loading.records for _, _, loading in found)
    packed = pack([expected[:-1]], 7, bos=EOS, eos=EOS, pad_id=0)
    rows = Language(limited).rows_of(made, 7)
    assert [row.ids for row in rows] == [
        ids[mask].tolist() for ids, mask in zip(packed.inputs, packed.mask, strict=True)
    ]
    assert [row.targets for row in rows] == [
        ids[mask].tolist() for ids, mask in zip(packed.targets, packed.mask, strict=True)
    ]


@pytest.mark.slow
def test_processes_and_shards_change_nothing(tmp_path: Path, text: Path, tokenizer) -> None:
    expected, characters, loading = in_memory(text, tokenizer)
    one = build_store([text], tokenizer, tmp_path / "a", processes=1, shard_bytes=9000)
    two = build_store([text], tokenizer, tmp_path / "b", processes=3, shard_bytes=9000)
    assert content(one.folder) == content(two.folder)
    assert len(content(one.folder)[1]) > 5
    whole = build_store([text], tokenizer, tmp_path / "c", processes=1)
    for made in (one, two, whole):
        assert made.window(0, ALL).tolist() == expected
        assert open_store(made.folder, verify=True).window(0, ALL).tolist() == expected
        assert (made.characters, made.loadings([text])) == (characters, [loading])


@pytest.mark.parametrize("pack_it", [gzip.compress, lzma.compress])
def test_packed_files(tmp_path: Path, text: Path, tokenizer, pack_it) -> None:
    packed = tmp_path / {gzip.compress: "a.gz", lzma.compress: "a.xz"}[pack_it]
    packed.write_bytes(pack_it(text.read_bytes()))
    seen: list[tuple[int, int]] = []
    made = build_store([packed, text], tokenizer, tmp_path / "s", processes=1, shard_bytes=9000,
                       progress=lambda done, total: seen.append((done, total)))  # fmt: skip
    expected = in_memory(text, tokenizer)[0]
    assert made.window(0, ALL).tolist() == expected * 2
    total = packed.stat().st_size + text.stat().st_size
    assert seen == sorted(seen)
    assert {t for _, t in seen} == {total}
    assert seen[-1][0] == total


@pytest.mark.parametrize("size", [39, 40, 41, 42, 80])
@pytest.mark.parametrize("unit", ["file", "paragraph"])
def test_documents_at_the_size_limit(tmp_path: Path, tokenizer, unit, size: int) -> None:
    """At once a document gives other ids than line by line, where a token holds two line ends."""
    small = Tokenizer(tokenizer.kind, tokenizer._backend, max_bytes=40)
    path = tmp_path / "a"
    path.write_bytes((b"a\n\n\nall\nthe cat\n\n\n" * 9)[: size - 1] + b"x")
    expected = in_memory(path, small, unit)[0]
    found = build_store([path], small, tmp_path / "s", unit=unit).window(0, ALL).tolist()
    assert found == expected
    if unit == "file":
        at_once = [*tokenizer.encode(path.read_text("utf-8")), EOS]
        assert (expected == at_once) is (size <= 40)


def test_progress_counts_what_is_left_out(tmp_path: Path, text: Path, tokenizer) -> None:
    (tmp_path / "blank").write_bytes(b"\n" * 5000)
    seen: list[int] = []
    build_store([text, tmp_path / "blank"], tokenizer, tmp_path / "s", processes=1,
                progress=lambda done, total: seen.append(done))  # fmt: skip
    assert seen[-1] == text.stat().st_size + 5000


@pytest.mark.slow
def test_progress_by_several_processes(tmp_path: Path, text: Path, tokenizer) -> None:
    seen: list[int] = []
    build_store([text], tokenizer, tmp_path / "s", processes=2, shard_bytes=40_000,
                progress=lambda done, total: seen.append(done))  # fmt: skip
    assert seen == sorted(seen)
    assert seen[-1] == text.stat().st_size


@pytest.mark.slow
def test_large_vocabularies_take_four_bytes(tmp_path: Path) -> None:
    words = [f"w{number}" for number in range(70_000)]
    big = Tokenizer.train("word", words)
    path = tmp_path / "a"
    path.write_text(" ".join(words[-2000:]) + "\n", "utf-8")
    made = build_store([path], big, tmp_path / "s")
    assert made.manifest.dtype == "<u4"
    assert made.window(0, ALL).tolist() == in_memory(path, big)[0]
    assert made.window(0, ALL).max() > 1 << 16


@pytest.mark.parametrize("unit", ["line", "paragraph"])
def test_cuts_do_not_depend_on_how_a_file_is_read(tmp_path: Path, unit, monkeypatch) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"one\n\ntwo\r\n\r\nthree\nfour\n \nfive\n\n\n\nsix\n\n" * 3 + b"end")
    found = []
    for block in (1 << 20, 1, 2, 3, 5, 8):
        monkeypatch.setattr(encode, "_BLOCK", block)
        scanned: list[encode.Scanned] = []
        found.append(list(encode.cut([str(path)], unit, 4, scanned)))
        assert scanned[0].sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    # Reading a file may change when it was read last; all else about a piece is the same.
    plain = [[[replace(piece, stat=None) for piece in job] for job in jobs] for jobs in found]
    assert all(jobs == plain[0] for jobs in plain)
    spans = [piece.span for job in found[0] for piece in job]
    ends = [span.end for span in spans]
    assert [0, *ends[:-1]] == [span.start for span in spans]
    assert ends[-1] == path.stat().st_size
    data = path.read_bytes()
    assert [span.lines_before for span in spans] == [data[: s.start].count(b"\n") for s in spans]
    assert len(spans) > 10
    for end in ends[:-1]:
        assert data[:end].endswith(b"\n" if unit == "line" else (b"\n\n", b"\n\r\n"))


# Mistakes in the text


@pytest.mark.parametrize(
    ("processes", "bad"),
    [
        (1, b"caf\xe9\n"), (2, b"nul\0\n"), (1, b"y" * 200 + b"\n"),
        *(pytest.param(2, bad, marks=pytest.mark.thorough)
          for bad in (b"caf\xe9\n", b"y" * 200 + b"\n")),
    ],
)  # fmt: skip
def test_errors_name_the_line(tmp_path: Path, tokenizer, processes: int, bad: bytes) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(corpus(2000) + b"ok " + bad + corpus(500) + bad)  # the first one is reported
    rule = LineRule(150)
    with pytest.raises(InputError, match=r"a\.txt:2001: ") as serial:
        in_memory(path, tokenizer, rule=rule)
    with pytest.raises(InputError) as raised:
        build_store([path], tokenizer, tmp_path / "s", processes=processes, shard_bytes=9000,
                    rule=rule)  # fmt: skip
    assert str(raised.value) == str(serial.value)
    assert os.listdir(tmp_path / "s") == []


@pytest.mark.parametrize("change", ["shrink", "grow", "touch"])
def test_a_file_that_changes_while_it_is_read(
    tmp_path: Path, text: Path, tokenizer, change: str
) -> None:
    def progress(done: int, total: int) -> None:
        if change == "shrink":
            os.truncate(text, 10_000)
        elif change == "grow":
            text.write_bytes(corpus(4000))
        else:
            os.utime(text, ns=(1, 1))

    with pytest.raises(InputError, match=r"corpus\.txt.* changed while"):
        build_store([text], tokenizer, tmp_path / "s", processes=1, shard_bytes=9000,
                    progress=progress)  # fmt: skip
    assert os.listdir(tmp_path / "s") == []


def test_a_file_that_changes_while_it_is_cut(text: Path) -> None:
    jobs = encode.cut([str(text)], "line", 9000, [])
    next(jobs)
    os.truncate(text, 10_000)
    with pytest.raises(InputError, match=r"corpus\.txt.* changed while"):
        list(jobs)


@pytest.mark.parametrize("data", [b"new text, of another length\n", b"caf\xe9\n" * 5])
def test_a_file_that_changed_after_it_was_cut(tmp_path: Path, tokenizer, data: bytes) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"some old text\n")
    settings = encode.EncodingSettings(tmp_path, "line", LineRule(), "<u2", 1 << 20, eos=2)
    piece = encode.Piece(0, str(path), LineSpan(0, 14, 0), 14, path.stat())
    path.write_bytes(data)
    with pytest.raises(InputError, match="changed while"):
        encode.encode_job((piece,), 0, settings, encode.WordCache(tokenizer), lambda count: None)


def test_impossible_stores_are_refused(tmp_path: Path, text: Path, tokenizer) -> None:
    folder = tmp_path / "s"
    with pytest.raises(InputError, match=r"corpus\.tx: no such file"):
        build_store([tmp_path / "corpus.tx"], tokenizer, folder)
    with pytest.raises(ConfigError, match="no file"):
        build_store([], tokenizer, folder)
    with pytest.raises(ConfigError, match="processes = 0"):
        build_store([text], tokenizer, folder, processes=0)
    with pytest.raises(InputError, match=r"a\.csv\.gz.*csv.*plain text"):
        build_store([tmp_path / "a.csv.gz"], tokenizer, folder)
    (tmp_path / "empty").touch()
    with pytest.raises(InputError, match="empty"):
        build_store([tmp_path / "empty"], tokenizer, folder)
    os.mkfifo(tmp_path / "pipe")
    threading.Thread(target=lambda: (tmp_path / "pipe").open("wb").close(), daemon=True).start()
    with pytest.raises(InputError, match="pipe is not a regular file"):
        build_store([tmp_path / "pipe"], tokenizer, folder)
    with pytest.raises(InputError, match=r"corpus\.txt cannot contain a store"):
        build_store([text], tokenizer, text)
    with pytest.raises(InputError, match=r"corpus\.txt.*empty folder"):
        build_store([text], tokenizer, tmp_path)
    assert text.exists()


# Whole or not there


def test_a_full_disk(tmp_path: Path, text: Path, tokenizer, monkeypatch) -> None:
    made = build_store([text], tokenizer, tmp_path / "s", processes=1)
    before = content(made.folder)

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match=r"No space left.*free some"):
        build_store([text], tokenizer, tmp_path / "s", processes=1, shard_bytes=9000)
    assert content(made.folder) == before  # the store before is still there
    assert len(os.listdir(made.folder)) == 2


def test_a_new_store_takes_the_place_of_the_old(
    tmp_path: Path, text: Path, tokenizer, other_tokenizer
) -> None:
    old = build_store([text], tokenizer, tmp_path / "s", processes=1)
    expected = old.window(0, ALL)
    new = build_store([text], other_tokenizer, tmp_path / "s", processes=1)
    assert new.window(0, ALL).tolist() == in_memory(text, other_tokenizer)[0]
    assert sorted(os.listdir(tmp_path / "s")) == sorted([new.manifest.build, "manifest.json"])
    assert (old.window(0, ALL) == expected).all()  # open readers of the old one continue


@pytest.mark.slow
def test_interrupted_builds_leave_nothing(tmp_path: Path, text: Path, tokenizer) -> None:
    def interrupt(done: int, total: int) -> None:
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_store([text], tokenizer, tmp_path / "s", processes=2, shard_bytes=9000,
                    progress=interrupt)  # fmt: skip
    assert os.listdir(tmp_path / "s") == []
    assert multiprocessing.active_children() == []


def test_workers_stop_when_stop_is_set(tmp_path: Path, text: Path, tokenizer, monkeypatch) -> None:
    settings = encode.EncodingSettings(tmp_path, "line", LineRule(), "<u2", 1 << 20, eos=2)
    (job,) = encode.cut([str(text)], "line", 10**9, [])
    stop = multiprocessing.Event()
    stop.set()
    for name, value in {
        "settings": settings, "words": encode.WordCache(tokenizer), "stop": stop,
        "bytes_done": multiprocessing.Value("q", 0),
    }.items():  # fmt: skip
        monkeypatch.setattr(workers._Worker, name, value, raising=False)
    with pytest.raises(workers._Stopped):
        workers._work(job, 0)


def test_the_manifest_changes_in_one_step(
    tmp_path: Path, text: Path, tokenizer, other_tokenizer, monkeypatch
) -> None:
    made = build_store([text], tokenizer, tmp_path / "s", processes=1)
    before = content(made.folder)

    def die(part: Path, path: Path) -> None:
        if path.name == "manifest.json":
            assert json.loads(part.read_bytes())["tokens"]  # whole by now
            raise KeyboardInterrupt
        rename(part, path)

    rename = os.replace
    monkeypatch.setattr(os, "replace", die)
    with pytest.raises(KeyboardInterrupt):
        build_store([text], other_tokenizer, tmp_path / "s", processes=1)
    assert content(made.folder) == before


# Python's own thread that watches the processes may stumble where another is started meanwhile.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_worker_that_dies(tmp_path: Path, text: Path, tokenizer) -> None:
    def kill(done: int, total: int) -> None:
        for child in multiprocessing.active_children():
            child.kill()

    with pytest.raises(TranslucidError, match=r"process.* died"):
        build_store([text], tokenizer, tmp_path / "s", processes=2, shard_bytes=9000,
                    progress=kill)  # fmt: skip
    assert os.listdir(tmp_path / "s") == []


BUILD = """
import sys, time
from translucid.data.corpus import workers as store_pool
from translucid.data.corpus.build_store import StorePlan, ensure_store
from translucid.data.tokenizers.tokenizer import Tokenizer
encode = store_pool.encode_job
def encode_slowly(*arguments):
    time.sleep(0.1)
    return encode(*arguments)
store_pool.encode_job = encode_slowly  # in the processes, too: they import this file
if __name__ == "__main__":
    text, tokenizer, folder = sys.argv[1:]
    print("begun", flush=True)
    ensure_store(StorePlan([text], Tokenizer.load(tokenizer), folder, processes=2, shard_bytes=4000,
                           progress=lambda done, total: print(done, flush=True)))
"""


def killed_build(tmp_path: Path, text: Path, folder: Path, wait_bytes: int, nap: float) -> None:
    """Killed a moment after so many bytes were done; its processes must end by themselves."""
    (tmp_path / "build.py").write_text(BUILD, "utf-8")
    command = [sys.executable, tmp_path / "build.py", text, tmp_path / "tokenizer", folder]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, encoding="utf-8", start_new_session=True
    ) as p:
        for said in p.stdout:
            if said.strip() != "begun" and int(said) >= wait_bytes:
                break
        time.sleep(nap)
        p.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        try:
            os.killpg(p.pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.02)
    os.killpg(p.pid, signal.SIGKILL)
    raise AssertionError("the processes of a killed build live on")


@pytest.mark.thorough
def test_killed_builds_leave_no_damage(tmp_path: Path, text: Path, tokenizer) -> None:
    dice = random.Random(3)
    tokenizer.save(tmp_path / "tokenizer")
    expected = content(
        build_store([text], tokenizer, tmp_path / "a", processes=1, shard_bytes=4000).folder
    )
    folder = tmp_path / "s"
    left = 0
    for _ in range(12):
        killed_build(tmp_path, text, folder, dice.randrange(text.stat().st_size), dice.random() / 9)
        builds = sum(name.startswith("build-") for name in os.listdir(folder))
        if (folder / "manifest.json").exists():  # that one was done
            open_store(folder, verify=True)
            builds -= 1
        left += builds
        assert builds <= 1  # what was left before is gone
    assert left  # the kills did hit builds
    made = build_store([text], tokenizer, folder, processes=1, shard_bytes=4000)
    assert content(folder) == expected
    assert sorted(os.listdir(folder)) == sorted([made.manifest.build, "manifest.json"])


def test_a_build_killed_before_its_end_is_no_store(tmp_path: Path, text: Path, tokenizer) -> None:
    made = build_store([text], tokenizer, tmp_path / "s", processes=1, shard_bytes=9000)
    (made.folder / "manifest.json").rename(made.folder / "manifest.json.part")
    with pytest.raises(InputError, match="no token store"):
        open_store(made.folder)
    again = ensure_store([text], tokenizer, tmp_path / "s", processes=1)
    assert sorted(os.listdir(made.folder)) == sorted([again.manifest.build, "manifest.json"])


def test_one_builder_at_a_time(tmp_path: Path, text: Path, tokenizer) -> None:
    said: list[str] = []
    entered, release = threading.Event(), threading.Event()

    def hold(done: int, total: int) -> None:
        entered.set()
        assert release.wait(300)

    def build(progress) -> None:
        ensure_store([text], tokenizer, tmp_path / "s", processes=1, progress=progress,
                     say=said.append)  # fmt: skip

    first = threading.Thread(target=build, args=(hold,))
    first.start()
    assert entered.wait(300)
    second = threading.Thread(target=build, args=(None,))
    second.start()
    while not said:
        time.sleep(0.01)
    release.set()
    first.join()
    second.join()
    assert "another process" in said[0]
    assert sum(line.startswith("built") for line in said) == 1
    assert sum("reused" in line for line in said) == 1


# Damage


@pytest.fixture
def made(tmp_path: Path, text: Path, tokenizer) -> Store:
    return build_store([text], tokenizer, tmp_path / "s", processes=1, shard_bytes=20_000)


def test_damaged_shards(made: Store) -> None:
    shards = sorted((made.folder / made.manifest.build).glob("*.tokens"))
    dice = random.Random(0)
    for path in shards:
        whole = path.read_bytes()
        for _ in range(4):
            flipped = bytearray(whole)
            flipped[dice.randrange(len(whole))] ^= 1 << dice.randrange(8)
            path.write_bytes(flipped)
            with pytest.raises(InputError, match=rf"{path.name} is damaged.*rebuild"):
                open_store(made.folder, verify=True)
        for size in (0, len(whole) - 1, len(whole) + 1):
            path.write_bytes(whole.ljust(size, b"\0")[:size])
            with pytest.raises(InputError, match=rf"{path.name} has {size:,} bytes.*rebuild"):
                open_store(made.folder)
        path.unlink()
        with pytest.raises(InputError, match=rf"{path.name}.*rebuild"):
            open_store(made.folder)
        path.write_bytes(whole)
    open_store(made.folder, verify=True)


def test_damaged_manifests(made: Store) -> None:
    path = made.folder / "manifest.json"
    whole = path.read_bytes()
    dice = random.Random(0)
    for place in range(0, len(whole), 9):
        flipped = bytearray(whole)
        flipped[place] ^= 1 << dice.randrange(8)
        path.write_bytes(flipped)
        with pytest.raises(InputError, match=r"manifest\.json"):
            read_manifest(made.folder)
        path.write_bytes(whole[:place])
        with pytest.raises(InputError, match=r"manifest\.json"):
            read_manifest(made.folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"build": "../build-00000000"}, "build: String should match"),
        ({"tokens": 5}, "do not add up to 5"),
        ({"tokens": -1}, "tokens: Input should be greater"),
        ({"format": 2}, "format 1"),
        ({"more": 1}, "more: Extra inputs are not permitted"),
    ],
)
def test_hostile_manifests(made: Store, change: dict, message: str) -> None:
    path = made.folder / "manifest.json"
    changed = json.loads(path.read_bytes()) | change
    del changed["sha256"]
    path.write_text(json.dumps(changed | {"sha256": token_store._digest(changed)}))
    with pytest.raises(InputError, match=message):
        open_store(made.folder)


# Reuse


def test_reuse(tmp_path: Path, text: Path, tokenizer, monkeypatch) -> None:
    said: list[str] = []

    def ensure(path: Path = text, **options) -> Store:
        return ensure_store([path], tokenizer, tmp_path / "s", processes=1, say=said.append,
                            **options)  # fmt: skip

    first = ensure().manifest
    assert said[0].startswith(f"built {tmp_path / 's'}: {first.tokens:,} tokens from ")
    assert said[0].endswith("MB/s, 1 process")
    with monkeypatch.context() as patch:  # nothing is read, nothing is locked
        patch.setattr(build, "digest_of", None)
        patch.setattr(build, "locked", None)
        assert ensure().manifest == first
        assert said[-1].startswith(f"reused {tmp_path / 's'}: {first.tokens:,} tokens")
        moved = text.rename(tmp_path / "moved.txt")
        assert ensure(moved).manifest == first
        moved.rename(text)
    os.utime(text, ns=(1, 1))
    touched = ensure().manifest
    assert touched.build == first.build  # the same content at another time
    with monkeypatch.context() as patch:
        patch.setattr(build, "digest_of", None)  # and this is known from now on
        assert ensure().manifest == touched

    text.write_bytes(text.read_bytes().replace(b"cat", b"mat"))
    assert ensure().manifest.build != first.build
    assert said[-2] == f"rebuilding {tmp_path / 's'}: {text} has changed"
    assert open_store(tmp_path / "s").window(0, ALL).tolist() == in_memory(text, tokenizer)[0]


@pytest.mark.slow
def test_changes_that_rebuild_the_store(
    tmp_path: Path, text: Path, tokenizer, other_tokenizer
) -> None:
    said: list[str] = []

    def ensure(files: list[Path], maker: Tokenizer, **options) -> Store:
        return ensure_store(files, maker, tmp_path / "s", processes=1, say=said.append, **options)

    ensure([text], tokenizer)
    ensure([text], other_tokenizer)
    assert "different tokenizer (" in said[-2]
    ensure([text], other_tokenizer, unit="paragraph")
    assert said[-2].endswith("different unit")
    ensure([text], other_tokenizer, rule=LineRule(1000, "skip"))
    assert said[-2].endswith("different unit, max_line_bytes, too_long")
    ensure([text], other_tokenizer)
    ensure([text, text], other_tokenizer)
    assert said[-2].endswith("from 1 files, not from 2")
    last = ensure([text, text], other_tokenizer)
    (tmp_path / "s" / last.manifest.build / "00000.tokens").unlink()
    ensure([text, text], other_tokenizer)
    assert "rebuilding" in said[-2]
    assert "cannot be read" in said[-2]
    text.unlink()
    with pytest.raises(InputError, match="no such file"):
        ensure([text, text], other_tokenizer)


# Reading


@given(data=st.data())
@hypothesis_settings(max_examples=30)
def test_windows(tmp_path_factory, tokenizer, data) -> None:
    folder = tmp_path_factory.mktemp("windows")
    path = folder / "a"
    path.write_bytes(b"the cat\n\n\n\n\nsat on\n" * 9 + b"\n" * 30)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)
        patch.setattr(token_store, "_GIVE_BACK_AFTER", data.draw(st.integers(1, 3)))
        size = data.draw(st.integers(1, 40))
        made = build_store([path], tokenizer, folder / "s", processes=1, shard_bytes=size)
        stream = in_memory(path, tokenizer)[0]
        for _ in range(10):
            start = data.draw(st.integers(0, len(stream) + 3))
            length = data.draw(st.integers(0, len(stream) + 3))
            found = made.window(start, length)
            assert found.dtype == np.int64
            assert found.tolist() == stream[start : start + length]
    with pytest.raises(ConfigError, match="start = -1, length = 3"):
        made.window(-1, 3)


@pytest.mark.parametrize("length", [16, 64, 100_000])
def test_rows_equal_those_made_in_memory(made: Store, text: Path, tokenizer, length: int) -> None:
    task = Language(tokenizer)
    expected = task.rows(list(read_text(text)), length)
    rows = task.rows_of(made, length)
    assert list(rows) == expected
    assert len(rows) == len(expected)
    assert rows[-1] == expected[-1]
    assert sizes_of(task, rows).tolist() == sizes_of(task, expected).tolist()
    assert list(rows[1:9:3]) == expected[1:9:3]
    assert sizes_of(task, rows[-1:]).tolist() == [list(task.sizes(expected[-1]))]
    with pytest.raises(IndexError):
        rows[len(rows)]


def test_batches_equal_those_made_in_memory(made: Store, text: Path, tokenizer) -> None:
    task = Language(tokenizer)
    both = task.rows(list(read_text(text)), 32), task.rows_of(made, 32)
    plans = [plan_batches(sizes_of(task, rows), 256, seed=3, epoch=1) for rows in both]
    for one, other in zip(plans[0].batches, plans[1].batches, strict=True):
        assert one.tolist() == other.tolist()
        a, b = (
            task.collate([rows[i] for i in batch])
            for rows, batch in zip(both, (one, other), strict=True)
        )
        assert (a.inputs["ids"] == b.inputs["ids"]).all()
        assert (a.targets == b.targets).all()
        assert (a.count, a.lines) == (b.count, b.lines)


def test_a_store_of_another_tokenizer(made: Store, tokenizer, other_tokenizer) -> None:
    assert made.tokenizer().fingerprint == tokenizer.fingerprint
    with pytest.raises(TokenizerMismatchError, match="char tokenizer"):
        Language(other_tokenizer).rows_of(made, 8)
    with pytest.raises(ConfigError, match="length = 0"):
        Language(tokenizer).rows_of(made, 0)


@pytest.mark.slow
def test_workers_do_not_import_torch() -> None:
    code = "import sys, translucid.data.corpus.workers; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
