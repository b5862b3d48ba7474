"""The store keeps each fact once, all or nothing, and says clearly when it cannot be opened."""

from __future__ import annotations

import datetime
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.facts.base import columns_of
from steelyard.facts.finding import Finding
from steelyard.facts.grant import Grant
from steelyard.facts.node import Node
from steelyard.facts.ownership import Ownership
from steelyard.facts.registry import FACTS
from steelyard.facts.transition import Transition
from steelyard.primitives.errors import InvariantError, StoreDamaged, StoreLocked, UsageError
from steelyard.primitives.instant import AT_OBSERVATION, INSTANT_MAX, INSTANT_MIN
from steelyard.store import Store
from steelyard.store.store import FILE_NAME


def node(name: str = "a", at: int = 0, seen: int = 0, **more: object) -> Node:
    return Node(source="test", natural_key=name, node=name, occurred_at=at, observed_at=seen, **more)  # type: ignore[arg-type]


@pytest.fixture
def store() -> Iterator[Store]:
    with Store.open_memory() as opened:
        yield opened


def test_there_is_one_table_per_fact_class_with_its_columns_and_two_keys(store: Store) -> None:
    found = store.rows(
        "SELECT table_name, column_name, data_type, is_nullable FROM duckdb_columns() WHERE schema_name = 'fact' ORDER BY table_name, column_index"
    )
    expected = {
        (fact.TABLE, name, kind, nullable)
        for fact in FACTS
        for name, kind, nullable in [
            *((c.name, c.sql_type, c.nullable) for c in columns_of(fact)),
            ("fact_id", "VARCHAR", False),
            ("import_id", "VARCHAR", True),
        ]
    }
    assert set(found) == expected


def test_the_same_fact_twice_is_kept_once_with_its_earliest_sighting_in_any_order(store: Store) -> None:
    assert store.append([node(seen=9), node(seen=5)]).new == 1
    assert store.append([node(seen=7), node(seen=3)]).new == 0
    assert store.append([node(seen=8)]).new == 0
    assert store.rows("SELECT epoch_us(observed_at) FROM fact.node") == [(3,)]


def test_a_fact_whose_identity_says_no_instant_is_known_again_at_any_other(store: Store) -> None:
    def owned(at: int, owner: str | None = "o") -> Ownership:
        return Ownership(
            source="t",
            natural_key="u",
            object_uid="u",
            object_kind="Job",
            owner_uid=owner,
            occurred_at=at,
            observed_at=at,
        )

    def changed(at: int, basis: str) -> Transition:
        return Transition(
            source="t", natural_key=f"u/{basis}", object_kind="Job", object_uid="u", value="True", time_basis=basis, occurred_at=at,
            observed_at=at,
        )  # fmt: skip

    assert store.append([owned(5), changed(5, "observed")]).new == 2
    assert store.append([owned(9), changed(9, "observed")]).new == 0
    assert store.append([owned(3)]).new == 0
    assert store.append([owned(9, None), changed(9, "stated")]).new == 2
    assert store.rows(
        "SELECT epoch_us(occurred_at), epoch_us(observed_at), owner_uid FROM fact.ownership ORDER BY 1"
    ) == [
        (5, 3, "o"),
        (9, 9, None),
    ]


def test_appending_counts_what_it_saw_and_what_was_new_by_table(store: Store) -> None:
    finding = Finding(source="t", natural_key="x", occurred_at=0, observed_at=0, code="x", subject="s", message="m")
    result = store.append([node("a"), node("b"), node("a"), finding])
    assert (result.seen, result.new, result.new_by_table) == (4, 3, {"node": 2, "finding": 1})


@pytest.mark.parametrize(
    "other",
    [
        {"gpu_count": 0},
        {"ready": False},
        {"gpu_product": ""},
        {"gpu_product": "x\x1fgpu_count=1:1"},
        {"node_uid": "1:x", "gpu_product": None},
        {"gpu_product": "1:x", "node_uid": None},
        {"labels": '{"a":1}'},
        {"unschedulable": True},
        {"created_at": 0},
    ],
)
def test_any_value_that_differs_makes_another_fact(store: Store, other: dict[str, object]) -> None:
    assert store.append([node(), node(**other)]).new == 2


TEXTS = st.text(st.sampled_from("a1:=|-\x1f\x00"), max_size=4)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.none() | TEXTS, st.none() | TEXTS, TEXTS, st.none() | st.booleans(), st.none() | st.integers(0, 3)
        ),
        max_size=12,
    )
)
def test_two_rows_share_an_identity_exactly_when_they_are_equal(
    values: list[tuple[str | None, str | None, str, bool | None, int | None]],
) -> None:
    facts = [node(node_uid=a, gpu_product=b, labels=c, ready=d, gpu_count=e) for a, b, c, d, e in values]
    with Store.open_memory() as store:
        assert store.append(facts).new == len(set(values))
        assert store.append(facts[::-1]).new == 0


