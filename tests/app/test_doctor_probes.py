"""Sources on real sockets, examined: what answers, what lies, what hangs, and a cluster that grants only a part."""

from __future__ import annotations

import json
import socket
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from steelyard.app.doctor.cluster_probe import encoding_of, probe_cluster, with_nodes
from steelyard.app.doctor.probes import (
    Deadline,
    probe_audit_log,
    probe_prometheus,
    probe_scrape,
    retention_us,
    skew_us,
)
from steelyard.app.doctor.probing import survey_sources
from steelyard.app.doctor.survey import ClusterSeen, PrometheusSeen, ScrapeSeen
from steelyard.app.settings import Settings
from steelyard.app.source_settings import AuditLogSetting, KubernetesSetting, PrometheusSetting, ScrapeSetting
from steelyard.primitives.clock import WallClock
from steelyard.primitives.instant import DAY_US, SECOND_US, parse_instant
from steelyard.sources.kube_api.resource_kinds import NODES, PODS, RESOURCE_KINDS
from steelyard.sources.shared.context import ReadSettings
from tests.sources.kube_api.played_cluster import PlayedCluster, page, refusal
from tests.sources.prometheus.real_prometheus import exporters, prometheus
from tests.sources.scrape.wild_server import answer, drips, hangs, says, wild_server

A, B = "GPU-aaaaaaaa-0000-4000-8000-000000000001", "GPU-bbbbbbbb-0000-4000-8000-000000000002"
LONG_US = 60 * SECOND_US
NOON = parse_instant("2026-03-10T12:00:00Z")


def card(uuid: str, names: tuple[str, ...] = ("DEV_FB_USED", "DEV_GPU_UTIL")) -> bytes:
    labels = f'gpu="0",UUID="{uuid}",device="nvidia0",modelName="NVIDIA A100",hostname="n1"'
    return "".join(f"DCGM_FI_{name}{{{labels}}} 50\n" for name in names).encode()


def examined(urls: list[str], deadline_us: int = LONG_US, **more: Any) -> ScrapeSeen:
    setting = ScrapeSetting(name="dcgm", url=urls, timeout="60s", **more)  # type: ignore[arg-type]
    return probe_scrape(setting, ReadSettings(), WallClock().now, Deadline.within(deadline_us))


def url(port: int) -> str:
    return f"http://127.0.0.1:{port}/metrics"


def test_targets_are_told_one_by_one_and_read_together() -> None:
    with ExitStack() as servers:
        one, two, bad, page_of_web = (
            servers.enter_context(wild_server(says(data)))
            for data in (
                answer(card(A)),
                answer(card(A)),
                answer(b"", "503 x"),
                answer(b"<html></html>", Content_Type="text/html"),
            )
        )
        found = examined([url(port) for port in (one, two, bad, page_of_web)])
    assert set(found.failed) == {f"127.0.0.1:{bad}", f"127.0.0.1:{page_of_web}"}
    assert "HTTP 503" in found.failed[f"127.0.0.1:{bad}"]
    assert found.metrics.fields == {203, 252}
    assert [count for _one, _two, count in found.metrics.doubled] == [1]


@pytest.mark.parametrize("bad", [hangs, drips], ids=["hangs", "drips"])
def test_a_target_that_takes_for_ever_costs_only_itself(bad: Any) -> None:
    with wild_server(bad) as slow, wild_server(says(answer(card(A)))) as good:
        found = examined([url(slow), url(good)], deadline_us=SECOND_US)
    assert list(found.failed) == [f"127.0.0.1:{slow}"]
    assert found.metrics.devices == {A}


def test_the_clock_of_a_target_is_compared_with_ours() -> None:
    with wild_server(says(answer(card(A), Date="Tue, 10 Mar 2020 12:00:00 GMT"))) as port:
        found = examined([url(port)])
    assert found.skews_us[f"127.0.0.1:{port}"] < -DAY_US


