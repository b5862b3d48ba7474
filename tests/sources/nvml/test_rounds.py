"""Rounds over the stub: facts of every card, what changed, and calls that never come back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

import pytest

from steelyard.facts.base import Fact
from steelyard.facts.device import Device
from steelyard.facts.device_sample import DeviceSample
from steelyard.facts.finding import Finding
from steelyard.facts.metric_sample import MetricSample
from steelyard.facts.process_sample import ProcessSample
from steelyard.facts.source_status import SourceStatus
from steelyard.facts.transition import Transition
from steelyard.facts.unit import Unit
from steelyard.primitives.clock import FixedClock
from steelyard.primitives.instant import SECOND_US
from steelyard.sources.nvml.driver import NvmlDriver
from steelyard.sources.nvml.rounds import DeviceRounds
from steelyard.sources.shared.process_owner import ProcessOwner
from tests.sources.nvml.stub_library import StubScenario

START = 1_900_000_000 * SECOND_US
INTERVAL = 10 * SECOND_US
FIRST = "GPU-11111111-aaaa-4bbb-8ccc-000000000000"
SECOND = "GPU-11111111-aaaa-4bbb-8ccc-000000000001"
THIRD = "GPU-99999999-aaaa-4bbb-8ccc-000000000009"
POD = "0a1b2c3d-1111-4222-8333-444455556666"
OTHER_POD = "ffffffff-1111-4222-8333-444455556666"
DEADLINE_SECONDS = 0.4

F = TypeVar("F", bound=Fact)


class Owners:
    """Owners that a test says."""

    def __init__(self, owners: Mapping[int, ProcessOwner]) -> None:
        self._owners = owners
        self.asked: list[list[int]] = []

    def owners_of(self, pids: Iterable[int]) -> Mapping[int, ProcessOwner]:
        wanted = list(pids)
        self.asked.append(wanted)
        return {
            pid: self._owners.get(pid, ProcessOwner(pid, "gone", reason="no such process any more")) for pid in wanted
        }


class Node:
    """A node's rounds with a clock that goes on by an interval before each."""

    def __init__(self, scenario: StubScenario) -> None:
        self.scenario = scenario
        self.clock = FixedClock(START)
        self._made: list[DeviceRounds] = []
        self.rounds = self.begin()

    def begin(self, state: bytes | None = None, **options: object) -> DeviceRounds:
        """A process that begins, with what an earlier one left."""
        driver = NvmlDriver(self.scenario.library, now_us=self.clock.now)
        self.rounds = DeviceRounds(
            driver,
            self.clock,
            node="node-1",
            deadline_seconds=DEADLINE_SECONDS,
            gap_max_us=3 * INTERVAL,
            state=state,
            **options,  # type: ignore[arg-type]
        )
        self._made.append(self.rounds)
        return self.rounds

    def round(self) -> list[Fact]:
        self.clock.instant += INTERVAL
        return list(self.rounds.round())

    def returned(self, index: int) -> None:
        """Waits until the call about a card that hung has come back."""
        assert self.rounds._cards[index].last.done.wait(10)

    def close(self) -> None:
        self.scenario.release()
        for rounds in self._made:
            rounds.close()


@pytest.fixture
def node(scenario: StubScenario) -> Iterator[Node]:
    scenario.play("whole")
    made = Node(scenario)
    yield made
    made.close()


def of(facts: Iterable[Fact], kind: type[F]) -> list[F]:
    return [fact for fact in facts if isinstance(fact, kind)]


def devices(facts: Iterable[Fact]) -> dict[str, Device]:
    return {device.device_uuid: device for device in of(facts, Device)}


def codes(facts: Iterable[Fact]) -> list[tuple[str, str]]:
    return [(finding.code, finding.subject) for finding in of(facts, Finding)]


def changes(facts: Iterable[Fact]) -> list[tuple[str, str, str]]:
    return [(change.object_uid, change.aspect, change.value) for change in of(facts, Transition)]


