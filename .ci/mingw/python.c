/* python.exe for a python311.dll that came without one. */
#include <stdio.h>
#include <windows.h>

typedef int (*Main)(int, wchar_t**);

int wmain(int argc, wchar_t** argv) {
  HMODULE python = LoadLibraryW(L"python311.dll");
  FARPROC found = python ? GetProcAddress(python, "Py_Main") : NULL;
  if (!found) {
    fprintf(stderr, "python311.dll: error %lu\n", GetLastError());
    return 127;
  }
  return ((Main)(void*)found)(argc, argv);
}
