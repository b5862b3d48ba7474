"""What to do about each finding of ``checks`` and each missing capability: one table, with the lines to paste and where.

The trick to know: the names of DCGM's fields are taken from the table of fields by their numbers, in the spelling that the exporter itself uses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from steelyard.app.doctor.checks import Found
from steelyard.primitives.i18n import _
from steelyard.sources.dcgm import field_names
from steelyard.surfaces.shared.doctor_ports import Level, Severity

Lines = Callable[[Found], Sequence[str]]

DCGM_HELP: Final[Mapping[int, tuple[str, str]]] = {
    100: ("gauge", "Clock of the SMs in MHz."),
    101: ("gauge", "Clock of the memory in MHz."),
    112: ("gauge", "Bit mask of the reasons why clocks are held down."),
    150: ("gauge", "Temperature of the GPU in C."),
    155: ("gauge", "Power of the board in W."),
    203: ("gauge", "Share of time with a kernel running in percent."),
    230: ("gauge", "Number of the last Xid."),
    252: ("gauge", "Framebuffer memory in use in MiB."),
    253: ("gauge", "Framebuffer memory reserved by the driver in MiB."),
    311: ("counter", "Uncorrected ECC errors since the driver was loaded."),
    1001: ("gauge", "Share of time with the graphics or compute engine busy."),
    1002: ("gauge", "Share of cycles with a warp on an SM."),
    1003: ("gauge", "Resident warps over the most that fit on an SM."),
    1004: ("gauge", "Share of cycles with a tensor pipe busy."),
    1005: ("gauge", "Share of cycles with the device memory moving data."),
    1009: ("gauge", "Bytes over PCIe from the GPU."),
    1010: ("gauge", "Bytes over PCIe to the GPU."),
    1011: ("gauge", "Bytes over NVLink from the GPU."),
    1012: ("gauge", "Bytes over NVLink to the GPU."),
}
"""Type and help of a field in the exporter's CSV; they go into a file that machines read, so they are not translated."""


@dataclass(frozen=True, slots=True)
class Remedy:
    """``severity`` and ``level`` of the finding, ``questions`` that it makes better, ``text`` and ``paste_into`` in the chosen language."""

    severity: Severity
    level: Level
    questions: tuple[int, ...]
    text: Callable[[], str]
    paste_into: Callable[[], str] = lambda: ""
    lines: Lines = lambda found: ()


def csv_lines(found: Found) -> list[str]:
    """Lines for dcgm-exporter's CSV: name, type, help; old names, unless the exporter prints current ones (DCGM 4.6 has both)."""
    lines = []
    for text in found.values.get("numbers", ()):
        number = int(text)
        names = field_names(number)
        kind, help_text = DCGM_HELP[number]
        lines.append(f"{names[0] if found.values.get('current') else names[-1]}, {kind}, {help_text}")
    return lines


def _rule_lines(found: Found) -> list[str]:
    group = found.values.get("group", ("",))[0]
    return [
        f'- apiGroups: ["{group}"]',
        f"  resources: [{', '.join(found.values.get('resources', ()))}]",
        "  verbs: [list, watch]",
    ]


