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

import pytest

from steelyard.app.asking import answer_over
from steelyard.app.posting import post
from steelyard.app.settings import Settings
from steelyard.app.wiring import ports
from steelyard.facts.registry import FACTS
from steelyard.primitives.errors import UsageError
from steelyard.primitives.instant import HOUR_US
from steelyard.store import Store
from steelyard.surfaces.shared.ports import Question
from tests.app.import_samples import WRITTEN, import_files, listing, node, pod, shared_pod, write

FILES = 6
PODS = 120
BLOWS = 5 * int(os.environ.get("STEELYARD_SOAK", "1"))

CHILD = """
import sys, pathlib
import duckdb
from steelyard.app import importer as importing
from steelyard.app.importer import FileImporter
from steelyard.app.settings import Settings
from steelyard.store import Store
from steelyard.surfaces.shared.ports import ImportRequest

real = Store._run
def marked(self, sql, parameters):
    print("statement", flush=True)
    return real(self, sql, parameters)
Store._run = marked

data, source = map(pathlib.Path, sys.argv[1:3])
importing.FACTS_AT_ONCE = int(sys.argv[3])
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


def blow(data: Path, source: Path, at_mark: int, facts_at_once: int = 1) -> int:
    """Import in a child and kill it at its n-th mark. Returns how many files it had acknowledged by then."""
    acknowledged = 0
    command = [sys.executable, "-c", CHILD, str(data), str(source), str(facts_at_once)]
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


def test_a_blow_within_a_transaction_of_several_files_leaves_none_of_them(tmp_path: Path) -> None:
    source = files_in(tmp_path / "in")
    assert blow(tmp_path / "d", source, 25, facts_at_once=1_000_000) == 0
    assert whole_files(tmp_path / "d") == 0
    import_files(tmp_path / "d", source)
    assert whole_files(tmp_path / "d") == FILES


def test_a_question_after_an_import_that_was_cut_off_is_answered_from_books_that_know_all_facts(tmp_path: Path) -> None:
    def cut_off(store: Store) -> int:
        raise KeyboardInterrupt

    data, at = tmp_path / "d", WRITTEN
    first = write(tmp_path / "first.json", listing(node(), shared_pod("a")))
    import_files(data, first, as_of=at, post=lambda store: post(store, Settings()))
    second = write(tmp_path / "second.json", listing(node(), shared_pod("a"), shared_pod("b")))
    with pytest.raises(KeyboardInterrupt):
        import_files(data, second, as_of=at + HOUR_US, post=cut_off)
    with Store.open(data, read_only=True) as store:
        assert store.has_unposted()
        with pytest.raises(UsageError, match="cut off before its posting"):
            answer_over(store, data, 1, Question())
    answer = ports().query(data).answer(1, Question())
    assert {figure.name: figure.value for figure in answer.figures}["holders_count"] == 2
    with Store.open(data, read_only=True) as store:
        assert not store.has_unposted()
