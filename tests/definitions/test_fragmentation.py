"""The measure against the released code's vectors, the published ratios, a slow reference and its own identities."""

from __future__ import annotations

import csv
import json
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.definitions.fragmentation import (
    CAUSES,
    SATISFIED,
    FreeCard,
    FreeNode,
    MigLayout,
    Mix,
    RequestClass,
    Shape,
    fits_card,
    fits_node,
    free_starts,
    measure,
    typical,
)
from steelyard.definitions.mig import MigSlices, legal_starts, mig_slices
from steelyard.primitives.errors import InvariantError
from steelyard.primitives.unknown import Unknown

MILLI_PPM = 1_000


def mix_of(rows: list[dict[str, object]]) -> Mix:
    """Popularity as it is printed, to four places, of a whole of 1."""
    classes = []
    for row in rows:
        shape = Shape(
            int(row["num"]),
            int(row["milli"]) * MILLI_PPM,
            int(row["cpu"]),
            models=tuple(row["typ"].split("|")) if row["typ"] else (),
        )
        classes.append(RequestClass(shape, round(row["p"] * 10_000)))
    return Mix(tuple(classes), 10_000)


def test_the_seven_vectors_of_the_released_code_are_met_exactly(shared: Path) -> None:
    golden = json.loads((shared / "cases/cost/fgd_golden_vectors.json").read_text())
    mixes = json.loads((shared / "cases/cost/fgd_typical_pods.json").read_text())
    for vector in golden["node_level"]:
        rows = vector["mix"] if isinstance(vector["mix"], list) else mixes[vector["mix"]]
        cards = tuple(FreeCard(milli * MILLI_PPM, model=vector["gpu_type"]) for milli in vector["gpu_left_milli"])
        found = measure([FreeNode(cards, vector["cpu_left_milli"])], mix_of(rows), "paper")
        assert found.trapped == Fraction(str(vector["frag_milli"])) * MILLI_PPM, vector
    assert len(golden["node_level"]) == 7


def test_a_class_that_fits_leaves_the_cards_that_are_too_small_for_it(shared: Path) -> None:
    golden = json.loads((shared / "cases/cost/fgd_golden_vectors.json").read_text())
    for vector in golden["single_class_milli"]:
        cards = tuple(FreeCard(milli * MILLI_PPM) for milli in vector["gpu_left_milli"])
        shape = Shape(vector["demand_num"], vector["demand_milli"] * MILLI_PPM, 0)
        found = measure([FreeNode(cards, 0)], Mix((RequestClass(shape, 1),), 1), "paper")
        assert found.trapped == vector["stranded_milli"] * MILLI_PPM


def trace_nodes(shared: Path) -> list[FreeNode]:
    text = (shared / "cases/traces/alibaba-gpu-v2023/openb_node_list_all_node.csv").read_text()
    return [
        FreeNode((FreeCard(1_000_000, model=row["model"]),) * int(row["gpu"]), int(row["cpu_milli"]))
        for row in csv.DictReader(text.splitlines())
        if int(row["gpu"])
    ]


def trace_counts(path: Path) -> Counter[Shape]:
    return Counter(
        Shape(
            int(row["num_gpu"]),
            int(row["gpu_milli"]) * MILLI_PPM,
            int(row["cpu_milli"]),
            models=tuple(filter(None, (row.get("gpu_spec") or "").split("|"))),
        )
        for row in csv.DictReader(path.read_text().splitlines())
    )


@pytest.mark.parametrize("trace", ["default", "gpushare100", "gpuspec33", "multigpu50", "cpu050", "cpu200"])
def test_the_published_ratio_of_the_empty_cluster_is_met(shared: Path, trace: str) -> None:
    golden = json.loads((shared / "cases/cost/fgd_golden_vectors.json").read_text())
    published = {row["trace"]: row for row in golden["cluster_empty_state_ratio_pct"]}[f"openb_pod_list_{trace}"]
    path = shared / f"cases/traces/alibaba-gpu-v2023/openb_pod_list_{trace}.csv"
    if not path.is_file():
        pytest.skip(f"the list {path.name} is not among the handed traces")
    mix = typical(trace_counts(path))
    ratio = measure(trace_nodes(shared), mix, "paper").ratio()
    assert isinstance(ratio, Fraction)
    assert len(mix.classes) == published["typical_classes"]
    assert round(float(ratio) * 100, 3) == published["reimplemented"]
    assert abs(float(ratio) * 100 - published["published_first_bucket_mean"]) < 0.05


