# SPDX-License-Identifier: Apache-2.0
"""profile(follow_children=True): every way to start a process, and the results."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from followed_programs import (
    check_links,
    check_order,
    environment,
    followed,
    pids_of,
    ranges,
    with_shards,
)
from processes import python

import fastprof
from fastprof.model.table import EventKind


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield from with_shards(tmp_path)


METHODS = """
import multiprocessing

def work(n):
    with record_function(f"work {n}"):
        pass
    if n == 1:
        child = multiprocessing.get_context("fork").Process(target=work, args=(10,))
        child.start()
        child.join()

if __name__ == "__main__":
    with fastprof.profile(follow_children=True) as prof:
        with record_function("around"):
            context = multiprocessing.get_context(METHOD)
            names = ["worker 0", "worker 1", "worker 2\\udcff"]  # the last one is not UTF-8
            children = [context.Process(target=work, args=(n,), name=names[n]) for n in range(3)]
            for child in children:
                child.start()
            for child in children:
                child.join()
    prof.export_chrome_trace(sys.argv[1] + ".chrome")
    prof.export_perfetto_trace(sys.argv[1] + ".pftrace")
    report(prof)
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing_and_children_of_children(folder: Path, method: str) -> None:
    result = followed(folder, METHODS.replace("METHOD", repr(method)))
    assert result["missing"] == {}
    for name in ("work 0", "work 1", "work 2", "work 10"):
        ((pid,),) = [tuple(pids_of(result, name))]
        assert pid != result["pid"]
        assert len(ranges(result, name)) == 1
    names = {process["name"] for process in result["processes"]}
    assert {"worker 0", "worker 1", "worker 2?"} <= names
    assert {"open_ranges": 0, "alive": True}.items() <= result["processes"][0].items()
    check_links(result)
    check_order(result)

    trace = json.loads((folder / "result.json.chrome").read_text())
    assert [p["pid"] for p in trace["processes"]] == [p["pid"] for p in result["processes"]]
    shown = [e for e in trace["traceEvents"] if e["ph"] == "M" and e["name"] == "process_name"]
    known = {p["pid"]: p["name"] for p in result["processes"]}
    assert {e["pid"]: e["args"]["name"] for e in shown} == known and len(shown) == len(known)
    slices = {(e["name"], e["pid"]) for e in trace["traceEvents"] if e["ph"] == "X"}
    assert slices == {(e[0], e[1]) for e in result["events"] if e[5] == EventKind.RANGE}
    starts = {e["id"]: e["pid"] for e in trace["traceEvents"] if e["ph"] == "s"}
    ends = [(e["id"], e["pid"]) for e in trace["traceEvents"] if e["ph"] == "f"]
    parents = {p["pid"]: p["parent_pid"] for p in result["processes"][1:]}
    assert {pid: starts[id] for id, pid in ends} == parents

    table = fastprof.load(folder / "result.json.pftrace")
    track = table.column("track").tolist()
    found = {(table.name(i), table.tracks[t].pid) for i, t in enumerate(track)}
    assert slices <= found


def test_fork_and_exit_at_once(folder: Path) -> None:
    result = followed(
        folder,
        """
        with fastprof.profile(follow_children=True) as prof:
            with record_function("around"):
                pid = os.fork()
                if pid == 0:
                    with record_function("in child", "told"):
                        fastprof.counter("count", 5)
                    os._exit(0)
                with record_function("in parent", "by the parent"):
                    os.waitpid(pid, 0)
        texts = {e.name: e.concrete_inputs for e in prof.events() if e.concrete_inputs}
        from fastprof.model.instants import instants
        counters = [e.value for e in instants(prof.event_table, [fastprof.EventKind.COUNTER])]
        report(prof, child=pid, texts=texts, counters=counters)
        """,
    )
    assert pids_of(result, "in child") == {result["child"]}
    assert result["texts"] == {"in child": ["told"], "in parent": ["by the parent"]}
    assert result["counters"] == [5]
    check_links(result)
    check_order(result)


