"""The small story with over-use: who takes too much of what, with the curves that were seen; every number can be checked by hand."""

from __future__ import annotations

from typing import Any

from steelyard.primitives.instant import MINUTE_US, SECOND_US
from tests.answers.estate import Estate, at, small_story

FIRST, SECOND = "GPU-aaaaaaaa-0000", "GPU-aaaaaaaa-0001"


def episode(estate: Estate, pod: str, rule: str, start: str, end: str | None, **more: Any) -> None:
    """One row of ``ledger.over_use``; shown to 12:00 where it has no end."""
    row: dict[str, Any] = {
        "cluster": "default", "pod_uid": f"uid-{pod}", "device_uuid": FIRST, "rule": rule, "severity": "hard", "hard_reason": "bypass",
        "started_at": at(start), "ended_at": None if end is None else at(end), "known_to_at": at(end or "12:00"), "samples_count": 30,
        "interval_us": MINUTE_US, "basis": "process", "evidence_grade": "process_in_cgroup",
    }  # fmt: skip
    estate.insert("ledger.over_use", **{**row, "excess_least_gpu_us": more.get("excess_gpu_us"), **more})


def excess(
    estate: Estate,
    pod: str,
    rule: str,
    start: str,
    end: str,
    gpu_seconds: int | None,
    curve: str = "",
    device: str = FIRST,
) -> None:
    """One row of ``ledger.excess``, within one hour."""
    estate.insert(
        "ledger.excess", cluster="default", pod_uid=f"uid-{pod}", device_uuid=device, rule=rule, grain_at=at(start[:3] + "00"), started_at=at(start),
        shown_to_at=at(end), continues=False, is_last=False, basis="process", samples_count=30, curve=curve,
        excess_gpu_us=None if gpu_seconds is None else gpu_seconds * SECOND_US, excess_least_gpu_us=(gpu_seconds or 0) * SECOND_US,
    )  # fmt: skip


def overuse_story() -> Estate:
    """infer took 1,000 MiB too much from 09:00 to 10:30 (450 GPU-s), and a little for two minutes at 11:00; team-c's stray runs on the second card
    without a grant since 11:00 (900 GPU-s); team-c's open has all cards open to it."""
    estate = small_story()
    for name in ("stray", "open"):
        estate.pod(f"team-c/{name}", gpus=0)
    amounts = {
        "granted_mib": 4_000,
        "peak_mib": 5_000,
        "excess_mib_us": 1_000 * 90 * MINUTE_US,
        "excess_gpu_us": 450 * SECOND_US,
    }
    episode(estate, "infer", "memory", "09:00", "10:30", hard_reason="lasting", **amounts)
    excess(estate, "infer", "memory", "09:00", "10:00", 300, "0:5000,60:4900")
    excess(estate, "infer", "memory", "10:00", "10:30", 150, "0:4950")
    soft = {
        "granted_mib": 4_000,
        "peak_mib": 4_700,
        "excess_mib_us": 700 * 2 * MINUTE_US,
        "excess_gpu_us": 6 * SECOND_US,
    }
    episode(estate, "infer", "memory", "11:00", "11:02", severity="soft", hard_reason=None, samples_count=2, **soft)
    excess(estate, "infer", "memory", "11:00", "11:02", 6, "0:4700,60:4650")
    episode(
        estate, "stray", "no_grant", "11:00", None, device_uuid=SECOND, peak_mib=4_000, excess_gpu_us=900 * SECOND_US
    )
    excess(estate, "stray", "no_grant", "11:00", "12:00", 900, "0:4000", SECOND)
    episode(
        estate, "open", "exposed", "09:00", None, device_uuid=None, severity="exposed", hard_reason=None, samples_count=0, interval_us=None,
        basis="visible_all", evidence_grade="written_in_pod",
    )  # fmt: skip
    return estate
