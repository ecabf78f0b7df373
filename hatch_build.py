"""Compiles `fast/cpu_kernels.c` while the package is built, where there is a C compiler.

Translucid works without: everything in there has a plain twin. What is compiled knows neither
Python's nor torch's version, so one wheel of a platform serves all of them.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
import zlib
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCE = Path("src/translucid/fast/cpu_kernels.c")


class CompileKernels(BuildHookInterface):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        library = compiled(Path(self.root))
        if library is None:
            self.app.display_warning("cpu_kernels.c was not compiled: decoding on a CPU is slower")
            return
        if version == "editable":
            return  # it lies beside its source
        build_data["pure_python"] = False
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"py3-none-{platform}"
        build_data["force_include"][str(library)] = f"translucid/fast/{library.name}"


def compiled(root: Path) -> Path | None:
    """The compiled kernels beside their source, made if they are not there; None: no compiler that
    could."""
    source = root / SOURCE
    library = source.with_name(f"cpu_kernels-{zlib.crc32(source.read_bytes()):08x}.so")
    if library.exists():
        return library
    compiler = shutil.which(os.environ.get("CC") or "cc") or shutil.which("gcc")
    if compiler is None or sys.platform == "win32":
        return None
    for old in source.parent.glob("cpu_kernels-*.so"):
        old.unlink()
    fresh = library.with_suffix(f".{os.getpid()}")
    made = [compiler, "-O3", "-fPIC", "-shared", "-o", str(fresh), str(source), "-lm"]
    try:
        subprocess.run(made, check=True, capture_output=True, text=True)
    except subprocess.CalledProcessError as error:
        print(f"{' '.join(made)}\n{error.stderr}", file=sys.stderr)
        return None
    fresh.replace(library)  # whole, or not there
    return library


if __name__ == "__main__":  # for who works on a checkout that is not installed
    print(compiled(Path(__file__).parent) or sys.exit("no C compiler"))
