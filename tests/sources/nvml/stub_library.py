"""The stub of NVML, compiled once per session, and the scenario that it plays.

``StubScenario`` is what a test turns: ``play`` a file of ``stub/scenarios``, then ``set`` and ``unset`` single lines. The library reads the
file again when it changed, so what is set holds from the next call on.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

FOLDER = Path(__file__).parent / "stub"
SCENARIOS = FOLDER / "scenarios"
SONAME = "libnvidia-ml.so.1"
VARIABLE = "STEELYARD_NVML_SCENARIO"


class NoCompiler(Exception):
    """There is no C compiler, or it lacks the headers of the C library."""


def compile_stub(folder: Path) -> Path:
    """The compiled stub. Raises NoCompiler; a stub that does not compile where others do raises CalledProcessError."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise NoCompiler("no C compiler (cc): scripts/system_packages.txt names the package")
    probe = folder / "probe.c"
    probe.write_text("#include <pthread.h>\nint main(void) { return 0; }\n", encoding="utf-8")
    tried = subprocess.run(
        [compiler, "-pthread", "-o", folder / "probe", probe], capture_output=True, text=True, check=False
    )
    if tried.returncode != 0:
        raise NoCompiler(f"{compiler} compiles nothing: {tried.stderr[:200]}")
    library = folder / SONAME
    flags = ["-std=c11", "-Wall", "-Wextra", "-Wno-format-truncation", "-O1", "-shared", "-fPIC", "-pthread"]
    subprocess.run([compiler, *flags, f"-Wl,-soname,{SONAME}", "-o", library, FOLDER / "nvml_stub.c"], check=True)
    return library


class StubScenario:
    """A scenario file of its own for one test. ``library``: the compiled stub."""

    def __init__(self, file: Path, library: Path) -> None:
        self.file = file
        self.library = library
        self._lines: dict[str, str] = {}
        os.environ[VARIABLE] = str(file)
        self._write()

    def play(self, name: str) -> None:
        """The lines of ``stub/scenarios/<name>.txt`` and none else."""
        self._lines = lines_of((SCENARIOS / f"{name}.txt").read_text(encoding="utf-8"))
        self._write()

    def set(self, lines: Mapping[str, object]) -> None:
        """Adds or replaces lines."""
        self._lines.update({key: str(value) for key, value in lines.items()})
        self._write()

    def unset(self, *keys: str) -> None:
        """Takes lines away; a key that ends with ``.`` takes all that begin with it."""
        self._lines = {
            key: value
            for key, value in self._lines.items()
            if key not in keys and not any(prefix.endswith(".") and key.startswith(prefix) for prefix in keys)
        }
        self._write()

    def release(self) -> None:
        """Lets every call go that hangs."""
        self.unset("hang.")

    def _write(self) -> None:
        text = "".join(f"{key} {value}\n" for key, value in self._lines.items())
        new = self.file.with_suffix(".new")
        new.write_text(text, encoding="utf-8")
        new.replace(self.file)


def lines_of(text: str) -> dict[str, str]:
    """A scenario's lines by key."""
    found = (line.split(" ", 1) for line in text.splitlines() if line and not line.startswith("#"))
    return dict(found)