def test_subprocesses(folder: Path) -> None:
    result = followed(
        folder,
        """
        code = "import fastprof\\nwith fastprof.record_function('in ' + __import__('sys').argv[1]): pass"
        here = os.path.dirname(os.path.dirname(fastprof.__file__))
        with fastprof.profile(follow_children=True) as prof:
            with record_function("around"):
                for name, options in {
                    "plain": {},
                    "other environment": {"env": {"PYTHONPATH": here}},
                    "preexec": {"preexec_fn": lambda: None},
                    "all descriptors": {"close_fds": False},
                }.items():
                    subprocess.run([sys.executable, "-c", code, name], check=True, timeout=100, **options)
                subprocess.run(["true"], check=True, timeout=100)
                text = subprocess.run(["sh", "-c", "echo $0 $1", "a", "b"], capture_output=True, timeout=100)
                assert os.system("true") == 0
                pid = os.posix_spawn(sys.executable, [sys.executable, "-c", code, "spawned"], os.environ)
                os.waitpid(pid, 0)
        report(prof, text=text.stdout.decode())
        """,
    )
    for name in ("plain", "other environment", "preexec", "all descriptors", "spawned"):
        assert len(ranges(result, f"in {name}")) == 1
    assert result["text"] == "a b\n"
    assert len(result["processes"]) == 6
    assert result["missing"] == {}
    check_links(result)
    check_order(result)


def test_a_forked_child_that_executes_python(folder: Path) -> None:
    result = followed(
        folder,
        """
        code = "import fastprof\\nwith fastprof.record_function('after'): pass"
        with fastprof.profile(follow_children=True) as prof:
            pid = os.fork()
            if pid == 0:
                with record_function("before"):
                    pass
                os.execv(sys.executable, [sys.executable, "-c", code])
            os.waitpid(pid, 0)
        report(prof, child=pid)
        """,
    )
    assert pids_of(result, "before") == pids_of(result, "after") == {result["child"]}


def test_python_calls_of_killed_children(folder: Path) -> None:
    result = followed(
        folder,
        """
        import multiprocessing

        def inner(n):
            return n + 1

        def dying(n):
            for i in range(n):
                inner(i)
            os.kill(os.getpid(), signal.SIGKILL)

        if __name__ == "__main__":
            with fastprof.profile(follow_children=True, python_calls=True) as prof:
                codes = []
                for method in ("fork", "spawn", "forkserver"):
                    child = multiprocessing.get_context(method).Process(target=dying, args=(1000,))
                    child.start()
                    child.join()
                    codes.append(child.exitcode)
            calls = {f.function: f.calls for f in prof.python_calls().functions}
            report(prof, calls=calls, codes=codes)
        """,
    )
    assert result["codes"] == [-9, -9, -9]
    assert result["calls"]["inner"] == 3000 and result["calls"]["dying"] == 3
    assert sum(e[0].endswith(": dying") and not e[4] for e in result["events"]) == 3


def test_profiles_of_a_child_still_work(folder: Path) -> None:
    result = followed(
        folder,
        """
        import warnings
        with fastprof.profile(follow_children=True) as prof:
            pid = os.fork()
            if pid == 0:
                with fastprof.profile() as own:
                    with record_function("in both"):
                        pass
                warnings.simplefilter("ignore")
                with fastprof.profile(follow_children=True) as inner:
                    grandchild = os.fork()
                    if grandchild == 0:
                        with record_function("grandchild"):
                            os._exit(0)
                    os.waitpid(grandchild, 0)
                names = [own.event_table.name(i) for i in range(len(own.event_table))]
                with open(sys.argv[1] + ".child", "w") as file:
                    json.dump([names, prof._recording is None, list(inner.missing)], file)
                os._exit(0)
            os.waitpid(pid, 0)
        report(prof)
        """,
    )
    names, _, missing = json.loads((folder / "result.json.child").read_text())
    assert names == ["in both"] and missing == ["follow_children"]
    assert len(ranges(result, "in both")) == 1 and len(ranges(result, "grandchild")) == 1


def test_without_it_children_are_not_touched(folder: Path) -> None:
    result = followed(
        folder,
        """
        with fastprof.profile() as prof:
            environment = dict(os.environ)
            pid = os.fork()
            if pid == 0:
                with record_function("child"):
                    os._exit(0)
            os.waitpid(pid, 0)
            code = "import sys; assert 'fastprof' not in sys.modules"
            subprocess.run([sys.executable, "-c", code], check=True, timeout=100)
        prof.event_table.metadata["processes"] = []
        report(
            prof,
            followed="FASTPROF_FOLLOW" in environment,
            loaded="fastprof.profiler.followed_process" in sys.modules,
        )
        """,
    )
    assert not ranges(result, "child")
    assert not result["followed"] and not result["loaded"]


