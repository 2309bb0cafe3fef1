# SPDX-License-Identifier: Apache-2.0
"""Profile a program with the installed fastprof and check what it recorded: ``try_wheel.py [folder]``.

folder: where pip installed it (--target), if not among this interpreter's packages.
Prints one line about the system and what was recorded; any exception is a failure.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

environment = dict(os.environ)
if len(sys.argv) > 1:
    sys.path.insert(0, sys.argv[1])
    environment["PYTHONPATH"] = ":".join([sys.argv[1], os.environ.get("PYTHONPATH", "")])

import fastprof  # noqa: E402


def work(count: int) -> int:
    total = 0
    for i in range(count):
        with fastprof.record_function("step"):
            total += sum(range(i % 50))
    return total


with fastprof.profile(with_stack=True) as profile:
    with fastprof.record_function("main"):
        work(1000)
    thread = threading.Thread(target=work, args=(500,))
    thread.start()
    thread.join()

counts = {row.key: row.count for row in profile.key_averages()}
assert counts["main"] == 1, counts
assert counts["step"] == 1500, counts
parts = ["3 formats"]
with tempfile.TemporaryDirectory() as folder:
    trace = Path(folder) / "trace.json"
    profile.export_chrome_trace(str(trace))
    names = [event.get("name") for event in json.loads(trace.read_text())["traceEvents"]]
    assert names.count("step") == 1500, names.count("step")
    for name in ("trace.pftrace", "trace.fastprof"):
        fastprof.save(profile, str(Path(folder) / name))
        assert len(fastprof.load(str(Path(folder) / name))) >= 1501
    script = Path(folder) / "script.py"
    script.write_text(
        "import fastprof\nfor i in range(3):\n    with fastprof.record_function('cli'):\n        pass\n"
    )
    command = [
        sys.executable,
        "-m",
        "fastprof",
        "run",
        "-o",
        str(Path(folder) / "run.json"),
        str(script),
    ]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "cli" in done.stdout + done.stderr, done.stdout
    parts.append("the command line")

headers = Path(subprocess.run([sys.executable, "-m", "fastprof", "--includes"], env=environment,
                              capture_output=True, text=True, check=True).stdout.split("-I")[-1].strip())  # fmt: skip
assert (headers / "fastprof" / "fastprof.hpp").is_file(), headers
parts.append("the C++ headers")

try:
    import torch
except ImportError:
    pass
else:
    with fastprof.profile(record_shapes=True, profile_memory=True) as profile:
        a = torch.randn(64, 64, requires_grad=True)
        (a @ a).relu().sum().backward()
    ops = {row.key: row.count for row in profile.key_averages()}
    assert ops["aten::mm"] >= 3, ops  # one forward, two backward
    assert any(
        event.input_shapes == [[64, 64], [64, 64]]
        for event in profile.events()
        if event.name == "aten::mm"
    )
    parts.append(f"torch {torch.__version__}: {sum(ops.values())} ops with shapes")

libc = os.confstr("CS_GNU_LIBC_VERSION")
print(
    f"CPython {sys.version.split()[0]}, {libc}: fastprof {fastprof.__version__} recorded 1501 ranges;",
    ", ".join(parts),
)