_HONOR: Final = ("spec:", "  endpoints:", "    - port: metrics", "      honorLabels: true")
_POD_LABELS: Final = (
    "env:",
    "  - name: DCGM_EXPORTER_KUBERNETES",
    '    value: "true"',
    "volumeMounts:",
    "  - name: pod-resources",
    "    mountPath: /var/lib/kubelet/pod-resources",
    "    readOnly: true",
    "# and beside the containers:",
    "volumes:",
    "  - name: pod-resources",
    "    hostPath:",
    "      path: /var/lib/kubelet/pod-resources",
)
_NODE_NAME: Final = (
    "env:",
    "  - name: NODE_NAME",
    "    valueFrom:",
    "      fieldRef:",
    "        fieldPath: spec.nodeName",
)
_POLICY: Final = (
    "apiVersion: audit.k8s.io/v1",
    "kind: Policy",
    "rules:",
    "  - level: Request",
    "    verbs: [create, update, patch, delete, deletecollection]",
    "    resources:",
    '      - group: ""',
    "        resources: [pods, pods/binding, pods/eviction, nodes, resourcequotas]",
    "      - group: kueue.x-k8s.io",
    "      - group: scheduling.volcano.sh",
    "      - group: batch.volcano.sh",
    "      - group: batch",
    "      - group: resource.k8s.io",
    "  - level: None",
)
_SCRAPE_DCGM: Final = ("[[scrape]]", 'name = "dcgm"', 'url = ["http://NODE:9400/metrics"]')
_SCRAPE_MONITOR: Final = ("[[scrape]]", 'name = "hami-monitor"', 'url = ["http://NODE:31992/metrics"]')
_SCRAPE_ENGINE: Final = ("[[scrape]]", 'name = "engines"', 'url = ["http://ENGINE:8000/metrics"]')
_SCRAPE_GATEWAY: Final = ("[[scrape]]", 'name = "gateway"', 'url = ["http://GATEWAY:15090/stats/prometheus"]')
_SCRAPE_SCHEDULER: Final = (
    "[[scrape]]",
    'name = "kube-scheduler"',
    'url = ["https://CONTROL-PLANE:10259/metrics"]',
    'token_file = "/etc/steelyard/token"',
)
_SCRAPE_QUEUE: Final[Mapping[str, tuple[str, ...]]] = {
    "kueue": (
        "[[scrape]]",
        'name = "kueue"',
        'url = ["https://KUEUE:8443/metrics"]',
        'token_file = "/etc/steelyard/token"',
    ),
    "volcano": ("[[scrape]]", 'name = "volcano"', 'url = ["http://VOLCANO-SCHEDULER:8080/metrics"]'),
}
_PROMETHEUS: Final = ("[[prometheus]]", 'name = "main"', 'url = "http://PROMETHEUS:9090"')
_KUBERNETES: Final = ("[[kubernetes]]", 'name = "CLUSTER"', 'kubeconfig = "/etc/steelyard/kubeconfig"')
_AUDIT: Final = ("[[audit_log]]", 'name = "audit"', 'path = "/var/log/kubernetes/audit.log"')
_DUMP: Final = (
    "kubectl get pods,nodes,events -A -o json > cluster.json",
    "steelyard import --all-namespaces cluster.json",
)
_INVENTORY: Final = ("nvidia-smi -q -x > NODE.xml", "steelyard import --node NODE NODE.xml")
_PROCESSES: Final = (
    "nvidia-smi -L > NODE.txt",
    "nvidia-smi pmon -c 1 -s um > NODE-pmon.txt",
    "steelyard import --node NODE NODE.txt NODE-pmon.txt",
)
_KERNEL: Final = (
    "journalctl -k -o short-iso > NODE-kernel.log",
    "steelyard import --node NODE NODE-kernel.log NODE.txt",
)
_AGENT: Final = (
    "steelyard token create --role agent --name node-agents",
    "steelyard agent --server https://SERVER --token-file TOKEN_FILE",
)


def _settings() -> str:
    return "steelyard.toml"


def _shell() -> str:
    return _("a shell")


def _counters() -> str:
    return _("the counters file of dcgm-exporter (its option -f), before a restart")


