// Random calls of SmallVector and of std::vector, which must agree after each. Prints what did not, or
// nothing.
#include <cstdint>
#include <cstdio>
#include <random>
#include <utility>

#include "toolkit/small_vector.h"

namespace {

using Small = ephost::SmallVector<int64_t, 3>;
using Plain = std::vector<int64_t>;

struct Pair {
  Small small;
  Plain plain;

  bool same() const {
    return small.size() == plain.size() && small.empty() == plain.empty() &&
           std::equal(small.begin(), small.end(), plain.begin()) &&
           std::equal(small.rbegin(), small.rend(), plain.rbegin());
  }
};

class Calls {
 public:
  explicit Calls(unsigned seed) : random_(seed) {}

  // The name of what was called.
  const char* one(Pair* a, Pair* b) {
    const size_t n = a->plain.size();
    const auto at = static_cast<ptrdiff_t>(below(n + 1));
    const auto place = [&](auto& list) { return list.begin() + at; };
    const int64_t number = static_cast<int64_t>(below(100));
    const size_t count = below(6);
    switch (below(16)) {
      case 0:
        a->small.push_back(number);
        a->plain.push_back(number);
        return "push_back";
      case 1:
        if (n > 0) a->small.push_back(a->small[0]), a->plain.push_back(Plain(a->plain)[0]);
        return "push_back of its own";
      case 2:
        a->small.emplace_back() = number;
        a->plain.emplace_back() = number;
        return "emplace_back";
      case 3:
        if (n > 0) a->small.pop_back(), a->plain.pop_back();
        return "pop_back";
      case 4:
        a->small.resize(count, number);
        a->plain.resize(count, number);
        return "resize";
      case 5:
        a->small.insert(place(a->small), number);
        a->plain.insert(place(a->plain), number);
        return "insert";
      case 6:
        a->small.insert(place(a->small), count, number);
        a->plain.insert(place(a->plain), count, number);
        return "insert of some";
      case 7:
        a->small.insert(place(a->small), b->small.begin(), b->small.end());
        a->plain.insert(place(a->plain), b->plain.begin(), b->plain.end());
        return "insert of a range";
      case 8:
        if (static_cast<size_t>(at) < n) a->small.erase(place(a->small)), a->plain.erase(place(a->plain));
        return "erase";
      case 9:
        a->small.erase(place(a->small), a->small.end());
        a->plain.erase(place(a->plain), a->plain.end());
        return "erase of a range";
      case 10:
        a->small.assign(count, number);
        a->plain.assign(count, number);
        return "assign";
      case 11:
        a->small = b->small;
        a->plain = b->plain;
        return "copy";
      case 12:
        a->small = std::move(b->small);
        a->plain = std::exchange(b->plain, {});
        return "move";
      case 13:
        std::swap(a->small, b->small);
        std::swap(a->plain, b->plain);
        return "swap";
      case 14: {
        Small copied(a->small), moved(std::move(copied)), ranged(a->plain.begin(), a->plain.end());
        if (moved != a->small || ranged != Small(a->plain) || (a->small < b->small) != (a->plain < b->plain))
          a->small.clear();
        return "constructors and comparisons";
      }
      default:
        a->small = {number, 1, 2, 3};
        a->plain = {number, 1, 2, 3};
        return "a list";
    }
  }

 private:
  size_t below(size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random_); }
  std::mt19937 random_;
};

}  // namespace

int main() {
  for (unsigned seed = 0; seed < 200; ++seed) {
    Calls calls(seed);
    Pair a, b;
    for (int i = 0; i < 300; ++i) {
      const char* called = i % 3 == 2 ? calls.one(&b, &a) : calls.one(&a, &b);
      if (!a.same() || !b.same()) {
        std::printf("seed %u, call %d: %s\n", seed, i, called);
        return 1;
      }
    }
  }
  try {
    Small{1, 2}.at(2) = 0;
    std::printf("a place behind the end\n");
    return 1;
  } catch (const std::out_of_range&) {
    return 0;
  }
}
