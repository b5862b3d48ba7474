import csv

import pytest

from steelyard.definitions.mig import MigSlices, mig_slices
from steelyard.primitives.unknown import Unknown


@pytest.mark.parametrize(
    ("profile", "model", "memory_mib", "slices"),
    [
        ("1g.5gb", None, 40960, MigSlices(1, 7, 1, 8)),
        ("1g.10gb", None, 40960, MigSlices(1, 7, 2, 8)),
        ("1g.10gb", "NVIDIA A100-SXM4-80GB", None, MigSlices(1, 7, 1, 8)),
        ("1g.10gb+me", "NVIDIA H100 PCIe", None, MigSlices(1, 7, 1, 8)),
        ("1g.10gb.me", "NVIDIA H100 80GB HBM3", None, MigSlices(1, 7, 1, 8)),
        ("mig-3g.20gb", None, None, MigSlices(3, 7, 4, 8)),
        ("1c.3g.20gb", None, 40960, MigSlices(1, 7, 4, 24)),
        ("2g.12gb", "NVIDIA A30", None, MigSlices(2, 4, 2, 4)),
        ("1g.24gb+gfx", "NVIDIA RTX PRO 6000 Blackwell Server Edition", None, MigSlices(1, 4, 1, 4)),
        ("1g.24gb", "NVIDIA GB200", None, MigSlices(1, 7, 1, 8)),
        ("1g.18gb", "NVIDIA GH200 144GB HBM3e", None, MigSlices(1, 7, 1, 8)),
    ],
)
def test_a_listed_profile_takes_the_vendors_slices(
    profile: str, model: str | None, memory_mib: int | None, slices: MigSlices
) -> None:
    assert mig_slices(profile, model, memory_mib) == slices


def test_siblings_settle_which_card_it_is() -> None:
    assert isinstance(mig_slices("1g.10gb"), Unknown)
    assert mig_slices("1g.10gb", siblings=["3g.40gb"]) == MigSlices(1, 7, 1, 8)


def test_an_unlisted_profile_of_a_known_card_is_estimated() -> None:
    assert mig_slices("2g.99gb", None, 200_000) == MigSlices(2, 7, 4, 8, estimated=True)


@pytest.mark.parametrize(
    "profile", ["", "7", "0g.5gb", "9c.1g.5gb", "1g.gb", "99g.5gb", "1g.5gb" + "+me" * 10**6, "1g.9999gb"]
)
def test_what_is_no_profile_of_the_card_is_unknown(profile: str) -> None:
    assert isinstance(mig_slices(profile, None, 40960), Unknown)


def test_every_profile_of_the_shared_table_agrees(shared) -> None:
    rows = list(csv.DictReader((shared / "cases/tables/mig_profiles.csv").read_text().splitlines()))
    checked = 0
    for row in rows:
        board = row["gpu"].split(" ")[0].replace("RTX-PRO-6000-BSE-96GB", "RTX PRO 6000 Blackwell")
        slices = mig_slices(row["profile"], board)
        expected = [
            int(row[key]) for key in ("compute_slices", "compute_slices_total", "memory_slices", "memory_slices_total")
        ]
        assert not isinstance(slices, Unknown), row
        assert [slices.compute, slices.compute_total, slices.memory, slices.memory_total] == expected, row
        assert not slices.estimated, row
        checked += 1
    assert checked == len(rows) > 80
