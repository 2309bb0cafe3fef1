# SPDX-License-Identifier: Apache-2.0
"""`fastprof live` of a process, of a script, and of what cannot be shown."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from processes import python
from recorder_programs import command, program

from fastprof.decode.sample_file import copied_samples, read_samples
from fastprof.flight_recorder.live_view import LiveReader
from fastprof.flight_recorder.recent_samples import SampleFollower
from fastprof.record.process_folder import find_processes

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="backing files are read on Linux")

LIVE = """
import os, sys, threading, time
from fastprof import flight_recorder, record_function
def work():  # for a second: 40 % load, 60 % train
    while True:
        with record_function("load"):
            time.sleep(0.02)
        with record_function("train"):
            time.sleep(0.03)
threading.Thread(target=work, name="worker", daemon=True).start()
with record_function("epoch"):
    flight_recorder.step()
    print(os.getpid(), flush=True)
    while True:
        with record_function("batch"):
            time.sleep(0.1)
        flight_recorder.step()
"""

SAMPLED = """
import os, threading
from fastprof import flight_recorder
flight_recorder.stop()
flight_recorder.start(seconds=1, sample_hz=500)
def wait(lock=threading.Lock()):
    with lock, lock:
        pass
names = {}
for number in range(20):
    exec(f"def spin_{number}():\\n for _ in range(20000): pass", names)
threading.Thread(target=wait, daemon=True).start()
print(os.getpid(), flush=True)
while True:
    for number in range(20):
        names[f"spin_{number}"]()
"""

SHORT = """
import builtins, os, sys, time
import fastprof
class EndsSlowly:  # after the recording has ended
    def __del__(self, sleep=time.sleep):
        sleep(1)
builtins.ends_slowly = EndsSlowly()
print("own output", sys.argv[1])
end = time.monotonic() + 120
while not os.path.exists(sys.argv[2]) and time.monotonic() < end:
    with fastprof.record_function("busy"):
        time.sleep(0.01)