def test_text_that_imitates_the_next_column_is_still_another_fact(store: Store) -> None:
    honest = node(gpu_product="x", gpu_memory_mib=1)
    for imitation in ("x\x1fgpu_memory_mib=1", "1:x\x1fgpu_memory_mib=1"):
        assert store.append([honest, node(gpu_product=imitation)]).new_by_table["node"] > 0
    assert store.rows("SELECT count(*) FROM fact.node") == [(3,)]


def test_a_null_where_the_default_is_a_value_is_another_fact_than_the_default(store: Store) -> None:
    common = {
        "source": "t",
        "natural_key": "k",
        "occurred_at": 0,
        "observed_at": 0,
        "pod_uid": "p",
        "container": "c",
        "scheme": "hami",
    }
    assert store.append([Grant(**common, quantity=1), Grant(**common, quantity=2)]).new == 2
    assert store.append([Grant(**common)]).new == 0


@pytest.mark.parametrize("instant", [AT_OBSERVATION, INSTANT_MAX + 1, INSTANT_MIN - 1, 2**62])
@pytest.mark.parametrize("column", ["occurred_at", "observed_at", "created_at"])
def test_an_instant_nobody_can_mean_is_refused_and_nothing_is_stored(store: Store, column: str, instant: int) -> None:
    values = {"occurred_at": 0, "observed_at": 0, column: instant}
    finding = Finding(source="t", natural_key="x", occurred_at=0, observed_at=0, code="x", subject="s", message="m")
    with pytest.raises(InvariantError):
        store.append([finding, Node(source="t", natural_key="b", node="b", **values)])
    assert store.rows("SELECT (SELECT count(*) FROM fact.node), (SELECT count(*) FROM fact.finding)") == [(0, 0)]


@pytest.mark.parametrize("instant", [INSTANT_MIN, -1, 0, 1, INSTANT_MAX])
def test_instants_come_back_to_the_microsecond(store: Store, instant: int) -> None:
    store.append([node(at=instant, seen=instant)])
    assert store.rows("SELECT epoch_us(occurred_at), epoch_us(observed_at) FROM fact.node") == [(instant, instant)]


def test_a_null_where_a_value_is_always_known_is_refused(store: Store) -> None:
    with pytest.raises(InvariantError, match="always known"):
        store.append([Node(source="t", natural_key="b", node=None, occurred_at=0, observed_at=0)])  # type: ignore[arg-type]


def test_a_transaction_that_fails_leaves_nothing_and_the_next_one_works(store: Store) -> None:
    with pytest.raises(ZeroDivisionError), store.transaction():
        store.append([node("a")])
        with store.transaction():
            store.append([node("b")])
        raise ZeroDivisionError
    assert store.append([node("c")]).new == 1
    assert store.rows("SELECT natural_key FROM fact.node") == [("c",)]


def test_times_are_naive_and_in_utc_whatever_the_machine_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Shanghai")
    with Store.open_memory() as store:
        store.append([node(at=0)])
        assert store.records("SELECT occurred_at AS at FROM fact.node") == [{"at": datetime.datetime(1970, 1, 1)}]  # noqa: DTZ001


@pytest.mark.parametrize("condition", ["TRUE", "amount IS NOT NULL", "amount IS NULL", "FALSE"])
def test_columns_are_the_records_turned_round_with_plain_python_cells(store: Store, condition: str) -> None:
    sql = f"""
        SELECT * FROM (VALUES
            ('a', 9007199254740993, TRUE, NULL::VARCHAR), (NULL, NULL, NULL, NULL), ('', -9223372036854775807, FALSE, NULL)
        ) AS cells(name, amount, certain, nothing) WHERE {condition} AND $asked
    """
    records = store.records(sql, {"asked": True})
    turned = {name: [record[name] for record in records] for name in ("name", "amount", "certain", "nothing")}
    columns = store.columns(sql, {"asked": True})
    assert columns == turned
    assert {type(cell) for cells in columns.values() for cell in cells} <= {str, int, bool, type(None)}


