# SPDX-License-Identifier: Apache-2.0
"""Configurations of Kineto's on-demand profiling, as dynolog sends them, as requests of `fastprof profile`.

Names, defaults and precedence: libkineto/src/Config.cpp of https://github.com/pytorch/kineto.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from typing import Any

from fastprof.base import errors
from fastprof.base.formatting import suggestion

__all__ = ["KinetoConfig", "read_kineto_config"]

_DEFAULT_DURATION_MS = 500
_MAX_AGE_S = 10.0
_MAX_BYTES = 1 << 20
_OPTIONS = {
    "PROFILE_REPORT_INPUT_SHAPES": "record_shapes",
    "CLIENT_INTERFACE_ENABLE_OP_INPUTS_COLLECTION": "record_shapes",
    "PROFILE_PROFILE_MEMORY": "profile_memory",
    "PROFILE_WITH_STACK": "with_stack",
    "PYTHON_STACK_TRACE": "with_stack",
    "PROFILE_WITH_FLOPS": "with_flops",
    "PROFILE_WITH_MODULES": "with_modules",
}
_INTEGERS = (
    "PROFILE_START_TIME",
    "ACTIVITIES_DURATION_MSECS",
    "ACTIVITIES_DURATION_SECS",
    "PROFILE_START_ITERATION",
    "PROFILE_START_ITERATION_ROUNDUP",
    "ACTIVITIES_ITERATIONS",
)
_NO_WARM_UP = "a profile of fastprof needs no warm-up"
_KINETOS_OWN = "it configures Kineto itself"
_NO_EFFECT = {
    "ACTIVITIES_WARMUP_PERIOD_SECS": _NO_WARM_UP,
    "ACTIVITIES_WARMUP_ITERATIONS": _NO_WARM_UP,
    "ACTIVITY_TYPES": "all activities of this machine's devices are recorded",
    "PROFILE_MEMORY": "use PROFILE_PROFILE_MEMORY, or `fastprof profile --profile-memory`",
    "PROFILE_MEMORY_DURATION_MSECS": "ACTIVITIES_DURATION_MSECS is the length of the profile",
    **dict.fromkeys(
        (
            "ACTIVITIES_MAX_GPU_BUFFER_SIZE_MB",
            "ACTIVITIES_DISPLAY_CUDA_SYNC_WAIT_EVENTS",
            "CUPTI_PER_THREAD_BUFFER_ENABLED",
            "CUPTI_PM_SAMPLING_METRICS",
            "CUPTI_PM_SAMPLING_DEVICE_ID",
            "ROCTRACER_MAX_EVENTS",
            "REQUEST_TRACE_ID",
            "REQUEST_GROUP_TRACE_ID",
            "ENABLE_IPC_FABRIC",
            "ON_DEMAND_CONFIG_UPDATE_INTERVAL_SECS",
            "VERBOSE_LOG_LEVEL",
            "VERBOSE_LOG_MODULES",
            "CUSTOM_CONFIG",
        ),
        _KINETOS_OWN,
    ),
}
_OTHERS = ("ACTIVITIES_LOG_FILE", "ACTIVITIES_ENABLED")
_KNOWN = (*_OPTIONS, *_INTEGERS, *_NO_EFFECT, *_OTHERS)
_BOOLEANS = {
    **dict.fromkeys(("y", "yes", "t", "true", "1"), True),
    **dict.fromkeys(("n", "no", "f", "false", "0"), False),
}


@dataclass
class KinetoConfig:
    """What a configuration asks for.

    request: members of the request "profile": seconds or steps; start_unix_s, start_step, step_multiple.
    options: of profile(). log_file: where the trace goes, without the pid; None: not given. left_out: a line for each
    key without an effect.
    """

    request: dict[str, Any] = field(default_factory=dict)
    options: dict[str, bool] = field(default_factory=dict)
    log_file: str | None = None
    left_out: list[str] = field(default_factory=list)

    def path_of(self, pid: int) -> str | None:
        """Return the absolute path of the trace of a process, named as Kineto names it; None if none is given."""
        if self.log_file is None:
            return None
        path = os.path.abspath(self.log_file)
        folder, name = os.path.split(path)
        for suffix in (".pt.trace.json", ".json"):
            if suffix in name:
                return os.path.join(folder, name.replace(suffix, f"_{pid}{suffix}", 1))
        return path


def read_kineto_config(path: str) -> KinetoConfig:
    """Return what the file asks for: lines KEY=VALUE; # begins a comment.

    Raises errors.IoError if it cannot be read, errors.FormatError for a line or value that is none, errors.ValueError
    for a request that cannot be fulfilled.
    """
    values: dict[str, str] = {}
    found = KinetoConfig()
    for number, line in enumerate(_text(path).splitlines(), 1):
        line = line.partition("#")[0].strip()
        if not line:
            continue
        parts = [part.strip() for part in line.split("=")]
        if len(parts) != 2:
            raise errors.FormatError(f"{path}:{number}: {line!r} is not KEY=VALUE")
        key, value = parts
        if key in _NO_EFFECT:
            found.left_out.append(f"{path}:{number}: {key} has no effect: {_NO_EFFECT[key]}")
        elif key not in _KNOWN:
            found.left_out.append(
                f"{path}:{number}: unknown key {key} has no effect{suggestion(key, _KNOWN)}"
            )
        else:
            values[key] = value
            if key == "ACTIVITIES_DURATION_SECS":  # the later of the two counts
                values.pop("ACTIVITIES_DURATION_MSECS", None)
    for key, option in _OPTIONS.items():
        if key in values:
            found.options[option] = _boolean(path, key, values[key])
    if "ACTIVITIES_ENABLED" in values and not _boolean(
        path, "ACTIVITIES_ENABLED", values["ACTIVITIES_ENABLED"]
    ):
        raise errors.ValueError(f"{path}: ACTIVITIES_ENABLED is off: nothing would be recorded")
    found.log_file = values.get("ACTIVITIES_LOG_FILE")
    found.options = {name: True for name, on in found.options.items() if on}
    found.request = _request(
        path, {key: _integer(path, key, values[key]) for key in _INTEGERS if key in values}
    )
    return found


def _request(path: str, numbers: dict[str, int]) -> dict[str, Any]:
    """Iterations take precedence over the time."""
    start, multiple = (
        numbers.get(f"PROFILE_START_ITERATION{suffix}", 0) for suffix in ("", "_ROUNDUP")
    )
    if "PROFILE_START_ITERATION" in numbers or multiple:
        steps = numbers.get("ACTIVITIES_ITERATIONS", 0)
        if not steps:
            raise errors.ValueError(
                f"{path}: a profile from an iteration on needs ACTIVITIES_ITERATIONS=N, how many"
            )
        by_steps = {"steps": steps, "start_step": start, "step_multiple": multiple}
        return {name: value for name, value in by_steps.items() if value}
    duration_ms = numbers.get(
        "ACTIVITIES_DURATION_MSECS", numbers.get("ACTIVITIES_DURATION_SECS", 0) * 1000
    )
    request = {"seconds": (duration_ms or _DEFAULT_DURATION_MS) / 1000}
    if start_ms := numbers.get("PROFILE_START_TIME", 0):
        late_s = time.time() - start_ms / 1000
        if late_s > _MAX_AGE_S:
            raise errors.ValueError(
                f"{path}: PROFILE_START_TIME={start_ms} was {late_s:.0f} s ago. Give Unix time in ms, ahead of now."
            )
        request["start_unix_s"] = start_ms / 1000
    return request


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(_MAX_BYTES + 1)
    except UnicodeDecodeError as error:
        raise errors.FormatError(f"{path}: not a text in UTF-8: {error}") from error
    except OSError as error:
        raise errors.IoError(f"cannot read {path}: {error.strerror or error}") from error
    if len(text) > _MAX_BYTES:
        raise errors.FormatError(f"{path}: longer than 1 MB: not a configuration of Kineto")
    return text


def _integer(path: str, key: str, value: str) -> int:
    if not (value.isascii() and value.isdecimal() and len(value) < 19):
        raise errors.FormatError(f"{path}: {key}={value}: not a whole number of 0 or more")
    return int(value)


def _boolean(path: str, key: str, value: str) -> bool:
    found = _BOOLEANS.get(value.lower())
    if found is None:
        raise errors.FormatError(f"{path}: {key}={value}: use one of {', '.join(_BOOLEANS)}")
    return found