def test_without_classes_that_ask_for_no_card_the_empty_cluster_is_hardly_fragmented(shared: Path) -> None:
    counts = trace_counts(shared / "cases/traces/alibaba-gpu-v2023/openb_pod_list_default.csv")
    mix = typical({shape: count for shape, count in counts.items() if shape.cards_count})
    ratio = measure(trace_nodes(shared), mix, "paper").ratio()
    assert isinstance(ratio, Fraction)
    assert abs(float(ratio) - 0.005) < 0.001
    assert measure(trace_nodes(shared), typical(counts).only_cards(), "paper").ratio() < Fraction(5, 1000)


cards = st.builds(
    FreeCard,
    st.integers(0, 1_000_000),
    st.sampled_from([None, "T4", "NVIDIA A100 80GB"]),
    st.sampled_from([None, 81_920]),
    st.none() | st.integers(0, 81_920),
    st.none() | st.integers(0, 100),
    st.none() | st.integers(0, 3),
    st.none()
    | st.builds(
        MigLayout, st.lists(st.integers(0, 255), max_size=2).map(tuple), st.integers(0, 7), st.just(8), st.just(7)
    ),
)
nodes = st.builds(FreeNode, st.lists(cards, max_size=4).map(tuple), st.none() | st.integers(0, 9_000))
shapes = st.builds(
    Shape,
    st.integers(0, 3),
    st.none() | st.integers(0, 1_000_000),
    st.none() | st.integers(0, 9_000),
    st.none() | st.integers(0, 90_000),
    st.none() | st.integers(0, 100),
    st.sampled_from([None, "1g.10gb", "3g.40gb", "no profile"]),
    st.sampled_from([(), ("T4",), ("a100", "T4")]),
)
mixes = st.dictionaries(shapes, st.integers(1, 50), max_size=5).map(typical)
tests = st.sampled_from(["share", "memory", "compute", "mig", "paper"])


@given(st.lists(nodes, max_size=4), mixes, tests)
def test_what_is_lost_usable_and_unknown_adds_up_to_what_is_free(estate, mix, test) -> None:
    found = measure(estate, mix, test)
    assert sum(found.amounts.values()) + found.unknown == found.free
    assert 0 <= found.trapped * max(1, mix.whole) <= found.free
    assert all(found.amount(cause) >= 0 for cause in CAUSES)


@given(st.lists(nodes, max_size=4), mixes, tests, st.randoms(use_true_random=False))
def test_the_order_of_nodes_and_cards_changes_nothing(estate, mix, test, random) -> None:
    shuffled = [FreeNode(tuple(random.sample(node.cards, len(node.cards))), node.cpu_milli) for node in estate]
    random.shuffle(shuffled)
    assert measure(shuffled, mix, test) == measure(estate, mix, test)


@given(st.lists(nodes, max_size=4), tests)
def test_without_typical_classes_nothing_is_called_lost(estate, test) -> None:
    found = measure(estate, typical({}), test)
    assert found.trapped == 0
    assert isinstance(found.ratio(), Unknown)


def slow_paper(node: FreeNode, mix: Mix) -> Fraction:
    """The formula as it stands in the paper, by single cards and classes."""
    lost = Fraction(0)
    for each in mix.classes:
        shape = each.shape
        known = [card.model for card in node.cards if not shape.models or card.model in shape.models]
        big = [card for card in node.cards if card.free_ppm >= (shape.share_ppm or 0)]
        can = shape.cards_count and known and node.cpu_milli >= shape.cpu_milli and len(big) >= shape.cards_count
        for card in node.cards:
            if not can or card not in big:
                lost += Fraction(each.weight * card.free_ppm, mix.whole)
    return lost