def test_a_loaded_table_takes_the_place_of_the_old_one_and_keeps_null(store: Store) -> None:
    store.load_rows("dim.parameter", [("x", "BIGINT")], [(1,)])
    columns = [
        ("name", "VARCHAR"),
        ("weight", "DOUBLE"),
        ("seen_at", "TIMESTAMP"),
        ("total", "DECIMAL(38,0)"),
        ("known", "BOOLEAN"),
    ]
    store.load_rows("dim.parameter", columns, [("a", 0.5, 1, 2**100, True), (None, None, None, None, None)])
    assert store.rows("SELECT name, weight, epoch_us(seen_at), total, known FROM dim.parameter") == [
        ("a", 0.5, 1, 2**100, True),
        (None, None, None, None, None),
    ]
    store.load_rows("dim.parameter", columns, [])
    assert store.rows("SELECT count(*) FROM dim.parameter") == [(0,)]


@pytest.mark.parametrize("name", ["dim.x; DROP TABLE fact.node", "dim.x y", 'dim."x"', "a.b.c", ""])
def test_a_table_name_that_is_no_identifier_is_refused(store: Store, name: str) -> None:
    with pytest.raises(InvariantError):
        store.load_rows(name, [("x", "BIGINT")], [])


def test_the_macros_of_the_definitions_are_there_also_where_the_file_is_read_only(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        assert store.rows("SELECT share_replica_ppm(4)") == [(250_000,)]
    with Store.open(tmp_path, read_only=True) as store:
        assert store.rows("SELECT share_replica_ppm(4)") == [(250_000,)]


def test_a_directory_is_made_and_read_again(tmp_path: Path) -> None:
    with Store.open(tmp_path / "new") as store:
        store.append([node()], import_id="f00")
    with Store.open(tmp_path / "new", read_only=True) as store:
        assert store.rows("SELECT natural_key, import_id FROM fact.node") == [("a", "f00")]
        with pytest.raises(Exception, match="read-only"):
            store.append([node("b")])


def test_reading_where_nothing_was_stored_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="steelyard import"):
        Store.open(tmp_path, read_only=True)


@pytest.mark.parametrize("size", [0, 4096, 8192])
def test_a_file_whose_making_was_cut_off_is_made_again(tmp_path: Path, size: int) -> None:
    Store.open(tmp_path).close()
    os.truncate(tmp_path / FILE_NAME, size)
    with Store.open(tmp_path) as store:
        assert store.append([node()]).new == 1


@pytest.mark.parametrize("content", [b"this is no database", os.urandom(1 << 16)], ids=["text", "noise"])
def test_a_file_that_is_no_store_is_one_clear_line_and_left_alone(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE_NAME).write_bytes(content)
    with pytest.raises(StoreDamaged, match="cannot open") as caught:
        Store.open(tmp_path)
    assert "\n" not in str(caught.value)
    assert (tmp_path / FILE_NAME).read_bytes() == content


HOLD = """
import sys, pathlib
from steelyard.store import Store
store = Store.open(pathlib.Path(sys.argv[1]))
print("open", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("read_only", [False, True])
def test_a_second_process_gets_one_line_that_names_the_first(tmp_path: Path, read_only: bool) -> None:
    Store.open(tmp_path).close()
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"open\n"
        with pytest.raises(StoreLocked, match=str(holder.pid)) as caught:
            Store.open(tmp_path, read_only=read_only)
        holder.communicate()
    assert "\n" not in str(caught.value)
    Store.open(tmp_path, read_only=read_only).close()


def test_the_mark_of_unposted_facts_lasts_until_they_are_posted(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        assert not store.has_unposted()
        store.mark_unposted()
        store.mark_unposted()
        assert store.rows("SELECT count(*) FROM store.pending") == [(1,)]
    with Store.open(tmp_path, read_only=True) as store:
        assert store.has_unposted()
    with Store.open(tmp_path) as store:
        store.mark_posted()
        assert not store.has_unposted()


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda data: data[:12_296] + bytes(64) + data[12_360:], "Corrupt database file"),
        (lambda data: data[: len(data) // 2], "cannot open"),
    ],
    ids=["a block overwritten", "cut in half"],
)
@pytest.mark.parametrize("read_only", [True, False])
def test_a_damaged_file_is_said_to_be_damaged_and_not_in_use(
    tmp_path: Path, spoil: Callable[[bytes], bytes], words: str, read_only: bool
) -> None:
    Store.open(tmp_path).close()
    file = tmp_path / FILE_NAME
    file.write_bytes(spoil(file.read_bytes()))
    with pytest.raises(StoreDamaged, match=words) as caught:
        Store.open(tmp_path, read_only=read_only)
    assert caught.value.exit_code == 3
    assert "\n" not in str(caught.value)


def test_a_failing_transaction_tells_its_own_error_even_where_the_engine_has_ended_it(store: Store) -> None:
    with pytest.raises(KeyError, match="mine"), store.transaction():
        store.execute("ROLLBACK")
        raise KeyError("mine")
    assert store.append([node()]).new == 1
