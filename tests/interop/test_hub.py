"""Names on the hub: found in a cache as huggingface_hub lays it out, without a network."""

import hashlib
import os
import sys
from pathlib import Path

import pytest
import torch
from tests.in_process import run
from tests.interop.tiny_foreign import Foreign, written

import translucid as tl
from translucid.core.errors import ConfigError, InputError
from translucid.core.untrusted_files import inside, open_regular
from translucid.interop.hub import HubName, fetched, parse, repository_of
from translucid.runs.fine_tuning.take_over import digest_of, open_source
from translucid.studio.library import open_folders

hub = pytest.importorskip("huggingface_hub")
REVISION = "0123456789abcdef0123456789abcdef01234567"


def write_cache(cache: Path, repository: str, folder: Path) -> Path:
    """As if the hub had this folder, and it had been downloaded; gives the snapshot."""
    base = cache / f"models--{repository.replace('/', '--')}"
    (base / "blobs").mkdir(parents=True)
    (base / "refs").mkdir()
    (base / "refs" / "main").write_text(REVISION, "utf-8")
    for file in folder.rglob("*"):
        if file.is_file():
            blob = base / "blobs" / hashlib.sha256(file.read_bytes()).hexdigest()
            blob.write_bytes(file.read_bytes())
            link = base / "snapshots" / REVISION / file.relative_to(folder)
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(os.path.relpath(blob, link.parent))
    return base / "snapshots" / REVISION


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Foreign:
    return written("llama", tmp_path_factory.mktemp("llama"))


@pytest.fixture
def cache(tmp_path: Path, llama: Foreign, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(hub.constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(hub.constants, "HF_HUB_OFFLINE", True)
    write_cache(tmp_path / "cache", "some/llama", llama.folder)
    return tmp_path / "cache"


@pytest.mark.parametrize(
    "name", ["hf:some/llama", "hf:some/llama@main", f"hf:some/llama@{REVISION}"]
)
def test_a_name_opens_the_model_of_the_cache(cache: Path, llama: Foreign, name: str) -> None:
    model = tl.load(name)
    for key, value in llama.model.network.state_dict().items():
        assert torch.equal(value, model.network.state_dict()[key])
    assert model.output_tokenizer.fingerprint == llama.model.output_tokenizer.fingerprint
    assert model.facts["imported"] == "llama model in Hugging Face's layout: some/llama"


def test_pickled_weights_where_there_is_no_safetensors(cache: Path, llama: Foreign) -> None:
    snapshot = cache / "models--some--llama" / "snapshots" / REVISION
    torch.save(llama.theirs.state_dict(), cache / "models--some--llama" / "blobs" / "pickled")
    (snapshot / "model.safetensors").unlink()
    (snapshot / "pytorch_model.bin").symlink_to("../../blobs/pickled")
    model = tl.load("hf:some/llama")
    assert torch.equal(model.trace("a")["head.logits"], llama.model.trace("a")["head.logits"])


def test_commands_accept_hub_names(cache: Path, llama: Foreign, tmp_path: Path) -> None:
    here = [run("generate", place, "the dog", "--max-length", "4", "--seed", "1")
            for place in ("hf:some/llama", str(llama.folder))]  # fmt: skip
    assert here[0].returncode == 0, here[0].stderr
    assert here[0].stdout == here[1].stdout
    assert run("import", "hf:some/llama", str(tmp_path / "out")).returncode == 0


def test_training_starts_from_a_hub_name(cache: Path, llama: Foreign) -> None:
    assert open_source("hf:some/llama", "language").weights == digest_of(llama.model.network)


def test_the_studio_shows_the_repository_name(cache: Path) -> None:
    place = fetched("hf:some/llama")
    assert list(open_folders([place, place], tl.load)) == ["some/llama", "some/llama (2)"]


def test_one_file_of_a_repository(cache: Path) -> None:
    file = fetched("hf:some/llama/config.json")
    assert file.name == "config.json"
    assert repository_of(file) == "some/llama/config.json"
    with pytest.raises(InputError, match=r"some/llama has no file other\.gguf"):
        fetched("hf:some/llama/other.gguf")


def test_missing_models_name_the_cache_and_the_revision(cache: Path) -> None:
    done = run("info", "hf:some/other@v2")
    assert done.returncode == 2
    for part in ("hf:some/other@v2", str(cache), "revision v2", "HF_HUB_OFFLINE is set"):
        assert part in done.stderr


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ConfigError, match="pip install huggingface_hub"):
        fetched("hf:some/llama")


@pytest.mark.parametrize(
    "name",
    ["hf:", "hf:/", "hf:a/../b", "hf:../x", "hf:a/b@", "hf:a//b", "hf:a/b/../../c", "hf:a b"],
)
def test_invalid_hub_names_are_refused(name: str) -> None:
    with pytest.raises(InputError, match="expected hf:ORG/NAME"):
        fetched(name)


def test_parts_of_a_name() -> None:
    assert parse("hf:org/name@refs/pr/3") == HubName("org/name", "refs/pr/3")
    assert parse(Path("hf:org/name/a/b.gguf")) == HubName("org/name", None, "a/b.gguf")
    assert fetched("runs/toy") == Path("runs/toy")


def snapshot(tmp_path: Path) -> Path:
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "config.json").write_text("{}")
    return write_cache(tmp_path, "org/name", tmp_path / "plain")


