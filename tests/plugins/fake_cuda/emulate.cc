#include "emulate.h"

#include <ucontext.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace emulate {

Place place;

namespace {

[[noreturn]] void die(const std::string& text) {
  (void)std::fprintf(stderr, "emulate: %s\n", text.c_str());
  std::abort();
}

std::map<std::string, Entry>& entries() {
  static std::map<std::string, Entry> all;
  return all;
}

constexpr size_t kStack = 64 * 1024;

struct Barrier {
  unsigned arrived = 0, generation = 0;
};

struct Fiber {
  ucontext_t context;
  std::unique_ptr<char[]> stack{new char[kStack]};
  uint3 thread;
  bool done;
  Barrier* waits;
  unsigned generation;
};

/* The block that runs, when its kernel is cooperative. */
struct Block {
  std::vector<Fiber> fibers;
  size_t current = 0, count = 0;
  Barrier all;
  std::vector<Barrier> warps;
  std::vector<unsigned char> slots; /* 16 bytes for each thread */
  ucontext_t scheduler;
  const std::function<void()>* thread = nullptr;
  bool running = false;
} block;

void fiber_main() {
  (*block.thread)();
  block.fibers[block.current].done = true;
  swapcontext(&block.fibers[block.current].context, &block.scheduler);
}

size_t number_of(const uint3& t) {
  return t.x + static_cast<size_t>(place.threads.x) * (t.y + static_cast<size_t>(place.threads.y) * t.z);
}

/* Threads that have ended count as arrived, as on the device. */
size_t ended(size_t first, size_t last) {
  size_t count = 0;
  for (size_t i = first; i < last; ++i) {
    count += block.fibers[i].done;
  }
  return count;
}

void wait_at(Barrier& barrier, size_t first, size_t last) {
  if (!block.running) {
    die("a kernel that is not cooperative has a barrier");
  }
  Fiber& own = block.fibers[block.current];
  const unsigned generation = barrier.generation;
  ++barrier.arrived;
  while (barrier.generation == generation) {
    if (barrier.arrived + ended(first, last) == last - first) {
      barrier.arrived = 0;
      ++barrier.generation;
      break;
    }
    own.waits = &barrier;
    own.generation = generation;
    swapcontext(&own.context, &block.scheduler);
  }
  own.waits = nullptr;
}

void run_block() {
  for (size_t i = 0; i < block.count; ++i) {
    Fiber& fiber = block.fibers[i];
    fiber.done = false;
    fiber.waits = nullptr;
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.get();
    fiber.context.uc_stack.ss_size = kStack;
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, fiber_main, 0);
  }
  size_t left = block.count;
  for (size_t idle = 0; left > 0; ++idle) {
    if (idle > 2) {
      die("the threads of a block wait for each other at different barriers");
    }
    for (size_t i = 0; i < block.count; ++i) {
      Fiber& fiber = block.fibers[i];
      if (fiber.done) {
        continue;
      }
      const bool blocked = fiber.waits != nullptr && fiber.waits->generation == fiber.generation;
      block.current = i;
      place.thread = fiber.thread;
      swapcontext(&block.scheduler, &fiber.context);
      left -= fiber.done;
      const bool still = !fiber.done && fiber.waits != nullptr && fiber.waits->generation == fiber.generation;
      if (!blocked || !still) {
        idle = 0;
      }
    }
  }
}

}  // namespace

void block_barrier() { wait_at(block.all, 0, block.count); }

void warp_barrier() {
  const size_t warp = number_of(place.thread) / 32;
  wait_at(block.warps[warp], warp * 32, std::min(block.count, warp * 32 + 32));
}

void exchange(void* value, size_t size, unsigned from) {
  if (size > 16) {
    die("a shuffle of more than 16 bytes");
  }
  const size_t own = number_of(place.thread);
  const uint3 thread = place.thread;
  if (!block.running) {
    die("a kernel that is not cooperative has a shuffle");
  }
  std::memcpy(&block.slots[own * 16], value, size);
  warp_barrier();
  place.thread = thread;
  const size_t other = own / 32 * 32 + from % 32;
  if (other < block.count) {
    std::memcpy(value, &block.slots[other * 16], size);
  }
  warp_barrier();
  place.thread = thread;
}

void add(Entry entry) {
  const std::string name = entry.name;
  if (!entries().emplace(name, std::move(entry)).second) {
    die("two kernels are called " + name);
  }
}

const Entry* find(const char* name) {
  const auto found = entries().find(name);
  return found == entries().end() ? nullptr : &found->second;
}

void launch(const Entry& entry, const std::function<void()>& thread, dim3 blocks, dim3 threads) {
  place.blocks = blocks;
  place.threads = threads;
  block.count = static_cast<size_t>(threads.x) * threads.y * threads.z;
  if (entry.cooperative) {
    if (block.fibers.size() < block.count) {
      block.fibers.resize(block.count);
      block.slots.resize(block.count * 16);
    }
    block.warps.assign((block.count + 31) / 32, Barrier());
    block.all = Barrier();
    block.thread = &thread;
    block.running = true;
  }
  for (unsigned z = 0; z < blocks.z; ++z) {
    for (unsigned y = 0; y < blocks.y; ++y) {
      for (unsigned x = 0; x < blocks.x; ++x) {
        place.block = {x, y, z};
        size_t i = 0;
        for (unsigned c = 0; c < threads.z; ++c) {
          for (unsigned b = 0; b < threads.y; ++b) {
            for (unsigned a = 0; a < threads.x; ++a, ++i) {
              if (entry.cooperative) {
                block.fibers[i].thread = {a, b, c};
              } else {
                place.thread = {a, b, c};
                thread();
              }
            }
          }
        }
        if (entry.cooperative) {
          run_block();
        }
      }
    }
  }
  block.running = false;
}

}  // namespace emulate
