"""How a cluster is reached: from within it, through a kubeconfig and context, or by address and token.

``watch`` makes one ``ClusterClient`` per cluster and asks it for paths. The trick to know: lightkube reads the configuration and speaks
TLS and every way to say who we are (service account tokens that rotate, client certificates, exec plugins); the bytes are ours, so that an
object reaches the readers as the server wrote it, with the fields that no model knows. It is imported at the first connection.

Sceptic's command: ``kubectl get --raw /api/v1/pods?limit=1``.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from steelyard.primitives.errors import SourceUnavailable
from steelyard.sources.kube_api.connections import Connections, Exchange
from steelyard.sources.shared.time_limit import TimeLimit

if TYPE_CHECKING:
    from lightkube.config.kubeconfig import SingleConfig

ERROR_BODY_BYTES_MAX: Final = 65_536
CONNECT_SECONDS: Final = 10.0
SLOWEST: Final = 4
RETRY_AFTER_SECONDS_MAX: Final = 300.0
METADATA_LIST: Final = (
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,"
    "application/json"
)
_EXEC_V1: Final = "client.authentication.k8s.io/v1"
_EXEC_KNOWN: Final = "client.authentication.k8s.io/v1beta1"


@dataclass(frozen=True, slots=True)
class ClusterTarget:
    """Where a cluster's API server is and who we are to it.

    cluster: our name for it, written into every fact. Exactly one of: ``address`` (an URL; with ``token``, or ``token_file`` which is read
    again when it is rotated, and ``ca_file`` or ``insecure``), ``kubeconfig`` (with ``context``, None: the current one), or neither: the
    service account of the pod that we run in, else the kubeconfig that ``kubectl`` would take.
    """

    cluster: str = "default"
    kubeconfig: Path | None = None
    context: str | None = None
    address: str | None = None
    token: str | None = None
    token_file: Path | None = None
    ca_file: Path | None = None
    insecure: bool = False


class ApiRefusal(Exception):
    """The server answered with another status than 200. ``reason``: the one of its Status object, None for a plain text answer."""

    def __init__(self, code: int, message: str, reason: str | None, retry_after_seconds: float | None) -> None:
        super().__init__(f"HTTP {code}: {message}")
        self.code = code
        self.message = message
        self.reason = reason
        self.retry_after_seconds = retry_after_seconds


class _Status(msgspec.Struct):
    message: str | None = None
    reason: str | None = None


class ClusterClient:
    """GET requests to one API server, from any number of threads. Raises SourceUnavailable where the configuration cannot be used.

    ``date``: the Date header of the last answer as sent, '' before the first: the server's clock."""

    def __init__(self, target: ClusterTarget, request_seconds: float = 30.0) -> None:
        from lightkube.config import client_adapter

        self._request_seconds = request_seconds
        self._connections = Connections()
        self.date = ""
        try:
            parameters = client_adapter.ConnectionParams()
            self._http = client_adapter.Client(_configuration(target), parameters)
        except Exception as error:  # the library's own, and those of yaml, ssl, msgspec and the file system beneath it
            raise SourceUnavailable(
                f"cluster {target.cluster}: its configuration cannot be used: {_words(error)}"
            ) from error

    @contextlib.contextmanager
    def stream(
        self,
        path: str,
        params: Mapping[str, str],
        read_seconds: float | None = None,
        accept: str = "application/json",
        whole_seconds: float | None = None,
    ) -> Iterator[Iterator[bytes]]:
        """The chunks of an answer's body, while the context is open. ``read_seconds``: the longest silence, and the longest that its head as a
        whole may take (None: that of a plain request). ``whole_seconds``: the longest that its body may take (None: as long as something comes).

        Raises ApiRefusal for any status but 200, SourceUnavailable where there is no answer, also in the middle of it.
        """
        import httpx2

        silence = self._request_seconds if read_seconds is None else read_seconds
        timeout = httpx2.Timeout(self._request_seconds, connect=CONNECT_SECONDS, read=silence)
        exchange = Exchange(self._connections, silence)
        told = {"trace": exchange.note}
        with contextlib.closing(exchange):
            try:
                request = self._http.build_request(
                    "GET", path, params=dict(params), headers={"Accept": accept}, timeout=timeout, extensions=told
                )
                response = self._http.send(request, stream=True)
            except _faults() as error:
                if exchange.is_late:
                    raise SourceUnavailable(f"{path}: no whole head of an answer within {silence:g} s") from error
                raise self._unavailable(error) from error
            exchange.answered(response.extensions.get("network_stream"))
            self.date = response.headers.get("date", "")[:100]
            is_refused = response.status_code != 200
            limited = exchange.within(self._request_seconds if is_refused else whole_seconds)
            try:
                with limited as limit:
                    chunks = self._guarded(response.iter_bytes(), limit, path)
                    if is_refused:
                        raise _refusal(response.status_code, response.headers, chunks)
                    yield chunks
            finally:
                with contextlib.suppress(*_faults()):
                    response.close()

    def read(self, path: str, params: Mapping[str, str], bytes_max: int, accept: str = "application/json") -> bytes:
        """A whole body, of at most ``bytes_max`` bytes and within ``SLOWEST`` times the time of a request.

        Raises as ``stream`` does, and OverflowError where the body has more bytes.
        """
        parts: list[bytes] = []
        size = 0
        with self.stream(path, params, accept=accept, whole_seconds=SLOWEST * self._request_seconds) as chunks:
            for chunk in chunks:
                size += len(chunk)
                if size > bytes_max:
                    raise OverflowError(f"expected at most {bytes_max} bytes from {path}, found more")
                parts.append(chunk)
        return b"".join(parts)

    def close(self) -> None:
        """End all connections; a read that waits in another thread ends at once. Twice is harmless."""
        self._connections.close()
        with contextlib.suppress(*_faults()):
            self._http.close()

    def _guarded(self, chunks: Iterator[bytes], limit: TimeLimit, path: str) -> Iterator[bytes]:
        """The chunks. An answer that was cut is no whole one, also where its end is told by nothing but the connection's."""
        try:
            yield from chunks
        except _faults() as error:
            if not limit.is_over:
                raise self._unavailable(error) from error
        if limit.is_over:
            raise SourceUnavailable(f"{path} is still being sent after {limit.seconds:g} s")

    def _unavailable(self, error: BaseException) -> SourceUnavailable:
        return SourceUnavailable("the connection was closed" if self._connections.is_closed else _words(error))


