"""The text of a cgroup file as the place of a process: every spelling that the field has shown."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.sources.cgroup.grammar import NO_LINES, PRIVATE_NAMESPACE, SEVERAL_PODS, CgroupPlace, place_of

UID = "0a1b2c3d-1111-4222-8333-444455556666"
OTHER_UID = "ffffffff-1111-4222-8333-444455556666"
UNDERSCORED = UID.replace("-", "_")
CONTAINER = "5" * 64
STATIC = "0123456789abcdef0123456789abcdef"

CASES = {
    "v1 cgroupfs, guaranteed": (f"4:memory:/kubepods/pod{UID}/{CONTAINER}", UID, CONTAINER),
    "v1 cgroupfs, burstable": (f"4:memory:/kubepods/burstable/pod{UID}/{CONTAINER}", UID, CONTAINER),
    "v2 systemd, containerd": (
        f"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UNDERSCORED}.slice/cri-containerd-{CONTAINER}.scope",
        UID,
        CONTAINER,
    ),
    "v2 systemd, guaranteed, cri-o": (
        f"0::/kubepods.slice/kubepods-pod{UNDERSCORED}.slice/crio-{CONTAINER}.scope",
        UID,
        CONTAINER,
    ),
    "cri-o's own child": (
        f"0::/kubepods.slice/kubepods-pod{UNDERSCORED}.slice/crio-{CONTAINER}.scope/container",
        UID,
        CONTAINER,
    ),
    "systemd, docker": (f"0::/kubepods.slice/kubepods-pod{UNDERSCORED}.slice/docker-{CONTAINER}.scope", UID, CONTAINER),
    "colon form of a runtime set up otherwise": (
        f"1:name=systemd:/system.slice/containerd.service/kubepods-besteffort-pod{UNDERSCORED}.slice:cri-containerd:{CONTAINER}",
        UID,
        CONTAINER,
    ),
    "a named hierarchy with several controllers": (f"7:cpu,cpuacct:/kubepods/pod{UID}/{CONTAINER}", UID, CONTAINER),
    "a kubelet in a container": (
        f"0::/docker/{CONTAINER}/kubelet/kubepods/besteffort/pod{UID}/{'6' * 64}",
        UID,
        "6" * 64,
    ),
    "a cgroup that was removed": (f"0::/kubepods/pod{UID}/{CONTAINER} (deleted)", UID, CONTAINER),
    "seen from a private namespace, and yet named": (
        f"0::/../../kubepods-pod{UNDERSCORED}.slice/cri-containerd-{CONTAINER}.scope",
        UID,
        CONTAINER,
    ),
    "the pod's own cgroup": (f"0::/kubepods/pod{UID}", UID, None),
}


@pytest.mark.parametrize(("text", "uid", "container"), CASES.values(), ids=CASES.keys())
def test_a_pod_is_found_in_every_spelling(text: str, uid: str, container: str | None) -> None:
    assert place_of(text) == CgroupPlace("pod", uid, None, container, False)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (f"12:net_cls,net_prio:/docker/{CONTAINER}", "container"),
        (f"0::/system.slice/docker-{CONTAINER}.scope", "container"),
        (f"0::/machine.slice/libpod-{CONTAINER}.scope", "container"),
        ("0::/docker/buildkit/t4967jvf", "container"),
        ("0::/system.slice/slurmd.service", "host"),
        ("0::/user.slice/user-1000.slice/session-3.scope", "host"),
        ("0::/system.slice/podman-pod-cleanup.service", "host"),
        (f"0::/system.slice/some-pod{UID}ff.service", "host"),
        (f"0::/kubepods/xpod{UID}", "host"),
        (f"0::/kubepods/pod{UID[:-1]}", "host"),
        (f"0::/kubepods/pod{UID.replace('-', '_', 1)}", "host"),
    ],
)
def test_what_is_no_pod_is_never_taken_for_one(text: str, kind: str) -> None:
    place = place_of(text)
    assert (place.kind, place.pod_uid) == (kind, None)


def test_a_static_pod_has_its_digits_and_says_so() -> None:
    place = place_of(f"0::/kubepods/burstable/pod{STATIC}/{CONTAINER}")
    assert (place.pod_uid, place.static, place.container_id) == (STATIC, True, CONTAINER)


def test_of_pods_inside_pods_the_last_is_the_own_and_the_one_around_it_is_told() -> None:
    place = place_of(f"0::/kubepods/pod{OTHER_UID}/{CONTAINER}/kubelet/kubepods/pod{UID}/{'6' * 64}")
    assert (place.pod_uid, place.enclosing_pod_uid, place.container_id) == (UID, OTHER_UID, "6" * 64)


def test_lines_that_name_the_pod_win_over_the_empty_line_of_version_two() -> None:
    text = f"12:pids:/kubepods/pod{UID}/{CONTAINER}\n4:cpuset:/\n0::/system.slice/containerd.service\n"
    assert place_of(text).pod_uid == UID


def test_a_container_wins_over_the_service_that_started_it() -> None:
    assert place_of(f"12:pids:/docker/{CONTAINER}\n0::/system.slice/containerd.service\n").kind == "container"


def test_lines_of_different_pods_name_nobody() -> None:
    place = place_of(f"12:pids:/kubepods/pod{UID}\n11:cpu:/kubepods/pod{OTHER_UID}\n")
    assert place.kind == "unresolved" and place.pod_uid is None
    assert place.reason is not None and place.reason.startswith(SEVERAL_PODS) and OTHER_UID in place.reason


@pytest.mark.parametrize("text", ["0::/", "0::/..", f"0::/../cri-containerd-{CONTAINER}.scope", "3:cpu:/\n0::/\n"])
def test_a_path_from_the_readers_own_namespace_is_no_host_process(text: str) -> None:
    place = place_of(text)
    assert (place.kind, place.reason) == ("unresolved", PRIVATE_NAMESPACE)


@pytest.mark.parametrize("text", ["", "\n\n", "nonsense", "0:/x", "a:b:/c", "::::"])
def test_a_text_of_another_kind_resolves_to_nothing(text: str) -> None:
    assert place_of(text) == CgroupPlace("unresolved", reason=NO_LINES)


@given(st.text(max_size=400))
def test_no_text_is_too_strange(text: str) -> None:
    place = place_of(text)
    assert place.kind in ("pod", "container", "host", "unresolved")
    assert (place.pod_uid is not None) == (place.kind == "pod")


def test_a_text_without_end_is_read_to_its_bound_only() -> None:
    assert place_of("0::/" + "pod-" * 1_000_000).kind == "unresolved"
    assert place_of("1:cpu:/kubepods/x\n" * 1_000_000 + f"0::/kubepods/pod{UID}").kind == "host"


EXPECTED: dict[str, tuple[str, str | None, bool]] = {
    "pidmapper_test.go (v1 cgroupfs besteffort)": ("pod", "a9c80282-3f6b-4d5b-84d5-a137a6668011", False),
    "pidmapper_test.go (v2 systemd)": ("pod", "a9c80282-3f6b-4d5b-84d5-a137a6668011", False),
    "vcuda-controller#19": ("pod", "019c1fe8-0d92-4aa0-b61c-4df58bdde71c", False),
    "cryptnono#47 (v2 systemd containerd besteffort)": ("pod", "7fda01c4-0ece-403d-88b4-c371d66d132a", False),
    "kubectl-trace#174": ("pod", "30cea2cf-1b80-4807-abad-d81453e199c5", False),
    "kubectl-trace#207": ("pod", "31dd0274-bb43-4975-bdbc-7e10047a23f8", False),
    "traceloop#34": ("pod", "5759a1ae-36ca-48a8-b20a-b0b5c8a90fb8", False),
    "apm-agent-nodejs#3550": ("pod", "ff49d0be-16b7-4a49-bb9e-8ec1f1f4e27f", False),
    "ctrsploit#280 (plain docker": ("container", None, False),
    "ctrsploit#280 (same file, last line": ("host", None, False),
    "neuvector": ("container", None, False),
    "buildkit, no pod": ("container", None, False),
    "nested kubelet": ("pod", "12345678-1234-1234-1234-123456789012", False),
    "private cgroup namespace": ("unresolved", None, False),
    "static pod": ("pod", "1f3a5c7e9b2d4f6081a3c5e7092b4d6f", True),
    "MPS server": ("pod", "99999999-aaaa-bbbb-cccc-dddddddddddd", False),
}
"""What each line of the handed file states, by words of its own first column."""


def handed_lines(shared: Path) -> list[tuple[str, str]]:
    text = (shared / "cases" / "smi" / "cgroup_lines.txt").read_text(encoding="utf-8")
    pairs = (line.split("\t") for line in text.splitlines() if line and not line.startswith("#"))
    return [(words, line) for words, line in pairs]


def test_every_handed_line_gives_its_pod_or_the_reason_why_there_is_none(shared: Path) -> None:
    lines = handed_lines(shared)
    assert len(lines) == len(EXPECTED)
    for words, line in lines:
        (expected,) = [value for part, value in EXPECTED.items() if part in words]
        place = place_of(line)
        assert (place.kind, place.pod_uid, place.static) == expected, words
        assert (place.kind == "unresolved") == (place.reason is not None), words


def test_the_two_handed_lines_of_one_file_are_one_container(shared: Path) -> None:
    pair = [line for words, line in handed_lines(shared) if "ctrsploit" in words]
    assert place_of("\n".join(pair)).kind == "container"
