"""The loop: rounds whole or not at all, a bad source alone in its trouble, failures told and never zeros."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator

import pytest

from steelyard.app.collection import CollectionLoop, CollectionSpec
from steelyard.facts.base import Fact
from steelyard.facts.source_status import SourceStatus
from steelyard.primitives.clock import WallClock
from steelyard.primitives.errors import InvariantError, SourceUnavailable, StoreFailed, UsageError
from steelyard.primitives.instant import AT_OBSERVATION, Instant
from steelyard.store import Store
from tests.app.collecting import HOUR_US, QUICK_US, Scripted, collecting, sample

WAIT = 60


def counted(store: Store, table: str, where: str = "true") -> int:
    with store.reader() as reader:
        return int(reader.rows(f"SELECT count(*) FROM fact.{table} WHERE {where}")[0][0])


def test_one_round_on_request_stores_dates_and_posts() -> None:
    posted: list[int] = []

    def post(store: Store) -> int:
        posted.append(counted(store, "metric_sample"))
        return 7

    makers = [lambda: Scripted("a", lambda at: [sample("k", AT_OBSERVATION)], HOUR_US)]
    with collecting(makers, post=post, on_request=True) as (loop, store):
        report = loop.collect_now([])
        assert [(r.name, r.status, r.facts_count, r.new_count) for r in report.rounds] == [("a", "ok", 1, 1)]
        assert report.postings_count == 7
        assert store.rows("SELECT occurred_at = observed_at FROM fact.metric_sample") == [(True,)]
        assert store.has_collected(), "the test's posting marks nothing"
    assert posted[0] == 1


def test_a_source_that_is_down_is_a_failed_status_and_one_finding_and_no_zero() -> None:
    def down(at: Instant) -> Iterator[Fact]:
        yield sample("before", at)
        raise SourceUnavailable("no\nanswer", 3.0)

    with collecting([lambda: Scripted("a", down, HOUR_US)], on_request=True) as (loop, store):
        first, second = loop.collect_now([]).rounds[0], loop.collect_now([]).rounds[0]
        assert (first.status, first.message) == ("failed", "no answer")
        assert first.findings_by_code == {"source_unavailable": 1}
        assert second.findings_by_code == {}, "the same reason is said once an hour"
        status = loop.status()[0]
        assert (status.state, status.consecutive_failures_count, status.last_success_at) == ("failing", 2, None)
        assert (
            counted(store, "source_status", "status = 'failed' AND kind = 'collector' AND message = 'no answer'") == 2
        )
        assert counted(store, "metric_sample") == 2, "what was yielded before the end is kept"


def test_a_mistake_in_one_collector_is_told_and_makes_it_anew_while_others_go_on(
    capsys: pytest.CaptureFixture[str],
) -> None:
    made: list[Scripted] = []
    wells = threading.Semaphore(0)

    def broken(at: Instant) -> Iterator[Fact]:
        raise InvariantError("ours")

    def make() -> Scripted:
        made.append(Scripted("bad", broken))
        return made[-1]

    def well(at: Instant) -> list[Fact]:
        wells.release()
        return [sample("k", at)]

    with collecting([make, lambda: Scripted("good", well)]) as (loop, _store):
        for _ in range(5):
            assert wells.acquire(timeout=WAIT)
        loop.collect_now(["bad"])
        loop.collect_now(["bad"])
        assert [each.state for each in loop.status()] == ["failing", "ok"]
    assert len(made) >= 2
    assert made[0].closed.is_set()
    assert "InvariantError: ours" in capsys.readouterr().err


def test_a_hanging_collector_stops_nobody_and_is_cut_short_and_told() -> None:
    hanging = threading.Event()
    made: list[Scripted] = []

    def hang(at: Instant) -> list[Fact]:
        hanging.set()
        made[-1].closed.wait(WAIT)
        raise SourceUnavailable("cut")

    def make() -> Scripted:
        made.append(Scripted("slow", hang))
        return made[-1]

    seen = threading.Semaphore(0)

    def well(at: Instant) -> list[Fact]:
        seen.release()
        return [sample("k", at)]

    spec = CollectionSpec(round_us_max=200_000)
    with collecting([make, lambda: Scripted("good", well)], spec=spec) as (loop, store):
        assert hanging.wait(WAIT)
        for _ in range(5):
            assert seen.acquire(timeout=WAIT)
        assert made[0].closed.wait(WAIT), "cut short after its time"
        loop.collect_now(["good"])
        loop.collect_now(["slow"])
        assert counted(store, "finding", "code = 'round_overdue'") >= 1
        assert loop.status()[0].state == "failing"
        assert len(made) >= 2, "made anew, since what it remembers is in doubt"


def test_a_round_that_overruns_its_interval_skips_those_that_were_due_and_counts_them() -> None:
    gate = threading.Event()

    def slow(at: Instant) -> list[Fact]:
        gate.wait(0.3)
        return []

    with collecting([lambda: Scripted("a", slow, QUICK_US)]) as (loop, _store):
        loop.collect_now([])
        loop.collect_now([])
        assert loop.status()[0].skipped_count >= 5


def test_a_round_is_whole_or_nothing_and_its_cursor_goes_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class Reading(Scripted):
        at_line = 0

        def resume(self, cursor: str | None) -> None:
            self.at_line = int(cursor or 0)

        def cursor(self) -> str | None:
            return str(self.at_line)

    made: list[Reading] = []

    def make() -> Reading:
        def read(at: Instant) -> list[Fact]:
            made[-1].at_line += 1
            return [sample(f"line{made[-1].at_line}", at), SourceStatus(
                source="test", natural_key="x", occurred_at=at, observed_at=at, kind="x")]  # fmt: skip

        made.append(Reading("a", read, HOUR_US))
        return made[-1]

    store = Store.open_memory()
    with collecting([make], store, on_request=True) as (loop, _store):
        loop.collect_now([])
        real = Store._append_table

        def failing(self: Store, fact: type[Fact], *rest: object) -> int:
            if fact is SourceStatus:
                raise InvariantError("in the middle")
            return real(self, fact, *rest)  # type: ignore[arg-type]

        monkeypatch.setattr(Store, "_append_table", failing)
        lost = loop.collect_now([]).rounds[0]
        assert (lost.status, lost.new_count) == ("failed", 0)
        assert counted(store, "metric_sample") == 1
        assert store.cursor("a") == "1"
        monkeypatch.setattr(Store, "_append_table", real)
        loop.collect_now([])
        assert len(made) == 2, "made anew and resumed where the store stands"
        assert {key for (key,) in store.rows("SELECT natural_key FROM fact.metric_sample")} == {"line1", "line2"}


def test_a_store_that_takes_nothing_now_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    from steelyard.app.collectors import writing

    monkeypatch.setattr(writing, "RETRY_SECONDS", 0.01)
    refused = threading.Semaphore(0)
    room = threading.Event()
    real = Store.append_tables

    def full(self: Store, *rest: object, **more: object) -> object:
        if not room.is_set():
            refused.release()
            raise StoreFailed("the disk is full")
        return real(self, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(Store, "append_tables", full)
    rounds = Counter[str]()

    def act(at: Instant) -> list[Fact]:
        rounds["begun"] += 1
        return [sample("k", at)]

    with collecting([lambda: Scripted("a", act)]) as (loop, store):
        assert refused.acquire(timeout=WAIT)
        assert refused.acquire(timeout=WAIT)
        assert rounds["begun"] == 1, "it waits with its one round"
        assert loop.status()[0].message == "the disk is full"
        room.set()
        loop.collect_now([])
        assert loop.status()[0].state == "ok"
        assert counted(store, "metric_sample") >= 2


def test_stopping_finishes_the_round_under_way_and_posts_it() -> None:
    inside, go = threading.Event(), threading.Event()
    posted: list[int] = []

    def act(at: Instant) -> list[Fact]:
        inside.set()
        assert go.wait(WAIT)
        return [sample("k", at)]

    def post(store: Store) -> int:
        posted.append(counted(store, "metric_sample"))
        return 0

    store = Store.open_memory()
    loop = CollectionLoop(store, [lambda: Scripted("a", act, QUICK_US)], post, WallClock())
    loop.start()
    assert inside.wait(WAIT)
    stopper = threading.Thread(target=loop.stop)
    stopper.start()
    go.set()
    stopper.join(WAIT)
    assert not stopper.is_alive()
    assert posted[-1] == 1
    assert loop.status()[0].state == "stopped"


def test_postings_come_after_rounds_that_brought_facts_and_not_after_those_that_did_not() -> None:
    posted = threading.Semaphore(0)
    count = Counter[str]()

    def post(store: Store) -> int:
        with store.transaction():
            store.mark_posted()
        count["posted"] += 1
        posted.release()
        return 0

    brings = threading.Event()

    def act(at: Instant) -> list[Fact]:
        return [sample("k", at)] if brings.is_set() else []

    with collecting([lambda: Scripted("a", act)], post=post, spec=CollectionSpec(post_interval_us=0)) as (loop, store):
        for _ in range(3):
            with loop._runners[0]._changed:
                loop._runners[0]._changed.wait_for(lambda: False, 0)
        assert count["posted"] == 0
        brings.set()
        assert posted.acquire(timeout=WAIT)
        assert not store.has_unposted()


@pytest.mark.parametrize("busy", [False, True])
def test_what_was_pushed_past_the_collectors_is_posted_whether_they_bring_nothing_or_there_are_none(busy: bool) -> None:
    posted = threading.Semaphore(0)
    rounds = threading.Semaphore(0)

    def post(store: Store) -> int:
        with store.transaction():
            store.mark_posted()
        posted.release()
        return 0

    def nothing(at: Instant) -> list[Fact]:
        rounds.release()
        return []

    makers = [lambda: Scripted("a", nothing)] if busy else []
    spec = CollectionSpec(post_interval_us=0)
    with collecting(makers, post=post, spec=spec) as (_loop, store):
        for _ in range(3 if busy else 0):
            assert rounds.acquire(timeout=WAIT)
        for _ in range(2):
            with store.transaction():
                store.append([sample("pushed", WallClock().now())])
                store.mark_collected()
            assert posted.acquire(timeout=WAIT)
        with store.transaction():
            store.append([sample("at the end", WallClock().now())])
            store.mark_collected()
    assert posted.acquire(timeout=0), "what was pushed just before the end is posted too"
    assert not store.has_collected()


def test_names_are_checked() -> None:
    none = lambda: Scripted("a", lambda at: [], HOUR_US)  # noqa: E731
    with (
        collecting([none], on_request=True) as (loop, _store),
        pytest.raises(UsageError, match="no such collector: b; there is a"),
    ):
        loop.collect_now(["b"])
    with collecting([], on_request=True) as (loop, _store), pytest.raises(UsageError, match="nothing is configured"):
        loop.collect_now([])
    twice = [lambda: Scripted("a", lambda at: []), lambda: Scripted("a", lambda at: [])]
    with pytest.raises(UsageError, match="two collectors are called a"):
        CollectionLoop(Store.open_memory(), twice, lambda store: 0, WallClock())


class Upkeep(Scripted):
    """Looks after the store; sees nothing of the world."""

    is_upkeep = True


def test_upkeep_is_run_on_request_only_when_it_is_named() -> None:
    makers = [lambda: Scripted("a", lambda at: [], HOUR_US), lambda: Upkeep("keep", lambda at: [], HOUR_US)]
    with collecting(makers, on_request=True) as (loop, _store):
        assert [each.name for each in loop.collect_now([]).rounds] == ["a"]
        assert [each.name for each in loop.collect_now(["keep"]).rounds] == ["keep"]
    with collecting(makers[1:], on_request=True) as (loop, _store), pytest.raises(UsageError, match="nothing is"):
        loop.collect_now([])