def lines_of(chunks: Iterator[bytes], line_bytes_max: int) -> Iterator[bytes | None]:
    """The lines of a stream, each without its end; None for one that is longer than the bound. Linear time; holds at most one line and one
    chunk. Raises SourceUnavailable where the stream ends within a line."""
    held: list[bytes] = []
    size = 0
    for chunk in chunks:
        start = 0
        while (end := chunk.find(b"\n", start)) >= 0:
            size += end - start
            if size > line_bytes_max:
                yield None
            else:
                held.append(chunk[start:end])
                yield b"".join(held)
            held, size, start = [], 0, end + 1
        rest = len(chunk) - start
        size += rest
        if size > line_bytes_max:
            held = []
        elif rest:
            held.append(chunk[start:])
    if size:
        raise SourceUnavailable("the stream was cut off within a line")


def _configuration(target: ClusterTarget) -> SingleConfig:
    """The target as lightkube's configuration. Raises whatever the files in question make it raise."""
    from lightkube.config.kubeconfig import KubeConfig
    from lightkube.config.models import Cluster, User

    if target.address is not None:
        user = User(token=target.token, token_file=str(target.token_file) if target.token_file else None)
        place = Cluster(
            server=target.address,
            certificate_auth=str(target.ca_file.absolute()) if target.ca_file else None,
            insecure=target.insecure,
        )
        found = KubeConfig.from_one(cluster=place, user=user).get()
    elif target.kubeconfig is not None:
        found = KubeConfig.from_file(target.kubeconfig).get(target.context)
    elif target.context is not None:
        found = KubeConfig.from_file(os.environ.get("KUBECONFIG", "~/.kube/config")).get(target.context)
    else:
        found = KubeConfig.from_env().get()
    if found is None:
        raise ValueError("no context is chosen")
    if found.user is None:
        found = found._replace(user=User())
    plugin = found.user.exec if found.user is not None else None
    if plugin is not None and plugin.apiVersion == _EXEC_V1:
        _speak_v1(plugin)
    return found


def _speak_v1(plugin: Any) -> None:
    """An exec plugin of the first stable version answers in the same form as a beta one, but wants to be told which it is asked for."""
    from lightkube.config.models import NameValue

    asked = {"apiVersion": _EXEC_V1, "kind": "ExecCredential", "spec": {"interactive": False}}
    plugin.env = [*(plugin.env or []), NameValue(name="KUBERNETES_EXEC_INFO", value=json.dumps(asked))]
    plugin.apiVersion = _EXEC_KNOWN


def _faults() -> tuple[type[BaseException], ...]:
    """What a request may raise that is the world's fault: the transport's errors, an unreadable token, a plugin that fails."""
    import httpx2
    from lightkube.core.exceptions import ConfigError

    # RuntimeError: the client was closed meanwhile; ValueError, KeyError: a plugin's or a compressed answer is not what it should be
    return (
        httpx2.HTTPError,
        httpx2.StreamError,
        httpx2.InvalidURL,
        ConfigError,
        OSError,
        RuntimeError,
        ValueError,
        KeyError,
        subprocess.SubprocessError,
    )


def _refusal(code: int, headers: Mapping[str, str], chunks: Iterator[bytes]) -> ApiRefusal:
    body = b""
    with contextlib.suppress(SourceUnavailable):
        for chunk in chunks:
            body += chunk[: ERROR_BODY_BYTES_MAX - len(body)]
            if len(body) >= ERROR_BODY_BYTES_MAX:
                break
    try:
        status = msgspec.json.decode(body, type=_Status)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        status = _Status()
    message = status.message or body[:200].decode("utf-8", "replace").strip() or "no explanation"
    return ApiRefusal(code, message[:500], status.reason, _retry_after(headers.get("retry-after")))


def _retry_after(value: str | None) -> float | None:
    """Whole seconds as the API server writes them; None for anything else."""
    if value is None or not (value.isascii() and value.isdigit() and len(value) < 10):
        return None
    return min(float(value), RETRY_AFTER_SECONDS_MAX)


def _words(error: BaseException) -> str:
    text = str(error).strip()
    return f"{type(error).__name__}: {text[:300]}" if text else type(error).__name__
