"""What a host says of a pod's work: counters of control groups become figures of a minute."""

from __future__ import annotations

from pathlib import Path

import pytest

from steelyard.primitives.instant import HOUR_US, MINUTE_US
from steelyard.sources.cgroup.pod_pressure import PodPressure
from steelyard.sources.shared.context import ReadContext

UID = "0a1b2c3d-1111-4222-8333-444455556666"
OTHER = "ffffffff-1111-4222-8333-444455556666"
START = 1_900_000_000_000_000
SLICE = f"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UID.replace('-', '_')}.slice"
SCOPE = f"cri-containerd-{'5' * 64}.scope"


class Node:
    """A host made of files, looked at every minute."""

    def __init__(self, folder: Path) -> None:
        self.root, self.proc = folder / "cgroup", folder / "proc"
        self.pressure = PodPressure(self.root, self.proc)
        self.now = START

    def write(self, place: str, **files: str) -> None:
        folder = self.root / place
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / name.replace("_", ".")).write_text(text)

    def waited(self, word: str, total_us: int) -> None:
        (self.proc / "pressure").mkdir(parents=True, exist_ok=True)
        (self.proc / "pressure" / word).write_text(psi(total_us))

    def look(self, *pods: str, after_us: int = MINUTE_US) -> dict[tuple[str, str], float]:
        self.now += after_us
        found = self.pressure.look(pods or (UID,), ReadContext(node="n1", observed_at=self.now))
        return {(fact.metric, fact.labels): fact.value for fact in found if fact.value is not None}


OF_POD = f'{{"pod_uid":"{UID}"}}'


def psi(total_us: int) -> str:
    return f"some avg10=0.00 avg60=0.00 avg300=0.00 total={total_us}\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n"


def stat(used_us: int, periods: int = 0, throttled: int = 0) -> str:
    return f"usage_usec {used_us}\nuser_usec 1\nnr_periods {periods}\nnr_throttled {throttled}\nthrottled_usec 9\n"


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_a_pods_figures_are_differences_of_a_minute(node: Node) -> None:
    node.write(
        SLICE,
        cpu_stat=stat(1_000_000),
        io_pressure=psi(0),
        cpu_pressure=psi(5),
        memory_pressure=psi(5),
        io_stat="8:0 rbytes=100 wbytes=5 rios=1\n",
    )
    node.write(f"{SLICE}/{SCOPE}", cpu_stat=stat(900_000, 100, 10))
    assert node.look() == {}
    node.write(SLICE, cpu_stat=stat(121_000_000), io_pressure=psi(15_000_000), cpu_pressure=psi(5), memory_pressure=psi(6_000_005),
               io_stat="8:0 rbytes=6100 wbytes=5\n9:0 rbytes=600 wbytes=0\n")  # fmt: skip
    node.write(f"{SLICE}/{SCOPE}", cpu_stat=stat(120_000_000, 700, 490))
    assert node.look() == {
        ("host_cpu_throttled_ratio", OF_POD): 0.8,
        ("host_cpu_pressure_ratio", OF_POD): 0.0,
        ("host_io_pressure_ratio", OF_POD): 0.25,
        ("host_memory_pressure_ratio", OF_POD): 0.1,
        ("host_cpu_used_cores", OF_POD): 2.0,
        ("host_io_read_bytes_per_second", OF_POD): 110.0,
        ("host_io_write_bytes_per_second", OF_POD): 0.0,
    }


def test_the_worst_container_of_a_pod_is_told(node: Node) -> None:
    for name in ("a", "b"):
        node.write(f"{SLICE}/cri-containerd-{name * 64}.scope", cpu_stat=stat(0, 0, 0))
    node.look()
    for name, held in (("a", 0), ("b", 30)):
        node.write(f"{SLICE}/cri-containerd-{name * 64}.scope", cpu_stat=stat(0, 60, held))
    assert node.look()[("host_cpu_throttled_ratio", OF_POD)] == 0.5


def test_looks_closer_than_a_minute_count_as_one(node: Node) -> None:
    node.write(SLICE, cpu_stat=stat(0))
    node.look()
    node.write(SLICE, cpu_stat=stat(60_000_000))
    assert node.look(after_us=10_000_000) == {}
    assert node.look(after_us=50_000_000)[("host_cpu_used_cores", OF_POD)] == 1.0


@pytest.mark.parametrize("after_us", [HOUR_US + 1, -HOUR_US])
def test_looks_too_far_apart_or_out_of_order_give_no_figure(node: Node, after_us: int) -> None:
    node.write(SLICE, cpu_stat=stat(0))
    node.look()
    node.write(SLICE, cpu_stat=stat(1))
    assert node.look(after_us=after_us) == {}


def test_a_counter_that_fell_gives_no_figure(node: Node) -> None:
    """The pod was made anew under the same name of a static pod."""
    node.write(SLICE, cpu_stat=stat(60_000_000, 500, 400), io_pressure=psi(9))
    node.look()
    node.write(SLICE, cpu_stat=stat(5, 3, 1), io_pressure=psi(9))
    assert node.look() == {("host_io_pressure_ratio", OF_POD): 0.0}


def test_what_a_kernel_does_not_account_is_not_zero(node: Node) -> None:
    node.write(SLICE, cpu_stat="usage_usec 5\n")
    node.look()
    assert {metric for metric, _ in node.look()} == {"host_cpu_used_cores"}


def test_version_1_tells_what_was_throttled(node: Node) -> None:
    place = f"cpu,cpuacct/kubepods/burstable/pod{UID}"
    node.write(f"{place}/{'5' * 64}", cpu_stat="nr_periods 10\nnr_throttled 5\nthrottled_time 7\n")
    node.look()
    node.write(f"{place}/{'5' * 64}", cpu_stat="nr_periods 20\nnr_throttled 15\nthrottled_time 7\n")
    assert node.look() == {("host_cpu_throttled_ratio", OF_POD): 1.0}


def test_only_pods_that_are_asked_for_are_looked_at(node: Node) -> None:
    node.write(SLICE, cpu_stat=stat(0))
    node.write(SLICE.replace(UID.replace("-", "_"), OTHER.replace("-", "_")), cpu_stat=stat(0))
    node.look()
    assert {labels for _, labels in node.look()} == {OF_POD}


def test_the_nodes_own_pressure_has_no_pod(node: Node) -> None:
    node.waited("io", 0)
    node.look(OTHER)
    node.waited("io", 30_000_000)
    assert node.look(OTHER) == {("host_io_pressure_ratio", "{}"): 0.5}


@pytest.mark.parametrize(
    "text", ["", "some", "some total=", "some total=x", f"some total={'9' * 30}", "\0\xff", "full total=5\n"]
)
def test_a_pressure_file_of_any_content_gives_no_figure(node: Node, text: str) -> None:
    node.write(SLICE, io_pressure=text)
    node.look()
    assert node.look() == {}


def test_a_link_that_leads_out_of_the_tree_is_not_followed(node: Node, tmp_path: Path) -> None:
    (tmp_path / "elsewhere" / f"pod{UID}").mkdir(parents=True)
    (tmp_path / "elsewhere" / f"pod{UID}" / "cpu.stat").write_text(stat(0))
    node.root.mkdir()
    (node.root / "kubepods").symlink_to(tmp_path / "elsewhere")
    node.look()
    assert node.look() == {}
