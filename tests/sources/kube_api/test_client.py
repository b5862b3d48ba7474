"""A cluster is reached as its configuration says, and what goes wrong there is one clear error."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path

import kmock
import pytest

from steelyard.primitives.errors import SourceUnavailable
from steelyard.sources.kube_api.client import ApiRefusal, ClusterClient, ClusterTarget, lines_of
from tests.sources.kube_api.played_cluster import PATIENCE_SECONDS, PlayedCluster, refusal


def kubeconfig(path: Path, users: dict[str, object], address: str) -> Path:
    contexts = [{"name": name, "context": {"cluster": "c", "user": name}} for name in users]
    found = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": next(iter(users)),
        "clusters": [{"name": "c", "cluster": {"server": address}}],
        "contexts": contexts,
        "users": [{"name": name, "user": user} for name, user in users.items()],
    }
    path.write_text(json.dumps(found), encoding="utf-8")
    return path


def authorization(cluster: PlayedCluster, target: ClusterTarget) -> str | None:
    """What a request of this target carries."""
    asked: list[kmock.Request] = []
    cluster.handler["get /version"] << (lambda request: asked.append(request) or {"ok": True})
    client = ClusterClient(target)
    assert json.loads(client.read("version", {}, 1_000))["ok"]
    client.close()
    return asked[-1].headers.get("Authorization")


@pytest.mark.parametrize(("context", "token"), [(None, "of-ann"), ("bob", "of-bob")])
def test_the_chosen_context_of_a_kubeconfig_says_who_we_are(tmp_path: Path, context: str | None, token: str) -> None:
    with PlayedCluster() as cluster:
        path = kubeconfig(tmp_path / "config", {"ann": {"token": "of-ann"}, "bob": {"token": "of-bob"}}, cluster.url)
        assert authorization(cluster, ClusterTarget(kubeconfig=path, context=context)) == f"Bearer {token}"


def test_a_token_file_is_read_again_when_the_server_refuses_the_old_token(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old\n", encoding="utf-8")
    with PlayedCluster() as cluster:
        seen: list[str] = []

        def answer(request: kmock.Request) -> kmock.Response:
            seen.append(request.headers["Authorization"])
            token.write_text("new\n", encoding="utf-8")
            return refusal(401) if seen[-1] == "Bearer old" else kmock.Response(status=200, payload={})

        cluster.handler["get /version"] << answer
        client = ClusterClient(ClusterTarget(address=cluster.url, token_file=token))
        assert client.read("version", {}, 100) == b"{}"
        client.close()
    assert seen == ["Bearer old", "Bearer new"]


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_an_exec_plugin_of_either_version_gives_the_token(tmp_path: Path, version: str) -> None:
    plugin = tmp_path / "plugin.py"
    plugin.write_text(
        "import json, os\n"
        "asked = json.loads(os.environ.get('KUBERNETES_EXEC_INFO', '{}')).get('apiVersion', 'none')\n"
        "print(json.dumps({'status': {'token': asked.rpartition('/')[2]}}))\n",
        encoding="utf-8",
    )
    command = {
        "apiVersion": f"client.authentication.k8s.io/{version}",
        "command": sys.executable,
        "args": [str(plugin)],
        "interactiveMode": "Never",
    }
    with PlayedCluster() as cluster:
        path = kubeconfig(tmp_path / "config", {"x": {"exec": command}}, cluster.url)
        found = authorization(cluster, ClusterTarget(kubeconfig=path))
    assert found == ("Bearer v1" if version == "v1" else "Bearer none")


def test_within_a_cluster_the_service_account_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lightkube.config import kubeconfig as of_lightkube

    (tmp_path / "token").write_text("of-the-pod", encoding="utf-8")
    (tmp_path / "namespace").write_text("ns", encoding="utf-8")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    found = of_lightkube.KubeConfig.from_service_account(service_account=tmp_path).get()
    assert found is not None
    assert found.cluster.server == "https://10.0.0.1:443"
    assert found.user is not None
    assert found.user.token_file == str(tmp_path / "token"), "so that it is read again when it rotates"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[", "YAML|parser|Parser"),
        ('{"clusters": [], "contexts": [], "users": [], "current-context": "x"}', "'x' not found"),
        ('{"clusters": [{"name": "c", "cluster": {"server": 7}}], "contexts": []}', "str"),
    ],
)
def test_a_kubeconfig_that_cannot_be_used_names_the_cluster_and_the_reason(
    tmp_path: Path, text: str, words: str
) -> None:
    path = tmp_path / "config"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SourceUnavailable, match=f"cluster west: its configuration cannot be used: .*({words})"):
        ClusterClient(ClusterTarget(cluster="west", kubeconfig=path))


def test_a_plugin_that_fails_is_a_source_that_is_not_there_now(tmp_path: Path) -> None:
    command = {"apiVersion": "client.authentication.k8s.io/v1", "command": "no-such-program-here"}
    path = kubeconfig(tmp_path / "config", {"x": {"exec": command}}, "http://127.0.0.1:1")
    with pytest.raises(SourceUnavailable, match="no-such-program-here"):
        ClusterClient(ClusterTarget(kubeconfig=path)).read("version", {}, 100)


def test_a_refusal_carries_the_status_and_how_long_to_wait() -> None:
    with PlayedCluster() as cluster:
        cluster.handler["get /version"] << refusal(429, "slow down", "TooManyRequests", **{"Retry-After": "7"})
        client = ClusterClient(ClusterTarget(address=cluster.url))
        with pytest.raises(ApiRefusal) as caught:
            client.read("version", {}, 100)
        client.close()
    found = caught.value
    assert (found.code, found.reason, found.message, found.retry_after_seconds) == (
        429,
        "TooManyRequests",
        "slow down",
        7.0,
    )


def test_a_body_beyond_its_bound_is_not_read_to_its_end() -> None:
    with PlayedCluster() as cluster:
        cluster.handler["get /version"] << b"x" * 1_000_000
        client = ClusterClient(ClusterTarget(address=cluster.url))
        with pytest.raises(OverflowError):
            client.read("version", {}, 1_000)
        client.close()


def test_closing_ends_a_read_that_waits_in_another_thread() -> None:
    with PlayedCluster() as cluster:
        cluster.handler["get /version"] << (b"first", cluster.hold)
        client = ClusterClient(ClusterTarget(address=cluster.url))
        began, ended = threading.Event(), threading.Event()

        def read() -> None:
            with pytest.raises(SourceUnavailable, match="closed"), client.stream("version", {}, 60.0) as chunks:
                for _ in chunks:
                    began.set()
            ended.set()

        thread = threading.Thread(target=read, daemon=True)
        thread.start()
        assert began.wait(PATIENCE_SECONDS)
        client.close()
        assert ended.wait(PATIENCE_SECONDS)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
def test_lines_are_the_same_however_the_stream_is_cut_into_chunks(size: int) -> None:
    text = b"one\n\ntwo two\n" + b"x" * 20 + b"\nend\n"
    chunks = [text[start : start + size] for start in range(0, len(text), size)]
    assert list(lines_of(iter(chunks), 10)) == [b"one", b"", b"two two", None, b"end"]


def test_a_line_without_its_end_is_no_line() -> None:
    lines = lines_of(iter([b"one\ntw"]), 10)
    assert next(lines) == b"one"
    with pytest.raises(SourceUnavailable, match="cut off"):
        next(lines)


def test_a_quadratic_stream_of_single_bytes_is_read_in_linear_time() -> None:
    assert [len(line or b"") for line in lines_of(iter([b"x"] * 300_000 + [b"\n"]), 1_000_000)] == [300_000]


def test_no_client_is_loaded_before_a_cluster_is_asked() -> None:
    code = (
        "import sys, steelyard.sources.kube_api.watch\n"
        "sys.exit(any(name.split('.')[0] in ('lightkube', 'httpx2', 'yaml') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