def status(facts: Iterable[Fact]) -> SourceStatus:
    (only,) = of(facts, SourceStatus)
    return only


def sampled(facts: Iterable[Fact]) -> list[str]:
    return [sample.natural_key for sample in of(facts, DeviceSample)]


def test_a_round_tells_every_card_its_samples_its_processes_and_how_much_was_seen(node: Node) -> None:
    facts = node.round()
    assert set(devices(facts)) == {FIRST, SECOND}
    first = devices(facts)[FIRST]
    assert (first.model, first.serial, first.pci_address, first.device_index, first.memory_mib) == (
        "NVIDIA H100 80GB HBM3",
        "1650000000010",
        "00000000:3B:00.0",
        0,
        81_559,
    )
    assert (first.healthy, first.state, first.driver_version, first.basis) == (
        True,
        "present",
        "570.124.06",
        "inventory",
    )
    assert sampled(facts) == [FIRST, SECOND]
    assert [sample.natural_key for sample in of(facts, ProcessSample)] == [f"{FIRST}/4242", f"{FIRST}/4343"]
    told = status(facts)
    assert (told.kind, told.scope, told.status, told.complete, told.objects_count) == (
        "nvml",
        "node/node-1",
        "ok",
        True,
        2,
    )
    assert told.gap_max_us == 3 * INTERVAL
    assert {fact.source for fact in facts} == {"agent"}
    assert {fact.occurred_at for fact in facts} == {START + INTERVAL}
    assert changes(facts) == [] and codes(facts) == []


def test_inventory_that_did_not_change_is_said_again_only_after_minutes_and_only_then_complete(node: Node) -> None:
    node.round()
    quiet = node.round()
    assert devices(quiet) == {} and not status(quiet).complete and status(quiet).status == "ok"
    node.clock.instant += 300 * SECOND_US
    again = node.round()
    assert set(devices(again)) == {FIRST, SECOND} and status(again).complete


def test_inventory_that_changed_is_said_at_once(node: Node) -> None:
    node.round()
    node.scenario.set({"gpu.1.field.230": 1})
    facts = node.round()
    assert (devices(facts)[SECOND].recovery_action, devices(facts)[SECOND].healthy) == ("GPU Reset Required", False)
    assert changes(facts) == [(SECOND, "recovery_action", "GPU Reset Required")]


def test_counters_are_said_when_they_move(node: Node) -> None:
    assert {sample.metric for sample in of(node.round(), MetricSample)} >= {
        "clocks_event_sw_power_cap_ns",
        "remapped_rows_correctable_total",
    }
    node.scenario.set({"gpu.0.field.74": 6_000_000})
    moved = of(node.round(), MetricSample)
    assert [(sample.metric, sample.value, json.loads(sample.labels)) for sample in moved] == [
        ("clocks_event_sw_power_cap_ns", 6_000_000.0, {"device_uuid": FIRST})
    ]


def test_a_call_that_hangs_costs_only_its_card_and_is_a_fact(node: Node) -> None:
    node.round()
    node.scenario.set({"hang.nvmlDeviceGetPowerUsage.1": 1})
    facts = node.round()
    since = START + 2 * INTERVAL
    assert sampled(facts) == [FIRST]
    assert codes(facts) == [("driver_call_stuck", f"device {SECOND}")]
    assert changes(facts) == [(SECOND, "driver_call", "stuck")]
    (change,) = of(facts, Transition)
    assert change.occurred_at == since and "nvmlDeviceGetPowerUsage" in (change.message or "")
    stuck = devices(facts)[SECOND]
    assert stuck.state == "present" and (stuck.state_reason or "").startswith(
        "driver call nvmlDeviceGetPowerUsage stuck since 2030-"
    )
    assert (stuck.healthy, stuck.serial) == (None, "1650000000011")
    assert (status(facts).status, status(facts).complete, status(facts).message) == (
        "partial",
        False,
        "1 card does not answer",
    )