plain_nodes = st.builds(
    lambda frees, model, cpu: FreeNode(tuple(FreeCard(free, model) for free in frees), cpu),
    st.lists(st.integers(0, 1_000_000), max_size=5),
    st.sampled_from(["T4", "P100"]),
    st.integers(0, 9_000),
)
plain_mixes = st.dictionaries(
    st.builds(
        lambda count, share, cpu, models: Shape(count, share, cpu, models=models),
        st.integers(0, 3),
        st.integers(0, 1_000_000),
        st.integers(0, 9_000),
        st.sampled_from([(), ("T4",), ("P100", "T4")]),
    ),
    st.integers(1, 50),
    min_size=1,
    max_size=5,
).map(typical)


@given(st.lists(plain_nodes, max_size=4), plain_mixes)
def test_the_measure_equals_the_papers_formula_card_by_card(estate, mix) -> None:
    assert measure(estate, mix, "paper").trapped == sum(slow_paper(node, mix) for node in estate)


@given(st.lists(nodes, max_size=3), mixes, st.integers(0, 3))
def test_a_card_with_more_room_is_never_a_reason_that_a_request_fits_no_more(estate, mix, slots) -> None:
    for node in estate:
        more = FreeNode(
            (*node.cards, FreeCard(1_000_000, "NVIDIA A100 80GB", 81_920, 81_920, 100, slots + 1)), node.cpu_milli
        )
        for each in mix.classes:
            if fits_node(node, each.shape) is True:
                assert fits_node(more, each.shape) is True


@given(st.dictionaries(shapes, st.integers(1, 1_000), min_size=1), st.integers(1, 1_000_000))
def test_typical_classes_are_the_fewest_that_reach_the_threshold(counts, threshold_ppm) -> None:
    mix = typical(counts, threshold_ppm)
    asked = sum(counts.values())
    assert mix.whole * 1_000_000 >= threshold_ppm * asked
    assert (mix.whole - mix.classes[-1].weight) * 1_000_000 < threshold_ppm * asked
    assert [each.weight for each in mix.classes] == sorted(counts.values(), reverse=True)[: len(mix.classes)]


@pytest.mark.parametrize(
    ("card", "shape", "verdict"),
    [
        (FreeCard(400_000, None, 81_920, 30_000, 50), Shape(1, memory_mib=30_000, cores_percent=50), True),
        (FreeCard(400_000, None, 81_920, 29_999, 50), Shape(1, memory_mib=30_000, cores_percent=50), False),
        (FreeCard(400_000, None, 81_920, 30_000, 49), Shape(1, memory_mib=30_000, cores_percent=50), False),
        (FreeCard(400_000, None, 81_920, None, 50), Shape(1, memory_mib=30_000, cores_percent=50), None),
        (FreeCard(400_000, None, 81_920, 30_000, 50, slots=0), Shape(1, memory_mib=1_000), False),
        (FreeCard(999_999), Shape(1, 1_000_000), False),
        (FreeCard(1_000_000), Shape(1, 1_000_000), True),
        (FreeCard(1_000_000), Shape(1), None),
        (FreeCard(1_000_000), Shape(1, 1_000_000, models=("T4",)), None),
        (FreeCard(1_000_000, "Tesla-T4"), Shape(1, 1_000_000, models=("T4",)), True),
        (FreeCard(1_000_000, "NVIDIA L40S"), Shape(1, 1_000_000, models=("L4",)), False),
        (FreeCard(1_000_000), Shape(1, profile="1g.10gb"), False),
    ],
)
def test_a_card_fits_where_every_dimension_that_is_asked_for_does(
    card: FreeCard, shape: Shape, verdict: bool | None
) -> None:
    assert fits_card(card, shape) is verdict


def cut(taken: int | None, compute_free: int = 7) -> FreeCard:
    return FreeCard(
        500_000, "NVIDIA A100 80GB", 81_920, mig=MigLayout(() if taken is None else (taken,), compute_free, 8, 7)
    )


