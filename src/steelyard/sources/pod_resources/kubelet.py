"""The kubelet asked over its own socket which container holds which device, and which devices it would still give.

``app.agent`` keeps one ``KubeletClient`` and hands its answer to ``read_pod_resources``. grpcio is imported when the first question is asked. The
tricks to know: the socket belongs to root; a restarted kubelet makes it anew, which the channel notices by itself; and a kubelet before 1.23
knows no allocatable devices, which is said as not asked, never as none.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

from steelyard.primitives.errors import SourceUnavailable
from steelyard.primitives.i18n import _
from steelyard.sources.pod_resources.wire import ALLOCATABLE, ALLOCATABLE_ANSWER, LIST, LIST_ANSWER, message_of
from steelyard.sources.shared.plain_text import plain

SOCKET: Final = Path("/var/lib/kubelet/pod-resources/kubelet.sock")
ANSWER_SECONDS: Final = 5.0
ANSWER_BYTES_MAX: Final = 16 << 20
_OPTIONS: Final = (
    ("grpc.max_receive_message_length", ANSWER_BYTES_MAX),
    ("grpc.enable_http_proxy", 0),
    ("grpc.default_authority", "localhost"),
    ("grpc.max_reconnect_backoff_ms", 10_000),
)


class KubeletClient:
    """One kubelet. ``answer_seconds``: how long one question may take."""

    def __init__(self, path: Path = SOCKET, answer_seconds: float = ANSWER_SECONDS) -> None:
        self._path = path
        self._answer_seconds = answer_seconds
        self._channel: Any = None

    def ask(self, node: str | None) -> dict[str, Any]:
        """Both questions, answered in the shape that ``read_pod_resources`` takes. Raises SourceUnavailable where the kubelet does not
        answer, with the right that is missing where that is known, and SourceMalformed for an answer that is none."""
        listed = self._call(LIST)
        offered = self._call(ALLOCATABLE, optional=True)
        found: dict[str, Any] = {"node": node, "list": message_of(listed or b"", LIST_ANSWER)}
        if offered is not None:
            found["allocatable"] = message_of(offered, ALLOCATABLE_ANSWER)
        return found

    def close(self) -> None:
        """Let the connection go; a later question makes it anew."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def _call(self, method: str, optional: bool = False) -> bytes | None:
        grpc = self._connected()
        ask = self._channel.unary_unary(method, request_serializer=None, response_deserializer=None)
        try:
            answer: bytes = ask(b"", timeout=self._answer_seconds)
        except grpc.RpcError as error:
            if optional and error.code() is grpc.StatusCode.UNIMPLEMENTED:
                return None
            self.close()
            raise SourceUnavailable(self._reason(error)) from None
        return answer

    def _connected(self) -> Any:
        """The library, with the channel open. It is imported where there is a socket to ask."""
        if not self._path.exists():
            raise SourceUnavailable(
                _(
                    "no kubelet answers at {path}: mount /var/lib/kubelet/pod-resources, or name its socket with --pod-resources"
                ).format(path=self._path)
            )
        try:
            import grpc
        except ImportError:
            raise SourceUnavailable(_("the package grpcio is not installed: pip install 'steelyard[agent]'")) from None
        if self._channel is None:
            self._channel = grpc.insecure_channel(f"unix://{self._path.absolute()}", options=_OPTIONS)
        return grpc

    def _reason(self, error: Any) -> str:
        if not os.access(self._path, os.R_OK | os.W_OK):
            return _("{path} may not be opened: the kubelet's socket belongs to root").format(path=self._path)
        code = str(error.code().name) if error.code() is not None else "UNKNOWN"
        return f"kubelet: {code}: {' '.join(plain(str(error.details() or '')).split())[:300]}"
