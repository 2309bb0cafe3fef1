# SPDX-License-Identifier: Apache-2.0
"""Start the recording of a followed process: Python imports sitecustomize when it starts.

The folder of this file is first in PYTHONPATH (record/process_starts.py). Afterwards the next sitecustomize on the
path is imported, as if this one did not exist. No error here prevents the program from starting.
"""

import importlib
import os
import sys


def _record() -> None:
    folder = os.environ.get("FASTPROF_FOLLOW")
    if not folder or not os.path.exists(os.path.join(folder, "options.json")):
        return
    try:
        from fastprof.profiler.followed_process import record_executed

        record_executed(folder)
    except Exception as error:
        try:
            with open(os.path.join(folder, f"{os.getpid()}.note"), "a", encoding="utf-8") as note:
                text = (
                    f"not recorded, because fastprof cannot be imported in this process ({error!r})"
                )
                note.write(f"{' '.join(text.split())}; program: {sys.executable}\n")
        except OSError:
            pass  # the profile has ended


def _run_next() -> None:
    """Import the sitecustomize that this one hides. Raises ImportError, as without this one, if there is none."""
    own = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != own]
    sys.path_importer_cache.pop(own, None)
    sys.modules.pop("sitecustomize", None)
    importlib.import_module("sitecustomize")


_record()
_run_next()
