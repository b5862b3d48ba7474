"""A Prometheus pushes; it hears "taken" only when the facts are durable, "never" where they cannot be, "later" where the store is busy."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from fastapi import FastAPI

from steelyard.app import ingest_remote_write
from steelyard.app.ingest_remote_write import UNDER_WAY_MAX, RemoteWrite
from steelyard.app.served import NoCollectors, Served
from steelyard.app.settings import Settings
from steelyard.primitives.clock import Clock, FixedClock, WallClock
from steelyard.primitives.instant import DAY_US, MINUTE_US, SECOND_US, Window, parse_instant
from steelyard.sources.prometheus import PrometheusApi, PrometheusEndpoint
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.metric_points import MetricPoint
from steelyard.store import Store
from steelyard.surfaces.http_api import create
from tests.app.served_directory import serving, steelyard
from tests.sources.prometheus.real_prometheus import exporters, prometheus
from tests.sources.prometheus.write_requests import HEADERS, STALE, sample, series, snappy

AT = parse_instant("2026-03-01T12:00:00Z")
NOW = AT + MINUTE_US
AT_MS = AT // 1_000
PATH = "/api/v1/ingest/remote-write"
CARD = {
    "__name__": "DCGM_FI_DEV_GPU_UTIL", "UUID": "GPU-aaaa", "gpu": "0", "hostname": "n1", "job": "dcgm", "instance": "n1:9400",
}  # fmt: skip
TEXT = b'DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-aaaa",device="nvidia0",modelName="NVIDIA H100",hostname="n1"} 40\n'
SENT = re.compile(r"^prometheus_remote_storage_queue_highest_sent_timestamp_seconds\{.*\} (\S+)$", re.MULTILINE)


@dataclass
class Receiver:
    """The app with the endpoint over a store in memory."""

    store: Store
    write: RemoteWrite
    app: FastAPI
    token: str

    def client(self) -> httpx.AsyncClient:
        headers = {**HEADERS, "Authorization": f"Bearer {self.token}"}
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
        return httpx.AsyncClient(transport=transport, base_url="http://test", headers=headers, timeout=60)

    def post(self, *bodies: bytes, **more: Any) -> list[httpx.Response]:
        """All at once."""

        async def asked() -> list[httpx.Response]:
            async with self.client() as client:
                return await asyncio.gather(*(client.post(PATH, content=body, **more) for body in bodies))

        return asyncio.run(asked())

    def utilisation(self) -> list[tuple[Any, ...]]:
        return self.store.rows(
            "SELECT device_uuid, epoch_us(occurred_at), util_gpu_ratio FROM fact.device_sample ORDER BY ALL"
        )


@contextmanager
def receiver(folder: Path, patience_seconds: float = 60.0, clock: Clock | None = None) -> Iterator[Receiver]:
    clock = clock or FixedClock(NOW)
    with Store.open_memory() as store:
        served = Served(store, folder, Settings(), clock)
        write = RemoteWrite(store, clock, patience_seconds=patience_seconds)
        app = create(served.ports(NoCollectors(), folder), clock, (write.endpoint(),))
        yield Receiver(store, write, app, served.tokens.create("prometheus", "operator", None).secret)


def body_of(*values: tuple[float | bytes, int]) -> bytes:
    return snappy(series(CARD, *(sample(value, at_ms) for value, at_ms in values)))


def test_what_was_answered_204_is_in_the_store_and_waits_to_be_posted(tmp_path: Path) -> None:
    with receiver(tmp_path) as site:
        (answer,) = site.post(body_of((40.0, AT_MS), (STALE, AT_MS + 1_000)))
        assert (answer.status_code, answer.content) == (204, b"")
        assert answer.headers["X-Prometheus-Remote-Write-Samples-Written"] == "1"
        assert site.utilisation() == [("GPU-aaaa", AT, 0.4)]
        assert site.store.has_collected()


def test_a_batch_that_comes_again_and_out_of_order_adds_nothing(tmp_path: Path) -> None:
    late, early = body_of((50.0, AT_MS + 15_000)), body_of((40.0, AT_MS))
    with receiver(tmp_path) as site:
        assert [answer.status_code for body in (late, early, late) for answer in site.post(body)] == [204, 204, 204]
        assert site.utilisation() == [("GPU-aaaa", AT, 0.4), ("GPU-aaaa", AT + 15 * SECOND_US, 0.5)]


def test_requests_that_wait_go_into_one_transaction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with receiver(tmp_path) as site:
        appended: list[int] = []
        real = site.store.append_tables

        def counted(tables: Any, **more: Any) -> Any:
            appended.append(1)
            return real(tables, **more)

        monkeypatch.setattr(site.store, "append_tables", counted)
        bodies = [body_of((float(number), AT_MS + number)) for number in range(20)]
        with site.store.transaction():  # this thread writes; what comes meanwhile waits
            pass
        answers = site.post(*bodies)
        assert {answer.status_code for answer in answers} == {204}
        assert len(site.utilisation()) == 20
        assert len(appended) < 20


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"nothing of the kind", {}, 400),
        (b"", {}, 400),
        (snappy(b"\x0a\x7fabc"), {}, 400),
        (b"\xff\xff\xff\xff\x0f" + b"x" * 50, {}, 400),
        (body_of((1.0, AT_MS)), {"Content-Type": "application/x-protobuf;proto=io.prometheus.write.v2.Request"}, 415),
        (body_of((1.0, AT_MS)), {"Content-Type": "application/json"}, 415),
        (body_of((1.0, AT_MS)), {"Content-Encoding": "gzip"}, 415),
        (body_of((1.0, AT_MS)), {"Authorization": "Bearer sty_none_none"}, 401),
    ],
)
def test_what_cannot_be_taken_is_refused_for_good_and_stores_nothing(
    tmp_path: Path, body: bytes, headers: dict[str, str], status: int
) -> None:
    with receiver(tmp_path) as site:
        (answer,) = site.post(body, headers=headers)
        assert answer.status_code == status, answer.text
        if status != 401:
            assert answer.headers["X-Prometheus-Remote-Write-Samples-Written"] == "0"
        assert site.utilisation() == []
        assert not site.store.has_collected()


def test_a_part_that_cannot_be_taken_is_said_and_the_rest_is_stored(tmp_path: Path) -> None:
    nameless = {name: text for name, text in CARD.items() if name != "__name__"}
    with receiver(tmp_path) as site:
        (answer,) = site.post(snappy(series(CARD, sample(40.0, AT_MS)) + series(nameless, sample(1.0, AT_MS))))
        assert answer.status_code == 400
        assert "without the name of a metric" in answer.json()["detail"]
        assert answer.headers["X-Prometheus-Remote-Write-Samples-Written"] == "1"
        assert site.utilisation() == [("GPU-aaaa", AT, 0.4)]


def test_a_sample_stamped_more_than_a_day_after_now_is_refused_and_the_rest_is_stored(tmp_path: Path) -> None:
    with receiver(tmp_path) as site:
        (answer,) = site.post(body_of((40.0, AT_MS), (50.0, (NOW + DAY_US) // 1_000 + 1)))
        assert (answer.status_code, len(site.utilisation())) == (400, 1)


def test_a_batch_on_which_a_reader_fails_is_refused_with_a_finding_and_the_others_are_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = ingest_remote_write.read_points

    def failing(points: Any, *arguments: Any, **more: Any) -> Any:
        points = list(points)
        if any(point.value == 13 for point in points):
            raise ValueError("13")
        return real(points, *arguments, **more)

    monkeypatch.setattr(ingest_remote_write, "read_points", failing)
    with receiver(tmp_path) as site:
        answers = site.post(*(body_of((float(value), AT_MS + value)) for value in (12, 13, 14)))
        assert [answer.status_code for answer in answers] == [204, 400, 204]
        assert [round(ratio, 2) for _uuid, _at, ratio in site.utilisation()] == [0.12, 0.14]
        assert ("reader_failed",) in site.store.rows("SELECT code FROM fact.finding")


def test_a_store_that_is_busy_asks_the_sender_to_come_again_and_then_takes_it(tmp_path: Path) -> None:
    async def asked(site: Receiver) -> list[httpx.Response]:
        async with site.client() as client:
            with site.store.transaction():  # this thread writes, as an import does
                answers = [await client.post(PATH, content=body_of((40.0, AT_MS)))]
            site.write._patience_seconds = 60
            return [*answers, await client.post(PATH, content=body_of((40.0, AT_MS)))]

    with receiver(tmp_path, patience_seconds=0.05) as site:
        later, taken = asyncio.run(asked(site))
        assert later.status_code == 503
        assert int(later.headers["Retry-After"]) > 0
        assert taken.status_code == 204
        assert site.utilisation() == [("GPU-aaaa", AT, 0.4)]


def test_more_requests_than_are_held_are_asked_to_come_again(tmp_path: Path) -> None:
    async def asked(site: Receiver) -> list[httpx.Response]:
        async with site.client() as client:
            requests = [client.post(PATH, content=body_of((40.0, AT_MS + n))) for n in range(UNDER_WAY_MAX + 5)]
            return await asyncio.gather(*requests)

    with receiver(tmp_path) as site:
        answers = asyncio.run(asked(site))
        taken = sum(answer.status_code == 204 for answer in answers)
        assert {answer.status_code for answer in answers} <= {204, 503}
        assert taken >= UNDER_WAY_MAX
        assert len(site.utilisation()) == taken


def test_a_request_that_is_worked_on_is_not_sent_away_however_long_it_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = threading.Event()
    usual = ingest_remote_write.read_points

    def slow(*arguments: Any, **more: Any) -> Any:
        assert gate.wait(60)
        return usual(*arguments, **more)

    monkeypatch.setattr(ingest_remote_write, "read_points", slow)

    async def asked(site: Receiver) -> httpx.Response:
        async with site.client() as client:
            asyncio.get_running_loop().call_later(0.5, gate.set)  # many times its patience
            return await client.post(PATH, content=body_of((40.0, AT_MS)))

    with receiver(tmp_path, patience_seconds=0.02) as site:
        assert asyncio.run(asked(site)).status_code == 204
        assert site.utilisation() == [("GPU-aaaa", AT, 0.4)]


def test_a_body_that_comes_again_gets_the_answer_of_the_first_and_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = []
    usual = ingest_remote_write.read_points
    monkeypatch.setattr(
        ingest_remote_write, "read_points", lambda *args, **more: (read.append(1), usual(*args, **more))[1]
    )
    body = body_of((40.0, AT_MS))

    async def asked(site: Receiver) -> list[int]:
        async with site.client() as client:
            with site.store.transaction():
                first = await client.post(PATH, content=body)
                site.write._patience_seconds = 60
                second = asyncio.create_task(client.post(PATH, content=body))
                await asyncio.sleep(0)
            third = await client.post(PATH, content=body)
            fourth = await client.post(PATH, content=body)
            return [first.status_code, (await second).status_code, third.status_code, fourth.status_code]

    with receiver(tmp_path, patience_seconds=0.05) as site:
        assert asyncio.run(asked(site)) == [503, 204, 204, 204]
        assert len(read) == 1
        assert site.utilisation() == [("GPU-aaaa", AT, 0.4)]


def test_a_body_whose_storing_failed_is_stored_when_it_comes_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_tables: Any) -> Any:
        raise OSError(28, "No space left on device")

    with receiver(tmp_path) as site:
        with monkeypatch.context() as patched:
            patched.setattr(site.store, "append_tables", full)
            (failed,) = site.post(body_of((40.0, AT_MS)))
        assert failed.status_code // 100 == 5
        assert int(failed.headers["Retry-After"]) > 0
        (taken,) = site.post(body_of((40.0, AT_MS)))
        assert taken.status_code == 204
        assert site.utilisation() == [("GPU-aaaa", AT, 0.4)]


def test_only_so_many_samples_go_into_one_transaction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingest_remote_write, "POINTS_AT_ONCE", 3)
    with receiver(tmp_path) as site:
        sizes: list[int] = []
        usual = site.write._write

        def noted(batches: Any) -> None:
            sizes.append(sum(len(batch.points) for batch in batches))
            usual(batches)

        monkeypatch.setattr(site.write, "_write", noted)
        bodies = [body_of(*((40.0, AT_MS + 10 * n + k) for k in range(2))) for n in range(5)]
        bodies.append(body_of(*((40.0, AT_MS + 100 + k) for k in range(7))))
        assert {answer.status_code for answer in site.post(*bodies)} == {204}
        assert sum(sizes) == 17
        assert all(size <= 3 or size == 7 for size in sizes)


@contextmanager
def listening(app: FastAPI) -> Iterator[int]:
    """The app on a port of loopback."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="off"))
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(60)
        listener.close()


