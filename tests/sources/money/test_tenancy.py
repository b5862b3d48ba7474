"""The tenancy tree as a list."""

from __future__ import annotations

import pytest

from steelyard.sources.money import Declaration, numbered_tree, read_tenancy
from steelyard.sources.shared.context import ReadContext

CTX = ReadContext(file="tree.csv")
HEADER = "by,key,match,department,team,project,cost_centre,valid_from,valid_to"


def read(*rows, header=HEADER):
    return read_tenancy("\n".join((header, *rows)) + "\n", CTX)


def told(tree):
    return [(refusal.line, refusal.message) for refusal in tree.refusals.kept]


def test_the_order_of_the_rows_is_the_order_in_which_they_decide():
    tree = read("namespace,,team-a,research,vision,,C-1,,", "label,app,x*,research,,,,,", "namespace,,*,rest,,,,,")
    assert told(tree) == []
    assert [(line.position, line.by, line.key, line.match) for line in tree.lines] == [
        (1, "namespace", None, "team-a"), (2, "label", "app", "x*"), (3, "namespace", None, "*"),
    ]  # fmt: skip
    assert (tree.lines[0].department, tree.lines[0].project, tree.lines[0].cost_centre) == ("research", None, "C-1")


def test_chinese_headers_are_understood():
    (line,) = read("namespace,team-a,研究,C-1", header="by,match,部门,成本中心").lines
    assert (line.department, line.cost_centre) == ("研究", "C-1")


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("pod,,x,research,,,,,", "by: expected one of"), ("label,,x,research,,,,,", "key: a label has one"),
        ("namespace,k,x,research,,,,,", "key: a label has one"),
        ('label,"a"" OR 1",x,research,,,,,', "expected the name of a label"), ("namespace,,,research,,,,,", "match: expected a value"),
        ("namespace,,x,,,,,,", "at least one of department"), ("namespace,,x,research,,,,2026-02-01,2026-01-01", "not after valid_from"),
    ],
)  # fmt: skip
def test_a_line_that_maps_nothing_refuses_the_tree(row, words):
    tree = read("namespace,,a,research,,,,,", row)
    ((line, message),) = told(tree)
    assert (line, words in message) == (3, True), message
    assert tree.lines == []


def test_a_namespace_may_move_at_an_instant_but_not_stand_twice_at_once():
    moved = read("namespace,,a,old,,,,,2026-02-01", "namespace,,a,new,,,,2026-02-01,")
    assert told(moved) == []
    twice = read("namespace,,a,old,,,,,2026-02-02", "namespace,,a,new,,,,2026-02-01,")
    assert [line for line, _message in told(twice)] == [3]


def test_a_version_bears_its_number_and_who_declared_it():
    facts = numbered_tree(read("namespace,,a,research,,,,,").lines, 4, Declaration("abc", 7, "ann"))
    assert [(fact.natural_key, fact.version, fact.declared_by, fact.occurred_at) for fact in facts] == [
        ("4/1", 4, "ann", 7)
    ]
