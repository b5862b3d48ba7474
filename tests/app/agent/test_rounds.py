"""A round: each part in its own failure, one instant, a sign of life that says what is not seen; and what the loop keeps of it."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from steelyard.app.agent import loop as looping
from steelyard.app.agent.loop import AgentLoop
from steelyard.app.agent.parts import COMPUTED_US_MAX, HostPart, KubeletPart, Sight
from steelyard.app.agent.rounds import AgentRounds, RoundClock, Seen
from steelyard.app.agent.spool import Speaker, Spool
from steelyard.facts.base import Fact
from steelyard.facts.device import Device
from steelyard.facts.device_sample import DeviceSample
from steelyard.facts.event import Event
from steelyard.facts.finding import Finding
from steelyard.facts.grant import Grant
from steelyard.facts.metric_sample import MetricSample
from steelyard.facts.process_sample import ProcessSample
from steelyard.facts.source_status import SourceStatus
from steelyard.primitives.clock import FixedClock
from steelyard.primitives.errors import SourceUnavailable
from steelyard.primitives.instant import HOUR_US, MINUTE_US
from steelyard.sources.shared.context import ReadContext
from tests.app.agent.batches import AT, CARD, NODE, event, sample
from tests.app.agent.gpu_node import CARD_0, GPU, listed, offered


class Scripted:
    """A part that does what it is told to."""

    def __init__(self, name: str, act: Callable[[ReadContext], Iterator[Fact]]) -> None:
        self.name = self.source = name
        self._act = act

    def round(self, ctx: ReadContext) -> Iterator[Fact]:
        return self._act(ctx)

    def cursor(self) -> str | None:
        return f"of {self.name}"

    def close(self) -> None:
        pass


def failing(error: Exception) -> Callable[[ReadContext], Iterator[Fact]]:
    def act(_ctx: ReadContext) -> Iterator[Fact]:
        yield sample(1)
        raise error

    return act


def rounds(*parts: Scripted, clock: FixedClock | None = None) -> AgentRounds:
    return AgentRounds(list(parts), RoundClock(clock or FixedClock(AT)), NODE)


def statuses(seen: Seen) -> dict[str, tuple[str, str | None]]:
    return {fact.kind: (fact.status, fact.message) for fact in seen.facts if isinstance(fact, SourceStatus)}


def test_a_part_that_fails_keeps_what_it_saw_and_costs_nobody_else(capsys: pytest.CaptureFixture[str]) -> None:
    good = Scripted("good", lambda ctx: iter([event(1)]))
    seen = rounds(
        Scripted("away", failing(SourceUnavailable("not there"))),
        Scripted("disk", failing(OSError(errno.EIO, "Input/output error"))),
        Scripted("ours", failing(ZeroDivisionError("x"))),
        good,
    ).round()
    assert [fact for fact in seen.facts if isinstance(fact, Event)] == [event(1)]
    found = statuses(seen)
    assert {name: status for name, (status, _) in found.items()} == {
        "away": "failed", "disk": "failed", "ours": "failed", "agent": "partial",
    }  # fmt: skip
    assert "away: not there" in str(found["agent"][1])
    codes = [fact.code for fact in seen.facts if isinstance(fact, Finding)]
    assert codes == ["source_unavailable", "source_failed", "reader_failed"]
    assert len([fact for fact in seen.facts if isinstance(fact, DeviceSample)]) == 3
    assert seen.cursors["good"] == "of good"
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_a_part_that_stays_away_is_a_status_each_round_and_a_finding_an_hour() -> None:
    clock = FixedClock(AT)
    found = rounds(Scripted("away", failing(SourceUnavailable("not there"))), clock=clock)
    counts = []
    for _ in range(5):
        seen = found.round()
        counts.append(sum(isinstance(fact, Finding) for fact in seen.facts))
        assert statuses(seen)["away"][0] == "failed"
        clock.instant += HOUR_US // 2
    assert counts == [1, 0, 1, 0, 1]


def test_where_everything_is_seen_the_sign_of_life_says_so() -> None:
    seen = rounds(Scripted("good", lambda ctx: iter([]))).round()
    assert statuses(seen) == {"agent": ("ok", None)}
    assert seen.blind == []
    (fact,) = seen.facts
    assert isinstance(fact, SourceStatus) and (fact.source, fact.scope) == ("agent", f"node/{NODE}")


def test_a_round_is_of_one_instant_to_the_millisecond() -> None:
    clock = FixedClock(AT + 1_999)
    dated = RoundClock(clock)
    assert dated.begin() == AT + 1_000
    clock.instant += MINUTE_US
    assert dated.now() == AT + 1_000
    assert dated.begin() == AT + MINUTE_US + 1_000


class Kubelet:
    """Answers as it is set."""

    def __init__(self) -> None:
        self.said = {"list": listed({"train-0": (GPU, CARD_0)}), "allocatable": offered((GPU, CARD_0))}

    def ask(self, node: str) -> dict[str, object]:
        return {"node": node, **self.said}

    def close(self) -> None:
        pass


def test_grants_are_said_when_one_changed_and_every_few_minutes_and_the_status_always() -> None:
    client, sight = Kubelet(), Sight(NODE)
    part = KubeletPart(client, sight)  # type: ignore[arg-type]
    counts = []
    for number in range(50):
        if number == 10:
            client.said = {"list": listed({}), "allocatable": offered((GPU, CARD_0))}
        facts = list(part.round(ReadContext(node=NODE, observed_at=AT + number * 10_000_000)))
        counts.append((sum(isinstance(fact, Grant) for fact in facts), sum(isinstance(fact, Device) for fact in facts)))
        assert sum(isinstance(fact, SourceStatus) for fact in facts) == 1
    assert {number: count for number, count in enumerate(counts) if count != (0, 0)} == {
        0: (1, 1),
        10: (0, 1),
        40: (0, 1),
    }
    assert list(sight.pods_of(CARD_0)) == []


def looped(tmp_path: Path, number: int, facts: Callable[[int], Sequence[Fact]], spool: Spool) -> AgentLoop:
    """A loop that has run so many rounds without waiting."""
    done = [0]

    def act(_ctx: ReadContext) -> Iterator[Fact]:
        done[0] += 1
        if done[0] == number:
            found.stop.set()
        return iter(facts(done[0]))

    found = AgentLoop(rounds(Scripted("part", act)), 0.0, spool, None, None, lambda line: said.append(line))
    found.run()
    return found


said: list[str] = []


def kept(spool: Spool) -> list[Fact]:
    from steelyard.app.agent.batch import decode

    facts: list[Fact] = []
    while (oldest := spool.oldest()) is not None:
        facts += decode(oldest[1]).facts
        spool.acknowledge(oldest[0].ordinal)
    return facts


def test_while_the_disk_takes_nothing_rounds_are_held_and_kept_when_it_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said.clear()
    with Spool(tmp_path / "spool", Speaker(NODE), lambda: AT) as spool:
        real, calls = Spool._write, [0]

        def full(self: Spool, name: str, body: bytes) -> None:
            calls[0] += 1
            if calls[0] <= 4:
                raise OSError(errno.ENOSPC, "No space left on device")
            real(self, name, body)

        monkeypatch.setattr(Spool, "_write", full)
        looped(tmp_path, 6, lambda number: [event(number), sample(number)], spool)
        facts = kept(spool)
    assert [fact for fact in facts if isinstance(fact, Event)] == [event(number) for number in range(1, 7)]
    assert sorted(fact.occurred_at for fact in facts if isinstance(fact, DeviceSample)) == [
        sample(number).occurred_at for number in range(1, 7)
    ]
    assert said == [
        "the spool takes nothing: No space left on device; held in memory", "the spool takes batches again",
    ]  # fmt: skip


def test_what_memory_cannot_hold_goes_samples_first_and_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looping, "CARRIED_MAX", 10)
    with Spool(tmp_path / "spool", Speaker(NODE), lambda: AT) as spool:
        real, calls = Spool._write, [0]

        def full(self: Spool, name: str, body: bytes) -> None:
            calls[0] += 1
            if calls[0] <= 3:
                raise OSError(errno.ENOSPC, "No space left on device")
            real(self, name, body)

        monkeypatch.setattr(Spool, "_write", full)
        looped(tmp_path, 4, lambda number: [event(number), *(sample(number, f"{CARD}{n}") for n in range(9))], spool)
        facts = kept(spool)
    assert [fact for fact in facts if isinstance(fact, Event)] == [event(number) for number in range(1, 5)]
    (loss,) = [fact for fact in facts if isinstance(fact, Finding)]
    assert loss.code == "agent_facts_dropped"
    samples = sum(isinstance(fact, DeviceSample) for fact in facts)
    assert f'"dropped":{4 * 9 - samples}' in loss.evidence


def test_a_reason_to_begin_anew_ends_the_loop_after_the_round_is_kept(tmp_path: Path) -> None:
    with Spool(tmp_path / "spool", Speaker(NODE), lambda: AT) as spool:
        found = AgentLoop(
            rounds(Scripted("part", lambda ctx: iter([event(1)]))),
            60.0,
            spool,
            None,
            None,
            said.append,
            lambda: "upgraded",
        )
        assert found.run() == "upgraded"
        assert event(1) in kept(spool)


def test_the_host_is_asked_of_pods_that_compute_and_no_longer_of_those_that_stopped(tmp_path: Path) -> None:
    pod = "0a1b2c3d-1111-4222-8333-444455556666"
    folder = tmp_path / "cgroup" / "kubepods" / f"pod{pod}"
    folder.mkdir(parents=True)
    (folder / "io.pressure").write_text("some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n")
    sight = Sight(NODE)
    part = HostPart(sight, tmp_path / "cgroup", tmp_path / "proc")
    sight.learn(
        [
            ProcessSample(
                source="agent", natural_key="x", occurred_at=AT, observed_at=AT, device_uuid=CARD, pid=7, pod_uid=pod
            )
        ]
    )
    assert list(part.round(ReadContext(node=NODE, observed_at=AT))) == []
    (found,) = part.round(ReadContext(node=NODE, observed_at=AT + MINUTE_US))
    assert isinstance(found, MetricSample)
    assert (found.family, found.metric, found.value, found.node) == ("host", "host_io_pressure_ratio", 0.0, NODE)
    assert list(part.round(ReadContext(node=NODE, observed_at=AT + COMPUTED_US_MAX + 1))) == []
