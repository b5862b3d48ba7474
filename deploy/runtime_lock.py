"""The part of ``requirements.lock`` that some packages need: what a container image installs, with the lock's own versions and hashes.

``deploy/Containerfile`` calls it. There is one lock, and it holds the developers' tools too; an image has no use for those. The trick to
know: pip-compile notes below each package who asked for it (``# via``), so the lock itself says what belongs together.

    python deploy/runtime_lock.py --to runtime.lock                     what the program, its node agent and its documents need
    python deploy/runtime_lock.py --to build.lock setuptools wheel      what these need
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXTRAS = ("agent", "report")


@dataclass(frozen=True, slots=True)
class Entry:
    """One package of the lock: its canonical name, its lines as they stand, and the names of those that asked for it."""

    name: str
    text: str
    asked_by: frozenset[str]


def canonical(name: str) -> str:
    """A package's name as PEP 503 writes it, without extras, version or marker."""
    found = re.match(r"[A-Za-z0-9][A-Za-z0-9._-]*", name.strip())
    if found is None:
        raise ValueError(f"expected a package, found {name!r}")
    return re.sub(r"[-_.]+", "-", found.group()).lower()


def entries(lock: str) -> list[Entry]:
    """All packages of a lock as pip-compile writes it. Raises ValueError for one without a version or a hash."""
    found = []
    for text in re.split(r"^(?=[A-Za-z0-9])", lock, flags=re.MULTILINE)[1:]:
        head = text.splitlines()[0]
        if "==" not in head or "--hash=sha256:" not in text:
            raise ValueError(f"expected a version and hashes, found {head!r}")
        lines = [line for line in text.splitlines() if line.startswith((head, " "))]
        notes = re.findall(r"^ +# +(?:via +)?([A-Za-z0-9][^ \n]*)", "\n".join(lines), flags=re.MULTILINE)
        asked_by = frozenset(canonical(note) for note in notes if note != "via")
        found.append(Entry(canonical(head), "\n".join(lines) + "\n", asked_by))
    return found


def part(lock: str, roots: Iterable[str]) -> str:
    """The lines of the lock for ``roots`` and for whatever they ask for, in the lock's order. Raises ValueError for a root that it lacks."""
    known = {entry.name: entry for entry in entries(lock)}
    needed = {canonical(root) for root in roots}
    if missing := needed - known.keys():
        raise ValueError(f"not in the lock: {', '.join(sorted(missing))}")
    while more := {name for name, entry in known.items() if entry.asked_by & needed} - needed:
        needed |= more
    return "".join(entry.text for entry in known.values() if entry.name in needed)


def main(arguments: list[str]) -> int:
    """Write the part of the lock beside this folder; 2 where that cannot be done, with one line why."""
    parser = argparse.ArgumentParser(description="The part of requirements.lock that some packages need.")
    parser.add_argument(
        "roots", nargs="*", metavar="PACKAGE", help="default: what pyproject.toml and its extras agent and report name"
    )
    parser.add_argument("--to", required=True, type=Path, metavar="FILE")
    asked = parser.parse_args(arguments)
    try:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        roots = asked.roots or [
            *project["dependencies"],
            *(each for name in EXTRAS for each in project["optional-dependencies"][name]),
        ]
        asked.to.write_text(part((ROOT / "requirements.lock").read_text(encoding="utf-8"), roots), encoding="utf-8")
    except (OSError, ValueError, KeyError) as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
