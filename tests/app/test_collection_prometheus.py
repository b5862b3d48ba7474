"""A Prometheus in the loop: no round mixes two scrapes, what was learnt is kept from round to round, and nothing between rounds is lost."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from steelyard.app.collectors import prometheus as module
from steelyard.app.collectors.prometheus import PrometheusCollector
from steelyard.app.source_settings import PrometheusSetting
from steelyard.facts.device_sample import DeviceSample
from steelyard.primitives.errors import SourceUnavailable
from steelyard.primitives.instant import MINUTE_US, SECOND_US, Instant, parse_instant
from steelyard.sources.prometheus import PrometheusApi, PrometheusEndpoint
from steelyard.sources.shared.context import ReadSettings

NOW = parse_instant("2026-03-01T12:00:00Z")
UTIL, USED = "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_FB_USED"
LABELS = {"gpu": "0", "UUID": "GPU-aaaa", "hostname": "n1", "job": "dcgm", "instance": "n1:9400"}
_QUERY = re.compile(r"\{__name__=~?\"([^\"]*)\"\}\[(\d+)ms\]")


@dataclass
class Played:
    """What a Prometheus has stored, by the instants of its scrapes. ``late``: scrapes that are stored once so many questions were answered."""

    scrapes: dict[Instant, int] = field(default_factory=dict)
    late: dict[Instant, tuple[int, int]] = field(default_factory=dict)
    asked: list[tuple[tuple[str, ...], Instant, int]] = field(default_factory=list)
    bearers: list[str | None] = field(default_factory=list)
    names_max: int = 100
    port: int = 0

    def answer(self, path: str, parameters: dict[str, list[str]]) -> tuple[int, Any]:
        if path.endswith("/label/__name__/values"):
            return 200, [UTIL, USED]
        found = _QUERY.fullmatch(parameters["query"][0])
        assert found, parameters
        names = tuple(found.group(1).split("|"))
        if len(names) > self.names_max:
            return 422, "query processing would load too many samples into memory"
        end, length = round(float(parameters["time"][0]) * SECOND_US), int(found.group(2)) * 1_000
        rows: list[dict[str, Any]] = []
        for name in names:
            samples = [
                [at / SECOND_US, str(value)] for at, value in sorted(self.scrapes.items()) if end - length < at <= end
            ]
            if samples:
                rows.append({"metric": {"__name__": name, **LABELS}, "values": samples})
        self.asked.append((names, end, length))
        for at, (after, value) in self.late.items():
            if len(self.asked) >= after:
                self.scrapes[at] = value
        return 200, {"resultType": "matrix", "result": rows}


@contextmanager
def played(**more: Any) -> Iterator[Played]:
    site = Played(**more)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(urlsplit(self.path).query)

        def do_POST(self) -> None:
            self._answer(self.rfile.read(int(self.headers["Content-Length"])).decode())

        def _answer(self, query: str) -> None:
            site.bearers.append(self.headers["Authorization"])
            status, found = site.answer(urlsplit(self.path).path, parse_qs(query))
            told = (
                {"status": "success", "data": found}
                if status == 200
                else {"status": "error", "errorType": "execution", "error": found}
            )
            body = json.dumps(told).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_arguments: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    site.port = server.server_port
    Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    try:
        yield site
    finally:
        server.shutdown()
        server.server_close()


def collector(site: Played, **more: Any) -> PrometheusCollector:
    setting = PrometheusSetting.model_validate(
        {"name": "p", "url": f"http://127.0.0.1:{site.port}", "interval": "30s", **more}
    )
    return PrometheusCollector(setting, "c", ReadSettings())


def samples(found: PrometheusCollector, at: Instant) -> list[tuple[Instant, float | None, int | None]]:
    """(instant, utilisation, memory in use) of the samples of a round."""
    return [
        (fact.occurred_at, fact.util_gpu_ratio, fact.memory_used_mib)
        for fact in found.collect(at)
        if isinstance(fact, DeviceSample)
    ]


@pytest.mark.parametrize(("lag", "mixed"), [("0s", True), ("15s", False)])
def test_a_scrape_that_is_stored_between_two_questions_of_a_round_is_not_read_in_half(lag: str, mixed: bool) -> None:
    before, during = NOW - 20 * SECOND_US, NOW - 4 * SECOND_US
    with played(scrapes={before: 50}, late={during: (1, 60)}, names_max=1) as site:
        reading = collector(site, lag=lag)
        first = samples(reading, NOW)
        second = samples(reading, NOW + 30 * SECOND_US)
        reading.close()
    whole = {(before, 0.5, 50), (during, 0.6, 60)}
    assert (not {*first, *second} <= whole) == mixed, (first, second)
    if not mixed:
        assert first == [(before, 0.5, 50)]
        assert second == [(during, 0.6, 60)]


def test_how_much_may_be_asked_at_once_and_the_labels_are_learnt_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[PrometheusEndpoint] = []

    def counted(endpoint: PrometheusEndpoint) -> Any:
        made.append(endpoint)
        return PrometheusApi(endpoint)

    monkeypatch.setattr(module, "PrometheusApi", counted)
    with played(scrapes={NOW - MINUTE_US: 50}, names_max=1) as site:
        reading = collector(site)
        samples(reading, NOW)
        requests = len(site.bearers)
        samples(reading, NOW + 30 * SECOND_US)
        assert requests == 1 + 1 + 2, "its names, one question too large, two halves"
        assert len(site.bearers) - requests == 1 + 2, "not asked for too much again"
        assert len(made) == 1
        reading.close()
        samples(reading, NOW + MINUTE_US)
        reading.close()
    assert len(made) == 2, "after it was cut short it begins anew"


def test_a_secret_that_was_rotated_is_used_from_the_next_round_on(tmp_path: Path) -> None:
    secret = tmp_path / "token"
    secret.write_text("one\n")
    with played(scrapes={NOW - MINUTE_US: 50}) as site:
        reading = collector(site, token_file=str(secret))
        samples(reading, NOW)
        secret.write_text("two\n")
        samples(reading, NOW + 30 * SECOND_US)
        secret.unlink()
        with pytest.raises(SourceUnavailable):
            samples(reading, NOW + MINUTE_US)
        reading.close()
    assert list(dict.fromkeys(site.bearers)) == ["Bearer one", "Bearer two"]


def test_windows_of_rounds_touch_or_overlap_and_are_short_and_after_a_pause_every_sample_counts() -> None:
    every = {NOW + second * SECOND_US: second % 100 for second in range(-300, 1_200, 15)}
    with played(scrapes=every) as site:
        reading = collector(site)
        seen: dict[Instant, float | None] = {}
        for second in (0, 30, 61, 93, 900, 930):
            seen.update({at: ratio for at, ratio, _used in samples(reading, NOW + second * SECOND_US)})
        reading.close()
    windows = [(end - length + 1_000, end) for _names, end, length in site.asked]
    assert all(start <= before for (_, before), (start, _) in pairwise(windows))
    assert [(end - start) // SECOND_US for start, end in windows] == [120, 60, 61, 62, 807, 60]
    assert [end - NOW for _, end in windows] == [(second - 15) * SECOND_US for second in (0, 30, 61, 93, 900, 930)]
    paused = [at for at in every if NOW + 93 * SECOND_US < at < NOW + 885 * SECOND_US]
    assert seen.keys() >= set(paused)
