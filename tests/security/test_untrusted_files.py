"""What may be opened of a folder that somebody else has made."""

from pathlib import Path

import pytest
from bench.hostile_models import KINDS

from translucid.errors import InputError
from translucid.untrusted_files import inside, open_regular, read_object


@pytest.mark.parametrize("kind", KINDS)
def test_only_regular_files_are_opened(tmp_path: Path, kind: str) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").write_text("{}")
    path = tmp_path / "folder" / "file"
    path.parent.mkdir()
    KINDS[kind](path)
    with pytest.raises(InputError, match=str(path)):
        open_regular(path)
    with pytest.raises(InputError, match=str(path)):
        read_object(path)


@pytest.mark.parametrize(
    "name",
    ["..", ".", "", "/", "//x", "/x", "../x", "a/../../x", "a\0b", None, 3, [], "link", "link/x"],
)
def test_names_stay_inside(tmp_path: Path, name: object) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "link").symlink_to(tmp_path)
    with pytest.raises(InputError, match=r"outside of|symbolic link"):
        inside(tmp_path / "folder", name, "a test")


def test_plain_names_are_names_inside(tmp_path: Path) -> None:
    for name in ("a", "a/b.txt", "ä ö", "...", "-x"):
        assert inside(tmp_path, name, "a test") == tmp_path / name
