"""Targets that mean harm, over real sockets: a round ends in time and in bounds, says what it dropped, and the others count."""

from __future__ import annotations

import gzip
import hashlib
import json
import socket
import threading
import tracemalloc
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest

from steelyard.app.collection import CollectionSpec
from steelyard.app.collectors import kubernetes as kubernetes_collector
from steelyard.app.collectors import scrape as scrape_collector
from steelyard.app.collectors.kubernetes import KubernetesCollector
from steelyard.app.collectors.prometheus import PrometheusCollector
from steelyard.app.collectors.scrape import ScrapeCollector
from steelyard.app.source_settings import KubernetesSetting, PrometheusSetting, ScrapeSetting
from steelyard.primitives.errors import SourceUnavailable
from steelyard.primitives.instant import HOUR_US, SECOND_US, Window
from steelyard.sources.exposition import read_exposition
from steelyard.sources.prometheus import PrometheusApi, PrometheusEndpoint
from steelyard.sources.shared.context import ReadContext, ReadSettings
from steelyard.sources.shared.read_bound import Cut, ReadBound
from steelyard.store import Store
from tests.app.collecting import collecting
from tests.sources.scrape.wild_server import Behaviour, answer, drips, drips_headers, says, wild_server

CARD = (
    b'DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-aaaaaaaa-0000-4000-8000-000000000001",device="nvidia0",Hostname="n1"} 100\n'
)
JUNK = answer(gzip.compress(b"x\n" * 30_000_000, 1), Content_Encoding="gzip")
"""Sixty megabytes of lines that are none, in a small answer: minutes of work for whoever reads them all."""


def scrape(ports: Sequence[int], **more: Any) -> Any:
    urls = [f"http://127.0.0.1:{port}/metrics" for port in ports]
    setting = ScrapeSetting(name="dcgm", url=urls, **{"interval": "1h", "timeout": "60s", **more})  # type: ignore[arg-type]
    return lambda: ScrapeCollector(setting, "c", ReadSettings())


def cards(store: Store) -> int:
    return int(store.rows("SELECT count(*) FROM fact.device_sample")[0][0])


def failures(store: Store) -> list[tuple[str, str]]:
    return store.rows("SELECT scope, message FROM fact.source_status WHERE status = 'failed' ORDER BY ALL")