def test_a_card_that_hangs_is_not_asked_again_until_it_answers_and_then_told_as_before(node: Node) -> None:
    node.round()
    node.scenario.set({"hang.nvmlDeviceGetPowerUsage.1": 1})
    node.round()
    hanging = node.rounds._cards[1].last
    later = node.round()
    assert node.rounds._cards[1].last is hanging
    assert (codes(later), changes(later), sampled(later)) == ([], [], [FIRST])
    assert not status(later).complete
    node.scenario.release()
    node.returned(1)
    back = node.round()
    assert changes(back) == [(SECOND, "driver_call", "answering")]
    assert sampled(back) == [FIRST, SECOND]
    assert devices(back)[SECOND].state_reason == "the driver answers again" and status(back).status == "ok"
    assert devices(node.round())[SECOND].state_reason is None
    node.scenario.set({"hang.nvmlDeviceGetPowerUsage.1": 1})
    assert codes(node.round()) == [("driver_call_stuck", f"device {SECOND}")]


def test_a_card_that_hangs_from_the_first_round_on_is_known_as_far_as_it_came(node: Node) -> None:
    node.scenario.play("hang")
    facts = node.round()
    assert codes(facts) == [("driver_call_stuck", f"device {SECOND}")]
    assert devices(facts)[SECOND].pci_address == "00000000:5E:00.0"


def test_a_card_that_hangs_before_it_says_who_it_is_is_told_by_its_index(node: Node) -> None:
    node.scenario.set({"hang.nvmlDeviceGetHandleByIndex_v2.1": 1})
    facts = node.round()
    assert codes(facts) == [("driver_call_stuck", "node node-1 index 1")]
    assert set(devices(facts)) == {FIRST} and not status(facts).complete


def test_a_library_that_hangs_leaves_the_cards_that_are_known(node: Node) -> None:
    node.round()
    node.scenario.set({"hang.nvmlDeviceGetCount_v2": 1})
    facts = node.round()
    assert sampled(facts) == [FIRST, SECOND]
    assert codes(facts) == [("driver_call_stuck", "node node-1")]
    assert changes(facts) == [("node-1", "driver", "driver_call_stuck")]
    assert status(facts).status == "partial" and not status(facts).complete


def test_a_library_that_hangs_from_the_beginning_is_a_failed_round(node: Node) -> None:
    node.scenario.set({"hang.nvmlInitWithFlags": 1})
    facts = node.round()
    assert (status(facts).status, status(facts).gap_max_us) == ("failed", None)
    assert "nvmlInit stuck since" in (status(facts).message or "")
    assert devices(facts) == {} and sampled(facts) == []


def test_a_lost_card_is_lost_from_then_on_and_present_when_it_is_back(node: Node) -> None:
    node.round()
    node.scenario.set({"lost.1": 1})
    facts = node.round()
    lost = devices(facts)[SECOND]
    assert (lost.state, lost.state_reason, lost.pci_address, lost.healthy) == (
        "lost",
        "GPU is lost",
        "00000000:5E:00.0",
        None,
    )
    assert codes(facts) == [("device_lost", f"device {SECOND}")]
    assert changes(facts) == [(SECOND, "state", "lost")]
    assert sampled(facts) == [FIRST]
    assert (changes(node.round()), codes(node.round())) == ([], [])
    node.scenario.unset("lost.1")
    back = node.round()
    assert changes(back) == [(SECOND, "state", "present")]
    assert devices(back)[SECOND].state == "present"


def test_a_card_that_is_lost_before_anybody_knew_it_is_told_by_its_index(node: Node) -> None:
    node.scenario.play("lost")
    facts = node.round()
    assert codes(facts) == [("device_lost", "node node-1 index 1")]
    assert set(devices(facts)) == {FIRST} and not status(facts).complete


def test_a_lost_card_that_still_says_its_name_is_lost_by_name(node: Node) -> None:
    node.scenario.set({"fail.nvmlDeviceGetTemperature.1": 15})
    facts = node.round()
    assert devices(facts)[SECOND].state == "lost"
    assert codes(facts) == [("device_lost", f"device {SECOND}")]


