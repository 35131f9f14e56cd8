/* Memory that two processes map: one sparse file in memory, of which blocks are given out by the host.
 *
 * What is known of blocks lies in the host's own memory, out of the worker's reach. Blocks have sizes of
 * classes, four between two powers of two; a freed one waits in its class. Once more waits than a limit, the
 * system gets its pages back: those that lie in the block whole, for its pages may be larger than the pool's.
 *
 * The file is as long as what was given out, in steps: all of its addresses are mapped, but a process that
 * locks its memory (mlockall) is given no pages behind the file's end. */
#define _GNU_SOURCE
#include "isolation.h"

#ifndef _WIN32
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "abi.h"
#include "heap.h"
#include "memory.h"
#include "status.h"

enum { PAGE = 4096, CLASSES_PER_DOUBLING = 4, CLASS_COUNT = 160, KEPT_BYTES = 64 << 20, STEP = 16 << 20 };

typedef struct FreeBlock {
  struct FreeBlock* next;
  uint64_t page;
} FreeBlock;

struct SharedPool {
  OrtAllocator allocator; /* the first: what is handed out */
  atomic_size_t references;
  char* base;
  uint64_t nbytes;
  int file;
  Mutex lock;
  uint64_t file_bytes; /* how long it is; behind it nobody may read or write */
  uint64_t used_pages; /* from the start; what lies behind was never given out */
  uint8_t* classes;    /* of each page that begins a block that is given out: its class + 1 */
  FreeBlock* free_blocks[CLASS_COUNT];
  FreeBlock* spare; /* unused links */
  size_t in_use, waiting;
  atomic_size_t refused; /* bytes that were asked for last and did not fit */
};

static unsigned class_of(uint64_t pages, uint64_t* rounded) {
  unsigned found = 0;
  uint64_t size = 1, step = 1;
  while (size < pages && found < CLASS_COUNT) {
    if (size >= (uint64_t)CLASSES_PER_DOUBLING * 2 * step) step *= 2;
    size += step;
    ++found;
  }
  *rounded = size;
  return found;
}

/* Makes the file so long, and a step longer where it may be. */
static bool reach(SharedPool* pool, uint64_t nbytes) {
  if (nbytes <= pool->file_bytes) return true;
  uint64_t more = pool->nbytes - nbytes > STEP ? nbytes + STEP : pool->nbytes;
  if (ftruncate(pool->file, (off_t)more) != 0) {
    more = nbytes;
    if (ftruncate(pool->file, (off_t)more) != 0) return false;
  }
  pool->file_bytes = more;
  return true;
}

void* pool_alloc(SharedPool* pool, size_t nbytes) {
  uint64_t pages = 0;
  if (nbytes > pool->nbytes) {
    atomic_store(&pool->refused, nbytes);
    return NULL;
  }
  unsigned class = class_of(nbytes ? (nbytes + PAGE - 1) / PAGE : 1, &pages);
  if (class >= CLASS_COUNT || host_allocation_fails()) return NULL;
  uint64_t page = UINT64_MAX;
  mutex_lock(&pool->lock);
  FreeBlock* block = pool->free_blocks[class];
  if (block != NULL) {
    pool->free_blocks[class] = block->next;
    page = block->page;
    block->next = pool->spare;
    pool->spare = block;
    size_t waited = pages * PAGE;
    pool->waiting -= waited < pool->waiting ? waited : pool->waiting;
  } else if (pages <= pool->nbytes / PAGE - pool->used_pages &&
             reach(pool, (pool->used_pages + pages) * PAGE)) {
    page = pool->used_pages;
    pool->used_pages += pages;
  }
  if (page != UINT64_MAX) {
    pool->classes[page] = (uint8_t)(class + 1);
    pool->in_use += pages * PAGE;
  }
  mutex_unlock(&pool->lock);
  if (page == UINT64_MAX) {
    atomic_store(&pool->refused, nbytes);
    return NULL;
  }
  pool_retain(pool);
  return pool->base + page * PAGE;
}

static uint64_t pages_of(unsigned class) {
  uint64_t size = 1, step = 1;
  for (unsigned at = 0; at < class; ++at) {
    if (size >= (uint64_t)CLASSES_PER_DOUBLING * 2 * step) step *= 2;
    size += step;
  }
  return size;
}

void pool_free(SharedPool* pool, void* block) {
  if (block == NULL) return;
  uint64_t page = (uint64_t)((char*)block - pool->base) / PAGE;
  mutex_lock(&pool->lock);
  unsigned class = (unsigned)pool->classes[page] - 1;
  uint64_t nbytes = pages_of(class) * PAGE;
  pool->classes[page] = 0;
  pool->in_use -= nbytes;
  FreeBlock* link = pool->spare;
  if (link != NULL) {
    pool->spare = link->next;
  } else {
    link = host_malloc(sizeof *link);
  }
#ifdef MADV_REMOVE
  if (link == NULL || pool->waiting + nbytes > KEPT_BYTES) {
    uint64_t system_page = (uint64_t)sysconf(_SC_PAGESIZE), first = page * PAGE;
    uint64_t begin = (first + system_page - 1) / system_page * system_page;
    uint64_t end = (first + nbytes) / system_page * system_page;
    if (begin < end) { /* the addresses stay, the memory goes */
      (void)madvise(pool->base + begin, end - begin, MADV_REMOVE);
      nbytes -= end - begin;
    }
  }
#endif
  if (link != NULL) {
    pool->waiting += nbytes;
    link->page = page;
    link->next = pool->free_blocks[class];
    pool->free_blocks[class] = link;
  }
  mutex_unlock(&pool->lock);
  ephost_pool_release(pool);
}

