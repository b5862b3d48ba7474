"""Scrape jobs in the loop: all targets of a job in one round, each failing for itself, and never a zero for what was not seen."""

from __future__ import annotations

import gzip
import json
import socket
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from steelyard.app.collectors.prometheus import PrometheusCollector
from steelyard.app.collectors.scrape import ScrapeCollector
from steelyard.app.settings import load_settings
from steelyard.app.source_settings import PrometheusSetting, ScrapeSetting
from steelyard.primitives.errors import UsageError
from steelyard.sources.shared.context import ReadSettings
from steelyard.store import Store
from tests.app.collecting import collecting
from tests.sources.scrape.wild_server import Behaviour, answer, hangs, says, wild_server

WAIT = 60


def card(uuid: str, memory_mib: int = 100) -> bytes:
    labels = f'gpu="0",UUID="{uuid}",device="nvidia0",modelName="NVIDIA A100",Hostname="n1"'
    return f"DCGM_FI_DEV_FB_USED{{{labels}}} {memory_mib}\nDCGM_FI_DEV_GPU_UTIL{{{labels}}} 50\n".encode()


A, B = "GPU-aaaaaaaa-0000-4000-8000-000000000001", "GPU-bbbbbbbb-0000-4000-8000-000000000002"


def job(ports: Sequence[int], **more: Any) -> Any:
    urls = [f"http://127.0.0.1:{port}/metrics" for port in ports]
    setting = ScrapeSetting(name="dcgm", url=urls, interval="1h", **{"timeout": "60s", **more})  # type: ignore[arg-type]
    return lambda: ScrapeCollector(setting, "c", ReadSettings())


def cards(store: Store) -> list[tuple[Any, ...]]:
    return store.rows("SELECT DISTINCT device_uuid, memory_used_mib FROM fact.device_sample ORDER BY ALL")


def failed(store: Store) -> list[str]:
    return [
        scope for (scope,) in store.rows("SELECT scope FROM fact.source_status WHERE status = 'failed' ORDER BY ALL")
    ]


def test_all_targets_of_a_job_are_one_round_with_one_instant() -> None:
    with ExitStack() as servers:
        ports = [servers.enter_context(wild_server(says(answer(card(uuid))))) for uuid in (A, B)]
        with collecting([job(ports, labels={"zone": "z"})], on_request=True) as (loop, store):
            (report,) = loop.collect_now([]).rounds
            assert (report.status, cards(store)) == ("ok", [(A, 100), (B, 100)])
            assert store.rows("SELECT count(DISTINCT occurred_at) FROM fact.device_sample") == [(1,)]
            assert failed(store) == []


BAD: list[Behaviour] = [
    hangs,
    says(b"garbage"),
    says(answer(b"<html></html>", Content_Type="text/html")),
    says(answer(gzip.compress(b"\0" * 200_000_000), Content_Encoding="gzip")),
    says(answer(b"")),
    says(answer(b"# HELP nothing here\n")),
    says(answer(b"".join(b'x{n="%d"} 1\n' % number for number in range(101)))),
]


@pytest.mark.parametrize("bad", BAD, ids=["hangs", "garbage", "html", "bomb", "empty", "no sample", "too many samples"])
def test_a_bad_target_is_a_failed_status_of_its_own_and_the_others_count(bad: Behaviour) -> None:
    timeout = "2s" if bad is hangs else "60s"
    with (
        wild_server(bad) as worse,
        wild_server(says(answer(card(A)))) as good,
        collecting([job([worse, good], timeout=timeout, samples_max=100)], on_request=True) as (loop, store),
    ):
        (report,) = loop.collect_now([]).rounds
        assert report.status == "partial"
        assert failed(store) == [f"target/127.0.0.1:{worse}"]
        assert cards(store) == [(A, 100)]
        assert report.findings_by_code["source_unavailable"] == 1


def test_a_source_that_answers_503_and_then_well_is_failed_and_then_well_and_waited_for() -> None:
    answers = [answer(b"", "503 x", Retry_After="1"), answer(card(A))]

    def behave(connection: socket.socket, _head: bytes, _over: threading.Event) -> None:
        connection.sendall(answers.pop(0) if len(answers) > 1 else answers[0])

    with wild_server(behave) as port, collecting([job([port])], on_request=True) as (loop, store):
        first = loop.collect_now([]).rounds[0]
        assert (first.status, cards(store)) == ("failed", [])
        assert "HTTP 503" in (first.message or "")
        assert loop.status()[0].state == "failing"
        second = loop.collect_now([]).rounds[0]
        assert (second.status, cards(store)) == ("ok", [(A, 100)])
        assert loop.status()[0].consecutive_failures_count == 0


