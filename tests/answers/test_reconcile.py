"""Reconcile: what may be asked, what is not known, and what one tenant sees of a shared card."""

from __future__ import annotations

from pathlib import Path

import pytest

from steelyard.answers.contract import Answer
from steelyard.primitives.errors import UsageError
from steelyard.primitives.instant import Window
from steelyard.primitives.unknown import Unknown
from tests.collection.hami_estate import HamiEstate, allocated, container, counted, gauge, granted, host, node, pod
from tests.collection.scraped_estate import cells, figure, listing, moment


@pytest.fixture(scope="module")
def estate(tmp_path_factory: pytest.TempPathFactory) -> HamiEstate:
    """Two tenants on one card; of the other's pod the limit is not in force."""
    found = HamiEstate(tmp_path_factory.mktemp("tenants"))
    ours = pod("ours", granted([(0, 8_192, 30)]))
    theirs = pod("theirs", granted([(0, 1_024, 10)]), container(mib=1_024, cores=10))
    theirs["metadata"]["namespace"] = "rivals"
    lines = [*counted("ours", 6_000), *host(9_500), *gauge(9_216, 40), *allocated("ours", 8_192)]
    lines += [
        each.replace('podnamespace="team"', 'podnamespace="rivals"')
        for each in (*counted("theirs", 900, 30_480), *allocated("theirs", 1_024, 10))
    ]
    for at in ("12:00", "12:01", "12:02"):
        found.scrape(at, {"n1:9394": lines})
        found.take(at, listing(node(), ours, theirs))
    return found


def tables(answer: Answer) -> list[str]:
    return [table.name for table in answer.tables]


@pytest.mark.parametrize(
    ("by", "names"),
    [((), ["pods", "cards", "tenants"]), (("card",), ["cards"]), (("tenant", "pod"), ["tenants", "pods"])],
)
def test_the_tables_that_are_asked_for_come_in_that_order(
    by: tuple[str, ...], names: list[str], estate: HamiEstate
) -> None:
    assert tables(estate.reconcile(by=by)) == [*names, "deviations"]


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"by": ("moon",)}, "one of pod, card, tenant"),
        ({"where": {"pod": "nobody"}}, "no pod is called"),
        ({"where": {"moon": "x"}}, "no dimension"),
        ({"at": "12:00", "window": Window(moment("12:00"), moment("12:01"))}, "not both"),
        ({"at": "03:00"}, "nothing is known at"),
        ({"at": "22:00"}, "nothing is known at"),
    ],
)
def test_what_cannot_be_compared_is_refused(spec: dict[str, object], words: str, estate: HamiEstate) -> None:
    with pytest.raises(UsageError, match=words):
        estate.reconcile(**spec)  # type: ignore[arg-type]  # wrong on purpose


def test_a_narrowed_question_tells_of_its_pods_and_their_cards(estate: HamiEstate) -> None:
    answer = estate.reconcile(where={"pod": "ours"})
    assert cells(answer, "pods", "pod") == [("ours",)]
    assert cells(answer, "cards", "memory_device_mib") == [(9_500,)]
    assert {note.code for note in answer.findings} == {"residual_memory"}


def test_a_tenant_sees_its_own_pods_and_nothing_of_its_neighbours(estate: HamiEstate) -> None:
    answer = estate.reconcile(tenant="team")
    assert cells(answer, "pods", "pod", "memory_counted_mib") == [("ours", 6_000)]
    assert tables(answer) == ["pods", "tenants", "deviations"]
    assert cells(answer, "tenants", "tenant") == [("team",)]
    assert isinstance(figure(answer, "memory_counted_less_device_mib"), Unknown)
    assert isinstance(figure(answer, "memory_blocked_mib"), Unknown)
    assert (answer.series, answer.sources) == ((), ())
    said = str(answer.to_json())
    for word in ("theirs", "rivals", "9500"):
        assert word not in said
    other = estate.reconcile(tenant="rivals")
    assert [note.code for note in other.findings] == ["limit_not_in_force"]
    assert cells(other, "deviations", "evidence") == [(None,)]


def test_a_tenant_that_asks_for_a_neighbour_by_name_learns_nothing(estate: HamiEstate) -> None:
    for name in ("theirs", "nobody"):
        answer = estate.reconcile(tenant="team", where={"pod": name})
        assert cells(answer, "pods", "pod") == []
        assert answer.findings == []


