"""What a real Prometheus remembers of cards and pods becomes the facts that a watch would have made, chunk by chunk, and never twice."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from steelyard.app.posting import post
from steelyard.app.prometheus_history import BACKFILLED, backfill, chunks, done_windows, fill, reaches_back_to
from steelyard.app.settings import Settings
from steelyard.facts.base import Fact
from steelyard.facts.device_sample import DeviceSample
from steelyard.facts.grant import Grant
from steelyard.facts.request import Request
from steelyard.facts.sighting import Sighting
from steelyard.facts.source_status import SourceStatus
from steelyard.primitives.errors import SourceUnavailable
from steelyard.primitives.instant import DAY_US, HOUR_US, SECOND_US, Window
from steelyard.sources.prometheus import PrometheusApi, PrometheusEndpoint
from steelyard.sources.shared.context import ReadContext
from steelyard.store import Store
from tests.sources.prometheus.real_prometheus import exporters, prometheus

CREATED = 1772360000
STAYS = 'namespace="team-a",pod="train-0",uid="uid-stays"'
GOES = 'namespace="team-a",pod="train-1",uid="uid-goes"'
NO_GPU = 'namespace="team-a",pod="web",uid="uid-web"'


def of_pod(labels: str, resource: str, count: int) -> str:
    return "".join(
        f"{line}\n"
        for line in (
            f'kube_pod_info{{{labels},node="n1",created_by_kind="Job",created_by_name="train",host_ip="10.0.0.1"}} 1',
            f"kube_pod_created{{{labels}}} {CREATED}",
            f"kube_pod_status_scheduled_time{{{labels}}} {CREATED + 5}",
            f"kube_pod_start_time{{{labels}}} {CREATED + 6}",
            f'kube_pod_status_phase{{{labels},phase="Pending"}} 0',
            f'kube_pod_status_phase{{{labels},phase="Running"}} 1',
            f'kube_pod_container_status_running{{{labels},container="main"}} 1',
            f'kube_pod_container_state_started{{{labels},container="main"}} {CREATED + 20}',
            f'kube_pod_container_resource_requests{{{labels},container="main",node="n1",resource="cpu",unit="core"}} 0.5',
            f'kube_pod_container_resource_requests{{{labels},container="main",node="n1",resource="{resource}",unit="integer"}} {count}',
            f'kube_pod_labels{{{labels},label_app="trainer"}} 1',
        )
    )


BEFORE = (
    of_pod(STAYS, "nvidia_com_gpu", 2) + of_pod(GOES, "nvidia_com_mig_1g_10gb", 1) + of_pod(NO_GPU, "memory", 5)
).encode()
AFTER = (of_pod(STAYS, "nvidia_com_gpu", 2) + of_pod(NO_GPU, "memory", 5)).encode()
CARD = b'DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-aaaa",device="nvidia0",modelName="NVIDIA H100",hostname="n1"} 40\n'


@pytest.fixture(scope="module")
def remembered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Window]]:
    """The address of a Prometheus and a stretch of whole seconds in which a pod vanished."""
    texts = {"kube-state-metrics": BEFORE, "dcgm": CARD}
    with exporters(texts) as site, prometheus(tmp_path_factory.mktemp("prometheus"), site) as url:
        start = site.await_scrapes(4)
        site.await_scrapes(8)
        texts["kube-state-metrics"] = AFTER
        end = site.await_scrapes(16)
        yield url, Window(-(-start // SECOND_US) * SECOND_US, end // SECOND_US * SECOND_US)


def facts_of(url: str, window: Window, chunk_us: int = HOUR_US) -> list[list[Fact]]:
    ctx = ReadContext(observed_at=time.time_ns() // 1_000)
    with PrometheusApi(PrometheusEndpoint(url)) as api:
        return [each.facts for each in chunks(api, window, ctx, chunk_us=chunk_us, step_us=SECOND_US)]


def test_pods_that_held_accelerators_are_told_with_their_stamps_and_their_grants(
    remembered: tuple[str, Window],
) -> None:
    facts = [fact for part in facts_of(*remembered) for fact in part]
    requests = {fact.pod_uid: fact for fact in facts if isinstance(fact, Request)}
    assert requests.keys() == {"uid-stays", "uid-goes"}
    stays = requests["uid-stays"]
    assert (stays.namespace, stays.pod, stays.node, stays.phase, stays.gpu_count) == (
        "team-a",
        "train-0",
        "n1",
        "Running",
        2,
    )
    assert (stays.created_at, stays.scheduled_at, stays.first_container_at) == tuple(
        (CREATED + seconds) * SECOND_US for seconds in (0, 5, 20)
    )
    grants = {
        (fact.pod_uid, fact.scheme, fact.resource_name, fact.quantity) for fact in facts if isinstance(fact, Grant)
    }
    assert grants == {
        ("uid-stays", "device_plugin", "nvidia.com/gpu", 2),
        ("uid-goes", "mig_plugin", "nvidia.com/mig-1g.10gb", 1),
    }
    assert {fact.confidence for fact in facts if isinstance(fact, Request | Grant | DeviceSample)} == {BACKFILLED}


def test_a_pod_that_vanished_is_gone_in_the_first_step_without_it_and_the_other_stays(
    remembered: tuple[str, Window],
) -> None:
    url, window = remembered
    for chunk_us in (HOUR_US, 2 * SECOND_US):  # its end may fall on the border of two chunks
        facts = [fact for part in facts_of(url, window, chunk_us) for fact in part]
        gone = {
            fact.object_uid: fact.occurred_at
            for fact in facts
            if isinstance(fact, Sighting) and fact.object_kind == "pod_gone"
        }
        assert gone.keys() == {"uid-goes"}
        last = max(fact.occurred_at for fact in facts if isinstance(fact, Request) and fact.pod_uid == "uid-goes")
        assert gone["uid-goes"] == last
        assert window.start < last < window.end
        stretches = [fact for fact in facts if isinstance(fact, SourceStatus) and fact.kind == "pods"]
        assert max(fact.observed_to_at or 0 for fact in stretches) == window.end
        assert {fact.as_of_basis for fact in stretches} == {BACKFILLED}
        assert [fact for fact in stretches if fact.observed_to_at is None] == []  # no gap: nothing was listed anew


def test_samples_are_reductions_of_a_step_stamped_with_its_start(remembered: tuple[str, Window]) -> None:
    url, window = remembered
    samples = [fact for part in facts_of(url, window) for fact in part if isinstance(fact, DeviceSample)]
    assert [fact.occurred_at for fact in samples] == list(range(window.start, window.end, SECOND_US))
    assert {(fact.util_gpu_ratio, fact.interval_us) for fact in samples} == {(0.4, SECOND_US)}


def test_a_back_fill_that_was_cut_off_goes_on_at_the_first_missing_chunk_and_ends_as_one_that_was_not(
    remembered: tuple[str, Window],
) -> None:
    url, window = remembered
    ctx = ReadContext(observed_at=time.time_ns() // 1_000)

    def tell(stop_after: int | None) -> tuple[list[Window], list[tuple[object, ...]]]:
        told: list[Window] = []

        def progress(part: Window) -> None:
            told.append(part)
            if len(told) == stop_after:
                raise SourceUnavailable("cut off")

        with Store.open_memory() as store, PrometheusApi(PrometheusEndpoint(url)) as api:

            def run() -> int:
                return backfill(store, api, window, ctx, chunk_us=SECOND_US, step_us=SECOND_US, progress=progress)

            if stop_after is not None:
                with pytest.raises(SourceUnavailable):
                    run()
                assert len(done_windows(store, "default")) == stop_after
            run()
            assert run() == 0
            tables = ("request", "sighting", "device_sample", "grant", "source_status")
            rows = [row for table in tables for row in store.rows(f'SELECT fact_id FROM fact."{table}" ORDER BY ALL')]
        return told, rows

    whole, in_two = tell(None), tell(2)
    assert whole == in_two
    assert whole[0] == sorted(whole[0])
    assert len(whole[0]) == window.duration_us // SECOND_US


def test_nothing_is_taken_in_of_a_closed_period(remembered: tuple[str, Window]) -> None:
    url, window = remembered
    middle = window.start + SECOND_US
    with Store.open_memory() as store, PrometheusApi(PrometheusEndpoint(url)) as api:
        store.close_until(middle)
        store.close_until(window.start)
        ctx = ReadContext(observed_at=time.time_ns() // 1_000)
        filled = [part for part, _new in fill(store, api, window, ctx, chunk_us=SECOND_US, step_us=SECOND_US)]
        assert filled[0].start == middle
        assert filled[-1].end == window.end
        assert store.rows("SELECT epoch_us(min(occurred_at)) FROM fact.device_sample") == [(middle,)]
        store.close_until(window.end)
        assert backfill(store, api, window, ctx) == 0


def test_a_period_that_is_closed_while_its_chunk_is_fetched_stays_closed(remembered: tuple[str, Window]) -> None:
    url, window = remembered
    ctx = ReadContext(observed_at=time.time_ns() // 1_000)
    with Store.open_memory() as store, PrometheusApi(PrometheusEndpoint(url)) as api:
        steps = fill(store, api, window, ctx, chunk_us=SECOND_US, step_us=SECOND_US)
        first, new_count = next(steps)
        assert new_count > 0
        store.close_until(window.end)
        assert list(steps) == []
        assert done_windows(store, "default") == [first]


def test_it_reaches_back_to_the_first_day_with_a_metric_that_is_read(remembered: tuple[str, Window]) -> None:
    url, window = remembered
    with PrometheusApi(PrometheusEndpoint(url)) as api:
        day = window.start // DAY_US * DAY_US
        assert reaches_back_to(api, Window(window.start - 5 * DAY_US, window.end)) in (day, day - DAY_US)
        assert reaches_back_to(api, Window(window.start - 5 * DAY_US, day - DAY_US)) == day - DAY_US


def test_a_pod_that_ended_while_nobody_looked_is_missed_when_somebody_looks_again(tmp_path: Path) -> None:
    texts = {"kube-state-metrics": BEFORE}
    with exporters(texts) as site, prometheus(tmp_path, site) as url:
        start = site.await_scrapes(4)
        site.await_scrapes(10)
        texts["kube-state-metrics"] = b"up_to_nothing 1\n"
        site.await_scrapes(12)
        texts["kube-state-metrics"] = AFTER
        end = site.await_scrapes(16)
        window = Window(-(-start // SECOND_US) * SECOND_US, end // SECOND_US * SECOND_US)
        chunked = facts_of(url, window, SECOND_US)
    with Store.open_memory() as store:
        for part in chunked:
            store.append(part)
        post(store, Settings())
        rows = store.rows(
            "SELECT pod_uid, epoch_us(last_seen_at), epoch_us(gone_by_at) FROM dim.pod_life ORDER BY pod_uid"
        )
    (goes, goes_seen, goes_gone), (stays, _stays_seen, stays_gone) = rows
    assert (goes, stays, stays_gone) == ("uid-goes", "uid-stays", None)
    assert window.start < goes_seen < goes_gone < window.end
    assert goes_gone - goes_seen > SECOND_US
