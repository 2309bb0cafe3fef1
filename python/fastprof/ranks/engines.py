# SPDX-License-Identifier: Apache-2.0
"""map_over: one function over many shards, on this process's threads or on a cluster of Ray or Dask.

Scheduling, transport and the retries of tasks whose worker died are the engine's. Workers need fastprof of this version
and read the shards by the same paths.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from fastprof.base import errors
from fastprof.base.optional_package import optional_package

__all__ = ["check_engine", "map_over"]

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
_RETRIES = 3  # of a task whose worker died
_USAGE = "RAY_USAGE_STATS_ENABLED"


def check_engine(engine: str | None) -> tuple[str, str]:
    """Return name and address of "ray", "dask", "ray://HOST:PORT" or "dask://HOST:PORT"; "" for None.

    Raises errors.ValueError for anything else.
    """
    name, _, address = (engine or "").partition("://")
    if name not in ("ray", "dask", "") or (engine and not name):
        raise errors.ValueError(
            f"unknown engine {engine!r}. Use ray, dask, ray://HOST:PORT or dask://HOST:PORT."
        )
    return name, address


def map_over(
    function: Callable[[_Item], _Result], items: Sequence[_Item], engine: str | None = None
) -> Generator[_Result | str, None, None]:
    """Yield function(item) of each item, in order; a str says why the engine gave the item up.

    function: of a module, so that workers import it. engine: None: threads of this process; "ray", "dask": the
    cluster that the program is connected to, else one that the engine's own settings name, else one of processes on
    this machine, which ends with the iterator; "ray://HOST:PORT" (Ray's client), "dask://HOST:PORT" (a scheduler): a
    running cluster. Closing the iterator cancels what is left.

    Raises errors.UnavailableError if the engine is not installed or reached, or if its workers cannot run the function.
    """
    name, address = check_engine(engine)
    if name == "ray":
        yield from _over_ray(function, items, address)
    elif name == "dask":
        yield from _over_dask(function, items, address)
    else:
        with ThreadPoolExecutor(min(os.cpu_count() or 1, 8)) as pool:
            yield from pool.map(function, items)


def _over_ray(function: Any, items: Sequence[Any], address: str) -> Iterator[Any]:
    ray = optional_package("ray", "ranks-ray")
    ours = not ray.is_initialized()
    if ours:
        with _reached(f"ray at {address}" if address else "ray"), _without_usage_reports():
            where = {"address": f"ray://{address}"} if address else {"include_dashboard": False}
            ray.init(**where, logging_level="error", log_to_driver=False)
    waiting: list[Any] = []
    try:
        task = ray.remote(max_retries=_RETRIES)(function)
        waiting = [task.remote(item) for item in items][::-1]
        while waiting:
            try:
                result = ray.get(waiting[-1])
            except ray.exceptions.RayTaskError as error:
                raise _unable("ray", error) from error
            except ray.exceptions.RayError as error:
                result = _given_up("ray", error)
            waiting.pop()
            yield result
    finally:
        if ours:
            ray.shutdown()
        else:
            for each in waiting:
                ray.cancel(each)


def _over_dask(function: Any, items: Sequence[Any], address: str) -> Iterator[Any]:
    distributed = optional_package("distributed", "ranks-dask")
    client, ours = None, True
    if not address:
        with suppress(ValueError):  # the program has none
            client, ours = distributed.default_client(), False
    if client is None:
        with _reached(f"dask at {address}" if address else "dask"):
            client = _dask_client(distributed, address, len(items))
    futures = []
    try:
        futures = client.map(function, items, pure=False)
        for each in futures:
            try:
                result = each.result()
            except distributed.KilledWorker as error:
                result = _given_up("dask", error)
            except Exception as error:
                raise _unable("dask", error) from error
            yield result
    finally:
        client.cancel(futures)
        if ours:
            client.close()


def _dask_client(distributed: Any, address: str, size: int) -> Any:
    configured = optional_package("dask.config", "ranks-dask").get("scheduler-address", None)
    if address or configured:
        where = address if "://" in address or not address else f"tcp://{address}"
        return distributed.Client(where or configured)
    workers = max(min(os.cpu_count() or 1, size), 1)
    return distributed.Client(
        n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None
    )


@contextmanager
def _reached(what: str) -> Iterator[None]:
    try:
        yield
    except errors.Error:
        raise
    except Exception as error:  # each engine has its own
        raise errors.UnavailableError(
            f"cannot connect to the engine {what}: {type(error).__name__}: {error}. "
            "Start the cluster, correct the address, or read without an engine."
        ) from error


@contextmanager
def _without_usage_reports() -> Iterator[None]:
    """Start a Ray of our own without its reports to its makers, unless the user's environment allows them."""
    if _USAGE in os.environ:
        yield
        return
    os.environ[_USAGE] = "0"
    try:
        yield
    finally:
        del os.environ[_USAGE]


def _unable(engine: str, error: Exception) -> errors.UnavailableError:
    last = (str(error).strip().splitlines() or [type(error).__name__])[-1]
    return errors.UnavailableError(
        f"workers of the engine {engine} cannot read ranks: {last}. Install this version of fastprof with its "
        "extra `ranks` on all of them."
    )


def _given_up(engine: str, error: Exception) -> str:
    return (
        f"{engine} gave it up after {_RETRIES} retries, whose workers died ({type(error).__name__})"
    )
