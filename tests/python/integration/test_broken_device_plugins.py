# SPDX-License-Identifier: Apache-2.0
"""Device plug-ins that misbehave: each fault is reported, and costs nothing but what the plug-in had."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from device_plugins import build_broken, run

pytestmark = pytest.mark.compilers


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_broken(tmp_path_factory.mktemp("broken"))


_REFUSED = {
    "open returns null": "cannot work with this version",
    "open throws": "thrown by open",
    "major": "built for version 2.0 of fastprof/device_plugin.h, and this is version 1.0",
    "size": "has 16 bytes",
    "name": "its name must be a lower-case letter",
    "no name": "its name must be a lower-case letter",
    "cuda": "its name must be a lower-case letter",
    "device type": "its device_type is 1",
    "no end": "lacks begin, end or abandon",
    "clock": "FASTPROF_CLOCK_OWN without read_clock",
    "call clock": "its call_clock must be",
    "stubs": "its stubs lack record",
    "stubs size": "its stubs are of an older size",
}


def test_invalid_tables_are_refused_with_the_reason(broken: Path, tmp_path: Path) -> None:
    """In one process: a refused library may be tried again, and a good one is accepted after all."""
    seen = run(broken, """
answers = {}
for fault in json.loads(os.environ["FAULTS"]):
    os.environ["BROKEN"] = fault
    try:
        devices.register(path)
        answers[fault] = "accepted"
    except (fastprof.errors.ValueError, fastprof.errors.UnavailableError) as error:
        answers[fault] = str(error)
os.environ["BROKEN"] = ""
def refused(given):
    try:
        devices.register(given)
    except fastprof.errors.Error as error:
        return str(error)
answers["good"] = devices.register(path).name
answers["again"] = devices.register(path).name
open("text.so", "w").write("no library")
answers["no library"] = refused("text.so")
from fastprof import _core
answers["another"] = refused(_core.__file__)
print(json.dumps(answers))
""", tmp_path, FAULTS=json.dumps(list(_REFUSED)))  # fmt: skip
    for fault, reason in _REFUSED.items():
        assert reason in seen[fault], (fault, seen[fault])
    assert seen["good"] == seen["again"] == "broken"
    assert "cannot be loaded" in seen["no library"] and "is no device plug-in" in seen["another"]


@pytest.mark.parametrize(
    ("fault", "kernels", "reason"),
    [
        ("begin fails", 0, "the device is lost: restart it"),
        ("begin throws", 0, "threw an exception that is no std::exception"),
        ("end fails", 1, "the device was reset"),
        ("end throws", 1, "thrown by end"),
        ("two calls of one number", 1, "correlations of more than one call (1 times)"),
        ("", 1, None),
    ],
)
def test_the_profile_goes_on(
    broken: Path, tmp_path: Path, fault: str, kernels: int, reason: str | None
) -> None:
    seen = run(broken, """
warnings.simplefilter("ignore")
devices.register(path)
for _ in range(2):
    with profile(activities=both) as prof:
        with record_function("range"):
            pass
print(json.dumps([prof.event_table.names.count("range"), len(rows(prof.event_table, "kernel")), prof.missing]))
""", tmp_path, BROKEN=fault)  # fmt: skip
    assert seen[:2] == [1, kernels]
    assert (reason is None and seen[2] == {}) or (reason or "") in seen[2].get("broken", "")


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("usable throws", "thrown by usable"),
        ("unusable without a reason", "gives no reason"),
        ("reason without an end", "x" * 511),
    ],
)
def test_a_device_that_is_not_usable(broken: Path, tmp_path: Path, fault: str, reason: str) -> None:
    seen = run(broken, """
warnings.simplefilter("ignore")
devices.register(path)
with profile(activities=both) as prof:
    pass
print(json.dumps(prof.missing["PrivateUse1"]))
""", tmp_path, BROKEN=fault)  # fmt: skip
    assert reason in seen and "x" * 512 not in seen


def test_invalid_values_are_left_out_and_counted(broken: Path, tmp_path: Path) -> None:
    seen = run(broken, """
warnings.simplefilter("ignore")
devices.register(path)
with profile(activities=both) as prof:
    with record_function("range"):
        pass
prof.export_chrome_trace("t.json"); prof.export_perfetto_trace("t.pftrace")
table = prof.event_table
json.load(open("t.json"))
print(json.dumps([table.names.count("good"), prof.missing["broken"], table.dropped,
                  [t.name for t in table.tracks if t.device_kind]]))
""", tmp_path, BROKEN="bad values")  # fmt: skip
    kernels, reasons, dropped, tracks = seen
    assert kernels == 1 and dropped["device"] == 11 + 3
    assert tracks == ["queue \ufffd three"]
    for part in (
        "activities without a begin, or that end before it (2 times)",
        "activities whose stamps lie outside of the collection (3 times)",
        "activities of an unknown kind (1 times)",
        "activities on an unknown place (1 times)",
        "activities with an unknown text (1 times)",
        "calls on a queue, or work on a thread (1 times)",
        "texts that are not JSON objects (2 times)",
        "a kind of activities without a name",
        "a problem of its own",
    ):
        assert part in reasons, part


def test_an_abandoned_profile_of_a_plug_in_that_throws(broken: Path, tmp_path: Path) -> None:
    seen = run(broken, """
devices.register(path)
prof = profile(activities=both); prof.start()
del prof
import gc; gc.collect()
print(json.dumps(1))
""", tmp_path, BROKEN="abandon throws")  # fmt: skip
    assert seen == 1
