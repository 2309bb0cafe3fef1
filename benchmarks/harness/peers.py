# SPDX-License-Identifier: Apache-2.0
"""Build and run the benchmarks of other tools' C++ scopes, if the tools are installed; otherwise print the reason."""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
INCLUDE = HERE.parent / "csrc" / "include"


def _torch_flags() -> list[str] | None:
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return None
    root = Path(spec.origin).parent
    lib = root / "lib"
    # NDEBUG: torch's release builds and callers with assertions enabled disagree on the allowed
    # order of calls.
    return [
        f"-I{root / 'include'}",
        "-std=c++20",
        f"-L{lib}",
        f"-Wl,-rpath,{lib}",
        "-ltorch_cpu",
        "-lc10",
    ]


def _has_header(name: str) -> bool:
    probe = subprocess.run(
        ["c++", "-E", "-x", "c++", "-"],
        input=f"#include <{name}>\n",
        capture_output=True,
        text=True,
        check=False,
    )
    return probe.returncode == 0


def run_peers(build: Path, out: Path, rounds: int) -> None:
    """Append the rows of each peer that can be built to the JSON-lines file ``out``; ``rounds``: rounds per case."""
    peers: dict[str, list[str] | None] = {
        "torch_record_function": _torch_flags(),
        "lttng_scope": ["-llttng-ust", "-ldl"] if _has_header("lttng/tracepoint.h") else None,
        "nvtx_scope": ["-ldl"] if _has_header("nvtx3/nvToolsExt.h") else None,
    }
    for name, flags in peers.items():
        if flags is None:
            print(f"{name}: not installed\n")
            continue
        program = build / name
        source = HERE / "peers" / f"{name}.cpp"
        command = [
            "c++",
            "-std=c++17",
            "-O2",
            "-DNDEBUG",
            f"-I{INCLUDE}",
            f"-I{source.parent}",
            str(source),
            "-o",
            str(program),
        ]
        built = subprocess.run(
            [*command, *flags, "-pthread"], capture_output=True, text=True, check=False
        )
        if built.returncode != 0:
            print(
                f"{name}: does not build: {built.stderr.splitlines()[0] if built.stderr else ''}\n"
            )
            continue
        subprocess.run([program, str(rounds), out], check=True)
