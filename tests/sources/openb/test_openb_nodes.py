"""The node list of an openb trace."""

from __future__ import annotations

from pathlib import Path

import pytest

from steelyard.facts.finding import Finding
from steelyard.facts.inventory_basis import InventoryBasis
from steelyard.facts.node import Node
from steelyard.sources.openb import read_openb_nodes
from steelyard.sources.shared.context import ReadContext

CTX = ReadContext(file="nodes.csv")
HEADER = "sn,cpu_milli,memory_mib,gpu,model"


def test_cards_of_a_node_are_declared_capacity_from_the_start_of_the_trace():
    facts = list(read_openb_nodes([HEADER, "n-1,1,1,8,G2", "n-2,1,1,0,"], CTX))
    (basis,) = [fact for fact in facts if isinstance(fact, InventoryBasis)]
    assert (basis.basis, basis.cards_count, basis.model, basis.node) == ("declared", 8, "G2", "n-1")
    assert (basis.natural_key, basis.valid_from_at, basis.valid_to_at) == ("node/n-1", 0, None)
    assert [node.node for node in facts if isinstance(node, Node)] == ["n-1", "n-2"]


def test_a_declared_count_is_not_passed_off_as_a_node_label():
    facts = list(read_openb_nodes([HEADER, "n-1,1,1,8,G2"], CTX))
    assert [node.gpu_count for node in facts if isinstance(node, Node)] == [None]


@pytest.mark.parametrize("row", ["n-3,1,1,x,G2", "n-3,1,1,-1,G2", "n-1,1,1,4,T4", ",1,1,4,T4", "n-3,1,1"])
def test_a_row_that_is_no_node_is_refused(row: str):
    facts = list(read_openb_nodes([HEADER, "n-1,1,1,8,G2", row], CTX))
    (finding,) = [fact for fact in facts if isinstance(fact, Finding)]
    assert (finding.code, finding.line) == ("source_malformed", 3)
    assert sum(isinstance(fact, Node) for fact in facts) == 1


def test_a_file_without_the_columns_is_one_finding():
    (finding,) = read_openb_nodes(["a,b", "1,2"], CTX)
    assert isinstance(finding, Finding)
    assert finding.code == "trace_columns_missing"


def test_the_public_trace_declares_its_cards(shared: Path):
    with (shared / "cases/traces/alibaba-gpu-v2023/openb_node_list_all_node.csv").open() as lines:
        facts = list(read_openb_nodes(lines, CTX))
    assert sum(isinstance(fact, Node) for fact in facts) == 1523
    bases = [fact for fact in facts if isinstance(fact, InventoryBasis)]
    assert (len(bases), sum(basis.cards_count for basis in bases)) == (1213, 6212)