def test_a_card_that_the_driver_no_longer_lists_is_missing_and_not_forgotten(node: Node) -> None:
    node.round()
    node.scenario.set({"count": 1})
    facts = node.round()
    assert changes(facts) == [(SECOND, "state", "missing")]
    assert codes(facts) == [("device_missing", f"device {SECOND}")]
    assert set(devices(facts)) == {FIRST} and status(facts).complete
    node.scenario.set({"count": 2})
    assert changes(node.round()) == [(SECOND, "state", "present")]


def test_another_card_in_the_same_slot_is_a_swap_and_not_a_missing_card(node: Node) -> None:
    node.round()
    node.scenario.set({"gpu.1.uuid": THIRD, "gpu.1.serial": 77})
    facts = node.round()
    assert changes(facts) == [("node-1/00000000:5E:00.0", "device", THIRD)]
    (change,) = of(facts, Transition)
    assert SECOND in (change.message or "") and "77" in (change.message or "")
    assert codes(facts) == [] and set(devices(facts)) == {FIRST, THIRD}


def test_a_swap_and_an_upgrade_over_a_restart_are_seen(node: Node) -> None:
    node.round()
    state = node.rounds.state()
    node.begin(state)
    assert changes(node.round()) == []
    node.begin(state)
    node.scenario.set({"gpu.1.uuid": THIRD, "driver_version": "580.65.06"})
    assert changes(node.round()) == [
        ("node-1", "driver_version", "580.65.06"),
        ("node-1/00000000:5E:00.0", "device", THIRD),
    ]


@pytest.mark.parametrize(
    "state",
    [
        b"",
        b"nonsense",
        b"[]",
        b'{"cards": 7}',
        b'{"cards": {"x": {"uuid": null}}}',
        b"\xff\xfe",
        b"[" * 100_000,
        b" " * 2_000_000,
    ],
)
def test_a_state_that_cannot_be_read_is_none(node: Node, state: bytes) -> None:
    node.begin(state)
    assert changes(node.round()) == []


def test_cards_that_change_their_index_are_the_same_cards(node: Node) -> None:
    node.round()
    lines = {
        "gpu.0.uuid": SECOND,
        "gpu.0.pci": "00000000:5E:00.0",
        "gpu.1.uuid": FIRST,
        "gpu.1.pci": "00000000:3B:00.0",
    }
    node.scenario.set(lines)
    facts = node.round()
    assert changes(facts) == [] and codes(facts) == []
    assert [devices(facts)[uuid].device_index for uuid in (FIRST, SECOND)] == [1, 0]


def test_two_cards_of_one_uuid_are_a_finding_and_one_card(node: Node) -> None:
    node.scenario.set({"gpu.1.uuid": FIRST})
    facts = node.round()
    assert codes(facts) == [("device_uuid_repeated", f"device {FIRST}")]
    assert sampled(facts) == [FIRST] and not status(facts).complete


def test_a_newer_library_on_disk_is_a_finding_once_and_asks_for_a_new_process(node: Node) -> None:
    node.scenario.play("mismatch")
    facts = node.round()
    assert codes(facts) == [("driver_library_mismatch", "node node-1")]
    assert status(facts).status == "failed" and not status(facts).complete
    assert node.rounds.restart_reason is not None and "mismatch" in node.rounds.restart_reason
    assert codes(node.round()) == []


def test_a_driver_that_goes_away_and_comes_back_is_two_changes(node: Node) -> None:
    node.round()
    node.scenario.set({"fail.nvmlDeviceGetCount_v2": 9, "fail.nvmlInitWithFlags": 9})
    gone = node.round()
    assert changes(gone) == [("node-1", "driver", "driver_not_loaded")]
    assert (sampled(gone), devices(gone), status(gone).status) == ([], {}, "failed")
    node.scenario.unset("fail.nvmlDeviceGetCount_v2", "fail.nvmlInitWithFlags")
    back = node.round()
    assert changes(back) == [("node-1", "driver", "answering")]
    assert sampled(back) == [FIRST, SECOND]


