"""Targets over real sockets: each within its bounds, each on its own, and every refusal in words."""

from __future__ import annotations

import gzip
import os
import threading
from pathlib import Path

import pytest

from steelyard.primitives.errors import SourceUnavailable, UsageError
from steelyard.sources.scrape import ScrapeLimits, Scraper, Target, TargetAccess, text_of
from tests.sources.scrape.wild_server import Behaviour, answer, drips, drips_headers, hangs, says, wild_server

TEXT = b"# TYPE a gauge\na 1\n"
SMALL = ScrapeLimits(seconds=60, connect_seconds=60, sent_bytes_max=10_000, text_bytes_max=100_000)
QUICK = ScrapeLimits(seconds=0.5, sent_bytes_max=10_000, text_bytes_max=100_000)


def target(port: int) -> Target:
    return Target.of(f"http://127.0.0.1:{port}/metrics")


def reason(behave: Behaviour) -> str:
    """Why nothing of such a server's answer counts."""
    with wild_server(behave) as port:
        (found,) = Scraper(limits=QUICK if behave in (hangs, drips, drips_headers) else SMALL).fetch([target(port)])
    if found.error is not None:
        return found.error
    with pytest.raises(SourceUnavailable) as refused:
        text_of(found.body, found.encoding, found.content_type, QUICK.text_bytes_max)
    return str(refused.value)


@pytest.mark.parametrize("packed", [False, True])
def test_a_text_comes_as_it_was_sent_plain_or_packed(packed: bool) -> None:
    body = gzip.compress(TEXT) if packed else TEXT
    with wild_server(says(answer(body, **({"Content_Encoding": "gzip"} if packed else {})))) as port:
        (found,) = Scraper(limits=SMALL).fetch([target(port)])
    assert found.error is None
    assert text_of(found.body, found.encoding, found.content_type, 1_000) == TEXT


BOMB = gzip.compress(b"\0" * 1_000_000)
CASES: list[tuple[Behaviour, str]] = [
    (hangs, "no whole answer within 0.5 s"),
    (drips, "no whole answer within 0.5 s"),
    (drips_headers, "no whole answer within 0.5 s"),
    (says(b""), "does not answer in HTTP"),
    (says(b"\x16\x03\x01 garbage\r\n\r\n"), "does not answer in HTTP"),
    (says(answer(TEXT, Content_Length="5000")), "breaks off in the middle"),
    (says(answer(b"<html>login</html>", Content_Type="text/html; charset=utf-8")), "found text/html"),
    (says(answer(b"<!DOCTYPE html><html>")), "a web page or JSON"),
    (says(answer(b'{"status":"ok"}', Content_Type="application/json")), "found application/json"),
    (says(answer(TEXT, Content_Encoding="br")), "Content-Encoding 'br'"),
    (says(answer(TEXT, Content_Encoding="gzip")), "no readable gzip"),
    (says(answer(gzip.compress(TEXT, mtime=0)[:-9], Content_Encoding="gzip")), "cut off"),
    (says(answer(BOMB, Content_Encoding="gzip")), "expands to more than 100000 bytes"),
    (says(answer(b"x" * 20_000)), "larger than 10000 bytes"),
    (says(answer(b"", "302 Found", Location="http://elsewhere/")), "HTTP 302: it redirects"),
    (says(answer(b"", "401 Unauthorized")), "HTTP 401: it wants a token"),
    (says(answer(b"", "404 Not Found")), "HTTP 404"),
    (says(answer(b"", "503 Service Unavailable", Retry_After="7")), "HTTP 503"),
]


@pytest.mark.parametrize(("behave", "words"), CASES, ids=[words for _behave, words in CASES])
def test_what_is_no_whole_metrics_text_counts_for_nothing_and_says_why(behave: Behaviour, words: str) -> None:
    assert words in reason(behave)


def test_a_bad_target_takes_nothing_from_the_others() -> None:
    with wild_server(hangs) as bad, wild_server(says(answer(TEXT))) as good:
        found = Scraper(limits=ScrapeLimits(seconds=2)).fetch([target(bad), target(good), target(1)])
    assert [each.error is None for each in found] == [False, True, False]
    assert "cannot be connected to" in (found[2].error or "")


