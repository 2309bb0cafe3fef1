// SPDX-License-Identifier: Apache-2.0
// Options of the Metal profiler: bit values, what they imply, what is refused, the environment;
// names and sizes in its lines.
#include <cstdlib>
#include <initializer_list>
#include <string>
#include <utility>

#include "check.hpp"
#include "fastprof/metal/options.hpp"
#include "fastprof/metal/texts.hpp"
#include "text_checks.hpp"

namespace {

namespace metal = fastprof::metal;
using fastprof::ValueError;
using text_checks::message_of;

void set(std::initializer_list<std::pair<const char*, const char*>> values) {
  for (const char* name : {"FASTPROF_METAL_TRACE_SIGNPOSTS", "FASTPROF_METAL_LOG_PROFILE_INFO",
                           "PYTORCH_MPS_TRACE_SIGNPOSTS", "PYTORCH_MPS_LOG_PROFILE_INFO"})
    unsetenv(name);
  for (const auto& [name, value] : values) setenv(name, value, 1);
}

}  // namespace

TEST(options_imply_others) {
  const auto resolve = [](uint32_t profile, uint32_t signposts, uint32_t log) {
    return metal::resolve_options({profile, signposts, log}, "a test");
  };
  constexpr uint32_t types = metal::RUN_OPERATION | metal::BLIT_COPY | metal::CPU_FALLBACK;

  const metal::Options events = resolve(metal::ALL_SIGNPOST_EVENTS, 0, 0);
  CHECK_EQ(events.profile, uint32_t{metal::ALL_SIGNPOST_EVENTS | metal::USE_EVENTS});
  CHECK_EQ(events.signposts, types);
  CHECK_EQ(events.log, uint32_t{metal::INCLUDE_GPU_TIME});

  const metal::Options intervals = resolve(metal::ALL_SIGNPOST_INTERVALS, metal::BLIT_COPY, 0);
  CHECK_EQ(intervals.profile, uint32_t{metal::ALL_SIGNPOST_INTERVALS | metal::USE_INTERVALS});
  CHECK_EQ(intervals.signposts, types);
  CHECK_EQ(intervals.log, 0u);

  const metal::Options scheduled = resolve(metal::INCLUDE_SCHEDULE_INTERVAL, 0, 0);
  CHECK_EQ(scheduled.profile, uint32_t{metal::INCLUDE_SCHEDULE_INTERVAL |
                                       metal::ALL_SIGNPOST_INTERVALS | metal::USE_INTERVALS});
  CHECK_EQ(scheduled.signposts, types);

  // With types, an interval that includes scheduling brings no others.
  const metal::Options chosen =
      resolve(metal::INCLUDE_SCHEDULE_INTERVAL | metal::USE_INTERVALS, metal::BLIT_COPY, 0);
  CHECK_EQ(chosen.profile, uint32_t{metal::INCLUDE_SCHEDULE_INTERVAL | metal::USE_INTERVALS});
  CHECK_EQ(chosen.signposts, uint32_t{metal::BLIT_COPY});

  const metal::Options one = resolve(0, metal::BLIT_COPY, 0);
  CHECK_EQ(one.profile, uint32_t{metal::USE_INTERVALS});
  CHECK_EQ(one.signposts, uint32_t{metal::BLIT_COPY});

  CHECK_EQ(resolve(0, 0, metal::ALL_STATS).log,
           uint32_t{metal::ALL_STATS | metal::OPERATION_STATS | metal::COPY_STATS |
                    metal::CPU_FALLBACK_STATS});
  CHECK_EQ(resolve(0, 0, 0).profile, 0u);
}

TEST(modes) {
  CHECK_EQ(metal::parse_mode("interval"), uint32_t{metal::ALL_SIGNPOST_INTERVALS});
  CHECK_EQ(metal::parse_mode("event"), uint32_t{metal::ALL_SIGNPOST_EVENTS});
  CHECK_EQ(metal::parse_mode("interval, event,"), 3u);
  CHECK_EQ(metal::parse_mode("event,interval"), 3u);
  CHECK_EQ(metal::parse_mode(",,\t interval \t,, event  ,"), 3u);
  CHECK_EQ(message_of<ValueError>([] { metal::parse_mode("interval,events"); }),
           std::string("invalid signpost trace mode 'events': use interval, event, or "
                       "interval,event"));
  CHECK_EQ(message_of<ValueError>([] { metal::parse_mode(","); }),
           std::string("the signpost trace mode is empty: use interval, event, or "
                       "interval,event"));
}

