/* cc.exe and c++.exe for tests in wine that compile plugins: the script `compiler`, run by the system under
 * wine, with the name that this program has and its arguments. Programs of that system get no pipes of
 * wine's, so what the script writes goes through a file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>

typedef LONG(WINAPI* Spawn)(char* const argv[], int wait);
typedef char*(CDECL* UnixName)(const WCHAR* path);

int main(int argc, char** argv) {
  Spawn spawn = (Spawn)(void*)GetProcAddress(GetModuleHandleW(L"ntdll.dll"), "__wine_unix_spawnvp");
  UnixName unix_name =
      (UnixName)(void*)GetProcAddress(GetModuleHandleW(L"kernel32.dll"), "wine_get_unix_file_name");
  WCHAR folder[MAX_PATH], file[MAX_PATH];
  if (spawn == NULL || unix_name == NULL) {
    fprintf(stderr, "%s runs in wine alone\n", argv[0]);
    return 127;
  }
  if (GetTempPathW(MAX_PATH, folder) == 0 || GetTempFileNameW(folder, L"cc", 0, file) == 0) return 127;
  char* log = unix_name(file);
  char** command = calloc((size_t)argc + 4, sizeof *command);
  if (log == NULL || command == NULL) return 127;
  char script[] = SCRIPT;
  command[0] = script;
  command[1] = log;
  command[2] = strstr(argv[0], "++") != NULL ? "g++" : "gcc";
  for (int i = 1; i < argc; ++i) command[i + 2] = argv[i];
  int status = (int)spawn(command, 1);
  FILE* said = _wfopen(file, L"rb");
  for (int c; said != NULL && (c = getc(said)) != EOF;) putc(c, stderr);
  if (said != NULL) fclose(said);
  DeleteFileW(file);
  return status;
}
