"""The live demo: a pod that is started now is a holder after the next round, and the ledgers close all the while."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

from steelyard.app.declaring import Declaring
from steelyard.app.demo_cluster import DemoCluster
from steelyard.app.demo_live import LiveDemo, _write_kubeconfig
from steelyard.app.settings import Settings
from steelyard.primitives.clock import FixedClock
from steelyard.primitives.errors import UsageError
from steelyard.primitives.instant import DAY_US, HOUR_US, parse_instant
from steelyard.simulation.live import LiveEstate, LiveSpec
from steelyard.store import Store
from steelyard.surfaces.shared.client import ServerClient, find_server
from steelyard.surfaces.shared.money_ports import DeclareRequest
from steelyard.surfaces.shared.ports import DemoSpec
from tests.app.forked_commands import commands

NOW = parse_instant("2026-11-30T12:00:00Z")
WAIT = 120
POD = {
    "metadata": {"name": "started-now"},
    "spec": {"containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]},
}


def answered(client: ServerClient) -> tuple[set[str], dict[str, Any]]:
    """The pods that hold something, or may, and the figures."""
    found = client.get("/answers/q1")
    tables = {table["name"]: table for table in found["tables"]}
    names = [column["name"] for column in tables["holders"]["columns"]]
    figures = {figure["name"]: figure["value"] for figure in found["figures"]}
    return {row[names.index("pod")] for row in tables["holders"]["rows"]}, figures


def further_routes() -> set[str]:
    """What every server serves beside the questions."""
    words = (
        "backfill",
        "doctor",
        "ingest/agent",
        "ingest/audit",
        "ingest/remote-write",
        "upkeep/backup",
        "upkeep/retention",
    )
    return {f"/api/v1/{word}" for word in words}


@pytest.mark.xdist_group("serving")
def test_a_pod_that_is_started_now_is_a_holder_after_the_next_round_and_none_after_its_end(tmp_path: Path) -> None:
    data = tmp_path / "d"
    pause = threading.Event()
    with commands(tmp_path) as run:
        process = run.start(["demo", "--live", "--gpus", "8", "--days", "2", "--data", data, "--listen", "127.0.0.1:0"])
        for _ in range(WAIT * 10):
            if (address := find_server(data)) is not None:
                break
            pause.wait(0.1)
        assert address is not None, run.output.read_text()
        client = ServerClient(address)
        report = client.post("/collect")
        assert {each["name"]: each["status"] for each in report["rounds"]} == {
            "kubernetes/default": "ok",
            "scrape/dcgm": "ok",
        }
        assert further_routes() <= set(client.get("/openapi.json")["paths"])
        examined = client.post("/doctor")
        assert not [each for each in examined["not_tested"] if "no live source" in each]
        assert {each["name"] for each in examined["sources"]} >= {"kubernetes/default", "scrape/dcgm"}
        pods, figures = answered(client)
        assert pods
        assert "started-now" not in pods
        assert figures["ledger_residual_gpu_us"] == 0
        config = json.loads((data / "demo-sources/kubeconfig").read_text())
        pods_url = config["clusters"][0]["cluster"]["server"] + "/api/v1/namespaces/team-x/pods"
        assert httpx.post(pods_url, json=POD, trust_env=False).status_code == 201
        client.post("/collect", [("only", "kubernetes/default")])
        pods, figures = answered(client)
        assert "started-now" in pods
        assert figures["ledger_residual_gpu_us"] == 0
        assert httpx.delete(f"{pods_url}/started-now", trust_env=False).status_code == 200
        client.post("/collect", [("only", "kubernetes/default")])
        client.post("/collect", [("only", "kubernetes/default")])
        assert "started-now" not in answered(client)[0]
        money = {figure["name"]: figure["value"] for figure in client.get("/answers/q9")["figures"]}
        assert (money["currency"], money["cost_residual_micro"]) == ("USD", 0)
        assert money["charge_total"] > 0
        os.kill(process, signal.SIGTERM)
        assert run.wait() == 0, run.output.read_text()


def test_prices_that_somebody_declared_in_a_live_demo_stay(tmp_path: Path) -> None:
    demo = LiveDemo(tmp_path, Settings(), FixedClock(NOW))
    spec = demo._claim(DemoSpec(8, 3, 7))
    demo._declare_money(spec)
    own = b"side,currency,price,per\ncharge,USD,1.00,hour\n"
    with Store.open(tmp_path) as store:
        Declaring(store, Settings(), lambda _store: 0, FixedClock(NOW)).declare(
            DeclareRequest("price_book", own, "own.csv")
        )
    demo._declare_money(spec)
    with Store.open(tmp_path) as store:
        assert store.rows("SELECT version, lines_count, declared_by FROM fact.price_book ORDER BY version")[-1][:2] == (
            2,
            1,
        )
        assert store.rows("SELECT count(DISTINCT version) FROM fact.tenancy") == [(1,)]


def test_the_same_directory_goes_on_with_its_estate_and_another_is_refused(tmp_path: Path) -> None:
    demo = LiveDemo(tmp_path, Settings(), FixedClock(NOW))
    spec = demo._claim(DemoSpec(8, 3, 7))
    assert spec.begins_at == NOW - DAY_US
    later = LiveDemo(tmp_path, Settings(), FixedClock(NOW + HOUR_US))
    assert later._claim(DemoSpec(8, 3, 7)) == spec
    (tmp_path / "steelyard.duckdb").touch()
    for demo_spec, at in ((DemoSpec(9, 3, 7), NOW), (DemoSpec(8, 3, 7), NOW + 3 * DAY_US)):
        with pytest.raises(UsageError, match="already holds other data"):
            LiveDemo(tmp_path, Settings(), FixedClock(at))._claim(demo_spec)


def test_what_changed_is_told_with_versions_that_grow_and_from_any_version_on() -> None:
    clock = FixedClock(NOW)
    cluster = DemoCluster(LiveEstate(LiveSpec(8, 2, 7, begins_at=NOW - DAY_US)), clock)
    try:
        cluster.step()
        listed = json.loads(cluster.listed("pods"))
        version = int(listed["metadata"]["resourceVersion"])
        assert all(int(pod["metadata"]["resourceVersion"]) <= version for pod in listed["items"])
        cluster.create("team-x", json.loads(json.dumps(POD)))
        cluster.delete("team-x", "started-now")
        stream = (json.loads(line) for line in cluster.watched("pods", version, 60))
        first, second, mark = next(stream), next(stream), next(stream)
        assert [first["type"], second["type"], mark["type"]] == ["ADDED", "DELETED", "BOOKMARK"]
        assert (
            version
            < int(first["object"]["metadata"]["resourceVersion"])
            < int(second["object"]["metadata"]["resourceVersion"])
        )
    finally:
        cluster._server.server_close()


def test_kubectl_finds_what_it_asks_for_to_apply_and_to_get_a_pod_and_hears_what_cannot_be_done() -> None:
    cluster = DemoCluster(LiveEstate(LiveSpec(8, 2, 7, begins_at=NOW - DAY_US)), FixedClock(NOW))
    cluster.start()
    try:
        with httpx.Client(base_url=cluster.url, trust_env=False) as client:
            pods = "/api/v1/namespaces/team-x/pods"
            missing = client.get(f"{pods}/started-now")
            assert (missing.status_code, missing.json()["message"]) == (404, 'pods "started-now" not found')
            assert client.post(pods, json=POD).status_code == 201
            found = client.get(f"{pods}/started-now").json()
            assert (found["kind"], found["metadata"]["name"]) == ("Pod", "started-now")
            assert int(found["metadata"]["resourceVersion"]) > 0
            listed = client.get(pods).json()
            assert (listed["kind"], [pod["metadata"]["name"] for pod in listed["items"]]) == (
                "PodList",
                ["started-now"],
            )
            for method in ("PATCH", "PUT"):
                refused = client.request(method, f"{pods}/started-now", json=POD)
                assert (refused.status_code, refused.json()["reason"]) == (405, "MethodNotAllowed")
                assert "delete it and create it again" in refused.json()["message"]
            schema = client.get(client.get("/openapi/v3").json()["paths"]["api/v1"]["serverRelativeURL"]).json()
            assert f"{pods.replace('team-x', '{namespace}')}/{{name}}" in schema["paths"]
    finally:
        cluster.stop()


def test_kubectl_itself_applies_a_pod_and_shows_it(tmp_path: Path) -> None:
    program = shutil.which("kubectl")
    if program is None:
        pytest.skip("no kubectl here")
    cluster = DemoCluster(LiveEstate(LiveSpec(8, 2, 7, begins_at=NOW - DAY_US)), FixedClock(NOW))
    cluster.start()
    try:
        _write_kubeconfig(tmp_path / "kubeconfig", cluster.url)
        pod = {"apiVersion": "v1", "kind": "Pod", **POD, "metadata": {"name": "started-now", "namespace": "team-x"}}
        (tmp_path / "pod.json").write_text(json.dumps(pod), encoding="ascii")

        def kubectl(*words: str) -> str:
            command = [program, "--kubeconfig", str(tmp_path / "kubeconfig"), "--cache-dir", str(tmp_path), *words]
            return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout

        assert kubectl("apply", "-f", str(tmp_path / "pod.json")) == "pod/started-now created\n"
        assert kubectl("get", "pod", "started-now", "-n", "team-x", "-o", "name") == "pod/started-now\n"
        assert kubectl("apply", "-f", str(tmp_path / "pod.json")) == "pod/started-now unchanged\n"
    finally:
        cluster.stop()


def alive(process: int) -> bool:
    return Path(f"/proc/{process}").exists()


def test_a_command_that_nobody_waited_for_ends_with_the_test(tmp_path: Path) -> None:
    with pytest.raises(LookupError), commands(tmp_path) as run:
        process = run.start(
            ["demo", "--live", "--gpus", "8", "--days", "2", "--data", tmp_path / "d", "--listen", "127.0.0.1:0"]
        )
        assert alive(process)
        raise LookupError("the test failed")
    assert not alive(process)


def test_an_exporter_says_nothing_of_a_node_that_does_not_answer() -> None:
    estate = LiveEstate(LiveSpec(8, 2, 7, begins_at=NOW - DAY_US))
    text = estate.exporter_text(estate.nodes[0], NOW)
    assert text is not None
    assert "DCGM_FI_DEV_FB_USED{" in text
    assert estate.exporter_text("no-such-node", NOW) is None
