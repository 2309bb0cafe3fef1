// SPDX-License-Identifier: Apache-2.0
// Files of Objective-C++ that clang compiles for GCC's runtime name its personality function, which
// knows no types of C++: a catch finds nothing, and the program is terminated. No file of ours
// uses @try, so that C++'s own function serves.
#include <unwind.h>

extern "C" {
_Unwind_Reason_Code __gxx_personality_v0(int, _Unwind_Action, _Unwind_Exception_Class,
                                         struct _Unwind_Exception*, struct _Unwind_Context*);
__attribute__((visibility("hidden"))) _Unwind_Reason_Code __gnu_objc_personality_v0(
    int version, _Unwind_Action actions, _Unwind_Exception_Class exception_class,
    struct _Unwind_Exception* exception, struct _Unwind_Context* context) {
  return __gxx_personality_v0(version, actions, exception_class, exception, context);
}
}
