"""One instant for the files of one snapshot; an instant of its own for each of several snapshots."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from steelyard.app.demo_mark import FOLDER, MARK
from steelyard.primitives.errors import UsageError
from steelyard.primitives.instant import DAY_US, HOUR_US, Instant, format_instant, parse_instant
from steelyard.store import Store
from tests.app.import_samples import WRITTEN, codes, import_files, listing, node, pod, rows, write

NOON = parse_instant("2026-03-01T12:00:00Z")
DATED = "SELECT import_file.path, epoch_us(occurred_at) FROM fact.import_file ORDER BY ALL"


def started(name: str, at: Instant) -> dict[str, Any]:
    found = pod(name)
    found["status"]["containerStatuses"][0]["state"]["running"]["startedAt"] = format_instant(at)
    return found


def test_each_complete_listing_of_a_folder_of_daily_dumps_is_dated_by_its_own_latest_stamp(tmp_path: Path) -> None:
    folder = tmp_path / "daily"
    write(folder / "mon.json", listing(started("old", NOON)))
    write(folder / "tue.json", listing(started("new", NOON + HOUR_US)))
    write(folder / "nodes.json", listing(node()))
    report = import_files(tmp_path / "d", folder)
    assert report.as_of == NOON + HOUR_US
    assert rows(tmp_path / "d", DATED)[1:] == [
        ("nodes.json", NOON + HOUR_US),
        ("tue.json", NOON + HOUR_US),
    ]
    assert rows(tmp_path / "d", DATED)[0] == ("mon.json", NOON + 30_000_000)
    assert "listings_disagree" not in codes(tmp_path / "d")


def test_files_of_one_snapshot_take_one_instant(tmp_path: Path) -> None:
    write(tmp_path / "in/a.json", listing(started("a", NOON + HOUR_US // 2)))
    write(tmp_path / "in/nodes.json", listing(node()))
    other = started("b", NOON + HOUR_US)
    other["metadata"]["namespace"] = "team-b"
    write(tmp_path / "in/b.json", listing(other))
    import_files(tmp_path / "d", tmp_path / "in")
    assert {at for _path, at in rows(tmp_path / "d", DATED)} == {NOON + HOUR_US}


def test_two_listings_with_other_pods_at_one_instant_are_a_finding(tmp_path: Path) -> None:
    files = [write(tmp_path / f"{name}.json", listing(pod(name))) for name in ("a", "b")]
    report = import_files(tmp_path / "d", *files, as_of=NOON)
    assert report.findings_by_code["listings_disagree"] == 1


def test_the_same_listing_twice_is_no_disagreement(tmp_path: Path) -> None:
    files = [write(tmp_path / f"{name}.json", listing(pod("a"), pod("b"))) for name in ("x", "y")]
    files.append(write(tmp_path / "z.json", listing(pod("b"), pod("a"))))
    assert "listings_disagree" not in import_files(tmp_path / "d", *files).findings_by_code


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ({"as_of": WRITTEN + 2 * DAY_US}, "--as-of: 2026-03-03T13:00:00Z is more than a day"),
        ({"as_of": parse_instant("9999-12-31T00:00:00Z")}, "--as-of"),
        ({"expected_interval_us": 999_999_999_999 * DAY_US}, "--expected-interval: .* at most 366 days"),
        ({"expected_interval_us": 0}, "--expected-interval"),
    ],
)
def test_an_instant_or_interval_that_nobody_can_mean_is_refused_before_anything_is_stored(
    tmp_path: Path, request_: dict[str, int], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        import_files(tmp_path / "d", write(tmp_path / "x.json", listing(pod("a"))), **request_)
    assert not (tmp_path / "d").exists()


def test_an_instant_within_a_day_of_the_clock_is_taken(tmp_path: Path) -> None:
    report = import_files(tmp_path / "d", write(tmp_path / "x.json", listing(pod("a"))), as_of=WRITTEN + DAY_US)
    assert report.files[0].status == "imported"


def test_real_files_are_refused_in_the_directory_of_a_demo(tmp_path: Path) -> None:
    write(tmp_path / "d" / FOLDER / MARK, "{}")
    with pytest.raises(UsageError, match="holds a simulated estate") as caught:
        import_files(tmp_path / "d", write(tmp_path / "x.json", listing(pod("a"))))
    assert "\n" not in str(caught.value)


def test_many_small_files_in_one_transaction_end_as_each_in_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(12):
        write(tmp_path / f"in/{number:02}.json", pod(f"p{number % 5}", uid=f"u{number % 5}"))
    write(tmp_path / "in/bad.json", "{")
    together = import_files(tmp_path / "together", tmp_path / "in")
    monkeypatch.setattr("steelyard.app.importer.FILES_AT_ONCE", 1)
    singly = import_files(tmp_path / "singly", tmp_path / "in")
    assert together.files == singly.files
    assert sum(file.new_count == 0 for file in together.files) == 7
    for table in ("request", "container", "import_file", "finding", "source_status", "owner"):
        stored = []
        for name in ("together", "singly"):
            with Store.open(tmp_path / name, read_only=True) as store:
                stored.append(store.rows(f"SELECT * FROM fact.{table} ORDER BY ALL"))
        assert stored[0] == stored[1], table


def test_many_small_files_need_few_transactions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(30):
        write(tmp_path / f"in/{number}.json", pod(f"p{number}"))
    begun: list[str] = []
    run = Store._run

    def counted(self: Store, sql: str, parameters: Any) -> Any:
        begun.extend([sql] if sql == "BEGIN" else [])
        return run(self, sql, parameters)

    monkeypatch.setattr(Store, "_run", counted)
    import_files(tmp_path / "d", tmp_path / "in")
    assert len(begun) == 2


def test_a_file_that_a_clock_far_ahead_wrote_dates_nothing_and_its_stamps_are_named(tmp_path: Path) -> None:
    far = parse_instant("2038-01-19T00:00:00Z")
    file = write(tmp_path / "a.json", listing(started("a", far), node()), written=far)
    report = import_files(tmp_path / "d", file)
    assert report.as_of is not None
    assert report.as_of < far - 365 * DAY_US
    assert "stamp_in_future" in report.findings_by_code
