"""Remote write as bytes: what a sender wrote is read, whatever it wrote, within bounds that its own words do not set."""

from __future__ import annotations

import math
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.primitives.errors import SourceMalformed
from steelyard.sources.prometheus import UnsupportedWrite, check_write_headers, read_write_request
from steelyard.sources.prometheus.remote_write import DECOMPRESSED_BYTES_MAX, SERIES_BYTES_MAX, SERIES_MAX
from steelyard.sources.shared.metric_points import MetricPoint
from tests.sources.prometheus.write_requests import STALE, delimited, sample, series, snappy, varint

AT_MS = 1_772_359_200_000
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), min_size=1, max_size=12)


@given(
    st.lists(
        st.tuples(
            st.dictionaries(TEXT.filter(lambda text: text != "__name__"), TEXT, max_size=5),
            st.lists(st.tuples(st.floats(allow_nan=False), st.integers(-(10**12), 10**13)), max_size=5),
        ),
        max_size=6,
    )
)
def test_every_sample_comes_back_with_its_labels_and_its_stamp(
    written: list[tuple[dict[str, str], list[tuple[float, int]]]],
) -> None:
    body = b"".join(
        series({"__name__": f"m{n}", **labels}, *(sample(value, at_ms) for value, at_ms in samples))
        for n, (labels, samples) in enumerate(written)
    )
    found = read_write_request(snappy(body))
    assert found.points == [
        MetricPoint(f"m{n}", labels, value, at_ms * 1_000)
        for n, (labels, samples) in enumerate(written)
        for value, at_ms in samples
    ]
    assert (found.series_count, found.refused_count, found.stale_count) == (len(written), 0, 0)


def test_a_stale_mark_is_no_sample_and_another_nan_is_one() -> None:
    found = read_write_request(snappy(series({"__name__": "m"}, sample(STALE, AT_MS), sample(math.nan, AT_MS + 1))))
    assert found.stale_count == 1
    assert [(math.isnan(point.value), point.at) for point in found.points] == [(True, (AT_MS + 1) * 1_000)]


def test_metadata_exemplars_and_native_histograms_are_passed_over_and_the_last_are_counted() -> None:
    exemplar, histogram = delimited(3, b"\x08\x01"), delimited(4, b"\x08\x01")
    metadata = delimited(3, delimited(2, b"m"))
    body = (
        metadata
        + series({"__name__": "m", "empty": ""}, sample(1.0, AT_MS), exemplar, histogram)
        + varint(9 << 3)
        + varint(7)
    )
    found = read_write_request(snappy(body))
    assert found.points == [MetricPoint("m", {}, 1.0, AT_MS * 1_000)]
    assert found.histograms_count == 1


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (series({"job": "j"}, sample(1.0, AT_MS)), "without the name"),
        (
            series([("__name__", "m"), *((f"l{n}", "x") for n in range(200))], sample(1.0, AT_MS)),
            "more than 200 labels",
        ),
        (series({"__name__": "m"}, sample(1.0, 2**62)), "outside the years"),
    ],
)
def test_what_is_no_sample_is_counted_and_the_rest_is_read(content: bytes, reason: str) -> None:
    found = read_write_request(snappy(content + series({"__name__": "good"}, sample(1.0, AT_MS))))
    assert [point.name for point in found.points] == ["good"]
    assert found.refused_count == 1
    assert reason in found.refused[0]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff" * 30,
        varint(DECOMPRESSED_BYTES_MAX + 1) + b"x" * 100,
        varint(DECOMPRESSED_BYTES_MAX) + b"x",
        varint(100) + b"not snappy",
        snappy(b"\x0a\x7f"),
        snappy(b"\x0a" + b"\xff" * 12),
        snappy(b"\x0b\x0c"),
        snappy(b"\x00\x00"),
        snappy(delimited(1, b"\x0a\x7fx")),
        snappy(delimited(1, delimited(1, delimited(1, b"\xff\xfe")))),
        snappy(delimited(1, b"\x0b" * 200)),
        snappy(delimited(1, b"x" * (SERIES_BYTES_MAX + 1))),
        snappy(b"\x0a\x00" * (SERIES_MAX + 1)),
    ],
)
def test_a_body_that_is_none_is_refused_as_a_whole(body: bytes) -> None:
    with pytest.raises(SourceMalformed):
        read_write_request(body)


def test_memory_follows_the_bytes_and_not_the_words_of_the_sender() -> None:
    empty = snappy(b"\x0a\x00" * SERIES_MAX)
    read_write_request(empty)
    tracemalloc.start()
    try:
        read_write_request(empty)
        with pytest.raises(SourceMalformed):
            read_write_request(varint(DECOMPRESSED_BYTES_MAX) + b"x" * 1_000)
        _now, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 16 << 20


@given(st.binary(max_size=200))
def test_any_bytes_end_in_points_or_in_a_refusal(content: bytes) -> None:
    for body in (content, snappy(content), snappy(delimited(1, content))):
        try:
            read_write_request(body)
        except SourceMalformed:
            continue


@pytest.mark.parametrize(
    ("content_type", "encoding", "taken"),
    [
        ("application/x-protobuf", "snappy", True),
        ("Application/X-Protobuf; proto=prometheus.WriteRequest", "Snappy", True),
        ("application/x-protobuf;proto=io.prometheus.write.v2.Request", "snappy", False),
        ("application/json", "snappy", False),
        ("application/x-protobuf", "gzip", False),
        ("application/x-protobuf", None, False),
        (None, None, False),
    ],
)
def test_only_version_1_in_snappy_is_taken(content_type: str | None, encoding: str | None, taken: bool) -> None:
    if taken:
        check_write_headers(content_type, encoding)
    else:
        with pytest.raises(UnsupportedWrite):
            check_write_headers(content_type, encoding)


def test_a_size_that_the_bytes_cannot_hold_is_refused_before_anything_is_allocated() -> None:
    with pytest.raises(SourceMalformed, match="bytes cannot hold"):
        read_write_request(varint(DECOMPRESSED_BYTES_MAX) + b"x" * 1_000)


def test_a_sample_stamped_after_the_bound_is_left_out_and_counted_and_the_others_stand() -> None:
    content = series({"__name__": "m"}, sample(1.0, AT_MS), sample(2.0, AT_MS + 1))
    found = read_write_request(snappy(content), not_after=AT_MS * 1_000)
    assert [point.value for point in found.points] == [1.0]
    assert found.refused_count == 1
    assert "a day after the server's now" in found.refused[0]