def test_one_finding_per_kind_and_card_and_not_per_round(node: Node) -> None:
    node.scenario.play("no_permission")
    first = node.round()
    assert codes(first) == [("driver_no_permission", f"device {SECOND}")]
    calls = json.loads(of(first, Finding)[0].evidence)["calls"]
    assert set(calls) == {"nvmlDeviceGetClockInfo", "nvmlDeviceGetComputeRunningProcesses_v3"}
    assert status(first).message == "1 card does not list its processes"
    assert codes(node.round()) == []
    node.scenario.play("whole")
    assert codes(node.round()) == []
    node.scenario.play("no_permission")
    assert codes(node.round()) == [("driver_no_permission", f"device {SECOND}")]


def test_what_was_said_of_a_card_before_it_hung_is_not_said_again_when_it_is_back(node: Node) -> None:
    node.scenario.play("no_permission")
    node.round()
    node.scenario.set({"hang.nvmlDeviceGetPowerUsage.1": 1})
    assert codes(node.round()) == [("driver_call_stuck", f"device {SECOND}")]
    node.scenario.release()
    node.returned(1)
    assert codes(node.round()) == []


def test_what_a_card_cannot_say_is_null_with_its_reason(node: Node) -> None:
    node.scenario.play("no_permission")
    (sample,) = [sample for sample in of(node.round(), DeviceSample) if sample.device_uuid == SECOND]
    assert sample.sm_clock_mhz is None and sample.memory_clock_mhz is None
    assert json.loads(sample.unknown)["sm_clock_mhz"] == "Insufficient Permissions"


@pytest.mark.parametrize(
    ("remaps", "found"),
    [("1 0 0 0", []), ("1 2 1 0", ["row_remap_pending"]), ("1 2 1 1", ["row_remap_failed", "row_remap_pending"])],
)
def test_rows_that_wait_or_could_not_be_remapped_are_findings(node: Node, remaps: str, found: list[str]) -> None:
    node.scenario.set({"gpu.0.remaps": remaps})
    assert [code for code, _ in codes(node.round())] == found


def test_a_mig_card_has_its_units_and_one_sample_per_gpu_instance(node: Node) -> None:
    node.scenario.play("two_compute_instances")
    facts = node.round()
    assert [(unit.gi, unit.ci, unit.profile, unit.memory_mib) for unit in of(facts, Unit)] == [
        (1, 0, "1c.3g.40gb", 40_320),
        (1, 1, "2c.3g.40gb", 40_320),
    ]
    assert sampled(facts) == [FIRST, f"{FIRST}/gi1"]
    assert of(facts, DeviceSample)[1].memory_used_mib == 16_925
    assert [sample.natural_key for sample in of(facts, ProcessSample)] == [
        f"{FIRST}/gi1/ci0/5151",
        f"{FIRST}/gi1/ci1/5252",
    ]
    assert (devices(facts)[FIRST].mode, devices(facts)[FIRST].mig_enabled) == ("mig", True)


def test_mig_that_is_set_up_anew_is_a_change_even_with_the_same_profiles(node: Node) -> None:
    node.scenario.play("mig")
    node.round()
    node.scenario.set({"gpu.0.mig.1.uuid": "MIG-22222222-0000-4000-8000-0000000000ff"})
    facts = node.round()
    assert changes(facts) == [(FIRST, "mig_layout", "3g.40gb, 1g.10gb")]
    assert len(of(facts, Unit)) == 2
    node.scenario.play("whole")
    assert changes(node.round()) == [(FIRST, "mig_mode", "disabled"), (FIRST, "mig_layout", "none")]


