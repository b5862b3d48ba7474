import csv

import pytest

from steelyard.definitions.models import memory_mib_of
from steelyard.primitives.unknown import Unknown


@pytest.mark.parametrize(
    ("model", "memory_mib"),
    [
        ("NVIDIA-Tesla T4", 15360),
        ("NVIDIA-NVIDIA A100-SXM4-40GB", 40960),
        ("NVIDIA A100 80GB PCIe", 81920),
        ("NVIDIA-L40S", 46068),
        ("NVIDIA L4", 23034),
        ("NVIDIA H20", 97871),
        ("NVIDIA-NVIDIA H20-3e", 143771),
        ("NVIDIA H200 NVL", 143771),
        ("NVIDIA H100 80GB HBM3", 81559),
        ("NVIDIA H100 NVL", 95830),
        ("NVIDIA-Tesla V100-PCIE-32GB", 32768),
        ("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", 40960),
        ("NVIDIA-A10G-SHARED", 23028),
    ],
)
def test_a_listed_model_has_its_reported_memory(model: str, memory_mib: int) -> None:
    assert memory_mib_of(model) == memory_mib


@pytest.mark.parametrize(
    "model", ["", "NVIDIA A100", "Ascend910B", "NVIDIA A40-8Q", "GRID T4-16Q", "RTX 4090 Laptop GPU", "x" * 10**6]
)
def test_an_unlisted_ambiguous_or_virtual_model_is_unknown(model: str) -> None:
    assert isinstance(memory_mib_of(model), Unknown)


def test_the_list_agrees_with_the_shared_table(shared) -> None:
    for row in csv.DictReader((shared / "cases/tables/gpu_models.csv").read_text().splitlines()):
        ours = memory_mib_of(row["model"])
        if row["memory_mib_reported"] and "/" not in row["memory_gb"]:
            assert ours == int(row["memory_mib_reported"]), row["model"]
