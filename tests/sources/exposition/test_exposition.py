"""Text of exporters: what is a point, what is a finding, and that neither time nor memory runs away."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from steelyard.facts.finding import Finding
from steelyard.primitives.instant import AT_OBSERVATION
from steelyard.sources.exposition import SeriesCache, read_exposition
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.metric_points import MetricPoint
from steelyard.sources.shared.refusals import SHOWN_MAX

CTX = ReadContext(file="scrape.prom")


def read(text: str | bytes, cache: SeriesCache | None = None) -> tuple[list[MetricPoint], list[Finding]]:
    points: list[MetricPoint] = []
    findings: list[Finding] = []
    for each in read_exposition(text, CTX, cache):
        if isinstance(each, Finding):
            findings.append(each)
        else:
            points.append(each)
    return points, findings


def only(text: str | bytes) -> MetricPoint:
    points, findings = read(text)
    assert not findings
    assert len(points) == 1
    return points[0]


@pytest.mark.parametrize(
    ("line", "name", "labels", "value"),
    [
        ("up 1", "up", {}, 1.0),
        ("up{} 1", "up", {}, 1.0),
        ("up\t1", "up", {}, 1.0),
        ("  up   1  ", "up", {}, 1.0),
        ("up 1\r", "up", {}, 1.0),
        ('vllm:x{a="b"} -2.5e-3', "vllm:x", {"a": "b"}, -0.0025),
        ('m{a="b",} 3', "m", {"a": "b"}, 3.0),
        ('m { a = "b" , c = "d" } 3', "m", {"a": "b", "c": "d"}, 3.0),
        ('m{a="b"}3', "m", {"a": "b"}, 3.0),
        ('m {a="b"}3', "m", {"a": "b"}, 3.0),
        (r'm{a="x\"y\\z\nw"} 1', "m", {"a": 'x"y\\z\nw'}, 1.0),
        (r'm{a="\t"} 1', "m", {"a": r"\t"}, 1.0),
        ('m{a="} 1"} 5', "m", {"a": "} 1"}, 5.0),
        ('m{a="a b, c=d"} 5', "m", {"a": "a b, c=d"}, 5.0),
        ('m{a="猫"} 5', "m", {"a": "猫"}, 5.0),
        ('{"metric.name",a="b"} 5', "metric.name", {"a": "b"}, 5.0),
        ('{"metric.name","a.b"="c"} 5', "metric.name", {"a.b": "c"}, 5.0),
        ("m +Inf", "m", {}, math.inf),
        ("m -Inf", "m", {}, -math.inf),
        ("m 0x10", None, None, None),
    ],
)
def test_a_line_is_one_point_with_its_labels(line: str, name: str | None, labels: object, value: object) -> None:
    if name is None:
        assert [each.code for each in read(line)[1]] == ["source_malformed"]
        return
    point = only(line + "\n")
    assert (point.name, point.labels, point.value, point.at) == (name, labels, value, AT_OBSERVATION)


@pytest.mark.parametrize("spelling", ["NaN", "nan", "NAN"])
def test_a_value_that_is_no_number_is_kept_as_such(spelling: str) -> None:
    assert math.isnan(only(f"m {spelling}\n").value)


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("m 1 1795996800123\n", 1_795_996_800_123_000),
        ("m 1 -5\n", -5_000),
        ("m 1 1795996800.123456\n# EOF\n", 1_795_996_800_123_456),
        ("m 1 1795996800\n# EOF", 1_795_996_800_000_000),
        ('m_bucket{le="1"} 5 1795996800 # {trace_id="a"} 0.5 1795996799\n# EOF\n', 1_795_996_800_000_000),
    ],
)
def test_stamps_are_milliseconds_and_in_openmetrics_seconds(text: str, at: int) -> None:
    assert only(text).at == at


def test_exemplars_are_passed_over() -> None:
    text = 'm_bucket{le="1"} 5 # {trace_id="} 9"} 0.5\nm_count 5 # {t="x"} 1\n# EOF\n'
    cache = SeriesCache()
    for _ in range(2):
        points, findings = read(text, cache)
        assert [(point.name, point.value) for point in points] == [("m_bucket", 5.0), ("m_count", 5.0)]
        assert not findings


@pytest.mark.parametrize(
    "line",
    [
        "m",
        "m{",
        'm{a="b"',
        'm{a="b" 1',
        'm{a="b"}',
        'm{a="b} 1',
        "m{a=b} 1",
        'm{="b"} 1',
        'm{1a="b"} 1',
        'm{a="b" c="d"} 1',
        "m 1 2 3",
        "m one",
        "m 1_000",
        "m ١",
        "m 1 soon",
        "m 1 1.5",
        "m 1 99999999999999999999999999",
        "m 1 " + "9" * 5_000,
        "9m 1",
        "{} 1",
        '{a="b"} 1',
        "=== not metrics",
        "m " + "1" * 5_000,
        "# TYPE",
        "# TYPE 9m gauge",
        "# TYPE m",
        "# TYPE m curve",
        "# HELP",
        "m{" + ",".join(f'l{n}="v"' for n in range(201)) + "} 1",
        'm{a="' + "x" * 70_000 + '"} 1',
    ],
)
def test_a_line_that_is_no_sample_is_a_finding_with_its_place(line: str) -> None:
    points, findings = read(f'# HELP good fine\ngood 1\n{line}\nafter{{a="b"}} 2\n')
    assert [point.name for point in points] == ["good", "after"]
    assert [(each.code, each.file, each.line) for each in findings] == [("source_malformed", "scrape.prom", 3)]
    assert findings[0].excerpt == line[:200]


@pytest.mark.parametrize(
    "line",
    ["", "   ", "#", "# just words", "# HELP m", "# HELP m a {b} c", "# TYPE m gauge", "# UNIT m bytes", "#EOFish"],
)
def test_comments_and_blanks_are_nothing(line: str) -> None:
    assert read(f"{line}\n") == ([], [])


def test_what_follows_the_end_mark_is_a_finding() -> None:
    points, findings = read("m 1\n# EOF\n\nm 2\n# TYPE m gauge\n")
    assert [point.value for point in points] == [1.0]
    assert [each.line for each in findings] == [4, 5]


def test_a_label_that_stands_twice_keeps_the_exporters_own_value_and_is_reported() -> None:
    """A pod label named ``gpu`` beside the exporter's own (telemetry 1.4)."""
    text = 'DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-1",gpu="mine"} 7\n'
    cache = SeriesCache()
    for _ in range(2):
        points, findings = read(text, cache)
        assert points[0].labels == {"gpu": "0", "UUID": "GPU-1"}
        assert [(each.code, each.line) for each in findings] == [("duplicate_label_name", 1)]


