from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.sources.shared.pods import APP, INIT, SIDECAR, ContainerView
from steelyard.sources.shared.slots import IN_ORDER, POSITION, align_slots


def containers(words: str) -> list[ContainerView]:
    """``i:fetch a:srv`` as containers; the number after ``=`` is what ``wanted`` reads."""
    kinds = {"i": INIT, "s": SIDECAR, "a": APP}
    return [
        ContainerView(word[2:].split("=")[0], kinds[word[0]], position, {})
        for position, word in enumerate(words.split())
    ]


def wanted(words: str) -> list[int]:
    return [int(word.partition("=")[2] or 0) for word in words.split()]


@pytest.mark.parametrize(
    ("pod", "counts", "method", "owners"),
    [
        ("a:srv=1", [1], POSITION, ["srv"]),
        ("a:log a:srv=1 a:proxy", [0, 1, 0], POSITION, ["log", "srv", "proxy"]),
        ("i:fetch a:serve=1", [0, 1], POSITION, ["fetch", "serve"]),  # 2.9: init containers first
        ("i:warm=1 a:serve=1", [1, 1], POSITION, ["warm", "serve"]),
        ("i:warm=1 a:x a:y=2", [0, 2], POSITION, ["x", "y"]),  # up to 2.8: app containers only
        ("i:fetch a:a=1 a:b=1", [1, 1], IN_ORDER, ["a", "b"]),  # 2.10.0 dropped the empty slot
        ("i:warm=1 a:x a:y=1", [1, 1], IN_ORDER, ["warm", "y"]),
        ("a:log a:srv=1", [1], IN_ORDER, ["srv"]),  # 2.5: leading empty slots left out
        ("s:mesh=1 a:srv=1", [1, 1], POSITION, ["mesh", "srv"]),
        ("a:srv=1", [1, 0, 0], IN_ORDER, ["srv", None, None]),
        ("a:srv a:log", [1, 0], POSITION, ["srv", "log"]),  # requests not known: only positions speak
    ],
)
def test_slots_are_matched_by_the_numbering_that_fits_the_requests(
    pod: str, counts: list[int], method: str, owners: list[str | None]
) -> None:
    found = align_slots(counts, containers(pod), wanted(pod))
    assert (found.method, [owner and owner.name for owner in found.containers]) == (method, owners)


@pytest.mark.parametrize(
    ("pod", "counts"),
    [
        ("a:srv=2", [1]),
        ("a:srv=1", [1, 1]),
        ("a:x=1 a:y=2", [2, 1]),
        ("i:warm=1 a:x=1 a:y=1", [2, 0]),
        ("a:srv a:log", [1, 0, 1]),
    ],
)
def test_slots_that_fit_no_numbering_belong_to_nobody(pod: str, counts: list[int]) -> None:
    found = align_slots(counts, containers(pod), wanted(pod))
    assert found.method is None
    assert found.reason
    assert set(found.containers) == {None}


def test_a_sign_of_app_only_numbering_is_tried_before_the_order() -> None:
    pod = "i:fetch a:srv=1"
    assert align_slots([1], containers(pod), wanted(pod)).method == IN_ORDER
    assert align_slots([1], containers(pod), wanted(pod), apps_only=True).method == POSITION


pods = st.lists(st.tuples(st.sampled_from("ia"), st.integers(0, 2)), min_size=1, max_size=6).map(
    lambda parts: sorted(parts, key=lambda part: part[0] != "i")
)


@given(pods, st.sampled_from(["2.8", "2.9", "2.10.0"]))
def test_each_release_s_numbering_gives_every_card_to_the_container_that_asked(
    parts: list[tuple[str, int]], release: str
) -> None:
    words = " ".join(f"{kind}:c{number}={want}" for number, (kind, want) in enumerate(parts))
    views, wants = containers(words), wanted(words)
    counted = [number for number, view in enumerate(views) if release != "2.8" or view.kind == APP]
    if release == "2.10.0":
        counted = [number for number in counted if wants[number]]
    found = align_slots([wants[number] for number in counted], views, wants)
    owners = {owner.name: wants[number] for owner, number in zip(found.containers, counted, strict=True) if owner}
    truth = {f"c{number}": wants[number] for number in counted if wants[number]}
    assert {name: count for name, count in owners.items() if count} == truth
    assert all(
        owner is None or not wants[number] or owner.name == f"c{number}"
        for owner, number in zip(found.containers, counted, strict=True)
    )
