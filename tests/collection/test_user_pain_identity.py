"""telemetry.md section 6, rows 24, 29, 30 and 32: which card, which metric, which exporter, over two scrapes and more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.collection.scraped_estate import (
    DRAM,
    FB,
    GR,
    SM,
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

OLD_AND_NEW = {
    UTIL: "DCGM_FI_DEV_GPU_UTIL_RATIO",
    GR: "DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO",
    SM: "DCGM_FI_PROF_SM_UTIL_RATIO",
    DRAM: "DCGM_FI_PROF_DRAM_UTIL_RATIO",
}
VALUES = {UTIL: 97, GR: 0.9, SM: 0.3, DRAM: 0.2}


def hold(estate: ScrapedEstate, at: str, uuid: str) -> None:
    estate.take(at, listing(node(), pod("a")), kubelet({"a": [uuid]}))


def replace_card(estate: ScrapedEstate, uuid: str, kubelet_says: bool, **labels: str) -> None:
    """Pod a on card 0 until 12:25; from 12:40 on pod b on another card at the same place. Four rounds of twenty minutes."""
    before, after = card(0), uuid
    rounds = {
        "12:00": (before, [pod("a")], {"a": [before]}),
        "12:20": (before, [pod("a")], {"a": [before]}),
        "12:40": (after, [pod("a", ended="12:25"), pod("b", started="12:40")], {"b": [after]}),
        "13:00": (after, [pod("a", ended="12:25"), pod("b", started="12:40")], {"b": [after]}),
    }
    for at, (shown, pods, held) in rounds.items():
        estate.scrape(at, [line(name, 50, UUID=shown, **labels) for name in (UTIL, FB)], interval_minutes=20)
        estate.take(at, listing(node(), *pods), *([kubelet(held)] if kubelet_says else []))


def test_row_24_a_metric_is_its_field_number_whatever_it_is_called(tmp_path: Path) -> None:
    estate = ScrapedEstate(tmp_path)
    for at, renamed in (("12:00", False), ("12:30", True), ("13:00", True)):
        estate.scrape(
            at, [line(OLD_AND_NEW[name] if renamed else name, VALUES[name]) for name in VALUES], interval_minutes=30
        )
        hold(estate, at, card(0))
    columns = "util_gpu_ratio, gr_active_ratio, sm_active_ratio, dram_active_ratio"
    assert estate.rows(f"SELECT DISTINCT {columns} FROM fact.device_sample") == [(0.97, 0.9, 0.3, 0.2)]
    used = estate.q2()
    assert figure(used, "gpu_hours_used_upper") == pytest.approx(0.97)
    methods = {each.name: each.method for each in used.figures}
    assert methods["gpu_hours_used_upper"].startswith("203 GPU_UTIL")
    assert "max(1002, 1005)" in methods["gpu_hours_used"]
    assert estate.found("series_vanished") == []


@pytest.mark.parametrize("kubelet_says", [True, False], ids=["with the kubelet", "the exporter alone"])
def test_row_29_a_replaced_card_closes_its_history_and_the_slot_keeps_both(tmp_path: Path, kubelet_says: bool) -> None:
    estate = ScrapedEstate(tmp_path)
    replace_card(estate, card(50), kubelet_says)
    assert cells(estate.q1("12:10"), "devices", "device_uuid") == [(card(0),)]
    now = estate.q1()
    assert cells(now, "devices", "device_uuid", "device_index") == [(card(50), 0)]
    assert cells(estate.q1("12:10"), "holders", "pod", "device_uuid") == [("a", card(0) if kubelet_says else None)]
    assert cells(now, "holders", "pod", "device_uuid") == [("b", card(50) if kubelet_says else None)]
    assert figure(now, "gpus_supply") == 1
    slot = estate.rows("SELECT device_uuid, slot, valid_to_at IS NULL FROM dim.slot ORDER BY valid_from_at")
    assert slot == [(card(0), "00000000:10:00.0", False), (card(50), "00000000:10:00.0", True)]
    supply = estate.rows(
        "SELECT sum(amount_gpu_us) FROM ledger.supply WHERE account = 'supply' AND grain_at = '2026-03-01 12:00'"
    )
    assert supply[0][0] <= 3600 * 10**12  # one slot is one card at a time
    used = estate.rows(
        "SELECT device_uuid, sum(observed_us) FROM ledger.usage WHERE path = 'device' GROUP BY ALL ORDER BY ALL"
    )
    assert used == [(card(0), 20 * 60_000_000), (card(50), 20 * 60_000_000)]


def test_row_30_an_index_that_moves_over_a_reboot_is_an_attribute_of_the_same_card(tmp_path: Path) -> None:
    estate = ScrapedEstate(tmp_path)
    for at, first in (("12:00", 0), ("12:30", 1), ("13:00", 1)):
        lines = [
            line(
                UTIL,
                50 if n == 0 else 10,
                n,
                gpu=str(n ^ first),
                device=f"nvidia{n ^ first}",
                DCGM_FI_DEV_SERIAL=f"16{n}",
            )
            for n in (0, 1)
        ]
        estate.scrape(at, lines, interval_minutes=30)
        hold(estate, at, card(0))
    now = estate.q1()
    assert cells(now, "holders", "pod", "device_uuid") == [("a", card(0))]
    assert sorted(cells(now, "devices", "device_uuid", "device_index", "serial")) == [
        (card(0), 1, "160"),
        (card(1), 0, "161"),
    ]
    assert cells(estate.q2(), "pods", "pod", "gpu_hours_used_upper", "gpu_hours_granted") == [("a", 0.5, 1.0)]


@pytest.mark.parametrize("kubelet_says", [True, False], ids=["with the kubelet", "the exporter alone"])
def test_row_30_other_physical_cards_under_the_same_node_name_are_other_cards(
    tmp_path: Path, kubelet_says: bool
) -> None:
    estate = ScrapedEstate(tmp_path)
    replace_card(estate, card(60), kubelet_says, pci_bus_id="")
    assert cells(estate.q1(), "devices", "device_uuid") == [(card(60),)]
    assert cells(estate.q1("12:10"), "devices", "device_uuid") == [(card(0),)]


@pytest.mark.parametrize("alternating", [False, True], ids=["at the same instants", "15 s apart"])
def test_row_32_two_exporters_of_one_node_are_read_as_one_and_told(tmp_path: Path, alternating: bool) -> None:
    estate = ScrapedEstate(tmp_path)
    stamps = [1_772_366_400_000 + minute * 60_000 for minute in range(61)]  # 12:00 to 13:00 of the day
    later = 15_000 if alternating else 0
    with_pods = {
        "job": "gpu-operator",
        **{f"exported_{key}": text for key, text in of("a").items()},
        "pod": "exporter-x",
    }
    estate.scrape(
        "13:00",
        {
            "10.0.0.1:9400": [
                f"{line(name, value, **with_pods)} {at}" for name, value in ((UTIL, 50), (FB, 4000)) for at in stamps
            ],
            "10.0.0.2:9400": [
                f"{line(name, value, job='bare')} {at + later}"
                for name, value in ((UTIL, 52), (FB, 4002))
                for at in stamps[:-1]
            ],
        },
    )
    for at in ("12:00", "12:30", "13:00"):
        hold(estate, at, card(0))
    assert estate.rows("SELECT count(*), max(memory_used_mib) FROM fact.device_sample") == [(61, 4000)]
    used = estate.q2()
    assert figure(used, "memory_used_device_mib_hours") == 4000
    assert cells(used, "pods", "pod", "gpu_hours_used_upper") == [("a", 0.5)]
    note = estate.the("exporters_doubled")
    assert note.subject == "exporter bare/10.0.0.2:9400"
    assert (
        note.message == "1 card is exported by gpu-operator/10.0.0.1:9400 too: one of the two is read, none is added up"
    )