def test_a_token_that_cannot_be_read_is_the_jobs_error_without_the_secret(tmp_path: Path) -> None:
    found = examined(["http://127.0.0.1:1/metrics"], token_file=tmp_path / "none")
    assert found.error is not None
    assert "token file" in found.error


@pytest.mark.parametrize(
    ("date", "expected"),
    [
        ("Tue, 10 Mar 2026 12:00:00 GMT", 0),
        ("Tue, 10 Mar 2026 11:59:59 GMT", 0),
        ("Tue, 10 Mar 2026 12:00:07 GMT", 7 * SECOND_US),
        ("Tue, 10 Mar 2026 11:59:50 GMT", -9 * SECOND_US),
        ("", None),
        ("yesterday", None),
        ("Tue, 10 Mar 99999999999 12:00:00 GMT", None),
        ("Tue, 10 Mar 2026 12:00:00", None),
    ],
)
def test_a_date_header_is_whole_seconds(date: str, expected: int | None) -> None:
    assert skew_us(date, NOON) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("15d", 15 * DAY_US),
        ("15d or 50GiB", 15 * DAY_US),
        ("1w1d", 8 * DAY_US),
        ("50GiB", None),
        ("0s", None),
        ("", None),
        (None, None),
        ("9" * 40 + "d", None),
    ],
)
def test_a_retention_is_a_length_of_time_or_not_known(text: str | None, expected: int | None) -> None:
    assert retention_us(text) == expected


def audit(tmp_path: Path, *lines: str) -> Any:
    path = tmp_path / "audit.log"
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return probe_audit_log(AuditLogSetting(path=path), ReadSettings())


def event(stage: str, level: str = "Request", verb: str = "create") -> str:
    return json.dumps({"apiVersion": "audit.k8s.io/v1", "kind": "Event", "stage": stage, "level": level, "verb": verb})


def test_an_audit_log_is_judged_by_its_last_lines(tmp_path: Path) -> None:
    found = audit(tmp_path, event("RequestReceived"), event("ResponseComplete", "Metadata", "get"), "{", "[1]", "\x00")
    assert (found.events_count, found.refused_count, found.changes_count) == (2, 3, 1)
    assert found.stages == {"RequestReceived", "ResponseComplete"}
    assert found.levels == {"Request", "Metadata"}


def test_of_a_large_audit_log_only_its_end_is_read(tmp_path: Path) -> None:
    found = audit(tmp_path, "x" * (3 << 20), event("ResponseComplete"))
    assert (found.events_count, found.refused_count) == (1, 0)


def test_an_audit_log_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    assert "No such file" in str(probe_audit_log(AuditLogSetting(path=tmp_path / "none"), ReadSettings()).error)
    assert audit(tmp_path).error is None


def test_the_recorded_audit_log_is_in_order(shared: Path) -> None:
    found = probe_audit_log(AuditLogSetting(path=shared / "cases/queues/audit.jsonl"), ReadSettings())
    assert found.events_count > 0
    assert found.refused_count == 0
    assert "ResponseComplete" in found.stages


def examined_cluster(cluster: PlayedCluster, deadline_us: int = LONG_US) -> ClusterSeen:
    setting = KubernetesSetting(name="c1", address=cluster.url)
    return probe_cluster(setting, WallClock().now, Deadline.within(deadline_us))


