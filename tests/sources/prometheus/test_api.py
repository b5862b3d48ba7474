"""The query API within bounds: asked for less where it is too much, refused clearly, hostile answers read as data. The server is scripted."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.facts.finding import Finding
from steelyard.primitives.errors import SourceMalformed, SourceUnavailable, SourceUnsupported, UsageError
from steelyard.primitives.instant import DAY_US, HOUR_US, MINUTE_US, SECOND_US, Window
from steelyard.sources.prometheus import PrometheusApi, PrometheusEndpoint, chunks_of, missing_chunks
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.metric_points import MetricPoint

START = 1_772_359_200 * SECOND_US
WINDOW = Window(START, START + MINUTE_US)
CTX = ReadContext(observed_at=WINDOW.end)

Handler = Callable[[httpx.Request], httpx.Response]


def matrix(*rows: dict[str, Any], **beside: Any) -> httpx.Response:
    return httpx.Response(
        200, json={"status": "success", "data": {"resultType": "matrix", "result": list(rows)}, **beside}
    )


def row(name: str = "m", *values: tuple[float, str], **labels: str) -> dict[str, Any]:
    return {"metric": {"__name__": name, **labels}, "values": list(values) or [[START / SECOND_US + 1, "1"]]}


def refusal(status: int, reason: str, kind: str = "execution") -> httpx.Response:
    return httpx.Response(status, json={"status": "error", "errorType": kind, "error": reason})


def asked(request: httpx.Request) -> dict[str, str]:
    text = request.content.decode() if request.method == "POST" else request.url.query.decode()
    return {name: values[0] for name, values in parse_qs(text).items()}


def api(handler: Handler, **more: Any) -> PrometheusApi:
    return PrometheusApi(PrometheusEndpoint("http://prometheus/prefix/", **more), httpx.MockTransport(handler))


def points(found: PrometheusApi, names: tuple[str, ...] = ("m",), window: Window = WINDOW) -> list[MetricPoint]:
    return [each for each in found.points(names, window, CTX) if isinstance(each, MetricPoint)]


def findings(found: PrometheusApi) -> list[tuple[str, str]]:
    return [(each.code, each.severity) for each in found.points(["m"], WINDOW, CTX) if isinstance(each, Finding)]


def test_who_we_are_is_said_and_the_prefix_is_kept() -> None:
    seen: list[httpx.Request] = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return matrix()

    points(api(handler, bearer_token="abc\n", org_id="team-a"))
    points(api(handler, username="u", password="p"))
    assert [str(request.url) for request in seen] == ["http://prometheus/prefix/api/v1/query"] * 2
    assert seen[0].headers["Authorization"] == "Bearer abc"
    assert seen[0].headers["X-Scope-OrgID"] == "team-a"
    assert seen[1].headers["Authorization"].startswith("Basic ")
    assert "secret" not in repr(PrometheusEndpoint("http://x", bearer_token="secret"))


def test_stored_samples_are_asked_for_by_a_range_selector_and_cut_to_the_half_open_window() -> None:
    seconds = START // SECOND_US
    stamps = [(seconds - 0.001, "1"), (seconds + 0.0, "2"), (seconds + 59.999, "3"), (seconds + 60.0, "4")]

    def handler(request: httpx.Request) -> httpx.Response:
        assert asked(request) == {"query": '{__name__="m"}[60001ms]', "time": f"{seconds + 60}.000"}
        return matrix(row("m", *stamps, job="j"))

    found = points(api(handler))
    assert [(point.value, point.at) for point in found] == [(2.0, START), (3.0, START + 59_999_000)]
    assert found[0].labels == {"job": "j"}


def test_of_each_series_the_last_sample_counts_for_a_live_round() -> None:
    seconds = START / SECOND_US
    body = [
        row("m", (seconds + 1, "1"), (seconds + 31, "2"), a="x"),
        row("m", (seconds + 1, "3"), a="y"),
        row("n", (seconds, "4"), a="x"),
    ]
    found = [
        each
        for each in api(lambda _request: matrix(*body)).latest(["m", "n"], WINDOW, CTX)
        if isinstance(each, MetricPoint)
    ]
    assert [(point.name, point.labels["a"], point.value) for point in found] == [
        ("m", "x", 2.0),
        ("m", "y", 3.0),
        ("n", "x", 4.0),
    ]


def test_numbers_that_are_none_are_values_and_what_is_no_number_is_a_finding() -> None:
    seconds = START / SECOND_US
    pairs = [(seconds + n, text) for n, text in enumerate(("NaN", "+Inf", "-Inf", "1e3"))]
    found = points(api(lambda _request: matrix(row("m", *pairs))))
    assert math.isnan(found[0].value)
    assert [point.value for point in found[1:]] == [math.inf, -math.inf, 1000.0]
    for wrong in ("1_0", "", "0x1", "٣", "9" * 80):
        assert findings(api(lambda _request, wrong=wrong: matrix(row("m", (seconds, wrong))))) == [
            ("source_malformed", "warning")
        ]
    assert findings(api(lambda _request: matrix(row("m", (1e300, "1"))))) == [("source_malformed", "warning")]
    halves = b'{"status":"success","data":{"result":[{"metric":{"a":"\xff"},"values":[[1,"1"]]}]}}'
    assert findings(api(lambda _request: httpx.Response(200, content=halves))) == [("source_malformed", "warning")]


def test_warnings_and_partial_answers_are_findings_said_once() -> None:
    beside = {
        "warnings": ["store a is down", "store a is down"],
        "infos": ["a metric might be no counter"],
        "isPartial": True,
    }
    assert findings(api(lambda _request: matrix(row(), **beside))) == [
        ("prometheus_warning", "warning"),
        ("prometheus_info", "info"),
        ("prometheus_partial", "warning"),
    ]
    histogram = {"metric": {"__name__": "m"}, "histograms": [[1, {"count": "1"}]]}
    assert findings(api(lambda _request: matrix(histogram))) == [("native_histogram_not_read", "info")]


@pytest.mark.parametrize(
    "refused",
    [
        refusal(422, "query processing would load too many samples into memory in query execution"),
        refusal(400, "exceeded maximum resolution of 11,000 points per timeseries", "bad_data"),
        refusal(503, "query timed out in expression evaluation", "timeout"),
        refusal(413, "body too large"),
        httpx.Response(504, text="<html>gateway timeout</html>"),
        httpx.Response(200, content=b"x" * 3_000),
    ],
)
def test_a_question_that_is_too_large_is_halved_until_it_is_answered_whole(refused: httpx.Response) -> None:
    answered: list[tuple[str, str]] = []

    def handler(request: httpx.Request) -> httpx.Response:
        query = asked(request)["query"]
        names = query.split('"')[1].split("|")
        if len(names) > 1:
            return httpx.Response(refused.status_code, content=refused.content)
        answered.append((names[0], asked(request)["time"]))
        return matrix(row(names[0]))

    names = tuple(f"m{n}" for n in range(5))
    found = points(api(handler, response_bytes_max=2_000), names)
    assert sorted(point.name for point in found) == sorted(names)
    assert sorted(answered) == sorted((name, f"{WINDOW.end // SECOND_US}.000") for name in names)


def test_a_long_window_is_halved_in_time_and_every_piece_is_asked_once() -> None:
    pieces: list[tuple[float, float]] = []

    def handler(request: httpx.Request) -> httpx.Response:
        query = asked(request)
        start, end = float(query["start"]), float(query["end"])
        if end - start > 20 * 60:
            return refusal(422, "too many samples")
        pieces.append((start, end))
        return matrix()

    list(api(handler).minutes(["m"], [], Window(START, START + HOUR_US), CTX))
    assert [(round(start * 1000), round(end * 1000)) for start, end in pieces] == [
        (START // 1000 + n * 900_000 + 59_999, START // 1000 + (n + 1) * 900_000 - 1) for n in range(4)
    ]


def test_what_cannot_be_halved_any_more_or_never_comes_is_unavailable_and_says_what_was_asked() -> None:
    with pytest.raises(SourceUnavailable, match=r"too many samples; asked for m over \["):
        points(api(lambda _request: refusal(422, "too many samples")))
    calls: list[int] = []

    def slow(request: httpx.Request) -> httpx.Response:
        calls.append(1)
        raise httpx.ReadTimeout("slow", request=request)

    with pytest.raises(SourceUnavailable, match="no answer in 30 s"):
        points(api(slow), tuple(f"m{n}" for n in range(64)))
    assert len(calls) <= 6


def test_the_points_of_a_series_never_exceed_the_servers_limit() -> None:
    counts: list[int] = []

    def handler(request: httpx.Request) -> httpx.Response:
        query = asked(request)
        counts.append(round((float(query["end"]) - float(query["start"])) / float(query["step"])) + 1)
        return matrix()

    list(api(handler).minutes([], ["m"], Window(START, START + 30 * DAY_US), CTX))
    assert sum(counts) == 30 * 24 * 60
    assert max(counts) <= 11_000


def test_reductions_are_asked_for_by_name_where_the_name_would_be_lost() -> None:
    queries: list[str] = []

    def handler(request: httpx.Request) -> httpx.Response:
        query = asked(request)
        queries.append(query["query"])
        series = {"metric": {"gpu": "0"}, "values": [[float(query["start"]), "0.5"], [float(query["end"]), "0.7"]]}
        return matrix(series)

    found = list(api(handler).minutes(["b", "a"], [], Window(START, START + 2 * MINUTE_US + 7), CTX))
    assert queries == ['avg_over_time({__name__="a"}[60000ms])', 'avg_over_time({__name__="b"}[60000ms])']
    assert [(each.name, each.value, each.at) for each in found if isinstance(each, MetricPoint)] == [
        (name, value, at) for name in ("a", "b") for value, at in ((0.5, START), (0.7, START + MINUTE_US))
    ]


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (httpx.Response(401, text="no"), SourceUnavailable),
        (httpx.Response(403, text="no"), SourceUnavailable),
        (httpx.Response(404, text="<html>"), SourceUnsupported),
        (httpx.Response(302, headers={"Location": "http://login"}), SourceUnsupported),
        (httpx.Response(200, text="<html>welcome</html>"), SourceMalformed),
        (httpx.Response(200, text='{"status":"success","data":{"result":{}}}'), SourceMalformed),
        (httpx.Response(200, text='{"status":"success","data":' + "[" * 5_000), SourceMalformed),
        (httpx.Response(500, text="boom"), SourceUnavailable),
        (refusal(400, "parse error", "bad_data"), SourceUnavailable),
    ],
)
def test_what_is_no_answer_is_a_clear_error(answer: httpx.Response, error: type[Exception]) -> None:
    with pytest.raises(error):
        points(api(lambda _request: httpx.Response(answer.status_code, headers=answer.headers, content=answer.content)))


def test_a_server_that_asks_to_wait_is_heard() -> None:
    with pytest.raises(SourceUnavailable) as caught:
        points(api(lambda _request: httpx.Response(429, headers={"Retry-After": "17"}, text="slow down")))
    assert caught.value.retry_after_seconds == 17


def test_a_compressed_bomb_ends_at_the_bound() -> None:
    bomb = gzip.compress(b" " * (64 << 20))
    with pytest.raises(SourceUnavailable, match="larger than 1048576 bytes"):
        points(
            api(
                lambda _request: httpx.Response(200, headers={"Content-Encoding": "gzip"}, content=bomb),
                response_bytes_max=1 << 20,
            ),
            window=Window(START, START + 1_000),
        )


def test_a_server_that_takes_no_post_is_asked_by_get() -> None:
    def handler(request: httpx.Request) -> httpx.Response:
        return httpx.Response(405) if request.method == "POST" else matrix(row())

    assert len(points(api(handler))) == 1


def test_names_are_never_pasted_into_a_query_unchecked() -> None:
    for name in ('m"} or vector(1) or {x="', "", "a b", "ü"):
        with pytest.raises(UsageError):
            points(api(lambda _request: matrix()), (name,))
    names = api(lambda _request: httpx.Response(200, json={"status": "success", "data": ["up", 'x"y', "a.b"]})).names(
        WINDOW
    )
    assert names == ["up"]
    assert api(lambda _request: httpx.Response(404)).names(WINDOW) is None


@given(
    labels=st.dictionaries(st.text(max_size=8), st.text(max_size=8), max_size=6),
    name=st.from_regex(r"[a-z_:]{1,12}", fullmatch=True),
)
def test_labels_are_what_the_server_said_whatever_they_hold(labels: dict[str, str], name: str) -> None:
    labels.pop("__name__", None)
    text = json.dumps({"__name__": name, **labels}).encode("utf-8", "surrogatepass")
    body = (
        b'{"status":"success","data":{"result":[{"metric":%s,"values":[[%d,"1"]]},{"metric":%s,"values":[[%d,"1"]]}]}}'
    )
    filled = body % (text, START // SECOND_US, text, START // SECOND_US)
    found = points(api(lambda _request: httpx.Response(200, content=filled)))
    expected = {key.replace("\0", "\ufffd"): value.replace("\0", "\ufffd") for key, value in labels.items()}
    assert [(point.name, dict(point.labels)) for point in found] == [(name, expected)] * 2


@given(
    start=st.integers(0, 500), length=st.integers(0, 300), chunk=st.integers(1, 70),
    done=st.lists(st.tuples(st.integers(0, 900), st.integers(0, 100)), max_size=6),
)  # fmt: skip
def test_chunks_cover_what_is_missing_once_and_nothing_else(
    start: int, length: int, chunk: int, done: list[tuple[int, int]]
) -> None:
    window = Window(start, start + length)
    known = [Window(at, at + size) for at, size in done]
    found = list(missing_chunks(window, chunk, known))
    covered = [instant for part in found for instant in range(part.start, part.end)]
    assert covered == [
        instant
        for instant in range(window.start, window.end)
        if not any(each.start <= instant < each.end for each in known)
    ]
    assert all(part.start // chunk == (part.end - 1) // chunk for part in found)
    assert list(missing_chunks(window, chunk, [])) == list(chunks_of(window, chunk))
