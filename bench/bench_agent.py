"""Bench: what the node agent costs its node: memory and processor time at a 10 s interval with 8 cards and 64 processes of pods.

The driver is the tests' stub of NVML (a real driver maps more of its own), the kubelet is gRPC's own server on a Unix socket, the server takes
every batch, each in another process. Processor time is the agent's, user and system, after the first two rounds; a hundredth of a core is
0.1 s per round. Run: ``python -m bench.bench_agent --seconds 60``.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from steelyard.app.agent.batch import decode

ROOT = Path(__file__).resolve().parent.parent
STUB = ROOT / "tests/sources/nvml/stub"
CARDS, PROCESSES_EACH = 8, 8
INTERVAL_SECONDS = 10.0
RSS_MIB_MAX = 60.0
CORE_RATIO_MAX = 0.01
CARD = "GPU-11111111-aaaa-4bbb-8ccc-{:012d}"
POD = "0a1b2c3d-1111-4222-8333-{:012d}"
KUBELET = """
import json, sys
from pathlib import Path
from tests.sources.pod_resources.kubelet_peer import kubelet
with kubelet(Path(sys.argv[1]), *json.loads(sys.argv[2])):
    print("ready", flush=True)
    sys.stdin.read()
"""


def measure(seconds: float = 60.0) -> dict[str, Any]:
    """Resident memory in MiB (all, and what is the agent's own), and the share of one core."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        _lay_out(folder)
        got = stack.enter_context(_server())
        stack.enter_context(_kubelet(folder / "kubelet.sock"))
        agent = stack.enter_context(_agent(folder, got["port"]))
        _until(got, 2, agent)
        began, busy_began, first = time.monotonic(), _busy_seconds(agent.pid), got["batches"]
        time.sleep(seconds)
        elapsed, busy = time.monotonic() - began, _busy_seconds(agent.pid) - busy_began
        memory = _memory_mib(agent.pid)
        samples = Counter(fact.TABLE for fact in decode(got["last"]).facts)
        if (samples["device_sample"], samples["process_sample"]) != (CARDS, CARDS * PROCESSES_EACH):
            raise SystemExit(f"the agent does not see what is there: {dict(samples)}")
        return {
            "rounds": got["batches"] - first,
            "seconds": elapsed,
            "busy_seconds": busy,
            "core_ratio": busy / elapsed,
            "rss_mib": memory["VmRSS"],
            "peak_mib": memory["VmHWM"],
            "anonymous_mib": memory["RssAnon"],
            "bytes_per_round": got["bytes"] / max(1, got["batches"]),
        }


def _lay_out(folder: Path) -> None:
    """The stub with its scenario, processes of pods, a kernel log, a token."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise SystemExit("no C compiler (cc): scripts/system_packages.txt names the package")
    flags = ["-std=c11", "-O1", "-shared", "-fPIC", "-pthread", "-Wl,-soname,libnvidia-ml.so.1"]
    library = folder / "libnvidia-ml.so.1"
    subprocess.run([compiler, *flags, "-o", library, STUB / "nvml_stub.c"], check=True)
    whole = (STUB / "scenarios/whole.txt").read_text(encoding="utf-8").splitlines()
    general = [line for line in whole if line and not line.startswith(("#", "gpu.", "count "))]
    first = [line.removeprefix("gpu.0.") for line in whole if line.startswith("gpu.0.")]
    lines = [*general, f"count {CARDS}"]
    for card in range(CARDS):
        pids = [1_000 + card * PROCESSES_EACH + each for each in range(PROCESSES_EACH)]
        own = {
            "uuid": CARD.format(card),
            "pci": f"00000000:{0x10 + card:02X}:00.0",
            "compute": " ".join(f"{pid}:1073741824" for pid in pids),
            "process_util": " ".join(f"{pid}:now:10:5" for pid in pids),
            "gpm_supported": "1",
        }
        kept = [line for line in first if line.split(" ", 1)[0] not in {*own, "graphics"}]
        lines += [f"gpu.{card}.{line}" for line in (*kept, *(f"{key} {value}" for key, value in own.items()))]
        for pid in pids:
            _process(folder / "proc" / str(pid), pid)
    (folder / "scenario.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    (folder / "kern.log").touch()
    (folder / "token").write_text("sty_bench_token", encoding="utf-8")


def _process(place: Path, pid: int) -> None:
    place.mkdir(parents=True)
    fields = " ".join(["S", "1", *["0"] * 17, str(pid), *["0"] * 20])
    (place / "stat").write_text(f"{pid} (python3) {fields}\n", encoding="utf-8")
    (place / "cmdline").write_bytes(b"python3\0")
    slice_ = f"kubepods-burstable-pod{POD.format(pid).replace('-', '_')}.slice"
    path = f"/kubepods.slice/kubepods-burstable.slice/{slice_}/cri-containerd-{'a' * 64}.scope"
    (place / "cgroup").write_text(f"0::{path}\n", encoding="utf-8")


@contextmanager
def _server() -> Iterator[dict[str, Any]]:
    """Takes every batch and counts them."""
    got: dict[str, Any] = {"batches": 0, "bytes": 0}

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            got["last"] = self.rfile.read(int(self.headers["Content-Length"]))
            got["bytes"] += len(got["last"])
            got["batches"] += 1
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, format: str, *arguments: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    got["port"] = server.server_address[1]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield got
    finally:
        server.shutdown()


@contextmanager
def _kubelet(path: Path) -> Iterator[None]:
    devices = [{"resource_name": "nvidia.com/gpu", "device_ids": [CARD.format(card)]} for card in range(CARDS)]
    containers = [{"name": "main", "devices": [device]} for device in devices]
    pods = [{"name": f"p-{at}", "namespace": "team", "containers": [each]} for at, each in enumerate(containers)]
    answers = json.dumps([{"pod_resources": pods}, {"devices": devices}])
    command = [sys.executable, "-c", KUBELET, str(path), answers]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield
        finally:
            process.kill()


@contextmanager
def _agent(folder: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    command = [
        sys.executable, "-c", "from steelyard.app.main import main; main()", "agent", "--node", "bench",
        "--server", f"http://127.0.0.1:{port}", "--token-file", str(folder / "token"), "--spool", str(folder / "spool"),
        "--proc", str(folder / "proc"), "--kernel-log", str(folder / "kern.log"), "--pod-resources", str(folder / "kubelet.sock"),
        "--nvml-library", str(folder / "libnvidia-ml.so.1"), "--interval", str(INTERVAL_SECONDS), "--metrics", "127.0.0.1:0",
    ]  # fmt: skip
    environment = {**os.environ, "STEELYARD_NVML_SCENARIO": str(folder / "scenario.txt")}
    with subprocess.Popen(command, env=environment) as process:
        try:
            yield process
        finally:
            process.terminate()


def _until(got: dict[str, Any], count: int, agent: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + 60 + count * INTERVAL_SECONDS
    while got["batches"] < count:
        if agent.poll() is not None or time.monotonic() > until:
            raise SystemExit("the agent delivers nothing")
        time.sleep(0.1)


def _busy_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _memory_mib(pid: int) -> dict[str, float]:
    lines = (line.split() for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines())
    return {line[0].rstrip(":"): int(line[1]) / 1024 for line in lines if len(line) == 3 and line[2] == "kB"}


def main(arguments: list[str] | None = None) -> int:
    """Print the figures beside their limits; 0 where both are kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    found = measure(parser.parse_args(arguments).seconds)
    kept = found["rss_mib"] < RSS_MIB_MAX and found["core_ratio"] < CORE_RATIO_MAX
    limits = {"rss_mib_max": RSS_MIB_MAX, "core_ratio_max": CORE_RATIO_MAX, "kept": kept}
    print(json.dumps({"bench": "agent", "cards": CARDS, "processes": CARDS * PROCESSES_EACH, **found, **limits}))
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