REMEDIES: Final[Mapping[str, Remedy]] = {
    "store_unreadable": Remedy(
        "broken",
        "L0",
        (1, 2),
        lambda: _(
            "Look at the message: a newer program, a damaged file or its rights. A backup is restored with "
            "`steelyard restore`."
        ),
    ),
    "source_unreachable": Remedy(
        "broken",
        "L1",
        (1, 2),
        lambda: _(
            "Mend what the message names: the address, the certificate, the token file, a network policy; then "
            "run the doctor again."
        ),
    ),
    "source_slow": Remedy(
        "broken",
        "L1",
        (1, 2),
        lambda: _(
            "It took longer than the deadline. Try `steelyard doctor --deadline 60s`; if it is as slow then, ask "
            "fewer targets in one table."
        ),
    ),
    "probe_failed": Remedy("broken", "L1", (), lambda: _("Please report it, with what the source answers.")),
    "no_cluster_there": Remedy(
        "broken", "L1", (1, 2), lambda: _("Name the address of the API server, as `kubectl cluster-info` prints it.")
    ),
    "kind_forbidden": Remedy(
        "broken",
        "L1",
        (1, 2, 6, 8),
        lambda: _("Grant list and watch to the account that Steelyard uses."),
        lambda: _("the rules of its ClusterRole (deploy/rbac/cluster-role.yaml)"),
        _rule_lines,
    ),
    "kind_failed": Remedy(
        "broken",
        "L1",
        (1, 2),
        lambda: _("Look at the message; `kubectl get --raw` with the same account shows the same."),
    ),
    "audit_not_events": Remedy(
        "broken", "L2", (6,), lambda: _("Name the file of --audit-log-path, with --audit-log-format=json.")
    ),
    "disk_full": Remedy(
        "broken",
        "L0",
        (1, 2),
        lambda: _("Give the data directory more space, or let samples age with `steelyard retention`."),
    ),
    "nothing_there": Remedy(
        "missing",
        "L0",
        (1, 2),
        lambda: _("Import a dump of the cluster, or name sources in steelyard.toml."),
        _shell,
        lambda found: _DUMP,
    ),
    "demo_directory": Remedy(
        "note",
        "L0",
        (),
        lambda: _("Name sources in the settings of another directory, and serve that one."),
        _shell,
        lambda found: ("steelyard serve --data steelyard-data",),
    ),
    "not_posted": Remedy(
        "warning",
        "L0",
        (1, 2),
        lambda: _("Import or collect once more: the ledgers are posted at its end."),
        _shell,
        lambda found: ("steelyard collect",),
    ),
    "clock_skew": Remedy(
        "warning",
        "L1",
        (1, 2, 8),
        lambda: _(
            "Let chrony or systemd-timesyncd run on all of these machines and on this one; intervals from clocks "
            "that differ are wrong by as much."
        ),
    ),
    "tenant_hidden": Remedy(
        "warning",
        "L1",
        (1, 2, 7),
        lambda: _(
            "Let the exporter's labels win over those of the scrape (honorLabels), and drop no label "
            "exported_pod, exported_namespace or exported_container by relabelling. If the exporter prints no pod "
            "at all, its PodResources socket is not mounted."
        ),
        lambda: _("the ServiceMonitor of dcgm-exporter"),
        lambda found: _HONOR,
    ),
    "pod_labels_missing": Remedy(
        "warning",
        "L1",
        (1, 2, 7),
        lambda: _(
            "Mount the kubelet's PodResources socket and turn the mapping on. Cards used without a request "
            "(NVIDIA_VISIBLE_DEVICES) and resources that are not named in NVIDIA_RESOURCE_NAMES stay without a "
            "pod: that is use by nobody known, not idleness."
        ),
        lambda: _("the DaemonSet of dcgm-exporter"),
        lambda found: _POD_LABELS,
    ),
    "exporters_doubled": Remedy(
        "warning",
        "L1",
        (2,),
        lambda: _(
            "Remove one of the two exporters, or name only one in the settings. Until then one of the two is read "
            "and none is added up; other dashboards show the double."
        ),
    ),
    "two_ways": Remedy(
        "warning",
        "L1",
        (2,),
        lambda: _("Take a metric on one way only: remove the table of one of the two from steelyard.toml."),
    ),
    "instances_missing": Remedy(
        "warning",
        "L1",
        (2, 3),
        lambda: _(
            "Restart dcgm-exporter on the node: it learns of GPU instances when it starts. What stays without a "
            "row is not measured; it is not idle."
        ),
    ),
    "host_is_pod": Remedy(
        "warning",
        "L1",
        (1, 3),
        lambda: _("Tell the exporter its node."),
        lambda: _("the DaemonSet of dcgm-exporter"),
        lambda found: _NODE_NAME,
    ),
    "field_missing": Remedy(
        "missing",
        "L1",
        (2, 3, 4, 7),
        lambda: _("Add these lines; what a card cannot measure is skipped by the exporter, and says so in its log."),
        _counters,
        csv_lines,
    ),
    "xid_not_seen": Remedy(
        "note",
        "L1",
        (8,),
        lambda: _(
            "See that the line is in the counters file. The kernel log stays the authority on Xids: import it too."
        ),
        _counters,
        csv_lines,
    ),
    "no_gpu_metrics": Remedy(
        "missing",
        "L1",
        (2, 3, 4, 7),
        lambda: _("Let it scrape dcgm-exporter, or ask the exporters directly."),
        _settings,
        lambda found: _SCRAPE_DCGM,
    ),
    "names_unknown": Remedy(
        "note", "L1", (), lambda: _("Open its label values API (`/api/v1/label/__name__/values`).")
    ),
    "retention_short": Remedy(
        "note",
        "L1",
        (2,),
        lambda: _("History can be taken back no further. Raise --storage.tsdb.retention.time if more is wanted."),
    ),
    "monitor_missing": Remedy(
        "missing",
        "L1",
        (2, 4, 7),
        lambda: _("Ask the monitor in HAMi's device plugin on each node: it says what is enforced and counted."),
        _settings,
        lambda found: _SCRAPE_MONITOR,
    ),
    "queue_metrics_missing": Remedy(
        "missing",
        "L1",
        (6, 10),
        lambda: _("Ask its controller for metrics: they corroborate waits and quota."),
        _settings,
        lambda found: _SCRAPE_QUEUE.get(found.values.get("system", ("",))[0], ()),
    ),
    "register_old": Remedy(
        "note",
        "L0",
        (1, 2),
        lambda: _(
            "It is read. Registers before 2.5 name no index of a card, those before 2.8 no mode: a newer HAMi "
            "says both."
        ),
    ),
    "register_unknown": Remedy(
        "warning",
        "L0",
        (1, 2),
        lambda: _("These cards are not read: see the findings `register_malformed`, and tell us the release of HAMi."),
    ),
    "audit_empty": Remedy(
        "warning",
        "L2",
        (6,),
        lambda: _("Give the API server a policy that logs changes."),
        lambda: _("the file of --audit-policy-file"),
        lambda found: _POLICY,
    ),
    "audit_stage_missing": Remedy(
        "warning",
        "L2",
        (6,),
        lambda: _(
            "Take the stage out of omitStages in the policy: without ResponseComplete nobody knows whether a "
            "request was granted, without RequestReceived not when it came."
        ),
        lambda: _("the file of --audit-policy-file"),
        lambda found: _POLICY,
    ),
    "audit_level_low": Remedy(
        "warning",
        "L2",
        (6, 7),
        lambda: _("Log changes at level Request."),
        lambda: _("the file of --audit-policy-file"),
        lambda found: _POLICY,
    ),
    "tokens_none": Remedy(
        "note",
        "L1",
        (),
        lambda: _("Make one for whoever pushes or scrapes."),
        _shell,
        lambda found: ("steelyard token create --role operator --name prometheus",),
    ),
    "disk_short": Remedy(
        "warning", "L0", (1, 2), lambda: _("Give the data directory more space, or lower [retention] raw_days.")
    ),
    "backup_missing": Remedy(
        "missing",
        "L0",
        (),
        lambda: _("Back it up, each day, to another machine."),
        _shell,
        lambda found: ("steelyard backup backups/DATE",),
    ),
}
"""By the id of the check."""


