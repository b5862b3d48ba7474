"""Q7 over a story that can be checked by hand."""

from __future__ import annotations

import shlex
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest

from steelyard.answers.contract import Answer, Table
from steelyard.answers.overuse_rows import POINTS_MAX, curves, episode_of
from steelyard.answers.overuse_series import overuse_series
from steelyard.answers.q07_overuse import OveruseSpec, answer
from steelyard.answers.registry import entry
from steelyard.primitives.errors import UsageError
from steelyard.primitives.instant import HOUR_US, MINUTE_US, SECOND_US, Window
from steelyard.primitives.unknown import Unknown
from steelyard.surfaces.http_api.exposition import Traffic, exposition
from steelyard.surfaces.http_api.tenant_wall import scoped, walled
from steelyard.surfaces.shared.ports import Question
from steelyard.surfaces.shared.server_ports import Standing
from steelyard.surfaces.shared.service_ports import Principal
from tests.answers.estate import Estate, at, small_story
from tests.answers.overuse_story import FIRST, SECOND, episode, excess, overuse_story


def ask(estate: Estate | None = None, **spec: Any) -> Answer:
    return answer((estate or overuse_story()).store, OveruseSpec(**spec))


def figure(result: Answer, name: str) -> Any:
    return next(figure.value for figure in result.figures if figure.name == name)


def table(result: Answer, name: str) -> Table:
    return next(table for table in result.tables if table.name == name)


def rows(result: Answer, name: str) -> list[dict[str, Any]]:
    found = table(result, name)
    return [dict(zip([column.name for column in found.columns], row, strict=True)) for row in found.rows]


def test_the_figures_count_what_the_window_meets() -> None:
    result = ask()
    assert {name: figure(result, name) for name in ("hard_count", "soft_count", "exposed_count", "violators_count")} == {
        "hard_count": 2, "soft_count": 1, "exposed_count": 1, "violators_count": 2,
    }  # fmt: skip
    assert (figure(result, "gpu_seconds_at_stake"), figure(result, "gpu_seconds_at_stake_hard")) == (1_356, 1_350)
    assert figure(result, "money_at_stake").reason == "no price book was imported"


def test_the_gravest_stands_first_with_who_which_card_since_when_and_by_how_much() -> None:
    stray, infer, soft = rows(ask(), "violations")
    assert (stray["pod"], stray["rule"], stray["hard_reason"], stray["device_uuid"], stray["ended_at"]) == (
        "stray",
        "no_grant",
        "bypass",
        SECOND,
        None,
    )
    assert (infer["tenant"], infer["namespace"], infer["node"], infer["device_index"]) == (
        "team-a",
        "team-a",
        "node-a",
        0,
    )
    assert (infer["started_at"], infer["granted_mib"], infer["peak_mib"], infer["mean_excess_mib"]) == (
        "2026-11-30T09:00:00Z",
        4_000,
        5_000,
        1_000,
    )
    assert (infer["gpu_seconds_at_stake"], infer["interval_seconds"], infer["evidence_grade"]) == (
        450,
        60,
        "process_in_cgroup",
    )
    assert infer["money_at_stake"].reason == "no price book was imported"
    assert (soft["severity"], soft["hard_reason"]) == ("soft", None)


def booked(
    estate: Estate, device: str, hour: str, micro: int | None, currency: str | None = "USD", reason: str | None = None
) -> None:
    """One hour of a card in the cost ledger, half of it held and half idle."""
    for account in ("tenant", "idle"):
        estate.insert(
            "ledger.cost", cluster="default", place_kind="device", place_id=device, node="node-a", device_uuid=device, grain_at=at(hour),
            account=account, amount_gpu_us=HOUR_US // 2, currency=currency, cost_micro=None if micro is None else micro // 2, unpriced_reason=reason,
        )  # fmt: skip


def priced_story(*second: Any) -> Estate:
    """The first card costs 3.60 from 09:00, 7.20 from 10:00 and 36 from 11:00 an hour; ``second``: what the other costs at 11:00."""
    estate = overuse_story()
    for hour, micro in (("09:00", 3_600_000), ("10:00", 7_200_000), ("11:00", 36_000_000)):
        booked(estate, FIRST, hour, micro)
    if second:
        booked(estate, SECOND, "11:00", *second)
    return estate


