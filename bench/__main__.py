"""All benches, one after another: ``python -m bench`` (``make bench``). Each prints its figures beside the limit it is held to."""

from __future__ import annotations

import sys

from bench import (
    bench_agent,
    bench_close,
    bench_collection,
    bench_exposition,
    bench_import,
    bench_posting,
    bench_prometheus,
    bench_state,
    bench_wait,
    bench_watch,
)


def main() -> int:
    """Run every bench with its defaults; 0 where all limits are kept."""
    return max(
        bench_posting.main([]),
        bench_state.main([]),
        bench_prometheus.main([]),
        bench_wait.main([]),
        bench_close.main([]),
        bench_import.main([]),
        bench_exposition.main([]),
        bench_collection.main([]),
        bench_watch.main([]),
        bench_agent.main([]),
    )


if __name__ == "__main__":
    sys.exit(main())
