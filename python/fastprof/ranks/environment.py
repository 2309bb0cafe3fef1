# SPDX-License-Identifier: Apache-2.0
"""RankFacts: which rank of a job this process is, from torch.distributed or the environment of its launcher."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from fastprof.base import errors

__all__ = ["RankFacts", "check_variables", "groups_of", "job_id_of", "rank_facts"]


class RankFacts(NamedTuple):
    """A process's place in its job.

    rank: from 0; 0 if nothing says it. world_size: number of ranks; 1 if nothing says it. local_rank: number
    within its host; -1: unknown. groups: process groups, {"name", "ranks"} each. found_by: what said so. job_id: the
    launcher's name of the job, equal on all of its ranks; "" if nothing says it.
    """

    rank: int
    world_size: int
    local_rank: int
    groups: list[dict[str, Any]]
    found_by: str
    job_id: str = ""


# Launcher -> its variables for rank, world size and local rank. The first whose rank and size are set is taken: a
# launcher inside of another one (torchrun under srun) is the one that numbered the ranks of the program.
_LAUNCHERS: tuple[tuple[str, str, str, str], ...] = (
    ("torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK"),
    ("Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    ("MVAPICH", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK"),
    ("PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),
    ("srun", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"),
    ("PMIx", "PMIX_RANK", "PMIX_SIZE", "PMIX_LOCAL_RANK"),
)
# What names a job, its variables joined by "."; the first whose first variable is set is taken. Not MASTER_ADDR: it may
# be "localhost" on the first host. A port names a job only among those at its time.
_JOB_IDS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("torchrun", ("TORCHELASTIC_RUN_ID",)),
    ("PMIx", ("PMIX_NAMESPACE",)),
    ("Open MPI", ("OMPI_MCA_ess_base_jobid",)),
    ("Slurm", ("SLURM_JOB_ID", "SLURM_STEP_ID")),
    ("Flux", ("FLUX_JOB_ID",)),
    ("PBS", ("PBS_JOBID",)),
    ("LSF", ("LSB_JOBID",)),
    ("port", ("MASTER_PORT",)),
)
_NO_ID = {"", "none"}  # "none": torchrun without --rdzv-id


def rank_facts() -> RankFacts:
    """Return the place of this process in its job; nothing is imported and no other process is contacted.

    torch.distributed if it is loaded and initialised, then Ray Train's worker, then the variables of torchrun
    (also set by accelerate and Lightning), Open MPI, MVAPICH, PMI (MPICH, Intel MPI), srun and PMIx. Any
    thread.
    """
    from fastprof.profiler.metadata import distributed_info  # which readers of jobs do not need

    from_variables = _of_variables(os.environ)
    described = distributed_info()
    if described is not None:
        local = from_variables.local_rank if from_variables is not None else -1
        return RankFacts(
            described["rank"],
            described["world_size"],
            local,
            groups_of(described),
            "torch.distributed",
            job_id_of(os.environ),
        )
    found = _of_ray() or from_variables or RankFacts(0, 1, -1, [], "nothing")
    return found._replace(job_id=job_id_of(os.environ))


def job_id_of(known: Mapping[str, str]) -> str:
    """Return the name of the job in a launcher's variables, such as "Slurm 4711.0"; "" if none has one."""
    for launcher, names in _JOB_IDS:
        values = [known.get(name, "") for name in names]
        if values[0] not in _NO_ID:
            return f"{launcher} " + ".".join(value for value in values if value)
    return ""


def check_variables(known: Mapping[str, str]) -> None:
    """Raise errors.ValueError for variables that make two ranks one, unless torch.distributed says the rank."""
    from fastprof.profiler.metadata import distributed_info

    texts = [known.get(name) for name in ("RANK", "WORLD_SIZE")]
    if None in texts or _of_variables(known) is not None or distributed_info() is not None:
        return
    raise errors.ValueError(
        f"RANK={texts[0]} and WORLD_SIZE={texts[1]} are no rank of a job. Count ranks from 0, below WORLD_SIZE,"
        " or unset both."
    )


def _of_variables(known: Mapping[str, str]) -> RankFacts | None:
    for launcher, *names in _LAUNCHERS:
        rank, size, local = (_number(known.get(name)) for name in names)
        if rank is not None and size is not None and rank < size:
            return RankFacts(rank, size, -1 if local is None else local, [], launcher)
    return None


def _of_ray() -> RankFacts | None:
    """Return the rank of a worker of Ray Train, whose processes have no variables before torch is set up."""
    train = sys.modules.get("ray.train")
    with suppress(Exception):  # not inside of a worker
        context = train.get_context() if train is not None else None
        if context is not None and context.get_world_size() is not None:
            return RankFacts(
                int(context.get_world_rank()),
                int(context.get_world_size()),
                int(context.get_local_rank()),
                [],
                "Ray Train",
            )
    return None


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None


def groups_of(described: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the process groups, {"name", "ranks"} each, of a trace's distributedInfo."""
    found = []
    for each in described.get("pg_config") or ():
        if isinstance(each, dict) and isinstance(each.get("ranks"), list):
            found.append({"name": str(each.get("pg_name", "")), "ranks": each["ranks"]})
    return found
