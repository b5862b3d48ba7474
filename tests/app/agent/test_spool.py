"""The spool: in order, whole or not there, within its bound, and events last to go."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from steelyard.app.agent import spool as spooling
from steelyard.app.agent.batch import Batch, decode
from steelyard.app.agent.spool import ASIDE_MAX, Speaker, Spool
from steelyard.facts.base import Fact
from steelyard.facts.device_sample import DeviceSample
from steelyard.facts.event import Event
from steelyard.facts.finding import Finding
from steelyard.primitives.errors import UsageError
from steelyard.primitives.instant import MINUTE_US
from tests.app.agent.batches import AT, NODE, event, sample, status

SLACK = 1_000
"""Bytes of the batch that tells of a loss, which comes on top once."""


def opened(folder: Path, bytes_max: int = 1 << 20) -> Spool:
    return Spool(folder / "spool", Speaker(NODE), lambda: AT, bytes_max)


def drained(spool: Spool) -> Iterator[Batch]:
    while (found := spool.oldest()) is not None:
        entry, body = found
        spool.acknowledge(entry.ordinal)
        yield decode(body)


def facts_in(spool: Spool) -> list[Fact]:
    return [fact for batch in drained(spool) for fact in batch.facts]


def test_what_was_put_comes_out_in_order_over_restarts(tmp_path: Path) -> None:
    with opened(tmp_path) as first:
        assert first.put([sample(1), status(1)]) == [1]
        assert first.put([sample(2)]) == [2]
        boot = first.boot
    with opened(tmp_path) as second:
        assert second.put([sample(3)]) == [1]
        found = list(drained(second))
    assert [[fact for fact in batch.facts if isinstance(fact, DeviceSample)] for batch in found] == [
        [sample(1)], [sample(2)], [sample(3)],
    ]  # fmt: skip
    assert [(batch.head.boot, batch.head.sequence) for batch in found] == [(boot, 1), (boot, 2), (second.boot, 1)]
    assert boot != second.boot
    assert second.size() == (0, 0)


def test_a_number_never_means_two_things_although_the_spool_ran_empty(tmp_path: Path) -> None:
    with opened(tmp_path) as spool:
        spool.put([sample(1)])
        list(drained(spool))
        assert spool.put([sample(2)]) == [2]
        assert [entry.ordinal for entry in [spool.oldest()[0]]] == [2]  # type: ignore[index]


def test_only_one_agent_has_a_spool(tmp_path: Path) -> None:
    with opened(tmp_path), pytest.raises(UsageError, match="another agent uses the spool"):
        opened(tmp_path)
    with opened(tmp_path):
        pass


def test_a_spool_that_cannot_be_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "spool").write_text("a file")
    with pytest.raises(UsageError, match="name another with --spool"):
        opened(tmp_path)


def test_events_and_the_cursor_stand_in_one_batch_however_many_samples_follow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spooling, "FACTS_PER_BATCH", 3)
    with opened(tmp_path) as spool:
        happened = [event(number) for number in range(4)]
        assert spool.put([*(sample(n) for n in range(5)), *happened], {"kernel_log": "7"}) == [1, 2, 3]
        found = list(drained(spool))
    assert list(found[0].facts) == happened
    assert [len(batch.facts) for batch in found] == [4, 3, 2]
    assert found[0].head.cursors == {"kernel_log": "7"}


def test_the_cursor_survives_with_what_was_read_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(tmp_path) as spool:
        spool.put([event(1)], {"kernel_log": "1"})

        def cut(self: Spool, name: str, body: bytes) -> None:
            if name == "cursors.json":
                raise OSError(errno.EIO, "cut off here")
            write(self, name, body)

        write = Spool._write
        monkeypatch.setattr(Spool, "_write", cut)
        with pytest.raises(OSError, match="cut off here"):
            spool.put([event(2)], {"kernel_log": "2"})
    with opened(tmp_path) as again:
        assert again.cursors == {"kernel_log": "2"}
        assert facts_in(again) == [event(1), event(2)]
    with opened(tmp_path) as third:
        assert third.cursors == {"kernel_log": "1"}  # acknowledged in between, before anything else was kept


def test_the_cursor_survives_an_empty_spool(tmp_path: Path) -> None:
    with opened(tmp_path) as spool:
        spool.put([event(1)], {"kernel_log": "1"})
        spool.put([], {"kernel_log": "2"})
        assert facts_in(spool) == [event(1)]
    with opened(tmp_path) as again:
        assert again.cursors == {"kernel_log": "2"}


@pytest.mark.parametrize("damage", [b"", b"rubbish", b"\x1f\x8b\x08\x00"])
def test_a_damaged_file_becomes_a_finding_and_stops_nobody(tmp_path: Path, damage: bytes) -> None:
    with opened(tmp_path) as spool:
        for number in (1, 2, 3):
            spool.put([event(number)])
    (tmp_path / "spool" / "000000000002-0.batch").write_bytes(damage)
    with opened(tmp_path) as again:
        found = facts_in(again)
        assert [fact for fact in found if isinstance(fact, Event)] == [event(1), event(3)]
        (finding,) = [fact for fact in found if isinstance(fact, Finding)]
        assert finding.code == "spool_file_unreadable"
        assert "000000000002" in finding.subject
    assert [path.read_bytes() for path in (tmp_path / "spool" / "aside").iterdir()] == [damage]


def test_a_batch_that_the_server_refuses_is_set_aside_and_said_and_few_are_kept(tmp_path: Path) -> None:
    with opened(tmp_path) as spool:
        for number in range(ASIDE_MAX + 5):
            spool.put([event(number)])
        for ordinal in range(1, ASIDE_MAX + 6):
            spool.refuse(ordinal, "no such thing")
        found = facts_in(spool)
    assert {fact.code for fact in found if isinstance(fact, Finding)} == {"agent_batch_refused"}
    assert len(found) == ASIDE_MAX + 5
    assert len(list((tmp_path / "spool" / "aside").iterdir())) == ASIDE_MAX


def test_of_a_batch_in_two_states_the_thinner_one_counts_and_half_written_files_go(tmp_path: Path) -> None:
    with opened(tmp_path) as spool:
        spool.put([event(1), sample(1)])
        spool.put([event(2)])
    folder = tmp_path / "spool"
    (folder / "000000000001-2.batch").write_bytes((folder / "000000000002-0.batch").read_bytes())
    (folder / "000000000009-0.batch.tmp").write_bytes(b"half")
    (folder / "notes.txt").write_text("not ours")
    with opened(tmp_path) as again:
        assert sorted(path.name for path in folder.glob("*.batch*")) == ["000000000001-2.batch", "000000000002-0.batch"]
        assert facts_in(again) == [event(2), event(2)]
    assert (folder / "notes.txt").exists()


def noise(card: int) -> str:
    """A name that does not compress away."""
    return hashlib.sha256(str(card).encode()).hexdigest()


def test_samples_are_thinned_to_minutes_before_they_go_and_events_stay(tmp_path: Path) -> None:
    def put_rounds(spool: Spool) -> None:
        for number in range(60):
            spool.put([event(number), *(sample(number, noise(card)) for card in range(40)), status(number)])

    with opened(tmp_path / "roomy", 1 << 30) as spool:
        put_rounds(spool)
        whole = spool.size()[1]
    with opened(tmp_path, whole // 2) as spool:
        put_rounds(spool)
        assert spool.size()[1] <= whole // 2 + SLACK
        found = facts_in(spool)
    assert [fact for fact in found if isinstance(fact, Event)] == [event(number) for number in range(60)]
    samples = [fact for fact in found if isinstance(fact, DeviceSample)]
    minutes = {(fact.natural_key, fact.occurred_at // MINUTE_US) for fact in samples}
    assert len(minutes) == 40 * 10  # every minute of every card is still there
    assert len(samples) < 40 * 60
    thinned = [fact for fact in found if isinstance(fact, Finding)]
    assert {fact.code for fact in thinned} == {"samples_thinned"}
    dropped = sum(int(fact.evidence.split('"dropped":')[1].split(",")[0]) for fact in thinned)
    assert dropped + len(samples) == 40 * 60


def test_without_room_for_samples_all_events_are_still_there(tmp_path: Path) -> None:
    with opened(tmp_path, 46_000) as spool:
        for number in range(60):
            spool.put([event(number), *(sample(number, noise(card)) for card in range(40))])
        assert spool.size()[1] <= 46_000 + SLACK
        found = facts_in(spool)
    assert [fact for fact in found if isinstance(fact, Event)] == [event(number) for number in range(60)]
    assert {'"level":1', '"level":2'} <= {
        part for fact in found if isinstance(fact, Finding) for part in fact.evidence.strip("{}").split(",")
    }


def test_events_that_have_no_room_are_given_up_oldest_first_and_counted(tmp_path: Path) -> None:
    with opened(tmp_path, 4_000) as spool:
        for number in range(60):
            spool.put([event(number)])
        assert spool.size()[1] <= 4_000 + SLACK
        found = facts_in(spool)
    events = [fact for fact in found if isinstance(fact, Event)]
    assert events == [event(number) for number in range(60 - len(events), 60)]
    said = [fact for fact in found if isinstance(fact, Finding)]
    assert {fact.code for fact in said} == {"agent_events_dropped"}
    assert sum(json.loads(fact.evidence)["events"] for fact in said) == 60 - len(events)


def test_a_batch_that_is_under_way_may_be_thinned_and_is_let_go_all_the_same(tmp_path: Path) -> None:
    with opened(tmp_path, 1 << 30) as spool:
        for number in range(6):
            spool.put([event(number), *(sample(number, noise(card)) for card in range(40))])
    with opened(tmp_path, 3_000) as spool:
        found = spool.oldest()
        assert found is not None
        spool.put([event(7)])
        spool.acknowledge(found[0].ordinal)
        assert event(0) not in facts_in(spool)


def test_a_disk_that_takes_nothing_is_an_error_and_what_was_kept_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path) as spool:
        spool.put([event(1)])

        def full(*_arguments: object) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            spool.put([event(2)])
        monkeypatch.undo()
        assert list((tmp_path / "spool").glob("*.tmp")) == []
        assert spool.put([event(2)]) == [3]
        assert facts_in(spool) == [event(1), event(2)]


def test_a_full_spool_is_thinned_a_little_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spooling, "THINNED_AT_ONCE_MAX", 2)
    with opened(tmp_path, 1 << 30) as spool:
        for number in range(30):
            spool.put([sample(number, noise(card)) for card in range(40)])
        whole = spool.size()[1]
    with opened(tmp_path, whole * 3 // 4) as spool:
        for number in range(30, 60):
            spool.put([event(number)])
            assert sum(path.name.endswith(("-1.batch", "-2.batch")) for path in (tmp_path / "spool").iterdir()) <= 2 * (
                number - 29
            )
        assert spool.size()[1] <= whole * 3 // 4
        assert len([fact for fact in facts_in(spool) if isinstance(fact, Event)]) == 30