def test_a_real_prometheus_that_is_sent_away_comes_again_and_nothing_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingest_remote_write, "RETRY_SECONDS", 1)
    sent_away = threading.Semaphore(0)
    with receiver(tmp_path, 0.2, WallClock()) as site, exporters({"dcgm": TEXT}) as exporter:
        usual = site.write._busy
        monkeypatch.setattr(site.write, "_busy", lambda: (sent_away.release(), usual())[1])
        with listening(site.app) as port:
            target = {
                "url": f"http://127.0.0.1:{port}{PATH}",
                "authorization": {"credentials": site.token},
                "queue_config": {"max_shards": 1, "batch_send_deadline": "250ms", "max_backoff": "1s"},
            }
            with prometheus(tmp_path / "prometheus", exporter, remote_write=target) as url:
                with site.store.transaction():
                    for _ in range(2):
                        assert sent_away.acquire(timeout=60)
                end = exporter.await_scrapes()
                for _turn in range(120):
                    stored = {at for _uuid, at, _ratio in site.utilisation()}
                    if stored and max(stored) >= end:
                        break
                    exporter.await_scrapes(1)
                with PrometheusApi(PrometheusEndpoint(url)) as api:
                    window = Window(end - 10 * MINUTE_US, end)
                    points = list(api.points(["DCGM_FI_DEV_GPU_UTIL"], window, ReadContext()))
    scraped = {point.at for point in points if isinstance(point, MetricPoint)}
    assert scraped
    assert scraped <= stored


