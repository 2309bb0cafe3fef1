# SPDX-License-Identifier: Apache-2.0
"""Why the kernel does not let a process be traced, and what to do about it."""

from __future__ import annotations

import os
from collections.abc import Mapping

from fastprof.attach.processes import status_of

__all__ = ["explain_refusal", "refusal"]

_CAP_SYS_PTRACE = 1 << 19
_YAMA = "/proc/sys/kernel/yama/ptrace_scope"


def refusal(pid: int) -> str:
    """Return why the kernel refuses to let this process trace the process `pid`, as far as /proc says."""
    try:
        with open(_YAMA, encoding="ascii") as file:
            scope = int(file.read())
    except (OSError, ValueError):
        scope = 0
    return explain_refusal(status_of("self"), status_of(pid), scope, _is_container())


def explain_refusal(
    own: Mapping[str, str], target: Mapping[str, str], ptrace_scope: int, in_container: bool
) -> str:
    """Return the reason, with the remedy.

    own, target: fields of /proc/PID/status. ptrace_scope: of the Yama security module, 0 where it is absent.
    """
    may_trace_all = bool(int(own.get("CapEff", "0"), 16) & _CAP_SYS_PTRACE)
    own_uid, target_uid = (fields.get("Uid", "").split()[1:2] for fields in (own, target))
    if own_uid != target_uid and not may_trace_all:
        user = "".join(target_uid)
        return f"it belongs to the user {user}: run this command as that user (sudo -u '#{user}' fastprof attach ...)"
    if ptrace_scope >= 3:
        return "kernel.yama.ptrace_scope is 3, which forbids it to everybody until the machine restarts"
    if ptrace_scope and not may_trace_all:
        who = "root" if ptrace_scope == 2 else "a process's own parents"
        return (
            f"kernel.yama.ptrace_scope is {ptrace_scope}, which permits it to {who} only:"
            " sudo sysctl kernel.yama.ptrace_scope=0, or run this command with sudo"
        )
    if in_container and not may_trace_all:
        return (
            "this container lacks the capability SYS_PTRACE: start it with --cap-add SYS_PTRACE"
            " (Kubernetes: securityContext.capabilities.add)"
        )
    if own.get("Seccomp", "0") != "0":
        return "a seccomp filter forbids ptrace: permit it in the container's or service's profile"
    return (
        "it has made itself inaccessible (prctl PR_SET_DUMPABLE, or a program with set-user-id or"
        " file capabilities): run this command as root"
    )


def _is_container() -> bool:
    if any(os.path.exists(path) for path in ("/.dockerenv", "/run/.containerenv")):
        return True
    try:
        with open("/proc/1/environ", "rb") as file:
            return b"container=" in file.read()
    except OSError:
        return os.environ.get("KUBERNETES_SERVICE_HOST") is not None
