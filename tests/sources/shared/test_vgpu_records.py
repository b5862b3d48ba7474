from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.primitives.errors import SourceMalformed
from steelyard.sources.shared.vgpu_records import (
    RECORDS_MAX,
    SLOTS_MAX,
    BadRecord,
    DeviceRecord,
    parse_record,
    parse_slots,
)

G = "GPU-11111111-0000-4000-8000-000000000001"
H = "GPU-11111111-0000-4000-8000-000000000002"


def shape(text: str, terminated: bool = True) -> list[list[str]]:
    return [[record.uuid or "" for record in slot] for slot in parse_slots(text, terminated=terminated)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (";", [[]]),
        (f"{G},NVIDIA,3000,0:;", [[G]]),
        (f"{G},NVIDIA,3000,0:", [[G]]),
        (f"{G},NVIDIA,20480,50:{H},NVIDIA,20480,50:;", [[G, H]]),
        (f";{G},NVIDIA,16384,0:;;", [[], [G], []]),
        (f"{G},NVIDIA,1000,0:;;,,0,0:;,,0,0:;", [[G], [], [], []]),
        (f",,0,0:;{G},NVIDIA,1000,0:;", [[], [G]]),
        (f"{G},NVIDIA,1000,0,extra,fields:;", [[G]]),
    ],
)
def test_slots_end_with_a_semicolon_and_padding_still_counts_as_a_slot(text: str, expected: list[list[str]]) -> None:
    assert shape(text) == expected


def test_joined_slots_keep_their_empty_last_one() -> None:
    assert shape(f"{G},NVIDIA,1,1:;", terminated=False) == [[G], []]
    assert shape(f"{G},NVIDIA,1,1:;{H},NVIDIA,1,1:", terminated=False) == [[G], [H]]
    assert shape(";", terminated=False) == [[], []]


def test_a_record_splits_its_mig_suffix_from_the_uuid() -> None:
    assert parse_record(f"{G}[1-2],NVIDIA,10240,28") == DeviceRecord(G, "NVIDIA", 10240, 28, "1-2", 1, 2)
    assert parse_record(f"{G}[x],NVIDIA,10240,28") == DeviceRecord(G, "NVIDIA", 10240, 28, "x", None, None)


@pytest.mark.parametrize(
    ("text", "fields", "uuid"),
    [
        (f"{G},NVIDIA", 2, G),
        (G, 1, G),
        (f"{G}[0-1],NVIDIA,5", 3, G),
        (f"{G},NVIDIA,many,0", 4, G),
        (f"{G},NVIDIA,-1,0", 4, G),
        (f"{G},NVIDIA,1e3,0", 4, G),
        (f"{G},NVIDIA,{'9' * 400},0", 4, G),
        (f"{G},NVIDIA,٣,0", 4, G),
        (",NVIDIA,1000,0", 4, None),
        ("GPU with blanks,NVIDIA,1000,0", 4, None),
        ("x" * 161 + ",NVIDIA,1000,0", 4, None),
    ],
)
def test_an_unreadable_record_keeps_its_field_count_and_what_uuid_could_be_read(
    text: str, fields: int, uuid: str | None
) -> None:
    record = parse_record(text)
    assert isinstance(record, BadRecord)
    assert (record.fields_count, record.uuid) == (fields, uuid)


@pytest.mark.parametrize(
    "text",
    [
        ";" * (SLOTS_MAX + 1),
        "x;" * 100_000,
        "x:" * (RECORDS_MAX + 1),
        "x" * 1_048_577,
    ],
)
def test_an_allocation_beyond_every_real_pod_is_refused_as_a_whole(text: str) -> None:
    with pytest.raises(SourceMalformed):
        parse_slots(text, terminated=True)


def test_the_largest_allowed_allocation_is_still_read() -> None:
    assert len(parse_slots(";" * SLOTS_MAX, terminated=True)) == SLOTS_MAX
    assert len(parse_slots("x:" * RECORDS_MAX, terminated=True)[0]) == RECORDS_MAX


@given(st.text(alphabet="GPU-1[]:;,0 \ud800é", max_size=60), st.booleans())
def test_any_text_yields_slots_or_a_refusal(text: str, terminated: bool) -> None:
    slots = parse_slots(text, terminated=terminated)
    pieces = text.split(";")
    dropped = 1 if terminated and pieces[-1] == "" else 0
    assert len(slots) == (len(pieces) - dropped if text else 0)


records = st.tuples(st.integers(0, 3), st.integers(1, 10**9), st.integers(0, 100))


@given(st.lists(st.lists(records, max_size=3), max_size=6), st.booleans())
def test_what_is_written_is_what_is_read(pod: list[list[tuple[int, int, int]]], padding: bool) -> None:
    written = "".join(
        (
            "".join(f"GPU-{uuid},NVIDIA,{memory},{cores}:" for uuid, memory, cores in slot)
            or (",,0,0:" if padding else "")
        )
        + ";"
        for slot in pod
    )
    read = [
        [(int(record.uuid[4:]), record.memory_mib, record.cores) for record in slot if isinstance(record, DeviceRecord)]
        for slot in parse_slots(written, terminated=True)
    ]
    assert read == pod
