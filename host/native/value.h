/* OrtValue and the memory under it. */
#ifndef EPHOST_NATIVE_VALUE_H_
#define EPHOST_NATIVE_VALUE_H_

#include <stdatomic.h>

#include "abi.h"

/* A block of memory that several values may share. */
typedef struct Buffer {
  atomic_int references;
  void* data;
  size_t nbytes;
  void (*free_data)(struct Buffer* buffer); /* called once, at the last reference; NULL: nothing to free */
  void* context;                            /* for free_data: an OrtAllocator*, a Python object, ... */
  /* data begins where plugins do not expect it, inside a model's file: what they get is a copy, made when the
   * first one asks. In a mapped file, whose pages are not needed after that. */
  bool is_misaligned, is_mapped;
  bool is_foreign; /* the data is a Python object's, which others may read: nothing is written over it */
  _Atomic(void*) aligned; /* that copy, or NULL; from cpu_alloc */
} Buffer;

/* All return NULL without memory. */
Buffer* buffer_from_cpu(size_t nbytes); /* from cpu_alloc */
/* From the allocator; for work on a stream, if there is one and the allocator knows streams. */
Buffer* buffer_from_allocator(OrtAllocator* allocator, size_t nbytes, OrtSyncStream* stream);
/* What an allocator says of itself, for messages: " (Limit=..., InUse=...)", or "". Returns `text`. */
enum { ALLOCATOR_STATE = 256 };
const char* allocator_state(const OrtAllocator* allocator, char text[ALLOCATOR_STATE]);
Buffer* buffer_adopt(void* data, size_t nbytes, void (*free_data)(Buffer*), void* context);
void buffer_retain(Buffer* buffer);
void buffer_release(Buffer* buffer); /* NULL is fine */

/* One element of a string tensor; text is NUL-terminated, may hold NULs before its end, and NULL is "". */
typedef struct StringElement {
  char* text;
  size_t length;
  bool in_block;   /* the text lies in a block of its tensor's or in `inside`, and is not freed alone */
  char inside[15]; /* where a short text may lie: most are, and need no memory of their own then */
} StringElement;

#define VALUE_INLINE_RANK 6

/* ONNX_TYPE_UNKNOWN: no value (an absent optional input, a slot not computed yet).
 * ONNX_TYPE_OPTIONAL: an optional that holds nothing; one that holds something has the type of what it holds.
 * A tensor of strings has StringElement[count] as its data. 4- and 2-bit types are packed, low bits first. */
struct OrtValue {
  ONNXType type;
  /* of a tensor; of the tensors in a sequence, or in an empty optional */
  ONNXTensorElementDataType element_type;
  size_t rank;
  int64_t* dims; /* inline_dims, or heap memory when rank > VALUE_INLINE_RANK */
  int64_t inline_dims[VALUE_INLINE_RANK];
  size_t element_count;
  void* data;     /* NULL only when nbytes is 0 */
  size_t nbytes;  /* bytes of the elements */
  Buffer* buffer; /* what keeps data alive; NULL when somebody else does (a planned arena, the caller) */
  /* where data lives; never NULL for a tensor; borrowed from a longer-lived owner */
  const OrtMemoryInfo* memory_info;
  /* NULL, or the same, when there is no such owner: see value_own_memory_info */
  OrtMemoryInfo* owned_memory_info;
  /* never NULL for sequences: the elements; and maps: two rank 1 tensors, keys and values. From items_new;
   * other values may share them, and nobody changes what is shared. */
  OrtValue** items;
  size_t item_count;
  /* a sequence of maps with the same keys: items are two tensors, the keys and, a row for each map, the
   * values */
  bool is_zipped;
};

size_t element_type_bits(ONNXTensorElementDataType type); /* 0 for strings and undefined */
/* Bytes of a tensor; false when a dimension is negative or the product overflows. count and nbytes may be
 * NULL. A string counts as its StringElement. */
bool tensor_nbytes(ONNXTensorElementDataType type, const int64_t* dims, size_t rank, size_t* count,
                   size_t* nbytes);