def test_the_answer_says_over_how_much_of_what_is_held_it_knows_use(estate: HamiEstate) -> None:
    assert estate.reconcile().coverage == 1.0
    assert isinstance(estate.reconcile(window=Window(moment("09:00"), moment("10:00"))).coverage, Unknown)


def test_figures_of_an_empty_stretch_are_unknown(estate: HamiEstate) -> None:
    answer = estate.reconcile(window=Window(moment("09:00"), moment("10:00")))
    assert isinstance(figure(answer, "compared_count"), Unknown)


def test_the_sql_is_explained(estate: HamiEstate) -> None:
    assert {"held", "sampled", "deviations"} <= set(estate.reconcile(explain=True).explain)
    assert estate.reconcile().explain == {}


def scraped(directory: Path, lines: list[str], *pods: dict[str, object]) -> HamiEstate:
    """The lines at three instants, a minute apart."""
    found = HamiEstate(directory)
    for at in ("12:00", "12:01", "12:02"):
        found.scrape(at, {"n1:9394": lines})
        found.take(at, listing(node(), *pods))
    return found


def why(answer: Answer, table: str, *columns: str) -> list[str]:
    """Reasons of the cells of the first row."""
    found = next(each for each in answer.tables if each.name == table)
    names = [column.name for column in found.columns]
    cells_of = [found.rows[0][names.index(name)] for name in columns]
    return [cell.reason if isinstance(cell, Unknown) else str(cell) for cell in cells_of]


@pytest.mark.parametrize(
    ("lines", "column"),
    [
        (counted("a", 2**44), "memory_counted_mib"),
        (counted("a", 1e30), "memory_counted_mib"),
        (counted("a", -1), "memory_counted_mib"),
        (counted("a", 60_000), "memory_counted_mib"),
        (counted("a", 4_096, percent=137), "cores_counted_percent"),
        (allocated("a", 2**44), "memory_scheduler_mib"),
    ],
)
def test_a_series_that_was_refused_is_not_called_absent(lines: list[str], column: str, tmp_path: Path) -> None:
    answer = scraped(tmp_path, [*lines, *host(4_300)], pod("a", granted([(0, 8_192, 30)]))).reconcile()
    [reason] = why(answer, "pods", column)
    assert reason == "no sample tells it that a card can have: 3 were refused"
    assert figure(answer, "samples_refused_count") == 3
    assert cells(answer, "pods", "samples_refused_count") == [(3,)]


def test_a_card_whose_own_samples_were_refused_says_so(tmp_path: Path) -> None:
    answer = scraped(tmp_path, host(-5), pod("a", granted([(0, 8_192, 30)]))).reconcile()
    assert why(answer, "cards", "memory_device_mib") == ["its samples were refused: see the table deviations"]


def test_what_is_counted_of_one_pod_of_two_is_not_what_is_counted_of_the_card(tmp_path: Path) -> None:
    both = [pod(name, granted([(0, 8_192, 30)])) for name in ("a", "b")]
    answer = scraped(tmp_path, [*counted("a", 4_096, percent=20), *host(9_000)], *both).reconcile()
    of_tenant = why(answer, "tenants", "memory_enforced_mib", "memory_counted_mib", "cores_counted_percent")
    of_card = why(answer, "cards", "memory_enforced_mib", "memory_counted_mib", "cores_counted_percent")
    assert of_card == of_tenant
    assert of_card[1] == "of 1 of its pods it is not known; at least 4096 MiB"
    assert cells(answer, "cards", "memory_device_mib", "memory_counted_less_device_mib") == [(9_000, None)]


@pytest.mark.parametrize(("mib", "verdict"), [(24_576, "limit_not_in_force"), (16_900, "agrees")])
def test_what_is_counted_above_the_limit_shows_that_the_limit_is_not_in_force(
    mib: int, verdict: str, tmp_path: Path
) -> None:
    one = pod("a", granted([(0, 16_384, 30)]), container(mib=16_384))
    answer = scraped(tmp_path, [*counted("a", mib, 16_384), *host(mib + 300)], one).reconcile()
    assert cells(answer, "pods", "verdict") == [(verdict,)]