def test_two_exporters_of_one_card_are_seen_together() -> None:
    with (
        wild_server(says(answer(card(A)))) as one,
        wild_server(says(answer(card(A)))) as two,
        collecting([job([one, two])], on_request=True) as (loop, store),
    ):
        loop.collect_now([])
        assert store.rows("SELECT count(*) FROM fact.device_sample") == [(1,)]


def test_a_second_scrape_of_unchanged_text_adds_samples_and_no_new_findings() -> None:
    text = card(A) + b"not a metric line at all {{{\n"
    with wild_server(says(answer(text))) as port, collecting([job([port])], on_request=True) as (loop, _store):
        first, second = loop.collect_now([]).rounds[0], loop.collect_now([]).rounds[0]
        assert first.findings_by_code["source_malformed"] == 1
        assert "source_malformed" not in second.findings_by_code
        assert second.new_count > 0


def test_a_prometheus_that_is_down_or_none_is_a_failed_source() -> None:
    for behave in (says(answer(b"<html></html>", Content_Type="text/html")), says(answer(b"", "503 x"))):
        with wild_server(behave) as port:
            setting = PrometheusSetting(name="p", url=f"http://127.0.0.1:{port}", interval="1h")  # type: ignore[arg-type]
            make = lambda setting=setting: PrometheusCollector(setting, "c", ReadSettings())  # noqa: E731
            with collecting([make], on_request=True) as (loop, store):
                assert loop.collect_now([]).rounds[0].status == "failed"
                assert failed(store) == ["prometheus/p"]
                assert store.cursor("prometheus/p") is None


MISTAKES = [
    ('[[scrape]]\nname = "a"\nurl = "http://user:hunter2@n1/"', "scrape.0.url", "hunter2"),
    ('[[scrape]]\nname = "a"\nurl = "http://n1/"\ntoken = "hunter2"', "scrape.0.token", "hunter2"),
    ('[[scrape]]\nname = "a b"\nurl = "http://n1/"', "scrape.0.name", None),
    ('[[scrape]]\nname = "a"\nurl = ["http://n1/", "http://n1/"]', "scrape.0.url", None),
    ('[[scrape]]\nname = "a"\nurl = "http://n1/"\ninterval = 30', "scrape.0.interval", None),
    ('[[scrape]]\nname = "a"\nurl = "http://n1/"\ninterval = "0s"', "scrape.0.interval", None),
    ('[[prometheus]]\nname = "a"\nurl = "http://n1/"\nusername = "x"\npassword = "hunter2"', "prometheus.0", "hunter2"),
    ('[[kubernetes]]\nname = "a"', "kubernetes.0", None),
    ('[[kubernetes]]\nname = "a"\nin_cluster = true\ncontext = "x"', "kubernetes.0", None),
    ('[[audit_log]]\nfile = "x"', "audit_log.0", None),
    ('[collection]\npost_interval = "soon"', "collection.post_interval", None),
]


@pytest.mark.parametrize(("text", "where", "secret"), MISTAKES)
def test_a_mistake_in_the_settings_is_one_clear_line_without_the_secret(
    tmp_path: Path, text: str, where: str, secret: str | None
) -> None:
    (tmp_path / "steelyard.toml").write_text(text)
    with pytest.raises(UsageError) as refused:
        load_settings(tmp_path)
    assert where in str(refused.value)
    assert secret is None or secret not in str(refused.value)


def test_sources_may_stand_in_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEELYARD_SCRAPE", json.dumps([{"name": "a", "url": "http://n1:9400"}]))
    monkeypatch.setenv("STEELYARD_COLLECTION__POST_INTERVAL", "5s")
    settings = load_settings(tmp_path)
    assert (settings.scrape[0].name, settings.collection.post_interval) == ("a", 5_000_000)


def test_a_cluster_without_a_name_is_that_of_the_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "steelyard.toml").write_text('cluster = "east-1"\n[[kubernetes]]\nin_cluster = true\n')
    assert load_settings(tmp_path).kubernetes[0].name == "east-1"
    monkeypatch.setenv("STEELYARD_CLUSTER", "west-2")
    assert load_settings(tmp_path).kubernetes[0].name == "west-2"
    (tmp_path / "steelyard.toml").write_text('[[kubernetes]]\nin_cluster = true\nname = "own"\n')
    assert load_settings(tmp_path).kubernetes[0].name == "own"
