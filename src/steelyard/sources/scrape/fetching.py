"""``Scraper``: all targets of a job asked at once, each with a deadline over everything it does, down to the last byte.

One per job, kept over its rounds. The trick to know: a deadline over the whole of a target's answer, and not only between two pieces, is what
ends one that sends a byte a second; and bodies are kept as they were sent, so that a thousand targets fit into memory.
Sceptic's command: ``curl -s --max-time 10 http://NODE:9400/metrics``.
"""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Final

from steelyard.primitives.errors import SourceUnavailable
from steelyard.sources.scrape.target import ScrapeLimits, Target, TargetAccess

if TYPE_CHECKING:
    import httpx

ACCEPT: Final = "text/plain;version=0.0.4,application/openmetrics-text;version=1.0.0;q=0.5,*/*;q=0.1"
_RETRY_AFTER_SECONDS_MAX: Final = 3_600


@dataclass(frozen=True, slots=True)
class Fetched:
    """What a target sent, with its headers in lower case; or ``error``, and then nothing of it counts. ``seconds``: how long it took.
    ``date``: its Date header as sent, the clock of whoever answered."""

    target: Target
    body: bytes = b""
    encoding: str = ""
    content_type: str = ""
    error: str | None = None
    retry_after_seconds: float | None = None
    seconds: float = 0.0
    date: str = ""


class Scraper:
    """Asks the targets of one job. ``close`` from another thread ends a round that is under way."""

    def __init__(self, access: TargetAccess | None = None, limits: ScrapeLimits | None = None) -> None:
        self._access = access or TargetAccess()
        self._limits = limits or ScrapeLimits()
        self._lock = threading.Lock()
        self._under_way: tuple[asyncio.AbstractEventLoop, asyncio.Task[list[Fetched]]] | None = None
        self._closed = False

    def fetch(self, targets: Sequence[Target]) -> list[Fetched]:
        """What each target sent, in their order. Raises SourceUnavailable where the token or certificates cannot be read, or it was closed."""
        token = self._access.token()
        tls = self._tls() if any(target.url.startswith("https:") for target in targets) else None
        return asyncio.run(self._all(targets, token, tls))

    def close(self) -> None:
        """End what is under way and begin nothing any more. Twice is harmless."""
        with self._lock:
            self._closed = True
            if self._under_way is not None:
                loop, task = self._under_way
                loop.call_soon_threadsafe(task.cancel)

    def _tls(self) -> ssl.SSLContext:
        access = self._access
        try:
            context = ssl.create_default_context(cafile=access.ca_file)
            if access.insecure:
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
            if access.cert_file is not None:
                context.load_cert_chain(access.cert_file, access.key_file)
        except (OSError, ValueError) as error:
            raise SourceUnavailable(f"certificates: {getattr(error, 'strerror', None) or error}") from error
        return context

    async def _all(self, targets: Sequence[Target], token: str | None, tls: ssl.SSLContext | None) -> list[Fetched]:
        task = asyncio.ensure_future(self._each(targets, token, tls))
        with self._lock:
            if self._closed:
                task.cancel()
            self._under_way = (asyncio.get_running_loop(), task)
        try:
            return await task
        except asyncio.CancelledError:
            raise SourceUnavailable("cut short: the collector was closed") from None
        finally:
            with self._lock:
                self._under_way = None

    async def _each(self, targets: Sequence[Target], token: str | None, tls: ssl.SSLContext | None) -> list[Fetched]:
        import httpx

        headers = {
            "Accept": ACCEPT,
            "Accept-Encoding": "gzip",
            "User-Agent": f"steelyard/{version('steelyard')}",
            "X-Prometheus-Scrape-Timeout-Seconds": f"{self._limits.seconds:g}",
        }
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        at_once = asyncio.Semaphore(self._limits.at_once)
        budget = _Budget(self._limits.round_bytes_max)
        bounds = httpx.Limits(max_connections=self._limits.at_once, max_keepalive_connections=0)
        timeout = httpx.Timeout(self._limits.seconds, connect=self._limits.connect_seconds, pool=None)
        async with httpx.AsyncClient(
            headers=headers,
            verify=True if tls is None else tls,
            follow_redirects=False,
            trust_env=False,
            limits=bounds,
            timeout=timeout,
        ) as client:

            async def one(target: Target) -> Fetched:
                async with at_once:
                    return await self._one(client, target, budget)

            return list(await asyncio.gather(*map(one, targets)))

    async def _one(self, client: httpx.AsyncClient, target: Target, budget: _Budget) -> Fetched:
        import httpx

        clock = asyncio.get_running_loop().time
        began = clock()
        try:
            async with asyncio.timeout(self._limits.seconds):
                return await self._answer(client, target, budget, began)
        except TimeoutError:
            return Fetched(target, error=f"no whole answer within {self._limits.seconds:g} s", seconds=clock() - began)
        except SourceUnavailable as error:
            return Fetched(
                target, error=str(error), retry_after_seconds=error.retry_after_seconds, seconds=clock() - began
            )
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
            return Fetched(target, error=_reason(error), seconds=clock() - began)

    async def _answer(self, client: httpx.AsyncClient, target: Target, budget: _Budget, began: float) -> Fetched:
        async with client.stream("GET", target.url) as response:
            _check(response)
            parts: list[bytes] = []
            size = 0
            async for part in response.aiter_raw():
                size += len(part)
                if size > self._limits.sent_bytes_max:
                    raise SourceUnavailable(f"larger than {self._limits.sent_bytes_max} bytes")
                if not budget.take(len(part)):
                    raise SourceUnavailable("the targets of this round send more than fits: ask fewer in one job")
                parts.append(part)
            return Fetched(
                target,
                b"".join(parts),
                response.headers.get("content-encoding", "").strip().lower(),
                response.headers.get("content-type", "").strip().lower(),
                seconds=asyncio.get_running_loop().time() - began,
                date=response.headers.get("date", "").strip(),
            )


@dataclass(slots=True)
class _Budget:
    """Bytes that all targets of a round together may still send."""

    left: int

    def take(self, size: int) -> bool:
        self.left -= size
        return self.left >= 0


def _check(response: httpx.Response) -> None:
    """Raises SourceUnavailable for anything but a 200, with the reason in its own words."""
    status = response.status_code
    if status == 200:
        return
    if 300 <= status < 400:
        raise SourceUnavailable(f"HTTP {status}: it redirects, which is not followed: name the address it leads to")
    wait = response.headers.get("retry-after", "")
    seconds = min(int(wait), _RETRY_AFTER_SECONDS_MAX) if wait.isascii() and wait.isdigit() and len(wait) < 10 else None
    hint = {401: ": it wants a token (token_file)", 403: ": the token may not read it", 404: ": nothing at this path"}
    raise SourceUnavailable(f"HTTP {status}{hint.get(status, '')}", seconds)


def _reason(error: Exception) -> str:
    """What went wrong, without addresses or headers that may hold a secret."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"certificate not accepted: {cause.verify_message}"
        cause = cause.__cause__ or cause.__context__
    names = {
        "ConnectError": "cannot be connected to",
        "ConnectTimeout": "does not take the connection in time",
        "ReadTimeout": "takes the request and does not answer",
        "RemoteProtocolError": "does not answer in HTTP, or breaks off in the middle",
        "ReadError": "broke off in the middle",
    }
    said = str(error).strip()
    text = names.get(type(error).__name__, type(error).__name__)
    return f"{text}: {said[:200]}" if said else text
