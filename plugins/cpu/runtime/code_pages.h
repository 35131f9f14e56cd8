// The pages of code and constant data that this process holds of a library.
#ifndef EPHOST_CPU_RUNTIME_CODE_PAGES_H_
#define EPHOST_CPU_RUNTIME_CODE_PAGES_H_

namespace ephost::cpu {

// Lets go of those of the library that this code is of, for when little of what was read lately will be read
// again: the constructors of oneDNN's hundreds of source files touch 11 MB of it. The pages stay in the
// system's cache of the file and come back one by one as they are needed; other threads may run meanwhile.
// Does nothing where that is not known to be safe.
void let_go_of_code(const void* code);

}  // namespace ephost::cpu

#endif