def test_a_process_has_the_pod_that_the_kernel_proves_and_no_other(node: Node) -> None:
    owners = Owners(
        {4242: ProcessOwner(4242, "pod", pod_uid=POD, name="python3"), 4343: ProcessOwner(4343, "host", name="Xorg")}
    )
    node.begin(owners=owners)
    first, second = of(node.round(), ProcessSample)
    assert (first.pod_uid, first.process_name, first.process_type, first.memory_used_mib) == (
        POD,
        "python3",
        "C",
        8_192,
    )
    assert (second.pod_uid, second.process_type, second.unknown) == (None, "C+G", "{}")
    assert owners.asked == [[4242, 4343]]


def test_a_process_that_nobody_can_place_keeps_its_memory_and_says_why(node: Node) -> None:
    node.begin(owners=Owners({}))
    first = of(node.round(), ProcessSample)[0]
    assert (first.pod_uid, first.memory_used_mib) == (None, 8_192)
    assert json.loads(first.unknown)["pod_uid"] == "no such process any more"


def mps_owners() -> Owners:
    return Owners(
        {
            7000: ProcessOwner(
                7000,
                "pod",
                pod_uid="99999999-aaaa-bbbb-cccc-dddddddddddd",
                name="nvidia-cuda-mps-server",
                mps_server=True,
            ),
            7001: ProcessOwner(7001, "pod", pod_uid=POD),
            7002: ProcessOwner(7002, "pod", pod_uid=OTHER_POD),
        }
    )


def test_an_mps_server_is_nobodys_and_its_clients_are_told_and_not_measured(node: Node) -> None:
    node.scenario.play("mps")
    node.scenario.set({"gpu.0.process_util": f"7000:{START + INTERVAL - 1}:93:35"})
    node.begin(owners=mps_owners())
    facts = node.round()
    server, one, other = of(facts, ProcessSample)
    assert (server.pod_uid, server.sm_ratio, one.pod_uid, other.pod_uid) == (None, 0.93, POD, OTHER_POD)
    assert "clients" in json.loads(server.unknown)["pod_uid"]
    assert (one.sm_ratio, other.sm_ratio, one.process_type) == (None, None, "M+C")
    assert "split by reservation, not measured" in json.loads(one.unknown)["sm_ratio"]
    (finding,) = of(facts, Finding)
    assert finding.message == f"shared through MPS among {POD}, {OTHER_POD}, split by reservation, not measured"
    assert json.loads(finding.evidence)["server_pods"] == ["99999999-aaaa-bbbb-cccc-dddddddddddd"]
    assert codes(node.round()) == []


def test_where_the_driver_lists_no_clients_a_process_beside_the_server_is_not_called_idle(node: Node) -> None:
    node.scenario.play("mps")
    node.scenario.unset("gpu.0.mps")
    node.begin(owners=mps_owners())
    _, one, _ = of(node.round(), ProcessSample)
    assert one.sm_ratio is None and "MPS" in json.loads(one.unknown)["sm_ratio"]


def test_where_only_the_server_is_seen_the_holders_of_the_card_are_named(node: Node) -> None:
    node.scenario.play("mps")
    node.scenario.unset("gpu.0.mps")
    node.scenario.set({"gpu.0.compute": "7000:33554432"})
    holders: Callable[[str], Iterable[str]] = {FIRST: ("team-a/x", "team-b/y")}.__getitem__
    node.begin(owners=mps_owners(), holders=holders)
    (finding,) = of(node.round(), Finding)
    assert finding.message == "shared through MPS among team-a/x, team-b/y, split by reservation, not measured"


def test_a_node_without_a_card_is_whole_and_empty(node: Node) -> None:
    node.scenario.set({"count": 0})
    facts = node.round()
    assert (status(facts).status, status(facts).complete, status(facts).objects_count) == ("ok", True, 0)


def test_what_a_driver_must_not_do_ends_the_round(node: Node) -> None:
    def broken(index: int, note: object) -> object:
        raise ZeroDivisionError

    node.rounds._driver.read_card = broken  # type: ignore[method-assign,assignment]
    with pytest.raises(ZeroDivisionError):
        node.round()
