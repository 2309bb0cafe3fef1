// SPDX-License-Identifier: Apache-2.0
// Ownership of Objective-C objects in C++ members, for files that are compiled with automatic
// reference counting and without: with it, members retain by themselves.
#pragma once

#if __has_feature(objc_arc)
#define FASTPROF_RETAINED(object) (object)
#define FASTPROF_RELEASE(object) ((void)((object) = nil))
#define FASTPROF_AUTORELEASED(object) (object)
#else
#define FASTPROF_RETAINED(object) [(object) retain]
#define FASTPROF_RELEASE(object) ([(object) release], (void)((object) = nil))
#define FASTPROF_AUTORELEASED(object) [(object) autorelease]
#endif
