# SPDX-License-Identifier: Apache-2.0
"""What annotate.hpp and session.hpp cost whoever includes them: lines, code, headers, and a clean compile.

Times are measured by benchmarks/compile_time; what decides them, the lines and the headers, is held here.
"""

from __future__ import annotations

import string
import sys
from pathlib import Path

import pytest
from compilers import EITHER_COMPILER, INCLUDE, LIBRARIES, ROOT, STRICT, need, run, standard_flag

sys.path.insert(0, str(ROOT / "benchmarks" / "compile_time"))
from compile_time import WHOLE_PROGRAM, code_bytes, functions, preprocessed_lines

pytestmark = pytest.mark.compilers

RANGE = 'FASTPROF_RANGE("r#");'
ANNOTATE = "#include <fastprof/annotate.hpp>\n"
# A line or two of everything, so that templates are instantiated too.
USES = """
#include <string>
inline int use(int x) {
  FASTPROF_FUNCTION();
  FASTPROF_RANGE("range");
  FASTPROF_RANGE_IN(fastprof::category::custom0, "custom");
  FASTPROF_RANGE_DYNAMIC(std::string("dynamic"));
  FASTPROF_RANGE_ARGS("arguments", "x", x, "text", "y", "d", 2.5);
  FASTPROF_RECORD_FUNCTION("operator", fastprof::inputs(x, 2.0, "three"), fastprof::kwinputs({{"dim", 1}}),
                           fastprof::sequence_number(7));
  FASTPROF_RECORD_OUTPUTS(x);
  FASTPROF_MARK("mark");
  FASTPROF_COUNTER("counter", x);
  FASTPROF_FLOW_BEGIN(1);
  FASTPROF_FLOW_END(1);
  fastprof::AsyncHandle handle = FASTPROF_ASYNC_BEGIN("async");
  FASTPROF_ASYNC_END(handle);
  fastprof::report_memory_usage(&x, 8, 0, 0, {fastprof::DeviceType::CPU, -1});
  return x;
}
int main() { return use(0); }
"""
SESSION_USES = """
#include <memory>
struct Note : fastprof::DebugInfoBase { int value = 0; };
struct Context : fastprof::ObserverContext { int value = 0; };
static std::unique_ptr<fastprof::ObserverContext> started(const fastprof::RecordFunction&) {
  return std::make_unique<Context>();
}
int main() {
  fastprof::add_global_callback(fastprof::RecordFunctionCallback(started));
  const fastprof::DebugInfoGuard guard(fastprof::DebugInfoKind::TEST_INFO, std::make_shared<Note>());
  fastprof::Session session;
  session.start();
  { FASTPROF_RANGE("range"); }
  session.stop();
  return session.capture().size() == 1 ? 0 : 1;
}
"""


def source_file(folder: Path, text: str) -> Path:
    path = folder / "file.cpp"
    path.write_text(text)
    return path


def included(compiler: str, source: Path) -> set[str]:
    """Return the names of all headers that the file includes."""
    output = run([need(compiler), "-std=c++17", f"-I{INCLUDE}", "-M", source])
    return {Path(word).name for word in output.split()}


def syntax(compiler: str, source: Path, *arguments: str) -> None:
    """Compile without code: strict, and a failure shows what the compiler said."""
    run([need(compiler), standard_flag(compiler, "c++17"), *STRICT, "-Wattributes", f"-I{INCLUDE}", "-fsyntax-only",
         *arguments, source])  # fmt: skip


@EITHER_COMPILER
def test_lines_of_an_annotated_file(tmp_path: Path, compiler: str) -> None:
    source = source_file(tmp_path, ANNOTATE + functions(1, RANGE))
    assert preprocessed_lines(need(compiler), source) <= 20_000


@EITHER_COMPILER
def test_code_of_an_annotated_file(tmp_path: Path, compiler: str) -> None:
    """4 kB for the first range of a file, most of it shared by all files of a binary; then 250 bytes for each."""
    size = {}
    for count in (1, 11):
        source = source_file(tmp_path, ANNOTATE + functions(count, RANGE))
        output = tmp_path / "file.o"
        run([need(compiler), "-std=c++17", "-O2", f"-I{INCLUDE}", "-c", source, "-o", output])
        size[count] = code_bytes(output)
    assert 0 < size[1] <= 4096
    assert 0 < (size[11] - size[1]) / 10 <= 250


@EITHER_COMPILER
def test_no_heavy_header_is_dragged_in(tmp_path: Path, compiler: str) -> None:
    source = source_file(tmp_path, ANNOTATE + functions(1, RANGE))
    heavy = {
        "x86intrin.h", "immintrin.h", "emmintrin.h", "functional", "memory", "unordered_map", "map", "mutex",
        "iostream", "ostream", "fstream", "sstream", "chrono", "optional", "variant", "tuple", "algorithm", "regex",
    }  # fmt: skip
    names = included(compiler, source)
    assert "annotate.hpp" in names  # the list is not empty
    brought = names - included(
        compiler, source_file(tmp_path, "#include <atomic>\n#include <string>\n")
    )
    assert brought & heavy == set()


