// com.microsoft's MurmurHash3: the 32-bit hash of Austin Appleby's MurmurHash3 for x86, of each element.
#include <bit>
#include <cstring>

#include "cpu/operator.h"
#include "toolkit/dispatch.h"
#include "toolkit/text.h"

namespace ephost::cpu {
namespace {

constexpr Types kHashed{DType::kInt32, DType::kUint32, DType::kInt64, DType::kUint64,
                        DType::kFloat, DType::kDouble, DType::kString};

uint32_t murmur(std::string_view bytes, uint32_t seed) {
  constexpr uint32_t kFirst = 0xcc9e2d51, kSecond = 0x1b873593;
  const auto mixed = [](uint32_t word) { return std::rotl(word * kFirst, 15) * kSecond; };
  uint32_t hash = seed;
  size_t at = 0;
  for (; at + 4 <= bytes.size(); at += 4) {
    uint32_t word = 0;
    for (size_t i = 0; i < 4; ++i) word |= uint32_t{static_cast<uint8_t>(bytes[at + i])} << 8 * i;
    hash = std::rotl(hash ^ mixed(word), 13) * 5 + 0xe6546b64;
  }
  uint32_t rest = 0;
  for (size_t i = 0; at + i < bytes.size(); ++i) {
    rest |= uint32_t{static_cast<uint8_t>(bytes[at + i])} << 8 * i;
  }
  hash ^= mixed(rest) ^ static_cast<uint32_t>(bytes.size());
  hash = (hash ^ hash >> 16) * 0x85ebca6b;
  hash = (hash ^ hash >> 13) * 0xc2b2ae35;
  return hash ^ hash >> 16;
}

Kernel hashes(Prepare& p) {
  const DType type = p.type(0);
  const int64_t n =
      p.out(0, p.node.i("positive", 1) == 1 ? DType::kUint32 : DType::kInt32, p.dims(0)).count();
  const auto seed = static_cast<uint32_t>(p.node.i("seed", 0));
  return [=](const Args& args) {
    uint32_t* const y = args.out<uint32_t>();
    const auto hash_all = [&](const auto& bytes_of) {
      parallel_for(n, kGrain / 16, [&](int64_t i, int64_t end) {
        for (; i < end; ++i) y[i] = murmur(bytes_of(i), seed);
      });
    };
    if (type == DType::kString) return hash_all([&](int64_t i) { return args.in<Text>(0)[i].view(); });
    const size_t size = size_of(type);
    hash_all(
        [&](int64_t i) { return std::string_view(args.in<char>(0) + static_cast<size_t>(i) * size, size); });
  };
}

}  // namespace

const Registration registration([](Registry* registry) {
  registry->add({.domain = "com.microsoft", .type = "MurmurHash3", .prepare = hashes, .types = kHashed});
});

}  // namespace ephost::cpu
