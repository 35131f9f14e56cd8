/* Shared libraries that are opened at run time, so that this one loads without them. */
#ifndef EPHOST_CUDA_SHARED_LIBRARY_H_
#define EPHOST_CUDA_SHARED_LIBRARY_H_

#include <string>

namespace ephost::cuda {

class SharedLibrary {
 public:
  SharedLibrary() = default;
  SharedLibrary(const SharedLibrary&) = delete;
  SharedLibrary& operator=(const SharedLibrary&) = delete;
  ~SharedLibrary();

  /* Opens a library by name or path; false, with why() set, if that fails. */
  bool open(const std::string& name);
  /* NULL when it has no such function. */
  void* find(const char* symbol) const;
  bool is_open() const { return handle_ != nullptr; }
  const std::string& name() const { return name_; }
  const std::string& why() const { return why_; }

 private:
  void* handle_ = nullptr;
  std::string name_, why_;
};

/* The folder of the library that this code is in, without a separator at the end; "" if unknown. */
std::string own_folder();

/* An environment variable, "" where it is not set. */
std::string environment(const char* name);

}  // namespace ephost::cuda

#endif