@EITHER_COMPILER
def test_a_session_without_the_writers(tmp_path: Path, compiler: str) -> None:
    """Each part can be included by itself, and what is missing is named by the compiler."""
    headers = included(compiler, source_file(tmp_path, "#include <fastprof/session.hpp>\n"))
    assert "session.hpp" in headers
    assert headers.isdisjoint(
        {"chrome_trace.hpp", "perfetto_trace.hpp", "summary.hpp", "legacy_profiler.hpp"}
    )
    use = "int main() { const fastprof::Session session; %s; }\n"
    for header, call in (
        ("summary", "(void)session.summary()"),
        ("chrome_trace", 'session.write_chrome_trace("a")'),
        ("perfetto_trace", 'session.write_perfetto_trace("a")'),
    ):
        first, body = "#include <fastprof/session.hpp>\n", use % call
        syntax(compiler, source_file(tmp_path, f"{first}#include <fastprof/{header}.hpp>\n{body}"))
        with pytest.raises(pytest.fail.Exception, match=f"#include <fastprof/{header}.hpp>"):
            syntax(compiler, source_file(tmp_path, first + body))


@EITHER_COMPILER
def test_a_program_that_compiles_session_once(tmp_path: Path, compiler: str) -> None:
    """FASTPROF_SEPARATE: files that use a Session contain none of it, and do not link without definitions.cpp."""
    source = source_file(tmp_path, WHOLE_PROGRAM)
    flags = [need(compiler), "-std=c++17", "-O2", "-DFASTPROF_SEPARATE", f"-I{INCLUDE}"]
    run([*flags, *STRICT, "-c", source, "-o", tmp_path / "file.o"])
    assert 0 < code_bytes(tmp_path / "file.o") <= 10_000  # 440 kB otherwise
    brought = {Path(word).name for word in run([*flags, "-M", source]).split()}
    assert "session.hpp" in brought
    assert brought.isdisjoint(
        {"drain.hpp", "spill.hpp", "summarise.hpp", "session_definitions.hpp"}
    )
    observer = source_file(tmp_path, f"#include <fastprof/fastprof.hpp>\n{SESSION_USES}")
    run([*flags, "-c", observer, "-o", tmp_path / "observer.o"])
    for part in ("file.o", "observer.o"):
        with pytest.raises(pytest.fail.Exception, match=r"hidden symbol|undefined"):
            run([need(compiler), tmp_path / part, "-o", tmp_path / "program", *LIBRARIES])


# What people define before they include a header: letters of an old style, and what windows.h and loggers define.
NAMES = [*string.ascii_uppercase, "ERROR", "CHECK", "LOG", "ASSERT", "DEBUG", "INFO"]


@pytest.mark.parametrize("header", ["annotate.hpp", "fastprof.hpp"])
@EITHER_COMPILER
def test_macros_of_the_user_with_short_names(tmp_path: Path, compiler: str, header: str) -> None:
    standard = "".join(
        f"#include <{h}>\n" for h in ("algorithm", "limits", "string", "vector", "memory")
    )
    macros = "".join(f"#define {name} 1\n" for name in NAMES)
    macros += (
        "#define min(a, b) ((a) < (b) ? (a) : (b))\n#define max(a, b) ((a) > (b) ? (a) : (b))\n"
    )
    uses = USES if header == "annotate.hpp" else SESSION_USES
    text = f"{standard}{macros}#include <fastprof/{header}>\n{uses}"
    syntax(compiler, source_file(tmp_path, text))
    syntax(
        compiler,
        source_file(tmp_path, f"#include <fastprof/{header}>\n{uses}"),
        *(f"-D{n}=1" for n in NAMES),
    )


@pytest.mark.parametrize("visibility", ["default", "hidden"])
@pytest.mark.parametrize("header", ["annotate.hpp", "session.hpp"])
@EITHER_COMPILER
def test_no_warning_for_the_first_class_of_a_user(
    tmp_path: Path, compiler: str, header: str, visibility: str
) -> None:
    uses = USES if header == "annotate.hpp" else SESSION_USES
    source = source_file(tmp_path, f"#include <fastprof/{header}>\n{uses}")
    syntax(compiler, source, f"-fvisibility={visibility}")
    if visibility == "hidden":
        return
    # The same as code: some warnings come from the optimiser.
    run([need(compiler), "-std=c++17", "-O2", *STRICT, "-Wattributes", f"-fvisibility={visibility}", f"-I{INCLUDE}",
         "-c", source, "-o", tmp_path / "file.o"])  # fmt: skip
