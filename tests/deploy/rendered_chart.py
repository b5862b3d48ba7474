"""The chart as Helm's own engine renders it: no cluster, no Helm binary."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any, Final

import helm_python
import yaml

from tests.conftest import REPOSITORY

CHART: Final = REPOSITORY / "deploy" / "helm" / "steelyard"
RELEASE: Final = "weigh"
NAMESPACE: Final = "gpu-books"

Values = Mapping[str, Any]
Document = dict[str, Any]

EVERYTHING: Final[Values] = {
    "image": {"repository": "registry.example.com:5000/gpu/steelyard", "tag": "0.1.7", "digest": "sha256:" + "a" * 64},
    "imagePullSecrets": [{"name": "pull"}],
    "settings": {"cluster": "north", "scrape": [{"name": "dcgm", "url": ["http://dcgm.gpu.svc:9400/metrics"]}]},
    "server": {
        "listenHost": "[::]",
        "persistence": {"storageClassName": "fast", "accessMode": "ReadWriteOncePod", "size": "200Gi"},
        "secretFiles": [{"name": "prometheus", "secretName": "prometheus-reader"}],
        "secretEnv": [{"name": "HTTPS_PROXY", "secretName": "egress-proxy", "key": "url"}],
        "nodeSelector": {"disk": "true"},
        "tolerations": [{"key": "infra", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
        "priorityClassName": "system-cluster-critical",
        "podAnnotations": {"note": "1"},
        "podLabels": {"team": "infra"},
    },
    "service": {"annotations": {"note": "yes"}},
    "serviceAccount": {"annotations": {"note": "no"}},
    "networkPolicy": {
        "ingress": {
            "from": [
                {
                    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}},
                    "podSelector": {"matchLabels": {"app.kubernetes.io/name": "prometheus"}},
                }
            ]
        },
        "egress": {
            "apiServer": {"to": [{"ipBlock": {"cidr": "203.0.113.10/32"}}]},
            "additional": [{"to": [{"ipBlock": {"cidr": "198.51.100.0/24"}}], "ports": [{"port": 9400}]}],
        },
    },
    "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
    "prometheusRule": {"enabled": True, "labels": {"release": "prometheus"}},
    "agent": {
        "enabled": True,
        "metricsPort": 9782,
        "spool": {"hostPath": "/var/lib/steelyard-agent"},
        "maxUnavailable": 2,
        "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
        "priorityClassName": "system-node-critical",
        "podAnnotations": {"note": "1"},
        "podLabels": {"team": "infra"},
    },
}
"""Each part switched on, each value that has no default given."""

BARE: Final[Values] = {
    "image": {"repository": "steelyard"},
    "serviceAccount": {"create": False, "automountToken": False},
    "rbac": {"create": False},
    "networkPolicy": {"enabled": False},
    "server": {"tolerations": [], "affinity": {}},
    "agent": {
        "enabled": True,
        "runtimeClassName": "",
        "hostPaths": {"kernelLog": ""},
        "nodeSelector": None,
        "tolerations": [],
    },
}
"""Each part that can be switched off is."""

AWKWARD: Final[Values] = {
    "fullnameOverride": "y",
    "server": {
        "secretFiles": [{"name": "1", "secretName": "7"}],
        "secretEnv": [{"name": "true", "secretName": "0", "key": "1"}],
        "persistence": {"size": "10", "storageClassName": "0x1"},
        "podLabels": {"n": "0"},
        "priorityClassName": "1",
    },
    "serviceAccount": {"name": "1"},
    "serviceMonitor": {"enabled": True, "tokenSecret": {"name": "1", "key": "1"}},
    "agent": {
        "enabled": True,
        "tokenSecret": {"name": "1", "key": "1"},
        "runtimeClassName": "1",
        "spool": {"sizeLimit": "1"},
    },
}
"""Names that YAML would take for something else than text."""

VARIANTS: Final[Mapping[str, Values]] = {"default": {}, "everything": EVERYTHING, "bare": BARE, "awkward": AWKWARD}


def rendered(values: Values | None = None, name: str = RELEASE, namespace: str = NAMESPACE) -> dict[str, str]:
    """Template file -> its text. Raises HelmValuesError where the values' schema refuses them, as ``helm install`` does."""
    with helm_python.Chart.load(str(CHART)) as chart:
        given = copy.deepcopy(dict(values or {}))
        chart.validate_schema(chart.merge_values(given))
        texts = chart.render(given, name=name, namespace=namespace)
    return {path.removeprefix("steelyard/templates/"): text for path, text in texts.items()}


class _UniqueKeys(yaml.SafeLoader):
    """Refuses a mapping that has a key twice, of which YAML would keep the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _value in node.value]  # type: ignore[no-untyped-call]
        assert len(keys) == len(set(keys)), f"a key twice: {keys}"
        return super().construct_mapping(node, deep)


def documents(values: Values | None = None, name: str = RELEASE, namespace: str = NAMESPACE) -> list[Document]:
    """Every object that would be created."""
    found = []
    for path, text in rendered(values, name, namespace).items():
        if path != "NOTES.txt":
            found += [each for each in yaml.load_all(text, _UniqueKeys) if each is not None]
    return found


def only(found: list[Document], kind: str, component: str = "server") -> Document:
    """The one object of a kind and component."""
    (one,) = of_kind(found, kind, component)
    return one


def of_kind(found: list[Document], kind: str, component: str | None = None) -> list[Document]:
    """The objects of a kind."""
    return [
        each
        for each in found
        if each["kind"] == kind and component in (None, each["metadata"]["labels"]["app.kubernetes.io/component"])
    ]


def pod_templates(found: list[Document]) -> Iterator[Document]:
    """The pod templates of all workloads."""
    for each in found:
        if each["kind"] in ("StatefulSet", "DaemonSet"):
            yield each["spec"]["template"]
