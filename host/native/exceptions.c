/* C++ exceptions of plugins, caught without a C++ runtime.
 *
 * A plugin may bring a C++ runtime of its own, linked to it or inside of it, and the host must not put
 * another one in front of that: this module is linked to none. But the compiler's code for `catch (...)` in
 * guard.cc needs three functions of one. They are here: a personality that knows catches of everything and
 * cleanups, which is all there is in that file, and the begin and the end of a catch. They are visible only
 * inside of this module.
 *
 * The unwinder (libgcc_s) is one for the process. An exception says by a function pointer of its own which
 * runtime threw it; that runtime is told that the exception is caught, and destroys it. What the exception is
 * and says is read by the layouts that the Itanium C++ ABI prescribes
 * (https://itanium-cxx-abi.github.io/cxx-abi/abi-eh.html#cxx-data, abi.html#rtti-layout), so that it does not
 * matter whose std::exception it is. */
#define _GNU_SOURCE
#include "exceptions.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "heap.h"
#include "isolation.h"
#include "logger.h"
#include "platform.h"
#include "python.h"
#include "status.h"

/* ---- what was thrown, on its way to whoever called ----------------------------------------------------- */

static THREAD_LOCAL char* caught; /* the text of what is being caught; NULL without memory for it */
static THREAD_LOCAL OrtStatus* kept;
/* Of all threads: while it is 0 nobody looks further. What a thread keeps is its own, and its own count it
 * sees in any order. */
static atomic_int kept_count;

static OrtStatus* status_of_caught(const char* function) {
  OrtStatus* status = status_new(ORT_RUNTIME_EXCEPTION, "%s threw %s", function,
                                 caught != NULL ? caught : "an exception (there is no memory to say which)");
  host_free(caught);
  caught = NULL;
  return status;
}

OrtStatus* exception_status(const char* function) { return status_of_caught(function); }

static void keep(OrtStatus* status) {
  if (kept != NULL) {
    ephost_api.ReleaseStatus(status);
    return;
  }
  kept = status;
  atomic_fetch_add(&kept_count, 1);
}

void exception_keep(const char* function) { keep(status_of_caught(function)); }

void ephost_keep_status(OrtStatus* status) { keep(status); }

OrtStatus* missing_status(const char* function) {
  return status_new(ORT_EP_FAIL, "%s is NULL in what the plugin gave", function);
}

void missing_keep(const char* function) { keep(missing_status(function)); }

void exception_log(const char* function) {
  host_log(ORT_LOGGING_LEVEL_ERROR, "%s threw %s", function, caught != NULL ? caught : "an exception");
  host_free(caught);
  caught = NULL;
}

void exception_text(char* text, size_t size) {
  (void)snprintf(text, size, "%s", caught != NULL ? caught : "an exception");
  host_free(caught);
  caught = NULL;
}

OrtStatus* ephost_take_thrown(void) {
  if (atomic_load_explicit(&kept_count, memory_order_relaxed) == 0) return NULL;
  OrtStatus* status = kept;
  if (status != NULL) atomic_fetch_sub(&kept_count, 1);
  kept = NULL;
  return status;
}

OrtStatus* outcome(OrtStatus* status) {
  OrtStatus* thrown = ephost_take_thrown();
  if (thrown == NULL) return status;
  ephost_api.ReleaseStatus(status);
  return thrown;
}

#ifndef EPHOST_CATCHES
bool ephost_catches_exceptions(void) { return false; }
#else
bool ephost_catches_exceptions(void) { return true; }

#include <dlfcn.h>
#include <unwind.h>

/* ---- layouts ------------------------------------------------------------------------------------------- */

/* std::type_info. What kind of type it is about shows in the name of its own type. */
typedef struct TypeInfo {
  const struct TypeInfo* const* vtable; /* [-1]: the type_info of its class */
  const char* name;                     /* mangled; a '*' in front is none of it */
} TypeInfo;

typedef struct SingleBase { /* __si_class_type_info: one public base, at the start */
  TypeInfo type;
  const TypeInfo* base;
} SingleBase;

typedef struct ManyBases { /* __vmi_class_type_info */
  TypeInfo type;
  unsigned flags;
  unsigned count;
  struct {
    const TypeInfo* type;
    long offset_flags; /* the offset, or for a virtual base where it lies in the vtable, above the flags */
  } bases[];
} ManyBases;
enum { BASE_IS_VIRTUAL = 1, BASE_IS_PUBLIC = 2, BASE_OFFSET_SHIFT = 8 };

typedef struct Header { /* __cxa_exception, from what all runtimes have in common on */
  void* type;           /* of a dependent exception (rethrow_exception) the object of the one it is about */
  void* destructor;
  void* unexpected_handler;
  void* terminate_handler;
  void* next;
  int handler_count;
  int handler_switch_value;
  const void* action_record;
  const void* language_data;
  void* catch_temp;
  void* adjusted;
  struct _Unwind_Exception unwind;
} Header;

