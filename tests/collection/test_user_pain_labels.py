"""telemetry.md section 6, rows 11 to 16: whose rows they are, from the exporter's labels to Q1 and Q2."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.collection.scraped_estate import (
    FB,
    UTIL,
    ScrapedEstate,
    card,
    cells,
    figure,
    kubelet,
    line,
    listing,
    node,
    of,
    pod,
)

THROUGH_PROMETHEUS = {
    "job": "gpu-metrics",
    "pod": "dcgm-exporter-6ldbb",
    "namespace": "monitoring",
    "container": "exporter",
}


def exported(name: str) -> dict[str, str]:
    """Labels of a row that Prometheus scraped without honorLabels."""
    return {f"exported_{key}": text for key, text in of(name).items()} | THROUGH_PROMETHEUS


def labelled_pods(estate: ScrapedEstate) -> set[tuple[Any, ...]]:
    return set(estate.rows("SELECT namespace, pod FROM fact.partition_sample WHERE origin = 'dcgm_label'"))


def hold(estate: ScrapedEstate, at: str, *names: str, **more: Any) -> None:
    """Each of the names holds a card of its own: a the card 0, b the card 1 and so on."""
    held = {name: [card("abcdefgh".index(name))] for name in names}
    estate.take(at, listing(node(gpus=len(names)), *(pod(name, **more) for name in names)), kubelet(held))


def test_row_11_a_card_whose_pod_labels_come_and_go_is_one_card_over_time(tmp_path: Path) -> None:
    estate = ScrapedEstate(tmp_path)
    for at, labels in (
        ("12:00", exported("a")),
        ("12:30", THROUGH_PROMETHEUS),
        ("13:00", {**exported("a"), "exported_team": "x"}),
    ):
        estate.scrape(at, [line(FB, 4000, **labels), line(UTIL, 50, **labels)], interval_minutes=30)
        hold(estate, at, "a")
    now = estate.q1()
    assert (figure(now, "devices_count"), figure(now, "gpus_supply")) == (1, 1)
    used = estate.q2()
    assert cells(used, "pods", "pod", "memory_used_mean_mib", "gpu_hours_used_upper", "use_observed_ratio") == [
        ("a", 4000, 0.5, 1.0)
    ]
    assert figure(used, "memory_use_unattributed_mib_hours") == 0


@pytest.mark.parametrize(
    "labels",
    [
        exported("a"),
        {**of("a"), "job": "dcgm-exporter"},
        {**of("a"), "job": "gpu-metrics", "exported_job": "x"},
        {"pod_name": "a", "pod_namespace": "team", "container_name": "main"},
    ],
    ids=["honorLabels false", "honorLabels true", "honorLabels true, target relabelled", "old exporter"],
)
def test_row_12_the_tenant_is_exported_pod_where_there_is_one_and_never_the_scrape_target(
    tmp_path: Path, labels: dict[str, str]
) -> None:
    estate = ScrapedEstate(tmp_path)
    for at in ("12:00", "13:00"):
        estate.scrape(at, [line(UTIL, 50, **labels), line(UTIL, 0, 1, **THROUGH_PROMETHEUS)])
        hold(estate, at, "a")
    assert labelled_pods(estate) == {("team", "a")}
    assert estate.found("label_without_holding") == []
    assert cells(estate.q1(), "holders", "pod") == [("a",)]


def test_row_12_a_label_that_names_the_exporter_alone_is_nobodys(tmp_path: Path) -> None:
    estate = ScrapedEstate(tmp_path)
    estate.scrape("13:00", [line(UTIL, 50, **THROUGH_PROMETHEUS)])
    assert labelled_pods(estate) == set()
    assert estate.the("pod_labels_missing").message.startswith("0 of 1 sightings")


PROCESSES = f"gpu_uuid, pid, process_name, used_gpu_memory [MiB]\n{card(1)}, 4711, python, 9000 MiB\n"


@pytest.mark.parametrize("proof", [None, PROCESSES], ids=["no process list", "a process list"])
def test_row_13_a_card_used_without_a_request_is_used_by_an_unallocated_process(
    tmp_path: Path, proof: str | None
) -> None:
    estate = ScrapedEstate(tmp_path)
    for at in ("12:00", "12:30", "13:00"):
        estate.scrape(at, [line(UTIL, 50, **of("a")), line(UTIL, 97, 1), line(FB, 9000, 1)], interval_minutes=30)
        hold(estate, at, "a")
    if proof:
        estate.take("12:59", proof, node="n1")
    note = estate.the("used_without_holder")
    assert note.subject == f"device {card(1)}"
    assert "used by an unallocated process" in note.message
    assert ("pid 4711" in note.message) == (proof is not None)
    assert ("import nvidia-smi process lists" in note.message) == (proof is None)
    assert ("the agent on its node tells" in note.message) == (proof is not None)
    assert figure(estate.q2(), "memory_use_unattributed_mib_hours") == 9000
    assert cells(estate.q1(), "holders", "pod") == [("a",)]


def test_row_13_a_process_list_that_names_none_on_the_card_is_not_asked_for_again(tmp_path: Path) -> None:
    estate = ScrapedEstate(tmp_path)
    for at in ("12:30", "13:00"):
        estate.scrape(at, [line(UTIL, 50, **of("a")), line(UTIL, 97, 1), line(FB, 9000, 1)], interval_minutes=30)
        hold(estate, at, "a")
    estate.take("12:59", PROCESSES.replace(card(1), card(0)), node="n1")
    message = estate.the("used_without_holder").message
    assert "the process lists of its node name none on it" in message
    assert "import nvidia-smi process lists" not in message


def test_row_13_a_card_that_its_holder_uses_is_no_finding(tmp_path: Path) -> None:
    estate = ScrapedEstate(tmp_path)
    estate.scrape("13:00", [line(UTIL, 97), line(UTIL, 0, 1)])
    hold(estate, "13:00", "a")
    assert estate.found("used_without_holder") == []


def test_row_14_missing_labels_are_a_share_of_attribution_and_not_idleness(tmp_path: Path) -> None:
    estate = ScrapedEstate(tmp_path)
    lines = [line(UTIL, 80, **of("a")), line(UTIL, 80, 1), line(UTIL, 80, 2), line(UTIL, 80, 3), line(UTIL, 0, 4)]
    for at in ("12:00", "12:30", "13:00"):
        estate.scrape(at, [*lines, line(FB, 500), line(FB, 500, 2)], interval_minutes=30)
        hold(estate, at, "a", "b")
    note = estate.the("pod_labels_missing")
    assert note.message.startswith("1 of 4 sightings of cards at work name a pod (attribution 25 %)")
    told = estate.evidence("pod_labels_missing")
    assert (told["expected"], told["found"], told["attribution_percent"]) == (4, 1, 25)
    assert "DCGM_EXPORTER_KUBERNETES=true" in told["exporter_settings"]
    used = estate.q2()
    assert cells(used, "pods", "pod", "gpu_hours_used_upper") == [
        ("a", 0.8),
        ("b", 0.8),
    ]  # the books know b, whatever the labels say
    assert figure(used, "memory_use_unattributed_mib_hours") == 500  # the unknown bucket: card 2
    assert {each.subject for each in estate.found("used_without_holder")} == {f"device {card(2)}", f"device {card(3)}"}


@pytest.mark.parametrize("known_by", ["kubelet", "label"])
def test_row_15_idle_cards_that_disappear_stay_in_the_inventory_and_their_use_is_not_known(
    tmp_path: Path, known_by: str
) -> None:
    estate = ScrapedEstate(tmp_path)
    for at in ("12:00", "12:30", "13:00"):
        estate.scrape(at, [line(UTIL, 80, **of("a")), line(UTIL, 80, 1, **of("b"))], interval_minutes=30)
        held = {"a": [card(0)], "b": [card(1)]}
        offered = [card(n) for n in range(8)] if known_by == "kubelet" else []
        labels = {"nvidia_com_gpu.count": "8"} if known_by == "label" else {}
        estate.take(at, listing(node(gpus=8, **labels), pod("a"), pod("b")), kubelet(held, offered))
    note = estate.the("cards_not_measured")
    assert (note.subject, note.severity) == ("node n1", "warning")
    assert note.message.startswith("cards expected 8, measured 2:")
    assert ("only a label counts stand in no supply" in note.message) == (known_by == "label")
    told = estate.evidence("cards_not_measured")
    assert (told["expected"], told["found"], "DCGM_EXPORTER" in told["exporter_settings"]) == (8, 2, True)
    if known_by == "kubelet":
        now = estate.q1()
        assert (figure(now, "devices_count"), figure(now, "gpus_free")) == (8, 6)
        assert told["missing"].split(",") == [card(n) for n in range(2, 8)]
        assert estate.rows("SELECT DISTINCT device_uuid FROM ledger.usage ORDER BY 1") == [(card(0),), (card(1),)]


def test_row_16_a_finished_pod_that_its_card_still_names_is_charged_to_its_end(tmp_path: Path) -> None:
    estate = ScrapedEstate(tmp_path)
    labels = [line(UTIL, 0, **of("a")), line(FB, 300, **of("a"))]
    for at in ("12:00", "12:30", "13:00"):
        estate.scrape(at, labels, interval_minutes=30)
        hold(estate, at, "a", ended="12:15" if at != "12:00" else None)
    assert cells(estate.q1(), "holders", "pod") == []
    assert cells(estate.q1("12:10"), "holders", "pod") == [("a",)]
    assert cells(estate.q2(), "pods", "pod", "gpu_hours_granted") == [("a", 0.25)]
    note = estate.the("label_without_holding")
    assert (note.subject, note.message.endswith("charged to its end only: team/a")) == (f"device {card(0)}", True)


def test_the_evidence_of_findings_is_json(tmp_path: Path) -> None:
    estate = ScrapedEstate(tmp_path)
    estate.scrape("13:00", [line(UTIL, 97)])
    for (text,) in estate.rows("SELECT evidence FROM ledger.finding UNION ALL SELECT evidence FROM fact.finding"):
        assert isinstance(json.loads(text), dict)