def test_another_sitecustomize_runs(folder: Path) -> None:
    (folder / "site").mkdir()
    (folder / "site" / "sitecustomize.py").write_text(
        "import builtins\nbuiltins.customized = __file__\n"
    )
    result = followed(
        folder,
        f"""
        paths = [{str(folder / "site")!r}, *filter(None, [os.environ.get("PYTHONPATH")])]
        os.environ["PYTHONPATH"] = os.pathsep.join(paths)
        code = '''if True:
            import builtins, sys, sitecustomize, fastprof
            assert builtins.customized == sitecustomize.__file__, sitecustomize
            assert not any("startup" in entry for entry in sys.path), sys.path
            with fastprof.record_function("customized"): pass
        '''
        with fastprof.profile(follow_children=True) as prof:
            subprocess.run([sys.executable, "-c", code], check=True, timeout=100)
        report(prof)
        """,
    )
    assert len(ranges(result, "customized")) == 1


def test_run_follow(folder: Path) -> None:
    script = folder / "script.py"
    script.write_text(
        textwrap.dedent(
            """
            import multiprocessing
            def square(n):
                return n * n
            if __name__ == "__main__":
                with multiprocessing.get_context("fork").Pool(2) as pool:
                    print(sum(pool.map(square, range(100))))
                    pool.close()
                    pool.join()
            """
        )
    )
    trace = folder / "trace.json"
    words = ("run", "--follow", "--calls", "-o", trace, script)
    done = python("-m", "fastprof", *words, check=True, **environment(folder))
    assert done.stdout == "328350\n"
    assert "3 processes" in done.stderr
    events = json.loads(trace.read_text())["traceEvents"]
    squares = [e for e in events if e["ph"] == "X" and e["name"].endswith(": square")]
    assert len(squares) == 100
    whole = next(e for e in events if e["ph"] == "X" and e["name"] == str(script))
    assert whole["pid"] not in {e["pid"] for e in squares}


@pytest.mark.integrations
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_data_loader_workers(folder: Path, method: str) -> None:
    pytest.importorskip("torch")
    result = followed(
        folder,
        f"""
        import warnings
        warnings.simplefilter("ignore")
        import torch
        from torch.utils.data import DataLoader, Dataset

        class Items(Dataset):
            def __len__(self):
                return 32

            def __getitem__(self, i):
                with record_function("load item"):
                    return torch.ones(8, 8) @ torch.ones(8, 8)

        if __name__ == "__main__":
            with fastprof.profile(follow_children=True, record_shapes=True) as prof:
                with record_function("around"):
                    for batch in DataLoader(Items(), 4, num_workers=2, multiprocessing_context={method!r}):
                        batch.sum()
            shapes = [e.input_shapes for e in prof.events() if e.name == "aten::mm"]
            report(prof, shapes=shapes)
        """,
    )
    workers = pids_of(result, "load item")
    assert len(workers) == 2 and result["pid"] not in workers
    assert len(ranges(result, "load item")) == 32
    assert pids_of(result, "aten::mm") == workers
    assert result["shapes"] == [[[8, 8], [8, 8]]] * 32
    check_links(result)


@pytest.mark.integrations
def test_the_ranks_of_a_distributed_job(folder: Path) -> None:
    torch = pytest.importorskip("torch")
    if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
        pytest.skip("needs gloo")
    result = followed(
        folder,
        """
        import warnings
        warnings.simplefilter("ignore")
        import collections, torch
        import torch.distributed as dist
        import torch.multiprocessing as mp

        def rank(number, store):
            dist.init_process_group("gloo", f"file://{store}", rank=number, world_size=4)
            values = torch.ones(4)
            for _ in range(3):
                dist.all_reduce(values)
            assert values[0] == 4**3
            dist.destroy_process_group()

        if __name__ == "__main__":
            with fastprof.profile(follow_children=True) as prof:
                mp.spawn(rank, args=(os.path.abspath("store"),), nprocs=4)
            table = prof.event_table
            pids = [table.tracks[track].pid for track in table.column("track").tolist()]
            reduced = collections.Counter(
                pid for row, pid in enumerate(pids) if table.name(row) == "c10d::allreduce_"
            )
            report(prof, reduced=sorted(reduced.values()))
        """,
    )
    assert result["reduced"] == [3, 3, 3, 3] and result["missing"] == {}
