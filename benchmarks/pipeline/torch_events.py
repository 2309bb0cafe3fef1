# SPDX-License-Identifier: Apache-2.0
"""Time profiles of PyTorch's ops from stop to tables and files, with each option, against torch.profiler.

``torch_events.py [--events N] [--events-torch N] [--json FILE]``: runs steps of the transformer of
``torch_steps.py`` until N op events are recorded. Reports us per event of each stage, the minimum of two rounds
(torch.profiler: one), and resident bytes per event after the stop, measured in a new process. torch.profiler
records fewer events, because 10^6 take about a minute. Needs torch.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

import fastprof

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / folder) for folder in ("", "hot_path")]

from harness.stages import added_bytes, least_stages, measure_stages, number_of  # noqa: E402
from torch_steps import OPTIONS, count_ops, transformer_step  # noqa: E402

CHOSEN = ("plain", "record_shapes", "everything")


def steps(step: Callable[[], Any], n: int) -> None:
    """Run ``n`` steps."""
    for _ in range(n):
        step()


def makers(options: dict[str, bool]) -> dict[str, Callable[[], Any]]:
    """Return the functions that create a profile, by package."""
    return {
        "fastprof": partial(fastprof.profile, max_bytes=1 << 32, **options),
        "torch.profiler": partial(torch.profiler.profile, acc_events=True, **options),
    }


def main() -> None:
    """Run the measurements and print them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--events-torch", type=int, default=100_000)
    parser.add_argument("--json", type=Path, help="append each row to this file")
    parser.add_argument(
        "--resident", nargs=2, metavar=("PACKAGE", "OPTION"), help=argparse.SUPPRESS
    )
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    step = transformer_step()
    step()
    ops = count_ops(step)
    if arguments.resident:
        package, option = arguments.resident
        counts = (2, -(-arguments.events // ops))
        print(
            added_bytes(makers(OPTIONS[option])[package], [partial(steps, step, n) for n in counts])
        )
        return
    with tempfile.TemporaryDirectory() as folder:
        for option in CHOSEN:
            to_table: dict[str, float] = {}
            for package, make in makers(OPTIONS[option]).items():
                ours = package == "fastprof"
                count = -(-(arguments.events if ours else arguments.events_torch) // ops)
                measure_stages(make, partial(steps, step, 2), folder)  # warm up modules and code
                best = least_stages(2 if ours else 1, make, partial(steps, step, count), folder)
                events = count * ops
                us = {name[:-2]: 1e6 * value / events for name, value in best.items()}
                to_table[package] = us["stop_and_table"]
                resident = ("--resident", package, option, "--events", str(events))
                held = number_of(__file__, *resident) / events
                print(f"{package}, {option}: {events} events, {held:.0f} bytes an event")
                print(
                    "  us an event: " + "  ".join(f"{s} {v:.3f}" for s, v in us.items()), flush=True
                )
                if arguments.json:
                    row = {
                        "suite": "torch_events", "case": f"{package}, {option}", "events": events,
                        "us_an_event": us, "resident_bytes_an_event": held,
                    }  # fmt: skip
                    with arguments.json.open("a") as file:
                        file.write(json.dumps(row) + "\n")
            print(f"  {to_table['torch.profiler'] / to_table['fastprof']:.0f}x to the table")


if __name__ == "__main__":
    main()