TEST(environment) {
  set({});
  CHECK_EQ(metal::options_of_environment().profile, 0u);
  CHECK_EQ(metal::options_of_environment().log, 0u);

  set({{"PYTORCH_MPS_TRACE_SIGNPOSTS", "0x20010"}, {"PYTORCH_MPS_LOG_PROFILE_INFO", "129"}});
  metal::Options options = metal::options_of_environment();
  CHECK_EQ(options.profile, uint32_t{metal::USE_INTERVALS});
  CHECK_EQ(options.signposts, uint32_t{metal::BLIT_COPY});
  CHECK_EQ(options.log, uint32_t{metal::OPERATION_INFO | metal::INCLUDE_GPU_TIME});

  set({{"PYTORCH_MPS_TRACE_SIGNPOSTS", "0x20010"},
       {"FASTPROF_METAL_TRACE_SIGNPOSTS", "USE_EVENTS, RUN_OPERATION"},
       {"FASTPROF_METAL_LOG_PROFILE_INFO", "COPY_STATS|INCLUDE_BUFFER_ID"}});
  options = metal::options_of_environment();
  CHECK_EQ(options.profile, uint32_t{metal::USE_EVENTS});
  CHECK_EQ(options.signposts, uint32_t{metal::RUN_OPERATION});
  CHECK_EQ(options.log,
           uint32_t{metal::COPY_STATS | metal::INCLUDE_BUFFER_ID | metal::INCLUDE_GPU_TIME});

  set({{"PYTORCH_MPS_LOG_PROFILE_INFO", "2048"}});
  CHECK_EQ(message_of<ValueError>([] { metal::options_of_environment(); }),
           std::string("invalid log options 2048 in PYTORCH_MPS_LOG_PROFILE_INFO: use bits 0 to 9 "
                       "(LogOptions)"));
  set({{"PYTORCH_MPS_TRACE_SIGNPOSTS", "0x80001"}});
  CHECK_EQ(message_of<ValueError>([] { metal::options_of_environment(); }),
           std::string("invalid signpost types 524288 in PYTORCH_MPS_TRACE_SIGNPOSTS: use bits 16 "
                       "to 18 (SignpostTypes)"));
  set({{"FASTPROF_METAL_LOG_PROFILE_INFO", "COPY_STAT"}});
  CHECK_EQ(message_of<ValueError>([] { metal::options_of_environment(); }),
           std::string("invalid option 'COPY_STAT' in FASTPROF_METAL_LOG_PROFILE_INFO: use a "
                       "number, or names joined by ','"));
  set({{"FASTPROF_METAL_TRACE_SIGNPOSTS", ""}, {"PYTORCH_MPS_TRACE_SIGNPOSTS", "0x20010"}});
  CHECK_EQ(metal::options_of_environment().signposts, 0u);  // set, to nothing
  set({{"FASTPROF_METAL_LOG_PROFILE_INFO", "0xffffffff"}});
  CHECK_EQ(message_of<ValueError>([] { metal::options_of_environment(); }),
           std::string("invalid log options 4294967295 in FASTPROF_METAL_LOG_PROFILE_INFO: use "
                       "bits 0 to 9 (LogOptions)"));
  set({{"FASTPROF_METAL_LOG_PROFILE_INFO", "-1"}});
  CHECK_THROWS(ValueError, metal::options_of_environment());
  set({{"FASTPROF_METAL_LOG_PROFILE_INFO", "0x100000000"}});
  CHECK_THROWS(ValueError, metal::options_of_environment());
  set({});
}

TEST(types_and_sizes_have_the_names_of_pytorch) {
  using fastprof::DType;
  const std::pair<DType, const char*> names[] = {{DType::uint8, "Byte"},
                                                 {DType::int8, "Char"},
                                                 {DType::int16, "Short"},
                                                 {DType::int32, "Int"},
                                                 {DType::int64, "Long"},
                                                 {DType::float16, "Half"},
                                                 {DType::float32, "Float"},
                                                 {DType::float64, "Double"},
                                                 {DType::complex32, "ComplexHalf"},
                                                 {DType::complex64, "ComplexFloat"},
                                                 {DType::complex128, "ComplexDouble"},
                                                 {DType::boolean, "Bool"},
                                                 {DType::bfloat16, "BFloat16"},
                                                 {DType::uint16, "UInt16"},
                                                 {DType::uint32, "UInt32"},
                                                 {DType::uint64, "UInt64"}};
  for (const auto& [type, name] : names) CHECK_EQ(metal::scalar_type_name(type), std::string(name));
  const std::pair<uint64_t, const char*> sizes[] = {{17, "17 bytes"},
                                                    {1024, "1024 bytes"},
                                                    {1536, "1.50 KB"},
                                                    {3 << 20, "3.00 MB"},
                                                    {uint64_t{9} << 28, "2.25 GB"}};
  for (const auto& [size, text] : sizes) CHECK_EQ(metal::size_text(size), std::string(text));
}
