/* Opening a plugin's library: privately, with every symbol resolved now, so that what is missing is known
 * here. */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "python.h"

#ifdef _WIN32
#define WIN32_LEAN_AND_MEAN
#include <wchar.h>
#include <windows.h>

/* The system's words for GetLastError(), in UTF-8 and on one line. */
static void last_error(char* error, size_t size) {
  DWORD code = GetLastError();
  wchar_t wide[1024];
  DWORD length = FormatMessageW(
      FORMAT_MESSAGE_FROM_SYSTEM | FORMAT_MESSAGE_IGNORE_INSERTS | FORMAT_MESSAGE_MAX_WIDTH_MASK, NULL, code,
      0, wide, sizeof wide / sizeof *wide, NULL);
  while (length > 0 && (wide[length - 1] == L' ' || wide[length - 1] == L'.')) wide[--length] = L'\0';
  if (length > 0 && WideCharToMultiByte(CP_UTF8, 0, wide, -1, error, (int)size, NULL, NULL) > 0) return;
  (void)snprintf(error, size, "error %lu", (unsigned long)code);
}

#define LONGEST_PATH 32768 /* of the system, with the last null */

/* `path` as the system takes it, however long: MAX_PATH characters and more need a prefix that turns off what
 * the system else does to a path, so that is done here: GetFullPathNameW makes it absolute, with backslashes.
 * What has such a prefix stays as it is; `always` gives it to short ones, too. False, with GetLastError set,
 * if it is no path, or too long. */
static bool system_path(const char* path, bool always, wchar_t* out) {
  const wchar_t kDrive[] = L"\\\\?\\", kShare[] = L"\\\\?\\UNC\\";
  wchar_t wide[LONGEST_PATH], full[LONGEST_PATH];
  if (!MultiByteToWideChar(CP_UTF8, 0, path, -1, wide, LONGEST_PATH)) return false;
  DWORD length = GetFullPathNameW(wide, LONGEST_PATH, full, NULL);
  if (length == 0) return false;
  const bool is_share = wcsncmp(full, L"\\\\", 2) == 0;
  const bool is_plain = wcsncmp(full, kDrive, 4) != 0 && wcsncmp(full, L"\\\\.\\", 4) != 0;
  const wchar_t* prefix = L"";
  const wchar_t* rest = full;
  if (is_plain && (always || length >= MAX_PATH)) {
    prefix = is_share ? kShare : kDrive;
    if (is_share) rest += 2;
  }
  if (length >= LONGEST_PATH || wcslen(prefix) + wcslen(rest) >= LONGEST_PATH) {
    SetLastError(ERROR_FILENAME_EXCED_RANGE);
    return false;
  }
  wcscpy(out, prefix);
  wcscat(out, rest);
  return true;
}

void* ephost_library_open(const char* path, char* error, size_t error_size) {
  wchar_t wide[LONGEST_PATH];
  HMODULE module = NULL;
  /* Without this the system would ask the user, in a window, what to do about a library that it cannot load.
   */
  DWORD mode = 0;
  BOOL changed = SetThreadErrorMode(SEM_FAILCRITICALERRORS, &mode);
  /* wine takes a share's path for no whole one, unless it has the prefix. */
  for (int prefixed = 0; prefixed < 2 && module == NULL; ++prefixed) {
    if (system_path(path, prefixed == 1, wide)) {
      module =
          LoadLibraryExW(wide, NULL, LOAD_LIBRARY_SEARCH_DEFAULT_DIRS | LOAD_LIBRARY_SEARCH_DLL_LOAD_DIR);
    }
    if (module == NULL && GetLastError() != ERROR_INVALID_PARAMETER) break;
  }
  if (module == NULL) last_error(error, error_size);
  if (changed) (void)SetThreadErrorMode(mode, NULL);
  return module;
}

void* ephost_library_symbol(void* library, const char* name) { return (void*)GetProcAddress(library, name); }

void ephost_library_close(void* library) { FreeLibrary(library); }
#else
#include <dlfcn.h>
#ifdef __linux__
#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#endif

#include "exceptions.h"
#include "forks.h"
#include "isolation.h"
#include "logger.h"

/* Makes the C++ runtime of this process, where there is one, the first in which libraries look for what all
 * C++ runtimes define (`__dynamic_cast`, `__gxx_personality_v0`). Without that, one plugin that opens a
 * library with a runtime of its own for everybody (RTLD_GLOBAL) would have the next plugin use half of each.
 */
