"""A command on a directory that a server holds: the same ports, over the server's socket.

``server.json`` in the data directory says where. ``app.wiring`` asks ``find_server`` and, where one answers, hands a ``RemoteQuery`` or
``RemoteImporter`` to the command line instead of its own. The trick to know: the file may be left over from a server that was killed, so
what counts is whether somebody accepts a connection on the socket; and the socket's file mode is the whole of the authentication.
"""

from __future__ import annotations

import json
import os
import socket
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from steelyard.answers.contract import Answer
from steelyard.primitives.errors import SourceUnavailable, StoreLocked
from steelyard.primitives.i18n import _, language
from steelyard.primitives.instant import Instant, format_instant, parse_instant
from steelyard.surfaces.shared.capacity_ports import PATHS, CapacitySpec, capacity_parameters
from steelyard.surfaces.shared.ports import (
    ImportReport,
    ImportRequest,
    Progress,
    Question,
    ReconcileRequest,
    StoryRequest,
)
from steelyard.surfaces.shared.problems import error_of
from steelyard.surfaces.shared.replies import answer_of, report_of
from steelyard.surfaces.shared.service_ports import NewToken, Role, ServerAddress, Token
from steelyard.surfaces.shared.upload_stream import MEDIA_TYPE, FileHead, framed

if TYPE_CHECKING:
    import httpx

SERVER_FILE: Final = "server.json"
API: Final = "/api/v1"
_SERVER_FILE_BYTES_MAX: Final = 64 << 10
_CONNECT_SECONDS: Final = 5.0

Outgoing = tuple[FileHead, Callable[[], Iterable[bytes]]]
"""A file to send: what is said of it, and how to read it."""


def read_address(directory: Path) -> ServerAddress | None:
    """What ``server.json`` says; None where there is none or it is no such file."""
    try:
        with (directory / SERVER_FILE).open("rb") as stream:
            found = json.loads(stream.read(_SERVER_FILE_BYTES_MAX))
        return ServerAddress(
            Path(found["socket"]), int(found["pid"]), str(found["address"]), parse_instant(found["started_at"])
        )
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None


def find_server(directory: Path) -> ServerAddress | None:
    """The server that holds the directory and answers now; None where there is none, or only what a dead one left behind.

    Raises StoreLocked where the server belongs to somebody else, who alone may use its socket.
    """
    address = read_address(directory)
    if address is None or not _is_trusted(address.socket, directory):
        return None
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_CONNECT_SECONDS)
        try:
            probe.connect(str(address.socket))
        except PermissionError:
            raise StoreLocked(
                _("{directory} is served by process {pid} of another user: ask it at {address} with a token").format(
                    directory=directory, pid=address.pid, address=address.address
                )
            ) from None
        except (OSError, ValueError):
            return None
    return address


def _is_trusted(path: Path, directory: Path) -> bool:
    """A socket of the directory's owner, of root or of ourselves: nobody else may stand in for the server."""
    try:
        status = path.lstat()
        owner = directory.stat().st_uid
    except (OSError, ValueError):
        return False
    return stat.S_ISSOCK(status.st_mode) and status.st_uid in (owner, 0, os.geteuid())


class ServerClient:
    """Speaks to one server over its socket. Every problem that it answers with is raised as the error that it stands for."""

    def __init__(self, address: ServerAddress) -> None:
        self._address = address

    def get(self, path: str, parameters: Sequence[tuple[str, str]] = ()) -> Any:
        """The JSON of a GET."""
        return self._ask("GET", path, parameters)

    def post(self, path: str, parameters: Sequence[tuple[str, str]] = (), **sent: Any) -> Any:
        """The JSON of a POST; ``sent`` as httpx takes it (``content``, ``headers``)."""
        return self._ask("POST", path, parameters, **sent)

    def delete(self, path: str) -> Any:
        """The JSON of a DELETE."""
        return self._ask("DELETE", path, ())

    def _ask(self, method: str, path: str, parameters: Sequence[tuple[str, str]], **sent: Any) -> Any:
        from urllib.parse import urlencode

        target = f"{API}{path}" + (f"?{urlencode(parameters, errors='surrogatepass')}" if parameters else "")
        headers = {"Accept-Language": language().replace("_", "-"), **sent.pop("headers", {})}
        with self._connected() as client:
            response = client.request(method, target, headers=headers, **sent)
        try:
            found = json.loads(response.content)
        except (ValueError, RecursionError):
            found = None
        if response.status_code >= 400 or found is None:
            raise error_of(found, response.status_code)
        return found

    @contextmanager
    def _connected(self) -> Iterator[httpx.Client]:
        import httpx

        transport = httpx.HTTPTransport(uds=str(self._address.socket))
        timeout = httpx.Timeout(None, connect=_CONNECT_SECONDS)
        try:
            with httpx.Client(
                transport=transport, base_url="http://steelyard", timeout=timeout, trust_env=False
            ) as client:
                yield client
        except httpx.ConnectError as error:
            raise ServerGone(self._address) from error
        except httpx.TransportError as error:
            raise SourceUnavailable(
                _("the server (process {pid}) went away before it had answered: run the command again").format(
                    pid=self._address.pid
                )
            ) from error


class ServerGone(SourceUnavailable):
    """The server no longer takes connections: whoever asked may open the directory instead."""

    def __init__(self, address: ServerAddress) -> None:
        super().__init__(_("the server (process {pid}) takes no connections any more").format(pid=address.pid))


