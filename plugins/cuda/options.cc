#include "options.h"

#include "error.h"
#include "pool_account.h"

namespace ephost_cuda {

const std::vector<OptionDefault>& option_defaults() {
  static const std::vector<OptionDefault> kDefaults = {
      {kMemoryLimit, "0"}, {kSynchronize, "0"}, {kTf32, "0"}, {kUserStream, "0"}};
  return kDefaults;
}

size_t read_size(const char* key, const std::string& text) {
  size_t bytes = 0;
  if (!parse_size(text, &bytes)) {
    throw Error(std::string("cuda: the option ") + key +
                    " is a number of bytes, such as 1073741824, 512M or 8G, not '" + text + "'",
                ORT_INVALID_ARGUMENT);
  }
  return bytes;
}

CUstream read_stream(const std::string& text) {
  size_t value = 0;
  const bool digits = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  if (!digits || !parse_size(text, &value)) {
    throw Error(std::string("cuda: the option ") + kUserStream +
                    " is the address of a CUDA stream, in decimal, not '" + text + "'",
                ORT_INVALID_ARGUMENT);
  }
  return reinterpret_cast<CUstream>(value);
}

bool read_switch(const char* key, const std::string& text) {
  if (text != "0" && text != "1") {
    throw Error(std::string("cuda: the option ") + key + " is 0 or 1, not '" + text + "'",
                ORT_INVALID_ARGUMENT);
  }
  return text == "1";
}

void Options::set(const std::string& key, const std::string& value) {
  if (key == kMemoryLimit) {
    memory_limit = read_size(kMemoryLimit, value);
  } else if (key == kUserStream) {
    user_stream = read_stream(value);
  } else if (key == kSynchronize) {
    synchronize_each_step = read_switch(kSynchronize, value);
  } else if (key == kTf32) {
    use_tf32 = read_switch(kTf32, value);
  } else {
    throw Error("cuda: there is no option '" + key + "'", ORT_INVALID_ARGUMENT);
  }
}

}  // namespace ephost_cuda
