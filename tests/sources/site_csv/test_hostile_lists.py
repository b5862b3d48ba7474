"""Hostile rows in traces and site lists end in findings, never in an exception, and cost their own line only."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.facts.base import Fact
from steelyard.facts.finding import Finding
from steelyard.sources.openb import read_openb_nodes, read_openb_pods
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.site_csv import read_holdings, read_inventory

Reader = Callable[[Iterable[str] | str, ReadContext], Iterator[Fact]]
READERS: list[tuple[Reader, str, str]] = [
    (
        read_openb_pods,
        "name,num_gpu,gpu_milli,pod_phase,creation_time,deletion_time,scheduled_time",
        "p,1,1000,Running,1,9,2",
    ),
    (read_openb_nodes, "sn,gpu,model", "n,8,G2"),
    (read_inventory, "serial,rack,price,currency,memory_mib,purchase_date", "S1,r,5,EUR,100,2024-01-01"),
    (read_holdings, "device_uuid,holder,from,to,approver", "GPU-a,h,2026-01-01,2026-02-01,x"),
]
CELLS = [
    "\x00",
    "\ud800",
    "9" * 5000,
    "NaN",
    "-0",
    "1e999",
    "١",
    '"',
    '""',
    "''",
    "=cmd()",
    "x" * 200_000,
    "2026-02-30",
    "0000-00-00",
]


@pytest.mark.parametrize(("reader", "header", "good"), READERS)
@pytest.mark.parametrize("cell", CELLS)
def test_a_hostile_cell_costs_at_most_its_row(reader: Reader, header: str, good: str, cell: str):
    width = header.count(",") + 1
    hostile = [
        ",".join([cell if at == column else value for at, value in enumerate(good.replace("p,", "q,").split(","))])
        for column in range(width)
    ]
    facts = list(reader([header, good, *hostile], ReadContext(file="f")))
    alone = [fact for fact in reader([header, good], ReadContext(file="f")) if not isinstance(fact, Finding)]
    assert {fact.TABLE for fact in alone} <= {fact.TABLE for fact in facts}
    assert all(len(fact.excerpt or "") <= 200 for fact in facts if isinstance(fact, Finding))


@pytest.mark.parametrize(("reader", "header", "good"), READERS)
def test_a_file_of_quotes_is_one_finding_a_line(reader: Reader, header: str, good: str):
    facts = list(reader([header, *['"' * 3] * 2000, good], ReadContext(file="f")))
    refused = [fact for fact in facts if isinstance(fact, Finding) and fact.code == "source_malformed"]
    assert 1 <= len(refused) <= 2000
    assert any(not isinstance(fact, Finding) for fact in facts)


@settings(max_examples=60, deadline=None)
@given(
    lines=st.lists(st.text(alphabet=st.sampled_from('a1,;"\n\t|-: \x00é'), max_size=60), max_size=12),
    which=st.integers(0, 3),
)
def test_no_text_stops_a_reader(lines: list[str], which: int):
    reader, header, _ = READERS[which]
    for text in ([header, *lines], lines):
        assert isinstance(list(reader(text, ReadContext(file="f"))), list)