class RemoteQuery:
    """Implements ``ports.Query`` by asking the server."""

    def __init__(self, client: ServerClient) -> None:
        self._client = client

    def answer(self, number: int, question: Question) -> Answer:
        """The answer to Q``number``, as the server gives it. Raises what the server's own query raises, and SourceUnavailable."""
        return answer_of(self._client.get(f"/answers/q{number}", question_parameters(question)))


class RemoteStories:
    """Implements ``ports.Stories`` by asking the server."""

    def __init__(self, client: ServerClient) -> None:
        self._client = client

    def why(self, request: StoryRequest) -> Answer:
        """The story, as the server tells it. Raises what the server's own ``Stories`` raises, and SourceUnavailable."""
        found = {"name": request.name, "kind": request.kind, "cluster": request.cluster, "at": _stamp(request.at)}
        parameters = [(key, value) for key, value in found.items() if value is not None]
        return answer_of(
            self._client.get("/why", [*parameters, ("explain", "true")] if request.explain else parameters)
        )


class RemoteCapacity:
    """Implements ``capacity_ports.Capacity`` by asking the server."""

    def __init__(self, client: ServerClient) -> None:
        self._client = client

    def capacity(self, spec: CapacitySpec) -> Answer:
        """The answer, as the server gives it. Raises what the server's own ``Capacity`` raises, and SourceUnavailable."""
        return answer_of(self._client.get(PATHS[type(spec)], capacity_parameters(spec)))


class RemoteReconciler:
    """Implements ``ports.Reconciler`` by asking the server."""

    def __init__(self, client: ServerClient) -> None:
        self._client = client

    def reconcile(self, request: ReconcileRequest) -> Answer:
        """The comparison, as the server makes it. Raises what the server's own ``Reconciler`` raises, and SourceUnavailable."""
        asked = Question(request.at, request.window, request.by, request.where, request.explain)
        return answer_of(self._client.get("/reconcile", question_parameters(asked)))


def question_parameters(question: Question) -> list[tuple[str, str]]:
    """The question as query parameters."""
    found = [("by", name) for name in question.by]
    found += [("where", f"{key}={value}") for key, value in question.where.items()]
    if question.at is not None:
        found.append(("at", format_instant(question.at)))
    if question.window is not None:
        found += [("from", format_instant(question.window.start)), ("to", format_instant(question.window.end))]
    return [*found, ("explain", "true")] if question.explain else found


class RemoteImporter:
    """Implements ``ports.Importer`` by sending the files to the server. ``find`` yields the files of a request; it raises UsageError where a
    path or kind does not exist, before anything is sent."""

    def __init__(self, client: ServerClient, find: Callable[[ImportRequest], Sequence[Outgoing]]) -> None:
        self._client = client
        self._find = find

    def import_paths(self, request: ImportRequest, progress: Progress) -> ImportReport:
        """Send, and wait for the report. Raises what the server's own import raises, and SourceUnavailable where it goes away: then
        either all of it is stored or nothing, and the same command again adds what is missing."""
        files = self._find(request)

        def sent() -> Iterator[tuple[FileHead, Iterable[bytes]]]:
            for number, (head, read) in enumerate(files):
                progress(_("sending"), number, len(files))
                yield head, read() if head.refusal is None else ()
            progress(_("sending"), len(files), len(files))
            progress(_("the server is importing"), 0, 0)

        found = self._client.post(
            "/import", request_parameters(request), content=framed(sent()), headers={"Content-Type": MEDIA_TYPE}
        )
        return report_of(found)


def request_parameters(request: ImportRequest) -> list[tuple[str, str]]:
    """What an import request says beside its files, as query parameters."""
    found = {
        "kind": request.kind,
        "as_of": _stamp(request.as_of),
        "cluster": request.cluster,
        "node": request.node,
        "epoch": _stamp(request.epoch),
        "expected_interval_us": None if request.expected_interval_us is None else str(request.expected_interval_us),
        "all_namespaces": "true" if request.all_namespaces else None,
    }
    return [(name, value) for name, value in found.items() if value is not None]


def _stamp(instant: Instant | None) -> str | None:
    return None if instant is None else format_instant(instant)


class RemoteTokens:
    """Implements ``server_ports.Tokens`` by asking the server."""

    def __init__(self, client: ServerClient) -> None:
        self._client = client

    def create(self, name: str, role: Role, tenant: str | None) -> NewToken:
        """Make one; see ``Tokens``."""
        wanted = json.dumps({"name": name, "role": role, "tenant": tenant}).encode("ascii")
        found = self._client.post("/tokens", content=wanted, headers={"Content-Type": "application/json"})
        return NewToken(token_of(found["token"]), found["secret"])

    def listed(self) -> Sequence[Token]:
        """All tokens; see ``Tokens``."""
        return [token_of(item) for item in self._client.get("/tokens")["tokens"]]

    def revoke(self, token_id: str) -> Token:
        """Refuse it from now on; see ``Tokens``."""
        from urllib.parse import quote

        return token_of(self._client.delete(f"/tokens/{quote(token_id, safe='', errors='replace')}"))


def token_json(token: Token) -> dict[str, Any]:
    """The documented JSON form of a token."""
    return {
        "id": token.token_id,
        "name": token.name,
        "role": token.role,
        "tenant": token.tenant,
        "created_at": format_instant(token.created_at),
        "revoked_at": None if token.revoked_at is None else format_instant(token.revoked_at),
    }


def token_of(found: Any) -> Token:
    """The token behind that form."""
    revoked = found["revoked_at"]
    return Token(
        token_id=found["id"],
        name=found["name"],
        role=found["role"],
        tenant=found["tenant"],
        created_at=parse_instant(found["created_at"]),
        revoked_at=None if revoked is None else parse_instant(revoked),
    )
