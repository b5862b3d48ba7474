"""What a person may ask of the agent: options, the environment, and what is refused before anything begins.

An option that is not given is taken from the environment (``STEELYARD_AGENT_SERVER`` for ``--server``), which is how a unit file or a DaemonSet
sets it.
"""

from __future__ import annotations

import argparse
import os
import re
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from steelyard.primitives.errors import UsageError
from steelyard.primitives.i18n import _
from steelyard.sources.pod_resources.kubelet import SOCKET
from steelyard.sources.shared.plain_text import plain

SPOOL: Final = Path("/var/lib/steelyard-agent")
INTERVAL_SECONDS: Final = 10.0
INTERVAL_SECONDS_MIN: Final = 1.0
INTERVAL_SECONDS_MAX: Final = 3_600.0
SPOOL_MAX_MIB: Final = 64
_PREFIX: Final = "STEELYARD_AGENT_"
_NAME: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?\Z")
_EXAMPLES: Final = """\
examples:
  steelyard agent --once                       look once and say what is seen, and what cannot be
  steelyard agent --once --json                the same as facts
  steelyard agent --server https://steelyard.example:443 --token-file /etc/steelyard/token
  steelyard agent --metrics :9480              answer scrapes, deliver nothing

exit codes: 0 done, 2 refused as asked, 3 something could not be seen (--once) or only a new process can go on
"""


@dataclass(frozen=True, slots=True)
class Options:
    """The agent's settings. ``server`` None: nothing is delivered. ``kernel_log``: ``auto``, ``journal``, ``none``, or a path.
    ``metrics``: (host, port), host empty = every address."""

    server: str | None
    token_file: Path | None
    ca_file: Path | None
    insecure_http: bool
    node: str
    cluster: str | None
    interval_seconds: float
    spool: Path
    spool_bytes_max: int
    metrics: tuple[str, int] | None
    once: bool
    as_json: bool
    proc: Path
    cgroup: Path | None
    kernel_log: str
    pod_resources: Path | None
    nvml_library: Path | None


class _Parser(argparse.ArgumentParser):
    """As argparse, but a word that it refuses is a UsageError like any other."""

    def error(self, message: str) -> Any:
        """Refuse the command line. Raises UsageError."""
        raise UsageError(f"{message} ({_('see')} steelyard agent --help)")


def parser(environment: Mapping[str, str]) -> argparse.ArgumentParser:
    """The options, with what the environment says as their defaults."""
    found = _Parser(
        prog="steelyard agent",
        description=_(
            "Sees what the driver, the kernel and the kubelet of this node know, and delivers it to a server."
        ),
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )

    def add(name: str, metavar: str, text: str, default: str | None = None) -> None:
        variable = _PREFIX + name.strip("-").replace("-", "_").upper()
        found.add_argument(name, metavar=metavar, default=environment.get(variable) or default, help=text)

    add("--server", "URL", _("Where batches go: https://HOST[:PORT]; plain http:// only to this machine."))
    add("--token-file", "FILE", _("The token, of the role agent; read again for each batch."))
    add("--ca-file", "FILE", _("The authorities that vouch for the server; default: the system's."))
    found.add_argument(
        "--insecure-http",
        action="store_true",
        default=environment.get(f"{_PREFIX}INSECURE_HTTP") in ("1", "true"),
        help=_("Allow http:// to another machine: the token passes in the clear."),
    )
    node = environment.get("NODE_NAME") or None
    add("--node", "NAME", _("This node, as the cluster calls it; default: NODE_NAME, else the host's name."), node)
    add("--cluster", "NAME", _("The cluster; default: the server's."))
    add("--interval", "SECONDS", _("From one round to the next (10)."), str(INTERVAL_SECONDS))
    add("--spool", "DIR", _("What is not acknowledged yet ({default}).").format(default=SPOOL), str(SPOOL))
    add("--spool-max", "MIB", _("Its bound; oldest samples go first (64)."), str(SPOOL_MAX_MIB))
    add("--metrics", "[HOST]:PORT", _("Answer scrapes there, in Prometheus' text form."))
    found.add_argument("--once", action="store_true", help=_("One round, to stdout; nothing is kept or delivered."))
    found.add_argument("--json", action="store_true", dest="as_json", help=_("With --once: the facts as JSON."))
    add("--proc", "DIR", _("The host's /proc, where it is mounted elsewhere."), "/proc")
    add("--cgroup", "DIR", _("The host's control groups, or none (/sys/fs/cgroup)."), "/sys/fs/cgroup")
    add(
        "--kernel-log",
        "PATH",
        _("auto, journal, none, or a path such as /dev/kmsg or /var/log/kern.log (auto)."),
        "auto",
    )
    add(
        "--pod-resources", "SOCKET", _("The kubelet's socket, or none ({default}).").format(default=SOCKET), str(SOCKET)
    )
    add("--nvml-library", "FILE", _("libnvidia-ml.so.1, where the loader does not find it."))
    return found


def options(arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> Options:
    """The settings of a command line. Raises UsageError, and SystemExit for ``--help``."""
    given = parser(os.environ if environment is None else environment).parse_args(list(arguments))
    found = Options(
        server=given.server,
        token_file=_path(given.token_file),
        ca_file=_path(given.ca_file),
        insecure_http=given.insecure_http,
        node=_named("--node", given.node or socket.gethostname()),
        cluster=None if given.cluster is None else _named("--cluster", given.cluster),
        interval_seconds=_number(
            "--interval", given.interval, float, INTERVAL_SECONDS_MIN, INTERVAL_SECONDS_MAX, _("seconds")
        ),
        spool=Path(given.spool),
        spool_bytes_max=int(_number("--spool-max", given.spool_max, int, 1, 1 << 20, "MiB")) << 20,
        metrics=None if given.metrics is None else _listen(given.metrics),
        once=given.once,
        as_json=given.as_json,
        proc=Path(given.proc),
        cgroup=None if given.cgroup == "none" else Path(given.cgroup),
        kernel_log=given.kernel_log,
        pod_resources=None if given.pod_resources == "none" else Path(given.pod_resources),
        nvml_library=_path(given.nvml_library),
    )
    if found.as_json and not found.once:
        raise UsageError(_("--json goes with --once"))
    if not found.once and found.server is None and found.metrics is None:
        raise UsageError(_("name a --server to deliver to, or --metrics to be scraped, or look --once"))
    if not found.once and found.server is not None and found.token_file is None:
        raise UsageError(
            _("--token-file: a server takes nothing without a token (steelyard token create --role agent)")
        )
    return found


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text)


def _named(option: str, text: str) -> str:
    if not _NAME.match(text):
        raise UsageError(_("{option}: expected a name, found {text}").format(option=option, text=plain(text)[:100]))
    return text


def _number(option: str, text: str, of: Callable[[str], float], low: float, high: float, unit: str) -> float:
    try:
        value = of(text)
    except ValueError:
        value = float("nan")
    if not low <= value <= high:
        raise UsageError(
            _("{option}: expected {low:g} to {high:g} {unit}, found {text}").format(
                option=option, low=low, high=high, unit=unit, text=plain(text)[:100]
            )
        )
    return value


def _listen(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdecimal() or int(port[:6]) > 65_535:
        raise UsageError(_("--metrics: expected [HOST]:PORT, found {text}").format(text=plain(text)[:100]))
    return host.strip("[]"), int(port)
