"""Periods, statements and budgets as a person types them, over a directory of one's own and over a server's; and who is told of a close."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from steelyard.app.wiring import ports
from steelyard.store import Store
from steelyard.surfaces.cli import run
from tests.app.served_directory import serving, steelyard
from tests.settlement.estate import micro, opened


@pytest.fixture(scope="module")
def posted_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("posted")
    opened(directory).close()
    return directory


@pytest.fixture
def data(posted_directory: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(posted_directory, tmp_path / "data"))


Said = tuple[int, str, str]


def typed(data: Path, capsys: pytest.CaptureFixture[str], *words: str) -> Said:
    """The command's exit code, and what it printed and complained."""
    capsys.readouterr()
    code = run(ports(), [*words, "--data", str(data)])
    out, errors = capsys.readouterr()
    return code, out, errors


def as_json(said: Said) -> Any:
    return json.loads(said[1])


def test_a_month_is_billed_judged_closed_verified_and_restated(
    data: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, out, _errors = typed(data, capsys, "bill", "--period", "2026-11")
    assert (code, "528.00" in out, "324.00" in out) == (0, True, True)
    assert typed(data, capsys, "close", "2026-11", "--dry-run")[0] == 0
    assert typed(data, capsys, "close", "2026-12", "--dry-run")[0] == 1
    code, _out, errors = typed(data, capsys, "close", "2026-11", "--as", "ann")
    assert (code, "two people" in errors) == (2, True)
    assert typed(data, capsys, "close", "2026-11", "--verify")[0] == 2
    closed = as_json(typed(data, capsys, "close", "2026-11", "--as", "bob", "--json"))
    assert [each["amount_micro"] for each in closed["statements"]] == [micro(528), micro(324)]
    assert typed(data, capsys, "close", "2026-11", "--verify")[0] == 0
    assert typed(data, capsys, "restate", "2026-11")[0] == 0
    (Path(closed["folder"]) / "rates.parquet").write_bytes(b"x")
    assert typed(data, capsys, "close", "2026-11", "--verify")[0] == 1
    periods = as_json(typed(data, capsys, "periods", "--json"))["tables"][0]["rows"]
    assert [row[:2] for row in periods] == [["2026-11", "closed"], ["2026-12", "open"]]


def test_documents_go_to_a_file_or_to_a_folder_for_several(
    data: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = tmp_path / "b.csv"
    assert (
        typed(data, capsys, "bill", "--tenant", "team-a", "--period", "2026-11", "--format", "csv", "--out", str(out))[
            0
        ]
        == 0
    )
    assert b"team-a" in out.read_bytes()
    assert (
        typed(data, capsys, "bill", "--period", "2026-11", "--format", "focus-1.2", "--out", str(tmp_path / "all"))[0]
        == 0
    )
    assert len(list((tmp_path / "all").iterdir())) == 2
    for words, said in (
        (("--format", "exe"), "--format"),
        (("--format", "csv"), "--out"),
        (("--format", "csv", "--out", str(out)), "--tenant"),
        (("--out", str(out)), "--format"),
        (("--tenant", "nobody", "--format", "csv", "--out", str(out)), "no statement"),
    ):
        code, _out, errors = typed(data, capsys, "bill", "--period", "2026-11", *words)
        assert (code, said in errors) == (2, True), errors


def test_a_budget_check_ends_as_nagios_takes_it(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert typed(data, capsys, "budget", "check", "--period", "2026-11")[0] == 3
    for amount, code in (("1000", 0), ("400", 1), ("300.50", 2)):
        assert typed(data, capsys, "budget", "set", "team-b", "2026-11", amount, "--currency", "USD")[0] == 0
        assert typed(data, capsys, "budget", "check", "--period", "2026-11")[0] == code
    found = as_json(typed(data, capsys, "budget", "list", "--json"))["budgets"]
    assert [each["amount_micro"] for each in found] == [micro(1000), micro(400), micro(300.5)]
    for words in (
        ("team-b", "2026-11", "1.2345678"),
        ("team-b", "2026-11", "NaN"),
        ("team-b", "2026-11", "1e30"),
        ("team-b", "2026-13", "1"),
    ):
        assert typed(data, capsys, "budget", "set", *words, "--currency", "USD")[0] == 2


def test_the_control_page_ties_to_what_is_declared(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("control", "2026-11", "--declared", "depreciation=1500.00 USD", "--json")
    tables = {table["name"]: table["rows"] for table in as_json(typed(data, capsys, *words))["tables"]}
    assert tables["tie_out"][-1] == ["all declared", "USD", micro(1500), micro(1440), -micro(60)]
    for bad in ("depreciation", "x=1", "x=NaN USD", "=1 USD", "x=1e400 USD"):
        assert typed(data, capsys, "control", "2026-11", "--declared", bad)[0] == 2


class Receiver(BaseHTTPRequestHandler):
    """Takes notices; refuses the first ``refusals`` of them."""

    taken: list[tuple[dict[str, str], bytes]] = []  # noqa: RUF012 (of one test at a time)
    refusals = 0

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        Receiver.taken.append((dict(self.headers), body))
        refused = len(Receiver.taken) <= Receiver.refusals
        self.send_response(500 if refused else 204)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""


@contextmanager
def receiving(refusals: int) -> Iterator[str]:
    Receiver.taken, Receiver.refusals = [], refusals
    with HTTPServer(("127.0.0.1", 0), Receiver) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/hook?key=canary-secret"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(("refusals", "state", "tries"), [(0, "delivered", 1), (1, "delivered", 2), (9, "failed", 3)])
def test_a_close_is_told_tried_again_and_recorded_without_a_secret(
    data: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path, refusals: int, state: str, tries: int
) -> None:
    token = tmp_path / "token"
    token.write_text("canary-token\n")
    with receiving(refusals) as url:
        (data / "steelyard.toml").write_text(
            f'[money]\nformats = ["csv"]\n[money.webhook]\nurl = "{url}"\ntoken_file = "{token}"\n'
        )
        closed = as_json(typed(data, capsys, "close", "2026-11", "--as", "bob", "--json"))
        assert closed["state"] == "closed"
        assert [(each["state"], each["tries_count"]) for each in closed["notices"]] == [(state, tries)]
        assert len(Receiver.taken) == tries
        assert len({headers["Idempotency-Key"] for headers, _body in Receiver.taken}) == 1
        headers, body = Receiver.taken[0]
        assert headers["Authorization"] == "Bearer canary-token"
        told = json.loads(body)
        assert (told["manifest_sha256"], len(told["statements"])) == (closed["manifest_sha256"], 2)
        Receiver.refusals = 0
        again = as_json(typed(data, capsys, "budget", "notices", "--send", "--json"))["notices"]
        assert [each["state"] for each in again] == ["delivered"]
        assert len(Receiver.taken) == (tries if state == "delivered" else tries + 1)
    said = json.dumps([closed, again])
    with Store.open(data) as store:
        said += str(store.rows("SELECT * FROM store.notice"))
    assert "canary" not in said


def test_a_receiver_that_is_not_there_does_not_undo_a_close(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (data / "steelyard.toml").write_text(
        '[money]\nformats = ["csv"]\n[money.webhook]\nurl = "http://127.0.0.1:9/x"\ntries = 1\n'
    )
    closed = as_json(typed(data, capsys, "close", "2026-11", "--as", "bob", "--json"))
    assert closed["state"] == "closed"
    assert closed["notices"][0]["state"] == "failed"


def test_commands_on_a_served_directory_go_through_its_server(data: Path, tmp_path: Path) -> None:
    with serving(data) as server:
        closed = steelyard("close", "2026-11", "--as", "bob", "--data", data, "--json", cwd=tmp_path)
        assert closed.returncode == 0, closed.stderr
        assert len(json.loads(closed.stdout)["statements"]) == 2
        verified = steelyard("close", "2026-11", "--verify", "--data", data, cwd=tmp_path)
        assert verified.returncode == 0, verified.stderr
        bill = steelyard(
            "bill", "--tenant", "team-b", "--period", "2026-11", "--format", "csv", "--data", data, cwd=tmp_path
        )
        written = next((data / "periods/2026-11/documents/2026-11-0002").glob("statement.csv")).read_bytes()
        assert bill.stdout == written
        assert server.end()[0] == 0


def test_a_backup_brings_closed_periods_back_byte_for_byte(
    data: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (data / "steelyard.toml").write_text('[money]\nformats = ["csv"]\n')
    folder = Path(as_json(typed(data, capsys, "close", "2026-11", "--as", "bob", "--json"))["folder"])
    assert typed(data, capsys, "backup", str(tmp_path / "backup"))[0] == 0
    capsys.readouterr()
    assert run(ports(), ["verify-backup", str(tmp_path / "backup")]) == 0
    other = tmp_path / "other"
    assert run(ports(), ["restore", str(tmp_path / "backup"), "--data", str(other)]) == 0
    before = {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    after = {
        path.relative_to(other / "periods/2026-11"): path.read_bytes()
        for path in (other / "periods/2026-11").rglob("*")
        if path.is_file()
    }
    assert before == after
    assert typed(other, capsys, "close", "2026-11", "--verify")[0] == 0
