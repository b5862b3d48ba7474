"""What is scraped from an agent gives the same facts as what is delivered; and what a hostile text says is refused line by line."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from steelyard.app.agent.exposition import Board
from steelyard.app.agent.metrics_port import MetricsPort
from steelyard.app.agent.rounds import Seen
from steelyard.app.metric_readers import read_metrics_text
from steelyard.facts.base import Fact
from steelyard.facts.device import Device
from steelyard.facts.device_sample import DeviceSample
from steelyard.facts.finding import Finding
from steelyard.facts.grant import Grant
from steelyard.facts.metric_sample import MetricSample
from steelyard.facts.process_sample import ProcessSample
from steelyard.facts.source_status import SourceStatus
from steelyard.facts.unit import Unit
from steelyard.primitives.errors import UsageError
from steelyard.primitives.instant import MINUTE_US
from steelyard.sources.shared.context import ReadContext
from tests.app.agent.batches import AT, CARD, NODE, event, sample, status
from tests.app.served_directory import steelyard

DATED = {"source": "agent", "occurred_at": AT, "observed_at": AT}
FACTS: list[Fact] = [
    Device(
        natural_key=CARD,
        device_uuid=CARD,
        node=NODE,
        model='NVIDIA "H100"\\x',
        serial="165",
        pci_address="00000000:3B:00.0",
        device_index=0,
        memory_mib=81_559,
        mig_enabled=False,
        healthy=True,
        driver_version="580.1",
        **DATED,
    ),
    Unit(natural_key="MIG-1", unit_kind="mig", unit_id="MIG-1", device_uuid=CARD, gi=1, ci=0, profile="1g.10gb", **DATED),
    Grant(
        natural_key="name:a/b/c/x",
        pod_uid="name:a/b",
        container="c",
        scheme="pod_resources",
        unit_kind="gpu",
        device_uuid=CARD,
        node=NODE,
        **{**DATED, "source": "pod_resources"},
    ),
    DeviceSample(
        natural_key=CARD,
        device_uuid=CARD,
        interval_us=10_000_001,
        memory_used_mib=12_345,
        memory_total_mib=81_559,
        util_gpu_ratio=0.37,
        sm_active_ratio=1 / 3,
        power_watts=305.123,
        sm_clock_mhz=1_980,
        throttle_reasons=2**40 + 4,
        unknown='{"dram_active_ratio":"the board has no \\"GPM\\"","memory_reserved_mib":"x"}',
        **DATED,
    ),
    DeviceSample(natural_key=f"{CARD}/gi3", device_uuid=CARD, gi=3, unknown='{"util_gpu_ratio":"not under MIG"}', **DATED),
    ProcessSample(
        natural_key=f"{CARD}/77", device_uuid=CARD, pid=77, process_name="ray::X{a}", process_type="C", sm_ratio=0.0, **DATED
    ),
    ProcessSample(
        natural_key=f"{CARD}/gi3/ci1/78",
        device_uuid=CARD,
        gi=3,
        ci=1,
        pid=78,
        pod_uid="0b5f",
        memory_used_mib=1,
        unknown='{"sm_ratio":"not measurable under MIG"}',
        **DATED,
    ),
    MetricSample(
        natural_key="clocks{}", family="device", metric="clocks", kind="counter", labels='{"uuid":"x"}', value=1e15, node=NODE, **DATED
    ),
    status(0),
    SourceStatus(natural_key="nvml/node/gpu-1", kind="nvml", scope="node/gpu-1", status="failed", message="it hangs", **DATED),
]  # fmt: skip


def text_of(facts: list[Fact]) -> bytes:
    board = Board()
    board.take(facts)
    return board.text()


def read(text: bytes) -> list[Fact]:
    return list(read_metrics_text(text, ReadContext(observed_at=AT + MINUTE_US)))


def key(fact: Fact) -> str:
    return f"{fact.TABLE} {msgspec.json.encode(msgspec.structs.replace(fact, observed_at=0)).decode()}"


def test_every_fact_that_metrics_can_tell_comes_back_as_it_was() -> None:
    assert sorted(map(key, read(text_of(FACTS)))) == sorted(map(key, FACTS))


WORDS = st.text('a"\\\n{}= é', min_size=1).map(str.strip).filter(bool)
REASONS = st.dictionaries(st.sampled_from(["sm_active_ratio", "ecc_uncorrected"]), WORDS).map(
    lambda known: json.dumps(known, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
)


@given(
    st.lists(
        st.builds(
            DeviceSample,
            source=st.just("agent"),
            natural_key=st.just(CARD),
            device_uuid=st.just(CARD),
            occurred_at=st.integers(0, 10**9).map(lambda ms: AT + ms * 1_000),
            observed_at=st.just(AT),
            memory_used_mib=st.none() | st.integers(0, 2**31),
            interval_us=st.none() | st.integers(0, 10**10),
            power_watts=st.none() | st.floats(allow_nan=False, allow_infinity=False),
            gr_active_ratio=st.none() | st.floats(0, 1),
            unknown=REASONS,
        ),
        unique_by=lambda fact: fact.occurred_at,
        max_size=4,
    )
)  # fmt: skip
def test_any_sample_comes_back_bit_for_bit(samples: list[DeviceSample]) -> None:
    assert sorted(map(key, read(text_of(list(samples))))) == sorted(map(key, samples))


def test_the_text_is_what_other_parsers_take_too_and_every_metric_stands_together() -> None:
    families = list(text_string_to_metric_families(text_of([*FACTS, event(1)]).decode()))
    names = [family.name for family in families]
    assert len(names) == len(set(names)) > 15
    assert all(family.documentation for family in families)


def test_what_is_said_now_and_then_is_repeated_with_its_own_stamp_until_it_is_said_anew() -> None:
    board = Board()
    board.take(FACTS)
    later = sample(6)
    board.take([later])
    found = read(board.text())
    assert {fact.occurred_at for fact in found if isinstance(fact, Device | Unit | Grant | MetricSample)} == {AT}
    assert [fact for fact in found if isinstance(fact, DeviceSample)] == [
        msgspec.structs.replace(later, observed_at=AT + MINUTE_US)
    ]
    other = msgspec.structs.replace(FACTS[0], occurred_at=AT + MINUTE_US, natural_key="GPU-b", device_uuid="GPU-b")  # type: ignore[type-var]
    board.take([other])
    inventory = [fact for fact in read(board.text()) if isinstance(fact, Device | Unit)]
    assert [fact.natural_key for fact in inventory] == ["GPU-b"]


def test_events_are_counted_and_not_read_back() -> None:
    text = text_of([event(1), msgspec.structs.replace(event(2), count=4)])
    assert b'steelyard_agent_events_total{kind="xid",code="31"} 5' in text
    assert read(text) == []


@pytest.mark.parametrize(
    "line",
    [
        "steelyard_gpu_sampled 1",
        'steelyard_gpu_sampled{gi="1"} 1',
        'steelyard_gpu_process_sampled{uuid="u",pid="x"} 1',
        f'steelyard_gpu_process_sampled{{uuid="u",pid="{"9" * 40}"}} 1',
        'steelyard_gpu_info{uuid="u"} 1',
        'steelyard_gpu_info{key="u",source="agent",healthy="maybe"} 1',
        'steelyard_agent_source_info{key="u",source="agent"} 1',
        'steelyard_gpu_memory_used_bytes{uuid="u"} NaN',
        'steelyard_gpu_memory_used_bytes{uuid="u"} 1048577',
        'steelyard_gpu_memory_used_bytes{uuid="u"} +Inf',
        'steelyard_gpu_unknown{uuid="u",column="nothing",reason="x"} 1',
        'steelyard_gpu_unknown{uuid="u",reason="x"} 1',
        'steelyard_gpu_counter{key="k",source="agent",metric="m",family="f"} NaN',
    ],
)
def test_a_line_that_no_agent_writes_is_a_finding_and_the_others_are_read(line: str) -> None:
    found = read(text_of([sample(1)]) + f"{line}\n".encode())
    assert [type(fact) for fact in found if not isinstance(fact, Finding)] == [DeviceSample]
    assert "agent_metric_malformed" in [fact.code for fact in found if isinstance(fact, Finding)]


def test_a_figure_without_its_sample_is_no_fact() -> None:
    assert read(b'steelyard_gpu_power_watts{uuid="u"} 3\n') == []


def test_labels_that_a_scrape_adds_change_nothing() -> None:
    text = text_of(FACTS).decode()
    added = text.replace(
        "} ",
        ',job="steelyard-agent",instance="n:9480",namespace="steelyard",pod="agent-x",container="agent",node="n"} ',
    )
    assert sorted(map(key, read(added.encode()))) == sorted(map(key, FACTS))


def test_the_port_answers_with_the_last_round_and_nothing_else(tmp_path: Path) -> None:
    with MetricsPort.open(("127.0.0.1", 0), None, None) as port:
        port.show(Seen(AT, FACTS, {}, ["kernel_log: no right"]))
        with urllib.request.urlopen(f"http://127.0.0.1:{port.port}/metrics", timeout=30) as answer:
            text = answer.read()
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        assert b"steelyard_agent_rounds_total 1\n" in text
        assert b"steelyard_agent_blind_parts 1\n" in text
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"http://127.0.0.1:{port.port}/spool", timeout=30)
        with pytest.raises(UsageError, match="--metrics"), MetricsPort.open(("127.0.0.1", port.port), None, None):
            pass
    (tmp_path / "agent.prom").write_bytes(text)
    done = steelyard("import", "--json", "--data", tmp_path / "d", tmp_path / "agent.prom", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["files"][0]["facts_count"] >= len(FACTS)
