# SPDX-License-Identifier: Apache-2.0
"""Import torch while a profile runs: no thread waits for the self-test where that could be a deadlock.

The torch of these tests is a package of two empty modules. Its self-test imports one of them, so it blocks while
a thread holds the import lock of torch. Each scenario runs in its own process with a time limit.
"""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
from processes import python

_SETUP = """
import importlib, sys, threading, time, warnings
warnings.simplefilter("ignore")
import fastprof
from fastprof.adapters.torch import ops as torch_ops
from fastprof.adapters.torch import proof as torch_proof

begun = []            # thread on which ops began to be observed
needs = ["torch.lazy"]  # what the self-test imports

def self_test(torch):
    for name in needs:
        importlib.import_module(name)
    return ""

def begin(observation, torch):
    if torch_proof.reason_against(torch, "ops") == "" and not begun:
        names = {thread.ident: thread.name for thread in threading.enumerate()}
        begun.append(names.get(threading.get_ident(), "unlisted thread"))

torch_ops._wrong_about_ops = self_test
torch_ops.Observation._begin = begin

def wait_until_begun():
    limit_s = time.monotonic() + 60
    while not begun and time.monotonic() < limit_s:
        time.sleep(0.005)
    return begun

def left():
    from fastprof.adapters import import_watch
    awaited = [c for c in import_watch._awaited.get("torch", []) if "TorchImport" in repr(c)]
    return awaited, sys.getprofile()
"""


@pytest.fixture
def run(tmp_path: Path):  # type: ignore[no-untyped-def]
    package = tmp_path / "torch"
    package.mkdir()
    (package / "__init__.py").write_text(
        "__version__ = '99.0'\nimport os\nif os.environ.get('FAIL'):\n    raise ImportError('no')\n"
        "exec(os.environ.get('INSIDE', ''))\n"
    )
    (package / "lazy.py").write_text("")
    (tmp_path / "outer.py").write_text(
        "import torch.lazy\nfrom __main__ import begun\nseen = list(begun)\n"
    )

    def program(code: str, **environment: str) -> str:
        words = ("-c", _SETUP + textwrap.dedent(code))
        done = python(*words, cwd=tmp_path, check=True, **environment)
        return done.stdout.strip()

    return program


@pytest.mark.parametrize(
    "statement", ["import torch", "import torch.lazy", "from torch import lazy"]
)
def test_ops_are_observed_when_the_import_returns(run, statement: str) -> None:  # type: ignore[no-untyped-def]
    code = f"""
        with fastprof.profile() as p:
            {statement}
            seen = list(begun)
            assert left() == ([], None)
        print(seen, p.missing)
    """
    assert run(code) == "['MainThread'] {}"


def test_on_another_thread(run) -> None:  # type: ignore[no-untyped-def]
    code = """
        seen = []
        def work():
            import torch
            seen.extend(begun)
        with fastprof.profile(record_shapes=True) as p:
            thread = threading.Thread(target=work, name="other")
            thread.start()
            thread.join()
        print(seen, p.missing)
    """
    # This torch has no headers: the test shows only that nothing hangs.
    assert run(code).startswith("['other']")


def test_inside_the_import_of_another_module(run) -> None:  # type: ignore[no-untyped-def]
    code = """
        with fastprof.profile() as p:
            import outer
        print(outer.seen, p.missing)
    """
    assert run(code) == "['MainThread'] {}"


def test_a_self_test_that_needs_the_module_being_imported(run) -> None:  # type: ignore[no-untyped-def]
    code = """
        needs.append("outer")
        with fastprof.profile() as p:
            import outer
            wait_until_begun()
        print(outer.seen, begun, "another module" in p.missing["torch_ops"])
    """
    assert run(code) == "[] ['unlisted thread'] True"


def test_a_profile_that_starts_inside_an_import(run) -> None:  # type: ignore[no-untyped-def]
    inside = "import fastprof; p = fastprof.profile(); p.start()"
    code = """
        import torch
        wait_until_begun()
        torch.p.stop()
        print(begun, "torch was being imported" in torch.p.missing["torch_ops"])
    """
    assert run(code, INSIDE=inside) == "['unlisted thread'] True"


def test_beside_a_profile_function_of_the_program(run) -> None:  # type: ignore[no-untyped-def]
    code = """
        def mine(frame, event, argument):
            pass
        with fastprof.profile() as p:
            sys.setprofile(mine)
            import torch
            assert sys.getprofile() is mine
            sys.setprofile(None)
            wait_until_begun()
        print(begun, list(p.missing))
    """
    assert run(code) == "['unlisted thread'] ['torch_ops']"


def test_an_import_that_fails(run) -> None:  # type: ignore[no-untyped-def]
    code = """
        import os
        with fastprof.profile() as p:
            try:
                import torch
            except ImportError:
                pass
            assert sys.getprofile() is None
            failed = list(begun)
            del os.environ["FAIL"]
            import torch
        print(failed, begun, left())
    """
    assert run(code, FAIL="1") == "[] ['MainThread'] ([], None)"


def test_a_profile_that_stops_before_the_self_test_has_finished(run) -> None:  # type: ignore[no-untyped-def]
    code = """
        needs.append("outer")
        open("outer.py", "w").write("import torch\\np.stop()")
        p = fastprof.profile()
        __builtins__.p = p
        p.start()
        import outer
        time.sleep(0.2)
        print(begun, left(), "torch_ops" in p.missing)
    """
    assert run(code) == "[] ([], None) True"