/* Bytes of an exception's class: those of GNU's runtime and of LLVM's, but for the last. */
#define CLASS_GNU UINT64_C(0x474e5543432b2b)
#define CLASS_LLVM UINT64_C(0x434c4e47432b2b)

static const char* name_of(const TypeInfo* type) {
  return type->name[0] == '*' ? type->name + 1 : type->name;
}

static bool is_of(const TypeInfo* type, const char* kind) {
  return strcmp(name_of(type->vtable[-1]), kind) == 0;
}

/* The std::exception that an object is; NULL for none. Private bases count for no handler either. */
static const void* find_exception(const TypeInfo* type, const char* object) {
  if (strcmp(name_of(type), "St9exception") == 0) return object;
  if (is_of(type, "N10__cxxabiv120__si_class_type_infoE")) {
    return find_exception(((const SingleBase*)type)->base, object);
  }
  if (!is_of(type, "N10__cxxabiv121__vmi_class_type_infoE")) return NULL;
  const ManyBases* many = (const ManyBases*)type;
  for (unsigned i = 0; i < many->count; ++i) {
    long flags = many->bases[i].offset_flags;
    if (!(flags & BASE_IS_PUBLIC)) continue;
    ptrdiff_t offset = flags >> BASE_OFFSET_SHIFT;
    if (flags & BASE_IS_VIRTUAL) memcpy(&offset, *(const char* const*)object + offset, sizeof offset);
    const void* found = find_exception(many->bases[i].type, object + offset);
    if (found != NULL) return found;
  }
  return NULL;
}

static const char* what(const void* exception) {
  typedef const char* (*What)(const void*);
  const What* vtable = *(const What* const*)exception;
  return vtable[2](exception); /* behind the two destructors */
}

/* ---- the runtime that threw ---------------------------------------------------------------------------- */