def sends_without_end(connection: socket.socket, _head: bytes, over: threading.Event) -> None:
    """Two hundred megabytes of decent lines."""
    line = b'x{n="%09d"} 1\n'
    connection.sendall(answer(b"", Content_Length="200000000"))
    for start in range(0, 200_000_000 // len(line % 0), 10_000):
        if over.is_set():
            return
        connection.sendall(b"".join(line % number for number in range(start, start + 10_000)))


PACKED = answer(gzip.compress((b'x{n="%09d"} 1\n' % 7) * 11_000_000, 1), Content_Encoding="gzip")

WAYS: dict[str, tuple[Behaviour, str, str]] = {
    "dribbles": (drips, "2s", "no whole answer within 2 s"),
    "dribbles its head": (drips_headers, "2s", "no whole answer within 2 s"),
    "200 MB": (sends_without_end, "60s", "larger than"),
    "200 MB packed": (says(PACKED), "60s", "expands to more than"),
    "lines that are none": (says(JUNK), "2s", "takes more than 2 s of processor time"),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_target_that_goes_on_and_on_is_dropped_and_said_and_the_others_count(way: str) -> None:
    behave, timeout, words = WAYS[way]
    with (
        wild_server(behave) as worse,
        wild_server(says(answer(CARD))) as good,
        collecting([scrape([worse, good], timeout=timeout)], on_request=True) as (loop, store),
    ):
        (report,) = loop.collect_now([]).rounds
        assert (report.status, cards(store)) == ("partial", 1)
        ((scope, message),) = failures(store)
        assert scope == f"target/127.0.0.1:{worse}"
        assert words in message
        assert report.findings_by_code == {"source_unavailable": 1}


def test_a_round_is_cut_at_its_time_also_while_a_text_is_read_and_nothing_of_it_is_kept() -> None:
    spec = CollectionSpec(round_us_max=2 * SECOND_US)
    with wild_server(says(answer(CARD))) as good, wild_server(says(JUNK)) as worse:
        makers = [scrape([good, worse], interval="1s")]
        with collecting(makers, spec=spec, on_request=True) as (loop, store):
            (report,) = loop.collect_now([]).rounds
            assert report.status == "failed"
            assert "cut short" in (report.message or "")
            assert cards(store) == 0
            assert store.rows("SELECT DISTINCT code FROM fact.finding") == [("round_overdue",)]
            assert store.rows("SELECT DISTINCT status FROM fact.source_status") == [("failed",)]


def test_a_round_is_cut_also_while_its_points_are_read() -> None:
    cut = Cut()
    seen = []
    with pytest.raises(SourceUnavailable, match="cut short"):
        for each in cut.watched(range(10_000_000)):
            seen.append(each)
            cut.say()
    assert len(seen) < 10_000


def test_all_targets_of_a_round_together_bring_no_more_samples_than_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scrape_collector, "POINTS_MAX", 150)
    many = b"".join(b'x{n="%d"} 1\n' % number for number in range(100))
    with (
        wild_server(says(answer(many))) as one,
        wild_server(says(answer(many))) as two,
        collecting([scrape([one, two])], on_request=True) as (loop, store),
    ):
        loop.collect_now([])
        assert [message.split(":")[0] for _scope, message in failures(store)] == [
            "the targets of this round have more samples than fit"
        ]


def test_lines_are_cut_from_a_text_as_they_are_read() -> None:
    text = "\n" * 400_000
    tracemalloc.start()
    try:
        assert list(read_exposition(text, ReadContext())) == []
        assert tracemalloc.get_traced_memory()[1] < 2 << 20
    finally:
        tracemalloc.stop()


def test_a_text_is_read_no_longer_than_its_bound() -> None:
    with pytest.raises(SourceUnavailable, match="reading takes more than 0 s"):
        list(read_exposition("a 1\n" * 100_000, ReadContext(), bound=ReadBound(0, "reading")))


def noise(readable_count: int) -> bytes:
    lines = hashlib.shake_256(b"noise").digest(1 << 20).replace(b"\0", b"\1").split(b"\n")
    for number in range(readable_count):
        lines.insert(number * 3, b'vllm:num_requests_running{model_name="m%d"} 1' % number)
    return b"\n".join(lines)


def test_a_body_that_is_mostly_unreadable_is_a_failed_read_with_one_finding_and_nothing_of_it_counts() -> None:
    with (
        wild_server(says(answer(noise(10)))) as worse,
        wild_server(says(answer(CARD))) as good,
        collecting([scrape([worse, good])], on_request=True) as (loop, store),
    ):
        first, second = (loop.collect_now([]).rounds[0] for _ in range(2))
        assert (first.status, cards(store)) == ("partial", 2)
        ((scope, message),) = set(failures(store))
        assert scope == f"target/127.0.0.1:{worse}"
        assert message.startswith("malformed: ")
        assert "and 10 can" in message
        assert first.findings_by_code == {"source_malformed": 1}
        assert second.findings_by_code == {}
        assert store.rows("SELECT count(*) FROM fact.metric_sample") == [(0,)]


@pytest.mark.parametrize(("refused", "status"), [(2, "ok"), (3, "failed")])
def test_as_many_lines_read_as_refused_are_an_answer_and_one_more_refused_is_none(refused: int, status: str) -> None:
    text = CARD + CARD.replace(b"FB_USED", b"GPU_UTIL") + b"}{ 7\n" * refused
    with wild_server(says(answer(text))) as port, collecting([scrape([port])], on_request=True) as (loop, store):
        assert loop.collect_now([]).rounds[0].status == status
        assert cards(store) == (1 if status == "ok" else 0)


@pytest.mark.parametrize("behave", [drips, drips_headers], ids=["body", "head"])
def test_a_prometheus_that_dribbles_is_a_failed_round(behave: Behaviour) -> None:
    with wild_server(behave) as port:
        setting = PrometheusSetting(name="p", url=f"http://127.0.0.1:{port}", interval="1h", timeout="1s")  # type: ignore[arg-type]
        maker = partial(PrometheusCollector, setting, "c", ReadSettings())
        with collecting([maker], on_request=True) as (loop, store):
            (report,) = loop.collect_now([]).rounds
            assert report.status == "failed"
            assert "no whole answer in 1 s" in (report.message or "")
            assert report.findings_by_code == {"source_unavailable": 1}
            assert cards(store) == 0


@pytest.mark.parametrize("behave", [drips, drips_headers], ids=["body", "head"])
def test_closing_ends_a_question_to_a_prometheus_that_is_under_way(behave: Behaviour) -> None:
    asked = threading.Event()

    def noted(connection: socket.socket, head: bytes, over: threading.Event) -> None:
        asked.set()
        behave(connection, head, over)

    with wild_server(noted) as port:
        api = PrometheusApi(PrometheusEndpoint(f"http://127.0.0.1:{port}", timeout_seconds=300))
        found: list[BaseException] = []

        def ask() -> None:
            try:
                list(api.points(["up"], Window(0, HOUR_US), ReadContext()))
            except SourceUnavailable as error:
                found.append(error)

        thread = threading.Thread(target=ask)
        thread.start()
        assert asked.wait(60)
        api.close()
        thread.join(60)
        assert not thread.is_alive()
        assert len(found) == 1


@pytest.mark.parametrize("behave", [drips, drips_headers], ids=["body", "head"])
def test_an_api_server_that_dribbles_is_a_failed_round_and_ends_with_its_collector(
    behave: Behaviour, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kubernetes_collector, "FIRST_LISTING_SECONDS", 1.0)
    with wild_server(behave) as port:
        setting = KubernetesSetting(name="k", address=f"http://127.0.0.1:{port}", interval="1h")  # type: ignore[arg-type]
        maker = partial(KubernetesCollector, setting, "c", ReadSettings())
        with collecting([maker], on_request=True) as (loop, store):
            (report,) = loop.collect_now([]).rounds
            assert report.status == "failed"
            assert "pods" in (report.message or "")
            assert store.rows("SELECT count(*) FROM fact.sighting") == [(0,)]


ANSWERS: dict[str, bytes] = {
    "HTML": b"<html>sign in</html>",
    "another shape": b'{"status": "success", "data": {"resultType": "vector", "result": {"a": 1}}}',
    "a list": b"[]",
    "nothing": b"",
    "a number for data": b'{"status": "success", "data": 7}',
    "cut off": b'{"status": "success", "data": {"result": [{"metric": {"__name__": "DCGM_FI_DEV_GPU_UTIL"',
    "deep": b'{"status": "success", "data": ' + b"[" * 200_000,
    "wrong label types": b'{"status": "success", "data": {"resultType": "matrix", "result": [{"metric": {"__name__": 7}, "values": [[1, "1"]]}]}}',
    "values that are texts": b'{"status": "success", "data": {"resultType": "matrix", "result": [{"metric": {}, "values": [["x", "y"]]}]}}',
    "stamps beyond time": b'{"status": "success", "data": {"resultType": "matrix", "result": [{"metric": {"__name__": "up"}, "values": '
    b'[[1e300, "1"]]}]}}',
    "no UTF-8": b'{"status": "success", "data": {"result": [{"metric": {"a": "\xff\xfe"}, "values": []}]}}',
    "an error of numbers": b'{"status": 1, "error": 2}',
}


@pytest.mark.parametrize("said", ANSWERS)
def test_a_prometheus_that_answers_nonsense_is_no_facts_and_no_mistake_of_ours(said: str) -> None:
    with wild_server(says(answer(ANSWERS[said], Content_Type="application/json"))) as port:
        setting = PrometheusSetting(name="p", url=f"http://127.0.0.1:{port}", interval="1h")  # type: ignore[arg-type]
        with collecting([partial(PrometheusCollector, setting, "c", ReadSettings())], on_request=True) as (loop, store):
            (report,) = loop.collect_now([]).rounds
            codes = set(report.findings_by_code)
            assert (report.status == "failed") or "source_malformed" in codes, (report, codes)
            assert "reader_failed" not in codes
            assert cards(store) == 0


def test_a_prometheus_that_redirects_for_ever_is_not_followed() -> None:
    redirect = b"HTTP/1.1 302 Found\r\nLocation: /api/v1/query\r\nContent-Length: 0\r\n\r\n"
    with wild_server(says(redirect)) as port:
        setting = PrometheusSetting(name="p", url=f"http://127.0.0.1:{port}", interval="1h")  # type: ignore[arg-type]
        with collecting([partial(PrometheusCollector, setting, "c", ReadSettings())], on_request=True) as (
            loop,
            _store,
        ):
            (report,) = loop.collect_now([]).rounds
            assert report.status == "failed"
            assert "HTTP 302" in (report.message or "")


def test_a_prometheus_whose_numbers_are_none_or_not_finite_brings_no_card_at_work() -> None:
    rows = [
        {
            "metric": {"__name__": "DCGM_FI_DEV_GPU_UTIL", "UUID": f"GPU-{n}", "gpu": str(n), "Hostname": "n1"},
            "values": [[0, text]],
        }
        for n, text in enumerate(("NaN", "+Inf", "-Inf", "1e400", "0x10", "", "9" * 5_000, "\u0661"))
    ]

    def behave(connection: socket.socket, head: bytes, _over: threading.Event) -> None:
        names = ["DCGM_FI_DEV_GPU_UTIL"]
        at = float(scrape_time[0])
        for row in rows:
            row["values"][0][0] = at  # type: ignore[index]
        data: Any = names if b"label/" in head else {"resultType": "matrix", "result": rows}
        body = json.dumps({"status": "success", "data": data}).encode()
        connection.sendall(answer(body, Content_Type="application/json"))

    scrape_time = [1_700_000_000 - 30]
    with wild_server(behave) as port:
        setting = PrometheusSetting(name="p", url=f"http://127.0.0.1:{port}", interval="1h")  # type: ignore[arg-type]
        collector = PrometheusCollector(setting, "c", ReadSettings())
        facts = list(collector.collect(1_700_000_000 * SECOND_US))
        collector.close()
    ratios = {getattr(fact, "gpu_util_ratio", None) for fact in facts}
    assert ratios == {None}
    assert "source_malformed" in {getattr(fact, "code", None) for fact in facts}