def test_what_is_at_stake_has_the_price_that_the_card_had_meanwhile() -> None:
    result = ask(priced_story(14_400_000))
    stray, infer, soft = rows(result, "violations")
    # 900 s of a card of 14.40 an hour; 450 s at the mean of 3.60 and 7.20, in two hours of which the episode took; 6 s at 36
    assert [row["money_at_stake"] for row in (stray, infer, soft)] == [
        Fraction("3.6"),
        Fraction("0.675"),
        Fraction("0.06"),
    ]
    assert (figure(result, "currency"), figure(result, "money_at_stake")) == ("USD", Fraction("4.335"))
    assert {row["tenant"]: row["money_at_stake"] for row in rows(result, "groups")} == {
        "team-a": Fraction("0.735"),
        "team-c": Fraction("3.6"),
    }


def test_a_window_prices_what_lies_within_it() -> None:
    result = ask(priced_story(14_400_000), window=Window(at("09:00"), at("10:00")))
    (infer,) = rows(result, "violations")
    assert (infer["gpu_seconds_at_stake"], infer["money_at_stake"]) == (300, Fraction("0.3"))


@pytest.mark.parametrize(
    ("second", "reason"),
    [
        ((), "no price book was imported"),
        ((None, None, "model unknown"), "unpriced: model unknown"),
        ((14_400_000, "CNY"), "in CNY, USD, which are not added"),
    ],
)
def test_money_of_which_a_part_has_no_price_or_another_currency_is_unknown_and_not_less(
    second: tuple[Any, ...], reason: str
) -> None:
    result = ask(priced_story(*second))
    assert figure(result, "money_at_stake") == Unknown(reason)
    assert rows(result, "violations")[1]["money_at_stake"] == Fraction("0.675")


def test_where_nothing_is_at_stake_it_is_0_of_no_currency() -> None:
    result = ask(small_story())
    assert (figure(result, "money_at_stake"), figure(result, "currency")) == (0, Unknown("nothing is at stake"))


def test_every_row_says_how_to_contest_it() -> None:
    result = ask()
    assert all(
        row["contest"] and row["contest_command"] for name in ("violations", "exposed") for row in rows(result, name)
    )
    assert rows(result, "violations")[1]["contest_command"] == (
        "steelyard reconcile --from 2026-11-30T09:00:00Z --to 2026-11-30T10:30:01Z --where pod=team-a/infer"
    )


def test_a_name_that_is_no_name_is_quoted_in_commands() -> None:
    estate = overuse_story()
    estate.pod("team-c/x; rm -rf $HOME", gpus=0)
    episode(estate, "x; rm -rf $HOME", "no_grant", "09:00", "09:10", excess_gpu_us=0)
    [row] = [row for row in rows(ask(estate), "violations") if row["pod"].startswith("x;")]
    assert "x; rm -rf $HOME" in shlex.split(row["contest_command"])


def test_what_is_at_stake_is_that_of_the_window() -> None:
    result = ask(window=Window(at("09:30"), at("10:15")))
    assert (figure(result, "hard_count"), figure(result, "gpu_seconds_at_stake")) == (1, 150 + 75)
    assert figure(ask(window=Window(at("08:00"), at("09:00"))), "hard_count") == 0


def test_windows_side_by_side_add_up() -> None:
    cuts = [at("08:00"), at("09:17"), at("10:03"), at("11:01"), at("12:00")]
    parts = [figure(ask(window=Window(start, end)), "gpu_seconds_at_stake") for start, end in pairwise(cuts)]
    assert 0 <= figure(ask(), "gpu_seconds_at_stake") - sum(parts) < Fraction(len(cuts) * 4, SECOND_US)


def test_groups_add_up_to_the_figures() -> None:
    for by in ((), ("node",), ("tenant", "rule"), ("severity",), ("person",)):
        result = ask(by=by)
        found = rows(result, "groups")
        assert sum(row["gpu_seconds_at_stake"] for row in found) == figure(result, "gpu_seconds_at_stake")
        assert sum(row["hard_count"] for row in found) == 2