@dataclass(frozen=True, slots=True)
class Way:
    """How a capability that is missing is had."""

    text: Callable[[], str]
    paste_into: Callable[[], str] = lambda: ""
    lines: Sequence[str] = ()


WAYS: Final[Mapping[str, Way]] = {
    "pods": Way(lambda: _("Import the pods of the whole cluster, or watch it."), _shell, _DUMP),
    "inventory": Way(lambda: _("Import nvidia-smi of each node."), _shell, _INVENTORY),
    "nodes": Way(lambda: _("Import the nodes of the cluster, or watch it."), _shell, _DUMP),
    "events": Way(lambda: _("Import the events of the cluster, or watch it."), _shell, _DUMP),
    "card_memory": Way(lambda: _("Import nvidia-smi of each node."), _shell, _INVENTORY),
    "process_memory": Way(
        lambda: _("Import the processes of each node, with the UUIDs of its cards."), _shell, _PROCESSES
    ),
    "kernel_log": Way(lambda: _("Import the kernel log of each node."), _shell, _KERNEL),
    "cluster_watch": Way(
        lambda: _(
            "Let Steelyard watch the cluster (deploy/rbac/cluster-role.yaml has what it must read), and run "
            "`steelyard serve`."
        ),
        _settings,
        _KUBERNETES,
    ),
    "card_use": Way(
        lambda: _("Install dcgm-exporter and let Steelyard ask it, or a Prometheus that does."), _settings, _SCRAPE_DCGM
    ),
    "profiling": Way(
        lambda: _("Let dcgm-exporter export the fields 1001, 1002 and 1005; a stock one leaves 1002 out."),
        _counters,
        tuple(csv_lines(Found("", "", {"numbers": ("1001", "1002", "1005")}))),
    ),
    "card_condition": Way(
        lambda: _("Let dcgm-exporter export the fields 100, 112 and 155; a stock one leaves 112 out."),
        _counters,
        tuple(csv_lines(Found("", "", {"numbers": ("100", "112", "155")}))),
    ),
    "sharing_monitor": Way(
        lambda: _("Ask the monitor in HAMi's device plugin on each node."), _settings, _SCRAPE_MONITOR
    ),
    "queue_metrics": Way(lambda: _("Ask the queue controllers for metrics."), _settings, _SCRAPE_QUEUE["kueue"]),
    "scheduler_metrics": Way(lambda: _("Ask kube-scheduler for metrics."), _settings, _SCRAPE_SCHEDULER),
    "engine_metrics": Way(lambda: _("Ask the inference engines for metrics."), _settings, _SCRAPE_ENGINE),
    "gateway_metrics": Way(
        lambda: _("Ask the gateways before them for metrics: only they see what was refused."),
        _settings,
        _SCRAPE_GATEWAY,
    ),
    "history": Way(
        lambda: _(
            "Name a Prometheus that scrapes dcgm-exporter and kube-state-metrics: it remembers what came before."
        ),
        _settings,
        _PROMETHEUS,
    ),
    "audit": Way(
        lambda: _("Turn the audit log of the API server on and let Steelyard follow it, or post it to ingest/audit."),
        _settings,
        _AUDIT,
    ),
    "books": Way(lambda: _("Import or collect once: the ledgers follow."), _shell, ("steelyard collect",)),
    "node_agents": Way(
        lambda: _(
            "Run `steelyard agent` on each GPU node, with a token that can deliver alone (docs/agent.md, agent.enabled of the chart)."
        ),
        _shell,
        _AGENT,
    ),
    "container_logs": Way(lambda: _("Not in this version.")),
    "prices": Way(
        lambda: _("Declare what a card costs and what it is charged at (docs/prices.md)."),
        _shell,
        ("steelyard prices import prices.csv",),
    ),
}
"""By the id of the capability."""
