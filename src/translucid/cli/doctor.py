"""`translucid doctor`: check the installation and the machine."""

import json
import os
import platform
import shutil
import sysconfig
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from translucid._version import __version__
from translucid.cli.shared.options import Json
from translucid.core.errors import InputError, install_command
from translucid.core.untrusted_files import ram_bytes

COMPILERS = ["g++", "clang++", "c++", "cl"]
BROWSERS = ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome",
            "google-chrome-stable", "chrome"]  # fmt: skip
PLACES = ["/usr/bin", "/usr/local/bin", "/snap/bin"]  # searched even if PATH lacks them
NEXT = 'translucid work attention --x "1 0; 0 1; 1 1" --identity'


@dataclass(frozen=True)
class Check:
    name: str
    works: bool
    found: str
    remedy: str = ""


def doctor(as_json: Json = False) -> None:
    """Check the installation and the hardware.

    Example: translucid doctor
    """
    checks = [*_machine(), *_torch(), *_extras(), _parquet(), _browser()]
    if as_json:
        report = {
            "translucid": __version__,
            "checks": [asdict(check) for check in checks],
            "next": NEXT,
        }
        print(json.dumps(report, indent=2))
    else:
        width = max(len(check.name) for check in checks)
        for check in checks:
            mark = "+" if check.works else "-"
            remedy = f"   ({check.remedy})" if check.remedy else ""
            print(f"{mark} {check.name:{width}}  {check.found}{remedy}")
        print(f"\nnext: {NEXT}")


def _machine() -> Iterator[Check]:
    yield Check("translucid", True, __version__)
    implementation = platform.python_implementation()
    yield Check("python", True, f"{platform.python_version()} ({implementation})")
    yield Check("platform", True, f"{platform.system()} {platform.release()}, {platform.machine()}")
    yield Check("cores", True, str(_usable_cores()))
    memory = ram_bytes()
    yield Check("memory", True, f"{memory / 2**30:.1f} GiB" if memory else "unknown")


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):  # a container may have fewer than the machine
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _torch() -> Iterator[Check]:
    try:
        import torch
    except (ImportError, OSError) as error:  # OSError: a shared library that does not load
        yield Check("torch", False, f"cannot be imported: {error}", 'pip install "torch>=2.9"')
        return
    yield Check("torch", True, f"{torch.__version__}, {torch.get_num_threads()} threads")

    device = "cpu"
    if torch.cuda.is_available():
        device = "cuda"
        names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
        yield Check("accelerator", True, f"cuda: {', '.join(names)}")
    elif torch.backends.mps.is_available():
        device = "mps"
        yield Check("accelerator", True, "mps")
    else:
        yield Check("accelerator", False, "none: models run on the CPU")

    yield _bf16(device)
    yield _compile(device)
    yield _cpu_kernels()


def _bf16(device: str) -> Check:
    """Whether bfloat16 is fast on this device; on most CPUs torch only emulates it."""
    import torch

    from translucid.fast.precision import has_bf16

    if has_bf16(torch.device(device)):
        return Check("bf16", True, f"on {device}, for decoding in bfloat16")
    return Check("bf16", False, f"not on this {device}: decoding uses float32 or int8")


def _cpu_kernels() -> Check:
    """Whether decoding on the CPU uses Translucid's kernels, and for which instruction set, or
    torch's."""
    from translucid.fast import cpu_kernels

    try:
        reason = cpu_kernels.reason()
    except InputError as error:  # an unknown name in the environment variable
        return Check("cpu kernels", False, str(error))
    if reason:
        remedy = ""
        if "compiler" in reason:
            remedy = "install gcc or clang, then Translucid again"
        return Check("cpu kernels", False, f"torch's, because Translucid's were {reason}", remedy)
    name = cpu_kernels.path().name
    return Check("cpu kernels", True, f"Translucid's for {name}, for decoding in float32 and int8")


def _compile(device: str) -> Check:
    """Whether torch.compile works: it generates C++ (Triton on CUDA), which needs a compiler."""
    wanted = [os.environ["CXX"]] if os.environ.get("CXX") else COMPILERS
    compiler = next((name for name in wanted if shutil.which(name)), None)
    headers = Path(sysconfig.get_paths()["include"], "Python.h").exists()
    if compiler is None:
        remedy = f"install one of: {', '.join(wanted)}"
        return Check("torch.compile", False, "no C++ compiler; models run uncompiled", remedy)
    if not headers:
        remedy = "install Python's development package"
        return Check("torch.compile", False, f"{compiler}, but no Python.h", remedy)
    if device == "cuda" and find_spec("triton") is None:
        return Check("torch.compile", False, f"{compiler}, but no triton", "pip install triton")
    return Check("torch.compile", True, f"possible, with {compiler}")


def _extras() -> Iterator[Check]:
    """Which optional extras are installed, by the metadata of this package."""
    from importlib.metadata import PackageNotFoundError, requires  # slow, and for this alone

    extras: dict[str, list[str]] = {}
    try:
        for requirement in requires("translucid") or ():
            package, extra, name = requirement.partition("; extra == ")
            if extra:
                extras.setdefault(name.strip("'\""), []).append(package)
    except PackageNotFoundError:  # run from the sources
        yield Check("extras", False, "unknown: Translucid is not installed", install_command("web"))
    for name, packages in extras.items():
        missing = [package for package in packages if not _installed(package)]
        if missing:
            found = f"not installed: {', '.join(missing)}"
            yield Check(f"[{name}]", False, found, install_command(name))
        else:
            yield Check(f"[{name}]", True, "installed")


def _installed(package: str) -> bool:
    from importlib.metadata import PackageNotFoundError, version

    try:
        version(package.partition("[")[0])  # without the extras of the package
    except PackageNotFoundError:
        return False
    return True


def _parquet() -> Check:
    """Whether Parquet files can be read. That needs pyarrow, which only [ray] installs."""
    from importlib.metadata import version

    try:
        import_module("pyarrow.parquet")
    except (ImportError, OSError) as error:  # OSError: a shared library that does not load
        found = f"Parquet files and `datasets` folders cannot be read: {error}"
        return Check("parquet", False, found, "pip install pyarrow")
    return Check("parquet", True, f"can be read, with pyarrow {version('pyarrow')}")


def _browser() -> Check:
    named = os.environ.get("CHROMIUM")  # as the tests of the web page read it
    names = [named] if named else [*BROWSERS, *(f"{place}/{name}" for place in PLACES
                                                for name in BROWSERS)]  # fmt: skip
    browser = next((path for name in names if (path := shutil.which(name))), None)
    if browser is None:
        where = f"CHROMIUM={named} cannot be run" if named else "not found in PATH"
        return Check("chromium", False, f"{where}; only tests of the web page need it",
                     "set CHROMIUM=/path/to/it")  # fmt: skip
    return Check("chromium", True, browser)
