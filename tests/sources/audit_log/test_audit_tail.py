"""A log followed through rotation, truncation and restarts: every whole line once, in order."""

from __future__ import annotations

import gzip
import os
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.primitives.errors import SourceUnavailable
from steelyard.sources.audit_log import AuditTail


def line(number: int) -> bytes:
    return b'{"auditID":"%060d"}' % number


class Log:
    """A log that a test writes and rotates; modification times go up by one so that order is plain."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "audit.log"
        self.written = 0
        self._turn = 0
        self.path.touch()

    def write(self, count: int, end: bytes = b"\n") -> None:
        with self.path.open("ab") as stream:
            for _ in range(count):
                self.written += 1
                stream.write(line(self.written) + end)
        self._stamp(self.path)

    def rename(self) -> None:
        self._turn += 1
        self.path.rename(self.path.with_name(f"audit-{self._turn:03}.log"))
        self.path.touch()
        self._stamp(self.path)

    def copy_and_truncate(self) -> None:
        self._turn += 1
        copy = self.path.with_name(f"audit.log.{self._turn}")
        shutil.copyfile(self.path, copy)
        self._stamp(copy)
        self.path.write_bytes(b"")
        self._stamp(self.path)

    def _stamp(self, path: Path) -> None:
        self._turn += 1
        os.utime(path, (self._turn, self._turn))


def numbers(tail: AuditTail) -> list[int]:
    return [int(text[12:72]) for part in tail.read() for text in part.lines]


def test_a_growing_file_is_read_line_by_line_and_each_line_once(tmp_path: Path) -> None:
    log, tail = Log(tmp_path), AuditTail(tmp_path / "audit.log")
    assert numbers(tail) == []
    log.write(2)
    assert numbers(tail) == [1, 2]
    assert numbers(tail) == []
    log.write(1, end=b"")
    assert numbers(tail) == [], "a line without its end is not whole yet"
    with log.path.open("ab") as stream:
        stream.write(b"\n")
    assert numbers(tail) == [3]


def test_a_restart_goes_on_at_the_cursor_through_rotations_meanwhile(tmp_path: Path) -> None:
    log, tail = Log(tmp_path), AuditTail(tmp_path / "audit.log")
    log.write(3)
    assert numbers(tail) == [1, 2, 3]
    cursor = tail.cursor()
    log.write(2)
    log.rename()
    log.write(2)
    log.rename()
    log.write(1)
    again = AuditTail(log.path)
    again.resume(cursor)
    assert numbers(again) == [4, 5, 6, 7, 8]
    assert again.gaps_count == 0


def test_a_copied_and_truncated_file_is_finished_in_its_copy(tmp_path: Path) -> None:
    log, tail = Log(tmp_path), AuditTail(tmp_path / "audit.log")
    log.write(3)
    assert numbers(tail) == [1, 2, 3]
    log.write(2)
    log.copy_and_truncate()
    log.write(4)
    assert numbers(tail) == [4, 5, 6, 7, 8, 9]
    assert (numbers(tail), tail.gaps_count) == ([], 0)


def test_a_file_that_was_packed_before_its_end_was_read_is_a_gap(tmp_path: Path) -> None:
    log, tail = Log(tmp_path), AuditTail(tmp_path / "audit.log")
    log.write(3)
    assert numbers(tail) == [1, 2, 3]
    log.write(2)
    (tmp_path / "audit-1.log.gz").write_bytes(gzip.compress(log.path.read_bytes()))
    log.path.unlink()
    log.write(1)
    assert (numbers(tail), tail.gaps_count) == ([6], 1)


def test_a_log_of_another_name_beside_it_is_not_read(tmp_path: Path) -> None:
    log, tail = Log(tmp_path), AuditTail(tmp_path / "audit.log")
    log.write(1)
    assert numbers(tail) == [1]
    (tmp_path / "other.log").write_bytes(line(99) + b"\n")
    log.rename()
    log.write(1)
    assert numbers(tail) == [2]


def test_a_file_that_is_not_there_is_unavailable_and_comes_later(tmp_path: Path) -> None:
    tail = AuditTail(tmp_path / "audit.log")
    with pytest.raises(SourceUnavailable, match="No such file"):
        list(tail.read())
    log = Log(tmp_path)
    log.write(1)
    assert numbers(tail) == [1]
    log.path.unlink()
    log.path.mkdir()
    with pytest.raises(SourceUnavailable):
        list(tail.read())


def test_bounds_of_a_line_and_of_a_round_hold_and_nothing_is_lost_behind_them(tmp_path: Path) -> None:
    log, tail = Log(tmp_path), AuditTail(tmp_path / "audit.log", line_bytes_max=100, round_bytes_max=400)
    log.write(2)
    with log.path.open("ab") as stream:
        stream.write(b"x" * 1000 + b"\n")
    log.write(2)
    seen: list[int] = []
    too_long = 0
    rounds = 0
    while len(seen) < 4 and rounds < 20:
        rounds += 1
        for part in tail.read():
            seen += [int(text[12:72]) for text in part.lines if text.startswith(b"{")]
            too_long += len(part.too_long)
    assert seen == [1, 2, 3, 4]
    assert rounds > 2
    assert too_long >= 1


@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize("round_bytes_max", [150, 400, 1_000, 3_000])
def test_the_rest_of_a_line_beyond_the_bound_is_no_line_in_a_later_round(
    tmp_path: Path, round_bytes_max: int, is_restarted: bool
) -> None:
    log = Log(tmp_path)
    log.write(2)
    with log.path.open("ab") as stream:
        stream.write(b"x" * 2_000 + line(99) + b"\n")
    log.write(2)
    tail = AuditTail(log.path, line_bytes_max=100, round_bytes_max=round_bytes_max)
    lines: list[bytes] = []
    too_long = 0
    for _ in range(60):
        for part in tail.read():
            lines += part.lines
            too_long += len(part.too_long)
        if is_restarted:
            cursor = tail.cursor()
            tail = AuditTail(log.path, line_bytes_max=100, round_bytes_max=round_bytes_max)
            tail.resume(cursor)
    assert lines == [line(1), line(2), line(3), line(4)]
    assert too_long == 1, "it is told once"


def test_a_line_beyond_the_bound_that_is_still_being_written_is_told_once_and_its_end_ends_it(tmp_path: Path) -> None:
    log = Log(tmp_path)
    tail = AuditTail(log.path, line_bytes_max=100)
    log.write(1)
    with log.path.open("ab") as stream:
        stream.write(b"x" * 200)
    assert numbers(tail) == [1]
    assert [len(part.too_long) for part in tail.read() if part.too_long] == [1]
    with log.path.open("ab") as stream:
        stream.write(b"y" * 50)
    assert [part for part in tail.read() if part.lines or part.too_long] == []
    again = AuditTail(log.path, line_bytes_max=100)
    again.resume(tail.cursor())
    with log.path.open("ab") as stream:
        stream.write(b"z\n")
    log.rename()
    log.write(1)
    assert numbers(again) == [2]


@pytest.mark.parametrize("cursor", ["", "x", "[]", "{}", "[1,2]", '["a",1,1,"x",1]', "[" * 10_000])
def test_a_cursor_that_is_none_begins_with_the_present_file(tmp_path: Path, cursor: str) -> None:
    log, tail = Log(tmp_path), AuditTail(tmp_path / "audit.log")
    log.write(2)
    tail.resume(cursor)
    assert numbers(tail) == [1, 2]


ACTIONS = st.lists(
    st.one_of(
        st.integers(1, 5).map(lambda n: ("write", n)),
        st.just(("rename", 0)),
        st.just(("copy", 0)),
        st.just(("read", 0)),
        st.just(("restart", 0)),
    ),
    max_size=25,
)


@given(ACTIONS)
def test_whatever_comes_in_whatever_order_every_line_is_read_once_in_order(
    tmp_path_factory: pytest.TempPathFactory, actions: list[tuple[str, int]]
) -> None:
    log = Log(tmp_path_factory.mktemp("log"))
    log.write(1)
    tail = AuditTail(log.path)
    seen = numbers(tail)
    for what, count in [*actions, ("read", 0)]:
        if what == "write":
            log.write(count)
        elif what == "rename" and log.path.stat().st_size:
            log.rename()
        elif what == "copy" and log.path.stat().st_size:
            log.copy_and_truncate()
        elif what == "read":
            seen += numbers(tail)
        elif what == "restart":
            cursor = tail.cursor()
            tail = AuditTail(log.path)
            tail.resume(cursor)
    assert tail.gaps_count == 0
    assert seen == list(range(1, log.written + 1))
