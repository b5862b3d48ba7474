"""The agent's options: from the line, else from the environment; what cannot be is one line and exit code 2."""

from __future__ import annotations

from pathlib import Path

import pytest

from steelyard.app.agent.command import RESTART_SECONDS_MIN, log_source, main, restart_reason
from steelyard.app.agent.options import SPOOL, options
from steelyard.primitives.errors import UsageError
from steelyard.sources.kernel_log import FileSource, JournalSource, KmsgSource

DELIVERING = ["--server", "https://s", "--token-file", "/t"]


def test_the_environment_says_what_the_line_does_not() -> None:
    environment = {
        "STEELYARD_AGENT_SERVER": "https://from-environment",
        "STEELYARD_AGENT_TOKEN_FILE": "/run/token",
        "STEELYARD_AGENT_SPOOL_MAX": "7",
        "STEELYARD_AGENT_INSECURE_HTTP": "1",
        "NODE_NAME": "gpu-7",
    }
    found = options(["--server", "https://from-line"], environment)
    assert (found.server, found.token_file, found.node) == ("https://from-line", Path("/run/token"), "gpu-7")
    assert (found.spool_bytes_max, found.insecure_http) == (7 << 20, True)
    assert (found.interval_seconds, found.spool, found.kernel_log) == (10.0, SPOOL, "auto")


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--interval", "0.5"], "--interval: expected 1 to 3600"),
        (["--interval", "nan"], "--interval"),
        (["--interval", "soon"], "--interval"),
        (["--spool-max", "0"], "--spool-max: expected 1"),
        (["--spool-max", "1.5"], "--spool-max"),
        (["--metrics", "9480"], "--metrics: expected"),
        (["--metrics", ":99999"], "--metrics: expected"),
        (["--metrics", ":x"], "--metrics: expected"),
        (["--node", "a b"], "--node: expected a name"),
        (["--node", "-x"], "--node"),
        (["--cluster", "x/y"], "--cluster: expected a name"),
        (["--json"], "--json goes with --once"),
        (["--nothing"], "unrecognized arguments"),
        (["--onc"], "unrecognized arguments"),
        (["extra"], "unrecognized arguments"),
    ],
)
def test_what_cannot_be_is_refused_with_what_was_expected(more: list[str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        options([*DELIVERING, *more], {"NODE_NAME": "n"})


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "name a --server to deliver to, or --metrics"),
        (["--server", "https://s"], "--role agent"),
    ],
)
def test_an_agent_without_anything_to_do_says_what_it_needs(arguments: list[str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        options(arguments, {"NODE_NAME": "n"})


@pytest.mark.parametrize(
    ("text", "address"), [(":9480", ("", 9480)), ("127.0.0.1:0", ("127.0.0.1", 0)), ("[::1]:80", ("::1", 80))]
)
def test_an_address_to_be_scraped_at(text: str, address: tuple[str, int]) -> None:
    assert options(["--metrics", text], {"NODE_NAME": "n"}).metrics == address


def test_help_has_examples_and_ends_well(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert "steelyard agent --once --json" in text
    assert "exit codes" in text


def test_a_refusal_is_one_line_on_stderr(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t")
    spool = ["--spool", str(tmp_path / "spool"), "--node", "n", "--token-file", str(tmp_path / "token")]
    assert main(["--server", "http://10.0.0.1", *spool]) == 2
    assert main(["--server", "https://s", *spool[:4], "--token-file", str(tmp_path / "none")]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert all(line.startswith("steelyard agent: --") for line in lines)


def test_the_kernel_log_is_looked_for_where_it_can_be_opened(tmp_path: Path) -> None:
    kmsg, log = tmp_path / "kmsg", tmp_path / "kern.log"
    assert isinstance(
        log_source("auto", "n", (kmsg, log)), KmsgSource
    )  # neither is there: the first says what is missing
    log.touch()
    found = log_source("auto", "n", (kmsg, log))
    assert isinstance(found, FileSource) and found.name == str(log)
    assert isinstance(log_source("journal", "n"), JournalSource)
    assert isinstance(log_source("/dev/kmsg", "n"), KmsgSource)
    assert isinstance(log_source(str(log), "n"), FileSource)


def test_a_driver_that_only_a_new_process_can_ask_ends_an_old_process_and_no_young_one() -> None:
    class Card:
        restart_reason: str | None = "the library was replaced"

    assert restart_reason([Card()], RESTART_SECONDS_MIN - 1) is None  # type: ignore[list-item]
    assert restart_reason([Card()], RESTART_SECONDS_MIN + 1) == "the library was replaced"  # type: ignore[list-item]
    assert restart_reason([], RESTART_SECONDS_MIN + 1) is None
