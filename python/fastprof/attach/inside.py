# SPDX-License-Identifier: Apache-2.0
"""The script that an attached process executes: it loads fastprof on a thread, and listens for requests.

It must run on every supported version, in any program, and import nothing of fastprof before it was found.
"""

from __future__ import annotations

from typing import Any


def begin(given: dict[str, str], text_page: int) -> None:
    """Start the thread.

    given: package, core, numpy: files and folders; version; socket; script: the path of this script; loading: that it
    gets now; problem: path of a text. text_page: address of the memory page that `tracer` mapped for the text of
    the code that runs this; 0: none.
    """
    import _thread
    import os

    try:
        os.rename(given["script"], given["loading"])
    except OSError:
        return  # the command has ended
    _thread.start_new_thread(_attach, (given, text_page))


def _attach(given: dict[str, str], text_page: int) -> None:
    import os

    try:
        _load(given)
        from fastprof.flight_recorder import attached

        try:
            os.unlink(given["loading"])
        except FileNotFoundError:
            return  # the command has ended
        attached.listen(given["socket"])
        if text_page:  # it was compiled long ago
            import ctypes

            unmap = ctypes.CDLL(None).munmap
            unmap(ctypes.c_void_p(text_page), ctypes.c_size_t(4096))
    except BaseException as error:
        import traceback

        text = "".join(traceback.format_exception(type(error), error, error.__traceback__)[-3:])
        try:
            with open(given["problem"] + ".part", "w", encoding="utf-8") as file:
                file.write(text)
            os.rename(given["problem"] + ".part", given["problem"])
        except OSError:
            pass  # the command has ended


def _load(given: dict[str, str]) -> None:
    import sys
    from importlib import import_module

    known: Any = sys.modules.get("fastprof")
    if known is not None:
        if known.__version__ != given["version"]:
            raise RuntimeError(
                f"the process has imported fastprof {known.__version__}, and the command is of {given['version']}"
            )
        return
    _load_numpy(given["numpy"])
    before = set(sys.modules)
    try:
        _load_file("fastprof", given["package"] + "/__init__.py", [given["package"]])
        _load_file("fastprof._core", given["core"], None)
        import_module("fastprof.flight_recorder.attached")
    except BaseException:
        for name in set(sys.modules) - before:
            if name.partition(".")[0] == "fastprof":
                del sys.modules[name]
        raise


def _load_numpy(folder: str) -> None:
    """Import NumPy, from the command's environment if the process has none."""
    import sys

    try:
        import numpy
    except ImportError:
        sys.path.append(folder)
        try:
            import numpy  # noqa: F401
        finally:
            sys.path.remove(folder)


def _load_file(name: str, path: str, folders: list[str] | None) -> None:
    import importlib.util
    import sys

    spec = importlib.util.spec_from_file_location(name, path, submodule_search_locations=folders)
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot load {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    parent, _, child = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], child, module)