static void prefer_own_runtime(void) {
#ifdef RTLD_NOLOAD
  static const char* const kRuntimes[] = {"libstdc++.so.6", "libgcc_s.so.1"};
  static atomic_bool preferred[sizeof kRuntimes / sizeof kRuntimes[0]];
  for (size_t i = 0; i < sizeof kRuntimes / sizeof kRuntimes[0]; ++i) {
    if (atomic_load_explicit(&preferred[i], memory_order_relaxed)) continue;
    /* Never closed: it stays, as it is, until the process ends. */
    if (dlopen(kRuntimes[i], RTLD_LAZY | RTLD_GLOBAL | RTLD_NOLOAD) != NULL)
      atomic_store_explicit(&preferred[i], true, memory_order_relaxed);
  }
#endif
}

/* An exception that leaves a static constructor or destructor leaves the system's loader, too, which then
 * does not give back the lock that it holds meanwhile (glibc 2.36). This thread can go on. A worker ends soon
 * in any case. */
static const char* loader_stays(void) {
  return in_worker() ? ""
                     : "; other threads of this process can load no library any more: end it when you can";
}

void ephost_library_close(void* library) {
  char thrown[1024];
  guard_close(dlclose, library, thrown, sizeof thrown);
  if (thrown[0] == '\0') return;
  host_log(ORT_LOGGING_LEVEL_ERROR, "the static destructors of a plugin library threw %s%s", thrown,
           loader_stays());
}

void* ephost_library_open(const char* path, char* error, size_t error_size) {
  char thrown[1024];
  prefer_own_runtime();
  dlerror();
  const int64_t process = fork_process();
  void* library = guard_open(dlopen, path, RTLD_NOW | RTLD_LOCAL, thrown, sizeof thrown);
  fork_end_child(process, path);
  ephost_worker_check();
  if (thrown[0] != '\0') {
    (void)snprintf(error, error_size, "its static constructors threw %s%s", thrown, loader_stays());
    library =
        dlopen(path, RTLD_LAZY | RTLD_NOLOAD); /* it stayed, half made: once for dlopen, once for this */
    if (library != NULL) ephost_library_close(library);
    if (library != NULL) ephost_library_close(library);
    return NULL;
  }
  if (library == NULL) {
    const char* text = dlerror();
    (void)snprintf(error, error_size, "%s", text != NULL ? text : "unknown error");
  }
  return library;
}

void* ephost_library_symbol(void* library, const char* name) { return dlsym(library, name); }
#endif

#if defined(__linux__) && (defined(__x86_64__) || defined(__aarch64__))
#ifdef __x86_64__
#define OWN_MACHINE EM_X86_64
#else
#define OWN_MACHINE EM_AARCH64
#endif

/* Whether the segments that `head` lists, the file's first bytes, lie within a file of that size. */
static bool is_whole(const char* head, size_t head_size, uint64_t file_size) {
  const Elf64_Ehdr* about = (const Elf64_Ehdr*)(const void*)head;
  if (about->e_phentsize != sizeof(Elf64_Phdr) || about->e_phoff > head_size ||
      about->e_phnum > (head_size - about->e_phoff) / sizeof(Elf64_Phdr))
    return false;
  for (size_t i = 0; i < about->e_phnum; ++i) {
    Elf64_Phdr segment;
    memcpy(&segment, head + about->e_phoff + i * sizeof segment, sizeof segment);
    if (segment.p_type != PT_LOAD) continue;
    if (segment.p_offset > file_size || segment.p_filesz > file_size - segment.p_offset) return false;
  }
  return true;
}

bool ephost_library_is_sound(const char* path) {
  _Alignas(Elf64_Ehdr) char head[4096];
  const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return false;
  struct stat status;
  const ssize_t got =
      fstat(file, &status) == 0 && S_ISREG(status.st_mode) ? read(file, head, sizeof head) : -1;
  (void)close(file);
  const Elf64_Ehdr* about = (const Elf64_Ehdr*)(const void*)head;
  return got >= (ssize_t)sizeof *about && memcmp(about->e_ident, ELFMAG, SELFMAG) == 0 &&
         about->e_ident[EI_CLASS] == ELFCLASS64 && about->e_ident[EI_DATA] == ELFDATA2LSB &&
         about->e_machine == OWN_MACHINE && is_whole(head, (size_t)got, (uint64_t)status.st_size);
}
#else
bool ephost_library_is_sound(const char* path) {
  (void)path;
  return false;
}
#endif
