"""Files of untrusted folders: only regular files inside of them are opened."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from bench.hostile_models import KINDS

from translucid.core.errors import InputError
from translucid.core.untrusted_files import inside, open_regular, read_object


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


def test_plain_names_are_accepted(tmp_path: Path) -> None:
    names = ["a", "a/b.txt", "...", "-x"]
    if sys.getfilesystemencoding() == "utf-8":
        names.append("ä ö")
    for name in names:
        assert inside(tmp_path, name, "a test") == tmp_path / name


@pytest.mark.skipif(sys.platform != "linux", reason="file names are Unicode whatever the locale")
def test_a_name_that_the_locale_cannot_encode_is_refused(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path\nfrom translucid.core.untrusted_files import inside\n"
    )
    code += "try: inside(Path(sys.argv[1]), '\\xe4', 'a test')\nexcept ValueError as e: print(e)"
    ran = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, encoding="utf-8",
        env=os.environ | {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "utf-8"},
    )  # fmt: skip
    assert "cannot be represented in this locale" in ran.stdout, ran.stderr
    assert "set PYTHONUTF8=1" in ran.stdout
