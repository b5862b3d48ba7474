"""Rules of over-use by hand: each threshold from both sides, what ends an episode, and what is no over-use."""

from __future__ import annotations

from typing import Any

import pytest

from steelyard.definitions.over_use import OverUseThresholds
from steelyard.facts.base import Fact
from steelyard.ledgers.posting import PostingParameters, post_ledgers
from steelyard.primitives.clock import FixedClock
from steelyard.primitives.instant import HOUR_US, MINUTE_US
from steelyard.store import Store
from tests.ledgers.facts_of import CARD, at, card, grant, listing, pod, vgpu
from tests.ledgers.over_use_facts import (
    CARD_MIB,
    END,
    GRANTED_MIB,
    LEDGERS,
    TOLERATED_MIB,
    board,
    counted,
    daemon,
    episodes,
    estate,
    process,
    stranger,
    words,
)

OVER = TOLERATED_MIB + 1
FORCED = {"core_policy": "force"}


def steady(first: int, after: int, mib: int = OVER, make: Any = process, **more: Any) -> list[Fact]:
    """A sample a minute above the tolerance, and one at ``after`` that is not."""
    return [*(make(minute, mib, **more) for minute in range(first, after)), make(after, 100, **more)]


@pytest.mark.parametrize(("mib", "found"), [(TOLERATED_MIB, 0), (TOLERATED_MIB + 1, 1)])
def test_memory_is_exceeded_beyond_600_mib(mib: int, found: int) -> None:
    assert len(words(estate(steady(10, 20, mib)))) == found


@pytest.mark.parametrize(("mib", "found"), [(21_000, 0), (21_001, 1)])
def test_of_a_large_grant_five_percent_are_tolerated(mib: int, found: int) -> None:
    facts = [*estate(end=END), *stranger()]
    facts = [fact for fact in facts if fact.natural_key.startswith(("pods", "n1", "GPU"))]
    for minute in (5, END):
        facts += [pod(minute, "big", scheduled_at=0, gpu_count=1), vgpu(minute, "big", memory=20_000, bound_at=0)]
    assert len(words([*facts, *steady(10, 20, mib, uid="big")])) == found


