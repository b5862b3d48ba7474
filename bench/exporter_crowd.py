"""Many dcgm-exporters in one process, for a bench: ``/node/N`` is the text of node N, with other values each time; ``/stats`` counts them.

Run by ``bench_collection``; prints the port that it listens on. It speaks as much HTTP/1.1 as a Prometheus that scrapes needs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys

from bench.bench_exposition import scrape_text

_served = 0


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, rng: random.Random) -> None:
    global _served
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            path = head.split(b" ", 2)[1].decode("ascii", "replace")
            if path == "/stats":
                kind, body = "application/json", json.dumps({"served": _served}).encode()
            else:
                kind, body = "text/plain; version=0.0.4", scrape_text(int(path.rsplit("/", 1)[1]), rng).encode()
                _served += 1
            writer.write(
                f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
            )
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def _serve(seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311 (a generator of test data)
    server = await asyncio.start_server(
        lambda reader, writer: _answer(reader, writer, rng), "127.0.0.1", 0, backlog=2_000
    )
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seed", type=int, default=7)
    asyncio.run(_serve(parser.parse_args().seed))