def test_a_free_card_is_not_the_exporters_even_where_a_scrape_comes_in_pieces(tmp_path: Path) -> None:
    way = {"job": "dcgm", "instance": "n1:9400", "namespace": "ops", "pod": "agent-x", "container": "c"}
    field = {"__name__": "DCGM_FI_DEV_GPU_UTIL", "hostname": "n1"}
    held = {**field, **way, "UUID": "GPU-aaaa", "exported_pod": "job-0", "exported_namespace": "team-a"}
    free = {**field, **way, "UUID": "GPU-bbbb"}
    with receiver(tmp_path) as site:
        for labels in (held, free):
            site.post(snappy(series(labels, sample(40.0, AT_MS))))
        assert site.store.rows("SELECT pod, device_uuid FROM fact.partition_sample") == [("job-0", "GPU-aaaa")]


@pytest.mark.xdist_group("serving")
def test_what_a_real_prometheus_was_told_is_taken_outlives_the_death_of_the_server(tmp_path: Path) -> None:
    data = tmp_path / "data"
    made = steelyard(
        "token", "create", "--name", "prometheus", "--role", "operator", "--data", data, "--json", cwd=tmp_path
    )
    secret = json.loads(made.stdout)["secret"]
    with serving(data) as server, exporters({"dcgm": TEXT}) as site:
        target = {
            "url": f"http://127.0.0.1:{server.port}{PATH}",
            "authorization": {"credentials": secret},
            "queue_config": {"max_shards": 1, "batch_send_deadline": "250ms"},
        }
        with prometheus(tmp_path / "prometheus", site, remote_write=target) as url:
            first = None
            for _turn in range(60):  # whole seconds are told: two of them hold scrapes
                site.await_scrapes(2)
                sent = SENT.search(httpx.get(f"{url}/metrics", trust_env=False).text)
                at = float(sent.group(1)) if sent else 0.0
                first = first or at
                if first and at >= first + 2:
                    break
            server.end(signal.SIGKILL)
            end = site.await_scrapes()
            with PrometheusApi(PrometheusEndpoint(url)) as api:
                points = list(api.points(["DCGM_FI_DEV_GPU_UTIL"], Window(end - 10 * MINUTE_US, end), ReadContext()))
    assert first
    told = {point.at for point in points if isinstance(point, MetricPoint)}
    told = {each for each in told if each <= at * SECOND_US}
    with Store.open(data) as store:
        stored = {
            at
            for (at,) in store.rows("SELECT epoch_us(occurred_at) FROM fact.device_sample WHERE util_gpu_ratio = 0.4")
        }
    assert told
    assert told <= stored