def test_links_of_the_cache_are_followed(tmp_path: Path) -> None:
    place = snapshot(tmp_path)
    (tmp_path / "elsewhere").symlink_to(place)  # the user's own name for it
    for folder in (place, tmp_path / "elsewhere"):
        with open_regular(inside(folder, "config.json", "a test")) as file:
            assert file.read() == b"{}"


@pytest.mark.parametrize(
    ("link", "target"),
    [
        ("snapshots/REV/x", "../../../precious"),
        ("snapshots/REV/x", "/etc/passwd"),
        ("snapshots/REV/x", "../../blobs/../../precious"),
        ("snapshots/REV/x", "../../blobs/deep/file"),
        ("snapshots/REV/x", "../../../models--org--other/blobs/file"),
        ("snapshots/REV/x", "../../blobs/link"),  # to another link
        ("snapshots/REV/x", "../../blobs/folder"),
        ("snapshots/REV/x", "config.json"),
        ("snapshots/x", "../blobs/file"),
        ("other/REV/x", "../../blobs/file"),
        ("../loose/snapshots/REV/x", "../../blobs/file"),  # no cache of the hub
    ],
)
def test_no_other_link_is_followed(tmp_path: Path, link: str, target: str) -> None:
    base = snapshot(tmp_path).parent.parent
    (tmp_path / "precious").write_text("{}")
    for folder in (base, tmp_path / "models--org--other", tmp_path / "loose"):
        (folder / "blobs" / "deep").mkdir(parents=True)
        (folder / "blobs" / "file").write_text("{}")
        (folder / "blobs" / "deep" / "file").write_text("{}")
    (base / "blobs" / "link").symlink_to(tmp_path / "precious")
    (base / "blobs" / "folder").mkdir()
    path = Path(os.path.normpath(base / link.replace("REV", REVISION)))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)
    with pytest.raises(InputError, match="are not followed"):
        open_regular(inside(path.parent, "x", "a test"))


def test_blobs_that_are_a_link_are_not_followed(tmp_path: Path) -> None:
    place = snapshot(tmp_path)
    blobs = place.parent.parent / "blobs"
    blobs.rename(tmp_path / "moved")
    blobs.symlink_to(tmp_path / "moved")
    with pytest.raises(InputError, match="are not followed"):
        inside(place, "config.json", "a test")


def test_size_limits_depend_on_the_file_name(tmp_path: Path) -> None:
    """Weights may be larger than other files, and blobs have no suffix."""
    place = snapshot(tmp_path)
    (place.parent.parent / "blobs" / "large").write_bytes(bytes(100))
    for name in ("model.safetensors", "model.json"):
        (place / name).symlink_to("../../blobs/large")
    open_regular(place / "model.safetensors", largest=10).close()
    with pytest.raises(InputError, match="above the limit"):
        open_regular(place / "model.json", largest=10)
