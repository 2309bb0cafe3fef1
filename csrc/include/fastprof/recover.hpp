// SPDX-License-Identifier: Apache-2.0
// Reading the records of a process that was killed, from the backing file of its session.
//
//   fastprof::SessionOptions options;
//   options.backing_file = fastprof::make_private_folder() + "/records";
//   fastprof::Session session(options);
//   session.start();  // a kill from here on loses only what was not finished
//
//   // in another process:
//   const fastprof::Recovered found = fastprof::recover(path);
#pragma once

// Hide the user's macros min and max from the headers below, the standard ones among them.
#pragma push_macro("min")
#pragma push_macro("max")
#undef min
#undef max

#include "fastprof/session/copy_backing_file.hpp"
#include "fastprof/session/private_folder.hpp"
#include "fastprof/session/recover.hpp"

#pragma pop_macro("min")
#pragma pop_macro("max")
