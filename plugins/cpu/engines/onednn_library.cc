#include "cpu/engines/onednn_library.h"

#include <dlfcn.h>

#include <string>

#include "cpu/operator.h"
#include "cpu/runtime/code_pages.h"

namespace ephost::cpu::dnn {

namespace {

// An empty library that needs this one and then oneDNN's: the loader looks for what oneDNN needs in that
// order, so that oneDNN finds the plugin's functions of OpenMP (openmp.cc) before those of libgomp. It lies
// beside this library, whose run path names that folder.
void* load() {
  constexpr const char* kName = "libcpu_onednn.so";
  void* const library = ::dlopen(kName, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) {
    const char* const why = ::dlerror();
    fail(std::string("oneDNN, which this node runs on, cannot be loaded: ") + (why != nullptr ? why : kName));
  }
  if (const void* const code = ::dlsym(library, "dnnl_version"); code != nullptr) {
    let_go_of_code(code);
  }
  return library;
}

}  // namespace

void* symbol(const char* name) {
  static void* const library = load();
  void* const found = ::dlsym(library, name);
  if (found == nullptr) {
    fail(std::string("oneDNN's library has no function ") + name);
  }
  return found;
}

}  // namespace ephost::cpu::dnn
