"""telemetry.md section 6, rows 19 to 22 and 33: series, cards and samples that are not there, or not true."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.collection.scraped_estate import (
    DRAM,
    FB,
    GR,
    POWER,
    SM,
    UTIL,
    XID,
    ScrapedEstate,
    card,
    cells,
    figure,
    kubelet,
    line,
    listing,
    node,
    pod,
)

EVERYTHING = {UTIL: 50, FB: 100, POWER: 200, XID: 0, GR: 0.5, SM: 0.4, DRAM: 0.3}
OLD, NEW = "4.5.2-4.8.1", "4.5.3-4.8.2"
ALL_EIGHT = [card(n) for n in range(8)]


def printed(version: str, *without: str) -> list[str]:
    """All fields that the questions need, less some, from an exporter whose scrape job tells its version."""
    return [line(name, value, exporter_version=version) for name, value in EVERYTHING.items() if name not in without]


def test_row_19_a_series_that_vanished_with_a_release_is_an_alarm_and_never_health(tmp_path: Path) -> None:
    estate = ScrapedEstate(tmp_path)
    estate.scrape("12:00", printed(OLD), interval_minutes=30)
    estate.scrape("12:30", printed(NEW, XID), interval_minutes=30)
    note = estate.the("series_vanished")
    assert (note.severity, note.subject) == ("warning", "dcgm exporter/n1")
    assert note.message.startswith(
        "fields 230 have no row any more, last seen 2026-03-01T12:00:00Z from 4.5.2-4.8.1, now 4.5.3-4.8.2:"
    )
    assert "absent is not healthy" in note.message
    told = estate.evidence("series_vanished")
    assert (told["expected"], told["found"], told["version_before"], told["version_now"]) == ("230", "", OLD, NEW)
    assert told["csv_lines"].startswith("DCGM_FI_DEV_XID_ERRORS, gauge, ")
    assert estate.rows("SELECT DISTINCT healthy FROM dim.device") == [(None,)]
    estate.scrape("13:00", printed(NEW), interval_minutes=30)
    assert estate.found("series_vanished") == []


def test_row_19_a_series_that_never_came_is_told_with_the_line_to_add(tmp_path: Path) -> None:
    estate = ScrapedEstate(tmp_path)
    estate.scrape("12:00", printed(NEW, XID, SM))
    note = estate.the("series_missing")
    assert (note.severity, note.message.startswith("fields 230, 1002 have no row from 4.5.3-4.8.2")) == (
        "warning",
        True,
    )
    told = estate.evidence("series_missing")
    assert (told["expected"], told["found"], told["missing"]) == (7, 5, "230,1002")
    assert [text.split(",")[0] for text in told["csv_lines"].splitlines()] == [XID, SM]


def test_row_19_a_field_that_a_stock_exporter_leaves_out_is_no_alarm(tmp_path: Path) -> None:
    estate = ScrapedEstate(tmp_path)
    estate.scrape("12:00", printed(NEW, SM))
    assert estate.the("series_missing").severity == "info"
    estate.scrape("12:01", printed(NEW))
    assert estate.found("series_missing") == estate.found("series_vanished") == []


def eight(estate: ScrapedEstate, at: str, missing: int | None = None, kubelet_says: bool = True) -> None:
    """A round of a node of eight cards of which pod a holds card 0; node and kubelet go on to offer all of them."""
    estate.scrape(at, [line(UTIL, 50, n) for n in range(8) if n != missing], interval_minutes=20)
    said = [kubelet({"a": [card(0)]}, ALL_EIGHT)] if kubelet_says else []
    estate.take(at, listing(node(gpus=8), pod("a")), *said)


FELL_OFF = "[Sun Mar  1 12:30:00 2026] NVRM: Xid (PCI:0000:13:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n"


@pytest.mark.parametrize(
    "offered_by",
    [
        "the node",
        "the node and the kubelet",
    ],
)
def test_row_20_a_lost_card_reduces_capacity_from_that_instant_though_it_is_offered_still(
    tmp_path: Path, offered_by: str
) -> None:
    estate = ScrapedEstate(tmp_path)
    for at, missing in (("12:00", None), ("12:20", None), ("12:40", 3), ("13:00", 3)):
        eight(estate, at, missing, kubelet_says=missing is None or "kubelet" in offered_by)
    estate.take("12:50", FELL_OFF, node="n1")
    note = estate.the("node_lost_cards")
    assert (note.severity, note.subject) == ("error", "node n1")
    assert note.message.startswith("it lost 1 of 8 cards at 2026-03-01T12:30:00Z (fell off the bus)")
    assert estate.evidence("node_lost_cards")["lost"] == card(3)
    before, after = estate.q1("12:20"), estate.q1()
    assert (figure(before, "gpus_free"), figure(before, "gpus_out_of_service")) == (7, 0)
    assert (figure(after, "gpus_free"), figure(after, "gpus_out_of_service")) == (6, 1)
    offered = estate.rows(
        f"SELECT coalesce(sum(amount_gpu_us), 0) FROM ledger.supply WHERE device_uuid = '{card(3)}' AND service <> 'down' AND account <> 'supply'"
    )
    assert offered[0][0] <= 30 * 60_000_000  # nothing of it may be used, sold or accepted after the loss


@pytest.mark.parametrize("stamp", ["", "[    1.234567] ", "[...] "])
def test_row_20_a_loss_that_no_line_dates_is_told_without_an_instant(tmp_path: Path, stamp: str) -> None:
    estate = ScrapedEstate(tmp_path)
    for at, missing in (("12:00", None), ("12:20", None), ("12:40", 3)):
        eight(estate, at, missing)
    estate.take("12:50", stamp + FELL_OFF.partition("] ")[2], node="n1")
    note = estate.the("node_lost_cards")
    assert note.message.startswith("it lost 1 of 8 cards, at a time that no line tells (fell off the bus)")
    assert "2026" not in note.message
    assert estate.evidence("node_lost_cards")["lost_at"] is None
    assert estate.evidence("node_lost_cards")["lost"] == card(3)


def test_row_20_a_card_that_only_stops_being_scraped_is_not_called_lost(tmp_path: Path) -> None:
    estate = ScrapedEstate(tmp_path)
    for at, missing in (("12:00", None), ("12:20", 3), ("12:40", 3), ("13:00", 3), ("13:20", 3)):
        eight(estate, at, missing)
    assert estate.the("cards_not_measured").message.startswith("cards expected 8, measured 7:")
    assert estate.evidence("cards_not_measured")["missing"] == card(3)
    assert estate.found("node_lost_cards") == []
    assert figure(estate.q1(), "gpus_out_of_service") == 0


def test_row_21_cards_that_the_exporter_leaves_out_are_found_against_the_inventory(tmp_path: Path) -> None:
    assets = "serial,uuid,node,owner,model,status\n" + "".join(
        f"90{n},{card(n)},n1,hpc,Tesla V100-SXM2-32GB,in_service\n" for n in range(4)
    )
    estate = ScrapedEstate(tmp_path)
    labels = {"nvidia_com_gpu.count": "4"}
    for at in ("12:00", "13:00"):
        estate.scrape(at, [line(UTIL, 50, n) for n in range(3)])
        estate.take(at, listing(node(gpus=4, **labels)))
    estate.take("13:00", assets)
    note = estate.the("cards_not_measured")
    assert note.message.startswith("cards expected 4, measured 3:")
    assert estate.evidence("cards_not_measured")["check"] == "nvidia-smi -L on n1"
    assert len(estate.found("asset_never_seen")) == 1


def test_row_21_a_node_whose_cards_are_all_measured_is_no_finding(tmp_path: Path) -> None:
    estate = ScrapedEstate(tmp_path)
    for at in ("12:00", "12:20"):
        eight(estate, at)
    assert estate.found("cards_not_measured") == estate.found("telemetry_stale") == []


def test_row_22_profiling_that_reads_0_on_a_busy_card_is_invalid_and_its_job_is_not_idle(tmp_path: Path) -> None:
    estate = ScrapedEstate(tmp_path)
    lines = [line(UTIL, 100), line(GR, 0), line(SM, 0), line(DRAM, 0), line(XID, 31)]
    for at in ("12:00", "12:30", "13:00"):
        estate.scrape(at, lines, interval_minutes=30)
        estate.take(at, listing(node(), pod("a")), kubelet({"a": [card(0)]}))
    columns = "util_gpu_ratio, gr_active_ratio, sm_active_ratio, dram_active_ratio"
    assert estate.rows(f"SELECT DISTINCT {columns} FROM fact.device_sample") == [(1.0, None, None, None)]
    assert (
        "the profiling counters are not used, and nobody is called idle by them" in estate.the("prof_suspect").message
    )
    assert cells(estate.q2(), "pods", "pod", "gpu_hours_used_upper", "gpu_hours_used") == [("a", 1.0, None)]
    assert estate.rows("SELECT DISTINCT code FROM fact.event WHERE kind = 'xid_last_seen'") == [(31,)]


def churn(count: int) -> str:
    return "".join(
        f"[Sun Mar  1 12:{n // 60:02d}:{n % 60:02d} 2026] NVRM: Xid (PCI:0000:10:00): 45, pid={1000 + n}, name=python3, Ch 0000000{n % 8}\n"
        for n in range(count)
    )


@pytest.mark.parametrize("stalled", [True, False], ids=["DCGM stalled", "DCGM goes on"])
def test_row_33_xid_45_of_job_churn_is_counted_apart_and_a_stalled_dcgm_is_a_symptom(
    tmp_path: Path, stalled: bool
) -> None:
    estate = ScrapedEstate(tmp_path)
    for minute in range(0, 60, 5):
        if minute <= 10 or not stalled:
            estate.scrape(f"12:{minute:02d}", [line(UTIL, 50), line(UTIL, 50, 1)], interval_minutes=5)
    for at in ("12:00", "12:55"):
        estate.take(at, listing(node(gpus=2), pod("a")), kubelet({"a": [card(0)]}, ALL_EIGHT[:2]))
    estate.take("12:30", churn(1176), node="n1")
    note = estate.the("xid_45_counted_apart")
    assert (note.severity, note.subject) == ("info", "node n1")
    assert note.message.startswith("1176 Xid 45: channels that were torn down because a process ended")
    assert estate.found("node_lost_cards") == []
    assert figure(estate.q1(), "gpus_out_of_service") == 0
    if not stalled:
        assert estate.found("telemetry_stale") == []
        return
    stale = estate.the("telemetry_stale")
    assert (stale.severity, stale.subject) == ("warning", "node n1")
    assert stale.message.startswith("no sample of its 2 cards since 2026-03-01T12:10:00Z")
    told = estate.evidence("telemetry_stale")
    assert (told["expected"], told["found"]) == (2, 0)
    used = cells(estate.q2(), "pods", "pod", "gpu_hours_used_upper", "gpu_hours_granted")
    assert used == [("a", pytest.approx(0.5 * 10 / 60), pytest.approx(55 / 60))]  # ten minutes were seen, no more
