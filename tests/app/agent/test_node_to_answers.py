"""From a node to the answers: rounds over the driver's stub, delivered through the endpoint, posted, asked who holds what and how much was used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from steelyard.answers.contract import Answer
from steelyard.app.agent.batch import PROTOCOL, Head, encode
from steelyard.app.agent.command import rounds_of
from steelyard.app.agent.options import options
from steelyard.app.asking import answer_over
from steelyard.app.posting import post
from steelyard.app.settings import Settings
from steelyard.facts.node import Node
from steelyard.facts.owner import Owner
from steelyard.facts.request import Request
from steelyard.facts.source_status import SourceStatus
from steelyard.primitives.clock import FixedClock
from steelyard.primitives.instant import MINUTE_US, SECOND_US
from steelyard.primitives.unknown import Unknown
from steelyard.store import Store
from steelyard.surfaces.shared.ports import Question
from tests.app.agent.batches import AT
from tests.app.agent.gpu_node import CARD_0, CARD_1, INFER, NODE, TRAIN, gpu_node
from tests.app.agent.gpu_node import PODS as PROCESSES
from tests.app.agent.test_ingest_agent import Site, site
from tests.sources.nvml.stub_library import VARIABLE

PODS = {"train-0": TRAIN, "infer-0": INFER}


def cluster(store: Store) -> None:
    """What a watched cluster would have told: both pods have been running on the node for an hour."""
    began = AT - 60 * MINUTE_US
    stamps = {"source": "kube_api", "occurred_at": began, "observed_at": began, "cluster": "east"}
    facts: list[Any] = [Node(natural_key=NODE, node=NODE, ready=True, ready_changed_at=began, gpu_count=2, **stamps)]
    for name, uid in PODS.items():
        facts.append(
            Request(
                natural_key=uid,
                pod_uid=uid,
                namespace="team-a",
                pod=name,
                node=NODE,
                phase="Running",
                created_at=began,
                scheduled_at=began,
                started_at=began,
                first_container_at=began,
                gpu_count=1,
                **stamps,
            )
        )
    facts.append(
        SourceStatus(
            natural_key="pods/cluster",
            kind="pods",
            complete=True,
            observed_from_at=began,
            observed_to_at=AT + 5 * MINUTE_US,
            **stamps,
        )
    )
    store.append(facts)


@contextmanager
def delivered(
    tmp_path: Path, library: Path, scenario: str, monkeypatch: pytest.MonkeyPatch, rounds: int
) -> Iterator[Site]:
    """A store with what an agent delivered in so many rounds, posted."""
    clock = FixedClock(AT)
    with site(tmp_path) as found, gpu_node(tmp_path, library, scenario) as node:
        monkeypatch.setenv(VARIABLE, node.environment[VARIABLE])
        cluster(found.store)
        agent = rounds_of(options(["--metrics", ":0", *node.arguments], {}), clock, {})
        for number in range(rounds):
            seen = agent.round()
            head = Head(protocol=PROTOCOL, agent=NODE, boot="b", sequence=number + 1, made_at=seen.at)
            assert found.post(encode(head, seen.facts))[0].status_code == 200
            clock.instant += 10 * SECOND_US
        agent.close()
        post(found.store, Settings(cluster="east"))
        yield found


def asked(found: Site, number: int, **more: Any) -> Answer:
    with found.store.reader() as reader:
        return answer_over(reader, Path("x"), number, Question(**more))


def rows(answer: Answer, name: str) -> list[Mapping[str, Any]]:
    (table,) = [table for table in answer.tables if table.name == name]
    names = [column.name for column in table.columns]
    return [dict(zip(names, row, strict=True)) for row in table.rows]


def part(numerator: int, denominator: int) -> float:
    """A share of a card, in parts per million and floored."""
    return numerator * 1_000_000 // denominator / 1_000_000


TRAIN_ALONE = {"train-0": (CARD_0, 1.0)}
HELD: dict[str, dict[str, tuple[str, float]]] = {
    "whole": TRAIN_ALONE,
    "lost": TRAIN_ALONE,
    "hang": TRAIN_ALONE,
    "no_permission": TRAIN_ALONE,
    "mismatch": TRAIN_ALONE,
    "unsupported": TRAIN_ALONE,
    "mig": {"train-0": (CARD_0, 0.5), "infer-0": (CARD_0, part(1, 7))},  # 4 of 8 memory slices; 1 of 7 compute slices
    "mps": {"train-0": (CARD_0, 0.5), "infer-0": (CARD_0, 0.5)},
    "two_compute_instances": {"train-0": (CARD_0, part(1, 6)), "infer-0": (CARD_0, part(2, 6))},  # of half a card
}
"""Who holds what share of which card, by scenario."""

MEMORY_MIB: dict[str, dict[str, int | None]] = {
    "whole": {"train-0": 10_240},
    "lost": {"train-0": 10_240},
    "hang": {"train-0": 10_240},
    "no_permission": {"train-0": 10_240},
    "mismatch": {"train-0": None},
    "unsupported": {"train-0": 0},
    "mig": {"train-0": 16, "infer-0": 1},
    "mps": {"train-0": 4_096, "infer-0": 2_048},
    "two_compute_instances": {"train-0": 8_192, "infer-0": 8_704},
}
"""Memory that each used throughout; None: no sample tells."""

COMPUTE_UPPER: dict[str, Fraction] = dict.fromkeys(("whole", "lost", "hang", "no_permission"), Fraction(87, 100))
"""What field 203 of a card of one holder's says; elsewhere nothing does."""


