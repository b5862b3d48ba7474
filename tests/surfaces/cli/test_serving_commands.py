"""``serve`` and ``token`` over ports that a test holds in its hand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from steelyard.primitives.errors import InvariantError, StoreLocked, UsageError
from steelyard.surfaces.cli import run
from steelyard.surfaces.shared.ports import Ports
from steelyard.surfaces.shared.service_ports import NewToken, Role, ServerAddress, Started, Token

TOKEN = Token("0123456789ab", "evil\x1b[2J", "viewer", "team-a", 1_796_000_000_000_000)


@dataclass
class Service:
    """A server and tokens that remember what they were asked."""

    address: str = "http://127.0.0.1:8780"
    trouble: Exception | None = None
    served: list[tuple[Path, str]] = field(default_factory=list)
    asked: list[Any] = field(default_factory=list)
    directory: Path = Path()

    def run(self, listen: str, started: Started) -> None:
        if self.trouble:
            raise self.trouble
        self.served.append((self.directory, listen))
        started(ServerAddress(Path("/d/server.sock"), 7, self.address, 1_796_000_000_000_000))

    def create(self, name: str, role: Role, tenant: str | None) -> NewToken:
        self.asked.append((name, role, tenant))
        return NewToken(TOKEN, "sty_secret")

    def listed(self) -> Sequence[Token]:
        return [TOKEN, replace(TOKEN, token_id="b", role="admin", tenant=None, revoked_at=5)]

    def revoke(self, token_id: str) -> Token:
        if token_id != TOKEN.token_id:
            raise UsageError("no such token")
        return replace(TOKEN, revoked_at=5)

    def ports(self) -> Ports:
        def at(directory: Path) -> Any:
            self.directory = directory
            return self

        return Ports(importer=at, query=at, demo=at, server=at, tokens=at)


@pytest.fixture(autouse=True)
def plain_world(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STEELYARD_DATA", raising=False)


def test_serve_says_in_one_line_where_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    service = Service()
    assert run(service.ports(), ["serve"]) == 0
    assert run(service.ports(), ["serve", "--data", "d", "--listen", "[::1]:0"]) == 0
    assert service.served == [(Path("steelyard-data"), "127.0.0.1:8780"), (Path("d"), "[::1]:0")]
    captured = capsys.readouterr()
    assert captured.out.splitlines()[1] == "serving d at http://127.0.0.1:8780; process 7; socket /d/server.sock"
    assert captured.err == ""
    assert run(service.ports(), ["serve", "--json"]) == 0
    said = capsys.readouterr().out
    assert said.count("\n") == 1
    assert json.loads(said) == {
        "address": "http://127.0.0.1:8780",
        "pid": 7,
        "socket": "/d/server.sock",
        "started_at": "2026-11-30T00:53:20Z",
    }


@pytest.mark.parametrize(
    ("address", "warned"),
    [
        ("http://127.0.0.2:1", False),
        ("http://[::1]:1", False),
        ("http://0.0.0.0:1", True),
        ("http://[::]:1", True),
        ("http://10.0.0.1:1", True),
    ],
)
def test_an_address_that_others_reach_is_warned_of(
    address: str, warned: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(Service(address).ports(), ["serve"]) == 0
    assert ("put TLS before it" in capsys.readouterr().err) == warned


def test_trouble_is_one_line_and_an_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(Service(trouble=StoreLocked("served by process 7")).ports(), ["serve"]) == 3
    assert capsys.readouterr().err == "steelyard: served by process 7\n"


def test_a_token_is_shown_once_and_its_name_steers_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    service = Service()
    options = ["--role", "viewer", "--tenant", "team-a", "--name", "grafana"]
    assert run(service.ports(), ["token", "create", *options]) == 0
    assert service.asked == [("grafana", "viewer", "team-a")]
    assert capsys.readouterr().out.splitlines()[0] == "sty_secret"
    for command in (["list"], ["list", "--json"], ["revoke", TOKEN.token_id], ["revoke", TOKEN.token_id, "--json"]):
        assert run(service.ports(), ["token", *command]) == 0
        out = capsys.readouterr().out
        assert "sty_secret" not in out
        assert "\x1b" not in out
        assert TOKEN.token_id in out
    assert run(service.ports(), ["token", "create", *options, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["secret"] == "sty_secret"


@pytest.mark.parametrize(
    "arguments",
    [
        ["create", "--name", "x"],
        ["create", "--role", "root", "--name", "x"],
        ["revoke"],
        ["revoke", "nobody"],
        ["drop"],
    ],
)
def test_a_command_that_cannot_be_is_one_line_and_exit_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(Service().ports(), ["token", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    assert captured.out == ""


def test_every_command_has_help_with_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    for command in (["serve"], ["token", "create"], ["token", "list"], ["token", "revoke"]):
        assert run(Service().ports(), [*command, "--help"]) == 0
        out = capsys.readouterr().out
        assert f"Example: steelyard {' '.join(command)}" in out
        assert "--json" in out


def test_ports_without_a_server_are_our_own_mistake() -> None:
    def at(directory: Path) -> Any:
        return None

    bare = Ports(importer=at, query=at, demo=at)
    for command in (["serve"], ["token", "list"]):
        with pytest.raises(InvariantError):
            run(bare, command)
