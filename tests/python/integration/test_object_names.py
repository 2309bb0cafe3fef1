# SPDX-License-Identifier: Apache-2.0
"""Names that a program gives to CUDA's objects by the genuine NVTX headers, on the tracks of their work."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from annotation_doubles import build, nvtx_headers
from cuda_double import build_driver_double, build_torch_streams, run
from needs import NEEDS_CUPTI_HEADERS

import fastprof
from fastprof import _paths

pytestmark = [
    pytest.mark.integrations,
    NEEDS_CUPTI_HEADERS,
    pytest.mark.skipif(not nvtx_headers(), reason="NVIDIA's headers of NVTX are not here"),
]

_HEAD = """
driver = ctypes.CDLL(os.environ["DRIVER"])  # as a program that uses CUDA has loaded it
client = ctypes.CDLL(os.environ["CLIENT"])
def tracks(table):
    return {f"{t.pid}.{t.tid}": t.name for t in table.tracks if t.name.startswith("stream")}
"""


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("names")
    return {
        "CLIENT": str(build("nvtx/cuda_client.cpp", folder / "cuda_client.so")),
        "DRIVER": str(build_driver_double(folder)),
        "NVTX_INJECTION64_PATH": str(_paths.injection_library()),
    }


def test_streams_contexts_and_devices_have_their_names(
    double: Path, tmp_path: Path, programs: dict[str, str]
) -> None:
    seen = run(double, _HEAD + """
client.name_objects()  # before the first profile
with profile(activities=both) as prof:
    for stream in (8, 9, 10, 11, 12, 13, 14):
        launch(stream=stream)
    for device in (1, 2, 3, 4, 5, 6):
        launch(device=device, stream=7)
prof.export_chrome_trace("t.json"); prof.export_perfetto_trace("t.pftrace")
fastprof.save(prof.event_table, "t.fastprof")
print(json.dumps(tracks(prof.event_table)))
""", tmp_path, **programs)  # fmt: skip
    assert seen == {
        "0.8": "stream 8", "0.9": "stream 9 (decode)", "0.10": "stream 10 (caf\u00e9)",
        "0.11": "stream 11 (by the driver)", "0.12": "stream 12 (by the driver, wide)",
        "0.13": "stream 13 (a resource)", "0.14": "stream 14 (the driver's resource)",
        "1.7": "stream 7 (context trainer, device left card)", "2.7": "stream 7 (device wide card)",
        "3.7": "stream 7 (device driver's card)", "4.7": "stream 7 (device driver's wide card)",
        "5.7": "stream 7 (context loader)", "6.7": "stream 7 (device resource card)",
    }  # fmt: skip
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    named = {e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert set(seen.values()) <= named
    for file in ("t.pftrace", "t.fastprof"):
        table = fastprof.load(str(tmp_path / file))
        assert set(seen.values()) <= {track.name for track in table.tracks}


def test_names_come_and_go_with_streams(
    double: Path, tmp_path: Path, programs: dict[str, str]
) -> None:
    """A name of the middle of a profile counts, nested profiles see it, and a later name replaces it."""
    seen = run(double, _HEAD + """
fastprof.receive_nvtx()
with profile(activities=both) as outer:
    launch(stream=9)
    client.name_stream(0, 9, b"first")
    with profile(activities=both) as inner:
        launch(stream=9)
    threads = [threading.Thread(target=client.name_stream, args=(0, 20 + i, b"of a thread")) for i in range(8)]
    [t.start() for t in threads]; [t.join() for t in threads]
    launch(stream=27)
client.name_stream(0, 9, b"second")
with profile(activities=both) as later:
    launch(stream=9)
print(json.dumps([tracks(p.event_table) for p in (outer, inner, later)]))
""", tmp_path, **programs)  # fmt: skip
    assert seen == [
        {"0.9": "stream 9 (first)", "0.27": "stream 27 (of a thread)"},
        {"0.9": "stream 9 (first)"},
        {"0.9": "stream 9 (second)"},
    ]


def test_a_forked_child_may_name_and_does_not_touch_cupti(
    double: Path, tmp_path: Path, programs: dict[str, str]
) -> None:
    seen = run(double, _HEAD + """
client.name_stream(0, 9, b"of the parent")
child = os.fork()
if child == 0:
    client.name_stream(0, 9, b"of the child")
    os._exit(0)
status = os.waitpid(child, 0)[1]
with profile(activities=both) as prof:
    launch(stream=9)
print(json.dumps([status, tracks(prof.event_table)]))
""", tmp_path, **programs)  # fmt: skip
    assert seen == [0, {"0.9": "stream 9 (of the parent)"}]


def test_streams_timed_by_events_have_their_names(
    double: Path, runtime_double: Path, tmp_path: Path, programs: dict[str, str]
) -> None:
    stream = 1 << 24 | 9
    seen = run(double, _HEAD + f"""
import warnings
warnings.simplefilter("ignore")
streams = ctypes.CDLL(os.environ["STREAMS"])
cuda = ctypes.CDLL(os.environ["FASTPROF_CUDART_LIBRARY"])
client.name_stream(0, 9, b"decode")
streams.fake_set_current_stream(0, ctypes.c_int64({stream}))
with profile(activities=both) as prof:
    with record_function("range"):
        cuda.fake_cudart_work(ctypes.c_void_p({stream}), ctypes.c_int64(3000000))
print(json.dumps(sorted(tracks(prof.event_table).values())))
""", tmp_path, **programs, FAKE_CUPTI_FAIL="cuptiSubscribe=39",
        FASTPROF_CUDART_LIBRARY=str(runtime_double), STREAMS=str(build_torch_streams(tmp_path)))  # fmt: skip
    assert seen == ["stream 1 (by events) (decode)"]
