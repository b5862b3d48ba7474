"""The simulated estate, read back: holdings, grants, use and the books against the truth, by arithmetic."""

from __future__ import annotations

from collections import Counter, defaultdict

from steelyard.simulation.arithmetic import (
    ExpectedUse,
    device_use,
    exclusive_use,
    expected_holdings,
    held_gpu_us,
    memory_used_mib,
    mig_use,
    sightings,
)
from steelyard.simulation.truth import HAMI
from tests.scenarios.demo.demo_run import Demo, post

HOLDING = """
SELECT pod_uid, coalesce(device_uuid, ''), coalesce(unit_id, ''), occupancy, node, quantity, share_ppm,
  epoch_us(started_at), epoch_us(ended_at), epoch_us(ended_before_at)
FROM ledger.holding
"""


def test_every_file_is_read_and_none_refused(demo: Demo):
    assert {file.status for file in demo.report.files} == {"imported"}
    assert sum(file.refused_count for file in demo.report.files) == 0


def test_holdings_equal_the_truth_as_far_as_its_sources_show_it(demo: Demo):
    expected = expected_holdings(demo.truth)
    found = Counter(tuple(row) for row in demo.store.rows(HOLDING))
    wanted = Counter(
        (
            row.pod_uid, row.device_uuid, row.unit_id, row.occupancy, row.node, row.quantity, row.share_ppm,
            row.started_at, row.ended_at, row.ended_before_at,
        )
        for row in expected
    )  # fmt: skip
    assert found - wanted == Counter()
    assert wanted - found == Counter()
    assert {row.occupancy for row in expected} == {"held", "reserved"}
    assert any(row.ended_at is None for row in expected)
    assert any(row.ended_before_at is not None for row in expected)
    assert any(row.device_uuid == "" for row in expected)


def test_grants_of_hami_equal_what_was_granted(demo: Demo):
    found = {
        (row[0], row[1]): (row[2], row[3])
        for row in demo.store.rows(
            "SELECT DISTINCT pod_uid, device_uuid, memory_mib, cores_percent FROM fact.grant WHERE scheme = 'hami'"
        )
    }
    assert found == {
        (pod.uid, grant.device_uuid): (grant.memory_mib, grant.cores_percent)
        for pod in demo.truth.pods
        for grant in pod.grants
        if pod.kind == HAMI and any(at >= (pod.filtered_at or 0) for at in sightings(demo.truth, pod))
    }


def test_a_pod_that_never_ran_or_was_refused_holds_nothing(demo: Demo):
    idle = {pod.uid for pod in demo.truth.pods if pod.fate in ("never_scheduled", "rejected")}
    assert {pod.fate for pod in demo.truth.pods} >= {"never_scheduled", "rejected", "reserved", "node_lost"}
    assert not idle & {row[0] for row in demo.store.rows("SELECT pod_uid FROM ledger.holding")}


def test_use_of_a_card_equals_the_truth_on_the_sample_grid(demo: Demo):
    found: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for uuid, at, used in demo.store.rows(
        "SELECT device_uuid, epoch_us(occurred_at) AS at, memory_used_mib FROM fact.device_sample "
        "WHERE gi IS NULL AND memory_used_mib IS NOT NULL GROUP BY ALL ORDER BY ALL"
    ):
        found[uuid].append((at, used))
    wanted = {uuid: samples for uuid, samples in memory_used_mib(demo.truth).items() if samples}
    reports = set(demo.truth.samples)
    assert {uuid: [sample for sample in samples if sample[0] in reports] for uuid, samples in found.items()} == wanted


def used(demo: Demo, path: str) -> dict[tuple[object, ...], ExpectedUse]:
    """Pod (empty: none), card and instance -> what the usage ledger says of them on a path."""
    rows = demo.store.rows(
        "SELECT coalesce(pod_uid, ''), device_uuid, gi, coalesce(sum(memory_mib_us), 0)::BIGINT, max(memory_peak_mib) "
        "FROM ledger.usage WHERE path = ? GROUP BY ALL",
        [path],
    )
    return {tuple(row[:3]): ExpectedUse(row[3], row[4]) for row in rows}


def test_use_of_every_card_equals_the_truth_reduced_on_the_grid(demo: Demo):
    found = used(demo, "device")
    assert found == {("", uuid, None): use for uuid, use in device_use(demo.truth).items()}
    assert sum(use.memory_mib_us for use in found.values()) > 0


def test_use_of_a_card_with_one_holder_is_that_holders(demo: Demo):
    found = used(demo, "exclusive")
    assert found == {(pod, uuid, None): use for (pod, uuid), use in exclusive_use(demo.truth).items()}
    assert len(found) > 40


def test_use_of_a_mig_instance_is_its_holders(demo: Demo):
    found = used(demo, "mig")
    assert found == mig_use(demo.truth)
    assert sum(use.memory_mib_us for use in found.values()) > 0


def test_the_books_close_to_the_microsecond(demo: Demo):
    residual = demo.store.rows(
        "SELECT place_kind, place_id, grain_at, sum(CASE account WHEN 'supply' THEN amount_gpu_us WHEN 'overcommitted' THEN 0 "
        "ELSE -amount_gpu_us END) AS residual FROM ledger.supply GROUP BY ALL HAVING residual <> 0"
    )
    assert residual == []


def test_held_and_reserved_time_of_every_card_equals_the_truth(demo: Demo):
    found: Counter[tuple[str, str]] = Counter()
    for place, account, amount in demo.store.rows(
        "SELECT CASE place_kind WHEN 'device' THEN place_id ELSE 'node/' || place_id END, account, sum(amount_gpu_us)::BIGINT "
        "FROM ledger.supply WHERE account IN ('held', 'reserved', 'held_unplaced') OR (account = 'overcommitted' AND place_kind = 'node') "
        "GROUP BY ALL"
    ):
        found[place, "reserved" if account == "reserved" else "held"] += amount
    truth = held_gpu_us(demo.truth)
    cards = {key: amount for key, amount in truth.items() if not key[0].startswith("node/")}
    assert {key: amount for key, amount in found.items() if not key[0].startswith("node/")} == cards
    # On unknown cards: what they held and what was more than the node's cards had left, each rounded down.
    assert found.keys() == truth.keys()
    assert all(0 <= truth[key] - found[key] < 1_000 for key in truth.keys() - cards.keys())
    overcommitted = "SELECT count(*) FROM ledger.supply WHERE account = 'overcommitted'"
    assert demo.store.rows(overcommitted)[0][0] > 0


def test_a_lost_card_is_out_of_service_and_never_free(demo: Demo):
    (event,) = [event for event in demo.truth.happenings if event.kind == "gpu_lost"]
    accounts = {
        (row[0], row[1]): row[2]
        for row in demo.store.rows(
            "SELECT account, service, sum(amount_gpu_us)::BIGINT FROM ledger.supply WHERE device_uuid = ? "
            "AND grain_at > make_timestamp(?::BIGINT) GROUP BY ALL",
            [event.device_uuid, event.at],
        )
    }
    assert accounts.keys() == {("supply", None), ("free", "down")}


def test_posting_again_changes_nothing(demo: Demo):
    assert post(demo.store) == 0