def test_how_long_to_wait_is_taken_from_the_answer_within_bounds() -> None:
    for said, wanted in (("7", 7), ("99999999", 3600), ("soon", None)):
        with wild_server(says(answer(b"", "503 x", Retry_After=said))) as port:
            (found,) = Scraper(limits=SMALL).fetch([target(port)])
        assert found.retry_after_seconds == wanted


def test_the_bytes_of_a_round_are_bounded_over_all_targets() -> None:
    limits = ScrapeLimits(seconds=5, round_bytes_max=3_000)
    with wild_server(says(answer(b"x" * 2_000))) as port:
        found = Scraper(limits=limits).fetch([target(port), target(port)])
    assert sorted(each.error is None for each in found) == [False, True]


def test_a_token_is_read_anew_each_time_and_is_in_no_message(tmp_path: Path) -> None:
    seen: list[bytes] = []

    def behave(connection: object, head: bytes, _over: threading.Event) -> None:
        seen.append(head)
        connection.sendall(answer(TEXT))  # type: ignore[attr-defined]

    file = tmp_path / "token"
    scraper = Scraper(TargetAccess(token_file=file), SMALL)
    with wild_server(behave) as port:
        for secret in ("first-secret", "second-secret"):
            file.write_text(secret + "\n")
            scraper.fetch([target(port)])
            assert f"authorization: bearer {secret}".encode() in seen[-1].lower()
        for bad in (b"two\nlines", b"", b"\xff", b"x" * 100_000):
            file.write_bytes(bad)
            with pytest.raises(SourceUnavailable, match="token file") as refused:
                scraper.fetch([target(port)])
            assert "lines" not in str(refused.value)
    file.unlink()
    with pytest.raises(SourceUnavailable, match="No such file"):
        scraper.fetch([target(1)])


def test_closing_ends_a_round_that_is_under_way() -> None:
    asked = threading.Event()

    def behave(connection: object, head: bytes, over: threading.Event) -> None:
        asked.set()
        over.wait(60)

    scraper = Scraper(limits=ScrapeLimits(seconds=600))
    ended: list[BaseException] = []

    def fetch(port: int) -> None:
        try:
            scraper.fetch([target(port)])
        except SourceUnavailable as error:
            ended.append(error)

    with wild_server(behave) as port:
        thread = threading.Thread(target=fetch, args=(port,))
        thread.start()
        assert asked.wait(60)
        scraper.close()
        thread.join(60)
        assert not thread.is_alive()
    assert "closed" in str(ended[0])
    scraper.close()
    with pytest.raises(SourceUnavailable, match="closed"):
        scraper.fetch([target(1)])


def test_a_proxy_of_the_environment_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "HTTP_PROXY", "http://127.0.0.1:1")
    with wild_server(says(answer(TEXT))) as port:
        (found,) = Scraper(limits=SMALL).fetch([target(port)])
    assert found.error is None


@pytest.mark.parametrize(
    ("url", "instance"),
    [
        ("http://n1:9400/metrics", "n1:9400"),
        ("http://n1:9400", "n1:9400"),
        ("https://n1", "n1:443"),
        ("http://[::1]:80/x?y=1", "[::1]:80"),
        ("http://N1/", "n1:80"),
    ],
)
def test_an_address_is_called_by_host_and_port(url: str, instance: str) -> None:
    assert Target.of(url).instance == instance


def test_an_address_without_a_path_means_metrics() -> None:
    assert Target.of("http://n1:9400").url == "http://n1:9400/metrics"


@pytest.mark.parametrize(
    "url",
    ["", "n1:9400", "ftp://n1/", "http://", "http://user:pass@n1/", "http://n1:99999/", "http://n1:x/", "http://n 1/", "http://n1/#x", "file:///etc/passwd"],
)  # fmt: skip
def test_what_is_no_address_of_a_metrics_endpoint_is_refused_and_no_password_is_quoted(url: str) -> None:
    with pytest.raises(UsageError) as refused:
        Target.of(url)
    assert "pass@" not in str(refused.value)
