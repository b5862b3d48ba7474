"""``kill -9`` in the middle of an import: a file's facts are there whole or not at all, and what was acknowledged stays.

The child writes a mark before every statement of the store and after every file; the test kills it at a mark, so that the blow falls
within transactions as well as between them, without any clock. ``STEELYARD_SOAK`` multiplies the number of blows.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

from steelyard.facts.registry import FACTS
from steelyard.store import Store
from tests.app.import_samples import import_files, listing, pod, shared_pod, write

FILES = 6
PODS = 120
BLOWS = 5 * int(os.environ.get("STEELYARD_SOAK", "1"))

CHILD = """
import sys, pathlib
import duckdb
from steelyard.app.importer import FileImporter
from steelyard.app.settings import Settings
from steelyard.store import Store
from steelyard.surfaces.shared.ports import ImportRequest

real = Store._run
def marked(self, sql, parameters):
    print("statement", flush=True)
    return real(self, sql, parameters)
Store._run = marked

data, source = map(pathlib.Path, sys.argv[1:])
importer = FileImporter(data, Settings(), lambda store: 0)
def progress(what, done, total):
    if what == "storing":
        print("stored", done, flush=True)
importer.import_paths(ImportRequest(paths=[source]), progress)
"""


def files_in(folder: Path) -> Path:
    for number in range(FILES):
        pods = [(shared_pod if index % 2 else pod)(f"p{number}-{index}") for index in range(PODS + number)]
        write(folder / f"{number}.json", listing(*pods))
    return folder


def blow(data: Path, source: Path, at_mark: int) -> int:
    """Import in a child and kill it at its n-th mark. Returns how many files it had acknowledged by then."""
    acknowledged = 0
    command = [sys.executable, "-c", CHILD, str(data), str(source)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        for number, line in enumerate(child.stdout):
            if line.startswith("stored"):
                acknowledged = int(line.split()[1])
            if number == at_mark:
                child.kill()
                break
        else:
            raise AssertionError("the import came to its end before the blow")
    return acknowledged


def whole_files(data: Path) -> int:
    """How many files are stored; each of them whole, and nothing of any other."""
    union = " UNION ALL ".join(f"SELECT import_id FROM fact.{fact.TABLE}" for fact in FACTS)
    with Store.open(data) as store:
        found = store.rows(
            f"""SELECT file.path, counted.n, file.facts_count + 1
            FROM (SELECT import_id, count(*) AS n FROM ({union}) GROUP BY import_id) AS counted
            LEFT JOIN fact.import_file AS file USING (import_id)"""
        )
    assert all(there == expected for _path, there, expected in found), found
    return len(found)


def test_a_killed_import_leaves_whole_files_and_all_that_it_acknowledged(tmp_path: Path) -> None:
    source = files_in(tmp_path / "in")
    chance = random.Random(20260301)  # noqa: S311 (a choice of marks)
    marks_of_a_file = 40
    for _ in range(BLOWS):
        data = tmp_path / f"d{chance.random()}"
        acknowledged = blow(data, source, chance.randrange(2, FILES * marks_of_a_file))
        assert acknowledged <= whole_files(data) <= FILES
        before = whole_files(data)
        import_files(data, source)
        assert before <= whole_files(data) == FILES


def test_an_import_that_was_killed_and_done_again_equals_one_that_never_was(tmp_path: Path) -> None:
    source = files_in(tmp_path / "in")
    blow(tmp_path / "killed", source, 40)
    import_files(tmp_path / "killed", source)
    import_files(tmp_path / "calm", source)
    stored = []
    for name in ("killed", "calm"):
        with Store.open(tmp_path / name) as store:
            stored.append([store.rows(f"SELECT fact_id FROM fact.{fact.TABLE} ORDER BY ALL") for fact in FACTS])
    assert stored[0] == stored[1]
