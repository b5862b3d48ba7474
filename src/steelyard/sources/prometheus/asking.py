"""One question to a Prometheus API, asked over HTTP within bounds, and what its failure means.

``api`` decides what to ask; here it is decided whether an answer came, whether the question was too large (``TooMuch``: ask for less), or
whether asking again is of no use. The tricks to know: what is too large is said in a dozen ways (400, 413, 422, 503, 504, a body beyond
our bound, no answer in time), and all of them are answered alike, by halving; and ``timeout_seconds`` holds for the whole of an answer, head
and body, by closing the connection under a server that sends a byte now and then.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from steelyard.primitives.errors import SourceMalformed, SourceUnavailable, SourceUnsupported, UsageError
from steelyard.primitives.i18n import _
from steelyard.sources.prometheus.answer import Answer, Refused, parse_answer
from steelyard.sources.prometheus.connection import OpenConnection
from steelyard.sources.prometheus.endpoint import PrometheusEndpoint
from steelyard.sources.shared.plain_text import plain

if TYPE_CHECKING:
    import httpx

ERROR_BYTES_MAX: Final = 64 << 10
_CONNECT_SECONDS_MAX: Final = 10.0
_RETRY_SECONDS_MAX: Final = 3_600.0
_TOO_MUCH: Final = (
    "exceeded maximum resolution",
    "too many",
    "would load",
    "timed out",
    "timeout",
    "limit",
    "the maximum",
    "-max-",
    "exceeds",
    "context deadline",
    "memory",
)
"""Words by which servers say that a question is too large for them (lower case)."""


class TooMuch(Exception):
    """The server (or we) cannot take the answer to this question as a whole. ``timed_out``: it took too long."""

    def __init__(self, reason: str, *, timed_out: bool = False) -> None:
        super().__init__(reason)
        self.timed_out = timed_out


class Asker:
    """Asks one endpoint. Raises UsageError where the endpoint cannot be spoken to as it is set up. ``date``: the Date header of its last
    answer as sent, '' before the first."""

    def __init__(self, endpoint: PrometheusEndpoint, transport: httpx.BaseTransport | None = None) -> None:
        import httpx

        self._endpoint = endpoint
        self._base = endpoint.url.rstrip("/")
        self._posting = True
        self._closed = False
        self._connection = OpenConnection()
        self.date = ""
        auth = (endpoint.username, endpoint.password or "") if endpoint.username is not None else None
        try:
            self._client = httpx.Client(
                auth=auth,
                headers=_headers(endpoint),
                timeout=httpx.Timeout(
                    endpoint.timeout_seconds, connect=min(_CONNECT_SECONDS_MAX, endpoint.timeout_seconds)
                ),
                verify=_tls(endpoint),
                transport=transport,
                trust_env=False,
                follow_redirects=False,
            )
        except (ValueError, UnicodeError) as error:
            raise UsageError(_("{url}: {reason}").format(url=self._base[:200], reason=str(error)[:200])) from None

    def close(self) -> None:
        """Let go of all connections; an answer that is waited for in another thread ends at once."""
        self._closed = True
        self._connection.cut()
        self._client.close()

    def ask(self, path: str, parameters: Mapping[str, str], *, get: bool = False) -> Answer:
        """The answer to ``path`` (such as ``query``). Raises TooMuch, SourceUnavailable, SourceUnsupported, SourceMalformed."""
        import httpx

        self.check()
        try:
            status, headers, body = self._exchange(path, parameters, "GET" if get or not self._posting else "POST")
            if status == 405 and self._posting and not get:
                self._posting = False
                status, headers, body = self._exchange(path, parameters, "GET")
        except httpx.TimeoutException as error:
            if isinstance(error, httpx.ReadTimeout):
                raise TooMuch(_("no answer in {seconds} s").format(seconds=self._seconds()), timed_out=True) from None
            raise self._unavailable(_("no connection in time")) from None
        except (httpx.HTTPError, httpx.InvalidURL, OSError, RuntimeError) as error:
            raise self._unavailable(str(error) or type(error).__name__) from None
        return self._judged(status, headers, body)

    def check(self) -> None:
        """Raises SourceUnavailable where it was closed."""
        if self._closed:
            raise SourceUnavailable(_("{url}: closed").format(url=self._base[:200]))

    def _seconds(self) -> str:
        return f"{self._endpoint.timeout_seconds:g}"

    def _exchange(self, path: str, parameters: Mapping[str, str], method: str) -> tuple[int, Mapping[str, str], bytes]:
        """Status, headers and body. Raises TooMuch for a body beyond the bound, or that is not there as a whole in time."""
        import httpx

        with self._connection.within(self._endpoint.timeout_seconds) as watch:
            try:
                return self._sent(path, parameters, method)
            except (httpx.HTTPError, OSError, RuntimeError):
                if watch.is_over and not self._closed:
                    raise TooMuch(
                        _("no whole answer in {seconds} s").format(seconds=self._seconds()), timed_out=True
                    ) from None
                raise

    def _sent(self, path: str, parameters: Mapping[str, str], method: str) -> tuple[int, Mapping[str, str], bytes]:
        url = f"{self._base}/api/v1/{path}"
        how: dict[str, Any] = {"data": dict(parameters)} if method == "POST" else {"params": dict(parameters)}
        how["extensions"] = {"trace": self._connection.note}
        with self._client.stream(method, url, **how) as reply:
            self.date = reply.headers.get("date", "")[:100]
            limit = self._endpoint.response_bytes_max if reply.status_code == 200 else ERROR_BYTES_MAX
            pieces, size = [], 0
            for piece in reply.iter_bytes():
                size += len(piece)
                if size > limit:
                    if reply.status_code == 200:
                        raise TooMuch(_("its answer is larger than {limit} bytes").format(limit=limit))
                    break
                pieces.append(piece)
            return reply.status_code, reply.headers, b"".join(pieces)

    def _judged(self, status: int, headers: Mapping[str, str], body: bytes) -> Answer:
        try:
            answer = parse_answer(body)
        except SourceMalformed:
            if status == 200:
                raise
            answer = Refused("", "")
        if status == 200 and isinstance(answer, Answer):
            return answer
        refused = answer if isinstance(answer, Refused) else Refused("", "")
        reason = refused.reason or plain(body[:200].decode("utf-8", "replace")).strip() or f"HTTP {status}"
        if status in (401, 403):
            raise self._unavailable(
                _("it lets us not in (HTTP {status}): {reason}").format(status=status, reason=reason)
            )
        if status == 429:
            raise self._unavailable(reason, _retry_after(headers) or 30.0)
        if (
            status in (413, 422, 504)
            or refused.kind == "timeout"
            or (status in (400, 500, 503) and any(words in reason.lower() for words in _TOO_MUCH))
        ):
            raise TooMuch(reason, timed_out=status == 504 or refused.kind == "timeout")
        if status in (404, 405, 501) or 300 <= status < 400:
            raise SourceUnsupported(
                _("{url}: no Prometheus API there (HTTP {status}): is a prefix such as /prometheus missing?").format(
                    url=self._base[:200], status=status
                )
            )
        raise self._unavailable(
            _("HTTP {status}: {reason}").format(status=status, reason=reason), _retry_after(headers)
        )

    def _unavailable(self, reason: str, retry_after_seconds: float | None = None) -> SourceUnavailable:
        return SourceUnavailable(
            _("{url}: {reason}").format(url=self._base[:200], reason=plain(reason[:500])), retry_after_seconds
        )


def _headers(endpoint: PrometheusEndpoint) -> dict[str, str]:
    headers = {"User-Agent": "steelyard", "Accept": "application/json", **endpoint.headers}
    if endpoint.bearer_token is not None:
        headers["Authorization"] = f"Bearer {endpoint.bearer_token.strip()}"
    if endpoint.org_id is not None:
        headers["X-Scope-OrgID"] = endpoint.org_id
    for name, value in headers.items():
        if not (name + value).isascii() or any(letter in name + value for letter in "\r\n\0"):
            raise ValueError(f"expected plain ASCII in the header {plain(name[:60])!r}")
    return headers


def _tls(endpoint: PrometheusEndpoint) -> ssl.SSLContext | bool:
    if endpoint.ca_file is None:
        return True
    try:
        return ssl.create_default_context(cafile=str(endpoint.ca_file))
    except (OSError, ssl.SSLError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(
            _("{path}: no readable bundle of certificates: {reason}").format(path=endpoint.ca_file, reason=reason)
        ) from None


def _retry_after(headers: Mapping[str, str]) -> float | None:
    text = headers.get("retry-after", "")
    return min(float(text), _RETRY_SECONDS_MAX) if text.isascii() and text.isdigit() and len(text) < 10 else None