def test_the_raw_curve_of_an_episode_is_a_series() -> None:
    series = {
        series.name.split()[1]: series for series in ask().series if "09:00" in series.name or "stray" in series.name
    }
    assert list(series["team-a/infer"].points) == [(at("09:00"), 5_000), (at("09:01"), 4_900), (at("10:00"), 4_950)]
    assert (series["team-a/infer"].unit, series["team-c/stray"].unit) == ("MiB", "MiB")


def test_a_long_curve_is_thinned_to_peaks() -> None:
    row = {
        "cluster": "c", "pod_uid": "u", "device_uuid": "d", "gi": None, "rule": "compute", "severity": "hard", "started_us": 0,
        "known_us": 100 * HOUR_US, "samples_count": 1, "in_window_gpu_us": 1, "in_window_least_gpu_us": 1, "node": None, "basis": "process",
    }  # fmt: skip
    hours = [
        {
            **row, "grain_us": hour * HOUR_US, "started_us": hour * HOUR_US,
            "curve": ",".join(f"{minute * 60}:{hour * 10_000}" for minute in range(60)),
        }
        for hour in range(100)
    ]  # fmt: skip
    [series] = curves([episode_of(row, {}, {}, ())], hours, Window(0, 200 * HOUR_US))
    assert len(series.points) == POINTS_MAX and series.unit == "%"
    assert max(value for _at, value in series.points) == 99  # type: ignore[type-var]  # a curve has numbers


def test_silence_is_no_innocence() -> None:
    result = ask(small_story())
    assert (figure(result, "hard_count"), figure(result, "limited_count"), figure(result, "unmeasured_count")) == (
        0,
        2,
        2,
    )
    assert result.coverage == 0
    assert {row["pod"] for row in rows(result, "unmeasured")} == {"infer", "notebook"}
    assert any("whether they were exceeded is not known" in spot for spot in result.blind_spots)
    estate = small_story()
    estate.insert(
        "ledger.usage", cluster="default", device_uuid=FIRST, grain_at=at("09:00"), pod_uid="uid-infer", path="process", samples_count=60,
    )  # fmt: skip
    assert (ask(estate).coverage, figure(ask(estate), "cards_without_processes_count")) == (0.5, 1)


def test_a_share_that_is_not_known_leaves_the_sum_unknown_with_the_least() -> None:
    estate = overuse_story()
    episode(estate, "train", "no_grant", "09:00", "09:10", excess_gpu_us=None)
    value = figure(ask(estate), "gpu_seconds_at_stake")
    assert isinstance(value, Unknown) and "1356 GPU-s" in value.reason


def test_an_annotation_is_charged_for_the_part_of_its_time_in_the_window() -> None:
    estate = small_story()
    episode(
        estate,
        "infer",
        "tampered_grant",
        "08:00",
        None,
        samples_count=0,
        excess_gpu_us=4_000 * SECOND_US,
        basis="annotation",
    )
    assert figure(ask(estate, window=Window(at("09:00"), at("10:00"))), "gpu_seconds_at_stake") == 1_000


def test_a_condition_narrows_and_an_unknown_name_is_refused() -> None:
    result = ask(where={"tenant": "team-a"})
    assert {row["pod"] for row in rows(result, "violations")} == {"infer"}
    assert rows(result, "exposed") == []
    with pytest.raises(UsageError, match="nobody"):
        ask(where={"pod": "team-a/nobody"})
    with pytest.raises(UsageError, match="no dimension"):
        ask(by=("colour",))
    with pytest.raises(UsageError, match="no time at all"):
        ask(window=Window(at("09:00"), at("09:00")))


@pytest.mark.parametrize(("name", "word"), [("severity", "bogus"), ("rule", "nonsense"), ("severity", "Hard")])
def test_a_word_that_its_vocabulary_has_not_is_refused_with_those_that_it_has(name: str, word: str) -> None:
    with pytest.raises(UsageError, match=f"{name}: expected one of .*found '{word}'"):
        ask(where={name: word})