@pytest.mark.parametrize(("mib", "found"), [(GRANTED_MIB + 1_200, 0), (GRANTED_MIB + 1_202, 1)])
def test_each_process_may_have_600_mib_more(mib: int, found: int) -> None:
    both = [process(minute, mib // 2, pid=pid) for minute in range(10, 20) for pid in (7, 8)]
    assert len(words(estate(both))) == found


@pytest.mark.parametrize(("after", "severity"), [(24, "soft"), (25, "hard")])
def test_fifteen_minutes_make_it_hard(after: int, severity: str) -> None:
    [row] = episodes(estate(steady(10, after)))
    assert (row["severity"], row["start"], row["stop"]) == (severity, 10, after)
    assert row["hard_reason"] == ("lasting" if severity == "hard" else None)


def test_an_episode_says_by_how_much_and_on_what_ground() -> None:
    [row] = episodes(estate(steady(10, 30, 12_288)))
    assert (row["granted_mib"], row["peak_mib"], row["samples_count"], row["interval_us"]) == (
        8_192,
        12_288,
        20,
        MINUTE_US,
    )
    assert (row["basis"], row["evidence_grade"]) == ("process", "process_in_cgroup")
    assert row["excess_mib_us"] == 4_096 * 20 * MINUTE_US
    assert row["excess_gpu_us"] == 20 * MINUTE_US // 10


def test_an_episode_goes_on_over_the_hour_without_a_seam() -> None:
    [row] = episodes(estate(steady(50, 130)))
    assert (row["start"], row["stop"], row["samples_count"]) == (50, 130, 80)


def test_an_episode_that_goes_on_is_open_and_ends_when_nobody_looks_for_15_minutes() -> None:
    open_one = [process(minute, OVER) for minute in range(END - 30, END + 1)]
    [row] = episodes(estate(open_one))
    assert (row["stop"], row["severity"]) == (None, "hard")
    [row] = episodes(estate(open_one, listing(END + 15, source="dcgm", kind="dcgm", complete=False)))
    assert row["stop"] == END


@pytest.mark.parametrize(("third", "severities"), [(39, ["soft", "soft", "hard"]), (None, ["soft", "soft"])])
def test_the_third_soft_episode_in_a_day_is_hard(third: int | None, severities: list[str]) -> None:
    facts = [*steady(10, 12), *steady(20, 22), *(steady(third, third + 2) if third else [])]
    found = words(estate(facts))
    assert [row[2] for row in found] == severities
    assert [row[3] for row in found][2:] == ["repeated"] * bool(third)


@pytest.mark.parametrize(("third", "severity"), [(10 + 1_439, "hard"), (10 + 1_440, "soft")])
def test_soft_episodes_repeat_within_24_hours(third: int, severity: str) -> None:
    facts = [*steady(10, 12), *steady(20, 22), *steady(third, third + 2)]
    assert words(estate(facts, end=2_000))[-1][2] == severity


@pytest.mark.parametrize(("gpu_us", "severity"), [(2 * MINUTE_US, "hard"), (2 * MINUTE_US + 1, "soft")])
def test_so_much_excess_in_a_week_is_hard(gpu_us: int, severity: str) -> None:
    limits = PostingParameters(over_use=OverUseThresholds(weekly_gpu_us=gpu_us, repeated_count=100))
    facts = estate(steady(10, 20, GRANTED_MIB + CARD_MIB // 10), steady(60, 70, GRANTED_MIB + CARD_MIB // 10))
    assert [row[2:] for row in words(facts, limits)] == [
        ("soft", None),
        (severity, "weekly_excess" if severity == "hard" else None),
    ]


def test_excess_of_more_than_a_week_ago_counts_no_more() -> None:
    limits = PostingParameters(over_use=OverUseThresholds(weekly_gpu_us=2 * MINUTE_US, repeated_count=100))
    week = 7 * 24 * 60
    for later, severity in ((10 + week - 1, "hard"), (10 + week, "soft")):
        facts = [
            *steady(10, 20, GRANTED_MIB + CARD_MIB // 10),
            *steady(later, later + 10, GRANTED_MIB + CARD_MIB // 10),
        ]
        assert words(estate(facts, end=12_000), limits)[-1][2] == severity


@pytest.mark.parametrize(("gap", "found"), [(14, ("hard", 84)), (15, ("soft", 0))])
def test_samples_15_minutes_apart_show_no_length(gap: int, found: tuple[str, float]) -> None:
    rows = episodes(estate([process(10 + gap * number, OVER) for number in range(7)], end=END))
    assert (rows[0]["severity"], rows[0]["length"]) == found
    assert rows[0]["interval_us"] == gap * MINUTE_US
    if gap == 15:
        assert len(rows) == 7 and {row["severity"] for row in rows} == {"soft"}, "sparse samples repeat for nothing"


def test_an_hourly_mean_is_soft_at_most() -> None:
    rows = episodes(estate([board(-1, 0), board(10, OVER, interval_us=HOUR_US), board(70, OVER, interval_us=HOUR_US)]))
    assert [(row["severity"], row["excess_gpu_us"]) for row in rows] == [("soft", 0), ("soft", 0)]


@pytest.mark.parametrize(
    ("ratio", "policy", "found"),
    [(0.45, "force", 0), (0.4501, "force", 1), (0.9, "default", 0), (0.9, None, 0), (0.9, "disable", 0)],
)
def test_cores_are_exceeded_by_15_points_and_only_where_they_are_forced(
    ratio: float, policy: str | None, found: int
) -> None:
    samples = [process(minute, 100, sm_ratio=ratio) for minute in range(10, 30)]
    assert len(words(estate(samples, core_policy=policy))) == found


def test_a_site_that_forces_cores_forces_them_whatever_the_pod_says() -> None:
    limits = PostingParameters(over_use=OverUseThresholds(cores_forced=True))
    samples = [process(minute, 100, sm_ratio=0.9) for minute in range(10, 30)]
    [row] = episodes(estate(samples, core_policy="disable"), limits)
    assert (row["rule"], row["severity"], row["granted_percent"], row["peak_percent"]) == ("compute", "hard", 30, 90)
    assert row["excess_gpu_us"] == 600_000 * 20 * MINUTE_US // 1_000_000


def test_cores_are_judged_by_the_mean_of_a_minute() -> None:
    spikes = [process(10 + half / 2, 100, sm_ratio=0.8 if half % 2 else 0.09) for half in range(40)]
    assert words(estate(spikes, **FORCED)) == []
    assert len(words(estate([process(10 + half / 2, 100, sm_ratio=0.8) for half in range(40)], **FORCED))) == 1


def test_a_process_of_a_pod_that_asked_for_nothing_is_a_bypass_from_its_first_sample() -> None:
    [row] = episodes(estate(stranger(), [process(minute, 4_096, "s1") for minute in range(10, 20)]))
    assert (row["pod_uid"], row["rule"], row["severity"], row["hard_reason"]) == ("s1", "no_grant", "hard", "bypass")
    assert (row["excess_gpu_us"], row["length"]) == (9 * MINUTE_US // 10, 9)
    [row] = episodes(estate(stranger(), process(10, 4_096, "s1")))
    assert (row["severity"], row["length"], row["interval_us"]) == ("hard", 0, None)


def test_a_bypass_ends_with_the_round_in_which_its_process_is_gone() -> None:
    facts = estate(
        stranger(),
        [process(minute, 100, "s1", pid=9) for minute in (10, 11)],
        [process(minute, 100) for minute in range(10, 20)],
    )
    [row] = episodes(facts)
    assert (row["start"], row["stop"]) == (10, 12)


def test_a_card_that_is_not_its_own_is_outside_its_allocation() -> None:
    assert words(estate([process(minute, 100, device_uuid="GPU-b") for minute in range(10, 20)])) == [
        ("u1", "outside_allocation", "hard", "bypass")
    ]


def test_another_instance_of_the_same_card_is_outside_too() -> None:
    mig = [
        grant(minute, "m1", scheme="mig_plugin", source="pod_resources", device_uuid="GPU-b", unit_kind="mig", unit_id="MIG-1", gi=1,
              profile="1g.5gb", bound_at=0)
        for minute in (5, END)
    ]  # fmt: skip
    facts = estate([pod(minute, "m1", scheduled_at=0, gpu_count=1) for minute in (5, END)], mig)
    assert words([*facts, process(10, 100, "m1", device_uuid="GPU-b", gi=1)]) == []
    assert words([*facts, process(10, 100, "m1", device_uuid="GPU-b", gi=2)]) == [
        ("m1", "outside_allocation", "hard", "bypass")
    ]


def ended(minute: float) -> list[Fact]:
    """``e1`` held half of the other card and ended at minute 60."""
    stamps = {"scheduled_at": 0, "phase": "Succeeded", "last_container_end_at": 60}
    return [
        pod(5, "e1", scheduled_at=0, gpu_count=1), vgpu(5, "e1", memory=100, bound_at=0), pod(END, "e1", gpu_count=1, **stamps),
        vgpu(END, "e1", memory=100, bound_at=0), process(minute, 100, "e1"),
    ]  # fmt: skip


@pytest.mark.parametrize(("minute", "found"), [(59, []), (62, []), (62.01, [("e1", "after_end", "hard", "bypass")])])
def test_two_minutes_after_the_end_are_grace(minute: float, found: list[Any]) -> None:
    assert words(estate(ended(minute))) == found


def test_an_annotation_larger_than_the_request_is_tampered_with() -> None:
    def facts(memory: int, cores: int) -> list[Fact]:
        rows: list[Fact] = []
        for minute in (5, END):
            rows += [
                pod(minute, "t1", scheduled_at=0, gpu_count=1),
                vgpu(minute, "t1", memory=memory, cores=cores, requested_memory_mib=2_000, requested_cores_percent=10, bound_at=0),
            ]  # fmt: skip
        return estate(rows)

    assert words(facts(2_000, 10)) == []
    [row] = episodes(facts(30_000, 100))
    assert (row["rule"], row["severity"], row["hard_reason"], row["basis"]) == (
        "tampered_grant",
        "hard",
        "bypass",
        "annotation",
    )
    assert (row["granted_mib"], row["peak_mib"], row["granted_percent"], row["peak_percent"]) == (
        2_000,
        30_000,
        10,
        100,
    )
    assert row["excess_gpu_us"] == 900_000 * END * MINUTE_US // 1_000_000


def test_a_profile_larger_than_the_request_is_legitimate_rounding() -> None:
    rows: list[Fact] = []
    for minute in (5, END):
        rows += [
            pod(minute, "t1", scheduled_at=0, gpu_count=1),
            vgpu(minute, "t1", memory=10_240, cores=42, requested_memory_mib=8_000, requested_cores_percent=10, unit_kind="mig", profile="2g.10gb",
                 unit_id="GPU-a[1-0]", bound_at=0),
        ]  # fmt: skip
    assert words(estate(rows)) == []


@pytest.mark.parametrize(
    ("what", "found"),
    [
        ({"gpu_exposure": "visible_all"}, [("s1", "exposed", "exposed", None)]),
        ({"gpu_exposure": "privileged"}, [("s1", "exposed", "exposed", None)]),
        ({"gpu_exposure": "host_devices"}, [("s1", "exposed", "exposed", None)]),
        ({"gpu_exposure": "shim_off"}, []),
        ({"gpu_exposure": ""}, []),
        ({"gpu_exposure": "visible_all", "node": "n2"}, []),
        ({"gpu_exposure": "visible_all", "namespace": "kube-system"}, []),
    ],
)
def test_cards_that_stand_open_are_a_class_of_their_own(what: dict[str, Any], found: list[Any]) -> None:
    assert words(estate(stranger(**what))) == found


def test_a_layer_that_is_switched_off_exposes_the_pod_that_holds_a_part() -> None:
    [row] = episodes(estate(gpu_exposure="shim_off"))
    assert (row["severity"], row["stop"], row["basis"], row["device_uuid"]) == ("exposed", None, "shim_off", None)


def test_who_is_seen_there_is_accused_and_no_more_exposed() -> None:
    assert words(estate(stranger(gpu_exposure="visible_all"), process(10, 100, "s1"))) == [
        ("s1", "no_grant", "hard", "bypass")
    ]


@pytest.mark.parametrize(
    "name",
    [
        "nvidia-cuda-mps-server",
        "/usr/bin/nv-hostengine -n",
        "/usr/bin/dcgm-exporter",
        "nvidia-persistenced",
        "nvidia-device-plugin",
    ],
)
def test_what_looks_after_cards_is_no_bypass(name: str) -> None:
    runs = [process(minute, 100, "s1", process_name=name) for minute in range(10, 20)]
    assert words(estate(stranger(), daemon("s1"), runs)) == []
    assert words(estate(stranger(), runs)) == [("s1", "no_grant", "hard", "bypass")], "a name alone exempts nobody"


def test_memory_that_no_process_holds_accuses_nobody() -> None:
    orphaned = [board(minute, 30_000) for minute in range(70, 100)]
    gone = [row for row in ended(50) if row.natural_key != CARD + "/7"]
    facts = [fact for fact in estate(gone, orphaned) if not fact.natural_key.startswith("u1")]
    assert words(facts) == []


def test_a_process_whose_pod_is_not_proven_is_nobodys() -> None:
    assert words(estate([process(minute, 30_000, None) for minute in range(10, 40)])) == []


def test_a_pod_that_nobody_knows_is_not_accused() -> None:
    assert words(estate([process(minute, 30_000, "unheard-of") for minute in range(10, 40)])) == []


def test_a_pod_whose_card_is_not_known_may_be_on_any() -> None:
    plain = [
        fact
        for minute in (5, END)
        for fact in (pod(minute, "p1", scheduled_at=0, gpu_count=1), grant(minute, "p1", bound_at=0))
    ]
    assert words(estate(plain, [process(minute, 100, "p1") for minute in range(10, 20)])) == []


def test_a_layer_that_counts_too_much_is_held_against_the_card() -> None:
    much = [counted(minute, 20_000) for minute in range(10, 40)]
    assert words(estate(much)) == [("u1", "memory", "hard", "lasting")]
    assert words(estate(much, [board(minute, 6_000) for minute in range(10, 40)])) == []
    assert words(estate([counted(minute, 50_000) for minute in range(10, 40)])) == [], "more than the card has"


def test_a_count_beside_a_neighbour_of_whom_nothing_is_counted_accuses_nobody() -> None:
    beside = [
        fact
        for minute in (5, END)
        for fact in (pod(minute, "u2", scheduled_at=0, gpu_count=1), vgpu(minute, "u2", memory=8_192, bound_at=0))
    ]
    much = [counted(minute, 16_000) for minute in range(10, 40)]
    assert words(estate(beside, much, [counted(minute, 0, "u2") for minute in range(10, 40)])) == []
    assert words(estate(beside, much, [counted(minute, 50, "u2") for minute in range(10, 40)])) == [
        ("u1", "memory", "hard", "lasting")
    ]


def test_a_card_accuses_only_the_one_who_has_it_alone() -> None:
    much = [board(-1, 300), *(board(minute, 20_000) for minute in range(10, 40))]
    beside = [
        fact
        for minute in (5, END)
        for fact in (pod(minute, "u2", scheduled_at=0, gpu_count=1), vgpu(minute, "u2", memory=8_192, bound_at=0))
    ]
    [row] = episodes(estate(much))
    assert (row["basis"], row["evidence_grade"], row["hard_reason"]) == ("device", "sole_holder_of_card", "lasting")
    assert row["peak_mib"] == 19_700, "above what was in use before it came"
    assert words(estate(much[1:])) == [], "nobody looked before it came: the memory may have been left behind"
    assert words(estate(board(-1, 19_000), much[1:])) == [], "memory that was left behind before it came"
    assert words(estate(much, beside)) == [], "never divided by what was granted"
    assert words(estate(much, beside, process(12, 4_000))) == [], "a process of the one proves nothing of the other"
    assert words(estate(much, [process(minute, 12_000, None) for minute in range(10, 40)])) == [], (
        "somebody else is there"
    )


def test_a_card_that_shows_less_in_later_hours_ends_the_episode() -> None:
    much = [board(-1, 300), *(board(minute, 20_000) for minute in range(10, 40))]
    calm = [board(minute, 400) for minute in range(40, END + 1)]
    [row] = episodes(estate(much, calm))
    assert (row["basis"], row["start"], row["stop"], row["samples_count"]) == ("device", 10, 40, 30)
    assert words(estate(board(-1, 300), calm)) == [], "and of a card that never showed more nobody is accused"
    [row] = episodes(estate(much, calm[20:]))
    assert (row["start"], row["stop"]) == (10, 39), "shown until the last sample where the next is 15 minutes away"


def test_a_unit_of_hardware_or_a_turn_in_time_has_no_limit_to_exceed() -> None:
    for more in (
        {"unit_kind": "gpu", "scheme": "pod_resources"},
        {"unit_kind": "slice", "scheme": "time_slicing", "replicas": 4},
    ):
        rows = [
            fact for minute in (5, END)
            for fact in (pod(minute, "p1", scheduled_at=0, gpu_count=1), grant(minute, "p1", device_uuid="GPU-b", source="pod_resources", bound_at=0,
                                                                               **{"memory_mib": 1_000, **more}))
        ]  # fmt: skip
        assert (
            words(estate(rows, [process(minute, 30_000, "p1", device_uuid="GPU-b") for minute in range(10, 40)])) == []
        )


def test_a_late_sample_restates_an_episode_by_reversal() -> None:
    with Store.open_memory() as store:
        store.append(estate(steady(10, 24), end=END))
        post_ledgers(store, PostingParameters(), clock=FixedClock(at(600)), ledgers=LEDGERS)
        store.append([process(9, OVER)])
        changes = post_ledgers(store, PostingParameters(), clock=FixedClock(at(600)), ledgers=LEDGERS).changes
        assert (changes["excess"].reversed, changes["over_use"].reversed) == (1, 1)
        assert store.rows("SELECT severity, hard_reason FROM ledger.over_use") == [("hard", "lasting")]


@pytest.mark.parametrize("mib", [-1, 2**62, 0, None])
def test_absurd_memory_accuses_nobody_and_breaks_nothing(mib: int | None) -> None:
    facts = [process(minute, mib, sm_ratio=float("nan")) for minute in range(10, 40)]
    facts += [process(minute, mib, "s1", pid=8, sm_ratio=float("inf")) for minute in range(10, 40)]  # type: ignore[misc]  # of one kind
    assert words(estate(stranger(), facts, [counted(minute, mib) for minute in range(10, 40)], **FORCED)) == [
        ("s1", "no_grant", "hard", "bypass")
    ]


def test_a_card_of_no_known_memory_leaves_what_is_at_stake_unknown() -> None:
    facts = [
        fact
        for fact in estate(stranger(), [process(minute, 4_096, "s1") for minute in range(10, 20)])
        if fact.natural_key != CARD
    ]
    [row] = episodes([*facts, card(5, memory_mib=None)])
    assert (row["rule"], row["excess_gpu_us"], row["peak_mib"]) == ("no_grant", None, 4_096)


def test_memory_that_the_driver_does_not_tell_is_no_whole_card_and_leaves_what_is_at_stake_unknown_with_the_least() -> (
    None
):
    untold = [process(minute, None if minute == 15 else 4_096, "s1") for minute in range(10, 20)]
    [row] = episodes(estate(stranger(), untold))
    told = [minute for minute in range(10, 19) if minute != 15]
    assert (row["excess_gpu_us"], row["excess_mib_us"]) == (None, None)
    assert row["excess_least_gpu_us"] == len(told) * MINUTE_US * (4_096 * 1_000_000 // CARD_MIB) // 1_000_000
    assert row["severity"] == "hard"


def test_a_request_that_states_no_memory_is_no_request_of_a_thousand_cards() -> None:
    rows: list[Fact] = []
    for minute in (5, END):
        rows += [
            pod(minute, "t1", scheduled_at=0, gpu_count=1),
            vgpu(minute, "t1", memory=20_000, cores=100, requested_cores_percent=10, bound_at=0),
        ]  # fmt: skip
    [row] = episodes(estate(rows))
    assert (row["granted_mib"], row["excess_gpu_us"], row["excess_mib_us"]) == (None, None, None)
    assert row["excess_least_gpu_us"] == 900_000 * END * MINUTE_US // 1_000_000


@pytest.mark.parametrize(("mib", "found"), [(CARD_MIB, 0), (CARD_MIB + 1, 1)])
def test_who_states_no_memory_may_have_a_whole_card_and_no_more(mib: int, found: int) -> None:
    rows: list[Fact] = []
    for minute in (5, END):
        rows += [
            pod(minute, "t1", scheduled_at=0, gpu_count=1),
            card(minute, schedulable_memory_mib=CARD_MIB),
            vgpu(minute, "t1", memory=mib, cores=0, bound_at=0),
        ]  # fmt: skip
    assert [row["rule"] for row in episodes(estate(rows))] == ["tampered_grant"] * found
