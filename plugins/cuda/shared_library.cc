#include "cuda/shared_library.h"

#ifdef _WIN32
#define NOMINMAX
#include <windows.h>
#else
#include <dlfcn.h>
#endif

#include <cstdlib>

namespace ephost::cuda {

#ifdef _WIN32
bool SharedLibrary::open(const std::string& name) {
  handle_ = reinterpret_cast<void*>(LoadLibraryA(name.c_str()));
  name_ = name;
  why_ = handle_ == nullptr ? name + " cannot be loaded: error " + std::to_string(GetLastError()) : "";
  return handle_ != nullptr;
}

void* SharedLibrary::find(const char* symbol) const {
  return reinterpret_cast<void*>(GetProcAddress(reinterpret_cast<HMODULE>(handle_), symbol));
}

SharedLibrary::~SharedLibrary() {
  if (handle_ != nullptr) {
    FreeLibrary(reinterpret_cast<HMODULE>(handle_));
  }
}

std::string own_folder() {
  HMODULE module = nullptr;
  char path[MAX_PATH];
  const DWORD flags = GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT;
  if (!GetModuleHandleExA(flags, reinterpret_cast<LPCSTR>(&own_folder), &module)) {
    return "";
  }
  const DWORD length = GetModuleFileNameA(module, path, MAX_PATH);
  const std::string file(path, length);
  return length == 0 || length == MAX_PATH ? "" : file.substr(0, file.find_last_of("/\\"));
}
#else
/* NVIDIA's libraries start threads that go on when nobody uses the library any more: their code stays. */
bool SharedLibrary::open(const std::string& name) {
  handle_ = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  name_ = name;
  const char* error = handle_ == nullptr ? dlerror() : nullptr;
  why_ = error == nullptr ? "" : error;
  return handle_ != nullptr;
}

void* SharedLibrary::find(const char* symbol) const { return dlsym(handle_, symbol); }

SharedLibrary::~SharedLibrary() {
  if (handle_ != nullptr) {
    dlclose(handle_);
  }
}

std::string own_folder() {
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(&own_folder), &info) == 0 || info.dli_fname == nullptr) {
    return "";
  }
  const std::string file(info.dli_fname);
  const size_t slash = file.find_last_of('/');
  return slash == std::string::npos ? "." : file.substr(0, slash);
}
#endif

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace ephost::cuda
