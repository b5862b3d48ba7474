"""The agent as a process beside a real server: it delivers, is scraped, says what it cannot see, and ends as it is asked to."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from steelyard.store import Store
from tests.app.agent.gpu_node import CARD_0, NODE, GpuNode, gpu_node
from tests.app.served_directory import MAIN, environment, serving, steelyard

DEADLINE_SECONDS = 60.0
FACTS = (
    "SELECT device_uuid, natural_key, occurred_at, memory_used_mib, power_watts, sm_active_ratio, unknown FROM fact.device_sample "
    "WHERE occurred_at = ? ORDER BY ALL"
)
PROCESSES = "SELECT natural_key, occurred_at, pod_uid, memory_used_mib, sm_ratio FROM fact.process_sample WHERE occurred_at = ? ORDER BY ALL"


@contextmanager
def agent(node: GpuNode, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", MAIN, "agent", *node.arguments, "--interval", "1", *arguments]
    with subprocess.Popen(
        command, env=environment(node.environment), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def until(what: Any) -> Any:
    """What it gives once it gives something."""
    end = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < end:
        found = what()
        if found:
            return found
        time.sleep(0.1)
    raise AssertionError("nothing came")


def scraped(port: int) -> str | None:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            text: str = answer.read().decode()
            return text
    except OSError:
        return None


def free_port() -> int:
    import socket

    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@pytest.mark.xdist_group("serving")
def test_what_is_delivered_is_what_is_scraped_and_the_agent_ends_when_told(stub: Path, tmp_path: Path) -> None:
    data, port = tmp_path / "data", free_port()
    made = steelyard("token", "create", "--role", "agent", "--name", "a", "--data", data, "--json", cwd=tmp_path)
    (tmp_path / "token").write_text(json.loads(made.stdout)["secret"])
    with serving(data) as server, gpu_node(tmp_path, stub, "whole") as node:
        delivering = [
            "--server", f"http://127.0.0.1:{server.port}", "--token-file", str(tmp_path / "token"),
            "--spool", str(tmp_path / "spool"), "--metrics", f"127.0.0.1:{port}",
        ]  # fmt: skip
        with agent(node, *delivering) as process:
            text = until(lambda: (found := scraped(port)) and "steelyard_agent_delivered_total 2" in found and found)
            process.send_signal(signal.SIGTERM)
            _out, errors = process.communicate(timeout=DEADLINE_SECONDS)
        assert (process.returncode, errors) == (0, "")
        assert list((tmp_path / "spool").glob("*.batch")) == []
        assert server.end() == (0, b"")
    (tmp_path / "agent.prom").write_text(text)
    done = steelyard("import", "--data", tmp_path / "scraped", tmp_path / "agent.prom", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    at = int(re.findall(r"^steelyard_gpu_power_watts\{.*\} \S+ ([0-9]+)$", text, re.MULTILINE)[0])
    with Store.open(data) as delivered, Store.open(tmp_path / "scraped") as by_scrape:
        instant = delivered.rows("SELECT make_timestamp(?::BIGINT)", [at * 1_000])[0][0]
        for sql in (FACTS, PROCESSES):
            assert delivered.rows(sql, [instant]) == by_scrape.rows(sql, [instant]) != []
        inventory = "SELECT source, device_uuid, model, serial, occurred_at FROM fact.device ORDER BY ALL"
        assert delivered.rows(inventory) == by_scrape.rows(inventory)
        held = 'SELECT natural_key, device_uuid, occurred_at FROM fact."grant" ORDER BY ALL'
        assert delivered.rows(held) == by_scrape.rows(held)
        assert delivered.rows("SELECT node, device_uuid, code FROM fact.event") == [(NODE, CARD_0, 31)]


def test_without_a_server_scrapes_are_answered_nothing_is_kept_and_one_part_without_sight_does_not_end_the_others(
    stub: Path, tmp_path: Path
) -> None:
    port = free_port()
    with gpu_node(tmp_path, stub, "mismatch") as node, agent(node, "--metrics", f"127.0.0.1:{port}") as process:
        text = until(lambda: (found := scraped(port)) and "steelyard_agent_rounds_total 2" in found and found)
        process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE_SECONDS) == 0
    assert "steelyard_agent_blind_parts 1\n" in text
    assert "steelyard_gpu_grant_info{" in text
    assert 'steelyard_agent_events_total{kind="xid"' in text
    assert not (tmp_path / "spool").exists()


def test_plain_http_to_another_machine_is_said_loudly(stub: Path, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t")
    with gpu_node(tmp_path, stub, "whole") as node:
        arguments = ["--server", "http://192.0.2.1:1", "--token-file", str(tmp_path / "token"), "--insecure-http"]
        with agent(node, *arguments, "--spool", str(tmp_path / "spool")) as process:
            assert process.stderr is not None
            assert "WARNING: the token and all facts pass to 192.0.2.1 in the clear" in process.stderr.readline()
            until(lambda: list((tmp_path / "spool").glob("*.batch")))
            process.send_signal(signal.SIGINT)
            assert process.wait(DEADLINE_SECONDS) == 0
        assert list((tmp_path / "spool").glob("*.batch"))
