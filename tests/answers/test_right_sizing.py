"""Granted against needed, over holdings and usage that can be checked by hand."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest

from steelyard.answers.contract import Answer, Value
from steelyard.answers.right_sizing import RightSizingSpec, answer
from steelyard.definitions.mig import smallest_profile
from steelyard.primitives.errors import UsageError
from steelyard.primitives.instant import HOUR_US, Window
from steelyard.primitives.unknown import Unknown
from tests.answers.estate import Estate, at

WINDOW = Window(at("08:00"), at("12:00"))


def estate_of(
    p99: tuple[int, ...] = (4_000, 5_000, 5_000, 4_500),
    *,
    observed: int = HOUR_US,
    path: str = "exclusive",
    **granted: Any,
) -> Estate:
    """One pod with 16,000 MiB and 40 % for four hours, and what it used in each."""
    estate = Estate()
    estate.listing(at("08:00"), observed_from_at=at("08:00"), observed_to_at=at("12:00"))
    estate.card("GPU-a", "n1", valid_to_at=None, memory_mib=81_920, model="NVIDIA A100-SXM4-80GB")
    estate.pod("team-a/p")
    estate.hold(
        "team-a/p",
        "GPU-a",
        "08:00",
        "12:00",
        **{"share_ppm": 400_000, "memory_mib": 16_000, "cores_percent": 40, **granted},
    )
    for hour, amount in enumerate(p99):
        estate.insert(
            "ledger.usage", cluster="default", device_uuid="GPU-a", grain_at=at("08:00") + hour * HOUR_US, pod_uid="uid-p", path=path,
            memory_p99_mib=amount, memory_peak_mib=amount + 100, observed_us=observed, samples_count=60,
            used_gpu_us=HOUR_US // 5, used_observed_us=HOUR_US,
        )  # fmt: skip
    return estate


def row_of(result: Answer) -> dict[str, Value]:
    table = result.tables[0]
    (row,) = table.rows
    return dict(zip((column.name for column in table.columns), row, strict=True))


def told(estate: Estate, **spec: Any) -> dict[str, Value]:
    return row_of(answer(estate.store, RightSizingSpec(WINDOW, **spec)))


def test_the_largest_p99_of_an_hour_and_a_fifth_is_recommended() -> None:
    row = told(estate_of())
    assert (row["memory_p99_mib"], row["memory_peak_mib"], row["memory_recommended_mib"]) == (5_000, 5_100, 6_000)
    assert (row["compute_peak_percent"], row["cores_recommended_percent"]) == (20, 24)
    assert (row["verdict"], row["path"], row["coverage_ratio"]) == ("shrink", "exclusive", 1.0)


def test_the_patch_is_a_command_that_a_shell_reads_and_names_the_resources_of_its_layer() -> None:
    words = shlex.split(str(told(estate_of())["patch"]))
    assert words[:6] == ["kubectl", "patch", "deployment", "p", "-n", "team-a"]
    (container,) = json.loads(words[-1])["spec"]["template"]["spec"]["containers"]
    assert container == {
        "name": "main",
        "resources": {"limits": {"nvidia.com/gpumem": "6000", "nvidia.com/gpucores": "24"}},
    }


def test_nothing_below_the_largest_sample_is_recommended() -> None:
    estate = estate_of((1_000,) * 4)
    estate.store.execute("UPDATE ledger.usage SET memory_peak_mib = 9000 WHERE epoch_us(grain_at) = ?", [at("10:00")])
    assert told(estate)["memory_recommended_mib"] == 9_000


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"observed": HOUR_US * 94 // 100}, "less than 95"),
        ({"path": "residual"}, "no path"),
        ({"path": "split_by_grant"}, "no path"),
        ({"p99": ()}, "no path"),
        ({"p99": (5_000, 5_000, 5_000)}, "less than 95"),
    ],
)
def test_what_was_not_seen_enough_is_unknown_with_the_reason(change: dict[str, Any], part: str) -> None:
    row = told(estate_of(**change))
    assert row["verdict"] == "unknown"
    wanted = row["memory_recommended_mib"]
    assert isinstance(wanted, Unknown) and part in wanted.reason
    assert isinstance(row["patch"], Unknown)


def test_a_grant_that_is_too_small_is_said_to_grow() -> None:
    assert told(estate_of((15_000,) * 4))["verdict"] == "grow"


def test_several_containers_of_a_pod_get_no_patch() -> None:
    row = told(estate_of(containers="a,b"))
    assert row["memory_recommended_mib"] == 6_000
    assert isinstance(row["patch"], Unknown)


def test_a_whole_card_is_told_what_would_do_and_gets_no_limit() -> None:
    row = told(estate_of(scheme="device_plugin", unit_kind="gpu", memory_mib=None, share_ppm=1_000_000))
    assert row["memory_granted_mib"] == 81_920
    assert isinstance(row["patch"], Unknown) and "6000 MiB" in row["patch"].reason


def test_an_instance_is_rounded_up_to_a_profile_of_its_card() -> None:
    row = told(estate_of(scheme="mig_plugin", unit_kind="mig", profile="3g.40gb", memory_mib=40_192, path="mig"))
    assert row["verdict"] == "keep"  # no smaller profile has three compute slices
    row = told(
        estate_of((50_000,) * 4, scheme="mig_plugin", unit_kind="mig", profile="3g.40gb", memory_mib=40_192, path="mig")
    )
    assert '"nvidia.com/mig-7g.80gb": "1"' in str(row["patch"])


def test_the_smallest_profile_has_the_memory_and_the_compute() -> None:
    assert smallest_profile(8_000, 1, "NVIDIA A100-SXM4-80GB", 81_920) == ("1g.10gb", 8_704)
    assert smallest_profile(9_000, 1, "NVIDIA A100-SXM4-80GB", 81_920) == ("1g.20gb", 17_408)
    assert smallest_profile(9_000, 2, "NVIDIA A100-SXM4-80GB", 81_920) == ("2g.20gb", 17_408)
    assert isinstance(smallest_profile(90_000, 1, "NVIDIA A100-SXM4-80GB", 81_920), Unknown)
    assert isinstance(smallest_profile(1, 1, "Tesla T4", 15_360), Unknown)


def test_a_tenant_sees_its_own_workloads_alone() -> None:
    estate = estate_of()
    assert answer(estate.store, RightSizingSpec(WINDOW, tenant="team-b")).tables[0].rows == []
    assert told(estate, tenant="team-a")["namespace"] == "team-a"
    assert answer(estate.store, RightSizingSpec(WINDOW, tenant="team-a", explain=True)).explain == {}


def test_names_cannot_break_out_of_the_command() -> None:
    estate = estate_of(containers="main'; rm -rf /")
    estate.store.execute("UPDATE dim.pod SET workload_name = ?", ["x'; reboot #"])
    words = shlex.split(str(told(estate)["patch"]))
    assert words[3] == "x'; reboot #"
    assert json.loads(words[-1])["spec"]["template"]["spec"]["containers"][0]["name"] == "main'; rm -rf /"


def test_a_window_outside_the_known_time_is_refused() -> None:
    with pytest.raises(UsageError):
        answer(estate_of().store, RightSizingSpec(Window(at("2020-01-01T00:00:00Z"), at("2020-01-02T00:00:00Z"))))
