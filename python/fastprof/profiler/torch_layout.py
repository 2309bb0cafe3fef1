# SPDX-License-Identifier: Apache-2.0
"""Where the fields of at::RecordFunction lie in a torch that the table does not list: its headers are asked.

One small file is compiled against the headers that the torch package brings, once per torch: nothing
is linked or loaded, the offsets are read out of the object file. The answer is cached and, like the
table's, trusted only after the self-test.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

__all__ = ["FIELDS", "LayoutError", "layout_from_headers"]

# The members of torch_adapter::Layout, in its order.
_EXPRESSIONS = {
    "size": "sizeof(at::RecordFunction)",
    "thread_id": "offsetof(at::RecordFunction, step_callbacks_) + offsetof(at::StepCallbacks, thread_id_)",
    "scope": "offsetof(at::RecordFunction, step_callbacks_) + offsetof(at::StepCallbacks, scope_)",
    "sequence_nr": "offsetof(at::RecordFunction, sequence_nr_)",
    "forward_thread_id": "offsetof(at::RecordFunction, fwd_thread_id_)",
    "handle": "offsetof(at::RecordFunction, handle_)",
    "is_async": "offsetof(at::RecordFunction, is_async_)",
}

FIELDS = tuple(_EXPRESSIONS)

# What the adapter takes for granted in any version (CallbackView and ObserverContextView).
_CHECKS = """\
static_assert(sizeof(void*) == 8, "64 bits");
static_assert(sizeof(at::RecordFunctionCallback) == 40, "the callback has another size");
static_assert(offsetof(at::RecordFunctionCallback, start_) == 0, "the callback is laid out otherwise");
static_assert(offsetof(at::RecordFunctionCallback, end_) == 8, "the callback is laid out otherwise");
static_assert(offsetof(at::RecordFunctionCallback, sampling_prob_) == 16, "the callback is laid out otherwise");
static_assert(offsetof(at::RecordFunctionCallback, scopes_) == 24, "the callback is laid out otherwise");
static_assert(offsetof(at::RecordFunctionCallback, needs_inputs_) == 34, "the callback is laid out otherwise");
static_assert(offsetof(at::RecordFunctionCallback, needs_outputs_) == 35, "the callback is laid out otherwise");
static_assert(offsetof(at::RecordFunctionCallback, needs_ids_) == 36, "the callback is laid out otherwise");
static_assert(sizeof(at::ObserverContext) == 8, "an observer context has members");
static_assert(sizeof(at::RecordScope) == 1, "a scope has another size");
"""

_MARK = "fastprof torch layout:"
_COMPILE_LIMIT_S = 300


class LayoutError(Exception):
    """The headers could not be asked; the message says why and what to do."""


def layout_from_headers(torch: Any) -> list[int]:
    """The offsets in bytes, in the order of FIELDS; compiles once per torch, then reads the cache.

    Any thread; takes seconds the first time and says so on stderr. Raises LayoutError.
    """
    cache = _cache_path(torch)
    try:
        cached = json.loads(cache.read_text())["layout"]
        if [type(offset) for offset in cached] == [int] * len(FIELDS):
            return [int(offset) for offset in cached]
    except (OSError, ValueError, KeyError, TypeError):
        pass
    started_s = time.monotonic()
    layout = _compile(torch)
    kept = _store(cache, layout, str(torch.__version__))
    print(
        f"fastprof: read the layout of torch {torch.__version__} from its headers"
        f" ({time.monotonic() - started_s:.0f} s; {kept})",
        file=sys.stderr,
    )
    return layout


def _cache_path(torch: Any) -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    header = _include(torch) / "ATen" / "record_function.h"
    try:
        text = header.read_bytes()
    except OSError as error:
        raise LayoutError(f"its headers are not installed ({error})") from None
    identity = [torch.__version__, platform.machine(), _cxx11_abi(torch), _source(), text.hex()]
    digest = hashlib.sha256(repr(identity).encode()).hexdigest()[:16]
    return Path(base) / "fastprof" / f"torch-layout-{digest}.json"


def _store(cache: Path, layout: list[int], version: str) -> str:
    """Write the cache under a temporary name first; a folder that cannot be written is no error."""
    try:
        cache.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=cache.parent, prefix=cache.name)
        with os.fdopen(handle, "w") as file:
            json.dump({"torch": version, "layout": layout}, file)
        os.replace(name, cache)
    except OSError as error:
        return f"not kept: {error}"
    return f"kept in {cache}"


def _include(torch: Any) -> Path:
    place = getattr(torch, "__file__", None)
    if place is None:
        raise LayoutError("it does not say where its headers are: install an official build of it")
    return Path(place).resolve().parent / "include"


def _cxx11_abi(torch: Any) -> bool:
    return bool(getattr(getattr(torch, "_C", None), "_GLIBCXX_USE_CXX11_ABI", True))


def _source() -> str:
    numbers = ",\n".join(f"    {expression}" for expression in _EXPRESSIONS.values())
    return f"""\