WHOLE_CARD_USED = {"train-0": (622_500, 1_000_000)}
USED: dict[str, Mapping[str, tuple[int, int]]] = {
    **dict.fromkeys(("whole", "lost", "hang", "no_permission"), WHOLE_CARD_USED),
    "mig": {"train-0": (880_000 * 500_000 // 1_000_000, 500_000), "infer-0": (100_000 * 142_857 // 1_000_000, 142_857)},
}
"""What max(1002, 1005) of each holder's unit says, and what the unit is, in parts per million of the card; elsewhere a card has several holders
or no GPM counters."""


@pytest.mark.parametrize("scenario", sorted(HELD))
def test_what_the_one_holder_of_a_unit_used_is_known(
    scenario: str, stub: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds = 4
    measured_hours = Fraction((rounds - 1) * 10, 3_600)  # the first round looks twice, so it has a figure too
    with delivered(tmp_path, stub, scenario, monkeypatch, rounds) as found:
        q2 = asked(found, 2, by=["pod"])
    consumption = {row["pod"].removeprefix("team-a/"): row for row in rows(q2, "consumption")}
    assert USED.get(scenario, {}).keys() <= consumption.keys() == HELD[scenario].keys()
    for pod, row in consumption.items():
        known = USED.get(scenario, {}).get(pod)
        if known is None:
            assert isinstance(row["gpu_hours_used"], Unknown)
            assert isinstance(row["gpu_hours_waste"], Unknown)
            continue
        used, unit = (Fraction(ppm, 1_000_000) * measured_hours for ppm in known)
        assert row["gpu_hours_used"] == used
        assert row["gpu_hours_waste"] == unit - used


@pytest.mark.parametrize("scenario", sorted(HELD))
def test_over_each_scenario_the_answers_are_right(
    scenario: str, stub: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds = 4
    observed_hours = Fraction((rounds - 1) * 10, 3_600)
    with delivered(tmp_path, stub, scenario, monkeypatch, rounds) as found:
        q1, q2 = asked(found, 1), asked(found, 2, by=["pod"])
    holders = {row["pod"]: (row["device_uuid"], row["share_ratio"]) for row in rows(q1, "holders")}
    assert holders == HELD[scenario]
    used = {row["pod"].removeprefix("team-a/"): row for row in rows(q2, "consumption")}
    assert used.keys() == holders.keys()
    for pod, row in used.items():
        memory_mib = MEMORY_MIB[scenario][pod]
        told = row["memory_used_mib_hours"]
        assert isinstance(told, Unknown) if memory_mib is None else told == memory_mib * observed_hours
        upper = row["gpu_hours_used_upper"]
        if scenario in COMPUTE_UPPER:
            assert upper == COMPUTE_UPPER[scenario] * observed_hours
        else:
            assert isinstance(upper, Unknown)  # never 0 where it was not measured
    assert {figure.name: figure.value for figure in q1.figures}["ledger_residual_gpu_us"] == 0


def test_a_driver_that_hangs_on_one_card_costs_that_cards_samples_and_is_seen_in_the_next_answer(
    stub: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with delivered(tmp_path, stub, "hang", monkeypatch, 2) as found:
        devices = {row["device_uuid"]: row for row in rows(asked(found, 1), "devices")}
        sampled = found.store.rows("SELECT device_uuid, count(*) FROM fact.device_sample GROUP BY ALL")
    assert devices[CARD_1]["state_reason"].startswith(
        "driver call nvmlDeviceGetPowerUsage stuck since 2026-11-30T12:00"
    )
    assert devices[CARD_0]["state_reason"] is None
    assert sampled == [(CARD_0, 2)]


def test_cards_shared_through_mps_are_said_to_be_split_by_reservation(
    stub: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with delivered(tmp_path, stub, "mps", monkeypatch, 2) as found:
        ((message,),) = found.store.rows("SELECT message FROM fact.finding WHERE code = 'shared_through_mps'")
    assert "team-a/infer-0" in message and "team-a/train-0" in message
    assert "split by reservation, not measured" in message


def test_the_processes_of_a_static_pod_verify_what_its_mirror_pod_holds(
    stub: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_kubelet = "0123456789abcdef0123456789abcdef"
    for pid, uid in PROCESSES.items():
        if uid == TRAIN:
            monkeypatch.setitem(PROCESSES, pid, of_kubelet)

    def grade() -> str:
        (row,) = rows(asked(found, 1), "holders")
        assert row["pod"] == "train-0"
        return str(row["evidence_grade"])

    with delivered(tmp_path, stub, "whole", monkeypatch, 2) as found:
        assert {uid for (uid,) in found.store.rows("SELECT DISTINCT pod_uid FROM fact.process_sample")} >= {of_kubelet}
        assert grade() != "verified"  # nobody says yet whose hash it is
        annotations = f'{{"kubernetes.io/config.hash":"{of_kubelet}","kubernetes.io/config.mirror":"{of_kubelet}"}}'
        found.store.append(
            [
                Owner(
                    source="kube_api",
                    natural_key=TRAIN,
                    pod_uid=TRAIN,
                    namespace="team-a",
                    annotations=annotations,
                    occurred_at=AT,
                    observed_at=AT,
                    cluster="east",
                )
            ]
        )
        post(found.store, Settings(cluster="east"))
        assert grade() == "verified"
