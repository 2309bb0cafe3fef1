# SPDX-License-Identifier: Apache-2.0
"""export_page: the answers of a Job as one self-contained HTML page: a heat map of ranks x steps, and tables."""

from __future__ import annotations

import os
from collections.abc import Sequence

from fastprof.base.atomic_file import atomic_binary
from fastprof.ranks.job import Job
from fastprof.ranks.path_text import path_values
from fastprof.ranks.text import job_values
from fastprof.report.dataset import Dataset
from fastprof.report.export import check_html_path
from fastprof.report.packing import Packer
from fastprof.report.page_text import page_parts

__all__ = ["MODULES", "export_page"]

MODULES = (
    "base", "format", "decode", "controls", "rank_model", "rank_heat", "rank_tables", "rank_main",
)  # fmt: skip
_STYLES = ("style", "views", "ranks")
# Name of what the heat map shows -> title, meaning. The first is what a rank is judged by.
_VALUES = {
    "own_ns": ("Own time", "the step without waiting in collectives for other ranks"),
    "duration_ns": ("Step", "duration of the step"),
    "compute_ns": ("Compute", "time with computation"),
    "communication_ns": ("Communication", "time with communication"),
    "exposed_ns": ("Exposed", "communication without computation beside it"),
    "waiting_ns": ("Waiting", "time in collectives until the last rank came"),
    "copies_ns": ("Copies", "time with copies of device memory"),
    "idle_ns": ("Idle", "time with none of them"),
}


def export_page(
    job: Job, path: str | os.PathLike[str], *, what_if: Sequence[tuple[str, float]] = ()
) -> None:
    """Write the page of a job, which a browser opens without a network.

    what_if: names with how many times faster they are; the page says how long the steps would be. With many events, it
    has the critical path by op only if there are some.

    Raises errors.ValueError for a suffix other than .html (or .html.gz) or a name that no event has, and
    errors.IoError if the file cannot be written; an existing file then stays unchanged.

        fastprof.ranks.export_html(fastprof.ranks.open("ranks"), "ranks.html")
    """
    check_html_path(path)
    data = _dataset(job, what_if)
    with atomic_binary(path) as file:
        for part in page_parts({"a": data}, MODULES, _STYLES, "fastprof ranks"):
            file.write(part)


def _dataset(job: Job, what_if: Sequence[tuple[str, float]]) -> Dataset:
    arrays = {
        name: job.own_ns if name == "own_ns" else
        job.waiting_ns if name == "waiting_ns" else job.parts(name)
        for name in _VALUES
    }  # fmt: skip
    values = job_values(job)
    rows = values.pop("ranks")
    own = job.means_ns(arrays["own_ns"])
    hosts = {shard.rank: str(shard.manifest.get("host", "")) for shard in job.shards}
    with Packer() as packer:
        block = packer.block("times")
        for name, array in arrays.items():
            block.integers(name, array.ravel(), signed=True)
        directory, data = packer.finish()["times"]
    head = {
        **values,
        **path_values(job, what_if),
        "title": f"{os.path.basename(os.path.normpath(job.folder))} {job.job_id}".strip(),
        "ranks": job.ranks,
        "hosts": [hosts[rank] for rank in job.ranks],
        "step_numbers": job.steps.tolist(),
        "per_rank": [{**row, "own_ns": ns} for row, ns in zip(rows, own, strict=True)],
        "values": [{"name": n, "title": t, "means": m} for n, (t, m) in _VALUES.items()],
        "blocks": {"times": directory},
    }
    return Dataset(head, {"times": data})