"""


def test_live_shows_the_last_seconds(folder: Path) -> None:
    with program(LIVE) as process:
        time.sleep(2.5)
        view = json.loads(command("live", "--once", "--as-json", process.pid))
        text = command("live", "--once", process.pid)
        process.send_signal(signal.SIGSTOP)  # nothing of the process runs for it
        stopped = json.loads(command("live", "--once", "--as-json", process.pid))
        process.send_signal(signal.SIGCONT)
        reader = LiveReader(next(each for each in find_processes() if each.pid == process.pid))
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert not reader.look().alive  # though it has a pid until it is waited for
    assert stopped["alive"] and stopped["pid"] == process.pid
    assert 1.9 < view["seconds"] <= 2.0
    names = {each["name"]: each for each in view["names"]}
    both_s = names["load"]["self_s"] + names["train"]["self_s"]
    # Clipped to what is shown. The rest of the bounds hold if the machine stands still for half a second.
    assert 0.5 < both_s / view["seconds"] < 1.01
    assert 0.2 < names["load"]["self_s"] / both_s < 0.7
    threads = {each["name"]: each for each in view["threads"]}
    assert threads["worker"]["share"] > 0.5
    assert all(each["busy_s"] < 1.01 * view["seconds"] for each in view["threads"])
    assert 0 < len(view["steps"]) <= 20 and view["step_median_s"] >= 0.098
    assert view["step_count"] >= len(view["steps"])
    assert "train" in text and "steps" in text and f"pid {process.pid}" in text


def test_followed_samples_are_those_of_the_whole_file(folder: Path) -> None:
    """Over several halves of the file; read while it is written, and at last from a stopped process."""
    with program(SAMPLED) as process:
        (found,) = find_processes()
        follower = SampleFollower(found.records[-1])
        shown = [follower.functions(1e6, 50)]
        while shown[-1] == [] or sum(each["waiting_share"] for each in shown[-1]) == 0:
            time.sleep(0.1)
            shown.append(follower.functions(1e6, 50))
        time.sleep(3)
        follower.functions(1e6, 50)
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        followed = Counter()
        for segment, node, count, state in follower.recent(1e6):
            name = segment.codes[segment.nodes[node][1]][0] if node >= 0 else ""
            followed[name, state] += count
        whole = read_samples(copied_samples(found.records[-1]))
        expected = Counter()
        for node, count, state in zip(whole.node, whole.count, whole.state, strict=True):
            name = whole.codes[whole.code[node]][0] if node >= 0 else ""
            expected[name, int(state)] += int(count)
        view = json.loads(command("live", "--once", "--as-json", process.pid))
        text = command("live", "--once", process.pid)
    assert followed == expected and len(expected) > 3
    names = {each["name"].partition("_")[0] for each in view["functions"]}
    assert {"spin", "wait"} <= names and "wait (" in text and "ON CPU" in text


def test_live_of_a_script_and_of_what_cannot_be_shown(folder: Path, tmp_path: Path) -> None:
    script = tmp_path / "short.py"
    script.write_text(SHORT)
    seen, errors = tmp_path / "seen", tmp_path / "errors"
    words = ("-m", "fastprof", "live", "--as-json", "--interval", "0.2", script, "word", seen)
    with (
        errors.open("w") as file,
        subprocess.Popen(
            [sys.executable, *map(str, words)], stdout=subprocess.PIPE, stderr=file, text=True
        ) as live,
    ):
        assert live.stdout is not None
        for line in live.stdout:  # ends with the script, which ends when it has been seen
            if any(each["name"] == "busy" for each in json.loads(line)["names"]):
                seen.touch()
    assert live.returncode == 0 and seen.exists(), errors.read_text()
    assert "own output word" in errors.read_text() and "ended with status 0" in errors.read_text()
    for words, message in (
        (("live", script), "needs a terminal"),
        (("live", "--once", "no such"), "fastprof ps"),
        (("live", "--once", "--seconds", "0", script), "invalid --seconds"),
    ):
        refused = python("-m", "fastprof", *words)
        assert refused.returncode != 0 and message in refused.stderr


def test_the_screen_of_live(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("textual")
    import asyncio

    from fastprof.cli.live_screen import LiveScreen, LiveText

    monkeypatch.chdir(tmp_path)
    before = set(tmp_path.iterdir())

    def shown(screen: LiveScreen) -> str:
        text = screen.query_one(LiveText)
        return "\n".join(text.render_line(y).text for y in range(text.size.height))

    async def drive(pid: int) -> None:
        found = next(each for each in find_processes() if each.pid == pid)
        screen = LiveScreen(LiveReader(found), "server.py", 0.1)
        async with screen.run_test(size=(80, 24)) as pilot:
            for key, text in (("", "train"), ("t", "worker"), ("d", "wrote ")):
                await pilot.press(*key)
                for _ in range(600):
                    if text in shown(screen):
                        break
                    await pilot.pause(0.1)
                assert text in shown(screen)
                assert max(map(len, shown(screen).splitlines()[:20])) <= 80
            await pilot.press("q")

    with program(LIVE) as process:
        time.sleep(0.5)
        asyncio.run(drive(process.pid))
    (dump,) = set(tmp_path.iterdir()) - before
    assert "train" in command("report", dump)


def test_the_screen_is_left_as_it_was(folder: Path) -> None:
    """A terminal gets the first view before textual is imported, and its own screen back at the end."""
    pytest.importorskip("textual")
    import pty
    import select

    with program(LIVE) as process:
        child, terminal = pty.fork()
        if child == 0:
            os.environ["TERM"] = "xterm-256color"
            words = [sys.executable, "-m", "fastprof", "live", str(process.pid)]
            os.execv(sys.executable, words)
        printed = b""
        typed = False  # once: the terminal would echo what is typed after the screen is left
        end_s = time.monotonic() + 120
        while time.monotonic() < end_s:
            if select.select([terminal], [], [], 0.5)[0]:
                try:
                    printed += os.read(terminal, 65536)
                except OSError:  # it has ended
                    break
            elif not typed and b"train" in b"".join(printed.split(b"\x1b[?1049h")[2:]):
                typed = bool(os.write(terminal, b"q"))
        os.close(terminal)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, printed[-2000:]
    first, _, rest = printed.partition(b"\x1b[?1049h")[2].partition(b"\x1b[?1049h")
    assert b"worker" in first or b"train" in first
    assert rest.endswith(b"\x1b[?1049l")
