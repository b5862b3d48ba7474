"""What the readers of the node agent weigh: they import little, and the driver's binding only when it is asked for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.sources.nvml.stub_library import SCENARIOS, VARIABLE

RSS_MAX_KIB = 60 * 1024
PROGRAM = """
import json, sys
from pathlib import Path
import steelyard.sources.nvml.rounds as rounds
from steelyard.sources.nvml.driver import NvmlDriver
from steelyard.sources.cgroup.process_table import ProcessTable
from steelyard.primitives.clock import WallClock
early = sorted(sys.modules)
node = rounds.DeviceRounds(NvmlDriver(Path(sys.argv[1])), WallClock(), node="n", owners=ProcessTable())
facts = [type(fact).__name__ for _ in range(3) for fact in node.round()]
node.close()
words = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
print(json.dumps({"early": early, "late": sorted(sys.modules), "facts": facts, "rss_kib": int(words["VmRSS"].split()[0])}))
"""


def test_rounds_over_the_stub_stay_small_and_import_neither_engine_nor_command_line(stub: Path) -> None:
    environment = {**os.environ, VARIABLE: str(SCENARIOS / "whole.txt")}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(stub)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    told = json.loads(done.stdout)
    assert told["facts"].count("DeviceSample") == 6
    heavy = {
        "duckdb",
        "pyarrow",
        "numpy",
        "pydantic",
        "typer",
        "rich",
        "fastapi",
        "httpx",
        "lightkube",
        "google.protobuf",
    }
    assert heavy.isdisjoint(told["late"])
    assert "pynvml" not in told["early"] and "pynvml" in told["late"]
    assert told["rss_kib"] < RSS_MAX_KIB


HANGING = """
import sys
from pathlib import Path
from steelyard.sources.nvml.driver import NvmlDriver
from steelyard.sources.nvml.rounds import DeviceRounds
from steelyard.primitives.clock import WallClock
node = DeviceRounds(NvmlDriver(Path(sys.argv[1])), WallClock(), node="n", deadline_seconds=0.2)
print([finding.code for finding in node.round() if type(finding).__name__ == "Finding"])
node.close()
"""


def test_a_process_ends_although_a_call_of_its_driver_never_does(stub: Path) -> None:
    environment = {**os.environ, VARIABLE: str(SCENARIOS / "hang.txt")}
    done = subprocess.run(
        [sys.executable, "-c", HANGING, str(stub)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.strip() == "['driver_call_stuck']"
