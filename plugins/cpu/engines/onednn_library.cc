#include "cpu/engines/onednn_library.h"

#include <dlfcn.h>

#include <string>

#include "cpu/operator.h"
#include "cpu/runtime/code_pages.h"

namespace ephost::cpu::dnn {

namespace {

// The path of a file in this library's folder. A run path would do as well, were dlopen not sometimes called
// by another library in this one's name, whose own run path the loader then takes: the sanitizers' do that.
std::string beside(const char* name) {
  Dl_info own;
  if (::dladdr(reinterpret_cast<void*>(&beside), &own) == 0 || own.dli_fname == nullptr) {
    return name;
  }
  const std::string path(own.dli_fname);
  return path.substr(0, path.find_last_of('/') + 1) + name;
}

// An empty library that needs this one and then oneDNN's: the loader looks for what oneDNN needs in that
// order, so that oneDNN finds the plugin's functions of OpenMP (openmp.cc) before those of libgomp.
void* load() {
  const std::string path = beside("libcpu_onednn.so");
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) {
    const char* const why = ::dlerror();
    fail("oneDNN, which this node runs on, cannot be loaded: " + (why != nullptr ? std::string(why) : path));
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