def test_the_second_scrape_reads_the_same_as_the_first() -> None:
    text = 'a{x="1"} 1\na{x="2"} 2 1795996800123\nb 3\nc{y="} 9"} 4\nd{z="1"}5\n# EOF x\n'
    cache = SeriesCache()
    first, again = read(text, cache), read(text, cache)
    assert first == again
    assert again[0][0].labels is first[0][0].labels


def test_a_remembered_series_does_not_hide_a_malformed_line() -> None:
    cache = SeriesCache()
    read('m{a="b"} 1\nn 1\n', cache)
    points, findings = read('m{a="b"} x\nm{a="b"} 1_0\nn {c="d"}2\nn\n', cache)
    assert [(point.name, point.labels, point.value) for point in points] == [("n", {"c": "d"}, 2.0)]
    assert [each.line for each in findings] == [1, 2, 4]


def test_labels_that_change_with_every_scrape_are_forgotten() -> None:
    cache = SeriesCache()
    for scrape in range(20):
        read("".join(f'm{{used="{scrape * 100 + n}"}} 1\n' for n in range(100)), cache)
    assert len(cache) == 200


def test_the_cache_is_bounded_and_the_points_are_not_lost() -> None:
    cache = SeriesCache(entries_max=10)
    points, _ = read("".join(f'm{{n="{n}"}} 1\n' for n in range(100)), cache)
    assert (len(points), len(cache)) == (100, 10)


def test_a_flood_of_bad_lines_is_counted_and_not_written_out() -> None:
    _, findings = read("?\n" * 10_000)
    assert len(findings) == SHOWN_MAX + 1
    assert findings[-1].code == "more_findings"


def test_bytes_that_are_no_text_are_replaced() -> None:
    point = only(b'm{a="\xff\x00"} 1\n')
    assert point.labels == {"a": "\ufffd\ufffd"}


@pytest.mark.parametrize(
    "text", ['m{a="' + "\\" * 60_001, 'm{a="' + '\\"' * 30_000, "m{" + "a" * 60_000, "m " + "1" * 60_000 + "x"]
)
def test_a_hostile_line_ends_in_one_finding(text: str) -> None:
    assert [each.code for each in read(text)[1]] == ["source_malformed"]


@given(st.text(max_size=300))
def test_any_text_ends_in_points_and_findings(text: str) -> None:
    cache = SeriesCache()
    first, again = read(text, cache), read(text, cache)
    assert repr(first) == repr(again)


LABELS = st.dictionaries(st.sampled_from("xyz"), st.text(max_size=12))
SAMPLES = st.lists(st.tuples(st.sampled_from(["a", "b:c", "d_e"]), LABELS, st.floats(allow_nan=False)), max_size=8)


@given(SAMPLES)
def test_what_another_parser_reads_is_read_alike(samples: Sequence[tuple[str, dict[str, str], float]]) -> None:
    lines = []
    for name, labels, value in samples:
        if any(set(each) & set("\0\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029") for each in labels.values()):
            continue
        written = ",".join(
            '{}="{}"'.format(key, each.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\""))
            for key, each in labels.items()
        )
        lines.append(f"{name}{{{written}}} {value!r}" if written else f"{name} {value!r}")
    text = "\n".join(lines) + "\n"
    theirs = [
        (sample.name, sample.labels, sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    ]
    points, findings = read(text)
    assert not findings
    assert [(point.name, dict(point.labels), point.value) for point in points] == theirs
