#include "cuda/libraries.h"

#include <vector>

#include "cuda/blas.h"
#include "cuda/dnn.h"

namespace ephost::cuda {

bool open_nvidia_library(SharedLibrary* library, const char* variable, const char* package, const char* name,
                         const char* version, std::string* why) {
  why->clear();
  const std::string chosen = environment(variable);
  if (!chosen.empty()) {
    if (library->open(chosen)) {
      return true;
    }
    *why = library->why();
    return false;
  }
#ifdef _WIN32
  const std::string file = std::string(name) + "64_" + version + ".dll", folder = "/bin/";
#else
  const std::string file = std::string("lib") + name + ".so." + version, folder = "/lib/";
#endif
  /* By its name first: one that another package has opened already, or that the system knows. Then NVIDIA's
   * wheels, which lie in site-packages, as we do in ephost/plugins/cuda. */
  std::vector<std::string> places = {file};
  const std::string site = own_folder();
  if (!site.empty()) {
    places.push_back(site + "/../../../nvidia/" + package + folder + file);
  }
  for (const std::string& place : places) {
    if (library->open(place)) {
      return true;
    }
  }
  *why = "there is no " + file + " (pip install \"ephost[cuda]\" brings it; " + variable + " names another)";
  return false;
}

Libraries::Libraries(Device& device) : device_(device) {}

Libraries::~Libraries() {
  if (blas_ != nullptr || dnn_ != nullptr) {
    const Scope scope(device_, std::nothrow);
    blas_.reset();
    dnn_.reset();
  }
}

Blas* Libraries::blas() {
  const std::lock_guard<std::mutex> hold(lock_);
  if (!tried_blas_) {
    tried_blas_ = true;
    blas_ = Blas::open(&why_no_blas_);
  }
  return blas_.get();
}

Dnn* Libraries::dnn() {
  const std::lock_guard<std::mutex> hold(lock_);
  if (!tried_dnn_) {
    tried_dnn_ = true;
    dnn_ = Dnn::open(&why_no_dnn_);
  }
  return dnn_.get();
}

}  // namespace ephost::cuda