static void* ORT_API_CALL allocator_alloc(OrtAllocator* this_, size_t size) {
  return pool_alloc((SharedPool*)this_, size);
}

static void ORT_API_CALL allocator_free(OrtAllocator* this_, void* block) {
  pool_free((SharedPool*)this_, block);
}

static const OrtMemoryInfo* ORT_API_CALL allocator_info(const OrtAllocator* this_) {
  (void)this_;
  return &ephost_cpu_memory_info;
}

SharedPool* ephost_pool_open(int file, uint64_t nbytes) {
  SharedPool* pool = host_calloc(1, sizeof *pool);
  if (pool == NULL) return NULL;
  nbytes = nbytes / PAGE * PAGE;
  /* The table is as sparse as the file: pages of it that nobody touches take no memory. */
  void* classes =
      mmap(NULL, nbytes / PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  void* base = mmap(NULL, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
  if (classes == MAP_FAILED || base == MAP_FAILED) {
    if (classes != MAP_FAILED) (void)munmap(classes, nbytes / PAGE);
    if (base != MAP_FAILED) (void)munmap(base, nbytes);
    host_free(pool);
    return NULL;
  }
  pool->allocator.version = EPHOST_API_VERSION_SERVED;
  pool->allocator.Alloc = allocator_alloc;
  pool->allocator.Free = allocator_free;
  pool->allocator.Info = allocator_info;
  pool->base = base;
  pool->nbytes = nbytes;
  pool->file = file;
  struct stat about;
  pool->file_bytes = fstat(file, &about) == 0 ? (uint64_t)about.st_size : 0;
  (void)fcntl(file, F_SETFD, FD_CLOEXEC);
  pool->classes = classes;
  atomic_init(&pool->references, 1);
  mutex_init(&pool->lock);
  handle_count(HANDLE_OTHER, +1);
  return pool;
}

void pool_retain(SharedPool* pool) { atomic_fetch_add(&pool->references, 1); }

static void free_links(FreeBlock* link) {
  while (link != NULL) {
    FreeBlock* next = link->next;
    host_free(link);
    link = next;
  }
}

void ephost_pool_release(SharedPool* pool) {
  if (pool == NULL || atomic_fetch_sub(&pool->references, 1) != 1) return;
  for (size_t i = 0; i < CLASS_COUNT; ++i) free_links(pool->free_blocks[i]);
  free_links(pool->spare);
  (void)munmap(pool->base, pool->nbytes);
  (void)munmap(pool->classes, pool->nbytes / PAGE);
  (void)close(pool->file);
  mutex_destroy(&pool->lock);
  handle_count(HANDLE_OTHER, -1);
  host_free(pool);
}

OrtAllocator* ephost_pool_allocator(SharedPool* pool) { return &pool->allocator; }

OrtStatus* pool_say_why(SharedPool* pool, OrtStatus* status) {
  size_t refused = atomic_exchange(&pool->refused, 0);
  if (status == NULL || refused == 0) return status;
  struct rlimit most;
  bool is_limited = getrlimit(RLIMIT_FSIZE, &most) == 0 && most.rlim_cur < pool->nbytes;
  unsigned long long room = is_limited ? most.rlim_cur : pool->nbytes;
  OrtStatus* told = status_new(
      status->code,
      "%zu bytes find no room in the %llu bytes that are shared with an isolated "
      "plugin's process (%s): %s",
      refused, room,
      is_limited ? "the limit of a file's size, ulimit -f, holds for them" : "the setting shared_bytes",
      status->message);
  ephost_api.ReleaseStatus(status);
  return told;
}

size_t ephost_pool_in_use(SharedPool* pool) {
  mutex_lock(&pool->lock);
  size_t in_use = pool->in_use;
  mutex_unlock(&pool->lock);
  return in_use;
}

bool pool_offset(const SharedPool* pool, const void* data, size_t nbytes, uint64_t* offset) {
  uintptr_t at = (uintptr_t)data, base = (uintptr_t)pool->base;
  if (at < base || nbytes > pool->nbytes || at - base > pool->nbytes - nbytes) return false;
  *offset = at - base;
  return true;
}

void* pool_at(const SharedPool* pool, uint64_t offset, uint64_t nbytes) {
  return nbytes <= pool->nbytes && offset <= pool->nbytes - nbytes ? pool->base + offset : NULL;
}
#else
SharedPool* ephost_pool_open(int file, uint64_t nbytes) {
  (void)file, (void)nbytes;
  return NULL; /* Python says that isolation is not there yet */
}
void ephost_pool_release(SharedPool* pool) { (void)pool; }
void pool_retain(SharedPool* pool) { (void)pool; }
OrtAllocator* ephost_pool_allocator(SharedPool* pool) {
  (void)pool;
  return NULL;
}
size_t ephost_pool_in_use(SharedPool* pool) {
  (void)pool;
  return 0;
}
#endif
