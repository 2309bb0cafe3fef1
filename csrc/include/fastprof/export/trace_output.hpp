// SPDX-License-Identifier: Apache-2.0
// Runs a trace writer with a stream or an atomically replaced file as output. A Writer is
// constructible from (const Capture&, options, ByteBuffer&) and has write().
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "fastprof/base/config.hpp"
#include "fastprof/base/error.hpp"
#include "fastprof/capture/capture.hpp"
#include "fastprof/capture/validate.hpp"
#include "fastprof/export/byte_buffer.hpp"
#include "fastprof/export/trace_file.hpp"

FASTPROF_NAMESPACE_BEGIN

// Progress callback: called with the bytes written so far, every 4 MB, on the writing thread.
// Returning false cancels the write; no file is made. call: null for no callback.
struct TraceProgress {
  bool (*call)(void* state, uint64_t bytes) = nullptr;
  void* state = nullptr;
};

namespace trace_output {

// A TraceFile that reports progress.
struct ReportingFile {
  static constexpr uint64_t kStepBytes = 4 << 20;

  TraceFile file;
  TraceProgress progress;
  uint64_t bytes = 0;
  uint64_t reported_bytes = 0;

  static bool write(void* self, const char* data, size_t size) {
    auto* to = static_cast<ReportingFile*>(self);
    if (!to->file.write(data, size)) return false;
    to->bytes += size;
    if (to->progress.call == nullptr || to->bytes - to->reported_bytes < kStepBytes) return true;
    to->reported_bytes = to->bytes;
    if (to->progress.call(to->progress.state, to->bytes)) return true;
    to->file.cancel();
    return false;
  }
};

// Returns the number of bytes written. Raises ValueError if the capture's columns are inconsistent,
// IoError if the stream fails.
template <class Writer, class Options, class Stream>
uint64_t to_stream(const Capture& capture, Stream& stream, const Options& options) {
  validate_capture(capture);
  const WriteFunction write = [](void* state, const char* data, size_t size) {
    Stream& to = *static_cast<Stream*>(state);
    to.write(data, static_cast<std::ptrdiff_t>(size));
    return stream_is_good(to);
  };
  ByteBuffer out(write, &stream);
  Writer(capture, options, out).write();
  out.flush();
  if (!out.ok())
    raise<IoError>(
        "cannot write the trace: the output stream failed. Check its file and free space.");
  return out.bytes();
}

// Returns the size of the file in bytes. Raises as to_stream, ValueError for a path in .gz, and
// IoError if the file cannot be written; an existing file at `path` is then unchanged.
template <class Writer, class Options>
uint64_t to_file(const Capture& capture, const std::string& path, const Options& options) {
  constexpr std::string_view gzip = ".gz";
  if (path.size() > gzip.size() && path.substr(path.size() - gzip.size()) == gzip)
    raise<ValueError>("cannot write " + path +
                      ": C++ writes no gzip. Leave out .gz, and compress the file afterwards.");
  validate_capture(capture);
  ReportingFile reporting{TraceFile(path), options.progress};
  ByteBuffer out(&ReportingFile::write, &reporting);
  Writer(capture, options, out).write();
  out.flush();
  reporting.file.commit();
  return out.bytes();
}

}  // namespace trace_output
FASTPROF_NAMESPACE_END
