"""Episodes of over-use against a slow plain reference, over random small worlds: walk the samples of each pod in turn, one after the other."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.definitions.over_use import DEFAULTS, hard_reason, tolerance_mib
from steelyard.facts.base import Fact
from steelyard.ledgers.posting import PostingParameters
from steelyard.primitives.instant import MINUTE_US
from tests.ledgers.facts_of import pod, vgpu
from tests.ledgers.over_use_facts import CARD_MIB, END, GRANTED_MIB, episodes, estate, process, stranger

Row = tuple[str, str, float, float, str, str | None, int, int]
"""Pod, rule, first minute, length in minutes, severity, reason, samples, excess in GPU-microseconds."""

USE = st.sampled_from([100, GRANTED_MIB, GRANTED_MIB + 600, GRANTED_MIB + 601, GRANTED_MIB + 4_096, 30_000])
MINUTES = st.integers(6, END - 30)
SAMPLES = st.dictionaries(MINUTES, USE, max_size=14)
RUNS = st.lists(st.tuples(MINUTES, st.integers(1, 20), USE), max_size=5)
WEEKLY_US = 3 * MINUTE_US


def drawn(samples: dict[int, int], runs: list[tuple[int, int, int]]) -> dict[int, int]:
    """Single samples, and stretches of one a minute."""
    found = dict(samples)
    for start, length, mib in runs:
        found |= dict.fromkeys(range(start, min(start + length, END - 10)), mib)
    return found


def looks(of_pod: dict[int, int], rounds: list[int], verdict: str | None) -> list[tuple[int, int, int]]:
    """(minute, until, MiB above) of each look that is above. Of a bypass each round is a look at it, of memory each sample of the pod."""
    order = sorted(of_pod)
    after = dict(pairwise(rounds if verdict else order))
    found = []
    for minute in order:
        following = after.get(minute)
        until = following if following is not None and following - minute < 15 else minute
        above = of_pod[minute] if verdict else of_pod[minute] - GRANTED_MIB
        if verdict or above > tolerance_mib(GRANTED_MIB, 1):
            found.append((minute, until, above))
    return found


def reference(pod_uid: str, rule: str, above: list[tuple[int, int, int]]) -> list[Row]:
    joined: list[list[tuple[int, int, int]]] = []
    for look in above:
        if joined and joined[-1][-1][1] == look[0]:
            joined[-1].append(look)
        else:
            joined.append([look])
    spans = [(part[0][0], max(look[1] for look in part)) for part in joined]
    excess = [
        sum(mib * 1_000_000 // CARD_MIB * (until - minute) * 60 for minute, until, mib in part) for part in joined
    ]
    rows: list[Row] = []
    for number, (start, stop) in enumerate(spans):
        soft = sum(0 < end - first < 15 for first, end in spans[: number + 1])
        reason = hard_reason(rule, (stop - start) * MINUTE_US, soft, sum(excess[: number + 1]), LIMITS.over_use)
        severity = "hard" if reason else "soft"
        rows.append((pod_uid, rule, start, stop - start, severity, reason, len(joined[number]), excess[number]))
    return rows


LIMITS = PostingParameters(over_use=type(DEFAULTS)(weekly_gpu_us=WEEKLY_US))


@settings(max_examples=12)
@given(SAMPLES, RUNS, SAMPLES, RUNS, st.integers(60, 120))
def test_episodes_are_what_a_walk_along_the_samples_says(
    mine: dict[int, int],
    my_runs: list[tuple[int, int, int]],
    theirs: dict[int, int],
    their_runs: list[tuple[int, int, int]],
    end: int,
) -> None:
    holder, other = drawn(mine, my_runs), drawn(theirs, their_runs)
    gone = dict.fromkeys(sorted(other)[::3], 500)
    ending: list[Fact] = [
        pod(5, "e1", scheduled_at=0, gpu_count=1), vgpu(5, "e1", memory=100_000, bound_at=0), vgpu(END, "e1", memory=100_000, bound_at=0),
        pod(END, "e1", scheduled_at=0, gpu_count=1, phase="Succeeded", last_container_end_at=end),
    ]  # fmt: skip
    facts = estate(
        stranger(),
        ending,
        (process(minute, mib) for minute, mib in holder.items()),
        (process(minute, mib, "s1", pid=8) for minute, mib in other.items()),
        (process(minute, mib, "e1", pid=9) for minute, mib in gone.items()),
    )
    rounds = sorted({*holder, *other, *gone})
    late = {minute: mib for minute, mib in gone.items() if minute > end + 2}
    expected = [
        *reference("e1", "after_end", looks(late, rounds, "after_end")),
        *reference("s1", "no_grant", looks(other, rounds, "no_grant")),
        *reference("u1", "memory", looks(holder, rounds, None)),
    ]
    found = [
        (
            row["pod_uid"], row["rule"], row["start"], row["length"], row["severity"], row["hard_reason"], row["samples_count"], row["excess_gpu_us"],
        )
        for row in episodes(facts, LIMITS)
    ]  # fmt: skip
    # Within a stretch of one grain amounts are added before they are divided: less than a microsecond for each look.
    assert [row[:-1] for row in found] == [row[:-1] for row in expected]
    for row, wanted in zip(found, expected, strict=True):
        assert abs(row[-1] - wanted[-1]) <= wanted[-2]


@settings(max_examples=6)
@given(SAMPLES, RUNS, st.data())
def test_a_sample_that_is_missing_never_makes_an_episode_graver_by_its_length(
    mine: dict[int, int], runs: list[tuple[int, int, int]], data: st.DataObject
) -> None:
    """What nobody saw is no ground: without a sample above the tolerance the time that is shown does not grow."""
    holder = drawn(mine, runs)
    above = [minute for minute, mib in holder.items() if mib - GRANTED_MIB > 600]
    if not above:
        return
    gone = data.draw(st.sampled_from(sorted(above)))
    whole, less = (
        sum(row["length"] for row in episodes(estate([process(minute, mib) for minute, mib in samples.items()])))
        for samples in (holder, {minute: mib for minute, mib in holder.items() if minute != gone})
    )
    assert less <= whole
