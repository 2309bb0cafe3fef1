// SPDX-License-Identifier: Apache-2.0
// Writes traces of hand-made captures for tests of their readers: make_trace FOLDER COUNT
// For the rich capture and COUNT random ones: NAME.json, NAME.pftrace and NAME.rows.json, the
// columns that both must tell.
#include <cstdlib>
#include <fstream>
#include <string>

#include "../unit/rich_capture.hpp"
#include "fastprof/export/chrome_trace.hpp"
#include "fastprof/export/perfetto_trace.hpp"

using namespace fastprof;

static void write_rows(const Capture& capture, const std::string& path) {
  std::string text = "[";
  for (size_t row = 0; row < capture.size(); ++row) {
    const SiteInfo& site = capture.sites[capture.site[row]];
    text += row == 0 ? "\n{" : ",\n{";
    text += "\"kind\": " + std::to_string(static_cast<int>(capture.kind[row]));
    text += ", \"start\": " + std::to_string(capture.start_ns[row]);
    text += ", \"end\": " + std::to_string(capture.end_ns[row]);
    text += ", \"track\": " + std::to_string(capture.track[row]);
    text += ", \"parent\": " + std::to_string(capture.parent[row]);
    text += ", \"flags\": " + std::to_string(capture.flags[row]);
    text += ", \"payload\": " + std::string(capture.payload[row] == kNoPayload ? "false" : "true");
    text += ", \"name\": ";
    append_json_string(text, site.name);
    text += ", \"category\": ";
    append_json_string(text, site.category);
    text += "}";
  }
  std::ofstream(path) << text << "\n]\n";
}

static void write_all(const Capture& capture, const std::string& stem) {
  write_rows(capture, stem + ".rows.json");
  write_chrome_trace(capture, stem + ".json");
  write_perfetto_trace(capture, stem + ".pftrace");
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::string folder = argv[1];
  write_all(fastprof_test::rich_capture(), folder + "/rich");
  for (int i = 0; i < std::atoi(argv[2]); ++i) {
    write_all(fastprof_test::random_capture(static_cast<uint64_t>(i), 80),
              folder + "/random" + std::to_string(i));
  }
  return 0;
}