def node(name: str, **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": name, "resourceVersion": "1", **more.pop("metadata", {})}, **more}


def test_a_cluster_says_what_it_grants_and_who_shares_its_cards() -> None:
    old = f"{A},10,32768,100,NVIDIA-Tesla V100,0,true:"
    with PlayedCluster() as cluster:
        kueue = next(kind for kind in RESOURCE_KINDS if kind.plural == "clusterqueues")
        cluster.quiet(PODS)
        cluster.lists(refusal(403, "forbidden: no", "Forbidden"), kind=kueue)
        nodes = (
            node("n1", metadata={"annotations": {"hami.io/node-nvidia-register": old}}),
            node("n2", status={"capacity": {"nvidia.com/mig-1g.10gb": "7", "cpu": "8"}}),
            node("n3", status={"conditions": [{"type": "Ready", "lastHeartbeatTime": "2090-01-01T00:00:00Z"}]}),
        )
        cluster.lists(page(*nodes, version=1), kind=NODES)
        cluster.watches((b"", cluster.hold), kind=NODES)
        found = examined_cluster(cluster)
    assert found.error is None
    assert found.is_read("pods")
    assert found.is_read("nodes")
    assert found.kinds["clusterqueues.kueue.x-k8s.io"].state == "forbidden"
    assert found.kinds["clusterqueues.kueue.x-k8s.io"].verb == "list"
    assert (found.hami, dict(found.encodings), dict(found.mig_by_node)) == (True, {"csv7": 1}, {"n2": 7})
    assert found.node_skews_us["n3"] > DAY_US
    assert found.skew_us is not None


def test_a_kind_that_may_be_listed_and_not_watched_is_forbidden() -> None:
    with PlayedCluster() as cluster:
        cluster.lists(page(version=1))
        cluster.watches(refusal(403, "cannot watch", "Forbidden"))
        found = examined_cluster(cluster)
    assert (found.kinds["pods"].state, found.kinds["pods"].verb) == ("forbidden", "watch")


def test_an_address_that_is_no_api_server_serves_no_pods() -> None:
    with wild_server(says(answer(b"not found", "404 Not Found", Connection="close"))) as port:
        setting = KubernetesSetting(name="c1", address=f"http://127.0.0.1:{port}")
        found = probe_cluster(setting, WallClock().now, Deadline.within(LONG_US))
    assert {kind.state for kind in found.kinds.values()} == {"not_installed"}


@pytest.mark.parametrize(
    ("register", "form"),
    [
        ("[]", "json"),
        (f"{A},10,1,100,T4,0,true:", "csv7"),
        (f"{A},10,1,100,T4,0,true,0,hami-core:", "csv9"),
        ("a,b", "unknown"),
        (",", "unknown"),
    ],
)
def test_a_register_is_known_by_its_form(register: str, form: str) -> None:
    assert encoding_of(register) == form


def test_the_recorded_registers_are_known_by_their_forms(shared: Path) -> None:
    found = set()
    for item in json.loads((shared / "cases/hami/nodes_hami.json").read_text(encoding="utf-8"))["items"]:
        register = item["metadata"].get("annotations", {}).get("hami.io/node-nvidia-register")
        if register:
            found.add(encoding_of(register))
    assert {"csv7", "csv9", "json"} <= found


def asked(address: str, **more: Any) -> PrometheusSeen:
    setting = PrometheusSetting(name="main", url=address, timeout="30s", **more)  # type: ignore[arg-type]
    return probe_prometheus(setting, WallClock().now, Deadline.within(LONG_US))


def test_a_real_prometheus_tells_its_retention_and_what_it_scrapes(tmp_path: Path) -> None:
    texts = {"a": card(A), "b": card(A), "c": card(B, ("PROF_SM_ACTIVE", "DEV_FB_USED"))}
    with (
        exporters(texts) as site,
        prometheus(tmp_path, site, arguments=("--storage.tsdb.retention.time=9d",)) as address,
    ):
        site.await_scrapes()
        found = asked(address)
    assert found.error is None
    assert found.retention_us == 9 * DAY_US
    assert found.version
    assert found.names_known
    assert found.metrics.families == {"dcgm"}
    assert found.metrics.devices == {A, B}
    assert [each.fields for each in found.metrics.exporters].count(frozenset({252, 1002})) == 1
    assert [count for _one, _two, count in found.metrics.doubled] == [1]


def test_what_is_no_prometheus_is_an_error() -> None:
    with wild_server(says(answer(b"nothing here", "404 Not Found"))) as port:
        assert "no Prometheus API" in str(asked(f"http://127.0.0.1:{port}").error)
    assert asked(f"http://127.0.0.1:{port}").error is not None


def test_a_prometheus_without_status_pages_and_without_names_is_still_asked() -> None:
    sample = {"metric": {"__name__": "DCGM_FI_DEV_FB_USED", "UUID": A, "gpu": "0", "instance": "i"}, "values": []}

    def behave(connection: socket.socket, head: bytes, _over: threading.Event) -> None:
        if b"/status/" in head or b"/label/" in head:
            connection.sendall(answer(b"none", "404 Not Found", Connection="close"))
            return
        row = {**sample, "values": [[time.time() - 30, "5"]]}
        body = {"status": "success", "data": {"resultType": "matrix", "result": [row]}}
        connection.sendall(answer(json.dumps(body).encode(), Content_Type="application/json", Connection="close"))

    with wild_server(behave) as port:
        found = asked(f"http://127.0.0.1:{port}")
    assert (found.error, found.names_known, found.retention, found.version) == (None, False, None, None)
    assert found.metrics.devices == {A}


def test_a_source_that_never_ends_is_not_waited_for(tmp_path: Path) -> None:
    with wild_server(hangs) as slow, wild_server(says(answer(card(A)))) as good:
        settings = Settings(
            kubernetes=({"name": "c", "address": f"http://127.0.0.1:{slow}"},),  # type: ignore[arg-type]
            scrape=({"name": "dcgm", "url": url(good)},),  # type: ignore[arg-type]
            prometheus=({"name": "main", "url": f"http://127.0.0.1:{slow}"},),  # type: ignore[arg-type]
        )
        found = survey_sources(settings, WallClock(), SECOND_US)
    (job,) = found.of(ScrapeSeen)
    assert job.metrics.devices == {A}
    failed = {name for name, each in found.seen.items() if each is not None and getattr(each, "error", None)}
    assert failed | set(found.unanswered) == {"kubernetes/c", "prometheus/main"}


def test_a_mistake_over_one_source_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def mistaken(*_arguments: Any) -> Any:
        raise KeyError("ours")

    monkeypatch.setattr("steelyard.app.doctor.probes.probe_audit_log", mistaken)
    with wild_server(says(answer(card(A)))) as good:
        settings = Settings(
            scrape=({"name": "dcgm", "url": url(good)},),  # type: ignore[arg-type]
            audit_log=({"name": "audit", "path": "/nowhere"},),  # type: ignore[arg-type]
        )
        found = survey_sources(settings, WallClock(), LONG_US)
    assert found.faults == {"audit_log/audit": "KeyError"}
    assert len(found.of(ScrapeSeen)) == 1


WRONG_NODES: list[Any] = [
    None, 5, "x", [], {"metadata": None}, {"metadata": {"annotations": ["a"], "name": 5}}, {"status": {"capacity": {"nvidia.com/mig-1g": 7}}},
    {"status": {"conditions": [5, {"type": "Ready", "lastHeartbeatTime": 9}]}}, {"metadata": {"annotations": {"hami.io/node-nvidia-register": {}}}},
]  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG_NODES, ids=repr)
def test_nodes_of_a_wrong_shape_are_passed_over(wrong: Any) -> None:
    body = json.dumps({"items": [wrong, node("n2", status={"capacity": {"nvidia.com/mig-1g.10gb": "7"}})]}).encode()
    found = with_nodes(ClusterSeen("c"), body, NOON)
    assert dict(found.mig_by_node) == {"n2": 7}
    assert dict(found.encodings) == {}


@pytest.mark.parametrize("body", [b"", b"[]", b'{"items": 5}', b"\xff", b"[" * 100_000], ids=lambda body: body[:9])
def test_a_listing_of_a_wrong_shape_tells_nothing(body: bytes) -> None:
    assert with_nodes(ClusterSeen("c"), body, NOON).encodings == {}