/* A function of the library that an address is in; NULL when it does not show it. */
static void* neighbour(const void* address, const char* name) {
  Dl_info owner, found;
  if (!dladdr(address, &owner) || owner.dli_fname == NULL) return NULL;
  void* library = dlopen(owner.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  if (library == NULL) return NULL;
  void* function = dlsym(library, name); /* may be one of a library that it needs */
  if (function != NULL && (!dladdr(function, &found) || found.dli_fbase != owner.dli_fbase)) function = NULL;
  (void)dlclose(library);
  return function;
}

static char* described(const TypeInfo* type, const void* object, const void* runtime) {
  typedef char* (*Demangle)(const char*, char*, size_t*, int*);
  Demangle demangle;
  *(void**)&demangle = neighbour(runtime, "__cxa_demangle");
  if (demangle == NULL) *(void**)&demangle = dlsym(RTLD_DEFAULT, "__cxa_demangle"); /* any will do */
  int failed = -1;
  char* plain = demangle != NULL ? demangle(name_of(type), NULL, NULL, &failed) : NULL;
  const char* name = failed == 0 && plain != NULL ? plain : name_of(type);
  const char* text = NULL;
  if (strcmp(name_of(type), "PKc") == 0 || strcmp(name_of(type), "Pc") == 0) {
    text = *(const char* const*)object;
  } else {
    const void* exception = find_exception(type, object);
    if (exception != NULL) text = what(exception);
  }
  size_t size = strlen(name) + (text != NULL ? strlen(text) : 0) + sizeof "an exception of type ";
  char* out = host_malloc(size);
  if (out != NULL && text != NULL) (void)snprintf(out, size, "%s: %s", name, text);
  if (out != NULL && text == NULL) (void)snprintf(out, size, "an exception of type %s", name);
  free(plain);
  return out;
}

/* Whether what a catch is about is the end of the thread (pthread_exit), and not an exception. */
static THREAD_LOCAL bool is_thread_end;

static char* describe(const struct _Unwind_Exception* exception) {
  if (is_thread_end)
    return host_strdup("pthread_exit, which is not for a plugin to call on its host's thread");
  uint64_t kind = exception->exception_class >> 8;
  if (kind != CLASS_GNU && kind != CLASS_LLVM)
    return host_strdup("an exception of another language than C++");
  const Header* header = (const Header*)(const void*)((const char*)exception - offsetof(Header, unwind));
  const void* object = exception + 1;
  if (exception->exception_class & 0xff) {
    object = header->type;
    header = (const Header*)object - 1;
  }
  const void* runtime;
  *(_Unwind_Exception_Cleanup_Fn*)&runtime = exception->exception_cleanup;
  return described(header->type, object, runtime);
}

/* ---- what the compiler's code for `catch (...)` calls ---------------------------------------------------
 */

void* __cxa_begin_catch(void* exception);
void __cxa_end_catch(void);
_Unwind_Reason_Code __gxx_personality_v0(int version, _Unwind_Action actions, _Unwind_Exception_Class kind,
                                         struct _Unwind_Exception* exception,
                                         struct _Unwind_Context* context);

/* Describes the exception, and has its runtime catch and destroy it. One that does not show its functions,
 * since it lies inside of the plugin, can only be asked for the latter: std::uncaught_exceptions() there
 * stays one too high for this thread. */
void* __cxa_begin_catch(void* pointer) {
  struct _Unwind_Exception* exception = pointer;
  uint64_t kind = exception->exception_class >> 8;
  host_free(caught);
  caught = describe(exception);
  if (is_thread_end) { /* the system's own: whoever destroys it ends the process */
    is_thread_end = false;
    return NULL;
  }
  void* (*begin)(void*) = NULL;
  void (*end)(void) = NULL;
  if (kind == CLASS_GNU || kind == CLASS_LLVM) {
    const void* runtime;
    *(_Unwind_Exception_Cleanup_Fn*)&runtime = exception->exception_cleanup;
    *(void**)&begin = neighbour(runtime, "__cxa_begin_catch");
    *(void**)&end = neighbour(runtime, "__cxa_end_catch");
  }
  if (begin != NULL && end != NULL) {
    begin(exception);
    end();
  } else {
    _Unwind_DeleteException(exception);
  }
  return NULL;
}

void __cxa_end_catch(void) {}

static uint64_t read_uleb(const unsigned char** at) {
  uint64_t value = 0;
  unsigned shift = 0;
  unsigned char byte;
  do {
    byte = *(*at)++;
    value |= (uint64_t)(byte & 0x7f) << shift;
    shift += 7;
  } while (byte & 0x80);
  return value;
}

/* A number of a call site, in one of DWARF's encodings (DW_EH_PE_*). */
static uint64_t read_number(const unsigned char** at, unsigned char encoding) {
  uint64_t value = 0;
  size_t size;
  switch (encoding & 0x07) {
    case 0x01:
      return read_uleb(at);
    case 0x02:
      size = 2;
      break;
    case 0x03:
      size = 4;
      break;
    default: /* 8 bytes, or a pointer */
      size = 8;
  }
  memcpy(&value, *at, size); /* little endian */
  *at += size;
  return value;
}

typedef struct Landing {
  uintptr_t address; /* 0: the call has nowhere to land */
  bool catches;      /* else it is a cleanup */
} Landing;

/* Looks the call up that a frame is in. Types of catches need no look: guard.cc catches everything. */
static Landing find_landing(struct _Unwind_Context* context) {
  Landing none = {0, false};
  const unsigned char* at = (const unsigned char*)(uintptr_t)_Unwind_GetLanguageSpecificData(context);
  if (at == NULL) return none;
  int before = 0;
  uintptr_t ip = _Unwind_GetIPInfo(context, &before);
  if (!before) --ip; /* it is the address of return: the call lies before */
  uintptr_t start = _Unwind_GetRegionStart(context);
  uintptr_t landing_start = start;
  unsigned char encoding = *at++;
  if (encoding != 0xff) landing_start = (uintptr_t)read_number(&at, encoding);
  if (*at++ != 0xff) (void)read_uleb(&at); /* where the table of types is */
  encoding = *at++;
  uint64_t length = read_uleb(&at);
  const unsigned char* actions = at + length;
  while (at < actions) {
    uint64_t offset = read_number(&at, encoding);
    uint64_t size = read_number(&at, encoding);
    uint64_t landing = read_number(&at, encoding);
    uint64_t action = read_uleb(&at);
    if (ip < start + offset) break;
    if (ip >= start + offset + size) continue;
    if (landing == 0) return none;
    /* The first record: a filter above 0 is a catch; a signed number, of which one byte is looked at. */
    bool catches = action != 0 && actions[action - 1] != 0 && !(actions[action - 1] & 0x40);
    return (Landing){landing_start + landing, catches};
  }
  return none;
}

_Unwind_Reason_Code __gxx_personality_v0(int version, _Unwind_Action actions, _Unwind_Exception_Class kind,
                                         struct _Unwind_Exception* exception,
                                         struct _Unwind_Context* context) {
  (void)kind;
  if (version != 1) return _URC_FATAL_PHASE1_ERROR;
  Landing landing = find_landing(context);
  if (landing.address == 0) return _URC_CONTINUE_UNWIND;
  if (actions & _UA_SEARCH_PHASE) return landing.catches ? _URC_HANDLER_FOUND : _URC_CONTINUE_UNWIND;
  /* A thread that ends itself (pthread_exit) is not to be held up: Python, when it ends, has its threads do
   * so, and a plugin may with its own. But the host does not go on without its own. */
  if (landing.catches && !(actions & _UA_HANDLER_FRAME)) {
    if (!(actions & _UA_FORCE_UNWIND) || !thread_is_hosts()) return _URC_CONTINUE_UNWIND;
    is_thread_end = true;
  }
  _Unwind_SetGR(context, __builtin_eh_return_data_regno(0), (uintptr_t)exception);
  _Unwind_SetGR(context, __builtin_eh_return_data_regno(1), landing.catches ? 1 : 0);
  _Unwind_SetIP(context, landing.address);
  return _URC_INSTALL_CONTEXT;
}
#endif