/* Few as they are, a loop is quicker than a call. */
static inline bool dims_equal(const int64_t* a, size_t rank_a, const int64_t* b, size_t rank_b) {
  if (rank_a != rank_b) return false;
  for (size_t i = 0; i < rank_a; ++i) {
    if (a[i] != b[i]) return false;
  }
  return true;
}
/* Whether a tensor's elements are StringElements. */
static inline bool has_strings(const OrtValue* tensor) {
  return tensor->element_type == ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING;
}
/* Make an empty (zeroed) value a tensor over `buffer` (its reference is taken over) or, with buffer NULL,
 * over the borrowed `data`. On false (no memory, bad shape) the value is untouched and the reference still
 * the caller's. */
bool value_init_tensor(OrtValue* value, ONNXTensorElementDataType type, const int64_t* dims, size_t rank,
                       Buffer* buffer, void* data, const OrtMemoryInfo* memory_info);
/* The same for who has the numbers of elements and bytes from tensor_nbytes. */
bool value_init_counted(OrtValue* value, ONNXTensorElementDataType type, const int64_t* dims, size_t rank,
                        size_t count, size_t nbytes, Buffer* buffer, void* data,
                        const OrtMemoryInfo* memory_info);
/* The same over new memory: of the allocator, or of the CPU for NULL and for (empty) strings. */
bool value_alloc_tensor(OrtValue* value, ONNXTensorElementDataType type, const int64_t* dims, size_t rank,
                        OrtAllocator* allocator);
/* Gives a tensor a memory info of its own when the one that it borrows may go first. False without memory. */
bool value_own_memory_info(OrtValue* value);
void value_clear(OrtValue* value);             /* drop what it holds; it is then ONNX_TYPE_UNKNOWN */
void value_move(OrtValue* to, OrtValue* from); /* `to` must be clear; `from` is clear afterwards */
/* `to` must be clear; shares buffers; false without memory; false too when `from` borrows its data (no
 * buffer) */
bool value_share(OrtValue* to, const OrtValue* from);
/* on the heap, clear; ReleaseValue frees it; NULL without memory */
OrtValue* value_new(void);

/* As value_share, but a tensor's data is copied into new memory: only CPU memory to CPU memory. */
bool value_copy(OrtValue* to, const OrtValue* from, OrtAllocator* allocator);
/* As value_share, but a tensor that borrows its data is copied. */
bool value_keep(OrtValue* to, const OrtValue* from);
/* NULL when the element type is one, and the shape is that of a tensor that can be. count and nbytes may be
 * NULL. */
OrtStatus* tensor_shape_check(const char* function, ONNXTensorElementDataType type, const int64_t* dims,
                              size_t rank, size_t* count, size_t* nbytes);

typedef void (*ReleaseCallback)(void* owner);

/* ---- value_strings.c ---- */

/* StringElement[count], all empty; frees the texts; NULL without memory */
Buffer* buffer_for_strings(size_t count);
/* Texts one after the other on their way into a new tensor, in one block of memory. Clear: zeros. */
typedef struct StringBlock {
  char* characters;
  size_t used, capacity;
} StringBlock;
/* Appends the next text. False without memory. */
bool string_block_append(StringBlock* block, const char* text, size_t length);
/* The tensor of the allocator's that has these texts, whose lengths its elements hold already: from here on
 * the block is the tensor's. */
void string_block_give(StringBlock* block, OrtValue* value);
void string_block_drop(StringBlock* block);
/* copies; false without memory */
bool string_element_set(StringElement* element, const char* text, size_t length);
bool copy_strings(StringElement* to, const StringElement* from, size_t count);

/* ---- value_containers.c ---- */

/* Room for the items of one value: `count` times NULL. NULL without memory. */
OrtValue** items_new(size_t count);
bool items_are_shared(OrtValue* const* items);
/* The same items, of which nobody has a share, with room for at least `count`. NULL without memory: nothing
 * is changed then. */
OrtValue** items_grow(OrtValue** items, size_t count);
void items_retain(OrtValue** items);
void items_release(OrtValue** items, size_t count); /* with those that are not NULL; NULL is fine */
/* Make a clear value a sequence or a map that shares (or copies, where they borrow) the items' data. */
bool value_init_items(OrtValue* value, ONNXType type, ONNXTensorElementDataType element_type,
                      const OrtValue* const* items, size_t count);
/* How many items a sequence or a map has, also a zipped one. */
size_t value_item_count(const OrtValue* value);
/* Makes a clear value a map that shares the keys and one row of a zipped sequence's values. */
bool value_unzip(OrtValue* map, const OrtValue* sequence, size_t index);

#endif