@pytest.mark.parametrize(
    ("taken", "compute_free", "profile", "verdict"),
    [
        (0b00000001, 6, "3g.40gb", True),
        (0b00010001, 5, "3g.40gb", False),  # six of eight slices are free, and no half
        (0b00010001, 5, "2g.20gb", True),
        (0b01111111, 0, "1g.10gb", False),
        (0b00001111, 3, "4g.40gb", False),  # 4g begins at slice 0 alone
        (0b00001111, 2, "3g.40gb", False),  # memory would do, compute does not
        (None, 7, "1g.10gb", None),
        (0, 7, "1g.9999gb", None),
    ],
)
def test_an_instance_fits_at_a_legal_start_alone(
    taken: int | None, compute_free: int, profile: str, verdict: bool | None
) -> None:
    assert fits_card(cut(taken, compute_free), Shape(1, profile=profile)) is verdict


def test_where_instances_may_lie_in_several_ways_a_fit_is_known_if_all_agree() -> None:
    card = replace(cut(0), mig=MigLayout((0b00000001, 0b00010000), 6, 8, 7))
    assert fits_card(card, Shape(1, profile="3g.40gb")) is True
    assert fits_card(card, Shape(1, profile="4g.40gb")) is None
    assert fits_card(card, Shape(1, profile="7g.80gb")) is False


def test_a_card_that_is_cut_serves_instances_alone() -> None:
    assert fits_card(cut(0), Shape(1, 1_000_000)) is False
    assert fits_card(cut(0), Shape(1, memory_mib=1)) is False


def test_every_listed_profile_fits_as_often_as_the_vendor_says(shared: Path) -> None:
    """The largest number of instances of one profile on a card, by brute force over legal starts."""
    checked = 0
    for row in csv.DictReader((shared / "cases/tables/mig_profiles.csv").read_text().splitlines()):
        if "me" in row["profile"] or "B300" in row["gpu"]:
            continue
        slices = mig_slices(
            row["profile"], row["gpu"].split(" ")[0].replace("RTX-PRO-6000-BSE-96GB", "RTX PRO 6000 Blackwell")
        )
        assert isinstance(slices, MigSlices)
        assert all(0 <= start <= slices.memory_total - slices.memory for start in legal_starts(slices))
        taken = count = 0
        while starts := free_starts(taken, slices):
            taken |= ((1 << slices.memory) - 1) << starts[0]
            count += 1
        assert count == int(row["max_instances"]), row
        checked += 1
    assert checked > 60


def test_a_memory_only_request_strands_no_cores_and_a_whole_card_needs_all_of_them() -> None:
    node = FreeNode((FreeCard(500_000, None, 81_920, 40_960, 0),), None)
    mix = Mix((RequestClass(Shape(1, memory_mib=8_000), 1),), 1)
    assert measure([node], mix, "memory").trapped == 0
    assert measure([node], mix, "compute").trapped == 0
    whole = Mix((RequestClass(Shape(1, 1_000_000), 1),), 1)
    assert measure([node], whole, "memory").trapped == 500_000
    assert measure([node], whole, "compute").free == 0


def test_what_no_card_tells_lowers_coverage_and_is_not_called_usable() -> None:
    blind, seen = FreeCard(500_000), FreeCard(500_000, None, 81_920, 40_960, 50)
    mix = Mix((RequestClass(Shape(1, memory_mib=50_000), 1),), 1)
    found = measure([FreeNode((blind,)), FreeNode((seen,))], mix)
    assert found.coverage() == Fraction(1, 2)
    assert found.ratio() == 1
    assert SATISFIED not in found.amounts
    assert isinstance(measure([FreeNode((blind,))], mix).ratio(), Unknown)


def test_measures_over_different_mixes_are_not_added() -> None:
    one, two = measure([], Mix((), 1)), measure([], Mix((), 2))
    with pytest.raises(InvariantError):
        one.add(two)
