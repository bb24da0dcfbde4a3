// Lets an addon built on a new system load on an older one (glibc 2.31, libstdc++ of GCC 10): what newer
// headers make the compiler call, and older libraries do not have, is defined here and hidden. Together with
// the stub libraries of csrc/gyp/glibc_stubs.js this keeps the floor; csrc/gyp/prebuild.js checks it.
#include <new>

extern "C" {
// glibc 2.32 tells libstdc++'s shared_ptr whether the process has a single thread. Node never has.
__attribute__((visibility("hidden"))) char __libc_single_threaded = 0;
}

namespace std {
// GCC 11's containers call this when a size overflows.
[[noreturn]] __attribute__((visibility("hidden"))) void __throw_bad_array_new_length() {
  throw bad_array_new_length();
}
}  // namespace std
