"""Bench: parsing exporter text against prometheus_client's parser on the same bytes, from the second scrape of a target on.

Text of a node as dcgm-exporter prints it: 8 cards, 25 series each, with the labels of a pod, times ``--nodes`` targets that are scraped
in turn, each with its own cache. Both sides visit every sample. Medians of ``--repeat``; the values change between scrapes.
Run: ``python bench/bench_exposition.py --nodes 20 --repeat 5``.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import statistics
import sys
import time
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from steelyard.facts.finding import Finding
from steelyard.sources.exposition import SeriesCache, read_exposition
from steelyard.sources.shared.context import ReadContext

RATIO_MIN = 5.0
CARDS = 8
FIELDS = (
    "DEV_SM_CLOCK", "DEV_MEM_CLOCK", "DEV_MEMORY_TEMP", "DEV_GPU_TEMP", "DEV_POWER_USAGE", "DEV_TOTAL_ENERGY_CONSUMPTION",
    "DEV_PCIE_REPLAY_COUNTER", "DEV_GPU_UTIL", "DEV_MEM_COPY_UTIL", "DEV_ENC_UTIL", "DEV_DEC_UTIL", "DEV_XID_ERRORS", "DEV_FB_FREE",
    "DEV_FB_USED", "DEV_FB_RESERVED", "DEV_NVLINK_BANDWIDTH_TOTAL", "DEV_VGPU_LICENSE_STATUS", "DEV_UNCORRECTABLE_REMAPPED_ROWS",
    "DEV_CORRECTABLE_REMAPPED_ROWS", "DEV_ROW_REMAP_FAILURE", "PROF_GR_ENGINE_ACTIVE", "PROF_PIPE_TENSOR_ACTIVE", "PROF_DRAM_ACTIVE",
    "PROF_PCIE_TX_BYTES", "PROF_PCIE_RX_BYTES",
)  # fmt: skip


def scrape_text(node: int, rng: random.Random) -> str:
    """One scrape of one node."""
    lines: list[str] = []
    for field in FIELDS:
        lines += [f"# HELP DCGM_FI_{field} fixture of a field", f"# TYPE DCGM_FI_{field} gauge"]
        for card in range(CARDS):
            value = f"{rng.random():.6f}" if field.startswith("PROF") else str(rng.randrange(80_000))
            lines.append(
                f'DCGM_FI_{field}{{gpu="{card}",UUID="GPU-{node:08x}-0000-4000-8000-{card:012x}",pci_bus_id="00000000:{card + 16:X}:00.0",'
                f'device="nvidia{card}",modelName="NVIDIA H100 80GB HBM3",Hostname="gpu-{node:04d}",DCGM_FI_DRIVER_VERSION="550.90.07",'
                f'container="main",namespace="team-{node % 40}",pod="train-{node}-{card}"}} {value}'
            )
    return "\n".join(lines) + "\n"


def measure(nodes: int = 20, repeat: int = 5) -> dict[str, Any]:
    """Seconds of the first and of later scrapes of all targets, each the median of ``repeat``, and the ratios to prometheus_client."""
    rng = random.Random(7)  # noqa: S311 (a generator of test data)
    caches = [SeriesCache() for _ in range(nodes)]
    first, later, theirs = [], [], []
    for _ in range(repeat):
        texts = [scrape_text(node, rng) for node in range(nodes)]
        first.append(_ours(texts, [SeriesCache() for _ in texts]))
        _ours(texts, caches)
        texts = [scrape_text(node, rng) for node in range(nodes)]
        later.append(_ours(texts, caches))
        theirs.append(_theirs(texts))
    samples = nodes * CARDS * len(FIELDS)
    return {
        "samples": samples,
        "first_scrape_seconds": statistics.median(first),
        "later_scrape_seconds": statistics.median(later),
        "prometheus_client_seconds": statistics.median(theirs),
        "ratio_first": statistics.median(theirs) / statistics.median(first),
        "ratio": statistics.median(theirs) / statistics.median(later),
        "ratio_min": RATIO_MIN,
        "samples_per_second": round(samples / statistics.median(later)),
    }


def _ours(texts: list[str], caches: list[SeriesCache]) -> float:
    gc.collect()
    ctx, total = ReadContext(), 0
    started = time.perf_counter()
    for text, cache in zip(texts, caches, strict=True):
        for point in read_exposition(text, ctx, cache):
            total += not isinstance(point, Finding)
    seconds = time.perf_counter() - started
    assert total == len(texts) * CARDS * len(FIELDS)
    return seconds


def _theirs(texts: list[str]) -> float:
    gc.collect()
    total = 0
    started = time.perf_counter()
    for text in texts:
        for family in text_string_to_metric_families(text):
            for _sample in family.samples:
                total += 1
    seconds = time.perf_counter() - started
    assert total == len(texts) * CARDS * len(FIELDS)
    return seconds


def main(arguments: list[str] | None = None) -> int:
    """Print the figures as one JSON object; exit status 1 where the claim does not hold."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nodes", type=int, default=20)
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args(arguments)
    figures = measure(options.nodes, options.repeat)
    print(json.dumps(figures, indent=1))
    return 0 if figures["ratio"] >= RATIO_MIN else 1


if __name__ == "__main__":
    sys.exit(main())
