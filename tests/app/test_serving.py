"""A served directory answers every command as the file itself would, byte for byte, and a server leaves nothing in the way of the next."""

from __future__ import annotations

import gzip
import json
import os
import re
import signal
import socket
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from steelyard.app.holding import LOCK_FILE, DirectoryClaim, is_claimed
from steelyard.surfaces.http_api.listening import SOCKET_FILE, SOCKET_PATH_BYTES_MAX
from steelyard.surfaces.shared.client import SERVER_FILE
from tests.app.import_samples import listing, node, pod, shared_pod, write
from tests.app.served_directory import Running, serving, steelyard

OPENB = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with files of every sort that an import may meet."""
    folder = tmp_path_factory.mktemp("site")
    write(folder / "in" / "cluster.json", listing(node(), shared_pod("a"), pod("b")))
    write(folder / "in" / "more.json.gz", listing(pod("c"), pod("d")), compress=True)
    write(folder / "in" / "empty", b"")
    write(folder / "in" / "binary", b"\x00\x01\x02" * 100)
    write(folder / "in" / "broken.json", b'{"kind": "List", "items": [')
    write(folder / "in" / "bomb.gz", gzip.compress(b"x" * 3_000_000))
    write(folder / "in" / "deep" / os.fsdecode(b"na\xffme.json"), listing(pod("e")))
    (folder / "in" / "outside").symlink_to("/etc/hostname")
    os.mkfifo(folder / "in" / "pipe")
    write(folder / "stampless.json", listing({"kind": "Pod", "metadata": {"name": "z", "namespace": "team-z"}}))
    write(folder / "pods.csv", OPENB + "p-0,1000,1024,1,500,,LS,Succeeded,0,7200,3600\n")
    write(folder / "nodes.csv", "sn,cpu_milli,memory_mib,gpu,model\nn-0,64000,262144,2,T4\n")
    return folder


COMMANDS = (
    ["import", "in", "--as-of", "2026-03-01T13:00:00Z", "--expected-interval", "30s"],
    ["import", "in", "--json"],
    ["import", "in/cluster.json", "in/pipe", "in/broken.json"],
    ["import", "stampless.json", "--cluster", "west", "--node", "n9", "--json"],
    ["import", "openb", "pods.csv", "--nodes", "nodes.csv", "--epoch", "2026-01-01", "--cluster", "trace"],
    ["import", "-"],
    ["q1"],
    ["q1", "--json", "--explain"],
    ["q1", "--at", "2026-03-01T12:30:00.000001Z", "--by", "tenant,node", "--by", "label:app"],
    ["q1", "--gpu", "GPU-11111111", "--rows", "1"],
    ["q1", "--where", "pod=team-a/a"],
    ["q2", "--by", "pod"],
    ["q2", "--json", "--from", "2026-03-01T12:10:00Z", "--to", "2026-03-01T12:50:00Z", "--explain"],
    ["ask", "who is on node n1"],
    ["ask", "how much did tenant team-a use", "--json"],
    # what is refused, refused alike
    ["q1", "--by", "nothing-such"],
    ["q2", "--where", "odd\udcff=x"],
    ["q1", "--at", "1969-01-01"],
    ["import", "no-such-file"],
    ["import", "benchmark_result", "in/cluster.json"],
    ["import", "pods.csv", "--nodes", "no-such-file"],
    ["import", "in/binary"],
)
STDIN = json.dumps(listing(pod("from-stdin"))).encode()


def results(site: Path, data: Path, env: dict[str, str]) -> list[tuple[int, bytes, bytes]]:
    found = []
    for command in COMMANDS:
        ended = steelyard(*command, "--data", data, cwd=site, env=env, standard_input=STDIN)
        found.append((ended.returncode, ended.stdout, ended.stderr))
    return found


@pytest.mark.xdist_group("serving")
@pytest.mark.parametrize("language", ["en", "zh_CN"])
def test_commands_on_a_served_directory_end_and_print_as_on_the_file(site: Path, tmp_path: Path, language: str) -> None:
    env = {"STEELYARD_LANG": language, "STEELYARD_IMPORT_LIMITS__DECOMPRESSED_BYTES_MAX": "1000000"}
    own = results(site, tmp_path / "d", env)
    (tmp_path / "d").rename(tmp_path / "own")
    with serving(tmp_path / "d", env={**env, "STEELYARD_LANG": "en"}) as server:
        served = results(site, tmp_path / "d", env)
        assert server.end() == (0, b"")
    for command, mine, theirs in zip(COMMANDS, own, served, strict=True):
        assert _timeless(mine) == _timeless(theirs), command
    assert {code for code, _out, _errors in own} == {0, 2, 3}


def _timeless(found: tuple[int, bytes, bytes]) -> tuple[int, ...] | tuple[object, ...]:
    """Without the instant at which standard input was read, which is now."""
    code, out, errors = found
    return code, re.sub(rb"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z \(file_time\)", b"<now>", out), errors


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Running]:
    with serving(tmp_path / "d") as running:
        yield running


def test_the_server_says_where_it_is_and_its_socket_is_the_owners_alone(server: Running, tmp_path: Path) -> None:
    found = json.loads((tmp_path / "d" / SERVER_FILE).read_text())
    assert {name: found[name] for name in ("socket", "pid", "address", "started_at")} == server.said
    assert found["pid"] == server.process.pid
    status = Path(found["socket"]).lstat()
    assert stat.S_ISSOCK(status.st_mode)
    assert stat.S_IMODE(status.st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "d" / "uploads").stat().st_mode) == 0o700


def test_when_it_ends_the_directory_is_as_if_it_had_never_been(server: Running, tmp_path: Path) -> None:
    assert server.end() == (0, b"")
    assert {path.name for path in (tmp_path / "d").iterdir()} == {LOCK_FILE, "steelyard.duckdb"}
    assert not is_claimed(tmp_path / "d")
    assert (
        steelyard("import", write(tmp_path / "p.json", listing(pod("a"))), "--data", "d", cwd=tmp_path).returncode == 0
    )


def test_a_second_server_and_a_demo_are_refused_with_the_name_of_the_first(server: Running, tmp_path: Path) -> None:
    for command in (["serve", "--listen", "127.0.0.1:0"], ["demo", "--gpus", "8", "--days", "1"]):
        refused = steelyard(*command, "--data", "d", cwd=tmp_path)
        assert (refused.returncode, refused.stdout) == (3, b"")
        assert refused.stderr.decode() == (
            f"steelyard: d is served by process {server.process.pid} at {server.said['address']}: "
            "end it first, or name another directory with --data\n"
        )


def test_after_kill_9_the_next_server_starts_and_commands_work_between_and_after(
    server: Running, tmp_path: Path
) -> None:
    dump = write(tmp_path / "p.json", listing(node(), shared_pod("a")))
    assert steelyard("import", dump, "--data", "d", cwd=tmp_path).returncode == 0
    asked = steelyard("q1", "--json", "--data", "d", cwd=tmp_path)
    assert server.end(signal.SIGKILL) == (-signal.SIGKILL, b"")
    assert (tmp_path / "d" / SERVER_FILE).exists(), "it left its file and its socket behind"
    assert (tmp_path / "d" / SOCKET_FILE).exists()
    (tmp_path / "d" / "uploads" / "left").mkdir()
    assert steelyard("q1", "--json", "--data", "d", cwd=tmp_path).stdout == asked.stdout
    with serving(tmp_path / "d") as again:
        assert again.said["pid"] != server.said["pid"]
        assert list((tmp_path / "d" / "uploads").iterdir()) == []
        assert steelyard("q1", "--json", "--data", "d", cwd=tmp_path).stdout == asked.stdout


def test_a_command_waits_for_a_server_that_is_starting_or_ending(tmp_path: Path) -> None:
    import threading

    dump = write(tmp_path / "p.json", listing(node(), shared_pod("a")))
    assert steelyard("import", dump, "--data", "d", cwd=tmp_path).returncode == 0
    asked: list[subprocess.CompletedProcess[bytes]] = []
    with DirectoryClaim(tmp_path / "d"):
        assert is_claimed(tmp_path / "d")
        thread = threading.Thread(target=lambda: asked.append(steelyard("q1", "--data", "d", cwd=tmp_path)))
        thread.start()
    thread.join(120)
    assert (asked[0].returncode, asked[0].stderr) == (0, b"")


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_what_is_under_way_is_finished_before_it_ends(tmp_path: Path, how: int) -> None:
    dump = write(tmp_path / "p.json", listing(node(), *(shared_pod(f"p{n}") for n in range(20))))
    body = dump.read_bytes()
    with serving(tmp_path / "d") as server, socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(60)
        connection.connect(server.said["socket"])
        head = f"POST /api/v1/import?name=p.json HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n"
        connection.sendall(head.encode() + b"Expect: 100-continue\r\n\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 100"), "the import is under way"
        server.process.send_signal(how)
        connection.sendall(body)
        answer = b""
        while piece := connection.recv(65_536):
            answer += piece
        assert answer.startswith(b"HTTP/1.1 200")
        assert b'"status":"imported"' in answer
        _out, errors = server.process.communicate(timeout=60)
        assert (server.process.returncode, errors) == (0, b"")
    assert re.search(rb"^devices_count +1$", steelyard("q1", "--data", "d", cwd=tmp_path).stdout, re.MULTILINE)


def test_a_path_too_long_for_a_socket_gets_a_short_one_in_a_private_folder(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    data = tmp_path / ("x" * 60) / ("y" * 60)
    assert len(os.fsencode(data / SOCKET_FILE)) > SOCKET_PATH_BYTES_MAX
    runtime = tmp_path_factory.mktemp("run")
    env = {"XDG_RUNTIME_DIR": str(runtime)}
    with serving(data, env=env) as server:
        path = Path(server.said["socket"])
        assert path.parent.parent == runtime
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert stat.S_IMODE(path.lstat().st_mode) == 0o600
        assert steelyard("token", "list", "--json", "--data", data, cwd=tmp_path).stdout == b'{\n  "tokens": []\n}\n'
        assert server.end() == (0, b"")
        assert not path.exists()


def test_a_folder_that_others_may_write_to_takes_no_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from steelyard.surfaces.http_api.listening import socket_path

    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    open_folder = tmp_path / f"steelyard-{os.geteuid()}"
    open_folder.mkdir()
    open_folder.chmod(0o777)
    data = tmp_path / ("x" * 60) / ("y" * 60)
    assert socket_path(data).parent.parent == Path("/tmp")
    open_folder.rmdir()
    open_folder.symlink_to(tmp_path)
    assert socket_path(data).parent.parent == Path("/tmp")


@pytest.mark.parametrize(
    ("listen", "message"),
    [
        ("nonsense", "--listen: expected HOST:PORT"),
        ("127.0.0.1:99999", "--listen: expected HOST:PORT"),
        ("127.0.0.1:-1", "--listen: expected HOST:PORT"),
        ("no.such.host.invalid:1", "no such address"),
        ("192.0.2.1:1", "cannot listen at 192.0.2.1:1"),
    ],
)
def test_an_address_that_cannot_be_is_one_line_and_leaves_nothing(tmp_path: Path, listen: str, message: str) -> None:
    refused = steelyard("serve", "--data", "d", "--listen", listen, cwd=tmp_path)
    assert (refused.returncode, refused.stdout) == (2, b"")
    assert message in refused.stderr.decode()
    assert refused.stderr.count(b"\n") == 1
    assert {path.name for path in (tmp_path / "d").iterdir()} <= {LOCK_FILE, "steelyard.duckdb", "uploads"}
    assert not is_claimed(tmp_path / "d")


def test_a_port_that_is_taken_is_said(server: Running, tmp_path: Path) -> None:
    refused = steelyard("serve", "--data", "e", "--listen", f"127.0.0.1:{server.port}", cwd=tmp_path)
    assert refused.returncode == 2
    assert f"cannot listen at 127.0.0.1:{server.port}: Address already in use" in refused.stderr.decode()


def test_an_import_that_holds_the_file_is_named_to_a_server(tmp_path: Path) -> None:
    from steelyard.store import Store

    with Store.open(tmp_path / "d"):
        refused = steelyard("serve", "--data", "d", "--listen", "127.0.0.1:0", cwd=tmp_path)
    assert refused.returncode == 3
    assert f"is in use by process {os.getpid()}" in refused.stderr.decode()


def test_tokens_are_made_with_and_without_a_server_and_opened_by_either(tmp_path: Path) -> None:
    import httpx

    def made(*options: str) -> str:
        ended = steelyard("token", "create", *options, "--json", "--data", "d", cwd=tmp_path)
        assert ended.returncode == 0, ended.stderr
        return str(json.loads(ended.stdout)["secret"])

    before = made("--role", "operator", "--name", "before")
    with serving(tmp_path / "d") as server:
        during = made("--role", "viewer", "--tenant", "team-a", "--name", "during")
        for secret, status in ((before, 200), (during, 200), (during + "x", 401)):
            headers = {"Authorization": f"Bearer {secret}"}
            assert httpx.get(f"{server.said['address']}/readyz", headers=headers).status_code == status
        listed = json.loads(steelyard("token", "list", "--json", "--data", "d", cwd=tmp_path).stdout)["tokens"]
        assert [token["name"] for token in listed] == ["before", "during"]
        assert steelyard("token", "revoke", listed[0]["id"], "--data", "d", cwd=tmp_path).returncode == 0
        headers = {"Authorization": f"Bearer {before}"}
        assert httpx.get(f"{server.said['address']}/readyz", headers=headers).status_code == 401
        status, errors = server.end()
        assert status == 0
        assert before.encode() not in errors
    text = steelyard("token", "list", "--data", "d", cwd=tmp_path).stdout.decode()
    assert before not in text
    assert "during" in text
    unknown = steelyard("token", "revoke", "0123456789ab", "--data", "d", cwd=tmp_path)
    assert (unknown.returncode, unknown.stderr) == (2, b"steelyard: no token has the id 0123456789ab\n")
    wrong = steelyard("token", "create", "--role", "root", "--name", "x", "--data", "d", cwd=tmp_path)
    assert wrong.returncode == 2
    assert steelyard("token", "list", "--data", "typo", cwd=tmp_path).returncode == 2
    assert not (tmp_path / "typo").exists()


def test_an_address_that_others_reach_is_warned_of(tmp_path: Path) -> None:
    with serving(tmp_path / "d", "--listen", "0.0.0.0:0") as server:
        status, errors = server.end()
        assert status == 0
        assert b"put TLS before it" in errors