def test_a_condition_on_episodes_leaves_who_could_be_measured_as_it_is() -> None:
    whole, hard = ask(), ask(where={"severity": "hard"})
    assert figure(hard, "soft_count") == 0 and figure(hard, "hard_count") == figure(whole, "hard_count")
    assert (hard.coverage, figure(hard, "limited_count")) == (whole.coverage, figure(whole, "limited_count"))


def test_where_nothing_that_is_asked_about_is_limited_it_is_not_said_of_all() -> None:
    coverage = ask(where={"tenant": "team-c"}).coverage
    assert isinstance(coverage, Unknown) and coverage.reason.startswith("of what is asked about nobody holds")


def test_a_viewer_is_told_no_count_of_the_cards_of_the_estate() -> None:
    told = ask(where={"tenant": "team-a"}, confined=True).blind_spots
    assert not any("of 2 cards" in spot or "of 1 cards" in spot for spot in told)
    assert any(spot.startswith("of cards on which no process") for spot in told)


def test_instants_of_windows_and_commands_are_whole_seconds_and_hold_the_last_sample() -> None:
    result = ask()
    assert result.window == Window(at("08:00"), at("2026-11-30T12:00:01Z"))
    assert "000001Z" not in str(result.to_json())


def test_findings_and_sources_are_those_of_the_cluster_that_is_asked_about() -> None:
    estate = overuse_story()
    for cluster in ("default", "other"):
        estate.insert(
            "fact.finding", cluster=cluster, code="odd", severity="warning", subject=f"file of {cluster}", message="odd", evidence="{}",
            occurred_at=at("09:00"), observed_at=at("09:00"), source="import", natural_key=cluster, fact_id=cluster,
        )  # fmt: skip
    estate.listing(at("10:00"), cluster="other")
    result = ask(estate, where={"cluster": "default"})
    assert [note.subject for note in result.findings] == ["file of default"]
    assert result.sources and not any("(other)" in line for line in result.sources)
    assert {note.subject for note in ask(estate).findings} == {"file of default", "file of other"}


def test_outside_the_known_time_nothing_is_said() -> None:
    result = ask(window=Window(at("2027-01-01T00:00:00Z"), at("2027-01-02T00:00:00Z")))
    assert all(isinstance(figure.value, Unknown) for figure in result.figures)
    assert not result.tables


def test_a_viewer_sees_its_own_tenant_and_nothing_of_others() -> None:
    viewer = Principal(role="viewer", tenant="team-a")
    question = scoped(entry(7), Question(), viewer)
    result = walled(entry(7), ask(where=dict(question.where), confined=True), viewer)
    text = str(result.to_json())
    assert "infer" in text and "stray" not in text and "team-c" not in text and SECOND not in text
    assert figure(result, "hard_count") == 1
    assert isinstance(figure(result, "cards_without_processes_count"), Unknown)


def test_monitoring_is_told_of_episodes_of_the_last_day() -> None:
    estate = overuse_story()
    episode(estate, "train", "after_end", "2026-11-28T10:00:00Z", "2026-11-28T11:00:00Z", excess_gpu_us=5)
    found = overuse_series(estate.store)
    assert found["default", "memory", "hard"] == (1, 450 * SECOND_US)
    assert ("default", "after_end", "hard") not in found
    text = exposition(Standing(over_use=found), Traffic(), ()).decode()
    assert 'steelyard_overuse_episodes{cluster="default",rule="no_grant",severity="hard"} 1' in text
    assert 'steelyard_overuse_gpu_seconds{cluster="default",rule="no_grant",severity="hard"} 900.0' in text


def test_sparse_samples_are_told_with_their_interval() -> None:
    estate = overuse_story()
    episode(
        estate,
        "train",
        "memory",
        "09:00",
        "09:00",
        severity="soft",
        hard_reason=None,
        samples_count=1,
        interval_us=20 * MINUTE_US,
        excess_gpu_us=0,
    )
    excess(estate, "train", "memory", "09:00", "09:00", 0, "0:9000")
    result = ask(estate)
    [row] = [row for row in rows(result, "violations") if row["pod"] == "train"]
    assert (row["severity"], row["interval_seconds"], row["gpu_seconds_at_stake"]) == ("soft", 1_200, 0)
    assert any("15 minutes apart" in spot for spot in result.blind_spots)
