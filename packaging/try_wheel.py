# SPDX-License-Identifier: Apache-2.0
"""Profile a program with the installed fastprof and check what it recorded: ``try_wheel.py [folder] [--torch]``.

folder: where pip installed it (--target), if not among this interpreter's packages.
--torch: profile a training step of the torch that is installed beside it, too, with no compiler within reach.
Prints one line about the system and what was recorded; any exception is a failure.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import warnings
from pathlib import Path

parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
)
parser.add_argument("folder", nargs="?", help="where pip installed it")
parser.add_argument("--torch", action="store_true", help="torch must be there, and is profiled")
options = parser.parse_args()

environment = dict(os.environ)
if options.folder:
    sys.path.insert(0, options.folder)
    environment["PYTHONPATH"] = ":".join([options.folder, os.environ.get("PYTHONPATH", "")])

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

headers = Path(subprocess.run([sys.executable, "-m", "fastprof", "config", "--includes"], env=environment,
                              capture_output=True, text=True, check=True).stdout.split("-I")[-1].strip())  # fmt: skip
assert (headers / "fastprof" / "fastprof.hpp").is_file(), headers
parts.append("the C++ headers")


def train_with_torch() -> str:
    """Profile a training step with shapes, memory and stacks; return what was recorded in a few words."""
    for compiler in ("c++", "g++", "clang++", os.environ.get("CXX", "")):
        assert not shutil.which(compiler), (
            f"{compiler} is here: it would not show that none is needed"
        )
    import torch

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    inputs, targets = torch.randn(32, 8), torch.randn(32, 4)

    def train_step() -> None:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(inputs), targets).backward()
        optimizer.step()

    train_step()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with fastprof.profile(record_shapes=True, profile_memory=True, with_stack=True) as profile:
            train_step()
    assert not profile.missing, profile.missing
    assert not any("fastprof" in str(w.message) + w.filename for w in told), [*map(str, told)]
    events = profile.events()
    counts = {row.key: row.count for row in profile.key_averages()}
    assert counts["aten::addmm"] == counts["aten::linear"] == 2, counts  # forward, one a layer
    assert counts["AddmmBackward0"] == 2 and counts["aten::mse_loss"] == 1, counts
    assert counts["aten::mm"] == 3, counts  # backward: weights of both layers, inputs of the second
    addmm = [event for event in events if event.name == "aten::addmm"]
    assert [event.input_shapes[:3] for event in addmm] == [[[16], [32, 8], [8, 16]],
                                                           [[4], [32, 16], [16, 4]]], addmm  # fmt: skip
    assert [event.cpu_memory_usage for event in addmm] == [32 * 16 * 4, 32 * 4 * 4], addmm
    assert all(any("train_step" in frame for frame in event.stack) for event in addmm), addmm
    ops = sum(count for name, count in counts.items() if name.startswith("aten::"))
    return f"torch {torch.__version__}: {ops} ops of a training step with shapes, memory and stacks"


if options.torch:
    parts.append(train_with_torch())

libc = os.confstr("CS_GNU_LIBC_VERSION")
print(
    f"CPython {sys.version.split()[0]}, {libc}: fastprof {fastprof.__version__} recorded 1501 ranges;",
    ", ".join(parts),
)
