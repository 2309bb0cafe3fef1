# SPDX-License-Identifier: Apache-2.0
"""A job of any number of ranks, made up: what benchmarks and tests of fastprof.ranks read, with known answers.

    python benchmarks/ranks/simulated_job.py FOLDER --ranks 64 --steps 50 --slow 17=1.05

Each step has the stages data, forward, backward and optimizer. Backward is cut into segments, each of which ends with
an all-reduce of all ranks: a rank enters when its segment is done, and all leave a transfer after the last has entered,
each up to 50 us later. Computation has 2 % noise and 1 % of spikes of 30 %. A rank's clock may have an offset and a
drift. Kernels of one stream fill the segments; the host's ranges mark the stages.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping

import numpy as np

import fastprof

T0_NS = 1_700_000_000_000_000_000
STAGES = ("data", "forward", "backward", "optimizer")
_STAGE_MS = (2.0, 30.0, 65.0, 5.0)
_TRANSFER_NS, _EXIT_NS = 400_000, 50_000
_KERNELS = ("sm90_xmma_gemm_f16", "flash_fwd_kernel", "elementwise_kernel", "layer_norm_kernel")
_NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


class SimulatedJob:
    """slow: rank -> factor of its computation. delays: (rank, stage) -> ns added to that stage of each step.

    offset_ns, drift_ppm: of each rank's clock, default 0. segments: all-reduces a step. kernels: a step and rank.
    """

    def __init__(
        self,
        ranks: int,
        steps: int = 50,
        *,
        segments: int = 4,
        kernels: int = 40,
        seed: int = 0,
        slow: Mapping[int, float] | None = None,
        delays: Mapping[tuple[int, str], int] | None = None,
        offset_ns: np.ndarray | None = None,
        drift_ppm: np.ndarray | None = None,
    ) -> None:
        self.ranks, self.steps, self.segments, self.kernels = ranks, steps, segments, kernels
        self.offset_ns = np.zeros(ranks, np.int64) if offset_ns is None else offset_ns
        self.drift_ppm = np.zeros(ranks) if drift_ppm is None else drift_ppm
        random = np.random.default_rng(seed)
        # Durations of data, forward, each segment of backward, and optimizer, in ns by (rank, step, part).
        parts = [_STAGE_MS[0], _STAGE_MS[1], *[_STAGE_MS[2] / segments] * segments, _STAGE_MS[3]]
        cost = (
            np.array(parts) * 1e6 * (1 + 0.02 * random.standard_normal((ranks, steps, len(parts))))
        )
        cost *= np.where(random.random(cost.shape) < 0.01, 1.3, 1.0)
        for rank, factor in (slow or {}).items():
            cost[rank] *= factor
        for (rank, stage), ns in (delays or {}).items():
            at = STAGES.index(stage)
            cost[rank, :, len(parts) - 1 if at == 3 else at] += ns
        cost = np.maximum(cost, 1000).astype(np.int64)
        leave = random.integers(0, _EXIT_NS, (ranks, steps, segments))
        self.begin = np.zeros((ranks, steps), np.int64)
        self.forward, self.backward = np.zeros_like(self.begin), np.zeros_like(self.begin)
        self.enter = np.zeros((ranks, steps, segments), np.int64)
        self.exit = np.zeros_like(self.enter)
        self.end = np.zeros_like(self.begin)
        now = np.zeros(ranks, np.int64)
        for step in range(steps):
            self.begin[:, step] = now
            self.forward[:, step] = now + cost[:, step, 0]
            self.backward[:, step] = now = self.forward[:, step] + cost[:, step, 1]
            for at in range(segments):
                self.enter[:, step, at] = now + cost[:, step, 2 + at]
                last = self.enter[:, step, at].max()
                self.exit[:, step, at] = now = last + _TRANSFER_NS + leave[:, step, at]
            self.end[:, step] = now = now + cost[:, step, -1]
            now = now + 20_000  # the next step begins

    def local(self, rank: int, time: np.ndarray) -> np.ndarray:
        """Return Unix ns of a rank's clock at true times, which count from T0_NS."""
        drifted = time + np.rint(time * self.drift_ppm[rank] * 1e-6).astype(np.int64)
        return T0_NS + drifted + self.offset_ns[rank]

    def table(self, rank: int) -> fastprof.EventTable:
        """Return what a rank recorded."""
        steps, segments = self.steps, self.segments
        host, streams = 0, 1
        sites = [fastprof.table.Site(f"ProfilerStep#{n}") for n in range(steps)]
        sites += [fastprof.table.Site(stage) for stage in STAGES]
        sites += [fastprof.table.Site(name, category="kernel") for name in (*_KERNELS, _NCCL)]
        first_stage, first_kernel = steps, steps + len(STAGES)
        columns: list[tuple[np.ndarray, np.ndarray, np.ndarray, int]] = [
            (self.begin[rank], self.end[rank], np.arange(steps), host)
        ]
        edges = (self.begin[rank], self.forward[rank], self.backward[rank], self.exit[rank, :, -1], self.end[rank])  # fmt: skip
        for at in range(len(STAGES)):
            columns.append((edges[at], edges[at + 1], np.full(steps, first_stage + at), host))
        # Kernels fill forward and the segments, with 1 us between them.
        begins = np.concatenate([self.backward[rank][:, None], self.exit[rank][:, :-1]], axis=1)
        spans = [(self.forward[rank], self.backward[rank])]
        spans += [(begins[:, at], self.enter[rank, :, at]) for at in range(segments)]
        each = max(self.kernels // len(spans), 1)
        for low, high in spans:
            points = low[:, None] + (high - low)[:, None] * np.arange(each + 1) // each
            kind = first_kernel + np.arange(steps * each) % len(_KERNELS)
            columns.append((points[:, :-1].ravel(), points[:, 1:].ravel() - 1000, kind, streams))
        calls = (self.enter[rank].ravel(), self.exit[rank].ravel())
        columns.append((*calls, np.full(steps * segments, first_kernel + len(_KERNELS)), streams))
        start, end, site = (np.concatenate([c[i] for c in columns]) for i in range(3))
        track = np.concatenate([np.full(len(c[0]), c[3]) for c in columns])
        codes = np.full(len(start), -1, np.int32)
        codes[len(start) - steps * segments :] = np.arange(steps * segments)
        return fastprof.EventTable(
            {
                "start_ns": self.local(rank, start),
                "end_ns": self.local(rank, np.maximum(end, start)),
                "site": site,
                "track": track,
                "device_type": (track == streams).astype(np.int16),
            },
            sites=sites,
            tracks=[fastprof.table.Track(1, name="host"), fastprof.table.Track(2, name="stream 7")],
            coded={
                "metadata_json": fastprof.table.CodedColumn(
                    codes, [self._call(n) for n in range(steps * segments)]
                )
            },
            t0_ns=int(self.local(rank, np.int64(0))),
            pid=1000 + rank,
        )

    def _call(self, number: int) -> str:
        return json.dumps(
            {
                "Collective name": "allreduce",
                "In msg nelems": 1 << 22,
                "dtype": "BFloat16",
                "Group size": self.ranks,
                "Process Group Name": "0",
                "Seq": number,
            }
        )

    def write(self, folder: str) -> None:
        """Write the shards of all ranks."""
        for rank in range(self.ranks):
            fastprof.ranks.write(self.table(rank), folder, rank=rank, world_size=self.ranks)


def main() -> None:
    """Write a job as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("folder")
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--kernels", type=int, default=40, help="a step and rank")
    parser.add_argument("--slow", action="append", default=[], metavar="RANK=FACTOR")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    slow = {int(r): float(f) for r, f in (each.split("=") for each in options.slow)}
    SimulatedJob(
        options.ranks, options.steps, kernels=options.kernels, seed=options.seed, slow=slow
    ).write(options.folder)


if __name__ == "__main__":
    main()