#include <ATen/record_function.h>
#include <cstddef>
{_CHECKS}
constexpr std::size_t numbers[] = {{
{numbers}}};
constexpr std::size_t kCount = sizeof numbers / sizeof numbers[0];
// As text, so that it can be read out of an object file of any format.
struct Text {{
  char mark[{len(_MARK)}];
  char digits[kCount][8];
  char end;
}};
constexpr Text make_text() {{
  Text text{{}};
  const char mark[] = "{_MARK}";
  for (std::size_t i = 0; i < sizeof text.mark; ++i) text.mark[i] = mark[i];
  for (std::size_t n = 0; n < kCount; ++n) {{
    std::size_t rest = numbers[n];
    for (int digit = 7; digit > 0; --digit, rest /= 10)
      text.digits[n][digit] = static_cast<char>('0' + rest % 10);
    text.digits[n][0] = ' ';
  }}
  text.end = ';';
  return text;
}}
extern const Text fastprof_torch_layout;
const Text fastprof_torch_layout = make_text();
"""


def _compile(torch: Any) -> list[int]:
    named = os.environ.get("CXX")
    compiler = next(
        (c for c in ([named] if named else ["c++", "g++", "clang++"]) if shutil.which(c)), None
    )
    if compiler is None:
        raise LayoutError(
            f"no C++ compiler is there to ask its headers (looked for {named or 'c++, g++, clang++'}):"
            " install one, or set CXX"
        )
    include = _include(torch)
    with tempfile.TemporaryDirectory(prefix="fastprof-torch-") as folder:
        source, result = Path(folder, "layout.cpp"), Path(folder, "layout.o")
        source.write_text(_source())
        # The members are private; offsetof of a class that is no plain struct is what is wanted.
        command = [compiler, "-std=c++20", "-w", "-O0", "-DNDEBUG", "-fno-access-control", "-c"]
        command += [f"-D_GLIBCXX_USE_CXX11_ABI={int(_cxx11_abi(torch))}", f"-I{include}"]
        command += [f"-I{include / 'torch' / 'csrc' / 'api' / 'include'}"]
        try:
            done = subprocess.run(
                [*command, str(source), "-o", str(result)],
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_COMPILE_LIMIT_S,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise LayoutError(f"{compiler} could not be run on its headers ({error})") from None
        if done.returncode != 0:
            errors = [line for line in done.stderr.splitlines() if "error" in line]
            raise LayoutError(
                f"its headers do not have what is needed, or {compiler} does not take them:"
                f" {errors[0].strip() if errors else done.stderr.strip()[-200:]}"
            )
        found = re.search(re.escape(_MARK.encode()) + rb"((?: \d{7})+);", result.read_bytes())
    if found is None:
        raise LayoutError(f"the object file that {compiler} made does not hold the layout")
    return [int(number) for number in found.group(1).split()]
