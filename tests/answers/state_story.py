"""The small story with the states of its cards, booked so that they add up to its supply; every number can be checked by hand."""

from __future__ import annotations

from steelyard.primitives.instant import HOUR_US
from tests.answers.estate import Estate, at, small_story

FIRST, SECOND = "GPU-aaaaaaaa-0000", "GPU-aaaaaaaa-0001"


def state(
    estate: Estate, hour: str, device: str, name: str, hours: float, pod: str | None = None, cause: str | None = None,
    basis: str = "triple",
) -> None:  # fmt: skip
    """One posting: ``hours`` GPU-hours of a card in the hour that begins then."""
    estate.insert(
        "ledger.gpu_state", cluster="default", place_kind="device", place_id=device, node="node-a", device_uuid=device, grain_at=at(hour),
        pod_uid=None if pod is None else f"uid-{pod}", state=name, cause=cause,
        basis=basis if name.startswith(("held_", "compute", "memory", "busy", "mixed", "saturated", "suspected")) else "occupancy",
        amount_gpu_us=round(hours * HOUR_US),
    )  # fmt: skip


def state_story() -> Estate:
    """infer (a quarter of the first card) is bound by memory, the notebook (half of it, 09:00 to 11:30) idles since 10:00, train (the second card,
    08:30 to 11:00) works, hangs, and is not measured; a request for two cards waits for quota from 09:00 to the end."""
    estate = small_story()
    estate.demand("team-b/waiting", gpus=2)
    estate.wait("team-b/waiting", "09:00", None, gpus=2)
    for hour in ("08:00", "09:00", "10:00", "11:00"):
        state(estate, hour, FIRST, "memory_bound", 0.25, "infer", basis="card")
    state(estate, "08:00", FIRST, "free_no_demand", 0.75)
    state(estate, "09:00", FIRST, "held_low", 0.5, "notebook", "interactive", "card")
    state(estate, "10:00", FIRST, "held_idle", 0.5, "notebook", "interactive", "card")
    state(estate, "11:00", FIRST, "held_idle", 0.25, "notebook", "interactive", "card")
    for hour in ("09:00", "10:00"):
        state(estate, hour, FIRST, "free_waiting", 0.25, cause="quota")
    state(estate, "11:00", FIRST, "free_waiting", 0.5, cause="quota")
    state(estate, "08:00", SECOND, "compute_bound", 0.5, "train")
    state(estate, "08:00", SECOND, "free_no_demand", 0.5)
    state(estate, "09:00", SECOND, "suspected_hang", 1.0, "train")
    state(estate, "10:00", SECOND, "held_unknown", 1.0, "train", "1002", "triple+203")
    state(estate, "11:00", SECOND, "free_waiting", 1.0, cause="quota")
    return estate
