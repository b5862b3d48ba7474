"""hami.md section 5 and telemetry.md section 6, the rows that concern over-use: who is accused by Q7, and above all who is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from steelyard.answers.contract import Answer
from steelyard.answers.q07_overuse import OveruseSpec, answer
from steelyard.facts.process_sample import ProcessSample
from tests.collection.hami_estate import HamiEstate, container, counted, granted, host, node, pod
from tests.collection.scraped_estate import card, cells, figure, listing, moment

A = pod("a", granted([(0, 8_192, 30)]))
B = pod("b", granted([(0, 8_192, 30)]))
MINUTES = tuple(f"12:{minute:02}" for minute in range(0, 20))


def watched(
    folder: Path, lines: list[str], *pods: Any, processes: Any = (), after: tuple[Any, ...] | None = None
) -> HamiEstate:
    """Twenty minutes, one scrape each of the same lines; the same pods at both ends (``after``: at the end). processes: (MiB, uid) once a minute."""
    estate = HamiEstate(folder)
    for at in MINUTES:
        if lines:
            estate.scrape(at, {"n1:9394": lines})
        estate.store.append(
            [
                ProcessSample(
                    source="agent", natural_key=f"{card(0)}/{pid}", device_uuid=card(0), pid=pid, pod_uid=uid, memory_used_mib=mib,
                    process_name="python3", occurred_at=moment(at), observed_at=moment(at),
                )
                for pid, (mib, uid) in enumerate(processes, 100)
            ]
        )  # fmt: skip
    estate.take("12:00", listing(node(cards=(0, 1)), *pods))
    estate.take("12:20", listing(node(cards=(0, 1)), *(pods if after is None else after)))
    return estate


def asked(estate: HamiEstate) -> Answer:
    estate.rows("SELECT 1")
    return answer(estate.store, OveruseSpec())


def accused(estate: HamiEstate) -> list[tuple[Any, ...]]:
    return cells(asked(estate), "violations", "pod", "rule", "severity", "hard_reason")


def with_env(pod_: dict[str, Any], name: str, value: str) -> dict[str, Any]:
    own = [{**each, "env": [{"name": name, "value": value}]} for each in pod_["spec"]["containers"]]
    return {**pod_, "spec": {**pod_["spec"], "containers": own}}


def test_row_10_slots_that_were_realigned_accuse_nobody_of_a_neighbours_slice(tmp_path: Path) -> None:
    two = pod(
        "two", granted([(0, 8_192, 30)], [(1, 4_096, 20)]), container("x", 8_192, 30), container("y", 4_096, 20),
        init=[container("init", gpus=0)],
    )  # fmt: skip
    assert (
        accused(
            watched(
                tmp_path,
                [*counted("two", 8_000, container="x"), *counted("two", 4_000, 4_096, n=1, container="y")],
                two,
            )
        )
        == []
    )


def test_row_11_several_containers_of_a_pod_are_held_against_all_that_it_was_granted(tmp_path: Path) -> None:
    both = pod("a", granted([(0, 8_192, 30)], [(0, 8_192, 30)]), container("x"), container("y"))
    assert (
        accused(
            watched(
                tmp_path,
                [*counted("a", 8_000, container="x"), *counted("a", 8_000, container="y"), *host(16_500)],
                both,
            )
        )
        == []
    )


def test_row_16_use_that_lands_on_one_of_two_pods_accuses_neither(tmp_path: Path) -> None:
    assert accused(watched(tmp_path, [*counted("a", 16_000), *counted("b", 0), *host(16_500)], A, B)) == []


def test_row_17_a_count_that_stays_after_its_process_accuses_nobody(tmp_path: Path) -> None:
    assert accused(watched(tmp_path, [*counted("a", 16_000), *host(400)], A)) == []


def test_row_18_more_than_the_card_has_accuses_nobody(tmp_path: Path) -> None:
    assert accused(watched(tmp_path, [*counted("a", 17_592_186_044_134), *host(4_000)], A)) == []


@pytest.mark.parametrize(("real", "found"), [(8_488, []), (12_288, [("a", "memory", "hard", "lasting")])])
def test_row_19_what_the_device_has_above_the_limit_is_the_excess_whatever_was_counted(
    real: int, found: list[Any], tmp_path: Path
) -> None:
    estate = watched(tmp_path, counted("a", 8_000), A, processes=[(real, "uid-a")])
    assert accused(estate) == found
    if found:
        [row] = cells(asked(estate), "violations", "granted_mib", "peak_mib", "mean_excess_mib", "basis")
        assert row == (8_192, 12_288, 4_096, "process")


def test_row_20_a_limit_that_is_a_neighbours_does_not_raise_what_was_granted(tmp_path: Path) -> None:
    small = pod("a", granted([(0, 1_024, 10)]), container(mib=1_024, cores=10))
    estate = watched(tmp_path, [*counted("a", 9_000, 30_480), *host(9_500)], small)
    assert accused(estate) == [("a", "memory", "hard", "lasting")]
    assert cells(asked(estate), "violations", "granted_mib") == [(1_024,)]


@pytest.mark.parametrize(
    ("policy", "found"),
    [(None, []), ("default", []), ("disable", []), ("force", [("a", "compute", "hard", "lasting")])],
)
def test_row_21_ninety_percent_with_twenty_granted_is_over_use_only_where_cores_are_forced(
    policy: str | None, found: list[Any], tmp_path: Path
) -> None:
    small = pod("a", granted([(0, 8_192, 20)]), container(cores=20))
    spoken = with_env(small, "GPU_CORE_UTILIZATION_POLICY", policy) if policy else small
    assert accused(watched(tmp_path, [*counted("a", 4_096, percent=90), *host(4_300, 90)], spoken)) == found


def test_row_22_a_series_that_is_absent_is_not_known_and_no_innocence(tmp_path: Path) -> None:
    result = asked(watched(tmp_path, [], A))
    assert (figure(result, "hard_count"), figure(result, "unmeasured_count"), result.coverage) == (0, 1, 0)
    assert cells(result, "unmeasured", "pod") == [("a",)]


def test_row_29_a_request_that_was_rounded_to_a_profile_is_no_over_use(tmp_path: Path) -> None:
    rounded = pod("m", f"{card(0)}[1-0],NVIDIA,10240,28:;", container("main", 8_000, 10))
    estate = HamiEstate(tmp_path)
    estate.take("12:00", listing(node(mode="mig"), rounded))
    assert accused(estate) == []


def test_row_32_an_annotation_above_its_request_is_a_bypass(tmp_path: Path) -> None:
    greedy = pod("greedy", granted([(0, 30_000, 100)]), container("main", 2_000, 10))
    estate = watched(tmp_path, [], greedy)
    assert accused(estate) == [("greedy", "tampered_grant", "hard", "bypass")]
    assert cells(asked(estate), "violations", "granted_mib", "peak_mib", "basis") == [(2_000, 30_000, "annotation")]


def test_row_33_a_series_of_a_finished_pod_is_no_use_after_its_end(tmp_path: Path) -> None:
    over = pod("a", granted([(0, 8_192, 30)]), ended="12:05")
    assert accused(watched(tmp_path, [*counted("a", 8_000), *host(400)], A, after=(over,))) == []


def test_row_33_a_process_of_a_finished_pod_is(tmp_path: Path) -> None:
    over = pod("a", granted([(0, 8_192, 30)]), ended="12:05")
    assert accused(watched(tmp_path, [], A, after=(over,), processes=[(4_000, "uid-a")])) == [
        ("a", "after_end", "hard", "bypass")
    ]
    assert cells(
        asked(watched(tmp_path, [], A, after=(over,), processes=[(4_000, "uid-a")])), "violations", "started_at"
    ) == [("2026-03-01T12:08:00Z",)]


def test_row_36_what_the_card_does_is_not_held_against_one_of_its_pods(tmp_path: Path) -> None:
    force = [with_env(each, "GPU_CORE_UTILIZATION_POLICY", "force") for each in (A, B)]
    assert accused(watched(tmp_path, host(30_000, 100), *force)) == []


def test_row_13_of_telemetry_a_card_used_without_a_request_is_used_by_an_unallocated_process(tmp_path: Path) -> None:
    thief = with_env(pod("thief", None, container(gpus=0)), "NVIDIA_VISIBLE_DEVICES", "all")
    assert accused(watched(tmp_path, [], A, thief, processes=[(4_096, "uid-thief")])) == [
        ("thief", "no_grant", "hard", "bypass")
    ]
    result = asked(watched(tmp_path, [], A, thief))
    assert cells(result, "violations", "pod") == []
    assert cells(result, "exposed", "pod", "exposed_by") == [("thief", "visible_all")], "no process yet"


def test_row_26_of_telemetry_memory_without_a_living_process_accuses_nobody(tmp_path: Path) -> None:
    over = pod("a", granted([(0, 8_192, 30)]), ended="12:05")
    assert accused(watched(tmp_path, host(30_000, 0), A, after=(over,))) == []


def test_row_28_of_telemetry_a_process_whose_pod_cannot_be_told_is_nobodys(tmp_path: Path) -> None:
    assert accused(watched(tmp_path, [], A, processes=[(30_000, None)])) == []
